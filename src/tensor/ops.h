/* SPDX-License-Identifier: MIT
 *
 * ops.h: the dozen operations that every network is made of, under "One arithmetic" (ARCHITECTURE.md).
 *
 * Common rules. x, y are F32 [rows, cols] unless said otherwise; weights w may be F32, F16, BF16 or Q8_0 and are expanded exactly.
 * Every op stores through the store rule: |v| < 2^-40 and -0 become +0; the same rule is applied to weights when they are expanded.
 * Shapes are checked: a mismatch is ESPALIER_ERR_INTERNAL with both shapes in the message. y must not overlap an input unless the op says
 * "in place allowed" (then y and x are the very same view). Ops enqueue; results are visible to later ops and to esi_tensor_read.
 * An optional tensor is passed as a null tensor ((esi_tensor){0}). A vector [1, C] may also be any dense matrix of C elements.
 * Tables and indices: I32; -1 is a missing row, and so is every other index outside the rows of x.
 * Without rows or columns an op does nothing; a sum of no terms is 0.
 * Pooling, weighted gather, transposition and per-row factors are for the picture networks (matting), which share this op set.
 */
#ifndef ESI_OPS_H
#define ESI_OPS_H

#include "tensor/tensor.h"

typedef enum esi_activation {
    ESI_ACT_NONE = 0,
    ESI_ACT_RELU,
    ESI_ACT_SILU, /* x * sigmoid(x) */
    ESI_ACT_GELU_TANH,
    ESI_ACT_GELU_ERF,
    ESI_ACT_SIGMOID,
    ESI_ACT_SOFTPLUS, /* torch: threshold 20 */
    ESI_ACT_TANH,
    ESI_ACT_EXP,
    ESI_ACT_COUNT
} esi_activation;

/* What happens to an accumulator before the store, in this order:
 *   t = acc + bias[c]            (or fma(acc, scale[c], bias[c]) when scale is given)
 *   t = act(t)
 *   y = fma(gate[c], t, residual[r, c])   with gate and residual
 *   y = t + residual[r, c]                with residual only
 *   y = t                                 otherwise
 * bias, scale, gate: [1, O] of any float dtype. residual: F32 [rows, O], may be the very same view as y. */
typedef struct esi_epilogue {
    esi_tensor bias, scale, gate, residual;
    esi_activation act;
} esi_epilogue;

/* y[N, O] = epilogue(x[N, K] * w[O, K]^T): acc = fma(x[n, k], w[o, k], acc) from +0, k ascending. e may be NULL. */
espalier_status esi_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e);

/* Convolution as gather + matrix product. table: I32 [N, taps], row of x that tap t of output row n reads; missing: skipped.
 * acc runs over k = (tap ascending, channel ascending).
 *   ESI_CONV_TAP_MAJOR      w is [O, taps * Ci], element (o, t, c) at o*taps*Ci + t*Ci + c      (sparse convolutions)
 *   ESI_CONV_CHANNEL_MAJOR  w is [O, Ci * taps], element (o, t, c) at o*taps*Ci + c*taps + t    (PyTorch conv2d/conv3d)
 * x: [Nin, Ci], y: [N, O]. */
typedef enum esi_conv_layout { ESI_CONV_TAP_MAJOR = 0, ESI_CONV_CHANNEL_MAJOR = 1 } esi_conv_layout;
espalier_status esi_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                         const esi_epilogue *e);

/* Softmax attention (rule 7). q: [B*Nq, H*D], k: [B*Nk, H*D], v: [B*Nk, H*D], y: [B*Nq, H*D]; views of columns are welcome. Window b of
 * q attends to window b of k. scale multiplies the dot product. Optional:
 *   bias     F32 [H*Nq, Nk], added after the scale, the same for every window
 *   region   I32 [B*Nk, 1] (then Nq == Nk): query i sees key j only if region[i] == region[j] within the window
 * A query that sees no key gives zeros. */
typedef struct esi_attention_args {
    int heads;
    int64_t windows; /* B >= 1 */
    float scale;
    esi_tensor bias, region;
} esi_attention_args;
espalier_status esi_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v, const esi_attention_args *a);

/* Layer norm over the columns of each row (rule 6), then affine or modulation, then activation. In place allowed.
 *   weight, bias           [1, C]: y = fma(n, weight, bias)
 *   mod_scale, mod_shift   F32 [1, C]: y = fma(n, 1 + mod_scale, mod_shift)
 *   neither                y = n */
typedef struct esi_norm_args {
    float eps;
    esi_tensor weight, bias, mod_scale, mod_shift;
    esi_activation act;
} esi_norm_args;
espalier_status esi_layer_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, const esi_norm_args *a);

/* Group norm over all rows (one picture or volume) and C/groups adjacent channels; statistics by rule 5: per row in fp32, rows in
 * order in fp64, mean and 1/sqrt(var + eps) rounded to fp32. Affine weight, bias [1, C], then activation. In place allowed. */
espalier_status esi_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a);

