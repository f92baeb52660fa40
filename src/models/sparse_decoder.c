/* SPDX-License-Identifier: MIT
 *
 * sparse_decoder.c: latent voxels to a sixteen times finer set of voxels with a few output channels each: the shape decoder (decides which
 * voxels exist) and the texture decoder (follows those decisions). TRELLIS.2 models/sc_vaes/sparse_unet_vae.py and fdg_vae.py.
 * The whole network runs in fp32 on the stored weights.
 */
#include "models/decoder_config.h"
#include "models/sparse_blocks.h"

#define FINAL_NORM_EPS 1e-5f /* not the 1e-6 of the blocks */
#define SHAPE_CHANNELS 7     /* 3 dual vertex, 3 intersection logits, 1 split weight */

struct esi_sparse_decoder {
    espalier_allocator allocator;
    esi_sparse_decoder_config config;
    esi_weights *weights;
    esi_tensor from_latent_weight, from_latent_bias, output_weight, output_bias;
    esi_convnext_block *convnext; /* all levels', one after the other */
    size_t n_convnext;
    esi_c2s_block up[ESI_MAX_LEVELS]; /* levels - 1 */
};

/* ---------------------------------------------------------- hyper-parameters */

#define MAX_CHANNELS 65536
#define MAX_BLOCKS   1024

static espalier_status config_from_json(espalier_context *ctx, esi_sparse_decoder_config *c, const esi_weight_file *file,
                                        const esi_json *json)
{
    static const char *const names[] = {"FlexiDualGridVaeDecoder", "SparseUnetVaeDecoder", NULL};
    esi_config_source s;
    int which = 0, n_blocks = 0;
    espalier_status st = esi_config_open(ctx, &s, file, json, names, &which);
    if (st != ESPALIER_OK) return st;
    const bool shape = which == 0;

    st = esi_config_int_list(&s, "model_channels", 1, MAX_CHANNELS, ESI_MAX_LEVELS, c->channels, &c->levels);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int_list(&s, "num_blocks", 0, MAX_BLOCKS, ESI_MAX_LEVELS, c->blocks, &n_blocks);
    if (st != ESPALIER_OK) return st;
    if (n_blocks != c->levels) {
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: args.num_blocks has %d numbers, args.model_channels %d",
                        esi_weight_file_path(file), n_blocks, c->levels);
    }
    st = esi_config_all_equal(&s, "block_type", "SparseConvNeXtBlock3d", c->levels);
    if (st != ESPALIER_OK) return st;
    st = esi_config_all_equal(&s, "up_block_type", "SparseResBlockC2S3d", c->levels - 1);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int(&s, "latent_channels", ESI_CONFIG_REQUIRED, 1, MAX_CHANNELS, &c->latent_channels);
    if (st != ESPALIER_OK) return st;
    st = esi_config_int(&s, "out_channels", shape ? SHAPE_CHANNELS : ESI_CONFIG_REQUIRED, 1, MAX_CHANNELS, &c->out_channels);
    if (st != ESPALIER_OK) return st;
    st = esi_config_bool(&s, "pred_subdiv", true, &c->pred_subdiv);
    if (st != ESPALIER_OK) return st;
    st = esi_config_number(&s, "voxel_margin", 0.5, 0.0, 16.0, &c->voxel_margin);
    if (st != ESPALIER_OK) return st;
    return esi_config_int(&s, "resolution", 0, 0, 1 << 17, &c->resolution);
}

