/* SPDX-License-Identifier: MIT
 *
 * u2net.c: U2-Net (Qin et al. 2020) and IS-Net (Qin et al. 2022), from PyTorch's tensor names, with or without a leading "module.". Six
 * encoder stages of residual U-blocks halve the picture, five decoder stages double it again; each level gives a one-channel side map.
 * U2-Net fuses the six side maps, IS-Net takes the finest and works at half size behind a strided convolution.
 */
#include "models/u2net.h"

#include <stdio.h>

#define STAGES              6
#define RSU_DILATION_BOTTOM 2

/* Depth of the blocks of stage 1..6; stages from the fifth on are flat. */
static const int stage_depth[STAGES] = {7, 6, 5, 4, 4, 4};
#define FIRST_FLAT 4

struct esi_u2net {
    esi_image_network network;
    esi_u2net_kind kind;
    esi_conv2d conv_in;         /* IS-Net only */
    esi_rsu encode[STAGES];     /* stage1..stage6 */
    esi_rsu decode[STAGES - 1]; /* stage1d..stage5d */
    esi_conv2d side[STAGES], fuse;
    int n_sides;                /* an IS-Net exported for use has only the first */
};

/* ------------------------------------------------------------------- blocks */

static int flat_dilation(int i)
{
    return 1 << i;
}

espalier_status esi_rsu_open(const esi_layer_source *s, esi_rsu *b, const char *scope, int depth, bool flat, int64_t in)
{
    esi_conv2d_options o = {.in = in, .kernel = 3, .norm = "rebnconvin.bn_s1", .act = ESI_ACT_RELU};
    char conv[48], norm[48];
    espalier_status st = esi_conv2d_open(s, &b->input, scope, "rebnconvin.conv_s1", &o);

    b->depth = depth;
    b->flat = flat;
    b->in = b->input.in;
    b->out = b->input.out;
    o.norm = norm;
    for (int i = 0; st == ESPALIER_OK && i < depth; i++) {
        snprintf(conv, sizeof conv, "rebnconv%d.conv_s1", i + 1);
        snprintf(norm, sizeof norm, "rebnconv%d.bn_s1", i + 1);
        o.in = i == 0 ? b->out : b->middle;
        o.out = b->middle; /* 0 at first: the file says it */
        o.dilation = flat ? flat_dilation(i) : i == depth - 1 ? RSU_DILATION_BOTTOM : 1;
        st = esi_conv2d_open(s, &b->encode[i], scope, conv, &o);
        b->middle = b->encode[i].out;
    }
    for (int i = depth - 2; st == ESPALIER_OK && i >= 0; i--) {
        snprintf(conv, sizeof conv, "rebnconv%dd.conv_s1", i + 1);
        snprintf(norm, sizeof norm, "rebnconv%dd.bn_s1", i + 1);
        o.in = 2 * b->middle;
        o.out = i == 0 ? b->out : b->middle;
        o.dilation = flat ? flat_dilation(i) : 1;
        st = esi_conv2d_open(s, &b->decode[i], scope, conv, &o);
    }
    return st;
}

void esi_rsu_free(espalier_context *ctx, const espalier_allocator *allocator, esi_rsu *b)
{
    esi_conv2d_free(ctx, allocator, &b->input);
    for (int i = 0; i < ESI_RSU_MAX_DEPTH; i++) esi_conv2d_free(ctx, allocator, &b->encode[i]);
    for (int i = 0; i < ESI_RSU_MAX_DEPTH - 1; i++) esi_conv2d_free(ctx, allocator, &b->decode[i]);
}

/* Level i of a block keeps [deeper level's result, own result] side by side, which is what its decoder convolution reads. */
static espalier_status rsu_encode(espalier_context *ctx, const esi_rsu *b, esi_map *both, const esi_map *input)
{
    const int last = b->depth - 1;
    esi_map x = *input, pooled = {0};
    espalier_status st = ESPALIER_OK;

    for (int i = 0; st == ESPALIER_OK && i < last; i++) {
        if (i > 0 && !b->flat) {
            st = esi_map_pool(ctx, &pooled, &x);
            x = pooled;
        }
        if (st == ESPALIER_OK) st = esi_map_new(ctx, &both[i], x.grid, 2 * b->middle);
        if (st != ESPALIER_OK) break;
        st = esi_conv2d_run(ctx, &b->encode[i], esi_cols(both[i].rows, b->middle, b->middle), &x, (esi_tensor){0});
        esi_tensor_free(ctx, &pooled.rows);
        x = (esi_map){.rows = esi_cols(both[i].rows, b->middle, b->middle), .grid = both[i].grid};
    }
    if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &b->encode[last], esi_cols(both[last - 1].rows, 0, b->middle), &x, (esi_tensor){0});
    esi_tensor_free(ctx, &pooled.rows);
    return st;
}

