/* SPDX-License-Identifier: MIT
 *
 * unwrap.h: texture coordinates for a mesh: charts, packing, vertices split along seams; and how good they are.
 */
#ifndef ESI_MESH_UNWRAP_H
#define ESI_MESH_UNWRAP_H

#include "mesh/charts.h"
#include "mesh/pack.h"

typedef struct esi_unwrap_options {
    uint32_t atlas_size;
    double padding;                /* texels */
    bool box;                      /* esi_charts_box() */
    esi_chart_options charts;
} esi_unwrap_options;
esi_unwrap_options esi_unwrap_options_default(uint32_t atlas_size);

/* Face i is face i of the mesh with the same corner order; positions by `source` are bit-exact copies, so welding restores the mesh. */
typedef struct esi_unwrapped {
    int64_t n_vertices;
    int32_t *source;               /* [n_vertices] vertex of the mesh; ascending (source, chart) */
    float *uvs;                    /* [n_vertices][2] */
    int32_t *faces;                /* [n_faces][3] */
    int32_t *face_chart;           /* [n_faces] */
    int32_t n_charts;
    int32_t charts_by_method[3];   /* esi_chart_method */
    esi_pack_stats pack;
} esi_unwrapped;
espalier_status esi_mesh_unwrap(espalier_context *ctx, esi_unwrapped *out, const esi_mesh *mesh, const esi_unwrap_options *options);
void esi_unwrapped_free(espalier_context *ctx, esi_unwrapped *unwrapped);

/* Quality of texture coordinates (spec: Sander et al., Texture Mapping Progressive Meshes, for stretch). */
typedef struct esi_uv_metrics {
    int32_t charts;                /* vertex-connected components in UV space */
    double area;                   /* sum of UV triangle areas / atlas area */
    double covered;                /* texels with a face over their centre / all, at atlas_size */
    int64_t overlapping_texels;    /* centres strictly inside two faces of different charts, or two faces of one chart */
    int64_t flipped_faces, zero_uv_faces;        /* negative; zero UV area though the face has area */
    double l2_stretch, linf_stretch;             /* 1 = isometric */
    double density_mean, density_cov, density_p5, density_p95;   /* texels per world unit, area-weighted */
    int64_t out_of_range;          /* vertices outside [0, 1] */
} esi_uv_metrics;
/* uvs [n_vertices][2] of `mesh`'s own vertices (split along seams already). */
espalier_status esi_uv_metrics_compute(espalier_context *ctx, esi_uv_metrics *out, const esi_mesh *mesh, const float *uvs,
                                       uint32_t atlas_size);

#endif
