/* SPDX-License-Identifier: MIT
 *
 * device.c: what a Vulkan device can do at most: multiply-adds in registers, in the way that the device gets an exact fma. A software
 * device is measured in CPU seconds, like the CPU's kernels; any other in seconds.
 */
#include "bench.h"

#ifdef ESPALIER_BENCH_VULKAN

#include "tensor/vulkan/internal.h"

enum { INVOCATIONS = 1 << 16, CHAINS = 16 };

bool bench_on_device(const espalier_context *ctx) { return strcmp(ctx->backend->name, "vulkan") == 0; }

double bench_seconds(const espalier_context *ctx)
{
    return bench_on_device(ctx) && strcmp(esi_vk_of(ctx)->info.type, "cpu") != 0 ? esi_now() : esi_cpu_seconds();
}

static espalier_status run_peak(espalier_context *ctx, const esi_vk_range *r, uint32_t rounds)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_binding bindings[ESI_VK_BINDINGS] = {{r, 0, INVOCATIONS * 4}};
    esi_vk_push push = {.rows = INVOCATIONS, .cols = 1, .n = {rounds}, .f = {0.999f, 1e-3f}};
    espalier_status st;

    esi_vk_lock(d);
    st = esi_vk_dispatch(ctx, d, "multiply-adds", ESI_VK_PEAK, 0, 0, bindings, &push, INVOCATIONS / esi_vk_workgroup(d),
                         (uint64_t)INVOCATIONS * rounds);
    if (st == ESPALIER_OK) st = esi_vk_finish(ctx, d);
    esi_vk_unlock(d);
    return st;
}

/* GFLOPS; rounds grow until a run takes a twentieth of a second. */
double bench_device_peak(espalier_context *ctx)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_range r = {0};
    double best = 0.0;
    espalier_status st;

    esi_vk_lock(d);
    st = esi_vk_range_new(ctx, d, &r, INVOCATIONS * 4, "the benchmark");
    esi_vk_unlock(d);
    if (st == ESPALIER_OK) st = run_peak(ctx, &r, 1);                                 /* compiles */
    for (uint32_t rounds = 16; st == ESPALIER_OK && rounds < 1u << 24;) {
        double seconds = bench_seconds(ctx);
        st = run_peak(ctx, &r, rounds);
        seconds = bench_seconds(ctx) - seconds;
        if (seconds < 0.05) {
            rounds *= seconds < 0.01 ? 8 : 2;
            continue;
        }
        best = 2.0 * INVOCATIONS * CHAINS * (double)rounds / seconds * 1e-9;
        break;
    }
    esi_vk_lock(d);
    esi_vk_range_free(d, &r);
    esi_vk_unlock(d);
    return best;
}

#else

bool bench_on_device(const espalier_context *ctx)
{
    (void)ctx;
    return false;
}

double bench_seconds(const espalier_context *ctx)
{
    (void)ctx;
    return esi_cpu_seconds();
}

double bench_device_peak(espalier_context *ctx)
{
    (void)ctx;
    return 0.0;
}

#endif
