/* SPDX-License-Identifier: MIT
 *
 * model_plan.c: presets and the tensors of each network: names, shapes and dtypes of the release, and the flat GGUF form of trellis.cpp.
 * Values are scaled so that an untrained network stays within ordinary numbers
 * and decides about half of its questions with yes.
 */
#include "model_plan.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ------------------------------------------------------------ presets */

#define LATENT_CHANNELS    32
#define STRUCTURE_CHANNELS 8
#define SS_DECODER_STEM    "microsoft/TRELLIS-image-large/ckpts/ss_dec_conv3d_16l8_fp16"

/* clang-format off */
static const model_preset presets[] = {
    {.name = "trellis2-4b",
     .encoder = {.hidden = 1024, .layers = 24, .heads = 16, .mlp = 4096},
     .encoder_name = "facebook/dinov3-vitl16-pretrain-lvd1689m",
     .flow = {.channels = 1536, .heads = 12, .mlp = 8192, .mlp_ratio = "5.3334"},
     .structure_blocks = 30, .latent_blocks = 30, .structure_side = 16,
     .ss_decoder = {.levels = 3, .channels = {512, 128, 32}, .res_blocks = 2, .middle_blocks = 2, .occupied = -64},
     .shape_decoder = {.levels = 5, .channels = {1024, 512, 256, 128, 64}, .blocks = {4, 16, 8, 4, 0}},
     .texture_decoder = {.levels = 5, .channels = {1024, 512, 256, 128, 64}, .blocks = {4, 16, 8, 4, 0}},
     .image_size = 512, .token_grid = 32, .resolution = 512, .steps = 12,
     .texture_guidance = "\"guidance_strength\": 1.0, \"guidance_rescale\": 0.0",
     .stem = {NULL, "ckpts/ss_flow_img_dit_1_3B_64_bf16", SS_DECODER_STEM, "ckpts/slat_flow_img2shape_dit_1_3B_512_bf16",
              "ckpts/slat_flow_img2shape_dit_1_3B_1024_bf16", "ckpts/shape_dec_next_dc_f16c32_fp16",
              "ckpts/slat_flow_imgshape2tex_dit_1_3B_512_bf16", "ckpts/slat_flow_imgshape2tex_dit_1_3B_1024_bf16",
              "ckpts/tex_dec_next_dc_f16c32_fp16"}},
    {.name = "tiny",
     .encoder = {.hidden = 128, .layers = 4, .heads = 4, .mlp = 384},
     .encoder_name = "dinov3-tiny",
     .flow = {.channels = 96, .heads = 4, .mlp = 384, .mlp_ratio = "4", .rope_freq = "[1.0, 100.0]"},
     .structure_blocks = 6, .latent_blocks = 5, .structure_side = 4,
     .ss_decoder = {.levels = 3, .channels = {48, 16, 16}, .res_blocks = 1, .middle_blocks = 1, .occupied = -32},
     .shape_decoder = {.levels = 3, .channels = {64, 32, 16}, .blocks = {2, 2, 1}},
     .texture_decoder = {.levels = 3, .channels = {32, 32, 16}, .blocks = {1, 1, 1}},
     .image_size = 128, .token_grid = 16, .resolution = 64, .steps = 12,
     .texture_guidance = "\"guidance_strength\": 1.5, \"guidance_rescale\": 0.0",
     .stem = {NULL, "ckpts/ss_flow_tiny_bf16", SS_DECODER_STEM, "ckpts/slat_flow_img2shape_tiny_bf16", NULL,
              "ckpts/shape_dec_tiny_fp16", "ckpts/slat_flow_imgshape2tex_tiny_bf16", NULL, "ckpts/tex_dec_tiny_fp16"}},
    {.name = "micro",
     .encoder = {.hidden = 32, .layers = 2, .heads = 2, .mlp = 64},
     .encoder_name = "dinov3-micro",
     .flow = {.channels = 48, .heads = 3, .mlp = 128, .mlp_ratio = "2.6667"},
     .structure_blocks = 2, .latent_blocks = 2, .structure_side = 4,
     .ss_decoder = {.levels = 3, .channels = {8, 8, 8}, .res_blocks = 1, .middle_blocks = 1, .occupied = -48},
     .shape_decoder = {.levels = 5, .channels = {16, 8, 8, 8, 8}, .blocks = {1, 1, 1, 1, 0}},
     .texture_decoder = {.levels = 5, .channels = {16, 8, 8, 8, 8}, .blocks = {1, 1, 1, 1, 0}},
     .image_size = 32, .token_grid = 4, .resolution = 64, .steps = 2,
     .texture_guidance = "\"guidance_strength\": 2.5, \"guidance_rescale\": 0.3",
     .stem = {NULL, "ckpts/ss_flow_micro_bf16", SS_DECODER_STEM, "ckpts/slat_flow_img2shape_micro_512_bf16",
              "ckpts/slat_flow_img2shape_micro_1024_bf16", "ckpts/shape_dec_micro_fp16", "ckpts/slat_flow_imgshape2tex_micro_512_bf16",
              "ckpts/slat_flow_imgshape2tex_micro_1024_bf16", "ckpts/tex_dec_micro_fp16"}},
};
/* clang-format on */

