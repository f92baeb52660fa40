/* SPDX-License-Identifier: MIT
 *
 * pbr_voxels.c: a textured surface -> attributes of the voxels that it touches.
 *
 * A voxel takes the attributes of the surface at the point nearest to its centre, so that sampling the voxels between their centres gives
 * back what the surface has there; what lies within a tenth of a cell of that distance has a share that falls to zero. Faces behind, in the
 * same cell but farther away, do not shine through. (The reference weights all faces by 1 minus the signed distance and extrapolates:
 * pbr_reference.c.) Pictures are read at the mip level at which a texel is as large as a voxel.
 *
 * One task per slab of x layers, as in voxelize.c.
 */
#include "voxel/pbr_scene.h"

#include "voxel/keys.h"
#include "voxel/volume.h"

#include <math.h>

#define MAX_RESOLUTION 2048
#define BLEND 0.1                  /* of the longest side of a cell */
/* A point of a cell is at most 3/4 (squared) from its centre; more is the rounding of a face of absurd size. */
#define FARTHEST2 1.0
#define ROWS_PER_TASK 16384

/* ---------------------------------------------------------------- the result */

espalier_status esi_pbr_voxels_new(espalier_context *ctx, esi_pbr_voxels *out, int64_t count)
{
    const size_t n = (size_t)count;
    espalier_status st = esi_row_count_check(ctx, count);

    memset(out, 0, sizeof *out);
    if (st != ESPALIER_OK) return st;
    out->coords = esi_alloc(ctx, n, 4 * sizeof *out->coords, "PBR voxels");
    out->base_color = esi_alloc(ctx, n, 3 * sizeof *out->base_color, "PBR voxels");
    out->metallic = esi_alloc(ctx, n, sizeof *out->metallic, "PBR voxels");
    out->roughness = esi_alloc(ctx, n, sizeof *out->roughness, "PBR voxels");
    out->emissive = esi_alloc(ctx, n, 3 * sizeof *out->emissive, "PBR voxels");
    out->alpha = esi_alloc(ctx, n, sizeof *out->alpha, "PBR voxels");
    out->normal = esi_alloc(ctx, n, 3 * sizeof *out->normal, "PBR voxels");
    if (!out->coords || !out->base_color || !out->metallic || !out->roughness || !out->emissive || !out->alpha || !out->normal) {
        esi_pbr_voxels_free(ctx, out);
        return ESPALIER_ERR_RESOURCE;
    }
    out->count = count;
    return ESPALIER_OK;
}

void esi_pbr_voxels_free(espalier_context *ctx, esi_pbr_voxels *v)
{
    if (!v) return;
    esi_free(ctx, v->coords);
    esi_free(ctx, v->base_color);
    esi_free(ctx, v->metallic);
    esi_free(ctx, v->roughness);
    esi_free(ctx, v->emissive);
    esi_free(ctx, v->alpha);
    esi_free(ctx, v->normal);
    memset(v, 0, sizeof *v);
}

void esi_pbr_voxels_set(esi_pbr_voxels *out, int64_t row, const double values[ESI_PBR_VALUES])
{
    for (int a = 0; a < 3; a++) {
        out->base_color[3 * row + a] = (float)values[ESI_PBR_BASE_COLOR + a];
        out->emissive[3 * row + a] = (float)values[ESI_PBR_EMISSIVE + a];
        out->normal[3 * row + a] = (float)values[ESI_PBR_NORMAL + a];
    }
    out->metallic[row] = (float)values[ESI_PBR_METALLIC];
    out->roughness[row] = (float)values[ESI_PBR_ROUGHNESS];
    out->alpha[row] = (float)values[ESI_PBR_ALPHA];
}

