/* SPDX-License-Identifier: MIT
 *
 * json.c: bytes -> immutable JSON document (RFC 8259, stricter: no key twice, no NUL in strings, numbers that a double can hold).
 *
 * The text is parsed twice by the same code: once to check it and count, once to store. So a document is one block of known size: one
 * allocation that can fail, and no more memory than about 32 bytes per value. Values lie in document order, children behind their
 * container; `span` leads from one child to the next. Recursion is bounded by ESI_JSON_MAX_DEPTH.
 */
#include "formats/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_VALUES (1u << 24)
#define MAX_NUMBER 512 /* characters; 17 digits and an exponent are enough for any double */
#define FEW_KEYS   16  /* up to here comparing all pairs beats sorting */

typedef enum json_type { TYPE_NULL, TYPE_BOOL, TYPE_INTEGER, TYPE_REAL, TYPE_STRING, TYPE_ARRAY, TYPE_OBJECT } json_type;

struct esi_json {
    const char *key; /* NULL unless member of an object */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string;
    } u;
    uint32_t count; /* children of a container */
    uint32_t span;  /* values in this subtree, this one included */
    uint32_t at;    /* position in the text: of the key, or of the value if it has none */
    json_type type;
};

/* In front of the root value. */
typedef struct document {
    espalier_allocator allocator;
    size_t size;
    esi_json values[];
} document;

typedef struct parser {
    espalier_context *ctx;
    const char *name;
    espalier_status status; /* of a syntax error */
    uint64_t base;
    const uint8_t *text;
    size_t size, pos;
    int depth;
    esi_json *values; /* NULL in the first pass */
    char *chars;      /* NULL in the first pass */
    size_t n_values, n_chars;
} parser;

static espalier_status fail_syntax(const parser *p, size_t at, const char *what)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < at; i++) {
        column++;
        if (p->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return esi_fail_at(p->ctx, p->status, (int64_t)(p->base + at), "%s: not valid JSON at byte %llu (line %zu, column %zu): %s", p->name,
                       (unsigned long long)(p->base + at), line, column, what);
}

/* The next byte, or -1 at the end; no JSON syntax needs a NUL, so one in the text is an ordinary wrong byte. */
static int peek(const parser *p)
{
    return p->pos < p->size ? p->text[p->pos] : -1;
}

static void skip_space(parser *p)
{
    while (p->pos < p->size && (p->text[p->pos] == ' ' || p->text[p->pos] == '\n' || p->text[p->pos] == '\r' || p->text[p->pos] == '\t'))
        p->pos++;
}

static void put_char(parser *p, unsigned c)
{
    if (p->chars) p->chars[p->n_chars] = (char)(unsigned char)c;
    p->n_chars++;
}

/* ----------------------------------------------------------------- strings */

static void put_code_point(parser *p, uint32_t code)
{
    if (code < 0x80) {
        put_char(p, code);
    } else if (code < 0x800) {
        put_char(p, 0xc0 | code >> 6);
        put_char(p, 0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put_char(p, 0xe0 | code >> 12);
        put_char(p, 0x80 | (code >> 6 & 0x3f));
        put_char(p, 0x80 | (code & 0x3f));
    } else {
        put_char(p, 0xf0 | code >> 18);
        put_char(p, 0x80 | (code >> 12 & 0x3f));
        put_char(p, 0x80 | (code >> 6 & 0x3f));
        put_char(p, 0x80 | (code & 0x3f));
    }
}

/* Four hexadecimal digits at the cursor; false if there are not four. */
static bool take_hex4(parser *p, uint32_t *out)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        int c = peek(p);
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint32_t)(c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            value = value << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        else
            return false;
        p->pos++;
    }
    *out = value;
    return true;
}

