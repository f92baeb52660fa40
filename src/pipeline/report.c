/* SPDX-License-Identifier: MIT
 *
 * report.c: collecting the facts of a run and writing them as JSON.
 */
#include "pipeline/report.h"

#include "base/context.h"

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

espalier_status esi_gate(espalier_context *ctx, espalier_report *report, esi_stage stage, const char *name, double value, double limit,
                         bool passed, bool force, const char *text)
{
    if (report && report->n_gates < ESI_MAX_GATES)
        report->gate[report->n_gates++] = (esi_gate_record){name, stage_names[stage], value, limit, passed};
    if (passed) return ESPALIER_OK;
    if (!force) return esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: %s; --force goes on all the same", stage_names[stage], text);
    esi_log(ctx, ESPALIER_LOG_WARNING, "%s: %s; going on as asked", stage_names[stage], text);
    return ESPALIER_OK;
}

espalier_status esi_gate_finite(espalier_context *ctx, espalier_report *report, esi_stage stage, const float *values, int64_t count, bool force)
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
    if (nan_count + inf_count == 0) return ESPALIER_OK;
    char text[128];
    snprintf(text, sizeof text, "%" PRIu64 " NaN and %" PRIu64 " infinite values of %lld in the output", nan_count, inf_count, (long long)count);
    return esi_gate(ctx, report, stage, "nan", (double)(nan_count + inf_count), 0, false, force, text);
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

/* ------------------------------------------------------------- writing */

typedef struct writer {
    espalier_context *ctx;
    esi_text *t;
    bool comma;
} writer;

static void put_key(writer *w, const char *key)
{
    esi_text_append(w->ctx, w->t, "%s\n", w->comma ? "," : "");
    if (key) {
        esi_text_append_json_string(w->ctx, w->t, key);
        esi_text_append(w->ctx, w->t, ": ");
    }
    w->comma = true;
}

static void put_number(writer *w, const char *key, double v)
{
    put_key(w, key);
    esi_text_append_json_number(w->ctx, w->t, v);
}

static void put_int(writer *w, const char *key, int64_t v)
{
    put_key(w, key);
    esi_text_append(w->ctx, w->t, "%" PRId64, v);
}

static void put_string(writer *w, const char *key, const char *v)
{
    put_key(w, key);
    esi_text_append_json_string(w->ctx, w->t, v);
}

static void put_bool(writer *w, const char *key, bool v)
{
    put_key(w, key);
    esi_text_append(w->ctx, w->t, "%s", v ? "true" : "false");
}

static void put_hash(writer *w, const char *key, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, v);
    put_string(w, key, text);
}

static void open_group(writer *w, const char *key, char bracket)
{
    put_key(w, key);
    esi_text_append(w->ctx, w->t, "%c", bracket);
    w->comma = false;
}

static void close_group(writer *w, char bracket)
{
    esi_text_append(w->ctx, w->t, "\n%c", bracket);
    w->comma = true;
}

static void put_sampler(writer *w, const char *key, const espalier_sampler *s)
{
    open_group(w, key, '{');
    put_int(w, "steps", s->steps);
    put_number(w, "guidance_strength", s->guidance_strength);
    put_number(w, "guidance_rescale", s->guidance_rescale);
    put_number(w, "interval_low", s->interval_low);
    put_number(w, "interval_high", s->interval_high);
    put_number(w, "rescale_t", s->rescale_t);
    put_number(w, "sigma_min", s->sigma_min);
    close_group(w, '}');
}

static void put_run(writer *w, const espalier_report *r)
{
    open_group(w, "run", '{');
    put_string(w, "version", espalier_version());
    put_int(w, "arithmetic_version", ESPALIER_ARITHMETIC_VERSION);
    put_string(w, "device", "cpu");
    put_string(w, "cpu_level", espalier_cpu_level_name(r->owner->runtime->cpu_level));
    put_int(w, "threads", espalier_runtime_threads(r->owner->runtime));
    put_int(w, "memory_budget", (int64_t)r->owner->budget);
    if (r->has_run) {
        put_string(w, "model", r->model_directory);
        put_string(w, "pipeline", espalier_pipeline_name(r->pipeline));
        put_int(w, "seed", r->seed);
        put_string(w, "noise", "pytorch-cpu-mt19937");
        put_int(w, "max_tokens", r->max_tokens);
        put_bool(w, "texture", r->with_texture);
        open_group(w, "sampler", '{');
        put_sampler(w, "structure", &r->sampler[0]);
        put_sampler(w, "shape", &r->sampler[1]);
        put_sampler(w, "texture", &r->sampler[2]);
        close_group(w, '}');
    }
    close_group(w, '}');
}

