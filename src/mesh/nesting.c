/* SPDX-License-Identifier: MIT
 *
 * nesting.c: parity of the surfaces that a ray from a component meets. Up to three probes (centres of its first, middle and last face)
 * vote. All rays run along +x, so the work is a point-in-triangle test in the (y, z) plane: probes lie in a grid of cells, and every face
 * looks at the probes in its own cells.
 *
 * A ray through an edge or a vertex counts right: whether it passes an edge on the left is decided once for both faces of the edge, by
 * the same operations on the edge's ends in a fixed order, and heights are half-open intervals. A probe that lies on another surface does
 * not vote.
 */
#include "mesh/nesting.h"

#include "mesh/edit.h"

#include <stdatomic.h>

#define FACES_PER_TASK INT64_C(0x4000)
#define PROBES 3                   /* per component */
#define ODD 1u
#define UNSURE 2u

typedef struct probe {
    double p[3];
    int32_t component;
    atomic_uint state;             /* ODD toggles, UNSURE stays */
} probe;

typedef struct probe_grid {
    const esi_mesh *mesh;
    const int32_t *component;
    const bool *closed;
    probe *probes;
    int32_t n_probes;
    double min[2], scale[2];       /* of y and z; cell = floor((p - min) * scale) */
    int32_t side;                  /* cells per axis */
    int32_t *start, *items;        /* [side * side + 1], [n_probes] */
    double tolerance;
} probe_grid;

/* ------------------------------------------------------------------ probes */

static void face_middle(double out[3], const esi_mesh *mesh, int64_t f)
{
    for (int k = 0; k < 3; k++) {
        double sum = 0;

        for (int i = 0; i < 3; i++) sum += (double)mesh->vertices[3 * (int64_t)mesh->faces[3 * f + i] + k];
        out[k] = sum / 3.0;
    }
}

/* slot[c]: number of the closed component or -1. */
static espalier_status place_probes(espalier_context *ctx, probe_grid *g, int32_t *slot, int32_t n)
{
    int64_t *size, *seen;
    int32_t n_closed = 0;

    for (int32_t c = 0; c < n; c++) slot[c] = g->closed[c] ? n_closed++ : -1;
    if (n_closed < 2) return ESPALIER_OK;
    size = esi_calloc(ctx, (size_t)n_closed, 2 * sizeof *size, "mesh nesting");
    if (!size) return ESPALIER_ERR_RESOURCE;
    g->probes = esi_calloc(ctx, (size_t)n_closed, PROBES * sizeof *g->probes, "mesh nesting");
    if (!g->probes) {
        esi_free(ctx, size);
        return ESPALIER_ERR_RESOURCE;
    }
    g->n_probes = n_closed * PROBES;
    seen = size + n_closed;
    for (int64_t f = 0; f < g->mesh->n_faces; f++)
        if (slot[g->component[f]] >= 0) size[slot[g->component[f]]]++;
    for (int64_t f = 0; f < g->mesh->n_faces; f++) {
        const int32_t s = slot[g->component[f]];

        if (s < 0) continue;
        for (int i = 0; i < PROBES; i++) {
            probe *p = &g->probes[PROBES * s + i];

            if (seen[s] != (size[s] - 1) * i / (PROBES - 1)) continue;
            face_middle(p->p, g->mesh, f);
            p->component = g->component[f];
        }
        seen[s]++;
    }
    esi_free(ctx, size);
    return ESPALIER_OK;
}

static int32_t cell_of(const probe_grid *g, int axis, double value)
{
    const double at = (value - g->min[axis]) * g->scale[axis];

    if (!(at > 0)) return 0;
    return at < (double)g->side ? (int32_t)at : g->side - 1;
}

