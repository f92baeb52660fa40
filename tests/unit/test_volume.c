/* SPDX-License-Identifier: MIT
 *
 * test_volume.c: sampling sparse voxel attributes. The golden cases compare with the original code; here are the promises beyond it.
 */
#include "voxel_fixture.h"

#include "voxel/volume.h"

#include <math.h>

#define SIDE 40

/* A shell of voxels with attributes of a linear function, a constant and noise. */
typedef struct shell {
    esi_coords coords;
    float *attrs;
    esi_volume volume;
} shell;

static void shell_open(espalier_context *ctx, shell *s)
{
    uint64_t seed = 5;

    test_shell(ctx, &s->coords, SIDE);
    s->attrs = esi_alloc(ctx, (size_t)s->coords.count, 3 * sizeof(float), "attributes");
    assert_non_null(s->attrs);
    for (int64_t i = 0; i < s->coords.count; i++) {
        const int32_t *row = s->coords.rows + 4 * i;

        s->attrs[3 * i] = 0.25f * (float)row[1] - 0.5f * (float)row[2] + (float)row[3];
        s->attrs[3 * i + 1] = 0.1f;
        s->attrs[3 * i + 2] = (float)test_random(&seed) / 4294967296.0f;
    }
    assert_int_equal(esi_volume_open(ctx, &s->volume, s->coords.rows, s->attrs, s->coords.count, 3, SIDE), ESPALIER_OK);
}

static void shell_close(espalier_context *ctx, shell *s)
{
    esi_volume_close(ctx, &s->volume);
    esi_free(ctx, s->attrs);
    esi_coords_free(ctx, &s->coords);
}

static float random_place(uint64_t *seed)
{
    return (float)(test_random(seed) % 1000000) * (1.0f / 1000000.0f) * (SIDE + 4) - 2.0f;
}

/* Against a loop over all eight corners by plain search; the constant is exact; noise stays within its corners' range. */
static void trilinear(void **state)
{
    uint64_t seed = 3;
    int64_t hits = 0;
    shell s;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    shell_open(t.ctx, &s);
    for (int i = 0; i < 3000; i++) {
        const float g[3] = {random_place(&seed), random_place(&seed), random_place(&seed)};
        double sum[3] = {0}, total = 0.0;
        float out[3];
        int corners = 0, found;

        for (int k = 0; k < 8; k++) {
            int32_t cell[3], row;
            double w = 1.0;

            for (int a = 0; a < 3; a++) {
                cell[a] = (int32_t)floor((double)g[a] - 0.5) + (k >> a & 1);
                w *= 1.0 - fabs((double)g[a] - (double)cell[a] - 0.5);
            }
            row = test_find_row(s.coords.rows, s.coords.count, 0, cell[0], cell[1], cell[2]);
            if (row < 0 || w == 0.0) continue;
            for (int c = 0; c < 3; c++) sum[c] += w * (double)s.attrs[3 * row + c];
            total += w;
            corners++;
        }
        found = esi_volume_trilinear(&s.volume, g, out);
        assert_int_equal(found, corners);
        hits += corners > 0;
        if (corners == 0) {
            assert_true(out[0] == 0.0f && out[1] == 0.0f && out[2] == 0.0f);
            continue;
        }
        assert_true(out[1] == 0.1f);
        assert_true(fabs((double)out[0] - sum[0] / total) < 4e-6);         /* values up to 70: half a step of fp32 */
        assert_true(fabs((double)out[2] - sum[2] / total) < 1e-7);
        if (corners == 8) {
            const double exact = 0.25 * ((double)g[0] - 0.5) - 0.5 * ((double)g[1] - 0.5) + ((double)g[2] - 0.5);

            assert_true(fabs((double)out[0] - exact) < 4e-6);
        }
    }
    assert_true(hits > 300);
    shell_close(t.ctx, &s);
    test_base_close(&t);
}

static void places_without_a_voxel(void **state)
{
    const float inf = (float)INFINITY, nan_value = (float)NAN;
    const float places[][3] = {{nan_value, 1, 1}, {1, 1, nan_value}, {inf, 1, 1}, {1, -inf, 1}, {-1e30f, 0, 0}, {3e9f, 3e9f, 3e9f},
                               {1.5f, 1.5f, 0.0f}};
    const int32_t rows[] = {0, 1, 1, 1, 0, 0, 0, 0};
    const float attrs[] = {2.0f, 3.0f};
    esi_volume v;
    test_base t;
    float out;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_volume_open(t.ctx, &v, rows, attrs, 2, 1, 4), ESPALIER_OK);
    for (size_t i = 0; i < ESI_COUNT(places); i++) {
        out = 9.0f;
        assert_int_equal(esi_volume_trilinear(&v, places[i], &out), 0);
        assert_true(out == 0.0f);
        out = 9.0f;
        assert_false(esi_volume_nearest(&v, places[i], &out));
        assert_true(out == 0.0f);
    }
    /* Exactly at a missing cell's centre every other corner has weight 0. */
    assert_int_equal(esi_volume_trilinear(&v, (float[]){1.5f, 1.5f, 2.5f}, &out), 0);
    assert_int_equal(esi_volume_trilinear(&v, (float[]){1.5f, 1.5f, 1.5f}, &out), 1);
    assert_true(out == 2.0f);
    /* Truncation toward zero: (-1, 0) belongs to cell 0. */
    assert_true(esi_volume_nearest(&v, (float[]){-0.9f, -0.1f, 0.9f}, &out));
    assert_true(out == 3.0f);
    assert_false(esi_volume_nearest(&v, (float[]){-1.0f, 0.0f, 0.0f}, &out));
    assert_int_equal(esi_volume_trilinear(&v, (float[]){-0.25f, 0.0f, 0.0f}, &out), 1);
    assert_true(out == 3.0f);
    esi_volume_close(t.ctx, &v);
    test_base_close(&t);
}

