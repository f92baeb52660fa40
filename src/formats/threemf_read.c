/* SPDX-License-Identifier: MIT
 *
 * threemf_read.c: 3MF -> surface (3MF Core Specification 1.3; of the Materials Extension base materials, colour groups and textures; of the
 * Production Extension objects in other parts, as slicers write them). Every build item, components resolved, in the unit of the file.
 */
#include "base/srgb.h"
#include "formats/affine.h"
#include "formats/mesh_files.h"
#include "formats/numbers.h"
#include "formats/xml.h"
#include "formats/zip.h"

#include <stdio.h>

#define MAX_PARTS 4096
#define MAX_DEPTH 16               /* components inside components */
#define MAX_INSTANCES 100000
#define MAX_NUMBERED 10000         /* property groups, textures, objects: they are searched one by one */
#define POLL 65536

typedef enum group_kind { GROUP_BASE, GROUP_COLOR, GROUP_UV } group_kind;

typedef struct group {
    int32_t part, id;
    group_kind kind;
    int32_t texture;               /* GROUP_UV: number of the texture2d in its part */
    int64_t first, count;          /* of values */
    int32_t material;              /* of the surface, from here on; -1 = not made */
} group;

typedef struct value {
    float uv[2];
    uint8_t color[4];
} value;

typedef struct picture {
    int32_t part, id, index;       /* index in the surface; -2 = not looked at */
    char path[256];
} picture;

typedef struct triangle {
    int32_t v[3], group, p[3];     /* group -1 = none */
} triangle;

typedef struct component {
    int32_t part, id;
    double matrix[12];             /* rows of the upper 3x4 */
} component;

typedef struct object {
    int32_t part, id;
    int64_t first_vertex, n_vertices, first_triangle, n_triangles, first_component, n_components;
} object;

/* A growing array of one type. */
typedef struct list {
    void *items;
    size_t count, capacity;
} list;

typedef struct threemf {
    espalier_context *ctx;
    esi_surface *out;
    const esi_mesh_file *file;
    esi_zip zip;
    list vertices, triangles, components, objects, groups, values, pictures, items, instances;
    int32_t root;                  /* part with the build */
    esi_corners numbers;
} threemf;

/* One mesh object in the world. */
typedef struct instance {
    const object *o;
    double matrix[12];
} instance;

static espalier_status damaged(const threemf *t, const char *what)
{
    return esi_fail(t->ctx, ESPALIER_ERR_INPUT, "%s: damaged 3MF: %s", t->file->name, what);
}

static void *append(threemf *t, list *l, size_t size)
{
    if ((l == &t->groups || l == &t->pictures || l == &t->objects) && l->count == MAX_NUMBERED) {
        (void)esi_fail(t->ctx, ESPALIER_ERR_RESOURCE, "%s: more than %d objects, textures or property groups", t->file->name, MAX_NUMBERED);
        return NULL;
    }
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity + l->capacity / 2 + 64;
        void *items = esi_realloc(t->ctx, l->items, capacity, size, "3MF model");

        if (!items) return NULL;
        l->items = items;
        l->capacity = capacity;
    }
    return memset((uint8_t *)l->items + size * l->count++, 0, size);
}

/* ----------------------------------------------------------------- package */

static int32_t find_part(const threemf *t, const char *name)
{
    const esi_zip_entry *e = esi_zip_find(&t->zip, name[0] == '/' ? name + 1 : name);

    return e ? (int32_t)(e - t->zip.entries) : -1;
}

static bool is_model(const esi_zip_entry *e)
{
    return e->name_len > 6 && memcmp(e->name + e->name_len - 6, ".model", 6) == 0;
}

