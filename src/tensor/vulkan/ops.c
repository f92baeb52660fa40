/* SPDX-License-Identifier: MIT
 *
 * ops.c: the ops of the backend. An op with a shader is cut by rows into dispatches that respect the device's largest binding and the
 * bounded length of submissions; cutting cannot change a bit, because every element depends on its own row alone. A matrix whose rows are
 * named by an index is cut into windows, and the op goes over them one after the other. Without a shader, or with a tensor that cannot lie
 * on the device, the op runs on the CPU.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <math.h>

/* How an operand follows the rows of the call. */
typedef enum cut { CUT_NONE, CUT_ROWS, CUT_COLS, CUT_WINDOW, CUT_WHOLE } cut;      /* NONE: a vector, WHOLE: a matrix; bound whole */

typedef struct operand {
    esi_tensor t;
    cut cut;
    bool output;
} operand;

typedef struct call {
    const char *what;
    esi_vk_shader shader;
    int32_t kind, act;
    operand operands[ESI_VK_BINDINGS];
    esi_vk_push push;                       /* cols, n, f */
    int64_t rows, work;                     /* of the call; elements per row */
    uint32_t lanes;                         /* invocations that share an item: 1, or 16 for row sums */
    int64_t items;                          /* per row; 0 = push.cols */
} call;

/* --------------------------------------------------------------- cutting */

static int64_t elements_bound(const esi_vk_device *d) { return (int64_t)((d->info.max_range - d->alignment) / 4); }

/* Rows of t that one binding can hold, 0 when not even one. */
static int64_t rows_bound(const esi_vk_device *d, esi_tensor t)
{
    int64_t most = elements_bound(d);
    if (t.cols > most) return 0;
    return t.stride > 0 ? 1 + (most - t.cols) / t.stride : INT64_MAX;
}

static bool can_run(const esi_vk_device *d, const call *c)
{
    for (size_t i = 0; i < ESI_VK_BINDINGS; i++) {
        const operand *o = &c->operands[i];
        if (esi_tensor_is_null(o->t)) continue;
        if (!esi_vk_placeable(d, o->t) || (o->t.buffer->is_weight && o->cut != CUT_NONE)) return false;
        if (o->cut == CUT_NONE ? o->t.rows * o->t.cols > elements_bound(d) : rows_bound(d, o->t) == 0) return false;
        if (o->cut == CUT_WHOLE && rows_bound(d, o->t) < o->t.rows) return false;
    }
    return c->work > 0 && c->work <= INT32_MAX;
}

static int64_t piece_rows(const esi_vk_device *d, const call *c)
{
    int64_t rows = ESI_MAX((int64_t)d->work_limit / c->work, INT64_C(1));

    rows = ESI_MIN(rows, INT32_MAX / (c->work * (int64_t)c->lanes));        /* numbers of invocations stay below 2^31 */
    for (size_t i = 0; i < ESI_VK_BINDINGS; i++)
        if (!esi_tensor_is_null(c->operands[i].t) && c->operands[i].cut == CUT_ROWS)
            rows = ESI_MIN(rows, rows_bound(d, c->operands[i].t));
    return ESI_MAX(rows, INT64_C(1));
}

static esi_tensor part(const operand *o, int64_t row, int64_t n, int64_t window, int64_t window_rows)
{
    if (esi_tensor_is_null(o->t)) return o->t;
    if (o->cut == CUT_ROWS) return esi_rows(o->t, row, n);
    if (o->cut == CUT_COLS) return esi_cols(o->t, row, n);
    if (o->cut == CUT_WINDOW) return esi_rows(o->t, window, window_rows);
    return o->t;
}

static espalier_status dispatch_piece(espalier_context *ctx, esi_vk_device *d, const call *c, int64_t row, int64_t n, int64_t window,
                                      int64_t window_rows)
{
    esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
    esi_vk_push push = c->push;
    uint64_t items = (uint64_t)n * (uint64_t)(c->items ? c->items : (int64_t)push.cols);
    uint64_t group = esi_vk_workgroup(d) / c->lanes;

    push.rows = (uint32_t)n;
    for (size_t i = 0; i < ESI_VK_BINDINGS; i++) {
        esi_tensor t = part(&c->operands[i], row, n, window, window_rows);
        int64_t elements;

        if (esi_tensor_is_null(t)) continue;
        elements = c->operands[i].cut == CUT_NONE ? t.rows * t.cols : t.rows > 0 ? (t.rows - 1) * t.stride + t.cols : 0;
        bindings[i] = (esi_vk_binding){esi_vk_range_of(t), esi_vk_offset(t), (uint64_t)elements * 4};
        push.at[i].stride = c->operands[i].cut == CUT_NONE ? 0 : (uint32_t)t.stride;
        if (c->operands[i].cut != CUT_WINDOW) continue;
        push.n[0] = (uint32_t)window;
        push.n[1] = (uint32_t)window_rows;
        push.n[2] = (uint32_t)c->operands[i].t.rows;
    }
    return esi_vk_dispatch(ctx, d, c->what, c->shader, c->kind, c->act, bindings, &push, (items + group - 1) / group,
                           (uint64_t)n * (uint64_t)c->work);
}

