/* SPDX-License-Identifier: MIT
 *
 * render.c: views of a surface by a depth buffer with 2 x 2 samples per pixel. Which face a sample sees is found first, in bands of rows
 * (raster_span.h); colours are made once per sample afterwards. The inverse of the depth is linear in the picture, so it is what the buffer
 * holds. Of translucent faces the nearest one is laid over the nearest opaque one.
 */
#include "mesh/render_internal.h"

#include "base/math64.h"
#include "mesh/raster_span.h"
#include "mesh/vec.h"

#define LINE_WIDTH 1.2                         /* of a wireframe, samples from the side of a face */

/* ------------------------------------------------------------ camera */

static void normalise(double v[3])
{
    const double length = esi_vec_length(v);

    for (int k = 0; k < 3; k++) v[k] /= length;
}

/* Middle of the box around all corners of faces, and the largest distance from it. */
static void bounds(const esi_mesh *mesh, double centre[3], double *radius)
{
    double low[3] = {0}, high[3] = {0}, largest = 0.0;

    for (int64_t i = 0; i < 3 * mesh->n_faces; i++) {
        const float *p = mesh->vertices + 3 * (int64_t)mesh->faces[i];

        for (int k = 0; k < 3; k++) {
            if (i == 0 || (double)p[k] < low[k]) low[k] = (double)p[k];
            if (i == 0 || (double)p[k] > high[k]) high[k] = (double)p[k];
        }
    }
    for (int k = 0; k < 3; k++) centre[k] = (low[k] + high[k]) / 2.0;
    for (int64_t i = 0; i < 3 * mesh->n_faces; i++) {
        const float *p = mesh->vertices + 3 * (int64_t)mesh->faces[i];
        const double d[3] = {(double)p[0] - centre[0], (double)p[1] - centre[1], (double)p[2] - centre[2]};

        largest = ESI_MAX(largest, esi_vec_dot(d, d));
    }
    *radius = largest > 0.0 ? sqrt(largest) : 1.0;
}

void esi_render_camera_set(esi_render_camera *c, int view, const esi_mesh *mesh)
{
    static const double from[4][3] = {{0.6, -1.0, 0.5}, {-0.6, 1.0, 0.5}, {1.0, 0.0, 0.0}, {0.0, 0.0, 1.0}};
    const double above[3] = {0.0, view == 3 ? 1.0 : 0.0, view == 3 ? 0.0 : 1.0};
    double centre[3], radius, distance;

    bounds(mesh, centre, &radius);
    distance = ESI_RENDER_MARGIN * radius * sqrt(1.0 + ESI_RENDER_TANGENT * ESI_RENDER_TANGENT) / ESI_RENDER_TANGENT;
    for (int k = 0; k < 3; k++) c->forward[k] = -from[view][k];
    normalise(c->forward);
    esi_vec_cross(c->right, c->forward, above);
    normalise(c->right);
    esi_vec_cross(c->up, c->right, c->forward);
    for (int k = 0; k < 3; k++) {
        c->eye[k] = centre[k] - distance * c->forward[k];
        c->light[k] = -c->forward[k] + 0.5 * c->up[k] - 0.4 * c->right[k];
    }
    normalise(c->light);
}

/* ------------------------------------------------------------ one view */

/* Samples of a band: nearest opaque face, nearest translucent one. */
typedef struct layer { float depth; int32_t face; } layer;

typedef struct band { layer *samples[2]; int32_t y_begin; } band;

typedef struct view_job {
    espalier_context *ctx;
    const esi_surface *surface;
    const esi_render_options *options;
    const esi_render_tables *tables;
    esi_render_camera camera;
    int32_t size;                              /* samples per side */
    bool translucent;                          /* there are such materials */
    float *places;                             /* [n_vertices][2] in the view, 0..1 */
    float *depths;                             /* [n_vertices] inverse */
    band *bands;                               /* [slots] */
    uint8_t *pixels;                           /* of the view's first pixel */
    size_t row_bytes;
} view_job;