const model_preset *model_preset_find(const char *name)
{
    for (size_t i = 0; i < ESI_COUNT(presets); i++)
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
    return NULL;
}

/* ------------------------------------------------------------ value rules */

static const value_rule zero = {0, 0, 0};
const value_rule rule_near_one = {128, 12, -7}; /* 1 +- 0.09 */
const value_rule rule_bias = {0, 64, -11};      /* +- 0.03 */

/* Square root and division are exactly rounded everywhere. */
value_rule rule_weight(int64_t fan_in, double gain)
{
    int exponent;
    double half_width = frexp(gain * sqrt(3.0 / (double)fan_in), &exponent);
    return (value_rule){0, (int)(half_width * 128.0), exponent - 7};
}

/* n / 16, the same for every element. */
static value_rule sixteenths(int n)
{
    return (value_rule){n, 0, -4};
}

/* ------------------------------------------------------------ adding tensors */

#define VECTOR(a)    ((plan_shape){1, {(a)}})
#define MATRIX(a, b) ((plan_shape){2, {(a), (b)}})

static uint64_t shape_count(const plan_shape *s)
{
    uint64_t n = 1;
    for (int i = 0; i < s->rank; i++) n *= (uint64_t)s->extent[i];
    return n;
}

/* GGUF has four dimensions. Sparse convolutions [Co, 3, 3, 3, Ci] keep the channels apart, dense ones [Co, Ci, 3, 3, 3] the taps. */
static plan_shape fold(plan_shape s)
{
    const int64_t *e = s.extent;
    if (s.rank < 5) return s;
    if (e[1] == 3 && e[2] == 3 && e[3] == 3) return (plan_shape){3, {e[0], 27, e[4]}};
    return (plan_shape){4, {e[0] * e[1], e[2], e[3], e[4]}};
}

/* A tensor without parts; NULL after a failure. */
static planned_tensor *new_tensor(file_plan *p, esi_file_dtype dtype, plan_shape s, const char *name)
{
    if (p->status != ESPALIER_OK) return NULL;
    if (p->count == p->capacity) {
        size_t capacity = p->capacity ? 2 * p->capacity : 64;
        planned_tensor *grown = esi_realloc(p->ctx, p->tensors, capacity, sizeof *grown, "planned tensors");
        if (!grown) {
            p->status = ESPALIER_ERR_RESOURCE;
            return NULL;
        }
        p->tensors = grown;
        p->capacity = capacity;
    }
    if (p->layout == LAYOUT_GGUF) {
        s = fold(s);
        dtype = s.rank >= 2 ? ESI_FILE_F16 : ESI_FILE_F32;
    }
    planned_tensor *t = &p->tensors[p->count++];
    *t = (planned_tensor){.dtype = dtype, .rank = s.rank};
    memcpy(t->shape, s.extent, sizeof t->shape);
    snprintf(t->name, sizeof t->name, "%s", name);
    return t;
}

static void add_part(const file_plan *p, planned_tensor *t, uint64_t count, value_rule rule, const char *stream)
{
    if (t) t->part[t->n_parts++] = (value_part){value_stream(p->seed, stream), count, rule};
}

