/* SPDX-License-Identifier: MIT
 *
 * decoder_config.c: checked reading of the numbers in a decoder's config json.
 */
#include "models/decoder_config.h"

#include <inttypes.h>
#include <stdio.h>

static espalier_status bad_value(const esi_config_source *s, const char *key, const char *expected)
{
    return esi_fail(s->ctx, ESPALIER_ERR_MODEL, "%s: config: args.%s is missing or wrong, expected %s", esi_weight_file_path(s->file), key,
                    expected);
}

espalier_status esi_config_open(espalier_context *ctx, esi_config_source *out, const esi_weight_file *file, const esi_json *config,
                                const char *const *names, int *which)
{
    const char *name = NULL, *path = esi_weight_file_path(file);

    *out = (esi_config_source){.ctx = ctx, .file = file, .args = esi_json_get(config, "args")};
    if (!esi_json_string(esi_json_get(config, "name"), &name))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: name is missing", path);
    if (!esi_json_is_object(out->args)) return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: args is missing", path);
    for (int i = 0; names[i]; i++) {
        *which = i;
        if (strcmp(names[i], name) == 0) return ESPALIER_OK;
    }
    return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: config: name is %.64s, expected %s", path, name, names[0]);
}

espalier_status esi_config_int(const esi_config_source *s, const char *key, int64_t fallback, int64_t low, int64_t high, int *out)
{
    const esi_json *value = esi_json_get(s->args, key);
    int64_t number = fallback;
    char expected[64];

    if ((value == NULL && fallback != ESI_CONFIG_REQUIRED) || (esi_json_int(value, &number) && number >= low && number <= high)) {
        *out = (int)number;
        return ESPALIER_OK;
    }
    snprintf(expected, sizeof expected, "%" PRId64 " to %" PRId64, low, high);
    return bad_value(s, key, expected);
}

espalier_status esi_config_number(const esi_config_source *s, const char *key, double fallback, double low, double high, float *out)
{
    const esi_json *value = esi_json_get(s->args, key);
    double number = fallback;

    if (value != NULL && !(esi_json_double(value, &number) && number >= low && number <= high)) return bad_value(s, key, "a small number");
    *out = (float)number;
    return ESPALIER_OK;
}

espalier_status esi_config_bool(const esi_config_source *s, const char *key, bool fallback, bool *out)
{
    const esi_json *value = esi_json_get(s->args, key);

    *out = fallback;
    if (value != NULL && !esi_json_bool(value, out)) return bad_value(s, key, "true or false");
    return ESPALIER_OK;
}

espalier_status esi_config_int_list(const esi_config_source *s, const char *key, int64_t low, int64_t high, int capacity, int *out,
                                    int *count)
{
    const esi_json *list = esi_json_get(s->args, key);
    char expected[96];

    snprintf(expected, sizeof expected, "a list of 1 to %d numbers from %" PRId64 " to %" PRId64, capacity, low, high);
    if (!esi_json_is_array(list) || esi_json_size(list) < 1 || esi_json_size(list) > (size_t)capacity) return bad_value(s, key, expected);
    *count = (int)esi_json_size(list);
    for (int i = 0; i < *count; i++) {
        int64_t number;
        if (!esi_json_int(esi_json_at(list, (size_t)i), &number) || number < low || number > high) return bad_value(s, key, expected);
        out[i] = (int)number;
    }
    return ESPALIER_OK;
}

espalier_status esi_config_all_equal(const esi_config_source *s, const char *key, const char *value, int count)
{
    const esi_json *list = esi_json_get(s->args, key);
    char expected[96];

    if (list == NULL) return ESPALIER_OK;
    snprintf(expected, sizeof expected, "%d times \"%s\"", count, value);
    if (!esi_json_is_array(list) || esi_json_size(list) != (size_t)count) return bad_value(s, key, expected);
    for (int i = 0; i < count; i++) {
        const char *text;
        if (!esi_json_string(esi_json_at(list, (size_t)i), &text) || strcmp(text, value) != 0) return bad_value(s, key, expected);
    }
    return ESPALIER_OK;
}

int64_t esi_file_count(const esi_weight_file *file, const char *format, ...)
{
    char name[128];
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const esi_file_tensor *t = esi_weight_file_find(file, name);
    return t ? esi_file_tensor_count(t) : 0;
}
