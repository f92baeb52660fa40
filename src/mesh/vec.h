/* SPDX-License-Identifier: MIT
 *
 * vec.h: three doubles.
 */
#ifndef ESI_MESH_VEC_H
#define ESI_MESH_VEC_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline void esi_vec_load(double out[3], const float *array, int64_t i)
{
    for (int k = 0; k < 3; k++) out[k] = (double)array[3 * i + k];
}

static inline void esi_vec_sub(double out[3], const double a[3], const double b[3])
{
    for (int k = 0; k < 3; k++) out[k] = a[k] - b[k];
}

static inline double esi_vec_dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static inline double esi_vec_length(const double v[3]) { return sqrt(esi_vec_dot(v, v)); }

static inline void esi_vec_cross(double out[3], const double a[3], const double b[3])
{
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* To unit length; false, and nothing done, where there is no direction. Tiny vectors are scaled up before they are squared. */
static inline bool esi_vec_normalize(double v[3])
{
    double largest = 0.0, length;

    for (int k = 0; k < 3; k++) largest = fabs(v[k]) > largest ? fabs(v[k]) : largest;
    if (!(largest > 0.0) || !isfinite(largest)) return false;
    for (int k = 0; k < 3; k++) v[k] /= largest;
    length = sqrt(esi_vec_dot(v, v));
    for (int k = 0; k < 3; k++) v[k] /= length;
    return true;
}

/* Without its part along a unit normal. */
static inline void esi_vec_flatten(double v[3], const double normal[3])
{
    const double along = esi_vec_dot(v, normal);

    for (int k = 0; k < 3; k++) v[k] -= along * normal[k];
}

/* Twice the area times the normal of triangle a, b, c. */
static inline void esi_vec_face_cross(double out[3], const double a[3], const double b[3], const double c[3])
{
    double ab[3], ac[3];

    esi_vec_sub(ab, b, a);
    esi_vec_sub(ac, c, a);
    esi_vec_cross(out, ab, ac);
}

#endif