static void add(file_plan *p, esi_file_dtype dtype, plan_shape s, value_rule rule, const char *format, ...) ESI_PRINTF(5, 6);
static void add(file_plan *p, esi_file_dtype dtype, plan_shape s, value_rule rule, const char *format, ...)
{
    char name[64];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    add_part(p, new_tensor(p, dtype, s, name), shape_count(&s), rule, name);
}

void file_plan_add(file_plan *p, esi_file_dtype dtype, plan_shape s, value_rule rule, const char *name)
{
    add_part(p, new_tensor(p, dtype, s, name), shape_count(&s), rule, name);
}

/* <name>.weight [out, in] and <name>.bias [out] */
static void add_linear(file_plan *p, esi_file_dtype dtype, int64_t out, int64_t in, double gain, const char *prefix, const char *name)
{
    add(p, dtype, MATRIX(out, in), rule_weight(in, gain), "%s%s.weight", prefix, name);
    add(p, dtype, VECTOR(out), rule_bias, "%s%s.bias", prefix, name);
}

static void add_norm(file_plan *p, esi_file_dtype dtype, int64_t channels, const char *prefix, const char *name)
{
    add(p, dtype, VECTOR(channels), rule_near_one, "%s%s.weight", prefix, name);
    add(p, dtype, VECTOR(channels), rule_bias, "%s%s.bias", prefix, name);
}

/* ------------------------------------------------------------ flow transformers */

static void plan_flow_block(file_plan *p, const model_preset *m, int i)
{
    const int64_t C = m->flow.channels, M = m->flow.mlp, X = m->encoder.hidden, H = m->flow.heads;
    const value_rule modulation = {0, 64, -8}; /* +- 0.25: shifts, scales and gates alike */
    const esi_file_dtype bf16 = ESI_FILE_BF16;
    char b[32];

    snprintf(b, sizeof b, "blocks.%d.", i);
    add(p, bf16, VECTOR(6 * C), modulation, "%smodulation", b);
    add_norm(p, bf16, C, b, "norm2");
    add_linear(p, bf16, 3 * C, C, 1.0, b, "self_attn.to_qkv");
    add(p, bf16, MATRIX(H, C / H), rule_near_one, "%sself_attn.q_rms_norm.gamma", b);
    add(p, bf16, MATRIX(H, C / H), rule_near_one, "%sself_attn.k_rms_norm.gamma", b);
    add_linear(p, bf16, C, C, 1.0, b, "self_attn.to_out");
    add_linear(p, bf16, C, C, 1.0, b, "cross_attn.to_q");
    add_linear(p, bf16, 2 * C, X, 1.0, b, "cross_attn.to_kv");
    add(p, bf16, MATRIX(H, C / H), rule_near_one, "%scross_attn.q_rms_norm.gamma", b);
    add(p, bf16, MATRIX(H, C / H), rule_near_one, "%scross_attn.k_rms_norm.gamma", b);
    add_linear(p, bf16, C, C, 1.0, b, "cross_attn.to_out");
    add_linear(p, bf16, M, C, 1.0, b, "mlp.mlp.0");
    add_linear(p, bf16, C, M, 1.0, b, "mlp.mlp.2");
}

static void plan_flow(file_plan *p, const model_preset *m, int64_t in, int64_t out, int blocks)
{
    const int64_t C = m->flow.channels, timestep_width = 256;
    const esi_file_dtype bf16 = ESI_FILE_BF16;

    add_linear(p, bf16, C, timestep_width, 1.0, "", "t_embedder.mlp.0");
    add_linear(p, bf16, C, C, 1.0, "", "t_embedder.mlp.2");
    add_linear(p, bf16, 6 * C, C, 0.25, "", "adaLN_modulation.1");
    add_linear(p, bf16, C, in, 1.0, "", "input_layer");
    for (int i = 0; i < blocks; i++) plan_flow_block(p, m, i);
    add_linear(p, bf16, out, C, 1.0, "", "out_layer");
}

/* ------------------------------------------------------------ image encoder */

/* The two spellings of one tensor. Streams go by the first, so that both layouts hold the same numbers. */
static void add_twice_named(file_plan *p, plan_shape s, value_rule rule, const char *hf, const char *timm)
{
    add_part(p, new_tensor(p, ESI_FILE_F32, s, p->layout == LAYOUT_GGUF ? timm : hf), shape_count(&s), rule, hf);
}

