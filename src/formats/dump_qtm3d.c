/* SPDX-License-Identifier: MIT
 *
 * dump_qtm3d.c: QtMeshEditor's exchange format, little-endian:
 *
 *   "QTMESH3D"; u32 version 1; u32 J; J bytes JSON; zeros to a multiple of 16; arrays, each 16-aligned, offsets counted from the first one
 *   JSON: {"generator", "formatVersion": 1, "meta": {...}, "arrays": {name: {"dtype", "shape", "offset", "byteLength"}}}
 *   arrays: positions f32 [N,3], indices u32 [M,3]; voxel_coords u16|u32 [L,3] with voxel_attrs u8 [L,6]; vertex_colors u8 [N,4]
 *
 * Without "colorSpace": "srgb" in meta that program takes the attributes for linear light and encodes them a second time, so ours are
 * stamped.
 */
#include "formats/dump_internal.h"

#include "formats/bytes.h"
#include "formats/json.h"

#include <math.h>

#define HEADER 16
#define GENERATOR "qtmesh-trellis2"              /* names the format, not the program: readers may look for it */

static uint64_t pad16(uint64_t n)
{
    return (n + 15) & ~UINT64_C(15);
}

/* ------------------------------------------------------------------ writing */

static void store_coord16(const esi_asset *a, int64_t row, uint8_t *out)
{
    for (int i = 0; i < 3; i++) {
        const uint32_t c = (uint32_t)a->coords[4 * row + 1 + i];

        out[2 * i] = (uint8_t)c;
        out[2 * i + 1] = (uint8_t)(c >> 8);
    }
}

static void store_attrs(const esi_asset *a, int64_t row, uint8_t *out)
{
    for (int i = 0; i < 6; i++) out[i] = (uint8_t)((double)esi_dump_clamp01(a->attrs[6 * row + i]) * 255.0 + 0.5);
}

typedef struct out_array {
    const char *name, *dtype;
    int64_t rows, columns;
    size_t row_bytes;
    esi_row_fn store;
} out_array;

static int list_arrays(out_array *list, const esi_asset *a)
{
    int n = 0;

    list[n++] = (out_array){"positions", "f32", a->n_vertices, 3, 12, esi_dump_store_vertex};
    list[n++] = (out_array){"indices", "u32", a->n_faces, 3, 12, esi_dump_store_face};
    if (!a->coords || !a->attrs) return n;
    if (a->resolution <= 65536) list[n++] = (out_array){"voxel_coords", "u16", a->n_voxels, 3, 6, store_coord16};
    else list[n++] = (out_array){"voxel_coords", "u32", a->n_voxels, 3, 12, esi_dump_store_coord};
    list[n++] = (out_array){"voxel_attrs", "u8", a->n_voxels, 6, 6, store_attrs};
    return n;
}

static espalier_status build_json(espalier_context *ctx, esi_text *t, const esi_asset *a, const out_array *list, int n)
{
    uint64_t offset = 0;

    esi_text_append(ctx, t, "{\"generator\":\"" GENERATOR "\",\"formatVersion\":1,\"meta\":{");
    if (a->resolution > 0) {
        esi_text_append(ctx, t, "\"resolution\":%lld,\"voxelSize\":", (long long)a->resolution);
        esi_text_append_json_number(ctx, t, 1.0 / (double)a->resolution);
        esi_text_append(ctx, t, ",\"origin\":[-0.5,-0.5,-0.5],");
    }
    if (a->pipeline_type) {
        esi_text_append(ctx, t, "\"pipelineType\":");
        esi_text_append_json_string(ctx, t, a->pipeline_type);
        esi_text_append(ctx, t, ",");
    }
    esi_text_append(ctx, t, "\"seed\":%lld,\"mock\":false,\"colorSpace\":\"srgb\",\"writer\":", (long long)a->seed);
    esi_text_append_json_string(ctx, t, esi_asset_generator(a));
    esi_text_append(ctx, t, "},\"arrays\":{");
    for (int i = 0; i < n; i++) {
        const uint64_t bytes = (uint64_t)list[i].rows * list[i].row_bytes;

        esi_text_append(ctx, t, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld,%lld],\"offset\":%llu,\"byteLength\":%llu}", i ? "," : "",
                        list[i].name, list[i].dtype, (long long)list[i].rows, (long long)list[i].columns, (unsigned long long)offset,
                        (unsigned long long)bytes);
        offset = pad16(offset + bytes);
    }
    esi_text_append(ctx, t, "}}");
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

static espalier_status pad_file(esi_writer *w)
{
    const uint64_t position = esi_writer_position(w);

    return esi_writer_zeros(w, (size_t)(pad16(position) - position));
}

