/* SPDX-License-Identifier: MIT
 *
 * tangents.c: tangent frames as MikkTSpace makes them (Mikkelsen, Simulation of Wrinkled Surfaces Revisited, 2008), for meshes whose
 * vertices are split along seams of position, normal and texture coordinate already.
 *
 * A vertex' tangent is the mean over its faces of the direction in which u grows, each flattened into the vertex' own normal plane, scaled
 * to unit length and weighted with the face's angle there. MikkTSpace groups the faces around a vertex by the handedness of their
 * texture coordinates; a vertex has one tangent here, so where both hands meet in one vertex the one with more angle wins. Faces without
 * area in the texture do not count.
 */
#include "mesh/bake.h"

#include "base/math64.h"
#include "mesh/vec.h"

typedef struct sums {
    double angle[2];               /* of left- and right-handed faces */
    double tangent[2][3];
} sums;

/* Direction in which u grows in the face, unit length; false without area in the texture or in space. *right: u, then upwards in the
 * picture (against v), then out of the face is a right-handed frame. */
static bool face_tangent(double tangent[3], bool *right, const esi_surface *s, const int32_t face[3])
{
    const float *a = s->mesh.vertices + 3 * (int64_t)face[0], *ua = s->uvs + 2 * (int64_t)face[0];
    const float *b = s->mesh.vertices + 3 * (int64_t)face[1], *ub = s->uvs + 2 * (int64_t)face[1];
    const float *c = s->mesh.vertices + 3 * (int64_t)face[2], *uc = s->uvs + 2 * (int64_t)face[2];
    const double u1 = (double)ub[0] - (double)ua[0], v1 = (double)ua[1] - (double)ub[1];
    const double u2 = (double)uc[0] - (double)ua[0], v2 = (double)ua[1] - (double)uc[1];
    const double area = u1 * v2 - v1 * u2, sign = area > 0.0 ? 1.0 : -1.0;

    if (!(area > 0.0 || area < 0.0)) return false;
    for (int k = 0; k < 3; k++) {
        tangent[k] = sign * (v2 * ((double)b[k] - (double)a[k]) - v1 * ((double)c[k] - (double)a[k]));
    }
    *right = area > 0.0;
    return esi_vec_normalize(tangent);
}

/* Angle of the face at corner k, its sides flattened into the plane of the normal. */
static double flat_angle(const esi_surface *s, const int32_t face[3], int k, const double normal[3])
{
    double p[3], q[3], r[3], next[3], previous[3], cosine;

    esi_vec_load(p, s->mesh.vertices, face[k]);
    esi_vec_load(q, s->mesh.vertices, face[(k + 1) % 3]);
    esi_vec_load(r, s->mesh.vertices, face[(k + 2) % 3]);
    esi_vec_sub(next, q, p);
    esi_vec_sub(previous, r, p);
    esi_vec_flatten(next, normal);
    esi_vec_flatten(previous, normal);
    if (!esi_vec_normalize(next) || !esi_vec_normalize(previous)) return 0.0;
    cosine = esi_vec_dot(next, previous);
    return esi_acos(cosine > 1.0 ? 1.0 : cosine < -1.0 ? -1.0 : cosine);
}

static void add_face(sums *all, const esi_surface *s, const int32_t face[3])
{
    double tangent[3];
    bool right;

    if (!face_tangent(tangent, &right, s, face)) return;
    for (int k = 0; k < 3; k++) {
        sums *vertex = &all[face[k]];
        double normal[3], flat[3], angle;

        esi_vec_load(normal, s->normals, face[k]);
        memcpy(flat, tangent, sizeof flat);
        esi_vec_flatten(flat, normal);
        if (!esi_vec_normalize(flat)) continue;
        angle = flat_angle(s, face, k, normal);
        vertex->angle[right] += angle;
        for (int i = 0; i < 3; i++) vertex->tangent[right][i] += angle * flat[i];
    }
}

/* Any direction in the plane of the normal. */
static void any_tangent(double out[3], const double normal[3])
{
    int least = 0;

    for (int k = 1; k < 3; k++) {
        if (esi_fabs(normal[k]) < esi_fabs(normal[least])) least = k;
    }
    for (int k = 0; k < 3; k++) out[k] = k == least ? 1.0 : 0.0;
    esi_vec_flatten(out, normal);
    if (!esi_vec_normalize(out)) memcpy(out, (double[]){1.0, 0.0, 0.0}, 3 * sizeof *out);
}

espalier_status esi_surface_tangents(espalier_context *ctx, float **tangents, const esi_surface *s)
{
    const size_t n = (size_t)s->mesh.n_vertices;
    espalier_status st = ESPALIER_OK;
    sums *all = NULL;
    float *out = NULL;

    *tangents = NULL;
    if (!s->normals || !s->uvs) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "tangents need normals and texture coordinates");
    all = esi_calloc(ctx, n, sizeof *all, "tangents");
    out = esi_alloc(ctx, n, 4 * sizeof *out, "tangents");
    if (!all || !out) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t f = 0; st == ESPALIER_OK && f < s->mesh.n_faces; f++) {
        add_face(all, s, s->mesh.faces + 3 * f);
        if ((f & 0x3ffff) == 0) st = esi_check_cancel(ctx);
    }
    if (st != ESPALIER_OK) goto done;
    for (size_t v = 0; v < n; v++) {
        const bool right = all[v].angle[1] >= all[v].angle[0];
        double *tangent = all[v].tangent[right], normal[3];

        if (!esi_vec_normalize(tangent)) {
            esi_vec_load(normal, s->normals, (int64_t)v);
            any_tangent(tangent, normal);
        }
        for (int k = 0; k < 3; k++) out[4 * v + (size_t)k] = (float)tangent[k];
        out[4 * v + 3] = right ? 1.0f : -1.0f;
    }
    *tangents = out;
    out = NULL;
done:
    esi_free(ctx, out);
    esi_free(ctx, all);
    return st;
}
