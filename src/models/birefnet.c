/* SPDX-License-Identifier: MIT
 *
 * birefnet.c: opens BiRefNet (Zheng et al. 2024) from its checkpoint's names. trellis.cpp's GGUF has the same names with batch norms as
 * <name>.scale and <name>.shift. Supervision heads of training are in the files and are not used.
 */
#include "models/birefnet.h"

#include <stdio.h>

bool esi_birefnet_recognise(const esi_weight_file *file)
{
    return esi_weight_file_find(file, "bb.patch_embed.proj.weight") && esi_weight_file_find(file, "decoder.conv_out1.0.weight");
}

static espalier_status open_block(const esi_layer_source *s, esi_birefnet_block *b, const char *scope, int64_t in)
{
    const esi_conv2d_options first = {.in = in, .kernel = 3, .norm = "bn_in", .act = ESI_ACT_RELU};
    esi_conv2d_options last = {.kernel = 3, .norm = "bn_out"};
    char name[96];
    espalier_status st = esi_conv2d_open(s, &b->conv_in, scope, "conv_in", &first);

    snprintf(name, sizeof name, "%sdec_att.", scope);
    if (st == ESPALIER_OK) st = esi_aspp_open(s, &b->aspp, name, b->conv_in.out);
    last.in = b->conv_in.out;
    return st == ESPALIER_OK ? esi_conv2d_open(s, &b->conv_out, scope, "conv_out", &last) : st;
}

static void free_block(espalier_context *ctx, const espalier_allocator *allocator, esi_birefnet_block *b)
{
    esi_conv2d_free(ctx, allocator, &b->conv_in);
    esi_aspp_free(ctx, allocator, &b->aspp);
    esi_conv2d_free(ctx, allocator, &b->conv_out);
}

/* patch[i] sees tiles of level i - 1 (0: the picture itself): 3 channels for each tile. */
static espalier_status open_patch(const esi_layer_source *s, esi_birefnet *m, int i)
{
    const int64_t stride = i == 0 ? 1 : m->backbone.patch.geometry.stride << (i - 1);
    esi_conv2d_options o = {.in = 3 * stride * stride, .kernel = 3};
    char scope[48];
    espalier_status st;

    snprintf(scope, sizeof scope, "decoder.ipt_blk%d.", i + 1);
    st = esi_conv2d_open(s, &m->patch[i].conv1, scope, "conv1", &o);
    o.in = m->patch[i].conv1.out;
    return st == ESPALIER_OK ? esi_conv2d_open(s, &m->patch[i].conv_out, scope, "conv_out", &o) : st;
}

/* Gate and lateral convolution between decoder block i + 2 and level i. */
static espalier_status open_step(const esi_layer_source *s, esi_birefnet *m, int i)
{
    const int64_t deeper = m->decode[i + 1].conv_out.out;
    esi_conv2d_options o = {.in = deeper, .kernel = 3, .norm = "1", .act = ESI_ACT_RELU};
    char scope[48];
    espalier_status st;

    snprintf(scope, sizeof scope, "decoder.gdt_convs_%d.", i + 2);
    st = esi_conv2d_open(s, &m->gate[i], scope, "0", &o);
    snprintf(scope, sizeof scope, "decoder.gdt_convs_attn_%d.", i + 2);
    o = (esi_conv2d_options){.in = m->gate[i].out, .out = 1, .kernel = 1, .act = ESI_ACT_SIGMOID};
    if (st == ESPALIER_OK) st = esi_conv2d_open(s, &m->attend[i], scope, "0", &o);
    snprintf(scope, sizeof scope, "decoder.lateral_block%d.", i + 2);
    o = (esi_conv2d_options){.in = 2 * m->backbone.stages[i].channels, .out = deeper, .kernel = 1};
    if (st == ESPALIER_OK) st = esi_conv2d_open(s, &m->lateral[i], scope, "conv", &o);
    for (int k = 0; k < 2; k++) {
        const char *const part = k ? "bias" : "weight";
        esi_weights_ignore(s->weights, "%sdecoder.conv_ms_spvn_%d.%s", s->prefix, i + 2, part);
        esi_weights_ignore(s->weights, "%sdecoder.gdt_convs_pred_%d.0.%s", s->prefix, i + 2, part);
    }
    return st;
}

