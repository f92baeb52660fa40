/* SPDX-License-Identifier: MIT
 *
 * generate.c: espalier generate: picture in, GLB or dump out.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: espalier generate [options] PICTURE -o OUT.glb\n"
    "\n"
    "Turn one picture (PNG, JPEG, WebP) of an object into a 3D asset. The same model files, picture and seed give the same bits on every machine.\n"
    "\n"
    "  -i, --image FILE         the picture, if not given as an argument; it needs transparency around the object\n"
    "  -o, --output FILE.glb    GLB with a colour per vertex\n"
    "      --dump-post FILE     raw mesh and PBR voxels for other tools: .espd (lossless), .qtm3d, else trellis.cpp's layout;\n"
    "                           alone it writes no GLB\n"
    "      --report FILE.json   times, memory, knife-edge decisions, soundness of the mesh\n"
    "  -m, --models DIR         TRELLIS.2 files: Hugging Face (pipeline.json) or GGUF directory\n"
    "      --weights ROLE=FILE  use FILE for one role (see 'espalier inspect DIR' for the roles)\n"
    "  -s, --seed N             default 42\n"
    "      --res N              512, 1024 or 1536 (the latter two are the cascades)\n"
    "      --pipeline NAME      512, 1024, 1024_cascade, 1536_cascade; wins over --res; default: the model's\n"
    "      --set STAGE.PARAM=V  STAGE: ss, shape, tex; PARAM: steps, guidance_strength, guidance_rescale, interval_low, interval_high,\n"
    "                           rescale_t, sigma_min\n"
    "      --steps N            steps of all three stages\n"
    "      --gss X, --gsh X     guidance strength of the structure and of the shape stage\n"
    "      --max-tokens N       token budget of a cascade (default 49152)\n"
    "      --no-texture         geometry only\n"
    "      --matte MODE         alpha: the picture must have transparency (default); none: take it whole (also --allow-opaque)\n"
    "      --force              go on although a soundness check fails\n"
    "      --threads N          default: all cores\n"
    "      --cpu-level LEVEL    generic, generic-fma, avx2, avx512, neon: the highest kernels to use (the bits are the same)\n"
    "      --mem-budget SIZE    such as 6G: work in smaller pieces to stay below\n"
    "      --quiet              only errors and warnings\n"
    "      --json               progress and result as JSON lines\n"
    "  -h, --help, --version\n"
    "\n"
    "exit status: 0 done, 2 usage, 3 input, 4 model, 5 memory or limits, 6 internal, 7 output, 8 device, 9 unsound result, 130/143 cancelled\n";

#define MAX_SETTINGS 64
#define MAX_WEIGHTS 16

typedef struct generate_options {
    cli_common common;
    const char *image, *output, *dump, *report, *models;
    const char *weights[2 * MAX_WEIGHTS + 1];
    int n_weights;
    char weight_text[MAX_WEIGHTS][1024];
    const char *settings[MAX_SETTINGS];          /* "stage.param=value", in order */
    int n_settings;
    char guidance[2][64];
    int64_t seed, steps, max_tokens;
    espalier_pipeline_type pipeline, resolution;
    bool no_texture, opaque, force, json;
} generate_options;

enum {
    OPT_DUMP = CLI_OPT_FIRST_FREE, OPT_REPORT, OPT_WEIGHTS, OPT_RES, OPT_PIPELINE, OPT_SET, OPT_STEPS, OPT_GSS, OPT_GSH, OPT_MAX_TOKENS,
    OPT_NO_TEXTURE, OPT_MATTE, OPT_ALLOW_OPAQUE, OPT_FORCE
};

/* ------------------------------------------------------------- options */

