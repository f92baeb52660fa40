/* SPDX-License-Identifier: MIT
 *
 * asset.h: a raw generated object as plain arrays: what GLB and dumps are written from and read into. Knows neither networks nor voxel
 * code; the pipeline fills it.
 *
 * Space: the cube [-0.5, 0.5]^3 in TRELLIS axes (z up); voxel (x, y, z) is centred at -0.5 + (i + 0.5) / resolution. In a raw mesh vertex
 * i belongs to voxel row i, so n_vertices == n_voxels; files of other tools need not keep that. Colours are sRGB-encoded, as the networks
 * give them.
 */
#ifndef ESI_ASSET_H
#define ESI_ASSET_H

#include "base/base.h"

#define ESI_ASSET_MAX_LEVELS 8
#define ESI_ASSET_MAX_RESOLUTION 131072          /* 2^17: the range of voxel coordinates */
#define ESI_ASSET_MAX_BATCH 8192

/* A coarser scale: its cells and the eight decisions that each of them took. */
typedef struct esi_asset_level {
    const int32_t *coords;                       /* [count][4] batch, x, y, z */
    const float *logits;                         /* [count][8]; child k = (x&1) + 2(y&1) + 4(z&1) exists where > 0 */
    int64_t count;
} esi_asset_level;

/* Zero-initialise; NULL = absent. Owns nothing. */
typedef struct esi_asset {
    int64_t n_vertices, n_faces, n_voxels;
    const float *vertices;                       /* [n_vertices][3] */
    const int32_t *faces;                        /* [n_faces][3] */
    const int32_t *coords;                       /* [n_voxels][4] batch, x, y, z */
    const float *attrs;                          /* [n_voxels][6] base colour RGB, metallic, roughness, alpha; not clamped */
    const float *local;                          /* [n_voxels][3] dual vertex relative to its cell, in cells */
    const float *intersect_logits;               /* [n_voxels][3] quad on axis a exists where > 0 */
    const float *split_weight;                   /* [n_voxels] */
    int32_t n_levels;                            /* scales above the voxels, coarse to fine: the lineage without its finest set */
    esi_asset_level levels[ESI_ASSET_MAX_LEVELS];
    int64_t resolution;                          /* voxels per axis */
    int64_t seed;
    const char *pipeline_type;                   /* "1024_cascade", ... */
    const char *generator;                       /* "espalier 0.1.0"; NULL = this library */
    const char *const *extras;                   /* key, value, ..., NULL: further facts; NULL = none */
} esi_asset;

/* Are the numbers what the fields promise: counts that int32 can index, faces inside the vertices, coordinates inside the grid, everything
 * finite? `status` is the class of the failure (ERR_INPUT for files, ERR_INTERNAL for our own results, where numbers that are not finite
 * are ERR_SOUNDNESS), `name` begins the message. */
espalier_status esi_asset_check(espalier_context *ctx, const esi_asset *asset, const char *name, espalier_status status);

/* "espalier <version>" or the asset's own. */
const char *esi_asset_generator(const esi_asset *asset);

#endif
