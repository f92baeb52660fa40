/* SPDX-License-Identifier: MIT
 *
 * report.c: collecting the facts of a run and writing them as JSON.
 */
#include "pipeline/report.h"
#include "pipeline/cut.h"
#include "pipeline/post_report.h"

#include "base/context.h"
#include "formats/json_write.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *const stage_names[ESI_STAGE_COUNT] = {"preprocess", "condition", "structure", "shape", "texture", "decode", "finish"};

const char *esi_stage_name(esi_stage stage)
{
    return stage_names[stage];
}

/* ------------------------------------------------------------- collecting */

espalier_status espalier_report_create(espalier_context *ctx, espalier_report **out)
{
    if (out) *out = NULL;
    if (!ctx || !out) return esi_refuse_null(ctx, __func__);
    esi_clear_error(ctx);
    *out = esi_calloc(ctx, 1, sizeof **out, "report");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    (*out)->owner = esi_context_retain(ctx);
    return ESPALIER_OK;
}

void espalier_report_free(espalier_report *report)
{
    if (!report) return;
    espalier_context *owner = report->owner;
    esi_text_free(owner, &report->json);
    esi_free(owner, report->model_directory);
    esi_free(owner, report->matte_file);
    esi_free(owner, report);
    espalier_context_free(owner);
}

esi_stage_timer esi_stage_begin(espalier_context *ctx, espalier_report *report, esi_stage stage)
{
    esi_memory_reset_high_water(ctx);
    return (esi_stage_timer){report, stage, esi_now(), esi_cpu_seconds()};
}

espalier_status esi_stage_end(espalier_context *ctx, esi_stage_timer *timer, espalier_status status)
{
    if (timer->report) {
        esi_stage_record *r = &timer->report->stage[timer->stage];
        r->ran = true;
        r->seconds += esi_now() - timer->seconds;
        r->cpu_seconds += esi_cpu_seconds() - timer->cpu_seconds;
        r->peak_bytes = ESI_MAX(r->peak_bytes, esi_memory_high_water(ctx));
    }
    return status;
}

esi_gate_mode esi_gate_forced_by(const espalier_generate_params *p)
{
    return p->force ? ESI_GATE_WARNS : ESI_GATE_STOPS;
}

/* A cascade passes some gates twice: the failure, or else the later value, stays. */
static void record_gate(espalier_report *report, const esi_gate_record *gate)
{
    int i = 0;
    while (i < report->n_gates && (strcmp(report->gate[i].name, gate->name) != 0 || report->gate[i].stage != gate->stage)) i++;
    if (i == ESI_MAX_GATES) return;
    if (i == report->n_gates)
        report->n_gates++;
    else if (!report->gate[i].passed)
        return;
    report->gate[i] = *gate;
}

espalier_status esi_gate(espalier_context *ctx, espalier_report *report, esi_stage stage, const char *name, double value, double limit,
                         bool passed, esi_gate_mode mode, const char *text)
{
    const esi_gate_record gate = {name, stage_names[stage], value, limit, passed};
    if (report) record_gate(report, &gate);
    if (passed) return ESPALIER_OK;
    if (mode == ESI_GATE_ENDS) return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: %s", stage_names[stage], text);
    if (mode == ESI_GATE_STOPS)
        return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: %s; --force goes on all the same", stage_names[stage], text);
    esi_log(ctx, ESPALIER_LOG_WARNING, "%s: %s; going on as asked", stage_names[stage], text);
    return ESPALIER_OK;
}

espalier_status esi_gate_blame(espalier_context *ctx, espalier_report *report, esi_stage stage, const char *name, espalier_status status)
{
    const esi_gate_record gate = {name, stage_names[stage], NAN, 0, false};
    char text[sizeof ctx->error_text];
    if (status != ESPALIER_ERR_SOUNDNESS) return status;
    if (report) record_gate(report, &gate);
    memcpy(text, espalier_error_message(ctx), sizeof text);
    esi_clear_error(ctx);
    return esi_fail(ctx, status, "%s: %s", stage_names[stage], text);
}

espalier_status esi_gate_finite(espalier_context *ctx, espalier_report *report, esi_stage stage, const float *values, int64_t count,
                                esi_gate_mode mode)
{
    uint64_t nan_count = 0, inf_count = 0;
    for (int64_t i = 0; i < count; i++) {
        nan_count += isnan(values[i]) != 0;
        inf_count += isinf(values[i]) != 0;
    }
    if (report) {
        report->stage[stage].nan_count += nan_count;
        report->stage[stage].inf_count += inf_count;
    }
    char text[128];
    snprintf(text, sizeof text, "%" PRIu64 " NaN and %" PRIu64 " infinite values of %lld in the output", nan_count, inf_count,
             (long long)count);
    return esi_gate(ctx, report, stage, "nan", (double)(nan_count + inf_count), 0, nan_count + inf_count == 0, mode, text);
}

