/* SPDX-License-Identifier: MIT
 *
 * obj_read.c: Wavefront OBJ -> surface. Vertices keep their numbers. Where a vertex has several texture coordinates or normals, its first
 * pair stays with it and the others become further vertices behind all of the file's. Polygons become fans; lines, points, curves and
 * groups are stepped over. Materials come from the libraries that the file names beside it.
 */
#include "formats/obj_read.h"

#include <math.h>

#define POLL 65536                 /* lines between two looks at the cancel flag */
#define MAX_POLYGON 65536

typedef struct float_list {
    float *values;
    size_t count, capacity;        /* floats */
} float_list;

/* "usemtl": from this triangle on. */
typedef struct change {
    int64_t face;
    esi_obj_name name;
} change;

typedef struct obj {
    espalier_context *ctx;
    esi_surface *out;
    const esi_mesh_file *file;
    float_list positions, colors, uvs, normals;
    esi_corner *corners;               /* [n_faces][3] */
    int64_t n_faces, cap_faces;
    change *changes;
    size_t n_changes, cap_changes;
    esi_obj_library library;
    bool separate;                 /* some esi_corner has texture coordinates or a normal */
    esi_corners numbers;
    esi_corner polygon[MAX_POLYGON];
} obj;

static espalier_status damaged(const obj *o, const esi_scan *line, const char *what)
{
    return esi_fail_at(o->ctx, ESPALIER_ERR_INPUT, (int64_t)(line->at - o->file->bytes), "%s: damaged OBJ: %s", o->file->name, what);
}

/* ------------------------------------------------------------------- lines */

static espalier_status append(obj *o, float_list *l, const double *v, size_t n)
{
    if (l->count + n > l->capacity) {
        const size_t capacity = l->capacity + l->capacity / 2 + 3072;
        float *values;

        if (capacity / 2 > (size_t)ESI_MESH_MAX_VERTICES)
            return esi_fail(o->ctx, ESPALIER_ERR_RESOURCE, "%s: too many vertices", o->file->name);
        values = esi_realloc(o->ctx, l->values, capacity, sizeof *values, "mesh vertices");
        if (!values) return ESPALIER_ERR_RESOURCE;
        l->values = values;
        l->capacity = capacity;
    }
    for (size_t i = 0; i < n; i++) l->values[l->count++] = (float)v[i];
    return ESPALIER_OK;
}

/* As many numbers as there are, at most `most`. */
static size_t read_values(esi_scan *line, double *v, size_t most)
{
    size_t n = 0;

    while (n < most && esi_scan_number(line, &v[n])) n++;
    return n;
}

static espalier_status read_vertex(obj *o, esi_scan *line)
{
    double v[7];
    const size_t n = read_values(line, v, 7), color = n == 7 ? 4 : 3;
    espalier_status st;

    if (n < 3) return damaged(o, line, "a vertex without three coordinates");
    st = append(o, &o->positions, v, 3);
    if (st != ESPALIER_OK || n < 6) return st;
    /* Colours begin with the first vertex or are none: those before are white. */
    while (st == ESPALIER_OK && o->colors.count + 3 < o->positions.count) st = append(o, &o->colors, (const double[3]){1, 1, 1}, 3);
    return st == ESPALIER_OK ? append(o, &o->colors, v + color, 3) : st;
}

/* One index of a corner: from 1, or negative from the end. false: no such element. */
static bool read_index(const char **at, const char *end, size_t count, int32_t *out)
{
    const bool negative = *at < end && **at == '-';
    int64_t v = 0;
    int digits = 0;

    if (negative) ++*at;
    for (; *at < end && **at >= '0' && **at <= '9' && digits < 11; digits++) v = v * 10 + (*(*at)++ - '0');
    if (digits == 0 || v < 1 || v > (int64_t)count) return false;
    *out = (int32_t)(negative ? (int64_t)count - v : v - 1);
    return true;
}

