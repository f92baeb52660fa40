/* SPDX-License-Identifier: MIT
 *
 * obj_write.c: surface -> Wavefront OBJ with its material library (.mtl) and PNG pictures. Positions that are equal are one vertex;
 * texture coordinates and normals are numbered by themselves, as the format has it, so that seams of the texture are none of the mesh.
 * Vertex colours stand behind the coordinates, as most programs read them. The library has the classic keys and those of the PBR extension.
 */
#include "formats/surface_export.h"

typedef struct obj_writer {
    esi_export *e;
    const esi_surface *s;
    int32_t *map, *first;          /* vertex -> position, position -> vertex */
    int64_t n_positions;
    int32_t *order;
    int64_t *starts;
    char *mtl_path;
} obj_writer;

/* Names of materials are words. */
static void append_name(espalier_context *ctx, esi_text *t, const esi_surface *s, int32_t m)
{
    const char *name = m < s->n_materials ? s->materials[m].name : "";

    esi_text_append(ctx, t, "material_%d", (int)m);
    if (name[0]) esi_text_append(ctx, t, "_");
    for (; *name; name++) {
        const bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') || (*name >= '0' && *name <= '9') ||
                           *name == '-' || *name == '.';

        esi_text_append_bytes(ctx, t, plain ? name : "_", 1);
    }
}

static void append_values(espalier_context *ctx, esi_text *t, const char *key, const float *values, int n)
{
    esi_text_append_bytes(ctx, t, key, strlen(key));
    esi_export_floats(ctx, t, values, n, " ");
    esi_text_append_bytes(ctx, t, "\n", 1);
}

/* --------------------------------------------------------------- materials */

/* One channel of a picture as a gray one: other programs want roughness and metal apart. */
static espalier_status split_channel(espalier_context *ctx, esi_texture *out, const esi_texture *t, uint32_t channel)
{
    const size_t n = (size_t)t->width * t->height;

    *out = (esi_texture){.width = t->width, .height = t->height, .channels = 1};
    out->pixels = esi_alloc(ctx, n, 1, "a picture");
    if (!out->pixels) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) out->pixels[i] = t->pixels[i * t->channels + (t->channels >= 3 ? channel : 0)];
    return ESPALIER_OK;
}

/* Writes "<stem>_<number>_<role>.png" and the line that names it. */
static espalier_status add_picture(obj_writer *w, esi_text *t, const char *key, int32_t material, const char *role,
                                   const esi_texture *texture)
{
    esi_export *e = w->e;
    char *ending = esi_format(e->ctx, "_%d_%s.png", (int)material, role), *path = ending ? esi_export_sibling(e, ending) : NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    esi_writer *out;
    espalier_status st = path ? esi_export_encode(e, &bytes, &size, texture, ESI_TEXTURE_PNG) : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK) st = esi_file_set_open(&e->files, &out, path);
    if (st == ESPALIER_OK) st = esi_writer_write(out, bytes, size);
    if (st == ESPALIER_OK) esi_text_append(e->ctx, t, "%s %s\n", key, esi_path_name(path));
    esi_free(e->ctx, bytes);
    esi_free(e->ctx, path);
    esi_free(e->ctx, ending);
    return st;
}

static espalier_status add_channel(obj_writer *w, esi_text *t, const char *key, int32_t material, const char *role,
                                   const esi_texture *texture, uint32_t channel)
{
    esi_texture gray;
    espalier_status st = split_channel(w->e->ctx, &gray, texture, channel);

    if (st == ESPALIER_OK) st = add_picture(w, t, key, material, role, &gray);
    esi_free(w->e->ctx, gray.pixels);
    return st;
}

/* Alpha of the base colour as a picture of its own, which is what map_d means to most readers. */
static espalier_status add_alpha(obj_writer *w, esi_text *t, int32_t material, const esi_texture *texture)
{
    return texture->channels == 4 ? add_channel(w, t, "map_d", material, "alpha", texture, 3) : ESPALIER_OK;
}