static espalier_status rsu_decode(espalier_context *ctx, const esi_rsu *b, esi_tensor y, esi_map *both, esi_tensor residual)
{
    espalier_status st = ESPALIER_OK;

    for (int i = b->depth - 2; st == ESPALIER_OK && i > 0; i--) {
        esi_map d;
        st = esi_map_new(ctx, &d, both[i].grid, b->middle);
        if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &b->decode[i], d.rows, &both[i], (esi_tensor){0});
        esi_tensor_free(ctx, &both[i].rows);
        if (st == ESPALIER_OK) st = esi_map_resize(ctx, esi_cols(both[i - 1].rows, 0, b->middle), &d, both[i - 1].grid, false);
        esi_tensor_free(ctx, &d.rows);
    }
    return st == ESPALIER_OK ? esi_conv2d_run(ctx, &b->decode[0], y, &both[0], residual) : st;
}

espalier_status esi_rsu_forward(espalier_context *ctx, const esi_rsu *b, esi_tensor y, const esi_map *x)
{
    esi_scope scope = esi_scope_begin(ctx);
    esi_map input, both[ESI_RSU_MAX_DEPTH - 1] = {0};
    espalier_status st = esi_check_cancel(ctx);

    if (st == ESPALIER_OK) st = esi_map_new(ctx, &input, x->grid, b->out);
    if (st == ESPALIER_OK) st = esi_conv2d_run(ctx, &b->input, input.rows, x, (esi_tensor){0});
    if (st == ESPALIER_OK) st = rsu_encode(ctx, b, both, &input);
    if (st == ESPALIER_OK) st = rsu_decode(ctx, b, y, both, input.rows);
    esi_scope_end(ctx, scope);
    return st;
}

/* ------------------------------------------------------------------ opening */

#define OPTIONAL_PREFIX "module."

static const esi_file_tensor *find_with_prefix(const esi_weight_file *file, const char *prefix, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return esi_weight_file_find(file, full);
}

static const char *find_prefix(const esi_weight_file *file)
{
    return find_with_prefix(file, OPTIONAL_PREFIX, "stage1.rebnconvin.conv_s1.weight") ? OPTIONAL_PREFIX : "";
}

bool esi_u2net_recognise(const esi_weight_file *file, esi_u2net_kind *kind)
{
    const char *prefix = find_prefix(file);
    const esi_file_tensor *first = find_with_prefix(file, prefix, "stage1.rebnconvin.conv_s1.weight");
    const esi_file_tensor *sixth = find_with_prefix(file, prefix, "stage6.rebnconvin.conv_s1.weight");

    if (first == NULL || sixth == NULL || first->rank != 4 || sixth->rank != 4) return false;
    if (find_with_prefix(file, prefix, "outconv.weight") == NULL) {
        *kind = ESI_ISNET;
        return find_with_prefix(file, prefix, "conv_in.weight") != NULL;
    }
    *kind = sixth->shape[0] == first->shape[0] ? ESI_U2NETP : ESI_U2NET;
    return true;
}

/* Only U2-Net's result needs all side maps. An IS-Net without any but the first is whole; one that lacks some of them is damaged. */
static int count_sides(const esi_layer_source *s, esi_u2net_kind kind)
{
    char name[24];

    if (kind != ESI_ISNET) return STAGES;
    for (int i = 1; i < STAGES; i++) {
        snprintf(name, sizeof name, "side%d.weight", i + 1);
        if (find_with_prefix(esi_weights_file(s->weights), s->prefix, name)) return STAGES;
    }
    return 1;
}

static espalier_status open_encoder(const esi_layer_source *s, esi_u2net *m, char scope[16])
{
    const esi_conv2d_options strided = {.in = 3, .kernel = 3, .stride = 2, .padding = 1};
    int64_t channels = 3;
    espalier_status st = ESPALIER_OK;

    if (m->kind == ESI_ISNET) {
        st = esi_conv2d_open(s, &m->conv_in, "", "conv_in", &strided);
        channels = m->conv_in.out;
    }
    for (int i = 0; st == ESPALIER_OK && i < STAGES; i++) {
        snprintf(scope, 16, "stage%d.", i + 1);
        st = esi_rsu_open(s, &m->encode[i], scope, stage_depth[i], i >= FIRST_FLAT, channels);
        channels = m->encode[i].out;
    }
    return st;
}

