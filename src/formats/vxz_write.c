/* SPDX-License-Identifier: MIT
 *
 * vxz_write.c: voxels -> .vxz. Rows go into the order of the file (chunks by x, y, z; Morton order inside), chunks are filtered and streams
 * compressed in parallel. The text of the header is laid out as the reference's, so that uncompressed files are equal to its in every byte.
 */
#include "formats/bytes.h"
#include "formats/compress.h"
#include "formats/vxz_internal.h"

#define KEY_BITS 51                /* 17 per axis, however they are split between chunk and cell */

typedef struct out_chunk {
    int32_t idx[3];
    size_t begin, end;             /* rows */
    uint8_t *tree;
    size_t tree_size;
} out_chunk;

typedef struct out_stream {
    size_t chunk;
    int32_t attr, channel;         /* attr -1: the octree; channel -1: all of the attribute */
    size_t first, channels;        /* columns of the rows */
    uint8_t *bytes;
    size_t size;
} out_stream;

typedef struct vxz_writer {
    espalier_context *ctx;
    const esi_vxz *voxels;
    esi_vxz_options options;
    int depth;
    size_t channels, n_chunks, n_streams, streams_per_chunk;
    uint32_t *order;               /* row of the voxels at each row of the file */
    uint32_t *codes;               /* [count] within their chunks */
    uint8_t *rows;                 /* [count][channels], filtered */
    out_chunk *chunks;
    out_stream *streams;
} vxz_writer;

esi_vxz_options esi_vxz_options_default(void)
{
    return (esi_vxz_options){.chunk_size = 256, .compression = ESI_VXZ_LZMA};
}

espalier_status esi_vxz_check(espalier_context *ctx, const esi_vxz *v, const char *name, espalier_status status)
{
    if (v->count < 0 || v->count > INT32_MAX || v->n_attrs < 0 || v->n_attrs > ESI_VXZ_MAX_ATTRS || (v->count > 0 && !v->coords))
        return esi_fail(ctx, status, "%s: %lld voxels with %d attributes", name, (long long)v->count, (int)v->n_attrs);
    for (int64_t i = 0; i < 3 * v->count; i++) {
        if (v->coords[i] < 0 || v->coords[i] >= ESI_VXZ_MAX_COORD)
            return esi_fail(ctx, status, "%s: voxel %lld is outside the grid: coordinate %d", name, (long long)(i / 3), (int)v->coords[i]);
    }
    for (int32_t i = 0; i < v->n_attrs; i++) {
        const esi_vxz_attr *a = &v->attrs[i];

        if (a->name[0] == '\0' || !memchr(a->name, '\0', sizeof a->name) || a->channels < 1 || a->channels > ESI_VXZ_MAX_CHANNELS ||
            (v->count > 0 && !a->values) || esi_vxz_find(v, a->name) != a || !strcmp(a->name, "idx") || !strcmp(a->name, "svo") ||
            !strcmp(a->name, "ptr"))
            return esi_fail(ctx, status, "%s: attribute %d has no usable name, channels or values", name, (int)i);
    }
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------- order */

static uint64_t file_key(const int32_t *p, int depth)
{
    const int chunk_bits = KEY_BITS / 3 - depth;
    const uint32_t mask = (1u << depth) - 1;
    uint64_t key = 0;

    for (int i = 0; i < 3; i++) key = key << chunk_bits | (uint64_t)((uint32_t)p[i] >> depth);
    return key << (3 * depth) | esi_morton_encode((uint32_t)p[0] & mask, (uint32_t)p[1] & mask, (uint32_t)p[2] & mask);
}

espalier_status esi_vxz_order(espalier_context *ctx, uint32_t **out, const int32_t *coords, int64_t count, int depth, const char *name,
                              espalier_status duplicates)
{
    const size_t n = (size_t)count;
    uint64_t *keys = esi_alloc(ctx, n, sizeof *keys, "voxel keys");
    uint32_t *order = esi_alloc(ctx, n, sizeof *order, "voxel order"), *scratch = esi_alloc(ctx, n, sizeof *scratch, "voxel order");
    espalier_status st = keys && order && scratch ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    *out = NULL;
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < n; i++) {
        keys[i] = file_key(coords + 3 * i, depth);
        order[i] = (uint32_t)i;
    }
    esi_radix_sort(order, scratch, keys, n, KEY_BITS);
    for (size_t i = 1; st == ESPALIER_OK && i < n; i++) {
        if (keys[order[i]] == keys[order[i - 1]])
            st = esi_fail(ctx, duplicates, "%s: voxels %u and %u are the same cell", name, order[i - 1], order[i]);
    }
    if (st == ESPALIER_OK) {
        *out = order;
        order = NULL;
    }
done:
    esi_free(ctx, keys);
    esi_free(ctx, order);
    esi_free(ctx, scratch);
    return st;
}

