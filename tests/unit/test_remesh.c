/* SPDX-License-Identifier: MIT
 *
 * The remesher on shapes whose answer is known: spheres, a cup, sheets one cell apart, holes narrower and wider than the band, nested
 * shells; and what must hold for anything: no odd edge, one winding, no edge with more than two faces in the clean form, the same bytes for
 * any number of threads.
 */
#include "mesh_checks.h"

#include "damage_fixture.h"
#include "mesh/clean.h"
#include "mesh/metrics.h"
#include "mesh/remesh.h"
#include "ply_fixture.h"

#include <math.h>

static void run(espalier_context *ctx, esi_mesh *out, const esi_mesh *in, const esi_remesh_options *o, esi_remesh_stats *stats)
{
    esi_bvh *bvh;

    assert_int_equal(esi_bvh_build(ctx, &bvh, in), ESPALIER_OK);
    assert_int_equal(esi_mesh_remesh(ctx, out, bvh, in, o, stats), ESPALIER_OK);
    esi_bvh_free(ctx, bvh);
}

static esi_mesh_metrics metrics_of(espalier_context *ctx, const esi_mesh *m)
{
    esi_mesh_metrics q;

    assert_int_equal(esi_mesh_metrics_compute(ctx, &q, m, 0.03), ESPALIER_OK);
    return q;
}

/* What the reference form promises, and what the clean one does. */
static void check_sound(const esi_mesh *m, bool manifold)
{
    const check_counts c = check_count_edges(m);

    assert_true(check_is_clean(m));
    assert_int_equal(c.odd, 0);
    assert_int_equal(c.conflicts, 0);
    if (manifold) assert_int_equal(c.nonmanifold, 0);
}

static double length_of(const float *p)
{
    return sqrt((double)p[0] * (double)p[0] + (double)p[1] * (double)p[1] + (double)p[2] * (double)p[2]);
}

/* Least and largest distance of vertices from the origin, of those on one side of `radius`. */
static void radii(const esi_mesh *m, double radius, bool outside, double range[2])
{
    range[0] = INFINITY;
    range[1] = 0.0;
    for (int64_t v = 0; v < m->n_vertices; v++) {
        const double r = length_of(m->vertices + 3 * v);

        if ((r > radius) != outside) continue;
        range[0] = fmin(range[0], r);
        range[1] = fmax(range[1], r);
    }
}

/* ---------------------------------------------------------------------- spheres */

static void sphere_gives_two_shells(void **state)
{
    const double h = 67.0 / 64.0 / 64.0;
    esi_remesh_options o = esi_remesh_options_reference(64);
    esi_remesh_stats s;
    esi_mesh in, out;
    esi_mesh_metrics q;
    double range[2];
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    damage_sphere(t.ctx, &in, 60, 0.4, 0, 0, 0, false);
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, false);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 2);
    assert_int_equal(q.euler, 4);
    assert_int_equal(q.negative_components, 1);
    assert_int_equal(s.shells, 2);
    assert_int_equal(s.cavity_components, 1);
    assert_int_equal(s.missing_quads, 0);
    assert_int_equal(s.dropped_components, 0);
    assert_int_equal(out.n_faces, 2 * s.quads);
    radii(&out, 0.4, true, range);
    assert_true(range[0] > 0.4 + 0.9 * h && range[1] < 0.4 + 1.1 * h);
    radii(&out, 0.4, false, range);
    assert_true(range[0] > 0.4 - 1.1 * h && range[1] < 0.4 - 0.9 * h);
    esi_mesh_free(t.ctx, &out);

    o.project = 0.5;                                   /* half of the way back */
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, false);
    radii(&out, 0.4, true, range);
    assert_true(range[0] > 0.4 + 0.45 * h && range[1] < 0.4 + 0.55 * h);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

