/* SPDX-License-Identifier: MIT
 *
 * hashing.h: one run of the pipeline as a handful of 64-bit hashes, one for each kind of intermediate and result, so that a difference says
 * where it began.
 */
#ifndef REPRO_HASHING_H
#define REPRO_HASHING_H

#include "pipeline/stages.h"

typedef enum repro_item {
    REPRO_CONDITION, /* image tokens, both views */
    REPRO_STRUCTURE, /* dense latent */
    REPRO_OCCUPANCY, /* its logits */
    REPRO_CELLS,     /* cells of every latent, and of the cascade's upsampling */
    REPRO_SHAPE,     /* normalised latents, both passes of a cascade */
    REPRO_TEXTURE,
    REPRO_SUBDIVISION,  /* logits of every level, with their rows */
    REPRO_INTERSECTION, /* logits */
    REPRO_VERTICES,
    REPRO_FACES,
    REPRO_MATERIAL, /* PBR volume */
    REPRO_FINISHED, /* mesh, texture coordinates and pictures after espalier_post() */
    REPRO_REFERENCE, /* the same by the reference's steps */
    REPRO_ITEM_COUNT
} repro_item;

typedef struct repro_hashes {
    uint64_t value[REPRO_ITEM_COUNT];
    int64_t tokens, voxels, faces, resolution;
} repro_hashes;

/* A run with the model's own parameters; `steps` > 0 replaces all three numbers of sampler steps. Soundness gates do not stop it; no voxels
 * and no faces do. */
espalier_status repro_run(espalier_context *ctx, repro_hashes *out, const espalier_model *model, const espalier_image *picture,
                          espalier_pipeline_type type, int steps);
bool repro_equal(const repro_hashes *a, const repro_hashes *b);
/* "512 tokens=.. voxels=.. ... condition=0123456789abcdef ..." without a newline. */
void repro_print(const repro_hashes *h, espalier_pipeline_type type);
/* A striped, half-transparent ellipse made with integers, for builds without image codecs. */
espalier_status repro_picture(espalier_context *ctx, espalier_image *out);

#endif
