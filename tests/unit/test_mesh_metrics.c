/* SPDX-License-Identifier: MIT
 *
 * The numbers of a mesh's soundness: counted by hand, known from mathematics, and against plain counting on damaged meshes.
 */
#include "damage_fixture.h"
#include "mesh_checks.h"

#include "mesh/clean.h"
#include "mesh/metrics.h"

static esi_mesh_metrics measure(espalier_context *ctx, const esi_mesh *m)
{
    esi_mesh_metrics out;

    assert_int_equal(esi_mesh_metrics_compute(ctx, &out, m, 0.03), ESPALIER_OK);
    return out;
}

/* ------------------------------------------------------------- counted by hand */

typedef struct hand_case {
    const char *what;
    int32_t faces[6][3];
    int64_t n_faces, n_vertices;
    /* used, edges, boundary, odd, non-manifold; components over manifold edges and the largest, over any edges and the largest, over
     * vertices; closed components, winding conflicts, duplicates, loops, chains */
    int64_t wanted[15];
} hand_case;

static const hand_case hand_cases[] = {
    {"nothing", {{0}}, 0, 3, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"triangle", {{0, 1, 2}}, 1, 5, {3, 3, 3, 3, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 0}},
    {"tetrahedron", {{0, 1, 2}, {0, 3, 1}, {1, 3, 2}, {2, 3, 0}}, 4, 4, {4, 6, 0, 0, 0, 1, 4, 1, 4, 1, 1, 0, 0, 0, 0}},
    {"two triangles that share a vertex", {{0, 1, 2}, {2, 3, 4}}, 2, 5, {5, 6, 6, 6, 0, 2, 1, 2, 1, 1, 0, 0, 0, 2, 0}},
    {"three leaves on one edge", {{0, 1, 2}, {1, 0, 3}, {0, 1, 4}}, 3, 5, {5, 7, 6, 7, 1, 3, 1, 1, 3, 1, 0, 0, 0, 0, 3}},
    {"quad, inconsistent winding", {{0, 1, 2}, {0, 3, 2}}, 2, 4, {4, 5, 4, 4, 0, 1, 2, 1, 2, 1, 0, 1, 0, 1, 0}},
    {"quad", {{0, 1, 2}, {0, 2, 3}}, 2, 4, {4, 5, 4, 4, 0, 1, 2, 1, 2, 1, 0, 0, 0, 1, 0}},
    {"the same face twice", {{0, 1, 2}, {2, 0, 1}}, 2, 3, {3, 3, 0, 0, 0, 1, 2, 1, 2, 1, 1, 3, 1, 0, 0}},
    {"a face and its back", {{0, 1, 2}, {2, 1, 0}}, 2, 3, {3, 3, 0, 0, 0, 1, 2, 1, 2, 1, 1, 0, 1, 0, 0}},
    {"a point and a needle", {{1, 1, 1}, {0, 2, 0}}, 2, 3, {3, 1, 0, 0, 0, 2, 1, 2, 1, 2, 2, 0, 0, 0, 0}},
    {"pieces of 1 and 2", {{7, 8, 9}, {0, 1, 2}, {1, 2, 3}}, 3, 10, {7, 8, 7, 7, 0, 2, 2, 2, 2, 2, 0, 1, 0, 2, 0}},
};

