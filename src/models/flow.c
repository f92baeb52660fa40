/* SPDX-License-Identifier: MIT
 *
 * flow.c: opens a flow transformer (SparseStructureFlowModel, SLatFlowModel): hyper-parameters from the json or from the shapes, then every
 * tensor by name. (TRELLIS.2 models/sparse_structure_flow.py, structured_latent_flow.py.) Only the released variant exists: rotary
 * positions, shared modulation, RMS norm of queries and keys.
 */
#include "models/flow.h"

#include "base/math64.h"

#include <stdio.h>

#define MAX_EXTENT             (1 << 20) /* of channels and widths: far above anything real, far below overflow */
#define MAX_BLOCKS             1024
#define RELEASE_RESOLUTION     16 /* of the dense model; GGUF directories do not say */
#define RELEASE_DENSE_CHANNELS 8

/* ------------------------------------------------------------ config from json */

typedef struct config_reader {
    espalier_context *ctx;
    const char *path; /* for messages */
    const esi_json *args;
    espalier_status status; /* first failure */
} config_reader;

static void read_extent(config_reader *r, int *out, const char *key)
{
    int64_t value = 0;

    if (r->status != ESPALIER_OK) return;
    if (!esi_json_int(esi_json_get(r->args, key), &value) || value < 1 || value > MAX_EXTENT) {
        r->status = esi_fail(r->ctx, ESPALIER_ERR_MODEL, "%s: config: %s is missing or not an integer in 1..%d", r->path, key, MAX_EXTENT);
        return;
    }
    *out = (int)value;
}

static double read_number(config_reader *r, const char *key, double fallback)
{
    const esi_json *value = esi_json_get(r->args, key);
    double number = fallback;

    if (r->status != ESPALIER_OK || !value || esi_json_is_null(value)) return fallback;
    if (!esi_json_double(value, &number) || !(number > 0.0) || number > MAX_EXTENT)
        r->status = esi_fail(r->ctx, ESPALIER_ERR_MODEL, "%s: config: %s is not a number in (0, %d]", r->path, key, MAX_EXTENT);
    return number;
}

static void require_true(config_reader *r, const char *key)
{
    bool value = false;

    if (r->status != ESPALIER_OK) return;
    esi_json_bool(esi_json_get(r->args, key), &value);
    if (!value)
        r->status =
            esi_fail(r->ctx, ESPALIER_ERR_MODEL, "%s: config: %s false is not supported; only the TRELLIS.2 variant is", r->path, key);
}

static void require_variant(config_reader *r)
{
    const char *pe_mode = "ape"; /* the reference's default */

    if (r->status != ESPALIER_OK) return;
    esi_json_string(esi_json_get(r->args, "pe_mode"), &pe_mode);
    if (strcmp(pe_mode, "rope") != 0) {
        r->status = esi_fail(r->ctx, ESPALIER_ERR_MODEL, "%s: config: pe_mode %s is not supported, expected rope", r->path, pe_mode);
        return;
    }
    require_true(r, "share_mod");
    require_true(r, "qk_rms_norm");
    require_true(r, "qk_rms_norm_cross");
}

static void read_heads(config_reader *r, esi_flow_config *c)
{
    const esi_json *heads = esi_json_get(r->args, "num_heads");
    double head_channels;

    if (r->status != ESPALIER_OK) return;
    if (heads && !esi_json_is_null(heads)) {
        read_extent(r, &c->heads, "num_heads");
        return;
    }
    head_channels = read_number(r, "num_head_channels", 64.0);
    if (r->status == ESPALIER_OK) c->heads = (int)(c->channels / head_channels);
}

