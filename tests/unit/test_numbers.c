/* SPDX-License-Identifier: MIT
 *
 * Decimal numbers from and to text against the C library's: what is read is what strtod() reads, what is written reads back as the same
 * float and is no longer than "%.9g".
 */
#include "support.h"

#include "formats/numbers.h"

#include <math.h>

static uint64_t state64 = UINT64_C(88172645463325252);

static uint64_t next64(void)
{
    state64 ^= state64 << 13;
    state64 ^= state64 >> 7;
    return state64 ^= state64 << 17;
}

static void reading(void **state)
{
    static const char *const bad[] = {"", "-", "+", ".", "e5", "1e", "1e+", "1x", "0x10", "1.2.3", "--1", "1 ", "na", "infin", "1,5"};
    double v;

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(bad); i++) assert_false(esi_parse_number(bad[i], strlen(bad[i]), &v));
    assert_true(esi_parse_number("NaN", 3, &v) && isnan(v));
    assert_true(esi_parse_number("-Infinity", 9, &v) && v == -INFINITY);
    assert_true(esi_parse_number("1e999999999999", 14, &v) && v == INFINITY);
    assert_true(esi_parse_number("1e-999999999999", 15, &v) && v == 0.0);
    assert_true(esi_parse_number("-0", 2, &v) && v == 0.0 && signbit(v));
    for (int i = 0; i < 300000; i++) {
        char text[64];
        const int digits = 6 + (int)(next64() % 12);
        const uint64_t bits = next64();
        double x;

        memcpy(&x, &bits, sizeof x);
        if (i % 2) x = (double)(int64_t)next64() * 0x1p-63;
        if (!isfinite(x) || fabs(x) < 1e-240 || fabs(x) > 1e260) continue;
        snprintf(text, sizeof text, "%.*g", digits, x);
        assert_true(esi_parse_number(text, strlen(text), &v));
        if (v != strtod(text, NULL)) fail_msg("%s: %.17g", text, v);
    }
}

static void writing(void **state)
{
    char text[ESI_FLOAT_TEXT], usual[64];
    static const struct { float v; const char *text; } known[] = {
        {0.0f, "0"}, {-0.0f, "0"}, {1.0f, "1"}, {-0.5f, "-0.5"}, {0.1f, "0.1"}, {123456.0f, "123456"}, {16777216.0f, "16777216"},
        {0.001f, "0.001"}, {1e-9f, "1e-9"}, {3.4028235e38f, "3.4028235e38"}, {1e-45f, "1.4013e-45"}, {NAN, "0"}, {INFINITY, "0"}};

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(known); i++) {
        assert_int_equal(esi_format_float(text, known[i].v), strlen(known[i].text));
        assert_string_equal(text, known[i].text);
    }
    for (int i = 0; i < 300000; i++) {
        const uint32_t bits = (uint32_t)next64();
        float x;
        double v;
        size_t n;

        memcpy(&x, &bits, sizeof x);
        if (i % 2) x = (float)(int32_t)bits * 0x1p-31f;
        if (!isfinite(x)) continue;
        n = esi_format_float(text, x);
        assert_int_equal(n, strlen(text));
        assert_true(strtof(text, NULL) == x);
        assert_true(esi_parse_number(text, n, &v) && (float)v == x);
        snprintf(usual, sizeof usual, "%.9g", (double)x);
        assert_true(n <= strlen(usual));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading), cmocka_unit_test(writing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
