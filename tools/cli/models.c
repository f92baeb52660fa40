/* SPDX-License-Identifier: MIT
 *
 * models.c: which model directory a command uses when none is named.
 */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char buffer[4096];

static bool exists(const char *dir)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/pipeline.json", dir);
    return access(path, R_OK) == 0;
}

/* $XDG_DATA_HOME/espalier/models, by default under ~/.local/share. */
bool cli_user_models(char *out, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;
    if (data && data[0] == '/')
        n = snprintf(out, size, "%s/espalier/models", data);
    else if (home && home[0])
        n = snprintf(out, size, "%s/.local/share/espalier/models", home);
    else
        return false;
    return n > 0 && (size_t)n < size;
}

/* The embedded model: installed beside the program (../share/espalier/tiny), or in the source tree it was built from. */
static bool embedded_model(void)
{
    static const char *const places[] = {"../share/espalier/tiny", "../models/tiny"};
    char self[3072];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        char *slash = strrchr(self, '/');
        if (slash) *slash = 0;
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            snprintf(buffer, sizeof buffer, "%s/%s", self, places[i]);
            if (exists(buffer)) return true;
        }
    }
    snprintf(buffer, sizeof buffer, "%s", ESPALIER_TINY_SOURCE);
    return exists(buffer);
}

/* Can the directory run what is wished for? Otherwise the context's message tells why not. */
static bool complete(espalier_context *ctx, const char *directory, const cli_model_wish *wish)
{
    espalier_model *model = NULL;
    espalier_status st = espalier_model_open(ctx, &model, directory, NULL);
    if (st == ESPALIER_OK) st = espalier_model_require(ctx, model, wish->pipeline, wish->with_texture);
    espalier_model_free(model);
    return st == ESPALIER_OK;
}

const char *cli_find_models(cli_session *s, const cli_model_wish *wish, const char **what)
{
    if (wish->directory) {
        *what = "as given";
        return wish->directory;
    }
    if (cli_user_models(buffer, sizeof buffer) && access(buffer, F_OK) == 0) {
        if (complete(s->ctx, buffer, wish)) {
            *what = "the user's own models";
            return buffer;
        }
        fprintf(stderr, "espalier: warning: the user's own models are not used: %s\n", espalier_error_message(s->ctx));
    }
    if (embedded_model()) {
        *what = "the small embedded model, which knows 13 kinds of simple objects; name a TRELLIS.2 directory with -m";
        return buffer;
    }
    fprintf(stderr, "espalier: no model found; name the directory of a TRELLIS.2 model with -m\n");
    return NULL;
}
