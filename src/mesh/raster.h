/* SPDX-License-Identifier: MIT
 *
 * raster.h: which texel centres a triangle covers. Edge functions in 64-bit integers on 1/256 texels with the top-left rule, so that faces
 * that share an edge cover each centre once.
 */
#ifndef ESI_MESH_RASTER_H
#define ESI_MESH_RASTER_H

#include "base/surface.h"

/* One covered texel: barycentrics of its centre. */
typedef void (*esi_raster_fn)(void *arg, int32_t x, int32_t y, const double bary[3]);
/* Texels of a width x height picture whose centre (x + 0.5, y + 0.5) lies in the triangle, corners in texels; either orientation;
 * degenerate triangles cover nothing. Row y ascending, then x ascending. */
void esi_raster_triangle(const double corner[3][2], int32_t width, int32_t height, esi_raster_fn fn, void *arg);

/* Face number of every texel of a size x size atlas or -1: on overlap the highest face wins. UVs in [0, 1]; row y grows with v. Each chart
 * that covers no centre gets the nearest free one to the middle of its first face, at most ESI_RASTER_REACH texels away (face_chart may be
 * NULL: none do). Parallel by bands of rows. uvs [n_vertices][2], out [size][size]. */
#define ESI_RASTER_REACH 16
espalier_status esi_raster_atlas(espalier_context *ctx, int32_t *out, uint32_t size, const int32_t *faces, int64_t n_faces,
                                 const float *uvs, const int32_t *face_chart, int32_t n_charts);
/* Barycentrics of a texel's centre in a face, of the nearest point of the face if the centre lies outside. */
void esi_raster_barycentrics(double bary[3], const float *uvs, const int32_t face[3], uint32_t size, int32_t x, int32_t y);

#endif
