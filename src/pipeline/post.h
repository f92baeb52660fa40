/* SPDX-License-Identifier: MIT
 *
 * post.h: finishing an asset: the order of the mesh operations (TRELLIS.2 o_voxel postprocess.to_glb, and ours), and what each of them
 * leaves for the report.
 */
#ifndef ESI_POST_H
#define ESI_POST_H

#include <espalier/mesh.h>

#include "mesh/bake.h"
#include "mesh/clean.h"
#include "mesh/metrics.h"
#include "mesh/remesh.h"
#include "mesh/simplify.h"
#include "mesh/unwrap.h"
#include "voxel/repair.h"

/* The mesh after each of these, measured with vertices at equal positions as one. */
typedef enum esi_post_step {
    ESI_POST_RAW,                        /* as the decoder or the file gives it */
    ESI_POST_REPAIRED,                   /* knife-edge decisions mended */
    ESI_POST_CLEANED,                    /* sanitised, holes filled: the "original" that later steps refer to */
    ESI_POST_REMESHED,
    ESI_POST_SIMPLIFIED,
    ESI_POST_UNWRAPPED,                  /* charts and coordinates; geometry as before */
    ESI_POST_BAKED,
    ESI_POST_STEPS
} esi_post_step;
const char *esi_post_step_name(esi_post_step step);

typedef struct esi_post_step_record {
    bool ran, has_metrics;
    double seconds, cpu_seconds;
    uint64_t peak_bytes;
    esi_mesh_metrics metrics;
} esi_post_step_record;

typedef struct esi_post_record {
    espalier_post_options options;       /* with every default filled in */
    int32_t resolution;
    esi_post_step_record step[ESI_POST_STEPS];
    bool has_logits, repaired, remeshed, simplified, unwrapped, baked;
    int64_t restored_voxels;
    esi_repair_stats repair;
    esi_sanitize_stats sanitize;
    int64_t floater_components, floater_faces, small_components, small_faces;
    esi_fill_stats fill;
    int64_t flipped_faces, flipped_components, winding_left;
    esi_remesh_stats remesh;
    esi_simplify_stats simplify;
    int64_t degenerate_changed, degenerate_left;
    int32_t charts, charts_by_method[3];
    esi_pack_stats pack;
    esi_uv_metrics uv;
    esi_bake_stats bake;
} esi_post_record;

/* Fills in defaults for a resolution and checks ranges: ERR_ARG naming the option. */
espalier_status esi_post_options_resolve(espalier_context *ctx, espalier_post_options *o, int64_t resolution, bool has_attributes);

struct espalier_mesh {
    espalier_context *owner;
    esi_surface surface;
    char **extras;                       /* key, JSON text, ..., NULL: facts for the files that can hold them; may be NULL */
};
espalier_status esi_mesh_object_new(espalier_context *ctx, espalier_mesh **out);
/* Adds a fact; `json` is JSON text. */
espalier_status esi_mesh_object_note(espalier_mesh *mesh, const char *key, const char *json);

#endif
