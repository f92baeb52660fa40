/* SPDX-License-Identifier: MIT
 *
 * render_shade.c: the colour of a point of a surface: base colour of its material (factor, texture, vertex colour) in linear light, and
 * Lambert's law for one distant lamp.
 */
#include "base/math64.h"
#include "base/srgb.h"
#include "mesh/render_internal.h"
#include "mesh/vec.h"

void esi_render_tables_set(esi_render_tables *t)
{
    for (int i = 0; i < 256; i++) t->linear[i] = esi_srgb_decode(i / 255.0);
    for (int i = 0; i < 255; i++) t->boundary[i] = esi_srgb_decode((i + 0.5) / 255.0);
}

uint8_t esi_render_encode(const esi_render_tables *t, double linear)
{
    int low = 0, high = 255;                   /* boundaries below `low` are reached, those from `high` on are not */

    while (low < high) {
        const int middle = (low + high) / 2;

        if (linear >= t->boundary[middle]) low = middle + 1;
        else high = middle;
    }
    return (uint8_t)low;
}

const esi_material *esi_render_material(const esi_surface *surface, int32_t face, esi_material *fallback)
{
    if (surface->n_materials > 0) return &surface->materials[surface->face_material ? surface->face_material[face] : 0];
    *fallback = esi_material_default();
    return fallback;
}

/* ------------------------------------------------------------ textures */

static int32_t wrapped(int64_t i, int32_t n, esi_wrap wrap)
{
    if (wrap == ESI_WRAP_CLAMP) return (int32_t)ESI_MIN(ESI_MAX(i, 0), n - 1);
    const int64_t period = wrap == ESI_WRAP_MIRROR ? 2 * (int64_t)n : n;
    const int64_t r = (i % period + period) % period;

    return (int32_t)(r < n ? r : period - 1 - r);
}

static void texel(double rgba[4], const esi_texture *t, const esi_render_tables *tables, int32_t x, int32_t y)
{
    const uint8_t *p = t->pixels + ((size_t)y * t->width + (size_t)x) * t->channels;
    const bool gray = t->channels < 3;

    for (int k = 0; k < 3; k++) rgba[k] = tables->linear[p[gray ? 0 : k]];
    rgba[3] = t->channels == 4 ? p[3] / 255.0 : t->channels == 2 ? p[1] / 255.0 : 1.0;
}

static void sample(double rgba[4], const esi_texture *t, const esi_render_tables *tables, const esi_material *m, const double uv[2])
{
    const int32_t size[2] = {(int32_t)t->width, (int32_t)t->height};
    int64_t base[2];
    double part[2];

    for (int k = 0; k < 2; k++) {
        const double bounded = ESI_MIN(ESI_MAX(uv[k], -1e6), 1e6), at = bounded * size[k] - (m->nearest ? 0.0 : 0.5), floor = esi_floor(at);

        base[k] = (int64_t)floor;
        part[k] = m->nearest ? 0.0 : at - floor;
    }
    for (int k = 0; k < 4; k++) rgba[k] = 0.0;
    for (int corner = 0; corner < 4; corner++) {
        const int i = corner % 2, j = corner / 2;
        const double weight = (i ? part[0] : 1.0 - part[0]) * (j ? part[1] : 1.0 - part[1]);
        double c[4];

        if (weight == 0.0) continue;
        texel(c, t, tables, wrapped(base[0] + i, size[0], m->wrap), wrapped(base[1] + j, size[1], m->wrap));
        for (int k = 0; k < 4; k++) rgba[k] += weight * c[k];
    }
}

void esi_render_base_color(double rgba[4], const esi_surface *s, const esi_render_tables *tables, int32_t face, const double weights[3])
{
    const int32_t *corner = s->mesh.faces + 3 * (int64_t)face;
    esi_material fallback;
    const esi_material *m = esi_render_material(s, face, &fallback);

    for (int k = 0; k < 4; k++) rgba[k] = (double)m->base_color[k];
    if (m->base_color_texture >= 0 && m->base_color_texture < s->n_textures && s->uvs) {
        double uv[2] = {0.0, 0.0}, color[4];

        for (int k = 0; k < 3; k++) {
            uv[0] += weights[k] * (double)s->uvs[2 * (int64_t)corner[k]];
            uv[1] += weights[k] * (double)s->uvs[2 * (int64_t)corner[k] + 1];
        }
        sample(color, &s->textures[m->base_color_texture], tables, m, uv);
        for (int k = 0; k < 4; k++) rgba[k] *= color[k];
    }
    if (s->colors) {
        double color[4] = {0.0};

        for (int k = 0; k < 3; k++) {
            const uint8_t *c = s->colors + 4 * (int64_t)corner[k];

            for (int i = 0; i < 3; i++) color[i] += weights[k] * tables->linear[c[i]];
            color[3] += weights[k] * (c[3] / 255.0);
        }
        for (int k = 0; k < 4; k++) rgba[k] *= color[k];
    }
    if (m->alpha_mode == ESI_ALPHA_OPAQUE) rgba[3] = 1.0;
}

/* ------------------------------------------------------------ light */

double esi_render_light(const esi_surface *s, const esi_render_camera *camera, int32_t face, const double weights[3])
{
    const int32_t *corner = s->mesh.faces + 3 * (int64_t)face;
    double p[3][3], flat[3], n[3], to_eye[3], length, lit;

    for (int k = 0; k < 9; k++) p[k / 3][k % 3] = (double)s->mesh.vertices[3 * (int64_t)corner[k / 3] + k % 3];
    esi_vec_face_cross(flat, p[0], p[1], p[2]);
    for (int k = 0; k < 3; k++) {
        to_eye[k] = camera->eye[k] - (weights[0] * p[0][k] + weights[1] * p[1][k] + weights[2] * p[2][k]);
        n[k] = 0.0;
        for (int i = 0; i < 3 && s->normals; i++) n[k] += weights[i] * (double)s->normals[3 * (int64_t)corner[i] + k];
    }
    if (!s->normals || esi_vec_dot(n, n) == 0.0) memcpy(n, flat, sizeof n);
    length = esi_vec_length(n);
    if (!(length > 0.0)) return 1.0;
    /* the side that is seen decides, not where an averaged normal points */
    lit = esi_vec_dot(n, camera->light) / length;
    if (esi_vec_dot(flat, to_eye) < 0.0) lit = -lit;
    return ESI_RENDER_AMBIENT + (1.0 - ESI_RENDER_AMBIENT) * ESI_MAX(lit, 0.0);
}
