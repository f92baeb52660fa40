/* SPDX-License-Identifier: MIT
 *
 * sparse_blocks.c: forward passes of the ConvNeXt and the channel-to-spatial block on voxel rows (TRELLIS.2 trellis2/modules/sparse and
 * models/sc_vaes/sparse_unet_vae.py). Only a few row-sized tensors live at a time and everything wider is made in
 * chunks of rows, because the finest scales have millions of rows.
 */
#include "models/sparse_blocks.h"

#define BLOCK_NORM_EPS 1e-6f
#define CHILDREN       8

/* ------------------------------------------------------------------- chunks */

#define CHUNK_BYTES_MAX (UINT64_C(32) << 20)
#define CHUNK_BYTES_MIN (UINT64_C(256) << 10)

uint64_t esi_chunk_bytes(uint64_t budget)
{
    if (budget == 0) return CHUNK_BYTES_MAX;
    return ESI_MIN(CHUNK_BYTES_MAX, ESI_MAX(CHUNK_BYTES_MIN, budget / 32));
}

int64_t esi_chunk_rows(const espalier_context *ctx, uint64_t row_bytes)
{
    uint64_t bytes = esi_chunk_bytes(esi_memory_budget(ctx));
    bytes = ESI_MIN(bytes, ESI_MAX(CHUNK_BYTES_MIN, esi_memory_left(ctx) / 4));
    return (int64_t)ESI_MAX(bytes / ESI_MAX(row_bytes, 1), 1);
}

/* -------------------------------------------------------------- convolution */

espalier_status esi_sparse_table(espalier_context *ctx, esi_tensor *table, const esi_coords *coords)
{
    int32_t *host = NULL;
    espalier_status st = esi_neighbor_table(ctx, &host, coords->rows, coords->count);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, table, coords->count, ESI_SPARSE_TAPS, ESI_I32, host);
    esi_free(ctx, host);
    return st;
}

espalier_status esi_sparse_conv_open(espalier_context *ctx, esi_weights *w, esi_sparse_conv *conv, int64_t in, int64_t out,
                                     const char *name)
{
    espalier_status st = esi_weights_get(ctx, w, &conv->bias, 1, out, "%s.bias", name);
    if (st != ESPALIER_OK) return st;
    return esi_weights_get(ctx, w, &conv->weight, out, ESI_SPARSE_TAPS * in, "%s.weight", name);
}

espalier_status esi_sparse_conv_forward(espalier_context *ctx, const esi_sparse_conv *conv, esi_tensor y, esi_tensor x, esi_tensor table)
{
    return esi_conv(ctx, y, x, table, conv->weight, ESI_CONV_TAP_MAJOR, &(esi_epilogue){.bias = conv->bias});
}

static espalier_status open_prefixed_conv(espalier_context *ctx, esi_weights *w, esi_sparse_conv *conv, int64_t in, int64_t out,
                                          const char *prefix, const char *name)
{
    char *full = esi_format(ctx, "%s%s", prefix, name);
    if (full == NULL) return ESPALIER_ERR_RESOURCE;
    espalier_status st = esi_sparse_conv_open(ctx, w, conv, in, out, full);
    esi_free(ctx, full);
    return st;
}

/* ----------------------------------------------------------------- ConvNeXt */

espalier_status esi_convnext_open(espalier_context *ctx, esi_weights *w, esi_convnext_block *block, int64_t channels, const char *prefix)
{
    espalier_status st = open_prefixed_conv(ctx, w, &block->conv, channels, channels, prefix, "conv");
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, w, &block->norm_weight, 1, channels, "%snorm.weight", prefix);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, w, &block->norm_bias, 1, channels, "%snorm.bias", prefix);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, w, &block->expand_bias, 1, -1, "%smlp.0.bias", prefix);
    if (st != ESPALIER_OK) return st;
    const int64_t hidden = block->expand_bias.cols;
    st = esi_weights_get(ctx, w, &block->expand_weight, hidden, channels, "%smlp.0.weight", prefix);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, w, &block->project_weight, channels, hidden, "%smlp.2.weight", prefix);
    if (st != ESPALIER_OK) return st;
    return esi_weights_get(ctx, w, &block->project_bias, 1, channels, "%smlp.2.bias", prefix);
}

/* x += W2 silu(W1 h), some rows at a time. */
static espalier_status add_mlp(espalier_context *ctx, const esi_convnext_block *block, esi_tensor x, esi_tensor h)
{
    const int64_t hidden = block->expand_weight.rows;
    const int64_t chunk = ESI_MIN(x.rows, esi_chunk_rows(ctx, (uint64_t)hidden * sizeof(float)));
    const esi_epilogue expand = {.bias = block->expand_bias, .act = ESI_ACT_SILU};
    esi_tensor u = {0}; /* [chunk, hidden] */
    espalier_status st = esi_tensor_new(ctx, &u, chunk, hidden, ESI_F32);

    for (int64_t first = 0; st == ESPALIER_OK && first < x.rows; first += chunk) {
        const int64_t n = ESI_MIN(chunk, x.rows - first);
        esi_tensor x_rows = esi_rows(x, first, n), u_rows = esi_rows(u, 0, n);
        st = esi_linear(ctx, u_rows, esi_rows(h, first, n), block->expand_weight, &expand);
        if (st != ESPALIER_OK) break;
        const esi_epilogue project = {.bias = block->project_bias, .residual = x_rows};
        st = esi_linear(ctx, x_rows, u_rows, block->project_weight, &project);
    }
    esi_tensor_free(ctx, &u);
    return st;
}

