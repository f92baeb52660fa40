/* SPDX-License-Identifier: MIT
 *
 * math64_pair.h: inside of math64*.c: bits of a double, and numbers kept as an unevaluated sum of two doubles. The building blocks are the
 * error-free sum of D. Knuth and the error-free product of T. Dekker (1971), which need rounding to nearest and no fma.
 */
#ifndef ESI_MATH64_PAIR_H
#define ESI_MATH64_PAIR_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#  error "Espalier needs fp32 and fp64 arithmetic without excess precision (x86: -msse2 -mfpmath=sse)"
#endif

#define ESI_ROUND_MAGIC 0x1.8p+52      /* adding it leaves the integer nearest to |x| < 2^51 in the low bits, ties to even */

typedef struct esi_pair { double high, low; } esi_pair;     /* value = high + low, |low| <= half an ulp of high */

static inline uint64_t esi_bits64(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double esi_from_bits64(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* 2^n for -1022 <= n <= 1023. */
static inline double esi_power_of_two(int n) { return esi_from_bits64((uint64_t)(n + 1023) << 52); }

/* Biased exponent field; 0 for zero and subnormal numbers, 2047 for infinity and NaN. */
static inline int esi_exponent_field(double x) { return (int)(esi_bits64(x) >> 52 & 0x7ff); }

/* a + b, exactly; |a| >= |b| or a == 0. */
static inline esi_pair esi_pair_fast_sum(double a, double b)
{
    esi_pair r;
    r.high = a + b;
    r.low = b - (r.high - a);
    return r;
}

/* a + b, exactly. */
static inline esi_pair esi_pair_sum(double a, double b)
{
    esi_pair r;
    double part;
    r.high = a + b;
    part = r.high - a;
    r.low = (a - (r.high - part)) + (b - part);
    return r;
}

/* a * b, exactly while nothing under- or overflows: |a|, |b| < 2^995, |a * b| > 2^-960. */
static inline esi_pair esi_pair_product(double a, double b)
{
    esi_pair r;
    double c = a * 0x1.0000002p+27, d = b * 0x1.0000002p+27;
    double a_high = c - (c - a), b_high = d - (d - b);
    double a_low = a - a_high, b_low = b - b_high;
    r.high = a * b;
    r.low = ((a_high * b_high - r.high) + a_high * b_low + a_low * b_high) + a_low * b_low;
    return r;
}

/* The following are accurate to about 2^-102 of the result. */
static inline esi_pair esi_pair_add(esi_pair a, esi_pair b)
{
    esi_pair s = esi_pair_sum(a.high, b.high);
    esi_pair t = esi_pair_sum(a.low, b.low);
    s = esi_pair_fast_sum(s.high, s.low + t.high);
    return esi_pair_fast_sum(s.high, s.low + t.low);
}

static inline esi_pair esi_pair_mul(esi_pair a, esi_pair b)
{
    esi_pair p = esi_pair_product(a.high, b.high);
    return esi_pair_fast_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static inline esi_pair esi_pair_div(esi_pair a, esi_pair b)
{
    double q = a.high / b.high;
    esi_pair p = esi_pair_product(q, b.high);
    double rest = (((a.high - p.high) - p.low) + a.low) - q * b.low;
    return esi_pair_fast_sum(q, rest / b.high);
}

#endif
