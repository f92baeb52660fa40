/* SPDX-License-Identifier: MIT
 *
 * model_plan.h: which tensors a random checkpoint has, what they are called in each layout, and how their values are drawn. For
 * espalier-make-model and the benchmarks.
 */
#ifndef TOOLS_MODEL_PLAN_H
#define TOOLS_MODEL_PLAN_H

#include <espalier/model.h>

#include "formats/weights.h"

typedef enum model_layout { LAYOUT_HUGGING_FACE, LAYOUT_GGUF } model_layout;

#define MAX_LEVELS 5

/* Sizes of every network; names of every file. */
typedef struct model_preset {
    const char *name;
    struct {
        int hidden, layers, heads, mlp;
    } encoder;
    const char *encoder_name; /* as pipeline.json has it; the directory is its last part */
    struct {
        int channels, heads, mlp;
        const char *mlp_ratio, *rope_freq;
    } flow;                              /* rope_freq: json text, or NULL */
    int structure_blocks, latent_blocks; /* transformer blocks of the dense and of the sparse flow models */
    int structure_side;                  /* cells per axis of the dense latent */
    struct {
        int levels, channels[MAX_LEVELS], res_blocks, middle_blocks;
        int occupied;
    } ss_decoder; /* occupied: see plan_ss_decoder() */
    struct {
        int levels, channels[MAX_LEVELS], blocks[MAX_LEVELS];
    } shape_decoder, texture_decoder;
    int image_size, token_grid, resolution;
    int steps;                             /* of all three samplers */
    const char *texture_guidance;          /* json members of the texture sampler: strength and rescale */
    const char *stem[ESPALIER_ROLE_COUNT]; /* as pipeline.json has them; NULL = no such role; unused for the encoder */
} model_preset;
const model_preset *model_preset_find(const char *name); /* NULL if unknown */

/* (centre + k) * 2^exponent with k uniform in [-spread, spread]: few enough bits for F16 and BF16 to hold every value exactly. */
typedef struct value_rule {
    int centre, spread, exponent;
} value_rule;

/* Consecutive elements of one tensor that share a stream of random numbers and a rule. */
typedef struct value_part {
    uint64_t stream;
    uint64_t count;
    value_rule rule;
} value_part;

#define MAX_PARTS 3
typedef struct planned_tensor {
    char name[96];
    esi_file_dtype dtype;
    int rank;
    int64_t shape[5];
    int n_parts;
    value_part part[MAX_PARTS];
} planned_tensor;

/* One weight file. Zero-initialise. */
typedef struct file_plan {
    espalier_context *ctx;
    uint64_t seed; /* of this role */
    model_layout layout;
    planned_tensor *tensors; /* esi_alloc */
    size_t count, capacity;
    espalier_status status; /* first failure */
} file_plan;

/* Tensors of a role in the order of the release, folded and retyped for GGUF. The same seed gives the same numbers in both layouts. */
espalier_status file_plan_make(espalier_context *ctx, file_plan *out, const model_preset *preset, espalier_role role, model_layout layout,
                               uint64_t seed);
void file_plan_free(file_plan *plan);

/* ---- what plans are made of (model_plan.c) */
typedef struct plan_shape {
    int rank;
    int64_t extent[5];
} plan_shape;
extern const value_rule rule_near_one, rule_bias; /* scales of norms; biases */
/* Uniform with standard deviation gain / sqrt(fan_in). */
value_rule rule_weight(int64_t fan_in, double gain);
/* A tensor of one part, its stream named by the tensor. */
void file_plan_add(file_plan *p, esi_file_dtype dtype, plan_shape s, value_rule rule, const char *name);

/* ---- matting_plan.c */
typedef struct matting_preset matting_preset;
const matting_preset *matting_preset_find(const char *name, size_t length); /* NULL if unknown */
const char *matting_preset_name(const matting_preset *preset);
const char *matting_preset_stem(const matting_preset *preset); /* of the file in a model directory */
/* The i-th preset, NULL behind the last. */
const matting_preset *matting_preset_at(size_t i);
/* Tensors of a matting network with PyTorch's names. */
espalier_status matting_plan_make(espalier_context *ctx, file_plan *out, const matting_preset *preset, uint64_t seed);

/* ---- model_values.c */
/* Names the stream of random numbers that belongs to a text. */
uint64_t value_stream(uint64_t seed, const char *text);
/* Elements first ... of a tensor as the file stores them; for esi_safetensors_write() and esi_gguf_write(). user = file_plan. */
espalier_status file_plan_fill(void *user, size_t entry, uint64_t offset, void *bytes, size_t size);

/* ---- model_config.c: json texts. */
void config_of_role(espalier_context *ctx, esi_text *out, const model_preset *preset, espalier_role role);
void config_of_pipeline(espalier_context *ctx, esi_text *out, const model_preset *preset);
/* Last part of the encoder's name. */
const char *encoder_directory(const model_preset *preset);
bool role_is_flow(espalier_role role);
bool preset_has_role(const model_preset *preset, espalier_role role);

#endif
