/* SPDX-License-Identifier: MIT
 *
 * networks.h: the four kinds of networks of TRELLIS.2 over named weights. Immutable after opening; forward passes use the context's tensors
 * only, so several contexts may run one network at once.
 *
 * Opening takes the weight file and the text of its json config (NULL: derived from shapes and release defaults).
 * Every tensor is looked up once, checked (name, shape, dtype) and wrapped; errors are ERR_MODEL: "<file>: tensor <name>: shape [..],
 * expected [..]". Surplus tensors that are not known to be ignorable give one warning per file. All weights are scanned for NaN and
 * infinities with esi_weights_check_finite() when the stage starts.
 */
#ifndef ESI_NETWORKS_H
#define ESI_NETWORKS_H

#include "formats/json.h"
#include "formats/weights.h"
#include "tensor/ops.h"
#include "voxel/voxel.h"

/* ------------------------------------------------------------ named weights */

/* The tensors of one network: lookups by name with shape check. Wraps mapped bytes; holds a reference to the file. */
typedef struct esi_weights esi_weights;
/* Takes over `file` on success and on failure. */
espalier_status esi_weights_new(espalier_context *ctx, esi_weights **out, esi_weight_file *file);
void esi_weights_free(espalier_context *ctx, esi_weights *w); /* ctx may be any context of the same runtime */
const esi_weight_file *esi_weights_file(const esi_weights *w);
bool esi_weights_has(const esi_weights *w, const char *name);
/* Matrix [rows, cols]; the file's shape may have any rank (leading 1s, folded convolutions) as long as its product and its first extent
 * (rows) agree. -1 = any. `format` makes the name. */
espalier_status esi_weights_get(espalier_context *ctx, esi_weights *w, esi_tensor *out, int64_t rows, int64_t cols, const char *format, ...)
    ESI_PRINTF(6, 7);
/* As above, but a missing tensor gives a null tensor and ESPALIER_OK. */
espalier_status esi_weights_get_optional(espalier_context *ctx, esi_weights *w, esi_tensor *out, int64_t rows, int64_t cols,
                                         const char *format, ...) ESI_PRINTF(6, 7);
/* A tensor that may be in the file and is not used on purpose: no surplus warning. */
void esi_weights_ignore(esi_weights *w, const char *format, ...) ESI_PRINTF(2, 3);
/* Warn about tensors that nobody asked for (once per file). */
void esi_weights_report_surplus(espalier_context *ctx, esi_weights *w);
/* Scan all wrapped tensors for NaN and infinities (parallel): ERR_MODEL naming the first tensor. Scans once per object. */
espalier_status esi_weights_check_finite(espalier_context *ctx, esi_weights *w);
uint64_t esi_weights_parameters(const esi_weights *w);

/* ----------------------------------------------------------------- DINOv3 */

typedef struct esi_dinov3 esi_dinov3;
typedef struct esi_dinov3_config {
    int hidden, layers, heads, mlp, patch, registers;
    float eps;
    double rope_theta;
} esi_dinov3_config;
espalier_status esi_dinov3_open(espalier_context *ctx, esi_dinov3 **out, esi_weight_file *file, const esi_json *config /* or NULL */);
void esi_dinov3_free(espalier_context *ctx, esi_dinov3 *m);
const esi_dinov3_config *esi_dinov3_get_config(const esi_dinov3 *m);
esi_weights *esi_dinov3_weights(esi_dinov3 *m);
/* pixels [3, H, W] host fp32, H and W multiples of the patch -> cond [1 + registers + P, hidden] (a new tensor of the innermost scope). */
espalier_status esi_dinov3_forward(espalier_context *ctx, const esi_dinov3 *m, esi_tensor *cond, const float *pixels, int64_t H, int64_t W);
/* Bytes that a forward pass needs, the condition included. budget 0: none. */
uint64_t esi_dinov3_memory_plan(const esi_dinov3_config *c, int64_t H, int64_t W, uint64_t budget);

/* ------------------------------------------------- flow transformers (shared DiT) */

typedef struct esi_flow esi_flow;
typedef struct esi_flow_config {
    bool sparse; /* SLatFlowModel or ElasticSLatFlowModel; else SparseStructureFlowModel */
    int resolution, in_channels, out_channels, channels, cond_channels, blocks, heads, mlp;
    double rope_low, rope_high; /* rope_freq */
} esi_flow_config;
espalier_status esi_flow_open(espalier_context *ctx, esi_flow **out, esi_weight_file *file,
                              const esi_json *config /* {name,args} or NULL */);
void esi_flow_free(espalier_context *ctx, esi_flow *m);
const esi_flow_config *esi_flow_get_config(const esi_flow *m);
esi_weights *esi_flow_weights(esi_flow *m);

