/* SPDX-License-Identifier: MIT
 *
 * math_reference.h: what the fp32 functions of vmath.h should give, from the C library's fp64 functions, and the measure of the error.
 *
 * Errors are in ulp of fp32 at the exact value y. The activations are measured against the larger of |y| and 2^-20 |x| (ARCHITECTURE.md,
 * "One arithmetic", rule 9), everything against at least 2^-40, below which a store gives 0.
 */
#ifndef MATH_REFERENCE_H
#define MATH_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MATH_FUNCTIONS 9      /* in the order of math_references and of math_instance.functions */

typedef struct math_reference {
    const char *name;
    double (*exact)(double x);
    bool relative_to_argument;
    double bound;             /* ulp; docs/math.md */
} math_reference;

static inline double reference_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
static inline double reference_silu(double x) { return x < -700.0 ? -0.0 : x / (1.0 + exp(-x)); }
static inline double reference_softplus(double x) { return x > 20.0 ? x : log1p(exp(x)); }
static inline double reference_relu(double x) { return x > 0.0 ? x : 0.0; }

static inline double reference_gelu_tanh(double x)
{
    double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
    if (x < -15.0) return -0.0;
    return x / (1.0 + exp(-2.0 * u));
}

static inline double reference_gelu_erf(double x)
{
    if (x < -40.0) return -0.0;
    return 0.5 * x * erfc(-0.70710678118654752440 * x);
}

static inline const math_reference *math_references(void)
{
    static const math_reference table[MATH_FUNCTIONS] = {
        {"exp", exp, false, 1.05},
        {"tanh", tanh, false, 1.5},
        {"erf", erf, false, 1.15},
        {"sigmoid", reference_sigmoid, true, 2.0},
        {"silu", reference_silu, true, 2.0},
        {"softplus", reference_softplus, true, 2.0},
        {"gelu_tanh", reference_gelu_tanh, true, 2.0},
        {"gelu_erf", reference_gelu_erf, true, 2.0},
        {"relu", reference_relu, false, 0.0},
    };
    return table;
}

static inline float float_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint32_t bits_of_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Equal bits, or both NaN. */
static inline bool same_float(float a, float b) { return bits_of_float(a) == bits_of_float(b) || (isnan(a) && isnan(b)); }

/* Is the error of f measured at x? Elsewhere (NaN, infinities, subnormal numbers) only NaN-ness is. */
static inline bool math_is_measured(float x) { return isfinite(x) && (x == 0.0f || fabsf(x) >= 0x1p-126f); }

/* One ulp of fp32 at size >= 2^-40. */
static inline double ulp_at(double size)
{
    uint64_t u;
    memcpy(&u, &size, sizeof u);
    u = (u & UINT64_C(0x7ff0000000000000)) - (UINT64_C(23) << 52);
    memcpy(&size, &u, sizeof size);
    return size;
}

/* Error of `got` when `exact` is right for the argument x; INFINITY for a wrong infinity or NaN. */
static inline double math_error_from(double exact, bool relative_to_argument, float x, float got)
{
    double size = fabs(exact);

    if (isnan(got) || isinf((float)exact) != isinf(got)) return (double)INFINITY;
    if (isinf(got)) return (got > 0.0f) == (exact > 0.0) ? 0.0 : (double)INFINITY;
    if (relative_to_argument && 0x1p-20 * fabs((double)x) > size) size = 0x1p-20 * fabs((double)x);
    if (size < 0x1p-40) size = 0x1p-40;
    return fabs((double)got - exact) / ulp_at(size);
}

static inline double math_error(const math_reference *f, float x, float got)
{
    return math_error_from(f->exact(x), f->relative_to_argument, x, got);
}

#endif