static void copy_rows(esi_pbr_voxels *to, int64_t row, const esi_pbr_voxels *from)
{
    const size_t n = (size_t)from->count;

    if (n == 0) return;
    memcpy(to->coords + 4 * row, from->coords, n * 4 * sizeof *from->coords);
    memcpy(to->base_color + 3 * row, from->base_color, n * 3 * sizeof *from->base_color);
    memcpy(to->metallic + row, from->metallic, n * sizeof *from->metallic);
    memcpy(to->roughness + row, from->roughness, n * sizeof *from->roughness);
    memcpy(to->emissive + 3 * row, from->emissive, n * 3 * sizeof *from->emissive);
    memcpy(to->alpha + row, from->alpha, n * sizeof *from->alpha);
    memcpy(to->normal + 3 * row, from->normal, n * 3 * sizeof *from->normal);
}

/* --------------------------------------------------------------------- slabs */

typedef struct touch {
    int32_t bit;                   /* cell in the slab */
    int32_t face;
    float bary1, bary2;            /* of the nearest point */
    float distance;
} touch;

typedef struct pbr_job {
    espalier_context *ctx;
    const esi_pbr_scene *scene;
    const esi_pbr_options *o;
    const esi_pbr_material *materials;
    esi_cell_mesh mesh;
    esi_slab_faces slabs;
    double cell_size;              /* the largest, in world units */
    esi_pbr_voxels *results;       /* by slab */
} pbr_job;

typedef struct pbr_slab {
    const pbr_job *job;
    esi_cell_rows rows;
    uint64_t *bits;
    int32_t *before;
    size_t words;
    int64_t count;
    touch *touches;
    int64_t n_touches, cap_touches;
    int32_t face;                  /* at work */
    double corner[3][3];           /* metric */
    bool failed;
} pbr_slab;

static double dot(const double a[3], const double b[3])
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Barycentric coordinates of the triangle's point nearest to p (Ericson, Real-Time Collision Detection, 5.1.5). */
static void nearest_point(double corner[3][3], const double p[3], double bary[3])
{
    double ab[3], ac[3], ap[3], bp[3], cp[3], d1, d2, d3, d4, d5, d6, va, vb, vc;

    for (int a = 0; a < 3; a++) {
        ab[a] = corner[1][a] - corner[0][a];
        ac[a] = corner[2][a] - corner[0][a];
        ap[a] = p[a] - corner[0][a];
        bp[a] = p[a] - corner[1][a];
        cp[a] = p[a] - corner[2][a];
    }
    d1 = dot(ab, ap), d2 = dot(ac, ap), d3 = dot(ab, bp), d4 = dot(ac, bp), d5 = dot(ab, cp), d6 = dot(ac, cp);
    va = d3 * d6 - d5 * d4, vb = d5 * d2 - d1 * d6, vc = d1 * d4 - d3 * d2;
    bary[1] = bary[2] = 0.0;
    if (d1 <= 0.0 && d2 <= 0.0) {
        /* the first corner */
    } else if (d3 >= 0.0 && d4 <= d3) {
        bary[1] = 1.0;
    } else if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {
        bary[1] = d1 / (d1 - d3);
    } else if (d6 >= 0.0 && d5 <= d6) {
        bary[2] = 1.0;
    } else if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
        bary[2] = d2 / (d2 - d6);
    } else if (va <= 0.0 && d4 - d3 >= 0.0 && d5 - d6 >= 0.0) {
        bary[2] = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        bary[1] = 1.0 - bary[2];
    } else {
        bary[1] = vb / (va + vb + vc);
        bary[2] = vc / (va + vb + vc);
    }
    bary[0] = 1.0 - bary[1] - bary[2];
}

static void add_touch(void *arg, const int32_t cell[3])
{
    pbr_slab *s = arg;
    const int64_t bit = esi_cell_bit(&s->rows, cell[0], cell[1], cell[2]);
    double center[3], bary[3], d2 = 0.0;

    if (s->failed) return;
    for (int a = 0; a < 3; a++) center[a] = ((double)cell[a] + 0.5) * s->job->mesh.scale[a];
    nearest_point(s->corner, center, bary);
    for (int a = 0; a < 3; a++) {
        const double d = bary[0] * s->corner[0][a] + bary[1] * s->corner[1][a] + bary[2] * s->corner[2][a] - center[a];

        d2 += d * d;
    }
    if (!(d2 <= FARTHEST2)) return;
    if (s->n_touches == s->cap_touches) {
        const int64_t cap = s->cap_touches ? 2 * s->cap_touches : 4096;
        touch *grown = esi_realloc(s->job->ctx, s->touches, (size_t)cap, sizeof *grown, "PBR voxels");

        if (!grown) {
            s->failed = true;
            return;
        }
        s->touches = grown;
        s->cap_touches = cap;
    }
    s->bits[bit >> 6] |= UINT64_C(1) << (bit & 63);
    s->touches[s->n_touches++] = (touch){.bit = (int32_t)bit, .face = s->face, .bary1 = (float)bary[1], .bary2 = (float)bary[2],
                                         .distance = (float)sqrt(d2)};
}

