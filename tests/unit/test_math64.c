/* SPDX-License-Identifier: MIT
 *
 * test_math64.c: the fp64 functions of math64.h against the C library's long double functions, in ulp, and the special values of C.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/math64.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Long double is wider than double on x86 and on most 64-bit systems; where it is no wider the reference has an error of its own. Where it
 * is emulated it is slow. */
#if LDBL_MANT_DIG == 64
#define SAMPLES 100000
#define SLACK   0.001
#elif LDBL_MANT_DIG > 64
#define SAMPLES 4000
#define SLACK   0.001
#else
#define SAMPLES 100000
#define SLACK   1.0
#endif

static double next_uniform(uint64_t *state, double low, double high)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return low + (high - low) * ((double)(*state >> 11) * 0x1p-53);
}

/* Random sign, exponent uniform. */
static double next_scaled(uint64_t *state, double low, double high)
{
    double size = exp2(next_uniform(state, low, high));
    return next_uniform(state, -1.0, 1.0) < 0.0 ? -size : size;
}

static double ulps(double got, long double want)
{
    int exponent;
    long double size = fabsl(want);

    if (isnan(got) || isnan(want)) return isnan(got) && isnan(want) ? 0.0 : (double)INFINITY;
    if (isinf((double)want) || isinf(got)) return (double)want == got ? 0.0 : (double)INFINITY;
    if (size < 0x1p-1022L) size = 0x1p-1022L;
    (void)frexpl(size, &exponent);
    return (double)ldexpl(fabsl((long double)got - want), 53 - exponent);
}

static bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* ------------------------------------------------------------------ accuracy */

typedef enum argument_kind { UNIFORM, SCALED, POSITIVE, NEAR_ONE } argument_kind;

typedef struct accuracy_case {
    const char *name;
    double (*function)(double);
    long double (*exact)(long double);
    argument_kind kind;
    double low, high;
    double bound;
} accuracy_case;

static double next_argument(uint64_t *state, const accuracy_case *c)
{
    switch (c->kind) {
    case UNIFORM:
        return next_uniform(state, c->low, c->high);
    case SCALED:
        return next_scaled(state, c->low, c->high);
    case POSITIVE:
        return fabs(next_scaled(state, c->low, c->high));
    default:
        return 1.0 + next_scaled(state, c->low, c->high);
    }
}

static void unary_functions_are_accurate(void **unused)
{
    static const accuracy_case cases[] = {
        {"exp", esi_exp, expl, UNIFORM, -708.0, 709.7, 0.65},
        {"exp, subnormal", esi_exp, expl, UNIFORM, -745.1, -708.0, 0.8},
        {"exp, small", esi_exp, expl, SCALED, -60.0, 3.0, 0.65},
        {"ln", esi_ln, logl, POSITIVE, -1074.0, 1023.9, 0.9},
        {"ln, near 1", esi_ln, logl, UNIFORM, 0.5, 2.0, 0.9},
        {"ln, very near 1", esi_ln, logl, NEAR_ONE, -50.0, -2.0, 0.9},
        {"log1p", esi_log1p, log1pl, UNIFORM, -0.999, 3.0, 0.9},
        {"log1p, small", esi_log1p, log1pl, SCALED, -70.0, -0.01, 0.9},
        {"log1p, large", esi_log1p, log1pl, POSITIVE, 0.0, 1023.9, 0.9},
        {"sin", esi_sin, sinl, UNIFORM, -10.0, 10.0, 0.85},
        {"sin, small", esi_sin, sinl, SCALED, -40.0, 0.0, 0.85},
        {"sin, to 1e6", esi_sin, sinl, UNIFORM, -1e6, 1e6, 0.85},
        {"sin, large", esi_sin, sinl, SCALED, 20.0, 60.0, 0.85},
        {"cos", esi_cos, cosl, UNIFORM, -10.0, 10.0, 0.85},
        {"cos, to 1e6", esi_cos, cosl, UNIFORM, -1e6, 1e6, 0.85},
        {"cos, large", esi_cos, cosl, SCALED, 20.0, 60.0, 0.85},
        {"tan", esi_tan, tanl, UNIFORM, -10.0, 10.0, 0.95},
        {"tan, small", esi_tan, tanl, SCALED, -40.0, 0.0, 0.95},
        {"tan, to 1e6", esi_tan, tanl, UNIFORM, -1e6, 1e6, 0.95},
        {"asin", esi_asin, asinl, UNIFORM, -1.0, 1.0, 0.52},
        {"asin, small", esi_asin, asinl, SCALED, -40.0, 0.0, 0.52},
        {"acos", esi_acos, acosl, UNIFORM, -1.0, 1.0, 0.52},
        {"acos, small", esi_acos, acosl, SCALED, -80.0, 0.0, 0.52},
        {"atan", esi_atan, atanl, SCALED, -5.0, 5.0, 0.52},
        {"atan, all", esi_atan, atanl, SCALED, -1070.0, 1023.0, 0.52},
        {"cbrt", esi_cbrt, cbrtl, UNIFORM, -10.0, 10.0, 0.52},
        {"cbrt, all", esi_cbrt, cbrtl, SCALED, -1074.0, 1023.9, 0.52},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const accuracy_case *c = &cases[i];
        uint64_t state = UINT64_C(0x9e3779b97f4a7c15) + i;
        double worst = 0.0, worst_at = 0.0;
        for (int k = 0; k < SAMPLES; k++) {
            double x = next_argument(&state, c);
            double error = ulps(c->function(x), c->exact(x));
            if (error <= worst) continue;
            worst = error;
            worst_at = x;
        }
        if (!(worst <= c->bound + SLACK)) fail_msg("%s: %.4f ulp at %a (%.17g)", c->name, worst, worst_at, worst_at);
    }
}

