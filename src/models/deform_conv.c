/* SPDX-License-Identifier: MIT
 *
 * deform_conv.c: deformable convolution (Zhu et al. 2019) as weighted gather and matrix product, and BiRefNet's ASPPDeformable: four such
 * convolutions of growing kernel and the picture's mean, side by side, fused by a 1 x 1 convolution. Rows of the output are independent, so
 * a few thousand at a time keep the gathered taps small, and one buffer serves all branches.
 */
#include "models/deform_conv.h"

#include <stdio.h>

#define GATHERED_ROWS ((int64_t)1 << 18) /* taps of output pixels that are gathered at a time */
#define TABLE_ROWS    ((int64_t)1 << 15) /* of these, taps whose tables exist at a time */
#define ASPP_ROWS     8192

/* ------------------------------------------------------- one convolution */

/* Offsets and factors of some pixels on the host, then as a table. */
static espalier_status read_table(espalier_context *ctx, esi_tensor *table, esi_tensor *weight, const esi_conv2d *conv, esi_grid in,
                                  int64_t first, esi_tensor offset, esi_tensor mask, float mask_factor)
{
    const int64_t taps = mask.cols, rows = mask.rows;
    float *host = esi_alloc(ctx, (size_t)(rows * taps), 3 * sizeof *host, "offsets");
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (host == NULL) return st;
    st = esi_tensor_read(ctx, offset, host);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, mask, host + 2 * rows * taps);
    if (st == ESPALIER_OK)
        st = esi_deform_table(ctx, table, weight, in, &conv->geometry, host, host + 2 * rows * taps, mask_factor, first, rows);
    esi_free(ctx, host);
    return st;
}

/* What output pixels `first` ... of `mask` read, tap by tap. */
static espalier_status gather_taps(espalier_context *ctx, const esi_conv2d *conv, esi_tensor gathered, const esi_map *x, int64_t first,
                                   esi_tensor offset, esi_tensor mask, float mask_factor)
{
    const int64_t taps = mask.cols, chunk = ESI_MAX(esi_image_rows(ctx, TABLE_ROWS, 64) / taps, 1);
    espalier_status st = ESPALIER_OK;

    for (int64_t at = 0; st == ESPALIER_OK && at < mask.rows; at += chunk) {
        const int64_t count = ESI_MIN(chunk, mask.rows - at);
        esi_tensor table = {0}, weight = {0};
        st = read_table(ctx, &table, &weight, conv, x->grid, first + at, esi_rows(offset, at, count), esi_rows(mask, at, count),
                        mask_factor);
        if (st == ESPALIER_OK) st = esi_weighted_gather(ctx, esi_rows(gathered, at * taps, count * taps), x->rows, table, weight);
        esi_tensor_free(ctx, &table);
        esi_tensor_free(ctx, &weight);
    }
    return st;
}

/* The convolution in pieces whose taps fit `gathered` [some rows, channels]. */
static espalier_status deform_rows(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, int64_t first,
                                   esi_tensor offset, esi_tensor mask, float mask_factor, esi_tensor gathered)
{
    const int64_t taps = mask.cols, chunk = ESI_MIN(gathered.rows / taps, y.rows);
    const esi_epilogue epilogue = {.scale = conv->scale, .bias = conv->shift, .act = conv->act};
    esi_tensor counting = {0};
    espalier_status st = esi_counting_table(ctx, &counting, chunk, taps);

    for (int64_t at = 0; st == ESPALIER_OK && at < y.rows; at += chunk) {
        const int64_t count = ESI_MIN(chunk, y.rows - at);
        const esi_tensor read = esi_rows(gathered, 0, count * taps);
        st = gather_taps(ctx, conv, read, x, first + at, esi_rows(offset, at, count), esi_rows(mask, at, count), mask_factor);
        if (st == ESPALIER_OK)
            st = esi_conv(ctx, esi_rows(y, at, count), read, esi_rows(counting, 0, count), conv->weight, ESI_CONV_CHANNEL_MAJOR, &epilogue);
    }
    esi_tensor_free(ctx, &counting);
    return st;
}

