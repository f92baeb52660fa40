/* SPDX-License-Identifier: MIT
 *
 * rows.c: the ops of the CPU backend that treat every row by itself: norms, rotary, elementwise, statistics.
 */
#include "tensor/cpu/driver.h"

/* ------------------------------------------------------------------- norms */

typedef struct norm_job {
    const esi_kernels *kernels;
    float *y;
    const float *x;
    size_t y_stride, x_stride, cols, groups;
    float *scale, *shift;
    float eps;
    esi_activation act;
    float *sums;                    /* group norm: [rows of a chunk, groups] */
    const float *mean, *r;          /* group norm: [groups] */
} norm_job;

/* scale and shift of the affine or modulated form; both stay NULL without either. A missing half is 1 or 0. */
static espalier_status norm_vectors(espalier_context *ctx, norm_job *job, const esi_norm_args *a)
{
    bool modulated = !esi_tensor_is_null(a->mod_scale);
    esi_tensor scale = modulated ? a->mod_scale : a->weight;
    esi_tensor shift = modulated ? a->mod_shift : a->bias;
    espalier_status st;

    if (esi_tensor_is_null(scale) && esi_tensor_is_null(shift)) return ESPALIER_OK;
    st = esi_cpu_vector(ctx, &job->scale, scale);
    if (st == ESPALIER_OK) st = esi_cpu_vector(ctx, &job->shift, shift);
    if (st != ESPALIER_OK) return st;
    if (!job->scale) {
        job->scale = esi_alloc(ctx, job->cols, sizeof *job->scale, "norm weight");
        if (!job->scale) return ctx->error_status;
        for (size_t c = 0; c < job->cols; c++) job->scale[c] = 1.0f;
    }
    if (!job->shift) {
        job->shift = esi_calloc(ctx, job->cols, sizeof *job->shift, "norm bias");
        if (!job->shift) return ctx->error_status;
    }
    for (size_t c = 0; modulated && c < job->cols; c++) job->scale[c] = 1.0f + job->scale[c];
    return ESPALIER_OK;
}

static norm_job norm_begin(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    norm_job job = {.kernels = esi_cpu_table(ctx), .y = esi_cpu_f32(y), .x = esi_cpu_f32(x), .y_stride = (size_t)y.stride,
                    .x_stride = (size_t)x.stride, .cols = (size_t)x.cols, .eps = a->eps, .act = a->act};
    return job;
}

static void norm_end(espalier_context *ctx, norm_job *job)
{
    esi_free(ctx, job->scale);
    esi_free(ctx, job->shift);
    esi_free(ctx, job->sums);
}

static void layer_norm_rows(const void *arg, size_t first, size_t end)
{
    const norm_job *j = arg;
    for (size_t r = first; r < end; r++)
        j->kernels->layer_norm(j->y + r * j->y_stride, j->x + r * j->x_stride, j->scale, j->shift, j->eps, j->act, j->cols);
}

espalier_status esi_cpu_layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    norm_job job = norm_begin(ctx, y, x, a);
    espalier_status st = norm_vectors(ctx, &job, a);

    if (st == ESPALIER_OK) st = esi_cpu_for_rows(ctx, y.rows, y.cols, layer_norm_rows, &job);
    norm_end(ctx, &job);
    return st;
}

/* Sums of each group of channels of each row; with means given, of the squared distances from them. */
static void group_sums_rows(const void *arg, size_t first, size_t end)
{
    const norm_job *j = arg;
    size_t n = j->cols / j->groups;

    for (size_t r = first; r < end; r++)
        for (size_t g = 0; g < j->groups; g++) {
            const float *x = j->x + r * j->x_stride + g * n;
            j->sums[r * j->groups + g] = j->mean ? j->kernels->sum_squares(x, j->mean[g], n) : j->kernels->sum(x, n);
        }
}

