/* SPDX-License-Identifier: MIT
 *
 * normals.c: vertex normals weighted by area: the sum of the faces' cross products in ascending order (TRELLIS.2 postprocess.to_glb).
 */
#include "mesh/clean.h"
#include "mesh/edit.h"

#define VERTICES_PER_TASK INT64_C(0x2000)

typedef struct normal_job {
    const esi_mesh *mesh;
    const esi_vertex_corners *around;
    float *normals;
} normal_job;

static bool normalise(float out[3], const double n[3])
{
    const double largest = ESI_MAX(ESI_MAX(fabs(n[0]), fabs(n[1])), fabs(n[2]));
    double unit[3], length;

    if (!(largest > 0) || !isfinite(largest)) return false;
    for (int k = 0; k < 3; k++) unit[k] = n[k] / largest;      /* a square could underflow */
    length = sqrt(esi_vec_dot(unit, unit));
    for (int k = 0; k < 3; k++) out[k] = (float)(unit[k] / length);
    return true;
}

static void normals_of(void *arg, size_t task, int slot)
{
    const normal_job *j = arg;
    const int64_t begin = (int64_t)task * VERTICES_PER_TASK, end = ESI_MIN(begin + VERTICES_PER_TASK, j->mesh->n_vertices);

    (void)slot;
    for (int64_t v = begin; v < end; v++) {
        double sum[3] = {0, 0, 0}, first[3] = {0, 0, 0}, cross[3];
        float *out = j->normals + 3 * v;

        for (int32_t i = j->around->start[v]; i < j->around->start[v + 1]; i++) {
            esi_face_cross(cross, j->mesh, j->around->corners[i] / 3);
            for (int k = 0; k < 3; k++) sum[k] += cross[k];
            if (i == j->around->start[v]) memcpy(first, cross, sizeof first);
        }
        if (normalise(out, sum) || normalise(out, first)) continue;
        out[0] = out[1] = 0.0f;
        out[2] = 1.0f;
    }
}

espalier_status esi_mesh_vertex_normals(espalier_context *ctx, float **normals, const esi_mesh *mesh)
{
    esi_vertex_corners around = {0};
    normal_job j = {mesh, &around, NULL};
    espalier_status st = esi_vertex_corners_build(ctx, &around, mesh);

    *normals = NULL;
    if (st != ESPALIER_OK) return st;
    j.normals = esi_alloc(ctx, (size_t)mesh->n_vertices, 3 * sizeof *j.normals, "vertex normals");
    st = ESPALIER_ERR_RESOURCE;
    if (j.normals) st = esi_parallel(ctx, (size_t)((mesh->n_vertices + VERTICES_PER_TASK - 1) / VERTICES_PER_TASK), normals_of, &j);
    esi_vertex_corners_free(ctx, &around);
    if (st == ESPALIER_OK) *normals = j.normals;
    else esi_free(ctx, j.normals);
    return st;
}