/* The part that the package's relations call its model; the usual name otherwise. */
static espalier_status find_root(threemf *t)
{
    const esi_zip_entry *e = esi_zip_find(&t->zip, "_rels/.rels");
    uint8_t *bytes = NULL;
    size_t size = 0;
    esi_xml_tag tag;
    espalier_status st = e ? esi_zip_extract(t->ctx, &t->zip, e, &bytes, &size, 1 << 20) : ESPALIER_OK;
    esi_xml x = {"", NULL, false};

    t->root = -1;
    if (st != ESPALIER_OK) return st;
    x.at = bytes ? (const char *)bytes : x.at;
    x.end = x.at + size;
    while (t->root < 0 && esi_xml_next(&x, &tag)) {
        char type[160], target[256];

        if (esi_xml_is(&tag, "Relationship") && esi_xml_text(&tag, "Type", type, sizeof type) && strstr(type, "/3dmodel") &&
            esi_xml_text(&tag, "Target", target, sizeof target))
            t->root = find_part(t, target);
    }
    esi_free(t->ctx, bytes);
    if (t->root < 0) t->root = find_part(t, "3D/3dmodel.model");
    return t->root >= 0 ? ESPALIER_OK : damaged(t, "it has no model");
}

/* ------------------------------------------------------------------- parts */

static unsigned hex(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (unsigned)((c | 0x20) - 'a' + 10) : 16;
}

/* "#RRGGBB" or "#RRGGBBAA"; white when it is neither. */
static void read_color(const esi_xml_tag *tag, const char *key, uint8_t out[4])
{
    const char *text;
    size_t len;

    memset(out, 255, 4);
    if (!esi_xml_attribute(tag, key, &text, &len) || (len != 7 && len != 9) || text[0] != '#') return;
    for (size_t i = 0; 2 * i + 2 < len; i++) {
        const unsigned high = hex(text[1 + 2 * i]), low = hex(text[2 + 2 * i]);

        if (high < 16 && low < 16) out[i] = (uint8_t)(high * 16 + low);
    }
}

/* Twelve numbers by columns of three, as row vectors are multiplied; nothing: identity. */
static bool read_matrix(const esi_xml_tag *tag, double out[12])
{
    static const double identity[12] = ESI_AFFINE_IDENTITY;
    const char *text;
    size_t len;
    esi_scan s;

    memcpy(out, identity, sizeof identity);
    if (!esi_xml_attribute(tag, "transform", &text, &len)) return true;
    s = (esi_scan){(const uint8_t *)text, (const uint8_t *)text + len};
    for (int i = 0; i < 12; i++) {
        if (!esi_scan_number(&s, &out[4 * (i % 3) + i / 3])) return false;
    }
    return true;
}

static espalier_status read_group(threemf *t, const esi_xml_tag *tag, int32_t part, group_kind kind)
{
    group *g = append(t, &t->groups, sizeof *g);

    if (!g) return ESPALIER_ERR_RESOURCE;
    g->part = part;
    g->kind = kind;
    g->first = (int64_t)t->values.count;
    g->material = g->texture = -1;
    if (!esi_xml_index(tag, "id", INT32_MAX, &g->id)) return damaged(t, "a property group without number");
    if (kind == GROUP_UV && !esi_xml_index(tag, "texid", INT32_MAX, &g->texture)) return damaged(t, "a texture group without texture");
    return ESPALIER_OK;
}

static espalier_status read_value(threemf *t, const esi_xml_tag *tag, group_kind kind)
{
    group *g = t->groups.count > 0 ? (group *)t->groups.items + t->groups.count - 1 : NULL;
    value *v;
    double uv[2] = {0, 0};

    if (!g || g->kind != kind) return damaged(t, "a property outside its group");
    v = append(t, &t->values, sizeof *v);
    if (!v) return ESPALIER_ERR_RESOURCE;
    g->count++;
    if (kind == GROUP_UV) {
        (void)esi_xml_number(tag, "u", &uv[0]);
        (void)esi_xml_number(tag, "v", &uv[1]);
    }
    v->uv[0] = (float)uv[0];
    v->uv[1] = (float)(1.0 - uv[1]);
    read_color(tag, kind == GROUP_BASE ? "displaycolor" : "color", v->color);
    return ESPALIER_OK;
}

