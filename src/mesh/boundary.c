/* SPDX-License-Identifier: MIT
 *
 * boundary.c: loops of boundary edges as CuMesh's fill_holes finds them (src/clean_up.cu, src/connectivity.cu).
 */
#include "mesh/boundary.h"

#include "mesh/edit.h"
#include "mesh/metrics.h"

/* Boundary edges at each vertex; those of a vertex that touches an edge of more than two faces are not linked there. */
typedef struct rim {
    int32_t *start;                /* [n_vertices + 1] */
    int32_t *edges;                /* [2 * n_edges] */
    uint8_t *blocked;              /* [n_vertices] */
} rim;

static void ends_of(int32_t out[2], const esi_mesh *mesh, int32_t corner)
{
    out[0] = mesh->faces[corner];
    out[1] = mesh->faces[esi_next_corner(corner)];
}

static int64_t count_boundary(const esi_sides *sides)
{
    int64_t count = 0, next;

    for (int64_t i = 0; i < sides->count; i = next) {
        next = esi_edge_end(sides, i, sides->count);
        count += next - i == 1;
    }
    return count;
}

static espalier_status collect_edges(espalier_context *ctx, esi_boundary *out, rim *r, const esi_mesh *mesh, const esi_sides *sides)
{
    int64_t n = 0, next;
    int32_t v[2];

    out->n_edges = count_boundary(sides);
    if (out->n_edges > INT32_MAX / 2) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: too many boundary edges");
    out->corner = esi_alloc(ctx, (size_t)out->n_edges, sizeof *out->corner, "mesh boundary");
    if (!out->corner) return ESPALIER_ERR_RESOURCE;
    if (out->n_edges == 0) return ESPALIER_OK;
    r->blocked = esi_calloc(ctx, (size_t)mesh->n_vertices, 1, "mesh boundary");
    if (!r->blocked) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < sides->count; i = next) {
        next = esi_edge_end(sides, i, sides->count);
        if (next - i == 1) out->corner[n++] = esi_side_corner(sides->sides[i]);
        if (next - i <= 2) continue;
        ends_of(v, mesh, esi_side_corner(sides->sides[i]));
        r->blocked[v[0]] = r->blocked[v[1]] = 1;
    }
    return ESPALIER_OK;
}

static espalier_status gather_at_vertices(espalier_context *ctx, rim *r, const esi_boundary *b, const esi_mesh *mesh)
{
    int32_t sum = 0, v[2];

    r->start = esi_calloc(ctx, (size_t)mesh->n_vertices + 1, sizeof *r->start, "mesh boundary");
    if (r->start) r->edges = esi_alloc(ctx, (size_t)b->n_edges, 2 * sizeof *r->edges, "mesh boundary");
    if (!r->edges) return ESPALIER_ERR_RESOURCE;
    for (int64_t e = 0; e < b->n_edges; e++) {
        ends_of(v, mesh, b->corner[e]);
        r->start[v[0]]++;
        r->start[v[1]]++;
    }
    for (int64_t i = 0; i <= mesh->n_vertices; i++) {          /* ends; filling from behind makes them starts */
        sum += r->start[i];
        r->start[i] = sum;
    }
    for (int64_t e = b->n_edges - 1; e >= 0; e--) {
        ends_of(v, mesh, b->corner[e]);
        r->edges[--r->start[v[0]]] = (int32_t)e;
        r->edges[--r->start[v[1]]] = (int32_t)e;
    }
    return ESPALIER_OK;
}

static espalier_status link_edges(espalier_context *ctx, esi_boundary *b, const rim *r, const esi_mesh *mesh)
{
    b->component = esi_alloc(ctx, (size_t)b->n_edges, sizeof *b->component, "mesh boundary");
    if (!b->component) return ESPALIER_ERR_RESOURCE;
    for (int64_t e = 0; e < b->n_edges; e++) b->component[e] = (int32_t)e;
    for (int64_t v = 0; v < mesh->n_vertices; v++) {
        const int32_t *at = r->edges + r->start[v];

        if (r->start[v + 1] - r->start[v] == 2 && !r->blocked[v]) esi_union_join(b->component, at[0], at[1]);
    }
    return esi_label_components(ctx, b->component, b->n_edges, &b->n_components);
}

