/* SPDX-License-Identifier: MIT
 *
 * sides.h: all face sides of a mesh sorted by edge: what edge lists, opposite corners, components and metrics are read from. 24 bytes per
 * face, 36 while it is built.
 */
#ifndef ESI_MESH_SIDES_H
#define ESI_MESH_SIDES_H

#include "mesh/partition.h"
#include "mesh/topology.h"

/* Bit 63: first side of its edge; bits 32..62: the edge's higher vertex; bits 0..31: the corner where the side begins. */
typedef uint64_t esi_side;
#define ESI_SIDE_FIRST (UINT64_C(1) << 63)

/* Sorted by lower vertex, higher vertex, corner. Zero-initialise. */
typedef struct esi_sides {
    esi_side *sides;
    int64_t count;                 /* sides from a vertex to itself are left out */
    int64_t n_edges;
    int64_t *start;                /* [n_buckets + 1] into sides: tasks of parallel loops; an edge lies in one bucket */
    int64_t *first_edge;           /* [n_buckets + 1] edges before each bucket */
    uint32_t n_buckets;
} esi_sides;
/* ERR_INTERNAL when a face names a vertex that does not exist. */
espalier_status esi_sides_build(espalier_context *ctx, esi_sides *out, const esi_mesh *mesh);
void esi_sides_free(espalier_context *ctx, esi_sides *sides);

static inline int32_t esi_side_corner(esi_side s) { return (int32_t)(uint32_t)s; }

/* Where the edge whose first side is i ends. */
static inline int64_t esi_edge_end(const esi_sides *s, int64_t i, int64_t end)
{
    do i++;
    while (i < end && !(s->sides[i] & ESI_SIDE_FIRST));
    return i;
}

/* esi_opposite_corners() from sorted sides. */
espalier_status esi_sides_opposite(espalier_context *ctx, int32_t **out, const esi_sides *sides, int64_t n_faces);

/* parent[f] = a lower face of the same component, or f: faces joined over manifold edges (or over all edges). esi_alloc'ed. */
espalier_status esi_sides_join_faces(espalier_context *ctx, int32_t **parent, const esi_sides *sides, int64_t n_faces, bool all_edges);
/* In place: parents -> component numbers, ascending by their lowest member. */
espalier_status esi_label_components(espalier_context *ctx, int32_t *parent, int64_t n, int32_t *n_components);

/* esi_component_volumes() from sorted sides. */
espalier_status esi_sides_volumes(espalier_context *ctx, double **volumes, bool **closed, const esi_mesh *mesh, const esi_sides *sides,
                                  const int32_t *component, int32_t n);

#endif
