/* SPDX-License-Identifier: MIT
 *
 * bvh_query.c: nearest points. Boxes are measured in float, triangles in double after Ericson (Real-Time Collision Detection, 5.1.5) and
 * the squared distance is rounded to float. The answer is the least such number and the lowest face that has it: boxes are passed over
 * only when they are farther by more than all rounding, so neither the shape of the tree nor a hint can change it.
 */
#include "mesh/bvh_internal.h"

#include <float.h>
#include <math.h>

#if defined(__SSE2__)
#  include <emmintrin.h>
#endif

typedef struct nearest {
    float distance2;
    int32_t face;
    double weight[3];
    const bvh_triangle *triangle;
} nearest;

typedef struct probe {
    float p[3];
    double exact[3];
    float slack;                   /* absolute, of squared distances: what double rounding can do at this scale */
} probe;

static probe make_probe(const esi_bvh *bvh, const float p[3])
{
    probe q = {.p = {p[0], p[1], p[2]}, .exact = {(double)p[0], (double)p[1], (double)p[2]}};
    double scale = (double)bvh->reach + fabs(q.exact[0]) + fabs(q.exact[1]) + fabs(q.exact[2]);

    /* A distance is off by some 1e-15 * scale; 2 d e <= 2^-22 d^2 + 2^22 e^2 turns that into a relative and an absolute part. */
    q.slack = (float)(scale * scale * 1e-23);
    return q;
}

/* Boxes at this squared distance or nearer may hold an answer of `distance2`. Finite: infinitely far are boxes that are not there. */
static inline float box_limit(const probe *q, float distance2)
{
    const float limit = (distance2 + q->slack) * 1.000002f;

    return limit < FLT_MAX ? limit : FLT_MAX;
}

/* ----------------------------------------------------------------- triangles */

/* a, b, c relative to the point; w: barycentric weights of the nearest point. Returns the squared distance. With u = ab . ap and v = ac . ap
 * for the first corner (Ericson's d1, d2), those of the others (d3 .. d6) follow from the sides' products. */
static inline double nearest_on_triangle(const double a[3], const double ab[3], const double ac[3], double w[3])
{
    const double bb = bvh_dot(ab, ab), bc = bvh_dot(ab, ac), cc = bvh_dot(ac, ac);
    const double d1 = -bvh_dot(ab, a), d2 = -bvh_dot(ac, a);
    const double d3 = d1 - bb, d4 = d2 - bc, d5 = d1 - bc, d6 = d2 - cc;
    const double va = d3 * d6 - d5 * d4, vb = d5 * d2 - d1 * d6, vc = d1 * d4 - d3 * d2;
    double b = 0.0, c = 0.0, d[3];

    if (d1 <= 0.0 && d2 <= 0.0) {                      /* corner a */
    } else if (d3 >= 0.0 && d4 <= d3) {
        b = 1.0;
    } else if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {  /* side ab */
        b = d1 / bb;
    } else if (d6 >= 0.0 && d5 <= d6) {
        c = 1.0;
    } else if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
        c = d2 / cc;
    } else if (va <= 0.0 && d4 >= d3 && d5 >= d6) {
        c = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        b = 1.0 - c;
    } else {
        const double scale = 1.0 / (va + vb + vc);
        b = vb * scale;
        c = vc * scale;
    }
    w[0] = 1.0 - b - c;
    w[1] = b;
    w[2] = c;
    for (int k = 0; k < 3; k++) d[k] = a[k] + b * ab[k] + c * ac[k];
    return bvh_dot(d, d);
}

static inline double nearest_on_segment(const double a[3], const double b[3], double *t)
{
    double ab[3], d[3], length2;

    bvh_sub(ab, b, a);
    length2 = bvh_dot(ab, ab);
    *t = length2 > 0.0 ? -bvh_dot(ab, a) / length2 : 0.0;
    *t = *t < 0.0 ? 0.0 : *t > 1.0 ? 1.0 : *t;
    for (int k = 0; k < 3; k++) d[k] = a[k] + *t * ab[k];
    return bvh_dot(d, d);
}

/* The three sides of a face without area. */
static double nearest_on_line(const double a[3], const double b[3], const double c[3], double w[3])
{
    const double *corner[3] = {a, b, c};
    double best = INFINITY;

    for (int k = 0; k < 3; k++) {
        double t;
        const double d2 = nearest_on_segment(corner[k], corner[(k + 1) % 3], &t);

        if (!(d2 < best)) continue;
        best = d2;
        w[k] = 1.0 - t;
        w[(k + 1) % 3] = t;
        w[(k + 2) % 3] = 0.0;
    }
    return best;
}

static inline double nearest_on_face(const bvh_triangle *t, const probe *q, double w[3])
{
    double a[3], b[3], c[3];

    for (int k = 0; k < 3; k++) {
        a[k] = (double)t->corner[0][k] - q->exact[k];
        b[k] = (double)t->corner[1][k] - q->exact[k];
        c[k] = (double)t->corner[2][k] - q->exact[k];
    }
    if (t->face < 0) return nearest_on_line(a, b, c, w);
    bvh_sub(b, b, a);
    bvh_sub(c, c, a);
    return nearest_on_triangle(a, b, c, w);
}

