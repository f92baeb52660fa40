/* SPDX-License-Identifier: MIT
 *
 * assimp_read.c: formats that assimp reads and we do not -> surface.
 *
 * assimp works in a child process with limits on memory and time: its importers fall over on damaged files (found by fuzzing), keep no
 * account of memory, cannot be cancelled, and share global state. The child returns plain arrays through a pipe (assimp_child.h); they are
 * checked like any other file. A child that dies is a damaged file.
 */
#include "formats/affine.h"
#include "formats/assimp_child.h"
#include "formats/mesh_files.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS 50
#define MEMORY_PER_BYTE 64         /* of the file: what a scene may need */
#define MEMORY_LEAST ((uint64_t)512 << 20)
#define SECONDS_LEAST 5.0
#define BYTES_PER_SECOND 500e3     /* the slowest reader seen takes a tenth of this time */

/* ------------------------------------------------------------------- child */

/* Address space that the process has now. */
static uint64_t address_space(void)
{
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    uint64_t pages = 0;

    if (fd >= 0) close(fd);
    for (ssize_t i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++) pages = pages * 10 + (uint64_t)(text[i] - '0');
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void limit(int resource, uint64_t value)
{
    const struct rlimit r = {(rlim_t)value, (rlim_t)value};

    (void)setrlimit(resource, &r);
}

static double seconds_allowed(const esi_mesh_file *file)
{
    return SECONDS_LEAST + (double)file->size / BYTES_PER_SECOND;
}

/* Signal handlers and streams of the embedding program are not for the child. */
static void seclude(const esi_mesh_file *file)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTERM, SIGINT, SIGPIPE, SIGXCPU, SIGALRM};
    const uint64_t space = address_space();
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (size_t i = 0; i < ESI_COUNT(signals); i++) (void)signal(signals[i], SIG_DFL);
    for (int fd = 0; null >= 0 && fd <= 2; fd++) (void)dup2(null, fd);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, (uint64_t)seconds_allowed(file) + 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* Sanitizers reserve address space by the terabyte. */
    if (space > 0 && space < UINT64_C(1) << 42) limit(RLIMIT_AS, space + MEMORY_LEAST + MEMORY_PER_BYTE * file->size);
#else
    (void)space;
#endif
}

static pid_t start_child(const esi_mesh_file *file, const char *name, const char *directory, uint64_t max_file_bytes, int *out)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    if (ends[1] <= 2) {            /* an embedding program without standard streams: the child gives them to nobody */
        const int higher = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);

        close(ends[1]);
        ends[1] = higher;
        if (higher < 0) {
            close(ends[0]);
            return -1;
        }
    }
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        seclude(file);
        _exit(esi_assimp_child(ends[1], file->bytes, file->size, name, directory, max_file_bytes));
    }
    close(ends[1]);
    if (pid < 0)
        close(ends[0]);
    else
        *out = ends[0];
    return pid;
}

/* ------------------------------------------------------------------ stream */

typedef struct received {
    uint8_t *data;
    size_t size, capacity, at;
} received;

/* Everything until the child closes its end. */
static espalier_status receive(espalier_context *ctx, received *r, int fd, const esi_mesh_file *file)
{
    const double end = esi_now() + seconds_allowed(file);
    espalier_status st = ESPALIER_OK;

    while (st == ESPALIER_OK) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        st = esi_check_cancel(ctx);
        if (st == ESPALIER_OK && esi_now() > end) st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: it takes too long to read", file->name);
        if (st != ESPALIER_OK || poll(&p, 1, POLL_MS) <= 0) continue;
        if (r->size == r->capacity) {
            const size_t capacity = r->capacity + r->capacity / 2 + ((size_t)1 << 20);
            uint8_t *data = NULL;

            if (capacity > esi_limits(ctx)->max_file_bytes + ((uint64_t)2 << 20))
                st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: its meshes together are over the limit", file->name);
            else
                data = esi_realloc(ctx, r->data, capacity, 1, "an imported scene");
            if (!data) return st == ESPALIER_OK ? ESPALIER_ERR_RESOURCE : st;
            r->data = data;
            r->capacity = capacity;
        }
        n = read(fd, r->data + r->size, r->capacity - r->size);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) break;
        if (n > 0) r->size += (size_t)n;
    }
    return st;
}

