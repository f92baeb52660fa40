/* SPDX-License-Identifier: MIT
 *
 * vxz.c: reading .vxz, O-Voxel's own container (TRELLIS.2 o-voxel): "VXZ", a zero byte, big-endian offset of the binary part, JSON, binary
 * part. Chunks of voxels are octrees of cells and streams of attribute bytes, each compressed by itself.
 *
 * Nothing in the header is believed before bytes bear it out: the octree of a chunk is expanded under the bound that its claimed number of
 * voxels sets, the streams must then have exactly the length that the octree's leaves ask for.
 */
#include "formats/compress.h"
#include "formats/json.h"
#include "formats/vxz_internal.h"

#include <stdio.h>

typedef struct vxz_file {
    const uint8_t *bytes;
    uint64_t size;
    const char *name;
    esi_json *json;
    const uint8_t *binary;
    uint64_t binary_size;
    int64_t count;
    int32_t chunk_size;
    int depth, level;
    esi_vxz_filter filter;
    esi_compression compression;
    esi_vxz_interleave interleave;
    size_t channels;               /* of all attributes */
    int64_t capacity;              /* rows that the arrays have room for */
} vxz_file;

/* One chunk while it is read. */
typedef struct vxz_chunk {
    const esi_json *json;
    int32_t origin[3];             /* of its cells */
    const uint8_t *bytes;
    uint64_t size;
    size_t n;
    uint32_t *codes;
    uint8_t *rows, *stream;        /* [n][channels]; one stream */
} vxz_chunk;

void esi_vxz_free(espalier_context *ctx, esi_vxz *voxels)
{
    esi_free(ctx, voxels->coords);
    for (int32_t i = 0; i < ESI_VXZ_MAX_ATTRS; i++) esi_free(ctx, voxels->attrs[i].values);
    memset(voxels, 0, sizeof *voxels);
}

const esi_vxz_attr *esi_vxz_find(const esi_vxz *voxels, const char *name)
{
    for (int32_t i = 0; i < voxels->n_attrs; i++) {
        if (strcmp(voxels->attrs[i].name, name) == 0) return &voxels->attrs[i];
    }
    return NULL;
}

static espalier_status damaged(espalier_context *ctx, const vxz_file *f, const char *what)
{
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged VXZ: %s", f->name, what);
}

/* ------------------------------------------------------------------ header */

/* Number of the word in the list, or -1. A missing key is the first word. */
static int choose(const esi_json *root, const char *key, const char *const *words, int n)
{
    const esi_json *v = esi_json_get(root, key);
    const char *text;

    if (!v || esi_json_is_null(v)) return 0;
    if (!esi_json_string(v, &text)) return -1;
    for (int i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0) return i;
    }
    return -1;
}

static espalier_status parse_attr(espalier_context *ctx, const vxz_file *f, const esi_json *v, esi_vxz *out)
{
    esi_vxz_attr *a = &out->attrs[out->n_attrs];
    const char *name;
    int64_t channels;

    if (!esi_json_string(esi_json_at(v, 0), &name) || !esi_json_int(esi_json_at(v, 1), &channels) || esi_json_size(v) != 2)
        return damaged(ctx, f, "an attribute is not [name, channels]");
    if (name[0] == '\0' || strlen(name) >= sizeof a->name || channels < 1 || channels > ESI_VXZ_MAX_CHANNELS)
        return damaged(ctx, f, "an attribute has an impossible name or number of channels");
    if (esi_vxz_find(out, name) || !strcmp(name, "idx") || !strcmp(name, "svo") || !strcmp(name, "ptr"))
        return damaged(ctx, f, "two attributes share a name");
    snprintf(a->name, sizeof a->name, "%s", name);
    a->channels = (int32_t)channels;
    out->n_attrs++;
    return ESPALIER_OK;
}

static espalier_status parse_numbers(espalier_context *ctx, vxz_file *f)
{
    static const char *const filters[] = {"none", "parent", "neighbor"}, *const methods[] = {"none", "deflate", "lzma", "zstd"},
                             *const interleaves[] = {"as_is", "none", "all"};
    const int filter = choose(f->json, "filter", filters, 3), method = choose(f->json, "compression", methods, 4),
              interleave = choose(f->json, "attr_interleave", interleaves, 3);
    int64_t chunk_size = 0, level = 0;

    if (!esi_json_int(esi_json_get(f->json, "num_voxel"), &f->count) || f->count < 0 || f->count > INT32_MAX)
        return damaged(ctx, f, "no number of voxels, or an impossible one");
    if (!esi_json_int(esi_json_get(f->json, "chunk_size"), &chunk_size) || chunk_size < 2 || chunk_size > 1 << ESI_VXZ_MAX_DEPTH ||
        (chunk_size & (chunk_size - 1)) != 0)
        return damaged(ctx, f, "chunk_size must be a power of two from 2 to 1024");
    if (filter < 0 || method < 0 || interleave < 0) return damaged(ctx, f, "an unknown filter, compression or attr_interleave");
    (void)esi_json_int(esi_json_get(f->json, "compression_level"), &level);
    f->chunk_size = (int32_t)chunk_size;
    while (chunk_size >> f->depth > 1) f->depth++;
    f->filter = (esi_vxz_filter)filter;
    f->compression = (esi_compression)method;
    f->interleave = (esi_vxz_interleave)interleave;
    f->level = level > 0 && level <= esi_compression_max_level(f->compression) ? (int)level : 0;
    return ESPALIER_OK;
}

