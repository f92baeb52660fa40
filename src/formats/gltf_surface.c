/* SPDX-License-Identifier: MIT
 *
 * gltf_surface.c: surface -> .glb or .gltf through gltf_write.c: one primitive per material in use, all over the same vertices.
 */
#include "base/srgb.h"
#include "formats/bytes.h"
#include "formats/gltf_write.h"

#include <stdio.h>

#define MAX_ATTRIBUTES 5

typedef struct surface_source {
    esi_export *e;
    int32_t *order;                /* faces by material; NULL: as they are */
    int64_t *starts;
    uint16_t linear[256];          /* sRGB byte -> light, 16 bits */
    esi_gltf_array *arrays;
    size_t n_arrays, n_primitives;
    esi_material *materials;       /* that faces use */
    int32_t n_materials;
    esi_gltf_picture *pictures;
    size_t n_pictures;
    int32_t *picture_of;
} surface_source;

/* ------------------------------------------------------------------ arrays */

static void fill_indices(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const surface_source *s = source;

    for (int64_t i = first; i < first + count; i++, out += array->size) {
        const int64_t place = array->offset + i / 3, face = s->order ? s->order[place] : place;
        const uint32_t index = (uint32_t)s->e->surface->mesh.faces[3 * face + i % 3];

        for (uint32_t b = 0; b < array->size; b++) out[b] = (uint8_t)(index >> (8 * b));
    }
}

static void fill_positions(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const surface_source *s = source;

    (void)array;
    for (int64_t v = first; v < first + count; v++) {
        float p[3];

        esi_export_position(s->e, v, p);
        for (int k = 0; k < 3; k++, out += 4) esi_store_f32le(out, p[k]);
    }
}

static void fill_normals(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const surface_source *s = source;

    (void)array;
    for (int64_t v = first; v < first + count; v++) {
        float n[3];

        esi_export_direction(s->e, s->e->surface->normals + 3 * v, n);
        for (int k = 0; k < 3; k++, out += 4) esi_store_f32le(out, n[k]);
    }
}

static void fill_tangents(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const surface_source *s = source;

    (void)array;
    for (int64_t v = first; v < first + count; v++) {
        const float *from = s->e->surface->tangents + 4 * v;
        float t[3];

        esi_export_direction(s->e, from, t);
        for (int k = 0; k < 3; k++, out += 4) esi_store_f32le(out, t[k]);
        esi_store_f32le(out, from[3] < 0.0f ? -1.0f : 1.0f);
        out += 4;
    }
}

static void fill_uvs(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const surface_source *s = source;

    (void)array;
    for (int64_t i = 2 * first; i < 2 * (first + count); i++, out += 4) esi_store_f32le(out, s->e->surface->uvs[i]);
}

static void fill_colors(void *source, const esi_gltf_array *array, int64_t first, int64_t count, uint8_t *out)
{
    const surface_source *s = source;

    (void)array;
    for (int64_t i = 4 * first; i < 4 * (first + count); i++, out += 2) {
        const uint8_t c = s->e->surface->colors[i];
        const unsigned wide = i % 4 == 3 ? c * 257u : s->linear[c];      /* alpha is no light */

        out[0] = (uint8_t)wide;
        out[1] = (uint8_t)(wide >> 8);
    }
}

static void measure(const surface_source *s, esi_gltf_array *a)
{
    for (int64_t v = 0; v < s->e->surface->mesh.n_vertices; v++) {
        float p[3];

        esi_export_position(s->e, v, p);
        for (int k = 0; k < 3; k++) {
            a->min[k] = v == 0 || p[k] < a->min[k] ? p[k] : a->min[k];
            a->max[k] = v == 0 || p[k] > a->max[k] ? p[k] : a->max[k];
        }
    }
}

static void add_attribute(surface_source *s, const char *name, const char *type, int component, uint32_t size, esi_gltf_fill fill)
{
    s->arrays[s->n_arrays++] = (esi_gltf_array){.attribute = name, .component = component, .type = type, .size = size,
                                                .normalized = component == ESI_GLTF_U16, .count = s->e->surface->mesh.n_vertices,
                                                .fill = fill};
}

static bool normal_mapped(const surface_source *s)
{
    for (int32_t i = 0; i < s->n_materials; i++) {
        if (s->materials[i].normal_texture >= 0) return true;
    }
    return false;
}

/* One primitive per material that has faces. */
static espalier_status make_arrays(surface_source *s)
{
    const esi_surface *f = s->e->surface;
    const int32_t n = esi_export_material_count(f);
    const bool small = f->mesh.n_vertices <= 65535;      /* the largest index is reserved */

    s->arrays = esi_calloc(s->e->ctx, (size_t)n + MAX_ATTRIBUTES, sizeof *s->arrays, "glTF arrays");
    s->materials = esi_alloc(s->e->ctx, (size_t)n, sizeof *s->materials, "materials");
    if (!s->arrays || !s->materials) return ESPALIER_ERR_RESOURCE;
    for (int32_t m = 0; m < n; m++) {
        if (s->starts[m] == s->starts[m + 1]) continue;
        s->arrays[s->n_arrays++] = (esi_gltf_array){
            .component = small ? ESI_GLTF_U16 : ESI_GLTF_U32, .type = "SCALAR", .size = small ? 2 : 4, .fill = fill_indices,
            .count = 3 * (s->starts[m + 1] - s->starts[m]), .offset = s->starts[m], .material = s->n_materials};
        s->materials[s->n_materials++] = esi_export_material(f, m);
    }
    s->n_primitives = s->n_arrays;
    add_attribute(s, "POSITION", "VEC3", ESI_GLTF_F32, 12, fill_positions);
    s->arrays[s->n_primitives].bounds = true;
    measure(s, &s->arrays[s->n_primitives]);
    if (f->normals) add_attribute(s, "NORMAL", "VEC3", ESI_GLTF_F32, 12, fill_normals);
    if (f->normals && f->tangents && normal_mapped(s)) add_attribute(s, "TANGENT", "VEC4", ESI_GLTF_F32, 16, fill_tangents);
    if (f->uvs) add_attribute(s, "TEXCOORD_0", "VEC2", ESI_GLTF_F32, 8, fill_uvs);
    if (f->colors) add_attribute(s, "COLOR_0", "VEC4", ESI_GLTF_U16, 8, fill_colors);
    return ESPALIER_OK;
}

