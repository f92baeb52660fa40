/* SPDX-License-Identifier: MIT
 *
 * params.c: from a request's pipeline type to the grids of a run; see params.h.
 */
#include "pipeline/params.h"

void esi_route_of(esi_route *out, const espalier_model *model, espalier_pipeline_type type)
{
    const esi_settings *s = &model->settings;
    if (type == ESPALIER_PIPELINE_DEFAULT) type = s->default_pipeline;
    *out = (esi_route){.type = type, .grid = s->token_grid, .resolution = s->resolution};
    switch (type) {
    case ESPALIER_PIPELINE_1024:
        out->grid = 2 * s->token_grid;
        out->first = out->last = 1;
        out->resolution = 2 * (int64_t)s->resolution;
        break;
    case ESPALIER_PIPELINE_1024_CASCADE:
    case ESPALIER_PIPELINE_1536_CASCADE:
        out->cascade = true;
        out->last = 1;
        out->resolution = (type == ESPALIER_PIPELINE_1024_CASCADE ? 2 : 3) * (int64_t)s->resolution;
        break;
    default:
        break;
    }
}

espalier_generate_params espalier_generate_params_default(const espalier_model *model)
{
    esi_settings release;
    const esi_settings *s = model ? &model->settings : &release;

    esi_settings_release(&release);
    return (espalier_generate_params){
        .struct_size = sizeof(espalier_generate_params),
        .seed = 42,
        .pipeline = s->default_pipeline,
        .structure = s->structure,
        .shape = s->shape,
        .texture = s->texture,
        .max_tokens = 49152,
        .with_texture = 1,
    };
}

espalier_status esi_params_validate(espalier_context *ctx, const espalier_generate_params *p)
{
    if (!p || p->struct_size != sizeof *p)
        return esi_fail(ctx, ESPALIER_ERR_ARG,
                        "generate parameters of another library version; start from espalier_generate_params_default()");
    if ((unsigned)p->pipeline > ESPALIER_PIPELINE_1536_CASCADE)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "unknown pipeline type %d", (int)p->pipeline);
    if (p->max_tokens < 1 || p->max_tokens > INT64_C(16777216))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "max_tokens %lld is not between 1 and 16777216", (long long)p->max_tokens);
    espalier_status st = esi_sampler_validate(ctx, &p->structure, "ss");
    if (st == ESPALIER_OK) st = esi_sampler_validate(ctx, &p->shape, "shape");
    if (st == ESPALIER_OK) st = esi_sampler_validate(ctx, &p->texture, "tex");
    return st;
}
