/* SPDX-License-Identifier: MIT
 *
 * test_math_fp32.c: the definition (plain C) of the fp32 functions and activations in vmath.h: error bounds over a sample of all floats,
 * dense where formulas change, and the values at the ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tensor/cpu/vec_scalar.h"
#include "tensor/cpu/vmath.h"

#include "kernels/math_reference.h"

enum { EXP, TANH, ERF, SIGMOID, SILU, SOFTPLUS, GELU_TANH, GELU_ERF, RELU };

static float apply(int function, float x)
{
    switch (function) {
    case EXP:
        return VM(exp)(x);
    case TANH:
        return VM(tanh)(x);
    case ERF:
        return VM(erf)(x);
    case SIGMOID:
        return VM(sigmoid)(x);
    case SILU:
        return VM(silu)(x);
    case SOFTPLUS:
        return VM(softplus)(x);
    case GELU_TANH:
        return VM(gelu_tanh)(x);
    case GELU_ERF:
        return VM(gelu_erf)(x);
    default:
        return VM(relu)(x);
    }
}

static void check(int function, float x)
{
    const math_reference *f = &math_references()[function];
    float y = apply(function, x);
    double error;

    if (isnan(x)) {
        if (!isnan(y)) fail_msg("%s(NaN 0x%08x) = %a", f->name, (unsigned)bits_of_float(x), (double)y);
        return;
    }
    if (!math_is_measured(x)) {
        if (isnan(y)) fail_msg("%s(%a) is NaN", f->name, (double)x);
        return;
    }
    error = math_error(f, x, y);
    if (!(error <= f->bound))
        fail_msg("%s(%a = %.9g) = %a: %.3f ulp, bound %.3f", f->name, (double)x, (double)x, (double)y, error, f->bound);
}

/* Every 251st float where the functions are not trivial, every 40009th of all. */
static void errors_stay_within_the_bounds(void **unused)
{
    (void)unused;
    for (int f = 0; f < MATH_FUNCTIONS; f++) {
        for (uint32_t u = bits_of_float(0x1p-30f); u < bits_of_float(128.0f); u += 251) {
            check(f, float_of_bits(u));
            check(f, float_of_bits(u | 0x80000000u));
        }
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 40009) check(f, float_of_bits((uint32_t)u));
    }
}

/* All floats within 2000 of each place where a formula, clamp or exponent changes. */
static void errors_stay_within_the_bounds_at_seams(void **unused)
{
    static const float seams[] = {0x1p-126f, 0x1p-40f, 0x1p-27f, 0x1p-12f, 0x1.62e43p-2f, 0.5f,    0.55f,          0x1.62e43p-1f,
                                  0.9f,      1.0f,     4.0f,     5.75f,    8.0f,          9.01f,   10.0f,          13.0f,
                                  16.0f,     20.0f,    87.0f,    88.0f,    88.72283f,     0x1p64f, 0x1.fffffep127f};
    (void)unused;
    for (int f = 0; f < MATH_FUNCTIONS; f++)
        for (size_t i = 0; i < sizeof seams / sizeof seams[0]; i++)
            for (uint32_t k = 0; k < 4000; k++) {
                uint32_t u = bits_of_float(seams[i]) + k - 2000;
                check(f, float_of_bits(u));
                check(f, float_of_bits(u | 0x80000000u));
            }
}

