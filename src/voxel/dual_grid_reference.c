/* SPDX-License-Identifier: MIT
 *
 * dual_grid_reference.c: edge crossings as the reference finds them (o-voxel/src/convert/flexible_dual_grid.cpp): scan lines in double over
 * fp32 vertices, fp32 grid planes, truncation toward zero. Crossings on grid planes can be lost or doubled here; that is part of it.
 */
#include "voxel/dual_build.h"

#include <math.h>

typedef struct scan {
    const int32_t *n;
    const float *h;
    esi_dual_hits *hits;
    int32_t face;
    int a0, a1, a2;                /* along a row, across rows, depth */
} scan;

/* A triangle's corner as (a0, a1, a2). */
typedef struct scan_corner {
    double v[3];
} scan_corner;

static double lerp(double at, double a, double b, double va, double vb)
{
    double s;

    if (a == b) return va;
    s = (at - a) / (b - a);
    return (1.0 - s) * va + s * vb;
}

/* trunc(v), held to [0, last]. */
static int32_t clamped_cell(double v, int32_t last)
{
    if (!(v >= 0.0)) return 0;
    return v >= (double)last ? last : (int32_t)v;
}

static espalier_status scan_row(espalier_context *ctx, const scan *s, int32_t y, const scan_corner *a, const scan_corner *b,
                                const scan_corner *c)
{
    const int32_t last0 = s->n[s->a0] - 1;
    const float h0 = s->h[s->a0], h1 = s->h[s->a1];
    const double at = (double)((float)(y + 1) * h1);
    double p[2], q[2];
    int32_t first, end;

    p[0] = lerp(at, a->v[1], b->v[1], a->v[0], b->v[0]);
    p[1] = lerp(at, a->v[1], b->v[1], a->v[2], b->v[2]);
    q[0] = lerp(at, a->v[1], c->v[1], a->v[0], c->v[0]);
    q[1] = lerp(at, a->v[1], c->v[1], a->v[2], c->v[2]);
    if (p[0] > q[0]) {
        for (int i = 0; i < 2; i++) {
            const double swap = p[i];

            p[i] = q[i];
            q[i] = swap;
        }
    }
    first = clamped_cell(p[0] / (double)h0, last0);
    end = clamped_cell(q[0] / (double)h0, last0);
    for (int32_t x = first; x < end; x++) {
        const double z = lerp((double)((float)(x + 1) * h0), p[0], q[0], p[1], q[1]), cell = z / (double)s->h[s->a2];
        esi_dual_hit hit = {.axis = (int16_t)s->a2, .face = s->face, .at = cell};
        espalier_status st;

        if (!(cell > -1.0 && cell < (double)s->n[s->a2])) continue;
        hit.cell[s->a0] = (int16_t)x;
        hit.cell[s->a1] = (int16_t)y;
        hit.cell[s->a2] = (int16_t)cell;
        st = esi_dual_hits_add(ctx, s->hits, hit);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

static espalier_status scan_axis(espalier_context *ctx, const scan *s, const float *const p[3])
{
    const int32_t last = s->n[s->a1] - 1;
    scan_corner t[3];
    int32_t row[3];
    espalier_status st = ESPALIER_OK;

    for (int k = 0; k < 3; k++) t[k] = (scan_corner){{(double)p[k][s->a0], (double)p[k][s->a1], (double)p[k][s->a2]}};
    for (int k = 1; k < 3; k++) {                  /* insertion: stable */
        for (int i = k; i > 0 && t[i - 1].v[1] > t[i].v[1]; i--) {
            const scan_corner swap = t[i];

            t[i] = t[i - 1];
            t[i - 1] = swap;
        }
    }
    for (int k = 0; k < 3; k++) row[k] = clamped_cell(t[k].v[1] / (double)s->h[s->a1], last);
    for (int32_t y = row[0]; st == ESPALIER_OK && y < row[1]; y++) st = scan_row(ctx, s, y, &t[0], &t[1], &t[2]);
    for (int32_t y = row[1]; st == ESPALIER_OK && y < row[2]; y++) st = scan_row(ctx, s, y, &t[2], &t[1], &t[0]);
    return st;
}

espalier_status esi_cross_reference(espalier_context *ctx, esi_dual_hits *hits, const float *vertices, const int32_t *faces,
                                    int64_t n_faces, const int32_t resolution[3], const float cell_size[3])
{
    espalier_status st = ESPALIER_OK;

    for (int64_t f = 0; st == ESPALIER_OK && f < n_faces; f++) {
        const int32_t *face = faces + 3 * f;
        const float *const p[3] = {vertices + 3 * (int64_t)face[0], vertices + 3 * (int64_t)face[1], vertices + 3 * (int64_t)face[2]};

        if ((f & 0xffff) == 0) st = esi_check_cancel(ctx);
        for (int a = 0; st == ESPALIER_OK && a < 3; a++) {
            const scan s = {.n = resolution, .h = cell_size, .hits = hits, .face = (int32_t)f, .a0 = (a + 1) % 3, .a1 = (a + 2) % 3,
                            .a2 = a};

            st = scan_axis(ctx, &s, p);
        }
    }
    return st;
}

/* ------------------------------------------------------------ faces in cells */

void esi_reference_normal(float n[3], const esi_cell_mesh *mesh, int32_t face)
{
    const int32_t *corner = mesh->faces + 3 * (int64_t)face;
    const float *v0 = mesh->shifted + 3 * (int64_t)corner[0], *v1 = mesh->shifted + 3 * (int64_t)corner[1];
    const float *v2 = mesh->shifted + 3 * (int64_t)corner[2];
    const float u[3] = {v1[0] - v0[0], v1[1] - v0[1], v1[2] - v0[2]}, w[3] = {v2[0] - v1[0], v2[1] - v1[1], v2[2] - v1[2]};
    float length;

    n[0] = u[1] * w[2] - u[2] * w[1];
    n[1] = u[2] * w[0] - u[0] * w[2];
    n[2] = u[0] * w[1] - u[1] * w[0];
    length = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    if (!(length > 0.0f)) return;
    for (int a = 0; a < 3; a++) n[a] /= length;
}

static float dot(const float a[3], const float b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

bool esi_reference_triangle_meets(const esi_triangle_test *t, int32_t x, int32_t y, int32_t z)
{
    const float *h = t->reference->cell_size;
    const float p[3] = {h[0] * (float)x, h[1] * (float)y, h[2] * (float)z};
    float near[3], far[3], np = dot(t->n, p);

    for (int a = 0; a < 3; a++) {
        const float c = t->n[a] > 0.0f ? h[a] : 0.0f;

        near[a] = c - t->v[0][a];
        far[a] = h[a] - c - t->v[0][a];
    }
    if ((np + dot(t->n, near)) * (np + dot(t->n, far)) > 0.0f) return false;
    for (int u = 0; u < 3; u++) {
        const int v = (u + 1) % 3, w = (u + 2) % 3;
        const float m = t->n[w] < 0.0f ? -1.0f : 1.0f;

        for (int k = 0; k < 3; k++) {
            const float *start = t->v[k], *end = t->v[(k + 1) % 3];
            const float gu = -m * (end[v] - start[v]), gv = m * (end[u] - start[u]);
            const float d = -(gu * start[u] + gv * start[v]) + (gu > 0.0f ? gu : 0.0f) * h[u] + (gv > 0.0f ? gv : 0.0f) * h[v];

            if (gu * p[u] + gv * p[v] + d < 0.0f) return false;
        }
    }
    return true;
}
