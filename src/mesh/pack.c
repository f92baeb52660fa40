/* SPDX-License-Identifier: MIT
 *
 * pack.c: charts into a square of exactly the texels asked for.
 *
 * At one scale: the cells every chart touches (pack_chart.h), the largest charts first, each in all its quarter turns to the place where
 * its middle comes to lie highest, first row first; hollows and holes of those before are open to the later ones (pack_grid.h). The scale
 * is bracketed and bisected; then, where that is cheap, larger scales are tried with the charts that did not fit moved forward in the
 * order. A cell is a texel up to MAX_CELLS, more texels beyond and, unless charts are small, while the scale is being looked for; what was
 * found with larger cells is valid too. Between two charts lie `padding` texels that neither of them touches, not even with a corner.
 */
#include "mesh/pack.h"

#include "base/math64.h"
#include "mesh/pack_chart.h"

#include <math.h>
#include <stdlib.h>

#define MAX_CELLS 4096                         /* per side */
#define COARSE_CELLS 1024                      /* at most, while the scale is being looked for; below, cells of two texels do */
#define COARSE_CHART 80                        /* unless a chart has a smaller square of the atlas on average (side in texels) */
#define MANY_CHARTS 2000                       /* beyond, not every row is searched for every chart, and nothing is tried twice */
#define CACHED_WORDS (INT64_C(8) << 20)        /* of masks that are kept between attempts */
#define EXPECTED_FILL 0.71                     /* of the square by charts and half their padding: where the search begins */
#define STEP 1.03
#define CLOSE 1.004                            /* ratio of scales at which bisection ends; */
#define CLOSE_MANY 1.012                       /* with many charts */
#define ATTEMPTS 6                             /* at one larger scale */
#define FINE_ATTEMPTS 2                        /* the same, with the final cells */
#define LEAST_STEP 0.002                       /* between scales; then other orders are tried */
#define DISTURBANCE 0.5                        /* of their keys at most */
#define DISTURBED_ATTEMPTS 3                   /* from one of them */
#define WORK_PER_FACE 220                      /* run look-ups for trying scales, in an atlas of 1024: about as long as making the charts */
#define LEAST_WORK (UINT64_C(1) << 20)
#define MOST_WORK (UINT64_C(30) << 20)
#define ORDERS_WORK 45                         /* percent of all work after which no more orders are tried */
#define CLASS_RATIO 0.95                       /* many charts: area at which the search starts from the first row again */
#define LOOK_BACK 2                            /* many charts: heights above the last place where the search for the next one begins */

typedef struct place { int32_t x, y, turn; } place;

typedef struct keyed { double key; int32_t chart; } keyed;

typedef struct packer {
    espalier_context *ctx;
    esi_pack_charts charts;
    int32_t atlas, padding, turns;
    keyed *order, *best_order;                 /* [n] by key, descending; where the best places come from */
    place *places, *best_places;               /* [n] in cells */
    double best_scale;                         /* 0: none yet */
    int32_t best_cell;
    /* at one scale */
    double scale;
    int32_t cell;
    bool impossible;                           /* a chart is larger than the square */
    int32_t *levels;                           /* [n] grid levels needed after the ith of the order */
    int64_t *mask_start;                       /* [n] */
    uint64_t *masks;                           /* of all charts, or NULL: too many, made one by one */
    int64_t cap_masks;
    esi_pack_grid grid;
    esi_pack_shape shape;
    esi_pack_mask one, turned[4], grown;       /* of the chart in hand */
    esi_pack_mask *scratch;                    /* [slots] */
    /* of one attempt */
    int32_t failed;                            /* chart that did not fit */
    int32_t from_row[4];
    double class_area;
    uint64_t work;
} packer;

static int32_t cells_of(const packer *p, int32_t texels) { return (texels + p->cell - 1) / p->cell; }

static int32_t chart_width(const packer *p, int32_t chart) { return cells_of(p, p->charts.charts[chart].width); }

static int32_t chart_height(const packer *p, int32_t chart) { return cells_of(p, p->charts.charts[chart].height); }

/* ------------------------------------------------------------ one scale */

static esi_pack_mask chart_mask(const packer *p, int32_t chart)
{
    esi_pack_mask m = {.width = chart_width(p, chart), .height = chart_height(p, chart)};

    m.words = p->masks + p->mask_start[chart];
    m.stride = (m.width + 63) / 64;
    return m;
}