/* ---------------------------------------------------------------- pictures */

static espalier_status add_picture(surface_source *s, int32_t texture, esi_texture_format format, int32_t fallback)
{
    esi_gltf_picture *p = &s->pictures[s->n_pictures];
    const espalier_status st = esi_export_encode(s->e, &p->bytes, &p->size, &s->e->surface->textures[texture], format);

    p->fallback = fallback;
    if (st == ESPALIER_OK) s->picture_of[texture] = (int32_t)s->n_pictures++;
    return st;
}

static espalier_status encode_texture(surface_source *s, int32_t texture)
{
    const esi_texture_format format = s->e->options->texture_format;
    espalier_status st;

    if (texture < 0 || s->picture_of[texture] >= 0 || !s->e->surface->uvs) return ESPALIER_OK;
    st = add_picture(s, texture, format == ESI_TEXTURE_JPEG ? ESI_TEXTURE_JPEG : ESI_TEXTURE_PNG, -1);
    if (st == ESPALIER_OK && format == ESI_TEXTURE_WEBP) st = add_picture(s, texture, ESI_TEXTURE_WEBP, s->picture_of[texture]);
    return st;
}

static espalier_status make_pictures(surface_source *s)
{
    const int32_t n = s->e->surface->n_textures;
    espalier_status st = ESPALIER_OK;

    s->pictures = esi_calloc(s->e->ctx, 2 * (size_t)n, sizeof *s->pictures, "glTF pictures");
    s->picture_of = esi_alloc(s->e->ctx, (size_t)n, sizeof *s->picture_of, "glTF pictures");
    if (!s->pictures || !s->picture_of) return ESPALIER_ERR_RESOURCE;
    for (int32_t i = 0; i < n; i++) s->picture_of[i] = -1;
    for (int32_t i = 0; st == ESPALIER_OK && i < s->n_materials; i++) {
        const esi_material *m = &s->materials[i];
        const int32_t textures[4] = {m->base_color_texture, m->metallic_roughness_texture, m->normal_texture, m->emissive_texture};

        for (int k = 0; st == ESPALIER_OK && k < 4; k++) st = encode_texture(s, textures[k]);
    }
    return st;
}

/* ------------------------------------------------------------------- extras */

static espalier_status build_extras(esi_export *e, esi_text *t)
{
    const char *const *extras = e->options->extras;

    if (!extras || !extras[0]) return ESPALIER_OK;
    for (size_t i = 0; extras[i] && extras[i + 1]; i += 2) {
        esi_text_append(e->ctx, t, i ? "," : "{");
        esi_text_append_json_string(e->ctx, t, extras[i]);
        esi_text_append(e->ctx, t, ":");
        esi_text_append_bytes(e->ctx, t, extras[i + 1], strlen(extras[i + 1]));
    }
    esi_text_append_bytes(e->ctx, t, "}", 2);    /* with its NUL */
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

espalier_status esi_surface_write_gltf(esi_export *e)
{
    surface_source s = {.e = e};
    esi_text extras = {0};
    espalier_status st = esi_export_group(e, &s.order, &s.starts);

    for (int i = 0; i < 256; i++) s.linear[i] = (uint16_t)(esi_srgb_decode(i / 255.0) * 65535.0 + 0.5);
    if (st == ESPALIER_OK) st = make_arrays(&s);
    if (st == ESPALIER_OK) st = make_pictures(&s);
    if (st == ESPALIER_OK) st = build_extras(e, &extras);
    if (st == ESPALIER_OK) {
        const esi_gltf document = {.ctx = e->ctx, .path = e->path, .generator = esi_export_generator(), .extras = extras.data,
                                   .arrays = s.arrays, .n_arrays = s.n_arrays, .n_primitives = s.n_primitives, .source = &s,
                                   .materials = s.materials, .n_materials = s.n_materials, .pictures = s.pictures,
                                   .n_pictures = s.n_pictures, .picture_of = s.picture_of};
        const char *suffix = esi_path_suffix(e->path);

        st = esi_gltf_write(&document, &e->files, strlen(suffix) == 4);       /* ".glb", ".gltf" in any case */
    }
    for (size_t i = 0; s.pictures && i < s.n_pictures; i++) esi_free(e->ctx, s.pictures[i].bytes);
    esi_free(e->ctx, s.pictures);
    esi_free(e->ctx, s.picture_of);
    esi_free(e->ctx, s.materials);
    esi_free(e->ctx, s.arrays);
    esi_free(e->ctx, s.order);
    esi_free(e->ctx, s.starts);
    esi_text_free(e->ctx, &extras);
    return st;
}
