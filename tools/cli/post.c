/* SPDX-License-Identifier: MIT
 *
 * post.c: espalier post: raw dump in, finished mesh out. The dump is never changed.
 */
#include "finish.h"
#include "outputs.h"

#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: espalier post [options] DUMP -o OUT.glb [-o OUT.stl ...]\n"
    "\n"
    "Finish a raw asset: repair, remesh, simplify, texture. DUMP is what 'generate --dump-post' wrote (.espd keeps everything), .qtm3d,\n"
    "trellis.cpp's --dump-post, or O-Voxels (.vxz, .npz). The same dump can be finished again with other options, in any order.\n"
    "\n"
    "  -o, --output FILE        .glb .gltf .obj .ply .stl .3mf .usdz; may be given several times\n"
    "      --report FILE.json   time and soundness of every step\n"
    "      --resolution N       cells per axis, where an O-Voxel file does not say it\n"
    "      --force              go on although a soundness check fails\n";
static const char common_help[] =
    "in general:\n"
    "      --threads N          default: all cores\n"
    "      --mem-budget SIZE    such as 6G\n"
    "      --quiet              only errors and warnings\n"
    "      --json               progress and result as JSON lines\n"
    "  -h, --help, --version\n";

enum { OPT_REPORT = CLI_OPT_FIRST_FREE, OPT_RESOLUTION, OPT_FORCE };

typedef struct post_command {
    cli_common common;
    cli_finish finish;
    cli_outputs outputs;
    const char *input, *report;
    int64_t resolution;
} post_command;

static int parse_option(post_command *o, int c, const char *value)
{
    int status = cli_finish_option(&o->finish, "post", c, value);
    if (status != 1) return status;
    switch (c) {
    case 'o':
        return cli_outputs_add(&o->outputs, "post", value);
    case OPT_REPORT:
        o->report = value;
        return 0;
    case OPT_RESOLUTION:
        if (!cli_parse_int(value, 1, 131072, &o->resolution))
            return cli_usage_error("post", "--resolution '%s' is not a whole number from 1 to 131072", value);
        return 0;
    case OPT_FORCE:
        o->finish.post.force = 1;
        return 0;
    default:
        return cli_common_option(&o->common, "post", c, value);
    }
}

static int check_files(const post_command *o)
{
    const char *paths[CLI_MAX_OUTPUTS + 2] = {o->input, o->report};
    int status;

    if (!o->input) return cli_usage_error("post", "name a dump");
    if (o->outputs.count == 0) return cli_usage_error("post", "name the result with -o FILE");
    for (int i = 0; i < o->outputs.count; i++) paths[i + 2] = o->outputs.path[i];
    if ((status = cli_check_collisions("post", paths, o->outputs.count + 2)) != 0) return status;
    for (int i = 0; i < o->outputs.count; i++)
        if ((status = cli_check_output(o->outputs.path[i])) != 0) return status;
    return cli_check_output(o->report);
}

static int parse(post_command *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"report", required_argument, NULL, OPT_REPORT},
        {"resolution", required_argument, NULL, OPT_RESOLUTION},
        {"force", no_argument, NULL, OPT_FORCE},
        CLI_FINISH_OPTIONS,
        CLI_COMMON_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    int c, status;

    while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        if (c == 'h') return printf("%s%s%s", usage, cli_finish_help, common_help), CLI_DONE;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), CLI_DONE;
        if (c == '?' || c == ':') return cli_bad_option("post", argv, c);
        if (optarg && !optarg[0]) return cli_usage_error("post", "option '%s' has an empty value", cli_option_text(argv));
        if ((status = parse_option(o, c, optarg)) != 0) return status;
    }
    for (; optind < argc; optind++) {
        if (o->input) return cli_usage_error("post", "more than one dump: '%s' and '%s'", o->input, argv[optind]);
        o->input = argv[optind];
    }
    return check_files(o);
}

static void conclude(const post_command *o, const espalier_mesh *mesh, double seconds)
{
    const espalier_mesh_view v = espalier_mesh_get(mesh);

    if (o->common.json) {
        printf("{\"type\": \"done\", \"vertices\": %lld, \"faces\": %lld, \"textures\": %d, \"seconds\": %.3f, \"files\": [",
               (long long)v.vertex_count, (long long)v.face_count, (int)v.texture_count, seconds);
        for (int i = 0; i < o->outputs.count; i++) {
            if (i) fputs(", ", stdout);
            cli_print_json_string(o->outputs.path[i]);
        }
        printf("]}\n");
    } else if (!o->common.quiet) {
        printf("%lld vertices, %lld faces, %.1f s\n", (long long)v.vertex_count, (long long)v.face_count, seconds);
        for (int i = 0; i < o->outputs.count; i++) printf("wrote %s\n", o->outputs.path[i]);
        if (o->report) printf("wrote %s\n", o->report);
    }
    fflush(stdout);
}

static int run(cli_session *s, post_command *o)
{
    espalier_asset *asset = NULL;
    espalier_mesh *mesh = NULL;
    espalier_report *report = NULL;
    const double start = cli_now();
    int status = 0;

    espalier_status st = espalier_asset_load(s->ctx, &asset, o->input, o->resolution);
    if (st == ESPALIER_OK && o->report) st = espalier_report_create(s->ctx, &report);
    o->finish.post.report = report;
    espalier_context_set_progress(s->ctx, cli_progress_update, &s->progress);
    if (st == ESPALIER_OK) st = espalier_post(s->ctx, &mesh, asset, &o->finish.post);
    cli_progress_end(&s->progress);
    if (st == ESPALIER_OK) st = cli_outputs_save(s, &o->outputs, mesh, &o->finish.save);
    if (st == ESPALIER_OK && report) st = espalier_report_save(s->ctx, report, o->report);
    if (st == ESPALIER_OK) {
        conclude(o, mesh, cli_now() - start);
    } else {
        status = cli_report_error(s, st);
        if (st == ESPALIER_ERR_SOUNDNESS && report && espalier_report_save(s->ctx, report, o->report) != ESPALIER_OK)
            fprintf(stderr, "espalier: %s\n", espalier_error_message(s->ctx));
    }
    espalier_mesh_free(mesh);
    espalier_asset_free(asset);
    espalier_report_free(report);
    return status;
}

int cli_post(int argc, char **argv)
{
    post_command o = {0};
    cli_session s;
    int status;

    cli_finish_default(&o.finish);
    status = parse(&o, argc, argv);
    if (status) return status == CLI_DONE ? cli_flush() : status;
    if ((status = cli_open(&s, &o.common, cli_progress_choose(o.common.quiet, o.common.json))) != 0) return status;
    cli_catch_signals(s.ctx);
    status = run(&s, &o);
    cli_close(&s);
    return status;
}
