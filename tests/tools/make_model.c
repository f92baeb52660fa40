/* SPDX-License-Identifier: MIT
 *
 * espalier-make-model: writes a random checkpoint with the names, shapes and dtypes of the release, at full size or small. For tests and
 * benchmarks: nothing it generates looks like anything, but every byte is the same everywhere for the same seed, and both layouts hold the
 * same numbers.
 */
#include "model_plan.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char usage[] =
    "usage: espalier-make-model [--preset trellis2-4b|tiny|micro] [--matting A,B,...] [options] DIR\n"
    "\n"
    "Writes a random TRELLIS.2 checkpoint, random matting networks or both into DIR (made if missing).\n"
    "  --preset NAME         sizes: trellis2-4b (the release, about 16 GB), micro, tiny (pipeline 512 only)\n"
    "  --matting A,B,...     birefnet-swin-t|s|b|l, u2net, u2netp, isnet, birefnet-micro, u2netp-micro, isnet-micro: always safetensors\n"
    "  --layout hf|gguf      Hugging Face directory (default) or trellis.cpp's flat GGUF files\n"
    "  --seed N              0 to 2^64-1, default 3\n"
    "  --roles A,B,...       only these files: image_cond_model, sparse_structure_flow_model, ... or dinov3, ss_flow, ...\n"
    "  --pipelines A,B,...   only what these pipelines need: 512, 1024, 1024_cascade, 1536_cascade or all (default)\n"
    "  -h, --help            this text\n";

/* GGUF file stem and architecture of each role. */
static const struct {
    const char *stem, *architecture;
} gguf_names[ESPALIER_ROLE_COUNT] = {
    {"dinov3", "dinov3-vitl16"},
    {"ss_flow", "trellis2-ss-flow"},
    {"ss_dec", "trellis2-ss-dec"},
    {"shape_flow_512", "trellis2-slat-flow"},
    {"shape_flow_1024", "trellis2-slat-flow"},
    {"shape_dec", "trellis2-shape-dec"},
    {"tex_flow_512", "trellis2-slat-flow"},
    {"tex_flow_1024", "trellis2-slat-flow"},
    {"tex_dec", "trellis2-tex-dec"},
};

typedef struct options {
    const model_preset *preset;
    model_layout layout;
    uint64_t seed;
    bool role[ESPALIER_ROLE_COUNT];
    const matting_preset *matting[4];
    size_t n_matting;
    const char *directory;
} options;

/* ------------------------------------------------------------ command line */

static int usage_error(const char *text, const char *value)
{
    fprintf(stderr, "espalier-make-model: %s%s%s%s; see --help\n", text, value ? " '" : "", value ? value : "", value ? "'" : "");
    return ESPALIER_ERR_ARG;
}

static bool parse_seed(const char *text, uint64_t *out)
{
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') return false;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end) return false;
    *out = v;
    return true;
}

static int find_role(const char *name, size_t len)
{
    for (int i = 0; i < ESPALIER_ROLE_COUNT; i++) {
        const char *full = espalier_role_name((espalier_role)i), *brief = gguf_names[i].stem;
        if ((strlen(full) == len && memcmp(full, name, len) == 0) || (strlen(brief) == len && memcmp(brief, name, len) == 0)) return i;
    }
    return -1;
}

static bool parse_roles(const char *list, bool *role)
{
    memset(role, 0, ESPALIER_ROLE_COUNT * sizeof *role);
    for (;;) {
        size_t len = strcspn(list, ",");
        int i = find_role(list, len);
        if (i < 0) return false;
        role[i] = true;
        if (list[len] == '\0') return true;
        list += len + 1;
    }
}

/* One network for each file. */
static bool parse_matting(options *o, const char *list)
{
    for (o->n_matting = 0;; list++) {
        const size_t len = strcspn(list, ",");
        const matting_preset *preset = matting_preset_find(list, len);
        if (!preset || o->n_matting == ESI_COUNT(o->matting)) return false;
        for (size_t i = 0; i < o->n_matting; i++)
            if (strcmp(matting_preset_stem(o->matting[i]), matting_preset_stem(preset)) == 0) return false;
        o->matting[o->n_matting++] = preset;
        list += len;
        if (*list == '\0') return true;
    }
}