static espalier_status dispatch_all(espalier_context *ctx, esi_vk_device *d, const call *c)
{
    int64_t total = 0, window_rows = 1;
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; i < ESI_VK_BINDINGS; i++)
        if (c->operands[i].cut == CUT_WINDOW && !esi_tensor_is_null(c->operands[i].t)) {
            total = c->operands[i].t.rows;
            window_rows = ESI_MIN(rows_bound(d, c->operands[i].t), INT64_C(1) << 30);
        }
    for (int64_t window = 0; st == ESPALIER_OK && (window == 0 || window < total); window += window_rows)
        for (int64_t row = 0; st == ESPALIER_OK && row < c->rows;) {
            int64_t n = ESI_MIN(piece_rows(d, c), c->rows - row);
            st = dispatch_piece(ctx, d, c, row, n, window, ESI_MIN(window_rows, total - window));
            row += n;
        }
    return st;
}

/* Operands to the device, the work recorded. */
static espalier_status run(espalier_context *ctx, esi_vk_device *d, const call *c)
{
    espalier_status st = esi_check_cancel(ctx);

    if (st != ESPALIER_OK) return st;
    esi_vk_lock(d);
    for (size_t i = 0; i < ESI_VK_BINDINGS && st == ESPALIER_OK; i++)
        if (!c->operands[i].output) st = esi_vk_input(ctx, d, c->operands[i].t);
    for (size_t i = 0; i < ESI_VK_BINDINGS && st == ESPALIER_OK; i++)
        if (c->operands[i].output) st = esi_vk_output(ctx, d, c->operands[i].t);
    if (st == ESPALIER_OK) st = dispatch_all(ctx, d, c);
    esi_vk_unlock(d);
    return st;
}

/* ---------------------------------------------------------- ops on the CPU */

enum {
    OP_LINEAR, OP_CONV, OP_ATTENTION, OP_LAYER_NORM, OP_GROUP_NORM, OP_RMS_NORM_HEADS, OP_ROPE, OP_ELEMENTWISE, OP_COPY, OP_GATHER_ROWS,
    OP_SCATTER_ROWS, OP_REPEAT_COLS, OP_MEAN_COLS, OP_TRANSPOSE_COLS, OP_TRANSPOSE, OP_POOL_ROWS, OP_WEIGHTED_GATHER, OP_MEAN_ROWS,
    OP_ROW_SUMS, OP_COUNT_NONFINITE
};

#define TO_HOST(op, number, outputs, ...) \
    esi_vk_to_host(ctx, op, number, (const esi_tensor[]){__VA_ARGS__}, sizeof((const esi_tensor[]){__VA_ARGS__}) / sizeof(esi_tensor), \
                   outputs)

static espalier_status linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    espalier_status st = TO_HOST("linear", OP_LINEAR, 1, x, w, e->bias, e->scale, e->gate, e->residual, y);
    return st == ESPALIER_OK ? esi_cpu_linear(ctx, y, x, w, e) : st;
}

static espalier_status conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                            const esi_epilogue *e)
{
    espalier_status st = TO_HOST("conv", OP_CONV, 1, x, table, w, e->bias, e->scale, e->gate, e->residual, y);
    return st == ESPALIER_OK ? esi_cpu_conv(ctx, y, x, table, w, layout, e) : st;
}

static espalier_status attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                 const esi_attention_args *a)
{
    espalier_status st = TO_HOST("attention", OP_ATTENTION, 1, q, k, v, a->bias, a->region, y);
    return st == ESPALIER_OK ? esi_cpu_attention(ctx, y, q, k, v, a) : st;
}

static espalier_status group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a)
{
    espalier_status st = TO_HOST("group_norm", OP_GROUP_NORM, 1, x, a->weight, a->bias, y);
    return st == ESPALIER_OK ? esi_cpu_group_norm(ctx, y, x, groups, a) : st;
}

static espalier_status mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    espalier_status st = TO_HOST("mean_rows", OP_MEAN_ROWS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_mean_rows(ctx, y, x) : st;
}

