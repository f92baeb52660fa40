/* SPDX-License-Identifier: MIT
 *
 * repair.h: mending knife-edge decisions of the dual grid while their logits are still known (docs/geometry.md).
 *
 * A mesh edge between two face-adjacent voxels is shared by one quad per valid flagged grid edge of their common face, so the raw surface
 * is closed exactly where every voxel face has an even number of them.
 */
#ifndef ESI_VOXEL_REPAIR_H
#define ESI_VOXEL_REPAIR_H

#include "voxel/voxel.h"

typedef enum esi_repair_mode { ESI_REPAIR_REDUCE, ESI_REPAIR_CLOSE } esi_repair_mode;

typedef struct esi_repair_stats {
    int64_t edges;                 /* grid edges whose four voxels exist */
    /* those with |logit| < margin; their groups; touching an odd face; > 14 edges */
    int64_t candidates, clusters, clusters_odd, clusters_large;
    int64_t flips, flips_on, flips_off;
    int64_t odd_faces_before, odd_faces_after;
} esi_repair_stats;

/* Flag parity repair: flags [count][3] = logit > 0, then within the margin (0 = none) the cheapest flips that make faces even. Edges
 * without four voxels are no candidates, and their flags count nowhere. */
espalier_status esi_dual_grid_repair_flags(espalier_context *ctx, uint8_t *flags, const int32_t *coords, int64_t count, const float *logits,
                                           double margin, esi_repair_mode mode, esi_repair_stats *stats);

/* Geometric resurrection of missing voxels: an absent voxel gets a row if it alone is missing for >= 3 flagged edges, or if with it, and
 * the right flags of its own, no face around is odd that was (of several that would do, the one whose neighbours' vertices fit its cell).
 * Its vertex is the mean of the vertices of its quads. Every pass sees what the one before added; `passes` at most. Added rows ascend
 * within a pass. */
typedef struct esi_restored_voxels {
    int32_t *coords;               /* [count][4] */
    float *local;                  /* [count][3] */
    uint8_t *intersected;          /* [count][3] */
    int64_t count;
    int passes;                    /* that added something */
} esi_restored_voxels;
espalier_status esi_dual_grid_restore_voxels(espalier_context *ctx, esi_restored_voxels *out, const esi_dual_grid *grid, int passes);
void esi_restored_voxels_free(espalier_context *ctx, esi_restored_voxels *voxels);          /* zeroed is fine */

#endif
