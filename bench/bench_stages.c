/* SPDX-License-Identifier: MIT
 *
 * bench_stages.c: whole networks at their released sizes on random weights (the checkpoints that espalier-make-model writes), one stage
 * each. The weights lie in a temporary file that is unlinked as soon as it is mapped.
 */
#include "bench.h"

#include "model_plan.h"
#include "models/networks.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TAPS 27

espalier_status bench_open_plan(espalier_context *ctx, esi_weight_file **file, struct file_plan *plan)
{
    const char *tmp = getenv("TMPDIR");
    esi_safetensors_entry *entries = esi_calloc(ctx, plan->count, sizeof *entries, "tensor list");
    char path[512];
    espalier_status st;

    *file = NULL;
    if (!entries) return ESPALIER_ERR_RESOURCE;
    snprintf(path, sizeof path, "%s/espalier-bench-%ld.safetensors", tmp && tmp[0] ? tmp : "/tmp", (long)getpid());
    for (size_t i = 0; i < plan->count; i++) {
        const planned_tensor *t = &plan->tensors[i];
        entries[i] = (esi_safetensors_entry){.name = t->name, .dtype = t->dtype, .rank = t->rank};
        for (int k = 0; k < t->rank; k++) entries[i].shape[k] = t->shape[k];
    }
    st = esi_safetensors_write(ctx, path, entries, plan->count, NULL, file_plan_fill, plan);
    if (st == ESPALIER_OK) st = esi_weight_file_open(ctx, file, path);
    unlink(path);
    esi_free(ctx, entries);
    return st;
}

/* Random weights of a role at full size, and the network's own config. */
static espalier_status random_weights(espalier_context *ctx, espalier_role role, esi_weight_file **file, esi_json **config)
{
    const model_preset *preset = model_preset_find("trellis2-4b");
    file_plan plan = {0};
    esi_text text = {0};
    espalier_status st;

    *file = NULL;
    *config = NULL;
    st = file_plan_make(ctx, &plan, preset, role, LAYOUT_HUGGING_FACE, 1);
    if (st == ESPALIER_OK) st = bench_open_plan(ctx, file, &plan);
    config_of_role(ctx, &text, preset, role);
    if (st == ESPALIER_OK && !text.failed) st = esi_json_parse(ctx, config, text.data, text.len, "config", ESPALIER_ERR_INTERNAL);
    esi_text_free(ctx, &text);
    file_plan_free(&plan);
    return st;
}

/* ------------------------------------------------------------- flow transformers */

/* Multiply-adds of a forward pass whose cross-attention keys and values are there already. */
static double flow_flops(const esi_flow_config *c, double N, double Lc)
{
    double C = c->channels, M = c->mlp;
    double block = N * (3 * C + 3 * C + 2 * M) * C + 2 * N * N * C + 2 * N * Lc * C;
    return 2 * (c->blocks * block + N * C * (c->in_channels + c->out_channels) + C * (256 + C) + 6 * C * C);
}

typedef struct flow_args {
    esi_flow_run *run;
    esi_tensor v, x;
} flow_args;

static espalier_status flow_once(bench *b, void *arg)
{
    flow_args *a = arg;
    return esi_flow_forward(b->ctx, a->run, a->v, a->x, 500.0f, false);
}

static espalier_status run_flow(bench *b, const char *name, espalier_role role, int64_t rows, const int32_t *coords, int64_t condition)
{
    espalier_context *ctx = b->ctx;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_flow *flow = NULL;
    flow_args a = {0};
    esi_tensor cond;
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = random_weights(ctx, role, &file, &config);

    if (st == ESPALIER_OK) st = esi_flow_open(ctx, &flow, file, config);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.x, rows, esi_flow_get_config(flow)->in_channels);
    if (st == ESPALIER_OK) st = bench_random(ctx, &cond, condition, esi_flow_get_config(flow)->cond_channels);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.v, rows, esi_flow_get_config(flow)->out_channels, ESI_F32);
    if (st == ESPALIER_OK) st = esi_flow_run_begin(ctx, &a.run, flow, coords, rows, cond);
    if (st == ESPALIER_OK)
        st = bench_measure(b, name, flow_flops(esi_flow_get_config(flow), (double)rows, (double)condition),
                           "2 * (blocks * (N*(6C+2M)*C + 2*N*N*C + 2*N*Lc*C) + in/out/modulation); cross keys and values cached", flow_once,
                           &a);
    if (a.run) esi_flow_run_end(ctx, a.run);
    esi_scope_end(ctx, scope);
    esi_flow_free(ctx, flow);
    esi_json_free(config);
    return st;
}

