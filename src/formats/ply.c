/* SPDX-License-Identifier: MIT
 *
 * ply.c: the Stanford polygon format, text and binary of both byte orders -> surface (G. Turk, "The PLY Polygon File Format", 1994).
 *
 * Vertices keep their numbers, also when no face uses them or a coordinate is no number; triangles keep theirs as long as all polygons are
 * triangles, polygons become fans. Normals, colours and texture coordinates of vertices are taken; other elements and properties are
 * stepped over. Counts of the header are compared with what is left of the file before anything is allocated for them.
 */
#include "formats/bytes.h"
#include "formats/mesh_files.h"
#include "formats/numbers.h"

#include <math.h>
#include <stdio.h>

#define MAX_ELEMENTS 32
#define MAX_PROPERTIES 64
#define MAX_POLYGON 65536          /* corners */
#define POLL 262144                /* rows between two looks at the cancel flag */

typedef enum ply_type { PLY_I8, PLY_U8, PLY_I16, PLY_U16, PLY_I32, PLY_U32, PLY_F32, PLY_F64, PLY_TYPES } ply_type;
static const int type_size[PLY_TYPES] = {1, 1, 2, 2, 4, 4, 4, 8};

/* What a property means to us. */
typedef enum ply_role {
    ROLE_X, ROLE_Y, ROLE_Z, ROLE_NX, ROLE_NY, ROLE_NZ, ROLE_RED, ROLE_GREEN, ROLE_BLUE, ROLE_ALPHA, ROLE_U, ROLE_V, ROLE_CORNERS, ROLES,
    ROLE_NONE = ROLES
} ply_role;

typedef struct ply_property {
    bool list;
    ply_type count_type, type;
    ply_role role;
} ply_property;

typedef struct ply_element {
    bool vertices, faces;
    uint64_t count;
    int n_properties;
    ply_property properties[MAX_PROPERTIES];
} ply_element;

typedef struct ply {
    espalier_context *ctx;
    const esi_mesh_file *file;
    esi_surface *out;
    bool text, big_endian;
    esi_scan rest;                 /* of the file */
    int n_elements;
    ply_element elements[MAX_ELEMENTS];
    char texture[512];             /* "comment TextureFile ..." */
    esi_face_list list;
    int32_t corners[MAX_POLYGON];
} ply;

static espalier_status damaged(const ply *p, const char *what)
{
    return esi_fail_at(p->ctx, ESPALIER_ERR_INPUT, (int64_t)(p->rest.at - p->file->bytes), "%s: damaged PLY: %s", p->file->name, what);
}

/* ------------------------------------------------------------------ header */

typedef struct ply_line {
    const char *words[6];
    size_t lens[6];
    int n;                         /* of them; more words are not looked at */
    const char *begin;
    size_t len;
} ply_line;

static bool read_line(ply *p, ply_line *line)
{
    const uint8_t *begin = p->rest.at;
    esi_scan words;

    if (!esi_scan_line(&p->rest)) return false;
    words = (esi_scan){begin, p->rest.at};
    line->begin = (const char *)begin;
    line->len = (size_t)(p->rest.at - begin);
    for (line->n = 0; line->n < 6 && esi_scan_word(&words, &line->words[line->n], &line->lens[line->n]); line->n++) {}
    return true;
}

static bool line_is(const ply_line *line, int word, const char *what)
{
    return word < line->n && esi_word_is(line->words[word], line->lens[word], what);
}

static bool parse_type(const ply_line *line, int word, ply_type *out)
{
    static const char *const names[2][PLY_TYPES] = {{"char", "uchar", "short", "ushort", "int", "uint", "float", "double"},
                                                    {"int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64"}};

    for (int i = 0; i < 2 * PLY_TYPES; i++) {
        if (!line_is(line, word, names[i / PLY_TYPES][i % PLY_TYPES])) continue;
        *out = (ply_type)(i % PLY_TYPES);
        return true;
    }
    return false;
}

