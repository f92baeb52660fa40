/* SPDX-License-Identifier: MIT
 *
 * Faces without area: caps are flipped, needles collapse, nothing tears, and what cannot be mended is counted.
 */
#include "support.h"

#include "damage_fixture.h"
#include "mesh/clean.h"
#include "mesh/compare.h"
#include "mesh/metrics.h"

static esi_mesh_metrics metrics_of(espalier_context *ctx, const esi_mesh *m)
{
    esi_mesh_metrics metrics;

    assert_int_equal(esi_mesh_metrics_compute(ctx, &metrics, m, 0.03), ESPALIER_OK);
    return metrics;
}

/* Faces with area <= 1e-12 * longest side^2. */
static int64_t without_area(const esi_mesh *m)
{
    int64_t n = 0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        double p[3][3], u[3], v[3], longest = 0.0;

        for (int k = 0; k < 3; k++)
            for (int axis = 0; axis < 3; axis++) p[k][axis] = (double)m->vertices[3 * (int64_t)m->faces[3 * f + k] + axis];
        for (int k = 0; k < 3; k++) {
            double d = 0.0;

            for (int axis = 0; axis < 3; axis++) d += (p[k][axis] - p[(k + 1) % 3][axis]) * (p[k][axis] - p[(k + 1) % 3][axis]);
            if (d > longest) longest = d;
            u[k] = p[1][k] - p[0][k];
            v[k] = p[2][k] - p[0][k];
        }
        const double x = u[1] * v[2] - u[2] * v[1], y = u[2] * v[0] - u[0] * v[2], z = u[0] * v[1] - u[1] * v[0];
        if (0.5 * sqrt(x * x + y * y + z * z) <= 1e-12 * longest) n++;
    }
    return n;
}

static esi_mesh mesh_of(espalier_context *ctx, const float *vertices, int64_t nv, const int32_t *faces, int64_t nf)
{
    esi_mesh m;

    assert_int_equal(esi_mesh_copy(ctx, &m, vertices, nv, faces, nf), ESPALIER_OK);
    return m;
}

static void restitch(espalier_context *ctx, esi_mesh *m, int64_t changed, int64_t left)
{
    int64_t c = -1, l = -1;

    assert_int_equal(esi_mesh_restitch_degenerate_faces(ctx, m, &c, &l), ESPALIER_OK);
    assert_int_equal(c, changed);
    assert_int_equal(l, left);
}

/* Vertex 4 lies on the side 0-1 of a tetrahedron; the face on the other side of it does not know: the cap 0 1 4 lies between. It gives way
 * by a flip: the same vertices, the same number of faces. */
