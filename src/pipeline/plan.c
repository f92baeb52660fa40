/* SPDX-License-Identifier: MIT
 *
 * plan.c: what each stage will need at most, told before any work. Encoder and structure have known sizes; shape and texture depend on the
 * picture and are told when the tokens are counted.
 */
#include "base/context.h"
#include "pipeline/params.h"
#include "pipeline/plan.h"
#include "pipeline/stages.h"

#include <stdio.h>

static void say(espalier_context *ctx, const char *stage, uint64_t bytes, const char *detail)
{
    esi_log(ctx, ESPALIER_LOG_INFO, "memory plan: %-9s at most %.0f MiB (%s)", stage, (double)bytes / 1048576.0, detail);
}

static int64_t condition_rows(const espalier_model *model, int view)
{
    const esi_dinov3_config *c = esi_dinov3_get_config(model->encoder);
    int64_t side = ((int64_t)model->settings.image_size << view) / c->patch;
    return 1 + c->registers + side * side;
}

/* Into the log and the report: the largest of what a stage consists of, above what is allocated already. The networks' plans count their
 * tensors; panels and accumulators of the threads, host copies and the rounding-up of blocks come to a few per cent on top. */
static void note(espalier_context *ctx, espalier_report *report, esi_stage stage, uint64_t bytes, const char *detail)
{
    const uint64_t per_thread = UINT64_C(3) << 19;
    bytes += bytes / 20 + (UINT64_C(4) << 20) + per_thread * (uint64_t)esi_slots(ctx) + espalier_context_memory_now(ctx);
    say(ctx, esi_stage_name(stage), bytes, detail);
    if (report) report->stage[stage].planned_bytes = ESI_MAX(report->stage[stage].planned_bytes, bytes);
}

void esi_plan_flow(espalier_context *ctx, espalier_report *report, esi_stage stage, const esi_flow *flow, int64_t rows, int64_t condition)
{
    char detail[96];
    if (!flow) return;                         /* a test's stub */
    const esi_flow_config *c = esi_flow_get_config(flow);
    uint64_t host = (uint64_t)(rows * (c->in_channels + c->out_channels) + condition * c->cond_channels) * 2 * sizeof(float);
    snprintf(detail, sizeof detail, "%lld tokens, %lld of the picture", (long long)rows, (long long)condition);
    note(ctx, report, stage, esi_flow_memory_plan(c, rows, condition, esi_memory_budget(ctx)) + host, detail);
}

void esi_plan_decode(espalier_context *ctx, espalier_report *report, const esi_sparse_decoder *decoder, const esi_lineage *lineage)
{
    char detail[96];
    int64_t rows[ESI_MAX_LEVELS];
    if (!decoder) return;
    for (int i = 0; i < lineage->levels; i++) rows[i] = lineage->level[i].coords.count;
    snprintf(detail, sizeof detail, "%lld voxels", (long long)rows[lineage->levels - 1]);
    note(ctx, report, ESI_STAGE_DECODE,
         esi_sparse_decoder_memory_plan(esi_sparse_decoder_get_config(decoder), rows, esi_memory_budget(ctx)), detail);
}

espalier_status espalier_memory_plan(espalier_context *ctx, const espalier_model *model, const espalier_generate_params *params,
                                     uint64_t *largest_bytes)
{
    esi_route route;
    char detail[96];
    uint64_t largest = 0, bytes;
    int64_t side;

    if (largest_bytes) *largest_bytes = 0;
    if (!ctx || !model || !params) return esi_refuse_null(ctx, __func__);
    esi_clear_error(ctx);
    espalier_status st = esi_params_validate(ctx, params);
    if (st == ESPALIER_OK) st = espalier_model_require(ctx, model, params->pipeline, params->with_texture);
    if (st != ESPALIER_OK) return st;
    esi_route_of(&route, model, params->pipeline);

    side = (int64_t)model->settings.image_size << route.last;
    bytes = esi_dinov3_memory_plan(esi_dinov3_get_config(model->encoder), side, side, esi_memory_budget(ctx));
    snprintf(detail, sizeof detail, "picture at %lld", (long long)side);
    note(ctx, params->report, ESI_STAGE_CONDITION, bytes, detail);
    largest = bytes;

    side = esi_structure_latent_side(model);
    snprintf(detail, sizeof detail, "%lld cells, %lld tokens of the picture", (long long)(side * side * side),
             (long long)condition_rows(model, 0));
    bytes = esi_flow_memory_plan(esi_flow_get_config(model->ss_flow), side * side * side, condition_rows(model, 0), esi_memory_budget(ctx));
    bytes = ESI_MAX(bytes, esi_ss_decoder_memory_plan(model->ss_decoder, side));
    note(ctx, params->report, ESI_STAGE_STRUCTURE, bytes, detail);
    largest = ESI_MAX(largest, bytes);
    esi_log(ctx, ESPALIER_LOG_INFO, "memory plan: shape, texture and decode depend on the picture; told when its tokens are counted");
    if (largest_bytes) *largest_bytes = largest;
    return ESPALIER_OK;
}
