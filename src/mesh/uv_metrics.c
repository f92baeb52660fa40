/* SPDX-License-Identifier: MIT
 *
 * uv_metrics.c: how good texture coordinates are. Stretch after Sander, Snyder, Gortler, Hoppe, "Texture Mapping Progressive Meshes"
 * (2001): singular values of the map from the picture to the surface, scaled so that equal areas give 1.
 *
 * Coordinates are floats. A face thinner than their rounding has no shape that could be measured: it counts neither as flipped nor in the
 * stretch, and as a face without UV area if by its area on the surface it should have one.
 */
#include "base/math64.h"
#include "mesh/raster_span.h"
#include "mesh/unwrap.h"
#include "mesh/vec.h"

#include <stdlib.h>

#define ROUNDING (1.0 / 4194304.0)             /* times the longest side: twice what rounding can do to twice an area */
#define CLEARLY 16.0

typedef struct face_shape {
    double area, uv_area;                      /* twice; uv_area signed */
    double noise;                              /* of uv_area */
    double a, c, largest;                      /* lengths squared of the derivatives; the larger singular value squared */
    bool measurable;
} face_shape;

static void shape_of(face_shape *s, const esi_mesh *mesh, const float *uvs, int64_t f)
{
    const int32_t *face = mesh->faces + 3 * f;
    double p[2][3], q[2][2], n[3], longest = 0.0, ss[3], st[3], b, difference;

    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++) {
            p[i][k] = (double)mesh->vertices[3 * (int64_t)face[i + 1] + k] - (double)mesh->vertices[3 * (int64_t)face[0] + k];
        }
        for (int k = 0; k < 2; k++) q[i][k] = (double)uvs[2 * (int64_t)face[i + 1] + k] - (double)uvs[2 * (int64_t)face[0] + k];
    }
    esi_vec_cross(n, p[0], p[1]);
    s->area = esi_vec_length(n);
    s->uv_area = q[0][0] * q[1][1] - q[0][1] * q[1][0];
    if (!(esi_fabs(s->uv_area) <= 1e300)) s->uv_area = 0.0;
    for (int i = 0; i < 3; i++) {
        const double x = i < 2 ? q[i][0] : q[1][0] - q[0][0], y = i < 2 ? q[i][1] : q[1][1] - q[0][1];

        longest = ESI_MAX(longest, sqrt(x * x + y * y));
    }
    s->noise = longest * ROUNDING;
    s->measurable = esi_fabs(s->uv_area) > s->noise && s->area > 0.0;
    if (!s->measurable) return;
    for (int k = 0; k < 3; k++) {
        ss[k] = (p[0][k] * q[1][1] - p[1][k] * q[0][1]) / s->uv_area;
        st[k] = (p[1][k] * q[0][0] - p[0][k] * q[1][0]) / s->uv_area;
    }
    s->a = esi_vec_dot(ss, ss);
    b = esi_vec_dot(ss, st);
    s->c = esi_vec_dot(st, st);
    difference = s->a - s->c;
    s->largest = (s->a + s->c + sqrt(difference * difference + 4.0 * b * b)) / 2.0;
}

/* ------------------------------------------------------------ density */

typedef struct weighted { double value, weight; int64_t face; } weighted;

static int compare_values(const void *a, const void *b)
{
    const weighted *p = a, *q = b;

    if (p->value != q->value) return p->value < q->value ? -1 : 1;
    return p->face < q->face ? -1 : p->face > q->face;
}

/* The smallest value that reaches this share of the weight. */
static double percentile(const weighted *w, int64_t n, double total, double share)
{
    double sum = 0.0;

    for (int64_t i = 0; i < n; i++) {
        sum += w[i].weight;
        if (sum >= share * total) return w[i].value;
    }
    return n > 0 ? w[n - 1].value : 0.0;
}

static void density(esi_uv_metrics *out, weighted *w, int64_t n)
{
    double total = 0.0, mean = 0.0, spread = 0.0;

    for (int64_t i = 0; i < n; i++) {
        total += w[i].weight;
        mean += w[i].weight * w[i].value;
    }
    if (!(total > 0.0)) return;
    mean /= total;
    for (int64_t i = 0; i < n; i++) spread += w[i].weight * (w[i].value - mean) * (w[i].value - mean);
    qsort(w, (size_t)n, sizeof *w, compare_values);
    out->density_mean = mean;
    out->density_cov = mean > 0.0 ? sqrt(spread / total) / mean : 0.0;
    out->density_p5 = percentile(w, n, total, 0.05);
    out->density_p95 = percentile(w, n, total, 0.95);
}

