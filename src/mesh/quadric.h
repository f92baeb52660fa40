/* SPDX-License-Identifier: MIT
 *
 * quadric.h: sums of weighted squared distances to planes, Q(x) = x'Ax - 2b'x + c (Garland, Heckbert 1997), and where they are least.
 */
#ifndef ESI_QUADRIC_H
#define ESI_QUADRIC_H

#include "base/base.h"
#include "mesh/vec.h"

typedef struct esi_quadric {
    double xx, xy, xz, yy, yz, zz;             /* A */
    double x, y, z;                            /* b */
    double c;
} esi_quadric;

static inline void esi_quadric_add(esi_quadric *q, const esi_quadric *p)
{
    q->xx += p->xx;
    q->xy += p->xy;
    q->xz += p->xz;
    q->yy += p->yy;
    q->yz += p->yz;
    q->zz += p->zz;
    q->x += p->x;
    q->y += p->y;
    q->z += p->z;
    q->c += p->c;
}

/* weight * (normal . (x - point))^2; the normal need not be a unit vector. */
static inline void esi_quadric_set_plane(esi_quadric *q, const double normal[3], const double point[3], double weight)
{
    const double wx = weight * normal[0], wy = weight * normal[1], wz = weight * normal[2];
    const double d = esi_vec_dot(normal, point);

    q->xx = wx * normal[0];
    q->xy = wx * normal[1];
    q->xz = wx * normal[2];
    q->yy = wy * normal[1];
    q->yz = wy * normal[2];
    q->zz = wz * normal[2];
    q->x = wx * d;
    q->y = wy * d;
    q->z = wz * d;
    q->c = weight * d * d;
}

/* Rounding may take a sum of squares below zero; it is not let through. */
static inline double esi_quadric_value(const esi_quadric *q, const double p[3])
{
    const double gx = q->xx * p[0] + q->xy * p[1] + q->xz * p[2] - 2.0 * q->x;
    const double gy = q->xy * p[0] + q->yy * p[1] + q->yz * p[2] - 2.0 * q->y;
    const double gz = q->xz * p[0] + q->yz * p[1] + q->zz * p[2] - 2.0 * q->z;
    const double value = p[0] * gx + p[1] * gy + p[2] * gz + q->c;

    return value > 0.0 ? value : 0.0;
}

/* Sum of the planes' weights times their normals' squared lengths. */
static inline double esi_quadric_weight(const esi_quadric *q)
{
    return q->xx + q->yy + q->zz;
}

/* Least point of q plus a spring to `near` of `spring` times the mean of A's eigenvalues: without one, flat and straight places have no
 * single least point. False if there is no solution. */
static inline bool esi_quadric_minimum(double out[3], const esi_quadric *q, const double near[3], double spring)
{
    const double s = spring * esi_quadric_weight(q) / 3.0;
    const double xx = q->xx + s, yy = q->yy + s, zz = q->zz + s;
    const double bx = q->x + s * near[0], by = q->y + s * near[1], bz = q->z + s * near[2];
    const double c0 = yy * zz - q->yz * q->yz, c1 = q->xz * q->yz - q->xy * zz, c2 = q->xy * q->yz - q->xz * yy;
    const double c3 = xx * zz - q->xz * q->xz, c4 = q->xy * q->xz - xx * q->yz, c5 = xx * yy - q->xy * q->xy;
    const double determinant = xx * c0 + q->xy * c1 + q->xz * c2;

    if (!(determinant > 0.0)) return false;
    out[0] = (c0 * bx + c1 * by + c2 * bz) / determinant;
    out[1] = (c1 * bx + c3 * by + c4 * bz) / determinant;
    out[2] = (c2 * bx + c4 * by + c5 * bz) / determinant;
    return isfinite(out[0]) && isfinite(out[1]) && isfinite(out[2]);
}

#endif
