/* SPDX-License-Identifier: MIT
 *
 * replay_main.c: run a fuzz target over every file of a directory. "ok-*" must be accepted, "bad-*" refused, others only survived.
 * Usage: replay_<name> DIR
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_FILE ((uint64_t)64 << 20)

/* The target sees a block of exactly the file's size, so that a sanitizer notices a read beyond the end. */
static bool run_exact(espalier_context *ctx, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) abort();
    if (size > 0) memcpy(copy, bytes, size);
    bool accepted = fuzz_run(ctx, copy, size);
    free(copy);
    return accepted;
}

/* Number of broken expectations: 0 or 1. */
static int replay_file(espalier_context *ctx, const char *dir, const char *name)
{
    char *path = esi_path_join(ctx, dir, name);
    uint8_t *bytes = NULL;
    size_t size = 0;
    int bad = 1;

    if (!path || esi_file_read(ctx, &bytes, &size, path, MAX_FILE, ESPALIER_ERR_INPUT) != ESPALIER_OK) {
        fprintf(stderr, "%s\n", espalier_error_message(ctx));
    } else {
        uint8_t *own = malloc(size + 1);        /* so that the context owns nothing during the run */
        if (!own) abort();
        memcpy(own, bytes, size);
        esi_free(ctx, bytes);
        esi_free(ctx, path);
        bytes = NULL;
        path = NULL;
        bool accepted = run_exact(ctx, own, size);
        free(own);
        bad = (strncmp(name, "ok-", 3) == 0 && !accepted) || (strncmp(name, "bad-", 4) == 0 && accepted);
        if (bad) fprintf(stderr, "%s: %s: %s\n", name, accepted ? "accepted" : "refused", espalier_error_message(ctx));
    }
    esi_free(ctx, bytes);
    esi_free(ctx, path);
    return bad;
}

int main(int argc, char **argv)
{
    espalier_context *ctx = fuzz_context();
    esi_arena arena = {0};
    char **names = NULL, **own;
    size_t count = 0;
    int bad = 0;

    if (argc != 2 || !ctx) {
        fprintf(stderr, "usage: %s DIR\n", argv[0]);
        return 2;
    }
    if (esi_dir_list(ctx, &arena, argv[1], &names, &count, ESPALIER_ERR_INPUT) != ESPALIER_OK || count == 0) {
        fprintf(stderr, "no corpus: %s %s\n", argv[1], espalier_error_message(ctx));
        return 1;
    }
    own = calloc(count, sizeof *own);
    if (!own) abort();
    for (size_t i = 0; i < count; i++)
        if (!(own[i] = strdup(names[i]))) abort();
    esi_arena_free(ctx, &arena);
    for (size_t i = 0; i < count; i++) {
        bad += replay_file(ctx, argv[1], own[i]);
        free(own[i]);
    }
    free(own);
    printf("%zu files replayed, %d broken expectations\n", count, bad);
    return bad != 0;
}