static ply_role role_of(const ply_line *line, int word, const ply_element *e, bool list)
{
    static const struct { const char *name; ply_role role; } names[] = {
        {"x", ROLE_X}, {"y", ROLE_Y}, {"z", ROLE_Z}, {"nx", ROLE_NX}, {"ny", ROLE_NY}, {"nz", ROLE_NZ},
        {"red", ROLE_RED}, {"green", ROLE_GREEN}, {"blue", ROLE_BLUE}, {"alpha", ROLE_ALPHA},
        {"r", ROLE_RED}, {"g", ROLE_GREEN}, {"b", ROLE_BLUE}, {"a", ROLE_ALPHA},
        {"diffuse_red", ROLE_RED}, {"diffuse_green", ROLE_GREEN}, {"diffuse_blue", ROLE_BLUE}, {"diffuse_alpha", ROLE_ALPHA},
        {"s", ROLE_U}, {"t", ROLE_V}, {"u", ROLE_U}, {"v", ROLE_V}, {"texture_u", ROLE_U}, {"texture_v", ROLE_V}};

    if (e->faces) return list && (line_is(line, word, "vertex_indices") || line_is(line, word, "vertex_index")) ? ROLE_CORNERS : ROLE_NONE;
    for (size_t i = 0; e->vertices && !list && i < ESI_COUNT(names); i++) {
        if (line_is(line, word, names[i].name)) return names[i].role;
    }
    return ROLE_NONE;
}

static bool has_role(const ply_element *e, ply_role role)
{
    for (int i = 0; i < e->n_properties; i++) {
        if (e->properties[i].role == role) return true;
    }
    return false;
}

static espalier_status add_element(ply *p, const ply_line *line)
{
    ply_element *e = &p->elements[p->n_elements];
    double count;

    if (p->n_elements == MAX_ELEMENTS) return damaged(p, "too many elements");
    if (line->n < 3 || !esi_parse_number(line->words[2], line->lens[2], &count) || !(count >= 0 && count <= 0x1p53) ||
        (double)(uint64_t)count != count)
        return damaged(p, "an element without a number");
    memset(e, 0, sizeof *e);
    e->count = (uint64_t)count;
    e->vertices = line_is(line, 1, "vertex");
    e->faces = line_is(line, 1, "face");
    for (int i = 0; i < p->n_elements; i++) {
        if ((e->vertices && p->elements[i].vertices) || (e->faces && p->elements[i].faces)) return damaged(p, "an element twice");
    }
    p->n_elements++;
    return ESPALIER_OK;
}

static espalier_status add_property(ply *p, const ply_line *line)
{
    ply_element *e = p->n_elements > 0 ? &p->elements[p->n_elements - 1] : NULL;
    ply_property *property;
    int name = 2;

    if (!e || e->n_properties == MAX_PROPERTIES) return damaged(p, e ? "too many properties" : "a property of no element");
    property = &e->properties[e->n_properties];
    memset(property, 0, sizeof *property);
    property->list = line_is(line, 1, "list");
    if (property->list) {
        name = 4;
        if (!parse_type(line, 2, &property->count_type) || property->count_type >= PLY_F32) return damaged(p, "a list of unknown type");
    }
    if (line->n <= name || !parse_type(line, name - 1, &property->type)) return damaged(p, "a property of unknown type");
    property->role = role_of(line, name, e, property->list);
    if (property->role == ROLE_CORNERS && property->type >= PLY_F32) return damaged(p, "fractional vertex numbers");
    if (property->role != ROLE_NONE && has_role(e, property->role)) property->role = ROLE_NONE;
    e->n_properties++;
    return ESPALIER_OK;
}

static void note_texture(ply *p, const ply_line *line)
{
    const char *name;
    size_t len;

    if (line->n < 3 || !line_is(line, 1, "TextureFile") || p->texture[0]) return;
    name = line->words[2];
    len = (size_t)(line->begin + line->len - name);
    while (len > 0 && (unsigned char)name[len - 1] <= ' ') len--;
    snprintf(p->texture, sizeof p->texture, "%.*s", (int)ESI_MIN(len, sizeof p->texture - 1), name);
}

