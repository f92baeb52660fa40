/* SPDX-License-Identifier: MIT
 *
 * cluster.c: faces to clusters by normal cones, as CuMesh's compute_charts does it (threshold pi/2, area weight 0.1, perimeter weight 1e-4,
 * no refinement). Rounds: every cluster picks its cheapest neighbour; pairs that pick each other merge. What CuMesh sums with atomics is
 * summed here in double precision, in the order of faces and edges. Links between clusters shrink with every round and are sorted by
 * counting, so a round takes time linear in what is left.
 */
#include "base/math64.h"
#include "mesh/charts.h"
#include "mesh/edit.h"

#define HALF_PI 1.57079632679489661923
#define AREA_WEIGHT 0.1
#define PERIMETER_WEIGHT 1e-4

/* An edge between faces of two clusters, a < b; later the sum over all edges of a pair. */
typedef struct link { int32_t a, b; double length; } link;

typedef struct cone { double axis[3], half_angle, area, perimeter; } cone;

typedef struct clustering {
    const esi_mesh *mesh;
    double (*normal)[3], *area;              /* [n_faces] */
    int32_t *of_face;                        /* [n_faces] */
    int32_t n;
    cone *cones;                             /* [n] */
    bool *fresh;                             /* [n] made by the last round: its cone is to be computed */
    link *links, *sorted;                    /* in order of edges; by (a, b) */
    int64_t n_links, n_pairs;
    int64_t *start;                          /* [n + 1] of the counting sorts */
    int32_t *pick, *renumber;                /* [n] pair that a cluster chose; its number after the round */
    double *cost;                            /* [n] of that pair */
} clustering;

static void face_normal(const esi_mesh *mesh, int64_t f, double normal[3], double *area)
{
    double length;

    esi_face_cross(normal, mesh, f);
    length = esi_vec_length(normal);
    *area = length / 2.0;
    for (int k = 0; k < 3; k++) normal[k] = length > 0.0 ? normal[k] / length : 0.0;
}

static double edge_length(const esi_mesh *mesh, const esi_edge *e)
{
    double side[3];

    esi_edge_vector(side, mesh, e->a, e->b);
    return esi_vec_length(side);
}

static espalier_status start_with_faces(espalier_context *ctx, clustering *c)
{
    const int64_t n = c->mesh->n_faces;
    espalier_status st = ESPALIER_OK;
    esi_edges edges = {0};

    c->normal = esi_alloc(ctx, (size_t)n, sizeof *c->normal, "normals of faces");
    c->area = esi_alloc(ctx, (size_t)n, sizeof *c->area, "areas of faces");
    c->of_face = esi_alloc(ctx, (size_t)n, sizeof *c->of_face, "clusters of faces");
    c->cones = esi_calloc(ctx, (size_t)n, sizeof *c->cones, "cones of clusters");
    c->fresh = esi_alloc(ctx, (size_t)n, sizeof *c->fresh, "clusters");
    c->start = esi_alloc(ctx, (size_t)n + 1, sizeof *c->start, "links of clusters");
    c->pick = esi_alloc(ctx, (size_t)n, sizeof *c->pick, "clusters");
    c->renumber = esi_alloc(ctx, (size_t)n, sizeof *c->renumber, "clusters");
    c->cost = esi_alloc(ctx, (size_t)n, sizeof *c->cost, "clusters");
    if (!c->normal || !c->area || !c->of_face || !c->cones || !c->fresh || !c->start || !c->pick || !c->renumber || !c->cost) {
        return ESPALIER_ERR_RESOURCE;
    }
    for (int64_t f = 0; f < n; f++) {
        if (f % (1 << 18) == 0 && (st = esi_check_cancel(ctx)) != ESPALIER_OK) return st;
        face_normal(c->mesh, f, c->normal[f], &c->area[f]);
        c->of_face[f] = (int32_t)f;
        c->fresh[f] = true;
    }
    c->n = (int32_t)n;
    if ((st = esi_edges_build(ctx, &edges, c->mesh)) != ESPALIER_OK) goto done;
    for (int64_t e = 0; e < edges.count; e++) c->n_links += edges.edges[e].count == 2;
    c->links = esi_alloc(ctx, (size_t)c->n_links, sizeof *c->links, "links of clusters");
    c->sorted = esi_alloc(ctx, (size_t)c->n_links, sizeof *c->sorted, "links of clusters");
    if (!c->links || !c->sorted) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    c->n_links = 0;
    for (int64_t e = 0; e < edges.count; e++) {
        const esi_edge *edge = &edges.edges[e];

        if (edge->count != 2) continue;
        c->links[c->n_links++] = (link){edges.corners[edge->first] / 3, edges.corners[edge->first + 1] / 3, edge_length(c->mesh, edge)};
    }
done:
    esi_edges_free(ctx, &edges);
    return st;
}

