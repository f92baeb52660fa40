/* SPDX-License-Identifier: MIT
 *
 * chart_check.c: is a flat chart a map? If no face is turned over, the number of faces over a point is the winding number of the outlines
 * around it; so a chart lies nowhere over itself when its outlines do not meet and exactly one of them runs counter-clockwise. Outlines are
 * tested with a tolerance: near contact counts as contact.
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define CONTACT 1e-6               /* of the chart's larger side: above the rounding of float coordinates */
#define PAIRS_PER_EDGE 512         /* more work than that: taken as overlapping, smaller charts will be easier */

void chart_measure(chart_flat *flat, const double *uv)
{
    const double *area = flat->lists->faces->area;
    double sum = 0.0, uv_area = 0.0, min_ratio = INFINITY;

    for (int32_t i = 0; i < flat->n_faces; i++) {
        const chart_shape *s = &flat->shapes[i];
        const int32_t *c = flat->corner + 3 * (size_t)i;
        const double *p0 = uv + 2 * (size_t)c[0], *p1 = uv + 2 * (size_t)c[1], *p2 = uv + 2 * (size_t)c[2];
        double ux = p1[0] - p0[0], uy = p1[1] - p0[1], vx = p2[0] - p0[0], vy = p2[1] - p0[1];
        double det = ux * vy - uy * vx, ratio = 0.5 * det / s->area, e11, e12, e22, weight = area[flat->members[i]];
        if (!(ratio >= min_ratio)) min_ratio = ratio;
        if (!(det > 0.0)) {
            if (weight > 0.0) sum = INFINITY;
            continue;
        }
        e11 = s->x1 * s->x1;
        e12 = s->x1 * s->x2;
        e22 = s->x2 * s->x2 + s->y2 * s->y2;
        uv_area += 0.5 * det;
        sum += weight * 0.5 * (e11 * (vx * vx + vy * vy) - 2.0 * e12 * (ux * vx + uy * vy) + e22 * (ux * ux + uy * uy)) / (det * det);
    }
    flat->min_ratio = min_ratio;
    flat->stretch = flat->area > 0.0 ? sqrt(sum * uv_area) / flat->area : 1.0;
}

/* ---------------------------------------------------------------- outlines */

typedef struct grid {
    double low[2], cell, contact;
    int32_t size[2];
} grid;

static int32_t begin_of(const chart_flat *flat, int32_t segment) { return flat->corner[flat->outline[segment]]; }

void chart_carve(chart_flat *flat, int32_t face)
{
    for (int32_t i = 0; i < flat->n_carve && i < CHART_CARVE; i++)
        if (flat->carve[i] == face) return;
    if (flat->n_carve < CHART_CARVE) flat->carve[flat->n_carve] = face;
    if (flat->n_carve <= CHART_CARVE) flat->n_carve++;
}

static const double *at(const chart_flat *flat, int32_t v) { return flat->uv + 2 * (size_t)v; }

/* Signed area inside the outline through segment i; marks its vertices as seen. */
static double outline_area(const chart_flat *flat, int32_t i, int32_t *seen)
{
    int32_t first = begin_of(flat, i);
    const double *o = at(flat, first);
    double area = 0.0;

    for (int32_t v = first; !seen[v]; v = flat->follower[v]) {
        const double *p = at(flat, v), *q = at(flat, flat->follower[v]);
        seen[v] = i + 1;
        area += (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0]);
    }
    return area;
}

