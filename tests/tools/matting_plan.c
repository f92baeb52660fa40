/* SPDX-License-Identifier: MIT
 *
 * matting_plan.c: the tensors of random matting networks: BiRefNet on a Swin backbone of any size, with the names of ZhengPeng7/BiRefNet,
 * U2-Net, U2-NetP and IS-Net with PyTorch's. Convolutions before a ReLU have gain sqrt(2), so that activations keep their size; offsets of
 * deformable convolutions are some pixels.
 */
#include "model_plan.h"

#include <stdarg.h>
#include <stdio.h>

enum { STAGES = 4, U2_STAGES = 6 };

/* Widths (in, middle, out) of a residual U-block. */
typedef struct rsu_widths {
    int in, middle, out;
} rsu_widths;

struct matting_preset {
    const char *name, *stem;
    struct {
        int embed, depth[STAGES], heads[STAGES], window;
        int inside, pyramid, tiles; /* channels inside decoder blocks, of pyramid branches, inside tile blocks */
    } birefnet;                     /* embed 0: the other */
    struct {
        int stem; /* channels of IS-Net's first convolution, 0 without one */
        rsu_widths encode[U2_STAGES], decode[U2_STAGES - 1];
    } u2net;
};

#define SWIN_DECODER .inside = 64, .pyramid = 256, .tiles = 64
#define FULL_DECODE  {{128, 16, 64}, {256, 32, 64}, {512, 64, 128}, {1024, 128, 256}, {1024, 256, 512}}
#define SMALL(in, middle, out) \
    .encode = {{in, middle, out}, {out, middle, out}, {out, middle, out}, {out, middle, out}, {out, middle, out}, {out, middle, out}}, \
    .decode = {{2 * (out), middle, out}, {2 * (out), middle, out}, {2 * (out), middle, out}, {2 * (out), middle, out}, \
               {2 * (out), middle, out}}

/* clang-format off */
static const matting_preset presets[] = {
    {.name = "birefnet-swin-t", .stem = "birefnet",
     .birefnet = {96, {2, 2, 6, 2}, {3, 6, 12, 24}, 7, SWIN_DECODER}},
    {.name = "birefnet-swin-s", .stem = "birefnet",
     .birefnet = {96, {2, 2, 18, 2}, {3, 6, 12, 24}, 7, SWIN_DECODER}},
    {.name = "birefnet-swin-b", .stem = "birefnet",
     .birefnet = {128, {2, 2, 18, 2}, {4, 8, 16, 32}, 12, SWIN_DECODER}},
    {.name = "birefnet-swin-l", .stem = "birefnet",
     .birefnet = {192, {2, 2, 18, 2}, {6, 12, 24, 48}, 12, SWIN_DECODER}},
    {.name = "birefnet-micro", .stem = "birefnet",
     .birefnet = {8, {2, 2, 2, 2}, {1, 2, 2, 4}, 4, .inside = 12, .pyramid = 20, .tiles = 4}},
    {.name = "u2net", .stem = "u2net",
     .u2net = {.encode = {{3, 32, 64}, {64, 32, 128}, {128, 64, 256}, {256, 128, 512}, {512, 256, 512}, {512, 256, 512}},
               .decode = FULL_DECODE}},
    {.name = "u2netp", .stem = "u2netp", .u2net = {SMALL(3, 16, 64)}},
    {.name = "isnet", .stem = "isnet",
     .u2net = {.stem = 64,
               .encode = {{64, 32, 64}, {64, 32, 128}, {128, 64, 256}, {256, 128, 512}, {512, 256, 512}, {512, 256, 512}},
               .decode = FULL_DECODE}},
    {.name = "u2netp-micro", .stem = "u2netp", .u2net = {SMALL(3, 4, 12)}},
    {.name = "isnet-micro", .stem = "isnet",
     .u2net = {.stem = 8,
               .encode = {{8, 4, 8}, {8, 4, 12}, {12, 4, 16}, {16, 8, 20}, {20, 8, 20}, {20, 8, 20}},
               .decode = {{16, 4, 8}, {24, 4, 8}, {32, 8, 12}, {40, 8, 16}, {40, 8, 20}}}},
};
/* clang-format on */

