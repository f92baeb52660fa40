/* SPDX-License-Identifier: MIT
 *
 * mesh_remesh.c: espalier-bench remesh: tree, reference form, clean form. --mesh bumpy makes the object that other programs were measured
 * on (a bumpy sphere inside a torus) with faces of about one cell of --res.
 */
#include "bench_mesh.h"

#include "mesh/metrics.h"
#include "mesh/remesh.h"
#include "ply_fixture.h"

#include <math.h>

#define PI 3.14159265358979323846

/* A grid of u x v quads, wrapping around where it is a torus; fn places the vertices. */
static void add_grid(esi_mesh *m, int u, int v, bool wrap, const double *turn, void (*fn)(float *p, double s, double t, const double *turn))
{
    const int columns = wrap ? v : v + 1, rows = wrap ? u : u + 1;
    const int64_t base = m->n_vertices;

    for (int i = 0; i < rows; i++) {
        for (int k = 0; k < columns; k++) fn(m->vertices + 3 * m->n_vertices++, (double)i / u, (double)k / v, turn);
    }
    for (int i = 0; i < u; i++) {
        for (int k = 0; k < v; k++) {
            const int i1 = (i + 1) % rows, k1 = (k + 1) % columns;
            const int32_t a = (int32_t)(base + i * columns + k), b = (int32_t)(base + i1 * columns + k);
            const int32_t c = (int32_t)(base + i1 * columns + k1), d = (int32_t)(base + i * columns + k1), face[6] = {a, b, c, a, c, d};

            memcpy(m->faces + 3 * m->n_faces, face, sizeof face);
            m->n_faces += 2;
        }
    }
}

/* One of the six sides of a cube blown up to a sphere; turn: axis and sign. */
static void sphere_point(float *p, double s, double t, const double *turn)
{
    const int axis = (int)turn[0];
    const double a = tan((2.0 * s - 1.0) * PI / 4.0), b = tan((2.0 * t - 1.0) * PI / 4.0) * turn[1], length = sqrt(1.0 + a * a + b * b);
    double v[3], r;

    v[axis] = turn[1] / length;
    v[(axis + 1) % 3] = a / length;
    v[(axis + 2) % 3] = b / length;
    r = 0.31 + 0.024 * sin(13.0 * v[0]) * sin(11.0 * v[1]) * sin(12.0 * v[2]);
    for (int k = 0; k < 3; k++) p[k] = (float)(r * v[k]);
}

static void torus_point(float *p, double s, double t, const double *turn)
{
    const double r = 0.4 + 0.05 * cos(2.0 * PI * t);

    (void)turn;
    p[0] = (float)(r * cos(2.0 * PI * s));
    p[1] = (float)(r * sin(2.0 * PI * s));
    p[2] = (float)(0.05 * sin(2.0 * PI * t));
}

/* One and a half quads per cell of surface, as dual grids have. */
static espalier_status make_bumpy(espalier_context *ctx, esi_mesh *m, int32_t resolution)
{
    const double cells = (double)resolution * (double)resolution;
    const int side = (int)sqrt(1.29 * cells * 1.5 / 6.0), v = (int)sqrt(0.79 * cells * 1.5 / 8.0), u = 8 * v;
    const int64_t vertices = 6 * (int64_t)(side + 1) * (side + 1) + (int64_t)u * v, quads = 6 * (int64_t)side * side + (int64_t)u * v;
    espalier_status st = esi_mesh_new(ctx, m, vertices, 2 * quads);

    if (st != ESPALIER_OK) return st;
    m->n_vertices = 0;
    m->n_faces = 0;
    for (int i = 0; i < 6; i++) add_grid(m, side, side, false, (const double[2]){i / 2, i % 2 ? 1.0 : -1.0}, sphere_point);
    add_grid(m, u, v, true, NULL, torus_point);
    return ESPALIER_OK;
}

typedef struct remesh_run {
    esi_bvh *bvh;
    esi_remesh_options options;
    esi_remesh_stats stats;
    esi_mesh out;
} remesh_run;

