/* SPDX-License-Identifier: MIT
 *
 * swin.c: Swin Transformer (Liu et al. 2021) as dense prediction networks use it: tokens padded with zeros to whole windows take part in
 * the attention; every second block rolls the grid by half a window and keeps what comes from different ends apart.
 */
#include "models/swin.h"

#include <math.h>
#include <stdio.h>

#define NORM_EPS    1e-5f
#define MAX_DEPTH   64
#define MAX_WINDOW  64
#define WINDOW_ROWS 8192 /* tokens in windows that exist at a time */
#define MLP_ROWS    8192

/* ------------------------------------------------------------------ opening */

static espalier_status open_affine(const esi_layer_source *s, esi_swin_affine *a, int64_t out, int64_t in, bool bias, const char *scope,
                                   const char *name)
{
    espalier_status st = in == 0 ? esi_weights_get(s->ctx, s->weights, &a->weight, 1, out, "%s%s%s.weight", s->prefix, scope, name)
                                 : esi_weights_get(s->ctx, s->weights, &a->weight, out, in, "%s%s%s.weight", s->prefix, scope, name);
    if (st != ESPALIER_OK || !bias) return st;
    return esi_weights_get(s->ctx, s->weights, &a->bias, 1, out, "%s%s%s.bias", s->prefix, scope, name);
}

/* in = 0 */
static espalier_status open_layer_norm(const esi_layer_source *s, esi_swin_affine *a, int64_t channels, const char *scope, const char *name)
{
    return open_affine(s, a, channels, 0, true, scope, name);
}

static const esi_file_tensor *find(const esi_layer_source *s, const char *scope, const char *name)
{
    char full[160];
    snprintf(full, sizeof full, "%s%s%s", s->prefix, scope, name);
    return esi_weight_file_find(esi_weights_file(s->weights), full);
}

/* One more than the largest number of a block that any tensor names, so that one that lacks something is missed. */
static int count_blocks(const esi_layer_source *s, const char *scope)
{
    const esi_weight_file *file = esi_weights_file(s->weights);
    char start[160];
    const size_t len = (size_t)snprintf(start, sizeof start, "%s%sblocks.", s->prefix, scope);
    int depth = 0;

    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->tensors[i].name;
        int number = 0;
        if (strncmp(name, start, len) != 0) continue;
        for (name += len; *name >= '0' && *name <= '9' && number < MAX_DEPTH; name++) number = 10 * number + (*name - '0');
        if (*name == '.') depth = ESI_MAX(depth, number + 1);
    }
    return depth;
}

/* Channels, window and heads from the first block. */
static espalier_status stage_sizes(const esi_layer_source *s, esi_swin_stage *stage, const char *scope)
{
    const esi_file_tensor *norm = find(s, scope, "blocks.0.norm1.weight");
    const esi_file_tensor *positions = find(s, scope, "blocks.0.attn.relative_position_bias_table");

    if (norm == NULL || positions == NULL || norm->rank != 1 || positions->rank != 2) goto wrong;
    stage->channels = norm->shape[0];
    stage->heads = positions->shape[1];
    stage->window = 1;
    while (stage->window < MAX_WINDOW && (2 * stage->window - 1) * (2 * stage->window - 1) < positions->shape[0]) stage->window++;
    if (stage->channels < 1 || stage->channels > 1 << 16 || stage->heads < 1 || stage->channels % stage->heads != 0 ||
        (2 * stage->window - 1) * (2 * stage->window - 1) != positions->shape[0])
        goto wrong;
    stage->depth = count_blocks(s, scope);
    return ESPALIER_OK;
wrong:
    return esi_fail(s->ctx, ESPALIER_ERR_MODEL,
                    "%s: tensors %s%sblocks.0.norm1.weight and attn.relative_position_bias_table are missing or no Swin stage's",
                    esi_weight_file_path(esi_weights_file(s->weights)), s->prefix, scope);
}

