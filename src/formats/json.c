/* SPDX-License-Identifier: MIT
 *
 * json.c: bytes -> immutable JSON document, by Jansson. Jansson is recursive (its own limit is 2048 levels) and expands small input into
 * many small blocks that no account sees, so one pass over the bytes first checks depth and estimates the memory.
 */
#include "formats/json.h"

#include <jansson.h>

/* An esi_json is a json_t that nobody writes to; Jansson's readers are not const-correct. */
static json_t *unwrap(const esi_json *v)
{
    return (json_t *)(uintptr_t)v;
}

static const esi_json *wrap(const json_t *v)
{
    return (const esi_json *)(const void *)v;
}

/* ------------------------------------------------------------------ limits */

/* Measured with glibc malloc, rounded up: an empty container with its hash table, one member with its key and value. */
#define CONTAINER_COST 320
#define MEMBER_COST    160

typedef struct scan_result {
    uint64_t memory;    /* estimate of what the document will take */
    size_t too_deep_at; /* SIZE_MAX if the depth is fine */
} scan_result;

/* Brackets and commas outside strings. Broken input is fine here: the parser that follows rejects it. */
static scan_result scan_structure(const char *text, size_t size)
{
    scan_result result = {.memory = size, .too_deep_at = SIZE_MAX};
    bool in_string = false;
    int depth = 0;

    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
            continue;
        }
        switch (c) {
        case '"':
            in_string = true;
            break;
        case ',':
            result.memory += MEMBER_COST;
            break;
        case '[':
        case '{':
            result.memory += CONTAINER_COST + MEMBER_COST;
            if (++depth > ESI_JSON_MAX_DEPTH) {
                result.too_deep_at = i;
                return result;
            }
            break;
        case ']':
        case '}':
            if (depth > 0) depth--;
            break;
        default:
            break;
        }
    }
    return result;
}

/* ----------------------------------------------------------------- parsing */

static bool is_out_of_memory(const json_error_t *error)
{
    /* Some allocation failures inside Jansson leave no code and no text behind. */
    enum json_error_code code = json_error_code(error);
    return code == json_error_out_of_memory || (code == json_error_unknown && error->text[0] == '\0');
}

espalier_status esi_json_parse_at(espalier_context *ctx, esi_json **out, const void *bytes, size_t size, const char *name, uint64_t base,
                                  espalier_status status)
{
    const char *text = bytes;
    json_error_t error;
    json_t *root;

    *out = NULL;
    if (size > ESI_JSON_MAX_SIZE)
        return esi_fail_at(ctx, status, (int64_t)base, "%s: JSON of %zu bytes; at most %u are read", name, size, ESI_JSON_MAX_SIZE);
    scan_result scan = scan_structure(text, size);
    if (scan.too_deep_at != SIZE_MAX) {
        uint64_t at = base + scan.too_deep_at;
        return esi_fail_at(ctx, status, (int64_t)at, "%s: JSON at byte %llu nests deeper than %d levels", name, (unsigned long long)at,
                           ESI_JSON_MAX_DEPTH);
    }
    if (scan.memory > esi_memory_left(ctx))
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: parsing the JSON takes about %llu bytes, the memory budget has %llu left", name,
                        (unsigned long long)scan.memory, (unsigned long long)esi_memory_left(ctx));

    memset(&error, 0, sizeof error);
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        if (is_out_of_memory(&error)) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory while parsing JSON", name);
        uint64_t at = base + (error.position > 0 ? (uint64_t)error.position : 0);
        return esi_fail_at(ctx, status, (int64_t)at, "%s: not valid JSON at byte %llu (line %d, column %d): %s", name,
                           (unsigned long long)at, error.line, error.column, error.text);
    }
    *out = (esi_json *)(void *)root;
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
    json_decref((json_t *)(void *)root);
}

/* ----------------------------------------------------------------- lookups */

const esi_json *esi_json_get(const esi_json *object, const char *key)
{
    return wrap(json_object_get(unwrap(object), key));
}

const esi_json *esi_json_path(const esi_json *object, const char *dotted)
{
    json_t *v = unwrap(object);

    for (const char *part = dotted; v != NULL;) {
        const char *end = strchr(part, '.');
        size_t len = end ? (size_t)(end - part) : strlen(part);
        json_t *child = NULL;
        /* Keys are not NUL-terminated in the path, and Jansson 2.14 looks up whole strings only: compare while walking. */
        for (void *it = json_object_iter(v); it != NULL; it = json_object_iter_next(v, it)) {
            const char *key = json_object_iter_key(it);
            if (strncmp(key, part, len) == 0 && key[len] == '\0') {
                child = json_object_iter_value(it);
                break;
            }
        }
        v = child;
        if (!end) break;
        part = end + 1;
    }
    return wrap(v);
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
    void *it = NULL;
    const char *key;

    do {
        key = esi_json_next(object, &it, value);
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
