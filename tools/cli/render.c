/* SPDX-License-Identifier: MIT
 *
 * render.c: espalier render: four views of a mesh as a picture.
 */
#include "outputs.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: espalier render [options] MESH -o VIEWS.png\n"
    "\n"
    "Draw a mesh (GLB, glTF, OBJ, PLY, STL, ...) from four sides: three quarters, back, side, top.\n"
    "\n"
    "  -o, --output FILE.png\n"
    "      --size N         pixels per view, 16..4096 (512)\n"
    "      --backfaces      paint faces seen from behind in magenta: a closed mesh shows none\n"
    "      --threads N, --mem-budget SIZE, --quiet, --json\n"
    "  -h, --help, --version\n";

enum { OPT_SIZE = CLI_OPT_FIRST_FREE, OPT_BACKFACES };

typedef struct render_command {
    cli_common common;
    const char *input, *output;
    int64_t size;
    int backfaces;
} render_command;

static int parse_option(render_command *o, int c, const char *value)
{
    switch (c) {
    case 'o':
        if (o->output) return cli_usage_error("render", "more than one result: '%s' and '%s'", o->output, value);
        o->output = value;
        return 0;
    case OPT_SIZE:
        if (!cli_parse_int(value, 16, 4096, &o->size))
            return cli_usage_error("render", "--size '%s' is not a whole number from 16 to 4096", value);
        return 0;
    case OPT_BACKFACES:
        o->backfaces = 1;
        return 0;
    default:
        return cli_common_option(&o->common, "render", c, value);
    }
}

static int parse(render_command *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"size", required_argument, NULL, OPT_SIZE},
        {"backfaces", no_argument, NULL, OPT_BACKFACES}, CLI_COMMON_OPTIONS, {NULL, 0, NULL, 0},
    };
    int c, status;

    while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        if (c == 'h') return fputs(help, stdout), CLI_DONE;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), CLI_DONE;
        if (c == '?' || c == ':') return cli_bad_option("render", argv, c);
        if (optarg && !optarg[0]) return cli_usage_error("render", "option '%s' has an empty value", cli_option_text(argv));
        if ((status = parse_option(o, c, optarg)) != 0) return status;
    }
    for (; optind < argc; optind++) {
        if (o->input) return cli_usage_error("render", "more than one mesh: '%s' and '%s'", o->input, argv[optind]);
        o->input = argv[optind];
    }
    if (!o->input) return cli_usage_error("render", "name a mesh");
    if (!o->output) return cli_usage_error("render", "name the picture with -o FILE.png");
    const size_t len = strlen(o->output);
    if (len < 5 || strcmp(o->output + len - 4, ".png") != 0)
        return cli_usage_error("render", "-o '%s' does not end in .png", o->output);
    const char *const paths[] = {o->input, o->output};
    if ((status = cli_check_collisions("render", paths, 2)) != 0) return status;
    return cli_check_output(o->output);
}

int cli_render(int argc, char **argv)
{
    render_command o = {.size = 512};
    espalier_mesh *mesh = NULL;
    espalier_image picture = {0};
    cli_session s;
    int status = parse(&o, argc, argv);

    if (status) return status == CLI_DONE ? cli_flush() : status;
    if ((status = cli_open(&s, &o.common, cli_progress_choose(o.common.quiet, o.common.json))) != 0) return status;
    cli_catch_signals(s.ctx);
    espalier_status st = espalier_mesh_load(s.ctx, &mesh, o.input);
    if (st == ESPALIER_OK) st = espalier_mesh_render(s.ctx, &picture, mesh, (uint32_t)o.size, o.backfaces);
    if (st == ESPALIER_OK) st = espalier_image_save_png(s.ctx, &picture, o.output);
    if (st != ESPALIER_OK) {
        status = cli_report_error(&s, st);
    } else if (o.common.json) {
        printf("{\"type\": \"done\", \"files\": [");
        cli_print_json_string(o.output);
        printf("]}\n");
    } else if (!o.common.quiet) {
        printf("wrote %s\n", o.output);
    }
    espalier_image_free(&picture);
    espalier_mesh_free(mesh);
    cli_close(&s);
    return status;
}
