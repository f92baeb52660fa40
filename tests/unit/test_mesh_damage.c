/* SPDX-License-Identifier: MIT
 *
 * What each repair promises, on 200 damaged meshes: only deleting and filling change the mod-2 boundary, counted by place with plain
 * sorting (spec: "only explicit deletion may raise the odd-edge count, only filling lowers it"); and all repairs one after the other give
 * the same bytes for any number of threads, survive failing memory at every request and cancelling at any time.
 */
#include "damage_fixture.h"
#include "mesh_checks.h"

#include "mesh/clean.h"
#include "mesh/metrics.h"

#define MESHES 200

static void make_clean(espalier_context *ctx, esi_mesh *m, int number)
{
    damage_make(ctx, m, number, DAMAGE_ALL);
    assert_int_equal(esi_mesh_sanitize(ctx, m, NULL), ESPALIER_OK);
    assert_int_equal(esi_mesh_weld(ctx, m, NULL, NULL), ESPALIER_OK);
}

/* ------------------------------------------------------------ reading and welding */

static void sanitize_and_weld(void **state)
{
    int64_t nan_faces = 0, bad_faces = 0, repeated = 0, welded = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < MESHES; i++) {
        esi_sanitize_stats s;
        check_boundary before, after;
        int64_t merged, n_faces, kept = 0;
        esi_mesh m, dirty;

        damage_make(t.ctx, &m, i, DAMAGE_ALL);
        dirty = check_copy(t.ctx, &m);
        assert_int_equal(esi_mesh_sanitize(t.ctx, &m, &s), ESPALIER_OK);
        assert_true(check_is_clean(&m));
        assert_int_equal(m.n_faces, dirty.n_faces - s.bad_index - s.repeated_index - s.not_finite);
        assert_int_equal(m.n_vertices, dirty.n_vertices - s.unused_vertices);
        for (int64_t f = 0; f < dirty.n_faces; f++) {            /* the good faces are there, in order, at the same places */
            const int32_t *v = dirty.faces + 3 * f;
            bool good = true;

            for (int k = 0; k < 3; k++) good &= v[k] >= 0 && v[k] < dirty.n_vertices && v[k] != v[(k + 1) % 3];
            for (int k = 0; good && k < 9; k++) good &= isfinite(dirty.vertices[3 * (int64_t)v[k / 3] + k % 3]) != 0;
            if (!good) continue;
            for (int k = 0; k < 3; k++)
                assert_memory_equal(dirty.vertices + 3 * (int64_t)v[k], m.vertices + 3 * (int64_t)m.faces[3 * kept + k], 12);
            kept++;
        }
        assert_int_equal(kept, m.n_faces);
        bad_faces += s.bad_index;
        nan_faces += s.not_finite;
        repeated += s.repeated_index;

        before = check_odd_places(&m);
        n_faces = m.n_faces;
        assert_int_equal(esi_mesh_weld(t.ctx, &m, &merged, NULL), ESPALIER_OK);
        assert_true(check_is_clean(&m));
        after = check_odd_places(&m);
        assert_true(check_same_boundary(&after, &before));
        assert_int_equal(check_count_edges(&m).odd, (int64_t)after.count);             /* by index and by place are the same now */
        assert_true(merged > 0 || m.n_faces == n_faces);
        welded += merged;
        free(before.edges);
        free(after.edges);
        esi_mesh_free(t.ctx, &dirty);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(bad_faces > 500 && nan_faces > 500 && repeated > 500 && welded > 500);           /* the damage is there */
    test_base_close(&t);
}

/* ------------------------------------------------------------------ boundaries */

