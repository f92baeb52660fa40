/* SPDX-License-Identifier: MIT
 *
 * op_profile.c: a backend that passes everything on. Counted are multiply-adds of matrix products, of convolutions for taps that exist, and
 * of attention for keys that the query may see, 2 FLOPs each.
 */
#include "op_profile.h"

#include "tensor/cpu/driver.h"

const char *op_group_name(op_group group)
{
    static const char *const names[OP_GROUP_COUNT] = {"linear", "conv", "attention", "weighted gather", "norms and activations",
                                                      "gather, scatter, pool", "copies", "tables and the rest"};
    return names[group];
}

static op_profile *profile_of(espalier_context *ctx)
{
    return (op_profile *)(void *)ctx->backend;
}

#define TIMED(group, call)                                     \
    op_profile *const p = profile_of(ctx);                     \
    const double begun = esi_cpu_seconds();                    \
    const espalier_status st = p->real->call;                  \
    p->cpu_seconds[group] += esi_cpu_seconds() - begun

static espalier_status linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    TIMED(OP_LINEAR, linear(ctx, y, x, w, e));
    p->flops[OP_LINEAR] += 2.0 * (double)y.rows * (double)y.cols * (double)x.cols;
    return st;
}

static espalier_status conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                            const esi_epilogue *e)
{
    double present = 0;
    TIMED(OP_CONV, conv(ctx, y, x, table, w, layout, e));
    const int32_t *index = esi_cpu_i32(table);

    const double counting = esi_cpu_seconds();
    for (int64_t r = 0; r < table.rows; r++)
        for (int64_t t = 0; t < table.cols; t++) present += index[r * table.stride + t] >= 0;
    p->flops[OP_CONV] += 2.0 * present * (double)x.cols * (double)y.cols;
    p->counting += esi_cpu_seconds() - counting;
    return st;
}

static espalier_status attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v, const esi_attention_args *a)
{
    const int64_t nk = k.rows / a->windows;
    double pairs = (double)q.rows * (double)nk;
    TIMED(OP_ATTENTION, attention(ctx, y, q, k, v, a));
    const int32_t *region = esi_cpu_i32(a->region);

    const double counting = esi_cpu_seconds();
    if (region) {
        pairs = 0;
        for (int64_t w = 0; w < a->windows; w++)
            for (int64_t i = w * nk; i < (w + 1) * nk; i++)
                for (int64_t j = w * nk; j < (w + 1) * nk; j++) pairs += region[i * a->region.stride] == region[j * a->region.stride];
    }
    p->flops[OP_ATTENTION] += 4.0 * pairs * (double)q.cols;
    p->counting += esi_cpu_seconds() - counting;
    return st;
}

static espalier_status layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a)
{
    TIMED(OP_ROWS, layer_norm(ctx, y, x, a));
    return st;
}

static espalier_status elementwise(espalier_context *ctx, esi_tensor y, const esi_elementwise_args *a)
{
    TIMED(OP_ROWS, elementwise(ctx, y, a));
    return st;
}

static espalier_status mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    TIMED(OP_ROWS, mean_rows(ctx, y, x));
    return st;
}

static espalier_status gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    TIMED(OP_MOVE, gather_rows(ctx, y, x, index));
    return st;
}

static espalier_status scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    TIMED(OP_MOVE, scatter_rows(ctx, y, x, index));
    return st;
}

static espalier_status transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b)
{
    TIMED(OP_MOVE, transpose_cols(ctx, y, x, a, b));
    return st;
}

static espalier_status transpose(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    TIMED(OP_MOVE, transpose(ctx, y, x));
    return st;
}

static espalier_status pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind)
{
    TIMED(OP_MOVE, pool_rows(ctx, y, x, table, kind));
    return st;
}

static espalier_status weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight)
{
    TIMED(OP_WEIGHTED_GATHER, weighted_gather(ctx, y, x, table, weight));
    return st;
}

static espalier_status write_tensor(espalier_context *ctx, esi_tensor t, const void *data)
{
    TIMED(OP_COPY, write(ctx, t, data));
    return st;
}

static espalier_status read_tensor(espalier_context *ctx, esi_tensor t, void *data)
{
    TIMED(OP_COPY, read(ctx, t, data));
    return st;
}

void op_profile_begin(op_profile *p, espalier_context *ctx)
{
    memset(p, 0, sizeof *p);
    p->wrapper = *ctx->backend;
    p->real = ctx->backend;
    p->wrapper.linear = linear;
    p->wrapper.conv = conv;
    p->wrapper.attention = attention;
    p->wrapper.layer_norm = layer_norm;
    p->wrapper.elementwise = elementwise;
    p->wrapper.mean_rows = mean_rows;
    p->wrapper.gather_rows = gather_rows;
    p->wrapper.scatter_rows = scatter_rows;
    p->wrapper.transpose_cols = transpose_cols;
    p->wrapper.transpose = transpose;
    p->wrapper.pool_rows = pool_rows;
    p->wrapper.weighted_gather = weighted_gather;
    p->wrapper.write = write_tensor;
    p->wrapper.read = read_tensor;
    p->start = esi_cpu_seconds();
    ctx->backend = &p->wrapper;
}

void op_profile_end(op_profile *p, espalier_context *ctx)
{
    double within = 0;

    ctx->backend = p->real;
    for (int g = 0; g < OP_HOST; g++) within += p->cpu_seconds[g];
    p->cpu_seconds[OP_HOST] = esi_cpu_seconds() - p->start - within - p->counting;
}