static espalier_status read_picture(threemf *t, const esi_xml_tag *tag, int32_t part)
{
    picture *p = append(t, &t->pictures, sizeof *p);

    if (!p) return ESPALIER_ERR_RESOURCE;
    p->part = part;
    p->index = -2;
    if (!esi_xml_index(tag, "id", INT32_MAX, &p->id) || !esi_xml_text(tag, "path", p->path, sizeof p->path))
        return damaged(t, "a texture without number or path");
    return ESPALIER_OK;
}

static int32_t find_group(const threemf *t, int32_t part, int32_t id)
{
    const group *groups = t->groups.items;

    /* The last ones are looked at first: triangles mostly use what was just defined. */
    for (size_t i = t->groups.count; i-- > 0;) {
        if (groups[i].id == id && groups[i].part == part) return (int32_t)i;
    }
    return -1;
}

static espalier_status read_object(threemf *t, const esi_xml_tag *tag, int32_t part, int32_t inherited[2])
{
    object *o = append(t, &t->objects, sizeof *o);
    int32_t pid;

    if (!o) return ESPALIER_ERR_RESOURCE;
    o->part = part;
    o->first_vertex = (int64_t)t->vertices.count;
    o->first_triangle = (int64_t)t->triangles.count;
    o->first_component = (int64_t)t->components.count;
    inherited[0] = -1;
    inherited[1] = 0;
    if (!esi_xml_index(tag, "id", INT32_MAX, &o->id)) return damaged(t, "an object without number");
    if (esi_xml_index(tag, "pid", INT32_MAX, &pid)) inherited[0] = find_group(t, part, pid);
    (void)esi_xml_index(tag, "pindex", INT32_MAX, &inherited[1]);
    return ESPALIER_OK;
}

static object *last_object(threemf *t)
{
    return t->objects.count > 0 ? (object *)t->objects.items + t->objects.count - 1 : NULL;
}

static espalier_status read_vertex(threemf *t, const esi_xml_tag *tag)
{
    static const char *const keys[3] = {"x", "y", "z"};
    object *o = last_object(t);
    float *to = o ? append(t, &t->vertices, 3 * sizeof *to) : NULL;
    double v;

    if (!o) return damaged(t, "a vertex outside an object");
    if (!to) return ESPALIER_ERR_RESOURCE;
    for (int i = 0; i < 3; i++) {
        if (!esi_xml_number(tag, keys[i], &v)) return damaged(t, "a vertex without its coordinates");
        to[i] = (float)v;
    }
    return ++o->n_vertices <= ESI_MESH_MAX_VERTICES ? ESPALIER_OK : damaged(t, "too many vertices");
}

/* `last` remembers the group of the triangle before: pid, number. */
static espalier_status read_triangle(threemf *t, const esi_xml_tag *tag, int32_t part, const int32_t inherited[2], int32_t last[2])
{
    static const char *const corners[3] = {"v1", "v2", "v3"}, *const properties[3] = {"p1", "p2", "p3"};
    object *o = last_object(t);
    triangle *to = o ? append(t, &t->triangles, sizeof *to) : NULL;
    int32_t pid;

    if (!o) return damaged(t, "a triangle outside an object");
    if (!to) return ESPALIER_ERR_RESOURCE;
    for (int i = 0; i < 3; i++) {
        if (!esi_xml_index(tag, corners[i], o->n_vertices - 1, &to->v[i])) return damaged(t, "a triangle names a vertex that is not there");
    }
    to->group = inherited[0];
    to->p[0] = inherited[1];
    if (esi_xml_index(tag, "pid", INT32_MAX, &pid)) {
        if (pid != last[0]) {
            last[0] = pid;
            last[1] = find_group(t, part, pid);
        }
        to->group = last[1];
    }
    (void)esi_xml_index(tag, properties[0], INT32_MAX, &to->p[0]);
    to->p[1] = to->p[2] = to->p[0];
    for (int i = 1; i < 3; i++) (void)esi_xml_index(tag, properties[i], INT32_MAX, &to->p[i]);
    for (int i = 0; to->group >= 0 && i < 3; i++) {
        if (to->p[i] >= ((group *)t->groups.items)[to->group].count) to->group = -1;
    }
    return ++o->n_triangles <= ESI_MESH_MAX_FACES ? ESPALIER_OK : damaged(t, "too many triangles");
}

