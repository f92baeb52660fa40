/* SPDX-License-Identifier: MIT
 *
 * Each repair on small meshes whose result is known by hand; threads, failing memory and cancelling on a damaged one.
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

static esi_mesh make_mesh(espalier_context *ctx, const float *vertices, int64_t n_vertices, const int32_t *faces, int64_t n_faces)
{
    esi_mesh m;

    assert_int_equal(esi_mesh_copy(ctx, &m, vertices, n_vertices, faces, n_faces), ESPALIER_OK);
    return m;
}

/* -------------------------------------------------------- sanitise, compact, weld */

static void sanitizes(void **state)
{
    const float vertices[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, (float)NAN, 0, 0, 5, 5, 5, 0, 0, 1, 0, (float)INFINITY, 0};
    const int32_t faces[] = {0, 1, 2, 0, 1, 7, -1, 1, 2, 0, 0, 3, 0, 1, 3, 6, 1, 2, 0, 5, 1, 2, 2, 9};
    const float left[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    const int32_t left_faces[] = {0, 1, 2, 0, 3, 1};
    esi_sanitize_stats s;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    m = make_mesh(t.ctx, vertices, 7, faces, 8);
    assert_int_equal(esi_mesh_sanitize(t.ctx, &m, &s), ESPALIER_OK);
    assert_int_equal(s.bad_index, 3);
    assert_int_equal(s.repeated_index, 1);
    assert_int_equal(s.not_finite, 2);
    assert_int_equal(s.unused_vertices, 3);
    assert_int_equal(m.n_vertices, 4);
    assert_int_equal(m.n_faces, 2);
    assert_memory_equal(m.vertices, left, sizeof left);
    assert_memory_equal(m.faces, left_faces, sizeof left_faces);
    esi_mesh_free(t.ctx, &m);
    m = make_mesh(t.ctx, vertices, 7, faces + 3, 1);         /* nothing is left: no error here */
    assert_int_equal(esi_mesh_sanitize(t.ctx, &m, NULL), ESPALIER_OK);
    assert_int_equal(m.n_faces + m.n_vertices, 0);
    assert_int_equal(esi_mesh_sanitize(t.ctx, &m, NULL), ESPALIER_OK);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void compacts_and_welds(void **state)
{
    /* 0 and 2 are the same place (with both zeros), 3 is not used, 1 and 5 too */
    const float vertices[] = {0, -0.0f, 0, 1, 0, 0, -0.0f, 0, 0, 9, 9, 9, 0, 1, 0, 1, 0, 0, 1, 0, 1e-30f};
    const int32_t faces[] = {0, 1, 4, 2, 4, 5, 0, 2, 5, 4, 6, 1};
    const int32_t welded[] = {0, 1, 2, 0, 2, 1, 2, 3, 1}, map_wanted[] = {0, 1, 0, -1, 2, 1, 3}, compact_wanted[] = {0, 1, 2, -1, 3, 4, 5};
    int32_t *map;
    int64_t merged;
    esi_mesh m, copy;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    m = make_mesh(t.ctx, vertices, 7, faces, 4);
    copy = check_copy(t.ctx, &m);
    assert_int_equal(esi_mesh_compact(t.ctx, &copy, &map), ESPALIER_OK);
    assert_int_equal(copy.n_vertices, 6);
    assert_memory_equal(map, compact_wanted, sizeof compact_wanted);
    for (int i = 0; i < 12; i++) assert_int_equal(copy.faces[i], map[faces[i]]);
    esi_free(t.ctx, map);
    esi_mesh_free(t.ctx, &copy);
    assert_int_equal(esi_mesh_weld(t.ctx, &m, &merged, &map), ESPALIER_OK);
    assert_int_equal(merged, 2);
    assert_int_equal(m.n_faces, 3);
    assert_int_equal(m.n_vertices, 4);
    assert_memory_equal(m.faces, welded, sizeof welded);
    assert_memory_equal(map, map_wanted, sizeof map_wanted);
    esi_free(t.ctx, map);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* A sphere as separate triangles comes back as it was. */
static void welds_a_soup(void **state)
{
    int64_t merged;
    esi_mesh m, soup;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    damage_sphere(t.ctx, &m, 60, 0.4, 0.05, 0.02, 0.01, false);
    assert_int_equal(esi_mesh_new(t.ctx, &soup, 3 * m.n_faces, m.n_faces), ESPALIER_OK);
    for (int32_t c = 0; c < 3 * m.n_faces; c++) {
        soup.faces[c] = c;
        memcpy(soup.vertices + 3 * c, m.vertices + 3 * (int64_t)m.faces[c], 12);
    }
    assert_int_equal(esi_mesh_weld(t.ctx, &soup, &merged, NULL), ESPALIER_OK);
    assert_int_equal(soup.n_vertices, m.n_vertices);
    assert_int_equal(soup.n_faces, m.n_faces);
    assert_int_equal(merged, 3 * m.n_faces - m.n_vertices);
    assert_true(measure(t.ctx, &soup).watertight);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &soup);
    test_base_close(&t);
}

/* ------------------------------------------------------------------------ faces */

static void duplicates(void **state)
{
    const float vertices[15] = {0};
    const int32_t faces[] = {0, 1, 2, 2, 1, 3, 1, 2, 0, 3, 4, 0, 1, 3, 2, 2, 1, 0, 0, 3, 4, 1, 4, 2};
    const int32_t first[] = {0, 1, 2, 2, 1, 3, 3, 4, 0, 1, 4, 2}, parity[] = {0, 1, 2, 1, 3, 2};
    int64_t removed;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    m = make_mesh(t.ctx, vertices, 5, faces, 8);
    assert_int_equal(esi_mesh_remove_duplicate_faces(t.ctx, &m, false, &removed), ESPALIER_OK);
    assert_int_equal(removed, 4);
    assert_int_equal(m.n_faces, 4);
    assert_memory_equal(m.faces, first, sizeof first);
    esi_mesh_free(t.ctx, &m);
    /* {0,1,2} three times: one stays; {1,2,3} and {0,3,4} twice: none; {1,2,4} stays, renumbered */
    m = make_mesh(t.ctx, vertices, 5, faces, 8);
    assert_int_equal(esi_mesh_remove_duplicate_faces(t.ctx, &m, true, &removed), ESPALIER_OK);
    assert_int_equal(removed, 6);
    assert_int_equal(m.n_faces, 2);
    assert_int_equal(m.n_vertices, 4);
    assert_memory_equal(m.faces, parity, sizeof parity);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void degenerate(void **state)
{
    const float vertices[] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0.5f, 0, 0, 1e-7f, 0, 0, 0, 1e-7f, 0};
    const int32_t faces[] = {0, 1, 2, 0, 3, 1, 0, 0, 2, 0, 4, 5};
    int64_t removed;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    m = make_mesh(t.ctx, vertices, 6, faces, 4);                 /* small is not degenerate: 5e-15 of area, side^2 2e-14 */
    assert_int_equal(esi_mesh_remove_degenerate_faces(t.ctx, &m, 1e-12, 1e-24, &removed), ESPALIER_OK);
    assert_int_equal(removed, 2);
    assert_memory_equal(m.faces, ((int32_t[]){0, 1, 2, 0, 3, 4}), 24);
    assert_int_equal(esi_mesh_remove_degenerate_faces(t.ctx, &m, 0.6, 1e-12, &removed), ESPALIER_OK);
    assert_int_equal(removed, 1);                                /* below both */
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ------------------------------------------------------------------ non-manifold */

static void add_box(espalier_context *ctx, esi_mesh *m, double x, double y, double z)
{
    const double low[3] = {x, y, z}, high[3] = {x + 0.25, y + 0.25, z + 0.25};
    esi_mesh box;

    damage_box(ctx, &box, 1, low, high);
    damage_append(ctx, m, &box);
    esi_mesh_free(ctx, &box);
    assert_int_equal(esi_mesh_weld(ctx, m, NULL, NULL), ESPALIER_OK);
}

/* Cubes that touch along edges or in a corner come apart as closed cubes; places and the boundary stay. */
static void splits_cubes(void **state)
{
    static const double corners[4][4][3] = {
        {{0, 0, 0}, {0.25, 0.25, 0}},                            /* an edge */
        {{0, 0, 0}, {0.25, 0.25, 0.25}},                         /* a corner only */
        {{0, 0, 0}, {0.25, 0.25, 0}, {0, 0.25, 0.25}, {0.25, 0, 0.25}},                /* each touches the others along edges */
        {{0, 0, 0}, {0, 0, 0.25}, {0.25, 0.25, 0}, {0.25, 0.25, 0.25}},                /* two stacks */
    };
    static const int n_boxes[4] = {2, 2, 4, 4}, pieces[4] = {2, 2, 4, 4};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 4; i++) {
        esi_mesh_metrics before, after;
        check_boundary odd_before, odd_after;
        int64_t added;
        esi_mesh m = {0};

        for (int k = 0; k < n_boxes[i]; k++) add_box(t.ctx, &m, corners[i][k][0], corners[i][k][1], corners[i][k][2]);
        before = measure(t.ctx, &m);
        odd_before = check_odd_places(&m);
        assert_int_equal(esi_mesh_split_nonmanifold(t.ctx, &m, &added), ESPALIER_OK);
        after = measure(t.ctx, &m);
        odd_after = check_odd_places(&m);
        assert_int_equal(m.n_faces, 12 * n_boxes[i]);            /* nothing was cut */
        assert_int_equal(before.nonmanifold_edges > 0, i != 1);
        assert_int_equal(after.nonmanifold_edges, 0);
        assert_int_equal(after.boundary_edges, 0);
        assert_int_equal(after.winding_conflicts, 0);
        assert_int_equal(after.vertices, 8 * n_boxes[i]);
        assert_int_equal(added, after.vertices - before.vertices);
        assert_int_equal(after.vertex_components, pieces[i]);
        assert_int_equal(after.negative_components, 0);
        assert_true(after.genus == 0 && after.volume == before.volume);
        assert_true(check_same_boundary(&odd_after, &odd_before));
        free(odd_before.edges);
        free(odd_after.edges);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* Two cubes touch along an edge and are joined elsewhere by others: around both ends of the edge the surface is one fan, so that the edge
 * must be cut. */
static void splits_a_ring(void **state)
{
    static const double cells[5][3] = {{0, 0, 0}, {0.25, 0.25, 0}, {0, 0, 0.25}, {0, 0.25, 0.25}, {0.25, 0.25, 0.25}};
    esi_mesh_metrics before, after;
    check_boundary odd;
    int64_t added;
    esi_mesh m = {0};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int k = 0; k < 5; k++) add_box(t.ctx, &m, cells[k][0], cells[k][1], cells[k][2]);
    for (int k = 0; k < 3; k++) {                                /* and the same below */
        static const double below[3][3] = {{0, 0, -0.25}, {0, 0.25, -0.25}, {0.25, 0.25, -0.25}};

        add_box(t.ctx, &m, below[k][0], below[k][1], below[k][2]);
    }
    assert_int_equal(esi_mesh_remove_duplicate_faces(t.ctx, &m, true, NULL), ESPALIER_OK);     /* inner walls */
    before = measure(t.ctx, &m);
    assert_int_equal(before.nonmanifold_edges, 1);
    assert_true(before.watertight);
    assert_int_equal(esi_mesh_split_nonmanifold(t.ctx, &m, &added), ESPALIER_OK);
    after = measure(t.ctx, &m);
    odd = check_odd_places(&m);
    assert_int_equal(odd.count, 0);
    assert_true(after.watertight && after.manifold && after.winding_conflicts == 0);
    assert_int_equal(after.face_components, 1);
    assert_int_equal(after.faces, before.faces + 2);             /* one pair was cut */
    assert_int_equal(added, 1);
    assert_true(after.genus == 1);                               /* the ring around the touching edge */
    assert_true(fabs(after.volume - 8.0 / 64) < 1e-9);
    free(odd.edges);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void fans(void **state)
{
    /* n flaps on the edge 0-1, at unequal angles */
    static const float places[7][2] = {{1, 0}, {0.5f, 1}, {-1, 0.5f}, {-1, -0.25f}, {0, -1}, {0.5f, -1}, {1, -0.5f}};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int n = 3; n <= 7; n++) {
        for (int mask = 0; mask < 1 << n; mask++) {              /* all windings */
            esi_mesh_metrics s;
            check_boundary before, after;
            int64_t added, ones = 0;
            esi_mesh m = {0}, copy;

            damage_vertex(t.ctx, &m, 0, 0, 0);
            damage_vertex(t.ctx, &m, 0, 0, 1);
            for (int i = 0; i < n; i++) {
                const int32_t v = damage_vertex(t.ctx, &m, (double)places[i][0], (double)places[i][1], 0.5);

                ones += mask >> i & 1;
                damage_face(t.ctx, &m, mask >> i & 1, !(mask >> i & 1), v);
            }
            copy = check_copy(t.ctx, &m);
            before = check_odd_places(&m);
            assert_int_equal(esi_mesh_split_nonmanifold(t.ctx, &m, &added), ESPALIER_OK);
            s = measure(t.ctx, &m);
            after = check_odd_places(&m);
            assert_true(check_same_boundary(&after, &before));
            assert_int_equal(s.nonmanifold_edges, 0);
            assert_int_equal(s.face_components, (n + 1) / 2);
            assert_int_equal(s.boundary_edges, 2 * n + n % 2);
            /* brackets first: only the surplus of one direction is paired against the winding */
            assert_int_equal(s.winding_conflicts, (n / 2) - ESI_MIN(ones, n - ones));
            free(before.edges);
            free(after.edges);
            /* the reference makes n sheets of it */
            assert_int_equal(esi_mesh_repair_nonmanifold_edges(t.ctx, &copy, &added), ESPALIER_OK);
            s = measure(t.ctx, &copy);
            assert_int_equal(s.face_components, n);
            assert_int_equal(s.boundary_edges, 3 * n);
            assert_int_equal(added, 2 * (n - 1));
            for (int32_t c = 0; c < 3 * n; c++) assert_int_equal(copy.faces[c], c);
            esi_mesh_free(t.ctx, &copy);
            esi_mesh_free(t.ctx, &m);
        }
    }
    test_base_close(&t);
}

/* -------------------------------------------------------------------- components */

static void small_parts(void **state)
{
    const double low[3] = {-0.4, -0.4, -0.4}, high[3] = {-0.3, -0.3, -0.3};
    int64_t components, faces;
    esi_mesh m, box, copy;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    damage_sphere(t.ctx, &m, 20, 0.2, 0, 0, 0, false);           /* 1520 faces, area 0.5 */
    damage_box(t.ctx, &box, 1, low, high);                       /* 12 faces, area 0.06 */
    damage_append(t.ctx, &m, &box);
    esi_mesh_free(t.ctx, &box);
    copy = check_copy(t.ctx, &m);
    assert_int_equal(esi_mesh_remove_small_components(t.ctx, &copy, 0.059, false, &components, &faces), ESPALIER_OK);
    assert_int_equal(components + faces, 0);
    assert_int_equal(esi_mesh_remove_small_components(t.ctx, &copy, 0.061, false, &components, &faces), ESPALIER_OK);
    assert_int_equal(components, 1);
    assert_int_equal(faces, 12);
    assert_int_equal(copy.n_faces, 1520);
    assert_int_equal(esi_mesh_remove_small_components(t.ctx, &copy, 100, true, &components, &faces), ESPALIER_OK);
    assert_int_equal(copy.n_faces, 1520);
    assert_int_equal(esi_mesh_remove_small_components(t.ctx, &copy, 100, false, &components, &faces), ESPALIER_OK);
    assert_int_equal(copy.n_faces, 0);
    assert_int_equal(esi_mesh_remove_small_components(t.ctx, &copy, 100, true, &components, &faces), ESPALIER_OK);
    esi_mesh_free(t.ctx, &copy);
    assert_int_equal(esi_mesh_remove_floaters(t.ctx, &m, 12.0 / 1520, &components, &faces), ESPALIER_OK);
    assert_int_equal(components, 0);                             /* not fewer */
    assert_int_equal(esi_mesh_remove_floaters(t.ctx, &m, 12.01 / 1520, &components, &faces), ESPALIER_OK);
    assert_int_equal(components, 1);
    assert_int_equal(m.n_faces, 1520);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ------------------------------------------------------------------------- holes */

/* A cone over an n-gon of the given perimeter, open below. */
static void make_hat(espalier_context *ctx, esi_mesh *m, int n, double perimeter)
{
    const double radius = perimeter / (2 * n * sin(3.14159265358979323846 / n));

    memset(m, 0, sizeof *m);
    damage_vertex(ctx, m, 0, 0, 0.1);
    for (int i = 0; i < n; i++) {
        const double a = 2 * 3.14159265358979323846 * i / n;

        damage_vertex(ctx, m, radius * cos(a), radius * sin(a), 0);
    }
    for (int i = 0; i < n; i++) damage_face(ctx, m, 0, 1 + i, 1 + (i + 1) % n);
}

static void fills(void **state)
{
    const esi_fill_options once = {0.03, 1};
    esi_fill_stats s;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    make_hat(t.ctx, &m, 9, 0.0299);
    assert_int_equal(esi_mesh_fill_holes(t.ctx, &m, &once, &s), ESPALIER_OK);
    assert_true(s.loops == 1 && s.filled == 1 && s.faces_added == 9 && s.boundary_edges_left == 0 && s.passes == 1);
    assert_int_equal(m.n_vertices, 11);
    assert_true(fabs((double)m.vertices[30]) < 1e-9 && fabs((double)m.vertices[31]) < 1e-9 && m.vertices[32] == 0.0f);
    assert_memory_equal(m.faces + 27, ((int32_t[]){2, 1, 10}), 12);                /* against its neighbour (0, 1, 2) */
    assert_int_equal(measure(t.ctx, &m).winding_conflicts, 0);
    assert_true(measure(t.ctx, &m).volume > 0);
    esi_mesh_free(t.ctx, &m);
    make_hat(t.ctx, &m, 9, 0.0301);
    assert_int_equal(esi_mesh_fill_holes(t.ctx, &m, &once, &s), ESPALIER_OK);
    assert_true(s.loops == 1 && s.filled == 0 && s.faces_added == 0 && s.boundary_edges_left == 9 && s.passes == 0);
    assert_int_equal(m.n_faces, 9);
    esi_mesh_free(t.ctx, &m);
    damage_shape(t.ctx, &m, DAMAGE_CUP, 8);                      /* a genuine rim stays */
    assert_int_equal(esi_mesh_fill_holes(t.ctx, &m, &(esi_fill_options){0.03, 4}, &s), ESPALIER_OK);
    assert_true(s.filled == 0 && s.boundary_edges_left == 32);
    assert_int_equal(esi_mesh_fill_holes(t.ctx, &m, &(esi_fill_options){INFINITY, 4}, &s), ESPALIER_OK);
    assert_true(s.filled == 1 && measure(t.ctx, &m).watertight);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* A hole with one bow-tie towards a large one: the small one is a loop at once. A strip between two bow-ties is none until others close. */
static void fills_again(void **state)
{
    int64_t left[5];
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int passes = 1; passes <= 4; passes++) {
        esi_fill_stats s;
        damage_random r = {3};
        esi_mesh m;

        damage_sphere(t.ctx, &m, 40, 0.05, 0, 0, 0, false);
        damage_delete(&m, &r, 500);
        assert_int_equal(esi_mesh_fill_holes(t.ctx, &m, &(esi_fill_options){0.03, passes}, &s), ESPALIER_OK);
        left[passes] = s.boundary_edges_left;
        assert_int_equal(s.boundary_edges_left, check_count_edges(&m).boundary);
        assert_in_range(s.passes, 1, passes);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(left[1] > left[2] && left[2] >= left[4]);
    test_base_close(&t);
}

/* ------------------------------------------------------------------- orientation */

static void unifies(void **state)
{
    damage_random r = {9};
    int64_t flipped, conflicts;
    esi_mesh m, original;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    damage_torus(t.ctx, &m, 12, 0.3, 0.1);
    original = check_copy(t.ctx, &m);
    for (int64_t f = 1; f < m.n_faces; f++)
        if (damage_below(&r, 3) == 0) damage_one(t.ctx, &m, &r, DAMAGE_FLIP);
    if (memcmp(m.faces, original.faces, 12) != 0) {              /* the lowest face decides */
        m.faces[1] = original.faces[1];
        m.faces[2] = original.faces[2];
    }
    assert_int_equal(esi_mesh_unify_orientation(t.ctx, &m, &flipped, &conflicts), ESPALIER_OK);
    assert_true(flipped > 50);
    assert_int_equal(conflicts, 0);
    check_same_mesh(&m, &original);
    m.faces[1] = original.faces[2];
    m.faces[2] = original.faces[1];
    assert_int_equal(esi_mesh_unify_orientation(t.ctx, &m, &flipped, &conflicts), ESPALIER_OK);
    assert_int_equal(flipped, m.n_faces - 1);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &original);

    /* A Moebius strip cannot be wound consistently: one seam is left. */
    damage_grid(t.ctx, &m, 20, 2, false, false);
    memset(m.vertices, 0, (size_t)m.n_vertices * 12);
    damage_face(t.ctx, &m, 38, 1, 0);
    damage_face(t.ctx, &m, 38, 39, 0);
    assert_int_equal(esi_mesh_unify_orientation(t.ctx, &m, NULL, &conflicts), ESPALIER_OK);
    assert_int_equal(conflicts, 1);
    assert_int_equal(check_count_edges(&m).conflicts, 1);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* Nested shells, turned at will: alternating signs from outside in. Touching ones are not nested. */
static void orients_outward(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int mask = 0; mask < 64; mask++) {
        static const double places[6][4] = {{0, 0, 0, 0.45},   {0.02, 0, 0, 0.35},    {0, 0.02, 0.1, 0.2},
                                            {0.01, 0, 0.1, 0.1}, {0, 0.05, -0.2, 0.08}, {0.7, 0, 0, 0.2}};
        static const bool negative[6] = {false, true, false, true, false, false};
        double *volumes;
        bool *closed;
        int32_t *component, n;
        int64_t flipped, wanted = 0;
        esi_mesh m = {0}, part;

        for (int i = 0; i < 6; i++) {
            damage_sphere(t.ctx, &part, 7 + i, places[i][3], places[i][0], places[i][1], places[i][2], mask >> i & 1);
            damage_append(t.ctx, &m, &part);
            esi_mesh_free(t.ctx, &part);
            wanted += (mask >> i & 1) != negative[i];
        }
        assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &flipped), ESPALIER_OK);
        assert_int_equal(flipped, wanted);
        assert_int_equal(esi_face_components(t.ctx, &component, &n, &m), ESPALIER_OK);
        assert_int_equal(esi_component_volumes(t.ctx, &volumes, &closed, &m, component, n), ESPALIER_OK);
        assert_int_equal(n, 6);
        for (int i = 0; i < 6; i++) assert_true(closed[i] && (volumes[i] < 0) == negative[i]);
        esi_free(t.ctx, component);
        esi_free(t.ctx, volumes);
        esi_free(t.ctx, closed);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

/* A chess board of cubes that touch along edges, corners and whole walls, all turned inside out: none is inside another. */
static void orients_touching(void **state)
{
    int64_t flipped;
    esi_mesh m = {0};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (int i = 0; i < 27; i++) {
        const double low[3] = {i % 3 * 0.25, i / 3 % 3 * 0.25, i / 9 * 0.25}, high[3] = {low[0] + 0.25, low[1] + 0.25, low[2] + 0.25};
        esi_mesh box;

        damage_box(t.ctx, &box, 1, low, high);
        for (int64_t f = 0; f < 12; f++) {
            const int32_t v = box.faces[3 * f];

            box.faces[3 * f] = box.faces[3 * f + 1];
            box.faces[3 * f + 1] = v;
        }
        damage_append(t.ctx, &m, &box);
        esi_mesh_free(t.ctx, &box);
    }
    assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &flipped), ESPALIER_OK);
    assert_int_equal(flipped, 27);
    assert_true(fabs(check_volume(&m) - 0.421875) < 1e-9);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

static void orients_open(void **state)
{
    int64_t flipped;
    esi_mesh m, original;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    damage_cup(t.ctx, &m, 8);
    original = check_copy(t.ctx, &m);
    assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &flipped), ESPALIER_OK);
    assert_int_equal(flipped, 0);
    for (int64_t f = 0; f < m.n_faces; f++) {
        m.faces[3 * f + 1] = original.faces[3 * f + 2];
        m.faces[3 * f + 2] = original.faces[3 * f + 1];
    }
    assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &flipped), ESPALIER_OK);
    assert_int_equal(flipped, 1);
    check_same_mesh(&m, &original);
    esi_mesh_free(t.ctx, &m);
    esi_mesh_free(t.ctx, &original);
    damage_grid(t.ctx, &m, 5, 5, false, false);                  /* a flat sheet has no outside */
    for (int i = 0; i < 25; i++) memcpy(m.vertices + 3 * i, (float[]){(float)(i / 5), (float)(i % 5), 0}, 12);
    assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &flipped), ESPALIER_OK);
    assert_int_equal(flipped, 0);
    esi_mesh_free(t.ctx, &m);
    test_base_close(&t);
}

