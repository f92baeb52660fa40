/* SPDX-License-Identifier: MIT
 *
 * kernels_simd.h: every kernel of a vector instruction set, written once over the vocabulary of vec_*.h. A file such as avx2.c includes its
 * vec_*.h and vmath.h, defines the few things below, and includes this.
 *
 *   X_NAME, X_LEVEL          the table's name and level
 *   X_MR, X_NV, X_M_STEP     matrix tile: X_MR rows by X_NV vectors; row counts are multiples of X_M_STEP
 *   X_TILE_CASES             X_TILE_CASE(m) for every m < X_MR that is a multiple of X_M_STEP
 *   X_LOAD_F16 X_LOAD_BF16 X_LOAD_I8(p)   V_LANES values to VF, exactly; no alignment
 *   X_TRANSPOSE(r)           VF r[V_LANES] seen as a square matrix is transposed in place
 *
 * generic.c defines what each function computes.
 */
#define X_NR (X_NV * V_LANES)
_Static_assert(3 * X_NR % X_MR == 0, "queries are padded to whole tiles");

static inline VF VM(load)(const float *p, size_t n) { return n >= V_LANES ? V_LOAD(p) : V_LOAD_N(p, n); }

static inline void VM(store)(float *p, VF v, size_t n)
{
    if (n >= V_LANES) V_STORE(p, v);
    else V_STORE_N(p, v, n);
}

static inline VF VM(activated)(esi_activation act, VF t)
{
    switch (act) {
    case ESI_ACT_RELU: return VM(relu)(t);
    case ESI_ACT_SILU: return VM(silu)(t);
    case ESI_ACT_GELU_TANH: return VM(gelu_tanh)(t);
    case ESI_ACT_GELU_ERF: return VM(gelu_erf)(t);
    case ESI_ACT_SIGMOID: return VM(sigmoid)(t);
    case ESI_ACT_SOFTPLUS: return VM(softplus)(t);
    case ESI_ACT_TANH: return VM(tanh)(t);
    case ESI_ACT_EXP: return VM(exp)(t);
    default: return t;
    }
}

/* ------------------------------------------------------------- matrix tiles */

/* m, nv and row_step are constants where this is inlined, so that acc becomes registers and the rows of a need one pointer. */
static inline __attribute__((always_inline)) void VM(tile)(const size_t m, const size_t nv, size_t k, const float *a, const size_t row_step,
                                                           size_t k_step, const float *b, float *const *c, size_t column, bool fresh)
{
    VF acc[X_MR][X_NV];

    V_UNROLL for (size_t i = 0; i < m; i++)
        V_UNROLL for (size_t v = 0; v < nv; v++) acc[i][v] = fresh ? V_ZERO() : V_LOAD(c[i] + column + v * V_LANES);
    for (; k > 0; k--) {
        VF bv[X_NV];
        V_UNROLL for (size_t v = 0; v < nv; v++) bv[v] = V_LOAD(b + v * V_LANES);
        V_UNROLL for (size_t i = 0; i < m; i++) {
            VF av = V_SET1(a[i * row_step]);
            V_UNROLL for (size_t v = 0; v < nv; v++) acc[i][v] = V_FMA(av, bv[v], acc[i][v]);
        }
        a += k_step;
        b += nv * V_LANES;
    }
    V_UNROLL for (size_t i = 0; i < m; i++)
        V_UNROLL for (size_t v = 0; v < nv; v++) V_STORE(c[i] + column + v * V_LANES, acc[i][v]);
}

/* One function for each width, so that the compiler's registers do not depend on the other. */
#define X_GEMM(name, nv, row_step, k_step, is_fresh) \
    static void VM(name)(size_t m, size_t k, const float *a, size_t lda, const float *b, float *const *c, size_t column, bool fresh) \
    { \
        (void)lda; \
        (void)fresh; \
        switch (m) { \
            X_TILE_CASES \
        default: VM(tile)(X_MR, nv, k, a, row_step, k_step, b, c, column, is_fresh); break; \
        } \
    }
