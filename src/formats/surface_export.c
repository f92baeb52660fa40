/* SPDX-License-Identifier: MIT
 *
 * surface_export.c: see the header.
 */
#include "formats/surface_export.h"

#include "base/srgb.h"
#include "formats/image_encode.h"
#include "formats/numbers.h"

#include <espalier/espalier.h>

#include <math.h>
#include <stdio.h>

#define FLUSH ((size_t)256 << 10)

/* ------------------------------------------------------------------- files */

espalier_status esi_file_set_open(esi_file_set *set, esi_writer **out, const char *path)
{
    esi_writer **writers;
    char **paths;
    espalier_status st;

    *out = NULL;
    writers = esi_realloc(set->ctx, set->writers, set->count + 1, sizeof *writers, "output files");
    if (!writers) return ESPALIER_ERR_RESOURCE;
    set->writers = writers;
    paths = esi_realloc(set->ctx, set->paths, set->count + 1, sizeof *paths, "output files");
    if (!paths) return ESPALIER_ERR_RESOURCE;
    set->paths = paths;
    paths[set->count] = esi_strdup(set->ctx, path);
    if (!paths[set->count]) return ESPALIER_ERR_RESOURCE;
    st = esi_writer_open(set->ctx, out, path);
    if (st != ESPALIER_OK) {
        esi_free(set->ctx, paths[set->count]);
        return st;
    }
    writers[set->count++] = *out;
    return ESPALIER_OK;
}

espalier_status esi_file_set_commit(esi_file_set *set)
{
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < set->count; i++) st = esi_writer_prepare(set->writers[i]);
    for (size_t i = set->count; st == ESPALIER_OK && i-- > 0;) {
        esi_writer *w = set->writers[i];

        set->writers[i] = NULL;
        st = esi_writer_commit(w);
        /* Only a rename can fail here. What has its name already is of no use without the rest. */
        for (size_t k = i + 1; st != ESPALIER_OK && k < set->count; k++) (void)remove(set->paths[k]);
    }
    return st;
}

void esi_file_set_free(esi_file_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        esi_writer_abort(set->writers[i]);
        esi_free(set->ctx, set->paths[i]);
    }
    esi_free(set->ctx, set->writers);
    esi_free(set->ctx, set->paths);
    set->writers = NULL;
    set->paths = NULL;
    set->count = 0;
}

char *esi_export_sibling(const esi_export *e, const char *ending)
{
    const size_t head = strlen(e->path) - strlen(esi_path_suffix(e->path));

    if (head > INT32_MAX) {
        (void)esi_fail(e->ctx, ESPALIER_ERR_OUTPUT, "the name of the output file is too long");
        return NULL;
    }
    return esi_format(e->ctx, "%.*s%s", (int)head, e->path, ending);
}

const char *esi_export_generator(void)
{
    return "espalier " ESPALIER_VERSION_STRING;
}

/* ---------------------------------------------------------------- geometry */

void esi_export_position(const esi_export *e, int64_t vertex, float out[3])
{
    const float *v = e->surface->mesh.vertices + 3 * vertex;
    float p[3];

    for (int i = 0; i < 3; i++) p[i] = (float)((double)v[i] * e->scale) + 0.0f;
    out[0] = p[0];
    out[1] = e->y_up ? p[2] : p[1];
    out[2] = e->y_up ? 0.0f - p[1] : p[2];
}

void esi_export_direction(const esi_export *e, const float *in, float out[3])
{
    const double x = (double)in[0], y = (double)in[1], z = (double)in[2], length = sqrt(x * x + y * y + z * z);
    const bool usable = length > 0.0 && length < INFINITY;
    const float n[3] = {usable ? (float)(x / length) : 0.0f, usable ? (float)(y / length) : 0.0f, usable ? (float)(z / length) : 1.0f};

    out[0] = n[0] + 0.0f;
    out[1] = (e->y_up ? n[2] : n[1]) + 0.0f;
    out[2] = e->y_up ? 0.0f - n[1] : n[2] + 0.0f;
}