static void make_mask(void *arg, size_t task, int slot)
{
    const packer *p = arg;
    esi_pack_mask m = chart_mask(p, (int32_t)task);

    memset(m.words, 0, (size_t)esi_pack_mask_words(m.width, m.height) * sizeof *m.words);
    (void)esi_pack_chart_cells(p->ctx, &p->charts, (int32_t)task, &m, p->cell, &p->scratch[slot], false);       /* records failures */
}

static espalier_status make_masks(packer *p)
{
    int64_t words = 0;

    for (int32_t i = 0; i < p->charts.n; i++) {
        p->mask_start[i] = words;
        words += esi_pack_mask_words(chart_width(p, i), chart_height(p, i));
        if (words > CACHED_WORDS) break;
    }
    if (words > p->cap_masks || words > CACHED_WORDS) {
        esi_free(p->ctx, p->masks);
        p->masks = NULL;
        p->cap_masks = 0;
    }
    if (words > CACHED_WORDS) return ESPALIER_OK;
    if (!p->masks) {
        p->masks = esi_alloc(p->ctx, (size_t)words, sizeof *p->masks, "cells of all charts");
        if (!p->masks) return ESPALIER_ERR_RESOURCE;
        p->cap_masks = words;
    }
    return esi_parallel(p->ctx, (size_t)p->charts.n, make_mask, p);
}

static int32_t levels_for(int32_t cells)
{
    int32_t k = 1;

    while (cells >>= 1) k++;
    return k;
}

/* Boxes, masks and an empty grid. */
static espalier_status set_scale(packer *p, double scale, int32_t cell)
{
    const int32_t side = (p->atlas - 2 * p->padding) / cell;
    int32_t longest = 1;
    espalier_status st = esi_pack_charts_fit(p->ctx, &p->charts, scale);

    if (st != ESPALIER_OK) return st;
    p->scale = scale;
    p->cell = cell;
    for (int32_t i = 0; i < p->charts.n; i++) longest = ESI_MAX(longest, ESI_MAX(chart_width(p, i), chart_height(p, i)));
    p->impossible = longest > side;
    esi_pack_grid_free(p->ctx, &p->grid);
    if (p->impossible) return ESPALIER_OK;
    if ((st = make_masks(p)) != ESPALIER_OK) return st;
    return esi_pack_grid_new(p->ctx, &p->grid, side, longest);
}

/* ------------------------------------------------------------ one chart */

/* Best place over the turns; false in *fits when there is none. */
static espalier_status find_place(packer *p, const esi_pack_mask *mask, place *best, bool *fits, int depth)
{
    const esi_pack_mask *m = mask;
    esi_pack_square square;
    int64_t best_height = INT64_MAX;           /* of the middle, in half cells */
    espalier_status st;

    *fits = false;
    *best = (place){0};
    if ((st = esi_pack_shape_square(p->ctx, &p->shape, mask, &square)) != ESPALIER_OK) return st;
    if (square.level < 0) {                    /* a chart without faces */
        *fits = true;
        return ESPALIER_OK;
    }
    for (int t = 0; t < p->turns; t++) {
        int32_t x, y, limit = p->grid.size;

        if (t > 0) {
            if ((st = esi_pack_mask_turn(p->ctx, &p->turned[t], m)) != ESPALIER_OK) return st;
            square = esi_pack_square_turn(square, m);
            m = &p->turned[t];
        }
        if ((st = esi_pack_shape_set(p->ctx, &p->shape, &p->grid, m, square)) != ESPALIER_OK) return st;
        p->work += (uint64_t)p->shape.n_runs + 200;
        if (*fits) limit = (int32_t)((best_height - depth * m->height - 1) / 2);
        if (p->charts.n <= MANY_CHARTS) p->from_row[t] = 0;
        const bool found = esi_pack_grid_find(&p->grid, &p->shape, p->from_row[t], limit, &x, &y, &p->work);

        p->from_row[t] = ESI_MAX(p->from_row[t], (found ? y : limit) - LOOK_BACK * m->height);
        if (!found) continue;
        best_height = 2 * (int64_t)y + depth * m->height;
        *best = (place){x, y, t};
        *fits = true;
    }
    return ESPALIER_OK;
}

