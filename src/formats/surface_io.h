/* SPDX-License-Identifier: MIT
 *
 * surface_io.h: surfaces out to other programs, by suffix, and in from them.
 *
 * Axes: our surfaces are z up. .glb .gltf .obj .usdz are written y up, (x, y, z) -> (x, z, -y), and turned back on reading; .ply .stl .3mf
 * stay z up. .3mf and .stl are in millimetres when size_mm is given (3mf always is: 100 mm without); .3mf moves its object to the corner of
 * the printer's bed, which is its origin. Colours are sRGB-encoded bytes in textures; COLOR_0 of glTF is linear, ply colours are sRGB.
 */
#ifndef ESI_SURFACE_IO_H
#define ESI_SURFACE_IO_H

#include "base/surface.h"

typedef enum esi_texture_format { ESI_TEXTURE_PNG, ESI_TEXTURE_JPEG, ESI_TEXTURE_WEBP } esi_texture_format;

typedef struct esi_export_options {
    /* of glb and gltf; webp keeps a PNG fallback beside it (EXT_texture_webp, never required) */
    esi_texture_format texture_format;
    int jpeg_quality;                            /* 1..100; 92 */
    double size_mm;                              /* longest side; 0 = as it is (3mf: 100) */
    /* key, value (JSON text), ..., NULL: asset.extras of glTF, comments elsewhere; may be NULL */
    const char *const *extras;
} esi_export_options;
esi_export_options esi_export_options_default(void);

/* .glb .gltf (+ .bin and pictures beside it) .obj (+ .mtl, .png) .ply .stl .3mf .usdz. Same surface, same bytes. Every file appears
 * whole or
 * not at all; of several, the one named appears last. ERR_ARG: unknown suffix; ERR_OUTPUT; ERR_SOUNDNESS: no faces, not finite;
 * ERR_RESOURCE: over a limit of the format. */
espalier_status esi_surface_write(espalier_context *ctx, const esi_surface *surface, const char *path, const esi_export_options *options);
/* ".glb .gltf ...": true if the suffix of `path` is one of them. */
bool esi_surface_can_write(const char *path);

/* .glb .gltf .obj .ply .stl .off .3mf, and through assimp .dae .fbx .x3d .3ds, by suffix: all meshes of the scene with their
 * transformations, triangulated, materials and pictures included, z up. Vertices keep the numbers they have in the file where it has one
 * list of them. Indices are checked; vertices may not be finite and faces may repeat indices (esi_mesh_sanitize()). Pictures and buffers
 * are read from the directory of the model only; a missing picture is a warning. ERR_INPUT: missing, damaged, unknown, no triangles;
 * ERR_RESOURCE: over the context's limits. */
espalier_status esi_surface_read(espalier_context *ctx, esi_surface *out, const char *path);
/* The same over memory; `name` gives the suffix and begins messages; files beside it are not read. */
espalier_status esi_surface_parse(espalier_context *ctx, esi_surface *out, const void *bytes, uint64_t size, const char *name);

#endif