/* A file that the child could not read, or died of. */
static espalier_status report(espalier_context *ctx, const received *r, const esi_mesh_file *file, bool died)
{
    char text[200];

    snprintf(text, sizeof text, "%.*s", (int)ESI_MIN(r->size, sizeof text - 1), r->size ? (const char *)r->data : "");
    esi_clean_line(text);
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: cannot be read as a mesh: %s", file->name,
                    died ? "damaged, or larger than its size allows" : text[0] ? text : "no reason given");
}

static espalier_status run_child(espalier_context *ctx, received *r, const esi_mesh_file *file)
{
    const size_t head = file->path ? (size_t)(esi_path_name(file->path) - file->path) : 0;
    char name[32], *directory = NULL;
    int fd = -1, status = 0;
    pid_t pid;
    espalier_status st;

    snprintf(name, sizeof name, "model%.16s", esi_path_suffix(file->name));
    if (file->path) {
        directory = esi_format(ctx, "%.*s", head > 0 ? (int)ESI_MIN(head, (size_t)INT32_MAX) : 1, head > 0 ? file->path : ".");
        if (!directory) return ESPALIER_ERR_RESOURCE;
    }
    pid = start_child(file, name, directory, esi_limits(ctx)->max_file_bytes, &fd);
    esi_free(ctx, directory);
    if (pid < 0) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: no process to read it in", file->name);
    st = receive(ctx, r, fd, file);
    close(fd);
    if (st != ESPALIER_OK) (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0) {
        if (errno == EINTR) continue;
        status = 0;                              /* somebody else has waited: the end of the stream tells whether it is whole */
        break;
    }
    if (st == ESPALIER_OK && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        st = report(ctx, r, file, !WIFEXITED(status) || r->size > 200);
    return st;
}

/* The next `size` bytes, or NULL. */
static const uint8_t *take(received *r, uint64_t size)
{
    const uint8_t *at = r->data + r->at;

    if (size > r->size - r->at) return NULL;
    r->at += (size_t)size;
    return at;
}

static bool take_u32(received *r, uint32_t *out)
{
    const uint8_t *at = take(r, sizeof *out);

    if (at) memcpy(out, at, sizeof *out);
    return at != NULL;
}

/* ------------------------------------------------------------------- scene */

typedef struct raw_texture {
    uint32_t width, height, name_len;
    const char *name;
    const uint8_t *bytes;
    uint64_t size;
    int32_t index;                 /* in the surface; -1 = not to be had, -2 = not looked at */
} raw_texture;

typedef struct raw_mesh {
    esi_assimp_mesh head;
    const uint8_t *positions, *normals, *uvs, *colors, *faces;
} raw_mesh;

typedef struct scene {
    espalier_context *ctx;
    esi_surface *out;
    const esi_mesh_file *file;
    received data;
    int32_t up;
    raw_texture *textures;
    uint32_t n_textures, n_materials, n_meshes, n_instances;
    const uint8_t *materials, *instances;
    raw_mesh *meshes;
    char (*paths)[ESI_ASSIMP_REFERENCE];         /* pictures beside the file that were looked for, and their numbers */
    int32_t *path_index;
    size_t n_paths;
} scene;

static espalier_status broken(const scene *s)
{
    return esi_fail(s->ctx, ESPALIER_ERR_INPUT, "%s: cannot be read as a mesh: its import broke off", s->file->name);
}

static bool take_textures(scene *s)
{
    if (!take_u32(&s->data, &s->n_textures) || s->n_textures > s->data.size / 20) return false;
    s->textures = esi_calloc(s->ctx, s->n_textures, sizeof *s->textures, "textures");
    if (!s->textures) return false;
    for (uint32_t i = 0; i < s->n_textures; i++) {
        raw_texture *t = &s->textures[i];
        const uint8_t *size;

        if (!take_u32(&s->data, &t->width) || !take_u32(&s->data, &t->height) || !(size = take(&s->data, 8))) return false;
        memcpy(&t->size, size, 8);
        if (!take_u32(&s->data, &t->name_len)) return false;
        t->name = (const char *)take(&s->data, t->name_len);
        t->bytes = take(&s->data, t->size);
        t->index = -2;
        if (!t->name || !t->bytes || (t->height > 0 && t->size != (uint64_t)t->width * t->height * 4)) return false;
    }
    return true;
}

static bool take_meshes(scene *s)
{
    if (!take_u32(&s->data, &s->n_meshes) || s->n_meshes > s->data.size / sizeof(esi_assimp_mesh)) return false;
    s->meshes = esi_calloc(s->ctx, s->n_meshes, sizeof *s->meshes, "meshes of a scene");
    if (!s->meshes) return false;
    for (uint32_t i = 0; i < s->n_meshes; i++) {
        raw_mesh *m = &s->meshes[i];
        const uint8_t *head = take(&s->data, sizeof m->head);
        uint64_t n;

        if (!head) return false;
        memcpy(&m->head, head, sizeof m->head);
        n = m->head.n_vertices;
        m->positions = take(&s->data, 12 * n);
        m->normals = m->head.flags & ESI_ASSIMP_NORMALS ? take(&s->data, 12 * n) : NULL;
        m->uvs = m->head.flags & ESI_ASSIMP_UVS ? take(&s->data, 8 * n) : NULL;
        m->colors = m->head.flags & ESI_ASSIMP_COLORS ? take(&s->data, 16 * n) : NULL;
        m->faces = take(&s->data, 12 * (uint64_t)m->head.n_faces);
        if (!m->positions || !m->faces || (!m->normals && (m->head.flags & ESI_ASSIMP_NORMALS)) ||
            (!m->uvs && (m->head.flags & ESI_ASSIMP_UVS)) || (!m->colors && (m->head.flags & ESI_ASSIMP_COLORS)))
            return false;
    }
    return true;
}

static espalier_status take_scene(scene *s)
{
    const uint8_t *axis;
    uint32_t magic = 0, last = 0;
    bool ok = take_u32(&s->data, &magic) && magic == ESI_ASSIMP_MAGIC && (axis = take(&s->data, sizeof s->up)) != NULL;

    if (!ok) return broken(s);
    memcpy(&s->up, axis, sizeof s->up);
    ok = take_textures(s) && take_u32(&s->data, &s->n_materials) &&
         (s->materials = take(&s->data, (uint64_t)s->n_materials * sizeof(esi_assimp_material))) != NULL && take_meshes(s) &&
         take_u32(&s->data, &s->n_instances) &&
         (s->instances = take(&s->data, (uint64_t)s->n_instances * sizeof(esi_assimp_instance))) != NULL && take_u32(&s->data, &last) &&
         last == ESI_ASSIMP_MAGIC && s->n_materials < INT32_MAX;
    if (ok) return ESPALIER_OK;
    return esi_error_pending(s->ctx) ? ESPALIER_ERR_RESOURCE : broken(s);
}

/* ---------------------------------------------------------------- pictures */

static raw_texture *find_embedded(const scene *s, const char *reference)
{
    uint32_t index = 0;

    if (reference[0] == '*') {
        for (const char *c = reference + 1; *c >= '0' && *c <= '9' && index < s->n_textures; c++) index = index * 10 + (uint32_t)(*c - '0');
        return index < s->n_textures ? &s->textures[index] : NULL;
    }
    for (uint32_t i = 0; i < s->n_textures; i++) {
        const raw_texture *t = &s->textures[i];

        if (t->name_len == strlen(reference) && t->name_len > 0 && memcmp(t->name, reference, t->name_len) == 0) return &s->textures[i];
    }
    return NULL;
}

/* Pixels of a scene are BGRA. */
static espalier_status copy_pixels(espalier_context *ctx, esi_texture *out, bool *found, const raw_texture *t)
{
    const uint32_t side = esi_limits(ctx)->max_image_side;

    *found = false;
    if (t->width == 0 || t->width > side || t->height > side) return ESPALIER_OK;
    out->pixels = esi_alloc(ctx, (size_t)t->width * t->height, 4, "a texture");
    if (!out->pixels) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < t->size; i += 4) {
        out->pixels[i] = t->bytes[i + 2];
        out->pixels[i + 1] = t->bytes[i + 1];
        out->pixels[i + 2] = t->bytes[i];
        out->pixels[i + 3] = t->bytes[i + 3];
    }
    out->width = t->width;
    out->height = t->height;
    out->channels = 4;
    *found = true;
    return ESPALIER_OK;
}

