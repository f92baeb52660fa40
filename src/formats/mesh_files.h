/* SPDX-License-Identifier: MIT
 *
 * mesh_files.h: what the readers of mesh formats share. They make surfaces in the axes and units of the file, with row 0 of pictures at
 * v = 0; surface_read.c turns them.
 */
#ifndef ESI_MESH_FILES_H
#define ESI_MESH_FILES_H

#include "base/surface.h"

/* A file being read. */
typedef struct esi_mesh_file {
    const uint8_t *bytes;
    uint64_t size;
    const char *name;              /* begins messages */
    const char *path;              /* of the file; NULL: bytes only, nothing beside it may be read */
} esi_mesh_file;

/* ERR_INPUT: damaged, no triangles, counts beyond the file; ERR_RESOURCE. What was made so far stays in *out, to be released by the
 * caller. */
typedef espalier_status (*esi_mesh_reader)(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_ply_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_stl_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_gltf_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_obj_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_off_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_3mf_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);
espalier_status esi_assimp_parse(espalier_context *ctx, esi_surface *out, const esi_mesh_file *file);

/* Triangles whose number is not known in advance. Zero-initialise with the name. */
typedef struct esi_face_list {
    int32_t *faces;                /* [count][3] */
    int64_t count, capacity;
    const char *name;              /* of the file, for messages */
} esi_face_list;
espalier_status esi_face_list_reserve(espalier_context *ctx, esi_face_list *list, int64_t more);
/* A polygon as a fan around its first corner; fewer than three corners are nothing. */
espalier_status esi_face_list_polygon(espalier_context *ctx, esi_face_list *list, const int32_t *corners, int64_t n);
/* Move the triangles into mesh (which has its vertices) and check that they name vertices. ERR_INPUT without any. */
espalier_status esi_face_list_finish(espalier_context *ctx, esi_face_list *list, esi_mesh *mesh);

/* A corner of a face: position and up to two more numbers; -1 = absent. */
typedef struct esi_corner {
    int32_t v, t, n;
} esi_corner;

/* Numbers different corners: the first of each position has its number, further ones follow behind all positions. */
typedef struct esi_corners {
    esi_corner *corners;           /* [count]; v = -2: a position that no corner named */
    int64_t count, capacity;
    int32_t *table;                /* open addressing */
    size_t slots, taken;
    const char *name;              /* of the file, for messages */
} esi_corners;
espalier_status esi_corners_open(espalier_context *ctx, esi_corners *c, int64_t positions, const char *name);
espalier_status esi_corners_number(espalier_context *ctx, esi_corners *c, esi_corner corner, int32_t *index);
void esi_corners_close(espalier_context *ctx, esi_corners *c);

/* Is it a relative path without parent directories, and no URL? Does no link lead `path` out of `dir`? */
bool esi_reference_stays_inside(const char *reference);
bool esi_links_stay_inside(const char *dir, const char *path);
/* The path of what `reference` (a path or URI) names beside the file; *out is NULL when nothing may be read there: absolute, with "..", a
 * URL, a link out of the directory of the file, or no path known. */
espalier_status esi_path_beside(espalier_context *ctx, char **out, const esi_mesh_file *file, const char *reference);
/* The picture `reference` names beside the file. *found = false, with a warning in the log, when it is missing, damaged, or not to be read;
 * ERR_RESOURCE and ERR_CANCELLED only. */
espalier_status esi_texture_load_beside(espalier_context *ctx, esi_texture *out, bool *found, const esi_mesh_file *file,
                                        const char *reference);
/* The same for a picture held in memory; `name` for the warning. */
espalier_status esi_texture_decode(espalier_context *ctx, esi_texture *out, bool *found, const void *bytes, size_t size, const char *name);
/* Append a picture, which the surface then owns; *index is its number. */
espalier_status esi_surface_add_texture(espalier_context *ctx, esi_surface *surface, esi_texture *texture, int32_t *index);

#endif
