/* SPDX-License-Identifier: MIT
 *
 * matting.h: a matting network with its recipe: picture in, alpha out. Which network a file holds is told by its tensors.
 */
#ifndef ESI_MATTING_H
#define ESI_MATTING_H

#include "formats/matte.h"
#include "formats/weights.h"

#include <espalier/matte.h>

typedef struct esi_matting esi_matting;
/* ERR_MODEL with what is wrong when the file is damaged or holds no known matting network. */
espalier_status esi_matting_open(espalier_context *ctx, esi_matting **out, const char *path);
/* The same over an open file, which is taken over on success and on failure. */
espalier_status esi_matting_open_file(espalier_context *ctx, esi_matting **out, esi_weight_file *file);
void esi_matting_free(espalier_context *ctx, esi_matting *m); /* NULL is fine */
const char *esi_matting_name(const esi_matting *m);           /* "BiRefNet", "U2-Net", "U2-NetP", "IS-Net" */
espalier_matte esi_matting_network(const esi_matting *m);
/* The weights are not needed for now: their pages may go back to the system. */
void esi_matting_rest(const esi_matting *m);

/* *mask: 1 channel, the size of `rgb` (3 channels, or 4 whose alpha is not looked at). side: of the square that the network sees; 0: what
 * it was trained at. Scans the weights for NaN and infinities the first time. */
espalier_status esi_matting_mask(espalier_context *ctx, esi_matting *m, const espalier_image *rgb, uint32_t side, espalier_image *mask);

#endif
