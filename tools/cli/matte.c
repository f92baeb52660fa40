/* SPDX-License-Identifier: MIT
 *
 * matte.c: espalier matte: pictures in, cut-outs out, one after the other with one network.
 */
#include "matte_files.h"
#include "matting.h"
#include "outputs.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: espalier matte [options] PICTURE... -o OUT\n"
    "\n"
    "Cut the object out of a picture (PNG, JPEG, WebP): the same colours with the matte as alpha. OUT is a .png or .webp; for several\n"
    "pictures, or a directory of them, it is a directory, which gets a file for each. What cannot be cut out is told, the others are\n"
    "written. An input is never overwritten.\n"
    "\n"
    "  -o, --output OUT\n"
    "      --mask-only          the matte alone, gray\n"
    "      --preview            the object over a checkerboard\n"
    "      --format png|webp    of the files in a directory (png)\n"
    "  -m, --models DIR         where matting networks are looked for, such as a TRELLIS.2 directory (the user's own models)\n";
static const char common_help[] =
    "in general:\n"
    "      --device NAME        where networks run: cpu (default), auto, vulkan, vulkan:N, or a part of its name (the bits are the same)\n"
    "      --threads N          default: all cores\n"
    "      --cpu-level LEVEL    generic, generic-fma, avx2, avx512, neon\n"
    "      --mem-budget SIZE    such as 2G: work in smaller pieces to stay below\n"
    "      --quiet              only errors and warnings\n"
    "      --json               progress and result as JSON lines\n"
    "  -h, --help, --version\n"
    "\n"
    "exit status: 0 done, 2 usage, 3 input, 4 model, 5 memory or limits, 6 internal, 7 output, 8 device, 10 some of several pictures\n"
    "failed, 130/143 cancelled\n";

#define BATCH_FAILED 10 /* exit status */
#define SQUARE       16 /* pixels of the checkerboard */

enum { OPT_MASK_ONLY = CLI_OPT_FIRST_FREE, OPT_PREVIEW, OPT_FORMAT, OPT_DEVICE };

typedef struct matte_command {
    cli_common common;
    cli_matting matting;
    cli_matte_files files;
    const char *output, *models, *format;
    bool mask_only, preview;
} matte_command;

/* ------------------------------------------------------------- options */

static int parse_option(matte_command *o, int c, const char *value)
{
    int status = cli_matting_option(&o->matting, "matte", c, value);
    if (status != 1) return status;
    switch (c) {
    case 'o':
        if (o->output) return cli_usage_error("matte", "more than one result: '%s' and '%s'", o->output, value);
        o->output = value;
        return 0;
    case 'm':
        o->models = value;
        return 0;
    case OPT_MASK_ONLY:
        o->mask_only = true;
        return 0;
    case OPT_PREVIEW:
        o->preview = true;
        return 0;
    case OPT_FORMAT:
        if (strcmp(value, "png") != 0 && strcmp(value, "webp") != 0)
            return cli_usage_error("matte", "--format '%s' is none of png, webp", value);
        o->format = value;
        return 0;
    case OPT_DEVICE:
        o->common.device = value;
        return 0;
    default:
        return cli_common_option(&o->common, "matte", c, value);
    }
}

static int parse(matte_command *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"models", required_argument, NULL, 'm'},
        {"mask-only", no_argument, NULL, OPT_MASK_ONLY},
        {"preview", no_argument, NULL, OPT_PREVIEW},
        {"format", required_argument, NULL, OPT_FORMAT},
        {"device", required_argument, NULL, OPT_DEVICE},
        CLI_MATTING_OPTIONS,
        CLI_COMMON_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    int c, status;

    while ((c = getopt_long(argc, argv, ":ho:m:", options, NULL)) != -1) {
        if (c == 'h') return printf("%s%s%s", help, cli_matting_help, common_help), CLI_DONE;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), CLI_DONE;
        if (c == '?' || c == ':') return cli_bad_option("matte", argv, c);
        if (optarg && !optarg[0]) return cli_usage_error("matte", "option '%s' has an empty value", cli_option_text(argv));
        if ((status = parse_option(o, c, optarg)) != 0) return status;
    }
    if (optind == argc) return cli_usage_error("matte", "name a picture");
    if (!o->output) return cli_usage_error("matte", "name the result with -o FILE.png or -o DIRECTORY");
    if (o->mask_only && o->preview) return cli_usage_error("matte", "--mask-only and --preview exclude each other");
    if ((status = cli_matting_check(&o->matting, "matte")) != 0) return status;
    return cli_matte_files_list(&o->files, argv + optind, argc - optind, o->output, o->format);
}

/* ------------------------------------------------------------- one picture */

static uint8_t over(uint8_t color, uint8_t ground, uint8_t alpha)
{
    return (uint8_t)((color * alpha + ground * (255 - alpha) + 127) / 255);
}

static espalier_status checkerboard(espalier_context *ctx, espalier_image *out, const espalier_image *cut)
{
    espalier_status st = espalier_image_create(ctx, out, cut->width, cut->height, 3);
    if (st != ESPALIER_OK) return st;
    for (uint32_t y = 0; y < cut->height; y++) {
        for (uint32_t x = 0; x < cut->width; x++) {
            const size_t i = (size_t)y * cut->width + x;
            const uint8_t ground = (x / SQUARE + y / SQUARE) % 2 ? 204 : 255;
            for (int c = 0; c < 3; c++) out->pixels[3 * i + c] = over(cut->pixels[4 * i + c], ground, cut->pixels[4 * i + 3]);
        }
    }
    return ESPALIER_OK;
}

