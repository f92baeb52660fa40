/* SPDX-License-Identifier: MIT
 *
 * matte.c: the pictures around the matting networks, bit for bit as their reference programs make them: TRELLIS.2's BiRefNet wrapper
 * (torchvision over Pillow), rembg's U2-Net session (Pillow, numpy), the inference script of DIS (torch).
 */
#include "formats/matte.h"

#include "formats/image_codecs.h"
#include "formats/image_resize.h"
#include "formats/image_sample.h"
#include "formats/preprocess.h"

#define SMALLEST_DIVISOR 1e-6 /* of an all-black picture */

uint32_t esi_matte_side(esi_matte_recipe recipe)
{
    return recipe == ESI_MATTE_U2NET ? 320 : 1024;
}

/* --------------------------------------------- bilinear without antialias */

static float blend(const esi_linear_taps *down, const esi_linear_taps *across, const float value[4])
{
    return down->weight[0] * (across->weight[0] * value[0] + across->weight[1] * value[1]) +
           down->weight[1] * (across->weight[0] * value[2] + across->weight[1] * value[3]);
}

static espalier_status resize_plain(espalier_context *ctx, espalier_image *out, const espalier_image *in, uint32_t side)
{
    espalier_status st = esi_image_new(ctx, out, side, side, 3);
    if (st != ESPALIER_OK) return st;
    for (uint32_t y = 0; y < side; y++) {
        const esi_linear_taps down = esi_linear_taps_at(y, in->height, side, false);
        for (uint32_t x = 0; x < side; x++) {
            const esi_linear_taps across = esi_linear_taps_at(x, in->width, side, false);
            const uint8_t *pixel[4];
            for (int t = 0; t < 4; t++)
                pixel[t] = in->pixels + ((size_t)down.index[t / 2] * in->width + (size_t)across.index[t % 2]) * in->channels;
            for (int c = 0; c < 3; c++) {
                const float value[4] = {pixel[0][c], pixel[1][c], pixel[2][c], pixel[3][c]};
                out->pixels[((size_t)y * side + x) * 3 + (size_t)c] = (uint8_t)blend(&down, &across, value);
            }
        }
    }
    return ESPALIER_OK;
}

static void resize_map(float *out, const float *map, uint32_t side, uint32_t w, uint32_t h)
{
    for (uint32_t y = 0; y < h; y++) {
        const esi_linear_taps down = esi_linear_taps_at(y, side, h, false);
        const float *upper = map + (size_t)down.index[0] * side, *lower = map + (size_t)down.index[1] * side;
        for (uint32_t x = 0; x < w; x++) {
            const esi_linear_taps across = esi_linear_taps_at(x, side, w, false);
            const float value[4] = {upper[across.index[0]], upper[across.index[1]], lower[across.index[0]], lower[across.index[1]]};
            out[(size_t)y * w + x] = blend(&down, &across, value);
        }
    }
}

/* ------------------------------------------------------------------- before */

/* (value / largest - mean) / deviation, in doubles like numpy, then fp32. */
static void normalize_by_largest(float *out, const espalier_image *image)
{
    static const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
    const size_t n = (size_t)image->width * image->height;
    uint8_t largest = 0;

    for (size_t i = 0; i < 3 * n; i++) largest = ESI_MAX(largest, image->pixels[i]);
    const double divisor = largest > 0 ? (double)largest : SMALLEST_DIVISOR;
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < n; i++) out[c * n + i] = (float)(((double)image->pixels[i * 3 + c] / divisor - mean[c]) / deviation[c]);
}

static espalier_status drop_alpha(espalier_context *ctx, espalier_image *out, const espalier_image *in)
{
    espalier_status st = esi_image_new(ctx, out, in->width, in->height, 3);
    if (st != ESPALIER_OK) return st;
    for (size_t i = 0, n = (size_t)in->width * in->height; i < n; i++) memcpy(out->pixels + 3 * i, in->pixels + in->channels * i, 3);
    return ESPALIER_OK;
}

espalier_status esi_matte_prepare(espalier_context *ctx, float **out_chw, const espalier_image *rgb, esi_matte_recipe recipe, uint32_t side,
                                  espalier_image *resized)
{
    static const float half[3] = {0.5f, 0.5f, 0.5f}, one[3] = {1.0f, 1.0f, 1.0f};
    espalier_image square = {0}, plain = {0};
    espalier_status st = ESPALIER_OK;
    float *values;

    *out_chw = NULL;
    if (resized) memset(resized, 0, sizeof *resized);
    if (rgb->pixels == NULL || (rgb->channels != 3 && rgb->channels != 4) || side == 0)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "matte: not an RGB or RGBA picture");
    if (rgb->channels == 4) st = drop_alpha(ctx, &plain, rgb); /* resizing must not premultiply */
    if (st != ESPALIER_OK) return st;
    const espalier_image *from = rgb->channels == 4 ? &plain : rgb;
    if (recipe == ESI_MATTE_ISNET)
        st = resize_plain(ctx, &square, from, side);
    else
        st = esi_image_resize(ctx, &square, from, side, side, recipe == ESI_MATTE_U2NET ? ESI_RESIZE_LANCZOS : ESI_RESIZE_BILINEAR);
    if (st != ESPALIER_OK) goto done;
    values = esi_alloc(ctx, (size_t)side * side, 3 * sizeof *values, "matte pixels");
    if (values == NULL) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    if (recipe == ESI_MATTE_U2NET)
        normalize_by_largest(values, &square);
    else if (recipe == ESI_MATTE_ISNET)
        esi_image_normalize(values, &square, half, one);
    else
        esi_image_normalize(values, &square, esi_imagenet_mean, esi_imagenet_deviation);
    *out_chw = values;
    if (resized) {
        *resized = square;
        memset(&square, 0, sizeof square);
    }
