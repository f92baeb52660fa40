/* SPDX-License-Identifier: MIT
 *
 * image_fixture.h: small pictures of every kind, made in memory with the codec libraries' writers or put together by hand.
 */
#ifndef IMAGE_FIXTURE_H
#define IMAGE_FIXTURE_H

#include "weights_fixture.h"

#include "formats/image_codecs.h"

#include <png.h>
#include <jpeglib.h>
#include <webp/encode.h>

#define CORPUS ESPALIER_TEST_DATA "/fuzz/corpus/image/"

/* Decode a block of exactly that size, so that a sanitizer notices a read beyond the end. */
static inline espalier_status decode_copy(fixture *f, espalier_image *image, const void *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    assert_non_null(copy);
    if (len > 0) memcpy(copy, data, len);
    espalier_status st = espalier_image_decode(f->ctx, image, copy, len, "t.img");
    free(copy);
    return st;
}

static inline bytes corpus_file(const char *name)
{
    bytes b = {.len = 0};
    char path[512];
    snprintf(path, sizeof path, "%s%s", CORPUS, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("no %s", path);
    b.len = fread(b.data, 1, sizeof b.data, file);
    fclose(file);
    assert_true(b.len > 0 && b.len < sizeof b.data);
    return b;
}

/* ------------------------------------------------------------------ PNG */

typedef struct png_spec {
    uint32_t width, height;
    int depth, color_type, interlace;
    bool transparency;                   /* a tRNS chunk */
    const uint8_t *exif;
    size_t len_exif;
} png_spec;

enum { PNG_TEST_TRANSPARENT = 5 };       /* palette entries with an alpha */

static inline int png_samples(int color_type)
{
    switch (color_type) {
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    default: return 1;
    }
}

/* The stored sample. At 16 bits pixel (1, 0) differs from (0, 0) in the low byte only: transparency must compare all 16. */
static inline uint32_t png_sample(const png_spec *spec, uint32_t x, uint32_t y, uint32_t c)
{
    uint32_t low = 0;
    if (spec->depth == 16 && y == 0 && x == 1) {
        x = 0;
        low = 1;
    }
    uint32_t mixed = (x * 0x9e3779b1u) ^ (y * 0x85ebca6bu) ^ (c * 0xc2b2ae35u) ^ 0x5bd1e995u;
    mixed = (mixed ^ mixed >> 15) * 0x2c1b3c6du;
    return ((mixed >> 8) & ((1u << spec->depth) - 1)) ^ low;
}

static inline png_color png_palette_entry(uint32_t i)
{
    return (png_color){(uint8_t)(i * 37 + 11), (uint8_t)(i * 91 + 5), (uint8_t)(255 - i * 3)};
}

static inline uint8_t png_palette_alpha(uint32_t i)
{
    return (uint8_t)(i * 60);
}

static inline uint32_t png_palette_size(const png_spec *spec)
{
    return 1u << spec->depth;
}

static inline void png_put(png_struct *png, uint8_t *data, size_t len)
{
    put(png_get_io_ptr(png), data, len);
}

static inline void png_no_flush(png_struct *png)
{
    (void)png;
}

static inline void png_set_key(png_struct *png, png_info *info, const png_spec *spec)
{
    png_color_16 key = {0};
    uint8_t alpha[PNG_TEST_TRANSPARENT];
    int n = (int)ESI_MIN(png_palette_size(spec), (uint32_t)PNG_TEST_TRANSPARENT);
    for (int i = 0; i < n; i++) alpha[i] = png_palette_alpha((uint32_t)i);
    key.gray = (uint16_t)png_sample(spec, 0, 0, 0);
    key.red = (uint16_t)png_sample(spec, 0, 0, 0);
    key.green = (uint16_t)png_sample(spec, 0, 0, 1);
    key.blue = (uint16_t)png_sample(spec, 0, 0, 2);
    png_set_tRNS(png, info, spec->color_type == PNG_COLOR_TYPE_PALETTE ? alpha : NULL, n, &key);
}

static inline void png_pack_row(uint8_t *row, const png_spec *spec, uint32_t y)
{
    const uint32_t samples = (uint32_t)png_samples(spec->color_type), depth = (uint32_t)spec->depth;
    size_t bit = 0;
    memset(row, 0, (spec->width * samples * depth + 7) / 8);
    for (uint32_t x = 0; x < spec->width; x++) {
        for (uint32_t c = 0; c < samples; c++, bit += depth) {
            uint32_t v = png_sample(spec, x, y, c);
            if (depth == 16) row[bit / 8 + 1] = (uint8_t)v;
            if (depth == 16) v >>= 8;
            row[bit / 8] |= (uint8_t)(v << (depth >= 8 ? 0 : 8 - depth - bit % 8));
        }
    }
}

static inline bytes make_png(const png_spec *spec)
{
    bytes b = {.len = 0};
    png_color palette[256];
    png_struct *png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_info *info = png_create_info_struct(png);
    const size_t stride = ((size_t)spec->width * (size_t)png_samples(spec->color_type) * (size_t)spec->depth + 7) / 8;
    uint8_t *pixels = calloc(spec->height, stride);
    uint8_t **rows = calloc(spec->height, sizeof *rows);

    assert_non_null(pixels);
    assert_non_null(rows);
    for (uint32_t y = 0; y < spec->height; y++) {
        rows[y] = pixels + y * stride;
        png_pack_row(rows[y], spec, y);
    }
    png_set_write_fn(png, &b, png_put, png_no_flush);
    png_set_IHDR(png, info, spec->width, spec->height, spec->depth, spec->color_type, spec->interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (spec->color_type == PNG_COLOR_TYPE_PALETTE) {
        for (uint32_t i = 0; i < png_palette_size(spec); i++) palette[i] = png_palette_entry(i);
        png_set_PLTE(png, info, palette, (int)png_palette_size(spec));
    }
    if (spec->transparency) png_set_key(png, info, spec);
    if (spec->exif != NULL) {
        uint8_t exif[256];
        assert_true(spec->len_exif <= sizeof exif);
        memcpy(exif, spec->exif, spec->len_exif);
        png_set_eXIf_1(png, info, (uint32_t)spec->len_exif, exif);
    }
    png_write_info(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rows);
    free(pixels);
    return b;
}

static inline uint32_t png_crc(const uint8_t *data, size_t len)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static inline void put_u32_big(bytes *b, uint32_t v)
{
    const uint8_t big[4] = {(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v};
    put(b, big, 4);
}

static inline void put_png_chunk(bytes *b, const char *type, const void *data, size_t len)
{
    put_u32_big(b, (uint32_t)len);
    size_t start = b->len;
    put(b, type, 4);
    put(b, data, len);
    put_u32_big(b, png_crc(b->data + start, len + 4));
}

/* Position of a chunk's length field. */
static inline size_t find_png_chunk(const bytes *b, const char *type)
{
    for (size_t at = 8; at + 12 <= b->len;) {
        if (memcmp(b->data + at + 4, type, 4) == 0) return at;
        at += 12 + ((size_t)b->data[at] << 24 | (size_t)b->data[at + 1] << 16 | (size_t)b->data[at + 2] << 8 | b->data[at + 3]);
    }
    fail_msg("no chunk %s", type);
    return 0;
}

/* The file with `chunk` put in at `at`. */
static inline bytes insert_bytes(const bytes *b, size_t at, const bytes *chunk)
{
    bytes r = {.len = 0};
    put(&r, b->data, at);
    put(&r, chunk->data, chunk->len);
    put(&r, b->data + at, b->len - at);
    return r;
}

/* ----------------------------------------------------------------- EXIF */

static inline void put_ordered(bytes *b, uint32_t v, size_t len, bool big_endian)
{
    for (size_t i = 0; i < len; i++) put_number(b, v >> 8 * (big_endian ? len - 1 - i : i) & 255, 1);
}

/* A TIFF header and one directory: the camera's name, then the orientation. */
static inline bytes make_exif(uint32_t orientation, bool big_endian, bool prefix)
{
    bytes b = {.len = 0};
    if (prefix) put(&b, "Exif\0\0", 6);
    put_text(&b, big_endian ? "MM" : "II");
    put_ordered(&b, 42, 2, big_endian);
    put_ordered(&b, 8, 4, big_endian);           /* the directory follows the header */
    put_ordered(&b, 2, 2, big_endian);           /* entries */
    put_ordered(&b, 0x010f, 2, big_endian);      /* tag, type text, 2 bytes, "A" */
    put_ordered(&b, 2, 2, big_endian);
    put_ordered(&b, 2, 4, big_endian);
    put(&b, "A\0\0\0", 4);
    put_ordered(&b, 0x0112, 2, big_endian);      /* tag, type short, 1 value, value, padding */
    put_ordered(&b, 3, 2, big_endian);
    put_ordered(&b, 1, 4, big_endian);
    put_ordered(&b, orientation, 2, big_endian);
    put_zeros(&b, 2);
    put_zeros(&b, 4);                            /* no further directory */
    return b;
}

/* ----------------------------------------------------------------- JPEG */

typedef struct jpeg_spec {
    uint32_t width, height;
    int components;                      /* 1 or 3 */
    const uint8_t *pixels;
    bool separate_scans;                 /* one scan per component */
    const bytes *exif;
} jpeg_spec;

static inline bytes make_jpeg(const jpeg_spec *spec)
{
    static const jpeg_scan_info scans[3] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
    struct jpeg_compress_struct codec;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long len = 0;
    bytes b = {.len = 0};

    codec.err = jpeg_std_error(&errors);
    jpeg_create_compress(&codec);
    jpeg_mem_dest(&codec, &out, &len);
    codec.image_width = spec->width;
    codec.image_height = spec->height;
    codec.input_components = spec->components;
    codec.in_color_space = spec->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&codec);
    jpeg_set_quality(&codec, 100, TRUE);
    for (int i = 0; i < spec->components; i++) codec.comp_info[i].h_samp_factor = codec.comp_info[i].v_samp_factor = 1;
    if (spec->separate_scans) {
        codec.scan_info = scans;
        codec.num_scans = 3;
    }
    jpeg_start_compress(&codec, TRUE);
    if (spec->exif != NULL) jpeg_write_marker(&codec, JPEG_APP0 + 1, spec->exif->data, (unsigned)spec->exif->len);
    while (codec.next_scanline < codec.image_height) {
        uint8_t row[3 * 64];
        size_t stride = (size_t)spec->width * (size_t)spec->components;
        memset(row, 128, sizeof row);
        if (spec->pixels != NULL) memcpy(row, spec->pixels + codec.next_scanline * stride, ESI_MIN(stride, sizeof row));
        JSAMPROW rows = row;
        jpeg_write_scanlines(&codec, &rows, 1);
    }
    jpeg_finish_compress(&codec);
    put(&b, out, len);
    jpeg_destroy_compress(&codec);
    free(out);
    return b;
}

/* ----------------------------------------------------------------- WebP */

/* The VP8L chunk of a lossless picture, padded. */
static inline bytes make_vp8l(const uint8_t *rgba, int width, int height)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    bytes b = {.len = 0};

    assert_true(WebPConfigInit(&config) && WebPPictureInit(&picture));
    config.lossless = 1;
    config.exact = 1;
    picture.use_argb = 1;
    picture.width = width;
    picture.height = height;
    WebPMemoryWriterInit(&writer);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    assert_true(WebPPictureImportRGBA(&picture, rgba, width * 4));
    assert_true(WebPEncode(&config, &picture));
    assert_true(writer.size > 12 && memcmp(writer.mem + 12, "VP8L", 4) == 0);
    put(&b, writer.mem + 12, writer.size - 12);
    WebPPictureFree(&picture);
    WebPMemoryWriterClear(&writer);
    return b;
}

static inline void put_webp_chunk(bytes *b, const char *type, const void *data, size_t len)
{
    put(b, type, 4);
    put_u32(b, (uint32_t)len);
    put(b, data, len);
    put_zeros(b, len & 1);
}

static inline void put_vp8x(bytes *b, uint8_t flags, uint32_t width, uint32_t height)
{
    bytes x = {.len = 0};
    put_u32(&x, flags);
    put_number(&x, width - 1, 3);
    put_number(&x, height - 1, 3);
    put_webp_chunk(b, "VP8X", x.data, x.len);
}

static inline bytes riff(const bytes *chunks)
{
    bytes b = {.len = 0};
    put_text(&b, "RIFF");
    put_u32(&b, (uint32_t)chunks->len + 4);
    put_text(&b, "WEBP");
    put(&b, chunks->data, chunks->len);
    return b;
}

enum { WEBP_HAS_ALPHA = 0x10, WEBP_HAS_EXIF = 0x08, WEBP_HAS_ANIMATION = 0x02 };

#endif
