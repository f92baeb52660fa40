/* SPDX-License-Identifier: MIT
 *
 * voxel.h: sets of voxel coordinates, how one scale descends from another (lineage), neighbour tables, and the flexible dual grid.
 * Host side only; knows no network. Spec: TRELLIS.2 sparse tensors and O-Voxel (o_voxel/convert/flexible_dual_grid.py).
 *
 * A coordinate row is four int32: batch, x, y, z, all >= 0; x, y, z < 2^17 and batch < 2^13, so that a row packs into one 64-bit key
 * whose order is the lexicographic one (keys.h). Rows are numbered by int32: more than 2^31 - 1 are ERR_RESOURCE; a coordinate out of
 * range is ERR_INTERNAL (files are checked where they are read). Row order is data: it is kept by everything except the functions that
 * say "sorted".
 */
#ifndef ESI_VOXEL_H
#define ESI_VOXEL_H

#include "base/base.h"

typedef struct esi_coords {
    int32_t *rows; /* [count][4] batch, x, y, z; esi_alloc */
    int64_t count;
} esi_coords;

espalier_status esi_coords_new(espalier_context *ctx, esi_coords *out, int64_t count);
espalier_status esi_coords_copy(espalier_context *ctx, esi_coords *out, const int32_t *rows, int64_t count);
void esi_coords_free(espalier_context *ctx, esi_coords *c);

/* Cells with logit > 0 of a dense volume [R, R, R] (x slowest, batch 0), reduced to `target` cells per axis by "any of (R/target)^3";
 * sorted ascending (x, y, z). ERR_INTERNAL unless target divides R. An empty result is not an error here. */
espalier_status esi_coords_from_occupancy(espalier_context *ctx, esi_coords *out, const float *logits, int64_t R, int64_t target);

/* Distinct rows, sorted ascending (batch, x, y, z). */
espalier_status esi_coords_sort_unique(espalier_context *ctx, esi_coords *out, const int32_t *rows, int64_t count);

/* Cascade (TRELLIS.2 Trellis2ImageTo3DPipeline.sample_shape_slat_cascade): quantise coordinates on a grid of `low` cells (512) to target/16
 * cells; step the target down by low/4 (128) until the number of distinct tokens is < max_tokens or the target is 2*low (1024). q = ((2c +
 * 1) * (hr / 16)) / (2 * low), exact in integers. */
espalier_status esi_cascade_coords(espalier_context *ctx, esi_coords *out, int64_t *resolution, const esi_coords *fine, int64_t low,
                                   int64_t target, int64_t max_tokens);

/* table[n*27 + 9*i + 3*j + l] = row at (x+i-1, y+j-1, z+l-1) of the same batch, or -1. ERR_INTERNAL when a coordinate occurs twice.
 * esi_alloc'ed. Parallel; the result does not depend on threads. */
espalier_status esi_neighbor_table(espalier_context *ctx, int32_t **table, const int32_t *rows, int64_t count);

/* 27-tap table of a dense R^3 volume with zero padding, rows n = (x*R + y)*R + z. */
espalier_status esi_dense_neighbor_table(espalier_context *ctx, int32_t **table, int64_t R);

/* Channel-to-spatial bookkeeping: children of each row where logits[row*8 + k] > 0, k = (x&1) + 2(y&1) + 4(z&1), parents in order, k
 * ascending. index[i] = parent * 8 + k. */
espalier_status esi_subdivide(espalier_context *ctx, esi_coords *children, int32_t **index, const esi_coords *parents, const float *logits);

/* All coordinate sets of one object, coarse to fine, with what the decoders decided on the way. Feeds the guided texture decoder, the
 * dumps and the margin-aware repair. */
#define ESI_MAX_LEVELS 8
typedef struct esi_lineage_level {
    esi_coords coords;
    int32_t *index;            /* level > 0: parent * 8 + child slot of each row; NULL at level 0 */
    float *subdivision_logits; /* [count][8] on these rows, NULL on the finest level */
} esi_lineage_level;
typedef struct esi_lineage {
    int levels; /* 1 + number of up blocks */
    esi_lineage_level level[ESI_MAX_LEVELS];
} esi_lineage;
void esi_lineage_free(espalier_context *ctx, esi_lineage *l);

/* Flexible dual grid -> quads -> triangles (o_voxel/convert/flexible_dual_grid.py). Every voxel row gives a vertex, used or not:
 *   vertex = (coord + local) * voxel_size + origin, fp32 in this order; voxel_size = (max - min) / grid.
 * local [count][3], intersected [count][3] (0/1), split_weight [count] or NULL. faces: esi_alloc'ed [*n_faces][3]. A coordinate outside
 * the grid is an error. */
typedef struct esi_dual_grid {
    const int32_t *coords; /* [count][4] */
    int64_t count;
    const float *local;
    const uint8_t *intersected;
    const float *split_weight;
    float aabb_min[3], aabb_max[3];
    int32_t grid[3];
} esi_dual_grid;
espalier_status esi_dual_grid_to_mesh(espalier_context *ctx, const esi_dual_grid *g, float **vertices, int32_t **faces, int64_t *n_faces);

/* How many values lie near the decision threshold zero. */
typedef struct esi_decision_stats {
    uint64_t count, yes;                         /* decisions, and those > 0 */
    uint64_t within_1e4, within_1e3, within_1e2; /* |v| <= 1e-4, 1e-3, 1e-2 */
    double min_abs;
} esi_decision_stats;
void esi_decision_stats_add(esi_decision_stats *s, const float *values, int64_t count);

#endif
