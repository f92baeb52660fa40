/* SPDX-License-Identifier: MIT
 *
 * generate_options.c: reading and checking the options of espalier generate, before any model is opened: a typing error must not cost
 * minutes.
 */
#include "generate.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: espalier generate [options] PICTURE -o OUT.glb\n"
    "\n"
    "Turn one picture (PNG, JPEG, WebP) of an object into a 3D asset. The same model files, picture and seed give the same bits on every "
    "machine.\n"
    "\n"
    "  -i, --image FILE         the picture, if not given as an argument\n"
    "  -o, --output FILE        the finished asset: .glb .gltf .obj .ply .stl .3mf .usdz; may be given several times\n"
    "      --dump-post FILE     raw mesh and PBR voxels for 'espalier post' and other tools: .espd (lossless), .qtm3d, .vxz, .npz, else\n"
    "                           trellis.cpp's layout; alone it writes no asset\n"
    "      --report FILE.json   times, memory, knife-edge decisions, soundness of the mesh\n"
    "  -m, --models DIR         TRELLIS.2 files: Hugging Face (pipeline.json) or GGUF directory\n"
    "      --weights ROLE=FILE  use FILE for one role (see 'espalier inspect DIR' for the roles)\n"
    "  -s, --seed N             default 42\n"
    "      --res N              512, 1024 or 1536 (the latter two are the cascades)\n"
    "      --pipeline NAME      512, 1024, 1024_cascade, 1536_cascade; wins over --res; default: the model's\n"
    "      --set STAGE.PARAM=V  STAGE: ss, shape, tex; PARAM: steps, guidance_strength, guidance_rescale, interval_low, interval_high,\n"
    "                           rescale_t, sigma_min\n"
    "      --steps N            steps of all three stages (--set wins)\n"
    "      --gss X, --gsh X     guidance strength of the structure and of the shape stage\n"
    "      --max-tokens N       token budget of a cascade (default 49152)\n"
    "      --no-texture         geometry only\n"
    "      --allow-opaque       the same as --matte none\n"
    "      --force              go on although a soundness check fails\n"
    "      --device NAME        where networks run: cpu (default), auto (a GPU if there is one), vulkan, vulkan:N, or a part of its name;\n"
    "                           see 'espalier devices' (the bits are the same)\n"
    "      --threads N          default: all cores\n"
    "      --cpu-level LEVEL    generic, generic-fma, avx2, avx512, neon: the highest kernels to use (the bits are the same)\n"
    "      --mem-budget SIZE    such as 6G: work in smaller pieces to stay below\n"
    "      --quiet              only errors and warnings\n"
    "      --json               progress and result as JSON lines\n"
    "  -h, --help, --version\n";
static const char exit_help[] =
    "\n"
    "exit status: 0 done, 2 usage, 3 input, 4 model, 5 memory or limits, 6 internal, 7 output, 8 device, 9 unsound result, 130/143 "
    "cancelled\n";

enum {
    OPT_DUMP = CLI_OPT_FIRST_FREE,
    OPT_REPORT,
    OPT_WEIGHTS,
    OPT_RES,
    OPT_PIPELINE,
    OPT_SET,
    OPT_STEPS,
    OPT_GSS,
    OPT_GSH,
    OPT_MAX_TOKENS,
    OPT_NO_TEXTURE,
    OPT_ALLOW_OPAQUE,
    OPT_FORCE,
    OPT_DEVICE
};

/* ------------------------------------------------------------- sampler parameters */

enum {
    PARAM_STEPS,
    PARAM_GUIDANCE_STRENGTH,
    PARAM_GUIDANCE_RESCALE,
    PARAM_INTERVAL_LOW,
    PARAM_INTERVAL_HIGH,
    PARAM_RESCALE_T,
    PARAM_SIGMA_MIN
};

