/* SPDX-License-Identifier: MIT
 *
 * ops_attention.c: softmax attention (rule 7).
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

espalier_status esi_vk_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                 const esi_attention_args *a)
{
    espalier_status st = TO_HOST("attention", OP_ATTENTION, 1, q, k, v, a->bias, a->region, y);
    return st == ESPALIER_OK ? esi_cpu_attention(ctx, y, q, k, v, a) : st;
}
