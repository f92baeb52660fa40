/* SPDX-License-Identifier: MIT
 *
 * u2net.h: salient object detection by nested U-shapes: U2-Net, its small sister U2-NetP, and IS-Net. Which one a file holds is told by its
 * tensors, and so are all widths.
 */
#ifndef ESI_U2NET_H
#define ESI_U2NET_H

#include "models/image_layers.h"

typedef enum esi_u2net_kind { ESI_U2NET, ESI_U2NETP, ESI_ISNET } esi_u2net_kind;

/* A residual U-block: encoder convolutions 1..depth, decoder convolutions depth-1..1, the input's convolution added at the end. */
#define ESI_RSU_MAX_DEPTH 7
typedef struct esi_rsu {
    int depth;
    bool flat; /* dilations instead of pooling (RSU-4F) */
    int64_t in, middle, out;
    esi_conv2d input, encode[ESI_RSU_MAX_DEPTH],
        decode[ESI_RSU_MAX_DEPTH - 1]; /* encode[i]: rebnconv<i + 1>; decode[i]: rebnconv<i + 1>d */
} esi_rsu;

/* in: channels, 0 = as the file has it. block is zeroed by the caller. scope: "stage1." */
espalier_status esi_rsu_open(const esi_layer_source *s, esi_rsu *block, const char *scope, int depth, bool flat, int64_t in);
void esi_rsu_free(espalier_context *ctx, const espalier_allocator *allocator, esi_rsu *block);
/* y: [rows of x, out]. */
espalier_status esi_rsu_forward(espalier_context *ctx, const esi_rsu *block, esi_tensor y, const esi_map *x);

typedef struct esi_u2net esi_u2net;
/* Does the file look like one of these networks (by names only)? */
bool esi_u2net_recognise(const esi_weight_file *file, esi_u2net_kind *kind);
/* Takes over `file` on success and on failure. */
espalier_status esi_u2net_open(espalier_context *ctx, esi_u2net **out, esi_weight_file *file);
void esi_u2net_free(espalier_context *ctx, esi_u2net *m);
esi_u2net_kind esi_u2net_get_kind(const esi_u2net *m);
const char *esi_u2net_kind_name(esi_u2net_kind kind); /* "U2-Net", ... */
esi_weights *esi_u2net_weights(esi_u2net *m);
/* Bytes that a picture cannot do without, however small the pieces are that the rest is done in. */
uint64_t esi_u2net_memory_least(const esi_u2net *m, int64_t H, int64_t W);
/* pixels: host [3, H, W], normalised. *matte: new tensor [H * W, 1] of the innermost scope, values in [0, 1]. Taps: the stages, d0.. d6. */
espalier_status esi_u2net_forward(espalier_context *ctx, const esi_u2net *m, esi_tensor *matte, const float *pixels, int64_t H, int64_t W);

#endif
