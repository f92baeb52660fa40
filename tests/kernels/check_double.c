/* SPDX-License-Identifier: MIT
 *
 * check_double.c: the plain C kernels against the mathematics, in double precision and by the most direct loops. Tolerances are a few
 * rounding errors of the sums involved.
 */
#include "kernels/kernel_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 23, K = 70, O = 19, TAPS = 5, HEADS = 3, DIM = 22, KEYS = 150, C = 66 };

typedef struct test {
    espalier_context *ctx;
    case_state random;
    int failures;
} test;

static float *values(test *t, int64_t rows, int64_t cols)
{
    float *v = malloc(sizeof *v * (size_t)(rows * cols));
    if (!v) abort();
    for (int64_t i = 0; i < rows * cols; i++) v[i] = random_value(&t->random);
    return v;
}

static esi_tensor upload(test *t, int64_t rows, int64_t cols, const float *v)
{
    esi_tensor x;
    if (esi_tensor_from(t->ctx, &x, rows, cols, ESI_F32, v) != ESPALIER_OK) abort();
    return x;
}

static void expect(test *t, const char *what, espalier_status st, esi_tensor y, const double *want, double tolerance)
{
    size_t n = (size_t)(y.rows * y.cols);
    float *got = malloc(n * sizeof *got);
    double worst = 0.0;

    if (!got) abort();
    if (st == ESPALIER_OK) st = esi_tensor_read(t->ctx, y, got);
    for (size_t i = 0; st == ESPALIER_OK && i < n; i++) {
        double error = fabs((double)got[i] - want[i]);
        if (!(error <= worst)) worst = error;
    }
    if (st != ESPALIER_OK || !(worst <= tolerance)) {
        printf("FAIL against double: %s: status %d, error %g, allowed %g\n", what, (int)st, worst, tolerance);
        t->failures++;
    }
    free(got);
}

static void check_products(test *t)
{
    float *x = values(t, N, K), *w = values(t, O, K), *bias = values(t, 1, O), *gate = values(t, 1, O), *res = values(t, N, O);
    float *cw = values(t, O, TAPS * K);
    int32_t table[N * TAPS];
    double want[N * O];
    esi_tensor tx = upload(t, N, K, x), tw = upload(t, O, K, w), y, ttable, tcw = upload(t, O, TAPS * K, cw);
    esi_epilogue e = {.bias = upload(t, 1, O, bias), .gate = upload(t, 1, O, gate), .residual = upload(t, N, O, res), .act = ESI_ACT_SILU};

    if (esi_tensor_new(t->ctx, &y, N, O, ESI_F32) != ESPALIER_OK) abort();
    for (int n = 0; n < N; n++)
        for (int o = 0; o < O; o++) {
            double a = (double)bias[o];
            for (int k = 0; k < K; k++) a += (double)x[n * K + k] * (double)w[o * K + k];
            want[n * O + o] = (double)gate[o] * (a / (1.0 + exp(-a))) + (double)res[n * O + o];
        }
    expect(t, "linear", esi_linear(t->ctx, y, tx, tw, &e), y, want, 1e-4);

    for (int layout = 0; layout < 2; layout++) {
        for (int i = 0; i < N * TAPS; i++) table[i] = (int32_t)(next_random(&t->random.seed) % (N + 8)) - 8;
        for (int i = 0; i < N * TAPS; i++) table[i] = ESI_MAX(table[i], -1);
        for (int n = 0; n < N; n++)
            for (int o = 0; o < O; o++) {
                double a = 0.0;
                for (int tap = 0; tap < TAPS; tap++)
                    for (int k = 0; table[n * TAPS + tap] >= 0 && k < K; k++)
                        a += (double)x[table[n * TAPS + tap] * K + k] *
                             (double)cw[o * TAPS * K + (layout == ESI_CONV_TAP_MAJOR ? tap * K + k : k * TAPS + tap)];
                want[n * O + o] = a;
            }
        if (esi_tensor_from(t->ctx, &ttable, N, TAPS, ESI_I32, table) != ESPALIER_OK) abort();
        expect(t, "conv", esi_conv(t->ctx, y, tx, ttable, tcw, (esi_conv_layout)layout, NULL), y, want, 2e-4);
    }
    free(x), free(w), free(bias), free(gate), free(res), free(cw);
}

