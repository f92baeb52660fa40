/* SPDX-License-Identifier: MIT
 *
 * Texture coordinates of known quality: a grid laid out with given stretch, overlaps of known size, flipped, collapsed and hair-thin faces.
 */
#include "mesh/unwrap.h"

#include "support.h"

#include <math.h>

enum { SIDE = 8, ATLAS = 64 };

/* SIDE x SIDE squares of the plane z = 0.3 x, so that an edge along x is sqrt(1.09) long per unit; UVs as a linear map. */
typedef struct grid {
    esi_mesh mesh;
    float *uvs;
} grid;

static void grid_open(espalier_context *ctx, grid *g, const double map[2][2], double u0, double v0)
{
    assert_int_equal(esi_mesh_new(ctx, &g->mesh, (SIDE + 1) * (SIDE + 1), 2 * SIDE * SIDE), ESPALIER_OK);
    g->uvs = esi_alloc(ctx, (SIDE + 1) * (SIDE + 1), 8, "uvs");
    for (int i = 0; i < (SIDE + 1) * (SIDE + 1); i++) {
        const double x = i % (SIDE + 1), y = i / (SIDE + 1);

        g->mesh.vertices[3 * i] = (float)x;
        g->mesh.vertices[3 * i + 1] = (float)y;
        g->mesh.vertices[3 * i + 2] = (float)(0.75 * x);       /* length 1.25 per step */
        g->uvs[2 * i] = (float)(u0 + map[0][0] * 1.25 * x + map[0][1] * y);
        g->uvs[2 * i + 1] = (float)(v0 + map[1][0] * 1.25 * x + map[1][1] * y);
    }
    for (int i = 0; i < SIDE * SIDE; i++) {
        const int32_t a = i % SIDE + i / SIDE * (SIDE + 1);

        memcpy(g->mesh.faces + 6 * i, (int32_t[]){a, a + 1, a + SIDE + 2, a, a + SIDE + 2, a + SIDE + 1}, 24);
    }
}

static void grid_close(espalier_context *ctx, grid *g)
{
    esi_mesh_free(ctx, &g->mesh);
    esi_free(ctx, g->uvs);
}

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) <= 1e-5 * fmax(1.0, fabs(wanted)))) fail_msg("%.9g, not %.9g", value, wanted);
}

/* A linear map with singular values s and t (in UV per unit): the surface is stretched by 1/s and 1/t. */
static void stretch(void **state)
{
    static const struct { double s, t, turn; } cases[] = {
        {1.0 / 16, 1.0 / 16, 0}, {1.0 / 16, 1.0 / 32, 0}, {1.0 / 16, 1.0 / 64, 0.5}, {0.01, 0.03, 1.1}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        const double s = cases[i].s, v = cases[i].t, c = cos(cases[i].turn), d = sin(cases[i].turn);
        const double map[2][2] = {{c * s, -d * v}, {d * s, c * v}};
        const double k = sqrt(s * v), l2 = sqrt((1 / (s * s) + 1 / (v * v)) / 2) * k, largest = k / fmin(s, v);
        esi_uv_metrics m;
        grid g;

        grid_open(t.ctx, &g, map, 0.4, 0.0);
        assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &g.mesh, g.uvs, ATLAS), ESPALIER_OK);
        near(m.l2_stretch, l2);
        near(m.linf_stretch, largest);
        near(m.area, s * v * SIDE * SIDE * 1.25);
        near(m.density_mean, ATLAS * k);
        near(m.density_p5, ATLAS * k);
        near(m.density_p95, ATLAS * k);
        assert_true(m.density_cov < 1e-5);
        assert_int_equal(m.charts, 1);
        assert_int_equal(m.flipped_faces, 0);
        assert_int_equal(m.zero_uv_faces, 0);
        assert_int_equal(m.overlapping_texels, 0);
        grid_close(t.ctx, &g);
    }
    test_base_close(&t);
}

/* Half the area at one density, the rest at twice that: mean, spread, percentiles, stretch by hand. */
static void two_densities(void **state)
{
    const double map[2][2] = {{0.8 / 16, 0}, {0, 1.0 / 16}};
    esi_uv_metrics m;
    test_base t;
    grid g;

    (void)state;
    test_base_open(&t, 1);
    grid_open(t.ctx, &g, map, 0, 0);
    for (int i = 0; i < (SIDE + 1) * (SIDE + 1); i++) {        /* right half: four times as wide in u */
        const double x = i % (SIDE + 1);

        g.uvs[2 * i] = (float)(x <= 4 ? x / 64 : 4.0 / 64 + (x - 4) / 16);
    }
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &g.mesh, g.uvs, ATLAS), ESPALIER_OK);
    const double low = ATLAS * sqrt(1.0 / 64 / 16 / 1.25), high = 2 * low, k = sqrt((5.0 / 64) * 4 * 8 / 16 / 80);

    near(m.density_p5, low);
    near(m.density_p95, high);
    near(m.density_mean, 1.5 * low);
    near(m.density_cov, 1.0 / 3.0);
    near(m.linf_stretch, 80 * k);
    near(m.l2_stretch, sqrt(((80.0 * 80 + 256) / 2 + (20.0 * 20 + 256) / 2) / 2) * k);
    near(m.covered, 0.3125 * 0.5);
    grid_close(t.ctx, &g);
    test_base_close(&t);
}

