/* SPDX-License-Identifier: MIT
 *
 * chart_join.c: fewer crumbs. Rims of thin walls, folds and what was carved out of other charts leave charts of a few faces. Where there
 * are many, each is tried as a part of the neighbour it shares most border with: first all crumbs of a neighbour together, then one by one.
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define FEW_FACES 24               /* a chart of fewer is a crumb */
#define MANY_CRUMBS 64             /* fewer crumbs are not worth the time */
#define JOINED_STRETCH 1.03
#define PASSES 4

typedef struct contact {
    int32_t other;
    double length;
} contact;

typedef struct joiner {
    chart_creation *c;
    int32_t n;                     /* pieces before this pass */
    int32_t *size;                 /* [n] faces */
    int32_t *start;                /* [n + 1] of contacts */
    contact *contacts;
    int32_t *target;               /* [n] piece that a crumb is tried with, or -1 */
    double *share;                 /* [n] length of their common border */
    int32_t *number;               /* [n] of the joined piece, or -1 */
    uint8_t *tried;                /* [n] alone, in vain */
} joiner;

static bool is_crumb(const joiner *j, int32_t p) { return j->size[p] > 0 && j->size[p] < FEW_FACES; }

/* Piece on the other side of a crumb's corner, if it is no crumb. */
static int32_t neighbor(const joiner *j, int32_t corner)
{
    const int32_t *piece = j->c->out->face_chart;
    int32_t d = j->c->faces.across[corner], other = d < 0 ? -1 : piece[d / 3];
    return other < 0 || other == piece[corner / 3] || is_crumb(j, other) ? -1 : other;
}

static int32_t count_crumbs(joiner *j)
{
    int32_t crumbs = 0;

    for (int32_t p = 0; p < j->n; p++) j->size[p] = 0;
    for (int64_t f = 0; f < j->c->faces.mesh->n_faces; f++) j->size[j->c->out->face_chart[f]]++;
    for (int32_t p = 0; p < j->n; p++) crumbs += is_crumb(j, p);
    return crumbs;
}

static bool list_contacts(espalier_context *ctx, joiner *j)
{
    const int32_t *piece = j->c->out->face_chart;
    int32_t n_corners = 3 * (int32_t)j->c->faces.mesh->n_faces;

    for (int32_t p = 0; p <= j->n; p++) j->start[p] = 0;
    for (int32_t c = 0; c < n_corners; c++)
        if (is_crumb(j, piece[c / 3]) && neighbor(j, c) >= 0) j->start[piece[c / 3] + 1]++;
    for (int32_t p = 0; p < j->n; p++) j->start[p + 1] += j->start[p];
    esi_free(ctx, j->contacts);
    j->contacts = esi_alloc(ctx, (size_t)j->start[j->n], sizeof *j->contacts, "chart contacts");
    if (!j->contacts) return false;
    for (int32_t c = 0; c < n_corners; c++) {
        int32_t p = piece[c / 3], other = is_crumb(j, p) ? neighbor(j, c) : -1;
        if (other >= 0) j->contacts[j->start[p]++] = (contact){other, chart_side_length(j->c->faces.mesh, c)};
    }
    for (int32_t p = j->n; p > 0; p--) j->start[p] = j->start[p - 1];
    j->start[0] = 0;
    return true;
}

/* The neighbour with the longest common border; the first of equals. */
static void choose_target(joiner *j, int32_t p)
{
    const contact *list = j->contacts + j->start[p];
    int32_t n = j->start[p + 1] - j->start[p];

    j->target[p] = -1;
    j->share[p] = 0.0;
    for (int32_t i = 0; i < n && !j->tried[p]; i++) {
        double length = 0.0;
        for (int32_t k = 0; k < n; k++)
            if (list[k].other == list[i].other) length += list[k].length;
        if (length <= j->share[p]) continue;
        j->share[p] = length;
        j->target[p] = list[i].other;
    }
}