espalier_status esi_qtm3d_write(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    out_array list[4];
    const int n = list_arrays(list, asset);
    esi_text json = {0};
    esi_writer *w = NULL;
    uint8_t header[HEADER] = ESI_QTM3D_MAGIC;
    espalier_status st = esi_dump_check_single(ctx, asset, path);

    if (st != ESPALIER_OK) return st;
    st = build_json(ctx, &json, asset, list, n);
    if (st != ESPALIER_OK) goto done;
    esi_store_u32le(header + 8, 1);
    esi_store_u32le(header + 12, (uint32_t)json.len);
    st = esi_writer_open(ctx, &w, path);
    if (st != ESPALIER_OK) goto done;
    st = esi_writer_write(w, header, sizeof header);
    if (st == ESPALIER_OK) st = esi_writer_write(w, json.data, json.len);
    for (int i = 0; i < n; i++) {
        if (st == ESPALIER_OK) st = pad_file(w);
        if (st == ESPALIER_OK) st = esi_dump_write_rows(w, asset, list[i].rows, list[i].row_bytes, list[i].store);
    }
    if (st == ESPALIER_OK) {
        st = esi_writer_commit(w);
        w = NULL;
    }
done:
    esi_writer_abort(w);
    esi_text_free(ctx, &json);
    return st;
}

/* ------------------------------------------------------------------ reading */

typedef struct in_array {
    const uint8_t *data;                         /* NULL = absent */
    int64_t rows;
    size_t item;                                 /* bytes of one number */
} in_array;

typedef struct qtm3d_reader {
    espalier_context *ctx;
    const char *name;
    const uint8_t *blobs;
    uint64_t blob_bytes;
    const esi_json *root;
} qtm3d_reader;

/* An array of `columns` columns and one of two types (other may be NULL), checked against the file. */
static espalier_status find_array(const qtm3d_reader *r, in_array *out, const char *array, int64_t columns, const char *type,
                                  const char *other)
{
    static const struct { const char *name; size_t bytes; } types[] = {{"f32", 4}, {"u32", 4}, {"u16", 2}, {"u8", 1}};
    const esi_json *entry = esi_json_get(esi_json_get(r->root, "arrays"), array), *shape = esi_json_get(entry, "shape");
    const char *dtype = NULL;
    int64_t width = 0, offset = 0, bytes = 0;

    *out = (in_array){0};
    if (!entry) return ESPALIER_OK;
    if (!esi_json_string(esi_json_get(entry, "dtype"), &dtype) || (strcmp(dtype, type) != 0 && (!other || strcmp(dtype, other) != 0))) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: array '%s' has type '%.20s', wanted is %s", r->name, array, dtype ? dtype : "",
                        type);
    }
    for (size_t i = 0; i < ESI_COUNT(types); i++) {
        if (strcmp(types[i].name, dtype) == 0) out->item = types[i].bytes;
    }
    if (esi_json_size(shape) != 2 || !esi_json_int(esi_json_at(shape, 0), &out->rows) || !esi_json_int(esi_json_at(shape, 1), &width) ||
        out->rows < 0 || out->rows > INT32_MAX || width != columns) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: array '%s' does not have the shape [N, %lld]", r->name, array, (long long)columns);
    }
    if (!esi_json_int(esi_json_get(entry, "offset"), &offset) || !esi_json_int(esi_json_get(entry, "byteLength"), &bytes) || offset < 0 ||
        bytes != out->rows * columns * (int64_t)out->item || (uint64_t)offset > r->blob_bytes ||
        (uint64_t)bytes > r->blob_bytes - (uint64_t)offset) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: array '%s' lies outside the file or has a wrong length", r->name, array);
    }
    out->data = r->blobs + offset;
    return ESPALIER_OK;
}

static espalier_status read_mesh(const qtm3d_reader *r, esi_dump *out)
{
    in_array positions, indices;
    float *vertices;
    int32_t *faces;
    espalier_status st = find_array(r, &positions, "positions", 3, "f32", NULL);

    if (st == ESPALIER_OK) st = find_array(r, &indices, "indices", 3, "u32", NULL);
    if (st != ESPALIER_OK) return st;
    if (!positions.data || !indices.data) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: array '%s' is missing", r->name, positions.data ? "indices" : "positions");
    }
    vertices = esi_dump_alloc(r->ctx, out, positions.rows, 12);
    faces = vertices ? esi_dump_alloc(r->ctx, out, indices.rows, 12) : NULL;
    if (!faces) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * positions.rows; i++) vertices[i] = esi_load_f32le(positions.data + 4 * i);
    /* An index beyond 2^31 becomes negative, which the check refuses. */
    for (int64_t i = 0; i < 3 * indices.rows; i++) faces[i] = (int32_t)esi_load_u32le(indices.data + 4 * i);
    out->asset.vertices = vertices;
    out->asset.faces = faces;
    out->asset.n_vertices = positions.rows;
    out->asset.n_faces = indices.rows;
    return ESPALIER_OK;
}

