/* SPDX-License-Identifier: MIT
 *
 * model.c: opening a model directory: find the files, map them, check every header and shape, read the settings.
 */
#include "pipeline/model.h"

#include "base/context.h"
#include "pipeline/stages.h"

#define MAX_STRUCTURE_SIDE 1024     /* cells per axis of the occupancy grid */

/* ------------------------------------------------------------- names */

static const char *const pipeline_names[] = {"default", "512", "1024", "1024_cascade", "1536_cascade"};

const char *espalier_pipeline_name(espalier_pipeline_type type)
{
    return (size_t)type < ESI_COUNT(pipeline_names) ? pipeline_names[type] : "?";
}

espalier_status espalier_pipeline_parse(espalier_pipeline_type *out, const char *name)
{
    for (size_t i = 0; out && name && i < ESI_COUNT(pipeline_names); i++)
        if (strcmp(name, pipeline_names[i]) == 0) {
            *out = (espalier_pipeline_type)i;
            return ESPALIER_OK;
        }
    return ESPALIER_ERR_ARG;
}

espalier_model_options espalier_model_options_default(void)
{
    return (espalier_model_options){.struct_size = sizeof(espalier_model_options)};
}

/* ------------------------------------------------------------- opening */

espalier_status esi_copy_error(espalier_context *to, const espalier_context *from, espalier_status status)
{
    const char *text = espalier_error_message(from);
    return esi_fail_at(to, status, espalier_error_offset(from), "%s", text[0] ? text : espalier_status_name(status));
}

/* The json beside a weight file, or the one a GGUF file carries inside; *json NULL when there is neither. */
static espalier_status load_config(espalier_context *ctx, esi_json **json, const esi_role_files *role, const esi_weight_file *file)
{
    const char *path = role->config ? role->config : role->weights;
    espalier_status st = ESPALIER_OK;
    *json = NULL;
    if (role->config)
        st = esi_json_load(ctx, json, path, ESPALIER_ERR_MODEL);
    else if (file->config_json)
        st = esi_json_parse(ctx, json, file->config_json, strlen(file->config_json), path, ESPALIER_ERR_MODEL);
    if (st == ESPALIER_OK && *json && !esi_json_is_object(*json))
        st = esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: the config is not a JSON object", path);
    return st;
}

static espalier_status open_network(espalier_context *ctx, espalier_model *m, espalier_role id, esi_weight_file *file,
                                    const esi_json *config)
{
    switch (id) {
    case ESPALIER_ROLE_IMAGE_ENCODER: return esi_dinov3_open(ctx, &m->encoder, file, config);
    case ESPALIER_ROLE_SS_FLOW: return esi_flow_open(ctx, &m->ss_flow, file, config);
    case ESPALIER_ROLE_SS_DECODER: return esi_ss_decoder_open(ctx, &m->ss_decoder, file, config);
    case ESPALIER_ROLE_SHAPE_FLOW_512: return esi_flow_open(ctx, &m->shape_flow[0], file, config);
    case ESPALIER_ROLE_SHAPE_FLOW_1024: return esi_flow_open(ctx, &m->shape_flow[1], file, config);
    case ESPALIER_ROLE_SHAPE_DECODER: return esi_sparse_decoder_open(ctx, &m->shape_decoder, file, config);
    case ESPALIER_ROLE_TEX_FLOW_512: return esi_flow_open(ctx, &m->texture_flow[0], file, config);
    case ESPALIER_ROLE_TEX_FLOW_1024: return esi_flow_open(ctx, &m->texture_flow[1], file, config);
    case ESPALIER_ROLE_TEX_DECODER: return esi_sparse_decoder_open(ctx, &m->texture_decoder, file, config);
    case ESPALIER_ROLE_COUNT: break;
    }
    esi_weight_file_free(file);
    return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "no such role");
}

static espalier_status open_role(espalier_context *ctx, espalier_model *m, espalier_role id)
{
    const esi_role_files *role = &m->files.role[id];
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    espalier_status st;

    if (!role->weights) return ESPALIER_OK;
    st = esi_weight_file_open(ctx, &file, role->weights);
    if (st != ESPALIER_OK) return st;
    st = load_config(ctx, &config, role, file);
    if (st == ESPALIER_OK)
        st = open_network(ctx, m, id, file, config);       /* takes the file over, even when it fails */
    else
        esi_weight_file_free(file);
    esi_json_free(config);
    return st;
}