/* One crumb for each target: the one with the longest common border. It is not tried again. */
static void keep_best(joiner *j)
{
    int32_t *best = j->number;

    for (int32_t p = 0; p < j->n; p++) best[p] = -1;
    for (int32_t p = 0; p < j->n; p++) {
        int32_t t = j->target[p];
        if (t >= 0 && (best[t] < 0 || j->share[p] > j->share[best[t]])) best[t] = p;
    }
    for (int32_t p = 0; p < j->n; p++) {
        if (j->target[p] >= 0 && best[j->target[p]] != p) j->target[p] = -1;
        if (j->target[p] >= 0) j->tried[p] = 1;
    }
}

/* Give crumbs and targets new numbers. Returns how many. */
static int32_t propose(joiner *j)
{
    chart_creation *c = j->c;
    int32_t n = j->n;

    for (int32_t p = 0; p < j->n; p++) j->number[p] = -1;
    for (int32_t p = 0; p < j->n; p++) {
        int32_t t = j->target[p];
        if (t >= 0 && j->number[t] < 0) j->number[t] = n++;
        if (t >= 0) j->number[p] = j->number[t];
    }
    for (int64_t f = 0; f < c->faces.mesh->n_faces; f++) {
        int32_t p = c->out->face_chart[f];
        c->group[f] = j->number[p] < 0 ? -1 : 0;
        c->parts[f] = p;
        if (j->number[p] >= 0) c->out->face_chart[f] = j->number[p];
    }
    c->first = j->n;
    c->n_pieces = n;
    return n - j->n;
}

static void take_back_failures(const joiner *j)
{
    chart_creation *c = j->c;

    for (int64_t f = 0; f < c->faces.mesh->n_faces; f++)
        if (c->group[f] >= 0 && c->verdict[c->out->face_chart[f]] != CHART_GOOD) c->out->face_chart[f] = c->parts[f];
    for (int32_t p = c->first; p < c->n_pieces; p++) c->out->work += c->work[p];
}

/* *more = false when nothing was left to try. */
static espalier_status join_once(joiner *j, uint8_t *settled, int pass, bool *more)
{
    espalier_context *ctx = j->c->ctx;
    size_t n = (size_t)j->c->n_pieces;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *more = false;
    j->n = (int32_t)n;
    j->tried = settled;
    j->size = esi_alloc(ctx, n, sizeof *j->size, "chart sizes");
    j->start = esi_alloc(ctx, n + 1, sizeof *j->start, "chart contacts");
    j->target = esi_alloc(ctx, n, sizeof *j->target, "chart contacts");
    j->share = esi_alloc(ctx, n, sizeof *j->share, "chart contacts");
    j->number = esi_alloc(ctx, n, sizeof *j->number, "chart numbers");
    if (!j->size || !j->start || !j->target || !j->share || !j->number) goto done;
    st = ESPALIER_OK;
    if (count_crumbs(j) < MANY_CRUMBS) goto done;
    if (!list_contacts(ctx, j)) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int32_t p = 0; p < j->n; p++) choose_target(j, p);
    if (pass > 0) keep_best(j);
    if (propose(j) == 0) goto done;
    st = chart_lay_pieces(j->c);
    if (st != ESPALIER_OK) goto done;
    take_back_failures(j);
    *more = true;
done:
    esi_free(ctx, j->size);
    esi_free(ctx, j->start);
    esi_free(ctx, j->target);
    esi_free(ctx, j->share);
    esi_free(ctx, j->number);
    return st;
}

espalier_status chart_join(chart_creation *c)
{
    joiner j = {.c = c};
    uint8_t *tried = NULL;
    bool more = true;
    espalier_status st = ESPALIER_OK;

    c->max_stretch = JOINED_STRETCH;
    c->plane_only = c->single_faces = c->may_carve = c->halve = false;
    for (int pass = 0; pass < PASSES && more && st == ESPALIER_OK; pass++) {
        size_t n = (size_t)c->n_pieces;
        uint8_t *grown = esi_realloc(c->ctx, tried, n, sizeof *tried, "chart contacts");
        if (!grown) {
            st = ESPALIER_ERR_RESOURCE;
            break;
        }
        tried = grown;
        memset(tried + (pass == 0 ? 0 : j.n), 0, n - (size_t)(pass == 0 ? 0 : j.n));
        st = join_once(&j, tried, pass, &more);
    }
    esi_free(c->ctx, j.contacts);
    esi_free(c->ctx, tried);
    return st;
}