static espalier_status open_decoder(const esi_layer_source *s, esi_u2net *m, char scope[16])
{
    const esi_conv2d_options fuse = {.in = STAGES, .out = 1, .kernel = 1};
    int64_t channels = m->encode[STAGES - 1].out; /* of the deeper level */
    espalier_status st = ESPALIER_OK;

    for (int i = STAGES - 1; st == ESPALIER_OK && i >= 0; i--) {
        esi_conv2d_options side = {.out = 1, .kernel = 3};
        if (i < STAGES - 1) {
            snprintf(scope, 16, "stage%dd.", i + 1);
            st = esi_rsu_open(s, &m->decode[i], scope, stage_depth[i], i >= FIRST_FLAT, channels + m->encode[i].out);
            channels = m->decode[i].out;
        }
        if (st != ESPALIER_OK || i >= m->n_sides) continue;
        side.in = channels;
        snprintf(scope, 16, "side%d", i + 1);
        st = esi_conv2d_open(s, &m->side[i], "", scope, &side);
    }
    if (st == ESPALIER_OK && m->kind != ESI_ISNET) st = esi_conv2d_open(s, &m->fuse, "", "outconv", &fuse);
    return st;
}

static espalier_status open_network(espalier_context *ctx, esi_u2net *m)
{
    const esi_weight_file *file = esi_weights_file(m->network.weights);
    const esi_layer_source s = {ctx, m->network.weights, esi_image_norm_style(file), find_prefix(file)};
    char scope[16];
    espalier_status st;

    if (!esi_u2net_recognise(file, &m->kind))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: neither U2-Net nor IS-Net: stage1, stage6 and outconv or conv_in are not all there",
                        esi_weight_file_path(file));
    m->n_sides = count_sides(&s, m->kind);
    st = open_encoder(&s, m, scope);
    if (st == ESPALIER_OK) st = open_decoder(&s, m, scope);
    if (st == ESPALIER_OK) esi_weights_report_surplus(ctx, m->network.weights);
    return st;
}

espalier_status esi_u2net_open(espalier_context *ctx, esi_u2net **out, esi_weight_file *file)
{
    esi_image_network *network;
    esi_u2net *m;
    espalier_status st = esi_image_network_new(ctx, &network, sizeof *m, "U2-Net", file);

    *out = m = (esi_u2net *)(void *)network;
    if (st == ESPALIER_OK) st = open_network(ctx, m);
    if (st == ESPALIER_OK) return st;
    esi_u2net_free(ctx, m);
    *out = NULL;
    return st;
}

void esi_u2net_free(espalier_context *ctx, esi_u2net *m)
{
    if (m == NULL) return;
    const espalier_allocator allocator = m->network.allocator;
    esi_conv2d_free(ctx, &allocator, &m->conv_in);
    for (int i = 0; i < STAGES; i++) {
        esi_rsu_free(ctx, &allocator, &m->encode[i]);
        if (i < STAGES - 1) esi_rsu_free(ctx, &allocator, &m->decode[i]);
        esi_conv2d_free(ctx, &allocator, &m->side[i]);
    }
    esi_conv2d_free(ctx, &allocator, &m->fuse);
    esi_image_network_free(ctx, &m->network, sizeof *m);
}

esi_u2net_kind esi_u2net_get_kind(const esi_u2net *m)
{
    return m->kind;
}

const char *esi_u2net_kind_name(esi_u2net_kind kind)
{
    return kind == ESI_ISNET ? "IS-Net" : kind == ESI_U2NETP ? "U2-NetP" : "U2-Net";
}

esi_weights *esi_u2net_weights(esi_u2net *m)
{
    return m->network.weights;
}

/* ------------------------------------------------------------------ forward */

/* One pass: both[i] holds [result of the deeper stage, result of stage i + 1] side by side. */
typedef struct u2net_pass {
    espalier_context *ctx;
    const esi_u2net *model;
    esi_grid grid; /* of the picture */
    esi_map both[STAGES - 1];
    esi_map bottom;   /* stage 6 */
    esi_tensor sides; /* [H * W, 6]: side maps at the picture's size, before the sigmoid; only the first where nothing reads the others */
} u2net_pass;

