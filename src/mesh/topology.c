/* SPDX-License-Identifier: MIT
 *
 * topology.c: edges, corners around vertices, neighbours across edges, components.
 */
#include "mesh/sides.h"

/* ------------------------------------------------------------------ edges */

typedef struct edge_job {
    const esi_mesh *mesh;
    const esi_sides *sides;
    esi_edges *out;
} edge_job;

static void write_edges(void *arg, size_t task, int slot)
{
    const edge_job *j = arg;
    const esi_sides *s = j->sides;
    const int64_t end = s->start[task + 1];
    esi_edge *edge = j->out->edges + s->first_edge[task];
    int64_t next;

    (void)slot;
    for (int64_t i = s->start[task]; i < end; i = next) {
        const int32_t c = esi_side_corner(s->sides[i]);
        const int32_t a = j->mesh->faces[c], b = j->mesh->faces[esi_next_corner(c)];

        next = esi_edge_end(s, i, end);
        *edge++ = (esi_edge){ESI_MIN(a, b), ESI_MAX(a, b), (int32_t)(next - i), (int32_t)i};
        for (int64_t k = i; k < next; k++) j->out->corners[k] = esi_side_corner(s->sides[k]);
    }
}

espalier_status esi_edges_build(espalier_context *ctx, esi_edges *out, const esi_mesh *mesh)
{
    esi_sides sides = {0};
    edge_job j = {mesh, &sides, out};
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_sides_build(ctx, &sides, mesh);
    if (st != ESPALIER_OK) goto done;
    out->count = sides.n_edges;
    out->corners = esi_alloc(ctx, (size_t)sides.count, sizeof *out->corners, "mesh edges");
    if (out->corners) out->edges = esi_alloc(ctx, (size_t)sides.n_edges, sizeof *out->edges, "mesh edges");
    st = out->edges ? esi_parallel(ctx, sides.n_buckets, write_edges, &j) : ESPALIER_ERR_RESOURCE;
done:
    esi_sides_free(ctx, &sides);
    if (st != ESPALIER_OK) esi_edges_free(ctx, out);
    return st;
}

void esi_edges_free(espalier_context *ctx, esi_edges *edges)
{
    esi_free(ctx, edges->edges);
    esi_free(ctx, edges->corners);
    memset(edges, 0, sizeof *edges);
}

/* --------------------------------------------------------- around vertices */

typedef struct corner_job {
    espalier_context *ctx;
    const esi_mesh *mesh;
    esi_partition corners;
    esi_vertex_corners *out;
    int shift;
} corner_job;

static void corner_buckets(const void *arg, int64_t begin, int64_t end, uint32_t *bucket)
{
    const corner_job *j = arg;

    for (int64_t i = begin; i < end; i++) {
        const int32_t v = j->mesh->faces[i];

        *bucket++ = (uint32_t)(v >> j->shift);
        if (v >= 0 && v < j->mesh->n_vertices) continue;
        bucket[-1] = ESI_NO_BUCKET;
        esi_fail(j->ctx, ESPALIER_ERR_INTERNAL, "mesh: face %lld names vertex %d of %lld", (long long)(i / 3), (int)v,
                 (long long)j->mesh->n_vertices);
    }
}

/* start[v + 1] counts, then holds where the next corner of v goes, and ends as the start of v + 1. */
static void corner_bucket(void *arg, size_t task, int slot)
{
    const corner_job *j = arg;
    const int32_t *faces = j->mesh->faces, *items = j->corners.items;
    const int64_t begin = j->corners.start[task], end = j->corners.start[task + 1];
    const int64_t low = (int64_t)task << j->shift, high = ESI_MIN(low + (INT64_C(1) << j->shift), j->mesh->n_vertices);
    int32_t *start = j->out->start;
    int32_t place = (int32_t)begin;

    (void)slot;
    for (int64_t v = low; v < high; v++) start[v + 1] = 0;
    for (int64_t i = begin; i < end; i++) start[faces[items[i]] + 1]++;
    for (int64_t v = low; v < high; v++) {
        const int32_t here = start[v + 1];

        start[v + 1] = place;
        place += here;
    }
    for (int64_t i = begin; i < end; i++) j->out->corners[start[faces[items[i]] + 1]++] = items[i];
}

