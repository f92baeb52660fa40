/* SPDX-License-Identifier: MIT
 *
 * remesh_triangles.c: quads to triangles. The reference always cuts from 0 to 2, unless that triangle has no area at all; ours cuts where
 * the two triangles bend less, at the places where the vertices will be.
 */
#include "mesh/remesh_internal.h"

#include <math.h>

typedef struct triangle_job {
    const remesh_quads *quads;
    const float *at;
    bool best;
    int32_t *faces;
} triangle_job;

/* Corners of the two triangles of a quad: [diagonal 13][reversed]. */
static const uint8_t cuts[2][2][6] = {{{0, 1, 2, 0, 2, 3}, {0, 2, 1, 0, 3, 2}}, {{0, 1, 3, 3, 1, 2}, {0, 3, 1, 3, 2, 1}}};

static void corner_normal(double n[3], const float *at, const int32_t quad[4], const uint8_t corners[3])
{
    double p[3][3];

    for (int k = 0; k < 3; k++) esi_vec_load(p[k], at, quad[corners[k]]);
    esi_vec_face_cross(n, p[0], p[1], p[2]);
}

/* In float, like the reference. */
static bool has_no_area(const float *at, const int32_t quad[4])
{
    const float *a = at + 3 * (int64_t)quad[0], *b = at + 3 * (int64_t)quad[1], *c = at + 3 * (int64_t)quad[2];
    float u[3], v[3];

    for (int k = 0; k < 3; k++) {
        u[k] = b[k] - a[k];
        v[k] = c[k] - a[k];
    }
    return u[1] * v[2] - u[2] * v[1] == 0.0f && u[2] * v[0] - u[0] * v[2] == 0.0f && u[0] * v[1] - u[1] * v[0] == 0.0f;
}

/* How good a cut is: the cosine of the bend, less 4 for every triangle that is turned over or has no area. */
static double cut_value(const triangle_job *job, int64_t i, const uint8_t corners[6])
{
    const int32_t *quad = job->quads->quads[i];
    double n[2][3], before[3], value = 0.0, length2;

    for (int t = 0; t < 2; t++) {
        corner_normal(n[t], job->at, quad, corners + 3 * t);
        if (job->at != job->quads->vertices) {
            corner_normal(before, job->quads->vertices, quad, corners + 3 * t);
            if (!(esi_vec_dot(before, n[t]) > 0.0)) value -= 4.0;
        } else if (!(esi_vec_dot(n[t], n[t]) > 0.0)) {
            value -= 4.0;
        }
    }
    length2 = esi_vec_dot(n[0], n[0]) * esi_vec_dot(n[1], n[1]);
    return length2 > 0.0 ? value + esi_vec_dot(n[0], n[1]) / sqrt(length2) : value;
}

static void cut_quads(void *arg, size_t block, int slot)
{
    const triangle_job *job = arg;
    const int64_t first = (int64_t)block * REMESH_BLOCK, end = ESI_MIN(first + REMESH_BLOCK, job->quads->n_quads);

    (void)slot;
    for (int64_t i = first; i < end; i++) {
        const int32_t *quad = job->quads->quads[i];
        const int reversed = (job->quads->flags[i] & QUAD_REVERSED) != 0;
        int other = 0;

        if (job->best) other = cut_value(job, i, cuts[1][reversed]) > cut_value(job, i, cuts[0][reversed]);
        else other = has_no_area(job->at, quad);
        for (int k = 0; k < 6; k++) job->faces[6 * i + k] = quad[cuts[other][reversed][k]];
    }
}

espalier_status remesh_triangles(espalier_context *ctx, esi_mesh *out, remesh_quads *quads, bool best_diagonal, const float *at)
{
    triangle_job job = {.quads = quads, .at = at ? at : quads->vertices, .best = best_diagonal};
    espalier_status st;

    job.faces = esi_alloc(ctx, (size_t)quads->n_quads, 6 * sizeof *job.faces, "remesh faces");
    if (!job.faces) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, (size_t)((quads->n_quads + REMESH_BLOCK - 1) / REMESH_BLOCK), cut_quads, &job);
    if (st != ESPALIER_OK) {
        esi_free(ctx, job.faces);
        return st;
    }
    *out = (esi_mesh){.vertices = quads->vertices, .faces = job.faces, .n_vertices = quads->n_vertices, .n_faces = 2 * quads->n_quads};
    quads->vertices = NULL;
    return ESPALIER_OK;
}
