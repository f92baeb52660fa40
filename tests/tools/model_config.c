/* SPDX-License-Identifier: MIT
 *
 * model_config.c: the json files of a checkpoint, in the words of the release. Sizes that
 * the released pipeline takes for granted go into args.espalier when a preset has others.
 */
#include "model_plan.h"

#include "pipeline/settings.h"

bool role_is_flow(espalier_role role)
{
    return role == ESPALIER_ROLE_SS_FLOW || role == ESPALIER_ROLE_SHAPE_FLOW_512 || role == ESPALIER_ROLE_SHAPE_FLOW_1024 ||
           role == ESPALIER_ROLE_TEX_FLOW_512 || role == ESPALIER_ROLE_TEX_FLOW_1024;
}

bool preset_has_role(const model_preset *preset, espalier_role role)
{
    return role == ESPALIER_ROLE_IMAGE_ENCODER || preset->stem[role];
}

const char *encoder_directory(const model_preset *preset)
{
    return esi_path_name(preset->encoder_name);
}

/* ------------------------------------------------------------ networks */

static void append_encoder(espalier_context *ctx, esi_text *t, const model_preset *m)
{
    esi_text_append(ctx, t,
                    "{\n  \"architectures\": [\"DINOv3ViTModel\"],\n  \"model_type\": \"dinov3_vit\",\n  \"hidden_size\": %d,\n"
                    "  \"intermediate_size\": %d,\n  \"num_hidden_layers\": %d,\n  \"num_attention_heads\": %d,\n",
                    m->encoder.hidden, m->encoder.mlp, m->encoder.layers, m->encoder.heads);
    esi_text_append(ctx, t,
                    "  \"patch_size\": 16,\n  \"num_register_tokens\": 4,\n  \"num_channels\": 3,\n  \"image_size\": 224,\n"
                    "  \"layer_norm_eps\": 1e-05,\n  \"rope_theta\": 100.0,\n  \"hidden_act\": \"gelu\",\n  \"use_gated_mlp\": false,\n"
                    "  \"query_bias\": true,\n  \"key_bias\": false,\n  \"value_bias\": true,\n  \"proj_bias\": true,\n"
                    "  \"mlp_bias\": true,\n  \"layerscale_value\": 1.0,\n  \"attention_dropout\": 0.0,\n  \"drop_path_rate\": 0.0,\n"
                    "  \"dtype\": \"float32\"\n}\n");
}

static void append_flow(espalier_context *ctx, esi_text *t, const model_preset *m, espalier_role role)
{
    bool structure = role == ESPALIER_ROLE_SS_FLOW;
    bool texture = role == ESPALIER_ROLE_TEX_FLOW_512 || role == ESPALIER_ROLE_TEX_FLOW_1024;
    bool large = role == ESPALIER_ROLE_SHAPE_FLOW_1024 || role == ESPALIER_ROLE_TEX_FLOW_1024;
    int out = structure ? 8 : ESI_LATENT_CHANNELS, resolution = structure ? m->structure_side : m->token_grid * (large ? 2 : 1);

    esi_text_append(ctx, t,
                    "{\n  \"name\": \"%s\",\n  \"args\": {\n    \"resolution\": %d,\n    \"in_channels\": %d,\n    \"out_channels\": %d,\n"
                    "    \"model_channels\": %d,\n    \"cond_channels\": %d,\n    \"num_blocks\": %d,\n    \"num_heads\": %d,\n",
                    structure ? "SparseStructureFlowModel" : "SLatFlowModel", resolution, texture ? 2 * out : out, out, m->flow.channels,
                    m->encoder.hidden, structure ? m->structure_blocks : m->latent_blocks, m->flow.heads);
    if (m->flow.rope_freq) esi_text_append(ctx, t, "    \"rope_freq\": %s,\n", m->flow.rope_freq);
    esi_text_append(ctx, t,
                    "    \"mlp_ratio\": %s,\n    \"pe_mode\": \"rope\",\n    \"share_mod\": true,\n    \"initialization\": \"scaled\",\n"
                    "    \"qk_rms_norm\": true,\n    \"qk_rms_norm_cross\": true,\n    \"dtype\": \"bfloat16\"\n  }\n}\n",
                    m->flow.mlp_ratio);
}

static void append_list(espalier_context *ctx, esi_text *t, const char *key, const int *values, int count)
{
    esi_text_append(ctx, t, "    \"%s\": [", key);
    for (int i = 0; i < count; i++) esi_text_append(ctx, t, "%s%d", i ? ", " : "", values[i]);
    esi_text_append(ctx, t, "],\n");
}

static void append_repeated(espalier_context *ctx, esi_text *t, const char *key, const char *json, int count)
{
    esi_text_append(ctx, t, "    \"%s\": [", key);
    for (int i = 0; i < count; i++) esi_text_append(ctx, t, "%s%s", i ? ", " : "", json);
    esi_text_append(ctx, t, "],\n");
}

static void append_ss_decoder(espalier_context *ctx, esi_text *t, const model_preset *m)
{
    esi_text_append(ctx, t,
                    "{\n  \"name\": \"SparseStructureDecoder\",\n  \"args\": {\n    \"out_channels\": 1,\n    \"latent_channels\": 8,\n"
                    "    \"num_res_blocks\": %d,\n    \"num_res_blocks_middle\": %d,\n",
                    m->ss_decoder.res_blocks, m->ss_decoder.middle_blocks);
    append_list(ctx, t, "channels", m->ss_decoder.channels, m->ss_decoder.levels);
    esi_text_append(ctx, t, "    \"use_fp16\": true\n  }\n}\n");
}