static void duplicates_and_splits(void **state)
{
    int64_t removed_all = 0, odd_all = 0, cut = 0, nonmanifold = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < MESHES; i++) {
        check_boundary before, after;
        check_counts counts, split;
        esi_mesh_metrics s;
        int64_t removed, added, n_faces, n_vertices;
        esi_mesh m, copy;

        make_clean(t.ctx, &m, i);
        before = check_odd_places(&m);
        copy = check_copy(t.ctx, &m);
        assert_int_equal(esi_mesh_remove_duplicate_faces(t.ctx, &copy, false, NULL), ESPALIER_OK);
        assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &copy, 0.03), ESPALIER_OK);
        assert_int_equal(s.duplicate_faces, 0);
        esi_mesh_free(t.ctx, &copy);
        assert_int_equal(esi_mesh_remove_duplicate_faces(t.ctx, &m, true, &removed), ESPALIER_OK);
        assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &m, 0.03), ESPALIER_OK);
        assert_int_equal(s.duplicate_faces, 0);
        after = check_odd_places(&m);
        assert_true(check_same_boundary(&after, &before));
        assert_true(check_is_clean(&m));
        free(after.edges);
        removed_all += removed;

        counts = check_count_edges(&m);
        n_faces = m.n_faces;
        n_vertices = m.n_vertices;
        copy = check_copy(t.ctx, &m);
        assert_int_equal(esi_mesh_split_nonmanifold(t.ctx, &m, &added), ESPALIER_OK);
        split = check_count_edges(&m);
        assert_int_equal(split.nonmanifold, 0);
        assert_int_equal(split.boundary, counts.odd);            /* no edge was opened */
        after = check_odd_places(&m);
        assert_true(check_same_boundary(&after, &before));
        assert_int_equal(m.n_vertices, n_vertices + added);
        assert_true(check_is_clean(&m));
        for (int64_t v = 0; v < copy.n_vertices; v++) assert_memory_equal(m.vertices + 3 * v, copy.vertices + 3 * v, 12);
        cut += m.n_faces - n_faces;
        nonmanifold += counts.nonmanifold;
        odd_all += counts.odd;
        free(after.edges);
        free(before.edges);

        /* the reference's repair keeps faces and places */
        assert_int_equal(esi_mesh_repair_nonmanifold_edges(t.ctx, &copy, &added), ESPALIER_OK);
        assert_int_equal(copy.n_faces, n_faces);
        assert_true(check_is_clean(&copy));
        assert_true(check_count_edges(&copy).nonmanifold <= counts.nonmanifold);
        esi_mesh_free(t.ctx, &copy);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(removed_all > 500 && odd_all > 1000 && nonmanifold > 500);
    print_message("  %lld non-manifold edges, %lld faces added by cutting\n", (long long)nonmanifold, (long long)cut);
    test_base_close(&t);
}

static void holes(void **state)
{
    int64_t filled = 0, left_all = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < MESHES; i++) {
        const esi_fill_options options = {i % 2 ? 0.5 : 5.0, 1 + i / 2 % 4};
        check_boundary before, after;
        esi_fill_stats s;
        esi_mesh m, copy;

        make_clean(t.ctx, &m, i);
        before = check_odd_places(&m);
        copy = check_copy(t.ctx, &m);
        assert_int_equal(esi_mesh_fill_holes(t.ctx, &m, &options, &s), ESPALIER_OK);
        after = check_odd_places(&m);
        assert_true(check_boundary_within(&after, &before));     /* nothing opened */
        assert_int_equal(before.count - after.count, s.faces_added);
        assert_int_equal(check_count_edges(&m).boundary, s.boundary_edges_left);
        assert_int_equal(m.n_faces, copy.n_faces + s.faces_added);
        assert_int_equal(m.n_vertices, copy.n_vertices + s.filled);
        assert_memory_equal(m.faces, copy.faces, (size_t)copy.n_faces * 12);
        assert_true(check_count_edges(&m).nonmanifold == check_count_edges(&copy).nonmanifold);
        filled += s.filled;
        left_all += s.boundary_edges_left;
        free(before.edges);
        free(after.edges);
        esi_mesh_free(t.ctx, &copy);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(filled > 200 && left_all > 200);
    test_base_close(&t);
}

/* Deleting: only faces with the property go, and only their edges change. */
static void deletions(void **state)
{
    int64_t degenerate = 0, small = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < MESHES; i++) {
        int32_t *component, n;
        double *area;
        int64_t removed, components;
        esi_mesh m;

        make_clean(t.ctx, &m, i);
        assert_int_equal(esi_mesh_remove_degenerate_faces(t.ctx, &m, 1e-12, 1e-6, &removed), ESPALIER_OK);
        degenerate += removed;
        assert_true(check_is_clean(&m));
        assert_int_equal(esi_mesh_remove_degenerate_faces(t.ctx, &m, 1e-12, 1e-6, &removed), ESPALIER_OK);
        assert_int_equal(removed, 0);
        assert_int_equal(esi_mesh_remove_small_components(t.ctx, &m, 1e-3, true, &components, &removed), ESPALIER_OK);
        small += components;
        assert_int_equal(esi_face_components(t.ctx, &component, &n, &m), ESPALIER_OK);
        area = calloc((size_t)n + 1, sizeof *area);
        for (int64_t f = 0; f < m.n_faces; f++) {
            const esi_mesh one = {m.vertices, m.faces + 3 * f, m.n_vertices, 1};
            esi_mesh_metrics s;

            assert_int_equal(component[f] < n, 1);
            if (m.n_faces < 1000) assert_int_equal(esi_mesh_metrics_compute(t.ctx, &s, &one, 0), ESPALIER_OK);
            area[component[f]] += m.n_faces < 1000 ? s.area : 1;
        }
        for (int32_t c = 0; c < n; c++) assert_true(n == 1 || area[c] >= 1e-3 * (1 - 1e-9));
        free(area);
        esi_free(t.ctx, component);
        assert_int_equal(esi_mesh_remove_floaters(t.ctx, &m, 1.0, &components, &removed), ESPALIER_OK);
        assert_true(m.n_faces > 0);
        esi_mesh_free(t.ctx, &m);
    }
    assert_true(degenerate > 100 && small > 100);
    test_base_close(&t);
}

