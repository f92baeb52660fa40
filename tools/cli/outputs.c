/* SPDX-License-Identifier: MIT */
#include "outputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int cli_outputs_add(cli_outputs *o, const char *command, const char *path)
{
    if (o->count == CLI_MAX_OUTPUTS) return cli_usage_error(command, "more than %d results", CLI_MAX_OUTPUTS);
    if (!espalier_mesh_can_save(path))
        return cli_usage_error(command, "-o '%s' ends in none of .glb, .gltf, .obj, .ply, .stl, .3mf, .usdz", path);
    o->path[o->count++] = path;
    return 0;
}

static int output_error(const char *path, const char *text)
{
    fprintf(stderr, "espalier: %.500s%s: %s\n", path, strlen(path) > 500 ? "..." : "", text);
    return ESPALIER_ERR_OUTPUT;
}

int cli_check_output(const char *path)
{
    char dir[4096];
    struct stat info;
    const char *slash = path ? strrchr(path, '/') : NULL;
    size_t len = !slash ? 1 : slash == path ? 1 : (size_t)(slash - path);

    if (!path) return 0;
    if (strlen(path) >= sizeof dir) return output_error(path, "the name is too long");
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return output_error(path, "is a directory; give a file name");
        if (access(path, W_OK) != 0) return output_error(path, "may not be written");
        if (!S_ISREG(info.st_mode)) return 0;
    } else if (errno == ENAMETOOLONG) {
        return output_error(path, "the name is too long");
    }
    memcpy(dir, slash ? path : ".", len);
    dir[len] = 0;
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode)) return output_error(dir, "no such directory to write to");
    if (slash && !slash[1]) return output_error(path, "is a directory; give a file name");
    if (access(dir, W_OK | X_OK) != 0) return output_error(dir, "this directory may not be written to");
    return 0;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (strcmp(a, b) == 0) return stat(a, &x) != 0 || S_ISREG(x.st_mode);
    return stat(a, &x) == 0 && stat(b, &y) == 0 && S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int cli_check_collisions(const char *command, const char *const *paths, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (paths[i] && paths[k] && same_file(paths[i], paths[k]))
                return cli_usage_error(command, "'%s' would be overwritten by '%s'", paths[i], paths[k]);
    return 0;
}

espalier_status cli_outputs_save(cli_session *s, const cli_outputs *o, const espalier_mesh *mesh, const espalier_save_options *options)
{
    espalier_status st = ESPALIER_OK;
    int written = 0;

    while (st == ESPALIER_OK && written < o->count) {
        st = espalier_mesh_save(s->ctx, mesh, o->path[written], options);
        if (st == ESPALIER_OK) written++;
    }
    for (int i = 0; st == ESPALIER_ERR_CANCELLED && i < written; i++) unlink(o->path[i]);
    return st;
}
