/* SPDX-License-Identifier: MIT
 *
 * kernel_cases.c: the cases of the kernel checker: every op, weight type and variant over odd sizes, strided views and unaligned weights.
 */
#include "kernels/kernel_cases.h"

#include "models/image_tables.h"

#include <math.h>
#include <stdlib.h>

uint64_t next_random(uint64_t *state)   /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static float uniform(case_state *s) { return (float)(next_random(&s->seed) >> 40) * 0x1p-23f - 1.0f; }

float random_value(case_state *s)
{
    static const float extremes[] = {1e30f, -1e30f, 3e38f, HUGE_VALF, -HUGE_VALF, NAN, 1e-30f, -1e-13f, 1e-45f, -0.0f, 0.0f, 88.0f, -104.0f,
                                     1.0f, -1.0f, 0x1p-40f, -0x1p-41f};

    switch (s->fill) {
    case FILL_ZERO: return next_random(&s->seed) & 1 ? 0.0f : -0.0f;
    case FILL_TINY: return uniform(s) * ldexpf(1.0f, -(int)(next_random(&s->seed) % 80));
    case FILL_EXTREME:
        if (next_random(&s->seed) % 8) return uniform(s) * 8.0f;
        return extremes[next_random(&s->seed) % ESI_COUNT(extremes)];
    default: return uniform(s) * 2.0f;
    }
}

/* ------------------------------------------------------------------ inputs */

static void *host(case_state *s, size_t bytes)
{
    void *p = malloc(bytes + 1);
    if (!p || s->n_host == ESI_COUNT(s->host)) abort();
    return s->host[s->n_host++] = p;
}

static void note(case_state *s, espalier_status st)
{
    if (s->status == ESPALIER_OK) s->status = st;
}

/* A [rows, cols] view inside a larger tensor of pattern values, so that strides and borders are exercised. */
static esi_tensor matrix(case_state *s, int64_t rows, int64_t cols)
{
    int64_t left = (int64_t)(next_random(&s->seed) % 4), stride = cols + left + (int64_t)(next_random(&s->seed) % 6);
    float *values = host(s, sizeof *values * (size_t)((rows + 2) * stride));
    esi_tensor t;

    for (int64_t i = 0; i < (rows + 2) * stride; i++) values[i] = -12345.0f;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) values[(r + 1) * stride + left + c] = random_value(s);
    note(s, esi_tensor_from(s->ctx, &t, rows + 2, stride, ESI_F32, values));
    return s->status == ESPALIER_OK ? esi_cols(esi_rows(t, 1, rows), left, cols) : t;
}

/* The same, remembered as the output. */
static esi_tensor output(case_state *s, int64_t rows, int64_t cols)
{
    esi_tensor t = matrix(s, rows, cols);

    s->y_parent = t;
    s->y_parent.rows = rows + 2;
    s->y_parent.cols = t.stride;
    s->y_row = 1;
    s->y_col = (int64_t)(t.offset / 4) - t.stride;
    s->y_parent.offset = 0;
    s->y_rows = rows;
    s->y_cols = cols;
    return t;
}

/* I32 indices below `limit`, and -1 for about one in `one_missing_in` (0 = none). */
static esi_tensor indices(case_state *s, int64_t rows, int64_t cols, int64_t limit, uint64_t one_missing_in)
{
    int32_t *values = host(s, sizeof *values * (size_t)(rows * cols));
    esi_tensor t;

    for (int64_t i = 0; i < rows * cols; i++) {
        values[i] = (int32_t)(next_random(&s->seed) % (uint64_t)limit);
        if (one_missing_in && next_random(&s->seed) % one_missing_in == 0) values[i] = -1;
    }
    note(s, esi_tensor_from(s->ctx, &t, rows, cols, ESI_I32, values));
    return t;
}

/* I32: 0 .. period - 1 in runs of `run`, again and again. */
static esi_tensor runs(case_state *s, int64_t rows, int64_t period, int64_t run)
{
    int32_t *values = host(s, sizeof *values * (size_t)rows);
    esi_tensor t;

    for (int64_t i = 0; i < rows; i++) values[i] = (int32_t)(i % period / run);
    note(s, esi_tensor_from(s->ctx, &t, rows, 1, ESI_I32, values));
    return t;
}

