/* SPDX-License-Identifier: MIT
 *
 * surface_materials.c: materials of an assimp scene -> metallic-roughness materials and pictures.
 *
 * Formats older than physically based shading say diffuse colour and opacity: that becomes a rough material without metal. A picture that
 * several materials use is read once.
 */
#include "formats/surface_assimp.h"

#include <assimp/GltfMaterial.h>
#include <assimp/cimport.h>
#include <assimp/material.h>

#include <math.h>
#include <stdio.h>

#define MAX_SIDE_RAW 16384u        /* of a picture that lies in the scene as pixels */

typedef struct picture {
    char *reference;
    int32_t index;                 /* -1: not to be had */
} picture;

typedef struct material_reader {
    espalier_context *ctx;
    esi_surface *out;
    const struct aiScene *scene;
    const esi_mesh_file *file;
    picture *pictures;
    size_t n_pictures;
} material_reader;

static float factor(const struct aiMaterial *m, const char *key, unsigned type, unsigned n, float fallback)
{
    ai_real value;
    unsigned count = 1;

    if (aiGetMaterialFloatArray(m, key, type, n, &value, &count) != aiReturn_SUCCESS || count != 1 || !isfinite(value)) return fallback;
    return ESI_MIN(ESI_MAX(value, 0.0f), 1.0f);
}

static int integer(const struct aiMaterial *m, const char *key, unsigned type, unsigned n, int fallback)
{
    int value;
    unsigned count = 1;

    return aiGetMaterialIntegerArray(m, key, type, n, &value, &count) == aiReturn_SUCCESS && count == 1 ? value : fallback;
}

static bool color(const struct aiMaterial *m, const char *key, unsigned type, unsigned n, float *out, int channels)
{
    struct aiColor4D c = {0};

    if (aiGetMaterialColor(m, key, type, n, &c) != aiReturn_SUCCESS) return false;
    const float values[4] = {c.r, c.g, c.b, c.a};
    for (int i = 0; i < channels; i++) {
        if (!isfinite(values[i])) return false;
        out[i] = ESI_MIN(ESI_MAX(values[i], 0.0f), 1.0f);
    }
    return true;
}

/* ---------------------------------------------------------------- pictures */

/* Pixels of a scene are BGRA. */
static espalier_status copy_pixels(espalier_context *ctx, esi_texture *out, bool *found, const struct aiTexture *t)
{
    *found = false;
    if (!t->pcData || t->mWidth == 0 || t->mWidth > MAX_SIDE_RAW || t->mHeight > MAX_SIDE_RAW) return ESPALIER_OK;
    out->pixels = esi_alloc(ctx, (size_t)t->mWidth * t->mHeight, 4, "a texture");
    if (!out->pixels) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < (size_t)t->mWidth * t->mHeight; i++) {
        out->pixels[4 * i] = t->pcData[i].r;
        out->pixels[4 * i + 1] = t->pcData[i].g;
        out->pixels[4 * i + 2] = t->pcData[i].b;
        out->pixels[4 * i + 3] = t->pcData[i].a;
    }
    out->width = t->mWidth;
    out->height = t->mHeight;
    out->channels = 4;
    *found = true;
    return ESPALIER_OK;
}

static const struct aiTexture *embedded(const struct aiScene *scene, const char *reference)
{
    unsigned long index = 0;

    if (reference[0] == '*') {
        for (const char *c = reference + 1; *c >= '0' && *c <= '9' && index < scene->mNumTextures; c++)
            index = index * 10 + (unsigned)(*c - '0');
        return index < scene->mNumTextures ? scene->mTextures[index] : NULL;
    }
    for (unsigned i = 0; i < scene->mNumTextures; i++) {
        const char *name = scene->mTextures[i]->mFilename.data;

        if (name[0] && strcmp(esi_path_name(name), esi_path_name(reference)) == 0) return scene->mTextures[i];
    }
    return NULL;
}

static espalier_status load_picture(material_reader *r, const char *reference, int32_t *index)
{
    const struct aiTexture *t = embedded(r->scene, reference);
    esi_texture texture = {0};
    bool found = false;
    espalier_status st;

    *index = -1;
    if (!t)
        st = esi_texture_load_beside(r->ctx, &texture, &found, r->file, reference);
    else if (t->mHeight == 0)
        st = esi_texture_decode(r->ctx, &texture, &found, t->pcData, t->mWidth, r->file->name);
    else
        st = copy_pixels(r->ctx, &texture, &found, t);
    if (st == ESPALIER_OK && found) st = esi_surface_add_texture(r->ctx, r->out, &texture, index);
    esi_free(r->ctx, texture.pixels);
    return st;
}