/* Is exactly one outline counter-clockwise? Faces on the others are carved. */
static bool one_outer(chart_flat *flat)
{
    int32_t *seen = flat->slot, outer = 0, largest = -1;
    double largest_area = 0.0;

    for (int32_t v = 0; v < flat->n_vertices; v++) seen[v] = 0;
    for (int32_t i = 0; i < flat->n_outline; i++) {
        double area = outline_area(flat, i, seen);
        outer += area > 0.0;
        if (!(area > largest_area)) continue;
        largest_area = area;
        largest = i;
    }
    if (outer == 1) return true;
    for (int32_t v = 0; v < flat->n_vertices; v++) seen[v] = 0;
    for (int32_t i = 0, loop = -1; i < flat->n_outline; i++) {
        if (seen[begin_of(flat, i)]) continue;
        if (i == largest || !(outline_area(flat, i, seen) > 0.0)) {
            outline_area(flat, i, seen);
            continue;
        }
        loop = i + 1;
        for (int32_t j = 0; j < flat->n_outline; j++)
            if (seen[begin_of(flat, j)] == loop) chart_carve(flat, flat->outline[j] / 3);
    }
    return false;
}

static void make_grid(const chart_flat *flat, grid *g)
{
    double high[2] = {-INFINITY, -INFINITY}, extent, cells = 2.0 * flat->n_outline;

    g->low[0] = g->low[1] = INFINITY;
    for (int32_t i = 0; i < flat->n_outline; i++) {
        for (int k = 0; k < 2; k++) {
            double x = at(flat, begin_of(flat, i))[k];
            if (x < g->low[k]) g->low[k] = x;
            if (x > high[k]) high[k] = x;
        }
    }
    extent = ESI_MAX(high[0] - g->low[0], high[1] - g->low[1]);
    if (extent <= 0.0) extent = 1.0;
    g->contact = CONTACT * extent;
    g->cell = sqrt(ESI_MAX((high[0] - g->low[0]) * (high[1] - g->low[1]), extent * extent / cells) / cells);
    for (int k = 0; k < 2; k++) g->size[k] = 1 + (int32_t)ESI_MIN((high[k] - g->low[k]) / g->cell, cells);
}

static int32_t clamp_cell(const grid *g, int axis, double x)
{
    double c = (x - g->low[axis]) / g->cell;
    return c <= 0.0 ? 0 : c >= g->size[axis] - 1 ? g->size[axis] - 1 : (int32_t)c;
}

/* Counts (items NULL) or enters the segment's cells, row by row with the columns it spans there. */
static int64_t enter(const grid *g, const double *p, const double *q, int32_t *count, int32_t *items, int32_t segment)
{
    const double *low = p[1] < q[1] ? p : q, *high = p[1] < q[1] ? q : p;
    int32_t first = clamp_cell(g, 1, low[1] - g->contact), last = clamp_cell(g, 1, high[1] + g->contact);
    double slope = high[1] > low[1] ? (high[0] - low[0]) / (high[1] - low[1]) : 0.0;
    int64_t n = 0;

    for (int32_t row = first; row <= last; row++) {
        double y0 = ESI_MAX(g->low[1] + row * g->cell - g->contact, low[1]), x0 = low[0], x1 = high[0];
        double y1 = ESI_MIN(g->low[1] + (row + 1) * g->cell + g->contact, high[1]);
        y0 = ESI_MIN(y0, high[1]); /* rows reached by the contact margin only */
        y1 = ESI_MAX(y1, low[1]);
        if (last > first) {
            x0 = low[0] + (y0 - low[1]) * slope;
            x1 = low[0] + (y1 - low[1]) * slope;
        }
        int32_t from = clamp_cell(g, 0, ESI_MIN(x0, x1) - 2.0 * g->contact), to = clamp_cell(g, 0, ESI_MAX(x0, x1) + 2.0 * g->contact);
        n += to - from + 1;
        for (int32_t column = from; column <= to; column++) {
            size_t cell = (size_t)row * (size_t)g->size[0] + (size_t)column;
            if (items) items[count[cell]] = segment;
            count[cell]++;
        }
    }
    return n;
}

/* Which side of the line p -> q is r on: -1, 0 = on it within contact, 1. */
static int side(const double *p, const double *q, const double *r, double contact)
{
    double x = q[0] - p[0], y = q[1] - p[1], cross = x * (r[1] - p[1]) - y * (r[0] - p[0]);
    double tolerance = contact * sqrt(x * x + y * y);
    return cross > tolerance ? 1 : cross < -tolerance ? -1 : 0;
}

