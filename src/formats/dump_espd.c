/* SPDX-License-Identifier: MIT
 *
 * dump_espd.c: Espalier's own lossless dump, a safetensors file:
 *
 *   coords I32 [M,4]   local F32 [M,3]   intersect_logits F32 [M,3]   split_weight F32 [M]   pbr F32 [M,6]
 *   subdivision.<i>.coords I32 [n,4]   subdivision.<i>.logits F32 [n,8]      i = 0 (coarsest) ...
 *   vertices F32 [M,3]   faces I32 [F,3]
 *
 * with the metadata format "espd", format_version, resolution, seed, pipeline, generator, arithmetic, color_space and extra.<key>.
 * Anything but coords may be absent. Numbers are what the networks gave, unclamped.
 */
#include "formats/dump_internal.h"

#include "formats/bytes.h"
#include "formats/json.h"
#include "formats/weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMAT_VERSION "1"
#define MAX_ENTRIES (7 + 2 * ESI_ASSET_MAX_LEVELS)
#define MAX_EXTRAS 256

/* ------------------------------------------------------------------ writing */

static void add_entry(esi_safetensors_entry *entries, size_t *count, const char *name, esi_file_dtype dtype, const void *data, int64_t rows,
                      int64_t columns)
{
    if (!data) return;
    entries[(*count)++] = (esi_safetensors_entry){
        .name = name, .dtype = dtype, .rank = columns > 0 ? 2 : 1, .shape = {rows, columns}, .data = data};
}

static size_t list_entries(esi_safetensors_entry *entries, char (*names)[2][40], const esi_asset *a)
{
    size_t n = 0;

    add_entry(entries, &n, "coords", ESI_FILE_I32, a->coords, a->n_voxels, 4);
    add_entry(entries, &n, "local", ESI_FILE_F32, a->local, a->n_voxels, 3);
    add_entry(entries, &n, "intersect_logits", ESI_FILE_F32, a->intersect_logits, a->n_voxels, 3);
    add_entry(entries, &n, "split_weight", ESI_FILE_F32, a->split_weight, a->n_voxels, 0);
    add_entry(entries, &n, "pbr", ESI_FILE_F32, a->attrs, a->n_voxels, 6);
    for (int i = 0; i < a->n_levels; i++) {
        snprintf(names[i][0], sizeof names[i][0], "subdivision.%d.coords", i);
        snprintf(names[i][1], sizeof names[i][1], "subdivision.%d.logits", i);
        add_entry(entries, &n, names[i][0], ESI_FILE_I32, a->levels[i].coords, a->levels[i].count, 4);
        add_entry(entries, &n, names[i][1], ESI_FILE_F32, a->levels[i].logits, a->levels[i].count, 8);
    }
    add_entry(entries, &n, "vertices", ESI_FILE_F32, a->vertices, a->n_vertices, 3);
    add_entry(entries, &n, "faces", ESI_FILE_I32, a->faces, a->n_faces, 3);
    return n;
}

/* Key, value, ..., NULL in the arena; NULL after esi_fail. */
static const char **list_metadata(espalier_context *ctx, esi_arena *arena, const esi_asset *a)
{
    char resolution[24], seed[24], arithmetic[24];
    const char *fixed[] = {"format",     "espd",     "format_version", FORMAT_VERSION,  "generator",  esi_asset_generator(a),
                           "arithmetic", arithmetic, "color_space",    "srgb",          "resolution", resolution,
                           "seed",       seed,       "pipeline",       a->pipeline_type};
    const size_t n_fixed = ESI_COUNT(fixed) - (a->pipeline_type ? 0 : 2);
    size_t n_extras = 0, n = 0;
    const char **out;

    snprintf(resolution, sizeof resolution, "%lld", (long long)a->resolution);
    snprintf(seed, sizeof seed, "%lld", (long long)a->seed);
    snprintf(arithmetic, sizeof arithmetic, "%d", ESPALIER_ARITHMETIC_VERSION);
    while (a->extras && a->extras[n_extras] && a->extras[n_extras + 1]) n_extras += 2;
    out = esi_arena_alloc(ctx, arena, n_fixed + n_extras + 1, sizeof *out);
    if (!out) return NULL;
    for (size_t i = 0; i < n_fixed; i++) {
        out[n] = esi_arena_strdup(ctx, arena, fixed[i], strlen(fixed[i]));
        if (!out[n++]) return NULL;
    }
    for (size_t i = 0; i < n_extras; i += 2) {
        const size_t length = strlen(a->extras[i]) + sizeof "extra.";
        char *key = esi_arena_alloc(ctx, arena, length, 1);

        if (!key) return NULL;
        snprintf(key, length, "extra.%s", a->extras[i]);
        out[n++] = key;
        out[n++] = a->extras[i + 1];
    }
    return out;
}

