/* SPDX-License-Identifier: MIT
 *
 * ops.c: argument checks of every operation; then the tensor's backend does the work. A failed check is a mistake of the model code
 * (files are checked before tensors are made from them), so it is an internal error with the operation and both shapes in the text.
 */
#include "tensor/ops.h"

#include "base/context.h"
#include "tensor/backend.h"

#include <stdio.h>

/* ------------------------------------------------------------------ checks */

typedef struct shape_text { char text[64]; } shape_text;

static const char *shape(shape_text *s, esi_tensor t)
{
    if (esi_tensor_is_null(t)) snprintf(s->text, sizeof s->text, "missing");
    else if (t.rows < 0) snprintf(s->text, sizeof s->text, "a view outside its tensor");
    else snprintf(s->text, sizeof s->text, "[%lld, %lld] %s%s", (long long)t.rows, (long long)t.cols, esi_dtype_name(t.dtype),
                  t.buffer->is_weight ? " weight" : "");
    return s->text;
}

/* No weight: aligned, and already under the store rule (a weight becomes such a tensor by esi_copy). */
static bool is_plain(esi_tensor t)
{
    return t.buffer && !t.buffer->is_weight;
}

/* t is a valid [rows, cols] F32 or I32 tensor. */
static espalier_status need(espalier_context *ctx, const char *op, const char *name, esi_tensor t, int64_t rows, int64_t cols,
                            esi_dtype dtype)
{
    shape_text s;

    if (is_plain(t) && t.rows == rows && t.cols == cols && rows >= 0 && t.dtype == dtype) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: %s is %s, expected [%lld, %lld] %s", op, name, shape(&s, t), (long long)rows,
                    (long long)cols, esi_dtype_name(dtype));
}

/* t is any valid F32 matrix. */
static espalier_status need_f32(espalier_context *ctx, const char *op, const char *name, esi_tensor t)
{
    shape_text s;

    if (is_plain(t) && t.rows >= 0 && t.cols >= 0 && t.dtype == ESI_F32) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: %s is %s, expected a F32 matrix", op, name, shape(&s, t));
}

/* t is a weight [rows, cols] of any float type. */
static espalier_status need_weight(espalier_context *ctx, const char *op, const char *name, esi_tensor t, int64_t rows, int64_t cols)
{
    shape_text s;

    if (!esi_tensor_is_null(t) && t.rows == rows && t.cols == cols && t.dtype != ESI_I32) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: %s is %s, expected [%lld, %lld] of a float type", op, name, shape(&s, t),
                    (long long)rows, (long long)cols);
}

/* t is missing, or a vector of n values: [1, n], or any dense matrix of n elements. */
static espalier_status need_vector(espalier_context *ctx, const char *op, const char *name, esi_tensor t, int64_t n)
{
    shape_text s;

    if (esi_tensor_is_null(t)) return ESPALIER_OK;
    if (t.rows == 1 && t.cols == n && t.dtype != ESI_I32) return ESPALIER_OK;
    if (t.rows > 0 && t.stride == t.cols && t.rows * t.cols == n && t.dtype != ESI_I32) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: %s is %s, expected [1, %lld] of a float type", op, name, shape(&s, t), (long long)n);
}

static bool same_view(esi_tensor a, esi_tensor b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.stride == b.stride && a.rows == b.rows && a.cols == b.cols &&
           a.dtype == b.dtype;
}

static uint64_t view_bytes(esi_tensor t)
{
    size_t bytes = 0;

    if (t.rows <= 0 || t.cols <= 0) return 0;
    esi_dtype_row_bytes(t.dtype, (t.rows - 1) * t.stride + t.cols, &bytes);
    return bytes;
}

static bool overlap(esi_tensor a, esi_tensor b)
{
    uint64_t a_bytes = view_bytes(a), b_bytes = view_bytes(b);

    if (a.buffer != b.buffer || a_bytes == 0 || b_bytes == 0) return false;
    if (a.offset + a_bytes <= b.offset || b.offset + b_bytes <= a.offset) return false;
    if (a.stride == b.stride && a.stride > 0) { /* column ranges of the same matrix */
        int64_t a0 = (int64_t)(a.offset / 4) % a.stride, b0 = (int64_t)(b.offset / 4) % b.stride;
        if (a0 + a.cols <= a.stride && b0 + b.cols <= b.stride && (a0 + a.cols <= b0 || b0 + b.cols <= a0)) return false;
    }
    return true;
}