static void near_ends_of_range_are_accurate(void **unused)
{
    uint64_t state = 7;
    (void)unused;
    for (int i = 0; i < SAMPLES; i++) {
        double k = floor(next_uniform(&state, 0.0, 600000.0));
        double near_zero = (double)((long double)k * 1.57079632679489661923132169163975144L);
        double near_one = 1.0 - fabs(next_scaled(&state, -53.0, -1.0));
        double s = esi_sin(near_zero), c = esi_cos(near_zero);
        assert_true(ulps(s, sinl(near_zero)) < 0.85 + SLACK || fabs(s) < 1e-9); /* x87 argument reduction is no reference there */
        assert_true(ulps(c, cosl(near_zero)) < 0.85 + SLACK || fabs(c) < 1e-9);
        assert_true(ulps(esi_acos(near_one), acosl(near_one)) < 0.52 + SLACK);
        assert_true(ulps(esi_asin(-near_one), asinl(-near_one)) < 0.52 + SLACK);
    }
}

/* Values of an independent computation with integers of 1500 bits: the double next to a multiple of pi/2, an exponent at every word
 * boundary and the largest number. */
static void huge_angles_are_reduced_exactly(void **unused)
{
    static const struct {
        double x, sine, cosine;
    } cases[] = {
        {0x1.6ac5b262ca1ffp+849, 0x1.0000000000000p+0, -0x1.14ae72e6ba22fp-61},
        {0x1.fffffffffffffp+1023, 0x1.452fc98b34e97p-8, -0x1.fffe62ecfab75p-1},
        {0x1.0f0cf064dd592p+73, -0x1.b453ab76bf397p-1, 0x1.0be2cef01c8f4p-1},
        {0x1.e848080000000p+19, -0x1.b7bbd56f648b8p-4, 0x1.fd0a79db83ee8p-1},
        {0x1.0000000000004p+20, 0x1.526ccb3ee23c3p-2, 0x1.e33ada9059515p-1},
        {0x1.c6bf526340000p+49, 0x1.b76f88136cebap-1, -0x1.06c154609d33fp-1},
        {0x1.921fb54442d18p+30, -0x1.1a62633145c03p-24, 0x1.fffffffffffedp-1},
        {0x1.0d80000000001p+54, 0x1.221caba623d8ep-1, -0x1.a5e02804b91b6p-1},
        {0x1.0dc0000000001p+55, -0x1.91c256ae5e48ap-2, 0x1.d6f2850861b54p-1},
        {0x1.0e00000000001p+56, 0x1.6e2e6191591d4p-1, 0x1.65d924b9b102ep-1},
        {0x1.0e40000000001p+57, -0x1.fe056b77acae5p-1, 0x1.67c4ee838c8b8p-4},
        {0x1.1540000000001p+85, 0x1.2d1c9c3308bb0p-3, 0x1.fa6f91624323cp-1},
        {0x1.1580000000001p+86, -0x1.b336085626877p-1, -0x1.0db1e3c2998f3p-1},
        {0x1.15c0000000001p+87, -0x1.4e032edf91ee2p-2, -0x1.e3ff2fb63454ep-1},
        {0x1.1d40000000001p+117, 0x1.ffc728bc4fcf6p-1, 0x1.e27650f08d251p-6},
        {0x1.1d80000000001p+118, 0x1.d3be702d98ff6p-1, -0x1.a075a6d1cae17p-2},
        {0x1.2540000000001p+149, 0x1.0c3a013302328p-1, -0x1.b41e168cbb19bp-1},
        {0x1.2580000000001p+150, 0x1.80582aaf5ca43p-1, -0x1.5243e7998f55bp-1},
        {0x1.7d00000000001p+500, -0x1.59b22667dca56p-2, -0x1.e1f10494c3e24p-1},
        {0x1.8540000000001p+533, -0x1.676bfb83c5d6cp-4, -0x1.fe0666531e1f1p-1},
        {0x1.8d40000000001p+565, -0x1.05b4dbf5aa28dp-1, 0x1.b80fa038af06fp-1},
        {0x1.9540000000001p+597, 0x1.febd707802151p-1, 0x1.1f2ec7d920f51p-4},
        {0x1.f280000000001p+970, -0x1.1f59017a2b0e7p-1, -0x1.a7c365daff803p-1},
        {0x1.fa00000000001p+1000, -0x1.fa2632f947f3ap-1, -0x1.34b9c69b3f36fp-3},
        {0x1.ffc0000000001p+1023, -0x1.c95ee759c4139p-2, -0x1.ca173231ecf98p-1},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (ulps(esi_sin(cases[i].x), cases[i].sine) > 1.0)
            fail_msg("sin(%a) = %a, not %a", cases[i].x, esi_sin(cases[i].x), cases[i].sine);
        if (ulps(esi_cos(cases[i].x), cases[i].cosine) > 1.0)
            fail_msg("cos(%a) = %a, not %a", cases[i].x, esi_cos(cases[i].x), cases[i].cosine);
        assert_true(same_double(esi_sin(-cases[i].x), -esi_sin(cases[i].x)));
        assert_true(same_double(esi_cos(-cases[i].x), esi_cos(cases[i].x)));
    }
}