/* The spec's figures for a sphere that touches the sides of a grid without room around it. */
static void clipped_grid_drops_quads(void **state)
{
    esi_remesh_options o = esi_remesh_options_reference(64);
    esi_remesh_stats s;
    esi_mesh in, out;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    damage_sphere(t.ctx, &in, 120, 0.5, 0, 0, 0, false);
    o.scale = 1.0;
    run(t.ctx, &out, &in, &o, &s);
    assert_int_equal(s.missing_quads, 204);
    assert_int_equal(check_count_edges(&out).boundary, 408);
    assert_true(check_is_clean(&out));
    esi_mesh_free(t.ctx, &out);
    o.scale = 0.0;
    run(t.ctx, &out, &in, &o, &s);
    assert_int_equal(s.missing_quads, 0);
    check_sound(&out, false);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

static void clean_sphere_is_the_sphere(void **state)
{
    const esi_remesh_options o = esi_remesh_options_clean(64);
    esi_remesh_stats s;
    esi_mesh in, out;
    esi_mesh_metrics q;
    double range[2];
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    damage_sphere(t.ctx, &in, 60, 0.4, 0, 0, 0, false);
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, true);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 1);
    assert_int_equal(q.euler, 2);
    assert_int_equal(s.dropped_components, 1);
    assert_int_equal(s.dropped_faces, s.cavity_faces);
    assert_int_equal(out.n_faces, 2 * s.quads - s.dropped_faces);
    assert_int_equal(s.flipped_after, 0);
    assert_int_equal(s.kept_apart, 0);
    radii(&out, 0.0, true, range);
    assert_true(range[0] > 0.3994 && range[1] <= 0.400001);      /* facets of the input lie inside the sphere */
    assert_true(fabs(q.volume - check_volume(&in)) < 0.001 * q.volume);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

static double total_bend(const esi_mesh *m)
{
    double sum = 0.0;

    for (int64_t f = 0; f < m->n_faces; f += 2) {
        double n[2][3], l2[2] = {0.0, 0.0}, d = 0.0;

        for (int i = 0; i < 2; i++) {
            const int32_t *v = m->faces + 3 * (f + i);
            double u[3], w[3];

            for (int k = 0; k < 3; k++) {
                u[k] = (double)m->vertices[3 * (int64_t)v[1] + k] - (double)m->vertices[3 * (int64_t)v[0] + k];
                w[k] = (double)m->vertices[3 * (int64_t)v[2] + k] - (double)m->vertices[3 * (int64_t)v[0] + k];
            }
            for (int k = 0; k < 3; k++) n[i][k] = u[(k + 1) % 3] * w[(k + 2) % 3] - u[(k + 2) % 3] * w[(k + 1) % 3];
            for (int k = 0; k < 3; k++) l2[i] += n[i][k] * n[i][k];
        }
        for (int k = 0; k < 3; k++) d += n[0][k] * n[1][k];
        if (l2[0] * l2[1] > 0.0) sum += acos(fmin(1.0, d / sqrt(l2[0] * l2[1])));
    }
    return sum;
}

static void better_diagonals_bend_less(void **state)
{
    esi_remesh_options o = esi_remesh_options_reference(32);
    esi_mesh in, plain, better;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    damage_torus(t.ctx, &in, 40, 0.3, 0.1);
    run(t.ctx, &plain, &in, &o, NULL);
    o.best_diagonal = true;
    run(t.ctx, &better, &in, &o, NULL);
    check_sound(&better, false);
    assert_int_equal(plain.n_faces, better.n_faces);
    assert_memory_equal(plain.vertices, better.vertices, (size_t)plain.n_vertices * 12);
    assert_true(total_bend(&better) < 0.9 * total_bend(&plain));
    esi_mesh_free(t.ctx, &plain);
    esi_mesh_free(t.ctx, &better);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

/* ----------------------------------------------------------------- holes and sheets */

/* A square in the plane z, n x n quads. */
static void sheet(espalier_context *ctx, esi_mesh *m, int n, double half, double z)
{
    damage_grid(ctx, m, n + 1, n + 1, false, false);
    for (int i = 0; i <= n; i++) {
        for (int k = 0; k <= n; k++) {
            const float p[3] = {(float)(half * (2.0 * i / n - 1.0)), (float)(half * (2.0 * k / n - 1.0)), (float)z};
            memcpy(m->vertices + 3 * (i * (n + 1) + k), p, 12);
        }
    }
}

/* Both sides stay, half a cell apart around the sheet, and the rim does not fold up. */
static void open_sheet_stays_thin_and_closed(void **state)
{
    const double h = 67.0 / 64.0 / 64.0;
    const esi_remesh_options o = esi_remesh_options_clean(64);
    esi_remesh_stats s;
    esi_mesh in, out;
    esi_mesh_metrics q;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    sheet(t.ctx, &in, 20, 0.3, 0.013);
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, true);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 1);
    assert_int_equal(q.euler, 2);
    assert_int_equal(s.dropped_components, 0);
    assert_int_equal(s.flipped_after, 0);
    assert_true(s.kept_apart > out.n_vertices / 2);
    assert_true(fabs(q.volume - 0.36 * 0.5 * h) < 0.05 * q.volume);
    for (int k = 0; k < 2; k++) assert_true(q.max[k] < 0.3 + 0.3 * h && q.min[k] > -0.3 - 0.3 * h);
    assert_true(fabs((double)q.max[2] - 0.013 - 0.25 * h) < 1e-4 && fabs((double)q.min[2] - 0.013 + 0.25 * h) < 1e-4);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);

    damage_cup(t.ctx, &in, 24);
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, true);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 1);            /* a cup, not a filled cone, and not two walls in one place */
    assert_int_equal(q.euler, 2);
    assert_true(q.volume > 0.4 * h * metrics_of(t.ctx, &in).area && q.volume < 0.6 * h * metrics_of(t.ctx, &in).area);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