static void append_sparse_decoder(espalier_context *ctx, esi_text *t, const model_preset *m, bool texture)
{
    int levels = texture ? m->texture_decoder.levels : m->shape_decoder.levels;

    esi_text_append(ctx, t, "{\n  \"name\": \"%s\",\n  \"args\": {\n", texture ? "SparseUnetVaeDecoder" : "FlexiDualGridVaeDecoder");
    if (texture)
        esi_text_append(ctx, t, "    \"out_channels\": 6,\n    \"pred_subdiv\": false,\n");
    else
        esi_text_append(ctx, t, "    \"resolution\": %d,\n", m->resolution);
    append_list(ctx, t, "model_channels", texture ? m->texture_decoder.channels : m->shape_decoder.channels, levels);
    esi_text_append(ctx, t, "    \"latent_channels\": %d,\n", ESI_LATENT_CHANNELS);
    append_list(ctx, t, "num_blocks", texture ? m->texture_decoder.blocks : m->shape_decoder.blocks, levels);
    append_repeated(ctx, t, "block_type", "\"SparseConvNeXtBlock3d\"", levels);
    append_repeated(ctx, t, "up_block_type", "\"SparseResBlockC2S3d\"", levels - 1);
    append_repeated(ctx, t, "block_args", "{}", levels);
    esi_text_append(ctx, t, "    \"use_fp16\": true\n  }\n}\n");
}

void config_of_role(espalier_context *ctx, esi_text *out, const model_preset *preset, espalier_role role)
{
    if (role == ESPALIER_ROLE_IMAGE_ENCODER)
        append_encoder(ctx, out, preset);
    else if (role_is_flow(role))
        append_flow(ctx, out, preset, role);
    else if (role == ESPALIER_ROLE_SS_DECODER)
        append_ss_decoder(ctx, out, preset);
    else
        append_sparse_decoder(ctx, out, preset, role == ESPALIER_ROLE_TEX_DECODER);
}

/* ------------------------------------------------------------ pipeline.json */

static void append_sampler(espalier_context *ctx, esi_text *t, const char *key, int steps, const char *guidance, const char *interval_end,
                           const char *rescale_t)
{
    esi_text_append(ctx, t,
                    "    \"%s\": {\n      \"name\": \"FlowEulerGuidanceIntervalSampler\",\n      \"args\": {\"sigma_min\": 1e-05},\n"
                    "      \"params\": {\"steps\": %d, %s, \"guidance_interval\": [0.6, %s], \"rescale_t\": %s}\n    },\n",
                    key, steps, guidance, interval_end, rescale_t);
}

static void append_vector(espalier_context *ctx, esi_text *t, const char *key, const float *values)
{
    esi_text_append(ctx, t, "      \"%s\": [", key);
    for (int i = 0; i < ESI_LATENT_CHANNELS; i++) esi_text_append(ctx, t, "%s%.6f", i ? ", " : "", (double)values[i]);
    esi_text_append(ctx, t, "]");
}

static void append_normalization(espalier_context *ctx, esi_text *t, const char *key, const esi_normalization *n)
{
    esi_text_append(ctx, t, "    \"%s\": {\n", key);
    append_vector(ctx, t, "mean", n->mean);
    esi_text_append(ctx, t, ",\n");
    append_vector(ctx, t, "std", n->std);
    esi_text_append(ctx, t, "\n    },\n");
}

void config_of_pipeline(espalier_context *ctx, esi_text *out, const model_preset *m)
{
    esi_settings release;
    esi_settings_release(&release);

    esi_text_append(ctx, out, "{\n  \"name\": \"Trellis2ImageTo3DPipeline\",\n  \"args\": {\n    \"models\": {\n");
    for (int role = ESPALIER_ROLE_IMAGE_ENCODER + 1; role < ESPALIER_ROLE_COUNT; role++)
        if (m->stem[role])
            esi_text_append(ctx, out, "      \"%s\": \"%s\"%s\n", espalier_role_name((espalier_role)role), m->stem[role],
                            role == ESPALIER_ROLE_TEX_DECODER ? "" : ",");
    esi_text_append(ctx, out, "    },\n");
    append_sampler(ctx, out, "sparse_structure_sampler", m->steps, "\"guidance_strength\": 7.5, \"guidance_rescale\": 0.7", "1.0", "5.0");
    append_sampler(ctx, out, "shape_slat_sampler", m->steps, "\"guidance_strength\": 7.5, \"guidance_rescale\": 0.5", "1.0", "3.0");
    append_sampler(ctx, out, "tex_slat_sampler", m->steps, m->texture_guidance, "0.9", "3.0");
    append_normalization(ctx, out, "shape_slat_normalization", &release.shape_norm);
    append_normalization(ctx, out, "tex_slat_normalization", &release.texture_norm);
    if (m->resolution != release.resolution)
        esi_text_append(ctx, out, "    \"espalier\": {\"image_size\": %d, \"ss_grid\": %d, \"resolution\": %d},\n", m->image_size,
                        m->token_grid, m->resolution);
    esi_text_append(ctx, out,
                    "    \"image_cond_model\": {\"name\": \"DinoV3FeatureExtractor\", \"args\": {\"model_name\": \"%s\"}},\n"
                    "    \"rembg_model\": {\"name\": \"BiRefNet\", \"args\": {\"model_name\": \"ZhengPeng7/BiRefNet\"}},\n"
                    "    \"default_pipeline_type\": \"%s\"\n  }\n}\n",
                    m->encoder_name, m->resolution == release.resolution ? "1024_cascade" : "512");
}