/* A component with a loose end at some vertex is no loop. seen[c]: how many of its edges the vertex has, while `last`[c] is that vertex. */
static espalier_status find_loops(espalier_context *ctx, esi_boundary *b, const rim *r, const esi_mesh *mesh)
{
    int32_t *seen = NULL, *last = NULL;

    b->perimeter = esi_calloc(ctx, (size_t)b->n_components, sizeof *b->perimeter, "mesh boundary");
    if (b->perimeter) b->is_loop = esi_alloc(ctx, (size_t)b->n_components, sizeof *b->is_loop, "mesh boundary");
    if (b->is_loop) seen = esi_alloc(ctx, (size_t)b->n_components, 2 * sizeof *seen, "mesh boundary");
    if (!seen) return ESPALIER_ERR_RESOURCE;
    last = seen + b->n_components;
    for (int32_t c = 0; c < b->n_components; c++) {
        b->is_loop[c] = true;
        last[c] = -1;
    }
    for (int64_t v = 0; v < mesh->n_vertices; v++) {
        const int32_t begin = r->start[v], end = r->start[v + 1];

        for (int32_t i = begin; i < end; i++) {
            const int32_t c = b->component[r->edges[i]];

            seen[c] = last[c] == (int32_t)v ? seen[c] + 1 : 1;
            last[c] = (int32_t)v;
        }
        for (int32_t i = begin; i < end; i++)
            if (seen[b->component[r->edges[i]]] < 2) b->is_loop[b->component[r->edges[i]]] = false;
    }
    for (int64_t e = 0; e < b->n_edges; e++) {
        int32_t v[2];
        double side[3];

        ends_of(v, mesh, b->corner[e]);
        esi_edge_vector(side, mesh, v[0], v[1]);
        b->perimeter[b->component[e]] += sqrt(esi_vec_dot(side, side));
    }
    esi_free(ctx, seen);
    return ESPALIER_OK;
}

espalier_status esi_boundary_build(espalier_context *ctx, esi_boundary *out, const esi_mesh *mesh, const esi_sides *sides)
{
    rim r = {0};
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = collect_edges(ctx, out, &r, mesh, sides);
    if (st != ESPALIER_OK || out->n_edges == 0) goto done;
    st = gather_at_vertices(ctx, &r, out, mesh);
    if (st == ESPALIER_OK) st = link_edges(ctx, out, &r, mesh);
    if (st == ESPALIER_OK) st = find_loops(ctx, out, &r, mesh);
    if (st == ESPALIER_OK) st = esi_check_cancel(ctx);
done:
    esi_free(ctx, r.start);
    esi_free(ctx, r.edges);
    esi_free(ctx, r.blocked);
    if (st != ESPALIER_OK) esi_boundary_free(ctx, out);
    return st;
}

void esi_boundary_free(espalier_context *ctx, esi_boundary *boundary)
{
    esi_free(ctx, boundary->corner);
    esi_free(ctx, boundary->component);
    esi_free(ctx, boundary->perimeter);
    esi_free(ctx, boundary->is_loop);
    memset(boundary, 0, sizeof *boundary);
}

espalier_status esi_boundary_components(espalier_context *ctx, double **perimeters, bool **is_loop, int64_t *count, const esi_mesh *mesh)
{
    esi_sides sides = {0};
    esi_boundary b = {0};
    espalier_status st = esi_sides_build(ctx, &sides, mesh);

    *perimeters = NULL;
    *is_loop = NULL;
    *count = 0;
    if (st == ESPALIER_OK) st = esi_boundary_build(ctx, &b, mesh, &sides);
    if (st == ESPALIER_OK) {
        *perimeters = b.perimeter;
        *is_loop = b.is_loop;
        *count = b.n_components;
        b.perimeter = NULL;
        b.is_loop = NULL;
    }
    esi_boundary_free(ctx, &b);
    esi_sides_free(ctx, &sides);
    return st;
}
