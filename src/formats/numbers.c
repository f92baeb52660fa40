/* SPDX-License-Identifier: MIT
 *
 * numbers.c: see the header. strtod() would read another number under another locale, and is slow; most numbers in files have at most 15
 * digits and a small exponent, and for these one exact multiplication or division gives the rounded value (W. Clinger, "How to read
 * floating point numbers accurately", 1990). The rest goes through pairs of doubles.
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
