/* SPDX-License-Identifier: MIT
 *
 * tensor.c: handles, scopes, views and host copies. Knows no arithmetic; the bytes belong to the backend.
 */
#include "tensor/tensor.h"

#include "base/context.h"
#include "tensor/backend.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const dtype_names[ESI_DTYPE_COUNT] = {"F32", "F16", "BF16", "Q8_0", "I32"};

const char *esi_dtype_name(esi_dtype dtype)
{
    return (unsigned)dtype < ESI_DTYPE_COUNT ? dtype_names[dtype] : "?";
}

bool esi_dtype_row_bytes(esi_dtype dtype, int64_t n, size_t *bytes)
{
    *bytes = 0;
    if (n < 0) return false;
    switch (dtype) {
    case ESI_F32:
    case ESI_I32: return esi_mul_size(bytes, (size_t)n, 4);
    case ESI_F16:
    case ESI_BF16: return esi_mul_size(bytes, (size_t)n, 2);
    case ESI_Q8_0: return n % 32 == 0 && esi_mul_size(bytes, (size_t)n / 32, 34);
    default: return false;
    }
}

/* ------------------------------------------------------------------ scopes */

static void list_push(espalier_context *ctx, struct esi_buffer *b)
{
    b->prev = NULL;
    b->next = ctx->buffers;
    if (b->next) b->next->prev = b;
    ctx->buffers = b;
}

static void list_remove(espalier_context *ctx, struct esi_buffer *b)
{
    if (b->prev) b->prev->next = b->next;
    else ctx->buffers = b->next;
    if (b->next) b->next->prev = b->prev;
}

static void buffer_free(espalier_context *ctx, struct esi_buffer *b)
{
    list_remove(ctx, b);
    b->backend->buffer_free(ctx, b);
    esi_free(ctx, b);
}

esi_scope esi_scope_begin(espalier_context *ctx)
{
    esi_scope scope = {ctx->scope_depth++};
    return scope;
}

void esi_scope_end(espalier_context *ctx, esi_scope scope)
{
    struct esi_buffer *b = ctx->buffers;

    while (b) {
        struct esi_buffer *next = b->next;
        if (b->depth > scope.depth) buffer_free(ctx, b);
        b = next;
    }
    ctx->scope_depth = scope.depth;
}

/* ---------------------------------------------------------------- creation */

espalier_status esi_tensor_new(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols, esi_dtype dtype)
{
    struct esi_buffer *b;
    size_t row_bytes, bytes;
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (rows < 0 || cols < 0 || (dtype != ESI_F32 && dtype != ESI_I32))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "tensor: cannot make [%lld, %lld] %s", (long long)rows, (long long)cols,
                        esi_dtype_name(dtype));
    if (!esi_dtype_row_bytes(dtype, cols, &row_bytes) || !esi_mul_size(&bytes, row_bytes, (size_t)rows))
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "tensor: [%lld, %lld] %s is too large for this machine", (long long)rows,
                        (long long)cols, esi_dtype_name(dtype));
    b = esi_calloc(ctx, 1, sizeof *b, "tensor handle");
    if (!b) return ctx->error_status;
    b->backend = ctx->backend;
    b->size = bytes;
    b->owner = ctx;
    b->depth = ctx->scope_depth;
    b->rows = rows;
    b->cols = cols;
    st = ctx->backend->buffer_new(ctx, b);
    if (st != ESPALIER_OK) {
        esi_free(ctx, b);
        return st;
    }
    list_push(ctx, b);
    out->buffer = b;
    out->rows = rows;
    out->cols = cols;
    out->stride = cols;
    out->dtype = dtype;
    return ESPALIER_OK;
}

espalier_status esi_tensor_from(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols, esi_dtype dtype, const void *data)
{
    espalier_status st = esi_tensor_new(ctx, out, rows, cols, dtype);
    if (st != ESPALIER_OK) return st;
    st = esi_tensor_write(ctx, *out, data);
    if (st != ESPALIER_OK) esi_tensor_free(ctx, out);
    return st;
}

void esi_tensor_free(espalier_context *ctx, esi_tensor *t)
{
    if (t->buffer && !t->buffer->is_weight) buffer_free(ctx, t->buffer);
    memset(t, 0, sizeof *t);
}

void esi_tensor_keep(espalier_context *ctx, esi_tensor t)
{
    (void)ctx;
    if (t.buffer && !t.buffer->is_weight && t.buffer->depth > 0) t.buffer->depth--;
}

