/* SPDX-License-Identifier: MIT
 *
 * post_repair.c: the dual grid with its knife-edge decisions mended, while the logits are still known.
 */
#include "pipeline/post_job.h"
#include "voxel/voxel_index.h"

#define RESTORE_PASSES 4
/* softplus(0): a split weight that prefers neither diagonal. */
#define NEUTRAL_SPLIT 0.6931472f

/* The dual grid with restored voxels appended. */
typedef struct extended_grid {
    int32_t *coords;
    float *local, *logits, *split_weight;
    uint8_t *flags;
    int64_t count;
} extended_grid;

static void extended_grid_free(espalier_context *ctx, extended_grid *g)
{
    esi_free(ctx, g->coords);
    esi_free(ctx, g->local);
    esi_free(ctx, g->logits);
    esi_free(ctx, g->split_weight);
    esi_free(ctx, g->flags);
}

bool esi_post_can_repair(const post_job *j)
{
    const esi_asset *a = j->data;
    return j->options.margin > 0 && a->coords && a->local && (a->intersect_logits || j->asset->intersected);
}

/* Edges of restored voxels stand as the restoration left them, but count as uncertain: half the margin from the fence. */
static espalier_status extend_grid(post_job *j, extended_grid *g, const esi_restored_voxels *added)
{
    const esi_asset *a = j->data;
    const size_t old = (size_t)a->n_voxels, count = old + (size_t)added->count;

    g->count = (int64_t)count;
    g->coords = esi_alloc(j->ctx, count, 4 * sizeof(int32_t), "repaired voxels");
    g->local = esi_alloc(j->ctx, count, 3 * sizeof(float), "repaired voxels");
    g->logits = esi_alloc(j->ctx, count, 3 * sizeof(float), "repaired voxels");
    g->flags = esi_calloc(j->ctx, count, 3, "repaired voxels");
    g->split_weight = a->split_weight ? esi_alloc(j->ctx, count, sizeof(float), "repaired voxels") : NULL;
    if (!g->coords || !g->local || !g->logits || !g->flags || (a->split_weight && !g->split_weight)) return ESPALIER_ERR_RESOURCE;
    memcpy(g->coords, a->coords, old * 4 * sizeof(int32_t));
    memcpy(g->local, a->local, old * 3 * sizeof(float));
    if (added->count) {
        memcpy(g->coords + 4 * old, added->coords, (size_t)added->count * 4 * sizeof(int32_t));
        memcpy(g->local + 3 * old, added->local, (size_t)added->count * 3 * sizeof(float));
        memcpy(g->flags + 3 * old, added->intersected, (size_t)added->count * 3);
    }
    if (a->intersect_logits) memcpy(g->logits, a->intersect_logits, old * 3 * sizeof(float));
    for (size_t i = 3 * old; i < 3 * count; i++) g->logits[i] = (g->flags[i] ? 0.5f : -0.5f) * (float)j->options.margin;
    if (a->split_weight) {
        memcpy(g->split_weight, a->split_weight, old * sizeof(float));
        for (size_t i = old; i < count; i++) g->split_weight[i] = NEUTRAL_SPLIT;
    }
    if (j->asset->intersected && !a->intersect_logits) memcpy(g->flags, j->asset->intersected, old * 3);
    return ESPALIER_OK;
}

static esi_dual_grid describe_grid(const post_job *j, const extended_grid *g)
{
    const int32_t n = (int32_t)j->data->resolution;
    return (esi_dual_grid){.coords = g->coords, .count = g->count, .local = g->local, .intersected = g->flags,
                           .split_weight = g->split_weight, .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f},
                           .grid = {n, n, n}};
}

static espalier_status restore_voxels(post_job *j, esi_restored_voxels *added)
{
    const esi_restored_voxels none = {0};
    extended_grid plain = {0};
    espalier_status st = extend_grid(j, &plain, &none);

    for (int64_t i = 0; st == ESPALIER_OK && j->data->intersect_logits && i < 3 * plain.count; i++)
        plain.flags[i] = plain.logits[i] > 0;
    if (st == ESPALIER_OK) {
        const esi_dual_grid grid = describe_grid(j, &plain);
        st = esi_dual_grid_restore_voxels(j->ctx, added, &grid, RESTORE_PASSES);
    }
    extended_grid_free(j->ctx, &plain);
    return st;
}

/* The index calls a coordinate that occurs twice our own fault; here it is the file's. */
static espalier_status require_unique_voxels(post_job *j)
{
    esi_voxel_index index = {0};
    espalier_status st = esi_voxel_index_build(j->ctx, &index, j->data->coords, j->data->n_voxels);

    esi_voxel_index_free(j->ctx, &index);
    if (st != ESPALIER_ERR_INTERNAL) return st;
    esi_clear_error(j->ctx);
    return esi_fail(j->ctx, ESPALIER_ERR_INPUT, "finish: a voxel occurs twice");
}

/* Spec geometry.md 11.1: missing voxels come back where the quads around them say so, then the flags within the margin are turned over
 * where that makes the surface close. */
espalier_status esi_post_repair(post_job *j)
{
    esi_restored_voxels added = {0};
    extended_grid g = {0};
    esi_mesh mesh = {0};
    espalier_status st = require_unique_voxels(j);

    if (st == ESPALIER_OK) st = restore_voxels(j, &added);
    if (st == ESPALIER_OK) st = extend_grid(j, &g, &added);
    if (st == ESPALIER_OK && j->data->intersect_logits)
        st = esi_dual_grid_repair_flags(j->ctx, g.flags, g.coords, g.count, g.logits, j->options.margin, ESI_REPAIR_REDUCE,
                                        &j->record->repair);
    if (st != ESPALIER_OK) goto done;
    const esi_dual_grid grid = describe_grid(j, &g);
    st = esi_dual_grid_to_mesh(j->ctx, &grid, &mesh.vertices, &mesh.faces, &mesh.n_faces);
    if (st != ESPALIER_OK) goto done;
    mesh.n_vertices = g.count;
    j->record->restored_voxels = added.count;
    j->record->repaired = true;
    if (mesh.n_faces > 0) {
        esi_mesh_free(j->ctx, &j->mesh);
        j->mesh = mesh;
        memset(&mesh, 0, sizeof mesh);
        st = esi_mesh_sanitize(j->ctx, &j->mesh, NULL);
        if (st == ESPALIER_OK) st = esi_post_check_reach(j);
    }
done:
    esi_mesh_free(j->ctx, &mesh);
    extended_grid_free(j->ctx, &g);
    esi_restored_voxels_free(j->ctx, &added);
    return st;
}
