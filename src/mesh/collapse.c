/* SPDX-License-Identifier: MIT
 *
 * collapse.c: edge collapses on a triangle mesh, and the tests that go before one.
 *
 * Corners of dead faces stay in the lists of vertices that did not take part, until somebody walks there: so that the cost of a collapse
 * does not depend on how many faces a vertex beside it has.
 */
#include "mesh/collapse.h"
#include "mesh/partition.h"

/* Least fatness (collapse.h) of a face: to be made, unless it was thinner; to have a direction; to have an area. */
#define NEEDLE (2e-3 * 2e-3)
#define FLAT (1e-6 * 1e-6)
#define ZERO (4e-12 * 4e-12)
#define TURN 0.5                   /* least cosine between a face's normals before and after */

/* ------------------------------------------------------------- open and store */

static void measure_box(esi_collapse_mesh *m, const esi_mesh *mesh)
{
    double half = 0.0;

    for (int k = 0; k < 3; k++) {
        double low = INFINITY, high = -INFINITY;

        for (int64_t v = 0; v < mesh->n_vertices; v++) {
            const double x = (double)mesh->vertices[3 * v + k];
            if (x < low) low = x;
            if (x > high) high = x;
        }
        m->centre[k] = low <= high ? 0.5 * (low + high) : 0.0;
        if (high - m->centre[k] > half) half = high - m->centre[k];
    }
    m->scale = half > 0.0 ? 1.0 / half : 1.0;
}

/* Mark the vertices of edges whose count is not 2. `degree`: of the curve, and the count of its edges; scratch [n_vertices][2], zero. */
static espalier_status mark_curves(espalier_context *ctx, esi_collapse_mesh *m, const esi_edges *edges, int32_t (*degree)[2])
{
    espalier_status st = ESPALIER_OK;

    for (int64_t e = 0; e < edges->count && st == ESPALIER_OK; e++) {
        const esi_edge *edge = &edges->edges[e];
        const int32_t ends[2] = {edge->a, edge->b};

        for (int i = 0; edge->count != 2 && i < 2; i++) {
            esi_collapse_vertex *v = &m->vertices[ends[i]];

            if (degree[ends[i]][0] && degree[ends[i]][1] != edge->count) v->flags |= ESI_COLLAPSE_FIXED;
            degree[ends[i]][0]++;
            degree[ends[i]][1] = edge->count;
            v->flags |= ESI_COLLAPSE_CURVE;
        }
        st = esi_poll(ctx, e);
    }
    for (int64_t v = 0; v < m->n_vertices; v++)
        if (degree[v][0] != 0 && degree[v][0] != 2) m->vertices[v].flags |= ESI_COLLAPSE_FIXED;
    return st;
}

static espalier_status find_components(espalier_context *ctx, esi_collapse_mesh *m, int32_t *parent)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t v = 0; v < m->n_vertices; v++) parent[v] = (int32_t)v;
    for (int64_t f = 0; f < m->n_faces && st == ESPALIER_OK; f++) {
        const int32_t *v = m->faces[f].vertex;

        st = esi_poll(ctx, f);
        if (v[0] < 0) continue;
        esi_union_join(parent, v[0], v[1]);
        esi_union_join(parent, v[0], v[2]);
    }
    for (int64_t v = 0; v < m->n_vertices; v++) m->vertices[v].component = esi_union_root(parent, (int32_t)v);
    memset(parent, 0, (size_t)m->n_vertices * sizeof *parent);          /* from here on component_faces */
    for (int64_t f = 0; f < m->n_faces; f++)
        if (m->faces[f].vertex[0] >= 0) parent[m->vertices[m->faces[f].vertex[0]].component]++;
    return st;
}

