/* SPDX-License-Identifier: MIT
 *
 * obj_read.h: inside of the OBJ reader.
 */
#ifndef ESI_OBJ_READ_H
#define ESI_OBJ_READ_H

#include "formats/mesh_files.h"
#include "formats/numbers.h"

/* A word or the rest of a line in a file that is mapped or in memory. */
typedef struct esi_obj_name {
    const char *text;
    size_t len;
} esi_obj_name;

/* A material of a library; pictures come when it is known to be used. */
typedef struct esi_obj_material {
    esi_obj_name name;
    esi_material values;
    esi_obj_name color, roughness, metallic, emissive, normal, alpha;       /* files; text NULL = none */
    bool used;
    int32_t index;                 /* in the surface; -1 = not there (yet) */
} esi_obj_material;

typedef struct esi_obj_library {
    esi_file_map **maps;           /* the names lie in them */
    size_t n_maps;
    esi_obj_material *materials;
    size_t count, capacity;
} esi_obj_library;

/* The next line without its end, continued lines joined by blanks being two lines here. false at the end. */
bool esi_obj_line(esi_scan *text, esi_scan *line);
/* What is left of a line, without blanks around it. */
esi_obj_name esi_obj_rest(esi_scan *line);

/* Read the library that `name` names beside the file; a missing one is a warning. */
espalier_status esi_obj_library_add(espalier_context *ctx, esi_obj_library *library, const esi_mesh_file *file, esi_obj_name name);
/* Sort by name, so that find is fast; of equal names the first one stays in front. */
void esi_obj_library_sort(esi_obj_library *library);
esi_obj_material *esi_obj_library_find(esi_obj_library *library, esi_obj_name name);
/* Every used material with its pictures into the surface. */
espalier_status esi_obj_library_finish(espalier_context *ctx, esi_obj_library *library, esi_surface *out, const esi_mesh_file *file);
void esi_obj_library_free(espalier_context *ctx, esi_obj_library *library);

#endif
