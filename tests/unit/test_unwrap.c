/* SPDX-License-Identifier: MIT
 *
 * Texture coordinates of whole meshes: vertices split along seams and nowhere else, everything inside the atlas and nothing on top of
 * anything, by our own metrics and by points of faces tested against all other faces.
 */
#include "chart_fixture.h"

#include "mesh/clean.h"
#include "mesh/unwrap.h"
#include "ply_fixture.h"

/* The split mesh: positions copied by source. */
static void split(espalier_context *ctx, esi_mesh *out, const esi_mesh *m, const esi_unwrapped *u)
{
    assert_int_equal(esi_mesh_new(ctx, out, u->n_vertices, m->n_faces), ESPALIER_OK);
    for (int64_t v = 0; v < u->n_vertices; v++) memcpy(out->vertices + 3 * v, m->vertices + 3 * (int64_t)u->source[v], 12);
    memcpy(out->faces, u->faces, (size_t)m->n_faces * 12);
}

static void check_split(const esi_mesh *m, const esi_unwrapped *u)
{
    int32_t *chart = malloc((size_t)u->n_vertices * sizeof *chart);

    for (int64_t v = 0; v < u->n_vertices; v++) chart[v] = -1;
    for (int64_t c = 0; c < 3 * m->n_faces; c++) {
        int32_t v = u->faces[c];
        assert_in_range(v, 0, u->n_vertices - 1);
        assert_int_equal(u->source[v], m->faces[c]);
        assert_in_range(u->face_chart[c / 3], 0, u->n_charts - 1);
        assert_true(chart[v] < 0 || chart[v] == u->face_chart[c / 3]); /* no vertex in two charts */
        chart[v] = u->face_chart[c / 3];
    }
    for (int64_t v = 0; v < u->n_vertices; v++) {
        assert_true(chart[v] >= 0);
        for (int k = 0; k < 2; k++) assert_true(u->uvs[2 * v + k] >= 0.0f && u->uvs[2 * v + k] <= 1.0f);
        if (v == 0) continue;
        assert_true(u->source[v - 1] < u->source[v] || (u->source[v - 1] == u->source[v] && chart[v - 1] <= chart[v]));
        if (u->source[v - 1] == u->source[v] && chart[v - 1] == chart[v]) /* split within a chart only where places differ */
            assert_memory_not_equal(u->uvs + 2 * v - 2, u->uvs + 2 * v, 8);
    }
    assert_int_equal(u->charts_by_method[0] + u->charts_by_method[1] + u->charts_by_method[2], u->n_charts);
    free(chart);
}

static void check_atlas(espalier_context *ctx, esi_uv_metrics *metrics, const esi_mesh *m, const esi_unwrapped *u, uint32_t size)
{
    float *corner_uv = malloc((size_t)m->n_faces * 24 + 1);
    int32_t *one = calloc((size_t)m->n_faces + 1, sizeof *one);
    esi_mesh s = {0};

    for (int64_t c = 0; c < 3 * m->n_faces; c++) memcpy(corner_uv + 2 * c, u->uvs + 2 * (int64_t)u->faces[c], 8);
    if (m->n_faces > 0) assert_int_equal(chart_count_overlaps(m, one, 0, corner_uv), 0);
    split(ctx, &s, m, u);
    assert_int_equal(esi_uv_metrics_compute(ctx, metrics, &s, u->uvs, size), ESPALIER_OK);
    assert_int_equal(metrics->flipped_faces, 0);
    assert_int_equal(metrics->overlapping_texels, 0);
    assert_int_equal(metrics->out_of_range, 0);
    esi_mesh_free(ctx, &s);
    free(corner_uv);
    free(one);
}

static void unwrap(espalier_context *ctx, esi_unwrapped *u, esi_uv_metrics *metrics, const esi_mesh *m, uint32_t size, bool box)
{
    esi_unwrap_options options = esi_unwrap_options_default(size);

    options.box = box;
    assert_int_equal(esi_mesh_unwrap(ctx, u, m, &options), ESPALIER_OK);
    check_split(m, u);
    check_atlas(ctx, metrics, m, u, size);
}

static void analytic_meshes(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int shape = 0; shape < DAMAGE_SHAPES; shape++) {
        for (int box = 0; box < 2; box++) {
            esi_mesh m = {0}, welded = {0};
            esi_unwrapped u;
            esi_uv_metrics metrics;
            int64_t n_vertices;
            damage_shape(t.ctx, &m, shape, 16);
            assert_int_equal(esi_mesh_weld(t.ctx, &m, NULL, NULL), ESPALIER_OK);
            n_vertices = m.n_vertices;
            unwrap(t.ctx, &u, &metrics, &m, 512, box);
            if (!box) {
                assert_true(metrics.area > 0.45);
                assert_true(metrics.l2_stretch < 1.01);
                assert_true(metrics.density_cov < 0.05);
                assert_int_equal(metrics.zero_uv_faces, 0);
            }
            split(t.ctx, &welded, &m, &u); /* exact copies: welding undoes the seams */
            assert_int_equal(esi_mesh_weld(t.ctx, &welded, NULL, NULL), ESPALIER_OK);
            assert_int_equal(welded.n_vertices, n_vertices);
            assert_int_equal(welded.n_faces, m.n_faces);
            esi_mesh_free(t.ctx, &welded);
            esi_unwrapped_free(t.ctx, &u);
            esi_mesh_free(t.ctx, &m);
        }
    }
    test_base_close(&t);
}

