/* SPDX-License-Identifier: MIT
 *
 * kind_pipeline.c: the order of stages, noise draws, coordinates and normalisation with stubbed networks ("pipeline"), and a whole run of
 * the micro model
 * ("pipeline_e2e"). Both go through the public stage functions; networks are replaced or overheard through the stage table.
 */
#include "kinds.h"

#include "formats/preprocess.h"
#include "pipeline/stages.h"

#include <stdio.h>

#define MAX_CALLS 16

/* Transposed noise: the reference draws [channels, cells], our rows are cells. */
static float *channel_first(golden_case *c, const float *rows, int64_t cells, int64_t channels)
{
    float *out = golden_alloc(c, (size_t)(cells * channels), sizeof *out);
    for (int64_t n = 0; n < cells; n++)
        for (int64_t k = 0; k < channels; k++) out[k * cells + n] = rows[n * channels + k];
    return out;
}

/* ------------------------------------------------------------- stubbed networks */

typedef struct recorded_call {
    const char *stage;  /* names of the golden files: image_cond, ss, shape, upsample, tex */
    int64_t resolution; /* of the picture, for image_cond */
    const char *role;
    int64_t condition_resolution, rows, channels;
    bool concat;
    espalier_sampler sampler;
} recorded_call;

typedef struct stubs {
    golden_case *c;
    recorded_call call[MAX_CALLS];
    int n_calls, n_shape;
} stubs;

static recorded_call *record(stubs *s, const char *stage)
{
    recorded_call *r = &s->call[s->n_calls < MAX_CALLS - 1 ? s->n_calls++ : MAX_CALLS - 1];
    r->stage = stage;
    return r;
}

static espalier_status stub_condition(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                      int side, esi_condition_view *out)
{
    (void)model, (void)picture;
    record(user, "image_cond")->resolution = side;
    *out = (esi_condition_view){esi_calloc(ctx, 1, sizeof(float), "stub"), 1, 1};
    return out->tokens ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status stub_sample(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call, float *x)
{
    stubs *s = user;
    golden_case *c = s->c;
    bool structure = strcmp(call->stage, "structure") == 0, shape = strcmp(call->stage, "shape") == 0;
    recorded_call *r = record(s, structure ? "ss" : shape ? "shape" : "tex");
    (void)ctx;

    r->role = espalier_role_name(call->role);
    r->condition_resolution = (int64_t)model->settings.image_size << call->view;
    r->rows = call->rows;
    r->channels = call->channels;
    r->concat = call->concat != NULL;
    r->sampler = *call->sampler;
    if (structure) {
        int64_t side = esi_structure_latent_side(model);
        golden_check(c, "out.ss_noise_0", channel_first(c, x, call->rows, call->channels), ESI_FILE_F32,
                     GOLDEN_SHAPE(1, call->channels, side, side, side));
        return ESPALIER_OK;
    }
    const char *kind = shape ? "shape" : "tex";
    int index = shape ? s->n_shape++ : 0;
    golden_check(c, golden_name(c, "out.%s_noise_%d", kind, index), x, ESI_FILE_F32, GOLDEN_SHAPE(call->rows, call->channels));
    golden_check(c, golden_name(c, "out.%s_coords_%d", kind, index), call->coords, ESI_FILE_I32, GOLDEN_SHAPE(call->rows, 4));
    return ESPALIER_OK; /* the latent is the noise */
}

static espalier_status stub_structure(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                      float **logits, int64_t *side)
{
    stubs *s = user;
    const int32_t *active = NULL;
    golden_shape shape;
    (void)model, (void)latent;
    espalier_status st = golden_i32(s->c, "in.ss_active", &active, &shape);
    if (st != ESPALIER_OK) return st;
    *side = 4 * R;
    int64_t cells = *side * *side * *side;
    *logits = esi_alloc(ctx, (size_t)cells, sizeof(float), "stub");
    if (!*logits) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < cells; i++) (*logits)[i] = -0.7f;
    for (int64_t i = 0; i < shape.extent[0]; i++) (*logits)[(active[3 * i] * *side + active[3 * i + 1]) * *side + active[3 * i + 2]] = 0.7f;
    return ESPALIER_OK;
}

static espalier_status stub_upsample(void *user, espalier_context *ctx, const espalier_model *model, const float *features,
                                     const esi_coords *coords, esi_lineage *lineage)
{
    stubs *s = user;
    const int32_t *rows = NULL;
    golden_shape shape;
    (void)model, (void)features;
    record(s, "upsample")->rows = coords->count;
    espalier_status st = golden_i32(s->c, "in.hr_coords", &rows, &shape);
    lineage->levels = 1;
    return st == ESPALIER_OK ? esi_coords_copy(ctx, &lineage->level[0].coords, rows, shape.extent[0]) : st;
}

