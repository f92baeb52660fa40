/* SPDX-License-Identifier: MIT
 *
 * Simplification: shapes whose best approximation is known, what must never change (topology, rims, odd edges), damaged meshes, and the
 * reference's passes against a plain rewrite of their definition. Real meshes are measured where they are there to be read.
 */
#include "support.h"

#include "damage_fixture.h"
#include "mesh/clean.h"
#include "mesh/collapse.h"
#include "mesh/compare.h"
#include "mesh/metrics.h"
#include "mesh/simplify.h"
#include "ply_fixture.h"

static esi_mesh_metrics metrics_of(espalier_context *ctx, const esi_mesh *m)
{
    esi_mesh_metrics metrics;

    assert_int_equal(esi_mesh_metrics_compute(ctx, &metrics, m, 0.03), ESPALIER_OK);
    return metrics;
}

static esi_simplify_stats simplify(espalier_context *ctx, esi_mesh *m, int64_t target)
{
    const esi_simplify_options options = esi_simplify_options_default(target);
    esi_simplify_stats stats;

    assert_int_equal(esi_mesh_simplify(ctx, m, &options, &stats), ESPALIER_OK);
    assert_int_equal(stats.reached, m->n_faces <= target);
    return stats;
}

static esi_mesh copy_of(espalier_context *ctx, const esi_mesh *m)
{
    esi_mesh copy;

    assert_int_equal(esi_mesh_copy(ctx, &copy, m->vertices, m->n_vertices, m->faces, m->n_faces), ESPALIER_OK);
    return copy;
}

static bool same_mesh(const esi_mesh *a, const esi_mesh *b)
{
    return a->n_vertices == b->n_vertices && a->n_faces == b->n_faces &&
           memcmp(a->vertices, b->vertices, (size_t)a->n_vertices * 12) == 0 && memcmp(a->faces, b->faces, (size_t)a->n_faces * 12) == 0;
}

static bool has_vertex(const esi_mesh *m, float x, float y, float z)
{
    for (int64_t v = 0; v < m->n_vertices; v++) {
        const float *p = m->vertices + 3 * v;
        if (p[0] == x && p[1] == y && p[2] == z) return true;
    }
    return false;
}

/* -------------------------------------------------------------- known results */