/* One cell apart is less than two bands: one piece, but each side on its own sheet, where it belongs. */
static void sheets_one_cell_apart_stay_apart(void **state)
{
    const double h = 67.0 / 64.0 / 64.0;
    const esi_remesh_options o = esi_remesh_options_clean(64);
    esi_remesh_stats s;
    esi_mesh in, upper, out;
    esi_mesh_metrics q;
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    sheet(t.ctx, &in, 20, 0.3, 0.0);
    sheet(t.ctx, &upper, 20, 0.3, h);
    damage_append(t.ctx, &in, &upper);
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, true);
    q = metrics_of(t.ctx, &out);
    assert_true((double)q.max[2] >= h * 0.9999 && (double)q.max[2] < 1.05 * h);          /* what the rims keep of the offset */
    assert_true((double)q.min[2] <= 1e-5 * h && (double)q.min[2] > -0.05 * h);
    assert_true(fabs(q.volume - 0.36 * h) < 0.02 * q.volume);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);

    sheet(t.ctx, &in, 20, 0.3, 0.0);                   /* further than two bands: two pieces */
    for (int64_t v = 0; v < upper.n_vertices; v++) upper.vertices[3 * v + 2] = (float)(3.5 * h);
    damage_append(t.ctx, &in, &upper);
    run(t.ctx, &out, &in, &o, &s);
    check_sound(&out, true);
    assert_int_equal(metrics_of(t.ctx, &out).face_components, 2);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    esi_mesh_free(t.ctx, &upper);
    test_base_close(&t);
}

/* A fine sphere without the faces within `radius` of its north pole. */
static void punched_sphere(espalier_context *ctx, esi_mesh *m, int n, double radius)
{
    int64_t left = 0;

    damage_sphere(ctx, m, n, 0.4, 0, 0, 0, false);
    for (int64_t f = 0; f < m->n_faces; f++) {
        bool in_hole = true;

        for (int k = 0; k < 3; k++) {
            const float *p = m->vertices + 3 * (int64_t)m->faces[3 * f + k];
            in_hole = in_hole && p[2] > 0.0f && hypot((double)p[0], (double)p[1]) <= radius;
        }
        if (!in_hole) memmove(m->faces + 3 * left++, m->faces + 3 * f, 12);
    }
    m->n_faces = left;
    assert_int_equal(esi_mesh_compact(ctx, m, NULL), ESPALIER_OK);
}

