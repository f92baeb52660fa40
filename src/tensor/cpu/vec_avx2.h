/* SPDX-License-Identifier: MIT
 *
 * vec_avx2.h: the vector vocabulary of vec_scalar.h for x86-64 with AVX2 and FMA, 8 lanes.
 */
#ifndef ESI_VEC_AVX2_H
#define ESI_VEC_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define VF           __m256
#define VI           __m256i
#define VMASK        __m256
#define V_LANES      8
#define VM(name)     esi_v##name##_avx2

static inline __m256i esi_avx2_tail(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#define V_SIGN_BIT          _mm256_castsi256_ps(_mm256_set1_epi32((int)0x80000000u))
#define V_SET1(x)           _mm256_set1_ps((float)(x))
#define V_ZERO()            _mm256_setzero_ps()
#define VI_SET1(x)          _mm256_set1_epi32((int)(x))
#define V_ADD(a, b)         _mm256_add_ps(a, b)
#define V_SUB(a, b)         _mm256_sub_ps(a, b)
#define V_MUL(a, b)         _mm256_mul_ps(a, b)
#define V_DIV(a, b)         _mm256_div_ps(a, b)
#define V_SQRT(a)           _mm256_sqrt_ps(a)
#define V_FMA(a, b, c)      _mm256_fmadd_ps(a, b, c)
#define V_LT(a, b)          _mm256_cmp_ps(a, b, _CMP_LT_OQ)
#define V_LE(a, b)          _mm256_cmp_ps(a, b, _CMP_LE_OQ)
#define V_GT(a, b)          _mm256_cmp_ps(a, b, _CMP_GT_OQ)
#define V_GE(a, b)          _mm256_cmp_ps(a, b, _CMP_GE_OQ)
#define V_EQ(a, b)          _mm256_cmp_ps(a, b, _CMP_EQ_OQ)
#define V_SELECT(m, a, b)   _mm256_blendv_ps(b, a, m)
#define V_MAX(a, b)         _mm256_max_ps(a, b)
#define V_MIN(a, b)         _mm256_min_ps(a, b)
#define V_BITS(a)           _mm256_castps_si256(a)
#define V_FROM_BITS(a)      _mm256_castsi256_ps(a)
#define V_AND(a, b)         _mm256_and_ps(a, b)
#define V_OR(a, b)          _mm256_or_ps(a, b)
#define V_XOR(a, b)         _mm256_xor_ps(a, b)
#define V_ABS(a)            _mm256_andnot_ps(V_SIGN_BIT, a)
#define V_NEG(a)            _mm256_xor_ps(V_SIGN_BIT, a)
#define V_COPYSIGN(a, b)    _mm256_or_ps(V_ABS(a), _mm256_and_ps(V_SIGN_BIT, b))
#define VI_ADD(a, b)        _mm256_add_epi32(a, b)
#define VI_SUB(a, b)        _mm256_sub_epi32(a, b)
#define VI_AND(a, b)        _mm256_and_si256(a, b)
#define VI_OR(a, b)         _mm256_or_si256(a, b)
#define VI_XOR(a, b)        _mm256_xor_si256(a, b)
#define VI_SHL(a, n)        _mm256_slli_epi32(a, n)
#define VI_SHR(a, n)        _mm256_srli_epi32(a, n)
#define V_FROM_INT(a)       _mm256_cvtepi32_ps(a)
#define V_LOAD(p)           _mm256_loadu_ps(p)
#define V_STORE(p, v)       _mm256_storeu_ps(p, v)
#define V_LOAD_N(p, n)      _mm256_maskload_ps(p, esi_avx2_tail(n))
#define V_STORE_N(p, v, n)  _mm256_maskstore_ps(p, esi_avx2_tail(n), v)
#define V_STORE_RULE(v)     _mm256_andnot_ps(V_LT(V_ABS(v), V_SET1(0x1p-40f)), v)

/* Lanes 8 to 1 by the tree: j + 4, j + 2, j + 1. */
static inline float esi_avx2_sum(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
}

static inline float esi_avx2_max(__m256 v)
{
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps(s, s, 1)));
}

#define ESI_VEC_REDUCE_DEFINED 1
#define V_REDUCE_SUM(w)     esi_avx2_sum(V_ADD((w).part[0], (w).part[1]))
#define V_REDUCE_MAX(w)     esi_avx2_max(V_MAX((w).part[0], (w).part[1]))
#include "tensor/cpu/vec_wide.h"

#endif
