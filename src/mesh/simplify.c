/* SPDX-License-Identifier: MIT
 *
 * simplify.c: edge collapses by priority. The cheapest collapse by quadric error goes first (Garland, Heckbert 1997); quadrics are those
 * of the present faces, weighted by area, not sums over all that has been ("memoryless": Lindstrom, Turk 1998, Hoppe 1999), which halves
 * the mean error against accumulated ones. A small share of edge length^2 * area orders flat places and keeps their triangles round.
 *
 * Order: by (cost in float, edge). After a collapse the edges of the new vertex are costed at once; those of its neighbours
 * are marked, and when one comes to the top it is costed again and goes back if it is no longer the cheapest.
 * A collapse is refused when it would change the surface's topology, fold or flatten a face (collapse.h); it is tried again after its
 * surroundings have changed. If only the best place folds, the end points and the middle are tried at their own cost.
 */
#include "mesh/collapse.h"
#include "mesh/collapse_queue.h"
#include "mesh/partition.h"
#include "mesh/simplify.h"

#define CHUNK 16384                /* edges of a task */
#define SPRING 1e-4                /* to the middle of the edge, relative to the quadric */
#define LENGTH_SHARE 1e-5          /* of length^2 in the cost */
#define FACE_SHARE (1.0 / 3.0)     /* of a face's quadric for each of its vertices */
#define RING_MAX (2 * ESI_STAR_MAX)
#define CURVE_WALK 512             /* vertices on curves with more faces get no planes across the curve */
#define RETRY_MAX 64               /* refused collapses at vertices with so many neighbours wait for their other end */

typedef struct simplifier {
    espalier_context *ctx;
    const esi_simplify_options *options;
    esi_collapse_mesh mesh;
    esi_quadric *quadrics;         /* [n_vertices], local coordinates */
    esi_collapse_queue queue;      /* a < b: at the best place; a > b: at an end point or the middle */
    const esi_edge *edges;         /* of the start, for the first costs */
    int64_t n_edges;
    float *costs;
    esi_star star;
    int32_t ring[RING_MAX], far_ring[RING_MAX];
    esi_simplify_stats stats;
} simplifier;

static espalier_status push(simplifier *s, esi_candidate c)
{
    return esi_collapse_queue_push(s->ctx, &s->queue, c);
}

/* -------------------------------------------------------------------- quadrics */

/* Of a face with that cross product through `point`: its vertices' share of area * distance^2. */
static inline void face_quadric(esi_quadric *q, const double cross[3], const double point[3], double share)
{
    const double length2 = esi_vec_dot(cross, cross);

    /* Weight area = length / 2, unit normal = cross / length. */
    esi_quadric_set_plane(q, cross, point, length2 > 0.0 ? 0.5 * share / sqrt(length2) : 0.0);
}

/* Plane through a side of a face, square to the face. */
static void side_quadric(const simplifier *s, esi_quadric *q, const esi_collapse_face *face, int side)
{
    double p[3][3], cross[3], along[3], across[3];

    memset(q, 0, sizeof *q);
    for (int k = 0; k < 3; k++) esi_collapse_position(p[k], &s->mesh, face->vertex[(side + k) % 3]);
    esi_vec_face_cross(cross, p[0], p[1], p[2]);
    for (int k = 0; k < 3; k++) along[k] = p[1][k] - p[0][k];
    across[0] = along[1] * cross[2] - along[2] * cross[1];
    across[1] = along[2] * cross[0] - along[0] * cross[2];
    across[2] = along[0] * cross[1] - along[1] * cross[0];
    const double length2 = esi_vec_dot(across, across);
    if (!(length2 > 0.0)) return;
    esi_quadric_set_plane(q, across, p[0], s->options->boundary_weight * esi_vec_dot(along, along) / length2);
}