static void holes_wider_than_the_band_are_tunnels(void **state)
{
    const double h = 67.0 / 64.0 / 64.0;
    const esi_remesh_options reference = esi_remesh_options_reference(64), clean = esi_remesh_options_clean(64);
    esi_remesh_options solid = clean;
    esi_remesh_stats s;
    esi_mesh in, out;
    test_base t;

    (void)state;
    solid.solid = true;
    test_base_open(&t, 2);
    punched_sphere(t.ctx, &in, 200, 0.8 * h);               /* bridged */
    run(t.ctx, &out, &in, &reference, &s);
    assert_int_equal(s.shells, 2);
    esi_mesh_free(t.ctx, &out);
    run(t.ctx, &out, &in, &clean, &s);
    check_sound(&out, true);
    assert_true(fabs(check_volume(&out) - 4.0 / 3.0 * 3.14159265 * 0.064) < 0.002);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);

    punched_sphere(t.ctx, &in, 200, 2.0 * h);               /* a tunnel: inside and outside are one surface of genus 0 */
    run(t.ctx, &out, &in, &reference, &s);
    check_sound(&out, false);
    assert_int_equal(s.shells, 1);
    assert_int_equal(metrics_of(t.ctx, &out).euler, 2);
    esi_mesh_free(t.ctx, &out);
    run(t.ctx, &out, &in, &clean, &s);                 /* nothing can be dropped: a thin wall */
    check_sound(&out, true);
    assert_int_equal(s.dropped_components, 0);
    assert_true(fabs(check_volume(&out) - 4.0 * 3.14159265 * 0.16 * 0.5 * h) < 0.1 * check_volume(&out));
    esi_mesh_free(t.ctx, &out);
    run(t.ctx, &out, &in, &solid, &s);                 /* the rim is short enough to be closed */
    check_sound(&out, true);
    assert_int_equal(s.holes_closed, 1);
    assert_int_equal(metrics_of(t.ctx, &out).face_components, 1);
    assert_true(fabs(check_volume(&out) - 4.0 / 3.0 * 3.14159265 * 0.064) < 0.002);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);

    punched_sphere(t.ctx, &in, 200, 14.0 * h);              /* too wide to be a fault: stays what it is */
    run(t.ctx, &out, &in, &solid, &s);
    check_sound(&out, true);
    assert_int_equal(s.holes_closed, 0);
    assert_true(check_volume(&out) < 0.03);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

static void nested_parts(void **state)
{
    const esi_remesh_options reference = esi_remesh_options_reference(64), clean = esi_remesh_options_clean(64);
    esi_remesh_options solid = clean;
    esi_remesh_stats s;
    esi_mesh in, out;
    esi_mesh_metrics q;
    test_base t;

    (void)state;
    solid.solid = true;
    test_base_open(&t, 2);
    damage_shape(t.ctx, &in, DAMAGE_NESTED, 40);       /* radii 0.45, 0.3 (a cavity's wall), 0.1 */
    run(t.ctx, &out, &in, &reference, &s);
    assert_int_equal(s.shells, 6);
    assert_int_equal(s.cavity_components, 3);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 6);
    assert_int_equal(q.negative_components, 3);
    esi_mesh_free(t.ctx, &out);

    run(t.ctx, &out, &in, &clean, &s);
    check_sound(&out, true);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 3);            /* nested parts stay */
    assert_int_equal(q.negative_components, 0);
    esi_mesh_free(t.ctx, &out);

    run(t.ctx, &out, &in, &solid, &s);
    check_sound(&out, true);
    q = metrics_of(t.ctx, &out);
    assert_int_equal(q.face_components, 1);
    assert_int_equal(q.euler, 2);
    assert_int_equal(s.dropped_components, 5);
    assert_true(fabs(q.volume - 4.0 / 3.0 * 3.14159265 * 0.091125) < 0.003);
    esi_mesh_free(t.ctx, &out);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

/* ------------------------------------------------------------------------- anything */

