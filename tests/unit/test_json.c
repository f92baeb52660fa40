/* SPDX-License-Identifier: MIT
 *
 * Reading JSON: values, document order, limits, error positions, failing allocations.
 */
#include "weights_fixture.h"

#include "formats/json.h"
#include "unit/malloc_failure.h"

#include <locale.h>

static esi_json *parse(fixture *f, const char *text)
{
    esi_json *root = NULL;
    esi_clear_error(f->ctx);
    assert_int_equal(esi_json_parse(f->ctx, &root, text, strlen(text), "t.json", ESPALIER_ERR_MODEL), ESPALIER_OK);
    assert_non_null(root);
    return root;
}

/* The text must be refused with `status` at byte `offset` (-1: any) and a message that contains `part`. */
static void refuse(fixture *f, const void *text, size_t size, espalier_status status, int64_t offset, const char *part)
{
    esi_json *root = (esi_json *)(uintptr_t)1;
    esi_clear_error(f->ctx);
    assert_int_equal(esi_json_parse(f->ctx, &root, text, size, "t.json", status), status);
    assert_null(root);
    if (!strstr(espalier_error_message(f->ctx), part)) fail_msg("'%s' lacks '%s'", espalier_error_message(f->ctx), part);
    assert_true(strncmp(espalier_error_message(f->ctx), "t.json: ", 8) == 0);
    if (offset >= 0) assert_int_equal(espalier_error_offset(f->ctx), offset);
}

static void refuse_text(fixture *f, const char *text, int64_t offset, const char *part)
{
    refuse(f, text, strlen(text), ESPALIER_ERR_MODEL, offset, part);
}

static void values(void **state)
{
    fixture *f = *state;
    esi_json *root = parse(f, "{\"s\":\"a\\u00e9\\n\",\"i\":-7,\"d\":2.5,\"w\":3e2,\"t\":true,\"f\":false,\"n\":null,\"a\":[1,[],{}],"
                              "\"o\":{\"models\":{\"x.y\":1,\"x\":{\"z\":\"deep\"}}}}");
    const char *s = NULL;
    int64_t i = 99;
    double d = 99;
    bool b = false;

    assert_true(esi_json_string(esi_json_get(root, "s"), &s));
    assert_string_equal(s, "a\xc3\xa9\n");
    assert_true(esi_json_int(esi_json_get(root, "i"), &i));
    assert_int_equal(i, -7);
    assert_true(esi_json_double(esi_json_get(root, "i"), &d));
    assert_true(d == -7.0);
    assert_true(esi_json_double(esi_json_get(root, "d"), &d));
    assert_true(d == 2.5);
    assert_false(esi_json_int(esi_json_get(root, "d"), &i));
    assert_true(esi_json_int(esi_json_get(root, "w"), &i));
    assert_int_equal(i, 300);
    assert_false(esi_json_is_integer(esi_json_get(root, "w")));
    assert_true(esi_json_is_integer(esi_json_get(root, "i")));
    assert_true(esi_json_bool(esi_json_get(root, "t"), &b));
    assert_true(b);
    assert_true(esi_json_bool(esi_json_get(root, "f"), &b));
    assert_false(b);
    assert_true(esi_json_is_null(esi_json_get(root, "n")));
    assert_false(esi_json_is_null(NULL));
    assert_true(esi_json_is_object(root));
    assert_true(esi_json_is_array(esi_json_get(root, "a")));
    assert_int_equal(esi_json_size(esi_json_get(root, "a")), 3);
    assert_int_equal(esi_json_size(root), 9);
    assert_int_equal(esi_json_size(esi_json_get(root, "s")), 0);
    assert_true(esi_json_is_object(esi_json_at(esi_json_get(root, "a"), 2)));
    assert_null(esi_json_at(esi_json_get(root, "a"), 3));
    assert_true(esi_json_string(esi_json_path(root, "o.models.x.z"), &s));
    assert_string_equal(s, "deep");
    assert_null(esi_json_path(root, "o.models.q"));
    assert_null(esi_json_path(root, "o.mod"));
    assert_null(esi_json_path(root, "s.x"));
    esi_json_free(root);
    esi_json_free(NULL);
}

