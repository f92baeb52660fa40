/* SPDX-License-Identifier: MIT
 *
 * Dual grid to mesh against the reference and against a plain rewrite of the definition.
 */
#include "voxel_fixture.h"

#include <math.h>

typedef struct golden_grid { const char *name; int32_t grid[3]; float min[3], max[3]; } golden_grid;

/* tests/golden/dual_grid_to_mesh/config.json */
static const golden_grid cases[] = {
    {"hand_axes", {8, 8, 8}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"hand_axes_none", {8, 8, 8}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"hand_all_flags", {8, 8, 8}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"hand_boundary", {8, 8, 8}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"hand_tie", {8, 8, 8}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"hand_tie_none", {8, 8, 8}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"random", {16, 16, 16}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"random_none", {16, 16, 16}, {-0.5f, -0.5f, -0.5f}, {0.5f, 0.5f, 0.5f}},
    {"random_aniso", {16, 20, 12}, {-0.5f, -1.0f, 0.0f}, {0.5f, 1.0f, 0.75f}},
};

static const char *tensor(char buffer[64], const char *prefix, const char *name, const char *suffix)
{
    snprintf(buffer, 64, "%s.%s.%s", prefix, name, suffix);
    return buffer;
}

static void golden_case(espalier_context *ctx, const esi_weight_file *file, const golden_grid *c)
{
    char name[64];
    esi_dual_grid g = {0};
    int64_t rows, n_wanted, n_faces;
    int32_t *xyz = golden_i32(ctx, file, tensor(name, "in", c->name, "coords"), &rows);
    int32_t *wanted_faces = golden_i32(ctx, file, tensor(name, "out", c->name, "faces"), &n_wanted), *faces;
    float *local = golden_f32(ctx, file, tensor(name, "in", c->name, "dual")), *vertices;
    float *split = golden_f32(ctx, file, tensor(name, "in", c->name, "split_weight"));
    float *wanted = golden_f32(ctx, file, tensor(name, "out", c->name, "vertices"));
    const esi_file_tensor *flags = esi_weight_file_find(file, tensor(name, "in", c->name, "intersected"));
    esi_coords coords;

    assert_int_equal(esi_coords_new(ctx, &coords, rows), ESPALIER_OK);
    for (int64_t i = 0; i < rows; i++) {
        coords.rows[4 * i] = 0;
        memcpy(coords.rows + 4 * i + 1, xyz + 3 * i, 12);
    }
    assert_non_null(flags);
    g = (esi_dual_grid){.coords = coords.rows, .count = rows, .local = local, .intersected = esi_weight_file_data(file, flags),
                        .split_weight = split};
    memcpy(g.grid, c->grid, sizeof g.grid);
    memcpy(g.aabb_min, c->min, sizeof g.aabb_min);
    memcpy(g.aabb_max, c->max, sizeof g.aabb_max);
    assert_int_equal(esi_dual_grid_to_mesh(ctx, &g, &vertices, &faces, &n_faces), ESPALIER_OK);
    assert_int_equal(n_faces, n_wanted);
    assert_memory_equal(faces, wanted_faces, (size_t)n_faces * 12);
    assert_memory_equal(vertices, wanted, (size_t)rows * 12);          /* the same fp32 operations: equal bits */
    esi_free(ctx, vertices);
    esi_free(ctx, faces);
    esi_free(ctx, wanted);
    esi_free(ctx, wanted_faces);
    esi_free(ctx, local);
    esi_free(ctx, split);
    esi_free(ctx, xyz);
    esi_coords_free(ctx, &coords);
}

static void golden(void **state)
{
    esi_weight_file *file;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    file = golden_open(t.ctx, "dual_grid_to_mesh");
    for (size_t i = 0; i < ESI_COUNT(cases); i++) golden_case(t.ctx, file, &cases[i]);
    esi_weight_file_free(file);
    test_base_close(&t);
}

