/* SPDX-License-Identifier: MIT
 *
 * memory.c: allocation with an account.
 *
 * Every block of esi_alloc() has a header of ESI_ALIGN bytes in front that holds its size, so that release can give the size back to the
 * account and to the caller's allocator. The account counts the bytes asked for; headers are not counted, so a block of
 * esi_memory_left() bytes always fits the budget. Large blocks go through large.c.
 */
#include "base/context.h"
#include "base/private.h"

#include <stdio.h>
#include <stdlib.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

_Static_assert(sizeof(esi_block) <= ESI_ALIGN, "the header must fit the room in front of a block");

/* -------------------------------------------------------- default allocator */

#define HUGE_PAGE  ((size_t)2 << 20)
#define HUGE_BLOCK ((size_t)32 << 20)       /* from this size on whole huge pages are worth their rounding */

static void *system_allocate(size_t size, size_t align)
{
    void *p = NULL;
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (size >= HUGE_BLOCK) {
        if (posix_memalign(&p, HUGE_PAGE, size) != 0) return NULL;
        /* Only the pages that lie wholly inside: the tail must not grow the process. A refusal costs speed, nothing else. */
        (void)madvise(p, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
        return p;
    }
#endif
    if (posix_memalign(&p, align, size) != 0) return NULL;
    return p;
}

void *esi_raw_alloc(const espalier_allocator *a, size_t size)
{
    if (size == 0) size = 1;
    if (a == NULL || a->allocate == NULL) return system_allocate(size, ESI_ALIGN);
    return a->allocate(a->user, size, ESI_ALIGN);
}

void esi_raw_free(const espalier_allocator *a, void *ptr, size_t size)
{
    if (ptr == NULL) return;
    if (size == 0) size = 1;
    if (a == NULL || a->allocate == NULL)
        free(ptr);
    else if (a->release != NULL)
        a->release(a->user, ptr, size);
}

const espalier_allocator *esi_allocator(const espalier_context *ctx)
{
    return &ctx->runtime->allocator;
}

/* ----------------------------------------------------------------- account */

static void raise_to(_Atomic uint64_t *mark, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(mark, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_weak_explicit(mark, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Compare-and-swap instead of add-and-roll-back: a large request that fails must not make a small one of another thread fail. */
static bool charge(espalier_context *ctx, size_t size)
{
    uint64_t now = atomic_load_explicit(&ctx->mem_now, memory_order_relaxed), next;
    do {
        if (size > UINT64_MAX - now) return false;
        next = now + size;
        if (ctx->budget != 0 && next > ctx->budget && size != 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&ctx->mem_now, &now, next, memory_order_relaxed, memory_order_relaxed));
    raise_to(&ctx->mem_peak, next);
    raise_to(&ctx->mem_high_water, next);
    return true;
}

static void discharge(espalier_context *ctx, size_t size)
{
    atomic_fetch_sub_explicit(&ctx->mem_now, size, memory_order_relaxed);
}

uint64_t esi_memory_budget(const espalier_context *ctx)
{
    return ctx->budget;
}

uint64_t esi_memory_left(const espalier_context *ctx)
{
    if (ctx->budget == 0) return UINT64_MAX;
    uint64_t now = atomic_load_explicit(&ctx->mem_now, memory_order_relaxed);
    return now >= ctx->budget ? 0 : ctx->budget - now;
}

uint64_t esi_memory_reset_high_water(espalier_context *ctx)
{
    esi_large_trim(ctx, 0);                     /* another stage has other sizes */
    return atomic_exchange(&ctx->mem_high_water, atomic_load(&ctx->mem_now));
}

uint64_t esi_memory_high_water(const espalier_context *ctx)
{
    return atomic_load(&ctx->mem_high_water);
}

/* ------------------------------------------------------------------ blocks */

static esi_block *header_of(void *ptr)
{
    return (esi_block *)(void *)((char *)ptr - ESI_ALIGN);
}

static void *fail_too_large(espalier_context *ctx, size_t count, size_t size, const char *what)
{
    esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: %s needs %zu times %zu bytes, more than this machine can address", what, count,
             size);
    return NULL;
}

static void *fail_budget(espalier_context *ctx, size_t bytes, const char *what)
{
    char budget[ESI_SIZE_TEXT], need[ESI_SIZE_TEXT], left[ESI_SIZE_TEXT];
    esi_size_text(budget, ctx->budget);
    esi_size_text(need, bytes);
    esi_size_text(left, esi_memory_left(ctx));
    esi_fail(ctx, ESPALIER_ERR_RESOURCE, "memory budget of %s exceeded by %s (needs %s, %s left); raise --mem-budget", budget, what, need,
             left);
    return NULL;
}

bool esi_charge(espalier_context *ctx, size_t bytes, const char *what)
{
    if (charge(ctx, bytes)) return true;
    fail_budget(ctx, bytes, what);
    return false;
}

void esi_discharge(espalier_context *ctx, size_t bytes)
{
    discharge(ctx, bytes);
}

static void *fail_no_memory(espalier_context *ctx, size_t bytes, const char *what)
{
    char need[ESI_SIZE_TEXT];
    esi_size_text(need, bytes);
    esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: %s needs %s", what, need);
    return NULL;
}

static esi_block *take_block(espalier_context *ctx, size_t total)
{
    if (esi_large_applies(ctx, total)) return esi_large_take(ctx, total);
    esi_block *block = esi_raw_alloc(esi_allocator(ctx), total);
    if (block != NULL) block->mapped = block->resident = 0;
    return block;
}

/* Live blocks and kept ones together stay below the high-water mark of the live ones: keeping never makes a job larger. */
static void shrink_kept_blocks(espalier_context *ctx)
{
    if (atomic_load_explicit(&ctx->kept.bytes, memory_order_relaxed) == 0) return;
    uint64_t mark = atomic_load_explicit(&ctx->mem_high_water, memory_order_relaxed);
    uint64_t now = atomic_load_explicit(&ctx->mem_now, memory_order_relaxed);
    esi_large_trim(ctx, mark > now ? mark - now : 0);
}

void *esi_alloc(espalier_context *ctx, size_t count, size_t size, const char *what)
{
    size_t bytes, total;
    if (what == NULL) what = "working data";
    if (!esi_mul_size(&bytes, count, size) || !esi_add_size(&total, bytes, ESI_ALIGN) || total > PTRDIFF_MAX)
        return fail_too_large(ctx, count, size, what);
    if (!charge(ctx, bytes)) return fail_budget(ctx, bytes, what);
    esi_block *block = take_block(ctx, total);
    if (block == NULL) {
        discharge(ctx, bytes);
        return fail_no_memory(ctx, bytes, what);
    }
    block->size = bytes;
    shrink_kept_blocks(ctx);
    return (char *)block + ESI_ALIGN;
}

void *esi_calloc(espalier_context *ctx, size_t count, size_t size, const char *what)
{
    void *p = esi_alloc(ctx, count, size, what);
    if (p != NULL) memset(p, 0, count * size);
    return p;
}

void *esi_realloc(espalier_context *ctx, void *ptr, size_t count, size_t size, const char *what)
{
    void *fresh = esi_alloc(ctx, count, size, what);
    if (fresh == NULL || ptr == NULL) return fresh;
    memcpy(fresh, ptr, ESI_MIN(header_of(ptr)->size, count * size));
    esi_free(ctx, ptr);
    return fresh;
}

void esi_free(espalier_context *ctx, void *ptr)
{
    if (ptr == NULL) return;
    esi_block *block = header_of(ptr);
    discharge(ctx, block->size);
    if (block->mapped != 0)
        esi_large_give(ctx, block);
    else
        esi_raw_free(esi_allocator(ctx), block, block->size + ESI_ALIGN);
}

char *esi_strdup(espalier_context *ctx, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = esi_alloc(ctx, size, 1, "text");
    if (copy != NULL) memcpy(copy, text, size);
    return copy;
}

char *esi_format(espalier_context *ctx, const char *format, ...)
{
    va_list args, again;
    char *text = NULL;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    if (len < 0)
        esi_fail(ctx, ESPALIER_ERR_INTERNAL, "text cannot be formatted");
    else
        text = esi_alloc(ctx, (size_t)len + 1, 1, "text");
    if (text != NULL) vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
