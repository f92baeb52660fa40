/* SPDX-License-Identifier: MIT
 *
 * nesting.h: which closed components lie inside others.
 */
#ifndef ESI_MESH_NESTING_H
#define ESI_MESH_NESTING_H

#include "mesh/topology.h"

/* nested[c] = 1: c is closed and lies inside an odd number of other closed components. [n], esi_alloc'ed. */
espalier_status esi_nested_components(espalier_context *ctx, uint8_t **nested, const esi_mesh *mesh, const int32_t *component, int32_t n,
                                      const bool *closed);

#endif