static espalier_status parse_format(ply *p, const ply_line *line)
{
    if (!line_is(line, 0, "format") || !line_is(line, 2, "1.0")) return damaged(p, "no format line");
    p->text = line_is(line, 1, "ascii");
    p->big_endian = line_is(line, 1, "binary_big_endian");
    return p->text || p->big_endian || line_is(line, 1, "binary_little_endian") ? ESPALIER_OK : damaged(p, "an unknown format");
}

static espalier_status parse_header(ply *p)
{
    espalier_status st = ESPALIER_OK;
    ply_line line;
    bool format = false;

    if (!read_line(p, &line) || !line_is(&line, 0, "ply")) return damaged(p, "it does not begin with \"ply\"");
    for (;;) {
        if (!read_line(p, &line)) return damaged(p, "the header does not end");
        if (line_is(&line, 0, "end_header")) break;
        if (line.n == 0 || line_is(&line, 0, "obj_info")) continue;
        if (line_is(&line, 0, "comment")) {
            note_texture(p, &line);
        } else if (!format) {
            st = parse_format(p, &line);
            format = true;
        } else if (line_is(&line, 0, "element")) {
            st = add_element(p, &line);
        } else if (line_is(&line, 0, "property")) {
            st = add_property(p, &line);
        } else {
            st = damaged(p, "an unknown line in the header");
        }
        if (st != ESPALIER_OK) return st;
    }
    return format ? ESPALIER_OK : damaged(p, "no format line");
}

/* ------------------------------------------------------------------ values */

static uint64_t load(const ply *p, const uint8_t *at, int size)
{
    uint64_t bits = 0;

    for (int i = 0; i < size; i++) bits |= (uint64_t)at[p->big_endian ? size - 1 - i : i] << (8 * i);
    return bits;
}

static double value_of(ply_type type, uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float f;
    double d;

    switch (type) {
    case PLY_I8: return (double)(int8_t)low;
    case PLY_I16: return (double)(int16_t)low;
    case PLY_I32: return (double)(int32_t)low;
    case PLY_F32: memcpy(&f, &low, sizeof f); return (double)f;
    case PLY_F64: memcpy(&d, &bits, sizeof d); return d;
    default: return (double)low;
    }
}

static bool next_value(ply *p, ply_type type, double *out)
{
    const int size = type_size[type];

    if (p->text) return esi_scan_number(&p->rest, out);
    if (p->rest.end - p->rest.at < size) return false;
    *out = value_of(type, load(p, p->rest.at, size));
    p->rest.at += size;
    return true;
}

/* Values of a list that nobody wants. */
static bool skip_values(ply *p, ply_type type, double count)
{
    double value;

    if (!(count >= 0)) return false;
    if (!p->text) {
        if (count > (double)((p->rest.end - p->rest.at) / type_size[type])) return false;
        p->rest.at += (size_t)count * (size_t)type_size[type];
        return true;
    }
    for (double i = 0; i < count; i++) {
        if (!next_value(p, type, &value)) return false;
    }
    return true;
}

/* Can so many rows be in the rest of the file? A row of text has a character and a separator per value. */
static espalier_status check_count(const ply *p, const ply_element *e)
{
    const uint64_t left = (uint64_t)(p->rest.end - p->rest.at);
    uint64_t row = 0;

    for (int i = 0; i < e->n_properties; i++) {
        const ply_property *property = &e->properties[i];

        row += p->text ? 2 : (uint64_t)type_size[property->list ? property->count_type : property->type];
    }
    if (e->count > 0 && row == 0) return damaged(p, "an element without properties");
    if (e->count > 0 && e->count > (left + (p->text ? 1 : 0)) / row) return damaged(p, "it is shorter than its header says");
    return ESPALIER_OK;
}

/* ---------------------------------------------------------------- elements */

/* Floats are 0..1, whole numbers 0..the largest of their type. */
static uint8_t color_byte(double value, ply_type type)
{
    if (type >= PLY_F32) value = value * 255.0;
    if (type == PLY_U16 || type == PLY_I16) value = value * 255.0 / 65535.0;
    return value > 0.0 ? (uint8_t)(value < 255.0 ? value + 0.5 : 255.0) : 0;
}

