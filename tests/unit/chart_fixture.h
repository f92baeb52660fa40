/* SPDX-License-Identifier: MIT
 *
 * chart_fixture.h: shapes for charts, and what must hold for any charts of any mesh, tested without the code that made them: face by face,
 * side by side, and points of faces against all other faces of the chart.
 */
#ifndef CHART_FIXTURE_H
#define CHART_FIXTURE_H

#include "damage_fixture.h"
#include "mesh/charts.h"
#include "support.h"

static inline void chart_shape_plane(espalier_context *ctx, esi_mesh *m, int n)
{
    assert_int_equal(esi_mesh_new(ctx, m, (n + 1) * (n + 1), 2 * n * n), ESPALIER_OK);
    for (int i = 0, v = 0, f = 0; i <= n; i++) {
        for (int j = 0; j <= n; j++, v++) {
            m->vertices[3 * v] = (float)i / (float)n - 0.5f;
            m->vertices[3 * v + 1] = (float)j / (float)n - 0.5f;
            m->vertices[3 * v + 2] = 0.0f;
            if (i == n || j == n) continue;
            int32_t face[6] = {v, v + n + 1, v + n + 2, v, v + n + 2, v + 1};
            memcpy(m->faces + 3 * f, face, sizeof face);
            f += 2;
        }
    }
}

/* An open tube around z, or with tip 0 a cone around it. */
static inline void chart_shape_tube(espalier_context *ctx, esi_mesh *m, int around, int along, double bottom, double top, double height)
{
    assert_int_equal(esi_mesh_new(ctx, m, (int64_t)around * (along + 1), (int64_t)2 * around * along), ESPALIER_OK);
    for (int j = 0, v = 0, f = 0; j <= along; j++) {
        double r = bottom + (top - bottom) * j / along;
        for (int i = 0; i < around; i++, v++) {
            double angle = 6.283185307179586 * i / around;
            m->vertices[3 * v] = (float)(r * cos(angle));
            m->vertices[3 * v + 1] = (float)(r * sin(angle));
            m->vertices[3 * v + 2] = (float)(height * j / along - 0.5 * height);
            if (j == along) continue;
            int32_t next = j * around + (i + 1) % around;
            int32_t face[6] = {v, next, next + around, v, next + around, v + around};
            memcpy(m->faces + 3 * f, face, sizeof face);
            f += 2;
        }
    }
}

/* Displaced plane with noise in units of a cell. */
static inline void chart_shape_rough(espalier_context *ctx, esi_mesh *m, int n, double noise, double noise_z)
{
    damage_random r = {42};

    chart_shape_plane(ctx, m, n);
    for (int64_t v = 0; v < m->n_vertices; v++) {
        float *p = m->vertices + 3 * v;
        p[2] = 0.15f * sinf(6.0f * p[0]) * cosf(5.0f * p[1]);
        for (int k = 0; k < 3; k++) p[k] += (float)((2.0 * damage_unit(&r) - 1.0) * (k < 2 ? noise : noise_z) / n);
    }
}

static inline void chart_shape_soup(espalier_context *ctx, esi_mesh *m, int vertices, int faces)
{
    damage_random r = {7};

    assert_int_equal(esi_mesh_new(ctx, m, vertices, faces), ESPALIER_OK);
    for (int i = 0; i < 3 * vertices; i++) m->vertices[i] = (float)(damage_unit(&r) - 0.5);
    for (int i = 0; i < 3 * faces; i++) m->faces[i] = (int32_t)damage_below(&r, vertices);
}

/* -------------------------------------------------------------- geometry */

