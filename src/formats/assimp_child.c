/* SPDX-License-Identifier: MIT
 *
 * assimp_child.c: assimp's scene -> stream of plain arrays. Runs in a process of its own; assimp_read.c says why. assimp sees no file but
 * the model itself, from memory, and what it asks for beside it, inside the model's directory.
 */
#include "formats/assimp_child.h"

#include "formats/affine.h"
#include "formats/mesh_files.h"

#include <assimp/cfileio.h>
#include <assimp/cimport.h>
#include <assimp/material.h>
#include <assimp/mesh.h>
#include <assimp/postprocess.h>
#include <assimp/scene.h>

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ------------------------------------------------------- files for assimp */

typedef struct served_file {
    struct aiFile callbacks;
    const uint8_t *bytes;
    uint64_t size, position;
} served_file;

typedef struct file_server {
    const uint8_t *bytes;
    uint64_t size, max_file_bytes;
    const char *name, *directory;
} file_server;

static served_file *served(struct aiFile *f)
{
    return (served_file *)(void *)f->UserData;
}

static size_t serve_read(struct aiFile *f, char *to, size_t size, size_t count)
{
    served_file *s = served(f);
    const uint64_t left = s->size - s->position;
    const size_t n = size > 0 ? ESI_MIN(count, (size_t)(left / size)) : 0;

    if (n > 0) memcpy(to, s->bytes + s->position, n * size);
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

/* The map lives as long as the process. */
static bool open_beside(const file_server *server, served_file *s, const char *name)
{
    char path[4096];
    struct stat info;
    void *map;
    int fd;

    if (!server->directory || !esi_reference_stays_inside(name)) return false;
    if (snprintf(path, sizeof path, "%s/%s", server->directory, name) >= (int)sizeof path) return false;
    if (!esi_links_stay_inside(server->directory, path)) return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    map = MAP_FAILED;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && (uint64_t)info.st_size <= server->max_file_bytes)
        map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return false;
    s->bytes = map;
    s->size = (uint64_t)info.st_size;
    return true;
}

static struct aiFile *serve_open(struct aiFileIO *io, const char *name, const char *mode)
{
    const file_server *server = (file_server *)(void *)io->UserData;
    served_file *s;

    if (strchr(mode, 'w') || strchr(mode, 'a') || strchr(mode, '+')) return NULL;
    s = calloc(1, sizeof *s);
    if (!s) return NULL;
    while (name[0] == '.' && name[1] == '/') name += 2;
    if (strcmp(name, server->name) == 0) {
        s->bytes = server->bytes;
        s->size = server->size;
    } else if (!open_beside(server, s, name)) {
        free(s);
        return NULL;
    }
    s->callbacks = (struct aiFile){serve_read, serve_write, serve_tell, serve_size, serve_seek, serve_flush, (char *)(void *)s};
    return &s->callbacks;
}

static void serve_close(struct aiFileIO *io, struct aiFile *f)
{
    (void)io;
    free(served(f));
}

/* ------------------------------------------------------------------ stream */

typedef struct stream {
    int fd;
    bool failed;
    size_t n;
    uint8_t buffer[65536];
} stream;

static void flush(stream *s)
{
    size_t at = 0;

    while (at < s->n && !s->failed) {
        const ssize_t n = write(s->fd, s->buffer + at, s->n - at);

        if (n <= 0)
            s->failed = true;                    /* signals end this process, so there is no EINTR to go on after */
        else
            at += (size_t)n;
    }
    s->n = 0;
}

static void put(stream *s, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;

    while (size > 0) {
        const size_t n = ESI_MIN(size, sizeof s->buffer - s->n);

        memcpy(s->buffer + s->n, from, n);
        s->n += n;
        from += n;
        size -= n;
        if (s->n == sizeof s->buffer) flush(s);
    }
}

static void put_u32(stream *s, uint32_t v)
{
    put(s, &v, sizeof v);
}

/* --------------------------------------------------------------- materials */

static float unit(ai_real v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}

static bool factor(const struct aiMaterial *m, const char *key, float *out)
{
    ai_real value;
    unsigned count = 1;

    if (aiGetMaterialFloatArray(m, key, 0, 0, &value, &count) != aiReturn_SUCCESS || count != 1) return false;
    *out = unit(value);
    return true;
}

static bool color(const struct aiMaterial *m, const char *key, float out[3])
{
    struct aiColor4D c = {0};

    if (aiGetMaterialColor(m, key, 0, 0, &c) != aiReturn_SUCCESS) return false;
    out[0] = unit(c.r);
    out[1] = unit(c.g);
    out[2] = unit(c.b);
    return true;
}

