/* SPDX-License-Identifier: MIT
 *
 * bvh_nearest.h: the parts of a nearest-point search that single queries and packets share: a triangle and a point, boxes and a point.
 */
#ifndef ESI_MESH_BVH_NEAREST_H
#define ESI_MESH_BVH_NEAREST_H

#include "mesh/bvh_internal.h"

#include <float.h>
#include <math.h>

#if defined(__SSE2__)
#  include <emmintrin.h>
#endif

typedef struct nearest {
    float distance2;
    int32_t face;
    double weight[3];
    const bvh_triangle *triangle;
} nearest;

typedef struct probe {
    float p[3];
    double exact[3];
    float slack;                   /* absolute, of squared distances: what double rounding can do at this scale */
} probe;

static inline probe make_probe(const esi_bvh *bvh, const float p[3])
{
    probe q = {.p = {p[0], p[1], p[2]}, .exact = {(double)p[0], (double)p[1], (double)p[2]}};
    double scale = (double)bvh->reach + fabs(q.exact[0]) + fabs(q.exact[1]) + fabs(q.exact[2]);

    /* A distance is off by some 1e-15 * scale; 2 d e <= 2^-22 d^2 + 2^22 e^2 turns that into a relative and an absolute part. */
    q.slack = (float)(scale * scale * 1e-23);
    return q;
}

/* Boxes at this squared distance or nearer may hold an answer of `distance2`. Finite: infinitely far are boxes that are not there. */
static inline float box_limit(const probe *q, float distance2)
{
    const float limit = (distance2 + q->slack) * 1.000002f;

    return limit < FLT_MAX ? limit : FLT_MAX;
}

/* ----------------------------------------------------------------- triangles */

/* a, b, c relative to the point; w: barycentric weights of the nearest point. Returns the squared distance. With u = ab . ap and v = ac . ap
 * for the first corner (Ericson's d1, d2), those of the others (d3 .. d6) follow from the sides' products. */
static inline double nearest_on_triangle(const double a[3], const double ab[3], const double ac[3], double w[3])
{
    const double bb = bvh_dot(ab, ab), bc = bvh_dot(ab, ac), cc = bvh_dot(ac, ac);
    const double d1 = -bvh_dot(ab, a), d2 = -bvh_dot(ac, a);
    const double d3 = d1 - bb, d4 = d2 - bc, d5 = d1 - bc, d6 = d2 - cc;
    const double va = d3 * d6 - d5 * d4, vb = d5 * d2 - d1 * d6, vc = d1 * d4 - d3 * d2;
    double b = 0.0, c = 0.0, d[3];

    if (d1 <= 0.0 && d2 <= 0.0) {                      /* corner a */
    } else if (d3 >= 0.0 && d4 <= d3) {
        b = 1.0;
    } else if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {  /* side ab */
        b = d1 / bb;
    } else if (d6 >= 0.0 && d5 <= d6) {
        c = 1.0;
    } else if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
        c = d2 / cc;
    } else if (va <= 0.0 && d4 >= d3 && d5 >= d6) {
        c = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        b = 1.0 - c;
    } else {
        const double scale = 1.0 / (va + vb + vc);
        b = vb * scale;
        c = vc * scale;
    }
    w[0] = 1.0 - b - c;
    w[1] = b;
    w[2] = c;
    for (int k = 0; k < 3; k++) d[k] = a[k] + b * ab[k] + c * ac[k];
    return bvh_dot(d, d);
}

static inline double nearest_on_segment(const double a[3], const double b[3], double *t)
{
    double ab[3], d[3], length2;

    bvh_sub(ab, b, a);
    length2 = bvh_dot(ab, ab);
    *t = length2 > 0.0 ? -bvh_dot(ab, a) / length2 : 0.0;
    *t = *t < 0.0 ? 0.0 : *t > 1.0 ? 1.0 : *t;
    for (int k = 0; k < 3; k++) d[k] = a[k] + *t * ab[k];
    return bvh_dot(d, d);
}

/* The three sides of a face without area. */
static inline double nearest_on_line(const double a[3], const double b[3], const double c[3], double w[3])
{
    const double *corner[3] = {a, b, c};
    double best = INFINITY;

    for (int k = 0; k < 3; k++) {
        double t;
        const double d2 = nearest_on_segment(corner[k], corner[(k + 1) % 3], &t);

        if (!(d2 < best)) continue;
        best = d2;
        w[k] = 1.0 - t;
        w[(k + 1) % 3] = t;
        w[(k + 2) % 3] = 0.0;
    }
    return best;
}

static inline double nearest_on_face(const bvh_triangle *t, const probe *q, double w[3])
{
    double a[3], b[3], c[3];

    for (int k = 0; k < 3; k++) {
        a[k] = (double)t->corner[0][k] - q->exact[k];
        b[k] = (double)t->corner[1][k] - q->exact[k];
        c[k] = (double)t->corner[2][k] - q->exact[k];
    }
    if (t->face < 0) return nearest_on_line(a, b, c, w);
    bvh_sub(b, b, a);
    bvh_sub(c, c, a);
    return nearest_on_triangle(a, b, c, w);
}

/* True when the triangle took over; equal distances go to the lowest face. */
static inline bool try_triangle(const bvh_triangle *t, const probe *q, nearest *best)
{
    double w[3];
    const float d2 = (float)nearest_on_face(t, q, w);

    if (d2 > best->distance2 || (d2 == best->distance2 && best->face >= 0 && bvh_face(t) >= best->face)) return false;
    best->distance2 = d2;
    best->face = bvh_face(t);
    best->triangle = t;
    memcpy(best->weight, w, sizeof w);
    return true;
}

/* ---------------------------------------------------------------------- boxes */

static inline void box_distances(const bvh_node *n, const float p[3], float d2[BVH_WIDTH])
{
    for (int lane = 0; lane < BVH_WIDTH; lane++) d2[lane] = 0.0f;
    for (int k = 0; k < 3; k++) {
        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            const float below = n->min[k][lane] - p[k], above = p[k] - n->max[k][lane];
            const float d = (below > 0.0f ? below : 0.0f) + (above > 0.0f ? above : 0.0f);      /* at most one is positive */

            d2[lane] += d * d;
        }
    }
}

static const uint8_t lowest_lane[1 << BVH_WIDTH] = {0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0};

/* Bit per child within the limit. Boxes of missing children are infinitely far. */
static inline unsigned lanes_within(const float d2[BVH_WIDTH], float limit)
{
#if defined(__SSE2__)
    return (unsigned)_mm_movemask_ps(_mm_cmple_ps(_mm_loadu_ps(d2), _mm_set1_ps(limit)));
#else
    unsigned met = 0;

    for (int lane = 0; lane < BVH_WIDTH; lane++) met |= (unsigned)(d2[lane] <= limit) << lane;
    return met;
#endif
}

/* Square of a distance, not below what any point nearer than it may have. */
static inline float bound_of(const probe *q, float distance)
{
    return distance < 1e19f ? distance * distance * 1.000001f + q->slack : INFINITY;
}

#endif
