/* SPDX-License-Identifier: MIT
 *
 * off.c: Object File Format (Geomview), text -> surface: OFF with the prefixes C (colours) and N (normals). Vertices keep their numbers,
 * polygons become fans; colours of faces are stepped over.
 */
#include "formats/mesh_files.h"
#include "formats/numbers.h"

#define MAX_POLYGON 65536
#define POLL 65536

typedef struct off {
    espalier_context *ctx;
    const esi_mesh_file *file;
    esi_surface *out;
    esi_scan text;
    bool colors, normals;
    double counts[3];              /* vertices, faces, edges */
    esi_face_list list;
    int32_t corners[MAX_POLYGON];
} off;

static espalier_status damaged(const off *o, const char *what)
{
    return esi_fail_at(o->ctx, ESPALIER_ERR_INPUT, (int64_t)(o->text.at - o->file->bytes), "%s: damaged OFF: %s", o->file->name, what);
}

/* The next line with something on it, without comments. */
static bool next_line(off *o, esi_scan *line)
{
    do {
        const uint8_t *hash;

        if (o->text.at == o->text.end) return false;
        line->at = o->text.at;
        (void)esi_scan_line(&o->text);
        line->end = o->text.at;
        hash = memchr(line->at, '#', (size_t)(line->end - line->at));
        if (hash) line->end = hash;
        esi_scan_blanks(line, true);
    } while (line->at == line->end);
    return true;
}

static espalier_status parse_header(off *o)
{
    esi_scan line;
    const char *word;
    size_t len;

    if (!next_line(o, &line) || !esi_scan_word(&line, &word, &len)) return damaged(o, "it is empty");
    for (; len > 3 && (*word == 'C' || *word == 'N'); word++, len--) {
        o->colors = o->colors || *word == 'C';
        o->normals = o->normals || *word == 'N';
    }
    if (!esi_word_is(word, len, "OFF")) return damaged(o, "it does not begin with OFF, COFF, NOFF or CNOFF");
    esi_scan_blanks(&line, true);
    if (line.at == line.end && !next_line(o, &line)) return damaged(o, "it is cut off");
    for (int i = 0; i < 3; i++) {
        if (!esi_scan_number(&line, &o->counts[i]) && i < 2) return damaged(o, "no number of vertices and faces");
    }
    for (int i = 0; i < 2; i++) {
        /* A row has at least three numbers of a character and a separator. */
        if (!(o->counts[i] >= 0.0) || (double)(uint64_t)ESI_MIN(o->counts[i], 0x1p53) != o->counts[i] ||
            o->counts[i] > (double)(o->text.end - o->text.at + 1) / 6.0)
            return damaged(o, "it is shorter than its header says");
    }
    return ESPALIER_OK;
}

static espalier_status read_vertices(off *o)
{
    esi_surface *s = o->out;
    const int64_t n = (int64_t)o->counts[0];
    espalier_status st = ESPALIER_OK;

    if (n > ESI_MESH_MAX_VERTICES) return esi_fail(o->ctx, ESPALIER_ERR_RESOURCE, "%s: too many vertices", o->file->name);
    s->mesh.vertices = esi_alloc(o->ctx, (size_t)n, 3 * sizeof(float), "mesh vertices");
    if (o->normals) s->normals = esi_alloc(o->ctx, (size_t)n, 3 * sizeof(float), "mesh normals");
    if (o->colors) s->colors = esi_alloc(o->ctx, (size_t)n, 4, "mesh colours");
    if (!s->mesh.vertices || (o->normals && !s->normals) || (o->colors && !s->colors)) return ESPALIER_ERR_RESOURCE;
    s->mesh.n_vertices = n;
    for (int64_t v = 0; st == ESPALIER_OK && v < n; v++) {
        esi_scan line;
        double value;

        if (v % POLL == 0) st = esi_check_cancel(o->ctx);
        if (!next_line(o, &line)) return damaged(o, "it is shorter than its header says");
        for (int k = 0; k < (o->normals ? 6 : 3); k++) {
            if (!esi_scan_number(&line, &value)) return damaged(o, "a vertex without its numbers");
            if (k < 3)
                s->mesh.vertices[3 * v + k] = (float)value;
            else
                s->normals[3 * v + k - 3] = (float)value;
        }
        for (int k = 0; o->colors && k < 4; k++) {
            const uint8_t *start = line.at;
            bool fraction = false;

            if (!esi_scan_number(&line, &value)) value = k == 3 ? 255.0 : 0.0, start = line.at;
            for (; start < line.at; start++) fraction = fraction || *start == '.';
            value = fraction ? value * 255.0 : value;
            s->colors[4 * v + k] = (uint8_t)(value > 0.0 ? (value < 255.0 ? value + 0.5 : 255.0) : 0.0);
        }
    }
    return st;
}

static espalier_status read_faces(off *o)
{
    const int64_t n = (int64_t)o->counts[1];
    espalier_status st = n > ESI_MESH_MAX_FACES ? esi_fail(o->ctx, ESPALIER_ERR_RESOURCE, "%s: too many faces", o->file->name)
                                                : esi_face_list_reserve(o->ctx, &o->list, n);

    for (int64_t f = 0; st == ESPALIER_OK && f < n; f++) {
        esi_scan line;
        double count, value;

        if (f % POLL == 0) st = esi_check_cancel(o->ctx);
        if (!next_line(o, &line) || !esi_scan_number(&line, &count)) return damaged(o, "it is shorter than its header says");
        if (!(count >= 0 && count <= MAX_POLYGON)) return damaged(o, "a face has an impossible number of corners");
        for (int k = 0; k < (int)count; k++) {
            if (!esi_scan_number(&line, &value) || !(value >= 0 && value <= (double)INT32_MAX) || (double)(int32_t)value != value)
                return damaged(o, "a face names an impossible vertex");
            o->corners[k] = (int32_t)value;
        }
        if (st == ESPALIER_OK) st = esi_face_list_polygon(o->ctx, &o->list, o->corners, (int64_t)count);
    }
    return st;
}

espalier_status esi_off_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    off *o = esi_calloc(ctx, 1, sizeof *o, "OFF reader");
    espalier_status st;

    if (!o) return ESPALIER_ERR_RESOURCE;
    o->ctx = ctx;
    o->file = file;
    o->list.name = file->name;
    o->out = out;
    o->text = (esi_scan){file->bytes, file->bytes + file->size};
    st = parse_header(o);
    if (st == ESPALIER_OK) st = read_vertices(o);
    if (st == ESPALIER_OK) st = read_faces(o);
    if (st == ESPALIER_OK) st = esi_face_list_finish(ctx, &o->list, &out->mesh);
    esi_free(ctx, o->list.faces);
    esi_free(ctx, o);
    return st;
}
