/* SPDX-License-Identifier: MIT
 *
 * gltf_read.c: glTF 2.0, .glb and .gltf -> surface (Khronos glTF-2.0 specification). Every primitive of every node of the scene, in the
 * order of the tree, with the node's transformation. What cannot be read without changing the shape (compressed or instanced meshes) is
 * refused, not left out.
 *
 * Our own reader rather than assimp's: accessors and views are checked against the bytes before use, nothing recurses, and textures keep
 * their coordinates to the last bit.
 */
#include "formats/gltf_read.h"

#include "base/srgb.h"
#include "formats/affine.h"
#include "formats/bytes.h"

#include <math.h>

#define MAX_PARTS (1 << 20)

enum { POSITION, NORMAL, TANGENT, TEXCOORD, COLOR, ATTRIBUTES };

/* One primitive of one node. */
typedef struct part {
    double matrix[12];             /* rows of the upper 3x4 */
    int64_t attributes[ATTRIBUTES];              /* accessors; -1 = absent */
    int64_t indices, material;     /* -1 = absent */
    esi_gltf_uv uv;
    int mode;
    int64_t vertex, n_vertices;    /* where its vertices begin */
    int64_t face, n_corners, n_faces;
    bool shares;                   /* the vertices of the part before */
} part;

typedef struct visit {
    int64_t node;
    double matrix[12];
} visit;

typedef struct gltf {
    esi_gltf_reader r;
    part *parts;
    size_t n_parts, cap_parts;
    int64_t n_vertices, n_faces;
} gltf;

espalier_status esi_gltf_damaged(const esi_gltf_reader *r, const char *what)
{
    return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: damaged glTF: %s", r->file->name, what);
}

const esi_json *esi_gltf_at(const esi_gltf_reader *r, const char *array, int64_t index)
{
    const esi_json *a = esi_json_get(r->root, array);

    return index >= 0 && esi_json_is_array(a) ? esi_json_at(a, (size_t)index) : NULL;
}

int64_t esi_gltf_int(const esi_json *object, const char *key, int64_t fallback)
{
    int64_t v;

    return esi_json_int(esi_json_get(object, key), &v) ? v : fallback;
}

/* ----------------------------------------------------------------- buffers */

void esi_gltf_bytes_free(espalier_context *ctx, esi_gltf_bytes *bytes)
{
    esi_free(ctx, bytes->owned);
    esi_file_map_release(bytes->map);
    memset(bytes, 0, sizeof *bytes);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* "data:application/octet-stream;base64,AAAA" */
static espalier_status decode_data(const esi_gltf_reader *r, esi_gltf_bytes *out, const char *uri)
{
    const char *at = strstr(uri, ";base64,");
    uint32_t bits = 0;
    int n = 0;

    if (!at) return esi_gltf_damaged(r, "a data URI without base64");
    at += strlen(";base64,");
    out->owned = esi_alloc(r->ctx, strlen(at) / 4 + 1, 3, "a glTF buffer");
    if (!out->owned) return ESPALIER_ERR_RESOURCE;
    for (; *at && *at != '='; at++) {
        const int value = base64_value(*at);

        if (value < 0) return esi_gltf_damaged(r, "a data URI that is no base64");
        bits = bits << 6 | (uint32_t)value;
        n += 6;
        if (n < 8) continue;
        n -= 8;
        out->owned[out->size++] = (uint8_t)(bits >> n);
    }
    out->data = out->owned;
    return ESPALIER_OK;
}

espalier_status esi_gltf_uri(const esi_gltf_reader *r, esi_gltf_bytes *out, const char *uri)
{
    char *path = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (strncmp(uri, "data:", 5) == 0) return decode_data(r, out, uri);
    st = esi_path_beside(r->ctx, &path, r->file, uri);
    if (st != ESPALIER_OK || !path) return st;
    st = esi_file_map_open(r->ctx, &out->map, path, ESPALIER_ERR_INPUT);
    esi_free(r->ctx, path);
    if (st != ESPALIER_OK) return st;
    out->data = esi_file_map_data(out->map);
    out->size = esi_file_map_size(out->map);
    return ESPALIER_OK;
}

static espalier_status open_buffers(esi_gltf_reader *r)
{
    const esi_json *buffers = esi_json_get(r->root, "buffers");
    const size_t n = esi_json_is_array(buffers) ? esi_json_size(buffers) : 0;
    espalier_status st = ESPALIER_OK;

    r->buffers = esi_calloc(r->ctx, n, sizeof *r->buffers, "glTF buffers");
    if (!r->buffers) return ESPALIER_ERR_RESOURCE;
    r->n_buffers = n;
    for (size_t i = 0; st == ESPALIER_OK && i < n; i++) {
        const esi_json *json = esi_json_at(buffers, i);
        const int64_t length = esi_gltf_int(json, "byteLength", -1);
        esi_gltf_bytes *b = &r->buffers[i];
        const char *uri;

        if (esi_json_string(esi_json_get(json, "uri"), &uri)) {
            st = esi_gltf_uri(r, b, uri);
        } else if (i == 0 && r->binary) {
            b->data = r->binary;
            b->size = r->binary_size;
        }
        if (st == ESPALIER_OK && !b->data)
            st = esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: its buffer %zu is not to be had: %.200s", r->file->name, i,
                          esi_json_get(json, "uri") ? "it must lie in the directory of the model" : "no URI and no binary chunk");
        if (st == ESPALIER_OK && (length < 1 || (uint64_t)length > b->size)) st = esi_gltf_damaged(r, "a buffer is shorter than stated");
        if (st == ESPALIER_OK) b->size = (uint64_t)length;
    }
    return st;
}

