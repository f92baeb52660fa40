/* SPDX-License-Identifier: MIT
 *
 * image_codecs.h: what image.c and the three decoders behind it share. A codec turns bytes into straight pixels as they are stored and
 * reports the EXIF orientation; image.c tells the format, turns the picture upright and owns the public calls.
 */
#ifndef ESI_IMAGE_CODECS_H
#define ESI_IMAGE_CODECS_H

#include "base/base.h"

#include <espalier/image.h>

/* Pixels uninitialised, whatever the context's side limit (which is about untrusted files): for results of our own operations.
 * channels 1, 3 or 4; sides >= 1. On failure *out is zeroed. */
espalier_status esi_image_new(espalier_context *ctx, espalier_image *out, uint32_t width, uint32_t height, uint32_t channels);
/* The same for a picture that a file announces: zero sides are ESPALIER_ERR_INPUT, sides over the limits ESPALIER_ERR_RESOURCE. */
espalier_status esi_image_new_from_file(espalier_context *ctx, espalier_image *out, uint32_t width, uint32_t height, uint32_t channels,
                                        const char *name);
/* The check alone, before a codec allocates anything of its own. */
espalier_status esi_image_check_size(espalier_context *ctx, uint32_t width, uint32_t height, const char *name);

/* Bytes of one picture. */
size_t esi_image_size(const espalier_image *image);
/* FNV-1a (64 bits) over width, height, channels (little-endian uint32 each) and the pixels: tells in a report whether two runs saw the same
 * picture. */
uint64_t esi_image_hash(const espalier_image *image);

/* *out = the picture `in` is meant to be seen as, given its EXIF orientation 1..8; takes over or releases the pixels of `in`. */
espalier_status esi_image_apply_orientation(espalier_context *ctx, espalier_image *out, espalier_image *in, int orientation);

/* Decoders. `name` is never NULL. *orientation is 1 when the file says nothing (valid). On failure *out is zeroed. */
espalier_status esi_png_decode(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                               const char *name);
espalier_status esi_jpeg_decode(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                                const char *name);
espalier_status esi_webp_decode(espalier_context *ctx, espalier_image *out, int *orientation, const uint8_t *bytes, size_t len_bytes,
                                const char *name);
/* Encoder; status ESPALIER_ERR_OUTPUT on failure, the file at `path` untouched then. */
espalier_status esi_png_save(espalier_context *ctx, const espalier_image *image, const char *path);

#endif
