/* SPDX-License-Identifier: MIT
 *
 * image_resize.c: separable convolution with 8-bit intermediates and 22-bit integer weights, the arithmetic of Pillow's
 * src/libImaging/Resample.c (8-bit path) and Convert.c (RGBA <-> RGBa), so that networks see the pixels they were trained with.
 *
 * Two passes: rows are filtered across into `middle` [in.height, w], columns of that down into `out` [h, w]. Either is left out when its
 * side stays. Colour with alpha is premultiplied before the first pass and divided after the last one. Sums are integers, so their order
 * does not matter and rows can go to any thread.
 */
#include "formats/image_resize.h"

#include "base/math64.h"
#include "formats/image_codecs.h"

#define PI 3.14159265358979323846

enum {
    WEIGHT_BITS = 22,
    ROWS_PER_TASK = 16,
    OPAQUE = 255
};

/* -------------------------------------------------------------- weights */

static double sinc(double x)
{
    if (x == 0.0) return 1.0;
    x *= PI;
    return esi_sin(x) / x;
}

static double kernel(esi_resize_filter filter, double x)
{
    if (filter == ESI_RESIZE_LANCZOS) return x >= -3.0 && x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0;
    if (x < 0.0) x = -x;
    if (filter == ESI_RESIZE_BILINEAR) return x < 1.0 ? 1.0 - x : 0.0;
    const double a = -0.5;
    if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
    return 0.0;
}

static double kernel_radius(esi_resize_filter filter)
{
    return filter == ESI_RESIZE_BILINEAR ? 1.0 : filter == ESI_RESIZE_BICUBIC ? 2.0 : 3.0;
}

/* Weights of one pass: output i is the sum over j < count[i] of weight[i * stride + j] * input[first[i] + j]. One block of memory. */
typedef struct filter_table {
    int32_t *weight;
    uint32_t *first, *count;
    size_t stride;
} filter_table;

/* Weights of output i, normalised in doubles, then rounded to integers half away from zero. `scratch` holds table->stride doubles. */
static void fill_weights(filter_table *table, size_t i, uint32_t n_in, double scale, esi_resize_filter filter, double *scratch)
{
    const double filter_scale = scale < 1.0 ? 1.0 : scale;
    const double radius = kernel_radius(filter) * filter_scale, inverse = 1.0 / filter_scale;
    const double center = ((double)i + 0.5) * scale;
    int64_t low = (int64_t)(center - radius + 0.5), high = (int64_t)(center + radius + 0.5);
    double sum = 0.0;

    if (low < 0) low = 0;
    if (high > (int64_t)n_in) high = n_in;
    const size_t n = (size_t)(high - low);
    for (size_t j = 0; j < n; j++) {
        scratch[j] = kernel(filter, ((double)(int64_t)j + (double)low - center + 0.5) * inverse);
        sum += scratch[j];
    }
    for (size_t j = 0; j < n; j++) {
        double w = sum != 0.0 ? scratch[j] / sum : scratch[j];
        table->weight[i * table->stride + j] = (int32_t)(w * (double)(1 << WEIGHT_BITS) + (w < 0.0 ? -0.5 : 0.5));
    }
    table->first[i] = (uint32_t)low;
    table->count[i] = (uint32_t)n;
}

static void free_table(espalier_context *ctx, filter_table *table)
{
    esi_free(ctx, table->weight);
    esi_free(ctx, table->first);
    memset(table, 0, sizeof *table);
}

static espalier_status make_table(espalier_context *ctx, filter_table *table, uint32_t n_in, uint32_t n_out, esi_resize_filter filter)
{
    const double scale = (double)n_in / (double)n_out;
    const double radius = kernel_radius(filter) * (scale < 1.0 ? 1.0 : scale);
    espalier_status st = ESPALIER_ERR_RESOURCE;
    double *scratch = NULL;
    size_t n_weights = 0;

    memset(table, 0, sizeof *table);
    table->stride = (size_t)esi_ceil(radius) * 2 + 1;
    esi_mul_size(&n_weights, table->stride, n_out);          /* on overflow SIZE_MAX, which cannot be allocated */
    table->weight = esi_alloc(ctx, n_weights, sizeof *table->weight, "resize weights");
    table->first = esi_alloc(ctx, (size_t)n_out * 2, sizeof *table->first, "resize weights");
    scratch = esi_alloc(ctx, table->stride, sizeof *scratch, "resize weights");
    if (table->weight == NULL || table->first == NULL || scratch == NULL) goto done;
    table->count = table->first + n_out;
    for (size_t i = 0; i < n_out; i++) fill_weights(table, i, n_in, scale, filter, scratch);
    st = ESPALIER_OK;
done:
    esi_free(ctx, scratch);
    if (st != ESPALIER_OK) free_table(ctx, table);
    return st;
}

