/* SPDX-License-Identifier: MIT
 *
 * bake_fixture.h: small scenes to bake, made of quads: each quad of the mesh is a chart in a cell of its own of the atlas; the original is
 * made of quads that are cut into a grid; voxels are what a function says.
 */
#ifndef BAKE_FIXTURE_H
#define BAKE_FIXTURE_H

#include "voxel_fixture.h"

#include "mesh/bake.h"
#include "mesh/clean.h"

#include <math.h>

#define SCENE_QUADS 256

typedef float scene_quad[4][3];      /* counter-clockwise seen from outside */

typedef struct scene {
    esi_mesh mesh, original;
    float *normals;
    esi_unwrapped unwrapped;
    esi_bvh *bvh;
    esi_volume volume;
    int32_t *coords;
    float *attrs;
    int64_t n_voxels;
    esi_bake_input input;
} scene;

/* Axis-aligned square at `height` along `axis`, half side `half` around (u, v), facing up or down the axis. */
static inline void scene_square(scene_quad q, int axis, double height, double u, double v, double half, bool up)
{
    for (int k = 0; k < 4; k++) {
        const int c = up ? k : 3 - k;

        q[k][axis] = (float)height;
        q[k][(axis + 1) % 3] = (float)(u + (c == 1 || c == 2 ? half : -half));
        q[k][(axis + 2) % 3] = (float)(v + (c >= 2 ? half : -half));
    }
}

/* The six sides of a box. */
static inline int scene_box(scene_quad *q, const double low[3], const double high[3])
{
    for (int i = 0; i < 6; i++) {
        const int axis = i / 2;
        const bool up = i % 2;

        for (int k = 0; k < 4; k++) {
            const int c = up ? k : 3 - k;

            q[i][k][axis] = (float)(up ? high[axis] : low[axis]);
            q[i][k][(axis + 1) % 3] = (float)(c == 1 || c == 2 ? high[(axis + 1) % 3] : low[(axis + 1) % 3]);
            q[i][k][(axis + 2) % 3] = (float)(c >= 2 ? high[(axis + 2) % 3] : low[(axis + 2) % 3]);
        }
    }
    return 6;
}

/* Vertex number of a position among those there are, appended if it is new. */
static inline int32_t scene_vertex(esi_mesh *mesh, const float p[3])
{
    for (int64_t i = 0; i < mesh->n_vertices; i++) {
        if (memcmp(mesh->vertices + 3 * i, p, 12) == 0) return (int32_t)i;
    }
    memcpy(mesh->vertices + 3 * mesh->n_vertices, p, 12);
    return (int32_t)mesh->n_vertices++;
}

/* Equal corners of quads are one vertex. margin: texels between a cell's border and its chart. */
static inline void scene_mesh(espalier_context *ctx, scene *s, scene_quad *quads, int n, uint32_t size, double margin)
{
    esi_unwrapped *u = &s->unwrapped;
    int side = 1;

    while (side * side < n) side++;
    assert_true(n <= SCENE_QUADS);
    assert_int_equal(esi_mesh_new(ctx, &s->mesh, 4 * n, 2 * n), ESPALIER_OK);
    s->mesh.n_vertices = 0;
    u->n_vertices = 4 * n;
    u->n_charts = n;
    u->source = esi_alloc(ctx, (size_t)n, 4 * sizeof(int32_t), "test");
    u->uvs = esi_alloc(ctx, (size_t)n, 8 * sizeof(float), "test");
    u->faces = esi_alloc(ctx, (size_t)n, 6 * sizeof(int32_t), "test");
    u->face_chart = esi_alloc(ctx, (size_t)n, 2 * sizeof(int32_t), "test");
    for (int i = 0; i < n; i++) {
        static const int corner[6] = {0, 1, 2, 0, 2, 3};

        for (int k = 0; k < 4; k++) {
            const double cell = (double)size / side, x = i % side * cell + (k == 1 || k == 2 ? cell - margin : margin),
                         y = i / side * cell + (k >= 2 ? cell - margin : margin);

            u->source[4 * i + k] = scene_vertex(&s->mesh, quads[i][k]);
            u->uvs[8 * i + 2 * k] = (float)(x / size);
            u->uvs[8 * i + 2 * k + 1] = (float)(y / size);
        }
        for (int k = 0; k < 6; k++) {
            u->faces[6 * i + k] = 4 * i + corner[k];
            s->mesh.faces[6 * i + k] = u->source[4 * i + corner[k]];
        }
        u->face_chart[2 * i] = u->face_chart[2 * i + 1] = i;
    }
    assert_int_equal(esi_mesh_vertex_normals(ctx, &s->normals, &s->mesh), ESPALIER_OK);
}