espalier_status esi_collapse_open(espalier_context *ctx, esi_collapse_mesh *m, const esi_mesh *mesh, const esi_edges *edges)
{
    int32_t (*degree)[2] = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    memset(m, 0, sizeof *m);
    m->n_vertices = mesh->n_vertices;
    m->n_faces = mesh->n_faces;
    m->vertices = esi_calloc(ctx, (size_t)mesh->n_vertices, sizeof *m->vertices, "collapse vertices");
    m->faces = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *m->faces, "collapse faces");
    m->component_faces = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *m->component_faces, "collapse components");
    degree = esi_calloc(ctx, (size_t)mesh->n_vertices, sizeof *degree, "curve degrees");
    if (!m->vertices || !m->faces || !m->component_faces || !degree) goto done;

    measure_box(m, mesh);
    for (int64_t v = 0; v < m->n_vertices; v++) {
        memcpy(m->vertices[v].position, mesh->vertices + 3 * v, sizeof m->vertices[v].position);
        m->vertices[v].first = -1;
    }
    st = ESPALIER_OK;
    for (int64_t f = m->n_faces - 1; f >= 0 && st == ESPALIER_OK; f--) {     /* backwards, so that the lists ascend */
        const int32_t *v = mesh->faces + 3 * f;
        esi_collapse_face *face = &m->faces[f];

        st = esi_poll(ctx, f);
        if (v[0] == v[1] || v[1] == v[2] || v[2] == v[0]) {
            face->vertex[0] = -1;
            continue;
        }
        for (int k = 0; k < 3; k++) {
            face->vertex[k] = v[k];
            face->next[k] = m->vertices[v[k]].first;
            m->vertices[v[k]].first = (int32_t)(3 * f + k);
        }
        m->live_faces++;
    }
    if (st == ESPALIER_OK) st = mark_curves(ctx, m, edges, degree);
    if (st == ESPALIER_OK) st = find_components(ctx, m, m->component_faces);
done:
    esi_free(ctx, degree);
    if (st != ESPALIER_OK) esi_collapse_close(ctx, m);
    return st;
}

void esi_collapse_close(espalier_context *ctx, esi_collapse_mesh *m)
{
    esi_free(ctx, m->vertices);
    esi_free(ctx, m->faces);
    esi_free(ctx, m->component_faces);
    memset(m, 0, sizeof *m);
}

espalier_status esi_collapse_store(espalier_context *ctx, const esi_collapse_mesh *m, esi_mesh *mesh)
{
    esi_mesh result = {0};
    espalier_status st = ESPALIER_ERR_RESOURCE;
    int64_t vertices = 0, faces = 0;
    int32_t *number = esi_calloc(ctx, (size_t)m->n_vertices, sizeof *number, "vertex numbers");

    if (!number) goto done;
    for (int64_t f = 0; f < m->n_faces; f++)
        for (int k = 0; m->faces[f].vertex[0] >= 0 && k < 3; k++) number[m->faces[f].vertex[k]] = 1;
    for (int64_t v = 0; v < m->n_vertices; v++) vertices += number[v];
    st = esi_mesh_new(ctx, &result, vertices, m->live_faces);
    if (st != ESPALIER_OK) goto done;

    vertices = 0;
    for (int64_t v = 0; v < m->n_vertices; v++) {
        if (!number[v]) continue;
        memcpy(result.vertices + 3 * vertices, m->vertices[v].position, sizeof m->vertices[v].position);
        number[v] = (int32_t)vertices++;
    }
    for (int64_t f = 0; f < m->n_faces; f++) {
        if (m->faces[f].vertex[0] < 0) continue;
        for (int k = 0; k < 3; k++) result.faces[3 * faces + k] = number[m->faces[f].vertex[k]];
        faces++;
    }
    esi_mesh_free(ctx, mesh);
    *mesh = result;
done:
    esi_free(ctx, number);
    return st;
}

/* -------------------------------------------------------------------- walking */

static inline bool face_has(const esi_collapse_face *face, int32_t v)
{
    return face->vertex[0] == v || face->vertex[1] == v || face->vertex[2] == v;
}

/* A walk over the live corners of a vertex that takes the dead ones out of its list:
 *     int32_t *link = &m->vertices[v].first;
 *     for (int32_t corner; (corner = live_corner(m, &link)) >= 0; link = after(m, corner)) ... */
static inline int32_t live_corner(esi_collapse_mesh *m, int32_t **link)
{
    while (**link >= 0) {
        const esi_collapse_face *face = &m->faces[**link / 3];

        if (face->vertex[0] >= 0) return **link;
        **link = face->next[**link % 3];
    }
    return -1;
}

