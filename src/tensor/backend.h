/* SPDX-License-Identifier: MIT
 *
 * backend.h: what a compute device implements. ops.c checks arguments, splits large work by rows, and calls these; nothing above
 * src/tensor sees this header. Arguments are already checked: shapes agree, null tensors are where optional.
 */
#ifndef ESI_BACKEND_H
#define ESI_BACKEND_H

#include "base/context.h"
#include "tensor/ops.h"

struct esi_buffer {
    struct esi_backend *backend;
    void *host;                     /* CPU backend: the bytes of a tensor; NULL for weights */
    const void *weight;             /* weights: the caller's bytes, read-only, not owned (mapped file) */
    uint64_t size;
    int64_t rows, cols;             /* as made, for messages */
    bool is_weight;
    espalier_context *owner;        /* account that is charged; NULL for weights */
    struct esi_buffer *prev, *next; /* the context's list of live buffers */
    uint32_t depth;                 /* of the scope it belongs to; 0 = none */
    void *device;                   /* backend's own */
};

typedef enum esi_elementwise {
    ESI_EW_COPY, ESI_EW_FILL, ESI_EW_ACTIVATE, ESI_EW_ADD, ESI_EW_MUL, ESI_EW_AXPBY, ESI_EW_SCALE, ESI_EW_SCALE_SHIFT,
    ESI_EW_NORMALIZE, ESI_EW_SCALE_ROWS
} esi_elementwise;

typedef struct esi_elementwise_args {
    esi_elementwise kind;
    esi_tensor a, b, c;             /* inputs in the order of the ops.h signature */
    float alpha, beta;
    esi_activation act;
} esi_elementwise_args;

typedef struct esi_backend {
    const char *name;
    const struct esi_kernels *kernels;     /* CPU: table of the chosen level (cpu/kernels.h) */
    void *state;

    espalier_status (*buffer_new)(espalier_context *ctx, struct esi_buffer *b);           /* b->size is set */
    void (*buffer_free)(espalier_context *ctx, struct esi_buffer *b);
    espalier_status (*write)(espalier_context *ctx, esi_tensor t, const void *data);
    espalier_status (*read)(espalier_context *ctx, esi_tensor t, void *data);
    espalier_status (*wait)(espalier_context *ctx);

    espalier_status (*linear)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e);
    espalier_status (*conv)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                            const esi_epilogue *e);
    espalier_status (*attention)(espalier_context *, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                 const esi_attention_args *a);
    espalier_status (*layer_norm)(espalier_context *, esi_tensor y, esi_tensor x, const esi_norm_args *a);
    espalier_status (*group_norm)(espalier_context *, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a);
    espalier_status (*rms_norm_heads)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads);
    espalier_status (*rope)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                            esi_rope_pairing pairing);
    espalier_status (*elementwise)(espalier_context *, esi_tensor y, const esi_elementwise_args *a);
    espalier_status (*gather_rows)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor index);
    espalier_status (*scatter_rows)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor index);
    espalier_status (*add_repeat_cols)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat, bool accumulate);
    espalier_status (*mean_cols)(espalier_context *, esi_tensor y, esi_tensor x, int64_t group);
    espalier_status (*transpose_cols)(espalier_context *, esi_tensor y, esi_tensor x, int64_t a, int64_t b);
    espalier_status (*transpose)(espalier_context *, esi_tensor y, esi_tensor x);
    espalier_status (*pool_rows)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind);
    espalier_status (*weighted_gather)(espalier_context *, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight);
    espalier_status (*mean_rows)(espalier_context *, esi_tensor y, esi_tensor x);
    espalier_status (*row_sums)(espalier_context *, esi_tensor x, float *sum, float *sum_of_squares);   /* host arrays [rows] */
    espalier_status (*count_nonfinite)(espalier_context *, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count);

    void (*destroy)(struct esi_backend *backend, const espalier_allocator *allocator);
} esi_backend;

#endif