static void read_rope_freq(config_reader *r, esi_flow_config *c)
{
    const esi_json *freq = esi_json_get(r->args, "rope_freq");

    if (r->status != ESPALIER_OK || !freq || esi_json_is_null(freq)) return;
    if (esi_json_size(freq) != 2 || !esi_json_double(esi_json_at(freq, 0), &c->rope_low) ||
        !esi_json_double(esi_json_at(freq, 1), &c->rope_high) || !(c->rope_low > 0.0 && c->rope_low < 1e9) ||
        !(c->rope_high > 0.0 && c->rope_high < 1e9))
        r->status = esi_fail(r->ctx, ESPALIER_ERR_MODEL, "%s: config: rope_freq is not a pair of positive numbers", r->path);
}

static espalier_status config_from_json(espalier_context *ctx, esi_flow_config *c, const esi_json *config, const char *path)
{
    config_reader r = {ctx, path, esi_json_get(config, "args"), ESPALIER_OK};
    const char *name = "";
    double width;

    esi_json_string(esi_json_get(config, "name"), &name);
    if (strcmp(name, "SLatFlowModel") == 0 || strcmp(name, "ElasticSLatFlowModel") == 0)
        c->sparse = true;
    else if (strcmp(name, "SparseStructureFlowModel") == 0)
        c->sparse = false;
    else
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: \"%s\" is not a flow model", path, name);
    if (!esi_json_is_object(r.args)) return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: no args", path);

    require_variant(&r);
    read_extent(&r, &c->resolution, "resolution");
    read_extent(&r, &c->in_channels, "in_channels");
    read_extent(&r, &c->channels, "model_channels");
    read_extent(&r, &c->cond_channels, "cond_channels");
    read_extent(&r, &c->out_channels, "out_channels");
    read_extent(&r, &c->blocks, "num_blocks");
    read_heads(&r, c);
    read_rope_freq(&r, c);
    width = c->channels * read_number(&r, "mlp_ratio", 4.0);
    if (r.status != ESPALIER_OK) return r.status;
    if (!(width >= 1.0 && width <= MAX_EXTENT)) return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: mlp_ratio is absurd", path);
    c->mlp = (int)esi_trunc(width);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ config from shapes */

static espalier_status matrix_extents(espalier_context *ctx, const esi_weight_file *file, const char *name, int *rows, int *cols)
{
    const esi_file_tensor *t = esi_weight_file_find(file, name);

    if (!t) return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: tensor %s is missing", esi_weight_file_path(file), name);
    if (t->rank != 2 || t->shape[0] < 1 || t->shape[1] < 1 || t->shape[0] > MAX_EXTENT || t->shape[1] > MAX_EXTENT)
        return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset, "%s: tensor %s is not a matrix of usual size",
                           esi_weight_file_path(file), name);
    *rows = (int)t->shape[0];
    *cols = (int)t->shape[1];
    return ESPALIER_OK;
}

static int count_blocks(const esi_weight_file *file)
{
    char name[64];
    int n = 0;

    for (; n < MAX_BLOCKS; n++) {
        snprintf(name, sizeof name, "blocks.%d.modulation", n);
        if (!esi_weight_file_find(file, name)) break;
    }
    return n;
}

static espalier_status config_from_shapes(espalier_context *ctx, esi_flow_config *c, const esi_weight_file *file)
{
    espalier_status st;
    int unused;

    st = matrix_extents(ctx, file, "input_layer.weight", &c->channels, &c->in_channels);
    if (st != ESPALIER_OK) return st;
    st = matrix_extents(ctx, file, "out_layer.weight", &c->out_channels, &unused);
    if (st != ESPALIER_OK) return st;
    st = matrix_extents(ctx, file, "blocks.0.cross_attn.to_kv.weight", &unused, &c->cond_channels);
    if (st != ESPALIER_OK) return st;
    st = matrix_extents(ctx, file, "blocks.0.self_attn.q_rms_norm.gamma", &c->heads, &unused);
    if (st != ESPALIER_OK) return st;
    st = matrix_extents(ctx, file, "blocks.0.mlp.mlp.0.weight", &c->mlp, &unused);
    if (st != ESPALIER_OK) return st;
    c->blocks = count_blocks(file);
    c->resolution = RELEASE_RESOLUTION;
    if (file->architecture)
        c->sparse = strcmp(file->architecture, "trellis2-ss-flow") != 0;
    else
        c->sparse = c->in_channels != RELEASE_DENSE_CHANNELS;
    return ESPALIER_OK;
}

