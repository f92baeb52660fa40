/* SPDX-License-Identifier: MIT
 *
 * vmath.h: the fp32 elementary functions and activations of the kernels, one definition for every instance. Include after one vec_*.h.
 * Each lane does the same operations in the same order everywhere, so the results are the same bits (ARCHITECTURE.md, "One arithmetic",
 * rule 9). docs/math.md has the measured error bounds; the polynomials are our own weighted minimax fits, coefficients rounded
 * to fp32 one after the other with the rest refitted.
 *
 * Rules inside: no conversion of a float that could be NaN or out of range; NaN in, NaN out (of any payload); no step may give a subnormal
 * number for arguments the kernels can see (0 or 2^-126 <= |x|), because some hardware flushes them: exp() is 0 for x < -87.
 */
#ifndef ESI_VMATH_H
#define ESI_VMATH_H

#include <math.h>

#define ESI_EXP_ZERO_BELOW  (-87.0f)          /* e^-87 = 1.6e-38 is a normal number */
#define ESI_EXP_FINITE_MAX  0x1.62e42ep+6f    /* 88.72283: above it e^x overflows */

/* e^r - 1 for |r| <= ln(2) / 2. */
static inline VF VM(expm1_core)(VF r)
{
    VF q = V_SET1(0x1.6a4d60p-10f);

    q = V_FMA(q, r, V_SET1(0x1.12398ep-7f));
    q = V_FMA(q, r, V_SET1(0x1.5558b0p-5f));
    q = V_FMA(q, r, V_SET1(0x1.555492p-3f));
    q = V_FMA(q, r, V_SET1(0x1.fffffcp-2f));
    return V_FMA(V_MUL(r, r), q, r);
}

/* 2^n * e^r; shifted = n + 1.5 * 2^23 as a float, whose low bits are n. The exponent is added as an integer, so 2^n itself need not be
 * representable. */
static inline VF VM(exp_scaled)(VF r, VF shifted)
{
    VF p = V_ADD(VM(expm1_core)(r), V_SET1(1.0f));
    return V_FROM_BITS(VI_ADD(V_BITS(p), VI_SHL(V_BITS(shifted), 23)));
}

/* Cody and Waite: x = n ln 2 + r; the high part of ln 2 has 15 bits, so the first step is exact. */
#define ESI_EXP_REDUCE(x, shifted, r) \
    do { \
        VF exp_n; \
        (shifted) = V_FMA(x, V_SET1(0x1.715476p+0f), V_SET1(0x1.8p+23f)); \
        exp_n = V_SUB(shifted, V_SET1(0x1.8p+23f)); \
        (r) = V_FMA(exp_n, V_SET1(-0x1.62e4p-1f), x); \
        (r) = V_FMA(exp_n, V_SET1(-0x1.7f7d1cp-20f), r); \
    } while (0)

/* Results for arguments outside the range of the reduction; a NaN fails the first comparison and stays NaN. */
static inline VF VM(exp_ends)(VF x, VF y)
{
    y = V_SELECT(V_LE(x, V_SET1(ESI_EXP_FINITE_MAX)), y, V_ADD(x, V_SET1(HUGE_VALF)));
    return V_SELECT(V_LT(x, V_SET1(ESI_EXP_ZERO_BELOW)), V_ZERO(), y);
}

/* e^x; 0 below -87. */
static inline VF VM(exp)(VF x)
{
    VF shifted, r;

    ESI_EXP_REDUCE(x, shifted, r);
    return VM(exp_ends)(x, VM(exp_scaled)(r, shifted));
}

/* e^(x + low), |low| tiny against 1: for arguments that one fp32 number cannot hold well enough. */
static inline VF VM(exp_sum)(VF x, VF low)
{
    VF shifted, r;

    ESI_EXP_REDUCE(x, shifted, r);
    return VM(exp_ends)(x, VM(exp_scaled)(V_ADD(r, low), shifted));
}

/* e^(x + low) = returned value + *rest, for 0 <= x <= 84.5 (or NaN: then the returned value means nothing). */
static inline VF VM(exp_pair)(VF x, VF low, VF *rest)
{
    VF one = V_SET1(1.0f);
    VF shifted, r, t, p;

    ESI_EXP_REDUCE(x, shifted, r);
    t = VM(expm1_core)(V_ADD(r, low));
    p = V_ADD(t, one);
    *rest = V_MUL(V_ADD(V_SUB(one, p), t), V_FROM_BITS(VI_ADD(V_BITS(one), VI_SHL(V_BITS(shifted), 23))));
    return V_FROM_BITS(VI_ADD(V_BITS(p), VI_SHL(V_BITS(shifted), 23)));
}