/* A component of the last object, or an item of the build. */
static espalier_status read_component(threemf *t, const esi_xml_tag *tag, int32_t part, bool item)
{
    object *o = last_object(t);
    component *c;
    char path[256];

    if (!item && !o) return damaged(t, "a component outside an object");
    c = append(t, item ? &t->items : &t->components, sizeof *c);
    if (!c) return ESPALIER_ERR_RESOURCE;
    c->part = part;
    if (!esi_xml_index(tag, "objectid", INT32_MAX, &c->id) || !read_matrix(tag, c->matrix))
        return damaged(t, "a component without object, or of a damaged transformation");
    if (esi_xml_text(tag, "path", path, sizeof path)) c->part = find_part(t, path);
    if (!item) o->n_components++;
    return ESPALIER_OK;
}

static espalier_status read_tag(threemf *t, const esi_xml_tag *tag, int32_t part, int32_t inherited[2], int32_t last[2])
{
    if (tag->closes) return ESPALIER_OK;
    if (esi_xml_is(tag, "vertex")) return read_vertex(t, tag);
    if (esi_xml_is(tag, "triangle")) return read_triangle(t, tag, part, inherited, last);
    if (esi_xml_is(tag, "tex2coord")) return read_value(t, tag, GROUP_UV);
    if (esi_xml_is(tag, "color")) return read_value(t, tag, GROUP_COLOR);
    if (esi_xml_is(tag, "base")) return read_value(t, tag, GROUP_BASE);
    if (esi_xml_is(tag, "basematerials")) return read_group(t, tag, part, GROUP_BASE);
    if (esi_xml_is(tag, "colorgroup")) return read_group(t, tag, part, GROUP_COLOR);
    if (esi_xml_is(tag, "texture2dgroup")) return read_group(t, tag, part, GROUP_UV);
    if (esi_xml_is(tag, "texture2d")) return read_picture(t, tag, part);
    if (esi_xml_is(tag, "object")) return read_object(t, tag, part, inherited);
    if (esi_xml_is(tag, "component")) return read_component(t, tag, part, false);
    if (esi_xml_is(tag, "item") && part == t->root) return read_component(t, tag, part, true);
    return ESPALIER_OK;
}

static espalier_status read_part(threemf *t, int32_t part)
{
    uint8_t *bytes;
    size_t size;
    int32_t inherited[2] = {-1, 0}, last[2] = {-1, -1};
    esi_xml_tag tag;
    esi_xml x;
    espalier_status st = esi_zip_extract(t->ctx, &t->zip, &t->zip.entries[part], &bytes, &size, esi_limits(t->ctx)->max_file_bytes);

    if (st != ESPALIER_OK) return st;
    x = (esi_xml){(const char *)bytes, (const char *)bytes + size, false};
    for (uint64_t i = 0; st == ESPALIER_OK && esi_xml_next(&x, &tag); i++) {
        st = read_tag(t, &tag, part, inherited, last);
        if (i % POLL == 0 && st == ESPALIER_OK) st = esi_check_cancel(t->ctx);
    }
    if (st == ESPALIER_OK && x.damaged) st = damaged(t, "its model is no XML, or cut off");
    esi_free(t->ctx, bytes);
    return st;
}

static espalier_status read_parts(threemf *t)
{
    espalier_status st = read_part(t, t->root);
    int parts = 0;

    for (size_t i = 0; st == ESPALIER_OK && i < t->zip.n_entries; i++) {
        if ((int32_t)i == t->root || !is_model(&t->zip.entries[i])) continue;
        if (++parts > MAX_PARTS) return damaged(t, "too many parts");
        st = read_part(t, (int32_t)i);
    }
    return st;
}