static espalier_status open_decoder(const esi_layer_source *s, esi_birefnet *m)
{
    const esi_conv2d_options head = {.out = 1, .kernel = 1};
    int64_t in;
    char scope[48];
    espalier_status st = ESPALIER_OK;

    for (int i = 0; st == ESPALIER_OK && i <= ESI_BIREFNET_LEVELS; i++) st = open_patch(s, m, i);
    in = m->squeeze.conv_out.out;
    for (int i = ESI_BIREFNET_LEVELS - 1; st == ESPALIER_OK && i >= 0; i--) {
        snprintf(scope, sizeof scope, "decoder.decoder_block%d.", i + 1);
        st = open_block(s, &m->decode[i], scope, in + m->patch[i + 1].conv_out.out);
        if (st == ESPALIER_OK && i > 0) st = open_step(s, m, i - 1);
        in = m->decode[i].conv_out.out;
    }
    if (st != ESPALIER_OK) return st;
    esi_conv2d_options sized = head;
    sized.in = in + m->patch[0].conv_out.out;
    return esi_conv2d_open(s, &m->head, "decoder.", "conv_out1.0", &sized);
}

static espalier_status open_network(espalier_context *ctx, esi_birefnet *m)
{
    const esi_weight_file *file = esi_weights_file(m->network.weights);
    esi_layer_source s = {ctx, m->network.weights, esi_image_norm_style(file), ""};
    int64_t channels = 0;
    espalier_status st;

    if (!esi_birefnet_recognise(file))
        return esi_fail(
            ctx, ESPALIER_ERR_MODEL,
            "%s: no BiRefNet with a Swin backbone: bb.patch_embed.proj.weight and decoder.conv_out1.0.weight are not both there",
            esi_weight_file_path(file));
    if (s.norms == ESI_NORMS_FOLDED) s.norms = ESI_NORMS_STATISTICS; /* most convolutions have no bias to hold a folded norm */
    st = esi_swin_open(&s, &m->backbone, "bb.");
    for (int i = 0; i < ESI_SWIN_STAGES; i++) channels += 2 * m->backbone.stages[i].channels;
    if (st == ESPALIER_OK) st = open_block(&s, &m->squeeze, "squeeze_module.0.", channels);
    if (st == ESPALIER_OK) st = open_decoder(&s, m);
    if (st == ESPALIER_OK) esi_weights_report_surplus(ctx, m->network.weights);
    return st;
}

espalier_status esi_birefnet_open(espalier_context *ctx, esi_birefnet **out, esi_weight_file *file)
{
    esi_image_network *network;
    esi_birefnet *m;
    espalier_status st = esi_image_network_new(ctx, &network, sizeof *m, "BiRefNet", file);

    *out = m = (esi_birefnet *)(void *)network;
    if (st == ESPALIER_OK) st = open_network(ctx, m);
    if (st == ESPALIER_OK) return st;
    esi_birefnet_free(ctx, m);
    *out = NULL;
    return st;
}

void esi_birefnet_free(espalier_context *ctx, esi_birefnet *m)
{
    if (m == NULL) return;
    const espalier_allocator allocator = m->network.allocator;
    esi_swin_free(ctx, &allocator, &m->backbone);
    free_block(ctx, &allocator, &m->squeeze);
    for (int i = 0; i < ESI_BIREFNET_LEVELS; i++) free_block(ctx, &allocator, &m->decode[i]);
    for (int i = 0; i <= ESI_BIREFNET_LEVELS; i++) {
        esi_conv2d_free(ctx, &allocator, &m->patch[i].conv1);
        esi_conv2d_free(ctx, &allocator, &m->patch[i].conv_out);
    }
    for (int i = 0; i < ESI_BIREFNET_LEVELS - 1; i++) {
        esi_conv2d_free(ctx, &allocator, &m->gate[i]);
        esi_conv2d_free(ctx, &allocator, &m->attend[i]);
        esi_conv2d_free(ctx, &allocator, &m->lateral[i]);
    }
    esi_conv2d_free(ctx, &allocator, &m->head);
    esi_image_network_free(ctx, &m->network, sizeof *m);
}

esi_weights *esi_birefnet_weights(esi_birefnet *m)
{
    return m->network.weights;
}

int64_t esi_birefnet_multiple(const esi_birefnet *m)
{
    return m->backbone.patch.geometry.stride << (ESI_SWIN_STAGES - 1);
}