/* "7", "7/3", "7//2", "7/3/2" */
static bool read_corner(const obj *o, const char *word, size_t len, esi_corner *c)
{
    const char *at = word, *end = word + len;

    *c = (esi_corner){-1, -1, -1};
    if (!read_index(&at, end, o->positions.count / 3, &c->v)) return false;
    if (at == end) return true;
    if (*at++ != '/') return false;
    if (at < end && *at != '/' && !read_index(&at, end, o->uvs.count / 2, &c->t)) return false;
    if (at == end) return true;
    if (*at++ != '/') return false;
    return at == end || (read_index(&at, end, o->normals.count / 3, &c->n) && at == end);
}

static espalier_status add_triangle(obj *o, esi_corner a, esi_corner b, esi_corner c)
{
    if (o->n_faces == o->cap_faces) {
        const int64_t capacity = o->cap_faces + o->cap_faces / 2 + 1024;
        esi_corner *corners;

        if (capacity > ESI_MESH_MAX_FACES) return esi_fail(o->ctx, ESPALIER_ERR_RESOURCE, "%s: too many faces", o->file->name);
        corners = esi_realloc(o->ctx, o->corners, (size_t)capacity, 3 * sizeof *corners, "mesh faces");
        if (!corners) return ESPALIER_ERR_RESOURCE;
        o->corners = corners;
        o->cap_faces = capacity;
    }
    o->corners[3 * o->n_faces] = a;
    o->corners[3 * o->n_faces + 1] = b;
    o->corners[3 * o->n_faces++ + 2] = c;
    return ESPALIER_OK;
}

static espalier_status read_face(obj *o, esi_scan *line)
{
    const char *word;
    size_t len;
    int n = 0;
    espalier_status st = ESPALIER_OK;

    while (esi_scan_word(line, &word, &len)) {
        if (word[0] == '#' || word[0] == '\\') break;
        if (n == MAX_POLYGON) return damaged(o, line, "a face has more corners than can be");
        if (!read_corner(o, word, len, &o->polygon[n])) return damaged(o, line, "a face names a vertex that is not there");
        o->separate = o->separate || o->polygon[n].t >= 0 || o->polygon[n].n >= 0;
        n++;
    }
    for (int i = 2; st == ESPALIER_OK && i < n; i++) st = add_triangle(o, o->polygon[0], o->polygon[i - 1], o->polygon[i]);
    return st;
}

static espalier_status note_change(obj *o, esi_scan *line)
{
    if (o->n_changes == o->cap_changes) {
        const size_t capacity = o->cap_changes + o->cap_changes / 2 + 16;
        change *changes = esi_realloc(o->ctx, o->changes, capacity, sizeof *changes, "face materials");

        if (!changes) return ESPALIER_ERR_RESOURCE;
        o->changes = changes;
        o->cap_changes = capacity;
    }
    o->changes[o->n_changes++] = (change){o->n_faces, esi_obj_rest(line)};
    return ESPALIER_OK;
}

static espalier_status read_line(obj *o, esi_scan *line)
{
    const char *key;
    size_t len;
    double v[3];

    if (!esi_scan_word(line, &key, &len) || key[0] == '#') return ESPALIER_OK;
    if (esi_word_is(key, len, "v")) return read_vertex(o, line);
    if (esi_word_is(key, len, "f")) return read_face(o, line);
    if (esi_word_is(key, len, "vt")) {
        v[1] = 0.0;
        if (read_values(line, v, 2) < 1) return damaged(o, line, "texture coordinates that are no numbers");
        return append(o, &o->uvs, v, 2);
    }
    if (esi_word_is(key, len, "vn")) {
        if (read_values(line, v, 3) < 3) return damaged(o, line, "a normal that is no three numbers");
        return append(o, &o->normals, v, 3);
    }
    if (esi_word_is(key, len, "usemtl")) return note_change(o, line);
    if (esi_word_is(key, len, "mtllib")) return esi_obj_library_add(o->ctx, &o->library, o->file, esi_obj_rest(line));
    return ESPALIER_OK;
}

