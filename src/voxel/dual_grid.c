/* SPDX-License-Identifier: MIT
 *
 * dual_grid.c: flexible dual grid -> triangle mesh (TRELLIS.2 o_voxel/convert/flexible_dual_grid.py). Each intersected
 * grid edge joins the vertices of the four voxels around it to a quad, which is split along one diagonal.
 *
 * Quads come in the order (row, axis). Rows are handled in chunks: one parallel pass places the vertices and counts the quads of a chunk,
 * a prefix sum tells where its faces go, a second pass writes them.
 */
#include "voxel/keys.h"
#include "voxel/voxel_index.h"

#include <math.h>

#define ROWS_PER_TASK 8192

typedef struct dual_job {
    const esi_dual_grid *grid;
    const esi_voxel_index *index;
    float voxel_size[3];
    float *vertices;
    int32_t *faces;
    int64_t *first_quad;           /* [tasks + 1]: counts in entry task + 1, then their prefix sums */
} dual_job;

/* Voxels around the edge that flag `axis` of a voxel stands for, as offsets from it in cyclic order. */
static const int8_t corner[3][4][3] = {
    {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0}},
    {{0, 0, 0}, {1, 0, 0}, {1, 0, 1}, {0, 0, 1}},
    {{0, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}},
};

/* The four rows of the quad, false if one is missing. A voxel beyond the grid is missing because no coordinate lies there. */
static bool find_quad(esi_voxel_cursor *cursor, int32_t n, int axis, int32_t quad[4])
{
    quad[0] = n;
    for (int i = 1; i < 4; i++) {
        quad[i] = esi_voxel_cursor_at(cursor, corner[axis][i][0], corner[axis][i][1], corner[axis][i][2]);
        if (quad[i] < 0) return false;
    }
    return true;
}

static void place_vertex(const dual_job *job, int64_t n)
{
    const esi_dual_grid *g = job->grid;

    for (int a = 0; a < 3; a++) {
        const float cell = (float)g->coords[4 * n + 1 + a] + g->local[3 * n + a];

        job->vertices[3 * n + a] = cell * job->voxel_size[a] + g->aabb_min[a];
    }
}

static void place_and_count(void *arg, size_t task, int slot)
{
    const dual_job *job = arg;
    const esi_dual_grid *g = job->grid;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    esi_voxel_cursor cursor;
    int32_t quad[4];
    int64_t quads = 0;

    (void)slot;
    esi_voxel_cursor_init(&cursor, job->index);
    for (int64_t n = begin; n < end; n++) {
        place_vertex(job, n);
        esi_voxel_cursor_move(&cursor, g->coords + 4 * n);
        for (int axis = 0; axis < 3; axis++) {
            if (g->intersected[3 * n + axis]) quads += find_quad(&cursor, (int32_t)n, axis, quad);
        }
    }
    job->first_quad[task + 1] = quads;
}

/* n = (b - a) x (d - c) of four points, fp32. */
static void cross_of_edges(float n[3], const float *a, const float *b, const float *c, const float *d)
{
    const float u[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]}, v[3] = {d[0] - c[0], d[1] - c[1], d[2] - c[2]};

    n[0] = u[1] * v[2] - u[2] * v[1];
    n[1] = u[2] * v[0] - u[0] * v[2];
    n[2] = u[0] * v[1] - u[1] * v[0];
}

/* true: split along q0-q2, false: along q1-q3. */
static bool split_along_first_diagonal(const dual_job *job, const int32_t q[4])
{
    const float *w = job->grid->split_weight, *p = job->vertices;

    if (w) return w[q[0]] * w[q[2]] > w[q[1]] * w[q[3]];
    /* Without weights the reference means to compare how well the two triangles of each split align, but takes the wrong entries of its
     * index list: for split B one normal is the cross product of a vector with itself, so that B scores 0. What is left is: A unless q0,
     * q1, q2 are degenerate. Its results depend on it, so it is kept. */
    {
        const float *p0 = p + 3 * (size_t)q[0], *p1 = p + 3 * (size_t)q[1], *p2 = p + 3 * (size_t)q[2];
        float n0[3], n1[3];

        cross_of_edges(n0, p0, p1, p0, p2);
        cross_of_edges(n1, p1, p2, p1, p0);
        return fabsf(n0[0] * n1[0] + n0[1] * n1[1] + n0[2] * n1[2]) > 0.0f;
    }
}

