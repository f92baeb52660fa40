/* SPDX-License-Identifier: MIT
 *
 * math64.c: rounding, exponential, logarithms, power and cube root in fp64 (math64.h). Textbook methods: reduction by ln 2 after Cody and
 * Waite, Taylor and atanh series long enough for the reduced range, the leading terms kept as pairs so that one rounding dominates.
 * docs/math.md has the measured errors.
 */
#include "base/math64.h"
#include "base/math64_pair.h"

#include <math.h>

#define LN2_HIGH 0x1.62e42fefa3800p-1       /* 42 bits: its product with an 11-bit integer is exact */
#define LN2_LOW  0x1.ef35793c76730p-45

/* ---------------------------------------------------------------- rounding */

double esi_fabs(double x) { return esi_from_bits64(esi_bits64(x) & INT64_MAX); }

static double with_sign_of(double magnitude, double sign)
{
    return esi_from_bits64((esi_bits64(magnitude) & INT64_MAX) | (esi_bits64(sign) & ~(uint64_t)INT64_MAX));
}

double esi_round_half_even(double x)
{
    double a = esi_fabs(x);
    if (!(a < 0x1p52)) return x;            /* an integer already, infinity or NaN */
    return with_sign_of((a + 0x1p52) - 0x1p52, x);
}

double esi_floor(double x)
{
    double r = esi_round_half_even(x);
    return r > x ? with_sign_of(r - 1.0, x) : r;
}

double esi_ceil(double x)
{
    double r = esi_round_half_even(x);
    return r < x ? with_sign_of(r + 1.0, x) : r;
}

double esi_trunc(double x)
{
    double a = esi_fabs(x);
    double r = esi_round_half_even(a);
    return with_sign_of(r > a ? r - 1.0 : r, x);
}

/* ------------------------------------------------------------- exponential */

/* x * 2^n, rounded once, for x in [1/2, 2) and -1100 <= n <= 1024. */
static double scale_by_power(double x, int n)
{
    if (n > 1023) return x * 2.0 * esi_power_of_two(n - 1);
    if (n < -1021) return x * esi_power_of_two(n + 200) * 0x1p-200;
    return x * esi_power_of_two(n);
}

/* e^(x.high + x.low) for -746 < x.high < 710. */
static double exp_of_pair(esi_pair x)
{
    double n = (x.high * 0x1.71547652b82fep+0 + ESI_ROUND_MAGIC) - ESI_ROUND_MAGIC;
    double a = x.high - n * LN2_HIGH;       /* exact */
    double b = n * LN2_LOW;
    double c = a - b;
    esi_pair rest = esi_pair_sum(c, ((a - c) - b) + x.low);          /* x.low can be far above the last bit of a small c */
    double r = rest.high;
    double high = 1.0 + r;
    double low = (1.0 - high) + r;
    double q = 1.0 / 87178291200.0;         /* 1 / 14!, then down to 1 / 2! */

    q = q * r + 1.0 / 6227020800.0;
    q = q * r + 1.0 / 479001600.0;
    q = q * r + 1.0 / 39916800.0;
    q = q * r + 1.0 / 3628800.0;
    q = q * r + 1.0 / 362880.0;
    q = q * r + 1.0 / 40320.0;
    q = q * r + 1.0 / 5040.0;
    q = q * r + 1.0 / 720.0;
    q = q * r + 1.0 / 120.0;
    q = q * r + 1.0 / 24.0;
    q = q * r + 1.0 / 6.0;
    q = q * r + 0.5;
    q = r * r * q + (rest.low + rest.low * r);
    return scale_by_power(high + (low + q), (int)n);
}

double esi_exp(double x)
{
    esi_pair p = {x, 0.0};
    if (x != x) return x;
    if (x > 709.8) return HUGE_VAL;
    if (x < -745.2) return 0.0;
    return exp_of_pair(p);
}

/* -------------------------------------------------------------- logarithms */

