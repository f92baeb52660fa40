/* SPDX-License-Identifier: MIT
 *
 * inspect_text.c: our JSON descriptions as lines for people: made from the JSON, so that the two cannot differ.
 */
#include <espalier/inspect.h>

#include "formats/json.h"

/* ------------------------------------------------------------- for people */

/* Names and texts of a file may hold anything, also escape sequences for the terminal that shows them. */
static void print_text(espalier_context *ctx, esi_text *t, const char *s)
{
    size_t begin = t->len;
    esi_text_append(ctx, t, "%s", s);
    if (!t->failed) esi_clean_line(t->data + begin);
}

static void print_value(espalier_context *ctx, esi_text *t, const esi_json *v)
{
    const char *s = NULL;
    double d = 0;
    bool b = false;
    int64_t i = 0;
    if (esi_json_string(v, &s))
        print_text(ctx, t, s);
    else if (esi_json_bool(v, &b))
        esi_text_append(ctx, t, "%s", b ? "yes" : "no");
    else if (esi_json_int(v, &i))
        esi_text_append(ctx, t, "%lld", (long long)i);
    else if (esi_json_double(v, &d))
        esi_text_append(ctx, t, "%.4g", d);
    else
        esi_text_append(ctx, t, "-");
}

/* "BF16:640,F32:2" */
static void print_inline(espalier_context *ctx, esi_text *t, const esi_json *object)
{
    const esi_json *v = NULL;
    const char *key, *comma = "";
    for (void *iterator = NULL; (key = esi_json_next(object, &iterator, &v)) != NULL; comma = ",") {
        esi_text_append(ctx, t, "%s%s:", comma, key);
        print_value(ctx, t, v);
    }
}

/* The members of an array's element, separated by two blanks; the first one needs no name. */
static void print_element(espalier_context *ctx, esi_text *t, const esi_json *element)
{
    if (!esi_json_is_object(element)) {
        print_value(ctx, t, element);
        esi_text_append(ctx, t, "\n");
        return;
    }
    const esi_json *member = NULL;
    const char *name, *gap = "";
    for (void *iterator = NULL; (name = esi_json_next(element, &iterator, &member)) != NULL;) {
        if (esi_json_is_array(member)) continue;
        if (gap[0]) esi_text_append(ctx, t, "%s%s=", gap, name);
        if (esi_json_is_object(member))
            print_inline(ctx, t, member);
        else
            print_value(ctx, t, member);
        gap = "  ";
    }
    esi_text_append(ctx, t, "\n");
}

/* Objects: a line per member. Arrays of objects: a line per element. */
static void print_object(espalier_context *ctx, esi_text *t, const esi_json *object, int indent)
{
    const esi_json *v = NULL;
    const char *key;
    for (void *iterator = NULL; (key = esi_json_next(object, &iterator, &v)) != NULL;) {
        esi_text_append(ctx, t, "%*s", indent, "");
        print_text(ctx, t, key);
        esi_text_append(ctx, t, ":");
        if (esi_json_is_object(v)) {
            esi_text_append(ctx, t, "\n");
            print_object(ctx, t, v, indent + 2);
        } else if (esi_json_is_array(v)) {
            esi_text_append(ctx, t, "\n");
            for (size_t k = 0; k < esi_json_size(v); k++) {
                esi_text_append(ctx, t, "%*s", indent + 2, "");
                print_element(ctx, t, esi_json_at(v, k));
            }
        } else {
            esi_text_append(ctx, t, " ");
            print_value(ctx, t, v);
            esi_text_append(ctx, t, "\n");
        }
    }
}

espalier_status espalier_json_text(espalier_context *ctx, const char *json, char **out)
{
    esi_json *root = NULL;
    esi_text text = {0};

    if (out) *out = NULL;
    if (!ctx || !json || !out) return esi_refuse_null(ctx, __func__);
    esi_clear_error(ctx);
    espalier_status st = esi_json_parse(ctx, &root, json, strlen(json), "JSON", ESPALIER_ERR_ARG);
    if (st == ESPALIER_OK) {
        print_object(ctx, &text, root, 0);
        if (text.failed) st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory for the description");
    }
    esi_json_free(root);
    if (st == ESPALIER_OK)
        *out = text.data;
    else
        esi_text_free(ctx, &text);
    return st;
}

espalier_status espalier_inspect_text(espalier_context *ctx, const char *path, char **out)
{
    char *json = NULL;

    if (out) *out = NULL;
    if (!ctx || !path || !out) return esi_refuse_null(ctx, __func__);
    espalier_status st = espalier_inspect(ctx, path, &json);
    if (st == ESPALIER_OK) st = espalier_json_text(ctx, json, out);
    esi_free(ctx, json);
    return st;
}