/* Curve vertices: the faces anew, and planes through the sides that make the curve. */
static void curve_vertex_quadric(simplifier *s, int32_t v)
{
    const esi_collapse_mesh *m = &s->mesh;
    esi_quadric sum = {0}, q;
    int walked = 0;

    for (ESI_COLLAPSE_EACH(m, v, counted))
        if (++walked > CURVE_WALK) return;
    for (ESI_COLLAPSE_EACH(m, v, corner)) {
        const esi_collapse_face *face = &m->faces[corner / 3];
        double p[3][3], cross[3];

        if (face->vertex[0] < 0) continue;
        for (int k = 0; k < 3; k++) esi_collapse_position(p[k], m, face->vertex[k]);
        esi_vec_face_cross(cross, p[0], p[1], p[2]);
        face_quadric(&q, cross, p[0], FACE_SHARE);
        esi_quadric_add(&sum, &q);
        for (int i = 0; i < 2 && s->options->keep_boundary; i++) {
            const int side = (int)((corner % 3 + 2 * i) % 3);            /* the one from v, the one to v */
            const int32_t other = face->vertex[(corner % 3 + 1 + i) % 3];

            if (!(m->vertices[other].flags & ESI_COLLAPSE_CURVE) || esi_collapse_edge_count(m, v, other) == 2) continue;
            side_quadric(s, &q, face, side);
            esi_quadric_add(&sum, &q);
        }
    }
    s->quadrics[v] = sum;
}

static espalier_status first_quadrics(simplifier *s)
{
    const esi_collapse_mesh *m = &s->mesh;
    espalier_status st = ESPALIER_OK;

    for (int64_t f = 0; f < m->n_faces && st == ESPALIER_OK; f++) {
        const int32_t *v = m->faces[f].vertex;
        double p[3][3], cross[3];
        esi_quadric q;

        st = esi_poll(s->ctx, f);
        if (v[0] < 0) continue;
        for (int k = 0; k < 3; k++) esi_collapse_position(p[k], m, v[k]);
        esi_vec_face_cross(cross, p[0], p[1], p[2]);
        face_quadric(&q, cross, p[0], FACE_SHARE);
        for (int k = 0; k < 3; k++) esi_quadric_add(&s->quadrics[v[k]], &q);
    }
    for (int64_t v = 0; v < m->n_vertices && st == ESPALIER_OK; v++) {
        if (m->vertices[v].flags & ESI_COLLAPSE_CURVE) curve_vertex_quadric(s, (int32_t)v);
        st = esi_poll(s->ctx, v);
    }
    return st;
}

static void subtract(esi_quadric *from, const esi_quadric *q)
{
    from->xx -= q->xx;
    from->xy -= q->xy;
    from->xz -= q->xz;
    from->yy -= q->yy;
    from->yz -= q->yz;
    from->zz -= q->zz;
    from->x -= q->x;
    from->y -= q->y;
    from->z -= q->z;
    from->c -= q->c;
}

/* Take the faces that go or change out of their vertices' quadrics. Before the collapse. */
static void take_out(simplifier *s)
{
    const esi_star *star = &s->star;
    esi_quadric q;

    for (int32_t i = 0; i < star->n_kept; i++) {
        const int32_t corner = star->kept[i], *v = s->mesh.faces[corner / 3].vertex;
        const int k = (int)(corner % 3);
        double p[3];

        esi_collapse_position(p, &s->mesh, v[k]);
        face_quadric(&q, star->before[i], p, FACE_SHARE);
        subtract(&s->quadrics[v[k == 2 ? 0 : k + 1]], &q);
        subtract(&s->quadrics[v[k == 0 ? 2 : k - 1]], &q);
    }
    for (int32_t i = 0; i < star->n_gone; i++) {
        const int32_t *v = s->mesh.faces[star->gone[i]].vertex;
        double p[3][3], cross[3];

        for (int k = 0; k < 3; k++) esi_collapse_position(p[k], &s->mesh, v[k]);
        esi_vec_face_cross(cross, p[0], p[1], p[2]);
        face_quadric(&q, cross, p[0], FACE_SHARE);
        subtract(&s->quadrics[star->third[i]], &q);
    }
}

