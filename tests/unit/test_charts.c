/* SPDX-License-Identifier: MIT
 *
 * Charts: exact on surfaces that can be laid flat, few and little stretched on others, and sound on any mesh whatever.
 */
#include "chart_fixture.h"

#include "mesh/clean.h"
#include "mesh/sparse_cholesky.h"
#include "ply_fixture.h"

static void make(espalier_context *ctx, esi_charts *out, const esi_mesh *m)
{
    esi_chart_options options = esi_chart_options_default();
    assert_int_equal(esi_charts_create(ctx, out, m, &options), ESPALIER_OK);
    chart_check(m, out);
}

/* L2 stretch of Sander et al.: root mean square over the surface of the map from plane to space. */
static double l2_stretch(const esi_mesh *m, const esi_charts *charts)
{
    double sum = 0.0, area = 0.0, uv_area = 0.0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        double p[3][2], s[3] = {0}, t[3] = {0}, weight = chart_space_area(m, f), twice;
        chart_corners(charts->corner_uv, f, p);
        twice = chart_turn(p[0], p[1], p[2]);
        if (weight == 0.0) continue;
        for (int k = 0; k < 3; k++) {
            const float *q = m->vertices + 3 * (int64_t)m->faces[3 * f + k];
            for (int j = 0; j < 3; j++) {
                s[j] += (double)q[j] * (p[(k + 1) % 3][1] - p[(k + 2) % 3][1]) / twice;
                t[j] += (double)q[j] * (p[(k + 2) % 3][0] - p[(k + 1) % 3][0]) / twice;
            }
        }
        sum += weight * 0.5 * (s[0] * s[0] + s[1] * s[1] + s[2] * s[2] + t[0] * t[0] + t[1] * t[1] + t[2] * t[2]);
        area += weight;
        uv_area += 0.5 * twice;
    }
    return sqrt(sum / area * uv_area / area);
}

/* ------------------------------------------------------------ analytic */

