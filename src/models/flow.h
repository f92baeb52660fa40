/* SPDX-License-Identifier: MIT
 *
 * flow.h: insides of the flow transformers, shared by flow.c (opening), flow_tables.c (rotary and timestep tables), flow_block.c (one
 * block) and flow_run.c (plan, run, forward). Letters: N tokens, C channels, H heads, D = C / H, M = width of the MLP, X condition
 * channels, Lc condition tokens, R rows of a chunk.
 */
#ifndef ESI_FLOW_H
#define ESI_FLOW_H

#include "models/networks.h"

#define FLOW_TIMESTEP_WIDTH 256 /* cosines and sines of the timestep embedding, fixed in the reference */
#define FLOW_EPS_BLOCK      1e-6f
#define FLOW_EPS_FINAL      1e-5f

typedef struct flow_linear {
    esi_tensor weight, bias; /* [out, in], [1, out] */
} flow_linear;

typedef struct flow_block {
    esi_tensor modulation;               /* [1, 6C], added to the shared modulation */
    esi_tensor norm2_weight, norm2_bias; /* [1, C] */
    flow_linear self_q, self_kv;         /* rows [0, C) and [C, 3C) of to_qkv */
    flow_linear self_out;
    esi_tensor self_q_gamma, self_k_gamma; /* [1, C] = [H, D] */
    flow_linear cross_q, cross_kv, cross_out;
    esi_tensor cross_q_gamma, cross_k_gamma;
    flow_linear mlp_in, mlp_out; /* C -> M -> C */
} flow_block;

struct esi_flow {
    espalier_allocator allocator;
    esi_flow_config config;
    esi_weights *weights;
    flow_linear input, output, time_in, time_out, modulation;
    flow_block *blocks; /* [config.blocks] */
};

/* How a run is cut to fit the memory. Chunks change no result: everything after keys and values works row by row. */
typedef struct flow_plan {
    int64_t chunk_rows; /* R */
    int cached_blocks;  /* blocks whose cross-attention keys and values are kept over the steps; the first ones */
    uint64_t bytes;     /* upper bound of what run and forward pass allocate */
} flow_plan;
flow_plan esi_flow_make_plan(const esi_flow_config *c, int64_t N, int64_t Lc, uint64_t budget);

struct esi_flow_run {
    const esi_flow *model;
    int64_t N;
    flow_plan plan;
    esi_tensor cond;               /* [Lc, X], the caller's */
    esi_tensor rope_cos, rope_sin; /* [N, D/2] */
    esi_tensor negative_rows;      /* [blocks, C]: cross-attention of the all-zero condition */
    esi_tensor *cross_kv;          /* [cached_blocks], each [Lc, 2C]: keys (normalised), values */
};

/* Buffers of one forward pass. */
typedef struct flow_buffers {
    esi_tensor h;                            /* [N, C] residual stream */
    esi_tensor kv;                           /* [N, 2C] keys (normalised, rotated) and values of the self-attention */
    esi_tensor u, q;                         /* [R, C] normed rows, then attention output; queries */
    esi_tensor hidden;                       /* [R, M] */
    esi_tensor cross_kv;                     /* [Lc, 2C] where they are not cached, else null */
    esi_tensor mod, block_mod;               /* [1, 6C] */
    esi_tensor tap_self, tap_cross, tap_mlp; /* [N, C] branch outputs before gate and residual; null unless a tap is set */
} flow_buffers;

/* flow_tables.c: host tables, rounded where the reference rounds. */
espalier_status esi_flow_rope_tables(espalier_context *ctx, esi_tensor *cos_out, esi_tensor *sin_out, const esi_flow_config *c,
                                     const int32_t *coords, int64_t N);
void esi_flow_timestep_embedding(float *e, float t); /* e[FLOW_TIMESTEP_WIDTH] */

/* flow_block.c */
espalier_status esi_flow_cross_keys_values(espalier_context *ctx, const esi_flow *m, int block, esi_tensor kv, esi_tensor cond);
espalier_status esi_flow_negative_row(espalier_context *ctx, const esi_flow *m, int block, esi_tensor row);
espalier_status esi_flow_block_forward(espalier_context *ctx, const esi_flow_run *run, const flow_buffers *buf, int block, bool negative);

#endif
