/* SPDX-License-Identifier: MIT
 *
 * product.c: linear and convolution on the CPU: one driver, since a linear is a convolution with one tap that is always present.
 */
#include "tensor/cpu/driver.h"

/* ------------------------------------------- plain kernels (generic levels) */

typedef struct plain_job {
    const esi_kernels *kernels;
    const esi_product *product;
    float *scratch;                 /* [slots][taps * ci] */
    size_t row_block, col_block, row_blocks;
} plain_job;

static void plain_task(void *arg, size_t task, int slot)
{
    const plain_job *j = arg;
    const esi_product *p = j->product;
    size_t row = task % j->row_blocks * j->row_block, col = task / j->row_blocks * j->col_block;

    j->kernels->product(p, row, ESI_MIN(row + j->row_block, p->rows), col, ESI_MIN(col + j->col_block, p->cols),
                        j->scratch + (size_t)slot * p->taps * p->ci);
}

static espalier_status plain_product(espalier_context *ctx, const esi_product *p)
{
    plain_job job = {.kernels = esi_cpu_table(ctx), .product = p, .row_block = 256, .col_block = 8};
    espalier_status st;
    size_t tasks;

    job.row_blocks = (p->rows + job.row_block - 1) / job.row_block;
    tasks = job.row_blocks * ((p->cols + job.col_block - 1) / job.col_block);
    job.scratch = esi_alloc(ctx, (size_t)esi_slots(ctx), p->taps * p->ci * sizeof(float), "weight rows");
    if (!job.scratch) return ctx->error_status;
    st = esi_parallel(ctx, tasks, plain_task, &job);
    esi_free(ctx, job.scratch);
    return st;
}

/* ------------------------------------------------------------------- entry */

static espalier_status run(espalier_context *ctx, esi_product *p, const esi_epilogue *e)
{
    float *bias = NULL, *scale = NULL, *gate = NULL;
    espalier_status st = esi_cpu_vector(ctx, &bias, e->bias);

    if (st == ESPALIER_OK) st = esi_cpu_vector(ctx, &scale, e->scale);
    if (st == ESPALIER_OK) st = esi_cpu_vector(ctx, &gate, e->gate);
    if (st == ESPALIER_OK) {
        p->e = (esi_epilogue_rows){bias, scale, gate, esi_cpu_f32(e->residual), e->act};
        p->residual_stride = (size_t)e->residual.stride;
        st = plain_product(ctx, p);
    }
    esi_free(ctx, bias);
    esi_free(ctx, scale);
    esi_free(ctx, gate);
    return st;
}

static espalier_status begin(espalier_context *ctx, esi_product *p, esi_tensor y, esi_tensor x, esi_tensor w)
{
    memset(p, 0, sizeof *p);
    p->y = esi_cpu_f32(y);
    p->x = esi_cpu_f32(x);
    p->w = esi_cpu_bytes(w);
    p->y_stride = (size_t)y.stride;
    p->x_stride = (size_t)x.stride;
    p->rows = (size_t)y.rows;
    p->cols = (size_t)y.cols;
    p->ci = (size_t)x.cols;
    p->x_rows = (size_t)x.rows;
    p->w_dtype = w.dtype;
    if (!esi_dtype_row_bytes(w.dtype, w.stride, &p->w_row_bytes))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "product: impossible weight row");
    return ESPALIER_OK;
}

espalier_status esi_cpu_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    esi_product p;
    espalier_status st = begin(ctx, &p, y, x, w);

    p.taps = 1;
    p.channel_step = 1;
    return st == ESPALIER_OK ? run(ctx, &p, e) : st;
}

espalier_status esi_cpu_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                             const esi_epilogue *e)
{
    esi_product p;
    espalier_status st = begin(ctx, &p, y, x, w);

    p.table = esi_cpu_i32(table);
    p.table_stride = (size_t)table.stride;
    p.taps = (size_t)table.cols;
    p.tap_step = layout == ESI_CONV_TAP_MAJOR ? p.ci : 1;
    p.channel_step = layout == ESI_CONV_TAP_MAJOR ? 1 : p.taps;
    return st == ESPALIER_OK ? run(ctx, &p, e) : st;
}
