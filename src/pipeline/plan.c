/* SPDX-License-Identifier: MIT
 *
 * plan.c: what each stage will need at most, told before any work. Encoder and structure have known sizes; shape and texture depend on the picture and are
 * told when the tokens are counted.
 */
#include "base/context.h"
#include "pipeline/params.h"
#include "pipeline/report.h"
#include "pipeline/stages.h"

#include <stdio.h>

void esi_plan_latent(espalier_context *ctx, espalier_report *report, esi_stage stage, const esi_flow *flow, int64_t rows, int64_t condition);

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

void esi_plan_latent(espalier_context *ctx, espalier_report *report, esi_stage stage, const esi_flow *flow, int64_t rows, int64_t condition)
{
    char detail[96];
    uint64_t bytes = esi_memory_left(ctx) == UINT64_MAX ? 0 : esi_memory_budget(ctx);
    if (!flow) return;
    bytes = esi_flow_memory_plan(esi_flow_get_config(flow), rows, condition, bytes);
    snprintf(detail, sizeof detail, "%lld tokens, %lld of the picture", (long long)rows, (long long)condition);
    say(ctx, esi_stage_name(stage), bytes, detail);
    if (report) report->stage[stage].planned_bytes = ESI_MAX(report->stage[stage].planned_bytes, bytes);
}

espalier_status espalier_memory_plan(espalier_context *ctx, const espalier_model *model, const espalier_generate_params *params,
                                     uint64_t *largest_bytes)
{
    esi_route route;
    char detail[96];
    uint64_t largest = 0, bytes;

    esi_clear_error(ctx);
    espalier_status st = espalier_model_require(ctx, model, params->pipeline, params->with_texture);
    if (st != ESPALIER_OK) return st;
    esi_route_of(&route, model, params->pipeline);

    int64_t side = esi_structure_latent_side(model), cells = side * side * side;
    bytes = esi_flow_memory_plan(esi_flow_get_config(model->ss_flow), cells, condition_rows(model, 0), esi_memory_budget(ctx));
    snprintf(detail, sizeof detail, "%lld cells, %lld tokens of the picture", (long long)cells, (long long)condition_rows(model, 0));
    say(ctx, "structure", bytes, detail);
    if (params->report) params->report->stage[ESI_STAGE_STRUCTURE].planned_bytes = bytes;
    largest = ESI_MAX(largest, bytes);
    esi_log(ctx, ESPALIER_LOG_INFO, "memory plan: shape, texture and decode depend on the picture; told when its tokens are counted");
    if (largest_bytes) *largest_bytes = largest;
    return ESPALIER_OK;
}