/* A plane needs two triangles between its corners, whichever way it lies; by default four faces stay of any component. */
static void plane(void **state)
{
    static const float slopes[3][2] = {{0.0f, 0.0f}, {0.5f, 0.25f}, {0.3f, -0.7f}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(slopes); i++) {
        esi_mesh m;
        esi_simplify_options options = esi_simplify_options_default(2);
        esi_simplify_stats stats;

        damage_grid(t.ctx, &m, 17, 17, false, false);
        for (int v = 0; v < 17 * 17; v++) {
            const float x = (float)(v / 17) / 16.0f, y = (float)(v % 17) / 16.0f;
            memcpy(m.vertices + 3 * v, (float[]){x, y, slopes[i][0] * x + slopes[i][1] * y}, 12);
        }
        esi_mesh four = copy_of(t.ctx, &m);
        stats = simplify(t.ctx, &four, 1);
        assert_int_equal(four.n_faces, 4);
        assert_false(stats.reached);
        options.min_component_faces = 1;
        assert_int_equal(esi_mesh_simplify(t.ctx, &m, &options, &stats), ESPALIER_OK);
        assert_int_equal(m.n_faces, 2);
        assert_int_equal(m.n_vertices, 4);
        assert_true(stats.last_error < (i < 2 ? 2e-8 : 6e-8));         /* floats have 6e-8 of room at 1 */
        for (int corner = 0; corner < 4; corner++) {
            const float x = (float)(corner & 1), y = (float)(corner >> 1);
            assert_true(has_vertex(&m, x, y, slopes[i][0] * x + slopes[i][1] * y));
        }
        esi_mesh_free(t.ctx, &four);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* A box needs 12 faces, and its corners stay where they are to the bit. */
static void box(void **state)
{
    const double low[3] = {-0.3, -0.2, -0.4}, high[3] = {0.3, 0.25, 0.45};
    test_base t;
    esi_mesh m;

    (void)state;
    test_base_open(&t, 2);
    damage_box(t.ctx, &m, 9, low, high);
    const esi_simplify_stats stats = simplify(t.ctx, &m, 12);
    assert_int_equal(m.n_faces, 12);
    assert_int_equal(m.n_vertices, 8);
    assert_true(stats.last_error < 3e-8);
    for (int i = 0; i < 8; i++)
        assert_true(has_vertex(&m, (float)(i & 1 ? high : low)[0], (float)(i & 2 ? high : low)[1], (float)(i & 4 ? high : low)[2]));
    const esi_mesh_metrics after = metrics_of(t.ctx, &m);
    assert_true(after.watertight && after.manifold);
    assert_int_equal(after.euler, 2);
    assert_int_equal(after.winding_conflicts, 0);
    assert_true(fabs(after.volume - 0.6 * 0.45 * 0.85) < 1e-7);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* N equal triangles with their corners on a sphere have it s = 2 A / (sqrt(27) r) above their middles, A = 4 pi r^2 / N, and 3 s / 4 in the
 * mean. Corners free to move do better than that in the mean by a factor of up to four; half of that is asked for. */
static void sphere(void **state)
{
    enum { TARGET = 600 };
    const double r = 0.4, s = 2 * 4 * 3.14159265358979 * r / TARGET / 5.196152;
    test_base t;
    esi_mesh m, before;
    esi_mesh_distance distance;

    (void)state;
    test_base_open(&t, 2);
    damage_sphere(t.ctx, &m, 60, r, 0.01, 0.02, 0.03, false);
    before = copy_of(t.ctx, &m);
    simplify(t.ctx, &m, TARGET);
    assert_int_equal(m.n_faces, TARGET);
    assert_int_equal(esi_mesh_compare(t.ctx, &distance, &before, &m, 20000), ESPALIER_OK);
    assert_true(distance.hausdorff < 1.6 * s);
    assert_true(distance.mean_ab < 0.375 * s && distance.mean_ba < 0.375 * s);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &before);
    test_base_close(&t);
}

/* ------------------------------------------------------------- what must stay */

/* An open cup keeps its rim: one loop, a circle of radius 0.2 at z = 0.4. */
static void rim(void **state)
{
    test_base t;
    esi_mesh m;

    (void)state;
    test_base_open(&t, 1);
    damage_cup(t.ctx, &m, 40);
    simplify(t.ctx, &m, m.n_faces / 20);
    const esi_mesh_metrics after = metrics_of(t.ctx, &m);
    assert_int_equal(after.boundary_loops, 1);
    assert_int_equal(after.boundary_chains, 0);
    assert_int_equal(after.odd_edges, after.boundary_edges);
    assert_int_equal(after.euler, 1);
    assert_true(fabs(after.longest_loop - 2 * 3.14159265358979 * 0.2) < 0.01);
    for (int64_t v = 0; v < m.n_vertices; v++) assert_true(m.vertices[3 * v + 2] < 0.402f);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void tetrahedron(void **state)
{
    static const float corners[4][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    static const int32_t faces[4][3] = {{0, 2, 1}, {0, 1, 3}, {1, 2, 3}, {2, 0, 3}};
    test_base t;
    esi_mesh m, before;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_copy(t.ctx, &m, corners[0], 4, faces[0], 4), ESPALIER_OK);
    before = copy_of(t.ctx, &m);
    assert_false(simplify(t.ctx, &m, 1).reached);
    assert_true(same_mesh(&m, &before));
    assert_true(simplify(t.ctx, &m, 4).reached);
    assert_true(same_mesh(&m, &before));
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &before);
    test_base_close(&t);
}

/* Closed components end as tetrahedra, a torus as its seven-vertex triangulation or not far above; none of them changes its kind. */
static void topology(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int shape = 0; shape < DAMAGE_SHAPES; shape++) {
        esi_mesh m;

        damage_shape(t.ctx, &m, shape, 16);
        const esi_mesh_metrics before = metrics_of(t.ctx, &m);
        const bool reached = simplify(t.ctx, &m, 4).reached;
        const esi_mesh_metrics after = metrics_of(t.ctx, &m);
        assert_int_equal(after.face_components, before.face_components);
        assert_int_equal(after.vertex_components, before.vertex_components);
        assert_int_equal(after.euler, before.euler);
        assert_int_equal(after.nonmanifold_edges, 0);
        assert_int_equal(after.boundary_loops, before.boundary_loops);
        assert_int_equal(after.winding_conflicts, 0);
        assert_int_equal(after.zero_area_faces, 0);
        if (shape == DAMAGE_SPHERE) assert_true(reached && m.n_faces == 4);
        if (shape == DAMAGE_NESTED) assert_true(!reached && m.n_faces == 12);
        if (shape == DAMAGE_TORUS) assert_true(m.n_faces >= 14 && m.n_faces < 40);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* Two boxes that share an edge line, welded: edges of four faces. They stay four, at their place, and no odd edge comes. */
static void nonmanifold_line(void **state)
{
    const double low[3] = {-0.4, -0.4, -0.3}, middle[2][3] = {{0.0, 0.0, 0.3}, {0.0, 0.0, -0.3}}, high[3] = {0.4, 0.4, 0.3};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int64_t target = 200; target >= 4; target /= 7) {
        esi_mesh m, other;

        damage_box(t.ctx, &m, 8, low, middle[0]);
        damage_box(t.ctx, &other, 8, middle[1], high);
        damage_append(t.ctx, &m, &other);
        assert_int_equal(esi_mesh_weld(t.ctx, &m, NULL, NULL), ESPALIER_OK);
        const esi_mesh_metrics before = metrics_of(t.ctx, &m);
        assert_int_equal(before.nonmanifold_edges, 8);
        assert_int_equal(before.odd_edges, 0);
        simplify(t.ctx, &m, target);
        const esi_mesh_metrics after = metrics_of(t.ctx, &m);
        assert_int_equal(after.odd_edges, 0);
        assert_int_equal(after.boundary_edges, 0);
        assert_true(after.nonmanifold_edges >= 1 && after.nonmanifold_edges <= 8);
        assert_true(target > 20 || after.nonmanifold_edges == 1);
        assert_true(m.n_faces >= target - 1 && m.n_faces < 30 + target);
        assert_true(has_vertex(&m, 0.0f, 0.0f, 0.3f) && has_vertex(&m, 0.0f, 0.0f, -0.3f));
        esi_mesh_free(t.ctx, &m);
        esi_mesh_free(t.ctx, &other);
    }
    test_base_close(&t);
}

/* Is b = 4, the middle of a flat grid of 3 x 3 vertices, allowed to join a = 5 beside it in a given place? */
static bool folds(espalier_context *ctx, float x, float y, float z)
{
    esi_collapse_mesh collapse;
    esi_edges edges;
    esi_mesh m;
    static esi_star star;

    damage_grid(ctx, &m, 3, 3, false, false);
    for (int v = 0; v < 9; v++) memcpy(m.vertices + 3 * v, (float[]){(float)(v / 3), (float)(v % 3), 0}, 12);
    assert_int_equal(esi_edges_build(ctx, &edges, &m), ESPALIER_OK);
    assert_int_equal(esi_collapse_open(ctx, &collapse, &m, &edges), ESPALIER_OK);
    assert_true(esi_collapse_gather(&collapse, &star, 5, 4));
    assert_int_equal(star.n_gone, 2);
    const bool result = esi_collapse_folds(&collapse, &star, (float[]){x, y, z});
    esi_collapse_close(ctx, &collapse);
    esi_edges_free(ctx, &edges);
    esi_mesh_free(ctx, &m);
    return result;
}

/* No face turns over, by more than 60 degrees, or becomes a needle; on rough ground next to none does in many steps either. */
static void no_folds(void **state)
{
    enum { N = 80 };
    test_base t;
    esi_mesh m;
    int64_t turned = 0;

    (void)state;
    test_base_open(&t, 1);
    assert_false(folds(t.ctx, 1, 2, 0));
    assert_false(folds(t.ctx, 1, 1.5f, 0));
    assert_true(folds(t.ctx, 2.5f, 1, 0));                 /* past the rim */
    assert_true(folds(t.ctx, 1, -0.5f, 0));
    assert_true(folds(t.ctx, 1, 2.5f, 3));                 /* upright */
    assert_true(folds(t.ctx, 1, 0.001f, 0));               /* a needle at the rim */
    for (int round = 0; round < 8; round++) {
        damage_random r = {(uint64_t)round + 1};

        damage_grid(t.ctx, &m, N, N, false, false);
        for (int v = 0; v < N * N; v++) {
            const double x = v / N + 0.3 * damage_unit(&r), y = v % N + 0.3 * damage_unit(&r);
            memcpy(m.vertices + 3 * v, (float[]){(float)x, (float)y, (float)(0.4 * damage_unit(&r))}, 12);
        }
        simplify(t.ctx, &m, m.n_faces / 12);
        for (int64_t f = 0; f < m.n_faces; f++) {
            const int32_t *v = m.faces + 3 * f;
            const float *a = m.vertices + 3 * (int64_t)v[0], *b = m.vertices + 3 * (int64_t)v[1], *c = m.vertices + 3 * (int64_t)v[2];
            turned += (double)(b[0] - a[0]) * (double)(c[1] - a[1]) <= (double)(b[1] - a[1]) * (double)(c[0] - a[0]);
        }
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(turned <= 4);                              /* of 8300; 15 without the test */
    test_base_close(&t);
}

/* A book of four pages: its spine is the cheapest place, but a collapse there takes four faces, and three more than asked is too many. */
static void not_below_target(void **state)
{
    enum { ROWS = 8 };
    test_base t;
    esi_mesh m = {0};
    esi_simplify_stats stats;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < ROWS; i++) damage_vertex(t.ctx, &m, 0, 0, 0.01 * i);
    for (int page = 0; page < 4; page++) {
        const double x = page == 0 ? 1 : page == 2 ? -1 : 0, y = page == 1 ? 1 : page == 3 ? -1 : 0;
        const int32_t first = (int32_t)m.n_vertices;

        for (int i = 0; i < ROWS; i++) damage_vertex(t.ctx, &m, x, y, 0.2 * i);
        for (int i = 0; i + 1 < ROWS; i++) {
            damage_face(t.ctx, &m, i, first + i, first + i + 1);
            damage_face(t.ctx, &m, i, first + i + 1, i + 1);
        }
    }
    const int64_t before = m.n_faces;
    stats = simplify(t.ctx, &m, before - 1);
    assert_true(m.n_faces == before - 1 || m.n_faces == before - 2);
    assert_true(stats.reached);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Whatever the mesh: no odd edge comes, nothing vanishes, no number breaks, the target is not overshot. */
static void damaged_meshes(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int number = 0; number < 200; number++) {
        static const double shares[4] = {0.5, 0.1, 0.02, 0.0};
        esi_mesh m;

        damage_make(t.ctx, &m, number, DAMAGE_ALL);
        assert_int_equal(esi_mesh_sanitize(t.ctx, &m, NULL), ESPALIER_OK);
        if (number % 2) assert_int_equal(esi_mesh_weld(t.ctx, &m, NULL, NULL), ESPALIER_OK);
        esi_mesh_metrics before = metrics_of(t.ctx, &m);
        for (size_t i = 0; i < ESI_COUNT(shares); i++) {
            const int64_t target = (int64_t)((double)m.n_faces * shares[i]);

            simplify(t.ctx, &m, target);
            const esi_mesh_metrics after = metrics_of(t.ctx, &m);
            assert_true(m.n_faces >= target - 1);
            assert_true(after.odd_edges <= before.odd_edges);
            assert_true(before.odd_edges == 0 || after.odd_edges > 0);
            assert_true(after.nonmanifold_edges <= before.nonmanifold_edges);
            assert_int_equal(after.vertex_components, before.vertex_components);
            assert_int_equal(after.euler, before.euler);
            assert_true(after.zero_area_faces <= before.zero_area_faces);
            assert_true(after.duplicate_faces <= before.duplicate_faces);
            for (int64_t k = 0; k < 3 * m.n_vertices; k++) assert_true(m.vertices[k] > -1.0f && m.vertices[k] < 1.0f);
            before = after;
        }
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* Two cones on a rim of many vertices: the cost of a collapse does not depend on how many faces the tips have. */
static void large_fans(void **state)
{
    enum { RIM = 60000 };
    test_base t;
    esi_mesh m;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_new(t.ctx, &m, RIM + 2, 2 * RIM), ESPALIER_OK);
    memcpy(m.vertices + 3 * RIM, (float[]){0, 0, 1, 0, 0, -1}, 24);
    for (int i = 0; i < RIM; i++) {
        const double a = 2 * 3.14159265358979 * i / RIM;

        memcpy(m.vertices + 3 * i, (float[]){(float)cos(a), (float)sin(a), 0}, 12);
        memcpy(m.faces + 6 * i, (int32_t[]){i, (i + 1) % RIM, RIM, (i + 1) % RIM, i, RIM + 1}, 24);
    }
    const double start = esi_cpu_seconds();
    simplify(t.ctx, &m, 200);
    assert_true(m.n_faces == 200);
    assert_int_equal(metrics_of(t.ctx, &m).euler, 2);
    assert_true(esi_cpu_seconds() - start < 30.0);         /* work that grows with the square would take minutes */
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* -------------------------------------------------------------------- options */

static void largest_error(void **state)
{
    test_base t;
    esi_mesh m, before;
    esi_simplify_options options = esi_simplify_options_default(4);
    esi_simplify_stats stats;
    esi_mesh_distance distance;

    (void)state;
    test_base_open(&t, 1);
    damage_sphere(t.ctx, &m, 50, 0.4, 0, 0, 0, false);
    before = copy_of(t.ctx, &m);
    options.max_error = 1e-3;
    assert_int_equal(esi_mesh_simplify(t.ctx, &m, &options, &stats), ESPALIER_OK);
    assert_true(stats.last_error <= 1e-3 && stats.last_error > 0.5e-3);
    assert_false(stats.reached);
    assert_true(m.n_faces > 100 && m.n_faces < before.n_faces / 4);
    assert_int_equal(esi_mesh_compare(t.ctx, &distance, &before, &m, 10000), ESPALIER_OK);
    assert_true(distance.hausdorff < 1e-2);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &before);
    test_base_close(&t);
}

/* Without keep_boundary the rim may move, but stays one loop. */
static void free_boundary(void **state)
{
    test_base t;
    esi_mesh m;
    esi_simplify_options options = esi_simplify_options_default(200);

    (void)state;
    test_base_open(&t, 1);
    damage_cup(t.ctx, &m, 30);
    options.keep_boundary = false;
    assert_int_equal(esi_mesh_simplify(t.ctx, &m, &options, NULL), ESPALIER_OK);
    const esi_mesh_metrics after = metrics_of(t.ctx, &m);
    assert_true(m.n_faces == 200 || m.n_faces == 199);
    assert_int_equal(after.boundary_loops, 1);
    assert_int_equal(after.euler, 1);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* 1024 times as large, and somewhere else by a number that floats hold: the same faces, vertices 1024 times as far. */
static void any_scale(void **state)
{
    static const float scales[3] = {1024.0f, 1.0f / 1048576.0f, 3.0517578125e-5f};
    test_base t;
    esi_mesh small;

    (void)state;
    test_base_open(&t, 1);
    damage_torus(t.ctx, &small, 30, 0.3, 0.1);
    for (size_t i = 0; i < ESI_COUNT(scales); i++) {
        esi_mesh a = copy_of(t.ctx, &small), b = copy_of(t.ctx, &small);

        for (int64_t k = 0; k < 3 * b.n_vertices; k++) b.vertices[k] *= scales[i];
        const esi_simplify_stats sa = simplify(t.ctx, &a, 300), sb = simplify(t.ctx, &b, 300);
        for (int64_t k = 0; k < 3 * a.n_vertices; k++) a.vertices[k] *= scales[i];
        assert_true(same_mesh(&a, &b));
        assert_true(sb.last_error == sa.last_error * (double)scales[i]);
        esi_mesh_free(t.ctx, &a);
        esi_mesh_free(t.ctx, &b);
    }
    esi_mesh_free(t.ctx, &small);
    test_base_close(&t);
}

static void few_faces_already(void **state)
{
    test_base t;
    esi_mesh m, before, none = {0};

    (void)state;
    test_base_open(&t, 1);
    damage_torus(t.ctx, &m, 10, 0.3, 0.1);
    before = copy_of(t.ctx, &m);
    assert_true(simplify(t.ctx, &m, m.n_faces).reached);
    assert_true(same_mesh(&m, &before));
    assert_int_equal(simplify(t.ctx, &m, m.n_faces - 1).collapses, 1);
    assert_int_equal(m.n_faces, before.n_faces - 2);
    assert_true(simplify(t.ctx, &none, 0).reached);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &before);
    test_base_close(&t);
}

/* ---------------------------------------------------- threads, memory, cancel */

static void bumpy_sphere(espalier_context *ctx, esi_mesh *m, int n)
{
    damage_random r = {5};

    damage_sphere(ctx, m, n, 0.4, 0, 0, 0, false);
    for (int64_t k = 0; k < 3 * m->n_vertices; k++) m->vertices[k] += (float)(0.002 * damage_unit(&r));
}

static void threads(void **state)
{
    static const int counts[3] = {1, 2, 5};
    esi_mesh ours[3], reference[3];
    test_base t[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        test_base_open(&t[i], counts[i]);
        bumpy_sphere(t[i].ctx, &ours[i], 90);
        damage_torus(t[i].ctx, &reference[i], 80, 0.3, 0.1);
        simplify(t[i].ctx, &ours[i], 2000);
        assert_int_equal(esi_mesh_simplify_reference(t[i].ctx, &reference[i], 2000, NULL), ESPALIER_OK);
        assert_true(same_mesh(&ours[i], &ours[0]));
        assert_true(same_mesh(&reference[i], &reference[0]));
    }
    for (int i = 0; i < 3; i++) {
        esi_mesh_free(t[i].ctx, &ours[i]);
        esi_mesh_free(t[i].ctx, &reference[i]);
        test_base_close(&t[i]);
    }
}

static espalier_status run_either(espalier_context *ctx, esi_mesh *m, int which)
{
    const esi_simplify_options options = esi_simplify_options_default(200);

    return which ? esi_mesh_simplify_reference(ctx, m, 200, NULL) : esi_mesh_simplify(ctx, m, &options, NULL);
}

static void no_memory(void **state)
{
    test_base t;
    esi_mesh start, m;

    (void)state;
    test_base_open(&t, 2);
    bumpy_sphere(t.ctx, &start, 20);
    for (int which = 0; which < 2; which++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n = 0;

        while (st != ESPALIER_OK && n < 2000) {
            m = copy_of(t.ctx, &start);
            n += n < 60 ? 1 : 13;                          /* the reference asks for the same things in every pass */
            test_fail_at(&t.memory, n);
            st = run_either(t.ctx, &m, which);
            test_fail_at(&t.memory, 0);
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            if (st != ESPALIER_OK && which == 0) assert_true(same_mesh(&m, &start));
            metrics_of(t.ctx, &m);                         /* a valid mesh in any case */
            esi_clear_error(t.ctx);
            esi_mesh_free(t.ctx, &m);
        }
        assert_int_equal(st, ESPALIER_OK);
        assert_true(n > 10);
        espalier_context_set_memory_budget(t.ctx, espalier_context_memory_now(t.ctx) + 150000);
        m = copy_of(t.ctx, &start);
        assert_int_equal(run_either(t.ctx, &m, which), ESPALIER_ERR_RESOURCE);
        esi_clear_error(t.ctx);
        espalier_context_set_memory_budget(t.ctx, 0);
        espalier_context_cancel(t.ctx);
        assert_int_equal(run_either(t.ctx, &m, which), ESPALIER_ERR_CANCELLED);
        espalier_context_reset_cancel(t.ctx);
        esi_clear_error(t.ctx);
        esi_mesh_free(t.ctx, &m);
    }
    esi_mesh_free(t.ctx, &start);
    test_base_close(&t);
}

/* ------------------------------------------------------------------ reference */

/* One pass by its definition, on all pairs of edges and faces: costs, keys, who rules its surroundings. */
static void plain_pass(espalier_context *ctx, esi_mesh *m, double threshold)
{
    esi_edges edges;

    assert_int_equal(esi_edges_build(ctx, &edges, m), ESPALIER_OK);
    const size_t n = (size_t)edges.count, nf = (size_t)m->n_faces;
    int32_t *ends = malloc(n * 8), *collapsed_to = malloc((size_t)m->n_vertices * 4);
    double *cost = malloc(n * 8), *target = malloc(n * 24);
    size_t *ruler = malloc(nf * sizeof *ruler), kept = 0;
    esi_mesh result = copy_of(ctx, m);

    for (size_t e = 0; e < n; e++) memcpy(ends + 2 * e, (int32_t[]){edges.edges[e].a, edges.edges[e].b}, 8);
    for (int64_t v = 0; v < m->n_vertices; v++) collapsed_to[v] = (int32_t)v;
    assert_int_equal(esi_qem_edge_costs(ctx, cost, target, m, ends, edges.count, 1e-2, 1e-3), ESPALIER_OK);
#define TOUCHES(e, f) (ends[2 * (e)] == m->faces[3 * (f)] || ends[2 * (e)] == m->faces[3 * (f) + 1] || \
                       ends[2 * (e)] == m->faces[3 * (f) + 2] || ends[2 * (e) + 1] == m->faces[3 * (f)] || \
                       ends[2 * (e) + 1] == m->faces[3 * (f) + 1] || ends[2 * (e) + 1] == m->faces[3 * (f) + 2])
    for (size_t f = 0; f < nf; f++) {
        ruler[f] = n;
        for (size_t e = 0; e < n; e++)
            if (TOUCHES(e, f) && (ruler[f] == n || (float)cost[e] < (float)cost[ruler[f]])) ruler[f] = e;
    }
    for (size_t e = 0; e < n; e++) {
        bool rules = (float)cost[e] <= (float)threshold;

        for (size_t f = 0; f < nf && rules; f++) rules = !TOUCHES(e, f) || ruler[f] == e;
        if (!rules) continue;
        for (int k = 0; k < 3; k++) result.vertices[3 * ends[2 * e] + k] = (float)target[3 * e + (size_t)k];
        collapsed_to[ends[2 * e + 1]] = ends[2 * e];
    }
    for (size_t f = 0; f < nf; f++) {
        int32_t v[3];

        for (int k = 0; k < 3; k++) v[k] = collapsed_to[m->faces[3 * f + (size_t)k]];
        if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) continue;
        memcpy(result.faces + 3 * kept++, v, 12);
    }
    result.n_faces = (int64_t)kept;
    assert_int_equal(esi_mesh_compact(ctx, &result, NULL), ESPALIER_OK);
    esi_mesh_free(ctx, m);
    *m = result;
    esi_edges_free(ctx, &edges);
    free(ends);
    free(collapsed_to);
    free(cost);
    free(target);
    free(ruler);
}

/* The costs that the passes go by are the exact ones but for the rounding of single precision: 32 products of order one cancel in each,
 * every one with an error of up to 6e-8. */
static void reference_costs(void **state)
{
    test_base t;
    esi_mesh m;
    esi_edges edges;
    int64_t vetoed = 0;

    (void)state;
    test_base_open(&t, 2);
    damage_torus(t.ctx, &m, 24, 0.3, 0.1);
    assert_int_equal(esi_edges_build(t.ctx, &edges, &m), ESPALIER_OK);
    const size_t n = (size_t)edges.count;
    int32_t *ends = malloc(n * 8);
    double *single = malloc(n * 8), *exact = malloc(n * 8), *target = malloc(n * 24), *exact_target = malloc(n * 24);
    for (size_t e = 0; e < n; e++) memcpy(ends + 2 * e, (int32_t[]){edges.edges[e].a, edges.edges[e].b}, 8);
    assert_int_equal(esi_qem_edge_costs(t.ctx, single, target, &m, ends, edges.count, 1e-2, 1e-3), ESPALIER_OK);
    assert_int_equal(esi_qem_exact_costs(t.ctx, exact, exact_target, &m, ends, edges.count, 1e-2, 1e-3), ESPALIER_OK);
    for (size_t e = 0; e < n; e++) {
        for (int k = 0; k < 3; k++) assert_true(fabs(target[3 * e + (size_t)k] - exact_target[3 * e + (size_t)k]) < 6e-8);
        if (isinf(exact[e]) || isinf(single[e])) {
            vetoed++;
            continue;
        }
        if (fabs(single[e] - exact[e]) > 2e-6) fail_msg("edge %zu: %g, exactly %g", e, single[e], exact[e]);
    }
    assert_true(vetoed < (int64_t)n / 10);
    free(ends);
    free(single);
    free(exact);
    free(target);
    free(exact_target);
    esi_edges_free(t.ctx, &edges);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void reference_passes(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int shape = 0; shape < 3; shape++) {
        esi_mesh m, plain;
        esi_simplify_stats stats;
        double threshold = 1e-8, last = 0.0;
        int64_t passes = 0;

        if (shape == 0) bumpy_sphere(t.ctx, &m, 11);
        if (shape == 1) damage_cup(t.ctx, &m, 9);
        if (shape == 2) damage_torus(t.ctx, &m, 12, 0.3, 0.1);
        plain = copy_of(t.ctx, &m);
        while (plain.n_faces > 150) {
            const int64_t before = plain.n_faces;

            plain_pass(t.ctx, &plain, threshold);
            passes++;
            last = threshold;
            if ((double)(before - plain.n_faces) < 0.01 * (double)before) threshold *= 10.0;
        }
        assert_int_equal(esi_mesh_simplify_reference(t.ctx, &m, 150, &stats), ESPALIER_OK);
        assert_true(same_mesh(&m, &plain));
        assert_int_equal(stats.passes, passes);
        assert_true(stats.last_threshold == last && stats.reached);
        esi_mesh_free(t.ctx, &m);
        esi_mesh_free(t.ctx, &plain);
    }
    test_base_close(&t);
}

/* No odd edge comes, and it ends where no collapse is left: a flat square must not fold. */
static void reference_ends(void **state)
{
    static const float corners[4][3] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}};
    static const int32_t faces[2][3] = {{0, 1, 2}, {0, 2, 3}};
    test_base t;
    esi_mesh m;
    esi_simplify_stats stats;

    (void)state;
    test_base_open(&t, 1);
    for (int number = 0; number < 60; number++) {
        damage_make(t.ctx, &m, number, DAMAGE_ALL);
        assert_int_equal(esi_mesh_sanitize(t.ctx, &m, NULL), ESPALIER_OK);
        const esi_mesh_metrics before = metrics_of(t.ctx, &m);
        assert_int_equal(esi_mesh_simplify_reference(t.ctx, &m, m.n_faces / 3, &stats), ESPALIER_OK);
        assert_true(metrics_of(t.ctx, &m).odd_edges <= before.odd_edges);
        for (int64_t k = 0; k < 3 * m.n_vertices; k++) assert_true(isfinite(m.vertices[k]));
        esi_mesh_free(t.ctx, &m);
    }
    assert_int_equal(esi_mesh_copy(t.ctx, &m, corners[0], 4, faces[0], 2), ESPALIER_OK);
    assert_int_equal(esi_mesh_simplify_reference(t.ctx, &m, 0, &stats), ESPALIER_OK);
    assert_true(stats.passes < 100);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ---------------------------------------------------------------- real meshes */

