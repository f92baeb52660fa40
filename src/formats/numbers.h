/* SPDX-License-Identifier: MIT
 *
 * numbers.h: words and decimal numbers of text formats, whatever the locale.
 */
#ifndef ESI_NUMBERS_H
#define ESI_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a text. */
typedef struct esi_scan {
    const uint8_t *at, *end;
} esi_scan;

/* Skip blanks (space, tab, CR, FF, VT; with `lines` also line feeds). */
void esi_scan_blanks(esi_scan *s, bool lines);
/* Move behind the next line feed; false at the end of the text. */
bool esi_scan_line(esi_scan *s);
/* The next word, over line ends: its start and length, or false at the end. */
bool esi_scan_word(esi_scan *s, const char **word, size_t *len);
bool esi_word_is(const char *word, size_t len, const char *what);

/* A whole word as a number: digits with point and exponent, "nan", "inf", "infinity" in any case, with a sign. Rounded to the nearest
 * double where it has at most 19 digits, but for what lies within 2^-100 of halfway and for numbers beyond 1e-250. false: not a number. */
bool esi_parse_number(const char *word, size_t len, double *out);
/* The next word as a number. */
bool esi_scan_number(esi_scan *s, double *out);

/* Six digits, or as many more as it takes to read back as the same float; NUL-terminated. Returns the length. Not finite: "0". */
#define ESI_FLOAT_TEXT 24
size_t esi_format_float(char out[ESI_FLOAT_TEXT], float value);

#endif