static void picture(const struct aiMaterial *m, enum aiTextureType type, char out[ESI_ASSIMP_REFERENCE])
{
    struct aiString path;

    if (out[0] || aiGetMaterialTexture(m, type, 0, &path, NULL, NULL, NULL, NULL, NULL, NULL) != aiReturn_SUCCESS) return;
    if (strlen(path.data) < ESI_ASSIMP_REFERENCE) snprintf(out, ESI_ASSIMP_REFERENCE, "%s", path.data);
}

/* Formats older than physically based shading say diffuse colour and opacity: a rough material without metal. */
static void put_material(stream *s, const struct aiMaterial *m)
{
    esi_assimp_material out;
    struct aiString name;
    int number;
    unsigned count = 1;

    memset(&out, 0, sizeof out);
    out.values = esi_material_default();
    out.values.metallic = 0.0f;
    if (aiGetMaterialString(m, AI_MATKEY_NAME, &name) == aiReturn_SUCCESS)
        snprintf(out.values.name, sizeof out.values.name, "%.63s", name.data);
    if (!color(m, "$clr.base", out.values.base_color)) (void)color(m, "$clr.diffuse", out.values.base_color);
    (void)factor(m, "$mat.opacity", &out.values.base_color[3]);
    if (out.values.base_color[3] < 1.0f) out.values.alpha_mode = ESI_ALPHA_BLEND;
    (void)factor(m, "$mat.metallicFactor", &out.values.metallic);
    (void)factor(m, "$mat.roughnessFactor", &out.values.roughness);
    (void)color(m, "$clr.emissive", out.values.emissive);
    if (aiGetMaterialIntegerArray(m, AI_MATKEY_TWOSIDED, &number, &count) == aiReturn_SUCCESS && count == 1)
        out.values.double_sided = number != 0;
    count = 1;
    if (aiGetMaterialIntegerArray(m, AI_MATKEY_MAPPINGMODE_U(aiTextureType_DIFFUSE, 0), &number, &count) == aiReturn_SUCCESS && count == 1)
        out.values.wrap = number == aiTextureMapMode_Clamp    ? ESI_WRAP_CLAMP
                          : number == aiTextureMapMode_Mirror ? ESI_WRAP_MIRROR
                                                              : ESI_WRAP_REPEAT;
    picture(m, aiTextureType_BASE_COLOR, out.pictures[ESI_ASSIMP_BASE]);
    picture(m, aiTextureType_DIFFUSE, out.pictures[ESI_ASSIMP_BASE]);
    picture(m, aiTextureType_NORMALS, out.pictures[ESI_ASSIMP_NORMAL]);
    picture(m, aiTextureType_EMISSIVE, out.pictures[ESI_ASSIMP_EMISSIVE]);
    put(s, &out, sizeof out);
}

static void put_textures(stream *s, const struct aiScene *scene)
{
    put_u32(s, scene->mNumTextures);
    for (unsigned i = 0; i < scene->mNumTextures; i++) {
        const struct aiTexture *t = scene->mTextures[i];
        const uint64_t size = !t->pcData ? 0 : t->mHeight ? (uint64_t)t->mWidth * t->mHeight * 4 : t->mWidth;
        const uint32_t len = (uint32_t)strnlen(t->mFilename.data, ESI_ASSIMP_REFERENCE - 1);

        put_u32(s, t->mWidth);
        put_u32(s, t->mHeight);
        put(s, &size, sizeof size);
        put_u32(s, len);
        put(s, t->mFilename.data, len);
        put(s, t->pcData, (size_t)size);
    }
}

/* ------------------------------------------------------------------ meshes */

static void put_mesh(stream *s, const struct aiMesh *m)
{
    esi_assimp_mesh head = {.n_vertices = m->mVertices ? m->mNumVertices : 0, .material = m->mMaterialIndex};

    for (unsigned f = 0; f < m->mNumFaces; f++) head.n_faces += m->mFaces[f].mNumIndices == 3;
    head.flags = (m->mNormals ? ESI_ASSIMP_NORMALS : 0u) | (m->mTextureCoords[0] ? ESI_ASSIMP_UVS : 0u) |
                 (m->mColors[0] ? ESI_ASSIMP_COLORS : 0u);
    put(s, &head, sizeof head);
    put(s, m->mVertices, (size_t)head.n_vertices * sizeof *m->mVertices);
    if (m->mNormals) put(s, m->mNormals, (size_t)head.n_vertices * sizeof *m->mNormals);
    for (unsigned v = 0; m->mTextureCoords[0] && v < head.n_vertices; v++) {
        const float uv[2] = {m->mTextureCoords[0][v].x, 1.0f - m->mTextureCoords[0][v].y};

        put(s, uv, sizeof uv);
    }
    if (m->mColors[0]) put(s, m->mColors[0], (size_t)head.n_vertices * sizeof *m->mColors[0]);
    for (unsigned f = 0; f < m->mNumFaces; f++) {
        if (m->mFaces[f].mNumIndices == 3) put(s, m->mFaces[f].mIndices, 3 * sizeof *m->mFaces[f].mIndices);
    }
}

