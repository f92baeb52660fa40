/* SPDX-License-Identifier: MIT
 *
 * triangle_cells.c: the cells that a triangle meets (test: Schwarz and Seidel, "Fast Parallel Surface and Solid Voxelization on GPUs",
 * 2010). Cells of large triangles are found column by column along the largest component of the normal, so that the work grows with the
 * triangle's area and not with the volume of its box.
 */
#include "voxel/dual_build.h"

#include <math.h>

#define SMALL_BOX 64               /* cells that are not worth a plan */

static int32_t held(double v, int32_t last)
{
    if (!(v > 0.0)) return 0;
    return v >= (double)last ? last : (int32_t)v;
}

bool esi_triangle_test_make(esi_triangle_test *t, const esi_cell_mesh *mesh, int32_t face, const int32_t resolution[3])
{
    double e[3][3], c[3], largest = 0.0, to_corner = 0.0, from_corner = 0.0;

    for (int k = 0; k < 3; k++) esi_cell_corner(mesh, mesh->faces[3 * (int64_t)face + k], t->corner[k]);
    for (int a = 0; a < 3; a++) {
        const double p = t->corner[0][a], q = t->corner[1][a], r = t->corner[2][a];
        const double low = ESI_MIN(p, ESI_MIN(q, r)), high = ESI_MAX(p, ESI_MAX(q, r));

        e[0][a] = q - p;
        e[1][a] = r - q;
        e[2][a] = p - r;
        t->low[a] = held(low, resolution[a]);
        t->high[a] = held(high + 1.0, resolution[a]);
        /* What lies in a plane of the grid touches the cells before it as well. */
        if (t->low[a] > 0 && low == (double)t->low[a]) t->low[a]--;
    }
    t->normal[0] = e[0][1] * e[1][2] - e[0][2] * e[1][1];
    t->normal[1] = e[0][2] * e[1][0] - e[0][0] * e[1][2];
    t->normal[2] = e[0][0] * e[1][1] - e[0][1] * e[1][0];
    t->major = 0;
    for (int a = 0; a < 3; a++) {
        c[a] = t->normal[a] > 0.0 ? 1.0 : 0.0;
        to_corner += t->normal[a] * (c[a] - t->corner[0][a]);
        from_corner += t->normal[a] * (1.0 - c[a] - t->corner[0][a]);
        if (fabs(t->normal[a]) > largest) {
            largest = fabs(t->normal[a]);
            t->major = a;
        }
    }
    t->d1 = to_corner;
    t->d2 = from_corner;
    for (int plane = 0; plane < 3; plane++) {
        const int u = plane, v = (plane + 1) % 3, w = (plane + 2) % 3;
        const double m = t->normal[w] < 0.0 ? -1.0 : 1.0;

        for (int k = 0; k < 3; k++) {
            const double gu = -m * e[k][v], gv = m * e[k][u];

            t->g[plane][k][0] = gu;
            t->g[plane][k][1] = gv;
            t->d[plane][k] = -(gu * t->corner[k][u] + gv * t->corner[k][v]) + (gu > 0.0 ? gu : 0.0) + (gv > 0.0 ? gv : 0.0);
        }
    }
    t->reference = mesh->shifted ? mesh : NULL;
    if (!t->reference) return largest > 0.0;
    esi_reference_normal(t->n, mesh, face);
    for (int k = 0; k < 3; k++) memcpy(t->v[k], mesh->shifted + 3 * (int64_t)mesh->faces[3 * (int64_t)face + k], sizeof t->v[k]);
    for (int a = 0; a < 3; a++) {
        const float low = ESI_MIN(t->v[0][a], ESI_MIN(t->v[1][a], t->v[2][a])), high = ESI_MAX(t->v[0][a], ESI_MAX(t->v[1][a], t->v[2][a]));

        t->low[a] = held((double)(low / mesh->cell_size[a]), resolution[a]);
        t->high[a] = held((double)(high / mesh->cell_size[a] + 1.0f), resolution[a]);
    }
    return true;
}