/* Networks that exist must fit together and to the pipeline's sizes; what each alone cannot know. */
static espalier_status check_flows(espalier_context *ctx, const espalier_model *m)
{
    const esi_flow *flows[] = {m->ss_flow, m->shape_flow[0], m->shape_flow[1], m->texture_flow[0], m->texture_flow[1]};
    const espalier_role roles[] = {ESPALIER_ROLE_SS_FLOW, ESPALIER_ROLE_SHAPE_FLOW_512, ESPALIER_ROLE_SHAPE_FLOW_1024,
                                   ESPALIER_ROLE_TEX_FLOW_512, ESPALIER_ROLE_TEX_FLOW_1024};
    for (size_t i = 0; i < ESI_COUNT(flows); i++) {
        if (!flows[i]) continue;
        const esi_flow_config *c = esi_flow_get_config(flows[i]);
        const char *path = m->files.role[roles[i]].weights;
        bool texture = roles[i] == ESPALIER_ROLE_TEX_FLOW_512 || roles[i] == ESPALIER_ROLE_TEX_FLOW_1024;
        int out = i == 0 ? ESI_STRUCTURE_CHANNELS : ESI_LATENT_CHANNELS, in = texture ? 2 * out : out;
        if (c->in_channels != in || c->out_channels != out)
            return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %d channels in and %d out, expected %d and %d as %s", path, c->in_channels,
                            c->out_channels, in, out, espalier_role_name(roles[i]));
        if (m->encoder && c->cond_channels != esi_dinov3_get_config(m->encoder)->hidden)
            return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: condition of %d channels, but the image encoder gives %d", path, c->cond_channels,
                            esi_dinov3_get_config(m->encoder)->hidden);
    }
    return ESPALIER_OK;
}

static espalier_status check_structure(espalier_context *ctx, const espalier_model *m)
{
    if (m->encoder && m->settings.image_size % esi_dinov3_get_config(m->encoder)->patch != 0)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: patches of %d pixels do not fill the picture of %d",
                        m->files.role[ESPALIER_ROLE_IMAGE_ENCODER].weights, esi_dinov3_get_config(m->encoder)->patch,
                        (int)m->settings.image_size);
    if (!m->ss_decoder) return ESPALIER_OK;
    const char *path = m->files.role[ESPALIER_ROLE_SS_DECODER].weights;
    if (esi_ss_decoder_channels(m->ss_decoder) != ESI_STRUCTURE_CHANNELS)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: a latent of %d channels, expected %d", path, esi_ss_decoder_channels(m->ss_decoder),
                        ESI_STRUCTURE_CHANNELS);
    if (!m->ss_flow) return ESPALIER_OK;
    int64_t side = esi_structure_latent_side(m) * esi_ss_decoder_upscale(m->ss_decoder);
    if (side > MAX_STRUCTURE_SIDE || side % m->settings.token_grid != 0)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: gives %lld cells per axis, which do not reduce to a token grid of %d", path,
                        (long long)side, (int)m->settings.token_grid);
    return ESPALIER_OK;
}

static espalier_status check_decoders(espalier_context *ctx, const espalier_model *m)
{
    const esi_sparse_decoder *decoders[] = {m->shape_decoder, m->texture_decoder};
    for (size_t i = 0; i < ESI_COUNT(decoders); i++) {
        if (!decoders[i]) continue;
        const esi_sparse_decoder_config *c = esi_sparse_decoder_get_config(decoders[i]);
        const char *path = m->files.role[i == 0 ? ESPALIER_ROLE_SHAPE_DECODER : ESPALIER_ROLE_TEX_DECODER].weights;
        int out = i == 0 ? 7 : 6, ratio = m->settings.resolution / m->settings.token_grid;
        if (c->latent_channels != ESI_LATENT_CHANNELS || c->out_channels != out || c->pred_subdiv != (i == 0))
            return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %d latent and %d output channels%s; this is no %s decoder", path,
                            c->latent_channels, c->out_channels, c->pred_subdiv ? " with subdivision" : "", i == 0 ? "shape" : "texture");
        if (ratio != 1 << (c->levels - 1))
            return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %d subdivision levels, but the pipeline goes from %d to %d cells", path,
                            c->levels - 1, (int)m->settings.token_grid, (int)m->settings.resolution);
    }
    return ESPALIER_OK;
}

static espalier_status check_agreement(espalier_context *ctx, const espalier_model *m)
{
    espalier_status st = check_flows(ctx, m);
    if (st == ESPALIER_OK) st = check_structure(ctx, m);
    return st == ESPALIER_OK ? check_decoders(ctx, m) : st;
}