static inline int32_t *after(esi_collapse_mesh *m, int32_t corner)
{
    return &m->faces[corner / 3].next[corner % 3];
}

void esi_collapse_unlink(esi_collapse_mesh *m, int32_t corner)
{
    int32_t *link = &m->vertices[m->faces[corner / 3].vertex[corner % 3]].first;

    while (*link != corner) link = &m->faces[*link / 3].next[*link % 3];
    *link = m->faces[corner / 3].next[corner % 3];
}

int32_t esi_collapse_edge_count(const esi_collapse_mesh *m, int32_t a, int32_t b)
{
    int32_t count = 0;

    for (ESI_COLLAPSE_EACH(m, a, corner))
        if (m->faces[corner / 3].vertex[0] >= 0 && face_has(&m->faces[corner / 3], b)) count++;
    return count;
}

/* Two fresh values for marks. */
static int32_t next_generation(esi_collapse_mesh *m)
{
    if (m->generation > INT32_MAX - 4) {
        for (int64_t v = 0; v < m->n_vertices; v++) m->vertices[v].mark = 0;
        m->generation = 0;
    }
    m->generation += 2;
    return m->generation;
}

int32_t esi_collapse_ring(esi_collapse_mesh *m, int32_t v, int32_t *ring, int32_t capacity)
{
    const int32_t seen = next_generation(m);
    int32_t n = 0, *link = &m->vertices[v].first;

    m->vertices[v].mark = seen;
    for (int32_t corner; (corner = live_corner(m, &link)) >= 0; link = after(m, corner)) {
        for (int k = 0; k < 3; k++) {
            const int32_t w = m->faces[corner / 3].vertex[k];

            if (m->vertices[w].mark == seen) continue;
            if (n == capacity) return n;
            m->vertices[w].mark = seen;
            ring[n++] = w;
        }
    }
    return n;
}

/* --------------------------------------------------------------- link condition */

/* Faces around a: those with b too are the ones that go; the vertices of all are marked `seen`. */
static bool gather_a(esi_collapse_mesh *m, esi_star *star, int32_t seen)
{
    int32_t *link = &m->vertices[star->a].first;

    for (int32_t corner; (corner = live_corner(m, &link)) >= 0; link = after(m, corner)) {
        const esi_collapse_face *face = &m->faces[corner / 3];
        const int k = (int)(corner % 3);
        const int32_t next = face->vertex[k == 2 ? 0 : k + 1], previous = face->vertex[k == 0 ? 2 : k - 1];

        if (star->n_kept + star->n_gone >= ESI_STAR_MAX) return false;
        m->vertices[next].mark = m->vertices[previous].mark = seen;
        if (next == star->b || previous == star->b) {
            star->third[star->n_gone] = next == star->b ? previous : next;
            star->gone[star->n_gone++] = corner / 3;
        } else {
            star->kept[star->n_kept++] = corner;
        }
    }
    return star->n_gone > 0;
}

/* Do a and b have a common neighbour that no face of their edge has, or two faces that would become the same? */
static bool gather_b(esi_collapse_mesh *m, esi_star *star, int32_t seen, int32_t is_third)
{
    int32_t *link = &m->vertices[star->b].first;

    for (int32_t corner; (corner = live_corner(m, &link)) >= 0; link = after(m, corner)) {
        const esi_collapse_face *face = &m->faces[corner / 3];
        const int k = (int)(corner % 3);
        const int32_t next = face->vertex[k == 2 ? 0 : k + 1], previous = face->vertex[k == 0 ? 2 : k - 1];

        if (next == star->a || previous == star->a) continue;
        if (star->n_kept + star->n_gone >= ESI_STAR_MAX) return false;
        const int32_t mark_next = m->vertices[next].mark, mark_previous = m->vertices[previous].mark;
        if (mark_next == seen || mark_previous == seen) return false;
        if (mark_next == is_third && mark_previous == is_third) {
            for (int32_t i = 0; i < star->n_kept; i++) {
                const esi_collapse_face *other = &m->faces[star->kept[i] / 3];
                if (face_has(other, next) && face_has(other, previous)) return false;
            }
        }
        star->kept[star->n_kept++] = corner;
    }
    return true;
}

