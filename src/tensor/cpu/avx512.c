/* SPDX-License-Identifier: MIT
 *
 * avx512.c: kernels for x86-64 with AVX-512 F, BW, DQ and VL. 24 of the 32 registers hold a tile of 12 rows by 32 columns.
 */
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/vec_avx512.h"

#include <math.h>

#include "tensor/cpu/vmath.h"

#define X_NAME   esi_kernels_avx512
#define X_LEVEL  ESPALIER_CPU_AVX512
#define X_MR     12
#define X_NV     2
#define X_M_STEP 4
#define X_TILE_CASES X_TILE_CASE(4) X_TILE_CASE(8)

#define X_LOAD_F32(p)  _mm512_loadu_ps(p)
#define X_LOAD_F16(p)  _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define X_LOAD_BF16(p) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16))
#define X_LOAD_I8(p)   _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))

/* Pairs of rows, pairs of pairs within 128-bit lanes; then the lanes themselves. */
static inline void transpose16(__m512 r[16])
{
    __m512 t[16];

    V_UNROLL for (int i = 0; i < 16; i += 4) {
        __m512 a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        __m512 c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]), d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        t[i] = _mm512_shuffle_ps(a, c, 0x44);
        t[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        t[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        t[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    V_UNROLL for (int i = 0; i < 4; i++) {
        __m512 a = _mm512_shuffle_f32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_f32x4(t[i], t[i + 4], 0xdd);
        __m512 c = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0x88), d = _mm512_shuffle_f32x4(t[i + 8], t[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}
#define X_TRANSPOSE(r) transpose16(r)

#include "tensor/cpu/kernels_simd.h"