bool esi_gltf_view(const esi_gltf_reader *r, int64_t view, const uint8_t **data, uint64_t *size, uint64_t *stride)
{
    const esi_json *json = esi_gltf_at(r, "bufferViews", view);
    const int64_t buffer = esi_gltf_int(json, "buffer", -1), offset = esi_gltf_int(json, "byteOffset", 0);
    const int64_t length = esi_gltf_int(json, "byteLength", -1), step = esi_gltf_int(json, "byteStride", 0);

    if (!json || buffer < 0 || (uint64_t)buffer >= r->n_buffers || offset < 0 || length < 1 || step < 0 || step > 65536) return false;
    if ((uint64_t)offset > r->buffers[buffer].size || (uint64_t)length > r->buffers[buffer].size - (uint64_t)offset) return false;
    *data = r->buffers[buffer].data + offset;
    *size = (uint64_t)length;
    *stride = (uint64_t)step;
    return true;
}

/* --------------------------------------------------------------- container */

static espalier_status parse_container(esi_gltf_reader *r)
{
    const uint8_t *b = r->file->bytes;
    const uint64_t size = r->file->size;
    uint64_t json_size, at;

    if (size < 4 || memcmp(b, "glTF", 4) != 0)
        return esi_json_parse(r->ctx, &r->root, b, (size_t)size, r->file->name, ESPALIER_ERR_INPUT);
    if (size < 20 || esi_load_u32le(b + 4) != 2) return esi_gltf_damaged(r, "not a GLB of version 2");
    json_size = esi_load_u32le(b + 12);
    if (esi_load_u32le(b + 8) > size || memcmp(b + 16, "JSON", 4) != 0 || json_size > size - 20)
        return esi_gltf_damaged(r, "it is cut off, or does not begin with JSON");
    at = 20 + json_size;
    if (size - at >= 8 && memcmp(b + at + 4, "BIN\0", 4) == 0) {
        r->binary_size = esi_load_u32le(b + at);
        if (r->binary_size > size - at - 8) return esi_gltf_damaged(r, "its binary chunk is cut off");
        r->binary = b + at + 8;
    }
    return esi_json_parse_at(r->ctx, &r->root, b + 20, (size_t)json_size, r->file->name, 20, ESPALIER_ERR_INPUT);
}

/* Extensions that a reader must know are fine when they do not touch the shape. */
static bool harmless(const char *name)
{
    static const char *const known[] = {"KHR_texture_transform", "KHR_mesh_quantization", "EXT_texture_webp", "KHR_lights_punctual"};

    for (size_t i = 0; i < ESI_COUNT(known); i++) {
        if (strcmp(name, known[i]) == 0) return true;
    }
    return strncmp(name, "KHR_materials_", 14) == 0;
}

