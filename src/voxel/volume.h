/* SPDX-License-Identifier: MIT
 *
 * volume.h: attributes on sparse voxels, sampled anywhere (FlexGEMM grid_sample_3d).
 */
#ifndef ESI_VOXEL_VOLUME_H
#define ESI_VOXEL_VOLUME_H

#include "voxel/voxel_index.h"

/* Voxel i is centred at index + 0.5 in grid units; g = (position - aabb_min) / voxel size. */
typedef struct esi_volume {
    const int32_t *coords;         /* [count][4], batch 0 */
    const float *attrs;            /* [count][channels] */
    int64_t count;
    int32_t channels;              /* 1..16 */
    int32_t resolution;            /* cells per axis of [-0.5, 0.5]^3 */
    esi_voxel_index index;         /* private */
} esi_volume;
/* Keeps pointers to the arrays. ERR_INPUT naming the row when a coordinate occurs twice or lies outside the grid. */
espalier_status esi_volume_open(espalier_context *ctx, esi_volume *out, const int32_t *coords, const float *attrs, int64_t count,
                                int32_t channels, int32_t resolution);
void esi_volume_close(espalier_context *ctx, esi_volume *volume);

/* Trilinear, renormalised over the corners that exist; returns their number and leaves out = 0 when there is none. A constant volume gives
 * exactly the constant. g in grid units, any value (NaN: none). */
int esi_volume_trilinear(const esi_volume *volume, const float g[3], float *out);
/* Value of the cell that holds g (truncated toward zero, as the reference), 0 if absent; returns whether it is there. */
bool esi_volume_nearest(const esi_volume *volume, const float g[3], float *out);
/* Closest voxel centre within `cells` of g (ties: lowest row), or -1. */
int32_t esi_volume_closest(const esi_volume *volume, const float g[3], double cells);

#endif
