/* SPDX-License-Identifier: MIT
 *
 * mesh.c: the public mesh object: files in and out, measuring, comparing, looking.
 */
#include "formats/json_write.h"
#include "formats/surface_io.h"
#include "mesh/compare.h"
#include "mesh/render.h"
#include "pipeline/post.h"
#include "pipeline/post_report.h"

#include <math.h>

/* ------------------------------------------------------------- the object */

espalier_status esi_mesh_object_new(espalier_context *ctx, espalier_mesh **out)
{
    *out = esi_calloc(ctx, 1, sizeof **out, "mesh");
    if (!*out) return ESPALIER_ERR_RESOURCE;
    (*out)->owner = esi_context_retain(ctx);
    return ESPALIER_OK;
}

espalier_status esi_mesh_object_note(espalier_mesh *mesh, const char *key, const char *json)
{
    espalier_context *ctx = mesh->owner;
    size_t n = 0;

    while (mesh->extras && mesh->extras[n]) n++;
    char **grown = esi_realloc(ctx, mesh->extras, n + 3, sizeof *grown, "mesh facts");
    if (!grown) return ESPALIER_ERR_RESOURCE;
    mesh->extras = grown;
    grown[n] = grown[n + 1] = grown[n + 2] = NULL;
    char *k = esi_strdup(ctx, key), *v = esi_strdup(ctx, json);
    if (!k || !v) {
        esi_free(ctx, k);
        esi_free(ctx, v);
        return ESPALIER_ERR_RESOURCE;
    }
    grown[n] = k;
    grown[n + 1] = v;
    return ESPALIER_OK;
}

void espalier_mesh_free(espalier_mesh *mesh)
{
    if (!mesh) return;
    espalier_context *owner = mesh->owner;
    for (size_t i = 0; mesh->extras && mesh->extras[i]; i++) esi_free(owner, mesh->extras[i]);
    esi_free(owner, mesh->extras);
    esi_surface_free(owner, &mesh->surface);
    esi_free(owner, mesh);
    espalier_context_free(owner);
}

espalier_mesh_view espalier_mesh_get(const espalier_mesh *mesh)
{
    const esi_surface nothing = {0}, *s = mesh ? &mesh->surface : &nothing;
    return (espalier_mesh_view){
        .struct_size = sizeof(espalier_mesh_view),
        .vertices = s->mesh.vertices,
        .faces = s->mesh.faces,
        .normals = s->normals,
        .tangents = s->tangents,
        .uvs = s->uvs,
        .colors = s->colors,
        .vertex_count = s->mesh.n_vertices,
        .face_count = s->mesh.n_faces,
        .material_count = s->n_materials,
        .texture_count = s->n_textures,
    };
}

espalier_status espalier_mesh_texture(espalier_context *ctx, espalier_image *out, const espalier_mesh *mesh, int32_t index)
{
    if (out) memset(out, 0, sizeof *out);
    if (!ctx || !out || !mesh) return esi_refuse_null(ctx, __func__);
    esi_clear_error(ctx);
    if (index < 0 || index >= mesh->surface.n_textures)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "texture %d of %d", (int)index, (int)mesh->surface.n_textures);
    const esi_texture *t = &mesh->surface.textures[index];
    espalier_status st = espalier_image_create(ctx, out, t->width, t->height, t->channels);
    if (st == ESPALIER_OK) memcpy(out->pixels, t->pixels, (size_t)t->width * t->height * t->channels);
    return st;
}

/* ------------------------------------------------------------- files */

espalier_status espalier_mesh_load(espalier_context *ctx, espalier_mesh **out, const char *path)
{
    esi_fp_state fp;
    espalier_mesh *mesh = NULL;

    if (out) *out = NULL;
    if (!ctx || !out || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = esi_mesh_object_new(ctx, &mesh);
    if (st == ESPALIER_OK) st = esi_surface_read(ctx, &mesh->surface, path);
    if (st != ESPALIER_OK) {
        espalier_mesh_free(mesh);
        mesh = NULL;
    }
    *out = mesh;
    return esi_leave(ctx, &fp, st);
}

espalier_save_options espalier_save_options_default(void)
{
    return (espalier_save_options){.struct_size = sizeof(espalier_save_options), .jpeg_quality = 92};
}

int espalier_mesh_can_save(const char *path)
{
    return path && esi_surface_can_write(path);
}

static espalier_status check_save_options(espalier_context *ctx, const espalier_save_options *o)
{
    if (o->struct_size != sizeof *o)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "save options of another library version; start from espalier_save_options_default()");
    if ((unsigned)o->texture_format > ESPALIER_TEXTURE_WEBP)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "unknown texture format %d", (int)o->texture_format);
    if (o->jpeg_quality < 1 || o->jpeg_quality > 100)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "JPEG quality %d is not between 1 and 100", (int)o->jpeg_quality);
    if (!(o->size_mm >= 0 && o->size_mm <= 1e6))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "size of %g mm is not between 0 and 1000000", o->size_mm);
    return ESPALIER_OK;
}

