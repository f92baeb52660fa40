/* SPDX-License-Identifier: MIT
 *
 * dinov3.h: insides of the image encoder, shared by dinov3.c (opening) and dinov3_forward.c. Letters: D hidden, N tokens, P patches.
 */
#ifndef ESI_DINOV3_H
#define ESI_DINOV3_H

#include "models/networks.h"

typedef struct dinov3_linear {
    esi_tensor weight, bias; /* [out, in]; [1, out] or null = zero */
} dinov3_linear;

typedef struct dinov3_layer {
    esi_tensor norm1_weight, norm1_bias, norm2_weight, norm2_bias; /* [1, D] */
    dinov3_linear q, k, v, o;                                      /* D -> D */
    dinov3_linear up, down;                                        /* D -> mlp -> D */
    esi_tensor scale1, scale2;                                     /* [1, D] layer scales */
} dinov3_layer;

struct esi_dinov3 {
    espalier_allocator allocator;
    esi_dinov3_config config;
    esi_weights *weights;
    esi_tensor cls, registers; /* [1, D], [registers, D] (null without registers) */
    dinov3_linear patch;       /* [D, 3 * patch * patch], order (channel, row, column) */
    dinov3_layer *layers;      /* [config.layers] */
};

#endif