#define X_TILE_CASE(rows) \
    case rows: VM(tile)(rows, X_NV, k, a, 1, lda, b, c, column, fresh); break;
X_GEMM(gemm_whole, X_NV, 1, lda, fresh)
#undef X_TILE_CASE
#define X_TILE_CASE(rows) \
    case rows: VM(tile)(rows, X_NV / 2, k, a, 1, lda, b, c, column, fresh); break;
X_GEMM(gemm_half, X_NV / 2, 1, lda, fresh)
#undef X_TILE_CASE
#define X_TILE_CASE(rows) \
    case rows: VM(tile)(rows, X_NV, k, a, ESI_STRIP, 1, b, c, column, false); break;
X_GEMM(strip_whole, X_NV, ESI_STRIP, 1, false)
#undef X_TILE_CASE
#define X_TILE_CASE(rows) \
    case rows: VM(tile)(rows, X_NV / 2, k, a, ESI_STRIP, 1, b, c, column, false); break;
X_GEMM(strip_half, X_NV / 2, ESI_STRIP, 1, false)
#undef X_TILE_CASE

static void VM(gemm)(size_t m, size_t k, const float *a, size_t lda, const float *b, size_t n, float *const *c, size_t column, bool fresh)
{
    if (n == X_NR) VM(gemm_whole)(m, k, a, lda, b, c, column, fresh);
    else VM(gemm_half)(m, k, a, lda, b, c, column, fresh);
}

static void VM(gemm_strip)(size_t m, size_t k, const float *a, const float *b, size_t n, float *const *c, size_t column)
{
    if (n == X_NR) VM(strip_whole)(m, k, a, 0, b, c, column, false);
    else VM(strip_half)(m, k, a, 0, b, c, column, false);
}

/* Squares of V_LANES rows. The last square's store may spill beyond `padded` columns into the next line, which is written later: squares
 * descend, lines ascend, and out has room for V_LANES floats more. */
static void VM(transpose_rows)(float *out, size_t ld, const float *const *rows, size_t count, size_t padded, size_t n)
{
    for (size_t i = (padded + V_LANES - 1) / V_LANES * V_LANES; i > 0;) {
        i -= V_LANES;
        for (size_t k = 0; k < n; k += V_LANES) {
            size_t width = ESI_MIN((size_t)V_LANES, n - k);
            VF r[V_LANES];

            for (size_t j = 0; j < V_LANES; j++) r[j] = i + j < count ? VM(load)(rows[i + j] + k, width) : V_ZERO();
            X_TRANSPOSE(r);
            for (size_t j = 0; j < width; j++) V_STORE(out + (k + j) * ld + i, r[j]);
        }
    }
}

/* ------------------------------------------------------------------ weights */

static float VM(half_to_float)(const uint8_t *p)
{
    uint8_t halves[2 * V_LANES] = {p[0], p[1]};
    float lanes[V_LANES];
    V_STORE(lanes, X_LOAD_F16(halves));
    return lanes[0];
}

static void VM(expand_q8)(float *out, const uint8_t *row, size_t first, size_t n)
{
    for (size_t i = 0; i < n;) {
        const uint8_t *block = row + (first + i) / 32 * 34;
        size_t in_block = (first + i) % 32, count = ESI_MIN(n - i, 32 - in_block);
        float scale = VM(half_to_float)(block);

        if (count == 32) {
            for (size_t j = 0; j < 32; j += V_LANES) V_STORE(out + i + j, V_STORE_RULE(V_MUL(V_SET1(scale), X_LOAD_I8(block + 2 + j))));
        } else {
            for (size_t j = 0; j < count; j++) {
                float v = scale * (float)(int8_t)block[2 + in_block + j];
                out[i + j] = v < 0x1p-40f && v > -0x1p-40f ? 0.0f : v;
            }
        }
        i += count;
    }
}