#define CHUNK 16384

static void place_vertices(void *arg, size_t task, int slot)
{
    const view_job *v = arg;
    const esi_mesh *mesh = &v->surface->mesh;
    const int64_t last = ESI_MIN(mesh->n_vertices, (int64_t)(task + 1) * CHUNK);

    (void)slot;
    for (int64_t i = (int64_t)task * CHUNK; i < last; i++) {
        double p[3], inverse;

        for (int k = 0; k < 3; k++) p[k] = (double)mesh->vertices[3 * i + k] - v->camera.eye[k];
        inverse = 1.0 / ESI_MAX(esi_vec_dot(p, v->camera.forward), 1e-30);             /* vertices that no face uses may lie anywhere */
        v->places[2 * i] = (float)(0.5 + 0.5 / ESI_RENDER_TANGENT * esi_vec_dot(p, v->camera.right) * inverse);
        v->places[2 * i + 1] = (float)(0.5 - 0.5 / ESI_RENDER_TANGENT * esi_vec_dot(p, v->camera.up) * inverse);
        v->depths[i] = (float)inverse;
    }
}

/* Weights of the face's corners at a sample, linear in the picture; area twice the signed one, in samples. */
static double screen_weights(const view_job *v, int32_t face, int32_t x, int32_t y, double weights[3])
{
    const int32_t *corner = v->surface->mesh.faces + 3 * (int64_t)face;
    double p[3][2], area;

    for (int k = 0; k < 3; k++) {
        p[k][0] = (double)v->places[2 * (int64_t)corner[k]] * v->size - (x + 0.5);
        p[k][1] = (double)v->places[2 * (int64_t)corner[k] + 1] * v->size - (y + 0.5);
    }
    for (int k = 0; k < 3; k++) {
        const double *a = p[(k + 1) % 3], *b = p[(k + 2) % 3];

        weights[k] = a[0] * b[1] - a[1] * b[0];
    }
    area = weights[0] + weights[1] + weights[2];
    for (int k = 0; k < 3; k++) weights[k] = area != 0.0 ? weights[k] / area : 1.0 / 3.0;
    return area;
}

static double inverse_depth(const view_job *v, int32_t face, const double weights[3])
{
    const int32_t *corner = v->surface->mesh.faces + 3 * (int64_t)face;
    const double a = (double)v->depths[corner[0]], b = (double)v->depths[corner[1]], c = (double)v->depths[corner[2]];
    const double mixed = weights[0] * a + weights[1] * b + weights[2] * c;

    return ESI_MIN(ESI_MAX(mixed, ESI_MIN(ESI_MIN(a, b), c)), ESI_MAX(ESI_MAX(a, b), c));
}

static void surface_weights(const view_job *v, int32_t face, const double screen[3], double weights[3])
{
    const int32_t *corner = v->surface->mesh.faces + 3 * (int64_t)face;
    double sum = 0.0;

    for (int k = 0; k < 3; k++) {
        weights[k] = ESI_MAX(screen[k], 0.0) * (double)v->depths[corner[k]];
        sum += weights[k];
    }
    for (int k = 0; k < 3; k++) weights[k] /= sum;
}

static void begin_band(void *arg, int slot, int32_t y_begin, int32_t y_end)
{
    const view_job *v = arg;
    band *b = &v->bands[slot];
    const size_t samples = (size_t)(y_end - y_begin) * (size_t)v->size;

    b->y_begin = y_begin;
    for (int k = 0; k < (v->translucent ? 2 : 1); k++) {
        const size_t room = (size_t)esi_raster_band_rows((uint32_t)v->size) * (size_t)v->size;

        if (!b->samples[k]) b->samples[k] = esi_alloc(v->ctx, room, sizeof *b->samples[k], "samples of a picture");
        if (!b->samples[k]) return;
        for (size_t i = 0; i < samples; i++) b->samples[k][i] = (layer){0.0f, -1};
    }
}

