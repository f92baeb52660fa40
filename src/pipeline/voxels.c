/* SPDX-License-Identifier: MIT
 *
 * voxels.c: assets from and to files, O-Voxels among them, and assets from meshes.
 */
#include "formats/dump.h"
#include "formats/vxz.h"
#include "pipeline/post.h"
#include "pipeline/results.h"
#include "voxel/voxelize.h"

#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------- O-Voxels out */

static bool is_voxel_path(const char *path)
{
    const char *suffix = esi_path_suffix(path);
    return strcmp(suffix, ".vxz") == 0 || strcmp(suffix, ".npz") == 0;
}

static uint8_t to_byte(float v)
{
    const float scaled = 255.0f * v;
    return (uint8_t)(scaled > 0.0f ? (scaled < 255.0f ? scaled : 255.0f) : 0.0f);
}

/* Columns [first, first + channels) of `values`, truncated like the reference's writer. */
static espalier_status add_bytes(espalier_context *ctx, esi_vxz *v, const char *name, const float *values, int columns, int first,
                                 int channels)
{
    esi_vxz_attr *a = &v->attrs[v->n_attrs];

    a->values = esi_alloc(ctx, (size_t)v->count, (size_t)channels, "O-Voxel attributes");
    if (!a->values) return ESPALIER_ERR_RESOURCE;
    v->n_attrs++;
    snprintf(a->name, sizeof a->name, "%s", name);
    a->channels = channels;
    for (int64_t i = 0; i < v->count; i++)
        for (int k = 0; k < channels; k++) a->values[i * channels + k] = to_byte(values[i * columns + first + k]);
    return ESPALIER_OK;
}

static espalier_status add_flags(espalier_context *ctx, esi_vxz *v, const espalier_asset *asset)
{
    esi_vxz_attr *a = &v->attrs[v->n_attrs];

    a->values = esi_calloc(ctx, (size_t)v->count, 1, "O-Voxel attributes");
    if (!a->values) return ESPALIER_ERR_RESOURCE;
    v->n_attrs++;
    snprintf(a->name, sizeof a->name, "intersected");
    a->channels = 1;
    for (int64_t i = 0; i < 3 * v->count; i++) {
        const bool set = asset->data.intersect_logits ? asset->data.intersect_logits[i] > 0 : asset->intersected[i] != 0;
        a->values[i / 3] |= (uint8_t)(set << (i % 3));
    }
    return ESPALIER_OK;
}

static espalier_status write_voxels(espalier_context *ctx, const espalier_asset *asset, const char *path)
{
    const esi_asset *d = &asset->data;
    const esi_vxz_options options = esi_vxz_options_default();
    esi_vxz v = {.count = d->n_voxels};
    espalier_status st;

    if (!d->coords || !d->local || !(d->intersect_logits || asset->intersected))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: this asset has no dual grid to write as O-Voxels", path);
    st = esi_asset_check(ctx, d, path, ESPALIER_ERR_INTERNAL);
    if (st != ESPALIER_OK) return st;
    v.coords = esi_alloc(ctx, (size_t)v.count, 3 * sizeof(int32_t), "O-Voxel coordinates");
    st = v.coords ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; st == ESPALIER_OK && i < v.count; i++) {
        if (d->coords[4 * i] != 0) st = esi_fail(ctx, ESPALIER_ERR_ARG, "%s: this format holds one object, the asset has several", path);
        memcpy(v.coords + 3 * i, d->coords + 4 * i + 1, 3 * sizeof(int32_t));
    }
    if (st == ESPALIER_OK) st = add_bytes(ctx, &v, "vertices", d->local, 3, 0, 3);
    if (st == ESPALIER_OK) st = add_flags(ctx, &v, asset);
    if (d->attrs) {
        if (st == ESPALIER_OK) st = add_bytes(ctx, &v, "base_color", d->attrs, 6, 0, 3);
        if (st == ESPALIER_OK) st = add_bytes(ctx, &v, "metallic", d->attrs, 6, 3, 1);
        if (st == ESPALIER_OK) st = add_bytes(ctx, &v, "roughness", d->attrs, 6, 4, 1);
        if (st == ESPALIER_OK) st = add_bytes(ctx, &v, "alpha", d->attrs, 6, 5, 1);
    }
    if (st == ESPALIER_OK) st = esi_vxz_write(ctx, &v, path, &options);
    esi_vxz_free(ctx, &v);
    return st;
}

