/* SPDX-License-Identifier: MIT
 *
 * espalier/pipeline.h: from a picture to a raw 3D asset, in stages.
 *
 *     preprocess -> condition -> structure -> shape -> texture -> decode -> finish
 *
 * Each stage's result is an owned object that may be inspected, saved, loaded, and fed to the next; espalier_generate() runs them all.
 * Same model files, same picture, same seed: the same bits on every machine. Noise is drawn from one PyTorch-compatible generator whose
 * state travels inside the results, so a run resumed from a saved result equals an uninterrupted one.
 */
#ifndef ESPALIER_PIPELINE_H
#define ESPALIER_PIPELINE_H

#include <espalier/image.h>
#include <espalier/matte.h>
#include <espalier/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct espalier_condition espalier_condition;    /* image tokens at 512 and, if wanted, 1024 */
typedef struct espalier_structure espalier_structure;    /* occupied cells of the token grid */
typedef struct espalier_latent espalier_latent;          /* a structured latent (SLat): one row per occupied cell */
typedef struct espalier_asset espalier_asset;            /* raw mesh, PBR voxels, logits */
typedef struct espalier_report espalier_report;          /* facts, times, decisions, soundness of a run */

/* Parameters of the flow Euler sampler with guidance interval. */
typedef struct espalier_sampler {
    int32_t steps;                   /* 1..1000 */
    double guidance_strength;        /* 0..1000; 1 = no guidance */
    double guidance_rescale;         /* 0..1 */
    double interval_low, interval_high;   /* times t in [0, 1] at which guidance acts, inclusive; -1..2 */
    double rescale_t;                /* 0.001..1000 */
    double sigma_min;                /* 0..0.5 */
} espalier_sampler;

typedef struct espalier_generate_params {
    uint32_t struct_size;
    int64_t seed;                                 /* default 42; negative ones wrap as in PyTorch */
    espalier_pipeline_type pipeline;              /* DEFAULT = the model's */
    espalier_sampler structure, shape, texture;   /* defaults from the model */
    int64_t max_tokens;                           /* cascade token budget, 1..16777216, default 49152 */
    int32_t with_texture;                         /* default 1 */
    int32_t force;                                /* go on although a soundness gate fails */
    espalier_report *report;                      /* filled if not NULL; a fresh one for every run */
} espalier_generate_params;
/* The model's own parameters; for NULL those of the TRELLIS.2-4B release. A value out of range is ESPALIER_ERR_ARG in every call below. */
ESPALIER_API espalier_generate_params espalier_generate_params_default(const espalier_model *model);

/* --------------------------------------------------------------- stages */

/* Cut the object out (matte.h), crop to it and premultiply on black: *out is an RGB square, released with espalier_image_free(). matting
 * NULL: the picture must have transparency. Larger pictures are reduced to 1024 first, as TRELLIS.2 does. `name` is for messages; it and
 * report may be NULL. The statuses of espalier_matting_cut(); ERR_INPUT also: an object less than three pixels across. */
ESPALIER_API espalier_status espalier_preprocess(espalier_context *ctx, espalier_image *out, const espalier_image *picture,
                                                 espalier_matting *matting, const char *name, espalier_report *report);

/* Image tokens. `picture` is the result of espalier_preprocess(). with_1024: also the 1024 view (every pipeline but 512 needs it).
 * report may be NULL. ERR_MODEL: the encoder is missing or its weights are damaged; ERR_SOUNDNESS: NaN. */
ESPALIER_API espalier_status espalier_condition_create(espalier_context *ctx, espalier_condition **out, const espalier_model *model,
                                                       const espalier_image *picture, int with_1024, espalier_report *report);
ESPALIER_API void espalier_condition_free(espalier_condition *c);
/* Tokens [*rows][*channels] of view 0 (512) or 1 (1024), NULL if absent. rows and channels may be NULL. */
ESPALIER_API const float *espalier_condition_tokens(const espalier_condition *c, int view, int64_t *rows, int64_t *channels);

/* Occupied cells of the token grid. ERR_MODEL as above; ERR_SOUNDNESS: NaN, no cells. */
ESPALIER_API espalier_status espalier_structure_create(espalier_context *ctx, espalier_structure **out, const espalier_model *model,
                                                       const espalier_condition *cond, const espalier_generate_params *params);
ESPALIER_API void espalier_structure_free(espalier_structure *s);
/* Occupied cells [*count][4] = (batch 0, x, y, z), ascending, on a grid of *grid cells per axis. count and grid may be NULL. */
ESPALIER_API const int32_t *espalier_structure_coords(const espalier_structure *s, int64_t *count, int32_t *grid);

/* Shape latent on these cells; runs both passes of a cascade. ERR_ARG: the structure's grid is not that of the pipeline, or the condition
 * lacks the view; ERR_MODEL; ERR_SOUNDNESS: NaN, no voxels. */
ESPALIER_API espalier_status espalier_shape_create(espalier_context *ctx, espalier_latent **out, const espalier_model *model,
                                                   const espalier_condition *cond, const espalier_structure *structure,
                                                   const espalier_generate_params *params);
/* Texture latent on the rows of the shape latent. ERR_ARG: `shape` is a texture; ERR_MODEL; ERR_SOUNDNESS: NaN. */
ESPALIER_API espalier_status espalier_texture_create(espalier_context *ctx, espalier_latent **out, const espalier_model *model,
                                                     const espalier_condition *cond, const espalier_latent *shape,
                                                     const espalier_generate_params *params);