static inline double chart_space_area(const esi_mesh *m, int64_t f)
{
    double e[2][3], n[3];

    for (int k = 0; k < 3; k++) {
        double p = (double)m->vertices[3 * (int64_t)m->faces[3 * f] + k];
        e[0][k] = (double)m->vertices[3 * (int64_t)m->faces[3 * f + 1] + k] - p;
        e[1][k] = (double)m->vertices[3 * (int64_t)m->faces[3 * f + 2] + k] - p;
    }
    for (int k = 0; k < 3; k++) n[k] = e[0][(k + 1) % 3] * e[1][(k + 2) % 3] - e[0][(k + 2) % 3] * e[1][(k + 1) % 3];
    return 0.5 * sqrt(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
}

/* Twice the signed area of a, b, c. */
static inline double chart_turn(const double *a, const double *b, const double *c)
{
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static inline void chart_corners(const float *corner_uv, int64_t f, double p[3][2])
{
    for (int k = 0; k < 6; k++) p[k / 2][k % 2] = (double)corner_uv[6 * f + k];
}

/* Largest relative difference of a side in the plane from the side in space. */
static inline double chart_worst_side(const esi_mesh *m, const float *corner_uv)
{
    double worst = 0.0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        double p[3][2];
        chart_corners(corner_uv, f, p);
        for (int k = 0; k < 3; k++) {
            const float *a = m->vertices + 3 * (int64_t)m->faces[3 * f + k], *b = m->vertices + 3 * (int64_t)m->faces[3 * f + (k + 1) % 3];
            double space = hypot(hypot((double)a[0] - (double)b[0], (double)a[1] - (double)b[1]), (double)a[2] - (double)b[2]);
            double flat = hypot(p[k][0] - p[(k + 1) % 3][0], p[k][1] - p[(k + 1) % 3][1]);
            if (fabs(flat / space - 1.0) > worst) worst = fabs(flat / space - 1.0);
        }
    }
    return worst;
}

/* -------------------------------------------------------------- invariants */

typedef struct chart_side { int32_t low, high, corner; } chart_side;

static inline int chart_side_order(const void *a, const void *b)
{
    const chart_side *x = a, *y = b;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return x->corner < y->corner ? -1 : x->corner > y->corner;
}

static inline int32_t chart_root(int32_t *parent, int32_t i)
{
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
}

/* Charts are connected over sides that two faces share in opposite directions, and corners meet there. */
static inline void chart_check_joined(const esi_mesh *m, const esi_charts *charts)
{
    int64_t n = 3 * m->n_faces;
    chart_side *sides = malloc((size_t)n * sizeof *sides);
    int32_t *parent = malloc((size_t)m->n_faces * sizeof *parent), *first = malloc((size_t)charts->n_charts * sizeof *first);

    for (int32_t c = 0; c < n; c++) {
        int32_t a = m->faces[c], b = m->faces[c % 3 == 2 ? c - 2 : c + 1];
        sides[c] = (chart_side){a < b ? a : b, a < b ? b : a, c};
    }
    for (int32_t f = 0; f < m->n_faces; f++) parent[f] = f;
    qsort(sides, (size_t)n, sizeof *sides, chart_side_order);
    for (int64_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && sides[j].low == sides[i].low && sides[j].high == sides[i].high; j++) continue;
        int32_t c = sides[i].corner, d = j - i == 2 ? sides[i + 1].corner : -1;
        if (d < 0 || sides[i].low == sides[i].high || c / 3 == d / 3) continue;
        if (charts->face_chart[c / 3] != charts->face_chart[d / 3]) continue;
        int32_t c2 = c % 3 == 2 ? c - 2 : c + 1, d2 = d % 3 == 2 ? d - 2 : d + 1;
        if (m->faces[c] != m->faces[d2] || m->faces[c2] != m->faces[d]) continue;
        assert_memory_equal(charts->corner_uv + 2 * c, charts->corner_uv + 2 * d2, 8);
        assert_memory_equal(charts->corner_uv + 2 * c2, charts->corner_uv + 2 * d, 8);
        parent[chart_root(parent, c / 3)] = chart_root(parent, d / 3);
    }
    for (int32_t i = 0; i < charts->n_charts; i++) first[i] = -1;
    for (int32_t f = 0; f < m->n_faces; f++) {
        int32_t *root = &first[charts->face_chart[f]];
        if (*root < 0) *root = chart_root(parent, f);
        assert_int_equal(*root, chart_root(parent, f));
    }
    free(sides);
    free(parent);
    free(first);
}

#define CHART_CELLS 96

