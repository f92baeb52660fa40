/* SPDX-License-Identifier: MIT
 *
 * image_layers.c: opens convolutions with their batch norms (statistics folded in fp32: scale = w / sqrt(var + 1e-5), shift = b - mean *
 * scale, plus the convolution's own bias times scale) and runs them over gather tables.
 */
#include "models/image_layers.h"

#include <math.h>

#define BATCH_NORM_EPS 1e-5f
#define CHUNK_ROWS     32768 /* that layers handle at a time */
#define LEAST_ROWS     256
#define SCRATCH        ((uint64_t)8 << 20) /* what the smallest pieces come to */

/* ----------------------------------------------------------------- networks */

espalier_status esi_image_network_new(espalier_context *ctx, esi_image_network **out, size_t size, const char *what, esi_weight_file *file)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_image_network *n = esi_raw_alloc(allocator, size);
    espalier_status st;

    *out = NULL;
    if (n == NULL) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", what);
    }
    memset(n, 0, size);
    n->allocator = *allocator;
    st = esi_weights_new(ctx, &n->weights, file);
    if (st == ESPALIER_OK)
        *out = n;
    else
        esi_raw_free(allocator, n, size);
    return st;
}

void esi_image_network_free(espalier_context *ctx, esi_image_network *n, size_t size)
{
    const espalier_allocator allocator = n->allocator;
    esi_weights_free(ctx, n->weights);
    esi_raw_free(&allocator, n, size);
}

/* --------------------------------------------------------------------- maps */

espalier_status esi_image_check_memory(espalier_context *ctx, const char *network, int64_t H, int64_t W, uint64_t least)
{
    char need[ESI_SIZE_TEXT], budget[ESI_SIZE_TEXT];

    if (least <= esi_memory_left(ctx)) return ESPALIER_OK;
    esi_size_text(need, espalier_context_memory_now(ctx) + least + least / 16 + SCRATCH);
    esi_size_text(budget, esi_memory_budget(ctx));
    return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s at %lld x %lld needs a memory budget of about %s, not %s; raise --mem-budget", network,
                    (long long)W, (long long)H, need, budget);
}

int64_t esi_image_rows(const espalier_context *ctx, int64_t most, int64_t bytes_per_row)
{
    const uint64_t fits = esi_memory_left(ctx) / 8 / (uint64_t)ESI_MAX(bytes_per_row, 1);
    return fits >= (uint64_t)most ? most : ESI_MIN(most, ESI_MAX((int64_t)fits, LEAST_ROWS));
}

espalier_status esi_map_new(espalier_context *ctx, esi_map *map, esi_grid grid, int64_t channels)
{
    map->grid = grid;
    map->origin = 0;
    return esi_tensor_new(ctx, &map->rows, grid.height * grid.width, channels, ESI_F32);
}

espalier_status esi_map_from_pixels(espalier_context *ctx, esi_map *map, const float *pixels, esi_grid grid)
{
    esi_tensor planes = {0};
    espalier_status st = esi_tensor_from(ctx, &planes, 3, grid.height * grid.width, ESI_F32, pixels);

    if (st == ESPALIER_OK) st = esi_map_new(ctx, map, grid, 3);
    if (st == ESPALIER_OK) st = esi_transpose(ctx, map->rows, planes);
    esi_tensor_free(ctx, &planes);
    return st;
}

/* ------------------------------------------------------------------ opening */

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

esi_norm_style esi_image_norm_style(const esi_weight_file *file)
{
    esi_norm_style style = ESI_NORMS_FOLDED;

    for (size_t i = 0; i < file->count; i++) {
        if (ends_with(file->tensors[i].name, ".running_var") || ends_with(file->tensors[i].name, ".running_mean"))
            return ESI_NORMS_STATISTICS;
        if (ends_with(file->tensors[i].name, ".shift")) style = ESI_NORMS_SCALE_SHIFT;
    }
    return style;
}

/* A vector of the file as fp32 values. */
static espalier_status read_vector(const esi_layer_source *s, float *values, int64_t n, const char *scope, const char *norm,
                                   const char *part)
{
    esi_tensor t;
    espalier_status st = esi_weights_get(s->ctx, s->weights, &t, 1, n, "%s%s%s.%s", s->prefix, scope, norm, part);
    return st == ESPALIER_OK ? esi_tensor_read(s->ctx, t, values) : st;
}

/* scale and shift of a batch norm with statistics; `scratch` holds n values. */
static espalier_status fold_statistics(const esi_layer_source *s, float *scale, float *shift, float *scratch, int64_t n, const char *scope,
                                       const char *norm)
{
    espalier_status st = read_vector(s, scale, n, scope, norm, "weight");

    if (st == ESPALIER_OK) st = read_vector(s, scratch, n, scope, norm, "running_var");
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < n; i++) scale[i] = scale[i] / sqrtf(scratch[i] + BATCH_NORM_EPS);
    st = read_vector(s, shift, n, scope, norm, "bias");
    if (st == ESPALIER_OK) st = read_vector(s, scratch, n, scope, norm, "running_mean");
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < n; i++) shift[i] = shift[i] - scratch[i] * scale[i];
    esi_weights_ignore(s->weights, "%s%s%s.num_batches_tracked", s->prefix, scope, norm);
    return ESPALIER_OK;
}

