/* SPDX-License-Identifier: MIT
 *
 * remesh_internal.h: what the parts of the remesher hand to each other. Cells and corners of the grid are kept only near the surface, as
 * columns along z: two bytes each, in lexicographic order, found by walking neighbouring columns side by side.
 */
#ifndef ESI_MESH_REMESH_INTERNAL_H
#define ESI_MESH_REMESH_INTERNAL_H

#include "mesh/bvh_internal.h"
#include "mesh/remesh.h"

/* A set of lattice points (x, y, z), each coordinate in [0, side): z[start[x * side + y] .. start[x * side + y + 1]) ascending. */
typedef struct remesh_columns {
    int32_t side;
    int64_t count;
    int64_t *start;
    uint16_t *z;
} remesh_columns;

typedef struct remesh_grid {
    int32_t resolution;
    float scale, center[3], epsilon;
    float cell;                    /* scale / resolution */
    float reach;                   /* 0.87 cells: half a cell's diagonal and a bit */
} remesh_grid;

typedef struct remesh_band {
    remesh_grid grid;
    remesh_columns cells;          /* f(centre) < reach: all that the surface f = 0 can touch, and what is inside of it */
    remesh_columns corners;        /* of those cells */
    float *f;                      /* at the corners */
} remesh_band;

/* remesh_band.c */
espalier_status remesh_band_make(espalier_context *ctx, remesh_band *out, const esi_bvh *bvh, const remesh_grid *grid);
void remesh_band_free(espalier_context *ctx, remesh_band *band);
/* Cells of the band whose centre is also not too near to the surface: what the reference keeps. */
espalier_status remesh_band_active(espalier_context *ctx, int64_t *count, const esi_bvh *bvh, const remesh_band *band);

/* Corner numbers 0..7 = 4 x + 2 y + z. Edges 0..11: along x 0..3, along y 4..7, along z 8..11, by the other two coordinates. */
extern const uint8_t remesh_edge_corners[12][2];

/* Vertices and quads, not yet triangles. */
typedef struct remesh_quads {
    float *vertices;               /* [n_vertices][3] */
    int64_t n_vertices;
    int32_t (*quads)[4];           /* vertices in the order of the four cells */
    uint8_t *flags;                /* [n_quads] QUAD_... */
    int64_t n_quads;
    int64_t missing;               /* quads without one of their cells; not in the array */
    uint16_t (*cell)[3];           /* [n_vertices]; NULL unless asked for */
    uint8_t *outside;              /* [n_vertices] a corner of the cell with f >= 0 that the vertex's piece of surface parts from the
                                      inside; NULL unless asked for */
} remesh_quads;

#define QUAD_REVERSED 1u           /* outward is 0, 3, 2, 1 */
#define QUAD_DIAGONAL_13 2u        /* cut from 1 to 3 instead of 0 to 2 */

/* remesh_dual.c. manifold: a vertex for each piece of surface in a cell, so that no edge gets more than two faces; with `cell` and
 * `outside`. */
espalier_status remesh_dual(espalier_context *ctx, remesh_quads *out, const remesh_band *band, bool manifold);
void remesh_quads_free(espalier_context *ctx, remesh_quads *quads);

/* remesh_shells.c: drops what the options say; `band` for solid. */
espalier_status remesh_drop_shells(espalier_context *ctx, remesh_quads *quads, const remesh_band *band, bool outer_only, bool solid,
                                   esi_remesh_stats *stats);

/* remesh_project.c: vertices towards the input; targets[n_vertices][3] esi_alloc'ed. keep_apart: walls that would come closer to each other
 * than so many world units stop before. */
espalier_status remesh_targets(espalier_context *ctx, float **targets, const remesh_quads *quads, const remesh_grid *grid,
                               const esi_bvh *bvh, double share, double keep_apart, int64_t *kept_apart);
/* Moves the mesh's vertices to their targets; unproject: only so far that no face turns over. */
espalier_status remesh_move(espalier_context *ctx, esi_mesh *mesh, const float *targets, bool unproject, esi_remesh_stats *stats);

/* remesh_triangles.c. best_diagonal by the positions `at` (NULL = the vertices); takes the vertices over. */
espalier_status remesh_triangles(espalier_context *ctx, esi_mesh *out, remesh_quads *quads, bool best_diagonal, const float *at);

#define REMESH_BLOCK 65536         /* vertices or faces per task */

#endif
