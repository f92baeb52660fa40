/* SPDX-License-Identifier: MIT
 *
 * boundary.h: boundary edges of a mesh and what they form: simple loops, and everything else (chains, bow-ties).
 */
#ifndef ESI_MESH_BOUNDARY_H
#define ESI_MESH_BOUNDARY_H

#include "mesh/sides.h"

/* Zero-initialise. Two boundary edges belong together where they meet in a vertex that touches no third boundary edge and no edge of more
 * than two faces. Such a component is a loop if at both ends of each of its edges another edge of it goes on. */
typedef struct esi_boundary {
    int64_t n_edges;
    int32_t *corner;               /* [n_edges] the side that is alone, by ascending edge */
    int32_t *component;            /* [n_edges] numbered by their lowest edge */
    int32_t n_components;
    double *perimeter;             /* [n_components] */
    bool *is_loop;                 /* [n_components] */
} esi_boundary;
espalier_status esi_boundary_build(espalier_context *ctx, esi_boundary *out, const esi_mesh *mesh, const esi_sides *sides);
void esi_boundary_free(espalier_context *ctx, esi_boundary *boundary);

#endif