static espalier_status place_chart(packer *p, int32_t chart, int32_t levels, int depth, bool *fits)
{
    const int32_t frame = cells_of(p, p->padding);
    esi_pack_mask m;
    espalier_status st;

    if (p->masks) {
        m = chart_mask(p, chart);
    } else {
        if ((st = esi_pack_mask_set(p->ctx, &p->one, chart_width(p, chart), chart_height(p, chart))) != ESPALIER_OK) return st;
        if ((st = esi_pack_chart_cells(p->ctx, &p->charts, chart, &p->one, p->cell, &p->scratch[0], false)) != ESPALIER_OK) return st;
        m = p->one;
    }
    if ((st = find_place(p, &m, &p->places[chart], fits, depth)) != ESPALIER_OK || !*fits) return st;
    const place *at = &p->places[chart];

    if ((st = esi_pack_mask_grow(p->ctx, &p->grown, at->turn > 0 ? &p->turned[at->turn] : &m, frame)) != ESPALIER_OK) return st;
    esi_pack_grid_take(&p->grid, &p->grown, at->x - frame, at->y - frame, levels);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ all charts */

static int compare_keys(const void *a, const void *b)
{
    const keyed *p = a, *q = b;

    if (p->key != q->key) return p->key > q->key ? -1 : 1;
    return p->chart < q->chart ? -1 : p->chart > q->chart;
}

/* All charts in their order, at the scale set. depth: 1 = the middle as high as possible, 2 = the far end. */
static espalier_status attempt(packer *p, int depth, bool *fits)
{
    const int32_t n = p->charts.n;
    espalier_status st;
    int32_t levels = 1;

    *fits = false;
    p->failed = -1;
    if (p->impossible) return ESPALIER_OK;
    for (int32_t i = n - 1; i >= 0; i--) {
        p->levels[i] = levels;
        levels = ESI_MAX(levels, levels_for(ESI_MAX(chart_width(p, p->order[i].chart), chart_height(p, p->order[i].chart))));
    }
    esi_pack_grid_clear(&p->grid);
    p->work += (uint64_t)p->grid.all_levels * (uint64_t)p->grid.size * (uint64_t)p->grid.stride / 16;
    for (int32_t i = 0; i < n; i++) {
        const int32_t chart = p->order[i].chart;
        const double area = p->charts.charts[chart].area;

        if (i % 32 == 0 && (st = esi_check_cancel(p->ctx)) != ESPALIER_OK) return st;
        if (i == 0 || area < p->class_area * CLASS_RATIO) {
            memset(p->from_row, 0, sizeof p->from_row);
            p->class_area = area;
        }
        if ((st = place_chart(p, chart, p->levels[i], depth, fits)) != ESPALIER_OK) return st;
        if (*fits) continue;
        p->failed = i;
        return ESPALIER_OK;
    }
    *fits = true;
    if (p->scale > p->best_scale) {
        p->best_scale = p->scale;
        p->best_cell = p->cell;
        memcpy(p->best_places, p->places, (size_t)n * sizeof *p->places);
        memcpy(p->best_order, p->order, (size_t)n * sizeof *p->order);
    }
    return ESPALIER_OK;
}

static espalier_status try_scale(packer *p, double scale, int32_t cell, bool *fits)
{
    espalier_status st = set_scale(p, scale, cell);

    return st == ESPALIER_OK ? attempt(p, 1, fits) : st;
}

/* ------------------------------------------------------------ the largest scale */

/* Scale at which charts, widened by half the padding and half a texel along their boxes, fill the expected share. */
static double expected_scale(const packer *p)
{
    const double side = p->atlas - p->padding, border = p->padding + 1.0;
    double around = 0.0, b, c;

    for (int32_t i = 0; i < p->charts.n; i++) around += p->charts.charts[i].extent[0] + p->charts.charts[i].extent[1];
    b = around * border * 0.9;
    c = p->charts.n * border * border * 0.5 - EXPECTED_FILL * side * side;
    if (c >= 0.0) return 0.0;
    return (sqrt(b * b - 4.0 * p->charts.area * c) - b) / (2.0 * p->charts.area);
}

static double longest_extent(const packer *p)
{
    double longest = 0.0;

    for (int32_t i = 0; i < p->charts.n; i++) {
        const esi_pack_chart *c = &p->charts.charts[i];

        if (c->radius > 0.0) longest = ESI_MAX(longest, ESI_MAX(c->extent[0], c->extent[1]));
    }
    return longest;
}

/* Smallest side of an atlas that surely holds n charts of one texel each. */
static int32_t least_side(int32_t n, int32_t padding)
{
    for (int32_t side = 16; side <= 16384; side++) {
        const int32_t cell = (side + MAX_CELLS - 1) / MAX_CELLS, pitch = 1 + (padding + cell - 1) / cell;
        const int64_t cells = (side - 2 * padding) / cell, row = cells > 0 ? (cells - 1) / pitch + 1 : 0;

        if (row * row >= n) return side;
    }
    return 0;
}

static espalier_status too_small(const packer *p)
{
    const int32_t n = p->charts.n, least = least_side(n, p->padding);

    if (least == 0) {
        return esi_fail(p->ctx, ESPALIER_ERR_ARG, "pack: no atlas can hold %d charts with a padding of %d texels; use less padding", n,
                        p->padding);
    }
    return esi_fail(p->ctx, ESPALIER_ERR_ARG, "pack: an atlas of %d texels is too small for %d charts with a padding of %d; ask for %d",
                    p->atlas, n, p->padding, least);
}

/* Some scale that fits and one that does not, close to each other. */
static espalier_status bracket(packer *p, double least, int32_t cell)
{
    espalier_status st;
    const double close = p->charts.n > MANY_CHARTS ? CLOSE_MANY : CLOSE;
    double scale = ESI_MAX(expected_scale(p), least), step = STEP, above = 0.0;
    bool fits = false;

    while (!fits) {                            /* down */
        if ((st = try_scale(p, scale, cell, &fits)) != ESPALIER_OK) return st;
        if (fits) break;
        if (scale <= least) return too_small(p);
        above = scale;
        scale = ESI_MAX(scale / step, least);
        step *= step;
    }
    for (step = STEP; above == 0.0; step *= step) {        /* up */
        scale = p->best_scale * step;
        if ((st = try_scale(p, scale, cell, &fits)) != ESPALIER_OK) return st;
        if (!fits) above = scale;
    }
    while (above > p->best_scale * close) {
        scale = sqrt(above * p->best_scale);
        if ((st = try_scale(p, scale, cell, &fits)) != ESPALIER_OK) return st;
        if (!fits) above = scale;
    }
    return ESPALIER_OK;
}

/* What does not fit goes in earlier the next time. */
static void move_forward(packer *p, int32_t i)
{
    p->order[i].key *= 1.3;
    qsort(p->order, (size_t)p->charts.n, sizeof *p->order, compare_keys);
}

/* The best order so far, disturbed. */
static void disturb(packer *p, uint64_t *seed)
{
    for (int32_t i = 0; i < p->charts.n; i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);       /* Knuth's MMIX */
        p->order[i] = p->best_order[i];
        p->order[i].key *= 1.0 + DISTURBANCE * (double)(*seed >> 40) / (1 << 24);
    }
    qsort(p->order, (size_t)p->charts.n, sizeof *p->order, compare_keys);
}