static espalier_status check_document(const esi_gltf_reader *r)
{
    const esi_json *required = esi_json_get(r->root, "extensionsRequired");
    const char *text;

    if (!esi_json_string(esi_json_path(r->root, "asset.version"), &text) || strncmp(text, "2.", 2) != 0)
        return esi_gltf_damaged(r, "not of version 2");
    for (size_t i = 0; i < esi_json_size(required); i++) {
        if (esi_json_string(esi_json_at(required, i), &text) && !harmless(text))
            return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: it needs the extension %.100s, which is not read; export it without",
                            r->file->name, text);
    }
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------- nodes */

static void read_numbers(const esi_json *array, double *out, size_t n)
{
    if (esi_json_size(array) != n) return;
    for (size_t i = 0; i < n; i++) (void)esi_json_double(esi_json_at(array, i), &out[i]);
}

/* A matrix by columns, or translation * rotation * scale. */
static void local_matrix(const esi_json *node, double out[12])
{
    double columns[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, t[3] = {0, 0, 0}, q[4] = {0, 0, 0, 1}, s[3] = {1, 1, 1};

    if (esi_json_get(node, "matrix")) {
        read_numbers(esi_json_get(node, "matrix"), columns, 16);
        for (int i = 0; i < 12; i++) out[i] = columns[4 * (i % 4) + i / 4];
        return;
    }
    read_numbers(esi_json_get(node, "translation"), t, 3);
    read_numbers(esi_json_get(node, "rotation"), q, 4);
    read_numbers(esi_json_get(node, "scale"), s, 3);
    const double x = q[0], y = q[1], z = q[2], w = q[3];
    const double m[12] = {(1 - 2 * (y * y + z * z)) * s[0], 2 * (x * y - z * w) * s[1], 2 * (x * z + y * w) * s[2], t[0],
                          2 * (x * y + z * w) * s[0], (1 - 2 * (x * x + z * z)) * s[1], 2 * (y * z - x * w) * s[2], t[1],
                          2 * (x * z - y * w) * s[0], 2 * (y * z + x * w) * s[1], (1 - 2 * (x * x + y * y)) * s[2], t[2]};
    memcpy(out, m, sizeof m);
}

/* The attributes of a primitive, by their accessors. */
static void name_attributes(const gltf *g, const esi_json *primitive, part *p)
{
    const esi_json *a = esi_json_get(primitive, "attributes");
    char key[] = "TEXCOORD_0";

    p->indices = esi_gltf_int(primitive, "indices", -1);
    p->material = esi_gltf_int(primitive, "material", -1);
    if (!esi_gltf_at(&g->r, "materials", p->material)) p->material = -1;
    p->uv = esi_gltf_uv_of(&g->r, p->material);
    if (p->uv.set > 0 && p->uv.set < 10) key[9] = (char)('0' + p->uv.set);
    p->attributes[POSITION] = esi_gltf_int(a, "POSITION", -1);
    p->attributes[NORMAL] = esi_gltf_int(a, "NORMAL", -1);
    p->attributes[TANGENT] = esi_gltf_int(a, "TANGENT", -1);
    p->attributes[TEXCOORD] = esi_gltf_int(a, key, -1);
    p->attributes[COLOR] = esi_gltf_int(a, "COLOR_0", -1);
}

static espalier_status check_attributes(const gltf *g, part *p)
{
    static const char *const types[ATTRIBUTES] = {"VEC3", "VEC3", "VEC4", "VEC2", NULL};
    espalier_status st = ESPALIER_OK;

    for (int i = 0; st == ESPALIER_OK && i < ATTRIBUTES; i++) {
        int64_t count = 0;
        int components;

        if (p->attributes[i] < 0) continue;
        st = esi_gltf_accessor(&g->r, p->attributes[i], types[i], &count, &components);
        if (i == POSITION) p->n_vertices = count;
        if (st == ESPALIER_OK && count != p->n_vertices) st = esi_gltf_damaged(&g->r, "attributes of different length");
    }
    p->n_corners = p->n_vertices;
    if (st == ESPALIER_OK && p->indices >= 0) {
        int components;

        st = esi_gltf_accessor(&g->r, p->indices, "SCALAR", &p->n_corners, &components);
    }
    return st;
}

static bool same_vertices(const part *a, const part *b)
{
    return memcmp(a->attributes, b->attributes, sizeof a->attributes) == 0 && a->uv.set == b->uv.set &&
           memcmp(a->uv.matrix, b->uv.matrix, sizeof a->uv.matrix) == 0;
}

static espalier_status add_part(gltf *g, const esi_json *primitive, const double matrix[12], bool first)
{
    part p = {.mode = (int)ESI_MIN(ESI_MAX(esi_gltf_int(primitive, "mode", 4), INT64_C(0)), INT64_C(7))};
    espalier_status st;

    if (esi_json_get(esi_json_get(primitive, "extensions"), "KHR_draco_mesh_compression"))
        return esi_fail(g->r.ctx, ESPALIER_ERR_INPUT, "%s: it needs the extension KHR_draco_mesh_compression, which is not read; export "
                        "it without", g->r.file->name);
    name_attributes(g, primitive, &p);
    if (p.mode < 4 || p.mode > 6 || p.attributes[POSITION] < 0) return ESPALIER_OK;        /* points and lines */
    st = check_attributes(g, &p);
    if (st != ESPALIER_OK) return st;
    p.n_faces = p.mode == 4 ? p.n_corners / 3 : ESI_MAX(p.n_corners - 2, INT64_C(0));
    p.face = g->n_faces;
    p.shares = !first && g->n_parts > 0 && same_vertices(&p, &g->parts[g->n_parts - 1]);
    p.vertex = p.shares ? g->parts[g->n_parts - 1].vertex : g->n_vertices;
    memcpy(p.matrix, matrix, sizeof p.matrix);
    if (g->n_parts == g->cap_parts) {
        const size_t capacity = g->cap_parts + g->cap_parts / 2 + 16;
        part *parts = capacity > 2 * MAX_PARTS ? NULL : esi_realloc(g->r.ctx, g->parts, capacity, sizeof *parts, "parts of a model");

        if (!parts) return esi_fail(g->r.ctx, ESPALIER_ERR_RESOURCE, "%s: too many parts", g->r.file->name);
        g->parts = parts;
        g->cap_parts = capacity;
    }
    g->parts[g->n_parts++] = p;
    if (!p.shares) g->n_vertices += p.n_vertices;
    g->n_faces += p.n_faces;
    /* One mesh in many nodes is many meshes here. */
    if (g->n_vertices > ESI_MESH_MAX_VERTICES || g->n_faces > ESI_MESH_MAX_FACES ||
        12 * (uint64_t)(g->n_vertices + g->n_faces) > esi_limits(g->r.ctx)->max_file_bytes)
        return esi_fail(g->r.ctx, ESPALIER_ERR_RESOURCE, "%s: its meshes together are over the limit", g->r.file->name);
    return ESPALIER_OK;
}

static espalier_status add_mesh(gltf *g, int64_t mesh, const double matrix[12])
{
    const esi_json *primitives = esi_json_get(esi_gltf_at(&g->r, "meshes", mesh), "primitives");
    espalier_status st = ESPALIER_OK;
    bool first = true;

    if (!esi_json_is_array(primitives)) return ESPALIER_OK;
    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(primitives); i++) {
        const size_t before = g->n_parts;

        st = add_part(g, esi_json_at(primitives, i), matrix, first);
        if (g->n_parts > before) first = false;
    }
    return st == ESPALIER_OK ? esi_check_cancel(g->r.ctx) : st;
}

