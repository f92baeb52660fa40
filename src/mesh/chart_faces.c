/* SPDX-License-Identifier: MIT
 *
 * chart_faces.c: what charts are made of: neighbours over which a chart may go on, normals, areas.
 */
#include "mesh/chart_internal.h"

#include <math.h>

void chart_corner_position(double out[3], const esi_mesh *mesh, int32_t corner)
{
    const float *p = mesh->vertices + 3 * (size_t)mesh->faces[corner];
    for (int k = 0; k < 3; k++) out[k] = (double)p[k];
}

double chart_side_length(const esi_mesh *mesh, int32_t corner)
{
    double p[3], q[3];

    chart_corner_position(p, mesh, corner);
    chart_corner_position(q, mesh, esi_next_corner(corner));
    esi_vec_sub(p, p, q);
    return esi_vec_length(p);
}

/* Neighbours wind the same way when the shared side runs in opposite directions in them. */
static bool same_winding(const esi_mesh *mesh, int32_t c, int32_t d)
{
    return mesh->faces[c] == mesh->faces[esi_next_corner(d)] && mesh->faces[d] == mesh->faces[esi_next_corner(c)];
}

static double measure(const esi_mesh *mesh, int32_t f, float normal[3])
{
    double p[3][3], n[3], length, longest2 = 0.0;

    for (int32_t k = 0; k < 3; k++) chart_corner_position(p[k], mesh, 3 * f + k);
    for (int k = 0; k < 3; k++) {
        double side2 = 0.0;
        for (int j = 0; j < 3; j++) side2 += (p[(k + 1) % 3][j] - p[k][j]) * (p[(k + 1) % 3][j] - p[k][j]);
        if (side2 > longest2) longest2 = side2;
    }
    esi_vec_face_cross(n, p[0], p[1], p[2]);
    length = esi_vec_length(n);
    for (int k = 0; k < 3; k++) normal[k] = length > CHART_THIN * longest2 ? (float)(n[k] / length) : 0.0f;
    return 0.5 * length;
}

espalier_status chart_faces_build(espalier_context *ctx, chart_faces *out, const esi_mesh *mesh)
{
    size_t n_faces = (size_t)mesh->n_faces;
    espalier_status st;

    memset(out, 0, sizeof *out);
    out->mesh = mesh;
    st = esi_opposite_corners(ctx, &out->across, mesh);
    if (st != ESPALIER_OK) return st;
    out->normal = esi_alloc(ctx, n_faces, 3 * sizeof *out->normal, "face normals");
    out->area = esi_alloc(ctx, n_faces, sizeof *out->area, "face areas");
    if (!out->normal || !out->area) {
        chart_faces_free(ctx, out);
        return ESPALIER_ERR_RESOURCE;
    }
    for (int32_t f = 0; f < (int32_t)mesh->n_faces; f++) {
        out->area[f] = measure(mesh, f, out->normal + 3 * (size_t)f);
        out->total_area += out->area[f];
        for (int32_t c = 3 * f; c < 3 * f + 3; c++) {
            int32_t d = out->across[c];
            if (d >= 0 && (d / 3 == f || !same_winding(mesh, c, d))) d = -1;
            out->across[c] = d < 0 ? -1 : d;
        }
    }
    return ESPALIER_OK;
}

void chart_faces_free(espalier_context *ctx, chart_faces *faces)
{
    esi_free(ctx, faces->across);
    esi_free(ctx, faces->normal);
    esi_free(ctx, faces->area);
    memset(faces, 0, sizeof *faces);
}