/* The scale is larger by `step`; by less where that does not work out; and by the least step from other orders. */
static espalier_status improve(packer *p, int32_t cell, int attempts, double step, uint64_t most_work)
{
    uint64_t limit = most_work, seed = 1;
    bool fits = true;

    memcpy(p->order, p->best_order, (size_t)p->charts.n * sizeof *p->order);
    while (p->work < limit) {
        espalier_status st;

        if (fits || limit == most_work) {
            if ((st = set_scale(p, p->best_scale * (1.0 + step), cell)) != ESPALIER_OK) return st;
        }
        fits = false;
        for (int i = 0; i < attempts && !fits && p->work < limit; i++) {
            if ((st = attempt(p, 1 + i % 2, &fits)) != ESPALIER_OK) return st;
            if (p->failed >= 0) move_forward(p, p->failed);
            else break;
        }
        if (fits) continue;
        if (step * 0.5 > LEAST_STEP) {
            step *= 0.5;
            continue;
        }
        if (p->impossible || p->charts.n == 1) break;      /* in whatever order */
        limit = most_work * ORDERS_WORK / 100;
        attempts = DISTURBED_ATTEMPTS;
        disturb(p, &seed);
    }
    return ESPALIER_OK;
}

static int32_t coarse_cell(const packer *p, int32_t fine)
{
    const int64_t texels = (int64_t)p->atlas * p->atlas;

    if (p->charts.n > MANY_CHARTS || texels < (int64_t)COARSE_CHART * COARSE_CHART * p->charts.n) return fine;
    return ESI_MAX(ESI_MAX(fine, p->atlas / COARSE_CELLS), ESI_MIN(2, 2 * p->atlas / COARSE_CELLS));
}

