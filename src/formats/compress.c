/* SPDX-License-Identifier: MIT
 *
 * compress.c: see the header. zlib and liblzma take memory through the job's account; libzstd has no such interface in its stable part and
 * works on blocks that lie in memory whole, so that it needs little of its own when reading.
 */
#include "formats/compress.h"

#ifdef ESPALIER_HAVE_ARCHIVES
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#endif

#define GROW ((size_t)64 << 10)

int esi_compression_default_level(esi_compression method)
{
    return esi_compression_max_level(method);
}

int esi_compression_max_level(esi_compression method)
{
    static const int level[] = {0, 9, 9, 22};

    return level[method];
}

/* Output that grows: `size` bytes are used. */
typedef struct growing {
    uint8_t *data;
    size_t size, capacity, limit;
    bool fixed;                    /* data is the caller's, of `capacity` bytes */
} growing;

static espalier_status fail_damaged(espalier_context *ctx, const char *name)
{
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: damaged: compressed data are broken or of another length than stated", name);
}

static espalier_status copy_plain(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, const char *name)
{
    if (size > out->limit) return fail_damaged(ctx, name);
    if (!out->fixed) {
        out->data = esi_alloc(ctx, size, 1, "data of a file");
        if (!out->data) return ESPALIER_ERR_RESOURCE;
    }
    if (size > 0) memcpy(out->data, in, size);
    out->size = size;
    return ESPALIER_OK;
}

#ifdef ESPALIER_HAVE_ARCHIVES

/* Room for more; false at the limit. One byte more than the limit is given, so that a longer stream shows. */
static espalier_status grow(espalier_context *ctx, growing *out)
{
    size_t capacity;
    uint8_t *data;

    if (out->fixed || out->capacity > out->limit) return ESPALIER_OK;
    capacity = ESI_MIN(out->capacity + out->capacity / 2 + GROW, out->limit + 1);
    data = esi_realloc(ctx, out->data, capacity, 1, "data of a file");
    if (!data) return ESPALIER_ERR_RESOURCE;
    out->data = data;
    out->capacity = capacity;
    return ESPALIER_OK;
}

/* ----------------------------------------------------------------- deflate */

static void *deflate_alloc(void *ctx, unsigned count, unsigned size)
{
    return esi_alloc(ctx, count, size, "deflate");
}

static void deflate_free(void *ctx, void *ptr)
{
    esi_free(ctx, ptr);
}

static espalier_status fail_memory(espalier_context *ctx)
{
    return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: compression");
}

static espalier_status inflate_all(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, const char *name)
{
    z_stream z = {.zalloc = deflate_alloc, .zfree = deflate_free, .opaque = ctx};
    espalier_status st = ESPALIER_OK;
    size_t read = 0;
    int rc = Z_OK;

    if (inflateInit2(&z, -15) != Z_OK) return fail_memory(ctx);
    while (st == ESPALIER_OK && rc != Z_STREAM_END) {
        const size_t chunk = ESI_MIN(size - read, (size_t)1 << 30);
        size_t room;

        if (out->size == out->capacity) st = grow(ctx, out);
        if (st != ESPALIER_OK) break;
        room = ESI_MIN(out->capacity - out->size, (size_t)1 << 20);
        z.next_in = (z_const Bytef *)(uintptr_t)(in + read);
        z.avail_in = (uInt)chunk;
        z.next_out = out->data + out->size;
        z.avail_out = (uInt)room;
        rc = inflate(&z, Z_NO_FLUSH);
        read += chunk - z.avail_in;
        out->size += room - z.avail_out;
        if (rc == Z_MEM_ERROR)
            st = fail_memory(ctx);
        else if (rc != Z_OK && rc != Z_STREAM_END)      /* Z_BUF_ERROR: no room left, or no input */
            st = fail_damaged(ctx, name);
        else
            st = esi_check_cancel(ctx);
    }
    inflateEnd(&z);
    if (st == ESPALIER_OK && (read != size || out->size > out->limit)) st = fail_damaged(ctx, name);
    return st;
}

