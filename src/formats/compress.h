/* SPDX-License-Identifier: MIT
 *
 * compress.h: blocks of bytes through zlib, liblzma and libzstd, under limits.
 */
#ifndef ESI_COMPRESS_H
#define ESI_COMPRESS_H

#include "base/base.h"

typedef enum esi_compression {
    ESI_COMPRESSION_NONE,
    ESI_COMPRESSION_DEFLATE,       /* raw, without zlib's header */
    ESI_COMPRESSION_LZMA,          /* LZMA2 without container; the dictionary is that of the preset */
    ESI_COMPRESSION_ZSTD           /* one frame */
} esi_compression;

/* The level that 0 stands for: 9, 9, 22; 0 for none. */
int esi_compression_default_level(esi_compression method);
int esi_compression_max_level(esi_compression method);

/* *out is an esi_alloc block. ERR_RESOURCE; ERR_INTERNAL when this build has not got the library. */
espalier_status esi_compress(espalier_context *ctx, uint8_t **out, size_t *out_size, const uint8_t *in, size_t size, esi_compression method,
                             int level);
/* Exactly out_size bytes into `out`, using up the input. ERR_INPUT when that is not what comes out; `name` begins messages. `level` is the
 * one that compressed, or 0. */
espalier_status esi_decompress(espalier_context *ctx, uint8_t *out, size_t out_size, const uint8_t *in, size_t size, esi_compression method,
                               int level, const char *name);
/* Up to `limit` bytes into a fresh block that grows as they come; more are ERR_INPUT. */
espalier_status esi_decompress_up_to(espalier_context *ctx, uint8_t **out, size_t *out_size, size_t limit, const uint8_t *in, size_t size,
                                     esi_compression method, int level, const char *name);

/* CRC-32 of zip and gzip, continued from `crc` (0 at the start). */
uint32_t esi_crc32(uint32_t crc, const void *bytes, size_t size);

#endif