/* Two squares of texels over each other; a fold in one chart; neighbours and touching charts do not overlap. */
static void overlap(void **state)
{
    const float flat[][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {5, 0, 0}, {6, 0, 0}, {6, 1, 0}, {5, 1, 0}};
    int32_t faces[][3] = {{0, 1, 2}, {0, 2, 3}, {4, 5, 6}, {4, 6, 7}};
    float uvs[][2] = {{0, 0}, {0.5f, 0}, {0.5f, 0.5f}, {0, 0.5f}, {0.25f, 0.25f}, {0.75f, 0.25f}, {0.75f, 0.75f}, {0.25f, 0.75f}};
    esi_uv_metrics m;
    esi_mesh mesh;
    test_base t;

    (void)state;
    for (int threads = 1; threads <= 5; threads += 2) {
        test_base_open(&t, threads);
        assert_int_equal(esi_mesh_copy(t.ctx, &mesh, flat[0], 8, faces[0], 4), ESPALIER_OK);
        assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
        /* a quarter of each: 16 x 16 texels; those on a diagonal lie on two faces of one chart, strictly inside neither */
        assert_int_equal(m.charts, 2);
        assert_true(m.overlapping_texels >= 16 * 16 - 2 * 16 && m.overlapping_texels <= 16 * 16);
        near(m.area, 0.5);
        near(m.covered, 0.4375);
        near(m.l2_stretch, 1.0);
        esi_mesh_free(t.ctx, &mesh);
        test_base_close(&t);
    }
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_copy(t.ctx, &mesh, flat[0], 8, faces[0], 4), ESPALIER_OK);
    for (int i = 4; i < 8; i++) uvs[i][0] += 0.25f;            /* side by side: touching only */
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.overlapping_texels, 0);
    assert_int_equal(m.out_of_range, 0);
    uvs[3][0] = 0.5f - 1.0f / 64;                              /* folded over: face 0 2 3 now lies on 0 1 2, mirrored */
    uvs[3][1] = 0.0f;
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.flipped_faces, 1);
    assert_true(m.overlapping_texels > 400 && m.overlapping_texels < 32 * 32 / 2);
    uvs[6][0] = 1.25f;
    uvs[7][1] = -0.1f;
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.out_of_range, 2);
    esi_mesh_free(t.ctx, &mesh);
    test_base_close(&t);
}

/* Collapsed though the face has area; collapsed as its face is; turned over by a rounding of the last bit. */
static void thin_faces(void **state)
{
    const float p[][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {0.5f, 0, 0}, {0.5f, 1e-9f, 0}};
    const int32_t faces[][3] = {{0, 1, 2}, {0, 2, 3}, {0, 1, 4}, {0, 1, 5}};
    float uvs[][2] = {{0.1f, 0.5f}, {0.9f, 0.5f}, {0.9f, 0.9f}, {0.1f, 0.9f}, {0.5f, 0.5f}, {0.5f, 0.5f}};
    esi_uv_metrics m;
    esi_mesh mesh;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_copy(t.ctx, &mesh, p[0], 6, faces[0], 4), ESPALIER_OK);
    uvs[5][1] = nextafterf(0.5f, 0.0f);
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.flipped_faces, 0);
    assert_int_equal(m.zero_uv_faces, 0);
    assert_true(m.linf_stretch < 2.0);
    uvs[5][1] = 0.499f;
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.flipped_faces, 1);
    uvs[5][1] = 0.5f;
    memcpy(uvs[3], uvs[2], 8);                                 /* the second face to a line */
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.zero_uv_faces, 1);
    near(m.density_mean, 64 * sqrt(0.32) / 2);
    for (int i = 0; i < 6; i++) memcpy(uvs[i], uvs[0], 8);     /* everything in a point */
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.zero_uv_faces, 3);
    near(m.density_mean, 0.0);
    for (int i = 0; i < 6; i++) uvs[i][0] = (float)NAN;
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.out_of_range, 6);
    mesh.n_faces = 0;
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 64), ESPALIER_OK);
    assert_int_equal(m.charts, 0);
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &mesh, uvs[0], 0), ESPALIER_ERR_ARG);
    esi_mesh_free(t.ctx, &mesh);
    test_base_close(&t);
}

static void failures(void **state)
{
    const double map[2][2] = {{0.05, 0}, {0, 0.05}};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    esi_uv_metrics m;
    uint64_t before;
    test_base t;
    grid g;
    long n;

    (void)state;
    test_base_open(&t, 1);
    grid_open(t.ctx, &g, map, 0, 0);
    before = espalier_context_memory_now(t.ctx);
    for (n = 1; st != ESPALIER_OK && n < 50; n++) {
        test_fail_at(&t.memory, n);
        st = esi_uv_metrics_compute(t.ctx, &m, &g.mesh, g.uvs, ATLAS);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), before);
    }
    assert_true(n > 6 && n < 50);
    test_fail_at(&t.memory, 0);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_uv_metrics_compute(t.ctx, &m, &g.mesh, g.uvs, ATLAS), ESPALIER_ERR_CANCELLED);
    grid_close(t.ctx, &g);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stretch),    cmocka_unit_test(two_densities), cmocka_unit_test(overlap),
                                       cmocka_unit_test(thin_faces), cmocka_unit_test(failures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
