/* SPDX-License-Identifier: MIT
 *
 * ss_decoder.c: sparse-structure decoder: a small dense latent volume to an occupancy logit per cell of a finer volume (TRELLIS.2
 * models/sparse_structure_vae.py). A volume of side R is R^3 rows, n = (x*R + y)*R + z; convolutions run over the neighbour
 * table of the dense grid, in fp32 on the stored weights.
 */
#include "models/decoder_config.h"
#include "models/matrix_bytes.h"

#define NORM_EPS     1e-5f
#define TAPS         27
#define FINE_CELLS   8 /* cells of the finer volume per cell */
#define GROUPS       32
#define MAX_CHANNELS 16384
#define MAX_BLOCKS   256
#define MAX_SIDE     1024

typedef struct dense_conv {
    esi_tensor weight, bias;
} dense_conv; /* [Co, Ci * 27], [1, Co] */
typedef struct volume_norm {
    esi_tensor weight, bias;
} volume_norm;

typedef struct res_block {
    volume_norm norm1, norm2;
    dense_conv conv1, conv2;
} res_block;

struct esi_ss_decoder {
    espalier_allocator allocator;
    esi_weights *weights;
    int levels, channels[ESI_MAX_LEVELS];
    int res_blocks, middle_blocks; /* per level; in the middle */
    int latent_channels, out_channels;
    bool group_norm; /* of the output layer only: residual blocks always use layer norm */
    dense_conv input, up[ESI_MAX_LEVELS], output;
    volume_norm output_norm;
    res_block *blocks; /* the middle's, then each level's */
    size_t n_blocks;
};

/* ---------------------------------------------------------- hyper-parameters */

static espalier_status config_from_json(espalier_context *ctx, esi_ss_decoder *m, const esi_weight_file *file, const esi_json *json)
{
    static const char *const names[] = {"SparseStructureDecoder", NULL};
    esi_config_source s;
    int which = 0;
    const char *norm = "layer";
    espalier_status st = esi_config_open(ctx, &s, file, json, names, &which);
    if (st != ESPALIER_OK) return st;

    st = esi_config_int_list(&s, "channels", 1, MAX_CHANNELS, ESI_MAX_LEVELS, m->channels, &m->levels);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int(&s, "num_res_blocks", ESI_CONFIG_REQUIRED, 0, MAX_BLOCKS, &m->res_blocks);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int(&s, "num_res_blocks_middle", 2, 0, MAX_BLOCKS, &m->middle_blocks);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int(&s, "latent_channels", ESI_CONFIG_REQUIRED, 1, MAX_CHANNELS, &m->latent_channels);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int(&s, "out_channels", 1, 1, MAX_CHANNELS, &m->out_channels);
    if (st != ESPALIER_OK) return st;
    const esi_json *norm_type = esi_json_get(s.args, "norm_type");
    if (norm_type && (!esi_json_string(norm_type, &norm) || (strcmp(norm, "layer") != 0 && strcmp(norm, "group") != 0)))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: args.norm_type is wrong, expected layer or group",
                        esi_weight_file_path(file));
    m->group_norm = strcmp(norm, "group") == 0;
    return ESPALIER_OK;
}

