/* SPDX-License-Identifier: MIT
 *
 * bake.c: the stages of a bake in their order, and the surface that comes out of it. Each texel is on its own, so bands of rows go in
 * parallel; at most 17 bytes per texel (20 with a normal map) are held at a time, 19 (22) while inpainting.
 */
#include "mesh/bake_internal.h"
#include "mesh/raster.h"

#define MIN_SIZE 16
#define MAX_SIZE 16384
#define MAX_RAYS 1024
#define CHANNELS 6

esi_bake_options esi_bake_options_reference(uint32_t texture_size)
{
    return (esi_bake_options){.texture_size = texture_size, .snap = true, .gutter = ESI_GUTTER_TELEA, .truncate = true, .keep_alpha = true};
}

esi_bake_options esi_bake_options_clean(uint32_t texture_size)
{
    return (esi_bake_options){.texture_size = texture_size,
                              .snap = true,
                              .facing = true,
                              .nearest_cells = 4.0,
                              .gutter = ESI_GUTTER_NEAREST,
                              .despeckle = 16,
                              .alpha_auto = true};
}

/* ---------------------------------------------------------------------- checks */

static bool in_range(const int32_t *numbers, int64_t count, int64_t limit)
{
    for (int64_t i = 0; i < count; i++) {
        if (numbers[i] < 0 || numbers[i] >= limit) return false;
    }
    return true;
}

static espalier_status check_options(espalier_context *ctx, const esi_bake_input *input, const esi_bake_options *options)
{
    const bool original = options->snap || options->facing || options->normal_map || options->occlusion_rays > 0;

    if (options->texture_size < MIN_SIZE || options->texture_size > MAX_SIZE) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "a texture of %u texels; from %d to %d are possible", (unsigned)options->texture_size,
                        MIN_SIZE, MAX_SIZE);
    }
    if (options->occlusion_rays < 0 || options->occlusion_rays > MAX_RAYS) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%d occlusion rays; up to %d are possible", (int)options->occlusion_rays, MAX_RAYS);
    }
    if (options->despeckle < 0 || options->despeckle > ESI_BAKE_MAX_SPECK) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "specks of %d texels; up to %d are possible", (int)options->despeckle, ESI_BAKE_MAX_SPECK);
    }
    if (original && (!input->original || !input->original_bvh)) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "bake: no original surface");
    }
    return ESPALIER_OK;
}

static espalier_status check_input(espalier_context *ctx, const esi_bake_input *input)
{
    const esi_unwrapped *u = input->unwrapped;
    const esi_mesh *mesh = input->mesh;

    if (input->volume->channels != CHANNELS) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "bake: voxels of %d channels, not %d", (int)input->volume->channels, CHANNELS);
    }
    if (!in_range(u->source, u->n_vertices, mesh->n_vertices) || !in_range(u->faces, 3 * mesh->n_faces, u->n_vertices) ||
        !in_range(u->face_chart, mesh->n_faces, u->n_charts)) {
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "bake: texture coordinates do not go with the mesh");
    }
    return ESPALIER_OK;
}

/* --------------------------------------------------------------------- surface */

/* Vertices split as the texture coordinates are. */
static espalier_status make_surface(espalier_context *ctx, esi_surface *out, const esi_bake_input *input, bool tangents)
{
    const esi_unwrapped *u = input->unwrapped;
    const size_t n = (size_t)u->n_vertices;
    espalier_status st = esi_mesh_new(ctx, &out->mesh, u->n_vertices, input->mesh->n_faces);

    if (st != ESPALIER_OK) return st;
    out->normals = esi_alloc(ctx, n, 3 * sizeof *out->normals, "normals");
    out->uvs = esi_alloc(ctx, n, 2 * sizeof *out->uvs, "texture coordinates");
    if (!out->normals || !out->uvs) return ESPALIER_ERR_RESOURCE;
    memcpy(out->mesh.faces, u->faces, (size_t)input->mesh->n_faces * 3 * sizeof *u->faces);
    memcpy(out->uvs, u->uvs, n * 2 * sizeof *u->uvs);
    for (size_t i = 0; i < n; i++) {
        memcpy(out->mesh.vertices + 3 * i, input->mesh->vertices + 3 * (int64_t)u->source[i], 3 * sizeof(float));
        memcpy(out->normals + 3 * i, input->normals + 3 * (int64_t)u->source[i], 3 * sizeof(float));
    }
    return tangents ? esi_surface_tangents(ctx, &out->tangents, out) : ESPALIER_OK;
}

