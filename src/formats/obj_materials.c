/* SPDX-License-Identifier: MIT
 *
 * obj_materials.c: material libraries of OBJ (.mtl): the classic keys and the PBR extension (Pr, Pm, map_Pr, map_Pm, norm). Roughness and
 * metal come as two gray pictures and become one; so do colour and alpha.
 */
#include "formats/obj_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_MATERIALS 1000000
#define POLL 65536                 /* lines between two looks at the cancel flag */

esi_obj_name esi_obj_rest(esi_scan *line)
{
    esi_obj_name name;

    esi_scan_blanks(line, false);
    name = (esi_obj_name){(const char *)line->at, (size_t)(line->end - line->at)};
    while (name.len > 0 && (unsigned char)name.text[name.len - 1] <= ' ') name.len--;
    return name;
}

bool esi_obj_line(esi_scan *text, esi_scan *line)
{
    line->at = text->at;
    if (text->at == text->end) return false;
    (void)esi_scan_line(text);
    line->end = text->at;
    while (line->end > line->at && (line->end[-1] == '\n' || line->end[-1] == '\r')) line->end--;
    return true;
}

/* ------------------------------------------------------------------ parsing */

static void read_unit(esi_scan *line, float *out, int n)
{
    double v;

    for (int i = 0; i < n && esi_scan_number(line, &v); i++) out[i] = v > 0.0 ? (v < 1.0 ? (float)v : 1.0f) : 0.0f;
}

/* "-clamp on -s 1 1 1 picture name.png": options take the words behind them that are numbers, "on" or "off"; some take a letter. */
static esi_obj_name read_map(esi_scan *line, esi_material *m)
{
    for (;;) {
        const uint8_t *start;
        const char *word;
        size_t len;
        double v;
        bool clamp, letter;

        esi_scan_blanks(line, false);
        start = line->at;
        if (!esi_scan_word(line, &word, &len) || word[0] != '-' || len < 2) {
            line->at = start;
            return esi_obj_rest(line);
        }
        clamp = esi_word_is(word, len, "-clamp");
        letter = esi_word_is(word, len, "-imfchan") || esi_word_is(word, len, "-type");
        for (;;) {
            start = line->at;
            if (!esi_scan_word(line, &word, &len)) break;
            if (clamp && esi_word_is(word, len, "on")) m->wrap = ESI_WRAP_CLAMP;
            if (letter || esi_word_is(word, len, "on") || esi_word_is(word, len, "off") || esi_parse_number(word, len, &v)) {
                letter = false;
                continue;
            }
            line->at = start;
            break;
        }
    }
}

static void read_key(esi_obj_material *m, const char *key, size_t len, esi_scan *line)
{
    double v;

    if (esi_word_is(key, len, "Kd")) {
        read_unit(line, m->values.base_color, 3);
    } else if (esi_word_is(key, len, "Ke")) {
        read_unit(line, m->values.emissive, 3);
    } else if (esi_word_is(key, len, "d")) {
        read_unit(line, &m->values.base_color[3], 1);
    } else if (esi_word_is(key, len, "Tr")) {
        float clear = 0.0f;

        read_unit(line, &clear, 1);
        m->values.base_color[3] = 1.0f - clear;
    } else if (esi_word_is(key, len, "Pr")) {
        read_unit(line, &m->values.roughness, 1);
    } else if (esi_word_is(key, len, "Pm")) {
        read_unit(line, &m->values.metallic, 1);
    } else if (esi_word_is(key, len, "Ns")) {
        /* Blinn's exponent; libraries with Pr say it more exactly further down. */
        if (esi_scan_number(line, &v) && v >= 0.0) m->values.roughness = (float)sqrt(2.0 / (ESI_MIN(v, 1e6) + 2.0));
    } else if (esi_word_is(key, len, "map_Kd")) {
        m->color = read_map(line, &m->values);
    } else if (esi_word_is(key, len, "map_Ke")) {
        m->emissive = read_map(line, &m->values);
    } else if (esi_word_is(key, len, "map_Pr")) {
        m->roughness = read_map(line, &m->values);
    } else if (esi_word_is(key, len, "map_Pm")) {
        m->metallic = read_map(line, &m->values);
    } else if (esi_word_is(key, len, "map_d")) {
        m->alpha = read_map(line, &m->values);
    } else if (esi_word_is(key, len, "norm")) {
        m->normal = read_map(line, &m->values);
    }
}

