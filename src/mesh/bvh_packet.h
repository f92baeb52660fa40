/* SPDX-License-Identifier: MIT
 *
 * bvh_packet.h: distances of up to eight points that lie close together, the corners of a small cube, say: the tree is walked once for all
 * of them. Distances are those of single queries, bit for bit.
 */
#ifndef ESI_MESH_BVH_PACKET_H
#define ESI_MESH_BVH_PACKET_H

#include "mesh/bvh_internal.h"

#define PACKET_POINTS 8

typedef struct bvh_packet {
    int n;
    float point[PACKET_POINTS][3];
    int32_t seed[PACKET_POINTS];   /* in: a triangle that may be near (position in bvh->triangles), or -1; out: the nearest one found */
    float distance[PACKET_POINTS]; /* out; INFINITY when farther than asked for */
} bvh_packet;

static inline void bvh_packet_add(bvh_packet *p, const float at[3], int32_t seed)
{
    memcpy(p->point[p->n], at, sizeof p->point[p->n]);
    p->seed[p->n++] = seed;
}

/* The leaves around a region, found once for all packets in it. n = 0: too many to list, search the whole tree. */
#define NEARBY_NODES 64
typedef struct bvh_nearby {
    int n;
    bvh_node nodes[NEARBY_NODES];  /* all children are leaves */
} bvh_nearby;
/* All within `radius` (and a thousandth) of the box from low to high. */
void bvh_nearby_find(bvh_nearby *out, const esi_bvh *bvh, const float low[3], const float high[3], float radius);

/* nearby: holds everything within the reach of all points, or is NULL. */
void bvh_packet_measure(const esi_bvh *bvh, const bvh_nearby *nearby, bvh_packet *packet, float max_distance);
/* Only whether there is anything within max_distance (and a millionth): then distance and seed are those of some triangle that is. */
void bvh_packet_within(const esi_bvh *bvh, const bvh_nearby *nearby, bvh_packet *packet, float max_distance);

#endif
