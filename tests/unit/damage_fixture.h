/* SPDX-License-Identifier: MIT
 *
 * damage_fixture.h: simple solids and sheets, and a generator that damages them, the same for the same number: missing, turned, repeated
 * faces, needles, torn seams, T-junctions, numbers that are not finite, indices out of range, debris, fins.
 */
#ifndef DAMAGE_FIXTURE_H
#define DAMAGE_FIXTURE_H

#include "base/surface.h"

#include <math.h>
#include <stdlib.h>

typedef struct damage_random { uint64_t state; } damage_random;

static inline uint32_t damage_next(damage_random *r)
{
    r->state = r->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(r->state >> 33);
}
static inline int64_t damage_below(damage_random *r, int64_t n) { return (int64_t)(damage_next(r) % (uint64_t)n); }
static inline double damage_unit(damage_random *r) { return (double)damage_next(r) / 2147483648.0; }

/* --------------------------------------------------------------- growing mesh */

static inline int32_t damage_vertex(espalier_context *ctx, esi_mesh *m, double x, double y, double z)
{
    m->vertices = esi_realloc(ctx, m->vertices, (size_t)m->n_vertices + 1, 3 * sizeof(float), "test mesh");
    m->vertices[3 * m->n_vertices] = (float)x;
    m->vertices[3 * m->n_vertices + 1] = (float)y;
    m->vertices[3 * m->n_vertices + 2] = (float)z;
    return (int32_t)m->n_vertices++;
}

static inline void damage_face(espalier_context *ctx, esi_mesh *m, int32_t a, int32_t b, int32_t c)
{
    m->faces = esi_realloc(ctx, m->faces, (size_t)m->n_faces + 1, 3 * sizeof(int32_t), "test mesh");
    m->faces[3 * m->n_faces] = a;
    m->faces[3 * m->n_faces + 1] = b;
    m->faces[3 * m->n_faces + 2] = c;
    m->n_faces++;
}

/* b after a, in a. */
static inline void damage_append(espalier_context *ctx, esi_mesh *a, const esi_mesh *b)
{
    const int64_t nv = a->n_vertices, nf = a->n_faces;

    a->vertices = esi_realloc(ctx, a->vertices, (size_t)(nv + b->n_vertices), 3 * sizeof(float), "test mesh");
    a->faces = esi_realloc(ctx, a->faces, (size_t)(nf + b->n_faces), 3 * sizeof(int32_t), "test mesh");
    memcpy(a->vertices + 3 * nv, b->vertices, (size_t)b->n_vertices * 12);
    for (int64_t i = 0; i < 3 * b->n_faces; i++) a->faces[3 * nf + i] = b->faces[i] + (int32_t)nv;
    a->n_vertices += b->n_vertices;
    a->n_faces += b->n_faces;
}

/* --------------------------------------------------------------------- shapes */

/* rows x columns vertices (wrapping around where asked), faces with normals row x column. */
static inline void damage_grid(espalier_context *ctx, esi_mesh *m, int rows, int columns, bool wrap_rows, bool wrap_columns)
{
    const int row_steps = wrap_rows ? rows : rows - 1, column_steps = wrap_columns ? columns : columns - 1;

    (void)esi_mesh_new(ctx, m, (int64_t)rows * columns, 2 * (int64_t)row_steps * column_steps);
    for (int i = 0; i < row_steps; i++) {
        for (int k = 0; k < column_steps; k++) {
            const int i1 = (i + 1) % rows, k1 = (k + 1) % columns;
            const int32_t q[4] = {i * columns + k, i1 * columns + k, i1 * columns + k1, i * columns + k1};
            int32_t *f = m->faces + 6 * ((int64_t)i * column_steps + k);

            memcpy(f, (int32_t[]){q[0], q[1], q[2], q[0], q[2], q[3]}, 24);
        }
    }
}

/* genus 1, outward */
static inline void damage_torus(espalier_context *ctx, esi_mesh *m, int n, double radius, double tube)
{
    damage_grid(ctx, m, 2 * n, n, true, true);
    for (int i = 0; i < 2 * n; i++) {
        for (int k = 0; k < n; k++) {
            const double a = 3.14159265358979323846 * i / n, b = 2 * 3.14159265358979323846 * k / n, r = radius + tube * cos(b);

            memcpy(m->vertices + 3 * (i * n + k), (float[]){(float)(r * cos(a)), (float)(r * sin(a)), (float)(tube * sin(b))}, 12);
        }
    }
}

