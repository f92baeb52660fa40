/* SPDX-License-Identifier: MIT
 *
 * numbers.c: numbers from text and back. strtod() would read another number under another locale, and is slow; most numbers in files have
 * at most 15 digits and a small exponent, and for these one exact multiplication or division gives the rounded value (W. Clinger, "How to
 * read floating point numbers accurately", 1990). The rest goes through pairs of doubles.
 */
#include "formats/numbers.h"

#include "base/math64_pair.h"

#include <math.h>

#define MAX_DIGITS 19              /* that fit a uint64 */
#define EXPONENT_LIMIT 400         /* beyond it everything is 0 or infinite */
#define EXACT_POWERS 22            /* 10^22 is the largest power of ten that is a double */

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

void esi_scan_blanks(esi_scan *s, bool lines)
{
    while (s->at < s->end && (is_blank(*s->at) || (lines && *s->at == '\n'))) s->at++;
}

bool esi_scan_line(esi_scan *s)
{
    const uint8_t *feed = s->at < s->end ? memchr(s->at, '\n', (size_t)(s->end - s->at)) : NULL;

    s->at = feed ? feed + 1 : s->end;
    return feed != NULL;
}

bool esi_scan_word(esi_scan *s, const char **word, size_t *len)
{
    const uint8_t *begin;

    esi_scan_blanks(s, true);
    begin = s->at;
    while (s->at < s->end && !is_blank(*s->at) && *s->at != '\n') s->at++;
    *word = (const char *)begin;
    *len = (size_t)(s->at - begin);
    return *len > 0;
}

bool esi_word_is(const char *word, size_t len, const char *what)
{
    return strlen(what) == len && memcmp(word, what, len) == 0;
}

static bool same_letters(const char *word, size_t len, const char *what)
{
    if (strlen(what) != len) return false;
    for (size_t i = 0; i < len; i++) {
        if ((word[i] | 0x20) != what[i]) return false;
    }
    return true;
}

static int at_most(int n, int limit)
{
    return n < limit ? n : limit;
}

