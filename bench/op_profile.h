/* SPDX-License-Identifier: MIT
 *
 * op_profile.h: where a network's processor time goes: the operations of a context are timed and their useful multiply-adds counted.
 */
#ifndef ESI_OP_PROFILE_H
#define ESI_OP_PROFILE_H

#include "tensor/backend.h"

typedef enum op_group {
    OP_LINEAR,
    OP_CONV,
    OP_ATTENTION,
    OP_WEIGHTED_GATHER, /* bilinear reading */
    OP_ROWS,            /* norms, activations, sums */
    OP_MOVE,            /* gathers, scatters, pools, transpositions */
    OP_COPY,            /* host to tensor and back */
    OP_HOST,            /* everything outside of operations: tables, packing of results */
    OP_GROUP_COUNT
} op_group;

const char *op_group_name(op_group group);

typedef struct op_profile {
    esi_backend wrapper; /* first, so that it is the profile */
    esi_backend *real;
    double cpu_seconds[OP_GROUP_COUNT], flops[OP_GROUP_COUNT];
    double start, counting; /* processor time: of the beginning; spent on counting */
} op_profile;

/* Until the end, all operations of the context go through the profile. Tensors must not be made before and freed within. */
void op_profile_begin(op_profile *p, espalier_context *ctx);
void op_profile_end(op_profile *p, espalier_context *ctx);

#endif