/* ln(1 + e) for 0 <= e <= 1: s = e / (2 + e), ln(1 + e) = 2 atanh(s), written so that e enters exactly and s only in the correction. */
static inline VF VM(log1p_unit)(VF e)
{
    VF s = V_DIV(e, V_ADD(e, V_SET1(2.0f)));
    VF z = V_MUL(s, s);
    VF half = V_MUL(V_MUL(e, V_SET1(0.5f)), e);
    VF p = V_SET1(0x1.f08b38p-3f);

    p = V_FMA(p, z, V_SET1(0x1.b72bb2p-3f));
    p = V_FMA(p, z, V_SET1(0x1.250510p-2f));
    p = V_FMA(p, z, V_SET1(0x1.9996d8p-2f));
    p = V_FMA(p, z, V_SET1(0x1.555558p-1f));
    return V_SUB(e, V_SUB(half, V_MUL(s, V_FMA(z, p, half))));
}

/* tanh: odd polynomial below 0.55, above it 1 - 2 / (e^2|x| + 1). */
static inline VF VM(tanh)(VF x)
{
    VF a = V_ABS(x);
    VF z = V_MUL(x, x);
    VF p = V_SET1(-0x1.99565ep-8f);
    VF near_zero, far;

    p = V_FMA(p, z, V_SET1(0x1.58ec78p-6f));
    p = V_FMA(p, z, V_SET1(-0x1.b91f22p-5f));
    p = V_FMA(p, z, V_SET1(0x1.110cf0p-3f));
    p = V_FMA(p, z, V_SET1(-0x1.55554ap-2f));
    near_zero = V_FMA(V_MUL(x, z), p, x);
    far = V_SUB(V_SET1(1.0f), V_DIV(V_SET1(2.0f), V_ADD(VM(exp)(V_ADD(a, a)), V_SET1(1.0f))));
    return V_SELECT(V_LT(a, V_SET1(0.55f)), near_zero, V_COPYSIGN(far, x));
}

/* erf: odd polynomial below 0.9, above it 1 - e^g(|x|), where g approximates ln(erfc) on [0.9, 4]. */
static inline VF VM(erf)(VF x)
{
    VF a = V_ABS(x);
    VF t = V_MIN(V_SET1(4.0f), a);
    VF z = V_MUL(x, x);
    VF p = V_SET1(0x1.4d2864p-14f);
    VF g = V_SET1(0x1.9fb3f4p-13f);
    VF near_zero, far;

    p = V_FMA(p, z, V_SET1(-0x1.a583bcp-11f));
    p = V_FMA(p, z, V_SET1(0x1.543f2ap-8f));
    p = V_FMA(p, z, V_SET1(-0x1.b80062p-6f));
    p = V_FMA(p, z, V_SET1(0x1.ce2d60p-4f));
    p = V_FMA(p, z, V_SET1(-0x1.812740p-2f));
    p = V_FMA(p, z, V_SET1(0x1.06eba8p-3f));
    near_zero = V_FMA(x, p, x);
    g = V_FMA(g, t, V_SET1(-0x1.91cd60p-9f));
    g = V_FMA(g, t, V_SET1(0x1.6d9cf4p-6f));
    g = V_FMA(g, t, V_SET1(-0x1.aa7326p-4f));
    g = V_FMA(g, t, V_SET1(-0x1.4621bap-1f));
    g = V_FMA(g, t, V_SET1(-0x1.20b752p+0f));
    g = V_FMA(g, t, V_SET1(-0x1.5d10ccp-13f));
    far = V_SUB(V_SET1(1.0f), VM(exp)(g));
    return V_SELECT(V_LT(a, V_SET1(0.9f)), near_zero, V_COPYSIGN(far, x));
}

/* max(x, 0) */
static inline VF VM(relu)(VF x) { return V_SELECT(V_LT(x, V_ZERO()), V_ZERO(), x); }

/* 1 / (1 + e^-x). Below -87 the result is the one at -87, 1.6e-38: the smallest whose reciprocal is no subnormal, and a store makes it
 * 0. */
static inline VF VM(sigmoid)(VF x)
{
    VF bounded = V_MAX(V_SET1(-87.0f), x);
    return V_DIV(V_SET1(1.0f), V_ADD(VM(exp)(V_NEG(bounded)), V_SET1(1.0f)));
}

/* x / (1 + e^-x). Below -88 the result is the one at -88, -5.3e-37, which a store makes 0. */
static inline VF VM(silu)(VF x)
{
    VF bounded = V_MAX(V_SET1(-88.0f), x);
    return V_DIV(bounded, V_ADD(VM(exp)(V_NEG(bounded)), V_SET1(1.0f)));
}

/* x > 20 ? x : ln(1 + e^x) */
static inline VF VM(softplus)(VF x)
{
    VF tail = VM(log1p_unit)(VM(exp)(V_NEG(V_ABS(x))));
    return V_SELECT(V_GT(x, V_SET1(20.0f)), x, V_ADD(V_MAX(x, V_ZERO()), tail));
}