/* Closed sphere: rings and two poles, outward; or turned inward. */
static inline void damage_sphere(espalier_context *ctx, esi_mesh *m, int n, double radius, double x, double y, double z, bool inward)
{
    int32_t south, north;

    damage_grid(ctx, m, n - 1, 2 * n, false, true);
    for (int i = 1; i < n; i++) {
        for (int k = 0; k < 2 * n; k++) {
            const double t = 3.14159265358979323846 * i / n, a = 3.14159265358979323846 * k / n;
            float *p = m->vertices + 3 * ((i - 1) * 2 * n + k);

            p[0] = (float)(x + radius * sin(t) * cos(a));
            p[1] = (float)(y + radius * sin(t) * sin(a));
            p[2] = (float)(z + radius * cos(t));
        }
    }
    north = damage_vertex(ctx, m, x, y, z + radius);
    south = damage_vertex(ctx, m, x, y, z - radius);
    for (int k = 0; k < 2 * n; k++) {
        const int32_t last = (n - 2) * 2 * n;

        damage_face(ctx, m, north, k, (k + 1) % (2 * n));
        damage_face(ctx, m, south, last + (k + 1) % (2 * n), last + k);
    }
    for (int64_t f = 0; inward && f < m->n_faces; f++) {
        const int32_t t = m->faces[3 * f + 1];

        m->faces[3 * f + 1] = m->faces[3 * f + 2];
        m->faces[3 * f + 2] = t;
    }
}

/* One sheet, open above: a genuine rim of 4n edges. */
static inline void damage_cup(espalier_context *ctx, esi_mesh *m, int n)
{
    int32_t bottom;

    damage_grid(ctx, m, n, 4 * n, false, true);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 4 * n; k++) {
            const double a = 3.14159265358979323846 * k / (2 * n), r = 0.2 + 0.2 * (double)i / (n - 1);

            const double z = 0.4 - 0.7 * i / (n - 1);

            memcpy(m->vertices + 3 * (i * 4 * n + k), (float[]){(float)(r * cos(a)), (float)(r * sin(a)), (float)z}, 12);
        }
    }
    bottom = damage_vertex(ctx, m, 0, 0, -0.35);
    for (int k = 0; k < 4 * n; k++) damage_face(ctx, m, bottom, (n - 1) * 4 * n + (k + 1) % (4 * n), (n - 1) * 4 * n + k);
}

/* Closed box from `low` to `high`, n x n quads on each side, shared vertices, outward. */
static inline void damage_box(espalier_context *ctx, esi_mesh *m, int n, const double low[3], const double high[3])
{
    const int side = n + 1;
    int32_t *number = malloc((size_t)side * (size_t)side * (size_t)side * sizeof *number);

    memset(m, 0, sizeof *m);
    for (int i = 0; i < side * side * side; i++) {
        const int at[3] = {i % side, i / side % side, i / side / side};
        bool outside = false;
        double p[3];

        number[i] = -1;
        for (int k = 0; k < 3; k++) {
            outside |= at[k] == 0 || at[k] == n;
            p[k] = at[k] == n ? high[k] : low[k] + (high[k] - low[k]) * at[k] / n;
        }
        if (outside) number[i] = damage_vertex(ctx, m, p[0], p[1], p[2]);
    }
    for (int axis = 0; axis < 3; axis++) {
        const int step[3] = {1, side, side * side}, u = step[(axis + 1) % 3], v = step[(axis + 2) % 3];

        for (int i = 0; i < 2 * n * n; i++) {
            const bool top = i >= n * n;
            const int base = (top ? n * step[axis] : 0) + i % n * u + i / n % n * v;
            const int32_t q[4] = {number[base], number[base + u], number[base + u + v], number[base + v]};

            damage_face(ctx, m, q[0], q[top ? 1 : 2], q[top ? 2 : 1]);
            damage_face(ctx, m, q[0], q[top ? 2 : 3], q[top ? 3 : 2]);
        }
    }
    free(number);
}

