/* SPDX-License-Identifier: MIT
 *
 * chart_cluster.c: faces -> pieces by region merging. A piece costs its bend (area - |sum of area * normal|) plus its border; a pair is
 * worth merging first where bend gained per border lost is least (Koepfler, Lopez, Morel, A Multiscale Algorithm for Image Segmentation by
 * Variational Method, 1994), which keeps borders short and straight without a scale to choose; ragged results cost more. Every round each
 * piece picks its cheapest neighbour and pairs that picked each other merge, so rounds are few and all of it takes nearly linear time.
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define MAX_ROUNDS 400
#define FLAT_COST 0.01             /* of the smaller area: orders merges where nothing bends */
#define BLOCKED INFINITY
#define STALE (-1.0f)

typedef struct cluster {
    double normal[3], length;      /* sum of area * unit normal, and its length */
    double area, rim;              /* rim: length of the whole border, also that of the mesh */
    int32_t head, tail;            /* list of its faces */
    int32_t group;
    int32_t best;                  /* edge */
} cluster;

typedef struct link {
    int32_t a, b;                  /* clusters, a < b */
    float length, cost;
} link;

typedef struct state {
    const chart_faces *faces;
    const chart_limits *limits;
    cluster *clusters;
    int32_t n_clusters;
    link *links, *sorted;
    int64_t n_links;
    int32_t *next;                 /* [mesh faces] list of a cluster's faces */
    int32_t *map;                  /* [clusters + 1] new number, or scratch */
    int32_t *slot;                 /* [clusters] */
    bool *changed;                 /* [clusters] by the last round */
    int32_t *group_pieces;         /* [groups] */
} state;

/* In [0, 1), from two numbers: breaks ties and chains of equal costs, which would let only one pair merge per round. */
static double spread(int32_t a, int32_t b)
{
    uint64_t z = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (double)(z >> 40) * 0x1p-24;
}

static void merged_normal(double out[3], const cluster *a, const cluster *b)
{
    for (int k = 0; k < 3; k++) out[k] = a->normal[k] + b->normal[k];
}

static float merge_cost(const state *s, const link *l)
{
    const cluster *a = &s->clusters[l->a], *b = &s->clusters[l->b];
    double n[3], area = a->area + b->area, bend, length, rim = a->rim + b->rim - 2.0 * (double)l->length, raggedness;

    merged_normal(n, a, b);
    length = esi_vec_length(n);
    if (area - length > s->limits->max_bend * area) return BLOCKED;
    bend = ESI_MAX(a->length + b->length - length, 0.0);
    if (area > 0.0) {
        raggedness = rim * rim / (16.0 * area); /* a square: 1 */
        bend = (bend + FLAT_COST * a->area * b->area / area) * raggedness * raggedness;
    }
    bend *= 1.0 + 0.1 * spread(l->a, l->b);
    return l->length > 0.0f ? (float)ESI_MIN(bend / (double)l->length, 1e30) : 1e30f;
}

/* Do all faces of the cluster stay within the cone around the axis? */
static bool within_cone(const state *s, const cluster *c, const double axis[3], double min_dot)
{
    for (int32_t f = c->head; f >= 0; f = s->next[f]) {
        const float *n = s->faces->normal + 3 * (size_t)f;
        double dot = n[0] * axis[0] + n[1] * axis[1] + n[2] * axis[2];
        if (dot < min_dot && (n[0] != 0.0f || n[1] != 0.0f || n[2] != 0.0f)) return false;
    }
    return true;
}

static bool may_merge(const state *s, const cluster *a, const cluster *b)
{
    double n[3];

    if (s->group_pieces[a->group] <= s->limits->min_pieces) return false;
    merged_normal(n, a, b);
    double min_dot = s->limits->min_cos * esi_vec_length(n);
    return within_cone(s, a, n, min_dot) && within_cone(s, b, n, min_dot);
}

static void merge(state *s, cluster *a, const cluster *b, double shared)
{
    merged_normal(a->normal, a, b);
    a->length = esi_vec_length(a->normal);
    a->area += b->area;
    a->rim += b->rim - 2.0 * shared;
    s->next[a->tail] = b->head;
    a->tail = b->tail;
    s->group_pieces[a->group]--;
}

/* --------------------------------------------------------------- building */