static void check_attention(test *t)
{
    float *q = values(t, KEYS, HEADS * DIM), *k = values(t, KEYS, HEADS * DIM), *v = values(t, KEYS, HEADS * DIM);
    float *bias = values(t, HEADS * KEYS, KEYS);
    int32_t region[KEYS];
    double *want = calloc(KEYS * HEADS * DIM, sizeof *want), s[KEYS];
    esi_attention_args a = {.heads = HEADS, .windows = 1, .scale = 0.3f};
    esi_tensor y;

    if (!want) abort();
    for (int i = 0; i < KEYS; i++) region[i] = (int32_t)(next_random(&t->random.seed) % 3);
    region[7] = 9; /* sees itself only */
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < KEYS; i++) {
            double sum = 0.0, *o = want + i * HEADS * DIM + h * DIM;
            for (int j = 0; j < KEYS; j++) {
                s[j] = 0.0;
                for (int d = 0; d < DIM; d++) s[j] += (double)q[(i * HEADS + h) * DIM + d] * (double)k[(j * HEADS + h) * DIM + d];
                s[j] = region[i] == region[j] ? exp(s[j] * (double)a.scale + (double)bias[(h * KEYS + i) * KEYS + j]) : 0.0;
                sum += s[j];
            }
            for (int j = 0; j < KEYS; j++)
                for (int d = 0; d < DIM; d++) o[d] += s[j] / sum * (double)v[(j * HEADS + h) * DIM + d];
        }
    a.bias = upload(t, HEADS * KEYS, KEYS, bias);
    if (esi_tensor_from(t->ctx, &a.region, KEYS, 1, ESI_I32, region) != ESPALIER_OK) abort();
    if (esi_tensor_new(t->ctx, &y, KEYS, HEADS * DIM, ESI_F32) != ESPALIER_OK) abort();
    expect(t, "attention",
           esi_attention(t->ctx, y, upload(t, KEYS, HEADS * DIM, q), upload(t, KEYS, HEADS * DIM, k), upload(t, KEYS, HEADS * DIM, v), &a),
           y, want, 2e-5);
    free(q), free(k), free(v), free(bias), free(want);
}

static void check_norms(test *t)
{
    float *x = values(t, N, C), *w = values(t, 1, C), *b = values(t, 1, C), *cs = values(t, N, C / 6), *sn = values(t, N, C / 6);
    double want[N * C];
    esi_tensor tx = upload(t, N, C, x), tw = upload(t, 1, C, w), tb = upload(t, 1, C, b), y;
    esi_tensor tc = upload(t, N, C / 6, cs), ts = upload(t, N, C / 6, sn);
    esi_norm_args a = {.eps = 1e-5f, .mod_scale = tw, .mod_shift = tb};
    int part = C / 3;

    if (esi_tensor_new(t->ctx, &y, N, C, ESI_F32) != ESPALIER_OK) abort();
    for (int n = 0; n < N; n++) {
        double mean = 0.0, var = 0.0;
        for (int c = 0; c < C; c++) mean += (double)x[n * C + c] / C;
        for (int c = 0; c < C; c++) var += pow((double)x[n * C + c] - mean, 2.0) / C;
        for (int c = 0; c < C; c++)
            want[n * C + c] = ((double)x[n * C + c] - mean) / sqrt(var + 1e-5) * (1.0 + (double)w[c]) + (double)b[c];
    }
    expect(t, "layer_norm", esi_layer_norm(t->ctx, y, tx, &a), y, want, 1e-5);

    a = (esi_norm_args){.eps = 1e-5f, .weight = tw, .bias = tb};
    for (int g = 0; g < 3; g++) {
        double mean = 0.0, var = 0.0;
        for (int n = 0; n < N; n++)
            for (int c = g * part; c < (g + 1) * part; c++) mean += (double)x[n * C + c] / (N * part);
        for (int n = 0; n < N; n++)
            for (int c = g * part; c < (g + 1) * part; c++) var += pow((double)x[n * C + c] - mean, 2.0) / (N * part);
        for (int n = 0; n < N; n++)
            for (int c = g * part; c < (g + 1) * part; c++)
                want[n * C + c] = ((double)x[n * C + c] - mean) / sqrt(var + 1e-5) * (double)w[c] + (double)b[c];
    }
    expect(t, "group_norm", esi_group_norm(t->ctx, y, tx, 3, &a), y, want, 1e-5);

    for (int n = 0; n < N; n++)
        for (int h = 0; h < 3; h++) {
            double sum = 0.0;
            for (int c = h * part; c < (h + 1) * part; c++) sum += pow((double)x[n * C + c], 2.0);
            for (int c = h * part; c < (h + 1) * part; c++) want[n * C + c] = (double)x[n * C + c] * sqrt(part / sum) * (double)w[c];
        }
    expect(t, "rms_norm_heads", esi_rms_norm_heads(t->ctx, y, tx, tw, 3), y, want, 1e-5);

    for (int pairing = 0; pairing < 2; pairing++) {
        for (int n = 0; n < N; n++)
            for (int h = 0; h < 3; h++)
                for (int p = 0; p < part / 2; p++) {
                    int i = n * C + h * part + (pairing == ESI_ROPE_ADJACENT ? 2 * p : p);
                    int j = pairing == ESI_ROPE_ADJACENT ? i + 1 : i + part / 2;
                    double c = (double)cs[n * (C / 6) + p], s = (double)sn[n * (C / 6) + p];
                    want[i] = (double)x[i] * c - (double)x[j] * s;
                    want[j] = (double)x[i] * s + (double)x[j] * c;
                }
        expect(t, "rope", esi_rope(t->ctx, y, tx, tc, ts, 3, (esi_rope_pairing)pairing), y, want, 1e-6);
    }
    free(x), free(w), free(b), free(cs), free(sn);
}

