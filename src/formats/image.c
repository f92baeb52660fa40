/* SPDX-License-Identifier: MIT
 *
 * image.c: the public picture calls: telling PNG, JPEG and WebP apart by their first bytes, checking announced sizes against the limits
 * before any pixel is allocated, and turning pictures upright. The codecs themselves are in image_png.c, image_jpeg.c and image_webp.c and
 * are left out of builds without image libraries.
 */
#include "formats/image_codecs.h"
#include "formats/image_encode.h"

/* ------------------------------------------------------------ pictures */

size_t esi_image_size(const espalier_image *image)
{
    return (size_t)image->width * image->height * image->channels;     /* fits: checked when it was allocated */
}

static espalier_status new_image(espalier_context *ctx, espalier_image *out, uint32_t width, uint32_t height, uint32_t channels,
                                 const char *name)
{
    size_t size = 0;

    memset(out, 0, sizeof *out);
    if (width == 0 || height == 0 || (channels != 1 && channels != 3 && channels != 4)) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: %u x %u with %u channels asked for", name, (unsigned)width, (unsigned)height,
                        (unsigned)channels);
    }
    if (!esi_mul_size(&size, width, height) || !esi_mul_size(&size, size, channels)) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: %u x %u pixels do not fit into memory", name, (unsigned)width, (unsigned)height);
    }
    /* Pictures outlive their context, so they are not on its account; the budget still bounds each one. */
    if (size > esi_memory_left(ctx)) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: %u x %u pixels exceed the memory budget; make the picture smaller", name,
                        (unsigned)width, (unsigned)height);
    }
    const espalier_allocator *allocator = esi_allocator(ctx);
    out->pixels = esi_raw_alloc(allocator, size);
    if (out->pixels == NULL) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: no memory for %u x %u pixels", name, (unsigned)width, (unsigned)height);
    }
    out->width = width;
    out->height = height;
    out->channels = channels;
    out->alloc_bytes = size;
    out->allocator = *allocator;
    return ESPALIER_OK;
}

espalier_status esi_image_new(espalier_context *ctx, espalier_image *out, uint32_t width, uint32_t height, uint32_t channels)
{
    return new_image(ctx, out, width, height, channels, "picture");
}

espalier_status esi_image_check_size(espalier_context *ctx, uint32_t width, uint32_t height, const char *name)
{
    uint32_t limit = esi_limits(ctx)->max_image_side;
    if (width == 0 || height == 0) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: a picture of %u x %u pixels", name, (unsigned)width, (unsigned)height);
    }
    if (width > limit || height > limit) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: %u x %u pixels are more than the limit of %u on a side; make the picture smaller",
                        name, (unsigned)width, (unsigned)height, (unsigned)limit);
    }
    return ESPALIER_OK;
}

espalier_status esi_image_new_from_file(espalier_context *ctx, espalier_image *out, uint32_t width, uint32_t height, uint32_t channels,
                                        const char *name)
{
    memset(out, 0, sizeof *out);
    espalier_status st = esi_image_check_size(ctx, width, height, name);
    if (st != ESPALIER_OK) return st;
    return new_image(ctx, out, width, height, channels, name);
}

espalier_status espalier_image_create(espalier_context *ctx, espalier_image *out, uint32_t width, uint32_t height, uint32_t channels)
{
    esi_fp_state fp;
    if (out != NULL) memset(out, 0, sizeof *out);
    if (ctx == NULL || out == NULL) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = ESPALIER_OK;
    if (width > 0 && height > 0) st = esi_image_check_size(ctx, width, height, "picture");
    if (st == ESPALIER_OK) st = esi_image_new(ctx, out, width, height, channels);
    if (st == ESPALIER_OK) memset(out->pixels, 0, esi_image_size(out));
    return esi_leave(ctx, &fp, st);
}

void espalier_image_free(espalier_image *image)
{
    if (image == NULL) return;
    if (image->pixels != NULL) esi_raw_free(&image->allocator, image->pixels, (size_t)image->alloc_bytes);
    memset(image, 0, sizeof *image);
}

int espalier_image_has_alpha(const espalier_image *image)
{
    if (image == NULL || image->pixels == NULL || image->channels != 4) return 0;
    size_t size = esi_image_size(image);
    for (size_t i = 3; i < size; i += 4) {
        if (image->pixels[i] != 255) return 1;
    }
    return 0;
}