/* RMS norm of each head's D columns (rule 6): r = sqrt(D) / max(sqrt(sum x^2), 1e-12); y = (x * r) * gamma[h, d].
 * gamma: [1, H*D] (or [H, D] dense). In place allowed. */
espalier_status esi_rms_norm_heads(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor gamma, int heads);

/* Rotary embedding of every head's D columns, in place allowed. cos, sin: F32 [rows, D/2].
 *   ESI_ROPE_ADJACENT  pairs (2p, 2p+1)      ESI_ROPE_HALVES  pairs (p, p + D/2)
 * (a, b) -> (fma(a, cos, -(b * sin)), fma(a, sin, b * cos)), products b*sin and b*cos rounded first. */
typedef enum esi_rope_pairing { ESI_ROPE_ADJACENT = 0, ESI_ROPE_HALVES = 1 } esi_rope_pairing;
espalier_status esi_rope(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor cos, esi_tensor sin, int heads,
                         esi_rope_pairing pairing);

/* ------------------------------------------------------------- elementwise, in place allowed for all of these */

espalier_status esi_copy(espalier_context *ctx, esi_tensor y, esi_tensor x); /* x may be any float dtype [same shape] */
espalier_status esi_fill(espalier_context *ctx, esi_tensor y, float value);
espalier_status esi_activate(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_activation act);
espalier_status esi_add(espalier_context *ctx, esi_tensor y, esi_tensor a, esi_tensor b);
espalier_status esi_mul(espalier_context *ctx, esi_tensor y, esi_tensor a, esi_tensor b);
/* y = fma(alpha, a, beta * b), the product beta * b rounded first. */
espalier_status esi_axpby(espalier_context *ctx, esi_tensor y, float alpha, esi_tensor a, float beta, esi_tensor b);
/* y = x * value */
espalier_status esi_scale(espalier_context *ctx, esi_tensor y, esi_tensor x, float value);
/* y[r, c] = fma(x[r, c], scale[c], shift[c]); scale, shift [1, C], either may be null (1, 0: plain product or sum). */
espalier_status esi_scale_shift(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor scale, esi_tensor shift);
/* y[r, c] = (x[r, c] - shift[c]) / scale[c] */
espalier_status esi_normalize(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor shift, esi_tensor scale);
/* y[r, c] = x[r, c] * factor[r]; factor F32 [rows, 1]. */
espalier_status esi_scale_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor factor);

/* ---------------------------------------------------------------- movement of rows and channel groups (not in place) */

/* y[i] = x[index[i]], zeros where it is missing. index: I32 [rows of y, 1]. C2S by gather: reshape x to [8 N, C] first. */
espalier_status esi_gather_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index);
/* y[index[i]] = x[i] where y has that row; rows of y that no index names are left alone. Indices must be distinct: not checked, and the
 * result of two threads that write one row would depend on chance. */
espalier_status esi_scatter_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index);
/* y[r, c * repeat + j] = x[r, c] */
espalier_status esi_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t repeat);
/* y[r, c * repeat + j] = y[r, c * repeat + j] + x[index[r], c], nothing where it is missing; index may be null (= r): skip connection of
 * the up block. */
espalier_status esi_add_repeat_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index, int64_t repeat);
/* y[r, c] = (sum over j in order from +0 of x[r, c * group + j]) / group */
espalier_status esi_mean_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t group);
/* Columns seen as [a, b] become [b, a]: y[r, j * a + i] = x[r, i * b + j]. Pixel shuffle = this, reshape, gather. */
espalier_status esi_transpose_cols(espalier_context *ctx, esi_tensor y, esi_tensor x, int64_t a, int64_t b);
/* y = x^T: [C, N] from [N, C] (channel-first interfaces). */
espalier_status esi_transpose(espalier_context *ctx, esi_tensor y, esi_tensor x);

/* ---------------------------------------------------------------- tables */

typedef enum esi_pool_kind { ESI_POOL_MAX = 0, ESI_POOL_MEAN = 1 } esi_pool_kind;
/* y[n, c] = max (m = m > x ? m : x) or mean over the taps t of x[table[n, t], c], taps ascending; missing taps are skipped; the mean
 * divides by the number of taps present; no tap gives 0. */
espalier_status esi_pool_rows(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_pool_kind kind);
/* y[n, c] = acc over t of fma(weight[n, t], x[table[n, t], c], acc) from +0; missing rows are skipped. Bilinear resize, deformable
 * convolution. */
espalier_status esi_weighted_gather(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor weight);
/* y[0, c] = mean over all rows of x (rule 5 over a column: rows in order in fp64, divided, rounded). y: [1, C]. */
espalier_status esi_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x);

/* ---------------------------------------------------------------- statistics (wait for the device) */

/* Sum and sum of squares over the whole tensor: per row by rule 5 in fp32 (squares: lane = fma(x, x, lane)), rows in order in fp64. */
espalier_status esi_sum_stats(espalier_context *ctx, esi_tensor x, double *sum, double *sum_of_squares);
/* Numbers of NaN and of infinite values. */
espalier_status esi_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count);

#endif
