/* SPDX-License-Identifier: MIT
 *
 * chart_create.c: mesh -> charts: cut into pieces (chart_cluster.c), borders straightened (chart_border.c), every piece laid flat and
 * checked (chart_flatten.c, chart_check.c); pieces that failed are cut in two and tried again, under tighter limits each time, and in the
 * last round face by face; at last crumbs are joined to their neighbours where that works out (chart_join.c). Rounds are few and each
 * costs a bounded number of steps per face, so time is bounded for any input.
 */
#include "mesh/chart_internal.h"

#include "base/math64.h"

#include <math.h>

#define MAX_BEND 0.3

/* How pieces that failed are cut: first along the surface's own shape, then across the middle, which ends on anything. */
typedef struct cut_round {
    double cone, bend;             /* shares of the limits */
    int32_t min_pieces;
} cut_round;
static const cut_round rounds[] = {{1.0, 1.0, 1}, {1.0, 1.0, 2}, {0.9, 0.7, 2}, {0.8, 0.5, 2}};
#define FIRST_HALVING ((int)ESI_COUNT(rounds))
#define PLANE_ONLY (FIRST_HALVING + 6)      /* from here on projections are good enough */
#define SMALL_PIECES (FIRST_HALVING + 10)   /* nearly flat pieces; at once when too much work was spent */
#define LAST_ROUND (SMALL_PIECES + 1)       /* single faces */

esi_chart_options esi_chart_options_default(void)
{
    return (esi_chart_options){.max_stretch = 1.25, .max_cone = 80.0 * 0.017453292519943295, .work_per_face = 4096};
}

void esi_charts_free(espalier_context *ctx, esi_charts *charts)
{
    esi_free(ctx, charts->face_chart);
    esi_free(ctx, charts->corner_uv);
    esi_free(ctx, charts->method);
    memset(charts, 0, sizeof *charts);
}

/* ----------------------------------------------------------------- rounds */

static espalier_status cut_first(chart_creation *c, const chart_limits *limits)
{
    int32_t *piece = c->out->face_chart;
    espalier_status st = chart_cluster(c->ctx, piece, &c->n_pieces, 0, &c->faces, c->group, limits);

    if (st == ESPALIER_OK) st = chart_calm(c->ctx, piece, &c->n_pieces, &c->faces, c->group, limits, &c->calm);
    if (st == ESPALIER_OK) st = chart_absorb(c->ctx, piece, &c->n_pieces, &c->faces);
    if (st == ESPALIER_OK) st = chart_smooth_borders(c->ctx, piece, c->n_pieces, &c->faces, limits);
    return st;
}

static espalier_status cut_again(chart_creation *c, const chart_limits *limits, bool calm)
{
    static const chart_limits none = {-2.0, 2.0, 1};
    chart_faces faces = c->faces;
    espalier_status st;

    if (calm && c->calm) faces.normal = c->calm;
    st = chart_cluster(c->ctx, c->out->face_chart, &c->n_pieces, c->n_pieces, &faces, c->parts, &none);
    if (st == ESPALIER_OK) st = chart_cluster(c->ctx, c->out->face_chart, &c->n_pieces, c->n_pieces, &faces, c->group, limits);
    for (int64_t f = 0; f < faces.mesh->n_faces; f++)
        if (c->parts[f] >= 0) c->group[f] = 0; /* of this round */
    return st;
}

static espalier_status cut(chart_creation *c, int round)
{
    chart_limits limits = {esi_cos(0.5 * c->options->max_cone), 0.15 * MAX_BEND, 1}; /* halvings, or no time for them */
    int64_t n_faces = c->faces.mesh->n_faces;

    if (round == LAST_ROUND) {
        for (int64_t f = 0; f < n_faces; f++)
            if (c->group[f] >= 0) c->out->face_chart[f] = c->n_pieces++;
        return ESPALIER_OK;
    }
    if (round < FIRST_HALVING) {
        limits.min_cos = esi_cos(c->options->max_cone * rounds[round].cone);
        limits.max_bend = MAX_BEND * rounds[round].bend;
        limits.min_pieces = rounds[round].min_pieces;
    }
    return round == 0 ? cut_first(c, &limits) : cut_again(c, &limits, round < SMALL_PIECES);
}

/* Faces of pieces that failed form the next round's groups, or parts where it is clear already how to cut. */
static int64_t collect_failures(chart_creation *c, int next)
{
    int64_t left = 0;

    for (int64_t f = 0; f < c->faces.mesh->n_faces; f++) {
        int32_t p = c->out->face_chart[f], number = p - c->first;
        c->parts[f] = -1;
        if (c->group[f] < 0) continue;
        c->group[f] = -1;
        if (c->verdict[p] == CHART_GOOD) continue;
        if (c->role[f] != CHART_ROLE_NONE && next < SMALL_PIECES) c->parts[f] = 2 * number + (c->role[f] == CHART_ROLE_SECOND);
        else c->group[f] = number;
        left++;
    }
    return left;
}

