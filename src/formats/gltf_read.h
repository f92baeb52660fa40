/* SPDX-License-Identifier: MIT
 *
 * gltf_read.h: inside of the glTF reader.
 */
#ifndef ESI_GLTF_READ_H
#define ESI_GLTF_READ_H

#include "formats/json.h"
#include "formats/mesh_files.h"

/* Bytes of a buffer or a data URI. */
typedef struct esi_gltf_bytes {
    const uint8_t *data;
    uint64_t size;
    uint8_t *owned;                /* esi_alloc block, or NULL */
    esi_file_map *map;             /* or NULL */
} esi_gltf_bytes;

typedef struct esi_gltf_reader {
    espalier_context *ctx;
    esi_surface *out;
    const esi_mesh_file *file;
    esi_json *root;
    const uint8_t *binary;         /* chunk of a .glb, or NULL */
    uint64_t binary_size;
    esi_gltf_bytes *buffers;       /* as many as root.buffers */
    size_t n_buffers;
    /* of materials */
    int32_t *texture_of_image;     /* [images] index into out->textures, -1 = not to be had, -2 = not looked at */
    int32_t default_material;      /* number of the material of primitives without one; -1 = not made yet */
} esi_gltf_reader;

/* Where a material's texture coordinates come from: set and transformation, rows of a 2x3 matrix. */
typedef struct esi_gltf_uv {
    int set;
    double matrix[6];
} esi_gltf_uv;

espalier_status esi_gltf_damaged(const esi_gltf_reader *r, const char *what);
/* Element `index` of an array of the root, or NULL. */
const esi_json *esi_gltf_at(const esi_gltf_reader *r, const char *array, int64_t index);
/* An integer member, or `fallback` when it is absent or no integer. */
int64_t esi_gltf_int(const esi_json *object, const char *key, int64_t fallback);

/* Bytes of a buffer view; false: outside its buffer. */
bool esi_gltf_view(const esi_gltf_reader *r, int64_t view, const uint8_t **data, uint64_t *size, uint64_t *stride);
/* The bytes a URI means: "data:" or, beside the file. *out has no data when they may not be read or are not there. */
espalier_status esi_gltf_uri(const esi_gltf_reader *r, esi_gltf_bytes *out, const char *uri);
void esi_gltf_bytes_free(espalier_context *ctx, esi_gltf_bytes *bytes);

/* gltf_accessor.c. Number of elements of an accessor of that type ("VEC3"; NULL: "VEC3" or "VEC4"), checked against its bytes;
 * *components = numbers per element. */
espalier_status esi_gltf_accessor(const esi_gltf_reader *r, int64_t accessor, const char *type, int64_t *count, int *components);
/* Elements as floats, normalized ones divided; `columns` to a row of `to`: missing ones are left alone. Only after esi_gltf_accessor(). */
espalier_status esi_gltf_floats(const esi_gltf_reader *r, int64_t accessor, float *to, int columns);
/* A scalar accessor of unsigned integers, each below `limit`. */
espalier_status esi_gltf_indices(const esi_gltf_reader *r, int64_t accessor, uint32_t *to, uint64_t limit);

/* gltf_materials.c: all materials of the file into out->materials. */
espalier_status esi_gltf_materials(esi_gltf_reader *r);
/* Number of the material that a primitive without one has; appended on first use. */
espalier_status esi_gltf_default_material(esi_gltf_reader *r, int32_t *index);
esi_gltf_uv esi_gltf_uv_of(const esi_gltf_reader *r, int64_t material);

#endif
