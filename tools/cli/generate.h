/* SPDX-License-Identifier: MIT
 *
 * generate.h: the options of espalier generate.
 */
#ifndef ESPALIER_CLI_GENERATE_H
#define ESPALIER_CLI_GENERATE_H

#include "finish.h"
#include "matting.h"
#include "outputs.h"

#define CLI_MAX_SETTINGS 64
#define CLI_MAX_WEIGHTS 16

/* One sampler parameter of one stage, checked already. */
typedef struct cli_setting {
    int stage;                                   /* 0 structure, 1 shape, 2 texture */
    int param;                                   /* index into the table of generate_options.c */
    double value;
} cli_setting;

typedef struct cli_generate_options {
    cli_common common;
    cli_finish finish;
    cli_matting matting;
    cli_outputs outputs;
    const char *image, *dump, *report, *models;
    const char *weights[2 * CLI_MAX_WEIGHTS + 1];        /* role, path, ..., NULL */
    int n_weights;
    char weight_text[CLI_MAX_WEIGHTS][4096];
    cli_setting settings[CLI_MAX_SETTINGS];              /* in the order given */
    int n_settings;
    int64_t seed, steps, max_tokens;
    espalier_pipeline_type pipeline, resolution;
    bool no_texture, force;
} cli_generate_options;

/* Everything that can be wrong without looking at a model is found here. 0 = go on, CLI_DONE (help, version), else the exit status with the
 * message printed. */
int cli_generate_parse(cli_generate_options *o, int argc, char **argv);
/* The pipeline asked for, or DEFAULT. */
espalier_pipeline_type cli_generate_pipeline(const cli_generate_options *o);
void cli_generate_params(const cli_generate_options *o, espalier_generate_params *p, const espalier_model *model);

#endif