/* --------------------------------------------------------------- orientation */

/* Winding number of all faces of component `c` around p, by solid angles. */
static double winding_number(const esi_mesh *m, const int32_t *component, int32_t c, const double p[3])
{
    double sum = 0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        double v[3][3], l[3], det, dot;

        if (component[f] != c) continue;
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 3; k++) v[i][k] = (double)m->vertices[3 * (int64_t)m->faces[3 * f + i] + k] - p[k];
            l[i] = sqrt(v[i][0] * v[i][0] + v[i][1] * v[i][1] + v[i][2] * v[i][2]);
        }
        det = v[0][0] * (v[1][1] * v[2][2] - v[1][2] * v[2][1]) - v[0][1] * (v[1][0] * v[2][2] - v[1][2] * v[2][0]) +
              v[0][2] * (v[1][0] * v[2][1] - v[1][1] * v[2][0]);
        dot = l[0] * l[1] * l[2];
        for (int i = 0; i < 3; i++) {
            const int a = (i + 1) % 3, b = (i + 2) % 3;

            dot += (v[a][0] * v[b][0] + v[a][1] * v[b][1] + v[a][2] * v[b][2]) * l[i];
        }
        sum += 2 * atan2(det, dot);
    }
    return sum / (4 * 3.14159265358979323846);
}

/* Is a point of component c, the middle of its first face, inside an odd number of other closed components? */
static bool is_nested(const esi_mesh *m, const int32_t *component, int32_t n, const bool *closed, int32_t c)
{
    int inside = 0;
    double p[3] = {0, 0, 0};

    for (int64_t f = 0; f < m->n_faces; f++) {
        if (component[f] != c) continue;
        for (int i = 0; i < 9; i++) p[i % 3] += (double)m->vertices[3 * (int64_t)m->faces[3 * f + i / 3] + i % 3] / 3;
        break;
    }
    for (int32_t other = 0; other < n; other++)
        if (other != c && closed[other]) inside += fabs(winding_number(m, component, other, p)) > 0.5;
    return inside % 2 == 1;
}

static void orientation(void **state)
{
    int64_t flipped_all = 0, turned = 0, nested_all = 0;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (int i = 0; i < MESHES; i++) {
        check_boundary before, after;
        check_counts counts;
        double *volumes;
        bool *closed;
        int32_t *component, n;
        int64_t flipped, conflicts, components;
        esi_mesh m, copy;

        make_clean(t.ctx, &m, i);
        copy = check_copy(t.ctx, &m);
        before = check_odd_places(&m);
        assert_int_equal(esi_mesh_unify_orientation(t.ctx, &m, &flipped, &conflicts), ESPALIER_OK);
        counts = check_count_edges(&m);
        assert_int_equal(counts.conflicts, conflicts);
        if (conflicts != 0) fail_msg("mesh %d: %lld conflicts", i, (long long)conflicts);        /* all shapes can be oriented */
        for (int64_t f = 0; f < m.n_faces; f++) {
            const int32_t *a = copy.faces + 3 * f, *b = m.faces + 3 * f;
            const bool same = a[1] == b[1] && a[2] == b[2];

            assert_true(a[0] == b[0] && (same || (a[1] == b[2] && a[2] == b[1])));
            flipped -= !same;
        }
        assert_int_equal(flipped, 0);
        assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &components), ESPALIER_OK);
        turned += components;
        assert_int_equal(check_count_edges(&m).conflicts, 0);
        after = check_odd_places(&m);
        assert_true(check_same_boundary(&after, &before));
        assert_int_equal(esi_face_components(t.ctx, &component, &n, &m), ESPALIER_OK);
        assert_int_equal(esi_component_volumes(t.ctx, &volumes, &closed, &m, component, n), ESPALIER_OK);
        for (int32_t c = 0; c < n && i % 3 == 0; c++) {
            const bool nested = closed[c] && is_nested(&m, component, n, closed, c);

            nested_all += nested;
            if (closed[c] && fabs(volumes[c]) > 1e-12 && (volumes[c] < 0) != nested)
                fail_msg("mesh %d: component %d has volume %g", i, (int)c, volumes[c]);
        }
        assert_int_equal(esi_mesh_orient_outward(t.ctx, &m, &components), ESPALIER_OK);
        assert_int_equal(components, 0);
        for (int64_t f = 0; f < m.n_faces; f++) flipped_all += m.faces[3 * f + 1] != copy.faces[3 * f + 1];
        free(before.edges);
        free(after.edges);
        esi_free(t.ctx, component);
        esi_free(t.ctx, volumes);
        esi_free(t.ctx, closed);
        esi_mesh_free(t.ctx, &copy);
        esi_mesh_free(t.ctx, &m);
    }
    print_message("  %lld faces turned, %lld components turned, %lld nested\n", (long long)flipped_all, (long long)turned,
                  (long long)nested_all);
    assert_true(flipped_all > 1000 && turned > 20 && nested_all > 20);
    test_base_close(&t);
}

