/* SPDX-License-Identifier: MIT
 *
 * rng.c: the noise of torch.Generator on the CPU: MT19937 (Matsumoto and Nishimura 1998) and the Box-Muller draws of torch.rand and
 * torch.randn in float32, so that a seed means the same noise as in the reference (ATen CPU distributions). Logarithm, sine and cosine are
 * ours, rounded to float32 where PyTorch computes in float32; its vector polynomials differ from them by at most 3 ulp.
 */
#include "sample/sample.h"

#include "base/math64.h"

#include <math.h>

#define MT_SIZE      624
#define MT_SHIFT     397
#define NORMAL_BLOCK 16 /* randn transforms 8 pairs at a time */

#define PI 3.14159265358979323846

void esi_generator_seed(esi_generator *g, int64_t seed)
{
    uint32_t s = (uint32_t)(uint64_t)seed; /* of the 64 bits only the low 32 enter */

    memset(g, 0, sizeof *g);
    for (int i = 0; i < MT_SIZE; i++) {
        g->state[i] = s;
        s = 1812433253u * (s ^ (s >> 30)) + (uint32_t)(i + 1);
    }
    g->next = MT_SIZE;
}

static void twist(esi_generator *g)
{
    for (int i = 0; i < MT_SIZE; i++) {
        uint32_t y = (g->state[i] & 0x80000000u) | (g->state[(i + 1) % MT_SIZE] & 0x7fffffffu);
        g->state[i] = g->state[(i + MT_SHIFT) % MT_SIZE] ^ (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0u);
    }
    g->next = 0;
}

uint32_t esi_generator_u32(esi_generator *g)
{
    uint32_t y;

    if (g->next >= MT_SIZE) twist(g);
    y = g->state[g->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* Uniform in [0, 1) with 24 bits. */
static float uniform24(esi_generator *g)
{
    return (float)(esi_generator_u32(g) & 0xffffffu) * 0x1p-24f;
}

/* Uniform in [0, 1) with 53 bits; the high word is drawn first. */
static double uniform53(esi_generator *g)
{
    uint64_t high = esi_generator_u32(g);
    uint64_t bits = high << 32 | esi_generator_u32(g);

    return (double)(bits & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

void esi_generator_rand(esi_generator *g, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = uniform24(g);
}

/* 16 uniforms become 16 normals: d[j] and d[j + 8] are radius and angle of a pair. Every step is rounded to float32, as the reference's is.
 */
static void box_muller_block(float *d)
{
    const float two_pi = (float)(2.0 * PI);

    for (int j = 0; j < NORMAL_BLOCK / 2; j++) {
        float u1 = 1.0f - d[j]; /* in (0, 1]: the logarithm is finite */
        float log_u1 = (float)esi_ln((double)u1);
        float radius = (float)sqrt((double)(-2.0f * log_u1)); /* rounding the root twice gives the float root */
        float theta = two_pi * d[j + NORMAL_BLOCK / 2];
        d[j] = radius * (float)esi_cos((double)theta);
        d[j + NORMAL_BLOCK / 2] = radius * (float)esi_sin((double)theta);
    }
}

static void randn_blocks(esi_generator *g, float *out, size_t n)
{
    float *tail = out + n - NORMAL_BLOCK;

    for (size_t i = 0; i < n; i++) out[i] = uniform24(g);
    for (size_t i = 0; i + NORMAL_BLOCK <= n; i += NORMAL_BLOCK) box_muller_block(out + i);
    if (n % NORMAL_BLOCK == 0) return;
    /* A rest is filled by drawing the last 16 values anew, over some that were finished. */
    for (int j = 0; j < NORMAL_BLOCK; j++) tail[j] = uniform24(g);
    box_muller_block(tail);
}

/* One normal in double; the second of each pair waits for the next call. */
static double normal_double(esi_generator *g)
{
    double u1, u2, radius, theta;

    if (g->has_cached_normal) {
        g->has_cached_normal = false;
        return g->cached_normal;
    }
    u1 = uniform53(g);
    u2 = uniform53(g);
    radius = sqrt(-2.0 * esi_log1p(-u2));
    theta = 2.0 * PI * u1;
    g->cached_normal = radius * esi_sin(theta);
    g->has_cached_normal = true;
    return radius * esi_cos(theta);
}

void esi_generator_randn(esi_generator *g, float *out, size_t n)
{
    if (n >= NORMAL_BLOCK) {
        randn_blocks(g, out, n);
        return;
    }
    for (size_t i = 0; i < n; i++) out[i] = (float)normal_double(g);
}