/* Apply "ss.steps=20" to the parameters. 0 or 2. */
static int apply_setting(espalier_generate_params *p, const char *text)
{
    static const char *const stages[] = {"ss", "shape", "tex"};
    espalier_sampler *samplers[] = {&p->structure, &p->shape, &p->texture};
    const char *dot = strchr(text, '.'), *equal = strchr(text, '=');
    espalier_sampler *s = NULL;
    int64_t steps = 0;

    if (!dot || !equal || dot > equal) return cli_usage_error("generate", "--set '%s' is not STAGE.PARAM=VALUE", text);
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++)
        if (strlen(stages[i]) == (size_t)(dot - text) && strncmp(stages[i], text, (size_t)(dot - text)) == 0) s = samplers[i];
    if (!s) return cli_usage_error("generate", "--set '%s': the stage is none of ss, shape, tex", text);

    const struct {
        const char *name;
        double *value, low, high;
    } params[] = {
        {"guidance_strength", &s->guidance_strength, 0, 1000}, {"guidance_rescale", &s->guidance_rescale, 0, 1},
        {"interval_low", &s->interval_low, -1, 2},             {"interval_high", &s->interval_high, -1, 2},
        {"rescale_t", &s->rescale_t, 1e-3, 1000},              {"sigma_min", &s->sigma_min, 0, 0.5},
    };
    const char *name = dot + 1, *value = equal + 1;
    size_t len = (size_t)(equal - name);
    if (len == 5 && strncmp(name, "steps", len) == 0) {
        if (!cli_parse_int(value, 1, 1000, &steps)) return cli_usage_error("generate", "--set '%s': steps go from 1 to 1000", text);
        s->steps = (int32_t)steps;
        return 0;
    }
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++) {
        if (strlen(params[i].name) != len || strncmp(params[i].name, name, len) != 0) continue;
        if (!cli_parse_double(value, params[i].low, params[i].high, params[i].value))
            return cli_usage_error("generate", "--set '%s': the value is not between %g and %g", text, params[i].low, params[i].high);
        return 0;
    }
    return cli_usage_error("generate", "--set '%s': unknown parameter", text);
}

static int add_setting(generate_options *o, const char *text)
{
    if (o->n_settings == MAX_SETTINGS) return cli_usage_error("generate", "more than %d settings", MAX_SETTINGS);
    o->settings[o->n_settings++] = text;
    return 0;
}

static int add_guidance(generate_options *o, int which, const char *value)
{
    snprintf(o->guidance[which], sizeof o->guidance[which], "%s.guidance_strength=%.32s", which == 0 ? "ss" : "shape", value);
    return add_setting(o, o->guidance[which]);
}

static int add_weights(generate_options *o, const char *text)
{
    const char *equal = strchr(text, '=');
    if (o->n_weights == MAX_WEIGHTS) return cli_usage_error("generate", "more than %d --weights", MAX_WEIGHTS);
    if (!equal || equal == text || !equal[1] || strlen(text) >= sizeof o->weight_text[0])
        return cli_usage_error("generate", "--weights '%s' is not ROLE=FILE", text);
    char *copy = o->weight_text[o->n_weights];
    strcpy(copy, text);
    copy[equal - text] = 0;
    o->weights[2 * o->n_weights] = copy;
    o->weights[2 * o->n_weights + 1] = copy + (equal - text) + 1;
    o->n_weights++;
    return 0;
}

static int parse_resolution(generate_options *o, const char *text)
{
    if (strcmp(text, "512") == 0) o->resolution = ESPALIER_PIPELINE_512;
    else if (strcmp(text, "1024") == 0) o->resolution = ESPALIER_PIPELINE_1024_CASCADE;
    else if (strcmp(text, "1536") == 0) o->resolution = ESPALIER_PIPELINE_1536_CASCADE;
    else return cli_usage_error("generate", "--res '%s' is none of 512, 1024, 1536", text);
    return 0;
}

static int parse_option(generate_options *o, int c, const char *value)
{
    switch (c) {
    case 'i': o->image = value; return 0;
    case 'o': o->output = value; return 0;
    case 'm': o->models = value; return 0;
    case 's':
        if (!cli_parse_int(value, INT64_MIN, INT64_MAX, &o->seed)) return cli_usage_error("generate", "--seed '%s' is not a whole number", value);
        return 0;
    case OPT_DUMP: o->dump = value; return 0;
    case OPT_REPORT: o->report = value; return 0;
    case OPT_WEIGHTS: return add_weights(o, value);
    case OPT_RES: return parse_resolution(o, value);
    case OPT_PIPELINE:
        if (espalier_pipeline_parse(&o->pipeline, value) != ESPALIER_OK || o->pipeline == ESPALIER_PIPELINE_DEFAULT)
            return cli_usage_error("generate", "--pipeline '%s' is none of 512, 1024, 1024_cascade, 1536_cascade", value);
        return 0;
    case OPT_SET: return add_setting(o, value);
    case OPT_STEPS:
        if (!cli_parse_int(value, 1, 1000, &o->steps)) return cli_usage_error("generate", "--steps '%s' is not a number from 1 to 1000", value);
        return 0;
    case OPT_GSS: return add_guidance(o, 0, value);
    case OPT_GSH: return add_guidance(o, 1, value);
    case OPT_MAX_TOKENS:
        if (!cli_parse_int(value, 1, 16777216, &o->max_tokens))
            return cli_usage_error("generate", "--max-tokens '%s' is not a number from 1 to 16777216", value);
        return 0;
    case OPT_NO_TEXTURE: o->no_texture = true; return 0;
    case OPT_ALLOW_OPAQUE: o->opaque = true; return 0;
    case OPT_MATTE:
        if (strcmp(value, "none") == 0) o->opaque = true;
        else if (strcmp(value, "alpha") == 0) o->opaque = false;
        else return cli_usage_error("generate", "--matte '%s' is none of alpha, none", value);
        return 0;
    case OPT_FORCE: o->force = true; return 0;
    case CLI_OPT_JSON: o->json = true; return 0;
    default: return cli_common_option(&o->common, "generate", c, value);
    }
}

