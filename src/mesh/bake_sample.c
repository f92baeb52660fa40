/* SPDX-License-Identifier: MIT
 *
 * bake_sample.c: from texel to colour: its place on the surface, the point of the original that belongs to it, the voxels around that.
 */
#include "mesh/bake_internal.h"
#include "mesh/raster.h"

typedef struct band_stats {
    int64_t covered, without, nearest, other, opposing;
    double distance_sum, distance_max;
} band_stats;

typedef struct sample_job {
    esi_bake_job *bake;
    band_stats *stats;             /* [bands] */
} sample_job;

void esi_bake_texel_place(const esi_bake_job *job, esi_bake_texel *t, int32_t face, int32_t x, int32_t y)
{
    const esi_mesh *mesh = &job->surface->mesh;
    const int32_t *corner = mesh->faces + 3 * (int64_t)face;
    double position[3] = {0}, p[3];

    t->face = face;
    t->has_hit = false;
    t->opposing = false;
    esi_raster_barycentrics(t->bary, job->surface->uvs, corner, (uint32_t)job->size, x, y);
    for (int k = 0; k < 3; k++) {
        esi_vec_load(p, mesh->vertices, corner[k]);
        for (int i = 0; i < 3; i++) position[i] += t->bary[k] * p[i];
    }
    for (int i = 0; i < 3; i++) t->position[i] = (float)position[i];
    esi_bake_face_normal(t->normal, mesh, face);
}

/* False when no voxel is near enough. */
static bool sample_volume(const esi_bake_job *job, const esi_bake_texel *t, float out[6], band_stats *stats)
{
    const esi_volume *volume = job->input->volume;
    const float *place = job->options->snap && t->has_hit ? t->hit.point : t->position;
    const double *normal = t->has_hit ? t->hit_normal : t->normal;
    float g[3];
    int found;
    int32_t row;

    esi_bake_to_grid(g, place, volume->resolution);
    found = job->sheets.place ? esi_bake_sheet_sample(&job->sheets, g, normal, out) : esi_volume_trilinear(volume, g, out);
    if (found > 0) return true;
    row = job->options->nearest_cells > 0.0 ? esi_volume_closest(volume, g, job->options->nearest_cells) : -1;
    if (row < 0) {
        stats->without++;
        return false;
    }
    stats->nearest++;
    memcpy(out, volume->attrs + 6 * (int64_t)row, 6 * sizeof *out);
    return true;
}

static void count_hit(const esi_bake_texel *t, esi_bake_snap kind, band_stats *stats)
{
    double d2 = 0.0;

    if (!t->has_hit) return;
    for (int k = 0; k < 3; k++) {
        const double d = (double)t->hit.point[k] - (double)t->position[k];

        d2 += d * d;
    }
    stats->distance_sum += sqrt(d2);
    stats->distance_max = ESI_MAX(stats->distance_max, sqrt(d2));
    stats->other += kind == ESI_SNAP_OTHER;
    stats->opposing += kind == ESI_SNAP_OPPOSING;
}

static void bake_texel(const esi_bake_job *job, esi_bake_texel *t, const esi_bake_texel *last, int32_t x, int32_t y, band_stats *stats)
{
    const int64_t at = (int64_t)y * job->size + x;
    const bool truncate = job->options->truncate;
    uint8_t *base = job->base + 4 * at, *material = job->material + 3 * at;
    float value[6];

    esi_bake_texel_place(job, t, job->owner[at], x, y);
    stats->covered++;
    if (job->input->original_bvh) count_hit(t, esi_bake_find_hit(job, t, last), stats);
    if (!sample_volume(job, t, value, stats) && job->options->nearest_cells > 0.0) {
        job->owner[at] = -1;       /* better the colour of a neighbour than none */
        return;
    }
    for (int k = 0; k < 3; k++) base[k] = esi_bake_byte(value[k], truncate);
    base[3] = esi_bake_byte(value[5], truncate);
    material[0] = job->options->occlusion_rays > 0 ? esi_bake_occlusion_texel(job, t, x, y) : material[0];
    material[1] = esi_bake_byte(value[4], truncate);
    material[2] = esi_bake_byte(value[3], truncate);
    if (job->normal_map) esi_bake_normal_texel(job, t, job->normal_map + 3 * at);
}

static void bake_band(void *arg, size_t task, int slot)
{
    sample_job *j = arg;
    const esi_bake_job *job = j->bake;
    const int32_t begin = (int32_t)task * ESI_BAKE_BAND, end = ESI_MIN(begin + ESI_BAKE_BAND, job->size);
    esi_bake_texel texel[2] = {0};
    int now = 0;

    (void)slot;
    for (int32_t y = begin; y < end; y++) {
        for (int32_t x = 0; x < job->size; x++) {
            if (job->owner[(int64_t)y * job->size + x] < 0) continue;
            bake_texel(job, &texel[now], &texel[1 - now], x, y, &j->stats[task]);
            now = 1 - now;
        }
    }
}

static void sum_stats(esi_bake_stats *out, const band_stats *bands, size_t n)
{
    double distance = 0.0;

    for (size_t i = 0; i < n; i++) {
        out->texels_covered += bands[i].covered;
        out->texels_without_voxel += bands[i].without;
        out->texels_nearest_voxel += bands[i].nearest;
        out->texels_refused_facing += bands[i].other;
        out->texels_kept_opposing += bands[i].opposing;
        distance += bands[i].distance_sum;
        out->max_snap_distance = ESI_MAX(out->max_snap_distance, bands[i].distance_max);
    }
    out->mean_snap_distance = out->texels_covered > 0 ? distance / (double)out->texels_covered : 0.0;
}

espalier_status esi_bake_sample(esi_bake_job *job)
{
    const size_t bands = (size_t)((job->size + ESI_BAKE_BAND - 1) / ESI_BAKE_BAND);
    sample_job j = {.bake = job};
    espalier_status st;

    j.stats = esi_calloc(job->ctx, bands, sizeof *j.stats, "statistics of the bake");
    if (!j.stats) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(job->ctx, bands, bake_band, &j);
    if (st == ESPALIER_OK) sum_stats(job->stats, j.stats, bands);
    esi_free(job->ctx, j.stats);
    return st;
}
