/* SPDX-License-Identifier: MIT
 *
 * generic.c: the definition of the arithmetic: every kernel in plain loops. Whatever another instruction set or a device computes must be
 * these bits. Written to be read; speed comes elsewhere. Compiled twice: for the baseline processor, and on x86-64 with hardware fma
 * (ESI_GENERIC_FMA), which must not change a bit.
 */
#include "base/fma.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/vec_scalar.h"
#include "tensor/cpu/vmath.h"

/* The store rule: nothing smaller than 2^-40 and no negative zero is ever stored; NaN stays. */
static float stored(float v)
{
    return fabsf(v) < 0x1p-40f ? 0.0f : v;
}

static float activated(esi_activation act, float t)
{
    switch (act) {
    case ESI_ACT_RELU: return esi_vrelu_scalar(t);
    case ESI_ACT_SILU: return esi_vsilu_scalar(t);
    case ESI_ACT_GELU_TANH: return esi_vgelu_tanh_scalar(t);
    case ESI_ACT_GELU_ERF: return esi_vgelu_erf_scalar(t);
    case ESI_ACT_SIGMOID: return esi_vsigmoid_scalar(t);
    case ESI_ACT_SOFTPLUS: return esi_vsoftplus_scalar(t);
    case ESI_ACT_TANH: return esi_vtanh_scalar(t);
    case ESI_ACT_EXP: return esi_vexp_scalar(t);
    default: return t;
    }
}

/* The last step of a row sum: 16 lanes are added by the tree 8, 4, 2, 1. */
static float lane_tree(float lane[16])
{
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++) lane[j] = lane[j] + lane[j + half];
    return lane[0];
}

/* ------------------------------------------------------------------ weights */

static float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu, bits;
    float v;

    if (exponent == 31u) {
        bits = sign | 0x7f800000u | mantissa << 13;
    } else if (exponent != 0) {
        bits = sign | (exponent + 112u) << 23 | mantissa << 13;
    } else { /* zero or subnormal: mantissa * 2^-24, exact */
        v = (float)mantissa * 0x1p-24f;
        return sign ? -v : v;
    }
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Element i of a row of weights, exactly. Rows need no alignment. */
static float weight_at(const uint8_t *row, esi_dtype dtype, size_t i)
{
    uint16_t half;
    uint32_t bits;
    float v;

    switch (dtype) {
    case ESI_F16: memcpy(&half, row + 2 * i, 2); return half_to_float(half);
    case ESI_BF16:
        memcpy(&half, row + 2 * i, 2);
        bits = (uint32_t)half << 16;
        memcpy(&v, &bits, sizeof v);
        return v;
    case ESI_Q8_0: {
        const uint8_t *block = row + i / 32 * 34;
        memcpy(&half, block, 2);
        return half_to_float(half) * (float)(int8_t)block[2 + i % 32]; /* 11 + 7 bits: exact */
    }
    default: memcpy(&v, row + 4 * i, 4); return v;
    }
}

static void expand(float *out, const void *row, esi_dtype dtype, size_t first, size_t n)
{
    for (size_t i = 0; i < n; i++) out[i] = stored(weight_at(row, dtype, first + i));
}

/* ----------------------------------------------------------- matrix product */

static float epilogue_value(float acc, size_t c, const esi_epilogue_rows *e)
{
    float t = acc;

    if (e->scale) t = esi_fmaf(t, e->scale[c], e->bias ? e->bias[c] : 0.0f);
    else if (e->bias) t = t + e->bias[c];
    t = activated(e->act, t);
    if (e->gate) t = esi_fmaf(e->gate[c], t, e->residual[c]);
    else if (e->residual) t = t + e->residual[c];
    return stored(t);
}

static void epilogue(float *y, const float *acc, size_t n, const esi_epilogue_rows *e)
{
    for (size_t c = 0; c < n; c++) y[c] = epilogue_value(acc[c], c, e);
}

/* y[n, o] = epilogue(sum over taps t that are present, over channels c, both ascending, of x[table[n, t], c] * w[o, t, c]). */
static void product(const esi_product *p, size_t row0, size_t row1, size_t col0, size_t col1, float *scratch)
{
    for (size_t o = col0; o < col1; o++) {
        expand(scratch, p->w + o * p->w_row_bytes, p->w_dtype, 0, p->taps * p->ci);
        for (size_t n = row0; n < row1; n++) {
            esi_epilogue_rows e = p->e;
            float acc = 0.0f;
            for (size_t t = 0; t < p->taps; t++) {
                size_t row = p->table ? (size_t)(int64_t)p->table[n * p->table_stride + t] : n;
                if (row >= p->x_rows) continue;
                for (size_t c = 0; c < p->ci; c++)
                    acc = esi_fmaf(p->x[row * p->x_stride + c], scratch[t * p->tap_step + c * p->channel_step], acc);
            }
            if (e.residual) e.residual += n * p->residual_stride;
            p->y[n * p->y_stride + o] = epilogue_value(acc, o, &e);
        }
    }
}

