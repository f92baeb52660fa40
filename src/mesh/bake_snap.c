/* SPDX-License-Identifier: MIT
 *
 * bake_snap.c: the point of the original surface that a texel takes its colour from.
 *
 * The reference takes the nearest point. Where two sheets run close to each other and the simplified surface strays from its own, the
 * nearest point can lie on the other sheet, which faces the texel. What tells them apart is the winding of the original, if it has one
 * that agrees with the mesh: faces whose normal opposes the texel's are refused. Raw dual-grid meshes have none (a fifth of their edges
 * conflict), and an open sheet has two sides that both belong to the surface. There, the side of a face counts that can be seen from a
 * point half a cell above the texel: the texel's own sheet lies below that point and shows it the side that the texel is on; the sheet
 * across the gap lies above and shows its underside. Since a dent deeper than half a cell looks the same, another sheet is taken only if it
 * is at most half again as far away.
 */
#include "mesh/bake_internal.h"

#define FACING_CELLS 3.0           /* other places farther away than that are not looked for */
#define LIFT_CELLS 0.5             /* how far above the texel the side of a face is looked at */
#define SIDE_RATIO 1.5             /* an unoriented original: how much farther another sheet may be */
#define JUDGE_GRID 256             /* about that many texels per side vote about the winding */
#define JUDGE_CELLS 2.0            /* only where the original is so close ... */
#define JUDGE_COSINE 0.7           /* ... and so parallel */
#define JUDGE_SHARE 0.98

static double distance(const float a[3], const float b[3])
{
    double sum = 0.0;

    for (int k = 0; k < 3; k++) sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sqrt(sum);
}

static void nearest(const esi_bake_job *job, esi_bake_texel *t, const esi_bake_texel *last)
{
    const esi_bvh *bvh = job->input->original_bvh;

    t->has_hit = false;
    if (last && last->has_hit) {
        /* That texel's point is on the surface, so the nearest one is no farther; the margin outweighs rounding. */
        const double bound = distance(t->position, last->hit.point) * 1.0001 + 1e-6;

        t->has_hit = esi_bvh_closest(bvh, t->position, (float)bound, &t->hit);
    }
    if (!t->has_hit) t->has_hit = esi_bvh_closest(bvh, t->position, INFINITY, &t->hit);
    if (t->has_hit) esi_bake_face_normal(t->hit_normal, job->input->original, t->hit.face);
}

/* ------------------------------------------------------ originals without sides */

typedef struct side_search {
    const esi_bake_texel *texel;
    const esi_mesh *original;
    double above[3];
    double best;                   /* squared */
    esi_bvh_hit hit;
    double normal[3];
    bool found;
} side_search;

/* Does a face through `point` turn to `above` the side that the texel is on? Faces without a normal do. */
static bool side_agrees(const double above[3], const double texel_normal[3], const double point[3], const double normal[3])
{
    double up[3];

    esi_vec_sub(up, above, point);
    return esi_vec_dot(up, normal) * esi_vec_dot(texel_normal, normal) >= 0.0;
}

/* Nearest point of a triangle (Ericson, Real-Time Collision Detection, 5.1.5), as barycentrics. */
static void closest_on_triangle(double bary[3], const double p[3], const double a[3], const double b[3], const double c[3])
{
    double ab[3], ac[3], ap[3], bp[3], cp[3], d1, d2, d3, d4, d5, d6, va, vb, vc, v, w;

    esi_vec_sub(ab, b, a);
    esi_vec_sub(ac, c, a);
    esi_vec_sub(ap, p, a);
    esi_vec_sub(bp, p, b);
    esi_vec_sub(cp, p, c);
    d1 = esi_vec_dot(ab, ap), d2 = esi_vec_dot(ac, ap);
    d3 = esi_vec_dot(ab, bp), d4 = esi_vec_dot(ac, bp);
    d5 = esi_vec_dot(ab, cp), d6 = esi_vec_dot(ac, cp);
    va = d3 * d6 - d5 * d4, vb = d5 * d2 - d1 * d6, vc = d1 * d4 - d3 * d2;
    if (d1 <= 0.0 && d2 <= 0.0) {
        v = w = 0.0;
    } else if (d3 >= 0.0 && d4 <= d3) {
        v = 1.0, w = 0.0;
    } else if (d6 >= 0.0 && d5 <= d6) {
        v = 0.0, w = 1.0;
    } else if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {
        v = d1 / (d1 - d3), w = 0.0;
    } else if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
        v = 0.0, w = d2 / (d2 - d6);
    } else if (va <= 0.0 && d4 - d3 >= 0.0 && d5 - d6 >= 0.0) {
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6));
        v = 1.0 - w;
    } else {
        v = vb / (va + vb + vc);
        w = vc / (va + vb + vc);
    }
    bary[0] = 1.0 - v - w;
    bary[1] = v;
    bary[2] = w;
}

