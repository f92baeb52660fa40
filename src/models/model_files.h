/* SPDX-License-Identifier: MIT
 *
 * model_files.h: where the files of each role lie. Two layouts: a Hugging Face directory with pipeline.json, in the several
 * ways people arrange it, and trellis.cpp's flat directory of GGUF files. Looks at names only; opens nothing but pipeline.json.
 */
#ifndef ESI_MODEL_FILES_H
#define ESI_MODEL_FILES_H

#include <espalier/model.h>

#include "formats/json.h"

typedef enum esi_model_layout { ESI_LAYOUT_HUGGING_FACE, ESI_LAYOUT_GGUF } esi_model_layout;

typedef struct esi_role_files {
    const char *weights; /* path, or NULL when not found */
    const char *config;  /* json beside it, or NULL */
    const char
        *wanted; /* what was looked for, for messages ("ckpts/ss_flow....safetensors"); NULL = pipeline.json does not name the role */
} esi_role_files;

typedef struct esi_model_files {
    esi_model_layout layout;
    const char *directory; /* the one that holds pipeline.json or the .gguf files */
    esi_json *pipeline;    /* pipeline.json, NULL for GGUF */
    esi_role_files role[ESPALIER_ROLE_COUNT];
    esi_arena arena; /* all strings */
} esi_model_files;

/* ERR_MODEL when the directory is missing or holds neither layout. overrides: role name, path, ..., NULL. */
espalier_status esi_model_files_find(espalier_context *ctx, esi_model_files *out, const char *directory, const char *const *overrides);
void esi_model_files_free(espalier_context *ctx, esi_model_files *files);

/* "<repo_dir>/snapshots/<hash>" where repo_dir is "<hub>/models--org--repo" of a Hugging Face cache: the hash that refs/main names, or else
 * the last one by name; NULL if absent, or without memory: then an error is pending. */
char *esi_model_cache_snapshot(espalier_context *ctx, esi_arena *arena, const char *repo_dir);

#endif