done:
    espalier_image_free(&square);
    espalier_image_free(&plain);
    return st;
}

/* -------------------------------------------------------------------- after */

/* 255 * value, cut off; no number gives 0. */
static uint8_t to_byte(float value)
{
    const float scaled = value * 255.0f;
    return scaled >= 255.0f ? 255 : scaled > 0.0f ? (uint8_t)scaled : 0;
}

/* The least value to 0, the largest to 255. */
static void stretch(uint8_t *out, const float *map, size_t n)
{
    float least = map[0], largest = map[0];

    for (size_t i = 1; i < n; i++) {
        least = map[i] < least ? map[i] : least;
        largest = map[i] > largest ? map[i] : largest;
    }
    for (size_t i = 0; i < n; i++) out[i] = largest > least ? to_byte((map[i] - least) / (largest - least)) : 0;
}

/* Bytes at the network's size, then Pillow's resize. */
static espalier_status bytes_then_resize(espalier_context *ctx, espalier_image *mask, const float *map, uint32_t side,
                                         esi_matte_recipe recipe, uint32_t w, uint32_t h, espalier_image *small)
{
    const size_t n = (size_t)side * side;
    espalier_image bytes = {0};
    espalier_status st = esi_image_new(ctx, &bytes, side, side, 1);

    if (st != ESPALIER_OK) return st;
    if (recipe == ESI_MATTE_U2NET)
        stretch(bytes.pixels, map, n);
    else
        for (size_t i = 0; i < n; i++) bytes.pixels[i] = to_byte(map[i]);
    st = esi_image_resize(ctx, mask, &bytes, w, h, recipe == ESI_MATTE_U2NET ? ESI_RESIZE_LANCZOS : ESI_RESIZE_BICUBIC);
    if (st == ESPALIER_OK && small) {
        *small = bytes;
        memset(&bytes, 0, sizeof bytes);
    }
    espalier_image_free(&bytes);
    return st;
}

static espalier_status resize_then_bytes(espalier_context *ctx, espalier_image *mask, const float *map, uint32_t side, uint32_t w,
                                         uint32_t h)
{
    float *large = esi_alloc(ctx, (size_t)w * h, sizeof *large, "matte");
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (large == NULL) return st;
    st = esi_image_new(ctx, mask, w, h, 1);
    if (st == ESPALIER_OK) {
        resize_map(large, map, side, w, h);
        stretch(mask->pixels, large, (size_t)w * h);
    }
    esi_free(ctx, large);
    return st;
}

espalier_status esi_matte_finish(espalier_context *ctx, espalier_image *mask, const float *map, uint32_t side, esi_matte_recipe recipe,
                                 uint32_t w, uint32_t h, espalier_image *small)
{
    memset(mask, 0, sizeof *mask);
    if (small) memset(small, 0, sizeof *small);
    if (side == 0 || w == 0 || h == 0) return esi_fail(ctx, ESPALIER_ERR_ARG, "matte: an empty picture");
    if (recipe == ESI_MATTE_ISNET) return resize_then_bytes(ctx, mask, map, side, w, h);
    return bytes_then_resize(ctx, mask, map, side, recipe, w, h, small);
}

espalier_status esi_matte_apply(espalier_context *ctx, espalier_image *out, const espalier_image *rgb, const espalier_image *mask)
{
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (rgb->width != mask->width || rgb->height != mask->height || mask->channels != 1 || (rgb->channels != 3 && rgb->channels != 4))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "matte: a mask of %u x %u for a picture of %u x %u", mask->width, mask->height, rgb->width,
                        rgb->height);
    st = esi_image_new(ctx, out, rgb->width, rgb->height, 4);
    if (st != ESPALIER_OK) return st;
    for (size_t i = 0, n = (size_t)rgb->width * rgb->height; i < n; i++) {
        memcpy(out->pixels + 4 * i, rgb->pixels + rgb->channels * i, 3);
        out->pixels[4 * i + 3] = mask->pixels[i];
    }
    return ESPALIER_OK;
}
