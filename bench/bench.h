/* SPDX-License-Identifier: MIT
 *
 * bench.h: insides of espalier-bench: what a benchmark does and how it is measured.
 */
#ifndef ESI_BENCH_H
#define ESI_BENCH_H

#include "base/context.h"
#include "tensor/ops.h"

typedef struct bench_result {
    char name[96];
    char formula[192];              /* how flops was counted */
    double flops, seconds, cpu_seconds, peak_gflops, share;
    uint64_t peak_bytes;            /* allocated at most, inputs included; mapped weights not */
    bool busy;
} bench_result;

typedef struct bench {
    espalier_context *ctx;
    int threads;
    double min_seconds;             /* per benchmark, over all repetitions */
    bench_result *results;
    size_t n_results, capacity;
    void (*report)(const bench_result *r);
} bench;

/* Runs fn(b, arg) several times, a calibration loop before and after each, and keeps the run with the best share of the peak. */
typedef espalier_status (*bench_fn)(bench *b, void *arg);
espalier_status bench_measure(bench *b, const char *name, double flops, const char *formula, bench_fn fn, void *arg);

typedef struct bench_item {
    const char *name;               /* "linear": everything whose name begins with it */
    espalier_status (*run)(bench *b, const char *only);
} bench_item;

/* True when `name` is `only` or begins with it ("" and NULL match everything). */
bool bench_wanted(const char *only, const char *name);
espalier_status bench_linear(bench *b, const char *only);
espalier_status bench_attention(bench *b, const char *only);
espalier_status bench_conv(bench *b, const char *only);
espalier_status bench_norms(bench *b, const char *only);           /* bench_norms.c */
/* Whole networks at full size on random weights (bench_stages.c). */
espalier_status bench_flow(bench *b, const char *only);
espalier_status bench_slat_flow(bench *b, const char *only);
espalier_status bench_dinov3(bench *b, const char *only);
espalier_status bench_ss_decoder(bench *b, const char *only);
espalier_status bench_shape_decoder(bench *b, const char *only);
espalier_status bench_tex_decoder(bench *b, const char *only);
/* Matting networks at the size they were trained at, then the same by groups of operations (bench_matting.c). */
espalier_status bench_matte(bench *b, const char *only);

/* The tensors of a plan (tests/tools/model_plan.h) as a mapped file that is unlinked already. */
struct file_plan;
struct esi_weight_file;
espalier_status bench_open_plan(espalier_context *ctx, struct esi_weight_file **file, struct file_plan *plan);
/* Another finished result, which was measured elsewhere. */
espalier_status bench_add(bench *b, const bench_result *r);

/* A tensor of uniform values in [-1, 1) from a fixed generator. */
espalier_status bench_random(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols);
uint64_t bench_next(uint64_t *state);

/* device.c: is it a Vulkan device; the clock that its work is measured with; GFLOPS of its multiply-adds at most. */
bool bench_on_device(const espalier_context *ctx);
double bench_seconds(const espalier_context *ctx);
double bench_device_peak(espalier_context *ctx);

/* GFLOPS per CPU second of independent multiply-adds on all threads, on the widest vectors of the level. */
double bench_calibrate(espalier_context *ctx);
double bench_fma_plain(uint64_t rounds);
double bench_fma_avx2(uint64_t rounds);
double bench_fma_avx512(uint64_t rounds);
double bench_fma_neon(uint64_t rounds);

#endif