/* Axis, half angle and area of clusters that changed. */
static void compute_cones(clustering *c)
{
    for (int32_t i = 0; i < c->n; i++) {
        if (c->fresh[i]) c->cones[i] = (cone){.half_angle = 1.0};
        c->cones[i].perimeter = 0.0;
    }
    for (int64_t f = 0; f < c->mesh->n_faces; f++) {
        cone *to = &c->cones[c->of_face[f]];

        if (!c->fresh[c->of_face[f]]) continue;
        to->area += c->area[f];
        for (int k = 0; k < 3; k++) to->axis[k] += c->normal[f][k];
    }
    for (int32_t i = 0; i < c->n; i++) {
        double *a = c->cones[i].axis;
        const double length = esi_vec_length(a);

        if (!c->fresh[i]) continue;
        for (int k = 0; k < 3; k++) a[k] = length > 0.0 ? a[k] / length : 0.0;
    }
    for (int64_t f = 0; f < c->mesh->n_faces; f++) {             /* the largest angle has the smallest cosine */
        cone *to = &c->cones[c->of_face[f]];
        const double *n = c->normal[f];
        const double cosine = esi_vec_dot(n, to->axis);

        if (c->fresh[c->of_face[f]] && cosine < to->half_angle) to->half_angle = cosine;
    }
    for (int32_t i = 0; i < c->n; i++) {
        if (c->fresh[i]) c->cones[i].half_angle = esi_acos(ESI_MAX(c->cones[i].half_angle, -1.0));
        c->fresh[i] = false;
    }
}

/* Stable counting sort by one of the two ends. */
static void sort_links(clustering *c, link *to, const link *from, bool by_b)
{
    memset(c->start, 0, ((size_t)c->n + 1) * sizeof *c->start);
    for (int64_t i = 0; i < c->n_links; i++) c->start[(by_b ? from[i].b : from[i].a) + 1]++;
    for (int32_t i = 0; i < c->n; i++) c->start[i + 1] += c->start[i];
    for (int64_t i = 0; i < c->n_links; i++) to[c->start[by_b ? from[i].b : from[i].a]++] = from[i];
}

/* Links that still join two clusters, their sums by pair in `sorted`, and perimeters. `scratch` has room for the links. */
static void make_pairs(clustering *c, link *scratch)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < c->n_links; i++) {
        const link *l = &c->links[i];

        if (l->a == l->b) continue;
        c->links[kept++] = (link){ESI_MIN(l->a, l->b), ESI_MAX(l->a, l->b), l->length};
        c->cones[l->a].perimeter += l->length;
        c->cones[l->b].perimeter += l->length;
    }
    c->n_links = kept;
    sort_links(c, scratch, c->links, true);
    sort_links(c, c->sorted, scratch, false);
    c->n_pairs = 0;
    for (int64_t i = 0; i < c->n_links; i++) {
        link *last = c->n_pairs > 0 ? &c->sorted[c->n_pairs - 1] : NULL;

        if (last && last->a == c->sorted[i].a && last->b == c->sorted[i].b) last->length += c->sorted[i].length;
        else c->sorted[c->n_pairs++] = c->sorted[i];
    }
}