static void group_norm_rows(const void *arg, size_t first, size_t end)
{
    const norm_job *j = arg;
    size_t n = j->cols / j->groups;

    for (size_t r = first; r < end; r++)
        for (size_t g = 0; g < j->groups; g++) {
            const float *scale = j->scale ? j->scale + g * n : NULL, *shift = j->shift ? j->shift + g * n : NULL;
            j->kernels->norm_apply(j->y + r * j->y_stride + g * n, j->x + r * j->x_stride + g * n, j->mean[g], j->r[g], scale, shift,
                                   j->act, n);
        }
}

/* total[g] = the row values of every group added in row order in fp64, a chunk of rows at a time. */
static espalier_status group_totals(espalier_context *ctx, const norm_job *job, size_t rows, size_t chunk, double *total)
{
    norm_job part = *job;
    espalier_status st = ESPALIER_OK;

    for (size_t g = 0; g < job->groups; g++) total[g] = 0.0;
    for (size_t first = 0; st == ESPALIER_OK && first < rows; first += chunk) {
        size_t n = ESI_MIN(chunk, rows - first);
        part.x = job->x + first * job->x_stride;
        st = esi_cpu_for_rows(ctx, (int64_t)n, (int64_t)job->cols, group_sums_rows, &part);
        for (size_t r = 0; st == ESPALIER_OK && r < n; r++)
            for (size_t g = 0; g < job->groups; g++) total[g] += (double)job->sums[r * job->groups + g];
    }
    return st;
}

espalier_status esi_cpu_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a)
{
    const size_t chunk = 16384;
    norm_job job = norm_begin(ctx, y, x, a);
    size_t rows = (size_t)x.rows, n = (size_t)groups;
    double count = (double)x.rows * (double)(x.cols / groups);
    double *total = NULL;
    float *mean = NULL, *r = NULL;
    espalier_status st = norm_vectors(ctx, &job, a);

    if (st != ESPALIER_OK) goto done;
    job.groups = n;
    job.sums = esi_alloc(ctx, ESI_MIN(chunk, rows), n * sizeof *job.sums, "group sums");
    total = esi_alloc(ctx, n, sizeof *total, "group sums");
    mean = esi_alloc(ctx, n, sizeof *mean, "group means");
    r = esi_alloc(ctx, n, sizeof *r, "group deviations");
    if (!job.sums || !total || !mean || !r) {
        st = ctx->error_status;
        goto done;
    }
    st = group_totals(ctx, &job, rows, chunk, total);
    if (st != ESPALIER_OK) goto done;
    for (size_t g = 0; g < n; g++) mean[g] = (float)(total[g] / count);
    job.mean = mean;
    st = group_totals(ctx, &job, rows, chunk, total);
    if (st != ESPALIER_OK) goto done;
    for (size_t g = 0; g < n; g++) r[g] = (float)(1.0 / __builtin_sqrt(total[g] / count + (double)job.eps));
    job.r = r;
    st = esi_cpu_for_rows(ctx, y.rows, y.cols, group_norm_rows, &job);
done:
    esi_free(ctx, total);
    esi_free(ctx, mean);
    esi_free(ctx, r);
    norm_end(ctx, &job);
    return st;
}

typedef struct head_job {
    const esi_kernels *kernels;
    float *y;
    const float *x, *gamma, *cos, *sin;
    size_t y_stride, x_stride, cos_stride, sin_stride, heads, dim;
    esi_rope_pairing pairing;
} head_job;

static head_job head_begin(espalier_context *ctx, esi_tensor y, esi_tensor x, int heads)
{
    head_job job = {.kernels = esi_cpu_table(ctx), .y = esi_cpu_f32(y), .x = esi_cpu_f32(x), .y_stride = (size_t)y.stride,
                    .x_stride = (size_t)x.stride, .heads = (size_t)heads, .dim = (size_t)(x.cols / heads)};
    return job;
}

static void rms_norm_rows(const void *arg, size_t first, size_t end)
{
    const head_job *j = arg;
    for (size_t r = first; r < end; r++)
        for (size_t h = 0; h < j->heads; h++)
            j->kernels->rms_norm(j->y + r * j->y_stride + h * j->dim, j->x + r * j->x_stride + h * j->dim, j->gamma + h * j->dim, j->dim);
}