/* ------------------------------------------------------------------- build */

static const object *find_object(const threemf *t, int32_t part, int32_t id)
{
    const object *objects = t->objects.items;

    for (size_t i = 0; i < t->objects.count; i++) {
        if (objects[i].id == id && objects[i].part == part) return &objects[i];
    }
    return NULL;
}

/* At most MAX_DEPTH calls deep: deeper nesting, which includes every cycle, is refused. */
static espalier_status place(threemf *t, const component *c, const double outer[12], int depth)
{
    const object *o = find_object(t, c->part, c->id);
    double matrix[12];
    instance *i;
    espalier_status st = ESPALIER_OK;

    if (!o) return damaged(t, "a component names an object that is not there");
    if (depth > MAX_DEPTH) return damaged(t, "components are nested too deep, or in themselves");
    esi_affine_multiply(matrix, outer, c->matrix);
    if (t->instances.count >= MAX_INSTANCES) return esi_fail(t->ctx, ESPALIER_ERR_RESOURCE, "%s: too many components", t->file->name);
    i = append(t, &t->instances, sizeof *i);
    if (!i) return ESPALIER_ERR_RESOURCE;
    i->o = o;
    memcpy(i->matrix, matrix, sizeof matrix);
    for (int64_t k = 0; st == ESPALIER_OK && k < o->n_components; k++)
        st = place(t, (const component *)t->components.items + o->first_component + k, matrix, depth + 1);
    return st;
}

static espalier_status place_items(threemf *t)
{
    static const double identity[12] = ESI_AFFINE_IDENTITY;
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < t->items.count; i++) st = place(t, (const component *)t->items.items + i, identity, 0);
    return st;
}

/* --------------------------------------------------------------- materials */

static espalier_status load_picture(threemf *t, picture *p)
{
    const esi_zip_entry *e = esi_zip_find(&t->zip, p->path[0] == '/' ? p->path + 1 : p->path);
    esi_texture texture = {0};
    uint8_t *bytes = NULL;
    size_t size = 0;
    bool found = false;
    espalier_status st = ESPALIER_OK;

    p->index = -1;
    if (!e) return ESPALIER_OK;
    st = esi_zip_extract(t->ctx, &t->zip, e, &bytes, &size, esi_limits(t->ctx)->max_file_bytes);
    if (st == ESPALIER_OK) st = esi_texture_decode(t->ctx, &texture, &found, bytes, size, t->file->name);
    if (st == ESPALIER_OK && found) st = esi_surface_add_texture(t->ctx, t->out, &texture, &p->index);
    esi_free(t->ctx, bytes);
    esi_free(t->ctx, texture.pixels);
    return st;
}

static espalier_status find_texture(threemf *t, const group *g, int32_t *index)
{
    picture *pictures = t->pictures.items;
    espalier_status st = ESPALIER_OK;

    *index = -1;
    for (size_t i = 0; i < t->pictures.count; i++) {
        if (pictures[i].id != g->texture || pictures[i].part != g->part) continue;
        if (pictures[i].index == -2) st = load_picture(t, &pictures[i]);
        *index = pictures[i].index;
        break;
    }
    return st;
}

