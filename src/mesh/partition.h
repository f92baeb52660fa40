/* SPDX-License-Identifier: MIT
 *
 * partition.h: items sorted into buckets in parallel, and a sort for short runs of keys. What edges, welding and duplicate search are made
 * of: a bucket fits the cache and is worked on by one task, so the results depend neither on threads nor on hash orders.
 */
#ifndef ESI_MESH_PARTITION_H
#define ESI_MESH_PARTITION_H

#include "base/base.h"

#define ESI_NO_BUCKET UINT32_MAX

/* Writes the buckets of items begin .. end - 1 to bucket[0 ..]; ESI_NO_BUCKET leaves an item out. Runs on several threads, twice for each
 * item. */
typedef void (*esi_bucket_fn)(const void *arg, int64_t begin, int64_t end, uint32_t *bucket);

/* Zero-initialise. */
typedef struct esi_partition {
    int32_t *items;                /* by bucket, ascending within */
    int64_t *start;                /* [n_buckets + 1] */
    int64_t largest;               /* items of the largest bucket */
    uint32_t n_buckets;
} esi_partition;
espalier_status esi_partition_build(espalier_context *ctx, esi_partition *out, int64_t n_items, uint32_t n_buckets, esi_bucket_fn fn,
                                    const void *arg);
void esi_partition_free(espalier_context *ctx, esi_partition *partition);

/* Number of buckets of 2^shift consecutive numbers below n: small enough for the cache when `items` items fall into them, at most 1024. */
uint32_t esi_range_buckets(int64_t n, int64_t items, int *shift);

/* Ascending; equal keys are alike. */
void esi_sort_keys(uint64_t *keys, int64_t n);

/* 64 mixed bits of a value (the finaliser of MurmurHash3). */
static inline uint64_t esi_mix_bits(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 33;
}

#define ESI_POLL_MASK 0x3ffff

/* For serial loops: looks at the cancel flag every 2^18 iterations. */
static inline espalier_status esi_poll(espalier_context *ctx, int64_t i)
{
    return (i & ESI_POLL_MASK) == 0 ? esi_check_cancel(ctx) : ESPALIER_OK;
}

#endif
