/* SPDX-License-Identifier: MIT
 *
 * chart_untangle.c: faces that lie upside down in a flat chart: each of their vertices goes part of the way to the middle of its neighbours
 * as long as that makes the worst face around it better (optimisation-based smoothing: Freitag, Plassmann, Local Optimization-based
 * Simplicial Mesh Untangling and Improvement, 2000, with a fixed set of steps in place of the linear program).
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define SWEEPS 20
#define POOR 0.02                  /* faces below this share of their area are worked on */

static double face_ratio(const chart_flat *flat, int32_t i)
{
    const int32_t *c = flat->corner + 3 * (size_t)i;
    const double *p0 = flat->uv + 2 * (size_t)c[0], *p1 = flat->uv + 2 * (size_t)c[1], *p2 = flat->uv + 2 * (size_t)c[2];
    double det = (p1[0] - p0[0]) * (p2[1] - p0[1]) - (p1[1] - p0[1]) * (p2[0] - p0[0]);
    return 0.5 * det / flat->shapes[i].area;
}

/* Corners around each vertex: row_start and column are free by now. */
static void index_corners(chart_flat *flat)
{
    int32_t *start = flat->row_start;

    for (int32_t v = 0; v <= flat->n_vertices; v++) start[v] = 0;
    for (int32_t c = 0; c < 3 * flat->n_faces; c++) start[flat->corner[c] + 1]++;
    for (int32_t v = 0; v < flat->n_vertices; v++) start[v + 1] += start[v];
    for (int32_t c = 0; c < 3 * flat->n_faces; c++) flat->column[start[flat->corner[c]]++] = c;
    for (int32_t v = flat->n_vertices; v > 0; v--) start[v] = start[v - 1];
    start[0] = 0;
}

static double worst_around(const chart_flat *flat, int32_t v)
{
    double worst = INFINITY;

    for (int32_t e = flat->row_start[v]; e < flat->row_start[v + 1]; e++) {
        double ratio = face_ratio(flat, flat->column[e] / 3);
        if (ratio < worst) worst = ratio;
    }
    return worst;
}

static void middle_of_star(const chart_flat *flat, int32_t v, double out[2])
{
    int32_t n = flat->row_start[v + 1] - flat->row_start[v];

    out[0] = out[1] = 0.0;
    for (int32_t e = flat->row_start[v]; e < flat->row_start[v + 1]; e++) {
        int32_t a = flat->corner[esi_next_corner(flat->column[e])], b = flat->corner[esi_previous_corner(flat->column[e])];
        for (size_t k = 0; k < 2; k++) out[k] += 0.5 * (flat->uv[2 * (size_t)a + k] + flat->uv[2 * (size_t)b + k]);
    }
    out[0] /= n;
    out[1] /= n;
}

static bool improve(chart_flat *flat, int32_t v)
{
    static const double steps[] = {1.0, 0.5, 0.25, 0.1};
    flat->work += 10 * (flat->row_start[v + 1] - flat->row_start[v]);
    double *p = flat->uv + 2 * (size_t)v, old[2] = {p[0], p[1]}, best[2] = {p[0], p[1]}, middle[2], worst = worst_around(flat, v);
    bool better = false;

    middle_of_star(flat, v, middle);
    for (size_t i = 0; i < ESI_COUNT(steps); i++) {
        double now;
        for (int k = 0; k < 2; k++) p[k] = old[k] + steps[i] * (middle[k] - old[k]);
        now = worst_around(flat, v);
        if (!(now > worst)) continue;
        worst = now;
        best[0] = p[0];
        best[1] = p[1];
        better = true;
    }
    p[0] = best[0];
    p[1] = best[1];
    return better;
}

bool chart_untangle(chart_flat *flat)
{
    index_corners(flat);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        bool poor = false, moved = false;
        flat->work += flat->n_faces;
        for (int32_t i = 0; i < flat->n_faces; i++) {
            if (face_ratio(flat, i) >= POOR) continue;
            poor = true;
            for (int k = 0; k < 3; k++) moved |= improve(flat, flat->corner[3 * (size_t)i + (size_t)k]);
        }
        if (!poor || !moved) break;
    }
    chart_measure(flat, flat->uv);
    for (int32_t i = 0; i < flat->n_faces && flat->min_ratio < CHART_MIN_RATIO; i++)
        if (face_ratio(flat, i) < CHART_MIN_RATIO) chart_carve(flat, i);
    return flat->min_ratio >= CHART_MIN_RATIO;
}
