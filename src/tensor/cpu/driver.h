/* SPDX-License-Identifier: MIT
 *
 * driver.h: what the files of the CPU backend share: pointers behind tensors, expanded vectors, loops over rows, and the entry points.
 */
#ifndef ESI_CPU_DRIVER_H
#define ESI_CPU_DRIVER_H

#include "base/context.h"
#include "tensor/backend.h"
#include "tensor/cpu/kernels.h"

static inline const esi_kernels *esi_cpu_table(const espalier_context *ctx) { return ctx->backend->kernels; }

/* Address of element (0, 0) of a tensor that is no weight. */
static inline float *esi_cpu_f32(esi_tensor t)
{
    return t.buffer ? (float *)(void *)((char *)t.buffer->host + t.offset) : NULL;
}

static inline int32_t *esi_cpu_i32(esi_tensor t)
{
    return t.buffer ? (int32_t *)(void *)((char *)t.buffer->host + t.offset) : NULL;
}

/* The same for a tensor that may be a weight; no alignment. */
static inline const uint8_t *esi_cpu_bytes(esi_tensor t)
{
    return (const uint8_t *)(t.buffer->is_weight ? t.buffer->weight : t.buffer->host) + t.offset;
}

static inline float esi_stored(float v)
{
    return v < 0x1p-40f && v > -0x1p-40f ? 0.0f : v;
}

/* Host copies; the tensor's bytes are in its buffer's `host`, or it is a weight. */
espalier_status esi_cpu_write(espalier_context *ctx, esi_tensor t, const void *data);
espalier_status esi_cpu_read(espalier_context *ctx, esi_tensor t, void *data);

/* *out = the vector's values in fp32 under the store rule (esi_alloc), or NULL for a null tensor. */
espalier_status esi_cpu_vector(espalier_context *ctx, float **out, esi_tensor t);

/* fn(arg, first, end) over all rows, in parallel, in pieces of some ten thousand elements. */
typedef void (*esi_rows_fn)(const void *arg, size_t first, size_t end);
espalier_status esi_cpu_for_rows(espalier_context *ctx, int64_t rows, int64_t elements_per_row, esi_rows_fn fn, const void *arg);

espalier_status esi_cpu_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e);
espalier_status esi_cpu_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                             const esi_epilogue *e);
espalier_status esi_cpu_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                  const esi_attention_args *a);

espalier_status esi_cpu_layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a);
espalier_status esi_cpu_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a);
espalier_status esi_cpu_rms_norm_heads(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads);
espalier_status esi_cpu_rope(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                             esi_rope_pairing pairing);
espalier_status esi_cpu_elementwise(espalier_context *ctx, esi_tensor y, const esi_elementwise_args *a);
espalier_status esi_cpu_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x);
espalier_status esi_cpu_row_sums(espalier_context *ctx, esi_tensor x, float *sum, float *sum_of_squares);
espalier_status esi_cpu_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count);

espalier_status esi_cpu_gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index);
espalier_status esi_cpu_scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index);
espalier_status esi_cpu_add_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat,
                                        bool accumulate);
espalier_status esi_cpu_mean_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t group);
espalier_status esi_cpu_transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b);
espalier_status esi_cpu_transpose(espalier_context *ctx, esi_tensor y, esi_tensor x);
espalier_status esi_cpu_pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind);
espalier_status esi_cpu_weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight);

#endif