static espalier_status add_material(espalier_context *ctx, esi_obj_library *l, const esi_mesh_file *file, esi_obj_name name)
{
    esi_obj_material *m;

    if (l->count == l->capacity) {
        const size_t capacity = l->capacity + l->capacity / 2 + 8;

        if (capacity > MAX_MATERIALS)
            return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: its libraries have more than %d materials", file->name, MAX_MATERIALS);
        m = esi_realloc(ctx, l->materials, capacity, sizeof *m, "materials");
        if (!m) return ESPALIER_ERR_RESOURCE;
        l->materials = m;
        l->capacity = capacity;
    }
    m = &l->materials[l->count++];
    memset(m, 0, sizeof *m);
    m->name = name;
    m->index = -1;
    m->values = esi_material_default();
    m->values.metallic = 0.0f;
    snprintf(m->values.name, sizeof m->values.name, "%.*s", (int)ESI_MIN(name.len, sizeof m->values.name - 1), name.text);
    esi_clean_line(m->values.name);
    return ESPALIER_OK;
}

static espalier_status parse_library(espalier_context *ctx, esi_obj_library *l, const esi_mesh_file *file, esi_scan text)
{
    const size_t before = l->count;
    espalier_status st = ESPALIER_OK;
    esi_scan line;
    const char *key;
    size_t len;

    for (uint64_t i = 0; st == ESPALIER_OK && esi_obj_line(&text, &line); i++) {
        if (i % POLL == 0) st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK || !esi_scan_word(&line, &key, &len) || key[0] == '#') continue;
        if (esi_word_is(key, len, "newmtl"))
            st = add_material(ctx, l, file, esi_obj_rest(&line));
        else if (l->count > before)
            read_key(&l->materials[l->count - 1], key, len, &line);
    }
    return st;
}

static char *name_text(espalier_context *ctx, esi_obj_name name)
{
    return esi_format(ctx, "%.*s", (int)ESI_MIN(name.len, (size_t)4096), name.text);
}

espalier_status esi_obj_library_add(espalier_context *ctx, esi_obj_library *l, const esi_mesh_file *file, esi_obj_name name)
{
    esi_file_map **maps, *map = NULL;
    char *text = name_text(ctx, name), *path = NULL;
    espalier_status st = text ? esi_path_beside(ctx, &path, file, text) : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK && path) st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_INPUT);
    if (st == ESPALIER_ERR_INPUT || (st == ESPALIER_OK && (!map || esi_file_map_size(map) > esi_limits(ctx)->max_file_bytes))) {
        esi_log(ctx, ESPALIER_LOG_WARNING, "%s: its materials in %.200s are not to be had; it is read without them", file->name, text);
        esi_clear_error(ctx);
        st = ESPALIER_OK;
        goto done;
    }
    if (st != ESPALIER_OK) goto done;
    maps = esi_realloc(ctx, l->maps, l->n_maps + 1, sizeof *maps, "materials");
    if (!maps) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    l->maps = maps;
    maps[l->n_maps++] = map;
    st = parse_library(ctx, l, file, (esi_scan){esi_file_map_data(map), esi_file_map_data(map) + esi_file_map_size(map)});
    map = NULL;
done:
    esi_file_map_release(map);
    esi_free(ctx, text);
    esi_free(ctx, path);
    return st;
}

/* ---------------------------------------------------------------- by name */