/* And the changed faces in, after it. The new vertex begins at zero, so that rounding errors do not pile up. */
static void put_in(simplifier *s)
{
    const esi_star *star = &s->star;
    esi_quadric q, sum = {0};
    double p[3];

    esi_collapse_position(p, &s->mesh, star->a);
    for (int32_t i = 0; i < star->n_kept; i++) {
        const int32_t corner = star->kept[i], *v = s->mesh.faces[corner / 3].vertex;
        const int k = (int)(corner % 3);

        face_quadric(&q, star->after[i], p, FACE_SHARE);
        esi_quadric_add(&s->quadrics[v[k == 2 ? 0 : k + 1]], &q);
        esi_quadric_add(&s->quadrics[v[k == 0 ? 2 : k - 1]], &q);
        esi_quadric_add(&sum, &q);
    }
    s->quadrics[star->a] = sum;
}

/* ------------------------------------------------------------------------ cost */

typedef struct place {
    double point[3];               /* local */
    int32_t vertex;                /* it is exactly this vertex's, or -1 */
    double error;                  /* the quadric there */
    double cost;
} place;

/* The part of the cost that does not depend on the place. */
static double length_cost(const esi_quadric *q, const double a[3], const double b[3])
{
    const double d[3] = {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
    return LENGTH_SHARE * esi_vec_dot(d, d) * esi_quadric_weight(q);
}

static int32_t anchor(const simplifier *s, int32_t a, int32_t b)
{
    return s->options->keep_boundary ? esi_collapse_anchor(&s->mesh, a, b) : -1;
}

/* Where a-b should go, and what that costs. */
static void best_place(const simplifier *s, int32_t a, int32_t b, place *out)
{
    const int32_t fixed = anchor(s, a, b);
    esi_quadric q = s->quadrics[a];
    double pa[3], pb[3], middle[3], reach = 0.0, length2 = 0.0;

    esi_quadric_add(&q, &s->quadrics[b]);
    esi_collapse_position(pa, &s->mesh, a);
    esi_collapse_position(pb, &s->mesh, b);
    out->vertex = fixed;
    if (fixed >= 0) {
        memcpy(out->point, fixed == a ? pa : pb, sizeof out->point);
        out->error = esi_quadric_value(&q, out->point);
    } else {
        const double error_a = esi_quadric_value(&q, pa), error_b = esi_quadric_value(&q, pb);

        for (int k = 0; k < 3; k++) middle[k] = 0.5 * (pa[k] + pb[k]);
        if (!esi_quadric_minimum(out->point, &q, middle, SPRING)) memcpy(out->point, middle, sizeof middle);
        for (int k = 0; k < 3; k++) {
            reach += (out->point[k] - middle[k]) * (out->point[k] - middle[k]);
            length2 += (pa[k] - pb[k]) * (pa[k] - pb[k]);
        }
        if (reach > 4.0 * length2) memcpy(out->point, middle, sizeof middle);
        out->error = esi_quadric_value(&q, out->point);
        if (error_a <= out->error && error_a <= error_b) {
            memcpy(out->point, pa, sizeof pa);
            out->error = error_a;
            out->vertex = a;
        } else if (error_b <= out->error) {
            memcpy(out->point, pb, sizeof pb);
            out->error = error_b;
            out->vertex = b;
        }
    }
    out->cost = out->error + length_cost(&q, pa, pb);
}

/* The other places, cheapest first: both ends and the middle. */
static void other_places(const simplifier *s, int32_t a, int32_t b, place out[3])
{
    esi_quadric q = s->quadrics[a];
    double pa[3], pb[3];

    esi_quadric_add(&q, &s->quadrics[b]);
    esi_collapse_position(pa, &s->mesh, a);
    esi_collapse_position(pb, &s->mesh, b);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) out[i].point[k] = i == 0 ? pa[k] : i == 1 ? pb[k] : 0.5 * (pa[k] + pb[k]);
        out[i].vertex = i == 0 ? a : i == 1 ? b : -1;
        out[i].error = esi_quadric_value(&q, out[i].point);
        out[i].cost = out[i].error + length_cost(&q, pa, pb);
    }
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 2 - i; k++) {
            if (out[k + 1].cost < out[k].cost) {
                const place moved = out[k];
                out[k] = out[k + 1];
                out[k + 1] = moved;
            }
        }
    }
}

