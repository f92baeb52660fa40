/* SPDX-License-Identifier: MIT
 *
 * settings.h: what pipeline.json says about a run: sampler parameters, normalisation vectors, sizes. The released GGUF directories have
 * none; they get the released values.
 */
#ifndef ESI_SETTINGS_H
#define ESI_SETTINGS_H

#include <espalier/pipeline.h>

#include "formats/json.h"

#define ESI_LATENT_CHANNELS 32

typedef struct esi_normalization {
    float mean[ESI_LATENT_CHANNELS], std[ESI_LATENT_CHANNELS];
} esi_normalization;

typedef struct esi_settings {
    espalier_sampler structure, shape, texture;
    esi_normalization shape_norm, texture_norm;
    espalier_pipeline_type default_pipeline; /* never DEFAULT */
    /* Sizes the released pipeline hard-codes; small models give others in args.espalier. */
    int32_t image_size; /* 512: side of the first view; the second has twice that */
    int32_t token_grid; /* 32: cells per axis of the token grid at the base resolution */
    int32_t resolution; /* 512: base resolution of the decoded voxels */
} esi_settings;

void esi_settings_release(esi_settings *out);
/* Values of `pipeline` (pipeline.json) over the released ones. `path` for messages. ERR_MODEL for wrong types, sizes or values. */
espalier_status esi_settings_read(espalier_context *ctx, esi_settings *out, const esi_json *pipeline, const char *path);

/* ERR_ARG naming stage and parameter unless every value is finite and in range. */
espalier_status esi_sampler_validate(espalier_context *ctx, const espalier_sampler *s, const char *stage);

#endif
