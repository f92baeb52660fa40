/* SPDX-License-Identifier: MIT
 *
 * qem_costs.c: the costs of CuMesh's edge collapses (simplify_reference.c) in double precision: what its passes compute in single. For
 * comparing with figures that were made in double.
 */
#include "mesh/quadric.h"
#include "mesh/simplify.h"

#define CHUNK 8192                 /* vertices or edges of a task */

typedef struct costs {
    const esi_mesh *mesh;
    esi_vertex_corners around;
    esi_quadric *quadrics;         /* [n_vertices] */
    uint8_t *boundary;             /* [n_vertices] touches an edge of count 1 */
    double edge_length_weight, skinny_weight;
} costs;

static void costs_free(espalier_context *ctx, costs *c)
{
    esi_vertex_corners_free(ctx, &c->around);
    esi_free(ctx, c->quadrics);
    esi_free(ctx, c->boundary);
}

static void position(double out[3], const esi_mesh *mesh, int32_t v)
{
    for (int k = 0; k < 3; k++) out[k] = (double)mesh->vertices[3 * (int64_t)v + k];
}

static void corners_of(double out[3][3], const esi_mesh *mesh, int64_t face)
{
    for (int k = 0; k < 3; k++) position(out[k], mesh, mesh->faces[3 * face + k]);
}

static void sum_quadrics(void *arg, size_t task, int slot)
{
    costs *c = arg;
    const int64_t first = (int64_t)task * CHUNK, end = ESI_MIN(first + CHUNK, c->mesh->n_vertices);

    (void)slot;
    for (int64_t v = first; v < end; v++) {
        esi_quadric sum = {0};

        for (int32_t i = c->around.start[v]; i < c->around.start[v + 1]; i++) {
            double p[3][3], normal[3];
            esi_quadric plane;

            corners_of(p, c->mesh, c->around.corners[i] / 3);
            esi_vec_face_cross(normal, p[0], p[1], p[2]);
            const double length = sqrt(esi_vec_dot(normal, normal));
            if (!(length > 0.0)) continue;
            for (int k = 0; k < 3; k++) normal[k] /= length;
            esi_quadric_set_plane(&plane, normal, p[0], 1.0);
            esi_quadric_add(&sum, &plane);
        }
        c->quadrics[v] = sum;
    }
}

static espalier_status costs_prepare(espalier_context *ctx, costs *c, const esi_mesh *mesh, const esi_edges *edges)
{
    c->mesh = mesh;
    espalier_status st = esi_vertex_corners_build(ctx, &c->around, mesh);
    if (st != ESPALIER_OK) return st;
    c->quadrics = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *c->quadrics, "vertex quadrics");
    c->boundary = esi_calloc(ctx, (size_t)mesh->n_vertices, sizeof *c->boundary, "boundary vertices");
    if (!c->quadrics || !c->boundary) return ESPALIER_ERR_RESOURCE;
    for (int64_t e = 0; e < edges->count; e++)
        if (edges->edges[e].count == 1) c->boundary[edges->edges[e].a] = c->boundary[edges->edges[e].b] = 1;
    return esi_parallel(ctx, ((size_t)mesh->n_vertices + CHUNK - 1) / CHUNK, sum_quadrics, c);
}

/* The faces around v but not around `other` with v at `target`: false when one turns by more than a right angle. */
static bool look_around(const costs *c, int32_t v, int32_t other, const double target[3], double *skinny, int64_t *count)
{
    for (int32_t i = c->around.start[v]; i < c->around.start[v + 1]; i++) {
        const int32_t corner = c->around.corners[i], *face = c->mesh->faces + 3 * (int64_t)(corner / 3);
        double p[3][3], before[3], after[3], sides = 0.0;

        if (face[0] == other || face[1] == other || face[2] == other) continue;
        corners_of(p, c->mesh, corner / 3);
        esi_vec_face_cross(before, p[0], p[1], p[2]);
        memcpy(p[corner % 3], target, sizeof p[0]);
        esi_vec_face_cross(after, p[0], p[1], p[2]);
        if (esi_vec_dot(before, after) < 0.0) return false;
        for (int k = 0; k < 3; k++) {
            for (int axis = 0; axis < 3; axis++) {
                const double d = p[k][axis] - p[(k + 1) % 3][axis];
                sides += d * d;
            }
        }
        /* 1 for an equilateral triangle: 4 sqrt(3) area / sum of squares. */
        const double area = 0.5 * sqrt(esi_vec_dot(after, after));
        const double shape = 4.0 * 1.7320508075688772 * area / (sides > 1e-12 ? sides : 1e-12);
        *skinny += 1.0 - (shape < 0.0 ? 0.0 : shape > 1.0 ? 1.0 : shape);
        ++*count;
    }
    return true;
}

static double edge_cost(const costs *c, int32_t a, int32_t b, double target[3])
{
    const bool only_a = c->boundary[a] && !c->boundary[b], only_b = c->boundary[b] && !c->boundary[a];
    double pa[3], pb[3], length2 = 0.0, skinny = 0.0;
    int64_t count = 0;
    esi_quadric q = c->quadrics[a];

    position(pa, c->mesh, a);
    position(pb, c->mesh, b);
    for (int k = 0; k < 3; k++) {
        target[k] = only_a ? pa[k] : only_b ? pb[k] : 0.5 * (pa[k] + pb[k]);
        length2 += (pa[k] - pb[k]) * (pa[k] - pb[k]);
    }
    if (!look_around(c, a, b, target, &skinny, &count) || !look_around(c, b, a, target, &skinny, &count)) return (double)INFINITY;
    if (count) skinny /= (double)count;
    esi_quadric_add(&q, &c->quadrics[b]);
    const double cost = esi_quadric_value(&q, target) + c->edge_length_weight * length2 + c->skinny_weight * skinny * length2;
    return cost >= 0.0 ? cost : (double)INFINITY;
}

typedef struct listed_edges {
    const costs *costs;
    const int32_t *edges;
    int64_t count;
    double *cost, *target;
} listed_edges;

static void cost_listed(void *arg, size_t task, int slot)
{
    const listed_edges *l = arg;
    const int64_t first = (int64_t)task * CHUNK, end = ESI_MIN(first + CHUNK, l->count);

    (void)slot;
    for (int64_t e = first; e < end; e++) l->cost[e] = edge_cost(l->costs, l->edges[2 * e], l->edges[2 * e + 1], l->target + 3 * e);
}

espalier_status esi_qem_exact_costs(espalier_context *ctx, double *cost, double *target, const esi_mesh *mesh, const int32_t *edges,
                                   int64_t n_edges, double edge_length_weight, double skinny_weight)
{
    costs c = {.edge_length_weight = edge_length_weight, .skinny_weight = skinny_weight};
    esi_edges all = {0};

    espalier_status st = esi_edges_build(ctx, &all, mesh);
    if (st != ESPALIER_OK) goto done;
    st = costs_prepare(ctx, &c, mesh, &all);
    if (st != ESPALIER_OK) goto done;
    listed_edges l = {&c, edges, n_edges, cost, target};
    st = esi_parallel(ctx, ((size_t)n_edges + CHUNK - 1) / CHUNK, cost_listed, &l);
done:
    costs_free(ctx, &c);
    esi_edges_free(ctx, &all);
    return st;
}
