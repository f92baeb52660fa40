/* SPDX-License-Identifier: MIT
 *
 * remesh.h: a closed surface around any triangle soup: dual contouring of the distance field in a narrow band (CuMesh
 * remesh_narrow_band_dc, as TRELLIS.2 to_glb calls it), and what we add: only the outer skin, back on the original surface.
 *
 * f(p) = distance to the input - band * cell; inside where f < 0. The result is the boundary of a solid on a grid, so every edge has an
 * even number of faces whatever the input looks like.
 */
#ifndef ESI_MESH_REMESH_H
#define ESI_MESH_REMESH_H

#include "mesh/bvh.h"

typedef struct esi_remesh_options {
    int32_t resolution;            /* cells per unit cube side, even, 16..2048 */
    double band;                   /* offset in cells, > 0; 1 */
    double scale;                  /* of the sampled cube; 0 = (resolution + 3 * band) / resolution, which never clips [-0.5, 0.5]^3, times
                                      the side of a larger mesh */
    float center[3];
    double project;                /* 0..1: share of the way back to the input; 0 in the reference */
    /* Ours, all off in the reference: */
    bool manifold;                 /* a vertex for each piece of surface in a cell: no edge with more than two faces */
    bool best_diagonal;            /* split quads by the smaller bend instead of always 0-2 */
    bool outer_only;               /* drop walls of cavities: face components of negative volume (implies manifold) */
    double keep_apart;             /* cells: opposite walls that projection would bring nearer than this, such as the two sides of an open
                                      sheet, stop that far from each other; 0 = never (implies manifold) */
    bool unproject_flips;          /* vertices with incident faces turned over by the projection go part of the way only */
    bool solid;                    /* one skin, whatever cannot be reached from outside is filled (implies outer_only; nested parts go) */
} esi_remesh_options;
esi_remesh_options esi_remesh_options_reference(int32_t resolution);
esi_remesh_options esi_remesh_options_clean(int32_t resolution);

typedef struct esi_remesh_stats {
    int64_t cells, quads, missing_quads;         /* cells looked at; missing_quads is 0 unless scale clips the object */
    int64_t shells;                              /* closed pieces, joined by vertices, before any was dropped */
    int64_t cavity_components, cavity_faces;     /* of negative volume */
    int64_t dropped_components, dropped_faces;
    int64_t holes_closed;                        /* solid: simple holes of the input with a rim below 64 cells */
    int64_t kept_apart;                          /* vertices that stopped before the input because of a wall behind it: of open sheets and
                                                    very thin parts; most of a solid's: a hole let the outside in, it is a shell */
    int64_t flipped_before, unprojected, flipped_after;  /* faces turned over by the projection (or left with 1e-4 of their area);
                                                            vertices held back for them */
} esi_remesh_stats;

/* `bvh` is over the input. *out: vertices ascending by cell (x, y, z). ERR_SOUNDNESS: nothing in the band. stats may be NULL. */
espalier_status esi_mesh_remesh(espalier_context *ctx, esi_mesh *out, const esi_bvh *bvh, const esi_mesh *input,
                                const esi_remesh_options *options, esi_remesh_stats *stats);

/* Cells that the reference keeps (centre within 0.87 cells of the offset surface); esi_remesh_stats.cells counts those nearer too, which
 * hold no surface. For comparing with its figures. */
espalier_status esi_remesh_active_cells(espalier_context *ctx, int64_t *count, const esi_bvh *bvh, const esi_remesh_options *options);

#endif
