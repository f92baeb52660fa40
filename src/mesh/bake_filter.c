/* SPDX-License-Identifier: MIT
 *
 * bake_filter.c: specks of metallic and roughness: a few texels that differ from everything around them, which viewers show as black or
 * glaring dots.
 *
 * A texel is suspect when it differs by more than SPECK_STEP from most of eight texels around it, at a distance that a speck of the size
 * asked for cannot bridge. The patch of texels (of the same chart) around a suspect that differ as much, to the same side, from the median
 * of its neighbourhood is a speck if it has no more texels than asked for; then all of it gets the median. Lines and larger marks are
 * longer than that and stay, however thin.
 */
#include "mesh/bake_internal.h"

#define SPECK_STEP 24              /* of 255 */
#define LIST_FIRST 1024

typedef struct change {
    int64_t at;                    /* byte of the material picture */
    uint8_t value;
} change;

typedef struct change_list {
    change *items;
    size_t count, capacity;
} change_list;

typedef struct filter_job {
    const esi_bake_job *bake;
    int32_t limit, reach;
    change_list *bands;
} filter_job;

/* One speck being looked at. */
typedef struct patch {
    const filter_job *job;
    int32_t chart, x, y, channel;
    int median, side;              /* +1: brighter than the median */
    int count;
    int32_t texels[ESI_BAKE_MAX_SPECK + 1][2];
} patch;

static int32_t chart_at(const esi_bake_job *job, int32_t x, int32_t y)
{
    int32_t face;

    if (x < 0 || y < 0 || x >= job->size || y >= job->size) return -1;
    face = job->owner[(int64_t)y * job->size + x];
    return face < 0 ? -1 : job->input->unwrapped->face_chart[face];
}

static int value_at(const esi_bake_job *job, int32_t x, int32_t y, int32_t channel)
{
    return job->material[3 * ((int64_t)y * job->size + x) + channel];
}

/* At most a quarter of the texels around, at least five of which there must be, are like this one. */
static bool suspect(const filter_job *j, int32_t x, int32_t y, int32_t chart, int32_t channel)
{
    const int32_t r = j->reach, d = (r * 181 + 128) / 256;         /* r / sqrt 2 */
    const int32_t around[8][2] = {{r, 0}, {d, d}, {0, r}, {-d, d}, {-r, 0}, {-d, -d}, {0, -r}, {d, -d}};
    const int value = value_at(j->bake, x, y, channel);
    int there = 0, alike = 0;

    for (int i = 0; i < 8 && alike < 3; i++) {
        const int32_t qx = x + around[i][0], qy = y + around[i][1];
        int difference;

        if (chart_at(j->bake, qx, qy) != chart) continue;
        difference = value - value_at(j->bake, qx, qy, channel);
        there++;
        alike += difference <= SPECK_STEP && difference >= -SPECK_STEP;
    }
    return there >= 5 && 4 * alike <= there;
}

/* Of some 50 texels evenly spread over the neighbourhood. */
static int median_around(const filter_job *j, int32_t x, int32_t y, int32_t chart, int32_t channel)
{
    const int32_t step = 1 + j->reach / 4;
    int32_t histogram[256] = {0}, total = 0, seen = 0;
    int value = 0;

    for (int32_t qy = y - j->reach; qy <= y + j->reach; qy += step) {
        for (int32_t qx = x - j->reach; qx <= x + j->reach; qx += step) {
            if (chart_at(j->bake, qx, qy) != chart) continue;
            histogram[value_at(j->bake, qx, qy, channel)]++;
            total++;
        }
    }
    for (seen = histogram[0]; 2 * seen < total; seen += histogram[value]) value++;
    return value;
}

static bool in_patch(const patch *p, int32_t x, int32_t y)
{
    for (int i = 0; i < p->count; i++) {
        if (p->texels[i][0] == x && p->texels[i][1] == y) return true;
    }
    return false;
}