static espalier_status load_embedded(scene *s, raw_texture *t)
{
    esi_texture texture = {0};
    bool found;
    espalier_status st = t->height > 0 ? copy_pixels(s->ctx, &texture, &found, t)
                                       : esi_texture_decode(s->ctx, &texture, &found, t->bytes, (size_t)t->size, s->file->name);

    t->index = -1;
    if (st == ESPALIER_OK && found) st = esi_surface_add_texture(s->ctx, s->out, &texture, &t->index);
    esi_free(s->ctx, texture.pixels);
    return st;
}

static espalier_status load_beside(scene *s, const char *reference, int32_t *index)
{
    esi_texture texture = {0};
    bool found;
    espalier_status st;

    for (size_t i = 0; i < s->n_paths; i++) {
        if (strcmp(s->paths[i], reference) != 0) continue;
        *index = s->path_index[i];
        return ESPALIER_OK;
    }
    st = esi_texture_load_beside(s->ctx, &texture, &found, s->file, reference);
    if (st == ESPALIER_OK && found) st = esi_surface_add_texture(s->ctx, s->out, &texture, index);
    esi_free(s->ctx, texture.pixels);
    snprintf(s->paths[s->n_paths], ESI_ASSIMP_REFERENCE, "%s", reference);
    s->path_index[s->n_paths++] = *index;
    return st;
}

