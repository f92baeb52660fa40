/* SPDX-License-Identifier: MIT
 *
 * raster.c: triangles to texels. Coordinates are rounded to 1/256 texel first; after that everything that decides coverage is exact
 * (raster_span.h). An atlas is filled by bands of rows that do not depend on the number of threads.
 */
#include "mesh/raster.h"

#include "mesh/raster_span.h"

void esi_raster_triangle(const double corner[3][2], int32_t width, int32_t height, esi_raster_fn fn, void *arg)
{
    esi_raster_shape s;
    int32_t x_begin, x_end;
    double bary[3];

    if (!esi_raster_shape_make(&s, corner, width, 0, height)) return;
    for (int32_t y = s.y_begin; y < s.y_end; y++) {
        if (!esi_raster_row(&s, y, &x_begin, &x_end)) continue;
        for (int32_t x = x_begin; x < x_end; x++) {
            esi_raster_weights(&s, x, y, bary);
            fn(arg, x, y, bary);
        }
    }
}

/* ------------------------------------------------------------ whole atlas */

#define BAND_ROWS 32                         /* at least; and at most MAX_BANDS bands, which bounds the lists of faces */
#define MAX_BANDS 64

typedef struct atlas_job {
    const esi_raster_sink *sink;
    int32_t size, band_rows, n_bands;
    const int32_t *faces;
    int64_t n_faces;
    const float *uvs;
    int64_t *start;                          /* [n_bands + 1] */
    int32_t *list;                           /* faces that reach into a band, ascending */
} atlas_job;

static void face_corners(double corner[3][2], const float *uvs, const int32_t face[3], double size)
{
    for (int k = 0; k < 3; k++) {
        corner[k][0] = (double)uvs[2 * (int64_t)face[k]] * size;
        corner[k][1] = (double)uvs[2 * (int64_t)face[k] + 1] * size;
    }
}

static bool face_shape(esi_raster_shape *s, const atlas_job *job, int64_t face, int32_t y_begin, int32_t y_end)
{
    double corner[3][2];

    face_corners(corner, job->uvs, job->faces + 3 * face, job->size);
    return esi_raster_shape_make(s, (const double (*)[2])corner, job->size, y_begin, y_end);
}

/* Sorts faces into bands; each band's list ascends. */
static espalier_status list_faces(espalier_context *ctx, atlas_job *job)
{
    espalier_status st = ESPALIER_OK;
    esi_raster_shape s;

    for (int64_t f = 0; f < job->n_faces; f++) {
        if (f % (1 << 18) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) return st;
        if (!face_shape(&s, job, f, 0, job->size)) continue;
        for (int32_t b = s.y_begin / job->band_rows; b <= (s.y_end - 1) / job->band_rows; b++) job->start[b + 1]++;
    }
    for (int32_t b = 0; b < job->n_bands; b++) job->start[b + 1] += job->start[b];
    job->list = esi_alloc(ctx, (size_t)job->start[job->n_bands], sizeof *job->list, "faces by bands of the atlas");
    if (!job->list) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < job->n_faces; f++) {
        if (f % (1 << 18) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) return st;
        if (!face_shape(&s, job, f, 0, job->size)) continue;
        for (int32_t b = s.y_begin / job->band_rows; b <= (s.y_end - 1) / job->band_rows; b++) job->list[job->start[b]++] = (int32_t)f;
    }
    for (int32_t b = job->n_bands; b > 0; b--) job->start[b] = job->start[b - 1];
    job->start[0] = 0;
    return ESPALIER_OK;
}

static void fill_band(void *arg, size_t task, int slot)
{
    const atlas_job *job = arg;
    const int32_t y_begin = (int32_t)task * job->band_rows, y_end = ESI_MIN(y_begin + job->band_rows, job->size);
    esi_raster_shape s;
    int32_t x_begin, x_end;

    if (job->sink->begin) job->sink->begin(job->sink->arg, slot, y_begin, y_end);
    for (int64_t i = job->start[task]; i < job->start[task + 1]; i++) {
        if (!face_shape(&s, job, job->list[i], y_begin, y_end)) continue;
        for (int32_t y = s.y_begin; y < s.y_end; y++) {
            if (esi_raster_row(&s, y, &x_begin, &x_end)) job->sink->span(job->sink->arg, slot, job->list[i], y, x_begin, x_end);
        }
    }
    if (job->sink->end) job->sink->end(job->sink->arg, slot, y_begin, y_end);
}

int32_t esi_raster_band_rows(uint32_t size)
{
    const int32_t rows = ((int32_t)size + MAX_BANDS - 1) / MAX_BANDS;

    return ESI_MAX(BAND_ROWS, rows + rows % 2);
}

espalier_status esi_raster_spans(espalier_context *ctx, uint32_t size, const int32_t *faces, int64_t n_faces, const float *uvs,
                                 const esi_raster_sink *sink)
{
    atlas_job job = {.sink = sink, .size = (int32_t)size, .faces = faces, .n_faces = n_faces, .uvs = uvs};
    espalier_status st = ESPALIER_OK;

    if (size == 0 || size > 65536) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "raster: an atlas of %u texels", size);
    job.band_rows = esi_raster_band_rows(size);
    job.n_bands = (job.size + job.band_rows - 1) / job.band_rows;
    job.start = esi_calloc(ctx, (size_t)job.n_bands + 1, sizeof *job.start, "bands of the atlas");
    if (!job.start) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    if ((st = list_faces(ctx, &job)) != ESPALIER_OK) goto done;
    st = esi_parallel(ctx, (size_t)job.n_bands, fill_band, &job);
done:
    esi_free(ctx, job.list);
    esi_free(ctx, job.start);
    return st;
}