/* 0 = go on, 1 = done (help, version), 2 = usage error. */
static int parse_options(generate_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"image", required_argument, NULL, 'i'}, {"output", required_argument, NULL, 'o'}, {"models", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 's'}, {"dump-post", required_argument, NULL, OPT_DUMP},
        {"report", required_argument, NULL, OPT_REPORT}, {"weights", required_argument, NULL, OPT_WEIGHTS},
        {"res", required_argument, NULL, OPT_RES}, {"pipeline", required_argument, NULL, OPT_PIPELINE},
        {"set", required_argument, NULL, OPT_SET}, {"steps", required_argument, NULL, OPT_STEPS},
        {"gss", required_argument, NULL, OPT_GSS}, {"gsh", required_argument, NULL, OPT_GSH},
        {"max-tokens", required_argument, NULL, OPT_MAX_TOKENS}, {"no-texture", no_argument, NULL, OPT_NO_TEXTURE},
        {"matte", required_argument, NULL, OPT_MATTE}, {"allow-opaque", no_argument, NULL, OPT_ALLOW_OPAQUE},
        {"force", no_argument, NULL, OPT_FORCE}, CLI_COMMON_OPTIONS, {NULL, 0, NULL, 0},
    };
    int c, status;
    while ((c = getopt_long(argc, argv, ":hi:o:m:s:", options, NULL)) != -1) {
        if (c == 'h') return fputs(help, stdout), 1;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), 1;
        if (c == '?' || c == ':') return cli_bad_option("generate", argv, c);
        if ((status = parse_option(o, c, optarg)) != 0) return status;
    }
    if (optind < argc && !o->image) o->image = argv[optind++];
    if (optind < argc) return cli_usage_error("generate", "unexpected argument '%s'", argv[optind]);
    if (!o->image) return cli_usage_error("generate", "name a picture");
    if (!o->output && !o->dump) return cli_usage_error("generate", "name the result with -o FILE.glb or --dump-post FILE");
    size_t len = o->output ? strlen(o->output) : 0;
    if (o->output && (len < 5 || strcmp(o->output + len - 4, ".glb") != 0))
        return cli_usage_error("generate", "-o '%s' does not end in .glb", o->output);
    return 0;
}

static int make_params(const generate_options *o, espalier_generate_params *p, const espalier_model *model)
{
    *p = espalier_generate_params_default(model);
    p->seed = o->seed;
    if (o->resolution) p->pipeline = o->resolution;
    if (o->pipeline) p->pipeline = o->pipeline;
    if (o->max_tokens) p->max_tokens = o->max_tokens;
    p->with_texture = !o->no_texture;
    p->force = o->force;
    if (o->steps) p->structure.steps = p->shape.steps = p->texture.steps = (int32_t)o->steps;
    for (int i = 0; i < o->n_settings; i++) {
        int status = apply_setting(p, o->settings[i]);
        if (status) return status;
    }
    return 0;
}

/* ------------------------------------------------------------- the run */

/* A result that cannot be written should not cost an hour of computing: the folder must exist and be writable now. */
static int check_output(const char *path)
{
    char dir[4096];
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct stat info;
    if (!path) return 0;
    if (!slash) return 0;
    snprintf(dir, sizeof dir, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode)) {
        fprintf(stderr, "espalier: %s: no such directory to write to\n", dir);
        return ESPALIER_ERR_OUTPUT;
    }
    return 0;
}

static void announce(const generate_options *o, const espalier_generate_params *p, const char *models, const char *what)
{
    if (o->json) {
        printf("{\"type\": \"start\", \"version\": \"%s\", \"seed\": %lld, \"pipeline\": \"%s\", \"models\": ", espalier_version(), (long long)p->seed,
               espalier_pipeline_name(p->pipeline));
        cli_print_json_string(models);
        printf("}\n");
    } else if (!o->common.quiet) {
        printf("models: %s (%s)\nseed: %lld, pipeline: %s\n", models, what, (long long)p->seed, espalier_pipeline_name(p->pipeline));
    }
    fflush(stdout);
}

