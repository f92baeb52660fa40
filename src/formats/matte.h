/* SPDX-License-Identifier: MIT
 *
 * matte.h: what the matting networks' own programs do before and after the network: picture -> square of floats, map of floats -> alpha in
 * bytes at the picture's size. Knows no network.
 */
#ifndef ESI_MATTE_H
#define ESI_MATTE_H

#include "base/base.h"

#include <espalier/image.h>

typedef enum esi_matte_recipe {
    ESI_MATTE_BIREFNET, /* TRELLIS.2: bilinear with antialias, ImageNet; bytes, then bicubic */
    ESI_MATTE_U2NET,    /* rembg: Lanczos, divided by the largest value, ImageNet; stretched to 0..255, then Lanczos */
    ESI_MATTE_ISNET,    /* DIS: bilinear without antialias, minus a half; bilinear in floats, then stretched to 0..255 */
    ESI_MATTE_RECIPE_COUNT
} esi_matte_recipe;

/* The side of the square that the released network was trained at: 1024, 320, 1024. */
uint32_t esi_matte_side(esi_matte_recipe recipe);

/* *out_chw = [3, side, side] (esi_alloc) of the first three channels of `rgb`. `resized`, if not NULL, receives the side x side picture. */
espalier_status esi_matte_prepare(espalier_context *ctx, float **out_chw, const espalier_image *rgb, esi_matte_recipe recipe, uint32_t side,
                                  espalier_image *resized);

/* *mask (1 channel, w x h) from the network's map [side, side] of values in [0, 1]. `small`, if not NULL, receives the bytes before they
 * are resized, where the recipe has them. A map without any contrast gives an empty mask where the recipe stretches. */
espalier_status esi_matte_finish(espalier_context *ctx, espalier_image *mask, const float *map, uint32_t side, esi_matte_recipe recipe,
                                 uint32_t w, uint32_t h, espalier_image *small);

/* *out = RGBA: colours of `rgb` (3 or 4 channels) unchanged, alpha from `mask` of the same size. */
espalier_status esi_matte_apply(espalier_context *ctx, espalier_image *out, const espalier_image *rgb, const espalier_image *mask);

#endif
