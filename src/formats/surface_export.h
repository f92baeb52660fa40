/* SPDX-License-Identifier: MIT
 *
 * surface_export.h: what the writers of surfaces share.
 */
#ifndef ESI_SURFACE_EXPORT_H
#define ESI_SURFACE_EXPORT_H

#include "formats/surface_io.h"

/* Files that appear together: all are whole on the disk under temporary names before the first gets its own, and the first opened gets it
 * last. Zero-initialise with ctx. */
typedef struct esi_file_set {
    espalier_context *ctx;
    esi_writer **writers;
    char **paths;
    size_t count;
} esi_file_set;
espalier_status esi_file_set_open(esi_file_set *set, esi_writer **out, const char *path);
espalier_status esi_file_set_commit(esi_file_set *set);
void esi_file_set_free(esi_file_set *set);       /* aborts what is still open */

/* One export. */
typedef struct esi_export {
    espalier_context *ctx;
    const esi_surface *surface;
    const char *path;
    const esi_export_options *options;
    double scale;                  /* positions are multiplied by it */
    bool y_up;
    esi_file_set files;
} esi_export;

typedef espalier_status (*esi_surface_writer)(esi_export *e);
espalier_status esi_surface_write_gltf(esi_export *e);       /* .glb and .gltf */
espalier_status esi_surface_write_obj(esi_export *e);
espalier_status esi_surface_write_ply(esi_export *e);
espalier_status esi_surface_write_stl(esi_export *e);
espalier_status esi_surface_write_3mf(esi_export *e);
espalier_status esi_surface_write_usdz(esi_export *e);

/* In the axes and units of the file; no negative zeros. */
void esi_export_position(const esi_export *e, int64_t vertex, float out[3]);
/* A direction turned and made a unit vector; one without length points up. */
void esi_export_direction(const esi_export *e, const float *in, float out[3]);

/* map[v] = number of the position of vertex v among the *count different ones, numbered by their first vertex; first[i] = that vertex. */
espalier_status esi_export_weld(const esi_export *e, int32_t **map, int32_t **first, int64_t *count);
/* sRGB-encoded colours [n_vertices][4]: vertex colours, base colour and its texture at the vertex. NULL when nothing gives a colour. */
espalier_status esi_export_colors(const esi_export *e, uint8_t **colors);

/* The material of faces: index into esi_surface.materials, or 0 when there is none. esi_export_material() never gives NULL's fields. */
int32_t esi_export_face_material(const esi_surface *s, int64_t face);
esi_material esi_export_material(const esi_surface *s, int32_t index);
int32_t esi_export_material_count(const esi_surface *s);     /* at least 1 */
/* Face numbers by material, in their order: order (NULL: as they are, one material) and starts[count + 1]. */
espalier_status esi_export_group(const esi_export *e, int32_t **order, int64_t **starts);

/* Encode; an alpha channel of 255s is left out, and two channels become what the format knows. */
espalier_status esi_export_encode(const esi_export *e, uint8_t **out, size_t *size, const esi_texture *texture, esi_texture_format format);
/* "<path without suffix><ending>", esi_alloc'ed. */
char *esi_export_sibling(const esi_export *e, const char *ending);
/* Name of the library and its version. */
const char *esi_export_generator(void);
/* Text to append numbers: one float, `n` of them with blanks between. */
void esi_export_float(espalier_context *ctx, esi_text *t, float value);
void esi_export_floats(espalier_context *ctx, esi_text *t, const float *values, int n, const char *between);
/* Flush a text that has grown over 256 KiB into the writer, or all of it. */
espalier_status esi_export_flush(espalier_context *ctx, esi_text *t, esi_writer *w, bool all);

#endif
