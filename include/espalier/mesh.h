/* SPDX-License-Identifier: MIT
 *
 * espalier/mesh.h: from a raw asset to a finished mesh, and between meshes and voxels.
 *
 *     asset  --espalier_post-->  mesh  --espalier_mesh_save-->  .glb .gltf .obj .ply .stl .3mf .usdz
 *     mesh file  --espalier_mesh_load-->  mesh  --espalier_voxelize-->  asset  --espalier_asset_dump-->  .vxz .npz ...
 *
 * Assets come from espalier_generate() or from files (espalier_asset_load()) and are never changed: the same asset can be finished again
 * and again with other options, in any order.
 */
#ifndef ESPALIER_MESH_H
#define ESPALIER_MESH_H

#include <espalier/pipeline.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct espalier_mesh espalier_mesh;      /* triangles with texture coordinates, materials and pictures, as far as there are any */

/* --------------------------------------------------------------- finishing */

typedef enum espalier_post_mode {
    ESPALIER_POST_CLEAN = 0,         /* ours: repaired, one skin, closed, simplified, unwrapped, baked */
    ESPALIER_POST_REFERENCE = 1,     /* the steps of TRELLIS.2's to_glb, with our unwrapping */
    ESPALIER_POST_NONE = 2           /* the raw mesh, turned outward, with a colour per vertex */
} espalier_post_mode;

typedef enum espalier_alpha {
    ESPALIER_ALPHA_AUTO = 0,         /* opaque, unless a coherent part of the surface is translucent */
    ESPALIER_ALPHA_OPAQUE = 1,
    ESPALIER_ALPHA_MASK = 2,
    ESPALIER_ALPHA_BLEND = 3
} espalier_alpha;

/* -1 (0 for flags) means: what the mode and the asset's resolution suggest. */
typedef struct espalier_post_options {
    uint32_t struct_size;
    espalier_post_mode mode;
    int64_t faces;                   /* at most so many, 100..100000000; default 300000 from 1024 on, 150000 from 256 on, fewer below */
    int32_t texture_size;            /* texels per side, 16..16384; default 2048, 1024 up to 512, 512 up to 128; 0 = no textures */
    double margin;                   /* logits nearer to 0 than this may be turned over to close the surface, 0..0.01; clean 0.002 */
    double fill_perimeter;           /* holes with a shorter rim are closed, in voxels, 0..100000; clean 16; reference 0.03 units */
    int32_t no_remesh;               /* 1: keep the raw mesh's own triangles */
    int32_t remesh_resolution;       /* cells, even, 16..2048; default the asset's resolution */
    double band;                     /* offset of the remeshing, in voxels, 0.5..8; default 1 */
    double project;                  /* 0..1: how far back to the raw surface; clean 1, reference 0 */
    int32_t keep_inner;              /* 1: keep the walls of cavities */
    int32_t solid;                   /* 1: one closed outward skin, everything inside filled (for printing) */
    double min_component;            /* parts of less area go, world units^2, 0..100; default 1e-5 */
    double remove_floaters;          /* parts with less than this share of the largest part's faces go, 0..1; clean 0.005, reference 0 */
    int32_t box_uv;                  /* 1: texture coordinates by six projections: fast, more seams */
    double padding;                  /* texels between charts, 0..64; default 2 */
    int32_t telea;                   /* 1: fill between charts by Telea inpainting, as the reference does */
    int32_t despeckle;               /* 0..256: metallic and roughness specks of up to so many texels go; clean 16 */
    int32_t normal_map;              /* 1: bake what simplification took away */
    int32_t occlusion_rays;          /* 0..1024: bake ambient occlusion with so many rays per texel */
    espalier_alpha alpha;
    espalier_report *report;         /* may be NULL: each stage's soundness and time go into it */
    int32_t force;                   /* go on although a soundness gate fails */
} espalier_post_options;
ESPALIER_API espalier_post_options espalier_post_options_default(void);

/* Finish an asset. Without attributes, or with texture_size 0, the mesh has neither textures nor coordinates. ERR_ARG: an option out of
 * range; ERR_INPUT: voxels that occur twice; ERR_SOUNDNESS: no faces, NaN, or an edge that should be closed is not. */
ESPALIER_API espalier_status espalier_post(espalier_context *ctx, espalier_mesh **out, const espalier_asset *asset,
                                           const espalier_post_options *options);

/* --------------------------------------------------------------- meshes */

