/* SPDX-License-Identifier: MIT
 *
 * dump_internal.h: shared by the dump formats.
 */
#ifndef ESI_DUMP_INTERNAL_H
#define ESI_DUMP_INTERNAL_H

#include "formats/dump.h"

/* A block owned by the dump; NULL after esi_fail. */
void *esi_dump_alloc(espalier_context *ctx, esi_dump *dump, int64_t count, size_t size);
/* Take over an esi_alloc block. */
void esi_dump_keep(esi_dump *dump, void *block);

/* Write `rows` rows of at most 64 bytes, each produced by `fn`. */
typedef void (*esi_row_fn)(const esi_asset *asset, int64_t row, uint8_t *out);
espalier_status esi_dump_write_rows(esi_writer *w, const esi_asset *asset, int64_t rows, size_t row_bytes, esi_row_fn fn);
/* Rows that both foreign formats have, 12 bytes each: f32 position, u32 indices, u32 cell. */
void esi_dump_store_vertex(const esi_asset *asset, int64_t row, uint8_t *out);
void esi_dump_store_face(const esi_asset *asset, int64_t row, uint8_t *out);
void esi_dump_store_coord(const esi_asset *asset, int64_t row, uint8_t *out);

/* Before writing for other tools: the asset is sound, has faces and one object. */
espalier_status esi_dump_check_single(espalier_context *ctx, const esi_asset *asset, const char *path);

static inline float esi_dump_clamp01(float v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}

/* The readers: `out` is zeroed; whatever was allocated stays in it on failure. They leave checking values to esi_dump_parse(). */
espalier_status esi_espd_parse(espalier_context *ctx, esi_dump *out, const uint8_t *bytes, uint64_t size, const char *name);
espalier_status esi_qtm3d_parse(espalier_context *ctx, esi_dump *out, const uint8_t *bytes, uint64_t size, const char *name);
espalier_status esi_trellis_dump_parse(espalier_context *ctx, esi_dump *out, const uint8_t *bytes, uint64_t size, const char *name);

#define ESI_QTM3D_MAGIC "QTMESH3D"

#endif