espalier_status espalier_mesh_save(espalier_context *ctx, const espalier_mesh *mesh, const char *path, const espalier_save_options *options)
{
    const espalier_save_options defaults = espalier_save_options_default();
    esi_fp_state fp;

    if (!ctx || !mesh || !path) return esi_refuse_null(ctx, __func__);
    if (!options) options = &defaults;
    esi_enter(ctx, &fp);
    espalier_status st = check_save_options(ctx, options);
    if (st == ESPALIER_OK) {
        esi_export_options o = esi_export_options_default();
        o.texture_format = (esi_texture_format)options->texture_format;
        o.jpeg_quality = options->jpeg_quality;
        o.size_mm = options->size_mm;
        o.extras = (const char *const *)mesh->extras;
        st = esi_surface_write(ctx, &mesh->surface, path, &o);
    }
    return esi_leave(ctx, &fp, st);
}

/* ------------------------------------------------------------- measuring */

/* The geometry as every other function expects it, equal positions joined. */
static espalier_status welded_copy(espalier_context *ctx, esi_mesh *out, const espalier_mesh *mesh, esi_sanitize_stats *stats)
{
    const esi_mesh *m = &mesh->surface.mesh;
    espalier_status st = esi_mesh_copy(ctx, out, m->vertices, m->n_vertices, m->faces, m->n_faces);
    if (st == ESPALIER_OK) st = esi_mesh_sanitize(ctx, out, stats);
    return st == ESPALIER_OK ? esi_mesh_weld(ctx, out, NULL, NULL) : st;
}

static uint32_t largest_texture(const esi_surface *s)
{
    uint32_t side = 1024;
    for (int32_t i = 0; i < s->n_textures; i++) side = i ? ESI_MAX(side, s->textures[i].width) : s->textures[i].width;
    return ESI_MIN(ESI_MAX(side, 16u), 16384u);
}