static espalier_status need_apart(espalier_context *ctx, const char *op, const char *name, esi_tensor y, esi_tensor x)
{
    if (!overlap(y, x)) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: y overlaps %s", op, name);
}

/* The very same view, or none of its bytes. */
static espalier_status need_same_or_apart(espalier_context *ctx, const char *op, const char *name, esi_tensor y, esi_tensor x)
{
    return same_view(y, x) ? ESPALIER_OK : need_apart(ctx, op, name, y, x);
}

static espalier_status need_activation(espalier_context *ctx, const char *op, esi_activation act)
{
    if ((unsigned)act < ESI_ACT_COUNT) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: unknown activation %d", op, (int)act);
}

static bool nothing_to_do(esi_tensor y)
{
    return y.rows == 0 || y.cols == 0;
}

static espalier_status need_epilogue(espalier_context *ctx, const char *op, esi_tensor y, const esi_epilogue *e)
{
    espalier_status st = need_vector(ctx, op, "bias", e->bias, y.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, op, "scale", e->scale, y.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, op, "gate", e->gate, y.cols);
    if (st == ESPALIER_OK) st = need_activation(ctx, op, e->act);
    if (st != ESPALIER_OK) return st;
    if (!esi_tensor_is_null(e->gate) && esi_tensor_is_null(e->residual))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: a gate needs a residual", op);
    if (esi_tensor_is_null(e->residual)) return ESPALIER_OK;
    st = need(ctx, op, "residual", e->residual, y.rows, y.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need_same_or_apart(ctx, op, "residual", y, e->residual);
    return st;
}

/* --------------------------------------------------------- matrix products */

static const esi_epilogue no_epilogue;

espalier_status esi_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    espalier_status st = need_f32(ctx, "linear", "x", x);

    if (!e) e = &no_epilogue;
    if (st == ESPALIER_OK) st = need_f32(ctx, "linear", "y", y);
    if (st == ESPALIER_OK) st = need_weight(ctx, "linear", "w", w, y.cols, x.cols);
    if (st == ESPALIER_OK) st = need(ctx, "linear", "y", y, x.rows, w.rows, ESI_F32);
    if (st == ESPALIER_OK) st = need_epilogue(ctx, "linear", y, e);
    if (st == ESPALIER_OK) st = need_apart(ctx, "linear", "x", y, x);
    if (st == ESPALIER_OK) st = need_apart(ctx, "linear", "w", y, w);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->linear(ctx, y, x, w, e);
}

espalier_status esi_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                         const esi_epilogue *e)
{
    espalier_status st = need_f32(ctx, "conv", "x", x);
    size_t k;

    if (!e) e = &no_epilogue;
    if (st == ESPALIER_OK) st = need_f32(ctx, "conv", "y", y);
    if (st == ESPALIER_OK) st = need(ctx, "conv", "table", table, y.rows, table.cols, ESI_I32);
    if (st == ESPALIER_OK && !esi_mul_size(&k, (size_t)table.cols, (size_t)x.cols))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "conv: too many taps");
    if (st == ESPALIER_OK) st = need_weight(ctx, "conv", "w", w, y.cols, (int64_t)k);
    if (st == ESPALIER_OK && layout != ESI_CONV_TAP_MAJOR && layout != ESI_CONV_CHANNEL_MAJOR)
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "conv: unknown weight layout %d", (int)layout);
    if (st == ESPALIER_OK) st = need_epilogue(ctx, "conv", y, e);
    if (st == ESPALIER_OK) st = need_apart(ctx, "conv", "x", y, x);
    if (st == ESPALIER_OK) st = need_apart(ctx, "conv", "w", y, w);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->conv(ctx, y, x, table, w, layout, e);
}

