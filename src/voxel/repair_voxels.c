/* SPDX-License-Identifier: MIT
 *
 * repair_voxels.c: voxels that the decoder's last subdivision dropped come back where the flags around them still ask for them: three or
 * more flagged edges have all their voxels but this one. In a flat patch a lost voxel takes four quads with it, of which three are
 * remembered by its neighbours' flags; the fourth belongs to an edge of its own, whose flag parity finds again.
 */
#include "voxel/keys.h"
#include "voxel/parity.h"

#define ROWS_PER_TASK 16384
#define EDGES_NEEDED 3

/* The grid as it grows. Before anything is added coords and flags are the caller's. */
typedef struct growing_grid {
    const esi_dual_grid *grid;
    const int32_t *coords;
    const uint8_t *flags;
    int32_t *own_coords;           /* all rows, once something was added */
    uint8_t *own_flags;
    float *added_local;            /* of rows from grid->count on */
    int64_t count;
    esi_voxel_index index;
} growing_grid;

static const int8_t corner[3][3][3] = {
    {{0, 0, 1}, {0, 1, 0}, {0, 1, 1}},
    {{0, 0, 1}, {1, 0, 0}, {1, 0, 1}},
    {{0, 1, 0}, {1, 0, 0}, {1, 1, 0}},
};

/* ------------------------------------------------------------ what is missing */

typedef struct dangling_job {
    const growing_grid *g;
    uint64_t *keys;                /* NULL: count only. Of the one missing voxel of a flagged edge */
    int64_t *first;                /* [tasks + 1] */
} dangling_job;

/* Key of the only voxel that edge `axis` of row n lacks, false if it lacks none or several or one beyond the grid. */
static bool missing_voxel(const growing_grid *g, esi_voxel_cursor *cursor, int64_t n, int axis, uint64_t *key)
{
    int missing = -1;
    int32_t row[4];

    for (int i = 0; i < 3; i++) {
        const int8_t *d = corner[axis][i];

        if (esi_voxel_cursor_at(cursor, d[0], d[1], d[2]) >= 0) continue;
        if (missing >= 0) return false;
        missing = i;
    }
    if (missing < 0) return false;
    row[0] = g->coords[4 * n];
    for (int a = 0; a < 3; a++) {
        row[1 + a] = g->coords[4 * n + 1 + a] + corner[axis][missing][a];
        if (row[1 + a] >= g->grid->grid[a]) return false;
    }
    *key = esi_key_pack(row);
    return true;
}

static void find_dangling(void *arg, size_t task, int slot)
{
    const dangling_job *job = arg;
    const growing_grid *g = job->g;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    int64_t at = job->keys ? job->first[task] : 0;
    esi_voxel_cursor cursor;

    (void)slot;
    esi_voxel_cursor_init(&cursor, &g->index);
    for (int64_t n = begin; n < end; n++) {
        esi_voxel_cursor_move(&cursor, g->coords + 4 * n);
        for (int axis = 0; axis < 3; axis++) {
            uint64_t key;

            if (!g->flags[3 * n + axis] || !missing_voxel(g, &cursor, n, axis, &key)) continue;
            if (job->keys) job->keys[at] = key;
            at++;
        }
    }
    if (!job->keys) job->first[task + 1] = at;
}