static void VM(expand)(float *out, const void *row, esi_dtype dtype, size_t first, size_t n)
{
    const uint8_t *p = row;
    size_t size = dtype == ESI_F32 ? 4 : 2, i = 0;
    uint8_t tail[4 * V_LANES] = {0};

    if (dtype == ESI_Q8_0) {
        VM(expand_q8)(out, p, first, n);
        return;
    }
    p += first * size;
    for (; i < n; i += V_LANES, p += V_LANES * size) {
        size_t count = ESI_MIN((size_t)V_LANES, n - i);
        const uint8_t *in = p;
        VF v;

        if (count < V_LANES) {
            memcpy(tail, p, count * size);
            in = tail;
        }
        if (dtype == ESI_F32) v = X_LOAD_F32(in);
        else if (dtype == ESI_F16) v = X_LOAD_F16(in);
        else v = X_LOAD_BF16(in);
        VM(store)(out + i, V_STORE_RULE(v), count);
    }
}

/* --------------------------------------------------- epilogue, elementwise */

static inline __attribute__((always_inline)) void VM(epilogue_act)(float *y, const float *acc, size_t n, const esi_epilogue_rows *e,
                                                                   const esi_activation act)
{
    const float *bias = e->bias, *scale = e->scale, *gate = e->gate, *residual = e->residual;

    for (size_t i = 0; i < n; i += V_LANES) {
        size_t count = n - i;
        VF t = VM(load)(acc + i, count);

        if (scale) t = V_FMA(t, VM(load)(scale + i, count), bias ? VM(load)(bias + i, count) : V_ZERO());
        else if (bias) t = V_ADD(t, VM(load)(bias + i, count));
        t = VM(activated)(act, t);
        if (gate) t = V_FMA(VM(load)(gate + i, count), t, VM(load)(residual + i, count));
        else if (residual) t = V_ADD(t, VM(load)(residual + i, count));
        VM(store)(y + i, V_STORE_RULE(t), count);
    }
}

static void VM(epilogue)(float *y, const float *acc, size_t n, const esi_epilogue_rows *e)
{
    switch (e->act) {
    case ESI_ACT_NONE: VM(epilogue_act)(y, acc, n, e, ESI_ACT_NONE); break;
    case ESI_ACT_SILU: VM(epilogue_act)(y, acc, n, e, ESI_ACT_SILU); break;
    case ESI_ACT_GELU_TANH: VM(epilogue_act)(y, acc, n, e, ESI_ACT_GELU_TANH); break;
    case ESI_ACT_GELU_ERF: VM(epilogue_act)(y, acc, n, e, ESI_ACT_GELU_ERF); break;
    default: VM(epilogue_act)(y, acc, n, e, e->act); break;
    }
}

static inline __attribute__((always_inline)) void VM(elementwise_kind)(const esi_elementwise kind, float *y, const float *a, const float *b,
                                                                       const float *c, float alpha, float beta, const esi_activation act,
                                                                       size_t n)
{
    for (size_t i = 0; i < n; i += V_LANES) {
        size_t count = n - i;
        VF v = V_SET1(alpha);

        switch (kind) {
        case ESI_EW_COPY: v = VM(load)(a + i, count); break;
        case ESI_EW_FILL: break;
        case ESI_EW_ACTIVATE: v = VM(activated)(act, VM(load)(a + i, count)); break;
        case ESI_EW_ADD: v = V_ADD(VM(load)(a + i, count), VM(load)(b + i, count)); break;
        case ESI_EW_MUL: v = V_MUL(VM(load)(a + i, count), VM(load)(b + i, count)); break;
        case ESI_EW_AXPBY: v = V_FMA(v, VM(load)(a + i, count), V_MUL(V_SET1(beta), VM(load)(b + i, count))); break;
        case ESI_EW_SCALE:
        case ESI_EW_SCALE_ROWS: v = V_MUL(VM(load)(a + i, count), v); break;
        case ESI_EW_SCALE_SHIFT:
            v = V_FMA(VM(load)(a + i, count), b ? VM(load)(b + i, count) : V_SET1(1.0f), c ? VM(load)(c + i, count) : V_ZERO());
            break;
        case ESI_EW_NORMALIZE: v = V_DIV(V_SUB(VM(load)(a + i, count), VM(load)(b + i, count)), VM(load)(c + i, count)); break;
        }
        VM(store)(y + i, V_STORE_RULE(v), count);
    }
}

