/* SPDX-License-Identifier: MIT
 *
 * report.h: what a run tells about itself: facts, times and memory of each stage, knife-edge decisions, soundness of the mesh.
 * docs/report.schema.json describes the JSON.
 */
#ifndef ESI_REPORT_H
#define ESI_REPORT_H

#include <espalier/pipeline.h>

#include "pipeline/post.h"
#include "mesh/metrics.h"
#include "voxel/voxel.h"

#define ESI_REPORT_VERSION 1

typedef enum esi_stage {
    ESI_STAGE_PREPROCESS, ESI_STAGE_CONDITION, ESI_STAGE_STRUCTURE, ESI_STAGE_SHAPE, ESI_STAGE_TEXTURE, ESI_STAGE_DECODE, ESI_STAGE_FINISH,
    ESI_STAGE_COUNT
} esi_stage;
const char *esi_stage_name(esi_stage stage);

typedef struct esi_stage_record {
    bool ran;
    double seconds, cpu_seconds;
    uint64_t peak_bytes;
    uint64_t planned_bytes;              /* 0 = size was not known beforehand */
    uint64_t nan_count, inf_count;       /* in the stage's output */
} esi_stage_record;

/* One kind of hard decision: "occupancy", "subdivision.<level>", "intersection"; "cascade.subdivision.<level>" of the first pass. */
#define ESI_MAX_DECISIONS (2 * ESI_MAX_LEVELS + 2)
typedef struct esi_decision_record {
    char name[24];
    esi_decision_stats stats;
} esi_decision_record;

#define ESI_MAX_GATES 16
typedef struct esi_gate_record {
    const char *name;                    /* "nan", "no_voxels", "largest_component" */
    const char *stage;
    double value, limit;
    bool passed;
} esi_gate_record;

struct espalier_report {
    espalier_context *owner;
    esi_stage_record stage[ESI_STAGE_COUNT];
    esi_decision_record decision[ESI_MAX_DECISIONS];
    int n_decisions;
    esi_gate_record gate[ESI_MAX_GATES];
    int n_gates;
    bool has_run, has_picture, has_mesh, has_result;
    /* run */
    char *model_directory;               /* esi_alloc of owner */
    espalier_pipeline_type pipeline;
    int64_t seed, max_tokens;
    espalier_sampler sampler[3];         /* structure, shape, texture */
    bool with_texture;
    /* picture */
    uint32_t picture_width, picture_height;
    uint64_t picture_hash, preprocessed_hash;
    espalier_matte_stats matte;          /* its network_file is not ours */
    char *matte_file;                    /* esi_alloc of owner; NULL: no network */
    /* result */
    int64_t resolution, tokens_structure, tokens_shape, voxels;
    int64_t resolution_wanted;
    esi_mesh_metrics mesh;               /* of the raw mesh, as it is */
    bool has_post;
    esi_post_record post;
    esi_text json;
};

/* Timing and memory of a stage; a stage that runs in several calls adds up. report may be NULL everywhere. */
typedef struct esi_stage_timer {
    espalier_report *report;
    esi_stage stage;
    double seconds, cpu_seconds;
} esi_stage_timer;
esi_stage_timer esi_stage_begin(espalier_context *ctx, espalier_report *report, esi_stage stage);
espalier_status esi_stage_end(espalier_context *ctx, esi_stage_timer *timer, espalier_status status);

/* What a failed gate does. */
typedef enum esi_gate_mode {
    ESI_GATE_STOPS,                      /* ERR_SOUNDNESS, and the message says that force would go on */
    ESI_GATE_WARNS,                      /* the caller has asked to go on */
    ESI_GATE_ENDS                        /* ERR_SOUNDNESS in any case: nothing can follow */
} esi_gate_mode;
/* STOPS, or WARNS when the caller forces. */
esi_gate_mode esi_gate_forced_by(const espalier_generate_params *p);

/* Counts NaN and infinities of a stage's output into its record; any of them fail the gate "nan". */
espalier_status esi_gate_finite(espalier_context *ctx, espalier_report *report, esi_stage stage, const float *values, int64_t count,
                                esi_gate_mode mode);
/* Records a gate, and for one that failed does what `mode` says, with `text` as the message. A gate counts once for each stage. */
espalier_status esi_gate(espalier_context *ctx, espalier_report *report, esi_stage stage, const char *name, double value, double limit,
                         bool passed, esi_gate_mode mode, const char *text);
/* For a network that gave up with ERR_SOUNDNESS by itself: the gate `name` failed, and the message names the stage. Other statuses pass
 * through. */
espalier_status esi_gate_blame(espalier_context *ctx, espalier_report *report, esi_stage stage, const char *name, espalier_status status);
/* Adds values to the record of that name. */
void esi_report_decisions(espalier_report *report, const char *name, const float *values, int64_t count);
/* The subdivisions of all levels, as "<prefix>subdivision.<level>". */
void esi_report_subdivisions(espalier_report *report, const char *prefix, const esi_lineage *lineage);

#endif