static void closest(void **state)
{
    uint64_t seed = 8;
    shell s;
    test_base t;
    int64_t none = 0;

    (void)state;
    test_base_open(&t, 1);
    shell_open(t.ctx, &s);
    for (int i = 0; i < 600; i++) {
        float g[3] = {random_place(&seed), random_place(&seed), random_place(&seed)};
        const double cells = (double[]){0.4, 1.0, 2.5, 7.0, 100.0}[i % 5];
        double best = cells * cells;
        int32_t row = -1;

        if (i % 7 == 0) {
            for (int a = 0; a < 3; a++) g[a] = (float)(int)g[a];          /* on the lattice: many ties */
        }
        for (int64_t n = 0; n < s.coords.count; n++) {
            double d2 = 0.0;

            for (int a = 0; a < 3; a++) {
                const double d = (double)s.coords.rows[4 * n + 1 + a] + 0.5 - (double)g[a];

                d2 += d * d;
            }
            if (d2 < best || (d2 == best && row < 0)) {
                best = d2;
                row = (int32_t)n;
            }
        }
        assert_int_equal(esi_volume_closest(&s.volume, g, cells), row);
        none += row < 0;
    }
    assert_true(none > 100 && none < 500);
    assert_int_equal(esi_volume_closest(&s.volume, (float[]){(float)NAN, 1, 1}, 3.0), -1);
    assert_int_equal(esi_volume_closest(&s.volume, (float[]){1, 1, 1}, (double)NAN), -1);
    assert_int_equal(esi_volume_closest(&s.volume, (float[]){1e30f, 1, 1}, 1e3), -1);
    assert_true(esi_volume_closest(&s.volume, (float[]){1e4f, 1, 1}, (double)INFINITY) >= 0);
    shell_close(t.ctx, &s);
    test_base_close(&t);
}

static void refusals(void **state)
{
    const int32_t twice[] = {0, 1, 1, 1, 0, 2, 1, 1, 0, 1, 1, 1}, outside[] = {0, 1, 1, 1, 0, 1, 4, 1}, batch[] = {1, 0, 0, 0};
    const float attrs[3] = {0};
    esi_volume v;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_volume_open(t.ctx, &v, twice, attrs, 3, 1, 4), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(t.ctx), "row 2"));
    esi_clear_error(t.ctx);
    assert_int_equal(esi_volume_open(t.ctx, &v, outside, attrs, 2, 1, 4), ESPALIER_ERR_INPUT);
    assert_non_null(strstr(espalier_error_message(t.ctx), "row 1"));
    esi_clear_error(t.ctx);
    assert_int_equal(esi_volume_open(t.ctx, &v, batch, attrs, 1, 1, 4), ESPALIER_ERR_INPUT);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_volume_open(t.ctx, &v, outside, attrs, 1, 17, 4), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_volume_open(t.ctx, &v, outside, attrs, 1, 1, 0), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    esi_volume_close(t.ctx, &v);
    assert_int_equal(esi_volume_open(t.ctx, &v, outside, attrs, 0, 1, 4), ESPALIER_OK);
    assert_int_equal(esi_volume_closest(&v, (float[]){1, 1, 1}, 9.0), -1);
    esi_volume_close(t.ctx, &v);
    test_base_close(&t);
}

static void failing_allocations(void **state)
{
    const int32_t rows[] = {0, 1, 1, 1, 0, 2, 1, 1};
    const float attrs[2] = {0};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    esi_volume v;
    test_base t;
    long n;

    (void)state;
    test_base_open(&t, 1);
    for (n = 1; st != ESPALIER_OK && n < 20; n++) {
        test_fail_at(&t.memory, n);
        st = esi_volume_open(t.ctx, &v, rows, attrs, 2, 1, 4);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
        esi_volume_close(t.ctx, &v);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    assert_true(n > 3 && n < 20);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trilinear), cmocka_unit_test(places_without_a_voxel), cmocka_unit_test(closest),
        cmocka_unit_test(refusals),  cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