/* Without a json: widths from biases, numbers of blocks by counting, decisions where there is a to_subdiv. */
static espalier_status config_from_shapes(espalier_context *ctx, esi_sparse_decoder_config *c, const esi_weight_file *file)
{
    const char *path = esi_weight_file_path(file);
    int64_t width = esi_file_count(file, "from_latent.bias"), latent = esi_file_count(file, "from_latent.weight");
    int64_t out = esi_file_count(file, "output_layer.bias");

    if (width < 1 || width > MAX_CHANNELS || latent % width != 0 || latent / width > MAX_CHANNELS || out < 1 || out > MAX_CHANNELS)
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: not a sparse decoder: from_latent or output_layer is missing or misshapen", path);
    *c = (esi_sparse_decoder_config){.latent_channels = (int)(latent / width), .out_channels = (int)out, .voxel_margin = 0.5f};
    for (int level = 0; level < ESI_MAX_LEVELS; level++) {
        int j = 0;
        while (j < MAX_BLOCKS && esi_file_count(file, "blocks.%d.%d.mlp.0.bias", level, j) > 0) j++;
        c->levels = level + 1;
        c->channels[level] = (int)width;
        c->blocks[level] = j;
        if (esi_file_count(file, "blocks.%d.%d.to_subdiv.bias", level, j) > 0) c->pred_subdiv = true;
        width = esi_file_count(file, "blocks.%d.%d.conv2.bias", level, j);
        if (width == 0) return ESPALIER_OK;
        if (width > MAX_CHANNELS) break;
    }
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: not a sparse decoder: more than %d levels or a level too wide", path, ESI_MAX_LEVELS);
}

/* -------------------------------------------------------------------- opening */

static espalier_status open_blocks(espalier_context *ctx, esi_sparse_decoder *m)
{
    const esi_sparse_decoder_config *c = &m->config;
    esi_convnext_block *next = m->convnext;
    espalier_status st = ESPALIER_OK;
    char *prefix = NULL;

    for (int level = 0; st == ESPALIER_OK && level < c->levels; level++) {
        const int n = c->blocks[level] + (level + 1 < c->levels);
        for (int j = 0; st == ESPALIER_OK && j < n; j++) {
            prefix = esi_format(ctx, "blocks.%d.%d.", level, j);
            if (prefix == NULL) return ESPALIER_ERR_RESOURCE;
            if (j < c->blocks[level])
                st = esi_convnext_open(ctx, m->weights, next++, c->channels[level], prefix);
            else
                st = esi_c2s_open(ctx, m->weights, &m->up[level], c->channels[level], c->channels[level + 1], c->pred_subdiv, prefix);
            esi_free(ctx, prefix);
        }
    }
    return st;
}

static espalier_status open_tensors(espalier_context *ctx, esi_sparse_decoder *m)
{
    const esi_sparse_decoder_config *c = &m->config;
    const int64_t first = c->channels[0], last = c->channels[c->levels - 1];
    espalier_status st = esi_weights_get(ctx, m->weights, &m->from_latent_weight, first, c->latent_channels, "from_latent.weight");
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, m->weights, &m->from_latent_bias, 1, first, "from_latent.bias");
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, m->weights, &m->output_weight, c->out_channels, last, "output_layer.weight");
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, m->weights, &m->output_bias, 1, c->out_channels, "output_layer.bias");
    if (st != ESPALIER_OK) return st;
    st = open_blocks(ctx, m);
    if (st == ESPALIER_OK) esi_weights_report_surplus(ctx, m->weights);
    return st;
}

espalier_status esi_sparse_decoder_open(espalier_context *ctx, esi_sparse_decoder **out, esi_weight_file *file, const esi_json *config)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_sparse_decoder *m = esi_raw_alloc(allocator, sizeof *m);
    espalier_status st;

    *out = NULL;
    if (m == NULL) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "sparse decoder: out of memory");
    }
    memset(m, 0, sizeof *m);
    m->allocator = *allocator;
    st = esi_weights_new(ctx, &m->weights, file);
    if (st != ESPALIER_OK) goto done;
    st = config ? config_from_json(ctx, &m->config, file, config) : config_from_shapes(ctx, &m->config, file);
    if (st != ESPALIER_OK) goto done;
    for (int level = 0; level < m->config.levels; level++) m->n_convnext += (size_t)m->config.blocks[level];
    m->convnext = esi_raw_alloc(allocator, (m->n_convnext + 1) * sizeof *m->convnext);
    if (m->convnext == NULL) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "sparse decoder: out of memory");
        goto done;
    }
    memset(m->convnext, 0, (m->n_convnext + 1) * sizeof *m->convnext);
    st = open_tensors(ctx, m);
done:
    if (st == ESPALIER_OK)
        *out = m;
    else
        esi_sparse_decoder_free(ctx, m);
    return st;
}