static espalier_status find_touches(pbr_slab *s, size_t number)
{
    const pbr_job *job = s->job;
    espalier_status st = ESPALIER_OK;

    for (int64_t i = job->slabs.first[number]; st == ESPALIER_OK && i < job->slabs.first[number + 1]; i++) {
        esi_triangle_test t;

        s->face = job->slabs.faces[i];
        if ((i & 0xfff) == 0) st = esi_check_cancel(job->ctx);
        if (st != ESPALIER_OK || !esi_triangle_test_make(&t, &job->mesh, s->face, job->o->resolution)) continue;
        for (int k = 0; k < 3; k++) {
            for (int a = 0; a < 3; a++) s->corner[k][a] = t.corner[k][a] * job->mesh.scale[a];
        }
        esi_triangle_cells(&t, s->rows.x0, s->rows.x1, NULL, add_touch, s);
        if (s->failed) st = ESPALIER_ERR_RESOURCE;
    }
    for (size_t w = 0; w < s->words; w++) {
        s->before[w] = (int32_t)s->count;
        for (uint64_t v = s->bits[w]; v != 0; v &= v - 1) s->count++;
    }
    return st;
}

static int64_t touch_row(const pbr_slab *s, const touch *t)
{
    const int32_t *n = s->rows.n;

    return esi_cell_row(&s->rows, s->rows.x0 + t->bit / (n[1] * n[2]), t->bit / n[2] % n[1], t->bit % n[2]);
}

static espalier_status average(pbr_slab *s, esi_pbr_voxels *out)
{
    const pbr_job *job = s->job;
    const int32_t *n = s->rows.n;
    float *nearest = esi_alloc(job->ctx, (size_t)s->count, sizeof *nearest, "PBR voxels");
    /* Means are taken of the differences to the first value, so that what is the same everywhere stays so to the last bit. */
    double(*sum)[ESI_PBR_VALUES + 1] = esi_calloc(job->ctx, (size_t)s->count, sizeof *sum, "PBR voxels");
    float(*first)[ESI_PBR_VALUES] = esi_alloc(job->ctx, (size_t)s->count, sizeof *first, "PBR voxels");
    espalier_status st = nearest && sum && first ? esi_pbr_voxels_new(job->ctx, out, s->count) : ESPALIER_ERR_RESOURCE;

    if (st != ESPALIER_OK) goto done;
    for (int64_t i = 0; i < s->count; i++) nearest[i] = INFINITY;
    for (int64_t i = 0; i < s->n_touches; i++) {
        float *d = &nearest[touch_row(s, &s->touches[i])];

        *d = ESI_MIN(*d, s->touches[i].distance);
    }
    for (int64_t i = 0; st == ESPALIER_OK && i < s->n_touches; i++) {
        const touch *t = &s->touches[i];
        const int64_t row = touch_row(s, t);
        const double weight = 1.0 - (double)(t->distance - nearest[row]) / BLEND;
        const double bary[3] = {1.0 - (double)t->bary1 - (double)t->bary2, (double)t->bary1, (double)t->bary2};
        double values[ESI_PBR_VALUES];

        if ((i & 0x3fff) == 0) st = esi_check_cancel(job->ctx);
        if (!(weight > 0.0)) continue;
        esi_pbr_evaluate(values, job->scene, job->materials, job->o, t->face, bary, job->cell_size);
        for (int k = 0; k < ESI_PBR_VALUES; k++) {
            if (sum[row][ESI_PBR_VALUES] == 0.0) first[row][k] = (float)values[k];
            sum[row][k] += weight * (values[k] - (double)first[row][k]);
        }
        sum[row][ESI_PBR_VALUES] += weight;
        out->coords[4 * row] = 0;
        out->coords[4 * row + 1] = s->rows.x0 + t->bit / (n[1] * n[2]);
        out->coords[4 * row + 2] = t->bit / n[2] % n[1];
        out->coords[4 * row + 3] = t->bit % n[2];
    }
    for (int64_t i = 0; st == ESPALIER_OK && i < s->count; i++) {
        double *v = sum[i], length;

        for (int k = 0; k < ESI_PBR_VALUES; k++) v[k] = (double)first[i][k] + v[k] / v[ESI_PBR_VALUES];
        length = sqrt(dot(v + ESI_PBR_NORMAL, v + ESI_PBR_NORMAL));
        for (int a = 0; a < 3 && length > 0.0; a++) v[ESI_PBR_NORMAL + a] /= length;
        esi_pbr_voxels_set(out, i, v);
    }
done:
    esi_free(job->ctx, nearest);
    esi_free(job->ctx, sum);
    esi_free(job->ctx, first);
    return st;
}

