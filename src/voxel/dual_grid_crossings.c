/* SPDX-License-Identifier: MIT
 *
 * dual_grid_crossings.c: which edges of the grid a triangle crosses, and where.
 *
 * The lattice is thought to be shifted by (e, e^2, e^3) with an infinitely small e > 0 (Edelsbrunner and Muecke, "Simulation of
 * Simplicity", 1990), and every decision is exact in integers. So no lattice line meets a vertex or an edge of the mesh, no lattice point
 * lies on a face, and neighbouring faces agree about their common edge, which is decided from its end points alone. Around a voxel face a
 * closed mesh is then crossed an even number of times, always, boxes on grid planes included.
 *
 * Lines along axis a are scanned in rows: b < c are the other axes, a row has one c and runs along b. Lattice point i of the grid has the
 * fixed-point number (i + ESI_FIXED_BORDER) * 2^bits; i counts from the border here.
 */
#include "voxel/dual_build.h"

/* Geometry may lie this far outside the first and last plane and still count for the cell inside: a mesh that fills its box exactly, or
 * nearly so after rounding, is not to lose its faces. No line of the grid that can be crossed lies in those planes, so parity is kept. */
#define SLACK (1.0 / 256.0)

typedef struct crossing {
    const esi_cell_mesh *mesh;
    esi_dual_hits *hits;
    const int32_t *resolution;
    int32_t x0, x1;
    int32_t face;
    int64_t p[3][3];               /* corners */
    int64_t normal[3];             /* (p1 - p0) x (p2 - p0) */
    int64_t low[3], high[3];
    int first_sign;                /* sign of the first component of the normal that is not 0 */
} crossing;

espalier_status esi_dual_hits_add(espalier_context *ctx, esi_dual_hits *hits, esi_dual_hit hit)
{
    if (hits->count == hits->cap) {
        const int64_t cap = hits->cap ? 2 * hits->cap : 1024;
        esi_dual_hit *items = esi_realloc(ctx, hits->items, (size_t)cap, sizeof *items, "edge crossings");

        if (!items) return ESPALIER_ERR_RESOURCE;
        hits->items = items;
        hits->cap = cap;
    }
    hits->items[hits->count++] = hit;
    return ESPALIER_OK;
}

static int sign_of(int64_t v)
{
    return v > 0 ? 1 : v < 0 ? -1 : 0;
}

/* Sign of normal . d for |normal| < 2^61, |d| < 2^30: split so that the partial sums fit 64 bits. */
static int plane_side(const int64_t normal[3], const int64_t d[3])
{
    int64_t high = 0, low = 0, carry;

    for (int a = 0; a < 3; a++) {
        const int64_t lower = normal[a] & 0x3fffffff;                          /* normal = upper * 2^30 + lower, lower >= 0 */

        high += (normal[a] - lower) / 0x40000000 * d[a];
        low += lower * d[a];
    }
    carry = low >= 0 ? low / 0x40000000 : -((-low + 0x3fffffff) / 0x40000000);       /* floor */
    high += carry;
    low -= carry * 0x40000000;
    return high != 0 ? sign_of(high) : low > 0;
}

/* Does lattice point k of a line (i on axis b, j on c) lie below the face, i.e. before the crossing? */
static bool point_below(const crossing *c, int a, int64_t i, int64_t j, int64_t k)
{
    const int b = a == 0 ? 1 : 0, other = a == 2 ? 1 : 2;
    const int64_t step = (int64_t)1 << c->mesh->bits;
    int64_t d[3];
    int side;

    d[a] = k * step - c->p[0][a];
    d[b] = i * step - c->p[0][b];
    d[other] = j * step - c->p[0][other];
    side = plane_side(c->normal, d);
    if (side == 0) side = c->first_sign;           /* of the shift (e, e^2, e^3) */
    return side * sign_of(c->normal[a]) < 0;
}