espalier_status esi_weight_wrap(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols, esi_dtype dtype, const void *data)
{
    struct esi_buffer *b;
    size_t row_bytes, bytes;
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (rows < 0 || cols < 0 || !esi_dtype_row_bytes(dtype, cols, &row_bytes) || !esi_mul_size(&bytes, row_bytes, (size_t)rows))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "tensor: cannot wrap a weight [%lld, %lld] %s", (long long)rows, (long long)cols,
                        esi_dtype_name(dtype));
    /* Weights belong to a model, which may outlive this context: no context is charged. */
    b = esi_raw_alloc(esi_allocator(ctx), sizeof *b);
    if (!b) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "tensor: out of memory");
    memset(b, 0, sizeof *b);
    b->backend = ctx->backend;
    b->size = bytes;
    b->is_weight = true;
    b->weight = data;
    b->rows = rows;
    b->cols = cols;
    st = ctx->backend->buffer_new(ctx, b);
    if (st != ESPALIER_OK) {
        esi_raw_free(esi_allocator(ctx), b, sizeof *b);
        return st;
    }
    out->buffer = b;
    out->rows = rows;
    out->cols = cols;
    out->stride = cols;
    out->dtype = dtype;
    return ESPALIER_OK;
}

void esi_weight_release(espalier_context *ctx, esi_tensor *t)
{
    struct esi_buffer *b = t->buffer;

    memset(t, 0, sizeof *t);
    if (!b || !b->is_weight) return;
    b->backend->buffer_free(ctx, b);
    esi_raw_free(esi_allocator(ctx), b, sizeof *b);
}

/* ------------------------------------------------------------------- views
 * A view that does not fit becomes a tensor with negative row count, which every op refuses with its shape in the message. */

static esi_tensor bad_view(esi_tensor t)
{
    t.rows = -1;
    return t;
}

esi_tensor esi_rows(esi_tensor t, int64_t first, int64_t count)
{
    size_t row_bytes;

    if (!t.buffer || first < 0 || count < 0 || first > t.rows || count > t.rows - first ||
        !esi_dtype_row_bytes(t.dtype, t.stride, &row_bytes))
        return bad_view(t);
    t.offset += (uint64_t)first * row_bytes;
    t.rows = count;
    return t;
}

esi_tensor esi_cols(esi_tensor t, int64_t first, int64_t count)
{
    size_t skip;

    if (!t.buffer || t.dtype == ESI_Q8_0 || first < 0 || count < 0 || first > t.cols || count > t.cols - first ||
        !esi_dtype_row_bytes(t.dtype, first, &skip))
        return bad_view(t);
    t.offset += skip;
    t.cols = count;
    return t;
}

esi_tensor esi_reshape(esi_tensor t, int64_t rows, int64_t cols)
{
    size_t have, want;

    if (!t.buffer || t.rows < 0 || rows < 0 || cols < 0 || (t.stride != t.cols && t.rows > 1) ||
        !esi_mul_size(&have, (size_t)t.rows, (size_t)t.cols) || !esi_mul_size(&want, (size_t)rows, (size_t)cols) || have != want ||
        (t.dtype == ESI_Q8_0 && cols % 32 != 0))
        return bad_view(t);
    t.rows = rows;
    t.cols = cols;
    t.stride = cols;
    return t;
}

/* ------------------------------------------------------------- host copies */

static espalier_status check_view(espalier_context *ctx, esi_tensor t, const char *what)
{
    if (!t.buffer) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: no tensor", what);
    if (t.rows < 0 || t.cols < 0)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: a view does not fit its tensor [%lld, %lld]", what, (long long)t.buffer->rows,
                        (long long)t.buffer->cols);
    return ESPALIER_OK;
}

espalier_status esi_tensor_write(espalier_context *ctx, esi_tensor t, const void *data)
{
    espalier_status st = check_view(ctx, t, "write");
    if (st != ESPALIER_OK) return st;
    if (t.buffer->is_weight) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "write: weights are read-only");
    if (t.rows == 0 || t.cols == 0) return ESPALIER_OK;
    return t.buffer->backend->write(ctx, t, data);
}

espalier_status esi_tensor_read(espalier_context *ctx, esi_tensor t, void *data)
{
    espalier_status st = check_view(ctx, t, "read");
    if (st != ESPALIER_OK) return st;
    if (t.rows == 0 || t.cols == 0) return ESPALIER_OK;
    return t.buffer->backend->read(ctx, t, data);
}

espalier_status esi_backend_wait(espalier_context *ctx)
{
    return ctx->backend->wait(ctx);
}

bool esi_tap_enabled(const espalier_context *ctx)
{
    return ctx->tap != NULL;
}

void esi_tap(espalier_context *ctx, esi_tensor t, const char *format, ...)
{
    char name[160];
    va_list args;

    if (!ctx->tap) return;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    ctx->tap(ctx->tap_user, ctx, name, &t);
}