enum { DAMAGE_SPHERE, DAMAGE_TORUS, DAMAGE_CUP, DAMAGE_NESTED, DAMAGE_PLATE, DAMAGE_BOX, DAMAGE_SHAPES };

static inline void damage_shape(espalier_context *ctx, esi_mesh *m, int shape, int size)
{
    const double thin[2][3] = {{-0.4, -0.3, -0.002}, {0.4, 0.3, 0.002}}, block[2][3] = {{-0.3, -0.2, -0.4}, {0.3, 0.2, 0.4}};
    esi_mesh inner;

    switch (shape) {
    case DAMAGE_SPHERE: damage_sphere(ctx, m, size, 0.4, 0, 0, 0, false); break;
    case DAMAGE_TORUS: damage_torus(ctx, m, size, 0.3, 0.1); break;
    case DAMAGE_CUP: damage_cup(ctx, m, size); break;
    case DAMAGE_NESTED:                        /* a shell with a cavity, and a ball inside the cavity */
        damage_sphere(ctx, m, size, 0.45, 0, 0, 0, false);
        damage_sphere(ctx, &inner, size, 0.3, 0.01, 0.02, -0.01, true);
        damage_append(ctx, m, &inner);
        esi_mesh_free(ctx, &inner);
        damage_sphere(ctx, &inner, size, 0.1, 0.05, 0.02, -0.03, false);
        damage_append(ctx, m, &inner);
        esi_mesh_free(ctx, &inner);
        break;
    case DAMAGE_PLATE: damage_box(ctx, m, size, thin[0], thin[1]); break;
    default: damage_box(ctx, m, size, block[0], block[1]); break;
    }
}

/* --------------------------------------------------------------------- damage */

enum {
    DAMAGE_DELETE = 1, DAMAGE_FLIP = 2, DAMAGE_DUPLICATE = 4, DAMAGE_NEEDLE = 8, DAMAGE_TEAR = 16, DAMAGE_JUNCTION = 32,
    DAMAGE_NAN = 64, DAMAGE_RANGE = 128, DAMAGE_DEBRIS = 256, DAMAGE_FIN = 512, DAMAGE_REPEAT = 1024, DAMAGE_ALL = 2047
};

static inline void damage_delete(esi_mesh *m, damage_random *r, int64_t n)
{
    for (int64_t i = 0; i < n && m->n_faces > 1; i++) {
        const int64_t f = damage_below(r, m->n_faces);

        memmove(m->faces + 3 * f, m->faces + 3 * (f + 1), (size_t)(m->n_faces - f - 1) * 12);
        m->n_faces--;
    }
}