/* Distinct indices: a random order of [0, n). */
static esi_tensor permutation(case_state *s, int64_t n)
{
    int32_t *values = host(s, sizeof *values * (size_t)n);
    esi_tensor t;

    for (int64_t i = 0; i < n; i++) {
        int64_t j = (int64_t)(next_random(&s->seed) % (uint64_t)(i + 1));
        values[i] = values[j];
        values[j] = (int32_t)i;
    }
    values[0] = -1;
    note(s, esi_tensor_from(s->ctx, &t, n, 1, ESI_I32, values));
    return t;
}

static uint16_t to_half(float v) /* truncation is good enough for test data */
{
    uint32_t bits, exponent;

    memcpy(&bits, &v, sizeof bits);
    exponent = bits >> 23 & 255u;
    if (exponent == 255u) return (uint16_t)(bits >> 16 & 0x8000u) | 0x7c00u | (uint16_t)(bits & 0x7fffffu ? 1u : 0u);
    if (exponent < 103u) return (uint16_t)(bits >> 16 & 0x8000u);
    if (exponent < 113u) return (uint16_t)(bits >> 16 & 0x8000u) | (uint16_t)((0x800000u | (bits & 0x7fffffu)) >> (126u - exponent));
    if (exponent > 142u) return (uint16_t)(bits >> 16 & 0x8000u) | 0x7bffu;
    return (uint16_t)((bits >> 16 & 0x8000u) | (exponent - 112u) << 10 | (bits & 0x7fffffu) >> 13);
}

/* A weight at an odd address. */
static esi_tensor weight(case_state *s, int64_t rows, int64_t cols, esi_dtype dtype)
{
    size_t row_bytes, n = (size_t)(rows * cols);
    uint8_t *bytes;
    esi_tensor t;

    if (!esi_dtype_row_bytes(dtype, cols, &row_bytes)) abort();
    bytes = (uint8_t *)host(s, row_bytes * (size_t)rows) + 1;
    for (size_t i = 0; i < n; i++) {
        float v = random_value(s);
        uint16_t half = to_half(v);
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        if (dtype == ESI_F32) memcpy(bytes + 4 * i, &v, 4);
        if (dtype == ESI_F16) memcpy(bytes + 2 * i, &half, 2);
        if (dtype == ESI_BF16) bytes[2 * i] = (uint8_t)(bits >> 16), bytes[2 * i + 1] = (uint8_t)(bits >> 24);
        if (dtype == ESI_Q8_0) {
            if (i % 32 == 0) memcpy(bytes + i / 32 * 34, &half, 2);
            bytes[i / 32 * 34 + 2 + i % 32] = (uint8_t)next_random(&s->seed);
        }
    }
    note(s, esi_weight_wrap(s->ctx, &t, rows, cols, dtype, bytes));
    if (s->n_weights == ESI_COUNT(s->weights)) abort();
    s->weights[s->n_weights++] = t;
    return t;
}

/* Variant bits: 1 bias, 2 scale, 4 residual, 8 gate (with residual), 16 residual in place; activation above. */
static esi_epilogue make_epilogue(case_state *s, esi_tensor y, int64_t variant)
{
    esi_epilogue e = {.act = (esi_activation)(variant >> 5)};
    int64_t n = y.cols;

    if (variant & 1) e.bias = weight(s, 1, n, ESI_BF16);
    if (variant & 2) e.scale = matrix(s, 1, n);
    if (variant & 4) e.residual = variant & 16 ? y : matrix(s, y.rows, n);
    if ((variant & 12) == 12) e.gate = weight(s, 1, n, ESI_F32);
    return e;
}

/* --------------------------------------------------------------------- ops */

#define RUN(call) \
    do { \
        if (s->status == ESPALIER_OK) note(s, call); \
    } while (0)

static void run_linear(case_state *s, const int64_t *p) /* n, k, o, dtype, variant */
{
    esi_tensor x = matrix(s, p[0], p[1]), w = weight(s, p[2], p[1], (esi_dtype)p[3]), y = output(s, p[0], p[2]);
    esi_epilogue e = make_epilogue(s, y, p[4]);
    RUN(esi_linear(s->ctx, y, x, w, &e));
}

static void run_conv(case_state *s, const int64_t *p) /* n, ci, o, dtype, variant, taps, layout, n_in, one missing in */
{
    esi_tensor x = matrix(s, p[7], p[1]), w = weight(s, p[2], p[1] * p[5], (esi_dtype)p[3]), y = output(s, p[0], p[2]);
    esi_tensor table = indices(s, p[0], p[5], p[7], (uint64_t)p[8]);
    esi_epilogue e = make_epilogue(s, y, p[4]);
    RUN(esi_conv(s->ctx, y, x, table, w, (esi_conv_layout)p[6], &e));
}

