/* SPDX-License-Identifier: MIT
 *
 * stl.c: stereolithography files, binary and text -> surface. Every triangle has three vertices of its own, as in the file; the normals of
 * the file are not read, since the winding says the same and many writers leave them zero.
 */
#include "formats/bytes.h"
#include "formats/mesh_files.h"
#include "formats/numbers.h"

#define HEADER 84                  /* 80 bytes of anything and a count */
#define RECORD 50                  /* normal, three vertices, two bytes that some give a meaning */
#define POLL 262144

static espalier_status damaged(espalier_context *ctx, const esi_mesh_file *file, const uint8_t *at, const char *what)
{
    return esi_fail_at(ctx, ESPALIER_ERR_INPUT, (int64_t)(at - file->bytes), "%s: damaged STL: %s", file->name, what);
}

/* Vertex i belongs to corner i. */
static espalier_status number_corners(espalier_context *ctx, esi_mesh *mesh)
{
    mesh->faces = esi_alloc(ctx, (size_t)(mesh->n_vertices / 3), 3 * sizeof(int32_t), "mesh faces");
    if (!mesh->faces) return ESPALIER_ERR_RESOURCE;
    mesh->n_faces = mesh->n_vertices / 3;
    for (int64_t i = 0; i < mesh->n_vertices; i++) mesh->faces[i] = (int32_t)i;
    return ESPALIER_OK;
}

static espalier_status parse_binary(espalier_context *ctx, esi_mesh *mesh, const esi_mesh_file *file, uint64_t n)
{
    espalier_status st = ESPALIER_OK;

    if (n == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no triangles", file->name);
    if (n > (uint64_t)ESI_MESH_MAX_FACES)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: %llu faces are more than can be numbered", file->name, (unsigned long long)n);
    mesh->vertices = esi_alloc(ctx, (size_t)n, 9 * sizeof(float), "mesh vertices");
    if (!mesh->vertices) return ESPALIER_ERR_RESOURCE;
    mesh->n_vertices = (int64_t)(3 * n);
    for (uint64_t f = 0; st == ESPALIER_OK && f < n; f++) {
        const uint8_t *at = file->bytes + HEADER + RECORD * f + 12;

        if (f % POLL == 0) st = esi_check_cancel(ctx);
        for (int i = 0; i < 9; i++) mesh->vertices[9 * f + (uint64_t)i] = esi_load_f32le(at + 4 * i);
    }
    return st == ESPALIER_OK ? number_corners(ctx, mesh) : st;
}

static espalier_status add_vertex(espalier_context *ctx, esi_mesh *mesh, int64_t *capacity, const float v[3], const esi_mesh_file *file)
{
    if (mesh->n_vertices == *capacity) {
        const int64_t more = *capacity + *capacity / 2 + 1024;
        float *vertices;

        if (more > 3 * ESI_MESH_MAX_FACES)
            return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: more faces than can be numbered", file->name);
        vertices = esi_realloc(ctx, mesh->vertices, (size_t)more, 3 * sizeof *vertices, "mesh vertices");
        if (!vertices) return ESPALIER_ERR_RESOURCE;
        mesh->vertices = vertices;
        *capacity = more;
    }
    memcpy(mesh->vertices + 3 * mesh->n_vertices++, v, 3 * sizeof *v);
    return ESPALIER_OK;
}

static bool next_is(esi_scan *s, const char *what)
{
    const char *word;
    size_t len;

    return esi_scan_word(s, &word, &len) && esi_word_is(word, len, what);
}

/* "normal x y z outer loop vertex x y z vertex ... endloop endfacet", the normal's numbers whatever they are. */
static espalier_status parse_facet(espalier_context *ctx, esi_mesh *mesh, int64_t *capacity, esi_scan *s, const esi_mesh_file *file)
{
    espalier_status st = ESPALIER_OK;
    const char *word;
    size_t len;
    bool ok = next_is(s, "normal");

    for (int i = 0; i < 3; i++) ok = ok && esi_scan_word(s, &word, &len);
    if (!ok || !next_is(s, "outer") || !next_is(s, "loop")) return damaged(ctx, file, s->at, "a facet without a loop");
    for (int corner = 0; st == ESPALIER_OK && corner < 3; corner++) {
        float v[3];
        double value;

        if (!next_is(s, "vertex")) return damaged(ctx, file, s->at, "a facet with fewer than three vertices");
        for (int i = 0; i < 3; i++) {
            if (!esi_scan_number(s, &value)) return damaged(ctx, file, s->at, "a coordinate is no number");
            v[i] = (float)value;
        }
        st = add_vertex(ctx, mesh, capacity, v, file);
    }
    if (st != ESPALIER_OK) return st;
    if (!next_is(s, "endloop") || !next_is(s, "endfacet")) return damaged(ctx, file, s->at, "a facet with more than three vertices");
    return ESPALIER_OK;
}

static espalier_status parse_text(espalier_context *ctx, esi_mesh *mesh, const esi_mesh_file *file)
{
    esi_scan s = {file->bytes, file->bytes + file->size};
    espalier_status st = ESPALIER_OK;
    int64_t capacity = 0;
    const char *word;
    size_t len;
    bool inside = false;

    while (st == ESPALIER_OK && esi_scan_word(&s, &word, &len)) {
        if (esi_word_is(word, len, "facet") && inside) {
            st = parse_facet(ctx, mesh, &capacity, &s, file);
            if (mesh->n_vertices % (3 * POLL) == 0 && st == ESPALIER_OK) st = esi_check_cancel(ctx);
        } else if (esi_word_is(word, len, "solid") || esi_word_is(word, len, "endsolid")) {
            inside = word[0] == 's';
            if (s.at < s.end && *s.at != '\n') (void)esi_scan_line(&s);      /* a name may follow */
        } else {
            st = damaged(ctx, file, s.at, "an unknown word");
        }
    }
    if (st != ESPALIER_OK) return st;
    if (inside) return damaged(ctx, file, s.at, "it is cut off");
    if (mesh->n_vertices == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no triangles", file->name);
    return number_corners(ctx, mesh);
}

espalier_status esi_stl_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    uint64_t n = file->size >= HEADER ? esi_load_u32le(file->bytes + 80) : 0;
    const bool solid = file->size >= 5 && memcmp(file->bytes, "solid", 5) == 0;

    /* Binary headers may begin with "solid" too: the exact length decides. */
    if (file->size >= HEADER && file->size - HEADER == RECORD * n) return parse_binary(ctx, &out->mesh, file, n);
    if (solid) return parse_text(ctx, &out->mesh, file);
    if (file->size < HEADER || file->size - HEADER < RECORD * n) return damaged(ctx, file, file->bytes + file->size, "it is cut off");
    return parse_binary(ctx, &out->mesh, file, n);
}