static uint64_t fnv1a(uint64_t hash, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t esi_image_hash(const espalier_image *image)
{
    const uint32_t words[3] = {image->width, image->height, image->channels};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < ESI_COUNT(words); i++) {
        const uint8_t bytes[4] = {words[i] & 255, words[i] >> 8 & 255, words[i] >> 16 & 255, words[i] >> 24};
        hash = fnv1a(hash, bytes, sizeof bytes);
    }
    return fnv1a(hash, image->pixels, esi_image_size(image));
}

/* --------------------------------------------------------- orientation */

/* Where pixel (x, y) of the upright picture lies in the stored one of w x h pixels. Orientations 5 to 8 swap the axes. */
static size_t stored_index(int orientation, size_t x, size_t y, size_t w, size_t h)
{
    switch (orientation) {
    case 2: return y * w + (w - 1 - x);                    /* mirrored left to right */
    case 3: return (h - 1 - y) * w + (w - 1 - x);          /* upside down */
    case 4: return (h - 1 - y) * w + x;                    /* mirrored top to bottom */
    case 5: return x * w + y;                              /* transposed */
    case 6: return (h - 1 - x) * w + y;                    /* to be turned right */
    case 7: return (h - 1 - x) * w + (w - 1 - y);          /* transposed over the other diagonal */
    case 8: return x * w + (w - 1 - y);                    /* to be turned left */
    default: return y * w + x;
    }
}

espalier_status esi_image_apply_orientation(espalier_context *ctx, espalier_image *out, espalier_image *in, int orientation)
{
    espalier_status st = ESPALIER_OK;

    if (orientation <= 1 || orientation > 8) {
        *out = *in;
        memset(in, 0, sizeof *in);
        return ESPALIER_OK;
    }
    bool swapped = orientation >= 5;
    st = esi_image_new(ctx, out, swapped ? in->height : in->width, swapped ? in->width : in->height, in->channels);
    if (st != ESPALIER_OK) goto done;
    uint8_t *to = out->pixels;
    for (uint32_t y = 0; y < out->height; y++) {
        if (y % 16 == 0) st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK) break;
        for (uint32_t x = 0; x < out->width; x++, to += in->channels) {
            const uint8_t *from = in->pixels + stored_index(orientation, x, y, in->width, in->height) * in->channels;
            for (uint32_t c = 0; c < in->channels; c++) to[c] = from[c];
        }
    }
done:
    if (st != ESPALIER_OK) espalier_image_free(out);
    espalier_image_free(in);
    return st;
}

/* ------------------------------------------------------------- decoding */

#ifdef ESPALIER_HAVE_IMAGES

typedef espalier_status (*decode_fn)(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                                     const char *name);

static bool starts_with(const uint8_t *bytes, size_t len_bytes, size_t at, const char *magic, size_t len_magic)
{
    return len_bytes >= at + len_magic && memcmp(bytes + at, magic, len_magic) == 0;
}

static decode_fn find_decoder(const uint8_t *bytes, size_t len_bytes)
{
    if (starts_with(bytes, len_bytes, 0, "\x89PNG\r\n\x1a\n", 8)) return esi_png_decode;
    if (starts_with(bytes, len_bytes, 0, "\xff\xd8\xff", 3)) return esi_jpeg_decode;
    if (starts_with(bytes, len_bytes, 0, "RIFF", 4) && starts_with(bytes, len_bytes, 8, "WEBP", 4)) return esi_webp_decode;
    return NULL;
}