static espalier_status fold_values(const esi_layer_source *s, esi_conv2d *conv, esi_tensor bias, float *scratch, const char *scope,
                                   const char *norm)
{
    float *scale = conv->folded, *shift = conv->folded + conv->out;
    espalier_status st;

    if (s->norms == ESI_NORMS_SCALE_SHIFT) {
        st = read_vector(s, scale, conv->out, scope, norm, "scale");
        if (st == ESPALIER_OK) st = read_vector(s, shift, conv->out, scope, norm, "shift");
    } else {
        st = fold_statistics(s, scale, shift, scratch, conv->out, scope, norm);
    }
    if (st != ESPALIER_OK) return st;
    if (!esi_tensor_is_null(bias)) {
        st = esi_tensor_read(s->ctx, bias, scratch);
        if (st != ESPALIER_OK) return st;
        for (int64_t i = 0; i < conv->out; i++) shift[i] = scratch[i] * scale[i] + shift[i];
    }
    for (int64_t i = 0; i < conv->out; i++) {
        if (!isfinite(scale[i]) || !isfinite(shift[i]))
            return esi_fail(s->ctx, ESPALIER_ERR_MODEL, "%s: batch norm %s%s%s gives no finite numbers; the file is damaged",
                            esi_weight_file_path(esi_weights_file(s->weights)), s->prefix, scope, norm);
    }
    return ESPALIER_OK;
}

static espalier_status open_norm(const esi_layer_source *s, esi_conv2d *conv, esi_tensor bias, const char *scope, const char *norm)
{
    const size_t bytes = 2 * (size_t)conv->out * sizeof(float);
    float *scratch = esi_alloc(s->ctx, (size_t)conv->out, sizeof *scratch, "batch norm");
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (scratch == NULL) return st;
    conv->folded = esi_raw_alloc(esi_allocator(s->ctx), bytes);
    if (conv->folded == NULL) {
        esi_fail(s->ctx, st, "%s: out of memory", esi_weight_file_path(esi_weights_file(s->weights)));
        goto done;
    }
    st = fold_values(s, conv, bias, scratch, scope, norm);
    if (st != ESPALIER_OK) goto done;
    st = esi_weight_wrap(s->ctx, &conv->scale, 1, conv->out, ESI_F32, conv->folded);
    if (st == ESPALIER_OK) st = esi_weight_wrap(s->ctx, &conv->shift, 1, conv->out, ESI_F32, conv->folded + conv->out);
done:
    esi_free(s->ctx, scratch);
    return st;
}

/* Extents from the options or the file, which must agree. */
static espalier_status take_shape(const esi_layer_source *s, esi_conv2d *conv, const char *name, const esi_conv2d_options *o)
{
    const esi_weight_file *file = esi_weights_file(s->weights);
    const esi_file_tensor *t = esi_weight_file_find(file, name);
    char found[ESI_SHAPE_TEXT];
    int64_t kernel = o->kernel;

    if (t == NULL) return esi_fail(s->ctx, ESPALIER_ERR_MODEL, "%s: tensor %s is missing", esi_weight_file_path(file), name);
    if (t->rank == 4) {
        if (kernel == 0) kernel = t->shape[2];
        conv->out = o->out > 0 ? o->out : t->shape[0];
        conv->in = o->in > 0 ? o->in : t->shape[1];
    }
    if (t->rank != 4 || t->shape[0] != conv->out || t->shape[1] != conv->in || t->shape[2] != kernel || t->shape[3] != kernel ||
        conv->out < 1 || conv->out > 1 << 20 || conv->in < 1 || conv->in > 1 << 20 || kernel < 1 || kernel > 64)
        return esi_fail_at(s->ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset,
                           "%s: tensor %s: shape %s, expected a convolution [%lld, %lld, %lld, %lld] (0: any)", esi_weight_file_path(file),
                           name, esi_shape_text(found, sizeof found, t->shape, t->rank), (long long)o->out, (long long)o->in,
                           (long long)o->kernel, (long long)o->kernel);
    conv->geometry.kernel = kernel;
    conv->geometry.stride = o->stride > 0 ? o->stride : 1;
    conv->geometry.dilation = o->dilation > 0 ? o->dilation : 1;
    conv->geometry.padding = o->stride > 0 ? o->padding : conv->geometry.dilation * (kernel / 2);
    conv->act = o->act;
    return ESPALIER_OK;
}