/* Drops the flow models that none of the listed pipelines uses. */
static bool parse_pipelines(const char *list, bool *wanted)
{
    static const struct {
        const char *name;
        bool shape_512, tex_512, large;
    } pipelines[] = {{"512", true, true, false},
                     {"1024", false, false, true},
                     {"1024_cascade", true, false, true},
                     {"1536_cascade", true, false, true},
                     {"all", true, true, true}};
    bool shape_512 = false, tex_512 = false, large = false;

    for (;;) {
        size_t len = strcspn(list, ","), i = 0;
        while (i < ESI_COUNT(pipelines) && !(strlen(pipelines[i].name) == len && memcmp(pipelines[i].name, list, len) == 0)) i++;
        if (i == ESI_COUNT(pipelines)) return false;
        shape_512 |= pipelines[i].shape_512;
        tex_512 |= pipelines[i].tex_512;
        large |= pipelines[i].large;
        if (list[len] == '\0') break;
        list += len + 1;
    }
    for (int i = 0; i < ESPALIER_ROLE_COUNT; i++) wanted[i] = true;
    wanted[ESPALIER_ROLE_SHAPE_FLOW_512] = shape_512;
    wanted[ESPALIER_ROLE_TEX_FLOW_512] = tex_512;
    wanted[ESPALIER_ROLE_SHAPE_FLOW_1024] = wanted[ESPALIER_ROLE_TEX_FLOW_1024] = large;
    return true;
}

/* Exit status, or -1 to go on. */
static int parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {{"preset", required_argument, NULL, 'p'},
                                          {"matting", required_argument, NULL, 'm'},
                                          {"layout", required_argument, NULL, 'l'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"roles", required_argument, NULL, 'r'},
                                          {"pipelines", required_argument, NULL, 'P'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool needed[ESPALIER_ROLE_COUNT];
    int option;

    parse_pipelines("all", needed);
    parse_pipelines("all", o->role);
    while ((option = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
        switch (option) {
        case 'p':
            o->preset = model_preset_find(optarg);
            if (!o->preset) return usage_error("unknown preset", optarg);
            break;
        case 'm':
            if (!parse_matting(o, optarg)) return usage_error("not a list of matting networks, each of another kind:", optarg);
            break;
        case 'l':
            if (strcmp(optarg, "hf") != 0 && strcmp(optarg, "gguf") != 0) return usage_error("unknown layout", optarg);
            o->layout = strcmp(optarg, "gguf") == 0 ? LAYOUT_GGUF : LAYOUT_HUGGING_FACE;
            break;
        case 's':
            if (!parse_seed(optarg, &o->seed)) return usage_error("--seed is not a number from 0 to 2^64-1:", optarg);
            break;
        case 'r':
            if (!parse_roles(optarg, o->role)) return usage_error("unknown role in", optarg);
            break;
        case 'P':
            if (!parse_pipelines(optarg, needed)) return usage_error("unknown pipeline in", optarg);
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case ':':
            return usage_error("a value is missing after", argv[optind - 1]);
        default:
            return usage_error("unknown option", argv[optind - 1]);
        }
    }
    if (!o->preset && o->n_matting == 0) return usage_error("--preset or --matting is missing", NULL);
    if (argc - optind != 1 || argv[optind][0] == '\0') return usage_error("expected one directory", NULL);
    for (int i = 0; i < ESPALIER_ROLE_COUNT; i++) o->role[i] = o->role[i] && needed[i];
    o->directory = argv[optind];
    return -1;
}

/* ------------------------------------------------------------ writing */

/* Make every directory above the last part of `path`. */
static espalier_status make_parents(espalier_context *ctx, const char *path)
{
    char *copy = esi_strdup(ctx, path);
    espalier_status st = copy ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    for (char *p = copy; st == ESPALIER_OK && *p; p++) {
        if (*p != '/' || p == copy) continue;
        *p = '\0';
        if (mkdir(copy, 0777) != 0 && !esi_path_is_dir(copy))
            st = esi_fail(ctx, ESPALIER_ERR_OUTPUT, "%s: cannot make the directory: %s", copy, strerror(errno));
        *p = '/';
    }
    esi_free(ctx, copy);
    return st;
}

static espalier_status write_text(espalier_context *ctx, const char *path, const esi_text *text)
{
    if (text->failed) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", path);
    espalier_status st = make_parents(ctx, path);
    return st == ESPALIER_OK ? esi_file_write_all(ctx, path, text->data, text->len) : st;
}

static uint64_t plan_parameters(const file_plan *plan)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < plan->count; i++)
        for (int k = 0; k < plan->tensors[i].n_parts; k++) sum += plan->tensors[i].part[k].count;
    return sum;
}

/* GGUF with this role's names, or safetensors (role ESPALIER_ROLE_COUNT). */
static espalier_status write_plan(espalier_context *ctx, file_plan *plan, const char *path, espalier_role role, const char *config)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    esi_safetensors_entry *entries = esi_calloc(ctx, plan->count, sizeof *entries, "tensors to be written");
    espalier_status st;

    if (!entries) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < plan->count; i++) {
        const planned_tensor *t = &plan->tensors[i];
        entries[i] = (esi_safetensors_entry){.name = t->name, .dtype = t->dtype, .rank = t->rank};
        memcpy(entries[i].shape, t->shape, sizeof t->shape);
    }
    st = make_parents(ctx, path);
    if (st != ESPALIER_OK) goto done;
    if (role != ESPALIER_ROLE_COUNT)
        st = esi_gguf_write(ctx, path, entries, plan->count, gguf_names[role].architecture, gguf_names[role].stem, config, file_plan_fill,
                            plan);
    else
        st = esi_safetensors_write(ctx, path, entries, plan->count, metadata, file_plan_fill, plan);
    if (st == ESPALIER_OK) printf("%s: %zu tensors, %llu parameters\n", path, plan->count, (unsigned long long)plan_parameters(plan));
    fflush(stdout);