bool esi_triangle_meets(const esi_triangle_test *t, int32_t x, int32_t y, int32_t z)
{
    const double p[3] = {(double)x, (double)y, (double)z};
    const double np = t->normal[0] * p[0] + t->normal[1] * p[1] + t->normal[2] * p[2];

    if (t->reference) return esi_reference_triangle_meets(t, x, y, z);
    if ((np + t->d1) * (np + t->d2) > 0.0) return false;
    for (int plane = 0; plane < 3; plane++) {
        const double pu = p[plane], pv = p[(plane + 1) % 3];

        for (int k = 0; k < 3; k++) {
            if (t->g[plane][k][0] * pu + t->g[plane][k][1] * pv + t->d[plane][k] < 0.0) return false;
        }
    }
    return true;
}

typedef struct visit {
    const esi_triangle_test *t;
    int32_t low[3], high[3];
    esi_cell_wanted_fn wanted;
    esi_cell_fn fn;
    void *arg;
} visit;

static void try_cell(const visit *v, const int32_t cell[3])
{
    if (v->wanted && !v->wanted(v->arg, cell)) return;
    if (esi_triangle_meets(v->t, cell[0], cell[1], cell[2])) v->fn(v->arg, cell);
}

static void visit_box(const visit *v)
{
    int32_t cell[3];

    for (cell[0] = v->low[0]; cell[0] < v->high[0]; cell[0]++) {
        for (cell[1] = v->low[1]; cell[1] < v->high[1]; cell[1]++) {
            for (cell[2] = v->low[2]; cell[2] < v->high[2]; cell[2]++) try_cell(v, cell);
        }
    }
}

/* Columns along the major axis a; the plane's height over a column changes by the slopes, at most 1 per cell. */
static void visit_columns(const visit *v)
{
    const esi_triangle_test *t = v->t;
    const int a = t->major, b = a == 0 ? 1 : 0, c = a == 2 ? 1 : 2;
    const double sb = -t->normal[b] / t->normal[a], sc = -t->normal[c] / t->normal[a], spread = 0.5 * (fabs(sb) + fabs(sc)) + 1e-6;
    int32_t cell[3];

    for (cell[c] = v->low[c]; cell[c] < v->high[c]; cell[c]++) {
        const double base = t->corner[0][a] + sc * ((double)cell[c] + 0.5 - t->corner[0][c]);
        int32_t first = v->low[b], last = v->high[b] - 1;

        if (fabs(sb) > 0.0) {                      /* columns whose height lies between the layers wanted */
            const double u = ((double)v->low[a] - 2.0 - base) / sb, w = ((double)v->high[a] + 2.0 - base) / sb;
            const double begin = ESI_MIN(u, w) + t->corner[0][b] - 1.0, end = ESI_MAX(u, w) + t->corner[0][b] + 1.0;

            if (begin > (double)first) first = begin > (double)last ? last + 1 : (int32_t)begin;
            if (end < (double)last) last = end < (double)first ? first - 1 : (int32_t)end;
        }
        for (cell[b] = first; cell[b] <= last; cell[b]++) {
            const double height = base + sb * ((double)cell[b] + 0.5 - t->corner[0][b]);
            const double from = ESI_MAX(height - spread, (double)v->low[a]), to = ESI_MIN(height + spread, (double)v->high[a]);

            if (!(from <= to)) continue;
            for (cell[a] = (int32_t)from; cell[a] <= (int32_t)to && cell[a] < v->high[a]; cell[a]++) try_cell(v, cell);
        }
    }
}

void esi_triangle_cells(const esi_triangle_test *t, int32_t x0, int32_t x1, esi_cell_wanted_fn wanted, esi_cell_fn fn, void *arg)
{
    visit v = {.t = t, .wanted = wanted, .fn = fn, .arg = arg};
    int64_t cells = 1;

    for (int a = 0; a < 3; a++) {
        v.low[a] = a == 0 ? ESI_MAX(t->low[0], x0) : t->low[a];
        v.high[a] = a == 0 ? ESI_MIN(t->high[0], x1) : t->high[a];
        if (v.low[a] >= v.high[a]) return;
        cells *= v.high[a] - v.low[a];
    }
    if (cells <= SMALL_BOX || t->reference) {
        visit_box(&v);
    } else {
        visit_columns(&v);
    }
}
