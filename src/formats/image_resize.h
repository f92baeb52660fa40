/* SPDX-License-Identifier: MIT
 *
 * image_resize.h: change the size of an 8-bit picture, every bit as Pillow does it.
 */
#ifndef ESI_IMAGE_RESIZE_H
#define ESI_IMAGE_RESIZE_H

#include "base/base.h"

#include <espalier/image.h>

typedef enum esi_resize_filter {
    ESI_RESIZE_BILINEAR,       /* antialiased when shrinking, like the other two */
    ESI_RESIZE_BICUBIC,        /* a = -0.5 */
    ESI_RESIZE_LANCZOS         /* a = 3 */
} esi_resize_filter;

/* *out = `in` at w x h pixels, same channels, a picture of its own. RGBA goes through premultiplied colour and back. The same size is a
 * plain copy. ESPALIER_ERR_ARG when a side is 0, ESPALIER_ERR_RESOURCE without memory; *out is zeroed then. */
espalier_status esi_image_resize(espalier_context *ctx, espalier_image *out, const espalier_image *in, uint32_t w, uint32_t h,
                                 esi_resize_filter filter);

#endif