static inline void damage_one(espalier_context *ctx, esi_mesh *m, damage_random *r, int kind)
{
    const int64_t f = damage_below(r, m->n_faces);
    int32_t v[3];

    memcpy(v, m->faces + 3 * f, 12);
    switch (kind) {
    case DAMAGE_FLIP:
        m->faces[3 * f + 1] = v[2];
        m->faces[3 * f + 2] = v[1];
        break;
    case DAMAGE_DUPLICATE:                     /* the same, turned in the list, or the other way round */
        if (damage_below(r, 2)) damage_face(ctx, m, v[1], v[2], v[0]);
        else damage_face(ctx, m, v[1], v[0], v[2]);
        break;
    case DAMAGE_NEEDLE:                        /* a corner moves onto the middle of the other side, or onto another corner */
        for (int k = 0; k < 3; k++) {
            float *p = m->vertices + 3 * (int64_t)v[0];
            const float *q = m->vertices + 3 * (int64_t)v[1], *s = m->vertices + 3 * (int64_t)v[f & 1 ? 1 : 2];

            p[k] = (q[k] + s[k]) * 0.5f;
        }
        break;
    case DAMAGE_TEAR: {                        /* one face gets a corner of its own at the same place */
        const float *p = m->vertices + 3 * (int64_t)v[0];
        const double x = (double)p[0], y = (double)p[1], z = (double)p[2];

        m->faces[3 * f] = damage_vertex(ctx, m, x, y, z);
        break;
    }
    case DAMAGE_JUNCTION: {                    /* a side is cut for one face only */
        const float *p = m->vertices + 3 * (int64_t)v[0], *q = m->vertices + 3 * (int64_t)v[1];
        const double x = 0.5 * (double)(p[0] + q[0]), y = 0.5 * (double)(p[1] + q[1]), z = 0.5 * (double)(p[2] + q[2]);
        const int32_t middle = damage_vertex(ctx, m, x, y, z);

        m->faces[3 * f + 1] = middle;
        damage_face(ctx, m, middle, v[1], v[2]);
        break;
    }
    case DAMAGE_NAN: m->vertices[3 * (int64_t)v[0] + f % 3] = f & 1 ? (float)NAN : (float)INFINITY; break;
    case DAMAGE_RANGE: m->faces[3 * f + f % 3] = f & 1 ? -1 : (int32_t)m->n_vertices + (int32_t)damage_below(r, 1000); break;
    case DAMAGE_REPEAT: m->faces[3 * f + 1] = v[0]; break;
    case DAMAGE_DEBRIS: {                      /* a tetrahedron or a lone triangle */
        double p[3], s = 0.001 + 0.01 * damage_unit(r);
        int32_t d[4];

        for (int k = 0; k < 3; k++) p[k] = damage_unit(r) - 0.5;
        d[0] = damage_vertex(ctx, m, p[0], p[1], p[2]);
        d[1] = damage_vertex(ctx, m, p[0] + s, p[1], p[2]);
        d[2] = damage_vertex(ctx, m, p[0], p[1] + s, p[2]);
        d[3] = damage_vertex(ctx, m, p[0], p[1], p[2] + s);
        damage_face(ctx, m, d[0], d[2], d[1]);
        if (f & 1) break;
        damage_face(ctx, m, d[0], d[1], d[3]);
        damage_face(ctx, m, d[1], d[2], d[3]);
        damage_face(ctx, m, d[2], d[0], d[3]);
        break;
    }
    default: {                                 /* a fin on an edge */
        const float *p = m->vertices + 3 * (int64_t)v[0];
        const double x = 1.2 * (double)p[0], y = 1.2 * (double)p[1], z = 1.2 * (double)p[2];

        damage_face(ctx, m, v[0], v[1], damage_vertex(ctx, m, x, y, z));
        break;
    }
    }
}

typedef struct damage_info { int shape, size, kinds; } damage_info;

/* Mesh `number`: all shapes, three sizes, one to four kinds of damage in 0.1 to 5 % of the faces. `allowed` restricts the kinds. */
static inline damage_info damage_make(espalier_context *ctx, esi_mesh *m, int number, int allowed)
{
    static const int sizes[3] = {6, 11, 20};
    damage_random r = {(uint64_t)number * 7919 + 1};
    damage_info info = {number % DAMAGE_SHAPES, sizes[number / DAMAGE_SHAPES % 3], 0};
    const int n_kinds = 1 + (int)damage_below(&r, 4);

    damage_shape(ctx, m, info.shape, info.size);
    for (int i = 0; i < n_kinds; i++) info.kinds |= 1 << damage_below(&r, 11);
    info.kinds &= allowed;
    for (int kind = 1; kind <= DAMAGE_ALL; kind *= 2) {
        const int64_t n = 1 + (int64_t)((double)m->n_faces * (0.001 + 0.049 * damage_unit(&r) * damage_unit(&r)));

        if (!(info.kinds & kind)) continue;
        if (kind == DAMAGE_DELETE) damage_delete(m, &r, n);
        for (int64_t k = 0; kind != DAMAGE_DELETE && k < n; k++) {
            for (int tries = 0; tries < 100; tries++) {        /* faces that name vertices are wanted */
                damage_random peek = r;
                const int32_t *v = m->faces + 3 * damage_below(&peek, m->n_faces);

                if (v[0] >= 0 && v[1] >= 0 && v[2] >= 0 && v[0] < m->n_vertices && v[1] < m->n_vertices && v[2] < m->n_vertices) break;
                (void)damage_next(&r);
            }
            damage_one(ctx, m, &r, kind);
        }
    }
    return info;
}

#endif
