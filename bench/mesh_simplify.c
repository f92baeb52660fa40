/* SPDX-License-Identifier: MIT
 *
 * mesh_simplify.c: espalier-bench simplify: our collapses, the reference's passes and, where its library was found when this was built,
 * meshoptimizer's meshopt_simplify on the same mesh: faces, seconds, distances to the original both ways, boundary edges.
 */
#include "bench_mesh.h"

#include "mesh/clean.h"
#include "mesh/compare.h"
#include "mesh/metrics.h"
#include "mesh/simplify.h"

#if defined(ESPALIER_BENCH_MESHOPTIMIZER)
#include <meshoptimizer.h>
#endif

#include <stdio.h>

#define SAMPLES 100000

typedef enum scheme { OURS, REFERENCE, MESHOPTIMIZER } scheme;

typedef struct simplify_run {
    scheme scheme;
    esi_mesh mesh;
    esi_simplify_stats stats;
} simplify_run;

static espalier_status copy(bench_mesh *b, esi_mesh *out)
{
    return esi_mesh_copy(b->ctx, out, b->mesh.vertices, b->mesh.n_vertices, b->mesh.faces, b->mesh.n_faces);
}

static espalier_status run_meshoptimizer(bench_mesh *b, simplify_run *r)
{
#if defined(ESPALIER_BENCH_MESHOPTIMIZER)
    const size_t corners = (size_t)r->mesh.n_faces * 3;
    unsigned int *in = esi_alloc(b->ctx, corners, sizeof *in, "corners"), *out = esi_alloc(b->ctx, corners, sizeof *out, "corners");

    if (in && out) {
        for (size_t i = 0; i < corners; i++) in[i] = (unsigned int)r->mesh.faces[i];
        const size_t left = meshopt_simplify(out, in, corners, r->mesh.vertices, (size_t)r->mesh.n_vertices, 3 * sizeof(float),
                                             (size_t)b->faces * 3, 1e9f, 0, NULL);
        for (size_t i = 0; i < left; i++) r->mesh.faces[i] = (int32_t)out[i];
        r->mesh.n_faces = (int64_t)left / 3;
    }
    const bool ok = in && out;
    esi_free(b->ctx, in);
    esi_free(b->ctx, out);
    return ok ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
#else
    (void)r;
    return esi_fail(b->ctx, ESPALIER_ERR_INTERNAL, "built without meshoptimizer");
#endif
}

static espalier_status simplify(bench_mesh *b, void *arg)
{
    simplify_run *r = arg;
    const esi_simplify_options options = esi_simplify_options_default(b->faces);

    switch (r->scheme) {
    case OURS: return esi_mesh_simplify(b->ctx, &r->mesh, &options, &r->stats);
    case REFERENCE: return esi_mesh_simplify_reference(b->ctx, &r->mesh, b->faces, &r->stats);
    default: return run_meshoptimizer(b, r);
    }
}

static void again(bench_mesh *b, void *arg)
{
    simplify_run *r = arg;

    esi_mesh_free(b->ctx, &r->mesh);
    (void)copy(b, &r->mesh);                               /* an empty mesh if it fails, and an error that is found pending */
}

static void report(bench_mesh *b, const char *who, const char *what, double value)
{
    char name[40];

    snprintf(name, sizeof name, "%s_%s", who, what);
    bench_mesh_report(b, name, value);
}

static espalier_status run_scheme(bench_mesh *b, scheme which, const char *who)
{
    simplify_run r = {.scheme = which};
    esi_mesh_metrics metrics;
    esi_mesh_distance distance;

    espalier_status st = copy(b, &r.mesh);
    if (st == ESPALIER_OK) st = bench_mesh_time(b, simplify, again, &r);
    if (st == ESPALIER_OK) st = esi_mesh_compact(b->ctx, &r.mesh, NULL);
    if (st == ESPALIER_OK) st = esi_mesh_metrics_compute(b->ctx, &metrics, &r.mesh, 0.0);
    if (st == ESPALIER_OK) st = esi_mesh_compare(b->ctx, &distance, &b->mesh, &r.mesh, SAMPLES);
    if (st == ESPALIER_OK) {
        report(b, who, "faces", (double)r.mesh.n_faces);
        report(b, who, "seconds", b->seconds);
        report(b, who, "cpu_seconds", b->cpu_seconds);
        report(b, who, "peak_MiB", (double)b->peak_bytes / 1048576.0);
        report(b, who, "max_12", distance.max_ab);
        report(b, who, "max_21", distance.max_ba);
        report(b, who, "mean_12", distance.mean_ab);
        report(b, who, "mean_21", distance.mean_ba);
        report(b, who, "boundary_edges", (double)metrics.boundary_edges);
        report(b, who, "nonmanifold_edges", (double)metrics.nonmanifold_edges);
        if (which == REFERENCE) report(b, who, "passes", (double)r.stats.passes);
    }
    esi_mesh_free(b->ctx, &r.mesh);
    return st;
}

espalier_status bench_mesh_simplify(bench_mesh *b)
{
    espalier_status st = ESPALIER_OK;

    bench_mesh_report(b, "faces", (double)b->mesh.n_faces);
#if defined(ESPALIER_BENCH_MESHOPTIMIZER)
    if (st == ESPALIER_OK) st = run_scheme(b, MESHOPTIMIZER, "meshoptimizer");
#else
    snprintf(b->remark, sizeof b->remark, "built without meshoptimizer (libmeshoptimizer-dev)");
#endif
    if (st == ESPALIER_OK) st = run_scheme(b, REFERENCE, "reference");
    if (st == ESPALIER_OK) st = run_scheme(b, OURS, "ours");      /* last: its times are the report's own */
    return st;
}
