/* SPDX-License-Identifier: MIT
 *
 * sparse_blocks.h: the two blocks that the sparse decoders are made of (TRELLIS.2 sc_vaes/sparse_unet_vae.py).
 * Weights are looked up under `prefix` ("blocks.2.0."; "" for a block alone).
 */
#ifndef ESI_SPARSE_BLOCKS_H
#define ESI_SPARSE_BLOCKS_H

#include "models/networks.h"

#define ESI_SPARSE_TAPS 27

/* Voxel rows on their way through a network. */
typedef struct esi_sparse_rows {
    esi_tensor feats; /* [N, C] */
    esi_tensor table; /* [N, 27] neighbours */
} esi_sparse_rows;

/* The neighbour table of coordinates as a new tensor. */
espalier_status esi_sparse_table(espalier_context *ctx, esi_tensor *table, const esi_coords *coords);

typedef struct esi_sparse_conv {
    esi_tensor weight, bias;
} esi_sparse_conv; /* [Co, 27 Ci], [1, Co] */
espalier_status esi_sparse_conv_open(espalier_context *ctx, esi_weights *w, esi_sparse_conv *conv, int64_t in, int64_t out,
                                     const char *name);
espalier_status esi_sparse_conv_forward(espalier_context *ctx, const esi_sparse_conv *conv, esi_tensor y, esi_tensor x, esi_tensor table);

/* x + W2 silu(W1 LN(conv(x))), a full 3x3x3 convolution; the hidden width is read from the file (4 C in all released ones). */
typedef struct esi_convnext_block {
    esi_sparse_conv conv;
    esi_tensor norm_weight, norm_bias;
    esi_tensor expand_weight, expand_bias, project_weight, project_bias;
} esi_convnext_block;
espalier_status esi_convnext_open(espalier_context *ctx, esi_weights *w, esi_convnext_block *block, int64_t channels, const char *prefix);
/* rows->feats is replaced in place. */
espalier_status esi_convnext_forward(espalier_context *ctx, const esi_convnext_block *block, esi_sparse_rows *rows);

/* Channel-to-spatial up block: every voxel splits into up to eight children. */
typedef struct esi_c2s_block {
    int64_t in, out;
    esi_tensor norm_weight, norm_bias;
    esi_sparse_conv conv1;                       /* in -> 8 * out: rows k * out .. belong to child k */
    esi_sparse_conv conv2;                       /* out -> out */
    esi_tensor subdivide_weight, subdivide_bias; /* null in a guided block */
} esi_c2s_block;
espalier_status esi_c2s_open(espalier_context *ctx, esi_weights *w, esi_c2s_block *block, int64_t in, int64_t out, bool pred_subdiv,
                             const char *prefix);
/* The block's own decision: logits [N, 8] into a host array; child k exists where it is > 0. */
espalier_status esi_c2s_logits(espalier_context *ctx, const esi_c2s_block *block, float *logits, esi_tensor feats);
/* rows: parents become children. index[i] = parent * 8 + child slot, ascending. The old tensors of rows are freed. */
espalier_status esi_c2s_forward(espalier_context *ctx, const esi_c2s_block *block, esi_sparse_rows *rows, const esi_coords *children,
                                const int32_t *index);

/* Rows of `row_bytes` that a temporary of a chunked step may have: 32 MiB, less when the memory budget is small. Never changes results. */
int64_t esi_chunk_rows(const espalier_context *ctx, uint64_t row_bytes);
/* Bytes of such a temporary under a budget (0 = none), for plans. */
uint64_t esi_chunk_bytes(uint64_t budget);

#endif
