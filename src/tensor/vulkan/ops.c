/* SPDX-License-Identifier: MIT
 *
 * ops.c: the ops of the backend that work row by row, and the table of all. Without a shader, or with a tensor that cannot lie on the
 * device, an op runs on the CPU.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <math.h>

/* ------------------------------------------------------------------ tables */

static espalier_status pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "pool_rows", .shader = ESI_VK_TABLE, .kind = kind == ESI_POOL_MAX ? 0 : 1, .rows = y.rows,
        .work = y.cols * (table.cols + 1), .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_WHOLE, false}, {table, ESI_VK_ROWS, false}},
        .push = {.cols = (uint32_t)y.cols, .n = {(uint32_t)table.cols, (uint32_t)x.rows}}};
    espalier_status st;

    if (esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("pool_rows", OP_POOL_ROWS, 1, x, table, y);
    return st == ESPALIER_OK ? esi_cpu_pool_rows(ctx, y, x, table, kind) : st;
}

static espalier_status weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "weighted_gather", .shader = ESI_VK_TABLE, .kind = 2, .rows = y.rows,
        .work = y.cols * (table.cols + 1), .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_WHOLE, false}, {table, ESI_VK_ROWS, false}, {weight, ESI_VK_ROWS, false}},
        .push = {.cols = (uint32_t)y.cols, .n = {(uint32_t)table.cols, (uint32_t)x.rows}}};
    espalier_status st;

    if (esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("weighted_gather", OP_WEIGHTED_GATHER, 1, x, table, weight, y);
    return st == ESPALIER_OK ? esi_cpu_weighted_gather(ctx, y, x, table, weight) : st;
}

/* ------------------------------------------------------------ norms, rotary */

static espalier_status layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    esi_vk_device *d = esi_vk_of(ctx);
    bool modulated = !esi_tensor_is_null(a->mod_scale);
    esi_tensor scale = modulated ? a->mod_scale : a->weight, shift = modulated ? a->mod_shift : a->bias;
    esi_vk_call c = {.what = "layer_norm", .shader = ESI_VK_NORM, .act = (int32_t)a->act, .rows = y.rows,
        .work = y.cols, .lanes = 16, .items = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}, {scale, ESI_VK_NONE, false}, {shift, ESI_VK_NONE, false}},
        .push = {.cols = (uint32_t)y.cols, .f = {a->eps}}};
    espalier_status st;

    c.push.n[0] = 1;
    c.push.n[1] = (esi_tensor_is_null(scale) ? 0u : 1u) | (esi_tensor_is_null(shift) ? 0u : 2u) | (modulated ? 4u : 0u);
    /* With no eps, squares that a device may flush would decide the result. */
    if (a->eps >= 0x1p-60f && esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("layer_norm", OP_LAYER_NORM, 1, x, scale, shift, y);
    return st == ESPALIER_OK ? esi_cpu_layer_norm(ctx, y, x, a) : st;
}

static espalier_status rms_norm_heads(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "rms_norm_heads", .shader = ESI_VK_NORM, .kind = 1, .rows = y.rows,
        .work = y.cols, .lanes = 16, .items = heads,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}, {gamma, ESI_VK_NONE, false}},
        .push = {.cols = (uint32_t)(y.cols / heads), .n = {(uint32_t)heads}, .f = {1e-12f}}};
    espalier_status st;

    if (esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("rms_norm_heads", OP_RMS_NORM_HEADS, 1, x, gamma, y);
    return st == ESPALIER_OK ? esi_cpu_rms_norm_heads(ctx, y, x, gamma, heads) : st;
}

static espalier_status rope(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                            esi_rope_pairing pairing)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "rope", .shader = ESI_VK_ROPE, .rows = y.rows, .work = y.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}, {cos, ESI_VK_ROWS, false}, {sin, ESI_VK_ROWS, false}},
        .push = {.cols = (uint32_t)(y.cols / 2), .n = {(uint32_t)(y.cols / heads / 2), (uint32_t)pairing}}};
    espalier_status st;

    if (esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("rope", OP_ROPE, 1, x, cos, sin, y);
    return st == ESPALIER_OK ? esi_cpu_rope(ctx, y, x, cos, sin, heads, pairing) : st;
}

/* -------------------------------------------------------------- elementwise */

static espalier_status elementwise(espalier_context *ctx, esi_tensor y, const esi_elementwise_args *a);

