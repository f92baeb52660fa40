/* SPDX-License-Identifier: MIT
 *
 * vec_avx512.h: the vector vocabulary of vec_scalar.h for x86-64 with AVX-512F, 16 lanes.
 */
#ifndef ESI_VEC_AVX512_H
#define ESI_VEC_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VF           __m512
#define VI           __m512i
#define VMASK        __mmask16
#define V_LANES      16
#define VM(name)     esi_v##name##_avx512

#define V_TAIL(n)           ((__mmask16)((1u << (n)) - 1u))
#define V_SIGN_BIT          _mm512_set1_epi32((int)0x80000000u)
#define V_SET1(x)           _mm512_set1_ps((float)(x))
#define V_ZERO()            _mm512_setzero_ps()
#define VI_SET1(x)          _mm512_set1_epi32((int)(x))
#define V_ADD(a, b)         _mm512_add_ps(a, b)
#define V_SUB(a, b)         _mm512_sub_ps(a, b)
#define V_MUL(a, b)         _mm512_mul_ps(a, b)
#define V_DIV(a, b)         _mm512_div_ps(a, b)
#define V_SQRT(a)           _mm512_sqrt_ps(a)
#define V_FMA(a, b, c)      _mm512_fmadd_ps(a, b, c)
#define V_LT(a, b)          _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)
#define V_LE(a, b)          _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)
#define V_GT(a, b)          _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ)
#define V_GE(a, b)          _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ)
#define V_EQ(a, b)          _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)
#define V_SELECT(m, a, b)   _mm512_mask_blend_ps(m, b, a)
#define V_MAX(a, b)         _mm512_max_ps(a, b)
#define V_MIN(a, b)         _mm512_min_ps(a, b)
#define V_BITS(a)           _mm512_castps_si512(a)
#define V_FROM_BITS(a)      _mm512_castsi512_ps(a)
#define V_AND(a, b)         V_FROM_BITS(_mm512_and_si512(V_BITS(a), V_BITS(b)))
#define V_OR(a, b)          V_FROM_BITS(_mm512_or_si512(V_BITS(a), V_BITS(b)))
#define V_XOR(a, b)         V_FROM_BITS(_mm512_xor_si512(V_BITS(a), V_BITS(b)))
#define V_ABS(a)            V_FROM_BITS(_mm512_andnot_si512(V_SIGN_BIT, V_BITS(a)))
#define V_NEG(a)            V_FROM_BITS(_mm512_xor_si512(V_SIGN_BIT, V_BITS(a)))
#define V_COPYSIGN(a, b)    V_OR(V_ABS(a), V_FROM_BITS(_mm512_and_si512(V_SIGN_BIT, V_BITS(b))))
#define VI_ADD(a, b)        _mm512_add_epi32(a, b)
#define VI_SUB(a, b)        _mm512_sub_epi32(a, b)
#define VI_AND(a, b)        _mm512_and_si512(a, b)
#define VI_OR(a, b)         _mm512_or_si512(a, b)
#define VI_XOR(a, b)        _mm512_xor_si512(a, b)
#define VI_SHL(a, n)        _mm512_slli_epi32(a, n)
#define VI_SHR(a, n)        _mm512_srli_epi32(a, n)
#define V_FROM_INT(a)       _mm512_cvtepi32_ps(a)
#define V_LOAD(p)           _mm512_loadu_ps(p)
#define V_STORE(p, v)       _mm512_storeu_ps(p, v)
#define V_LOAD_N(p, n)      _mm512_maskz_loadu_ps(V_TAIL(n), p)
#define V_STORE_N(p, v, n)  _mm512_mask_storeu_ps(p, V_TAIL(n), v)
/* NLT: true for NaN, which stays. */
#define V_STORE_RULE(v)     _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(V_ABS(v), V_SET1(0x1p-40f), _CMP_NLT_UQ), v)

/* Lanes 16 to 1 by the tree: j + 8, j + 4, j + 2, j + 1. */
static inline float esi_avx512_sum(__m512 v)
{
    __m256 h = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m128 s;

    h = _mm256_add_ps(_mm512_castps512_ps256(v), h);
    s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

static inline float esi_avx512_max(__m512 v)
{
    __m256 h = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
    __m128 s;

    h = _mm256_max_ps(_mm512_castps512_ps256(v), h);
    s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

#define ESI_VEC_REDUCE_DEFINED 1
#define V_REDUCE_SUM(w)     esi_avx512_sum((w).part[0])
#define V_REDUCE_MAX(w)     esi_avx512_max((w).part[0])
#include "tensor/cpu/vec_wide.h"

#endif