void esi_sparse_decoder_free(espalier_context *ctx, esi_sparse_decoder *m)
{
    if (m == NULL) return;
    const espalier_allocator allocator = m->allocator;
    esi_weights_free(ctx, m->weights);
    if (m->convnext) esi_raw_free(&allocator, m->convnext, (m->n_convnext + 1) * sizeof *m->convnext);
    esi_raw_free(&allocator, m, sizeof *m);
}

const esi_sparse_decoder_config *esi_sparse_decoder_get_config(const esi_sparse_decoder *m)
{
    return &m->config;
}

esi_weights *esi_sparse_decoder_weights(esi_sparse_decoder *m)
{
    return m->weights;
}

/* -------------------------------------------------------------------- forward */

static espalier_status no_voxels(espalier_context *ctx, const esi_sparse_decoder *m, int level)
{
    return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: no voxels left at level %d of the decoder",
                    esi_weight_file_path(esi_weights_file(m->weights)), level);
}

/* Level 0 of the lineage: a copy of the latent's coordinates, or the very same rows in a guided run. */
static espalier_status begin_lineage(espalier_context *ctx, const esi_sparse_decoder *m, esi_lineage *lineage, const esi_coords *coords)
{
    esi_lineage_level *first = &lineage->level[0];

    if (m->config.pred_subdiv) {
        esi_lineage_free(ctx, lineage);
        lineage->levels = m->config.levels;
        return esi_coords_copy(ctx, &first->coords, coords->rows, coords->count);
    }
    bool known = lineage->levels >= m->config.levels;
    for (int level = 1; known && level < m->config.levels; level++) known = lineage->level[level].index != NULL;
    if (!known || first->coords.count != coords->count ||
        (coords->count > 0 && memcmp(first->coords.rows, coords->rows, (size_t)coords->count * 4 * sizeof *coords->rows) != 0)) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "%s: the guides do not descend from these latent voxels",
                        esi_weight_file_path(esi_weights_file(m->weights)));
    }
    return ESPALIER_OK;
}

/* Who are the children of level's rows? Guided: known already. */
static espalier_status decide_children(espalier_context *ctx, const esi_sparse_decoder *m, esi_lineage *lineage, int level,
                                       esi_tensor feats)
{
    esi_lineage_level *parents = &lineage->level[level], *children = &lineage->level[level + 1];
    espalier_status st = ESPALIER_OK;

    if (m->config.pred_subdiv) {
        parents->subdivision_logits = esi_alloc(ctx, (size_t)parents->coords.count, 8 * sizeof(float), "subdivision logits");
        if (parents->subdivision_logits == NULL) return ESPALIER_ERR_RESOURCE;
        st = esi_c2s_logits(ctx, &m->up[level], parents->subdivision_logits, feats);
        if (st != ESPALIER_OK) return st;
        st = esi_subdivide(ctx, &children->coords, &children->index, &parents->coords, parents->subdivision_logits);
    }
    if (st == ESPALIER_OK && children->coords.count == 0) st = no_voxels(ctx, m, level + 1);
    return st;
}

/* Final norm without parameters (in place: the rows are not needed afterwards) and output layer. */
static espalier_status output_head(espalier_context *ctx, const esi_sparse_decoder *m, esi_tensor *head, esi_tensor x)
{
    const esi_norm_args norm = {.eps = FINAL_NORM_EPS};
    espalier_status st = esi_layer_norm(ctx, x, x, &norm);
    if (st != ESPALIER_OK) return st;
    st = esi_tensor_new(ctx, head, x.rows, m->config.out_channels, ESI_F32);
    if (st != ESPALIER_OK) return st;
    st = esi_linear(ctx, *head, x, m->output_weight, &(esi_epilogue){.bias = m->output_bias});
    if (st == ESPALIER_OK) esi_tap(ctx, *head, "head%d", m->config.out_channels);
    return st;
}

