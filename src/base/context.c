/* SPDX-License-Identifier: MIT
 *
 * context.c: making and releasing a context, and its settings.
 */
#include "base/context.h"
#include "base/private.h"

espalier_limits espalier_limits_default(void)
{
    espalier_limits limits = {0};
    limits.struct_size = (uint32_t)sizeof limits;
    limits.max_image_side = 16384;
    limits.max_file_bytes = UINT64_C(4) << 30;
    return limits;
}

espalier_status espalier_context_create(espalier_context **out, espalier_runtime *runtime)
{
    if (out == NULL) return ESPALIER_ERR_ARG;
    *out = NULL;
    if (runtime == NULL) return ESPALIER_ERR_ARG;
    espalier_context *ctx = esi_raw_alloc(&runtime->allocator, sizeof *ctx);
    if (ctx == NULL) return ESPALIER_ERR_RESOURCE;
    memset(ctx, 0, sizeof *ctx);
    ctx->runtime = runtime;
    ctx->backend = runtime->gpu ? runtime->gpu : runtime->cpu;
    ctx->limits = espalier_limits_default();
    atomic_init(&ctx->references, 1);
    esi_clear_error(ctx);
    *out = ctx;
    return ESPALIER_OK;
}

espalier_context *esi_context_retain(espalier_context *ctx)
{
    atomic_fetch_add(&ctx->references, 1);
    return ctx;
}

void espalier_context_free(espalier_context *ctx)
{
    if (ctx == NULL || atomic_fetch_sub(&ctx->references, 1) != 1) return;
    esi_large_trim(ctx, 0);
    esi_raw_free(&ctx->runtime->allocator, ctx, sizeof *ctx);
}

/* A program built against an older header has a shorter struct: the fields it does not know keep their defaults. */
void espalier_context_set_limits(espalier_context *ctx, const espalier_limits *limits)
{
    if (ctx == NULL) return;
    ctx->limits = espalier_limits_default();
    if (limits == NULL) return;
    size_t size = ESI_MIN((size_t)limits->struct_size, sizeof ctx->limits);
    memcpy(&ctx->limits, limits, size);
    ctx->limits.struct_size = (uint32_t)sizeof ctx->limits;
}

void espalier_context_set_memory_budget(espalier_context *ctx, uint64_t bytes)
{
    if (ctx == NULL) return;
    esi_large_trim(ctx, 0);
    ctx->budget = bytes;
}

uint64_t espalier_context_memory_now(const espalier_context *ctx)
{
    return ctx == NULL ? 0 : atomic_load(&ctx->mem_now);
}

uint64_t espalier_context_memory_peak(const espalier_context *ctx)
{
    return ctx == NULL ? 0 : atomic_load(&ctx->mem_peak);
}

const espalier_limits *esi_limits(const espalier_context *ctx)
{
    return &ctx->limits;
}