/* The line's crossing with the face: along the axis, in fixed-point numbers, and an upper bound of the error. */
static double depth(const crossing *c, int a, int b, int other, int64_t i, int64_t j, double *error)
{
    const int64_t step = (int64_t)1 << c->mesh->bits;
    const double along = (double)c->normal[a];
    const double tb = (double)c->normal[b] / along * (double)(i * step - c->p[0][b]);
    const double tc = (double)c->normal[other] / along * (double)(j * step - c->p[0][other]);
    double t = (double)c->p[0][a] - tb - tc;

    *error = 4e-15 * ((tb < 0 ? -tb : tb) + (tc < 0 ? -tc : tc)) + 1e-6;
    if (t < (double)c->low[a]) t = (double)c->low[a];
    if (t > (double)c->high[a]) t = (double)c->high[a];
    return t;
}

/* The last lattice point before the crossing. */
static int64_t last_below(const crossing *c, int a, int64_t i, int64_t j, double t, double error)
{
    const double at = t * c->mesh->unit, margin = error * c->mesh->unit;
    int64_t k = (int64_t)at;

    if (at - (double)k > margin && (double)(k + 1) - at > margin) return k;
    while (!point_below(c, a, i, j, k)) k--;
    while (point_below(c, a, i, j, k + 1)) k++;
    return k;
}

/* Lattice lines i <= the result run left of the edge from q (not above the row) to r (above it), at row j. */
static int64_t last_left(const int64_t *q, const int64_t *r, int b, int c, int64_t row, int bits)
{
    const int64_t along = (r[b] - q[b]) * (row - q[c]), over = r[c] - q[c];
    int64_t quotient = along / over, rest = along % over, at;

    if (rest < 0) {
        quotient--;
        rest += over;
    }
    at = q[b] + quotient - (rest == 0);            /* strictly left: a line through the edge is shifted to its right */
    return at < 0 ? -1 : at >> bits;
}

/* Rows can be long and steep: leave out what surely lies beyond [low, high] along a. */
static void narrow(const crossing *c, int a, int b, int other, int64_t j, double low, double high, int64_t *first, int64_t *last)
{
    double error, t0, slope, u, v;

    if (*last - *first < 8) return;
    t0 = depth(c, a, b, other, *first, j, &error);
    if (c->normal[b] == 0) {
        if ((t0 + error) * c->mesh->unit < low || (t0 - error) * c->mesh->unit > high) *last = *first - 1;
        return;
    }
    slope = -(double)c->normal[b] / (double)c->normal[a];          /* fixed-point numbers per fixed-point number, so cells per cell */
    u = (low - t0 * c->mesh->unit) / slope;
    v = (high - t0 * c->mesh->unit) / slope;
    if (u > v) {
        const double swap = u;

        u = v;
        v = swap;
    }
    u -= 2.0 + error * c->mesh->unit / (slope < 0 ? -slope : slope);
    v += 2.0 + error * c->mesh->unit / (slope < 0 ? -slope : slope);
    if (v < (double)(*last - *first)) *last = v < 0.0 ? *first - 1 : *first + (int64_t)v;
    if (u > 0.0) *first = u > (double)(*last - *first) ? *last + 1 : *first + (int64_t)u;
}

static espalier_status cross_line(espalier_context *ctx, crossing *c, int a, int b, int other, int64_t i, int64_t j)
{
    double error, at;
    const double t = depth(c, a, b, other, i, j, &error);
    int64_t k = last_below(c, a, i, j, t, error) - ESI_FIXED_BORDER;
    esi_dual_hit hit = {.axis = (int16_t)a, .face = c->face};

    at = t * c->mesh->unit - ESI_FIXED_BORDER;
    if (k == -1 && at >= -SLACK) k = 0;
    if (k == c->resolution[a] && at <= (double)c->resolution[a] + SLACK) k--;
    if (k < 0 || k >= c->resolution[a]) return ESPALIER_OK;
    if (a == 0 && (k < c->x0 || k >= c->x1)) return ESPALIER_OK;
    hit.cell[a] = (int16_t)k;
    hit.cell[b] = (int16_t)(i - ESI_FIXED_BORDER - 1);
    hit.cell[other] = (int16_t)(j - ESI_FIXED_BORDER - 1);
    /* The cell is exact; the place is rounded and must not contradict it. */
    hit.at = ESI_MIN(ESI_MAX(at, (double)k), (double)(k + 1));
    return esi_dual_hits_add(ctx, c->hits, hit);
}