espalier_status esi_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v, const esi_attention_args *a)
{
    static const char op[] = "attention";
    espalier_status st = need_f32(ctx, op, "q", q);
    shape_text s, t;

    if (st == ESPALIER_OK) st = need_f32(ctx, op, "k", k);
    if (st == ESPALIER_OK && (a->heads < 1 || a->windows < 1 || q.cols % a->heads || q.rows % a->windows || k.rows % a->windows))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "attention: q %s and k %s do not divide into %d heads and %lld windows", shape(&s, q),
                      shape(&t, k), a->heads, (long long)a->windows);
    if (st == ESPALIER_OK) st = need(ctx, op, "k", k, k.rows, q.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, op, "v", v, k.rows, q.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, op, "y", y, q.rows, q.cols, ESI_F32);
    if (st == ESPALIER_OK && !esi_tensor_is_null(a->bias))
        st = need(ctx, op, "bias", a->bias, q.rows / a->windows * a->heads, k.rows / a->windows, ESI_F32);
    if (st == ESPALIER_OK && !esi_tensor_is_null(a->region)) {
        st = need(ctx, op, "region", a->region, k.rows, 1, ESI_I32);
        if (st == ESPALIER_OK && q.rows != k.rows)
            st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "attention: regions need as many queries as keys: q %s, k %s", shape(&s, q),
                          shape(&t, k));
    }
    if (st == ESPALIER_OK) st = need_apart(ctx, op, "q", y, q);
    if (st == ESPALIER_OK) st = need_apart(ctx, op, "k", y, k);
    if (st == ESPALIER_OK) st = need_apart(ctx, op, "v", y, v);
    if (st == ESPALIER_OK && !esi_tensor_is_null(a->bias)) st = need_apart(ctx, op, "bias", y, a->bias);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->attention(ctx, y, q, k, v, a);
}

/* ------------------------------------------------------------ norms, rotary */

static espalier_status need_norm(espalier_context *ctx, const char *op, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    espalier_status st = need_f32(ctx, op, "x", x);
    if (st == ESPALIER_OK) st = need(ctx, op, "y", y, x.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need_vector(ctx, op, "weight", a->weight, x.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, op, "bias", a->bias, x.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, op, "mod_scale", a->mod_scale, x.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, op, "mod_shift", a->mod_shift, x.cols);
    if (st == ESPALIER_OK) st = need_activation(ctx, op, a->act);
    if (st == ESPALIER_OK) st = need_same_or_apart(ctx, op, "x", y, x);
    if (st == ESPALIER_OK && esi_tensor_is_null(a->mod_scale) != esi_tensor_is_null(a->mod_shift))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: mod_scale and mod_shift go together", op);
    if (st == ESPALIER_OK && !esi_tensor_is_null(a->mod_scale) && (!esi_tensor_is_null(a->weight) || !esi_tensor_is_null(a->bias)))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: affine and modulation exclude each other", op);
    return st;
}

espalier_status esi_layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    espalier_status st = need_norm(ctx, "layer_norm", y, x, a);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->layer_norm(ctx, y, x, a);
}

espalier_status esi_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a)
{
    espalier_status st = need_norm(ctx, "group_norm", y, x, a);
    shape_text s;

    if (st == ESPALIER_OK && (groups < 1 || x.cols % groups))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "group_norm: x is %s, which does not divide into %d groups", shape(&s, x), groups);
    if (st == ESPALIER_OK && !esi_tensor_is_null(a->mod_scale))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "group_norm: has no modulation");
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->group_norm(ctx, y, x, groups, a);
}

static espalier_status need_heads(espalier_context *ctx, const char *op, esi_tensor y, esi_tensor x, int heads, int multiple)
{
    espalier_status st = need_f32(ctx, op, "x", x);
    shape_text s;

    if (st == ESPALIER_OK) st = need(ctx, op, "y", y, x.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need_same_or_apart(ctx, op, "x", y, x);
    if (st == ESPALIER_OK && (heads < 1 || x.cols % heads || x.cols / heads % multiple))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: x is %s, which does not divide into %d heads", op, shape(&s, x), heads);
    return st;
}

espalier_status esi_rms_norm_heads(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads)
{
    espalier_status st = need_heads(ctx, "rms_norm_heads", y, x, heads, 1);
    if (st == ESPALIER_OK && esi_tensor_is_null(gamma))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "rms_norm_heads: gamma is missing");
    if (st == ESPALIER_OK) st = need_vector(ctx, "rms_norm_heads", "gamma", gamma, x.cols);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->rms_norm_heads(ctx, y, x, gamma, heads);
}