/* Bits of a position, with one zero. */
static void position_bits(const esi_mesh *m, int64_t v, uint32_t out[3])
{
    for (int i = 0; i < 3; i++) {
        const float value = m->vertices[3 * v + i] + 0.0f;

        memcpy(&out[i], &value, sizeof value);
    }
}

static uint64_t hash_bits(const uint32_t bits[3])
{
    uint64_t h = bits[0] + UINT64_C(0x9E3779B97F4A7C15) * bits[1];

    h = (h ^ h >> 29) * UINT64_C(0xBF58476D1CE4E5B9) + bits[2];
    h = (h ^ h >> 32) * UINT64_C(0x94D049BB133111EB);
    return h ^ h >> 31;
}

espalier_status esi_export_weld(const esi_export *e, int32_t **out_map, int32_t **out_first, int64_t *count)
{
    const esi_mesh *m = &e->surface->mesh;
    const size_t n = (size_t)m->n_vertices;
    size_t slots = 16;
    int32_t *map = esi_alloc(e->ctx, n, sizeof *map, "vertex numbers"), *first = esi_alloc(e->ctx, n, sizeof *first, "vertex numbers");
    int32_t *table = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *out_map = *out_first = NULL;
    *count = 0;
    while (slots < n + n / 2) slots *= 2;
    table = esi_alloc(e->ctx, slots, sizeof *table, "vertex numbers");
    if (!map || !first || !table) goto done;
    memset(table, 0xff, slots * sizeof *table);
    for (size_t v = 0; v < n; v++) {
        uint32_t bits[3], other[3];
        size_t slot;

        position_bits(m, (int64_t)v, bits);
        for (slot = (size_t)hash_bits(bits) & (slots - 1); table[slot] >= 0; slot = (slot + 1) & (slots - 1)) {
            position_bits(m, first[table[slot]], other);
            if (memcmp(bits, other, sizeof bits) == 0) break;
        }
        if (table[slot] < 0) {
            first[*count] = (int32_t)v;
            table[slot] = (int32_t)(*count)++;
        }
        map[v] = table[slot];
    }
    st = ESPALIER_OK;
    *out_map = map;
    *out_first = first;
    map = first = NULL;
done:
    esi_free(e->ctx, map);
    esi_free(e->ctx, first);
    esi_free(e->ctx, table);
    return st;
}

/* --------------------------------------------------------------- materials */

int32_t esi_export_face_material(const esi_surface *s, int64_t face)
{
    return s->face_material ? s->face_material[face] : 0;
}

esi_material esi_export_material(const esi_surface *s, int32_t index)
{
    esi_material plain = esi_material_default();

    if (index < s->n_materials) return s->materials[index];
    plain.metallic = 0.0f;
    return plain;
}

int32_t esi_export_material_count(const esi_surface *s)
{
    return ESI_MAX(s->n_materials, 1);
}

espalier_status esi_export_group(const esi_export *e, int32_t **out_order, int64_t **out_starts)
{
    const esi_surface *s = e->surface;
    const int32_t n = esi_export_material_count(s);
    int64_t *starts = esi_calloc(e->ctx, (size_t)n + 1, sizeof *starts, "face groups");
    int32_t *order = NULL;

    *out_order = NULL;
    *out_starts = NULL;
    if (!starts) return ESPALIER_ERR_RESOURCE;
    if (n == 1) {
        starts[1] = s->mesh.n_faces;
        *out_starts = starts;
        return ESPALIER_OK;
    }
    order = esi_alloc(e->ctx, (size_t)s->mesh.n_faces, sizeof *order, "face groups");
    if (!order) {
        esi_free(e->ctx, starts);
        return ESPALIER_ERR_RESOURCE;
    }
    /* starts[m + 1] counts, then runs ahead to where group m + 1 begins. */
    for (int64_t f = 0; f < s->mesh.n_faces; f++) starts[esi_export_face_material(s, f) + 1]++;
    for (int32_t m = 0; m < n; m++) starts[m + 1] += starts[m];
    for (int64_t f = s->mesh.n_faces; f-- > 0;) order[--starts[esi_export_face_material(s, f) + 1]] = (int32_t)f;
    /* Now starts[m + 1] is the start of group m. */
    memmove(starts, starts + 1, (size_t)n * sizeof *starts);
    starts[n] = s->mesh.n_faces;
    *out_order = order;
    *out_starts = starts;
    return ESPALIER_OK;
}

