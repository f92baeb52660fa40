/* SPDX-License-Identifier: MIT
 *
 * dual_grid_solve.c: the dual vertex of a cell: minimum of a quadric in the closed cell (o-voxel/src/convert/flexible_dual_grid.cpp). The
 * reference works in fp32 and world units, where the candidates on the cell's faces differ by less than rounding on fine grids; here all is
 * double and relative to the cell.
 */
#include "voxel/dual_build.h"

#include <math.h>

/* A x = -b, A symmetric: a[3][3] and right-hand side, elimination with partial pivoting over `n` unknowns. False if singular. */
static bool eliminate(double m[3][4], int n)
{
    for (int k = 0; k < n; k++) {
        int pivot = k;

        for (int i = k + 1; i < n; i++) {
            if (fabs(m[i][k]) > fabs(m[pivot][k])) pivot = i;
        }
        if (!(fabs(m[pivot][k]) > 0.0)) return false;
        for (int j = 0; j < 4; j++) {
            const double swap = m[k][j];

            m[k][j] = m[pivot][j];
            m[pivot][j] = swap;
        }
        for (int i = k + 1; i < n; i++) {
            const double f = m[i][k] / m[k][k];

            for (int j = k; j < 4; j++) m[i][j] -= f * m[k][j];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        for (int j = k + 1; j < n; j++) m[k][3] -= m[k][j] * m[j][3];
        m[k][3] /= m[k][k];
        if (!isfinite(m[k][3])) return false;
    }
    return true;
}

typedef struct solver {
    double a[3][3], b[3];
    const double *size;
    double best[3], energy;
} solver;

static double energy(const solver *s, const double x[3])
{
    double e = 0.0;

    for (int i = 0; i < 3; i++) e += x[i] * (s->a[i][0] * x[0] + s->a[i][1] * x[1] + s->a[i][2] * x[2] + 2.0 * s->b[i]);
    return e;
}

static void consider(solver *s, const double x[3])
{
    const double e = energy(s, x);

    if (!(e < s->energy)) return;
    s->energy = e;
    memcpy(s->best, x, sizeof s->best);
}

static bool inside(double v, double size)
{
    return v >= 0.0 && v <= size;
}

/* One axis held at a face of the cell. */
static void on_face(solver *s, int f, double value)
{
    const int u = (f + 1) % 3, v = (f + 2) % 3;
    double m[3][4] = {{s->a[u][u], s->a[u][v], 0.0, -(s->b[u] + s->a[u][f] * value)},
                      {s->a[v][u], s->a[v][v], 0.0, -(s->b[v] + s->a[v][f] * value)}};
    double x[3];

    if (!eliminate(m, 2) || !inside(m[0][3], s->size[u]) || !inside(m[1][3], s->size[v])) return;
    x[f] = value;
    x[u] = m[0][3];
    x[v] = m[1][3];
    consider(s, x);
}

/* Two axes held at an edge of the cell. */
static void on_edge(solver *s, int g, double first, double second)
{
    const int u = (g + 1) % 3, v = (g + 2) % 3;
    double x[3];

    x[u] = first;
    x[v] = second;
    x[g] = -(s->a[g][u] * first + s->a[g][v] * second + s->b[g]) / s->a[g][g];
    if (inside(x[g], s->size[g])) consider(s, x);
}

static void constrained(solver *s)
{
    s->energy = (double)INFINITY;
    for (int f = 0; f < 3; f++) {
        on_face(s, f, 0.0);
        on_face(s, f, s->size[f]);
    }
    for (int g = 0; g < 3; g++) {
        const double u = s->size[(g + 1) % 3], v = s->size[(g + 2) % 3];

        on_edge(s, g, 0.0, 0.0);
        on_edge(s, g, 0.0, v);
        on_edge(s, g, u, 0.0);
        on_edge(s, g, u, v);
    }
    for (int k = 7; k >= 0; k--) {
        const double x[3] = {k & 4 ? s->size[0] : 0.0, k & 2 ? s->size[1] : 0.0, k & 1 ? s->size[2] : 0.0};

        consider(s, x);
    }
}

bool esi_quadric_solve(double x[3], const esi_quadric *q, double regularization, const double size[3])
{
    const double trace = q->a[0] + q->a[1] + q->a[2];
    /* Without any pull a flat neighbourhood has no one answer: take the one nearest the mean crossing. */
    const double pull = ESI_MAX(regularization * q->count, 1e-9 * trace);
    solver s = {.a = {{q->a[0] + pull, q->a[5], q->a[4]}, {q->a[5], q->a[1] + pull, q->a[3]}, {q->a[4], q->a[3], q->a[2] + pull}},
                .size = size};
    double m[3][4];
    bool free_inside;

    for (int i = 0; i < 3; i++) {
        const double mean = q->count > 0.0 ? q->mean[i] / q->count : 0.5 * size[i];

        s.b[i] = q->b[i] - pull * mean;
        x[i] = ESI_MIN(ESI_MAX(mean, 0.0), size[i]);
        for (int j = 0; j < 3; j++) m[i][j] = s.a[i][j];
        m[i][3] = -s.b[i];
    }
    if (!eliminate(m, 3)) return true;             /* no area anywhere: the mean */
    free_inside = inside(m[0][3], size[0]) && inside(m[1][3], size[1]) && inside(m[2][3], size[2]);
    if (free_inside) {
        for (int i = 0; i < 3; i++) x[i] = m[i][3];
        return false;
    }
    constrained(&s);
    if (s.energy < (double)INFINITY) memcpy(x, s.best, sizeof s.best);
    return true;
}
