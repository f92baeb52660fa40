/* SPDX-License-Identifier: MIT
 *
 * gltf_accessor.c: typed arrays of glTF 2.0 (specification, 3.6): all component types, strides, normalisation, sparse ones. Every element
 * is checked to lie inside its view before the first is read.
 */
#include "formats/gltf_read.h"

#include "formats/bytes.h"

typedef struct accessor {
    const uint8_t *data;           /* NULL: zeros */
    uint64_t stride;
    int64_t count;
    int component, components, size;             /* GL's number of the type; numbers per element; bytes of one */
    bool normalized;
    const esi_json *sparse;
} accessor;

static int component_size(int64_t component)
{
    switch (component) {
    case 5120: case 5121: return 1;
    case 5122: case 5123: return 2;
    case 5125: case 5126: return 4;
    default: return 0;
    }
}

static int components_of(const char *type)
{
    static const struct { const char *type; int n; } types[] = {{"SCALAR", 1}, {"VEC2", 2}, {"VEC3", 3}, {"VEC4", 4}};

    for (size_t i = 0; i < ESI_COUNT(types); i++) {
        if (strcmp(types[i].type, type) == 0) return types[i].n;
    }
    return 0;
}

/* `count` elements of `size` bytes from `offset` on, `stride` apart, in a view; NULL when they are not all there. */
static const uint8_t *elements(const esi_gltf_reader *r, int64_t view, int64_t offset, int64_t count, uint64_t size, uint64_t *stride)
{
    const uint8_t *data;
    uint64_t bytes;

    if (!esi_gltf_view(r, view, &data, &bytes, stride)) return NULL;
    if (*stride == 0) *stride = size;
    if (offset < 0 || count < 1 || *stride < size || (uint64_t)offset > bytes || size > bytes - (uint64_t)offset ||
        (uint64_t)(count - 1) > (bytes - (uint64_t)offset - size) / *stride)
        return NULL;
    return data + offset;
}

static bool open_sparse(const esi_gltf_reader *r, const accessor *a, const uint8_t **indices, int *index_type, const uint8_t **values,
                        int64_t *count)
{
    const esi_json *i = esi_json_get(a->sparse, "indices"), *v = esi_json_get(a->sparse, "values");
    uint64_t stride;

    *count = esi_gltf_int(a->sparse, "count", 0);
    *index_type = (int)esi_gltf_int(i, "componentType", 0);
    if (*count < 1 || *count > a->count || (*index_type != 5121 && *index_type != 5123 && *index_type != 5125)) return false;
    *indices = elements(r, esi_gltf_int(i, "bufferView", -1), esi_gltf_int(i, "byteOffset", 0), *count,
                        (uint64_t)component_size(*index_type), &stride);
    *values = elements(r, esi_gltf_int(v, "bufferView", -1), esi_gltf_int(v, "byteOffset", 0), *count,
                       (uint64_t)(a->size * a->components), &stride);
    return *indices && *values;
}

/* false: not there, or damaged. */
static bool open_accessor(const esi_gltf_reader *r, int64_t index, accessor *a)
{
    const esi_json *json = esi_gltf_at(r, "accessors", index);
    const char *type;
    int64_t component, view;

    memset(a, 0, sizeof *a);
    if (!json || !esi_json_string(esi_json_get(json, "type"), &type)) return false;
    component = esi_gltf_int(json, "componentType", 0);
    a->component = (int)component;
    a->size = component_size(component);
    a->components = components_of(type);
    a->count = esi_gltf_int(json, "count", 0);
    a->sparse = esi_json_get(json, "sparse");
    (void)esi_json_bool(esi_json_get(json, "normalized"), &a->normalized);
    if (a->size == 0 || a->components == 0 || a->count < 1 || a->count > ESI_MESH_MAX_VERTICES) return false;
    view = esi_gltf_int(json, "bufferView", -1);
    if (view < 0) return a->sparse != NULL && !esi_json_get(json, "bufferView");
    a->data = elements(r, view, esi_gltf_int(json, "byteOffset", 0), a->count, (uint64_t)(a->size * a->components), &a->stride);
    return a->data != NULL;
}