/* nq, nk, heads, dim, windows, bias, number of regions, large scale, small values, length of a region (0: mixed) */
static void run_attention(case_state *s, const int64_t *p)
{
    esi_tensor q = matrix(s, p[4] * p[0], p[2] * p[3]), k = matrix(s, p[4] * p[1], p[2] * p[3]);
    esi_tensor v = matrix(s, p[4] * p[1], p[2] * p[3]), y = output(s, p[4] * p[0], p[2] * p[3]);
    esi_attention_args a = {.heads = (int)p[2], .windows = p[4], .scale = p[7] ? 3.0f : 1.0f / sqrtf((float)p[3])};

    if (p[5]) a.bias = matrix(s, p[2] * p[0], p[1]);
    if (p[6]) a.region = p[9] ? runs(s, p[4] * p[1], p[1], p[9]) : indices(s, p[4] * p[1], 1, p[6], 0);
    if (p[8]) RUN(esi_scale(s->ctx, v, v, 0x1p-37f)); /* sums near the limit of the store rule */
    RUN(esi_attention(s->ctx, y, q, k, v, &a));
}

/* height, width, window, shift, heads, dim: attention of a grid cut into windows, with the tables that the networks use */
static void run_windows(case_state *s, const int64_t *p)
{
    const esi_grid grid = {p[0], p[1]};
    const int64_t C = p[4] * p[5], rows = esi_window_count(grid, p[2]) * p[2] * p[2], positions = (2 * p[2] - 1) * (2 * p[2] - 1);
    esi_tensor x = matrix(s, p[0] * p[1], C), qkv = matrix(s, rows, 3 * C), attended = matrix(s, rows, C), index, region, bias;
    esi_tensor w = weight(s, 3 * C, C, ESI_F16), b = weight(s, 1, 3 * C, ESI_F32), y = output(s, p[0] * p[1], C);
    esi_attention_args a = {.heads = (int)p[4], .windows = rows / (p[2] * p[2]), .scale = 1.0f / sqrtf((float)p[5])};
    esi_tensor values = weight(s, positions, p[4], ESI_F16);

    RUN(esi_window_tables(s->ctx, &index, &region, grid, p[2], p[3]));
    RUN(esi_window_bias(s->ctx, &bias, values, p[2]));
    if (s->status != ESPALIER_OK) return;
    a.bias = bias;
    a.region = region;
    RUN(esi_conv(s->ctx, qkv, x, index, w, ESI_CONV_TAP_MAJOR, &(esi_epilogue){.bias = b}));
    RUN(esi_attention(s->ctx, attended, esi_cols(qkv, 0, C), esi_cols(qkv, C, C), esi_cols(qkv, 2 * C, C), &a));
    RUN(esi_scatter_rows(s->ctx, y, attended, index));
}

/* height, width, channels, kernel, dilation, spread of the offsets: what a deformable convolution reads */
static void run_deform(case_state *s, const int64_t *p)
{
    const esi_conv_geometry g = {.kernel = p[3], .stride = 1, .padding = p[4] * (p[3] / 2), .dilation = p[4]};
    const int64_t taps = p[3] * p[3], rows = p[0] * p[1];
    float *values = host(s, sizeof *values * (size_t)(rows * taps * 3));
    esi_tensor x = matrix(s, rows, p[2]), y = output(s, rows * taps, p[2]), table, factor;

    for (int64_t i = 0; i < rows * taps * 3; i++) values[i] = random_value(s) * (i < rows * taps * 2 ? (float)p[5] : 1.0f);
    RUN(esi_deform_table(s->ctx, &table, &factor, (esi_grid){p[0], p[1]}, &g, values, values + rows * taps * 2, 2.0f, 0, rows));
    if (s->status == ESPALIER_OK) RUN(esi_weighted_gather(s->ctx, y, x, table, factor));
}

/* height, width, channels, new height, new width, corners aligned */
static void run_resize(case_state *s, const int64_t *p)
{
    esi_tensor x = matrix(s, p[0] * p[1], p[2]), y = output(s, p[3] * p[4], p[2]), table, factor;

    RUN(esi_resize_table(s->ctx, &table, &factor, (esi_grid){p[0], p[1]}, (esi_grid){p[3], p[4]}, p[5], 0, p[3] * p[4]));
    if (s->status == ESPALIER_OK) RUN(esi_weighted_gather(s->ctx, y, x, table, factor));
}