static void write_faces(void *arg, size_t task, int slot)
{
    static const int8_t split[2][6] = {{0, 1, 3, 3, 1, 2}, {0, 1, 2, 0, 2, 3}};
    const dual_job *job = arg;
    const esi_dual_grid *g = job->grid;
    const int64_t begin = (int64_t)task * ROWS_PER_TASK, end = ESI_MIN(begin + ROWS_PER_TASK, g->count);
    int32_t *out = job->faces + 6 * job->first_quad[task];
    esi_voxel_cursor cursor;
    int32_t quad[4];

    (void)slot;
    esi_voxel_cursor_init(&cursor, job->index);
    for (int64_t n = begin; n < end; n++) {
        esi_voxel_cursor_move(&cursor, g->coords + 4 * n);
        for (int axis = 0; axis < 3; axis++) {
            const int8_t *order;

            if (!g->intersected[3 * n + axis] || !find_quad(&cursor, (int32_t)n, axis, quad)) continue;
            order = split[split_along_first_diagonal(job, quad)];
            for (int i = 0; i < 6; i++) *out++ = quad[order[i]];
        }
    }
}

static espalier_status check_grid(espalier_context *ctx, const esi_dual_grid *g)
{
    for (int a = 0; a < 3; a++) {
        if (g->grid[a] < 1 || g->grid[a] > ESI_COORD_LIMIT || !(g->aabb_min[a] < g->aabb_max[a])) {
            return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "dual grid: bad box or cell count %d on axis %d", (int)g->grid[a], a);
        }
    }
    for (int64_t n = 0; n < g->count; n++) {
        for (int a = 0; a < 3; a++) {
            const int32_t c = g->coords[4 * n + 1 + a];

            if (c >= 0 && c < g->grid[a]) continue;
            return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "dual grid: coordinate %d of row %lld lies outside the grid of %d cells", (int)c,
                            (long long)n, (int)g->grid[a]);
        }
    }
    return ESPALIER_OK;
}

espalier_status esi_dual_grid_to_mesh(espalier_context *ctx, const esi_dual_grid *g, float **vertices, int32_t **faces, int64_t *n_faces)
{
    esi_voxel_index index;
    dual_job job = {.grid = g, .index = &index};
    const size_t tasks = g->count > 0 ? (size_t)((g->count + ROWS_PER_TASK - 1) / ROWS_PER_TASK) : 0;
    espalier_status st;

    *vertices = NULL;
    *faces = NULL;
    *n_faces = 0;
    memset(&index, 0, sizeof index);
    st = esi_row_count_check(ctx, g->count);
    if (st == ESPALIER_OK) st = check_grid(ctx, g);
    if (st == ESPALIER_OK) st = esi_voxel_index_build(ctx, &index, g->coords, g->count);
    if (st != ESPALIER_OK) goto done;
    for (int a = 0; a < 3; a++) job.voxel_size[a] = (g->aabb_max[a] - g->aabb_min[a]) / (float)g->grid[a];

    st = ESPALIER_ERR_RESOURCE;
    job.vertices = esi_alloc(ctx, (size_t)g->count, 3 * sizeof(float), "mesh vertices");
    if (!job.vertices) goto done;
    job.first_quad = esi_calloc(ctx, tasks + 1, sizeof(int64_t), "quad counts");
    if (!job.first_quad) goto done;
    st = esi_parallel(ctx, tasks, place_and_count, &job);
    if (st != ESPALIER_OK) goto done;
    for (size_t t = 0; t < tasks; t++) job.first_quad[t + 1] += job.first_quad[t];

    job.faces = esi_alloc(ctx, (size_t)job.first_quad[tasks], 6 * sizeof(int32_t), "mesh faces");
    if (!job.faces) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = esi_parallel(ctx, tasks, write_faces, &job);
    if (st != ESPALIER_OK) goto done;
    *n_faces = 2 * job.first_quad[tasks];
    *vertices = job.vertices;
    *faces = job.faces;
    job.vertices = NULL;
    job.faces = NULL;
done:
    esi_free(ctx, job.vertices);
    esi_free(ctx, job.faces);
    esi_free(ctx, job.first_quad);
    esi_voxel_index_free(ctx, &index);
    return st;
}
