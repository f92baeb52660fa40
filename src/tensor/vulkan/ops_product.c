/* SPDX-License-Identifier: MIT
 *
 * ops_product.c: matrix products: linear layers and convolutions.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

espalier_status esi_vk_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    espalier_status st = TO_HOST("linear", OP_LINEAR, 1, x, w, e->bias, e->scale, e->gate, e->residual, y);
    return st == ESPALIER_OK ? esi_cpu_linear(ctx, y, x, w, e) : st;
}

espalier_status esi_vk_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                            const esi_epilogue *e)
{
    espalier_status st = TO_HOST("conv", OP_CONV, 1, x, table, w, e->bias, e->scale, e->gate, e->residual, y);
    return st == ESPALIER_OK ? esi_cpu_conv(ctx, y, x, table, w, layout, e) : st;
}
