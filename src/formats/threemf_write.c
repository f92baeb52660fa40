/* SPDX-License-Identifier: MIT
 *
 * threemf_write.c: surface -> 3MF (3MF Core Specification 1.3, Materials and Properties Extension 1.2) in millimetres. Equal positions are
 * one vertex, as printers ask for; textures are a texture2d with coordinates of their own, vertex colours a colorgroup, plain materials
 * basematerials. Triangles that name one position twice are left out, since the format forbids them.
 */
#include "base/srgb.h"
#include "formats/surface_export.h"
#include "formats/zip.h"

#define LEVEL 6

typedef struct threemf {
    esi_export *e;
    const esi_surface *s;
    int32_t *map, *first, *order;
    int64_t n_positions, *starts;
    int32_t *local;                /* [n_vertices] number of a vertex in its material's property group */
    esi_text model;
    int32_t next_id;
    int32_t *group;                /* [materials] id of the property group, 0 = none */
    int32_t *picture;              /* [textures] id of the texture2d, 0 = none */
    float low[3];                  /* lower corner of the object */
} threemf;

static const char *const wraps[3] = {"wrap", "clamp", "mirror"};

static void append_escaped(espalier_context *ctx, esi_text *t, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': esi_text_append(ctx, t, "&amp;"); break;
        case '<': esi_text_append(ctx, t, "&lt;"); break;
        case '>': esi_text_append(ctx, t, "&gt;"); break;
        case '"': esi_text_append(ctx, t, "&quot;"); break;
        default: esi_text_append_bytes(ctx, t, (unsigned char)*text < ' ' ? " " : text, 1);
        }
    }
}

static void append_int(espalier_context *ctx, esi_text *t, int64_t value)
{
    char digits[20];
    size_t n = sizeof digits;

    do digits[--n] = (char)('0' + value % 10);
    while ((value /= 10) > 0);
    esi_text_append_bytes(ctx, t, digits + n, sizeof digits - n);
}

static void append_literal(espalier_context *ctx, esi_text *t, const char *text)
{
    esi_text_append_bytes(ctx, t, text, strlen(text));
}

/* ------------------------------------------------------------- properties */

static int64_t face_at(const threemf *w, int64_t i)
{
    return w->order ? w->order[i] : i;
}

static bool textured(const threemf *w, const esi_material *m)
{
    return m->base_color_texture >= 0 && w->s->uvs;
}

/* One element per vertex of the material, in the order in which its faces first name them. */
static espalier_status append_per_vertex(threemf *w, int32_t material, bool coordinates)
{
    espalier_context *ctx = w->e->ctx;
    espalier_status st = ESPALIER_OK;
    int32_t next = 0;

    memset(w->local, 0xff, (size_t)w->s->mesh.n_vertices * sizeof *w->local);
    for (int64_t i = w->starts[material]; st == ESPALIER_OK && i < w->starts[material + 1]; i++) {
        const int32_t *face = w->s->mesh.faces + 3 * face_at(w, i);

        if (i % 65536 == 0) st = esi_check_cancel(ctx);
        for (int k = 0; k < 3; k++) {
            const int32_t v = face[k];

            if (w->local[v] >= 0) continue;
            w->local[v] = next++;
            if (coordinates) {
                append_literal(ctx, &w->model, "<m:tex2coord u=\"");
                esi_export_float(ctx, &w->model, w->s->uvs[2 * (int64_t)v]);
                append_literal(ctx, &w->model, "\" v=\"");
                esi_export_float(ctx, &w->model, 1.0f - w->s->uvs[2 * (int64_t)v + 1]);
                append_literal(ctx, &w->model, "\"/>\n");
            } else {
                const uint8_t *c = w->s->colors + 4 * (int64_t)v;

                esi_text_append(ctx, &w->model, "<m:color color=\"#%02X%02X%02X%02X\"/>\n", c[0], c[1], c[2], c[3]);
            }
        }
    }
    return st;
}

static unsigned encoded(float linear)
{
    const double v = (double)linear;

    return (unsigned)(esi_srgb_encode(v > 0.0 ? (v < 1.0 ? v : 1.0) : 0.0) * 255.0 + 0.5);
}