/* ----------------------------------------------------------------- colours */

static int64_t wrap(double coordinate, uint32_t side, esi_wrap mode)
{
    const int64_t n = side, i = (int64_t)esi_floor(coordinate);
    int64_t r;

    if (mode == ESI_WRAP_CLAMP) return i < 0 ? 0 : i >= n ? n - 1 : i;
    if (mode == ESI_WRAP_REPEAT) return (i % n + n) % n;
    r = (i % (2 * n) + 2 * n) % (2 * n);
    return r < n ? r : 2 * n - 1 - r;
}

/* The mean of four texels around (u, v), in the bytes' own scale 0..255. */
static void sample(const esi_texture *t, const esi_material *m, const float *uv, double out[4])
{
    const double x = ESI_MIN(ESI_MAX((double)uv[0], -1e6), 1e6) * t->width - 0.5;
    const double y = ESI_MIN(ESI_MAX((double)uv[1], -1e6), 1e6) * t->height - 0.5;
    const double fx = x - esi_floor(x), fy = y - esi_floor(y);

    out[0] = out[1] = out[2] = 0.0;
    out[3] = t->channels == 2 || t->channels == 4 ? 0.0 : 255.0;
    for (int k = 0; k < 4; k++) {
        const int64_t px = wrap(x + (k & 1), t->width, m->wrap), py = wrap(y + (k >> 1), t->height, m->wrap);
        const uint8_t *p = t->pixels + ((size_t)py * t->width + (size_t)px) * t->channels;
        const double weight = (k & 1 ? fx : 1.0 - fx) * (k >> 1 ? fy : 1.0 - fy);

        for (uint32_t c = 0; c < 3; c++) out[c] += weight * p[t->channels >= 3 ? c : 0];
        if (t->channels == 2 || t->channels == 4) out[3] += weight * p[t->channels - 1];
    }
}

static uint8_t to_byte(double v)
{
    return (uint8_t)(v > 0.0 ? (v < 1.0 ? v * 255.0 + 0.5 : 255.0) : 0.0);
}

static void vertex_color(const esi_export *e, int64_t v, const esi_material *m, uint8_t out[4])
{
    const esi_surface *s = e->surface;
    double texel[4] = {255.0, 255.0, 255.0, 255.0};
    const bool textured = m->base_color_texture >= 0 && s->uvs;

    if (textured) sample(&s->textures[m->base_color_texture], m, s->uvs + 2 * v, texel);
    for (int c = 0; c < 4; c++) {
        const double factor = (double)m->base_color[c], own = s->colors ? s->colors[4 * v + c] / 255.0 : 1.0;

        if (c < 3 && factor == 1.0 && (!s->colors || !textured))      /* nothing to mix: no decoding and encoding */
            out[c] = to_byte(own * texel[c] / 255.0);
        else if (c < 3)
            out[c] = to_byte(esi_srgb_encode(esi_srgb_decode(texel[c] / 255.0) * esi_srgb_decode(own) *
                                             ESI_MIN(ESI_MAX(factor, 0.0), 1.0)));
        else
            out[c] = to_byte(texel[c] / 255.0 * own * factor);
    }
}

/* White is no colour. */
static bool any_color(const esi_surface *s)
{
    if (s->colors) return true;
    for (int32_t i = 0; i < s->n_materials; i++) {
        const esi_material *m = &s->materials[i];

        if (m->base_color_texture >= 0 && s->uvs) return true;
        for (int c = 0; c < 4; c++) {
            if (m->base_color[c] != 1.0f) return true;
        }
    }
    return false;
}