/* With the sums of both vertices' stamps and revisions: a new stamp kills it, a new revision asks for the cost again. */
static esi_candidate candidate_of(const simplifier *s, int32_t a, int32_t b, double cost)
{
    const esi_collapse_vertex *va = &s->mesh.vertices[a], *vb = &s->mesh.vertices[b];
    esi_candidate c = esi_candidate_make(cost, a, b);

    c.stamp = (uint16_t)(va->stamp + vb->stamp);
    c.revision = (uint16_t)(va->revision + vb->revision);
    return c;
}

static esi_candidate cost_edge(const simplifier *s, int32_t a, int32_t b)
{
    const int32_t low = ESI_MIN(a, b), high = ESI_MAX(a, b);
    place best;

    best_place(s, low, high, &best);
    return candidate_of(s, low, high, best.cost);
}

static void cost_chunk(void *arg, size_t task, int slot)
{
    simplifier *s = arg;
    const int64_t first = (int64_t)task * CHUNK, end = ESI_MIN(first + CHUNK, s->n_edges);

    (void)slot;
    for (int64_t e = first; e < end; e++) {
        place best;

        best_place(s, s->edges[e].a, s->edges[e].b, &best);
        s->costs[e] = (float)best.cost;
    }
}

/* ------------------------------------------------------------------- collapsing */

/* Cost all edges at v anew, but for one. */
static espalier_status push_edges(simplifier *s, int32_t v, int32_t not_to)
{
    const int32_t n = esi_collapse_ring(&s->mesh, v, s->far_ring, RING_MAX);
    espalier_status st = ESPALIER_OK;

    for (int32_t i = 0; i < n && st == ESPALIER_OK; i++)
        if (s->far_ring[i] != not_to) st = push(s, cost_edge(s, v, s->far_ring[i]));
    return st;
}

/* After a collapse into a: costs of its edges, marks on its neighbours' edges, second chances for refused ones. */
static espalier_status refresh(simplifier *s, int32_t a)
{
    esi_collapse_mesh *m = &s->mesh;
    const int32_t n = esi_collapse_ring(m, a, s->ring, RING_MAX);
    espalier_status st = ESPALIER_OK;

    m->vertices[a].flags &= ~(uint32_t)ESI_COLLAPSE_BLOCKED;
    if (m->vertices[a].flags & ESI_COLLAPSE_CURVE) curve_vertex_quadric(s, a);
    for (int32_t i = 0; i < n; i++) {
        m->vertices[s->ring[i]].revision++;
        if (m->vertices[s->ring[i]].flags & ESI_COLLAPSE_CURVE) curve_vertex_quadric(s, s->ring[i]);
    }
    for (int32_t i = 0; i < n && st == ESPALIER_OK; i++) {
        esi_collapse_vertex *v = &m->vertices[s->ring[i]];

        if (!(v->flags & ESI_COLLAPSE_BLOCKED)) continue;
        v->flags &= ~(uint32_t)ESI_COLLAPSE_BLOCKED;
        v->stamp++;
        st = push_edges(s, s->ring[i], a);
    }
    for (int32_t i = 0; i < n && st == ESPALIER_OK; i++) st = push(s, cost_edge(s, a, s->ring[i]));
    return st;
}

/* Try again when something around has changed. */
static void block(simplifier *s, int32_t a, int32_t b)
{
    const int32_t ends[2] = {a, b};

    for (int i = 0; i < 2; i++)
        if (esi_collapse_ring(&s->mesh, ends[i], s->far_ring, RETRY_MAX) < RETRY_MAX)
            s->mesh.vertices[ends[i]].flags |= ESI_COLLAPSE_BLOCKED;
}