/* The job's pictures become the surface's. */
static espalier_status make_material(esi_bake_job *job, esi_surface *out, esi_alpha_mode mode)
{
    const uint32_t size = (uint32_t)job->size;
    esi_material *m;

    out->materials = esi_alloc(job->ctx, 1, sizeof *out->materials, "material");
    out->textures = esi_calloc(job->ctx, 3, sizeof *out->textures, "textures");
    if (!out->materials || !out->textures) return ESPALIER_ERR_RESOURCE;
    out->n_materials = 1;
    m = &out->materials[0];
    *m = esi_material_default();
    m->alpha_mode = mode;
    m->base_color_texture = 0;
    m->metallic_roughness_texture = 1;
    m->occlusion = job->options->occlusion_rays > 0;
    out->n_textures = job->normal_map ? 3 : 2;
    out->textures[0] = (esi_texture){.pixels = job->base, .width = size, .height = size, .channels = 4};
    out->textures[1] = (esi_texture){.pixels = job->material, .width = size, .height = size, .channels = 3};
    if (job->normal_map) {
        m->normal_texture = 2;
        out->textures[2] = (esi_texture){.pixels = job->normal_map, .width = size, .height = size, .channels = 3};
    }
    job->base = job->material = job->normal_map = NULL;
    return ESPALIER_OK;
}

/* ---------------------------------------------------------------------- stages */

static espalier_status open_pictures(esi_bake_job *job)
{
    const size_t texels = (size_t)job->size * (size_t)job->size;
    const bool reference_occlusion = job->options->truncate;

    job->owner = esi_alloc(job->ctx, texels, sizeof *job->owner, "faces of texels");
    job->base = esi_calloc(job->ctx, texels, 4, "base colour");
    job->material = esi_calloc(job->ctx, texels, 3, "metallic and roughness");
    if (!job->owner || !job->base || !job->material) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; !reference_occlusion && i < texels; i++) job->material[3 * i] = 255;
    if (job->options->normal_map) {
        job->normal_map = esi_alloc(job->ctx, texels, 3, "normal map");
        if (!job->normal_map) return ESPALIER_ERR_RESOURCE;
        for (size_t i = 0; i < 3 * texels; i++) job->normal_map[i] = i % 3 == 2 ? 255 : 128;
    }
    return esi_raster_atlas(job->ctx, job->owner, (uint32_t)job->size, job->surface->mesh.faces, job->surface->mesh.n_faces,
                            job->surface->uvs, job->options->truncate ? NULL : job->input->unwrapped->face_chart,
                            job->input->unwrapped->n_charts);
}

static espalier_status open_originals(esi_bake_job *job)
{
    espalier_status st = ESPALIER_OK;

    if (job->options->facing || job->options->normal_map) st = esi_bake_judge_winding(job);
    job->stats->original_oriented = job->oriented;
    if (st == ESPALIER_OK && job->options->facing) st = esi_bake_sheets_open(job->ctx, &job->sheets, job->input);
    if (st == ESPALIER_OK && job->options->normal_map) st = esi_bake_original_normals(job);
    if (st == ESPALIER_OK && job->options->occlusion_rays > 0) st = esi_bake_occlusion_open(job);
    return st;
}

static void close_originals(esi_bake_job *job)
{
    esi_bake_sheets_close(job->ctx, &job->sheets);
    esi_free(job->ctx, job->original_normals);
    esi_free(job->ctx, job->occlusion_directions);
    job->original_normals = job->occlusion_directions = NULL;
}

static espalier_status decide_alpha(esi_bake_job *job, esi_alpha_mode *mode)
{
    const size_t texels = (size_t)job->size * (size_t)job->size;
    espalier_status st = esi_bake_alpha_mode(job, mode);

    if (st != ESPALIER_OK) return st;
    if (!job->options->alpha_auto) *mode = job->options->alpha_mode;
    job->stats->alpha_mode = *mode;
    if (*mode == ESI_ALPHA_OPAQUE && !job->options->keep_alpha) {
        for (size_t i = 0; i < texels; i++) job->base[4 * i + 3] = 255;
    }
    return ESPALIER_OK;
}

espalier_status esi_bake(espalier_context *ctx, esi_surface *out, const esi_bake_input *input, const esi_bake_options *options,
                         esi_bake_stats *stats)
{
    esi_bake_stats own;
    esi_bake_job job = {.ctx = ctx, .input = input, .options = options, .surface = out, .stats = stats ? stats : &own};
    esi_alpha_mode mode;
    espalier_status st = check_options(ctx, input, options);

    memset(out, 0, sizeof *out);
    memset(job.stats, 0, sizeof *job.stats);
    if (st == ESPALIER_OK) st = check_input(ctx, input);
    if (st != ESPALIER_OK) return st;
    job.size = (int32_t)options->texture_size;
    job.cell = 1.0 / (double)input->volume->resolution;

    st = make_surface(ctx, out, input, options->normal_map);
    if (st == ESPALIER_OK) st = open_pictures(&job);
    if (st == ESPALIER_OK) st = open_originals(&job);
    if (st == ESPALIER_OK) st = esi_bake_sample(&job);
    close_originals(&job);
    if (st == ESPALIER_OK) st = esi_bake_despeckle(&job);
    if (st == ESPALIER_OK) st = decide_alpha(&job, &mode);
    if (st == ESPALIER_OK) st = esi_bake_fill_gutter(&job);
    if (st == ESPALIER_OK) st = make_material(&job, out, mode);

    esi_free(ctx, job.owner);
    esi_free(ctx, job.base);
    esi_free(ctx, job.material);
    esi_free(ctx, job.normal_map);
    if (st != ESPALIER_OK) esi_surface_free(ctx, out);
    return st;
}
