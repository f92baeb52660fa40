/* SPDX-License-Identifier: MIT
 *
 * xml.c: see the header.
 */
#include "formats/xml.h"

#include "formats/numbers.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool starts(const esi_xml *x, const char *what)
{
    return (size_t)(x->end - x->at) >= strlen(what) && memcmp(x->at, what, strlen(what)) == 0;
}

/* Behind the next `what`; false (and damaged) without. */
static bool skip_past(esi_xml *x, const char *what)
{
    const size_t n = strlen(what);

    while ((size_t)(x->end - x->at) >= n) {
        const char *found = memchr(x->at, what[0], (size_t)(x->end - x->at) - n + 1);

        if (!found) break;
        x->at = found;
        if (memcmp(found, what, n) == 0) {
            x->at += n;
            return true;
        }
        x->at++;
    }
    x->damaged = true;
    x->at = x->end;
    return false;
}

/* Up to the '>' that ends a tag: those inside quotes do not. */
static const char *tag_end(const esi_xml *x)
{
    char quote = 0;

    for (const char *c = x->at; c < x->end; c++) {
        if (quote) {
            if (*c == quote) quote = 0;
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
        } else if (*c == '>') {
            return c;
        } else if (*c == '<') {
            return NULL;
        }
    }
    return NULL;
}

static bool read_tag(esi_xml *x, esi_xml_tag *tag)
{
    const char *end = tag_end(x), *name;

    if (!end) {
        x->damaged = true;
        return false;
    }
    tag->closes = x->at < end && *x->at == '/';
    name = x->at + tag->closes;
    tag->empty = end > name && end[-1] == '/';
    tag->attributes_end = end - tag->empty;
    tag->attributes = name;
    while (tag->attributes < tag->attributes_end && !is_space(*tag->attributes)) {
        if (*tag->attributes == ':') name = tag->attributes + 1;
        tag->attributes++;
    }
    tag->name = name;
    tag->name_len = (size_t)(tag->attributes - name);
    x->at = end + 1;
    if (tag->name_len == 0) x->damaged = true;
    return tag->name_len > 0;
}

bool esi_xml_next(esi_xml *x, esi_xml_tag *tag)
{
    for (;;) {
        const char *open = x->at < x->end ? memchr(x->at, '<', (size_t)(x->end - x->at)) : NULL;

        if (!open) {
            x->at = x->end;
            return false;
        }
        x->at = open + 1;
        if (starts(x, "!--")) {
            if (!skip_past(x, "-->")) return false;
        } else if (starts(x, "![CDATA[")) {
            if (!skip_past(x, "]]>")) return false;
        } else if (starts(x, "?")) {
            if (!skip_past(x, "?>")) return false;
        } else if (starts(x, "!")) {
            x->damaged = true;                   /* a document type: entities could grow without end */
            return false;
        } else {
            return read_tag(x, tag);
        }
    }
}

bool esi_xml_is(const esi_xml_tag *tag, const char *name)
{
    return tag->name_len == strlen(name) && memcmp(tag->name, name, tag->name_len) == 0;
}

bool esi_xml_attribute(const esi_xml_tag *tag, const char *name, const char **value, size_t *len)
{
    const char *at = tag->attributes, *end = tag->attributes_end;

    for (;;) {
        const char *key, *key_end, *close;

        while (at < end && is_space(*at)) at++;
        key = at;
        while (at < end && *at != '=' && !is_space(*at)) {
            if (*at == ':') key = at + 1;
            at++;
        }
        key_end = at;
        while (at < end && is_space(*at)) at++;
        if (at == end || *at != '=') return false;
        at++;
        while (at < end && is_space(*at)) at++;
        if (at == end || (*at != '"' && *at != '\'')) return false;
        close = memchr(at + 1, *at, (size_t)(end - at - 1));
        if (!close) return false;
        if ((size_t)(key_end - key) == strlen(name) && memcmp(key, name, strlen(name)) == 0) {
            *value = at + 1;
            *len = (size_t)(close - at - 1);
            return true;
        }
        at = close + 1;
    }
}

bool esi_xml_number(const esi_xml_tag *tag, const char *name, double *out)
{
    const char *value;
    size_t len;

    if (!esi_xml_attribute(tag, name, &value, &len)) return false;
    while (len > 0 && is_space(*value)) value++, len--;
    while (len > 0 && is_space(value[len - 1])) len--;
    return esi_parse_number(value, len, out);
}

bool esi_xml_index(const esi_xml_tag *tag, const char *name, int64_t limit, int32_t *out)
{
    double v;

    if (!esi_xml_number(tag, name, &v) || !(v >= 0.0 && v <= (double)limit) || (double)(int32_t)v != v) return false;
    *out = (int32_t)v;
    return true;
}

bool esi_xml_text(const esi_xml_tag *tag, const char *name, char *out, size_t size)
{
    static const struct { const char *entity; char c; } entities[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    const char *value;
    size_t len, n = 0;

    if (!esi_xml_attribute(tag, name, &value, &len)) return false;
    while (len > 0) {
        size_t used = 1, i = 0;
        char c = *value;

        for (; c == '&' && i < sizeof entities / sizeof entities[0]; i++) {
            const size_t e = strlen(entities[i].entity);

            if (len < e || memcmp(value, entities[i].entity, e) != 0) continue;
            c = entities[i].c;
            used = e;
            break;
        }
        if (n + 1 >= size) return false;
        out[n++] = c;
        value += used;
        len -= used;
    }
    out[n] = '\0';
    return true;
}
