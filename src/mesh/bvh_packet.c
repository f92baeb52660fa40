/* SPDX-License-Identifier: MIT
 *
 * bvh_packet.c: one walk through the tree for a few points. It lists the leaves that are near enough to the box of all points; each point
 * then takes those that are near enough to itself.
 */
#include "mesh/bvh_packet.h"
#include "mesh/bvh_nearest.h"

#define LISTED 32                  /* nodes' worth of leaves that are looked at together */

typedef struct search {
    const esi_bvh *bvh;
    bool any;                      /* something within the bound is enough */
    int n;
    probe probes[PACKET_POINTS];
    nearest best[PACKET_POINTS];
    float limit[PACKET_POINTS], largest_limit;       /* of boxes; negative: the point has what it wants */
    float low[3], high[3];         /* of the points that search */
    int listed;                    /* leaves */
    bvh_node leaves[LISTED];
} search;

static inline void set_limit(search *s, int i)
{
    s->limit[i] = s->any && s->best[i].face >= 0 ? -1.0f : box_limit(&s->probes[i], s->best[i].distance2);
}

static inline void look_at_seeds(search *s, int i, const bvh_packet *p)
{
    const bvh_triangle *own = p->seed[i] >= 0 ? &s->bvh->triangles[p->seed[i]] : NULL;
    const bvh_triangle *last = i > 0 ? s->best[i - 1].triangle : NULL;
    double d2[2];

    if (!own) own = last;
    if (!own) return;
    if (!last) last = own;
    pair_distances(own, last, &s->probes[i], d2);
    take_nearer(own, d2[0], &s->best[i]);
    take_nearer(last, d2[1], &s->best[i]);
}

static void start(search *s, const bvh_packet *p, float max_distance)
{
    for (int k = 0; k < 3; k++) {
        s->low[k] = INFINITY;
        s->high[k] = -INFINITY;
    }
    s->n = p->n;
    s->listed = 0;
    s->largest_limit = -1.0f;
    for (int i = 0; i < p->n; i++) {
        s->probes[i] = make_probe(s->bvh, p->point[i]);
        s->best[i] = (nearest){.distance2 = bound_of(&s->probes[i], max_distance), .face = -1};
        look_at_seeds(s, i, p);
        set_limit(s, i);
        if (s->limit[i] < 0.0f) continue;
        s->largest_limit = ESI_MAX(s->largest_limit, s->limit[i]);
        for (int k = 0; k < 3; k++) {
            s->low[k] = ESI_MIN(s->low[k], p->point[i][k]);
            s->high[k] = ESI_MAX(s->high[k], p->point[i][k]);
        }
    }
}

static void clear_lane(bvh_node *n, int lane)
{
    for (int k = 0; k < 3; k++) {
        n->min[k][lane] = INFINITY;
        n->max[k][lane] = -INFINITY;
    }
    n->child[lane] = 0;
    n->count[lane] = -1;
}

static inline void copy_lane(bvh_node *to, int at, const bvh_node *from, int lane)
{
    for (int k = 0; k < 3; k++) {
        to->min[k][at] = from->min[k][lane];
        to->max[k][at] = from->max[k][lane];
    }
    to->child[at] = from->child[lane];
    to->count[at] = from->count[lane];
}

typedef struct candidate { float distance2; int32_t child, count; } candidate;

static inline void try_candidate(search *s, int i, const candidate *c)
{
    if (try_leaf(&s->bvh->triangles[c->child], c->count, &s->probes[i], &s->best[i])) set_limit(s, i);
}

/* The leaf whose box is nearest first: it leaves less for the others to do. */
static void look_from_point(search *s, int i, int nodes)
{
    const float *p = s->probes[i].p;
    candidate near[LISTED * BVH_WIDTH];
    int n = 0, first = 0;

    for (int k = 0; k < nodes; k++) {
        const bvh_node *leaves = &s->leaves[k];
        float d2[BVH_WIDTH];

        for (unsigned lanes = children_within(leaves, p, p, s->limit[i], d2); lanes; lanes &= lanes - 1) {
            const int lane = lowest_lane[lanes];

            near[n] = (candidate){d2[lane], leaves->child[lane], leaves->count[lane]};
            if (near[n].distance2 < near[first].distance2) first = n;
            n++;
        }
    }
    if (!n) return;
    try_candidate(s, i, &near[first]);
    near[first].distance2 = INFINITY;
    for (int c = 0; c < n; c++) {
        if (near[c].distance2 <= s->limit[i]) try_candidate(s, i, &near[c]);
    }
}

