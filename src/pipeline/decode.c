/* SPDX-License-Identifier: MIT
 *
 * decode.c: latents -> voxels with dual-grid vertices, flags and materials -> raw triangle mesh (TRELLIS.2
 * Trellis2ImageTo3DPipeline.decode_latent).
 */
#include "pipeline/params.h"
#include "pipeline/plan.h"
#include "pipeline/stages.h"

#define SHAPE_HEAD 7           /* dual vertex 3, intersection logits 3, split weight 1 */
#define TEXTURE_HEAD 6

espalier_status esi_asset_new(espalier_context *ctx, espalier_asset **out)
{
    *out = esi_calloc(ctx, 1, sizeof **out, "asset");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    (*out)->owner = esi_context_retain(ctx);
    return ESPALIER_OK;
}

void espalier_asset_free(espalier_asset *a)
{
    if (!a) return;
    espalier_context *owner = a->owner;
    esi_free(owner, a->vertices);
    esi_free(owner, a->faces);
    esi_free(owner, a->attributes);
    esi_free(owner, a->local);
    esi_free(owner, a->intersection_logits);
    esi_free(owner, a->split_weight);
    esi_free(owner, a->intersected);
    esi_free(owner, a->coords);
    esi_lineage_free(owner, &a->lineage);
    esi_dump_free(owner, &a->dump);
    esi_free(owner, a);
    espalier_context_free(owner);
}

static const esi_coords *voxels_of(const espalier_asset *a)
{
    return &a->lineage.level[a->lineage.levels - 1].coords;
}

/* Head rows -> dual vertices, intersection logits (kept for repair) and split weights. */
static espalier_status split_head(espalier_context *ctx, espalier_asset *a, const espalier_model *model, const float *head, int64_t rows,
                                  uint8_t *intersected)
{
    float margin = model->shape_decoder ? esi_sparse_decoder_get_config(model->shape_decoder)->voxel_margin : 0.5f;
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor t;

    a->local = esi_alloc(ctx, (size_t)rows, 3 * sizeof(float), "dual vertices");
    a->intersection_logits = esi_alloc(ctx, (size_t)rows, 3 * sizeof(float), "intersection logits");
    a->split_weight = esi_alloc(ctx, (size_t)rows, sizeof(float), "split weights");
    espalier_status st = a->local && a->intersection_logits && a->split_weight ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &t, rows, SHAPE_HEAD, ESI_F32, head);
    if (st == ESPALIER_OK) st = esi_shape_head_decode(ctx, t, margin, a->local, intersected, a->split_weight);
    for (int64_t i = 0; st == ESPALIER_OK && i < rows; i++)
        memcpy(a->intersection_logits + 3 * i, head + SHAPE_HEAD * i + 3, 3 * sizeof(float));
    esi_scope_end(ctx, scope);
    return st;
}

static espalier_status decode_shape(espalier_context *ctx, espalier_asset *a, const espalier_model *model, const espalier_latent *shape,
                                    const espalier_generate_params *p)
{
    const esi_stage_table *stages = esi_stages(ctx);
    uint8_t *intersected = NULL;
    float *head = NULL;
    int64_t rows = 0, n_faces = 0;
    espalier_status st;

    st = stages->decode_latent(stages->user, ctx, model, false, shape->features, &shape->coords, &a->lineage, &head, &rows);
    st = esi_gate_blame(ctx, p->report, ESI_STAGE_DECODE, "no_voxels", st);
    if (st != ESPALIER_OK) goto done;
    st = esi_gate(ctx, p->report, ESI_STAGE_DECODE, "no_voxels", (double)rows, 1, rows > 0, ESI_GATE_ENDS,
                  "no voxels: the shape decoder kept none of its subdivisions");
    if (st != ESPALIER_OK) goto done;
    st = esi_gate_finite(ctx, p->report, ESI_STAGE_DECODE, head, rows * SHAPE_HEAD, esi_gate_forced_by(p));
    if (st != ESPALIER_OK) goto done;
    esi_report_subdivisions(p->report, "", &a->lineage);
    intersected = esi_alloc(ctx, (size_t)rows, 3, "intersection flags");
    if (!intersected) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = split_head(ctx, a, model, head, rows, intersected);
    if (st != ESPALIER_OK) goto done;
    esi_report_decisions(p->report, "intersection", a->intersection_logits, rows * 3);
    esi_free(ctx, head);
    head = NULL;

    int32_t grid = (int32_t)shape->resolution;
    const esi_dual_grid dual = {.coords = voxels_of(a)->rows, .count = rows, .local = a->local, .intersected = intersected,
                                .split_weight = a->split_weight, .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f},
                                .grid = {grid, grid, grid}};
    st = esi_dual_grid_to_mesh(ctx, &dual, &a->vertices, &a->faces, &n_faces);
    a->data.n_vertices = a->data.n_voxels = rows;
    a->data.n_faces = n_faces;
done:
    esi_free(ctx, head);
    esi_free(ctx, intersected);
    return st;
}

