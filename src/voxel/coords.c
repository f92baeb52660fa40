/* SPDX-License-Identifier: MIT
 *
 * coords.c: making, sorting and quantising coordinate sets. Sorting is a least-significant-digit radix sort of packed keys, which skips
 * the bytes that are equal in all keys: grids are small, so three or four of the eight passes remain.
 */
#include "voxel/keys.h"

espalier_status esi_row_count_check(espalier_context *ctx, int64_t count)
{
    if (count < 0) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: negative row count %lld", (long long)count);
    if (count > INT32_MAX) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "voxels: %lld rows are more than 2^31 - 1; use a lower resolution", (long long)count);
    }
    return ESPALIER_OK;
}

espalier_status esi_rows_check(espalier_context *ctx, const int32_t *rows, int64_t count)
{
    espalier_status st = esi_row_count_check(ctx, count);

    for (int64_t n = 0; st == ESPALIER_OK && n < count; n++) {
        const int32_t *row = rows + 4 * n;

        if (esi_row_in_range(row)) continue;
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: coordinate (%d, %d, %d, %d) of row %lld is out of range", (int)row[0],
                      (int)row[1], (int)row[2], (int)row[3], (long long)n);
    }
    return st;
}

espalier_status esi_coords_new(espalier_context *ctx, esi_coords *out, int64_t count)
{
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_row_count_check(ctx, count);
    if (st != ESPALIER_OK) return st;
    out->rows = esi_alloc(ctx, (size_t)count, 4 * sizeof(int32_t), "voxel coordinates");
    if (!out->rows) return ESPALIER_ERR_RESOURCE;
    out->count = count;
    return ESPALIER_OK;
}

espalier_status esi_coords_copy(espalier_context *ctx, esi_coords *out, const int32_t *rows, int64_t count)
{
    espalier_status st = esi_coords_new(ctx, out, count);

    if (st == ESPALIER_OK && count > 0) memcpy(out->rows, rows, (size_t)count * 4 * sizeof(int32_t));
    return st;
}

void esi_coords_free(espalier_context *ctx, esi_coords *c)
{
    if (!c) return;
    esi_free(ctx, c->rows);
    memset(c, 0, sizeof *c);
}

/* ---------------------------------------------------------------- occupancy */

/* true if one of the s^3 cells of coarse cell (x, y, z) has a positive logit. */
static bool any_occupied(const float *logits, size_t R, size_t s, size_t x, size_t y, size_t z)
{
    for (size_t i = x * s; i < (x + 1) * s; i++) {
        for (size_t j = y * s; j < (y + 1) * s; j++) {
            const float *line = logits + (i * R + j) * R + z * s;

            for (size_t l = 0; l < s; l++) {
                if (line[l] > 0.0f) return true;
            }
        }
    }
    return false;
}

espalier_status esi_coords_from_occupancy(espalier_context *ctx, esi_coords *out, const float *logits, int64_t R, int64_t target)
{
    size_t side, step, count = 0, n = 0;
    uint8_t *occupied = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (R < 1 || R > 1290 || target < 1 || R % target != 0) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: cannot reduce an occupancy grid of %lld cells to %lld", (long long)R,
                        (long long)target);
    }
    side = (size_t)target;
    step = (size_t)(R / target);
    occupied = esi_alloc(ctx, side * side * side, 1, "occupancy");
    if (!occupied) return ESPALIER_ERR_RESOURCE;

    for (size_t x = 0; x < side; x++) {
        for (size_t y = 0; y < side; y++) {
            for (size_t z = 0; z < side; z++) {
                const bool yes = any_occupied(logits, (size_t)R, step, x, y, z);

                occupied[(x * side + y) * side + z] = yes;
                count += yes;
            }
        }
    }
    st = esi_coords_new(ctx, out, (int64_t)count);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < side * side * side; i++) {
        if (!occupied[i]) continue;
        out->rows[4 * n + 0] = 0;
        out->rows[4 * n + 1] = (int32_t)(i / (side * side));
        out->rows[4 * n + 2] = (int32_t)(i / side % side);
        out->rows[4 * n + 3] = (int32_t)(i % side);
        n++;
    }
done:
    esi_free(ctx, occupied);
    return st;
}

/* ------------------------------------------------------------------ sorting */

#define DIGITS 8                        /* bytes of a key */

/* One pass: stable distribution of src into dst by byte `digit`, whose counts are `histogram`. */
static void radix_pass(uint64_t *dst, const uint64_t *src, size_t n, int digit, const size_t *histogram)
{
    size_t start[256], sum = 0;

    for (int i = 0; i < 256; i++) {
        start[i] = sum;
        sum += histogram[i];
    }
    for (size_t i = 0; i < n; i++) dst[start[src[i] >> (8 * digit) & 255]++] = src[i];
}

