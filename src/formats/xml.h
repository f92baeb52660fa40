/* SPDX-License-Identifier: MIT
 *
 * xml.h: the tags of an XML text one after the other: what 3MF needs of it. Names are compared without their prefix. No document types, no
 * entities but the five of XML and numbers.
 */
#ifndef ESI_XML_H
#define ESI_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct esi_xml {
    const char *at, *end;
    bool damaged;                  /* where the text ended too early or is no XML */
} esi_xml;

typedef struct esi_xml_tag {
    const char *name;              /* local part */
    size_t name_len;
    const char *attributes, *attributes_end;
    bool closes, empty;            /* </a>, <a/> */
} esi_xml_tag;

/* The next tag; false at the end, or when damaged. Text, comments and instructions are stepped over. */
bool esi_xml_next(esi_xml *x, esi_xml_tag *tag);
bool esi_xml_is(const esi_xml_tag *tag, const char *name);
/* Value of an attribute by its local name, as written. */
bool esi_xml_attribute(const esi_xml_tag *tag, const char *name, const char **value, size_t *len);
/* The same as a number, a whole one at most `limit`, and as text of at most `size` bytes with entities replaced. */
bool esi_xml_number(const esi_xml_tag *tag, const char *name, double *out);
bool esi_xml_index(const esi_xml_tag *tag, const char *name, int64_t limit, int32_t *out);
bool esi_xml_text(const esi_xml_tag *tag, const char *name, char *out, size_t size);

#endif