static void run_slab(void *arg, size_t task, int slot)
{
    const pbr_job *job = arg;
    const int32_t *n = job->o->resolution;
    pbr_slab s = {.job = job};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    (void)slot;
    if (job->slabs.first[task] == job->slabs.first[task + 1]) return;
    s.rows = (esi_cell_rows){.n = {n[0], n[1], n[2]}, .x0 = (int32_t)task * job->slabs.thickness};
    s.rows.x1 = ESI_MIN(s.rows.x0 + job->slabs.thickness, n[0]);
    s.words = (size_t)(((int64_t)(s.rows.x1 - s.rows.x0) * n[1] * n[2] + 63) / 64);
    s.bits = esi_calloc(job->ctx, s.words, sizeof *s.bits, "slab of cells");
    s.before = esi_alloc(job->ctx, s.words, sizeof *s.before, "slab of cells");
    s.rows.bits = s.bits;
    s.rows.before = s.before;
    if (s.bits && s.before) st = find_touches(&s, task);
    if (st == ESPALIER_OK && s.count > 0) (void)average(&s, &job->results[task]);            /* a failure is recorded in the context */
    esi_free(job->ctx, s.bits);
    esi_free(job->ctx, s.before);
    esi_free(job->ctx, s.touches);
}

/* ----------------------------------------------------------------- all of it */

static espalier_status join_results(espalier_context *ctx, const pbr_job *job, esi_pbr_voxels *out)
{
    int64_t count = 0, row = 0;
    espalier_status st;

    for (int32_t i = 0; i < job->slabs.n_slabs; i++) count += job->results[i].count;
    st = esi_pbr_voxels_new(ctx, out, count);
    for (int32_t i = 0; st == ESPALIER_OK && i < job->slabs.n_slabs; i++) {
        copy_rows(out, row, &job->results[i]);
        row += job->results[i].count;
        esi_pbr_voxels_free(ctx, &job->results[i]);
    }
    return st;
}

static espalier_status voxelize_by_slabs(espalier_context *ctx, esi_pbr_voxels *out, const esi_pbr_scene *scene,
                                         const esi_pbr_material *materials, const esi_pbr_options *o)
{
    pbr_job job = {.ctx = ctx, .scene = scene, .o = o, .materials = materials};
    double *points = esi_alloc(ctx, (size_t)scene->n_points, 3 * sizeof *points, "mesh in cells"), size[3];
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (!points) goto done;
    for (int a = 0; a < 3; a++) {
        size[a] = ((double)o->aabb_max[a] - (double)o->aabb_min[a]) / (double)o->resolution[a];
        job.cell_size = ESI_MAX(job.cell_size, size[a]);
    }
    for (int64_t i = 0; i < 3 * scene->n_points; i++) {
        points[i] = ((double)scene->positions[i] - (double)o->aabb_min[i % 3]) / size[i % 3];
    }
    job.mesh = (esi_cell_mesh){.points = points, .faces = scene->faces, .n_points = scene->n_points, .n_faces = scene->n_faces};
    for (int a = 0; a < 3; a++) job.mesh.scale[a] = size[a] / job.cell_size;
    st = esi_slab_faces_make(ctx, &job.slabs, &job.mesh, o->resolution);
    if (st != ESPALIER_OK) goto done;
    job.results = esi_calloc(ctx, (size_t)job.slabs.n_slabs, sizeof *job.results, "slabs");
    st = job.results ? esi_parallel(ctx, (size_t)job.slabs.n_slabs, run_slab, &job) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) st = join_results(ctx, &job, out);
