/* SPDX-License-Identifier: MIT
 *
 * generate.c: the whole run, stage after stage; each stage's memory is given back before the next.
 */
#include "base/context.h"
#include "pipeline/params.h"
#include "pipeline/report.h"

static espalier_status note_run(espalier_report *report, const espalier_model *model, const espalier_generate_params *p,
                                const esi_route *route)
{
    if (!report) return ESPALIER_OK;
    esi_free(report->owner, report->model_directory);
    report->model_directory = esi_strdup(report->owner, espalier_model_directory(model));
    if (!report->model_directory) return ESPALIER_ERR_RESOURCE;
    report->has_run = true;
    report->pipeline = route->type;
    report->seed = p->seed;
    report->max_tokens = p->max_tokens;
    report->sampler[0] = p->structure;
    report->sampler[1] = p->shape;
    report->sampler[2] = p->texture;
    report->with_texture = p->with_texture != 0;
    return ESPALIER_OK;
}

static espalier_status run(espalier_context *ctx, espalier_asset **out, const espalier_model *model, const espalier_image *picture,
                           espalier_matting *matting, const char *name, const espalier_generate_params *p, const esi_route *route)
{
    espalier_image square = {0};
    espalier_condition *cond = NULL;
    espalier_structure *structure = NULL;
    espalier_latent *shape = NULL, *texture = NULL;
    espalier_status st;

    st = espalier_preprocess(ctx, &square, picture, matting, name, p->report);
    if (st != ESPALIER_OK) goto done;
    st = espalier_condition_create(ctx, &cond, model, &square, route->last == 1, p->report);
    if (st != ESPALIER_OK) goto done;
    st = espalier_structure_create(ctx, &structure, model, cond, p);
    if (st != ESPALIER_OK) goto done;
    st = espalier_shape_create(ctx, &shape, model, cond, structure, p);
    if (st != ESPALIER_OK) goto done;
    if (p->with_texture) {
        st = espalier_texture_create(ctx, &texture, model, cond, shape, p);
        if (st != ESPALIER_OK) goto done;
    }
    espalier_structure_free(structure);
    structure = NULL;
    espalier_condition_free(cond);
    cond = NULL;
    st = espalier_decode(ctx, out, model, shape, texture, p);
    if (st != ESPALIER_OK) goto done;
    st = espalier_finish(ctx, *out, p);
done:
    espalier_image_free(&square);
    espalier_condition_free(cond);
    espalier_structure_free(structure);
    espalier_latent_free(shape);
    espalier_latent_free(texture);
    if (st != ESPALIER_OK) {
        espalier_asset_free(*out);
        *out = NULL;
    }
    return st;
}

espalier_status espalier_generate(espalier_context *ctx, espalier_asset **out, const espalier_model *model, const espalier_image *picture,
                                  espalier_matting *matting, const char *name, const espalier_generate_params *params)
{
    esi_fp_state fp;
    esi_route route;

    if (out) *out = NULL;
    if (!ctx || !out || !model || !picture || !params) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_params_validate(ctx, params);
    if (st == ESPALIER_OK) st = espalier_model_require(ctx, model, params->pipeline, params->with_texture);
    if (st == ESPALIER_OK) {
        esi_route_of(&route, model, params->pipeline);
        st = note_run(params->report, model, params, &route);
    }
    if (st == ESPALIER_OK) st = run(ctx, out, model, picture, matting, name, params, &route);
    return esi_leave(ctx, &fp, st);
}