static espalier_status deflate_all(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, int level)
{
    z_stream z = {.zalloc = deflate_alloc, .zfree = deflate_free, .opaque = ctx};
    espalier_status st = ESPALIER_OK;
    size_t read = 0;
    int rc = Z_OK;

    if (deflateInit2(&z, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) return fail_memory(ctx);
    while (st == ESPALIER_OK && rc != Z_STREAM_END) {
        const size_t chunk = ESI_MIN(size - read, (size_t)1 << 20);
        size_t room;

        if (out->size == out->capacity) st = grow(ctx, out);
        if (st != ESPALIER_OK) break;
        room = ESI_MIN(out->capacity - out->size, (size_t)1 << 30);
        z.next_in = (z_const Bytef *)(uintptr_t)(in + read);
        z.avail_in = (uInt)chunk;
        z.next_out = out->data + out->size;
        z.avail_out = (uInt)room;
        rc = deflate(&z, read + chunk == size ? Z_FINISH : Z_NO_FLUSH);
        read += chunk - z.avail_in;
        out->size += room - z.avail_out;
        st = rc == Z_STREAM_ERROR ? esi_fail(ctx, ESPALIER_ERR_INTERNAL, "zlib refuses to compress") : esi_check_cancel(ctx);
    }
    deflateEnd(&z);
    return st;
}

uint32_t esi_crc32(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    for (size_t n; size > 0; at += n, size -= n) {
        n = ESI_MIN(size, (size_t)1 << 30);
        crc = (uint32_t)crc32(crc, at, (uInt)n);
    }
    return crc;
}

/* -------------------------------------------------------------------- lzma */

static void *lzma_allocate(void *ctx, size_t count, size_t size)
{
    return esi_alloc(ctx, count, size, "LZMA");
}

static void lzma_release(void *ctx, void *ptr)
{
    esi_free(ctx, ptr);
}

/* The dictionary of the preset, but no larger than the data: nothing can refer further back, and a decoder may have a larger one than the
 * encoder had. Preset 9 takes 64 MiB to read and 674 MiB to write without this. */
static bool lzma_settings(lzma_options_lzma *options, int level, size_t raw_size)
{
    const size_t needed = ESI_MAX(raw_size, (size_t)LZMA_DICT_SIZE_MIN);

    if (lzma_lzma_preset(options, (uint32_t)(level > 0 && level <= 9 ? level : 9))) return false;
    if (needed < options->dict_size) options->dict_size = (uint32_t)needed;
    return true;
}

static espalier_status run_lzma(espalier_context *ctx, lzma_stream *z, growing *out, const uint8_t *in, size_t size, size_t *read)
{
    espalier_status st = ESPALIER_OK;
    lzma_ret rc = LZMA_OK;

    z->next_in = in;
    z->avail_in = size;
    while (st == ESPALIER_OK && rc == LZMA_OK) {
        size_t room;

        if (out->size == out->capacity) st = grow(ctx, out);
        if (st != ESPALIER_OK) break;
        room = ESI_MIN(out->capacity - out->size, (size_t)1 << 20);
        z->next_out = out->data + out->size;
        z->avail_out = room;
        rc = lzma_code(z, LZMA_FINISH);
        out->size += room - z->avail_out;
        if (rc == LZMA_MEM_ERROR) st = fail_memory(ctx);
        if (st == ESPALIER_OK) st = esi_check_cancel(ctx);
    }
    *read = size - z->avail_in;
    if (st == ESPALIER_OK && rc != LZMA_STREAM_END) st = ESPALIER_ERR_INPUT;      /* the caller words it */
    return st;
}

static espalier_status unlzma_all(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, int level, const char *name)
{
    const lzma_allocator allocator = {lzma_allocate, lzma_release, ctx};
    lzma_stream z = LZMA_STREAM_INIT;
    lzma_options_lzma options;
    lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
    espalier_status st;
    size_t read = 0;

    if (!lzma_settings(&options, level, out->limit)) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "liblzma has no preset %d", level);
    z.allocator = &allocator;
    if (lzma_raw_decoder(&z, filters) != LZMA_OK) return fail_memory(ctx);
    st = run_lzma(ctx, &z, out, in, size, &read);
    lzma_end(&z);
    if (st == ESPALIER_ERR_INPUT || (st == ESPALIER_OK && (read != size || out->size > out->limit))) st = fail_damaged(ctx, name);
    return st;
}

static espalier_status lzma_all(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, int level)
{
    const lzma_allocator allocator = {lzma_allocate, lzma_release, ctx};
    lzma_stream z = LZMA_STREAM_INIT;
    lzma_options_lzma options;
    lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
    espalier_status st;
    size_t read = 0;

    if (!lzma_settings(&options, level, size)) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "liblzma has no preset %d", level);
    z.allocator = &allocator;
    if (lzma_raw_encoder(&z, filters) != LZMA_OK) return fail_memory(ctx);
    st = run_lzma(ctx, &z, out, in, size, &read);
    lzma_end(&z);
    return st == ESPALIER_ERR_INPUT ? esi_fail(ctx, ESPALIER_ERR_INTERNAL, "liblzma refuses to compress") : st;
}

/* -------------------------------------------------------------------- zstd */

