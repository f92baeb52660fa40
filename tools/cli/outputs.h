/* SPDX-License-Identifier: MIT
 *
 * outputs.h: result files of a subcommand: can they be written, do they get into each other's way, and writing a mesh to all of them.
 */
#ifndef ESPALIER_CLI_OUTPUTS_H
#define ESPALIER_CLI_OUTPUTS_H

#include "cli.h"

#define CLI_MAX_OUTPUTS 16

typedef struct cli_outputs {
    const char *path[CLI_MAX_OUTPUTS];           /* -o, in the order given */
    int count;
} cli_outputs;

/* One more -o; 0 or a usage error (too many, unknown suffix). */
int cli_outputs_add(cli_outputs *o, const char *command, const char *path);
/* A result that cannot be written should not cost an hour of computing: 0, or 7 with the message. NULL is fine. */
int cli_check_output(const char *path);
/* Usage error when two of these n paths (NULL = none) are the same file. */
int cli_check_collisions(const char *command, const char *const *paths, int n);
/* The mesh into every output. A cancelled run leaves none of them; a full disk leaves those that were finished before. */
espalier_status cli_outputs_save(cli_session *s, const cli_outputs *o, const espalier_mesh *mesh, const espalier_save_options *options);

#endif