espalier_status esi_espd_write(espalier_context *ctx, const esi_asset *asset, const char *path)
{
    esi_safetensors_entry entries[MAX_ENTRIES];
    char names[ESI_ASSET_MAX_LEVELS][2][40];
    esi_arena arena = {0};
    const char **metadata;
    espalier_status st = esi_asset_check(ctx, asset, path, ESPALIER_ERR_INTERNAL);

    if (st != ESPALIER_OK) return st;
    if (!asset->coords || (asset->vertices && asset->n_vertices != asset->n_voxels)) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: a lossless dump needs the raw mesh, one vertex per voxel", path);
    }
    metadata = list_metadata(ctx, &arena, asset);
    st = metadata ? esi_safetensors_write(ctx, path, entries, list_entries(entries, names, asset), metadata, NULL, NULL)
                  : ESPALIER_ERR_RESOURCE;
    esi_arena_free(ctx, &arena);
    return st;
}

/* ------------------------------------------------------------------ reading */

typedef struct espd_reader {
    espalier_context *ctx;
    esi_dump *out;
    const char *name;
    esi_weight_file *file;
    const esi_json *metadata;
} espd_reader;

/* To a user a dump is an input, not a model. */
static espalier_status as_input(espalier_status st)
{
    return st == ESPALIER_ERR_MODEL ? ESPALIER_ERR_INPUT : st;
}

/* Find a tensor of `columns` columns (0: rank 1). *rows < 0: any number, stored there; else it must agree. Absent: *t = NULL. */
static espalier_status find_tensor(const espd_reader *r, const esi_file_tensor **t, const char *tensor, esi_file_dtype dtype,
                                   int64_t columns, int64_t *rows)
{
    const int rank = columns > 0 ? 2 : 1;
    const esi_file_tensor *found = esi_weight_file_find(r->file, tensor);
    char shape[ESI_SHAPE_TEXT];

    *t = found;
    if (!found) return ESPALIER_OK;
    if (found->dtype != dtype || found->rank != rank || (rank == 2 && found->shape[1] != columns) || found->shape[0] > INT32_MAX ||
        (*rows >= 0 && found->shape[0] != *rows)) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: tensor '%s' is %s %s, which does not fit a dump of %lld voxels", r->name, tensor,
                        esi_file_dtype_name(found->dtype), esi_shape_text(shape, sizeof shape, found->shape, found->rank),
                        (long long)r->out->asset.n_voxels);
    }
    *rows = found->shape[0];
    return ESPALIER_OK;
}

static espalier_status read_f32(const espd_reader *r, const float **out, const char *tensor, int64_t columns, int64_t *rows)
{
    const esi_file_tensor *t;
    float *values = NULL;
    espalier_status st = find_tensor(r, &t, tensor, ESI_FILE_F32, columns, rows);

    if (st != ESPALIER_OK || !t) return st;
    st = as_input(esi_file_tensor_read_f32(r->ctx, r->file, t, &values));
    if (st != ESPALIER_OK) return st;
    esi_dump_keep(r->out, values);
    *out = values;
    return ESPALIER_OK;
}

static espalier_status read_i32(const espd_reader *r, const int32_t **out, const char *tensor, int64_t columns, int64_t *rows)
{
    const esi_file_tensor *t;
    int32_t *values = NULL;
    espalier_status st = find_tensor(r, &t, tensor, ESI_FILE_I32, columns, rows);

    if (st != ESPALIER_OK || !t) return st;
    st = as_input(esi_file_tensor_read_i32(r->ctx, r->file, t, &values));
    if (st != ESPALIER_OK) return st;
    esi_dump_keep(r->out, values);
    *out = values;
    return ESPALIER_OK;
}

static espalier_status read_levels(const espd_reader *r)
{
    esi_asset *a = &r->out->asset;
    espalier_status st = ESPALIER_OK;

    for (int i = 0; i < ESI_ASSET_MAX_LEVELS; i++) {
        esi_asset_level *level = &a->levels[i];
        char coords[40], logits[40];
        int64_t rows = -1;

        snprintf(coords, sizeof coords, "subdivision.%d.coords", i);
        snprintf(logits, sizeof logits, "subdivision.%d.logits", i);
        st = read_i32(r, &level->coords, coords, 4, &rows);
        if (st == ESPALIER_OK) st = read_f32(r, &level->logits, logits, 8, &rows);
        if (st != ESPALIER_OK) return st;
        if (!level->coords && !level->logits) break;
        if (!level->coords || !level->logits) {
            return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: tensor '%s' is missing", r->name, level->coords ? logits : coords);
        }
        level->count = rows;
        a->n_levels = i + 1;
    }
    return st;
}