void esi_report_decisions(espalier_report *report, const char *name, const float *values, int64_t count)
{
    if (!report) return;
    int i = 0;
    while (i < report->n_decisions && strcmp(report->decision[i].name, name) != 0) i++;
    if (i == ESI_MAX_DECISIONS) return;
    if (i == report->n_decisions) {
        report->n_decisions++;
        snprintf(report->decision[i].name, sizeof report->decision[i].name, "%s", name);
        memset(&report->decision[i].stats, 0, sizeof report->decision[i].stats);
    }
    esi_decision_stats_add(&report->decision[i].stats, values, count);
}

void esi_report_subdivisions(espalier_report *report, const char *prefix, const esi_lineage *lineage)
{
    for (int i = 0; i + 1 < lineage->levels; i++) {
        const esi_lineage_level *level = &lineage->level[i];
        char name[24];
        snprintf(name, sizeof name, "%ssubdivision.%d", prefix, i);
        if (level->subdivision_logits) esi_report_decisions(report, name, level->subdivision_logits, level->coords.count * 8);
    }
}

/* ------------------------------------------------------------- writing */

static void put_sampler(esi_json_writer *w, const char *key, const espalier_sampler *s)
{
    esi_json_open(w, key, '{');
    esi_json_put_int(w, "steps", s->steps);
    esi_json_put_number(w, "guidance_strength", s->guidance_strength);
    esi_json_put_number(w, "guidance_rescale", s->guidance_rescale);
    esi_json_put_number(w, "interval_low", s->interval_low);
    esi_json_put_number(w, "interval_high", s->interval_high);
    esi_json_put_number(w, "rescale_t", s->rescale_t);
    esi_json_put_number(w, "sigma_min", s->sigma_min);
    esi_json_close(w, '}');
}

static void put_run(esi_json_writer *w, const espalier_report *r)
{
    esi_json_open(w, "run", '{');
    esi_json_put_string(w, "version", espalier_version());
    esi_json_put_int(w, "arithmetic_version", ESPALIER_ARITHMETIC_VERSION);
    esi_json_put_string(w, "device", r->owner->runtime->device);
    esi_json_put_string(w, "cpu_level", espalier_cpu_level_name(r->owner->runtime->cpu_level));
    esi_json_put_int(w, "threads", espalier_runtime_threads(r->owner->runtime));
    esi_json_put_int(w, "memory_budget", (int64_t)r->owner->budget);
    if (r->has_run) {
        esi_json_put_string(w, "model", r->model_directory);
        esi_json_put_string(w, "pipeline", espalier_pipeline_name(r->pipeline));
        esi_json_put_int(w, "seed", r->seed);
        esi_json_put_string(w, "noise", "pytorch-cpu-mt19937");
        esi_json_put_int(w, "max_tokens", r->max_tokens);
        esi_json_put_bool(w, "texture", r->with_texture);
        esi_json_open(w, "sampler", '{');
        put_sampler(w, "structure", &r->sampler[0]);
        put_sampler(w, "shape", &r->sampler[1]);
        put_sampler(w, "texture", &r->sampler[2]);
        esi_json_close(w, '}');
    }
    esi_json_close(w, '}');
}

static void put_picture(esi_json_writer *w, const espalier_report *r)
{
    esi_json_open(w, "picture", '{');
    esi_json_put_int(w, "width", r->picture_width);
    esi_json_put_int(w, "height", r->picture_height);
    esi_json_put_hash(w, "pixels_hash", r->picture_hash);
    esi_json_put_hash(w, "preprocessed_hash", r->preprocessed_hash);
    esi_json_close(w, '}');
}

