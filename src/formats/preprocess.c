/* SPDX-License-Identifier: MIT
 *
 * preprocess.c: the preprocessing of TRELLIS.2 (trellis2/pipelines/trellis2_image_to_3d.py, preprocess_image) and the normalisation of its
 * image encoder, with their rounding: sizes truncated, the crop box rounded half to even, colours truncated after fp32 arithmetic.
 */
#include "formats/preprocess.h"

#include "formats/image_codecs.h"
#include "formats/image_resize.h"

#define MAX_SIDE 1024

const float esi_imagenet_mean[3] = {0.485f, 0.456f, 0.406f};
const float esi_imagenet_deviation[3] = {0.229f, 0.224f, 0.225f};

static espalier_status copy_image(espalier_context *ctx, espalier_image *out, const espalier_image *in)
{
    espalier_status st = esi_image_new(ctx, out, in->width, in->height, in->channels);
    if (st == ESPALIER_OK) memcpy(out->pixels, in->pixels, esi_image_size(in));
    return st;
}

/* Step 2: reduce the longer side to 1024. Truncation makes it 1023 for some sizes (1568, 1648, 3136, ...); so does the reference. */
static espalier_status reduce(espalier_context *ctx, espalier_image *out, const espalier_image *in, const char *name)
{
    const double scale = (double)MAX_SIDE / (double)ESI_MAX(in->width, in->height);
    const uint32_t width = (uint32_t)(in->width * scale), height = (uint32_t)(in->height * scale);
    if (width == 0 || height == 0) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: too thin: %u x %u pixels would become %u x %u", name, (unsigned)in->width,
                        (unsigned)in->height, (unsigned)width, (unsigned)height);
    }
    return esi_image_resize(ctx, out, in, width, height, ESI_RESIZE_LANCZOS);
}

/* Copy colour; alpha is 255, or the mask's when there is one. */
static espalier_status with_alpha(espalier_context *ctx, espalier_image *out, const espalier_image *in, const espalier_image *mask)
{
    espalier_status st = esi_image_new(ctx, out, in->width, in->height, 4);
    if (st != ESPALIER_OK) return st;
    const size_t n = (size_t)in->width * in->height;
    for (size_t i = 0; i < n; i++) {
        for (int c = 0; c < 3; c++) out->pixels[i * 4 + c] = in->pixels[i * in->channels + c];
        out->pixels[i * 4 + 3] = mask != NULL ? mask->pixels[i] : 255;
    }
    return ESPALIER_OK;
}

static espalier_status without_alpha(espalier_context *ctx, espalier_image *out, const espalier_image *in)
{
    espalier_status st = esi_image_new(ctx, out, in->width, in->height, 3);
    if (st != ESPALIER_OK) return st;
    const size_t n = (size_t)in->width * in->height;
    for (size_t i = 0; i < n; i++) {
        for (int c = 0; c < 3; c++) out->pixels[i * 3 + c] = in->pixels[i * in->channels + c];
    }
    return ESPALIER_OK;
}

/* Step 3, with a matting network: *out = colour of `in`, alpha from the network. */
static espalier_status matte_by_network(espalier_context *ctx, espalier_image *out, const espalier_image *in,
                                        const esi_matte_source *matte, esi_preprocess_steps *steps)
{
    espalier_image rgb = {0}, mask = {0};

    espalier_status st = without_alpha(ctx, &rgb, in);
    if (st != ESPALIER_OK) goto done;
    st = matte->fn(matte->user, ctx, &rgb, &mask);
    if (st != ESPALIER_OK) goto done;
    if (mask.pixels == NULL || mask.channels != 1 || mask.width != rgb.width || mask.height != rgb.height) {
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "matting: the mask has not the size of the picture");
        goto done;
    }
    st = with_alpha(ctx, out, &rgb, &mask);
    if (st != ESPALIER_OK) goto done;
    steps->rembg_in = rgb;
    memset(&rgb, 0, sizeof rgb);
done:
    espalier_image_free(&rgb);
    espalier_image_free(&mask);
    return st;
}

/* ----------------------------------------------------------------- crop */

typedef struct crop_box {
    int64_t left, top, side;
} crop_box;

/* Half of `twice`, rounded to the nearest integer, ties to the even one. */
static int64_t half_to_even(int64_t twice)
{
    int64_t odd = twice & 1, below = (twice - odd) / 2;
    return odd == 0 ? below : below + (below & 1);
}