espalier_status esi_keys_sort(espalier_context *ctx, uint64_t *keys, size_t n)
{
    size_t histogram[DIGITS][256];
    uint64_t *buffer, *src = keys, *dst;
    espalier_status st = ESPALIER_OK;

    if (n < 2) return ESPALIER_OK;
    buffer = esi_alloc(ctx, n, sizeof *buffer, "sort buffer");
    if (!buffer) return ESPALIER_ERR_RESOURCE;
    dst = buffer;

    memset(histogram, 0, sizeof histogram);
    for (size_t i = 0; i < n; i++) {
        for (int d = 0; d < DIGITS; d++) histogram[d][keys[i] >> (8 * d) & 255]++;
    }
    for (int d = 0; d < DIGITS; d++) {
        uint64_t *swap = dst;

        if (histogram[d][keys[0] >> (8 * d) & 255] == n) continue;      /* all keys agree here */
        st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK) goto done;
        radix_pass(dst, src, n, d, histogram[d]);
        dst = src;
        src = swap;
    }
    if (src != keys) memcpy(keys, src, n * sizeof *keys);
done:
    esi_free(ctx, buffer);
    return st;
}

/* Drop equal neighbours; returns what is left. */
static size_t unique_keys(uint64_t *keys, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || keys[kept - 1] != keys[i]) keys[kept++] = keys[i];
    }
    return kept;
}

static espalier_status coords_from_keys(espalier_context *ctx, esi_coords *out, const uint64_t *keys, size_t n)
{
    espalier_status st = esi_coords_new(ctx, out, (int64_t)n);

    for (size_t i = 0; st == ESPALIER_OK && i < n; i++) esi_key_unpack(out->rows + 4 * i, keys[i]);
    return st;
}

espalier_status esi_coords_sort_unique(espalier_context *ctx, esi_coords *out, const int32_t *rows, int64_t count)
{
    uint64_t *keys = NULL;
    size_t n = (size_t)count;
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_rows_check(ctx, rows, count);
    if (st != ESPALIER_OK) return st;
    keys = esi_alloc(ctx, n, sizeof *keys, "sort keys");
    if (!keys) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) keys[i] = esi_key_pack(rows + 4 * i);
    st = esi_keys_sort(ctx, keys, n);
    if (st != ESPALIER_OK) goto done;
    st = coords_from_keys(ctx, out, keys, unique_keys(keys, n));
done:
    esi_free(ctx, keys);
    return st;
}

/* ------------------------------------------------------------------ cascade */

/* Keys of the cells of a grid of `cells` that hold the centres of the fine cells. Neighbours in the list mostly share a cell, so dropping
 * repeats at once saves most of the sorting. */
static size_t quantise(uint64_t *keys, const esi_coords *fine, int64_t low, int64_t cells)
{
    size_t n = 0;

    for (int64_t i = 0; i < fine->count; i++) {
        const int32_t *c = fine->rows + 4 * i;
        int32_t q[4];
        uint64_t key;

        q[0] = c[0];
        for (int axis = 1; axis < 4; axis++) q[axis] = (int32_t)((2 * (int64_t)c[axis] + 1) * cells / (2 * low));
        key = esi_key_pack(q);
        if (n == 0 || keys[n - 1] != key) keys[n++] = key;
    }
    return n;
}

static espalier_status cascade_check(espalier_context *ctx, const esi_coords *fine, int64_t low, int64_t target)
{
    espalier_status st = esi_rows_check(ctx, fine->rows, fine->count);

    if (st != ESPALIER_OK) return st;
    if (low < 4 || low > ESI_COORD_LIMIT || target < 16 || target / 16 > ESI_COORD_LIMIT) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "cascade: cannot go from a grid of %lld to a resolution of %lld", (long long)low,
                        (long long)target);
    }
    for (int64_t i = 0; i < 4 * fine->count; i++) {
        if (i % 4 != 0 && fine->rows[i] >= low) {
            return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "cascade: coordinate %d of row %lld lies outside the grid of %lld",
                            (int)fine->rows[i], (long long)(i / 4), (long long)low);
        }
    }
    return ESPALIER_OK;
}

espalier_status esi_cascade_coords(espalier_context *ctx, esi_coords *out, int64_t *resolution, const esi_coords *fine, int64_t low,
                                   int64_t target, int64_t max_tokens)
{
    uint64_t *keys = NULL;
    int64_t hr = target;
    int64_t step = low / 4, floor = 2 * low;       /* 128 and 1024 of the released models, whose low is 512 */
    espalier_status st;

    memset(out, 0, sizeof *out);
    *resolution = 0;
    st = cascade_check(ctx, fine, low, target);
    if (st != ESPALIER_OK) return st;
    keys = esi_alloc(ctx, (size_t)fine->count, sizeof *keys, "cascade keys");
    if (!keys) return ESPALIER_ERR_RESOURCE;
    for (;;) {
        size_t n = quantise(keys, fine, low, hr / 16);

        st = esi_keys_sort(ctx, keys, n);
        if (st != ESPALIER_OK) goto done;
        n = unique_keys(keys, n);
        /* The reference stops at exactly the floor; never going below it also ends for targets that no number of steps brings there. */
        if ((int64_t)n < max_tokens || hr - step < floor) {
            st = coords_from_keys(ctx, out, keys, n);
            break;
        }
        hr -= step;
    }
    if (st == ESPALIER_OK) *resolution = hr;
done:
    esi_free(ctx, keys);
    return st;
}