/* Sound whatever the input; from 200 damaged meshes a few edges with four faces come in the reference form and none in the clean one. */
static void damaged_meshes(void **state)
{
    esi_remesh_options options[3] = {esi_remesh_options_reference(32), esi_remesh_options_clean(32), esi_remesh_options_clean(32)};
    int64_t nonmanifold = 0, flipped = 0;
    test_base t;

    (void)state;
    options[2].solid = true;
    test_base_open(&t, 2);
    for (int i = 0; i < 200; i++) {
        esi_mesh in, out;
        esi_bvh *bvh;

        damage_make(t.ctx, &in, i, DAMAGE_ALL);
        assert_int_equal(esi_mesh_sanitize(t.ctx, &in, NULL), ESPALIER_OK);
        assert_int_equal(esi_bvh_build(t.ctx, &bvh, &in), ESPALIER_OK);
        for (size_t k = 0; k < ESI_COUNT(options) - (i % 4 > 0); k++) {
            esi_remesh_stats s;

            assert_int_equal(esi_mesh_remesh(t.ctx, &out, bvh, &in, &options[k], &s), ESPALIER_OK);
            check_sound(&out, k > 0);
            if (k == 0) nonmanifold += check_count_edges(&out).nonmanifold;
            else assert_int_equal(s.flipped_after, 0);
            flipped += s.flipped_before;
            assert_int_equal(s.missing_quads, 0);
            esi_mesh_free(t.ctx, &out);
        }
        esi_bvh_free(t.ctx, bvh);
        esi_mesh_free(t.ctx, &in);
    }
    assert_true(nonmanifold > 0);
    assert_true(flipped > 0);
    test_base_close(&t);
}

static double mean_distance(const esi_mesh *m, const esi_bvh *bvh)
{
    double area = 0.0, sum = 0.0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        const float *p[3];
        double u[3], w[3], n2 = 0.0;
        float middle[3];

        for (int k = 0; k < 3; k++) p[k] = m->vertices + 3 * (int64_t)m->faces[3 * f + k];
        for (int k = 0; k < 3; k++) {
            u[k] = (double)p[1][k] - (double)p[0][k];
            w[k] = (double)p[2][k] - (double)p[0][k];
            middle[k] = (p[0][k] + p[1][k] + p[2][k]) / 3.0f;
        }
        for (int k = 0; k < 3; k++) n2 += pow(u[(k + 1) % 3] * w[(k + 2) % 3] - u[(k + 2) % 3] * w[(k + 1) % 3], 2.0);
        area += sqrt(n2);
        sum += sqrt(n2) * (double)esi_bvh_distance(bvh, middle, INFINITY, INFINITY);
    }
    return sum / area;
}

static void real_meshes(void **state)
{
    static const struct { const char *name; double most; int components; } known[] = {{"bunny", 1e-4, 1}, {"armadillo", 2e-4, 1}};
    const esi_remesh_options o = esi_remesh_options_clean(256);
    test_base t;

    (void)state;
    test_base_open(&t, 2);
    for (size_t i = 0; i < ESI_COUNT(known); i++) {
        char path[1024];
        esi_mesh in = {0}, out;
        esi_remesh_stats s;
        esi_bvh *bvh;

        snprintf(path, sizeof path, "%s/../../shared/golden/geometry/meshes/real_%s.ply", ESPALIER_TEST_DATA, known[i].name);
        if (!ply_fixture_read(t.ctx, &in, path)) {
            print_message("SKIPPED: %s is not there\n", path);
            continue;
        }
        assert_int_equal(esi_bvh_build(t.ctx, &bvh, &in), ESPALIER_OK);
        assert_int_equal(esi_mesh_remesh(t.ctx, &out, bvh, &in, &o, &s), ESPALIER_OK);
        check_sound(&out, true);
        assert_int_equal(metrics_of(t.ctx, &out).face_components, known[i].components);
        assert_true(s.flipped_before > 0 && s.unprojected > 0);
        assert_int_equal(s.flipped_after, 0);
        assert_true(mean_distance(&out, bvh) <= known[i].most);
        esi_mesh_free(t.ctx, &out);
        esi_bvh_free(t.ctx, bvh);
        esi_mesh_free(t.ctx, &in);
    }
    test_base_close(&t);
}

/* ------------------------------------------------------------ threads and failures */

