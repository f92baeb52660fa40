/* SPDX-License-Identifier: MIT
 *
 * render.h: a small software rasteriser, so that people and tests can look at a result.
 */
#ifndef ESI_MESH_RENDER_H
#define ESI_MESH_RENDER_H

#include "base/surface.h"

typedef struct esi_render_options {
    uint32_t view_size;            /* pixels per view, 16..4096 */
    int32_t views;                 /* 1..4 side by side in two columns: three quarter front, back, side, top; z up */
    bool backfaces;                /* paint faces seen from behind in magenta (closed meshes show none) */
    bool wireframe;
} esi_render_options;
/* RGB, [height][width][3] in out->pixels (esi_alloc): base colour with lambert light and a little ambient; white background. */
espalier_status esi_render_views(espalier_context *ctx, esi_texture *out, const esi_surface *surface, const esi_render_options *options);

#endif
