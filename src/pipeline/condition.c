/* SPDX-License-Identifier: MIT
 *
 * condition.c: the first two stages, picture -> square on black -> image tokens.
 */
#include "pipeline/cut.h"
#include "pipeline/report.h"
#include "pipeline/stages.h"

#include "formats/image_codecs.h"
#include "formats/preprocess.h"

static espalier_status note_picture(espalier_report *report, const espalier_image *picture, const espalier_image *square,
                                    const espalier_matte_stats *matte)
{
    if (!report) return ESPALIER_OK;
    esi_free(report->owner, report->matte_file);
    report->matte_file = matte->network_file ? esi_strdup(report->owner, matte->network_file) : NULL;
    if (matte->network_file && !report->matte_file) return ESPALIER_ERR_RESOURCE;
    report->has_picture = true;
    report->picture_width = picture->width;
    report->picture_height = picture->height;
    report->picture_hash = esi_image_hash(picture);
    report->preprocessed_hash = esi_image_hash(square);
    report->matte = *matte;
    report->matte.network_file = NULL;
    return ESPALIER_OK;
}

espalier_status espalier_preprocess(espalier_context *ctx, espalier_image *out, const espalier_image *picture, espalier_matting *matting,
                                    const char *name, espalier_report *report)
{
    esi_fp_state fp;
    if (out) memset(out, 0, sizeof *out);
    if (!ctx || !out || !picture) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    esi_stage_timer timer = esi_stage_begin(ctx, report, ESI_STAGE_PREPROCESS);
    esi_cut cut = {.matting = matting, .name = name};
    esi_matte_source source;

    espalier_status st = esi_progress(ctx, "preprocess", 0, 1);
    if (st == ESPALIER_OK) st = esi_cut_begin(ctx, &cut, &source, picture);
    if (st == ESPALIER_OK) st = esi_preprocess(ctx, out, picture, &source, NULL);
    if (st == ESPALIER_OK) st = note_picture(report, picture, out, &cut.stats);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "preprocess", 1, 1);
    if (st != ESPALIER_OK) espalier_image_free(out);
    if (matting && matting->network) esi_matting_rest(matting->network);
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}

espalier_status esi_condition_new(espalier_context *ctx, espalier_condition **out)
{
    *out = esi_calloc(ctx, 1, sizeof **out, "condition");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    (*out)->owner = esi_context_retain(ctx);
    return ESPALIER_OK;
}

void espalier_condition_free(espalier_condition *c)
{
    if (!c) return;
    espalier_context *owner = c->owner;
    for (int i = 0; i < 2; i++) esi_free(owner, c->view[i].tokens);
    esi_free(owner, c);
    espalier_context_free(owner);
}

espalier_status espalier_condition_create(espalier_context *ctx, espalier_condition **out, const espalier_model *model,
                                          const espalier_image *picture, int with_1024, espalier_report *report)
{
    esi_fp_state fp;
    if (out) *out = NULL;
    if (!ctx || !out || !model || !picture) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    esi_stage_timer timer = esi_stage_begin(ctx, report, ESI_STAGE_CONDITION);
    const esi_stage_table *stages = esi_stages(ctx);
    int views = with_1024 ? 2 : 1;
    espalier_condition *c = NULL;

    espalier_status st = esi_condition_new(ctx, &c);
    for (int i = 0; st == ESPALIER_OK && i < views; i++) {
        st = esi_progress(ctx, "condition", (uint64_t)i, (uint64_t)views);
        if (st == ESPALIER_OK)
            st = stages->image_condition(stages->user, ctx, model, picture, model->settings.image_size << i, &c->view[i]);
        if (st == ESPALIER_OK)
            st = esi_gate_finite(ctx, report, ESI_STAGE_CONDITION, c->view[i].tokens, c->view[i].rows * c->view[i].channels, ESI_GATE_ENDS);
    }
    if (st == ESPALIER_OK) st = esi_progress(ctx, "condition", (uint64_t)views, (uint64_t)views);
    if (st == ESPALIER_OK)
        *out = c;
    else
        espalier_condition_free(c);
    return esi_leave(ctx, &fp, esi_stage_end(ctx, &timer, st));
}

const float *espalier_condition_tokens(const espalier_condition *c, int view, int64_t *rows, int64_t *channels)
{
    const esi_condition_view *v = c && (view == 0 || view == 1) ? &c->view[view] : NULL;
    if (rows) *rows = v ? v->rows : 0;
    if (channels) *channels = v ? v->channels : 0;
    return v ? v->tokens : NULL;
}