static espalier_status decode(espalier_context *ctx, espalier_image *out, const uint8_t *bytes, size_t len_bytes, const char *name)
{
    espalier_image stored;
    int orientation = 1;
    espalier_status st;

    if (len_bytes == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: the file is empty", name);
    decode_fn decoder = find_decoder(bytes, len_bytes);
    if (decoder == NULL) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: not a PNG, JPEG or WebP picture", name);
    st = decoder(ctx, &stored, &orientation, bytes, len_bytes, name);
    if (st != ESPALIER_OK) return st;
    return esi_image_apply_orientation(ctx, out, &stored, orientation);
}

#else

static espalier_status decode(espalier_context *ctx, espalier_image *out, const uint8_t *bytes, size_t len_bytes, const char *name)
{
    (void)out;
    (void)bytes;
    (void)len_bytes;
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: built without image codecs", name);
}

espalier_status esi_png_save(espalier_context *ctx, const espalier_image *image, const char *path)
{
    (void)image;
    return esi_fail(ctx, ESPALIER_ERR_OUTPUT, "%s: built without image codecs", path);
}

#endif

espalier_status espalier_image_decode(espalier_context *ctx, espalier_image *out, const void *bytes, size_t len_bytes, const char *name)
{
    esi_fp_state fp;
    if (out != NULL) memset(out, 0, sizeof *out);
    if (ctx == NULL || out == NULL || (bytes == NULL && len_bytes > 0)) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    return esi_leave(ctx, &fp, decode(ctx, out, bytes, len_bytes, name != NULL ? name : "picture"));
}

espalier_status espalier_image_load(espalier_context *ctx, espalier_image *out, const char *path)
{
    esi_fp_state fp;
    uint8_t *bytes = NULL;
    size_t size = 0;

    if (out != NULL) memset(out, 0, sizeof *out);
    if (ctx == NULL || out == NULL || path == NULL) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_file_read(ctx, &bytes, &size, path, esi_limits(ctx)->max_file_bytes, ESPALIER_ERR_INPUT);
    if (st == ESPALIER_OK) st = decode(ctx, out, bytes, size, path);
    esi_free(ctx, bytes);
    return esi_leave(ctx, &fp, st);
}

/* ------------------------------------------------------------- encoding */

static espalier_status check_writable(espalier_context *ctx, const espalier_image *image, const char *path)
{
    const bool channels = image->channels == 1 || image->channels == 3 || image->channels == 4;
    if (image->pixels != NULL && image->width > 0 && image->height > 0 && channels) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: no picture to write", path);
}

static espalier_status spread_gray(espalier_context *ctx, espalier_image *out, const espalier_image *gray)
{
    espalier_status st = esi_image_new(ctx, out, gray->width, gray->height, 3);
    if (st != ESPALIER_OK) return st;
    for (size_t i = 0, n = esi_image_size(gray); i < n; i++) memset(out->pixels + 3 * i, gray->pixels[i], 3);
    return ESPALIER_OK;
}

static espalier_status save_webp(espalier_context *ctx, const espalier_image *image, const char *path)
{
    espalier_image rgb = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    espalier_status st = image->channels == 1 ? spread_gray(ctx, &rgb, image) : ESPALIER_OK;

    if (st != ESPALIER_OK) return st;
    if (image->channels == 1) image = &rgb;
    const esi_texture picture = {image->pixels, image->width, image->height, image->channels};
    st = esi_webp_encode(ctx, &bytes, &size, &picture, true, 100);
    if (st == ESPALIER_OK) st = esi_file_write_all(ctx, path, bytes, size);
    esi_free(ctx, bytes);
    espalier_image_free(&rgb);
    return st;
}

static bool has_suffix(const char *path, const char *suffix)
{
    const char *own = esi_path_suffix(path);
    for (; *own && *suffix; own++, suffix++)
        if (*own != *suffix && (*own < 'A' || *own > 'Z' || *own - 'A' + 'a' != *suffix)) return false;
    return *own == *suffix;
}

int espalier_image_can_save(const char *path)
{
    return path != NULL && (has_suffix(path, ".png") || has_suffix(path, ".webp"));
}

espalier_status espalier_image_save(espalier_context *ctx, const espalier_image *image, const char *path)
{
    esi_fp_state fp;

    if (ctx == NULL || image == NULL || path == NULL) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = check_writable(ctx, image, path);
    if (st == ESPALIER_OK && !espalier_image_can_save(path))
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "%s: pictures are written as .png or .webp", path);
    if (st == ESPALIER_OK) st = has_suffix(path, ".png") ? esi_png_save(ctx, image, path) : save_webp(ctx, image, path);
    return esi_leave(ctx, &fp, st);
}

espalier_status espalier_image_save_png(espalier_context *ctx, const espalier_image *image, const char *path)
{
    esi_fp_state fp;

    if (ctx == NULL || image == NULL || path == NULL) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = check_writable(ctx, image, path);
    if (st == ESPALIER_OK) st = esi_png_save(ctx, image, path);
    return esi_leave(ctx, &fp, st);
}
