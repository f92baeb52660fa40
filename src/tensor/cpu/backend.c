/* SPDX-License-Identifier: MIT
 *
 * backend.c: the CPU backend: buffers are memory of the context, work is done before an op returns.
 */
#include "tensor/backend.h"

#include "tensor/cpu/cpu.h"
#include "tensor/cpu/driver.h"

#include <stdio.h>

static espalier_status buffer_new(espalier_context *ctx, struct esi_buffer *b)
{
    char what[64];

    if (b->is_weight) return ESPALIER_OK;
    snprintf(what, sizeof what, "tensor [%lld, %lld]", (long long)b->rows, (long long)b->cols);
    b->host = esi_alloc(ctx, b->size, 1, what);
    return b->host ? ESPALIER_OK : ctx->error_status;
}

static void buffer_free(espalier_context *ctx, struct esi_buffer *b)
{
    if (!b->is_weight) esi_free(ctx, b->host);
}

espalier_status esi_cpu_write(espalier_context *ctx, esi_tensor t, const void *data)
{
    const esi_kernels *kernels = esi_cpu_table(ctx);
    size_t cols = (size_t)t.cols;

    for (size_t r = 0; r < (size_t)t.rows; r++) {
        const char *in = (const char *)data + r * cols * 4;
        if (t.dtype == ESI_F32) kernels->expand(esi_cpu_f32(t) + r * (size_t)t.stride, in, ESI_F32, 0, cols);
        else memcpy(esi_cpu_i32(t) + r * (size_t)t.stride, in, cols * 4);
    }
    return ESPALIER_OK;
}

espalier_status esi_cpu_read(espalier_context *ctx, esi_tensor t, void *data)
{
    const esi_kernels *kernels = esi_cpu_table(ctx);
    size_t cols = (size_t)t.cols, row_bytes;

    if (!esi_dtype_row_bytes(t.dtype, t.stride, &row_bytes)) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "read: impossible row");
    for (size_t r = 0; r < (size_t)t.rows; r++) {
        const uint8_t *row = esi_cpu_bytes(t) + r * row_bytes;
        char *out = (char *)data + r * cols * 4;
        if (t.buffer->is_weight && t.dtype != ESI_I32) kernels->expand((float *)(void *)out, row, t.dtype, 0, cols);
        else memcpy(out, row, cols * 4);
    }
    return ESPALIER_OK;
}

static espalier_status nothing_pending(espalier_context *ctx)
{
    return esi_check_cancel(ctx);
}

static void destroy(esi_backend *backend, const espalier_allocator *allocator)
{
    esi_raw_free(allocator, backend, sizeof *backend);
}

espalier_status esi_cpu_backend_create(esi_backend **out, const espalier_allocator *allocator, espalier_cpu_level level)
{
    esi_backend *b = esi_raw_alloc(allocator, sizeof *b);

    *out = b;
    if (!b) return ESPALIER_ERR_RESOURCE;
    *b = (esi_backend){
        .name = "cpu",
        .kernels = esi_cpu_kernels(level),
        .buffer_new = buffer_new,
        .buffer_free = buffer_free,
        .write = esi_cpu_write,
        .read = esi_cpu_read,
        .wait = nothing_pending,
        .linear = esi_cpu_linear,
        .conv = esi_cpu_conv,
        .attention = esi_cpu_attention,
        .layer_norm = esi_cpu_layer_norm,
        .group_norm = esi_cpu_group_norm,
        .rms_norm_heads = esi_cpu_rms_norm_heads,
        .rope = esi_cpu_rope,
        .elementwise = esi_cpu_elementwise,
        .gather_rows = esi_cpu_gather_rows,
        .scatter_rows = esi_cpu_scatter_rows,
        .add_repeat_cols = esi_cpu_add_repeat_cols,
        .mean_cols = esi_cpu_mean_cols,
        .transpose_cols = esi_cpu_transpose_cols,
        .transpose = esi_cpu_transpose,
        .pool_rows = esi_cpu_pool_rows,
        .weighted_gather = esi_cpu_weighted_gather,
        .mean_rows = esi_cpu_mean_rows,
        .row_sums = esi_cpu_row_sums,
        .count_nonfinite = esi_cpu_count_nonfinite,
        .destroy = destroy,
    };
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ shared helpers */

espalier_status esi_cpu_vector(espalier_context *ctx, float **out, esi_tensor t)
{
    size_t n = (size_t)(t.rows * t.cols);

    *out = NULL;
    if (esi_tensor_is_null(t)) return ESPALIER_OK;
    *out = esi_alloc(ctx, n, sizeof **out, "vector");
    if (!*out) return ctx->error_status;
    esi_cpu_table(ctx)->expand(*out, esi_cpu_bytes(t), t.dtype, 0, n);
    return ESPALIER_OK;
}

typedef struct rows_loop {
    esi_rows_fn fn;
    const void *arg;
    size_t rows, grain;
} rows_loop;

static void rows_task(void *arg, size_t task, int slot)
{
    const rows_loop *loop = arg;
    size_t first = task * loop->grain;

    (void)slot;
    loop->fn(loop->arg, first, ESI_MIN(first + loop->grain, loop->rows));
}

espalier_status esi_cpu_for_rows(espalier_context *ctx, int64_t rows, int64_t elements_per_row, esi_rows_fn fn, const void *arg)
{
    const int64_t piece = 32768;
    rows_loop loop = {fn, arg, (size_t)rows, 1};

    if (elements_per_row < piece) loop.grain = (size_t)(piece / ESI_MAX(elements_per_row, 1));
    return esi_parallel(ctx, (loop.rows + loop.grain - 1) / loop.grain, rows_task, &loop);
}
