/* SPDX-License-Identifier: MIT
 *
 * plan.h: upper bounds of what stages will allocate, logged before the work and kept in the report beside the measured peak.
 */
#ifndef ESI_PLAN_H
#define ESI_PLAN_H

#include "pipeline/model.h"
#include "pipeline/report.h"

/* A flow stage of `rows` tokens under `condition` picture tokens; `held` = bytes of results that stay allocated meanwhile. */
void esi_plan_flow(espalier_context *ctx, espalier_report *report, esi_stage stage, const esi_flow *flow, int64_t rows, int64_t condition);
/* Decoding: the voxels of every level are known once the shape decoder has decided them. */
void esi_plan_decode(espalier_context *ctx, espalier_report *report, const esi_sparse_decoder *decoder, const esi_lineage *lineage);

#endif
