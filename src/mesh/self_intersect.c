/* SPDX-License-Identifier: MIT
 *
 * self_intersect.c: pairs of faces that meet where they should not. Candidates come from the boxes of the hierarchy; the tests use exact
 * orientation signs only, so that touching counts as meeting and nothing else does. Faces without area (three points on a line, exactly)
 * take no part.
 */
#include "mesh/compare.h"
#include "mesh/predicates.h"

#define CHUNK 1024                 /* faces of a task */

typedef struct triangle {
    const float *p[3];
    int x, y;                      /* coordinates in whose plane it has an area, -1 = none */
} triangle;

static int other_axis(int axis, int by)
{
    return (axis + by) % 3;
}

static triangle triangle_of(const esi_mesh *mesh, int64_t face)
{
    triangle t = {.x = -1, .y = -1};

    for (int k = 0; k < 3; k++) t.p[k] = mesh->vertices + 3 * (int64_t)mesh->faces[3 * face + k];
    for (int axis = 0; axis < 3 && t.x < 0; axis++) {
        if (esi_orient2d(t.p[0], t.p[1], t.p[2], other_axis(axis, 1), other_axis(axis, 2)) == 0) continue;
        t.x = other_axis(axis, 1);
        t.y = other_axis(axis, 2);
    }
    return t;
}

static bool same_place(const float *a, const float *b)
{
    return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

/* ------------------------------------------------------------------ in a plane */

/* c, known to be on the line a-b: within the segment? */
static bool within(const float *a, const float *b, const float *c, int x, int y)
{
    const int axes[2] = {x, y};

    for (int i = 0; i < 2; i++) {
        const int k = axes[i];
        if (c[k] < (a[k] < b[k] ? a[k] : b[k]) || c[k] > (a[k] < b[k] ? b[k] : a[k])) return false;
    }
    return true;
}

static bool segments_meet(const float *a, const float *b, const float *c, const float *d, int x, int y)
{
    const int abc = esi_orient2d(a, b, c, x, y), abd = esi_orient2d(a, b, d, x, y);
    const int cda = esi_orient2d(c, d, a, x, y), cdb = esi_orient2d(c, d, b, x, y);

    if (abc * abd < 0 && cda * cdb < 0) return true;
    return (abc == 0 && within(a, b, c, x, y)) || (abd == 0 && within(a, b, d, x, y)) || (cda == 0 && within(c, d, a, x, y)) ||
           (cdb == 0 && within(c, d, b, x, y));
}

static bool point_in(const float *p, const triangle *t)
{
    int low = 0, high = 0;

    for (int k = 0; k < 3; k++) {
        const int side = esi_orient2d(t->p[k], t->p[(k + 1) % 3], p, t->x, t->y);
        if (side < low) low = side;
        if (side > high) high = side;
    }
    return low == 0 || high == 0;
}

static bool flat_segment_meets(const float *a, const float *b, const triangle *t)
{
    if (point_in(a, t) || point_in(b, t)) return true;
    for (int k = 0; k < 3; k++)
        if (segments_meet(a, b, t->p[k], t->p[(k + 1) % 3], t->x, t->y)) return true;
    return false;
}

/* -------------------------------------------------------------------- in space */

static bool segment_meets(const float *a, const float *b, const triangle *t)
{
    const int side_a = esi_orient3d(t->p[0], t->p[1], t->p[2], a), side_b = esi_orient3d(t->p[0], t->p[1], t->p[2], b);
    int low = 0, high = 0;

    if (side_a * side_b > 0) return false;
    if (side_a == 0 && side_b == 0) return flat_segment_meets(a, b, t);
    for (int k = 0; k < 3; k++) {
        const int side = esi_orient3d(a, b, t->p[k], t->p[(k + 1) % 3]);
        if (side < low) low = side;
        if (side > high) high = side;
    }
    return low == 0 || high == 0;
}

/* All of t on one side of the plane of s. */
static bool one_side(const triangle *t, const triangle *s)
{
    const int first = esi_orient3d(s->p[0], s->p[1], s->p[2], t->p[0]);

    return first != 0 && esi_orient3d(s->p[0], s->p[1], s->p[2], t->p[1]) == first &&
           esi_orient3d(s->p[0], s->p[1], s->p[2], t->p[2]) == first;
}

static bool strangers_meet(const triangle *s, const triangle *t)
{
    if (one_side(t, s) || one_side(s, t)) return false;
    for (int k = 0; k < 3; k++)
        if (segment_meets(s->p[k], s->p[(k + 1) % 3], t) || segment_meets(t->p[k], t->p[(k + 1) % 3], s)) return true;
    return false;
}

/* With a common edge a-b, in s and t: only flat and to the same side. */
static bool edge_neighbours_meet(const float *a, const float *b, const float *c, const float *d, const triangle *s)
{
    return esi_orient3d(a, b, c, d) == 0 && esi_orient2d(a, b, c, s->x, s->y) == esi_orient2d(a, b, d, s->x, s->y);
}

static bool triangles_meet(const triangle *s, const triangle *t)
{
    int common = 0, in_s = 0, in_t = 0;            /* number, and sums of the corners */

    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            if (!same_place(s->p[i], t->p[k])) continue;
            common++;
            in_s += i;
            in_t += k;
        }
    }
    switch (common) {
    case 0: return strangers_meet(s, t);
    /* What they share is convex and ends, seen from the common vertex, at the far side of one of them. */
    case 1:
        return segment_meets(s->p[(in_s + 1) % 3], s->p[(in_s + 2) % 3], t) ||
               segment_meets(t->p[(in_t + 1) % 3], t->p[(in_t + 2) % 3], s);
    case 2: return edge_neighbours_meet(s->p[(4 - in_s) % 3], s->p[(5 - in_s) % 3], s->p[3 - in_s], t->p[3 - in_t], s);
    default: return true;
    }
}