/* Each quad cut into cut x cut; every face turned over that `seed` chooses (0: none). */
static inline void scene_original(espalier_context *ctx, scene *s, scene_quad *quads, int n, int cut, uint64_t seed)
{
    const int row = cut + 1;
    int64_t f = 0;

    assert_int_equal(esi_mesh_new(ctx, &s->original, (int64_t)n * row * row, (int64_t)n * cut * cut * 2), ESPALIER_OK);
    for (int i = 0; i < n; i++) {
        const int32_t first = i * row * row;

        for (int k = 0; k < row * row; k++) {
            const double a = (double)(k % row) / cut, b = (double)(k / row) / cut;

            for (int c = 0; c < 3; c++) {
                const double low = (1 - a) * quads[i][0][c] + a * quads[i][1][c], high = (1 - a) * quads[i][3][c] + a * quads[i][2][c];

                s->original.vertices[3 * (first + k) + c] = (float)((1 - b) * low + b * high);
            }
        }
        for (int k = 0; k < cut * cut; k++) {
            const int32_t v = first + k / cut * row + k % cut;
            const int32_t two[2][3] = {{v, v + 1, v + row + 1}, {v, v + row + 1, v + row}};

            for (int h = 0; h < 2; h++, f++) {
                const bool flip = seed != 0 && test_random(&seed) % 2 == 0;

                for (int c = 0; c < 3; c++) s->original.faces[3 * f + c] = two[h][flip ? 2 - c : c];
            }
        }
    }
    assert_int_equal(esi_bvh_build(ctx, &s->bvh, &s->original), ESPALIER_OK);
}

/* Every cell of which fn says so, with the attributes it fills in. */
typedef bool (*scene_voxel_fn)(const void *arg, int x, int y, int z, float attrs[6]);
static inline void scene_voxels(espalier_context *ctx, scene *s, int resolution, scene_voxel_fn fn, const void *arg)
{
    const int64_t cells = (int64_t)resolution * resolution * resolution;
    float attrs[6];

    for (int pass = 0; pass < 2; pass++) {
        int64_t n = 0;

        for (int64_t i = 0; i < cells; i++) {
            const int x = (int)(i / resolution / resolution), y = (int)(i / resolution % resolution), z = (int)(i % resolution);

            if (!fn(arg, x, y, z, attrs)) continue;
            if (pass == 1) {
                memcpy(s->coords + 4 * n, (int32_t[]){0, x, y, z}, 16);
                memcpy(s->attrs + 6 * n, attrs, 24);
            }
            n++;
        }
        if (pass == 1) break;
        s->n_voxels = n;
        s->coords = esi_alloc(ctx, (size_t)n, 16, "test");
        s->attrs = esi_alloc(ctx, (size_t)n, 24, "test");
    }
    assert_int_equal(esi_volume_open(ctx, &s->volume, s->coords, s->attrs, s->n_voxels, 6, resolution), ESPALIER_OK);
}

static inline const esi_bake_input *scene_input(scene *s)
{
    s->input = (esi_bake_input){&s->mesh, s->normals, &s->unwrapped, &s->original, s->bvh, &s->volume};
    return &s->input;
}

static inline void scene_free(espalier_context *ctx, scene *s)
{
    esi_volume_close(ctx, &s->volume);
    esi_free(ctx, s->coords);
    esi_free(ctx, s->attrs);
    esi_bvh_free(ctx, s->bvh);
    esi_mesh_free(ctx, &s->mesh);
    esi_mesh_free(ctx, &s->original);
    esi_free(ctx, s->normals);
    esi_free(ctx, s->unwrapped.source);
    esi_free(ctx, s->unwrapped.uvs);
    esi_free(ctx, s->unwrapped.faces);
    esi_free(ctx, s->unwrapped.face_chart);
    memset(s, 0, sizeof *s);
}

/* Does the centre of texel (x, y) lie in the cell's chart? Which quad's? -1: gutter. */
static inline int scene_chart_at(const scene *s, uint32_t size, double margin, uint32_t x, uint32_t y)
{
    int side = 1;
    double cell, fx, fy;

    while (side * side < s->unwrapped.n_charts) side++;
    cell = (double)size / side;
    fx = (x + 0.5) - cell * floor((x + 0.5) / cell);
    fy = (y + 0.5) - cell * floor((y + 0.5) / cell);
    if (fx < margin || fx > cell - margin || fy < margin || fy > cell - margin) return -1;
    if ((int)((y + 0.5) / cell) * side + (int)((x + 0.5) / cell) >= s->unwrapped.n_charts) return -1;
    return (int)((y + 0.5) / cell) * side + (int)((x + 0.5) / cell);
}

#endif