static espalier_status append_pictures(obj_writer *w, esi_text *t, int32_t index, const esi_material *m)
{
    const esi_texture *textures = w->s->textures;
    espalier_status st = ESPALIER_OK;

    if (!w->s->uvs) return st;
    if (m->base_color_texture >= 0) {
        st = add_picture(w, t, "map_Kd", index, "color", &textures[m->base_color_texture]);
        if (st == ESPALIER_OK && m->alpha_mode != ESI_ALPHA_OPAQUE) st = add_alpha(w, t, index, &textures[m->base_color_texture]);
    }
    if (st == ESPALIER_OK && m->metallic_roughness_texture >= 0)
        st = add_channel(w, t, "map_Pr", index, "roughness", &textures[m->metallic_roughness_texture], 1);
    if (st == ESPALIER_OK && m->metallic_roughness_texture >= 0)
        st = add_channel(w, t, "map_Pm", index, "metallic", &textures[m->metallic_roughness_texture], 2);
    if (st == ESPALIER_OK && m->emissive_texture >= 0) st = add_picture(w, t, "map_Ke", index, "emissive", &textures[m->emissive_texture]);
    if (st == ESPALIER_OK && m->normal_texture >= 0) st = add_picture(w, t, "norm", index, "normal", &textures[m->normal_texture]);
    return st;
}

static espalier_status write_materials(obj_writer *w)
{
    espalier_context *ctx = w->e->ctx;
    esi_text t = {0};
    esi_writer *out;
    espalier_status st = esi_file_set_open(&w->e->files, &out, w->mtl_path);

    esi_text_append(ctx, &t, "# %s\n", esi_export_generator());
    for (int32_t i = 0; st == ESPALIER_OK && i < esi_export_material_count(w->s); i++) {
        const esi_material m = esi_export_material(w->s, i);
        const float black[3] = {0.0f, 0.0f, 0.0f};

        if (w->starts[i] == w->starts[i + 1]) continue;
        esi_text_append(ctx, &t, "\nnewmtl ");
        append_name(ctx, &t, w->s, i);
        append_values(ctx, &t, "\nKa ", black, 3);
        append_values(ctx, &t, "Kd ", m.base_color, 3);
        append_values(ctx, &t, "Ks ", black, 3);
        append_values(ctx, &t, "Ke ", m.emissive, 3);
        append_values(ctx, &t, "d ", &m.base_color[3], 1);
        append_values(ctx, &t, "Pr ", &m.roughness, 1);
        append_values(ctx, &t, "Pm ", &m.metallic, 1);
        esi_text_append(ctx, &t, "illum 1\n");
        st = append_pictures(w, &t, i, &m);
    }
    if (st == ESPALIER_OK) st = esi_export_flush(ctx, &t, out, true);
    esi_text_free(ctx, &t);
    return st;
}

/* -------------------------------------------------------------------- mesh */

static espalier_status write_vertices(obj_writer *w, esi_text *t, esi_writer *out)
{
    espalier_context *ctx = w->e->ctx;
    const esi_surface *s = w->s;
    espalier_status st = ESPALIER_OK;

    for (int64_t i = 0; st == ESPALIER_OK && i < w->n_positions; i++) {
        float p[3];

        esi_export_position(w->e, w->first[i], p);
        esi_text_append_bytes(ctx, t, "v ", 2);
        esi_export_floats(ctx, t, p, 3, " ");
        for (int k = 0; s->colors && k < 3; k++) {
            esi_text_append_bytes(ctx, t, " ", 1);
            esi_export_float(ctx, t, (float)s->colors[4 * (int64_t)w->first[i] + k] / 255.0f);
        }
        esi_text_append_bytes(ctx, t, "\n", 1);
        st = esi_export_flush(ctx, t, out, false);
    }
    for (int64_t v = 0; st == ESPALIER_OK && s->uvs && v < s->mesh.n_vertices; v++) {
        const float uv[2] = {s->uvs[2 * v], 1.0f - s->uvs[2 * v + 1]};

        append_values(ctx, t, "vt ", uv, 2);
        st = esi_export_flush(ctx, t, out, false);
    }
    for (int64_t v = 0; st == ESPALIER_OK && s->normals && v < s->mesh.n_vertices; v++) {
        float n[3];

        esi_export_direction(w->e, s->normals + 3 * v, n);
        append_values(ctx, t, "vn ", n, 3);
        st = esi_export_flush(ctx, t, out, false);
    }
    return st;
}

