/* SPDX-License-Identifier: MIT
 *
 * chart_absorb.c: crumbs into their surroundings. Folds and noise leave small pieces that no cone takes in. As a hole in the piece around
 * them they are worse than as a part of it: a folded hole lies over its rim, while a folded face is turned up again when the piece is laid
 * flat as rigid as possible.
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define ISLAND_SHARE 0.8           /* of its border with one other piece: an island */
#define ISLAND_AREA 0.2            /* of the other's area, at most */
#define CRUMB_SHARE 0.35
#define CRUMB_AREA 0.02
#define PASSES 5
#define MANY_SIDES 1024            /* on its border: no crumb; bounds the work */

typedef struct border {
    int32_t piece, other;
    double length;
} border;

typedef struct absorber {
    const chart_faces *faces;
    int32_t *piece, n_pieces;
    double *area, *rim;            /* [n_pieces]; length of the whole border */
    int32_t *start;                /* [n_pieces + 1] of borders */
    border *borders;
    int32_t *into;                 /* [n_pieces] */
} absorber;

static int32_t other_piece(const absorber *a, int32_t corner)
{
    int32_t d = a->faces->across[corner], own = a->piece[corner / 3];
    return d < 0 || a->piece[d / 3] == own ? -1 : a->piece[d / 3];
}

static int64_t count_borders(const absorber *a)
{
    int64_t n = 0;

    for (int32_t c = 0; c < 3 * (int32_t)a->faces->mesh->n_faces; c++) n += other_piece(a, c) >= 0;
    return n;
}

/* Area and rim of each piece, and its border sides, by piece. */
static void measure(absorber *a)
{
    int32_t n_corners = 3 * (int32_t)a->faces->mesh->n_faces;

    for (int32_t p = 0; p < a->n_pieces; p++) a->area[p] = a->rim[p] = 0.0;
    for (int32_t p = 0; p <= a->n_pieces; p++) a->start[p] = 0;
    for (int64_t f = 0; f < a->faces->mesh->n_faces; f++) a->area[a->piece[f]] += a->faces->area[f];
    for (int32_t c = 0; c < n_corners; c++)
        if (other_piece(a, c) >= 0) a->start[a->piece[c / 3] + 1]++;
    for (int32_t p = 0; p < a->n_pieces; p++) a->start[p + 1] += a->start[p];
    for (int32_t c = 0; c < n_corners; c++) {
        int32_t p = a->piece[c / 3], d = a->faces->across[c], other = other_piece(a, c);
        if (d >= 0 && other < 0) continue;
        double length = chart_side_length(a->faces->mesh, c);
        a->rim[p] += length;
        if (other >= 0) a->borders[a->start[p]++] = (border){p, other, length};
    }
    for (int32_t p = a->n_pieces; p > 0; p--) a->start[p] = a->start[p - 1];
    a->start[0] = 0;
}

/* The piece that takes p in, or p. */
static int32_t choose(const absorber *a, int32_t p)
{
    const border *b = a->borders + a->start[p];
    int32_t n = a->start[p + 1] - a->start[p], best = p;
    double longest = 0.0, largest = 0.0;

    for (int32_t i = 0; i < n; i++) largest = ESI_MAX(largest, a->area[b[i].other]);
    if (a->area[p] > ISLAND_AREA * largest || n > MANY_SIDES) return p;
    for (int32_t i = 0; i < n; i++) {
        double length = 0.0, limit;
        bool first = true;
        for (int32_t j = 0; j < n; j++) {
            if (b[j].other != b[i].other) continue;
            if (j < i) first = false;
            length += b[j].length;
        }
        if (!first || length <= longest) continue;
        limit = length >= ISLAND_SHARE * a->rim[p] ? ISLAND_AREA : length >= CRUMB_SHARE * a->rim[p] ? CRUMB_AREA : 0.0;
        if (a->area[p] > limit * a->area[b[i].other] || (a->area[p] == a->area[b[i].other] && p < b[i].other)) continue;
        longest = length;
        best = b[i].other;
    }
    return best;
}

static bool absorb(absorber *a)
{
    bool any = false;
    int32_t n = 0;

    for (int32_t p = 0; p < a->n_pieces; p++) a->into[p] = choose(a, p);
    for (int32_t p = 0; p < a->n_pieces; p++) { /* areas rise along the way, numbers fall among equals: no circles */
        if (a->into[p] != p) any = true;
        while (a->into[p] != a->into[a->into[p]]) a->into[p] = a->into[a->into[p]];
    }
    for (int32_t p = 0; p < a->n_pieces; p++) a->start[p] = -1;
    for (int64_t f = 0; f < a->faces->mesh->n_faces; f++) {
        int32_t p = a->into[a->piece[f]];
        if (a->start[p] < 0) a->start[p] = n++;
        a->piece[f] = a->start[p];
    }
    a->n_pieces = n;
    return any;
}

espalier_status chart_absorb(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, const chart_faces *faces)
{
    absorber a = {.faces = faces, .piece = piece, .n_pieces = *n_pieces};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    a.area = esi_alloc(ctx, (size_t)*n_pieces, sizeof *a.area, "chart areas");
    a.rim = esi_alloc(ctx, (size_t)*n_pieces, sizeof *a.rim, "chart borders");
    a.start = esi_alloc(ctx, (size_t)*n_pieces + 1, sizeof *a.start, "chart borders");
    a.into = esi_alloc(ctx, (size_t)*n_pieces, sizeof *a.into, "chart borders");
    a.borders = esi_alloc(ctx, (size_t)count_borders(&a), sizeof *a.borders, "chart borders");
    if (!a.area || !a.rim || !a.start || !a.into || !a.borders) goto done;
    st = ESPALIER_OK;
    for (int pass = 0; pass < PASSES && st == ESPALIER_OK; pass++) {
        measure(&a);
        if (!absorb(&a)) break;
        st = esi_check_cancel(ctx);
    }
    *n_pieces = a.n_pieces;
done:
    esi_free(ctx, a.area);
    esi_free(ctx, a.rim);
    esi_free(ctx, a.start);
    esi_free(ctx, a.into);
    esi_free(ctx, a.borders);
    return st;
}