static espalier_status measure_faces(espalier_context *ctx, esi_uv_metrics *out, const esi_mesh *mesh, const float *uvs, double size)
{
    weighted *w = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *w, "densities of faces");
    double area = 0.0, uv_area = 0.0, stretch = 0.0, measured = 0.0, largest = 0.0, k;
    espalier_status st = ESPALIER_OK;
    int64_t n = 0;
    face_shape s;

    if (!w) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        if (f % (1 << 18) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) goto done;
        shape_of(&s, mesh, uvs, f);
        area += s.area;
        uv_area += esi_fabs(s.uv_area);
        out->flipped_faces += s.uv_area < -s.noise;
        if (s.area > 0.0) w[n++] = (weighted){size * sqrt(esi_fabs(s.uv_area) / s.area), s.area, f};
        if (!s.measurable) continue;
        measured += s.area;
        stretch += s.area * ((s.a + s.c) / 2.0);
        largest = ESI_MAX(largest, s.largest);
    }
    out->area = uv_area / 2.0;
    k = area > 0.0 ? sqrt(uv_area / area) : 0.0;
    out->l2_stretch = measured > 0.0 ? sqrt(stretch / measured) * k : 0.0;
    out->linf_stretch = sqrt(largest) * k;
    density(out, w, n);
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        if (f % (1 << 18) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) goto done;
        shape_of(&s, mesh, uvs, f);
        if (s.measurable || s.area == 0.0) continue;
        /* all faces without UV area: what the others have says nothing of what this one should have */
        out->zero_uv_faces += k > 0.0 ? s.area * k * k > CLEARLY * s.noise : s.uv_area == 0.0;
    }
done:
    esi_free(ctx, w);
    return st;
}

/* ------------------------------------------------------------ coverage */

typedef struct coverage {
    const esi_mesh *mesh;
    const float *uvs;
    int32_t size;
    int32_t *first;                            /* [size][size] face that covered the texel first, or -1 */
    uint8_t *twice;                            /* [size][size] */
} coverage;

/* Is the texel's centre inside the face by more than rounding? */
static bool strictly_inside(const coverage *c, int32_t face, int32_t x, int32_t y)
{
    const double centre[2] = {(x + 0.5) / c->size, (y + 0.5) / c->size};
    int sides = 0;

    for (int k = 0; k < 3; k++) {
        const float *a = c->uvs + 2 * (int64_t)c->mesh->faces[3 * (int64_t)face + k];
        const float *b = c->uvs + 2 * (int64_t)c->mesh->faces[3 * (int64_t)face + (k + 1) % 3];
        const double dx = (double)b[0] - (double)a[0], dy = (double)b[1] - (double)a[1];
        const double turn = dx * (centre[1] - (double)a[1]) - dy * (centre[0] - (double)a[0]);
        const double noise = (esi_fabs(dx) + esi_fabs(dy)) * ROUNDING;

        sides += turn > noise ? 1 : turn < -noise ? -1 : 0;
    }
    return sides == 3 || sides == -3;
}

static void cover_span(void *arg, int slot, int32_t face, int32_t y, int32_t x_begin, int32_t x_end)
{
    const coverage *c = arg;

    (void)slot;
    for (int32_t x = x_begin; x < x_end; x++) {
        const int64_t texel = (int64_t)y * c->size + x;

        if (c->first[texel] < 0) c->first[texel] = face;
        else if (!c->twice[texel]) c->twice[texel] = strictly_inside(c, c->first[texel], x, y) && strictly_inside(c, face, x, y);
    }
}

static espalier_status measure_coverage(espalier_context *ctx, esi_uv_metrics *out, const esi_mesh *mesh, const float *uvs, uint32_t size)
{
    coverage c = {.mesh = mesh, .uvs = uvs, .size = (int32_t)size};
    const esi_raster_sink sink = {.arg = &c, .span = cover_span};
    const size_t texels = (size_t)size * size;
    int64_t covered = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    c.first = esi_alloc(ctx, texels, sizeof *c.first, "coverage of the atlas");
    c.twice = esi_calloc(ctx, texels, 1, "coverage of the atlas");
    if (!c.first || !c.twice) goto done;
    memset(c.first, 0xff, texels * sizeof *c.first);
    if ((st = esi_raster_spans(ctx, size, mesh->faces, mesh->n_faces, uvs, &sink)) != ESPALIER_OK) goto done;
    for (size_t i = 0; i < texels; i++) {
        covered += c.first[i] >= 0;
        out->overlapping_texels += c.twice[i];
    }
    out->covered = (double)covered / (double)texels;
done:
    esi_free(ctx, c.first);
    esi_free(ctx, c.twice);
    return st;
}

espalier_status esi_uv_metrics_compute(espalier_context *ctx, esi_uv_metrics *out, const esi_mesh *mesh, const float *uvs,
                                       uint32_t atlas_size)
{
    espalier_status st;
    int32_t *component = NULL;

    memset(out, 0, sizeof *out);
    if (atlas_size == 0 || atlas_size > 16384) {
        return esi_fail(ctx, ESPALIER_ERR_ARG, "texture coordinates: an atlas of %u texels", atlas_size);
    }
    if ((st = esi_vertex_components(ctx, &component, &out->charts, mesh)) != ESPALIER_OK) return st;
    esi_free(ctx, component);
    for (int64_t i = 0; i < mesh->n_vertices; i++) {
        const float u = uvs[2 * i], v = uvs[2 * i + 1];

        out->out_of_range += !(u >= 0.0f && u <= 1.0f && v >= 0.0f && v <= 1.0f);
    }
    if ((st = measure_faces(ctx, out, mesh, uvs, atlas_size)) != ESPALIER_OK) return st;
    return measure_coverage(ctx, out, mesh, uvs, atlas_size);
}
