/* SPDX-License-Identifier: MIT
 *
 * surface_fixture.h: a torus with everything a surface can have: normals, tangents, texture coordinates with seams, pictures, two
 * materials, vertex colours. Asymmetric in every axis, so that a wrong turn shows.
 */
#ifndef SURFACE_FIXTURE_H
#define SURFACE_FIXTURE_H

#include "support.h"

#include "base/math64.h"
#include "base/surface.h"

enum { TORUS_U = 12, TORUS_V = 8, TORUS_SIDE = 32 };

typedef struct torus_options {
    bool textures, normal_map, colors, alpha, two_materials;
} torus_options;

/* Positions meet at the seams in every bit. */
static inline void torus_point(esi_surface *s, int64_t v, int x, int y)
{
    const double u = (double)x / TORUS_U, w = (double)y / TORUS_V;
    const double a = 2 * 3.14159265358979 * (x % TORUS_U) / TORUS_U, b = 2 * 3.14159265358979 * (y % TORUS_V) / TORUS_V;
    const double n[3] = {esi_cos(a) * esi_cos(b), esi_sin(a) * esi_cos(b), esi_sin(b)}, t[3] = {-esi_sin(a), esi_cos(a), 0};
    const double p[3] = {(0.3 + 0.1 * esi_cos(b)) * esi_cos(a), (0.3 + 0.1 * esi_cos(b)) * esi_sin(a), 0.1 * esi_sin(b)};

    for (int k = 0; k < 3; k++) {
        s->mesh.vertices[3 * v + k] = (float)(p[k] + 0.01 * (k + 1));
        s->normals[3 * v + k] = (float)n[k];
        if (s->tangents) s->tangents[4 * v + k] = (float)t[k];
    }
    if (s->tangents) s->tangents[4 * v + 3] = 1.0f;
    s->uvs[2 * v] = (float)u;
    s->uvs[2 * v + 1] = (float)w;
}

static inline esi_texture torus_picture(espalier_context *ctx, uint32_t channels, int kind)
{
    esi_texture t = {.width = TORUS_SIDE, .height = TORUS_SIDE, .channels = channels};

    t.pixels = esi_alloc(ctx, TORUS_SIDE * TORUS_SIDE, channels, "a test picture");
    assert_non_null(t.pixels);
    for (uint32_t i = 0; i < TORUS_SIDE * TORUS_SIDE; i++) {
        const uint32_t x = i % TORUS_SIDE, y = i / TORUS_SIDE;
        const uint8_t color[4] = {(uint8_t)(x * 8), (uint8_t)(y * 8), (uint8_t)(x * 5 + y * 3), (uint8_t)(255 - x * 4)};
        const uint8_t material[4] = {200, (uint8_t)(x * 6), (uint8_t)(y * 7), 255}, normal[4] = {128, 128, 255, 255};

        memcpy(t.pixels + i * channels, kind == 0 ? color : kind == 1 ? material : normal, channels);
    }
    return t;
}

/* TORUS_U x TORUS_V quads over (TORUS_U + 1) x (TORUS_V + 1) vertices. */
static inline void torus_make(espalier_context *ctx, esi_surface *s, torus_options o)
{
    const int64_t n = (TORUS_U + 1) * (TORUS_V + 1), n_faces = 2 * TORUS_U * TORUS_V;
    int32_t *f;

    memset(s, 0, sizeof *s);
    assert_int_equal(esi_mesh_new(ctx, &s->mesh, n, n_faces), ESPALIER_OK);
    s->normals = esi_alloc(ctx, (size_t)n, 12, "normals");
    s->uvs = esi_alloc(ctx, (size_t)n, 8, "uvs");
    if (o.normal_map) s->tangents = esi_alloc(ctx, (size_t)n, 16, "tangents");
    for (int64_t v = 0; v < n; v++)
        torus_point(s, v, (int)(v % (TORUS_U + 1)), (int)(v / (TORUS_U + 1)));
    f = s->mesh.faces;
    for (int y = 0; y < TORUS_V; y++) {
        for (int x = 0; x < TORUS_U; x++, f += 6) {
            const int32_t a = y * (TORUS_U + 1) + x, b = a + 1, c = a + TORUS_U + 1, d = c + 1;
            const int32_t quad[6] = {a, b, d, a, d, c};

            memcpy(f, quad, sizeof quad);
        }
    }
    s->n_materials = o.two_materials ? 2 : 1;
    s->materials = esi_alloc(ctx, 2, sizeof *s->materials, "materials");
    s->materials[0] = s->materials[1] = esi_material_default();
    snprintf(s->materials[0].name, sizeof s->materials[0].name, "skin & \"bone\"");
    s->materials[0].metallic = o.textures ? 1.0f : 0.25f;
    s->materials[0].roughness = o.textures ? 1.0f : 0.75f;
    s->materials[0].double_sided = true;
    s->materials[1].base_color[0] = 0.5f;
    s->materials[1].base_color[1] = 0.25f;
    s->materials[1].metallic = 0.0f;
    s->materials[1].wrap = ESI_WRAP_CLAMP;
    if (o.alpha) s->materials[0].alpha_mode = ESI_ALPHA_BLEND;
    if (o.two_materials) {
        s->face_material = esi_alloc(ctx, (size_t)n_faces, sizeof(int32_t), "face materials");
        for (int64_t i = 0; i < n_faces; i++) s->face_material[i] = i % 5 == 0;
    }
    if (o.textures) {
        s->textures = esi_calloc(ctx, 3, sizeof *s->textures, "textures");
        s->textures[s->n_textures++] = torus_picture(ctx, o.alpha ? 4 : 3, 0);
        s->textures[s->n_textures++] = torus_picture(ctx, 3, 1);
        s->materials[0].base_color_texture = 0;
        s->materials[0].metallic_roughness_texture = 1;
        s->materials[0].occlusion = true;
        if (o.normal_map) {
            s->textures[s->n_textures++] = torus_picture(ctx, 3, 2);
            s->materials[0].normal_texture = 2;
        }
    }
    if (!o.colors) return;
    s->colors = esi_alloc(ctx, (size_t)n, 4, "colours");
    /* Equal where positions are: a function of the position. */
    for (int64_t v = 0; v < n; v++) {
        const int64_t x = v % (TORUS_U + 1) % TORUS_U, y = v / (TORUS_U + 1) % TORUS_V;
        const uint8_t c[4] = {(uint8_t)(x * 20), (uint8_t)(y * 30), (uint8_t)(x * y), 255};

        memcpy(s->colors + 4 * v, c, 4);
    }
}

#endif
