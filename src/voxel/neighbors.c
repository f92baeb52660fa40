/* SPDX-License-Identifier: MIT
 *
 * neighbors.c: 27-tap neighbour tables for submanifold convolutions (TRELLIS.2 SparseConv3d) and for dense volumes, so that
 * one gather kernel serves both. Tap t = 9i + 3j + l is the neighbour at (i-1, j-1, l-1); 13 is the row itself.
 */
#include "voxel/voxel.h"
#include "voxel/voxel_index.h"

#define TAPS 27
#define ROWS_PER_TASK 8192

static int32_t *alloc_table(espalier_context *ctx, int64_t count)
{
    return esi_alloc(ctx, (size_t)count, TAPS * sizeof(int32_t), "neighbour table");
}

typedef struct sparse_job {
    const esi_voxel_index *index;
    const int32_t *rows;
    int64_t count;
    int32_t *table;
} sparse_job;

static void fill_sparse(void *arg, size_t task, int slot)
{
    const sparse_job *job = arg;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, job->count);
    esi_voxel_cursor cursor;

    (void)slot;
    esi_voxel_cursor_init(&cursor, job->index);
    for (int64_t n = begin; n < end; n++) {
        int32_t *taps = job->table + n * TAPS;

        esi_voxel_cursor_move(&cursor, job->rows + 4 * n);
        for (int i = -1; i <= 1; i++) {
            for (int j = -1; j <= 1; j++, taps += 3) esi_voxel_cursor_line(&cursor, i, j, taps);
        }
    }
}

espalier_status esi_neighbor_table(espalier_context *ctx, int32_t **table, const int32_t *rows, int64_t count)
{
    esi_voxel_index index;
    sparse_job job = {.index = &index, .rows = rows, .count = count};
    espalier_status st;

    *table = NULL;
    st = esi_voxel_index_build(ctx, &index, rows, count);
    if (st != ESPALIER_OK) return st;
    job.table = alloc_table(ctx, count);
    st = job.table ? esi_parallel(ctx, (size_t)((count + ROWS_PER_TASK - 1) / ROWS_PER_TASK), fill_sparse, &job) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) {
        *table = job.table;
        job.table = NULL;
    }
    esi_free(ctx, job.table);
    esi_voxel_index_free(ctx, &index);
    return st;
}

/* -------------------------------------------------------------------- dense */

typedef struct dense_job {
    int R;
    int32_t *table;
} dense_job;

/* One plane of constant x. */
static void fill_dense(void *arg, size_t task, int slot)
{
    const dense_job *job = arg;
    const int R = job->R, x = (int)task;
    int32_t *taps = job->table + (size_t)x * (size_t)R * (size_t)R * TAPS;

    (void)slot;
    for (int y = 0; y < R; y++) {
        for (int z = 0; z < R; z++) {
            for (int t = 0; t < TAPS; t++) {
                const int i = x + t / 9 - 1, j = y + t / 3 % 3 - 1, l = z + t % 3 - 1;
                const bool inside = i >= 0 && j >= 0 && l >= 0 && i < R && j < R && l < R;

                *taps++ = inside ? (i * R + j) * R + l : -1;
            }
        }
    }
}

espalier_status esi_dense_neighbor_table(espalier_context *ctx, int32_t **table, int64_t R)
{
    dense_job job;
    espalier_status st;

    *table = NULL;
    if (R < 1 || R > 1290) {           /* 1290^3 is the largest cube below 2^31 */
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: no neighbour table for a dense volume of %lld cells per axis", (long long)R);
    }
    job.R = (int)R;
    job.table = alloc_table(ctx, R * R * R);
    if (!job.table) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, (size_t)R, fill_dense, &job);
    if (st != ESPALIER_OK) {
        esi_free(ctx, job.table);
        return st;
    }
    *table = job.table;
    return ESPALIER_OK;
}
