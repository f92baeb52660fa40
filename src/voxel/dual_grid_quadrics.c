/* SPDX-License-Identifier: MIT
 *
 * dual_grid_quadrics.c: what the dual vertex of a cell is to be near to: planes of crossing faces, planes of all faces in the cell,
 * lines of open edges (o-voxel/src/convert/flexible_dual_grid.cpp; Garland and Heckbert's quadrics). Sums are in cell-local coordinates.
 */
#include "voxel/dual_build.h"
#include "voxel/keys.h"

#include <math.h>

/* Metric unit normal, false without area. */
static bool face_normal(const esi_cell_mesh *m, int32_t face, double corner[3][3], double n[3])
{
    double u[3], v[3], length;

    for (int k = 0; k < 3; k++) esi_cell_corner(m, m->faces[3 * (int64_t)face + k], corner[k]);
    if (m->shifted) {
        float unit[3];

        esi_reference_normal(unit, m, face);
        for (int a = 0; a < 3; a++) n[a] = (double)unit[a];
        return unit[0] != 0.0f || unit[1] != 0.0f || unit[2] != 0.0f;
    }
    for (int a = 0; a < 3; a++) {
        u[a] = (corner[1][a] - corner[0][a]) * m->scale[a];
        v[a] = (corner[2][a] - corner[0][a]) * m->scale[a];
    }
    n[0] = u[1] * v[2] - u[2] * v[1];
    n[1] = u[2] * v[0] - u[0] * v[2];
    n[2] = u[0] * v[1] - u[1] * v[0];
    length = sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
    if (!(length > 0.0)) return false;
    for (int a = 0; a < 3; a++) n[a] /= length;
    return true;
}

/* Plane through `point` (grid units) with metric normal n. */
static void add_plane(esi_quadric *q, const esi_cell_mesh *m, const int32_t cell[3], const double point[3], const double n[3])
{
    double w = 0.0;

    for (int a = 0; a < 3; a++) w -= n[a] * (point[a] - (double)cell[a]) * m->scale[a];
    for (int a = 0; a < 3; a++) {
        q->a[a] += n[a] * n[a];
        q->b[a] += n[a] * w;
    }
    q->a[3] += n[1] * n[2];
    q->a[4] += n[0] * n[2];
    q->a[5] += n[0] * n[1];
}

void esi_quadrics_add_hit(esi_quadric *quadrics, const esi_cell_rows *rows, const esi_cell_mesh *m, const esi_dual_hit *hit)
{
    const int a = hit->axis, a0 = (a + 1) % 3, a1 = (a + 2) % 3;
    double corner[3][3], n[3], at[3];
    const bool has_plane = face_normal(m, hit->face, corner, n);

    at[a] = hit->at;
    at[a0] = (double)(hit->cell[a0] + 1);
    at[a1] = (double)(hit->cell[a1] + 1);
    for (int i = 0; i < 4; i++) {
        int32_t cell[3] = {hit->cell[0], hit->cell[1], hit->cell[2]};
        esi_quadric *q;
        int64_t row;

        cell[a0] += i >> 1;
        cell[a1] += i & 1;
        row = esi_cell_row(rows, cell[0], cell[1], cell[2]);
        if (row < 0) continue;
        q = &quadrics[row];
        if (has_plane) add_plane(q, m, cell, corner[0], n);
        for (int k = 0; k < 3; k++) q->mean[k] += (at[k] - (double)cell[k]) * m->scale[k];
        q->count += 1.0;
    }
}

/* -------------------------------------------------------------------- faces */

typedef struct face_sink {
    esi_quadric *quadrics;
    const esi_cell_rows *rows;
    const esi_cell_mesh *mesh;
    const double *corner, *normal;
    int64_t row;                   /* of the cell asked about last */
} face_sink;

static bool has_row(void *arg, const int32_t cell[3])
{
    face_sink *s = arg;

    s->row = esi_cell_row(s->rows, cell[0], cell[1], cell[2]);
    return s->row >= 0;
}

static void add_face_plane(void *arg, const int32_t cell[3])
{
    face_sink *s = arg;

    add_plane(&s->quadrics[s->row], s->mesh, cell, s->corner, s->normal);
}

void esi_quadrics_add_face(esi_quadric *quadrics, const esi_cell_rows *rows, const esi_cell_mesh *mesh, int32_t face)
{
    double corner[3][3], n[3];
    esi_triangle_test t;
    face_sink sink = {.quadrics = quadrics, .rows = rows, .mesh = mesh, .corner = corner[0], .normal = n};

    if (!face_normal(mesh, face, corner, n) || !esi_triangle_test_make(&t, mesh, face, rows->n)) return;
    esi_triangle_cells(&t, rows->x0, rows->x1, has_row, add_face_plane, &sink);
}

/* --------------------------------------------------------------- open edges */

