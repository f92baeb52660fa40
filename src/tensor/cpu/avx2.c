/* SPDX-License-Identifier: MIT
 *
 * avx2.c: kernels for x86-64 with AVX2, FMA and F16C. 12 of the 16 registers hold a tile of 6 rows by 16 columns.
 */
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/vec_avx2.h"

#include <math.h>

#include "tensor/cpu/vmath.h"

#define X_NAME   esi_kernels_avx2
#define X_LEVEL  ESPALIER_CPU_AVX2
#define X_MR     6
#define X_NV     2
#define X_M_STEP 2
#define X_TILE_CASES X_TILE_CASE(2) X_TILE_CASE(4)

#define X_LOAD_F32(p)  _mm256_loadu_ps((const float *)(const void *)(p))
#define X_LOAD_F16(p)  _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define X_LOAD_BF16(p) _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16))
#define X_LOAD_I8(p)   _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))))

static inline void transpose8(__m256 r[8])
{
    __m256 t[8];

    V_UNROLL for (int i = 0; i < 8; i += 4) {
        __m256 a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        __m256 c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm256_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    V_UNROLL for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
    }
}
#define X_TRANSPOSE(r) transpose8(r)

#include "tensor/cpu/kernels_simd.h"
