/* SPDX-License-Identifier: MIT
 *
 * voxel_fixture.h: sets of voxels to test with, and golden tensors.
 */
#ifndef VOXEL_FIXTURE_H
#define VOXEL_FIXTURE_H

#include "support.h"

#include "formats/weights.h"
#include "voxel/voxel.h"

/* xorshift64*: test data only. */
static inline uint32_t test_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * UINT64_C(0x2545f4914f6cdd1d) >> 32);
}

/* Row of a coordinate by looking at all of them. */
static inline int32_t test_find_row(const int32_t *rows, int64_t count, int32_t b, int32_t x, int32_t y, int32_t z)
{
    for (int64_t n = 0; n < count; n++) {
        const int32_t *r = rows + 4 * n;

        if (r[0] == b && r[1] == x && r[2] == y && r[3] == z) return (int32_t)n;
    }
    return -1;
}

/* Up to `count` distinct random rows in [low, low + side)^3 of `batches` batches, in random order. */
static inline int64_t test_random_rows(int32_t *rows, int64_t count, int32_t batches, int32_t low, int32_t side, uint64_t *state)
{
    int64_t n = 0;

    for (int64_t i = 0; i < count; i++) {
        int32_t *r = rows + 4 * n;

        r[0] = (int32_t)(test_random(state) % (uint32_t)batches);
        for (int a = 1; a < 4; a++) r[a] = low + (int32_t)(test_random(state) % (uint32_t)side);
        if (test_find_row(rows, n, r[0], r[1], r[2], r[3]) < 0) n++;
    }
    return n;
}

/* Cells of a grid of `side` that a spherical shell of 1.5 cells passes, in the order a decoder makes them: coarse cells ascending,
 * children in slot order. Free with esi_coords_free(). */
static inline void test_shell(espalier_context *ctx, esi_coords *out, int32_t side)
{
    const double radius = 0.45 * side, middle = 0.5 * side;

    memset(out, 0, sizeof *out);
    for (int pass = 0; pass < 2; pass++) {
        int64_t n = 0;

        for (int32_t cell = 0; cell < (side / 2) * (side / 2) * (side / 2); cell++) {
            const int32_t h = side / 2, base[3] = {cell / (h * h) * 2, cell / h % h * 2, cell % h * 2};
            const double cx = base[0] + 1 - middle, cy = base[1] + 1 - middle, cz = base[2] + 1 - middle, cd = cx * cx + cy * cy + cz * cz;

            if (cd < (radius - 4) * (radius - 4) || cd > (radius + 4) * (radius + 4)) continue;
            for (int k = 0; k < 8; k++) {
                const int32_t x = base[0] + (k & 1), y = base[1] + (k >> 1 & 1), z = base[2] + (k >> 2 & 1);
                const double dx = x + 0.5 - middle, dy = y + 0.5 - middle, dz = z + 0.5 - middle, d = dx * dx + dy * dy + dz * dz;

                if (d < (radius - 0.75) * (radius - 0.75) || d > (radius + 0.75) * (radius + 0.75)) continue;
                if (pass == 1) {
                    int32_t *r = out->rows + 4 * n;

                    r[0] = 0;
                    r[1] = x;
                    r[2] = y;
                    r[3] = z;
                }
                n++;
            }
        }
        if (pass == 0) assert_int_equal(esi_coords_new(ctx, out, n), ESPALIER_OK);
    }
}

/* -------------------------------------------------------------------- golden */

static inline esi_weight_file *golden_open(espalier_context *ctx, const char *name)
{
    char path[1024];
    esi_weight_file *file = NULL;

    snprintf(path, sizeof path, ESPALIER_TEST_DATA "/golden/%s/case.safetensors", name);
    if (esi_weight_file_open(ctx, &file, path) != ESPALIER_OK) fail_msg("%s", espalier_error_message(ctx));
    return file;
}

static inline int32_t *golden_i32(espalier_context *ctx, const esi_weight_file *file, const char *name, int64_t *rows)
{
    const esi_file_tensor *t = esi_weight_file_find(file, name);
    int32_t *values = NULL;

    if (!t) fail_msg("no tensor %s", name);
    assert_int_equal(esi_file_tensor_read_i32(ctx, file, t, &values), ESPALIER_OK);
    if (rows) *rows = t->shape[0];
    return values;
}

static inline float *golden_f32(espalier_context *ctx, const esi_weight_file *file, const char *name)
{
    const esi_file_tensor *t = esi_weight_file_find(file, name);
    float *values = NULL;

    if (!t) return NULL;
    assert_int_equal(esi_file_tensor_read_f32(ctx, file, t, &values), ESPALIER_OK);
    return values;
}

#endif
