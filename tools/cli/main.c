/* SPDX-License-Identifier: MIT
 *
 * main.c: the espalier command: pick the subcommand.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: espalier COMMAND [options]\n"
    "\n"
    "One picture of an object in, a 3D asset out; the same bits on every machine.\n"
    "\n"
    "  generate   picture -> finished asset (GLB and others), or a raw dump\n"
    "  matte      cut the object out of pictures\n"
    "  post       raw dump -> finished asset, again and again with other options\n"
    "  voxelize   mesh -> O-Voxels\n"
    "  mesh       O-Voxels -> mesh\n"
    "  inspect    what a picture, model, mesh or dump is, and how sound; distance between two meshes\n"
    "  render     four views of a mesh as a picture\n"
    "  devices    what can compute here\n"
    "\n"
    "  -h, --help, --version;  'espalier COMMAND --help' tells more\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} commands[] = {{"generate", cli_generate}, {"matte", cli_matte},     {"post", cli_post},       {"voxelize", cli_voxelize},
                {"mesh", cli_mesh},         {"inspect", cli_inspect}, {"render", cli_render},   {"devices", cli_devices}};

static int run(int argc, char **argv)
{
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) return fputs(help, stdout), 0;
    if (strcmp(name, "--version") == 0) return printf("espalier %s\n", espalier_version()), 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(name, commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    return cli_usage_error("", "unknown %s '%s'", name[0] == '-' ? "option" : "command", name);
}

int main(int argc, char **argv)
{
    opterr = 0;
    if (argc < 2) {
        fputs(help, stderr);
        return ESPALIER_ERR_ARG;
    }
    int status = run(argc, argv);
    /* What generate and matte print is news, not their result: a reader that goes away early does no harm. */
    return status || strcmp(argv[1], "generate") == 0 || strcmp(argv[1], "matte") == 0 ? status : cli_flush();
}
