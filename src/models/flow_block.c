/* SPDX-License-Identifier: MIT
 *
 * flow_block.c: one block of the flow transformers (TRELLIS.2 ModulatedTransformerCrossBlock): self-attention with rotary positions,
 * cross-attention to the image tokens, MLP. (TRELLIS.2 modules/transformer/modulated.py.)
 *
 * Keys and values of the self-attention are made for all tokens first. Everything after them works row by row, so it runs in chunks of R
 * rows and neither the queries nor the MLP's hidden layer ever exist whole; the price is that the first norm is computed twice.
 */
#include "models/flow.h"

#include <math.h>

/* What the chunks of one block share. */
typedef struct block_job {
    espalier_context *ctx;
    const esi_flow_config *config;
    const flow_block *weights;
    const esi_flow_run *run;
    const flow_buffers *buf;
    esi_tensor shift_a, scale_a, gate_a, shift_m, scale_m, gate_m; /* [1, C] views of block_mod */
    esi_tensor cross_kv;                                           /* [Lc, 2C]; null: the all-zero condition */
    esi_tensor negative_row;                                       /* [1, C] */
} block_job;

/* Rows [first, first + count) of the residual stream with the scratch that belongs to them. */
typedef struct block_chunk {
    int64_t first, count;
    esi_tensor h, u, q, hidden; /* [count, C], [count, C], [count, C], [count, M] */
} block_chunk;

static block_chunk chunk_at(const block_job *job, int64_t first)
{
    const flow_buffers *buf = job->buf;
    block_chunk k;

    k.first = first;
    k.count = ESI_MIN(job->run->plan.chunk_rows, job->run->N - first);
    k.h = esi_rows(buf->h, first, k.count);
    k.u = esi_rows(buf->u, 0, k.count);
    k.q = esi_rows(buf->q, 0, k.count);
    k.hidden = esi_rows(buf->hidden, 0, k.count);
    return k;
}

static espalier_status linear(espalier_context *ctx, esi_tensor y, esi_tensor x, flow_linear l)
{
    esi_epilogue e = {.bias = l.bias};

    return esi_linear(ctx, y, x, l.weight, &e);
}

/* h = h + gate * (W x + b); without gate h + (W x + b). `tap` [N, C], if any, gets W x + b of these rows, which the fused epilogue does not
 * store. */
static espalier_status linear_onto_residual(const block_job *job, const block_chunk *k, esi_tensor x, flow_linear l, esi_tensor gate,
                                            esi_tensor tap)
{
    esi_epilogue e = {.bias = l.bias, .gate = gate, .residual = k->h};

    if (!esi_tensor_is_null(tap)) {
        espalier_status st = linear(job->ctx, esi_rows(tap, k->first, k->count), x, l);
        if (st != ESPALIER_OK) return st;
    }
    return esi_linear(job->ctx, k->h, x, l.weight, &e);
}

static espalier_status modulated_norm(const block_job *job, const block_chunk *k, esi_tensor scale, esi_tensor shift)
{
    esi_norm_args a = {.eps = FLOW_EPS_BLOCK, .mod_scale = scale, .mod_shift = shift};

    return esi_layer_norm(job->ctx, k->u, k->h, &a);
}

/* RMS norm, then rotary positions, in place on the queries or keys of the chunk's rows. */
static espalier_status norm_and_rotate(const block_job *job, const block_chunk *k, esi_tensor x, esi_tensor gamma)
{
    const int heads = job->config->heads;
    espalier_status st = esi_rms_norm_heads(job->ctx, x, x, gamma, heads);

    if (st != ESPALIER_OK) return st;
    return esi_rope(job->ctx, x, x, esi_rows(job->run->rope_cos, k->first, k->count), esi_rows(job->run->rope_sin, k->first, k->count),
                    heads, ESI_ROPE_ADJACENT);
}

