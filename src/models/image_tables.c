/* SPDX-License-Identifier: MIT
 *
 * image_tables.c: gather tables of picture networks: convolutions of any stride and dilation, pooling, bilinear resizing (PyTorch's
 * coordinates), deformable convolution (Zhu et al. 2019, "Deformable ConvNets v2"), Swin's shifted windows (Liu et al. 2021).
 */
#include "models/image_tables.h"

#include "formats/image_sample.h"

#define ROWS_PER_TASK 2048

/* --------------------------------------------------------- filling by rows */

/* A table on its way: `fill` writes rows [first, end) of index and weight, counted from 0; row 0 is pixel `first_pixel`. */
typedef struct table_job table_job;
struct table_job {
    void (*fill)(const table_job *j, int64_t first, int64_t end);
    int32_t *index; /* [rows, cols] */
    float *weight;  /* the same shape, or NULL */
    int64_t rows, cols, first_pixel, origin; /* origin: the input pixel that row 0 of x is */
    esi_grid in, out;
    const esi_conv_geometry *geometry;
    const float *offset, *mask;
    float mask_factor;
    bool align_corners;
};

static void fill_task(void *arg, size_t task, int slot)
{
    const table_job *j = arg;
    const int64_t first = (int64_t)task * ROWS_PER_TASK;
    (void)slot;
    j->fill(j, first, ESI_MIN(first + ROWS_PER_TASK, j->rows));
}

/* Host arrays, all threads, then tensors. */
static espalier_status make_tables(espalier_context *ctx, table_job *j, esi_tensor *index, esi_tensor *weight)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    size_t count;

    esi_mul_size(&count, (size_t)j->rows, (size_t)j->cols); /* on overflow SIZE_MAX, which cannot be allocated */
    j->index = esi_alloc(ctx, count, sizeof *j->index, "picture table");
    if (j->index == NULL) goto done;
    if (weight) {
        j->weight = esi_alloc(ctx, count, sizeof *j->weight, "picture weights");
        if (j->weight == NULL) goto done;
    }
    st = esi_parallel(ctx, ((size_t)j->rows + ROWS_PER_TASK - 1) / ROWS_PER_TASK, fill_task, j);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, index, j->rows, j->cols, ESI_I32, j->index);
    if (st == ESPALIER_OK && weight) st = esi_tensor_from(ctx, weight, j->rows, j->cols, ESI_F32, j->weight);
done:
    esi_free(ctx, j->index);
    esi_free(ctx, j->weight);
    return st;
}

static int32_t pixel_or_missing(esi_grid g, int64_t y, int64_t x)
{
    return y >= 0 && y < g.height && x >= 0 && x < g.width ? (int32_t)(y * g.width + x) : -1;
}

/* ------------------------------------------------- convolution and pooling */

static int64_t conv_extent(int64_t in, const esi_conv_geometry *g)
{
    const int64_t room = in + 2 * g->padding - g->dilation * (g->kernel - 1) - 1;
    return room < 0 ? 0 : room / g->stride + 1;
}

esi_grid esi_conv_grid(esi_grid in, const esi_conv_geometry *g)
{
    return (esi_grid){conv_extent(in.height, g), conv_extent(in.width, g)};
}

static void fill_conv(const table_job *j, int64_t first, int64_t end)
{
    const esi_conv_geometry *g = j->geometry;
    const int64_t reach = (g->kernel - 1) * g->dilation;
    int64_t out_y = (j->first_pixel + first) / j->out.width, out_x = (j->first_pixel + first) % j->out.width;

    for (int64_t r = first; r < end; r++) {
        const int64_t y = out_y * g->stride - g->padding, x = out_x * g->stride - g->padding;
        const bool inside = y >= 0 && x >= 0 && y + reach < j->in.height && x + reach < j->in.width;
        int32_t *row = j->index + r * j->cols;
        for (int64_t ky = 0; ky < g->kernel; ky++) {
            const int64_t line = y + ky * g->dilation, start = line * j->in.width + x - j->origin;
            for (int64_t kx = 0; kx < g->kernel; kx++)
                *row++ = inside || pixel_or_missing(j->in, line, x + kx * g->dilation) >= 0 ? (int32_t)(start + kx * g->dilation) : -1;
        }
        if (++out_x == j->out.width) out_x = 0, out_y++;
    }
}

espalier_status esi_conv_table(espalier_context *ctx, esi_tensor *table, esi_grid in, const esi_conv_geometry *g, int64_t first,
                               int64_t rows)
{
    return esi_conv_band_table(ctx, table, in, g, first, rows, 0);
}

espalier_status esi_conv_band_table(espalier_context *ctx, esi_tensor *table, esi_grid in, const esi_conv_geometry *g, int64_t first,
                                    int64_t rows, int64_t origin)
{
    const int64_t taps = g->kernel * g->kernel;
    table_job j = {.fill = fill_conv, .rows = rows, .cols = taps, .first_pixel = first, .origin = origin, .in = in, .geometry = g};
    j.out = esi_conv_grid(in, g);
    return make_tables(ctx, &j, table, NULL);
}

