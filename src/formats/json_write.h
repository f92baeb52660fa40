/* SPDX-License-Identifier: MIT
 *
 * json_write.h: writing JSON into a text, one member a line: report and inspect. Errors stay in the text's `failed`.
 */
#ifndef ESI_JSON_WRITE_H
#define ESI_JSON_WRITE_H

#include "base/base.h"

typedef struct esi_json_writer {
    espalier_context *ctx;
    esi_text *text;
    bool comma;                    /* the open group has a member already */
} esi_json_writer;

/* key NULL: an array's element. bracket is '{' or '[', and its partner when closing. */
void esi_json_open(esi_json_writer *w, const char *key, char bracket);
void esi_json_close(esi_json_writer *w, char bracket);
void esi_json_put_number(esi_json_writer *w, const char *key, double value);
void esi_json_put_int(esi_json_writer *w, const char *key, int64_t value);
void esi_json_put_string(esi_json_writer *w, const char *key, const char *value);     /* NULL gives null */
void esi_json_put_bool(esi_json_writer *w, const char *key, bool value);
void esi_json_put_hash(esi_json_writer *w, const char *key, uint64_t value);          /* 16 hex digits as a string */

#endif
