/* SPDX-License-Identifier: MIT
 *
 * flow_run.c: forward passes of the flow transformers: the memory plan, what a run keeps over its steps, timestep and modulation, and the
 * pass itself (TRELLIS.2 SparseStructureFlowModel.forward, SLatFlowModel.forward).
 */
#include "models/flow.h"

#include "models/matrix_bytes.h"

#define FULL_CHUNK       4096 /* rows: weights are unpacked once per chunk, and this many make that cheap */
#define SMALLEST_CHUNK   64
#define PACKED_COLUMNS   384 /* about what esi_linear unpacks of a weight matrix at a time */
#define OPERATIONS_SHARE 8   /* it takes at most this part of the memory that is left */

/* ------------------------------------------------------------ plan */

flow_plan esi_flow_make_plan(const esi_flow_config *c, int64_t N, int64_t Lc, uint64_t budget)
{
    const int64_t C = c->channels, pairs = C / c->heads / 2;
    const uint64_t stream = 3 * esi_matrix_bytes(N, C); /* h, keys, values */
    const uint64_t tables = 2 * esi_matrix_bytes(N, pairs) + esi_matrix_bytes(c->blocks, C) + 16 * esi_matrix_bytes(1, C);
    const uint64_t callers = 6 * esi_matrix_bytes(N, c->in_channels + c->out_channels); /* the sampler's states */
    const uint64_t cross = esi_matrix_bytes(Lc, 2 * C);                                 /* keys and values of one block */
    const uint64_t operations = esi_linear_scratch_bytes(ESI_MAX(C, c->mlp));
    const uint64_t limit = budget ? budget : UINT64_MAX;
    flow_plan plan = {.chunk_rows = ESI_MIN(FULL_CHUNK, ESI_MAX(N, 1)), .cached_blocks = c->blocks};
    uint64_t need, room;

    for (;;) {
        need = stream + tables + operations + esi_matrix_bytes(plan.chunk_rows, 2 * C + c->mlp);
        if (need + callers + cross <= limit || plan.chunk_rows <= SMALLEST_CHUNK) break;
        plan.chunk_rows = ESI_MAX((plan.chunk_rows + 1) / 2, SMALLEST_CHUNK);
    }
    /* Operations use a fraction of what is left, and are slow with less: their room goes before the cache. */
    room = need + callers + (OPERATIONS_SHARE - 1) * operations;
    if (room + cross * (uint64_t)c->blocks > limit) {
        need += cross; /* one buffer is filled anew for every block that is not cached */
        plan.cached_blocks = room + cross < limit ? (int)((limit - room - cross) / ESI_MAX(cross, 1)) : 0;
        plan.cached_blocks = ESI_MIN(plan.cached_blocks, c->blocks - 1);
    }
    plan.bytes = need + cross * (uint64_t)plan.cached_blocks;
    return plan;
}

uint64_t esi_flow_memory_plan(const esi_flow_config *c, int64_t N, int64_t Lc, uint64_t budget)
{
    return esi_flow_make_plan(c, N, Lc, budget).bytes;
}

/* ------------------------------------------------------------ run */

static espalier_status check_run(espalier_context *ctx, const esi_flow *m, const int32_t *coords, int64_t N, esi_tensor cond)
{
    const esi_flow_config *c = &m->config;

    if (cond.cols != c->cond_channels || cond.rows < 1)
        return esi_fail(ctx, ESPALIER_ERR_MODEL,
                        "%s: the image condition is [%lld, %lld], the model wants %d channels; encoder and model do not fit",
                        esi_weight_file_path(esi_weights_file(m->weights)), (long long)cond.rows, (long long)cond.cols, c->cond_channels);
    if (N < 1) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "flow model: no tokens");
    if (!coords && (c->sparse || N != (int64_t)c->resolution * c->resolution * c->resolution))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "flow model: %lld tokens without coordinates", (long long)N);
    return ESPALIER_OK;
}

static espalier_status make_negative_rows(espalier_context *ctx, esi_flow_run *run)
{
    const esi_flow_config *c = &run->model->config;
    espalier_status st = esi_tensor_new(ctx, &run->negative_rows, c->blocks, c->channels, ESI_F32);

    for (int i = 0; i < c->blocks && st == ESPALIER_OK; i++)
        st = esi_flow_negative_row(ctx, run->model, i, esi_rows(run->negative_rows, i, 1));
    return st;
}

