/* SPDX-License-Identifier: MIT
 *
 * bake_snap.c: the point of the original surface that a texel takes its colour from.
 *
 * The reference takes the nearest point. Where two sheets run close to each other and the simplified surface strays from its own, the
 * nearest point can lie on the other sheet, which faces the texel. What tells them apart is the winding of the original, if it has one
 * that agrees with the mesh: faces whose normal opposes the texel's are refused. Raw dual-grid meshes have none (a fifth of their edges
 * conflict), and an open sheet has two sides that both belong to the surface. There, the side of a face counts that the texel sees: its own
 * sheet lies below it and shows it the side that it is on; the sheet across the gap lies above and shows its underside. Since a texel
 * that has sunk into its own sheet sees just that, another sheet is taken only if it is at most twice as far away.
 */
#include "mesh/bake_internal.h"

#define FACING_CELLS 3.0           /* other places farther away than that are not looked for */
#define SIDE_RATIO 2.0             /* an unoriented original: how much farther another sheet may be */
#define OVER_RATIO 1.5             /* an oriented one: how much farther a sheet may be that the texel lies over */
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

/* ------------------------------------------------------------- another sheet */

typedef struct side_search {
    const esi_bake_job *job;
    const esi_bake_texel *texel;
    double place[3];               /* of the texel */
    double best;                   /* squared */
    esi_bvh_hit hit;
    double normal[3];
    bool found;
} side_search;

/* Does the texel lie over a face through `point`, on the side that belongs to it? Faces without a normal belong to every side. */
static bool lies_over(const side_search *s, const double point[3], const double normal[3])
{
    const double facing = esi_vec_dot(s->texel->normal, normal);
    double up[3];

    esi_vec_sub(up, s->place, point);
    if (s->job->oriented) return facing >= 0.0 && esi_vec_dot(up, normal) >= 0.0;
    return facing * esi_vec_dot(up, normal) >= 0.0;
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
    const esi_mesh *original = s->job->input->original;
    double corner[3][3], bary[3], point[3] = {0}, normal[3], away[3], d2;

    for (int k = 0; k < 3; k++) esi_vec_load(corner[k], original->vertices, original->faces[3 * (int64_t)face + k]);
    esi_vec_face_cross(normal, corner[0], corner[1], corner[2]);
    if (!esi_vec_normalize(normal)) return true;
    closest_on_triangle(bary, s->place, corner[0], corner[1], corner[2]);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 3; i++) point[i] += bary[k] * corner[k][i];
    }
    esi_vec_sub(away, point, s->place);
    d2 = esi_vec_dot(away, away);
    if (d2 > s->best || (d2 == s->best && s->found && face > s->hit.face)) return true;
    if (!lies_over(s, point, normal)) return true;
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

static bool search_within(side_search *s, double reach)
{
    float low[3], high[3];

    reach = ESI_MIN(reach, FACING_CELLS * s->job->cell);
    s->best = reach * reach;
    for (int k = 0; k < 3; k++) {
        low[k] = (float)(s->place[k] - reach);
        high[k] = (float)(s->place[k] + reach);
    }
    esi_bvh_overlap(s->job->input->original_bvh, low, high, consider_face, s);
    return s->found;
}

static side_search start_search(const esi_bake_job *job, const esi_bake_texel *t)
{
    side_search s = {.job = job, .texel = t};

    for (int k = 0; k < 3; k++) s.place[k] = (double)t->position[k];
    return s;
}

static bool over_hit(const side_search *s, const esi_bvh_hit *hit, const double normal[3])
{
    const double point[3] = {(double)hit->point[0], (double)hit->point[1], (double)hit->point[2]};

    return lies_over(s, point, normal);
}

/* An original without sides. Nothing else near: the texel has sunk into its own sheet. */
static esi_bake_snap prefer_own_side(const esi_bake_job *job, esi_bake_texel *t)
{
    side_search s = start_search(job, t);

    if (over_hit(&s, &t->hit, t->hit_normal)) return ESI_SNAP_NEAREST;
    if (!search_within(&s, SIDE_RATIO * distance(t->position, t->hit.point))) return ESI_SNAP_NEAREST;
    t->hit = s.hit;
    memcpy(t->hit_normal, s.normal, sizeof s.normal);
    return ESI_SNAP_OTHER;
}

/* An original with sides. Behind a face that opposes the texel may lie the far side of the same thin wall, which does not: a sheet that the
 * texel lies over comes before it if it is not much farther away. */
static esi_bake_snap prefer_facing(const esi_bake_job *job, esi_bake_texel *t)
{
    const float facing[3] = {(float)t->normal[0], (float)t->normal[1], (float)t->normal[2]};
    side_search s = start_search(job, t);
    esi_bvh_hit hit;

    if (esi_vec_dot(t->normal, t->hit_normal) >= 0.0) return ESI_SNAP_NEAREST;
    if (!esi_bvh_closest_facing(job->input->original_bvh, t->position, facing, 0.0f, (float)(FACING_CELLS * job->cell), &hit)) {
        return ESI_SNAP_OPPOSING;
    }
    t->hit = hit;
    esi_bake_face_normal(t->hit_normal, job->input->original, hit.face);
    if (!over_hit(&s, &hit, t->hit_normal) && search_within(&s, OVER_RATIO * distance(t->position, hit.point))) {
        t->hit = s.hit;
        memcpy(t->hit_normal, s.normal, sizeof s.normal);
    }
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