espalier_status esi_vertex_corners_build(espalier_context *ctx, esi_vertex_corners *out, const esi_mesh *mesh)
{
    corner_job j = {.ctx = ctx, .mesh = mesh, .out = out};
    const uint32_t n_buckets = esi_range_buckets(mesh->n_vertices, 3 * mesh->n_faces, &j.shift);
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_partition_build(ctx, &j.corners, 3 * mesh->n_faces, n_buckets, corner_buckets, &j);
    if (st != ESPALIER_OK) return st;
    out->start = esi_alloc(ctx, (size_t)mesh->n_vertices + 1, sizeof *out->start, "mesh corners");
    if (out->start) out->corners = esi_alloc(ctx, (size_t)mesh->n_faces, 3 * sizeof *out->corners, "mesh corners");
    st = ESPALIER_ERR_RESOURCE;
    if (out->corners) {
        out->start[0] = 0;
        st = esi_parallel(ctx, n_buckets, corner_bucket, &j);
    }
    esi_partition_free(ctx, &j.corners);
    if (st != ESPALIER_OK) esi_vertex_corners_free(ctx, out);
    return st;
}

void esi_vertex_corners_free(espalier_context *ctx, esi_vertex_corners *around)
{
    esi_free(ctx, around->start);
    esi_free(ctx, around->corners);
    memset(around, 0, sizeof *around);
}

/* --------------------------------------------------------------- neighbours */

espalier_status esi_opposite_corners(espalier_context *ctx, int32_t **out, const esi_mesh *mesh)
{
    esi_sides sides = {0};
    espalier_status st = esi_sides_build(ctx, &sides, mesh);

    *out = NULL;
    if (st == ESPALIER_OK) st = esi_sides_opposite(ctx, out, &sides, mesh->n_faces);
    esi_sides_free(ctx, &sides);
    return st;
}

espalier_status esi_face_components(espalier_context *ctx, int32_t **component, int32_t *n, const esi_mesh *mesh)
{
    esi_sides sides = {0};
    espalier_status st = esi_sides_build(ctx, &sides, mesh);

    *component = NULL;
    *n = 0;
    if (st == ESPALIER_OK) st = esi_sides_join_faces(ctx, component, &sides, mesh->n_faces, false);
    esi_sides_free(ctx, &sides);
    if (st == ESPALIER_OK) st = esi_label_components(ctx, *component, mesh->n_faces, n);
    if (st == ESPALIER_OK) return st;
    esi_free(ctx, *component);
    *component = NULL;
    return st;
}

/* Vertices are joined; a component takes its number when its first face comes by. */
espalier_status esi_vertex_components(espalier_context *ctx, int32_t **component, int32_t *n, const esi_mesh *mesh)
{
    int32_t *parent = NULL, *label = NULL, *out = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *component = NULL;
    *n = 0;
    parent = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *parent, "mesh components");
    if (parent) label = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *label, "mesh components");
    if (label) out = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *out, "mesh components");
    if (!out) goto done;
    for (int64_t v = 0; v < mesh->n_vertices; v++) parent[v] = (int32_t)v;
    memset(label, 0xff, (size_t)mesh->n_vertices * sizeof *label);
    st = ESPALIER_OK;
    for (int64_t f = 0; f < mesh->n_faces && st == ESPALIER_OK; f++) {
        esi_union_join(parent, mesh->faces[3 * f], mesh->faces[3 * f + 1]);
        esi_union_join(parent, mesh->faces[3 * f], mesh->faces[3 * f + 2]);
        st = esi_poll(ctx, f);
    }
    for (int64_t f = 0; f < mesh->n_faces && st == ESPALIER_OK; f++) {
        int32_t *number = &label[esi_union_root(parent, mesh->faces[3 * f])];

        if (*number < 0) *number = (*n)++;
        out[f] = *number;
        st = esi_poll(ctx, f);
    }
done:
    esi_free(ctx, parent);
    esi_free(ctx, label);
    if (st == ESPALIER_OK) *component = out;
    else esi_free(ctx, out);
    return st;
}