static void flat_things_stay_as_they_are(void **state)
{
    static const double low[3] = {-0.5, -0.5, -0.5}, high[3] = {0.5, 0.5, 0.5};
    test_base t;
    esi_charts charts;
    esi_mesh m = {0};

    (void)state;
    test_base_open(&t, 1);
    chart_shape_plane(t.ctx, &m, 20);
    make(t.ctx, &charts, &m);
    assert_int_equal(charts.n_charts, 1);
    assert_int_equal(charts.method[0], ESI_CHART_PLANE);
    assert_int_equal(charts.split_charts, 0);
    assert_true(chart_worst_side(&m, charts.corner_uv) < 1e-5);
    esi_charts_free(t.ctx, &charts);
    esi_mesh_free(t.ctx, &m);
    for (int n = 1; n < 9; n += 7) {
        damage_box(t.ctx, &m, n, low, high);
        make(t.ctx, &charts, &m);
        assert_in_range(charts.n_charts, 1, 6);
        assert_true(chart_worst_side(&m, charts.corner_uv) < 1e-5); /* two sides of a box unfold exactly */
        esi_charts_free(t.ctx, &charts);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static void developable_surfaces_keep_their_lengths(void **state)
{
    static const struct { double bottom, top, worst; } tubes[] = {{0.3, 0.3, 1e-5}, {0.4, 0.1, 2e-2}, {0.4, 0.0, 2e-2}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(tubes); i++) {
        esi_charts charts;
        esi_mesh m = {0};
        chart_shape_tube(t.ctx, &m, 64, 32, tubes[i].bottom, tubes[i].top, 1.0);
        assert_int_equal(esi_mesh_weld(t.ctx, &m, NULL, NULL), ESPALIER_OK); /* the tip of the cone */
        make(t.ctx, &charts, &m);
        assert_in_range(charts.n_charts, 2, 4);
        assert_true(chart_worst_side(&m, charts.corner_uv) < tubes[i].worst);
        assert_true(l2_stretch(&m, &charts) < 1.000001);
        esi_charts_free(t.ctx, &charts);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static void curved_surfaces_stretch_little(void **state)
{
    test_base t;
    esi_charts charts;
    esi_mesh m = {0};

    (void)state;
    test_base_open(&t, 1);
    damage_sphere(t.ctx, &m, 40, 0.4, 0.0, 0.0, 0.0, false);
    make(t.ctx, &charts, &m);
    assert_in_range(charts.n_charts, 2, 12);
    assert_true(l2_stretch(&m, &charts) < 1.005);
    esi_charts_free(t.ctx, &charts);
    esi_mesh_free(t.ctx, &m);
    damage_torus(t.ctx, &m, 40, 0.3, 0.1);
    make(t.ctx, &charts, &m);
    assert_in_range(charts.n_charts, 4, 30);
    assert_true(l2_stretch(&m, &charts) < 1.005);
    esi_charts_free(t.ctx, &charts);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ------------------------------------------------------------ hard input */

/* 64 x 64 displaced grid with jittered vertices: other unwrappers make it 1748 charts. */
static void rough_surfaces_stay_whole(void **state)
{
    static const struct { double flat, up, stretch; } noise[] = { /* in cells */
        {0.2, 0.2, 1.005}, {0.5, 0.5, 1.03}, {0.8, 0.8, 1.1}, {0.1, 1.5, 1.12}, {0.0, 2.5, 1.7}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(noise); i++) {
        esi_charts charts;
        esi_mesh m = {0};
        chart_shape_rough(t.ctx, &m, 64, noise[i].flat, noise[i].up);
        make(t.ctx, &charts, &m);
        assert_in_range(charts.n_charts, 1, 120);
        assert_true(l2_stretch(&m, &charts) < noise[i].stretch);
        esi_charts_free(t.ctx, &charts);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* 249 charts with 108 crumbs unless they are joined to their neighbours; and no allocation of that may fail unnoticed. */
static void crumbs_are_joined(void **state)
{
    test_base t;
    esi_charts charts;
    esi_mesh m = {0};
    esi_chart_options options = esi_chart_options_default();
    espalier_status st = ESPALIER_ERR_RESOURCE;
    int crumbs = 0;

    (void)state;
    test_base_open(&t, 1);
    chart_shape_rough(t.ctx, &m, 128, 0.8, 0.8);
    make(t.ctx, &charts, &m);
    int *faces = calloc((size_t)charts.n_charts, sizeof *faces);
    for (int64_t f = 0; f < m.n_faces; f++) faces[charts.face_chart[f]]++;
    for (int32_t i = 0; i < charts.n_charts; i++) crumbs += faces[i] < 24;
    assert_in_range(charts.n_charts, 1, 220);
    assert_in_range(crumbs, 0, 75);
    free(faces);
    esi_charts_free(t.ctx, &charts);
    for (long n = 200; st != ESPALIER_OK; n += 23) {
        assert_true(n < 5000);
        test_fail_at(&t.memory, n);
        st = esi_charts_create(t.ctx, &charts, &m, &options);
        test_fail_at(&t.memory, 0);
        if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
    }
    esi_charts_free(t.ctx, &charts);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Work is counted in steps, so that the bound is one for every machine. */
static void work_is_bounded(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 5; i++) {
        esi_charts charts, hasty;
        esi_mesh m = {0};
        esi_chart_options options = esi_chart_options_default();
        if (i == 0) chart_shape_soup(t.ctx, &m, 500, 5000);
        if (i == 1) chart_shape_soup(t.ctx, &m, 40, 3000);
        if (i == 2) chart_shape_rough(t.ctx, &m, 64, 0.7, 3.0);
        if (i == 3) chart_shape_rough(t.ctx, &m, 40, 2.0, 2.0);
        if (i == 4) chart_shape_tube(t.ctx, &m, 3000, 1, 0.4, 0.1, 0.01);
        make(t.ctx, &charts, &m);
        assert_true(charts.work <= 2000 * m.n_faces);
        options.work_per_face = 1; /* all is spent after the first round */
        assert_int_equal(esi_charts_create(t.ctx, &hasty, &m, &options), ESPALIER_OK);
        chart_check(&m, &hasty);
        assert_true(hasty.work <= charts.work + 20 * m.n_faces); /* joining is left out, too */
        esi_charts_free(t.ctx, &hasty);
        esi_charts_free(t.ctx, &charts);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static void faces_without_area_do_no_harm(void **state)
{
    test_base t;
    esi_charts charts;
    esi_mesh m = {0};

    (void)state;
    test_base_open(&t, 1);
    chart_shape_plane(t.ctx, &m, 12);
    for (int64_t f = 0; f < m.n_faces; f += 7) { /* corners onto sides, corners onto corners */
        float *p = m.vertices + 3 * (int64_t)m.faces[3 * f], *q = m.vertices + 3 * (int64_t)m.faces[3 * f + 1];
        const float *s = m.vertices + 3 * (int64_t)m.faces[3 * f + (f % 2 ? 1 : 2)];
        for (int k = 0; k < 3; k++) p[k] = 0.5f * (q[k] + s[k]);
    }
    make(t.ctx, &charts, &m);
    assert_in_range(charts.n_charts, 1, 40);
    esi_charts_free(t.ctx, &charts);
    for (int64_t v = 0; v < m.n_vertices; v++) m.vertices[3 * v + 1] = m.vertices[3 * v + 2] = 0.0f; /* all on one line */
    make(t.ctx, &charts, &m);
    esi_charts_free(t.ctx, &charts);
    for (int64_t v = 0; v < 3 * m.n_vertices; v++) m.vertices[v] = 0.25f; /* one point */
    make(t.ctx, &charts, &m);
    esi_charts_free(t.ctx, &charts);
    m.n_faces = 0;
    make(t.ctx, &charts, &m);
    assert_int_equal(charts.n_charts, 0);
    esi_charts_free(t.ctx, &charts);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void damaged_meshes(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int number = 0; number < 100; number++) {
        esi_charts charts;
        esi_mesh m = {0};
        damage_make(t.ctx, &m, number, DAMAGE_ALL & ~(DAMAGE_NAN | DAMAGE_RANGE));
        make(t.ctx, &charts, &m);
        esi_charts_free(t.ctx, &charts);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* Size is no matter: no absolute epsilons. */
static void scale_changes_nothing(void **state)
{
    test_base t;
    esi_charts charts, other;
    esi_mesh m = {0};

    (void)state;
    test_base_open(&t, 1);
    damage_torus(t.ctx, &m, 24, 0.3, 0.1);
    make(t.ctx, &charts, &m);
    for (int64_t i = 0; i < 3 * m.n_vertices; i++) m.vertices[i] *= 0x1p-12f;
    make(t.ctx, &other, &m);
    assert_int_equal(charts.n_charts, other.n_charts);
    assert_memory_equal(charts.face_chart, other.face_chart, (size_t)m.n_faces * 4);
    for (int64_t i = 0; i < 6 * m.n_faces; i++) assert_true(charts.corner_uv[i] * 0x1p-12f == other.corner_uv[i]);
    esi_charts_free(t.ctx, &charts);
    esi_charts_free(t.ctx, &other);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ----------------------------------------------------------- the machine */

static void threads_change_nothing(void **state)
{
    esi_charts one = {0};
    test_base first;

    (void)state;
    test_base_open(&first, 1);
    for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        test_base t;
        esi_charts charts;
        esi_mesh m = {0};
        test_base_open(&t, threads);
        chart_shape_rough(t.ctx, &m, 64, 0.6, 0.8);
        make(threads == 1 ? first.ctx : t.ctx, threads == 1 ? &one : &charts, &m);
        if (threads > 1) {
            assert_int_equal(charts.n_charts, one.n_charts);
            assert_int_equal(charts.work, one.work);
            assert_memory_equal(charts.face_chart, one.face_chart, (size_t)m.n_faces * 4);
            assert_memory_equal(charts.corner_uv, one.corner_uv, (size_t)m.n_faces * 24);
            assert_memory_equal(charts.method, one.method, (size_t)one.n_charts);
            esi_charts_free(t.ctx, &charts);
        }
        esi_mesh_free(t.ctx, &m);
        test_base_close(&t);
    }
    esi_charts_free(first.ctx, &one);
    test_base_close(&first);
}

static void failing_allocations(void **state)
{
    test_base t;
    esi_charts charts;
    esi_mesh m = {0};
    esi_chart_options options = esi_chart_options_default();
    espalier_status st = ESPALIER_ERR_RESOURCE;

    (void)state;
    test_base_open(&t, 1);
    chart_shape_rough(t.ctx, &m, 12, 0.8, 1.5);
    for (long n = 1; st != ESPALIER_OK; n++) {
        assert_true(n < 2000);
        test_fail_at(&t.memory, n);
        st = esi_charts_create(t.ctx, &charts, &m, &options);
        test_fail_at(&t.memory, 0);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_null(charts.face_chart);
        assert_null(charts.corner_uv);
        assert_null(charts.method);
        esi_clear_error(t.ctx);
    }
    esi_charts_free(t.ctx, &charts);
    espalier_context_set_memory_budget(t.ctx, espalier_context_memory_now(t.ctx) + 20000);
    assert_int_equal(esi_charts_create(t.ctx, &charts, &m, &options), ESPALIER_ERR_RESOURCE);
    esi_clear_error(t.ctx);
    espalier_context_set_memory_budget(t.ctx, 0);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_charts_create(t.ctx, &charts, &m, &options), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(t.ctx);
    esi_clear_error(t.ctx);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ---------------------------------------------------- the linear solver */

/* A grid's Laplacian + 1/8 against the residual, and a matrix that is not definite. */
static void solves_a_grid(void **state)
{
    enum { N = 37, COUNT = N * N };
    static int32_t start[COUNT + 1], column[4 * COUNT];
    static double value[4 * COUNT], diagonal[COUNT], place[2 * COUNT], x[2 * COUNT], wanted[2 * COUNT];
    esi_symmetric a = {COUNT, start, column, value, diagonal};
    esi_cholesky f = {0};
    damage_random r = {3};
    test_base t;
    bool positive;
    int32_t e = 0;

    (void)state;
    test_base_open(&t, 1);
    for (int32_t v = 0; v < COUNT; v++) {
        const int near[4][2] = {{-1, 0}, {1, 0}, {0, -1}, {0, 1}};
        place[2 * v] = v / N;
        place[2 * v + 1] = v % N;
        start[v] = e;
        for (int k = 0; k < 4; k++) {
            int i = v / N + near[k][0], j = v % N + near[k][1];
            if (i < 0 || j < 0 || i >= N || j >= N) continue;
            column[e] = i * N + j;
            value[e++] = -1.0;
        }
        diagonal[v] = e - start[v] + 0.125;
        for (int k = 0; k < 2; k++) wanted[2 * v + k] = damage_unit(&r) - 0.5;
    }
    start[COUNT] = e;
    for (int32_t v = 0; v < COUNT; v++) {
        for (int k = 0; k < 2; k++) {
            x[2 * v + k] = diagonal[v] * wanted[2 * v + k];
            for (int32_t i = start[v]; i < start[v + 1]; i++) x[2 * v + k] += value[i] * wanted[2 * column[i] + k];
        }
    }
    assert_int_equal(esi_cholesky_factor(t.ctx, &f, &a, place, &positive), ESPALIER_OK);
    assert_true(positive);
    assert_true(f.entries < 20 * COUNT); /* in natural order: 37 per unknown */
    esi_cholesky_solve2(&f, x);
    for (int i = 0; i < 2 * COUNT; i++) assert_true(fabs(x[i] - wanted[i]) < 1e-13);
    diagonal[700] = -1.0;
    assert_int_equal(esi_cholesky_factor(t.ctx, &f, &a, place, &positive), ESPALIER_OK);
    assert_false(positive);
    esi_cholesky_free(t.ctx, &f);
    test_base_close(&t);
}

/* --------------------------------------------------------- real meshes */

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
        esi_charts charts;
        snprintf(path, sizeof path, "%s/../../shared/golden/geometry/meshes/real_%s.ply", ESPALIER_TEST_DATA, meshes[i].name);
        if (!ply_fixture_read(t.ctx, &m, path)) {
            print_message("SKIPPED: %s is not there\n", path);
            continue;
        }
        make(t.ctx, &charts, &m);
        print_message("%s: %d charts, L2 stretch %.4f, %.0f steps per face\n", meshes[i].name, charts.n_charts, l2_stretch(&m, &charts),
                      (double)charts.work / (double)m.n_faces);
        assert_in_range(charts.n_charts, 1, meshes[i].charts);
        assert_true(l2_stretch(&m, &charts) < 1.01);
        assert_true(charts.work < 500 * m.n_faces);
        esi_charts_free(t.ctx, &charts);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solves_a_grid),
        cmocka_unit_test(flat_things_stay_as_they_are),
        cmocka_unit_test(developable_surfaces_keep_their_lengths),
        cmocka_unit_test(curved_surfaces_stretch_little),
        cmocka_unit_test(rough_surfaces_stay_whole),
        cmocka_unit_test(crumbs_are_joined),
        cmocka_unit_test(work_is_bounded),
        cmocka_unit_test(faces_without_area_do_no_harm),
        cmocka_unit_test(damaged_meshes),
        cmocka_unit_test(scale_changes_nothing),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(real_meshes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
