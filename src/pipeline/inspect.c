/* SPDX-License-Identifier: MIT
 *
 * inspect.c: what a file or directory is, as JSON; the form for people is made from the JSON, so that the two cannot differ.
 */
#include <espalier/inspect.h>

#include "base/context.h"
#include "formats/dump.h"
#include "formats/image_codecs.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "formats/vxz.h"
#include "models/matting_files.h"
#include "pipeline/model.h"
#include "pipeline/post_report.h"

#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------- weight files */

static void put_shape(esi_json_writer *w, const esi_file_tensor *t)
{
    esi_text shape = {0};
    for (int i = 0; i < t->rank; i++) esi_text_append(w->ctx, &shape, "%s%lld", i ? "x" : "", (long long)t->shape[i]);
    esi_json_put_string(w, "shape", shape.len ? shape.data : "scalar");
    esi_text_free(w->ctx, &shape);
}

static void put_dtypes(esi_json_writer *w, const esi_weight_file *file)
{
    uint64_t count[ESI_FILE_OTHER + 1] = {0}, elements = 0, bytes = 0;
    for (size_t i = 0; i < file->count; i++) {
        const esi_file_tensor *t = &file->tensors[i];
        count[t->dtype]++;
        elements += (uint64_t)esi_file_tensor_count(t);
        bytes += t->size;
    }
    esi_json_put_int(w, "tensors", (int64_t)file->count);
    esi_json_put_int(w, "values", (int64_t)elements);
    esi_json_put_int(w, "bytes", (int64_t)bytes);
    esi_json_open(w, "dtypes", '{');
    for (int d = 0; d <= ESI_FILE_OTHER; d++)
        if (count[d]) esi_json_put_int(w, esi_file_dtype_name((esi_file_dtype)d), (int64_t)count[d]);
    esi_json_close(w, '}');
}