static void float_position(float out[3], const simplifier *s, const place *p)
{
    if (p->vertex >= 0) {
        memcpy(out, s->mesh.vertices[p->vertex].position, 3 * sizeof *out);
        return;
    }
    for (int k = 0; k < 3; k++) out[k] = (float)(p->point[k] / s->mesh.scale + s->mesh.centre[k]);
}

/* Error of a place as a distance in world units: the root of the area-weighted mean of squares. */
static double distance_of(const simplifier *s, int32_t a, int32_t b, const place *p)
{
    const double weight = esi_quadric_weight(&s->quadrics[a]) + esi_quadric_weight(&s->quadrics[b]);
    return weight > 0.0 ? sqrt(p->error / weight) / s->mesh.scale : 0.0;
}

static espalier_status collapse(simplifier *s, const place *p, const float position[3])
{
    esi_collapse_mesh *m = &s->mesh;
    const int32_t a = s->star.a, b = s->star.b;
    const double error = distance_of(s, a, b, p);

    take_out(s);
    /* Past the stamps of both, so that no old candidate of either is taken for a new one. */
    const uint16_t stamp = (uint16_t)(m->vertices[a].stamp + m->vertices[b].stamp + 1);
    esi_collapse_apply(m, &s->star, position);
    m->vertices[a].stamp = stamp;
    put_in(s);
    s->stats.collapses++;
    if (error > s->stats.last_error) s->stats.last_error = error;
    return refresh(s, a);
}

static bool allowed_by_counts(const simplifier *s)
{
    const esi_collapse_mesh *m = &s->mesh;
    const int32_t gone = s->star.n_gone;

    return m->live_faces - gone >= s->options->target_faces - 1 &&
           (double)(m->component_faces[m->vertices[s->star.a].component] - gone) >= s->options->min_component_faces;
}

/* The candidate is the cheapest there is. */
static espalier_status attempt(simplifier *s, esi_candidate c)
{
    const int32_t from = esi_candidate_a(&c), a = ESI_MIN(from, c.b), b = ESI_MAX(from, c.b);
    const bool second_try = from > c.b;
    place places[3];
    float position[3];

    if (!esi_collapse_gather(&s->mesh, &s->star, a, b) || !allowed_by_counts(s)) {
        s->stats.vetoed_link++;
        block(s, a, b);
        return ESPALIER_OK;
    }
    if (!second_try) {
        best_place(s, a, b, &places[0]);
        if (distance_of(s, a, b, &places[0]) > s->options->max_error) return ESPALIER_OK;
        float_position(position, s, &places[0]);
        if (!esi_collapse_folds(&s->mesh, &s->star, position)) return collapse(s, &places[0], position);
        s->stats.vetoed_flip++;
        if (anchor(s, a, b) < 0) {
            other_places(s, a, b, places);
            return push(s, candidate_of(s, b, a, places[0].cost));
        }
    } else {
        other_places(s, a, b, places);
        for (int i = 0; i < 3; i++) {
            if (distance_of(s, a, b, &places[i]) > s->options->max_error) break;
            float_position(position, s, &places[i]);
            if (!esi_collapse_folds(&s->mesh, &s->star, position)) return collapse(s, &places[i], position);
        }
    }
    block(s, a, b);
    return ESPALIER_OK;
}

/* Have its vertices changed since in more than their quadrics? */
static bool is_alive(const void *arg, const esi_candidate *c)
{
    const simplifier *s = arg;
    const esi_collapse_vertex *a = &s->mesh.vertices[esi_candidate_a(c)], *b = &s->mesh.vertices[c->b];

    return (uint16_t)(a->stamp + b->stamp) == c->stamp && a->first >= 0 && b->first >= 0;
}