static void put_stages(esi_json_writer *w, const espalier_report *r)
{
    esi_json_open(w, "stages", '[');
    for (int i = 0; i < ESI_STAGE_COUNT; i++) {
        const esi_stage_record *s = &r->stage[i];
        if (!s->ran) continue;
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", stage_names[i]);
        esi_json_put_number(w, "seconds", s->seconds);
        esi_json_put_number(w, "cpu_seconds", s->cpu_seconds);
        esi_json_put_int(w, "peak_bytes", (int64_t)s->peak_bytes);
        if (s->planned_bytes) esi_json_put_int(w, "planned_bytes", (int64_t)s->planned_bytes);
        esi_json_put_int(w, "nan", (int64_t)s->nan_count);
        esi_json_put_int(w, "inf", (int64_t)s->inf_count);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
}

static void put_decisions(esi_json_writer *w, const espalier_report *r)
{
    esi_json_open(w, "decisions", '[');
    for (int i = 0; i < r->n_decisions; i++) {
        const esi_decision_stats *s = &r->decision[i].stats;
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", r->decision[i].name);
        esi_json_put_int(w, "count", (int64_t)s->count);
        esi_json_put_number(w, "yes_share", s->count ? (double)s->yes / (double)s->count : 0);
        esi_json_put_int(w, "within_1e-4", (int64_t)s->within_1e4);
        esi_json_put_int(w, "within_1e-3", (int64_t)s->within_1e3);
        esi_json_put_int(w, "within_1e-2", (int64_t)s->within_1e2);
        esi_json_put_number(w, "min_abs", s->min_abs);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
}

static void put_mesh(esi_json_writer *w, const espalier_report *r)
{
    const esi_mesh_metrics *m = &r->mesh;
    esi_json_open(w, "raw_mesh", '{');
    esi_json_put_int(w, "vertices", m->vertices);
    esi_json_put_int(w, "used_vertices", m->used_vertices);
    esi_json_put_int(w, "faces", m->faces);
    esi_json_put_int(w, "edges", m->edges);
    esi_json_put_int(w, "boundary_edges", m->boundary_edges);
    esi_json_put_int(w, "nonmanifold_edges", m->nonmanifold_edges);
    esi_json_put_int(w, "components", m->edge_components);
    esi_json_put_number(w, "largest_component_share", m->faces ? (double)m->largest_edge_component_faces / (double)m->faces : 0);
    esi_json_close(w, '}');
}

static void put_result(esi_json_writer *w, const espalier_report *r)
{
    esi_json_open(w, "result", '{');
    esi_json_put_int(w, "resolution", r->resolution);
    esi_json_put_int(w, "resolution_wanted", r->resolution_wanted);
    esi_json_put_int(w, "structure_tokens", r->tokens_structure);
    esi_json_put_int(w, "shape_tokens", r->tokens_shape);
    esi_json_put_int(w, "voxels", r->voxels);
    esi_json_close(w, '}');
}

static void put_gates(esi_json_writer *w, const espalier_report *r)
{
    esi_json_open(w, "gates", '[');
    for (int i = 0; i < r->n_gates; i++) {
        const esi_gate_record *g = &r->gate[i];
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", g->name);
        esi_json_put_string(w, "stage", g->stage);
        esi_json_put_number(w, "value", g->value);
        esi_json_put_number(w, "limit", g->limit);
        esi_json_put_bool(w, "passed", g->passed);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
}

espalier_status espalier_report_json(espalier_context *ctx, espalier_report *report, const char **json)
{
    if (json) *json = NULL;
    if (!ctx || !report || !json) return esi_refuse_null(ctx, __func__);

    esi_json_writer w = {report->owner, &report->json, false};
    esi_clear_error(ctx);
    esi_text_free(report->owner, &report->json);
    esi_json_open(&w, NULL, '{');
    esi_json_put_int(&w, "report_version", ESI_REPORT_VERSION);
    put_run(&w, report);
    if (report->has_picture) {
        put_picture(&w, report);
        esi_put_matte(&w, "matte", &report->matte, report->matte_file);
    }
    put_stages(&w, report);
    put_decisions(&w, report);
    if (report->has_result) put_result(&w, report);
    if (report->has_mesh) put_mesh(&w, report);
    if (report->has_post) esi_put_post(&w, "post", &report->post);
    put_gates(&w, report);
    esi_json_close(&w, '}');
    esi_text_append(w.ctx, w.text, "\n");
    if (report->json.failed) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory for the report");
    *json = report->json.data;
    return ESPALIER_OK;
}

espalier_status espalier_report_save(espalier_context *ctx, espalier_report *report, const char *path)
{
    const char *json = NULL;
    if (!ctx || !report || !path) return esi_refuse_null(ctx, __func__);
    espalier_status st = espalier_report_json(ctx, report, &json);
    return st == ESPALIER_OK ? esi_file_write_all(ctx, path, json, strlen(json)) : st;
}