/* u = attention of the chunk's queries over keys and values kv [L, 2C]. */
static espalier_status attend(const block_job *job, const block_chunk *k, esi_tensor kv)
{
    const int64_t C = job->config->channels;
    const double head_dim = (double)(C / job->config->heads);
    esi_attention_args a = {.heads = job->config->heads, .windows = 1, .scale = (float)(1.0 / sqrt(head_dim))};

    return esi_attention(job->ctx, k->u, k->q, esi_cols(kv, 0, C), esi_cols(kv, C, C), &a);
}

/* ------------------------------------------------------------ the three branches */

static espalier_status self_keys_values(const block_job *job, const block_chunk *k)
{
    const int64_t C = job->config->channels;
    esi_tensor kv = esi_rows(job->buf->kv, k->first, k->count);
    espalier_status st;

    st = modulated_norm(job, k, job->scale_a, job->shift_a);
    if (st != ESPALIER_OK) return st;
    st = linear(job->ctx, kv, k->u, job->weights->self_kv);
    if (st != ESPALIER_OK) return st;
    return norm_and_rotate(job, k, esi_cols(kv, 0, C), job->weights->self_k_gamma);
}

static espalier_status self_attention(const block_job *job, const block_chunk *k)
{
    espalier_status st;

    st = modulated_norm(job, k, job->scale_a, job->shift_a);
    if (st != ESPALIER_OK) return st;
    st = linear(job->ctx, k->q, k->u, job->weights->self_q);
    if (st != ESPALIER_OK) return st;
    st = norm_and_rotate(job, k, k->q, job->weights->self_q_gamma);
    if (st != ESPALIER_OK) return st;
    st = attend(job, k, job->buf->kv);
    if (st != ESPALIER_OK) return st;
    return linear_onto_residual(job, k, k->u, job->weights->self_out, job->gate_a, job->buf->tap_self);
}

/* Neither modulated nor gated. */
static espalier_status cross_attention(const block_job *job, const block_chunk *k)
{
    const flow_block *w = job->weights;
    esi_norm_args norm = {.eps = FLOW_EPS_BLOCK, .weight = w->norm2_weight, .bias = w->norm2_bias};
    espalier_status st;

    if (esi_tensor_is_null(job->cross_kv)) return esi_scale_shift(job->ctx, k->h, k->h, (esi_tensor){0}, job->negative_row);
    st = esi_layer_norm(job->ctx, k->u, k->h, &norm);
    if (st != ESPALIER_OK) return st;
    st = linear(job->ctx, k->q, k->u, w->cross_q);
    if (st != ESPALIER_OK) return st;
    st = esi_rms_norm_heads(job->ctx, k->q, k->q, w->cross_q_gamma, job->config->heads);
    if (st != ESPALIER_OK) return st;
    st = attend(job, k, job->cross_kv);
    if (st != ESPALIER_OK) return st;
    return linear_onto_residual(job, k, k->u, w->cross_out, (esi_tensor){0}, job->buf->tap_cross);
}

static espalier_status mlp(const block_job *job, const block_chunk *k)
{
    esi_epilogue gelu = {.bias = job->weights->mlp_in.bias, .act = ESI_ACT_GELU_TANH};
    espalier_status st;

    st = modulated_norm(job, k, job->scale_m, job->shift_m);
    if (st != ESPALIER_OK) return st;
    st = esi_linear(job->ctx, k->hidden, k->u, job->weights->mlp_in.weight, &gelu);
    if (st != ESPALIER_OK) return st;
    return linear_onto_residual(job, k, k->hidden, job->weights->mlp_out, job->gate_m, job->buf->tap_mlp);
}

/* ------------------------------------------------------------ the block */

espalier_status esi_flow_cross_keys_values(espalier_context *ctx, const esi_flow *m, int block, esi_tensor kv, esi_tensor cond)
{
    const flow_block *w = &m->blocks[block];
    esi_tensor keys = esi_cols(kv, 0, m->config.channels);
    espalier_status st = linear(ctx, kv, cond, w->cross_kv);

    if (st != ESPALIER_OK) return st;
    return esi_rms_norm_heads(ctx, keys, keys, w->cross_k_gamma, m->config.heads);
}

