/* SPDX-License-Identifier: MIT
 *
 * mesh_files.c: triangles as they come and pictures beside a model.
 */
#include "formats/mesh_files.h"

#include <espalier/image.h>

#include <stdlib.h>

/* --------------------------------------------------------------- triangles */

espalier_status esi_face_list_reserve(espalier_context *ctx, esi_face_list *list, int64_t more)
{
    int64_t capacity = list->count + more;
    int32_t *faces;

    if (more > ESI_MESH_MAX_FACES - list->count)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: more than %lld faces", list->name, (long long)ESI_MESH_MAX_FACES);
    if (capacity <= list->capacity) return ESPALIER_OK;
    if (list->capacity > 0) capacity = ESI_MIN(ESI_MAX(capacity, list->capacity + list->capacity / 2 + 16), ESI_MESH_MAX_FACES);
    faces = esi_realloc(ctx, list->faces, (size_t)capacity, 3 * sizeof *faces, "mesh faces");
    if (!faces) return ESPALIER_ERR_RESOURCE;
    list->faces = faces;
    list->capacity = capacity;
    return ESPALIER_OK;
}

espalier_status esi_face_list_polygon(espalier_context *ctx, esi_face_list *list, const int32_t *corners, int64_t n)
{
    espalier_status st = ESPALIER_OK;

    if (n >= 3 && list->count + n - 2 > list->capacity) st = esi_face_list_reserve(ctx, list, n - 2);
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 2; i < n; i++) {
        int32_t *face = list->faces + 3 * list->count++;

        face[0] = corners[0];
        face[1] = corners[i - 1];
        face[2] = corners[i];
    }
    return ESPALIER_OK;
}

espalier_status esi_face_list_finish(espalier_context *ctx, esi_face_list *list, esi_mesh *mesh)
{
    int32_t *shrunk;

    if (list->count == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no triangles", list->name);
    for (int64_t i = 0; i < 3 * list->count; i++) {
        if (list->faces[i] < 0 || list->faces[i] >= mesh->n_vertices)
            return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: triangle %lld names vertex %lld of %lld", list->name, (long long)(i / 3),
                            (long long)list->faces[i], (long long)mesh->n_vertices);
    }
    shrunk = esi_realloc(ctx, list->faces, (size_t)list->count, 3 * sizeof *shrunk, "mesh faces");
    if (!shrunk) return ESPALIER_ERR_RESOURCE;
    esi_free(ctx, mesh->faces);
    mesh->faces = shrunk;
    mesh->n_faces = list->count;
    *list = (esi_face_list){0};
    return ESPALIER_OK;
}

/* ---------------------------------------------------------------- pictures */

/* The decoder's blocks are nobody's; ours are the context's. */
static espalier_status take_pixels(espalier_context *ctx, esi_texture *out, const espalier_image *image)
{
    const size_t row = (size_t)image->width * image->channels;

    out->pixels = esi_alloc(ctx, image->height, row, "a texture");
    if (!out->pixels) return ESPALIER_ERR_RESOURCE;
    memcpy(out->pixels, image->pixels, image->height * row);
    out->width = image->width;
    out->height = image->height;
    out->channels = image->channels;
    return ESPALIER_OK;
}

/* What is wrong with a picture costs the picture, not the model; lack of memory and cancelling end the reading. */
static espalier_status forgive(espalier_context *ctx, espalier_status st)
{
    if (st != ESPALIER_ERR_INPUT) return st;
    esi_log(ctx, ESPALIER_LOG_WARNING, "%s; the model is read without it", espalier_error_message(ctx));
    esi_clear_error(ctx);
    return ESPALIER_OK;
}

espalier_status esi_texture_decode(espalier_context *ctx, esi_texture *out, bool *found, const void *bytes, size_t size, const char *name)
{
    espalier_image image = {0};
    espalier_status st = espalier_image_decode(ctx, &image, bytes, size, name);

    *found = false;
    memset(out, 0, sizeof *out);
    if (st != ESPALIER_OK) return forgive(ctx, st);
    st = take_pixels(ctx, out, &image);
    *found = st == ESPALIER_OK;
    espalier_image_free(&image);
    return st;
}