static void conclude(const generate_options *o, const espalier_asset *asset, double seconds)
{
    espalier_asset_view v = espalier_asset_get(asset);
    const char *paths[] = {o->output, o->dump, o->report};
    if (o->json) {
        printf("{\"type\": \"done\", \"vertices\": %lld, \"faces\": %lld, \"voxels\": %lld, \"resolution\": %lld, \"seconds\": %.3f, \"files\": [",
               (long long)v.vertex_count, (long long)v.face_count, (long long)v.vertex_count, (long long)v.resolution, seconds);
        const char *comma = "";
        for (int i = 0; i < 3; i++) {
            if (!paths[i]) continue;
            fputs(comma, stdout);
            cli_print_json_string(paths[i]);
            comma = ", ";
        }
        printf("]}\n");
    } else if (!o->common.quiet) {
        printf("%lld voxels at resolution %lld, %lld faces, %.1f s\n", (long long)v.vertex_count, (long long)v.resolution, (long long)v.face_count, seconds);
        for (int i = 0; i < 3; i++)
            if (paths[i]) printf("wrote %s\n", paths[i]);
    }
    fflush(stdout);
}

static espalier_status run(cli_session *s, const generate_options *o, const espalier_model *model, espalier_generate_params *p)
{
    espalier_image picture = {0};
    espalier_asset *asset = NULL;
    espalier_report *report = NULL;
    cli_progress progress = {.style = cli_progress_choose(o->common.quiet, o->json)};
    uint64_t largest = 0;
    double start = cli_now();
    espalier_status st;

    st = espalier_image_load(s->ctx, &picture, o->image);
    if (st != ESPALIER_OK) goto done;
    st = espalier_report_create(s->ctx, &report);
    if (st != ESPALIER_OK) goto done;
    p->report = report;
    st = espalier_memory_plan(s->ctx, model, p, &largest);
    if (st != ESPALIER_OK) goto done;
    espalier_context_set_progress(s->ctx, cli_progress_update, &progress);
    st = espalier_generate(s->ctx, &asset, model, &picture, o->opaque ? ESPALIER_MATTE_NONE : ESPALIER_MATTE_ALPHA, o->image, p);
    cli_progress_end(&progress);
    /* A failed run's report tells why; it is written too, without hiding the first error. */
    if (st != ESPALIER_OK) {
        int status = cli_report_error(s->ctx, st);
        if (o->report && st == ESPALIER_ERR_SOUNDNESS) espalier_report_save(s->ctx, report, o->report);
        espalier_report_free(report);
        espalier_image_free(&picture);
        return (espalier_status)status;
    }
    if (st == ESPALIER_OK && o->output) st = espalier_asset_save_glb(s->ctx, asset, o->output);
    if (st == ESPALIER_OK && o->dump) st = espalier_asset_dump(s->ctx, asset, o->dump);
    if (st == ESPALIER_OK && o->report) st = espalier_report_save(s->ctx, report, o->report);
    if (st == ESPALIER_OK) conclude(o, asset, cli_now() - start);
done:
    if (st != ESPALIER_OK) st = (espalier_status)cli_report_error(s->ctx, st);
    espalier_asset_free(asset);
    espalier_report_free(report);
    espalier_image_free(&picture);
    return st;
}

int cli_generate(int argc, char **argv)
{
    generate_options o = {.seed = 42};
    espalier_generate_params params;
    cli_session s;
    espalier_model *model = NULL;
    const char *models = NULL, *what = NULL;
    int status = parse_options(&o, argc, argv);

    if (status) return status == 1 ? 0 : status;
    if ((status = check_output(o.output)) || (status = check_output(o.dump)) || (status = check_output(o.report))) return status;
    if ((status = cli_open(&s, &o.common)) != 0) return status;
    cli_catch_signals(s.ctx);
    models = cli_find_models(s.ctx, o.models, &what);
    if (!models) {
        status = ESPALIER_ERR_MODEL;
        goto done;
    }
    espalier_model_options options = espalier_model_options_default();
    options.overrides = o.n_weights ? o.weights : NULL;
    espalier_status st = espalier_model_open(s.ctx, &model, models, &options);
    if (st == ESPALIER_OK) {
        status = make_params(&o, &params, model);
        if (status) goto done;
        st = espalier_model_require(s.ctx, model, params.pipeline, params.with_texture);
    }
    if (st != ESPALIER_OK) {
        status = cli_report_error(s.ctx, st);
        goto done;
    }
    announce(&o, &params, models, what);
    status = (int)run(&s, &o, model, &params);
done:
    espalier_model_free(model);
    cli_close(&s);
    return status;
}