espalier_status esi_sparse_decoder_forward(espalier_context *ctx, const esi_sparse_decoder *m, esi_tensor *head, esi_lineage *lineage,
                                           esi_tensor latent, const esi_coords *coords, int stop_after)
{
    const esi_sparse_decoder_config *c = &m->config;
    const esi_convnext_block *block = m->convnext;
    const bool coords_only = head == NULL;
    esi_scope scope = esi_scope_begin(ctx);
    esi_sparse_rows rows = {0};
    espalier_status st;

    if (!coords_only) *head = (esi_tensor){0};
    if (latent.rows != coords->count || latent.cols != c->latent_channels || stop_after < 0 || stop_after > c->levels - 1 ||
        (!coords_only && stop_after != c->levels - 1)) {
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "sparse decoder: latent [%lld, %lld] on %lld voxels, stop after %d of %d up blocks",
                      (long long)latent.rows, (long long)latent.cols, (long long)coords->count, stop_after, c->levels - 1);
        goto done;
    }
    st = begin_lineage(ctx, m, lineage, coords);
    if (st != ESPALIER_OK) goto done;
    if (coords->count == 0) {
        st = no_voxels(ctx, m, 0);
        goto done;
    }
    st = esi_sparse_table(ctx, &rows.table, coords);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &rows.feats, latent.rows, c->channels[0], ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_linear(ctx, rows.feats, latent, m->from_latent_weight, &(esi_epilogue){.bias = m->from_latent_bias});
    if (st != ESPALIER_OK) goto done;

    for (int level = 0; level < c->levels; level++) {
        if (coords_only && level == stop_after) goto done;
        if (level > 0) esi_tap(ctx, rows.feats, "level%d.feats", level);
        for (int j = 0; j < c->blocks[level]; j++) {
            st = esi_convnext_forward(ctx, block++, &rows);
            if (st != ESPALIER_OK) goto done;
        }
        if (level == c->levels - 1) break;
        esi_tap(ctx, rows.feats, "level%d.pre_up_feats", level);
        st = decide_children(ctx, m, lineage, level, rows.feats);
        if (st != ESPALIER_OK) goto done;
        if (coords_only && level + 1 == stop_after) goto done;
        st = esi_c2s_forward(ctx, &m->up[level], &rows, &lineage->level[level + 1].coords, lineage->level[level + 1].index);
        if (st != ESPALIER_OK) goto done;
    }
    esi_tensor_free(ctx, &rows.table);
    st = output_head(ctx, m, head, rows.feats);
done:
    if (coords_only && st == ESPALIER_OK) lineage->levels = stop_after + 1;
    if (!coords_only && st == ESPALIER_OK) esi_tensor_keep(ctx, *head);
    if (!coords_only && st != ESPALIER_OK) esi_tensor_free(ctx, head);
    esi_scope_end(ctx, scope);
    return st;
}

/* ----------------------------------------------------------------- shape head */

espalier_status esi_shape_head_decode(espalier_context *ctx, esi_tensor head, float voxel_margin, float *local, uint8_t *intersected,
                                      float *split_weight)
{
    const int64_t chunk = ESI_MIN(head.rows, esi_chunk_rows(ctx, 10 * sizeof(float)));
    const float stretch = 1.0f + 2.0f * voxel_margin;
    esi_tensor vertex = {0}, split = {0}; /* [chunk, 3], [chunk, 1] */
    float *logits = esi_alloc(ctx, (size_t)chunk, 3 * sizeof *logits, "shape head");
    espalier_status st = logits ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK && head.cols != SHAPE_CHANNELS)
        st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "shape head: %lld channels, expected %d", (long long)head.cols, SHAPE_CHANNELS);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &vertex, chunk, 3, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &split, chunk, 1, ESI_F32);
    for (int64_t first = 0; st == ESPALIER_OK && first < head.rows; first += chunk) {
        const int64_t n = ESI_MIN(chunk, head.rows - first);
        esi_tensor part = esi_rows(head, first, n), v = esi_rows(vertex, 0, n), w = esi_rows(split, 0, n);
        float *out = local + 3 * first;
        st = esi_activate(ctx, v, esi_cols(part, 0, 3), ESI_ACT_SIGMOID);
        if (st == ESPALIER_OK) st = esi_activate(ctx, w, esi_cols(part, 6, 1), ESI_ACT_SOFTPLUS);
        if (st == ESPALIER_OK) st = esi_tensor_read(ctx, v, out);
        if (st == ESPALIER_OK) st = esi_tensor_read(ctx, esi_cols(part, 3, 3), logits);
        if (st == ESPALIER_OK) st = esi_tensor_read(ctx, w, split_weight + first);
        for (int64_t i = 0; st == ESPALIER_OK && i < 3 * n; i++) {
            out[i] = stretch * out[i] - voxel_margin;
            intersected[3 * first + i] = logits[i] > 0.0f;
        }
    }
    esi_tensor_free(ctx, &vertex);
    esi_tensor_free(ctx, &split);
    esi_free(ctx, logits);
    return st;
}

