/* SPDX-License-Identifier: MIT
 *
 * compare.h: distances between two meshes, and self-intersections of one.
 */
#ifndef ESI_MESH_COMPARE_H
#define ESI_MESH_COMPARE_H

#include "mesh/bvh.h"

typedef struct esi_mesh_distance {
    double mean_ab, max_ab, rms_ab;              /* from a to b: samples uniform by area, plus all vertices (max only) */
    double mean_ba, max_ba, rms_ba;
    double hausdorff, chamfer;                   /* larger max; sum of the means */
    int64_t samples;                             /* per direction */
} esi_mesh_distance;
/* Exact point-to-mesh distances of `samples` area-weighted points (low-discrepancy sequence, the same every time) and all vertices. */
espalier_status esi_mesh_compare(espalier_context *ctx, esi_mesh_distance *out, const esi_mesh *a, const esi_mesh *b, int64_t samples);

/* Pairs of faces without a common vertex (by position) that meet, and faces with one common vertex or edge that meet elsewhere; exact
 * orientation predicates (Shewchuk's adaptive expansions). *faces: those that take part. */
espalier_status esi_mesh_self_intersections(espalier_context *ctx, int64_t *pairs, int64_t *faces, const esi_mesh *mesh);

#endif