/* Steps 4 and 5: the square around the pixels with alpha above 204. Twice the centre is an integer, so the box needs no floating point;
 * both edges round the same way and its side is 2r. */
static espalier_status find_box(espalier_context *ctx, crop_box *box, const espalier_image *rgba, const char *name)
{
    int64_t x0 = INT64_MAX, x1 = -1, y0 = INT64_MAX, y1 = -1;

    for (uint32_t y = 0; y < rgba->height; y++) {
        const uint8_t *row = rgba->pixels + (size_t)y * rgba->width * 4;
        for (uint32_t x = 0; x < rgba->width; x++) {
            if (row[(size_t)x * 4 + 3] <= ESI_FOREGROUND_ALPHA) continue;
            x0 = ESI_MIN(x0, (int64_t)x);
            x1 = ESI_MAX(x1, (int64_t)x);
            y0 = ESI_MIN(y0, (int64_t)y);
            y1 = (int64_t)y;
        }
    }
    if (x1 < 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no foreground: no pixel has alpha above %d", name, ESI_FOREGROUND_ALPHA);

    int64_t radius = ESI_MAX(x1 - x0, y1 - y0) / 2;
    if (radius == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: the foreground is less than three pixels across", name);
    box->left = half_to_even(x0 + x1 - 2 * radius);
    box->top = half_to_even(y0 + y1 - 2 * radius);
    box->side = 2 * radius;
    return ESPALIER_OK;
}

/* Step 6; outside the picture everything is 0. */
static espalier_status crop(espalier_context *ctx, espalier_image *out, const espalier_image *rgba, const crop_box *box)
{
    espalier_status st = esi_image_new(ctx, out, (uint32_t)box->side, (uint32_t)box->side, 4);
    if (st != ESPALIER_OK) return st;
    memset(out->pixels, 0, esi_image_size(out));

    const int64_t first = ESI_MAX(box->left, 0), last = ESI_MIN(box->left + box->side, (int64_t)rgba->width);
    for (int64_t y = ESI_MAX(box->top, 0); y < ESI_MIN(box->top + box->side, (int64_t)rgba->height); y++) {
        if (first >= last) break;
        memcpy(out->pixels + ((y - box->top) * box->side + (first - box->left)) * 4, rgba->pixels + (y * rgba->width + first) * 4,
               (size_t)(last - first) * 4);
    }
    return ESPALIER_OK;
}

/* Step 7: on black. Each step of the reference's fp32 arithmetic is kept, then truncated. */
static espalier_status on_black(espalier_context *ctx, espalier_image *out, const espalier_image *rgba)
{
    espalier_status st = esi_image_new(ctx, out, rgba->width, rgba->height, 3);
    if (st != ESPALIER_OK) return st;
    const size_t n = (size_t)rgba->width * rgba->height;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *pixel = rgba->pixels + i * 4;
        const float alpha = (float)pixel[3] / 255.0f;
        for (int c = 0; c < 3; c++) {
            const float premultiplied = (float)pixel[c] / 255.0f * alpha;
            out->pixels[i * 3 + c] = (uint8_t)(premultiplied * 255.0f);
        }
    }
    return ESPALIER_OK;
}

/* ------------------------------------------------------------- the whole */

static const char *name_of(const esi_matte_source *matte)
{
    return matte->name != NULL ? matte->name : "picture";
}

/* Steps 2 and 3: *rgba = the picture, at most 1024 a side when `reduced`, with the alpha to cut out by. */
static espalier_status prepare(espalier_context *ctx, espalier_image *rgba, const espalier_image *in, const esi_matte_source *matte,
                               bool reduced, esi_preprocess_steps *steps)
{
    const bool transparent = espalier_image_has_alpha(in) != 0, has_alpha = transparent && !matte->over_alpha;
    const espalier_image *current = in;
    espalier_image plain = {0};
    espalier_status st = ESPALIER_OK;

    if (!has_alpha && !matte->opaque && matte->fn == NULL) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT,
                        "%s: the picture has no transparency; cut the object out first, or take it whole with --matte none",
                        name_of(matte));
    }
    if (transparent && !has_alpha) { /* first, because resizing premultiplies */
        st = without_alpha(ctx, &plain, in);
        current = &plain;
    }
    if (st == ESPALIER_OK && reduced && ESI_MAX(in->width, in->height) > MAX_SIDE) {
        st = reduce(ctx, &steps->resized, current, name_of(matte));
        current = &steps->resized;
    }
    if (st != ESPALIER_OK) goto done;
    if (has_alpha)
        st = copy_image(ctx, rgba, current);
    else if (matte->opaque)
        st = with_alpha(ctx, rgba, current, NULL);
    else
        st = matte_by_network(ctx, rgba, current, matte, steps);
    if (st == ESPALIER_OK && matte->check != NULL) st = matte->check(matte->user, ctx, rgba);