done:
    for (int32_t i = 0; job.results && i < job.slabs.n_slabs; i++) esi_pbr_voxels_free(ctx, &job.results[i]);
    esi_free(ctx, job.results);
    esi_slab_faces_free(ctx, &job.slabs);
    esi_free(ctx, points);
    return st;
}

espalier_status esi_voxelize_scene(espalier_context *ctx, esi_pbr_voxels *out, const esi_pbr_scene *scene, const esi_pbr_options *options)
{
    esi_pbr_material *materials = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    for (int a = 0; a < 3; a++) {
        if (options->resolution[a] < 1 || options->resolution[a] > MAX_RESOLUTION || !isfinite(options->aabb_min[a]) ||
            !isfinite(options->aabb_max[a]) || !(options->aabb_min[a] < options->aabb_max[a])) {
            return esi_fail(ctx, ESPALIER_ERR_INPUT, "PBR voxels: resolution %d in an unusable box; choose 1 to %d cells per axis",
                            (int)options->resolution[a], MAX_RESOLUTION);
        }
    }
    st = esi_pbr_materials_make(ctx, &materials, scene, options);
    if (st == ESPALIER_OK) {
        st = options->reference ? esi_voxelize_scene_as_reference(ctx, out, scene, materials, options)
                                : voxelize_by_slabs(ctx, out, scene, materials, options);
    }
    if (st == ESPALIER_OK && out->count == 0) st = esi_fail(ctx, ESPALIER_ERR_INPUT, "PBR voxels: no part of the mesh lies in the box");
    esi_pbr_materials_free(ctx, materials, scene->n_materials);
    if (st != ESPALIER_OK) esi_pbr_voxels_free(ctx, out);
    return st;
}

/* ------------------------------------------------------------- from a surface */

/* Channels of a surface's texture; fewer than wanted: those that are there. */
static esi_pbr_image picture(const esi_surface *surface, int32_t texture, uint32_t first, uint32_t channels)
{
    const esi_texture *t = texture >= 0 && texture < surface->n_textures ? &surface->textures[texture] : NULL;

    if (!t || !t->pixels || t->width == 0 || t->height == 0) return (esi_pbr_image){0};
    if (first + channels > t->channels) {                            /* grey, or grey and alpha */
        first = 0;
        channels = 1;
    }
    return (esi_pbr_image){.pixels = t->pixels, .width = t->width, .height = t->height, .stride = t->channels, .first = first,
                           .channels = channels};
}

static esi_pbr_source source_of(const esi_surface *surface, const esi_material *m)
{
    const esi_texture *base = m->base_color_texture >= 0 && m->base_color_texture < surface->n_textures
                                  ? &surface->textures[m->base_color_texture] : NULL;
    esi_pbr_source s = {.metallic_factor = m->metallic, .roughness_factor = m->roughness, .alpha_factor = m->base_color[3],
                        .alpha_cutoff = m->alpha_cutoff, .alpha_mode = m->alpha_mode, .nearest = m->nearest, .wrap = m->wrap};

    memcpy(s.base_color_factor, m->base_color, sizeof s.base_color_factor);
    memcpy(s.emissive_factor, m->emissive, sizeof s.emissive_factor);
    s.base_color = picture(surface, m->base_color_texture, 0, 3);
    if (base && (base->channels == 4 || base->channels == 2)) s.alpha = picture(surface, m->base_color_texture, base->channels - 1, 1);
    s.roughness = picture(surface, m->metallic_roughness_texture, 1, 1);
    s.metallic = picture(surface, m->metallic_roughness_texture, 2, 1);
    s.emissive = picture(surface, m->emissive_texture, 0, 3);
    s.normal = picture(surface, m->normal_texture, 0, 3);
    if (s.normal.channels != 3) s.normal.pixels = NULL;
    return s;
}

