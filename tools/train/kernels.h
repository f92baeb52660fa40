/* SPDX-License-Identifier: MIT
 *
 * kernels.h: the training step in C, for fast.py and sparse.py: attention that stores no scores, linear layers, normalisation, activation,
 * sparse convolution, each forward and backward. Tokens of a batch lie one item after the other; begin[i] is item i's first row,
 * begin[items] the end.
 * Products are of numbers rounded to bfloat16, sums are float, as is usual in mixed precision. Functions return 0, or -1: out of memory.
 */
#ifndef ESPALIER_TRAIN_KERNELS_H
#define ESPALIER_TRAIN_KERNELS_H

#include <stdint.h>

/* Softmax(q k^T / sqrt(width)) v with normalised, turned queries and keys (see flow.py). Head h of a row is at h * width. */
typedef struct attention {
    int64_t items, heads, width;                  /* width: a multiple of 8, at most 32 */
    const int64_t *query_begin, *key_begin;       /* [items + 1] */
    int64_t query_stride, key_stride;             /* floats from row to row; values have the keys' */
    const float *query, *key, *value;
    const float *query_gain, *key_gain;           /* [heads][width] of the RMS norms */
    const float *query_turn, *key_turn;           /* [rows][width]: cosine, sine per pair of neighbours; or NULL */
} attention;

/* out [rows][heads * width]; log_sums [heads][rows]: the logarithm of each row's sum of exponentials, for the backward pass. */
int train_attention_forward(const attention *a, float *out, float *log_sums);
/* The gradients of query, key, value have their strides and are overwritten; those of the gains are added to. */
int train_attention_backward(const attention *a, const float *out, const float *log_sums, const float *grad_out, float *grad_query,
                             float *grad_key, float *grad_value, float *grad_query_gain, float *grad_key_gain);

/* y = x w^T + bias; x [rows][ci], w [co][ci], bias NULL or [co]; ci and co multiples of 16. */
int train_linear_forward(const float *x, const float *w, const float *bias, float *y, int64_t rows, int64_t ci, int64_t co);
/* grad_x may be NULL. */
int train_linear_backward(const float *x, const float *w, const float *grad_y, float *grad_x, float *grad_w, float *grad_bias,
                          int64_t rows, int64_t ci, int64_t co);

/* y = layer norm of x * gain + shift, with a row of gain and shift [items][channels] per item; channels a multiple of 16, at most 512.
 * moments [rows][2]: mean and 1 / deviation, for the backward pass. grad_gain and grad_shift are overwritten. */
void train_norm_forward(const float *x, const float *gain, const float *shift, const int64_t *begin, int64_t items, int64_t channels,
                        float eps, float *y, float *moments);
void train_norm_backward(const float *x, const float *gain, const float *moments, const float *grad_y, const int64_t *begin,
                         int64_t items, int64_t channels, float *grad_x, float *grad_gain, float *grad_shift);

/* y = x + gate * z, gate [items][channels]; the gradient of x is that of y. */
void train_gate_forward(const float *x, const float *z, const float *gate, const int64_t *begin, int64_t items, int64_t channels, float *y);
void train_gate_backward(const float *z, const float *gate, const float *grad_y, const int64_t *begin, int64_t items, int64_t channels,
                         float *grad_z, float *grad_gate);

/* GELU by its tanh formula; count is a multiple of 16. */
void train_gelu_forward(const float *x, float *y, int64_t count);
void train_gelu_backward(const float *x, const float *grad_y, float *grad_x, int64_t count);

/* Neighbours of a sparse grid: for taps 0 .. 12 of 27 (tap 9 (dx + 1) + 3 (dy + 1) + dz + 1), in that order and without gaps, the rows
 * that have a neighbour there (out) and the neighbours' rows (in). */
typedef struct conv_links {
    int64_t rows;
    const int64_t *counts;         /* [13] */
    const int32_t *in, *out;
} conv_links;

/* y += the convolution of x; w [27][ci][co], ci and co multiples of 16. mirrored: with the taps' offsets turned round, which with the
 * transposed weights is the gradient of x. */
int train_convolve(const conv_links *all, const float *x, const float *w, float *y, int64_t ci, int64_t co, int mirrored);
int train_convolve_weights(const conv_links *all, const float *x, const float *grad_y, float *grad_w, int64_t ci, int64_t co);

#endif