const matting_preset *matting_preset_at(size_t i)
{
    return i < ESI_COUNT(presets) ? &presets[i] : NULL;
}

const matting_preset *matting_preset_find(const char *name, size_t length)
{
    for (size_t i = 0; i < ESI_COUNT(presets); i++)
        if (strlen(presets[i].name) == length && memcmp(presets[i].name, name, length) == 0) return &presets[i];
    return NULL;
}

const char *matting_preset_name(const matting_preset *preset)
{
    return preset->name;
}

const char *matting_preset_stem(const matting_preset *preset)
{
    return preset->stem;
}

/* ------------------------------------------------------------ parts */

static void add(file_plan *p, esi_file_dtype dtype, plan_shape s, value_rule rule, const char *format, ...) ESI_PRINTF(5, 6);
static void add(file_plan *p, esi_file_dtype dtype, plan_shape s, value_rule rule, const char *format, ...)
{
    char name[96];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    file_plan_add(p, dtype, s, rule, name);
}

static plan_shape vector(int64_t n)
{
    return (plan_shape){1, {n}};
}

static void add_linear(file_plan *p, int64_t out, int64_t in, bool bias, const char *scope, const char *name)
{
    add(p, ESI_FILE_F16, (plan_shape){2, {out, in}}, rule_weight(in, 1.0), "%s%s.weight", scope, name);
    if (bias) add(p, ESI_FILE_F16, vector(out), rule_bias, "%s%s.bias", scope, name);
}

static void add_layer_norm(file_plan *p, int64_t channels, const char *scope, const char *name)
{
    add(p, ESI_FILE_F16, vector(channels), rule_near_one, "%s%s.weight", scope, name);
    add(p, ESI_FILE_F16, vector(channels), rule_bias, "%s%s.bias", scope, name);
}

static void add_conv(file_plan *p, int64_t out, int64_t in, int64_t kernel, double gain, bool bias, const char *scope, const char *name)
{
    add(p, ESI_FILE_F16, (plan_shape){4, {out, in, kernel, kernel}}, rule_weight(in * kernel * kernel, gain), "%s%s.weight", scope, name);
    if (bias) add(p, ESI_FILE_F16, vector(out), rule_bias, "%s%s.bias", scope, name);
}

static void add_batch_norm(file_plan *p, int64_t channels, const char *scope, const char *name)
{
    add(p, ESI_FILE_F16, vector(channels), rule_near_one, "%s%s.weight", scope, name);
    add(p, ESI_FILE_F16, vector(channels), rule_bias, "%s%s.bias", scope, name);
    add(p, ESI_FILE_F32, vector(channels), rule_bias, "%s%s.running_mean", scope, name);
    add(p, ESI_FILE_F32, vector(channels), rule_near_one, "%s%s.running_var", scope, name);
}

/* ------------------------------------------------------------ BiRefNet */

#define RELU_GAIN 1.4142135623730951

static void plan_swin_block(file_plan *p, int64_t C, int heads, int window, const char *scope)
{
    const int64_t positions = (2 * (int64_t)window - 1) * (2 * window - 1);
    const value_rule half = {0, 64, -7};

    add_layer_norm(p, C, scope, "norm1");
    add(p, ESI_FILE_F16, (plan_shape){2, {positions, heads}}, half, "%sattn.relative_position_bias_table", scope);
    add_linear(p, 3 * C, C, true, scope, "attn.qkv");
    add_linear(p, C, C, true, scope, "attn.proj");
    add_layer_norm(p, C, scope, "norm2");
    add_linear(p, 4 * C, C, true, scope, "mlp.fc1");
    add_linear(p, C, 4 * C, true, scope, "mlp.fc2");
}

