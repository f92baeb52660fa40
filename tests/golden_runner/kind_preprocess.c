/* SPDX-License-Identifier: MIT
 *
 * kind_preprocess.c: picture to square crop, to the encoder's pixels. in.rembg_mask plays the matting network.
 */
#include "kinds.h"
#include "formats/preprocess.h"

#include <stdlib.h>

static espalier_status make_image(golden_case *c, espalier_image *out, const char *name)
{
    const uint8_t *pixels = NULL;
    golden_shape shape;
    espalier_status st = golden_u8(c, name, &pixels, &shape);
    if (st != ESPALIER_OK) return st;
    const uint32_t channels = shape.rank == 3 ? (uint32_t)shape.extent[2] : 1;
    st = espalier_image_create(c->ctx, out, (uint32_t)shape.extent[1], (uint32_t)shape.extent[0], channels);
    if (st == ESPALIER_OK) memcpy(out->pixels, pixels, (size_t)golden_shape_count(shape));
    return st;
}

static void check_image(golden_case *c, const char *name, const espalier_image *image)
{
    if (image->pixels == NULL) return;
    golden_check(c, name, image->pixels, ESI_FILE_U8, GOLDEN_SHAPE(image->height, image->width, image->channels));
}

static espalier_status stored_mask(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    (void)ctx;
    (void)rgb;
    return make_image(user, mask, "in.rembg_mask");
}

/* out.resize_<S> and out.norm_<S> for the sizes of the config. */
static espalier_status check_sizes(golden_case *c, const espalier_image *image)
{
    const esi_json *sizes = esi_json_get(c->config, "sizes");
    espalier_status st = ESPALIER_OK;
    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(sizes); i++) {
        espalier_image resized = {0};
        float *pixels = NULL;
        int64_t S = 0;
        if (!esi_json_int(esi_json_at(sizes, i), &S)) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: sizes are malformed", c->dir);
        st = esi_image_condition_pixels(c->ctx, &pixels, image, (uint32_t)S, &resized);
        if (st == ESPALIER_OK) {
            check_image(c, golden_name(c, "out.resize_%lld", (long long)S), &resized);
            golden_check(c, golden_name(c, "out.norm_%lld", (long long)S), pixels, ESI_FILE_F32, GOLDEN_SHAPE(3, S, S));
        }
        espalier_image_free(&resized);
        esi_free(c->ctx, pixels);
    }
    return st;
}

espalier_status golden_kind_preprocess(golden_case *c)
{
    const esi_matte_source matte = {.fn = golden_has(c, "in.rembg_mask") ? stored_mask : NULL, .user = c};
    espalier_image in = {0}, rgb = {0};
    esi_preprocess_steps steps = {0};
    espalier_status st = make_image(c, &in, "in.image");
    if (st == ESPALIER_OK) st = esi_preprocess(c->ctx, &rgb, &in, &matte, &steps);
    if (st != ESPALIER_OK) goto done;
    check_image(c, "out.rembg_in", &steps.rembg_in);
    check_image(c, "out.resized", &steps.resized);
    check_image(c, "out.crop", &steps.crop);
    check_image(c, "out.image", &rgb);
    st = check_sizes(c, &rgb);
done:
    esi_preprocess_steps_free(&steps);
    espalier_image_free(&rgb);
    espalier_image_free(&in);
    return st;
}
