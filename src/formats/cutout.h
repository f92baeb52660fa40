/* SPDX-License-Identifier: MIT
 *
 * cutout.h: mattes as plain pixels: a white backdrop taken away, the connected parts of a matte, and the numbers that tell a bad matte from
 * a good one. Knows no network.
 */
#ifndef ESI_CUTOUT_H
#define ESI_CUTOUT_H

#include "base/base.h"

#include <espalier/image.h>

#define ESI_CUTOUT_WHITE 232 /* the least channel of a backdrop's pixel, as trellis.cpp has it */

/* *mask (1 channel): 0 where white pixels hang together with the border by their sides, 255 elsewhere: highlights inside an object stay.
 * *border_white, which may be NULL: share of the border's pixels that are white. `rgb` has at least 3 channels. */
espalier_status esi_cutout_threshold(espalier_context *ctx, espalier_image *mask, const espalier_image *rgb, double *border_white);

/* Shares are 0..1. A pixel belongs to the matte from alpha 128 on; parts are sets of such pixels that touch by a side or a corner. */
typedef struct esi_cutout_stats {
    double coverage;     /* of the frame */
    double border;       /* of the outermost pixels */
    double centre;       /* of the middle half in both directions */
    double soft;         /* pixels with alpha 26..229 among those with 26..255 */
    uint64_t parts;
    uint64_t large_parts; /* of at least a tenth of the largest one's pixels */
    double largest_part;  /* share of the matte; 0 when it is empty */
} esi_cutout_stats;
/* `rgba` has 4 channels. Takes 5 bytes of memory for each pixel. */
espalier_status esi_cutout_measure(espalier_context *ctx, esi_cutout_stats *out, const espalier_image *rgba);

typedef struct esi_cutout_dropped {
    uint64_t parts;
    double share; /* of the matte's pixels */
} esi_cutout_dropped;
/* Alpha becomes 0 outside the largest part (of equal ones the first in reading order). Soft pixels go with the part that they hang on. */
espalier_status esi_cutout_keep_largest(espalier_context *ctx, espalier_image *rgba, esi_cutout_dropped *dropped);

#endif
