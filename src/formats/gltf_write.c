/* SPDX-License-Identifier: MIT
 *
 * gltf_write.c: glTF 2.0 (Khronos specification) as .glb (section 4) or .gltf. One buffer: indices, attributes, pictures. Arrays are
 * converted in blocks while they are written: nothing of their size is held in memory.
 */
#include "formats/gltf_write.h"

#include "formats/bytes.h"
#include "formats/numbers.h"

#define GLB_MAGIC 0x46546c67u                    /* "glTF" */
#define CHUNK_JSON 0x4e4f534au
#define CHUNK_BINARY 0x004e4942u
#define HEADER_BYTES (12 + 8 + 8)                /* file header and two chunk headers */
#define BLOCK 65536                              /* elements converted at once */
#define TASK 4096                                /* of those, by one task */

#define TARGET_ATTRIBUTES 34962
#define TARGET_INDICES 34963

/* A texture of the document: a picture and how to sample it. */
typedef struct use {
    int32_t texture;               /* of the materials */
    bool nearest;
    esi_wrap wrap;
} use;

typedef struct document {
    const esi_gltf *g;
    esi_text json;
    bool binary;
    use *uses;
    size_t n_uses;
    uint64_t size;                 /* of the buffer */
    char **uris;                   /* [n_pictures + 1], the last that of the buffer; files only */
} document;

static uint64_t pad4(uint64_t n)
{
    return (n + 3) & ~UINT64_C(3);
}

/* --------------------------------------------------------------- materials */

static bool has_picture(const document *d, int32_t texture)
{
    return texture >= 0 && d->g->picture_of && d->g->picture_of[texture] >= 0;
}

static size_t find_use(const document *d, const esi_material *m, int32_t texture)
{
    size_t i = 0;

    while (i < d->n_uses && !(d->uses[i].texture == texture && d->uses[i].nearest == m->nearest && d->uses[i].wrap == m->wrap)) i++;
    return i;
}

static espalier_status list_uses(document *d)
{
    d->uses = esi_alloc(d->g->ctx, 4 * (size_t)d->g->n_materials, sizeof *d->uses, "textures");
    if (!d->uses) return ESPALIER_ERR_RESOURCE;
    for (int32_t i = 0; i < d->g->n_materials; i++) {
        const esi_material *m = &d->g->materials[i];
        const int32_t textures[4] = {m->base_color_texture, m->metallic_roughness_texture, m->normal_texture, m->emissive_texture};

        for (int k = 0; k < 4; k++) {
            if (has_picture(d, textures[k]) && find_use(d, m, textures[k]) == d->n_uses)
                d->uses[d->n_uses++] = (use){textures[k], m->nearest, m->wrap};
        }
    }
    return ESPALIER_OK;
}

static void put_float(document *d, float value)
{
    esi_export_float(d->g->ctx, &d->json, value);
}

static void put_floats(document *d, const char *key, const float *values, int n)
{
    esi_text_append(d->g->ctx, &d->json, "\"%s\":[", key);
    esi_export_floats(d->g->ctx, &d->json, values, n, ",");
    esi_text_append(d->g->ctx, &d->json, "]");
}

static void put_texture(document *d, const esi_material *m, const char *key, int32_t texture)
{
    esi_text_append(d->g->ctx, &d->json, ",\"%s\":{\"index\":%zu}", key, find_use(d, m, texture));
}

