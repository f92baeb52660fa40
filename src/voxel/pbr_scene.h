/* SPDX-License-Identifier: MIT
 *
 * pbr_scene.h: what PBR voxels are made from: triangles with texture coordinates and normals, and materials whose every attribute has a
 * picture of its own (o-voxel/src/convert/volumetic_attr.cpp).
 */
#ifndef ESI_VOXEL_PBR_SCENE_H
#define ESI_VOXEL_PBR_SCENE_H

#include "voxel/dual_build.h"

/* Channels first .. first + channels - 1 of a picture; pixels NULL = none. */
typedef struct esi_pbr_image {
    const uint8_t *pixels;
    uint32_t width, height, stride;          /* bytes per pixel */
    uint32_t first, channels;                /* 1 or 3 */
} esi_pbr_image;

typedef struct esi_pbr_source {
    esi_pbr_image base_color, metallic, roughness, alpha, emissive, normal;
    float base_color_factor[3], metallic_factor, roughness_factor, emissive_factor[3], alpha_factor, alpha_cutoff;
    esi_alpha_mode alpha_mode;
    bool nearest;
    esi_wrap wrap;
} esi_pbr_source;

typedef struct esi_pbr_scene {
    const float *positions;                  /* [n_points][3] */
    const int32_t *faces;
    int64_t n_points, n_faces;
    const float *normals;                    /* [n_points][3] or NULL */
    const float *uvs;                        /* [n_points][2] or NULL; v = 0 is the first row */
    const uint8_t *colors;                   /* [n_points][4] sRGB and alpha, multiplied in; NULL = white. Not in the reference */
    const int32_t *face_material;            /* NULL = all 0 */
    const esi_pbr_source *materials;
    int32_t n_materials;
} esi_pbr_scene;
espalier_status esi_voxelize_scene(espalier_context *ctx, esi_pbr_voxels *out, const esi_pbr_scene *scene, const esi_pbr_options *options);

/* ----------------------------------------------------------------- pictures */

#define ESI_PBR_LEVELS 32
/* A picture with its smaller versions, values 0..255. */
typedef struct esi_mip_chain {
    esi_pbr_image base;
    double log2_size;                        /* log2 of texels per picture: geometric mean of the sides, or the height (reference) */
    int levels;                              /* smaller versions */
    uint32_t width[ESI_PBR_LEVELS], height[ESI_PBR_LEVELS];
    float *level[ESI_PBR_LEVELS];            /* [height][width][channels]; level[0] is half the size */
} esi_mip_chain;
/* truncated: sums of 2 x 2 bytes divided without rounding, for square powers of two only (reference). Otherwise area means of any size. */
espalier_status esi_mip_chain_make(espalier_context *ctx, esi_mip_chain *out, const esi_pbr_image *image, bool mipmaps, bool truncated);
void esi_mip_chain_free(espalier_context *ctx, esi_mip_chain *chain);
/* 0..1. u, v in pictures; level as log2 of texels per sample, fractional. */
void esi_mip_sample(double *out, const esi_mip_chain *chain, double u, double v, double level, bool nearest, esi_wrap wrap);

/* ---------------------------------------------------------------- materials */

typedef struct esi_pbr_material {
    const esi_pbr_source *source;
    esi_mip_chain base_color, metallic, roughness, alpha, emissive, normal;
} esi_pbr_material;
espalier_status esi_pbr_materials_make(espalier_context *ctx, esi_pbr_material **out, const esi_pbr_scene *scene,
                                       const esi_pbr_options *options);
void esi_pbr_materials_free(espalier_context *ctx, esi_pbr_material *materials, int32_t n);

enum { ESI_PBR_BASE_COLOR = 0, ESI_PBR_METALLIC = 3, ESI_PBR_ROUGHNESS = 4, ESI_PBR_EMISSIVE = 5, ESI_PBR_ALPHA = 8, ESI_PBR_NORMAL = 9,
       ESI_PBR_VALUES = 12 };
/* All attributes at barycentric coordinates of a face. cell_size: the largest, in the units of the positions. */
void esi_pbr_evaluate(double out[ESI_PBR_VALUES], const esi_pbr_scene *scene, const esi_pbr_material *materials,
                      const esi_pbr_options *options, int32_t face, const double bary[3], double cell_size);

/* Rows of the result, uninitialised. */
espalier_status esi_pbr_voxels_new(espalier_context *ctx, esi_pbr_voxels *out, int64_t count);
void esi_pbr_voxels_set(esi_pbr_voxels *out, int64_t row, const double values[ESI_PBR_VALUES]);
espalier_status esi_voxelize_scene_as_reference(espalier_context *ctx, esi_pbr_voxels *out, const esi_pbr_scene *scene,
                                                const esi_pbr_material *materials, const esi_pbr_options *options);

#endif
