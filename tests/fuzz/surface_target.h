/* SPDX-License-Identifier: MIT
 *
 * surface_target.h: a mesh file -> surface. What is accepted must be sound in every number but coordinates, which need not be finite.
 */
#ifndef SURFACE_TARGET_H
#define SURFACE_TARGET_H

#include "fuzz.h"

#include "formats/surface_io.h"

#include <stdlib.h>

/* The name whose suffix tells the format of these bytes. */
static const char *name_of(const uint8_t *data, size_t size);

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    espalier_limits limits = espalier_limits_default();
    esi_surface s;
    double sum = 0.0;

    limits.max_file_bytes = (uint64_t)64 << 20;
    limits.max_image_side = 2048;
    espalier_context_set_limits(ctx, &limits);
    if (esi_surface_parse(ctx, &s, data, size, name_of(data, size)) != ESPALIER_OK) {
        if (s.mesh.vertices || s.materials) abort();
        return false;
    }
    if (s.mesh.n_faces < 1) abort();
    for (int64_t i = 0; i < 3 * s.mesh.n_vertices; i++) sum += (double)s.mesh.vertices[i];
    for (int64_t i = 0; s.uvs && i < 2 * s.mesh.n_vertices; i++) sum += (double)s.uvs[i];
    for (int64_t i = 0; s.colors && i < 4 * s.mesh.n_vertices; i++) sum += s.colors[i];
    for (int32_t i = 0; i < s.n_textures; i++) sum += s.textures[i].pixels[(size_t)s.textures[i].width * s.textures[i].height - 1];
    /* Everything but the coordinates as the writers want it. */
    for (int64_t i = 0; i < 3 * s.mesh.n_vertices; i++) s.mesh.vertices[i] = 0.0f;
    if (esi_surface_check(ctx, &s, "fuzz", ESPALIER_ERR_INTERNAL) != ESPALIER_OK) abort();
    if (sum == 0.12345) abort();
    esi_surface_free(ctx, &s);
    return true;
}

#endif