/* ------------------------------------------------- everything after one another */

/* All repairs; `m` stays a mesh whatever happens. */
static espalier_status repair(espalier_context *ctx, esi_mesh *m)
{
    const esi_fill_options holes_below = {0.5, 4};
    int32_t *map = NULL;
    float *vertex_normals = NULL;
    espalier_status st = esi_mesh_sanitize(ctx, m, NULL);

    if (st == ESPALIER_OK) st = esi_mesh_weld(ctx, m, NULL, &map);
    esi_free(ctx, map);
    if (st == ESPALIER_OK) st = esi_mesh_remove_duplicate_faces(ctx, m, true, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_remove_degenerate_faces(ctx, m, 1e-12, 1e-24, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_remove_floaters(ctx, m, 0.005, NULL, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_remove_small_components(ctx, m, 1e-5, true, NULL, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_unify_orientation(ctx, m, NULL, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_split_nonmanifold(ctx, m, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_fill_holes(ctx, m, &holes_below, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_unify_orientation(ctx, m, NULL, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_orient_outward(ctx, m, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_repair_nonmanifold_edges(ctx, m, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_vertex_normals(ctx, &vertex_normals, m);
    esi_free(ctx, vertex_normals);
    return st;
}

/* Large enough for many tasks. */
static void make_large(espalier_context *ctx, esi_mesh *m)
{
    damage_random r = {77};
    esi_mesh part;

    damage_torus(ctx, m, 140, 0.3, 0.1);
    damage_sphere(ctx, &part, 60, 0.08, 0.3, 0, 0, true);
    damage_append(ctx, m, &part);
    esi_mesh_free(ctx, &part);
    for (int kind = 2; kind <= DAMAGE_ALL; kind *= 2)
        for (int i = 0; i < 60; i++)
            if (kind != DAMAGE_NAN && kind != DAMAGE_RANGE) damage_one(ctx, m, &r, kind);
    damage_delete(m, &r, 200);
}

static void threads_agree(void **state)
{
    static const int threads[] = {1, 2, 5};
    test_base keep;
    esi_mesh first = {0};

    (void)state;
    test_base_open(&keep, 1);
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        esi_mesh m;
        test_base t;

        test_base_open(&t, threads[i]);
        make_large(t.ctx, &m);
        assert_int_equal(repair(t.ctx, &m), ESPALIER_OK);
        assert_true(check_is_clean(&m) && m.n_faces > 70000);
        if (i == 0) first = check_copy(keep.ctx, &m);
        check_same_mesh(&m, &first);
        esi_mesh_free(t.ctx, &m);
        test_base_close(&t);
    }
    esi_mesh_free(keep.ctx, &first);
    test_base_close(&keep);
}

/* A failed repair leaves a mesh that can be repaired, and no memory behind. */
static void failing_memory(void **state)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    test_base t;
    long n = 1;

    (void)state;
    test_base_open(&t, 1);
    for (; st != ESPALIER_OK; n++) {
        esi_mesh m;

        damage_make(t.ctx, &m, 31, DAMAGE_ALL);
        damage_face(t.ctx, &m, 0, 1, 7);
        test_fail_at(&t.memory, n);
        st = repair(t.ctx, &m);
        test_fail_at(&t.memory, 0);
        if (st != ESPALIER_OK) {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_true(espalier_error_message(t.ctx)[0] != '\0');
            esi_clear_error(t.ctx);
            assert_int_equal(repair(t.ctx, &m), ESPALIER_OK);
            assert_true(check_is_clean(&m));
        }
        esi_mesh_free(t.ctx, &m);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    }
    print_message("  %ld requests failed\n", n - 1);
    assert_in_range(n, 100, 1000);
    test_base_close(&t);
}

typedef espalier_status (*repair_fn)(espalier_context *ctx, esi_mesh *m);
static espalier_status run_sanitize(espalier_context *ctx, esi_mesh *m) { return esi_mesh_sanitize(ctx, m, NULL); }
static espalier_status run_compact(espalier_context *ctx, esi_mesh *m) { return esi_mesh_compact(ctx, m, NULL); }
static espalier_status run_weld(espalier_context *ctx, esi_mesh *m) { return esi_mesh_weld(ctx, m, NULL, NULL); }
static espalier_status run_duplicates(espalier_context *ctx, esi_mesh *m) { return esi_mesh_remove_duplicate_faces(ctx, m, true, NULL); }
static espalier_status run_degenerate(espalier_context *ctx, esi_mesh *m)
{
    return esi_mesh_remove_degenerate_faces(ctx, m, 1e-12, 1e-24, NULL);
}
static espalier_status run_repair_edges(espalier_context *ctx, esi_mesh *m) { return esi_mesh_repair_nonmanifold_edges(ctx, m, NULL); }
static espalier_status run_split(espalier_context *ctx, esi_mesh *m) { return esi_mesh_split_nonmanifold(ctx, m, NULL); }
static espalier_status run_small(espalier_context *ctx, esi_mesh *m)
{
    return esi_mesh_remove_small_components(ctx, m, 1, false, NULL, NULL);
}
static espalier_status run_floaters(espalier_context *ctx, esi_mesh *m) { return esi_mesh_remove_floaters(ctx, m, 0.5, NULL, NULL); }
static espalier_status run_fill(espalier_context *ctx, esi_mesh *m) { return esi_mesh_fill_holes(ctx, m, &(esi_fill_options){9, 4}, NULL); }
static espalier_status run_unify(espalier_context *ctx, esi_mesh *m) { return esi_mesh_unify_orientation(ctx, m, NULL, NULL); }
static espalier_status run_outward(espalier_context *ctx, esi_mesh *m) { return esi_mesh_orient_outward(ctx, m, NULL); }

static const repair_fn repairs[] = {run_sanitize, run_compact, run_weld, run_duplicates, run_degenerate, run_repair_edges,
                                    run_split, run_small, run_floaters, run_fill, run_unify, run_outward};

static void cancelling(void **state)
{
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(repairs); i++) {
        esi_mesh m, copy;
        uint64_t now;

        make_clean(t.ctx, &m, 20);
        copy = check_copy(t.ctx, &m);
        now = espalier_context_memory_now(t.ctx);
        espalier_context_cancel(t.ctx);
        assert_int_equal(repairs[i](t.ctx, &m), ESPALIER_ERR_CANCELLED);
        espalier_context_reset_cancel(t.ctx);
        esi_clear_error(t.ctx);
        assert_int_equal(espalier_context_memory_now(t.ctx), now);
        check_same_mesh(&m, &copy);
        esi_mesh_free(t.ctx, &m);
        esi_mesh_free(t.ctx, &copy);
    }
    /* no faces, no vertices: nothing to do */
    for (size_t i = 0; i < ESI_COUNT(repairs); i++) {
        esi_mesh m;

        assert_int_equal(esi_mesh_new(t.ctx, &m, 0, 0), ESPALIER_OK);
        assert_int_equal(repairs[i](t.ctx, &m), ESPALIER_OK);
        assert_int_equal(m.n_faces + m.n_vertices, 0);
        esi_mesh_free(t.ctx, &m);
    }
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sanitize_and_weld), cmocka_unit_test(duplicates_and_splits), cmocka_unit_test(holes),
        cmocka_unit_test(deletions),         cmocka_unit_test(orientation),           cmocka_unit_test(threads_agree),
        cmocka_unit_test(failing_memory),    cmocka_unit_test(cancelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
