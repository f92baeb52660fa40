/* SPDX-License-Identifier: MIT
 *
 * model_files.c: finding the weight files of a model directory. The search orders follow how people have the files: the released
 * pipeline.json names one decoder in another repository, and people lay the two repositories out side by side, nested, or as a Hugging Face
 * cache.
 */
#include "models/model_files.h"

#define REF_MAX_BYTES 65536 /* of refs/main in a cache, which holds one hash */

/* Role names of pipeline.json and file names of the GGUF layout, in the order of espalier_role. */
static const struct {
    const char *name, *gguf;
} role_table[ESPALIER_ROLE_COUNT] = {
    {"image_cond_model", "dinov3.gguf"},
    {"sparse_structure_flow_model", "ss_flow.gguf"},
    {"sparse_structure_decoder", "ss_dec.gguf"},
    {"shape_slat_flow_model_512", "shape_flow_512.gguf"},
    {"shape_slat_flow_model_1024", "shape_flow_1024.gguf"},
    {"shape_slat_decoder", "shape_dec.gguf"},
    {"tex_slat_flow_model_512", "tex_flow_512.gguf"},
    {"tex_slat_flow_model_1024", "tex_flow_1024.gguf"},
    {"tex_slat_decoder", "tex_dec.gguf"},
};

const char *espalier_role_name(espalier_role role)
{
    return (int)role >= 0 && role < ESPALIER_ROLE_COUNT ? role_table[role].name : "?";
}

/* ------------------------------------------------------------- candidates */

/* Tries paths one after the other; the first that is there wins. */
typedef struct search {
    espalier_context *ctx;
    esi_model_files *files;
    esi_role_files *role;
    espalier_status status;
} search;

/* `base`.safetensors or `base`.gguf with `base`.json beside it. */
static bool try_stem(search *s, const char *base)
{
    static const char *const suffixes[] = {".safetensors", ".gguf"};
    for (size_t i = 0; base && i < ESI_COUNT(suffixes); i++) {
        char *weights = esi_arena_format(s->ctx, &s->files->arena, "%s%s", base, suffixes[i]);
        char *config = esi_arena_format(s->ctx, &s->files->arena, "%s.json", base);
        if (!weights || !config) break;
        if (!esi_path_is_file(weights)) continue;
        s->role->weights = weights;
        s->role->config = esi_path_is_file(config) ? config : NULL;
        return true;
    }
    if (espalier_error_message(s->ctx)[0]) s->status = ESPALIER_ERR_RESOURCE;
    return false;
}

/* A folder with model.safetensors and config.json, the Hugging Face form of an image encoder. */
static bool try_encoder_dir(search *s, const char *dir)
{
    if (!dir || !esi_path_is_dir(dir)) return false;
    char *weights = esi_arena_format(s->ctx, &s->files->arena, "%s/model.safetensors", dir);
    char *config = esi_arena_format(s->ctx, &s->files->arena, "%s/config.json", dir);
    if (!weights || !config) {
        s->status = ESPALIER_ERR_RESOURCE;
        return false;
    }
    if (!esi_path_is_file(weights)) return false;
    s->role->weights = weights;
    s->role->config = esi_path_is_file(config) ? config : NULL;
    return true;
}

char *esi_model_cache_snapshot(espalier_context *ctx, esi_arena *arena, const char *repo_dir)
{
    char *snapshots = esi_arena_format(ctx, arena, "%s/snapshots", repo_dir);
    if (!snapshots || !esi_path_is_dir(snapshots)) return NULL;

    char *ref_path = esi_arena_format(ctx, arena, "%s/refs/main", repo_dir);
    if (ref_path && esi_path_is_file(ref_path)) {
        uint8_t *hash = NULL;
        size_t len = 0;
        espalier_status st = esi_file_read(ctx, &hash, &len, ref_path, REF_MAX_BYTES, ESPALIER_ERR_MODEL);
        if (st == ESPALIER_OK) {
            while (len > 0 && (hash[len - 1] == '\n' || hash[len - 1] == '\r' || hash[len - 1] == ' ')) hash[--len] = 0;
            char *dir = esi_arena_format(ctx, arena, "%s/%s", snapshots, (const char *)hash);
            esi_free(ctx, hash);
            if (dir && len > 0 && esi_path_is_dir(dir)) return dir;
        } else if (st != ESPALIER_ERR_RESOURCE) {
            esi_clear_error(ctx);
        }
    }
    char **names = NULL;
    size_t count = 0;
    espalier_status st = esi_dir_list(ctx, arena, snapshots, &names, &count, ESPALIER_ERR_MODEL);
    if (st != ESPALIER_OK) {
        if (st != ESPALIER_ERR_RESOURCE) esi_clear_error(ctx);
        return NULL;
    }
    return count > 0 ? esi_arena_format(ctx, arena, "%s/%s", snapshots, names[count - 1]) : NULL;
}

