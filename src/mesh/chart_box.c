/* SPDX-License-Identifier: MIT
 *
 * chart_box.c: charts by projection along the six axis directions: fast, and nothing can make it fail. Faces take the direction their
 * normal is nearest to, stragglers the one of their neighbours; connected pieces are grown face by face, and a face that would come to lie
 * over another one of its piece is left for the next piece. The bookkeeping of that is a grid of cells over the piece.
 */
#include "base/math64.h"
#include "mesh/charts.h"
#include "mesh/edit.h"

#define SMOOTHING_PASSES 4
#define LEAST_COSINE 0.35                    /* between a face and the direction its neighbours talk it into */
#define WORK_PER_FACE 2000                   /* cells and pairs looked at; when all is spent, faces become charts of their own */
#define MAX_GRID 1024

typedef struct node { int32_t face, next; } node;

typedef struct grower {
    const esi_mesh *mesh;
    int32_t *opposite;                       /* [3 * n_faces] */
    uint8_t *side;                           /* [n_faces] 2 * axis + (negative) */
    int32_t *face_chart, *tried, *queue;     /* [n_faces]; tried: chart that asked for the face last */
    int32_t n_charts;
    int64_t split;
    /* faces by cells of the piece that grows */
    int32_t *cells, *used;                   /* [cell]: first node or -1; cells in use */
    node *nodes;
    int64_t n_nodes, cap_nodes, n_used, cap_cells, work;
    int32_t grid;
    double origin[2], cell;
} grower;

static double side_cosine(const double n[3], int side)
{
    const double length = esi_vec_length(n), along = side % 2 ? -n[side / 2] : n[side / 2];

    return length > 0.0 ? along / length : 1.0;
}

/* Nearest direction; the first axis wins a tie. */
static uint8_t nearest_side(const double n[3])
{
    int axis = 0;

    for (int k = 1; k < 3; k++) {
        if (esi_fabs(n[k]) > esi_fabs(n[axis])) axis = k;
    }
    return (uint8_t)(2 * axis + (n[axis] < 0.0));
}

/* A face between two or three neighbours of another direction joins them, if it does not face away. */
static bool follow_neighbours(const grower *g, int64_t f)
{
    int votes[6] = {0};
    double n[3];

    for (int k = 0; k < 3; k++) {
        if (g->opposite[3 * f + k] >= 0) votes[g->side[g->opposite[3 * f + k] / 3]]++;
    }
    for (uint8_t s = 0; s < 6; s++) {
        if (s == g->side[f] || votes[s] < 2) continue;
        esi_face_cross(n, g->mesh, f);
        if (side_cosine(n, s) < LEAST_COSINE) return false;
        g->side[f] = s;
        return true;
    }
    return false;
}

static espalier_status choose_sides(espalier_context *ctx, grower *g)
{
    espalier_status st = ESPALIER_OK;
    bool changed = true;

    for (int64_t f = 0; f < g->mesh->n_faces; f++) {
        double n[3];

        esi_face_cross(n, g->mesh, f);
        g->side[f] = nearest_side(n);
    }
    for (int pass = 0; pass < SMOOTHING_PASSES && changed; pass++) {
        if ((st = esi_check_cancel(ctx)) != ESPALIER_OK) break;
        changed = false;
        for (int64_t f = 0; f < g->mesh->n_faces; f++) changed = follow_neighbours(g, f) || changed;
    }
    return st;
}

/* Right-handed seen against the direction. */
static void project(const grower *g, int64_t f, double flat[3][2])
{
    const int axis = g->side[f] / 2, u = (axis + 1) % 3, v = (axis + 2) % 3;
    const bool negative = g->side[f] % 2;

    for (int k = 0; k < 3; k++) {
        const float *p = g->mesh->vertices + 3 * (int64_t)g->mesh->faces[3 * f + k];

        flat[k][0] = (double)p[negative ? v : u];
        flat[k][1] = (double)p[negative ? u : v];
    }
}

