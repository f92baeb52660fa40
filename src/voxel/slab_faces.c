/* SPDX-License-Identifier: MIT
 *
 * slab_faces.c: the work of voxelising cut into slabs of x layers: whose faces are whose. The cut depends on the resolution alone, so
 * results do not depend on the number of threads.
 */
#include "voxel/dual_build.h"

#define SLAB_CELLS (INT64_C(1) << 25)            /* a bitmap of a slab stays below 4 MiB */
#define SLAB_LAYERS 32

static int32_t choose_thickness(const int32_t n[3])
{
    int64_t t = ESI_MIN(ESI_MAX(n[0] / 16, 4), SLAB_LAYERS);

    while (t > 1 && t * n[1] * n[2] > SLAB_CELLS) t /= 2;
    return (int32_t)t;
}

static void slabs_of_face(const esi_slab_faces *s, const esi_cell_mesh *mesh, double layers, int64_t face, int32_t *begin, int32_t *end)
{
    double low = 0.0, high = 0.0;

    for (int k = 0; k < 3; k++) {
        double p[3];

        esi_cell_corner(mesh, mesh->faces[3 * face + k], p);
        if (k == 0 || p[0] < low) low = p[0];
        if (k == 0 || p[0] > high) high = p[0];
    }
    low -= 0.01;
    high += 0.01;
    *begin = *end = 0;
    if (!(low <= layers && high >= 0.0)) return;
    *begin = low > 0.0 ? (int32_t)low / s->thickness : 0;
    *end = ESI_MIN((int32_t)ESI_MIN(high, layers) / s->thickness + 1, s->n_slabs);
}

espalier_status esi_slab_faces_make(espalier_context *ctx, esi_slab_faces *out, const esi_cell_mesh *mesh, const int32_t resolution[3])
{
    const double layers = (double)resolution[0];
    espalier_status st = ESPALIER_OK;

    memset(out, 0, sizeof *out);
    out->thickness = choose_thickness(resolution);
    out->n_slabs = (resolution[0] + out->thickness - 1) / out->thickness;
    out->first = esi_calloc(ctx, (size_t)out->n_slabs + 2, sizeof *out->first, "faces by slab");
    if (!out->first) return ESPALIER_ERR_RESOURCE;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t f = 0; f < mesh->n_faces; f++) {
            int32_t begin, end;

            if ((f & 0x3ffff) == 0) st = esi_check_cancel(ctx);
            if (st != ESPALIER_OK) goto done;
            slabs_of_face(out, mesh, layers, f, &begin, &end);
            for (int32_t s = begin; s < end; s++) {
                if (pass == 0) {
                    out->first[s + 2]++;
                } else {
                    out->faces[out->first[s + 1]++] = (int32_t)f;
                }
            }
        }
        if (pass == 1) break;
        for (int32_t s = 0; s <= out->n_slabs; s++) out->first[s + 1] += out->first[s];
        out->faces = esi_alloc(ctx, (size_t)out->first[out->n_slabs + 1], sizeof *out->faces, "faces by slab");
        if (!out->faces) st = ESPALIER_ERR_RESOURCE;
        if (st != ESPALIER_OK) goto done;
    }
done:
    if (st != ESPALIER_OK) esi_slab_faces_free(ctx, out);
    return st;
}

void esi_slab_faces_free(espalier_context *ctx, esi_slab_faces *slabs)
{
    if (!slabs) return;
    esi_free(ctx, slabs->first);
    esi_free(ctx, slabs->faces);
    memset(slabs, 0, sizeof *slabs);
}