/* Cells from the grid beyond which an edge is not walked along. */
#define FARTHEST 1e6

/* Distance to the line through `point` (grid units) with metric unit direction u. */
static void add_line(esi_quadric *q, const esi_cell_mesh *m, const int32_t cell[3], const double point[3], const double u[3], double weight)
{
    double p[3], along = 0.0;

    for (int a = 0; a < 3; a++) {
        p[a] = (point[a] - (double)cell[a]) * m->scale[a];
        along += u[a] * p[a];
    }
    for (int a = 0; a < 3; a++) {
        q->a[a] += weight * (1.0 - u[a] * u[a]);
        q->b[a] -= weight * (p[a] - u[a] * along);
    }
    q->a[3] -= weight * u[1] * u[2];
    q->a[4] -= weight * u[0] * u[2];
    q->a[5] -= weight * u[0] * u[1];
}

/* A walk along an edge: parameters in units of its length. */
typedef struct line_walk {
    double from[3], u[3];          /* start in grid units, metric unit direction */
    double length, next[3], step[3];
    int32_t cell[3];
    int sign[3];
} line_walk;

static bool line_in_double(line_walk *w, const esi_cell_mesh *m, const int32_t edge[2], double shortest)
{
    double to[3], length = 0.0;

    esi_cell_corner(m, edge[0], w->from);
    esi_cell_corner(m, edge[1], to);
    for (int a = 0; a < 3; a++) {
        if (!(fabs(w->from[a]) <= FARTHEST && fabs(to[a]) <= FARTHEST)) return false;
        w->u[a] = (to[a] - w->from[a]) * m->scale[a];
        length += w->u[a] * w->u[a];
    }
    w->length = sqrt(length);
    if (!(w->length >= shortest)) return false;
    for (int a = 0; a < 3; a++) {
        w->u[a] /= w->length;
        w->sign[a] = w->u[a] > 0.0 ? 1 : -1;
        w->cell[a] = (int32_t)w->from[a];
        if ((double)w->cell[a] > w->from[a]) w->cell[a]--;
        w->next[a] = ((double)(w->cell[a] + (w->sign[a] > 0)) - w->from[a]) * m->scale[a] / w->u[a];
        w->step[a] = m->scale[a] / fabs(w->u[a]);
        if (w->u[a] == 0.0) w->next[a] = w->step[a] = (double)INFINITY;
    }
    return true;
}

/* The same with the reference's roundings: edges in grid planes depend on them. World units. */
static bool line_as_reference(line_walk *w, const esi_cell_mesh *m, const int32_t edge[2], double shortest)
{
    const float *p = m->shifted + 3 * (int64_t)edge[0], *q = m->shifted + 3 * (int64_t)edge[1];
    double length = 0.0;

    esi_cell_corner(m, edge[0], w->from);
    for (int a = 0; a < 3; a++) {
        if (!(fabs(w->from[a]) <= FARTHEST && fabs((double)q[a] / (double)m->cell_size[a]) <= FARTHEST)) return false;
        w->u[a] = (double)(q[a] - p[a]);
        length += w->u[a] * w->u[a];
    }
    w->length = sqrt(length);
    if (!(w->length >= shortest)) return false;
    for (int a = 0; a < 3; a++) {
        const float quotient = p[a] / m->cell_size[a];

        w->u[a] /= w->length;
        w->sign[a] = w->u[a] > 0.0 ? 1 : -1;
        w->cell[a] = (int32_t)quotient;
        if ((float)w->cell[a] > quotient) w->cell[a]--;
        w->next[a] = (double)((float)(w->cell[a] + (w->sign[a] > 0)) * m->cell_size[a] - p[a]) / w->u[a];
        w->step[a] = (double)m->cell_size[a] / fabs(w->u[a]);
        if (w->u[a] == 0.0) w->next[a] = w->step[a] = (double)INFINITY;
    }
    return true;
}

void esi_quadrics_add_line(esi_quadric *quadrics, const esi_cell_rows *rows, const esi_cell_mesh *m, const int32_t edge[2], double weight,
                           double shortest)
{
    line_walk w;

    if (!(m->shifted ? line_as_reference(&w, m, edge, shortest) : line_in_double(&w, m, edge, shortest))) return;
    for (;;) {
        const int64_t row = esi_cell_row(rows, w.cell[0], w.cell[1], w.cell[2]);
        const int a = w.next[0] < w.next[1] ? (w.next[0] < w.next[2] ? 0 : 2) : (w.next[1] < w.next[2] ? 1 : 2);

        if (row >= 0) add_line(&quadrics[row], m, w.cell, w.from, w.u, weight);
        if (!(w.next[a] <= w.length)) break;
        w.cell[a] += w.sign[a];
        w.next[a] += w.step[a];
    }
}