static espalier_status count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count)
{
    espalier_status st = TO_HOST("count_nonfinite", OP_COUNT_NONFINITE, 0, x);
    return st == ESPALIER_OK ? esi_cpu_count_nonfinite(ctx, x, nan_count, inf_count) : st;
}

/* ------------------------------------------------------------------ tables */

static espalier_status pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "pool_rows", .shader = ESI_VK_TABLE, .kind = kind == ESI_POOL_MAX ? 0 : 1, .rows = y.rows,
              .work = y.cols * (table.cols + 1), .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_WHOLE, false}, {table, CUT_ROWS, false}},
              .push = {.cols = (uint32_t)y.cols, .n = {(uint32_t)table.cols, (uint32_t)x.rows}}};
    espalier_status st;

    if (can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("pool_rows", OP_POOL_ROWS, 1, x, table, y);
    return st == ESPALIER_OK ? esi_cpu_pool_rows(ctx, y, x, table, kind) : st;
}

static espalier_status weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "weighted_gather", .shader = ESI_VK_TABLE, .kind = 2, .rows = y.rows, .work = y.cols * (table.cols + 1), .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_WHOLE, false}, {table, CUT_ROWS, false}, {weight, CUT_ROWS, false}},
              .push = {.cols = (uint32_t)y.cols, .n = {(uint32_t)table.cols, (uint32_t)x.rows}}};
    espalier_status st;

    if (can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("weighted_gather", OP_WEIGHTED_GATHER, 1, x, table, weight, y);
    return st == ESPALIER_OK ? esi_cpu_weighted_gather(ctx, y, x, table, weight) : st;
}

/* -------------------------------------------------------------- statistics */

static espalier_status row_sums_on_device(espalier_context *ctx, const call *c, float *sum, float *sum_of_squares)
{
    call with_result = *c;
    esi_scope scope = esi_scope_begin(ctx);
    float *pairs = NULL;
    esi_tensor result;
    espalier_status st = esi_tensor_new(ctx, &result, c->rows, 2, ESI_F32);

    if (st != ESPALIER_OK) goto done;
    with_result.operands[0] = (operand){result, CUT_ROWS, true};
    st = run(ctx, esi_vk_of(ctx), &with_result);
    if (st != ESPALIER_OK) goto done;
    pairs = esi_alloc(ctx, (size_t)c->rows, 2 * sizeof *pairs, "row sums");
    st = pairs ? esi_vk_read(ctx, result, pairs) : ctx->error_status;
    for (int64_t r = 0; st == ESPALIER_OK && r < c->rows; r++) {
        sum[r] = pairs[2 * r];
        sum_of_squares[r] = pairs[2 * r + 1];
    }
done:
    esi_free(ctx, pairs);
    esi_scope_end(ctx, scope);
    return st;
}

static espalier_status row_sums(espalier_context *ctx, esi_tensor x, float *sum, float *sum_of_squares)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "row_sums", .shader = ESI_VK_NORM, .kind = 2, .rows = x.rows, .work = x.cols, .lanes = 16, .items = 1,
              .operands = {{{0}, CUT_NONE, false}, {x, CUT_ROWS, false}}, .push = {.cols = (uint32_t)x.cols, .n = {1}}};
    espalier_status st;

    if (can_run(d, &c) && esi_vk_fits(d, (uint64_t)x.rows * 8)) return row_sums_on_device(ctx, &c, sum, sum_of_squares);
    st = TO_HOST("row_sums", OP_ROW_SUMS, 0, x);
    return st == ESPALIER_OK ? esi_cpu_row_sums(ctx, x, sum, sum_of_squares) : st;
}

/* ------------------------------------------------------------ norms, rotary */

static espalier_status layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    esi_vk_device *d = esi_vk_of(ctx);
    bool modulated = !esi_tensor_is_null(a->mod_scale);
    esi_tensor scale = modulated ? a->mod_scale : a->weight, shift = modulated ? a->mod_shift : a->bias;
    call c = {.what = "layer_norm", .shader = ESI_VK_NORM, .act = (int32_t)a->act, .rows = y.rows, .work = y.cols, .lanes = 16, .items = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_ROWS, false}, {scale, CUT_NONE, false}, {shift, CUT_NONE, false}},
              .push = {.cols = (uint32_t)y.cols, .f = {a->eps}}};
    espalier_status st;

    c.push.n[0] = 1;
    c.push.n[1] = (esi_tensor_is_null(scale) ? 0u : 1u) | (esi_tensor_is_null(shift) ? 0u : 2u) | (modulated ? 4u : 0u);
    /* With no eps, squares that a device may flush would decide the result. */
    if (a->eps >= 0x1p-60f && can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("layer_norm", OP_LAYER_NORM, 1, x, scale, shift, y);
    return st == ESPALIER_OK ? esi_cpu_layer_norm(ctx, y, x, a) : st;
}

