/* SPDX-License-Identifier: MIT
 *
 * predicates.h: on which side of a plane or line a point is: exact for float coordinates.
 */
#ifndef ESI_PREDICATES_H
#define ESI_PREDICATES_H

/* Sign (-1, 0, 1) of (a - d) . ((b - d) x (c - d)): 1 where a, b, c run clockwise seen from d. */
int esi_orient3d(const float a[3], const float b[3], const float c[3], const float d[3]);
/* Sign of the area of a, b, c in the plane of the coordinates `x` and `y` (0 .. 2): 1 = counter-clockwise. */
int esi_orient2d(const float a[3], const float b[3], const float c[3], int x, int y);

#endif
