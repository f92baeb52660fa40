/* SPDX-License-Identifier: MIT
 *
 * kind_telea.c: inpainting against OpenCV's bytes.
 */
#include "kinds.h"
#include "mesh/telea.h"

espalier_status golden_kind_telea(golden_case *c)
{
    const uint8_t *image, *mask;
    uint8_t *filled;
    golden_shape shape, mask_shape;
    espalier_status st = golden_u8(c, "in.image", &image, &shape);

    if (st == ESPALIER_OK) st = golden_u8(c, "in.mask", &mask, &mask_shape);
    if (st != ESPALIER_OK) return st;
    if ((shape.rank != 2 && shape.rank != 3) || mask_shape.rank != 2 || mask_shape.extent[0] != shape.extent[0] ||
        mask_shape.extent[1] != shape.extent[1]) {
        return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: image and mask do not go together", c->name);
    }
    filled = golden_alloc(c, (size_t)golden_shape_count(shape), 1);
    memcpy(filled, image, (size_t)golden_shape_count(shape));
    st = esi_telea_inpaint(c->ctx, filled, mask, (int32_t)shape.extent[1], (int32_t)shape.extent[0],
                           shape.rank == 3 ? (int32_t)shape.extent[2] : 1, golden_config_double(c, "radius", 3.0));
    if (st == ESPALIER_OK) golden_check(c, "out.image", filled, ESI_FILE_U8, shape);
    return st;
}