static void append_index(espalier_context *ctx, esi_text *t, int64_t index)
{
    char digits[20];
    size_t n = sizeof digits;

    for (index++; index > 0; index /= 10) digits[--n] = (char)('0' + index % 10);
    esi_text_append_bytes(ctx, t, digits + n, sizeof digits - n);
}

static void append_corner(obj_writer *w, esi_text *t, int32_t v)
{
    espalier_context *ctx = w->e->ctx;

    esi_text_append_bytes(ctx, t, " ", 1);
    append_index(ctx, t, w->map[v]);
    if (!w->s->uvs && !w->s->normals) return;
    esi_text_append_bytes(ctx, t, "/", 1);
    if (w->s->uvs) append_index(ctx, t, v);
    if (!w->s->normals) return;
    esi_text_append_bytes(ctx, t, "/", 1);
    append_index(ctx, t, v);
}

static espalier_status write_faces(obj_writer *w, esi_text *t, esi_writer *out)
{
    espalier_context *ctx = w->e->ctx;
    espalier_status st = ESPALIER_OK;

    for (int32_t m = 0; m < esi_export_material_count(w->s); m++) {
        if (w->starts[m] == w->starts[m + 1]) continue;
        esi_text_append(ctx, t, "usemtl ");
        append_name(ctx, t, w->s, m);
        esi_text_append(ctx, t, "\n");
        for (int64_t i = w->starts[m]; st == ESPALIER_OK && i < w->starts[m + 1]; i++) {
            const int64_t f = w->order ? w->order[i] : i;

            esi_text_append_bytes(ctx, t, "f", 1);
            for (int k = 0; k < 3; k++) append_corner(w, t, w->s->mesh.faces[3 * f + k]);
            esi_text_append_bytes(ctx, t, "\n", 1);
            st = esi_export_flush(ctx, t, out, false);
        }
    }
    return st;
}

static espalier_status write_mesh(obj_writer *w, esi_writer *out)
{
    const char *const *extras = w->e->options->extras;
    esi_text t = {0};
    espalier_status st;

    esi_text_append(w->e->ctx, &t, "# %s\n", esi_export_generator());
    for (size_t i = 0; extras && extras[i] && extras[i + 1]; i += 2) {
        const size_t start = t.len;

        esi_text_append(w->e->ctx, &t, "# %s: %s", extras[i], extras[i + 1]);
        if (!t.failed) esi_clean_line(t.data + start);
        esi_text_append(w->e->ctx, &t, "\n");
    }
    esi_text_append(w->e->ctx, &t, "mtllib %s\n", esi_path_name(w->mtl_path));
    st = write_vertices(w, &t, out);
    if (st == ESPALIER_OK) st = write_faces(w, &t, out);
    if (st == ESPALIER_OK) st = esi_export_flush(w->e->ctx, &t, out, true);
    esi_text_free(w->e->ctx, &t);
    return st;
}

espalier_status esi_surface_write_obj(esi_export *e)
{
    obj_writer w = {.e = e, .s = e->surface};
    esi_writer *out = NULL;
    espalier_status st;

    w.mtl_path = esi_export_sibling(e, ".mtl");
    st = w.mtl_path ? esi_export_weld(e, &w.map, &w.first, &w.n_positions) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = esi_export_group(e, &w.order, &w.starts);
    if (st == ESPALIER_OK) st = esi_file_set_open(&e->files, &out, e->path);
    if (st == ESPALIER_OK) st = write_mesh(&w, out);
    if (st == ESPALIER_OK) st = write_materials(&w);
    if (st == ESPALIER_OK) st = esi_file_set_commit(&e->files);
    esi_free(e->ctx, w.map);
    esi_free(e->ctx, w.first);
    esi_free(e->ctx, w.order);
    esi_free(e->ctx, w.starts);
    esi_free(e->ctx, w.mtl_path);
    return st;
}