done:
    esi_free(ctx, entries);
    return st;
}

static espalier_status write_weights(espalier_context *ctx, const options *o, espalier_role role, const char *path, const char *config)
{
    file_plan plan = {0};
    espalier_status st = file_plan_make(ctx, &plan, o->preset, role, o->layout, o->seed);

    if (st == ESPALIER_OK) st = write_plan(ctx, &plan, path, o->layout == LAYOUT_GGUF ? role : ESPALIER_ROLE_COUNT, config);
    file_plan_free(&plan);
    return st;
}

static espalier_status write_matting(espalier_context *ctx, const options *o, const matting_preset *preset)
{
    file_plan plan = {0};
    char *path = esi_format(ctx, "%s/%s.safetensors", o->directory, matting_preset_stem(preset));
    espalier_status st = path ? matting_plan_make(ctx, &plan, preset, o->seed) : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK) st = write_plan(ctx, &plan, path, ESPALIER_ROLE_COUNT, NULL);
    if (plan.ctx) file_plan_free(&plan);
    esi_free(ctx, path);
    return st;
}

/* Paths of a role's weights and, in the Hugging Face layout, of its json. */
static bool role_paths(espalier_context *ctx, const options *o, espalier_role role, char **weights, char **config)
{
    *config = NULL;
    if (o->layout == LAYOUT_GGUF) {
        *weights = esi_format(ctx, "%s/%s.gguf", o->directory, gguf_names[role].stem);
        return *weights != NULL;
    }
    if (role == ESPALIER_ROLE_IMAGE_ENCODER) {
        *weights = esi_format(ctx, "%s/%s/model.safetensors", o->directory, encoder_directory(o->preset));
        *config = esi_format(ctx, "%s/%s/config.json", o->directory, encoder_directory(o->preset));
    } else {
        *weights = esi_format(ctx, "%s/%s.safetensors", o->directory, o->preset->stem[role]);
        *config = esi_format(ctx, "%s/%s.json", o->directory, o->preset->stem[role]);
    }
    return *weights && *config;
}

static espalier_status write_role(espalier_context *ctx, const options *o, espalier_role role)
{
    esi_text config = {0};
    char *weights_path = NULL, *config_path = NULL;
    espalier_status st = role_paths(ctx, o, role, &weights_path, &config_path) ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK) {
        config_of_role(ctx, &config, o->preset, role);
        if (config.failed) st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", weights_path);
    }
    if (st == ESPALIER_OK && config_path) st = write_text(ctx, config_path, &config);
    if (st == ESPALIER_OK) st = write_weights(ctx, o, role, weights_path, config.data);
    esi_text_free(ctx, &config);
    esi_free(ctx, weights_path);
    esi_free(ctx, config_path);
    return st;
}

static espalier_status write_pipeline(espalier_context *ctx, const options *o)
{
    esi_text text = {0};
    char *path = esi_format(ctx, "%s/pipeline.json", o->directory);
    espalier_status st = path ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;

    if (st == ESPALIER_OK) {
        config_of_pipeline(ctx, &text, o->preset);
        st = write_text(ctx, path, &text);
    }
    esi_text_free(ctx, &text);
    esi_free(ctx, path);
    return st;
}

int main(int argc, char **argv)
{
    options o = {.seed = 3};
    espalier_runtime_options runtime_options = espalier_runtime_options_default();
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    espalier_status st;

    int exit_status = parse_options(&o, argc, argv);
    if (exit_status >= 0) return exit_status;
    runtime_options.threads = 1;
    st = espalier_runtime_create(&runtime, &runtime_options);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    /* The released GGUF files come without pipeline.json; a small model's needs it, for the sizes in it. */
    if (st == ESPALIER_OK && o.preset && (o.layout == LAYOUT_HUGGING_FACE || o.preset->resolution != 512)) st = write_pipeline(ctx, &o);
    for (int role = 0; st == ESPALIER_OK && role < ESPALIER_ROLE_COUNT; role++)
        if (o.preset && o.role[role] && preset_has_role(o.preset, (espalier_role)role)) st = write_role(ctx, &o, (espalier_role)role);
    for (size_t i = 0; st == ESPALIER_OK && i < o.n_matting; i++) st = write_matting(ctx, &o, o.matting[i]);
    if (st != ESPALIER_OK) {
        const char *text = ctx ? espalier_error_message(ctx) : "";
        fprintf(stderr, "espalier-make-model: %s\n", text[0] ? text : espalier_status_name(st));
    }
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return (int)st;
}
