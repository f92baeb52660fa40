/* SPDX-License-Identifier: MIT
 *
 * kind_birefnet.c: BiRefNet and its parts: deformable convolution, a Swin stage, the deformable pyramid, the whole network.
 */
#include "kinds.h"
#include "map_case.h"

#include "models/birefnet.h"

/* ---------------------------------------------------- deformable convolution */

static espalier_status open_sub_case(golden_case *c, const char *name, esi_conv2d *conv)
{
    const char *const path = golden_name(c, "cases.%s", name);
    const float *weight = NULL, *bias = NULL;
    golden_shape shape;
    espalier_status st = golden_f32(c, golden_name(c, "w.%s.weight", name), &weight, &shape);
    if (st != ESPALIER_OK) return st;
    conv->out = shape.extent[0];
    conv->in = shape.extent[1];
    conv->geometry.kernel = golden_config_int(c, golden_name(c, "%s.kernel", path), 0);
    conv->geometry.padding = golden_config_int(c, golden_name(c, "%s.padding", path), 0);
    conv->geometry.stride = golden_config_int(c, golden_name(c, "%s.stride", path), 1);
    conv->geometry.dilation = golden_config_int(c, golden_name(c, "%s.dilation", path), 1);
    st = esi_tensor_from(c->ctx, &conv->weight, conv->out, conv->in * shape.extent[2] * shape.extent[3], ESI_F32, weight);
    if (st != ESPALIER_OK || !golden_has(c, golden_name(c, "w.%s.bias", name))) return st;
    st = golden_f32(c, golden_name(c, "w.%s.bias", name), &bias, NULL);
    return st == ESPALIER_OK ? esi_tensor_from(c->ctx, &conv->shift, 1, conv->out, ESI_F32, bias) : st;
}

/* Picture b of the batch into its planes of `out`. */
static espalier_status run_picture(golden_case *c, const char *name, const esi_conv2d *conv, int64_t b, float *out, int64_t pixels)
{
    esi_map x = {0}, offset = {0}, mask = {0};
    esi_tensor y = {0};
    float *planes = NULL;
    espalier_status st = golden_map(c, &x, golden_name(c, "in.%s.x", name), b);
    if (st == ESPALIER_OK) st = golden_map(c, &offset, golden_name(c, "in.%s.offset", name), b);
    if (st == ESPALIER_OK) st = golden_map(c, &mask, golden_name(c, "in.%s.mask", name), b);
    if (st == ESPALIER_OK) st = esi_tensor_new(c->ctx, &y, pixels, conv->out, ESI_F32);
    if (st == ESPALIER_OK) st = esi_deform_conv(c->ctx, conv, y, &x, 0, offset.rows, mask.rows, 1.0f);
    if (st == ESPALIER_OK) st = golden_planes(c, &planes, y);
    if (st == ESPALIER_OK) memcpy(out + b * conv->out * pixels, planes, (size_t)(conv->out * pixels) * sizeof *out);
    return st;
}

espalier_status golden_kind_deform_conv2d(golden_case *c)
{
    const char *const *names;
    const size_t count = golden_sub_cases(c, "in.", ".x", &names);
    espalier_status st = ESPALIER_OK;
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) {
        const float *expected;
        golden_shape shape;
        esi_conv2d conv = {0};
        st = golden_f32(c, golden_name(c, "out.%s.y", names[i]), &expected, &shape);
        if (st == ESPALIER_OK) st = open_sub_case(c, names[i], &conv);
        if (st != ESPALIER_OK) return st;
        float *out = golden_alloc(c, (size_t)golden_shape_count(shape), sizeof *out);
        for (int64_t b = 0; st == ESPALIER_OK && b < shape.extent[0]; b++)
            st = run_picture(c, names[i], &conv, b, out, shape.extent[2] * shape.extent[3]);
        if (st == ESPALIER_OK) golden_check(c, golden_name(c, "out.%s.y", names[i]), out, ESI_FILE_F32, shape);
    }
    return st;
}

/* ------------------------------------------------------------------- stages */

espalier_status golden_kind_swin_blocks(golden_case *c)
{
    const espalier_allocator *allocator = esi_allocator(c->ctx);
    esi_weights *weights = NULL;
    esi_layer_source s;
    esi_swin_stage stage = {0};
    esi_map x = {.grid = {golden_config_int(c, "H", 0), golden_config_int(c, "W", 0)}}, merged = {0};
    espalier_status st = golden_layer_source(c, &s, &weights, "w.");
    if (st == ESPALIER_OK) st = esi_swin_stage_open(&s, &stage, "", true);
    if (st == ESPALIER_OK) st = golden_tensor_f32(c, &x.rows, "in.x");
    golden_taps_start(c);
    if (st == ESPALIER_OK) st = esi_swin_stage_forward(c->ctx, &stage, &x);
    golden_taps_stop(c);
    if (st == ESPALIER_OK) st = golden_check_map_taps(c);
    if (st == ESPALIER_OK) st = golden_check_map(c, "out.x", x.rows);
    if (st == ESPALIER_OK) st = esi_swin_merge(c->ctx, &stage, &merged, &x);
    if (st == ESPALIER_OK) st = golden_check_map(c, "out.downsampled", merged.rows);
    if (st == ESPALIER_OK) {
        golden_expect_int(c, "window", stage.window, golden_config_int(c, "window", -1));
        golden_expect_int(c, "depth", stage.depth, golden_config_int(c, "depth", -1));
        golden_expect_int(c, "heads", stage.heads, golden_config_int(c, "heads", -1));
    }
    esi_swin_stage_free(allocator, &stage);
    esi_weights_free(c->ctx, weights);
    return st;
}

