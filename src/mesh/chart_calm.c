/* SPDX-License-Identifier: MIT
 *
 * chart_calm.c: rough surfaces. Noise turns faces so far that pieces within a cone stay tiny, though the surface as a whole is tame. Where
 * pieces came out tiny, normals are averaged over the faces around, and the mesh is cut again; that is kept only when it leaves clearly
 * fewer pieces (it does not on models made of many small parts).
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define FEW_FACES 32               /* a piece of fewer is taken for noise */
#define ROUGH_SHARE 0.1            /* of all faces in such pieces: worth cutting again */
#define ITERATIONS 8
#define FEWER 0.7

static double count_sizes(const int32_t *piece, int32_t n_pieces, int64_t n_faces, int32_t *size)
{
    int64_t few = 0;

    for (int32_t p = 0; p < n_pieces; p++) size[p] = 0;
    for (int64_t f = 0; f < n_faces; f++) size[piece[f]]++;
    for (int32_t p = 0; p < n_pieces; p++)
        if (size[p] < FEW_FACES) few += size[p];
    return (double)few / (double)n_faces;
}

/* Normals to vertices, weighted by area, and back to the faces. */
static void average(float *normal, const chart_faces *faces, double (*vertex)[3])
{
    const esi_mesh *mesh = faces->mesh;

    memset(vertex, 0, (size_t)mesh->n_vertices * sizeof *vertex);
    for (int64_t c = 0; c < 3 * mesh->n_faces; c++)
        for (int k = 0; k < 3; k++) vertex[mesh->faces[c]][k] += faces->area[c / 3] * (double)normal[3 * (c / 3) + k];
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        double n[3] = {0.0, 0.0, 0.0}, length;
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 3; k++) n[k] += vertex[mesh->faces[3 * f + j]][k];
        length = esi_vec_length(n);
        for (int k = 0; k < 3 && length > 0.0; k++) normal[3 * f + k] = (float)(n[k] / length);
    }
}

/* Faces of large pieces keep their normals. */
static void restore_smooth(float *normal, const chart_faces *faces, const int32_t *piece, const int32_t *size)
{
    for (int64_t f = 0; f < faces->mesh->n_faces; f++)
        if (size[piece[f]] >= FEW_FACES) memcpy(normal + 3 * f, faces->normal + 3 * f, 3 * sizeof *normal);
}

static espalier_status cut_calm(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, const chart_faces *faces, const int32_t *group,
                                const chart_limits *limits, const int32_t *size, float **normal)
{
    size_t n_faces = (size_t)faces->mesh->n_faces;
    chart_faces calm = *faces;
    int32_t *again = NULL, n_again = 0;
    double(*vertex)[3] = esi_alloc(ctx, (size_t)faces->mesh->n_vertices, sizeof *vertex, "vertex normals");
    espalier_status st = ESPALIER_ERR_RESOURCE;

    calm.normal = esi_alloc(ctx, n_faces, 3 * sizeof *calm.normal, "calm normals");
    if (!vertex || !calm.normal) goto done;
    memcpy(calm.normal, faces->normal, n_faces * 3 * sizeof *calm.normal);
    st = ESPALIER_OK;
    for (int i = 0; i < ITERATIONS && st == ESPALIER_OK; i++) {
        average(calm.normal, faces, vertex);
        st = esi_check_cancel(ctx);
    }
    if (st != ESPALIER_OK) goto done;
    restore_smooth(calm.normal, faces, piece, size);
    esi_free(ctx, vertex);
    vertex = NULL;
    again = esi_alloc(ctx, n_faces, sizeof *again, "chart numbers");
    st = again ? chart_cluster(ctx, again, &n_again, 0, &calm, group, limits) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK && (double)n_again < FEWER * *n_pieces) {
        memcpy(piece, again, n_faces * sizeof *piece);
        *n_pieces = n_again;
        *normal = calm.normal;
        calm.normal = NULL;
    }
done:
    esi_free(ctx, vertex);
    esi_free(ctx, calm.normal);
    esi_free(ctx, again);
    return st;
}

espalier_status chart_calm(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, const chart_faces *faces, const int32_t *group,
                           const chart_limits *limits, float **normal)
{
    int32_t *size = esi_alloc(ctx, (size_t)*n_pieces, sizeof *size, "chart sizes");
    espalier_status st = size ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    *normal = NULL;
    if (st == ESPALIER_OK && count_sizes(piece, *n_pieces, faces->mesh->n_faces, size) >= ROUGH_SHARE)
        st = cut_calm(ctx, piece, n_pieces, faces, group, limits, size, normal);
    esi_free(ctx, size);
    return st;
}
