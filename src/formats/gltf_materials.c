/* SPDX-License-Identifier: MIT
 *
 * gltf_materials.c: materials and pictures of glTF 2.0, with the extensions that say where pictures are (KHR_texture_transform,
 * EXT_texture_webp) and two that replace the shading model (KHR_materials_unlit, KHR_materials_pbrSpecularGlossiness).
 */
#include "formats/gltf_read.h"

#include "base/math64.h"

#include <stdio.h>

static const esi_json *extension(const esi_json *object, const char *name)
{
    return esi_json_get(esi_json_get(object, "extensions"), name);
}

static float number(const esi_json *object, const char *key, float fallback, double low, double high)
{
    double v;

    if (!esi_json_double(esi_json_get(object, key), &v)) return fallback;
    return (float)ESI_MIN(ESI_MAX(v, low), high);
}

static void numbers(const esi_json *array, float *out, size_t n)
{
    double v;

    if (esi_json_size(array) != n) return;
    for (size_t i = 0; i < n; i++) {
        if (esi_json_double(esi_json_at(array, i), &v)) out[i] = (float)ESI_MIN(ESI_MAX(v, 0.0), 1.0);
    }
}

/* ---------------------------------------------------------------- pictures */

static espalier_status load_image(esi_gltf_reader *r, const esi_json *image, int32_t *index)
{
    esi_gltf_bytes bytes = {0};
    esi_texture texture = {0};
    const int64_t view = esi_gltf_int(image, "bufferView", -1);
    const char *uri = NULL;
    uint64_t stride;
    bool found = false;
    espalier_status st = ESPALIER_OK;

    *index = -1;
    if (view >= 0) {
        if (esi_gltf_view(r, view, &bytes.data, &bytes.size, &stride))
            st = esi_texture_decode(r->ctx, &texture, &found, bytes.data, (size_t)bytes.size, r->file->name);
    } else if (esi_json_string(esi_json_get(image, "uri"), &uri) && strncmp(uri, "data:", 5) == 0) {
        st = esi_gltf_uri(r, &bytes, uri);
        if (st == ESPALIER_OK && bytes.data)
            st = esi_texture_decode(r->ctx, &texture, &found, bytes.data, (size_t)bytes.size, r->file->name);
    } else if (uri) {
        st = esi_texture_load_beside(r->ctx, &texture, &found, r->file, uri);
    }
    if (st == ESPALIER_OK && found) st = esi_surface_add_texture(r->ctx, r->out, &texture, index);
    esi_free(r->ctx, texture.pixels);
    esi_gltf_bytes_free(r->ctx, &bytes);
    return st;
}

/* The picture of a texture reference {"index": n}; -1 without. Sampling goes into the material when `sampling`. */
static espalier_status read_texture(esi_gltf_reader *r, const esi_json *info, int32_t *index, esi_material *sampling)
{
    const esi_json *texture = info ? esi_gltf_at(r, "textures", esi_gltf_int(info, "index", -1)) : NULL;
    const esi_json *sampler = texture ? esi_gltf_at(r, "samplers", esi_gltf_int(texture, "sampler", -1)) : NULL;
    int64_t image = texture ? esi_gltf_int(texture, "source", -1) : -1;
    espalier_status st = ESPALIER_OK;

    *index = -1;
    if (image < 0 && texture) image = esi_gltf_int(extension(texture, "EXT_texture_webp"), "source", -1);
    if (!esi_gltf_at(r, "images", image)) return ESPALIER_OK;
    if (r->texture_of_image[image] == -2) st = load_image(r, esi_gltf_at(r, "images", image), &r->texture_of_image[image]);
    if (st != ESPALIER_OK) return st;
    *index = r->texture_of_image[image];
    if (!sampling) return st;
    switch (esi_gltf_int(sampler, "wrapS", 10497)) {
    case 33071: sampling->wrap = ESI_WRAP_CLAMP; break;
    case 33648: sampling->wrap = ESI_WRAP_MIRROR; break;
    default: sampling->wrap = ESI_WRAP_REPEAT;
    }
    sampling->nearest = esi_gltf_int(sampler, "magFilter", 9729) == 9728;
    return st;
}

/* --------------------------------------------------------------- materials */

static espalier_status read_glossy(esi_gltf_reader *r, const esi_json *glossy, esi_material *out)
{
    out->metallic = 0.0f;
    out->roughness = 1.0f - number(glossy, "glossinessFactor", 1.0f, 0.0, 1.0);
    numbers(esi_json_get(glossy, "diffuseFactor"), out->base_color, 4);
    return read_texture(r, esi_json_get(glossy, "diffuseTexture"), &out->base_color_texture, out);
}