/* Keys of the voxels to add, ascending; esi_alloc'ed. */
static espalier_status find_missing(espalier_context *ctx, const growing_grid *g, uint64_t **keys, int64_t *n)
{
    const size_t tasks = (size_t)((g->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    dangling_job job = {.g = g};
    int64_t total, kept = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *keys = NULL;
    *n = 0;
    job.first = esi_calloc(ctx, tasks + 1, sizeof *job.first, "missing voxels");
    if (!job.first) goto done;
    st = esi_parallel(ctx, tasks, find_dangling, &job);
    if (st != ESPALIER_OK) goto done;
    for (size_t t = 0; t < tasks; t++) job.first[t + 1] += job.first[t];
    total = job.first[tasks];
    job.keys = esi_alloc(ctx, (size_t)total, sizeof *job.keys, "missing voxels");
    st = job.keys ? esi_parallel(ctx, tasks, find_dangling, &job) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = esi_keys_sort(ctx, job.keys, (size_t)total);
    if (st != ESPALIER_OK) goto done;
    for (int64_t i = 0, end; i < total; i = end) {
        for (end = i + 1; end < total && job.keys[end] == job.keys[i];) end++;
        if (end - i >= EDGES_NEEDED) job.keys[kept++] = job.keys[i];
    }
    *keys = job.keys;
    *n = kept;
    job.keys = NULL;
done:
    esi_free(ctx, job.keys);
    esi_free(ctx, job.first);
    return st;
}

/* -------------------------------------------------------------------- adding */

static espalier_status append_rows(espalier_context *ctx, growing_grid *g, const uint64_t *keys, int64_t n)
{
    const size_t old = (size_t)g->count, count = old + (size_t)n;
    int32_t *coords = esi_realloc(ctx, g->own_coords, count, 4 * sizeof *coords, "restored voxels");
    uint8_t *flags;
    float *local;

    if (!coords) return ESPALIER_ERR_RESOURCE;
    if (!g->own_coords && old) memcpy(coords, g->coords, old * 4 * sizeof *coords);
    g->own_coords = coords;
    g->coords = coords;
    flags = esi_realloc(ctx, g->own_flags, count, 3, "restored voxels");
    if (!flags) return ESPALIER_ERR_RESOURCE;
    if (!g->own_flags && old) memcpy(flags, g->flags, old * 3);
    g->own_flags = flags;
    g->flags = flags;
    local = esi_realloc(ctx, g->added_local, count - (size_t)g->grid->count, 3 * sizeof *local, "restored voxels");
    if (!local) return ESPALIER_ERR_RESOURCE;
    g->added_local = local;

    for (int64_t i = 0; i < n; i++) {
        esi_key_unpack(coords + 4 * (old + (size_t)i), keys[i]);
        memset(flags + 3 * (old + (size_t)i), 0, 3);
    }
    g->count = (int64_t)count;
    return esi_row_count_check(ctx, g->count);
}

/* Flags of the rows from `first` on: the fewest that leave the fewest odd faces. */
static espalier_status decide_flags(espalier_context *ctx, const growing_grid *g, const esi_parity_grid *parity, int64_t first)
{
    const size_t room = 3 * (size_t)(g->count - first);
    int64_t *edges = esi_alloc(ctx, room, sizeof *edges, "restored voxels");
    float *costs = esi_alloc(ctx, room, sizeof *costs, "restored voxels");
    esi_parity_edges candidates = {.edges = edges, .costs = costs};
    esi_repair_stats stats = {0};
    int64_t change = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (!edges || !costs) goto done;
    for (int64_t edge = 3 * first; edge < 3 * g->count; edge++) {
        if (!(parity->complete[edge / 3] >> edge % 3 & 1)) continue;
        edges[candidates.count] = edge;
        costs[candidates.count++] = 1.0f;
    }
    st = esi_parity_solve(ctx, parity, &candidates, ESI_REPAIR_REDUCE, &stats, &change);
done:
    esi_free(ctx, edges);
    esi_free(ctx, costs);
    return st;
}

/* Voxels (bit 9 (dx + 1) + 3 (dy + 1) + dz + 1) that share a quad with the cursor's voxel. */
static uint32_t quad_neighbors(const esi_parity_grid *g, esi_voxel_cursor *cursor)
{
    uint32_t found = 0;

    for (int axis = 0; axis < 3; axis++) {
        for (int owner = 0; owner < 4; owner++) {
            const int b = axis == 0, c = axis == 2 ? 1 : 2;        /* the other axes; b is 0 or 1 */
            int d[3] = {0, 0, 0};
            int32_t row;

            d[b] = -(owner & 1);
            d[c] = -(owner >> 1);
            row = esi_voxel_cursor_at(cursor, d[0], d[1], d[2]);
            if (row < 0 || !(g->complete[row] >> axis & 1) || !g->flags[3 * (int64_t)row + axis]) continue;
            found |= UINT32_C(1) << (9 * (d[0] + 1) + 3 * (d[1] + 1) + d[2] + 1);
            for (int i = 0; i < 3; i++) {
                const int8_t *q = corner[axis][i];

                found |= UINT32_C(1) << (9 * (d[0] + q[0] + 1) + 3 * (d[1] + q[1] + 1) + d[2] + q[2] + 1);
            }
        }
    }
    return found & ~(UINT32_C(1) << 13);
}

/* Mean of the vertices that the quads of row n have from rows below `first`, in cells from the row's own corner. */
static void place_vertex(const growing_grid *g, const esi_parity_grid *parity, esi_voxel_cursor *cursor, int64_t n, int64_t first)
{
    double sum[3] = {0.0, 0.0, 0.0};
    float *out = g->added_local + 3 * (n - g->grid->count);
    uint32_t neighbors;
    int found = 0;

    esi_voxel_cursor_move(cursor, g->coords + 4 * n);
    neighbors = quad_neighbors(parity, cursor);
    for (int place = 0; place < 27; place++) {
        const int d[3] = {place / 9 - 1, place / 3 % 3 - 1, place % 3 - 1};
        int64_t row;
        const float *local;

        if (!(neighbors >> place & 1)) continue;
        row = esi_voxel_cursor_at(cursor, d[0], d[1], d[2]);
        if (row < 0 || row >= first) continue;
        local = row < g->grid->count ? g->grid->local + 3 * row : g->added_local + 3 * (row - g->grid->count);
        for (int a = 0; a < 3; a++) sum[a] += (double)d[a] + (double)local[a];
        found++;
    }
    for (int a = 0; a < 3; a++) out[a] = found ? (float)(sum[a] / (double)found) : 0.5f;
}

/* One pass; *added rows. */
static espalier_status run_pass(espalier_context *ctx, growing_grid *g, int64_t *added)
{
    const int64_t first = g->count;
    esi_parity_grid parity = {0};
    uint64_t *keys = NULL;
    espalier_status st = find_missing(ctx, g, &keys, added);

    if (st != ESPALIER_OK || *added == 0) goto done;
    st = append_rows(ctx, g, keys, *added);
    if (st != ESPALIER_OK) goto done;
    esi_voxel_index_free(ctx, &g->index);
    st = esi_voxel_index_build(ctx, &g->index, g->coords, g->count);
    if (st == ESPALIER_OK) st = esi_parity_grid_open(ctx, &parity, g->coords, g->count, &g->index, g->own_flags);
    if (st == ESPALIER_OK) st = decide_flags(ctx, g, &parity, first);
    if (st == ESPALIER_OK) {
        esi_voxel_cursor cursor;

        esi_voxel_cursor_init(&cursor, &g->index);
        for (int64_t n = first; n < g->count; n++) place_vertex(g, &parity, &cursor, n, first);
    }
done:
    esi_free(ctx, keys);
    esi_free(ctx, parity.complete);
    return st;
}

static espalier_status hand_out(espalier_context *ctx, esi_restored_voxels *out, growing_grid *g)
{
    const int64_t first = g->grid->count, n = g->count - first;

    if (n == 0) return ESPALIER_OK;
    out->coords = esi_alloc(ctx, (size_t)n, 4 * sizeof *out->coords, "restored voxels");
    out->intersected = esi_alloc(ctx, (size_t)n, 3, "restored voxels");
    if (!out->coords || !out->intersected) return ESPALIER_ERR_RESOURCE;
    memcpy(out->coords, g->coords + 4 * first, (size_t)n * 4 * sizeof *out->coords);
    memcpy(out->intersected, g->flags + 3 * first, (size_t)n * 3);
    out->local = g->added_local;
    g->added_local = NULL;
    out->count = n;
    return ESPALIER_OK;
}

espalier_status esi_dual_grid_restore_voxels(espalier_context *ctx, esi_restored_voxels *out, const esi_dual_grid *grid, int passes)
{
    growing_grid g = {.grid = grid, .coords = grid->coords, .flags = grid->intersected, .count = grid->count};
    int64_t added = 1;
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_voxel_index_build(ctx, &g.index, grid->coords, grid->count);
    for (int pass = 0; st == ESPALIER_OK && pass < passes && added > 0; pass++) {
        st = run_pass(ctx, &g, &added);
        out->passes += added > 0;
    }
    if (st == ESPALIER_OK) st = hand_out(ctx, out, &g);
    esi_free(ctx, g.own_coords);
    esi_free(ctx, g.own_flags);
    esi_free(ctx, g.added_local);
    esi_voxel_index_free(ctx, &g.index);
    if (st != ESPALIER_OK) esi_restored_voxels_free(ctx, out);
    return st;
}

void esi_restored_voxels_free(espalier_context *ctx, esi_restored_voxels *voxels)
{
    if (!voxels) return;
    esi_free(ctx, voxels->coords);
    esi_free(ctx, voxels->local);
    esi_free(ctx, voxels->intersected);
    memset(voxels, 0, sizeof *voxels);
}
