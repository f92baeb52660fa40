/* SPDX-License-Identifier: MIT
 *
 * fuzz_json.c: JSON text -> document; walks it through every lookup.
 */
#include "fuzz.h"

#include "formats/json.h"

#include <stdlib.h>

static void check(bool promise)
{
    if (!promise) abort();
}

static void walk(const esi_json *v, uint64_t size)
{
    const esi_json *child;
    const char *key, *text;
    void *iterator = NULL;
    size_t n = 0;
    double number;
    int64_t integer;
    bool boolean;

    if (esi_json_is_object(v)) {
        while ((key = esi_json_next(v, &iterator, &child)) != NULL) {
            check(esi_json_get(v, key) == child);
            walk(child, size);
            n++;
        }
        check(n == esi_json_size(v));
    } else if (esi_json_is_array(v)) {
        for (; n < esi_json_size(v) && n < 100; n++) walk(esi_json_at(v, n), size);
        check(esi_json_at(v, esi_json_size(v)) == NULL);
    } else {
        bool has_number = esi_json_double(v, &number);
        if (has_number) check(number - number == 0);
        if (esi_json_int(v, &integer)) check(has_number);
        check(esi_json_is_null(v) + esi_json_string(v, &text) + has_number + esi_json_bool(v, &boolean) == 1);
        if (esi_json_string(v, &text)) check(strlen(text) < size);
    }
}

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    esi_json *root = NULL;

    if (esi_json_parse(ctx, &root, data, size, "fuzz.json", ESPALIER_ERR_INPUT) != ESPALIER_OK) return false;
    walk(root, size);
    esi_json_path(root, "a.b.c");
    esi_json_key_at(root, 3, NULL);
    esi_json_free(root);
    return true;
}