/* ------------------------------------------------------------- kind "pipeline" */

static espalier_status read_vector(golden_case *c, const char *dotted, float *out)
{
    const esi_json *v = esi_json_path(c->config, dotted);
    for (size_t i = 0; i < ESI_LATENT_CHANNELS; i++) {
        double d = 0;
        if (!esi_json_double(esi_json_at(v, i), &d)) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: %s is malformed", c->dir, dotted);
        out[i] = (float)d;
    }
    return ESPALIER_OK;
}

static void check_call(golden_case *c, int i, const recorded_call *ours, const esi_json *expected)
{
    const char *text = "";
    int64_t n = 0;
    double d = 0;
    bool flag = false;
    esi_json_string(esi_json_get(expected, "stage"), &text);
    golden_expect(c, golden_name(c, "calls[%d].stage", i), strcmp(text, ours->stage) == 0, "%s, expected %s", ours->stage, text);
    if (esi_json_int(esi_json_get(expected, "resolution"), &n))
        golden_expect_int(c, golden_name(c, "calls[%d].resolution", i), ours->resolution, n);
    if (esi_json_string(esi_json_get(expected, "model"), &text))
        golden_expect(c, golden_name(c, "calls[%d].model", i), ours->role && strcmp(text, ours->role) == 0, "%s, expected %s",
                      ours->role ? ours->role : "none", text);
    if (esi_json_int(esi_json_get(expected, "cond_resolution"), &n))
        golden_expect_int(c, golden_name(c, "calls[%d].cond_resolution", i), ours->condition_resolution, n);
    if (esi_json_bool(esi_json_get(expected, "concat_cond"), &flag))
        golden_expect_int(c, golden_name(c, "calls[%d].concat_cond", i), ours->concat, flag);
    if (esi_json_int(esi_json_get(expected, "in_tokens"), &n))
        golden_expect_int(c, golden_name(c, "calls[%d].in_tokens", i), ours->rows, n);

    const esi_json *noise = esi_json_get(expected, "noise_shape");
    if (noise) {
        int64_t product = 1;
        for (size_t k = 0; k < esi_json_size(noise); k++) {
            int64_t extent = 0;
            esi_json_int(esi_json_at(noise, k), &extent);
            product *= extent;
        }
        golden_expect_int(c, golden_name(c, "calls[%d].noise", i), ours->rows * ours->channels, product);
    }
    const esi_json *params = esi_json_get(expected, "params");
    if (!params) return;
    const struct {
        const char *name;
        double ours;
    } values[] = {{"steps", ours->sampler.steps},
                  {"guidance_strength", ours->sampler.guidance_strength},
                  {"guidance_rescale", ours->sampler.guidance_rescale},
                  {"rescale_t", ours->sampler.rescale_t}};
    for (size_t k = 0; k < ESI_COUNT(values); k++)
        if (esi_json_double(esi_json_get(params, values[k].name), &d))
            golden_expect(c, golden_name(c, "calls[%d].%s", i, values[k].name), d == values[k].ours, "%g, expected %g", values[k].ours, d);
    const esi_json *interval = esi_json_get(params, "guidance_interval");
    double low = 0, high = 0;
    esi_json_double(esi_json_at(interval, 0), &low);
    esi_json_double(esi_json_at(interval, 1), &high);
    golden_expect(c, golden_name(c, "calls[%d].guidance_interval", i),
                  low == ours->sampler.interval_low && high == ours->sampler.interval_high, "[%g, %g], expected [%g, %g]",
                  ours->sampler.interval_low, ours->sampler.interval_high, low, high);
}