static void add_encoder_tensor(file_plan *p, int layer, plan_shape s, value_rule rule, const char *hf, const char *timm)
{
    char hf_name[64], timm_name[64];
    snprintf(hf_name, sizeof hf_name, "layer.%d.%s", layer, hf);
    snprintf(timm_name, sizeof timm_name, "blocks.%d.%s", layer, timm);
    add_twice_named(p, s, rule, hf_name, timm_name);
}

/* Queries, keys and values: apart with (zero) biases of queries and values, or one matrix of three parts without. */
static void plan_encoder_qkv(file_plan *p, int layer, int64_t D)
{
    static const char *const names[3] = {"q", "k", "v"};
    value_rule rule = rule_weight(D, 1.0);
    planned_tensor *fused = NULL;
    char name[64];

    if (p->layout == LAYOUT_GGUF) {
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.weight", layer);
        fused = new_tensor(p, ESI_FILE_F32, MATRIX(3 * D, D), name);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "layer.%d.attention.%s_proj.weight", layer, names[i]);
        if (p->layout == LAYOUT_GGUF) {
            add_part(p, fused, (uint64_t)(D * D), rule, name);
        } else {
            add(p, ESI_FILE_F32, MATRIX(D, D), rule, "%s", name);
            if (i != 1) add(p, ESI_FILE_F32, VECTOR(D), zero, "layer.%d.attention.%s_proj.bias", layer, names[i]);
        }
    }
}

static void plan_encoder(file_plan *p, const model_preset *m)
{
    const int64_t D = m->encoder.hidden, M = m->encoder.mlp, registers = 4, patch = 16;
    const value_rule token = {0, 64, -7}, layer_scale = {32, 16, -7}; /* +- 0.5; 0.25 +- 0.125 */
    const plan_shape patch_shape = {4, {D, 3, patch, patch}};

    add_twice_named(p, (plan_shape){3, {1, 1, D}}, token, "embeddings.cls_token", "cls_token");
    if (p->layout == LAYOUT_HUGGING_FACE) add(p, ESI_FILE_F32, (plan_shape){3, {1, 1, D}}, zero, "embeddings.mask_token");
    add_twice_named(p, (plan_shape){3, {1, registers, D}}, token, "embeddings.register_tokens", "reg_token");
    add_twice_named(p, patch_shape, rule_weight(3 * patch * patch, 1.0), "embeddings.patch_embeddings.weight", "patch_embed.proj.weight");
    add_twice_named(p, VECTOR(D), rule_bias, "embeddings.patch_embeddings.bias", "patch_embed.proj.bias");
    for (int i = 0; i < m->encoder.layers; i++) {
        add_encoder_tensor(p, i, VECTOR(D), rule_near_one, "norm1.weight", "norm1.weight");
        add_encoder_tensor(p, i, VECTOR(D), rule_bias, "norm1.bias", "norm1.bias");
        plan_encoder_qkv(p, i, D);
        add_encoder_tensor(p, i, MATRIX(D, D), rule_weight(D, 1.0), "attention.o_proj.weight", "attn.proj.weight");
        add_encoder_tensor(p, i, VECTOR(D), rule_bias, "attention.o_proj.bias", "attn.proj.bias");
        add_encoder_tensor(p, i, VECTOR(D), layer_scale, "layer_scale1.lambda1", "gamma_1");
        add_encoder_tensor(p, i, VECTOR(D), rule_near_one, "norm2.weight", "norm2.weight");
        add_encoder_tensor(p, i, VECTOR(D), rule_bias, "norm2.bias", "norm2.bias");
        add_encoder_tensor(p, i, MATRIX(M, D), rule_weight(D, 1.0), "mlp.up_proj.weight", "mlp.fc1.weight");
        add_encoder_tensor(p, i, VECTOR(M), rule_bias, "mlp.up_proj.bias", "mlp.fc1.bias");
        add_encoder_tensor(p, i, MATRIX(D, M), rule_weight(M, 1.0), "mlp.down_proj.weight", "mlp.fc2.weight");
        add_encoder_tensor(p, i, VECTOR(D), rule_bias, "mlp.down_proj.bias", "mlp.fc2.bias");
        add_encoder_tensor(p, i, VECTOR(D), layer_scale, "layer_scale2.lambda1", "gamma_2");
    }
    add_twice_named(p, VECTOR(D), rule_near_one, "norm.weight", "norm.weight");
    add_twice_named(p, VECTOR(D), rule_bias, "norm.bias", "norm.bias");
}

