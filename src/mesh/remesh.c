/* SPDX-License-Identifier: MIT
 *
 * remesh.c: the steps of the remesher in their order, and its options.
 */
#include "mesh/clean.h"
#include "mesh/remesh_internal.h"

#include <math.h>

esi_remesh_options esi_remesh_options_reference(int32_t resolution)
{
    return (esi_remesh_options){.resolution = resolution, .band = 1.0};
}

esi_remesh_options esi_remesh_options_clean(int32_t resolution)
{
    return (esi_remesh_options){
        .resolution = resolution,
        .band = 1.0,
        .project = 1.0,
        .keep_apart = 0.5,
        .manifold = true,
        .best_diagonal = true,
        .outer_only = true,
        .unproject_flips = true,
    };
}

/* Half the side of the cube around the centre that holds the mesh. */
static double half_side(const esi_bvh *bvh, const float center[3])
{
    const bvh_node *root = &bvh->nodes[0];
    double half = 0.0;

    for (int k = 0; k < 3; k++) {
        for (int lane = 0; lane < BVH_WIDTH && root->count[lane] >= 0; lane++) {
            half = ESI_MAX(half, (double)center[k] - (double)root->min[k][lane]);
            half = ESI_MAX(half, (double)root->max[k][lane] - (double)center[k]);
        }
    }
    return half;
}

static espalier_status make_grid(espalier_context *ctx, remesh_grid *grid, const esi_bvh *bvh, const esi_remesh_options *o)
{
    const double cells = (double)o->resolution, half = half_side(bvh, o->center);
    const double side = half > 0.5 + 0.25 * o->band / cells ? 2.0 * half : 1.0;
    const double scale = o->scale > 0.0 ? o->scale : side * (cells + 3.0 * o->band) / cells;

    if (o->resolution < 16 || o->resolution > 2048 || o->resolution % 2)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "remesh: a resolution of %d, not an even number from 16 to 2048", (int)o->resolution);
    if (!(o->band > 0.0 && o->band <= 16.0) || !(o->project >= 0.0 && o->project <= 1.0) || !(scale > 0.0 && scale <= 1e6))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "remesh: band, scale or projection is out of range");
    *grid = (remesh_grid){
        .resolution = o->resolution,
        .scale = (float)scale,
        .center = {o->center[0], o->center[1], o->center[2]},
        .epsilon = (float)(o->band * scale / cells),
        .cell = (float)(scale / cells),
        .reach = (float)(0.87 * scale / cells),
    };
    return ESPALIER_OK;
}

/* The band's surface as quads without what is not wanted. */
static espalier_status make_quads(espalier_context *ctx, remesh_quads *quads, const esi_bvh *bvh, const remesh_grid *grid,
                                  const esi_remesh_options *o, esi_remesh_stats *stats)
{
    const bool manifold = o->manifold || o->outer_only || o->solid || (o->keep_apart > 0.0 && o->project > 0.0);
    remesh_band band = {0};
    espalier_status st = remesh_band_make(ctx, &band, bvh, grid);

    if (st != ESPALIER_OK) goto done;
    stats->cells = band.cells.count;
    st = remesh_dual(ctx, quads, &band, manifold);
    if (st != ESPALIER_OK) goto done;
    stats->quads = quads->n_quads;
    stats->missing_quads = quads->missing;
    if (quads->n_quads == 0) {
        st = esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "remesh: the mesh is outside the grid");
        goto done;
    }
    st = remesh_drop_shells(ctx, quads, &band, o->outer_only, o->solid, stats);

done:
    remesh_band_free(ctx, &band);
    return st;
}

static espalier_status remesh(espalier_context *ctx, esi_mesh *out, const esi_bvh *bvh, const esi_remesh_options *o,
                              esi_remesh_stats *stats)
{
    remesh_grid grid;
    remesh_quads quads = {0};
    float *targets = NULL;
    espalier_status st = make_grid(ctx, &grid, bvh, o);

    if (st == ESPALIER_OK) st = make_quads(ctx, &quads, bvh, &grid, o, stats);
    if (st == ESPALIER_OK && o->project > 0.0)
        st = remesh_targets(ctx, &targets, &quads, &grid, bvh, o->project, o->keep_apart * (double)grid.cell, &stats->kept_apart);
    if (st == ESPALIER_OK) st = remesh_triangles(ctx, out, &quads, o->best_diagonal, targets);
    remesh_quads_free(ctx, &quads);
    if (st == ESPALIER_OK && targets) st = remesh_move(ctx, out, targets, o->unproject_flips, stats);
    esi_free(ctx, targets);
    if (st != ESPALIER_OK) esi_mesh_free(ctx, out);
    return st;
}

/* A hole wider than the band lets the flood in, and the object would stay a shell: first close simple holes with a rim of up to so many
 * cells. Larger ones may be what the object is, a cup say. */
#define SOLID_HOLE_CELLS 64.0

static espalier_status remesh_solid(espalier_context *ctx, esi_mesh *out, const esi_bvh *bvh, const esi_mesh *input,
                                    const esi_remesh_options *o, esi_remesh_stats *stats)
{
    const esi_fill_options fill = {.max_perimeter = SOLID_HOLE_CELLS / (double)o->resolution, .passes = 4};
    esi_fill_stats filled = {0};
    esi_mesh closed = {0};
    esi_bvh *closed_bvh = NULL;
    espalier_status st = esi_mesh_copy(ctx, &closed, input->vertices, input->n_vertices, input->faces, input->n_faces);

    if (st == ESPALIER_OK) st = esi_mesh_fill_holes(ctx, &closed, &fill, &filled);
    if (st == ESPALIER_OK && filled.filled > 0) st = esi_bvh_build(ctx, &closed_bvh, &closed);
    stats->holes_closed = filled.filled;
    if (st == ESPALIER_OK) st = remesh(ctx, out, closed_bvh ? closed_bvh : bvh, o, stats);
    esi_bvh_free(ctx, closed_bvh);
    esi_mesh_free(ctx, &closed);
    return st;
}

espalier_status esi_remesh_active_cells(espalier_context *ctx, int64_t *count, const esi_bvh *bvh, const esi_remesh_options *options)
{
    remesh_grid grid;
    remesh_band band = {0};
    espalier_status st = make_grid(ctx, &grid, bvh, options);

    *count = 0;
    if (st == ESPALIER_OK) st = remesh_band_make(ctx, &band, bvh, &grid);
    if (st == ESPALIER_OK) st = remesh_band_active(ctx, count, bvh, &band);
    remesh_band_free(ctx, &band);
    return st;
}

espalier_status esi_mesh_remesh(espalier_context *ctx, esi_mesh *out, const esi_bvh *bvh, const esi_mesh *input,
                                const esi_remesh_options *options, esi_remesh_stats *stats)
{
    esi_remesh_stats ignored;

    if (!stats) stats = &ignored;
    memset(stats, 0, sizeof *stats);
    memset(out, 0, sizeof *out);
    if (options->solid) return remesh_solid(ctx, out, bvh, input, options, stats);
    return remesh(ctx, out, bvh, options, stats);
}