/* Behind "\u". Characters beyond U+FFFF are written as two escapes, high surrogate first. */
static espalier_status take_unicode_escape(parser *p)
{
    size_t at = p->pos - 2;
    uint32_t code, low;

    if (!take_hex4(p, &code)) return fail_syntax(p, at, "\\u needs four hexadecimal digits");
    if (code == 0) return fail_syntax(p, at, "a NUL character is not accepted");
    if (code >= 0xd800 && code <= 0xdfff) {
        bool pair = code < 0xdc00 && p->size - p->pos >= 2 && p->text[p->pos] == '\\' && p->text[p->pos + 1] == 'u';
        if (pair) p->pos += 2;
        if (!pair || !take_hex4(p, &low) || low < 0xdc00 || low > 0xdfff) return fail_syntax(p, at, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    put_code_point(p, code);
    return ESPALIER_OK;
}

static espalier_status take_escape(parser *p)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char *found;
    int c;

    p->pos++;
    c = peek(p);
    if (c == 'u') {
        p->pos++;
        return take_unicode_escape(p);
    }
    found = c > 0 ? strchr(letters, c) : NULL;
    if (!found) return fail_syntax(p, p->pos - 1, "unknown escape in a string");
    put_char(p, (unsigned char)meanings[found - letters]);
    p->pos++;
    return ESPALIER_OK;
}

static espalier_status take_string(parser *p, const char **out)
{
    size_t begin = p->pos++;
    espalier_status st = ESPALIER_OK;
    int c;

    if (p->chars) *out = p->chars + p->n_chars;
    while (st == ESPALIER_OK && (c = peek(p)) != '"') {
        if (c < 0) return fail_syntax(p, begin, "the string is never closed");
        if (c < 0x20) return fail_syntax(p, p->pos, "control character in a string");
        if (c == '\\') {
            st = take_escape(p);
            continue;
        }
        bool valid;
        size_t len = esi_utf8_length(p->text + p->pos, p->size - p->pos, &valid);
        if (!valid) return fail_syntax(p, p->pos, "a string is not UTF-8");
        while (len-- > 0) put_char(p, p->text[p->pos++]);
    }
    if (st != ESPALIER_OK) return st;
    p->pos++;
    put_char(p, 0);
    return ESPALIER_OK;
}

/* ----------------------------------------------------------------- numbers */

static size_t take_digits(parser *p)
{
    size_t begin = p->pos;
    while (p->pos < p->size && p->text[p->pos] >= '0' && p->text[p->pos] <= '9') p->pos++;
    return p->pos - begin;
}

/* Moves over a number; false if its form is wrong. */
static bool scan_number(parser *p, bool *whole)
{
    *whole = true;
    if (peek(p) == '-') p->pos++;
    if (peek(p) == '0')
        p->pos++;
    else if (take_digits(p) == 0)
        return false;
    if (peek(p) == '.') {
        *whole = false;
        p->pos++;
        if (take_digits(p) == 0) return false;
    }
    if (peek(p) == 'e' || peek(p) == 'E') {
        *whole = false;
        p->pos++;
        if (peek(p) == '+' || peek(p) == '-') p->pos++;
        if (take_digits(p) == 0) return false;
    }
    return true;
}

/* false if the digits exceed int64. */
static bool to_integer(const uint8_t *text, size_t len, int64_t *out)
{
    bool negative = text[0] == '-';
    int64_t value = 0;

    for (size_t i = negative; i < len; i++) {
        int digit = text[i] - '0';
        /* Counted downwards, where int64 reaches one further. */
        if (value < (INT64_MIN + digit) / 10) return false;
        value = value * 10 - digit;
    }
    if (!negative && value == INT64_MIN) return false;
    *out = negative ? value : -value;
    return true;
}

/* strtod reads the decimal point of the locale that the embedding program may have set. What is between the digits of 0.5 is that point. */
static double to_real(const uint8_t *text, size_t len)
{
    char number[MAX_NUMBER + 32], half[32];
    const uint8_t *dot = memchr(text, '.', len);
    size_t n = 0, head = dot ? (size_t)(dot - text) : len;

    memcpy(number, text, head);
    n = head;
    if (dot) {
        int printed = snprintf(half, sizeof half, "%.1f", 0.5);
        size_t point = printed >= 3 && printed < (int)sizeof half ? (size_t)printed - 2 : 0;
        memcpy(number + n, half + 1, point);
        n += point;
        memcpy(number + n, dot + 1, len - head - 1);
        n += len - head - 1;
    }
    number[n] = '\0';
    return strtod(number, NULL);
}

static espalier_status take_number(parser *p, esi_json *v)
{
    size_t begin = p->pos;
    bool whole;

    if (!scan_number(p, &whole)) return fail_syntax(p, begin, "malformed number");
    if (p->pos - begin > MAX_NUMBER) return fail_syntax(p, begin, "number of too many digits");
    v->type = TYPE_INTEGER;
    if (whole && to_integer(p->text + begin, p->pos - begin, &v->u.integer)) return ESPALIER_OK;
    v->type = TYPE_REAL;
    v->u.real = to_real(p->text + begin, p->pos - begin);
    if (!isfinite(v->u.real)) return fail_syntax(p, begin, "number overflows a double");
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------ values */

static espalier_status take_value(parser *p, const char *key, size_t at);

static int compare_keys(const void *a, const void *b)
{
    const esi_json *va = *(const esi_json *const *)a, *vb = *(const esi_json *const *)b;
    int order = strcmp(va->key, vb->key);
    if (order != 0) return order;
    return va < vb ? -1 : va > vb;
}

static const esi_json *find_key(const esi_json *object, const char *key, size_t len, const esi_json *end)
{
    for (const esi_json *v = object + 1; v < end; v += v->span)
        if (strncmp(v->key, key, len) == 0 && v->key[len] == '\0') return v;
    return NULL;
}

static espalier_status check_keys(const parser *p, const esi_json *object)
{
    const esi_json *end = object + object->span, *twice = NULL;

    if (object->count <= FEW_KEYS) {
        for (const esi_json *v = object + 1; v < end && !twice; v += v->span)
            if (find_key(object, v->key, strlen(v->key), v)) twice = v;
    } else {
        const esi_json **order = esi_alloc(p->ctx, object->count, sizeof *order, "the keys of a JSON object");
        size_t n = 0;
        if (!order) return ESPALIER_ERR_RESOURCE;
        for (const esi_json *v = object + 1; v < end; v += v->span) order[n++] = v;
        qsort(order, n, sizeof *order, compare_keys);
        for (size_t i = 1; i < n && !twice; i++)
            if (strcmp(order[i - 1]->key, order[i]->key) == 0) twice = order[i];
        esi_free(p->ctx, order);
    }
    return twice ? fail_syntax(p, twice->at, "a key occurs twice in an object") : ESPALIER_OK;
}

/* One `"key": value`; the cursor is at what should be the quote. */
static espalier_status take_member(parser *p)
{
    const char *key = NULL;
    size_t at = p->pos;
    espalier_status st;

    if (peek(p) != '"') return fail_syntax(p, p->pos, "expected a key in quotes");
    st = take_string(p, &key);
    if (st != ESPALIER_OK) return st;
    skip_space(p);
    if (peek(p) != ':') return fail_syntax(p, p->pos, "expected ':'");
    p->pos++;
    skip_space(p);
    return take_value(p, key, at);
}

static espalier_status take_container(parser *p, esi_json *v)
{
    size_t begin = p->pos++;
    bool object = p->text[begin] == '{';
    int close = object ? '}' : ']';

    v->type = object ? TYPE_OBJECT : TYPE_ARRAY;
    if (++p->depth > ESI_JSON_MAX_DEPTH) return fail_syntax(p, begin, "nested too deeply");
    skip_space(p);
    while (peek(p) != close) {
        espalier_status st;
        if (v->count > 0) {
            if (peek(p) != ',') return fail_syntax(p, p->pos, object ? "expected ',' or '}'" : "expected ',' or ']'");
            p->pos++;
            skip_space(p);
        }
        st = object ? take_member(p) : take_value(p, NULL, p->pos);
        if (st != ESPALIER_OK) return st;
        v->count++;
        skip_space(p);
    }
    p->pos++;
    p->depth--;
    return ESPALIER_OK;
}

static espalier_status take_literal(parser *p, esi_json *v)
{
    static const struct {
        const char *text;
        json_type type;
        bool boolean;
    } literals[] = {{"true", TYPE_BOOL, true}, {"false", TYPE_BOOL, false}, {"null", TYPE_NULL, false}};

    for (size_t i = 0; i < ESI_COUNT(literals); i++) {
        size_t len = strlen(literals[i].text);
        if (p->size - p->pos >= len && memcmp(p->text + p->pos, literals[i].text, len) == 0) {
            p->pos += len;
            v->type = literals[i].type;
            v->u.boolean = literals[i].boolean;
            return ESPALIER_OK;
        }
    }
    return fail_syntax(p, p->pos, p->pos < p->size ? "expected a value" : "the text ends too early");
}

static espalier_status take_value(parser *p, const char *key, size_t at)
{
    esi_json v = {.key = key, .at = (uint32_t)at};
    size_t index = p->n_values++;
    int c = peek(p);
    espalier_status st;

    if (p->n_values > MAX_VALUES) return fail_syntax(p, p->pos, "too many values");
    if (c == '{' || c == '[') {
        st = take_container(p, &v);
    } else if (c == '"') {
        v.type = TYPE_STRING;
        st = take_string(p, &v.u.string);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        st = take_number(p, &v);
    } else {
        st = take_literal(p, &v);
    }
    if (st != ESPALIER_OK || !p->values) return st;
    v.span = (uint32_t)(p->n_values - index);
    p->values[index] = v;
    return v.type == TYPE_OBJECT ? check_keys(p, &p->values[index]) : ESPALIER_OK;
}

/* One pass over the whole text. */
static espalier_status take_document(parser *p)
{
    espalier_status st;

    p->pos = p->n_values = p->n_chars = 0;
    p->depth = 0;
    skip_space(p);
    if (peek(p) != '{' && peek(p) != '[') return fail_syntax(p, p->pos, "expected '{' or '['");
    st = take_value(p, NULL, p->pos);
    if (st != ESPALIER_OK) return st;
    skip_space(p);
    return p->pos == p->size ? ESPALIER_OK : fail_syntax(p, p->pos, "expected the end of the text");
}

/* ---------------------------------------------------------------- documents */

static document *document_of(esi_json *root)
{
    return (document *)(void *)((char *)root - offsetof(document, values));
}

/* Room for what the first pass counted. */
static espalier_status reserve(parser *p)
{
    const espalier_allocator *allocator = esi_allocator(p->ctx);
    size_t size, table;
    document *d = NULL;

    if (esi_mul_size(&table, p->n_values, sizeof(esi_json)) && esi_add_size(&size, table, sizeof(document) + p->n_chars) &&
        size <= esi_memory_left(p->ctx))
        d = esi_raw_alloc(allocator, size);
    if (!d) return esi_fail(p->ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory for %zu JSON values", p->name, p->n_values);
    d->allocator = *allocator;
    d->size = size;
    p->values = d->values;
    p->chars = (char *)d + sizeof(document) + table;
    return ESPALIER_OK;
}

espalier_status esi_json_parse_at(espalier_context *ctx, esi_json **out, const void *bytes, size_t size, const char *name, uint64_t base,
                                  espalier_status status)
{
    parser p = {.ctx = ctx, .name = name, .status = status, .base = base, .text = bytes, .size = size};
    espalier_status st;

    *out = NULL;
    if (size > ESI_JSON_MAX_SIZE)
        return esi_fail_at(ctx, status, (int64_t)base, "%s: JSON of %zu bytes; at most %u are read", name, size, ESI_JSON_MAX_SIZE);
    st = take_document(&p);
    if (st == ESPALIER_OK) st = reserve(&p);
    if (st != ESPALIER_OK) return st;
    st = take_document(&p);
    if (st != ESPALIER_OK) {
        esi_json_free(p.values);
        return st;
    }
    *out = p.values;
    return ESPALIER_OK;
}

espalier_status esi_json_parse(espalier_context *ctx, esi_json **out, const void *bytes, size_t size, const char *name,
                               espalier_status status)
{
    return esi_json_parse_at(ctx, out, bytes, size, name, 0, status);
}

espalier_status esi_json_load(espalier_context *ctx, esi_json **out, const char *path, espalier_status status)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    espalier_status st;

    *out = NULL;
    st = esi_file_read(ctx, &bytes, &size, path, ESI_JSON_MAX_SIZE, status);
    if (st == ESPALIER_OK) st = esi_json_parse(ctx, out, bytes, size, path, status);
    esi_free(ctx, bytes);
    return st;
}

void esi_json_free(esi_json *root)
{
    if (!root) return;
    document *d = document_of(root);
    espalier_allocator allocator = d->allocator;
    esi_raw_free(&allocator, d, d->size);
}

/* ----------------------------------------------------------------- lookups */

static bool is_type(const esi_json *v, json_type type)
{
    return v && v->type == type;
}

static const esi_json *get(const esi_json *object, const char *key, size_t len)
{
    return is_type(object, TYPE_OBJECT) ? find_key(object, key, len, object + object->span) : NULL;
}

const esi_json *esi_json_get(const esi_json *object, const char *key)
{
    return get(object, key, strlen(key));
}

const esi_json *esi_json_path(const esi_json *object, const char *dotted)
{
    const char *end;

    while ((end = strchr(dotted, '.')) != NULL) {
        object = get(object, dotted, (size_t)(end - dotted));
        dotted = end + 1;
    }
    return esi_json_get(object, dotted);
}

size_t esi_json_size(const esi_json *array_or_object)
{
    return esi_json_is_array(array_or_object) || esi_json_is_object(array_or_object) ? array_or_object->count : 0;
}

const esi_json *esi_json_at(const esi_json *array, size_t i)
{
    if (!esi_json_is_array(array) || i >= array->count) return NULL;
    const esi_json *v = array + 1;
    while (i-- > 0) v += v->span;
    return v;
}

const char *esi_json_next(const esi_json *object, const esi_json **member)
{
    if (!esi_json_is_object(object)) return NULL;
    const esi_json *next = *member ? *member + (*member)->span : object + 1;
    if (next >= object + object->span) return NULL;
    *member = next;
    return next->key;
}

const char *esi_json_key_at(const esi_json *object, size_t i, const esi_json **value)
{
    const esi_json *member = NULL;
    const char *key;

    do {
        key = esi_json_next(object, &member);
    } while (key != NULL && i-- > 0);
    if (key && value) *value = member;
    return key;
}

uint64_t esi_json_position(const esi_json *v)
{
    return v->at;
}

/* ------------------------------------------------------------------ values */

bool esi_json_is_null(const esi_json *v)
{
    return is_type(v, TYPE_NULL);
}

bool esi_json_is_object(const esi_json *v)
{
    return is_type(v, TYPE_OBJECT);
}

bool esi_json_is_array(const esi_json *v)
{
    return is_type(v, TYPE_ARRAY);
}

bool esi_json_is_integer(const esi_json *v)
{
    return is_type(v, TYPE_INTEGER);
}

bool esi_json_string(const esi_json *v, const char **out)
{
    if (!is_type(v, TYPE_STRING)) return false;
    *out = v->u.string;
    return true;
}

bool esi_json_double(const esi_json *v, double *out)
{
    if (is_type(v, TYPE_INTEGER))
        *out = (double)v->u.integer;
    else if (is_type(v, TYPE_REAL))
        *out = v->u.real;
    else
        return false;
    return true;
}

bool esi_json_int(const esi_json *v, int64_t *out)
{
    if (is_type(v, TYPE_INTEGER)) {
        *out = v->u.integer;
        return true;
    }
    if (!is_type(v, TYPE_REAL) || !(v->u.real >= -0x1p63 && v->u.real < 0x1p63)) return false;
    int64_t whole = (int64_t)v->u.real;
    if ((double)whole != v->u.real) return false;
    *out = whole;
    return true;
}

bool esi_json_bool(const esi_json *v, bool *out)
{
    if (!is_type(v, TYPE_BOOL)) return false;
    *out = v->u.boolean;
    return true;
}