static espalier_status build_grid(espalier_context *ctx, probe_grid *g)
{
    double max[2] = {-INFINITY, -INFINITY};
    int64_t n_cells;
    int32_t sum = 0;

    g->min[0] = g->min[1] = INFINITY;
    for (int32_t i = 0; i < g->n_probes; i++) {
        for (int k = 0; k < 2; k++) {
            g->min[k] = ESI_MIN(g->min[k], g->probes[i].p[1 + k]);
            max[k] = ESI_MAX(max[k], g->probes[i].p[1 + k]);
        }
    }
    for (g->side = 1; g->side < 512 && (int64_t)g->side * g->side < g->n_probes; g->side *= 2) {}
    for (int k = 0; k < 2; k++) g->scale[k] = max[k] > g->min[k] ? (double)g->side / (max[k] - g->min[k]) : 0;
    n_cells = (int64_t)g->side * g->side;
    g->start = esi_calloc(ctx, (size_t)n_cells + 1, sizeof *g->start, "mesh nesting");
    if (g->start) g->items = esi_alloc(ctx, (size_t)g->n_probes, sizeof *g->items, "mesh nesting");
    if (!g->items) return ESPALIER_ERR_RESOURCE;
    for (int32_t i = 0; i < g->n_probes; i++) g->start[cell_of(g, 1, g->probes[i].p[2]) * g->side + cell_of(g, 0, g->probes[i].p[1])]++;
    for (int64_t c = 0; c <= n_cells; c++) {
        sum += g->start[c];
        g->start[c] = sum;
    }
    for (int32_t i = g->n_probes - 1; i >= 0; i--)
        g->items[--g->start[cell_of(g, 1, g->probes[i].p[2]) * g->side + cell_of(g, 0, g->probes[i].p[1])]] = i;
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------- rays */

/* Does the edge a-b pass the point on its greater y side, at the point's z? The same answer from both faces of the edge. */
static bool passes(const esi_mesh *mesh, int32_t a, int32_t b, const double p[3])
{
    const float *low = mesh->vertices + 3 * (int64_t)ESI_MIN(a, b), *high = mesh->vertices + 3 * (int64_t)ESI_MAX(a, b);
    const double z0 = (double)low[2], z1 = (double)high[2];

    if ((z0 > p[2]) == (z1 > p[2])) return false;
    return (double)low[1] + (p[2] - z0) * ((double)high[1] - (double)low[1]) / (z1 - z0) > p[1];
}

static void shoot(const probe_grid *g, int64_t f, probe *to)
{
    const int32_t *v = g->mesh->faces + 3 * f;
    const float *a = g->mesh->vertices + 3 * (int64_t)v[0];
    double n[3], x, min_x = INFINITY, max_x = -INFINITY;
    unsigned crossed = 0;

    for (int k = 0; k < 3; k++) crossed ^= passes(g->mesh, v[k], v[(k + 1) % 3], to->p);
    if (!crossed) return;
    for (int k = 0; k < 3; k++) {
        const double vx = (double)g->mesh->vertices[3 * (int64_t)v[k]];

        min_x = ESI_MIN(min_x, vx);
        max_x = ESI_MAX(max_x, vx);
    }
    esi_face_cross(n, g->mesh, f);
    x = (double)a[0] - (n[1] * (to->p[1] - (double)a[1]) + n[2] * (to->p[2] - (double)a[2])) / n[0];
    if (!(x >= min_x)) x = min_x;              /* rounding, or a face along the ray */
    if (x > max_x) x = max_x;
    if (fabs(x - to->p[0]) <= g->tolerance) atomic_fetch_or_explicit(&to->state, UNSURE, memory_order_relaxed);
    if (x > to->p[0]) atomic_fetch_xor_explicit(&to->state, ODD, memory_order_relaxed);
}

static void shoot_at_faces(void *arg, size_t task, int slot)
{
    const probe_grid *g = arg;
    const int64_t begin = (int64_t)task * FACES_PER_TASK, end = ESI_MIN(begin + FACES_PER_TASK, g->mesh->n_faces);

    (void)slot;
    for (int64_t f = begin; f < end; f++) {
        double min[2] = {INFINITY, INFINITY}, max[2] = {-INFINITY, -INFINITY};
        int32_t low[2], high[2];

        if (!g->closed[g->component[f]]) continue;
        for (int i = 0; i < 3; i++) {
            for (int k = 0; k < 2; k++) {
                const double c = (double)g->mesh->vertices[3 * (int64_t)g->mesh->faces[3 * f + i] + 1 + k];

                min[k] = ESI_MIN(min[k], c);
                max[k] = ESI_MAX(max[k], c);
            }
        }
        for (int k = 0; k < 2; k++) {
            low[k] = cell_of(g, k, min[k]);
            high[k] = cell_of(g, k, max[k]);
        }
        for (int32_t z = low[1]; z <= high[1]; z++) {
            for (int32_t i = g->start[z * g->side + low[0]]; i < g->start[z * g->side + high[0] + 1]; i++) {
                probe *p = &g->probes[g->items[i]];

                if (p->component != g->component[f]) shoot(g, f, p);
            }
        }
    }
}

static double extent(const esi_mesh *mesh)
{
    double largest = 0;

    for (int64_t i = 0; i < 3 * mesh->n_vertices; i++) largest = ESI_MAX(largest, fabs((double)mesh->vertices[i]));
    return largest;
}

espalier_status esi_nested_components(espalier_context *ctx, uint8_t **nested, const esi_mesh *mesh, const int32_t *component, int32_t n,
                                      const bool *closed)
{
    probe_grid g = {.mesh = mesh, .component = component, .closed = closed};
    int32_t *slot = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *nested = esi_calloc(ctx, (size_t)n, 1, "mesh nesting");
    if (*nested) slot = esi_alloc(ctx, (size_t)n, sizeof *slot, "mesh nesting");
    if (!slot) goto done;
    st = place_probes(ctx, &g, slot, n);
    if (st != ESPALIER_OK || g.n_probes == 0) goto done;
    g.tolerance = 1e-12 * extent(mesh);
    st = build_grid(ctx, &g);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, (size_t)((mesh->n_faces + FACES_PER_TASK - 1) / FACES_PER_TASK), shoot_at_faces, &g);
    for (int32_t c = 0; c < n && st == ESPALIER_OK; c++) {
        int votes = 0;

        for (int i = 0; i < PROBES && slot[c] >= 0; i++) {
            const unsigned state = atomic_load(&g.probes[PROBES * slot[c] + i].state);

            if (!(state & UNSURE)) votes += state & ODD ? 1 : -1;
        }
        (*nested)[c] = votes > 0;
    }
done:
    esi_free(ctx, slot);
    esi_free(ctx, g.probes);
    esi_free(ctx, g.start);
    esi_free(ctx, g.items);
    if (st != ESPALIER_OK) {
        esi_free(ctx, *nested);
        *nested = NULL;
    }
    return st;
}
