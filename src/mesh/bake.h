/* SPDX-License-Identifier: MIT
 *
 * bake.h: pictures for a simplified, unwrapped mesh from the PBR voxels around the original surface (TRELLIS.2 o_voxel postprocess.to_glb,
 * and what we do better: docs/geometry.md).
 */
#ifndef ESI_MESH_BAKE_H
#define ESI_MESH_BAKE_H

#include "mesh/bvh.h"
#include "mesh/unwrap.h"
#include "voxel/volume.h"

#define ESI_BAKE_MAX_SPECK 256

typedef enum esi_gutter { ESI_GUTTER_TELEA, ESI_GUTTER_NEAREST } esi_gutter;

typedef struct esi_bake_options {
    uint32_t texture_size;         /* exact, 16..16384 */
    bool snap;                     /* colour from the nearest point of the original surface instead of the texel's own place */
    bool facing;                   /* ours: only from faces that do not oppose the texel's normal, and voxels of that sheet only */
    double nearest_cells;          /* ours: where no voxel is near, the closest within so many cells; 0 = black as the reference */
    esi_gutter gutter;             /* outside the charts: the nearest texel of a chart, or inpainting */
    int32_t despeckle;             /* ours: 0 = off, else isolated metallic and roughness outliers up to this many texels go; up to
                                      ESI_BAKE_MAX_SPECK */
    bool truncate;                 /* bytes rounded down as in the reference, not to nearest */
    bool normal_map;               /* original against simplified surface, MikkTSpace tangents */
    int32_t occlusion_rays;        /* 0 = none */
    esi_alpha_mode alpha_mode;     /* what to write into the material, unless alpha_auto */
    bool alpha_auto;               /* OPAQUE unless a coherent share of the surface is translucent (bake_alpha.c) */
    bool keep_alpha;               /* the texture's alpha stays what was sampled even where the material is OPAQUE */
} esi_bake_options;
esi_bake_options esi_bake_options_reference(uint32_t texture_size);
esi_bake_options esi_bake_options_clean(uint32_t texture_size);

typedef struct esi_bake_input {
    const esi_mesh *mesh;          /* simplified, not split */
    const float *normals;          /* [mesh->n_vertices][3] */
    const esi_unwrapped *unwrapped;
    const esi_mesh *original;      /* where colours come from; NULL (and no tree) if options ask for nothing from it */
    const esi_bvh *original_bvh;
    const esi_volume *volume;      /* 6 channels: base colour, metallic, roughness, alpha, all 0..1 */
} esi_bake_input;

typedef struct esi_bake_stats {
    int64_t texels_covered, texels_without_voxel, texels_nearest_voxel;
    int64_t texels_refused_facing;               /* the nearest point lay on an opposing face: another one was taken */
    int64_t texels_kept_opposing;                /* the same, but there was no other within reach */
    bool original_oriented;                      /* the original's winding agrees with the mesh and was used to tell */
    int64_t despeckled;
    double mean_snap_distance, max_snap_distance;                /* world units */
    double translucent_share, largest_translucent_share;         /* of the surface: alpha < 0.9; in the largest connected patch */
    esi_alpha_mode alpha_mode;
} esi_bake_stats;

/* The finished surface: split vertices, normals, uvs, (tangents,) one material, textures 0 base colour RGBA, 1 occlusion-roughness-metallic
 * RGB (, 2 normal RGB). With alpha OPAQUE the base colour's alpha is 255 everywhere unless keep_alpha. ERR_INTERNAL when the arrays of the
 * input do not go together. stats may be NULL. */
espalier_status esi_bake(espalier_context *ctx, esi_surface *out, const esi_bake_input *input, const esi_bake_options *options,
                         esi_bake_stats *stats);

/* MikkTSpace tangents (Mikkelsen 2008) of an indexed surface with normals and uvs: [n_vertices][4], esi_alloc'ed; our own indices are split
 * along UV seams already. w as glTF wants it: w * cross(normal, tangent) points to where v falls, up in the picture. */
espalier_status esi_surface_tangents(espalier_context *ctx, float **tangents, const esi_surface *surface);

#endif
