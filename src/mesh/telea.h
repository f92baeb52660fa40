/* SPDX-License-Identifier: MIT
 *
 * telea.h: inpainting by the fast marching method (Telea, An Image Inpainting Technique Based on the Fast Marching Method, 2004), equal to
 * OpenCV 4.6's INPAINT_TELEA in every byte.
 */
#ifndef ESI_MESH_TELEA_H
#define ESI_MESH_TELEA_H

#include "base/base.h"

/* Fill the pixels with mask != 0 in place. pixels [height][width][channels], channels 1 or 3; radius is rounded and clamped to 1..100. */
/* alier_status esi_telea_inpaint(espalier_context *ctx, uint8_t *pixels, const uint8_t *mask, int32_t width, int32_t height, int32_t
 * channels,
                                  double radius);

#endif