static espalier_status read_config(espalier_context *ctx, esi_flow_config *c, const esi_json *config, const esi_weight_file *file)
{
    const char *path = esi_weight_file_path(file);
    esi_json *embedded = NULL;
    espalier_status st;

    c->rope_low = 1.0;
    c->rope_high = 10000.0;
    if (!config && file->config_json) {
        st = esi_json_parse(ctx, &embedded, file->config_json, strlen(file->config_json), path, ESPALIER_ERR_MODEL);
        if (st != ESPALIER_OK) return st;
        config = embedded;
    }
    st = config ? config_from_json(ctx, c, config, path) : config_from_shapes(ctx, c, file);
    esi_json_free(embedded);
    if (st != ESPALIER_OK) return st;

    if (c->blocks > MAX_BLOCKS)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %d blocks; at most %d are possible", path, c->blocks, MAX_BLOCKS);
    /* Rotary pairs for three axes need at least six channels a head. */
    if (c->heads < 1 || c->channels % c->heads != 0 || (c->channels / c->heads) % 2 != 0 || c->channels / c->heads < 6)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %d channels cannot be split into %d heads", path, c->channels, c->heads);
    if (!c->sparse && c->resolution > 256)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: resolution %d of a dense model; at most 256 is possible", path,
                        c->resolution);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ tensors */

/* Linear layers `prefix``name`.{weight,bias} of [out, in]. */
typedef struct linear_wish {
    flow_linear *layer;
    int64_t out, in;
    const char *name;
} linear_wish;

