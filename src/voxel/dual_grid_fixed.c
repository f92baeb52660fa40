/* SPDX-License-Identifier: MIT
 *
 * dual_grid_fixed.c: a mesh in fixed-point grid units. A point is rounded to 2^-18 of a cell at 2048 cells per axis, 2^-23 at 64, which is
 * finer than fp32 coordinates of the unit box are; after that, which edges of the grid a triangle crosses is decided exactly.
 *
 * What lies far outside is cut by the six planes ESI_FIXED_BORDER cells beside the grid (Sutherland and Hodgman, "Reentrant Polygon
 * Clipping", 1974). A new point depends on the two ends of its edge only, not on the face, so neighbours stay joined.
 */
#include "voxel/dual_build.h"

#include <math.h>

#define POINTS_PER_TASK 32768
#define MAX_POLYGON 9              /* a triangle after six cuts */
#define FAR INT32_MIN              /* of a point beyond the planes */

typedef struct fixed_job {
    const esi_mesh *mesh;
    double low[3], per_unit[3];    /* grid units = (v - low) * per_unit */
    double high[3];                /* cells */
    double steps;                  /* 2^bits */
    int32_t *points;
    int64_t *clipped, *cut;        /* by task: faces that leave the grid; that need cutting */
} fixed_job;

static void grid_position(const fixed_job *job, int64_t v, double out[3])
{
    for (int a = 0; a < 3; a++) out[a] = ((double)job->mesh->vertices[3 * v + a] - job->low[a]) * job->per_unit[a];
}

static void to_fixed(const fixed_job *job, const double p[3], int32_t out[3])
{
    for (int a = 0; a < 3; a++) out[a] = (int32_t)((p[a] + ESI_FIXED_BORDER) * job->steps + 0.5);
}

static bool within(const fixed_job *job, const double p[3], double border)
{
    for (int a = 0; a < 3; a++) {
        if (!(p[a] >= -border && p[a] <= job->high[a] + border)) return false;
    }
    return true;
}

static void place_points(void *arg, size_t task, int slot)
{
    const fixed_job *job = arg;
    const int64_t begin = (int64_t)task * POINTS_PER_TASK, end = ESI_MIN(begin + POINTS_PER_TASK, job->mesh->n_vertices);

    (void)slot;
    for (int64_t v = begin; v < end; v++) {
        double p[3];

        grid_position(job, v, p);
        if (within(job, p, ESI_FIXED_BORDER)) {
            to_fixed(job, p, job->points + 3 * v);
        } else {
            job->points[3 * v] = FAR;
        }
    }
}

static bool is_far(const fixed_job *job, const int32_t *face)
{
    return job->points[3 * (int64_t)face[0]] == FAR || job->points[3 * (int64_t)face[1]] == FAR || job->points[3 * (int64_t)face[2]] == FAR;
}

static void count_faces(void *arg, size_t task, int slot)
{
    const fixed_job *job = arg;
    const int64_t begin = (int64_t)task * POINTS_PER_TASK, end = ESI_MIN(begin + POINTS_PER_TASK, job->mesh->n_faces);

    (void)slot;
    for (int64_t f = begin; f < end; f++) {
        const int32_t *face = job->mesh->faces + 3 * f;
        bool inside = true;

        job->cut[task] += is_far(job, face);
        for (int k = 0; k < 3 && inside; k++) {
            double p[3];

            grid_position(job, face[k], p);
            inside = within(job, p, 1.0 / 256.0);
        }
        job->clipped[task] += !inside;
    }
}

/* ----------------------------------------------------------------- cutting */

typedef struct polygon {
    double p[MAX_POLYGON][3];
    int n;
} polygon;

static int compare_points(const double p[3], const double q[3])
{
    for (int a = 0; a < 3; a++) {
        if (p[a] != q[a]) return p[a] < q[a] ? -1 : 1;
    }
    return 0;
}

/* Where the edge meets the plane, the same for both directions of the edge. */
static void edge_point(const double *p, const double *q, int axis, double plane, double out[3])
{
    double s;

    if (compare_points(p, q) > 0) {
        const double *swap = p;

        p = q;
        q = swap;
    }
    s = (plane - p[axis]) / (q[axis] - p[axis]);
    for (int a = 0; a < 3; a++) out[a] = p[a] + (q[a] - p[a]) * s;
    out[axis] = plane;
}

static void cut(polygon *poly, int axis, double plane, bool keep_below)
{
    polygon out = {.n = 0};

    for (int i = 0; i < poly->n; i++) {
        const double *p = poly->p[i], *q = poly->p[(i + 1) % poly->n];
        const bool p_in = keep_below ? p[axis] <= plane : p[axis] >= plane, q_in = keep_below ? q[axis] <= plane : q[axis] >= plane;

        if (p_in) memcpy(out.p[out.n++], p, sizeof out.p[0]);
        if (p_in != q_in) edge_point(p, q, axis, plane, out.p[out.n++]);
    }
    *poly = out;
}

static void cut_face(const fixed_job *job, const int32_t *face, polygon *poly)
{
    poly->n = 3;
    for (int k = 0; k < 3; k++) {
        grid_position(job, face[k], poly->p[k]);
        if (!isfinite(poly->p[k][0]) || !isfinite(poly->p[k][1]) || !isfinite(poly->p[k][2])) poly->n = 0;
    }
    for (int a = 0; a < 3 && poly->n > 0; a++) {
        cut(poly, a, -ESI_FIXED_BORDER, false);
        cut(poly, a, job->high[a] + ESI_FIXED_BORDER, true);
    }
}

