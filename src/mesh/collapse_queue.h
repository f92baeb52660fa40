/* SPDX-License-Identifier: MIT
 *
 * collapse_queue.h: a priority queue of edge collapses: by cost, then by edge.
 */
#ifndef ESI_COLLAPSE_QUEUE_H
#define ESI_COLLAPSE_QUEUE_H

#include "base/base.h"

typedef struct esi_candidate {
    uint64_t key;                  /* bits of the cost, a float that is not negative, above the number of vertex a */
    int32_t b;
    uint16_t stamp, revision;      /* the owner's */
} esi_candidate;

static inline esi_candidate esi_candidate_make(double cost, int32_t a, int32_t b)
{
    const float narrow = (float)cost;
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    return (esi_candidate){.key = (uint64_t)bits << 32 | (uint32_t)a, .b = b};
}
static inline int32_t esi_candidate_a(const esi_candidate *c)
{
    return (int32_t)(uint32_t)c->key;
}
static inline bool esi_candidate_first(const esi_candidate *x, const esi_candidate *y)
{
    return x->key != y->key ? x->key < y->key : x->b < y->b;
}

/* Is it worth keeping? Asked of many at once when their turn comes near: those that are not go without having been put in order. */
typedef bool (*esi_candidate_fn)(const void *arg, const esi_candidate *c);

typedef struct esi_collapse_queue {
    esi_candidate_fn alive;
    const void *arg;
    esi_candidate *heap;           /* of the bucket at work and all before it; entry i at heap[i + 3], so that siblings share a line */
    int64_t heap_size, heap_capacity;
    struct esi_queue_block *blocks;
    int64_t n_blocks, block_capacity;
    int32_t unused;                /* list of blocks, as number + 1 */
    int32_t *buckets;              /* lists of blocks, likewise */
    int32_t current;               /* bucket at work */
} esi_collapse_queue;

espalier_status esi_collapse_queue_open(espalier_context *ctx, esi_collapse_queue *q, esi_candidate_fn alive, const void *arg);
void esi_collapse_queue_close(espalier_context *ctx, esi_collapse_queue *q);
espalier_status esi_collapse_queue_push(espalier_context *ctx, esi_collapse_queue *q, esi_candidate c);
/* *more = false when it is empty. */
espalier_status esi_collapse_queue_pop(espalier_context *ctx, esi_collapse_queue *q, esi_candidate *out, bool *more);
/* Would c, just popped and costed again, be popped next if it were pushed? */
bool esi_collapse_queue_is_next(const esi_collapse_queue *q, const esi_candidate *c);

#endif