/* A line that ends with a backslash goes on in the next one: faces of many corners. The pieces are joined in memory. */
static espalier_status read_joined(obj *o, esi_scan *text, esi_scan line)
{
    esi_text joined = {0};
    espalier_status st = ESPALIER_OK;

    for (;;) {
        const bool more = line.end > line.at && line.end[-1] == '\\';

        esi_text_append_bytes(o->ctx, &joined, line.at, (size_t)(line.end - line.at) - more);
        esi_text_append_bytes(o->ctx, &joined, " ", 1);
        if (!more || !esi_obj_line(text, &line)) break;
    }
    if (joined.failed) {
        st = ESPALIER_ERR_RESOURCE;
    } else {
        esi_scan all = {(const uint8_t *)joined.data, (const uint8_t *)joined.data + joined.len};
        const char *key;
        size_t len;

        /* Names would point into the joined text: only elements may be continued. */
        if (esi_scan_word(&all, &key, &len) && !esi_word_is(key, len, "usemtl") && !esi_word_is(key, len, "mtllib")) {
            all.at = (const uint8_t *)joined.data;
            st = read_line(o, &all);
        }
    }
    esi_text_free(o->ctx, &joined);
    return st;
}

static espalier_status read_lines(obj *o)
{
    esi_scan text = {o->file->bytes, o->file->bytes + o->file->size}, line;
    espalier_status st = ESPALIER_OK;

    for (uint64_t i = 0; st == ESPALIER_OK && esi_obj_line(&text, &line); i++) {
        if (i % POLL == 0) st = esi_check_cancel(o->ctx);
        if (st != ESPALIER_OK) break;
        st = line.end > line.at && line.end[-1] == '\\' ? read_joined(o, &text, line) : read_line(o, &line);
    }
    if (st == ESPALIER_OK && o->n_faces == 0) st = esi_fail(o->ctx, ESPALIER_ERR_INPUT, "%s: no triangles", o->file->name);
    return st;
}

/* --------------------------------------------------------------- numbering */

/* corners -> faces, a vertex for each different corner. */
static espalier_status number_corners(obj *o)
{
    int32_t *faces = o->out->mesh.faces;
    espalier_status st = esi_corners_open(o->ctx, &o->numbers, (int64_t)(o->positions.count / 3), o->file->name);

    for (int64_t i = 0; st == ESPALIER_OK && i < 3 * o->n_faces; i++) {
        st = esi_corners_number(o->ctx, &o->numbers, o->corners[i], &faces[i]);
        if (i % (16 * POLL) == 0 && st == ESPALIER_OK) st = esi_check_cancel(o->ctx);
    }
    return st;
}

static espalier_status make_faces(obj *o)
{
    esi_mesh *m = &o->out->mesh;

    if (o->positions.count / 3 > (size_t)ESI_MESH_MAX_VERTICES)
        return esi_fail(o->ctx, ESPALIER_ERR_RESOURCE, "%s: too many vertices", o->file->name);
    m->faces = esi_alloc(o->ctx, (size_t)o->n_faces, 3 * sizeof *m->faces, "mesh faces");
    if (!m->faces) return ESPALIER_ERR_RESOURCE;
    m->n_faces = o->n_faces;
    if (o->separate) return number_corners(o);
    for (int64_t i = 0; i < 3 * o->n_faces; i++) m->faces[i] = o->corners[i].v;
    return ESPALIER_OK;
}

/* ---------------------------------------------------------------- vertices */

static uint8_t color_byte(float v)
{
    return (uint8_t)(v > 0.0f ? (v < 1.0f ? v * 255.0f + 0.5f : 255.0f) : 0.0f);
}

static void copy_vertex(const obj *o, int64_t i, esi_corner c)
{
    esi_surface *s = o->out;

    memcpy(s->mesh.vertices + 3 * i, o->positions.values + 3 * (size_t)c.v, 3 * sizeof(float));
    for (int k = 0; s->colors && k < 4; k++) {
        const size_t at = 3 * (size_t)c.v + (size_t)k;

        s->colors[4 * i + k] = k < 3 && at < o->colors.count ? color_byte(o->colors.values[at]) : 255;
    }
    if (s->uvs && c.t >= 0) {
        s->uvs[2 * i] = o->uvs.values[2 * (size_t)c.t];
        s->uvs[2 * i + 1] = 1.0f - o->uvs.values[2 * (size_t)c.t + 1];
    }
    if (s->normals && c.n >= 0) memcpy(s->normals + 3 * i, o->normals.values + 3 * (size_t)c.n, 3 * sizeof(float));
}