/* Without a json: widths from biases, numbers of blocks by counting, layer norm. */
static espalier_status config_from_shapes(espalier_context *ctx, esi_ss_decoder *m, const esi_weight_file *file)
{
    const char *path = esi_weight_file_path(file);
    int64_t width = esi_file_count(file, "input_layer.bias"), out = esi_file_count(file, "out_layer.2.bias");
    int64_t input = esi_file_count(file, "input_layer.weight");
    int at = 0;

    if (width < 1 || width > MAX_CHANNELS || input % (width * TAPS) != 0 || input / (width * TAPS) > MAX_CHANNELS || out < 1 ||
        out > MAX_CHANNELS)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: not a structure decoder: input_layer or out_layer is missing or misshapen", path);
    m->latent_channels = (int)(input / (width * TAPS));
    m->out_channels = (int)out;
    while (m->middle_blocks < MAX_BLOCKS && esi_file_count(file, "middle_block.%d.conv1.bias", m->middle_blocks) > 0) m->middle_blocks++;
    while (m->res_blocks < MAX_BLOCKS && esi_file_count(file, "blocks.%d.conv1.bias", m->res_blocks) > 0) m->res_blocks++;
    while (m->levels < ESI_MAX_LEVELS) {
        m->channels[m->levels++] = (int)width;
        at += m->res_blocks;
        width = esi_file_count(file, "blocks.%d.conv.bias", at++) / FINE_CELLS;
        if (width == 0) return ESPALIER_OK;
        if (width > MAX_CHANNELS) break;
    }
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: not a structure decoder: more than %d levels or a level too wide", path, ESI_MAX_LEVELS);
}

/* -------------------------------------------------------------------- opening */

static espalier_status open_conv(espalier_context *ctx, esi_weights *w, dense_conv *conv, int64_t in, int64_t out, const char *prefix,
                                 const char *name)
{
    espalier_status st = esi_weights_get(ctx, w, &conv->bias, 1, out, "%s%s.bias", prefix, name);
    if (st != ESPALIER_OK) return st;
    return esi_weights_get(ctx, w, &conv->weight, out, in * TAPS, "%s%s.weight", prefix, name);
}

static espalier_status open_norm(espalier_context *ctx, esi_weights *w, volume_norm *norm, int64_t channels, const char *prefix,
                                 const char *name)
{
    espalier_status st = esi_weights_get(ctx, w, &norm->weight, 1, channels, "%s%s.weight", prefix, name);
    if (st != ESPALIER_OK) return st;
    return esi_weights_get(ctx, w, &norm->bias, 1, channels, "%s%s.bias", prefix, name);
}

static espalier_status open_res_block(espalier_context *ctx, esi_weights *w, res_block *b, int64_t channels, const char *list, int i)
{
    char *prefix = esi_format(ctx, "%s.%d.", list, i);
    espalier_status st = prefix ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = open_norm(ctx, w, &b->norm1, channels, prefix, "norm1");
    if (st == ESPALIER_OK) st = open_conv(ctx, w, &b->conv1, channels, channels, prefix, "conv1");
    if (st == ESPALIER_OK) st = open_norm(ctx, w, &b->norm2, channels, prefix, "norm2");
    if (st == ESPALIER_OK) st = open_conv(ctx, w, &b->conv2, channels, channels, prefix, "conv2");
    esi_free(ctx, prefix);
    return st;
}

static espalier_status open_tensors(espalier_context *ctx, esi_ss_decoder *m)
{
    esi_weights *w = m->weights;
    res_block *next = m->blocks;
    int at = 0; /* place in the flat list "blocks" */
    espalier_status st = open_conv(ctx, w, &m->input, m->latent_channels, m->channels[0], "", "input_layer");

    for (int i = 0; st == ESPALIER_OK && i < m->middle_blocks; i++) st = open_res_block(ctx, w, next++, m->channels[0], "middle_block", i);
    for (int level = 0; st == ESPALIER_OK && level < m->levels; level++) {
        for (int i = 0; st == ESPALIER_OK && i < m->res_blocks; i++)
            st = open_res_block(ctx, w, next++, m->channels[level], "blocks", at++);
        if (st != ESPALIER_OK || level == m->levels - 1) break;
        char *prefix = esi_format(ctx, "blocks.%d.", at++);
        if (prefix == NULL) return ESPALIER_ERR_RESOURCE;
        st = open_conv(ctx, w, &m->up[level], m->channels[level], (int64_t)FINE_CELLS * m->channels[level + 1], prefix, "conv");
        esi_free(ctx, prefix);
    }
    if (st == ESPALIER_OK) st = open_norm(ctx, w, &m->output_norm, m->channels[m->levels - 1], "", "out_layer.0");
    if (st == ESPALIER_OK) st = open_conv(ctx, w, &m->output, m->channels[m->levels - 1], m->out_channels, "", "out_layer.2");
    if (st == ESPALIER_OK && m->group_norm && m->channels[m->levels - 1] % GROUPS != 0)
        st = esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: norm_type group needs a multiple of %d channels, the last level has %d",
                      esi_weight_file_path(esi_weights_file(w)), GROUPS, m->channels[m->levels - 1]);
    if (st == ESPALIER_OK) esi_weights_report_surplus(ctx, w);
    return st;
}