espalier_status espalier_asset_dump(espalier_context *ctx, const espalier_asset *asset, const char *path)
{
    esi_fp_state fp;
    if (!ctx || !asset || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    return esi_leave(ctx, &fp, is_voxel_path(path) ? write_voxels(ctx, asset, path) : esi_dump_write(ctx, &asset->data, path));
}

/* ------------------------------------------------------------- O-Voxels in */

static int64_t usual_resolution(const esi_vxz *v)
{
    static const int64_t usual[] = {64, 128, 256, 512, 1024, 1536, 2048};
    int32_t largest = 0;

    for (int64_t i = 0; i < 3 * v->count; i++) largest = ESI_MAX(largest, v->coords[i]);
    for (size_t i = 0; i < ESI_COUNT(usual); i++)
        if (largest < usual[i]) return usual[i];
    return (int64_t)largest + 1;
}

static espalier_status take_rows(espalier_context *ctx, espalier_asset *a, const esi_vxz *v, const char *path, int64_t resolution)
{
    const esi_vxz_attr *vertices = esi_vxz_find(v, "vertices"), *flags = esi_vxz_find(v, "intersected");

    if (!vertices || vertices->channels != 3 || !flags || flags->channels != 1)
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no dual grid: \"vertices\" (3) and \"intersected\" (1) are needed", path);
    if (v->count == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: no voxels", path);
    a->data.n_voxels = v->count;
    a->data.resolution = resolution ? resolution : usual_resolution(v);
    a->coords = esi_alloc(ctx, (size_t)v->count, 4 * sizeof(int32_t), "voxels");
    a->local = esi_alloc(ctx, (size_t)v->count, 3 * sizeof(float), "dual vertices");
    a->intersected = esi_alloc(ctx, (size_t)v->count, 3, "intersection flags");
    if (!a->coords || !a->local || !a->intersected) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < v->count; i++) {
        a->coords[4 * i] = 0;
        memcpy(a->coords + 4 * i + 1, v->coords + 3 * i, 3 * sizeof(int32_t));
        for (int k = 0; k < 3; k++) {
            a->local[3 * i + k] = (float)vertices->values[3 * i + k] / 255.0f;
            a->intersected[3 * i + k] = flags->values[i] >> k & 1;
        }
    }
    return ESPALIER_OK;
}

/* What a file lacks is white, non-metallic, rough, opaque; without a base colour there are no attributes at all. */
static espalier_status take_attributes(espalier_context *ctx, espalier_asset *a, const esi_vxz *v)
{
    static const struct { const char *name; int channels, first; float missing; } wanted[] = {
        {"base_color", 3, 0, 1.0f}, {"metallic", 1, 3, 0.0f}, {"roughness", 1, 4, 1.0f}, {"alpha", 1, 5, 1.0f}};
    const esi_vxz_attr *color = esi_vxz_find(v, "base_color");

    if (!color || color->channels != 3) return ESPALIER_OK;
    a->attributes = esi_alloc(ctx, (size_t)v->count, 6 * sizeof(float), "voxel attributes");
    if (!a->attributes) return ESPALIER_ERR_RESOURCE;
    for (size_t k = 0; k < ESI_COUNT(wanted); k++) {
        const esi_vxz_attr *attr = esi_vxz_find(v, wanted[k].name);
        const int n = wanted[k].channels;
        const bool there = attr && attr->channels == n;

        for (int64_t i = 0; i < v->count; i++)
            for (int c = 0; c < n; c++)
                a->attributes[6 * i + wanted[k].first + c] = there ? (float)attr->values[n * i + c] / 255.0f : wanted[k].missing;
    }
    return ESPALIER_OK;
}

/* Rows, flags and local vertices are there: the mesh they stand for, and the plain asset's pointers. */
static espalier_status build_mesh(espalier_context *ctx, espalier_asset *a)
{
    const int32_t n = (int32_t)a->data.resolution;
    const esi_dual_grid grid = {.coords = a->coords, .count = a->data.n_voxels, .local = a->local, .intersected = a->intersected,
                                .aabb_min = {-0.5f, -0.5f, -0.5f}, .aabb_max = {0.5f, 0.5f, 0.5f}, .grid = {n, n, n}};
    espalier_status st = esi_dual_grid_to_mesh(ctx, &grid, &a->vertices, &a->faces, &a->data.n_faces);
    if (st != ESPALIER_OK) return st;
    a->data.n_vertices = a->data.n_voxels;
    a->data.vertices = a->vertices;
    a->data.faces = a->faces;
    a->data.coords = a->coords;
    a->data.local = a->local;
    a->data.attrs = a->attributes;
    return ESPALIER_OK;
}