static void power_and_angle_are_accurate(void **unused)
{
    uint64_t state = 3;
    (void)unused;
    for (int i = 0; i < SAMPLES; i++) {
        double y = next_scaled(&state, -10.0, 8.0), x = fabs(next_scaled(&state, -10.0, 10.0));
        double near_one = 1.0 + next_scaled(&state, -50.0, -3.0), large = next_scaled(&state, 0.0, 50.0);
        double whole = floor(next_uniform(&state, -20.0, 20.0));
        double a = next_scaled(&state, -20.0, 20.0), b = next_scaled(&state, -20.0, 20.0);
        double shift = next_uniform(&state, -1060.0, 1010.0);
        double c = next_scaled(&state, shift - 3.0, shift + 3.0), d = next_scaled(&state, shift - 3.0, shift + 3.0);
        assert_true(ulps(esi_pow(x, y), powl(x, y)) < 0.8 + SLACK);
        assert_true(ulps(esi_pow(near_one, large), powl(near_one, large)) < 0.8 + SLACK);
        assert_true(ulps(esi_pow(-x, whole), powl(-x, whole)) < 0.8 + SLACK);
        assert_true(ulps(esi_pow(x, 1.0 / 2.4), powl(x, 1.0 / 2.4)) < 0.8 + SLACK);
        assert_true(ulps(esi_atan2(a, b), atan2l(a, b)) < 0.52 + SLACK);
        assert_true(ulps(esi_atan2(c, d), atan2l(c, d)) < 0.52 + SLACK);
    }
}

/* ------------------------------------------------------------- special values */

static const double special[] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 -0.5,
                                 1.5,
                                 2.5,
                                 -2.5,
                                 -0.3,
                                 0.3,
                                 2.0,
                                 -2.0,
                                 3.0,
                                 -3.0,
                                 (double)INFINITY,
                                 -(double)INFINITY,
                                 (double)NAN,
                                 0x1p52,
                                 0x1p52 + 1.0,
                                 0x1p51 + 0.5,
                                 -0x1p51 - 0.5,
                                 -0x1p53 - 2.0,
                                 1e300,
                                 -1e300,
                                 5e-324,
                                 -5e-324,
                                 710.0,
                                 -746.0,
                                 0x1.fffffffffffffp1023,
                                 0x1p-1022,
                                 0.49999999999999994,
                                 -0.49999999999999994,
                                 9007199254740991.0,
                                 -9007199254740991.0};
#define N_SPECIAL (sizeof special / sizeof special[0])

/* Zeros, infinities and NaN as the C library has them, sign included; other values within an ulp. */
static bool agrees(double got, double want)
{
    if (want == 0.0 || isinf(want) || isnan(want)) return same_double(got, want);
    return ulps(got, want) <= 1.0 && signbit(got) == signbit(want);
}

