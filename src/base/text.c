/* SPDX-License-Identifier: MIT
 *
 * text.c: growing text, JSON strings and numbers, UTF-8.
 *
 * UTF-8 well-formedness follows table 3-7 of the Unicode standard; replacement follows its "maximal subpart" practice.
 */
#include "base/base.h"
#include "base/private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- UTF-8 */

size_t esi_utf8_length(const unsigned char *s, size_t len, bool *valid)
{
    unsigned char first = s[0];
    unsigned char low = 0x80, high = 0xBF;        /* bounds of the second byte: no overlong forms, surrogates, or beyond U+10FFFF */
    size_t want;
    *valid = true;
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) {
        want = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        want = 3;
        if (first == 0xE0) low = 0xA0;
        if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
        want = 4;
        if (first == 0xF0) low = 0x90;
        if (first == 0xF4) high = 0x8F;
    } else {
        *valid = false;
        return 1;
    }
    for (size_t i = 1; i < want; i++) {
        if (i >= len || s[i] < low || s[i] > high) {
            *valid = false;
            return i;
        }
        low = 0x80;
        high = 0xBF;
    }
    return want;
}

/* A file name may hold anything, also escape sequences for the terminal that shows the message (C1 controls are C2 80 .. C2 9F). */
void esi_clean_line(char *text)
{
    unsigned char *s = (unsigned char *)text;
    size_t len = strlen(text);
    for (size_t i = 0; i < len;) {
        bool valid;
        size_t n = esi_utf8_length(s + i, len - i, &valid);
        bool control = s[i] < 0x20 || s[i] == 0x7F || (valid && n == 2 && s[i] == 0xC2 && s[i + 1] < 0xA0);
        if (!valid || control) memset(s + i, '?', n);
        i += n;
    }
}

/* ------------------------------------------------------------ growing text */

static bool reserve(espalier_context *ctx, esi_text *t, size_t more)
{
    size_t need;
    if (t->failed) return false;
    if (!esi_add_size(&need, t->len, more) || !esi_add_size(&need, need, 1)) {
        esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: a text is longer than this machine can address");
        t->failed = true;
        return false;
    }
    if (need <= t->cap) return true;
    size_t cap = t->cap < 256 ? 256 : t->cap;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *data = esi_realloc(ctx, t->data, cap, 1, "text");
    if (data == NULL) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->cap = cap;
    return true;
}

void esi_text_append_bytes(espalier_context *ctx, esi_text *t, const void *bytes, size_t len)
{
    if (!reserve(ctx, t, len)) return;
    if (len != 0) memcpy(t->data + t->len, bytes, len);
    t->len += len;
    t->data[t->len] = '\0';
}

void esi_text_append(espalier_context *ctx, esi_text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len < 0) {
        if (!t->failed) esi_fail(ctx, ESPALIER_ERR_INTERNAL, "text cannot be formatted");
        t->failed = true;
    } else if (reserve(ctx, t, (size_t)len)) {
        vsnprintf(t->data + t->len, (size_t)len + 1, format, again);
        t->len += (size_t)len;
    }
    va_end(again);
    va_end(args);
}

void esi_text_free(espalier_context *ctx, esi_text *t)
{
    esi_free(ctx, t->data);
    t->data = NULL;
    t->len = t->cap = 0;
    t->failed = false;
}

/* -------------------------------------------------------------------- JSON */

static void append_escape(espalier_context *ctx, esi_text *t, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *hit = c == 0 ? NULL : strchr(from, c);
    if (hit != NULL) {
        char pair[2] = {'\\', to[hit - from]};
        esi_text_append_bytes(ctx, t, pair, 2);
    } else {
        esi_text_append(ctx, t, "\\u%04x", c);
    }
}

void esi_text_append_json_string(espalier_context *ctx, esi_text *t, const char *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    size_t len = strlen(s), plain = 0, i = 0;     /* [plain, i) is copied as it is */
    esi_text_append_bytes(ctx, t, "\"", 1);
    while (i < len) {
        bool valid;
        size_t n = esi_utf8_length(bytes + i, len - i, &valid);
        bool escape = bytes[i] < 0x20 || bytes[i] == '"' || bytes[i] == '\\';
        if (valid && !escape) {
            i += n;
            continue;
        }
        esi_text_append_bytes(ctx, t, s + plain, i - plain);
        if (valid)
            append_escape(ctx, t, bytes[i]);
        else
            esi_text_append_bytes(ctx, t, "\xEF\xBF\xBD", 3);
        i += n;
        plain = i;
    }
    esi_text_append_bytes(ctx, t, s + plain, len - plain);
    esi_text_append_bytes(ctx, t, "\"", 1);
}

/* printf and strtod agree on the decimal point whatever the locale, so reading back is compared first; then the point, which may be a
 * comma or several bytes, becomes '.'. */
static size_t plain_point(char *text)
{
    size_t n = 0;
    bool in_point = false;
    for (const char *p = text; *p != '\0'; p++) {
        bool number = (*p >= '0' && *p <= '9') || *p == '+' || *p == '-' || *p == 'e';
        if (number)
            text[n++] = *p;
        else if (!in_point)
            text[n++] = '.';
        in_point = !number;
    }
    text[n] = '\0';
    return n;
}

void esi_text_append_json_number(espalier_context *ctx, esi_text *t, double value)
{
    char text[64];
    if (!isfinite(value)) {
        esi_text_append_bytes(ctx, t, "null", 4);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    esi_text_append_bytes(ctx, t, text, plain_point(text));
}