static void cap(void **state)
{
    static const float v[5][3] = {{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0.5f, 0, 0}};
    static const int32_t f[6][3] = {{0, 2, 4}, {4, 2, 1}, {1, 0, 4}, {0, 1, 3}, {1, 2, 3}, {2, 0, 3}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    esi_mesh m = mesh_of(t.ctx, v[0], 5, f[0], 6);
    const esi_mesh_metrics before = metrics_of(t.ctx, &m);
    assert_int_equal(before.odd_edges, 0);
    assert_int_equal(without_area(&m), 1);
    restitch(t.ctx, &m, 1, 0);
    const esi_mesh_metrics after = metrics_of(t.ctx, &m);
    assert_int_equal(without_area(&m), 0);
    assert_int_equal(m.n_faces, 6);
    assert_memory_equal(m.vertices, v, sizeof v);
    assert_true(after.watertight && after.manifold && after.winding_conflicts == 0);
    assert_true(fabs(after.volume - before.volume) < 1e-15 && fabs(after.volume - 1.0 / 6.0) < 1e-7);
    assert_true(fabs(after.area - before.area) < 1e-12);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Vertex 0 has three faces; its cap 0 1 2 cannot be flipped, for 2 and 3 have an edge already: it collapses, and a tetrahedron is left. */
static void flip_would_double_an_edge(void **state)
{
    static const float v[5][3] = {{2, 0, 0}, {0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, -1}};
    static const int32_t f[6][3] = {{0, 1, 2}, {0, 3, 1}, {0, 2, 3}, {1, 4, 2}, {1, 3, 4}, {2, 4, 3}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    esi_mesh m = mesh_of(t.ctx, v[0], 5, f[0], 6);
    assert_true(metrics_of(t.ctx, &m).watertight);
    assert_int_equal(without_area(&m), 1);
    restitch(t.ctx, &m, 1, 0);
    const esi_mesh_metrics after = metrics_of(t.ctx, &m);
    assert_int_equal(m.n_faces, 4);
    assert_true(after.watertight && after.manifold && after.euler == 2 && after.winding_conflicts == 0);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* A side of a box is split lengthwise: two vertices in one place, two needles between. They collapse into the box that was. */
static void needles(void **state)
{
    const double low[3] = {-0.3, -0.2, -0.4}, high[3] = {0.3, 0.2, 0.4};
    test_base t;
    esi_mesh m, box;

    (void)state;
    test_base_open(&t, 1);
    damage_box(t.ctx, &box, 4, low, high);
    damage_box(t.ctx, &m, 4, low, high);
    /* Open the path x - v - y of the faces around v: those after the first side up to another get a copy w of v, and two needles. */
    const int32_t v = m.faces[0];
    int32_t x = m.faces[1], y = -1, next = m.faces[2];
    int64_t moved[2], n = 0;
    for (moved[n++] = 0; n < 2;) {                          /* the face after that around v */
        for (int64_t f = 1; f < m.n_faces && n < 2; f++) {
            for (int k = 0; k < 3; k++) {
                if (m.faces[3 * f + k] != v || m.faces[3 * f + (k + 1) % 3] != next) continue;
                moved[n++] = f;
                y = m.faces[3 * f + (k + 2) % 3];
                break;
            }
        }
    }
    const int32_t w = damage_vertex(t.ctx, &m, (double)m.vertices[3 * v], (double)m.vertices[3 * v + 1], (double)m.vertices[3 * v + 2]);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            if (m.faces[3 * moved[i] + k] == v) m.faces[3 * moved[i] + k] = w;
    damage_face(t.ctx, &m, v, x, w);
    damage_face(t.ctx, &m, w, y, v);
    const esi_mesh_metrics before = metrics_of(t.ctx, &m);
    assert_int_equal(before.odd_edges, 0);
    assert_int_equal(before.winding_conflicts, 0);
    assert_int_equal(without_area(&m), 2);
    restitch(t.ctx, &m, 1, 0);                              /* one collapse takes both */
    assert_int_equal(m.n_faces, box.n_faces);
    assert_int_equal(m.n_vertices, box.n_vertices);
    assert_memory_equal(m.faces, box.faces, (size_t)box.n_faces * 12);
    assert_memory_equal(m.vertices, box.vertices, (size_t)box.n_vertices * 12);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &box);
    test_base_close(&t);
}

/* A vertex of a closed sphere moves onto the middle of the side opposite to it in one of its faces, or onto a neighbour: every such face
 * can be mended. */
static void moved_vertices(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int number = 0; number < 100; number++) {
        damage_random r = {(uint64_t)number + 1};
        esi_mesh m;

        damage_sphere(t.ctx, &m, 16, 0.4, 0, 0, 0, false);
        for (int i = 0; i < 1 + number / 20; i++) damage_one(t.ctx, &m, &r, DAMAGE_NEEDLE);
        const esi_mesh_metrics before = metrics_of(t.ctx, &m);
        int64_t left = -1;
        assert_int_equal(esi_mesh_restitch_degenerate_faces(t.ctx, &m, NULL, &left), ESPALIER_OK);
        const esi_mesh_metrics after = metrics_of(t.ctx, &m);
        assert_int_equal(left, 0);
        assert_int_equal(without_area(&m), 0);
        assert_true(after.watertight && after.manifold);
        assert_int_equal(after.euler, 2);
        assert_int_equal(after.winding_conflicts, 0);
        assert_true(fabs(after.volume - before.volume) < 1e-3);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* No odd edge comes on any damaged mesh, the faces without area are those that are counted, and a second call finds nothing to do. */
static void damaged_meshes(void **state)
{
    test_base t;
    int64_t had = 0, kept = 0;

    (void)state;
    test_base_open(&t, 1);
    for (int number = 0; number < 200; number++) {
        esi_mesh m;
        int64_t changed = -1, left = -1, again = -1;

        damage_make(t.ctx, &m, number, DAMAGE_ALL);
        assert_int_equal(esi_mesh_sanitize(t.ctx, &m, NULL), ESPALIER_OK);
        const esi_mesh_metrics before = metrics_of(t.ctx, &m);
        had += without_area(&m);
        assert_int_equal(esi_mesh_restitch_degenerate_faces(t.ctx, &m, &changed, &left), ESPALIER_OK);
        const esi_mesh_metrics after = metrics_of(t.ctx, &m);
        assert_int_equal(without_area(&m), left);
        kept += left;
        assert_true(after.odd_edges <= before.odd_edges);
        assert_true(before.boundary_edges > 0 || after.odd_edges == before.odd_edges);
        assert_int_equal(after.euler, before.euler);
        assert_true(after.nonmanifold_edges <= before.nonmanifold_edges);
        assert_int_equal(esi_mesh_restitch_degenerate_faces(t.ctx, &m, &again, &left), ESPALIER_OK);
        assert_int_equal(again, 0);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(had > 100);
    assert_true(20 * kept < had);                           /* lone triangles, ends of fins, doubled faces */
    test_base_close(&t);
}

/* A lone triangle without area stays: nothing can take its place. Repeated indices go, vertices that nobody names too. */
static void what_is_left(void **state)
{
    static const float v[6][3] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {0, 1, 0}, {5, 5, 5}, {0, 0, 1}};
    static const int32_t f[4][3] = {{0, 1, 2}, {0, 3, 5}, {3, 3, 5}, {0, 0, 0}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    esi_mesh m = mesh_of(t.ctx, v[0], 6, f[0], 4);
    restitch(t.ctx, &m, 2, 1);
    assert_int_equal(m.n_faces, 2);
    assert_int_equal(m.n_vertices, 5);
    esi_mesh none = {0};
    restitch(t.ctx, &none, 0, 0);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &none);
    test_base_close(&t);
}

/* A flip must not make an edge that is there already: two caps back to back on one side collapse instead. */
static void no_double_edges(void **state)
{
    test_base t;
    int64_t caps = 0;

    (void)state;
    test_base_open(&t, 1);
    for (int number = 0; number < 50; number++) {
        damage_random r = {(uint64_t)number + 77};
        esi_mesh m;

        damage_torus(t.ctx, &m, 8, 0.3, 0.1);
        for (int i = 0; i < 10; i++) damage_one(t.ctx, &m, &r, DAMAGE_NEEDLE);
        caps += without_area(&m);
        int64_t left = -1;
        assert_int_equal(esi_mesh_restitch_degenerate_faces(t.ctx, &m, NULL, &left), ESPALIER_OK);
        const esi_mesh_metrics after = metrics_of(t.ctx, &m);
        assert_true(after.watertight && after.manifold && after.duplicate_faces == 0);
        assert_true(after.genus == 1.0);
        assert_int_equal(without_area(&m), left);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(caps >= 500);
    test_base_close(&t);
}

static void no_memory_cancelled(void **state)
{
    test_base t;
    esi_mesh start, m;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    long n = 0;

    (void)state;
    test_base_open(&t, 1);
    damage_random r = {3};
    damage_sphere(t.ctx, &start, 12, 0.4, 0, 0, 0, false);
    damage_one(t.ctx, &start, &r, DAMAGE_NEEDLE);
    while (st != ESPALIER_OK && n < 1000) {
        assert_int_equal(esi_mesh_copy(t.ctx, &m, start.vertices, start.n_vertices, start.faces, start.n_faces), ESPALIER_OK);
        test_fail_at(&t.memory, ++n);
        st = esi_mesh_restitch_degenerate_faces(t.ctx, &m, NULL, NULL);
        test_fail_at(&t.memory, 0);
        if (st != ESPALIER_OK) {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_int_equal(m.n_faces, start.n_faces);
            assert_memory_equal(m.faces, start.faces, (size_t)m.n_faces * 12);
        }
        esi_clear_error(t.ctx);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(st == ESPALIER_OK && n > 8);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_mesh_restitch_degenerate_faces(t.ctx, &start, NULL, NULL), ESPALIER_ERR_CANCELLED);
    esi_mesh_free(t.ctx, &start);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cap), cmocka_unit_test(flip_would_double_an_edge), cmocka_unit_test(needles), cmocka_unit_test(moved_vertices),
        cmocka_unit_test(damaged_meshes), cmocka_unit_test(what_is_left), cmocka_unit_test(no_double_edges),
        cmocka_unit_test(no_memory_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
