/* SPDX-License-Identifier: MIT
 *
 * dump.c: which dump format to write or read, and what all of them need.
 */
#include "formats/dump_internal.h"

#include "formats/bytes.h"

const char *esi_dump_format_name(esi_dump_format format)
{
    switch (format) {
    case ESI_DUMP_ESPD: return "espd";
    case ESI_DUMP_QTM3D: return "qtm3d";
    case ESI_DUMP_TRELLIS: return "trellis";
    }
    return "?";
}

/* ------------------------------------------------------------------ writing */

espalier_status esi_dump_write(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    const char *suffix = esi_path_suffix(path);

    if (strcmp(suffix, ".espd") == 0) return esi_espd_write(ctx, asset, path);
    if (strcmp(suffix, ".qtm3d") == 0) return esi_qtm3d_write(ctx, asset, path);
    return esi_trellis_dump_write(ctx, asset, path);
}

espalier_status esi_dump_write_rows(esi_writer *w, const esi_asset *asset, int64_t rows, size_t row_bytes, esi_row_fn fn)
{
    uint8_t buffer[8192];
    const int64_t at_once = (int64_t)(sizeof buffer / row_bytes);
    espalier_status st = ESPALIER_OK;

    for (int64_t begin = 0; st == ESPALIER_OK && begin < rows; begin += at_once) {
        const int64_t end = ESI_MIN(begin + at_once, rows);

        for (int64_t row = begin; row < end; row++) fn(asset, row, buffer + (size_t)(row - begin) * row_bytes);
        st = esi_writer_write(w, buffer, (size_t)(end - begin) * row_bytes);
    }
    return st;
}

void esi_dump_store_vertex(const esi_asset *asset, int64_t row, uint8_t *out)
{
    for (int i = 0; i < 3; i++) esi_store_f32le(out + 4 * i, asset->vertices[3 * row + i]);
}

void esi_dump_store_face(const esi_asset *asset, int64_t row, uint8_t *out)
{
    for (int i = 0; i < 3; i++) esi_store_u32le(out + 4 * i, (uint32_t)asset->faces[3 * row + i]);
}

void esi_dump_store_coord(const esi_asset *asset, int64_t row, uint8_t *out)
{
    for (int i = 0; i < 3; i++) esi_store_u32le(out + 4 * i, (uint32_t)asset->coords[4 * row + 1 + i]);
}

espalier_status esi_dump_check_single(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    espalier_status st;

    if (asset->n_faces == 0) return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: the mesh has no faces", path);
    st = esi_asset_check(ctx, asset, path, ESPALIER_ERR_INTERNAL);
    if (st != ESPALIER_OK) return st;
    for (int64_t n = 0; asset->coords && n < asset->n_voxels; n++) {
        if (asset->coords[4 * n] == 0) continue;
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: this format holds one object, the asset has several; use .espd", path);
    }
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------ reading */

void esi_dump_keep(esi_dump *dump, void *block)
{
    dump->blocks[dump->n_blocks++] = block;      /* 32 are more than all arrays of the richest format */
}

void *esi_dump_alloc(espalier_context *ctx, esi_dump *dump, int64_t count, size_t size)
{
    void *block = esi_alloc(ctx, (size_t)count, size, "dump contents");

    if (block) esi_dump_keep(dump, block);
    return block;
}

void esi_dump_free(espalier_context *ctx, esi_dump *dump)
{
    if (!dump) return;
    for (int i = 0; i < dump->n_blocks; i++) esi_free(ctx, dump->blocks[i]);
    esi_arena_free(ctx, &dump->strings);
    memset(dump, 0, sizeof *dump);
}

/* A safetensors file begins with the length of its JSON header; as trellis.cpp's layout the same bytes would mean zero faces. */
static esi_dump_format format_of(const uint8_t *bytes, uint64_t size)
{
    if (size >= 8 && memcmp(bytes, ESI_QTM3D_MAGIC, 8) == 0) return ESI_DUMP_QTM3D;
    if (size >= 9 && esi_load_u32le(bytes + 4) == 0 && bytes[8] == '{') return ESI_DUMP_ESPD;
    return ESI_DUMP_TRELLIS;
}

espalier_status esi_dump_parse(espalier_context *ctx, esi_dump *out, const void *bytes, uint64_t size, const char *name)
{
    espalier_status st;

    memset(out, 0, sizeof *out);
    out->format = format_of(bytes, size);
    switch (out->format) {
    case ESI_DUMP_ESPD: st = esi_espd_parse(ctx, out, bytes, size, name); break;
    case ESI_DUMP_QTM3D: st = esi_qtm3d_parse(ctx, out, bytes, size, name); break;
    default: st = esi_trellis_dump_parse(ctx, out, bytes, size, name); break;
    }
    if (st == ESPALIER_OK) st = esi_asset_check(ctx, &out->asset, name, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) esi_dump_free(ctx, out);
    return st;
}

espalier_status esi_dump_read(espalier_context *ctx, esi_dump *out, const char *path)
{
    esi_file_map *map = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    if (esi_file_map_size(map) > esi_limits(ctx)->max_file_bytes) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: %llu bytes are over the limit of %llu", path,
                      (unsigned long long)esi_file_map_size(map), (unsigned long long)esi_limits(ctx)->max_file_bytes);
    } else {
        st = esi_dump_parse(ctx, out, esi_file_map_data(map), esi_file_map_size(map), path);
    }
    esi_file_map_release(map);
    return st;
}
