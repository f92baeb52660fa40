/* SPDX-License-Identifier: MIT
 *
 * kind_dual_grid_to_mesh.c: flexible dual grids to triangle meshes, with and without split weights.
 */
#include "kinds.h"
#include "voxel/voxel.h"

/* A number for all axes or one per axis; minimum and maximum corner of the box. */
static bool read_grid(const esi_json *parameters, esi_dual_grid *g)
{
    const esi_json *grid = esi_json_get(parameters, "grid"), *aabb = esi_json_get(parameters, "aabb");
    for (size_t axis = 0; axis < 3; axis++) {
        int64_t cells;
        double low, high;
        if (!esi_json_int(esi_json_is_array(grid) ? esi_json_at(grid, axis) : grid, &cells)) return false;
        if (!esi_json_double(esi_json_at(esi_json_at(aabb, 0), axis), &low)) return false;
        if (!esi_json_double(esi_json_at(esi_json_at(aabb, 1), axis), &high)) return false;
        g->grid[axis] = (int32_t)cells;
        g->aabb_min[axis] = (float)low;
        g->aabb_max[axis] = (float)high;
    }
    return true;
}

static espalier_status run_sub_case(golden_case *c, const char *name, const esi_json *parameters)
{
    esi_dual_grid g = {0};
    const int32_t *xyz = NULL;
    golden_shape shape;
    float *vertices = NULL;
    int32_t *faces = NULL;
    int64_t n_faces = 0, quads = 0;
    espalier_status st;

    if (!read_grid(parameters, &g)) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: case %s: malformed grid", c->dir, name);
    st = golden_i32(c, golden_name(c, "in.%s.coords", name), &xyz, &shape);
    if (st != ESPALIER_OK) goto done;
    g.count = shape.extent[0];
    int32_t *rows = golden_alloc(c, (size_t)g.count * 4, sizeof *rows);
    for (int64_t i = 0; i < g.count; i++) memcpy(rows + 4 * i + 1, xyz + 3 * i, 3 * sizeof *rows);
    g.coords = rows;
    st = golden_f32(c, golden_name(c, "in.%s.dual", name), &g.local, NULL);
    if (st != ESPALIER_OK) goto done;
    st = golden_u8(c, golden_name(c, "in.%s.intersected", name), &g.intersected, NULL);
    if (st != ESPALIER_OK) goto done;
    if (golden_has(c, golden_name(c, "in.%s.split_weight", name))) {
        st = golden_f32(c, golden_name(c, "in.%s.split_weight", name), &g.split_weight, NULL);
        if (st != ESPALIER_OK) goto done;
    }
    st = esi_dual_grid_to_mesh(c->ctx, &g, &vertices, &faces, &n_faces);
    if (st != ESPALIER_OK) goto done;
    golden_check(c, golden_name(c, "out.%s.vertices", name), vertices, ESI_FILE_F32, GOLDEN_SHAPE(g.count, 3));
    golden_check(c, golden_name(c, "out.%s.faces", name), faces, ESI_FILE_I32, GOLDEN_SHAPE(n_faces, 3));
    if (esi_json_int(esi_json_get(parameters, "quads"), &quads))
        golden_expect_int(c, golden_name(c, "cases.%s.quads", name), n_faces, 2 * quads);
done:
    esi_free(c->ctx, vertices);
    esi_free(c->ctx, faces);
    return st;
}

espalier_status golden_kind_dual_grid_to_mesh(golden_case *c)
{
    const esi_json *cases = esi_json_get(c->config, "cases");
    espalier_status st = ESPALIER_OK;
    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(cases); i++) {
        const esi_json *parameters = NULL;
        const char *name = esi_json_key_at(cases, i, &parameters);
        st = run_sub_case(c, name, parameters);
    }
    return st;
}