/* True when the triangle took over; equal distances go to the lowest face. */
static inline bool try_triangle(const bvh_triangle *t, const probe *q, nearest *best)
{
    double w[3];
    const float d2 = (float)nearest_on_face(t, q, w);

    if (d2 > best->distance2 || (d2 == best->distance2 && best->face >= 0 && bvh_face(t) >= best->face)) return false;
    best->distance2 = d2;
    best->face = bvh_face(t);
    best->triangle = t;
    memcpy(best->weight, w, sizeof w);
    return true;
}

/* --------------------------------------------------------------------- search */

typedef struct entry { float distance2; int32_t child, count; } entry;

static inline void box_distances(const bvh_node *n, const float p[3], float d2[BVH_WIDTH])
{
    for (int lane = 0; lane < BVH_WIDTH; lane++) d2[lane] = 0.0f;
    for (int k = 0; k < 3; k++) {
        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            const float below = n->min[k][lane] - p[k], above = p[k] - n->max[k][lane];
            const float d = (below > 0.0f ? below : 0.0f) + (above > 0.0f ? above : 0.0f);      /* at most one is positive */

            d2[lane] += d * d;
        }
    }
}

static const uint8_t lowest_lane[1 << BVH_WIDTH] = {0, 0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0};

/* Bit per child within the limit. Boxes of missing children are infinitely far. */
static inline unsigned lanes_within(const float d2[BVH_WIDTH], float limit)
{
#if defined(__SSE2__)
    return (unsigned)_mm_movemask_ps(_mm_cmple_ps(_mm_loadu_ps(d2), _mm_set1_ps(limit)));
#else
    unsigned met = 0;

    for (int lane = 0; lane < BVH_WIDTH; lane++) met |= (unsigned)(d2[lane] <= limit) << lane;
    return met;
#endif
}

/* Children within the limit onto the stack, the nearest on top. */
static inline int push_children(entry *stack, int top, const bvh_node *n, const float p[3], float limit)
{
    float d2[BVH_WIDTH];
    const int bottom = top;
    unsigned met;

    box_distances(n, p, d2);
    for (met = lanes_within(d2, limit); met; met &= met - 1) {
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
        for (int32_t i = e.child; i < e.child + e.count; i++) {
            if (filter && !filter(arg, &bvh->triangles[i])) continue;
            if (try_triangle(&bvh->triangles[i], q, best)) limit = box_limit(q, best->distance2);
        }
    }
}

/* Square of a distance, not below what any point nearer than it may have. */
static float bound_of(const probe *q, float distance)
{
    return distance < 1e19f ? distance * distance * 1.000001f + q->slack : INFINITY;
}

static bool finish_hit(const nearest *best, float max_distance, esi_bvh_hit *hit)
{
    if (best->face < 0 || !(sqrtf(best->distance2) <= max_distance)) return false;
    hit->face = best->face;
    hit->distance2 = best->distance2;
    for (int i = 0; i < 3; i++) hit->bary[i] = (float)best->weight[i];
    for (int k = 0; k < 3; k++) {
        double sum = 0.0;

        for (int i = 0; i < 3; i++) sum += best->weight[i] * (double)best->triangle->corner[i][k];
        hit->point[k] = (float)sum;
    }
    return true;
}

bool esi_bvh_closest(const esi_bvh *bvh, const float p[3], float max_distance, esi_bvh_hit *hit)
{
    const probe q = make_probe(bvh, p);
    nearest best = {.distance2 = bound_of(&q, max_distance), .face = -1};

    search(bvh, &q, &best, NULL, NULL);
    return finish_hit(&best, max_distance, hit);
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
    bvh_cross(n, ab, ac);
    return bvh_dot(n, f->direction) >= f->min_dot * sqrt(bvh_dot(n, n));
}

bool esi_bvh_closest_facing(const esi_bvh *bvh, const float p[3], const float facing[3], float min_dot, float max_distance,
                            esi_bvh_hit *hit)
{
    const probe q = make_probe(bvh, p);
    const facing_filter filter = {{(double)facing[0], (double)facing[1], (double)facing[2]}, (double)min_dot};
    nearest best = {.distance2 = bound_of(&q, max_distance), .face = -1};

    search(bvh, &q, &best, faces_direction, &filter);
    return finish_hit(&best, max_distance, hit);
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

    if (*seed >= 0) try_triangle(&bvh->triangles[*seed], &q, &best);
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

        if (last) try_triangle(last, &q, &best);       /* neighbours in the array are often neighbours in space */
        search(job->bvh, &q, &best, NULL, NULL);
        last = best.face >= 0 ? best.triangle : NULL;
        if (!finish_hit(&best, job->max_distance, &hit)) hit = (esi_bvh_hit){.face = -1, .distance2 = INFINITY};
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
