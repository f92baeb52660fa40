/* SPDX-License-Identifier: MIT
 *
 * voxelize.c: espalier voxelize (mesh -> O-Voxels) and espalier mesh (O-Voxels or a dump -> mesh).
 */
#include "finish.h"
#include "outputs.h"

#include <stdio.h>
#include <string.h>

typedef struct convert_command {
    const char *name;                /* of the subcommand */
    cli_common common;
    const char *input, *output;
    cli_outputs outputs;             /* of "mesh" */
    espalier_voxelize_options voxelize;
    espalier_save_options save;
    int64_t resolution;
} convert_command;

static int set_input(convert_command *o, const char *path)
{
    if (o->input) return cli_usage_error(o->name, "more than one input: '%s' and '%s'", o->input, path);
    o->input = path;
    return 0;
}

static int open_session(cli_session *s, const convert_command *o)
{
    const int status = cli_open(s, &o->common, cli_progress_choose(o->common.quiet, o->common.json));
    if (status) return status;
    cli_catch_signals(s->ctx);
    espalier_context_set_progress(s->ctx, cli_progress_update, &s->progress);
    return 0;
}

static void say_done(const convert_command *o, long long voxels, long long faces, const char *const *paths, int n)
{
    if (o->common.json) {
        printf("{\"type\": \"done\", \"voxels\": %lld, \"faces\": %lld, \"files\": [", voxels, faces);
        for (int i = 0; i < n; i++) {
            if (i) fputs(", ", stdout);
            cli_print_json_string(paths[i]);
        }
        printf("]}\n");
    } else if (!o->common.quiet) {
        for (int i = 0; i < n; i++) printf("wrote %s\n", paths[i]);
    }
    fflush(stdout);
}

/* ------------------------------------------------------------- voxelize */

static const char voxelize_help[] =
    "usage: espalier voxelize [options] MESH -o OUT.vxz\n"
    "\n"
    "Turn a mesh (GLB, glTF, OBJ, PLY, STL, ...) into O-Voxels: a flexible dual grid and, from its materials, PBR attributes. A closed\n"
    "mesh gives a closed grid.\n"
    "\n"
    "  -o, --output FILE        .vxz or .npz; also .qtm3d or another suffix for trellis.cpp's layout\n"
    "      --resolution N       cells per axis of the cube [-0.5, 0.5]^3, 64..2048 (512)\n"
    "      --fit                scale and centre the mesh to fill the cube; without, what lies outside is cut off\n"
    "      --reference          the flags of TRELLIS.2's converter, which leave holes where a surface folds within a cell\n"
    "      --no-materials       geometry only\n"
    "      --threads N, --mem-budget SIZE, --quiet, --json\n"
    "  -h, --help, --version\n";

enum { OPT_RESOLUTION = CLI_OPT_FIRST_FREE, OPT_FIT, OPT_REFERENCE, OPT_NO_MATERIALS };

static int parse_voxelize_option(convert_command *o, int c, const char *value)
{
    switch (c) {
    case 'o':
        if (o->output) return cli_usage_error("voxelize", "more than one result: '%s' and '%s'", o->output, value);
        o->output = value;
        return 0;
    case OPT_RESOLUTION:
        if (!cli_parse_int(value, 64, 2048, &o->resolution))
            return cli_usage_error("voxelize", "--resolution '%s' is not a whole number from 64 to 2048", value);
        o->voxelize.resolution = (int32_t)o->resolution;
        return 0;
    case OPT_FIT:
        o->voxelize.fit = 1;
        return 0;
    case OPT_REFERENCE:
        o->voxelize.reference = 1;
        return 0;
    case OPT_NO_MATERIALS:
        o->voxelize.no_materials = 1;
        return 0;
    default:
        return cli_common_option(&o->common, "voxelize", c, value);
    }
}

static int parse_voxelize(convert_command *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},         {"resolution", required_argument, NULL, OPT_RESOLUTION},
        {"fit", no_argument, NULL, OPT_FIT},              {"reference", no_argument, NULL, OPT_REFERENCE},
        {"no-materials", no_argument, NULL, OPT_NO_MATERIALS}, CLI_COMMON_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    int c, status;

    while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        if (c == 'h') return fputs(voxelize_help, stdout), CLI_DONE;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), CLI_DONE;
        if (c == '?' || c == ':') return cli_bad_option("voxelize", argv, c);
        if (optarg && !optarg[0]) return cli_usage_error("voxelize", "option '%s' has an empty value", cli_option_text(argv));
        if ((status = parse_voxelize_option(o, c, optarg)) != 0) return status;
    }
    for (; optind < argc; optind++)
        if ((status = set_input(o, argv[optind])) != 0) return status;
    if (!o->input) return cli_usage_error("voxelize", "name a mesh");
    if (!o->output) return cli_usage_error("voxelize", "name the result with -o FILE.vxz");
    const char *const paths[] = {o->input, o->output};
    if ((status = cli_check_collisions("voxelize", paths, 2)) != 0) return status;
    return cli_check_output(o->output);
}

