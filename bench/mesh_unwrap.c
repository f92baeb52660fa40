/* SPDX-License-Identifier: MIT
 *
 * mesh_unwrap.c: espalier-bench unwrap: time and quality of our texture coordinates, beside what xatlas f700c77 did on the same mesh
 * (default options, g++ -O2, one thread; its seconds were taken on a busy machine and may be off by half).
 */
#include "bench_mesh.h"

#include "mesh/clean.h"
#include "mesh/unwrap.h"

#include <stdio.h>

typedef struct xatlas_record {
    const char *mesh;
    int charts;
    double seconds, uv_area, l2, linf, cov;
} xatlas_record;

static const xatlas_record records[] = {
    {"bunny", 53, 56.4, 0.596, 1.0149, 2.957, 0.084},
    {"armadillo", 190, 18.7, 0.566, 1.0790, 10.19, 0.185},
    {"elephant_with_holes", 123, 0.53, 0.564, 1.0083, 1.819, 0.059},
    {"mech_holes_shark", 91, 1.63, 0.550, 1.0042, 10.26, 0.029},
};

typedef struct unwrap_run {
    esi_unwrap_options options;
    esi_unwrapped result;
} unwrap_run;

static espalier_status unwrap(bench_mesh *b, void *arg)
{
    unwrap_run *r = arg;
    return esi_mesh_unwrap(b->ctx, &r->result, &b->mesh, &r->options);
}

static void forget(bench_mesh *b, void *arg)
{
    unwrap_run *r = arg;
    esi_unwrapped_free(b->ctx, &r->result);
}

static espalier_status report_quality(bench_mesh *b, const unwrap_run *r)
{
    const esi_unwrapped *u = &r->result;
    esi_uv_metrics metrics;
    esi_mesh split = {.faces = u->faces, .n_vertices = u->n_vertices, .n_faces = b->mesh.n_faces};
    espalier_status st;

    split.vertices = esi_alloc(b->ctx, (size_t)u->n_vertices, 3 * sizeof(float), "split vertices");
    if (!split.vertices) return ESPALIER_ERR_RESOURCE;
    for (int64_t v = 0; v < u->n_vertices; v++) memcpy(split.vertices + 3 * v, b->mesh.vertices + 3 * (int64_t)u->source[v], 12);
    st = esi_uv_metrics_compute(b->ctx, &metrics, &split, u->uvs, b->size);
    esi_free(b->ctx, split.vertices);
    if (st != ESPALIER_OK) return st;
    bench_mesh_report(b, "uv_area", metrics.area);
    bench_mesh_report(b, "covered", metrics.covered);
    bench_mesh_report(b, "l2_stretch", metrics.l2_stretch);
    bench_mesh_report(b, "linf_stretch", metrics.linf_stretch);
    bench_mesh_report(b, "density_cov", metrics.density_cov);
    bench_mesh_report(b, "density_p5_of_mean", metrics.density_p5 / metrics.density_mean);
    bench_mesh_report(b, "density_p95_of_mean", metrics.density_p95 / metrics.density_mean);
    bench_mesh_report(b, "flipped_faces", (double)metrics.flipped_faces);
    bench_mesh_report(b, "zero_uv_faces", (double)metrics.zero_uv_faces);
    bench_mesh_report(b, "overlapping_texels", (double)metrics.overlapping_texels);
    bench_mesh_report(b, "out_of_range", (double)metrics.out_of_range);
    bench_mesh_report(b, "uv_components", metrics.charts);
    return st;
}

static void remark_xatlas(bench_mesh *b)
{
    for (size_t i = 0; i < ESI_COUNT(records); i++) {
        const xatlas_record *x = &records[i];
        if (!strstr(b->path, x->mesh)) continue;
        /* CPU seconds of one thread: wall time on a busy machine says little */
        bench_mesh_report(b, "times_faster_than_xatlas", x->seconds / (b->threads == 1 ? b->cpu_seconds : b->seconds));
        snprintf(b->remark, sizeof b->remark,
                 "xatlas (recorded, +-50 %% time): %d charts, %.2f s, uv area %.3f, L2 %.4f, Linf %.2f, CoV %.3f", x->charts, x->seconds,
                 x->uv_area, x->l2, x->linf, x->cov);
    }
}

espalier_status bench_mesh_unwrap(bench_mesh *b)
{
    unwrap_run r = {.options = esi_unwrap_options_default(b->size)};
    espalier_status st = esi_mesh_weld(b->ctx, &b->mesh, NULL, NULL); /* seams of the file are none of ours */

    if (st == ESPALIER_OK) st = bench_mesh_time(b, unwrap, forget, &r);
    if (st == ESPALIER_OK) {
        bench_mesh_report(b, "faces", (double)b->mesh.n_faces);
        bench_mesh_report(b, "vertices", (double)b->mesh.n_vertices);
        bench_mesh_report(b, "split_vertices", (double)r.result.n_vertices);
        bench_mesh_report(b, "charts", r.result.n_charts);
        bench_mesh_report(b, "charts_plane", r.result.charts_by_method[ESI_CHART_PLANE]);
        bench_mesh_report(b, "charts_conformal", r.result.charts_by_method[ESI_CHART_CONFORMAL]);
        bench_mesh_report(b, "charts_fallback", r.result.charts_by_method[ESI_CHART_FALLBACK]);
        bench_mesh_report(b, "texels_per_unit", r.result.pack.texels_per_unit);
        st = report_quality(b, &r);
    }
    if (st == ESPALIER_OK) remark_xatlas(b);
    esi_unwrapped_free(b->ctx, &r.result);
    return st;
}
