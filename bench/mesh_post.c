/* SPDX-License-Identifier: MIT
 *
 * mesh_post.c: the whole way from a raw dump to a finished mesh: espalier-bench post --mesh DUMP. espalier-make-dump bumpy 512 makes the
 * object that the peers were measured on. One run: the stages print their own times.
 */
#include "bench_mesh.h"

#include "pipeline/post.h"
#include "pipeline/report.h"

#include <stdio.h>

typedef struct post_bench {
    const espalier_asset *asset;
    espalier_post_options options;
    espalier_mesh *mesh;
} post_bench;

static espalier_status finish(bench_mesh *b, void *arg)
{
    post_bench *p = arg;
    return espalier_post(b->ctx, &p->mesh, p->asset, &p->options);
}

static void forget(bench_mesh *b, void *arg)
{
    post_bench *p = arg;
    (void)b;
    espalier_mesh_free(p->mesh);
    p->mesh = NULL;
}

/* Measuring every step costs time of its own: the total is timed without, the steps with it. */
static espalier_status steps(bench_mesh *b, post_bench *p)
{
    char name[40];
    espalier_report *report = NULL;
    espalier_status st = espalier_report_create(b->ctx, &report);

    if (st != ESPALIER_OK) return st;
    p->options.report = report;
    st = espalier_post(b->ctx, &p->mesh, p->asset, &p->options);
    for (int i = 0; st == ESPALIER_OK && i < ESI_POST_STEPS; i++) {
        const esi_post_step_record *r = &report->post.step[i];

        if (!r->ran) continue;
        snprintf(name, sizeof name, "%s_cpu_seconds", esi_post_step_name((esi_post_step)i));
        bench_mesh_report(b, name, r->cpu_seconds);
        if (!r->has_metrics) continue;
        snprintf(name, sizeof name, "%s_faces", esi_post_step_name((esi_post_step)i));
        bench_mesh_report(b, name, (double)r->metrics.faces);
        snprintf(name, sizeof name, "%s_odd_edges", esi_post_step_name((esi_post_step)i));
        bench_mesh_report(b, name, (double)r->metrics.odd_edges);
    }
    if (st == ESPALIER_OK) {
        bench_mesh_report(b, "charts", report->post.charts);
        bench_mesh_report(b, "uv_area", report->post.uv.area);
        bench_mesh_report(b, "l2_stretch", report->post.uv.l2_stretch);
    }
    forget(b, p);
    espalier_report_free(report);
    return st;
}

espalier_status bench_mesh_post(bench_mesh *b)
{
    espalier_asset *asset = NULL;
    post_bench p = {.options = espalier_post_options_default()};
    espalier_status st = espalier_asset_load(b->ctx, &asset, b->path, 0);

    p.asset = asset;
    p.options.faces = b->faces ? b->faces : 150000;
    p.options.texture_size = (int32_t)b->size;
    if (st == ESPALIER_OK) st = bench_mesh_time(b, finish, forget, &p);
    if (st == ESPALIER_OK) {
        bench_mesh_report(b, "faces", (double)espalier_mesh_get(p.mesh).face_count);
        forget(b, &p);
        st = steps(b, &p);
    }
    forget(b, &p);
    espalier_asset_free(asset);
    return st;
}