espalier_status esi_convnext_forward(espalier_context *ctx, const esi_convnext_block *block, esi_sparse_rows *rows)
{
    const esi_norm_args norm = {.eps = BLOCK_NORM_EPS, .weight = block->norm_weight, .bias = block->norm_bias};
    esi_tensor x = rows->feats, h = {0}; /* both [N, C] */
    espalier_status st = esi_check_cancel(ctx);
    if (st != ESPALIER_OK) return st;

    st = esi_tensor_new(ctx, &h, x.rows, x.cols, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_sparse_conv_forward(ctx, &block->conv, h, x, rows->table);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, h, "conv");
    st = esi_layer_norm(ctx, h, h, &norm);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, h, "norm");
    st = add_mlp(ctx, block, x, h);
done:
    esi_tensor_free(ctx, &h);
    return st;
}

/* ------------------------------------------------------ channel to spatial */

espalier_status esi_c2s_open(espalier_context *ctx, esi_weights *w, esi_c2s_block *block, int64_t in, int64_t out, bool pred_subdiv,
                             const char *prefix)
{
    const char *path = esi_weight_file_path(esi_weights_file(w));
    espalier_status st;

    *block = (esi_c2s_block){.in = in, .out = out};
    if (in % CHILDREN != 0 || out % (in / CHILDREN) != 0) {
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: block %sconv1: %lld channels cannot be split among eight children of %lld", path,
                        prefix, (long long)in, (long long)out);
    }
    st = esi_weights_get(ctx, w, &block->norm_weight, 1, in, "%snorm1.weight", prefix);
    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(ctx, w, &block->norm_bias, 1, in, "%snorm1.bias", prefix);
    if (st != ESPALIER_OK) return st;
    st = open_prefixed_conv(ctx, w, &block->conv1, in, CHILDREN * out, prefix, "conv1");
    if (st != ESPALIER_OK) return st;
    st = open_prefixed_conv(ctx, w, &block->conv2, out, out, prefix, "conv2");
    if (st != ESPALIER_OK || !pred_subdiv) return st;
    st = esi_weights_get(ctx, w, &block->subdivide_weight, CHILDREN, in, "%sto_subdiv.weight", prefix);
    if (st != ESPALIER_OK) return st;
    return esi_weights_get(ctx, w, &block->subdivide_bias, 1, CHILDREN, "%sto_subdiv.bias", prefix);
}

espalier_status esi_c2s_logits(espalier_context *ctx, const esi_c2s_block *block, float *logits, esi_tensor feats)
{
    esi_tensor s = {0}; /* [N, 8] */
    espalier_status st = esi_tensor_new(ctx, &s, feats.rows, CHILDREN, ESI_F32);
    if (st != ESPALIER_OK) return st;
    st = esi_linear(ctx, s, feats, block->subdivide_weight, &(esi_epilogue){.bias = block->subdivide_bias});
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, s, logits);
    esi_tensor_free(ctx, &s);
    return st;
}

/* Scratch of expand_children for a chunk of parents, host side. */
typedef struct expand_scratch {
    int32_t *table; /* [parents, 27] rows of the parents */
    int32_t *taps;  /* [parents, 27] the same of those parents that have child k */
    int32_t *rows;  /* [parents] where child k of each goes */
} expand_scratch;

/* Children first..last-1 whose slot is k: gather their parents' taps and note their rows. Returns their number. */
static int64_t pick_slot(const expand_scratch *s, const int32_t *index, int64_t first, int64_t last, int64_t first_parent, int k)
{
    int64_t n = 0;
    for (int64_t i = first; i < last; i++) {
        if ((index[i] & (CHILDREN - 1)) != k) continue;
        const int64_t parent = index[i] / CHILDREN - first_parent;
        memcpy(s->taps + n * ESI_SPARSE_TAPS, s->table + parent * ESI_SPARSE_TAPS, ESI_SPARSE_TAPS * sizeof *s->taps);
        s->rows[n++] = (int32_t)i;
    }
    return n;
}

