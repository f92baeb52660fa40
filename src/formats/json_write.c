/* SPDX-License-Identifier: MIT
 *
 * json_write.c: see json_write.h.
 */
#include "formats/json_write.h"

#include <inttypes.h>
#include <stdio.h>

static void begin_member(esi_json_writer *w, const char *key)
{
    esi_text_append(w->ctx, w->text, "%s\n", w->comma ? "," : "");
    if (key) {
        esi_text_append_json_string(w->ctx, w->text, key);
        esi_text_append(w->ctx, w->text, ": ");
    }
    w->comma = true;
}

void esi_json_open(esi_json_writer *w, const char *key, char bracket)
{
    if (w->text->len > 0)
        begin_member(w, key);
    esi_text_append(w->ctx, w->text, "%c", bracket);
    w->comma = false;
}

void esi_json_close(esi_json_writer *w, char bracket)
{
    esi_text_append(w->ctx, w->text, "\n%c", bracket);
    w->comma = true;
}

void esi_json_put_number(esi_json_writer *w, const char *key, double value)
{
    begin_member(w, key);
    esi_text_append_json_number(w->ctx, w->text, value);
}

void esi_json_put_int(esi_json_writer *w, const char *key, int64_t value)
{
    begin_member(w, key);
    esi_text_append(w->ctx, w->text, "%" PRId64, value);
}

void esi_json_put_string(esi_json_writer *w, const char *key, const char *value)
{
    begin_member(w, key);
    if (value)
        esi_text_append_json_string(w->ctx, w->text, value);
    else
        esi_text_append(w->ctx, w->text, "null");
}

void esi_json_put_bool(esi_json_writer *w, const char *key, bool value)
{
    begin_member(w, key);
    esi_text_append(w->ctx, w->text, "%s", value ? "true" : "false");
}

void esi_json_put_hash(esi_json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, value);
    esi_json_put_string(w, key, text);
}