esi_grid esi_half_grid(esi_grid in)
{
    return (esi_grid){(in.height + 1) / 2, (in.width + 1) / 2};
}

espalier_status esi_pool_table(espalier_context *ctx, esi_tensor *table, esi_grid in)
{
    static const esi_conv_geometry windows = {.kernel = 2, .stride = 2, .dilation = 1};
    const esi_grid out = esi_half_grid(in);
    table_job j = {.fill = fill_conv, .rows = out.height * out.width, .cols = 4, .in = in, .out = out, .geometry = &windows};
    return make_tables(ctx, &j, table, NULL);
}

/* ------------------------------------------------------------------- resize */

static void fill_resize(const table_job *j, int64_t first, int64_t end)
{
    int64_t y = (j->first_pixel + first) / j->out.width, x = (j->first_pixel + first) % j->out.width;
    esi_linear_taps down = esi_linear_taps_at(y, j->in.height, j->out.height, j->align_corners);

    for (int64_t r = first; r < end; r++) {
        const esi_linear_taps across = esi_linear_taps_at(x, j->in.width, j->out.width, j->align_corners);
        for (int t = 0; t < 4; t++) {
            j->index[r * 4 + t] = (int32_t)(down.index[t / 2] * j->in.width + across.index[t % 2]);
            j->weight[r * 4 + t] = down.weight[t / 2] * across.weight[t % 2];
        }
        if (++x == j->out.width && r + 1 < end) {
            x = 0;
            down = esi_linear_taps_at(++y, j->in.height, j->out.height, j->align_corners);
        }
    }
}

espalier_status esi_resize_table(espalier_context *ctx, esi_tensor *table, esi_tensor *weight, esi_grid in, esi_grid out,
                                 bool align_corners, int64_t first, int64_t rows)
{
    table_job j = {
        .fill = fill_resize, .rows = rows, .cols = 4, .first_pixel = first, .in = in, .out = out, .align_corners = align_corners};
    return make_tables(ctx, &j, table, weight);
}

/* --------------------------------------------------- deformable convolution */

/* Corners of the point (y, x) with bilinear weights times `factor`. A point a whole pixel outside, or no number, reads nothing. */
static void fill_corners(int32_t *index, float *weight, esi_grid in, float y, float x, float factor)
{
    const bool inside = y > -1.0f && y < (float)in.height && x > -1.0f && x < (float)in.width;
    const int64_t top = inside ? (int64_t)(y + 1.0f) - 1 : 0, left = inside ? (int64_t)(x + 1.0f) - 1 : 0;
    const float low_y = y - (float)top, low_x = x - (float)left, high_y = 1.0f - low_y, high_x = 1.0f - low_x;
    const float weights[4] = {high_y * high_x, high_y * low_x, low_y * high_x, low_y * low_x};

    for (int t = 0; t < 4; t++) {
        index[t] = inside ? pixel_or_missing(in, top + t / 2, left + t % 2) : -1;
        weight[t] = index[t] >= 0 ? factor * weights[t] : 0.0f;
    }
}

static void fill_deform(const table_job *j, int64_t first, int64_t end)
{
    const esi_conv_geometry *g = j->geometry;
    const int64_t taps = g->kernel * g->kernel;

    for (int64_t r = first; r < end; r++) {
        const int64_t n = r / taps, t = r % taps, pixel = j->first_pixel + n;
        const int64_t y = pixel / j->out.width * g->stride - g->padding + t / g->kernel * g->dilation;
        const int64_t x = pixel % j->out.width * g->stride - g->padding + t % g->kernel * g->dilation;
        const float *offset = j->offset + (n * taps + t) * 2;
        fill_corners(j->index + r * 4, j->weight + r * 4, j->in, (float)y + offset[0], (float)x + offset[1],
                     j->mask_factor * j->mask[n * taps + t]);
    }
}

espalier_status esi_deform_table(espalier_context *ctx, esi_tensor *table, esi_tensor *weight, esi_grid in, const esi_conv_geometry *g,
                                 const float *offset, const float *mask, float mask_factor, int64_t first, int64_t rows)
{
    table_job j = {.fill = fill_deform,
                   .rows = rows * g->kernel * g->kernel,
                   .cols = 4,
                   .first_pixel = first,
                   .in = in,
                   .geometry = g,
                   .offset = offset,
                   .mask = mask,
                   .mask_factor = mask_factor};
    j.out = esi_conv_grid(in, g);
    return make_tables(ctx, &j, table, weight);
}

static void fill_counting(const table_job *j, int64_t first, int64_t end)
{
    for (int64_t i = first * j->cols; i < end * j->cols; i++) j->index[i] = (int32_t)i;
}

espalier_status esi_counting_table(espalier_context *ctx, esi_tensor *table, int64_t rows, int64_t taps)
{
    table_job j = {.fill = fill_counting, .rows = rows, .cols = taps};
    return make_tables(ctx, &j, table, NULL);
}

