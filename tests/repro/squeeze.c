/* SPDX-License-Identifier: MIT
 *
 * repro_squeeze: every network call of a run once more under a smaller and smaller memory budget of its own, until it does not fit. What it
 * returns must not change by a bit while it fits, and nothing may be left behind when it does not.
 */
#include "hashing.h"

#include "base/context.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct squeezer {
    const esi_stage_table *real;
    int calls, squeezed, differences; /* squeezed: runs under a budget below the call's own peak */
} squeezer;

/* One network call. `run` computes the output anew and appends it to `bytes`. */
typedef struct network_call {
    const squeezer *s;
    const espalier_model *model;
    const espalier_image *picture;
    int side;
    const esi_sample_call *sample;
    const float *input; /* latent, noise or features */
    int64_t R;
    const esi_coords *coords;
    bool texture;
    esi_lineage *guides; /* of a texture decoder */
    esi_text bytes;
} network_call;
typedef espalier_status (*call_fn)(network_call *c, espalier_context *ctx);

/* ------------------------------------------------------------- the squeezing */

static void squeeze(squeezer *s, espalier_context *ctx, network_call *c, call_fn run, const char *what)
{
    espalier_status st = ESPALIER_OK;
    esi_text first = {0};
    uint64_t before = espalier_context_memory_now(ctx), peak, smallest;

    esi_memory_reset_high_water(ctx);
    c->s = s;
    if (run(c, ctx) != ESPALIER_OK) return; /* the run itself will fail in the same way */
    peak = smallest = esi_memory_high_water(ctx) - before;
    first = c->bytes;
    c->bytes = (esi_text){0};
    s->calls++;
    for (uint64_t part = 16; part > 0 && st == ESPALIER_OK; part--) {
        uint64_t now = espalier_context_memory_now(ctx), bytes = peak * part / 16;
        espalier_context_set_memory_budget(ctx, now + bytes + first.len); /* the copy in `bytes` is ours */
        st = run(c, ctx);
        espalier_context_set_memory_budget(ctx, 0);
        if (st == ESPALIER_OK) {
            smallest = bytes;
            s->squeezed += part < 16;
            if (c->bytes.len != first.len || memcmp(c->bytes.data, first.data, first.len) != 0) {
                printf("FAILED %s: other bits with a budget of %llu\n", what, (unsigned long long)bytes);
                s->differences++;
            }
        } else if (st != ESPALIER_ERR_RESOURCE) {
            printf("FAILED %s: budget of %llu: %s\n", what, (unsigned long long)bytes, espalier_error_message(ctx));
            s->differences++;
        }
        esi_clear_error(ctx);
        esi_text_free(ctx, &c->bytes);
        if (espalier_context_memory_now(ctx) != now) {
            printf("FAILED %s: budget of %llu: %lld bytes left behind\n", what, (unsigned long long)bytes,
                   (long long)(espalier_context_memory_now(ctx) - now));
            s->differences++;
        }
    }
    printf("%s: %llu bytes, at least %llu\n", what, (unsigned long long)peak, (unsigned long long)smallest);
    esi_text_free(ctx, &first);
}