/* Absent and mistyped values leave the output alone. */
static void misses(void **state)
{
    fixture *f = *state;
    esi_json *root = parse(f, "[\"1\", 1, 1e300, 9.3e18, -9.3e18, 9223372036854775807]");
    const char *s = "kept";
    int64_t i = 5;
    double d = 5;
    bool b = true;

    assert_false(esi_json_string(NULL, &s) || esi_json_string(esi_json_at(root, 1), &s));
    assert_string_equal(s, "kept");
    for (size_t k = 2; k <= 4; k++) assert_false(esi_json_int(esi_json_at(root, k), &i));
    assert_false(esi_json_int(NULL, &i) || esi_json_int(esi_json_at(root, 0), &i));
    assert_int_equal(i, 5);
    assert_false(esi_json_double(NULL, &d) || esi_json_double(esi_json_at(root, 0), &d));
    assert_true(d == 5);
    assert_false(esi_json_bool(NULL, &b) || esi_json_bool(esi_json_at(root, 1), &b));
    assert_true(b);
    assert_true(esi_json_int(esi_json_at(root, 5), &i));
    assert_true(i == INT64_MAX);
    assert_null(esi_json_get(root, "x"));
    assert_null(esi_json_get(NULL, "x"));
    assert_null(esi_json_path(NULL, "x"));
    assert_null(esi_json_at(NULL, 0));
    void *iterator = NULL;
    assert_null(esi_json_next(root, &iterator, NULL));
    assert_null(esi_json_next(NULL, &iterator, NULL));
    assert_null(esi_json_key_at(root, 0, NULL));
    assert_int_equal(esi_json_size(NULL), 0);
    esi_json_free(root);
}

/* Many keys in an order that no hash would give. */
static void document_order(void **state)
{
    fixture *f = *state;
    enum { N = 500 };
    char text[N * 16], key[16];
    const esi_json *value = NULL;
    void *iterator = NULL;
    const char *found;
    size_t len = 0, i = 0;
    int64_t number;

    for (int k = 0; k < N; k++) len += (size_t)snprintf(text + len, sizeof text - len, "%s\"k%d\":%d", k ? "," : "{", k * 7919 % N, k);
    len += (size_t)snprintf(text + len, sizeof text - len, "}");
    esi_json *root = parse(f, text);
    for (; (found = esi_json_next(root, &iterator, &value)) != NULL; i++) {
        snprintf(key, sizeof key, "k%d", (int)i * 7919 % N);
        assert_string_equal(found, key);
        assert_true(esi_json_int(value, &number));
        assert_int_equal(number, i);
    }
    assert_int_equal(i, N);
    assert_string_equal(esi_json_key_at(root, 1, &value), "k419");
    assert_true(esi_json_int(value, &number));
    assert_int_equal(number, 1);
    assert_null(esi_json_key_at(root, N, &value));
    esi_json_free(root);
}