/* meshoptimizer's mean distances at a tenth of the faces are not to be exceeded in either direction. */
static void real_meshes(void **state)
{
    static const struct { const char *name; double mean_ab, mean_ba; bool reached; int64_t loops; } known[] = {
        {"bunny", 4.37e-4, 4.34e-4, true, 0},
        {"armadillo", 9.48e-4, 9.44e-4, true, 0},
        {"elephant_with_holes", 6.41e-3, 6.24e-3, false, 106},     /* 106 rims of three edges need more faces than a tenth */
        {"mech_holes_shark", 1.34e-3, 1.35e-3, true, 4},
    };
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(known); i++) {
        char path[1024];
        esi_mesh before = {0}, m;
        esi_mesh_distance d;

        snprintf(path, sizeof path, "%s/../../shared/golden/geometry/meshes/real_%s.ply", ESPALIER_TEST_DATA, known[i].name);
        if (!ply_fixture_read(t.ctx, &before, path)) {
            printf("SKIPPED: %s is not there\n", path);
            continue;
        }
        m = copy_of(t.ctx, &before);
        const bool reached = simplify(t.ctx, &m, before.n_faces / 10).reached;
        assert_int_equal(reached, known[i].reached);
        assert_int_equal(esi_mesh_compare(t.ctx, &d, &before, &m, 100000), ESPALIER_OK);
        assert_true(d.mean_ab <= known[i].mean_ab && d.mean_ba <= known[i].mean_ba);
        const esi_mesh_metrics was = metrics_of(t.ctx, &before), is = metrics_of(t.ctx, &m);
        assert_int_equal(is.boundary_loops, known[i].loops);
        assert_int_equal(is.euler, was.euler);
        assert_int_equal(is.nonmanifold_edges, 0);
        assert_int_equal(is.odd_edges, is.boundary_edges);
        assert_int_equal(is.winding_conflicts, 0);
        esi_mesh_free(t.ctx, &m);
        esi_mesh_free(t.ctx, &before);
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plane), cmocka_unit_test(box), cmocka_unit_test(sphere), cmocka_unit_test(rim), cmocka_unit_test(tetrahedron),
        cmocka_unit_test(topology), cmocka_unit_test(nonmanifold_line), cmocka_unit_test(no_folds),
        cmocka_unit_test(not_below_target), cmocka_unit_test(damaged_meshes), cmocka_unit_test(large_fans),
        cmocka_unit_test(largest_error), cmocka_unit_test(free_boundary), cmocka_unit_test(any_scale), cmocka_unit_test(few_faces_already),
        cmocka_unit_test(threads), cmocka_unit_test(no_memory), cmocka_unit_test(reference_costs),
        cmocka_unit_test(reference_passes), cmocka_unit_test(reference_ends),
        cmocka_unit_test(real_meshes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