/* Read-only view; pointers live as long as the mesh; NULL = absent. Axes: z up. */
typedef struct espalier_mesh_view {
    uint32_t struct_size;
    const float   *vertices;         /* [vertex_count][3] */
    const int32_t *faces;            /* [face_count][3], counter-clockwise seen from outside */
    const float   *normals;          /* [vertex_count][3] */
    const float   *tangents;         /* [vertex_count][4] */
    const float   *uvs;              /* [vertex_count][2], v grows downwards in the textures */
    const uint8_t *colors;           /* [vertex_count][4] sRGB and alpha */
    int64_t vertex_count, face_count;
    int32_t material_count, texture_count;
} espalier_mesh_view;
ESPALIER_API espalier_mesh_view espalier_mesh_get(const espalier_mesh *mesh);
/* Texture `index` as a picture of its own (a copy; release with espalier_image_free()). ERR_ARG if there is none. */
ESPALIER_API espalier_status espalier_mesh_texture(espalier_context *ctx, espalier_image *out, const espalier_mesh *mesh, int32_t index);
ESPALIER_API void espalier_mesh_free(espalier_mesh *mesh);

/* GLB, glTF, OBJ, PLY, STL, 3MF and others. ERR_INPUT: missing, damaged, unknown or without triangles. */
ESPALIER_API espalier_status espalier_mesh_load(espalier_context *ctx, espalier_mesh **out, const char *path);

typedef enum espalier_texture_format {
    ESPALIER_TEXTURE_PNG = 0,
    ESPALIER_TEXTURE_JPEG = 1,
    ESPALIER_TEXTURE_WEBP = 2
} espalier_texture_format;
typedef struct espalier_save_options {
    uint32_t struct_size;
    espalier_texture_format texture_format;      /* of .glb and .gltf; WebP keeps a PNG beside it for programs without the extension */
    int32_t jpeg_quality;                        /* 1..100; default 92 */
    double size_mm;                              /* longest side in .3mf and .stl; 0 = 100 mm in .3mf, as it is in .stl */
} espalier_save_options;
ESPALIER_API espalier_save_options espalier_save_options_default(void);
/* By suffix: .glb .gltf .obj .ply .stl .3mf .usdz. options may be NULL. Atomic, also where a format has several files. ERR_ARG: another
 * suffix, an option out of range; ERR_OUTPUT; ERR_RESOURCE: too large for the format. */
ESPALIER_API espalier_status espalier_mesh_save(espalier_context *ctx, const espalier_mesh *mesh, const char *path,
                                                const espalier_save_options *options);
/* 1 if espalier_mesh_save() knows the suffix of `path`. */
ESPALIER_API int espalier_mesh_can_save(const char *path);

/* Soundness of a mesh, measured with vertices at equal positions as one, as a JSON object; release with espalier_text_free().
 * self_intersections 1: count them too (slower). */
ESPALIER_API espalier_status espalier_mesh_inspect(espalier_context *ctx, const espalier_mesh *mesh, int self_intersections, char **json);
/* Distances between two meshes both ways (mean, root mean square, largest), in world units; `samples` points per side, 1000..100000000. */
ESPALIER_API espalier_status espalier_mesh_compare(espalier_context *ctx, const espalier_mesh *a, const espalier_mesh *b, int64_t samples,
                                                   char **json);
/* Four shaded views (three quarters, back, side, top) of view_size pixels each, 16..4096, in one picture. backfaces 1: faces seen from
 * behind are painted magenta. */
ESPALIER_API espalier_status espalier_mesh_render(espalier_context *ctx, espalier_image *out, const espalier_mesh *mesh, uint32_t view_size,
                                                  int backfaces);

/* --------------------------------------------------------------- voxels */

typedef struct espalier_voxelize_options {
    uint32_t struct_size;
    int32_t resolution;              /* cells per axis of the cube, 64..2048; default 512 */
    int32_t fit;                     /* 1: scale and centre the mesh to fill the cube; 0: parts outside [-0.5, 0.5]^3 are cut off */
    int32_t reference;               /* 1: the reference's flags, which leave holes where a surface folds within a cell */
    int32_t no_materials;            /* 1: geometry only */
} espalier_voxelize_options;
ESPALIER_API espalier_voxelize_options espalier_voxelize_options_default(void);
/* A mesh as O-Voxels: dual grid and, from its materials, PBR attributes. The facts (crossings, thin sheets lost) go to the log. ERR_INPUT:
 * nothing inside the cube. */
ESPALIER_API espalier_status espalier_voxelize(espalier_context *ctx, espalier_asset **out, const espalier_mesh *mesh,
                                               const espalier_voxelize_options *options);

/* A dump: .espd, .qtm3d, trellis.cpp's layout, .vxz, .npz; the content decides. O-Voxel files (.vxz, .npz) do not say how many cells their
 * grid has: `resolution` does, 0 = the smallest of 64, 128, 256, 512, 1024, 1536, 2048 that holds their voxels (and what a dump says).
 * ERR_INPUT: damaged, unknown, a dump of another resolution. */
ESPALIER_API espalier_status espalier_asset_load(espalier_context *ctx, espalier_asset **out, const char *path, int64_t resolution);

#ifdef __cplusplus
}
#endif
#endif