/* digits * 10^exponent */
static double scale(uint64_t digits, int exponent)
{
    static const double exact[EXACT_POWERS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    esi_pair value;
    int step;

    if (digits == 0) return 0.0;
    if (digits <= UINT64_C(1) << 53 && exponent >= -EXACT_POWERS && exponent <= EXACT_POWERS)
        return exponent < 0 ? (double)digits / exact[-exponent] : (double)digits * exact[exponent];
    exponent = exponent > EXPONENT_LIMIT ? EXPONENT_LIMIT : exponent < -EXPONENT_LIMIT ? -EXPONENT_LIMIT : exponent;
    value = esi_pair_sum((double)(digits >> 32) * 0x1p32, (double)(digits & 0xffffffffu));
    for (; exponent > 0 && value.high < 1e270; exponent -= step) {
        step = at_most(exponent, EXACT_POWERS);
        value = esi_pair_mul(value, (esi_pair){exact[step], 0.0});
    }
    for (; exponent < 0 && value.high > 1e-250; exponent += step) {
        step = at_most(-exponent, EXACT_POWERS);
        value = esi_pair_div(value, (esi_pair){exact[step], 0.0});
    }
    /* Near the ends of the range there is no room for exact products. */
    for (; exponent > 0; exponent -= step) value.high *= exact[step = at_most(exponent, EXACT_POWERS)];
    for (; exponent < 0; exponent += step) value.high /= exact[step = at_most(-exponent, EXACT_POWERS)];
    return value.high;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with a point from *i on; false without any. */
static bool parse_digits(const char *word, size_t len, size_t *i, uint64_t *digits, int *exponent)
{
    bool any = false, point = false;
    int kept = 0;

    for (; *i < len && (is_digit(word[*i]) || (word[*i] == '.' && !point)); ++*i) {
        if (word[*i] == '.') {
            point = true;
            continue;
        }
        any = true;
        if (kept < MAX_DIGITS) {
            *digits = *digits * 10 + (uint64_t)(word[*i] - '0');
            if (*digits > 0) kept++;
            *exponent -= point;
        } else if (*exponent < 1000000) {
            *exponent += !point;
        }
        if (*exponent < -1000000) *exponent = -1000000;
    }
    return any;
}

/* "e-12"; a number that goes on otherwise is none. */
static bool parse_exponent(const char *word, size_t len, size_t i, int *exponent)
{
    bool negative;
    int value = 0;

    if (i == len) return true;
    if ((word[i] | 0x20) != 'e') return false;
    i++;
    negative = i < len && word[i] == '-';
    if (i < len && (word[i] == '-' || word[i] == '+')) i++;
    if (i == len) return false;
    for (; i < len; i++) {
        if (!is_digit(word[i])) return false;
        if (value < 1000000) value = value * 10 + (word[i] - '0');
    }
    *exponent += negative ? -value : value;
    return true;
}

bool esi_parse_number(const char *word, size_t len, double *out)
{
    const bool negative = len > 0 && word[0] == '-';
    size_t i = negative || (len > 0 && word[0] == '+');
    uint64_t digits = 0;
    int exponent = 0;
    double value;

    if (same_letters(word + i, len - i, "nan")) {
        value = NAN;
    } else if (same_letters(word + i, len - i, "inf") || same_letters(word + i, len - i, "infinity")) {
        value = INFINITY;
    } else {
        if (!parse_digits(word, len, &i, &digits, &exponent) || !parse_exponent(word, len, i, &exponent)) return false;
        value = scale(digits, exponent);
    }
    *out = negative ? -value : value;
    return true;
}

bool esi_scan_number(esi_scan *s, double *out)
{
    const char *word;
    size_t len;

    return esi_scan_word(s, &word, &len) && esi_parse_number(word, len, out);
}

/* ----------------------------------------------------------------- writing */

/* e with 10^e <= value < 10^(e + 1), value > 0. */
static int decimal_exponent(double value)
{
    int e = (esi_exponent_field(value) - 1023) * 1233 / 4096;      /* log10(2) = 0.30103; a float is a normal double */

    while (scale(1, e) > value) e--;
    while (scale(1, e + 1) <= value) e++;
    return e;
}

/* The first n decimal digits of value as a number, rounded; *e follows when they round up to the next power of ten. */
static uint64_t leading_digits(double value, int n, int *e)
{
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
    const int shift = n - 1 - *e;
    const double scaled = shift >= 0 ? (shift <= EXACT_POWERS ? value * scale(1, shift) : value * scale(1, EXACT_POWERS) *
                                                                scale(1, shift - EXACT_POWERS))
                                     : value / scale(1, -shift);
    uint64_t digits = (uint64_t)(scaled + 0.5);

    if (digits >= powers[n]) {
        digits /= 10;
        ++*e;
    }
    return digits;
}

static char *put_digits(char *to, uint64_t digits, int n)
{
    for (int i = n - 1; i >= 0; i--, digits /= 10) to[i] = (char)('0' + digits % 10);
    return to + n;
}

/* 0.00123, 123.4, 12300 for exponents where that is short; 1.23e-9 otherwise. */
static char *put_number(char *to, uint64_t digits, int n, int e)
{
    while (n > 1 && digits % 10 == 0) {
        digits /= 10;
        n--;
    }
    if (e >= -4 && e < 0) {
        *to++ = '0';
        *to++ = '.';
        for (int i = -1; i > e; i--) *to++ = '0';
        return put_digits(to, digits, n);
    }
    if (e >= n - 1 && e < 9) {
        to = put_digits(to, digits, n);
        for (int i = n - 1; i < e; i++) *to++ = '0';
        return to;
    }
    const bool plain = e >= 0 && e < 9;
    const int whole = plain ? e + 1 : 1;

    to = put_digits(to, digits, n);
    if (n > whole) {
        memmove(to - n + whole + 1, to - n + whole, (size_t)(n - whole));
        to[whole - n] = '.';
        to++;
    }
    if (plain) return to;
    *to++ = 'e';
    if (e < 0) *to++ = '-';
    e = e < 0 ? -e : e;
    return put_digits(to, (uint64_t)e, e < 10 ? 1 : 2);
}

size_t esi_format_float(char out[ESI_FLOAT_TEXT], float value)
{
    const double v = fabs((double)value);
    char *to = out;
    uint64_t digits = 0;
    int e = 0;

    if (v == 0.0 || !isfinite(v)) {
        memcpy(out, "0", 2);
        return 1;
    }
    if (value < 0.0f) *to++ = '-';
    for (int n = 6; n <= 9; n++) {
        e = decimal_exponent(v);
        digits = leading_digits(v, n, &e);
        if ((double)(float)scale(digits, e - n + 1) == v || n == 9) {
            to = put_number(to, digits, n, e);
            break;
        }
    }
    *to = '\0';
    return (size_t)(to - out);
}