static int compare_names(esi_obj_name a, esi_obj_name b)
{
    const int order = memcmp(a.text, b.text, ESI_MIN(a.len, b.len));

    return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

/* Equal names: by place, which `index` holds until then. */
static int compare_materials(const void *a, const void *b)
{
    const esi_obj_material *x = a, *y = b;
    const int order = compare_names(x->name, y->name);

    return order != 0 ? order : x->index < y->index ? -1 : x->index > y->index;
}

void esi_obj_library_sort(esi_obj_library *l)
{
    for (size_t i = 0; i < l->count; i++) l->materials[i].index = (int32_t)i;
    if (l->count > 1) qsort(l->materials, l->count, sizeof *l->materials, compare_materials);
    for (size_t i = 0; i < l->count; i++) l->materials[i].index = -1;
}

esi_obj_material *esi_obj_library_find(esi_obj_library *l, esi_obj_name name)
{
    size_t low = 0, high = l->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (compare_names(l->materials[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->count && compare_names(l->materials[low].name, name) == 0 ? &l->materials[low] : NULL;
}

/* ---------------------------------------------------------------- pictures */

static espalier_status load(espalier_context *ctx, esi_texture *out, bool *found, const esi_mesh_file *file, esi_obj_name name)
{
    char *text;
    espalier_status st;

    memset(out, 0, sizeof *out);
    *found = false;
    if (!name.text || name.len == 0) return ESPALIER_OK;
    text = name_text(ctx, name);
    st = text ? esi_texture_load_beside(ctx, out, found, file, text) : ESPALIER_ERR_RESOURCE;
    esi_free(ctx, text);
    return st;
}

static espalier_status add(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file, esi_obj_name name, int32_t *index)
{
    esi_texture t;
    bool found;
    espalier_status st = load(ctx, &t, &found, file, name);

    if (st == ESPALIER_OK && found) st = esi_surface_add_texture(ctx, out, &t, index);
    esi_free(ctx, t.pixels);
    return st;
}

static bool same_size(const esi_texture *a, const esi_texture *b)
{
    return a->width == b->width && a->height == b->height;
}

/* Roughness -> G, metal -> B of one picture; a missing one is white, so that the factor counts. */
static espalier_status add_metallic_roughness(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file, esi_obj_material *m)
{
    esi_texture rough, metal, both = {0};
    bool has_rough = false, has_metal = false;
    espalier_status st = load(ctx, &rough, &has_rough, file, m->roughness);

    memset(&metal, 0, sizeof metal);
    if (st == ESPALIER_OK) st = load(ctx, &metal, &has_metal, file, m->metallic);
    if (st != ESPALIER_OK || (!has_rough && !has_metal)) goto done;
    if (has_rough && has_metal && !same_size(&rough, &metal)) {
        esi_log(ctx, ESPALIER_LOG_WARNING, "%s: roughness and metal of different size; the metal picture is left out", file->name);
        has_metal = false;
    }
    both = has_rough ? rough : metal;
    both.channels = 3;
    both.pixels = esi_alloc(ctx, (size_t)both.width * both.height, 3, "a texture");
    if (!both.pixels) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (size_t i = 0; i < (size_t)both.width * both.height; i++) {
        both.pixels[3 * i] = 255;
        both.pixels[3 * i + 1] = has_rough ? rough.pixels[i * rough.channels] : 255;
        both.pixels[3 * i + 2] = has_metal ? metal.pixels[i * metal.channels] : 255;
    }
    st = esi_surface_add_texture(ctx, out, &both, &m->values.metallic_roughness_texture);
done:
    esi_free(ctx, rough.pixels);
    esi_free(ctx, metal.pixels);
    esi_free(ctx, both.pixels);
    return st;
}

/* Alpha of its own picture into that of the colour. */
static espalier_status add_alpha(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file, esi_obj_material *m)
{
    esi_texture alpha, *color = m->values.base_color_texture >= 0 ? &out->textures[m->values.base_color_texture] : NULL;
    bool found;
    uint8_t *pixels;
    espalier_status st = load(ctx, &alpha, &found, file, m->alpha);

    if (st != ESPALIER_OK || !found || !color || !same_size(&alpha, color)) goto done;
    pixels = esi_alloc(ctx, (size_t)color->width * color->height, 4, "a texture");
    if (!pixels) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (size_t i = 0; i < (size_t)color->width * color->height; i++) {
        memcpy(pixels + 4 * i, color->pixels + i * color->channels, 3);
        pixels[4 * i + 3] = alpha.channels == 4 ? alpha.pixels[4 * i + 3] : alpha.pixels[i * alpha.channels];
    }
    esi_free(ctx, color->pixels);
    color->pixels = pixels;
    color->channels = 4;
    m->values.alpha_mode = ESI_ALPHA_BLEND;
done:
    esi_free(ctx, alpha.pixels);
    return st;
}

espalier_status esi_obj_library_finish(espalier_context *ctx, esi_obj_library *l, esi_surface *out, const esi_mesh_file *file)
{
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < l->count; i++) {
        esi_obj_material *m = &l->materials[i];

        if (!m->used) continue;
        if (m->values.base_color[3] < 1.0f) m->values.alpha_mode = ESI_ALPHA_BLEND;
        st = add(ctx, out, file, m->color, &m->values.base_color_texture);
        if (st == ESPALIER_OK && m->alpha.text) st = add_alpha(ctx, out, file, m);
        if (st == ESPALIER_OK) st = add_metallic_roughness(ctx, out, file, m);
        if (st == ESPALIER_OK) st = add(ctx, out, file, m->emissive, &m->values.emissive_texture);
        if (st == ESPALIER_OK) st = add(ctx, out, file, m->normal, &m->values.normal_texture);
        if (m->index >= 0) out->materials[m->index] = m->values;
    }
    return st;
}

void esi_obj_library_free(espalier_context *ctx, esi_obj_library *l)
{
    for (size_t i = 0; i < l->n_maps; i++) esi_file_map_release(l->maps[i]);
    esi_free(ctx, l->maps);
    esi_free(ctx, l->materials);
    memset(l, 0, sizeof *l);
}
