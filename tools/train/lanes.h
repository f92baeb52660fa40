/* SPDX-License-Identifier: MIT
 *
 * lanes.h: sixteen floats at a time, and dot products of bfloat16 pairs, for the trainer's kernels. A pair holds two neighbours of a sum
 * (the first in the low half), so one step adds two products to each of sixteen sums. With AVX-512 BF16 a step is one instruction, twice
 * the arithmetic of float; elsewhere the same numbers are made by plain C (up to the order of additions).
 */
#ifndef ESPALIER_TRAIN_LANES_H
#define ESPALIER_TRAIN_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

#if defined(__AVX512F__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include <immintrin.h>
typedef __m512 lanes;

static inline lanes lanes_set(float x) { return _mm512_set1_ps(x); }
static inline lanes lanes_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void lanes_store(float *p, lanes x) { _mm512_storeu_ps(p, x); }
static inline lanes lanes_add(lanes a, lanes b) { return _mm512_add_ps(a, b); }
static inline lanes lanes_sub(lanes a, lanes b) { return _mm512_sub_ps(a, b); }
static inline lanes lanes_mul(lanes a, lanes b) { return _mm512_mul_ps(a, b); }
static inline lanes lanes_div(lanes a, lanes b) { return _mm512_div_ps(a, b); }
static inline lanes lanes_fma(lanes a, lanes b, lanes c) { return _mm512_fmadd_ps(a, b, c); }
static inline lanes lanes_max(lanes a, lanes b) { return _mm512_max_ps(a, b); }
static inline lanes lanes_min(lanes a, lanes b) { return _mm512_min_ps(a, b); }
static inline float lanes_sum(lanes a) { return _mm512_reduce_add_ps(a); }
static inline float lanes_largest(lanes a) { return _mm512_reduce_max_ps(a); }
static inline lanes lanes_round(lanes a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline lanes lanes_scale(lanes a, lanes power) { return _mm512_scalef_ps(a, power); }

static inline lanes lanes_dot(lanes sum, const uint32_t *pairs, uint32_t pair)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_loadu_si512(pairs), (__m512bh)_mm512_set1_epi32((int32_t)pair));
}

/* Pairs of values that lie next to each other: 32 floats -> 16 pairs. */
static inline void pack_along(uint32_t *out, lanes low, lanes high)
{
    _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* Pairs of two rows: out[i] = (a[i], b[i]). */
static inline void pack_across(uint32_t *out, lanes a, lanes b)
{
    __m512i first = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(a));
    __m512i second = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(b));
    _mm512_storeu_si512(out, _mm512_or_si512(first, _mm512_slli_epi32(second, 16)));
}

#else
typedef struct lanes { float f[LANES]; } lanes;

#define LANES_MAKE(name, parameters, expression)                \
    static inline lanes name parameters                         \
    {                                                           \
        lanes r;                                                \
        for (int i = 0; i < LANES; i++)                         \
            r.f[i] = expression;                                \
        return r;                                               \
    }
LANES_MAKE(lanes_set, (float x), x)
LANES_MAKE(lanes_load, (const float *p), p[i])
LANES_MAKE(lanes_add, (lanes a, lanes b), a.f[i] + b.f[i])
LANES_MAKE(lanes_sub, (lanes a, lanes b), a.f[i] - b.f[i])
LANES_MAKE(lanes_mul, (lanes a, lanes b), a.f[i] * b.f[i])
LANES_MAKE(lanes_div, (lanes a, lanes b), a.f[i] / b.f[i])
LANES_MAKE(lanes_fma, (lanes a, lanes b, lanes c), a.f[i] * b.f[i] + c.f[i])
LANES_MAKE(lanes_max, (lanes a, lanes b), a.f[i] > b.f[i] ? a.f[i] : b.f[i])
LANES_MAKE(lanes_min, (lanes a, lanes b), a.f[i] < b.f[i] ? a.f[i] : b.f[i])
LANES_MAKE(lanes_round, (lanes a), rintf(a.f[i]))
LANES_MAKE(lanes_scale, (lanes a, lanes power), ldexpf(a.f[i], (int)power.f[i]))

static inline void lanes_store(float *p, lanes x) { memcpy(p, x.f, sizeof x.f); }

static inline float lanes_sum(lanes a)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += a.f[i];
    return sum;
}

static inline float lanes_largest(lanes a)
{
    float most = a.f[0];
    for (int i = 1; i < LANES; i++)
        most = a.f[i] > most ? a.f[i] : most;
    return most;
}

static inline float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline lanes lanes_dot(lanes sum, const uint32_t *pairs, uint32_t pair)
{
    const float low = from_bits(pair << 16), high = from_bits(pair & 0xffff0000u);
    for (int i = 0; i < LANES; i++)
        sum.f[i] += from_bits(pairs[i] << 16) * low + from_bits(pairs[i] & 0xffff0000u) * high;
    return sum;
}

static inline uint32_t bfloat16_bits(float value) /* round to nearest even, of a finite value */
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static inline void pack_along(uint32_t *out, lanes low, lanes high)
{
    for (int i = 0; i < LANES; i++) {
        const float *pair = i < LANES / 2 ? low.f + 2 * i : high.f + 2 * i - LANES;
        out[i] = bfloat16_bits(pair[0]) | bfloat16_bits(pair[1]) << 16;
    }
}

static inline void pack_across(uint32_t *out, lanes a, lanes b)
{
    for (int i = 0; i < LANES; i++)
        out[i] = bfloat16_bits(a.f[i]) | bfloat16_bits(b.f[i]) << 16;
}
#endif

/* e^x, x held in [-87, 80], to about 1e-6 of the value: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]. */
static inline lanes lanes_exp(lanes x)
{
    x = lanes_min(lanes_max(x, lanes_set(-87.0f)), lanes_set(80.0f));
    lanes n = lanes_round(lanes_mul(x, lanes_set(1.44269504f)));
    lanes r = lanes_fma(n, lanes_set(-0.693147181f), x), p = lanes_set(1.0f / 120);
    p = lanes_fma(p, r, lanes_set(1.0f / 24));
    p = lanes_fma(p, r, lanes_set(1.0f / 6));
    p = lanes_fma(p, r, lanes_set(0.5f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    return lanes_scale(p, n);
}

#endif