static void broken_text(void **state)
{
    fixture *f = *state;

    /* the outline */
    refuse_text(f, "", 0, "expected '{' or '['");
    refuse_text(f, " 7", 1, "expected '{' or '['");
    refuse_text(f, "\xef\xbb\xbf{}", 0, "expected '{' or '['");
    refuse_text(f, "{\"a\":1}x", 7, "expected the end");
    refuse_text(f, "[1] {}", 4, "byte 4 (line 1, column 5)");
    refuse_text(f, "[1],[2]", 3, "expected the end");
    refuse_text(f, "[1]]", 3, "expected the end");
    refuse_text(f, "[1]}", 3, "expected the end");
    refuse_text(f, "[[1]", 4, "ends too early");
    refuse_text(f, "[\"never closed", 14, "ends too early");
    refuse_text(f, "[\"never closed]", 15, "ends too early");
    refuse_text(f, "[\"ends in escape\\", 17, "ends too early");
    refuse_text(f, "[tru", 4, "ends too early");
    refuse(f, "[1]\0", 4, ESPALIER_ERR_INPUT, 3, "NUL");
    refuse(f, "[1\0]", 4, ESPALIER_ERR_INPUT, 2, "NUL");
    refuse(f, "[\"a\0b\"]", 7, ESPALIER_ERR_INPUT, 3, "NUL");
    refuse(f, "[", ESI_JSON_MAX_SIZE + (size_t)1, ESPALIER_ERR_MODEL, 0, "100000001 bytes; at most 100000000"); /* before a byte is read */

    /* Jansson stops behind what is wrong */
    refuse_text(f, "{\"a\":1,\"a\":2}", 10, "duplicate");
    refuse_text(f, "{\"a\":1,\"\\u0061\":2}", 15, "duplicate");
    refuse_text(f, "{\"a\":NaN}", 8, "invalid token near 'NaN'");
    refuse_text(f, "[Infinity]", 9, "invalid token");
    refuse_text(f, "[1,]", 4, "unexpected token");
    refuse_text(f, "[,1]", 2, "unexpected token");
    refuse_text(f, "[1 2]", 4, "']' expected");
    refuse_text(f, "{\"a\":1,}", 8, "string or '}' expected");
    refuse_text(f, "{a:1}", 2, "string or '}' expected");
    refuse_text(f, "{\"a\" 1}", 6, "':' expected");
    refuse_text(f, "{\"a\" \"b\"}", 8, "':' expected");
    refuse_text(f, "{\"a\":1 \"b\":2}", 10, "'}' expected");
    refuse_text(f, "{\"a\":1]", 7, "'}' expected");
    refuse_text(f, "[1}", 3, "']' expected");
    refuse_text(f, "{\"a\":\"\\ud800\"}", -1, "Unicode");
    refuse_text(f, "[\"\\ud800\\u0041\"]", -1, "Unicode");
    refuse_text(f, "[\"\\udc00\"]", -1, "Unicode");
    refuse_text(f, "{\"a\":\"\\u0000\"}", 13, "u0000 is not allowed");
    refuse_text(f, "{\"a\\u0000\":1}", 10, "NUL");
    refuse_text(f, "[\"\\u00g0\"]", -1, "invalid escape");
    refuse_text(f, "[\"\\x\"]", -1, "invalid escape");
    refuse_text(f, "[\"a\nb\"]", 3, "newline");
    refuse_text(f, "[\"a\x01\"]", 3, "control character");
    refuse_text(f, "{\"a\":\"\xc0\xaf\"}", 6, "unable to decode byte 0xc0");
    refuse_text(f, "[1,2\n,,3]", 7, "line 2, column 3");
}

/* More keys than are in one bucket of a hash table. */
static void duplicate_among_many(void **state)
{
    fixture *f = *state;
    char text[1000];
    size_t len = 0;

    for (int k = 0; k < 50; k++) len += (size_t)snprintf(text + len, sizeof text - len, "%s\"k%02d\":{}", k ? "," : "{", k == 40 ? 7 : k);
    snprintf(text + len, sizeof text - len, "}");
    refuse_text(f, text, 1 + 40 * 9 + 5, "duplicate");
}

/* Around every size at which the buffer for tokens may have to grow. */
static void long_tokens(void **state)
{
    fixture *f = *state;
    enum { LONGEST = 1100 };
    char text[2 * LONGEST + 64], number[LONGEST + 1];

    for (int n = 0; n < LONGEST; n += n < 150 || (n + 10) % 256 < 20 ? 1 : 7) {
        const char *s = "";
        double value = 0;
        memset(number, '0', sizeof number);
        number[n] = '\0';
        snprintf(text, sizeof text, "{\"%s\":[0.%s5, 1%.17s]}", number, number, number);
        esi_json *root = parse(f, text);
        s = esi_json_key_at(root, 0, NULL);
        assert_string_equal(s, number);
        assert_true(esi_json_double(esi_json_at(esi_json_get(root, number), 0), &value));
        assert_true(value == strtod(text + n + 5, NULL));
        esi_json_free(root);
    }
}

