/* SPDX-License-Identifier: MIT
 *
 * edit.h: small steps that several repairs share, and the geometry of one triangle in double precision.
 */
#ifndef ESI_MESH_EDIT_H
#define ESI_MESH_EDIT_H

#include "mesh/partition.h"
#include "mesh/topology.h"
#include "mesh/vec.h"

/* Faces with drop[f] != 0 go, the others keep their order; then unreferenced vertices go. *removed may be NULL. */
espalier_status esi_mesh_drop_faces(espalier_context *ctx, esi_mesh *mesh, const uint8_t *drop, int64_t *removed);

/* drop[f] = 1 for every face with the vertex set of an earlier one; with keep_parity also for the first when their number is even. drop:
 * [n_faces], zeroed by the caller. */
espalier_status esi_mark_duplicate_faces(espalier_context *ctx, const esi_mesh *mesh, bool keep_parity, uint8_t *drop);

/* Every vertex takes the number of the lowest one it is joined with: representative[v] <= v; faces that lose a corner go. map as in
 * esi_mesh_weld(). */
espalier_status esi_mesh_merge_vertices(espalier_context *ctx, esi_mesh *mesh, const int32_t *representative, int32_t **map);

/* Number of fans: corners of one vertex that are joined across edges, by `opposite`. As many as vertices in use where none is a bow-tie. */
espalier_status esi_count_fans(espalier_context *ctx, const esi_mesh *mesh, const int32_t *opposite, int64_t *n_fans);

static inline void esi_flip_face(esi_mesh *mesh, int64_t f)
{
    int32_t *v = mesh->faces + 3 * f;
    const int32_t second = v[1];

    v[1] = v[2];
    v[2] = second;
}

/* out = b - a */
static inline void esi_edge_vector(double out[3], const esi_mesh *mesh, int32_t a, int32_t b)
{
    for (int k = 0; k < 3; k++) out[k] = (double)mesh->vertices[3 * (int64_t)b + k] - (double)mesh->vertices[3 * (int64_t)a + k];
}

/* (v1 - v0) x (v2 - v0): normal, twice the area long. */
static inline void esi_face_cross(double out[3], const esi_mesh *mesh, int64_t f)
{
    const int32_t *v = mesh->faces + 3 * f;
    double first[3], second[3];

    esi_edge_vector(first, mesh, v[0], v[1]);
    esi_edge_vector(second, mesh, v[0], v[2]);
    esi_vec_cross(out, first, second);
}

static inline double esi_face_area(const esi_mesh *mesh, int64_t f)
{
    double cross[3];

    esi_face_cross(cross, mesh, f);
    return 0.5 * sqrt(esi_vec_dot(cross, cross));
}

/* Signed volume of the tetrahedron between the face and the origin. */
static inline double esi_face_volume(const esi_mesh *mesh, int64_t f)
{
    double p[3][3], cross[3];

    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) p[i][k] = (double)mesh->vertices[3 * (int64_t)mesh->faces[3 * f + i] + k];
    esi_vec_cross(cross, p[1], p[2]);
    return esi_vec_dot(p[0], cross) / 6.0;
}

#endif
