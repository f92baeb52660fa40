/* SPDX-License-Identifier: MIT
 *
 * matting.h: the options that generate and matte share: how to cut the object out of the picture.
 */
#ifndef ESPALIER_CLI_MATTING_H
#define ESPALIER_CLI_MATTING_H

#include "cli.h"

typedef struct cli_matting {
    espalier_matting_options options;
    const char *directories[4];      /* where networks are looked for, NULL-terminated */
    char user_directory[4096];
} cli_matting;

enum { CLI_OPT_MATTE = 768, CLI_OPT_MATTE_MODEL, CLI_OPT_MATTE_OVER_ALPHA, CLI_OPT_KEEP_LARGEST };
#define CLI_MATTING_OPTIONS                                                                                                                \
    {"matte", required_argument, NULL, CLI_OPT_MATTE}, {"matte-model", required_argument, NULL, CLI_OPT_MATTE_MODEL},                      \
        {"matte-over-alpha", no_argument, NULL, CLI_OPT_MATTE_OVER_ALPHA},                                                                 \
    {                                                                                                                                      \
        "keep-largest", no_argument, NULL, CLI_OPT_KEEP_LARGEST                                                                            \
    }

/* Lines of --help. */
extern const char cli_matting_help[];
void cli_matting_default(cli_matting *m);
/* 0 = done, 1 = not mine, 2 = usage error, printed. */
int cli_matting_option(cli_matting *m, const char *command, int option, const char *value);
/* Options that contradict each other: 0 or 2, printed. */
int cli_matting_check(const cli_matting *m, const char *command);
/* `named` is what -m says, `models` the model directory in use; either may be NULL. The user's own directory is looked at too. */
espalier_status cli_matting_create(cli_session *s, cli_matting *m, const char *named, const char *models, espalier_matting **out);

#endif