static esi_norm_args make_norm(case_state *s, int64_t cols, int64_t variant) /* bits: weight, bias, modulation; activation above */
{
    esi_norm_args a = {.eps = 1e-6f, .act = (esi_activation)(variant >> 3)};

    if (variant & 4) {
        a.mod_scale = matrix(s, 1, cols);
        a.mod_shift = matrix(s, 1, cols);
    } else {
        if (variant & 1) a.weight = weight(s, 1, cols, ESI_F16);
        if (variant & 2) a.bias = weight(s, 1, cols, ESI_F32);
    }
    return a;
}

static void run_layer_norm(case_state *s, const int64_t *p) /* n, c, variant, in place */
{
    esi_tensor y = output(s, p[0], p[1]), x = p[3] ? y : matrix(s, p[0], p[1]);
    esi_norm_args a = make_norm(s, p[1], p[2]);
    RUN(esi_layer_norm(s->ctx, y, x, &a));
}

static void run_group_norm(case_state *s, const int64_t *p) /* n, c, groups, variant, in place */
{
    esi_tensor y = output(s, p[0], p[1]), x = p[4] ? y : matrix(s, p[0], p[1]);
    esi_norm_args a = make_norm(s, p[1], p[3]);
    RUN(esi_group_norm(s->ctx, y, x, (int)p[2], &a));
}

static void run_rms_norm(case_state *s, const int64_t *p) /* n, heads, dim, in place */
{
    esi_tensor y = output(s, p[0], p[1] * p[2]), x = p[3] ? y : matrix(s, p[0], p[1] * p[2]);
    RUN(esi_rms_norm_heads(s->ctx, y, x, weight(s, 1, p[1] * p[2], ESI_BF16), (int)p[1]));
}

static void run_rope(case_state *s, const int64_t *p) /* n, heads, dim, pairing, in place */
{
    esi_tensor y = output(s, p[0], p[1] * p[2]), x = p[4] ? y : matrix(s, p[0], p[1] * p[2]);
    esi_tensor c = matrix(s, p[0], p[2] / 2), sn = matrix(s, p[0], p[2] / 2);
    RUN(esi_rope(s->ctx, y, x, c, sn, (int)p[1], (esi_rope_pairing)p[3]));
}

static void run_elementwise(case_state *s, const int64_t *p) /* n, c, kind, in place, variant */
{
    esi_tensor y = output(s, p[0], p[1]), a = p[3] ? y : matrix(s, p[0], p[1]);

    switch (p[2]) {
    case 0: RUN(esi_copy(s->ctx, y, a)); break;
    case 1: RUN(esi_copy(s->ctx, y, weight(s, p[0], p[1], (esi_dtype)p[4]))); break;
    case 2: RUN(esi_fill(s->ctx, y, random_value(s))); break;
    case 3: RUN(esi_activate(s->ctx, y, a, (esi_activation)p[4])); break;
    case 4: RUN(esi_add(s->ctx, y, a, matrix(s, p[0], p[1]))); break;
    case 5: RUN(esi_mul(s->ctx, y, a, matrix(s, p[0], p[1]))); break;
    case 6: RUN(esi_axpby(s->ctx, y, 0.7f, a, -1.3f, matrix(s, p[0], p[1]))); break;
    case 7: RUN(esi_scale(s->ctx, y, a, 0.3f)); break;
    case 8: RUN(esi_scale_shift(s->ctx, y, a, p[4] & 1 ? matrix(s, 1, p[1]) : (esi_tensor){0},
                                p[4] & 2 ? weight(s, 1, p[1], ESI_F32) : (esi_tensor){0})); break;
    case 9: RUN(esi_normalize(s->ctx, y, a, weight(s, 1, p[1], ESI_F32), matrix(s, 1, p[1]))); break;
    default: RUN(esi_scale_rows(s->ctx, y, a, matrix(s, p[0], 1))); break;
    }
}

