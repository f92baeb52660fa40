/* SPDX-License-Identifier: MIT
 *
 * surface.h: plain structs that cross layers: a triangle mesh, and a surface = mesh with texture coordinates, materials and pictures.
 *
 * Everything is in TRELLIS axes: right-handed, z up, the object in the cube [-0.5, 0.5]^3 (imports may be larger). Colours are
 * sRGB-encoded bytes. All arrays are esi_alloc blocks of the context they were made with.
 */
#ifndef ESI_SURFACE_H
#define ESI_SURFACE_H

#include "base/base.h"

/* Corners (3 * faces) are numbered by int32. */
#define ESI_MESH_MAX_FACES INT64_C(715827882)
#define ESI_MESH_MAX_VERTICES INT64_C(2147483646)

/* Zero-initialise. Unless a function says otherwise, faces name vertices in range and coordinates are finite (esi_mesh_sanitize()
 * makes it so for anything from outside). */
typedef struct esi_mesh {
    float *vertices;               /* [n_vertices][3] */
    int32_t *faces;                /* [n_faces][3], counter-clockwise seen from outside */
    int64_t n_vertices, n_faces;
} esi_mesh;

/* Uninitialised arrays of that size; ERR_RESOURCE beyond the limits above. */
espalier_status esi_mesh_new(espalier_context *ctx, esi_mesh *out, int64_t n_vertices, int64_t n_faces);
espalier_status esi_mesh_copy(espalier_context *ctx, esi_mesh *out, const float *vertices, int64_t n_vertices, const int32_t *faces,
                              int64_t n_faces);
void esi_mesh_free(espalier_context *ctx, esi_mesh *mesh);          /* and zero it; zeroed is fine */

/* 8-bit picture, rows top to bottom; row 0 is v = 0 (glTF). */
typedef struct esi_texture {
    uint8_t *pixels;               /* [height][width][channels] */
    uint32_t width, height, channels;
} esi_texture;

typedef enum esi_alpha_mode { ESI_ALPHA_OPAQUE = 0, ESI_ALPHA_MASK = 1, ESI_ALPHA_BLEND = 2 } esi_alpha_mode;
typedef enum esi_wrap { ESI_WRAP_REPEAT = 0, ESI_WRAP_CLAMP = 1, ESI_WRAP_MIRROR = 2 } esi_wrap;

/* glTF 2.0 metallic-roughness. A texture is an index into esi_surface.textures or -1; its values are multiplied by the factor. */
typedef struct esi_material {
    char name[64];
    float base_color[4];           /* linear RGB and alpha */
    float metallic, roughness;
    float emissive[3];
    esi_alpha_mode alpha_mode;
    float alpha_cutoff;
    bool double_sided;
    bool nearest;                  /* sample textures without interpolation */
    esi_wrap wrap;
    int32_t base_color_texture;    /* RGB(A), sRGB-encoded */
    int32_t metallic_roughness_texture; /* RGB: R occlusion (255 where there is none), G roughness, B metallic */
    int32_t normal_texture;        /* RGB, tangent space, +y up (OpenGL) */
    int32_t emissive_texture;
    bool occlusion;                /* R of the metallic-roughness texture holds ambient occlusion */
} esi_material;
/* White, metallic 1, roughness 1, opaque, no textures: the defaults of glTF. */
esi_material esi_material_default(void);

/* Zero-initialise; NULL = absent. Owns everything. */
typedef struct esi_surface {
    esi_mesh mesh;
    float *normals;                /* [n_vertices][3], unit length */
    float *tangents;               /* [n_vertices][4], xyz and the sign of the bitangent */
    float *uvs;                    /* [n_vertices][2] */
    uint8_t *colors;               /* [n_vertices][4] sRGB-encoded RGB and alpha */
    int32_t *face_material;        /* [n_faces]; NULL = all 0 */
    esi_material *materials;
    int32_t n_materials;           /* 0 = one default material */
    esi_texture *textures;
    int32_t n_textures;
} esi_surface;
void esi_surface_free(espalier_context *ctx, esi_surface *surface);
/* Are lengths, indices and numbers what the fields promise? Like esi_asset_check(). */
espalier_status esi_surface_check(espalier_context *ctx, const esi_surface *surface, const char *name, espalier_status status);

#endif
