/* SPDX-License-Identifier: MIT
 *
 * neon.c: kernels for aarch64. 24 of the 32 registers hold a tile of 6 rows by 16 columns.
 */
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/vec_neon.h"

#include <math.h>

#include "tensor/cpu/vmath.h"

#define X_NAME   esi_kernels_neon
#define X_LEVEL  ESPALIER_CPU_NEON
#define X_MR     6
#define X_NV     4
#define X_M_STEP 2
#define X_TILE_CASES X_TILE_CASE(2) X_TILE_CASE(4)

static inline float32x4_t load_f32(const uint8_t *p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }

static inline float32x4_t load_f16(const uint8_t *p) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))); }

static inline float32x4_t load_bf16(const uint8_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16)); }

static inline float32x4_t load_i8(const uint8_t *p)
{
    int8_t v[8] = {(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]};
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(v)))));
}

#define X_LOAD_F32(p)  load_f32(p)
#define X_LOAD_F16(p)  load_f16(p)
#define X_LOAD_BF16(p) load_bf16(p)
#define X_LOAD_I8(p)   load_i8(p)

static inline void transpose4(float32x4_t r[4])
{
    float32x4_t a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]), c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);
    float64x2_t ad = vreinterpretq_f64_f32(a), bd = vreinterpretq_f64_f32(b), cd = vreinterpretq_f64_f32(c), dd = vreinterpretq_f64_f32(d);

    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(ad, cd));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(bd, dd));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(ad, cd));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(bd, dd));
}
#define X_TRANSPOSE(r) transpose4(r)

#include "tensor/cpu/kernels_simd.h"
