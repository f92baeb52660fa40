/* SPDX-License-Identifier: MIT
 *
 * topology.h: who is next to whom in a triangle mesh. Definitions that every mesh function shares (indices only; weld by position first
 * where that matters):
 *
 *   corner    3 * face + k; its face side goes from that corner's vertex to the next one
 *   edge      unordered pair of different vertices; count = face sides on it
 *   boundary  count 1        odd       count odd (the mod-2 boundary)
 *   manifold  count 2        non-manifold  count > 2
 *   face component    faces joined over manifold edges
 *   vertex component  faces joined over shared vertices
 */
#ifndef ESI_MESH_TOPOLOGY_H
#define ESI_MESH_TOPOLOGY_H

#include "base/surface.h"

typedef struct esi_edge {
    int32_t a, b;                  /* a < b */
    int32_t count;
    int32_t first;                 /* its corners: corners[first .. first + count), ascending */
} esi_edge;

/* Edges sorted by (a, b). A side from a vertex to itself is no edge. */
typedef struct esi_edges {
    esi_edge *edges;
    int64_t count;
    int32_t *corners;
} esi_edges;
espalier_status esi_edges_build(espalier_context *ctx, esi_edges *out, const esi_mesh *mesh);
void esi_edges_free(espalier_context *ctx, esi_edges *edges);       /* zeroed is fine; the same below */

/* Corners around each vertex, ascending: corners[start[v] .. start[v + 1]). */
typedef struct esi_vertex_corners {
    int32_t *start;                /* [n_vertices + 1] */
    int32_t *corners;              /* [3 * n_faces] */
} esi_vertex_corners;
espalier_status esi_vertex_corners_build(espalier_context *ctx, esi_vertex_corners *out, const esi_mesh *mesh);
void esi_vertex_corners_free(espalier_context *ctx, esi_vertex_corners *around);

/* Across each side: the corner whose side is the other one of a manifold edge, -1 for a boundary edge, -2 for a non-manifold edge or
 * no edge. [3 * n_faces], esi_alloc'ed. */
espalier_status esi_opposite_corners(espalier_context *ctx, int32_t **out, const esi_mesh *mesh);

/* Components: component[face] = 0 .. *n - 1, numbered by their lowest face. esi_alloc'ed. */
espalier_status esi_face_components(espalier_context *ctx, int32_t **component, int32_t *n, const esi_mesh *mesh);
espalier_status esi_vertex_components(espalier_context *ctx, int32_t **component, int32_t *n, const esi_mesh *mesh);

/* Union-find on numbers with path halving; the lowest number of a set is its root. */
static inline int32_t esi_union_root(int32_t *parent, int32_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}
static inline void esi_union_join(int32_t *parent, int32_t i, int32_t j)
{
    i = esi_union_root(parent, i);
    j = esi_union_root(parent, j);
    if (i < j) parent[j] = i;
    if (j < i) parent[i] = j;
}

/* Corner after c in its face, and before it. */
static inline int32_t esi_next_corner(int32_t c) { return c % 3 == 2 ? c - 2 : c + 1; }
static inline int32_t esi_previous_corner(int32_t c) { return c % 3 == 0 ? c + 2 : c - 1; }

#endif