/* ---------------------------------------------------------------- attention
 * One query, keys in tiles of 64. m: running maximum, l: running sum, o: running weighted values. Probabilities, and o after it was
 * scaled, go through the store rule, so that no subnormal number can arise from them. Hidden keys keep their place in the tile with
 * p = +0. */

typedef struct running_softmax {
    float m, l, *o;
} running_softmax;

static void attend_tile(running_softmax *r, const esi_attention_job *job, const float *q, const float *k, const float *v, const float *bias,
                        const int32_t *region, const int32_t *own_region, size_t n)
{
    float s[ESI_KEY_TILE], lane[16] = {0.0f};
    bool visible[ESI_KEY_TILE];
    float m = r->m, c;

    for (size_t j = 0; j < n; j++) {
        float acc = 0.0f;
        for (size_t d = 0; d < job->dim; d++) acc = esi_fmaf(q[d], k[j * job->k_stride + d], acc);
        s[j] = acc * job->scale;
        if (bias) s[j] = s[j] + bias[j];
        visible[j] = !region || region[j * job->region_stride] == *own_region;
        if (visible[j]) m = m > s[j] ? m : s[j];
    }
    c = r->m == m ? 1.0f : esi_vexp_scalar(r->m - m); /* first tile: m was -inf, so c = 0 */
    for (size_t j = 0; j < n; j++) {
        s[j] = visible[j] ? stored(esi_vexp_scalar(s[j] - m)) : 0.0f;
        lane[j % 16] = lane[j % 16] + s[j];
    }
    r->m = m;
    r->l = esi_fmaf(r->l, c, lane_tree(lane));
    for (size_t d = 0; d < job->dim; d++) {
        float o = c == 1.0f ? r->o[d] : stored(r->o[d] * c);
        for (size_t j = 0; j < n; j++) o = esi_fmaf(s[j], v[j * job->v_stride + d], o);
        r->o[d] = o;
    }
}

static size_t attention_scratch(const esi_attention_job *job, size_t queries)
{
    (void)queries; /* one after the other */
    return job->dim;
}

static void attention(const esi_attention_job *job, size_t window, size_t head, size_t q0, size_t q1, bool again, float *scratch)
{
    const float *k = job->k + window * job->nk * job->k_stride + head * job->dim;
    const float *v = job->v + window * job->nk * job->v_stride + head * job->dim;

    (void)again;
    for (size_t i = q0; i < q1; i++) {
        size_t row = window * job->nq + i;
        const float *q = job->q + row * job->q_stride + head * job->dim;
        float *y = job->y + row * job->y_stride + head * job->dim;
        running_softmax r = {-HUGE_VALF, 0.0f, scratch};

        for (size_t d = 0; d < job->dim; d++) scratch[d] = 0.0f;
        for (size_t j = 0; j < job->nk; j += ESI_KEY_TILE) {
            const float *bias = job->bias ? job->bias + (head * job->nq + i) * job->bias_stride + j : NULL;
            const int32_t *region = job->region ? job->region + (window * job->nk + j) * job->region_stride : NULL;
            const int32_t *own_region = job->region ? job->region + row * job->region_stride : NULL;
            attend_tile(&r, job, q, k + j * job->k_stride, v + j * job->v_stride, bias, region, own_region,
                        ESI_MIN((size_t)ESI_KEY_TILE, job->nk - j));
        }
        for (size_t d = 0; d < job->dim; d++) y[d] = r.l == 0.0f ? 0.0f : stored(r.o[d] / r.l);
    }
}

/* -------------------------------------------------------------- elementwise */

