/* SPDX-License-Identifier: MIT
 *
 * flow_case.h: inputs of the cases that run a flow transformer, cut into batch elements with token rows; shared by kind_flow.c and
 * kind_sampler.c.
 */
#ifndef GOLDEN_FLOW_CASE_H
#define GOLDEN_FLOW_CASE_H

#include "golden.h"
#include "models/networks.h"

typedef struct flow_case {
    golden_case *c;
    esi_flow *model;
    bool dense;
    int64_t R;               /* dense: cells per axis */
    int64_t batch, tokens;   /* elements; token rows of all of them */
    const int32_t *coords;   /* sparse: [tokens][4] */
    const float *x, *concat; /* stored state and, for the texture model, its condition rows (or NULL) */
    int64_t channels, concat_channels;
    const float *cond; /* [batch][cond_tokens][cond_channels] */
    int64_t cond_tokens;
} flow_case;

/* One batch element on the device side. */
typedef struct flow_element {
    int64_t count;              /* token rows */
    int64_t *rows;              /* their places among all rows */
    int32_t *coords;            /* [count][4], NULL for a dense model */
    esi_tensor x, concat, cond; /* [count, channels], [count, concat_channels] or null, [cond_tokens, X] */
} flow_element;

/* state: "in.x" or "in.noise". The model is to be freed with esi_flow_free. */
espalier_status flow_case_open(golden_case *c, flow_case *f, bool dense, const char *state);
espalier_status flow_case_element(flow_case *f, flow_element *e, int64_t b);
/* Rows of one element [count][channels] into a stored layout: rows among all rows, or [batch, channels, R, R, R]. */
void flow_case_place(const flow_case *f, const flow_element *e, int64_t b, float *stored, const float *rows, int64_t channels);
golden_shape flow_case_shape(const flow_case *f, int64_t channels);

#endif
