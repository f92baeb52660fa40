/* SPDX-License-Identifier: MIT
 *
 * clean.h: repairs of a triangle mesh, in place. The reference operations follow CuMesh (JeffreyXiang/CuMesh, src) as TRELLIS.2 uses it,
 * with deterministic orders where its GPU code has none; the better ones say so. Faces keep their order, vertices too; unreferenced
 * vertices are dropped. Counts go to pointers that may be NULL.
 */
#ifndef ESI_MESH_CLEAN_H
#define ESI_MESH_CLEAN_H

#include "mesh/topology.h"

/* Anything -> what every other function expects: faces with an index out of range, a repeated index or a vertex that is not finite go,
 * then unreferenced vertices. */
typedef struct esi_sanitize_stats {
    int64_t bad_index, repeated_index, not_finite;       /* faces removed, by the first reason that holds in this order */
    int64_t unused_vertices;
} esi_sanitize_stats;
espalier_status esi_mesh_sanitize(espalier_context *ctx, esi_mesh *mesh, esi_sanitize_stats *stats);

/* Drop unreferenced vertices. map: old -> new number or -1, esi_alloc'ed; may be NULL. */
espalier_status esi_mesh_compact(espalier_context *ctx, esi_mesh *mesh, int32_t **map);

/* One vertex for all with equal float bits (-0 = +0), the lowest number stays. Faces that lose a corner by it go. map as above: old ->
 * new. */
espalier_status esi_mesh_weld(espalier_context *ctx, esi_mesh *mesh, int64_t *merged, int32_t **map);

/* Faces with the same three vertices, any winding: the first stays (CuMesh remove_duplicate_faces). keep_parity: where their number is
 * even, none stays, so that the mod-2 boundary does not change. */
espalier_status esi_mesh_remove_duplicate_faces(espalier_context *ctx, esi_mesh *mesh, bool keep_parity, int64_t *removed);

/* CuMesh remove_degenerate_faces: repeated index or area < min(relative * longest side^2, absolute); opens edges. 1e-12, 1e-24. */
espalier_status esi_mesh_remove_degenerate_faces(espalier_context *ctx, esi_mesh *mesh, double relative, double absolute,
                                                 int64_t *removed);
/* Ours: no face has zero area afterwards (area <= 1e-12 * longest side^2, as above but relative only) and no odd edge has come:
 * coincident vertices of a face merge; a needle's longest edge is flipped if that is legal, else its shortest edge collapses. *left:
 * faces that no legal step removes. */
espalier_status esi_mesh_restitch_degenerate_faces(espalier_context *ctx, esi_mesh *mesh, int64_t *changed, int64_t *left);

/* CuMesh repair_non_manifold_edges: corners are united over manifold edges only, each class becomes a vertex (numbered by its smallest
 * corner). Opens index-space boundaries at non-manifold edges. */
espalier_status esi_mesh_repair_nonmanifold_edges(espalier_context *ctx, esi_mesh *mesh, int64_t *vertices_added);
/* Ours: every edge gets at most two faces without opening one, where that is possible: the faces of an edge of even count are paired
 * by angle around it (a face with the one it encloses material with), vertices and bow-ties are split accordingly, so that positions
 * and the mod-2 boundary by position stay. Where both ends of such an edge need one vertex for several pairs, the edge is cut in its
 * middle for all pairs but one: new vertices and faces come last. */
espalier_status esi_mesh_split_nonmanifold(espalier_context *ctx, esi_mesh *mesh, int64_t *vertices_added);

/* Face components with an area below min_area go (1e-5 world units^2 in TRELLIS.2). keep_largest: never the largest one. */
espalier_status esi_mesh_remove_small_components(espalier_context *ctx, esi_mesh *mesh, double min_area, bool keep_largest,
                                                 int64_t *removed_components, int64_t *removed_faces);
/* Vertex components with fewer than ratio * faces of the largest go (0.005 in ComfyUI-Trellis2). */
espalier_status esi_mesh_remove_floaters(espalier_context *ctx, esi_mesh *mesh, double ratio, int64_t *removed_components,
                                         int64_t *removed_faces);

/* CuMesh fill_holes: loops of boundary edges with a perimeter below the limit get a fan around the mean of their edges' middles. */
typedef struct esi_fill_options {
    double max_perimeter;          /* strict; world units */
    int passes;                    /* 1 = the reference; more: until nothing changes, at most this many */
} esi_fill_options;
typedef struct esi_fill_stats {
    int64_t loops, filled, faces_added;          /* loops: filled ones and those that are left */
    int64_t boundary_edges_left;
    int passes;
} esi_fill_stats;
/* Fan triangles run against their neighbour (the reference leaves their winding to chance). */
espalier_status esi_mesh_fill_holes(espalier_context *ctx, esi_mesh *mesh, const esi_fill_options *options, esi_fill_stats *stats);

/* CuMesh unify_face_orientations: within a face component, faces follow the winding of its lowest face. *conflicts: manifold edges that
 * cannot (Moebius). */
espalier_status esi_mesh_unify_orientation(espalier_context *ctx, esi_mesh *mesh, int64_t *flipped, int64_t *conflicts);
/* Ours, after unify: closed components get positive volume if they are nested an even number of times in other closed ones, negative
 * otherwise. An open component is turned if more than 60 % of its area face its centre of area. */
espalier_status esi_mesh_orient_outward(espalier_context *ctx, esi_mesh *mesh, int64_t *flipped_components);

/* Sum of the faces' cross products in double, ascending; where that is zero the first face's; else (0, 0, 1). [n_vertices][3] unit,
 * esi_alloc'ed. Parallel. */
espalier_status esi_mesh_vertex_normals(espalier_context *ctx, float **normals, const esi_mesh *mesh);

#endif
