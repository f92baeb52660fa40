/* SPDX-License-Identifier: MIT
 *
 * ply_write.c: surface -> binary little-endian PLY: positions, normals, colours (the base colour at each vertex).
 */
#include "formats/bytes.h"
#include "formats/surface_export.h"

#define BLOCK 16384                /* rows converted at once */
#define ROW (3 * 4 + 3 * 4 + 4)    /* largest vertex */

static espalier_status write_header(esi_export *e, esi_writer *w, bool colors)
{
    const char *const *extras = e->options->extras;
    esi_text t = {0};
    espalier_status st;

    esi_text_append(e->ctx, &t, "ply\nformat binary_little_endian 1.0\ncomment %s\n", esi_export_generator());
    for (size_t i = 0; extras && extras[i] && extras[i + 1]; i += 2) {
        const size_t start = t.len;

        esi_text_append(e->ctx, &t, "comment %s: %s", extras[i], extras[i + 1]);
        if (!t.failed) esi_clean_line(t.data + start);
        esi_text_append(e->ctx, &t, "\n");
    }
    esi_text_append(e->ctx, &t, "element vertex %lld\nproperty float x\nproperty float y\nproperty float z\n",
                    (long long)e->surface->mesh.n_vertices);
    if (e->surface->normals) esi_text_append(e->ctx, &t, "property float nx\nproperty float ny\nproperty float nz\n");
    if (colors)
        esi_text_append(e->ctx, &t, "property uchar red\nproperty uchar green\nproperty uchar blue\nproperty uchar alpha\n");
    esi_text_append(e->ctx, &t, "element face %lld\nproperty list uchar int vertex_indices\nend_header\n",
                    (long long)e->surface->mesh.n_faces);
    st = esi_export_flush(e->ctx, &t, w, true);
    esi_text_free(e->ctx, &t);
    return st;
}

static uint8_t *put_floats(uint8_t *to, const float v[3])
{
    for (int k = 0; k < 3; k++, to += 4) esi_store_f32le(to, v[k]);
    return to;
}

static espalier_status write_vertices(esi_export *e, esi_writer *w, const uint8_t *colors, uint8_t *block)
{
    const esi_surface *s = e->surface;
    espalier_status st = ESPALIER_OK;

    for (int64_t begin = 0; st == ESPALIER_OK && begin < s->mesh.n_vertices; begin += BLOCK) {
        uint8_t *to = block;

        for (int64_t v = begin; v < ESI_MIN(begin + BLOCK, s->mesh.n_vertices); v++) {
            float p[3];

            esi_export_position(e, v, p);
            to = put_floats(to, p);
            if (s->normals) {
                esi_export_direction(e, s->normals + 3 * v, p);
                to = put_floats(to, p);
            }
            if (!colors) continue;
            memcpy(to, colors + 4 * v, 4);
            to += 4;
        }
        st = esi_writer_write(w, block, (size_t)(to - block));
    }
    return st;
}

static espalier_status write_faces(esi_export *e, esi_writer *w, uint8_t *block)
{
    const esi_mesh *m = &e->surface->mesh;
    espalier_status st = ESPALIER_OK;

    for (int64_t begin = 0; st == ESPALIER_OK && begin < m->n_faces; begin += BLOCK) {
        uint8_t *to = block;

        for (int64_t f = begin; f < ESI_MIN(begin + BLOCK, m->n_faces); f++) {
            *to++ = 3;
            for (int k = 0; k < 3; k++, to += 4) esi_store_u32le(to, (uint32_t)m->faces[3 * f + k]);
        }
        st = esi_writer_write(w, block, (size_t)(to - block));
    }
    return st;
}

espalier_status esi_surface_write_ply(esi_export *e)
{
    uint8_t *colors = NULL, *block = NULL;
    esi_writer *w;
    espalier_status st = esi_export_colors(e, &colors);

    if (st == ESPALIER_OK) st = esi_file_set_open(&e->files, &w, e->path);
    if (st != ESPALIER_OK) goto done;
    block = esi_alloc(e->ctx, BLOCK, ROW, "PLY rows");
    st = block ? write_header(e, w, colors != NULL) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = write_vertices(e, w, colors, block);
    if (st == ESPALIER_OK) st = write_faces(e, w, block);
    if (st == ESPALIER_OK) st = esi_file_set_commit(&e->files);
done:
    esi_free(e->ctx, colors);
    esi_free(e->ctx, block);
    return st;
}
