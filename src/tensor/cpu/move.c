/* SPDX-License-Identifier: MIT
 *
 * move.c: the ops of the CPU backend that move rows and channel groups, and those that read through a table. Bound by memory: plain C, with
 * kernels where there is arithmetic. An index outside the rows of x counts as missing, so that no table can make us read elsewhere.
 */
#include "tensor/cpu/driver.h"

typedef struct move_job {
    const esi_kernels *kernels;
    float *y;
    const float *x, *weight;
    const int32_t *index;
    size_t y_stride, x_stride, index_stride, weight_stride;
    size_t y_rows, x_rows, x_cols, cols, taps, a, b;
    bool accumulate;
    esi_pool_kind kind;
} move_job;

static move_job begin(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    move_job job = {.kernels = esi_cpu_table(ctx), .y = esi_cpu_f32(y), .x = esi_cpu_f32(x), .index = esi_cpu_i32(index),
                    .y_stride = (size_t)y.stride, .x_stride = (size_t)x.stride, .index_stride = (size_t)index.stride,
                    .y_rows = (size_t)y.rows, .x_rows = (size_t)x.rows, .x_cols = (size_t)x.cols, .cols = (size_t)y.cols,
                    .taps = (size_t)index.cols};
    return job;
}

/* Row of x that entry t of table row n names, or SIZE_MAX when it is missing. */
static size_t named_row(const move_job *j, size_t n, size_t t)
{
    size_t row = (size_t)(int64_t)j->index[n * j->index_stride + t];
    return row < j->x_rows ? row : SIZE_MAX;
}

static void gather_rows(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++) {
        size_t row = named_row(j, n, 0);
        if (row == SIZE_MAX) memset(j->y + n * j->y_stride, 0, j->cols * sizeof(float));
        else memcpy(j->y + n * j->y_stride, j->x + row * j->x_stride, j->cols * sizeof(float));
    }
}

espalier_status esi_cpu_gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    move_job job = begin(ctx, y, x, index);
    return esi_cpu_for_rows(ctx, y.rows, y.cols, gather_rows, &job);
}

static void scatter_rows(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++) {
        size_t row = (size_t)(int64_t)j->index[n * j->index_stride];
        if (row < j->y_rows) memcpy(j->y + row * j->y_stride, j->x + n * j->x_stride, j->cols * sizeof(float));
    }
}

espalier_status esi_cpu_scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    move_job job = begin(ctx, y, x, index);
    return esi_cpu_for_rows(ctx, x.rows, x.cols, scatter_rows, &job);
}

static void repeat_cols(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++) {
        size_t row = j->index ? named_row(j, n, 0) : n;
        float *y = j->y + n * j->y_stride;
        const float *x;

        if (row == SIZE_MAX) continue; /* only accumulate has an index: nothing is added */
        x = j->x + row * j->x_stride;
        for (size_t c = 0; c < j->x_cols; c++)
            for (size_t i = 0; i < j->a; i++) y[c * j->a + i] = j->accumulate ? esi_stored(y[c * j->a + i] + x[c]) : x[c];
    }
}

espalier_status esi_cpu_add_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat,
                                        bool accumulate)
{
    move_job job = begin(ctx, y, x, index);
    job.a = (size_t)repeat;
    job.accumulate = accumulate;
    return esi_cpu_for_rows(ctx, y.rows, y.cols, repeat_cols, &job);
}

static void mean_cols(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++)
        for (size_t c = 0; c < j->cols; c++) {
            const float *x = j->x + n * j->x_stride + c * j->a;
            float sum = 0.0f;
            for (size_t i = 0; i < j->a; i++) sum = sum + x[i];
            j->y[n * j->y_stride + c] = esi_stored(sum / (float)j->a);
        }
}

espalier_status esi_cpu_mean_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t group)
{
    move_job job = begin(ctx, y, x, (esi_tensor){0});
    job.a = (size_t)group;
    return esi_cpu_for_rows(ctx, y.rows, x.cols, mean_cols, &job);
}

static void transpose_cols(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++) {
        const float *x = j->x + n * j->x_stride;
        float *y = j->y + n * j->y_stride;
        for (size_t c = 0; c < j->b; c++)
            for (size_t i = 0; i < j->a; i++) y[c * j->a + i] = x[i * j->b + c];
    }
}

espalier_status esi_cpu_transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b)
{
    move_job job = begin(ctx, y, x, (esi_tensor){0});
    job.a = (size_t)a;
    job.b = (size_t)b;
    return esi_cpu_for_rows(ctx, y.rows, y.cols, transpose_cols, &job);
}

/* Rows of y, in squares of 16 columns of y so that lines of x are used whole. */
static void transpose(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t c = 0; c < j->cols; c += 16)
        for (size_t r = first; r < end; r++) {
            size_t last = ESI_MIN(c + 16, j->cols);
            for (size_t i = c; i < last; i++) j->y[r * j->y_stride + i] = j->x[i * j->x_stride + r];
        }
}

espalier_status esi_cpu_transpose(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    move_job job = begin(ctx, y, x, (esi_tensor){0});
    return esi_cpu_for_rows(ctx, y.rows, y.cols, transpose, &job);
}

static void pool_rows(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++) {
        float *y = j->y + n * j->y_stride;
        size_t present = 0;

        for (size_t t = 0; t < j->taps; t++) {
            size_t row = named_row(j, n, t);
            const float *x;
            if (row == SIZE_MAX) continue;
            x = j->x + row * j->x_stride;
            if (present++ == 0) memcpy(y, x, j->cols * sizeof *y);
            else if (j->kind == ESI_POOL_MAX) j->kernels->fold_max(y, x, j->cols);
            else j->kernels->fold_add(y, x, j->cols);
        }
        if (present == 0) memset(y, 0, j->cols * sizeof *y);
        else if (j->kind == ESI_POOL_MEAN) j->kernels->divide(y, (float)present, j->cols);
    }
}

espalier_status esi_cpu_pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind)
{
    move_job job = begin(ctx, y, x, table);
    job.kind = kind;
    return esi_cpu_for_rows(ctx, y.rows, y.cols * (table.cols + 1), pool_rows, &job);
}

static void weighted_gather(const void *arg, size_t first, size_t end)
{
    const move_job *j = arg;
    for (size_t n = first; n < end; n++) {
        float *y = j->y + n * j->y_stride;

        memset(y, 0, j->cols * sizeof *y);
        for (size_t t = 0; t < j->taps; t++) {
            size_t row = named_row(j, n, t);
            if (row != SIZE_MAX) j->kernels->fold_fma(y, j->weight[n * j->weight_stride + t], j->x + row * j->x_stride, j->cols);
        }
        j->kernels->expand(y, y, ESI_F32, 0, j->cols); /* the store rule */
    }
}

espalier_status esi_cpu_weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight)
{
    move_job job = begin(ctx, y, x, table);
    job.weight = esi_cpu_f32(weight);
    job.weight_stride = (size_t)weight.stride;
    return esi_cpu_for_rows(ctx, y.rows, y.cols * (table.cols + 1), weighted_gather, &job);
}
