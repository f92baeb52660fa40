/* SPDX-License-Identifier: MIT
 *
 * results.h: insides of what the stages hand to each other. All arrays are esi_alloc blocks of `owner`, to which each result holds a
 * reference. The generator's state after the stage's last draw travels along, so that a run resumed from a saved result continues the same
 * noise.
 */
#ifndef ESI_RESULTS_H
#define ESI_RESULTS_H

#include <espalier/pipeline.h>

#include "formats/asset.h"
#include "formats/dump.h"
#include "sample/sample.h"
#include "voxel/voxel.h"

#define ESI_STRUCTURE_CHANNELS 8

typedef struct esi_condition_view {
    float *tokens;                   /* [rows][channels]; NULL = absent */
    int64_t rows, channels;
} esi_condition_view;

struct espalier_condition {
    espalier_context *owner;
    esi_condition_view view[2];      /* 0: base size (512), 1: twice that (1024) */
};

struct espalier_structure {
    espalier_context *owner;
    esi_coords coords;
    int32_t grid;                    /* cells per axis */
    esi_generator generator;
};

struct espalier_latent {
    espalier_context *owner;
    esi_coords coords;
    float *features;                 /* [count][32], de-normalised */
    int64_t resolution;              /* of the decoded voxels */
    bool texture;
    esi_generator generator;
};

struct espalier_asset {
    espalier_context *owner;
    esi_asset data;                  /* pointers into the blocks below */
    float *vertices, *attributes, *local, *intersection_logits, *split_weight;
    int32_t *faces;
    uint8_t *intersected;            /* [n_voxels][3] quad flags where they are known without logits */
    esi_lineage lineage;             /* coarse to fine; the finest level has the voxel rows; none for an asset from a file or a mesh */
    int32_t *coords;                 /* voxel rows of an asset from a mesh or an O-Voxel file */
    esi_dump dump;                   /* owner of everything in `data` for an asset from a dump */
};

espalier_status esi_condition_new(espalier_context *ctx, espalier_condition **out);
espalier_status esi_structure_new(espalier_context *ctx, espalier_structure **out);
espalier_status esi_latent_new(espalier_context *ctx, espalier_latent **out);
espalier_status esi_asset_new(espalier_context *ctx, espalier_asset **out);

#endif
