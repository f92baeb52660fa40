/* SPDX-License-Identifier: MIT
 *
 * finish.c: soundness of the raw mesh, and the asset's way out: views, GLB, dumps.
 */
#include "formats/glb.h"
#include "pipeline/params.h"
#include "pipeline/report.h"
#include "pipeline/results.h"

#include <stdio.h>

/* Below this share of faces in the largest component a mesh is debris: a decoder with wrongly ordered weights leaves 0.07 %, a sound one
 * leaves 99 %. */
#define MIN_LARGEST_COMPONENT 0.05

espalier_status espalier_finish(espalier_context *ctx, espalier_asset *asset, const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_mesh_stats stats = {0};
    char text[160];

    if (!ctx || !asset || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    esi_stage_timer timer = esi_stage_begin(ctx, params->report, ESI_STAGE_FINISH);
    st = esi_progress(ctx, "finish", 0, 1);
    if (st == ESPALIER_OK) st = esi_mesh_stats_compute(ctx, &stats, asset->faces, asset->data.n_faces, asset->data.n_vertices);
    if (st == ESPALIER_OK) {
        if (params->report) {
            params->report->has_mesh = true;
            params->report->mesh = stats;
        }
        double share = stats.faces ? (double)stats.largest_component_faces / (double)stats.faces : 0;
        snprintf(text, sizeof text, "the largest of %llu components has %.2f %% of the %llu faces, less than %.0f %%",
                 (unsigned long long)stats.components, 100 * share, (unsigned long long)stats.faces, 100 * MIN_LARGEST_COMPONENT);
        st = esi_gate(ctx, params->report, ESI_STAGE_FINISH, "largest_component", share, MIN_LARGEST_COMPONENT,
                      share >= MIN_LARGEST_COMPONENT, stats.faces ? esi_gate_forced_by(params) : ESI_GATE_ENDS,
                      stats.faces ? text : "the mesh has no faces");
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
