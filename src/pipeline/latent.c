/* SPDX-License-Identifier: MIT
 *
 * latent.c: the structured latents. Shape: one pass, or the two passes of a cascade; texture: one pass conditioned on the shape
 * (TRELLIS.2 Trellis2ImageTo3DPipeline.sample_shape_slat, sample_tex_slat).
 */
#include "pipeline/params.h"
#include "pipeline/plan.h"
#include "pipeline/stages.h"

#define C                ESI_LATENT_CHANNELS
#define VOXELS_PER_TOKEN 16 /* per axis; the reference divides resolutions by it to get token grids */

espalier_status esi_latent_new(espalier_context *ctx, espalier_latent **out)
{
    *out = esi_calloc(ctx, 1, sizeof **out, "latent");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    (*out)->owner = esi_context_retain(ctx);
    return ESPALIER_OK;
}

void espalier_latent_free(espalier_latent *l)
{
    if (!l) return;
    espalier_context *owner = l->owner;
    esi_coords_free(owner, &l->coords);
    esi_free(owner, l->features);
    esi_free(owner, l);
    espalier_context_free(owner);
}

/* One pass: noise for every row, sample, then de-normalise: slat = x * std + mean. */
static espalier_status sample_rows(espalier_context *ctx, float **features, const espalier_model *model, const esi_coords *coords,
                                   esi_sample_call *call, const esi_normalization *norm, esi_generator *generator,
                                   const espalier_generate_params *p, esi_stage stage)
{
    const esi_stage_table *stages = esi_stages(ctx);
    size_t count = (size_t)coords->count * C;
    float *x = esi_alloc(ctx, (size_t)coords->count, C * sizeof(float), "latent");
    if (!x) return ESPALIER_ERR_RESOURCE;

    esi_generator_randn(generator, x, count);
    call->coords = coords->rows;
    call->rows = coords->count;
    call->channels = C;
    esi_plan_flow(ctx, p->report, stage, esi_model_flow(model, call->role), call->rows, call->condition->rows);
    espalier_status st =
        call->condition->tokens ? ESPALIER_OK : esi_fail(ctx, ESPALIER_ERR_ARG, "the condition has no view at twice the base size");
    if (st == ESPALIER_OK) st = stages->sample(stages->user, ctx, model, call, x);
    st = esi_gate_blame(ctx, p->report, stage, "nan", st);
    if (st == ESPALIER_OK) st = esi_gate_finite(ctx, p->report, stage, x, (int64_t)count, esi_gate_forced_by(p));
    if (st != ESPALIER_OK) {
        esi_free(ctx, x);
        return st;
    }
    for (size_t i = 0; i < count; i++) x[i] = x[i] * norm->std[i % C] + norm->mean[i % C];
    *features = x;
    return ESPALIER_OK;
}

static espalier_status shape_pass(espalier_context *ctx, espalier_latent *l, const espalier_model *model, const espalier_condition *cond,
                                  const espalier_generate_params *p, int index, int step_offset, int step_total)
{
    esi_sample_call call = {.stage = "shape",
                            .role = index == 0 ? ESPALIER_ROLE_SHAPE_FLOW_512 : ESPALIER_ROLE_SHAPE_FLOW_1024,
                            .view = index,
                            .condition = &cond->view[index],
                            .sampler = &p->shape,
                            .step_offset = step_offset,
                            .step_total = step_total};
    return sample_rows(ctx, &l->features, model, &l->coords, &call, &model->settings.shape_norm, &l->generator, p, ESI_STAGE_SHAPE);
}

/* Low-resolution latent -> occupied cells of its decoded voxels -> tokens of the target grid. Replaces coords, drops features. */
static espalier_status raise_resolution(espalier_context *ctx, espalier_latent *l, const espalier_model *model,
                                        const espalier_generate_params *p, int64_t target)
{
    const esi_stage_table *stages = esi_stages(ctx);
    esi_lineage lineage = {0};
    esi_coords tokens = {0};
    int64_t resolution = target;

    espalier_status st = stages->upsample(stages->user, ctx, model, l->features, &l->coords, &lineage);
    st = esi_gate_blame(ctx, p->report, ESI_STAGE_SHAPE, "no_voxels", st);
    if (st == ESPALIER_OK) {
        const esi_coords *fine = &lineage.level[lineage.levels - 1].coords;
        esi_report_subdivisions(p->report, "cascade.", &lineage);
        st = esi_gate(ctx, p->report, ESI_STAGE_SHAPE, "no_voxels", (double)fine->count, 1, fine->count > 0, ESI_GATE_ENDS,
                      "no voxels: the shape decoder kept none of its subdivisions");
        if (st == ESPALIER_OK)
            st = esi_cascade_coords(ctx, &tokens, &resolution, fine, model->settings.resolution, target, p->max_tokens);
    }
    esi_lineage_free(ctx, &lineage);
    if (st != ESPALIER_OK) return st;
    if (resolution != target)
        esi_log(ctx, ESPALIER_LOG_WARNING, "shape: resolution %lld instead of %lld to stay below %lld tokens (%lld used)",
                (long long)resolution, (long long)target, (long long)p->max_tokens, (long long)tokens.count);
    if (tokens.count >= p->max_tokens)
        esi_log(ctx, ESPALIER_LOG_WARNING, "shape: %lld tokens at the lowest resolution %lld, more than the %lld asked for",
                (long long)tokens.count, (long long)resolution, (long long)p->max_tokens);
    esi_free(ctx, l->features);
    l->features = NULL;
    esi_coords_free(ctx, &l->coords);
    l->coords = tokens;
    l->resolution = resolution;
    return ESPALIER_OK;
}

