/* SPDX-License-Identifier: MIT
 *
 * dump_trellis.c: the layout of trellis.cpp's --dump-post (its pull request 45), little-endian and without magic:
 *
 *   i32 V, F, M, resolution;  f32 vertices[3V];  i32 faces[3F];  i32 voxels[3M];  f32 attributes[6M]
 *
 * Attributes are base colour RGB, metallic, roughness, alpha in 0..1, not converted in any way; without texture M = 0. Having no magic, a
 * file is believed only if its length is exactly what the four counts demand.
 */
#include "formats/dump_internal.h"

#include "formats/bytes.h"

#define HEADER 16

static void store_attrs(const esi_asset *a, int64_t row, uint8_t *out)
{
    for (int i = 0; i < 6; i++) esi_store_f32le(out + 4 * i, esi_dump_clamp01(a->attrs[6 * row + i]));
}

espalier_status esi_trellis_dump_write(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    const int64_t voxels = asset->attrs && asset->coords ? asset->n_voxels : 0;
    esi_writer *w = NULL;
    uint8_t header[HEADER];
    espalier_status st = esi_dump_check_single(ctx, asset, path);

    if (st != ESPALIER_OK) return st;
    esi_store_u32le(header, (uint32_t)asset->n_vertices);
    esi_store_u32le(header + 4, (uint32_t)asset->n_faces);
    esi_store_u32le(header + 8, (uint32_t)voxels);
    esi_store_u32le(header + 12, (uint32_t)asset->resolution);
    st = esi_writer_open(ctx, &w, path);
    if (st != ESPALIER_OK) return st;
    st = esi_writer_write(w, header, sizeof header);
    if (st == ESPALIER_OK) st = esi_dump_write_rows(w, asset, asset->n_vertices, 12, esi_dump_store_vertex);
    if (st == ESPALIER_OK) st = esi_dump_write_rows(w, asset, asset->n_faces, 12, esi_dump_store_face);
    if (st == ESPALIER_OK) st = esi_dump_write_rows(w, asset, voxels, 12, esi_dump_store_coord);
    if (st == ESPALIER_OK) st = esi_dump_write_rows(w, asset, voxels, 24, store_attrs);
    if (st != ESPALIER_OK) {
        esi_writer_abort(w);
        return st;
    }
    return esi_writer_commit(w);
}

espalier_status esi_trellis_dump_parse(espalier_context *ctx, esi_dump *out, const uint8_t *bytes, uint64_t size, const char *name)
{
    esi_asset *a = &out->asset;
    int64_t V, F, M;
    uint64_t expected;
    float *vertices, *attrs;
    int32_t *faces, *coords;

    if (size < HEADER) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: %llu bytes are no dump", name, (unsigned long long)size);
    V = (int32_t)esi_load_u32le(bytes);
    F = (int32_t)esi_load_u32le(bytes + 4);
    M = (int32_t)esi_load_u32le(bytes + 8);
    a->resolution = (int32_t)esi_load_u32le(bytes + 12);
    expected = V > 0 && F > 0 && M >= 0 ? HEADER + 12 * (uint64_t)V + 12 * (uint64_t)F + 36 * (uint64_t)M : 0;
    if (expected != size) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: not a dump in trellis.cpp's layout: %lld vertices, %lld faces and %lld voxels do not "
                        "make %llu bytes", name, (long long)V, (long long)F, (long long)M, (unsigned long long)size);
    }
    vertices = esi_dump_alloc(ctx, out, V, 3 * sizeof(float));
    faces = vertices ? esi_dump_alloc(ctx, out, F, 3 * sizeof(int32_t)) : NULL;
    coords = faces ? esi_dump_alloc(ctx, out, M, 4 * sizeof(int32_t)) : NULL;
    attrs = coords ? esi_dump_alloc(ctx, out, M, 6 * sizeof(float)) : NULL;
    if (!attrs) return ESPALIER_ERR_RESOURCE;

    bytes += HEADER;
    for (int64_t i = 0; i < 3 * V; i++, bytes += 4) vertices[i] = esi_load_f32le(bytes);
    for (int64_t i = 0; i < 3 * F; i++, bytes += 4) faces[i] = (int32_t)esi_load_u32le(bytes);
    for (int64_t i = 0; i < 3 * M; i++, bytes += 4) coords[4 * (i / 3) + 1 + i % 3] = (int32_t)esi_load_u32le(bytes);
    for (int64_t i = 0; i < M; i++) coords[4 * i] = 0;
    for (int64_t i = 0; i < 6 * M; i++, bytes += 4) attrs[i] = esi_load_f32le(bytes);

    a->n_vertices = V;
    a->n_faces = F;
    a->n_voxels = M;
    a->vertices = vertices;
    a->faces = faces;
    if (M > 0) {
        a->coords = coords;
        a->attrs = attrs;
    }
    return ESPALIER_OK;
}
