/* SPDX-License-Identifier: MIT
 *
 * devices.c: what can compute on this machine, as JSON and as text.
 */
#include <espalier/inspect.h>

#include "base/context.h"
#include "formats/json_write.h"
#include "tensor/backend.h"
#include "tensor/vulkan/vulkan.h"

#include <stdio.h>

static void put_cpu(esi_json_writer *w, espalier_context *ctx)
{
    static const espalier_cpu_level levels[] = {ESPALIER_CPU_GENERIC, ESPALIER_CPU_GENERIC_FMA, ESPALIER_CPU_AVX2, ESPALIER_CPU_AVX512,
                                                ESPALIER_CPU_NEON};

    esi_json_open(w, NULL, '{');
    esi_json_put_string(w, "device", "cpu");
    esi_json_put_int(w, "threads", espalier_runtime_threads(ctx->runtime));
    esi_json_put_string(w, "level", espalier_cpu_level_name(ctx->runtime->cpu_level));
    esi_json_open(w, "levels", '{');
    for (size_t i = 0; i < ESI_COUNT(levels); i++)
        esi_json_put_bool(w, espalier_cpu_level_name(levels[i]), espalier_cpu_level_supported(levels[i]) != 0);
    esi_json_close(w, '}');
    esi_json_close(w, '}');
}

static void put_vulkan(esi_json_writer *w, const esi_vulkan_info *d, size_t number)
{
    char name[32];

    snprintf(name, sizeof name, "vulkan:%zu", number);
    esi_json_open(w, NULL, '{');
    esi_json_put_string(w, "device", name);
    esi_json_put_string(w, "name", d->name);
    esi_json_put_string(w, "type", d->type);
    esi_json_put_string(w, "driver", d->driver);
    esi_json_put_string(w, "vulkan", d->api);
    esi_json_put_int(w, "memory", (int64_t)d->memory);
    esi_json_put_int(w, "max_allocation", (int64_t)ESI_MIN(d->max_allocation, (uint64_t)INT64_MAX));
    esi_json_put_int(w, "max_binding", (int64_t)d->max_range);
    esi_json_put_int(w, "shared_memory", d->shared_memory);
    esi_json_put_int(w, "workgroup", d->workgroup);
    esi_json_put_int(w, "binding_alignment", d->alignment);
    esi_json_put_bool(w, "fp64", d->fp64);
    esi_json_put_bool(w, "storage_16_bit", d->storage16);
    esi_json_put_bool(w, "portability_subset", d->portability);
    esi_json_put_bool(w, "keeps_signed_zero_inf_nan", d->signed_zero_inf_nan);
    esi_json_put_bool(w, "rounds_to_even", d->round_to_even);
    esi_json_put_string(w, "denormals", d->denormals_preserved ? "preserved" : d->denormals_flushed ? "flushed" : "unspecified");
    if (d->subnormals) esi_json_put_string(w, "subnormals_seen", d->subnormals);
    esi_json_put_bool(w, "usable", d->usable);
    esi_json_put_bool(w, "fused_fma", d->usable && d->fma == ESI_VULKAN_FMA_FUSED);
    if (d->usable) esi_json_put_string(w, "fma", esi_vulkan_fma_name(d->fma));
    else esi_json_put_string(w, "reason", d->reason);
    esi_json_close(w, '}');
}

static espalier_status list(espalier_context *ctx, esi_vulkan_info **devices, size_t *count, char *message)
{
    espalier_status st = esi_vulkan_list(esi_allocator(ctx), ctx->runtime->cpu->kernels, NULL, true, devices, count, message);
    return st == ESPALIER_OK ? st : esi_fail(ctx, st, "out of memory for the list of devices");
}

static espalier_status finish(espalier_context *ctx, esi_text *text, char **out)
{
    if (text->failed) {
        esi_text_free(ctx, text);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory for the list of devices");
    }
    *out = text->data;
    return ESPALIER_OK;
}

espalier_status espalier_devices(espalier_context *ctx, char **json)
{
    char message[ESI_VULKAN_TEXT];
    esi_text text = {0};
    esi_json_writer w = {ctx, &text, false};
    esi_vulkan_info *devices;
    size_t count;
    espalier_status st;

    if (json) *json = NULL;
    if (!ctx || !json) return esi_refuse_null(ctx, __func__);
    esi_clear_error(ctx);
    st = list(ctx, &devices, &count, message);
    if (st != ESPALIER_OK) return st;
    esi_json_open(&w, NULL, '{');
    esi_json_open(&w, "devices", '[');
    put_cpu(&w, ctx);
    for (size_t i = 0; i < count; i++) put_vulkan(&w, &devices[i], i);
    esi_json_close(&w, ']');
    if (count == 0) esi_json_put_string(&w, "no_vulkan", message);
    esi_json_close(&w, '}');
    esi_text_append(ctx, &text, "\n");
    esi_vulkan_list_free(esi_allocator(ctx), devices);
    return finish(ctx, &text, json);
}

static void append_device(espalier_context *ctx, esi_text *text, const esi_vulkan_info *d, size_t number)
{
    char memory[ESI_SIZE_TEXT], allocation[ESI_SIZE_TEXT], binding[ESI_SIZE_TEXT], shared[ESI_SIZE_TEXT];

    esi_size_text(memory, d->memory);
    esi_size_text(allocation, d->max_allocation);
    esi_size_text(binding, d->max_range);
    esi_size_text(shared, d->shared_memory);
    esi_text_append(ctx, text, "vulkan:%zu: %s, %s, %s, Vulkan %s\n", number, d->name, d->type, d->driver, d->api);
    esi_text_append(ctx, text, "    memory %s; at most %s per allocation, %s per binding; workgroups of %u with %s\n", memory, allocation,
                    binding, d->workgroup, shared);
    if (!d->usable) {
        esi_text_append(ctx, text, "    not usable: %s\n", d->reason);
        return;
    }
    esi_text_append(ctx, text, "    fp64 %s, 16-bit storage %s, subnormal numbers %s\n", d->fp64 ? "yes" : "no",
                    d->storage16 ? "yes" : "no", d->subnormals ? d->subnormals : "unknown");
    esi_text_append(ctx, text, "    computes rightly; fma: %s\n", d->fma == ESI_VULKAN_FMA_FUSED ? "its own, fused"
                    : d->fma == ESI_VULKAN_FMA_FP64 ? "its own is not fused; through fp64" : "its own is not fused; through integers");
}

espalier_status espalier_devices_text(espalier_context *ctx, char **out)
{
    char message[ESI_VULKAN_TEXT];
    esi_text text = {0};
    esi_vulkan_info *devices;
    size_t count;
    espalier_status st;

    if (out) *out = NULL;
    if (!ctx || !out) return esi_refuse_null(ctx, __func__);
    esi_clear_error(ctx);
    st = list(ctx, &devices, &count, message);
    if (st != ESPALIER_OK) return st;
    if (count == 0) esi_text_append(ctx, &text, "%s\n", message);
    for (size_t i = 0; i < count; i++) append_device(ctx, &text, &devices[i], i);
    esi_vulkan_list_free(esi_allocator(ctx), devices);
    return finish(ctx, &text, out);
}