ESPALIER_API void espalier_latent_free(espalier_latent *l);
/* De-normalised features [*count][*channels] and their cells [*count][4] = (batch 0, x, y, z); *resolution is that of the decoded voxels,
 * per axis. The numbers asked for may be NULL. */
ESPALIER_API const float *espalier_latent_features(const espalier_latent *l, int64_t *count, int64_t *channels);
ESPALIER_API const int32_t *espalier_latent_coords(const espalier_latent *l, int64_t *count, int64_t *resolution);

/* Save and load a condition, structure or latent (safetensors with the generator state); the file says what it is. Saving is atomic:
 * ERR_OUTPUT. Loading: ERR_INPUT when the file is missing, damaged or of another kind. */
ESPALIER_API espalier_status espalier_condition_save(espalier_context *ctx, const espalier_condition *c, const char *path);
ESPALIER_API espalier_status espalier_condition_load(espalier_context *ctx, espalier_condition **out, const char *path);
ESPALIER_API espalier_status espalier_structure_save(espalier_context *ctx, const espalier_structure *s, const char *path);
ESPALIER_API espalier_status espalier_structure_load(espalier_context *ctx, espalier_structure **out, const char *path);
ESPALIER_API espalier_status espalier_latent_save(espalier_context *ctx, const espalier_latent *l, const char *path);
ESPALIER_API espalier_status espalier_latent_load(espalier_context *ctx, espalier_latent **out, const char *path);

/* Decoders and dual grid: raw mesh (vertex i = voxel i) and PBR voxels. texture may be NULL: geometry only. ERR_ARG: the latents do not
 * belong together or to this model; ERR_MODEL; ERR_SOUNDNESS: NaN, no voxels. */
ESPALIER_API espalier_status espalier_decode(espalier_context *ctx, espalier_asset **out, const espalier_model *model,
                                             const espalier_latent *shape, const espalier_latent *texture,
                                             const espalier_generate_params *params);
/* Soundness of the raw mesh into the report; ERR_SOUNDNESS when it has no faces, or when its largest component is too small and
 * params->force is 0. */
ESPALIER_API espalier_status espalier_finish(espalier_context *ctx, espalier_asset *asset, const espalier_generate_params *params);

/* All stages from a picture (matting and name as above). Checks the model for completeness before any work. The statuses of all stages. */
ESPALIER_API espalier_status espalier_generate(espalier_context *ctx, espalier_asset **out, const espalier_model *model,
                                               const espalier_image *picture, espalier_matting *matting, const char *name,
                                               const espalier_generate_params *params);

/* What each stage of known size will need at most: lines to the log and *largest_bytes, which may be NULL. Sizes that depend on the picture
 * are stated as such. ERR_MODEL as espalier_model_require(). */
ESPALIER_API espalier_status espalier_memory_plan(espalier_context *ctx, const espalier_model *model,
                                                  const espalier_generate_params *params, uint64_t *largest_bytes);

/* --------------------------------------------------------------- assets */

/* Read-only view of an asset; pointers live as long as the asset. */
typedef struct espalier_asset_view {
    uint32_t struct_size;
    const float   *vertices;        /* [vertex_count][3], cube [-0.5, 0.5]^3 and up to half a voxel beyond, z up */
    const int32_t *faces;           /* [face_count][3] */
    const int32_t *voxels;          /* [voxel_count][4] batch, x, y, z; generated assets: vertex i belongs to voxel i */
    const float   *attributes;      /* [voxel_count][6] base colour RGB, metallic, roughness, alpha; not clamped; NULL without texture */
    int64_t vertex_count, face_count, voxel_count;
    int64_t resolution;             /* voxels per axis of the cube */
    int64_t seed;
} espalier_asset_view;
ESPALIER_API espalier_asset_view espalier_asset_get(const espalier_asset *asset);
ESPALIER_API void espalier_asset_free(espalier_asset *asset);

/* GLB with per-vertex colours (linear COLOR_0), y up; vertices without a face are dropped. Atomic. ERR_OUTPUT; ERR_SOUNDNESS: no faces or
 * numbers that are not finite; ERR_RESOURCE: more than the 4 GiB that a GLB holds. */
ESPALIER_API espalier_status espalier_asset_save_glb(espalier_context *ctx, const espalier_asset *asset, const char *path);
/* Hand-over to other tools by suffix: .espd (lossless, with logits), .qtm3d, .vxz and .npz (O-Voxels, 8 bits per value), anything else:
 * trellis.cpp's --dump-post layout. Atomic. ERR_OUTPUT; ERR_SOUNDNESS as above; ERR_ARG: the asset has no dual grid, which O-Voxels are. */
ESPALIER_API espalier_status espalier_asset_dump(espalier_context *ctx, const espalier_asset *asset, const char *path);

/* --------------------------------------------------------------- report */

/* An empty report, to be filled by the calls that it is given to. */
ESPALIER_API espalier_status espalier_report_create(espalier_context *ctx, espalier_report **out);
ESPALIER_API void espalier_report_free(espalier_report *report);
/* JSON text (docs/report.schema.json), NUL-terminated, owned by the report, valid until the next call with it. */
ESPALIER_API espalier_status espalier_report_json(espalier_context *ctx, espalier_report *report, const char **json);
/* The same text into a file, atomically. ERR_OUTPUT. */
ESPALIER_API espalier_status espalier_report_save(espalier_context *ctx, espalier_report *report, const char *path);

#ifdef __cplusplus
}
#endif
#endif
