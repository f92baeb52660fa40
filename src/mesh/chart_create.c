/* SPDX-License-Identifier: MIT
 *
 * chart_create.c: mesh -> charts: cut into pieces (chart_cluster.c), borders straightened (chart_border.c), every piece laid flat and
 * checked (chart_flatten.c, chart_check.c); pieces that failed are cut in two and tried again, under tighter limits each time, and in the
 * last round face by face. Rounds are few and each costs a bounded number of steps per face, so time is bounded for any input.
 */
#include "mesh/chart_internal.h"

#include "base/math64.h"

#include <math.h>

#define FACES_PER_TASK 1024        /* of pieces flattened by one task, at least */
#define MAX_BEND 0.3
#define CARVE_SHARE 16             /* faces of a piece for each that may be carved out of it */
#define ROUGH_STRETCH 2.0          /* of the limit for pieces of a rough surface, which cannot be laid flat as they are */

enum { ROLE_NONE, ROLE_FIRST, ROLE_SECOND };

/* How pieces that failed are cut: first along the surface's own shape, then across the middle, which ends on anything. */
typedef struct cut_round {
    double cone, bend;             /* shares of the limits */
    int32_t min_pieces;
} cut_round;
static const cut_round rounds[] = {{1.0, 1.0, 1}, {1.0, 1.0, 2}, {0.9, 0.7, 2}, {0.8, 0.5, 2}};
#define FIRST_HALVING ((int)ESI_COUNT(rounds))
#define PLANE_ONLY (FIRST_HALVING + 6)      /* from here on projections are good enough */
#define LAST_ROUND (FIRST_HALVING + 10)     /* single faces */
#define LAST_BUT_ONE (LAST_ROUND - 1)

typedef struct creation {
    esi_charts *out;
    chart_faces faces;
    const esi_chart_options *options;
    float *calm;                   /* [n_faces][3] averaged normals of a rough mesh, or NULL */
    int32_t *group;                /* [n_faces] piece to be cut again; -1 = done */
    int32_t *parts;                /* [n_faces] the same for faces of a piece that was parted already, by carving or halving; -1 = none */
    uint8_t *role;                 /* [n_faces] in carving or halving its piece */
    int32_t *members, *place;      /* chart_lists */
    int32_t *start;                /* [n_pieces + 1] in members; pieces from `first` on only */
    int32_t *task_piece;           /* [n_tasks + 1] */
    uint8_t *verdict;              /* [n_pieces] chart_verdict */
    uint8_t *method;               /* [n_pieces] */
    int32_t first, n_pieces;       /* of this round; n_pieces is the end */
    int64_t piece_capacity;
    chart_flat *flat;              /* [slots] */
    espalier_context *ctx;
    int round;
    int64_t *work;                 /* [n_pieces] steps */
} creation;

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

/* ----------------------------------------------------------------- pieces */

static bool reserve_pieces(creation *c)
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
static void list_members(creation *c)
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

static size_t cut_tasks(creation *c)
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

static void keep_flat(creation *c, const chart_flat *flat)
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
static void halve(creation *c, const chart_flat *flat)
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
        c->role[flat->members[i]] = p[axis] < mean[axis] ? ROLE_FIRST : ROLE_SECOND;
    }
}

/* What to do with a piece that failed: a few faces in the way of a larger one are taken out of it; else it is cut in two. */
static void plan_cut(creation *c, const chart_flat *flat)
{
    bool carve = flat->n_carve > 0 && flat->n_carve <= CHART_CARVE && CARVE_SHARE * flat->n_carve < flat->n_faces &&
                 c->round < FIRST_HALVING;

    for (int32_t i = 0; i < flat->n_faces; i++) c->role[flat->members[i]] = carve ? ROLE_FIRST : ROLE_NONE;
    for (int32_t i = 0; carve && i < flat->n_carve; i++) c->role[flat->members[flat->carve[i]]] = ROLE_SECOND;
    if (!carve && c->round + 1 >= FIRST_HALVING) halve(c, flat);
}

static bool is_rough(const creation *c, int32_t first, int32_t count)
{
    int32_t rough = 0;

    for (int32_t i = first; i < first + count && c->calm; i++)
        rough += memcmp(c->calm + 3 * (size_t)c->members[i], c->faces.normal + 3 * (size_t)c->members[i], 3 * sizeof *c->calm) != 0;
    return 2 * rough > count;
}