/* ------------------------------------------------------------- voxels of a surface */

/* The shell of a bumpy sphere: `wanted` cells, about, of a grid of `grid`. */
static espalier_status shell(espalier_context *ctx, esi_coords *out, int32_t grid, int64_t wanted)
{
    int64_t count = 0;
    double radius = grid * 0.42, centre = grid / 2.0;
    espalier_status st = esi_coords_new(ctx, out, (int64_t)grid * grid * grid);
    if (st != ESPALIER_OK) return st;
    /* Thick enough for the number asked for: 4 pi r^2 cells a unit of thickness. */
    double thickness = (double)wanted / (4 * 3.14159265 * radius * radius);
    for (int32_t x = 0; x < grid; x++)
        for (int32_t y = 0; y < grid; y++)
            for (int32_t z = 0; z < grid; z++) {
                double dx = x + 0.5 - centre, dy = y + 0.5 - centre, dz = z + 0.5 - centre, d2 = dx * dx + dy * dy + dz * dz;
                double low = radius - thickness / 2, high = radius + thickness / 2;
                if (d2 < low * low || d2 >= high * high) continue;
                memcpy(out->rows + 4 * count++, (int32_t[4]){0, x, y, z}, 4 * sizeof(int32_t));
            }
    out->count = count;
    return ESPALIER_OK;
}

espalier_status bench_flow(bench *b, const char *only)
{
    espalier_status st = ESPALIER_OK;
    if (bench_wanted(only, "ss_flow/4096x1029")) st = run_flow(b, "ss_flow/4096x1029", ESPALIER_ROLE_SS_FLOW, 4096, NULL, 1029);
    return st;
}

espalier_status bench_slat_flow(bench *b, const char *only)
{
    esi_coords coords = {0};
    espalier_status st = ESPALIER_OK;
    if (!bench_wanted(only, "slat_flow/5224x1029")) return st;
    st = shell(b->ctx, &coords, 32, 5224);
    if (st == ESPALIER_OK) st = run_flow(b, "slat_flow/5224x1029", ESPALIER_ROLE_SHAPE_FLOW_512, coords.count, coords.rows, 1029);
    esi_coords_free(b->ctx, &coords);
    return st;
}

/* ------------------------------------------------------------- image encoder */

typedef struct encoder_args {
    const esi_dinov3 *encoder;
    const float *pixels;
    int64_t side;
} encoder_args;

static espalier_status encoder_once(bench *b, void *arg)
{
    const encoder_args *a = arg;
    esi_tensor cond;
    esi_scope scope = esi_scope_begin(b->ctx);
    espalier_status st = esi_dinov3_forward(b->ctx, a->encoder, &cond, a->pixels, a->side, a->side);
    esi_scope_end(b->ctx, scope);
    return st;
}

