/* SPDX-License-Identifier: MIT
 *
 * kind_dinov3.c: the image encoder, stage by stage.
 */
#include "kinds.h"
#include "models/networks.h"

/* The cases with timm names call the output of layer N block N. */
static void check_layers_as_blocks(golden_case *c, int layers)
{
    for (int i = 0; i < layers; i++) {
        const golden_tap *t = golden_tap_find(c, golden_name(c, "layer%d", i), 0);
        if (t) golden_check(c, golden_name(c, "out.block%d", i), t->data, ESI_FILE_F32, GOLDEN_SHAPE(1, t->rows, t->cols));
    }
}

espalier_status golden_kind_dinov3(golden_case *c)
{
    const esi_json *config = esi_json_get(c->config, "config");
    esi_weight_file *file = NULL;
    esi_dinov3 *model = NULL;
    const float *pixels;
    golden_shape shape;
    esi_tensor cond, again;
    espalier_status st = golden_f32(c, "in.pixels", &pixels, &shape);

    if (st != ESPALIER_OK) return st;
    if (shape.rank != 4 || shape.extent[0] != 1 || shape.extent[1] != 3)
        return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: in.pixels is no picture", c->dir);
    st = golden_weight_file(c, &file, "w.", NULL);
    if (st != ESPALIER_OK) return st;
    st = esi_dinov3_open(c->ctx, &model, file, config);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_check_finite(c->ctx, esi_dinov3_weights(model));
    if (st != ESPALIER_OK) goto done;
    golden_taps_start(c);
    st = esi_dinov3_forward(c->ctx, model, &cond, pixels, shape.extent[2], shape.extent[3]);
    golden_taps_stop(c);
    if (st != ESPALIER_OK) goto done;
    golden_check_taps(c, "out.");
    check_layers_as_blocks(c, esi_dinov3_get_config(model)->layers);

    /* Taps compute more; they must not change the result. */
    st = esi_dinov3_forward(c->ctx, model, &again, pixels, shape.extent[2], shape.extent[3]);
    if (st != ESPALIER_OK) goto done;
    size_t n = (size_t)again.rows * (size_t)again.cols;
    float *untapped = golden_alloc(c, n, sizeof *untapped);
    st = esi_tensor_read(c->ctx, again, untapped);
    if (st != ESPALIER_OK) goto done;
    const golden_tap *tapped = golden_tap_find(c, "cond", 0);
    golden_expect(c, "cond without taps", tapped && memcmp(tapped->data, untapped, n * sizeof *untapped) == 0, "other bits than with taps");
done:
    esi_dinov3_free(c->ctx, model);
    return st;
}
