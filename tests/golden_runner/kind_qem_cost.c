/* SPDX-License-Identifier: MIT
 *
 * kind_qem_cost.c: costs and places of the reference's edge collapses.
 */
#include "kinds.h"
#include "mesh/simplify.h"

espalier_status golden_kind_qem_cost(golden_case *c)
{
    esi_mesh mesh = {0};
    const float *vertices;
    const int32_t *faces, *edges;
    golden_shape n_vertices, n_faces, n_edges;
    espalier_status st = golden_f32(c, "in.verts", &vertices, &n_vertices);

    if (st == ESPALIER_OK) st = golden_i32(c, "in.faces", &faces, &n_faces);
    if (st == ESPALIER_OK) st = golden_i32(c, "in.edges", &edges, &n_edges);
    if (st != ESPALIER_OK) return st;
    const int64_t count = n_edges.extent[0];
    for (int64_t i = 0; i < 2 * count; i++) {
        if (edges[i] < 0 || edges[i] >= n_vertices.extent[0])
            return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: edge %lld names no vertex", c->name, (long long)(i / 2));
    }
    st = esi_mesh_copy(c->ctx, &mesh, vertices, n_vertices.extent[0], faces, n_faces.extent[0]);
    if (st != ESPALIER_OK) return st;
    double *cost = golden_alloc(c, (size_t)count, sizeof *cost), *target = golden_alloc(c, (size_t)count, 3 * sizeof *target);
    st = esi_qem_exact_costs(c->ctx, cost, target, &mesh, edges, count, golden_config_double(c, "lambda_edge_length", 1e-2),
                            golden_config_double(c, "lambda_skinny", 1e-3));
    if (st == ESPALIER_OK) {
        golden_check(c, "out.cost", cost, ESI_FILE_F64, GOLDEN_SHAPE(count));
        golden_check(c, "out.target", target, ESI_FILE_F64, GOLDEN_SHAPE(count, 3));
    }
    esi_mesh_free(c->ctx, &mesh);
    return st;
}
