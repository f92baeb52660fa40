/* SPDX-License-Identifier: MIT
 *
 * metrics.c: all numbers of a mesh's soundness from one sorted list of face sides. Sums over faces are taken in blocks of fixed size, so
 * they do not depend on threads.
 */
#include "mesh/metrics.h"

#include "mesh/boundary.h"
#include "mesh/edit.h"

/* -------------------------------------------------------------------- edges */

typedef struct edge_counts {
    int64_t boundary, odd, nonmanifold, manifold, conflicts;
} edge_counts;

typedef struct edge_job {
    const esi_mesh *mesh;
    const esi_sides *sides;
    edge_counts *counts;           /* [bucket] */
} edge_job;

static void count_bucket(void *arg, size_t task, int slot)
{
    const edge_job *j = arg;
    const esi_sides *s = j->sides;
    const int64_t end = s->start[task + 1];
    edge_counts *count = &j->counts[task];
    int64_t next;

    (void)slot;
    for (int64_t i = s->start[task]; i < end; i = next) {
        next = esi_edge_end(s, i, end);
        count->boundary += next - i == 1;
        count->odd += (next - i) & 1;
        count->nonmanifold += next - i > 2;
        if (next - i != 2) continue;
        count->manifold++;
        count->conflicts += j->mesh->faces[esi_side_corner(s->sides[i])] == j->mesh->faces[esi_side_corner(s->sides[i + 1])];
    }
}

static espalier_status count_edges(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, const esi_sides *sides)
{
    edge_job j = {mesh, sides, esi_calloc(ctx, sides->n_buckets, sizeof *j.counts, "mesh metrics")};
    espalier_status st = j.counts ? esi_parallel(ctx, sides->n_buckets, count_bucket, &j) : ESPALIER_ERR_RESOURCE;

    for (uint32_t b = 0; st == ESPALIER_OK && b < sides->n_buckets; b++) {
        out->boundary_edges += j.counts[b].boundary;
        out->odd_edges += j.counts[b].odd;
        out->nonmanifold_edges += j.counts[b].nonmanifold;
        out->manifold_edges += j.counts[b].manifold;
        out->winding_conflicts += j.counts[b].conflicts;
    }
    out->edges = sides->n_edges;
    out->watertight = out->odd_edges == 0;
    out->manifold = out->nonmanifold_edges == 0;
    esi_free(ctx, j.counts);
    return st;
}

/* ----------------------------------------------------------------- vertices */

static espalier_status measure_vertices(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh)
{
    uint8_t *used = esi_calloc(ctx, (size_t)mesh->n_vertices, 1, "mesh metrics");
    espalier_status st = ESPALIER_OK;
    bool first = true;

    if (!used) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * mesh->n_faces && st == ESPALIER_OK; i++) {
        used[mesh->faces[i]] = 1;
        st = esi_poll(ctx, i);
    }
    for (int64_t v = 0; v < mesh->n_vertices && st == ESPALIER_OK; v++) {
        const float *p = mesh->vertices + 3 * v;

        st = esi_poll(ctx, v);
        if (!used[v]) continue;
        out->used_vertices++;
        for (int k = 0; k < 3; k++) {
            out->min[k] = first ? p[k] : ESI_MIN(out->min[k], p[k]);
            out->max[k] = first ? p[k] : ESI_MAX(out->max[k], p[k]);
        }
        first = false;
    }
    esi_free(ctx, used);
    return st;
}

/* -------------------------------------------------------------------- faces */

#define FACES_PER_TASK INT64_C(0x4000)

typedef struct face_sums {
    double area, volume;
    int64_t zero;
} face_sums;

typedef struct face_job {
    const esi_mesh *mesh;
    face_sums *sums;               /* [task] */
} face_job;

static void sum_faces(void *arg, size_t task, int slot)
{
    const face_job *j = arg;
    const int64_t begin = (int64_t)task * FACES_PER_TASK, end = ESI_MIN(begin + FACES_PER_TASK, j->mesh->n_faces);
    face_sums *sums = &j->sums[task];

    (void)slot;
    for (int64_t f = begin; f < end; f++) {
        const double area = esi_face_area(j->mesh, f);

        sums->area += area;
        sums->volume += esi_face_volume(j->mesh, f);
        sums->zero += area == 0;
    }
}

static espalier_status measure_faces(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh)
{
    const int64_t n_tasks = (mesh->n_faces + FACES_PER_TASK - 1) / FACES_PER_TASK;
    face_job j = {mesh, esi_calloc(ctx, (size_t)n_tasks, sizeof *j.sums, "mesh metrics")};
    uint8_t *duplicate = NULL;
    espalier_status st = j.sums ? esi_parallel(ctx, (size_t)n_tasks, sum_faces, &j) : ESPALIER_ERR_RESOURCE;

    for (int64_t i = 0; st == ESPALIER_OK && i < n_tasks; i++) {
        out->area += j.sums[i].area;
        out->volume += j.sums[i].volume;
        out->zero_area_faces += j.sums[i].zero;
    }
    esi_free(ctx, j.sums);
    if (st != ESPALIER_OK) return st;
    duplicate = esi_calloc(ctx, (size_t)mesh->n_faces, 1, "mesh metrics");
    st = duplicate ? esi_mark_duplicate_faces(ctx, mesh, false, duplicate) : ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; st == ESPALIER_OK && f < mesh->n_faces; f++) out->duplicate_faces += duplicate[f];
    esi_free(ctx, duplicate);
    return st;
}