static espalier_status load_picture(scene *s, char reference[ESI_ASSIMP_REFERENCE], int32_t *index)
{
    raw_texture *t;
    espalier_status st = ESPALIER_OK;

    reference[ESI_ASSIMP_REFERENCE - 1] = '\0';
    *index = -1;
    if (!reference[0]) return st;
    t = find_embedded(s, reference);
    if (!t) return load_beside(s, reference, index);
    if (t->index == -2) st = load_embedded(s, t);
    *index = t->index;
    return st;
}

/* Enumerations and numbers come from another process. */
static void sanitize(esi_material *m)
{
    float *numbers[] = {&m->base_color[0], &m->base_color[1], &m->base_color[2], &m->base_color[3], &m->metallic, &m->roughness,
                        &m->emissive[0], &m->emissive[1], &m->emissive[2], &m->alpha_cutoff};

    m->name[sizeof m->name - 1] = '\0';
    esi_clean_line(m->name);
    for (size_t i = 0; i < ESI_COUNT(numbers); i++) *numbers[i] = *numbers[i] > 0.0f ? (*numbers[i] < 1.0f ? *numbers[i] : 1.0f) : 0.0f;
    if ((unsigned)m->alpha_mode > ESI_ALPHA_BLEND) m->alpha_mode = ESI_ALPHA_OPAQUE;
    if ((unsigned)m->wrap > ESI_WRAP_MIRROR) m->wrap = ESI_WRAP_REPEAT;
}

