/* SPDX-License-Identifier: MIT
 *
 * stages.h: the places where the pipeline calls a network, as a table. The order of stages, noise, normalisation and coordinates are
 * the pipeline's own (structure.c, latent.c, decode.c); tests put stubs here and check exactly that.
 */
#ifndef ESI_STAGES_H
#define ESI_STAGES_H

#include "pipeline/matting.h"
#include "pipeline/model.h"
#include "pipeline/results.h"

/* One run of a flow model from noise to latent. */
typedef struct esi_sample_call {
    const char *stage;                     /* "structure", "shape", "texture": progress and messages */
    espalier_role role;
    int view;                              /* condition 0 (512) or 1 (1024) */
    const esi_condition_view *condition;
    const int32_t *coords;                 /* [rows][4], NULL for the dense structure model */
    int64_t rows, channels;
    const float *concat;                   /* [rows][channels] beside the noise, or NULL */
    const espalier_sampler *sampler;
    int step_offset, step_total;           /* for progress: steps done before, steps of the whole stage */
} esi_sample_call;

typedef struct esi_stage_table {
    void *user;
    /* Picture -> alpha of the same size. NULL: the real network; it has nothing to do with the model. */
    espalier_status (*matte)(void *user, espalier_context *ctx, esi_matting *network, const espalier_image *rgb, espalier_image *mask);
    /* picture at side x side -> tokens (esi_alloc). */
    espalier_status (*image_condition)(void *user, espalier_context *ctx, const espalier_model *model, const espalier_image *picture,
                                       int side, esi_condition_view *out);
    /* x [rows][channels]: noise in, normalised latent out. */
    espalier_status (*sample)(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call, float *x);
    /* latent [R^3][8] -> *logits [*side^3] (esi_alloc). */
    espalier_status (*decode_structure)(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                        float **logits, int64_t *side);
    /* Shape latent (de-normalised) -> lineage, of whose finest level only the coordinates are wanted. */
    espalier_status (*upsample)(void *user, espalier_context *ctx, const espalier_model *model, const float *features,
                                const esi_coords *coords, esi_lineage *lineage);
    /* Latent -> head [*rows][7 or 6] (esi_alloc); the shape decoder fills `lineage`, the texture decoder follows it. */
    espalier_status (*decode_latent)(void *user, espalier_context *ctx, const espalier_model *model, bool texture, const float *features,
                                     const esi_coords *coords, esi_lineage *lineage, float **head, int64_t *rows);
} esi_stage_table;

/* The table in force for this job. */
const esi_stage_table *esi_stages(const espalier_context *ctx);
/* Cells per axis of the dense structure latent and of the decoder's output. */
int64_t esi_structure_latent_side(const espalier_model *model);

#endif