/* --------------------------------------------------------------- components */

static espalier_status largest_component(espalier_context *ctx, int64_t *largest, const int32_t *component, int64_t n_faces, int32_t n)
{
    int64_t *size = esi_calloc(ctx, (size_t)n, sizeof *size, "mesh metrics");

    if (!size) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < n_faces; f++) size[component[f]]++;
    for (int32_t c = 0; c < n; c++) *largest = ESI_MAX(*largest, size[c]);
    esi_free(ctx, size);
    return ESPALIER_OK;
}

static espalier_status measure_closed(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, const esi_sides *sides,
                                      const int32_t *component, int32_t n)
{
    double *volumes = NULL;
    bool *closed = NULL;
    espalier_status st = esi_sides_volumes(ctx, &volumes, &closed, mesh, sides, component, n);

    for (int32_t c = 0; st == ESPALIER_OK && c < n; c++) {
        out->closed_components += closed[c];
        out->negative_components += closed[c] && volumes[c] < 0;
    }
    esi_free(ctx, volumes);
    esi_free(ctx, closed);
    return st;
}

/* Faces joined over edges of any number of faces. */
static espalier_status measure_edge_components(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, const esi_sides *sides)
{
    int32_t *component = NULL, n = 0;
    espalier_status st;

    out->edge_components = out->face_components;
    out->largest_edge_component_faces = out->largest_component_faces;
    if (out->manifold) return ESPALIER_OK;
    out->largest_edge_component_faces = 0;
    st = esi_sides_join_faces(ctx, &component, sides, mesh->n_faces, true);
    if (st == ESPALIER_OK) st = esi_label_components(ctx, component, mesh->n_faces, &n);
    if (st == ESPALIER_OK) st = largest_component(ctx, &out->largest_edge_component_faces, component, mesh->n_faces, n);
    out->edge_components = n;
    esi_free(ctx, component);
    return st;
}

static espalier_status measure_components(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, const esi_sides *sides)
{
    int32_t *component = NULL, n = 0;
    espalier_status st = esi_sides_join_faces(ctx, &component, sides, mesh->n_faces, false);

    if (st == ESPALIER_OK) st = esi_label_components(ctx, component, mesh->n_faces, &n);
    out->face_components = n;
    if (st == ESPALIER_OK) st = largest_component(ctx, &out->largest_component_faces, component, mesh->n_faces, n);
    if (st == ESPALIER_OK) st = measure_closed(ctx, out, mesh, sides, component, n);
    esi_free(ctx, component);
    if (st == ESPALIER_OK) st = measure_edge_components(ctx, out, mesh, sides);
    if (st != ESPALIER_OK) return st;
    component = NULL;
    st = esi_vertex_components(ctx, &component, &n, mesh);
    out->vertex_components = n;
    esi_free(ctx, component);
    return st;
}

/* A bow-tie is as many vertices as it has fans: without that a sphere pinched in a point would count as half a handle. */
static espalier_status measure_genus(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, const esi_sides *sides)
{
    int32_t *opposite = NULL;
    int64_t n_fans = 0;
    espalier_status st;

    out->euler = out->used_vertices - out->edges + out->faces;
    out->genus = (double)NAN;
    if (!out->watertight || !out->manifold) return ESPALIER_OK;
    st = esi_sides_opposite(ctx, &opposite, sides, mesh->n_faces);
    if (st == ESPALIER_OK) st = esi_count_fans(ctx, mesh, opposite, &n_fans);
    out->genus = (double)out->face_components - 0.5 * (double)(n_fans - out->edges + out->faces);
    esi_free(ctx, opposite);
    return st;
}

/* ----------------------------------------------------------------- boundary */

static espalier_status measure_boundary(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, const esi_sides *sides,
                                        double limit)
{
    esi_boundary b = {0};
    espalier_status st = esi_boundary_build(ctx, &b, mesh, sides);

    for (int32_t c = 0; st == ESPALIER_OK && c < b.n_components; c++) {
        if (!b.is_loop[c]) {
            out->boundary_chains++;
            continue;
        }
        out->boundary_loops++;
        out->loops_below_limit += b.perimeter[c] < limit;
        out->longest_loop = ESI_MAX(out->longest_loop, b.perimeter[c]);
    }
    esi_boundary_free(ctx, &b);
    return st;
}

espalier_status esi_mesh_metrics_compute(espalier_context *ctx, esi_mesh_metrics *out, const esi_mesh *mesh, double loop_limit)
{
    esi_sides sides = {0};
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_sides_build(ctx, &sides, mesh);
    if (st != ESPALIER_OK) return st;
    out->vertices = mesh->n_vertices;
    out->faces = mesh->n_faces;
    st = count_edges(ctx, out, mesh, &sides);
    if (st == ESPALIER_OK) st = measure_vertices(ctx, out, mesh);
    if (st == ESPALIER_OK) st = measure_components(ctx, out, mesh, &sides);
    if (st == ESPALIER_OK) st = measure_genus(ctx, out, mesh, &sides);
    if (st == ESPALIER_OK) st = measure_boundary(ctx, out, mesh, &sides, loop_limit);
    esi_sides_free(ctx, &sides);
    if (st == ESPALIER_OK) st = measure_faces(ctx, out, mesh);
    return st;
}