static espalier_status run_round(chart_creation *c, int round)
{
    espalier_status st;

    c->first = c->n_pieces;
    c->max_stretch = round < LAST_ROUND ? c->options->max_stretch : INFINITY;
    c->plane_only = round >= PLANE_ONLY;
    c->single_faces = round == LAST_ROUND;
    c->may_carve = round < FIRST_HALVING;
    c->halve = round + 1 >= FIRST_HALVING;
    st = cut(c, round);
    if (st == ESPALIER_OK) st = chart_lay_pieces(c);
    for (int32_t p = c->first; p < c->n_pieces && st == ESPALIER_OK; p++) {
        c->out->split_charts += c->verdict[p] != CHART_GOOD;
        c->out->work += c->work[p];
    }
    return st;
}

static espalier_status run_rounds(chart_creation *c)
{
    int64_t n_faces = c->faces.mesh->n_faces, left = n_faces;
    espalier_status st = ESPALIER_OK;

    for (int round = 0, next; left > 0 && st == ESPALIER_OK; round = next) {
        st = run_round(c, round);
        if (st != ESPALIER_OK) break;
        next = c->out->work > c->options->work_per_face * n_faces ? ESI_MAX(round + 1, SMALL_PIECES) : round + 1;
        left = collect_failures(c, next);
    }
    return st;
}

/* Pieces that were cut again leave gaps: number the charts by their lowest face. */
static espalier_status number_charts(chart_creation *c)
{
    esi_charts *out = c->out;
    int32_t *map = esi_alloc(c->ctx, (size_t)c->n_pieces, sizeof *map, "chart numbers");

    if (!map) return ESPALIER_ERR_RESOURCE;
    out->method = esi_alloc(c->ctx, (size_t)c->n_pieces, sizeof *out->method, "chart methods");
    if (!out->method) {
        esi_free(c->ctx, map);
        return ESPALIER_ERR_RESOURCE;
    }
    for (int32_t p = 0; p < c->n_pieces; p++) map[p] = -1;
    for (int64_t f = 0; f < c->faces.mesh->n_faces; f++) {
        int32_t p = out->face_chart[f];
        if (map[p] < 0) {
            out->method[out->n_charts] = c->method[p];
            map[p] = out->n_charts++;
        }
        out->face_chart[f] = map[p];
    }
    esi_free(c->ctx, map);
    return ESPALIER_OK;
}

espalier_status esi_charts_create(espalier_context *ctx, esi_charts *out, const esi_mesh *mesh, const esi_chart_options *options)
{
    chart_creation c = {.out = out, .options = options, .ctx = ctx};
    size_t n_faces = (size_t)mesh->n_faces, slots = (size_t)esi_slots(ctx);
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = chart_faces_build(ctx, &c.faces, mesh);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    out->face_chart = esi_alloc(ctx, n_faces, sizeof *out->face_chart, "chart numbers");
    out->corner_uv = esi_alloc(ctx, n_faces, 6 * sizeof *out->corner_uv, "chart coordinates");
    c.group = esi_calloc(ctx, n_faces, sizeof *c.group, "chart groups");
    c.parts = esi_alloc(ctx, n_faces, sizeof *c.parts, "chart groups");
    c.role = esi_calloc(ctx, n_faces, sizeof *c.role, "chart groups");
    c.members = esi_alloc(ctx, n_faces, sizeof *c.members, "chart lists");
    c.place = esi_alloc(ctx, n_faces, sizeof *c.place, "chart lists");
    c.flat = esi_calloc(ctx, slots, sizeof *c.flat, "chart scratch");
    if (!out->face_chart || !out->corner_uv || !c.group || !c.parts || !c.role || !c.members || !c.place || !c.flat) goto done;
    st = run_rounds(&c);
    if (st == ESPALIER_OK && out->work < options->work_per_face * mesh->n_faces) st = chart_join(&c);
    if (st == ESPALIER_OK) st = number_charts(&c);
done:
    for (size_t i = 0; c.flat && i < slots; i++) chart_flat_free(ctx, &c.flat[i]);
    esi_free(ctx, c.flat);
    esi_free(ctx, c.calm);
    esi_free(ctx, c.group);
    esi_free(ctx, c.parts);
    esi_free(ctx, c.role);
    esi_free(ctx, c.members);
    esi_free(ctx, c.place);
    esi_free(ctx, c.start);
    esi_free(ctx, c.task_piece);
    esi_free(ctx, c.verdict);
    esi_free(ctx, c.work);
    esi_free(ctx, c.method);
    chart_faces_free(ctx, &c.faces);
    if (st != ESPALIER_OK) esi_charts_free(ctx, out);
    return st;
}
