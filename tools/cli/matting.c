/* SPDX-License-Identifier: MIT */
#include "matting.h"

#include <string.h>

const char cli_matting_help[] =
    "cutting out:\n"
    "      --matte MODE         auto: the picture's own transparency if it has some, else the first of birefnet, isnet, u2net, u2netp\n"
    "                           that is found (default); alpha: it must have transparency; birefnet, isnet, u2net, u2netp: this network;\n"
    "                           threshold: away with a white backdrop; none: take it whole. Transparency that is there wins over all\n"
    "      --matte-model FILE   weights of a matting network (safetensors or GGUF) instead of those in the model directory\n"
    "      --matte-over-alpha   set the picture's own transparency aside\n"
    "      --keep-largest       only the largest connected part\n";

void cli_matting_default(cli_matting *m)
{
    m->options = espalier_matting_options_default();
}

int cli_matting_option(cli_matting *m, const char *command, int option, const char *value)
{
    switch (option) {
    case CLI_OPT_MATTE:
        if (espalier_matte_parse(&m->options.matte, value) != ESPALIER_OK)
            return cli_usage_error(command, "--matte '%s' is none of auto, alpha, birefnet, isnet, u2net, u2netp, threshold, none", value);
        return 0;
    case CLI_OPT_MATTE_MODEL:
        m->options.network_file = value;
        return 0;
    case CLI_OPT_MATTE_OVER_ALPHA:
        m->options.over_alpha = 1;
        return 0;
    case CLI_OPT_KEEP_LARGEST:
        m->options.keep_largest = 1;
        return 0;
    default:
        return 1;
    }
}

int cli_matting_check(const cli_matting *m, const char *command)
{
    const espalier_matte matte = m->options.matte;
    const bool without_network = matte == ESPALIER_MATTE_ALPHA || matte == ESPALIER_MATTE_NONE || matte == ESPALIER_MATTE_THRESHOLD;

    if (m->options.over_alpha && matte == ESPALIER_MATTE_ALPHA)
        return cli_usage_error(command, "--matte alpha takes the transparency that --matte-over-alpha sets aside");
    if (m->options.network_file && without_network)
        return cli_usage_error(command, "--matte %s uses no network, but --matte-model names one", espalier_matte_name(matte));
    return 0;
}

espalier_status cli_matting_create(cli_session *s, cli_matting *m, const char *named, const char *models, espalier_matting **out)
{
    const char *user = cli_user_models(m->user_directory, sizeof m->user_directory) ? m->user_directory : NULL;
    const char *const order[] = {named, named ? models : user, named ? user : models};
    int n = 0;

    for (int i = 0; i < 3; i++)
        if (order[i] && (n == 0 || strcmp(order[i], m->directories[n - 1]) != 0)) m->directories[n++] = order[i];
    m->directories[n] = NULL;
    m->options.directories = m->directories;
    return espalier_matting_create(s->ctx, out, &m->options);
}