/* A weight is expanded on the host, where it is; y stays on the device. */
static espalier_status copy_weight(espalier_context *ctx, esi_tensor y, esi_tensor w)
{
    esi_elementwise_args copy = {.kind = ESI_EW_COPY};
    esi_scope scope = esi_scope_begin(ctx);
    float *values = esi_alloc(ctx, (size_t)w.rows, (size_t)w.cols * sizeof *values, "weight");
    espalier_status st = values ? esi_cpu_read(ctx, w, values) : ctx->error_status;

    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &copy.a, w.rows, w.cols, ESI_F32, values);
    if (st == ESPALIER_OK) st = elementwise(ctx, y, &copy);
    esi_free(ctx, values);
    esi_scope_end(ctx, scope);
    return st;
}

static espalier_status elementwise(espalier_context *ctx, esi_tensor y, const esi_elementwise_args *a)
{
    esi_vk_device *d = esi_vk_of(ctx);
    const esi_vk_cut second = a->kind == ESI_EW_SCALE_SHIFT || a->kind == ESI_EW_NORMALIZE ? ESI_VK_NONE : ESI_VK_ROWS;
    esi_vk_call c = {.what = "elementwise", .shader = ESI_VK_ELEMENTWISE, .kind = (int32_t)a->kind, .act = (int32_t)a->act, .rows = y.rows,
        .work = y.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {a->a, ESI_VK_ROWS, false}, {a->b, second, false}, {a->c, ESI_VK_NONE, false}},
        .push = {.cols = (uint32_t)y.cols, .f = {a->alpha, a->beta}}};
    /* Devices may flush subnormal numbers: harmless in tensors, which have none, but not in a factor. */
    bool subnormal = fpclassify(a->alpha) == FP_SUBNORMAL || fpclassify(a->beta) == FP_SUBNORMAL;
    espalier_status st;

    if (a->kind == ESI_EW_COPY && a->a.buffer->is_weight) return copy_weight(ctx, y, a->a);
    c.push.n[0] = (esi_tensor_is_null(a->b) ? 0u : 1u) | (esi_tensor_is_null(a->c) ? 0u : 2u);
    if (!subnormal && esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("elementwise", OP_ELEMENTWISE, 1, a->a, a->b, a->c, y);
    return st == ESPALIER_OK ? esi_cpu_elementwise(ctx, y, a) : st;
}

/* ----------------------------------------------------- rows and column groups */

static espalier_status gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "gather_rows", .shader = ESI_VK_MOVE, .kind = ESI_VK_GATHER, .rows = y.rows, .work = y.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_WINDOW, false}, {index, ESI_VK_ROWS, false}}, .push = {.cols = (uint32_t)y.cols}};
    espalier_status st;

    if (esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("gather_rows", OP_GATHER_ROWS, 1, x, index, y);
    return st == ESPALIER_OK ? esi_cpu_gather_rows(ctx, y, x, index) : st;
}

static espalier_status scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "scatter_rows", .shader = ESI_VK_MOVE, .kind = ESI_VK_SCATTER, .rows = x.rows, .work = x.cols, .lanes = 1,
        .operands = {{y, ESI_VK_WINDOW, false}, {x, ESI_VK_ROWS, false}, {index, ESI_VK_ROWS, false}}, .push = {.cols = (uint32_t)x.cols}};
    espalier_status st = ESPALIER_OK;

    if (esi_vk_can_run(d, &c)) {
        /* Rows that no index names stay: y is an input as well. */
        esi_vk_lock(d);
        st = esi_vk_input(ctx, d, y);
        esi_vk_unlock(d);
        c.operands[0].output = true;
        return st == ESPALIER_OK ? esi_vk_run(ctx, d, &c) : st;
    }
    st = esi_vk_to_host(ctx, "scatter_rows", OP_SCATTER_ROWS, (const esi_tensor[]){y, x, index}, 3, 0);
    if (st == ESPALIER_OK) st = TO_HOST("scatter_rows", OP_SCATTER_ROWS, 1, y);
    return st == ESPALIER_OK ? esi_cpu_scatter_rows(ctx, y, x, index) : st;
}