espalier_status esi_rope(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                         esi_rope_pairing pairing)
{
    espalier_status st = need_heads(ctx, "rope", y, x, heads, 2);
    if (st == ESPALIER_OK) st = need(ctx, "rope", "cos", cos, x.rows, x.cols / heads / 2, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, "rope", "sin", sin, x.rows, x.cols / heads / 2, ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "rope", "cos", y, cos);
    if (st == ESPALIER_OK) st = need_apart(ctx, "rope", "sin", y, sin);
    if (st == ESPALIER_OK && pairing != ESI_ROPE_ADJACENT && pairing != ESI_ROPE_HALVES)
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "rope: unknown pairing %d", (int)pairing);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->rope(ctx, y, x, cos, sin, heads, pairing);
}

/* -------------------------------------------------------------- elementwise */

static espalier_status run_elementwise(espalier_context *ctx, const char *op, esi_tensor y, const esi_elementwise_args *a)
{
    espalier_status st = ESPALIER_OK;
    if (!esi_tensor_is_null(a->a)) st = need_same_or_apart(ctx, op, "its first input", y, a->a);
    if (st == ESPALIER_OK && !esi_tensor_is_null(a->b)) st = need_same_or_apart(ctx, op, "its second input", y, a->b);
    if (st == ESPALIER_OK) st = need_activation(ctx, op, a->act);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->elementwise(ctx, y, a);
}

espalier_status esi_copy(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    esi_elementwise_args a = {.kind = ESI_EW_COPY, .a = x};
    espalier_status st = need_f32(ctx, "copy", "y", y);
    if (st == ESPALIER_OK) st = need_weight(ctx, "copy", "x", x, y.rows, y.cols);
    return st == ESPALIER_OK ? run_elementwise(ctx, "copy", y, &a) : st;
}

espalier_status esi_fill(espalier_context *ctx, esi_tensor y, float value)
{
    esi_elementwise_args a = {.kind = ESI_EW_FILL, .alpha = value};
    espalier_status st = need_f32(ctx, "fill", "y", y);
    return st == ESPALIER_OK ? run_elementwise(ctx, "fill", y, &a) : st;
}

/* y, a and perhaps b of one shape. */
static espalier_status same_shapes(espalier_context *ctx, const char *op, esi_tensor y, const esi_elementwise_args *a, bool binary)
{
    espalier_status st = need_f32(ctx, op, "y", y);
    if (st == ESPALIER_OK) st = need(ctx, op, binary ? "a" : "x", a->a, y.rows, y.cols, ESI_F32);
    if (st == ESPALIER_OK && binary) st = need(ctx, op, "b", a->b, y.rows, y.cols, ESI_F32);
    return st == ESPALIER_OK ? run_elementwise(ctx, op, y, a) : st;
}

espalier_status esi_activate(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_activation act)
{
    esi_elementwise_args a = {.kind = ESI_EW_ACTIVATE, .a = x, .act = act};
    return same_shapes(ctx, "activate", y, &a, false);
}

espalier_status esi_add(espalier_context *ctx, esi_tensor y, esi_tensor a, esi_tensor b)
{
    esi_elementwise_args args = {.kind = ESI_EW_ADD, .a = a, .b = b};
    return same_shapes(ctx, "add", y, &args, true);
}

espalier_status esi_mul(espalier_context *ctx, esi_tensor y, esi_tensor a, esi_tensor b)
{
    esi_elementwise_args args = {.kind = ESI_EW_MUL, .a = a, .b = b};
    return same_shapes(ctx, "mul", y, &args, true);
}

espalier_status esi_axpby(espalier_context *ctx, esi_tensor y, float alpha, esi_tensor a, float beta, esi_tensor b)
{
    esi_elementwise_args args = {.kind = ESI_EW_AXPBY, .a = a, .b = b, .alpha = alpha, .beta = beta};
    return same_shapes(ctx, "axpby", y, &args, true);
}