static espalier_status unzstd_all(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, const char *name)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    ZSTD_inBuffer from = {in, size, 0};
    espalier_status st = ESPALIER_OK;
    size_t rc = 1;

    if (!z) return fail_memory(ctx);
    if (ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, 27))) st = fail_memory(ctx);
    while (st == ESPALIER_OK && rc != 0) {
        ZSTD_outBuffer to;
        const size_t before = from.pos;

        if (out->size == out->capacity) st = grow(ctx, out);
        if (st != ESPALIER_OK) break;
        to = (ZSTD_outBuffer){out->data + out->size, ESI_MIN(out->capacity - out->size, (size_t)1 << 20), 0};
        rc = ZSTD_decompressStream(z, &to, &from);
        out->size += to.pos;
        if (ZSTD_isError(rc))
            st = fail_damaged(ctx, name);
        else if (rc != 0 && to.pos == 0 && from.pos == before)      /* neither input nor room */
            st = fail_damaged(ctx, name);
        else
            st = esi_check_cancel(ctx);
    }
    ZSTD_freeDCtx(z);
    if (st == ESPALIER_OK && (from.pos != size || out->size > out->limit)) st = fail_damaged(ctx, name);
    return st;
}

static espalier_status zstd_all(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, int level)
{
    const size_t bound = ZSTD_compressBound(size);
    uint8_t *data = esi_alloc(ctx, bound, 1, "compressed data");
    size_t n;

    if (!data) return ESPALIER_ERR_RESOURCE;
    out->data = data;
    n = ZSTD_compress(data, bound, in, size, level);
    if (ZSTD_isError(n)) return fail_memory(ctx);
    data = esi_realloc(ctx, data, n, 1, "compressed data");
    if (!data) return ESPALIER_ERR_RESOURCE;
    out->data = data;
    out->size = n;
    return ESPALIER_OK;
}

static espalier_status decompress(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, esi_compression method, int level,
                                  const char *name)
{
    switch (method) {
    case ESI_COMPRESSION_DEFLATE: return inflate_all(ctx, out, in, size, name);
    case ESI_COMPRESSION_LZMA: return unlzma_all(ctx, out, in, size, level, name);
    case ESI_COMPRESSION_ZSTD: return unzstd_all(ctx, out, in, size, name);
    default: return copy_plain(ctx, out, in, size, name);
    }
}

static espalier_status compress_block(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, esi_compression method,
                                      int level)
{
    switch (method) {
    case ESI_COMPRESSION_DEFLATE: return deflate_all(ctx, out, in, size, level);
    case ESI_COMPRESSION_LZMA: return lzma_all(ctx, out, in, size, level);
    case ESI_COMPRESSION_ZSTD: return zstd_all(ctx, out, in, size, level);
    default: return copy_plain(ctx, out, in, size, "data");
    }
}

#else

static espalier_status decompress(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, esi_compression method, int level,
                                  const char *name)
{
    (void)level;
    if (method == ESI_COMPRESSION_NONE) return copy_plain(ctx, out, in, size, name);
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: this build has no compression libraries", name);
}

static espalier_status compress_block(espalier_context *ctx, growing *out, const uint8_t *in, size_t size, esi_compression method,
                                      int level)
{
    return decompress(ctx, out, in, size, method, level, "output");
}

uint32_t esi_crc32(uint32_t crc, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

#endif

espalier_status esi_compress(espalier_context *ctx, uint8_t **out, size_t *out_size, const uint8_t *in, size_t size, esi_compression method,
                             int level)
{
    growing g = {.limit = SIZE_MAX - 1};
    espalier_status st;

    if (level <= 0 || level > esi_compression_max_level(method)) level = esi_compression_default_level(method);
    st = compress_block(ctx, &g, in, size, method, level);
    if (st != ESPALIER_OK) {
        esi_free(ctx, g.data);
        g = (growing){0};
    }
    *out = g.data;
    *out_size = g.size;
    return st;
}

espalier_status esi_decompress(espalier_context *ctx, uint8_t *out, size_t out_size, const uint8_t *in, size_t size, esi_compression method,
                               int level, const char *name)
{
    uint8_t more;
    growing g = {.data = out_size > 0 ? out : &more, .capacity = out_size, .limit = out_size, .fixed = true};
    espalier_status st = decompress(ctx, &g, in, size, method, level, name);

    if (st == ESPALIER_OK && g.size != out_size) st = fail_damaged(ctx, name);
    return st;
}

espalier_status esi_decompress_up_to(espalier_context *ctx, uint8_t **out, size_t *out_size, size_t limit, const uint8_t *in, size_t size,
                                     esi_compression method, int level, const char *name)
{
    growing g = {.limit = limit};
    espalier_status st = decompress(ctx, &g, in, size, method, level, name);

    if (st != ESPALIER_OK) {
        esi_free(ctx, g.data);
        g = (growing){0};
    }
    *out = g.data;
    *out_size = g.size;
    return st;
}