static espalier_status rms_norm_heads(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "rms_norm_heads", .shader = ESI_VK_NORM, .kind = 1, .rows = y.rows, .work = y.cols, .lanes = 16, .items = heads,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_ROWS, false}, {gamma, CUT_NONE, false}},
              .push = {.cols = (uint32_t)(y.cols / heads), .n = {(uint32_t)heads}, .f = {1e-12f}}};
    espalier_status st;

    if (can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("rms_norm_heads", OP_RMS_NORM_HEADS, 1, x, gamma, y);
    return st == ESPALIER_OK ? esi_cpu_rms_norm_heads(ctx, y, x, gamma, heads) : st;
}

static espalier_status rope(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                            esi_rope_pairing pairing)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "rope", .shader = ESI_VK_ROPE, .rows = y.rows, .work = y.cols, .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_ROWS, false}, {cos, CUT_ROWS, false}, {sin, CUT_ROWS, false}},
              .push = {.cols = (uint32_t)(y.cols / 2), .n = {(uint32_t)(y.cols / heads / 2), (uint32_t)pairing}}};
    espalier_status st;

    if (can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("rope", OP_ROPE, 1, x, cos, sin, y);
    return st == ESPALIER_OK ? esi_cpu_rope(ctx, y, x, cos, sin, heads, pairing) : st;
}

/* -------------------------------------------------------------- elementwise */

static espalier_status elementwise(espalier_context *ctx, esi_tensor y, const esi_elementwise_args *a)
{
    esi_vk_device *d = esi_vk_of(ctx);
    const cut second = a->kind == ESI_EW_SCALE_SHIFT || a->kind == ESI_EW_NORMALIZE ? CUT_NONE : CUT_ROWS;
    call c = {.what = "elementwise", .shader = ESI_VK_ELEMENTWISE, .kind = (int32_t)a->kind, .act = (int32_t)a->act, .rows = y.rows,
              .work = y.cols, .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {a->a, CUT_ROWS, false}, {a->b, second, false}, {a->c, CUT_NONE, false}},
              .push = {.cols = (uint32_t)y.cols, .f = {a->alpha, a->beta}}};
    /* Devices may flush subnormal numbers: harmless in tensors, which have none, but not in a factor. */
    bool subnormal = fpclassify(a->alpha) == FP_SUBNORMAL || fpclassify(a->beta) == FP_SUBNORMAL;
    bool from_weight = a->kind == ESI_EW_COPY && a->a.buffer->is_weight; /* its numbers are on the host anyway */
    espalier_status st;

    c.push.n[0] = (esi_tensor_is_null(a->b) ? 0u : 1u) | (esi_tensor_is_null(a->c) ? 0u : 2u);
    if (!from_weight && !subnormal && can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST(from_weight ? "copy of a weight" : "elementwise", from_weight ? OP_COPY : OP_ELEMENTWISE, 1, a->a, a->b, a->c, y);
    return st == ESPALIER_OK ? esi_cpu_elementwise(ctx, y, a) : st;
}

/* ----------------------------------------------------- rows and column groups */

static espalier_status gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "gather_rows", .shader = ESI_VK_MOVE, .kind = ESI_VK_GATHER, .rows = y.rows, .work = y.cols, .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_WINDOW, false}, {index, CUT_ROWS, false}}, .push = {.cols = (uint32_t)y.cols}};
    espalier_status st;

    if (can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("gather_rows", OP_GATHER_ROWS, 1, x, index, y);
    return st == ESPALIER_OK ? esi_cpu_gather_rows(ctx, y, x, index) : st;
}

static espalier_status scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "scatter_rows", .shader = ESI_VK_MOVE, .kind = ESI_VK_SCATTER, .rows = x.rows, .work = x.cols, .lanes = 1,
              .operands = {{y, CUT_WINDOW, false}, {x, CUT_ROWS, false}, {index, CUT_ROWS, false}}, .push = {.cols = (uint32_t)x.cols}};
    espalier_status st = ESPALIER_OK;

    if (can_run(d, &c)) {
        /* Rows that no index names stay: y is an input as well. */
        esi_vk_lock(d);
        st = esi_vk_input(ctx, d, y);
        esi_vk_unlock(d);
        c.operands[0].output = true;
        return st == ESPALIER_OK ? run(ctx, d, &c) : st;
    }
    st = esi_vk_to_host(ctx, "scatter_rows", OP_SCATTER_ROWS, (const esi_tensor[]){y, x, index}, 3, 0);
    if (st == ESPALIER_OK) st = TO_HOST("scatter_rows", OP_SCATTER_ROWS, 1, y);
    return st == ESPALIER_OK ? esi_cpu_scatter_rows(ctx, y, x, index) : st;
}

