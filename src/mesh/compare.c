/* SPDX-License-Identifier: MIT
 *
 * compare.c: how far two surfaces are from each other. Points of one, spread evenly over its area, and their exact distances to the other:
 * point i of n lies where the running sum of face areas passes (i + 1/2) / n of the whole, at a place within that face from the R2
 * sequence (Roberts 2018, "The unreasonable effectiveness of quasirandom sequences"): the same points every time.
 */
#include "mesh/compare.h"

#include <math.h>

#include "mesh/vec.h"

#define BATCH (1 << 17)            /* points at a time */
/* Steps of the R2 sequence as fractions of 2^64: 1/p and 1/p^2 with p^3 = p + 1. */
#define STEP_U UINT64_C(0xC13FA9A902A6328F)
#define STEP_V UINT64_C(0x91E10DA5C79E7B1D)

typedef struct way {
    double sum, sum_of_squares, largest;
} way;

/* Areas summed: total[f] = area of the faces before f. */
static double *running_areas(espalier_context *ctx, const esi_mesh *mesh)
{
    double *total = esi_alloc(ctx, (size_t)mesh->n_faces + 1, sizeof *total, "face areas"), sum = 0.0;

    for (int64_t f = 0; total && f < mesh->n_faces; f++) {
        double p[3][3], cross[3];

        for (int k = 0; k < 3; k++) esi_vec_load(p[k], mesh->vertices, mesh->faces[3 * f + k]);
        esi_vec_face_cross(cross, p[0], p[1], p[2]);
        total[f] = sum;
        sum += 0.5 * sqrt(esi_vec_dot(cross, cross));
    }
    if (total) total[mesh->n_faces] = sum;
    return total;
}

static double fraction(uint64_t bits)
{
    return (double)(bits >> 11) / 9007199254740992.0;
}

/* Point i of n; *face: in, a face not after its; out, its. */
static void sample(float out[3], const esi_mesh *mesh, const double *total, int64_t i, int64_t n, int64_t *face)
{
    const double whole = total[mesh->n_faces], share = ((double)i + 0.5) / (double)n;
    double u = fraction((uint64_t)(i + 1) * STEP_U), v = fraction((uint64_t)(i + 1) * STEP_V), p[3][3];

    if (whole > 0.0) while (*face + 1 < mesh->n_faces && total[*face + 1] <= share * whole) ++*face;
    else *face = (int64_t)(share * (double)mesh->n_faces);
    if (u + v > 1.0) {
        u = 1.0 - u;
        v = 1.0 - v;
    }
    for (int k = 0; k < 3; k++) esi_vec_load(p[k], mesh->vertices, mesh->faces[3 * *face + k]);
    for (int k = 0; k < 3; k++) out[k] = (float)(p[0][k] + u * (p[1][k] - p[0][k]) + v * (p[2][k] - p[0][k]));
}

static void add(way *w, const float *distances, int64_t count, bool only_largest)
{
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)distances[i];

        if (d > w->largest) w->largest = d;
        if (only_largest) continue;
        w->sum += d;
        w->sum_of_squares += d * d;
    }
}

static espalier_status measure_samples(espalier_context *ctx, way *w, const esi_mesh *from, const esi_bvh *to, int64_t samples,
                                       float *points, float *distances)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    int64_t face = 0;
    double *total = running_areas(ctx, from);

    if (!total) return st;
    st = ESPALIER_OK;
    for (int64_t first = 0; st == ESPALIER_OK && first < samples; first += BATCH) {
        const int64_t count = ESI_MIN(samples - first, BATCH);

        for (int64_t i = 0; i < count; i++) sample(points + 3 * i, from, total, first + i, samples, &face);
        st = esi_bvh_closest_many(ctx, to, points, count, INFINITY, distances, NULL);
        if (st == ESPALIER_OK) add(w, distances, count, false);
    }
    esi_free(ctx, total);
    return st;
}

/* Vertices that a face names. */
static espalier_status measure_vertices(espalier_context *ctx, way *w, const esi_mesh *from, const esi_bvh *to, float *points,
                                        float *distances)
{
    espalier_status st = ESPALIER_OK;
    uint8_t *used = esi_calloc(ctx, (size_t)from->n_vertices, sizeof *used, "used vertices");

    if (!used) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * from->n_faces; i++) used[from->faces[i]] = 1;
    for (int64_t v = 0; st == ESPALIER_OK && v < from->n_vertices;) {
        int64_t count = 0;

        for (; count < BATCH && v < from->n_vertices; v++)
            if (used[v]) memcpy(points + 3 * count++, from->vertices + 3 * v, 3 * sizeof *points);
        st = esi_bvh_closest_many(ctx, to, points, count, INFINITY, distances, NULL);
        if (st == ESPALIER_OK) add(w, distances, count, true);
    }
    esi_free(ctx, used);
    return st;
}

static espalier_status measure(espalier_context *ctx, way *w, const esi_mesh *from, const esi_mesh *to, int64_t samples)
{
    esi_bvh *tree = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    float *points = esi_alloc(ctx, BATCH, 3 * sizeof *points, "sample points");
    float *distances = esi_alloc(ctx, BATCH, sizeof *distances, "sample distances");

    if (!points || !distances) goto done;
    st = esi_bvh_build(ctx, &tree, to);
    if (st == ESPALIER_OK) st = measure_samples(ctx, w, from, tree, samples, points, distances);
    if (st == ESPALIER_OK) st = measure_vertices(ctx, w, from, tree, points, distances);
done:
    esi_bvh_free(ctx, tree);
    esi_free(ctx, points);
    esi_free(ctx, distances);
    return st;
}

espalier_status esi_mesh_compare(espalier_context *ctx, esi_mesh_distance *out, const esi_mesh *a, const esi_mesh *b, int64_t samples)
{
    way ab = {0}, ba = {0};

    memset(out, 0, sizeof *out);
    if (a->n_faces == 0 || b->n_faces == 0) return esi_fail(ctx, ESPALIER_ERR_INPUT, "a mesh without faces cannot be compared");
    if (samples < 1) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "compare: no samples");
    espalier_status st = measure(ctx, &ab, a, b, samples);
    if (st == ESPALIER_OK) st = measure(ctx, &ba, b, a, samples);
    if (st != ESPALIER_OK) return st;
    *out = (esi_mesh_distance){
        .mean_ab = ab.sum / (double)samples,
        .max_ab = ab.largest,
        .rms_ab = sqrt(ab.sum_of_squares / (double)samples),
        .mean_ba = ba.sum / (double)samples,
        .max_ba = ba.largest,
        .rms_ba = sqrt(ba.sum_of_squares / (double)samples),
        .hausdorff = ESI_MAX(ab.largest, ba.largest),
        .chamfer = (ab.sum + ba.sum) / (double)samples,
        .samples = samples,
    };
    return ESPALIER_OK;
}