static void flatten_task(void *arg, size_t task, int slot)
{
    creation *c = arg;
    chart_flat *flat = &c->flat[slot];
    chart_lists lists = {&c->faces, c->out->face_chart, c->members, c->place};

    for (int32_t p = c->task_piece[task]; p < c->task_piece[task + 1]; p++) {
        chart_verdict verdict;
        esi_chart_method method;
        bool plane_only = c->round >= PLANE_ONLY;
        double max_stretch = c->round < LAST_ROUND ? c->options->max_stretch : INFINITY;
        if (is_rough(c, c->start[p], c->start[p + 1] - c->start[p])) max_stretch *= ROUGH_STRETCH;
        if (chart_flatten(c->ctx, flat, &lists, c->start[p], c->start[p + 1] - c->start[p], max_stretch, plane_only, &verdict, &method) !=
            ESPALIER_OK)
            return;
        c->work[p] = flat->work;
        if (c->round == LAST_ROUND) verdict = CHART_GOOD; /* one face: its own shape */
        c->verdict[p] = (uint8_t)verdict;
        if (c->round == LAST_ROUND || (plane_only && method == ESI_CHART_PLANE)) method = ESI_CHART_FALLBACK;
        c->method[p] = (uint8_t)method;
        if (verdict == CHART_GOOD) keep_flat(c, flat);
        else plan_cut(c, flat);
    }
}

/* ----------------------------------------------------------------- rounds */

static espalier_status cut_first(creation *c, const chart_limits *limits)
{
    int32_t *piece = c->out->face_chart;
    espalier_status st = chart_cluster(c->ctx, piece, &c->n_pieces, 0, &c->faces, c->group, limits);

    if (st == ESPALIER_OK) st = chart_calm(c->ctx, piece, &c->n_pieces, &c->faces, c->group, limits, &c->calm);
    if (st == ESPALIER_OK) st = chart_absorb(c->ctx, piece, &c->n_pieces, &c->faces);
    if (st == ESPALIER_OK) st = chart_smooth_borders(c->ctx, piece, c->n_pieces, &c->faces, limits);
    return st;
}

static espalier_status cut_again(creation *c, const chart_limits *limits)
{
    static const chart_limits none = {-2.0, 2.0, 1};
    chart_faces faces = c->faces;
    espalier_status st;

    if (c->calm) faces.normal = c->calm;
    st = chart_cluster(c->ctx, c->out->face_chart, &c->n_pieces, c->n_pieces, &faces, c->parts, &none);
    if (st == ESPALIER_OK) st = chart_cluster(c->ctx, c->out->face_chart, &c->n_pieces, c->n_pieces, &faces, c->group, limits);
    for (int64_t f = 0; f < faces.mesh->n_faces; f++)
        if (c->parts[f] >= 0) c->group[f] = 0; /* of this round */
    return st;
}

static espalier_status cut(creation *c)
{
    chart_limits limits = {esi_cos(0.5 * c->options->max_cone), 0.15 * MAX_BEND, 1}; /* halvings, or no time for them */
    int64_t n_faces = c->faces.mesh->n_faces;

    if (c->round == LAST_ROUND) {
        for (int64_t f = 0; f < n_faces; f++)
            if (c->group[f] >= 0) c->out->face_chart[f] = c->n_pieces++;
        return ESPALIER_OK;
    }
    if (c->round < FIRST_HALVING) {
        limits.min_cos = esi_cos(c->options->max_cone * rounds[c->round].cone);
        limits.max_bend = MAX_BEND * rounds[c->round].bend;
        limits.min_pieces = rounds[c->round].min_pieces;
    }
    return c->round == 0 ? cut_first(c, &limits) : cut_again(c, &limits);
}

/* Faces of pieces that failed form the next round's groups. */
static int64_t collect_failures(creation *c)
{
    int64_t left = 0;

    for (int64_t f = 0; f < c->faces.mesh->n_faces; f++) {
        int32_t p = c->out->face_chart[f], number = p - c->first;
        c->parts[f] = -1;
        if (c->group[f] < 0) continue;
        c->group[f] = -1;
        if (c->verdict[p] == CHART_GOOD) continue;
        if (c->role[f] != ROLE_NONE && c->round + 1 < LAST_ROUND) c->parts[f] = 2 * number + (c->role[f] == ROLE_SECOND);
        else c->group[f] = number;
        left++;
    }
    if (c->round < LAST_ROUND)
        for (int32_t p = c->first; p < c->n_pieces; p++) c->out->split_charts += c->verdict[p] != CHART_GOOD;
    return left;
}

static espalier_status run_round(creation *c)
{
    espalier_status st;

    c->first = c->n_pieces;
    st = cut(c);
    if (st != ESPALIER_OK) return st;
    if (!reserve_pieces(c)) return ESPALIER_ERR_RESOURCE;
    list_members(c);
    return esi_parallel(c->ctx, cut_tasks(c), flatten_task, c);
}

/* Pieces that were cut again leave gaps: number the charts by their lowest face. */
static espalier_status number_charts(creation *c)
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
    creation c = {.out = out, .options = options, .ctx = ctx};
    size_t n_faces = (size_t)mesh->n_faces, slots = (size_t)esi_slots(ctx);
    int64_t left = mesh->n_faces;
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
    st = ESPALIER_OK;
    while (left > 0 && st == ESPALIER_OK) {
        st = run_round(&c);
        if (st != ESPALIER_OK) break;
        left = collect_failures(&c);
        for (int32_t p = c.first; p < c.n_pieces; p++) out->work += c.work[p];
        c.round = c.round + 1 < LAST_BUT_ONE && out->work > options->work_per_face * mesh->n_faces ? LAST_BUT_ONE : c.round + 1;
    }
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