static void look_at_leaves(search *s)
{
    const int nodes = (s->listed + BVH_WIDTH - 1) / BVH_WIDTH;

    for (int i = s->listed; i < nodes * BVH_WIDTH; i++) clear_lane(&s->leaves[nodes - 1], i % BVH_WIDTH);
    s->largest_limit = -1.0f;
    for (int i = 0; i < s->n; i++) {
        look_from_point(s, i, nodes);
        s->largest_limit = ESI_MAX(s->largest_limit, s->limit[i]);
    }
    s->listed = 0;
}

static inline void list_leaf(search *s, const bvh_node *n, int lane)
{
    copy_lane(&s->leaves[s->listed / BVH_WIDTH], s->listed % BVH_WIDTH, n, lane);
    if (++s->listed == LISTED * BVH_WIDTH) look_at_leaves(s);
}

static void walk(search *s)
{
    int32_t stack[BVH_STACK];
    int top = 0;

    stack[top++] = 0;
    while (top > 0) {
        const bvh_node *n = &s->bvh->nodes[stack[--top]];
        float d2[BVH_WIDTH];

        for (unsigned near = children_within(n, s->low, s->high, s->largest_limit, d2); near; near &= near - 1) {
            const int lane = lowest_lane[near];

            if (n->count[lane] == 0) stack[top++] = n->child[lane];
            else list_leaf(s, n, lane);
        }
    }
    look_at_leaves(s);
}

static void choose_from(search *s, const bvh_nearby *nearby)
{
    for (int i = 0; i < nearby->n; i++) {
        float d2[BVH_WIDTH];
        unsigned near = children_within(&nearby->nodes[i], s->low, s->high, s->largest_limit, d2);

        for (; near; near &= near - 1) list_leaf(s, &nearby->nodes[i], lowest_lane[near]);
    }
    look_at_leaves(s);
}

static void run(const esi_bvh *bvh, const bvh_nearby *nearby, bvh_packet *p, float max_distance, bool any)
{
    search s;

    s.bvh = bvh;
    s.any = any;
    start(&s, p, max_distance);
    if (s.largest_limit >= 0.0f) {
        if (nearby && nearby->n > 0) choose_from(&s, nearby);
        else walk(&s);
    }
    for (int i = 0; i < p->n; i++) {
        const float distance = s.best[i].face >= 0 ? sqrtf(s.best[i].distance2) : INFINITY;

        /* What was found first may lie in the rounding beyond the bound while something nearer was not looked for. */
        p->distance[i] = distance <= max_distance || any ? distance : INFINITY;
        if (s.best[i].face >= 0) p->seed[i] = (int32_t)(s.best[i].triangle - bvh->triangles);
    }
}

void bvh_packet_measure(const esi_bvh *bvh, const bvh_nearby *nearby, bvh_packet *packet, float max_distance)
{
    run(bvh, nearby, packet, max_distance, false);
}

void bvh_packet_within(const esi_bvh *bvh, const bvh_nearby *nearby, bvh_packet *packet, float max_distance)
{
    run(bvh, nearby, packet, max_distance, true);
}

void bvh_nearby_find(bvh_nearby *out, const esi_bvh *bvh, const float low[3], const float high[3], float radius)
{
    const float limit = radius * radius * 1.002f;
    int32_t stack[BVH_STACK];
    int top = 0, leaves = 0;

    out->n = 0;
    stack[top++] = 0;
    while (top > 0) {
        const bvh_node *n = &bvh->nodes[stack[--top]];
        float d2[BVH_WIDTH];

        for (unsigned near = children_within(n, low, high, limit, d2); near; near &= near - 1) {
            const int lane = lowest_lane[near];

            if (n->count[lane] == 0) {
                stack[top++] = n->child[lane];
                continue;
            }
            if (leaves == NEARBY_NODES * BVH_WIDTH) return;
            copy_lane(&out->nodes[leaves / BVH_WIDTH], leaves % BVH_WIDTH, n, lane);
            leaves++;
        }
    }
    out->n = (leaves + BVH_WIDTH - 1) / BVH_WIDTH;
    for (int i = leaves; i < out->n * BVH_WIDTH; i++) clear_lane(&out->nodes[out->n - 1], i % BVH_WIDTH);
}