static int32_t add_clusters(state *s, const int32_t *group, int32_t *index)
{
    const chart_faces *faces = s->faces;
    int32_t n = 0;

    for (int64_t f = 0; f < faces->mesh->n_faces; f++) {
        cluster *c = &s->clusters[n];
        index[f] = -1;
        if (group[f] < 0) continue;
        for (int k = 0; k < 3; k++) c->normal[k] = faces->area[f] * (double)faces->normal[3 * f + k];
        c->length = esi_vec_length(c->normal);
        c->area = c->length > 0.0 ? faces->area[f] : 0.0;
        c->rim = 0.0;
        for (int32_t k = 0; k < 3; k++) c->rim += chart_side_length(faces->mesh, 3 * (int32_t)f + k);
        c->head = c->tail = (int32_t)f;
        c->group = group[f];
        s->next[f] = -1;
        s->group_pieces[group[f]]++;
        index[f] = n++;
    }
    return n;
}

static void add_links(state *s, const int32_t *group, const int32_t *index)
{
    const chart_faces *faces = s->faces;

    for (int64_t c = 0; c < 3 * faces->mesh->n_faces; c++) {
        int32_t d = faces->across[c], f = (int32_t)(c / 3);
        if (d < c || group[f] < 0 || group[d / 3] != group[f]) continue;
        s->links[s->n_links++] = (link){index[f], index[d / 3], (float)chart_side_length(faces->mesh, (int32_t)c), STALE};
    }
}

/* ----------------------------------------------------------------- rounds */

static void pick(state *s)
{
    for (int32_t c = 0; c < s->n_clusters; c++) s->clusters[c].best = -1;
    for (int64_t e = 0; e < s->n_links; e++) {
        link *l = &s->links[e];
        cluster *a = &s->clusters[l->a], *b = &s->clusters[l->b];
        if (l->cost == STALE) l->cost = merge_cost(s, l);
        if (l->cost == BLOCKED) continue;
        if (a->best < 0 || l->cost < s->links[a->best].cost) a->best = (int32_t)e;
        if (b->best < 0 || l->cost < s->links[b->best].cost) b->best = (int32_t)e;
    }
}

/* Merge pairs that picked each other. map[c] = the cluster it is part of now. Returns false when nothing was left to try. */
static bool merge_pairs(state *s)
{
    bool any = false;

    for (int32_t c = 0; c < s->n_clusters; c++) s->map[c] = c, s->changed[c] = false;
    for (int32_t c = 0; c < s->n_clusters; c++) {
        cluster *a = &s->clusters[c];
        link *l = a->best < 0 ? NULL : &s->links[a->best];
        if (!l || l->a != c || s->clusters[l->b].best != a->best) continue;
        any = true;
        if (may_merge(s, a, &s->clusters[l->b])) {
            merge(s, a, &s->clusters[l->b], (double)l->length);
            s->map[l->b] = c;
            s->changed[c] = true;
        } else l->cost = BLOCKED;
    }
    return any;
}

/* Close the gaps that merging left, keeping the order. */
static void renumber(state *s)
{
    int32_t n = 0;

    for (int32_t c = 0; c < s->n_clusters; c++) {
        if (s->map[c] != c) {
            s->map[c] = s->map[s->map[c]]; /* its partner has a lower number and its new one already */
            continue;
        }
        s->map[c] = n;
        s->changed[n] = s->changed[c];
        if (n != c) s->clusters[n] = s->clusters[c];
        n++;
    }
    s->n_clusters = n;
}