static espalier_status append_group(threemf *w, int32_t material)
{
    const esi_material m = esi_export_material(w->s, material);
    espalier_context *ctx = w->e->ctx;
    espalier_status st;

    w->group[material] = w->next_id++;
    if (textured(w, &m)) {
        esi_text_append(ctx, &w->model, "<m:texture2dgroup id=\"%d\" texid=\"%d\">\n", (int)w->group[material],
                        (int)w->picture[m.base_color_texture]);
        st = append_per_vertex(w, material, true);
        esi_text_append(ctx, &w->model, "</m:texture2dgroup>\n");
        return st;
    }
    if (w->s->colors) {
        esi_text_append(ctx, &w->model, "<m:colorgroup id=\"%d\">\n", (int)w->group[material]);
        st = append_per_vertex(w, material, false);
        esi_text_append(ctx, &w->model, "</m:colorgroup>\n");
        return st;
    }
    esi_text_append(ctx, &w->model, "<basematerials id=\"%d\"><base name=\"", (int)w->group[material]);
    append_escaped(ctx, &w->model, m.name[0] ? m.name : "material");
    esi_text_append(ctx, &w->model, "\" displaycolor=\"#%02X%02X%02X%02X\"/></basematerials>\n", encoded(m.base_color[0]),
                    encoded(m.base_color[1]), encoded(m.base_color[2]),
                    (unsigned)(ESI_MIN(ESI_MAX((double)m.base_color[3], 0.0), 1.0) * 255.0 + 0.5));
    return ESPALIER_OK;
}

/* -------------------------------------------------------------------- mesh */

static espalier_status append_vertices(threemf *w)
{
    espalier_context *ctx = w->e->ctx;
    espalier_status st = ESPALIER_OK;

    append_literal(ctx, &w->model, "<vertices>\n");
    for (int64_t i = 0; st == ESPALIER_OK && i < w->n_positions; i++) {
        static const char *const keys[3] = {"<vertex x=\"", "\" y=\"", "\" z=\""};
        float p[3];

        if (i % 65536 == 0) st = esi_check_cancel(ctx);
        esi_export_position(w->e, w->first[i], p);
        for (int k = 0; k < 3; k++) {
            w->low[k] = i == 0 || p[k] < w->low[k] ? p[k] : w->low[k];
            append_literal(ctx, &w->model, keys[k]);
            esi_export_float(ctx, &w->model, p[k]);
        }
        append_literal(ctx, &w->model, "\"/>\n");
    }
    append_literal(ctx, &w->model, "</vertices>\n");
    return st;
}

/* The numbers of a material's properties follow from the faces alone, so they are made again rather than kept. */
static espalier_status number_properties(threemf *w, int32_t material)
{
    int32_t next = 0;

    memset(w->local, 0xff, (size_t)w->s->mesh.n_vertices * sizeof *w->local);
    for (int64_t i = w->starts[material]; i < w->starts[material + 1]; i++) {
        const int32_t *face = w->s->mesh.faces + 3 * face_at(w, i);

        for (int k = 0; k < 3; k++) {
            if (w->local[face[k]] < 0) w->local[face[k]] = next++;
        }
    }
    return esi_check_cancel(w->e->ctx);
}

static void append_triangle(threemf *w, const int32_t *face, int32_t group, bool per_vertex)
{
    static const char *const corners[3] = {"<triangle v1=\"", "\" v2=\"", "\" v3=\""};
    static const char *const properties[3] = {"\" p1=\"", "\" p2=\"", "\" p3=\""};
    espalier_context *ctx = w->e->ctx;
    const int32_t v[3] = {w->map[face[0]], w->map[face[1]], w->map[face[2]]};

    if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) return;
    for (int k = 0; k < 3; k++) {
        append_literal(ctx, &w->model, corners[k]);
        append_int(ctx, &w->model, v[k]);
    }
    append_literal(ctx, &w->model, "\" pid=\"");
    append_int(ctx, &w->model, group);
    for (int k = 0; k < (per_vertex ? 3 : 1); k++) {
        append_literal(ctx, &w->model, properties[k]);
        append_int(ctx, &w->model, per_vertex ? w->local[face[k]] : 0);
    }
    append_literal(ctx, &w->model, "\"/>\n");
}

static espalier_status append_triangles(threemf *w)
{
    espalier_context *ctx = w->e->ctx;
    espalier_status st = ESPALIER_OK;

    append_literal(ctx, &w->model, "<triangles>\n");
    for (int32_t m = 0; st == ESPALIER_OK && m < esi_export_material_count(w->s); m++) {
        const esi_material material = esi_export_material(w->s, m);
        const bool per_vertex = textured(w, &material) || w->s->colors;

        if (w->starts[m] == w->starts[m + 1]) continue;
        if (per_vertex) st = number_properties(w, m);
        for (int64_t i = w->starts[m]; st == ESPALIER_OK && i < w->starts[m + 1]; i++) {
            append_triangle(w, w->s->mesh.faces + 3 * face_at(w, i), w->group[m], per_vertex);
            if (i % 65536 == 0) st = esi_check_cancel(ctx);
        }
    }
    append_literal(ctx, &w->model, "</triangles>\n");
    return st;
}