static void run_move(case_state *s, const int64_t *p) /* kind, n, a, b, n_in */
{
    int64_t n = p[1], a = p[2], b = p[3], in = p[4];
    esi_tensor none = {0}, y;

    switch (p[0]) {
    case 0: y = output(s, n, a); RUN(esi_gather_rows(s->ctx, y, matrix(s, in, a), indices(s, n, 1, in, 5))); break;
    case 1: y = output(s, in, a); RUN(esi_scatter_rows(s->ctx, y, matrix(s, in, a), permutation(s, in))); break;
    case 2: y = output(s, n, a * b); RUN(esi_repeat_cols(s->ctx, y, matrix(s, n, a), b)); break;
    case 3: y = output(s, n, a * b); RUN(esi_add_repeat_cols(s->ctx, y, matrix(s, in, a), indices(s, n, 1, in, 0), b)); break;
    case 4: y = output(s, n, a * b); RUN(esi_add_repeat_cols(s->ctx, y, matrix(s, n, a), none, b)); break;
    case 5: y = output(s, n, a); RUN(esi_mean_cols(s->ctx, y, matrix(s, n, a * b), b)); break;
    case 6: y = output(s, n, a * b); RUN(esi_transpose_cols(s->ctx, y, matrix(s, n, a * b), a, b)); break;
    case 7: y = output(s, a, n); RUN(esi_transpose(s->ctx, y, matrix(s, n, a))); break;
    case 8: y = output(s, n, a); RUN(esi_pool_rows(s->ctx, y, matrix(s, in, a), indices(s, n, b, in, 3), ESI_POOL_MAX)); break;
    case 9: y = output(s, n, a); RUN(esi_pool_rows(s->ctx, y, matrix(s, in, a), indices(s, n, b, in, 3), ESI_POOL_MEAN)); break;
    case 10:
        y = output(s, n, a);
        RUN(esi_weighted_gather(s->ctx, y, matrix(s, in, a), indices(s, n, b, in, 4), matrix(s, n, b)));
        break;
    default: y = output(s, 1, a); RUN(esi_mean_rows(s->ctx, y, matrix(s, n, a))); break;
    }
}

static void run_stats(case_state *s, const int64_t *p) /* n, c */
{
    esi_tensor x = matrix(s, p[0], p[1]);
    uint64_t nans = 0, infs = 0;

    RUN(esi_sum_stats(s->ctx, x, &s->numbers[0], &s->numbers[1]));
    RUN(esi_count_nonfinite(s->ctx, x, &nans, &infs));
    s->numbers[2] = (double)nans;
    s->numbers[3] = (double)infs;
}

/* ------------------------------------------------------------------ the list */

typedef struct visitor {
    void (*visit)(void *user, const kernel_case *c);
    void *user;
} visitor;

static void each_fill(const visitor *v, kernel_case c)
{
    for (int f = 0; f < FILL_COUNT; f++) {
        c.fill = (fill)f;
        v->visit(v->user, &c);
    }
}