static void put_textures(esi_json_writer *w, const esi_surface *s)
{
    esi_json_open(w, "textures", '[');
    for (int32_t i = 0; i < s->n_textures; i++) {
        esi_json_open(w, NULL, '{');
        esi_json_put_int(w, "width", s->textures[i].width);
        esi_json_put_int(w, "height", s->textures[i].height);
        esi_json_put_int(w, "channels", s->textures[i].channels);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
}

espalier_status esi_describe_mesh(esi_json_writer *w, const espalier_mesh *mesh, bool self_intersections)
{
    const esi_surface *s = &mesh->surface;
    esi_mesh welded = {0};
    esi_mesh_metrics metrics;
    esi_sanitize_stats dropped = {0};
    esi_uv_metrics uv;
    int64_t pairs = 0, faces = 0;
    espalier_status st = welded_copy(w->ctx, &welded, mesh, &dropped);

    if (st == ESPALIER_OK) st = esi_mesh_metrics_compute(w->ctx, &metrics, &welded, 0);
    if (st == ESPALIER_OK && self_intersections) st = esi_mesh_self_intersections(w->ctx, &pairs, &faces, &welded);
    if (st == ESPALIER_OK && s->uvs) st = esi_uv_metrics_compute(w->ctx, &uv, &s->mesh, s->uvs, largest_texture(s));
    if (st != ESPALIER_OK) goto done;
    esi_json_put_int(w, "file_vertices", s->mesh.n_vertices);
    esi_json_put_int(w, "file_faces", s->mesh.n_faces);
    esi_json_put_int(w, "unusable_faces", dropped.bad_index + dropped.repeated_index + dropped.not_finite);
    esi_json_put_bool(w, "has_normals", s->normals != NULL);
    esi_json_put_bool(w, "has_uvs", s->uvs != NULL);
    esi_json_put_bool(w, "has_colors", s->colors != NULL);
    esi_json_put_int(w, "materials", s->n_materials);
    put_textures(w, s);
    esi_put_mesh_metrics(w, "soundness", &metrics);
    if (self_intersections) {
        esi_json_put_int(w, "self_intersecting_pairs", pairs);
        esi_json_put_int(w, "self_intersecting_faces", faces);
    }
    if (s->uvs) esi_put_uv_metrics(w, "uv", &uv);
done:
    esi_mesh_free(w->ctx, &welded);
    return st;
}

/* Ends a JSON object that was begun by json_begin(). */
static espalier_status json_end(esi_json_writer *w, espalier_status st, char **json)
{
    esi_json_close(w, '}');
    esi_text_append(w->ctx, w->text, "\n");
    if (st == ESPALIER_OK && w->text->failed) st = esi_fail(w->ctx, ESPALIER_ERR_RESOURCE, "out of memory for the description");
    if (st == ESPALIER_OK)
        *json = w->text->data;
    else
        esi_text_free(w->ctx, w->text);
    return st;
}

espalier_status espalier_mesh_inspect(espalier_context *ctx, const espalier_mesh *mesh, int self_intersections, char **json)
{
    esi_fp_state fp;
    esi_text text = {0};
    esi_json_writer w = {ctx, &text, false};

    if (json) *json = NULL;
    if (!ctx || !mesh || !json) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    esi_json_open(&w, NULL, '{');
    esi_json_put_string(&w, "kind", "mesh");
    return esi_leave(ctx, &fp, json_end(&w, esi_describe_mesh(&w, mesh, self_intersections != 0), json));
}

static espalier_status describe_distance(esi_json_writer *w, const espalier_mesh *a, const espalier_mesh *b, int64_t samples)
{
    esi_mesh ma = {0}, mb = {0};
    esi_mesh_distance d;
    espalier_status st = welded_copy(w->ctx, &ma, a, NULL);

    if (st == ESPALIER_OK) st = welded_copy(w->ctx, &mb, b, NULL);
    if (st == ESPALIER_OK && (ma.n_faces == 0 || mb.n_faces == 0))
        st = esi_fail(w->ctx, ESPALIER_ERR_INPUT, "the %s mesh has no usable faces", ma.n_faces == 0 ? "first" : "second");
    if (st == ESPALIER_OK) st = esi_mesh_compare(w->ctx, &d, &ma, &mb, samples);
    if (st == ESPALIER_OK) esi_put_mesh_distance(w, &d);
    esi_mesh_free(w->ctx, &ma);
    esi_mesh_free(w->ctx, &mb);
    return st;
}

espalier_status espalier_mesh_compare(espalier_context *ctx, const espalier_mesh *a, const espalier_mesh *b, int64_t samples, char **json)
{
    esi_fp_state fp;
    esi_text text = {0};
    esi_json_writer w = {ctx, &text, false};

    if (json) *json = NULL;
    if (!ctx || !a || !b || !json) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    if (samples < 1000 || samples > 100000000)
        return esi_leave(ctx, &fp, esi_fail(ctx, ESPALIER_ERR_ARG, "%lld samples are not between 1000 and 100000000", (long long)samples));
    esi_json_open(&w, NULL, '{');
    esi_json_put_string(&w, "kind", "distance");
    return esi_leave(ctx, &fp, json_end(&w, describe_distance(&w, a, b, samples), json));
}

espalier_status espalier_mesh_render(espalier_context *ctx, espalier_image *out, const espalier_mesh *mesh, uint32_t view_size,
                                     int backfaces)
{
    esi_fp_state fp;
    esi_texture picture = {0};
    esi_surface shown;
    const esi_render_options o = {.view_size = view_size, .views = 4, .backfaces = backfaces != 0};

    if (out) memset(out, 0, sizeof *out);
    if (!ctx || !out || !mesh) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    if (view_size < 16 || view_size > 4096)
        return esi_leave(ctx, &fp, esi_fail(ctx, ESPALIER_ERR_ARG, "views of %u pixels are not between 16 and 4096", (unsigned)view_size));
    shown = mesh->surface;
    espalier_status st = esi_surface_check(ctx, &shown, "render", ESPALIER_ERR_INPUT);
    if (st == ESPALIER_OK) st = esi_render_views(ctx, &picture, &shown, &o);
    if (st == ESPALIER_OK) st = espalier_image_create(ctx, out, picture.width, picture.height, picture.channels);
    if (st == ESPALIER_OK) memcpy(out->pixels, picture.pixels, (size_t)picture.width * picture.height * picture.channels);
    esi_free(ctx, picture.pixels);
    return esi_leave(ctx, &fp, st);
}