static espalier_status get_linears(espalier_context *ctx, esi_weights *w, const char *prefix, const linear_wish *wishes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const linear_wish *l = &wishes[i];
        espalier_status st = esi_weights_get(ctx, w, &l->layer->weight, l->out, l->in, "%s%s.weight", prefix, l->name);
        if (st != ESPALIER_OK) return st;
        st = esi_weights_get(ctx, w, &l->layer->bias, 1, l->out, "%s%s.bias", prefix, l->name);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

/* Rows [first * C, (first + count) * C) of a layer whose output is several groups of C channels. */
static flow_linear linear_part(flow_linear l, int64_t C, int64_t first, int64_t count)
{
    flow_linear part;

    part.weight = esi_rows(l.weight, first * C, count * C);
    part.bias = esi_reshape(esi_rows(esi_reshape(l.bias, l.bias.cols / C, C), first, count), 1, count * C);
    return part;
}

static espalier_status get_norms(espalier_context *ctx, esi_weights *w, const char *prefix, flow_block *b, int64_t C)
{
    const struct norm_wish {
        esi_tensor *tensor;
        int64_t cols;
        const char *name;
    } wishes[] = {
        {&b->modulation, 6 * C, "modulation"},
        {&b->norm2_weight, C, "norm2.weight"},
        {&b->norm2_bias, C, "norm2.bias"},
        {&b->self_q_gamma, C, "self_attn.q_rms_norm.gamma"},
        {&b->self_k_gamma, C, "self_attn.k_rms_norm.gamma"},
        {&b->cross_q_gamma, C, "cross_attn.q_rms_norm.gamma"},
        {&b->cross_k_gamma, C, "cross_attn.k_rms_norm.gamma"},
    };

    for (size_t i = 0; i < ESI_COUNT(wishes); i++) {
        espalier_status st = esi_weights_get(ctx, w, wishes[i].tensor, 1, wishes[i].cols, "%s%s", prefix, wishes[i].name);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

static espalier_status get_block(espalier_context *ctx, esi_flow *m, int i)
{
    const int64_t C = m->config.channels, X = m->config.cond_channels, M = m->config.mlp;
    flow_block *b = &m->blocks[i];
    flow_linear qkv;
    const linear_wish wishes[] = {
        {&qkv, 3 * C, C, "self_attn.to_qkv"},       {&b->self_out, C, C, "self_attn.to_out"},
        {&b->cross_q, C, C, "cross_attn.to_q"},     {&b->cross_kv, 2 * C, X, "cross_attn.to_kv"},
        {&b->cross_out, C, C, "cross_attn.to_out"}, {&b->mlp_in, M, C, "mlp.mlp.0"},
        {&b->mlp_out, C, M, "mlp.mlp.2"},
    };
    char prefix[32];
    espalier_status st;

    snprintf(prefix, sizeof prefix, "blocks.%d.", i);
    st = get_linears(ctx, m->weights, prefix, wishes, ESI_COUNT(wishes));
    if (st != ESPALIER_OK) return st;
    b->self_q = linear_part(qkv, C, 0, 1);
    b->self_kv = linear_part(qkv, C, 1, 2);
    return get_norms(ctx, m->weights, prefix, b, C);
}

static espalier_status get_tensors(espalier_context *ctx, esi_flow *m)
{
    const esi_flow_config *c = &m->config;
    const int64_t C = c->channels;
    const linear_wish wishes[] = {
        {&m->time_in, C, FLOW_TIMESTEP_WIDTH, "t_embedder.mlp.0"},
        {&m->time_out, C, C, "t_embedder.mlp.2"},
        {&m->modulation, 6 * C, C, "adaLN_modulation.1"},
        {&m->input, C, c->in_channels, "input_layer"},
        {&m->output, c->out_channels, C, "out_layer"},
    };
    espalier_status st = get_linears(ctx, m->weights, "", wishes, ESI_COUNT(wishes));

    if (st != ESPALIER_OK) return st;
    for (int i = 0; i < c->blocks; i++) {
        st = get_block(ctx, m, i);
        if (st != ESPALIER_OK) return st;
    }
    esi_weights_ignore(m->weights, "rope_phases"); /* derived; written by some converters */
    esi_weights_report_surplus(ctx, m->weights);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ life */

espalier_status esi_flow_open(espalier_context *ctx, esi_flow **out, esi_weight_file *file, const esi_json *config)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_flow *m;
    espalier_status st;

    *out = NULL;
    m = esi_raw_alloc(allocator, sizeof *m);
    if (!m) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "flow model: out of memory");
    }
    memset(m, 0, sizeof *m);
    m->allocator = *allocator;
    st = esi_weights_new(ctx, &m->weights, file);
    if (st != ESPALIER_OK) goto done;
    st = read_config(ctx, &m->config, config, esi_weights_file(m->weights));
    if (st != ESPALIER_OK) goto done;
    m->blocks = esi_raw_alloc(allocator, (size_t)m->config.blocks * sizeof *m->blocks);
    if (!m->blocks) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", esi_weight_file_path(esi_weights_file(m->weights)));
        goto done;
    }
    memset(m->blocks, 0, (size_t)m->config.blocks * sizeof *m->blocks);
    st = get_tensors(ctx, m);
done:
    if (st != ESPALIER_OK)
        esi_flow_free(ctx, m);
    else
        *out = m;
    return st;
}

void esi_flow_free(espalier_context *ctx, esi_flow *m)
{
    espalier_allocator allocator;

    if (!m) return;
    allocator = m->allocator;
    if (m->blocks) esi_raw_free(&allocator, m->blocks, (size_t)m->config.blocks * sizeof *m->blocks);
    esi_weights_free(ctx, m->weights);
    esi_raw_free(&allocator, m, sizeof *m);
}

const esi_flow_config *esi_flow_get_config(const esi_flow *m)
{
    return &m->config;
}

esi_weights *esi_flow_weights(esi_flow *m)
{
    return m->weights;
}
