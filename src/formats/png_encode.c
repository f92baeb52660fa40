/* SPDX-License-Identifier: MIT
 *
 * png_encode.c: picture -> PNG (W3C recommendation, 2003) in memory, on all threads. libpng compresses in one thread, which takes the time
 * of a whole postprocess for an 8192 atlas. Rows are filtered in parallel, then cut into strips that zlib compresses independently, each
 * with the 32 KiB before it as dictionary and ended on a byte, so that together they are one zlib stream. Strips do not depend on the
 * number of threads, so neither do the bytes.
 */
#include "formats/image_encode.h"

#include <stdlib.h>
#include <zlib.h>

#define LEVEL 4                    /* a percent larger than 6 at a third of the time */
#define STRIP ((size_t)512 << 10)  /* filtered bytes, about */
#define WINDOW ((size_t)32 << 10)
#define ROWS 16                    /* filtered by one task */
#define HEAD_SIZE 41               /* signature, IHDR, length and name of IDAT */

typedef struct png_strip {
    uint8_t *bytes;
    size_t size;
    uint32_t adler;
} png_strip;

typedef struct png_job {
    espalier_context *ctx;
    const esi_texture *picture;
    size_t row, strip_rows;        /* bytes of a row without its filter byte; rows of a strip */
    uint8_t *filtered;             /* [height][1 + row] */
    png_strip *strips;
    size_t n_strips;
} png_job;

/* --------------------------------------------------------------- filtering */

enum { NONE, SUB, UP, AVERAGE, PAETH, FILTERS };

static uint8_t paeth(int a, int b, int c)
{
    const int pa = abs(b - c), pb = abs(a - c), pc = abs(a + b - 2 * c);

    return (uint8_t)(pa <= pb && pa <= pc ? a : pb <= pc ? b : c);
}

static int predict(int filter, int a, int b, int c)
{
    switch (filter) {
    case SUB: return a;
    case UP: return b;
    case AVERAGE: return (a + b) / 2;
    case PAETH: return paeth(a, b, c);
    default: return 0;
    }
}

static uint64_t filter_byte(uint8_t *to, uint8_t value, int guess)
{
    *to = (uint8_t)(value - guess);
    return *to < 128 ? *to : 256u - *to;
}

/* One row by one filter; `up` is the row before, of zeros for the first. Returns the sum of absolute differences, the usual guess at how
 * well it compresses. */
static inline uint64_t filter_row(uint8_t *restrict to, const uint8_t *restrict at, const uint8_t *restrict up, size_t n, size_t bpp,
                                  int filter)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < bpp; i++) sum += filter_byte(to + i, at[i], predict(filter, 0, up[i], 0));
    for (size_t i = bpp; i < n; i++) sum += filter_byte(to + i, at[i], predict(filter, at[i - bpp], up[i], up[i - bpp]));
    return sum;
}

/* The filters of the inner loop as constants, so that each becomes its own loop. */
static uint64_t try_filter(uint8_t *to, const uint8_t *at, const uint8_t *up, size_t n, size_t bpp, int filter)
{
    switch (filter) {
    case SUB: return filter_row(to, at, up, n, bpp, SUB);
    case UP: return filter_row(to, at, up, n, bpp, UP);
    case AVERAGE: return filter_row(to, at, up, n, bpp, AVERAGE);
    case PAETH: return filter_row(to, at, up, n, bpp, PAETH);
    default: return filter_row(to, at, up, n, bpp, NONE);
    }
}

static void filter_rows(void *arg, size_t task, int slot)
{
    png_job *j = arg;
    const esi_texture *p = j->picture;
    const size_t end = ESI_MIN((task + 1) * ROWS, (size_t)p->height);
    uint8_t *zeros = esi_calloc(j->ctx, j->row, 2, "PNG rows"), *trial = zeros ? zeros + j->row : NULL;

    (void)slot;
    if (!zeros) return;
    for (size_t y = task * ROWS; y < end; y++) {
        const uint8_t *at = p->pixels + y * j->row, *up = y > 0 ? at - j->row : zeros;
        uint8_t *to = j->filtered + y * (j->row + 1);
        uint64_t best = UINT64_MAX;

        for (int filter = NONE; filter < FILTERS; filter++) {
            const uint64_t sum = try_filter(trial, at, up, j->row, p->channels, filter);

            if (sum >= best) continue;
            best = sum;
            to[0] = (uint8_t)filter;
            memcpy(to + 1, trial, j->row);
        }
    }
    esi_free(j->ctx, zeros);
}

/* ------------------------------------------------------------- compressing */

static void *zlib_alloc(void *ctx, unsigned count, unsigned size)
{
    return esi_alloc(ctx, count, size, "PNG codec");
}

static void zlib_free(void *ctx, void *ptr)
{
    esi_free(ctx, ptr);
}