/* ------------------------------------------------------------ structure decoder */

static void add_dense_conv(file_plan *p, esi_file_dtype dtype, int64_t out, int64_t in, double gain, value_rule bias, const char *name)
{
    const plan_shape s = {5, {out, in, 3, 3, 3}};
    add(p, dtype, s, rule_weight(27 * in, gain), "%s.weight", name);
    add(p, dtype, VECTOR(out), bias, "%s.bias", name);
}

static void plan_res_block(file_plan *p, int64_t channels, const char *list, int i)
{
    char prefix[32], conv[48];

    snprintf(prefix, sizeof prefix, "%s.%d.", list, i);
    add_norm(p, ESI_FILE_F32, channels, prefix, "norm1");
    add_norm(p, ESI_FILE_F32, channels, prefix, "norm2");
    snprintf(conv, sizeof conv, "%sconv1", prefix);
    add_dense_conv(p, ESI_FILE_F16, channels, channels, 1.0, rule_bias, conv);
    snprintf(conv, sizeof conv, "%sconv2", prefix);
    add_dense_conv(p, ESI_FILE_F16, channels, channels, 0.5, rule_bias, conv);
}

/* Logits come out with a standard deviation near 1; `occupied` / 32 is added, negative numbers thin the structure out. */
static void plan_ss_decoder(file_plan *p, const model_preset *m)
{
    const int *channels = m->ss_decoder.channels;
    const value_rule output_bias = {m->ss_decoder.occupied, 0, -5};
    int at = 0, last = m->ss_decoder.levels - 1;
    char name[32];

    add_dense_conv(p, ESI_FILE_F32, channels[0], STRUCTURE_CHANNELS, 1.0, rule_bias, "input_layer");
    for (int i = 0; i < m->ss_decoder.middle_blocks; i++) plan_res_block(p, channels[0], "middle_block", i);
    for (int level = 0; level <= last; level++) {
        for (int i = 0; i < m->ss_decoder.res_blocks; i++) plan_res_block(p, channels[level], "blocks", at++);
        if (level == last) break;
        snprintf(name, sizeof name, "blocks.%d.conv", at++);
        add_dense_conv(p, ESI_FILE_F16, 8 * (int64_t)channels[level + 1], channels[level], 1.0, rule_bias, name);
    }
    add_norm(p, ESI_FILE_F32, channels[last], "", "out_layer.0");
    add_dense_conv(p, ESI_FILE_F32, 1, channels[last], 2.0, output_bias, "out_layer.2");
}

/* ------------------------------------------------------------ sparse decoders */

static void add_sparse_conv(file_plan *p, int64_t out, int64_t in, const char *prefix, const char *name)
{
    const plan_shape s = {5, {out, 3, 3, 3, in}};
    /* On a surface about a third of the taps find a voxel. */
    add(p, ESI_FILE_F16, s, rule_weight(9 * in, 1.0), "%s%s.weight", prefix, name);
    add(p, ESI_FILE_F16, VECTOR(out), rule_bias, "%s%s.bias", prefix, name);
}

/* The lower four children are likelier than the upper four: level sheets, about four children a voxel as on real surfaces, not dust. */
static void plan_subdivision(file_plan *p, int64_t channels, const char *prefix)
{
    char name[64];
    add(p, ESI_FILE_F16, MATRIX(8, channels), rule_weight(channels, 0.5), "%sto_subdiv.weight", prefix);
    snprintf(name, sizeof name, "%sto_subdiv.bias", prefix);
    planned_tensor *t = new_tensor(p, ESI_FILE_F16, VECTOR(8), name);
    add_part(p, t, 4, sixteenths(40), name);
    add_part(p, t, 4, sixteenths(-40), name);
}

