/* SPDX-License-Identifier: MIT
 *
 * bvh_query.c: nearest points. Boxes are measured in float, triangles in double after Ericson (Real-Time Collision Detection, 5.1.5) and
 * the squared distance is rounded to float. The answer is the least such number and the lowest face that has it: boxes are passed over
 * only when they are farther by more than all rounding, so neither the shape of the tree nor a hint can change it.
 */
#include "mesh/bvh_nearest.h"

/* --------------------------------------------------------------------- search */

typedef struct entry { float distance2; int32_t child, count; } entry;

/* Children within the limit onto the stack, the nearest on top. */
static inline int push_children(entry *stack, int top, const bvh_node *n, const float p[3], float limit)
{
    float d2[BVH_WIDTH];
    const int bottom = top;
    unsigned met;

    for (met = children_within(n, p, p, limit, d2); met; met &= met - 1) {
        const int lane = lowest_lane[met];
        int at;

        for (at = top++; at > bottom && stack[at - 1].distance2 < d2[lane]; at--) stack[at] = stack[at - 1];
        stack[at] = (entry){d2[lane], n->child[lane], n->count[lane]};
    }
    return top;
}

typedef bool (*face_filter)(const void *arg, const bvh_triangle *t);

/* Improves *best, whose distance2 is the largest squared distance of interest. */
static inline void search(const esi_bvh *bvh, const probe *q, nearest *best, face_filter filter, const void *arg)
{
    entry stack[BVH_STACK];
    float limit = box_limit(q, best->distance2);
    int top = push_children(stack, 0, &bvh->nodes[0], q->p, limit);

    while (top > 0) {
        const entry e = stack[--top];

        if (!(e.distance2 <= limit)) continue;
        if (e.count == 0) {
            top = push_children(stack, top, &bvh->nodes[e.child], q->p, limit);
            continue;
        }
        if (!filter) {
            if (try_leaf(&bvh->triangles[e.child], e.count, q, best)) limit = box_limit(q, best->distance2);
            continue;
        }
        for (int32_t i = e.child; i < e.child + e.count; i++) {
            if (filter(arg, &bvh->triangles[i]) && try_leaf(&bvh->triangles[i], 1, q, best)) limit = box_limit(q, best->distance2);
        }
    }
}

/* ------------------------------------------------------------------------- hits */

/* The same point as pair_distances() measures to: by Ericson's regions. a, b, c are relative to the query. */
static void weights_on_triangle(const double a[3], const double b[3], const double c[3], double w[3])
{
    double ab[3], ac[3], x = 0.0, y = 0.0;

    esi_vec_sub(ab, b, a);
    esi_vec_sub(ac, c, a);
    const double bb = esi_vec_dot(ab, ab), bc = esi_vec_dot(ab, ac), cc = esi_vec_dot(ac, ac);
    const double d1 = -esi_vec_dot(ab, a), d2 = -esi_vec_dot(ac, a), d3 = d1 - bb, d4 = d2 - bc, d5 = d1 - bc, d6 = d2 - cc;
    const double va = d3 * d6 - d5 * d4, vb = d5 * d2 - d1 * d6, vc = d1 * d4 - d3 * d2;

    if (d1 <= 0.0 && d2 <= 0.0) {                      /* corner a */
    } else if (d3 >= 0.0 && d4 <= d3) {
        x = 1.0;
    } else if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {  /* side ab */
        x = d1 / bb;
    } else if (d6 >= 0.0 && d5 <= d6) {
        y = 1.0;
    } else if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
        y = d2 / cc;
    } else if (va <= 0.0 && d4 >= d3 && d5 >= d6) {
        y = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        x = 1.0 - y;
    } else {
        x = vb / (va + vb + vc);
        y = vc / (va + vb + vc);
    }
    w[0] = 1.0 - x - y;
    w[1] = x;
    w[2] = y;
}

/* The nearest of the three sides. */
static void weights_on_line(const double a[3], const double b[3], const double c[3], double w[3])
{
    const double *corner[3] = {a, b, c};
    double best = INFINITY;

    for (int k = 0; k < 3; k++) {
        const double *from = corner[k], *to = corner[(k + 1) % 3];
        double side[3], d[3], length2, t;

        esi_vec_sub(side, to, from);
        length2 = esi_vec_dot(side, side);
        t = length2 > 0.0 ? clamp01(-esi_vec_dot(side, from) / length2) : 0.0;
        for (int i = 0; i < 3; i++) d[i] = from[i] + t * side[i];
        if (!(esi_vec_dot(d, d) < best)) continue;
        best = esi_vec_dot(d, d);
        w[k] = 1.0 - t;
        w[(k + 1) % 3] = t;
        w[(k + 2) % 3] = 0.0;
    }
}