/* x = m * 2^k with m in [sqrt(1/2), sqrt(2)); x positive and finite. */
static double split_near_one(double x, int *k)
{
    uint64_t u = esi_bits64(x);
    int bias = 0;

    if (u >> 52 == 0) {
        u = esi_bits64(x * 0x1p54);
        bias = 54;
    }
    /* adding 1 - sqrt(1/2) in exponent-and-fraction bits carries into the exponent when m would be sqrt(2) or more */
    u += 0x3ff0000000000000u - 0x3fe6a09e667f3bcdu;
    *k = (int)(u >> 52) - 1023 - bias;
    return esi_from_bits64((u & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
}

/* k ln 2 + ln(1 + f) + extra, |f| < 0.42. With s = f / (2 + f): ln(1 + f) = 2 atanh(s) = f - s (f - R), R = 2 s^2 / 3 + 2 s^4 / 5 + ... */
static double log_of_parts(int k, double f, double extra)
{
    double s = f / (2.0 + f);
    double z = s * s;
    double half = 0.5 * f * f;
    double r = 2.0 / 23.0;

    r = r * z + 2.0 / 21.0;
    r = r * z + 2.0 / 19.0;
    r = r * z + 2.0 / 17.0;
    r = r * z + 2.0 / 15.0;
    r = r * z + 2.0 / 13.0;
    r = r * z + 2.0 / 11.0;
    r = r * z + 2.0 / 9.0;
    r = r * z + 2.0 / 7.0;
    r = r * z + 2.0 / 5.0;
    r = r * z + 2.0 / 3.0;
    r = s * (half + r * z);
    if (k == 0) return f - (half - (r + extra));
    return k * LN2_HIGH - ((half - (r + (k * LN2_LOW + extra))) - f);
}

double esi_ln(double x)
{
    int k;
    double m;

    if (x != x) return x;
    if (x == 0.0) return -HUGE_VAL;
    if (x < 0.0) return (double)NAN;
    if (x > DBL_MAX) return x;
    m = split_near_one(x, &k);
    return log_of_parts(k, m - 1.0, 0.0);
}

double esi_log1p(double x)
{
    double u, m, lost;
    int k;

    if (x != x || x > DBL_MAX) return x;
    if (x == -1.0) return -HUGE_VAL;
    if (x < -1.0) return (double)NAN;
    if (x > -0x1p-54 && x < 0x1p-54) return x;
    if (x > -0.29 && x < 0.41) return log_of_parts(0, x, 0.0);
    u = 1.0 + x;
    lost = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);     /* 1 + x = u + lost */
    m = split_near_one(u, &k);
    return log_of_parts(k, m - 1.0, lost / u);
}

/* ln(x) to about 2^-68 of its value, for positive finite x. */
static esi_pair log_pair(double x)
{
    static const esi_pair c3 = {0x1.5555555555555p-1, 0x1.5555555555555p-55};       /* 2/3, 2/5, 2/7 */
    static const esi_pair c5 = {0x1.999999999999ap-2, -0x1.999999999999ap-56};
    static const esi_pair c7 = {0x1.2492492492492p-2, 0x1.2492492492492p-56};
    int k;
    double m = split_near_one(x, &k);
    esi_pair numerator = {m - 1.0, 0.0};
    esi_pair s = esi_pair_div(numerator, esi_pair_sum(m, 1.0));
    esi_pair z = esi_pair_mul(s, s);
    double zh = z.high;
    double p = 2.0 / 25.0;
    esi_pair r = {0.0, 0.0}, twice, ln2;

    p = p * zh + 2.0 / 23.0;
    p = p * zh + 2.0 / 21.0;
    p = p * zh + 2.0 / 19.0;
    p = p * zh + 2.0 / 17.0;
    p = p * zh + 2.0 / 15.0;
    p = p * zh + 2.0 / 13.0;
    p = p * zh + 2.0 / 11.0;
    r.high = p * zh + 2.0 / 9.0;
    r = esi_pair_add(c7, esi_pair_mul(z, r));
    r = esi_pair_add(c5, esi_pair_mul(z, r));
    r = esi_pair_add(c3, esi_pair_mul(z, r));
    r = esi_pair_mul(esi_pair_mul(s, z), r);
    twice.high = 2.0 * s.high;
    twice.low = 2.0 * s.low;
    ln2 = esi_pair_fast_sum(k * LN2_HIGH, k * LN2_LOW);
    return esi_pair_add(ln2, esi_pair_add(twice, r));
}

/* ------------------------------------------------------------------- power */

/* 0: y is no integer, 1: odd, 2: even. */
static int integer_kind(double y)
{
    double a = esi_fabs(y);
    if (a >= 0x1p53) return 2;
    if (esi_trunc(a) != a) return 0;
    return esi_trunc(a * 0.5) == a * 0.5 ? 2 : 1;
}

/* x^y for finite x > 0, x != 1, finite y != 0. */
static double power_positive(double x, double y)
{
    esi_pair logarithm, product;

    if (esi_fabs(y) > 0x1p65) return (x > 1.0) == (y > 0.0) ? HUGE_VAL : 0.0;     /* |ln x| >= 2^-53 */
    if (esi_fabs(y) < 0x1p-66) return 1.0;                                       /* |ln x| < 2^10 */
    logarithm = log_pair(x);
    product = esi_pair_product(y, logarithm.high);
    product = esi_pair_fast_sum(product.high, product.low + y * logarithm.low);
    if (product.high > 709.8) return HUGE_VAL;
    if (product.high < -745.2) return 0.0;
    return exp_of_pair(product);
}

double esi_pow(double base, double exponent)
{
    double a = esi_fabs(base);
    int kind;
    double r;

    if (exponent == 0.0 || base == 1.0) return 1.0;
    if (base != base || exponent != exponent) return base + exponent;
    if (esi_fabs(exponent) > DBL_MAX) {
        if (a == 1.0) return 1.0;
        return (a > 1.0) == (exponent > 0.0) ? HUGE_VAL : 0.0;
    }
    kind = integer_kind(exponent);
    if (a == 0.0 || a > DBL_MAX) r = (a > 1.0) == (exponent > 0.0) ? HUGE_VAL : 0.0;
    else if (base < 0.0 && kind == 0) return (double)NAN;
    else if (a == 1.0) r = 1.0;
    else r = power_positive(a, exponent);
    return kind == 1 ? with_sign_of(r, base) : r;
}

/* --------------------------------------------------------------- cube root */

/* Newton's method from an estimate by dividing the exponent by three; the last step with the residual of the exact cube. */
double esi_cbrt(double x)
{
    double a = esi_fabs(x);
    double scale = 1.0, t;
    esi_pair square, cube;

    if (!(a > 0.0 && a <= DBL_MAX)) return x;
    if (a < 0x1p-900) {
        a *= 0x1p300;
        scale = 0x1p-100;
    } else if (a > 0x1p900) {
        a *= 0x1p-300;
        scale = 0x1p100;
    }
    t = esi_from_bits64(esi_bits64(a) / 3 + 0x2a9f800000000000u);       /* about 2/3 of the bits of 1.0: error below 6 % */
    for (int i = 0; i < 4; i++) t = t - (t - a / (t * t)) * (1.0 / 3.0);
    square = esi_pair_product(t, t);
    cube = esi_pair_product(square.high, t);
    t = t + (((a - cube.high) - cube.low) - square.low * t) / (3.0 * square.high);
    return with_sign_of(t * scale, x);
}
