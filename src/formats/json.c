/* SPDX-License-Identifier: MIT
 *
 * json.c: bytes -> immutable JSON document (RFC 8259), read by Jansson. Around it, what a library that meets untrusted files under a
 * memory budget needs: one pass over the bytes checks the outline (brackets, depth, nothing behind the end) and adds up the memory that
 * Jansson will take in many small blocks that no account sees.
 */
#include "formats/json.h"

#include <jansson.h>

#include <locale.h>

/* What Jansson 2.14 allocates per piece of a document, from its structures and glibc's rounding, a little high. */
#define OBJECT_COST  256
#define ARRAY_COST   160
#define MEMBER_COST  112
#define VALUE_COST   96
#define MOST_MEMORY  (UINT64_C(4) << 30) /* a header of 2^20 tensors takes less than 3 GiB */
#define TOKEN_MARGIN 8

/* An esi_json is a json_t that nobody writes to; Jansson's readers are not const-correct. */
static json_t *unwrap(const esi_json *v)
{
    return (json_t *)(uintptr_t)v;
}

static const esi_json *wrap(const json_t *v)
{
    return (const esi_json *)(const void *)v;
}

/* ----------------------------------------------------------------- outline */

typedef struct source {
    espalier_context *ctx;
    const char *name;
    espalier_status status; /* of a syntax error */
    uint64_t base;
    const char *text;
    size_t size;
    uint64_t memory;      /* estimate of what the document will take */
    size_t longest_token; /* an upper bound */
} source;