/* ----------------------------------------------------------------------- plan */

#define WORD      ((uint64_t)sizeof(float))
#define TABLE_ROW ((uint64_t)ESI_SPARSE_TAPS * sizeof(int32_t))
#define INDEX_ROW UINT64_C(10) /* voxel index while a table is made: 6 to 8 bytes a row on surfaces */

/* What a product of [rows, k] with [columns, k] needs besides its result: weights packed for a group of columns, accumulators of some
 * threads. */
static uint64_t product_bytes(uint64_t rows, uint64_t k, uint64_t columns)
{
    const uint64_t group = ESI_MIN(columns, 384), threads = 8, block = 1024;
    return ESI_MIN(k * group * WORD, UINT64_C(48) << 20) + threads * ESI_MIN(rows, block) * group * WORD;
}

static uint64_t chunked_bytes(uint64_t rows, uint64_t row_bytes, uint64_t budget)
{
    return ESI_MIN(rows * row_bytes, esi_chunk_bytes(budget));
}

/* Peak of the ConvNeXt blocks of a level: two sets of rows, the hidden layer of a chunk. */
static uint64_t convnext_bytes(uint64_t N, uint64_t C, uint64_t budget)
{
    const uint64_t mlp = chunked_bytes(N, 4 * C * WORD, budget) + product_bytes(N, 4 * C, 4 * C);
    return N * (TABLE_ROW + 2 * C * WORD) + ESI_MAX(mlp, product_bytes(N, ESI_SPARSE_TAPS * C, C));
}

/* Peak of the up block from N rows of Ci channels to M rows of Co: one of its four steps. */
static uint64_t up_bytes(uint64_t N, uint64_t Ci, uint64_t M, uint64_t Co, uint64_t budget)
{
    const uint64_t x = N * Ci * WORD, y = M * Co * WORD;
    const uint64_t conv1 =
        N * TABLE_ROW + 2 * x + y + chunked_bytes(N, 3 * TABLE_ROW + Co * WORD, budget) + product_bytes(N, ESI_SPARSE_TAPS * Ci, Co);
    const uint64_t table = x + y + M * (2 * TABLE_ROW + INDEX_ROW);
    const uint64_t conv2 = x + 2 * y + M * TABLE_ROW + product_bytes(M, ESI_SPARSE_TAPS * Co, Co);
    const uint64_t skip = x + y + M * (TABLE_ROW + sizeof(int32_t));
    return ESI_MAX(ESI_MAX(conv1, table), ESI_MAX(conv2, skip));
}

uint64_t esi_sparse_decoder_memory_plan(const esi_sparse_decoder_config *c, const int64_t *rows_per_level, uint64_t budget)
{
    const uint64_t coords_row = 4 * sizeof(int32_t), index_row = sizeof(int32_t), logits_row = 8 * WORD;
    uint64_t kept = (uint64_t)rows_per_level[0] * (uint64_t)c->latent_channels * WORD, peak = 0; /* latent and lineage */

    for (int level = 0; level < c->levels; level++) {
        const uint64_t N = (uint64_t)rows_per_level[level], C = (uint64_t)c->channels[level];
        kept += N * (coords_row + (level > 0 ? index_row : 0));
        peak = ESI_MAX(peak, kept + N * (2 * TABLE_ROW + INDEX_ROW)); /* level 0; the others' tables are made in their up block */
        if (c->blocks[level] > 0) peak = ESI_MAX(peak, kept + convnext_bytes(N, C, budget));
        if (level == c->levels - 1) {
            peak = ESI_MAX(peak, kept + N * (C + (uint64_t)c->out_channels) * WORD);
            break;
        }
        if (c->pred_subdiv) kept += N * logits_row;
        const uint64_t M = (uint64_t)rows_per_level[level + 1];
        peak = ESI_MAX(peak, kept + M * (coords_row + index_row) + up_bytes(N, C, M, (uint64_t)c->channels[level + 1], budget));
    }
    return peak + (UINT64_C(1) << 20); /* handles, names, small vectors */
}
