/* SPDX-License-Identifier: MIT
 *
 * telea.h: inpainting by the fast marching method (Telea, An Image Inpainting Technique Based on the Fast Marching Method, 2004), equal to
 * OpenCV 4.6's INPAINT_TELEA in every byte.
 */
#ifndef ESI_MESH_TELEA_H
#define ESI_MESH_TELEA_H

#include "base/base.h"

/* Fill the pixels with mask != 0 in place. pixels [height][width][channels], channels 1 or 3; radius is rounded and clamped to 1..100. */
espalier_status esi_telea_inpaint(espalier_context *ctx, uint8_t *pixels, const uint8_t *mask, int32_t width, int32_t height,
                                  int32_t channels, double radius);

/* Channels of a picture that are filled together: pixel i has its `channels` (1 or 3) bytes at pixels + i * stride. */
typedef struct esi_telea_plane {
    uint8_t *pixels;
    int32_t stride, channels;
    double radius;
} esi_telea_plane;

/* Several pictures with one mask in one march, each with the bytes of a call of its own: the order of the march and the distances inside
 * the mask do not depend on the radius, and a pixel looks only at distances outside that its own radius reaches. Pictures of equal radius
 * share weights when they stand next to each other. */
espalier_status esi_telea_inpaint_planes(espalier_context *ctx, const esi_telea_plane *planes, int32_t n_planes, const uint8_t *mask,
                                         int32_t width, int32_t height);

#endif