/* Child k of the chunk: y[rows] = conv(x at taps, rows k * out .. of conv1). */
static espalier_status expand_slot(espalier_context *ctx, const esi_c2s_block *block, esi_tensor y, esi_tensor x, const expand_scratch *s,
                                   int64_t n, int k)
{
    const esi_epilogue epilogue = {.bias = esi_cols(block->conv1.bias, k * block->out, block->out)};
    esi_tensor weight = esi_rows(block->conv1.weight, k * block->out, block->out);
    esi_tensor part = {0}, taps = {0}, rows = {0};
    espalier_status st = esi_tensor_new(ctx, &part, n, block->out, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_from(ctx, &taps, n, ESI_SPARSE_TAPS, ESI_I32, s->taps);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_from(ctx, &rows, n, 1, ESI_I32, s->rows);
    if (st != ESPALIER_OK) goto done;
    st = esi_conv(ctx, part, x, taps, weight, ESI_CONV_TAP_MAJOR, &epilogue);
    if (st != ESPALIER_OK) goto done;
    st = esi_scatter_rows(ctx, y, part, rows);
done:
    esi_tensor_free(ctx, &part);
    esi_tensor_free(ctx, &taps);
    esi_tensor_free(ctx, &rows);
    return st;
}

/* y[M, out] = the children of conv1(x). Half of the eight children do not exist, so each slot is a convolution of its own over the parents
 * that have it, instead of one with 8 * out columns of which half are thrown away. */
static espalier_status expand_children(espalier_context *ctx, const esi_c2s_block *block, esi_tensor y, esi_tensor x, esi_tensor table,
                                       const int32_t *index)
{
    const uint64_t row_bytes = 3 * ESI_SPARSE_TAPS * sizeof(int32_t) + (uint64_t)block->out * sizeof(float);
    const int64_t chunk = ESI_MIN(x.rows, esi_chunk_rows(ctx, row_bytes));
    expand_scratch s = {0};
    int64_t child = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    s.table = esi_alloc(ctx, (size_t)chunk * ESI_SPARSE_TAPS, sizeof *s.table, "neighbour table");
    s.taps = esi_alloc(ctx, (size_t)chunk * ESI_SPARSE_TAPS, sizeof *s.taps, "neighbour table");
    s.rows = esi_alloc(ctx, (size_t)chunk, sizeof *s.rows, "child rows");
    if (!s.table || !s.taps || !s.rows) goto done;
    st = ESPALIER_OK;
    for (int64_t parent = 0; parent < x.rows; parent += chunk) {
        const int64_t n_parents = ESI_MIN(chunk, x.rows - parent), first = child;
        while (child < y.rows && index[child] / CHILDREN < parent + n_parents) child++;
        if (child == first) continue;
        st = esi_tensor_read(ctx, esi_rows(table, parent, n_parents), s.table);
        for (int k = 0; st == ESPALIER_OK && k < CHILDREN; k++) {
            const int64_t n = pick_slot(&s, index, first, child, parent, k);
            if (n > 0) st = expand_slot(ctx, block, y, x, &s, n, k);
        }
        if (st != ESPALIER_OK) goto done;
    }
done:
    esi_free(ctx, s.table);
    esi_free(ctx, s.taps);
    esi_free(ctx, s.rows);
    return st;
}

espalier_status esi_c2s_forward(espalier_context *ctx, const esi_c2s_block *block, esi_sparse_rows *rows, const esi_coords *children,
                                const int32_t *index)
{
    const esi_norm_args norm1 = {.eps = BLOCK_NORM_EPS, .weight = block->norm_weight, .bias = block->norm_bias, .act = ESI_ACT_SILU};
    const esi_norm_args norm2 = {.eps = BLOCK_NORM_EPS, .act = ESI_ACT_SILU};
    const int64_t N = rows->feats.rows, M = children->count, skip_channels = block->in / CHILDREN;
    esi_tensor x = rows->feats;           /* [N, in] */
    esi_tensor t = {0}, h = {0}, y = {0}; /* [N, in], [M, out], [M, out] */
    esi_tensor slots = {0};
    espalier_status st = esi_check_cancel(ctx);
    if (st != ESPALIER_OK) return st;

    st = esi_tensor_new(ctx, &t, N, block->in, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_layer_norm(ctx, t, x, &norm1);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &h, M, block->out, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = expand_children(ctx, block, h, t, rows->table, index);
    if (st != ESPALIER_OK) goto done;
    esi_tensor_free(ctx, &t);
    esi_tensor_free(ctx, &rows->table);
    st = esi_sparse_table(ctx, &rows->table, children);
    if (st != ESPALIER_OK) goto done;

    st = esi_layer_norm(ctx, h, h, &norm2);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(ctx, &y, M, block->out, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = esi_sparse_conv_forward(ctx, &block->conv2, y, h, rows->table);
    if (st != ESPALIER_OK) goto done;
    esi_tensor_free(ctx, &h);
    st = esi_tensor_from(ctx, &slots, M, 1, ESI_I32, index);
    if (st != ESPALIER_OK) goto done;
    st = esi_add_repeat_cols(ctx, y, esi_reshape(x, CHILDREN * N, skip_channels), slots, block->out / skip_channels);
    if (st != ESPALIER_OK) goto done;
    esi_tensor_free(ctx, &rows->feats);
    rows->feats = y;
    y = (esi_tensor){0};
done:
    esi_tensor_free(ctx, &t);
    esi_tensor_free(ctx, &h);
    esi_tensor_free(ctx, &y);
    esi_tensor_free(ctx, &slots);
    return st;
}
