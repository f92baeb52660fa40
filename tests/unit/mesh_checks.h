/* SPDX-License-Identifier: MIT
 *
 * mesh_checks.h: plain, slow ways to count what the mesh layer counts, by sorting; and comparisons of what must not change.
 */
#ifndef MESH_CHECKS_H
#define MESH_CHECKS_H

#include "support.h"

#include "base/surface.h"

#include <math.h>

/* ------------------------------------------------------------ edges by index */

typedef struct check_counts { int64_t edges, boundary, odd, nonmanifold, manifold, conflicts; } check_counts;

typedef struct check_side { int32_t low, high, from; } check_side;

static inline int check_compare_sides(const void *a, const void *b)
{
    const check_side *x = a, *y = b;

    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    return (x->high > y->high) - (x->high < y->high);
}

static inline check_counts check_count_edges(const esi_mesh *m)
{
    check_side *sides = malloc((size_t)(3 * m->n_faces + 1) * sizeof *sides);
    check_counts out = {0};
    size_t n = 0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        for (int k = 0; k < 3; k++) {
            const int32_t a = m->faces[3 * f + k], b = m->faces[3 * f + (k + 1) % 3];

            if (a != b) sides[n++] = (check_side){a < b ? a : b, a < b ? b : a, a};
        }
    }
    if (n) qsort(sides, n, sizeof *sides, check_compare_sides);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && check_compare_sides(&sides[i], &sides[j]) == 0; j++) {}
        out.edges++;
        out.boundary += j - i == 1;
        out.odd += (int64_t)((j - i) & 1);
        out.nonmanifold += j - i > 2;
        out.manifold += j - i == 2;
        out.conflicts += j - i == 2 && sides[i].from == sides[i + 1].from;
    }
    free(sides);
    return out;
}

/* ----------------------------------------------------- the mod-2 boundary by place */

typedef struct check_place { float p[6]; } check_place;
typedef struct check_boundary { check_place *edges; size_t count; } check_boundary;

static inline int check_compare_points(const float *a, const float *b)
{
    for (int k = 0; k < 3; k++)
        if (a[k] != b[k]) return a[k] < b[k] ? -1 : 1;
    return 0;
}

static inline int check_compare_places(const void *a, const void *b)
{
    const check_place *x = a, *y = b;
    const int first = check_compare_points(x->p, y->p);

    return first ? first : check_compare_points(x->p + 3, y->p + 3);
}

/* Edges between places that an odd number of face sides runs along, sorted. free() the list. */
static inline check_boundary check_odd_places(const esi_mesh *m)
{
    check_boundary out = {malloc((size_t)(3 * m->n_faces + 1) * sizeof *out.edges), 0};
    size_t n = 0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        for (int k = 0; k < 3; k++) {
            const float *a = m->vertices + 3 * (int64_t)m->faces[3 * f + k], *b = m->vertices + 3 * (int64_t)m->faces[3 * f + (k + 1) % 3];
            const int order = check_compare_points(a, b);

            if (order == 0) continue;
            for (int i = 0; i < 3; i++) {                      /* + 0: one zero */
                out.edges[n].p[i] = (order < 0 ? a : b)[i] + 0.0f;
                out.edges[n].p[3 + i] = (order < 0 ? b : a)[i] + 0.0f;
            }
            n++;
        }
    }
    if (n) qsort(out.edges, n, sizeof *out.edges, check_compare_places);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && check_compare_places(&out.edges[i], &out.edges[j]) == 0; j++) {}
        if ((j - i) & 1) out.edges[out.count++] = out.edges[i];
    }
    return out;
}

/* Was every odd edge of `after` there before? */
static inline bool check_boundary_within(const check_boundary *after, const check_boundary *before)
{
    size_t k = 0;

    for (size_t i = 0; i < after->count; i++) {
        while (k < before->count && check_compare_places(&before->edges[k], &after->edges[i]) < 0) k++;
        if (k == before->count || check_compare_places(&before->edges[k], &after->edges[i]) != 0) return false;
    }
    return true;
}

static inline bool check_same_boundary(const check_boundary *a, const check_boundary *b)
{
    return a->count == b->count && check_boundary_within(a, b);
}

/* ------------------------------------------------------------------- others */

/* Indices in range, no index twice in a face, every vertex in use and finite. */
static inline bool check_is_clean(const esi_mesh *m)
{
    uint8_t *used = calloc((size_t)m->n_vertices + 1, 1);
    bool good = true;

    for (int64_t f = 0; f < m->n_faces; f++) {
        const int32_t *v = m->faces + 3 * f;

        for (int k = 0; k < 3; k++) {
            if (v[k] < 0 || v[k] >= m->n_vertices) good = false;
            else used[v[k]] = 1;
        }
        good &= v[0] != v[1] && v[1] != v[2] && v[2] != v[0];
    }
    for (int64_t v = 0; v < m->n_vertices; v++) {
        good &= used[v] != 0;
        for (int k = 0; k < 3; k++) good &= isfinite(m->vertices[3 * v + k]) != 0;
    }
    free(used);
    return good;
}

static inline double check_volume(const esi_mesh *m)
{
    double sum = 0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        const float *a = m->vertices + 3 * (int64_t)m->faces[3 * f], *b = m->vertices + 3 * (int64_t)m->faces[3 * f + 1];
        const float *c = m->vertices + 3 * (int64_t)m->faces[3 * f + 2];

        sum += (double)a[0] * ((double)b[1] * (double)c[2] - (double)b[2] * (double)c[1]) +
               (double)a[1] * ((double)b[2] * (double)c[0] - (double)b[0] * (double)c[2]) +
               (double)a[2] * ((double)b[0] * (double)c[1] - (double)b[1] * (double)c[0]);
    }
    return sum / 6;
}

static inline esi_mesh check_copy(espalier_context *ctx, const esi_mesh *m)
{
    esi_mesh copy;

    assert_int_equal(esi_mesh_copy(ctx, &copy, m->vertices, m->n_vertices, m->faces, m->n_faces), ESPALIER_OK);
    return copy;
}

static inline void check_same_mesh(const esi_mesh *a, const esi_mesh *b)
{
    assert_int_equal(a->n_vertices, b->n_vertices);
    assert_int_equal(a->n_faces, b->n_faces);
    if (a->n_vertices) assert_memory_equal(a->vertices, b->vertices, (size_t)a->n_vertices * 12);
    if (a->n_faces) assert_memory_equal(a->faces, b->faces, (size_t)a->n_faces * 12);
}

#endif
