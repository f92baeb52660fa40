/* SPDX-License-Identifier: MIT
 *
 * pbr_reference.c: PBR voxels as the reference makes them (o-voxel/src/convert/volumetic_attr.cpp): every triangle adds to the cells around
 * the edges it crosses, with the weight 1 - signed distance to its plane in world units, and from barycentric coordinates that are not held
 * inside the triangle. Rows ascend; the reference leaves their order open.
 */
#include "voxel/pbr_scene.h"

#include "voxel/keys.h"

#include <math.h>


typedef struct pair_list {
    uint64_t *cells;               /* keys of the cells of each face, ascending and distinct within a face */
    int32_t *faces;
    int64_t count, cap;
} pair_list;

static espalier_status add_pair(espalier_context *ctx, pair_list *p, uint64_t cell, int32_t face)
{
    if (p->count == p->cap) {
        const int64_t cap = p->cap ? 2 * p->cap : 4096;
        uint64_t *cells = esi_realloc(ctx, p->cells, (size_t)cap, sizeof *cells, "PBR voxels");
        int32_t *faces;

        if (!cells) return ESPALIER_ERR_RESOURCE;
        p->cells = cells;
        faces = esi_realloc(ctx, p->faces, (size_t)cap, sizeof *faces, "PBR voxels");
        if (!faces) return ESPALIER_ERR_RESOURCE;
        p->faces = faces;
        p->cap = cap;
    }
    p->cells[p->count] = cell;
    p->faces[p->count++] = face;
    return ESPALIER_OK;
}

/* The cells around the crossings of one face. */
static espalier_status add_face(espalier_context *ctx, pair_list *pairs, const esi_dual_hits *hits, int32_t face)
{
    uint64_t *keys = esi_alloc(ctx, (size_t)(4 * hits->count), sizeof *keys, "PBR voxels");
    espalier_status st;

    if (!keys) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 4 * hits->count; i++) {
        const esi_dual_hit *hit = &hits->items[i / 4];
        int32_t row[4] = {0, hit->cell[0], hit->cell[1], hit->cell[2]};

        row[1 + (hit->axis + 1) % 3] += i >> 1 & 1;
        row[1 + (hit->axis + 2) % 3] += i & 1;
        keys[i] = esi_key_pack(row);
    }
    st = esi_keys_sort(ctx, keys, (size_t)(4 * hits->count));
    for (int64_t i = 0; st == ESPALIER_OK && i < 4 * hits->count; i++) {
        if (i == 0 || keys[i] != keys[i - 1]) st = add_pair(ctx, pairs, keys[i], face);
    }
    esi_free(ctx, keys);
    return st;
}

static espalier_status find_pairs(espalier_context *ctx, pair_list *pairs, const esi_pbr_scene *scene, const float *shifted,
                                  const esi_pbr_options *o, const float cell_size[3])
{
    esi_dual_hits hits = {0};
    espalier_status st = ESPALIER_OK;

    for (int64_t f = 0; st == ESPALIER_OK && f < scene->n_faces; f++) {
        hits.count = 0;
        st = esi_cross_reference(ctx, &hits, shifted, scene->faces + 3 * f, 1, o->resolution, cell_size);
        if (st == ESPALIER_OK && hits.count > 0) st = add_face(ctx, pairs, &hits, (int32_t)f);
    }
    esi_free(ctx, hits.items);
    return st;
}

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Signed distance of q from the face's plane, and the barycentric coordinates of its foot. */
static double project(const float *shifted, const int32_t *corner, const double q[3], double bary[3])
{
    double v0[3], e1[3], e2[3], n[3], p[3], length, d, d00, d01, d11, d20, d21, det;

    for (int a = 0; a < 3; a++) {
        v0[a] = (double)shifted[3 * (int64_t)corner[0] + a];
        e1[a] = (double)shifted[3 * (int64_t)corner[1] + a] - v0[a];
        e2[a] = (double)shifted[3 * (int64_t)corner[2] + a] - v0[a];
        p[a] = q[a] - v0[a];
    }
    for (int a = 0; a < 3; a++) n[a] = e1[(a + 1) % 3] * e2[(a + 2) % 3] - e1[(a + 2) % 3] * e2[(a + 1) % 3];
    length = sqrt(dot(n, n));
    for (int a = 0; a < 3 && length > 0.0; a++) n[a] /= length;
    d = dot(p, n);
    d00 = dot(e1, e1);
    d01 = dot(e1, e2);
    d11 = dot(e2, e2);
    d20 = dot(p, e1);
    d21 = dot(p, e2);
    det = d00 * d11 - d01 * d01;
    bary[1] = det != 0.0 ? (d11 * d20 - d01 * d21) / det : 0.0;
    bary[2] = det != 0.0 ? (d00 * d21 - d01 * d20) / det : 0.0;
    bary[0] = 1.0 - bary[1] - bary[2];
    return d;
}

