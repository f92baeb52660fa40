/* SPDX-License-Identifier: MIT
 *
 * repro_hash: runs a model and prints a line of hashes for each pipeline. tests/repro/run.sh compares the lines of different kernels,
 * thread counts, budgets, compilers, processors and file layouts, and with tests/repro/expected.txt.
 */
#include "hashing.h"

#include "base/context.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: repro_hash [options] MODEL_DIR\n"
    "  --pipelines A,B       default: all four\n"
    "  --image FILE          default: a built-in picture\n"
    "  --settings FILE       pipeline.json to use instead of the directory's (GGUF directories have none)\n"
    "  --cpu-level LEVEL     --threads N     --mem-budget BYTES\n"
    "  --label TEXT          first word of each line\n"
    "  --list-levels         CPU levels that this build and machine can run\n"
    "  --version             number of the arithmetic\n";

typedef struct options {
    espalier_runtime_options runtime;
    const char *directory, *image, *settings, *label;
    uint64_t budget;
    espalier_pipeline_type pipelines[4];
    int n_pipelines;
} options;

static void print_log(void *user, espalier_log_level level, const char *line)
{
    (void)user;
    /* Warnings about the mesh are expected of random weights; about the model files they are not. */
    if (level >= ESPALIER_LOG_WARNING && strstr(line, "not used by this network")) {
        fprintf(stderr, "repro_hash: %s\n", line);
        exit(1);
    }
}

static int fail(const char *text, const char *value)
{
    fprintf(stderr, "repro_hash: %s '%s'\n", text, value);
    return ESPALIER_ERR_ARG;
}

static bool parse_pipelines(options *o, char *list)
{
    o->n_pipelines = 0;
    for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
        if (o->n_pipelines == (int)ESI_COUNT(o->pipelines) || espalier_pipeline_parse(&o->pipelines[o->n_pipelines++], name) != ESPALIER_OK)
            return false;
    }
    return o->n_pipelines > 0;
}

static int list_levels(void)
{
    static const espalier_cpu_level levels[] = {ESPALIER_CPU_GENERIC, ESPALIER_CPU_GENERIC_FMA, ESPALIER_CPU_AVX2, ESPALIER_CPU_AVX512,
                                                ESPALIER_CPU_NEON};
    for (size_t i = 0; i < ESI_COUNT(levels); i++)
        if (espalier_cpu_level_supported(levels[i])) puts(espalier_cpu_level_name(levels[i]));
    return 0;
}

/* Exit status, or -1 to go on. */
static int parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {{"pipelines", required_argument, NULL, 'p'},  {"image", required_argument, NULL, 'i'},
                                          {"settings", required_argument, NULL, 's'},   {"cpu-level", required_argument, NULL, 'c'},
                                          {"threads", required_argument, NULL, 't'},    {"mem-budget", required_argument, NULL, 'm'},
                                          {"label", required_argument, NULL, 'l'},      {"list-levels", no_argument, NULL, 'L'},
                                          {"version", no_argument, NULL, 'v'},          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'p':
            if (!parse_pipelines(o, optarg)) return fail("bad pipelines", optarg);
            break;
        case 'i': o->image = optarg; break;
        case 's': o->settings = optarg; break;
        case 'c':
            if (espalier_cpu_level_parse(&o->runtime.cpu_level, optarg) != ESPALIER_OK) return fail("bad level", optarg);
            break;
        case 't': o->runtime.threads = (int32_t)strtol(optarg, NULL, 10); break;
        case 'm': o->budget = strtoull(optarg, NULL, 10); break;
        case 'l': o->label = optarg; break;
        case 'L': return list_levels();
        case 'v': printf("arithmetic %d\n", ESPALIER_ARITHMETIC_VERSION); return 0;
        default: fputs(usage, stderr); return ESPALIER_ERR_ARG;
        }
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return ESPALIER_ERR_ARG;
    }
    o->directory = argv[optind];
    return -1;
}

/* What the directory's pipeline.json would say, had it one. */
static espalier_status replace_settings(espalier_context *ctx, espalier_model *model, const char *path)
{
    esi_json *json = NULL;
    espalier_status st = esi_json_load(ctx, &json, path, ESPALIER_ERR_MODEL);
    if (st == ESPALIER_OK) st = esi_settings_read(ctx, &model->settings, json, path);
    esi_json_free(json);
    return st;
}

static espalier_status run(espalier_context *ctx, const options *o)
{
    espalier_model *model = NULL;
    espalier_image picture = {0};
    repro_hashes hashes;

    espalier_status st = espalier_model_open(ctx, &model, o->directory, NULL);
    if (st == ESPALIER_OK && o->settings) st = replace_settings(ctx, model, o->settings);
    if (st == ESPALIER_OK) st = o->image ? espalier_image_load(ctx, &picture, o->image) : repro_picture(ctx, &picture);
    espalier_context_set_memory_budget(ctx, o->budget);
    for (int i = 0; st == ESPALIER_OK && i < o->n_pipelines; i++) {
        st = repro_run(ctx, &hashes, model, &picture, o->pipelines[i]);
        if (st != ESPALIER_OK) break;
        printf("%s ", o->label);
        repro_print(&hashes, o->pipelines[i]);
        putchar('\n');
    }
    espalier_image_free(&picture);
    espalier_model_free(model);
    return st;
}

int main(int argc, char **argv)
{
    options o = {.runtime = espalier_runtime_options_default(),
                 .label = "model",
                 .pipelines = {ESPALIER_PIPELINE_512, ESPALIER_PIPELINE_1024, ESPALIER_PIPELINE_1024_CASCADE, ESPALIER_PIPELINE_1536_CASCADE},
                 .n_pipelines = 4};
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;

    int exit_status = parse_options(&o, argc, argv);
    if (exit_status >= 0) return exit_status;
    o.runtime.log = print_log;
    espalier_status st = espalier_runtime_create(&runtime, &o.runtime);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = run(ctx, &o);
    if (st != ESPALIER_OK)
        fprintf(stderr, "repro_hash: %s\n", ctx && espalier_error_message(ctx)[0] ? espalier_error_message(ctx) : espalier_status_name(st));
    fprintf(stderr, "peak %llu\n", ctx ? (unsigned long long)espalier_context_memory_peak(ctx) : 0);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return (int)st;
}