/* Material 0 is plain; then one for each texture group and each base material. */
static espalier_status make_materials(threemf *t)
{
    group *groups = t->groups.items;
    size_t n = 1;
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; i < t->groups.count; i++)
        n += groups[i].kind == GROUP_UV ? 1 : groups[i].kind == GROUP_BASE ? (size_t)groups[i].count : 0;
    if (n > INT32_MAX) return damaged(t, "too many materials");
    t->out->materials = esi_alloc(t->ctx, n, sizeof *t->out->materials, "materials");
    if (!t->out->materials) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n; i++) {
        t->out->materials[i] = esi_material_default();
        t->out->materials[i].metallic = 0.0f;
    }
    t->out->n_materials = 1;
    for (size_t i = 0; st == ESPALIER_OK && i < t->groups.count; i++) {
        group *g = &groups[i];

        g->material = g->kind == GROUP_COLOR ? 0 : t->out->n_materials;
        if (g->kind == GROUP_UV) st = find_texture(t, g, &t->out->materials[t->out->n_materials++].base_color_texture);
        for (int64_t k = 0; g->kind == GROUP_BASE && k < g->count; k++) {
            const uint8_t *c = ((value *)t->values.items)[g->first + k].color;
            esi_material *m = &t->out->materials[t->out->n_materials++];

            for (int j = 0; j < 3; j++) m->base_color[j] = (float)esi_srgb_decode(c[j] / 255.0);
            m->base_color[3] = c[3] / 255.0f;
            if (c[3] < 255) m->alpha_mode = ESI_ALPHA_BLEND;
        }
    }
    return st;
}

/* -------------------------------------------------------------------- mesh */

static espalier_status copy_triangles(threemf *t, const instance *i, int64_t first_vertex, int64_t *face)
{
    const triangle *from = (const triangle *)t->triangles.items + i->o->first_triangle;
    double turn[9];
    const bool mirrored = esi_affine_cofactors(turn, i->matrix) < 0.0;
    espalier_status st = ESPALIER_OK;

    for (int64_t f = 0; st == ESPALIER_OK && f < i->o->n_triangles; f++, ++*face) {
        const group *g = from[f].group >= 0 ? (const group *)t->groups.items + from[f].group : NULL;
        const bool corners = g && g->kind != GROUP_BASE;

        if (f % POLL == 0) st = esi_check_cancel(t->ctx);
        for (int k = 0; st == ESPALIER_OK && k < 3; k++) {
            const int at = mirrored ? 2 - k : k;
            const esi_corner c = {(int32_t)(first_vertex + from[f].v[at]), corners ? from[f].group : -1, corners ? from[f].p[at] : -1};

            st = esi_corners_number(t->ctx, &t->numbers, c, &t->out->mesh.faces[3 * *face + k]);
        }
        t->out->face_material[*face] = !g ? 0 : g->kind == GROUP_BASE ? g->material + from[f].p[0] : g->material;
    }
    return st;
}

/* Positions of all instances, one behind the other. */
static espalier_status make_positions(threemf *t, float **out, int64_t *count, int64_t *faces)
{
    const instance *instances = t->instances.items;
    float *to;

    *count = *faces = 0;
    for (size_t i = 0; i < t->instances.count; i++) {
        *count += instances[i].o->n_vertices;
        *faces += instances[i].o->n_triangles;
        if (*count > ESI_MESH_MAX_VERTICES || *faces > ESI_MESH_MAX_FACES ||
            12 * (uint64_t)(*count + *faces) > esi_limits(t->ctx)->max_file_bytes)
            return esi_fail(t->ctx, ESPALIER_ERR_RESOURCE, "%s: its objects together are over the limit", t->file->name);
    }
    if (*faces == 0) return esi_fail(t->ctx, ESPALIER_ERR_INPUT, "%s: no triangles", t->file->name);
    *out = to = esi_alloc(t->ctx, (size_t)*count, 3 * sizeof *to, "mesh vertices");
    if (!to) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < t->instances.count; i++) {
        const float *from = (const float *)t->vertices.items + 3 * instances[i].o->first_vertex;
        const double *m = instances[i].matrix;

        for (int64_t v = 0; v < instances[i].o->n_vertices; v++, from += 3, to += 3) {
            for (int k = 0; k < 3; k++)
                to[k] = (float)(m[4 * k] * (double)from[0] + m[4 * k + 1] * (double)from[1] + m[4 * k + 2] * (double)from[2] +
                                m[4 * k + 3]);
        }
    }
    return ESPALIER_OK;
}