static espalier_status make_materials(scene *s)
{
    espalier_status st = ESPALIER_OK;
    esi_assimp_material *m = esi_alloc(s->ctx, 1, sizeof *m, "materials");

    s->out->materials = esi_alloc(s->ctx, s->n_materials, sizeof *s->out->materials, "materials");
    s->paths = esi_alloc(s->ctx, (size_t)s->n_materials * ESI_ASSIMP_PICTURES, sizeof *s->paths, "texture paths");
    s->path_index = esi_alloc(s->ctx, (size_t)s->n_materials * ESI_ASSIMP_PICTURES, sizeof *s->path_index, "texture paths");
    if (!m || !s->out->materials || !s->paths || !s->path_index) st = ESPALIER_ERR_RESOURCE;
    for (uint32_t i = 0; st == ESPALIER_OK && i < s->n_materials; i++) {
        esi_material *to = &s->out->materials[i];

        memcpy(m, s->materials + (size_t)i * sizeof *m, sizeof *m);
        *to = m->values;
        sanitize(to);
        to->base_color_texture = to->metallic_roughness_texture = to->normal_texture = to->emissive_texture = -1;
        s->out->n_materials = (int32_t)i + 1;
        st = load_picture(s, m->pictures[ESI_ASSIMP_BASE], &to->base_color_texture);
        if (st == ESPALIER_OK) st = load_picture(s, m->pictures[ESI_ASSIMP_NORMAL], &to->normal_texture);
        if (st == ESPALIER_OK) st = load_picture(s, m->pictures[ESI_ASSIMP_EMISSIVE], &to->emissive_texture);
    }
    esi_free(s->ctx, m);
    return st;
}

/* ------------------------------------------------------------------ meshes */

static esi_assimp_instance instance_at(const scene *s, uint32_t i)
{
    esi_assimp_instance out;

    memcpy(&out, s->instances + (size_t)i * sizeof out, sizeof out);
    return out;
}

static espalier_status make_arrays(scene *s)
{
    int64_t vertices = 0, faces = 0;
    bool normals = true, uvs = false, colors = false;
    espalier_status st;

    for (uint32_t i = 0; i < s->n_instances; i++) {
        const uint32_t mesh = instance_at(s, i).mesh;
        const raw_mesh *m;

        if (mesh >= s->n_meshes) return broken(s);
        m = &s->meshes[mesh];
        if (m->head.n_faces == 0) continue;
        vertices += m->head.n_vertices;
        faces += m->head.n_faces;
        normals = normals && m->normals;
        uvs = uvs || m->uvs;
        colors = colors || m->colors;
        if (vertices > ESI_MESH_MAX_VERTICES || faces > ESI_MESH_MAX_FACES ||
            12 * (uint64_t)(vertices + faces) > esi_limits(s->ctx)->max_file_bytes)
            return esi_fail(s->ctx, ESPALIER_ERR_RESOURCE, "%s: its meshes together are over the limit", s->file->name);
    }
    if (faces == 0) return esi_fail(s->ctx, ESPALIER_ERR_INPUT, "%s: no triangles", s->file->name);
    st = esi_mesh_new(s->ctx, &s->out->mesh, vertices, faces);
    if (st != ESPALIER_OK) return st;
    if (normals) s->out->normals = esi_alloc(s->ctx, (size_t)vertices, 3 * sizeof(float), "mesh normals");
    if (uvs) s->out->uvs = esi_calloc(s->ctx, (size_t)vertices, 2 * sizeof(float), "texture coordinates");
    if (colors) s->out->colors = esi_alloc(s->ctx, (size_t)vertices, 4, "mesh colours");
    s->out->face_material = esi_alloc(s->ctx, (size_t)faces, sizeof(int32_t), "face materials");
    if ((normals && !s->out->normals) || (uvs && !s->out->uvs) || (colors && !s->out->colors) || !s->out->face_material)
        return ESPALIER_ERR_RESOURCE;
    return ESPALIER_OK;
}