static espalier_status make_vertices(obj *o)
{
    esi_surface *s = o->out;
    const int64_t count = o->separate ? o->numbers.count : (int64_t)(o->positions.count / 3);
    const size_t n = (size_t)count;
    bool uvs = false, normals = o->separate;

    for (int64_t i = 0; o->separate && i < count; i++) {
        const esi_corner c = o->numbers.corners[i];

        uvs = uvs || c.t >= 0;
        normals = normals && (c.v == -2 || c.n >= 0);
    }
    s->mesh.vertices = esi_alloc(o->ctx, n, 3 * sizeof(float), "mesh vertices");
    if (uvs) s->uvs = esi_calloc(o->ctx, n, 2 * sizeof(float), "texture coordinates");
    if (normals) s->normals = esi_calloc(o->ctx, n, 3 * sizeof(float), "mesh normals");
    if (o->colors.count > 0) s->colors = esi_alloc(o->ctx, n, 4, "mesh colours");
    if (!s->mesh.vertices || (uvs && !s->uvs) || (normals && !s->normals) || (o->colors.count > 0 && !s->colors))
        return ESPALIER_ERR_RESOURCE;
    s->mesh.n_vertices = count;
    for (int64_t i = 0; i < count; i++) {
        esi_corner c = o->separate ? o->numbers.corners[i] : (esi_corner){(int32_t)i, -1, -1};

        if (c.v == -2) c = (esi_corner){(int32_t)i, -1, -1};
        copy_vertex(o, i, c);
    }
    return esi_check_cancel(o->ctx);
}

/* --------------------------------------------------------------- materials */

/* Materials in the order of their first use; faces before the first "usemtl", and of names that no library knows, have a plain one. */
static espalier_status make_materials(obj *o)
{
    esi_surface *s = o->out;
    int64_t face = 0;
    int32_t plain = -1, current = -1;

    if (o->library.count == 0) return ESPALIER_OK;
    esi_obj_library_sort(&o->library);
    s->face_material = esi_alloc(o->ctx, (size_t)o->n_faces, sizeof *s->face_material, "face materials");
    s->materials = esi_alloc(o->ctx, o->library.count + 1, sizeof *s->materials, "materials");
    if (!s->face_material || !s->materials) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i <= o->n_changes; i++) {
        const int64_t end = i < o->n_changes ? o->changes[i].face : o->n_faces;

        if (face < end && current < 0) {
            if (plain < 0) {
                plain = s->n_materials++;
                s->materials[plain] = esi_material_default();
                s->materials[plain].metallic = 0.0f;
            }
            current = plain;
        }
        for (; face < end; face++) s->face_material[face] = current;
        if (i < o->n_changes) {
            esi_obj_material *m = esi_obj_library_find(&o->library, o->changes[i].name);
            const bool has_faces = (i + 1 < o->n_changes ? o->changes[i + 1].face : o->n_faces) > end;

            if (m && m->index < 0 && has_faces) {
                m->used = true;
                m->index = s->n_materials++;
            }
            current = m ? m->index : plain;
        }
    }
    return esi_obj_library_finish(o->ctx, &o->library, s, o->file);
}

espalier_status esi_obj_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    obj *o = esi_calloc(ctx, 1, sizeof *o, "OBJ reader");
    espalier_status st;

    if (!o) return ESPALIER_ERR_RESOURCE;
    o->ctx = ctx;
    o->out = out;
    o->file = file;
    st = read_lines(o);
    if (st == ESPALIER_OK) st = make_faces(o);
    esi_free(ctx, o->corners);
    if (st == ESPALIER_OK) st = make_vertices(o);
    if (st == ESPALIER_OK) st = make_materials(o);
    esi_free(ctx, o->positions.values);
    esi_free(ctx, o->colors.values);
    esi_free(ctx, o->uvs.values);
    esi_free(ctx, o->normals.values);
    esi_free(ctx, o->changes);
    esi_corners_close(ctx, &o->numbers);
    esi_obj_library_free(ctx, &o->library);
    esi_free(ctx, o);
    return st;
}