espalier_status esi_export_colors(const esi_export *e, uint8_t **out)
{
    const esi_surface *s = e->surface;
    uint8_t *colors, *done;
    espalier_status st = ESPALIER_OK;

    *out = NULL;
    if (!any_color(s)) return ESPALIER_OK;
    colors = esi_alloc(e->ctx, (size_t)s->mesh.n_vertices, 4, "vertex colours");
    done = esi_calloc(e->ctx, (size_t)s->mesh.n_vertices, 1, "vertex colours");
    if (!colors || !done) {
        esi_free(e->ctx, colors);
        esi_free(e->ctx, done);
        return ESPALIER_ERR_RESOURCE;
    }
    memset(colors, 255, (size_t)s->mesh.n_vertices * 4);
    /* A vertex has the material of the first face that uses it. */
    for (int64_t f = 0; st == ESPALIER_OK && f < s->mesh.n_faces; f++) {
        const esi_material m = esi_export_material(s, esi_export_face_material(s, f));

        if (f % 65536 == 0) st = esi_check_cancel(e->ctx);
        for (int k = 0; k < 3; k++) {
            const int64_t v = s->mesh.faces[3 * f + k];

            if (!done[v]) vertex_color(e, v, &m, colors + 4 * v);
            done[v] = 1;
        }
    }
    esi_free(e->ctx, done);
    if (st == ESPALIER_OK)
        *out = colors;
    else
        esi_free(e->ctx, colors);
    return st;
}

/* ---------------------------------------------------------------- pictures */

static bool opaque(const esi_texture *t)
{
    const size_t n = (size_t)t->width * t->height;

    for (size_t i = 0; i < n; i++) {
        if (t->pixels[i * t->channels + t->channels - 1] != 255) return false;
    }
    return true;
}

/* The same picture with another number of channels. */
static espalier_status convert(espalier_context *ctx, esi_texture *out, const esi_texture *t, uint32_t channels)
{
    const size_t n = (size_t)t->width * t->height;

    *out = (esi_texture){.width = t->width, .height = t->height, .channels = channels};
    out->pixels = esi_alloc(ctx, n, channels, "a picture");
    if (!out->pixels) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = t->pixels + i * t->channels;

        for (uint32_t c = 0; c < channels; c++)
            out->pixels[i * channels + c] = c == 3 ? from[t->channels - 1] : from[t->channels >= 3 ? c : 0];
    }
    return ESPALIER_OK;
}

espalier_status esi_export_encode(const esi_export *e, uint8_t **out, size_t *size, const esi_texture *texture, esi_texture_format format)
{
    const bool alpha = (texture->channels == 2 || texture->channels == 4) && !opaque(texture);
    const uint32_t channels = alpha ? 4 : texture->channels <= 2 && format != ESI_TEXTURE_WEBP ? 1 : 3;
    esi_texture changed = {0};
    espalier_status st = ESPALIER_OK;

    *out = NULL;
    if (channels != texture->channels) st = convert(e->ctx, &changed, texture, channels);
    if (st != ESPALIER_OK) return st;
    if (changed.pixels) texture = &changed;
    if (format == ESI_TEXTURE_JPEG && !alpha)
        st = esi_jpeg_encode(e->ctx, out, size, texture, e->options->jpeg_quality);
    else if (format == ESI_TEXTURE_WEBP)
        st = esi_webp_encode(e->ctx, out, size, texture, true, 100);
    else
        st = esi_png_encode(e->ctx, out, size, texture);
    esi_free(e->ctx, changed.pixels);
    return st;
}

/* -------------------------------------------------------------------- text */

void esi_export_float(espalier_context *ctx, esi_text *t, float value)
{
    char text[ESI_FLOAT_TEXT];

    esi_text_append_bytes(ctx, t, text, esi_format_float(text, value));
}

void esi_export_floats(espalier_context *ctx, esi_text *t, const float *values, int n, const char *between)
{
    for (int i = 0; i < n; i++) {
        if (i > 0) esi_text_append_bytes(ctx, t, between, strlen(between));
        esi_export_float(ctx, t, values[i]);
    }
}

espalier_status esi_export_flush(espalier_context *ctx, esi_text *t, esi_writer *w, bool all)
{
    espalier_status st;

    if (t->failed) return ESPALIER_ERR_RESOURCE;
    if (!all && t->len < FLUSH) return ESPALIER_OK;
    st = esi_writer_write(w, t->data, t->len);
    t->len = 0;
    return st == ESPALIER_OK ? esi_check_cancel(ctx) : st;
}