static bool same_chunk(const vxz_writer *w, size_t a, size_t b)
{
    const int32_t *p = w->voxels->coords + 3 * (size_t)w->order[a], *q = w->voxels->coords + 3 * (size_t)w->order[b];

    return p[0] >> w->depth == q[0] >> w->depth && p[1] >> w->depth == q[1] >> w->depth && p[2] >> w->depth == q[2] >> w->depth;
}

static espalier_status find_chunks(vxz_writer *w)
{
    const size_t n = (size_t)w->voxels->count;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) w->n_chunks += i == 0 || !same_chunk(w, i, i - 1);
    w->chunks = esi_calloc(w->ctx, w->n_chunks, sizeof *w->chunks, "chunks");
    w->codes = esi_alloc(w->ctx, n, sizeof *w->codes, "voxel codes");
    w->rows = esi_alloc(w->ctx, n, w->channels, "voxel attributes");
    if (!w->chunks || !w->codes || !w->rows) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) {
        const int32_t *p = w->voxels->coords + 3 * (size_t)w->order[i];
        const uint32_t mask = (uint32_t)w->options.chunk_size - 1;

        if (i > 0 && !same_chunk(w, i, i - 1)) at++;
        if (i == 0 || !same_chunk(w, i, i - 1)) w->chunks[at].begin = i;
        w->chunks[at].end = i + 1;
        for (int axis = 0; axis < 3; axis++) w->chunks[at].idx[axis] = p[axis] >> w->depth;
        w->codes[i] = esi_morton_encode((uint32_t)p[0] & mask, (uint32_t)p[1] & mask, (uint32_t)p[2] & mask);
    }
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------ chunks */

static void gather_rows(const vxz_writer *w, const out_chunk *c, uint8_t *to)
{
    for (size_t i = c->begin; i < c->end; i++) {
        for (int32_t k = 0; k < w->voxels->n_attrs; k++) {
            const esi_vxz_attr *a = &w->voxels->attrs[k];

            memcpy(to, a->values + (size_t)w->order[i] * (size_t)a->channels, (size_t)a->channels);
            to += a->channels;
        }
    }
}

static espalier_status filter_chunk(const vxz_writer *w, const out_chunk *c)
{
    const size_t n = c->end - c->begin;
    uint8_t *to = w->rows + c->begin * w->channels, *plain;
    espalier_status st = ESPALIER_OK;

    if (w->options.filter == ESI_VXZ_FILTER_NONE || w->channels == 0) {
        gather_rows(w, c, to);
        return ESPALIER_OK;
    }
    plain = esi_alloc(w->ctx, n, w->channels, "voxel attributes");
    if (!plain) return ESPALIER_ERR_RESOURCE;
    gather_rows(w, c, plain);
    if (w->options.filter == ESI_VXZ_FILTER_PARENT)
        esi_filter_parent_encode(to, plain, w->channels, w->codes + c->begin, n, w->depth);
    else
        st = esi_filter_neighbor(w->ctx, to, plain, w->channels, w->codes + c->begin, n, false);
    esi_free(w->ctx, plain);
    return st;
}

static void make_chunk(void *arg, size_t task, int slot)
{
    vxz_writer *w = arg;
    out_chunk *c = &w->chunks[task];
    const uint32_t *codes = w->codes + c->begin;
    const size_t n = c->end - c->begin;

    (void)slot;
    esi_octree_encode(NULL, &c->tree_size, codes, n, w->depth);
    c->tree = esi_alloc(w->ctx, c->tree_size, 1, "an octree");
    if (!c->tree) return;
    esi_octree_encode(c->tree, &c->tree_size, codes, n, w->depth);
    (void)filter_chunk(w, c);      /* its failure is on record and ends the loop */
}

/* ----------------------------------------------------------------- streams */