static void store_vertex(const ply *p, int64_t v, const double values[ROLES], const ply_type types[ROLES])
{
    esi_surface *s = p->out;

    for (int i = 0; i < 3; i++) {
        s->mesh.vertices[3 * v + i] = (float)values[ROLE_X + i];
        if (s->normals) s->normals[3 * v + i] = (float)values[ROLE_NX + i];
        if (s->colors) s->colors[4 * v + i] = color_byte(values[ROLE_RED + i], types[ROLE_RED + i]);
    }
    if (s->colors) s->colors[4 * v + 3] = color_byte(values[ROLE_ALPHA], types[ROLE_ALPHA]);
    if (s->uvs) {
        s->uvs[2 * v] = (float)values[ROLE_U];
        s->uvs[2 * v + 1] = (float)(1.0 - values[ROLE_V]);
    }
}

static espalier_status make_vertices(ply *p, const ply_element *e)
{
    esi_surface *s = p->out;
    const size_t n = (size_t)e->count;

    for (int i = 0; i < 3; i++) {
        if (!has_role(e, (ply_role)(ROLE_X + i))) return damaged(p, "vertices without x, y, z");
    }
    if (e->count > (uint64_t)ESI_MESH_MAX_VERTICES)
        return esi_fail(p->ctx, ESPALIER_ERR_RESOURCE, "%s: %llu vertices are more than can be numbered", p->file->name,
                        (unsigned long long)e->count);
    s->mesh.vertices = esi_alloc(p->ctx, n, 3 * sizeof(float), "mesh vertices");
    if (!s->mesh.vertices) return ESPALIER_ERR_RESOURCE;
    s->mesh.n_vertices = (int64_t)n;
    if (has_role(e, ROLE_NX) && has_role(e, ROLE_NY) && has_role(e, ROLE_NZ)) {
        s->normals = esi_alloc(p->ctx, n, 3 * sizeof(float), "mesh normals");
        if (!s->normals) return ESPALIER_ERR_RESOURCE;
    }
    if (has_role(e, ROLE_RED) && has_role(e, ROLE_GREEN) && has_role(e, ROLE_BLUE)) {
        s->colors = esi_alloc(p->ctx, n, 4, "mesh colours");
        if (!s->colors) return ESPALIER_ERR_RESOURCE;
    }
    if (has_role(e, ROLE_U) && has_role(e, ROLE_V)) {
        s->uvs = esi_alloc(p->ctx, n, 2 * sizeof(float), "texture coordinates");
        if (!s->uvs) return ESPALIER_ERR_RESOURCE;
    }
    return ESPALIER_OK;
}

static espalier_status read_vertices(ply *p, const ply_element *e)
{
    double values[ROLES + 1] = {0};
    ply_type types[ROLES + 1] = {PLY_I8};
    espalier_status st = make_vertices(p, e);

    values[ROLE_ALPHA] = 255.0;
    types[ROLE_ALPHA] = PLY_U8;
    for (int i = 0; i < e->n_properties; i++) types[e->properties[i].role] = e->properties[i].type;
    for (int64_t v = 0; st == ESPALIER_OK && v < p->out->mesh.n_vertices; v++) {
        if (v % POLL == 0) st = esi_check_cancel(p->ctx);
        for (int i = 0; i < e->n_properties && st == ESPALIER_OK; i++) {
            const ply_property *property = &e->properties[i];
            double value;

            if (!next_value(p, property->list ? property->count_type : property->type, &value) ||
                (property->list && !skip_values(p, property->type, value)))
                return damaged(p, "a vertex is cut off or no number");
            values[property->role] = value;
        }
        if (st == ESPALIER_OK) store_vertex(p, v, values, types);
    }
    return st;
}