espalier_status esi_ss_decoder_open(espalier_context *ctx, esi_ss_decoder **out, esi_weight_file *file, const esi_json *config)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_ss_decoder *m = esi_raw_alloc(allocator, sizeof *m);
    espalier_status st;

    *out = NULL;
    if (m == NULL) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "structure decoder: out of memory");
    }
    memset(m, 0, sizeof *m);
    m->allocator = *allocator;
    st = esi_weights_new(ctx, &m->weights, file);
    if (st != ESPALIER_OK) goto done;
    st = config ? config_from_json(ctx, m, file, config) : config_from_shapes(ctx, m, file);
    if (st != ESPALIER_OK) goto done;
    m->n_blocks = (size_t)m->middle_blocks + (size_t)m->levels * (size_t)m->res_blocks;
    m->blocks = esi_raw_alloc(allocator, (m->n_blocks + 1) * sizeof *m->blocks);
    if (m->blocks == NULL) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "structure decoder: out of memory");
        goto done;
    }
    memset(m->blocks, 0, (m->n_blocks + 1) * sizeof *m->blocks);
    st = open_tensors(ctx, m);
done:
    if (st == ESPALIER_OK)
        *out = m;
    else
        esi_ss_decoder_free(ctx, m);
    return st;
}

void esi_ss_decoder_free(espalier_context *ctx, esi_ss_decoder *m)
{
    if (m == NULL) return;
    const espalier_allocator allocator = m->allocator;
    esi_weights_free(ctx, m->weights);
    if (m->blocks) esi_raw_free(&allocator, m->blocks, (m->n_blocks + 1) * sizeof *m->blocks);
    esi_raw_free(&allocator, m, sizeof *m);
}

esi_weights *esi_ss_decoder_weights(esi_ss_decoder *m)
{
    return m->weights;
}

int esi_ss_decoder_channels(const esi_ss_decoder *m)
{
    return m->latent_channels;
}

int esi_ss_decoder_upscale(const esi_ss_decoder *m)
{
    return 1 << (m->levels - 1);
}

uint64_t esi_ss_decoder_memory_plan(const esi_ss_decoder *m, int64_t R)
{
    const uint64_t operations = (uint64_t)16 << 20; /* packed weights and accumulators inside the convolutions */
    uint64_t peak = 0;

    for (int level = 0; level < m->levels; level++, R *= 2) {
        const int64_t cells = R * R * R;
        const uint64_t x = esi_matrix_bytes(cells, m->channels[level]), table = esi_matrix_bytes(cells, TAPS);
        peak = ESI_MAX(peak, table + 3 * x); /* residual block */
        if (level == m->levels - 1) {
            peak = ESI_MAX(peak, 2 * table + x); /* making the table; later the output */
            break;
        }
        const uint64_t fine = esi_matrix_bytes(FINE_CELLS * cells, m->channels[level + 1]), index = esi_matrix_bytes(FINE_CELLS * cells, 1);
        peak = ESI_MAX(peak, table + x + fine);
        peak = ESI_MAX(peak, table + 2 * fine + 2 * index);
        peak = ESI_MAX(peak, FINE_CELLS * 2 * table + 2 * fine + index);
    }
    return peak + operations;
}