espalier_status esi_gltf_accessor(const esi_gltf_reader *r, int64_t index, const char *type, int64_t *count, int *components)
{
    const uint8_t *indices, *values;
    int index_type;
    int64_t n;
    accessor a;

    if (!open_accessor(r, index, &a)) return esi_gltf_damaged(r, "an accessor is missing or outside its buffer");
    if (type ? a.components != components_of(type) : a.components < 3)
        return esi_gltf_damaged(r, "an accessor of another type than its use");
    if (a.sparse && !open_sparse(r, &a, &indices, &index_type, &values, &n))
        return esi_gltf_damaged(r, "a sparse accessor is outside its buffer");
    /* Nothing stands behind elements that are not in the file: bound them like the file itself. */
    if (!a.data && (uint64_t)a.count > esi_limits(r->ctx)->max_file_bytes / 16)
        return esi_fail(r->ctx, ESPALIER_ERR_RESOURCE, "%s: an accessor of %lld zeros is over the limit", r->file->name,
                        (long long)a.count);
    *count = a.count;
    *components = a.components;
    return ESPALIER_OK;
}

static uint32_t load_unsigned(const uint8_t *at, int component)
{
    return component == 5121 ? at[0] : component == 5123 ? esi_load_u16le(at) : esi_load_u32le(at);
}

static float load_float(const uint8_t *at, int component, bool normalized)
{
    float value;

    switch (component) {
    case 5120:
        value = (float)(int8_t)at[0];
        if (normalized) value = value / 127.0f;
        return normalized && value < -1.0f ? -1.0f : value;
    case 5121: return normalized ? (float)at[0] / 255.0f : (float)at[0];
    case 5122:
        value = (float)(int16_t)esi_load_u16le(at);
        if (normalized) value = value / 32767.0f;
        return normalized && value < -1.0f ? -1.0f : value;
    case 5123: return normalized ? (float)esi_load_u16le(at) / 65535.0f : (float)esi_load_u16le(at);
    case 5125: return (float)esi_load_u32le(at);
    default: return esi_load_f32le(at);
    }
}

static void load_element(const accessor *a, const uint8_t *at, float *to, int columns)
{
    for (int c = 0; c < a->components && c < columns; c++) to[c] = at ? load_float(at + c * a->size, a->component, a->normalized) : 0.0f;
}

espalier_status esi_gltf_floats(const esi_gltf_reader *r, int64_t index, float *to, int columns)
{
    const uint8_t *indices, *values;
    int index_type;
    int64_t n;
    accessor a;

    if (!open_accessor(r, index, &a)) return esi_gltf_damaged(r, "an accessor is missing or outside its buffer");
    for (int64_t i = 0; i < a.count; i++) load_element(&a, a.data ? a.data + (uint64_t)i * a.stride : NULL, to + i * columns, columns);
    if (!a.sparse) return ESPALIER_OK;
    if (!open_sparse(r, &a, &indices, &index_type, &values, &n)) return esi_gltf_damaged(r, "a sparse accessor is outside its buffer");
    for (int64_t i = 0; i < n; i++) {
        const uint32_t place = load_unsigned(indices + i * component_size(index_type), index_type);

        if (place >= a.count) return esi_gltf_damaged(r, "a sparse accessor names an element it has not got");
        load_element(&a, values + i * a.size * a.components, to + (int64_t)place * columns, columns);
    }
    return ESPALIER_OK;
}

espalier_status esi_gltf_indices(const esi_gltf_reader *r, int64_t index, uint32_t *to, uint64_t limit)
{
    accessor a;

    if (!open_accessor(r, index, &a) || a.sparse || (a.component != 5121 && a.component != 5123 && a.component != 5125))
        return esi_gltf_damaged(r, "indices are no unsigned integers");
    for (int64_t i = 0; i < a.count; i++) {
        to[i] = load_unsigned(a.data + (uint64_t)i * a.stride, a.component);
        if (to[i] >= limit)
            return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: damaged glTF: an index %u of %llu vertices", r->file->name, to[i],
                            (unsigned long long)limit);
    }
    return ESPALIER_OK;
}