/* ----------------------------------------------------------------- rows */

/* round(a * b / 255) of Pillow, exact for bytes. */
static uint8_t multiply_bytes(uint32_t a, uint32_t b)
{
    uint32_t t = a * b + 128;
    return (uint8_t)(((t >> 8) + t) >> 8);
}

static void premultiply_row(uint8_t *to, const uint8_t *from, size_t n_pixels)
{
    for (size_t i = 0; i < n_pixels; i++, to += 4, from += 4) {
        const uint32_t alpha = from[3];
        for (int c = 0; c < 3; c++) to[c] = multiply_bytes(from[c], alpha);
        to[3] = from[3];
    }
}

static void unpremultiply_row(uint8_t *row, size_t n_pixels)
{
    for (size_t i = 0; i < n_pixels; i++, row += 4) {
        const uint32_t alpha = row[3];
        if (alpha == 0 || alpha == OPAQUE) continue;
        for (int c = 0; c < 3; c++) row[c] = (uint8_t)ESI_MIN(255u * row[c] / alpha, 255u);
    }
}

/* The sum of |weights| of any output is below 1.7 (Lanczos half-way between two pixels at a border), so 255 times it fits 31 bits. */
static uint8_t weight_sum_to_byte(int32_t sum)
{
    if (sum < 0) return 0;
    return (uint8_t)ESI_MIN(sum >> WEIGHT_BITS, 255);
}

static void filter_row_across(uint8_t *to, const uint8_t *from, const filter_table *table, size_t n_out, size_t channels)
{
    for (size_t i = 0; i < n_out; i++) {
        const int32_t *weight = table->weight + i * table->stride;
        const uint8_t *pixel = from + table->first[i] * channels;
        int32_t sum[4] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1)};
        for (size_t j = 0; j < table->count[i]; j++) {
            for (size_t c = 0; c < channels; c++) sum[c] += *pixel++ * weight[j];
        }
        for (size_t c = 0; c < channels; c++) *to++ = weight_sum_to_byte(sum[c]);
    }
}

/* Output row i of the second pass; `sums` holds one row of integers. */
static void filter_row_down(uint8_t *to, const uint8_t *from, const filter_table *table, size_t i, size_t n_values, int32_t *sums)
{
    const int32_t *weight = table->weight + i * table->stride;
    const uint8_t *row = from + table->first[i] * n_values;
    for (size_t x = 0; x < n_values; x++) sums[x] = 1 << (WEIGHT_BITS - 1);
    for (size_t j = 0; j < table->count[i]; j++, row += n_values) {
        for (size_t x = 0; x < n_values; x++) sums[x] += row[x] * weight[j];
    }
    for (size_t x = 0; x < n_values; x++) to[x] = weight_sum_to_byte(sums[x]);
}

/* --------------------------------------------------------------- passes */

typedef struct resize_job {
    const espalier_image *in;
    uint32_t w, h;
    bool across, down, premultiplied;
    filter_table table_across, table_down;
    uint8_t *middle;               /* [in.height, w] after the first pass; `out` itself when there is no second */
    uint8_t *out;                  /* [h, w] */
    uint8_t *row_scratch;          /* [slots, in.width * channels], premultiplied colour */
    int32_t *sum_scratch;          /* [slots, w * channels] */
} resize_job;

static void first_pass_task(void *arg, size_t task, int slot)
{
    resize_job *job = arg;
    const size_t channels = job->in->channels, in_row = job->in->width * channels, out_row = job->w * channels;
    const size_t end = ESI_MIN((task + 1) * ROWS_PER_TASK, (size_t)job->in->height);

    for (size_t y = task * ROWS_PER_TASK; y < end; y++) {
        const uint8_t *from = job->in->pixels + y * in_row;
        uint8_t *to = job->middle + y * out_row;
        if (job->premultiplied) {
            uint8_t *row = job->across ? job->row_scratch + (size_t)slot * in_row : to;
            premultiply_row(row, from, job->in->width);
            from = row;
        }
        if (job->across) filter_row_across(to, from, &job->table_across, job->w, channels);
        if (job->premultiplied && !job->down) unpremultiply_row(to, job->w);
    }
}