espalier_status esi_cpu_rms_norm_heads(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads)
{
    head_job job = head_begin(ctx, y, x, heads);
    float *vector;
    espalier_status st = esi_cpu_vector(ctx, &vector, gamma);

    job.gamma = vector;
    if (st == ESPALIER_OK) st = esi_cpu_for_rows(ctx, y.rows, y.cols, rms_norm_rows, &job);
    esi_free(ctx, vector);
    return st;
}

static void rope_rows(const void *arg, size_t first, size_t end)
{
    const head_job *j = arg;
    for (size_t r = first; r < end; r++)
        for (size_t h = 0; h < j->heads; h++)
            j->kernels->rope(j->y + r * j->y_stride + h * j->dim, j->x + r * j->x_stride + h * j->dim, j->cos + r * j->cos_stride,
                             j->sin + r * j->sin_stride, j->pairing, j->dim);
}

espalier_status esi_cpu_rope(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                             esi_rope_pairing pairing)
{
    head_job job = head_begin(ctx, y, x, heads);

    job.cos = esi_cpu_f32(cos);
    job.sin = esi_cpu_f32(sin);
    job.cos_stride = (size_t)cos.stride;
    job.sin_stride = (size_t)sin.stride;
    job.pairing = pairing;
    return esi_cpu_for_rows(ctx, y.rows, y.cols, rope_rows, &job);
}

/* ------------------------------------------------------------- elementwise */

typedef struct elementwise_job {
    const esi_kernels *kernels;
    const esi_elementwise_args *args;
    float *y;
    const uint8_t *a;               /* rows of any float type for COPY */
    const float *b, *c;
    size_t y_stride, a_row_bytes, b_stride, c_stride, cols;
} elementwise_job;

static void elementwise_rows(const void *arg, size_t first, size_t end)
{
    const elementwise_job *j = arg;
    const esi_elementwise_args *args = j->args;

    for (size_t r = first; r < end; r++) {
        float *y = j->y + r * j->y_stride;
        const uint8_t *a = j->a + r * j->a_row_bytes;
        const float *b = j->b ? j->b + r * j->b_stride : NULL, *c = j->c ? j->c + r * j->c_stride : NULL;
        float alpha = args->kind == ESI_EW_SCALE_ROWS ? *b : args->alpha;

        if (args->kind == ESI_EW_COPY) j->kernels->expand(y, a, args->a.dtype, 0, j->cols);
        else j->kernels->elementwise(args->kind, y, (const float *)(const void *)a, b, c, alpha, args->beta, args->act, j->cols);
    }
}

espalier_status esi_cpu_elementwise(espalier_context *ctx, esi_tensor y, const esi_elementwise_args *a)
{
    elementwise_job job = {.kernels = esi_cpu_table(ctx), .args = a, .y = esi_cpu_f32(y), .y_stride = (size_t)y.stride,
                           .cols = (size_t)y.cols};
    bool vectors = a->kind == ESI_EW_SCALE_SHIFT || a->kind == ESI_EW_NORMALIZE;
    float *b = NULL, *c = NULL;
    espalier_status st = ESPALIER_OK;

    job.a = esi_tensor_is_null(a->a) ? (const uint8_t *)job.y : esi_cpu_bytes(a->a);
    if (!esi_tensor_is_null(a->a) && !esi_dtype_row_bytes(a->a.dtype, a->a.stride, &job.a_row_bytes))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "elementwise: impossible row");
    if (vectors) {
        st = esi_cpu_vector(ctx, &b, a->b);
        if (st == ESPALIER_OK) st = esi_cpu_vector(ctx, &c, a->c);
        job.b = b;
        job.c = c;
    } else {
        job.b = esi_cpu_f32(a->b);
        job.b_stride = (size_t)a->b.stride;
    }
    if (st == ESPALIER_OK) st = esi_cpu_for_rows(ctx, y.rows, y.cols, elementwise_rows, &job);
    esi_free(ctx, b);
    esi_free(ctx, c);
    return st;
}

