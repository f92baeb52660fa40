/* SPDX-License-Identifier: MIT
 *
 * gltf_write.h: one glTF 2.0 document out of arrays that are made while the file is written: raw assets (glb.c) and surfaces
 * (gltf_surface.c). Core glTF only, but for pictures in WebP beside their PNG.
 */
#ifndef ESI_GLTF_WRITE_H
#define ESI_GLTF_WRITE_H

#include "formats/surface_export.h"

enum { ESI_GLTF_U16 = 5123, ESI_GLTF_U32 = 5125, ESI_GLTF_F32 = 5126 };

/* One accessor with its view. */
typedef struct esi_gltf_array esi_gltf_array;
/* Elements [first, first + count) as little-endian bytes. Called for disjoint ranges by several threads. */
typedef void (*esi_gltf_fill)(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out);
struct esi_gltf_array {
    const char *attribute;         /* NULL: the indices of a primitive */
    int component;
    const char *type;              /* "SCALAR", "VEC3", ... */
    bool normalized, bounds;       /* bounds: min and max count */
    uint32_t size;                 /* bytes of an element */
    int64_t count;
    float min[3], max[3];
    esi_gltf_fill fill;
    void (*begin)(void *source);   /* before the first fill; may be NULL */
    int64_t offset;                /* for fill's use: where the primitive's faces begin */
    int32_t material;              /* of the primitive, index into `materials` */
};

typedef struct esi_gltf_picture {
    uint8_t *bytes;
    size_t size;
    int32_t fallback;              /* picture of the same in core glTF, for WebP; or -1 */
} esi_gltf_picture;

typedef struct esi_gltf {
    espalier_context *ctx;
    const char *path, *generator;
    const char *extras;            /* JSON object of asset.extras, or NULL */
    const esi_gltf_array *arrays;  /* indices of all primitives first */
    size_t n_arrays, n_primitives;
    void *source;
    const esi_material *materials;
    int32_t n_materials;
    const esi_gltf_picture *pictures;
    size_t n_pictures;
    const int32_t *picture_of;     /* [number of textures] of the materials: picture, WebP where there is one; -1 */
} esi_gltf;

/* A binary file (.glb), or text with a .bin and pictures beside it (.gltf) through `files`. ERR_RESOURCE beyond the 4 GiB of a GLB. */
espalier_status esi_gltf_write(const esi_gltf *g, esi_file_set *files, bool binary);

#endif