static void elementwise(esi_elementwise kind, float *y, const float *a, const float *b, const float *c, float alpha, float beta,
                        esi_activation act, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v = 0.0f;
        switch (kind) {
        case ESI_EW_COPY: v = a[i]; break;
        case ESI_EW_FILL: v = alpha; break;
        case ESI_EW_ACTIVATE: v = activated(act, a[i]); break;
        case ESI_EW_ADD: v = a[i] + b[i]; break;
        case ESI_EW_MUL: v = a[i] * b[i]; break;
        case ESI_EW_AXPBY: v = beta * b[i]; v = esi_fmaf(alpha, a[i], v); break;
        case ESI_EW_SCALE:
        case ESI_EW_SCALE_ROWS: v = a[i] * alpha; break;
        case ESI_EW_SCALE_SHIFT: v = esi_fmaf(a[i], b ? b[i] : 1.0f, c ? c[i] : 0.0f); break;
        case ESI_EW_NORMALIZE: v = (a[i] - b[i]) / c[i]; break;
        }
        y[i] = stored(v);
    }
}

/* -------------------------------------------------------------------- norms */

static float sum(const float *x, size_t n)
{
    float lane[16] = {0.0f};
    for (size_t i = 0; i < n; i++) lane[i % 16] = lane[i % 16] + x[i];
    return lane_tree(lane);
}

static float sum_squares(const float *x, float shift, size_t n)
{
    float lane[16] = {0.0f};
    for (size_t i = 0; i < n; i++) {
        float d = x[i] - shift;
        lane[i % 16] = esi_fmaf(d, d, lane[i % 16]);
    }
    return lane_tree(lane);
}

static void norm_apply(float *y, const float *x, float mean, float r, const float *scale, const float *shift, esi_activation act, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float t = (x[i] - mean) * r;
        if (scale) t = esi_fmaf(t, scale[i], shift[i]);
        y[i] = stored(activated(act, t));
    }
}

static void layer_norm(float *y, const float *x, const float *scale, const float *shift, float eps, esi_activation act, size_t n)
{
    float mean = sum(x, n) / (float)n;
    float variance = sum_squares(x, mean, n) / (float)n;
    norm_apply(y, x, mean, 1.0f / sqrtf(variance + eps), scale, shift, act, n);
}

static void rms_norm(float *y, const float *x, const float *gamma, size_t n)
{
    float length = sqrtf(sum_squares(x, 0.0f, n));
    float r = sqrtf((float)n) / (length > 1e-12f ? length : 1e-12f);
    for (size_t i = 0; i < n; i++) {
        float t = x[i] * r;
        y[i] = stored(t * gamma[i]);
    }
}

/* ------------------------------------------------------------------- rotary */

static void rope(float *y, const float *x, const float *cos, const float *sin, esi_rope_pairing pairing, size_t n)
{
    size_t pairs = n / 2;
    for (size_t p = 0; p < pairs; p++) {
        size_t i = pairing == ESI_ROPE_ADJACENT ? 2 * p : p;
        size_t j = pairing == ESI_ROPE_ADJACENT ? 2 * p + 1 : p + pairs;
        float a = x[i], b = x[j];
        float b_sin = b * sin[p], b_cos = b * cos[p];
        y[i] = stored(esi_fmaf(a, cos[p], -b_sin));
        y[j] = stored(esi_fmaf(a, sin[p], b_cos));
    }
}

/* -------------------------------------------------------------------- folds */

static void fold_max(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = y[i] > x[i] ? y[i] : x[i];
}

static void fold_add(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

static void fold_fma(float *y, float alpha, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = esi_fmaf(alpha, x[i], y[i]);
}

static void divide(float *y, float divisor, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = stored(y[i] / divisor);
}

static void column_sums(double *sums, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) sums[i] += (double)x[i];
}

static void count_nonfinite(const float *x, size_t n, uint64_t *nan_count, uint64_t *inf_count)
{
    for (size_t i = 0; i < n; i++) {
        *nan_count += x[i] != x[i];
        *inf_count += fabsf(x[i]) == HUGE_VALF;
    }
}

#ifdef ESI_GENERIC_FMA
const esi_kernels esi_kernels_generic_fma = {
    .level = ESPALIER_CPU_GENERIC_FMA,
#else
const esi_kernels esi_kernels_generic = {
    .level = ESPALIER_CPU_GENERIC,
#endif
    .product = product,
    .q_block = 16,
    .q_multiple = 1,
    .attention_scratch = attention_scratch,
    .attention = attention,
    .expand = expand,
    .epilogue = epilogue,
    .elementwise = elementwise,
    .layer_norm = layer_norm,
    .rms_norm = rms_norm,
    .rope = rope,
    .sum = sum,
    .sum_squares = sum_squares,
    .norm_apply = norm_apply,
    .fold_max = fold_max,
    .fold_add = fold_add,
    .fold_fma = fold_fma,
    .divide = divide,
    .column_sums = column_sums,
    .count_nonfinite = count_nonfinite,
};