/* Room for the taps of at least one and at most `pixels` output pixels. */
static espalier_status make_gathered(espalier_context *ctx, esi_tensor *gathered, int64_t channels, int64_t taps, int64_t pixels)
{
    const int64_t rows = esi_image_rows(ctx, GATHERED_ROWS, (channels + 2) * (int64_t)sizeof(float));
    return esi_tensor_new(ctx, gathered, ESI_MIN(ESI_MAX(rows / taps, 1), pixels) * taps, channels, ESI_F32);
}

espalier_status esi_deform_conv(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, int64_t first,
                                esi_tensor offset, esi_tensor mask, float mask_factor)
{
    esi_tensor gathered = {0};
    espalier_status st = make_gathered(ctx, &gathered, conv->in, mask.cols, y.rows);

    if (st == ESPALIER_OK) st = deform_rows(ctx, conv, y, x, first, offset, mask, mask_factor, gathered);
    esi_tensor_free(ctx, &gathered);
    return st;
}

/* ------------------------------------------------------------------ pyramid */

static const char *const branch_names[ESI_ASPP_BRANCHES] = {"aspp1.", "aspp_deforms.0.", "aspp_deforms.1.", "aspp_deforms.2."};

espalier_status esi_aspp_open(const esi_layer_source *s, esi_aspp *a, const char *scope, int64_t channels)
{
    esi_conv2d_options fuse = {.out = channels, .kernel = 1, .no_bias = true, .norm = "bn1", .act = ESI_ACT_RELU};
    esi_conv2d_options pooled = {.in = channels, .kernel = 1, .no_bias = true, .norm = "global_avg_pool.2", .act = ESI_ACT_RELU};
    char name[128];
    espalier_status st = ESPALIER_OK;

    for (int i = 0; st == ESPALIER_OK && i < ESI_ASPP_BRANCHES; i++) {
        esi_conv2d_options o = {.in = channels, .no_bias = true, .norm = "bn", .act = ESI_ACT_RELU};
        snprintf(name, sizeof name, "%s%s", scope, branch_names[i]);
        st = esi_conv2d_open(s, &a->branch[i].conv, name, "atrous_conv.regular_conv", &o);
        if (st != ESPALIER_OK) break;
        o = (esi_conv2d_options){.in = channels, .kernel = (int)a->branch[i].conv.geometry.kernel};
        o.out = 2 * (int64_t)o.kernel * o.kernel;
        st = esi_conv2d_open(s, &a->branch[i].offset, name, "atrous_conv.offset_conv", &o);
        o.out = (int64_t)o.kernel * o.kernel;
        o.act = ESI_ACT_SIGMOID;
        if (st == ESPALIER_OK) st = esi_conv2d_open(s, &a->branch[i].modulator, name, "atrous_conv.modulator_conv", &o);
        fuse.in += a->branch[i].conv.out;
    }
    if (st == ESPALIER_OK) st = esi_conv2d_open(s, &a->pooled, scope, "global_avg_pool.1", &pooled);
    fuse.in += a->pooled.out;
    return st == ESPALIER_OK ? esi_conv2d_open(s, &a->fuse, scope, "conv1", &fuse) : st;
}

void esi_aspp_free(espalier_context *ctx, const espalier_allocator *allocator, esi_aspp *a)
{
    for (int i = 0; i < ESI_ASPP_BRANCHES; i++) {
        esi_conv2d_free(ctx, allocator, &a->branch[i].offset);
        esi_conv2d_free(ctx, allocator, &a->branch[i].modulator);
        esi_conv2d_free(ctx, allocator, &a->branch[i].conv);
    }
    esi_conv2d_free(ctx, allocator, &a->pooled);
    esi_conv2d_free(ctx, allocator, &a->fuse);
}

/* Buffers of one pass: all branches side by side, taps, the picture's row. */
typedef struct aspp_pass {
    esi_tensor both, gathered, row;
} aspp_pass;