/* What stays the same over the steps of one run: rotary tables, the condition with its keys and values per block (kept while the memory
 * budget allows, otherwise recomputed per block), and the constant cross-attention rows of the all-zero condition. Lives in the scope it
 * was made in. */
typedef struct esi_flow_run esi_flow_run;
/* coords: host rows (b, x, y, z) of the N tokens (dense model: pass NULL, tokens are all cells, n = (x*R + y)*R + z). cond: F32 [Lc, X]. */
espalier_status esi_flow_run_begin(espalier_context *ctx, esi_flow_run **out, const esi_flow *m, const int32_t *coords, int64_t N,
                                   esi_tensor cond);
void esi_flow_run_end(espalier_context *ctx, esi_flow_run *run);
/* v[N, out] = model(x[N, in], t, cond); negative: the all-zero condition. t is already times 1000. */
espalier_status esi_flow_forward(espalier_context *ctx, esi_flow_run *run, esi_tensor v, esi_tensor x, float t, bool negative);
/* Bytes that forward passes of N tokens with Lc condition tokens need beyond x and v, with cached keys and values / without. */
uint64_t esi_flow_memory_plan(const esi_flow_config *c, int64_t N, int64_t Lc, uint64_t budget);

/* ------------------------------------------------- sparse-structure decoder */

typedef struct esi_ss_decoder esi_ss_decoder;
espalier_status esi_ss_decoder_open(espalier_context *ctx, esi_ss_decoder **out, esi_weight_file *file, const esi_json *config);
void esi_ss_decoder_free(espalier_context *ctx, esi_ss_decoder *m);
esi_weights *esi_ss_decoder_weights(esi_ss_decoder *m);
int esi_ss_decoder_channels(const esi_ss_decoder *m); /* of the latent */
int esi_ss_decoder_upscale(const esi_ss_decoder *m);  /* output cells per latent cell and axis: 2^(levels - 1) */
/* latent rows [R^3, 8] (n = (x*R + y)*R + z) -> logits [(R*up)^3, 1] in the same order. New tensor of the innermost scope. */
espalier_status esi_ss_decoder_forward(espalier_context *ctx, const esi_ss_decoder *m, esi_tensor *logits, esi_tensor latent, int64_t R);

/* Bytes that decoding a latent of side R needs at most, beyond the latent. */
uint64_t esi_ss_decoder_memory_plan(const esi_ss_decoder *m, int64_t R);

/* ------------------------------------------------- sparse U-Net decoders */

typedef struct esi_sparse_decoder esi_sparse_decoder;
typedef struct esi_sparse_decoder_config {
    int levels; /* up blocks + 1 */
    int channels[ESI_MAX_LEVELS], blocks[ESI_MAX_LEVELS];
    int latent_channels, out_channels;
    bool pred_subdiv;
    float voxel_margin; /* shape only */
    int resolution;     /* shape only, as in the json; 0 unknown */
} esi_sparse_decoder_config;
espalier_status esi_sparse_decoder_open(espalier_context *ctx, esi_sparse_decoder **out, esi_weight_file *file, const esi_json *config);
void esi_sparse_decoder_free(espalier_context *ctx, esi_sparse_decoder *m);
const esi_sparse_decoder_config *esi_sparse_decoder_get_config(const esi_sparse_decoder *m);
esi_weights *esi_sparse_decoder_weights(esi_sparse_decoder *m);

/* Latent rows [N, 32] on `coords` -> head [M, out_channels] on the finest rows.
 * A model with pred_subdiv fills `lineage` (zeroed by the caller; level 0 = a copy of coords) as it decides; a guided model reads it.
 * `stop_after`: number of up blocks to run (0..levels-1); with stop_after >= 1 and head == NULL only the coordinates are wanted
 * (`upsample`). head is a new tensor of the innermost scope. Peak memory is kept low by row chunks under the context's budget. */
espalier_status esi_sparse_decoder_forward(espalier_context *ctx, const esi_sparse_decoder *m, esi_tensor *head, esi_lineage *lineage,
                                           esi_tensor latent, const esi_coords *coords, int stop_after);
/* Shape head [M, 7] -> local vertices [M][3], intersected [M][3] (0/1), intersection logits kept by the caller, split weights [M]. Host
 * arrays of the caller. */
espalier_status esi_shape_head_decode(espalier_context *ctx, esi_tensor head, float voxel_margin, float *local, uint8_t *intersected,
                                      float *split_weight);
uint64_t esi_sparse_decoder_memory_plan(const esi_sparse_decoder_config *c, const int64_t *rows_per_level, uint64_t budget);

#endif