/* ---------------------------------------------------------------------- search */

typedef struct search {
    const esi_mesh *mesh;
    const esi_bvh *tree;
    atomic_uchar *takes_part;      /* [n_faces] */
    int64_t *pairs;                /* [tasks] */
} search;

typedef struct query {
    search *search;
    triangle triangle;
    int64_t face, pairs;
} query;

static bool try_face(void *arg, int32_t face)
{
    query *q = arg;

    if (face <= q->face) return true;              /* each pair once */
    const triangle other = triangle_of(q->search->mesh, face);
    if (other.x < 0 || !triangles_meet(&q->triangle, &other)) return true;
    q->pairs++;
    atomic_store_explicit(&q->search->takes_part[face], 1, memory_order_relaxed);
    atomic_store_explicit(&q->search->takes_part[q->face], 1, memory_order_relaxed);
    return true;
}

static void search_chunk(void *arg, size_t task, int slot)
{
    search *s = arg;
    const int64_t first = (int64_t)task * CHUNK, end = ESI_MIN(first + CHUNK, s->mesh->n_faces);
    query q = {.search = s};

    (void)slot;
    for (int64_t f = first; f < end; f++) {
        float low[3], high[3];

        q.face = f;
        q.triangle = triangle_of(s->mesh, f);
        if (q.triangle.x < 0) continue;
        for (int k = 0; k < 3; k++) {
            low[k] = high[k] = q.triangle.p[0][k];
            for (int i = 1; i < 3; i++) {
                const float x = q.triangle.p[i][k];
                if (x < low[k]) low[k] = x;
                if (x > high[k]) high[k] = x;
            }
        }
        esi_bvh_overlap(s->tree, low, high, try_face, &q);
    }
    s->pairs[task] = q.pairs;
}

espalier_status esi_mesh_self_intersections(espalier_context *ctx, int64_t *pairs, int64_t *faces, const esi_mesh *mesh)
{
    const size_t tasks = ((size_t)mesh->n_faces + CHUNK - 1) / CHUNK;
    search s = {.mesh = mesh};
    esi_bvh *tree = NULL;
    int64_t n_pairs = 0, n_faces = 0;
    espalier_status st = ESPALIER_OK;

    if (mesh->n_faces == 0) goto done;
    st = esi_bvh_build(ctx, &tree, mesh);
    if (st != ESPALIER_OK) goto done;
    s.tree = tree;
    s.takes_part = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *s.takes_part, "faces that meet");
    s.pairs = esi_calloc(ctx, tasks, sizeof *s.pairs, "pairs that meet");
    if (!s.takes_part || !s.pairs) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t f = 0; f < mesh->n_faces; f++) atomic_init(&s.takes_part[f], 0);
    st = esi_parallel(ctx, tasks, search_chunk, &s);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < tasks; i++) n_pairs += s.pairs[i];
    for (int64_t f = 0; f < mesh->n_faces; f++) n_faces += atomic_load_explicit(&s.takes_part[f], memory_order_relaxed);
done:
    if (st == ESPALIER_OK && pairs) *pairs = n_pairs;
    if (st == ESPALIER_OK && faces) *faces = n_faces;
    esi_bvh_free(ctx, tree);
    esi_free(ctx, s.takes_part);
    esi_free(ctx, s.pairs);
    return st;
}