/* GELU, tanh form: 0.5 x (1 + tanh(u)) = x / (1 + e^v), v = -2u = x (c1 + c2 x^2), c1 = -2 sqrt(2 / pi), c2 = 0.044715 c1.
 * An error of v is a relative error of the small results, so v is kept as a sum of two fp32 numbers. Below -10 the result is the one at
 * -10, -1.2e-37, which a store makes 0. */
static inline VF VM(gelu_tanh)(VF x)
{
    VF bounded = V_MAX(V_SET1(-10.0f), x);
    VF t = V_MIN(V_SET1(10.0f), bounded);
    VF z = V_MUL(t, t);
    VF z_low = V_FMA(t, t, V_NEG(z));
    VF c2 = V_SET1(-0x1.2444f2p-4f);
    VF m = V_MUL(c2, z);
    VF m_low = V_FMA(c2, z, V_NEG(m));
    VF w = V_ADD(V_SET1(-0x1.988454p+0f), m);
    VF w_low = V_ADD(V_SUB(V_SET1(-0x1.988454p+0f), w), m);
    VF v = V_MUL(t, w);
    VF v_low = V_FMA(t, w, V_NEG(v));

    m_low = V_FMA(c2, z_low, m_low);
    m_low = V_FMA(V_SET1(-0x1.49b16ap-29f), z, m_low);
    w_low = V_ADD(w_low, V_ADD(m_low, V_SET1(0x1.857936p-25f)));
    v_low = V_FMA(t, w_low, v_low);
    return V_DIV(bounded, V_ADD(VM(exp_sum)(v, v_low), V_SET1(1.0f)));
}

/* GELU, erf form: x Phi(x). Up to |x| = 0.5: x (1/2 + x P(x^2)). Beyond, with a = |x|, 1 / Phi(-a) = e^(a^2 / 2) M(a) where M, the inverse
 * of half the scaled complementary error function, is nearly straight: M(a) = 1 + 39/16 a + C(a - 3), C small, constant from 5.75 on.
 * a^2 / 2, its exponential and M are kept as sums of two fp32 numbers. x Phi(x) = max(x, 0) - a Phi(-a). */
static inline VF VM(gelu_erf)(VF x)
{
    VF a = V_MIN(V_SET1(13.0f), V_ABS(x));
    VF half = V_MUL(V_SET1(0.5f), a);
    VF v = V_MUL(half, a);
    VF v_low = V_FMA(half, a, V_NEG(v));
    VF e_low;
    VF e = VM(exp_pair)(v, v_low, &e_low);
    VF line = V_FMA(V_SET1(2.4375f), a, V_SET1(1.0f));
    VF line_low = V_FMA(V_SET1(2.4375f), a, V_SUB(V_SET1(1.0f), line));
    VF u = V_SUB(V_MIN(V_SET1(5.75f), a), V_SET1(3.0f));
    VF c = V_SET1(0x1.b2307ep-28f);
    VF p = V_SET1(-0x1.264cdap-10f);
    VF z = V_MUL(x, x);
    VF m, m_low, far;

    c = V_FMA(c, u, V_SET1(-0x1.315b6ep-25f));
    c = V_FMA(c, u, V_SET1(0x1.2de7eep-24f));
    c = V_FMA(c, u, V_SET1(0x1.df0ac6p-26f));
    c = V_FMA(c, u, V_SET1(-0x1.53ca52p-19f));
    c = V_FMA(c, u, V_SET1(0x1.e4bf3ap-16f));
    c = V_FMA(c, u, V_SET1(-0x1.d3b920p-13f));
    c = V_FMA(c, u, V_SET1(0x1.73d2ecp-10f));
    c = V_FMA(c, u, V_SET1(-0x1.032552p-7f));
    c = V_FMA(c, u, V_SET1(0x1.431d06p-5f));
    c = V_FMA(c, u, V_SET1(-0x1.b94adep-4f));
    c = V_FMA(c, u, V_SET1(-0x1.53ef80p-4f));
    m = V_ADD(line, c);
    m_low = V_ADD(V_ADD(V_SUB(line, m), c), line_low);
    far = V_SUB(V_MAX(x, V_ZERO()), V_DIV(a, V_FMA(e, m, V_FMA(e, m_low, V_MUL(e_low, m)))));
    p = V_FMA(p, z, V_SET1(0x1.4667d2p-7f));
    p = V_FMA(p, z, V_SET1(-0x1.105744p-4f));
    p = V_FMA(p, z, V_SET1(0x1.988452p-2f));
    return V_SELECT(V_LT(a, V_SET1(0.5f)), V_FMA(z, p, V_MUL(V_SET1(0.5f), x)), far);
}

#endif