static void plan_sparse_block(file_plan *p, int64_t channels, int64_t finer, bool subdivision, const char *prefix)
{
    if (finer == 0) { /* ConvNeXt */
        add_norm(p, ESI_FILE_F16, channels, prefix, "norm");
        add_sparse_conv(p, channels, channels, prefix, "conv");
        add_linear(p, ESI_FILE_F16, 4 * channels, channels, 1.0, prefix, "mlp.0");
        add_linear(p, ESI_FILE_F16, channels, 4 * channels, 0.5, prefix, "mlp.2");
        return;
    }
    add_norm(p, ESI_FILE_F16, channels, prefix, "norm1");
    add_sparse_conv(p, 8 * finer, channels, prefix, "conv1");
    add_sparse_conv(p, finer, finer, prefix, "conv2");
    if (subdivision) plan_subdivision(p, channels, prefix);
}

/* Head of the shape decoder: three of the vertex, three crossing flags, split weight. The flag across the sheets is the likeliest. */
static void plan_shape_output(file_plan *p, int64_t channels)
{
    add(p, ESI_FILE_F16, MATRIX(7, channels), rule_weight(channels, 1.0), "output_layer.weight");
    planned_tensor *t = new_tensor(p, ESI_FILE_F16, VECTOR(7), "output_layer.bias");
    add_part(p, t, 5, rule_bias, "output_layer.bias");
    add_part(p, t, 1, sixteenths(32), "output_layer.bias");
    add_part(p, t, 1, rule_bias, "output_layer.bias");
}

static void plan_sparse_decoder(file_plan *p, int levels, const int *channels, const int *blocks, bool shape_head)
{
    char prefix[32];

    if (shape_head)
        plan_shape_output(p, channels[levels - 1]);
    else
        add_linear(p, ESI_FILE_F16, 6, channels[levels - 1], 1.0, "", "output_layer");
    add_linear(p, ESI_FILE_F16, channels[0], LATENT_CHANNELS, 0.2, "", "from_latent"); /* latents have deviations near 5 */
    for (int level = 0; level < levels; level++) {
        int n = blocks[level] + (level + 1 < levels);
        for (int j = 0; j < n; j++) {
            snprintf(prefix, sizeof prefix, "blocks.%d.%d.", level, j);
            plan_sparse_block(p, channels[level], j < blocks[level] ? 0 : channels[level + 1], shape_head, prefix);
        }
    }
}

/* ------------------------------------------------------------ whole files */

static void plan_role(file_plan *p, const model_preset *m, espalier_role role)
{
    const int64_t latent = LATENT_CHANNELS, structure = STRUCTURE_CHANNELS;
    switch (role) {
    case ESPALIER_ROLE_IMAGE_ENCODER:
        plan_encoder(p, m);
        break;
    case ESPALIER_ROLE_SS_FLOW:
        plan_flow(p, m, structure, structure, m->structure_blocks);
        break;
    case ESPALIER_ROLE_SS_DECODER:
        plan_ss_decoder(p, m);
        break;
    case ESPALIER_ROLE_SHAPE_FLOW_512:
    case ESPALIER_ROLE_SHAPE_FLOW_1024:
        plan_flow(p, m, latent, latent, m->latent_blocks);
        break;
    case ESPALIER_ROLE_TEX_FLOW_512:
    case ESPALIER_ROLE_TEX_FLOW_1024:
        plan_flow(p, m, 2 * latent, latent, m->latent_blocks);
        break;
    case ESPALIER_ROLE_SHAPE_DECODER:
        plan_sparse_decoder(p, m->shape_decoder.levels, m->shape_decoder.channels, m->shape_decoder.blocks, true);
        break;
    case ESPALIER_ROLE_TEX_DECODER:
        plan_sparse_decoder(p, m->texture_decoder.levels, m->texture_decoder.channels, m->texture_decoder.blocks, false);
        break;
    case ESPALIER_ROLE_COUNT:
        break;
    }
}

espalier_status file_plan_make(espalier_context *ctx, file_plan *out, const model_preset *preset, espalier_role role, model_layout layout,
                               uint64_t seed)
{
    *out = (file_plan){.ctx = ctx, .seed = value_stream(seed, espalier_role_name(role)), .layout = layout};
    plan_role(out, preset, role);
    return out->status;
}

void file_plan_free(file_plan *plan)
{
    esi_free(plan->ctx, plan->tensors);
    memset(plan, 0, sizeof *plan);
}