static void numbers(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text;
        double value;
        bool integer;
    } good[] = {
        {"0", 0, true},
        {"-0", 0, true},
        {"-1", -1, true},
        {"9223372036854775807", 0x1p63, true},
        {"-9223372036854775808", -0x1p63, true},
        {"9223372036854775808.0", 0x1p63, false},
        {"0.1", 0x1.999999999999ap-4, false},
        {"1E2", 100, false},
        {"1e-2", 0x1.47ae147ae147bp-7, false},
        {"-1.5e+1", -15, false},
        {"5e-324", 0x1p-1074, false},
        {"1e-400", 0, false},
        {"1.7976931348623157e308", 0x1.fffffffffffffp1023, false},
        {"9007199254740993", 0x1p53, true},
        {"9007199254740993.0", 0x1p53, false},
        {"123456789012345678901234567890e0", 0x1.8ee90ff6c373ep96, false},
    };
    static const char *const bad[] = {"01", "+1", "1.", ".5", "-", "1e", "1e+", "0x10", "1e999", "-1e999", "--1", "1.e1", "1_0"};
    char text[64];

    for (size_t i = 0; i < ESI_COUNT(good); i++) {
        double value = 7;
        snprintf(text, sizeof text, "[%s]", good[i].text);
        esi_json *root = parse(f, text);
        assert_true(esi_json_double(esi_json_at(root, 0), &value));
        if (value != good[i].value) fail_msg("%s read as %a", good[i].text, value);
        assert_int_equal(esi_json_is_integer(esi_json_at(root, 0)), good[i].integer);
        esi_json_free(root);
    }
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        snprintf(text, sizeof text, "[%s]", bad[i]);
        refuse_text(f, text, -1, "not valid JSON");
    }
    /* beyond int64: never another number */
    refuse_text(f, "[9223372036854775808]", 20, "too big integer");
    refuse_text(f, "[-9223372036854775809]", 21, "too big negative integer");
    refuse_text(f, "[18446744073709551617]", 21, "too big integer");
    char digits[1000];
    memset(digits, '1', sizeof digits);
    digits[0] = '[';
    digits[sizeof digits - 1] = ']';
    refuse(f, digits, sizeof digits, ESPALIER_ERR_MODEL, 999, "too big integer");
}

/* An embedding program may have chosen a locale with another decimal point, of one byte or of more; installed ones, or compiled here. */
static bool choose_locale(const fixture *f, const char *name)
{
    char command[256], full[32];
    bool found;

    snprintf(full, sizeof full, "%s.UTF-8", name);
    if (setlocale(LC_NUMERIC, full)) return true;
    snprintf(command, sizeof command, "localedef -i %s -f UTF-8 '%s/%s' >/dev/null 2>&1", name, f->dir, full);
    if (system(command) == -1 || setenv("LOCPATH", f->dir, 1) != 0) return false;
    found = setlocale(LC_NUMERIC, full) != NULL;
    snprintf(command, sizeof command, "rm -rf '%s/%s'", f->dir, full);
    assert_int_equal(system(command), 0);
    return found;
}

static void check_decimal_point(fixture *f, const char *locale, const char *printed)
{
    char text[16];
    double value = 0;

    if (!choose_locale(f, locale)) skip();
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, printed);
    esi_json *root = parse(f, "[2.75, 1e2]");
    assert_true(esi_json_double(esi_json_at(root, 0), &value));
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, printed); /* the locale is still the program's */
    setlocale(LC_NUMERIC, "C");
    assert_true(value == 2.75);
    esi_json_free(root);
}

static void decimal_comma(void **state)
{
    check_decimal_point(*state, "de_DE", "0,5");
}

static void decimal_point_of_two_bytes(void **state)
{
    check_decimal_point(*state, "ps_AF",
                        "0\xd9\xab"
                        "5");
}

static void error_positions_count_from_base(void **state)
{
    fixture *f = *state;
    esi_json *root;

    esi_clear_error(f->ctx);
    assert_int_equal(esi_json_parse_at(f->ctx, &root, "[1,2\n,,3]", 9, "t.json", 1000, ESPALIER_ERR_MODEL), ESPALIER_ERR_MODEL);
    assert_int_equal(espalier_error_offset(f->ctx), 1007);
}