static void copy_vertex(const scene *s, const raw_mesh *m, const double matrix[12], const double turn[9], double sign, uint32_t i,
                        int64_t v)
{
    esi_surface *out = s->out;
    float p[3], c[4];

    memcpy(p, m->positions + 12 * (size_t)i, sizeof p);
    for (int k = 0; k < 3; k++)
        out->mesh.vertices[3 * v + k] = (float)(matrix[4 * k] * (double)p[0] + matrix[4 * k + 1] * (double)p[1] +
                                                matrix[4 * k + 2] * (double)p[2] + matrix[4 * k + 3]);
    if (out->normals) {
        memcpy(p, m->normals + 12 * (size_t)i, sizeof p);
        for (int k = 0; k < 3; k++)
            out->normals[3 * v + k] = (float)(sign * (turn[3 * k] * (double)p[0] + turn[3 * k + 1] * (double)p[1] +
                                                      turn[3 * k + 2] * (double)p[2]));
    }
    if (m->uvs) memcpy(out->uvs + 2 * v, m->uvs + 8 * (size_t)i, 8);
    if (!out->colors) return;
    memset(out->colors + 4 * v, 255, 4);
    if (!m->colors) return;
    memcpy(c, m->colors + 16 * (size_t)i, sizeof c);
    for (int k = 0; k < 4; k++) out->colors[4 * v + k] = (uint8_t)(c[k] > 0.0f ? (c[k] < 1.0f ? c[k] * 255.0f + 0.5f : 255.0f) : 0.0f);
}

static espalier_status copy_mesh(const scene *s, const raw_mesh *m, const double matrix[12], int64_t vertex, int64_t face)
{
    double turn[9];
    const bool mirrored = esi_affine_cofactors(turn, matrix) < 0.0;
    const int32_t material = m->head.material < (uint32_t)s->out->n_materials ? (int32_t)m->head.material : 0;

    for (uint32_t i = 0; i < m->head.n_vertices; i++) copy_vertex(s, m, matrix, turn, mirrored ? -1.0 : 1.0, i, vertex + i);
    for (uint32_t f = 0; f < m->head.n_faces; f++, face++) {
        uint32_t index[3];

        memcpy(index, m->faces + 12 * (size_t)f, sizeof index);
        for (int k = 0; k < 3; k++) {
            const uint32_t at = index[mirrored ? 2 - k : k];

            if (at >= m->head.n_vertices)
                return esi_fail(s->ctx, ESPALIER_ERR_INPUT, "%s: a face names vertex %u of %u", s->file->name, at, m->head.n_vertices);
            s->out->mesh.faces[3 * face + k] = (int32_t)(vertex + at);
        }
        s->out->face_material[face] = material;
    }
    return esi_check_cancel(s->ctx);
}

/* A file that says z is up is not to be turned; the caller turns all that come from here. */
static void turn_down(esi_surface *out)
{
    float *const arrays[2] = {out->mesh.vertices, out->normals};

    for (int i = 0; i < 2; i++) {
        for (int64_t v = 0; arrays[i] && v < out->mesh.n_vertices; v++) {
            float *p = arrays[i] + 3 * v;
            const float y = p[1];

            p[1] = p[2];
            p[2] = 0.0f - y;
        }
    }
}

static espalier_status make_mesh(scene *s)
{
    int64_t vertex = 0, face = 0;
    espalier_status st = make_arrays(s);

    for (uint32_t i = 0; st == ESPALIER_OK && i < s->n_instances; i++) {
        const esi_assimp_instance at = instance_at(s, i);
        const raw_mesh *m = &s->meshes[at.mesh];

        if (m->head.n_faces == 0) continue;
        st = copy_mesh(s, m, at.matrix, vertex, face);
        vertex += m->head.n_vertices;
        face += m->head.n_faces;
    }
    if (st == ESPALIER_OK && s->up == 2) turn_down(s->out);
    return st;
}

espalier_status esi_assimp_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    scene s = {.ctx = ctx, .out = out, .file = file};
    espalier_status st = run_child(ctx, &s.data, file);

    if (st == ESPALIER_OK) st = take_scene(&s);
    if (st == ESPALIER_OK) st = make_materials(&s);
    if (st == ESPALIER_OK) st = make_mesh(&s);
    esi_free(ctx, s.data.data);
    esi_free(ctx, s.textures);
    esi_free(ctx, s.meshes);
    esi_free(ctx, s.paths);
    esi_free(ctx, s.path_index);
    return st;
}
