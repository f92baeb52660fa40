/* SPDX-License-Identifier: MIT
 *
 * finish.c: soundness of the raw mesh, and the asset's way out: views, GLB, dumps.
 */
#include "formats/glb.h"
#include "mesh/metrics.h"
#include "pipeline/params.h"
#include "pipeline/report.h"
#include "pipeline/results.h"

#include <stdio.h>

/* Below this share of faces in the largest component a mesh is debris: a decoder with wrongly ordered weights leaves 0.07 %, a sound one
 * leaves 99 %. */
#define MIN_LARGEST_COMPONENT 0.05

/* Perimeter of the holes that TRELLIS.2 fills, world units. */
#define LOOP_LIMIT 0.03

espalier_status espalier_finish(espalier_context *ctx, espalier_asset *asset, const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_mesh_metrics m = {0};
    char text[160];

    if (!ctx || !asset || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    esi_stage_timer timer = esi_stage_begin(ctx, params->report, ESI_STAGE_FINISH);
    st = esi_progress(ctx, "finish", 0, 1);
    if (st == ESPALIER_OK) {
        esi_mesh raw = {.n_vertices = asset->data.n_vertices, .n_faces = asset->data.n_faces};

        memcpy(&raw.vertices, &asset->data.vertices, sizeof raw.vertices);       /* const there, only read here */
        memcpy(&raw.faces, &asset->data.faces, sizeof raw.faces);
        st = esi_mesh_metrics_compute(ctx, &m, &raw, LOOP_LIMIT);
    }
    if (st == ESPALIER_OK) {
        if (params->report) {
            params->report->has_mesh = true;
            params->report->mesh = m;
        }
        double share = m.faces ? (double)m.largest_edge_component_faces / (double)m.faces : 0;
        snprintf(text, sizeof text, "the largest of %lld components has %.2f %% of the %lld faces, less than %.0f %%",
                 (long long)m.edge_components, 100 * share, (long long)m.faces, 100 * MIN_LARGEST_COMPONENT);
        st = esi_gate(ctx, params->report, ESI_STAGE_FINISH, "largest_component", share, MIN_LARGEST_COMPONENT,
                      share >= MIN_LARGEST_COMPONENT, m.faces ? esi_gate_forced_by(params) : ESI_GATE_ENDS,
                      m.faces ? text : "the mesh has no faces");
    }
    if (st == ESPALIER_OK) st = esi_progress(ctx, "finish", 1, 1);
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}

espalier_asset_view espalier_asset_get(const espalier_asset *asset)
{
    const esi_asset nothing = {0}, *d = asset ? &asset->data : &nothing;
    return (espalier_asset_view){
        .struct_size = sizeof(espalier_asset_view),
        .vertices = d->vertices,
        .faces = d->faces,
        .voxels = d->coords,
        .attributes = d->attrs,
        .vertex_count = d->n_vertices,
        .face_count = d->n_faces,
        .voxel_count = d->n_voxels,
        .resolution = d->resolution,
        .seed = d->seed,
    };
}

espalier_status espalier_asset_save_glb(espalier_context *ctx, const espalier_asset *asset, const char *path)
{
    esi_fp_state fp;
    if (!ctx || !asset || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    return esi_leave(ctx, &fp, esi_glb_write(ctx, &asset->data, path));
}