espalier_status golden_kind_aspp_deformable(golden_case *c)
{
    const espalier_allocator *allocator = esi_allocator(c->ctx);
    esi_weights *weights = NULL;
    esi_layer_source s;
    esi_aspp aspp = {0};
    esi_map x = {0};
    esi_tensor y = {0};
    espalier_status st = golden_layer_source(c, &s, &weights, "w.");
    if (st == ESPALIER_OK) st = esi_aspp_open(&s, &aspp, "", golden_config_int(c, "in_channels", 0));
    if (st == ESPALIER_OK) st = golden_map(c, &x, "in.x", 0);
    if (st == ESPALIER_OK) st = esi_tensor_new(c->ctx, &y, x.rows.rows, aspp.fuse.out, ESI_F32);
    golden_taps_start(c);
    if (st == ESPALIER_OK) st = esi_aspp_forward(c->ctx, &aspp, y, &x);
    golden_taps_stop(c);
    if (st == ESPALIER_OK) st = golden_check_map_taps(c);
    if (st == ESPALIER_OK) st = golden_check_map(c, "out.y", y);
    esi_aspp_free(c->ctx, allocator, &aspp);
    esi_weights_free(c->ctx, weights);
    return st;
}

/* ------------------------------------------------------------------ network */

/* out.enc_x1 holds every fourth pixel of its map [side, side]. */
static void check_part(golden_case *c, const char *name, int64_t side)
{
    const golden_tap *t = golden_tap_find(c, name, 0);
    const float *stored;
    golden_shape shape;
    const char *full = golden_name(c, "out.%s", name);
    if (t == NULL || golden_f32(c, full, &stored, &shape) != ESPALIER_OK || shape.rank != 4) return;
    const int64_t h = shape.extent[2], w = shape.extent[3];
    float *part = golden_alloc(c, (size_t)(t->cols * h * w), sizeof *part);
    for (int64_t k = 0; k < t->cols; k++)
        for (int64_t y = 0; y < h; y++)
            for (int64_t x = 0; x < w; x++) part[(k * h + y) * w + x] = t->data[(y * (side / h) * side + x * (side / w)) * t->cols + k];
    golden_check(c, full, part, ESI_FILE_F32, shape);
}

espalier_status golden_kind_birefnet(golden_case *c)
{
    const float *pixels = NULL;
    golden_shape shape;
    esi_weight_file *file = NULL;
    esi_birefnet *m = NULL;
    esi_tensor logits = {0}, again = {0};
    float *tapped, *plain;
    espalier_status st = golden_f32(c, "in.x", &pixels, &shape);
    if (st != ESPALIER_OK) return st;
    if (shape.rank != 4 || shape.extent[1] != 3) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: in.x is no picture", c->dir);
    st = golden_weight_file(c, &file, "w.", NULL);
    if (st == ESPALIER_OK) st = esi_birefnet_open(c->ctx, &m, file);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_check_finite(c->ctx, esi_birefnet_weights(m));
    golden_taps_start(c);
    if (st == ESPALIER_OK) st = esi_birefnet_forward(c->ctx, m, &logits, pixels, shape.extent[2], shape.extent[3]);
    golden_taps_stop(c);
    if (st == ESPALIER_OK) {
        static const char *const names[] = {"bb0", "bb1", "bb2", "bb3", "enc_x4", "squeeze", "logits"};
        for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(names); i++) {
            const golden_tap *t = golden_tap_find(c, names[i], 0);
            esi_tensor rows = {0};
            if (t) st = esi_tensor_from(c->ctx, &rows, t->rows, t->cols, ESI_F32, t->data);
            if (t && st == ESPALIER_OK) st = golden_check_map(c, golden_name(c, "out.%s", names[i]), rows);
        }
        check_part(c, "enc_x1", esi_swin_grid(&m->backbone, (esi_grid){shape.extent[2], shape.extent[3]}, 0).width);
    }
    if (st == ESPALIER_OK) st = esi_birefnet_forward(c->ctx, m, &again, pixels, shape.extent[2], shape.extent[3]);
    if (st == ESPALIER_OK) st = golden_planes(c, &tapped, logits);
    if (st == ESPALIER_OK) st = golden_planes(c, &plain, again);
    if (st == ESPALIER_OK)
        golden_expect(c, "logits without taps", memcmp(tapped, plain, (size_t)again.rows * sizeof *plain) == 0,
                      "other bits than with taps");
    if (st == ESPALIER_OK) st = esi_activate(c->ctx, again, again, ESI_ACT_SIGMOID);
    if (st == ESPALIER_OK) st = golden_check_map(c, "out.prob", again);
    esi_birefnet_free(c->ctx, m);
    return st;
}