static void test_span(void *arg, int slot, int32_t face, int32_t y, int32_t x_begin, int32_t x_end)
{
    const view_job *v = arg;
    const band *b = &v->bands[slot];
    esi_material fallback;
    const esi_material *m = esi_render_material(v->surface, face, &fallback);
    layer *to = b->samples[m->alpha_mode == ESI_ALPHA_BLEND];

    if (!to) return;
    for (int32_t x = x_begin; x < x_end; x++) {
        layer *l = &to[(size_t)(y - b->y_begin) * (size_t)v->size + (size_t)x];
        double screen[3], weights[3], rgba[4];
        float depth;

        screen_weights(v, face, x, y, screen);
        depth = (float)inverse_depth(v, face, screen);
        if (!(depth > l->depth)) continue;
        if (m->alpha_mode != ESI_ALPHA_OPAQUE) {
            surface_weights(v, face, screen, weights);
            esi_render_base_color(rgba, v->surface, v->tables, face, weights);
            if (m->alpha_mode == ESI_ALPHA_MASK ? rgba[3] < (double)m->alpha_cutoff : rgba[3] <= 0.0) continue;
        }
        *l = (layer){depth, face};
    }
}

/* ------------------------------------------------------------ colours */

/* Distance to the nearest side, in samples, from the weights. */
static double side_distance(const view_job *v, int32_t face, const double screen[3], double area)
{
    const int32_t *corner = v->surface->mesh.faces + 3 * (int64_t)face;
    double nearest = 1e300;

    for (int k = 0; k < 3; k++) {
        const float *a = v->places + 2 * (int64_t)corner[(k + 1) % 3], *b = v->places + 2 * (int64_t)corner[(k + 2) % 3];
        const double x = ((double)b[0] - (double)a[0]) * v->size, y = ((double)b[1] - (double)a[1]) * v->size;
        const double length = sqrt(x * x + y * y);

        if (length > 0.0) nearest = ESI_MIN(nearest, esi_fabs(screen[k] * area) / length);
    }
    return nearest;
}

/* Linear RGB of what a layer shows at a sample, and its alpha. */
static void shade(const view_job *v, int32_t face, int32_t x, int32_t y, double rgba[4])
{
    double screen[3], weights[3], light;
    const double area = screen_weights(v, face, x, y, screen);

    if (v->options->backfaces && area > 0.0) {                /* rows grow downwards: the front runs clockwise */
        rgba[0] = rgba[2] = rgba[3] = 1.0;
        rgba[1] = 0.0;
        return;
    }
    surface_weights(v, face, screen, weights);
    esi_render_base_color(rgba, v->surface, v->tables, face, weights);
    light = esi_render_light(v->surface, &v->camera, face, weights);
    if (v->options->wireframe && side_distance(v, face, screen, area) < LINE_WIDTH) light *= 0.25;
    for (int k = 0; k < 3; k++) rgba[k] *= light;
    rgba[3] = ESI_MIN(ESI_MAX(rgba[3], 0.0), 1.0);
}

static void sample_color(const view_job *v, const band *b, int32_t x, int32_t y, double rgb[3])
{
    const size_t at = (size_t)(y - b->y_begin) * (size_t)v->size + (size_t)x;
    const layer solid = b->samples[0][at];
    double rgba[4];

    for (int k = 0; k < 3; k++) rgb[k] = 1.0;
    if (solid.face >= 0) {
        shade(v, solid.face, x, y, rgba);
        memcpy(rgb, rgba, 3 * sizeof *rgb);
    }
    if (!v->translucent) return;
    const layer over = b->samples[1][at];

    if (over.face < 0 || over.depth < solid.depth) return;
    shade(v, over.face, x, y, rgba);
    for (int k = 0; k < 3; k++) rgb[k] = rgba[3] * rgba[k] + (1.0 - rgba[3]) * rgb[k];
}

