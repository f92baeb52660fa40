/* SPDX-License-Identifier: MIT
 *
 * large.c: large blocks, each in a mapping of its own, kept for a while after release.
 *
 * Networks ask for the same few large tensors in every layer. Fresh pages cost a fault and a clearing each (0.2 s a GiB and more), so a
 * released block waits in a slot of the context and serves the next request that it fits. Pages that the next owner does not need, or that
 * would lift the job over its high-water mark, are handed back from the end of the mapping: a mapping keeps its length, its `resident`
 * part shrinks. Everything is dropped at the end of a stage.
 *
 * Slots are exchanged atomically: who holds a block owns it. Only the default allocator's blocks come here; a caller's allocator may do
 * as it likes. Under AddressSanitizer nothing comes here, because overruns of a mapping would go unseen.
 */
#include "base/context.h"
#include "base/private.h"

#if (defined(__unix__) || defined(__APPLE__)) && !defined(ESI_ASAN)
#include <sys/mman.h>

#define LARGE     ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)

static size_t round_up(size_t size)
{
    return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

bool esi_large_applies(const espalier_context *ctx, size_t total)
{
    return total >= LARGE && total <= PTRDIFF_MAX - 2 * HUGE_PAGE && esi_allocator(ctx)->allocate == NULL;
}

/* ---------------------------------------------------------------- mappings */

/* Huge pages for the part that fills them; the tail must not grow the process. A refusal costs speed, nothing else. */
static void want_huge_pages(esi_block *block, size_t total)
{
#ifdef MADV_HUGEPAGE
    (void)madvise(block, total & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
#else
    (void)block;
    (void)total;
#endif
}

static esi_block *map(size_t total)
{
    size_t mapped = round_up(total), room = mapped + HUGE_PAGE;
    char *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    size_t behind = HUGE_PAGE - before;
    if (before != 0) (void)munmap(p, before);
    (void)munmap(p + before + mapped, behind);
    esi_block *block = (esi_block *)(void *)(p + before);
    want_huge_pages(block, total);
    block->mapped = mapped;
    block->resident = mapped;
    return block;
}

static void unmap(esi_block *block)
{
    (void)munmap(block, block->mapped);
}

/* Hand back the pages behind `keep`, a multiple of HUGE_PAGE that is not 0. */
static void shrink(esi_block *block, size_t keep)
{
    if (keep >= block->resident) return;
    (void)madvise((char *)block + keep, block->resident - keep, MADV_DONTNEED);
    block->resident = keep;
}

/* ------------------------------------------------------------------- slots */

static void keep_block(espalier_context *ctx, esi_block *block)
{
    esi_kept_blocks *kept = &ctx->kept;
    atomic_fetch_add(&kept->bytes, block->resident);
    for (size_t i = 0; i < ESI_KEPT_BLOCKS; i++) {
        esi_block *empty = NULL;
        if (atomic_compare_exchange_strong(&kept->slots[i], &empty, block)) return;
    }
    unsigned i = atomic_fetch_add(&kept->turn, 1) % ESI_KEPT_BLOCKS;
    esi_block *old = atomic_exchange(&kept->slots[i], block);
    if (old == NULL) return;
    atomic_fetch_sub(&kept->bytes, old->resident);
    unmap(old);
}

/* The block of slot i, now the caller's, or NULL. */
static esi_block *remove_block(espalier_context *ctx, size_t i)
{
    esi_kept_blocks *kept = &ctx->kept;
    if (atomic_load_explicit(&kept->slots[i], memory_order_relaxed) == NULL) return NULL;
    esi_block *block = atomic_exchange(&kept->slots[i], NULL);
    if (block != NULL) atomic_fetch_sub(&kept->bytes, block->resident);
    return block;
}

/* The shortest kept block that is long enough, unless it is far too long: then its pages serve a later request better. */
static esi_block *find_kept(espalier_context *ctx, size_t total)
{
    esi_block *best = NULL;
    size_t most = round_up(total) * 2;
    for (size_t i = 0; i < ESI_KEPT_BLOCKS; i++) {
        esi_block *block = remove_block(ctx, i);
        if (block == NULL) continue;
        if (block->mapped >= total && block->mapped <= most && (best == NULL || block->mapped < best->mapped)) {
            esi_block *second = best;
            best = block;
            block = second;
        }
        if (block != NULL) keep_block(ctx, block);
    }
    return best;
}

esi_block *esi_large_take(espalier_context *ctx, size_t total)
{
    esi_block *block = NULL;
    if (atomic_load_explicit(&ctx->kept.bytes, memory_order_relaxed) != 0) block = find_kept(ctx, total);
    if (block != NULL) {
        shrink(block, round_up(total));
        want_huge_pages(block, total);
        block->resident = round_up(total);
        return block;
    }
    block = map(total);
    if (block == NULL) {
        esi_large_trim(ctx, 0);
        block = map(total);
    }
    return block;
}

void esi_large_give(espalier_context *ctx, esi_block *block)
{
    keep_block(ctx, block);
}

void esi_large_trim(espalier_context *ctx, uint64_t allowed)
{
    for (size_t i = 0; i < ESI_KEPT_BLOCKS; i++) {
        uint64_t bytes = atomic_load(&ctx->kept.bytes);
        if (bytes <= allowed) return;
        uint64_t excess = bytes - allowed;
        esi_block *block = remove_block(ctx, i);
        if (block == NULL) continue;
        if (block->resident >= excess + HUGE_PAGE) {
            shrink(block, (block->resident - (size_t)excess) & ~(HUGE_PAGE - 1));
            keep_block(ctx, block);
        } else {
            unmap(block);
        }
    }
}

#else

bool esi_large_applies(const espalier_context *ctx, size_t total)
{
    (void)ctx;
    (void)total;
    return false;
}

esi_block *esi_large_take(espalier_context *ctx, size_t total)
{
    (void)ctx;
    (void)total;
    return NULL;
}

void esi_large_give(espalier_context *ctx, esi_block *block)
{
    (void)ctx;
    (void)block;
}

void esi_large_trim(espalier_context *ctx, uint64_t allowed)
{
    (void)ctx;
    (void)allowed;
}

#endif