static void put_picture(writer *w, const espalier_report *r)
{
    open_group(w, "picture", '{');
    put_int(w, "width", r->picture_width);
    put_int(w, "height", r->picture_height);
    put_hash(w, "pixels_hash", r->picture_hash);
    put_hash(w, "preprocessed_hash", r->preprocessed_hash);
    close_group(w, '}');
}

static void put_stages(writer *w, const espalier_report *r)
{
    open_group(w, "stages", '[');
    for (int i = 0; i < ESI_STAGE_COUNT; i++) {
        const esi_stage_record *s = &r->stage[i];
        if (!s->ran) continue;
        open_group(w, NULL, '{');
        put_string(w, "name", stage_names[i]);
        put_number(w, "seconds", s->seconds);
        put_number(w, "cpu_seconds", s->cpu_seconds);
        put_int(w, "peak_bytes", (int64_t)s->peak_bytes);
        if (s->planned_bytes) put_int(w, "planned_bytes", (int64_t)s->planned_bytes);
        put_int(w, "nan", (int64_t)s->nan_count);
        put_int(w, "inf", (int64_t)s->inf_count);
        close_group(w, '}');
    }
    close_group(w, ']');
}

static void put_decisions(writer *w, const espalier_report *r)
{
    open_group(w, "decisions", '[');
    for (int i = 0; i < r->n_decisions; i++) {
        const esi_decision_stats *s = &r->decision[i].stats;
        open_group(w, NULL, '{');
        put_string(w, "name", r->decision[i].name);
        put_int(w, "count", (int64_t)s->count);
        put_number(w, "yes_share", s->count ? (double)s->yes / (double)s->count : 0);
        put_int(w, "within_1e-4", (int64_t)s->within_1e4);
        put_int(w, "within_1e-3", (int64_t)s->within_1e3);
        put_int(w, "within_1e-2", (int64_t)s->within_1e2);
        put_number(w, "min_abs", s->min_abs);
        close_group(w, '}');
    }
    close_group(w, ']');
}

static void put_mesh(writer *w, const espalier_report *r)
{
    const esi_mesh_stats *m = &r->mesh;
    open_group(w, "raw_mesh", '{');
    put_int(w, "vertices", (int64_t)m->vertices);
    put_int(w, "used_vertices", (int64_t)m->used_vertices);
    put_int(w, "faces", (int64_t)m->faces);
    put_int(w, "edges", (int64_t)m->edges);
    put_int(w, "boundary_edges", (int64_t)m->boundary_edges);
    put_int(w, "nonmanifold_edges", (int64_t)m->nonmanifold_edges);
    put_int(w, "components", (int64_t)m->components);
    put_number(w, "largest_component_share", m->faces ? (double)m->largest_component_faces / (double)m->faces : 0);
    close_group(w, '}');
}

static void put_result(writer *w, const espalier_report *r)
{
    open_group(w, "result", '{');
    put_int(w, "resolution", r->resolution);
    put_int(w, "resolution_wanted", r->resolution_wanted);
    put_int(w, "structure_tokens", r->tokens_structure);
    put_int(w, "shape_tokens", r->tokens_shape);
    put_int(w, "voxels", r->voxels);
    close_group(w, '}');
}

static void put_gates(writer *w, const espalier_report *r)
{
    open_group(w, "gates", '[');
    for (int i = 0; i < r->n_gates; i++) {
        const esi_gate_record *g = &r->gate[i];
        open_group(w, NULL, '{');
        put_string(w, "name", g->name);
        put_string(w, "stage", g->stage);
        put_number(w, "value", g->value);
        put_number(w, "limit", g->limit);
        put_bool(w, "passed", g->passed);
        close_group(w, '}');
    }
    close_group(w, ']');
}

espalier_status espalier_report_json(espalier_context *ctx, espalier_report *report, const char **json)
{
    writer w = {report->owner, &report->json, false};

    esi_clear_error(ctx);
    *json = NULL;
    esi_text_free(report->owner, &report->json);
    esi_text_append(w.ctx, w.t, "{");
    put_int(&w, "report_version", ESI_REPORT_VERSION);
    put_run(&w, report);
    if (report->has_picture) put_picture(&w, report);
    put_stages(&w, report);
    put_decisions(&w, report);
    if (report->has_result) put_result(&w, report);
    if (report->has_mesh) put_mesh(&w, report);
    put_gates(&w, report);
    esi_text_append(w.ctx, w.t, "\n}\n");
    if (report->json.failed) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory for the report");
    *json = report->json.data;
    return ESPALIER_OK;
}

espalier_status espalier_report_save(espalier_context *ctx, espalier_report *report, const char *path)
{
    const char *json = NULL;
    espalier_status st = espalier_report_json(ctx, report, &json);
    return st == ESPALIER_OK ? esi_file_write_all(ctx, path, json, strlen(json)) : st;
}