static espalier_status cut_one(const cli_session *s, const matte_command *o, espalier_matting *matting, const cli_matte_pair *pair,
                               espalier_matte_stats *stats)
{
    espalier_image picture = {0}, cut = {0}, shown = {0};

    espalier_status st = espalier_image_load(s->ctx, &picture, pair->input);
    if (st == ESPALIER_OK)
        st = espalier_matting_cut(s->ctx, matting, o->mask_only ? NULL : &cut, o->mask_only ? &shown : NULL, stats, &picture, pair->input);
    espalier_image_free(&picture);
    if (st == ESPALIER_OK && o->preview) st = checkerboard(s->ctx, &shown, &cut);
    if (st == ESPALIER_OK) st = espalier_image_save(s->ctx, shown.pixels ? &shown : &cut, pair->output);
    espalier_image_free(&cut);
    espalier_image_free(&shown);
    return st;
}

/* ------------------------------------------------------------- what is said */

static void say_start(const matte_command *o, size_t i)
{
    if (o->common.json)
        printf("{\"type\": \"progress\", \"stage\": \"matte\", \"done\": %zu, \"total\": %zu}\n", i, o->files.count);
    else if (!o->common.quiet && o->files.batch)
        printf("[%zu/%zu] %s\n", i + 1, o->files.count, o->files.pairs[i].input);
    fflush(stdout);
}

static void print_warnings(uint32_t warnings)
{
    const char *comma = "";
    for (uint32_t bit = 1; bit <= warnings; bit <<= 1) {
        if (!(warnings & bit)) continue;
        printf("%s\"%s\"", comma, espalier_matte_warning_name((espalier_matte_warning)bit));
        comma = ", ";
    }
}

static void say_json(const cli_matte_pair *pair, const espalier_matte_stats *m, double seconds)
{
    printf("{\"type\": \"matte\", \"input\": ");
    cli_print_json_string(pair->input);
    printf(", \"output\": ");
    cli_print_json_string(pair->output);
    printf(", \"used\": \"%s\", \"reason\": ", espalier_matte_name(m->used));
    cli_print_json_string(m->reason);
    if (m->network_file) {
        printf(", \"network_file\": ");
        cli_print_json_string(m->network_file);
    }
    printf(", \"coverage\": %.6f, \"border\": %.6f, \"centre\": %.6f, \"soft\": %.6f, \"parts\": %lld, \"large_parts\": %lld, "
           "\"largest_part\": %.6f, \"dropped_parts\": %lld, \"dropped\": %.6f, \"warnings\": [",
           m->coverage, m->border, m->centre, m->soft, (long long)m->parts, (long long)m->large_parts, m->largest_part,
           (long long)m->dropped_parts, m->dropped);
    print_warnings(m->warnings);
    printf("], \"seconds\": %.3f}\n", seconds);
}

static void say_done(const matte_command *o, const cli_matte_pair *pair, const espalier_matte_stats *m, double seconds)
{
    if (o->common.json)
        say_json(pair, m, seconds);
    else if (!o->common.quiet)
        printf("wrote %s: the matte covers %.1f %% of the frame, %.1f s\n", pair->output, 100 * m->coverage, seconds);
    fflush(stdout);
}

static void say_summary(const matte_command *o, size_t written, size_t failed, double seconds)
{
    const size_t left = o->files.count - written - failed;

    if (o->common.json)
        printf("{\"type\": \"done\", \"pictures\": %zu, \"written\": %zu, \"failed\": %zu, \"left_out\": %zu, \"seconds\": %.3f}\n",
               o->files.count, written, failed, left, seconds);
    else if (!o->common.quiet && o->files.batch)
        printf("%zu pictures: %zu written, %zu failed, %zu left out, %.1f s\n", o->files.count, written, failed, left, seconds);
    fflush(stdout);
}

/* ------------------------------------------------------------- all of them */

/* What would happen to every other picture too. */
static bool ends_the_batch(espalier_status st)
{
    return st == ESPALIER_ERR_MODEL || st == ESPALIER_ERR_DEVICE || st == ESPALIER_ERR_INTERNAL || st == ESPALIER_ERR_CANCELLED;
}

static int run(cli_session *s, const matte_command *o, espalier_matting *matting)
{
    const double start = cli_now();
    size_t written = 0, failed = 0;
    int status = 0;
    bool ended = false;

    for (size_t i = 0; i < o->files.count && !ended; i++) {
        espalier_matte_stats stats = espalier_matte_stats_default();
        const double begun = cli_now();
        say_start(o, i);
        espalier_status st = cut_one(s, o, matting, &o->files.pairs[i], &stats);
        if (st == ESPALIER_OK) {
            written++;
            say_done(o, &o->files.pairs[i], &stats, cli_now() - begun);
        } else {
            failed++;
            status = cli_report_error(s, st);
            ended = ends_the_batch(st);
        }
    }
    if (failed == 0 || o->files.batch) say_summary(o, written, failed, cli_now() - start);
    return failed > 0 && o->files.count > 1 && !ended ? BATCH_FAILED : status;
}

int cli_matte(int argc, char **argv)
{
    matte_command o = {0};
    espalier_matting *matting = NULL;
    cli_session s;
    int status;

    cli_matting_default(&o.matting);
    status = parse(&o, argc, argv);
    if (status) {
        cli_matte_files_free(&o.files);
        return status == CLI_DONE ? cli_flush() : status;
    }
    status = cli_open(&s, &o.common, cli_progress_choose(o.common.quiet, o.common.json));
    if (status == 0) {
        cli_catch_signals(s.ctx);
        espalier_status st = cli_matting_create(&s, &o.matting, o.models, NULL, &matting);
        status = st == ESPALIER_OK ? run(&s, &o, matting) : cli_report_error(&s, st);
        espalier_matting_free(matting);
        cli_close(&s);
    }
    cli_matte_files_free(&o.files);
    return status;
}