static espalier_status load_voxels(espalier_context *ctx, espalier_asset *a, const char *path, int64_t resolution)
{
    esi_vxz v = {0};
    espalier_status st = esi_vxz_read(ctx, &v, path);

    if (st == ESPALIER_OK) st = take_rows(ctx, a, &v, path, resolution);
    if (st == ESPALIER_OK) st = take_attributes(ctx, a, &v);
    esi_vxz_free(ctx, &v);
    for (int64_t i = 0; st == ESPALIER_OK && i < 4 * a->data.n_voxels; i++) {
        if (a->coords[i] >= 0 && a->coords[i] < a->data.resolution) continue;
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: coordinate %d of voxel %lld lies outside a grid of %lld cells", path, (int)a->coords[i],
                      (long long)(i / 4), (long long)a->data.resolution);
    }
    return st == ESPALIER_OK ? build_mesh(ctx, a) : st;
}

/* ------------------------------------------------------------- loading */

static espalier_status load_dump(espalier_context *ctx, espalier_asset *a, const char *path, int64_t resolution)
{
    espalier_status st = esi_dump_read(ctx, &a->dump, path);
    if (st != ESPALIER_OK) return st;
    a->data = a->dump.asset;
    if (a->data.resolution == 0) a->data.resolution = resolution;
    if (resolution && resolution != a->data.resolution)
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: its resolution is %lld, not %lld", path, (long long)a->data.resolution,
                        (long long)resolution);
    return ESPALIER_OK;
}

static espalier_status begins_like_voxels(espalier_context *ctx, const char *path, bool *is)
{
    esi_file_map *map = NULL;
    espalier_status st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    const uint8_t *b = esi_file_map_data(map);
    *is = esi_file_map_size(map) >= 4 && (memcmp(b, "VXZ", 4) == 0 || memcmp(b, "PK\3\4", 4) == 0);
    if (esi_file_map_size(map) >= 4 && memcmp(b, "glTF", 4) == 0)
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: a mesh, not a raw dump; 'espalier voxelize' makes voxels of it", path);
    esi_file_map_release(map);
    return st;
}

espalier_status espalier_asset_load(espalier_context *ctx, espalier_asset **out, const char *path, int64_t resolution)
{
    esi_fp_state fp;
    espalier_asset *a = NULL;
    bool voxels = false;

    if (out) *out = NULL;
    if (!ctx || !out || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = ESPALIER_OK;
    if (resolution < 0 || resolution > ESI_ASSET_MAX_RESOLUTION)
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "resolution %lld is not between 1 and %d", (long long)resolution, ESI_ASSET_MAX_RESOLUTION);
    if (st == ESPALIER_OK) st = begins_like_voxels(ctx, path, &voxels);
    if (st == ESPALIER_OK) st = esi_asset_new(ctx, &a);
    if (st == ESPALIER_OK) st = voxels ? load_voxels(ctx, a, path, resolution) : load_dump(ctx, a, path, resolution);
    if (st != ESPALIER_OK) {
        espalier_asset_free(a);
        a = NULL;
    }
    *out = a;
    return esi_leave(ctx, &fp, st);
}

/* ------------------------------------------------------------- meshes to voxels */

espalier_voxelize_options espalier_voxelize_options_default(void)
{
    return (espalier_voxelize_options){.struct_size = sizeof(espalier_voxelize_options), .resolution = 512};
}

/* A copy that other functions may trust; with `fit` scaled about the middle of its box so that its longest side fills the cube but half a
 * voxel at each end, where dual vertices still have all their neighbours. */
static espalier_status prepare(espalier_context *ctx, esi_surface *out, const esi_surface *in, const espalier_voxelize_options *o)
{
    const double room = 1.0 - 2.0 / (double)o->resolution;
    float low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
    double side = 0;
    espalier_status st;

    *out = *in;                                                  /* attributes are shared, read only */
    st = esi_mesh_copy(ctx, &out->mesh, in->mesh.vertices, in->mesh.n_vertices, in->mesh.faces, in->mesh.n_faces);
    if (st != ESPALIER_OK || !o->fit) return st;
    for (int64_t i = 0; i < 3 * out->mesh.n_faces; i++) {
        const float *v = out->mesh.vertices + 3 * (size_t)out->mesh.faces[i];
        for (int a = 0; a < 3; a++) {
            low[a] = v[a] < low[a] ? v[a] : low[a];
            high[a] = v[a] > high[a] ? v[a] : high[a];
        }
    }
    for (int a = 0; a < 3; a++) side = ESI_MAX(side, (double)high[a] - (double)low[a]);
    if (!(side > 0 && side <= 1e30)) return esi_fail(ctx, ESPALIER_ERR_INPUT, "the mesh has no extent to fit into the cube");
    for (int64_t i = 0; i < 3 * out->mesh.n_vertices; i++) {
        const int a = (int)(i % 3);
        const double middle = ((double)low[a] + (double)high[a]) / 2;
        out->mesh.vertices[i] = (float)(((double)out->mesh.vertices[i] - middle) * (room / side));
    }
    return ESPALIER_OK;
}

