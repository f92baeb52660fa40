/* SPDX-License-Identifier: MIT
 *
 * kind_sparse_blocks.c: sparse_conv, convnext_block, c2s_block: the parts of the sparse decoders one by one.
 */
#include "kinds.h"
#include "models/sparse_blocks.h"

static espalier_status read_coords(golden_case *c, esi_coords *out, const char *name)
{
    const int32_t *rows = NULL;
    golden_shape shape;
    espalier_status st = golden_i32(c, name, &rows, &shape);
    if (st != ESPALIER_OK) return st;
    return esi_coords_copy(c->ctx, out, rows, shape.extent[0]);
}

/* Features and neighbour table of in.<prefix>feats, in.<prefix>coords. */
static espalier_status read_rows(golden_case *c, esi_sparse_rows *rows, esi_coords *coords, const char *prefix)
{
    espalier_status st = read_coords(c, coords, golden_name(c, "in.%scoords", prefix));
    if (st == ESPALIER_OK) st = esi_sparse_table(c->ctx, &rows->table, coords);
    if (st == ESPALIER_OK) st = golden_tensor_f32(c, &rows->feats, golden_name(c, "in.%sfeats", prefix));
    return st;
}

static espalier_status open_weights(golden_case *c, esi_weights **w, const char *prefix)
{
    esi_weight_file *file = NULL;
    espalier_status st = golden_weight_file(c, &file, prefix, NULL);
    return st == ESPALIER_OK ? esi_weights_new(c->ctx, w, file) : st;
}

/* ------------------------------------------------------------------ sparse_conv */

static espalier_status run_conv(golden_case *c, const char *name)
{
    esi_sparse_rows rows = {0};
    esi_coords coords = {0};
    esi_weights *w = NULL;
    esi_sparse_conv conv;
    esi_tensor bias, y = {0};
    espalier_status st = read_rows(c, &rows, &coords, golden_name(c, "%s.", name));
    if (st != ESPALIER_OK) goto done;
    st = open_weights(c, &w, golden_name(c, "w.%s.", name));
    if (st != ESPALIER_OK) goto done;
    st = esi_weights_get(c->ctx, w, &bias, 1, -1, "bias");
    if (st != ESPALIER_OK) goto done;
    conv.bias = bias;
    st = esi_weights_get(c->ctx, w, &conv.weight, bias.cols, ESI_SPARSE_TAPS * rows.feats.cols, "weight");
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(c->ctx, &y, rows.feats.rows, bias.cols, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_sparse_conv_forward(c->ctx, &conv, y, rows.feats, rows.table);
    if (st != ESPALIER_OK) goto done;
    st = golden_check_tensor(c, golden_name(c, "out.%s.feats", name), y);
done:
    esi_coords_free(c->ctx, &coords);
    esi_weights_free(c->ctx, w);
    return st;
}

espalier_status golden_kind_sparse_conv(golden_case *c)
{
    const char *const *names;
    const size_t count = golden_sub_cases(c, "in.", ".coords", &names);
    espalier_status st = ESPALIER_OK;
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) st = run_conv(c, names[i]);
    return st;
}

/* --------------------------------------------------------------- convnext_block */

espalier_status golden_kind_convnext_block(golden_case *c)
{
    const int64_t channels = golden_config_int(c, "channels", 0);
    esi_sparse_rows rows = {0};
    esi_coords coords = {0};
    esi_weights *w = NULL;
    esi_convnext_block block;
    espalier_status st = read_rows(c, &rows, &coords, "");
    if (st != ESPALIER_OK) goto done;
    st = open_weights(c, &w, "w.");
    if (st != ESPALIER_OK) goto done;
    st = esi_convnext_open(c->ctx, w, &block, channels, "");
    if (st != ESPALIER_OK) goto done;
    golden_taps_start(c);
    st = esi_convnext_forward(c->ctx, &block, &rows);
    if (st != ESPALIER_OK) goto done;
    golden_check_taps(c, "out.");
    st = golden_check_tensor(c, "out.feats", rows.feats);
done:
    esi_coords_free(c->ctx, &coords);
    esi_weights_free(c->ctx, w);
    return st;
}

/* -------------------------------------------------------------------- c2s_block */

/* One pass: children by the block's own logits, or by in.guide_logits when `guide` is set. */
static espalier_status run_c2s(golden_case *c, esi_weights *w, bool guided)
{
    const int64_t in = golden_config_int(c, "channels", 0), out = golden_config_int(c, "out_channels", 0);
    const char *prefix = guided ? "out.guided." : "out.";
    esi_sparse_rows rows = {0};
    esi_coords coords = {0}, children = {0};
    int32_t *index = NULL;
    const float *guide = NULL;
    esi_c2s_block block;
    espalier_status st = read_rows(c, &rows, &coords, "");
    if (st != ESPALIER_OK) goto done;
    float *logits = golden_alloc(c, (size_t)coords.count, 8 * sizeof *logits);
    st = esi_c2s_open(c->ctx, w, &block, in, out, !guided, "");
    if (st != ESPALIER_OK) goto done;
    if (guided) {
        st = golden_f32(c, "in.guide_logits", &guide, NULL);
    } else {
        st = esi_c2s_logits(c->ctx, &block, logits, rows.feats);
        if (st == ESPALIER_OK) golden_check(c, "out.subdiv_logits", logits, ESI_FILE_F32, GOLDEN_SHAPE(coords.count, 8));
    }
    if (st != ESPALIER_OK) goto done;
    st = esi_subdivide(c->ctx, &children, &index, &coords, guided ? guide : logits);
    if (st != ESPALIER_OK) goto done;
    golden_check(c, golden_name(c, "%scoords", prefix), children.rows, ESI_FILE_I32, GOLDEN_SHAPE(children.count, 4));
    st = esi_c2s_forward(c->ctx, &block, &rows, &children, index);
    if (st != ESPALIER_OK) goto done;
    st = golden_check_tensor(c, golden_name(c, "%sfeats", prefix), rows.feats);
done:
    esi_coords_free(c->ctx, &coords);
    esi_coords_free(c->ctx, &children);
    esi_free(c->ctx, index);
    return st;
}

espalier_status golden_kind_c2s_block(golden_case *c)
{
    esi_weights *w = NULL;
    espalier_status st = open_weights(c, &w, "w.");
    if (st == ESPALIER_OK) st = run_c2s(c, w, false);
    if (st == ESPALIER_OK && golden_has(c, "in.guide_logits")) st = run_c2s(c, w, true);
    esi_weights_free(c->ctx, w);
    return st;
}