/* Points inside each face lie in no other face of its chart. */
static inline int64_t chart_count_overlaps(const esi_mesh *m, const int32_t *face_chart, int32_t chart, const float *corner_uv)
{
    static const double where[4][3] = {{1 / 3.0, 1 / 3.0, 1 / 3.0}, {0.9, 0.05, 0.05}, {0.05, 0.9, 0.05}, {0.05, 0.05, 0.9}};
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY}, p[3][2];
    int32_t *head = malloc(CHART_CELLS * CHART_CELLS * sizeof *head), *faces = malloc(4 * sizeof *faces), *next = malloc(4 * sizeof *next);
    int64_t n = 0, capacity = 4, overlaps = 0;

    for (int i = 0; i < CHART_CELLS * CHART_CELLS; i++) head[i] = -1;
    for (int64_t f = 0; f < m->n_faces; f++) {
        if (face_chart[f] != chart) continue;
        chart_corners(corner_uv, f, p);
        for (int k = 0; k < 6; k++) {
            low[k % 2] = fmin(low[k % 2], p[k / 2][k % 2]);
            high[k % 2] = fmax(high[k % 2], p[k / 2][k % 2]);
        }
    }
    double cell = fmax(fmax(high[0] - low[0], high[1] - low[1]) / CHART_CELLS, 1e-30) * 1.0001;
    for (int64_t f = 0; f < m->n_faces; f++) {
        int from[2], to[2];
        if (face_chart[f] != chart) continue;
        chart_corners(corner_uv, f, p);
        for (int k = 0; k < 2; k++) {
            from[k] = (int)((fmin(fmin(p[0][k], p[1][k]), p[2][k]) - low[k]) / cell);
            to[k] = (int)((fmax(fmax(p[0][k], p[1][k]), p[2][k]) - low[k]) / cell);
        }
        for (int y = from[1]; y <= to[1]; y++) {
            for (int x = from[0]; x <= to[0]; x++) {
                if (n == capacity) {
                    capacity *= 2;
                    faces = realloc(faces, (size_t)capacity * sizeof *faces);
                    next = realloc(next, (size_t)capacity * sizeof *next);
                }
                faces[n] = (int32_t)f;
                next[n] = head[y * CHART_CELLS + x];
                head[y * CHART_CELLS + x] = (int32_t)n++;
            }
        }
    }
    for (int64_t f = 0; f < m->n_faces; f++) {
        double corners[3][2];
        if (face_chart[f] != chart) continue;
        chart_corners(corner_uv, f, corners);
        for (int s = 0; s < 4; s++) {
            double q[2];
            for (int k = 0; k < 2; k++) q[k] = where[s][0] * corners[0][k] + where[s][1] * corners[1][k] + where[s][2] * corners[2][k];
            int x = (int)((q[0] - low[0]) / cell), y = (int)((q[1] - low[1]) / cell);
            for (int32_t i = head[y * CHART_CELLS + x]; i >= 0; i = next[i]) {
                if (faces[i] == f) continue;
                chart_corners(corner_uv, faces[i], p);
                double whole = chart_turn(p[0], p[1], p[2]), inside = 1e-4 * whole;
                if (whole > 0.0 && chart_turn(p[0], p[1], q) > inside && chart_turn(p[1], p[2], q) > inside &&
                    chart_turn(p[2], p[0], q) > inside)
                    overlaps++;
            }
        }
    }
    free(head);
    free(faces);
    free(next);
    return overlaps;
}

static inline void chart_check(const esi_mesh *m, const esi_charts *charts)
{
    double *space = calloc((size_t)charts->n_charts + 1, sizeof *space), *flat = calloc((size_t)charts->n_charts + 1, sizeof *flat);
    int32_t seen = 0;

    for (int64_t f = 0; f < m->n_faces; f++) {
        double p[3][2], area = chart_space_area(m, f), twice;
        int32_t c = charts->face_chart[f];
        assert_in_range(c, 0, seen);             /* numbered by their lowest face */
        if (c == seen) seen++;
        chart_corners(charts->corner_uv, f, p);
        for (int k = 0; k < 6; k++) assert_true(isfinite(p[k / 2][k % 2]));
        twice = chart_turn(p[0], p[1], p[2]);
        assert_true(twice > 0.0 || (area < 1e-12 && twice > -4e-12)); /* rounding of what has no area; shapes are of size 1 */
        space[c] += area;
        flat[c] += 0.5 * twice;
    }
    assert_int_equal(seen, charts->n_charts);
    for (int32_t c = 0; c < charts->n_charts; c++) {
        assert_in_range(charts->method[c], 0, ESI_CHART_FALLBACK);
        if (space[c] > 0.0) assert_true(fabs(flat[c] / space[c] - 1.0) < 2e-3);
        assert_int_equal(chart_count_overlaps(m, charts->face_chart, c, charts->corner_uv), 0);
    }
    chart_check_joined(m, charts);
    free(space);
    free(flat);
}

#endif
