/* SPDX-License-Identifier: MIT */
#include "matte_files.h"
#include "outputs.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static int fail(int status, const char *path, const char *text)
{
    fprintf(stderr, "espalier: %.500s%s: %s\n", path, strlen(path) > 500 ? "..." : "", text);
    return status;
}

static int out_of_memory(void)
{
    fprintf(stderr, "espalier: no memory for the list of pictures\n");
    return ESPALIER_ERR_RESOURCE;
}

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* "a/b" with one slash; malloc. */
static char *join(const char *directory, const char *name)
{
    const size_t len = strlen(directory), size = len + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s%s%s", directory, len && directory[len - 1] == '/' ? "" : "/", name);
    return path;
}

/* ------------------------------------------------------------- inputs */

/* Takes `path` over. */
static int add(cli_matte_files *f, char *path)
{
    if (path && f->count == f->capacity) {
        const size_t capacity = f->capacity ? 2 * f->capacity : 16;
        cli_matte_pair *pairs = realloc(f->pairs, capacity * sizeof *pairs);
        if (pairs) {
            f->pairs = pairs;
            f->capacity = capacity;
        }
    }
    if (!path || f->count == f->capacity) {
        free(path);
        return out_of_memory();
    }
    f->pairs[f->count++] = (cli_matte_pair){.input = path};
    return 0;
}

static bool is_picture_name(const char *name)
{
    static const char *const suffixes[] = {".png", ".jpg", ".jpeg", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; name[0] != '.' && dot && i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    const cli_matte_pair *x = a, *y = b;
    return strcmp(x->input, y->input);
}

static int add_directory(cli_matte_files *f, const char *directory)
{
    const size_t before = f->count;
    int status = 0;
    DIR *dir = opendir(directory);

    if (!dir) return fail(ESPALIER_ERR_INPUT, directory, "the directory cannot be read");
    for (struct dirent *entry = readdir(dir); status == 0 && entry; entry = readdir(dir)) {
        if (!is_picture_name(entry->d_name)) continue;
        char *path = join(directory, entry->d_name);
        if (path && is_directory(path))
            free(path);
        else
            status = add(f, path);
    }
    closedir(dir);
    if (status == 0 && f->count == before)
        status = fail(ESPALIER_ERR_INPUT, directory, "no pictures (.png, .jpg, .jpeg, .webp) in it");
    if (f->count > before) qsort(f->pairs + before, f->count - before, sizeof *f->pairs, by_name);
    return status;
}

/* ------------------------------------------------------------- outputs */

static char *output_in(const char *directory, const char *input, const char *format)
{
    const char *slash = strrchr(input, '/'), *name = slash ? slash + 1 : input, *dot = strrchr(name, '.');
    const size_t stem = dot && dot != name ? (size_t)(dot - name) : strlen(name), size = stem + strlen(format) + 2;
    char *file = malloc(size);

    if (!file) return NULL;
    snprintf(file, size, "%.*s.%s", (int)stem, name, format);
    char *path = join(directory, file);
    free(file);
    return path;
}

static int by_output(const void *a, const void *b)
{
    const cli_matte_pair *const *x = a, *const *y = b;
    const int order = strcmp((*x)->output, (*y)->output);
    return order ? order : strcmp((*x)->input, (*y)->input);
}

static int check_names(const cli_matte_files *f)
{
    const cli_matte_pair **sorted = malloc(f->count * sizeof *sorted);
    int status = 0;

    if (!sorted) return out_of_memory();
    for (size_t i = 0; i < f->count; i++) sorted[i] = &f->pairs[i];
    qsort(sorted, f->count, sizeof *sorted, by_output);
    for (size_t i = 0; status == 0 && i + 1 < f->count; i++)
        if (strcmp(sorted[i]->output, sorted[i + 1]->output) == 0)
            status = cli_usage_error("matte", "'%.400s' and '%.400s' would both become '%.100s'", sorted[i]->input, sorted[i + 1]->input,
                                     sorted[i]->output);
    free(sorted);
    return status;
}

/* No output is an input, of whatever name. */
static int check_inputs_stay(const cli_matte_files *f)
{
    struct stat *inputs = calloc(f->count, sizeof *inputs), out;
    int status = 0;

    if (!inputs) return out_of_memory();
    for (size_t i = 0; i < f->count; i++)
        if (stat(f->pairs[i].input, &inputs[i]) != 0) memset(&inputs[i], 0, sizeof inputs[i]);
    for (size_t i = 0; status == 0 && i < f->count; i++) {
        if (stat(f->pairs[i].output, &out) != 0 || !S_ISREG(out.st_mode)) continue;
        for (size_t k = 0; status == 0 && k < f->count; k++)
            if (inputs[k].st_ino == out.st_ino && inputs[k].st_dev == out.st_dev)
                status = cli_usage_error("matte", "'%.400s' would be overwritten by '%.400s'", f->pairs[k].input, f->pairs[i].output);
    }
    free(inputs);
    return status;
}

static int name_outputs(cli_matte_files *f, const char *output, const char *format)
{
    for (size_t i = 0; i < f->count; i++) {
        f->pairs[i].output = f->batch ? output_in(output, f->pairs[i].input, format) : strdup(output);
        if (!f->pairs[i].output) return out_of_memory();
    }
    int status = check_names(f);
    return status ? status : check_inputs_stay(f);
}

static int make_directory(const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && is_directory(path))) return 0;
    const bool taken = errno == EEXIST;
    return fail(ESPALIER_ERR_OUTPUT, path, taken ? "is not a directory; several pictures need one" : "the directory cannot be made");
}

static int prepare_outputs(const cli_matte_files *f, const char *output)
{
    int status = f->batch ? make_directory(output) : 0;
    return status ? status : cli_check_output(f->pairs[0].output); /* the others go to the same directory */
}

int cli_matte_files_list(cli_matte_files *f, char *const *inputs, int n_inputs, const char *output, const char *format)
{
    const size_t len = strlen(output);
    int status = 0;

    f->batch = n_inputs > 1 || is_directory(output) || (len > 0 && output[len - 1] == '/');
    for (int i = 0; i < n_inputs && status == 0; i++) {
        if (is_directory(inputs[i])) {
            f->batch = true;
            status = add_directory(f, inputs[i]);
        } else {
            status = add(f, strdup(inputs[i]));
        }
    }
    if (status) return status;
    if (!f->batch && !espalier_image_can_save(output))
        return cli_usage_error("matte", "-o '%s' ends in neither .png nor .webp", output);
    if (!f->batch && format) return cli_usage_error("matte", "--format is for a directory; for one picture the suffix of -o tells");
    status = name_outputs(f, output, format ? format : "png");
    return status ? status : prepare_outputs(f, output);
}

void cli_matte_files_free(cli_matte_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->pairs[i].input);
        free(f->pairs[i].output);
    }
    free(f->pairs);
    *f = (cli_matte_files){0};
}
