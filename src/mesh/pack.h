/* SPDX-License-Identifier: MIT
 *
 * pack.h: charts into one square atlas of exactly the size asked for.
 */
#ifndef ESI_MESH_PACK_H
#define ESI_MESH_PACK_H

#include "mesh/charts.h"

typedef struct esi_pack_options {
    uint32_t atlas_size;           /* texels per side, 16..16384 */
    double padding;                /* texels between charts and to the border, rounded up; 2, more where mip maps matter */
    bool rotate;                   /* turn charts to their smallest box and by quarter turns */
} esi_pack_options;

typedef struct esi_pack_stats {
    double texels_per_unit;        /* the same for all charts: equal density */
    double utilisation;            /* UV area / atlas area */
    int32_t enlarged_charts;       /* thinner than a texel: widened so that each covers at least one texel centre */
} esi_pack_stats;

/* Final UVs per corner in [0, 1]: corner_uv [n_faces][3][2], esi_alloc'ed. Scale as large as fits. stats may be NULL. */
espalier_status esi_charts_pack(espalier_context *ctx, float **corner_uv, const esi_charts *charts, const esi_mesh *mesh,
                                const esi_pack_options *options, esi_pack_stats *stats);

#endif