static bool consider_face(void *arg, int32_t face)
{
    side_search *s = arg;
    double p[3], corner[3][3], bary[3], point[3] = {0}, normal[3], away[3], d2;

    for (int k = 0; k < 3; k++) {
        p[k] = (double)s->texel->position[k];
        esi_vec_load(corner[k], s->original->vertices, s->original->faces[3 * (int64_t)face + k]);
    }
    esi_vec_face_cross(normal, corner[0], corner[1], corner[2]);
    if (!esi_vec_normalize(normal)) return true;
    closest_on_triangle(bary, p, corner[0], corner[1], corner[2]);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++) point[i] += bary[k] * corner[k][i];
    }
    esi_vec_sub(away, point, p);
    d2 = esi_vec_dot(away, away);
    if (d2 > s->best || (d2 == s->best && s->found && face > s->hit.face)) return true;
    if (!side_agrees(s->above, s->texel->normal, point, normal)) return true;
    s->found = true;
    s->best = d2;
    s->hit.face = face;
    s->hit.distance2 = (float)d2;
    for (int k = 0; k < 3; k++) {
        s->hit.bary[k] = (float)bary[k];
        s->hit.point[k] = (float)point[k];
    }
    memcpy(s->normal, normal, sizeof normal);
    return true;
}

static esi_bake_snap prefer_own_side(const esi_bake_job *job, esi_bake_texel *t)
{
    const double far = distance(t->position, t->hit.point), reach = ESI_MIN(SIDE_RATIO * far, FACING_CELLS * job->cell);
    side_search s = {.texel = t, .original = job->input->original, .best = reach * reach};
    float low[3], high[3];
    double point[3];

    for (int k = 0; k < 3; k++) {
        s.above[k] = (double)t->position[k] + LIFT_CELLS * job->cell * t->normal[k];
        point[k] = (double)t->hit.point[k];
        low[k] = (float)((double)t->position[k] - reach);
        high[k] = (float)((double)t->position[k] + reach);
    }
    if (side_agrees(s.above, t->normal, point, t->hit_normal)) return ESI_SNAP_NEAREST;
    esi_bvh_overlap(job->input->original_bvh, low, high, consider_face, &s);
    if (!s.found) return ESI_SNAP_OPPOSING;
    t->hit = s.hit;
    memcpy(t->hit_normal, s.normal, sizeof s.normal);
    return ESI_SNAP_OTHER;
}

/* --------------------------------------------------------- originals with sides */

static esi_bake_snap prefer_facing(const esi_bake_job *job, esi_bake_texel *t)
{
    const float facing[3] = {(float)t->normal[0], (float)t->normal[1], (float)t->normal[2]};
    esi_bvh_hit hit;

    if (esi_vec_dot(t->normal, t->hit_normal) >= 0.0) return ESI_SNAP_NEAREST;
    if (!esi_bvh_closest_facing(job->input->original_bvh, t->position, facing, 0.0f, (float)(FACING_CELLS * job->cell), &hit)) {
        return ESI_SNAP_OPPOSING;
    }
    t->hit = hit;
    esi_bake_face_normal(t->hit_normal, job->input->original, hit.face);
    return ESI_SNAP_OTHER;
}

esi_bake_snap esi_bake_find_hit(const esi_bake_job *job, esi_bake_texel *t, const esi_bake_texel *last)
{
    esi_bake_snap kind = ESI_SNAP_NEAREST;

    nearest(job, t, last);
    if (t->has_hit && job->options->facing) kind = job->oriented ? prefer_facing(job, t) : prefer_own_side(job, t);
    t->opposing = kind == ESI_SNAP_OPPOSING;
    return kind;
}

/* ----------------------------------------------------------------- the winding */

typedef struct judge {
    const esi_bake_job *job;
    int32_t step;
    int64_t *votes;                /* [tasks][2] against, for */
} judge;

static void judge_row(void *arg, size_t task, int slot)
{
    const judge *j = arg;
    const esi_bake_job *job = j->job;
    const int32_t y = (int32_t)task * j->step;
    esi_bake_texel last = {0};

    (void)slot;
    for (int32_t x = 0; x < job->size; x += j->step) {
        const int32_t face = job->owner[(int64_t)y * job->size + x];
        esi_bake_texel t;
        double cosine;

        if (face < 0) continue;
        esi_bake_texel_place(job, &t, face, x, y);
        nearest(job, &t, &last);
        last = t;
        if (!t.has_hit || !((double)t.hit.distance2 <= JUDGE_CELLS * JUDGE_CELLS * job->cell * job->cell)) continue;
        cosine = esi_vec_dot(t.normal, t.hit_normal);
        if (fabs(cosine) >= JUDGE_COSINE) j->votes[2 * task + (cosine > 0.0)]++;
    }
}

espalier_status esi_bake_judge_winding(esi_bake_job *job)
{
    const int32_t step = ESI_MAX(1, job->size / JUDGE_GRID);
    const size_t tasks = (size_t)((job->size + step - 1) / step);
    judge j = {.job = job, .step = step};
    int64_t against = 0, agree = 0;
    espalier_status st;

    j.votes = esi_calloc(job->ctx, tasks, 2 * sizeof *j.votes, "votes on the winding");
    if (!j.votes) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(job->ctx, tasks, judge_row, &j);
    for (size_t i = 0; i < tasks; i++) {
        against += j.votes[2 * i];
        agree += j.votes[2 * i + 1];
    }
    job->oriented = (double)agree >= JUDGE_SHARE * (double)(agree + against);
    esi_free(job->ctx, j.votes);
    return st;
}