/* Push the nodes of an array, last to first, so that they are popped in order. */
static espalier_status push_nodes(gltf *g, visit *stack, size_t *n, uint8_t *seen, size_t n_nodes, const esi_json *list,
                                  const double matrix[12])
{
    for (size_t i = esi_json_is_array(list) ? esi_json_size(list) : 0; i-- > 0;) {
        int64_t node = -1;

        if (!esi_json_int(esi_json_at(list, i), &node) || node < 0 || (uint64_t)node >= n_nodes)
            return esi_gltf_damaged(&g->r, "a node that is not there");
        if (seen[node]) return esi_gltf_damaged(&g->r, "a node has two parents");
        seen[node] = 1;
        stack[*n].node = node;
        memcpy(stack[(*n)++].matrix, matrix, 12 * sizeof *matrix);
    }
    return ESPALIER_OK;
}

/* Without a scene: the nodes that are no one's children. */
static espalier_status push_roots(gltf *g, visit *stack, size_t *n, uint8_t *seen, size_t n_nodes, const double identity[12])
{
    const esi_json *nodes = esi_json_get(g->r.root, "nodes");
    const esi_json *scene = esi_gltf_at(&g->r, "scenes", esi_gltf_int(g->r.root, "scene", 0));
    uint8_t *child;

    if (scene) return push_nodes(g, stack, n, seen, n_nodes, esi_json_get(scene, "nodes"), identity);
    child = esi_calloc(g->r.ctx, n_nodes, 1, "nodes of a scene");
    if (!child) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < n_nodes; i++) {
        const esi_json *list = esi_json_get(esi_json_at(nodes, i), "children");

        for (size_t k = 0; esi_json_is_array(list) && k < esi_json_size(list); k++) {
            int64_t c;

            if (esi_json_int(esi_json_at(list, k), &c) && c >= 0 && (uint64_t)c < n_nodes) child[c] = 1;
        }
    }
    for (size_t i = n_nodes; i-- > 0;) {
        if (child[i]) continue;
        seen[i] = 1;
        stack[*n].node = (int64_t)i;
        memcpy(stack[(*n)++].matrix, identity, 12 * sizeof *identity);
    }
    esi_free(g->r.ctx, child);
    return ESPALIER_OK;
}