/* Appends an array and releases it. */
static espalier_status keep(network_call *c, espalier_context *ctx, void *values, int64_t count, size_t size)
{
    esi_text_append_bytes(ctx, &c->bytes, values, (size_t)count * size);
    esi_free(ctx, values);
    return c->bytes.failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

static void keep_lineage(network_call *c, espalier_context *ctx, esi_lineage *lineage)
{
    for (int i = 0; i < lineage->levels; i++) {
        const esi_lineage_level *level = &lineage->level[i];
        size_t rows = (size_t)level->coords.count;
        if (level->coords.rows) esi_text_append_bytes(ctx, &c->bytes, level->coords.rows, rows * 4 * sizeof(int32_t));
        if (level->subdivision_logits) esi_text_append_bytes(ctx, &c->bytes, level->subdivision_logits, rows * 8 * sizeof(float));
    }
    esi_lineage_free(ctx, lineage);
}

/* ------------------------------------------------------------- the networks */

static espalier_status run_condition(network_call *c, espalier_context *ctx)
{
    esi_condition_view view = {0};
    espalier_status st = c->s->real->image_condition(NULL, ctx, c->model, c->picture, c->side, &view);
    return st == ESPALIER_OK ? keep(c, ctx, view.tokens, view.rows * view.channels, sizeof(float)) : st;
}

static espalier_status run_sample(network_call *c, espalier_context *ctx)
{
    int64_t count = c->sample->rows * c->sample->channels;
    float *x = esi_alloc(ctx, (size_t)count, sizeof *x, "noise");
    if (!x) return ESPALIER_ERR_RESOURCE;
    memcpy(x, c->input, (size_t)count * sizeof *x);
    espalier_status st = c->s->real->sample(NULL, ctx, c->model, c->sample, x);
    if (st == ESPALIER_OK) return keep(c, ctx, x, count, sizeof *x);
    esi_free(ctx, x);
    return st;
}

static espalier_status run_structure(network_call *c, espalier_context *ctx)
{
    float *logits = NULL;
    int64_t side = 0;
    espalier_status st = c->s->real->decode_structure(NULL, ctx, c->model, c->input, c->R, &logits, &side);
    return st == ESPALIER_OK ? keep(c, ctx, logits, side * side * side, sizeof *logits) : st;
}

static espalier_status run_upsample(network_call *c, espalier_context *ctx)
{
    esi_lineage lineage = {0};
    espalier_status st = c->s->real->upsample(NULL, ctx, c->model, c->input, c->coords, &lineage);
    if (st == ESPALIER_OK)
        keep_lineage(c, ctx, &lineage);
    else
        esi_lineage_free(ctx, &lineage);
    return st == ESPALIER_OK && c->bytes.failed ? ESPALIER_ERR_RESOURCE : st;
}

static espalier_status run_decode(network_call *c, espalier_context *ctx)
{
    esi_lineage lineage = {0};
    float *head = NULL;
    int64_t rows = 0;
    espalier_status st =
        c->s->real->decode_latent(NULL, ctx, c->model, c->texture, c->input, c->coords, c->texture ? c->guides : &lineage, &head, &rows);
    if (st == ESPALIER_OK) st = keep(c, ctx, head, rows * (c->texture ? 6 : 7), sizeof *head);
    if (st == ESPALIER_OK)
        keep_lineage(c, ctx, &lineage);
    else
        esi_lineage_free(ctx, &lineage);
    return st == ESPALIER_OK && c->bytes.failed ? ESPALIER_ERR_RESOURCE : st;
}

/* ------------------------------------------------------------- in place of the stages */

static espalier_status squeeze_condition(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                         int side, esi_condition_view *out)
{
    squeezer *s = user;
    network_call c = {.model = model, .picture = picture, .side = side};
    squeeze(s, ctx, &c, run_condition, "image tokens");
    return s->real->image_condition(NULL, ctx, model, picture, side, out);
}

static espalier_status squeeze_sample(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call, float *x)
{
    squeezer *s = user;
    network_call c = {.model = model, .sample = call, .input = x};
    squeeze(s, ctx, &c, run_sample, call->stage);
    return s->real->sample(NULL, ctx, model, call, x);
}

static espalier_status squeeze_structure(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                         float **logits, int64_t *side)
{
    squeezer *s = user;
    network_call c = {.model = model, .input = latent, .R = R};
    squeeze(s, ctx, &c, run_structure, "structure decoder");
    return s->real->decode_structure(NULL, ctx, model, latent, R, logits, side);
}

static espalier_status squeeze_upsample(void *user, espalier_context *ctx, const espalier_model *model, const float *features,
                                        const esi_coords *coords, esi_lineage *lineage)
{
    squeezer *s = user;
    network_call c = {.model = model, .input = features, .coords = coords};
    squeeze(s, ctx, &c, run_upsample, "upsampling");
    return s->real->upsample(NULL, ctx, model, features, coords, lineage);
}

static espalier_status squeeze_decode(void *user, espalier_context *ctx, const espalier_model *model, bool texture, const float *features,
                                      const esi_coords *coords, esi_lineage *lineage, float **head, int64_t *rows)
{
    squeezer *s = user;
    network_call c = {.model = model, .input = features, .coords = coords, .texture = texture, .guides = lineage};
    squeeze(s, ctx, &c, run_decode, texture ? "texture decoder" : "shape decoder");
    return s->real->decode_latent(NULL, ctx, model, texture, features, coords, lineage, head, rows);
}

static espalier_status run(espalier_context *ctx, squeezer *s, char **argv)
{
    espalier_model *model = NULL;
    espalier_image picture = {0};
    espalier_asset *asset = NULL;
    esi_stage_table table = {.user = s,
                             .image_condition = squeeze_condition,
                             .sample = squeeze_sample,
                             .decode_structure = squeeze_structure,
                             .upsample = squeeze_upsample,
                             .decode_latent = squeeze_decode};
    espalier_pipeline_type type = ESPALIER_PIPELINE_DEFAULT;

    espalier_status st = espalier_pipeline_parse(&type, argv[2]);
    if (st == ESPALIER_OK) st = espalier_model_open(ctx, &model, argv[1], NULL);
    if (st == ESPALIER_OK) st = repro_picture(ctx, &picture);
    if (st == ESPALIER_OK) {
        espalier_generate_params p = espalier_generate_params_default(model);
        p.pipeline = type;
        p.force = 1;
        p.structure.steps = p.shape.steps = p.texture.steps = 1;
        s->real = esi_stages(ctx);
        ctx->stages = &table;
        st = espalier_generate(ctx, &asset, model, &picture, NULL, "picture", &p);
        ctx->stages = NULL;
    }
    espalier_asset_free(asset);
    espalier_image_free(&picture);
    espalier_model_free(model);
    return st;
}

int main(int argc, char **argv)
{
    espalier_runtime_options options = espalier_runtime_options_default();
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    squeezer s = {0};

    if (argc != 3) {
        fprintf(stderr, "usage: repro_squeeze MODEL_DIR PIPELINE\n");
        return ESPALIER_ERR_ARG;
    }
    options.threads = 2;
    espalier_status st = espalier_runtime_create(&runtime, &options);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = run(ctx, &s, argv);
    if (st != ESPALIER_OK)
        fprintf(stderr, "repro_squeeze: %s\n",
                ctx && espalier_error_message(ctx)[0] ? espalier_error_message(ctx) : espalier_status_name(st));
    printf("%d network calls, %d runs of them below their own peak, %d failures\n", s.calls, s.squeezed, s.differences);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return st != ESPALIER_OK ? (int)st : s.differences > 0 || s.squeezed == 0;
}
