/* SPDX-License-Identifier: MIT
 *
 * chart_pieces.c: the pieces of one round laid flat, many at a time, and what to do with those that failed: a few faces in the way of a
 * larger one are carved out of it, others are cut in two.
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define FACES_PER_TASK 1024        /* of pieces laid flat by one task, at least */
#define CARVE_SHARE 16             /* faces of a piece for each that may be carved out of it */
#define ROUGH_STRETCH 2.0          /* of the limit for pieces of a rough surface, which cannot be laid flat as they are */

static bool reserve_pieces(chart_creation *c)
{
    size_t n = (size_t)c->n_pieces, capacity = n + n / 2 + 64;
    uint8_t *bytes;
    int32_t *numbers;
    int64_t *steps;

    if (c->n_pieces < c->piece_capacity) return true;
    bytes = esi_realloc(c->ctx, c->verdict, capacity, sizeof *c->verdict, "chart verdicts");
    if (!bytes) return false;
    c->verdict = bytes;
    bytes = esi_realloc(c->ctx, c->method, capacity, sizeof *c->method, "chart methods");
    if (!bytes) return false;
    c->method = bytes;
    steps = esi_realloc(c->ctx, c->work, capacity, sizeof *c->work, "chart work");
    if (!steps) return false;
    c->work = steps;
    numbers = esi_realloc(c->ctx, c->start, capacity + 1, sizeof *c->start, "chart lists");
    if (!numbers) return false;
    c->start = numbers;
    numbers = esi_realloc(c->ctx, c->task_piece, capacity + 1, sizeof *c->task_piece, "chart tasks");
    if (!numbers) return false;
    c->task_piece = numbers;
    c->piece_capacity = (int64_t)capacity;
    return true;
}

/* Members of the pieces of this round, ascending in each. */
static void list_members(chart_creation *c)
{
    const int32_t *piece = c->out->face_chart;
    int64_t n_faces = c->faces.mesh->n_faces;

    for (int32_t p = c->first; p <= c->n_pieces; p++) c->start[p] = 0;
    for (int64_t f = 0; f < n_faces; f++)
        if (c->group[f] >= 0) c->start[piece[f] + 1]++;
    for (int32_t p = c->first; p < c->n_pieces; p++) c->start[p + 1] += c->start[p];
    for (int64_t f = 0; f < n_faces; f++)
        if (c->group[f] >= 0) c->members[c->start[piece[f]]++] = (int32_t)f;
    for (int32_t p = c->n_pieces; p > c->first; p--) c->start[p] = c->start[p - 1];
    c->start[c->first] = 0;
}

static size_t cut_tasks(chart_creation *c)
{
    size_t n = 0;
    int32_t from = c->first;

    while (from < c->n_pieces) {
        c->task_piece[n++] = from;
        int32_t begin = c->start[from];
        while (from < c->n_pieces && c->start[from] - begin < FACES_PER_TASK) from++;
    }
    c->task_piece[n] = c->n_pieces;
    return n;
}

/* ------------------------------------------------------------- flattening */

static void keep_flat(chart_creation *c, const chart_flat *flat)
{
    double uv_area = 0.0, scale = 1.0, low[2] = {INFINITY, INFINITY};

    for (int32_t i = 0; i < flat->n_faces; i++) {
        const double *p[3];
        for (size_t k = 0; k < 3; k++) p[k] = flat->uv + 2 * (size_t)flat->corner[3 * (size_t)i + k];
        uv_area += 0.5 * ((p[1][0] - p[0][0]) * (p[2][1] - p[0][1]) - (p[1][1] - p[0][1]) * (p[2][0] - p[0][0]));
    }
    if (flat->area > 0.0 && uv_area > 0.0) scale = sqrt(flat->area / uv_area);
    for (int32_t v = 0; v < flat->n_vertices; v++)
        for (size_t k = 0; k < 2; k++) low[k] = ESI_MIN(low[k], flat->uv[2 * (size_t)v + k]);
    for (int32_t i = 0; i < flat->n_faces; i++) {
        float *out = c->out->corner_uv + 6 * (size_t)flat->members[i];
        for (size_t k = 0; k < 6; k++)
            out[k] = (float)(scale * (flat->uv[2 * (size_t)flat->corner[3 * (size_t)i + k / 2] + k % 2] - low[k % 2]));
    }
}