static bool meet(const double *p, const double *q, const double *r, const double *s, double contact)
{
    int a, b;

    for (int k = 0; k < 2; k++) {
        if (ESI_MAX(p[k], q[k]) + contact < ESI_MIN(r[k], s[k]) || ESI_MAX(r[k], s[k]) + contact < ESI_MIN(p[k], q[k])) return false;
    }
    a = side(p, q, r, contact);
    b = side(p, q, s, contact);
    if (a != 0 && a == b) return false;
    a = side(r, s, p, contact);
    b = side(r, s, q, contact);
    return !(a != 0 && a == b);
}

static bool reserve_cells(espalier_context *ctx, chart_flat *flat, int64_t cells)
{
    if (cells < flat->cell_capacity) return true;
    esi_free(ctx, flat->cell_start);
    flat->cell_capacity = 0;
    flat->cell_start = esi_alloc(ctx, (size_t)(cells + cells / 4 + 64), sizeof *flat->cell_start, "outline grid");
    if (!flat->cell_start) return false;
    flat->cell_capacity = cells + cells / 4 + 64;
    return true;
}

static bool reserve_items(espalier_context *ctx, chart_flat *flat, int64_t items)
{
    if (items <= flat->item_capacity) return true;
    esi_free(ctx, flat->cell_item);
    flat->item_capacity = 0;
    flat->cell_item = esi_alloc(ctx, (size_t)(items + items / 4 + 64), sizeof *flat->cell_item, "outline grid");
    if (!flat->cell_item) return false;
    flat->item_capacity = items + items / 4 + 64;
    return true;
}

/* Fills cell_start and cell_item: the segments of each cell, ascending. */
static bool fill_grid(espalier_context *ctx, chart_flat *flat, const grid *g)
{
    int64_t cells = (int64_t)g->size[0] * g->size[1], items = 0;
    int32_t *start;

    if (!reserve_cells(ctx, flat, cells + 1)) return false;
    start = flat->cell_start;
    for (int64_t c = 0; c <= cells; c++) start[c] = 0;
    for (int32_t i = 0; i < flat->n_outline; i++) {
        int32_t v = begin_of(flat, i);
        items += enter(g, at(flat, v), at(flat, flat->follower[v]), start + 1, NULL, i);
    }
    if (!reserve_items(ctx, flat, items)) return false;
    for (int64_t c = 0; c < cells; c++) start[c + 1] += start[c];
    for (int32_t i = 0; i < flat->n_outline; i++) {
        int32_t v = begin_of(flat, i);
        enter(g, at(flat, v), at(flat, flat->follower[v]), start, flat->cell_item, i);
    }
    for (int64_t c = cells; c > 0; c--) start[c] = start[c - 1];
    start[0] = 0;
    return true;
}

static double turn(const double *o, const double *p, const double *q)
{
    return (p[0] - o[0]) * (q[1] - o[1]) - (p[1] - o[1]) * (q[0] - o[0]);
}

/* Is r seen from o strictly between p and q, counter-clockwise from p? Directions closer than rounding count as equal. */
static bool strictly_between(const double *o, const double *p, const double *q, const double *r)
{
    double pr = turn(o, p, r), rq = turn(o, r, q), scale2 = 0.0, tolerance;

    for (int k = 0; k < 2; k++) {
        double reach = ESI_MAX(fabs(p[k] - o[k]), ESI_MAX(fabs(q[k] - o[k]), fabs(r[k] - o[k])));
        scale2 += reach * reach;
    }
    tolerance = 1e-9 * scale2;
    if (turn(o, p, q) > 0.0) return pr > tolerance && rq > tolerance;
    return pr > tolerance || rq > tolerance;
}

