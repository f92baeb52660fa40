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
static bool user_models(void)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;
    if (data && data[0] == '/')
        n = snprintf(buffer, sizeof buffer, "%s/espalier/models", data);
    else if (home && home[0])
        n = snprintf(buffer, sizeof buffer, "%s/.local/share/espalier/models", home);
    else
        return false;
    return n > 0 && (size_t)n < sizeof buffer;
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

const char *cli_find_models(espalier_context *ctx, const char *given, const char **what)
{
    if (given) {
        *what = "as given";
        return given;
    }
    if (user_models() && espalier_model_is_complete(ctx, buffer)) {
        *what = "the user's own models";
        return buffer;
    }
    if (embedded_model()) {
        *what = "the small embedded model, which knows 13 kinds of simple objects; name a TRELLIS.2 directory with -m";
        return buffer;
    }
    fprintf(stderr, "espalier: no model found; name the directory of a TRELLIS.2 model with -m\n");
    return NULL;
}
