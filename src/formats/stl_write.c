/* SPDX-License-Identifier: MIT
 *
 * stl_write.c: surface -> binary STL: triangles and their normals, nothing else.
 */
#include "formats/bytes.h"
#include "formats/surface_export.h"

#include <math.h>

#define BLOCK 8192
#define RECORD 50

static void store_triangle(const esi_export *e, int64_t face, uint8_t *to)
{
    float p[3][3], n[3] = {0.0f, 0.0f, 0.0f};
    double a[3], b[3], c[3], length;

    for (int k = 0; k < 3; k++) esi_export_position(e, e->surface->mesh.faces[3 * face + k], p[k]);
    for (int k = 0; k < 3; k++) {
        a[k] = (double)p[1][k] - (double)p[0][k];
        b[k] = (double)p[2][k] - (double)p[0][k];
    }
    for (int k = 0; k < 3; k++) c[k] = a[(k + 1) % 3] * b[(k + 2) % 3] - a[(k + 2) % 3] * b[(k + 1) % 3];
    length = sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2]);
    for (int k = 0; k < 3 && length > 0.0; k++) n[k] = (float)(c[k] / length) + 0.0f;
    for (int k = 0; k < 3; k++) esi_store_f32le(to + 4 * k, n[k]);
    for (int k = 0; k < 9; k++) esi_store_f32le(to + 12 + 4 * k, p[k / 3][k % 3]);
    to[48] = to[49] = 0;
}

espalier_status esi_surface_write_stl(esi_export *e)
{
    const int64_t n = e->surface->mesh.n_faces;
    uint8_t head[84] = {0}, *block = esi_alloc(e->ctx, BLOCK, RECORD, "STL triangles");
    esi_writer *w;
    espalier_status st = block ? esi_file_set_open(&e->files, &w, e->path) : ESPALIER_ERR_RESOURCE;

    if (st != ESPALIER_OK) goto done;
    memcpy(head, esi_export_generator(), strlen(esi_export_generator()));      /* does not begin with "solid" */
    esi_store_u32le(head + 80, (uint32_t)n);
    st = esi_writer_write(w, head, sizeof head);
    for (int64_t begin = 0; st == ESPALIER_OK && begin < n; begin += BLOCK) {
        const int64_t end = ESI_MIN(begin + BLOCK, n);

        for (int64_t f = begin; f < end; f++) store_triangle(e, f, block + (size_t)(f - begin) * RECORD);
        st = esi_writer_write(w, block, (size_t)(end - begin) * RECORD);
    }
    if (st == ESPALIER_OK) st = esi_file_set_commit(&e->files);
done:
    esi_free(e->ctx, block);
    return st;
}
