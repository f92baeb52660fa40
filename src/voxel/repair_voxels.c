/* SPDX-License-Identifier: MIT
 *
 * repair_voxels.c: voxels that the decoder's last subdivision dropped come back where the flags around them still ask for them: three or
 * more flagged edges have all their voxels but this one. In a flat patch a lost voxel takes four quads with it, of which three are
 * remembered by its neighbours' flags; the fourth belongs to an edge of its own, whose flag parity finds again. Where the surface is
 * slanted more of the lost edges are its own: then any voxel beside an odd face will do if with it every face around is even.
 */
#include "voxel/keys.h"
#include "voxel/parity.h"
#include "voxel/repair_grid.h"

#define ROWS_PER_TASK 16384
#define EDGES_NEEDED 3
#define FITS_PER_TASK 1024
#define FLAGS_ASK (-1.0)

/* ------------------------------------------------------------ what is missing */

typedef struct missing_job {
    const esi_growing_grid *g;
    const uint8_t *complete, *odd; /* by row: bits of its edges that have all voxels, of its odd faces */
    uint64_t *keys;                /* NULL: count only */
    int64_t *first;                /* [tasks + 1] */
} missing_job;

/* Key of the voxel beside row n, false if it lies outside the grid. */
static bool neighbor_key(const esi_growing_grid *g, int64_t n, const int d[3], uint64_t *key)
{
    int32_t row[4] = {g->coords[4 * n], 0, 0, 0};

    for (int a = 0; a < 3; a++) {
        row[1 + a] = g->coords[4 * n + 1 + a] + d[a];
        if (row[1 + a] < 0 || row[1 + a] >= g->grid->grid[a]) return false;
    }
    *key = esi_key_pack(row);
    return true;
}

/* Key of the only voxel that edge `axis` of row n lacks, false if it lacks none or several or one beyond the grid. */
static bool missing_voxel(const esi_growing_grid *g, esi_voxel_cursor *cursor, int64_t n, int axis, uint64_t *key)
{
    int missing = -1, offset[3];

    for (int i = 0; i < 3; i++) {
        const int8_t *d = esi_quad_corner[axis][i];

        if (esi_voxel_cursor_at(cursor, d[0], d[1], d[2]) >= 0) continue;
        if (missing >= 0) return false;
        missing = i;
    }
    if (missing < 0) return false;
    for (int a = 0; a < 3; a++) offset[a] = esi_quad_corner[axis][missing][a];
    return neighbor_key(g, n, offset, key);
}

/* Voxels that flagged edges lack, once for each edge. */
static void find_dangling(void *arg, size_t task, int slot)
{
    const missing_job *job = arg;
    const esi_growing_grid *g = job->g;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    int64_t at = job->keys ? job->first[task] : 0;
    esi_voxel_cursor cursor;

    (void)slot;
    esi_voxel_cursor_init(&cursor, &g->index);
    for (int64_t n = begin; n < end; n++) {
        if (job->complete[n] == 7) continue;
        esi_voxel_cursor_move(&cursor, g->coords + 4 * n);
        for (int axis = 0; axis < 3; axis++) {
            uint64_t key;

            if (job->complete[n] >> axis & 1) continue;
            if (!g->flags[3 * n + axis] || !missing_voxel(g, &cursor, n, axis, &key)) continue;
            if (job->keys) job->keys[at] = key;
            at++;
        }
    }
    if (!job->keys) job->first[task + 1] = at;
}

/* Voxels that alone are missing for an edge around an odd face, whoever would own the edge. */
static void find_beside_odd(void *arg, size_t task, int slot)
{
    const missing_job *job = arg;
    const esi_growing_grid *g = job->g;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    int64_t at = job->keys ? job->first[task] : 0;
    esi_voxel_cursor cursor;

    (void)slot;
    esi_voxel_cursor_init(&cursor, &g->index);
    for (int64_t n = begin; n < end; n++) {
        if (job->odd[n] == 0) continue;
        esi_voxel_cursor_move(&cursor, g->coords + 4 * n);
        for (int d = 0; d < 3; d++) {
            if (!(job->odd[n] >> d & 1)) continue;
            for (int side = 0; side < 4; side++) {
                const int across = (d + 1 + (side >> 1)) % 3;
                int near[3] = {0, 0, 0}, far[3] = {0, 0, 0};
                bool near_missing, far_missing;
                uint64_t key;

                near[across] = far[across] = side & 1 ? 1 : -1;
                far[d] = 1;
                near_missing = esi_voxel_cursor_at(&cursor, near[0], near[1], near[2]) < 0;
                far_missing = esi_voxel_cursor_at(&cursor, far[0], far[1], far[2]) < 0;
                if (near_missing == far_missing || !neighbor_key(g, n, near_missing ? near : far, &key)) continue;
                if (job->keys) job->keys[at] = key;
                at++;
            }
        }
    }
    if (!job->keys) job->first[task + 1] = at;
}

