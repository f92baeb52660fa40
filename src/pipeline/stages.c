/* SPDX-License-Identifier: MIT
 *
 * stages.c: the real networks behind the stage table: host arrays in, network, host arrays out.
 */
#include "pipeline/stages.h"

#include "base/context.h"
#include "formats/preprocess.h"

/* The stage API may be called with a model of which parts are missing. Weights are looked at whole, once, before they are used. */
static espalier_status ready(espalier_context *ctx, const espalier_model *model, espalier_role role)
{
    esi_weights *weights = esi_model_weights(model, role);
    if (!weights)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: the file of %s is missing", espalier_model_directory(model),
                        espalier_role_name(role));
    return esi_weights_check_finite(ctx, weights);
}

/* Pages of the weights go back to the system: the next stage does not need them, and people look at what a process holds. */
static void finished(const espalier_model *model, espalier_role role)
{
    const esi_weights *weights = esi_model_weights(model, role);
    const esi_file_map *map = weights ? esi_weights_file(weights)->map : NULL;
    if (map) esi_file_map_dont_need(map, 0, esi_file_map_size(map));
}

/* Dense host copy of a tensor (esi_alloc). */
static espalier_status read_tensor(espalier_context *ctx, float **out, esi_tensor t, const char *what)
{
    size_t count = 0;
    if (!esi_mul_size(&count, (size_t)t.rows, (size_t)t.cols)) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s is too large", what);
    *out = esi_alloc(ctx, count, sizeof(float), what);
    if (!*out) return ESPALIER_ERR_RESOURCE;
    espalier_status st = esi_tensor_read(ctx, t, *out);
    if (st != ESPALIER_OK) {
        esi_free(ctx, *out);
        *out = NULL;
    }
    return st;
}

/* ------------------------------------------------------------- condition */

static espalier_status image_condition(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                       int side, esi_condition_view *out)
{
    (void)user;
    esi_scope scope = esi_scope_begin(ctx);
    float *pixels = NULL;
    esi_tensor tokens;

    espalier_status st = ready(ctx, model, ESPALIER_ROLE_IMAGE_ENCODER);
    if (st == ESPALIER_OK) st = esi_image_condition_pixels(ctx, &pixels, picture, (uint32_t)side, NULL);
    if (st == ESPALIER_OK) st = esi_dinov3_forward(ctx, model->encoder, &tokens, pixels, side, side);
    if (st == ESPALIER_OK) st = read_tensor(ctx, &out->tokens, tokens, "image tokens");
    if (st == ESPALIER_OK) {
        out->rows = tokens.rows;
        out->channels = tokens.cols;
    }
    esi_free(ctx, pixels);
    esi_scope_end(ctx, scope);
    finished(model, ESPALIER_ROLE_IMAGE_ENCODER);
    return st;
}

/* ------------------------------------------------------------- sampling */

typedef struct sampling {
    const esi_sample_call *call;
    esi_flow_run *run;
    esi_tensor input;          /* [rows, 2 channels] with the condition in the right half; null without concat */
} sampling;

static espalier_status velocity(void *user, espalier_context *ctx, esi_tensor v, esi_tensor x, float t, bool negative)
{
    sampling *s = user;
    if (esi_tensor_is_null(s->input)) return esi_flow_forward(ctx, s->run, v, x, t, negative);
    espalier_status st = esi_copy(ctx, esi_cols(s->input, 0, x.cols), x);       /* noise first */
    return st == ESPALIER_OK ? esi_flow_forward(ctx, s->run, v, s->input, t, negative) : st;
}

static espalier_status after_step(void *user, espalier_context *ctx, int step, int steps, esi_tensor x, esi_tensor v)
{
    const sampling *s = user;
    (void)steps, (void)x, (void)v;
    return esi_progress(ctx, s->call->stage, (uint64_t)(s->call->step_offset + step + 1), (uint64_t)s->call->step_total);
}

static esi_sampler_params sampler_params(const espalier_sampler *s)
{
    return (esi_sampler_params){.steps = s->steps, .guidance_strength = s->guidance_strength, .guidance_rescale = s->guidance_rescale,
                                .interval_low = s->interval_low, .interval_high = s->interval_high, .rescale_t = s->rescale_t,
                                .sigma_min = s->sigma_min};
}

