/* SPDX-License-Identifier: MIT
 *
 * bake_internal.h: what the files of the bake share.
 */
#ifndef ESI_MESH_BAKE_INTERNAL_H
#define ESI_MESH_BAKE_INTERNAL_H

#include "mesh/bake.h"
#include "mesh/vec.h"

#include <stdatomic.h>

/* Rows of texels that one task bakes. */
#define ESI_BAKE_BAND 16

/* Where the surface passes each voxel: to tell the voxels of one sheet from those of another one beside it (bake_sheet.c). */
typedef struct esi_bake_sheets {
    const esi_volume *volume;
    const esi_mesh *original;
    const esi_bvh *bvh;
    _Atomic uint32_t *place;       /* [volume->count] */
} esi_bake_sheets;

typedef struct esi_bake_job {
    espalier_context *ctx;
    const esi_bake_input *input;
    const esi_bake_options *options;
    const esi_surface *surface;    /* split: positions, normals, uvs, faces (, tangents) */
    int32_t size;
    int32_t *owner;                /* [size][size] face of the texel, -1 = none or without colour */
    uint8_t *base;                 /* [size][size][4] */
    uint8_t *material;             /* [size][size][3] occlusion, roughness, metallic */
    uint8_t *normal_map;           /* [size][size][3] or NULL */
    float *original_normals;       /* [original->n_vertices][3], with the normal map */
    float *occlusion_directions;   /* [ESI_BAKE_PATTERNS][rays][3], z up; with occlusion */
    esi_bake_sheets sheets;
    bool oriented;                 /* does the original's winding tell its outside? */
    double cell;                   /* world units */
    esi_bake_stats *stats;
} esi_bake_job;

/* One texel on its way. */
typedef struct esi_bake_texel {
    int32_t face;                  /* of the surface */
    double bary[3];
    float position[3];
    double normal[3];              /* of the face; zero without area */
    bool has_hit;
    esi_bvh_hit hit;               /* on the original */
    double hit_normal[3];          /* of its face, as wound; zero without area */
    bool opposing;                 /* the hit is on a face that opposes the texel's */
} esi_bake_texel;

/* bake_snap.c: where on the original does a texel take its colour from? `last`: a texel nearby that has a hit, or NULL: speeds up. */
typedef enum esi_bake_snap { ESI_SNAP_NEAREST, ESI_SNAP_OTHER, ESI_SNAP_OPPOSING } esi_bake_snap;
esi_bake_snap esi_bake_find_hit(const esi_bake_job *job, esi_bake_texel *texel, const esi_bake_texel *last);
/* Sets job->oriented from a sample of texels. */
espalier_status esi_bake_judge_winding(esi_bake_job *job);

/* bake_sheet.c */
espalier_status esi_bake_sheets_open(espalier_context *ctx, esi_bake_sheets *out, const esi_bake_input *input);
void esi_bake_sheets_close(espalier_context *ctx, esi_bake_sheets *sheets);
/* esi_volume_trilinear() over the voxels of the sheet that passes g with this normal (either sign; zero: any sheet). */
int esi_bake_sheet_sample(const esi_bake_sheets *sheets, const float g[3], const double normal[3], float out[6]);

/* bake_sample.c: owner, base, material, normal_map of every texel of a chart. */
void esi_bake_texel_place(const esi_bake_job *job, esi_bake_texel *texel, int32_t face, int32_t x, int32_t y);
espalier_status esi_bake_sample(esi_bake_job *job);

/* bake_normal.c */
#define ESI_BAKE_PATTERNS 64
espalier_status esi_bake_original_normals(esi_bake_job *job);
espalier_status esi_bake_occlusion_open(esi_bake_job *job);
void esi_bake_normal_texel(const esi_bake_job *job, const esi_bake_texel *texel, uint8_t out[3]);
uint8_t esi_bake_occlusion_texel(const esi_bake_job *job, const esi_bake_texel *texel, int32_t x, int32_t y);

/* bake_filter.c: isolated outliers of metallic and roughness. */
espalier_status esi_bake_despeckle(esi_bake_job *job);

/* bake_alpha.c: shares into the statistics; BLEND or OPAQUE. */
espalier_status esi_bake_alpha_mode(esi_bake_job *job, esi_alpha_mode *mode);

/* bake_gutter.c: texels without owner. */
espalier_status esi_bake_fill_gutter(esi_bake_job *job);

/* 0..1 to a byte. */
static inline uint8_t esi_bake_byte(float value, bool truncate)
{
    if (!(value > 0.0f)) return 0;
    if (truncate) {
        const float scaled = value * 255.0f;

        return scaled < 255.0f ? (uint8_t)scaled : 255;
    }
    return value < 1.0f ? (uint8_t)((double)value * 255.0 + 0.5) : 255;
}

static inline void esi_bake_face_normal(double out[3], const esi_mesh *mesh, int64_t face)
{
    double p[3][3];

    for (int k = 0; k < 3; k++) esi_vec_load(p[k], mesh->vertices, mesh->faces[3 * face + k]);
    esi_vec_face_cross(out, p[0], p[1], p[2]);
    if (!esi_vec_normalize(out)) out[0] = out[1] = out[2] = 0.0;
}

/* Position in cells of the volume. */
static inline void esi_bake_to_grid(float g[3], const float p[3], int32_t resolution)
{
    for (int k = 0; k < 3; k++) g[k] = (float)(((double)p[k] + 0.5) * (double)resolution);
}

#endif