static uint64_t work_allowed(const packer *p)
{
    const uint64_t atlas = (uint64_t)ESI_MAX(p->atlas, 1024), faces = ESI_MIN((uint64_t)p->charts.mesh->n_faces, MOST_WORK / WORK_PER_FACE);

    return ESI_MIN(ESI_MAX(faces * WORK_PER_FACE, LEAST_WORK) * atlas / 1024 * atlas / 1024, MOST_WORK);
}

static espalier_status find_scale(packer *p)
{
    const int32_t fine = (p->atlas + MAX_CELLS - 1) / MAX_CELLS;
    const int32_t coarse = coarse_cell(p, fine);
    const uint64_t most_work = work_allowed(p);
    const double longest = longest_extent(p);
    espalier_status st;
    bool fits = true;

    if (!(longest > 0.0)) {                    /* points only */
        if ((st = try_scale(p, 1.0, fine, &fits)) != ESPALIER_OK) return st;
        return fits ? ESPALIER_OK : too_small(p);
    }
    if ((st = bracket(p, 0.5 / longest, coarse)) != ESPALIER_OK || p->charts.n > MANY_CHARTS) return st;
    if (fine == coarse) return improve(p, fine, ATTEMPTS, 0.008, most_work);
    if ((st = improve(p, coarse, ATTEMPTS, 0.008, most_work / 2)) != ESPALIER_OK) return st;
    return improve(p, fine, FINE_ATTEMPTS, 0.012, most_work);
}

/* ------------------------------------------------------------ result */

static void write_chart(void *arg, size_t task, int slot)
{
    void **args = arg;
    const packer *p = args[0];
    float *out = args[1];
    const place *at = &p->best_places[task];
    const double width = (double)chart_width(p, (int32_t)task) * p->cell, height = (double)chart_height(p, (int32_t)task) * p->cell;

    (void)slot;
    for (int32_t i = p->charts.start[task]; i < p->charts.start[task + 1]; i++) {
        const int32_t face = p->charts.faces[i];
        double corner[3][2];

        esi_pack_corners(&p->charts, (int32_t)task, face, corner);
        for (int k = 0; k < 3; k++) {
            const double x = corner[k][0], y = corner[k][1];
            const double turned[4][2] = {{x, y}, {height - y, x}, {width - x, height - y}, {y, width - x}};
            const double u = turned[at->turn][0] + (double)at->x * p->cell + p->padding;
            const double v = turned[at->turn][1] + (double)at->y * p->cell + p->padding;

            out[6 * (int64_t)face + 2 * k] = (float)(u / p->atlas);
            out[6 * (int64_t)face + 2 * k + 1] = (float)(v / p->atlas);
        }
    }
}

static espalier_status write_result(packer *p, float **corner_uv, esi_pack_stats *stats)
{
    const int64_t n_faces = p->charts.mesh->n_faces;
    espalier_status st;
    void *args[2] = {p, NULL};
    double area = 0.0;
    float *uv = esi_alloc(p->ctx, (size_t)n_faces, 6 * sizeof *uv, "texture coordinates");

    if (!uv) return ESPALIER_ERR_RESOURCE;
    args[1] = uv;
    p->cell = p->best_cell;
    st = esi_pack_charts_fit(p->ctx, &p->charts, p->best_scale);
    if (st == ESPALIER_OK) st = esi_parallel(p->ctx, (size_t)p->charts.n, write_chart, args);
    if (st != ESPALIER_OK) {
        esi_free(p->ctx, uv);
        return st;
    }
    *corner_uv = uv;
    if (!stats) return ESPALIER_OK;
    for (int64_t f = 0; f < n_faces; f++) {
        const float *c = uv + 6 * f;
        const double x1 = (double)c[2] - (double)c[0], y1 = (double)c[3] - (double)c[1];
        const double x2 = (double)c[4] - (double)c[0], y2 = (double)c[5] - (double)c[1];

        area += esi_fabs(x1 * y2 - y1 * x2) / 2.0;
    }
    *stats = (esi_pack_stats){.texels_per_unit = p->best_scale, .utilisation = area};
    for (int32_t i = 0; i < p->charts.n; i++) stats->enlarged_charts += p->charts.charts[i].enlarged;
    return ESPALIER_OK;
}

