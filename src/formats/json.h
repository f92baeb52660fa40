/* SPDX-License-Identifier: MIT
 *
 * json.h: reading JSON (RFC 8259) through Jansson, with our errors and limits. The document is immutable after parsing and needs no
 * context.
 */
#ifndef ESI_JSON_H
#define ESI_JSON_H

#include "base/base.h"

typedef struct esi_json esi_json;           /* a document or a value in it */

#define ESI_JSON_MAX_DEPTH 64
#define ESI_JSON_MAX_SIZE  100000000u       /* also the limit that safetensors sets for its header */

/* Parse `size` bytes; `name` for messages. Depth, size limited as above; rejected beyond RFC 8259: a key twice, NUL in strings, integers
 * outside int64, reals outside double. Root must be an object or array. `status` is the class to report, with the position where reading
 * stopped: at what is wrong or right behind it. Release the root with esi_json_free(). */
espalier_status esi_json_parse(espalier_context *ctx, esi_json **out, const void *bytes, size_t size, const char *name,
                               espalier_status status);
/* The same for JSON inside a larger file: error positions count from `base`, the place of `bytes` in that file. */
espalier_status esi_json_parse_at(espalier_context *ctx, esi_json **out, const void *bytes, size_t size, const char *name, uint64_t base,
                                  espalier_status status);
espalier_status esi_json_load(espalier_context *ctx, esi_json **out, const char *path, espalier_status status);
void esi_json_free(esi_json *root);

/* Lookups give NULL when absent (or not of the wanted container); the path form walks "args.models". */
const esi_json *esi_json_get(const esi_json *object, const char *key);
const esi_json *esi_json_path(const esi_json *object, const char *dotted);
size_t esi_json_size(const esi_json *array_or_object);
const esi_json *esi_json_at(const esi_json *array, size_t i);
const char *esi_json_key_at(const esi_json *object, size_t i, const esi_json **value);      /* in document order */
/* The same in a loop, linear instead of quadratic:
 * void *iterator = NULL; while ((key = esi_json_next(object, &iterator, &value)) != NULL) ... */
const char *esi_json_next(const esi_json *object, void **iterator, const esi_json **value);

bool esi_json_is_null(const esi_json *v);
bool esi_json_is_object(const esi_json *v);
bool esi_json_is_array(const esi_json *v);
bool esi_json_is_integer(const esi_json *v);           /* written without fraction and exponent */
/* false (and *out unchanged) when v is NULL or of another type; numbers: integers are accepted as doubles, a double with an integer value
 * is accepted as integer. */
bool esi_json_string(const esi_json *v, const char **out);
bool esi_json_double(const esi_json *v, double *out);
bool esi_json_int(const esi_json *v, int64_t *out);
bool esi_json_bool(const esi_json *v, bool *out);

#endif