/* Sums by row in the order of the faces. */
static espalier_status sum_pairs(espalier_context *ctx, esi_pbr_voxels *out, const pair_list *pairs, const uint64_t *rows, int64_t count,
                                 const esi_pbr_scene *scene, const esi_pbr_material *materials, const esi_pbr_options *o,
                                 const float *shifted, const float cell_size[3])
{
    const double largest = (double)ESI_MAX(cell_size[0], ESI_MAX(cell_size[1], cell_size[2]));
    double(*sum)[ESI_PBR_VALUES + 1] = esi_calloc(ctx, (size_t)count, sizeof *sum, "PBR voxels");
    espalier_status st = ESPALIER_OK;

    if (!sum) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; st == ESPALIER_OK && i < pairs->count; i++) {
        double q[3], bary[3], values[ESI_PBR_VALUES], weight;
        int64_t low = 0, high = count - 1;
        int32_t cell[4];

        while (low < high) {
            const int64_t middle = low + (high - low) / 2;

            if (rows[middle] < pairs->cells[i]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        esi_key_unpack(cell, rows[low]);
        for (int a = 0; a < 3; a++) q[a] = ((double)cell[1 + a] + 0.5) * (double)cell_size[a];
        weight = 1.0 - project(shifted, scene->faces + 3 * (int64_t)pairs->faces[i], q, bary);
        esi_pbr_evaluate(values, scene, materials, o, pairs->faces[i], bary, largest);
        for (int k = 0; k < ESI_PBR_VALUES; k++) sum[low][k] += weight * values[k];
        sum[low][ESI_PBR_VALUES] += weight;
        if ((i & 0x3fff) == 0) st = esi_check_cancel(ctx);
    }
    for (int64_t i = 0; st == ESPALIER_OK && i < count; i++) {
        for (int k = 0; k < ESI_PBR_VALUES; k++) sum[i][k] /= sum[i][ESI_PBR_VALUES];
        esi_key_unpack(out->coords + 4 * i, rows[i]);
        esi_pbr_voxels_set(out, i, sum[i]);
    }
    esi_free(ctx, sum);
    return st;
}

espalier_status esi_voxelize_scene_as_reference(espalier_context *ctx, esi_pbr_voxels *out, const esi_pbr_scene *scene,
                                                const esi_pbr_material *materials, const esi_pbr_options *o)
{
    float cell_size[3], *shifted = esi_alloc(ctx, (size_t)scene->n_points, 3 * sizeof *shifted, "shifted mesh");
    pair_list pairs = {0};
    uint64_t *rows = NULL;
    int64_t count = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (!shifted) goto done;
    for (int a = 0; a < 3; a++) cell_size[a] = (o->aabb_max[a] - o->aabb_min[a]) / (float)o->resolution[a];
    for (int64_t i = 0; i < 3 * scene->n_points; i++) shifted[i] = scene->positions[i] - o->aabb_min[i % 3];
    st = find_pairs(ctx, &pairs, scene, shifted, o, cell_size);
    if (st != ESPALIER_OK) goto done;
    rows = esi_alloc(ctx, (size_t)pairs.count, sizeof *rows, "PBR voxels");
    if (!rows) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    if (pairs.count > 0) memcpy(rows, pairs.cells, (size_t)pairs.count * sizeof *rows);
    st = esi_keys_sort(ctx, rows, (size_t)pairs.count);
    for (int64_t i = 0; i < pairs.count; i++) {
        if (i == 0 || rows[i] != rows[i - 1]) rows[count++] = rows[i];
    }
    if (st == ESPALIER_OK) st = esi_pbr_voxels_new(ctx, out, count);
    if (st == ESPALIER_OK) st = sum_pairs(ctx, out, &pairs, rows, count, scene, materials, o, shifted, cell_size);
done:
    esi_free(ctx, shifted);
    esi_free(ctx, pairs.cells);
    esi_free(ctx, pairs.faces);
    esi_free(ctx, rows);
    return st;
}
