/* SPDX-License-Identifier: MIT
 *
 * Edges, corners around vertices, neighbours and components against plain searches, on random faces and on meshes made for it.
 */
#include "damage_fixture.h"
#include "mesh_checks.h"

#include "mesh/topology.h"

/* Random faces over few vertices: edges of every count, repeated indices, repeated faces. */
static void make_soup(espalier_context *ctx, esi_mesh *m, int64_t n_vertices, int64_t n_faces, uint64_t seed)
{
    damage_random r = {seed};

    assert_int_equal(esi_mesh_new(ctx, m, n_vertices, n_faces), ESPALIER_OK);
    memset(m->vertices, 0, (size_t)n_vertices * 12);
    for (int64_t i = 0; i < 3 * n_faces; i++) m->faces[i] = (int32_t)damage_below(&r, n_vertices);
}

/* Number of sides on a-b, and the corners in order. */
static int32_t search_sides(const esi_mesh *m, int32_t a, int32_t b, int32_t *corners)
{
    int32_t n = 0;

    for (int32_t c = 0; c < 3 * m->n_faces; c++) {
        const int32_t p = m->faces[c], q = m->faces[esi_next_corner(c)];

        if ((p == a && q == b) || (p == b && q == a)) corners[n++] = c;
    }
    return n;
}

static void check_edges(const esi_mesh *m, const esi_edges *e)
{
    int32_t *corners = malloc((size_t)m->n_faces * 3 * sizeof *corners + 4);
    int64_t total = 0;

    for (int64_t i = 0; i < e->count; i++) {
        const esi_edge *edge = &e->edges[i];

        assert_true(edge->a < edge->b);
        if (i) assert_true(e->edges[i - 1].a < edge->a || (e->edges[i - 1].a == edge->a && e->edges[i - 1].b < edge->b));
        assert_int_equal(edge->count, search_sides(m, edge->a, edge->b, corners));
        assert_int_equal(edge->first, total);
        assert_memory_equal(e->corners + edge->first, corners, (size_t)edge->count * 4);
        total += edge->count;
    }
    for (int64_t c = 0; c < 3 * m->n_faces; c++) total -= m->faces[c] != m->faces[esi_next_corner((int32_t)c)];
    assert_int_equal(total, 0);
    free(corners);
}

static void check_opposite(const esi_mesh *m, const int32_t *opposite)
{
    int32_t *corners = malloc((size_t)m->n_faces * 3 * sizeof *corners);

    for (int32_t c = 0; c < 3 * m->n_faces; c++) {
        const int32_t a = m->faces[c], b = m->faces[esi_next_corner(c)];
        const int32_t n = a == b ? 0 : search_sides(m, a, b, corners);

        assert_int_equal(opposite[c], n == 1 ? -1 : n == 2 ? corners[0] + corners[1] - c : -2);
    }
    free(corners);
}

/* Labels spread until nothing changes. joined(f, g) is asked for all pairs. */
static void spread_labels(const esi_mesh *m, int32_t *label, const int32_t *opposite)
{
    bool changed = true;

    for (int32_t f = 0; f < m->n_faces; f++) label[f] = f;
    while (changed) {
        changed = false;
        for (int32_t f = 0; f < m->n_faces; f++) {
            for (int32_t g = 0; g < m->n_faces; g++) {
                bool joined = false;

                for (int i = 0; i < 3; i++) {
                    if (opposite) joined |= opposite[3 * f + i] >= 0 && opposite[3 * f + i] / 3 == g;
                    for (int k = 0; k < 3 && !opposite; k++) joined |= m->faces[3 * f + i] == m->faces[3 * g + k];
                }
                if (!joined || label[g] <= label[f]) continue;
                label[g] = label[f];
                changed = true;
            }
        }
    }
}

static void check_components(const esi_mesh *m, const int32_t *component, int32_t n, const int32_t *opposite)
{
    int32_t *label = malloc((size_t)m->n_faces * sizeof *label + 4), count = 0;

    spread_labels(m, label, opposite);
    for (int32_t f = 0; f < m->n_faces; f++) {
        if (label[f] == f) assert_int_equal(component[f], count++);
        else assert_int_equal(component[f], component[label[f]]);
    }
    assert_int_equal(n, count);
    free(label);
}

