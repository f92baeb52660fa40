/* SPDX-License-Identifier: MIT
 *
 * restitch.c: takes faces without area out of a mesh without tearing it. Such a face is a needle (two corners in one place) or a cap
 * (a corner on the opposite side). A needle's short side collapses; a cap's long side is flipped, which gives its neighbour's area to
 * both, or else its shortest side collapses. Every step keeps the mesh's topology (collapse.h) and makes no other face lose its area, so
 * that the number of such faces only falls and the work ends.
 */
#include "mesh/clean.h"
#include "mesh/collapse.h"

#define RELATIVE 1e-12             /* area against longest side^2 */

typedef struct stitcher {
    esi_collapse_mesh mesh;
    esi_star star;
    int64_t changed;
} stitcher;

static void corners_of(double p[3][3], const esi_collapse_mesh *m, int32_t face)
{
    for (int k = 0; k < 3; k++) esi_collapse_position(p[k], m, m->faces[face].vertex[k]);
}

/* Squared lengths of the sides k -> k + 1. */
static void sides_of(double sides[3], double p[3][3])
{
    for (int k = 0; k < 3; k++) {
        const double *u = p[k], *v = p[(k + 1) % 3];
        sides[k] = (u[0] - v[0]) * (u[0] - v[0]) + (u[1] - v[1]) * (u[1] - v[1]) + (u[2] - v[2]) * (u[2] - v[2]);
    }
}

static bool without_area(double p[3][3])
{
    double cross[3], sides[3];

    esi_vec_face_cross(cross, p[0], p[1], p[2]);
    sides_of(sides, p);
    const double longest = ESI_MAX(ESI_MAX(sides[0], sides[1]), sides[2]);
    return 0.5 * sqrt(esi_vec_dot(cross, cross)) <= RELATIVE * longest;
}

static bool face_without_area(const esi_collapse_mesh *m, int32_t face)
{
    double p[3][3];

    corners_of(p, m, face);
    return without_area(p);
}

/* The side numbers from the longest to the shortest; the lowest number first among equals. */
static void order_sides(int order[3], const double sides[3])
{
    for (int k = 0; k < 3; k++) order[k] = k;
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2 - i; k++) {
            if (sides[order[k]] >= sides[order[k + 1]]) continue;
            const int moved = order[k];
            order[k] = order[k + 1];
            order[k + 1] = moved;
        }
    }
}

/* --------------------------------------------------------------------- collapse */