/* Relative, without parent directories, and no URL: "data:", "http:", "C:" all have a colon before the first slash. */
bool esi_reference_stays_inside(const char *reference)
{
    const char *colon = strchr(reference, ':'), *slash = strpbrk(reference, "/\\");

    if (reference[0] == '\0' || reference[0] == '/' || (colon && (!slash || colon < slash))) return false;
    for (const char *part = reference; part; part = strchr(part, '/')) {
        if (*part == '/') part++;
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0')) return false;
    }
    return true;
}

/* "%20" -> " " as URIs are written in glTF and COLLADA; other programs' backslashes -> slashes. */
static void clean_reference(char *text)
{
    char *to = text;

    for (const char *from = text; *from; from++) {
        unsigned value = 0;
        int i = 1;

        for (; *from == '%' && i <= 2; i++) {
            const char c = from[i];

            if (c >= '0' && c <= '9')
                value = value * 16 + (unsigned)(c - '0');
            else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                value = value * 16 + (unsigned)((c | 0x20) - 'a' + 10);
            else
                break;
        }
        if (*from == '%' && i == 3 && value != 0) {
            *to++ = (char)value;
            from += 2;
        } else {
            *to++ = *from == '\\' ? '/' : *from;
        }
    }
    *to = '\0';
}

/* Do links lead out of the directory? A missing file is inside. */
bool esi_links_stay_inside(const char *dir, const char *path)
{
    char *real_dir = realpath(dir, NULL), *real_path = realpath(path, NULL);
    bool inside = true;

    if (real_dir && real_path) {
        const size_t len = strlen(real_dir);

        inside = strncmp(real_dir, real_path, len) == 0 && (len == 1 || real_path[len] == '/');
    }
    free(real_dir);
    free(real_path);
    return inside;
}

espalier_status esi_path_beside(espalier_context *ctx, char **out, const esi_mesh_file *file, const char *reference)
{
    const size_t head = file->path ? (size_t)(esi_path_name(file->path) - file->path) : 0;
    char *dir = NULL, *relative = NULL, *path = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *out = NULL;
    if (!file->path) return ESPALIER_OK;
    dir = esi_format(ctx, "%.*s", head > 0 ? (int)ESI_MIN(head, (size_t)INT32_MAX) : 1, head > 0 ? file->path : ".");
    relative = esi_strdup(ctx, reference);
    if (!dir || !relative) goto done;
    clean_reference(relative);
    path = esi_path_join(ctx, dir, relative);
    if (!path) goto done;
    st = ESPALIER_OK;
    if (esi_reference_stays_inside(relative) && esi_links_stay_inside(dir, path)) {
        *out = path;
        path = NULL;
    }
done:
    esi_free(ctx, dir);
    esi_free(ctx, relative);
    esi_free(ctx, path);
    return st;
}

espalier_status esi_texture_load_beside(espalier_context *ctx, esi_texture *out, bool *found, const esi_mesh_file *file,
                                        const char *reference)
{
    espalier_image image = {0};
    char *path = NULL;
    espalier_status st = esi_path_beside(ctx, &path, file, reference);

    *found = false;
    memset(out, 0, sizeof *out);
    if (st != ESPALIER_OK) return st;
    if (!path) {
        esi_log(ctx, ESPALIER_LOG_WARNING, "%s: the picture %.200s is not read: it is not in the directory of the model", file->name,
                reference);
        return ESPALIER_OK;
    }
    st = espalier_image_load(ctx, &image, path);
    esi_free(ctx, path);
    if (st != ESPALIER_OK) return forgive(ctx, st);
    st = take_pixels(ctx, out, &image);
    *found = st == ESPALIER_OK;
    espalier_image_free(&image);
    return st;
}

espalier_status esi_surface_add_texture(espalier_context *ctx, esi_surface *surface, esi_texture *texture, int32_t *index)
{
    esi_texture *textures = esi_realloc(ctx, surface->textures, (size_t)surface->n_textures + 1, sizeof *textures, "textures");

    if (!textures) return ESPALIER_ERR_RESOURCE;
    surface->textures = textures;
    textures[surface->n_textures] = *texture;
    memset(texture, 0, sizeof *texture);
    *index = surface->n_textures++;
    return ESPALIER_OK;
}