/* ----------------------------------------------------------------------- normals */

static void normals(void **state)
{
    /* a corner of a box; a face and its back; a needle; nothing */
    const float vertices[] = {0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 5, 0, 0, 5, 1, 0, 5, 0, 1, 7, 7, 7, 8, 8, 8, 9, 9, 9, 1, 2, 3};
    const int32_t faces[] = {0, 2, 1, 0, 1, 3, 0, 3, 2, 4, 5, 6, 6, 5, 4, 7, 8, 9};
    const double length = 7;                                     /* (3, 6, 2) */
    float *n;
    esi_mesh m;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    m = make_mesh(t.ctx, vertices, 11, faces, 6);
    assert_int_equal(esi_mesh_vertex_normals(t.ctx, &n, &m), ESPALIER_OK);
    assert_true(n[0] == (float)(-3 / length) && n[1] == (float)(-2 / length) && n[2] == (float)(-6 / length));
    assert_true(n[12] == 1 && n[13] == 0 && n[14] == 0);         /* they cancel: the first face's */
    assert_true(n[21] == 0 && n[22] == 0 && n[23] == 1);
    assert_true(n[30] == 0 && n[31] == 0 && n[32] == 1);         /* in no face */
    esi_free(t.ctx, n);
    esi_mesh_free(t.ctx, &m);
    for (int i = 0; i < 2; i++) {                                /* tiny coordinates: no underflow */
        damage_sphere(t.ctx, &m, 12, i ? 1e-18 : 0.5, 0, 0, 0, false);
        assert_int_equal(esi_mesh_vertex_normals(t.ctx, &n, &m), ESPALIER_OK);
        for (int64_t v = 0; v < m.n_vertices; v++) {
            const double r = i ? 1e-18 : 0.5;
            double dot = 0;

            for (int k = 0; k < 3; k++) dot += (double)n[3 * v + k] * (double)m.vertices[3 * v + k] / r;
            assert_true(dot > 0.98 && dot < 1.000001);
        }
        esi_free(t.ctx, n);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sanitizes), cmocka_unit_test(compacts_and_welds), cmocka_unit_test(welds_a_soup), cmocka_unit_test(duplicates),
        cmocka_unit_test(degenerate), cmocka_unit_test(splits_cubes), cmocka_unit_test(splits_a_ring), cmocka_unit_test(fans),
        cmocka_unit_test(small_parts), cmocka_unit_test(fills), cmocka_unit_test(fills_again),
        cmocka_unit_test(unifies), cmocka_unit_test(orients_outward), cmocka_unit_test(orients_touching), cmocka_unit_test(orients_open),
        cmocka_unit_test(normals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