static espalier_status build_tree(bench_mesh *b, void *arg)
{
    remesh_run *r = arg;

    esi_bvh_free(b->ctx, r->bvh);
    return esi_bvh_build(b->ctx, &r->bvh, &b->mesh);
}

static espalier_status remesh_once(bench_mesh *b, void *arg)
{
    remesh_run *r = arg;

    esi_mesh_free(b->ctx, &r->out);
    return esi_mesh_remesh(b->ctx, &r->out, r->bvh, &b->mesh, &r->options, &r->stats);
}

static void report_run(bench_mesh *b, const char *what, double value)
{
    char name[40];

    snprintf(name, sizeof name, "%s_%s", b->name, what);
    bench_mesh_report(b, name, value);
}

/* Mean distance from the faces' middles, weighted by area. */
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
        for (int k = 0; k < 3; k++) {
            const double c = u[(k + 1) % 3] * w[(k + 2) % 3] - u[(k + 2) % 3] * w[(k + 1) % 3];
            n2 += c * c;
        }
        area += sqrt(n2);
        sum += sqrt(n2) * (double)esi_bvh_distance(bvh, middle, INFINITY, INFINITY);
    }
    return area > 0.0 ? sum / area : 0.0;
}

static espalier_status one_form(bench_mesh *b, remesh_run *r, const char *form, esi_remesh_options options)
{
    const char *name = b->name;
    esi_mesh_metrics metrics;
    espalier_status st;

    r->options = options;
    b->seconds = b->cpu_seconds = 0.0;
    st = bench_mesh_time(b, remesh_once, NULL, r);
    if (st == ESPALIER_OK) st = esi_mesh_metrics_compute(b->ctx, &metrics, &r->out, 0.03);
    if (st != ESPALIER_OK) return st;
    b->name = form;
    report_run(b, "seconds", b->seconds);
    report_run(b, "cpu_seconds", b->cpu_seconds);
    report_run(b, "peak_mib", (double)b->peak_bytes / 1048576.0);
    report_run(b, "faces", (double)r->out.n_faces);
    report_run(b, "odd_edges", (double)metrics.odd_edges);
    report_run(b, "nonmanifold_edges", (double)metrics.nonmanifold_edges);
    report_run(b, "components", (double)metrics.face_components);
    report_run(b, "dropped_faces", (double)r->stats.dropped_faces);
    report_run(b, "kept_apart", (double)r->stats.kept_apart);
    report_run(b, "flips", (double)r->stats.flipped_before);
    report_run(b, "flips_left", (double)r->stats.flipped_after);
    report_run(b, "mean_distance", mean_distance(&r->out, r->bvh));
    b->name = name;
    return ESPALIER_OK;
}

espalier_status bench_mesh_remesh(bench_mesh *b)
{
    remesh_run r = {0};
    espalier_status st = ESPALIER_OK;

    if (strcmp(b->path, "bumpy") == 0) st = make_bumpy(b->ctx, &b->mesh, b->resolution);
    else if (!ply_fixture_read(b->ctx, &b->mesh, b->path)) st = esi_fail(b->ctx, ESPALIER_ERR_INPUT, "%s: cannot be read", b->path);
    if (st == ESPALIER_OK) st = bench_mesh_time(b, build_tree, NULL, &r);
    if (st == ESPALIER_OK) {
        bench_mesh_report(b, "input_faces", (double)b->mesh.n_faces);
        bench_mesh_report(b, "tree_seconds", b->seconds);
        bench_mesh_report(b, "tree_cpu_seconds", b->cpu_seconds);
        st = one_form(b, &r, "reference", esi_remesh_options_reference(b->resolution));
    }
    if (st == ESPALIER_OK) st = one_form(b, &r, "clean", esi_remesh_options_clean(b->resolution));
    esi_mesh_free(b->ctx, &r.out);
    esi_bvh_free(b->ctx, r.bvh);
    return st;
}