static double turn(const double a[2], const double b[2], const double c[2])
{
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

/* Is b's inside on the outer side of one of a's sides? Both have positive orientation. Common corners give exact zeros. */
static bool side_parts(const double a[3][2], const double b[3][2])
{
    for (int k = 0; k < 3; k++) {
        const double *p = a[k], *q = a[(k + 1) % 3];

        if (turn(p, q, b[0]) <= 0.0 && turn(p, q, b[1]) <= 0.0 && turn(p, q, b[2]) <= 0.0) return true;
    }
    return false;
}

static void cell_range(const grower *g, const double flat[3][2], int32_t low[2], int32_t high[2])
{
    for (int k = 0; k < 2; k++) {
        const double a = ESI_MIN(ESI_MIN(flat[0][k], flat[1][k]), flat[2][k]), b = ESI_MAX(ESI_MAX(flat[0][k], flat[1][k]), flat[2][k]);

        low[k] = (int32_t)ESI_MIN(ESI_MAX((a - g->origin[k]) / g->cell, 0.0), g->grid - 1.0);
        high[k] = (int32_t)ESI_MIN(ESI_MAX((b - g->origin[k]) / g->cell, 0.0), g->grid - 1.0);
    }
}

static bool overlaps(grower *g, const double flat[3][2], const int32_t low[2], const int32_t high[2])
{
    for (int32_t y = low[1]; y <= high[1]; y++) {
        for (int32_t x = low[0]; x <= high[0]; x++) {
            for (int32_t i = g->cells[y * g->grid + x]; i >= 0; i = g->nodes[i].next) {
                double other[3][2];

                project(g, g->nodes[i].face, other);
                g->work--;
                if (!side_parts(flat, (const double (*)[2])other) && !side_parts((const double (*)[2])other, flat)) return true;
            }
            g->work--;
        }
    }
    return false;
}

static espalier_status insert(espalier_context *ctx, grower *g, int32_t face, const int32_t low[2], const int32_t high[2])
{
    const int64_t wanted = g->n_nodes + (int64_t)(high[0] - low[0] + 1) * (high[1] - low[1] + 1);

    if (wanted > INT32_MAX) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "box charts: too many faces over one another");
    if (wanted > g->cap_nodes) {
        const int64_t cap = ESI_MIN(wanted + wanted / 2 + 1024, INT32_MAX);
        node *nodes = esi_realloc(ctx, g->nodes, (size_t)cap, sizeof *nodes, "faces by cells");

        if (!nodes) return ESPALIER_ERR_RESOURCE;
        g->nodes = nodes;
        g->cap_nodes = cap;
    }
    for (int32_t y = low[1]; y <= high[1]; y++) {
        for (int32_t x = low[0]; x <= high[0]; x++) {
            int32_t *cell = &g->cells[y * g->grid + x];

            if (*cell < 0) g->used[g->n_used++] = y * g->grid + x;
            g->nodes[g->n_nodes] = (node){face, *cell};
            *cell = (int32_t)g->n_nodes++;
        }
    }
    return ESPALIER_OK;
}

/* Puts the face into the growing chart unless it would lie over it. Faces of no area lie over nothing. */
static espalier_status try_face(espalier_context *ctx, grower *g, int32_t face, bool *taken)
{
    espalier_status st = ESPALIER_OK;
    int32_t low[2], high[2];
    double flat[3][2];

    project(g, face, flat);
    *taken = true;
    if (turn(flat[0], flat[1], flat[2]) > 0.0) {
        cell_range(g, (const double (*)[2])flat, low, high);
        *taken = g->work > 0 && !overlaps(g, (const double (*)[2])flat, low, high);
        if (*taken) st = insert(ctx, g, face, low, high);
    }
    if (*taken) g->face_chart[face] = g->n_charts;
    return st;
}

/* Grid for the connected piece of one direction around a face: its extent and number of faces by a first walk. */
static espalier_status prepare_grid(espalier_context *ctx, grower *g, int32_t seed)
{
    int64_t head = 0, tail = 0, n_cells;
    double low[2] = {0}, high[2] = {0};

    g->queue[tail++] = seed;
    g->tried[seed] = -2 - seed;
    while (head < tail) {
        const int32_t f = g->queue[head++];
        double flat[3][2];

        project(g, f, flat);
        for (int k = 0; k < 6; k++) {
            const double v = flat[k / 2][k % 2];

            if ((head == 1 && k < 2) || v < low[k % 2]) low[k % 2] = v;
            if ((head == 1 && k < 2) || v > high[k % 2]) high[k % 2] = v;
        }
        for (int k = 0; k < 3; k++) {
            const int32_t next = g->opposite[3 * (int64_t)f + k] < 0 ? -1 : g->opposite[3 * (int64_t)f + k] / 3;

            if (next < 0 || g->side[next] != g->side[f] || g->face_chart[next] >= 0 || g->tried[next] == -2 - seed) continue;
            g->tried[next] = -2 - seed;
            g->queue[tail++] = next;
        }
    }
    g->work -= tail;
    g->grid = (int32_t)ESI_MIN(1.0 + sqrt((double)tail), (double)MAX_GRID);
    g->cell = ESI_MAX(high[0] - low[0], high[1] - low[1]) / g->grid;
    if (!(g->cell > 0.0)) g->cell = 1.0;
    memcpy(g->origin, low, sizeof low);
    n_cells = (int64_t)g->grid * g->grid;
    if (n_cells > g->cap_cells) {
        esi_free(ctx, g->cells);
        esi_free(ctx, g->used);
        g->cells = esi_alloc(ctx, (size_t)n_cells, sizeof *g->cells, "cells of box charts");
        g->used = esi_alloc(ctx, (size_t)n_cells, sizeof *g->used, "cells of box charts");
        if (!g->cells || !g->used) return ESPALIER_ERR_RESOURCE;
        g->cap_cells = n_cells;
        memset(g->cells, 0xff, (size_t)n_cells * sizeof *g->cells);
    }
    return ESPALIER_OK;
}