espalier_status esi_scale(espalier_context *ctx, esi_tensor y, esi_tensor x, float value)
{
    esi_elementwise_args a = {.kind = ESI_EW_SCALE, .a = x, .alpha = value};
    return same_shapes(ctx, "scale", y, &a, false);
}

espalier_status esi_scale_shift(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor scale, esi_tensor shift)
{
    esi_elementwise_args a = {.kind = ESI_EW_SCALE_SHIFT, .a = x, .b = scale, .c = shift};
    espalier_status st = need_vector(ctx, "scale_shift", "scale", scale, y.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, "scale_shift", "shift", shift, y.cols);
    return st == ESPALIER_OK ? same_shapes(ctx, "scale_shift", y, &a, false) : st;
}

espalier_status esi_normalize(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor shift, esi_tensor scale)
{
    esi_elementwise_args a = {.kind = ESI_EW_NORMALIZE, .a = x, .b = shift, .c = scale};
    espalier_status st = need_vector(ctx, "normalize", "scale", scale, y.cols);
    if (st == ESPALIER_OK) st = need_vector(ctx, "normalize", "shift", shift, y.cols);
    if (st == ESPALIER_OK && (esi_tensor_is_null(scale) || esi_tensor_is_null(shift)))
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "normalize: shift or scale is missing");
    return st == ESPALIER_OK ? same_shapes(ctx, "normalize", y, &a, false) : st;
}

espalier_status esi_scale_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor factor)
{
    esi_elementwise_args a = {.kind = ESI_EW_SCALE_ROWS, .a = x, .b = factor};
    espalier_status st = need(ctx, "scale_rows", "factor", factor, y.rows, 1, ESI_F32);
    if (st == ESPALIER_OK && !nothing_to_do(y)) st = need_apart(ctx, "scale_rows", "factor", y, factor);
    return st == ESPALIER_OK ? same_shapes(ctx, "scale_rows", y, &a, false) : st;
}

/* ----------------------------------------------------- rows and column groups */

espalier_status esi_gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    espalier_status st = need_f32(ctx, "gather_rows", "x", x);
    if (st == ESPALIER_OK) st = need(ctx, "gather_rows", "y", y, y.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, "gather_rows", "index", index, y.rows, 1, ESI_I32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "gather_rows", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->gather_rows(ctx, y, x, index);
}

espalier_status esi_scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    espalier_status st = need_f32(ctx, "scatter_rows", "x", x);
    if (st == ESPALIER_OK) st = need(ctx, "scatter_rows", "y", y, y.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, "scatter_rows", "index", index, x.rows, 1, ESI_I32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "scatter_rows", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(x)) return st;
    return ctx->backend->scatter_rows(ctx, y, x, index);
}

/* cols * factor, or -1 (a shape nothing has) when that is no size. */
static int64_t times(int64_t cols, int64_t factor)
{
    return factor < 1 || cols < 0 || cols > INT64_MAX / factor ? -1 : cols * factor;
}

