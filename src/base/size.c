/* SPDX-License-Identifier: MIT
 *
 * size.c: products and sums of sizes that cannot overflow silently, and sizes for people.
 */
#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>

bool esi_mul_size(size_t *out, size_t a, size_t b)
{
    if (a != 0 && b > SIZE_MAX / a) {
        *out = SIZE_MAX;
        return false;
    }
    *out = a * b;
    return true;
}

bool esi_add_size(size_t *out, size_t a, size_t b)
{
    if (b > SIZE_MAX - a) {
        *out = SIZE_MAX;
        return false;
    }
    *out = a + b;
    return true;
}

/* Integers only: a program may have set a locale whose decimal point is a comma. */
void esi_size_text(char out[ESI_SIZE_TEXT], uint64_t bytes)
{
    static const char units[][4] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, ESI_SIZE_TEXT, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
        return;
    }
    unsigned shift = 10, unit = 0;
    while (unit + 1 < ESI_COUNT(units) && bytes >> (shift + 10) != 0) {
        shift += 10;
        unit++;
    }
    unsigned whole = (unsigned)(bytes >> shift);                                        /* below 1024 */
    unsigned rest = (unsigned)((bytes & ((UINT64_C(1) << shift) - 1)) >> (shift - 10)); /* in 1024ths */
    unsigned tenths = (rest * 10 + 512) >> 10;
    if (tenths == 10) {
        whole++;
        tenths = 0;
    }
    if (tenths == 0)
        snprintf(out, ESI_SIZE_TEXT, "%u %s", whole, units[unit]);
    else
        snprintf(out, ESI_SIZE_TEXT, "%u.%u %s", whole, tenths, units[unit]);
}
