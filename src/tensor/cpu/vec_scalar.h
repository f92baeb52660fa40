/* SPDX-License-Identifier: MIT
 *
 * vec_scalar.h: the vector vocabulary with one lane: plain C, the definition of what every lane of the other instances does.
 *
 * The vocabulary (vec_scalar.h, vec_avx2.h, vec_avx512.h, vec_neon.h; a source file includes exactly one):
 *   VF VI VMASK        vector of float, of 32-bit integer, of truth values; V_LANES of them
 *   VM(name)           name with the suffix of the instance, for static functions
 *   V_SET1 V_ZERO VI_SET1                      constants
 *   V_ADD V_SUB V_MUL V_DIV V_SQRT             IEEE, rounded to nearest even
 *   V_FMA(a, b, c)                             a * b + c, rounded once
 *   V_LT V_LE V_GT V_GE V_EQ                   false where an operand is NaN
 *   V_SELECT(mask, a, b)                       mask ? a : b
 *   V_MAX V_MIN                                a > b ? a : b and a < b ? a : b, so the second operand where one is NaN
 *   V_AND V_OR V_XOR V_ABS V_NEG V_COPYSIGN    bits; V_COPYSIGN(magnitude, sign)
 *   V_BITS V_FROM_BITS                         the same 32 bits seen as VI, as VF
 *   VI_ADD VI_SUB VI_AND VI_OR VI_XOR VI_SHL VI_SHR     modulo 2^32; shifts by a constant, right shift logical
 *   V_FROM_INT                                 integer to float
 *   V_LOAD V_STORE     any alignment           V_LOAD_N V_STORE_N   the first n (0 .. V_LANES) lanes; others read as +0
 *   V_STORE_RULE       |v| < 2^-40 and -0 become +0
 * and, from vec_wide.h, the same over 16 lanes.
 */
#ifndef ESI_VEC_SCALAR_H
#define ESI_VEC_SCALAR_H

#include "base/fma.h"

#include <math.h>
#include <stddef.h>

#define VF           float
#define VI           uint32_t
#define VMASK        int
#define V_LANES      1
#define VM(name)     esi_v##name##_scalar
#define V_UNROLL     /* plain loops */

static inline uint32_t esi_scalar_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float esi_scalar_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float esi_scalar_max(float a, float b) { return a > b ? a : b; }
static inline float esi_scalar_min(float a, float b) { return a < b ? a : b; }
static inline float esi_scalar_select(int mask, float a, float b) { return mask ? a : b; }
static inline float esi_scalar_load_n(const float *p, size_t n) { return n ? *p : 0.0f; }
static inline void esi_scalar_store_n(float *p, float v, size_t n)
{
    if (n) *p = v;
}

#define V_SET1(x)           ((float)(x))
#define V_ZERO()            (0.0f)
#define VI_SET1(x)          ((uint32_t)(x))
#define V_ADD(a, b)         ((a) + (b))
#define V_SUB(a, b)         ((a) - (b))
#define V_MUL(a, b)         ((a) * (b))
#define V_DIV(a, b)         ((a) / (b))
#define V_SQRT(a)           sqrtf(a)
#define V_FMA(a, b, c)      esi_fmaf(a, b, c)
#define V_LT(a, b)          ((a) < (b))
#define V_LE(a, b)          ((a) <= (b))
#define V_GT(a, b)          ((a) > (b))
#define V_GE(a, b)          ((a) >= (b))
#define V_EQ(a, b)          ((a) == (b))
#define V_SELECT(m, a, b)   esi_scalar_select(m, a, b)
#define V_MAX(a, b)         esi_scalar_max(a, b)
#define V_MIN(a, b)         esi_scalar_min(a, b)
#define V_BITS(a)           esi_scalar_bits(a)
#define V_FROM_BITS(a)      esi_scalar_from_bits(a)
#define V_AND(a, b)         V_FROM_BITS(V_BITS(a) & V_BITS(b))
#define V_OR(a, b)          V_FROM_BITS(V_BITS(a) | V_BITS(b))
#define V_XOR(a, b)         V_FROM_BITS(V_BITS(a) ^ V_BITS(b))
#define V_ABS(a)            V_FROM_BITS(V_BITS(a) & 0x7fffffffu)
#define V_NEG(a)            V_FROM_BITS(V_BITS(a) ^ 0x80000000u)
#define V_COPYSIGN(a, b)    V_FROM_BITS((V_BITS(a) & 0x7fffffffu) | (V_BITS(b) & 0x80000000u))
#define VI_ADD(a, b)        ((a) + (b))
#define VI_SUB(a, b)        ((a) - (b))
#define VI_AND(a, b)        ((a) & (b))
#define VI_OR(a, b)         ((a) | (b))
#define VI_XOR(a, b)        ((a) ^ (b))
#define VI_SHL(a, n)        ((a) << (n))
#define VI_SHR(a, n)        ((a) >> (n))
#define V_FROM_INT(a)       ((float)(int32_t)(a))
#define V_LOAD(p)           (*(p))
#define V_STORE(p, v)       (*(p) = (v))
#define V_LOAD_N(p, n)      esi_scalar_load_n(p, n)
#define V_STORE_N(p, v, n)  esi_scalar_store_n(p, v, n)
#define V_STORE_RULE(v)     V_SELECT(V_LT(V_ABS(v), 0x1p-40f), 0.0f, v)

#define ESI_VEC_REDUCE_DEFINED 0
#include "tensor/cpu/vec_wide.h"

#endif
