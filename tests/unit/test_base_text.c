/* SPDX-License-Identifier: MIT
 *
 * test_base_text.c: growing text, JSON strings and numbers.
 *
 * Replacement characters were counted with Python's bytes.decode('utf-8', 'replace').
 */
#include "support.h"

#include <locale.h>
#include <math.h>

#define REPLACED "\xEF\xBF\xBD"

static void grows(void **state)
{
    (void)state;
    test_base t;
    esi_text text = {0};
    test_base_open(&t, 1);
    for (int i = 0; i < 3000; i++) esi_text_append(t.ctx, &text, "%d;", i % 10);
    assert_int_equal(text.len, 6000);
    assert_int_equal(strlen(text.data), 6000);
    assert_memory_equal(text.data + 5996, "8;9;", 4);
    esi_text_append_bytes(t.ctx, &text, "a\0b", 3);
    assert_int_equal(text.len, 6003);
    esi_text_free(t.ctx, &text);
    assert_null(text.data);
    esi_text_append(t.ctx, &text, "%s", "");
    assert_string_equal(text.data, "");
    esi_text_free(t.ctx, &text);
    test_base_close(&t);
}

static void failure_is_kept(void **state)
{
    (void)state;
    test_base t;
    esi_text text = {0};
    test_base_open(&t, 1);
    espalier_context_set_memory_budget(t.ctx, 2000);
    for (int i = 0; i < 3000; i++) esi_text_append(t.ctx, &text, "x");
    assert_true(text.failed);
    assert_true(text.len < 2000);
    size_t len = text.len;
    espalier_context_set_memory_budget(t.ctx, 0);
    esi_text_append_bytes(t.ctx, &text, "y", 1);
    esi_text_append_json_number(t.ctx, &text, 1);
    assert_int_equal(text.len, len);
    assert_int_equal(t.ctx->error_status, ESPALIER_ERR_RESOURCE);
    esi_text_free(t.ctx, &text);
    assert_false(text.failed);
    test_base_close(&t);
}

static void json_strings(void **state)
{
    (void)state;
    static const struct { const char *in, *out; } cases[] = {
        {"", "\"\""},
        {"plain", "\"plain\""},
        {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
        {"\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\""},
        {"\x01\x1f\x7f", "\"\\u0001\\u001f\x7f\""},
        {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8C\xB3", "\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x8C\xB3\""},
        {"\x80", "\"" REPLACED "\""},
        {"a\xFF" "b", "\"a" REPLACED "b\""},
        {"\xC0\xAF", "\"" REPLACED REPLACED "\""},                              /* overlong '/' */
        {"\xC1\xBF", "\"" REPLACED REPLACED "\""},
        {"\xE0\x80\xAF", "\"" REPLACED REPLACED REPLACED "\""},
        {"\xE0\x9F\xBF", "\"" REPLACED REPLACED REPLACED "\""},
        {"\xF0\x8F\xBF\xBF", "\"" REPLACED REPLACED REPLACED REPLACED "\""},
        {"\xED\xA0\x80", "\"" REPLACED REPLACED REPLACED "\""},                 /* surrogate */
        {"\xED\x9F\xBF", "\"\xED\x9F\xBF\""},
        {"\xF4\x8F\xBF\xBF", "\"\xF4\x8F\xBF\xBF\""},
        {"\xF4\x90\x80\x80", "\"" REPLACED REPLACED REPLACED REPLACED "\""},    /* beyond U+10FFFF */
        {"\xF5", "\"" REPLACED "\""},
        {"\xE2\x82", "\"" REPLACED "\""},                                       /* cut short */
        {"\xE2\x82\"", "\"" REPLACED "\\\"\""},
        {"\xF0\x9F\x8C", "\"" REPLACED "\""},
        {"\xF0\x9F\x8C\xE2\x82\xAC", "\"" REPLACED "\xE2\x82\xAC\""},
    };
    test_base t;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        esi_text text = {0};
        esi_text_append_json_string(t.ctx, &text, cases[i].in);
        assert_string_equal(text.data, cases[i].out);
        esi_text_free(t.ctx, &text);
    }
    test_base_close(&t);
}

static void check_number(espalier_context *ctx, double value, const char *expected)
{
    esi_text text = {0};
    esi_text_append_json_number(ctx, &text, value);
    assert_non_null(text.data);
    assert_string_equal(text.data, expected);
    esi_text_free(ctx, &text);
}

static void json_numbers(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    check_number(t.ctx, 0, "0");
    check_number(t.ctx, -0.0, "-0");
    check_number(t.ctx, 1, "1");
    check_number(t.ctx, -42, "-42");
    check_number(t.ctx, 0.1, "0.1");
    check_number(t.ctx, 0.1 + 0.2, "0.30000000000000004");
    check_number(t.ctx, 1.0 / 3.0, "0.3333333333333333");
    check_number(t.ctx, 5e-324, "4.94065645841247e-324");
    check_number(t.ctx, 1e300, "1e+300");
    check_number(t.ctx, 1.7976931348623157e308, "1.7976931348623157e+308");
    check_number(t.ctx, 9007199254740993.0, "9007199254740992");
    check_number(t.ctx, (double)0.1f, "0.10000000149011612");
    check_number(t.ctx, NAN, "null");
    check_number(t.ctx, INFINITY, "null");
    check_number(t.ctx, -INFINITY, "null");
    test_base_close(&t);
}

/* Any bit pattern must come back. The generator is splitmix64. */
static void numbers_read_back_equal(void **state)
{
    (void)state;
    test_base t;
    uint64_t seed = 42;
    test_base_open(&t, 1);
    esi_text text = {0};
    for (int i = 0; i < 20000; i++) {
        uint64_t z = seed += UINT64_C(0x9E3779B97F4A7C15);
        z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
        z ^= z >> 31;
        double value, back;
        memcpy(&value, &z, sizeof value);
        if (!isfinite(value)) continue;
        text.len = 0;
        esi_text_append_json_number(t.ctx, &text, value);
        back = strtod(text.data, NULL);
        assert_memory_equal(&back, &value, sizeof value);
    }
    esi_text_free(t.ctx, &text);
    test_base_close(&t);
}

/* A locale whose decimal point is a comma: an installed one, or one compiled into `dir`. */
static bool choose_comma_locale(const char *dir)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE", "fr_FR"};
    for (size_t i = 0; i < ESI_COUNT(names); i++)
        if (setlocale(LC_NUMERIC, names[i]) != NULL) return true;
    char command[2048];
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", dir);
    if (system(command) == -1 || setenv("LOCPATH", dir, 1) != 0) return false;
    return setlocale(LC_NUMERIC, "de_DE.UTF-8") != NULL;
}

/* Skipped, visibly, where no such locale can be had. */
static void numbers_in_another_locale(void **state)
{
    (void)state;
    char *dir = test_dir_make(), command[2048];
    bool found = choose_comma_locale(dir);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
    free(dir);
    if (!found) skip();
    char comma[8];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    assert_string_equal(comma, "0,5");
    test_base t;
    test_base_open(&t, 1);
    check_number(t.ctx, 0.5, "0.5");
    check_number(t.ctx, -1234567.25, "-1234567.25");
    check_number(t.ctx, 1.5e-7, "1.5e-07");
    setlocale(LC_NUMERIC, "C");
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(failure_is_kept),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(json_numbers),
        cmocka_unit_test(numbers_read_back_equal),
        cmocka_unit_test(numbers_in_another_locale),
    };
    return cmocka_run_group_tests_name("base_text", tests, NULL, NULL);
}
