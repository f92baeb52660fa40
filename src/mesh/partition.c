/* SPDX-License-Identifier: MIT
 *
 * partition.c: a stable counting sort by bucket. Items are cut into chunks independent of the number of threads; each chunk counts its
 * items per bucket, a prefix sum over (bucket, chunk) gives every chunk its places, and each writes its own.
 */
#include "mesh/partition.h"

#define CHUNK INT64_C(0x20000)
#define BLOCK 512
#define MAX_BUCKETS 1024

typedef struct job {
    esi_partition *out;
    esi_bucket_fn fn;
    const void *arg;
    int64_t n_items;
    int64_t *place;                /* [chunk][bucket]: number of items, then where the next one goes */
} job;

static void count_chunk(void *arg, size_t task, int slot)
{
    const job *j = arg;
    int64_t *count = j->place + (int64_t)task * j->out->n_buckets;
    const int64_t begin = (int64_t)task * CHUNK, end = ESI_MIN(begin + CHUNK, j->n_items);
    uint32_t bucket[BLOCK];

    (void)slot;
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = ESI_MIN(BLOCK, end - i);

        j->fn(j->arg, i, i + n, bucket);
        for (int64_t k = 0; k < n; k++)
            if (bucket[k] != ESI_NO_BUCKET) count[bucket[k]]++;
    }
}

static void place_chunk(void *arg, size_t task, int slot)
{
    const job *j = arg;
    int64_t *place = j->place + (int64_t)task * j->out->n_buckets;
    const int64_t begin = (int64_t)task * CHUNK, end = ESI_MIN(begin + CHUNK, j->n_items);
    int32_t *items = j->out->items;
    uint32_t bucket[BLOCK];

    (void)slot;
    for (int64_t i = begin; i < end; i += BLOCK) {
        const int64_t n = ESI_MIN(BLOCK, end - i);

        j->fn(j->arg, i, i + n, bucket);
        for (int64_t k = 0; k < n; k++)
            if (bucket[k] != ESI_NO_BUCKET) items[place[bucket[k]]++] = (int32_t)(i + k);
    }
}

static int64_t sum_places(const job *j, int64_t n_chunks)
{
    esi_partition *out = j->out;
    int64_t sum = 0;

    for (uint32_t b = 0; b < out->n_buckets; b++) {
        out->start[b] = sum;
        for (int64_t c = 0; c < n_chunks; c++) {
            int64_t *p = &j->place[c * out->n_buckets + b];
            const int64_t here = *p;

            *p = sum;
            sum += here;
        }
        out->largest = ESI_MAX(out->largest, sum - out->start[b]);
    }
    out->start[out->n_buckets] = sum;
    return sum;
}

espalier_status esi_partition_build(espalier_context *ctx, esi_partition *out, int64_t n_items, uint32_t n_buckets, esi_bucket_fn fn,
                                    const void *arg)
{
    const int64_t n_chunks = (n_items + CHUNK - 1) / CHUNK;
    job j = {.out = out, .fn = fn, .arg = arg, .n_items = n_items};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *out = (esi_partition){.n_buckets = n_buckets};
    out->start = esi_alloc(ctx, (size_t)n_buckets + 1, sizeof *out->start, "mesh buckets");
    if (!out->start) goto done;
    j.place = esi_calloc(ctx, (size_t)n_chunks, n_buckets * sizeof *j.place, "mesh buckets");
    if (!j.place) goto done;
    st = esi_parallel(ctx, (size_t)n_chunks, count_chunk, &j);
    if (st != ESPALIER_OK) goto done;
    out->items = esi_alloc(ctx, (size_t)sum_places(&j, n_chunks), sizeof *out->items, "mesh buckets");
    st = out->items ? esi_parallel(ctx, (size_t)n_chunks, place_chunk, &j) : ESPALIER_ERR_RESOURCE;
done:
    esi_free(ctx, j.place);
    if (st != ESPALIER_OK) esi_partition_free(ctx, out);
    return st;
}

void esi_partition_free(espalier_context *ctx, esi_partition *partition)
{
    esi_free(ctx, partition->items);
    esi_free(ctx, partition->start);
    memset(partition, 0, sizeof *partition);
}

uint32_t esi_range_buckets(int64_t n, int64_t items, int *shift)
{
    const int64_t wanted = ESI_MIN(MAX_BUCKETS, ESI_MAX(1, ESI_MAX(items, n) >> 14));

    *shift = 0;
    while (((n - 1) >> *shift) >= wanted) ++*shift;
    return n > 0 ? (uint32_t)((n - 1) >> *shift) + 1 : 1;
}

static void sift_down(uint64_t *keys, int64_t i, int64_t n)
{
    const uint64_t moved = keys[i];

    for (;;) {
        int64_t child = 2 * i + 1;

        if (child >= n) break;
        if (child + 1 < n && keys[child + 1] > keys[child]) child++;
        if (keys[child] <= moved) break;
        keys[i] = keys[child];
        i = child;
    }
    keys[i] = moved;
}

/* A handful by insertion; a vertex with a huge fan must not cost quadratic time. */
void esi_sort_keys(uint64_t *keys, int64_t n)
{
    if (n > 48) {
        for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(keys, i, n);
        for (int64_t i = n - 1; i > 0; i--) {
            const uint64_t top = keys[0];

            keys[0] = keys[i];
            keys[i] = top;
            sift_down(keys, 0, i);
        }
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        const uint64_t moved = keys[i];
        int64_t j = i;

        for (; j > 0 && keys[j - 1] > moved; j--) keys[j] = keys[j - 1];
        keys[j] = moved;
    }
}