espalier_status bench_dinov3(bench *b, const char *only)
{
    espalier_context *ctx = b->ctx;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_dinov3 *encoder = NULL;
    float *pixels = NULL;
    uint64_t state = 1;
    encoder_args a = {.side = 512};
    espalier_status st;

    if (!bench_wanted(only, "dinov3/512")) return ESPALIER_OK;
    st = random_weights(ctx, ESPALIER_ROLE_IMAGE_ENCODER, &file, &config);
    if (st == ESPALIER_OK) st = esi_dinov3_open(ctx, &encoder, file, config);
    if (st == ESPALIER_OK && !(pixels = esi_alloc(ctx, (size_t)(3 * a.side * a.side), sizeof(float), "pixels"))) st = ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) {
        const esi_dinov3_config *c = esi_dinov3_get_config(encoder);
        double patches = (double)(a.side / c->patch) * (double)(a.side / c->patch), N = patches + 1 + c->registers, D = c->hidden;
        for (int64_t i = 0; i < 3 * a.side * a.side; i++) pixels[i] = (float)(bench_next(&state) >> 40) * 0x1p-23f - 1.0f;
        a.encoder = encoder;
        a.pixels = pixels;
        st = bench_measure(b, "dinov3/512",
                           2 * (c->layers * (N * (4 * D + 2.0 * c->mlp) * D + 2 * N * N * D) + patches * 3 * c->patch * c->patch * D),
                           "2 * (layers * (N*(4D+2M)*D + 2*N*N*D) + patches)", encoder_once, &a);
    }
    esi_free(ctx, pixels);
    esi_dinov3_free(ctx, encoder);
    esi_json_free(config);
    return st;
}

/* ------------------------------------------------------------- structure decoder */

typedef struct structure_args {
    const esi_ss_decoder *decoder;
    esi_tensor latent;
} structure_args;

static espalier_status structure_once(bench *b, void *arg)
{
    const structure_args *a = arg;
    esi_tensor logits;
    esi_scope scope = esi_scope_begin(b->ctx);
    espalier_status st = esi_ss_decoder_forward(b->ctx, a->decoder, &logits, a->latent, 16);
    esi_scope_end(b->ctx, scope);
    return st;
}

/* Multiply-adds of the released decoder: 3x3x3 convolutions, counting the taps that lie inside the volume. */
static double structure_flops(void)
{
    static const double channels[] = {512, 128, 32};
    double flops = 0, R = 16;
    for (int level = 0; level < 3; level++, R *= 2) {
        double present = (3 * R - 2) * (3 * R - 2) * (3 * R - 2), C = channels[level]; /* pairs of neighbouring cells, centre included */
        if (level == 0) flops += present * (8 * C + 4 * C * C);                        /* input layer, two middle blocks */
        flops += present * 4 * C * C;
        if (level < 2)
            flops += present * C * 8 * channels[level + 1];
        else
            flops += present * C;
    }
    return 2 * flops;
}

espalier_status bench_ss_decoder(bench *b, const char *only)
{
    espalier_context *ctx = b->ctx;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_ss_decoder *decoder = NULL;
    structure_args a = {0};
    esi_scope scope;
    espalier_status st;

    if (!bench_wanted(only, "ss_decoder/16")) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    st = random_weights(ctx, ESPALIER_ROLE_SS_DECODER, &file, &config);
    if (st == ESPALIER_OK) st = esi_ss_decoder_open(ctx, &decoder, file, config);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.latent, 16 * 16 * 16, 8);
    if (st == ESPALIER_OK) {
        a.decoder = decoder;
        st = bench_measure(b, "ss_decoder/16", structure_flops(), "2 * sum of (present taps * Ci * Co) over the convolutions",
                           structure_once, &a);
    }
    esi_scope_end(ctx, scope);
    esi_ss_decoder_free(ctx, decoder);
    esi_json_free(config);
    return st;
}

/* ------------------------------------------------------------- sparse decoders */

typedef struct sparse_args {
    const esi_sparse_decoder *decoder;
    esi_tensor latent;
    const esi_coords *coords;
    esi_lineage *lineage; /* the shape decoder makes it anew in each run, the texture decoder follows it */
} sparse_args;

static espalier_status sparse_once(bench *b, void *arg)
{
    sparse_args *a = arg;
    const esi_sparse_decoder_config *c = esi_sparse_decoder_get_config(a->decoder);
    esi_tensor head;
    esi_scope scope = esi_scope_begin(b->ctx);
    if (c->pred_subdiv) esi_lineage_free(b->ctx, a->lineage);
    espalier_status st = esi_sparse_decoder_forward(b->ctx, a->decoder, &head, a->lineage, a->latent, a->coords, c->levels - 1);
    esi_scope_end(b->ctx, scope);
    return st;
}