static esi_map own_part(const u2net_pass *p, int i)
{
    const int64_t out = p->model->encode[i].out;
    return (esi_map){.rows = esi_cols(p->both[i].rows, p->both[i].rows.cols - out, out), .grid = p->both[i].grid};
}

/* What stage 1 reads: the picture, for IS-Net after its strided convolution. */
static espalier_status stem(u2net_pass *p, esi_map *x, const float *pixels)
{
    const esi_u2net *m = p->model;
    esi_map picture = {0};
    espalier_status st = esi_map_from_pixels(p->ctx, &picture, pixels, p->grid);

    if (st != ESPALIER_OK || m->kind != ESI_ISNET) {
        *x = picture;
        return st;
    }
    st = esi_map_new(p->ctx, x, esi_conv_grid(p->grid, &m->conv_in.geometry), m->conv_in.out);
    if (st == ESPALIER_OK) st = esi_conv2d_run(p->ctx, &m->conv_in, x->rows, &picture, (esi_tensor){0});
    esi_tensor_free(p->ctx, &picture.rows);
    if (st == ESPALIER_OK) esi_tap(p->ctx, x->rows, "conv_in");
    return st;
}

/* Stages 1 to 6; the picture's rows are released as soon as they are used. */
static espalier_status encode(u2net_pass *p, esi_map *x)
{
    const esi_u2net *m = p->model;
    espalier_status st = ESPALIER_OK;

    for (int i = 0; st == ESPALIER_OK && i < STAGES; i++) {
        const bool last = i == STAGES - 1;
        const int64_t deeper = last ? 0 : i == STAGES - 2 ? m->encode[i + 1].out : m->decode[i + 1].out;
        esi_map *to = last ? &p->bottom : &p->both[i];
        esi_map own;
        st = esi_map_new(p->ctx, to, x->grid, deeper + m->encode[i].out);
        if (st != ESPALIER_OK) break;
        own = last ? p->bottom : own_part(p, i);
        st = esi_rsu_forward(p->ctx, &m->encode[i], own.rows, x);
        esi_tensor_free(p->ctx, &x->rows);
        if (st != ESPALIER_OK) break;
        esi_tap(p->ctx, own.rows, "stage%d", i + 1);
        if (!last) st = esi_map_pool(p->ctx, x, &own);
    }
    return st;
}

/* Side map i of a level's result, at the picture's size. */
static espalier_status side_map(u2net_pass *p, const esi_map *x, int i)
{
    const esi_u2net *m = p->model;
    esi_map small = {0};
    espalier_status st;

    if (i >= p->sides.cols) return ESPALIER_OK;
    st = esi_map_new(p->ctx, &small, x->grid, 1);
    if (st == ESPALIER_OK) st = esi_conv2d_run(p->ctx, &m->side[i], small.rows, x, (esi_tensor){0});
    if (st == ESPALIER_OK) st = esi_map_resize(p->ctx, esi_cols(p->sides, i, 1), &small, p->grid, false);
    esi_tensor_free(p->ctx, &small.rows);
    return st;
}

static espalier_status decode(u2net_pass *p)
{
    const esi_u2net *m = p->model;
    esi_map deeper = p->bottom;
    espalier_status st = side_map(p, &deeper, STAGES - 1);

    for (int i = STAGES - 2; st == ESPALIER_OK && i >= 0; i--) {
        esi_map y = {0};
        st = esi_map_resize(p->ctx, esi_cols(p->both[i].rows, 0, deeper.rows.cols), &deeper, p->both[i].grid, false);
        esi_tensor_free(p->ctx, &deeper.rows);
        if (st == ESPALIER_OK) st = esi_map_new(p->ctx, &y, p->both[i].grid, m->decode[i].out);
        if (st == ESPALIER_OK) st = esi_rsu_forward(p->ctx, &m->decode[i], y.rows, &p->both[i]);
        esi_tensor_free(p->ctx, &p->both[i].rows);
        if (st != ESPALIER_OK) break;
        esi_tap(p->ctx, y.rows, "stage%dd", i + 1);
        st = side_map(p, &y, i);
        deeper = y;
    }
    return st;
}

