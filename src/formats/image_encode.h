/* SPDX-License-Identifier: MIT
 *
 * image_encode.h: pictures to compressed bytes in memory.
 */
#ifndef ESI_IMAGE_ENCODE_H
#define ESI_IMAGE_ENCODE_H

#include "base/surface.h"

/* esi_alloc'ed bytes. PNG: 1..4 channels; JPEG: 1 or 3 (alpha is dropped from 4); WebP: 3 or 4, lossless or quality 1..100, colours under
 * alpha 0 are kept. ERR_RESOURCE, ERR_INTERNAL (the library refuses). */
espalier_status esi_png_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture);
espalier_status esi_jpeg_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture, int quality);
espalier_status esi_webp_encode(espalier_context *ctx, uint8_t **out, size_t *size, const esi_texture *picture, bool lossless, int quality);

#endif