/* Two fans of the chart at one point, where it touches itself: do they lie over each other? flat->slot = vertex before on the outline. */
static bool fans_overlap(const chart_flat *flat, int32_t a, int32_t b)
{
    const double *o = at(flat, a), *a0 = at(flat, flat->follower[a]), *a1 = at(flat, flat->slot[a]);
    const double *b0 = at(flat, flat->follower[b]), *b1 = at(flat, flat->slot[b]);

    return strictly_between(o, a0, a1, b0) || strictly_between(o, a0, a1, b1) || strictly_between(o, b0, b1, a0) ||
           strictly_between(o, b0, b1, a1) || (!strictly_between(o, b0, b1, a0) && turn(o, a0, b0) == 0.0 && turn(o, a1, b1) == 0.0);
}

/* One point of the surface, in the same place, but in fans that are not joined: the chart touches itself, or is slit. */
static bool same_point(const chart_flat *flat, int32_t a, int32_t b, double contact)
{
    const esi_mesh *mesh = flat->lists->faces->mesh;
    const double *p = at(flat, a), *q = at(flat, b);
    const float *x, *y;

    if (fabs(p[0] - q[0]) > contact || fabs(p[1] - q[1]) > contact) return false;
    x = mesh->vertices + 3 * (size_t)mesh->faces[flat->source[a]];
    y = mesh->vertices + 3 * (size_t)mesh->faces[flat->source[b]];
    return x[0] == y[0] && x[1] == y[1] && x[2] == y[2];
}

static bool segments_meet(const chart_flat *flat, int32_t i, int32_t j, double contact)
{
    int32_t a = begin_of(flat, i), b = flat->follower[a], c = begin_of(flat, j), d = flat->follower[c];

    if (a == d || b == c) return false;
    if (same_point(flat, a, c, contact)) return fans_overlap(flat, a, c);
    if (same_point(flat, a, d, contact) || same_point(flat, b, c, contact) || same_point(flat, b, d, contact)) return false;
    return meet(at(flat, a), at(flat, b), at(flat, c), at(flat, d), contact);
}

/* Of the two faces at a contact the one that is turned farther from the chart's axis goes. */
static void carve_contact(chart_flat *flat, int32_t i, int32_t j)
{
    const float *normal = flat->lists->faces->normal;
    int32_t a = flat->outline[i] / 3, b = flat->outline[j] / 3;
    const float *m = normal + 3 * (size_t)flat->members[a], *n = normal + 3 * (size_t)flat->members[b];
    double da = 0.0, db = 0.0;

    for (int k = 0; k < 3; k++) {
        da += (double)m[k] * flat->axis[k];
        db += (double)n[k] * flat->axis[k];
    }
    chart_carve(flat, da < db ? a : b);
}

espalier_status chart_overlaps(espalier_context *ctx, chart_flat *flat, bool *overlaps)
{
    grid g;
    int64_t cells, pairs = 0;

    *overlaps = flat->n_faces > 1;
    flat->n_carve = 0;
    if (flat->n_outline < 3 || !*overlaps || !one_outer(flat)) return ESPALIER_OK;
    for (int32_t i = 0; i < flat->n_outline; i++) flat->slot[flat->follower[begin_of(flat, i)]] = begin_of(flat, i);
    make_grid(flat, &g);
    if (!fill_grid(ctx, flat, &g)) return ESPALIER_ERR_RESOURCE;
    cells = (int64_t)g.size[0] * g.size[1];
    for (int64_t cell = 0; cell < cells && flat->n_carve <= CHART_CARVE; cell++) {
        const int32_t *item = flat->cell_item + flat->cell_start[cell];
        int32_t n = flat->cell_start[cell + 1] - flat->cell_start[cell];
        pairs += (int64_t)n * n / 2;
        if (pairs > (int64_t)PAIRS_PER_EDGE * flat->n_outline) flat->n_carve = CHART_CARVE + 1;
        for (int32_t i = 0; i < n && flat->n_carve <= CHART_CARVE; i++)
            for (int32_t j = i + 1; j < n; j++)
                if (segments_meet(flat, item[i], item[j], g.contact)) carve_contact(flat, item[i], item[j]);
    }
    *overlaps = flat->n_carve > 0;
    flat->work += pairs + flat->cell_start[cells] + cells;
    return ESPALIER_OK;
}
