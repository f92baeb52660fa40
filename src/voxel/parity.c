/* SPDX-License-Identifier: MIT
 *
 * parity.c: which edges of a dual grid have their four voxels, and which voxel faces an odd number of flagged ones.
 */
#include "voxel/parity.h"

#include "voxel/parity_lattice.h"

#define ROWS_PER_TASK 16384

typedef struct row_pass {
    const esi_parity_grid *grid;
    int64_t *odd;                  /* by task, or NULL */
    uint8_t *bits;                 /* by row, or NULL */
} row_pass;

static void find_complete(void *arg, size_t task, int slot)
{
    const esi_parity_grid *g = ((const row_pass *)arg)->grid;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    esi_voxel_cursor cursor;

    (void)slot;
    esi_voxel_cursor_init(&cursor, g->index);
    for (int64_t n = begin; n < end; n++) {
        bool x, y, z;
        uint8_t bits = 0;

        esi_voxel_cursor_move(&cursor, g->coords + 4 * n);
        x = esi_voxel_cursor_at(&cursor, 1, 0, 0) >= 0;
        y = esi_voxel_cursor_at(&cursor, 0, 1, 0) >= 0;
        z = esi_voxel_cursor_at(&cursor, 0, 0, 1) >= 0;
        if (y && z && esi_voxel_cursor_at(&cursor, 0, 1, 1) >= 0) bits |= 1;
        if (x && z && esi_voxel_cursor_at(&cursor, 1, 0, 1) >= 0) bits |= 2;
        if (x && y && esi_voxel_cursor_at(&cursor, 1, 1, 0) >= 0) bits |= 4;
        g->complete[n] = bits;
    }
}

espalier_status esi_parity_grid_open(espalier_context *ctx, esi_parity_grid *out, const int32_t *coords, int64_t count,
                                     const esi_voxel_index *index, const uint8_t *flags)
{
    const size_t tasks = (size_t)((count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    row_pass pass = {.grid = out};
    espalier_status st;

    *out = (esi_parity_grid){.coords = coords, .count = count, .index = index, .flags = flags};
    out->complete = esi_alloc(ctx, (size_t)count, 1, "voxel parity");
    if (!out->complete) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, tasks, find_complete, &pass);
    if (st != ESPALIER_OK) {
        esi_free(ctx, out->complete);
        out->complete = NULL;
    }
    return st;
}

/* Does a complete flagged edge lie there? A row of -1 has none. */
static int edge_on(const esi_parity_grid *g, int32_t row, int axis)
{
    return row >= 0 && (g->complete[row] >> axis & 1) && g->flags[3 * (int64_t)row + axis];
}

/* Bit d: the face between row n and the next along d is odd. */
static unsigned odd_faces_of(const esi_parity_grid *g, esi_voxel_cursor *cursor, int64_t n)
{
    int32_t before[3];
    int own[3];
    unsigned odd = 0;

    esi_voxel_cursor_move(cursor, g->coords + 4 * n);
    for (int d = 0; d < 3; d++) {
        before[d] = esi_row_beside(cursor, d, -1);
        own[d] = edge_on(g, (int32_t)n, d);
    }
    for (int d = 0; d < 3; d++) {
        int a, b;

        /* An edge that counts has both voxels of the face, so a face without a second voxel has none. */
        esi_other_axes(d, &a, &b);
        odd |= (unsigned)((own[a] + edge_on(g, before[b], a) + own[b] + edge_on(g, before[a], b)) & 1) << d;
    }
    return odd;
}

static void find_odd(void *arg, size_t task, int slot)
{
    const row_pass *pass = arg;
    const esi_parity_grid *g = pass->grid;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    esi_voxel_cursor cursor;
    int64_t odd = 0;

    (void)slot;
    esi_voxel_cursor_init(&cursor, g->index);
    for (int64_t n = begin; n < end; n++) {
        const unsigned bits = odd_faces_of(g, &cursor, n);

        odd += (bits & 1) + (bits >> 1 & 1) + (bits >> 2);
        if (pass->bits) pass->bits[n] = (uint8_t)bits;
    }
    if (pass->odd) pass->odd[task] = odd;
}

espalier_status esi_parity_mark_odd(espalier_context *ctx, uint8_t *bits, const esi_parity_grid *grid)
{
    row_pass pass = {.grid = grid, .bits = bits};

    return esi_parallel(ctx, (size_t)((grid->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK), find_odd, &pass);
}

espalier_status esi_parity_count_odd(espalier_context *ctx, int64_t *odd, const esi_parity_grid *grid)
{
    const size_t tasks = (size_t)((grid->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
    row_pass pass = {.grid = grid};
    espalier_status st;

    *odd = 0;
    pass.odd = esi_calloc(ctx, tasks, sizeof *pass.odd, "voxel parity");
    if (!pass.odd) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, tasks, find_odd, &pass);
    for (size_t t = 0; t < tasks; t++) *odd += pass.odd[t];
    esi_free(ctx, pass.odd);
    return st;
}
