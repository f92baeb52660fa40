/* SPDX-License-Identifier: MIT
 *
 * espalier/image.h: pictures in (PNG, JPEG, WebP) and out (PNG, WebP).
 */
#ifndef ESPALIER_IMAGE_H
#define ESPALIER_IMAGE_H

#include <espalier/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 8-bit picture, rows top to bottom, `channels` interleaved bytes per pixel (1 = mask, 3 = RGB, 4 = RGBA straight alpha),
 * no padding: pixel (x, y) starts at pixels[(y * width + x) * channels]. */
typedef struct espalier_image {
    uint8_t *pixels;
    uint32_t width, height;
    uint32_t channels;
    uint64_t alloc_bytes;          /* private */
    espalier_allocator allocator;  /* private: who releases `pixels` */
} espalier_image;

/* Decode a PNG, JPEG or WebP held in memory; the format is told by its first bytes. EXIF orientation is applied; palette, gray + alpha and
 * tRNS become RGBA; 16 bit become 8 by >> 8; CMYK and YCCK JPEG become RGB; the first frame of an animation is taken.
 * `name` is used in messages only (a path, or NULL).
 * ESPALIER_OK: *out has 3 or 4 channels and is released with espalier_image_free(). Otherwise *out is zeroed:
 *   ESPALIER_ERR_INPUT     not a picture this library reads, or damaged
 *   ESPALIER_ERR_RESOURCE  a side over the context's limits, or no memory */
ESPALIER_API espalier_status espalier_image_decode(espalier_context *ctx, espalier_image *out,
                                                   const void *bytes, size_t len_bytes, const char *name);
/* The same from a file; also ESPALIER_ERR_INPUT when it cannot be read, ESPALIER_ERR_RESOURCE when it is over the context's limit. */
ESPALIER_API espalier_status espalier_image_load(espalier_context *ctx, espalier_image *out, const char *path);

/* A zeroed picture, e.g. to fill with pixels of your own. ESPALIER_ERR_ARG: a side of 0 or channels other than 1, 3, 4;
 * ESPALIER_ERR_RESOURCE: a side over the context's limits, or no memory. */
ESPALIER_API espalier_status espalier_image_create(espalier_context *ctx, espalier_image *out,
                                                   uint32_t width, uint32_t height, uint32_t channels);
ESPALIER_API void espalier_image_free(espalier_image *image);      /* NULL and zeroed are fine */

/* 1 if the picture has an alpha channel with some value other than 255, else 0. */
ESPALIER_API int espalier_image_has_alpha(const espalier_image *image);

/* Write a PNG atomically (temporary name, fsync, rename): after a failure the file at `path` is what it was. ESPALIER_ERR_OUTPUT,
 * ESPALIER_ERR_ARG (an empty picture). */
ESPALIER_API espalier_status espalier_image_save_png(espalier_context *ctx, const espalier_image *image, const char *path);

/* By suffix: .png, or .webp (lossless; a mask becomes gray RGB). Atomic as above. ERR_OUTPUT; ERR_ARG (another suffix, an empty picture);
 * ERR_RESOURCE: a side over the 16383 pixels of WebP. */
ESPALIER_API espalier_status espalier_image_save(espalier_context *ctx, const espalier_image *image, const char *path);
/* 1 if espalier_image_save() knows the suffix of `path`. */
ESPALIER_API int espalier_image_can_save(const char *path);

#ifdef __cplusplus
}
#endif
#endif
