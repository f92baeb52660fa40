/* SPDX-License-Identifier: MIT
 *
 * surface_assimp.c: a scene that assimp reads -> one surface: every mesh of every node with the node's transformation, one after the other
 * in the order of the tree.
 *
 * assimp sees no file but the ones handed to it here: the model itself, from memory, and what it asks for beside it, inside the model's
 * directory. Its C interface keeps the last error in one global string, so imports of one process go through it one at a time.
 */
#include "formats/srgb.h"
#include "formats/surface_assimp.h"

#include <assimp/cfileio.h>
#include <assimp/cimport.h>
#include <assimp/config.h>
#include <assimp/mesh.h>
#include <assimp/postprocess.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define MAX_NODES 1000000
#define MAX_DEPTH 1024

static pthread_mutex_t assimp_lock = PTHREAD_MUTEX_INITIALIZER;      /* guards a variable of assimp's, not ours */

/* ------------------------------------------------------- files for assimp */

typedef struct served_file {
    struct aiFile callbacks;
    const uint8_t *bytes;
    uint64_t size, position;
    esi_file_map *map;             /* NULL: the model itself */
} served_file;

typedef struct file_server {
    espalier_context *ctx;
    const esi_mesh_file *file;
    char name[32];                 /* of the model as assimp knows it */
} file_server;

static served_file *served(struct aiFile *f)
{
    return (served_file *)(void *)f->UserData;
}

static size_t serve_read(struct aiFile *f, char *to, size_t size, size_t count)
{
    served_file *s = served(f);
    const uint64_t left = s->size - s->position;
    size_t n = size > 0 ? ESI_MIN(count, (size_t)(left / size)) : 0;

    memcpy(to, s->bytes + s->position, n * size);
    s->position += n * size;
    return n;
}

static size_t serve_write(struct aiFile *f, const char *from, size_t size, size_t count)
{
    (void)f, (void)from, (void)size, (void)count;
    return 0;
}

static size_t serve_tell(struct aiFile *f)
{
    return (size_t)served(f)->position;
}

static size_t serve_size(struct aiFile *f)
{
    return (size_t)served(f)->size;
}

static enum aiReturn serve_seek(struct aiFile *f, size_t offset, enum aiOrigin origin)
{
    served_file *s = served(f);
    const uint64_t base = origin == aiOrigin_SET ? 0 : origin == aiOrigin_CUR ? s->position : s->size;
    const uint64_t to = base + offset;           /* a negative offset wraps around to the right place */

    if (to > s->size) return aiReturn_FAILURE;
    s->position = to;
    return aiReturn_SUCCESS;
}

static void serve_flush(struct aiFile *f)
{
    (void)f;
}

static bool open_beside(file_server *server, served_file *s, const char *name)
{
    char *path = NULL;
    bool ok = esi_path_beside(server->ctx, &path, server->file, name) == ESPALIER_OK && path &&
              esi_file_map_open(server->ctx, &s->map, path, ESPALIER_ERR_INPUT) == ESPALIER_OK;

    if (ok && esi_file_map_size(s->map) > esi_limits(server->ctx)->max_file_bytes) ok = false;
    if (ok) {
        s->bytes = esi_file_map_data(s->map);
        s->size = esi_file_map_size(s->map);
    }
    esi_free(server->ctx, path);
    esi_clear_error(server->ctx);      /* assimp decides whether it can do without */
    return ok;
}

static struct aiFile *serve_open(struct aiFileIO *io, const char *name, const char *mode)
{
    file_server *server = (file_server *)(void *)io->UserData;
    served_file *s;