/* A large random grid over several tasks and two batches: number and order of faces from a plain search; threads do not matter. */
static void many_rows(void **state)
{
    enum { SIDE = 32, N = SIDE * SIDE * SIDE };
    static const int offsets[3][4][3] = {{{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0}},
                                         {{0, 0, 0}, {1, 0, 0}, {1, 0, 1}, {0, 0, 1}},
                                         {{0, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}}};
    static int32_t number[N], rows[N][4], expected[6 * N][3];
    static float local[N][3], split[N];
    static uint8_t flags[N][3];
    uint64_t seed = 11;
    int64_t count = 0, n_expected = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        number[i] = -1;
        if (test_random(&seed) % 8 == 0) continue;
        number[i] = (int32_t)count;
        rows[count][0] = 3;
        rows[count][1] = i / (SIDE * SIDE);
        rows[count][2] = i / SIDE % SIDE;
        rows[count][3] = i % SIDE;
        for (int a = 0; a < 3; a++) {
            local[count][a] = (float)(test_random(&seed) % 1000) / 1000.0f;
            flags[count][a] = test_random(&seed) % 3 == 0;
        }
        split[count++] = (float)(test_random(&seed) % 16) / 8.0f;
    }
    assert_true(count > 2 * 8192);
    for (int64_t n = 0; n < count; n++) {
        for (int a = 0; a < 3; a++) {
            int32_t q[4];
            bool complete = flags[n][a];

            for (int i = 0; i < 4 && complete; i++) {
                const int x = rows[n][1] + offsets[a][i][0], y = rows[n][2] + offsets[a][i][1], z = rows[n][3] + offsets[a][i][2];

                q[i] = x < SIDE && y < SIDE && z < SIDE ? number[(x * SIDE + y) * SIDE + z] : -1;
                complete = q[i] >= 0;
            }
            if (!complete) continue;
            if (split[q[0]] * split[q[2]] > split[q[1]] * split[q[3]]) {
                memcpy(expected[n_expected++], (int32_t[]){q[0], q[1], q[2]}, 12);
                memcpy(expected[n_expected++], (int32_t[]){q[0], q[2], q[3]}, 12);
            } else {
                memcpy(expected[n_expected++], (int32_t[]){q[0], q[1], q[3]}, 12);
                memcpy(expected[n_expected++], (int32_t[]){q[3], q[1], q[2]}, 12);
            }
        }
    }
    for (int threads = 1; threads <= 5; threads += 2) {
        const esi_dual_grid g = {.coords = rows[0], .count = count, .local = local[0], .intersected = flags[0], .split_weight = split,
                                 .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f}, .grid = {SIDE, SIDE, SIDE}};
        float *vertices;
        int32_t *faces;
        int64_t n_faces;
        test_base t;

        test_base_open(&t, threads);
        assert_int_equal(esi_dual_grid_to_mesh(t.ctx, &g, &vertices, &faces, &n_faces), ESPALIER_OK);
        assert_int_equal(n_faces, n_expected);
        assert_memory_equal(faces, expected, (size_t)n_faces * 12);
        for (int64_t i = 0; i < 3 * count; i++) {
            const float cell = (float)rows[i / 3][1 + i % 3] + local[i / 3][i % 3], p = cell * (1.0f / 32.0f);

            assert_true(vertices[i] == p - 0.5f);
        }
        esi_free(t.ctx, vertices);
        esi_free(t.ctx, faces);
        test_base_close(&t);
    }
}

static void refusals(void **state)
{
    int32_t rows[] = {0, 0, 0, 0, 0, 7, 7, 7};
    const float local[6] = {0};
    const uint8_t flags[6] = {1, 1, 1, 1, 1, 1};
    esi_dual_grid g = {.coords = rows, .count = 2, .local = local, .intersected = flags, .aabb_max = {1, 1, 1}, .grid = {8, 8, 8}};
    float *vertices;
    int32_t *faces;
    int64_t n_faces;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_dual_grid_to_mesh(t.ctx, &g, &vertices, &faces, &n_faces), ESPALIER_OK);       /* no quad is complete */
    assert_int_equal(n_faces, 0);
    assert_true(vertices[3] == 0.875f);
    esi_free(t.ctx, vertices);
    esi_free(t.ctx, faces);
    for (int i = 0; i < 6; i++) {
        esi_dual_grid bad = g;
        int32_t other[8];

        memcpy(other, rows, sizeof other);
        bad.coords = other;
        if (i == 0) other[5] = 8;
        if (i == 1) other[7] = -1;
        if (i == 2) memcpy(other, other + 4, 16);
        if (i == 3) bad.grid[1] = 0;
        if (i == 4) bad.aabb_max[2] = 0.0f;
        if (i == 5) bad.count = INT64_C(1) << 32;
        assert_int_equal(esi_dual_grid_to_mesh(t.ctx, &bad, &vertices, &faces, &n_faces),
                         i == 5 ? ESPALIER_ERR_RESOURCE : ESPALIER_ERR_INTERNAL);
        assert_true(strlen(espalier_error_message(t.ctx)) > 0);
        assert_null(vertices);
        assert_null(faces);
        esi_clear_error(t.ctx);
    }
    g.count = 0;
    assert_int_equal(esi_dual_grid_to_mesh(t.ctx, &g, &vertices, &faces, &n_faces), ESPALIER_OK);
    esi_free(t.ctx, vertices);
    esi_free(t.ctx, faces);
    test_base_close(&t);
}

static void failing_allocations(void **state)
{
    const int32_t rows[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0};
    const float local[12] = {0};
    const uint8_t flags[12] = {1};
    const esi_dual_grid g = {.coords = rows, .count = 4, .local = local, .intersected = flags, .aabb_max = {1, 1, 1}, .grid = {2, 2, 2}};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    test_base t;
    long n;

    (void)state;
    test_base_open(&t, 1);
    for (n = 1; st != ESPALIER_OK && n < 50; n++) {
        float *vertices;
        int32_t *faces;
        int64_t n_faces = 0;

        test_fail_at(&t.memory, n);
        st = esi_dual_grid_to_mesh(t.ctx, &g, &vertices, &faces, &n_faces);
        if (st == ESPALIER_OK) assert_int_equal(n_faces, 2);
        else assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_free(t.ctx, vertices);
        esi_free(t.ctx, faces);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    assert_true(n > 4 && n < 50);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(refusals),
        cmocka_unit_test(failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
