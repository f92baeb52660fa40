/* SPDX-License-Identifier: MIT
 *
 * voxelize.h: triangle meshes into O-Voxels: the flexible dual grid (o_voxel convert/flexible_dual_grid) and PBR attributes
 * (convert/volumetic_attr).
 */
#ifndef ESI_VOXEL_VOXELIZE_H
#define ESI_VOXEL_VOXELIZE_H

#include "base/surface.h"
#include "voxel/voxel.h"

typedef struct esi_voxelize_options {
    int32_t resolution[3];         /* cells per axis, 1..2048 */
    float aabb_min[3], aabb_max[3];
    double face_weight, boundary_weight, regularization;         /* 1, 0.2, 1e-2 in TRELLIS.2 */
    bool reference;                /* the reference's arithmetic and flags: fp32 rows, any crossing flags an edge */
} esi_voxelize_options;
esi_voxelize_options esi_voxelize_options_default(int32_t resolution);

typedef struct esi_voxelize_stats {
    int64_t crossings, double_crossings;         /* crossed cell edges; those crossed an even number of times (thin sheets) */
    int64_t clamped;                             /* dual vertices that had to be held inside their cell */
    int64_t clipped_faces;                       /* input faces that leave the grid */
} esi_voxelize_stats;

/* Rows in order of first touch (reference) or ascending (x, y, z). vertices: dual vertex minus aabb_min, world units. */
typedef struct esi_voxelized {
    int32_t *coords;               /* [count][4], batch 0 */
    float *vertices;               /* [count][3] */
    float *local;                  /* [count][3] in cells, 0..1 */
    uint8_t *intersected;          /* [count][3] */
    int64_t count;
    esi_voxelize_stats stats;
} esi_voxelized;
/* mesh in world units; parts outside the box are cut off. ERR_INPUT: nothing inside. */
espalier_status esi_voxelize(espalier_context *ctx, esi_voxelized *out, const esi_mesh *mesh, const esi_voxelize_options *options);
void esi_voxelized_free(espalier_context *ctx, esi_voxelized *voxels);

/* PBR attributes of the voxels that a surface's triangles touch. Rows ascending (x, y, z). */
typedef struct esi_pbr_voxels {
    int32_t *coords;               /* [count][4] */
    float *base_color;             /* [count][3] */
    float *metallic, *roughness;   /* [count] */
    float *emissive;               /* [count][3] */
    float *alpha;                  /* [count] */
    float *normal;                 /* [count][3] */
    int64_t count;
} esi_pbr_voxels;
typedef struct esi_pbr_options {
    int32_t resolution[3];
    float aabb_min[3], aabb_max[3];
    double mip_level_offset;
    bool mipmaps;
    bool reference;                /* the reference's weights; ours weights by distance inside the cell and never by a negative number */
} esi_pbr_options;
/* Per corner, as importers give it: positions come from the surface; normals NULL = face normals; uvs NULL = zero. v grows downwards in our
 * surfaces (row 0 is v = 0); the reference's own convention (v upwards) is the golden runner's affair. */
espalier_status esi_voxelize_materials(espalier_context *ctx, esi_pbr_voxels *out, const esi_surface *surface,
                                       const esi_pbr_options *options);
void esi_pbr_voxels_free(espalier_context *ctx, esi_pbr_voxels *voxels);
/* The attributes of `pbr` on the rows of `coords` (the dual grid's): exact row where present, else nearest within 2 cells, else white. out
 * [count][6]: base colour, metallic, roughness, alpha. */
espalier_status esi_pbr_on_rows(espalier_context *ctx, float *out, const esi_pbr_voxels *pbr, const int32_t *coords, int64_t count,
                                int32_t resolution);

#endif