/* Where another repository of the same hub may lie relative to this root when both are in a Hugging Face cache. */
static char *cache_sibling(search *s, const char *org, const char *repo)
{
    char *repo_dir = esi_arena_format(s->ctx, &s->files->arena, "%s/../../../models--%s--%s", s->files->directory, org, repo);
    return repo_dir && esi_path_is_dir(repo_dir) ? esi_model_cache_snapshot(s->ctx, &s->files->arena, repo_dir) : NULL;
}

/* Split "org/repo/path in repo"; false if there are fewer than three parts. */
static bool split_hub_path(espalier_context *ctx, esi_arena *arena, const char *stem, char **org, char **repo, const char **rest)
{
    const char *a = strchr(stem, '/');
    const char *b = a ? strchr(a + 1, '/') : NULL;
    if (!b || a == stem || b == a + 1 || !b[1]) return false;
    *org = esi_arena_strdup(ctx, arena, stem, (size_t)(a - stem));
    *repo = esi_arena_strdup(ctx, arena, a + 1, (size_t)(b - a - 1));
    *rest = b + 1;
    return *org && *repo;
}

static espalier_status find_stem(espalier_context *ctx, esi_model_files *files, espalier_role id, const char *stem)
{
    search s = {ctx, files, &files->role[id], ESPALIER_OK};
    esi_arena *arena = &files->arena;
    const char *root = files->directory;
    s.role->wanted = esi_arena_format(ctx, arena, "%s.safetensors", stem);
    if (!s.role->wanted) return ESPALIER_ERR_RESOURCE;

    if (stem[0] == '/') return try_stem(&s, stem), s.status;
    if (try_stem(&s, esi_arena_format(ctx, arena, "%s/%s", root, stem))) return ESPALIER_OK;
    char *org = NULL, *repo = NULL;
    const char *rest = NULL;
    if (split_hub_path(ctx, arena, stem, &org, &repo, &rest)) {
        if (try_stem(&s, esi_arena_format(ctx, arena, "%s/../%s/%s/%s", root, org, repo, rest))) return ESPALIER_OK;
        if (try_stem(&s, esi_arena_format(ctx, arena, "%s/../%s/%s", root, repo, rest))) return ESPALIER_OK;
        char *snapshot = cache_sibling(&s, org, repo);
        if (snapshot && try_stem(&s, esi_arena_format(ctx, arena, "%s/%s", snapshot, rest))) return ESPALIER_OK;
    }
    try_stem(&s, esi_arena_format(ctx, arena, "%s/%s", root, esi_path_name(stem)));
    return s.status;
}

