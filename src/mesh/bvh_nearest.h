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

static inline double lower(double a, double b) { return a < b ? a : b; }

static inline double clamp01(double v)
{
    v = v > 0.0 ? v : 0.0;                             /* and what 0 / 0 gives */
    return v < 1.0 ? v : 1.0;
}

/* Squared distances of the point to two triangles side by side, without branches: that of the foot on the plane where it is inside, else
 * that of the nearest point of the three sides. A face on one line has no inside. With d1 = ab . ap and d2 = ac . ap, the other dot
 * products and the areas va, vb, vc are Ericson's. */
static inline void pair_distances(const bvh_triangle *first, const bvh_triangle *second, const probe *q, double out[2])
{
    double a[3][2], b[3][2], c[3][2], least[2];

    for (int k = 0; k < 3; k++) {
        a[k][0] = (double)first->corner[0][k], a[k][1] = (double)second->corner[0][k];
        b[k][0] = (double)first->corner[1][k], b[k][1] = (double)second->corner[1][k];
        c[k][0] = (double)first->corner[2][k], c[k][1] = (double)second->corner[2][k];
    }
    least[0] = first->face < 0 ? INFINITY : 0.0;
    least[1] = second->face < 0 ? INFINITY : 0.0;
    for (int i = 0; i < 2; i++) {
        const double ux = b[0][i] - a[0][i], uy = b[1][i] - a[1][i], uz = b[2][i] - a[2][i];
        const double vx = c[0][i] - a[0][i], vy = c[1][i] - a[1][i], vz = c[2][i] - a[2][i];
        const double ax = a[0][i] - q->exact[0], ay = a[1][i] - q->exact[1], az = a[2][i] - q->exact[2];
        const double bb = ux * ux + uy * uy + uz * uz, bc = ux * vx + uy * vy + uz * vz, cc = vx * vx + vy * vy + vz * vz;
        const double d1 = -(ux * ax + uy * ay + uz * az), d2 = -(vx * ax + vy * ay + vz * az);
        const double d3 = d1 - bb, d4 = d2 - bc, d5 = d1 - bc, d6 = d2 - cc, e = d4 - d3, ee = e + (d5 - d6);
        const double va = d3 * d6 - d5 * d4, vb = d5 * d2 - d1 * d6, vc = d1 * d4 - d3 * d2;
        const double t1 = clamp01(d1 / bb), t2 = clamp01(d2 / cc), t3 = clamp01(e / ee), scale = 1.0 / (va + vb + vc);
        const double s1x = ax + t1 * ux, s1y = ay + t1 * uy, s1z = az + t1 * uz;
        const double s2x = ax + t2 * vx, s2y = ay + t2 * vy, s2z = az + t2 * vz;
        const double s3x = ax + (1.0 - t3) * ux + t3 * vx, s3y = ay + (1.0 - t3) * uy + t3 * vy, s3z = az + (1.0 - t3) * uz + t3 * vz;
        const double wb = vb * scale, wc = vc * scale;
        const double px = ax + wb * ux + wc * vx, py = ay + wb * uy + wc * vy, pz = az + wb * uz + wc * vz;
        const double side1 = s1x * s1x + s1y * s1y + s1z * s1z, side2 = s2x * s2x + s2y * s2y + s2z * s2z;
        const double side3 = s3x * s3x + s3y * s3y + s3z * s3z, plane = px * px + py * py + pz * pz;

        out[i] = lower(lower(va, vb), vc) > least[i] ? plane : lower(lower(side1, side2), side3);
    }
}

/* True when the triangle took over; equal distances go to the lowest face. */
static inline bool take_nearer(const bvh_triangle *t, double exact2, nearest *best)
{
    const float d2 = (float)exact2;

    if (d2 > best->distance2 || (d2 == best->distance2 && best->face >= 0 && bvh_face(t) >= best->face)) return false;
    best->distance2 = d2;
    best->face = bvh_face(t);
    best->triangle = t;
    return true;
}

static inline bool try_leaf(const bvh_triangle *t, int32_t count, const probe *q, nearest *best)
{
    double d2[2];
    bool taken;

    pair_distances(t, t + (count > 1), q, d2);
    taken = take_nearer(t, d2[0], best);
    if (count > 1) taken |= take_nearer(t + 1, d2[1], best);
    return taken;
}

/* ---------------------------------------------------------------------- boxes */

static const uint8_t lowest_lane[1 << BVH_WIDTH] = {0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0};

/* Squared distances between a node's boxes and the box from low to high (a point: low = high); returns a bit per child within the limit.
 * Boxes of missing children are infinitely far. The two forms compute the same numbers. */
static inline unsigned children_within(const bvh_node *n, const float low[3], const float high[3], float limit, float d2[BVH_WIDTH])
{
#if defined(__SSE2__)
    __m128 sum = _mm_setzero_ps();

    for (int k = 0; k < 3; k++) {
        const __m128 below = _mm_sub_ps(_mm_loadu_ps(n->min[k]), _mm_set1_ps(high[k]));
        const __m128 above = _mm_sub_ps(_mm_set1_ps(low[k]), _mm_loadu_ps(n->max[k]));
        const __m128 d = _mm_max_ps(_mm_max_ps(below, above), _mm_setzero_ps());

        sum = _mm_add_ps(sum, _mm_mul_ps(d, d));
    }
    _mm_storeu_ps(d2, sum);
    return (unsigned)_mm_movemask_ps(_mm_cmple_ps(sum, _mm_set1_ps(limit)));
#else
    unsigned within = 0;

    for (int lane = 0; lane < BVH_WIDTH; lane++) d2[lane] = 0.0f;
    for (int k = 0; k < 3; k++) {
        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            const float below = n->min[k][lane] - high[k], above = low[k] - n->max[k][lane], most = below > above ? below : above;
            const float d = most > 0.0f ? most : 0.0f;

            d2[lane] += d * d;
        }
    }
    for (int lane = 0; lane < BVH_WIDTH; lane++) within |= (unsigned)(d2[lane] <= limit) << lane;
    return within;
#endif
}

/* Square of a distance, not below what any point nearer than it may have. */
static inline float bound_of(const probe *q, float distance)
{
    return distance < 1e19f ? distance * distance * 1.000001f + q->slack : INFINITY;
}

#endif
