/* SPDX-License-Identifier: MIT
 *
 * shape_fixture.h: closed analytic meshes to voxelise.
 */
#ifndef SHAPE_FIXTURE_H
#define SHAPE_FIXTURE_H

#include "base/surface.h"

#include <math.h>

#define SHAPE_PI 3.14159265358979323846

static inline void shape_box(espalier_context *ctx, esi_mesh *out, const float low[3], const float high[3])
{
    static const int32_t faces[12][3] = {{0, 2, 3}, {0, 3, 1}, {4, 5, 7}, {4, 7, 6}, {0, 1, 5}, {0, 5, 4},
                                         {2, 6, 7}, {2, 7, 3}, {0, 4, 6}, {0, 6, 2}, {1, 3, 7}, {1, 7, 5}};
    float v[8][3];

    for (int i = 0; i < 8; i++) {
        for (int a = 0; a < 3; a++) v[i][a] = i >> a & 1 ? high[a] : low[a];
    }
    assert_int_equal(esi_mesh_copy(ctx, out, v[0], 8, faces[0], 12), ESPALIER_OK);
}

/* A torus around z, `around` x `across` quads. */
static inline void shape_torus(espalier_context *ctx, esi_mesh *out, double R, double r, int around, int across)
{
    assert_int_equal(esi_mesh_new(ctx, out, (int64_t)around * across, 2 * (int64_t)around * across), ESPALIER_OK);
    for (int i = 0; i < around; i++) {
        for (int j = 0; j < across; j++) {
            const double u = 2 * SHAPE_PI * i / around, v = 2 * SHAPE_PI * j / across;
            const int i1 = (i + 1) % around, j1 = (j + 1) % across;
            const int32_t p = i * across + j, q = i1 * across + j, s = i1 * across + j1, t = i * across + j1;
            float *x = out->vertices + 3 * p;
            int32_t *f = out->faces + 6 * p;

            x[0] = (float)((R + r * cos(v)) * cos(u));
            x[1] = (float)((R + r * cos(v)) * sin(u));
            x[2] = (float)(r * sin(v));
            memcpy(f, (int32_t[]){p, q, s, p, s, t}, 24);
        }
    }
}

/* Poles included; `rings` >= 2 rows of quads between them. */
static inline void shape_sphere(espalier_context *ctx, esi_mesh *out, double radius, int around, int rings)
{
    const int32_t south = around * rings, north = south + 1;
    int64_t n = 0;

    assert_int_equal(esi_mesh_new(ctx, out, north + 1, 2 * (int64_t)around * rings), ESPALIER_OK);
    for (int j = 0; j < rings; j++) {
        for (int i = 0; i < around; i++) {
            const double u = 2 * SHAPE_PI * i / around, v = SHAPE_PI * ((j + 1.0) / (rings + 1) - 0.5);
            const int32_t i1 = (i + 1) % around, p = j * around + i, q = j * around + i1;
            float *x = out->vertices + 3 * p;

            x[0] = (float)(radius * cos(v) * cos(u));
            x[1] = (float)(radius * cos(v) * sin(u));
            x[2] = (float)(radius * sin(v));
            if (j == 0) memcpy(out->faces + 3 * n++, (int32_t[]){south, q, p}, 12);
            if (j == rings - 1) memcpy(out->faces + 3 * n++, (int32_t[]){north, p, q}, 12);
            if (j < rings - 1) {
                memcpy(out->faces + 3 * n++, (int32_t[]){p, q, q + around}, 12);
                memcpy(out->faces + 3 * n++, (int32_t[]){p, q + around, p + around}, 12);
            }
        }
    }
    memcpy(out->vertices + 3 * south, (float[]){0, 0, (float)-radius}, 12);
    memcpy(out->vertices + 3 * north, (float[]){0, 0, (float)radius}, 12);
    assert_int_equal(n, out->n_faces);
}

#endif
