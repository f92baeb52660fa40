/* SPDX-License-Identifier: MIT
 *
 * dump.h: raw assets as files that other programs take up.
 *
 *   .espd      ours, lossless: everything in esi_asset (dump_espd.c)
 *   .qtm3d     QtMeshEditor's exchange format: mesh and 8-bit voxel attributes (dump_qtm3d.c)
 *   otherwise  the byte layout of trellis.cpp's --dump-post: mesh and float voxel attributes (dump_trellis.c)
 *
 * Writers give the same bytes for the same asset and never leave a partial file. Readers take the format from the content, trust nothing,
 * and own what they read.
 */
#ifndef ESI_DUMP_H
#define ESI_DUMP_H

#include "formats/asset.h"

typedef enum esi_dump_format { ESI_DUMP_ESPD, ESI_DUMP_QTM3D, ESI_DUMP_TRELLIS } esi_dump_format;
const char *esi_dump_format_name(esi_dump_format format);        /* "espd", "qtm3d", "trellis" */

/* Format by suffix of `path`. The formats of others hold one object (batch 0) and clamp attributes to 0..1. */
espalier_status esi_dump_write(espalier_context *ctx, const esi_asset *asset, const char *path);
espalier_status esi_espd_write(espalier_context *ctx, const esi_asset *asset, const char *path);
espalier_status esi_qtm3d_write(espalier_context *ctx, const esi_asset *asset, const char *path);
espalier_status esi_trellis_dump_write(espalier_context *ctx, const esi_asset *asset, const char *path);

typedef struct esi_dump {
    esi_asset asset;               /* everything in it lives as long as the dump */
    esi_dump_format format;
    esi_arena strings;             /* private: texts and small tables */
    void *blocks[32];              /* private: the arrays */
    int n_blocks;
} esi_dump;

/* ERR_INPUT when the file is missing, damaged, over the context's limits or holds impossible values; the message names file and fact. A
 * dump without intersect_logits cannot be repaired by margin: the caller says so. */
espalier_status esi_dump_read(espalier_context *ctx, esi_dump *out, const char *path);
/* The same over memory; `name` for messages. */
espalier_status esi_dump_parse(espalier_context *ctx, esi_dump *out, const void *bytes, uint64_t size, const char *name);
void esi_dump_free(espalier_context *ctx, esi_dump *dump);         /* zeroed is fine */

#endif