static void VM(elementwise)(esi_elementwise kind, float *y, const float *a, const float *b, const float *c, float alpha, float beta,
                            esi_activation act, size_t n)
{
    switch (kind) {
    case ESI_EW_ADD: VM(elementwise_kind)(ESI_EW_ADD, y, a, b, c, alpha, beta, act, n); break;
    case ESI_EW_MUL: VM(elementwise_kind)(ESI_EW_MUL, y, a, b, c, alpha, beta, act, n); break;
    case ESI_EW_AXPBY: VM(elementwise_kind)(ESI_EW_AXPBY, y, a, b, c, alpha, beta, act, n); break;
    default: VM(elementwise_kind)(kind, y, a, b, c, alpha, beta, act, n); break;
    }
}

/* -------------------------------------------------------------------- norms */

static float VM(sum)(const float *x, size_t n)
{
    W lanes = W_ZERO();
    size_t i = 0;

    for (; i + 16 <= n; i += 16) lanes = W_ADD(lanes, W_LOAD(x + i));
    if (i < n) lanes = W_ADD(lanes, W_LOAD_N(x + i, n - i));
    return W_REDUCE_SUM(lanes);
}

static float VM(sum_squares)(const float *x, float shift, size_t n)
{
    W lanes = W_ZERO(), s = W_SET1(shift);
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        W d = W_SUB(W_LOAD(x + i), s);
        lanes = W_FMA(d, d, lanes);
    }
    if (i < n) {
        float tail[16];
        W d;
        W_STORE(tail, W_SUB(W_LOAD_N(x + i, n - i), s));
        d = W_LOAD_N(tail, n - i); /* lanes without an element add +0 */
        lanes = W_FMA(d, d, lanes);
    }
    return W_REDUCE_SUM(lanes);
}

static void VM(norm_apply)(float *y, const float *x, float mean, float r, const float *scale, const float *shift, esi_activation act,
                           size_t n)
{
    for (size_t i = 0; i < n; i += V_LANES) {
        size_t count = n - i;
        VF t = V_MUL(V_SUB(VM(load)(x + i, count), V_SET1(mean)), V_SET1(r));
        if (scale) t = V_FMA(t, VM(load)(scale + i, count), VM(load)(shift + i, count));
        if (act != ESI_ACT_NONE) t = VM(activated)(act, t);
        VM(store)(y + i, V_STORE_RULE(t), count);
    }
}

static void VM(layer_norm)(float *y, const float *x, const float *scale, const float *shift, float eps, esi_activation act, size_t n)
{
    float mean = VM(sum)(x, n) / (float)n;
    float variance = VM(sum_squares)(x, mean, n) / (float)n;
    VM(norm_apply)(y, x, mean, 1.0f / sqrtf(variance + eps), scale, shift, act, n);
}

static void VM(rms_norm)(float *y, const float *x, const float *gamma, size_t n)
{
    float length = sqrtf(VM(sum_squares)(x, 0.0f, n));
    VF r = V_SET1(sqrtf((float)n) / (length > 1e-12f ? length : 1e-12f));

    for (size_t i = 0; i < n; i += V_LANES) {
        size_t count = n - i;
        VF t = V_MUL(V_MUL(VM(load)(x + i, count), r), VM(load)(gamma + i, count));
        VM(store)(y + i, V_STORE_RULE(t), count);
    }
}