static espalier_status parse_header(espalier_context *ctx, vxz_file *f, esi_vxz *out)
{
    const esi_json *attrs;
    uint64_t at;
    espalier_status st;

    at = (uint64_t)f->bytes[4] << 24 | (uint64_t)f->bytes[5] << 16 | (uint64_t)f->bytes[6] << 8 | f->bytes[7];
    if (at < 8 || at > f->size) return damaged(ctx, f, "its header ends outside the file");
    f->binary = f->bytes + at;
    f->binary_size = f->size - at;
    st = esi_json_parse_at(ctx, &f->json, f->bytes + 8, (size_t)(at - 8), f->name, 8, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    st = parse_numbers(ctx, f);
    attrs = esi_json_get(f->json, "attr");
    if (st == ESPALIER_OK && (!esi_json_is_array(attrs) || esi_json_size(attrs) > ESI_VXZ_MAX_ATTRS))
        st = damaged(ctx, f, "no list of attributes, or too many of them");
    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(attrs); i++) {
        st = parse_attr(ctx, f, esi_json_at(attrs, i), out);
        if (st == ESPALIER_OK) f->channels += (size_t)out->attrs[i].channels;
    }
    return st;
}

/* ------------------------------------------------------------------ chunks */

/* [offset, length] inside `size` bytes. */
static bool parse_range(const esi_json *v, uint64_t size, uint64_t *offset, uint64_t *length)
{
    int64_t o, n;

    if (esi_json_size(v) != 2 || !esi_json_int(esi_json_at(v, 0), &o) || !esi_json_int(esi_json_at(v, 1), &n)) return false;
    if (o < 0 || n < 0 || (uint64_t)o > size || (uint64_t)n > size - (uint64_t)o) return false;
    *offset = (uint64_t)o;
    *length = (uint64_t)n;
    return true;
}

static bool place_chunk(const vxz_file *f, vxz_chunk *c, const esi_json *json)
{
    const esi_json *idx = esi_json_get(json, "idx");
    uint64_t offset;

    c->json = json;
    if (esi_json_size(idx) != 3 || !parse_range(esi_json_get(json, "ptr"), f->binary_size, &offset, &c->size)) return false;
    c->bytes = f->binary + offset;
    for (size_t i = 0; i < 3; i++) {
        int64_t v;

        if (!esi_json_int(esi_json_at(idx, i), &v) || v < 0 || v >= ESI_VXZ_MAX_COORD / f->chunk_size) return false;
        c->origin[i] = (int32_t)v * f->chunk_size;
    }
    return true;
}

/* The octree: bounded by what the cells that are still missing could need at most. */
static espalier_status read_cells(espalier_context *ctx, const vxz_file *f, vxz_chunk *c, int64_t so_far)
{
    const size_t missing = (size_t)(f->count - so_far), full = (((size_t)1 << (3 * f->depth)) - 1) / 7;
    uint64_t offset, length;
    uint8_t *tree = NULL;
    size_t size = 0;
    espalier_status st;

    if (!parse_range(esi_json_get(c->json, "svo"), c->size, &offset, &length)) return damaged(ctx, f, "an octree outside its chunk");
    st = esi_decompress_up_to(ctx, &tree, &size, ESI_MIN(missing * (size_t)f->depth, full), c->bytes + offset, (size_t)length,
                              f->compression, f->level, f->name);
    if (st != ESPALIER_OK) goto done;
    c->n = esi_octree_leaves(tree, size, f->depth);
    if (c->n > missing) {
        st = damaged(ctx, f, "more voxels than its header says");
        goto done;
    }
    c->codes = esi_alloc(ctx, c->n, sizeof *c->codes, "voxel codes");
    if (!c->codes) st = ESPALIER_ERR_RESOURCE;
    if (c->codes && !esi_octree_decode(c->codes, c->n, &c->n, tree, size, f->depth)) st = damaged(ctx, f, "bytes that are no octree");
done:
    esi_free(ctx, tree);
    return st;
}

