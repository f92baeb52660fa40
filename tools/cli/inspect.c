/* SPDX-License-Identifier: MIT
 *
 * inspect.c: espalier inspect PATH...
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char help[] =
    "usage: espalier inspect [options] PATH...\n"
    "       espalier inspect --compare [options] MESH_A MESH_B\n"
    "\n"
    "Say what a picture, weight file (safetensors, GGUF), model directory, mesh (GLB, glTF, OBJ, PLY, STL, ...) or dump is: sizes,\n"
    "dtypes, what is missing; for meshes how sound they are. Two meshes and nothing else: also the distance between them.\n"
    "\n"
    "  --json                 one JSON object per PATH, and one for the distance\n"
    "  --self-intersections   count them, in meshes (slower)\n"
    "  --compare              the distance between two meshes only\n"
    "  --samples N            points per side for the distance, 1000..100000000 (100000)\n"
    "  -h, --help             this text\n";

enum { OPT_SELF_INTERSECTIONS = CLI_OPT_FIRST_FREE, OPT_COMPARE, OPT_SAMPLES };

typedef struct inspect_command {
    cli_common common;
    bool self_intersections, compare;
    int64_t samples;
    bool separate;                   /* something was printed already */
} inspect_command;

static bool is_mesh(const char *path)
{
    static const char *const suffixes[] = {".glb", ".gltf", ".obj", ".ply", ".stl", ".3mf", ".off", ".dae", ".fbx"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return true;
    return false;
}

/* Prints the description and releases it. */
static espalier_status print(cli_session *s, inspect_command *o, char *json)
{
    char *text = NULL;
    espalier_status st = o->common.json ? ESPALIER_OK : espalier_json_text(s->ctx, json, &text);

    if (st == ESPALIER_OK) {
        if (!o->common.json && o->separate) putchar('\n');
        fputs(text ? text : json, stdout);
        o->separate = true;
    }
    espalier_text_free(s->ctx, text);
    espalier_text_free(s->ctx, json);
    return st;
}

static espalier_status describe(cli_session *s, inspect_command *o, const char *path)
{
    espalier_mesh *mesh = NULL;
    char *json = NULL;
    espalier_status st;

    if (o->self_intersections && is_mesh(path)) {
        st = espalier_mesh_load(s->ctx, &mesh, path);
        if (st == ESPALIER_OK) st = espalier_mesh_inspect(s->ctx, mesh, 1, &json);
        espalier_mesh_free(mesh);
    } else {
        st = espalier_inspect(s->ctx, path, &json);
    }
    return st == ESPALIER_OK ? print(s, o, json) : st;
}

static espalier_status compare(cli_session *s, inspect_command *o, const char *first, const char *second)
{
    espalier_mesh *a = NULL, *b = NULL;
    char *json = NULL;
    espalier_status st = espalier_mesh_load(s->ctx, &a, first);

    if (st == ESPALIER_OK) st = espalier_mesh_load(s->ctx, &b, second);
    if (st == ESPALIER_OK) st = espalier_mesh_compare(s->ctx, a, b, o->samples, &json);
    espalier_mesh_free(a);
    espalier_mesh_free(b);
    return st == ESPALIER_OK ? print(s, o, json) : st;
}

static int parse_option(inspect_command *o, int c, const char *value)
{
    switch (c) {
    case OPT_SELF_INTERSECTIONS:
        o->self_intersections = true;
        return 0;
    case OPT_COMPARE:
        o->compare = true;
        return 0;
    case OPT_SAMPLES:
        if (!cli_parse_int(value, 1000, 100000000, &o->samples))
            return cli_usage_error("inspect", "--samples '%s' is not a whole number from 1000 to 100000000", value);
        return 0;
    default:
        return cli_common_option(&o->common, "inspect", c, value);
    }
}

static int run(cli_session *s, inspect_command *o, char **paths, int n)
{
    int status = 0;

    for (int i = 0; !o->compare && i < n; i++) {
        const espalier_status st = describe(s, o, paths[i]);
        const int failed = st == ESPALIER_OK ? 0 : cli_report_error(s, st);
        if (!status) status = failed;
    }
    if (!status && n == 2 && (o->compare || (is_mesh(paths[0]) && is_mesh(paths[1])))) {
        const espalier_status st = compare(s, o, paths[0], paths[1]);
        if (st != ESPALIER_OK) status = cli_report_error(s, st);
    }
    return status;
}

int cli_inspect(int argc, char **argv)
{
    static const struct option options[] = {
        {"self-intersections", no_argument, NULL, OPT_SELF_INTERSECTIONS}, {"compare", no_argument, NULL, OPT_COMPARE},
        {"samples", required_argument, NULL, OPT_SAMPLES}, CLI_COMMON_OPTIONS, {NULL, 0, NULL, 0},
    };
    inspect_command o = {.samples = 100000};
    cli_session s;
    int c, status = 0;

    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (c == 'h') return fputs(help, stdout), 0;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), 0;
        if (c == '?' || c == ':') return cli_bad_option("inspect", argv, c);
        if ((c = parse_option(&o, c, optarg)) != 0) return c;
    }
    if (optind == argc) return cli_usage_error("inspect", "name a file or directory to inspect");
    if (o.compare && argc - optind != 2) return cli_usage_error("inspect", "--compare takes two meshes");
    if ((status = cli_open(&s, &o.common, CLI_PROGRESS_NONE)) != 0) return status;
    cli_catch_signals(s.ctx);
    status = run(&s, &o, argv + optind, argc - optind);
    cli_close(&s);
    return status;
}