static espalier_status find_encoder(espalier_context *ctx, esi_model_files *files, const char *name)
{
    static const char *const elsewhere[] = {
        "../facebook/dinov3-vitl16-pretrain-lvd1689m",
        "../dinov3-vitl16-pretrain-lvd1689m",
        "../timm/vit_large_patch16_dinov3.lvd1689m",
        "../vit_large_patch16_dinov3.lvd1689m",
    };
    search s = {ctx, files, &files->role[ESPALIER_ROLE_IMAGE_ENCODER], ESPALIER_OK};
    esi_arena *arena = &files->arena;
    const char *root = files->directory;
    s.role->wanted = esi_arena_format(ctx, arena, "%s/model.safetensors", name);
    if (!s.role->wanted) return ESPALIER_ERR_RESOURCE;

    if (name[0] == '/' && try_encoder_dir(&s, name)) return ESPALIER_OK;
    if (try_encoder_dir(&s, esi_arena_format(ctx, arena, "%s/%s", root, name))) return ESPALIER_OK;
    if (try_encoder_dir(&s, esi_arena_format(ctx, arena, "%s/%s", root, esi_path_name(name)))) return ESPALIER_OK;

    char **entries = NULL;
    size_t count = 0;
    espalier_status st = esi_dir_list(ctx, arena, root, &entries, &count, ESPALIER_ERR_MODEL);
    if (st != ESPALIER_OK) return st;
    for (size_t i = 0; i < count; i++)
        if (strncmp(entries[i], "dinov3", 6) == 0 && try_encoder_dir(&s, esi_arena_format(ctx, arena, "%s/%s", root, entries[i])))
            return ESPALIER_OK;
    for (size_t i = 0; i < ESI_COUNT(elsewhere); i++)
        if (try_encoder_dir(&s, esi_arena_format(ctx, arena, "%s/%s", root, elsewhere[i]))) return ESPALIER_OK;
    if (try_encoder_dir(&s, cache_sibling(&s, "facebook", "dinov3-vitl16-pretrain-lvd1689m"))) return ESPALIER_OK;
    if (try_encoder_dir(&s, cache_sibling(&s, "timm", "vit_large_patch16_dinov3.lvd1689m"))) return ESPALIER_OK;
    return esi_error_pending(ctx) ? ESPALIER_ERR_RESOURCE : s.status; /* a path was not tried for want of memory */
}

/* ------------------------------------------------------------- the two layouts */

/* What is missing so far may lie in the directory under its flat GGUF name. */
static espalier_status add_gguf(espalier_context *ctx, esi_model_files *files)
{
    for (int role = 0; role < ESPALIER_ROLE_COUNT; role++) {
        if (files->role[role].weights) continue;
        char *path = esi_arena_format(ctx, &files->arena, "%s/%s", files->directory, role_table[role].gguf);
        if (!path) return ESPALIER_ERR_RESOURCE;
        if (esi_path_is_file(path)) files->role[role].weights = path;
    }
    return ESPALIER_OK;
}

static espalier_status find_hugging_face(espalier_context *ctx, esi_model_files *files, const char *pipeline_path)
{
    files->layout = ESI_LAYOUT_HUGGING_FACE;
    espalier_status st = esi_json_load(ctx, &files->pipeline, pipeline_path, ESPALIER_ERR_MODEL);
    if (st != ESPALIER_OK) return st;
    const esi_json *models = esi_json_path(files->pipeline, "args.models");
    if (!models || !esi_json_is_object(models))
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: args.models is missing; is this the pipeline.json of a TRELLIS.2 model?",
                        pipeline_path);

    const char *encoder = "dinov3-vitl16-pretrain-lvd1689m";
    esi_json_string(esi_json_path(files->pipeline, "args.image_cond_model.args.model_name"), &encoder);
    st = find_encoder(ctx, files, encoder);
    for (int role = ESPALIER_ROLE_IMAGE_ENCODER + 1; st == ESPALIER_OK && role < ESPALIER_ROLE_COUNT; role++) {
        const char *stem = NULL;
        if (esi_json_string(esi_json_get(models, role_table[role].name), &stem) && stem[0])
            st = find_stem(ctx, files, (espalier_role)role, stem);
    }
    /* Small models need their pipeline.json in GGUF form too: it has their sizes. */
    return st == ESPALIER_OK ? add_gguf(ctx, files) : st;
}

static espalier_status find_gguf(espalier_context *ctx, esi_model_files *files)
{
    files->layout = ESI_LAYOUT_GGUF;
    for (int role = 0; role < ESPALIER_ROLE_COUNT; role++) files->role[role].wanted = role_table[role].gguf;
    return add_gguf(ctx, files);
}

static bool has_gguf(espalier_context *ctx, esi_arena *arena, const char *dir)
{
    for (int role = 0; role < ESPALIER_ROLE_COUNT; role++) {
        char *path = esi_arena_format(ctx, arena, "%s/%s", dir, role_table[role].gguf);
        if (path && esi_path_is_file(path)) return true;
    }
    return false;
}

/* The directory itself, the well-known folder inside it, or a snapshot in it that is a repository of a Hugging Face cache. No pipeline.json
 * in any of them: the one with .gguf files, or else *pipeline_path and files->directory stay NULL. */
