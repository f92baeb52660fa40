/* SPDX-License-Identifier: MIT
 *
 * structure.c: noise -> dense structure latent -> occupancy logits -> occupied cells (TRELLIS.2
 * Trellis2ImageTo3DPipeline.sample_sparse_structure).
 */
#include "pipeline/params.h"
#include "pipeline/report.h"
#include "pipeline/stages.h"

espalier_status esi_structure_new(espalier_context *ctx, espalier_structure **out)
{
    *out = esi_calloc(ctx, 1, sizeof **out, "structure");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    (*out)->owner = esi_context_retain(ctx);
    return ESPALIER_OK;
}

void espalier_structure_free(espalier_structure *s)
{
    if (!s) return;
    espalier_context *owner = s->owner;
    esi_coords_free(owner, &s->coords);
    esi_free(owner, s);
    espalier_context_free(owner);
}

/* The reference draws noise as [8, R, R, R]; our rows are cells: x[n][c] = noise[c][n]. */
static espalier_status draw_noise(espalier_context *ctx, esi_generator *g, float *rows, int64_t cells)
{
    size_t count = (size_t)cells * ESI_STRUCTURE_CHANNELS;
    float *noise = esi_alloc(ctx, count, sizeof(float), "structure noise");
    if (!noise) return ESPALIER_ERR_RESOURCE;
    esi_generator_randn(g, noise, count);
    for (int64_t n = 0; n < cells; n++)
        for (int64_t c = 0; c < ESI_STRUCTURE_CHANNELS; c++) rows[n * ESI_STRUCTURE_CHANNELS + c] = noise[c * cells + n];
    esi_free(ctx, noise);
    return ESPALIER_OK;
}

static espalier_status run(espalier_context *ctx, espalier_structure *s, const espalier_model *model, const espalier_condition *cond,
                           const espalier_generate_params *p, const esi_route *route)
{
    const esi_stage_table *stages = esi_stages(ctx);
    int64_t R = esi_structure_latent_side(model), cells = R * R * R, side = 0;
    float *latent = NULL, *logits = NULL;
    espalier_status st;

    latent = esi_alloc(ctx, (size_t)cells * ESI_STRUCTURE_CHANNELS, sizeof(float), "structure latent");
    if (!latent) return ESPALIER_ERR_RESOURCE;
    esi_generator_seed(&s->generator, p->seed);
    st = draw_noise(ctx, &s->generator, latent, cells);
    if (st != ESPALIER_OK) goto done;

    const esi_sample_call call = {.stage = "structure",
                                  .role = ESPALIER_ROLE_SS_FLOW,
                                  .view = 0,
                                  .condition = &cond->view[0],
                                  .rows = cells,
                                  .channels = ESI_STRUCTURE_CHANNELS,
                                  .sampler = &p->structure,
                                  .step_total = p->structure.steps};
    st = stages->sample(stages->user, ctx, model, &call, latent);
    st = esi_gate_blame(ctx, p->report, ESI_STAGE_STRUCTURE, "nan", st);
    if (st != ESPALIER_OK) goto done;
    st = esi_gate_finite(ctx, p->report, ESI_STAGE_STRUCTURE, latent, cells * ESI_STRUCTURE_CHANNELS, esi_gate_forced_by(p));
    if (st != ESPALIER_OK) goto done;

    st = stages->decode_structure(stages->user, ctx, model, latent, R, &logits, &side);
    if (st != ESPALIER_OK) goto done;
    st = esi_gate_finite(ctx, p->report, ESI_STAGE_STRUCTURE, logits, side * side * side, esi_gate_forced_by(p));
    if (st != ESPALIER_OK) goto done;
    esi_report_decisions(p->report, "occupancy", logits, side * side * side);
    if (side % route->grid != 0) {
        st = esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: the structure decoder gives %lld cells, which do not reduce to a token grid of %d",
                      espalier_model_directory(model), (long long)side, (int)route->grid);
        goto done;
    }
    st = esi_coords_from_occupancy(ctx, &s->coords, logits, side, route->grid);
    if (st != ESPALIER_OK) goto done;
    s->grid = route->grid;
    /* Nothing can follow from nothing, so force does not help here. */
    st = esi_gate(ctx, p->report, ESI_STAGE_STRUCTURE, "no_voxels", (double)s->coords.count, 1, s->coords.count > 0, ESI_GATE_ENDS,
                  "no voxels: every occupancy logit is <= 0; check the model files and the picture");
done:
    esi_free(ctx, latent);
    esi_free(ctx, logits);
    return st;
}

espalier_status espalier_structure_create(espalier_context *ctx, espalier_structure **out, const espalier_model *model,
                                          const espalier_condition *cond, const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_route route;
    espalier_structure *s = NULL;

    if (out) *out = NULL;
    if (!ctx || !out || !model || !cond || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    esi_stage_timer timer = esi_stage_begin(ctx, params->report, ESI_STAGE_STRUCTURE);
    esi_route_of(&route, model, params->pipeline);
    st = esi_progress(ctx, "structure", 0, (uint64_t)params->structure.steps);
    if (st == ESPALIER_OK) st = esi_structure_new(ctx, &s);
    if (st == ESPALIER_OK) st = run(ctx, s, model, cond, params, &route);
    if (st == ESPALIER_OK) {
        if (params->report) params->report->tokens_structure = s->coords.count;
        *out = s;
    } else {
        espalier_structure_free(s);
    }
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}

const int32_t *espalier_structure_coords(const espalier_structure *s, int64_t *count, int32_t *grid)
{
    if (count) *count = s ? s->coords.count : 0;
    if (grid) *grid = s ? s->grid : 0;
    return s ? s->coords.rows : NULL;
}