static void compress_strip(void *arg, size_t task, int slot)
{
    png_job *j = arg;
    png_strip *s = &j->strips[task];
    const size_t all = j->picture->height * (j->row + 1), begin = task * j->strip_rows * (j->row + 1);
    const size_t size = ESI_MIN(j->strip_rows * (j->row + 1), all - begin), window = ESI_MIN(begin, WINDOW);
    const bool last = task + 1 == j->n_strips;
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = j->ctx};
    size_t bound;
    int rc;

    (void)slot;
    if (deflateInit2(&z, LEVEL, Z_DEFLATED, -15, 9, Z_FILTERED) != Z_OK) {
        (void)esi_fail(j->ctx, ESPALIER_ERR_RESOURCE, "out of memory: PNG codec");
        return;
    }
    bound = deflateBound(&z, (uLong)size) + 16;
    s->bytes = esi_alloc(j->ctx, bound, 1, "an encoded picture");
    if (s->bytes) {
        if (window > 0) (void)deflateSetDictionary(&z, j->filtered + begin - window, (uInt)window);
        z.next_in = j->filtered + begin;
        z.avail_in = (uInt)size;
        z.next_out = s->bytes;
        z.avail_out = (uInt)bound;
        rc = deflate(&z, last ? Z_FINISH : Z_SYNC_FLUSH);
        s->size = bound - z.avail_out;
        s->adler = (uint32_t)adler32(1, j->filtered + begin, (uInt)size);
        if (rc != (last ? Z_STREAM_END : Z_OK) || z.avail_in != 0)
            (void)esi_fail(j->ctx, ESPALIER_ERR_INTERNAL, "zlib refuses to compress");
    }
    deflateEnd(&z);
}

/* --------------------------------------------------------------- container */

static void put_u32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(v >> (24 - 8 * i));
}

/* All strips as one zlib stream in one IDAT chunk. */
static espalier_status join(png_job *j, uint8_t **out, size_t *size)
{
    static const uint8_t head[16] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
    static const uint8_t tail[12] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82}, color[5] = {0, 0, 4, 2, 6};
    const esi_texture *p = j->picture;
    size_t data = 2 + 4, at = HEAD_SIZE + 2;
    uLong adler = 1;
    uint8_t *to;

    for (size_t i = 0; i < j->n_strips; i++) data += j->strips[i].size;
    if (data > INT32_MAX) return esi_fail(j->ctx, ESPALIER_ERR_RESOURCE, "a picture is over the 2 GiB of a PNG chunk");
    *size = HEAD_SIZE + data + 4 + sizeof tail;
    *out = to = esi_alloc(j->ctx, *size, 1, "an encoded picture");
    if (!to) return ESPALIER_ERR_RESOURCE;
    memcpy(to, head, sizeof head);
    put_u32(to + 16, p->width);
    put_u32(to + 20, p->height);
    memcpy(to + 24, (const uint8_t[5]){8, color[p->channels], 0, 0, 0}, 5);
    put_u32(to + 29, (uint32_t)crc32(0, to + 12, 17));
    put_u32(to + 33, (uint32_t)data);
    memcpy(to + 37, "IDAT", 4);
    memcpy(to + HEAD_SIZE, (const uint8_t[2]){0x78, 0x5e}, 2);         /* deflate, 32 KiB window, a fast level */
    for (size_t i = 0; i < j->n_strips; i++) {
        const size_t rows = i + 1 < j->n_strips ? j->strip_rows : p->height - i * j->strip_rows;

        memcpy(to + at, j->strips[i].bytes, j->strips[i].size);
        at += j->strips[i].size;
        adler = adler32_combine(adler, j->strips[i].adler, (z_off_t)(rows * (j->row + 1)));
    }
    put_u32(to + at, (uint32_t)adler);
    put_u32(to + at + 4, (uint32_t)crc32(0, to + 37, (uInt)(data + 4)));
    memcpy(to + at + 8, tail, sizeof tail);
    return ESPALIER_OK;
}

espalier_status esi_png_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture)
{
    png_job j = {.ctx = ctx, .picture = picture, .row = (size_t)picture->width * picture->channels};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *out = NULL;
    *size = 0;
    if (!picture->pixels || picture->width == 0 || picture->height == 0 || picture->channels < 1 || picture->channels > 4)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "a picture of %u x %u with %u channels cannot be a PNG", picture->width,
                        picture->height, picture->channels);
    if (picture->width > 1u << 20 || picture->height > INT32_MAX)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "a picture of %u x %u is too large for a PNG", picture->width, picture->height);
    j.strip_rows = ESI_MAX(STRIP / (j.row + 1), (size_t)1);
    j.n_strips = (picture->height + j.strip_rows - 1) / j.strip_rows;
    j.filtered = esi_alloc(ctx, picture->height, j.row + 1, "PNG rows");
    j.strips = esi_calloc(ctx, j.n_strips, sizeof *j.strips, "PNG strips");
    if (!j.filtered || !j.strips) goto done;
    st = esi_parallel(ctx, (picture->height + ROWS - 1) / ROWS, filter_rows, &j);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, j.n_strips, compress_strip, &j);
    if (st == ESPALIER_OK) st = join(&j, out, size);
done:
    for (size_t i = 0; j.strips && i < j.n_strips; i++) esi_free(ctx, j.strips[i].bytes);
    esi_free(ctx, j.strips);
    esi_free(ctx, j.filtered);
    return st;
}
