/* SPDX-License-Identifier: MIT
 *
 * surface_read.c: files of other programs -> surface, by suffix: which reader, which way is up, and what must hold for every one of them.
 */
#include "formats/mesh_files.h"
#include "formats/surface_io.h"

#include <math.h>
#include <stdio.h>

typedef struct mesh_format {
    const char *suffix;
    esi_mesh_reader read;
    bool y_up;
} mesh_format;

/* Nothing that needs a program's own libraries, animation only, or games of the nineties. */
static const mesh_format formats[] = {
    {".glb", esi_gltf_parse, true},
    {".gltf", esi_gltf_parse, true},
    {".obj", esi_obj_parse, true},
    {".ply", esi_ply_parse, false},
    {".stl", esi_stl_parse, false},
    {".off", esi_off_parse, false},
#ifdef ESPALIER_HAVE_ARCHIVES
    {".3mf", esi_3mf_parse, false},
#endif
#ifdef ESPALIER_HAVE_ASSIMP
    {".dae", esi_assimp_parse, true},
    {".fbx", esi_assimp_parse, true},
    {".x3d", esi_assimp_parse, true},
    {".3ds", esi_assimp_parse, true},
#endif
};

static bool same_suffix(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        const char lower = *a >= 'A' && *a <= 'Z' ? (char)(*a + 32) : *a;

        if (lower != *b) return false;
    }
    return *a == *b;
}

static const mesh_format *find_format(const char *name)
{
    const char *suffix = esi_path_suffix(name);

    for (size_t i = 0; i < ESI_COUNT(formats); i++) {
        if (same_suffix(suffix, formats[i].suffix)) return &formats[i];
    }
    return NULL;
}

/* (x, y, z) -> (x, -z, y): what writing turned, and no negative zeros. */
static void turn_up(float *v, int64_t count, int columns)
{
    for (int64_t i = 0; v && i < count; i++, v += columns) {
        const float y = v[1];

        v[1] = 0.0f - v[2];
        v[2] = y;
    }
}

/* Normals and tangents of other programs may have any length; one that has none points up, so that the field keeps its promise. */
static void unit_length(float *v, int64_t count, int columns)
{
    for (int64_t i = 0; v && i < count; i++, v += columns) {
        const double x = (double)v[0], y = (double)v[1], z = (double)v[2];
        const double length = sqrt(x * x + y * y + z * z);
        const bool usable = length > 0.0 && length < INFINITY;

        v[0] = usable ? (float)(x / length) : 0.0f;
        v[1] = usable ? (float)(y / length) : 0.0f;
        v[2] = usable ? (float)(z / length) : 1.0f;
        if (columns == 4) v[3] = v[3] < 0.0f ? -1.0f : 1.0f;
    }
}

static void finite_uvs(float *uvs, int64_t count)
{
    for (int64_t i = 0; uvs && i < 2 * count; i++) {
        if (!isfinite(uvs[i])) uvs[i] = 0.0f;
    }
}

static espalier_status parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file)
{
    const mesh_format *format = find_format(file->name);
    espalier_status st;

    if (!format) {
        char known[128] = "";

        for (size_t i = 0; i < ESI_COUNT(formats); i++)
            snprintf(known + strlen(known), sizeof known - strlen(known), " %s", formats[i].suffix);
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: not a mesh by its suffix; this build reads%s", file->name, known);
    }
    if (file->size > esi_limits(ctx)->max_file_bytes) {
        char size[ESI_SIZE_TEXT], limit[ESI_SIZE_TEXT];

        esi_size_text(size, file->size);
        esi_size_text(limit, esi_limits(ctx)->max_file_bytes);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: %s are over the limit of %s", file->name, size, limit);
    }
    st = format->read(ctx, out, file);
    if (st != ESPALIER_OK) return st;
    if (format->y_up) {
        turn_up(out->mesh.vertices, out->mesh.n_vertices, 3);
        turn_up(out->normals, out->mesh.n_vertices, 3);
        turn_up(out->tangents, out->mesh.n_vertices, 4);
    }
    unit_length(out->normals, out->mesh.n_vertices, 3);
    unit_length(out->tangents, out->mesh.n_vertices, 4);
    finite_uvs(out->uvs, out->mesh.n_vertices);
    return ESPALIER_OK;
}

espalier_status esi_surface_parse(espalier_context *ctx, esi_surface *out, const void *bytes, uint64_t size, const char *name)
{
    const esi_mesh_file file = {.bytes = bytes, .size = size, .name = name};
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = parse(ctx, out, &file);
    if (st != ESPALIER_OK) esi_surface_free(ctx, out);
    return st;
}

espalier_status esi_surface_read(espalier_context *ctx, esi_surface *out, const char *path)
{
    esi_file_map *map = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    const esi_mesh_file file = {.bytes = esi_file_map_data(map), .size = esi_file_map_size(map), .name = path, .path = path};
    st = parse(ctx, out, &file);
    if (st != ESPALIER_OK) esi_surface_free(ctx, out);
    esi_file_map_release(map);
    return st;
}
