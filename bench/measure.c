/* SPDX-License-Identifier: MIT
 *
 * measure.c: timing of one benchmark against the calibration loop. The figure of merit is GFLOPS per CPU second: on a shared machine wall
 * time says little, while CPU time of a thread that is not running does not count.
 */
#include "bench.h"

#include <stdio.h>

typedef struct calibration {
    double (*loop)(uint64_t rounds);
    uint64_t rounds;
    double flops[1024];
} calibration;

static void calibration_task(void *arg, size_t task, int slot)
{
    calibration *c = arg;
    (void)slot;
    c->flops[task] = c->loop(c->rounds);
}

static double (*loop_of(espalier_cpu_level level))(uint64_t)
{
    switch (level) {
#if defined(__x86_64__)
    case ESPALIER_CPU_AVX2: return bench_fma_avx2;
    case ESPALIER_CPU_AVX512: return bench_fma_avx512;
#elif defined(__aarch64__)
    case ESPALIER_CPU_NEON: return bench_fma_neon;
#endif
    default: return bench_fma_plain;
    }
}

double bench_calibrate(espalier_context *ctx)
{
    static calibration c; /* a program of one thread */
    size_t n = (size_t)esi_slots(ctx);
    double best = 0.0;

    if (bench_on_device(ctx)) {
        double a = bench_device_peak(ctx), second = bench_device_peak(ctx);
        return a > second ? a : second;
    }
    c.loop = loop_of(ctx->runtime->cpu_level);
    c.rounds = 1u << 20;
    for (int i = 0; i < 2; i++) {
        double flops = 0.0, start = esi_cpu_seconds(), seconds;
        if (esi_parallel(ctx, n, calibration_task, &c) != ESPALIER_OK) return 0.0;
        seconds = esi_cpu_seconds() - start;
        for (size_t t = 0; t < n; t++) flops += c.flops[t];
        if (seconds > 0.0 && flops / seconds * 1e-9 > best) best = flops / seconds * 1e-9;
    }
    return best;
}

espalier_status bench_measure(bench *b, const char *name, double flops, const char *formula, bench_fn fn, void *arg)
{
    bench_result *best = &b->results[b->n_results];
    double spent = 0.0, before;
    espalier_status st = ESPALIER_OK;

    if (b->n_results == b->capacity) return esi_fail(b->ctx, ESPALIER_ERR_INTERNAL, "bench: too many results");
    memset(best, 0, sizeof *best);
    before = bench_calibrate(b->ctx);
    int at_least = flops > 2e12 ? 1 : 3; /* a run of half a minute is long enough to be typical */
    for (int run = 0; run < at_least || (spent < b->min_seconds && run < 50); run++) {
        double wall = esi_now(), cpu = bench_seconds(b->ctx), after, peak, share;

        esi_memory_reset_high_water(b->ctx);
        st = fn(b, arg);
        if (st == ESPALIER_OK) st = esi_backend_wait(b->ctx);
        if (st != ESPALIER_OK) return st;
        cpu = bench_seconds(b->ctx) - cpu;
        wall = esi_now() - wall;
        after = bench_calibrate(b->ctx);
        peak = before > after ? before : after;
        share = flops / cpu * 1e-9 / peak;
        spent += wall;
        before = after;
        if (share <= best->share) continue;
        best->peak_bytes = esi_memory_high_water(b->ctx);
        best->seconds = wall;
        best->cpu_seconds = cpu;
        best->peak_gflops = peak;
        best->share = share;
        best->busy = wall > 1.3 * cpu / b->threads;
    }
    snprintf(best->name, sizeof best->name, "%s", name);
    snprintf(best->formula, sizeof best->formula, "%s", formula);
    best->flops = flops;
    b->n_results++;
    b->report(best);
    return st;
}

espalier_status bench_add(bench *b, const bench_result *r)
{
    if (b->n_results == b->capacity) return esi_fail(b->ctx, ESPALIER_ERR_INTERNAL, "bench: too many results");
    b->results[b->n_results++] = *r;
    b->report(r);
    return ESPALIER_OK;
}

bool bench_wanted(const char *only, const char *name)
{
    return !only || strncmp(only, name, strlen(only)) == 0;
}

uint64_t bench_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

espalier_status bench_random(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols)
{
    size_t n = (size_t)(rows * cols);
    float *values = esi_alloc(ctx, n, sizeof *values, "random values");
    uint64_t state = n;
    espalier_status st;

    if (!values) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) values[i] = (float)(bench_next(&state) >> 40) * 0x1p-23f - 1.0f;
    st = esi_tensor_from(ctx, out, rows, cols, ESI_F32, values);
    esi_free(ctx, values);
    return st;
}
