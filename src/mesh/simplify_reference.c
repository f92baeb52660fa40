/* SPDX-License-Identifier: MIT
 *
 * simplify_reference.c: the edge collapses of CuMesh (JeffreyXiang/CuMesh, src/simplify.cu) as TRELLIS.2 calls it, in the same passes
 * of disjoint collapses under a rising threshold. Which of many nearly equal edges go first is decided by the last bits, and whole passes
 * depend on it: so costs are computed in single precision as the GPU code does. Where that sums in any order or meets NaN, a fixed rule
 * holds here: sums run over ascending faces, zero-area faces have no plane, a cost that is no number or that rounding has made negative
 * never wins (as unsigned bits a negative one sorts last), and it ends when no finite cost is left.
 */
#include "mesh/partition.h"
#include "mesh/simplify.h"

#include <math.h>

#define CHUNK 8192                 /* vertices, edges or faces of a task */
#define FIRST_THRESHOLD 1e-8
#define LAST_THRESHOLD 1e30
#define EDGE_LENGTH_WEIGHT 1e-2
#define SKINNY_WEIGHT 1e-3

typedef struct vec3f { float x, y, z; } vec3f;

/* Sum of p p' over planes p = (normal, distance); [row][column], symmetric. */
typedef struct quadric4 { float m[4][4]; } quadric4;

typedef struct costs {
    const esi_mesh *mesh;
    esi_vertex_corners around;
    quadric4 *quadrics;            /* [n_vertices] */
    uint8_t *boundary;             /* [n_vertices] touches an edge of count 1 */
    double edge_length_weight, skinny_weight;
} costs;

static void costs_free(espalier_context *ctx, costs *c)
{
    esi_vertex_corners_free(ctx, &c->around);
    esi_free(ctx, c->quadrics);
    esi_free(ctx, c->boundary);
}

static vec3f vertex(const esi_mesh *mesh, int32_t v)
{
    const float *p = mesh->vertices + 3 * (int64_t)v;

    return (vec3f){p[0], p[1], p[2]};
}