espalier_status esi_voxelize_materials(espalier_context *ctx, esi_pbr_voxels *out, const esi_surface *surface,
                                       const esi_pbr_options *options)
{
    const int32_t n = ESI_MAX(surface->n_materials, 1);
    const esi_material standard = esi_material_default();
    esi_pbr_source *sources;
    esi_pbr_scene scene = {.positions = surface->mesh.vertices, .faces = surface->mesh.faces, .n_points = surface->mesh.n_vertices,
                           .n_faces = surface->mesh.n_faces, .normals = surface->normals, .uvs = surface->uvs,
                           .colors = options->reference ? NULL : surface->colors, .face_material = surface->face_material,
                           .n_materials = n};
    espalier_status st;

    memset(out, 0, sizeof *out);
    for (int64_t f = 0; surface->face_material && f < surface->mesh.n_faces; f++) {
        if (surface->face_material[f] >= 0 && surface->face_material[f] < n) continue;
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "PBR voxels: face %lld has material %d of %d", (long long)f,
                        (int)surface->face_material[f], (int)n);
    }
    sources = esi_alloc(ctx, (size_t)n, sizeof *sources, "materials");
    if (!sources) return ESPALIER_ERR_RESOURCE;
    for (int32_t i = 0; i < n; i++) sources[i] = source_of(surface, surface->n_materials > 0 ? &surface->materials[i] : &standard);
    scene.materials = sources;
    st = esi_voxelize_scene(ctx, out, &scene, options);
    esi_free(ctx, sources);
    return st;
}

/* ------------------------------------------------------------ on other voxels */

typedef struct on_rows_job {
    const esi_volume *volume;
    const int32_t *coords;
    int64_t count;
    float *out;
} on_rows_job;

static void fill_rows(void *arg, size_t task, int slot)
{
    static const float white[6] = {1.0f, 1.0f, 1.0f, 0.0f, 1.0f, 1.0f};
    const on_rows_job *job = arg;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, job->count);

    (void)slot;
    for (int64_t i = begin; i < end; i++) {
        const int32_t *c = job->coords + 4 * i;
        const float g[3] = {(float)c[1] + 0.5f, (float)c[2] + 0.5f, (float)c[3] + 0.5f};
        const int32_t row = esi_volume_closest(job->volume, g, 2.0);

        memcpy(job->out + 6 * i, row >= 0 ? job->volume->attrs + 6 * (int64_t)row : white, sizeof white);
    }
}

espalier_status esi_pbr_on_rows(espalier_context *ctx, float *out, const esi_pbr_voxels *pbr, const int32_t *coords, int64_t count,
                                int32_t resolution)
{
    float *attrs = esi_alloc(ctx, (size_t)pbr->count, 6 * sizeof *attrs, "voxel attributes");
    esi_volume volume = {0};
    on_rows_job job = {.volume = &volume, .coords = coords, .count = count, .out = out};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (!attrs) return st;
    for (int64_t i = 0; i < pbr->count; i++) {
        memcpy(attrs + 6 * i, pbr->base_color + 3 * i, 3 * sizeof *attrs);
        attrs[6 * i + 3] = pbr->metallic[i];
        attrs[6 * i + 4] = pbr->roughness[i];
        attrs[6 * i + 5] = pbr->alpha[i];
    }
    st = esi_volume_open(ctx, &volume, pbr->coords, attrs, pbr->count, 6, resolution);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, (size_t)((count + ROWS_PER_TASK - 1) / ROWS_PER_TASK), fill_rows, &job);
    esi_volume_close(ctx, &volume);
    esi_free(ctx, attrs);
    return st;
}
