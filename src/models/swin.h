/* SPDX-License-Identifier: MIT
 *
 * swin.h: the Swin Transformer backbone: a picture to four maps of 1/4 .. 1/32 of its size. Widths, depths, heads and window come from the
 * weights' shapes.
 */
#ifndef ESI_SWIN_H
#define ESI_SWIN_H

#include "models/image_layers.h"

#define ESI_SWIN_STAGES 4

typedef struct esi_swin_affine {
    esi_tensor weight, bias; /* of a layer norm [1, C], or of a linear [out, in], [1, out] (null: none) */
} esi_swin_affine;

typedef struct esi_swin_block {
    esi_swin_affine norm1, norm2, qkv, proj, fc1, fc2;
    esi_tensor positions; /* [(2 window - 1)^2, heads] */
} esi_swin_block;

typedef struct esi_swin_stage {
    int64_t channels, window, heads;
    int depth;
    esi_swin_block *blocks;            /* [depth] */
    esi_swin_affine merge_norm, merge; /* [1, 4C]; [2C, 4C]; null in the last stage */
} esi_swin_stage;

typedef struct esi_swin {
    esi_conv2d patch;
    esi_swin_affine patch_norm;
    esi_swin_stage stages[ESI_SWIN_STAGES];
    esi_swin_affine norms[ESI_SWIN_STAGES]; /* of each stage's output */
} esi_swin;

/* scope: "bb.layers.0." ; merges: a merging follows. stage is zeroed by the caller. */
espalier_status esi_swin_stage_open(const esi_layer_source *s, esi_swin_stage *stage, const char *scope, bool merges);
void esi_swin_stage_free(const espalier_allocator *allocator, esi_swin_stage *stage);
/* All blocks on x [height * width, channels], in place. */
espalier_status esi_swin_stage_forward(espalier_context *ctx, const esi_swin_stage *stage, esi_map *x);
/* 2 x 2 tokens to one of twice the channels. y is new. */
espalier_status esi_swin_merge(espalier_context *ctx, const esi_swin_stage *stage, esi_map *y, const esi_map *x);

espalier_status esi_swin_open(const esi_layer_source *s, esi_swin *swin, const char *scope);
void esi_swin_free(espalier_context *ctx, const espalier_allocator *allocator, esi_swin *swin);
/* The grid of stage i's output for a picture. */
esi_grid esi_swin_grid(const esi_swin *swin, esi_grid picture, int stage);
/* outputs[i]: new maps of stage i's grid, `copies` times its channels; its normed tokens are the first of them, the rest is for others. */
espalier_status esi_swin_forward(espalier_context *ctx, const esi_swin *swin, const esi_map *picture, esi_map outputs[ESI_SWIN_STAGES],
                                 int copies);

#endif
