/* SPDX-License-Identifier: MIT
 *
 * bvh_internal.h: the tree itself: nodes of four boxes side by side, so that one loop over lanes tests all of them, and the triangles in
 * leaf order with their corners, so that a leaf is one run of memory.
 */
#ifndef ESI_MESH_BVH_INTERNAL_H
#define ESI_MESH_BVH_INTERNAL_H

#include "mesh/bvh.h"
#include "mesh/vec.h"

#define BVH_WIDTH 4
#define BVH_LEAF 2                 /* triangles per leaf at most: they are measured in pairs */
#define BVH_DEPTH 80               /* nodes on a path at most: the builder halves blindly before that */
#define BVH_STACK (BVH_DEPTH * (BVH_WIDTH - 1) + BVH_WIDTH)

/* Lanes are filled from the front. Two cache lines. */
typedef struct bvh_node {
    float min[3][BVH_WIDTH], max[3][BVH_WIDTH];
    int32_t child[BVH_WIDTH];      /* a node, or the first triangle of a leaf */
    int32_t count[BVH_WIDTH];      /* 0 = node, 1 or 2 = triangles, -1 = no child */
} bvh_node;

typedef struct bvh_triangle {
    float corner[3][3];
    int32_t face;                  /* ~face where the corners are on one line */
} bvh_triangle;

struct esi_bvh {
    bvh_node *nodes;               /* the root is the first */
    bvh_triangle *triangles;
    int64_t n_nodes, n_triangles;
    float reach;                   /* largest absolute coordinate: what rounding errors of distances are measured by */
};

/* Like esi_bvh_distance(), with a triangle (position in `triangles`, -1 = none) that may be near instead of a hint; *seed becomes the
 * nearest one unless the answer is INFINITY. */
float bvh_distance_from(const esi_bvh *bvh, const float p[3], float max_distance, int32_t *seed);

static inline int32_t bvh_face(const bvh_triangle *t) { return t->face < 0 ? ~t->face : t->face; }

#endif
