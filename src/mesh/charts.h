/* SPDX-License-Identifier: MIT
 *
 * charts.h: cutting a mesh into charts and laying each of them flat.
 */
#ifndef ESI_MESH_CHARTS_H
#define ESI_MESH_CHARTS_H

#include "mesh/topology.h"

typedef enum esi_chart_method {
    ESI_CHART_PLANE,               /* orthogonal projection */
    ESI_CHART_CONFORMAL,           /* least-squares conformal or better */
    ESI_CHART_FALLBACK             /* single faces or planar pieces that nothing else could lay flat */
} esi_chart_method;

/* Every face is in exactly one chart. */
typedef struct esi_charts {
    int32_t n_charts;
    int32_t *face_chart;           /* [n_faces] 0 .. n_charts - 1, numbered by their lowest face */
    float *corner_uv;              /* [n_faces][3][2]: each chart in a frame of its own, in world units, scaled so that its area equals that
                                      of its faces in space; positive orientation; faces of a chart that share a vertex over its inner
                                      edges share the corner's uv */
    uint8_t *method;               /* [n_charts] esi_chart_method */
    int64_t split_charts;          /* charts that had to be cut again because they flipped or overlapped */
    int64_t work;                  /* steps spent on laying charts flat: faces, unknowns and matrix entries visited */
} esi_charts;

typedef struct esi_chart_options {
    double max_stretch;            /* L2 stretch of a chart above which it is cut again */
    double max_cone;               /* radians: how far a face's normal may turn from its chart's axis while growing */
    int64_t work_per_face;         /* bound on the work spent, in steps per face: beyond it remaining charts get projected pieces */
} esi_chart_options;
esi_chart_options esi_chart_options_default(void);

/* Ours. No chart has a flipped or overlapping face; faces of zero area get degenerate triangles of their own shape. */
espalier_status esi_charts_create(espalier_context *ctx, esi_charts *out, const esi_mesh *mesh, const esi_chart_options *options);
/* Six directions, connected pieces, orthogonal projection, split where it would overlap: fast and always works (trellis.cpp --box-uv). */
espalier_status esi_charts_box(espalier_context *ctx, esi_charts *out, const esi_mesh *mesh);
void esi_charts_free(espalier_context *ctx, esi_charts *charts);

/* CuMesh compute_charts: clusters by normal cones (threshold pi/2, area weight 0.1, perimeter/area weight 1e-4, no refinement). *cluster:
 * [n_faces], esi_alloc'ed. */
espalier_status esi_cluster_faces(espalier_context *ctx, int32_t **cluster, int32_t *n_clusters, int *rounds, const esi_mesh *mesh);

#endif