espalier_status esi_conv2d_open(const esi_layer_source *s, esi_conv2d *conv, const char *scope, const char *name,
                                const esi_conv2d_options *options)
{
    esi_tensor bias = {0};
    char *weight_name = esi_format(s->ctx, "%s%s%s.weight", s->prefix, scope, name);
    espalier_status st;

    if (weight_name == NULL) return ESPALIER_ERR_RESOURCE;
    st = take_shape(s, conv, weight_name, options);
    if (st == ESPALIER_OK)
        st = esi_weights_get(s->ctx, s->weights, &conv->weight, conv->out, conv->in * conv->geometry.kernel * conv->geometry.kernel, "%s",
                             weight_name);
    esi_free(s->ctx, weight_name);
    if (st == ESPALIER_OK && !options->no_bias)
        st = esi_weights_get(s->ctx, s->weights, &bias, 1, conv->out, "%s%s%s.bias", s->prefix, scope, name);
    if (st != ESPALIER_OK) return st;
    if (options->norm && s->norms != ESI_NORMS_FOLDED) return open_norm(s, conv, bias, scope, options->norm);
    conv->shift = bias;
    return ESPALIER_OK;
}

void esi_conv2d_free(espalier_context *ctx, const espalier_allocator *allocator, esi_conv2d *conv)
{
    if (conv->folded) {
        if (!esi_tensor_is_null(conv->scale)) esi_weight_release(ctx, &conv->scale);
        if (!esi_tensor_is_null(conv->shift)) esi_weight_release(ctx, &conv->shift);
        esi_raw_free(allocator, conv->folded, 2 * (size_t)conv->out * sizeof(float));
    }
    memset(conv, 0, sizeof *conv);
}

/* ------------------------------------------------------------------ running */

static espalier_status conv_chunk(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, int64_t first,
                                  const esi_epilogue *epilogue)
{
    const esi_conv_geometry *g = &conv->geometry;
    esi_tensor table = {0};
    espalier_status st;

    if (g->kernel == 1 && g->stride == 1 && g->padding == 0)
        return esi_linear(ctx, y, esi_rows(x->rows, first - x->origin, y.rows), conv->weight, epilogue);
    st = esi_conv_band_table(ctx, &table, x->grid, g, first, y.rows, x->origin);
    if (st == ESPALIER_OK) st = esi_conv(ctx, y, x->rows, table, conv->weight, ESI_CONV_CHANNEL_MAJOR, epilogue);
    esi_tensor_free(ctx, &table);
    return st;
}

espalier_status esi_conv2d_rows(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, int64_t first,
                                esi_tensor residual)
{
    const int64_t taps = conv->geometry.kernel * conv->geometry.kernel;
    const int64_t chunk = esi_image_rows(ctx, CHUNK_ROWS, 2 * taps * (int64_t)sizeof(int32_t));
    espalier_status st = ESPALIER_OK;

    for (int64_t at = 0; st == ESPALIER_OK && at < y.rows; at += chunk) {
        const int64_t count = ESI_MIN(chunk, y.rows - at);
        esi_epilogue epilogue = {.scale = conv->scale, .bias = conv->shift, .act = conv->act};
        if (!esi_tensor_is_null(residual)) epilogue.residual = esi_rows(residual, at, count);
        st = conv_chunk(ctx, conv, esi_rows(y, at, count), x, first + at, &epilogue);
    }
    return st;
}

espalier_status esi_conv2d_run(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, esi_tensor residual)
{
    return esi_conv2d_rows(ctx, conv, y, x, 0, residual);
}

espalier_status esi_map_pool(espalier_context *ctx, esi_map *y, const esi_map *x)
{
    esi_tensor table = {0};
    espalier_status st = esi_map_new(ctx, y, esi_half_grid(x->grid), x->rows.cols);

    if (st == ESPALIER_OK) st = esi_pool_table(ctx, &table, x->grid);
    if (st == ESPALIER_OK) st = esi_pool_rows(ctx, y->rows, x->rows, table, ESI_POOL_MAX);
    esi_tensor_free(ctx, &table);
    return st;
}

espalier_status esi_map_resize_rows(espalier_context *ctx, esi_tensor y, const esi_map *x, esi_grid grid, bool align_corners, int64_t first)
{
    const int64_t chunk = esi_image_rows(ctx, CHUNK_ROWS, 2 * 4 * (int64_t)(sizeof(int32_t) + sizeof(float)));
    espalier_status st = ESPALIER_OK;

    if (grid.height == x->grid.height && grid.width == x->grid.width) return esi_copy(ctx, y, esi_rows(x->rows, first, y.rows));
    for (int64_t at = 0; st == ESPALIER_OK && at < y.rows; at += chunk) {
        const int64_t count = ESI_MIN(chunk, y.rows - at);
        esi_tensor table = {0}, weight = {0};
        st = esi_resize_table(ctx, &table, &weight, x->grid, grid, align_corners, first + at, count);
        if (st == ESPALIER_OK) st = esi_weighted_gather(ctx, esi_rows(y, at, count), x->rows, table, weight);
        esi_tensor_free(ctx, &table);
        esi_tensor_free(ctx, &weight);
    }
    return st;
}

espalier_status esi_map_resize(espalier_context *ctx, esi_tensor y, const esi_map *x, esi_grid grid, bool align_corners)
{
    return esi_map_resize_rows(ctx, y, x, grid, align_corners, 0);
}