static bool try_collapse(stitcher *s, int32_t u, int32_t v)
{
    esi_collapse_mesh *m = &s->mesh;
    const int32_t fixed = esi_collapse_anchor(m, u, v), ends[2] = {u, v};

    if (!esi_collapse_gather(m, &s->star, ESI_MIN(u, v), ESI_MAX(u, v))) return false;
    for (int i = 0; i < 2; i++) {
        float position[3];

        if (fixed >= 0 && ends[i] != fixed) continue;
        memcpy(position, m->vertices[ends[i]].position, sizeof position);
        if (esi_collapse_folds(m, &s->star, position)) continue;
        esi_collapse_apply(m, &s->star, position);
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------------- flip */

/* The one other face with both vertices, or -1 if there is none or several. */
static int32_t face_across(const esi_collapse_mesh *m, int32_t face, int32_t a, int32_t b)
{
    int32_t found = -1;

    for (ESI_COLLAPSE_EACH(m, a, corner)) {
        const int32_t *v = m->faces[corner / 3].vertex;

        if (v[0] < 0 || corner / 3 == face || (v[0] != b && v[1] != b && v[2] != b)) continue;
        if (found >= 0) return -1;
        found = corner / 3;
    }
    return found;
}

static void replace_vertex(esi_collapse_mesh *m, int32_t face, int32_t from, int32_t to)
{
    int k = 0;

    while (m->faces[face].vertex[k] != from) k++;
    const int32_t corner = 3 * face + k;
    esi_collapse_unlink(m, corner);
    m->faces[face].vertex[k] = to;
    m->faces[face].next[k] = m->vertices[to].first;
    m->vertices[to].first = corner;
}

/* The corner points of a face with one vertex replaced, and how its normal lies to `normal`. */
static bool good_replacement(const esi_collapse_mesh *m, int32_t face, int32_t from, int32_t to, const double normal[3])
{
    double p[3][3], cross[3];

    for (int k = 0; k < 3; k++) {
        const int32_t v = m->faces[face].vertex[k];
        esi_collapse_position(p[k], m, v == from ? to : v);
    }
    esi_vec_face_cross(cross, p[0], p[1], p[2]);
    return !without_area(p) && esi_vec_dot(cross, normal) > 0.0;
}

/* Side a -> b of the face becomes one from its third vertex c to the neighbour's, d: faces a d c and b c d. */
static bool try_flip(stitcher *s, int32_t face, int side)
{
    esi_collapse_mesh *m = &s->mesh;
    const int32_t *v = m->faces[face].vertex;
    const int32_t a = v[side], b = v[(side + 1) % 3], c = v[(side + 2) % 3], across = face_across(m, face, a, b);
    double p[3][3], normal[3];

    if (across < 0) return false;
    const int32_t *w = m->faces[across].vertex;
    const int32_t d = w[0] != a && w[0] != b ? w[0] : w[1] != a && w[1] != b ? w[1] : w[2];
    if (d == c || esi_collapse_edge_count(m, c, d) > 0) return false;
    corners_of(p, m, across);
    esi_vec_face_cross(normal, p[0], p[1], p[2]);
    if (!good_replacement(m, face, b, d, normal) || !good_replacement(m, across, a, c, normal)) return false;
    replace_vertex(m, face, b, d);
    replace_vertex(m, across, a, c);
    return true;
}

/* ----------------------------------------------------------------------- driver */

static bool mend(stitcher *s, int32_t face)
{
    const int32_t *v = s->mesh.faces[face].vertex;
    double p[3][3], sides[3];
    int order[3];

    corners_of(p, &s->mesh, face);
    sides_of(sides, p);
    order_sides(order, sides);
    if (sides[order[2]] == 0.0 && try_collapse(s, v[order[2]], v[(order[2] + 1) % 3])) return true;
    if (try_flip(s, face, order[0])) return true;
    return try_collapse(s, v[order[2]], v[(order[2] + 1) % 3]) || try_collapse(s, v[order[1]], v[(order[1] + 1) % 3]);
}

/* List of the faces without area, esi_alloc'ed. */
static espalier_status find_faces(espalier_context *ctx, const esi_collapse_mesh *m, int32_t **list, int64_t *count)
{
    int64_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            *list = esi_alloc(ctx, (size_t)n, sizeof **list, "faces without area");
            if (!*list) return ESPALIER_ERR_RESOURCE;
            n = 0;
        }
        for (int64_t f = 0; f < m->n_faces; f++) {
            if (m->faces[f].vertex[0] < 0 || !face_without_area(m, (int32_t)f)) continue;
            if (pass == 1) (*list)[n] = (int32_t)f;
            n++;
        }
    }
    *count = n;
    return esi_check_cancel(ctx);
}

/* Until nothing more can be done; what is left stays in the list. */
static espalier_status mend_all(espalier_context *ctx, stitcher *s, int32_t *list, int64_t *count)
{
    bool again = *count > 0;

    while (again) {
        int64_t left = 0;

        again = false;
        for (int64_t i = 0; i < *count; i++) {
            if (i % 4096 == 0 && esi_check_cancel(ctx) != ESPALIER_OK) return ESPALIER_ERR_CANCELLED;
            if (s->mesh.faces[list[i]].vertex[0] < 0 || !face_without_area(&s->mesh, list[i])) continue;
            if (mend(s, list[i])) {
                again = true;
                s->changed++;
            } else {
                list[left++] = list[i];
            }
        }
        *count = left;
    }
    return ESPALIER_OK;
}

espalier_status esi_mesh_restitch_degenerate_faces(espalier_context *ctx, esi_mesh *mesh, int64_t *changed, int64_t *left)
{
    esi_edges edges = {0};
    int32_t *list = NULL;
    int64_t count = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;
    stitcher *s = esi_calloc(ctx, 1, sizeof *s, "restitching");

    if (!s) goto done;
    st = esi_edges_build(ctx, &edges, mesh);
    if (st == ESPALIER_OK) st = esi_collapse_open(ctx, &s->mesh, mesh, &edges);
    esi_edges_free(ctx, &edges);
    if (st != ESPALIER_OK) goto done;
    s->changed = mesh->n_faces - s->mesh.live_faces;       /* repeated indices */
    st = find_faces(ctx, &s->mesh, &list, &count);
    if (st == ESPALIER_OK) st = mend_all(ctx, s, list, &count);
    if (st == ESPALIER_OK) st = esi_collapse_store(ctx, &s->mesh, mesh);
    if (st != ESPALIER_OK) goto done;
    if (changed) *changed = s->changed;
    if (left) *left = count;
done:
    if (s) esi_collapse_close(ctx, &s->mesh);
    esi_free(ctx, list);
    esi_free(ctx, s);
    return st;
}