static void depth(void **state)
{
    fixture *f = *state;
    char text[400];

    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    text[128] = '\0';
    esi_json_free(parse(f, text));
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    refuse(f, text, 130, ESPALIER_ERR_MODEL, 64, "nested too deeply");
    /* brackets in strings are text, siblings do not add up */
    esi_json_free(parse(f, "[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[[[[[[[[[[[[[[[[[[[\"]"));
    text[0] = '[';
    for (int i = 0; i < 100; i++) memcpy(text + 1 + 3 * i, "[],", 3);
    memcpy(text + 300, "]", 2);
    esi_json_free(parse(f, text));
}

static void memory_budget(void **state)
{
    fixture *f = *state;
    size_t size = 200001;
    char *text = malloc(size);
    esi_json *root = NULL;

    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 1; i < size; i += 2) memcpy(text + i, "0,", 2);
    text[size - 1] = ']';
    espalier_context_set_memory_budget(f->ctx, 1 << 20);
    esi_clear_error(f->ctx);
    assert_int_equal(esi_json_parse(f->ctx, &root, text, size, "t.json", ESPALIER_ERR_MODEL), ESPALIER_ERR_RESOURCE);
    assert_non_null(strstr(espalier_error_message(f->ctx), "the budget has 1048576 left"));
    espalier_context_set_memory_budget(f->ctx, 0);
    esi_json_free(root);
    free(text);
}

/* Small text that makes a huge document. */
static void too_much_memory(void **state)
{
    fixture *f = *state;
    const size_t size = 30000001;
    char *text = malloc(size);

    assert_non_null(text);
    text[0] = '[';
    for (size_t i = 1; i < size; i += 3) memcpy(text + i, "{},", 3);
    text[size - 1] = ']';
    refuse(f, text, size, ESPALIER_ERR_MODEL, 0, "at most 4294967296 are accepted");
    free(text);
}

static void files(void **state)
{
    fixture *f = *state;
    char path[128];
    esi_json *root;
    FILE *file;

    fixture_path(f, path, "c.json");
    file = fopen(path, "wb");
    assert_non_null(file);
    fputs("{\"a\": [1, 2]}\n", file);
    fclose(file);
    esi_clear_error(f->ctx);
    assert_int_equal(esi_json_load(f->ctx, &root, path, ESPALIER_ERR_MODEL), ESPALIER_OK);
    assert_int_equal(esi_json_size(esi_json_get(root, "a")), 2);
    esi_json_free(root);
    unlink(path);
    assert_int_equal(esi_json_load(f->ctx, &root, path, ESPALIER_ERR_MODEL), ESPALIER_ERR_MODEL);
    assert_null(root);
    esi_clear_error(f->ctx);
    assert_int_equal(esi_json_load(f->ctx, &root, f->dir, ESPALIER_ERR_INPUT), ESPALIER_ERR_INPUT);
    assert_null(root);
}

/* Text that reads back the same is the same document. */
static void print_value(esi_text *out, const fixture *f, const esi_json *v)
{
    const esi_json *member;
    void *iterator = NULL;
    const char *text;
    double number;
    bool boolean;

    esi_text_append(f->ctx, out, "(%d%d", esi_json_is_object(v), esi_json_is_array(v));
    if (esi_json_string(v, &text)) esi_text_append(f->ctx, out, "s%s", text);
    if (esi_json_double(v, &number)) esi_text_append(f->ctx, out, "d%d%a", esi_json_is_integer(v), number);
    if (esi_json_bool(v, &boolean)) esi_text_append(f->ctx, out, "b%d", boolean);
    for (size_t i = 0; esi_json_is_array(v) && i < esi_json_size(v); i++) print_value(out, f, esi_json_at(v, i));
    while ((text = esi_json_next(v, &iterator, &member)) != NULL) {
        esi_text_append(f->ctx, out, "k%s=", text);
        print_value(out, f, member);
    }
    esi_text_append(f->ctx, out, ")");
}

/* Both kinds of memory: that of the context and what Jansson takes. No document may come out of a failure other than the true one, and a
 * failure is never called an error of the text. */