/* A face with a vertex that is not finite has no place on a grid. */
static espalier_status check_mesh(espalier_context *ctx, const esi_surface *s)
{
    if (s->mesh.n_faces == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "the mesh has no faces");
    return esi_surface_check(ctx, s, "voxelize", ESPALIER_ERR_INPUT);
}

static bool has_materials(const esi_surface *s)
{
    return s->n_materials > 0 || s->colors;
}

static espalier_status add_materials(espalier_context *ctx, espalier_asset *a, const esi_surface *s, const espalier_voxelize_options *o)
{
    const esi_pbr_options options = {.resolution = {o->resolution, o->resolution, o->resolution}, .aabb_min = {-0.5f, -0.5f, -0.5f},
                                     .aabb_max = {0.5f, 0.5f, 0.5f}, .mipmaps = true, .reference = o->reference != 0};
    esi_pbr_voxels pbr = {0};
    espalier_status st = esi_voxelize_materials(ctx, &pbr, s, &options);

    if (st == ESPALIER_OK) {
        a->attributes = esi_alloc(ctx, (size_t)a->data.n_voxels, 6 * sizeof(float), "voxel attributes");
        st = a->attributes ? esi_pbr_on_rows(ctx, a->attributes, &pbr, a->coords, a->data.n_voxels, o->resolution) : ESPALIER_ERR_RESOURCE;
    }
    esi_pbr_voxels_free(ctx, &pbr);
    return st;
}

static void log_facts(espalier_context *ctx, const espalier_asset *a, const esi_voxelize_stats *s)
{
    esi_log(ctx, ESPALIER_LOG_INFO, "%lld voxels at resolution %lld, %lld faces", (long long)a->data.n_voxels,
            (long long)a->data.resolution, (long long)a->data.n_faces);
    if (s->double_crossings)
        esi_log(ctx, ESPALIER_LOG_WARNING,
                "%lld of %lld crossed cell edges are crossed more than once: sheets thinner than a voxel are lost",
                (long long)s->double_crossings, (long long)s->crossings);
    if (s->clipped_faces)
        esi_log(ctx, ESPALIER_LOG_WARNING, "%lld faces reach out of the cube and are cut off; --fit scales the mesh into it",
                (long long)s->clipped_faces);
}

static espalier_status voxelize(espalier_context *ctx, espalier_asset *a, const esi_surface *in, const espalier_voxelize_options *o)
{
    esi_voxelize_options options = esi_voxelize_options_default(o->resolution);
    esi_surface surface = {0};
    esi_voxelized v = {0};
    espalier_status st;

    options.reference = o->reference != 0;
    st = check_mesh(ctx, in);
    if (st == ESPALIER_OK) st = prepare(ctx, &surface, in, o);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "finish", 0, 2);
    if (st == ESPALIER_OK) st = esi_voxelize(ctx, &v, &surface.mesh, &options);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "finish", 1, 2);
    if (st != ESPALIER_OK) goto done;
    a->data.n_voxels = v.count;
    a->data.resolution = o->resolution;
    a->coords = v.coords;
    a->local = v.local;
    a->intersected = v.intersected;
    v.coords = NULL;
    v.local = NULL;
    v.intersected = NULL;
    if (!o->no_materials && has_materials(in)) st = add_materials(ctx, a, &surface, o);
    if (st == ESPALIER_OK) st = build_mesh(ctx, a);
    if (st == ESPALIER_OK) log_facts(ctx, a, &v.stats);
    if (st == ESPALIER_OK) st = esi_progress(ctx, "finish", 2, 2);
done:
    esi_voxelized_free(ctx, &v);
    esi_mesh_free(ctx, &surface.mesh);
    return st;
}

espalier_status espalier_voxelize(espalier_context *ctx, espalier_asset **out, const espalier_mesh *mesh,
                                  const espalier_voxelize_options *options)
{
    esi_fp_state fp;
    espalier_asset *a = NULL;

    if (out) *out = NULL;
    if (!ctx || !out || !mesh || !options) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = ESPALIER_OK;
    if (options->struct_size != sizeof *options)
        st = esi_fail(ctx, ESPALIER_ERR_ARG,
                      "voxelize options of another library version; start from espalier_voxelize_options_default()");
    else if (options->resolution < 64 || options->resolution > 2048)
        st = esi_fail(ctx, ESPALIER_ERR_ARG, "resolution %d is not between 64 and 2048", (int)options->resolution);
    if (st == ESPALIER_OK) st = esi_asset_new(ctx, &a);
    if (st == ESPALIER_OK) st = voxelize(ctx, a, &mesh->surface, options);
    if (st != ESPALIER_OK) {
        espalier_asset_free(a);
        a = NULL;
    }
    *out = a;
    return esi_leave(ctx, &fp, st);
}