/* Stream `key` -> columns [first, first + channels) of the rows. */
static espalier_status read_stream(espalier_context *ctx, const vxz_file *f, vxz_chunk *c, const char *key, size_t first, size_t channels)
{
    uint64_t offset, length;
    espalier_status st;

    if (!parse_range(esi_json_get(c->json, key), c->size, &offset, &length)) return damaged(ctx, f, "a stream outside its chunk");
    st = esi_decompress(ctx, c->stream, c->n * channels, c->bytes + offset, (size_t)length, f->compression, f->level, f->name);
    for (size_t i = 0; st == ESPALIER_OK && i < c->n; i++) memcpy(c->rows + i * f->channels + first, c->stream + i * channels, channels);
    return st;
}

static espalier_status read_streams(espalier_context *ctx, const vxz_file *f, vxz_chunk *c, const esi_vxz *out)
{
    espalier_status st = ESPALIER_OK;
    size_t first = 0;

    c->rows = esi_alloc(ctx, c->n, f->channels, "voxel attributes");
    c->stream = esi_alloc(ctx, c->n, f->channels, "voxel attributes");
    if (!c->rows || !c->stream) return ESPALIER_ERR_RESOURCE;
    if (f->channels == 0) return ESPALIER_OK;
    if (f->interleave == ESI_VXZ_ALL) return read_stream(ctx, f, c, "attr", 0, f->channels);
    for (int32_t i = 0; st == ESPALIER_OK && i < out->n_attrs; i++) {
        const esi_vxz_attr *a = &out->attrs[i];

        if (f->interleave == ESI_VXZ_AS_IS) st = read_stream(ctx, f, c, a->name, first, (size_t)a->channels);
        for (int32_t k = 0; f->interleave == ESI_VXZ_PLANAR && st == ESPALIER_OK && k < a->channels; k++) {
            char key[96];

            snprintf(key, sizeof key, "%s_%d", a->name, (int)k);
            st = read_stream(ctx, f, c, key, first + (size_t)k, 1);
        }
        first += (size_t)a->channels;
    }
    return st;
}

static espalier_status unfilter(espalier_context *ctx, const vxz_file *f, vxz_chunk *c)
{
    uint8_t *swap = c->rows;

    if (f->filter == ESI_VXZ_FILTER_NONE || f->channels == 0) return ESPALIER_OK;
    if (f->filter == ESI_VXZ_FILTER_PARENT) {
        esi_filter_parent_decode(c->stream, c->rows, f->channels, c->codes, c->n, f->depth);
    } else {
        const espalier_status st = esi_filter_neighbor(ctx, c->stream, c->rows, f->channels, c->codes, c->n, true);

        if (st != ESPALIER_OK) return st;
    }
    c->rows = c->stream;
    c->stream = swap;
    return ESPALIER_OK;
}

static espalier_status make_room(espalier_context *ctx, vxz_file *f, esi_vxz *out, int64_t rows)
{
    const int64_t capacity = ESI_MIN(ESI_MAX(rows, f->capacity + f->capacity / 2), f->count);
    int32_t *coords;

    if (rows <= f->capacity) return ESPALIER_OK;
    coords = esi_realloc(ctx, out->coords, (size_t)capacity, 3 * sizeof *coords, "voxel coordinates");
    if (!coords) return ESPALIER_ERR_RESOURCE;
    out->coords = coords;
    for (int32_t i = 0; i < out->n_attrs; i++) {
        uint8_t *values = esi_realloc(ctx, out->attrs[i].values, (size_t)capacity, (size_t)out->attrs[i].channels, "voxel attributes");

        if (!values) return ESPALIER_ERR_RESOURCE;
        out->attrs[i].values = values;
    }
    f->capacity = capacity;
    return ESPALIER_OK;
}

static espalier_status append_chunk(espalier_context *ctx, vxz_file *f, const vxz_chunk *c, esi_vxz *out)
{
    size_t first = 0;
    espalier_status st = make_room(ctx, f, out, out->count + (int64_t)c->n);

    if (st != ESPALIER_OK) return st;
    for (size_t i = 0; i < c->n; i++) {
        uint32_t p[3];
        int32_t *to = out->coords + 3 * (out->count + (int64_t)i);

        esi_morton_decode(c->codes[i], p);
        for (int axis = 0; axis < 3; axis++) to[axis] = c->origin[axis] + (int32_t)p[axis];
    }
    for (int32_t k = 0; k < out->n_attrs; k++) {
        const size_t channels = (size_t)out->attrs[k].channels;
        uint8_t *to = out->attrs[k].values + (size_t)out->count * channels;

        for (size_t i = 0; i < c->n; i++) memcpy(to + i * channels, c->rows + i * f->channels + first, channels);
        first += channels;
    }
    out->count += (int64_t)c->n;
    return ESPALIER_OK;
}

