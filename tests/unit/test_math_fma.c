/* SPDX-License-Identifier: MIT
 *
 * test_math_fma.c: the software fma is rounded once: special values in all combinations, ties, subnormal results, overflow, and random
 * operands, against the C library's fmaf (hardware or exact by the C standard). tests/kernels/math_exhaustive has more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/fma.h"
#include "kernels/math_reference.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void check(float a, float b, float c)
{
    float got = esi_fmaf_soft(a, b, c), want = fmaf(a, b, c);
    if (!same_float(got, want)) fail_msg("fma(%a, %a, %a) = %a, not %a", (double)a, (double)b, (double)c, (double)got, (double)want);
    if (!same_float(esi_fmaf(a, b, c), want)) fail_msg("esi_fmaf(%a, %a, %a) is not %a", (double)a, (double)b, (double)c, (double)want);
}

/* An fp64 sum would lose the last part of the product, see the middle between two fp32 numbers and round it to the even one. */
static void known_double_rounding_cases(void **unused)
{
    (void)unused;
    /* 1 + 2^-23 + 2^-24 (1 - 2^-46) and 1 - 2^-24 - 2^-25 (1 - 2^-46) */
    assert_true(esi_fmaf_soft(0x1.000002p-12f, 0x1.fffffcp-13f, 0x1.000002p0f) == 0x1.000002p0f);
    assert_true(esi_fmaf_soft(0x1.000002p-12f, -0x1.fffffcp-14f, 0x1.fffffep-1f) == 0x1.fffffep-1f);
    assert_true(esi_fmaf_soft(0x1.000002p-12f, -0x1.fffffcp-13f, -0x1.000002p0f) == -0x1.000002p0f);
    /* three halves of the smallest number, and 2^-195 more or less than a half */
    assert_true(esi_fmaf_soft(0x1.000002p-75f, 0x1.fffffcp-76f, 0x1p-149f) == 0x1p-149f);
    assert_true(esi_fmaf_soft(0x1.000002p-75f, 0x1.fffffep-76f, 0x1p-149f) == 0x1p-148f);
    /* one half more than the largest number, and less */
    assert_true(isinf(esi_fmaf_soft(0x1.fffffep+127f, 1.0f, 0x1p+103f)));
    assert_true(esi_fmaf_soft(0x1.fffffep+127f, 1.0f, 0x1.fffffep+102f) == 0x1.fffffep+127f);
    check(0x1.fffffep-13f, 0x1.000002p-12f, 0x1p0f);
    check(0x1.fffffep-13f, 0x1.000002p-12f, -0x1p0f);
    check(0x1.000002p-64f, 0x1.fffffcp-63f, 0x1p-126f);
    check(0x1.000002p-75f, 0x1.000002p-75f, 0x1p-149f);
    check(-0x1.000002p-75f, 0x1p-75f, 0x1p-149f);
    check(0x1.fffffep+63f, 0x1.fffffep+63f, 0x1p+103f);
    check(0x1.fffffep+127f, 0x1p+0f, 0x1p+103f);
    check(0x1.fffffep+127f, 0x1p+0f, 0x1.fffffep+102f);
}

static void special_values_in_all_combinations(void **unused)
{
    static const float values[] = {0.0f,
                                   0x1p-149f,
                                   0x1.8p-148f,
                                   0x1.fffffcp-127f,
                                   0x1p-126f,
                                   0x1.000002p-126f,
                                   0x1p-102f,
                                   0x1p-75f,
                                   0x1.000002p-75f,
                                   0x1p-63f,
                                   0x1.fffffep-63f,
                                   0x1p-25f,
                                   0x1p-24f,
                                   0x1.000002p-24f,
                                   0x1p-23f,
                                   0.5f,
                                   0x1.fffffep-1f,
                                   1.0f,
                                   0x1.000002p0f,
                                   1.5f,
                                   0x1.fffffep0f,
                                   3.0f,
                                   0x1p24f,
                                   0x1p63f,
                                   0x1.fffffep63f,
                                   0x1p64f,
                                   0x1p103f,
                                   0x1p126f,
                                   0x1p127f,
                                   0x1.fffffep127f,
                                   INFINITY,
                                   NAN};
    (void)unused;
    for (size_t i = 0; i < COUNT(values); i++)
        for (size_t j = 0; j < COUNT(values); j++)
            for (size_t k = 0; k < COUNT(values); k++) {
                check(values[i], values[j], values[k]);
                check(-values[i], values[j], values[k]);
                check(values[i], values[j], -values[k]);
                check(-values[i], values[j], -values[k]);
            }
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

/* Exponent of x set to `biased`. */
static float with_exponent(uint32_t bits, uint32_t biased)
{
    return float_of_bits((bits & 0x807fffffu) | biased << 23);
}

static void random_operands(void **unused)
{
    uint64_t state = 2024;
    (void)unused;
    for (int i = 0; i < 400000; i++) {
        uint32_t r = next_random(&state), s = next_random(&state), t = next_random(&state), e = next_random(&state);
        float a = with_exponent(r, 127), b = with_exponent(s, 127 - (e & 3)), product = a * b;
        check(float_of_bits(r), float_of_bits(s), float_of_bits(t));
        check(a, b, with_exponent(t, 80 + e % 96));                                            /* every overlap of product and addend */
        check(a, b, float_of_bits(bits_of_float(-product) + (e >> 30)));                       /* cancellation */
        check(with_exponent(r, 40 + e % 32), with_exponent(s, 30), with_exponent(t, e >> 28)); /* subnormal results */
        /* half a last bit of the addend, plus or minus very little */
        check(with_exponent((r & 0x80000000u) | (e & 15), 127),
              with_exponent((s & 0x80000000u) | (0x800000u - 2 * (e & 15)), 102 - (e >> 31)), with_exponent(t, 127));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_double_rounding_cases), cmocka_unit_test(special_values_in_all_combinations),
                                       cmocka_unit_test(random_operands)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