static espalier_status finish(u2net_pass *p, esi_tensor matte)
{
    const esi_u2net *m = p->model;
    espalier_status st = ESPALIER_OK;
    esi_tensor copy = {0};

    if (m->kind == ESI_ISNET)
        st = esi_activate(p->ctx, matte, esi_cols(p->sides, 0, 1), ESI_ACT_SIGMOID);
    else
        st = esi_linear(p->ctx, matte, p->sides, m->fuse.weight, &(esi_epilogue){.bias = m->fuse.shift, .act = ESI_ACT_SIGMOID});
    if (st != ESPALIER_OK || !esi_tap_enabled(p->ctx)) return st;
    if (m->kind != ESI_ISNET) esi_tap(p->ctx, matte, "d0");
    st = esi_tensor_new(p->ctx, &copy, matte.rows, 1, ESI_F32);
    for (int i = 0; st == ESPALIER_OK && i < p->sides.cols; i++) {
        st = esi_activate(p->ctx, copy, esi_cols(p->sides, i, 1), ESI_ACT_SIGMOID);
        if (st == ESPALIER_OK) esi_tap(p->ctx, copy, "d%d", i + 1);
    }
    return st;
}

/* ------------------------------------------------------------------- memory */

/* Values inside a block: its input, and both halves of all levels. */
static uint64_t rsu_values(const esi_rsu *b, esi_grid grid)
{
    uint64_t sum = (uint64_t)(grid.height * grid.width * b->out);

    for (int i = 0; i < b->depth - 1; i++) {
        sum += (uint64_t)(grid.height * grid.width * 2 * b->middle);
        if (!b->flat && i < b->depth - 2) grid = esi_half_grid(grid);
    }
    return sum;
}

uint64_t esi_u2net_memory_least(const esi_u2net *m, int64_t H, int64_t W)
{
    const uint64_t pixels = (uint64_t)(H * W);
    const esi_grid first = m->kind == ESI_ISNET ? esi_conv_grid((esi_grid){H, W}, &m->conv_in.geometry) : (esi_grid){H, W};
    uint64_t kept = pixels * (1 + (m->kind == ESI_ISNET ? 1 : STAGES)), most = 0, both[STAGES] = {0};
    esi_grid grids[STAGES];

    for (int i = 0; i < STAGES; i++) {
        const int64_t deeper = i == STAGES - 1 ? 0 : i == STAGES - 2 ? m->encode[i + 1].out : m->decode[i + 1].out;
        grids[i] = i == 0 ? first : esi_half_grid(grids[i - 1]);
        const uint64_t area = (uint64_t)(grids[i].height * grids[i].width);
        both[i] = area * (uint64_t)(deeper + m->encode[i].out);
        kept += both[i];
        most = ESI_MAX(most, kept + area * (uint64_t)m->encode[i].in + rsu_values(&m->encode[i], grids[i]));
    }
    for (int i = STAGES - 2; i >= 0; i--) {
        kept -= both[i + 1];
        most = ESI_MAX(most, kept + (uint64_t)(grids[i].height * grids[i].width * m->decode[i].out) + rsu_values(&m->decode[i], grids[i]));
    }
    return most * sizeof(float);
}

espalier_status esi_u2net_forward(espalier_context *ctx, const esi_u2net *m, esi_tensor *matte, const float *pixels, int64_t H, int64_t W)
{
    u2net_pass p = {.ctx = ctx, .model = m, .grid = {H, W}};
    esi_map x = {0};
    esi_scope scope;
    espalier_status st;

    *matte = (esi_tensor){0};
    if (H < 2 || W < 2 || H > ESI_IMAGE_MAX_SIDE || W > ESI_IMAGE_MAX_SIDE)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "matting network: %lld x %lld pixels", (long long)W, (long long)H);
    st = esi_image_check_memory(ctx, esi_u2net_kind_name(m->kind), H, W, esi_u2net_memory_least(m, H, W));
    if (st != ESPALIER_OK) return st;
    scope = esi_scope_begin(ctx);
    st = esi_tensor_new(ctx, matte, H * W, 1, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &p.sides, H * W, m->kind == ESI_ISNET && !esi_tap_enabled(ctx) ? 1 : m->n_sides,
                                                ESI_F32);
    if (st == ESPALIER_OK) st = stem(&p, &x, pixels);
    if (st == ESPALIER_OK) st = encode(&p, &x);
    if (st == ESPALIER_OK) st = decode(&p);
    if (st == ESPALIER_OK) st = finish(&p, *matte);
    if (st == ESPALIER_OK)
        esi_tensor_keep(ctx, *matte);
    else
        *matte = (esi_tensor){0};
    esi_scope_end(ctx, scope);
    return st;
}
