/* SPDX-License-Identifier: MIT
 *
 * matte_files.h: which pictures espalier matte reads and what it writes them to.
 */
#ifndef ESPALIER_CLI_MATTE_FILES_H
#define ESPALIER_CLI_MATTE_FILES_H

#include "cli.h"

#include <stddef.h>

typedef struct cli_matte_pair {
    char *input, *output;
} cli_matte_pair;

typedef struct cli_matte_files {
    cli_matte_pair *pairs;
    size_t count, capacity;
    bool batch; /* into a directory */
} cli_matte_files;

/* Directories among the inputs stand for the pictures in them. One picture goes to the file `output`; several, or one when `output` is a
 * directory, to output/NAME.format (NULL: png). Makes the directory. 0, or an exit status with the message printed: no pictures, names that
 * collide, an input that would be overwritten, an output that cannot be written. Release in any case. */
int cli_matte_files_list(cli_matte_files *f, char *const *inputs, int n_inputs, const char *output, const char *format);
void cli_matte_files_free(cli_matte_files *f);

#endif