/* ------------------------------------------- rotary, folds: the compiler's vectors do well */

static inline float VM(stored)(float v) { return fabsf(v) < 0x1p-40f ? 0.0f : v; }

static void VM(rope)(float *y, const float *x, const float *cos, const float *sin, esi_rope_pairing pairing, size_t n)
{
    size_t pairs = n / 2, p = 0;

    if (pairing == ESI_ROPE_ADJACENT) {
        for (; p < pairs; p++) {
            float a = x[2 * p], b = x[2 * p + 1], b_sin = b * sin[p], b_cos = b * cos[p];
            y[2 * p] = VM(stored)(__builtin_fmaf(a, cos[p], -b_sin));
            y[2 * p + 1] = VM(stored)(__builtin_fmaf(a, sin[p], b_cos));
        }
        return;
    }
    for (; p < pairs; p += V_LANES) {
        size_t count = pairs - p;
        VF a = VM(load)(x + p, count), b = VM(load)(x + pairs + p, count);
        VF c = VM(load)(cos + p, count), s = VM(load)(sin + p, count);
        VM(store)(y + p, V_STORE_RULE(V_FMA(a, c, V_NEG(V_MUL(b, s)))), count);
        VM(store)(y + pairs + p, V_STORE_RULE(V_FMA(a, s, V_MUL(b, c))), count);
    }
}

static void VM(fold_max)(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += V_LANES) VM(store)(y + i, V_MAX(VM(load)(y + i, n - i), VM(load)(x + i, n - i)), n - i);
}

static void VM(fold_add)(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += V_LANES) VM(store)(y + i, V_ADD(VM(load)(y + i, n - i), VM(load)(x + i, n - i)), n - i);
}

static void VM(fold_fma)(float *y, float alpha, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += V_LANES)
        VM(store)(y + i, V_FMA(V_SET1(alpha), VM(load)(x + i, n - i), VM(load)(y + i, n - i)), n - i);
}

static void VM(divide)(float *y, float divisor, size_t n)
{
    for (size_t i = 0; i < n; i += V_LANES) VM(store)(y + i, V_STORE_RULE(V_DIV(VM(load)(y + i, n - i), V_SET1(divisor))), n - i);
}

static void VM(column_sums)(double *sums, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) sums[i] += (double)x[i];
}

static void VM(count_nonfinite)(const float *x, size_t n, uint64_t *nan_count, uint64_t *inf_count)
{
    uint64_t nans = 0, infs = 0;
    for (size_t i = 0; i < n; i++) {
        nans += x[i] != x[i];
        infs += fabsf(x[i]) == HUGE_VALF;
    }
    *nan_count += nans;
    *inf_count += infs;
}

#include "tensor/cpu/attention_simd.h"

const esi_kernels X_NAME = {
    .level = X_LEVEL,
    .mr = X_MR,
    .nr = X_NR,
    .m_step = X_M_STEP,
    .gemm = VM(gemm),
    .gemm_strip = VM(gemm_strip),
    .transpose = VM(transpose_rows),
    .q_block = X_Q_BLOCK,
    .q_multiple = 3 * X_NR, /* of both X_MR and X_NR */
    .attention_scratch = VM(attention_scratch),
    .attention = VM(attention),
    .expand = VM(expand),
    .epilogue = VM(epilogue),
    .elementwise = VM(elementwise),
    .layer_norm = VM(layer_norm),
    .rms_norm = VM(rms_norm),
    .rope = VM(rope),
    .sum = VM(sum),
    .sum_squares = VM(sum_squares),
    .norm_apply = VM(norm_apply),
    .fold_max = VM(fold_max),
    .fold_add = VM(fold_add),
    .fold_fma = VM(fold_fma),
    .divide = VM(divide),
    .column_sums = VM(column_sums),
    .count_nonfinite = VM(count_nonfinite),
};