/* Where a and b both have an edge to a third vertex of a face that goes, the two become one: not if both belong to curves. */
static bool joins_curves(const esi_collapse_mesh *m, const esi_star *star)
{
    for (int32_t i = 0; i < star->n_gone; i++) {
        const int32_t c = star->third[i];

        if ((m->vertices[c].flags & ESI_COLLAPSE_CURVE) && esi_collapse_edge_count(m, star->a, c) != 2 &&
            esi_collapse_edge_count(m, star->b, c) != 2) return true;
    }
    return false;
}

bool esi_collapse_gather(esi_collapse_mesh *m, esi_star *star, int32_t a, int32_t b)
{
    const int32_t seen = next_generation(m), is_third = seen + 1;
    const uint32_t fa = m->vertices[a].flags, fb = m->vertices[b].flags;

    star->a = a;
    star->b = b;
    star->n_kept = star->n_gone = 0;
    if (!gather_a(m, star, seen)) return false;
    if (fa & fb & ESI_COLLAPSE_FIXED) return false;
    if ((fa & fb & ESI_COLLAPSE_CURVE) && star->n_gone == 2) return false;      /* would pinch */
    for (int32_t i = 0; i < star->n_gone; i++) {
        if (m->vertices[star->third[i]].mark == is_third) return false;          /* the same face twice */
        m->vertices[star->third[i]].mark = is_third;
    }
    return gather_b(m, star, seen, is_third) && !joins_curves(m, star);
}

/* ----------------------------------------------------------------------- folds */

bool esi_collapse_folds(const esi_collapse_mesh *m, esi_star *star, const float position[3])
{
    double target[3], mean[3] = {0.0, 0.0, 0.0};
    int32_t n_flat = 0;

    esi_collapse_local(target, m, position);
    for (int32_t i = 0; i < star->n_kept; i++) {
        const int32_t corner = star->kept[i];
        const esi_collapse_face *face = &m->faces[corner / 3];
        double p[3][3], *before = star->before[i], *after = star->after[i];

        for (int k = 0; k < 3; k++) esi_collapse_position(p[k], m, face->vertex[k]);
        esi_vec_face_cross(before, p[0], p[1], p[2]);
        const double was = esi_collapse_fatness(before, p);
        memcpy(p[corner % 3], target, sizeof target);
        esi_vec_face_cross(after, p[0], p[1], p[2]);
        const double is = esi_collapse_fatness(after, p);
        if (was <= FLAT) {                                  /* it has no direction that could be kept */
            if (was > ZERO && is <= ZERO) return true;
            star->flat[n_flat++] = i;
            continue;
        }
        if (is < NEEDLE && is < was) return true;
        const double dot = esi_vec_dot(before, after), bound = esi_vec_dot(before, before) * esi_vec_dot(after, after);
        if (!(dot > 0.0) || dot * dot < TURN * TURN * bound) return true;
        for (int k = 0; k < 3; k++) mean[k] += before[k];
    }
    for (int32_t i = 0; i < n_flat; i++)                    /* what was flat must not come to face the other way */
        if (esi_vec_dot(star->after[star->flat[i]], mean) < 0.0) return true;
    return false;
}

/* ----------------------------------------------------------------------- apply */

void esi_collapse_apply(esi_collapse_mesh *m, const esi_star *star, const float position[3])
{
    esi_collapse_vertex *a = &m->vertices[star->a], *b = &m->vertices[star->b];

    for (int32_t i = 0; i < star->n_gone; i++) m->faces[star->gone[i]].vertex[0] = -1;
    m->live_faces -= star->n_gone;
    m->component_faces[a->component] -= star->n_gone;
    /* The list of a anew from the kept corners: in the star's order, a's first. */
    a->first = -1;
    for (int32_t i = star->n_kept - 1; i >= 0; i--) {
        esi_collapse_face *face = &m->faces[star->kept[i] / 3];

        face->vertex[star->kept[i] % 3] = star->a;
        face->next[star->kept[i] % 3] = a->first;
        a->first = star->kept[i];
    }
    b->first = -1;
    memcpy(a->position, position, sizeof a->position);
    a->flags |= b->flags & (ESI_COLLAPSE_CURVE | ESI_COLLAPSE_FIXED);
}