static void soups(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < 60; i++) {
        esi_edges edges;
        esi_vertex_corners around;
        int32_t *opposite, *component, n;
        esi_mesh m;

        make_soup(t.ctx, &m, 1 + i * i, i, (uint64_t)i);
        assert_int_equal(esi_edges_build(t.ctx, &edges, &m), ESPALIER_OK);
        check_edges(&m, &edges);
        esi_edges_free(t.ctx, &edges);
        assert_int_equal(esi_opposite_corners(t.ctx, &opposite, &m), ESPALIER_OK);
        check_opposite(&m, opposite);
        assert_int_equal(esi_face_components(t.ctx, &component, &n, &m), ESPALIER_OK);
        check_components(&m, component, n, opposite);
        esi_free(t.ctx, component);
        esi_free(t.ctx, opposite);
        assert_int_equal(esi_vertex_components(t.ctx, &component, &n, &m), ESPALIER_OK);
        check_components(&m, component, n, NULL);
        esi_free(t.ctx, component);
        assert_int_equal(esi_vertex_corners_build(t.ctx, &around, &m), ESPALIER_OK);
        for (int32_t v = 0, at = 0; v < m.n_vertices; v++) {
            assert_int_equal(around.start[v], at);
            for (int32_t c = 0; c < 3 * m.n_faces; c++)
                if (m.faces[c] == v) assert_int_equal(around.corners[at++], c);
            assert_int_equal(around.start[v + 1], at);
        }
        esi_vertex_corners_free(t.ctx, &around);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* A wheel of n triangles around vertex 0, in mixed order: one bucket, one vertex, has nearly everything. */
static void wheel(void **state)
{
    enum { N = 100003 };
    esi_edges edges;
    int32_t *component, n;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    assert_int_equal(esi_mesh_new(t.ctx, &m, N + 1, N), ESPALIER_OK);
    for (int64_t i = 0; i < N; i++) {
        const int32_t k = (int32_t)(i * 7919 % N);

        memcpy(m.faces + 3 * i, (int32_t[]){k + 1, 0, (k + 1) % N + 1}, 12);
    }
    assert_int_equal(esi_edges_build(t.ctx, &edges, &m), ESPALIER_OK);
    assert_int_equal(edges.count, 2 * N);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(edges.edges[i].a, 0);
        assert_int_equal(edges.edges[i].b, i + 1);
        assert_int_equal(edges.edges[i].count, 2);
        assert_int_equal(edges.edges[N + i].count, 1);
    }
    esi_edges_free(t.ctx, &edges);
    assert_int_equal(esi_face_components(t.ctx, &component, &n, &m), ESPALIER_OK);
    assert_int_equal(n, 1);
    esi_free(t.ctx, component);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Several chunks and buckets: the same for any number of threads, and counts of a torus. */
static void threads_agree(void **state)
{
    static const int threads[] = {1, 2, 5};
    esi_edges first = {0};
    int32_t *first_opposite = NULL;
    test_base keep;

    (void)state;
    test_base_open(&keep, 1);
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        esi_edges edges;
        esi_vertex_corners around;
        int32_t *opposite;
        esi_mesh m;
        test_base t;

        test_base_open(&t, threads[i]);
        damage_torus(t.ctx, &m, 200, 0.3, 0.1);
        assert_int_equal(esi_edges_build(t.ctx, &edges, &m), ESPALIER_OK);
        assert_int_equal(esi_opposite_corners(t.ctx, &opposite, &m), ESPALIER_OK);
        assert_int_equal(edges.count, 3 * m.n_faces / 2);
        for (int64_t e = 0; e < edges.count; e++) assert_int_equal(edges.edges[e].count, 2);
        for (int32_t c = 0; c < 3 * m.n_faces; c++) {
            assert_int_equal(opposite[opposite[c]], c);
            assert_int_equal(m.faces[opposite[c]], m.faces[esi_next_corner(c)]);
        }
        assert_int_equal(esi_vertex_corners_build(t.ctx, &around, &m), ESPALIER_OK);
        for (int64_t v = 0; v < m.n_vertices; v++) {
            assert_int_equal(around.start[v + 1] - around.start[v], 6);
            for (int32_t k = around.start[v]; k < around.start[v + 1]; k++) {
                assert_int_equal(m.faces[around.corners[k]], v);
                if (k > around.start[v]) assert_true(around.corners[k - 1] < around.corners[k]);
            }
        }
        if (i == 0) {
            first.count = edges.count;
            first.edges = malloc((size_t)edges.count * sizeof *edges.edges);
            first.corners = malloc((size_t)m.n_faces * 12);
            first_opposite = malloc((size_t)m.n_faces * 12);
            memcpy(first.edges, edges.edges, (size_t)edges.count * sizeof *edges.edges);
            memcpy(first.corners, edges.corners, (size_t)m.n_faces * 12);
            memcpy(first_opposite, opposite, (size_t)m.n_faces * 12);
        }
        assert_memory_equal(first.edges, edges.edges, (size_t)edges.count * sizeof *edges.edges);
        assert_memory_equal(first.corners, edges.corners, (size_t)m.n_faces * 12);
        assert_memory_equal(first_opposite, opposite, (size_t)m.n_faces * 12);
        esi_vertex_corners_free(t.ctx, &around);
        esi_edges_free(t.ctx, &edges);
        esi_free(t.ctx, opposite);
        esi_mesh_free(t.ctx, &m);
        test_base_close(&t);
    }
    free(first.edges);
    free(first.corners);
    free(first_opposite);
    test_base_close(&keep);
}