static espalier_status allocate(packer *p)
{
    const size_t n = (size_t)p->charts.n;

    p->order = esi_alloc(p->ctx, n, sizeof *p->order, "order of charts");
    p->best_order = esi_alloc(p->ctx, n, sizeof *p->best_order, "order of charts");
    p->places = esi_alloc(p->ctx, n, sizeof *p->places, "places of charts");
    p->best_places = esi_alloc(p->ctx, n, sizeof *p->best_places, "places of charts");
    p->levels = esi_alloc(p->ctx, n, sizeof *p->levels, "charts to pack");
    p->mask_start = esi_alloc(p->ctx, n, sizeof *p->mask_start, "charts to pack");
    p->scratch = esi_calloc(p->ctx, (size_t)esi_slots(p->ctx), sizeof *p->scratch, "charts to pack");
    if (!p->scratch || !p->order || !p->best_order || !p->places || !p->best_places || !p->levels || !p->mask_start) {
        return ESPALIER_ERR_RESOURCE;
    }
    for (int32_t i = 0; i < p->charts.n; i++) p->order[i] = (keyed){p->charts.charts[i].area, i};
    qsort(p->order, n, sizeof *p->order, compare_keys);
    return ESPALIER_OK;
}

static void release(packer *p)
{
    esi_pack_charts_free(p->ctx, &p->charts);
    esi_free(p->ctx, p->order);
    esi_free(p->ctx, p->best_order);
    esi_free(p->ctx, p->places);
    esi_free(p->ctx, p->best_places);
    esi_free(p->ctx, p->levels);
    esi_free(p->ctx, p->mask_start);
    esi_free(p->ctx, p->masks);
    esi_pack_grid_free(p->ctx, &p->grid);
    esi_pack_shape_free(p->ctx, &p->shape);
    esi_pack_mask_free(p->ctx, &p->one);
    for (int t = 0; t < 4; t++) esi_pack_mask_free(p->ctx, &p->turned[t]);
    esi_pack_mask_free(p->ctx, &p->grown);
    for (int i = 0; p->scratch && i < esi_slots(p->ctx); i++) esi_pack_mask_free(p->ctx, &p->scratch[i]);
    esi_free(p->ctx, p->scratch);
}

espalier_status esi_charts_pack(espalier_context *ctx, float **corner_uv, const esi_charts *charts, const esi_mesh *mesh,
                                const esi_pack_options *options, esi_pack_stats *stats)
{
    packer p = {.ctx = ctx, .atlas = (int32_t)options->atlas_size, .turns = options->rotate ? 4 : 1};
    espalier_status st;

    *corner_uv = NULL;
    if (stats) *stats = (esi_pack_stats){0};
    if (options->atlas_size < 16 || options->atlas_size > 16384) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "pack: an atlas of %u texels; 16 to 16384 are possible", options->atlas_size);
    }
    if (!(options->padding >= 0.0 && options->padding * 2.0 + 1.0 <= options->atlas_size)) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "pack: a padding of %g texels leaves nothing of an atlas of %u", options->padding,
                        options->atlas_size);
    }
    p.padding = (int32_t)esi_ceil(options->padding);
    if ((st = esi_pack_charts_prepare(ctx, &p.charts, charts, mesh, options->rotate)) != ESPALIER_OK) goto done;
    if ((st = allocate(&p)) != ESPALIER_OK) goto done;
    if (p.charts.n > 0 && (st = find_scale(&p)) != ESPALIER_OK) goto done;
    st = write_result(&p, corner_uv, stats);
done:
    release(&p);
    return st;
}