static espalier_status read_tensors(const espd_reader *r)
{
    esi_asset *a = &r->out->asset;
    int64_t voxels = -1, faces = -1;
    espalier_status st = read_i32(r, &a->coords, "coords", 4, &voxels);

    if (st != ESPALIER_OK) return st;
    if (!a->coords) return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: tensor 'coords' is missing", r->name);
    a->n_voxels = voxels;
    st = read_f32(r, &a->local, "local", 3, &voxels);
    if (st == ESPALIER_OK) st = read_f32(r, &a->intersect_logits, "intersect_logits", 3, &voxels);
    if (st == ESPALIER_OK) st = read_f32(r, &a->split_weight, "split_weight", 0, &voxels);
    if (st == ESPALIER_OK) st = read_f32(r, &a->attrs, "pbr", 6, &voxels);
    if (st == ESPALIER_OK) st = read_f32(r, &a->vertices, "vertices", 3, &voxels);
    if (st == ESPALIER_OK) st = read_i32(r, &a->faces, "faces", 3, &faces);
    if (st == ESPALIER_OK) st = read_levels(r);
    if (a->vertices) a->n_vertices = voxels;
    if (a->faces) a->n_faces = faces;
    return st;
}

/* A whole decimal number in the metadata. */
static espalier_status read_number(const espd_reader *r, int64_t *out, const char *key)
{
    const char *text = NULL;
    char *end = NULL;
    long long value;

    if (!esi_json_string(esi_json_get(r->metadata, key), &text)) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: the metadata lack '%s'", r->name, key);
    }
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0') {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: metadata '%s' is no number: '%.40s'", r->name, key, text);
    }
    *out = value;
    return ESPALIER_OK;
}

static espalier_status read_text(const espd_reader *r, const char **out, const char *text)
{
    *out = esi_arena_strdup(r->ctx, &r->out->strings, text, strlen(text));
    return *out ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status read_extras(const espd_reader *r)
{
    const size_t entries = ESI_MIN(esi_json_size(r->metadata), MAX_EXTRAS);
    const char **list = esi_arena_alloc(r->ctx, &r->out->strings, 2 * entries + 1, sizeof *list);
    size_t n = 0;
    espalier_status st = ESPALIER_OK;

    if (!list) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; st == ESPALIER_OK && i < entries; i++) {
        const esi_json *value = NULL;
        const char *text = NULL, *key = esi_json_key_at(r->metadata, i, &value);

        if (strncmp(key, "extra.", 6) != 0 || !esi_json_string(value, &text)) continue;
        st = read_text(r, &list[n], key + 6);
        if (st == ESPALIER_OK) st = read_text(r, &list[n + 1], text);
        n += 2;
    }
    if (n > 0) r->out->asset.extras = list;
    return st;
}

static espalier_status read_metadata(const espd_reader *r)
{
    esi_asset *a = &r->out->asset;
    const char *format = NULL, *version = NULL, *text = NULL;
    espalier_status st;

    if (!esi_json_string(esi_json_get(r->metadata, "format"), &format) || strcmp(format, "espd") != 0) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: a safetensors file, but no dump", r->name);
    }
    if (!esi_json_string(esi_json_get(r->metadata, "format_version"), &version) || strcmp(version, FORMAT_VERSION) != 0) {
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: dump format version '%.20s' is not known here; use a newer espalier", r->name,
                        version ? version : "");
    }
    st = read_number(r, &a->resolution, "resolution");
    if (st == ESPALIER_OK) st = read_number(r, &a->seed, "seed");
    if (st == ESPALIER_OK && esi_json_string(esi_json_get(r->metadata, "pipeline"), &text)) st = read_text(r, &a->pipeline_type, text);
    if (st == ESPALIER_OK && esi_json_string(esi_json_get(r->metadata, "generator"), &text)) st = read_text(r, &a->generator, text);
    if (st == ESPALIER_OK) st = read_extras(r);
    return st;
}

espalier_status esi_espd_parse(espalier_context *ctx, esi_dump *out, const uint8_t *bytes, uint64_t size, const char *name)
{
    espd_reader r = {.ctx = ctx, .out = out, .name = name};
    esi_json *header = NULL;
    espalier_status st = as_input(esi_weight_file_parse(ctx, &r.file, bytes, size, name));

    if (st != ESPALIER_OK) return st;
    if (r.file->format != ESI_FORMAT_SAFETENSORS) {
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: not a dump", name);
        goto done;
    }
    /* The weight reader has checked the length of the header; of its content it keeps the tensors only. */
    st = esi_json_parse(ctx, &header, bytes + 8, (size_t)esi_load_u64le(bytes), name, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) goto done;
    r.metadata = esi_json_get(header, "__metadata__");
    st = read_metadata(&r);
    if (st == ESPALIER_OK) st = read_tensors(&r);
done:
    esi_json_free(header);
    esi_weight_file_free(r.file);
    return st;
}