/* Half the opening of the cone around both, and what keeps clusters small and round. */
static double merge_cost(const cone *a, const cone *b, double shared)
{
    const double cosine = esi_vec_dot(a->axis, b->axis);
    const double angle = esi_acos(ESI_MIN(ESI_MAX(cosine, -1.0), 1.0));
    const double low = ESI_MIN(-a->half_angle, angle - b->half_angle), high = ESI_MAX(a->half_angle, angle + b->half_angle);
    const double area = a->area + b->area, perimeter = a->perimeter + b->perimeter - 2.0 * shared;
    const double roundness = area > 0.0 ? PERIMETER_WEIGHT * perimeter * perimeter / area : 0.0;

    return (high - low) / 2.0 + AREA_WEIGHT * area + roundness;
}

static void pick_cheapest(clustering *c)
{
    for (int32_t i = 0; i < c->n; i++) c->pick[i] = -1;
    for (int64_t i = 0; i < c->n_pairs; i++) {
        const link *p = &c->sorted[i];
        const double cost = merge_cost(&c->cones[p->a], &c->cones[p->b], p->length);
        const int32_t end[2] = {p->a, p->b};

        for (int k = 0; k < 2; k++) {
            if (c->pick[end[k]] >= 0 && !(cost < c->cost[end[k]])) continue;
            c->pick[end[k]] = (int32_t)i;
            c->cost[end[k]] = cost;
        }
    }
}

/* Pairs that picked each other become one under the lower number; the rest keep their order. How many merged. */
static int32_t merge_matches(clustering *c)
{
    int32_t merged = 0, next = 0;

    for (int32_t i = 0; i < c->n; i++) {
        const link *p = c->pick[i] >= 0 ? &c->sorted[c->pick[i]] : NULL;
        const bool match = p && c->cost[i] <= HALF_PI && c->pick[p->a] == c->pick[p->b];

        if (match && p->b == i) {
            c->renumber[i] = c->renumber[p->a];
            merged++;
            continue;
        }
        c->renumber[i] = next;
        c->cones[next] = c->cones[i];
        c->fresh[next++] = match;
    }
    c->n = next;
    for (int64_t f = 0; f < c->mesh->n_faces; f++) c->of_face[f] = c->renumber[c->of_face[f]];
    for (int64_t i = 0; i < c->n_links; i++) {
        c->links[i].a = c->renumber[c->links[i].a];
        c->links[i].b = c->renumber[c->links[i].b];
    }
    return merged;
}

espalier_status esi_cluster_faces(espalier_context *ctx, int32_t **cluster, int32_t *n_clusters, int *rounds, const esi_mesh *mesh)
{
    espalier_status st = ESPALIER_OK;
    clustering c = {.mesh = mesh};
    link *scratch = NULL;
    int n_rounds = 0;

    *cluster = NULL;
    *n_clusters = 0;
    if ((st = start_with_faces(ctx, &c)) != ESPALIER_OK) goto done;
    scratch = esi_alloc(ctx, (size_t)c.n_links, sizeof *scratch, "links of clusters");
    if (!scratch) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int32_t merged = 1; merged > 0; n_rounds += merged > 0) {
        if ((st = esi_check_cancel(ctx)) != ESPALIER_OK) goto done;
        compute_cones(&c);
        make_pairs(&c, scratch);
        pick_cheapest(&c);
        merged = merge_matches(&c);
    }
    if (rounds) *rounds = n_rounds;
    *n_clusters = c.n;
    *cluster = c.of_face;
    c.of_face = NULL;
done:
    esi_free(ctx, scratch);
    esi_free(ctx, c.normal);
    esi_free(ctx, c.area);
    esi_free(ctx, c.of_face);
    esi_free(ctx, c.cones);
    esi_free(ctx, c.fresh);
    esi_free(ctx, c.links);
    esi_free(ctx, c.sorted);
    esi_free(ctx, c.start);
    esi_free(ctx, c.pick);
    esi_free(ctx, c.renumber);
    esi_free(ctx, c.cost);
    return st;
}
