/* SPDX-License-Identifier: MIT
 *
 * kind_mesh_to_pbr_voxels.c: triangles with materials to PBR voxels, as the reference does it.
 */
#include "kinds.h"
#include "voxel/pbr_scene.h"

static double number(const esi_json *object, const char *key, double fallback)
{
    double v;

    return esi_json_double(esi_json_get(object, key), &v) ? v : fallback;
}

static void triple(float out[3], const esi_json *object, const char *key, float fallback)
{
    const esi_json *list = esi_json_get(object, key);

    for (size_t a = 0; a < 3; a++) {
        double v;

        out[a] = esi_json_double(esi_json_at(list, a), &v) ? (float)v : fallback;
    }
}

static espalier_status read_picture(golden_case *c, const char *scene, size_t material, const char *suffix, esi_pbr_image *out)
{
    const char *name = golden_name(c, "in.%s.mat%zu.%s", scene, material, suffix);
    golden_shape shape;
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (!golden_has(c, name)) return ESPALIER_OK;
    st = golden_u8(c, name, &out->pixels, &shape);
    if (st != ESPALIER_OK) return st;
    out->height = (uint32_t)shape.extent[0];
    out->width = (uint32_t)shape.extent[1];
    out->stride = out->channels = shape.rank == 3 ? (uint32_t)shape.extent[2] : 1;
    return ESPALIER_OK;
}

static espalier_status read_material(golden_case *c, const char *scene, size_t i, const esi_json *m, esi_pbr_source *s)
{
    espalier_status st = read_picture(c, scene, i, "bc", &s->base_color);

    if (st == ESPALIER_OK) st = read_picture(c, scene, i, "mt", &s->metallic);
    if (st == ESPALIER_OK) st = read_picture(c, scene, i, "rt", &s->roughness);
    if (st == ESPALIER_OK) st = read_picture(c, scene, i, "at", &s->alpha);
    if (st == ESPALIER_OK) st = read_picture(c, scene, i, "nt", &s->normal);
    triple(s->base_color_factor, m, "bcf", 1.0f);
    triple(s->emissive_factor, m, "ef", 0.0f);
    s->metallic_factor = (float)number(m, "mf", 1.0);
    s->roughness_factor = (float)number(m, "rf", 1.0);
    s->alpha_factor = (float)number(m, "af", 1.0);
    s->alpha_cutoff = (float)number(m, "ac", 0.5);
    s->alpha_mode = (esi_alpha_mode)(int)number(m, "am", 0.0);
    s->nearest = number(m, "filter", 1.0) == 0.0;
    s->wrap = (esi_wrap)(int)number(m, "wrap", 0.0);
    return st;
}

/* Stored per corner; the reference's v grows upwards. */
static espalier_status read_scene(golden_case *c, const char *name, const esi_json *materials, esi_pbr_scene *scene)
{
    const float *uvs;
    golden_shape shape;
    espalier_status st = golden_f32(c, golden_name(c, "in.%s.triangles", name), &scene->positions, &shape);

    if (st == ESPALIER_OK) st = golden_f32(c, golden_name(c, "in.%s.normals", name), &scene->normals, NULL);
    if (st == ESPALIER_OK) st = golden_f32(c, golden_name(c, "in.%s.uvs", name), &uvs, NULL);
    if (st == ESPALIER_OK) st = golden_i32(c, golden_name(c, "in.%s.material_ids", name), &scene->face_material, NULL);
    if (st != ESPALIER_OK) return st;
    scene->n_faces = shape.extent[0];
    scene->n_points = 3 * scene->n_faces;
    int32_t *faces = golden_alloc(c, (size_t)scene->n_points, sizeof *faces);
    float *flipped = golden_alloc(c, 2 * (size_t)scene->n_points, sizeof *flipped);
    for (int64_t i = 0; i < scene->n_points; i++) {
        faces[i] = (int32_t)i;
        flipped[2 * i] = uvs[2 * i];
        flipped[2 * i + 1] = 1.0f - uvs[2 * i + 1];
    }
    scene->faces = faces;
    scene->uvs = flipped;
    scene->n_materials = (int32_t)esi_json_size(materials);
    esi_pbr_source *sources = golden_alloc(c, (size_t)scene->n_materials, sizeof *sources);
    for (int32_t i = 0; st == ESPALIER_OK && i < scene->n_materials; i++) {
        st = read_material(c, name, (size_t)i, esi_json_at(materials, (size_t)i), &sources[i]);
    }
    scene->materials = sources;
    return st;
}