espalier_status golden_kind_pipeline(golden_case *c)
{
    stubs s = {.c = c};
    const esi_stage_table table = {.user = &s,
                                   .image_condition = stub_condition,
                                   .sample = stub_sample,
                                   .decode_structure = stub_structure,
                                   .upsample = stub_upsample};
    espalier_model model;
    espalier_generate_params p;
    espalier_image picture = {0};
    espalier_condition *cond = NULL;
    espalier_structure *structure = NULL;
    espalier_latent *shape = NULL, *texture = NULL;
    espalier_status st;

    memset(&model, 0, sizeof model);
    esi_settings_release(&model.settings);
    st = read_vector(c, "shape_slat_normalization.mean", model.settings.shape_norm.mean);
    if (st == ESPALIER_OK) st = read_vector(c, "shape_slat_normalization.std", model.settings.shape_norm.std);
    if (st == ESPALIER_OK) st = read_vector(c, "tex_slat_normalization.mean", model.settings.texture_norm.mean);
    if (st == ESPALIER_OK) st = read_vector(c, "tex_slat_normalization.std", model.settings.texture_norm.std);
    if (st != ESPALIER_OK) return st;
    p = espalier_generate_params_default(&model);
    p.seed = golden_config_int(c, "seed", 42);
    p.max_tokens = golden_config_int(c, "max_num_tokens", 49152);
    if (espalier_pipeline_parse(&p.pipeline, golden_config_string(c, "pipeline_type", "")) != ESPALIER_OK)
        return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: unknown pipeline_type", c->dir);

    c->ctx->stages = &table;
    st = espalier_condition_create(c->ctx, &cond, &model, &picture, p.pipeline != ESPALIER_PIPELINE_512, NULL);
    if (st == ESPALIER_OK) st = espalier_structure_create(c->ctx, &structure, &model, cond, &p);
    if (st == ESPALIER_OK) st = espalier_shape_create(c->ctx, &shape, &model, cond, structure, &p);
    if (st == ESPALIER_OK) st = espalier_texture_create(c->ctx, &texture, &model, cond, shape, &p);
    c->ctx->stages = NULL;
    if (st == ESPALIER_OK) {
        const esi_json *calls = esi_json_get(c->config, "calls");
        golden_shape features = GOLDEN_SHAPE(shape->coords.count, ESI_LATENT_CHANNELS);
        golden_check(c, "out.shape_coords", shape->coords.rows, ESI_FILE_I32, GOLDEN_SHAPE(shape->coords.count, 4));
        golden_check(c, "out.shape_slat", shape->features, ESI_FILE_F32, features);
        golden_check(c, "out.tex_slat", texture->features, ESI_FILE_F32, features);
        golden_expect_int(c, "final_resolution", shape->resolution, golden_config_int(c, "final_resolution", -1));
        golden_expect_int(c, "number of calls", s.n_calls, (int64_t)esi_json_size(calls));
        for (int i = 0; i < s.n_calls && i < (int)esi_json_size(calls); i++) check_call(c, i, &s.call[i], esi_json_at(calls, (size_t)i));
    }
    espalier_latent_free(texture);
    espalier_latent_free(shape);
    espalier_structure_free(structure);
    espalier_condition_free(cond);
    return st;
}

/* ------------------------------------------------------------- kind "pipeline_e2e" */

/* Networks run as they are; what goes in and comes out is compared on the way. */
typedef struct listener {
    golden_case *c;
    const esi_stage_table *real;
} listener;

static espalier_status overhear_condition(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                          int side, esi_condition_view *out)
{
    listener *l = user;
    espalier_image resized = {0};
    float *pixels = NULL;
    espalier_status st = esi_image_condition_pixels(ctx, &pixels, picture, (uint32_t)side, &resized);
    if (st == ESPALIER_OK) {
        golden_check(l->c, "out.image", picture->pixels, ESI_FILE_U8, GOLDEN_SHAPE(picture->height, picture->width, 3));
        golden_check(l->c, golden_name(l->c, "out.resize_%d", side), resized.pixels, ESI_FILE_U8, GOLDEN_SHAPE(side, side, 3));
        golden_check(l->c, golden_name(l->c, "out.norm_%d", side), pixels, ESI_FILE_F32, GOLDEN_SHAPE(3, side, side));
        st = l->real->image_condition(NULL, ctx, model, picture, side, out);
    }
    if (st == ESPALIER_OK) golden_check(l->c, "out.cond", out->tokens, ESI_FILE_F32, GOLDEN_SHAPE(1, out->rows, out->channels));
    espalier_image_free(&resized);
    esi_free(ctx, pixels);
    return st;
}

static espalier_status overhear_sample(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call,
                                       float *x)
{
    listener *l = user;
    bool structure = strcmp(call->stage, "structure") == 0;
    const char *kind = structure ? "ss" : strcmp(call->stage, "shape") == 0 ? "shape" : "tex";
    int64_t side = esi_structure_latent_side(model);
    golden_shape shape = structure ? GOLDEN_SHAPE(1, call->channels, side, side, side) : GOLDEN_SHAPE(call->rows, call->channels);

    golden_check(l->c, golden_name(l->c, "out.%s_noise", kind), structure ? channel_first(l->c, x, call->rows, call->channels) : x,
                 ESI_FILE_F32, shape);
    espalier_status st = l->real->sample(NULL, ctx, model, call, x);
    if (st != ESPALIER_OK) return st;
    golden_check(l->c, golden_name(l->c, "out.%s_latent", kind), structure ? channel_first(l->c, x, call->rows, call->channels) : x,
                 ESI_FILE_F32, shape);
    return ESPALIER_OK;
}

