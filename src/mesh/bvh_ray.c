/* SPDX-License-Identifier: MIT
 *
 * bvh_ray.c: rays and box overlaps. A ray meets a triangle by the signs of three edge functions in the plane across it, in double (Woop,
 * Benthin, Wald: Watertight Ray/Triangle Intersection, 2013). A sign of zero is that of the origin moved by (e, e^2): of the faces around
 * an edge or a corner that the ray goes through, exactly those count that it would meet beside it, so crossings keep their parity.
 */
#include "mesh/bvh_internal.h"

#include <math.h>

typedef struct ray {
    float origin[3], inverse[3];
    bool parallel[3];
    double exact_origin[3], shear[3];
    int axis[3];                   /* x, y, z of the sheared frame; z is the longest component of the direction */
    float t_min, t_max;
} ray;

/* false: no direction. */
static bool make_ray(ray *r, const float origin[3], const float direction[3], float t_min, float t_max)
{
    int z = 0;

    for (int k = 1; k < 3; k++) {
        if (fabsf(direction[k]) > fabsf(direction[z])) z = k;
    }
    if (!(fabsf(direction[z]) > 0.0f)) return false;
    r->axis[2] = z;
    r->axis[0] = (z + 1) % 3;
    r->axis[1] = (z + 2) % 3;
    if (direction[z] < 0.0f) {                         /* keep the frame's hand */
        const int x = r->axis[0];
        r->axis[0] = r->axis[1];
        r->axis[1] = x;
    }
    r->shear[0] = (double)direction[r->axis[0]] / (double)direction[z];
    r->shear[1] = (double)direction[r->axis[1]] / (double)direction[z];
    r->shear[2] = 1.0 / (double)direction[z];
    for (int k = 0; k < 3; k++) {
        r->origin[k] = origin[k];
        r->exact_origin[k] = (double)origin[k];
        r->inverse[k] = 1.0f / direction[k];
        r->parallel[k] = !(fabsf(r->inverse[k]) < INFINITY);       /* zero, or so small that the quotient overflows */
    }
    r->t_min = t_min;
    r->t_max = t_max;
    return true;
}

/* --------------------------------------------------------------------- boxes */

/* Bit per lane that the ray may meet: never too few. */
static inline unsigned boxes_met(const bvh_node *n, const ray *r)
{
    float enter[BVH_WIDTH], leave[BVH_WIDTH];
    unsigned met = 0;

    for (int lane = 0; lane < BVH_WIDTH; lane++) {
        enter[lane] = r->t_min;
        leave[lane] = r->t_max;
    }
    for (int k = 0; k < 3; k++) {
        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            if (r->parallel[k]) {
                const bool inside = n->min[k][lane] <= r->origin[k] && r->origin[k] <= n->max[k][lane];
                leave[lane] = inside ? leave[lane] : -INFINITY;
                continue;
            }
            const float t1 = (n->min[k][lane] - r->origin[k]) * r->inverse[k], t2 = (n->max[k][lane] - r->origin[k]) * r->inverse[k];
            const float near = t1 < t2 ? t1 : t2, far = t1 < t2 ? t2 : t1;
            /* Three roundings each: wider by more than those. */
            const float near_wide = near - fabsf(near) * 1e-6f, far_wide = far + fabsf(far) * 1e-6f;

            enter[lane] = near_wide > enter[lane] ? near_wide : enter[lane];
            leave[lane] = far_wide < leave[lane] ? far_wide : leave[lane];
        }
    }
    for (int lane = 0; lane < BVH_WIDTH; lane++) met |= (unsigned)(n->count[lane] >= 0 && enter[lane] <= leave[lane]) << lane;
    return met;
}

/* ------------------------------------------------------------------ triangles */

/* Sign of the edge function of a-b at the origin, never zero unless a and b coincide. */
static inline int edge_sign(const double a[2], const double b[2], double value)
{
    if (value != 0.0) return value > 0.0 ? 1 : -1;
    if (a[1] != b[1]) return a[1] > b[1] ? 1 : -1;
    return a[0] < b[0] ? 1 : a[0] > b[0] ? -1 : 0;
}