static espalier_status make_vertices(threemf *t, const float *positions)
{
    const group *groups = t->groups.items;
    const value *values = t->values.items;
    esi_surface *s = t->out;
    const int64_t n = t->numbers.count;
    bool uvs = false, colors = false;

    for (int64_t i = 0; i < n; i++) {
        const esi_corner c = t->numbers.corners[i];

        uvs = uvs || (c.t >= 0 && groups[c.t].kind == GROUP_UV);
        colors = colors || (c.t >= 0 && groups[c.t].kind == GROUP_COLOR);
    }
    s->mesh.vertices = esi_alloc(t->ctx, (size_t)n, 3 * sizeof(float), "mesh vertices");
    if (uvs) s->uvs = esi_calloc(t->ctx, (size_t)n, 2 * sizeof(float), "texture coordinates");
    if (colors) s->colors = esi_alloc(t->ctx, (size_t)n, 4, "mesh colours");
    if (!s->mesh.vertices || (uvs && !s->uvs) || (colors && !s->colors)) return ESPALIER_ERR_RESOURCE;
    if (colors) memset(s->colors, 255, 4 * (size_t)n);
    s->mesh.n_vertices = n;
    for (int64_t i = 0; i < n; i++) {
        const esi_corner c = t->numbers.corners[i];
        const value *v = c.t >= 0 ? &values[groups[c.t].first + c.n] : NULL;

        memcpy(s->mesh.vertices + 3 * i, positions + 3 * (c.v >= 0 ? (int64_t)c.v : i), 3 * sizeof(float));
        if (v && groups[c.t].kind == GROUP_UV) memcpy(s->uvs + 2 * i, v->uv, sizeof v->uv);
        if (v && groups[c.t].kind == GROUP_COLOR) memcpy(s->colors + 4 * i, v->color, 4);
    }
    return ESPALIER_OK;
}

static espalier_status make_mesh(threemf *t)
{
    const instance *instances = t->instances.items;
    float *positions = NULL;
    int64_t n_positions, n_faces, vertex = 0, face = 0;
    espalier_status st = make_positions(t, &positions, &n_positions, &n_faces);

    if (st == ESPALIER_OK) st = make_materials(t);
    if (st == ESPALIER_OK) st = esi_corners_open(t->ctx, &t->numbers, n_positions, t->file->name);
    if (st != ESPALIER_OK) goto done;
    t->out->mesh.faces = esi_alloc(t->ctx, (size_t)n_faces, 3 * sizeof(int32_t), "mesh faces");
    t->out->face_material = esi_alloc(t->ctx, (size_t)n_faces, sizeof(int32_t), "face materials");
    if (!t->out->mesh.faces || !t->out->face_material) st = ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; st == ESPALIER_OK && i < t->instances.count; i++) {
        st = copy_triangles(t, &instances[i], vertex, &face);
        vertex += instances[i].o->n_vertices;
    }
    t->out->mesh.n_faces = face;
    if (st == ESPALIER_OK) st = make_vertices(t, positions);
done:
    esi_free(t->ctx, positions);
    return st;
}

espalier_status esi_3mf_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    threemf t = {.ctx = ctx, .out = out, .file = file};
    list *lists[] = {&t.vertices, &t.triangles, &t.components, &t.objects, &t.groups, &t.values, &t.pictures, &t.items, &t.instances};
    espalier_status st = esi_zip_open(ctx, &t.zip, file->bytes, file->size, file->name);

    if (st == ESPALIER_OK) st = find_root(&t);
    if (st == ESPALIER_OK) st = read_parts(&t);
    if (st == ESPALIER_OK) st = place_items(&t);
    if (st == ESPALIER_OK) st = make_mesh(&t);
    for (size_t i = 0; i < ESI_COUNT(lists); i++) esi_free(ctx, lists[i]->items);
    esi_corners_close(ctx, &t.numbers);
    esi_zip_close(ctx, &t.zip);
    return st;
}