static const char *const stage_names[] = {"ss", "shape", "tex"};
static const struct {
    const char *name;
    double low, high;
} params[] = {
    [PARAM_STEPS] = {"steps", 1, 1000},
    [PARAM_GUIDANCE_STRENGTH] = {"guidance_strength", 0, 1000},
    [PARAM_GUIDANCE_RESCALE] = {"guidance_rescale", 0, 1},
    [PARAM_INTERVAL_LOW] = {"interval_low", -1, 2},
    [PARAM_INTERVAL_HIGH] = {"interval_high", -1, 2},
    [PARAM_RESCALE_T] = {"rescale_t", 1e-3, 1000},
    [PARAM_SIGMA_MIN] = {"sigma_min", 0, 0.5},
};
#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static bool is_word(const char *word, const char *text, size_t len)
{
    return strlen(word) == len && strncmp(word, text, len) == 0;
}

/* `option` and `text` are what the user wrote. */
static int add_setting(cli_generate_options *o, const char *option, const char *text, int stage, int param, const char *value)
{
    double number = 0;
    int64_t whole = 0;
    bool good = param == PARAM_STEPS ? cli_parse_int(value, (int64_t)params[param].low, (int64_t)params[param].high, &whole)
                                     : cli_parse_double(value, params[param].low, params[param].high, &number);
    if (!good)
        return cli_usage_error("generate", "%s '%s': the value is not a %snumber from %g to %g", option, text,
                               param == PARAM_STEPS ? "whole " : "", params[param].low, params[param].high);
    if (o->n_settings == CLI_MAX_SETTINGS) return cli_usage_error("generate", "more than %d settings", CLI_MAX_SETTINGS);
    o->settings[o->n_settings++] = (cli_setting){stage, param, param == PARAM_STEPS ? (double)whole : number};
    return 0;
}

/* "ss.steps=20" */
static int parse_setting(cli_generate_options *o, const char *text)
{
    const char *dot = strchr(text, '.'), *equal = strchr(text, '=');
    int stage = 0, param = 0;

    if (!dot || !equal || dot > equal) return cli_usage_error("generate", "--set '%s' is not STAGE.PARAM=VALUE", text);
    while (stage < COUNT(stage_names) && !is_word(stage_names[stage], text, (size_t)(dot - text))) stage++;
    if (stage == COUNT(stage_names)) return cli_usage_error("generate", "--set '%s': the stage is none of ss, shape, tex", text);
    while (param < COUNT(params) && !is_word(params[param].name, dot + 1, (size_t)(equal - dot - 1))) param++;
    if (param == COUNT(params)) return cli_usage_error("generate", "--set '%s': unknown parameter", text);
    return add_setting(o, "--set", text, stage, param, equal + 1);
}

static void apply_setting(espalier_generate_params *p, const cli_setting *setting)
{
    espalier_sampler *samplers[] = {&p->structure, &p->shape, &p->texture};
    espalier_sampler *s = samplers[setting->stage];
    switch (setting->param) {
    case PARAM_STEPS:
        s->steps = (int32_t)setting->value;
        break;
    case PARAM_GUIDANCE_STRENGTH:
        s->guidance_strength = setting->value;
        break;
    case PARAM_GUIDANCE_RESCALE:
        s->guidance_rescale = setting->value;
        break;
    case PARAM_INTERVAL_LOW:
        s->interval_low = setting->value;
        break;
    case PARAM_INTERVAL_HIGH:
        s->interval_high = setting->value;
        break;
    case PARAM_RESCALE_T:
        s->rescale_t = setting->value;
        break;
    case PARAM_SIGMA_MIN:
        s->sigma_min = setting->value;
        break;
    default:
        break;
    }
}

espalier_pipeline_type cli_generate_pipeline(const cli_generate_options *o)
{
    return o->pipeline ? o->pipeline : o->resolution;
}