static espalier_status open_block(const esi_layer_source *s, const esi_swin_stage *stage, esi_swin_block *b, const char *scope)
{
    const int64_t C = stage->channels, positions = (2 * stage->window - 1) * (2 * stage->window - 1);
    const esi_file_tensor *fc1 = find(s, scope, "mlp.fc1.bias");
    const int64_t hidden = fc1 && fc1->rank == 1 && fc1->shape[0] > 0 && fc1->shape[0] <= 1 << 18 ? fc1->shape[0] : 4 * C;
    espalier_status st = open_layer_norm(s, &b->norm1, C, scope, "norm1");

    if (st == ESPALIER_OK) st = open_affine(s, &b->qkv, 3 * C, C, true, scope, "attn.qkv");
    if (st == ESPALIER_OK) st = open_affine(s, &b->proj, C, C, true, scope, "attn.proj");
    if (st == ESPALIER_OK)
        st = esi_weights_get(s->ctx, s->weights, &b->positions, positions, stage->heads, "%s%sattn.relative_position_bias_table", s->prefix,
                             scope);
    if (st == ESPALIER_OK) st = open_layer_norm(s, &b->norm2, C, scope, "norm2");
    if (st == ESPALIER_OK) st = open_affine(s, &b->fc1, hidden, C, true, scope, "mlp.fc1");
    if (st == ESPALIER_OK) st = open_affine(s, &b->fc2, C, hidden, true, scope, "mlp.fc2");
    /* Both follow from the window. */
    esi_weights_ignore(s->weights, "%s%sattn.relative_position_index", s->prefix, scope);
    esi_weights_ignore(s->weights, "%s%sattn_mask", s->prefix, scope);
    return st;
}

espalier_status esi_swin_stage_open(const esi_layer_source *s, esi_swin_stage *stage, const char *scope, bool merges)
{
    espalier_status st = stage_sizes(s, stage, scope);
    char name[96];

    if (st != ESPALIER_OK) return st;
    stage->blocks = esi_raw_alloc(esi_allocator(s->ctx), (size_t)stage->depth * sizeof *stage->blocks);
    if (stage->blocks == NULL)
        return esi_fail(s->ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", esi_weight_file_path(esi_weights_file(s->weights)));
    memset(stage->blocks, 0, (size_t)stage->depth * sizeof *stage->blocks);
    for (int i = 0; st == ESPALIER_OK && i < stage->depth; i++) {
        snprintf(name, sizeof name, "%sblocks.%d.", scope, i);
        st = open_block(s, stage, &stage->blocks[i], name);
    }
    if (st != ESPALIER_OK || !merges) return st;
    st = open_layer_norm(s, &stage->merge_norm, 4 * stage->channels, scope, "downsample.norm");
    return st == ESPALIER_OK ? open_affine(s, &stage->merge, 2 * stage->channels, 4 * stage->channels, false, scope, "downsample.reduction")
                             : st;
}

void esi_swin_stage_free(const espalier_allocator *allocator, esi_swin_stage *stage)
{
    if (stage->blocks) esi_raw_free(allocator, stage->blocks, (size_t)stage->depth * sizeof *stage->blocks);
    memset(stage, 0, sizeof *stage);
}

espalier_status esi_swin_open(const esi_layer_source *s, esi_swin *swin, const char *scope)
{
    esi_conv2d_options patch = {.in = 3, .stride = 1};
    const esi_file_tensor *t = find(s, scope, "patch_embed.proj.weight");
    char name[96];
    espalier_status st;

    patch.stride = t && t->rank == 4 && t->shape[2] >= 1 && t->shape[2] <= 64 ? (int)t->shape[2] : 1;
    snprintf(name, sizeof name, "%spatch_embed.", scope);
    st = esi_conv2d_open(s, &swin->patch, name, "proj", &patch);
    if (st == ESPALIER_OK) st = open_layer_norm(s, &swin->patch_norm, swin->patch.out, name, "norm");
    for (int i = 0; st == ESPALIER_OK && i < ESI_SWIN_STAGES; i++) {
        snprintf(name, sizeof name, "%slayers.%d.", scope, i);
        st = esi_swin_stage_open(s, &swin->stages[i], name, i < ESI_SWIN_STAGES - 1);
        if (st == ESPALIER_OK && swin->stages[i].channels != swin->patch.out << i)
            st = esi_fail(s->ctx, ESPALIER_ERR_MODEL, "%s: tensor %s%sblocks.0.norm1.weight: %lld channels, expected %lld",
                          esi_weight_file_path(esi_weights_file(s->weights)), s->prefix, name, (long long)swin->stages[i].channels,
                          (long long)swin->patch.out << i);
        snprintf(name, sizeof name, "norm%d", i);
        if (st == ESPALIER_OK) st = open_layer_norm(s, &swin->norms[i], swin->stages[i].channels, scope, name);
    }
    return st;
}

void esi_swin_free(espalier_context *ctx, const espalier_allocator *allocator, esi_swin *swin)
{
    esi_conv2d_free(ctx, allocator, &swin->patch);
    for (int i = 0; i < ESI_SWIN_STAGES; i++) esi_swin_stage_free(allocator, &swin->stages[i]);
}

/* ------------------------------------------------------------------ forward */

static espalier_status layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_swin_affine *a)
{
    return esi_layer_norm(ctx, y, x, &(esi_norm_args){.eps = NORM_EPS, .weight = a->weight, .bias = a->bias});
}