/* Branch i of pixels [first, first + y.rows). */
static espalier_status branch_rows(espalier_context *ctx, const esi_aspp *a, int i, esi_tensor y, const esi_map *x, int64_t first,
                                   esi_tensor gathered)
{
    esi_tensor offset = {0}, mask = {0};
    espalier_status st = esi_tensor_new(ctx, &offset, y.rows, a->branch[i].offset.out, ESI_F32);

    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &mask, y.rows, a->branch[i].modulator.out, ESI_F32);
    if (st == ESPALIER_OK) st = esi_conv2d_rows(ctx, &a->branch[i].offset, offset, x, first, (esi_tensor){0});
    if (st == ESPALIER_OK) st = esi_conv2d_rows(ctx, &a->branch[i].modulator, mask, x, first, (esi_tensor){0});
    if (st == ESPALIER_OK) st = deform_rows(ctx, &a->branch[i].conv, y, x, first, offset, mask, 2.0f, gathered);
    esi_tensor_free(ctx, &offset);
    esi_tensor_free(ctx, &mask);
    return st;
}

/* The picture's mean through its convolution: [1, channels]. */
static espalier_status pooled_row(espalier_context *ctx, const esi_aspp *a, esi_tensor *row, const esi_map *x)
{
    esi_map mean = {0};
    espalier_status st = esi_map_new(ctx, &mean, (esi_grid){1, 1}, x->rows.cols);

    if (st == ESPALIER_OK) st = esi_mean_rows(ctx, mean.rows, x->rows);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, row, 1, a->pooled.out, ESI_F32);
    if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &a->pooled, *row, &mean, (esi_tensor){0});
    if (st == ESPALIER_OK) esi_tap(ctx, *row, "gap");
    return st;
}

static espalier_status repeat_row(espalier_context *ctx, esi_tensor y, esi_tensor row)
{
    esi_tensor index = {0};
    int32_t *zeros = esi_calloc(ctx, (size_t)y.rows, sizeof *zeros, "indices");
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (zeros == NULL) return st;
    st = esi_tensor_from(ctx, &index, y.rows, 1, ESI_I32, zeros);
    esi_free(ctx, zeros);
    if (st == ESPALIER_OK) st = esi_gather_rows(ctx, y, row, index);
    esi_tensor_free(ctx, &index);
    return st;
}

static espalier_status aspp_rows(espalier_context *ctx, const esi_aspp *a, const aspp_pass *p, esi_tensor y, const esi_map *x,
                                 int64_t first)
{
    const esi_tensor both = esi_rows(p->both, 0, y.rows);
    const esi_epilogue epilogue = {.scale = a->fuse.scale, .bias = a->fuse.shift, .act = a->fuse.act};
    int64_t column = 0;
    espalier_status st = esi_check_cancel(ctx);

    for (int i = 0; st == ESPALIER_OK && i < ESI_ASPP_BRANCHES; i++) {
        const esi_tensor to = esi_cols(both, column, a->branch[i].conv.out);
        st = branch_rows(ctx, a, i, to, x, first, p->gathered);
        if (st == ESPALIER_OK && i == 0) esi_tap(ctx, to, "aspp1");
        if (st == ESPALIER_OK && i > 0) esi_tap(ctx, to, "deform%d", i - 1);
        column += a->branch[i].conv.out;
    }
    if (st == ESPALIER_OK) st = repeat_row(ctx, esi_cols(both, column, a->pooled.out), p->row);
    return st == ESPALIER_OK ? esi_linear(ctx, y, both, a->fuse.weight, &epilogue) : st;
}

espalier_status esi_aspp_forward(espalier_context *ctx, const esi_aspp *a, esi_tensor y, const esi_map *x)
{
    esi_scope scope = esi_scope_begin(ctx);
    aspp_pass p = {0};
    int64_t taps = 1, chunk = y.rows;
    espalier_status st = pooled_row(ctx, a, &p.row, x);

    for (int i = 0; i < ESI_ASPP_BRANCHES; i++) taps = ESI_MAX(taps, a->branch[i].modulator.out);
    if (!esi_tap_enabled(ctx)) chunk = ESI_MIN(esi_image_rows(ctx, ASPP_ROWS, (a->fuse.in + 3 * taps) * (int64_t)sizeof(float)), y.rows);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &p.both, chunk, a->fuse.in, ESI_F32);
    if (st == ESPALIER_OK) st = make_gathered(ctx, &p.gathered, x->rows.cols, taps, chunk);
    for (int64_t at = 0; st == ESPALIER_OK && at < y.rows; at += chunk)
        st = aspp_rows(ctx, a, &p, esi_rows(y, at, ESI_MIN(chunk, y.rows - at)), x, at);
    esi_scope_end(ctx, scope);
    return st;
}
