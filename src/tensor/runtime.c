/* SPDX-License-Identifier: MIT
 *
 * runtime.c: the runtime object (threads and CPU kernels) and the names of CPU levels.
 */
#include "base/context.h"
#include "tensor/backend.h"
#include "tensor/cpu/cpu.h"
#include "tensor/vulkan/vulkan.h"

#include <stdio.h>

static const char *const level_names[] = {"best", "generic", "generic-fma", "avx2", "avx512", "neon"};

espalier_runtime_options espalier_runtime_options_default(void)
{
    espalier_runtime_options o;

    memset(&o, 0, sizeof o);
    o.struct_size = sizeof o;
    return o;
}

const char *espalier_cpu_level_name(espalier_cpu_level level)
{
    return (unsigned)level < ESI_COUNT(level_names) ? level_names[level] : "?";
}

espalier_status espalier_cpu_level_parse(espalier_cpu_level *out, const char *name)
{
    for (size_t i = 0; out && name && i < ESI_COUNT(level_names); i++) {
        if (strcmp(name, level_names[i]) == 0) {
            *out = (espalier_cpu_level)i;
            return ESPALIER_OK;
        }
    }
    return ESPALIER_ERR_ARG;
}

int espalier_cpu_level_supported(espalier_cpu_level level)
{
    return level == ESPALIER_CPU_BEST || esi_cpu_kernels(level) != NULL;
}

static espalier_cpu_level best_level(void)
{
    static const espalier_cpu_level order[] = {ESPALIER_CPU_AVX512, ESPALIER_CPU_AVX2, ESPALIER_CPU_NEON, ESPALIER_CPU_GENERIC_FMA};

    for (size_t i = 0; i < ESI_COUNT(order); i++)
        if (esi_cpu_kernels(order[i])) return order[i];
    return ESPALIER_CPU_GENERIC;
}

static void log_line(const espalier_runtime *rt, espalier_log_level level, const char *line)
{
    if (rt->log) rt->log(rt->log_user, level, line);
}

/* Where networks run. Only "auto" may end on the CPU without being told to. */
static espalier_status choose_device(espalier_runtime *rt, const char *wanted)
{
    bool automatic = wanted && strcmp(wanted, "auto") == 0;
    char message[ESI_VULKAN_TEXT];
    espalier_status st;

    snprintf(rt->device, sizeof rt->device, "cpu");
    if (!wanted || strcmp(wanted, "cpu") == 0) return ESPALIER_OK;
    st = esi_vulkan_create(&rt->gpu, &rt->allocator, rt->cpu->kernels, wanted, NULL, message);
    if (st == ESPALIER_OK) {
        snprintf(rt->device, sizeof rt->device, "%s", message);
    } else if (automatic && st == ESPALIER_ERR_DEVICE) {
        char line[ESI_VULKAN_TEXT + 32];
        snprintf(line, sizeof line, "networks run on the CPU: %s", message);
        log_line(rt, ESPALIER_LOG_INFO, line);
        st = ESPALIER_OK;
    } else {
        log_line(rt, ESPALIER_LOG_ERROR, message);
    }
    return st;
}

espalier_status espalier_runtime_create(espalier_runtime **out, const espalier_runtime_options *options)
{
    espalier_runtime_options o = espalier_runtime_options_default();
    espalier_runtime *rt;
    espalier_status st;

    if (!out) return ESPALIER_ERR_ARG;
    *out = NULL;
    if (options) {
        if (options->struct_size < sizeof(uint32_t)) return ESPALIER_ERR_ARG;
        memcpy(&o, options, ESI_MIN(options->struct_size, (uint32_t)sizeof o));
    }
    if (o.threads < 0 || o.threads > 1024 || (unsigned)o.cpu_level >= ESI_COUNT(level_names)) return ESPALIER_ERR_ARG;
    if (!o.allocator.allocate != !o.allocator.release) return ESPALIER_ERR_ARG;
    if (o.cpu_level == ESPALIER_CPU_BEST) o.cpu_level = best_level();
    if (!esi_cpu_kernels(o.cpu_level)) return ESPALIER_ERR_DEVICE;

    rt = esi_raw_alloc(&o.allocator, sizeof *rt);
    if (!rt) return ESPALIER_ERR_RESOURCE;
    memset(rt, 0, sizeof *rt);
    rt->allocator = o.allocator;
    rt->log = o.log;
    rt->log_user = o.log_user;
    rt->cpu_level = o.cpu_level;
    st = esi_pool_create(&rt->pool, &rt->allocator, o.threads);
    if (st == ESPALIER_OK) st = esi_cpu_backend_create(&rt->cpu, &rt->allocator, o.cpu_level);
    if (st == ESPALIER_OK) st = choose_device(rt, o.device);
    if (st != ESPALIER_OK) {
        espalier_runtime_free(rt);
        return st;
    }
    *out = rt;
    return ESPALIER_OK;
}

void espalier_runtime_free(espalier_runtime *runtime)
{
    espalier_allocator allocator;

    if (!runtime) return;
    allocator = runtime->allocator;
    if (runtime->gpu) runtime->gpu->destroy(runtime->gpu, &allocator);
    if (runtime->cpu) runtime->cpu->destroy(runtime->cpu, &allocator);
    esi_pool_free(runtime->pool);
    esi_raw_free(&allocator, runtime, sizeof *runtime);
}

int espalier_runtime_threads(const espalier_runtime *runtime)
{
    return runtime ? esi_pool_threads(runtime->pool) : 0;
}

espalier_cpu_level espalier_runtime_cpu_level(const espalier_runtime *runtime)
{
    return runtime ? runtime->cpu_level : ESPALIER_CPU_BEST;
}

const char *espalier_runtime_device(const espalier_runtime *runtime)
{
    return runtime ? runtime->device : "?";
}