/* A list of faces with the far ones replaced by what is left of them. */
static espalier_status rebuild_faces(espalier_context *ctx, fixed_job *job, esi_fixed_mesh *out, int64_t n_cut)
{
    const esi_mesh *mesh = job->mesh;
    int64_t points = mesh->n_vertices, faces = 0;
    const int64_t max_points = points + MAX_POLYGON * n_cut, max_faces = mesh->n_faces + (MAX_POLYGON - 3) * n_cut;
    int32_t *grown;

    if (max_points > ESI_MESH_MAX_VERTICES || max_faces > ESI_MESH_MAX_FACES) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "voxelize: too many faces leave the box");
    }
    grown = esi_realloc(ctx, out->points, (size_t)max_points, 3 * sizeof *grown, "fixed-point mesh");
    if (!grown) return ESPALIER_ERR_RESOURCE;
    out->points = grown;
    job->points = grown;
    out->faces = esi_alloc(ctx, (size_t)max_faces, 3 * sizeof *out->faces, "fixed-point mesh");
    if (!out->faces) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        const int32_t *face = mesh->faces + 3 * f;
        polygon poly;

        if ((f & 0x3ffff) == 0 && esi_check_cancel(ctx) != ESPALIER_OK) return ESPALIER_ERR_CANCELLED;
        if (!is_far(job, face)) {
            memcpy(out->faces + 3 * faces++, face, 3 * sizeof *face);
            continue;
        }
        cut_face(job, face, &poly);
        if (poly.n < 3) continue;
        for (int i = 0; i < poly.n; i++) to_fixed(job, poly.p[i], grown + 3 * (points + i));
        for (int i = 2; i < poly.n; i++) {
            int32_t *corner = out->faces + 3 * faces++;

            corner[0] = (int32_t)points;
            corner[1] = (int32_t)(points + i - 1);
            corner[2] = (int32_t)(points + i);
        }
        points += poly.n;
    }
    for (int64_t v = 0; v < mesh->n_vertices; v++) {                 /* no face names these any more */
        if (grown[3 * v] == FAR) memset(grown + 3 * v, 0, 3 * sizeof *grown);
    }
    out->mesh.faces = out->faces;
    out->mesh.n_faces = faces;
    out->mesh.n_points = points;
    return ESPALIER_OK;
}

static void set_scales(fixed_job *job, esi_cell_mesh *m, const int32_t resolution[3], const float aabb_min[3], const float aabb_max[3])
{
    double size[3], largest = 0.0;
    int32_t cells = 1;

    for (int a = 0; a < 3; a++) {
        const double extent = (double)aabb_max[a] - (double)aabb_min[a];

        job->low[a] = (double)aabb_min[a];
        job->high[a] = (double)resolution[a];
        job->per_unit[a] = (double)resolution[a] / extent;
        size[a] = extent / (double)resolution[a];
        largest = ESI_MAX(largest, size[a]);
        cells = ESI_MAX(cells, resolution[a]);
    }
    /* Coordinates stay below 2^30: a product of two differences fits 64 bits, and so do the partial sums of a determinant. */
    m->bits = 0;
    while (m->bits < 23 && ((int64_t)(cells + 2 * ESI_FIXED_BORDER) << (m->bits + 1)) < INT64_C(1) << 30) m->bits++;
    job->steps = (double)((int64_t)1 << m->bits);
    m->unit = 1.0 / job->steps;
    for (int a = 0; a < 3; a++) m->scale[a] = size[a] / largest;
}

espalier_status esi_fixed_mesh_make(espalier_context *ctx, esi_fixed_mesh *out, const esi_mesh *mesh, const int32_t resolution[3],
                                    const float aabb_min[3], const float aabb_max[3])
{
    fixed_job job = {.mesh = mesh};
    const size_t point_tasks = (size_t)((mesh->n_vertices + POINTS_PER_TASK - 1) / POINTS_PER_TASK);
    const size_t face_tasks = (size_t)((mesh->n_faces + POINTS_PER_TASK - 1) / POINTS_PER_TASK);
    int64_t n_cut = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    memset(out, 0, sizeof *out);
    out->mesh = (esi_cell_mesh){.faces = mesh->faces, .n_points = mesh->n_vertices, .n_faces = mesh->n_faces};
    set_scales(&job, &out->mesh, resolution, aabb_min, aabb_max);
    job.points = out->points = esi_alloc(ctx, (size_t)mesh->n_vertices, 3 * sizeof *out->points, "fixed-point mesh");
    job.clipped = esi_calloc(ctx, face_tasks, sizeof *job.clipped, "fixed-point mesh");
    job.cut = esi_calloc(ctx, face_tasks, sizeof *job.cut, "fixed-point mesh");
    if (!out->points || !job.clipped || !job.cut) goto done;
    st = esi_parallel(ctx, point_tasks, place_points, &job);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, face_tasks, count_faces, &job);
    if (st != ESPALIER_OK) goto done;
    for (size_t t = 0; t < face_tasks; t++) {
        out->clipped_faces += job.clipped[t];
        n_cut += job.cut[t];
    }
    if (n_cut > 0) st = rebuild_faces(ctx, &job, out, n_cut);
    out->mesh.fixed = out->points;
done:
    esi_free(ctx, job.clipped);
    esi_free(ctx, job.cut);
    if (st != ESPALIER_OK) esi_fixed_mesh_free(ctx, out);
    return st;
}

void esi_fixed_mesh_free(espalier_context *ctx, esi_fixed_mesh *mesh)
{
    if (!mesh) return;
    esi_free(ctx, mesh->points);
    esi_free(ctx, mesh->faces);
    memset(mesh, 0, sizeof *mesh);
}
