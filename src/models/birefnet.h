/* SPDX-License-Identifier: MIT
 *
 * birefnet.h: BiRefNet: a picture to a foreground logit per pixel. Weights: model.safetensors of ZhengPeng7/BiRefNet or RMBG-2.0, or
 * trellis.cpp's birefnet.gguf; a Swin backbone of any size.
 */
#ifndef ESI_BIREFNET_H
#define ESI_BIREFNET_H

#include "models/deform_conv.h"
#include "models/swin.h"

#define ESI_BIREFNET_LEVELS 4

/* Convolution, deformable pyramid, convolution. */
typedef struct esi_birefnet_block {
    esi_conv2d conv_in, conv_out;
    esi_aspp aspp;
} esi_birefnet_block;

/* Two convolutions over the picture cut into tiles, tiles as channels. */
typedef struct esi_birefnet_patch {
    esi_conv2d conv1, conv_out;
} esi_birefnet_patch;

typedef struct esi_birefnet esi_birefnet;
/* Level i: 0 the finest of the backbone. */
struct esi_birefnet {
    esi_image_network network;
    esi_swin backbone;
    esi_birefnet_block squeeze, decode[ESI_BIREFNET_LEVELS];                   /* decoder_block<i + 1> */
    esi_birefnet_patch patch[ESI_BIREFNET_LEVELS + 1];                         /* ipt_blk<i + 1>; [0] at the picture's size */
    esi_conv2d gate[ESI_BIREFNET_LEVELS - 1], attend[ESI_BIREFNET_LEVELS - 1]; /* gdt_convs(_attn)_<i + 2> */
    esi_conv2d lateral[ESI_BIREFNET_LEVELS - 1];                               /* lateral_block<i + 2> on level i */
    esi_conv2d head;                                                           /* conv_out1 */
};

bool esi_birefnet_recognise(const esi_weight_file *file);
/* Takes over `file` on success and on failure. */
espalier_status esi_birefnet_open(espalier_context *ctx, esi_birefnet **out, esi_weight_file *file);
void esi_birefnet_free(espalier_context *ctx, esi_birefnet *m);
esi_weights *esi_birefnet_weights(esi_birefnet *m);
/* Sides must be multiples of this: the patch of the backbone times 8. */
int64_t esi_birefnet_multiple(const esi_birefnet *m);
/* Bytes that a picture cannot do without, however small the pieces are that the rest is done in. */
uint64_t esi_birefnet_memory_least(const esi_birefnet *m, int64_t H, int64_t W);
/* pixels: host [3, H, W], normalised. *logits: new tensor [H * W, 1] of the innermost scope. Taps: bb0.., enc_x1.., squeeze, logits. */
espalier_status esi_birefnet_forward(espalier_context *ctx, const esi_birefnet *m, esi_tensor *logits, const float *pixels, int64_t H,
                                     int64_t W);

#endif