static void special_values_follow_c(void **unused)
{
    static const struct {
        const char *name;
        double (*function)(double), (*standard)(double);
    } pairs[] = {{"exp", esi_exp, exp},    {"ln", esi_ln, log},     {"log1p", esi_log1p, log1p}, {"sin", esi_sin, sin},
                 {"cos", esi_cos, cos},    {"tan", esi_tan, tan},   {"asin", esi_asin, asin},    {"acos", esi_acos, acos},
                 {"atan", esi_atan, atan}, {"cbrt", esi_cbrt, cbrt}};
    (void)unused;
    for (size_t i = 0; i < N_SPECIAL; i++) {
        double x = special[i];
        for (size_t f = 0; f < sizeof pairs / sizeof pairs[0]; f++)
            if (!agrees(pairs[f].function(x), pairs[f].standard(x)))
                fail_msg("%s(%a) = %a, not %a", pairs[f].name, x, pairs[f].function(x), pairs[f].standard(x));
        for (size_t j = 0; j < N_SPECIAL; j++) {
            double y = special[j];
            if (!agrees(esi_pow(x, y), pow(x, y))) fail_msg("pow(%a, %a) = %a, not %a", x, y, esi_pow(x, y), pow(x, y));
            if (!agrees(esi_atan2(x, y), atan2(x, y))) fail_msg("atan2(%a, %a) = %a, not %a", x, y, esi_atan2(x, y), atan2(x, y));
        }
    }
}

static void rounding_is_exact(void **unused)
{
    uint64_t state = 5;
    (void)unused;
    for (size_t i = 0; i < N_SPECIAL + 100000; i++) {
        double x = i < N_SPECIAL ? special[i] : next_scaled(&state, -3.0, 54.0);
        if (i % 3 == 0) x = floor(x * 2.0) * 0.5;
        assert_true(same_double(esi_floor(x), floor(x)));
        assert_true(same_double(esi_ceil(x), ceil(x)));
        assert_true(same_double(esi_trunc(x), trunc(x)));
        assert_true(same_double(esi_round_half_even(x), nearbyint(x)));
        assert_true(same_double(esi_fabs(x), fabs(x)));
    }
}

/* Exact cases that geometry and schedules lean on. */
static void exact_cases(void **unused)
{
    (void)unused;
    assert_true(same_double(esi_exp(0.0), 1.0) && same_double(esi_ln(1.0), 0.0) && same_double(esi_pow(10.0, 3.0), 1000.0));
    assert_true(same_double(esi_pow(2.0, -1074.0), 5e-324) && same_double(esi_pow(0.25, 0.5), 0.5));
    assert_true(same_double(esi_cbrt(27.0), 3.0) && same_double(esi_cbrt(-1e-300), -1e-100));
    assert_true(same_double(esi_cos(0.0), 1.0) && same_double(esi_acos(1.0), 0.0) && same_double(esi_asin(1.0), 0x1.921fb54442d18p+0));
    assert_true(same_double(esi_acos(-1.0), 0x1.921fb54442d18p+1) && same_double(esi_atan2(1.0, 1.0), 0x1.921fb54442d18p-1));
}

/* The bits must be the same on every machine and compiler: a hash of many results. */
static void bits_are_pinned(void **unused)
{
    uint64_t state = 11, hash = UINT64_C(0xcbf29ce484222325);
    (void)unused;
    for (int i = 0; i < 20000; i++) {
        double u = next_uniform(&state, -1.0, 1.0), x = ldexp(u, i % 41 - 20), p = fabs(x);
        double r[14] = {esi_exp(x * 0x1p-11), esi_ln(p),   esi_log1p(p),        esi_pow(p, u * 20.0), esi_sin(x),
                        esi_cos(x),           esi_tan(x),  esi_asin(u),         esi_acos(u),          esi_atan(x),
                        esi_atan2(x, u),      esi_cbrt(x), esi_sin(x * 0x1p80), esi_floor(x)};
        for (int k = 0; k < 14; k++) {
            uint64_t bits;
            memcpy(&bits, &r[k], sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x100000001b3);
        }
    }
    if (hash != UINT64_C(0x000aacdbea47e33e)) fail_msg("hash 0x%016llx", (unsigned long long)hash);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unary_functions_are_accurate),
                                       cmocka_unit_test(near_ends_of_range_are_accurate),
                                       cmocka_unit_test(huge_angles_are_reduced_exactly),
                                       cmocka_unit_test(power_and_angle_are_accurate),
                                       cmocka_unit_test(special_values_follow_c),
                                       cmocka_unit_test(rounding_is_exact),
                                       cmocka_unit_test(exact_cases),
                                       cmocka_unit_test(bits_are_pinned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