static void second_pass_task(void *arg, size_t task, int slot)
{
    resize_job *job = arg;
    const size_t n_values = (size_t)job->w * job->in->channels;
    const size_t end = ESI_MIN((task + 1) * ROWS_PER_TASK, (size_t)job->h);

    for (size_t y = task * ROWS_PER_TASK; y < end; y++) {
        uint8_t *to = job->out + y * n_values;
        filter_row_down(to, job->middle, &job->table_down, y, n_values, job->sum_scratch + (size_t)slot * n_values);
        if (job->premultiplied) unpremultiply_row(to, job->w);
    }
}

static espalier_status run_passes(espalier_context *ctx, resize_job *job)
{
    const espalier_image *in = job->in;
    espalier_status st = ESPALIER_OK;

    if (job->across || job->premultiplied) {
        st = esi_parallel(ctx, ((size_t)in->height + ROWS_PER_TASK - 1) / ROWS_PER_TASK, first_pass_task, job);
    }
    if (st == ESPALIER_OK && job->down) {
        st = esi_parallel(ctx, ((size_t)job->h + ROWS_PER_TASK - 1) / ROWS_PER_TASK, second_pass_task, job);
    }
    return st;
}

/* Tables and scratch. Without premultiplication and first pass, the second one reads the input where it is. */
static espalier_status prepare(espalier_context *ctx, resize_job *job, esi_resize_filter filter, uint8_t **middle)
{
    const espalier_image *in = job->in;
    const size_t n_slots = (size_t)esi_slots(ctx), out_row = (size_t)job->w * in->channels, in_row = (size_t)in->width * in->channels;
    espalier_status st = ESPALIER_OK;

    if (job->across) st = make_table(ctx, &job->table_across, in->width, job->w, filter);
    if (st == ESPALIER_OK && job->down) st = make_table(ctx, &job->table_down, in->height, job->h, filter);
    if (st != ESPALIER_OK) return st;

    if (job->across && job->premultiplied) {
        job->row_scratch = esi_alloc(ctx, in_row, n_slots, "resize rows");
        if (job->row_scratch == NULL) return ESPALIER_ERR_RESOURCE;
    }
    if (!job->down) {
        job->middle = job->out;
        return ESPALIER_OK;
    }
    job->sum_scratch = esi_alloc(ctx, out_row * n_slots, sizeof *job->sum_scratch, "resize rows");
    if (job->sum_scratch == NULL) return ESPALIER_ERR_RESOURCE;
    if (!job->across && !job->premultiplied) {
        job->middle = in->pixels;
        return ESPALIER_OK;
    }
    *middle = esi_alloc(ctx, out_row, in->height, "resize picture");
    if (*middle == NULL) return ESPALIER_ERR_RESOURCE;
    job->middle = *middle;
    return ESPALIER_OK;
}

espalier_status esi_image_resize(espalier_context *ctx, espalier_image *out, const espalier_image *in, uint32_t w, uint32_t h,
                                 esi_resize_filter filter)
{
    resize_job job = {.in = in, .w = w, .h = h, .across = w != in->width, .down = h != in->height};
    uint8_t *middle = NULL;

    espalier_status st = esi_image_new(ctx, out, w, h, in->channels);
    if (st != ESPALIER_OK) return st;
    if (!job.across && !job.down) {
        memcpy(out->pixels, in->pixels, esi_image_size(in));
        return ESPALIER_OK;
    }
    job.out = out->pixels;
    job.premultiplied = in->channels == 4;
    st = prepare(ctx, &job, filter, &middle);
    if (st == ESPALIER_OK) st = run_passes(ctx, &job);

    free_table(ctx, &job.table_across);
    free_table(ctx, &job.table_down);
    esi_free(ctx, job.row_scratch);
    esi_free(ctx, job.sum_scratch);
    esi_free(ctx, middle);
    if (st != ESPALIER_OK) espalier_image_free(out);
    return st;
}
