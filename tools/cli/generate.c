/* SPDX-License-Identifier: MIT
 *
 * generate.c: espalier generate: picture in, finished asset or dump out.
 */
#include "generate.h"

#include <stdio.h>
#include <unistd.h>

static void announce(const cli_session *s, const cli_generate_options *o, const espalier_generate_params *p, const char *models,
                     const char *what)
{
    const char *device = espalier_runtime_device(s->runtime);

    if (o->common.json) {
        printf("{\"type\": \"start\", \"version\": \"%s\", \"seed\": %lld, \"pipeline\": \"%s\", \"models\": ", espalier_version(),
               (long long)p->seed, espalier_pipeline_name(p->pipeline));
        cli_print_json_string(models);
        printf(", \"models_are\": ");
        cli_print_json_string(what);
        printf(", \"device\": ");
        cli_print_json_string(device);
        printf("}\n");
    } else if (!o->common.quiet) {
        printf("models: %s (%s)\nseed: %lld, pipeline: %s, device: %s\n", models, what, (long long)p->seed,
               espalier_pipeline_name(p->pipeline), device);
    }
    fflush(stdout);
}

static void conclude(const cli_generate_options *o, const espalier_asset *asset, const espalier_mesh *mesh, double seconds)
{
    const espalier_asset_view v = espalier_asset_get(asset);
    const espalier_mesh_view m = espalier_mesh_get(mesh);
    const char *paths[CLI_MAX_OUTPUTS + 2];
    int n = 0;

    for (int i = 0; i < o->outputs.count; i++) paths[n++] = o->outputs.path[i];
    if (o->dump) paths[n++] = o->dump;
    if (o->report) paths[n++] = o->report;
    if (o->common.json) {
        printf("{\"type\": \"done\", \"vertices\": %lld, \"faces\": %lld, \"raw_faces\": %lld, \"voxels\": %lld, "
               "\"resolution\": %lld, \"seconds\": %.3f, \"files\": [",
               (long long)(mesh ? m.vertex_count : v.vertex_count), (long long)(mesh ? m.face_count : v.face_count),
               (long long)v.face_count, (long long)v.voxel_count, (long long)v.resolution, seconds);
        for (int i = 0; i < n; i++) {
            if (i) fputs(", ", stdout);
            cli_print_json_string(paths[i]);
        }
        printf("]}\n");
    } else if (!o->common.quiet) {
        printf("%lld voxels at resolution %lld, %lld raw faces", (long long)v.voxel_count, (long long)v.resolution,
               (long long)v.face_count);
        if (mesh) printf(", %lld faces", (long long)m.face_count);
        printf(", %.1f s\n", seconds);
        for (int i = 0; i < n; i++) printf("wrote %s\n", paths[i]);
    }
    fflush(stdout);
}

/* All results, each whole or not at all. A cancelled run leaves none of them; a full disk leaves those that were finished before. */
static espalier_status save(cli_session *s, const cli_generate_options *o, const espalier_asset *asset, const espalier_mesh *mesh,
                            espalier_report *report)
{
    espalier_status st = o->dump ? espalier_asset_dump(s->ctx, asset, o->dump) : ESPALIER_OK;

    if (st != ESPALIER_OK) return st;
    if (mesh) st = cli_outputs_save(s, &o->outputs, mesh, &o->finish.save);
    if (st == ESPALIER_OK && o->report) st = espalier_report_save(s->ctx, report, o->report);
    if (st == ESPALIER_ERR_CANCELLED && o->dump) unlink(o->dump);
    return st;
}

static int run(cli_session *s, const cli_generate_options *o, const espalier_model *model, const espalier_image *picture,
               espalier_matting *matting, espalier_generate_params *p)
{
    espalier_asset *asset = NULL;
    espalier_mesh *mesh = NULL;
    espalier_report *report = NULL;
    espalier_post_options post = o->finish.post;
    uint64_t largest = 0;
    double start = cli_now();
    int status = 0;
    espalier_status st;

    st = espalier_report_create(s->ctx, &report);
    if (st != ESPALIER_OK) goto done;
    p->report = post.report = report;
    st = espalier_memory_plan(s->ctx, model, p, &largest);
    if (st != ESPALIER_OK) goto done;
    espalier_context_set_progress(s->ctx, cli_progress_update, &s->progress);
    st = espalier_generate(s->ctx, &asset, model, picture, matting, o->image, p);
    if (st == ESPALIER_OK && o->outputs.count) st = espalier_post(s->ctx, &mesh, asset, &post);
    cli_progress_end(&s->progress);
    if (st == ESPALIER_OK) st = save(s, o, asset, mesh, report);
    if (st == ESPALIER_OK) conclude(o, asset, mesh, cli_now() - start);
done:
    if (st != ESPALIER_OK) {
        status = cli_report_error(s, st);
        /* The report of an unsound run tells why; the first error counts. */
        if (st == ESPALIER_ERR_SOUNDNESS && o->report && espalier_report_save(s->ctx, report, o->report) != ESPALIER_OK)
            fprintf(stderr, "espalier: %s\n", espalier_error_message(s->ctx));
    }
    espalier_mesh_free(mesh);
    espalier_asset_free(asset);
    espalier_report_free(report);
    return status;
}

/* Opened and complete for what is asked. */
static espalier_status open_model(cli_session *s, const cli_generate_options *o, const char *directory, espalier_model **model,
                                  espalier_generate_params *params)
{
    espalier_model_options options = espalier_model_options_default();
    options.overrides = o->n_weights ? o->weights : NULL;
    espalier_status st = espalier_model_open(s->ctx, model, directory, &options);
    if (st != ESPALIER_OK) return st;
    cli_generate_params(o, params, *model);
    return espalier_model_require(s->ctx, *model, params->pipeline, params->with_texture);
}

int cli_generate(int argc, char **argv)
{
    cli_generate_options o = {.seed = 42};
    espalier_generate_params params;
    cli_session s;
    espalier_model *model = NULL;
    espalier_matting *matting = NULL;
    espalier_image picture = {0};
    const char *what = NULL;
    int status = cli_generate_parse(&o, argc, argv);

    if (status) return status == CLI_DONE ? cli_flush() : status;
    if ((status = cli_open(&s, &o.common, cli_progress_choose(o.common.quiet, o.common.json))) != 0) return status;
    cli_catch_signals(s.ctx);
    espalier_status st = espalier_image_load(s.ctx, &picture, o.image);
    if (st != ESPALIER_OK) {
        status = cli_report_error(&s, st);
        goto done;
    }
    const cli_model_wish wish = {o.models, cli_generate_pipeline(&o), !o.no_texture};
    const char *models = cli_find_models(&s, &wish, &what);
    if (!models) {
        status = ESPALIER_ERR_MODEL;
        goto done;
    }
    st = open_model(&s, &o, models, &model, &params);
    if (st == ESPALIER_OK) st = cli_matting_create(&s, &o.matting, o.models, espalier_model_directory(model), &matting);
    if (st != ESPALIER_OK) {
        status = cli_report_error(&s, st);
        goto done;
    }
    announce(&s, &o, &params, models, what);
    status = run(&s, &o, model, &picture, matting, &params);
done:
    espalier_image_free(&picture);
    espalier_matting_free(matting);
    espalier_model_free(model);
    cli_close(&s);
    return status;
}
