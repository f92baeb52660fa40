/* SPDX-License-Identifier: MIT
 *
 * bench_norms.c: benchmarks of norms and of sums over all rows. They wait for memory, not for multiply-adds, so their seconds matter and
 * the share of the peak is small.
 */
#include "bench.h"

#include <stdio.h>

typedef struct norm_args {
    esi_tensor x, y, gamma;
    esi_norm_args args;
    int kind, groups;
} norm_args;

enum { LAYER_NORM, GROUP_NORM, RMS_NORM, MEAN_ROWS, COUNT_NONFINITE, SUM_STATS, KINDS };

static const struct { const char *name, *formula; double flops; } kinds[KINDS] = {
    {"layer_norm", "8 * rows * channels", 8.0}, {"group_norm", "8 * rows * channels", 8.0}, {"rms_norm", "4 * rows * channels", 4.0},
    {"mean_rows", "rows * channels", 1.0},      {"count_nonfinite", "2 * rows * channels", 2.0}, {"sum_stats", "3 * rows * channels", 3.0},
};

static espalier_status norm_once(bench *b, void *arg)
{
    const norm_args *a = arg;
    uint64_t nans, infinities;
    double sum, squares;

    switch (a->kind) {
    case LAYER_NORM: return esi_layer_norm(b->ctx, a->y, a->x, &a->args);
    case GROUP_NORM: return esi_group_norm(b->ctx, a->y, a->x, a->groups, &a->args);
    case RMS_NORM: return esi_rms_norm_heads(b->ctx, a->y, a->x, a->gamma, a->groups);
    case MEAN_ROWS: return esi_mean_rows(b->ctx, esi_rows(a->y, 0, 1), a->x);
    case COUNT_NONFINITE: return esi_count_nonfinite(b->ctx, a->x, &nans, &infinities);
    default: return esi_sum_stats(b->ctx, a->x, &sum, &squares);
    }
}

static espalier_status one_norm(bench *b, const char *only, int kind, int64_t rows, int64_t cols, int groups)
{
    espalier_context *ctx = b->ctx;
    norm_args a = {.kind = kind, .groups = groups, .args = {.eps = 1e-6f}};
    esi_scope scope;
    char name[96];
    espalier_status st;

    snprintf(name, sizeof name, "norm/%s-%lldx%lld", kinds[kind].name, (long long)rows, (long long)cols);
    if (!bench_wanted(only, name)) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    st = bench_random(ctx, &a.x, rows, cols);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.gamma, 1, cols);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.y, rows, cols, ESI_F32);
    a.args.weight = a.args.bias = a.gamma;
    if (st == ESPALIER_OK)
        st = bench_measure(b, name, kinds[kind].flops * (double)rows * (double)cols, kinds[kind].formula, norm_once, &a);
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status bench_norms(bench *b, const char *only)
{
    espalier_status st = one_norm(b, only, LAYER_NORM, 4096, 1536, 1);

    if (st == ESPALIER_OK) st = one_norm(b, only, RMS_NORM, 4096, 1536, 12);
    if (st == ESPALIER_OK) st = one_norm(b, only, GROUP_NORM, 32768, 128, 32);
    if (st == ESPALIER_OK) st = one_norm(b, only, MEAN_ROWS, 4096, 1536, 1);
    if (st == ESPALIER_OK) st = one_norm(b, only, SUM_STATS, 4096, 1536, 1);
    if (st == ESPALIER_OK) st = one_norm(b, only, COUNT_NONFINITE, 4096, 1536, 1);
    return st;
}
