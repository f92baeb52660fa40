/* SPDX-License-Identifier: MIT
 *
 * kind_u2net.c: residual U-blocks, U2-NetP, IS-Net with its preprocessing and mask.
 */
#include "kinds.h"
#include "map_case.h"

#include "formats/matte.h"
#include "models/u2net.h"

static espalier_status check_block(golden_case *c, const char *name, int depth, bool flat)
{
    const espalier_allocator *allocator = esi_allocator(c->ctx);
    esi_weights *weights = NULL;
    esi_layer_source s;
    esi_rsu block = {0};
    esi_map x = {0};
    esi_tensor y = {0};
    espalier_status st = golden_layer_source(c, &s, &weights, golden_name(c, "w.%s.", name));
    if (st == ESPALIER_OK) st = esi_rsu_open(&s, &block, "", depth, flat, 0);
    if (st == ESPALIER_OK) st = golden_map(c, &x, golden_name(c, "in.%s", name), 0);
    if (st == ESPALIER_OK) st = esi_tensor_new(c->ctx, &y, x.rows.rows, block.out, ESI_F32);
    if (st == ESPALIER_OK) st = esi_rsu_forward(c->ctx, &block, y, &x);
    if (st == ESPALIER_OK) st = golden_check_map(c, golden_name(c, "out.%s", name), y);
    if (st == ESPALIER_OK) {
        golden_expect_int(c, golden_name(c, "%s in", name), block.in, golden_config_int(c, golden_name(c, "%s.in_ch", name), -1));
        golden_expect_int(c, golden_name(c, "%s middle", name), block.middle, golden_config_int(c, golden_name(c, "%s.mid", name), -1));
        golden_expect_int(c, golden_name(c, "%s out", name), block.out, golden_config_int(c, golden_name(c, "%s.out", name), -1));
    }
    esi_rsu_free(c->ctx, allocator, &block);
    esi_weights_free(c->ctx, weights);
    return st;
}

espalier_status golden_kind_u2net_rsu(golden_case *c)
{
    espalier_status st = check_block(c, "rsu5", 5, false);
    return st == ESPALIER_OK ? check_block(c, "rsu4f", 4, true) : st;
}

/* The network on in.x, with and without taps: *matte are the latter's values. */
static espalier_status run_network(golden_case *c, esi_u2net_kind kind, float **matte, int64_t *side)
{
    const float *pixels = NULL;
    golden_shape shape;
    esi_weight_file *file = NULL;
    esi_u2net *m = NULL;
    esi_tensor tapped = {0}, plain = {0};
    float *with_taps;
    espalier_status st = golden_f32(c, "in.x", &pixels, &shape);
    if (st != ESPALIER_OK) return st;
    if (shape.rank != 4 || shape.extent[1] != 3) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: in.x is no picture", c->dir);
    st = golden_weight_file(c, &file, "w.", NULL);
    if (st == ESPALIER_OK) st = esi_u2net_open(c->ctx, &m, file);
    if (st != ESPALIER_OK) return st;
    golden_expect_int(c, "kind", (int)esi_u2net_get_kind(m), (int)kind);
    st = esi_weights_check_finite(c->ctx, esi_u2net_weights(m));
    golden_taps_start(c);
    if (st == ESPALIER_OK) st = esi_u2net_forward(c->ctx, m, &tapped, pixels, shape.extent[2], shape.extent[3]);
    golden_taps_stop(c);
    if (st == ESPALIER_OK) st = golden_check_map_taps(c);
    if (st == ESPALIER_OK) st = golden_planes(c, &with_taps, tapped);
    if (st == ESPALIER_OK) st = esi_u2net_forward(c->ctx, m, &plain, pixels, shape.extent[2], shape.extent[3]);
    if (st == ESPALIER_OK) st = golden_planes(c, matte, plain);
    if (st == ESPALIER_OK)
        golden_expect(c, "matte without taps", memcmp(*matte, with_taps, (size_t)plain.rows * sizeof **matte) == 0,
                      "other bits than with taps");
    *side = shape.extent[2];
    esi_u2net_free(c->ctx, m);
    return st;
}

espalier_status golden_kind_u2netp(golden_case *c)
{
    float *matte;
    int64_t side;
    return run_network(c, ESI_U2NETP, &matte, &side);
}

espalier_status golden_kind_isnet(golden_case *c)
{
    const uint8_t *rgb = NULL;
    golden_shape shape;
    espalier_image resized = {0}, mask = {0};
    float *pixels = NULL, *matte;
    int64_t side;
    espalier_status st = golden_u8(c, "in.rgb", &rgb, &shape);
    if (st != ESPALIER_OK) return st;
    const uint32_t h = (uint32_t)shape.extent[0], w = (uint32_t)shape.extent[1];
    uint8_t *bytes = golden_alloc(c, (size_t)w * h, 3);
    memcpy(bytes, rgb, (size_t)w * h * 3);
    const espalier_image picture = {.width = w, .height = h, .channels = 3, .pixels = bytes};
    st = run_network(c, ESI_ISNET, &matte, &side);
    if (st == ESPALIER_OK) st = esi_matte_prepare(c->ctx, &pixels, &picture, ESI_MATTE_ISNET, (uint32_t)side, &resized);
    if (st == ESPALIER_OK) {
        golden_check(c, "out.resized_u8", resized.pixels, ESI_FILE_U8, GOLDEN_SHAPE(side, side, 3));
        golden_check(c, "out.input", pixels, ESI_FILE_F32, GOLDEN_SHAPE(1, 3, side, side));
        st = esi_matte_finish(c->ctx, &mask, matte, (uint32_t)side, ESI_MATTE_ISNET, w, h, NULL);
    }
    if (st == ESPALIER_OK) golden_check(c, "out.mask_u8", mask.pixels, ESI_FILE_U8, GOLDEN_SHAPE(h, w));
    esi_free(c->ctx, pixels);
    espalier_image_free(&resized);
    espalier_image_free(&mask);
    return st;
}
