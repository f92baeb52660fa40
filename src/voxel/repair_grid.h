/* SPDX-License-Identifier: MIT
 *
 * repair_grid.h: a dual grid that voxels are added to; shared by repair_voxels.c and hole_fit.c.
 */
#ifndef ESI_VOXEL_REPAIR_GRID_H
#define ESI_VOXEL_REPAIR_GRID_H

#include "voxel/repair.h"
#include "voxel/voxel_index.h"

/* The grid as it grows. Before anything is added coords and flags are the caller's. */
typedef struct esi_growing_grid {
    const esi_dual_grid *grid;
    const int32_t *coords;
    const uint8_t *flags;
    int32_t *own_coords;           /* all rows, once something was added */
    uint8_t *own_flags;
    float *added_local;            /* of rows from grid->count on */
    int64_t count;
    esi_voxel_index index;
} esi_growing_grid;

/* The other voxels around edge `axis`, as offsets from its owner. */
static const int8_t esi_quad_corner[3][3][3] = {
    {{0, 0, 1}, {0, 1, 0}, {0, 1, 1}},
    {{0, 0, 1}, {1, 0, 0}, {1, 0, 1}},
    {{0, 1, 0}, {1, 0, 0}, {1, 1, 0}},
};

static inline const float *esi_growing_local(const esi_growing_grid *g, int64_t row)
{
    return row < g->grid->count ? g->grid->local + 3 * row : g->added_local + 3 * (row - g->grid->count);
}

#define ESI_NO_FIT 0.5             /* cells that the vertex of a restored voxel may lie outside its cell, as the decoder's may */
/* An absent voxel beside odd faces: if none of them is odd once it is there with the right flags of its own, how far the mean of its
 * neighbours' vertices lies outside its cell; else ESI_NO_FIT. */
double esi_hole_fit(const esi_growing_grid *g, uint64_t key);

#endif
