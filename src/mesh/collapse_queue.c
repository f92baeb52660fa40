/* SPDX-License-Identifier: MIT
 *
 * collapse_queue.c: candidates wait in buckets by the upper bits of their cost, 16 to an octave, as lists of blocks. Only the lowest bucket
 * is kept in order, as a 4-ary heap, and takes what comes later with a lower cost still: the order is exact, a push is mostly an append,
 * and the heap fits the processor's cache where one heap for all edges does not (1 M faces: more than half of the time went there).
 */
#include "mesh/collapse_queue.h"

#define BUCKET_SHIFT (32 + 19)
#define N_BUCKETS 4096             /* of the 12 bits that are left */
#define BLOCK 63

typedef struct esi_queue_block {
    int32_t next, count;
    int64_t unused;
    esi_candidate candidates[BLOCK];
} queue_block;

espalier_status esi_collapse_queue_open(espalier_context *ctx, esi_collapse_queue *q, esi_candidate_fn alive, const void *arg)
{
    memset(q, 0, sizeof *q);
    q->alive = alive;
    q->arg = arg;
    q->buckets = esi_calloc(ctx, N_BUCKETS, sizeof *q->buckets, "collapse queue");
    return q->buckets ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

void esi_collapse_queue_close(espalier_context *ctx, esi_collapse_queue *q)
{
    esi_free(ctx, q->heap);
    esi_free(ctx, q->blocks);
    esi_free(ctx, q->buckets);
    memset(q, 0, sizeof *q);
}

static inline int32_t bucket_of(const esi_candidate *c)
{
    return (int32_t)(c->key >> BUCKET_SHIFT);
}

/* ------------------------------------------------------------------------ heap */

static void sink(esi_candidate *heap, int64_t n, int64_t i, esi_candidate moved)
{
    for (;;) {
        const int64_t child = 4 * i + 1, end = ESI_MIN(child + 4, n);
        int64_t least = child;

        if (child >= n) break;
        for (int64_t k = child + 1; k < end; k++) least = esi_candidate_first(&heap[k + 3], &heap[least + 3]) ? k : least;
        if (!esi_candidate_first(&heap[least + 3], &moved)) break;
        heap[i + 3] = heap[least + 3];
        i = least;
    }
    heap[i + 3] = moved;
}

static espalier_status heap_reserve(espalier_context *ctx, esi_collapse_queue *q, int64_t more)
{
    if (q->heap_size + more <= q->heap_capacity) return ESPALIER_OK;
    const int64_t larger = q->heap_size + more + q->heap_capacity / 2 + 1021;
    esi_candidate *heap = esi_realloc(ctx, q->heap, (size_t)larger + 3, sizeof *heap, "collapse queue");
    if (!heap) return ESPALIER_ERR_RESOURCE;
    q->heap = heap;
    q->heap_capacity = larger;
    return ESPALIER_OK;
}

static espalier_status heap_push(espalier_context *ctx, esi_collapse_queue *q, esi_candidate c)
{
    if (heap_reserve(ctx, q, 1) != ESPALIER_OK) return ESPALIER_ERR_RESOURCE;
    esi_candidate *heap = q->heap + 3;
    int64_t i = q->heap_size++;
    for (; i > 0 && esi_candidate_first(&c, &heap[(i - 1) / 4]); i = (i - 1) / 4) heap[i] = heap[(i - 1) / 4];
    heap[i] = c;
    return ESPALIER_OK;
}

/* --------------------------------------------------------------------- buckets */

/* A block at the head of the list, as number + 1; 0 without memory. */
static int32_t add_block(espalier_context *ctx, esi_collapse_queue *q, int32_t head)
{
    int32_t number = q->unused;

    if (number) {
        q->unused = q->blocks[number - 1].next;
    } else {
        if (q->n_blocks == q->block_capacity) {
            const int64_t larger = q->block_capacity + q->block_capacity / 4 + 256;
            queue_block *blocks = larger < INT32_MAX ? esi_realloc(ctx, q->blocks, (size_t)larger, sizeof *blocks, "collapse queue") : NULL;

            if (!blocks) {
                (void)esi_fail(ctx, ESPALIER_ERR_RESOURCE, "collapse queue: too many candidates");
                return 0;
            }
            q->blocks = blocks;
            q->block_capacity = larger;
        }
        number = (int32_t)++q->n_blocks;
    }
    q->blocks[number - 1].next = head;
    q->blocks[number - 1].count = 0;
    return number;
}

espalier_status esi_collapse_queue_push(espalier_context *ctx, esi_collapse_queue *q, esi_candidate c)
{
    const int32_t bucket = bucket_of(&c);

    if (bucket <= q->current) return heap_push(ctx, q, c);
    if (!q->buckets[bucket] || q->blocks[q->buckets[bucket] - 1].count == BLOCK) {
        const int32_t head = add_block(ctx, q, q->buckets[bucket]);
        if (!head) return ESPALIER_ERR_RESOURCE;
        q->buckets[bucket] = head;
    }
    queue_block *block = &q->blocks[q->buckets[bucket] - 1];
    block->candidates[block->count++] = c;
    return ESPALIER_OK;
}

/* The next bucket becomes the heap. */
static espalier_status open_bucket(espalier_context *ctx, esi_collapse_queue *q, int32_t bucket)
{
    int32_t number = q->buckets[bucket];
    int64_t count = 0;

    for (int32_t i = number; i; i = q->blocks[i - 1].next) count += q->blocks[i - 1].count;
    if (heap_reserve(ctx, q, count) != ESPALIER_OK) return ESPALIER_ERR_RESOURCE;
    while (number) {
        queue_block *block = &q->blocks[number - 1];
        const int32_t next = block->next;

        for (int32_t i = 0; i < block->count; i++)
            if (q->alive(q->arg, &block->candidates[i])) q->heap[3 + q->heap_size++] = block->candidates[i];
        block->next = q->unused;
        q->unused = number;
        number = next;
    }
    q->buckets[bucket] = 0;
    q->current = bucket;
    for (int64_t i = q->heap_size / 4; i >= 0 && i < q->heap_size; i--) sink(q->heap, q->heap_size, i, q->heap[i + 3]);
    return ESPALIER_OK;
}

espalier_status esi_collapse_queue_pop(espalier_context *ctx, esi_collapse_queue *q, esi_candidate *out, bool *more)
{
    for (int32_t bucket = q->current + 1; q->heap_size == 0 && bucket < N_BUCKETS; bucket++)
        if (q->buckets[bucket] && open_bucket(ctx, q, bucket) != ESPALIER_OK) return ESPALIER_ERR_RESOURCE;
    *more = q->heap_size > 0;
    if (!*more) return ESPALIER_OK;
    *out = q->heap[3];
    q->heap_size--;
    if (q->heap_size) sink(q->heap, q->heap_size, 0, q->heap[q->heap_size + 3]);
    return ESPALIER_OK;
}

bool esi_collapse_queue_is_next(const esi_collapse_queue *q, const esi_candidate *c)
{
    return bucket_of(c) <= q->current && (q->heap_size == 0 || esi_candidate_first(c, &q->heap[3]));
}