    if (strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')) return NULL;
    s = esi_calloc(server->ctx, 1, sizeof *s, "a file");
    if (!s) return NULL;
    while (name[0] == '.' && name[1] == '/') name += 2;
    if (strcmp(name, server->name) == 0) {
        s->bytes = server->file->bytes;
        s->size = server->file->size;
    } else if (!open_beside(server, s, name)) {
        esi_file_map_release(s->map);
        esi_free(server->ctx, s);
        return NULL;
    }
    s->callbacks = (struct aiFile){serve_read, serve_write, serve_tell, serve_size, serve_seek, serve_flush, (char *)(void *)s};
    return &s->callbacks;
}

static void serve_close(struct aiFileIO *io, struct aiFile *f)
{
    served_file *s = served(f);

    esi_file_map_release(s->map);
    esi_free(((file_server *)(void *)io->UserData)->ctx, s);
}

/* ------------------------------------------------------------------- scene */

typedef struct instance {
    const struct aiMesh *mesh;
    double matrix[12];             /* rows of the upper 3x4 */
} instance;

typedef struct scene_reader {
    espalier_context *ctx;
    esi_surface *out;
    const esi_mesh_file *file;
    const struct aiScene *scene;
    instance *instances;
    size_t n_instances, cap_instances;
    bool linear_colors;            /* vertex colours are light, not sRGB */
} scene_reader;

typedef struct visit {
    const struct aiNode *node;
    double matrix[12];
    int depth;
} visit;

static void multiply(double out[12], const double a[12], const struct aiMatrix4x4 *b)
{
    const double m[16] = {b->a1, b->a2, b->a3, b->a4, b->b1, b->b2, b->b3, b->b4, b->c1, b->c2, b->c3, b->c4, 0, 0, 0, 1};

    for (int r = 0; r < 3; r++) {
        for (int c = 0; c < 4; c++) {
            out[4 * r + c] = a[4 * r] * m[c] + a[4 * r + 1] * m[4 + c] + a[4 * r + 2] * m[8 + c] + a[4 * r + 3] * m[12 + c];
        }
    }
}

static espalier_status add_instance(scene_reader *r, const struct aiMesh *mesh, const double matrix[12])
{
    if (!(mesh->mPrimitiveTypes & aiPrimitiveType_TRIANGLE) || mesh->mNumVertices == 0 || !mesh->mVertices) return ESPALIER_OK;
    if (r->n_instances == r->cap_instances) {
        const size_t capacity = r->cap_instances + r->cap_instances / 2 + 16;
        instance *instances;

        if (capacity > MAX_NODES) return esi_fail(r->ctx, ESPALIER_ERR_RESOURCE, "%s: more than %d meshes", r->file->name, MAX_NODES);
        instances = esi_realloc(r->ctx, r->instances, capacity, sizeof *instances, "meshes of a scene");
        if (!instances) return ESPALIER_ERR_RESOURCE;
        r->instances = instances;
        r->cap_instances = capacity;
    }
    r->instances[r->n_instances].mesh = mesh;
    memcpy(r->instances[r->n_instances++].matrix, matrix, 12 * sizeof *matrix);
    return ESPALIER_OK;
}

/* Depth first, children in order: the stack holds them last to first. */
static espalier_status collect_instances(scene_reader *r)
{
    static const double identity[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
    size_t n = 0, capacity = 64, seen = 0;
    espalier_status st = ESPALIER_OK;
    visit *stack = esi_alloc(r->ctx, capacity, sizeof *stack, "nodes of a scene");

    if (!stack) return ESPALIER_ERR_RESOURCE;
    stack[n++] = (visit){.node = r->scene->mRootNode, .depth = 0};
    memcpy(stack[0].matrix, identity, sizeof identity);
    while (st == ESPALIER_OK && n > 0) {
        const visit at = stack[--n];
        double matrix[12];

        if (++seen > MAX_NODES || at.depth > MAX_DEPTH || at.node->mNumChildren > MAX_NODES) {
            st = esi_fail(r->ctx, ESPALIER_ERR_RESOURCE, "%s: too many nodes, or nodes nested too deep", r->file->name);
            break;
        }
        multiply(matrix, at.matrix, &at.node->mTransformation);
        for (unsigned i = 0; st == ESPALIER_OK && i < at.node->mNumMeshes; i++) {
            if (at.node->mMeshes[i] < r->scene->mNumMeshes) st = add_instance(r, r->scene->mMeshes[at.node->mMeshes[i]], matrix);
        }
        if (st == ESPALIER_OK && n + at.node->mNumChildren > capacity) {
            visit *grown = esi_realloc(r->ctx, stack, capacity = 2 * (n + at.node->mNumChildren), sizeof *grown, "nodes of a scene");

            if (grown)
                stack = grown;
            else
                st = ESPALIER_ERR_RESOURCE;
        }
        for (unsigned i = at.node->mNumChildren; st == ESPALIER_OK && i-- > 0;) {
            stack[n].node = at.node->mChildren[i];
            stack[n].depth = at.depth + 1;
            memcpy(stack[n++].matrix, matrix, sizeof matrix);
        }
    }
    esi_free(r->ctx, stack);
    return st;
}

/* ------------------------------------------------------------------ meshes */

static espalier_status make_arrays(scene_reader *r)
{
    int64_t vertices = 0, faces = 0;
    bool normals = true, uvs = false, colors = false;
    espalier_status st;

    for (size_t i = 0; i < r->n_instances; i++) {
        const struct aiMesh *m = r->instances[i].mesh;

        vertices += m->mNumVertices;
        for (unsigned f = 0; f < m->mNumFaces; f++) faces += m->mFaces[f].mNumIndices == 3;
        normals = normals && m->mNormals;
        uvs = uvs || m->mTextureCoords[0];
        colors = colors || m->mColors[0];
        if (vertices > ESI_MESH_MAX_VERTICES || faces > ESI_MESH_MAX_FACES)
            return esi_fail(r->ctx, ESPALIER_ERR_RESOURCE, "%s: more vertices or faces than can be numbered", r->file->name);
    }
    if (faces == 0) return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: no triangles", r->file->name);
    st = esi_mesh_new(r->ctx, &r->out->mesh, vertices, faces);
    if (st != ESPALIER_OK) return st;
    if (normals) r->out->normals = esi_alloc(r->ctx, (size_t)vertices, 3 * sizeof(float), "mesh normals");
    if (uvs) r->out->uvs = esi_calloc(r->ctx, (size_t)vertices, 2 * sizeof(float), "texture coordinates");
    if (colors) r->out->colors = esi_alloc(r->ctx, (size_t)vertices, 4, "mesh colours");
    r->out->face_material = esi_alloc(r->ctx, (size_t)faces, sizeof(int32_t), "face materials");
    if ((normals && !r->out->normals) || (uvs && !r->out->uvs) || (colors && !r->out->colors) || !r->out->face_material)
        return ESPALIER_ERR_RESOURCE;
    return ESPALIER_OK;
}

static uint8_t color_byte(float value, bool linear)
{
    double c = value > 0.0f ? (value < 1.0f ? (double)value : 1.0) : 0.0;      /* NaN is 0 */

    if (linear) c = esi_srgb_encode(c);
    return (uint8_t)(c * 255.0 + 0.5);
}

/* Rows of the cofactor matrix: how normals turn. */
static double cofactors(double out[9], const double m[12])
{
    for (int r = 0; r < 3; r++) {
        const double *a = m + 4 * ((r + 1) % 3), *b = m + 4 * ((r + 2) % 3);

        for (int c = 0; c < 3; c++) out[3 * r + c] = a[(c + 1) % 3] * b[(c + 2) % 3] - a[(c + 2) % 3] * b[(c + 1) % 3];
    }
    return m[0] * out[0] + m[1] * out[1] + m[2] * out[2];
}

static void copy_vertex(scene_reader *r, const instance *at, unsigned i, int64_t v, const double turn[9], double sign)
{
    const struct aiMesh *m = at->mesh;
    esi_surface *s = r->out;
    const double p[3] = {m->mVertices[i].x, m->mVertices[i].y, m->mVertices[i].z};

    for (int k = 0; k < 3; k++) {
        const double *row = at->matrix + 4 * k;

        s->mesh.vertices[3 * v + k] = (float)(row[0] * p[0] + row[1] * p[1] + row[2] * p[2] + row[3]);
    }
    if (s->normals) {
        const double n[3] = {m->mNormals[i].x, m->mNormals[i].y, m->mNormals[i].z};

        for (int k = 0; k < 3; k++)
            s->normals[3 * v + k] = (float)(sign * (turn[3 * k] * n[0] + turn[3 * k + 1] * n[1] + turn[3 * k + 2] * n[2]));
    }
    if (s->uvs && m->mTextureCoords[0]) {
        s->uvs[2 * v] = m->mTextureCoords[0][i].x;
        s->uvs[2 * v + 1] = 1.0f - m->mTextureCoords[0][i].y;
    }
    if (!s->colors) return;
    if (!m->mColors[0]) {
        memset(s->colors + 4 * v, 255, 4);
        return;
    }
    const float c[4] = {m->mColors[0][i].r, m->mColors[0][i].g, m->mColors[0][i].b, m->mColors[0][i].a};
    for (int k = 0; k < 4; k++) s->colors[4 * v + k] = color_byte(c[k], r->linear_colors && k < 3);
}

static espalier_status copy_meshes(scene_reader *r)
{
    int64_t vertex = 0, face = 0;

    for (size_t n = 0; n < r->n_instances; n++) {
        const instance *at = &r->instances[n];
        const struct aiMesh *m = at->mesh;
        double turn[9];
        const bool mirrored = cofactors(turn, at->matrix) < 0.0;

        for (unsigned i = 0; i < m->mNumVertices; i++) copy_vertex(r, at, i, vertex + i, turn, mirrored ? -1.0 : 1.0);
        for (unsigned f = 0; f < m->mNumFaces; f++) {
            const struct aiFace *from = &m->mFaces[f];
            int32_t *to = r->out->mesh.faces + 3 * face;

            if (from->mNumIndices != 3) continue;
            for (int k = 0; k < 3; k++) {
                const unsigned index = from->mIndices[mirrored ? 2 - k : k];

                if (index >= m->mNumVertices)
                    return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: a face names vertex %u of %u", r->file->name, index, m->mNumVertices);
                to[k] = (int32_t)(vertex + index);
            }
            r->out->face_material[face++] = m->mMaterialIndex < (unsigned)r->out->n_materials ? (int32_t)m->mMaterialIndex : 0;
        }
        vertex += m->mNumVertices;
        if (esi_cancel_requested(r->ctx)) return esi_check_cancel(r->ctx);
    }
    return ESPALIER_OK;
}

static espalier_status read_scene(scene_reader *r)
{
    espalier_status st = collect_instances(r);

    if (st == ESPALIER_OK) st = esi_assimp_materials(r->ctx, r->out, r->scene, r->file);
    if (st == ESPALIER_OK) st = make_arrays(r);
    if (st == ESPALIER_OK) st = copy_meshes(r);
    esi_free(r->ctx, r->instances);
    return st;
}

/* Text that assimp made of the file: one line of it. */
static espalier_status report(espalier_context *ctx, const esi_mesh_file *file)
{
    char text[200];

    if (esi_error_pending(ctx)) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s", file->name);
    snprintf(text, sizeof text, "%s", aiGetErrorString());
    esi_clean_line(text);
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: cannot be read as a mesh: %s", file->name, text[0] ? text : "no reason given");
}

espalier_status esi_assimp_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    const unsigned flags = aiProcess_Triangulate;
    file_server server = {.ctx = ctx, .file = file};
    struct aiFileIO io = {serve_open, serve_close, (char *)(void *)&server};
    scene_reader reader = {.ctx = ctx, .out = out, .file = file};
    espalier_status st;

    snprintf(server.name, sizeof server.name, "model%.16s", esi_path_suffix(file->name));
    reader.linear_colors = false;
    pthread_mutex_lock(&assimp_lock);
    reader.scene = aiImportFileEx(server.name, flags, &io);
    st = reader.scene && reader.scene->mRootNode ? ESPALIER_OK : report(ctx, file);
    pthread_mutex_unlock(&assimp_lock);
    if (st == ESPALIER_OK) st = read_scene(&reader);
    if (reader.scene) aiReleaseImport(reader.scene);
    return st;
}