static void end_band(void *arg, int slot, int32_t y_begin, int32_t y_end)
{
    const view_job *v = arg;
    const band *b = &v->bands[slot];

    if (!b->samples[0] || (v->translucent && !b->samples[1])) return;
    for (int32_t y = y_begin; y < y_end; y += 2) {
        uint8_t *row = v->pixels + (size_t)(y / 2) * v->row_bytes;

        if (esi_cancel_requested(v->ctx)) return;
        for (int32_t x = 0; x < v->size; x += 2) {
            double sum[3] = {0}, rgb[3];

            for (int i = 0; i < 4; i++) {
                sample_color(v, b, x + i % 2, y + i / 2, rgb);
                for (int k = 0; k < 3; k++) sum[k] += rgb[k];
            }
            for (int k = 0; k < 3; k++) row[3 * (x / 2) + k] = esi_render_encode(v->tables, sum[k] / 4.0);
        }
    }
}

/* ------------------------------------------------------------ all views */

static espalier_status render_view(view_job *v, int view)
{
    const esi_mesh *mesh = &v->surface->mesh;
    const esi_raster_sink sink = {v, begin_band, test_span, end_band};
    espalier_status st;

    esi_render_camera_set(&v->camera, view, mesh);
    if ((st = esi_parallel(v->ctx, (size_t)((mesh->n_vertices + CHUNK - 1) / CHUNK), place_vertices, v)) != ESPALIER_OK) return st;
    return esi_raster_spans(v->ctx, (uint32_t)v->size, mesh->faces, mesh->n_faces, v->places, &sink);
}

espalier_status esi_render_views(espalier_context *ctx, esi_texture *out, const esi_surface *surface, const esi_render_options *options)
{
    const uint32_t columns = options->views > 1 ? 2 : 1, rows = options->views > 2 ? 2 : 1, size = options->view_size;
    const int slots = esi_slots(ctx);
    esi_render_tables tables;
    view_job v = {.ctx = ctx, .surface = surface, .options = options, .tables = &tables, .size = 2 * (int32_t)size};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    esi_texture picture = {.width = columns * size, .height = rows * size, .channels = 3};

    *out = (esi_texture){0};
    if (size < 16 || size > 4096 || options->views < 1 || options->views > 4) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "render: %d views of %u pixels; 1 to 4 of 16 to 4096 are possible", options->views, size);
    }
    for (int32_t i = 0; i < surface->n_materials; i++) v.translucent = v.translucent || surface->materials[i].alpha_mode == ESI_ALPHA_BLEND;
    esi_render_tables_set(&tables);
    picture.pixels = esi_alloc(ctx, (size_t)picture.width * picture.height, 3, "picture");
    v.places = esi_alloc(ctx, (size_t)surface->mesh.n_vertices, 2 * sizeof *v.places, "vertices in the picture");
    v.depths = esi_alloc(ctx, (size_t)surface->mesh.n_vertices, sizeof *v.depths, "vertices in the picture");
    v.bands = esi_calloc(ctx, (size_t)slots, sizeof *v.bands, "samples of a picture");
    if (!picture.pixels || !v.places || !v.depths || !v.bands) goto done;
    memset(picture.pixels, 255, (size_t)picture.width * picture.height * 3);
    v.row_bytes = (size_t)picture.width * 3;
    for (int i = 0; i < options->views; i++) {
        v.pixels = picture.pixels + (size_t)(i / 2) * size * v.row_bytes + (size_t)(i % 2) * size * 3;
        if ((st = render_view(&v, i)) != ESPALIER_OK) goto done;
    }
    *out = picture;
    picture.pixels = NULL;
done:
    esi_free(ctx, picture.pixels);
    esi_free(ctx, v.places);
    esi_free(ctx, v.depths);
    for (int i = 0; i < slots && v.bands; i++) {
        esi_free(ctx, v.bands[i].samples[0]);
        esi_free(ctx, v.bands[i].samples[1]);
    }
    esi_free(ctx, v.bands);
    return st;
}