/* -------------------------------------------------------------- statistics */

typedef struct stats_job {
    const esi_kernels *kernels;
    const float *x;
    size_t stride, rows, cols, block;
    float *y, *sum, *sum_of_squares;
    double *columns;                /* mean_rows: [cols] */
    uint64_t *counts;               /* [slots][2] */
} stats_job;

/* Columns are cut into tasks, so that each column's rows stay in order. */
static void mean_rows_task(void *arg, size_t task, int slot)
{
    const stats_job *j = arg;
    size_t c0 = task * j->block, n = ESI_MIN(j->block, j->cols - c0);
    double *sums = j->columns + c0;

    (void)slot;
    for (size_t c = 0; c < n; c++) sums[c] = 0.0;
    for (size_t r = 0; r < j->rows; r++) j->kernels->column_sums(sums, j->x + r * j->stride + c0, n);
    for (size_t c = 0; c < n; c++) j->y[c0 + c] = esi_stored((float)(sums[c] / (double)j->rows));
}

espalier_status esi_cpu_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    stats_job job = {.kernels = esi_cpu_table(ctx), .x = esi_cpu_f32(x), .stride = (size_t)x.stride, .rows = (size_t)x.rows,
                     .cols = (size_t)x.cols, .block = 64, .y = esi_cpu_f32(y)};
    espalier_status st;

    job.columns = esi_alloc(ctx, job.cols, sizeof *job.columns, "column sums");
    if (!job.columns) return ctx->error_status;
    st = esi_parallel(ctx, (job.cols + job.block - 1) / job.block, mean_rows_task, &job);
    esi_free(ctx, job.columns);
    return st;
}

static void row_sums_rows(const void *arg, size_t first, size_t end)
{
    const stats_job *j = arg;
    for (size_t r = first; r < end; r++) {
        j->sum[r] = j->kernels->sum(j->x + r * j->stride, j->cols);
        j->sum_of_squares[r] = j->kernels->sum_squares(j->x + r * j->stride, 0.0f, j->cols);
    }
}

espalier_status esi_cpu_row_sums(espalier_context *ctx, esi_tensor x, float *sum, float *sum_of_squares)
{
    stats_job job = {.kernels = esi_cpu_table(ctx), .x = esi_cpu_f32(x), .stride = (size_t)x.stride, .cols = (size_t)x.cols, .sum = sum,
                     .sum_of_squares = sum_of_squares};
    return esi_cpu_for_rows(ctx, x.rows, x.cols, row_sums_rows, &job);
}

static void count_task(void *arg, size_t task, int slot)
{
    const stats_job *j = arg;
    size_t first = task * j->block, end = ESI_MIN(first + j->block, j->rows);

    for (size_t r = first; r < end; r++)
        j->kernels->count_nonfinite(j->x + r * j->stride, j->cols, &j->counts[2 * slot], &j->counts[2 * slot + 1]);
}

espalier_status esi_cpu_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count)
{
    stats_job job = {.kernels = esi_cpu_table(ctx), .x = esi_cpu_f32(x), .stride = (size_t)x.stride, .rows = (size_t)x.rows,
                     .cols = (size_t)x.cols};
    espalier_status st;

    job.block = ESI_MAX((size_t)1, 32768 / job.cols);
    job.counts = esi_calloc(ctx, (size_t)esi_slots(ctx), 2 * sizeof *job.counts, "counts");
    if (!job.counts) return ctx->error_status;
    st = esi_parallel(ctx, (job.rows + job.block - 1) / job.block, count_task, &job);
    for (int s = 0; s < esi_slots(ctx); s++) {
        *nan_count += job.counts[2 * s];
        *inf_count += job.counts[2 * s + 1];
    }
    esi_free(ctx, job.counts);
    return st;
}