static espalier_status fill_cross_cache(espalier_context *ctx, esi_flow_run *run)
{
    espalier_status st;

    run->cross_kv = esi_calloc(ctx, (size_t)run->plan.cached_blocks, sizeof *run->cross_kv, "condition cache");
    if (!run->cross_kv) return ESPALIER_ERR_RESOURCE;
    for (int i = 0; i < run->plan.cached_blocks; i++) {
        st = esi_tensor_new(ctx, &run->cross_kv[i], run->cond.rows, 2 * (int64_t)run->model->config.channels, ESI_F32);
        if (st != ESPALIER_OK) return st;
        st = esi_flow_cross_keys_values(ctx, run->model, i, run->cross_kv[i], run->cond);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

espalier_status esi_flow_run_begin(espalier_context *ctx, esi_flow_run **out, const esi_flow *m, const int32_t *coords, int64_t N,
                                   esi_tensor cond)
{
    uint64_t left = esi_memory_left(ctx);
    esi_flow_run *run = NULL;
    espalier_status st;

    *out = NULL;
    st = check_run(ctx, m, coords, N, cond);
    if (st != ESPALIER_OK) return st;
    run = esi_calloc(ctx, 1, sizeof *run, "flow run");
    if (!run) return ESPALIER_ERR_RESOURCE;
    run->model = m;
    run->N = N;
    run->cond = cond;
    run->plan = esi_flow_make_plan(&m->config, N, cond.rows, left == UINT64_MAX ? 0 : ESI_MAX(left, 1));
    st = esi_flow_rope_tables(ctx, &run->rope_cos, &run->rope_sin, &m->config, coords, N);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, run->rope_cos, "rope_cos");
    esi_tap(ctx, run->rope_sin, "rope_sin");
    st = make_negative_rows(ctx, run);
    if (st != ESPALIER_OK) goto done;
    st = fill_cross_cache(ctx, run);
done:
    if (st != ESPALIER_OK)
        esi_flow_run_end(ctx, run);
    else
        *out = run;
    return st;
}

void esi_flow_run_end(espalier_context *ctx, esi_flow_run *run)
{
    if (!run) return;
    for (int i = 0; run->cross_kv && i < run->plan.cached_blocks; i++) esi_tensor_free(ctx, &run->cross_kv[i]);
    esi_free(ctx, run->cross_kv);
    esi_tensor_free(ctx, &run->negative_rows);
    esi_tensor_free(ctx, &run->rope_sin);
    esi_tensor_free(ctx, &run->rope_cos);
    esi_free(ctx, run);
}

/* ------------------------------------------------------------ forward */

static espalier_status make_buffers(espalier_context *ctx, flow_buffers *b, const esi_flow_run *run)
{
    const esi_flow_config *c = &run->model->config;
    const int64_t N = run->N, C = c->channels, R = run->plan.chunk_rows;
    const bool tap = esi_tap_enabled(ctx), uncached = run->plan.cached_blocks < c->blocks;
    const struct {
        esi_tensor *tensor;
        bool wanted;
        int64_t rows, cols;
    } wanted[] = {
        {&b->h, true, N, C},        {&b->kv, true, N, 2 * C},        {&b->u, true, R, C},
        {&b->q, true, R, C},        {&b->hidden, true, R, c->mlp},   {&b->cross_kv, uncached, run->cond.rows, 2 * C},
        {&b->mod, true, 1, 6 * C},  {&b->block_mod, true, 1, 6 * C}, {&b->tap_self, tap, N, C},
        {&b->tap_cross, tap, N, C}, {&b->tap_mlp, tap, N, C},
    };

    memset(b, 0, sizeof *b);
    for (size_t i = 0; i < ESI_COUNT(wanted); i++) {
        espalier_status st;
        if (!wanted[i].wanted) continue;
        st = esi_tensor_new(ctx, wanted[i].tensor, wanted[i].rows, wanted[i].cols, ESI_F32);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

/* mod = W SiLU(t_emb) + b with t_emb = the timestep's embedding through its own small MLP. */
static espalier_status shared_modulation(espalier_context *ctx, const esi_flow *m, esi_tensor mod, float t)
{
    const int64_t C = m->config.channels;
    esi_epilogue in = {.bias = m->time_in.bias, .act = ESI_ACT_SILU}, out = {.bias = m->time_out.bias}, last = {.bias = m->modulation.bias};
    esi_scope scope = esi_scope_begin(ctx);
    float e[FLOW_TIMESTEP_WIDTH];
    esi_tensor embedding, hidden, t_emb;
    espalier_status st;

    esi_flow_timestep_embedding(e, t);
    st = esi_tensor_from(ctx, &embedding, 1, FLOW_TIMESTEP_WIDTH, ESI_F32, e);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &hidden, 1, C, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &t_emb, 1, C, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_linear(ctx, hidden, embedding, m->time_in.weight, &in);
    if (st != ESPALIER_OK) goto done;
    st = esi_linear(ctx, t_emb, hidden, m->time_out.weight, &out);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, t_emb, "t_emb");
    st = esi_activate(ctx, hidden, t_emb, ESI_ACT_SILU);
    if (st != ESPALIER_OK) goto done;
    st = esi_linear(ctx, mod, hidden, m->modulation.weight, &last);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, mod, "mod");
done:
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_flow_forward(espalier_context *ctx, esi_flow_run *run, esi_tensor v, esi_tensor x, float t, bool negative)
{
    const esi_flow *m = run->model;
    const esi_norm_args final_norm = {.eps = FLOW_EPS_FINAL};
    const esi_epilogue input = {.bias = m->input.bias}, output = {.bias = m->output.bias};
    esi_scope scope = esi_scope_begin(ctx);
    flow_buffers buf;
    espalier_status st;

    st = make_buffers(ctx, &buf, run);
    if (st != ESPALIER_OK) goto done;
    st = shared_modulation(ctx, m, buf.mod, t);
    if (st != ESPALIER_OK) goto done;
    st = esi_linear(ctx, buf.h, x, m->input.weight, &input);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, buf.h, "embed");
    for (int i = 0; i < m->config.blocks; i++) {
        st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK) goto done;
        st = esi_flow_block_forward(ctx, run, &buf, i, negative);
        if (st != ESPALIER_OK) goto done;
    }
    st = esi_layer_norm(ctx, buf.h, buf.h, &final_norm);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, buf.h, "final_norm");
    st = esi_linear(ctx, v, buf.h, m->output.weight, &output);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, v, "final");
done:
    esi_scope_end(ctx, scope);
    return st;
}