int cli_voxelize(int argc, char **argv)
{
    convert_command o = {.name = "voxelize", .voxelize = espalier_voxelize_options_default()};
    espalier_mesh *mesh = NULL;
    espalier_asset *asset = NULL;
    cli_session s;
    int status = parse_voxelize(&o, argc, argv);

    if (status) return status == CLI_DONE ? cli_flush() : status;
    if ((status = open_session(&s, &o)) != 0) return status;
    espalier_status st = espalier_mesh_load(s.ctx, &mesh, o.input);
    if (st == ESPALIER_OK) st = espalier_voxelize(s.ctx, &asset, mesh, &o.voxelize);
    cli_progress_end(&s.progress);
    if (st == ESPALIER_OK) st = espalier_asset_dump(s.ctx, asset, o.output);
    if (st == ESPALIER_OK) {
        const espalier_asset_view v = espalier_asset_get(asset);
        say_done(&o, (long long)v.voxel_count, (long long)v.face_count, &o.output, 1);
    } else {
        status = cli_report_error(&s, st);
    }
    espalier_asset_free(asset);
    espalier_mesh_free(mesh);
    cli_close(&s);
    return status;
}

/* ------------------------------------------------------------- mesh */

static const char mesh_help[] =
    "usage: espalier mesh [options] VOXELS -o OUT.glb [-o OUT.ply ...]\n"
    "\n"
    "The mesh that O-Voxels (.vxz, .npz) or a dump stand for, as it is, with a colour per vertex. 'espalier post' makes a clean,\n"
    "textured one.\n"
    "\n"
    "  -o, --output FILE        .glb .gltf .obj .ply .stl .3mf .usdz; may be given several times\n"
    "      --resolution N       cells per axis, where the file does not say it\n"
    "      --size-mm X          longest side in .3mf and .stl\n"
    "      --threads N, --mem-budget SIZE, --quiet, --json\n"
    "  -h, --help, --version\n";

static int parse_mesh_option(convert_command *o, int c, const char *value)
{
    switch (c) {
    case 'o':
        return cli_outputs_add(&o->outputs, "mesh", value);
    case OPT_RESOLUTION:
        if (!cli_parse_int(value, 1, 131072, &o->resolution))
            return cli_usage_error("mesh", "--resolution '%s' is not a whole number from 1 to 131072", value);
        return 0;
    case CLI_OPT_SIZE_MM:
        if (!cli_parse_double(value, 0.001, 1e6, &o->save.size_mm))
            return cli_usage_error("mesh", "--size-mm '%s' is not a number from 0.001 to 1000000", value);
        return 0;
    default:
        return cli_common_option(&o->common, "mesh", c, value);
    }
}

static int parse_mesh(convert_command *o, int argc, char **argv)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"resolution", required_argument, NULL, OPT_RESOLUTION},
        {"size-mm", required_argument, NULL, CLI_OPT_SIZE_MM},
        CLI_COMMON_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    const char *paths[CLI_MAX_OUTPUTS + 1];
    int c, status;

    while ((c = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
        if (c == 'h') return fputs(mesh_help, stdout), CLI_DONE;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), CLI_DONE;
        if (c == '?' || c == ':') return cli_bad_option("mesh", argv, c);
        if (optarg && !optarg[0]) return cli_usage_error("mesh", "option '%s' has an empty value", cli_option_text(argv));
        if ((status = parse_mesh_option(o, c, optarg)) != 0) return status;
    }
    for (; optind < argc; optind++)
        if ((status = set_input(o, argv[optind])) != 0) return status;
    if (!o->input) return cli_usage_error("mesh", "name a file of voxels");
    if (o->outputs.count == 0) return cli_usage_error("mesh", "name the result with -o FILE");
    paths[0] = o->input;
    for (int i = 0; i < o->outputs.count; i++) paths[i + 1] = o->outputs.path[i];
    if ((status = cli_check_collisions("mesh", paths, o->outputs.count + 1)) != 0) return status;
    for (int i = 0; i < o->outputs.count; i++)
        if ((status = cli_check_output(o->outputs.path[i])) != 0) return status;
    return 0;
}

int cli_mesh(int argc, char **argv)
{
    convert_command o = {.name = "mesh", .save = espalier_save_options_default()};
    espalier_post_options raw = espalier_post_options_default();
    espalier_mesh *mesh = NULL;
    espalier_asset *asset = NULL;
    cli_session s;
    int status = parse_mesh(&o, argc, argv);

    if (status) return status == CLI_DONE ? cli_flush() : status;
    if ((status = open_session(&s, &o)) != 0) return status;
    raw.mode = ESPALIER_POST_NONE;
    espalier_status st = espalier_asset_load(s.ctx, &asset, o.input, o.resolution);
    if (st == ESPALIER_OK) st = espalier_post(s.ctx, &mesh, asset, &raw);
    cli_progress_end(&s.progress);
    if (st == ESPALIER_OK) st = cli_outputs_save(&s, &o.outputs, mesh, &o.save);
    if (st == ESPALIER_OK)
        say_done(&o, (long long)espalier_asset_get(asset).voxel_count, (long long)espalier_mesh_get(mesh).face_count, o.outputs.path,
                 o.outputs.count);
    else
        status = cli_report_error(&s, st);
    espalier_mesh_free(mesh);
    espalier_asset_free(asset);
    cli_close(&s);
    return status;
}