static espalier_status add_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat, bool accumulate)
{
    esi_vk_device *d = esi_vk_of(ctx);
    bool indexed = !esi_tensor_is_null(index);
    esi_vk_call c = {.what = accumulate ? "add_repeat_cols" : "repeat_cols", .shader = ESI_VK_MOVE,
        .kind = accumulate ? ESI_VK_ADD_REPEAT : ESI_VK_REPEAT, .rows = y.rows, .work = y.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, indexed ? ESI_VK_WINDOW : ESI_VK_ROWS, false}, {index, ESI_VK_ROWS, false}},
        .push = {.cols = (uint32_t)y.cols}};
    espalier_status st = ESPALIER_OK;

    c.push.n[3] = (uint32_t)repeat | (indexed ? UINT32_C(1) << 31 : 0u);
    if (repeat <= INT32_MAX && esi_vk_can_run(d, &c)) {
        esi_vk_lock(d);
        if (accumulate) st = esi_vk_input(ctx, d, y);
        esi_vk_unlock(d);
        return st == ESPALIER_OK ? esi_vk_run(ctx, d, &c) : st;
    }
    st = esi_vk_to_host(ctx, c.what, OP_REPEAT_COLS, (const esi_tensor[]){y, x, index}, 3, 0);
    if (st == ESPALIER_OK) st = TO_HOST(c.what, OP_REPEAT_COLS, 1, y);
    return st == ESPALIER_OK ? esi_cpu_add_repeat_cols(ctx, y, x, index, repeat, accumulate) : st;
}

static espalier_status mean_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t group)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "mean_cols", .shader = ESI_VK_MOVE, .kind = ESI_VK_MEAN_COLS, .rows = y.rows, .work = x.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}}, .push = {.cols = (uint32_t)y.cols}};
    espalier_status st;

    c.push.n[3] = (uint32_t)group;
    if (group < INT32_MAX && esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("mean_cols", OP_MEAN_COLS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_mean_cols(ctx, y, x, group) : st;
}

static espalier_status transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "transpose_cols", .shader = ESI_VK_MOVE, .kind = ESI_VK_TRANSPOSE_COLS, .rows = y.rows,
        .work = y.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}}, .push = {.cols = (uint32_t)y.cols}};
    espalier_status st;

    c.push.n[2] = (uint32_t)b;
    c.push.n[3] = (uint32_t)a;
    if (esi_vk_can_run(d, &c)) return esi_vk_run(ctx, d, &c);
    st = TO_HOST("transpose_cols", OP_TRANSPOSE_COLS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_transpose_cols(ctx, y, x, a, b) : st;
}

/* Columns of y are cut where rows of x are, so that both sides of a dispatch can be bound. */
static espalier_status transpose(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "transpose", .shader = ESI_VK_MOVE, .kind = ESI_VK_TRANSPOSE, .rows = y.rows, .lanes = 1};
    espalier_status st = ESPALIER_OK;

    for (int64_t first = 0, n; first < x.rows; first += n) {
        n = ESI_MIN(ESI_MAX(esi_vk_rows_bound(d, esi_rows(x, first, x.rows - first)), INT64_C(1)), x.rows - first);
        c.operands[0] = (esi_vk_operand){esi_cols(y, first, n), ESI_VK_ROWS, true};
        c.operands[1] = (esi_vk_operand){esi_rows(x, first, n), ESI_VK_COLS, false};
        c.push.cols = (uint32_t)n;
        c.work = n;
        if (!esi_vk_can_run(d, &c)) break;
        st = esi_vk_run(ctx, d, &c);
        if (st != ESPALIER_OK || first + n == x.rows) return st;
    }
    st = TO_HOST("transpose", OP_TRANSPOSE, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_transpose(ctx, y, x) : st;
}

void esi_vk_set_ops(esi_backend *b)
{
    b->linear = esi_vk_linear;
    b->conv = esi_vk_conv;
    b->attention = esi_vk_attention;
    b->layer_norm = layer_norm;
    b->group_norm = esi_vk_group_norm;
    b->rms_norm_heads = rms_norm_heads;
    b->rope = rope;
    b->elementwise = elementwise;
    b->gather_rows = gather_rows;
    b->scatter_rows = scatter_rows;
    b->add_repeat_cols = add_repeat_cols;
    b->mean_cols = mean_cols;
    b->transpose_cols = transpose_cols;
    b->transpose = transpose;
    b->pool_rows = pool_rows;
    b->weighted_gather = weighted_gather;
    b->mean_rows = esi_vk_mean_rows;
    b->row_sums = esi_vk_row_sums;
    b->count_nonfinite = esi_vk_count_nonfinite;
}