static void append_head(threemf *w)
{
    const char *const *extras = w->e->options->extras;
    espalier_context *ctx = w->e->ctx;

    esi_text_append(ctx, &w->model, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<model unit=\"millimeter\" xml:lang=\"en-US\" "
                    "xmlns=\"http://schemas.microsoft.com/3dmanufacturing/core/2015/02\" "
                    "xmlns:m=\"http://schemas.microsoft.com/3dmanufacturing/material/2015/02\">\n<metadata name=\"Application\">");
    append_escaped(ctx, &w->model, esi_export_generator());
    esi_text_append(ctx, &w->model, "</metadata>\n");
    if (extras && extras[0]) esi_text_append(ctx, &w->model, "<metadata name=\"Description\">");
    for (size_t i = 0; extras && extras[i] && extras[i + 1]; i += 2) {
        if (i > 0) append_literal(ctx, &w->model, "; ");
        append_escaped(ctx, &w->model, extras[i]);
        append_literal(ctx, &w->model, ": ");
        append_escaped(ctx, &w->model, extras[i + 1]);
    }
    if (extras && extras[0]) esi_text_append(ctx, &w->model, "</metadata>\n");
    append_literal(ctx, &w->model, "<resources>\n");
}

/* Textures of materials with faces, each once. */
static void append_textures(threemf *w)
{
    for (int32_t m = 0; m < esi_export_material_count(w->s); m++) {
        const esi_material material = esi_export_material(w->s, m);
        const int32_t t = material.base_color_texture;

        if (w->starts[m] == w->starts[m + 1] || !textured(w, &material) || w->picture[t] > 0) continue;
        w->picture[t] = w->next_id++;
        esi_text_append(w->e->ctx, &w->model,
                        "<m:texture2d id=\"%d\" path=\"/3D/Textures/%d.png\" contenttype=\"image/png\" tilestyleu=\"%s\" tilestylev=\"%s\" "
                        "filter=\"%s\"/>\n",
                        (int)w->picture[t], (int)t, wraps[material.wrap], wraps[material.wrap], material.nearest ? "nearest" : "linear");
    }
}

/* An object whose triangles have properties must have one itself: that of the first material with faces. */
static void append_object(threemf *w, int32_t id)
{
    int32_t m = 0;

    while (w->starts[m] == w->starts[m + 1]) m++;
    esi_text_append(w->e->ctx, &w->model, "<object id=\"%d\" type=\"model\" pid=\"%d\" pindex=\"0\">\n<mesh>\n", (int)id, (int)w->group[m]);
}

/* The printer's origin is a corner of its bed: the object is moved so that it stands there. */
static void append_item(threemf *w, int32_t id)
{
    esi_text_append(w->e->ctx, &w->model, "<item objectid=\"%d\" transform=\"1 0 0 0 1 0 0 0 1", (int)id);
    for (int k = 0; k < 3; k++) {
        append_literal(w->e->ctx, &w->model, " ");
        esi_export_float(w->e->ctx, &w->model, 0.0f - w->low[k]);
    }
    append_literal(w->e->ctx, &w->model, "\"/>\n");
}

static espalier_status build_model(threemf *w)
{
    espalier_context *ctx = w->e->ctx;
    espalier_status st = ESPALIER_OK;
    int32_t id;

    append_head(w);
    append_textures(w);
    for (int32_t m = 0; st == ESPALIER_OK && m < esi_export_material_count(w->s); m++) {
        if (w->starts[m] < w->starts[m + 1]) st = append_group(w, m);
    }
    id = w->next_id++;
    append_object(w, id);
    if (st == ESPALIER_OK) st = append_vertices(w);
    if (st == ESPALIER_OK) st = append_triangles(w);
    append_literal(ctx, &w->model, "</mesh>\n</object>\n</resources>\n<build>\n");
    append_item(w, id);
    append_literal(ctx, &w->model, "</build>\n</model>\n");
    return st == ESPALIER_OK && w->model.failed ? ESPALIER_ERR_RESOURCE : st;
}

/* ----------------------------------------------------------------- package */

static espalier_status add_text(esi_zip_writer *zip, const char *name, const char *text)
{
    return esi_zip_add(zip, name, text, strlen(text), LEVEL, 0);
}