static espalier_status grow_chart(espalier_context *ctx, grower *g, int32_t seed)
{
    espalier_status st;
    int64_t head = 0, tail = 0;
    bool taken, left = false;

    if (g->work <= 0) {
        g->face_chart[seed] = g->n_charts++;
        return ESPALIER_OK;
    }
    if ((st = prepare_grid(ctx, g, seed)) != ESPALIER_OK) return st;
    g->n_nodes = g->n_used = 0;
    if ((st = try_face(ctx, g, seed, &taken)) != ESPALIER_OK) return st;
    g->face_chart[seed] = g->n_charts;
    g->queue[tail++] = seed;
    while (head < tail) {
        const int32_t f = g->queue[head++];

        if (head % (1 << 12) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) return st;
        for (int k = 0; k < 3; k++) {
            const int32_t next = g->opposite[3 * (int64_t)f + k] < 0 ? -1 : g->opposite[3 * (int64_t)f + k] / 3;

            if (next < 0 || g->side[next] != g->side[f] || g->face_chart[next] >= 0 || g->tried[next] == g->n_charts) continue;
            g->tried[next] = g->n_charts;
            if ((st = try_face(ctx, g, next, &taken)) != ESPALIER_OK) return st;
            if (taken) g->queue[tail++] = next;
            else left = true;
        }
    }
    for (int64_t i = 0; i < g->n_used; i++) g->cells[g->used[i]] = -1;
    g->split += left;
    g->n_charts++;
    return ESPALIER_OK;
}

/* Projections to charts of the area their faces have in space. */
static espalier_status write_charts(espalier_context *ctx, const grower *g, esi_charts *out)
{
    const int64_t n = g->mesh->n_faces;
    double(*areas)[2] = esi_calloc(ctx, (size_t)g->n_charts, sizeof *areas, "areas of charts");

    out->method = esi_calloc(ctx, (size_t)g->n_charts, 1, "methods of charts");
    out->corner_uv = esi_alloc(ctx, (size_t)n, 6 * sizeof(float), "texture coordinates");
    if (!areas || !out->method || !out->corner_uv) {
        esi_free(ctx, areas);
        return ESPALIER_ERR_RESOURCE;
    }
    for (int64_t f = 0; f < n; f++) {
        double flat[3][2], c[3];

        project(g, f, flat);
        esi_face_cross(c, g->mesh, f);
        areas[g->face_chart[f]][0] += esi_vec_length(c);
        areas[g->face_chart[f]][1] += turn(flat[0], flat[1], flat[2]);
    }
    for (int64_t f = 0; f < n; f++) {
        const double *a = areas[g->face_chart[f]], scale = a[1] > 0.0 ? sqrt(a[0] / a[1]) : 1.0;
        double flat[3][2];

        project(g, f, flat);
        for (int k = 0; k < 6; k++) out->corner_uv[6 * f + k] = (float)(flat[k / 2][k % 2] * scale);
    }
    esi_free(ctx, areas);
    return ESPALIER_OK;
}

espalier_status esi_charts_box(espalier_context *ctx, esi_charts *out, const esi_mesh *mesh)
{
    const size_t n = (size_t)mesh->n_faces;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    grower g = {.mesh = mesh, .work = WORK_PER_FACE * mesh->n_faces + 100000};

    memset(out, 0, sizeof *out);
    g.side = esi_alloc(ctx, n, 1, "directions of faces");
    g.face_chart = esi_alloc(ctx, n, sizeof *g.face_chart, "charts of faces");
    g.tried = esi_alloc(ctx, n, sizeof *g.tried, "growing charts");
    g.queue = esi_alloc(ctx, n, sizeof *g.queue, "growing charts");
    if (!g.side || !g.face_chart || !g.tried || !g.queue) goto done;
    memset(g.face_chart, 0xff, n * sizeof *g.face_chart);
    memset(g.tried, 0xff, n * sizeof *g.tried);
    if ((st = esi_opposite_corners(ctx, &g.opposite, mesh)) != ESPALIER_OK) goto done;
    if ((st = choose_sides(ctx, &g)) != ESPALIER_OK) goto done;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        if (f % (1 << 14) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) goto done;
        if (g.face_chart[f] < 0 && (st = grow_chart(ctx, &g, (int32_t)f)) != ESPALIER_OK) goto done;
    }
    if ((st = write_charts(ctx, &g, out)) != ESPALIER_OK) goto done;
    out->n_charts = g.n_charts;
    out->split_charts = g.split;
    out->face_chart = g.face_chart;
    g.face_chart = NULL;
done:
    if (st != ESPALIER_OK) {
        esi_free(ctx, out->method);
        esi_free(ctx, out->corner_uv);
        memset(out, 0, sizeof *out);
    }
    esi_free(ctx, g.opposite);
    esi_free(ctx, g.side);
    esi_free(ctx, g.face_chart);
    esi_free(ctx, g.tried);
    esi_free(ctx, g.queue);
    esi_free(ctx, g.cells);
    esi_free(ctx, g.used);
    esi_free(ctx, g.nodes);
    return st;
}