static void threads_do_not_matter(void **state)
{
    static const int threads[] = {1, 2, 5};
    esi_remesh_options options[3] = {esi_remesh_options_reference(96), esi_remesh_options_clean(96), esi_remesh_options_clean(50)};
    float *vertices[3] = {NULL};
    int32_t *faces[3] = {NULL};
    int64_t n_vertices[3], n_faces[3];

    (void)state;
    options[2].solid = true;
    for (size_t i = 0; i < ESI_COUNT(threads); i++) {
        test_base t;
        esi_mesh in, out;

        test_base_open(&t, threads[i]);
        damage_make(t.ctx, &in, 15, DAMAGE_ALL & ~(DAMAGE_NAN | DAMAGE_RANGE | DAMAGE_REPEAT));
        for (size_t k = 0; k < ESI_COUNT(options); k++) {
            run(t.ctx, &out, &in, &options[k], NULL);
            if (i == 0) {
                vertices[k] = malloc((size_t)out.n_vertices * 12);
                faces[k] = malloc((size_t)out.n_faces * 12);
                memcpy(vertices[k], out.vertices, (size_t)out.n_vertices * 12);
                memcpy(faces[k], out.faces, (size_t)out.n_faces * 12);
                n_vertices[k] = out.n_vertices;
                n_faces[k] = out.n_faces;
            }
            assert_true(out.n_vertices == n_vertices[k] && out.n_faces == n_faces[k]);
            assert_memory_equal(out.vertices, vertices[k], (size_t)out.n_vertices * 12);
            assert_memory_equal(out.faces, faces[k], (size_t)out.n_faces * 12);
            esi_mesh_free(t.ctx, &out);
        }
        esi_mesh_free(t.ctx, &in);
        test_base_close(&t);
    }
    for (size_t k = 0; k < ESI_COUNT(options); k++) {
        free(vertices[k]);
        free(faces[k]);
    }
}

static void failures_leave_nothing(void **state)
{
    esi_remesh_options o = esi_remesh_options_clean(32);
    esi_mesh in, out;
    esi_bvh *bvh;
    long n = 0;
    espalier_status st;
    test_base t;

    (void)state;
    o.solid = true;
    test_base_open(&t, 2);
    punched_sphere(t.ctx, &in, 24, 0.1);
    assert_int_equal(esi_bvh_build(t.ctx, &bvh, &in), ESPALIER_OK);
    do {
        test_fail_at(&t.memory, ++n);
        st = esi_mesh_remesh(t.ctx, &out, bvh, &in, &o, NULL);
        test_fail_at(&t.memory, 0);
        if (st != ESPALIER_OK) {
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_null(out.vertices);
            assert_null(out.faces);
        }
        esi_clear_error(t.ctx);
    } while (st != ESPALIER_OK && n < 1000);
    assert_true(n > 40);
    esi_mesh_free(t.ctx, &out);
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_mesh_remesh(t.ctx, &out, bvh, &in, &o, NULL), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(t.ctx);
    esi_clear_error(t.ctx);
    o.resolution = 33;
    assert_int_equal(esi_mesh_remesh(t.ctx, &out, bvh, &in, &o, NULL), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    o.resolution = 32;
    o.band = 0.0;
    assert_int_equal(esi_mesh_remesh(t.ctx, &out, bvh, &in, &o, NULL), ESPALIER_ERR_INTERNAL);
    esi_clear_error(t.ctx);
    o = esi_remesh_options_reference(32);
    o.scale = 1.0;
    o.center[0] = 5.0f;
    assert_int_equal(esi_mesh_remesh(t.ctx, &out, bvh, &in, &o, NULL), ESPALIER_ERR_SOUNDNESS);
    assert_null(out.vertices);
    esi_clear_error(t.ctx);
    esi_bvh_free(t.ctx, bvh);
    esi_mesh_free(t.ctx, &in);
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sphere_gives_two_shells),
        cmocka_unit_test(clipped_grid_drops_quads),
        cmocka_unit_test(clean_sphere_is_the_sphere),
        cmocka_unit_test(better_diagonals_bend_less),
        cmocka_unit_test(open_sheet_stays_thin_and_closed),
        cmocka_unit_test(sheets_one_cell_apart_stay_apart),
        cmocka_unit_test(holes_wider_than_the_band_are_tunnels),
        cmocka_unit_test(nested_parts),
        cmocka_unit_test(damaged_meshes),
        cmocka_unit_test(real_meshes),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(failures_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
