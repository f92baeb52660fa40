/* SPDX-License-Identifier: MIT
 *
 * map_case.h: what the kinds of the matting networks share: pictures [1, C, H, W] to and from rows of pixels.
 */
#ifndef MAP_CASE_H
#define MAP_CASE_H

#include "golden.h"
#include "models/image_layers.h"

/* Picture b of the stored [B, C, H, W] as rows; a new tensor of the innermost scope. */
espalier_status golden_map(golden_case *c, esi_map *map, const char *name, int64_t b);
/* Rows of pixels as planes [C, pixels], memory of the case. */
espalier_status golden_planes(golden_case *c, float **planes, esi_tensor rows);
/* Rows of pixels against the stored [1, C, H, W] or [1, pixels, C]. */
espalier_status golden_check_map(golden_case *c, const char *name, esi_tensor rows);
/* Every recorded tap whose "out.<name>" is stored. */
espalier_status golden_check_map_taps(golden_case *c);
/* Where the case's weights w.<prefix>* are opened from; *weights is released by the caller. */
espalier_status golden_layer_source(golden_case *c, esi_layer_source *s, esi_weights **weights, const char *prefix);

#endif
