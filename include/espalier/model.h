/* SPDX-License-Identifier: MIT
 *
 * espalier/model.h: a directory of TRELLIS.2 model files, opened once, immutable, shared by any number of jobs.
 */
#ifndef ESPALIER_MODEL_H
#define ESPALIER_MODEL_H

#include <espalier/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct espalier_model espalier_model;

/* The parts a pipeline is made of. Names as in pipeline.json. */
typedef enum espalier_role {
    ESPALIER_ROLE_IMAGE_ENCODER = 0,        /* "image_cond_model" */
    ESPALIER_ROLE_SS_FLOW,                  /* "sparse_structure_flow_model" */
    ESPALIER_ROLE_SS_DECODER,               /* "sparse_structure_decoder" */
    ESPALIER_ROLE_SHAPE_FLOW_512,           /* "shape_slat_flow_model_512" */
    ESPALIER_ROLE_SHAPE_FLOW_1024,
    ESPALIER_ROLE_SHAPE_DECODER,            /* "shape_slat_decoder" */
    ESPALIER_ROLE_TEX_FLOW_512,             /* "tex_slat_flow_model_512" */
    ESPALIER_ROLE_TEX_FLOW_1024,
    ESPALIER_ROLE_TEX_DECODER,              /* "tex_slat_decoder" */
    ESPALIER_ROLE_COUNT
} espalier_role;
ESPALIER_API const char *espalier_role_name(espalier_role role);                 /* "?" if unknown */

typedef enum espalier_pipeline_type {
    ESPALIER_PIPELINE_DEFAULT = 0,          /* what the model names; 1024_cascade if it names none */
    ESPALIER_PIPELINE_512 = 1,
    ESPALIER_PIPELINE_1024 = 2,
    ESPALIER_PIPELINE_1024_CASCADE = 3,
    ESPALIER_PIPELINE_1536_CASCADE = 4
} espalier_pipeline_type;
ESPALIER_API const char *espalier_pipeline_name(espalier_pipeline_type type);    /* "512", "1024_cascade", ... */
ESPALIER_API espalier_status espalier_pipeline_parse(espalier_pipeline_type *out, const char *name);   /* ERR_ARG if unknown */

typedef struct espalier_model_options {
    uint32_t struct_size;
    /* Files to use instead of what is found: pairs of role name and path, NULL-terminated; may be NULL. */
    const char *const *overrides;
} espalier_model_options;
ESPALIER_API espalier_model_options espalier_model_options_default(void);

/* Open a Hugging Face directory (pipeline.json) or a flat GGUF directory (ss_flow.gguf, ...); the layout is detected. Every file that
 * is there is mapped and its header, names and shapes are checked; a part that is absent is no error here (espalier_model_require()
 * tells). Unused tensors give a warning in the log. options may be NULL. The runtime of ctx must outlive the model; ctx need not.
 * ESPALIER_OK: release with espalier_model_free(). Otherwise *out is NULL: ESPALIER_ERR_MODEL, ESPALIER_ERR_RESOURCE, or
 * ESPALIER_ERR_ARG (an override of an unknown role). */
ESPALIER_API espalier_status espalier_model_open(espalier_context *ctx, espalier_model **out, const char *directory,
                                                 const espalier_model_options *options);
/* One more reference for another owner; returns `model`. */
ESPALIER_API espalier_model *espalier_model_retain(espalier_model *model);
/* Drops one reference; the last one closes the files. */
ESPALIER_API void espalier_model_free(espalier_model *model);

/* ESPALIER_OK if everything this pipeline needs is there, else ESPALIER_ERR_MODEL naming each missing file. with_texture 0: geometry
 * only. */
ESPALIER_API espalier_status espalier_model_require(espalier_context *ctx, const espalier_model *model, espalier_pipeline_type type,
                                                    int with_texture);
/* The directory that holds pipeline.json or the .gguf files: the one given, or a well-known one inside it. */
ESPALIER_API const char *espalier_model_directory(const espalier_model *model);
/* Path of the weight file of a role, or NULL. */
ESPALIER_API const char *espalier_model_role_path(const espalier_model *model, espalier_role role);
/* Parameters (weights) of a role, 0 if absent. */
ESPALIER_API uint64_t espalier_model_role_parameters(const espalier_model *model, espalier_role role);
ESPALIER_API espalier_pipeline_type espalier_model_default_pipeline(const espalier_model *model);   /* never DEFAULT */

/* 1 if `directory` looks like a complete model directory for its own default pipeline (opens headers only). */
ESPALIER_API int espalier_model_is_complete(espalier_context *ctx, const char *directory);

#ifdef __cplusplus
}
#endif
#endif