/* Every node is visited once at most, so the stack never holds more than all of them. */
static espalier_status walk_nodes(gltf *g)
{
    static const double identity[12] = ESI_AFFINE_IDENTITY;
    const esi_json *nodes = esi_json_get(g->r.root, "nodes");
    const size_t n_nodes = esi_json_is_array(nodes) ? esi_json_size(nodes) : 0;
    visit *stack = esi_alloc(g->r.ctx, n_nodes, sizeof *stack, "nodes of a scene");
    uint8_t *seen = esi_calloc(g->r.ctx, n_nodes, 1, "nodes of a scene");
    size_t n = 0;
    espalier_status st = stack && seen ? push_roots(g, stack, &n, seen, n_nodes, identity) : ESPALIER_ERR_RESOURCE;

    while (st == ESPALIER_OK && n > 0) {
        const visit at = stack[--n];
        const esi_json *node = esi_json_at(nodes, (size_t)at.node);
        double local[12], matrix[12];

        if (esi_json_get(esi_json_get(node, "extensions"), "EXT_mesh_gpu_instancing")) {
            st = esi_fail(g->r.ctx, ESPALIER_ERR_INPUT, "%s: it needs the extension EXT_mesh_gpu_instancing, which is not read; export it "
                          "without", g->r.file->name);
            break;
        }
        local_matrix(node, local);
        esi_affine_multiply(matrix, at.matrix, local);
        st = add_mesh(g, esi_gltf_int(node, "mesh", -1), matrix);
        if (st == ESPALIER_OK) st = push_nodes(g, stack, &n, seen, n_nodes, esi_json_get(node, "children"), matrix);
    }
    esi_free(g->r.ctx, stack);
    esi_free(g->r.ctx, seen);
    return st;
}

/* ------------------------------------------------------------------ arrays */