static void plan_swin(file_plan *p, const matting_preset *m)
{
    char scope[48];

    add_conv(p, m->birefnet.embed, 3, 4, 1.0, true, "bb.", "patch_embed.proj");
    add_layer_norm(p, m->birefnet.embed, "bb.", "patch_embed.norm");
    for (int i = 0; i < STAGES; i++) {
        const int64_t C = (int64_t)m->birefnet.embed << i;
        for (int b = 0; b < m->birefnet.depth[i]; b++) {
            snprintf(scope, sizeof scope, "bb.layers.%d.blocks.%d.", i, b);
            plan_swin_block(p, C, m->birefnet.heads[i], m->birefnet.window, scope);
        }
        if (i == STAGES - 1) break;
        snprintf(scope, sizeof scope, "bb.layers.%d.downsample.", i);
        add_linear(p, 2 * C, 4 * C, false, scope, "reduction");
        add_layer_norm(p, 4 * C, scope, "norm");
    }
    for (int i = 0; i < STAGES; i++) {
        snprintf(scope, sizeof scope, "norm%d", i);
        add_layer_norm(p, (int64_t)m->birefnet.embed << i, "bb.", scope);
    }
}

static void plan_pyramid(file_plan *p, const matting_preset *m, const char *block)
{
    static const char *const names[] = {"aspp1.", "aspp_deforms.0.", "aspp_deforms.1.", "aspp_deforms.2."};
    static const int kernels[] = {1, 1, 3, 7};
    const int64_t in = m->birefnet.inside, out = m->birefnet.pyramid;
    char scope[64], dec_att[48];

    snprintf(dec_att, sizeof dec_att, "%sdec_att.", block);
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        const int64_t k = kernels[i];
        snprintf(scope, sizeof scope, "%s%s", dec_att, names[i]);
        add_conv(p, 2 * k * k, in, k, 1.0, true, scope, "atrous_conv.offset_conv");
        add_conv(p, k * k, in, k, 1.0, true, scope, "atrous_conv.modulator_conv");
        add_conv(p, out, in, k, RELU_GAIN, false, scope, "atrous_conv.regular_conv");
        add_batch_norm(p, out, scope, "bn");
    }
    add_conv(p, out, in, 1, RELU_GAIN, false, dec_att, "global_avg_pool.1");
    add_batch_norm(p, out, dec_att, "global_avg_pool.2");
    add_conv(p, in, 5 * out, 1, RELU_GAIN, false, dec_att, "conv1");
    add_batch_norm(p, in, dec_att, "bn1");
}

static void plan_decoder_block(file_plan *p, const matting_preset *m, int64_t out, int64_t in, const char *scope)
{
    add_conv(p, m->birefnet.inside, in, 3, RELU_GAIN, true, scope, "conv_in");
    plan_pyramid(p, m, scope);
    add_conv(p, out, m->birefnet.inside, 3, 1.0, true, scope, "conv_out");
    add_batch_norm(p, m->birefnet.inside, scope, "bn_in");
    add_batch_norm(p, out, scope, "bn_out");
}

static void plan_gate(file_plan *p, int64_t channels, int level)
{
    const int64_t gate = 16;
    char scope[48];

    snprintf(scope, sizeof scope, "decoder.lateral_block%d.", level);
    add_conv(p, channels, channels, 1, 1.0, true, scope, "conv");
    snprintf(scope, sizeof scope, "decoder.conv_ms_spvn_%d", level);
    add_conv(p, 1, channels, 1, 1.0, true, "", scope);
    snprintf(scope, sizeof scope, "decoder.gdt_convs_%d.", level);
    add_conv(p, gate, channels, 3, RELU_GAIN, true, scope, "0");
    add_batch_norm(p, gate, scope, "1");
    snprintf(scope, sizeof scope, "decoder.gdt_convs_pred_%d.", level);
    add_conv(p, 1, gate, 1, 1.0, true, scope, "0");
    snprintf(scope, sizeof scope, "decoder.gdt_convs_attn_%d.", level);
    add_conv(p, 1, gate, 1, 1.0, true, scope, "0");
}