static void append_material(document *d, const esi_material *m)
{
    static const char *const alpha_modes[3] = {"OPAQUE", "MASK", "BLEND"};
    espalier_context *ctx = d->g->ctx;
    esi_text *t = &d->json;
    const float *c = m->base_color, *light = m->emissive;

    esi_text_append(ctx, t, "{");
    if (m->name[0]) {
        esi_text_append(ctx, t, "\"name\":");
        esi_text_append_json_string(ctx, t, m->name);
        esi_text_append(ctx, t, ",");
    }
    esi_text_append(ctx, t, "\"pbrMetallicRoughness\":{");
    if (c[0] != 1.0f || c[1] != 1.0f || c[2] != 1.0f || c[3] != 1.0f) {
        put_floats(d, "baseColorFactor", c, 4);
        esi_text_append(ctx, t, ",");
    }
    esi_text_append(ctx, t, "\"metallicFactor\":");
    put_float(d, m->metallic);
    esi_text_append(ctx, t, ",\"roughnessFactor\":");
    put_float(d, m->roughness);
    if (has_picture(d, m->base_color_texture)) put_texture(d, m, "baseColorTexture", m->base_color_texture);
    if (has_picture(d, m->metallic_roughness_texture)) put_texture(d, m, "metallicRoughnessTexture", m->metallic_roughness_texture);
    esi_text_append(ctx, t, "}");
    if (has_picture(d, m->normal_texture)) put_texture(d, m, "normalTexture", m->normal_texture);
    if (m->occlusion && has_picture(d, m->metallic_roughness_texture)) put_texture(d, m, "occlusionTexture", m->metallic_roughness_texture);
    if (has_picture(d, m->emissive_texture)) put_texture(d, m, "emissiveTexture", m->emissive_texture);
    if (light[0] != 0.0f || light[1] != 0.0f || light[2] != 0.0f) {
        esi_text_append(ctx, t, ",");
        put_floats(d, "emissiveFactor", light, 3);
    }
    esi_text_append(ctx, t, ",\"alphaMode\":\"%s\"", alpha_modes[m->alpha_mode]);
    if (m->alpha_mode == ESI_ALPHA_MASK && m->alpha_cutoff != 0.5f) {
        esi_text_append(ctx, t, ",\"alphaCutoff\":");
        put_float(d, m->alpha_cutoff);
    }
    esi_text_append(ctx, t, m->double_sided ? ",\"doubleSided\":true}" : "}");
}

/* There are six samplers; those that occur are numbered in the order of this. */
static unsigned sampler_kind(const use *u)
{
    return 3 * u->nearest + (unsigned)u->wrap;
}

static bool sampler_occurs(const document *d, unsigned kind)
{
    for (size_t i = 0; i < d->n_uses; i++) {
        if (sampler_kind(&d->uses[i]) == kind) return true;
    }
    return false;
}

static void append_textures(document *d)
{
    static const int wraps[3] = {10497, 33071, 33648};
    espalier_context *ctx = d->g->ctx;
    esi_text *t = &d->json;
    unsigned number[6], samplers = 0;

    for (unsigned kind = 0; kind < 6; kind++) {
        number[kind] = samplers;
        samplers += sampler_occurs(d, kind);
    }
    if (d->n_uses == 0) return;
    esi_text_append(ctx, t, "\"textures\":[");
    for (size_t i = 0; i < d->n_uses; i++) {
        const int32_t picture = d->g->picture_of[d->uses[i].texture], fallback = d->g->pictures[picture].fallback;

        esi_text_append(ctx, t, "%s{\"sampler\":%u,\"source\":%d", i ? "," : "", number[sampler_kind(&d->uses[i])],
                        (int)(fallback >= 0 ? fallback : picture));
        if (fallback >= 0) esi_text_append(ctx, t, ",\"extensions\":{\"EXT_texture_webp\":{\"source\":%d}}", (int)picture);
        esi_text_append(ctx, t, "}");
    }
    esi_text_append(ctx, t, "],\"samplers\":[");
    for (unsigned kind = 0; kind < 6; kind++) {
        if (!sampler_occurs(d, kind)) continue;
        esi_text_append(ctx, t, "%s{\"magFilter\":%d,\"minFilter\":%d,\"wrapS\":%d,\"wrapT\":%d}", number[kind] ? "," : "",
                        kind >= 3 ? 9728 : 9729, kind >= 3 ? 9728 : 9987, wraps[kind % 3], wraps[kind % 3]);
    }
    esi_text_append(ctx, t, "],");
}

/* ------------------------------------------------------------------- views */

static const char *mime_type(const esi_gltf_picture *p)
{
    return p->bytes[0] == 0x89 ? "image/png" : p->bytes[0] == 0xff ? "image/jpeg" : "image/webp";
}

static void append_images(document *d)
{
    espalier_context *ctx = d->g->ctx;
    esi_text *t = &d->json;

    if (d->g->n_pictures == 0) return;
    esi_text_append(ctx, t, "\"images\":[");
    for (size_t i = 0; i < d->g->n_pictures; i++) {
        esi_text_append(ctx, t, i ? ",{" : "{");
        if (d->binary) {
            esi_text_append(ctx, t, "\"bufferView\":%zu,", d->g->n_arrays + i);
        } else {
            esi_text_append(ctx, t, "\"uri\":");
            esi_text_append_json_string(ctx, t, d->uris[i]);
            esi_text_append(ctx, t, ",");
        }
        esi_text_append(ctx, t, "\"mimeType\":\"%s\"}", mime_type(&d->g->pictures[i]));
    }
    esi_text_append(ctx, t, "],");
}

