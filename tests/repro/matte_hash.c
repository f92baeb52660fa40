/* SPDX-License-Identifier: MIT
 *
 * repro_matte: runs the matting networks of a directory on the built-in picture and prints a line of hashes for each: of the network's
 * floats, and of the mask. Like repro_hash for tests/repro/run.sh, and with its options as far as they make sense here.
 */
#include "hashing.h"

#include "base/context.h"
#include "formats/matte.h"
#include "models/birefnet.h"
#include "models/u2net.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] = "usage: repro_matte [options] DIR_WITH_SAFETENSORS\n"
                            "  --cpu-level LEVEL     --threads N     --mem-budget BYTES     --device NAME\n"
                            "  --label TEXT          first word of each line\n";

typedef struct options {
    espalier_runtime_options runtime;
    const char *directory, *label;
    uint64_t budget;
} options;

/* Small, but for the windows and the cut pools to have odd sizes. */
static const struct {
    const char *name;
    esi_matte_recipe recipe;
    uint32_t side;
} networks[] = {{"birefnet", ESI_MATTE_BIREFNET, 160}, {"isnet", ESI_MATTE_ISNET, 150}, {"u2netp", ESI_MATTE_U2NET, 90}};

static uint64_t hash_of(const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t v = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++) v = (v ^ p[i]) * UINT64_C(0x100000001b3);
    return v;
}

/* *map = the network's [side, side] values in [0, 1]. */
static espalier_status run_network(espalier_context *ctx, float **map, const char *path, const float *pixels, uint32_t side)
{
    esi_scope scope = esi_scope_begin(ctx);
    esi_weight_file *file = NULL;
    esi_birefnet *birefnet = NULL;
    esi_u2net *u2net = NULL;
    esi_tensor y;
    espalier_status st = esi_weight_file_open(ctx, &file, path);

    if (st != ESPALIER_OK) goto done;
    if (esi_birefnet_recognise(file)) {
        st = esi_birefnet_open(ctx, &birefnet, file);
        if (st == ESPALIER_OK) st = esi_birefnet_forward(ctx, birefnet, &y, pixels, side, side);
        if (st == ESPALIER_OK) st = esi_activate(ctx, y, y, ESI_ACT_SIGMOID);
    } else {
        st = esi_u2net_open(ctx, &u2net, file);
        if (st == ESPALIER_OK) st = esi_u2net_forward(ctx, u2net, &y, pixels, side, side);
    }
    if (st != ESPALIER_OK) goto done;
    *map = esi_alloc(ctx, (size_t)side * side, sizeof **map, "map");
    st = *map ? esi_tensor_read(ctx, y, *map) : ESPALIER_ERR_RESOURCE;
done:
    esi_scope_end(ctx, scope);
    esi_birefnet_free(ctx, birefnet);
    esi_u2net_free(ctx, u2net);
    return st;
}

static bool is_constant(const espalier_image *mask)
{
    const size_t n = (size_t)mask->width * mask->height;
    for (size_t i = 1; i < n; i++)
        if (mask->pixels[i] != mask->pixels[0]) return false;
    return true;
}

static espalier_status print_network(espalier_context *ctx, const options *o, size_t i, const espalier_image *picture)
{
    const uint32_t side = networks[i].side;
    float *pixels = NULL, *map = NULL;
    espalier_image mask = {0};
    char *path = esi_format(ctx, "%s/%s.safetensors", o->directory, networks[i].name);
    espalier_status st = path ? esi_matte_prepare(ctx, &pixels, picture, networks[i].recipe, side, NULL) : ESPALIER_ERR_RESOURCE;

    espalier_context_set_memory_budget(ctx, o->budget);
    if (st == ESPALIER_OK) st = run_network(ctx, &map, path, pixels, side);
    espalier_context_set_memory_budget(ctx, 0);
    if (st == ESPALIER_OK) st = esi_matte_finish(ctx, &mask, map, side, networks[i].recipe, picture->width, picture->height, NULL);
    if (st == ESPALIER_OK && is_constant(&mask))
        st = esi_fail(ctx, ESPALIER_ERR_SOUNDNESS, "%s: the mask is of one value: this compares nothing", networks[i].name);
    if (st == ESPALIER_OK)
        printf("%s %s side=%u map=%016" PRIx64 " mask=%016" PRIx64 "\n", o->label, networks[i].name, (unsigned)side,
               hash_of(map, (size_t)side * side * sizeof *map), hash_of(mask.pixels, (size_t)mask.width * mask.height));
    espalier_image_free(&mask);
    esi_free(ctx, map);
    esi_free(ctx, pixels);
    esi_free(ctx, path);
    return st;
}

/* Exit status, or -1 to go on. */
static int parse_options(options *o, int argc, char **argv)
{
    static const struct option known[] = {{"cpu-level", required_argument, NULL, 'c'}, {"threads", required_argument, NULL, 't'},
                                          {"device", required_argument, NULL, 'd'},    {"mem-budget", required_argument, NULL, 'm'},
                                          {"label", required_argument, NULL, 'l'},     {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'c' && espalier_cpu_level_parse(&o->runtime.cpu_level, optarg) == ESPALIER_OK)
            continue;
        else if (option == 't')
            o->runtime.threads = (int32_t)strtol(optarg, NULL, 10);
        else if (option == 'd')
            o->runtime.device = optarg;
        else if (option == 'm')
            o->budget = strtoull(optarg, NULL, 10);
        else if (option == 'l')
            o->label = optarg;
        else
            optind = argc; /* refused below */
    }
    if (argc - optind != 1) {
        fputs(usage, stderr);
        return ESPALIER_ERR_ARG;
    }
    o->directory = argv[optind];
    return -1;
}

int main(int argc, char **argv)
{
    options o = {.runtime = espalier_runtime_options_default(), .label = "matting"};
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    espalier_image picture = {0};

    int exit_status = parse_options(&o, argc, argv);
    if (exit_status >= 0) return exit_status;
    espalier_status st = espalier_runtime_create(&runtime, &o.runtime);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = repro_picture(ctx, &picture);
    for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(networks); i++) st = print_network(ctx, &o, i, &picture);
    if (st != ESPALIER_OK)
        fprintf(stderr, "repro_matte: %s\n",
                ctx && espalier_error_message(ctx)[0] ? espalier_error_message(ctx) : espalier_status_name(st));
    fprintf(stderr, "peak %llu\n", ctx ? (unsigned long long)espalier_context_memory_peak(ctx) : 0);
    espalier_image_free(&picture);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return (int)st;
}
