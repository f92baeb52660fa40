/* SPDX-License-Identifier: MIT
 *
 * fma.h: esi_fmaf(a, b, c) = a * b + c in fp32 with one rounding, the same bits on every machine. Hardware where the compiler may use it;
 * otherwise in fp64: the product of two fp32 numbers is exact there, the sum is rounded to odd (the last bit is made a sticky bit) where it
 * matters, and rounding 53 bits that end in such a bit to 24, or fewer for a subnormal result, equals rounding the exact value once
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

/* No fp64 overflow or underflow is possible from fp32 operands (|a * b| is 0 or within 2^-298 .. 2^256). Rounding twice can only go wrong
 * when the fp64 sum is just in the middle between two fp32 numbers: the exact value may lie on either side of it. Otherwise both are on the
 * same side of every middle, and the plain conversion is right. The middles of subnormal numbers look different; these, but not zero,
 * always take the long way. */
static inline float esi_fmaf_soft(float a, float b, float c)
{
    double product = (double)a * (double)b;
    double addend = (double)c;
    double sum = product + addend;
    double part, error;
    uint64_t bits, size;

    memcpy(&bits, &sum, sizeof bits);
    size = bits & INT64_MAX;
    if ((bits & 0x1fffffff) != 0x10000000 && size - 1 >= UINT64_C(0x3810000000000000) - 1) return (float)sum;     /* 0 or >= 2^-126 */

    part = sum - product;
    error = (product - (sum - part)) + (addend - part);
    if ((error < 0.0 || error > 0.0) && (bits & 1) == 0) {
        bits += (error > 0.0) == (sum > 0.0) ? 1 : UINT64_MAX;      /* magnitude grows when error and sum agree in sign */
        memcpy(&sum, &bits, sizeof sum);
    }
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
