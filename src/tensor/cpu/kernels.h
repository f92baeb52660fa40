/* SPDX-License-Identifier: MIT
 *
 * kernels.h: what an instruction set must provide: functions on raw memory, one table per level. generic.c defines every result; the
 * others equal it bit for bit. The drivers (backend.c, product.c, attention.c) cut the work, so that kernels know nothing of threads.
 *
 * Pointers need no alignment unless said. `n` counts elements of a row.
 */
#ifndef ESI_KERNELS_H
#define ESI_KERNELS_H

#include "base/base.h"
#include "tensor/backend.h"
#include "tensor/ops.h"

/* Vectors of an epilogue or norm, expanded to fp32; NULL where absent. */
typedef struct esi_epilogue_rows {
    const float *bias, *scale, *gate, *residual;
    esi_activation act;
} esi_epilogue_rows;

/* A product y = epilogue(gather(x) * w^T): linear (table NULL, taps 1) and convolution. */
typedef struct esi_product {
    float *y;
    const float *x;
    const int32_t *table;               /* [rows, taps]; an index outside [0, x_rows) is a missing tap */
    const uint8_t *w;                   /* [cols, taps * ci], w_row_bytes apart */
    size_t y_stride, x_stride, table_stride, w_row_bytes, residual_stride;
    size_t rows, cols, taps, ci, x_rows;
    size_t tap_step, channel_step;      /* element (o, t, c) of w lies at t * tap_step + c * channel_step in row o */
    esi_dtype w_dtype;
    esi_epilogue_rows e;                /* residual: row 0 */
} esi_product;

typedef struct esi_attention_job {
    float *y;
    const float *q, *k, *v;
    size_t y_stride, q_stride, k_stride, v_stride;
    size_t nq, nk, heads, dim, windows; /* nq, nk: of one window */
    float scale;
    const float *bias;                  /* [heads * nq, nk] or NULL */
    const int32_t *region;              /* [windows * nk] or NULL */
    size_t bias_stride, region_stride;
} esi_attention_job;

#define ESI_KEY_TILE 64                 /* keys per step of the running softmax: part of the arithmetic */

/* Floats from one row of a strip to the next: 128 channels, and a line more so that the rows do not share cache sets. A constant, so that
 * the tile kernel needs one pointer for all rows. */
#define ESI_STRIP 144

typedef struct esi_kernels {
    espalier_cpu_level level;

    /* ---- matrix tiles; mr = 0 in the generic tables, which have product() instead */
    size_t mr, nr;                      /* rows and columns of the largest tile */
    size_t m_step;                      /* gemm's m is a multiple of this, up to mr */
    /* c[i][column + j] (+)= sum over k of a[k * lda + i] * b[k * n + j], i < m, j < n; n: nr or nr / 2. fresh: from +0 instead of from
     * c. */
    void (*gemm)(size_t m, size_t k, const float *a, size_t lda, const float *b, size_t n, float *const *c, size_t column, bool fresh);
    /* The same with rows as they lie: a[i * ESI_STRIP + k], always added to c. */
    void (*gemm_strip)(size_t m, size_t k, const float *a, const float *b, size_t n, float *const *c, size_t column);
    /* out[k * ld + i] = rows[i][k], i < count, k < n; zero for count <= i < padded. */
    void (*transpose)(float *out, size_t ld, const float *const *rows, size_t count, size_t padded, size_t n);
    /* Rows [row0, row1) and columns [col0, col1) by plain loops; scratch: taps * ci floats. */
    void (*product)(const esi_product *p, size_t row0, size_t row1, size_t col0, size_t col1, float *scratch);

    /* One window, one head, queries [q0, q1), at most q_block. scratch: as many floats as attention_scratch() says for as many queries,
     * aligned to ESI_ALIGN. again: the call before with this scratch was for the same head and queries. */
    size_t q_block, q_multiple;         /* most queries per call; they should be a multiple of q_multiple, which divides q_block */
    size_t (*attention_scratch)(const esi_attention_job *job, size_t queries);
    void (*attention)(const esi_attention_job *job, size_t window, size_t head, size_t q0, size_t q1, bool again, float *scratch);

    /* ---- rows */
    /* Elements [first, first + n) of a row of any float type, under the store rule. */
    void (*expand)(float *out, const void *row, esi_dtype dtype, size_t first, size_t n);
    void (*epilogue)(float *y, const float *acc, size_t n, const esi_epilogue_rows *e);        /* residual: this row's */
    /* a, b, c: rows (SCALE_SHIFT, NORMALIZE: b and c are vectors, SCALE_ROWS: alpha is the factor); FILL has no input. */
    void (*elementwise)(esi_elementwise kind, float *y, const float *a, const float *b, const float *c, float alpha, float beta,
                        esi_activation act, size_t n);
    void (*layer_norm)(float *y, const float *x, const float *scale, const float *shift, float eps, esi_activation act, size_t n);
    void (*rms_norm)(float *y, const float *x, const float *gamma, size_t n);
    void (*rope)(float *y, const float *x, const float *cos, const float *sin, esi_rope_pairing pairing, size_t n);  /* one head */
    float (*sum)(const float *x, size_t n);                                                    /* rule 5 */
    float (*sum_squares)(const float *x, float shift, size_t n);                               /* of x - shift */
    /* y = act(fma((x - mean) * r, scale, shift)); scale and shift may both be NULL. */
    void (*norm_apply)(float *y, const float *x, float mean, float r, const float *scale, const float *shift, esi_activation act, size_t n);
    /* Running values of y, no store rule: y = y > x ? y : x;  y = y + x;  y = fma(alpha, x, y). */
    void (*fold_max)(float *y, const float *x, size_t n);
    void (*fold_add)(float *y, const float *x, size_t n);
    void (*fold_fma)(float *y, float alpha, const float *x, size_t n);
    void (*divide)(float *y, float divisor, size_t n);                                         /* y = y / divisor, store rule */
    void (*column_sums)(double *sums, const float *x, size_t n);                               /* sums[c] += x[c] */
    void (*count_nonfinite)(const float *x, size_t n, uint64_t *nan_count, uint64_t *inf_count);
} esi_kernels;

extern const esi_kernels esi_kernels_generic, esi_kernels_generic_fma, esi_kernels_avx2, esi_kernels_avx512, esi_kernels_neon;

#endif