/* Pooling, weighted gathers and the mean over rows, with missing rows. */
static void check_tables(test *t)
{
    float *x = values(t, N, C), *w = values(t, N, 4);
    double want[N * C];
    int32_t table[N * 4];
    esi_tensor tx = upload(t, N, C, x), tw = upload(t, N, 4, w), y, mean, ttable;

    if (esi_tensor_new(t->ctx, &y, N, C, ESI_F32) != ESPALIER_OK || esi_tensor_new(t->ctx, &mean, 1, C, ESI_F32) != ESPALIER_OK) abort();
    for (int i = 0; i < N * 4; i++) table[i] = (int32_t)(next_random(&t->random.seed) % (N + 8)) - 8;
    for (int i = 0; i < N * 4; i++) table[i] = ESI_MAX(table[i], -1);
    if (esi_tensor_from(t->ctx, &ttable, N, 4, ESI_I32, table) != ESPALIER_OK) abort();
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < N * C; i++) {
            const int32_t *row = table + i / C * 4;
            double largest = -1e30, sum = 0.0, weighted = 0.0;
            int present = 0;
            for (int k = 0; k < 4; k++) {
                if (row[k] < 0) continue;
                const double value = (double)x[row[k] * C + i % C];
                largest = value > largest ? value : largest;
                sum += value;
                weighted += (double)w[i / C * 4 + k] * value;
                present++;
            }
            want[i] = present == 0 ? 0.0 : kind == 0 ? largest : kind == 1 ? sum / present : weighted;
        }
        if (kind == 2) expect(t, "weighted_gather", esi_weighted_gather(t->ctx, y, tx, ttable, tw), y, want, 1e-6);
        else expect(t, "pool_rows", esi_pool_rows(t->ctx, y, tx, ttable, kind ? ESI_POOL_MEAN : ESI_POOL_MAX), y, want, 1e-6);
    }
    for (int c = 0; c < C; c++) want[c] = 0.0;
    for (int i = 0; i < N * C; i++) want[i % C] += (double)x[i] / N;
    expect(t, "mean_rows", esi_mean_rows(t->ctx, mean, tx), mean, want, 1e-6);
    free(x), free(w);
}

int check_against_double(espalier_context *ctx)
{
    test t = {.ctx = ctx, .random = {.seed = 42, .fill = FILL_RANDOM}};
    esi_scope scope = esi_scope_begin(ctx);

    check_products(&t);
    check_attention(&t);
    check_norms(&t);
    check_tables(&t);
    esi_scope_end(ctx, scope);
    return t.failures;
}
