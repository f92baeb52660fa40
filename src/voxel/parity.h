/* SPDX-License-Identifier: MIT
 *
 * parity.h: which voxel faces have an odd number of flagged edges, and the cheapest changes of given edges that make them even.
 *
 * Edge 3 * row + a is the grid edge parallel to axis a through the far corner of the row's voxel in the other two axes. It counts where its
 * four voxels exist. Face 3 * row + d lies between that voxel and the next one along axis d; four edges bound it.
 */
#ifndef ESI_VOXEL_PARITY_H
#define ESI_VOXEL_PARITY_H

#include "voxel/repair.h"
#include "voxel/voxel_index.h"

typedef struct esi_parity_grid {
    const int32_t *coords;         /* [count][4] */
    int64_t count;
    const esi_voxel_index *index;
    uint8_t *complete;             /* [count] bit a: the four voxels of edge a exist */
    const uint8_t *flags;          /* [count][3] */
} esi_parity_grid;

/* Fills everything but index and flags. complete is esi_alloc'ed and the receiver's to free. */
espalier_status esi_parity_grid_open(espalier_context *ctx, esi_parity_grid *out, const int32_t *coords, int64_t count,
                                     const esi_voxel_index *index, const uint8_t *flags);
/* bits [count]: bit d of row n is set where face 3 * n + d is odd. */
espalier_status esi_parity_mark_odd(espalier_context *ctx, uint8_t *bits, const esi_parity_grid *grid);
espalier_status esi_parity_count_odd(espalier_context *ctx, int64_t *odd, const esi_parity_grid *grid);

/* Edges that may change, ascending, and what a change costs (>= 0, finite). flags: the grid's, to write to. Adds to the cluster and flip
 * fields of stats, and the change of the number of odd faces to *odd_change. */
typedef struct esi_parity_edges {
    const int64_t *edges;
    const float *costs;
    int64_t count;
} esi_parity_edges;
espalier_status esi_parity_solve(espalier_context *ctx, const esi_parity_grid *grid, uint8_t *flags, const esi_parity_edges *candidates,
                                 esi_repair_mode mode, esi_repair_stats *stats, int64_t *odd_change);

#endif