/* Grows until nothing is left to add or the limit is passed. 8-connected. */
static void grow_patch(patch *p)
{
    const esi_bake_job *bake = p->job->bake;

    p->texels[0][0] = p->x;
    p->texels[0][1] = p->y;
    p->count = 1;
    for (int i = 0; i < p->count; i++) {
        for (int k = 0; k < 9; k++) {
            const int32_t x = p->texels[i][0] + k % 3 - 1, y = p->texels[i][1] + k / 3 - 1;

            if (chart_at(bake, x, y) != p->chart || (value_at(bake, x, y, p->channel) - p->median) * p->side <= SPECK_STEP) continue;
            if (in_patch(p, x, y)) continue;
            if (p->count > p->job->limit) return;
            p->texels[p->count][0] = x;
            p->texels[p->count++][1] = y;
        }
    }
}

static espalier_status add_change(espalier_context *ctx, change_list *list, int64_t at, uint8_t value)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? LIST_FIRST : 2 * list->capacity;
        change *grown = esi_realloc(ctx, list->items, capacity, sizeof *grown, "specks");

        if (!grown) return ESPALIER_ERR_RESOURCE;
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = (change){.at = at, .value = value};
    return ESPALIER_OK;
}

/* The picture is read only until all specks are known, so what is found does not depend on the order. */
static espalier_status look_at(const filter_job *j, change_list *list, int32_t x, int32_t y, int32_t channel)
{
    patch p = {.job = j, .chart = chart_at(j->bake, x, y), .x = x, .y = y, .channel = channel};
    int difference;

    if (!suspect(j, x, y, p.chart, channel)) return ESPALIER_OK;
    p.median = median_around(j, x, y, p.chart, channel);
    difference = value_at(j->bake, x, y, channel) - p.median;
    if (difference <= SPECK_STEP && difference >= -SPECK_STEP) return ESPALIER_OK;
    p.side = difference > 0 ? 1 : -1;
    grow_patch(&p);
    if (p.count > j->limit) return ESPALIER_OK;
    return add_change(j->bake->ctx, list, 3 * ((int64_t)y * j->bake->size + x) + channel, (uint8_t)p.median);
}

static void search_band(void *arg, size_t task, int slot)
{
    const filter_job *j = arg;
    const int32_t size = j->bake->size, begin = (int32_t)task * ESI_BAKE_BAND, end = ESI_MIN(begin + ESI_BAKE_BAND, size);
    espalier_status st = ESPALIER_OK;

    (void)slot;
    for (int32_t y = begin; st == ESPALIER_OK && y < end; y++) {
        for (int32_t x = 0; st == ESPALIER_OK && x < size; x++) {
            if (j->bake->owner[(int64_t)y * size + x] < 0) continue;
            st = look_at(j, &j->bands[task], x, y, 1);
            if (st == ESPALIER_OK) st = look_at(j, &j->bands[task], x, y, 2);
        }
    }
}

/* Distance that no patch of so many texels can reach across both ways. */
static int32_t speck_reach(int32_t texels)
{
    int32_t side = 1;

    while (side * side < texels) side++;
    return side + 1;
}

espalier_status esi_bake_despeckle(esi_bake_job *job)
{
    const size_t bands = (size_t)((job->size + ESI_BAKE_BAND - 1) / ESI_BAKE_BAND);
    filter_job j = {.bake = job};
    espalier_status st;

    j.limit = job->options->despeckle;
    if (j.limit <= 0) return ESPALIER_OK;
    j.reach = speck_reach(j.limit);
    j.bands = esi_calloc(job->ctx, bands, sizeof *j.bands, "specks");
    if (!j.bands) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(job->ctx, bands, search_band, &j);
    for (size_t b = 0; b < bands; b++) {
        for (size_t i = 0; st == ESPALIER_OK && i < j.bands[b].count; i++) {
            job->material[j.bands[b].items[i].at] = j.bands[b].items[i].value;
            job->stats->despeckled++;
        }
        esi_free(job->ctx, j.bands[b].items);
    }
    esi_free(job->ctx, j.bands);
    return st;
}