static void products(const visitor *v)
{
    /* variants: nothing; bias; scale + bias; residual; residual in place; gate; everything with activations */
    static const int64_t variants[] = {0, 1, 3, 2, 4, 20, 12, 28, 15};

    for (int64_t i = 1; i <= 67; i++) {
        int64_t k = i * 37 % 67 + 1, o = i * 11 % 67 + 1, dtype = i % 4, variant = variants[i % 9] | i % ESI_ACT_COUNT << 5;
        if (dtype == ESI_Q8_0) k = (k + 31) / 32 * 32;
        each_fill(v, (kernel_case){.op = "linear", .run = run_linear, .p = {i, k, o, dtype, variant}});
    }
    for (int64_t dtype = 0; dtype < 4; dtype++) {
        each_fill(v, (kernel_case){.op = "linear", .run = run_linear, .p = {50, 64, 70, dtype, 1}});
        v->visit(v->user, &(kernel_case){.op = "linear", .run = run_linear, .p = {5, 288, 410, dtype, 28 | ESI_ACT_SILU << 5}});
        v->visit(v->user, &(kernel_case){.op = "linear", .run = run_linear, .p = {1100, 32, 33, dtype, 1}});
        v->visit(v->user, &(kernel_case){.op = "linear", .run = run_linear, .p = {30, 1024, 40, dtype, 1 | ESI_ACT_GELU_TANH << 5}});
        /* more columns than one group of packed weights */
        v->visit(v->user, &(kernel_case){.op = "linear", .run = run_linear, .p = {7, 64, 1701, dtype, 31 | ESI_ACT_SILU << 5}});
    }
    for (int64_t i = 1; i <= 40; i++) {
        int64_t n = i * 31 % 67 + 1, ci = i * 17 % 45 + 1, o = i * 23 % 50 + 1, taps = i % 5 == 0 ? 27 : i % 5 == 1 ? 9 : i % 7 + 1;
        int64_t dtype = i % 4, variant = variants[i % 9] | i % ESI_ACT_COUNT << 5;
        if (dtype == ESI_Q8_0) ci = (ci + 31) / 32 * 32;
        each_fill(v, (kernel_case){
                         .op = "conv", .run = run_conv, .p = {n, ci, o, dtype, variant, taps, i % 2, i * 13 % 80 + 1, i % 3 + 1}});
    }
    for (int64_t layout = 0; layout < 2; layout++) {
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {900, 16, 24, ESI_BF16, 1, 27, layout, 700, 2}});
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {20, 300, 50, ESI_F16, 1, 9, layout, 30, 3}});
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {17, 3, 70, ESI_F32, 1, 256, layout, 900, 0}});
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {10, 20, 8, ESI_Q8_0, 0, 8, layout, 11, 2}});
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {13, 130, 1603, ESI_BF16, 15, 4, layout, 40, 3}});
        /* as the matting networks: 7 x 7 taps, one result, one tap that may be missing, widths of half a panel and more */
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {150, 64, 98, ESI_F16, 1, 49, layout, 120, 0}});
        v->visit(v->user,
                 &(kernel_case){.op = "conv", .run = run_conv, .p = {300, 64, 1, ESI_F16, 1 | ESI_ACT_SIGMOID << 5, 9, layout, 200, 4}});
        for (int64_t o = 16; o <= 112; o += 16)
            v->visit(v->user,
                     &(kernel_case){.op = "conv", .run = run_conv, .p = {70, 40, o, ESI_F16, 3 | ESI_ACT_RELU << 5, 9, layout, 60, 5}});
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {300, 96, 288, ESI_F16, 1, 1, layout, 200, 5}});
        v->visit(v->user, &(kernel_case){.op = "conv", .run = run_conv, .p = {9, 64, 1552, ESI_F16, 1, 2, layout, 40, 3}});
    }
}

static void attentions(const visitor *v)
{
    for (int64_t i = 1; i <= 67; i++) {
        int64_t nk = i * 29 % 150 + 1, heads = i % 3 + 1, dim = i * 7 % 40 + 1, windows = i % 4 + 1;
        each_fill(v, (kernel_case){.op = "attention", .run = run_attention, .p = {i, nk, heads, dim, windows, i % 2, 0, i % 5 == 0}});
        each_fill(v, (kernel_case){.op = "attention", .run = run_attention, .p = {i, i, heads, dim, windows, i % 2, i % 4 + 1, 0}});
    }
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {250, 260, 1, 64, 1, 0, 0, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {200, 200, 2, 32, 1, 1, 5, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {33, 130, 2, 128, 1, 0, 0, 1}});
    /* windows of 12 x 12 with relative positions, and regions where the grid was rolled */
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {144, 144, 6, 32, 4, 1, 0, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {144, 144, 2, 32, 3, 1, 4, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {49, 49, 3, 32, 5, 1, 2, 0, 0, 7}});
    /* more queries than one block, with a bias; first tiles without a visible key; partial sums that the store rule may touch */
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {603, 70, 2, 5, 1, 1, 0, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {210, 210, 2, 9, 2, 1, 3, 0, 0, 70}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {90, 300, 1, 17, 1, 0, 0, 0, 1}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {90, 300, 1, 17, 1, 0, 0, 1, 1}});
    /* more windows than a task has; more keys than a bias is kept for; panels of heads */
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {49, 49, 3, 32, 19, 1, 4, 0, 0, 7}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {20, 1100, 2, 24, 3, 1, 0, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {490, 100, 2, 48, 2, 1, 0, 0}});
    v->visit(v->user, &(kernel_case){.op = "attention", .run = run_attention, .p = {64, 64, 2, 112, 2, 1, 2, 0}});
    /* grids that are no whole windows, even and odd blocks */
    for (int64_t shift = 0; shift < 2; shift++) {
        each_fill(v, (kernel_case){.op = "attention", .run = run_windows, .p = {9, 14, 4, shift * 2, 3, 8}});
        v->visit(v->user, &(kernel_case){.op = "attention", .run = run_windows, .p = {16, 25, 12, shift * 6, 2, 32}});
        v->visit(v->user, &(kernel_case){.op = "attention", .run = run_windows, .p = {30, 23, 7, shift * 3, 3, 32}});
    }
}