static void by_hand(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(hand_cases); i++) {
        const hand_case *c = &hand_cases[i];
        esi_mesh m;

        assert_int_equal(esi_mesh_new(t.ctx, &m, c->n_vertices, c->n_faces), ESPALIER_OK);
        for (int64_t k = 0; k < 3 * c->n_vertices; k++) m.vertices[k] = (float)(k * k % 17) / 16.0f;
        if (c->n_faces) memcpy(m.faces, c->faces, (size_t)c->n_faces * 12);
        const esi_mesh_metrics s = measure(t.ctx, &m);
        const int64_t ours[15] = {s.used_vertices, s.edges, s.boundary_edges, s.odd_edges, s.nonmanifold_edges, s.face_components,
                                  s.largest_component_faces, s.edge_components, s.largest_edge_component_faces, s.vertex_components,
                                  s.closed_components, s.winding_conflicts, s.duplicate_faces, s.boundary_loops, s.boundary_chains};

        for (int k = 0; k < 15; k++) {
            if (ours[k] == c->wanted[k]) continue;
            fail_msg("%s: number %d is %lld instead of %lld", c->what, k, (long long)ours[k], (long long)c->wanted[k]);
        }
        assert_int_equal(s.vertices, c->n_vertices);
        assert_int_equal(s.faces, c->n_faces);
        assert_int_equal(s.euler, s.used_vertices - s.edges + s.faces);
        assert_int_equal(s.watertight, s.odd_edges == 0);
        assert_int_equal(s.manifold, s.nonmanifold_edges == 0);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* A wheel of n triangles around vertex 0, in mixed order: the hub's bucket is large. */
static void wheel(void **state)
{
    enum { N = 100003 };
    esi_mesh_metrics s;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_new(t.ctx, &m, N + 1, N), ESPALIER_OK);
    memset(m.vertices, 0, (N + 1) * 12);
    for (int64_t i = 0; i < N; i++) {
        const int32_t k = (int32_t)(i * 7919 % N);

        memcpy(m.faces + 3 * i, (int32_t[]){k + 1, 0, (k + 1) % N + 1}, 12);
    }
    s = measure(t.ctx, &m);
    assert_int_equal(s.edges, 2 * N);
    assert_int_equal(s.boundary_edges, N);
    assert_int_equal(s.boundary_loops, 1);
    assert_int_equal(s.face_components, 1);
    assert_int_equal(s.largest_component_faces, N);
    /* Without one triangle in a thousand: that many pieces. */
    for (int i = 0; i < 100; i++) memcpy(m.faces + 3000 * i, (int32_t[]){0, 0, 0}, 12);
    s = measure(t.ctx, &m);
    assert_int_equal(s.edge_components, 200);
    assert_int_equal(s.face_components, 200);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ----------------------------------------------------------- known from geometry */

static void shapes(void **state)
{
    const double unit[2][3] = {{-0.25, -0.25, -0.25}, {0.25, 0.25, 0.25}};
    esi_mesh_metrics s;
    esi_mesh m, other;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    damage_box(t.ctx, &m, 3, unit[0], unit[1]);
    s = measure(t.ctx, &m);
    assert_int_equal(s.vertices, 56);
    assert_int_equal(s.faces, 108);
    assert_true(s.watertight && s.manifold && s.genus == 0 && s.euler == 2);
    assert_true(fabs(s.area - 1.5) < 1e-12);               /* 1/4 and -1/4 are exact, thirds are floats */
    assert_true(fabs(s.volume - 0.125) < 1e-12);
    assert_true(s.min[0] == -0.25f && s.max[2] == 0.25f);
    assert_int_equal(s.negative_components, 0);
    esi_mesh_free(t.ctx, &m);

    damage_torus(t.ctx, &m, 40, 0.3, 0.1);
    s = measure(t.ctx, &m);
    assert_true(s.genus == 1 && s.euler == 0 && s.face_components == 1 && s.winding_conflicts == 0);
    assert_true(fabs(s.volume / (2 * 3.14159265358979 * 3.14159265358979 * 0.3 * 0.01) - 1) < 0.01);
    /* Two tori that touch in a vertex: still genus 1 each. */
    other = check_copy(t.ctx, &m);
    damage_append(t.ctx, &m, &other);
    for (int64_t i = 3 * other.n_faces; i < 3 * m.n_faces; i++)
        if (m.faces[i] == other.n_vertices) m.faces[i] = 0;
    s = measure(t.ctx, &m);
    assert_true(s.genus == 2 && s.euler == -1 && s.face_components == 2 && s.vertex_components == 1 && s.edge_components == 2);
    assert_int_equal(s.used_vertices, s.vertices - 1);
    esi_mesh_free(t.ctx, &other);
    esi_mesh_free(t.ctx, &m);

    damage_shape(t.ctx, &m, DAMAGE_NESTED, 10);
    s = measure(t.ctx, &m);
    assert_int_equal(s.closed_components, 3);
    assert_int_equal(s.negative_components, 1);
    assert_true(s.genus == 0);
    esi_mesh_free(t.ctx, &m);

    damage_shape(t.ctx, &m, DAMAGE_CUP, 6);
    s = measure(t.ctx, &m);
    assert_true(isnan(s.genus) && !s.watertight && s.manifold && s.closed_components == 0 && s.negative_components == 0);
    assert_int_equal(s.boundary_edges, 24);
    assert_int_equal(s.boundary_loops, 1);
    assert_int_equal(s.loops_below_limit, 0);
    assert_true(fabs(s.longest_loop - 48 * 0.2 * sin(3.14159265358979 / 24)) < 1e-6);
    esi_mesh_free(t.ctx, &m);

    /* A sphere whose poles are one vertex. */
    damage_sphere(t.ctx, &m, 8, 0.4, 0, 0, 0, false);
    for (int64_t i = 0; i < 3 * m.n_faces; i++)
        if (m.faces[i] == m.n_vertices - 1) m.faces[i] = (int32_t)m.n_vertices - 2;
    s = measure(t.ctx, &m);
    assert_true(s.genus == 0 && s.euler == 1);             /* one vertex, two fans */
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void zero_areas(void **state)
{
    float vertices[] = {0, 0, 0, 0.5f, 0.25f, 0.125f, 1, 0.5f, 0.25f, 1e-30f, 0, 0, 0, 1e-30f, 0};
    int32_t faces[] = {0, 1, 2, 0, 1, 1, 0, 3, 4, 0, 1, 3};
    const esi_mesh m = {vertices, faces, 5, 4};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(measure(t.ctx, &m).zero_area_faces, 2);      /* collinear, repeated; tiny ones are not zero */
    test_base_close(&t);
}

/* ---------------------------------------------------------------- damaged meshes */

static void damaged(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < 60; i++) {
        check_counts plain;
        esi_mesh_metrics s;
        esi_mesh m;

        damage_make(t.ctx, &m, i, DAMAGE_ALL & ~DAMAGE_NAN & ~DAMAGE_RANGE);
        plain = check_count_edges(&m);
        s = measure(t.ctx, &m);
        assert_int_equal(s.edges, plain.edges);
        assert_int_equal(s.boundary_edges, plain.boundary);
        assert_int_equal(s.odd_edges, plain.odd);
        assert_int_equal(s.nonmanifold_edges, plain.nonmanifold);
        assert_int_equal(s.manifold_edges, plain.manifold);
        assert_int_equal(s.winding_conflicts, plain.conflicts);
        assert_true(fabs(s.volume - check_volume(&m)) < 1e-12);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

static void threads_agree(void **state)
{
    esi_mesh_metrics first;

    (void)state;
    for (int threads = 1; threads <= 5; threads += 1 + threads) {
        esi_mesh_metrics s;
        esi_mesh m;
        test_base t;

        test_base_open(&t, threads);
        damage_torus(t.ctx, &m, 160, 0.3, 0.1);
        memset(&s, 0, sizeof s);
        assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &m, 0.03), ESPALIER_OK);
        if (threads == 1) memcpy(&first, &s, sizeof s);
        assert_memory_equal(&s, &first, sizeof s);
        esi_mesh_free(t.ctx, &m);
        test_base_close(&t);
    }
}

static void failures(void **state)
{
    int32_t bad[] = {0, 1, 3};
    float vertices[9] = {0};
    const esi_mesh outside = {vertices, bad, 3, 1}, huge = {vertices, bad, 3, ESI_MESH_MAX_FACES + 1}, negative = {vertices, bad, 3, -1};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    esi_mesh_metrics s;
    esi_mesh m;
    test_base t;
    long n = 1;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &outside, 0.03), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &huge, 0.03), ESPALIER_ERR_RESOURCE);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &negative, 0.03), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    for (int shape = DAMAGE_TORUS; shape <= DAMAGE_CUP; shape++) {
        damage_shape(t.ctx, &m, shape, 8);
        damage_face(t.ctx, &m, 0, 1, 3);                   /* a fin, so that every part has something to do */
        for (int closed = 0; closed < 2; closed++) {
            const uint64_t now = espalier_context_memory_now(t.ctx);

            for (n = 1, st = ESPALIER_ERR_RESOURCE; st != ESPALIER_OK; n++) {
                test_fail_at(&t.memory, n);
                st = esi_mesh_metrics_compute(t.ctx, &s, &m, 0.03);
                test_fail_at(&t.memory, 0);
                if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
                esi_clear_error(t.ctx);
                assert_int_equal(espalier_context_memory_now(t.ctx), now);
            }
            assert_in_range(n, 20, 60);
            m.n_faces--;
        }
        esi_mesh_free(t.ctx, &m);
    }
    damage_sphere(t.ctx, &m, 6, 0.4, 0, 0, 0, false);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &m, 0.03), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(t.ctx);
    esi_clear_error(t.ctx);
    espalier_context_set_memory_budget(t.ctx, espalier_context_memory_now(t.ctx) + 1000);
    assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &m, 0.03), ESPALIER_ERR_RESOURCE);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand), cmocka_unit_test(wheel),         cmocka_unit_test(shapes),   cmocka_unit_test(zero_areas),
        cmocka_unit_test(damaged), cmocka_unit_test(threads_agree), cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
