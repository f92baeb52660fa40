/* SPDX-License-Identifier: MIT
 *
 * exif.h: the one EXIF field that changes a picture.
 */
#ifndef ESI_EXIF_H
#define ESI_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Orientation 1..8 of an EXIF block (a TIFF header "II*" or "MM*", with or without the leading "Exif\0\0" of JPEG); 1 when the block is
 * damaged or has none, as every viewer does. */
int esi_exif_orientation(const uint8_t *bytes, size_t len_bytes);

#endif
