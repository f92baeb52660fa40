/* SPDX-License-Identifier: MIT
 *
 * params.h: checking the parameters of a run, and what follows from its pipeline type.
 */
#ifndef ESI_PARAMS_H
#define ESI_PARAMS_H

#include "pipeline/model.h"

/* What a pipeline type means for a model (TRELLIS.2 Trellis2ImageTo3DPipeline.run), in the model's own sizes. */
typedef struct esi_route {
    espalier_pipeline_type type;
    bool cascade;
    int32_t grid;                    /* cells per axis of the occupied structure */
    int first;                       /* index of the shape flow and condition view of the first pass: 0 = 512, 1 = 1024 */
    int last;                        /* the same for the final pass and the texture flow */
    int64_t resolution;              /* decoded voxels per axis; the target, for a cascade */
} esi_route;
void esi_route_of(esi_route *out, const espalier_model *model, espalier_pipeline_type type);

/* ERR_ARG unless struct_size is known and every value is in range. */
espalier_status esi_params_validate(espalier_context *ctx, const espalier_generate_params *p);

#endif