static espalier_status add_pictures(threemf *w, esi_zip_writer *zip)
{
    espalier_context *ctx = w->e->ctx;
    esi_text links = {0};
    espalier_status st = ESPALIER_OK;
    bool any = false;

    esi_text_append(ctx, &links, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                    "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\n");
    for (int32_t t = 0; st == ESPALIER_OK && t < w->s->n_textures; t++) {
        char *name;
        uint8_t *bytes = NULL;
        size_t size = 0;

        if (w->picture[t] == 0) continue;
        any = true;
        name = esi_format(ctx, "3D/Textures/%d.png", (int)t);
        st = name ? esi_export_encode(w->e, &bytes, &size, &w->s->textures[t], ESI_TEXTURE_PNG) : ESPALIER_ERR_RESOURCE;
        if (st == ESPALIER_OK) st = esi_zip_add(zip, name, bytes, size, 0, 0);
        esi_text_append(ctx, &links, "<Relationship Id=\"t%d\" Type=\"http://schemas.microsoft.com/3dmanufacturing/2013/01/3dtexture\" "
                        "Target=\"/3D/Textures/%d.png\"/>\n", (int)t, (int)t);
        esi_free(ctx, bytes);
        esi_free(ctx, name);
    }
    esi_text_append_bytes(ctx, &links, "</Relationships>\n", sizeof "</Relationships>\n");
    if (st == ESPALIER_OK && links.failed) st = ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK && any) st = add_text(zip, "3D/_rels/3dmodel.model.rels", links.data);
    esi_text_free(ctx, &links);
    return st;
}

static espalier_status write_package(threemf *w)
{
    esi_zip_writer zip = {.ctx = w->e->ctx, .name = w->e->path};
    espalier_status st = esi_file_set_open(&w->e->files, &zip.out, w->e->path);

    if (st == ESPALIER_OK)
        st = add_text(&zip, "[Content_Types].xml",
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<Types xmlns=\"http://schemas.openxmlformats.org/package/2006/content-types\">\n"
                      "<Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\n"
                      "<Default Extension=\"model\" ContentType=\"application/vnd.ms-package.3dmanufacturing-3dmodel+xml\"/>\n"
                      "<Default Extension=\"png\" ContentType=\"image/png\"/>\n</Types>\n");
    if (st == ESPALIER_OK)
        st = add_text(&zip, "_rels/.rels",
                      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                      "<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\n"
                      "<Relationship Id=\"m\" Type=\"http://schemas.microsoft.com/3dmanufacturing/2013/01/3dmodel\" "
                      "Target=\"/3D/3dmodel.model\"/>\n"
                      "</Relationships>\n");
    if (st == ESPALIER_OK) st = esi_zip_add(&zip, "3D/3dmodel.model", w->model.data, w->model.len, LEVEL, 0);
    esi_text_free(w->e->ctx, &w->model);
    if (st == ESPALIER_OK) st = add_pictures(w, &zip);
    if (st == ESPALIER_OK) st = esi_zip_finish(&zip);
    if (st == ESPALIER_OK) st = esi_file_set_commit(&w->e->files);
    esi_zip_writer_free(&zip);
    return st;
}

espalier_status esi_surface_write_3mf(esi_export *e)
{
    threemf w = {.e = e, .s = e->surface, .next_id = 1};
    espalier_status st = esi_export_weld(e, &w.map, &w.first, &w.n_positions);

    if (st == ESPALIER_OK) st = esi_export_group(e, &w.order, &w.starts);
    w.local = esi_alloc(e->ctx, (size_t)e->surface->mesh.n_vertices, sizeof *w.local, "property numbers");
    w.group = esi_calloc(e->ctx, (size_t)esi_export_material_count(e->surface), sizeof *w.group, "property groups");
    w.picture = esi_calloc(e->ctx, (size_t)e->surface->n_textures, sizeof *w.picture, "property groups");
    if (st == ESPALIER_OK && (!w.local || !w.group || !w.picture)) st = ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = build_model(&w);
    if (st == ESPALIER_OK) st = write_package(&w);
    esi_text_free(e->ctx, &w.model);
    esi_free(e->ctx, w.map);
    esi_free(e->ctx, w.first);
    esi_free(e->ctx, w.order);
    esi_free(e->ctx, w.starts);
    esi_free(e->ctx, w.local);
    esi_free(e->ctx, w.group);
    esi_free(e->ctx, w.picture);
    return st;
}
