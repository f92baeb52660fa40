/* SPDX-License-Identifier: MIT
 *
 * surface.c: making, checking and releasing meshes and surfaces.
 */
#include "base/surface.h"

#include <math.h>

espalier_status esi_mesh_new(espalier_context *ctx, esi_mesh *out, int64_t n_vertices, int64_t n_faces)
{
    memset(out, 0, sizeof *out);
    if (n_vertices < 0 || n_faces < 0) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "mesh: negative size");
    if (n_vertices > ESI_MESH_MAX_VERTICES || n_faces > ESI_MESH_MAX_FACES) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: %lld vertices and %lld faces are more than can be numbered",
                        (long long)n_vertices, (long long)n_faces);
    }
    out->vertices = esi_alloc(ctx, (size_t)n_vertices, 3 * sizeof(float), "mesh vertices");
    out->faces = esi_alloc(ctx, (size_t)n_faces, 3 * sizeof(int32_t), "mesh faces");
    if (!out->vertices || !out->faces) {
        esi_mesh_free(ctx, out);
        return ESPALIER_ERR_RESOURCE;
    }
    out->n_vertices = n_vertices;
    out->n_faces = n_faces;
    return ESPALIER_OK;
}

espalier_status esi_mesh_copy(espalier_context *ctx, esi_mesh *out, const float *vertices, int64_t n_vertices, const int32_t *faces,
                              int64_t n_faces)
{
    espalier_status st = esi_mesh_new(ctx, out, n_vertices, n_faces);
    if (st != ESPALIER_OK) return st;
    if (n_vertices) memcpy(out->vertices, vertices, (size_t)n_vertices * 3 * sizeof(float));
    if (n_faces) memcpy(out->faces, faces, (size_t)n_faces * 3 * sizeof(int32_t));
    return ESPALIER_OK;
}

void esi_mesh_free(espalier_context *ctx, esi_mesh *mesh)
{
    esi_free(ctx, mesh->vertices);
    esi_free(ctx, mesh->faces);
    memset(mesh, 0, sizeof *mesh);
}

esi_material esi_material_default(void)
{
    return (esi_material){
        .base_color = {1.0f, 1.0f, 1.0f, 1.0f},
        .metallic = 1.0f,
        .roughness = 1.0f,
        .alpha_cutoff = 0.5f,
        .base_color_texture = -1,
        .metallic_roughness_texture = -1,
        .normal_texture = -1,
        .emissive_texture = -1,
    };
}

void esi_surface_free(espalier_context *ctx, esi_surface *s)
{
    esi_mesh_free(ctx, &s->mesh);
    esi_free(ctx, s->normals);
    esi_free(ctx, s->tangents);
    esi_free(ctx, s->uvs);
    esi_free(ctx, s->colors);
    esi_free(ctx, s->face_material);
    esi_free(ctx, s->materials);
    for (int32_t i = 0; s->textures && i < s->n_textures; i++) esi_free(ctx, s->textures[i].pixels);
    esi_free(ctx, s->textures);
    memset(s, 0, sizeof *s);
}

static bool all_finite(const float *values, int64_t count)
{
    for (int64_t i = 0; values && i < count; i++) {
        if (!isfinite(values[i])) return false;
    }
    return true;
}

static bool is_texture(const esi_surface *s, int32_t index)
{
    return index >= -1 && index < s->n_textures;
}

espalier_status esi_surface_check(espalier_context *ctx, const esi_surface *s, const char *name, espalier_status status)
{
    const esi_mesh *m = &s->mesh;
    const espalier_status not_finite = status == ESPALIER_ERR_INTERNAL ? ESPALIER_ERR_SOUNDNESS : status;

    if (m->n_vertices < 0 || m->n_faces < 0 || m->n_vertices > ESI_MESH_MAX_VERTICES || m->n_faces > ESI_MESH_MAX_FACES)
        return esi_fail(ctx, status, "%s: %lld vertices and %lld faces", name, (long long)m->n_vertices, (long long)m->n_faces);
    for (int64_t i = 0; i < 3 * m->n_faces; i++) {
        if (m->faces[i] < 0 || m->faces[i] >= m->n_vertices) {
            return esi_fail(ctx, status, "%s: face %lld names vertex %d of %lld", name, (long long)(i / 3), (int)m->faces[i],
                            (long long)m->n_vertices);
        }
    }
    if (!all_finite(m->vertices, 3 * m->n_vertices)) return esi_fail(ctx, not_finite, "%s: a vertex is not finite", name);
    if (!all_finite(s->normals, 3 * m->n_vertices)) return esi_fail(ctx, not_finite, "%s: a normal is not finite", name);
    if (!all_finite(s->tangents, 4 * m->n_vertices)) return esi_fail(ctx, not_finite, "%s: a tangent is not finite", name);
    if (!all_finite(s->uvs, 2 * m->n_vertices)) return esi_fail(ctx, not_finite, "%s: a texture coordinate is not finite", name);
    for (int64_t f = 0; s->face_material && f < m->n_faces; f++) {
        if (s->face_material[f] < 0 || s->face_material[f] >= ESI_MAX(s->n_materials, 1))
            return esi_fail(ctx, status, "%s: face %lld has material %d of %d", name, (long long)f, (int)s->face_material[f],
                            (int)s->n_materials);
    }
    for (int32_t i = 0; i < s->n_materials; i++) {
        const esi_material *a = &s->materials[i];

        if (!is_texture(s, a->base_color_texture) || !is_texture(s, a->metallic_roughness_texture) ||
            !is_texture(s, a->normal_texture) || !is_texture(s, a->emissive_texture))
            return esi_fail(ctx, status, "%s: material %d has a texture that is not there", name, (int)i);
    }
    for (int32_t i = 0; i < s->n_textures; i++) {
        const esi_texture *t = &s->textures[i];

        if (!t->pixels || !t->width || !t->height || t->channels < 1 || t->channels > 4)
            return esi_fail(ctx, status, "%s: texture %d is empty", name, (int)i);
    }
    return ESPALIER_OK;
}