typedef espalier_status (*build_fn)(espalier_context *ctx, const esi_mesh *m);

static espalier_status build_edges(espalier_context *ctx, const esi_mesh *m)
{
    esi_edges e;
    const espalier_status st = esi_edges_build(ctx, &e, m);

    esi_edges_free(ctx, &e);
    return st;
}
static espalier_status build_corners(espalier_context *ctx, const esi_mesh *m)
{
    esi_vertex_corners v;
    const espalier_status st = esi_vertex_corners_build(ctx, &v, m);

    esi_vertex_corners_free(ctx, &v);
    return st;
}
static espalier_status build_opposite(espalier_context *ctx, const esi_mesh *m)
{
    int32_t *o;
    const espalier_status st = esi_opposite_corners(ctx, &o, m);

    if (st != ESPALIER_OK) assert_null(o);
    esi_free(ctx, o);
    return st;
}
static espalier_status build_face_components(espalier_context *ctx, const esi_mesh *m)
{
    int32_t *o, n;
    const espalier_status st = esi_face_components(ctx, &o, &n, m);

    if (st != ESPALIER_OK) assert_null(o);
    esi_free(ctx, o);
    return st;
}
static espalier_status build_vertex_components(espalier_context *ctx, const esi_mesh *m)
{
    int32_t *o, n;
    const espalier_status st = esi_vertex_components(ctx, &o, &n, m);

    if (st != ESPALIER_OK) assert_null(o);
    esi_free(ctx, o);
    return st;
}

static const build_fn builders[] = {build_edges, build_corners, build_opposite, build_face_components, build_vertex_components};

static void failures(void **state)
{
    int32_t bad[3][3] = {{0, 1, 4}, {0, -1, 2}, {INT32_MAX, 1, 2}};
    float vertices[12] = {0};
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    damage_sphere(t.ctx, &m, 6, 0.4, 0, 0, 0, false);
    for (size_t i = 0; i < ESI_COUNT(builders); i++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        const uint64_t now = espalier_context_memory_now(t.ctx);
        long n = 1;

        for (; st != ESPALIER_OK; n++) {
            test_fail_at(&t.memory, n);
            st = builders[i](t.ctx, &m);
            test_fail_at(&t.memory, 0);
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            esi_clear_error(t.ctx);
            assert_int_equal(espalier_context_memory_now(t.ctx), now);
        }
        assert_in_range(n, 4, 20);
        espalier_context_cancel(t.ctx);
        assert_int_equal(builders[i](t.ctx, &m), ESPALIER_ERR_CANCELLED);
        espalier_context_reset_cancel(t.ctx);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), now);
    }
    esi_mesh_free(t.ctx, &m);
    for (size_t k = 0; k < ESI_COUNT(bad); k++) {
        const esi_mesh broken = {vertices, bad[k], 4, 1};

        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(builders[i](t.ctx, &broken), ESPALIER_ERR_INTERNAL);
            assert_non_null(strstr(espalier_error_message(t.ctx), "face 0 names vertex"));
            esi_clear_error(t.ctx);
        }
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soups), cmocka_unit_test(wheel), cmocka_unit_test(threads_agree), cmocka_unit_test(failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