static void append_view(document *d, bool first, uint64_t offset, uint64_t size, int target)
{
    esi_text_append(d->g->ctx, &d->json, "%s{\"buffer\":0,\"byteOffset\":%llu,\"byteLength\":%llu", first ? "" : ",",
                    (unsigned long long)offset, (unsigned long long)size);
    if (target) esi_text_append(d->g->ctx, &d->json, ",\"target\":%d", target);
    esi_text_append(d->g->ctx, &d->json, "}");
}

static uint64_t array_size(const esi_gltf_array *a)
{
    return (uint64_t)a->count * a->size;
}

static void append_buffer(document *d)
{
    espalier_context *ctx = d->g->ctx;
    uint64_t offset = 0;

    esi_text_append(ctx, &d->json, "\"buffers\":[{");
    if (!d->binary) {
        esi_text_append(ctx, &d->json, "\"uri\":");
        esi_text_append_json_string(ctx, &d->json, d->uris[d->g->n_pictures]);
        esi_text_append(ctx, &d->json, ",");
    }
    esi_text_append(ctx, &d->json, "\"byteLength\":%llu}],\"bufferViews\":[", (unsigned long long)d->size);
    for (size_t i = 0; i < d->g->n_arrays; i++) {
        append_view(d, i == 0, offset, array_size(&d->g->arrays[i]), d->g->arrays[i].attribute ? TARGET_ATTRIBUTES : TARGET_INDICES);
        offset += pad4(array_size(&d->g->arrays[i]));
    }
    for (size_t i = 0; d->binary && i < d->g->n_pictures; i++) {
        append_view(d, false, offset, d->g->pictures[i].size, 0);
        offset += pad4(d->g->pictures[i].size);
    }
    esi_text_append(ctx, &d->json, "],");
}

/* Exact: a float is a double, and reads back as the same float. */
static void append_bound(document *d, const char *key, const float v[3])
{
    for (int i = 0; i < 3; i++) {
        esi_text_append(d->g->ctx, &d->json, i ? "," : ",\"%s\":[", key);
        esi_text_append_json_number(d->g->ctx, &d->json, (double)v[i]);
    }
    esi_text_append(d->g->ctx, &d->json, "]");
}

static void append_accessors(document *d)
{
    esi_text_append(d->g->ctx, &d->json, "\"accessors\":[");
    for (size_t i = 0; i < d->g->n_arrays; i++) {
        const esi_gltf_array *a = &d->g->arrays[i];

        esi_text_append(d->g->ctx, &d->json, "%s{\"bufferView\":%zu,\"componentType\":%d%s,\"count\":%lld,\"type\":\"%s\"", i ? "," : "", i,
                        a->component, a->normalized ? ",\"normalized\":true" : "", (long long)a->count, a->type);
        if (a->bounds) {
            append_bound(d, "min", a->min);
            append_bound(d, "max", a->max);
        }
        esi_text_append(d->g->ctx, &d->json, "}");
    }
    esi_text_append(d->g->ctx, &d->json, "]");
}

/* ---------------------------------------------------------------- document */

static void append_primitives(document *d)
{
    for (size_t i = 0; i < d->g->n_primitives; i++) {
        esi_text_append(d->g->ctx, &d->json, "%s{\"attributes\":{", i ? "," : "");
        for (size_t k = d->g->n_primitives; k < d->g->n_arrays; k++)
            esi_text_append(d->g->ctx, &d->json, "%s\"%s\":%zu", k > d->g->n_primitives ? "," : "", d->g->arrays[k].attribute, k);
        esi_text_append(d->g->ctx, &d->json, "},\"indices\":%zu,\"material\":%d}", i, (int)d->g->arrays[i].material);
    }
}