espalier_status esi_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t repeat)
{
    espalier_status st = need_f32(ctx, "repeat_cols", "x", x);
    if (st == ESPALIER_OK) st = need(ctx, "repeat_cols", "y", y, x.rows, times(x.cols, repeat), ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "repeat_cols", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->add_repeat_cols(ctx, y, x, (esi_tensor){0}, repeat, false);
}

espalier_status esi_add_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat)
{
    static const char op[] = "add_repeat_cols";
    espalier_status st = need_f32(ctx, op, "x", x);
    if (st == ESPALIER_OK) st = need(ctx, op, "y", y, y.rows, times(x.cols, repeat), ESI_F32);
    if (st == ESPALIER_OK && !esi_tensor_is_null(index)) st = need(ctx, op, "index", index, y.rows, 1, ESI_I32);
    if (st == ESPALIER_OK && esi_tensor_is_null(index)) st = need(ctx, op, "x", x, y.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, op, "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->add_repeat_cols(ctx, y, x, index, repeat, true);
}

espalier_status esi_mean_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t group)
{
    espalier_status st = need_f32(ctx, "mean_cols", "y", y);
    if (st == ESPALIER_OK) st = need(ctx, "mean_cols", "x", x, y.rows, times(y.cols, group), ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "mean_cols", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->mean_cols(ctx, y, x, group);
}

espalier_status esi_transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b)
{
    espalier_status st = need_f32(ctx, "transpose_cols", "y", y);
    if (st == ESPALIER_OK) st = need(ctx, "transpose_cols", "x", x, y.rows, times(a, b), ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, "transpose_cols", "y", y, x.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "transpose_cols", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->transpose_cols(ctx, y, x, a, b);
}

espalier_status esi_transpose(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    espalier_status st = need_f32(ctx, "transpose", "x", x);
    if (st == ESPALIER_OK) st = need(ctx, "transpose", "y", y, x.cols, x.rows, ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, "transpose", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->transpose(ctx, y, x);
}

/* ------------------------------------------------------------------ tables */

espalier_status esi_pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind)
{
    espalier_status st = need_f32(ctx, "pool_rows", "x", x);
    if (st == ESPALIER_OK) st = need(ctx, "pool_rows", "y", y, y.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, "pool_rows", "table", table, y.rows, table.cols, ESI_I32);
    if (st == ESPALIER_OK && kind != ESI_POOL_MAX && kind != ESI_POOL_MEAN)
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "pool_rows: unknown kind %d", (int)kind);
    if (st == ESPALIER_OK) st = need_apart(ctx, "pool_rows", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->pool_rows(ctx, y, x, table, kind);
}

espalier_status esi_weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight)
{
    static const char op[] = "weighted_gather";
    espalier_status st = need_f32(ctx, op, "x", x);
    if (st == ESPALIER_OK) st = need(ctx, op, "y", y, y.rows, x.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need(ctx, op, "table", table, y.rows, table.cols, ESI_I32);
    if (st == ESPALIER_OK) st = need(ctx, op, "weight", weight, y.rows, table.cols, ESI_F32);
    if (st == ESPALIER_OK) st = need_apart(ctx, op, "x", y, x);
    if (st == ESPALIER_OK) st = need_apart(ctx, op, "weight", y, weight);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->weighted_gather(ctx, y, x, table, weight);
}

espalier_status esi_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    espalier_status st = need_f32(ctx, "mean_rows", "x", x);
    if (st == ESPALIER_OK) st = need(ctx, "mean_rows", "y", y, 1, x.cols, ESI_F32);
    if (st == ESPALIER_OK && x.rows == 0) st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "mean_rows: x has no rows");
    if (st == ESPALIER_OK) st = need_apart(ctx, "mean_rows", "x", y, x);
    if (st != ESPALIER_OK || nothing_to_do(y)) return st;
    return ctx->backend->mean_rows(ctx, y, x);
}

/* -------------------------------------------------------------- statistics */

espalier_status esi_sum_stats(espalier_context *ctx, esi_tensor x, double *sum, double *sum_of_squares)
{
    espalier_status st = need_f32(ctx, "sum_stats", "x", x);
    float *sums;
    double s = 0.0, q = 0.0;

    *sum = *sum_of_squares = 0.0;
    if (st != ESPALIER_OK || nothing_to_do(x)) return st;
    sums = esi_alloc(ctx, (size_t)x.rows, 2 * sizeof *sums, "row sums");
    if (!sums) return ctx->error_status;
    st = ctx->backend->row_sums(ctx, x, sums, sums + x.rows);
    for (int64_t r = 0; st == ESPALIER_OK && r < x.rows; r++) {
        s += (double)sums[r];
        q += (double)sums[x.rows + r];
    }
    esi_free(ctx, sums);
    *sum = s;
    *sum_of_squares = q;
    return st;
}

espalier_status esi_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count)
{
    espalier_status st = need_f32(ctx, "count_nonfinite", "x", x);

    *nan_count = *inf_count = 0;
    if (st != ESPALIER_OK || nothing_to_do(x)) return st;
    return ctx->backend->count_nonfinite(ctx, x, nan_count, inf_count);
}