static void check_values(golden_case *c, const char *scene, const char *what, const float *values, int64_t rows, int64_t channels,
                         bool normal)
{
    const golden_shape shape = channels > 1 ? GOLDEN_SHAPE(rows, channels) : GOLDEN_SHAPE(rows);
    uint8_t *bytes = golden_alloc(c, (size_t)(rows * channels), 1);

    for (int64_t i = 0; i < rows * channels; i++) {
        const float v = 255.0f * (normal ? 0.5f * values[i] + 0.5f : values[i]);

        bytes[i] = (uint8_t)(v > 0.0f ? ESI_MIN(v, 255.0f) : 0.0f);
    }
    golden_check(c, golden_name(c, "out.%s.%s", scene, what), values, ESI_FILE_F32, shape);
    golden_check(c, golden_name(c, "out.%s.%s_u8", scene, what), bytes, ESI_FILE_U8, shape);
}

static espalier_status run_scene(golden_case *c, const char *name, const esi_json *parameters)
{
    const esi_json *aabb = esi_json_get(parameters, "aabb");
    const int32_t grid = (int32_t)number(parameters, "grid", 0.0);
    esi_pbr_options o = {.resolution = {grid, grid, grid}, .mip_level_offset = number(parameters, "mip_level_offset", 0.0), .mipmaps = true,
                         .reference = true};
    esi_pbr_scene scene = {0};
    esi_pbr_voxels v = {0};
    espalier_status st = read_scene(c, name, esi_json_get(parameters, "materials"), &scene);

    if (st != ESPALIER_OK) return st;
    for (size_t a = 0; a < 3; a++) {             /* the stored positions have lost aabb[0] already */
        double low, high;

        if (!esi_json_double(esi_json_at(esi_json_at(aabb, 0), a), &low) || !esi_json_double(esi_json_at(esi_json_at(aabb, 1), a), &high))
            return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: scene %s: malformed box", c->dir, name);
        o.aabb_max[a] = (float)high - (float)low;
    }
    st = esi_voxelize_scene(c->ctx, &v, &scene, &o);
    if (st != ESPALIER_OK) return st;
    int32_t *cells = golden_alloc(c, (size_t)v.count * 3, sizeof *cells);
    for (int64_t i = 0; i < 3 * v.count; i++) cells[i] = v.coords[4 * (i / 3) + 1 + i % 3];
    golden_expect_int(c, golden_name(c, "scenes.%s.voxels", name), v.count, (int64_t)number(parameters, "voxels", -1.0));
    golden_check(c, golden_name(c, "out.%s.coords", name), cells, ESI_FILE_I32, GOLDEN_SHAPE(v.count, 3));
    check_values(c, name, "base_color", v.base_color, v.count, 3, false);
    check_values(c, name, "metallic", v.metallic, v.count, 1, false);
    check_values(c, name, "roughness", v.roughness, v.count, 1, false);
    check_values(c, name, "emissive", v.emissive, v.count, 3, false);
    check_values(c, name, "alpha", v.alpha, v.count, 1, false);
    check_values(c, name, "normal", v.normal, v.count, 3, true);
    esi_pbr_voxels_free(c->ctx, &v);
    return ESPALIER_OK;
}

espalier_status golden_kind_mesh_to_pbr_voxels(golden_case *c)
{
    const esi_json *scenes = esi_json_get(c->config, "scenes");
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(scenes); i++) {
        const esi_json *parameters = NULL;
        const char *name = esi_json_key_at(scenes, i, &parameters);

        st = run_scene(c, name, parameters);
    }
    return st;
}