static espalier_status find_picture(material_reader *r, const char *reference, int32_t *index)
{
    espalier_status st;
    picture *pictures;

    for (size_t i = 0; i < r->n_pictures; i++) {
        if (strcmp(r->pictures[i].reference, reference) != 0) continue;
        *index = r->pictures[i].index;
        return ESPALIER_OK;
    }
    st = load_picture(r, reference, index);
    if (st != ESPALIER_OK) return st;
    pictures = esi_realloc(r->ctx, r->pictures, r->n_pictures + 1, sizeof *pictures, "textures");
    if (!pictures) return ESPALIER_ERR_RESOURCE;
    r->pictures = pictures;
    pictures[r->n_pictures].reference = esi_strdup(r->ctx, reference);
    pictures[r->n_pictures].index = *index;
    return pictures[r->n_pictures++].reference ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status read_picture(material_reader *r, const struct aiMaterial *m, enum aiTextureType type, int32_t *index)
{
    struct aiString reference;

    *index = -1;
    if (aiGetMaterialTexture(m, type, 0, &reference, NULL, NULL, NULL, NULL, NULL, NULL) != aiReturn_SUCCESS || !reference.data[0])
        return ESPALIER_OK;
    return find_picture(r, reference.data, index);
}

static void read_sampling(const struct aiMaterial *m, enum aiTextureType type, esi_material *out)
{
    switch (integer(m, AI_MATKEY_MAPPINGMODE_U(type, 0), aiTextureMapMode_Wrap)) {
    case aiTextureMapMode_Clamp: out->wrap = ESI_WRAP_CLAMP; break;
    case aiTextureMapMode_Mirror: out->wrap = ESI_WRAP_MIRROR; break;
    default: out->wrap = ESI_WRAP_REPEAT;
    }
    out->nearest = integer(m, AI_MATKEY_GLTF_MAPPINGFILTER_MAG(type, 0), 9729) == 9728;      /* as OpenGL numbers them */
}

/* --------------------------------------------------------------- materials */

static espalier_status read_pictures(material_reader *r, const struct aiMaterial *m, esi_material *out)
{
    enum aiTextureType base = aiTextureType_BASE_COLOR;
    int32_t occlusion = -1;
    espalier_status st = read_picture(r, m, base, &out->base_color_texture);

    if (st == ESPALIER_OK && out->base_color_texture < 0) st = read_picture(r, m, base = aiTextureType_DIFFUSE, &out->base_color_texture);
    if (st == ESPALIER_OK) read_sampling(m, base, out);
    if (st == ESPALIER_OK) st = read_picture(r, m, aiTextureType_UNKNOWN, &out->metallic_roughness_texture);
    if (st == ESPALIER_OK) st = read_picture(r, m, aiTextureType_NORMALS, &out->normal_texture);
    if (st == ESPALIER_OK) st = read_picture(r, m, aiTextureType_EMISSIVE, &out->emissive_texture);
    if (st == ESPALIER_OK && out->metallic_roughness_texture >= 0) st = read_picture(r, m, aiTextureType_LIGHTMAP, &occlusion);
    out->occlusion = occlusion >= 0 && occlusion == out->metallic_roughness_texture;
    return st;
}

static espalier_status read_material(material_reader *r, const struct aiMaterial *m, esi_material *out)
{
    struct aiString text;
    const bool physical = color(m, AI_MATKEY_BASE_COLOR, out->base_color, 4);
    float opacity;

    *out = esi_material_default();
    if (aiGetMaterialString(m, AI_MATKEY_NAME, &text) == aiReturn_SUCCESS) {
        snprintf(out->name, sizeof out->name, "%.63s", text.data);
        esi_clean_line(out->name);
    }
    if (physical) {
        (void)color(m, AI_MATKEY_BASE_COLOR, out->base_color, 4);
    } else {
        (void)color(m, AI_MATKEY_COLOR_DIFFUSE, out->base_color, 3);
        opacity = factor(m, AI_MATKEY_OPACITY, 1.0f);
        out->base_color[3] = opacity;
        if (opacity < 1.0f) out->alpha_mode = ESI_ALPHA_BLEND;
    }
    out->metallic = factor(m, AI_MATKEY_METALLIC_FACTOR, physical ? 1.0f : 0.0f);
    out->roughness = factor(m, AI_MATKEY_ROUGHNESS_FACTOR, 1.0f);
    (void)color(m, AI_MATKEY_COLOR_EMISSIVE, out->emissive, 3);
    out->alpha_cutoff = factor(m, AI_MATKEY_GLTF_ALPHACUTOFF, 0.5f);
    if (aiGetMaterialString(m, AI_MATKEY_GLTF_ALPHAMODE, &text) == aiReturn_SUCCESS)
        out->alpha_mode = !strcmp(text.data, "MASK") ? ESI_ALPHA_MASK : !strcmp(text.data, "BLEND") ? ESI_ALPHA_BLEND : ESI_ALPHA_OPAQUE;
    out->double_sided = integer(m, AI_MATKEY_TWOSIDED, 0) != 0;
    return read_pictures(r, m, out);
}

espalier_status esi_assimp_materials(espalier_context *ctx, esi_surface *out, const struct aiScene *scene, const esi_mesh_file *file)
{
    material_reader r = {.ctx = ctx, .out = out, .scene = scene, .file = file};
    espalier_status st = ESPALIER_OK;

    if (scene->mNumMaterials == 0) return ESPALIER_OK;
    out->materials = esi_alloc(ctx, scene->mNumMaterials, sizeof *out->materials, "materials");
    if (!out->materials) return ESPALIER_ERR_RESOURCE;
    for (unsigned i = 0; st == ESPALIER_OK && i < scene->mNumMaterials; i++) {
        st = read_material(&r, scene->mMaterials[i], &out->materials[i]);
        out->n_materials = (int32_t)i + 1;
    }
    for (size_t i = 0; i < r.n_pictures; i++) esi_free(ctx, r.pictures[i].reference);
    esi_free(ctx, r.pictures);
    return st;
}