typedef struct visit {
    const struct aiNode *node;
    double matrix[12];
} visit;

static void multiply(double out[12], const double a[12], const struct aiMatrix4x4 *b)
{
    const double m[12] = {b->a1, b->a2, b->a3, b->a4, b->b1, b->b2, b->b3, b->b4, b->c1, b->c2, b->c3, b->c4};

    esi_affine_multiply(out, a, m);
}

/* Depth first, children in order: the stack holds them last to first. Calls `s` with every mesh of every node, or counts them. */
static bool walk(const struct aiScene *scene, stream *s, uint32_t *count)
{
    static const double identity[12] = ESI_AFFINE_IDENTITY;
    visit *stack = malloc(sizeof *stack * ESI_ASSIMP_MAX_NODES);
    size_t n = 1, seen = 0;

    *count = 0;
    if (!stack) return false;
    stack[0].node = scene->mRootNode;
    memcpy(stack[0].matrix, identity, sizeof identity);
    while (n > 0) {
        const visit at = stack[--n];
        esi_assimp_instance out = {0};

        if (++seen > ESI_ASSIMP_MAX_NODES || n + at.node->mNumChildren > ESI_ASSIMP_MAX_NODES) return false;
        multiply(out.matrix, at.matrix, &at.node->mTransformation);
        for (unsigned i = 0; i < at.node->mNumMeshes; i++) {
            out.mesh = at.node->mMeshes[i];
            if (out.mesh >= scene->mNumMeshes || ++*count > ESI_ASSIMP_MAX_NODES) return false;
            if (s) put(s, &out, sizeof out);
        }
        for (unsigned i = at.node->mNumChildren; i-- > 0;) {
            stack[n].node = at.node->mChildren[i];
            memcpy(stack[n++].matrix, out.matrix, sizeof out.matrix);
        }
    }
    free(stack);
    return true;
}

static int32_t up_axis(const struct aiScene *scene)
{
    for (unsigned i = 0; scene->mMetaData && i < scene->mMetaData->mNumProperties; i++) {
        const struct aiMetadataEntry *e = &scene->mMetaData->mValues[i];

        if (strcmp(scene->mMetaData->mKeys[i].data, "UpAxis") == 0 && e->mType == AI_INT32 && e->mData) {
            int32_t axis;

            memcpy(&axis, e->mData, sizeof axis);
            return axis >= 0 && axis <= 2 ? axis : -1;
        }
    }
    return -1;
}

static bool put_scene(stream *s, const struct aiScene *scene)
{
    const int32_t axis = up_axis(scene);
    uint32_t instances;

    if (!scene->mRootNode || !walk(scene, NULL, &instances)) return false;
    put_u32(s, ESI_ASSIMP_MAGIC);
    put(s, &axis, sizeof axis);
    put_textures(s, scene);
    put_u32(s, scene->mNumMaterials);
    for (unsigned i = 0; i < scene->mNumMaterials; i++) put_material(s, scene->mMaterials[i]);
    put_u32(s, scene->mNumMeshes);
    for (unsigned i = 0; i < scene->mNumMeshes; i++) put_mesh(s, scene->mMeshes[i]);
    put_u32(s, instances);
    if (!walk(scene, s, &instances)) return false;
    put_u32(s, ESI_ASSIMP_MAGIC);
    flush(s);
    return !s->failed;
}

int esi_assimp_child(int fd, const uint8_t *bytes, uint64_t size, const char *name, const char *directory, uint64_t max_file_bytes)
{
    stream s = {.fd = fd};
    file_server server = {bytes, size, max_file_bytes, name, directory};
    struct aiFileIO io = {serve_open, serve_close, (char *)(void *)&server};
    const struct aiScene *scene = aiImportFileEx(name, aiProcess_Triangulate, &io);

    if (scene) return put_scene(&s, scene) ? 0 : 1;
    put(&s, aiGetErrorString(), strnlen(aiGetErrorString(), 200));
    flush(&s);
    return 1;
}
