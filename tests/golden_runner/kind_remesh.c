/* SPDX-License-Identifier: MIT
 *
 * kind_remesh.c: nearest points on a mesh, and dual contouring of the band around one.
 */
#include "kinds.h"
#include "mesh/remesh.h"

#include <math.h>

static espalier_status read_mesh(golden_case *c, esi_mesh *m)
{
    const float *vertices = NULL;
    const int32_t *faces = NULL;
    golden_shape vertex_shape, face_shape;
    espalier_status st = golden_f32(c, "in.verts", &vertices, &vertex_shape);

    if (st == ESPALIER_OK) st = golden_i32(c, "in.faces", &faces, &face_shape);
    if (st != ESPALIER_OK) return st;
    return esi_mesh_copy(c->ctx, m, vertices, vertex_shape.extent[0], faces, face_shape.extent[0]);
}

espalier_status golden_kind_closest_point(golden_case *c)
{
    esi_mesh m = {0};
    esi_bvh *bvh = NULL;
    const float *query = NULL;
    golden_shape shape;
    espalier_status st = read_mesh(c, &m);

    if (st == ESPALIER_OK) st = golden_f32(c, "in.query", &query, &shape);
    if (st == ESPALIER_OK) st = esi_bvh_build(c->ctx, &bvh, &m);
    if (st == ESPALIER_OK) {
        const int64_t count = shape.extent[0];
        float *distance = golden_alloc(c, (size_t)count, sizeof *distance);

        st = esi_bvh_closest_many(c->ctx, bvh, query, count, INFINITY, distance, NULL);
        if (st == ESPALIER_OK) golden_check(c, "out.dist", distance, ESI_FILE_F32, GOLDEN_SHAPE(count));
    }
    esi_bvh_free(c->ctx, bvh);
    esi_mesh_free(c->ctx, &m);
    return st;
}

espalier_status golden_kind_remesh_dc(golden_case *c)
{
    esi_remesh_options options = esi_remesh_options_reference((int32_t)golden_config_int(c, "res", 0));
    esi_mesh m = {0}, out = {0};
    esi_bvh *bvh = NULL;
    double tolerance = 0.0;
    espalier_status st = read_mesh(c, &m);

    options.band = golden_config_double(c, "band", 1.0);
    options.scale = golden_config_double(c, "scale", 0.0);
    options.project = golden_config_double(c, "project_back", 0.0);
    esi_json_double(esi_json_get(golden_tolerance(c, "out.verts"), "max_abs"), &tolerance);
    if (st == ESPALIER_OK) st = esi_bvh_build(c->ctx, &bvh, &m);
    if (st == ESPALIER_OK) st = esi_mesh_remesh(c->ctx, &out, bvh, &m, &options, NULL);
    if (st == ESPALIER_OK)
        golden_check_mesh_set(c, "out.verts", "out.faces", out.vertices, out.n_vertices, out.faces, out.n_faces, tolerance);
    esi_bvh_free(c->ctx, bvh);
    esi_mesh_free(c->ctx, &m);
    esi_mesh_free(c->ctx, &out);
    return st;
}
