/* SPDX-License-Identifier: MIT
 *
 * metrics.h: how sound a mesh is, in numbers.
 */
#ifndef ESI_MESH_METRICS_H
#define ESI_MESH_METRICS_H

#include "mesh/topology.h"

typedef struct esi_mesh_metrics {
    int64_t vertices, used_vertices, faces, edges;
    int64_t boundary_edges, odd_edges, nonmanifold_edges;        /* count 1; odd; > 2 */
    int64_t face_components, vertex_components;
    int64_t largest_component_faces;                             /* of face components */
    int64_t edge_components, largest_edge_component_faces;       /* faces joined over edges of any count */
    int64_t closed_components;                                   /* face components with an even number of faces on each of their edges */
    int64_t euler;                                               /* used vertices - edges + faces */
    /* Sum over face components: components - euler / 2, where a bow-tie counts as one vertex per fan; NaN unless closed and manifold. */
    double genus;
    bool watertight, manifold;                                   /* no odd edge; no count > 2 */
    int64_t manifold_edges, winding_conflicts;                   /* manifold edges that both faces run through in the same direction */
    double area, volume;                                         /* signed volume by the divergence theorem about the origin */
    int64_t negative_components;                                 /* closed face components of negative volume: cavities, or inside-out */
    int64_t zero_area_faces, duplicate_faces;                    /* area == 0 in double; same vertex set as an earlier face */
    int64_t boundary_loops, boundary_chains;                     /* components of boundary edges as in fill_holes that are loops; others */
    int64_t loops_below_limit;                                   /* loops with a perimeter below `limit` */
    double longest_loop;
    float min[3], max[3];
} esi_mesh_metrics;

/* Of the mesh as it is; weld first to measure by position. */
espalier_status esi_mesh_metrics_compute(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, double loop_limit);

/* Loops of boundary edges (definitions in fill_holes), by component: perimeters, esi_alloc'ed; is_loop[i]. For tests and reports. */
espalier_status esi_boundary_components(espalier_context *ctx, double **perimeters, bool **is_loop, int64_t *count, const esi_mesh *mesh);

/* Signed volume of each face component: [n] double, esi_alloc'ed, and closed[n] (every edge has an even number
 * of its faces). component as from esi_face_components(). */
espalier_status esi_component_volumes(espalier_context *ctx, double **volumes, bool **closed, const esi_mesh *mesh,
                                      const int32_t *component, int32_t n);

#endif