static bool finish_hit(const nearest *best, const probe *q, float max_distance, esi_bvh_hit *hit)
{
    const bvh_triangle *t = best->triangle;
    double corner[3][3], w[3] = {1.0, 0.0, 0.0};

    if (best->face < 0 || !(sqrtf(best->distance2) <= max_distance)) return false;
    for (int i = 0; i < 9; i++) corner[i / 3][i % 3] = (double)t->corner[i / 3][i % 3] - q->exact[i % 3];
    if (t->face < 0) weights_on_line(corner[0], corner[1], corner[2], w);
    else weights_on_triangle(corner[0], corner[1], corner[2], w);
    hit->face = best->face;
    hit->distance2 = best->distance2;
    for (int i = 0; i < 3; i++) hit->bary[i] = (float)w[i];
    for (int k = 0; k < 3; k++)
        hit->point[k] = (float)(w[0] * (double)t->corner[0][k] + w[1] * (double)t->corner[1][k] + w[2] * (double)t->corner[2][k]);
    return true;
}

bool esi_bvh_closest(const esi_bvh *bvh, const float p[3], float max_distance, esi_bvh_hit *hit)
{
    const probe q = make_probe(bvh, p);
    nearest best = {.distance2 = bound_of(&q, max_distance), .face = -1};

    search(bvh, &q, &best, NULL, NULL);
    return finish_hit(&best, &q, max_distance, hit);
}

typedef struct facing_filter { double direction[3]; double min_dot; } facing_filter;

static bool faces_direction(const void *arg, const bvh_triangle *t)
{
    const facing_filter *f = arg;
    double ab[3], ac[3], n[3];

    if (t->face < 0) return false;
    for (int k = 0; k < 3; k++) {
        ab[k] = (double)t->corner[1][k] - (double)t->corner[0][k];
        ac[k] = (double)t->corner[2][k] - (double)t->corner[0][k];
    }
    esi_vec_cross(n, ab, ac);
    return esi_vec_dot(n, f->direction) >= f->min_dot * sqrt(esi_vec_dot(n, n));
}

bool esi_bvh_closest_facing(const esi_bvh *bvh, const float p[3], const float facing[3], float min_dot, float max_distance,
                            esi_bvh_hit *hit)
{
    const probe q = make_probe(bvh, p);
    const facing_filter filter = {{(double)facing[0], (double)facing[1], (double)facing[2]}, (double)min_dot};
    nearest best = {.distance2 = bound_of(&q, max_distance), .face = -1};

    search(bvh, &q, &best, faces_direction, &filter);
    return finish_hit(&best, &q, max_distance, hit);
}

float esi_bvh_distance(const esi_bvh *bvh, const float p[3], float max_distance, float hint)
{
    const probe q = make_probe(bvh, p);
    const float first_guess = ESI_MIN(max_distance, hint * 1.0001f);
    nearest best = {.distance2 = bound_of(&q, first_guess), .face = -1};
    float distance;

    search(bvh, &q, &best, NULL, NULL);
    if (best.face < 0 && first_guess < max_distance) {         /* the hint was no distance to the surface */
        best.distance2 = bound_of(&q, max_distance);
        search(bvh, &q, &best, NULL, NULL);
    }
    if (best.face < 0) return INFINITY;
    distance = sqrtf(best.distance2);
    return distance <= max_distance ? distance : INFINITY;
}

float bvh_distance_from(const esi_bvh *bvh, const float p[3], float max_distance, int32_t *seed)
{
    const probe q = make_probe(bvh, p);
    nearest best = {.distance2 = bound_of(&q, max_distance), .face = -1};
    float distance;

    if (*seed >= 0) try_leaf(&bvh->triangles[*seed], 1, &q, &best);
    search(bvh, &q, &best, NULL, NULL);
    if (best.face < 0) return INFINITY;
    distance = sqrtf(best.distance2);
    if (!(distance <= max_distance)) return INFINITY;
    *seed = (int32_t)(best.triangle - bvh->triangles);
    return distance;
}

/* ------------------------------------------------------------------ many at once */

#define BATCH 2048

typedef struct batch_job {
    const esi_bvh *bvh;
    const float *points;
    int64_t count;
    float max_distance;
    float *distances;
    esi_bvh_hit *hits;
} batch_job;

static void closest_batch(void *arg, size_t index, int slot)
{
    const batch_job *job = arg;
    const int64_t first = (int64_t)index * BATCH, end = ESI_MIN(first + BATCH, job->count);
    const bvh_triangle *last = NULL;

    (void)slot;
    for (int64_t i = first; i < end; i++) {
        const probe q = make_probe(job->bvh, job->points + 3 * i);
        nearest best = {.distance2 = bound_of(&q, job->max_distance), .face = -1};
        esi_bvh_hit hit = {.face = -1, .distance2 = INFINITY};

        if (last) try_leaf(last, 1, &q, &best);       /* neighbours in the array are often neighbours in space */
        search(job->bvh, &q, &best, NULL, NULL);
        last = best.face >= 0 ? best.triangle : NULL;
        if (!finish_hit(&best, &q, job->max_distance, &hit)) hit = (esi_bvh_hit){.face = -1, .distance2 = INFINITY};
        if (job->distances) job->distances[i] = sqrtf(hit.distance2);
        if (job->hits) job->hits[i] = hit;
    }
}

espalier_status esi_bvh_closest_many(espalier_context *ctx, const esi_bvh *bvh, const float *points, int64_t count, float max_distance,
                                     float *distances, esi_bvh_hit *hits)
{
    batch_job job = {bvh, points, count, max_distance, distances, hits};

    return esi_parallel(ctx, (size_t)((count + BATCH - 1) / BATCH), closest_batch, &job);
}