static espalier_status read_material(esi_gltf_reader *r, const esi_json *json, esi_material *out)
{
    const esi_json *pbr = esi_json_get(json, "pbrMetallicRoughness"), *glossy = extension(json, "KHR_materials_pbrSpecularGlossiness");
    const char *text;
    int32_t occlusion = -1;
    espalier_status st;

    *out = esi_material_default();
    if (esi_json_string(esi_json_get(json, "name"), &text)) {
        snprintf(out->name, sizeof out->name, "%.63s", text);
        esi_clean_line(out->name);
    }
    numbers(esi_json_get(pbr, "baseColorFactor"), out->base_color, 4);
    out->metallic = number(pbr, "metallicFactor", 1.0f, 0.0, 1.0);
    out->roughness = number(pbr, "roughnessFactor", 1.0f, 0.0, 1.0);
    numbers(esi_json_get(json, "emissiveFactor"), out->emissive, 3);
    out->alpha_cutoff = number(json, "alphaCutoff", 0.5f, 0.0, 1e6);
    (void)esi_json_bool(esi_json_get(json, "doubleSided"), &out->double_sided);
    if (esi_json_string(esi_json_get(json, "alphaMode"), &text))
        out->alpha_mode = !strcmp(text, "MASK") ? ESI_ALPHA_MASK : !strcmp(text, "BLEND") ? ESI_ALPHA_BLEND : ESI_ALPHA_OPAQUE;
    if (extension(json, "KHR_materials_unlit")) out->metallic = 0.0f;

    /* Last counts the base colour's sampler: the order is that of rising importance. */
    st = read_texture(r, esi_json_get(json, "emissiveTexture"), &out->emissive_texture, out);
    if (st == ESPALIER_OK) st = read_texture(r, esi_json_get(json, "normalTexture"), &out->normal_texture, out);
    if (st == ESPALIER_OK) st = read_texture(r, esi_json_get(pbr, "metallicRoughnessTexture"), &out->metallic_roughness_texture, out);
    if (st == ESPALIER_OK && out->metallic_roughness_texture >= 0)
        st = read_texture(r, esi_json_get(json, "occlusionTexture"), &occlusion, NULL);
    out->occlusion = occlusion >= 0 && occlusion == out->metallic_roughness_texture;
    if (st == ESPALIER_OK) st = read_texture(r, esi_json_get(pbr, "baseColorTexture"), &out->base_color_texture, out);
    if (st == ESPALIER_OK && glossy && !pbr) st = read_glossy(r, glossy, out);
    return st;
}

espalier_status esi_gltf_materials(esi_gltf_reader *r)
{
    const esi_json *materials = esi_json_get(r->root, "materials");
    const size_t n = esi_json_is_array(materials) ? esi_json_size(materials) : 0, n_images = esi_json_size(esi_json_get(r->root, "images"));
    espalier_status st = ESPALIER_OK;

    if (n > INT32_MAX - 1) return esi_gltf_damaged(r, "too many materials");
    r->default_material = -1;
    r->texture_of_image = esi_alloc(r->ctx, n_images, sizeof *r->texture_of_image, "textures");
    r->out->materials = esi_alloc(r->ctx, n + 1, sizeof *r->out->materials, "materials");
    if (!r->texture_of_image || !r->out->materials) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n_images; i++) r->texture_of_image[i] = -2;
    for (size_t i = 0; st == ESPALIER_OK && i < n; i++) {
        st = read_material(r, esi_json_at(materials, i), &r->out->materials[i]);
        r->out->n_materials = (int32_t)i + 1;
    }
    return st;
}

espalier_status esi_gltf_default_material(esi_gltf_reader *r, int32_t *index)
{
    if (r->default_material < 0) {
        r->default_material = r->out->n_materials++;           /* esi_gltf_materials() left room for it */
        r->out->materials[r->default_material] = esi_material_default();
    }
    *index = r->default_material;
    return ESPALIER_OK;
}

/* u' = translation * rotation * scale * u, as KHR_texture_transform has it. */
static void read_transform(const esi_json *json, esi_gltf_uv *out)
{
    double offset[2] = {0, 0}, scale[2] = {1, 1}, angle = 0, s, c;

    for (size_t i = 0; i < 2; i++) {
        (void)esi_json_double(esi_json_at(esi_json_get(json, "offset"), i), &offset[i]);
        (void)esi_json_double(esi_json_at(esi_json_get(json, "scale"), i), &scale[i]);
    }
    (void)esi_json_double(esi_json_get(json, "rotation"), &angle);
    s = esi_sin(angle);
    c = esi_cos(angle);
    const double m[6] = {c * scale[0], s * scale[1], offset[0], -s * scale[0], c * scale[1], offset[1]};
    memcpy(out->matrix, m, sizeof m);
    out->set = (int)ESI_MIN(esi_gltf_int(json, "texCoord", out->set), 64);
}

esi_gltf_uv esi_gltf_uv_of(const esi_gltf_reader *r, int64_t material)
{
    esi_gltf_uv uv = {.matrix = {1, 0, 0, 0, 1, 0}};
    const esi_json *json = esi_gltf_at(r, "materials", material), *pbr = esi_json_get(json, "pbrMetallicRoughness");
    const esi_json *infos[] = {esi_json_get(pbr, "baseColorTexture"),
                               esi_json_get(extension(json, "KHR_materials_pbrSpecularGlossiness"), "diffuseTexture"),
                               esi_json_get(pbr, "metallicRoughnessTexture"), esi_json_get(json, "normalTexture"),
                               esi_json_get(json, "emissiveTexture")};

    /* One set for all: that of the first picture there is. */
    for (size_t i = 0; i < ESI_COUNT(infos); i++) {
        const esi_json *moved = extension(infos[i], "KHR_texture_transform");

        if (!infos[i]) continue;
        uv.set = (int)ESI_MIN(ESI_MAX(esi_gltf_int(infos[i], "texCoord", 0), INT64_C(0)), INT64_C(64));
        if (moved) read_transform(moved, &uv);
        break;
    }
    return uv;
}