static espalier_status build_json(document *d)
{
    espalier_context *ctx = d->g->ctx;
    esi_text *t = &d->json;
    bool webp = false;

    for (size_t i = 0; i < d->g->n_pictures; i++) webp = webp || d->g->pictures[i].fallback >= 0;
    esi_text_append(ctx, t, "{\"asset\":{\"version\":\"2.0\",\"generator\":");
    esi_text_append_json_string(ctx, t, d->g->generator);
    if (d->g->extras) {
        esi_text_append(ctx, t, ",\"extras\":");
        esi_text_append_bytes(ctx, t, d->g->extras, strlen(d->g->extras));
    }
    esi_text_append(ctx, t, "},%s\"scene\":0,\"scenes\":[{\"nodes\":[0]}],\"nodes\":[{\"mesh\":0}],\"meshes\":[{\"primitives\":[",
                    webp ? "\"extensionsUsed\":[\"EXT_texture_webp\"]," : "");
    append_primitives(d);
    esi_text_append(ctx, t, "]}],\"materials\":[");
    for (int32_t i = 0; i < d->g->n_materials; i++) {
        if (i > 0) esi_text_append(ctx, t, ",");
        append_material(d, &d->g->materials[i]);
    }
    esi_text_append(ctx, t, "],");
    append_textures(d);
    append_images(d);
    append_buffer(d);
    append_accessors(d);
    esi_text_append(ctx, t, "}");
    while (d->binary && !t->failed && t->len % 4 != 0) esi_text_append(ctx, t, " ");
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

/* -------------------------------------------------------------------- data */

typedef struct fill_job {
    const esi_gltf *g;
    const esi_gltf_array *array;
    int64_t begin, end;            /* of the block */
    uint8_t *block;
} fill_job;

static void fill_task(void *arg, size_t task, int slot)
{
    const fill_job *j = arg;
    const int64_t begin = j->begin + (int64_t)task * TASK, end = ESI_MIN(begin + TASK, j->end);

    (void)slot;
    j->array->fill(j->g->source, j->array, begin, end - begin, j->block + (size_t)(begin - j->begin) * j->array->size);
}

static espalier_status write_array(const esi_gltf *g, esi_writer *w, const esi_gltf_array *a, uint8_t *block)
{
    espalier_status st = ESPALIER_OK;

    if (a->begin) a->begin(g->source);
    for (int64_t begin = 0; st == ESPALIER_OK && begin < a->count; begin += BLOCK) {
        fill_job j = {.g = g, .array = a, .begin = begin, .end = ESI_MIN(begin + BLOCK, a->count), .block = block};

        st = esi_parallel(g->ctx, (size_t)((j.end - begin + TASK - 1) / TASK), fill_task, &j);
        if (st == ESPALIER_OK) st = esi_writer_write(w, block, (size_t)(j.end - begin) * a->size);
    }
    if (st == ESPALIER_OK) st = esi_writer_zeros(w, (size_t)(pad4(array_size(a)) - array_size(a)));
    return st;
}

static espalier_status write_buffer(const document *d, esi_writer *w)
{
    const esi_gltf *g = d->g;
    uint32_t largest = 4;
    uint8_t *block;
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; i < g->n_arrays; i++) largest = ESI_MAX(largest, g->arrays[i].size);
    block = esi_alloc(g->ctx, BLOCK, largest, "glTF buffer");
    if (!block) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; st == ESPALIER_OK && i < g->n_arrays; i++) st = write_array(g, w, &g->arrays[i], block);
    for (size_t i = 0; st == ESPALIER_OK && d->binary && i < g->n_pictures; i++) {
        st = esi_writer_write(w, g->pictures[i].bytes, g->pictures[i].size);
        if (st == ESPALIER_OK) st = esi_writer_zeros(w, (size_t)(pad4(g->pictures[i].size) - g->pictures[i].size));
    }
    esi_free(g->ctx, block);
    return st;
}

static espalier_status write_binary(document *d, esi_file_set *files)
{
    const uint64_t total = HEADER_BYTES + d->json.len + d->size;
    const uint32_t words[] = {GLB_MAGIC, 2, (uint32_t)total, (uint32_t)d->json.len, CHUNK_JSON, (uint32_t)d->size, CHUNK_BINARY};
    uint8_t bytes[sizeof words];
    esi_writer *w;
    espalier_status st;

    if (total > UINT32_MAX)
        return esi_fail(d->g->ctx, ESPALIER_ERR_RESOURCE,
                        "%s: the mesh needs %llu bytes, a GLB holds 4 GiB; use a lower resolution or a dump", d->g->path,
                        (unsigned long long)total);
    for (size_t i = 0; i < ESI_COUNT(words); i++) esi_store_u32le(bytes + 4 * i, words[i]);
    st = esi_file_set_open(files, &w, d->g->path);
    if (st == ESPALIER_OK) st = esi_writer_write(w, bytes, 20);
    if (st == ESPALIER_OK) st = esi_writer_write(w, d->json.data, d->json.len);
    if (st == ESPALIER_OK) st = esi_writer_write(w, bytes + 20, 8);
    return st == ESPALIER_OK ? write_buffer(d, w) : st;
}