/* +1: the ray leaves through the face, -1: it enters, 0: it misses. */
static int crossing(const bvh_triangle *t, const ray *r)
{
    double p[3][2], z[3], e[3];
    int sign[3];

    for (int i = 0; i < 3; i++) {
        double d[3];

        for (int k = 0; k < 3; k++) d[k] = (double)t->corner[i][k] - r->exact_origin[k];
        p[i][0] = d[r->axis[0]] - r->shear[0] * d[r->axis[2]];
        p[i][1] = d[r->axis[1]] - r->shear[1] * d[r->axis[2]];
        z[i] = r->shear[2] * d[r->axis[2]];
    }
    for (int i = 0; i < 3; i++) {                      /* of the side opposite corner i */
        const double *a = p[(i + 1) % 3], *b = p[(i + 2) % 3];

        e[i] = a[0] * b[1] - a[1] * b[0];
        sign[i] = edge_sign(a, b, e[i]);
    }
    if (sign[0] == 0 || sign[0] != sign[1] || sign[1] != sign[2]) return 0;
    const double sum = e[0] + e[1] + e[2];
    const double at = sum != 0.0 ? (e[0] * z[0] + e[1] * z[1] + e[2] * z[2]) / sum : z[0];
    if (!(at > (double)r->t_min && at < (double)r->t_max)) return 0;
    return sign[0];
}

/* Returns after the first crossing when `first_only`. */
static int64_t count_crossings(const esi_bvh *bvh, const ray *r, bool first_only, int64_t *all)
{
    int32_t stack[BVH_STACK];
    int64_t sum = 0, number = 0;
    int top = 0;

    stack[top++] = 0;
    while (top > 0) {
        const bvh_node *n = &bvh->nodes[stack[--top]];
        const unsigned met = boxes_met(n, r);

        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            if (!(met >> lane & 1u)) continue;
            if (n->count[lane] == 0) stack[top++] = n->child[lane];
            for (int32_t i = 0; i < n->count[lane]; i++) {
                const int c = crossing(&bvh->triangles[n->child[lane] + i], r);

                sum += c;
                number += c != 0;
                if (c != 0 && first_only) goto done;
            }
        }
    }
done:
    *all = number;
    return sum;
}

bool esi_bvh_ray_any(const esi_bvh *bvh, const float origin[3], const float direction[3], float t_min, float t_max)
{
    ray r;
    int64_t number = 0;

    if (!make_ray(&r, origin, direction, t_min, t_max)) return false;
    count_crossings(bvh, &r, true, &number);
    return number > 0;
}

int64_t esi_bvh_ray_crossings(const esi_bvh *bvh, const float origin[3], const float direction[3], int64_t *all)
{
    ray r;
    int64_t number = 0, sum = 0;

    if (make_ray(&r, origin, direction, 0.0f, INFINITY)) sum = count_crossings(bvh, &r, false, &number);
    if (all) *all = number;
    return sum;
}

/* -------------------------------------------------------------------- overlap */

static bool triangle_box_overlaps(const bvh_triangle *t, const float min[3], const float max[3])
{
    for (int k = 0; k < 3; k++) {
        const float a = t->corner[0][k], b = t->corner[1][k], c = t->corner[2][k];

        if (ESI_MIN(ESI_MIN(a, b), c) > max[k] || ESI_MAX(ESI_MAX(a, b), c) < min[k]) return false;
    }
    return true;
}

void esi_bvh_overlap(const esi_bvh *bvh, const float min[3], const float max[3], esi_bvh_face_fn fn, void *arg)
{
    int32_t stack[BVH_STACK];
    int top = 0;

    stack[top++] = 0;
    while (top > 0) {
        const bvh_node *n = &bvh->nodes[stack[--top]];

        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            bool apart = n->count[lane] < 0;

            for (int k = 0; k < 3; k++) apart = apart || n->min[k][lane] > max[k] || n->max[k][lane] < min[k];
            if (apart) continue;
            if (n->count[lane] == 0) stack[top++] = n->child[lane];
            for (int32_t i = 0; i < n->count[lane]; i++) {
                const bvh_triangle *t = &bvh->triangles[n->child[lane] + i];

                if (triangle_box_overlaps(t, min, max) && !fn(arg, bvh_face(t))) return;
            }
        }
    }
}