static espalier_status make_arrays(gltf *g)
{
    esi_surface *s = g->r.out;
    espalier_context *ctx = g->r.ctx;
    bool all[ATTRIBUTES] = {true, true, true, true, true}, some[ATTRIBUTES] = {false};
    const size_t n = (size_t)g->n_vertices;
    espalier_status st;

    if (g->n_faces == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no triangles", g->r.file->name);
    for (size_t i = 0; i < g->n_parts; i++) {
        for (int k = 0; k < ATTRIBUTES; k++) {
            all[k] = all[k] && g->parts[i].attributes[k] >= 0;
            some[k] = some[k] || g->parts[i].attributes[k] >= 0;
        }
    }
    st = esi_mesh_new(ctx, &s->mesh, g->n_vertices, g->n_faces);
    if (st != ESPALIER_OK) return st;
    if (all[NORMAL]) s->normals = esi_calloc(ctx, n, 3 * sizeof(float), "mesh normals");
    if (all[NORMAL] && all[TANGENT]) s->tangents = esi_calloc(ctx, n, 4 * sizeof(float), "mesh tangents");
    if (some[TEXCOORD]) s->uvs = esi_calloc(ctx, n, 2 * sizeof(float), "texture coordinates");
    if (some[COLOR]) s->colors = esi_alloc(ctx, n, 4, "mesh colours");
    s->face_material = esi_alloc(ctx, (size_t)g->n_faces, sizeof *s->face_material, "face materials");
    if ((all[NORMAL] && !s->normals) || (all[NORMAL] && all[TANGENT] && !s->tangents) || (some[TEXCOORD] && !s->uvs) ||
        (some[COLOR] && !s->colors) || !s->face_material)
        return ESPALIER_ERR_RESOURCE;
    if (s->colors) memset(s->colors, 255, 4 * n);
    return ESPALIER_OK;
}

/* The positions of vertices under a matrix that changes nothing stay what they are in every bit, NaN included. */
static bool is_identity(const double m[12])
{
    for (int i = 0; i < 12; i++) {
        if (m[i] != (i % 5 == 0 ? 1.0 : 0.0)) return false;
    }
    return true;
}

static void transform_vectors(float *v, int64_t count, int columns, const double m[12])
{
    for (int64_t i = 0; i < count; i++, v += columns) {
        const double x = (double)v[0], y = (double)v[1], z = (double)v[2];

        for (int k = 0; k < 3; k++) v[k] = (float)(m[4 * k] * x + m[4 * k + 1] * y + m[4 * k + 2] * z + m[4 * k + 3]);
    }
}

/* As matrices without translation. */
static void transform_directions(const gltf *g, const part *p)
{
    esi_surface *s = g->r.out;
    double turn[9], m[12] = {0}, sign;

    sign = esi_affine_cofactors(turn, p->matrix) < 0.0 ? -1.0 : 1.0;
    for (int i = 0; i < 9; i++) m[4 * (i / 3) + i % 3] = sign * turn[i];
    if (s->normals) transform_vectors(s->normals + 3 * p->vertex, p->n_vertices, 3, m);
    for (int i = 0; i < 9; i++) m[4 * (i / 3) + i % 3] = p->matrix[4 * (i / 3) + i % 3];
    if (s->tangents) transform_vectors(s->tangents + 4 * p->vertex, p->n_vertices, 4, m);
}

static void transform_uvs(const part *p, float *uv)
{
    const double *m = p->uv.matrix;

    if (m[0] == 1.0 && m[1] == 0.0 && m[2] == 0.0 && m[3] == 0.0 && m[4] == 1.0 && m[5] == 0.0) return;
    for (int64_t i = 0; i < p->n_vertices; i++, uv += 2) {
        const double u = (double)uv[0], v = (double)uv[1];

        uv[0] = (float)(m[0] * u + m[1] * v + m[2]);
        uv[1] = (float)(m[3] * u + m[4] * v + m[5]);
    }
}

static espalier_status copy_colors(const gltf *g, const part *p)
{
    float *light = esi_alloc(g->r.ctx, (size_t)p->n_vertices, 4 * sizeof *light, "mesh colours");
    uint8_t *to = g->r.out->colors + 4 * p->vertex;
    espalier_status st;

    if (!light) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 4 * p->n_vertices; i++) light[i] = 1.0f;         /* RGB has no alpha */
    st = esi_gltf_floats(&g->r, p->attributes[COLOR], light, 4);
    for (int64_t i = 0; st == ESPALIER_OK && i < 4 * p->n_vertices; i++) {
        const double v = light[i] > 0.0f ? (light[i] < 1.0f ? (double)light[i] : 1.0) : 0.0;     /* NaN is 0 */

        to[i] = (uint8_t)((i % 4 < 3 ? esi_srgb_encode(v) : v) * 255.0 + 0.5);
    }
    esi_free(g->r.ctx, light);
    return st;
}

