/* SPDX-License-Identifier: MIT
 *
 * arena.c: a stack of blocks from which small objects are cut; a mark remembers a height, release goes back to it.
 *
 * Only the newest block is cut from, so a mark is the newest block and how much of it was used. Under AddressSanitizer the room behind the
 * objects is poisoned and a gap is left between them, so overruns are seen as with malloc.
 */
#include "base/base.h"
#include "base/private.h"

#include <stdio.h>

#ifdef ESI_ASAN
#include <sanitizer/asan_interface.h>
#  define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#  define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#  define GAP            16
#else
#  define POISON(p, n)   ((void)0)
#  define UNPOISON(p, n) ((void)0)
#  define GAP            0
#endif

#define UNIT      16                       /* alignment of objects */
#define BLOCK_MIN ((size_t)4 << 10)
#define BLOCK_MAX ((size_t)1 << 20)        /* larger objects get a block of their own */

typedef struct esi_arena_block {
    struct esi_arena_block *older;
    size_t used, size;                     /* bytes of room behind the header */
} arena_block;

#define HEADER (((sizeof(arena_block) + UNIT - 1) / UNIT) * UNIT)

static char *room_of(arena_block *block)
{
    return (char *)block + HEADER;
}

static arena_block *push_block(espalier_context *ctx, esi_arena *arena, size_t need)
{
    size_t size = arena->head == NULL ? BLOCK_MIN : ESI_MIN(arena->head->size * 2, BLOCK_MAX);
    size_t total;
    if (size < need) size = need;
    if (!esi_add_size(&total, size, HEADER)) {
        esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: an object of %zu bytes is more than this machine can address", need);
        return NULL;
    }
    arena_block *block = esi_alloc(ctx, total, 1, "working data");
    if (block == NULL) return NULL;
    block->older = arena->head;
    block->used = 0;
    block->size = size;
    POISON(room_of(block), size);
    arena->head = block;
    return block;
}

static void pop_block(espalier_context *ctx, esi_arena *arena)
{
    arena_block *block = arena->head;
    arena->head = block->older;
    UNPOISON(room_of(block), block->size);
    esi_free(ctx, block);
}

void *esi_arena_alloc(espalier_context *ctx, esi_arena *arena, size_t count, size_t size)
{
    size_t bytes, need;
    if (!esi_mul_size(&bytes, count, size) || !esi_add_size(&need, bytes, UNIT - 1 + GAP)) {
        esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: %zu times %zu bytes are more than this machine can address", count, size);
        return NULL;
    }
    need = need / UNIT * UNIT;
    if (need == 0) need = UNIT;            /* zero bytes give a pointer of their own, too */
    arena_block *block = arena->head;
    if (block == NULL || block->size - block->used < need) block = push_block(ctx, arena, need);
    if (block == NULL) return NULL;
    char *object = room_of(block) + block->used;
    block->used += need;
    UNPOISON(object, bytes);
    memset(object, 0, bytes);
    return object;
}

char *esi_arena_strdup(espalier_context *ctx, esi_arena *arena, const char *text, size_t len)
{
    size_t size;
    if (!esi_add_size(&size, len, 1)) {
        esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: a text is longer than this machine can address");
        return NULL;
    }
    char *copy = esi_arena_alloc(ctx, arena, size, 1);
    if (copy != NULL && len != 0) memcpy(copy, text, len);
    return copy;
}

char *esi_arena_format(espalier_context *ctx, esi_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = len < 0 ? NULL : esi_arena_alloc(ctx, arena, (size_t)len + 1, 1);
    if (text) vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return text;
}

esi_arena_mark esi_arena_get_mark(const esi_arena *arena)
{
    esi_arena_mark mark = {arena->head, arena->head == NULL ? 0 : arena->head->used};
    return mark;
}

void esi_arena_release(espalier_context *ctx, esi_arena *arena, esi_arena_mark mark)
{
    while (arena->head != NULL && arena->head != mark.block) pop_block(ctx, arena);
    if (arena->head == NULL) return;
    POISON(room_of(arena->head) + mark.used, arena->head->size - mark.used);
    arena->head->used = mark.used;
}

void esi_arena_free(espalier_context *ctx, esi_arena *arena)
{
    while (arena->head != NULL) pop_block(ctx, arena);
}