static espalier_status run_shape(espalier_context *ctx, espalier_latent *l, const espalier_model *model, const espalier_condition *cond,
                                 const espalier_structure *structure, const espalier_generate_params *p, const esi_route *route)
{
    int passes = route->cascade ? 2 : 1, total = passes * p->shape.steps;

    if (structure->grid != route->grid)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "structure on a grid of %d, but pipeline %s needs %d", (int)structure->grid,
                        espalier_pipeline_name(route->type), (int)route->grid);
    if (route->cascade && model->settings.resolution != VOXELS_PER_TOKEN * model->settings.token_grid)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: a cascade needs %d voxels per token and axis, the model goes from %d to %d",
                        espalier_model_directory(model), VOXELS_PER_TOKEN, (int)model->settings.token_grid,
                        (int)model->settings.resolution);
    l->generator = structure->generator;
    l->resolution = route->resolution;
    espalier_status st = esi_coords_copy(ctx, &l->coords, structure->coords.rows, structure->coords.count);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "shape", 0, (uint64_t)total);
    if (st == ESPALIER_OK) st = shape_pass(ctx, l, model, cond, p, route->first, 0, total);
    if (st == ESPALIER_OK && route->cascade) {
        st = raise_resolution(ctx, l, model, p, route->resolution);
        if (st == ESPALIER_OK) st = shape_pass(ctx, l, model, cond, p, route->last, p->shape.steps, total);
    }
    return st;
}

espalier_status espalier_shape_create(espalier_context *ctx, espalier_latent **out, const espalier_model *model,
                                      const espalier_condition *cond, const espalier_structure *structure,
                                      const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_route route;
    espalier_latent *l = NULL;

    if (out) *out = NULL;
    if (!ctx || !out || !model || !cond || !structure || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    esi_stage_timer timer = esi_stage_begin(ctx, params->report, ESI_STAGE_SHAPE);
    esi_route_of(&route, model, params->pipeline);
    st = esi_latent_new(ctx, &l);
    if (st == ESPALIER_OK) st = run_shape(ctx, l, model, cond, structure, params, &route);
    if (st == ESPALIER_OK) {
        if (params->report) {
            params->report->tokens_shape = l->coords.count;
            params->report->resolution = l->resolution;
            params->report->resolution_wanted = route.resolution;
        }
        *out = l;
    } else {
        espalier_latent_free(l);
    }
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}

/* ------------------------------------------------------------- texture */

static espalier_status run_texture(espalier_context *ctx, espalier_latent *l, const espalier_model *model, const espalier_condition *cond,
                                   const espalier_latent *shape, const espalier_generate_params *p, int index)
{
    const esi_normalization *norm = &model->settings.shape_norm;
    size_t count = (size_t)shape->coords.count * C;
    float *concat = NULL;
    esi_sample_call call = {.stage = "texture",
                            .role = index == 0 ? ESPALIER_ROLE_TEX_FLOW_512 : ESPALIER_ROLE_TEX_FLOW_1024,
                            .view = index,
                            .condition = &cond->view[index],
                            .sampler = &p->texture,
                            .step_total = p->texture.steps};

    l->texture = true;
    l->generator = shape->generator;
    l->resolution = shape->resolution;
    espalier_status st = esi_coords_copy(ctx, &l->coords, shape->coords.rows, shape->coords.count);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "texture", 0, (uint64_t)p->texture.steps);
    if (st != ESPALIER_OK) return st;

    /* The flow sees the shape latent normalised again, with the SHAPE vectors. */
    concat = esi_alloc(ctx, (size_t)shape->coords.count, C * sizeof(float), "normalised shape latent");
    if (!concat) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < count; i++) concat[i] = (shape->features[i] - norm->mean[i % C]) / norm->std[i % C];
    call.concat = concat;
    st = sample_rows(ctx, &l->features, model, &l->coords, &call, &model->settings.texture_norm, &l->generator, p, ESI_STAGE_TEXTURE);
    esi_free(ctx, concat);
    return st;
}

espalier_status espalier_texture_create(espalier_context *ctx, espalier_latent **out, const espalier_model *model,
                                        const espalier_condition *cond, const espalier_latent *shape,
                                        const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_route route;
    espalier_latent *l = NULL;

    if (out) *out = NULL;
    if (!ctx || !out || !model || !cond || !shape || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st == ESPALIER_OK && shape->texture) st = esi_fail(ctx, ESPALIER_ERR_ARG, "this latent is a texture, not a shape");
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    esi_stage_timer timer = esi_stage_begin(ctx, params->report, ESI_STAGE_TEXTURE);
    esi_route_of(&route, model, params->pipeline);
    st = esi_latent_new(ctx, &l);
    if (st == ESPALIER_OK) st = run_texture(ctx, l, model, cond, shape, params, route.last);
    if (st == ESPALIER_OK)
        *out = l;
    else
        espalier_latent_free(l);
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}

const float *espalier_latent_features(const espalier_latent *l, int64_t *count, int64_t *channels)
{
    if (count) *count = l ? l->coords.count : 0;
    if (channels) *channels = C;
    return l ? l->features : NULL;
}

const int32_t *espalier_latent_coords(const espalier_latent *l, int64_t *count, int64_t *resolution)
{
    if (count) *count = l ? l->coords.count : 0;
    if (resolution) *resolution = l ? l->resolution : 0;
    return l ? l->coords.rows : NULL;
}
