/* SPDX-License-Identifier: MIT
 *
 * bake_gutter.c: what lies between the charts. Viewers interpolate across a chart's border and average ever larger squares for mip maps,
 * so every texel outside must look like the chart it is next to.
 *
 * ESI_GUTTER_NEAREST: the whole atlas gets the colour of its nearest covered texel, by exact Euclidean distance: a chart's gutter holds
 * nothing but its own colours as far as half way to the next chart, and nothing is left black. The transform goes by columns, then by
 * rows along the lower envelope of parabolas (Felzenszwalb and Huttenlocher, Distance Transforms of Sampled Functions, 2012), in integers.
 * ESI_GUTTER_TELEA: inpainting with the radii of the reference.
 */
#include "mesh/bake_internal.h"
#include "mesh/telea.h"

#define NONE INT16_MIN
#define COLUMNS 64                 /* of one task */
#define ROWS 8

typedef struct gutter_job {
    const esi_bake_job *bake;
    int16_t *to_row;               /* [size][size] rows to the nearest covered texel of the column, NONE */
    int32_t *scratch;              /* [slots][2 * size + 1] */
} gutter_job;

static void scan_columns(void *arg, size_t task, int slot)
{
    const gutter_job *g = arg;
    const int32_t size = g->bake->size, begin = (int32_t)task * COLUMNS, end = ESI_MIN(begin + COLUMNS, size);
    int16_t last[COLUMNS];

    (void)slot;
    for (int32_t x = begin; x < end; x++) last[x - begin] = NONE;
    for (int32_t y = 0; y < size; y++) {
        for (int32_t x = begin; x < end; x++) {
            const int64_t at = (int64_t)y * size + x;
            int16_t *distance = &last[x - begin];

            if (g->bake->owner[at] >= 0) *distance = 0;
            else if (*distance != NONE) --*distance;           /* upwards is negative */
            g->to_row[at] = *distance;
        }
    }
    for (int32_t x = begin; x < end; x++) last[x - begin] = NONE;
    for (int32_t y = size - 1; y >= 0; y--) {
        for (int32_t x = begin; x < end; x++) {
            const int64_t at = (int64_t)y * size + x;
            int16_t *distance = &last[x - begin];

            if (g->bake->owner[at] >= 0) *distance = 0;
            else if (*distance != NONE) ++*distance;
            if (*distance != NONE && (g->to_row[at] == NONE || *distance < -g->to_row[at])) g->to_row[at] = *distance;
        }
    }
}

static int64_t squared(int64_t v)
{
    return v * v;
}

/* First column from which on the column `right` is nearer than `left` < right; ties stay with left. */
static int32_t takeover(const int16_t *to_row, int32_t left, int32_t right)
{
    const int64_t numerator = squared(right) + squared(to_row[right]) - squared(left) - squared(to_row[left]);
    const int64_t denominator = 2 * ((int64_t)right - left);
    const int64_t floor = numerator >= 0 ? numerator / denominator : -((-numerator + denominator - 1) / denominator);

    return (int32_t)ESI_MIN(ESI_MAX(floor + 1, INT32_MIN), INT32_MAX);
}

static void copy_texel(const esi_bake_job *job, int64_t to, int64_t from)
{
    memcpy(job->base + 4 * to, job->base + 4 * from, 4);
    memcpy(job->material + 3 * to, job->material + 3 * from, 3);
    if (job->normal_map) memcpy(job->normal_map + 3 * to, job->normal_map + 3 * from, 3);
}

static void fill_row(const gutter_job *g, int32_t y, int32_t *columns, int32_t *starts)
{
    const esi_bake_job *job = g->bake;
    const int32_t size = job->size;
    const int16_t *to_row = g->to_row + (int64_t)y * size;
    int32_t n = 0;

    for (int32_t x = 0; x < size; x++) {
        int32_t start = INT32_MIN;

        if (to_row[x] == NONE) continue;
        while (n > 0) {
            start = takeover(to_row, columns[n - 1], x);
            if (start > starts[n - 1]) break;
            n--;
            start = INT32_MIN;
        }
        columns[n] = x;
        starts[n++] = start;
    }
    for (int32_t x = 0, k = 0; n > 0 && x < size; x++) {
        const int64_t at = (int64_t)y * size + x;

        while (k + 1 < n && starts[k + 1] <= x) k++;
        if (job->owner[at] < 0) copy_texel(job, at, (int64_t)(y + to_row[columns[k]]) * size + columns[k]);
    }
}

static void fill_rows(void *arg, size_t task, int slot)
{
    const gutter_job *g = arg;
    const int32_t size = g->bake->size, begin = (int32_t)task * ROWS, end = ESI_MIN(begin + ROWS, size);
    int32_t *scratch = g->scratch + (int64_t)slot * 2 * size;

    for (int32_t y = begin; y < end; y++) fill_row(g, y, scratch, scratch + size);
}

static espalier_status fill_nearest(const esi_bake_job *job)
{
    const size_t size = (size_t)job->size;
    gutter_job g = {.bake = job};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    g.to_row = esi_alloc(job->ctx, size * size, sizeof *g.to_row, "nearest texels");
    g.scratch = esi_alloc(job->ctx, (size_t)esi_slots(job->ctx) * 2 * size, sizeof *g.scratch, "nearest texels");
    if (!g.to_row || !g.scratch) goto done;
    st = esi_parallel(job->ctx, (size + COLUMNS - 1) / COLUMNS, scan_columns, &g);
    if (st == ESPALIER_OK) st = esi_parallel(job->ctx, (size + ROWS - 1) / ROWS, fill_rows, &g);
done:
    esi_free(job->ctx, g.scratch);
    esi_free(job->ctx, g.to_row);
    return st;
}

static espalier_status fill_telea(const esi_bake_job *job)
{
    const size_t n = (size_t)job->size * (size_t)job->size;
    esi_telea_plane planes[6] = {
        {.pixels = job->base, .stride = 4, .channels = 3, .radius = 3.0},
        {.pixels = job->material + 2, .stride = 3, .channels = 1, .radius = 1.0},
        {.pixels = job->material + 1, .stride = 3, .channels = 1, .radius = 1.0},
        {.pixels = job->base + 3, .stride = 4, .channels = 1, .radius = 1.0},
    };
    int32_t n_planes = 4;
    uint8_t *mask = esi_alloc(job->ctx, n, 1, "texels to inpaint");
    espalier_status st;

    if (!mask) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) mask[i] = job->owner[i] < 0;
    if (job->options->occlusion_rays > 0) {
        planes[n_planes++] = (esi_telea_plane){.pixels = job->material, .stride = 3, .channels = 1, .radius = 1.0};
    }
    if (job->normal_map) planes[n_planes++] = (esi_telea_plane){.pixels = job->normal_map, .stride = 3, .channels = 3, .radius = 1.0};
    st = esi_telea_inpaint_planes(job->ctx, planes, n_planes, mask, job->size, job->size);
    esi_free(job->ctx, mask);
    return st;
}

espalier_status esi_bake_fill_gutter(esi_bake_job *job)
{
    return job->options->gutter == ESI_GUTTER_TELEA ? fill_telea(job) : fill_nearest(job);
}