static espalier_status write_text(document *d, esi_file_set *files, char *const *paths)
{
    esi_writer *w;
    espalier_status st = esi_file_set_open(files, &w, d->g->path);

    if (st == ESPALIER_OK) st = esi_writer_write(w, d->json.data, d->json.len);
    if (st == ESPALIER_OK) st = esi_file_set_open(files, &w, paths[d->g->n_pictures]);
    if (st == ESPALIER_OK) st = write_buffer(d, w);
    for (size_t i = 0; st == ESPALIER_OK && i < d->g->n_pictures; i++) {
        st = esi_file_set_open(files, &w, paths[i]);
        if (st == ESPALIER_OK) st = esi_writer_write(w, d->g->pictures[i].bytes, d->g->pictures[i].size);
    }
    return st;
}

/* A name as part of a URI (RFC 3986). */
static char *encode_uri(espalier_context *ctx, const char *name)
{
    esi_text t = {0};
    char *uri = NULL;

    for (const char *c = name; *c; c++) {
        const bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("-._~", *c);

        if (plain)
            esi_text_append_bytes(ctx, &t, c, 1);
        else
            esi_text_append(ctx, &t, "%%%02X", (unsigned)(unsigned char)*c);
    }
    if (!t.failed) uri = esi_format(ctx, "%.*s", (int)ESI_MIN(t.len, (size_t)INT32_MAX), t.len ? t.data : "");
    esi_text_free(ctx, &t);
    return uri;
}

/* The n_pictures names of pictures and the buffer's; false after a failure. */
static bool name_files(document *d, char **paths)
{
    const char *path = d->g->path;
    const int head = (int)(strlen(path) - strlen(esi_path_suffix(path)));

    for (size_t i = 0; i <= d->g->n_pictures; i++) {
        const char *mime = i < d->g->n_pictures ? mime_type(&d->g->pictures[i]) + 6 : "";

        paths[i] = i == d->g->n_pictures ? esi_format(d->g->ctx, "%.*s.bin", head, path)
                                         : esi_format(d->g->ctx, "%.*s_%zu.%s", head, path, i, strcmp(mime, "jpeg") ? mime : "jpg");
        if (!paths[i]) return false;
        d->uris[i] = encode_uri(d->g->ctx, esi_path_name(paths[i]));
        if (!d->uris[i]) return false;
    }
    return true;
}

espalier_status esi_gltf_write(const esi_gltf *g, esi_file_set *files, bool binary)
{
    document d = {.g = g, .binary = binary};
    char **paths = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    for (size_t i = 0; i < g->n_arrays; i++) d.size += pad4(array_size(&g->arrays[i]));
    for (size_t i = 0; binary && i < g->n_pictures; i++) d.size += pad4(g->pictures[i].size);
    paths = esi_calloc(g->ctx, g->n_pictures + 1, sizeof *paths, "output files");
    d.uris = esi_calloc(g->ctx, g->n_pictures + 1, sizeof *d.uris, "output files");
    if (!paths || !d.uris || (!binary && !name_files(&d, paths))) goto done;
    st = list_uses(&d);
    if (st == ESPALIER_OK) st = build_json(&d);
    if (st == ESPALIER_OK) st = binary ? write_binary(&d, files) : write_text(&d, files, paths);
    if (st == ESPALIER_OK) st = esi_file_set_commit(files);
done:
    for (size_t i = 0; i <= g->n_pictures; i++) {
        if (paths) esi_free(g->ctx, paths[i]);
        if (d.uris) esi_free(g->ctx, d.uris[i]);
    }
    esi_free(g->ctx, paths);
    esi_free(g->ctx, d.uris);
    esi_free(g->ctx, d.uses);
    esi_text_free(g->ctx, &d.json);
    return st;
}