static espalier_status read_chunk(espalier_context *ctx, vxz_file *f, const esi_json *json, esi_vxz *out)
{
    vxz_chunk c = {0};
    espalier_status st = esi_check_cancel(ctx);

    if (st == ESPALIER_OK && !place_chunk(f, &c, json)) st = damaged(ctx, f, "a chunk outside the file or the grid");
    if (st == ESPALIER_OK) st = read_cells(ctx, f, &c, out->count);
    if (st == ESPALIER_OK) st = read_streams(ctx, f, &c, out);
    if (st == ESPALIER_OK) st = unfilter(ctx, f, &c);
    if (st == ESPALIER_OK) st = append_chunk(ctx, f, &c, out);
    esi_free(ctx, c.codes);
    esi_free(ctx, c.rows);
    esi_free(ctx, c.stream);
    return st;
}

/* Two chunks in one place would give the same cells twice. */
static espalier_status check_places(espalier_context *ctx, const vxz_file *f, const esi_json *chunks)
{
    const size_t n = esi_json_size(chunks);
    uint64_t *keys = esi_alloc(ctx, n, sizeof *keys, "chunk keys");
    uint32_t *order = esi_alloc(ctx, n, sizeof *order, "chunk keys"), *scratch = esi_alloc(ctx, n, sizeof *scratch, "chunk keys");
    espalier_status st = keys && order && scratch ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    for (size_t i = 0; st == ESPALIER_OK && i < n; i++) {
        vxz_chunk c = {0};

        order[i] = (uint32_t)i;
        if (place_chunk(f, &c, esi_json_at(chunks, i)))
            keys[i] = (uint64_t)c.origin[0] << 34 | (uint64_t)c.origin[1] << 17 | (uint64_t)c.origin[2];
        else
            st = damaged(ctx, f, "a chunk outside the file or the grid");
    }
    if (st == ESPALIER_OK) esi_radix_sort(order, scratch, keys, n, 51);
    for (size_t i = 1; st == ESPALIER_OK && i < n; i++) {
        if (keys[order[i]] == keys[order[i - 1]]) st = damaged(ctx, f, "two chunks in one place");
    }
    esi_free(ctx, keys);
    esi_free(ctx, order);
    esi_free(ctx, scratch);
    return st;
}

static espalier_status parse_vxz(espalier_context *ctx, esi_vxz *out, vxz_file *f)
{
    const esi_json *chunks;
    espalier_status st = parse_header(ctx, f, out);

    if (st != ESPALIER_OK) return st;
    chunks = esi_json_get(f->json, "chunks");
    if (!esi_json_is_array(chunks)) return damaged(ctx, f, "no list of chunks");
    st = check_places(ctx, f, chunks);
    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(chunks); i++) st = read_chunk(ctx, f, esi_json_at(chunks, i), out);
    if (st == ESPALIER_OK && out->count != f->count) st = damaged(ctx, f, "fewer voxels than its header says");
    return st;
}

/* ------------------------------------------------------------------- files */

espalier_status esi_vxz_parse(espalier_context *ctx, esi_vxz *out, const void *bytes, uint64_t size, const char *name)
{
    vxz_file f = {.bytes = bytes, .size = size, .name = name};
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (size >= 8 && memcmp(bytes, "VXZ", 4) == 0)
        st = parse_vxz(ctx, out, &f);
    else if (size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0)
        st = esi_npz_parse(ctx, out, bytes, size, name);
    else
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: neither a VXZ nor an NPZ file", name);
    esi_json_free(f.json);
    if (st != ESPALIER_OK) esi_vxz_free(ctx, out);
    return st;
}

espalier_status esi_vxz_read(espalier_context *ctx, esi_vxz *out, const char *path)
{
    esi_file_map *map = NULL;
    espalier_status st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_INPUT);

    memset(out, 0, sizeof *out);
    if (st != ESPALIER_OK) return st;
    if (esi_file_map_size(map) > esi_limits(ctx)->max_file_bytes) {
        char text[ESI_SIZE_TEXT];

        esi_size_text(text, esi_limits(ctx)->max_file_bytes);
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: over the limit of %s", path, text);
    } else {
        st = esi_vxz_parse(ctx, out, esi_file_map_data(map), esi_file_map_size(map), path);
    }
    esi_file_map_release(map);
    return st;
}