static espalier_status find_root(espalier_context *ctx, esi_model_files *files, const char *directory, char **pipeline_path)
{
    esi_arena *arena = &files->arena;
    char *candidates[3];
    candidates[0] = esi_arena_strdup(ctx, arena, directory, strlen(directory));
    candidates[1] = esi_arena_format(ctx, arena, "%s/TRELLIS.2-4B", directory);
    candidates[2] = esi_model_cache_snapshot(ctx, arena, directory);
    *pipeline_path = NULL;
    if (esi_error_pending(ctx)) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < ESI_COUNT(candidates); i++) {
        if (!candidates[i]) continue;
        char *path = esi_arena_format(ctx, arena, "%s/pipeline.json", candidates[i]);
        if (!path) return ESPALIER_ERR_RESOURCE;
        if (!esi_path_is_file(path)) continue;
        files->directory = candidates[i];
        *pipeline_path = path;
        return ESPALIER_OK;
    }
    for (size_t i = 0; i < ESI_COUNT(candidates) && !files->directory; i++)
        if (candidates[i] && has_gguf(ctx, arena, candidates[i])) files->directory = candidates[i];
    return esi_error_pending(ctx) ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

static espalier_status apply_override(espalier_context *ctx, esi_model_files *files, const char *role_name, const char *path)
{
    for (int role = 0; role < ESPALIER_ROLE_COUNT; role++) {
        if (strcmp(role_table[role].name, role_name) != 0) continue;
        if (!esi_path_is_file(path))
            return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: %s (weights for %s)", path,
                            esi_path_is_dir(path) ? "is a directory; name the file in it" : "no such file", role_name);
        esi_arena *arena = &files->arena;
        size_t stem = strlen(path) - strlen(esi_path_suffix(path));
        char *beside = esi_arena_format(ctx, arena, "%.*s.json", (int)stem, path);
        char *folder = esi_arena_format(ctx, arena, "%.*sconfig.json", (int)(esi_path_name(path) - path), path);
        files->role[role].weights = esi_arena_strdup(ctx, arena, path, strlen(path));
        files->role[role].wanted = files->role[role].weights;
        if (!beside || !folder || !files->role[role].weights) return ESPALIER_ERR_RESOURCE;
        if (role == ESPALIER_ROLE_IMAGE_ENCODER && esi_path_is_file(folder)) beside = folder;
        files->role[role].config = esi_path_is_file(beside) ? beside : NULL;
        return ESPALIER_OK;
    }
    esi_text names = {0};
    for (int role = 0; role < ESPALIER_ROLE_COUNT; role++) esi_text_append(ctx, &names, " %s", role_table[role].name);
    espalier_status st = esi_fail(ctx, ESPALIER_ERR_ARG, "unknown role '%s'; roles are:%s", role_name, names.failed ? "" : names.data);
    esi_text_free(ctx, &names);
    return st;
}

espalier_status esi_model_files_find(espalier_context *ctx, esi_model_files *out, const char *directory, const char *const *overrides)
{
    memset(out, 0, sizeof *out);
    char *pipeline_path = NULL;
    espalier_status st = ESPALIER_OK;
    if (!esi_path_is_dir(directory)) return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: no such model directory", directory);

    st = find_root(ctx, out, directory, &pipeline_path);
    if (st != ESPALIER_OK) goto done;
    if (pipeline_path)
        st = find_hugging_face(ctx, out, pipeline_path);
    else if (out->directory)
        st = find_gguf(ctx, out);
    else
        st = esi_fail(ctx, ESPALIER_ERR_MODEL,
                      "%s: neither pipeline.json nor *.gguf files of TRELLIS.2 in it; give the directory of the model with -m", directory);
    for (size_t i = 0; st == ESPALIER_OK && overrides && overrides[i]; i += 2) {
        if (!overrides[i + 1]) {
            st = esi_fail(ctx, ESPALIER_ERR_ARG, "weights override '%s' has no path", overrides[i]);
            break;
        }
        st = apply_override(ctx, out, overrides[i], overrides[i + 1]);
    }
done:
    if (st != ESPALIER_OK) esi_model_files_free(ctx, out);
    return st;
}

void esi_model_files_free(espalier_context *ctx, esi_model_files *files)
{
    esi_json_free(files->pipeline);
    esi_arena_free(ctx, &files->arena);
    memset(files, 0, sizeof *files);
}
