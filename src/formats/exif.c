/* SPDX-License-Identifier: MIT
 *
 * exif.c: finds the orientation tag in the first directory of an EXIF block. Layout: TIFF 6.0 section 2, tag: Exif 2.3 section 4.6.4.
 * Reads at most one directory, so no chain of offsets can send it in circles.
 */
#include "formats/exif.h"

#include <stdbool.h>
#include <string.h>

enum {
    TIFF_MAGIC = 42,
    TIFF_HEADER_BYTES = 8,
    TIFF_ENTRY_BYTES = 12,
    TIFF_TYPE_SHORT = 3,
    TIFF_TYPE_LONG = 4,
    EXIF_TAG_ORIENTATION = 0x0112
};

static uint32_t read_u16(const uint8_t *p, bool big_endian)
{
    return big_endian ? (uint32_t)p[0] << 8 | p[1] : (uint32_t)p[1] << 8 | p[0];
}

static uint32_t read_u32(const uint8_t *p, bool big_endian)
{
    return big_endian ? read_u16(p, true) << 16 | read_u16(p + 2, true) : read_u16(p + 2, false) << 16 | read_u16(p, false);
}

/* Value of an entry if it is an orientation, else 0. */
static uint32_t entry_orientation(const uint8_t *entry, bool big_endian)
{
    uint32_t tag = read_u16(entry, big_endian), type = read_u16(entry + 2, big_endian), count = read_u32(entry + 4, big_endian);
    if (tag != EXIF_TAG_ORIENTATION || count != 1) return 0;
    if (type == TIFF_TYPE_SHORT) return read_u16(entry + 8, big_endian);
    if (type == TIFF_TYPE_LONG) return read_u32(entry + 8, big_endian);
    return 0;
}

int esi_exif_orientation(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t prefix[6] = {'E', 'x', 'i', 'f', 0, 0};
    if (len_bytes >= sizeof prefix && memcmp(bytes, prefix, sizeof prefix) == 0) {
        bytes += sizeof prefix;
        len_bytes -= sizeof prefix;
    }
    if (len_bytes < TIFF_HEADER_BYTES) return 1;

    bool big_endian = bytes[0] == 'M';
    if (bytes[0] != bytes[1] || (bytes[0] != 'M' && bytes[0] != 'I')) return 1;
    if (read_u16(bytes + 2, big_endian) != TIFF_MAGIC) return 1;

    size_t directory = read_u32(bytes + 4, big_endian);
    if (directory > len_bytes || len_bytes - directory < 2) return 1;
    size_t n_entries = read_u16(bytes + directory, big_endian);
    const uint8_t *entry = bytes + directory + 2;
    size_t left = len_bytes - directory - 2;
    for (size_t i = 0; i < n_entries && left >= TIFF_ENTRY_BYTES; i++) {
        uint32_t value = entry_orientation(entry, big_endian);
        if (value >= 1 && value <= 8) return (int)value;
        entry += TIFF_ENTRY_BYTES;
        left -= TIFF_ENTRY_BYTES;
    }
    return 1;
}
