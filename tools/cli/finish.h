/* SPDX-License-Identifier: MIT
 *
 * finish.h: the options that generate and post share: how to finish a mesh and how to save it.
 */
#ifndef ESPALIER_CLI_FINISH_H
#define ESPALIER_CLI_FINISH_H

#include "cli.h"

typedef struct cli_finish {
    espalier_post_options post;
    espalier_save_options save;
    bool any;                        /* one of the options was given */
} cli_finish;

enum {
    CLI_OPT_POST = 512,
    CLI_OPT_FACES,
    CLI_OPT_TEXTURE_SIZE,
    CLI_OPT_MARGIN,
    CLI_OPT_FILL_PERIMETER,
    CLI_OPT_NO_REMESH,
    CLI_OPT_REMESH_RES,
    CLI_OPT_BAND,
    CLI_OPT_PROJECT,
    CLI_OPT_KEEP_INNER,
    CLI_OPT_SOLID,
    CLI_OPT_MIN_COMPONENT,
    CLI_OPT_REMOVE_FLOATERS,
    CLI_OPT_BOX_UV,
    CLI_OPT_PADDING,
    CLI_OPT_GUTTER,
    CLI_OPT_DESPECKLE,
    CLI_OPT_NORMAL_MAP,
    CLI_OPT_AO,
    CLI_OPT_ALPHA,
    CLI_OPT_TEXTURE_FORMAT,
    CLI_OPT_JPEG_QUALITY,
    CLI_OPT_SIZE_MM
};
#define CLI_FINISH_OPTIONS                                                                                                                 \
    {"post", required_argument, NULL, CLI_OPT_POST}, {"faces", required_argument, NULL, CLI_OPT_FACES},                                    \
        {"texture-size", required_argument, NULL, CLI_OPT_TEXTURE_SIZE}, {"margin", required_argument, NULL, CLI_OPT_MARGIN},              \
        {"fill-perimeter", required_argument, NULL, CLI_OPT_FILL_PERIMETER}, {"no-remesh", no_argument, NULL, CLI_OPT_NO_REMESH},          \
        {"remesh-res", required_argument, NULL, CLI_OPT_REMESH_RES}, {"band", required_argument, NULL, CLI_OPT_BAND},                      \
        {"project", required_argument, NULL, CLI_OPT_PROJECT}, {"keep-inner", no_argument, NULL, CLI_OPT_KEEP_INNER},                      \
        {"solid", no_argument, NULL, CLI_OPT_SOLID}, {"min-component", required_argument, NULL, CLI_OPT_MIN_COMPONENT},                    \
        {"remove-floaters", required_argument, NULL, CLI_OPT_REMOVE_FLOATERS}, {"box-uv", no_argument, NULL, CLI_OPT_BOX_UV},              \
        {"padding", required_argument, NULL, CLI_OPT_PADDING}, {"gutter", required_argument, NULL, CLI_OPT_GUTTER},                        \
        {"despeckle", required_argument, NULL, CLI_OPT_DESPECKLE}, {"normal-map", no_argument, NULL, CLI_OPT_NORMAL_MAP},                  \
        {"ao", required_argument, NULL, CLI_OPT_AO}, {"alpha", required_argument, NULL, CLI_OPT_ALPHA},                                    \
        {"texture-format", required_argument, NULL, CLI_OPT_TEXTURE_FORMAT},                                                               \
        {"jpeg-quality", required_argument, NULL, CLI_OPT_JPEG_QUALITY},                                                                   \
    {                                                                                                                                      \
        "size-mm", required_argument, NULL, CLI_OPT_SIZE_MM                                                                                \
    }

/* Lines of --help. */
extern const char cli_finish_help[];
void cli_finish_default(cli_finish *f);
/* 0 = done, 1 = not mine, 2 = usage error, printed. */
int cli_finish_option(cli_finish *f, const char *command, int option, const char *value);

#endif
