/* SPDX-License-Identifier: MIT
 *
 * simplify.h: fewer faces by edge collapse with quadric error (Garland, Heckbert: Surface Simplification Using Quadric Error Metrics).
 */
#ifndef ESI_MESH_SIMPLIFY_H
#define ESI_MESH_SIMPLIFY_H

#include "mesh/topology.h"

typedef struct esi_simplify_options {
    int64_t target_faces;
    double max_error;              /* stop when the cheapest collapse would cost more; world units, INFINITY = never */
    bool keep_boundary;            /* collapses move boundary vertices only along the boundary, weighted by boundary_weight */
    /* Of planes through boundary edges, square to their faces, times edge length^2, where a face weighs its area; 0.4. (The often quoted
     * 1e3 goes with faces of weight 1 whatever their size.) */
    double boundary_weight;
    double min_component_faces;    /* a component is not collapsed below this many faces (4) */
} esi_simplify_options;
esi_simplify_options esi_simplify_options_default(int64_t target_faces);

typedef struct esi_simplify_stats {
    int64_t collapses, passes;
    int64_t vetoed_flip, vetoed_link;
    double last_error;             /* largest error accepted, world units */
    double last_threshold;         /* reference only */
    bool reached;                  /* faces <= target */
} esi_simplify_stats;

/* Ours: priority order (ties: lowest edge), quadrics of the present faces, optimal placement, link condition, boundary quadrics, no flips,
 * trimmed to the target: as few faces above it as legal collapses allow, and never below target - 1. Odd edges never come, components
 * never vanish; holes and tunnels stay too, each with at least three edges. In place; order of vertices and faces is kept. On failure the
 * mesh stays as it was. A mesh that has few enough faces already is not touched. */
espalier_status esi_mesh_simplify(espalier_context *ctx, esi_mesh *mesh, const esi_simplify_options *options, esi_simplify_stats *stats);

/* CuMesh simplify: passes of disjoint collapses with a rising threshold (start 1e-8, edge length weight 1e-2, skinny weight 1e-3). May
 * overshoot. On failure the mesh is a valid one on the way there. */
espalier_status esi_mesh_simplify_reference(espalier_context *ctx, esi_mesh *mesh, int64_t target_faces, esi_simplify_stats *stats);

/* Costs and places of the reference's collapses for sorted edges [n_edges][2], as its passes compute them: in single precision; +infinity =
 * a face would flip. */
espalier_status esi_qem_edge_costs(espalier_context *ctx, double *cost, double *target, const esi_mesh *mesh, const int32_t *edges,
                                   int64_t n_edges, double edge_length_weight, double skinny_weight);
/* The same in double precision (qem_costs.c). */
espalier_status esi_qem_exact_costs(espalier_context *ctx, double *cost, double *target, const esi_mesh *mesh, const int32_t *edges,
                                    int64_t n_edges, double edge_length_weight, double skinny_weight);

#endif