static espalier_status sample(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call, float *x)
{
    (void)user;
    const esi_flow *flow = esi_model_flow(model, call->role);
    const esi_condition_view *c = call->condition;
    esi_sampler_params params = sampler_params(call->sampler);
    sampling s = {.call = call};
    esi_tensor state, cond, concat;
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st;

    st = ready(ctx, model, call->role);
    if (st != ESPALIER_OK) goto done;
    if (c->channels != esi_flow_get_config(flow)->cond_channels) {
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "condition of %lld channels, but %s wants %d", (long long)c->channels,
                      espalier_role_name(call->role), esi_flow_get_config(flow)->cond_channels);
        goto done;
    }
    st = esi_tensor_from(ctx, &state, call->rows, call->channels, ESI_F32, x);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_from(ctx, &cond, c->rows, c->channels, ESI_F32, c->tokens);
    if (st != ESPALIER_OK) goto done;
    if (call->concat) {
        st = esi_tensor_new(ctx, &s.input, call->rows, 2 * call->channels, ESI_F32);
        if (st != ESPALIER_OK) goto done;
        st = esi_tensor_from(ctx, &concat, call->rows, call->channels, ESI_F32, call->concat);
        if (st != ESPALIER_OK) goto done;
        st = esi_copy(ctx, esi_cols(s.input, call->channels, call->channels), concat);
        if (st != ESPALIER_OK) goto done;
        esi_tensor_free(ctx, &concat);
    }
    st = esi_flow_run_begin(ctx, &s.run, flow, call->coords, call->rows, cond);
    if (st != ESPALIER_OK) goto done;
    st = esi_sample_flow_euler(ctx, state, &params, velocity, &s, after_step, &s);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, state, x);
    esi_flow_run_end(ctx, s.run);
done:
    esi_scope_end(ctx, scope);
    finished(model, call->role);
    return st;
}

/* ------------------------------------------------------------- decoders */

static espalier_status decode_structure(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                        float **logits, int64_t *side)
{
    (void)user;
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor x, y;
    espalier_status st = ready(ctx, model, ESPALIER_ROLE_SS_DECODER);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &x, R * R * R, ESI_STRUCTURE_CHANNELS, ESI_F32, latent);
    if (st == ESPALIER_OK) st = esi_ss_decoder_forward(ctx, model->ss_decoder, &y, x, R);
    if (st == ESPALIER_OK) st = read_tensor(ctx, logits, y, "occupancy logits");
    if (st == ESPALIER_OK) *side = R * esi_ss_decoder_upscale(model->ss_decoder);
    esi_scope_end(ctx, scope);
    finished(model, ESPALIER_ROLE_SS_DECODER);
    return st;
}

static espalier_status upsample(void *user, espalier_context *ctx, const espalier_model *model, const float *features,
                                const esi_coords *coords, esi_lineage *lineage)
{
    (void)user;
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor x;
    int up_blocks = 0;

    espalier_status st = ready(ctx, model, ESPALIER_ROLE_SHAPE_DECODER);
    if (st == ESPALIER_OK) up_blocks = esi_sparse_decoder_get_config(model->shape_decoder)->levels - 1;
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &x, coords->count, ESI_LATENT_CHANNELS, ESI_F32, features);
    if (st == ESPALIER_OK) st = esi_sparse_decoder_forward(ctx, model->shape_decoder, NULL, lineage, x, coords, up_blocks);
    esi_scope_end(ctx, scope);
    finished(model, ESPALIER_ROLE_SHAPE_DECODER);
    return st;
}

static espalier_status decode_latent(void *user, espalier_context *ctx, const espalier_model *model, bool texture, const float *features,
                                     const esi_coords *coords, esi_lineage *lineage, float **head, int64_t *rows)
{
    (void)user;
    const esi_sparse_decoder *decoder = texture ? model->texture_decoder : model->shape_decoder;
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor x, y;
    espalier_role role = texture ? ESPALIER_ROLE_TEX_DECODER : ESPALIER_ROLE_SHAPE_DECODER;

    espalier_status st = ready(ctx, model, role);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &x, coords->count, ESI_LATENT_CHANNELS, ESI_F32, features);
    if (st == ESPALIER_OK)
        st = esi_sparse_decoder_forward(ctx, decoder, &y, lineage, x, coords, esi_sparse_decoder_get_config(decoder)->levels - 1);
    if (st == ESPALIER_OK) {
        *rows = y.rows;
        st = read_tensor(ctx, head, y, texture ? "texture head" : "shape head");
    }
    esi_scope_end(ctx, scope);
    finished(model, role);
    return st;
}

static const esi_stage_table real_stages = {
    .image_condition = image_condition,
    .sample = sample,
    .decode_structure = decode_structure,
    .upsample = upsample,
    .decode_latent = decode_latent,
};

const esi_stage_table *esi_stages(const espalier_context *ctx)
{
    return ctx->stages ? ctx->stages : &real_stages;
}

int64_t esi_structure_latent_side(const espalier_model *model)
{
    return model->ss_flow ? esi_flow_get_config(model->ss_flow)->resolution : 16;
}
