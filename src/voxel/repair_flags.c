/* SPDX-License-Identifier: MIT
 *
 * repair_flags.c: flag parity repair: logits of the dual grid's edges to flags, of which the uncertain ones are changed where that makes
 * voxel faces even. A confident flag is never touched, and neither is anything where all faces are even already.
 */
#include "voxel/parity.h"

#include "voxel/keys.h"

#include <math.h>

#define ROWS_PER_TASK 16384

typedef struct flag_job {
    const esi_parity_grid *grid;
    const float *logits;
    uint8_t *flags;
    double margin;
    int64_t *edges;                /* NULL: count only */
    float *costs;
    int64_t *first;                /* [tasks + 1] candidates before a task; while counting: the number, one further */
    int64_t *complete;             /* by task */
} flag_job;

static void threshold(void *arg, size_t task, int slot)
{
    const flag_job *job = arg;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, job->grid->count);

    (void)slot;
    for (int64_t i = 3 * begin; i < 3 * end; i++) job->flags[i] = job->logits[i] > 0.0f;
}

static void find_candidates(void *arg, size_t task, int slot)
{
    const flag_job *job = arg;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, job->grid->count);
    int64_t complete = 0, n = job->edges ? job->first[task] : 0;

    (void)slot;
    for (int64_t row = begin; row < end; row++) {
        for (int a = 0; a < 3; a++) {
            const float size = fabsf(job->logits[3 * row + a]);

            if (!(job->grid->complete[row] >> a & 1)) continue;
            complete++;
            if (!((double)size < job->margin)) continue;
            if (job->edges) {
                job->edges[n] = 3 * row + a;
                job->costs[n] = size;
            }
            n++;
        }
    }
    if (job->edges) return;
    job->first[task + 1] = n;
    job->complete[task] = complete;
}

static espalier_status list_candidates(espalier_context *ctx, flag_job *job, esi_parity_edges *out, esi_repair_stats *stats)
{
    const size_t tasks = (size_t)((job->grid->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    espalier_status st = ESPALIER_ERR_RESOURCE;

    job->first = esi_calloc(ctx, tasks + 1, sizeof *job->first, "uncertain edges");
    job->complete = esi_calloc(ctx, tasks + 1, sizeof *job->complete, "uncertain edges");
    if (!job->first || !job->complete) return st;
    st = esi_parallel(ctx, tasks, find_candidates, job);
    if (st != ESPALIER_OK) return st;
    for (size_t t = 0; t < tasks; t++) {
        job->first[t + 1] += job->first[t];
        stats->edges += job->complete[t];
    }
    stats->candidates = job->first[tasks];
    if (stats->candidates == 0) return ESPALIER_OK;
    job->edges = esi_alloc(ctx, (size_t)stats->candidates, sizeof *job->edges, "uncertain edges");
    job->costs = esi_alloc(ctx, (size_t)stats->candidates, sizeof *job->costs, "uncertain edges");
    if (!job->edges || !job->costs) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, tasks, find_candidates, job);
    *out = (esi_parity_edges){.edges = job->edges, .costs = job->costs, .count = stats->candidates};
    return st;
}

espalier_status esi_dual_grid_repair_flags(espalier_context *ctx, uint8_t *flags, const int32_t *coords, int64_t count, const float *logits,
                                           double margin, esi_repair_mode mode, esi_repair_stats *stats)
{
    esi_voxel_index index = {0};
    esi_parity_grid grid = {.count = count};
    esi_parity_edges candidates = {0};
    flag_job job = {.grid = &grid, .logits = logits, .flags = flags, .margin = margin};
    esi_repair_stats none;
    int64_t change = 0;
    espalier_status st;

    if (!stats) stats = &none;
    memset(stats, 0, sizeof *stats);
    st = esi_row_count_check(ctx, count);
    if (st != ESPALIER_OK) return st;
    st = esi_parallel(ctx, (size_t)((count + ROWS_PER_TASK - 1) / ROWS_PER_TASK), threshold, &job);
    if (st == ESPALIER_OK) st = esi_voxel_index_build(ctx, &index, coords, count);
    if (st != ESPALIER_OK) goto done;
    st = esi_parity_grid_open(ctx, &grid, coords, count, &index, flags);
    if (st == ESPALIER_OK) st = esi_parity_count_odd(ctx, &stats->odd_faces_before, &grid);
    if (st == ESPALIER_OK) st = list_candidates(ctx, &job, &candidates, stats);
    if (st == ESPALIER_OK) st = esi_parity_solve(ctx, &grid, flags, &candidates, mode, stats, &change);
    stats->odd_faces_after = stats->odd_faces_before + change;
done:
    esi_free(ctx, job.edges);
    esi_free(ctx, job.costs);
    esi_free(ctx, job.first);
    esi_free(ctx, job.complete);
    esi_free(ctx, grid.complete);
    esi_voxel_index_free(ctx, &index);
    return st;
}
