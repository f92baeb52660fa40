/* SPDX-License-Identifier: MIT
 *
 * matting_files.c: finding the weights of the matting networks. trellis.cpp keeps birefnet.gguf flat beside its other files; trellis2.c has
 * a folder BiRefNet with a GGUF in it; others have the Hugging Face repositories in or beside the model directory, under their own or
 * their owner's name, or in the cache. U2-Net and IS-Net come as ONNX or .pth and are converted to flat safetensors (docs/matting.md).
 */
#include "models/matting_files.h"

#include "models/model_files.h"

const espalier_matte esi_matting_networks[ESI_MATTING_NETWORKS] = {ESPALIER_MATTE_BIREFNET, ESPALIER_MATTE_ISNET, ESPALIER_MATTE_U2NET,
                                                                   ESPALIER_MATTE_U2NETP};

/* Names inside a directory, in the order in which they are tried; of repositories, those inside a Hugging Face cache too. */
#define MAX_NAMES 8
typedef struct places {
    const char *wanted;
    const char *flat[MAX_NAMES];
    const char *folder[MAX_NAMES]; /* also looked for one directory up: beside TRELLIS.2-4B */
    const char *repository[MAX_NAMES];
} places;

static const places birefnet_places = {
    .wanted = "birefnet.gguf or BiRefNet/model.safetensors",
    .flat = {"birefnet.gguf", "birefnet.safetensors"},
    .folder = {"BiRefNet/model.safetensors", "BiRefNet/birefnet.gguf", "BiRefNet/BiRefNet-F16.gguf",
               "ZhengPeng7/BiRefNet/model.safetensors", "RMBG-2.0/model.safetensors", "briaai/RMBG-2.0/model.safetensors"},
    .repository = {"models--ZhengPeng7--BiRefNet", "models--briaai--RMBG-2.0"},
};
static const places isnet_places = {
    .wanted = "isnet.safetensors",
    .flat = {"isnet.safetensors", "isnet-general-use.safetensors"},
    .folder = {"isnet/model.safetensors"},
};
static const places u2net_places = {
    .wanted = "u2net.safetensors",
    .flat = {"u2net.safetensors"},
    .folder = {"u2net/model.safetensors"},
};
static const places u2netp_places = {
    .wanted = "u2netp.safetensors",
    .flat = {"u2netp.safetensors"},
    .folder = {"u2netp/model.safetensors"},
};

static const places *places_of(espalier_matte network)
{
    switch (network) {
    case ESPALIER_MATTE_ISNET: return &isnet_places;
    case ESPALIER_MATTE_U2NET: return &u2net_places;
    case ESPALIER_MATTE_U2NETP: return &u2netp_places;
    default: return &birefnet_places;
    }
}

const char *esi_matting_file_wanted(espalier_matte network)
{
    return places_of(network)->wanted;
}

typedef struct search {
    espalier_context *ctx;
    esi_arena *arena;
    const char *path; /* what was found */
} search;

/* Stops at the first one; `prefix` ends in a slash or is empty. */
static void try_names(search *s, const char *directory, const char *prefix, const char *const names[MAX_NAMES])
{
    for (int i = 0; i < MAX_NAMES && names[i] && !s->path; i++) {
        const esi_arena_mark mark = esi_arena_get_mark(s->arena);
        char *path = esi_arena_format(s->ctx, s->arena, "%s/%s%s", directory, prefix, names[i]);
        if (path && esi_path_is_file(path))
            s->path = path;
        else
            esi_arena_release(s->ctx, s->arena, mark);
    }
}

static void try_repositories(search *s, const char *directory, const char *prefix, const char *const names[MAX_NAMES])
{
    for (int i = 0; i < MAX_NAMES && names[i] && !s->path; i++) {
        char *repository = esi_arena_format(s->ctx, s->arena, "%s/%s%s", directory, prefix, names[i]);
        char *snapshot = repository && esi_path_is_dir(repository) ? esi_model_cache_snapshot(s->ctx, s->arena, repository) : NULL;
        char *path = snapshot ? esi_arena_format(s->ctx, s->arena, "%s/model.safetensors", snapshot) : NULL;
        if (path && esi_path_is_file(path)) s->path = path;
    }
}

static void try_directory(search *s, const char *directory, const places *p)
{
    static const char *const below[] = {"", "TRELLIS.2-4B/"}, *const around[] = {"", "../"}, *const hubs[] = {"", "../", "../../../"};

    for (size_t i = 0; i < ESI_COUNT(below); i++) try_names(s, directory, below[i], p->flat);
    for (size_t i = 0; i < ESI_COUNT(around); i++) try_names(s, directory, around[i], p->folder);
    for (size_t i = 0; i < ESI_COUNT(hubs); i++) try_repositories(s, directory, hubs[i], p->repository);
}

espalier_status esi_matting_file_find(espalier_context *ctx, esi_arena *arena, const char **path, const char *const *directories,
                                      espalier_matte network)
{
    search s = {.ctx = ctx, .arena = arena};

    for (size_t i = 0; directories && directories[i] && !s.path; i++) try_directory(&s, directories[i], places_of(network));
    *path = s.path;
    if (!esi_error_pending(ctx)) return ESPALIER_OK;
    *path = NULL;
    return ESPALIER_ERR_RESOURCE;
}
