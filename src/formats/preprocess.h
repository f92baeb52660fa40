/* SPDX-License-Identifier: MIT
 *
 * preprocess.h: from a decoded picture to what the image encoder sees, byte for byte as TRELLIS.2 does it: the object cut out, centred in
 * a square, on black; then resized and normalised.
 */
#ifndef ESI_PREPROCESS_H
#define ESI_PREPROCESS_H

#include "base/base.h"

#include <espalier/image.h>

#define ESI_FOREGROUND_ALPHA 204   /* 0.8 * 255: pixels above it belong to the object */

/* Where the alpha of a picture without transparency comes from. All zero: from nowhere, such a picture is refused. */
typedef struct esi_matte_source {
    /* Fill *mask (1 channel, the size of `rgb`) for `rgb` (3 channels); the caller frees it. NULL = none. */
    espalier_status (*fn)(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask);
    /* Sees the RGBA picture, wherever its alpha is from, before the object is looked for in it; may change the alpha. NULL = none. */
    espalier_status (*check)(void *user, espalier_context *ctx, espalier_image *rgba);
    void *user;
    bool over_alpha;           /* as if the picture had no transparency */
    bool opaque;               /* take the picture whole; wins over fn */
    const char *name;          /* of the picture, for messages; NULL = "picture" */
} esi_matte_source;

/* Intermediate pictures for inspection and tests; zeroed where a step did not happen. */
typedef struct esi_preprocess_steps {
    espalier_image rembg_in;   /* what matte.fn got */
    espalier_image resized;    /* after the reduction to 1024, when there was one */
    espalier_image crop;       /* RGBA square */
} esi_preprocess_steps;
void esi_preprocess_steps_free(esi_preprocess_steps *steps);       /* NULL and zeroed are fine */

/* *rgba = `in` (RGB or RGBA) with the alpha to cut out by, at its own size; the first half of the following. ERR_INPUT: no transparency and
 * no matte. */
espalier_status esi_matte_picture(espalier_context *ctx, espalier_image *rgba, const espalier_image *in, const esi_matte_source *matte);

/* *out_rgb = the object of `in` (RGB or RGBA) on black, a square of at most about 1024 a side. `matte` may be NULL (= all zero), steps too.
 * ESPALIER_ERR_INPUT: no transparency and no matte, no pixel with alpha above 204, an object of one pixel, a picture too thin to reduce.
 * On failure *out_rgb and *steps are zeroed. */
espalier_status esi_preprocess(espalier_context *ctx, espalier_image *out_rgb, const espalier_image *in, const esi_matte_source *matte,
                               esi_preprocess_steps *steps);

/* *out_chw = [3, S, S] floats (esi_alloc): the picture at S x S with ImageNet's mean and deviation taken out. An RGBA picture is resized as
 * such and its alpha dropped. `resized`, if not NULL, receives the S x S picture. */
espalier_status esi_image_condition_pixels(espalier_context *ctx, float **out_chw, const espalier_image *image, uint32_t S,
                                           espalier_image *resized);

/* The same normalisation for other networks: out[c * n + i] = (pixel i, channel c / 255 - mean[c]) / deviation[c], each step rounded to
 * fp32. `image` has at least 3 channels, out [3, n]. */
void esi_image_normalize(float *out, const espalier_image *image, const float mean[3], const float deviation[3]);
extern const float esi_imagenet_mean[3], esi_imagenet_deviation[3];

#endif