static espalier_status add_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat, bool accumulate)
{
    esi_vk_device *d = esi_vk_of(ctx);
    bool indexed = !esi_tensor_is_null(index);
    call c = {.what = accumulate ? "add_repeat_cols" : "repeat_cols", .shader = ESI_VK_MOVE,
              .kind = accumulate ? ESI_VK_ADD_REPEAT : ESI_VK_REPEAT, .rows = y.rows, .work = y.cols, .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, indexed ? CUT_WINDOW : CUT_ROWS, false}, {index, CUT_ROWS, false}},
              .push = {.cols = (uint32_t)y.cols}};
    espalier_status st = ESPALIER_OK;

    c.push.n[3] = (uint32_t)repeat | (indexed ? UINT32_C(1) << 31 : 0u);
    if (repeat <= INT32_MAX && can_run(d, &c)) {
        esi_vk_lock(d);
        if (accumulate) st = esi_vk_input(ctx, d, y);
        esi_vk_unlock(d);
        return st == ESPALIER_OK ? run(ctx, d, &c) : st;
    }
    st = esi_vk_to_host(ctx, c.what, OP_REPEAT_COLS, (const esi_tensor[]){y, x, index}, 3, 0);
    if (st == ESPALIER_OK) st = TO_HOST(c.what, OP_REPEAT_COLS, 1, y);
    return st == ESPALIER_OK ? esi_cpu_add_repeat_cols(ctx, y, x, index, repeat, accumulate) : st;
}

static espalier_status mean_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t group)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "mean_cols", .shader = ESI_VK_MOVE, .kind = ESI_VK_MEAN_COLS, .rows = y.rows, .work = x.cols, .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_ROWS, false}}, .push = {.cols = (uint32_t)y.cols}};
    espalier_status st;

    c.push.n[3] = (uint32_t)group;
    if (group < INT32_MAX && can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("mean_cols", OP_MEAN_COLS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_mean_cols(ctx, y, x, group) : st;
}

static espalier_status transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b)
{
    esi_vk_device *d = esi_vk_of(ctx);
    call c = {.what = "transpose_cols", .shader = ESI_VK_MOVE, .kind = ESI_VK_TRANSPOSE_COLS, .rows = y.rows, .work = y.cols, .lanes = 1,
              .operands = {{y, CUT_ROWS, true}, {x, CUT_ROWS, false}}, .push = {.cols = (uint32_t)y.cols}};
    espalier_status st;

    c.push.n[2] = (uint32_t)b;
    c.push.n[3] = (uint32_t)a;
    if (can_run(d, &c)) return run(ctx, d, &c);
    st = TO_HOST("transpose_cols", OP_TRANSPOSE_COLS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_transpose_cols(ctx, y, x, a, b) : st;
}

/* Columns of y are cut where rows of x are, so that both sides of a dispatch can be bound. */
static espalier_status transpose(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    esi_vk_device *d = esi_vk_of(ctx);
    int64_t most = ESI_MAX(rows_bound(d, x), INT64_C(1));
    call c = {.what = "transpose", .shader = ESI_VK_MOVE, .kind = ESI_VK_TRANSPOSE, .rows = y.rows, .lanes = 1};
    espalier_status st = ESPALIER_OK;

    for (int64_t first = 0; first < x.rows; first += most) {
        int64_t n = ESI_MIN(most, x.rows - first);
        c.operands[0] = (operand){esi_cols(y, first, n), CUT_ROWS, true};
        c.operands[1] = (operand){esi_rows(x, first, n), CUT_COLS, false};
        c.push.cols = (uint32_t)n;
        c.work = n;
        if (!can_run(d, &c)) break;
        st = run(ctx, d, &c);
        if (st != ESPALIER_OK || first + n == x.rows) return st;
    }
    st = TO_HOST("transpose", OP_TRANSPOSE, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_transpose(ctx, y, x) : st;
}

void esi_vk_set_ops(esi_backend *b)
{
    b->linear = linear;
    b->conv = conv;
    b->attention = attention;
    b->layer_norm = layer_norm;
    b->group_norm = group_norm;
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
    b->mean_rows = mean_rows;
    b->row_sums = row_sums;
    b->count_nonfinite = count_nonfinite;
}