/* What blocks of one stage share. */
typedef struct swin_pass {
    espalier_context *ctx;
    const esi_swin_stage *stage;
    esi_grid grid;
    esi_tensor x, u, mixed;             /* [tokens, C]: residual stream; normed; attention output */
    esi_tensor index[2], region[2];     /* of even and odd blocks; windows' rows */
    esi_tensor qkv, attended;           /* [rows of some windows, 3C, C] */
    esi_tensor hidden;                  /* [some tokens, MLP width] */
} swin_pass;

/* Attention of the windows [first, first + count), from u into mixed. Reading the windows' rows is a convolution of one tap: what padding
 * would give, the bias, costs no product. */
static espalier_status attend_windows(const swin_pass *p, const esi_swin_block *b, int odd, esi_tensor bias, int64_t first, int64_t count)
{
    const int64_t C = p->stage->channels, area = p->stage->window * p->stage->window, rows = count * area;
    const esi_tensor index = esi_rows(p->index[odd], first * area, rows);
    const esi_tensor qkv = esi_rows(p->qkv, 0, rows), y = esi_rows(p->attended, 0, rows);
    const double dim = (double)(C / p->stage->heads);
    esi_attention_args a = {.heads = (int)p->stage->heads, .windows = count, .scale = (float)(1.0 / sqrt(dim)), .bias = bias};
    espalier_status st = esi_conv(p->ctx, qkv, p->u, index, b->qkv.weight, ESI_CONV_TAP_MAJOR, &(esi_epilogue){.bias = b->qkv.bias});

    if (!esi_tensor_is_null(p->region[odd])) a.region = esi_rows(p->region[odd], first * area, rows);
    if (st == ESPALIER_OK) st = esi_attention(p->ctx, y, esi_cols(qkv, 0, C), esi_cols(qkv, C, C), esi_cols(qkv, 2 * C, C), &a);
    return st == ESPALIER_OK ? esi_scatter_rows(p->ctx, p->mixed, y, index) : st;
}

static espalier_status attention(const swin_pass *p, const esi_swin_block *b, int odd)
{
    const int64_t area = p->stage->window * p->stage->window, windows = esi_window_count(p->grid, p->stage->window);
    const int64_t step = p->qkv.rows / area;
    esi_tensor bias = {0};
    espalier_status st = layer_norm(p->ctx, p->u, p->x, &b->norm1);

    if (st == ESPALIER_OK) st = esi_window_bias(p->ctx, &bias, b->positions, p->stage->window);
    for (int64_t w = 0; st == ESPALIER_OK && w < windows; w += step) st = attend_windows(p, b, odd, bias, w, ESI_MIN(step, windows - w));
    esi_tensor_free(p->ctx, &bias);
    if (st != ESPALIER_OK) return st;
    return esi_linear(p->ctx, p->x, p->mixed, b->proj.weight, &(esi_epilogue){.bias = b->proj.bias, .residual = p->x});
}

static espalier_status mlp(const swin_pass *p, const esi_swin_block *b)
{
    const esi_epilogue gelu = {.bias = b->fc1.bias, .act = ESI_ACT_GELU_ERF};
    const int64_t step = p->hidden.rows;
    espalier_status st = layer_norm(p->ctx, p->u, p->x, &b->norm2);

    for (int64_t first = 0; st == ESPALIER_OK && first < p->x.rows; first += step) {
        const int64_t count = ESI_MIN(step, p->x.rows - first);
        const esi_tensor hidden = esi_cols(esi_rows(p->hidden, 0, count), 0, b->fc1.weight.rows), x = esi_rows(p->x, first, count);
        st = esi_linear(p->ctx, hidden, esi_rows(p->u, first, count), b->fc1.weight, &gelu);
        if (st == ESPALIER_OK) st = esi_linear(p->ctx, x, hidden, b->fc2.weight, &(esi_epilogue){.bias = b->fc2.bias, .residual = x});
    }
    return st;
}