static void describe_weights(esi_json_writer *w, const esi_weight_file *file)
{
    esi_json_put_string(w, "kind", "weights");
    esi_json_put_string(w, "format", file->format == ESI_FORMAT_GGUF ? "gguf" : "safetensors");
    if (file->architecture) esi_json_put_string(w, "architecture", file->architecture);
    if (file->format == ESI_FORMAT_GGUF) esi_json_put_bool(w, "has_config", file->config_json != NULL);
    put_dtypes(w, file);
    esi_json_open(w, "list", '[');
    for (size_t i = 0; i < file->count; i++) {
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", file->tensors[i].name);
        esi_json_put_string(w, "dtype", esi_file_dtype_name(file->tensors[i].dtype));
        put_shape(w, &file->tensors[i]);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
}

static espalier_status inspect_weights(esi_json_writer *w, const char *path)
{
    esi_weight_file *file = NULL;
    espalier_status st = esi_weight_file_open(w->ctx, &file, path);
    if (st == ESPALIER_OK) describe_weights(w, file);
    esi_weight_file_free(file);
    return st;
}

/* ------------------------------------------------------------- model directories */

static void put_role(esi_json_writer *w, const espalier_model *model, espalier_role role)
{
    const esi_role_files *files = &model->files.role[role];
    const esi_weights *weights = esi_model_weights(model, role);
    esi_json_open(w, NULL, '{');
    esi_json_put_string(w, "role", espalier_role_name(role));
    esi_json_put_bool(w, "found", weights != NULL);
    if (!weights) {
        esi_json_put_string(w, "wanted", files->wanted ? files->wanted : "not named in pipeline.json");
    } else {
        esi_json_put_string(w, "path", files->weights);
        esi_json_put_string(w, "config",
                            files->config                                    ? files->config
                            : esi_weights_file(weights)->config_json != NULL ? "in the file"
                                                                             : "none: shapes and release defaults");
        esi_json_put_int(w, "parameters", (int64_t)esi_weights_parameters(weights));
        put_dtypes(w, esi_weights_file(weights));
    }
    esi_json_close(w, '}');
}

/* The networks that cut objects out, best first. */
static espalier_status put_matting(esi_json_writer *w, const espalier_model *model, const char *path)
{
    const char *const directories[] = {path, espalier_model_directory(model), NULL};
    esi_arena arena = {0};
    espalier_status st = ESPALIER_OK;

    esi_json_open(w, "matting", '[');
    for (size_t i = 0; st == ESPALIER_OK && i < ESI_MATTING_NETWORKS; i++) {
        const char *found = NULL;
        st = esi_matting_file_find(w->ctx, &arena, &found, directories, esi_matting_networks[i]);
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "network", espalier_matte_name(esi_matting_networks[i]));
        esi_json_put_bool(w, "found", found != NULL);
        esi_json_put_string(w, found ? "path" : "wanted", found ? found : esi_matting_file_wanted(esi_matting_networks[i]));
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
    esi_arena_free(w->ctx, &arena);
    return st;
}

static espalier_status inspect_directory(esi_json_writer *w, const char *path)
{
    static const espalier_pipeline_type types[] = {ESPALIER_PIPELINE_512, ESPALIER_PIPELINE_1024, ESPALIER_PIPELINE_1024_CASCADE,
                                                   ESPALIER_PIPELINE_1536_CASCADE};
    espalier_model *model = NULL;
    espalier_status st = espalier_model_open(w->ctx, &model, path, NULL);
    if (st != ESPALIER_OK) return st;

    esi_json_put_string(w, "kind", "model");
    esi_json_put_string(w, "layout", model->files.layout == ESI_LAYOUT_GGUF ? "gguf" : "huggingface");
    esi_json_put_string(w, "directory", espalier_model_directory(model));
    esi_json_put_string(w, "default_pipeline", espalier_pipeline_name(espalier_model_default_pipeline(model)));
    esi_json_put_int(w, "resolution", model->settings.resolution);
    esi_json_put_int(w, "image_size", model->settings.image_size);
    esi_json_open(w, "pipelines", '[');
    for (size_t i = 0; i < ESI_COUNT(types); i++) {
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "pipeline", espalier_pipeline_name(types[i]));
        bool shape = espalier_model_require(w->ctx, model, types[i], 0) == ESPALIER_OK;
        bool texture = espalier_model_require(w->ctx, model, types[i], 1) == ESPALIER_OK;
        esi_json_put_string(w, "usable", texture ? "yes" : shape ? "without texture" : "no");
        if (!texture) esi_json_put_string(w, "missing", espalier_error_message(w->ctx));
        esi_clear_error(w->ctx);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
    esi_json_open(w, "roles", '[');
    for (int role = 0; role < ESPALIER_ROLE_COUNT; role++) put_role(w, model, (espalier_role)role);
    esi_json_close(w, ']');
    st = put_matting(w, model, path);
    espalier_model_free(model);
    return st;
}

/* ------------------------------------------------------------- pictures, assets */

static espalier_status inspect_image(esi_json_writer *w, const uint8_t *bytes, size_t size, const char *path)
{
    espalier_image image = {0};
    espalier_status st = espalier_image_decode(w->ctx, &image, bytes, size, path);
    if (st != ESPALIER_OK) return st;
    uint64_t clear = 0, solid = 0, total = (uint64_t)image.width * image.height;
    if (image.channels == 4)
        for (uint64_t i = 0; i < total; i++) {
            clear += image.pixels[4 * i + 3] == 0;
            solid += image.pixels[4 * i + 3] > 204;
        }
    esi_json_put_string(w, "kind", "picture");
    esi_json_put_string(w, "format", bytes[0] == 0x89 ? "png" : bytes[0] == 0xff ? "jpeg" : "webp");
    esi_json_put_int(w, "width", image.width);
    esi_json_put_int(w, "height", image.height);
    esi_json_put_int(w, "channels", image.channels);
    esi_json_put_bool(w, "has_alpha", espalier_image_has_alpha(&image) != 0);
    if (image.channels == 4) {
        esi_json_put_number(w, "transparent_share", (double)clear / (double)total);
        esi_json_put_number(w, "foreground_share", (double)solid / (double)total);
    }
    esi_json_put_hash(w, "pixels_hash", esi_image_hash(&image));
    espalier_image_free(&image);
    return ESPALIER_OK;
}

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The "count" of an accessor that a primitive names; 0 for what cannot be: glTF counts in 32 bits. */
static int64_t accessor_count(const esi_json *accessors, const esi_json *number)
{
    int64_t index = -1, count = 0;
    if (!esi_json_int(number, &index) || index < 0) return 0;
    if (!esi_json_int(esi_json_get(esi_json_at(accessors, (size_t)index), "count"), &count)) return 0;
    return count < 0 || count > UINT32_MAX ? 0 : count;
}

/* Vertices and triangles of all primitives, from the accessors' counts. */
static void put_glb_counts(esi_json_writer *w, const esi_json *root)
{
    const esi_json *accessors = esi_json_get(root, "accessors"), *meshes = esi_json_get(root, "meshes");
    int64_t vertices = 0, indices = 0, primitives = 0;
    for (size_t m = 0; m < esi_json_size(meshes); m++) {
        const esi_json *list = esi_json_get(esi_json_at(meshes, m), "primitives");
        for (size_t p = 0; p < esi_json_size(list); p++) {
            const esi_json *primitive = esi_json_at(list, p);
            primitives++;
            vertices += accessor_count(accessors, esi_json_path(primitive, "attributes.POSITION"));
            indices += accessor_count(accessors, esi_json_get(primitive, "indices"));
        }
    }
    esi_json_put_int(w, "meshes", (int64_t)esi_json_size(meshes));
    esi_json_put_int(w, "primitives", primitives);
    esi_json_put_int(w, "vertices", vertices);
    esi_json_put_int(w, "triangles", indices / 3);
    esi_json_put_int(w, "materials", (int64_t)esi_json_size(esi_json_get(root, "materials")));
    esi_json_put_int(w, "images", (int64_t)esi_json_size(esi_json_get(root, "images")));
}

static espalier_status inspect_glb(esi_json_writer *w, const uint8_t *bytes, size_t size, const char *path)
{
    const char *text = NULL;
    esi_json *root = NULL;
    if (size < 20 || u32_at(bytes + 8) != size || u32_at(bytes + 12) > size - 20 || memcmp(bytes + 16, "JSON", 4) != 0)
        return esi_fail(w->ctx, ESPALIER_ERR_INPUT, "%s: damaged GLB: lengths in the header do not fit the file", path);
    espalier_status st = esi_json_parse(w->ctx, &root, bytes + 20, u32_at(bytes + 12), path, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    esi_json_put_string(w, "kind", "glb");
    esi_json_put_int(w, "version", u32_at(bytes + 4));
    if (esi_json_string(esi_json_path(root, "asset.generator"), &text)) esi_json_put_string(w, "generator", text);
    put_glb_counts(w, root);
    const esi_json *extras = esi_json_path(root, "asset.extras");
    if (extras && esi_json_is_object(extras)) {
        esi_json_open(w, "extras", '{');
        const char *key;
        void *iterator = NULL;
        const esi_json *v = NULL;
        while ((key = esi_json_next(extras, &iterator, &v)) != NULL) {
            double number = 0;
            if (esi_json_string(v, &text))
                esi_json_put_string(w, key, text);
            else if (esi_json_double(v, &number))
                esi_json_put_number(w, key, number);
        }
        esi_json_close(w, '}');
    }
    esi_json_free(root);
    return ESPALIER_OK;
}

static espalier_status inspect_dump(esi_json_writer *w, const uint8_t *bytes, size_t size, const char *path)
{
    esi_dump dump = {0};
    espalier_status st = esi_dump_parse(w->ctx, &dump, bytes, size, path);
    if (st != ESPALIER_OK) return st;
    const esi_asset *a = &dump.asset;
    esi_json_put_string(w, "kind", "dump");
    esi_json_put_string(w, "format", esi_dump_format_name(dump.format));
    if (a->generator) esi_json_put_string(w, "generator", a->generator);
    if (a->pipeline_type) esi_json_put_string(w, "pipeline", a->pipeline_type);
    esi_json_put_int(w, "resolution", a->resolution);
    esi_json_put_int(w, "vertices", a->n_vertices);
    esi_json_put_int(w, "faces", a->n_faces);
    esi_json_put_int(w, "voxels", a->n_voxels);
    esi_json_put_bool(w, "has_materials", a->attrs != NULL);
    esi_json_put_bool(w, "has_logits", a->intersect_logits != NULL);
    esi_json_put_int(w, "levels", a->n_levels);
    esi_dump_free(w->ctx, &dump);
    return ESPALIER_OK;
}

static espalier_status inspect_voxels(esi_json_writer *w, const char *path)
{
    esi_vxz v = {0};
    int32_t largest = 0;
    espalier_status st = esi_vxz_read(w->ctx, &v, path);

    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < 3 * v.count; i++) largest = ESI_MAX(largest, v.coords[i]);
    esi_json_put_string(w, "kind", "voxels");
    esi_json_put_int(w, "voxels", v.count);
    esi_json_put_int(w, "largest_coordinate", largest);
    esi_json_open(w, "attributes", '[');
    for (int32_t i = 0; i < v.n_attrs; i++) {
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", v.attrs[i].name);
        esi_json_put_int(w, "channels", v.attrs[i].channels);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
    esi_vxz_free(w->ctx, &v);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------- dispatch */

static bool begins(const uint8_t *bytes, size_t size, const char *magic, size_t len)
{
    return size >= len && memcmp(bytes, magic, len) == 0;
}

static bool is_picture(const uint8_t *b, size_t n)
{
    return begins(b, n, "\x89PNG", 4) || begins(b, n, "\xff\xd8\xff", 3) ||
           (begins(b, n, "RIFF", 4) && n >= 12 && memcmp(b + 8, "WEBP", 4) == 0);
}

static bool has_suffix(const char *path, const char *suffix)
{
    return strcmp(esi_path_suffix(path), suffix) == 0;
}

/* Formats that hold meshes and nothing else; a GLB is told by its first bytes. */
static bool is_mesh_path(const char *path)
{
    static const char *const suffixes[] = {".gltf", ".obj", ".ply", ".stl", ".3mf", ".off", ".dae", ".fbx", ".usdz"};
    for (size_t i = 0; i < ESI_COUNT(suffixes); i++)
        if (has_suffix(path, suffixes[i])) return true;
    return false;
}

/* Soundness of the mesh in a file: members of the object that is open, or of a new one called `key`. */
static espalier_status inspect_mesh(esi_json_writer *w, const char *key, const char *path)
{
    espalier_mesh *mesh = NULL;
    espalier_status st = espalier_mesh_load(w->ctx, &mesh, path);

    if (st == ESPALIER_OK) {
        if (key) esi_json_open(w, key, '{');
        st = esi_describe_mesh(w, mesh, false);
        if (key) esi_json_close(w, '}');
    }
    espalier_mesh_free(mesh);
    return st;
}

/* A GLB may hold no mesh at all, or one that makes no sense: then the container is described all the same, and why there is no more. */
static espalier_status inspect_mesh_if_any(esi_json_writer *w, const char *path)
{
    const espalier_status st = inspect_mesh(w, "mesh", path);
    char why[512];

    if (st != ESPALIER_ERR_INPUT) return st;
    snprintf(why, sizeof why, "%s", espalier_error_message(w->ctx));
    esi_clear_error(w->ctx);
    esi_json_put_string(w, "no_mesh", why);
    return ESPALIER_OK;
}

static espalier_status inspect_file(esi_json_writer *w, const char *path)
{
    esi_file_map *map = NULL;
    espalier_status st = esi_file_map_open(w->ctx, &map, path, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    const uint8_t *bytes = esi_file_map_data(map);
    size_t size = (size_t)esi_file_map_size(map);

    bool weights = begins(bytes, size, "GGUF", 4) || has_suffix(path, ".safetensors");
    if (size == 0)
        st = esi_fail(w->ctx, ESPALIER_ERR_INPUT, "%s: the file is empty", path);
    else if (!weights && size > esi_limits(w->ctx)->max_file_bytes)
        st = esi_fail(w->ctx, ESPALIER_ERR_RESOURCE, "%s: larger than the limit for files that are no models", path);
    else if (is_picture(bytes, size))
        st = inspect_image(w, bytes, size, path);
    else if (begins(bytes, size, "glTF", 4)) {
        st = inspect_glb(w, bytes, size, path);
        if (st == ESPALIER_OK) st = inspect_mesh_if_any(w, path);
    } else if (begins(bytes, size, "VXZ", 4) || has_suffix(path, ".npz")) {
        st = inspect_voxels(w, path);
    } else if (is_mesh_path(path)) {
        esi_json_put_string(w, "kind", "mesh");
        st = inspect_mesh(w, NULL, path);
    } else if (weights) {
        st = inspect_weights(w, path);
    } else {
        st = inspect_dump(w, bytes, size, path);
    }
    esi_file_map_release(map);
    return st;
}

espalier_status espalier_inspect(espalier_context *ctx, const char *path, char **json)
{
    esi_fp_state fp;
    esi_text text = {0};
    esi_json_writer w = {ctx, &text, false};

    if (json) *json = NULL;
    if (!ctx || !path || !json) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    esi_json_open(&w, NULL, '{');
    esi_json_put_string(&w, "path", path);
    espalier_status st = esi_path_is_dir(path) ? inspect_directory(&w, path) : inspect_file(&w, path);
    esi_json_close(&w, '}');
    esi_text_append(ctx, &text, "\n");
    if (st == ESPALIER_OK && text.failed) st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory for the description of %s", path);
    if (st == ESPALIER_OK)
        *json = text.data;
    else
        esi_text_free(ctx, &text);
    return esi_leave(ctx, &fp, st);
}

void espalier_text_free(espalier_context *ctx, char *text)
{
    if (ctx) esi_free(ctx, text);
}
