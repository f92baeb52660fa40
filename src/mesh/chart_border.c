/* SPDX-License-Identifier: MIT
 *
 * chart_border.c: shorter borders between pieces. A face changes to a neighbouring piece where the border shortened outweighs the worse fit
 * of its normal (iterated conditional modes of a Potts model: Besag, On the Statistical Analysis of Dirty Pictures, 1986).
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define SWEEPS 6
#define SHORT_BORDER 0.1           /* length worth as much as bend: times the side of the smaller piece */
#define MAX_FAN 64

typedef struct smoothing {
    const chart_faces *faces;
    const chart_limits *limits;
    int32_t *piece, *count;
    double (*normal)[3];
    double *area;
} smoothing;

/* Are the neighbours of face f over the sides after c still joined around the vertex between them when f leaves? */
static bool joined_without(const smoothing *s, int32_t c)
{
    int32_t f = c / 3, own = s->piece[f], side = esi_next_corner(c), last = s->faces->across[esi_previous_corner(c)] / 3;

    for (int step = 0; step < MAX_FAN; step++) {
        int32_t d = s->faces->across[side];
        if (d < 0 || s->piece[d / 3] != own || d / 3 == f) return false;
        if (d / 3 == last) return true;
        side = esi_previous_corner(d);
    }
    return false;
}

static double fit(const smoothing *s, int32_t f, int32_t piece, double *cosine)
{
    const float *n = s->faces->normal + 3 * (size_t)f;
    const double *axis = s->normal[piece];
    double length = esi_vec_length(axis);

    *cosine = length > 0.0 ? ((double)n[0] * axis[0] + (double)n[1] * axis[1] + (double)n[2] * axis[2]) / length : 0.0;
    return s->faces->area[f] * *cosine;
}

static void move(smoothing *s, int32_t f, int32_t to)
{
    int32_t from = s->piece[f];

    for (int k = 0; k < 3; k++) {
        double n = s->faces->area[f] * (double)s->faces->normal[3 * (size_t)f + (size_t)k];
        s->normal[from][k] -= n;
        s->normal[to][k] += n;
    }
    s->area[from] -= s->faces->area[f];
    s->area[to] += s->faces->area[f];
    s->count[from]--;
    s->count[to]++;
    s->piece[f] = to;
}

/* The best piece for a face on a border; its own when none is better. */
static int32_t better_piece(const smoothing *s, int32_t f)
{
    int32_t own = s->piece[f], near[3], best = own, inside = 0, outer = -1;
    const float *n = s->faces->normal + 3 * (size_t)f;
    bool thin = n[0] == 0.0f && n[1] == 0.0f && n[2] == 0.0f;
    double length[3], best_gain = 0.0, own_length = 0.0, own_fit, cosine;

    for (int32_t k = 0; k < 3; k++) {
        int32_t d = s->faces->across[3 * f + k];
        near[k] = d < 0 ? -1 : s->piece[d / 3];
        length[k] = chart_side_length(s->faces->mesh, 3 * f + k);
        if (near[k] == own) {
            own_length += length[k];
            inside++;
        } else outer = 3 * f + k;
    }
    if (inside == 3 || inside == 0 || s->count[own] < 2) return own;
    if (inside == 2 && !joined_without(s, outer)) return own;
    own_fit = fit(s, f, own, &cosine);
    for (int32_t k = 0; k < 3; k++) {
        double shared = 0.0, weight, gain, change;
        if (near[k] < 0 || near[k] == own) continue;
        for (int32_t j = 0; j < 3; j++)
            if (near[j] == near[k]) shared += length[j];
        change = fit(s, f, near[k], &cosine) - own_fit;
        weight = SHORT_BORDER * sqrt(ESI_MAX(ESI_MIN(s->area[own], s->area[near[k]]), 0.0));
        gain = weight * (shared - own_length) + change;
        if ((cosine >= s->limits->min_cos || thin) && gain > best_gain * (1.0 + 1e-9)) {
            best_gain = gain;
            best = near[k];
        }
    }
    return best;
}

static int64_t sweep(smoothing *s)
{
    int64_t moved = 0;

    for (int32_t f = 0; f < (int32_t)s->faces->mesh->n_faces; f++) {
        int32_t to = better_piece(s, f);
        if (to == s->piece[f]) continue;
        move(s, f, to);
        moved++;
    }
    return moved;
}

espalier_status chart_smooth_borders(espalier_context *ctx, int32_t *piece, int32_t n_pieces, const chart_faces *faces,
                                     const chart_limits *limits)
{
    smoothing s = {.faces = faces, .limits = limits, .piece = piece};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    s.normal = esi_calloc(ctx, (size_t)n_pieces, sizeof *s.normal, "chart axes");
    s.area = esi_calloc(ctx, (size_t)n_pieces, sizeof *s.area, "chart areas");
    s.count = esi_calloc(ctx, (size_t)n_pieces, sizeof *s.count, "chart sizes");
    if (!s.normal || !s.area || !s.count) goto done;
    for (int64_t f = 0; f < faces->mesh->n_faces; f++) {
        for (int k = 0; k < 3; k++) s.normal[piece[f]][k] += faces->area[f] * (double)faces->normal[3 * f + k];
        s.area[piece[f]] += faces->area[f];
        s.count[piece[f]]++;
    }
    st = ESPALIER_OK;
    for (int i = 0; i < SWEEPS && st == ESPALIER_OK; i++) {
        if (sweep(&s) == 0) break;
        st = esi_check_cancel(ctx);
    }
done:
    esi_free(ctx, s.normal);
    esi_free(ctx, s.area);
    esi_free(ctx, s.count);
    return st;
}