static espalier_status open_all(espalier_context *ctx, espalier_model *m, const char *directory, const char *const *overrides)
{
    espalier_status st = esi_model_files_find(ctx, &m->files, directory, overrides);
    if (st != ESPALIER_OK) return st;
    if (m->files.pipeline) {
        char *path = esi_path_join(ctx, m->files.directory, "pipeline.json");
        if (!path) return ESPALIER_ERR_RESOURCE;
        st = esi_settings_read(ctx, &m->settings, m->files.pipeline, path);
        esi_free(ctx, path);
    } else {
        esi_settings_release(&m->settings);
    }
    for (int role = 0; st == ESPALIER_OK && role < ESPALIER_ROLE_COUNT; role++) st = open_role(ctx, m, (espalier_role)role);
    return st == ESPALIER_OK ? check_agreement(ctx, m) : st;
}

static void destroy(espalier_model *m)
{
    espalier_context *ctx = m->owner;
    esi_dinov3_free(ctx, m->encoder);
    esi_flow_free(ctx, m->ss_flow);
    esi_ss_decoder_free(ctx, m->ss_decoder);
    for (int i = 0; i < 2; i++) {
        esi_flow_free(ctx, m->shape_flow[i]);
        esi_flow_free(ctx, m->texture_flow[i]);
    }
    esi_sparse_decoder_free(ctx, m->shape_decoder);
    esi_sparse_decoder_free(ctx, m->texture_decoder);
    esi_model_files_free(ctx, &m->files);
    esi_free(ctx, m);
    espalier_context_free(ctx);
}

espalier_status espalier_model_open(espalier_context *ctx, espalier_model **out, const char *directory,
                                    const espalier_model_options *options)
{
    esi_fp_state fp;
    espalier_context *owner = NULL;
    espalier_model *m = NULL;
    espalier_model_options known = espalier_model_options_default();       /* a shorter struct of an older header keeps the rest */
    espalier_status st;

    if (out) *out = NULL;
    if (!ctx || !out || !directory) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    if (options && options->struct_size < sizeof options->struct_size) {
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "model options without struct_size; start from espalier_model_options_default()");
        goto done;
    }
    if (options) memcpy(&known, options, ESI_MIN((size_t)options->struct_size, sizeof known));
    if (!directory[0]) {
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "no model directory given");
        goto done;
    }
    st = espalier_context_create(&owner, ctx->runtime);
    if (st != ESPALIER_OK) {
        st = esi_fail(ctx, st, "out of memory for the model");
        goto done;
    }
    m = esi_calloc(owner, 1, sizeof *m, "model");
    if (!m) {
        st = esi_copy_error(ctx, owner, ESPALIER_ERR_RESOURCE);
        espalier_context_free(owner);
        goto done;
    }
    m->owner = owner;
    atomic_init(&m->references, 1);
    st = open_all(owner, m, directory, known.overrides);
    if (st != ESPALIER_OK) {
        st = esi_copy_error(ctx, owner, st);
        destroy(m);
    } else {
        *out = m;
    }
done:
    return esi_leave(ctx, &fp, st);
}

espalier_model *espalier_model_retain(espalier_model *model)
{
    if (model) atomic_fetch_add(&model->references, 1);
    return model;
}

void espalier_model_free(espalier_model *model)
{
    if (model && atomic_fetch_sub(&model->references, 1) == 1) destroy(model);
}

/* ------------------------------------------------------------- questions */

esi_weights *esi_model_weights(const espalier_model *m, espalier_role role)
{
    switch (role) {
    case ESPALIER_ROLE_IMAGE_ENCODER: return m->encoder ? esi_dinov3_weights(m->encoder) : NULL;
    case ESPALIER_ROLE_SS_FLOW: return m->ss_flow ? esi_flow_weights(m->ss_flow) : NULL;
    case ESPALIER_ROLE_SS_DECODER: return m->ss_decoder ? esi_ss_decoder_weights(m->ss_decoder) : NULL;
    case ESPALIER_ROLE_SHAPE_FLOW_512: return m->shape_flow[0] ? esi_flow_weights(m->shape_flow[0]) : NULL;
    case ESPALIER_ROLE_SHAPE_FLOW_1024: return m->shape_flow[1] ? esi_flow_weights(m->shape_flow[1]) : NULL;
    case ESPALIER_ROLE_SHAPE_DECODER: return m->shape_decoder ? esi_sparse_decoder_weights(m->shape_decoder) : NULL;
    case ESPALIER_ROLE_TEX_FLOW_512: return m->texture_flow[0] ? esi_flow_weights(m->texture_flow[0]) : NULL;
    case ESPALIER_ROLE_TEX_FLOW_1024: return m->texture_flow[1] ? esi_flow_weights(m->texture_flow[1]) : NULL;
    case ESPALIER_ROLE_TEX_DECODER: return m->texture_decoder ? esi_sparse_decoder_weights(m->texture_decoder) : NULL;
    case ESPALIER_ROLE_COUNT: break;
    }
    return NULL;
}