static espalier_status run(simplifier *s)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t turn = 0; st == ESPALIER_OK && s->mesh.live_faces > s->options->target_faces; turn++) {
        esi_candidate c;
        bool more;

        if (turn % 16384 == 0) st = esi_check_cancel(s->ctx);
        if (st == ESPALIER_OK) st = esi_collapse_queue_pop(s->ctx, &s->queue, &c, &more);
        if (st != ESPALIER_OK || !more) break;
        if (!is_alive(s, &c)) continue;
        const int32_t from = esi_candidate_a(&c);
        if ((uint16_t)(s->mesh.vertices[from].revision + s->mesh.vertices[c.b].revision) != c.revision) {
            c = cost_edge(s, from, c.b);
            if (!esi_collapse_queue_is_next(&s->queue, &c)) {
                st = push(s, c);
                continue;
            }
        }
        st = attempt(s, c);
    }
    return st;
}

/* ------------------------------------------------------------------------ driver */

/* Costs of all edges, then the queue. */
static espalier_status fill_queue(simplifier *s)
{
    espalier_status st = esi_collapse_queue_open(s->ctx, &s->queue, is_alive, s);

    if (st != ESPALIER_OK) return st;
    s->costs = esi_alloc(s->ctx, (size_t)s->n_edges, sizeof *s->costs, "collapse costs");
    if (!s->costs) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(s->ctx, ((size_t)s->n_edges + CHUNK - 1) / CHUNK, cost_chunk, s);
    for (int64_t e = 0; st == ESPALIER_OK && e < s->n_edges; e++) {
        st = push(s, candidate_of(s, s->edges[e].a, s->edges[e].b, (double)s->costs[e]));
        if (st == ESPALIER_OK) st = esi_poll(s->ctx, e);
    }
    esi_free(s->ctx, s->costs);
    s->costs = NULL;
    return st;
}

static espalier_status open_simplifier(simplifier *s, const esi_mesh *mesh)
{
    esi_edges edges = {0};

    espalier_status st = esi_edges_build(s->ctx, &edges, mesh);
    if (st != ESPALIER_OK) goto done;
    esi_free(s->ctx, edges.corners);                        /* not needed, and large */
    edges.corners = NULL;
    st = esi_collapse_open(s->ctx, &s->mesh, mesh, &edges);
    if (st != ESPALIER_OK) goto done;
    s->quadrics = esi_calloc(s->ctx, (size_t)mesh->n_vertices, sizeof *s->quadrics, "vertex quadrics");
    if (!s->quadrics) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = first_quadrics(s);
    if (st != ESPALIER_OK) goto done;
    s->edges = edges.edges;
    s->n_edges = edges.count;
    st = fill_queue(s);
done:
    s->edges = NULL;
    esi_edges_free(s->ctx, &edges);
    return st;
}

static void close_simplifier(simplifier *s)
{
    esi_collapse_queue_close(s->ctx, &s->queue);
    esi_free(s->ctx, s->quadrics);
    esi_free(s->ctx, s->costs);
    s->quadrics = NULL;
    s->costs = NULL;
}

esi_simplify_options esi_simplify_options_default(int64_t target_faces)
{
    return (esi_simplify_options){
        .target_faces = target_faces,
        .max_error = (double)INFINITY,
        .keep_boundary = true,
        .boundary_weight = 0.4,
        .min_component_faces = 4.0,
    };
}

espalier_status esi_mesh_simplify(espalier_context *ctx, esi_mesh *mesh, const esi_simplify_options *options, esi_simplify_stats *stats)
{
    espalier_status st = ESPALIER_OK;
    simplifier *s = esi_calloc(ctx, 1, sizeof *s, "simplifier");

    if (!s) return ESPALIER_ERR_RESOURCE;
    s->ctx = ctx;
    s->options = options;
    if (mesh->n_faces > options->target_faces) {
        s->stats.passes = 1;
        st = open_simplifier(s, mesh);
        if (st == ESPALIER_OK) st = run(s);
        if (st != ESPALIER_OK) goto done;
        close_simplifier(s);                                /* room for the result */
        st = esi_collapse_store(ctx, &s->mesh, mesh);
        if (st != ESPALIER_OK) goto done;
    }
    s->stats.reached = mesh->n_faces <= options->target_faces;
    if (stats) *stats = s->stats;
done:
    close_simplifier(s);
    esi_collapse_close(ctx, &s->mesh);
    esi_free(ctx, s);
    return st;
}