static espalier_status overhear_structure(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                          float **logits, int64_t *side)
{
    listener *l = user;
    espalier_status st = l->real->decode_structure(NULL, ctx, model, latent, R, logits, side);
    if (st == ESPALIER_OK) golden_check(l->c, "out.ss_logits", *logits, ESI_FILE_F32, GOLDEN_SHAPE(1, 1, *side, *side, *side));
    return st;
}

static espalier_status overhear_decode(void *user, espalier_context *ctx, const espalier_model *model, bool texture, const float *features,
                                       const esi_coords *coords, esi_lineage *lineage, float **head, int64_t *rows)
{
    listener *l = user;
    golden_check(l->c, texture ? "out.tex_slat" : "out.shape_slat", features, ESI_FILE_F32,
                 GOLDEN_SHAPE(coords->count, ESI_LATENT_CHANNELS));
    if (!texture) golden_check(l->c, "out.coords", coords->rows, ESI_FILE_I32, GOLDEN_SHAPE(coords->count, 4));
    espalier_status st = l->real->decode_latent(NULL, ctx, model, texture, features, coords, lineage, head, rows);
    if (st == ESPALIER_OK && !texture) golden_check(l->c, "out.head7", *head, ESI_FILE_F32, GOLDEN_SHAPE(*rows, 7));
    return st;
}

static void check_asset(golden_case *c, const espalier_asset *asset)
{
    espalier_asset_view v = espalier_asset_get(asset);
    for (int i = 0; i < asset->data.n_levels; i++) {
        const esi_asset_level *level = &asset->data.levels[i];
        golden_check(c, golden_name(c, "out.subs%d.coords", i), level->coords, ESI_FILE_I32, GOLDEN_SHAPE(level->count, 4));
        golden_check(c, golden_name(c, "out.subs%d.logits", i), level->logits, ESI_FILE_F32, GOLDEN_SHAPE(level->count, 8));
    }
    golden_check(c, "out.voxel_coords", v.voxels, ESI_FILE_I32, GOLDEN_SHAPE(v.vertex_count, 4));
    golden_check(c, "out.voxel_attrs", v.attributes, ESI_FILE_F32, GOLDEN_SHAPE(v.vertex_count, 6));
    golden_check(c, "out.mesh.vertices", v.vertices, ESI_FILE_F32, GOLDEN_SHAPE(v.vertex_count, 3));
    golden_check(c, "out.mesh.faces", v.faces, ESI_FILE_I32, GOLDEN_SHAPE(v.face_count, 3));
}

espalier_status golden_kind_pipeline_e2e(golden_case *c)
{
    listener l = {.c = c, .real = esi_stages(c->ctx)};
    esi_stage_table table = *l.real;
    const uint8_t *pixels = NULL;
    golden_shape shape;
    espalier_model *model = NULL;
    espalier_asset *asset = NULL;
    espalier_image picture = {0};
    const char *directory = golden_sibling(c, "model");

    table.user = &l;
    table.image_condition = overhear_condition;
    table.sample = overhear_sample;
    table.decode_structure = overhear_structure;
    table.decode_latent = overhear_decode;
    if (!directory) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: no sibling 'model'", c->dir);
    espalier_status st = golden_u8(c, "in.image", &pixels, &shape);
    if (st == ESPALIER_OK)
        st = espalier_image_create(c->ctx, &picture, (uint32_t)shape.extent[1], (uint32_t)shape.extent[0], (uint32_t)shape.extent[2]);
    if (st == ESPALIER_OK) memcpy(picture.pixels, pixels, (size_t)golden_shape_count(shape));
    if (st == ESPALIER_OK) st = espalier_model_open(c->ctx, &model, directory, NULL);
    if (st == ESPALIER_OK) {
        espalier_generate_params p = espalier_generate_params_default(model);
        p.seed = golden_config_int(c, "seed", 42);
        c->ctx->stages = &table;
        st = espalier_generate(c->ctx, &asset, model, &picture, NULL, c->name, &p);
        c->ctx->stages = NULL;
    }
    if (st == ESPALIER_OK) check_asset(c, asset);
    espalier_asset_free(asset);
    espalier_model_free(model);
    espalier_image_free(&picture);
    return st;
}
