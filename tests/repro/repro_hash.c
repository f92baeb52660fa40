/* SPDX-License-Identifier: MIT
 *
 * repro_hash: runs a model and prints a line of hashes for each pipeline. tests/repro/run.sh compares the lines of different kernels,
 * thread counts, budgets, compilers, processors and file layouts, and with tests/repro/expected.txt.
 */
#include "device.h"
#include "hashing.h"

#include "base/context.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "usage: repro_hash [options] MODEL_DIR\n"
                            "  --pipelines A,B       default: all four\n"
                            "  --image FILE          default: a built-in picture\n"
                            "  --gguf DIR            take every network from this flat directory instead (it has no pipeline.json)\n"
                            "  --cpu-level LEVEL     --threads N     --mem-budget BYTES     --device NAME\n"
                            "  --limits BYTES:BYTES  of the device's allocations and bindings     --validate\n"
                            "  --cost NANOSECONDS    for a unit of work, whatever was measured: a slow device gets short submissions\n"
                            "  --lose N, --fill N    the device is lost at the Nth submission, full from the Nth allocation on\n"
                            "  --steps N             of all three samplers; default: the model's\n"
                            "  --label TEXT          first word of each line\n"
                            "  --list-levels         CPU levels that this build and machine can run\n"
                            "  --version             number of the arithmetic\n";

typedef struct options {
    espalier_runtime_options runtime;
    repro_device device;
    const char *directory, *image, *gguf, *label;
    uint64_t budget;
    int steps;
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
    static const struct option known[] = {{"pipelines", required_argument, NULL, 'p'},
                                          {"image", required_argument, NULL, 'i'},
                                          {"gguf", required_argument, NULL, 'g'},
                                          {"cpu-level", required_argument, NULL, 'c'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"device", required_argument, NULL, 'd'},
                                          {"limits", required_argument, NULL, 'x'},
                                          {"validate", no_argument, NULL, 'V'},
                                          {"cost", required_argument, NULL, 'C'},
                                          {"lose", required_argument, NULL, 'n'},
                                          {"fill", required_argument, NULL, 'N'},
                                          {"mem-budget", required_argument, NULL, 'm'},
                                          {"steps", required_argument, NULL, 'S'},
                                          {"label", required_argument, NULL, 'l'},
                                          {"list-levels", no_argument, NULL, 'L'},
                                          {"version", no_argument, NULL, 'v'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'p':
            if (!parse_pipelines(o, optarg)) return fail("bad pipelines", optarg);
            break;
        case 'i':
            o->image = optarg;
            break;
        case 'g':
            o->gguf = optarg;
            break;
        case 'c':
            if (espalier_cpu_level_parse(&o->runtime.cpu_level, optarg) != ESPALIER_OK) return fail("bad level", optarg);
            break;
        case 'd':
            o->runtime.device = optarg;
            break;
        case 'x': {
            char *end;
            o->device.max_allocation = strtoull(optarg, &end, 10);
            o->device.max_range = *end ? strtoull(end + 1, NULL, 10) : 0;
            break;
        }
        case 'C':
            o->device.cost = strtod(optarg, NULL);
            break;
        case 'V':
            o->device.validate = true;
            break;
        case 'n':
            o->device.lost_at = (int)strtol(optarg, NULL, 10);
            break;
        case 'N':
            o->device.full_at = (int)strtol(optarg, NULL, 10);
            break;
        case 't':
            o->runtime.threads = (int32_t)strtol(optarg, NULL, 10);
            break;
        case 'm':
            o->budget = strtoull(optarg, NULL, 10);
            break;
        case 'S':
            o->steps = (int)strtol(optarg, NULL, 10);
            break;
        case 'l':
            o->label = optarg;
            break;
        case 'L':
            return list_levels();
        case 'v':
            printf("arithmetic %d\n", ESPALIER_ARITHMETIC_VERSION);
            return 0;
        default:
            fputs(usage, stderr);
            return ESPALIER_ERR_ARG;
        }
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return ESPALIER_ERR_ARG;
    }
    o->directory = argv[optind];
    return -1;
}

/* The files of a GGUF directory as overrides: role, path, ..., NULL. */
static espalier_status gguf_overrides(espalier_context *ctx, esi_arena *arena, const char *list[2 * ESPALIER_ROLE_COUNT + 1],
                                      const char *dir)
{
    static const char *const names[ESPALIER_ROLE_COUNT] = {
        "dinov3", "ss_flow", "ss_dec", "shape_flow_512", "shape_flow_1024", "shape_dec", "tex_flow_512", "tex_flow_1024", "tex_dec"};
    for (int i = 0; i < ESPALIER_ROLE_COUNT; i++) {
        char *path = esi_format(ctx, "%s/%s.gguf", dir, names[i]);
        if (!path) return ESPALIER_ERR_RESOURCE;
        list[2 * i] = espalier_role_name((espalier_role)i);
        list[2 * i + 1] = esi_arena_strdup(ctx, arena, path, strlen(path));
        esi_free(ctx, path);
        if (!list[2 * i + 1]) return ESPALIER_ERR_RESOURCE;
    }
    list[2 * ESPALIER_ROLE_COUNT] = NULL;
    return ESPALIER_OK;
}

static espalier_status open_model(espalier_context *ctx, espalier_model **model, const options *o)
{
    espalier_model_options wanted = espalier_model_options_default();
    const char *overrides[2 * ESPALIER_ROLE_COUNT + 1];
    esi_arena arena = {0};
    espalier_status st = ESPALIER_OK;

    if (o->gguf) {
        st = gguf_overrides(ctx, &arena, overrides, o->gguf);
        wanted.overrides = overrides;
    }
    if (st == ESPALIER_OK) st = espalier_model_open(ctx, model, o->directory, &wanted);
    esi_arena_free(ctx, &arena);
    return st;
}

static espalier_status run(espalier_context *ctx, const options *o)
{
    espalier_model *model = NULL;
    espalier_image picture = {0};
    repro_hashes hashes;

    espalier_status st = open_model(ctx, &model, o);
    if (st == ESPALIER_OK) st = o->image ? espalier_image_load(ctx, &picture, o->image) : repro_picture(ctx, &picture);
    espalier_context_set_memory_budget(ctx, o->budget);
    for (int i = 0; st == ESPALIER_OK && i < o->n_pipelines; i++) {
        st = repro_run(ctx, &hashes, model, &picture, o->pipelines[i], o->steps);
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
    options o = {
        .runtime = espalier_runtime_options_default(),
        .label = "model",
        .pipelines = {ESPALIER_PIPELINE_512, ESPALIER_PIPELINE_1024, ESPALIER_PIPELINE_1024_CASCADE, ESPALIER_PIPELINE_1536_CASCADE},
        .n_pipelines = 4};
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;

    int exit_status = parse_options(&o, argc, argv);
    if (exit_status >= 0) return exit_status;
    o.runtime.log = print_log;
    const char *device = o.runtime.device;
    o.runtime.device = NULL;
    espalier_status st = espalier_runtime_create(&runtime, &o.runtime);
    if (st == ESPALIER_OK && device && strcmp(device, "cpu") != 0) st = repro_device_open(runtime, &o.device, device);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = run(ctx, &o);
    if (st != ESPALIER_OK)
        fprintf(stderr, "repro_hash: %s\n", ctx && espalier_error_message(ctx)[0] ? espalier_error_message(ctx) : espalier_status_name(st));
    fprintf(stderr, "peak %llu\n", ctx ? (unsigned long long)espalier_context_memory_peak(ctx) : 0);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return o.device.messages ? 1 : (int)st;
}