static void values_at_the_ends(void **unused)
{
    static const struct {
        int function;
        float x, y;
    } cases[] = {{EXP, 0.0f, 1.0f},
                 {EXP, -0.0f, 1.0f},
                 {EXP, INFINITY, INFINITY},
                 {EXP, -INFINITY, 0.0f},
                 {EXP, 88.73f, INFINITY},
                 {EXP, -87.01f, 0.0f},
                 {EXP, 0x1.62e42ep+6f, 0x1.ffff08p+127f},
                 {TANH, INFINITY, 1.0f},
                 {TANH, -INFINITY, -1.0f},
                 {TANH, 0.0f, 0.0f},
                 {TANH, -30.0f, -1.0f},
                 {ERF, INFINITY, 1.0f},
                 {ERF, -INFINITY, -1.0f},
                 {ERF, 0.0f, 0.0f},
                 {SIGMOID, 0.0f, 0.5f},
                 {SIGMOID, INFINITY, 1.0f},
                 {SILU, INFINITY, INFINITY},
                 {SILU, 0.0f, 0.0f},
                 {SILU, 200.0f, 200.0f},
                 {SOFTPLUS, 20.000002f, 20.000002f},
                 {SOFTPLUS, INFINITY, INFINITY},
                 {SOFTPLUS, -INFINITY, 0.0f},
                 {GELU_TANH, INFINITY, INFINITY},
                 {GELU_TANH, 0.0f, 0.0f},
                 {GELU_TANH, 1e30f, 1e30f},
                 {GELU_ERF, INFINITY, INFINITY},
                 {GELU_ERF, 0.0f, 0.0f},
                 {GELU_ERF, 1e30f, 1e30f},
                 {RELU, -3.0f, 0.0f},
                 {RELU, 3.0f, 3.0f}};
    static const int to_zero[] = {SIGMOID, SILU, GELU_TANH, GELU_ERF};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float y = apply(cases[i].function, cases[i].x);
        if (y != cases[i].y)
            fail_msg("%s(%a) = %a, not %a", math_references()[cases[i].function].name, (double)cases[i].x, (double)y, (double)cases[i].y);
    }
    for (size_t i = 0; i < 4; i++) /* what a store keeps of the far negative side */
        for (float x = -100.0f; isfinite(x); x *= 10.0f)
            assert_true(V_STORE_RULE(apply(to_zero[i], x)) == 0.0f && V_STORE_RULE(apply(to_zero[i], -INFINITY)) == 0.0f);
}

/* No result between 0 and the smallest normal number: hardware that flushes it would differ. */
static void results_are_never_subnormal(void **unused)
{
    (void)unused;
    for (int f = 0; f < MATH_FUNCTIONS; f++)
        for (uint64_t u = bits_of_float(0x1p-40f); u < bits_of_float(INFINITY); u += 1009) {
            assert_true(fpclassify(apply(f, float_of_bits((uint32_t)u))) != FP_SUBNORMAL);
            assert_true(fpclassify(apply(f, -float_of_bits((uint32_t)u))) != FP_SUBNORMAL);
        }
}

/* The bits are the definition: a change of them is a new version of the arithmetic. */
static void bits_are_pinned(void **unused)
{
    static const uint64_t want[MATH_FUNCTIONS] = {UINT64_C(0x182868921b27c854), UINT64_C(0xad2e5a50c4fa3492), UINT64_C(0x555c2926b8b950cf),
                                                  UINT64_C(0x4bbab40f5789f68f), UINT64_C(0x54222c9718c4b7be), UINT64_C(0x7cabef5ed55defc3),
                                                  UINT64_C(0xf6acb5eb3011de76), UINT64_C(0xa72a842fd38486c2), UINT64_C(0x3b06a73b02dbdede)};
    (void)unused;
    for (int f = 0; f < MATH_FUNCTIONS; f++) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 32771) {
            float y = apply(f, float_of_bits((uint32_t)u));
            hash = (hash ^ (isnan(y) ? 0x7fc00000u : bits_of_float(y))) * UINT64_C(0x100000001b3);
        }
        if (hash != want[f]) fail_msg("%s: hash 0x%016llx", math_references()[f].name, (unsigned long long)hash);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_stay_within_the_bounds),
                                       cmocka_unit_test(errors_stay_within_the_bounds_at_seams), cmocka_unit_test(values_at_the_ends),
                                       cmocka_unit_test(results_are_never_subnormal), cmocka_unit_test(bits_are_pinned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