/* -------------------------------------------------------------------- forward */

/* A volume on its way: R^3 rows and the neighbour table of that side. */
typedef struct volume {
    int64_t R;
    esi_tensor feats; /* [R^3, C] */
    esi_tensor table; /* [R^3, 27] */
} volume;

static espalier_status make_table(espalier_context *ctx, volume *v)
{
    int32_t *host = NULL;
    esi_tensor_free(ctx, &v->table);
    espalier_status st = esi_dense_neighbor_table(ctx, &host, v->R);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &v->table, v->R * v->R * v->R, TAPS, ESI_I32, host);
    esi_free(ctx, host);
    return st;
}

static espalier_status run_conv(espalier_context *ctx, const dense_conv *conv, esi_tensor y, esi_tensor x, esi_tensor table,
                                esi_tensor residual)
{
    const esi_epilogue epilogue = {.bias = conv->bias, .residual = residual};
    return esi_conv(ctx, y, x, table, conv->weight, ESI_CONV_CHANNEL_MAJOR, &epilogue);
}

static esi_norm_args norm_silu(const volume_norm *norm)
{
    return (esi_norm_args){.eps = NORM_EPS, .weight = norm->weight, .bias = norm->bias, .act = ESI_ACT_SILU};
}

/* x += conv2(silu(norm2(conv1(silu(norm1(x)))))) */
static espalier_status res_block_forward(espalier_context *ctx, const res_block *b, volume *v)
{
    const esi_norm_args norm1 = norm_silu(&b->norm1), norm2 = norm_silu(&b->norm2);
    esi_tensor x = v->feats, t = {0}, h = {0}; /* all [R^3, C] */
    espalier_status st = esi_check_cancel(ctx);
    if (st != ESPALIER_OK) return st;

    st = esi_tensor_new(ctx, &t, x.rows, x.cols, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &h, x.rows, x.cols, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_layer_norm(ctx, t, x, &norm1);
    if (st != ESPALIER_OK) goto done;
    st = run_conv(ctx, &b->conv1, h, t, v->table, (esi_tensor){0});
    if (st != ESPALIER_OK) goto done;
    st = esi_layer_norm(ctx, h, h, &norm2);
    if (st != ESPALIER_OK) goto done;
    st = run_conv(ctx, &b->conv2, x, h, v->table, x);
done:
    esi_tensor_free(ctx, &t);
    esi_tensor_free(ctx, &h);
    return st;
}

/* Which row of [R^3 * 8, C] (cell, then place 4i + 2j + l within it) lands at (2x + i, 2y + j, 2z + l) of the finer volume. */
static espalier_status shuffle_index(espalier_context *ctx, esi_tensor *index, int64_t R)
{
    const int64_t fine = 2 * R;
    int32_t *host = esi_alloc(ctx, (size_t)(fine * fine * fine), sizeof *host, "pixel shuffle");
    if (host == NULL) return ESPALIER_ERR_RESOURCE;
    for (int64_t x = 0; x < fine; x++) {
        for (int64_t y = 0; y < fine; y++) {
            for (int64_t z = 0; z < fine; z++) {
                const int64_t cell = ((x >> 1) * R + (y >> 1)) * R + (z >> 1), place = 4 * (x & 1) + 2 * (y & 1) + (z & 1);
                host[(x * fine + y) * fine + z] = (int32_t)(cell * FINE_CELLS + place);
            }
        }
    }
    espalier_status st = esi_tensor_from(ctx, index, fine * fine * fine, 1, ESI_I32, host);
    esi_free(ctx, host);
    return st;
}

/* Convolution to 8 C' channels, then 3-D pixel shuffle: channel 8c + s of a cell becomes channel c of its fine cell s. */
static espalier_status upsample_forward(espalier_context *ctx, const dense_conv *conv, volume *v)
{
    const int64_t cells = v->feats.rows, out = conv->weight.rows / FINE_CELLS;
    esi_tensor u = {0}, s = {0}, index = {0}, y = {0};
    espalier_status st = esi_tensor_new(ctx, &u, cells, FINE_CELLS * out, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = run_conv(ctx, conv, u, v->feats, v->table, (esi_tensor){0});
    if (st != ESPALIER_OK) goto done;
    esi_tensor_free(ctx, &v->feats);
    st = esi_tensor_new(ctx, &s, cells, FINE_CELLS * out, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_transpose_cols(ctx, s, u, out, FINE_CELLS);
    if (st != ESPALIER_OK) goto done;
    esi_tensor_free(ctx, &u);
    st = shuffle_index(ctx, &index, v->R);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &y, FINE_CELLS * cells, out, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_gather_rows(ctx, y, esi_reshape(s, FINE_CELLS * cells, out), index);
    if (st != ESPALIER_OK) goto done;
    v->feats = y;
    v->R *= 2;
    y = (esi_tensor){0};
    st = make_table(ctx, v);
done:
    esi_tensor_free(ctx, &u);
    esi_tensor_free(ctx, &s);
    esi_tensor_free(ctx, &index);
    esi_tensor_free(ctx, &y);
    return st;
}

static espalier_status output_forward(espalier_context *ctx, const esi_ss_decoder *m, esi_tensor *logits, const volume *v)
{
    const esi_norm_args norm = norm_silu(&m->output_norm);
    esi_tensor x = v->feats;
    espalier_status st = m->group_norm ? esi_group_norm(ctx, x, x, GROUPS, &norm) : esi_layer_norm(ctx, x, x, &norm);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, logits, x.rows, m->out_channels, ESI_F32);
    if (st == ESPALIER_OK) st = run_conv(ctx, &m->output, *logits, x, v->table, (esi_tensor){0});
    return st;
}

espalier_status esi_ss_decoder_forward(espalier_context *ctx, const esi_ss_decoder *m, esi_tensor *logits, esi_tensor latent, int64_t R)
{
    const res_block *block = m->blocks;
    esi_scope scope = esi_scope_begin(ctx);
    volume v = {.R = R};
    int at = 0; /* place in the flat list "blocks" */
    espalier_status st;

    *logits = (esi_tensor){0};
    if (R < 1 || R > MAX_SIDE / esi_ss_decoder_upscale(m) || latent.rows != R * R * R || latent.cols != m->latent_channels) {
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "structure decoder: latent [%lld, %lld], side %lld", (long long)latent.rows,
                      (long long)latent.cols, (long long)R);
        goto done;
    }
    st = make_table(ctx, &v);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &v.feats, latent.rows, m->channels[0], ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = run_conv(ctx, &m->input, v.feats, latent, v.table, (esi_tensor){0});
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, v.feats, "input_layer");
    for (int i = 0; i < m->middle_blocks; i++) {
        st = res_block_forward(ctx, block++, &v);
        if (st != ESPALIER_OK) goto done;
    }
    esi_tap(ctx, v.feats, "middle");
    for (int level = 0; level < m->levels; level++) {
        for (int i = 0; i < m->res_blocks; i++) {
            st = res_block_forward(ctx, block++, &v);
            if (st != ESPALIER_OK) goto done;
            esi_tap(ctx, v.feats, "block%d", at++);
        }
        if (level == m->levels - 1) break;
        st = upsample_forward(ctx, &m->up[level], &v);
        if (st != ESPALIER_OK) goto done;
        esi_tap(ctx, v.feats, "block%d", at++);
    }
    st = output_forward(ctx, m, logits, &v);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, *logits, "logits");
done:
    if (st == ESPALIER_OK)
        esi_tensor_keep(ctx, *logits);
    else
        esi_tensor_free(ctx, logits);
    esi_scope_end(ctx, scope);
    return st;
}