static vec3f minus(vec3f a, vec3f b) { return (vec3f){a.x - b.x, a.y - b.y, a.z - b.z}; }
static float dot(vec3f a, vec3f b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static vec3f cross(vec3f a, vec3f b) { return (vec3f){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

static void add_plane(quadric4 *q, const esi_mesh *mesh, const int32_t face[3])
{
    const vec3f p = vertex(mesh, face[0]), n = cross(minus(vertex(mesh, face[1]), p), minus(vertex(mesh, face[2]), p));
    const float length = sqrtf(dot(n, n));
    float plane[4];

    if (!(length > 0.0f)) return;
    plane[0] = n.x * (1.0f / length);
    plane[1] = n.y * (1.0f / length);
    plane[2] = n.z * (1.0f / length);
    plane[3] = -(plane[0] * p.x + plane[1] * p.y + plane[2] * p.z);
    for (int row = 0; row < 4; row++)
        for (int k = 0; k < 4; k++) q->m[row][k] += plane[row] * plane[k];
}

static void sum_quadrics(void *arg, size_t task, int slot)
{
    costs *c = arg;
    const int64_t first = (int64_t)task * CHUNK, end = ESI_MIN(first + CHUNK, c->mesh->n_vertices);

    (void)slot;
    for (int64_t v = first; v < end; v++) {
        quadric4 sum = {{{0.0f}}};

        for (int32_t i = c->around.start[v]; i < c->around.start[v + 1]; i++)
            add_plane(&sum, c->mesh, c->mesh->faces + 3 * (int64_t)(c->around.corners[i] / 3));
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
static bool look_around(const costs *c, int32_t v, int32_t other, vec3f target, float *skinny, int32_t *count)
{
    for (int32_t i = c->around.start[v]; i < c->around.start[v + 1]; i++) {
        const int32_t corner = c->around.corners[i], *face = c->mesh->faces + 3 * (int64_t)(corner / 3);
        vec3f p[3], before, after, first, second, third;

        if (face[0] == other || face[1] == other || face[2] == other) continue;
        for (int k = 0; k < 3; k++) p[k] = vertex(c->mesh, face[k]);
        before = cross(minus(p[1], p[0]), minus(p[2], p[0]));
        p[corner % 3] = target;
        first = minus(p[1], p[0]);
        second = minus(p[2], p[0]);
        third = minus(p[2], p[1]);
        after = cross(first, second);
        if (dot(before, after) < 0.0f) return false;
        /* 1 for an equilateral triangle: 4 sqrt(3) area / sum of squares. */
        const float sides = dot(third, third) + dot(first, first) + dot(second, second);
        const float shape = 4.0f * 1.7320508f * (0.5f * sqrtf(dot(after, after))) / (sides > 1e-12f ? sides : 1e-12f);
        *skinny += 1.0f - (shape < 0.0f ? 0.0f : shape > 1.0f ? 1.0f : shape);
        ++*count;
    }
    return true;
}

static float edge_cost(const costs *c, int32_t a, int32_t b, float target[3])
{
    const bool only_a = c->boundary[a] && !c->boundary[b], only_b = c->boundary[b] && !c->boundary[a];
    const float share = only_a ? 1.0f : only_b ? 0.0f : 0.5f;
    const vec3f pa = vertex(c->mesh, a), pb = vertex(c->mesh, b), side = minus(pb, pa);
    const vec3f at = {pa.x * share + pb.x * (1.0f - share), pa.y * share + pb.y * (1.0f - share), pa.z * share + pb.z * (1.0f - share)};
    const float place[4] = {at.x, at.y, at.z, 1.0f}, length2 = dot(side, side);
    const quadric4 *qa = &c->quadrics[a], *qb = &c->quadrics[b];
    float cost = 0.0f, skinny = 0.0f;
    int32_t count = 0;

    memcpy(target, place, 3 * sizeof *target);
    if (!look_around(c, a, b, at, &skinny, &count) || !look_around(c, b, a, at, &skinny, &count)) return INFINITY;
    if (count) skinny /= (float)count;
    for (int row = 0; row < 4; row++) {
        float sum = 0.0f;

        for (int k = 0; k < 4; k++) sum += (qa->m[row][k] + qb->m[row][k]) * place[k];
        cost += place[row] * sum;
    }
    cost += (float)c->edge_length_weight * length2;
    cost += (float)c->skinny_weight * skinny * length2;
    return cost >= 0.0f ? cost : INFINITY;
}

/* ------------------------------------------------------------- single edges */

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
    for (int64_t e = first; e < end; e++) {
        float target[3];

        l->cost[e] = (double)edge_cost(l->costs, l->edges[2 * e], l->edges[2 * e + 1], target);
        for (int k = 0; k < 3; k++) l->target[3 * e + k] = (double)target[k];
    }
}

espalier_status esi_qem_edge_costs(espalier_context *ctx, double *cost, double *target, const esi_mesh *mesh, const int32_t *edges,
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

/* --------------------------------------------------------------------- passes */

#define NO_KEY UINT64_MAX

typedef struct pass {
    costs costs;
    esi_edges edges;
    float *cost;                   /* [edges] */
    uint64_t *lowest;              /* [n_vertices] key of the cheapest edge at it */
    float threshold;
    bool any_finite;
} pass;

static void pass_free(espalier_context *ctx, pass *p)
{
    costs_free(ctx, &p->costs);
    esi_edges_free(ctx, &p->edges);
    esi_free(ctx, p->cost);
    esi_free(ctx, p->lowest);
    memset(p, 0, sizeof *p);
}

/* Orders by cost, then by edge. */
static uint64_t edge_key(const pass *p, int64_t e)
{
    uint32_t bits;

    memcpy(&bits, &p->cost[e], sizeof bits);
    return (uint64_t)bits << 32 | (uint32_t)e;
}

static void cost_all(void *arg, size_t task, int slot)
{
    pass *p = arg;
    const int64_t first = (int64_t)task * CHUNK, end = ESI_MIN(first + CHUNK, p->edges.count);

    (void)slot;
    for (int64_t e = first; e < end; e++) {
        float target[3];
        p->cost[e] = edge_cost(&p->costs, p->edges.edges[e].a, p->edges.edges[e].b, target);
    }
}

/* The lowest key among the edges that touch a vertex of the face; none for a face that this pass has removed. */
static uint64_t face_key(const pass *p, int64_t face)
{
    const int32_t *v = p->costs.mesh->faces + 3 * face;

    if (v[0] < 0) return NO_KEY;
    const uint64_t ab = ESI_MIN(p->lowest[v[0]], p->lowest[v[1]]);

    return ESI_MIN(ab, p->lowest[v[2]]);
}

/* Every face at v holds this edge's key. */
static bool rules_around(const pass *p, int32_t v, uint64_t key)
{
    for (int32_t i = p->costs.around.start[v]; i < p->costs.around.start[v + 1]; i++)
        if (face_key(p, p->costs.around.corners[i] / 3) != key) return false;
    return true;
}

static espalier_status pass_prepare(espalier_context *ctx, pass *p, const esi_mesh *mesh)
{
    espalier_status st = esi_edges_build(ctx, &p->edges, mesh);
    if (st != ESPALIER_OK) return st;
    esi_free(ctx, p->edges.corners);                        /* not needed, and large */
    p->edges.corners = NULL;
    p->costs.edge_length_weight = EDGE_LENGTH_WEIGHT;
    p->costs.skinny_weight = SKINNY_WEIGHT;
    st = costs_prepare(ctx, &p->costs, mesh, &p->edges);
    if (st != ESPALIER_OK) return st;
    p->cost = esi_alloc(ctx, (size_t)p->edges.count, sizeof *p->cost, "collapse costs");
    p->lowest = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *p->lowest, "collapse keys");
    if (!p->cost || !p->lowest) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, ((size_t)p->edges.count + CHUNK - 1) / CHUNK, cost_all, p);
    if (st != ESPALIER_OK) return st;

    for (int64_t v = 0; v < mesh->n_vertices; v++) p->lowest[v] = NO_KEY;
    for (int64_t e = 0; e < p->edges.count && st == ESPALIER_OK; e++) {
        const esi_edge *edge = &p->edges.edges[e];
        const uint64_t key = edge_key(p, e);

        st = esi_poll(ctx, e);
        if (key < p->lowest[edge->a]) p->lowest[edge->a] = key;
        if (key < p->lowest[edge->b]) p->lowest[edge->b] = key;
        if (isfinite(p->cost[e])) p->any_finite = true;
    }
    return st;
}

/* Faces of collapsed edges get -1 as first vertex; b's other faces get a, which moves. Cancelled, it is a pass of fewer collapses. */
static espalier_status pass_collapse(espalier_context *ctx, pass *p, esi_mesh *mesh, int64_t *collapses)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t e = 0; e < p->edges.count && st == ESPALIER_OK; e++) {
        const int32_t a = p->edges.edges[e].a, b = p->edges.edges[e].b;
        const uint64_t key = edge_key(p, e);
        float target[3];

        st = esi_poll(ctx, e);
        if (!(p->cost[e] <= p->threshold) || !isfinite(p->cost[e]) || p->lowest[a] != key || p->lowest[b] != key) continue;
        if (!rules_around(p, a, key) || !rules_around(p, b, key)) continue;
        /* The stars of two collapses of a pass share no face, so this reads what the pass began with. */
        (void)edge_cost(&p->costs, a, b, target);
        memcpy(mesh->vertices + 3 * (int64_t)a, target, sizeof target);
        for (int32_t i = p->costs.around.start[b]; i < p->costs.around.start[b + 1]; i++) {
            const int32_t corner = p->costs.around.corners[i];
            int32_t *face = mesh->faces + 3 * (int64_t)(corner / 3);

            if (face[0] == a || face[1] == a || face[2] == a) face[0] = face[1] = face[2] = -1;
            else face[corner % 3] = a;
        }
        ++*collapses;
    }
    return st;
}

/* Drop dead faces, then vertices that no face names; both keep their order. `number`: scratch [n_vertices]. */
static void compact(esi_mesh *mesh, int32_t *number)
{
    int64_t faces = 0, vertices = 0;

    memset(number, 0, (size_t)mesh->n_vertices * sizeof *number);
    for (int64_t f = 0; f < mesh->n_faces; f++) {
        const int32_t *face = mesh->faces + 3 * f;
        if (face[0] < 0) continue;
        memmove(mesh->faces + 3 * faces++, face, 3 * sizeof *face);
    }
    for (int64_t i = 0; i < 3 * faces; i++) number[mesh->faces[i]] = 1;
    for (int64_t v = 0; v < mesh->n_vertices; v++) {
        if (!number[v]) continue;
        memmove(mesh->vertices + 3 * vertices, mesh->vertices + 3 * v, 3 * sizeof *mesh->vertices);
        number[v] = (int32_t)vertices++;
    }
    for (int64_t i = 0; i < 3 * faces; i++) mesh->faces[i] = number[mesh->faces[i]];
    mesh->n_faces = faces;
    mesh->n_vertices = vertices;
}

espalier_status esi_mesh_simplify_reference(espalier_context *ctx, esi_mesh *mesh, int64_t target_faces, esi_simplify_stats *stats)
{
    pass p = {0};
    esi_simplify_stats s = {.last_threshold = FIRST_THRESHOLD};
    double threshold = FIRST_THRESHOLD;
    espalier_status st = ESPALIER_OK;
    int32_t *number = esi_alloc(ctx, (size_t)mesh->n_vertices, sizeof *number, "vertex numbers");

    if (!number) return ESPALIER_ERR_RESOURCE;
    while (mesh->n_faces > target_faces && threshold <= LAST_THRESHOLD) {
        const int64_t before = mesh->n_faces;

        st = esi_check_cancel(ctx);
        if (st == ESPALIER_OK) st = pass_prepare(ctx, &p, mesh);
        if (st != ESPALIER_OK) goto done;
        p.threshold = (float)threshold;
        st = pass_collapse(ctx, &p, mesh, &s.collapses);
        s.passes++;
        s.last_threshold = threshold;
        compact(mesh, number);
        if (st != ESPALIER_OK) goto done;
        if (!p.any_finite) break;
        pass_free(ctx, &p);
        if ((double)(before - mesh->n_faces) < 0.01 * (double)before) threshold *= 10.0;
    }
    s.reached = mesh->n_faces <= target_faces;
done:
    pass_free(ctx, &p);
    esi_free(ctx, number);
    if (stats) *stats = s;
    return st;
}
