/* SPDX-License-Identifier: MIT
 *
 * kind_matte_pre_post.c: the pictures before and after BiRefNet and U2-Net, at a reduced size.
 */
#include "kinds.h"

#include "formats/matte.h"

static espalier_status check_recipe(golden_case *c, const char *name, esi_matte_recipe recipe, const espalier_image *picture,
                                    const float *prob, int64_t side)
{
    espalier_image resized = {0}, mask = {0}, small = {0}, rgba = {0};
    float *pixels = NULL;
    espalier_status st = esi_matte_prepare(c->ctx, &pixels, picture, recipe, (uint32_t)side, &resized);
    if (st == ESPALIER_OK) st = esi_matte_finish(c->ctx, &mask, prob, (uint32_t)side, recipe, picture->width, picture->height, &small);
    if (st == ESPALIER_OK) st = esi_matte_apply(c->ctx, &rgba, picture, &mask);
    if (st != ESPALIER_OK) goto done;
    const int64_t h = picture->height, w = picture->width;
    golden_check(c, golden_name(c, "out.%s.resized_u8", name), resized.pixels, ESI_FILE_U8, GOLDEN_SHAPE(side, side, 3));
    golden_check(c, golden_name(c, "out.%s.input", name), pixels, ESI_FILE_F32, GOLDEN_SHAPE(3, side, side));
    golden_check(c, golden_name(c, "out.%s.mask_small_u8", name), small.pixels, ESI_FILE_U8, GOLDEN_SHAPE(side, side));
    golden_check(c, golden_name(c, "out.%s.mask_u8", name), mask.pixels, ESI_FILE_U8, GOLDEN_SHAPE(h, w));
    golden_check(c, golden_name(c, "out.%s.rgba", name), rgba.pixels, ESI_FILE_U8, GOLDEN_SHAPE(h, w, 4));
done:
    esi_free(c->ctx, pixels);
    espalier_image_free(&resized);
    espalier_image_free(&mask);
    espalier_image_free(&small);
    espalier_image_free(&rgba);
    return st;
}

espalier_status golden_kind_matte_pre_post(golden_case *c)
{
    const uint8_t *rgb = NULL;
    const float *prob = NULL;
    golden_shape shape, square;
    espalier_status st = golden_u8(c, "in.rgb", &rgb, &shape);
    if (st == ESPALIER_OK) st = golden_f32(c, "in.prob", &prob, &square);
    if (st != ESPALIER_OK) return st;
    uint8_t *bytes = golden_alloc(c, (size_t)golden_shape_count(shape), 1);
    memcpy(bytes, rgb, (size_t)golden_shape_count(shape));
    const espalier_image picture = {
        .width = (uint32_t)shape.extent[1], .height = (uint32_t)shape.extent[0], .channels = 3, .pixels = bytes};
    st = check_recipe(c, "birefnet", ESI_MATTE_BIREFNET, &picture, prob, square.extent[0]);
    return st == ESPALIER_OK ? check_recipe(c, "u2net", ESI_MATTE_U2NET, &picture, prob, square.extent[0]) : st;
}