static espalier_status read_corners(ply *p, const ply_property *property, double count)
{
    if (!(count >= 0 && count <= MAX_POLYGON)) return damaged(p, "a face has more corners than can be");
    for (int64_t i = 0; i < (int64_t)count; i++) {
        double value;

        if (!next_value(p, property->type, &value)) return damaged(p, "a face is cut off or no number");
        if (!(value >= 0 && value <= (double)INT32_MAX) || (double)(int32_t)value != value)
            return damaged(p, "a face names an impossible vertex");
        p->corners[i] = (int32_t)value;
    }
    return esi_face_list_polygon(p->ctx, &p->list, p->corners, (int64_t)count);
}

static espalier_status read_faces(ply *p, const ply_element *e)
{
    espalier_status st;

    if (!has_role(e, ROLE_CORNERS)) return damaged(p, "faces without vertex_indices");
    if (e->count > (uint64_t)ESI_MESH_MAX_FACES)
        return esi_fail(p->ctx, ESPALIER_ERR_RESOURCE, "%s: %llu faces are more than can be numbered", p->file->name,
                        (unsigned long long)e->count);
    st = esi_face_list_reserve(p->ctx, &p->list, (int64_t)e->count);
    for (uint64_t f = 0; st == ESPALIER_OK && f < e->count; f++) {
        if (f % POLL == 0) st = esi_check_cancel(p->ctx);
        for (int i = 0; i < e->n_properties && st == ESPALIER_OK; i++) {
            const ply_property *property = &e->properties[i];
            double value;

            if (!next_value(p, property->list ? property->count_type : property->type, &value))
                return damaged(p, "a face is cut off or no number");
            if (property->role == ROLE_CORNERS)
                st = read_corners(p, property, value);
            else if (property->list && !skip_values(p, property->type, value))
                return damaged(p, "a face is cut off or no number");
        }
    }
    return st;
}

static espalier_status skip_element(ply *p, const ply_element *e)
{
    espalier_status st = ESPALIER_OK;

    for (uint64_t row = 0; st == ESPALIER_OK && row < e->count; row++) {
        if (row % POLL == 0) st = esi_check_cancel(p->ctx);
        for (int i = 0; i < e->n_properties && st == ESPALIER_OK; i++) {
            const ply_property *property = &e->properties[i];
            double value;

            if (!next_value(p, property->list ? property->count_type : property->type, &value) ||
                (property->list && !skip_values(p, property->type, value)))
                return damaged(p, "an element is cut off or no number");
        }
    }
    return st;
}

static espalier_status add_texture(ply *p)
{
    esi_texture texture;
    esi_material *material;
    bool found;
    espalier_status st;

    if (!p->texture[0] || !p->out->uvs) return ESPALIER_OK;
    st = esi_texture_load_beside(p->ctx, &texture, &found, p->file, p->texture);
    if (st != ESPALIER_OK || !found) return st;
    material = esi_alloc(p->ctx, 1, sizeof *material, "materials");
    st = material ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    if (st != ESPALIER_OK) goto done;
    *material = esi_material_default();
    material->metallic = 0.0f;
    p->out->materials = material;
    p->out->n_materials = 1;
    st = esi_surface_add_texture(p->ctx, p->out, &texture, &material->base_color_texture);
done:
    esi_free(p->ctx, texture.pixels);
    return st;
}

espalier_status esi_ply_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    ply *p = esi_calloc(ctx, 1, sizeof *p, "PLY header");

    if (!p) return st;
    p->ctx = ctx;
    p->file = file;
    p->list.name = file->name;
    p->out = out;
    p->rest = (esi_scan){file->bytes, file->bytes + file->size};
    st = parse_header(p);
    for (int i = 0; st == ESPALIER_OK && i < p->n_elements; i++) {
        const ply_element *e = &p->elements[i];

        st = check_count(p, e);
        if (st != ESPALIER_OK) break;
        st = e->vertices ? read_vertices(p, e) : e->faces ? read_faces(p, e) : skip_element(p, e);
    }
    if (st == ESPALIER_OK) st = esi_face_list_finish(ctx, &p->list, &out->mesh);
    if (st == ESPALIER_OK) st = add_texture(p);
    esi_free(ctx, p->list.faces);
    esi_free(ctx, p);
    return st;
}
