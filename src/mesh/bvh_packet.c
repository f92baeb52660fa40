/* SPDX-License-Identifier: MIT
 *
 * bvh_packet.c: one walk through the tree for a few points. It lists the leaves that are near enough to the box of all points; each point then
 * takes those that are near enough to itself.
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

static void look_at_leaves(search *s)
{
    const int nodes = (s->listed + BVH_WIDTH - 1) / BVH_WIDTH;

    for (int i = s->listed; i < nodes * BVH_WIDTH; i++) {
        for (int k = 0; k < 3; k++) {
            s->leaves[nodes - 1].min[k][i % BVH_WIDTH] = INFINITY;
            s->leaves[nodes - 1].max[k][i % BVH_WIDTH] = -INFINITY;
        }
    }
    s->largest_limit = -1.0f;
    for (int i = 0; i < s->n; i++) {
        const float *p = s->probes[i].p;

        for (int k = 0; k < nodes; k++) {
            float d2[BVH_WIDTH];

            for (unsigned near = children_within(&s->leaves[k], p, p, s->limit[i], d2); near; near &= near - 1) {
                const int lane = lowest_lane[near];
                const bvh_triangle *t = &s->bvh->triangles[s->leaves[k].child[lane]];

                if (try_leaf(t, s->leaves[k].count[lane], &s->probes[i], &s->best[i])) set_limit(s, i);
            }
        }
        s->largest_limit = ESI_MAX(s->largest_limit, s->limit[i]);
    }
    s->listed = 0;
}

static inline void list_leaf(search *s, const bvh_node *n, int lane)
{
    bvh_node *to = &s->leaves[s->listed / BVH_WIDTH];
    const int at = s->listed++ % BVH_WIDTH;

    for (int k = 0; k < 3; k++) {
        to->min[k][at] = n->min[k][lane];
        to->max[k][at] = n->max[k][lane];
    }
    to->child[at] = n->child[lane];
    to->count[at] = n->count[lane];
    if (s->listed == LISTED * BVH_WIDTH) look_at_leaves(s);
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

static void run(const esi_bvh *bvh, bvh_packet *p, float max_distance, bool any)
{
    search s;

    s.bvh = bvh;
    s.any = any;
    start(&s, p, max_distance);
    if (s.largest_limit >= 0.0f) walk(&s);
    for (int i = 0; i < p->n; i++) {
        const float distance = s.best[i].face >= 0 ? sqrtf(s.best[i].distance2) : INFINITY;

        /* What was found first may lie in the rounding beyond the bound while something nearer was not looked for. */
        p->distance[i] = distance <= max_distance || any ? distance : INFINITY;
        if (s.best[i].face >= 0) p->seed[i] = (int32_t)(s.best[i].triangle - bvh->triangles);
    }
}

void bvh_packet_measure(const esi_bvh *bvh, bvh_packet *packet, float max_distance)
{
    run(bvh, packet, max_distance, false);
}

void bvh_packet_within(const esi_bvh *bvh, bvh_packet *packet, float max_distance)
{
    run(bvh, packet, max_distance, true);
}