static espalier_status copy_vertices(const gltf *g, const part *p)
{
    esi_surface *s = g->r.out;
    espalier_status st = esi_gltf_floats(&g->r, p->attributes[POSITION], s->mesh.vertices + 3 * p->vertex, 3);

    if (st == ESPALIER_OK && s->normals) st = esi_gltf_floats(&g->r, p->attributes[NORMAL], s->normals + 3 * p->vertex, 3);
    if (st == ESPALIER_OK && s->tangents) st = esi_gltf_floats(&g->r, p->attributes[TANGENT], s->tangents + 4 * p->vertex, 4);
    if (st == ESPALIER_OK && p->attributes[TEXCOORD] >= 0) st = esi_gltf_floats(&g->r, p->attributes[TEXCOORD], s->uvs + 2 * p->vertex, 2);
    if (st == ESPALIER_OK && p->attributes[COLOR] >= 0) st = copy_colors(g, p);
    if (st != ESPALIER_OK) return st;
    if (!is_identity(p->matrix)) {
        transform_vectors(s->mesh.vertices + 3 * p->vertex, p->n_vertices, 3, p->matrix);
        transform_directions(g, p);
    }
    if (p->attributes[TEXCOORD] >= 0) transform_uvs(p, s->uvs + 2 * p->vertex);
    return ESPALIER_OK;
}

/* Corner k of face f in the order of the primitive: strips turn every other triangle round. */
static int64_t corner(const part *p, int64_t f, int k)
{
    switch (p->mode) {
    case 5: return f % 2 == 0 || k == 0 ? f + k : f + 3 - k;
    case 6: return k == 0 ? 0 : f + k;
    default: return 3 * f + k;
    }
}

static espalier_status copy_faces(gltf *g, const part *p)
{
    esi_surface *s = g->r.out;
    double turn[9];
    const bool mirrored = esi_affine_cofactors(turn, p->matrix) < 0.0;
    uint32_t *indices = NULL;
    int32_t material = (int32_t)p->material;
    espalier_status st = ESPALIER_OK;

    if (p->material < 0) st = esi_gltf_default_material(&g->r, &material);
    if (st == ESPALIER_OK && p->indices >= 0) {
        indices = esi_alloc(g->r.ctx, (size_t)p->n_corners, sizeof *indices, "mesh indices");
        st = indices ? esi_gltf_indices(&g->r, p->indices, indices, (uint64_t)p->n_vertices) : ESPALIER_ERR_RESOURCE;
    }
    for (int64_t f = 0; st == ESPALIER_OK && f < p->n_faces; f++) {
        int32_t *to = s->mesh.faces + 3 * (p->face + f);

        for (int k = 0; k < 3; k++) {
            const int64_t at = corner(p, f, mirrored ? 2 - k : k);

            to[k] = (int32_t)(p->vertex + (indices ? (int64_t)indices[at] : at));
        }
        s->face_material[p->face + f] = material;
    }
    esi_free(g->r.ctx, indices);
    return st;
}

static espalier_status read_document(gltf *g)
{
    espalier_status st = parse_container(&g->r);

    if (st == ESPALIER_OK) st = check_document(&g->r);
    if (st == ESPALIER_OK) st = open_buffers(&g->r);
    if (st == ESPALIER_OK) st = walk_nodes(g);
    if (st == ESPALIER_OK) st = make_arrays(g);
    if (st == ESPALIER_OK) st = esi_gltf_materials(&g->r);
    for (size_t i = 0; st == ESPALIER_OK && i < g->n_parts; i++) {
        if (!g->parts[i].shares) st = copy_vertices(g, &g->parts[i]);
        if (st == ESPALIER_OK) st = copy_faces(g, &g->parts[i]);
        if (st == ESPALIER_OK) st = esi_check_cancel(g->r.ctx);
    }
    return st;
}

espalier_status esi_gltf_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    gltf g = {.r = {.ctx = ctx, .out = out, .file = file}};
    const espalier_status st = read_document(&g);

    for (size_t i = 0; g.r.buffers && i < g.r.n_buffers; i++) esi_gltf_bytes_free(ctx, &g.r.buffers[i]);
    esi_free(ctx, g.r.buffers);
    esi_free(ctx, g.r.texture_of_image);
    esi_free(ctx, g.parts);
    esi_json_free(g.r.root);
    return st;
}