const esi_flow *esi_model_flow(const espalier_model *model, espalier_role role)
{
    switch (role) {
    case ESPALIER_ROLE_SS_FLOW: return model->ss_flow;
    case ESPALIER_ROLE_SHAPE_FLOW_512: return model->shape_flow[0];
    case ESPALIER_ROLE_SHAPE_FLOW_1024: return model->shape_flow[1];
    case ESPALIER_ROLE_TEX_FLOW_512: return model->texture_flow[0];
    case ESPALIER_ROLE_TEX_FLOW_1024: return model->texture_flow[1];
    default: return NULL;
    }
}

/* Does this pipeline use the role? */
static bool role_needed(espalier_pipeline_type type, espalier_role role, bool with_texture)
{
    bool cascade = type == ESPALIER_PIPELINE_1024_CASCADE || type == ESPALIER_PIPELINE_1536_CASCADE;
    switch (role) {
    case ESPALIER_ROLE_SHAPE_FLOW_512: return type == ESPALIER_PIPELINE_512 || cascade;
    case ESPALIER_ROLE_SHAPE_FLOW_1024: return type != ESPALIER_PIPELINE_512;
    case ESPALIER_ROLE_TEX_FLOW_512: return with_texture && type == ESPALIER_PIPELINE_512;
    case ESPALIER_ROLE_TEX_FLOW_1024: return with_texture && type != ESPALIER_PIPELINE_512;
    case ESPALIER_ROLE_TEX_DECODER: return with_texture;
    default: return true;
    }
}

espalier_status espalier_model_require(espalier_context *ctx, const espalier_model *model, espalier_pipeline_type type, int with_texture)
{
    if (!ctx || !model) return esi_refuse_null(ctx, __func__);

    esi_text missing = {0};
    espalier_status st = ESPALIER_OK;
    espalier_pipeline_type used = type == ESPALIER_PIPELINE_DEFAULT ? model->settings.default_pipeline : type;

    esi_clear_error(ctx);
    for (int i = 0; i < ESPALIER_ROLE_COUNT; i++) {
        espalier_role role = (espalier_role)i;
        if (!role_needed(used, role, with_texture != 0) || esi_model_weights(model, role)) continue;
        const char *wanted = model->files.role[i].wanted;
        esi_text_append(ctx, &missing, "%s %s (%s)", missing.len ? "," : "", wanted ? wanted : "a file", espalier_role_name(role));
    }
    if (missing.failed)
        st = ESPALIER_ERR_RESOURCE;
    else if (missing.len)
        st = esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: pipeline %s needs%s; add it, or name it with --weights ROLE=PATH",
                      model->files.directory, espalier_pipeline_name(used), missing.data);
    esi_text_free(ctx, &missing);
    return st;
}

const char *espalier_model_directory(const espalier_model *model)
{
    return model ? model->files.directory : NULL;
}

const char *espalier_model_role_path(const espalier_model *model, espalier_role role)
{
    return model && (int)role >= 0 && role < ESPALIER_ROLE_COUNT ? model->files.role[role].weights : NULL;
}

uint64_t espalier_model_role_parameters(const espalier_model *model, espalier_role role)
{
    const esi_weights *w = model ? esi_model_weights(model, role) : NULL;
    return w ? esi_weights_parameters(w) : 0;
}

espalier_pipeline_type espalier_model_default_pipeline(const espalier_model *model)
{
    return model ? model->settings.default_pipeline : ESPALIER_PIPELINE_1024_CASCADE;
}

int espalier_model_is_complete(espalier_context *ctx, const char *directory)
{
    espalier_model *model = NULL;
    if (!ctx || !directory || !esi_path_is_dir(directory)) return 0;
    int complete = espalier_model_open(ctx, &model, directory, NULL) == ESPALIER_OK &&
                   espalier_model_require(ctx, model, ESPALIER_PIPELINE_DEFAULT, 1) == ESPALIER_OK;
    espalier_model_free(model);
    esi_clear_error(ctx);
    return complete;
}