static void failing_allocations(void **state)
{
    fixture *f = *state;
    static const char text[] = "{\"a\":[1,2.5,\"s\",{\"b\":null}],\"c\":{\"d\":[true]},\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,"
                               "\"a key of thirteen by\":1,\"l\":0.12345678901234567,\"m\":-1234567890123456,\"n\":\"a string that fills "
                               "the buffer of tokens to overflowing, and once more for the next power\",\"o\":[1,2,3,4,5,6,7,8,9]}";
    esi_text expected = {0};
    esi_json *root = parse(f, text);
    espalier_status st = ESPALIER_ERR_RESOURCE;
    long n, before, live;

    print_value(&expected, f, root);
    esi_json_free(root);
    before = f->live;
    for (n = 0; st != ESPALIER_OK && n < 10; n++) {
        f->fail_in = n;
        esi_clear_error(f->ctx);
        st = esi_json_parse(f->ctx, &root, text, sizeof text - 1, "t.json", ESPALIER_ERR_MODEL);
        f->fail_in = -1;
        esi_json_free(root);
        assert_int_equal(f->live, before);
        if (st != ESPALIER_OK && st != ESPALIER_ERR_RESOURCE) fail_msg("allocation %ld: %s", n, espalier_error_message(f->ctx));
    }
    assert_true(st == ESPALIER_OK && n > 2);
    if (!malloc_failure_available()) skip();
    live = malloc_failure_live();
    for (int forever = 0; forever < 2; forever++) {
        long fired = 1;
        for (n = 1; fired && n < 1000; n++) {
            esi_clear_error(f->ctx);
            malloc_failure_arm(n, forever != 0);
            st = esi_json_parse(f->ctx, &root, text, sizeof text - 1, "t.json", ESPALIER_ERR_MODEL);
            fired = malloc_failure_disarm();
            if (st == ESPALIER_OK) {
                esi_text got = {0};
                print_value(&got, f, root);
                assert_string_equal(got.data, expected.data);
                esi_text_free(f->ctx, &got);
            } else {
                assert_null(root);
                if (!fired || st != ESPALIER_ERR_RESOURCE) fail_msg("allocation %ld: %s", n, espalier_error_message(f->ctx));
            }
            esi_json_free(root);
            assert_int_equal(malloc_failure_live(), live);
        }
        assert_int_equal(st, ESPALIER_OK);
        if (n < 70) fail_msg("only %ld allocations", n);
    }
    esi_text_free(f->ctx, &expected);
}

/* Every truncation and every single-bit flip: a clean answer, whatever it is. */
static void damaged_text(void **state)
{
    fixture *f = *state;
    static const char text[] = "{\"a\":[1,-2.5e-3,\"s\\u00e9\\ud83d\\ude00\xc3\xa9\",{\"b\":null}],\"c\":{\"d\":[true,false]}}";
    size_t len = sizeof text - 1;
    esi_json *root;

    for (size_t n = 0; n < len; n++) {
        char *copy = malloc(n ? n : 1);
        assert_non_null(copy);
        memcpy(copy, text, n);
        refuse(f, copy, n, ESPALIER_ERR_MODEL, -1, "not valid JSON");
        free(copy);
    }
    for (size_t bit = 0; bit < 8 * len; bit++) {
        char *copy = malloc(len);
        assert_non_null(copy);
        memcpy(copy, text, len);
        copy[bit / 8] = (char)(copy[bit / 8] ^ 1 << bit % 8);
        esi_clear_error(f->ctx);
        espalier_status st = esi_json_parse(f->ctx, &root, copy, len, "t.json", ESPALIER_ERR_MODEL);
        assert_true((st == ESPALIER_OK) == (root != NULL));
        esi_json_free(root);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(misses, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(document_order, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(broken_text, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(duplicate_among_many, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(long_tokens, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(decimal_comma, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(decimal_point_of_two_bytes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(error_positions_count_from_base, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(depth, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(memory_budget, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(too_much_memory, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(files, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(failing_allocations, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(damaged_text, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(numbers, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