static void norms(const visitor *v)
{
    for (int64_t i = 1; i <= 67; i++) {
        int64_t act = i % ESI_ACT_COUNT << 3, rows = i * 13 % 50 + 1;
        each_fill(v, (kernel_case){.op = "layer_norm", .run = run_layer_norm, .p = {rows, i, i % 5 | act, i % 2}});
        each_fill(v, (kernel_case){.op = "group_norm", .run = run_group_norm, .p = {rows, i * (i % 3 + 1), i % 3 + 1, i % 4 | act, i % 2}});
        each_fill(v, (kernel_case){.op = "rms_norm_heads", .run = run_rms_norm, .p = {rows, i % 4 + 1, i, i % 2}});
        each_fill(v, (kernel_case){.op = "rope", .run = run_rope, .p = {rows, i % 4 + 1, i + i % 2, i / 2 % 2, i / 4 % 2}});
    }
    v->visit(v->user, &(kernel_case){.op = "layer_norm", .run = run_layer_norm, .p = {300, 1536, 4, 0}});
    v->visit(v->user, &(kernel_case){.op = "group_norm", .run = run_group_norm, .p = {20000, 8, 2, 3, 0}});
}

static void others(const visitor *v)
{
    for (int64_t i = 1; i <= 67; i++) {
        int64_t rows = i * 19 % 40 + 1;
        for (int64_t kind = 0; kind <= 10; kind++) {
            int64_t variant = kind == 1 ? i % 3 : kind == 3 ? i % ESI_ACT_COUNT : i % 4;
            each_fill(v, (kernel_case){.op = "elementwise", .run = run_elementwise, .p = {rows, i, kind, kind != 1 && i % 2, variant}});
        }
        for (int64_t kind = 0; kind <= 11; kind++)
            each_fill(v, (kernel_case){.op = "move", .run = run_move, .p = {kind, rows, i, i % 5 + 1, i * 3 % 30 + 2}});
        each_fill(v, (kernel_case){.op = "stats", .run = run_stats, .p = {rows, i}});
    }
    /* as the matting networks use them: maxima of 2 x 2, four corners for each tap, one channel, a picture's mean, tiles as channels */
    each_fill(v, (kernel_case){.op = "move", .run = run_move, .p = {8, 210, 64, 4, 800}});
    each_fill(v, (kernel_case){.op = "move", .run = run_move, .p = {10, 490, 64, 4, 130}});
    each_fill(v, (kernel_case){.op = "move", .run = run_move, .p = {10, 700, 1, 4, 90}});
    each_fill(v, (kernel_case){.op = "move", .run = run_move, .p = {11, 1300, 64, 1, 2}});
    each_fill(v, (kernel_case){.op = "move", .run = run_move, .p = {6, 25, 64, 3, 2}});
    /* offsets of some pixels, far outside, and in FILL_EXTREME no numbers */
    each_fill(v, (kernel_case){.op = "move", .run = run_deform, .p = {9, 11, 64, 7, 1, 2}});
    each_fill(v, (kernel_case){.op = "move", .run = run_deform, .p = {13, 6, 5, 3, 2, 9}});
    each_fill(v, (kernel_case){.op = "move", .run = run_deform, .p = {5, 7, 33, 1, 1, 1}});
    each_fill(v, (kernel_case){.op = "move", .run = run_resize, .p = {7, 9, 64, 14, 17, 1}});
    each_fill(v, (kernel_case){.op = "move", .run = run_resize, .p = {20, 13, 12, 9, 7, 0}});
    each_fill(v, (kernel_case){.op = "move", .run = run_resize, .p = {1, 1, 3, 4, 5, 1}});
    for (int64_t act = 0; act < ESI_ACT_COUNT; act++)
        each_fill(v, (kernel_case){.op = "elementwise", .run = run_elementwise, .p = {64, 512, 3, 0, act}});
    v->visit(v->user, &(kernel_case){.op = "elementwise", .run = run_elementwise, .p = {9, 96, 1, 0, ESI_Q8_0}});
    v->visit(v->user, &(kernel_case){.op = "stats", .run = run_stats, .p = {3000, 70}});
}

void for_each_case(void (*visit)(void *user, const kernel_case *c), void *user)
{
    visitor v = {visit, user};
    products(&v);
    attentions(&v);
    norms(&v);
    others(&v);
}
