/* SPDX-License-Identifier: MIT
 *
 * fma.h: esi_fmaf(a, b, c) = a * b + c in fp32 with one rounding, the same bits on every machine. Hardware where the compiler may use it;
 * otherwise in fp64: the product of two fp32 numbers is exact there, the sum is rounded to odd (the last bit is made a sticky bit), and
 * rounding 53 bits that end in such a bit to 24, or fewer for a subnormal result, equals rounding the exact value once
 * (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
 */
#ifndef ESI_FMA_H
#define ESI_FMA_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#  error "Espalier needs fp32 and fp64 arithmetic without excess precision (x86: -msse2 -mfpmath=sse)"
#endif

/* No fp64 overflow or underflow is possible from fp32 operands (|a * b| is 0 or within 2^-298 .. 2^256), so the error term below is exact
 * whenever the operands are finite; with an infinity or NaN it is NaN, both comparisons fail, and the sum stands as it is. */
static inline float esi_fmaf_soft(float a, float b, float c)
{
    double product = (double)a * (double)b;
    double addend = (double)c;
    double sum = product + addend;
    double part = sum - product;
    double error = (product - (sum - part)) + (addend - part);
    int64_t bits, inexact, step;

    memcpy(&bits, &sum, sizeof bits);
    inexact = (error < 0.0) | (error > 0.0);
    step = (error > 0.0) == (sum > 0.0) ? 1 : -1;      /* magnitude grows when error and sum agree in sign */
    bits += (inexact & ~bits & 1) * step;
    memcpy(&sum, &bits, sizeof sum);
    return (float)sum;
}

static inline float esi_fmaf(float a, float b, float c)
{
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(a, b, c);
#else
    return esi_fmaf_soft(a, b, c);
#endif
}

#endif