static espalier_status list_streams(vxz_writer *w)
{
    const esi_vxz *v = w->voxels;
    size_t at = 0;

    w->streams_per_chunk = 1 + (w->channels == 0                          ? 0
                                : w->options.interleave == ESI_VXZ_ALL    ? 1
                                : w->options.interleave == ESI_VXZ_PLANAR ? w->channels
                                                                          : (size_t)v->n_attrs);
    w->n_streams = w->n_chunks * w->streams_per_chunk;
    w->streams = esi_calloc(w->ctx, w->n_streams, sizeof *w->streams, "streams");
    if (!w->streams) return ESPALIER_ERR_RESOURCE;
    for (size_t c = 0; c < w->n_chunks; c++) {
        size_t first = 0;

        w->streams[at++] = (out_stream){.chunk = c, .attr = -1, .channel = -1};
        if (w->options.interleave == ESI_VXZ_ALL && w->channels > 0)
            w->streams[at++] = (out_stream){.chunk = c, .channel = -1, .channels = w->channels};
        for (int32_t k = 0; w->options.interleave != ESI_VXZ_ALL && k < v->n_attrs; k++) {
            const int32_t channels = v->attrs[k].channels;

            if (w->options.interleave == ESI_VXZ_AS_IS)
                w->streams[at++] = (out_stream){.chunk = c, .attr = k, .channel = -1, .first = first, .channels = (size_t)channels};
            for (int32_t i = 0; w->options.interleave == ESI_VXZ_PLANAR && i < channels; i++)
                w->streams[at++] = (out_stream){.chunk = c, .attr = k, .channel = i, .first = first + (size_t)i, .channels = 1};
            first += (size_t)channels;
        }
    }
    return ESPALIER_OK;
}

static void make_stream(void *arg, size_t task, int slot)
{
    vxz_writer *w = arg;
    out_stream *s = &w->streams[task];
    const out_chunk *c = &w->chunks[s->chunk];
    const size_t n = c->end - c->begin;
    const esi_compression method = (esi_compression)w->options.compression;
    uint8_t *plain;

    (void)slot;
    if (s->attr < 0) {
        (void)esi_compress(w->ctx, &s->bytes, &s->size, c->tree, c->tree_size, method, w->options.level);
        return;
    }
    plain = esi_alloc(w->ctx, n, s->channels, "voxel attributes");
    if (!plain) return;
    for (size_t i = 0; i < n; i++) memcpy(plain + i * s->channels, w->rows + (c->begin + i) * w->channels + s->first, s->channels);
    (void)esi_compress(w->ctx, &s->bytes, &s->size, plain, n * s->channels, method, w->options.level);
    esi_free(w->ctx, plain);
}

/* -------------------------------------------------------------------- file */

static void append_stream_name(const vxz_writer *w, esi_text *t, const out_stream *s)
{
    esi_text_append(w->ctx, t, ", ");
    if (s->attr < 0) {
        esi_text_append(w->ctx, t, "\"svo\"");
    } else if (w->options.interleave == ESI_VXZ_ALL) {
        esi_text_append(w->ctx, t, "\"attr\"");
    } else {
        esi_text_append_json_string(w->ctx, t, w->voxels->attrs[s->attr].name);
        if (s->channel < 0) return;
        t->len -= !t->failed;      /* inside the closing quote */
        esi_text_append(w->ctx, t, "_%d\"", (int)s->channel);
    }
}

static void append_chunks(const vxz_writer *w, esi_text *t)
{
    uint64_t place = 0;

    for (size_t c = 0; c < w->n_chunks; c++) {
        const out_chunk *chunk = &w->chunks[c];
        uint64_t offset = 0;

        esi_text_append(w->ctx, t, "%s{\"idx\": [%d, %d, %d]", c ? ", " : "", (int)chunk->idx[0], (int)chunk->idx[1], (int)chunk->idx[2]);
        for (size_t i = 0; i < w->streams_per_chunk; i++) {
            const out_stream *s = &w->streams[c * w->streams_per_chunk + i];

            append_stream_name(w, t, s);
            esi_text_append(w->ctx, t, ": [%llu, %llu]", (unsigned long long)offset, (unsigned long long)s->size);
            offset += s->size;
        }
        esi_text_append(w->ctx, t, ", \"ptr\": [%llu, %llu]}", (unsigned long long)place, (unsigned long long)offset);
        place += offset;
    }
}

