/* SPDX-License-Identifier: MIT
 *
 * predicates.c: signs of determinants, first in double with a bound on the error; where that does not decide, exactly, as sums of doubles
 * that do not overlap (Dekker 1971; Shewchuk, "Adaptive precision floating-point arithmetic and fast robust geometric predicates", 1997).
 * Products of three floats neither overflow nor underflow in double, so the exact part is exact for all finite floats. Needs the file
 * to be compiled without contraction of multiply and add, as all are.
 */
#include "mesh/predicates.h"

#include <math.h>

/* Terms in the longest sum: three products of 16 and 2 terms, each of which splits in two. */
#define TERMS_MAX 192

/* Terms of increasing magnitude whose bits do not overlap; zeros are left out. */
typedef struct expansion {
    int count;
    double term[TERMS_MAX];
} expansion;

/* a + b = *sum + *error. */
static void two_sum(double a, double b, double *sum, double *error)
{
    const double s = a + b, b_part = s - a, a_part = s - b_part;

    *error = (a - a_part) + (b - b_part);
    *sum = s;
}

/* a as two halves of 26 bits (Veltkamp). */
static void split(double a, double *high, double *low)
{
    const double c = 134217729.0 * a;

    *high = c - (c - a);
    *low = a - *high;
}

/* a * b = *product + *error. */
static void two_product(double a, double b, double *product, double *error)
{
    double ah, al, bh, bl;
    const double p = a * b;

    split(a, &ah, &al);
    split(b, &bh, &bl);
    *error = al * bl - (((p - ah * bh) - al * bh) - ah * bl);
    *product = p;
}

/* Shewchuk's GROW-EXPANSION. */
static void grow(expansion *e, double b)
{
    int n = 0;
    double q = b;

    for (int i = 0; i < e->count; i++) {
        double error;

        two_sum(q, e->term[i], &q, &error);
        if (error != 0.0) e->term[n++] = error;
    }
    if (q != 0.0) e->term[n++] = q;
    e->count = n;
}

static void difference(expansion *out, double a, double b)
{
    double sum, error;

    two_sum(a, -b, &sum, &error);
    out->count = 0;
    grow(out, error);
    grow(out, sum);
}

/* *out += sign * a * b. */
static void add_product(expansion *out, const expansion *a, const expansion *b, double sign)
{
    for (int i = 0; i < a->count; i++) {
        for (int k = 0; k < b->count; k++) {
            double product, error;

            two_product(a->term[i], sign * b->term[k], &product, &error);
            grow(out, error);
            grow(out, product);
        }
    }
}

static int sign_of(double x)
{
    return (x > 0.0) - (x < 0.0);
}

static int sign_of_sum(const expansion *e)
{
    return e->count ? sign_of(e->term[e->count - 1]) : 0;
}

static int orient3d_exact(const float a[3], const float b[3], const float c[3], const float d[3])
{
    expansion u[3], v[3], w[3], sum = {0};

    for (int k = 0; k < 3; k++) {
        difference(&u[k], (double)a[k], (double)d[k]);
        difference(&v[k], (double)b[k], (double)d[k]);
        difference(&w[k], (double)c[k], (double)d[k]);
    }
    for (int k = 0; k < 3; k++) {
        expansion minor = {0};

        add_product(&minor, &v[(k + 1) % 3], &w[(k + 2) % 3], 1.0);
        add_product(&minor, &v[(k + 2) % 3], &w[(k + 1) % 3], -1.0);
        add_product(&sum, &minor, &u[k], 1.0);
    }
    return sign_of_sum(&sum);
}

int esi_orient3d(const float a[3], const float b[3], const float c[3], const float d[3])
{
    double u[3], v[3], w[3], determinant = 0.0, size = 0.0;

    for (int k = 0; k < 3; k++) {
        u[k] = (double)a[k] - (double)d[k];
        v[k] = (double)b[k] - (double)d[k];
        w[k] = (double)c[k] - (double)d[k];
    }
    for (int k = 0; k < 3; k++) {
        const double p = v[(k + 1) % 3] * w[(k + 2) % 3], q = v[(k + 2) % 3] * w[(k + 1) % 3];

        determinant += u[k] * (p - q);
        size += (fabs(p) + fabs(q)) * fabs(u[k]);
    }
    /* Eight roundings on the way to each term, 2^-53 each: 16 leaves room for those of the bound. */
    if (fabs(determinant) > 16.0 * 1.1102230246251565e-16 * size) return sign_of(determinant);
    return orient3d_exact(a, b, c, d);
}

int esi_orient2d(const float a[3], const float b[3], const float c[3], int x, int y)
{
    const double ux = (double)a[x] - (double)c[x], uy = (double)a[y] - (double)c[y];
    const double vx = (double)b[x] - (double)c[x], vy = (double)b[y] - (double)c[y];
    const double p = ux * vy, q = uy * vx, area = p - q;

    if (fabs(area) > 8.0 * 1.1102230246251565e-16 * (fabs(p) + fabs(q))) return sign_of(area);
    expansion eux, euy, evx, evy, sum = {0};
    difference(&eux, (double)a[x], (double)c[x]);
    difference(&euy, (double)a[y], (double)c[y]);
    difference(&evx, (double)b[x], (double)c[x]);
    difference(&evy, (double)b[y], (double)c[y]);
    add_product(&sum, &eux, &evy, 1.0);
    add_product(&sum, &euy, &evx, -1.0);
    return sign_of_sum(&sum);
}