/* Lowest point at the same place as each point; esi_alloc'ed. */
static espalier_status unify_points(espalier_context *ctx, int32_t **out, const esi_cell_mesh *m)
{
    size_t slots_needed = 16, mask;
    int32_t *first = NULL, *slots = NULL;

    *out = NULL;
    while (slots_needed < 2 * (size_t)m->n_points) slots_needed *= 2;
    mask = slots_needed - 1;
    first = esi_alloc(ctx, (size_t)m->n_points, sizeof *first, "open edges");
    slots = esi_alloc(ctx, slots_needed, sizeof *slots, "open edges");
    if (!first || !slots) {
        esi_free(ctx, first);
        esi_free(ctx, slots);
        return ESPALIER_ERR_RESOURCE;
    }
    memset(slots, 0xff, slots_needed * sizeof *slots);
    for (int64_t i = 0; i < m->n_points; i++) {
        const int32_t *p = m->fixed + 3 * i;
        uint64_t h = (uint64_t)(uint32_t)p[0] * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)(uint32_t)p[1] * UINT64_C(0xc2b2ae3d27d4eb4f) ^
                     (uint64_t)(uint32_t)p[2] * UINT64_C(0x165667b19e3779f9);
        size_t slot;

        h ^= h >> 29;
        h *= UINT64_C(0xbf58476d1ce4e5b9);
        for (slot = (size_t)(h >> 32 ^ h) & mask; slots[slot] >= 0; slot = (slot + 1) & mask) {
            if (memcmp(m->fixed + 3 * (int64_t)slots[slot], p, 3 * sizeof *p) == 0) break;
        }
        if (slots[slot] < 0) slots[slot] = (int32_t)i;
        first[i] = slots[slot];
    }
    esi_free(ctx, slots);
    *out = first;
    return ESPALIER_OK;
}

/* Sides whose lower point lies in [low, high), as keys. Returns their number; writes unless keys is NULL. */
static int64_t sides_between(uint64_t *keys, const esi_cell_mesh *m, const int32_t *first, int64_t low, int64_t high)
{
    int64_t n = 0;

    for (int64_t i = 0; i < 3 * m->n_faces; i++) {
        int32_t p = m->faces[i], q = m->faces[i % 3 == 2 ? i - 2 : i + 1];

        if (first) {
            p = first[p];
            q = first[q];
        }
        if (p == q || ESI_MIN(p, q) < low || ESI_MIN(p, q) >= high) continue;
        if (keys) keys[n] = (uint64_t)(uint32_t)ESI_MIN(p, q) << 32 | (uint32_t)ESI_MAX(p, q);
        n++;
    }
    return n;
}

/* Part of the points at a time, so that the keys of a large mesh need not all be there at once. */
#define POINTS_PER_PART (INT64_C(1) << 22)

espalier_status esi_boundary_edges(espalier_context *ctx, int32_t **edges, int64_t *count, const esi_cell_mesh *m, bool by_position)
{
    int32_t *first = NULL, *out = NULL;
    uint64_t *keys = NULL;
    int64_t n = 0, cap = 0;
    espalier_status st = ESPALIER_OK;

    *edges = NULL;
    *count = 0;
    if (by_position) st = unify_points(ctx, &first, m);
    for (int64_t low = 0; st == ESPALIER_OK && low < m->n_points; low += POINTS_PER_PART) {
        const int64_t sides = sides_between(NULL, m, first, low, low + POINTS_PER_PART);

        st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK || sides == 0) continue;
        keys = esi_alloc(ctx, (size_t)sides, sizeof *keys, "open edges");
        if (!keys) {
            st = ESPALIER_ERR_RESOURCE;
            break;
        }
        sides_between(keys, m, first, low, low + POINTS_PER_PART);
        st = esi_keys_sort(ctx, keys, (size_t)sides);
        for (int64_t i = 0, end; st == ESPALIER_OK && i < sides; i = end) {
            for (end = i + 1; end < sides && keys[end] == keys[i];) end++;
            if (end - i != 1) continue;
            if (n == cap) {
                int32_t *grown = esi_realloc(ctx, out, (size_t)(cap ? 2 * cap : 256), 2 * sizeof *grown, "open edges");

                if (!grown) {
                    st = ESPALIER_ERR_RESOURCE;
                    break;
                }
                out = grown;
                cap = cap ? 2 * cap : 256;
            }
            out[2 * n] = (int32_t)(keys[i] >> 32);
            out[2 * n + 1] = (int32_t)(keys[i] & 0xffffffff);
            n++;
        }
        esi_free(ctx, keys);
        keys = NULL;
    }
    esi_free(ctx, keys);
    esi_free(ctx, first);
    if (st != ESPALIER_OK) {
        esi_free(ctx, out);
        return st;
    }
    *edges = out;
    *count = n;
    return ESPALIER_OK;
}
