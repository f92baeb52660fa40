/* SPDX-License-Identifier: MIT
 *
 * ply_fixture.h: reads the test meshes: binary little-endian PLY with float x y z first and uchar + int lists, as they are. Not for files
 * of unknown origin.
 */
#ifndef PLY_FIXTURE_H
#define PLY_FIXTURE_H

#include "base/surface.h"

#include <stdio.h>
#include <stdlib.h>

/* false when the file cannot be read. */
static inline bool ply_fixture_read(espalier_context *ctx, esi_mesh *out, const char *path)
{
    FILE *f = fopen(path, "rb");
    char line[256];
    long long nv = 0, nf = 0;
    bool ok = f != NULL;

    if (!f) return false;
    while (ok && fgets(line, sizeof line, f) && strncmp(line, "end_header", 10) != 0) {
        if (!strncmp(line, "element vertex ", 15)) nv = atoll(line + 15);
        if (!strncmp(line, "element face ", 13)) nf = atoll(line + 13);
    }
    ok = esi_mesh_new(ctx, out, nv, nf) == ESPALIER_OK && fread(out->vertices, 12, (size_t)nv, f) == (size_t)nv;
    for (long long i = 0; ok && i < nf; i++) ok = fgetc(f) == 3 && fread(out->faces + 3 * i, 4, 3, f) == 3;
    fclose(f);
    return ok;
}

#endif