/* The texture decoder follows the shape decoder's subdivision, so its rows are the voxels. */
static espalier_status decode_texture(espalier_context *ctx, espalier_asset *a, const espalier_model *model, const espalier_latent *texture,
                                      const espalier_generate_params *p)
{
    const esi_stage_table *stages = esi_stages(ctx);
    int64_t rows = 0;
    espalier_status st = stages->decode_latent(stages->user, ctx, model, true, texture->features, &texture->coords, &a->lineage,
                                               &a->attributes, &rows);
    if (st != ESPALIER_OK) return st;
    if (rows != a->data.n_voxels)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "decode: %lld texture rows for %lld voxels", (long long)rows,
                        (long long)a->data.n_voxels);
    st = esi_gate_finite(ctx, p->report, ESI_STAGE_DECODE, a->attributes, rows * TEXTURE_HEAD, esi_gate_forced_by(p));
    for (int64_t i = 0; i < rows * TEXTURE_HEAD; i++) a->attributes[i] = 0.5f * a->attributes[i] + 0.5f;
    return st;
}

/* Point the plain asset at our blocks. */
static void describe(espalier_asset *a, const espalier_latent *shape, const espalier_generate_params *p, espalier_pipeline_type type)
{
    esi_asset *d = &a->data;
    d->vertices = a->vertices;
    d->faces = a->faces;
    d->coords = voxels_of(a)->rows;
    d->attrs = a->attributes;
    d->local = a->local;
    d->intersect_logits = a->intersection_logits;
    d->split_weight = a->split_weight;
    d->n_levels = a->lineage.levels - 1;
    for (int i = 0; i < d->n_levels; i++)
        d->levels[i] =
            (esi_asset_level){a->lineage.level[i].coords.rows, a->lineage.level[i].subdivision_logits, a->lineage.level[i].coords.count};
    d->resolution = shape->resolution;
    d->seed = p->seed;
    d->pipeline_type = espalier_pipeline_name(type);
}

/* A latent may come from a file, made with another model. */
static espalier_status check_cells(espalier_context *ctx, const espalier_model *model, const espalier_latent *shape)
{
    if (!model->shape_decoder) return ESPALIER_OK;              /* a test's stub decodes */
    int64_t cells = shape->resolution >> (esi_sparse_decoder_get_config(model->shape_decoder)->levels - 1);
    for (int64_t i = 0; i < 4 * shape->coords.count; i++)
        if (i % 4 != 0 && shape->coords.rows[i] >= cells)
            return esi_fail(ctx, ESPALIER_ERR_ARG,
                            "shape latent: cell %d of row %lld, but the model has %lld cells per axis at resolution %lld",
                            (int)shape->coords.rows[i], (long long)(i / 4), (long long)cells, (long long)shape->resolution);
    return ESPALIER_OK;
}

static espalier_status check_latents(espalier_context *ctx, const espalier_model *model, const espalier_latent *shape,
                                     const espalier_latent *texture)
{
    espalier_status st = check_cells(ctx, model, shape);
    if (st != ESPALIER_OK) return st;
    if (shape->texture) return esi_fail(ctx, ESPALIER_ERR_ARG, "the first latent is a texture, not a shape");
    if (!texture) return ESPALIER_OK;
    if (!texture->texture) return esi_fail(ctx, ESPALIER_ERR_ARG, "the second latent is a shape, not a texture");
    if (texture->coords.count != shape->coords.count ||
        memcmp(texture->coords.rows, shape->coords.rows, (size_t)shape->coords.count * 4 * sizeof(int32_t)) != 0)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "shape and texture latents lie on different cells");
    return ESPALIER_OK;
}

espalier_status espalier_decode(espalier_context *ctx, espalier_asset **out, const espalier_model *model, const espalier_latent *shape,
                                const espalier_latent *texture, const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_route route;
    espalier_asset *a = NULL;
    uint64_t pieces = texture ? 2 : 1;

    if (out) *out = NULL;
    if (!ctx || !out || !model || !shape || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st == ESPALIER_OK) st = check_latents(ctx, model, shape, texture);
    if (st != ESPALIER_OK) return esi_leave(ctx, &fp, st);
    esi_stage_timer timer = esi_stage_begin(ctx, params->report, ESI_STAGE_DECODE);
    esi_route_of(&route, model, params->pipeline);

    st = esi_progress(ctx, "decode", 0, pieces);
    if (st == ESPALIER_OK) st = esi_asset_new(ctx, &a);
    if (st == ESPALIER_OK) st = decode_shape(ctx, a, model, shape, params);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "decode", 1, pieces);
    if (st == ESPALIER_OK) esi_plan_decode(ctx, params->report, model->shape_decoder, &a->lineage);
    if (st == ESPALIER_OK && texture) {
        st = decode_texture(ctx, a, model, texture, params);
        if (st == ESPALIER_OK) st = esi_progress(ctx, "decode", 2, pieces);
    }
    if (st == ESPALIER_OK) {
        describe(a, shape, params, route.type);
        if (params->report) {
            params->report->has_result = true;
            params->report->voxels = a->data.n_voxels;
            params->report->resolution = shape->resolution;
        }
        *out = a;
    } else {
        espalier_asset_free(a);
    }
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}
