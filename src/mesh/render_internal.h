/* SPDX-License-Identifier: MIT
 *
 * render_internal.h: shared by render.c (what is seen where) and render_shade.c (which colour it has).
 */
#ifndef ESI_MESH_RENDER_INTERNAL_H
#define ESI_MESH_RENDER_INTERNAL_H

#include "mesh/render.h"

#define ESI_RENDER_TANGENT 0.35                /* of half the angle of view */
#define ESI_RENDER_MARGIN 1.03                 /* the sphere around the object fills the view but for this */
#define ESI_RENDER_AMBIENT 0.25

/* A point p is seen at (0.5 + (p - eye).right / d, 0.5 - (p - eye).up / d) of the view, d = 2 * tangent * (p - eye).forward. */
typedef struct esi_render_camera {
    double eye[3], right[3], up[3], forward[3];
    double light[3];                           /* towards it: over the left shoulder */
} esi_render_camera;
/* View 0: from the front (-y) and the right, from above; 1: the opposite side; 2: from +x; 3: from above, +y up in the picture. */
void esi_render_camera_set(esi_render_camera *camera, int view, const esi_mesh *mesh);

typedef struct esi_render_tables {
    double linear[256];                        /* of an sRGB byte */
    double boundary[255];                      /* linear value from which on byte i + 1 is nearer than i */
} esi_render_tables;
void esi_render_tables_set(esi_render_tables *tables);
uint8_t esi_render_encode(const esi_render_tables *tables, double linear);

/* Colour of a face's point by perspective-correct weights: linear RGB without light, and alpha. */
void esi_render_base_color(double rgba[4], const esi_surface *surface, const esi_render_tables *tables, int32_t face,
                           const double weights[3]);
const esi_material *esi_render_material(const esi_surface *surface, int32_t face, esi_material *fallback);
/* Diffuse light there, either side. */
double esi_render_light(const esi_surface *surface, const esi_render_camera *camera, int32_t face, const double weights[3]);

#endif