void cli_generate_params(const cli_generate_options *o, espalier_generate_params *p, const espalier_model *model)
{
    *p = espalier_generate_params_default(model);
    p->seed = o->seed;
    if (cli_generate_pipeline(o)) p->pipeline = cli_generate_pipeline(o);
    if (o->max_tokens) p->max_tokens = o->max_tokens;
    p->with_texture = !o->no_texture;
    p->force = o->force;
    if (o->steps) p->structure.steps = p->shape.steps = p->texture.steps = (int32_t)o->steps;
    for (int i = 0; i < o->n_settings; i++) apply_setting(p, &o->settings[i]);
}

/* ------------------------------------------------------------- single options */

static int parse_weights(cli_generate_options *o, const char *text)
{
    const char *equal = strchr(text, '=');
    if (o->n_weights == CLI_MAX_WEIGHTS) return cli_usage_error("generate", "more than %d --weights", CLI_MAX_WEIGHTS);
    if (!equal || equal == text || !equal[1]) return cli_usage_error("generate", "--weights '%s' is not ROLE=FILE", text);
    char *copy = o->weight_text[o->n_weights];
    if (strlen(text) >= sizeof o->weight_text[0]) return cli_usage_error("generate", "--weights '%.40s...' is too long", text);
    strcpy(copy, text);
    copy[equal - text] = 0;
    o->weights[2 * o->n_weights] = copy;
    o->weights[2 * o->n_weights + 1] = copy + (equal - text) + 1;
    o->n_weights++;
    return 0;
}

static int parse_resolution(cli_generate_options *o, const char *text)
{
    if (strcmp(text, "512") == 0)
        o->resolution = ESPALIER_PIPELINE_512;
    else if (strcmp(text, "1024") == 0)
        o->resolution = ESPALIER_PIPELINE_1024_CASCADE;
    else if (strcmp(text, "1536") == 0)
        o->resolution = ESPALIER_PIPELINE_1536_CASCADE;
    else
        return cli_usage_error("generate", "--res '%s' is none of 512, 1024, 1536", text);
    return 0;
}

static int set_image(cli_generate_options *o, const char *path)
{
    if (o->image) return cli_usage_error("generate", "more than one picture: '%s' and '%s'", o->image, path);
    o->image = path;
    return 0;
}

static int parse_option(cli_generate_options *o, int c, const char *value)
{
    int status = cli_finish_option(&o->finish, "generate", c, value);
    if (status == 1) status = cli_matting_option(&o->matting, "generate", c, value);
    if (status != 1) return status;
    switch (c) {
    case 'i':
        return set_image(o, value);
    case 'o':
        return cli_outputs_add(&o->outputs, "generate", value);
    case 'm':
        o->models = value;
        return 0;
    case 's':
        if (!cli_parse_int(value, INT64_MIN, INT64_MAX, &o->seed))
            return cli_usage_error("generate", "--seed '%s' is not a whole number of 64 bits", value);
        return 0;
    case OPT_DUMP:
        o->dump = value;
        return 0;
    case OPT_REPORT:
        o->report = value;
        return 0;
    case OPT_WEIGHTS:
        return parse_weights(o, value);
    case OPT_RES:
        return parse_resolution(o, value);
    case OPT_PIPELINE:
        if (espalier_pipeline_parse(&o->pipeline, value) != ESPALIER_OK || o->pipeline == ESPALIER_PIPELINE_DEFAULT)
            return cli_usage_error("generate", "--pipeline '%s' is none of 512, 1024, 1024_cascade, 1536_cascade", value);
        return 0;
    case OPT_SET:
        return parse_setting(o, value);
    case OPT_STEPS:
        if (!cli_parse_int(value, 1, 1000, &o->steps))
            return cli_usage_error("generate", "--steps '%s' is not a whole number from 1 to 1000", value);
        return 0;
    case OPT_GSS:
        return add_setting(o, "--gss", value, 0, PARAM_GUIDANCE_STRENGTH, value);
    case OPT_GSH:
        return add_setting(o, "--gsh", value, 1, PARAM_GUIDANCE_STRENGTH, value);
    case OPT_MAX_TOKENS:
        if (!cli_parse_int(value, 1, 16777216, &o->max_tokens))
            return cli_usage_error("generate", "--max-tokens '%s' is not a whole number from 1 to 16777216", value);
        return 0;
    case OPT_NO_TEXTURE:
        o->no_texture = true;
        return 0;
    case OPT_ALLOW_OPAQUE:
        o->matting.options.matte = ESPALIER_MATTE_NONE;
        return 0;
    case OPT_DEVICE:
        o->common.device = value;
        return 0;
    case OPT_FORCE:
        o->force = true;
        o->finish.post.force = 1;
        return 0;
    default:
        return cli_common_option(&o->common, "generate", c, value);
    }
}