done:
    espalier_image_free(&plain);
    return st;
}

static espalier_status check_picture(espalier_context *ctx, const espalier_image *in, const char *name)
{
    if (in->pixels != NULL && (in->channels == 3 || in->channels == 4)) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: not an RGB or RGBA picture", name);
}

espalier_status esi_matte_picture(espalier_context *ctx, espalier_image *rgba, const espalier_image *in, const esi_matte_source *matte)
{
    esi_preprocess_steps steps = {0};

    memset(rgba, 0, sizeof *rgba);
    espalier_status st = check_picture(ctx, in, name_of(matte));
    if (st == ESPALIER_OK) st = prepare(ctx, rgba, in, matte, false, &steps);
    esi_preprocess_steps_free(&steps);
    if (st != ESPALIER_OK) espalier_image_free(rgba);
    return st;
}

void esi_preprocess_steps_free(esi_preprocess_steps *steps)
{
    if (steps == NULL) return;
    espalier_image_free(&steps->rembg_in);
    espalier_image_free(&steps->resized);
    espalier_image_free(&steps->crop);
}

espalier_status esi_preprocess(espalier_context *ctx, espalier_image *out_rgb, const espalier_image *in, const esi_matte_source *matte,
                               esi_preprocess_steps *steps)
{
    static const esi_matte_source no_matte = {0};
    esi_preprocess_steps local = {0};
    espalier_image rgba = {0};
    crop_box box = {0};
    espalier_status st;

    memset(out_rgb, 0, sizeof *out_rgb);
    if (steps != NULL) memset(steps, 0, sizeof *steps);
    if (matte == NULL) matte = &no_matte;
    const char *name = name_of(matte);
    st = check_picture(ctx, in, name);
    if (st != ESPALIER_OK) return st;

    st = prepare(ctx, &rgba, in, matte, true, &local);
    if (st != ESPALIER_OK) goto done;
    st = find_box(ctx, &box, &rgba, name);
    if (st != ESPALIER_OK) goto done;
    st = crop(ctx, &local.crop, &rgba, &box);
    if (st != ESPALIER_OK) goto done;
    st = on_black(ctx, out_rgb, &local.crop);
    if (st != ESPALIER_OK) goto done;
    if (steps != NULL) {
        *steps = local;
        memset(&local, 0, sizeof local);
    }
done:
    esi_preprocess_steps_free(&local);
    espalier_image_free(&rgba);
    return st;
}

/* --------------------------------------------------------- normalisation */

void esi_image_normalize(float *out, const espalier_image *image, const float mean[3], const float deviation[3])
{
    const size_t n = (size_t)image->width * image->height;
    for (size_t c = 0; c < 3; c++) {
        for (size_t i = 0; i < n; i++) {
            const float value = (float)image->pixels[i * image->channels + c] / 255.0f;
            out[c * n + i] = (value - mean[c]) / deviation[c];
        }
    }
}

espalier_status esi_image_condition_pixels(espalier_context *ctx, float **out_chw, const espalier_image *image, uint32_t S,
                                           espalier_image *resized)
{
    espalier_image square = {0};
    float *values = NULL;
    espalier_status st;

    *out_chw = NULL;
    if (resized != NULL) memset(resized, 0, sizeof *resized);
    if (image->pixels == NULL || (image->channels != 3 && image->channels != 4)) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "picture: not an RGB or RGBA picture");
    }
    st = esi_image_resize(ctx, &square, image, S, S, ESI_RESIZE_LANCZOS);
    if (st != ESPALIER_OK) goto done;
    values = esi_alloc(ctx, (size_t)S * S, 3 * sizeof *values, "condition pixels");
    if (values == NULL) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    esi_image_normalize(values, &square, esi_imagenet_mean, esi_imagenet_deviation);
    *out_chw = values;
    if (resized != NULL) {
        *resized = square;
        memset(&square, 0, sizeof square);
    }
done:
    espalier_image_free(&square);
    return st;
}