static void plan_birefnet(file_plan *p, const matting_preset *m)
{
    const int64_t coarsest = (int64_t)m->birefnet.embed << STAGES; /* both sizes side by side */
    int64_t channels[STAGES + 1], tiles[STAGES + 1];               /* of level i's map; of ipt_blk<i + 1>; [STAGES]: the coarsest again */
    char scope[48];

    for (int i = 0; i < STAGES; i++) channels[i] = coarsest >> (STAGES - 1 - i);
    channels[STAGES] = coarsest;
    tiles[0] = channels[0] / 8;
    for (int i = 1; i <= STAGES; i++) tiles[i] = channels[i < STAGES ? i : STAGES - 1] / 8;
    plan_swin(p, m);
    plan_decoder_block(p, m, coarsest, 2 * coarsest - channels[0], "squeeze_module.0.");
    for (int i = STAGES; i >= 0; i--) {
        const int64_t side = i == 0 ? 1 : (int64_t)4 << (i - 1);
        snprintf(scope, sizeof scope, "decoder.ipt_blk%d.", i + 1);
        add_conv(p, m->birefnet.tiles, 3 * side * side, 3, 1.0, true, scope, "conv1");
        add_conv(p, tiles[i], m->birefnet.tiles, 3, 1.0, true, scope, "conv_out");
    }
    for (int i = STAGES - 1; i >= 0; i--) {
        snprintf(scope, sizeof scope, "decoder.decoder_block%d.", i + 1);
        plan_decoder_block(p, m, i > 0 ? channels[i - 1] : channels[0] / 2, channels[i] + tiles[i + 1], scope);
        if (i > 0) plan_gate(p, channels[i - 1], i + 1);
    }
    add_conv(p, 1, channels[0] / 2 + tiles[0], 1, 1.0, true, "decoder.", "conv_out1.0");
}

/* ------------------------------------------------------------ U2-Net and IS-Net */

static void add_conv_norm(file_plan *p, int64_t out, int64_t in, const char *scope, const char *name)
{
    char inner[48];
    snprintf(inner, sizeof inner, "%s%s.", scope, name);
    add_conv(p, out, in, 3, RELU_GAIN, true, inner, "conv_s1");
    add_batch_norm(p, out, inner, "bn_s1");
}

static void plan_rsu(file_plan *p, const rsu_widths *w, int depth, const char *scope)
{
    char name[24];

    add_conv_norm(p, w->out, w->in, scope, "rebnconvin");
    for (int i = 1; i <= depth; i++) {
        snprintf(name, sizeof name, "rebnconv%d", i);
        add_conv_norm(p, w->middle, i == 1 ? w->out : w->middle, scope, name);
    }
    for (int i = depth - 1; i >= 1; i--) {
        snprintf(name, sizeof name, "rebnconv%dd", i);
        add_conv_norm(p, i == 1 ? w->out : w->middle, 2 * (int64_t)w->middle, scope, name);
    }
}

static void plan_u2net(file_plan *p, const matting_preset *m)
{
    static const int depths[U2_STAGES] = {7, 6, 5, 4, 4, 4};
    char scope[16];

    if (m->u2net.stem) add_conv(p, m->u2net.stem, 3, 3, 1.0, true, "", "conv_in");
    for (int i = 0; i < U2_STAGES; i++) {
        snprintf(scope, sizeof scope, "stage%d.", i + 1);
        plan_rsu(p, &m->u2net.encode[i], depths[i], scope);
    }
    for (int i = U2_STAGES - 2; i >= 0; i--) {
        snprintf(scope, sizeof scope, "stage%dd.", i + 1);
        plan_rsu(p, &m->u2net.decode[i], depths[i], scope);
    }
    for (int i = 0; i < U2_STAGES; i++) {
        const rsu_widths *w = i < U2_STAGES - 1 ? &m->u2net.decode[i] : &m->u2net.encode[i];
        snprintf(scope, sizeof scope, "side%d", i + 1);
        add_conv(p, 1, w->out, 3, 1.0, true, "", scope);
    }
    if (!m->u2net.stem) add_conv(p, 1, U2_STAGES, 1, 1.0, true, "", "outconv");
}

espalier_status matting_plan_make(espalier_context *ctx, file_plan *out, const matting_preset *preset, uint64_t seed)
{
    *out = (file_plan){.ctx = ctx, .seed = value_stream(seed, preset->name), .layout = LAYOUT_HUGGING_FACE};
    if (preset->birefnet.embed)
        plan_birefnet(out, preset);
    else
        plan_u2net(out, preset);
    return out->status;
}
