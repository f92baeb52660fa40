/* SPDX-License-Identifier: MIT
 *
 * post_raw.c: the raw mesh in, and out as it is: with a colour per vertex.
 */
#include "pipeline/post_job.h"

#define POST_REACH 1e5f

/* Vertex i of a dual grid belongs to voxel i, until unused vertices go. */
static espalier_status number_voxels(post_job *j)
{
    int32_t *map = NULL;
    const int64_t before = j->mesh.n_vertices;
    espalier_status st = esi_mesh_compact(j->ctx, &j->mesh, &map);

    if (st == ESPALIER_OK) {
        j->voxel_of = esi_alloc(j->ctx, (size_t)j->mesh.n_vertices, sizeof *j->voxel_of, "voxels of vertices");
        if (!j->voxel_of) st = ESPALIER_ERR_RESOURCE;
    }
    for (int64_t v = 0; st == ESPALIER_OK && v < before; v++)
        if (map[v] >= 0) j->voxel_of[map[v]] = (int32_t)v;
    esi_free(j->ctx, map);
    return st;
}

/* Squares and cubes of coordinates are taken on the way: they must stay far from the end of the numbers. */
espalier_status esi_post_check_reach(const post_job *j)
{
    for (int64_t i = 0; i < 3 * j->mesh.n_vertices; i++) {
        const float v = j->mesh.vertices[i];

        if (v >= -POST_REACH && v <= POST_REACH) continue;
        return esi_fail(j->ctx, ESPALIER_ERR_INPUT, "finish: a vertex reaches out to %g; objects are expected in [-0.5, 0.5]", (double)v);
    }
    return ESPALIER_OK;
}

espalier_status esi_post_take_raw(post_job *j)
{
    const esi_asset *a = j->data;

    if (a->resolution < 1 || a->resolution > ESI_ASSET_MAX_RESOLUTION)
        return esi_fail(j->ctx, ESPALIER_ERR_INPUT, "finish: the asset's resolution of %lld is not between 1 and %d",
                        (long long)a->resolution, ESI_ASSET_MAX_RESOLUTION);

    if (a->n_faces == 0) return esi_fail(j->ctx, ESPALIER_ERR_SOUNDNESS, "finish: the mesh has no faces");
    for (int64_t n = 0; a->coords && n < a->n_voxels; n++)
        if (a->coords[4 * n] != 0) return esi_fail(j->ctx, ESPALIER_ERR_INPUT, "finish: several objects in one asset");
    espalier_status st = esi_mesh_copy(j->ctx, &j->mesh, a->vertices, a->n_vertices, a->faces, a->n_faces);
    if (st == ESPALIER_OK && j->options.mode == ESPALIER_POST_NONE && a->local) st = number_voxels(j);
    if (st == ESPALIER_OK) st = esi_mesh_sanitize(j->ctx, &j->mesh, &j->record->sanitize);
    if (st == ESPALIER_OK && j->record->sanitize.unused_vertices > 0) {          /* unusable faces went: the numbers no longer hold */
        esi_free(j->ctx, j->voxel_of);
        j->voxel_of = NULL;
    }
    if (st == ESPALIER_OK && j->mesh.n_faces == 0)
        st = esi_fail(j->ctx, ESPALIER_ERR_SOUNDNESS, "finish: none of the %lld faces is usable", (long long)a->n_faces);
    return st == ESPALIER_OK ? esi_post_check_reach(j) : st;
}

espalier_status esi_post_one_material(post_job *j)
{
    esi_surface *s = &j->surface;

    if (s->n_materials) return ESPALIER_OK;
    s->materials = esi_alloc(j->ctx, 1, sizeof *s->materials, "material");
    if (!s->materials) return ESPALIER_ERR_RESOURCE;
    s->n_materials = 1;
    s->materials[0] = esi_material_default();
    s->materials[0].metallic = 0;
    return ESPALIER_OK;
}

static float clamp01(float v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}

/* Attributes of a vertex: its own voxel's, or what the volume has at its place. */
static void attributes_at(const post_job *j, int64_t v, float value[6])
{
    const float *p = j->surface.mesh.vertices + 3 * v;
    float g[3];
    int32_t row;

    if (j->voxel_of) {
        memcpy(value, j->data->attrs + 6 * (size_t)j->voxel_of[v], 6 * sizeof(float));
        return;
    }
    memset(value, 0, 6 * sizeof(float));
    for (int a = 0; a < 3; a++) g[a] = (p[a] + 0.5f) * (float)j->data->resolution;
    if (esi_volume_trilinear(&j->volume, g, value) > 0) return;
    row = esi_volume_closest(&j->volume, g, 2.0);
    if (row >= 0) memcpy(value, j->volume.attrs + 6 * (size_t)row, 6 * sizeof(float));
}

/* A colour per vertex; metallic and roughness as their means. */
static espalier_status color_vertices(post_job *j)
{
    esi_surface *s = &j->surface;
    double metallic = 0, roughness = 0;

    if (!j->has_volume) return ESPALIER_OK;
    s->colors = esi_alloc(j->ctx, (size_t)s->mesh.n_vertices, 4, "vertex colours");
    if (!s->colors) return ESPALIER_ERR_RESOURCE;
    for (int64_t v = 0; v < s->mesh.n_vertices; v++) {
        float value[6];

        attributes_at(j, v, value);
        for (int k = 0; k < 4; k++) s->colors[4 * v + k] = (uint8_t)(clamp01(value[k < 3 ? k : 5]) * 255.0f + 0.5f);
        metallic += (double)clamp01(value[3]);
        roughness += (double)clamp01(value[4]);
    }
    if (s->mesh.n_vertices) {
        s->materials[0].metallic = (float)(metallic / (double)s->mesh.n_vertices);
        s->materials[0].roughness = (float)(roughness / (double)s->mesh.n_vertices);
    }
    return ESPALIER_OK;
}

/* The dual grid fixes the winding of its quads by axis: turning them costs nothing that was meant. */
espalier_status esi_post_raw_surface(post_job *j)
{
    espalier_status st = esi_mesh_unify_orientation(j->ctx, &j->mesh, &j->record->flipped_faces, &j->record->winding_left);
    if (st == ESPALIER_OK) st = esi_mesh_orient_outward(j->ctx, &j->mesh, &j->record->flipped_components);
    if (st != ESPALIER_OK) return st;
    j->surface.mesh = j->mesh;
    memset(&j->mesh, 0, sizeof j->mesh);
    st = esi_post_one_material(j);
    if (st != ESPALIER_OK) return st;
    j->surface.materials[0].double_sided = true;                 /* it may be open */
    return color_vertices(j);
}