/* Useful multiply-adds: neighbour pairs that exist, and of the up blocks' first convolution only the children that are kept. */
static espalier_status sparse_flops(espalier_context *ctx, double *flops, const esi_sparse_decoder_config *c, const esi_lineage *l)
{
    double sum = 0;
    for (int level = 0; level < c->levels; level++) {
        const esi_coords *rows = &l->level[level].coords;
        double C = c->channels[level], N = (double)rows->count, pairs = 0;
        int32_t *table = NULL;
        espalier_status st = esi_neighbor_table(ctx, &table, rows->rows, rows->count);
        if (st != ESPALIER_OK) return st;
        for (int64_t i = 0; i < rows->count * TAPS; i++) pairs += table[i] >= 0;
        if (level == 0) sum += N * c->latent_channels * C;
        sum += c->blocks[level] * (pairs * C * C + N * 8 * C * C);
        if (level > 0) sum += pairs * C * C; /* second convolution of the up block before */
        if (level + 1 < c->levels) {
            const esi_lineage_level *fine = &l->level[level + 1];
            double seen = 0;
            for (int64_t i = 0; i < fine->coords.count; i++)
                for (int t = 0; t < TAPS; t++) seen += table[(int64_t)(fine->index[i] / 8) * TAPS + t] >= 0;
            sum += seen * C * c->channels[level + 1] + (c->pred_subdiv ? N * 8 * C : 0);
        } else {
            sum += N * C * c->out_channels;
        }
        esi_free(ctx, table);
    }
    *flops = 2 * sum;
    return ESPALIER_OK;
}

static espalier_status run_sparse(bench *b, const char *stage, espalier_role role, const esi_coords *coords, esi_lineage *lineage,
                                  bool measure)
{
    espalier_context *ctx = b->ctx;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_sparse_decoder *decoder = NULL;
    sparse_args a = {.coords = coords, .lineage = lineage};
    char name[96];
    double flops = 0;
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = random_weights(ctx, role, &file, &config);

    if (st == ESPALIER_OK) st = esi_sparse_decoder_open(ctx, &decoder, file, config);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.latent, coords->count, esi_sparse_decoder_get_config(decoder)->latent_channels);
    a.decoder = decoder;
    if (st == ESPALIER_OK && lineage->levels == 0) st = sparse_once(b, &a); /* to count the voxels */
    if (st == ESPALIER_OK && measure) st = sparse_flops(ctx, &flops, esi_sparse_decoder_get_config(decoder), lineage);
    if (st == ESPALIER_OK && measure) {
        snprintf(name, sizeof name, "%s/%lld-%lld", stage, (long long)coords->count,
                 (long long)lineage->level[lineage->levels - 1].coords.count);
        st = bench_measure(b, name, flops, "2 * (present neighbour pairs * Ci * Co, kept children only, + linear layers)", sparse_once, &a);
    }
    esi_scope_end(ctx, scope);
    esi_sparse_decoder_free(ctx, decoder);
    esi_json_free(config);
    return st;
}

static bool stage_wanted(const char *only, const char *stage)
{
    return !only || strncmp(stage, only, ESI_MIN(strlen(only), strlen(stage))) == 0;
}

static espalier_status run_sparse_decoders(bench *b, bool texture)
{
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    espalier_status st = shell(b->ctx, &coords, 32, 1872);
    if (st == ESPALIER_OK) st = run_sparse(b, "shape_decoder", ESPALIER_ROLE_SHAPE_DECODER, &coords, &lineage, !texture);
    if (st == ESPALIER_OK && texture) st = run_sparse(b, "tex_decoder", ESPALIER_ROLE_TEX_DECODER, &coords, &lineage, true);
    esi_lineage_free(b->ctx, &lineage);
    esi_coords_free(b->ctx, &coords);
    return st;
}

espalier_status bench_shape_decoder(bench *b, const char *only)
{
    return stage_wanted(only, "shape_decoder") ? run_sparse_decoders(b, false) : ESPALIER_OK;
}

espalier_status bench_tex_decoder(bench *b, const char *only)
{
    return stage_wanted(only, "tex_decoder") ? run_sparse_decoders(b, true) : ESPALIER_OK;
}
