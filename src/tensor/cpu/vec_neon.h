/* SPDX-License-Identifier: MIT
 *
 * vec_neon.h: the vector vocabulary of vec_scalar.h for aarch64, 4 lanes. Maximum and minimum are compare and select: the instructions
 * FMAX and FMIN treat NaN and signed zero in another way.
 */
#ifndef ESI_VEC_NEON_H
#define ESI_VEC_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define VF           float32x4_t
#define VI           uint32x4_t
#define VMASK        uint32x4_t
#define V_LANES      4
#define VM(name)     esi_v##name##_neon

static inline float32x4_t esi_neon_max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline float32x4_t esi_neon_min(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }

static inline float32x4_t esi_neon_load_n(const float *p, size_t n)
{
    float lanes[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t i = 0; i < n && i < 4; i++) lanes[i] = p[i];
    return vld1q_f32(lanes);
}

static inline void esi_neon_store_n(float *p, float32x4_t v, size_t n)
{
    float lanes[4];
    vst1q_f32(lanes, v);
    for (size_t i = 0; i < n && i < 4; i++) p[i] = lanes[i];
}

#define V_SET1(x)           vdupq_n_f32((float)(x))
#define V_ZERO()            vdupq_n_f32(0.0f)
#define VI_SET1(x)          vdupq_n_u32((uint32_t)(x))
#define V_ADD(a, b)         vaddq_f32(a, b)
#define V_SUB(a, b)         vsubq_f32(a, b)
#define V_MUL(a, b)         vmulq_f32(a, b)
#define V_DIV(a, b)         vdivq_f32(a, b)
#define V_SQRT(a)           vsqrtq_f32(a)
#define V_FMA(a, b, c)      vfmaq_f32(c, a, b)
#define V_LT(a, b)          vcltq_f32(a, b)
#define V_LE(a, b)          vcleq_f32(a, b)
#define V_GT(a, b)          vcgtq_f32(a, b)
#define V_GE(a, b)          vcgeq_f32(a, b)
#define V_EQ(a, b)          vceqq_f32(a, b)
#define V_SELECT(m, a, b)   vbslq_f32(m, a, b)
#define V_MAX(a, b)         esi_neon_max(a, b)
#define V_MIN(a, b)         esi_neon_min(a, b)
#define V_BITS(a)           vreinterpretq_u32_f32(a)
#define V_FROM_BITS(a)      vreinterpretq_f32_u32(a)
#define V_AND(a, b)         V_FROM_BITS(vandq_u32(V_BITS(a), V_BITS(b)))
#define V_OR(a, b)          V_FROM_BITS(vorrq_u32(V_BITS(a), V_BITS(b)))
#define V_XOR(a, b)         V_FROM_BITS(veorq_u32(V_BITS(a), V_BITS(b)))
#define V_ABS(a)            vabsq_f32(a)
#define V_NEG(a)            vnegq_f32(a)
#define V_COPYSIGN(a, b)    vbslq_f32(vdupq_n_u32(0x80000000u), b, a)
#define VI_ADD(a, b)        vaddq_u32(a, b)
#define VI_SUB(a, b)        vsubq_u32(a, b)
#define VI_AND(a, b)        vandq_u32(a, b)
#define VI_OR(a, b)         vorrq_u32(a, b)
#define VI_XOR(a, b)        veorq_u32(a, b)
#define VI_SHL(a, n)        vshlq_n_u32(a, n)
#define VI_SHR(a, n)        vshrq_n_u32(a, n)
#define V_FROM_INT(a)       vcvtq_f32_s32(vreinterpretq_s32_u32(a))
#define V_LOAD(p)           vld1q_f32(p)
#define V_STORE(p, v)       vst1q_f32(p, v)
#define V_LOAD_N(p, n)      esi_neon_load_n(p, n)
#define V_STORE_N(p, v, n)  esi_neon_store_n(p, v, n)
#define V_STORE_RULE(v)     V_FROM_BITS(vbicq_u32(V_BITS(v), V_LT(V_ABS(v), V_SET1(0x1p-40f))))

/* Lanes 4 to 1 by the tree: j + 2, j + 1. */
static inline float esi_neon_sum(float32x4_t v)
{
    float32x2_t s = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}

static inline float esi_neon_max_lane(float32x4_t v)
{
    float32x4_t s = esi_neon_max(v, vextq_f32(v, v, 2));
    s = esi_neon_max(s, vextq_f32(s, s, 1));
    return vgetq_lane_f32(s, 0);
}

#define ESI_VEC_REDUCE_DEFINED 1
#define V_REDUCE_SUM(w)     esi_neon_sum(V_ADD(V_ADD((w).part[0], (w).part[2]), V_ADD((w).part[1], (w).part[3])))
#define V_REDUCE_MAX(w)     esi_neon_max_lane(V_MAX(V_MAX((w).part[0], (w).part[2]), V_MAX((w).part[1], (w).part[3])))
#include "tensor/cpu/vec_wide.h"

#endif
