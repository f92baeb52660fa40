/* SPDX-License-Identifier: MIT
 *
 * surface_write.c: surface -> file by suffix: what must hold for every format, its axes and its unit.
 */
#include "formats/surface_export.h"

typedef struct surface_format {
    const char *suffix;
    esi_surface_writer write;
    bool y_up;
    double unit;                   /* of the file, in millimetres */
    double usual_mm;               /* size without size_mm; 0 = as it is */
} surface_format;

static const surface_format formats[] = {
    {".glb", esi_surface_write_gltf, true, 1000.0, 0.0},
    {".gltf", esi_surface_write_gltf, true, 1000.0, 0.0},
    {".obj", esi_surface_write_obj, true, 1000.0, 0.0},
    {".ply", esi_surface_write_ply, false, 1000.0, 0.0},
    {".stl", esi_surface_write_stl, false, 1.0, 0.0},
#ifdef ESPALIER_HAVE_ARCHIVES
    {".3mf", esi_surface_write_3mf, false, 1.0, 100.0},
#endif
    {".usdz", esi_surface_write_usdz, true, 1000.0, 0.0},
};

static const surface_format *find_format(const char *path)
{
    const char *suffix = esi_path_suffix(path);

    for (size_t i = 0; i < ESI_COUNT(formats); i++) {
        const char *a = suffix, *b = formats[i].suffix;

        while (*a && *b && (*a >= 'A' && *a <= 'Z' ? *a + 32 : *a) == *b) a++, b++;
        if (*a == *b) return &formats[i];
    }
    return NULL;
}

bool esi_surface_can_write(const char *path)
{
    return find_format(path) != NULL;
}

esi_export_options esi_export_options_default(void)
{
    return (esi_export_options){.texture_format = ESI_TEXTURE_PNG, .jpeg_quality = 92};
}

/* Of the vertices that faces use. */
static double longest_side(const esi_mesh *m)
{
    double longest = 0.0;

    for (int axis = 0; axis < 3; axis++) {
        float low = m->vertices[3 * m->faces[0] + axis], high = low;

        for (int64_t i = 0; i < 3 * m->n_faces; i++) {
            const float v = m->vertices[3 * (int64_t)m->faces[i] + axis];

            low = v < low ? v : low;
            high = v > high ? v : high;
        }
        longest = ESI_MAX(longest, (double)high - (double)low);
    }
    return longest;
}

static double scale_of(const esi_mesh *m, const surface_format *format, double size_mm)
{
    const double wanted = size_mm > 0.0 ? size_mm : format->usual_mm, side = wanted > 0.0 ? longest_side(m) : 0.0;

    return side > 0.0 ? wanted / format->unit / side : 1.0;
}

espalier_status esi_surface_write(espalier_context *ctx, const esi_surface *surface, const char *path, const esi_export_options *options)
{
    const esi_export_options usual = esi_export_options_default();
    const surface_format *format = find_format(path);
    esi_export e = {.ctx = ctx, .surface = surface, .path = path, .options = options ? options : &usual, .files = {.ctx = ctx}};
    espalier_status st;

    if (!format)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: surfaces are written as .glb .gltf .obj .ply .stl .3mf or .usdz", path);
    if (!(e.options->size_mm >= 0.0 && e.options->size_mm <= 1e9))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: a size of %g mm", path, e.options->size_mm);
    st = esi_surface_check(ctx, surface, path, ESPALIER_ERR_INTERNAL);
    if (st != ESPALIER_OK) return st;
    if (surface->mesh.n_faces == 0) return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: the mesh has no faces", path);
    e.y_up = format->y_up;
    e.scale = scale_of(&surface->mesh, format, e.options->size_mm);
    st = format->write(&e);
    esi_file_set_free(&e.files);
    return st;
}