static espalier_status build_header(const vxz_writer *w, esi_text *t)
{
    static const char *const filters[] = {"none", "parent", "neighbor"}, *const methods[] = {"none", "deflate", "lzma", "zstd"},
                             *const interleaves[] = {"as_is", "none", "all"};
    const uint64_t raw = (uint64_t)w->voxels->count * (3 * sizeof(int32_t) + w->channels);
    const int level = w->options.level > 0 ? w->options.level : esi_compression_default_level((esi_compression)w->options.compression);
    uint64_t compressed = 0;

    for (size_t i = 0; i < w->n_streams; i++) compressed += w->streams[i].size;
    esi_text_append(w->ctx, t, "{\"num_voxel\": %lld, \"chunk_size\": %d, \"filter\": \"%s\", \"compression\": \"%s\", "
                    "\"compression_level\": %d, \"raw_size\": %llu, \"compressed_size\": %llu, \"compress_ratio\": ",
                    (long long)w->voxels->count, (int)w->options.chunk_size, filters[w->options.filter], methods[w->options.compression],
                    level, (unsigned long long)raw, (unsigned long long)compressed);
    esi_text_append_json_number(w->ctx, t, compressed > 0 ? (double)raw / (double)compressed : 1.0);
    esi_text_append(w->ctx, t, ", \"attr_interleave\": \"%s\", \"attr\": [", interleaves[w->options.interleave]);
    for (int32_t k = 0; k < w->voxels->n_attrs; k++) {
        esi_text_append(w->ctx, t, k ? ", [" : "[");
        esi_text_append_json_string(w->ctx, t, w->voxels->attrs[k].name);
        esi_text_append(w->ctx, t, ", %d]", (int)w->voxels->attrs[k].channels);
    }
    esi_text_append(w->ctx, t, "], \"chunks\": [");
    append_chunks(w, t);
    esi_text_append(w->ctx, t, "]}");
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

static espalier_status write_file(const vxz_writer *w, const char *path)
{
    esi_text header = {0};
    esi_writer *out = NULL;
    uint8_t start[8] = {'V', 'X', 'Z', 0};
    espalier_status st = build_header(w, &header);

    if (st == ESPALIER_OK && header.len > UINT32_MAX - 8)
        st = esi_fail(w->ctx, ESPALIER_ERR_OUTPUT, "%s: too many chunks; use larger ones", path);
    if (st == ESPALIER_OK) st = esi_writer_open(w->ctx, &out, path);
    if (st != ESPALIER_OK) goto done;
    for (int i = 0; i < 4; i++) start[4 + i] = (uint8_t)((header.len + 8) >> (24 - 8 * i));
    st = esi_writer_write(out, start, sizeof start);
    if (st == ESPALIER_OK) st = esi_writer_write(out, header.data, header.len);
    for (size_t i = 0; st == ESPALIER_OK && i < w->n_streams; i++) st = esi_writer_write(out, w->streams[i].bytes, w->streams[i].size);
    if (st == ESPALIER_OK) {
        st = esi_writer_commit(out);
        out = NULL;
    }
done:
    esi_writer_abort(out);
    esi_text_free(w->ctx, &header);
    return st;
}

static espalier_status check_options(espalier_context *ctx, vxz_writer *w, const char *path)
{
    const esi_vxz_options *o = &w->options;

    if (o->chunk_size < 2 || o->chunk_size > 1 << ESI_VXZ_MAX_DEPTH || (o->chunk_size & (o->chunk_size - 1)) != 0)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: chunk size %d is no power of two from 2 to 1024", path, (int)o->chunk_size);
    if ((unsigned)o->filter > ESI_VXZ_FILTER_NEIGHBOR || (unsigned)o->compression > ESI_VXZ_ZSTD || (unsigned)o->interleave > ESI_VXZ_ALL ||
        o->level < 0 || o->level > esi_compression_max_level((esi_compression)o->compression))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: an impossible filter, compression, level or interleave", path);
    while (o->chunk_size >> w->depth > 1) w->depth++;
    return ESPALIER_OK;
}

static espalier_status write_vxz(espalier_context *ctx, vxz_writer *w, const char *path)
{
    espalier_status st = check_options(ctx, w, path);

    for (int32_t k = 0; k < w->voxels->n_attrs; k++) w->channels += (size_t)w->voxels->attrs[k].channels;
    if (st == ESPALIER_OK)
        st = esi_vxz_order(ctx, &w->order, w->voxels->coords, w->voxels->count, w->depth, path, ESPALIER_ERR_INTERNAL);
    if (st == ESPALIER_OK) st = find_chunks(w);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, w->n_chunks, make_chunk, w);
    if (st == ESPALIER_OK) st = list_streams(w);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, w->n_streams, make_stream, w);
    if (st == ESPALIER_OK) st = write_file(w, path);
    for (size_t i = 0; w->chunks && i < w->n_chunks; i++) esi_free(ctx, w->chunks[i].tree);
    for (size_t i = 0; w->streams && i < w->n_streams; i++) esi_free(ctx, w->streams[i].bytes);
    esi_free(ctx, w->order);
    esi_free(ctx, w->codes);
    esi_free(ctx, w->rows);
    esi_free(ctx, w->chunks);
    esi_free(ctx, w->streams);
    return st;
}

espalier_status esi_vxz_write(espalier_context *ctx, const esi_vxz *voxels, const char *path, const esi_vxz_options *options)
{
    vxz_writer w = {.ctx = ctx, .voxels = voxels, .options = options ? *options : esi_vxz_options_default()};
    espalier_status st = esi_vxz_check(ctx, voxels, path, ESPALIER_ERR_INTERNAL);

    if (st != ESPALIER_OK) return st;
    if (strcmp(esi_path_suffix(path), ".npz") == 0) return esi_npz_write(ctx, voxels, path);
    return write_vxz(ctx, &w, path);
}