static espalier_status cross_row(espalier_context *ctx, crossing *c, int a, int b, int other, int64_t j)
{
    const int bits = c->mesh->bits;
    const int64_t row = j * ((int64_t)1 << bits);
    int64_t side[3], first, last;
    int n = 0;

    for (int e = 0; e < 3; e++) {
        const int64_t *q = c->p[e], *r = c->p[(e + 1) % 3];

        if ((q[other] > row) == (r[other] > row)) continue;
        side[n++] = q[other] > row ? last_left(r, q, b, other, row, bits) : last_left(q, r, b, other, row, bits);
    }
    if (n != 2) return ESPALIER_OK;
    first = ESI_MIN(side[0], side[1]) + 1;
    last = ESI_MAX(side[0], side[1]);
    first = ESI_MAX(first, ESI_FIXED_BORDER + 1);
    last = ESI_MIN(last, ESI_FIXED_BORDER + c->resolution[b] - 1);
    if (b == 0) {
        first = ESI_MAX(first, ESI_FIXED_BORDER + (int64_t)c->x0);
        last = ESI_MIN(last, ESI_FIXED_BORDER + (int64_t)c->x1);
    }
    if (a == 0) narrow(c, a, b, other, j, (double)(ESI_FIXED_BORDER + c->x0 - 1), (double)(ESI_FIXED_BORDER + c->x1 + 1), &first, &last);
    for (int64_t i = first; i <= last; i++) {
        const espalier_status st = cross_line(ctx, c, a, b, other, i, j);

        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

static espalier_status cross_axis(espalier_context *ctx, crossing *c, int a)
{
    const int b = a == 0 ? 1 : 0, other = a == 2 ? 1 : 2, bits = c->mesh->bits;
    const int64_t step = (int64_t)1 << bits;
    const int64_t first = ESI_MAX((c->low[other] + step - 1) >> bits, ESI_FIXED_BORDER + 1);
    const int64_t last = ESI_MIN(((c->high[other] + step - 1) >> bits) - 1, ESI_FIXED_BORDER + (int64_t)c->resolution[other] - 1);

    if (c->normal[a] == 0) return ESPALIER_OK;
    if ((c->low[b] + step - 1) >> bits > (c->high[b] >> bits)) return ESPALIER_OK;           /* between two lines: most small faces */
    for (int64_t j = first; j <= last; j++) {
        const espalier_status st = cross_row(ctx, c, a, b, other, j);

        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

espalier_status esi_cross_face(espalier_context *ctx, esi_dual_hits *hits, const esi_cell_mesh *mesh, int32_t face,
                               const int32_t resolution[3], int32_t x0, int32_t x1)
{
    crossing c = {.mesh = mesh, .hits = hits, .resolution = resolution, .x0 = x0, .x1 = x1, .face = face};
    espalier_status st = ESPALIER_OK;

    for (int k = 0; k < 3; k++) {
        for (int a = 0; a < 3; a++) {
            c.p[k][a] = mesh->fixed[3 * (int64_t)mesh->faces[3 * (int64_t)face + k] + a];
            c.low[a] = k == 0 ? c.p[k][a] : ESI_MIN(c.low[a], c.p[k][a]);
            c.high[a] = k == 0 ? c.p[k][a] : ESI_MAX(c.high[a], c.p[k][a]);
        }
    }
    for (int a = 2; a >= 0; a--) {
        const int b = (a + 1) % 3, d = (a + 2) % 3;

        c.normal[a] = (c.p[1][b] - c.p[0][b]) * (c.p[2][d] - c.p[0][d]) - (c.p[1][d] - c.p[0][d]) * (c.p[2][b] - c.p[0][b]);
        if (c.normal[a] != 0) c.first_sign = sign_of(c.normal[a]);
    }
    for (int a = 0; st == ESPALIER_OK && a < 3; a++) st = cross_axis(ctx, &c, a);
    return st;
}
