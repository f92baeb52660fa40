/* SPDX-License-Identifier: MIT
 *
 * shape_dump.h: raw assets of analytic shapes, as a decoder would give them: dual grid, logits, attributes. For tests and benchmarks.
 */
#ifndef SHAPE_DUMP_H
#define SHAPE_DUMP_H

#include "formats/asset.h"
#include "voxel/voxel.h"

typedef enum shape_kind {
    SHAPE_SPHERE,                        /* radius 0.35 */
    SHAPE_TORUS,                         /* radii 0.3 and 0.1 */
    SHAPE_BUMPY,                         /* bumpy sphere inside a torus: two parts, many details */
    SHAPE_CUP,                           /* half a sphere, an open sheet */
    SHAPE_PLATES,                        /* two thin plates, red above and blue below, one empty voxel between them */
    SHAPE_NESTED,                        /* a sphere in a hollow sphere */
    SHAPE_CUBE,                          /* side 0.5, axis-aligned, off the grid planes */
    SHAPE_KINDS
} shape_kind;
const char *shape_name(shape_kind kind);
bool shape_parse(shape_kind *out, const char *name);

typedef struct shape_options {
    shape_kind kind;
    int32_t resolution;                  /* 16..1024 */
    double uncertain;                    /* share of the edges with |logit| < 1e-3; a third of these are on the wrong side */
    double missing;                      /* share of the voxels that are not there */
    uint64_t seed;
    bool constant;                       /* one colour everywhere */
    float alpha;                         /* of the upper half */
} shape_options;

typedef struct shape_dump {
    esi_asset asset;                     /* points into the rest */
    int32_t *coords;
    float *local, *logits, *attrs, *vertices;
    int32_t *faces;
} shape_dump;

espalier_status shape_dump_create(espalier_context *ctx, shape_dump *out, const shape_options *options);
void shape_dump_free(espalier_context *ctx, shape_dump *dump);

#endif