/* ------------------------------------------------------------ faces of texels */

typedef struct picture {
    int32_t *out, size;
    const int32_t *faces;
    int64_t n_faces;
    const float *uvs;
} picture;

static void paint_span(void *arg, int slot, int32_t face, int32_t y, int32_t x_begin, int32_t x_end)
{
    const picture *p = arg;

    (void)slot;
    for (int32_t x = x_begin; x < x_end; x++) p->out[(int64_t)y * p->size + x] = face;
}

/* Texel of the nearest free centre to (x, y), within reach; -1: none. The lowest texel wins a tie. */
static int64_t nearest_free(const picture *p, double x, double y)
{
    const double limit = p->size - 1;
    const int32_t cx = (int32_t)ESI_MIN(ESI_MAX(esi_floor(x), 0.0), limit), cy = (int32_t)ESI_MIN(ESI_MAX(esi_floor(y), 0.0), limit);
    double best_distance = 0.0;
    int64_t best = -1;

    for (int32_t r = 0; r <= ESI_RASTER_REACH; r++) {
        /* whatever lies on this ring or beyond is at least r - 0.5 away from a point in the middle texel */
        if (best >= 0 && (r - 0.5) * (r - 0.5) > best_distance) break;
        for (int32_t j = ESI_MAX(cy - r, 0); j <= ESI_MIN(cy + r, p->size - 1); j++) {
            const int32_t step = j == cy - r || j == cy + r || r == 0 ? 1 : 2 * r;

            for (int32_t i = cx - r; i <= cx + r; i += step) {
                const double dx = i + 0.5 - x, dy = j + 0.5 - y, distance = dx * dx + dy * dy;
                const int64_t texel = (int64_t)j * p->size + i;

                if (i < 0 || i >= p->size || p->out[texel] >= 0) continue;
                if (best < 0 || distance < best_distance || (distance == best_distance && texel < best)) {
                    best = texel;
                    best_distance = distance;
                }
            }
        }
    }
    return best;
}

static espalier_status cover_every_chart(espalier_context *ctx, const picture *p, const int32_t *face_chart, int32_t n_charts)
{
    espalier_status st = ESPALIER_OK;
    uint8_t *seen = esi_calloc(ctx, (size_t)n_charts, 1, "charts with a texel");

    if (!seen) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < (int64_t)p->size * p->size; i++) {
        if (p->out[i] >= 0) seen[face_chart[p->out[i]]] = 1;
    }
    for (int64_t f = 0; f < p->n_faces; f++) {
        double corner[3][2];
        int64_t texel;

        if (f % (1 << 12) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) break;
        if (seen[face_chart[f]]) continue;
        seen[face_chart[f]] = 1;
        face_corners(corner, p->uvs, p->faces + 3 * f, p->size);
        texel = nearest_free(p, (corner[0][0] + corner[1][0] + corner[2][0]) / 3.0, (corner[0][1] + corner[1][1] + corner[2][1]) / 3.0);
        if (texel >= 0) p->out[texel] = (int32_t)f;
    }
    esi_free(ctx, seen);
    return st;
}

espalier_status esi_raster_atlas(espalier_context *ctx, int32_t *out, uint32_t size, const int32_t *faces, int64_t n_faces,
                                 const float *uvs, const int32_t *face_chart, int32_t n_charts)
{
    picture p = {out, (int32_t)size, faces, n_faces, uvs};
    const esi_raster_sink sink = {.arg = &p, .span = paint_span};
    espalier_status st;

    if (size <= 65536) memset(out, 0xff, (size_t)size * size * sizeof *out);
    if ((st = esi_raster_spans(ctx, size, faces, n_faces, uvs, &sink)) != ESPALIER_OK) return st;
    return face_chart ? cover_every_chart(ctx, &p, face_chart, n_charts) : ESPALIER_OK;
}

/* ------------------------------------------------------------ one texel */

/* Nearest point of side a-b to p: its weight on b, and the squared distance. */
static double side_weight(const double a[2], const double b[2], const double p[2], double *distance)
{
    const double d[2] = {b[0] - a[0], b[1] - a[1]}, q[2] = {p[0] - a[0], p[1] - a[1]};
    const double length = d[0] * d[0] + d[1] * d[1];
    const double t = length > 0.0 ? ESI_MIN(ESI_MAX((q[0] * d[0] + q[1] * d[1]) / length, 0.0), 1.0) : 0.0;
    const double r[2] = {q[0] - t * d[0], q[1] - t * d[1]};

    *distance = r[0] * r[0] + r[1] * r[1];
    return t;
}

void esi_raster_barycentrics(double bary[3], const float *uvs, const int32_t face[3], uint32_t size, int32_t x, int32_t y)
{
    const double p[2] = {x + 0.5, y + 0.5};
    double corner[3][2], value[3], area, best = 0.0;
    int side = -1;

    face_corners(corner, uvs, face, size);
    for (int k = 0; k < 3; k++) {
        const double *a = corner[(k + 1) % 3], *b = corner[(k + 2) % 3];

        value[k] = (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]);
    }
    area = value[0] + value[1] + value[2];
    if (area != 0.0) {
        for (int k = 0; k < 3; k++) bary[k] = value[k] / area;
        if (bary[0] >= 0.0 && bary[1] >= 0.0 && bary[2] >= 0.0) return;
    }
    for (int k = 0; k < 3; k++) {
        double distance;
        const double t = side_weight(corner[k], corner[(k + 1) % 3], p, &distance);

        if (side >= 0 && !(distance < best)) continue;
        side = k;
        best = distance;
        bary[k] = 1.0 - t;
        bary[(k + 1) % 3] = t;
        bary[(k + 2) % 3] = 0.0;
    }
}