/* ------------------------------------------------------------- files */

static int check_files(const cli_generate_options *o)
{
    const char *paths[CLI_MAX_OUTPUTS + 3] = {o->image, o->dump, o->report};
    int status = cli_matting_check(&o->matting, "generate");

    if (status) return status;
    if (!o->image) return cli_usage_error("generate", "name a picture");
    if (o->outputs.count == 0 && !o->dump) return cli_usage_error("generate", "name the result with -o FILE.glb or --dump-post FILE");
    for (int i = 0; i < o->outputs.count; i++) paths[i + 3] = o->outputs.path[i];
    if ((status = cli_check_collisions("generate", paths, o->outputs.count + 3)) != 0) return status;
    for (int i = 0; i < o->outputs.count; i++)
        if ((status = cli_check_output(o->outputs.path[i])) != 0) return status;
    if ((status = cli_check_output(o->dump)) != 0) return status;
    return cli_check_output(o->report);
}

int cli_generate_parse(cli_generate_options *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"image", required_argument, NULL, 'i'},
        {"output", required_argument, NULL, 'o'},
        {"models", required_argument, NULL, 'm'},
        {"seed", required_argument, NULL, 's'},
        {"dump-post", required_argument, NULL, OPT_DUMP},
        {"report", required_argument, NULL, OPT_REPORT},
        {"weights", required_argument, NULL, OPT_WEIGHTS},
        {"res", required_argument, NULL, OPT_RES},
        {"pipeline", required_argument, NULL, OPT_PIPELINE},
        {"set", required_argument, NULL, OPT_SET},
        {"steps", required_argument, NULL, OPT_STEPS},
        {"gss", required_argument, NULL, OPT_GSS},
        {"gsh", required_argument, NULL, OPT_GSH},
        {"max-tokens", required_argument, NULL, OPT_MAX_TOKENS},
        {"no-texture", no_argument, NULL, OPT_NO_TEXTURE},
        {"allow-opaque", no_argument, NULL, OPT_ALLOW_OPAQUE},
        {"force", no_argument, NULL, OPT_FORCE},
        {"device", required_argument, NULL, OPT_DEVICE},
        CLI_MATTING_OPTIONS,
        CLI_FINISH_OPTIONS,
        CLI_COMMON_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    int c, status;
    cli_finish_default(&o->finish);
    cli_matting_default(&o->matting);
    while ((c = getopt_long(argc, argv, ":hi:o:m:s:", options, NULL)) != -1) {
        if (c == 'h') return printf("%s%s%s%s", help, cli_matting_help, cli_finish_help, exit_help), CLI_DONE;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), CLI_DONE;
        if (c == '?' || c == ':') return cli_bad_option("generate", argv, c);
        if (optarg && !optarg[0]) return cli_usage_error("generate", "option '%s' has an empty value", cli_option_text(argv));
        if ((status = parse_option(o, c, optarg)) != 0) return status;
    }
    for (; optind < argc; optind++)
        if ((status = set_image(o, argv[optind])) != 0) return status;
    return check_files(o);
}
