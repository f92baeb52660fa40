/* SPDX-License-Identifier: MIT
 *
 * parity_lattice.h: small steps on the lattice of voxel faces and edges, shared by the files of parity.h.
 */
#ifndef ESI_VOXEL_PARITY_LATTICE_H
#define ESI_VOXEL_PARITY_LATTICE_H

#include "voxel/voxel_index.h"

/* The two axes beside `axis`. */
static inline void esi_other_axes(int axis, int *b, int *c)
{
    *b = axis == 0 ? 1 : 0;
    *c = axis == 2 ? 1 : 2;
}

/* Row beside the cursor, `by` = -1 or 1 along axis. */
static inline int32_t esi_row_beside(esi_voxel_cursor *cursor, int axis, int by)
{
    return esi_voxel_cursor_at(cursor, axis == 0 ? by : 0, axis == 1 ? by : 0, axis == 2 ? by : 0);
}

#endif