static void no_seam_no_split(void **state)
{
    test_base t;
    esi_mesh m = {0};
    esi_unwrapped u;
    esi_uv_metrics metrics;

    (void)state;
    test_base_open(&t, 1);
    chart_shape_plane(t.ctx, &m, 16);
    unwrap(t.ctx, &u, &metrics, &m, 256, false);
    assert_int_equal(u.n_vertices, m.n_vertices);
    for (int64_t v = 0; v < m.n_vertices; v++) assert_int_equal(u.source[v], v);
    assert_memory_equal(u.faces, m.faces, (size_t)m.n_faces * 12);
    assert_true(metrics.area > 0.95);
    assert_true(fabs(metrics.l2_stretch - 1.0) < 1e-4);
    esi_unwrapped_free(t.ctx, &u);
    m.n_faces = 0;
    unwrap(t.ctx, &u, &metrics, &m, 256, false);
    assert_int_equal(u.n_charts, 0);
    assert_int_equal(u.n_vertices, 0);
    esi_unwrapped_free(t.ctx, &u);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void damaged_meshes(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int number = 0; number < 60; number++) {
        esi_mesh m = {0};
        esi_unwrapped u;
        esi_uv_metrics metrics;
        damage_make(t.ctx, &m, number, DAMAGE_ALL & ~(DAMAGE_NAN | DAMAGE_RANGE));
        unwrap(t.ctx, &u, &metrics, &m, 1024, false);
        esi_unwrapped_free(t.ctx, &u);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static void threads_change_nothing(void **state)
{
    static const int threads[] = {1, 2, 5};
    esi_unwrapped u[3];
    esi_mesh m[3] = {{0}};
    test_base t[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        esi_uv_metrics metrics;
        test_base_open(&t[i], threads[i]);
        chart_shape_rough(t[i].ctx, &m[i], 40, 0.5, 0.9);
        unwrap(t[i].ctx, &u[i], &metrics, &m[i], 512, false);
        assert_int_equal(u[i].n_vertices, u[0].n_vertices);
        assert_memory_equal(u[i].uvs, u[0].uvs, (size_t)u[0].n_vertices * 8);
        assert_memory_equal(u[i].source, u[0].source, (size_t)u[0].n_vertices * 4);
        assert_memory_equal(u[i].faces, u[0].faces, (size_t)m[0].n_faces * 12);
    }
    for (int i = 0; i < 3; i++) {
        esi_unwrapped_free(t[i].ctx, &u[i]);
        esi_mesh_free(t[i].ctx, &m[i]);
        test_base_close(&t[i]);
    }
}

static void failing_allocations(void **state)
{
    test_base t;
    esi_unwrapped u;
    esi_mesh m = {0};
    esi_unwrap_options options = esi_unwrap_options_default(64);
    espalier_status st = ESPALIER_ERR_RESOURCE;

    (void)state;
    test_base_open(&t, 1);
    damage_torus(t.ctx, &m, 8, 0.3, 0.1);
    for (long n = 1; st != ESPALIER_OK; n++) {
        assert_true(n < 5000);
        test_fail_at(&t.memory, n);
        st = esi_mesh_unwrap(t.ctx, &u, &m, &options);
        test_fail_at(&t.memory, 0);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_null(u.source);
        assert_null(u.faces);
        esi_clear_error(t.ctx);
    }
    esi_unwrapped_free(t.ctx, &u);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_mesh_unwrap(t.ctx, &u, &m, &options), ESPALIER_ERR_CANCELLED);
    assert_null(u.source);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* What the project promises for these meshes. */
static void real_meshes(void **state)
{
    static const struct { const char *name; int32_t charts; } meshes[] = {
        {"bunny", 79}, {"armadillo", 285}, {"elephant_with_holes", 184}, {"mech_holes_shark", 136}}; /* 1.5 times xatlas */
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(meshes); i++) {
        char path[1024];
        esi_mesh m = {0};
        esi_unwrapped u;
        esi_uv_metrics metrics;
        snprintf(path, sizeof path, "%s/../../shared/golden/geometry/meshes/real_%s.ply", ESPALIER_TEST_DATA, meshes[i].name);
        if (!ply_fixture_read(t.ctx, &m, path)) {
            print_message("SKIPPED: %s is not there\n", path);
            continue;
        }
        unwrap(t.ctx, &u, &metrics, &m, 1024, false);
        print_message("%s: %d charts, UV area %.4f, L2 %.4f, Linf %.2f, CoV %.4f\n", meshes[i].name, u.n_charts, metrics.area,
                      metrics.l2_stretch, metrics.linf_stretch, metrics.density_cov);
        assert_in_range(u.n_charts, 1, meshes[i].charts);
        assert_true(metrics.area >= 0.65);
        assert_true(metrics.l2_stretch <= 1.05);
        assert_true(metrics.density_cov <= 0.15);
        assert_int_equal(metrics.zero_uv_faces, 0);
        esi_unwrapped_free(t.ctx, &u);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(analytic_meshes),
        cmocka_unit_test(no_seam_no_split),
        cmocka_unit_test(damaged_meshes),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(real_meshes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