/* Carry the links over to the new numbers, one for each pair: bucketed by the lower number, then joined by the higher. */
static void relink(state *s)
{
    int32_t *start = s->map;
    int64_t n = 0;

    for (int64_t e = 0; e < s->n_links; e++) {
        link l = s->links[e];
        l.a = s->map[l.a];
        l.b = s->map[l.b];
        if (l.a == l.b) continue;
        if (l.a > l.b) {
            int32_t t = l.a;
            l.a = l.b;
            l.b = t;
        }
        if (s->changed[l.a] || s->changed[l.b]) l.cost = STALE;
        s->links[n++] = l;
    }
    for (int32_t c = 0; c <= s->n_clusters; c++) start[c] = 0;
    for (int64_t e = 0; e < n; e++) start[s->links[e].a + 1]++;
    for (int32_t c = 0; c < s->n_clusters; c++) start[c + 1] += start[c];
    for (int64_t e = 0; e < n; e++) s->sorted[start[s->links[e].a]++] = s->links[e];
    for (int32_t c = 0; c < s->n_clusters; c++) s->slot[c] = -1;
    s->n_links = 0;
    for (int64_t e = 0, bucket = 0; e < n; e++) {
        link l = s->sorted[e];
        if (e == 0 || l.a != s->sorted[e - 1].a) bucket = s->n_links;
        if (s->slot[l.b] >= bucket) {
            s->links[s->slot[l.b]].length += l.length;
        } else {
            s->slot[l.b] = (int32_t)s->n_links;
            s->links[s->n_links++] = l;
        }
    }
}

static espalier_status run_rounds(espalier_context *ctx, state *s)
{
    espalier_status st = ESPALIER_OK;

    for (int round = 0; round < MAX_ROUNDS && st == ESPALIER_OK; round++) {
        pick(s);
        if (!merge_pairs(s)) break;
        renumber(s);
        relink(s);
        st = esi_check_cancel(ctx);
    }
    return st;
}

static void number_pieces(const state *s, int32_t *piece, const int32_t *group, int32_t first, int32_t *n_pieces)
{
    int32_t n = first;

    for (int32_t c = 0; c < s->n_clusters; c++) {
        s->map[c] = -1;
        for (int32_t f = s->clusters[c].head; f >= 0; f = s->next[f]) piece[f] = c;
    }
    for (int64_t f = 0; f < s->faces->mesh->n_faces; f++) {
        if (group[f] < 0) continue;
        if (s->map[piece[f]] < 0) s->map[piece[f]] = n++;
        piece[f] = s->map[piece[f]];
    }
    *n_pieces = n;
}

espalier_status chart_cluster(espalier_context *ctx, int32_t *piece, int32_t *n_pieces, int32_t first, const chart_faces *faces,
                              const int32_t *group, const chart_limits *limits)
{
    size_t n_faces = (size_t)faces->mesh->n_faces, active = 0, n_groups = 0, n_links = 0;
    state s = {.faces = faces, .limits = limits};
    int32_t *index = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    for (size_t f = 0; f < n_faces; f++) {
        if (group[f] < 0) continue;
        active++;
        n_groups = ESI_MAX(n_groups, (size_t)group[f] + 1);
        for (size_t k = 0; k < 3; k++) n_links += faces->across[3 * f + k] > (int32_t)(3 * f + k);
    }
    *n_pieces = first;
    if (active == 0) return ESPALIER_OK;
    s.clusters = esi_alloc(ctx, active, sizeof *s.clusters, "chart clusters");
    s.links = esi_alloc(ctx, n_links, sizeof *s.links, "chart links");
    s.sorted = esi_alloc(ctx, n_links, sizeof *s.sorted, "chart links");
    s.next = esi_alloc(ctx, n_faces, sizeof *s.next, "chart faces");
    s.map = esi_alloc(ctx, active + 1, sizeof *s.map, "chart clusters");
    s.slot = esi_alloc(ctx, active, sizeof *s.slot, "chart clusters");
    s.changed = esi_alloc(ctx, active, sizeof *s.changed, "chart clusters");
    s.group_pieces = esi_calloc(ctx, n_groups, sizeof *s.group_pieces, "chart groups");
    index = esi_alloc(ctx, n_faces, sizeof *index, "chart faces");
    if (!s.clusters || !s.links || !s.sorted || !s.next || !s.map || !s.slot || !s.changed || !s.group_pieces || !index) goto done;
    s.n_clusters = add_clusters(&s, group, index);
    add_links(&s, group, index);
    st = run_rounds(ctx, &s);
    if (st == ESPALIER_OK) number_pieces(&s, piece, group, first, n_pieces);
done:
    esi_free(ctx, s.clusters);
    esi_free(ctx, s.links);
    esi_free(ctx, s.sorted);
    esi_free(ctx, s.next);
    esi_free(ctx, s.map);
    esi_free(ctx, s.slot);
    esi_free(ctx, s.changed);
    esi_free(ctx, s.group_pieces);
    esi_free(ctx, index);
    return st;
}