/* With an all-zero condition every key row is the same and every value row is the V half of the bias. Softmax over equal scores averages
 * equal rows, so the branch adds one constant row to every token. It is defined, not approximated, as W_out b_v + b_out by the rule of
 * esi_linear. */
espalier_status esi_flow_negative_row(espalier_context *ctx, const esi_flow *m, int block, esi_tensor row)
{
    const int64_t C = m->config.channels;
    const flow_block *w = &m->blocks[block];
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor value;
    espalier_status st = esi_tensor_new(ctx, &value, 1, C, ESI_F32);

    if (st != ESPALIER_OK) goto done;
    st = esi_copy(ctx, value, esi_rows(esi_reshape(w->cross_kv.bias, 2, C), 1, 1));
    if (st != ESPALIER_OK) goto done;
    st = linear(ctx, row, value, w->cross_out);
done:
    esi_scope_end(ctx, scope);
    return st;
}

/* block_mod = modulation of this block + shared modulation, cut into its six rows. */
static espalier_status set_modulation(block_job *job)
{
    const int64_t C = job->config->channels;
    esi_tensor sum = job->buf->block_mod;
    esi_tensor *const parts[6] = {&job->shift_a, &job->scale_a, &job->gate_a, &job->shift_m, &job->scale_m, &job->gate_m};
    espalier_status st = esi_copy(job->ctx, sum, job->weights->modulation);

    if (st != ESPALIER_OK) return st;
    st = esi_add(job->ctx, sum, sum, job->buf->mod);
    for (int i = 0; i < 6; i++) *parts[i] = esi_cols(sum, i * C, C);
    return st;
}

static espalier_status set_condition(block_job *job, int block, bool negative)
{
    const esi_flow_run *run = job->run;

    if (negative) {
        job->negative_row = esi_rows(run->negative_rows, block, 1);
        return ESPALIER_OK;
    }
    if (block < run->plan.cached_blocks) {
        job->cross_kv = run->cross_kv[block];
        return ESPALIER_OK;
    }
    job->cross_kv = job->buf->cross_kv;
    return esi_flow_cross_keys_values(job->ctx, run->model, block, job->cross_kv, run->cond);
}

static void tap_block(const block_job *job, int block)
{
    const flow_buffers *buf = job->buf;

    if (!esi_tensor_is_null(buf->tap_self)) {
        esi_tap(job->ctx, buf->tap_self, "block%d.self_attn", block);
        if (!esi_tensor_is_null(job->cross_kv)) esi_tap(job->ctx, buf->tap_cross, "block%d.cross_attn", block);
        esi_tap(job->ctx, buf->tap_mlp, "block%d.mlp", block);
    }
    esi_tap(job->ctx, buf->h, "block%d", block);
}

espalier_status esi_flow_block_forward(espalier_context *ctx, const esi_flow_run *run, const flow_buffers *buf, int block, bool negative)
{
    block_job job = {.ctx = ctx, .config = &run->model->config, .weights = &run->model->blocks[block], .run = run, .buf = buf};
    const int64_t step = run->plan.chunk_rows;
    espalier_status st;

    st = set_modulation(&job);
    if (st != ESPALIER_OK) return st;
    st = set_condition(&job, block, negative);
    if (st != ESPALIER_OK) return st;
    for (int64_t first = 0; first < run->N; first += step) {
        block_chunk k = chunk_at(&job, first);
        st = self_keys_values(&job, &k);
        if (st != ESPALIER_OK) return st;
    }
    for (int64_t first = 0; first < run->N; first += step) {
        block_chunk k = chunk_at(&job, first);
        st = self_attention(&job, &k);
        if (st != ESPALIER_OK) return st;
        st = cross_attention(&job, &k);
        if (st != ESPALIER_OK) return st;
        st = mlp(&job, &k);
        if (st != ESPALIER_OK) return st;
    }
    tap_block(&job, block);
    return ESPALIER_OK;
}