static espalier_status make_buffers(swin_pass *p)
{
    const esi_swin_stage *s = p->stage;
    const int64_t area = s->window * s->window, windows = esi_window_count(p->grid, s->window);
    int64_t widest = 0, rows;
    espalier_status st = esi_tensor_new(p->ctx, &p->u, p->x.rows, s->channels, ESI_F32);

    for (int i = 0; i < s->depth; i++) widest = ESI_MAX(widest, s->blocks[i].fc1.weight.rows);
    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &p->mixed, p->x.rows, s->channels, ESI_F32);
    rows = esi_image_rows(p->ctx, WINDOW_ROWS, 4 * s->channels * (int64_t)sizeof(float));
    rows = ESI_MIN(ESI_MAX(rows / area, 1), windows) * area;
    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &p->qkv, rows, 3 * s->channels, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &p->attended, rows, s->channels, ESI_F32);
    rows = esi_image_rows(p->ctx, MLP_ROWS, widest * (int64_t)sizeof(float));
    if (st == ESPALIER_OK) st = esi_tensor_new(p->ctx, &p->hidden, ESI_MIN(p->x.rows, rows), widest, ESI_F32);
    for (int odd = 0; st == ESPALIER_OK && odd < 2; odd++)
        st = esi_window_tables(p->ctx, &p->index[odd], &p->region[odd], p->grid, s->window, odd ? s->window / 2 : 0);
    return st;
}

espalier_status esi_swin_stage_forward(espalier_context *ctx, const esi_swin_stage *stage, esi_map *x)
{
    swin_pass p = {.ctx = ctx, .stage = stage, .grid = x->grid, .x = x->rows};
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = make_buffers(&p);

    for (int i = 0; st == ESPALIER_OK && i < stage->depth; i++) {
        st = esi_check_cancel(ctx);
        if (st == ESPALIER_OK) st = attention(&p, &stage->blocks[i], i % 2);
        if (st == ESPALIER_OK) st = mlp(&p, &stage->blocks[i]);
        if (st == ESPALIER_OK) esi_tap(ctx, p.x, "block%d", i);
    }
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_swin_merge(espalier_context *ctx, const esi_swin_stage *stage, esi_map *y, const esi_map *x)
{
    const esi_grid half = esi_half_grid(x->grid);
    const int64_t rows = half.height * half.width;
    esi_tensor index = {0}, groups = {0};
    espalier_status st = esi_map_new(ctx, y, half, 2 * stage->channels);

    if (st == ESPALIER_OK) st = esi_merge_index(ctx, &index, x->grid);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &groups, rows, 4 * stage->channels, ESI_F32);
    if (st == ESPALIER_OK) st = esi_gather_rows(ctx, esi_reshape(groups, 4 * rows, stage->channels), x->rows, index);
    if (st == ESPALIER_OK) st = layer_norm(ctx, groups, groups, &stage->merge_norm);
    if (st == ESPALIER_OK) st = esi_linear(ctx, y->rows, groups, stage->merge.weight, NULL);
    esi_tensor_free(ctx, &index);
    esi_tensor_free(ctx, &groups);
    return st;
}

esi_grid esi_swin_grid(const esi_swin *swin, esi_grid picture, int stage)
{
    esi_grid grid = esi_conv_grid(picture, &swin->patch.geometry);
    for (int i = 0; i < stage; i++) grid = esi_half_grid(grid);
    return grid;
}

espalier_status esi_swin_forward(espalier_context *ctx, const esi_swin *swin, const esi_map *picture, esi_map outputs[ESI_SWIN_STAGES],
                                 int copies)
{
    esi_map x = {0}, next = {0};
    espalier_status st = esi_map_new(ctx, &x, esi_swin_grid(swin, picture->grid, 0), swin->patch.out);

    if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &swin->patch, x.rows, picture, (esi_tensor){0});
    if (st == ESPALIER_OK) st = layer_norm(ctx, x.rows, x.rows, &swin->patch_norm);
    for (int i = 0; st == ESPALIER_OK && i < ESI_SWIN_STAGES; i++) {
        st = esi_swin_stage_forward(ctx, &swin->stages[i], &x);
        if (st == ESPALIER_OK) st = esi_map_new(ctx, &outputs[i], x.grid, copies * x.rows.cols);
        if (st == ESPALIER_OK) st = layer_norm(ctx, esi_cols(outputs[i].rows, 0, x.rows.cols), x.rows, &swin->norms[i]);
        if (st != ESPALIER_OK || i == ESI_SWIN_STAGES - 1) break;
        st = esi_swin_merge(ctx, &swin->stages[i], &next, &x);
        esi_tensor_free(ctx, &x.rows);
        x = next;
        next = (esi_map){0};
    }
    esi_tensor_free(ctx, &x.rows);
    return st;
}
