/* SPDX-License-Identifier: MIT
 *
 * kind_dual_grid_repair.c: flag parity repair of damaged dual grids, and how sound the meshes are before and after.
 */
#include "kinds.h"
#include "mesh/metrics.h"
#include "voxel/repair.h"

/* Counts of the mesh of some flags against config expected.<stage>. The stored counts are of meshes whose quads are split along 0-2. */
static espalier_status check_mesh(golden_case *c, esi_dual_grid *g, const uint8_t *flags, const char *stage)
{
    float *vertices = NULL;
    int32_t *faces = NULL;
    int64_t n_faces;
    esi_mesh_metrics metrics;
    espalier_status st;

    g->intersected = flags;
    st = esi_dual_grid_to_mesh(c->ctx, g, &vertices, &faces, &n_faces);
    if (st == ESPALIER_OK) st = esi_mesh_metrics_compute(c->ctx, &metrics, &(esi_mesh){vertices, faces, g->count, n_faces}, 0);
    esi_free(c->ctx, vertices);
    esi_free(c->ctx, faces);
    if (st != ESPALIER_OK) return st;
    golden_expect_int(c, golden_name(c, "%s.F", stage), n_faces, golden_config_int(c, golden_name(c, "expected.%s.F", stage), -1));
    golden_expect_int(c, golden_name(c, "%s.boundary", stage), metrics.boundary_edges,
                      golden_config_int(c, golden_name(c, "expected.%s.boundary", stage), -1));
    golden_expect_int(c, golden_name(c, "%s.nonmanifold", stage), metrics.nonmanifold_edges,
                      golden_config_int(c, golden_name(c, "expected.%s.nonmanifold", stage), -1));
    return ESPALIER_OK;
}

/* What the case expects of the counts; -1: the case does not say. */
static void check_stats(golden_case *c, const esi_repair_stats *s)
{
    const struct {
        const char *what;
        int64_t ours;
    } counts[] = {
        {"candidates", s->edges},                /* the case calls all complete edges so */
        {"clusters", s->clusters_odd}, {"toobig", s->clusters_large}, {"flips", s->flips},
        {"damaged.odd", s->odd_faces_before}, {"repaired.odd", s->odd_faces_after},
    };

    for (size_t i = 0; i < ESI_COUNT(counts); i++) {
        const int64_t expected = golden_config_int(c, golden_name(c, "expected.%s", counts[i].what), -1);

        if (expected >= 0) golden_expect_int(c, golden_name(c, "expected.%s", counts[i].what), counts[i].ours, expected);
    }
}

espalier_status golden_kind_dual_grid_repair(golden_case *c)
{
    const char *mode = golden_config_string(c, "mode", "reduce");
    const int32_t grid = (int32_t)golden_config_int(c, "res", 0);
    const int32_t *xyz;
    const float *logits, *world;
    golden_shape shape;
    esi_repair_stats stats;
    espalier_status st = golden_i32(c, "in.coords", &xyz, &shape);

    if (st == ESPALIER_OK) st = golden_f32(c, "in.logits", &logits, NULL);
    if (st == ESPALIER_OK) st = golden_f32(c, "in.dual_vertices_world", &world, NULL);
    if (st != ESPALIER_OK) return st;

    const int64_t count = shape.extent[0];
    int32_t *coords = golden_alloc(c, (size_t)count * 4, sizeof *coords);
    float *local = golden_alloc(c, (size_t)count * 3, sizeof *local);
    uint8_t *flags = golden_alloc(c, (size_t)count * 3, 1), *damaged = golden_alloc(c, (size_t)count * 3, 1);
    esi_dual_grid g = {.coords = coords, .count = count, .local = local, .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f},
                       .grid = {grid, grid, grid}};
    for (int64_t i = 0; i < 3 * count; i++) {
        coords[4 * (i / 3) + 1 + i % 3] = xyz[i];
        local[i] = (world[i] + 0.5f) * (float)grid - (float)xyz[i];
        damaged[i] = logits[i] > 0.0f;
    }
    st = esi_dual_grid_repair_flags(c->ctx, flags, coords, count, logits, golden_config_double(c, "margin", 0.0),
                                    strcmp(mode, "close") == 0 ? ESI_REPAIR_CLOSE : ESI_REPAIR_REDUCE, &stats);
    if (st != ESPALIER_OK) return st;
    golden_check(c, "out.repaired_flags", flags, ESI_FILE_U8, GOLDEN_SHAPE(count, 3));
    check_stats(c, &stats);
    st = check_mesh(c, &g, damaged, "damaged");
    if (st == ESPALIER_OK) st = check_mesh(c, &g, flags, "repaired");
    return st;
}