static espalier_status fail_syntax(const source *s, size_t at, const char *what)
{
    size_t line = 1, column = 1;

    for (size_t i = 0; i < at; i++) {
        column++;
        if (s->text[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return esi_fail_at(s->ctx, s->status, (int64_t)(s->base + at), "%s: not valid JSON at byte %llu (line %zu, column %zu): %s", s->name,
                       (unsigned long long)(s->base + at), line, column, what);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Cost of what begins with or behind this byte outside a string. */
static unsigned cost_of(char c)
{
    switch (c) {
    case '{':
        return OBJECT_COST + VALUE_COST;
    case '[':
        return ARRAY_COST + VALUE_COST;
    case ':':
        return MEMBER_COST;
    case ',':
        return VALUE_COST;
    default:
        return 0;
    }
}

/* Behind the quote that closes the string of which text[i] is the first byte, or `size`. */
static size_t skip_string(const char *text, size_t i, size_t size)
{
    while (i < size && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    return i < size ? i + 1 : size;
}

/* Texts that are well formed otherwise pass; Jansson sees to the rest. */
static espalier_status check_outline(source *s)
{
    const char *text = s->text, *nul = s->size > 0 ? memchr(text, 0, s->size) : NULL;
    size_t begin, i = 0;
    int depth = 0;

    /* Jansson loses a NUL behind a number. */
    if (nul) return fail_syntax(s, (size_t)(nul - text), "a NUL byte");
    while (i < s->size && is_space(text[i])) i++;
    if (i == s->size || (text[i] != '{' && text[i] != '[')) return fail_syntax(s, i, "expected '{' or '['");
    begin = i;
    s->memory = 2 * (uint64_t)s->size; /* the copy that is parsed, the strings */
    do {
        char c = text[i++];
        s->memory += cost_of(c);
        if (c == '"') {
            begin = i - 1;
            i = skip_string(text, i, s->size);
        } else if (c == '{' || c == '[') {
            if (++depth > ESI_JSON_MAX_DEPTH) return fail_syntax(s, i - 1, "nested too deeply");
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c != ',' && c != ':' && !is_space(c)) {
            continue;
        }
        s->longest_token = ESI_MAX(s->longest_token, i - begin);
        begin = i;
    } while (depth > 0 && i < s->size);
    if (depth > 0) return fail_syntax(s, s->size, "the text ends too early");
    while (i < s->size && is_space(text[i])) i++;
    return i == s->size ? ESPALIER_OK : fail_syntax(s, i, "expected the end of the text");
}

/* ----------------------------------------------------------------- parsing */

/* Jansson 2.14 gathers a token in a buffer that doubles, and does not look whether that worked: out of memory, it would drop bytes of a
 * number or read on behind a string. So it gets the text as the second element of an array whose first is a string just long enough to
 * make the buffer hold every token to come; that buffer stays. This gives the length of that string: its token ends nowhere near a power
 * of two, where the buffer grows, so bytes that went missing in it do no harm and show. */
static size_t padding_for(size_t longest_token)
{
    size_t capacity = 32;

    while (capacity <= longest_token + TOKEN_MARGIN) capacity *= 2;
    return capacity / 2 + 6;
}

/* Jansson expects a decimal point of one byte. In a locale of the embedding program where it has more (Pashto), this thread changes to
 * "C"; never otherwise, as localeconv(), which Jansson asks, is shared by all threads. Give the result to leave_locale(). */
static locale_t enter_locale(void)
{
    if (localeconv()->decimal_point[1] == '\0') return (locale_t)0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return plain ? uselocale(plain) : (locale_t)0;
}

static void leave_locale(locale_t before)
{
    if (before) freelocale(uselocale(before));
}

/* Most failures of malloc() leave no code and no text. Where it is the room for a string, Jansson calls the string an invalid token;
 * nothing else that it says so of ends in a quote. */
static bool is_out_of_memory(const json_error_t *error, const char *text)
{
    enum json_error_code code = json_error_code(error);
    bool token = strncmp(error->text, "invalid token", 13) == 0 || strncmp(error->text, "string or '}' expected", 22) == 0;

    return code == json_error_out_of_memory || (code == json_error_unknown && error->text[0] == '\0') ||
           (token && error->position > 0 && text[error->position - 1] == '"');
}

/* `text` is ["padding",document]. */
static espalier_status run_parser(const source *s, esi_json **out, const char *text, size_t size, size_t padding)
{
    const size_t lead = padding + 4;
    json_error_t error;

    memset(&error, 0, sizeof error);
    locale_t before = enter_locale();
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    leave_locale(before);
    if (!root && !is_out_of_memory(&error, text)) {
        size_t position = error.position > 0 ? (size_t)error.position : 0;
        return fail_syntax(s, ESI_MIN(s->size, position > lead ? position - lead : 0), error.text);
    }
    if (json_string_length(json_array_get(root, 0)) == padding) *out = (esi_json *)(void *)json_incref(json_array_get(root, 1));
    json_decref(root);
    return *out ? ESPALIER_OK : esi_fail(s->ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory while parsing JSON", s->name);
}

/* Refuses what is too large before Jansson begins; `padding` enters as text, as string and, doubled, as token buffer. */
static espalier_status reserve(const source *s, size_t padding)
{
    uint64_t need = s->memory + 6 * (uint64_t)padding, left = esi_memory_left(s->ctx);
    void *room;

    if (need > MOST_MEMORY || need > SIZE_MAX)
        return esi_fail_at(s->ctx, s->status, (int64_t)s->base,
                           "%s: reading this JSON takes %llu bytes of memory; at most %llu are accepted", s->name, (unsigned long long)need,
                           (unsigned long long)MOST_MEMORY);
    if (need > left)
        return esi_fail(s->ctx, ESPALIER_ERR_RESOURCE, "%s: reading JSON takes %llu bytes of memory, the budget has %llu left", s->name,
                        (unsigned long long)need, (unsigned long long)left);
    /* The system says no to a large block more cleanly than Jansson to a small one. */
    room = esi_raw_alloc(esi_allocator(s->ctx), (size_t)need);
    if (!room) return esi_fail(s->ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory for JSON of %zu bytes", s->name, s->size);
    esi_raw_free(esi_allocator(s->ctx), room, (size_t)need);
    return ESPALIER_OK;
}

espalier_status esi_json_parse_at(espalier_context *ctx, esi_json **out, const void *bytes, size_t size, const char *name, uint64_t base,
                                  espalier_status status)
{
    source s = {.ctx = ctx, .name = name, .status = status, .base = base, .text = bytes, .size = size};
    size_t padding, len;
    char *text;
    espalier_status st;

    *out = NULL;
    if (size > ESI_JSON_MAX_SIZE)
        return esi_fail_at(ctx, status, (int64_t)base, "%s: JSON of %zu bytes; at most %u are read", name, size, ESI_JSON_MAX_SIZE);
    st = check_outline(&s);
    if (st != ESPALIER_OK) return st;
    padding = padding_for(s.longest_token);
    st = reserve(&s, padding);
    if (st != ESPALIER_OK) return st;

    len = padding + 4 + size + 1;
    text = esi_alloc(ctx, 1, len, "a JSON document");
    if (!text) return ESPALIER_ERR_RESOURCE;
    memcpy(text, "[\"", 2);
    memset(text + 2, '-', padding);
    memcpy(text + 2 + padding, "\",", 2);
    memcpy(text + 4 + padding, bytes, size);
    text[len - 1] = ']';
    st = run_parser(&s, out, text, len, padding);
    esi_free(ctx, text);
    return st;
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
    json_decref((json_t *)(void *)root);
}

/* ----------------------------------------------------------------- lookups */

const esi_json *esi_json_get(const esi_json *object, const char *key)
{
    return wrap(json_object_get(unwrap(object), key));
}

const esi_json *esi_json_path(const esi_json *object, const char *dotted)
{
    const char *end;

    while ((end = strchr(dotted, '.')) != NULL) {
        object = wrap(json_object_getn(unwrap(object), dotted, (size_t)(end - dotted)));
        dotted = end + 1;
    }
    return esi_json_get(object, dotted);
}

size_t esi_json_size(const esi_json *array_or_object)
{
    const json_t *v = unwrap(array_or_object);
    return json_is_array(v) ? json_array_size(v) : json_object_size(v);
}

const esi_json *esi_json_at(const esi_json *array, size_t i)
{
    return wrap(json_array_get(unwrap(array), i));
}

const char *esi_json_next(const esi_json *object, void **iterator, const esi_json **value)
{
    json_t *v = unwrap(object);

    *iterator = *iterator ? json_object_iter_next(v, *iterator) : json_object_iter(v);
    if (!*iterator) return NULL;
    if (value) *value = wrap(json_object_iter_value(*iterator));
    return json_object_iter_key(*iterator);
}

const char *esi_json_key_at(const esi_json *object, size_t i, const esi_json **value)
{
    void *iterator = NULL;
    const char *key;

    do {
        key = esi_json_next(object, &iterator, value);
    } while (key != NULL && i-- > 0);
    return key;
}

/* ------------------------------------------------------------------ values */

bool esi_json_is_null(const esi_json *v)
{
    return json_is_null(unwrap(v));
}

bool esi_json_is_object(const esi_json *v)
{
    return json_is_object(unwrap(v));
}

bool esi_json_is_array(const esi_json *v)
{
    return json_is_array(unwrap(v));
}

bool esi_json_is_integer(const esi_json *v)
{
    return json_is_integer(unwrap(v));
}

bool esi_json_string(const esi_json *v, const char **out)
{
    if (!json_is_string(unwrap(v))) return false;
    *out = json_string_value(unwrap(v));
    return true;
}

bool esi_json_double(const esi_json *v, double *out)
{
    if (!json_is_number(unwrap(v))) return false;
    *out = json_number_value(unwrap(v));
    return true;
}

bool esi_json_int(const esi_json *v, int64_t *out)
{
    const json_t *number = unwrap(v);

    if (json_is_integer(number)) {
        *out = json_integer_value(number);
        return true;
    }
    if (!json_is_real(number)) return false;
    double value = json_real_value(number);
    if (!(value >= -0x1p63 && value < 0x1p63)) return false;
    int64_t whole = (int64_t)value;
    if ((double)whole != value) return false;
    *out = whole;
    return true;
}

bool esi_json_bool(const esi_json *v, bool *out)
{
    if (!json_is_boolean(unwrap(v))) return false;
    *out = json_is_true(unwrap(v));
    return true;
}