static espalier_status read_voxels(const qtm3d_reader *r, esi_dump *out)
{
    in_array cells, attrs;
    int32_t *coords;
    float *values;
    espalier_status st = find_array(r, &cells, "voxel_coords", 3, "u16", "u32");

    if (st == ESPALIER_OK) st = find_array(r, &attrs, "voxel_attrs", 6, "u8", NULL);
    if (st != ESPALIER_OK || (!cells.data && !attrs.data)) return st;
    if (!cells.data || !attrs.data || cells.rows != attrs.rows) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: voxel_coords and voxel_attrs do not belong together", r->name);
    }
    coords = esi_dump_alloc(r->ctx, out, cells.rows, 4 * sizeof(int32_t));
    values = coords ? esi_dump_alloc(r->ctx, out, cells.rows, 6 * sizeof(float)) : NULL;
    if (!values) return ESPALIER_ERR_RESOURCE;
    for (int64_t n = 0; n < cells.rows; n++) {
        coords[4 * n] = 0;
        for (int64_t i = 3 * n; i < 3 * n + 3; i++) {
            const uint32_t c = cells.item == 2 ? esi_load_u16le(cells.data + 2 * i) : esi_load_u32le(cells.data + 4 * i);

            coords[n + i + 1] = (int32_t)c;      /* 4n + 1 + (i - 3n) */
        }
    }
    for (int64_t i = 0; i < 6 * attrs.rows; i++) values[i] = (float)attrs.data[i] / 255.0f;
    out->asset.coords = coords;
    out->asset.attrs = values;
    out->asset.n_voxels = cells.rows;
    return ESPALIER_OK;
}

/* Voxels must lie where our own do: cube [-0.5, 0.5]^3. */
static espalier_status check_space(const qtm3d_reader *r, const esi_json *meta, int64_t resolution)
{
    const esi_json *origin = esi_json_get(meta, "origin");
    double v;
    bool fits = true;

    if (esi_json_double(esi_json_get(meta, "voxelSize"), &v)) fits = fabs(v * (double)resolution - 1.0) < 1e-4;
    for (size_t i = 0; i < esi_json_size(origin); i++) {
        if (!esi_json_double(esi_json_at(origin, i), &v) || !(fabs(v + 0.5) < 1e-4)) fits = false;
    }
    if (fits) return ESPALIER_OK;
    return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: origin and voxelSize do not describe a grid of %lld cells over [-0.5, 0.5]", r->name,
                    (long long)resolution);
}

static espalier_status keep_text(const qtm3d_reader *r, esi_dump *out, const char **to, const esi_json *value)
{
    const char *text = NULL;

    if (!esi_json_string(value, &text)) return ESPALIER_OK;
    *to = esi_arena_strdup(r->ctx, &out->strings, text, strlen(text));
    return *to ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status read_meta(const qtm3d_reader *r, esi_dump *out)
{
    const esi_json *meta = esi_json_get(r->root, "meta"), *writer = esi_json_get(meta, "writer");
    esi_asset *a = &out->asset;
    espalier_status st;

    esi_json_int(esi_json_get(meta, "resolution"), &a->resolution);
    esi_json_int(esi_json_get(meta, "seed"), &a->seed);
    st = keep_text(r, out, &a->pipeline_type, esi_json_get(meta, "pipelineType"));
    if (st == ESPALIER_OK) st = keep_text(r, out, &a->generator, writer ? writer : esi_json_get(r->root, "generator"));
    if (st == ESPALIER_OK && a->n_voxels > 0) st = check_space(r, meta, a->resolution);
    return st;
}

espalier_status esi_qtm3d_parse(espalier_context *ctx, esi_dump *out, const uint8_t *bytes, uint64_t size, const char *name)
{
    qtm3d_reader r = {.ctx = ctx, .name = name};
    esi_json *root = NULL;
    uint64_t json, start;
    espalier_status st;

    if (size < HEADER) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: the header is cut off", name);
    if (esi_load_u32le(bytes + 8) != 1) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: version %lu of the format is not known here", name,
                        (unsigned long)esi_load_u32le(bytes + 8));
    }
    json = esi_load_u32le(bytes + 12);
    if (json > size - HEADER)
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: the JSON of %llu bytes is cut off", name, (unsigned long long)json);
    st = esi_json_parse(ctx, &root, bytes + HEADER, (size_t)json, name, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    start = ESI_MIN(pad16(HEADER + json), size);
    r.blobs = bytes + start;
    r.blob_bytes = size - start;
    r.root = root;
    st = read_mesh(&r, out);
    if (st == ESPALIER_OK) st = read_voxels(&r, out);
    if (st == ESPALIER_OK) st = read_meta(&r, out);
    esi_json_free(root);
    return st;
}
