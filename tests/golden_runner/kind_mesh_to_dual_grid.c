/* SPDX-License-Identifier: MIT
 *
 * kind_mesh_to_dual_grid.c: triangle meshes to flexible dual grids, as the reference does it.
 */
#include "kinds.h"
#include "voxel/voxelize.h"

static bool read_options(const golden_case *c, const esi_json *parameters, esi_voxelize_options *o)
{
    const esi_json *grid = esi_json_get(parameters, "grid"), *aabb = esi_json_get(parameters, "aabb");

    if (!aabb) aabb = esi_json_get(c->config, "aabb");
    *o = esi_voxelize_options_default(1);
    o->reference = true;
    for (size_t axis = 0; axis < 3; axis++) {
        int64_t cells;
        double low, high;

        if (!esi_json_int(esi_json_is_array(grid) ? esi_json_at(grid, axis) : grid, &cells)) return false;
        if (!esi_json_double(esi_json_at(esi_json_at(aabb, 0), axis), &low)) return false;
        if (!esi_json_double(esi_json_at(esi_json_at(aabb, 1), axis), &high)) return false;
        o->resolution[axis] = (int32_t)cells;
        o->aabb_min[axis] = (float)low;
        o->aabb_max[axis] = (float)high;
    }
    return esi_json_double(esi_json_get(parameters, "face_weight"), &o->face_weight) &&
           esi_json_double(esi_json_get(parameters, "boundary_weight"), &o->boundary_weight) &&
           esi_json_double(esi_json_get(parameters, "regularization_weight"), &o->regularization);
}

/* The grid back to a mesh; its quads. */
static espalier_status check_faces(golden_case *c, const char *name, const esi_voxelized *v, const esi_voxelize_options *o,
                                   const esi_json *parameters)
{
    esi_dual_grid g = {.coords = v->coords, .count = v->count, .local = v->local, .intersected = v->intersected};
    float *vertices = NULL;
    int32_t *faces = NULL;
    int64_t n_faces, quads;
    espalier_status st;

    memcpy(g.aabb_min, o->aabb_min, sizeof g.aabb_min);
    memcpy(g.aabb_max, o->aabb_max, sizeof g.aabb_max);
    memcpy(g.grid, o->resolution, sizeof g.grid);
    st = esi_dual_grid_to_mesh(c->ctx, &g, &vertices, &faces, &n_faces);
    if (st != ESPALIER_OK) return st;
    if (esi_json_int(esi_json_get(parameters, "quads"), &quads))
        golden_expect_int(c, golden_name(c, "meshes.%s.quads", name), n_faces, 2 * quads);
    golden_check(c, golden_name(c, "out.%s.mesh_faces", name), faces, ESI_FILE_I32, GOLDEN_SHAPE(n_faces, 3));
    esi_free(c->ctx, vertices);
    esi_free(c->ctx, faces);
    return ESPALIER_OK;
}

static espalier_status check_vertices(golden_case *c, const char *output, const esi_voxelized *v, const esi_voxelize_options *o)
{
    int32_t *cells = golden_alloc(c, (size_t)v->count * 3, sizeof *cells);
    double cell_size[3];
    golden_shape shape;
    const float *expected;
    espalier_status st = golden_f32(c, output, &expected, &shape);

    if (st != ESPALIER_OK) return st;
    if (shape.extent[0] != v->count) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: other number of rows", output);
    for (int a = 0; a < 3; a++) cell_size[a] = ((double)o->aabb_max[a] - (double)o->aabb_min[a]) / (double)o->resolution[a];
    for (int64_t i = 0; i < 3 * v->count; i++) cells[i] = v->coords[4 * (i / 3) + 1 + i % 3];
    golden_compare_in_cells(c, output, v->vertices, expected, cells, v->count, cell_size);
    return ESPALIER_OK;
}

/* `name` may carry "__<variant>": the mesh of the name before it with other weights, of which only the vertices are stored. */
static espalier_status run_mesh(golden_case *c, const char *name, const esi_json *parameters)
{
    const char *variant = strstr(name, "__");
    const char *input = variant ? golden_name(c, "%.*s", (int)(variant - name), name) : name;
    esi_voxelize_options options;
    esi_voxelized v = {0};
    esi_mesh mesh = {0};
    const float *vertices;
    const int32_t *faces;
    golden_shape n_vertices, n_faces;
    espalier_status st;

    if (!read_options(c, parameters, &options)) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: mesh %s: malformed", c->dir, name);
    st = golden_f32(c, golden_name(c, "in.%s.vertices", input), &vertices, &n_vertices);
    if (st == ESPALIER_OK) st = golden_i32(c, golden_name(c, "in.%s.faces", input), &faces, &n_faces);
    if (st == ESPALIER_OK) st = esi_mesh_copy(c->ctx, &mesh, vertices, n_vertices.extent[0], faces, n_faces.extent[0]);
    if (st == ESPALIER_OK) st = esi_voxelize(c->ctx, &v, &mesh, &options);
    if (st != ESPALIER_OK) goto done;
    if (!variant) {
        int32_t *cells = golden_alloc(c, (size_t)v.count * 3, sizeof *cells);

        for (int64_t i = 0; i < 3 * v.count; i++) cells[i] = v.coords[4 * (i / 3) + 1 + i % 3];
        golden_check(c, golden_name(c, "out.%s.voxels", name), cells, ESI_FILE_I32, GOLDEN_SHAPE(v.count, 3));
        golden_check(c, golden_name(c, "out.%s.intersected", name), v.intersected, ESI_FILE_U8, GOLDEN_SHAPE(v.count, 3));
        st = check_faces(c, name, &v, &options, parameters);
    }
    if (st == ESPALIER_OK) st = check_vertices(c, golden_name(c, "out.%s.dual_vertices", name), &v, &options);
done:
    esi_voxelized_free(c->ctx, &v);
    esi_mesh_free(c->ctx, &mesh);
    return st;
}

espalier_status golden_kind_mesh_to_dual_grid(golden_case *c)
{
    const esi_json *meshes = esi_json_get(c->config, "meshes");
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(meshes); i++) {
        const esi_json *parameters = NULL;
        const char *name = esi_json_key_at(meshes, i, &parameters);

        st = run_mesh(c, name, parameters);
    }
    return st;
}
