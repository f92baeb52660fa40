/* SPDX-License-Identifier: MIT
 *
 * fill_holes.c: short loops of boundary edges get a fan around the mean of their edges' middles (CuMesh fill_holes, src/clean_up.cu). A
 * second pass can close what the first one freed: a hole whose bow-tie vertex has become an ordinary one.
 */
#include "mesh/boundary.h"
#include "mesh/clean.h"
#include "mesh/edit.h"

/* Room for the fans of the loops below the limit. */
static espalier_status make_room(espalier_context *ctx, esi_mesh *mesh, int64_t n_vertices, int64_t n_faces)
{
    float *vertices;
    int32_t *faces;

    if (mesh->n_vertices + n_vertices > ESI_MESH_MAX_VERTICES || mesh->n_faces + n_faces > ESI_MESH_MAX_FACES) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: filling %lld holes makes more faces than can be numbered",
                        (long long)n_vertices);
    }
    vertices = esi_realloc(ctx, mesh->vertices, (size_t)(mesh->n_vertices + n_vertices), 3 * sizeof *vertices, "mesh vertices");
    if (!vertices) return ESPALIER_ERR_RESOURCE;
    mesh->vertices = vertices;
    faces = esi_realloc(ctx, mesh->faces, (size_t)(mesh->n_faces + n_faces), 3 * sizeof *faces, "mesh faces");
    if (!faces) return ESPALIER_ERR_RESOURCE;
    mesh->faces = faces;
    return ESPALIER_OK;
}

/* Per component: its new vertex or -1, its edges so far, the sum of their middles. */
typedef struct hole {
    int32_t center;
    int32_t n_edges;
    int64_t first_face;
    double sum[3];
} hole;

static void add_middle(hole *h, const esi_mesh *mesh, int32_t corner)
{
    const float *p = mesh->vertices + 3 * (int64_t)mesh->faces[corner];
    const float *q = mesh->vertices + 3 * (int64_t)mesh->faces[esi_next_corner(corner)];

    for (int k = 0; k < 3; k++) h->sum[k] += ((double)p[k] + (double)q[k]) * 0.5;
    h->n_edges++;
}

/* New vertices by component, new faces by component and edge. */
static espalier_status fill_pass(espalier_context *ctx, esi_mesh *mesh, const esi_boundary *b, double limit, esi_fill_stats *stats)
{
    hole *holes = esi_calloc(ctx, (size_t)b->n_components, sizeof *holes, "holes");
    int64_t n_filled = 0, n_faces = 0;
    espalier_status st;

    if (!holes) return ESPALIER_ERR_RESOURCE;
    for (int64_t e = 0; e < b->n_edges; e++) add_middle(&holes[b->component[e]], mesh, b->corner[e]);
    for (int32_t c = 0; c < b->n_components; c++) {
        hole *h = &holes[c];

        h->center = -1;
        if (!b->is_loop[c] || !(b->perimeter[c] < limit)) continue;
        h->center = (int32_t)(mesh->n_vertices + n_filled++);
        h->first_face = mesh->n_faces + n_faces;
        n_faces += h->n_edges;
    }
    st = make_room(ctx, mesh, n_filled, n_faces);
    if (st != ESPALIER_OK) goto done;
    for (int32_t c = 0; c < b->n_components; c++) {
        const hole *h = &holes[c];

        for (int k = 0; h->center >= 0 && k < 3; k++)
            mesh->vertices[3 * (int64_t)h->center + k] = (float)(h->sum[k] / (double)h->n_edges);
    }
    for (int64_t e = 0; e < b->n_edges; e++) {
        hole *h = &holes[b->component[e]];
        int32_t *face;

        if (h->center < 0) continue;
        face = mesh->faces + 3 * h->first_face++;
        face[0] = mesh->faces[esi_next_corner(b->corner[e])];
        face[1] = mesh->faces[b->corner[e]];
        face[2] = h->center;
    }
    mesh->n_vertices += n_filled;
    mesh->n_faces += n_faces;
    stats->filled += n_filled;
    stats->faces_added += n_faces;
done:
    esi_free(ctx, holes);
    return st;
}

static int64_t count_loops(const esi_boundary *b, double limit, int64_t *below)
{
    int64_t loops = 0;

    *below = 0;
    for (int32_t c = 0; c < b->n_components; c++) {
        loops += b->is_loop[c];
        *below += b->is_loop[c] && b->perimeter[c] < limit;
    }
    return loops;
}

espalier_status esi_mesh_fill_holes(espalier_context *ctx, esi_mesh *mesh, const esi_fill_options *options, esi_fill_stats *stats)
{
    esi_fill_stats found = {0};
    int64_t below = 1;
    espalier_status st = ESPALIER_OK;

    if (stats) *stats = found;
    /* One look more than passes: what is left. */
    for (int pass = 0; st == ESPALIER_OK && below > 0; pass++) {
        esi_sides sides = {0};
        esi_boundary b = {0};

        st = esi_sides_build(ctx, &sides, mesh);
        if (st == ESPALIER_OK) st = esi_boundary_build(ctx, &b, mesh, &sides);
        esi_sides_free(ctx, &sides);
        if (st == ESPALIER_OK) {
            found.loops = found.filled + count_loops(&b, options->max_perimeter, &below);
            found.boundary_edges_left = b.n_edges;
            if (pass >= options->passes) below = 0;
        }
        if (st == ESPALIER_OK && below > 0) {
            st = fill_pass(ctx, mesh, &b, options->max_perimeter, &found);
            found.passes = pass + 1;
        }
        esi_boundary_free(ctx, &b);
    }
    if (st == ESPALIER_OK && stats) *stats = found;
    return st;
}