/* ------------------------------------------------------------------ windows */

static int64_t window_steps(int64_t extent, int64_t window)
{
    return (extent + window - 1) / window;
}

int64_t esi_window_count(esi_grid in, int64_t window)
{
    return window_steps(in.height, window) * window_steps(in.width, window);
}

/* Third of the rolled and padded axis that a place is in: everything but the last window, the part of that window that was not rolled, the
 * part that came from the other end. */
static int32_t axis_region(int64_t at, int64_t padded, int64_t window, int64_t shift)
{
    return at < padded - window ? 0 : at < padded - shift ? 1 : 2;
}

espalier_status esi_window_tables(espalier_context *ctx, esi_tensor *index, esi_tensor *region, esi_grid in, int64_t window, int64_t shift)
{
    const int64_t area = window * window, rows = esi_window_count(in, window) * area, across = window_steps(in.width, window);
    const int64_t height = window_steps(in.height, window) * window, width = across * window;
    int32_t *places = esi_alloc(ctx, (size_t)rows, 2 * sizeof *places, "windows"), *regions;
    espalier_status st;

    *region = (esi_tensor){0};
    if (places == NULL) return ESPALIER_ERR_RESOURCE;
    regions = places + rows;
    for (int64_t r = 0; r < rows; r++) {
        const int64_t w = r / area, i = r % area;
        const int64_t y = w / across * window + i / window, x = w % across * window + i % window;
        places[r] = pixel_or_missing(in, (y + shift) % height, (x + shift) % width);
        regions[r] = axis_region(y, height, window, shift) * 3 + axis_region(x, width, window, shift);
    }
    st = esi_tensor_from(ctx, index, rows, 1, ESI_I32, places);
    if (st == ESPALIER_OK && shift > 0) st = esi_tensor_from(ctx, region, rows, 1, ESI_I32, regions);
    esi_free(ctx, places);
    return st;
}

static void spread_bias(float *bias, const float *values, int64_t window, int64_t heads)
{
    const int64_t area = window * window;

    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < area; i++)
            for (int64_t j = 0; j < area; j++) {
                const int64_t dy = i / window - j / window + window - 1, dx = i % window - j % window + window - 1;
                bias[(h * area + i) * area + j] = values[(dy * (2 * window - 1) + dx) * heads + h];
            }
}

espalier_status esi_window_bias(espalier_context *ctx, esi_tensor *bias, esi_tensor values, int64_t window)
{
    const int64_t heads = values.cols, area = window * window;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    size_t count;
    float *table = NULL, *from = esi_alloc(ctx, (size_t)(values.rows * values.cols), sizeof *from, "relative positions");

    if (from == NULL) goto done;
    esi_mul_size(&count, (size_t)(heads * area), (size_t)area);
    table = esi_alloc(ctx, count, sizeof *table, "relative positions");
    if (table == NULL) goto done;
    st = esi_tensor_read(ctx, values, from);
    if (st != ESPALIER_OK) goto done;
    spread_bias(table, from, window, heads);
    st = esi_tensor_from(ctx, bias, heads * area, area, ESI_F32, table);
done:
    esi_free(ctx, table);
    esi_free(ctx, from);
    return st;
}

static void fill_merge(const table_job *j, int64_t first, int64_t end)
{
    for (int64_t r = first; r < end; r++) {
        const int64_t y = r / j->out.width * 2, x = r % j->out.width * 2;
        for (int t = 0; t < 4; t++) j->index[r * 4 + t] = pixel_or_missing(j->in, y + t % 2, x + t / 2);
    }
}

espalier_status esi_merge_index(espalier_context *ctx, esi_tensor *index, esi_grid in)
{
    const esi_grid out = esi_half_grid(in);
    table_job j = {.fill = fill_merge, .rows = out.height * out.width, .cols = 4, .in = in, .out = out};
    espalier_status st = make_tables(ctx, &j, index, NULL);
    if (st == ESPALIER_OK) *index = esi_reshape(*index, j.rows * 4, 1);
    return st;
}

/* -------------------------------------------------------------------- tiles */

static void fill_tiles(const table_job *j, int64_t first, int64_t end)
{
    const int64_t across = j->in.width / j->out.width;

    for (int64_t r = first; r < end; r++) {
        const int64_t y = r / j->out.width, x = r % j->out.width;
        for (int64_t t = 0; t < j->cols; t++)
            j->index[r * j->cols + t] = (int32_t)((t / across * j->out.height + y) * j->in.width + t % across * j->out.width + x);
    }
}

espalier_status esi_tile_index(espalier_context *ctx, esi_tensor *index, esi_grid in, esi_grid tile)
{
    table_job j = {.fill = fill_tiles, .rows = tile.height * tile.width, .in = in, .out = tile};
    espalier_status st;

    j.cols = in.height / tile.height * (in.width / tile.width);
    st = make_tables(ctx, &j, index, NULL);
    if (st == ESPALIER_OK) *index = esi_reshape(*index, j.rows * j.cols, 1);
    return st;
}