/* All keys that `fn` finds, sorted, with repetitions; esi_alloc'ed. */
static espalier_status collect_keys(espalier_context *ctx, const esi_growing_grid *g, const uint8_t *complete, const uint8_t *odd,
                                    esi_task_fn fn, uint64_t **keys, int64_t *n)
{
    const size_t tasks = (size_t)((g->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    missing_job job = {.g = g, .complete = complete, .odd = odd};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *keys = NULL;
    *n = 0;
    job.first = esi_calloc(ctx, tasks + 1, sizeof *job.first, "missing voxels");
    if (!job.first) return st;
    st = esi_parallel(ctx, tasks, fn, &job);
    if (st != ESPALIER_OK) goto done;
    for (size_t t = 0; t < tasks; t++) job.first[t + 1] += job.first[t];
    *n = job.first[tasks];
    job.keys = esi_alloc(ctx, (size_t)*n, sizeof *job.keys, "missing voxels");
    st = job.keys ? esi_parallel(ctx, tasks, fn, &job) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = esi_keys_sort(ctx, job.keys, (size_t)*n);
    if (st != ESPALIER_OK) goto done;
    *keys = job.keys;
    job.keys = NULL;
done:
    esi_free(ctx, job.keys);
    esi_free(ctx, job.first);
    return st;
}

/* -------------------------------------------------------------------- choosing */

typedef struct fit_job {
    const esi_growing_grid *g;
    const uint64_t *keys;          /* ascending, distinct */
    double *fit;                   /* FLAGS_ASK where the flags alone decide */
    int64_t count;
} fit_job;

static void find_fits(void *arg, size_t task, int slot)
{
    const fit_job *job = arg;
    const int64_t begin = (int64_t)task * FITS_PER_TASK, end = ESI_MIN(begin + FITS_PER_TASK, job->count);

    (void)slot;
    for (int64_t i = begin; i < end; i++) {
        if (!(job->fit[i] < 0.0)) job->fit[i] = esi_hole_fit(job->g, job->keys[i]);
    }
}

static int64_t find_key(const uint64_t *keys, int64_t n, uint64_t key)
{
    int64_t low = 0, high = n;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;

        if (keys[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && keys[low] == key ? low : -1;
}

/* Neighbours are mostly answers to the same question: the best fit of them stays, the lowest of equals. */
static bool is_best_around(const fit_job *job, int64_t i)
{
    int32_t v[4];

    if (job->fit[i] >= ESI_NO_FIT) return false;
    if (job->fit[i] < 0.0) return true;
    esi_key_unpack(v, job->keys[i]);
    for (int place = 0; place < 27; place++) {
        const int32_t row[4] = {v[0], v[1] + place / 9 - 1, v[2] + place / 3 % 3 - 1, v[3] + place % 3 - 1};
        int64_t other;

        if (place == 13 || !esi_row_in_range(row)) continue;
        other = find_key(job->keys, job->count, esi_key_pack(row));
        if (other >= 0 && (job->fit[other] < job->fit[i] || (job->fit[other] == job->fit[i] && other < i))) return false;
    }
    return true;
}

/* Merges the two sorted lists into keys, each key once, and says which the flags alone ask for. */
static int64_t merge_keys(uint64_t *keys, double *fit, const uint64_t *dangling, int64_t n_dangling, const uint64_t *beside,
                          int64_t n_beside)
{
    int64_t n = 0, i = 0, j = 0;

    while (i < n_dangling || j < n_beside) {
        const uint64_t key = j >= n_beside || (i < n_dangling && dangling[i] < beside[j]) ? dangling[i] : beside[j];
        const int64_t first = i, first_beside = j;

        while (i < n_dangling && dangling[i] == key) i++;
        while (j < n_beside && beside[j] == key) j++;
        if (i - first < EDGES_NEEDED && j == first_beside) continue;
        keys[n] = key;
        fit[n++] = i - first >= EDGES_NEEDED ? FLAGS_ASK : 0.0;
    }
    return n;
}

/* Keys of the voxels to add, ascending and distinct; esi_alloc'ed. */
static espalier_status find_missing(espalier_context *ctx, const esi_growing_grid *g, uint64_t **keys, int64_t *n)
{
    esi_parity_grid parity = {0};
    uint64_t *dangling = NULL, *beside = NULL, *all = NULL, *chosen;
    double *fit = NULL;
    fit_job job = {.g = g};
    int64_t n_dangling, n_beside, kept = 0;
    uint8_t *odd = esi_alloc(ctx, (size_t)g->count, 1, "missing voxels");
    espalier_status st = odd ? esi_parity_grid_open(ctx, &parity, g->coords, g->count, &g->index, g->flags) : ESPALIER_ERR_RESOURCE;

    *keys = NULL;
    *n = 0;
    if (st == ESPALIER_OK) st = esi_parity_mark_odd(ctx, odd, &parity);
    if (st == ESPALIER_OK) st = collect_keys(ctx, g, parity.complete, odd, find_dangling, &dangling, &n_dangling);
    if (st == ESPALIER_OK) st = collect_keys(ctx, g, parity.complete, odd, find_beside_odd, &beside, &n_beside);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    all = esi_alloc(ctx, (size_t)(n_dangling + n_beside), sizeof *all, "missing voxels");
    if (!all) goto done;
    fit = esi_alloc(ctx, (size_t)(n_dangling + n_beside), sizeof *fit, "missing voxels");
    if (!fit) goto done;
    job.keys = all;
    job.fit = fit;
    job.count = merge_keys(all, fit, dangling, n_dangling, beside, n_beside);
    st = esi_parallel(ctx, (size_t)((job.count + FITS_PER_TASK - 1) / FITS_PER_TASK), find_fits, &job);
    if (st != ESPALIER_OK) goto done;
    chosen = esi_alloc(ctx, (size_t)job.count, sizeof *chosen, "missing voxels");
    if (!chosen) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t i = 0; i < job.count; i++) {
        if (is_best_around(&job, i)) chosen[kept++] = all[i];
    }
    *keys = chosen;
    *n = kept;
done:
    esi_free(ctx, parity.complete);
    esi_free(ctx, odd);
    esi_free(ctx, dangling);
    esi_free(ctx, beside);
    esi_free(ctx, all);
    esi_free(ctx, fit);
    return st;
}

/* -------------------------------------------------------------------- adding */

static espalier_status append_rows(espalier_context *ctx, esi_growing_grid *g, const uint64_t *keys, int64_t n)
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
static espalier_status decide_flags(espalier_context *ctx, const esi_growing_grid *g, const esi_parity_grid *parity, int64_t first)
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
    st = esi_parity_solve(ctx, parity, g->own_flags, &candidates, ESI_REPAIR_REDUCE, &stats, &change);
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
                const int8_t *q = esi_quad_corner[axis][i];

                found |= UINT32_C(1) << (9 * (d[0] + q[0] + 1) + 3 * (d[1] + q[1] + 1) + d[2] + q[2] + 1);
            }
        }
    }
    return found & ~(UINT32_C(1) << 13);
}

/* Mean of the vertices that the quads of row n have from rows below `first`, in cells from the row's own corner. */
static void place_vertex(const esi_growing_grid *g, const esi_parity_grid *parity, esi_voxel_cursor *cursor, int64_t n, int64_t first)
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
        local = esi_growing_local(g, row);
        for (int a = 0; a < 3; a++) sum[a] += (double)d[a] + (double)local[a];
        found++;
    }
    for (int a = 0; a < 3; a++) out[a] = found ? (float)(sum[a] / (double)found) : 0.5f;
}

/* One pass; *added rows. */
static espalier_status run_pass(espalier_context *ctx, esi_growing_grid *g, int64_t *added)
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

static espalier_status hand_out(espalier_context *ctx, esi_restored_voxels *out, esi_growing_grid *g)
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
    esi_growing_grid g = {.grid = grid, .coords = grid->coords, .flags = grid->intersected, .count = grid->count};
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