/* Halves across the longest side of the piece's box, at the mean of the faces' first corners. */
static void halve(chart_creation *c, const chart_flat *flat)
{
    double low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY}, mean[3] = {0.0, 0.0, 0.0}, p[3];
    int axis = 0;

    for (int32_t i = 0; i < flat->n_faces; i++) {
        chart_corner_position(p, c->faces.mesh, 3 * flat->members[i]);
        for (int k = 0; k < 3; k++) {
            low[k] = ESI_MIN(low[k], p[k]);
            high[k] = ESI_MAX(high[k], p[k]);
            mean[k] += p[k] / flat->n_faces;
        }
    }
    for (int k = 1; k < 3; k++)
        if (high[k] - low[k] > high[axis] - low[axis]) axis = k;
    for (int32_t i = 0; i < flat->n_faces; i++) {
        chart_corner_position(p, c->faces.mesh, 3 * flat->members[i]);
        c->role[flat->members[i]] = p[axis] < mean[axis] ? CHART_ROLE_FIRST : CHART_ROLE_SECOND;
    }
}

/* What to do with a piece that failed: a few faces in the way of a larger one are taken out of it; else it is cut in two. */
static void plan_cut(chart_creation *c, const chart_flat *flat)
{
    bool carve = flat->n_carve > 0 && flat->n_carve <= CHART_CARVE && CARVE_SHARE * flat->n_carve < flat->n_faces &&
                 c->may_carve;

    for (int32_t i = 0; i < flat->n_faces; i++) c->role[flat->members[i]] = carve ? CHART_ROLE_FIRST : CHART_ROLE_NONE;
    for (int32_t i = 0; carve && i < flat->n_carve; i++) c->role[flat->members[flat->carve[i]]] = CHART_ROLE_SECOND;
    if (!carve && c->halve) halve(c, flat);
}

static bool is_rough(const chart_creation *c, int32_t first, int32_t count)
{
    int32_t rough = 0;

    for (int32_t i = first; i < first + count && c->calm; i++)
        rough += memcmp(c->calm + 3 * (size_t)c->members[i], c->faces.normal + 3 * (size_t)c->members[i], 3 * sizeof *c->calm) != 0;
    return 2 * rough > count;
}

static void flatten_task(void *arg, size_t task, int slot)
{
    chart_creation *c = arg;
    chart_flat *flat = &c->flat[slot];
    chart_lists lists = {&c->faces, c->out->face_chart, c->members, c->place};

    for (int32_t p = c->task_piece[task]; p < c->task_piece[task + 1]; p++) {
        chart_verdict verdict;
        esi_chart_method method;
        double max_stretch = c->max_stretch;
        if (is_rough(c, c->start[p], c->start[p + 1] - c->start[p])) max_stretch *= ROUGH_STRETCH;
        if (chart_flatten(c->ctx, flat, &lists, c->start[p], c->start[p + 1] - c->start[p], max_stretch, c->plane_only, &verdict,
                          &method) != ESPALIER_OK)
            return;
        c->work[p] = flat->work;
        if (c->single_faces) verdict = CHART_GOOD; /* its own shape */
        c->verdict[p] = (uint8_t)verdict;
        if (c->single_faces || (c->plane_only && method == ESI_CHART_PLANE)) method = ESI_CHART_FALLBACK;
        c->method[p] = (uint8_t)method;
        if (verdict == CHART_GOOD) keep_flat(c, flat);
        else plan_cut(c, flat);
    }
}

espalier_status chart_lay_pieces(chart_creation *c)
{
    if (!reserve_pieces(c)) return ESPALIER_ERR_RESOURCE;
    list_members(c);
    return esi_parallel(c->ctx, cut_tasks(c), flatten_task, c);
}
