/* SPDX-License-Identifier: MIT
 *
 * chart_flatten.c: a piece of surface into the plane, as rigid as possible (Liu, Zhang, Xu, Gotsman, Gortler, A Local/Global Approach to
 * Mesh Parameterization, 2008): each face keeps its shape up to the rotation that fits best, and one sparse system, factorised once, puts
 * the vertices where the faces agree most. The start is the projection along the piece's axis, which keeps all faces upright since pieces
 * stay within a cone. Where rigidity turns a face over, vertices are moved (chart_untangle.c) or the result is mixed with the projection.
 */
#include "mesh/chart_internal.h"

#include <math.h>

#define MAX_ITERATIONS 24
#define ENOUGH 0.05                /* stop when an iteration gains less than this share of what is left to gain, */
#define EXACT 1e-9                 /* or this share of the area */
#define BEYOND 0.7                 /* of each step is gone in addition: over-relaxation, the misfit falls about twice as fast */
#define PLANE_STRETCH 1.001        /* a projection as good as this stays */
#define MIXTURES 6
#define MIXTURE_STEP 0.35
#define MIXED_STRETCH 0.33         /* of the stretch allowed: beyond, cutting is better than mixing */
#define THICKENED 1e-3             /* height over longest side that thin faces get, so that rounding cannot turn them over */

void chart_flat_free(espalier_context *ctx, chart_flat *flat)
{
    esi_free(ctx, flat->corner);
    esi_free(ctx, flat->source);
    esi_free(ctx, flat->shapes);
    esi_free(ctx, flat->uv);
    esi_free(ctx, flat->projection);
    esi_free(ctx, flat->rhs);
    esi_free(ctx, flat->diagonal);
    esi_free(ctx, flat->slot);
    esi_free(ctx, flat->row_start);
    esi_free(ctx, flat->column);
    esi_free(ctx, flat->entry);
    esi_free(ctx, flat->follower);
    esi_free(ctx, flat->outline);
    esi_free(ctx, flat->cell_start);
    esi_free(ctx, flat->cell_item);
    esi_cholesky_free(ctx, &flat->factor);
    memset(flat, 0, sizeof *flat);
}

static bool reserve_faces(espalier_context *ctx, chart_flat *flat, int32_t n_faces)
{
    size_t capacity = (size_t)n_faces + (size_t)n_faces / 4 + 64;

    if (n_faces <= flat->face_capacity) return true;
    esi_free(ctx, flat->corner);
    esi_free(ctx, flat->shapes);
    flat->face_capacity = 0;
    flat->shapes = NULL;
    flat->corner = esi_alloc(ctx, capacity, 3 * sizeof *flat->corner, "chart corners");
    if (flat->corner) flat->shapes = esi_alloc(ctx, capacity, sizeof *flat->shapes, "chart shapes");
    if (!flat->shapes) return false;
    flat->face_capacity = (int64_t)capacity;
    return true;
}

static bool reserve_vertices(espalier_context *ctx, chart_flat *flat)
{
    size_t capacity = (size_t)flat->n_vertices + (size_t)flat->n_vertices / 4 + 64;

    if (flat->n_vertices <= flat->vertex_capacity) return true;
    esi_free(ctx, flat->source);
    esi_free(ctx, flat->uv);
    esi_free(ctx, flat->projection);
    esi_free(ctx, flat->slot);
    esi_free(ctx, flat->follower);
    flat->vertex_capacity = 0;
    flat->source = esi_alloc(ctx, capacity, sizeof *flat->source, "chart vertices");
    flat->uv = esi_alloc(ctx, capacity, 2 * sizeof *flat->uv, "chart vertices");
    flat->projection = esi_alloc(ctx, capacity, 2 * sizeof *flat->projection, "chart vertices");
    flat->slot = esi_alloc(ctx, capacity, sizeof *flat->slot, "chart vertices");
    flat->follower = esi_alloc(ctx, capacity, sizeof *flat->follower, "chart outline");
    if (!flat->source || !flat->uv || !flat->projection || !flat->slot || !flat->follower) return false;
    flat->vertex_capacity = (int64_t)capacity;
    return true;
}

static bool reserve_outline(espalier_context *ctx, chart_flat *flat, int32_t n)
{
    size_t capacity = (size_t)n + (size_t)n / 4 + 64;

    if (n <= flat->outline_capacity) return true;
    esi_free(ctx, flat->outline);
    flat->outline_capacity = 0;
    flat->outline = esi_alloc(ctx, capacity, sizeof *flat->outline, "chart outline");
    if (!flat->outline) return false;
    flat->outline_capacity = (int64_t)capacity;
    return true;
}

/* The linear system, for charts that need one. */
static bool reserve_system(espalier_context *ctx, chart_flat *flat)
{
    size_t faces = (size_t)flat->face_capacity, vertices = (size_t)flat->vertex_capacity;

    if (flat->face_capacity > flat->system_faces) {
        esi_free(ctx, flat->column);
        esi_free(ctx, flat->entry);
        flat->system_faces = 0;
        flat->entry = NULL;
        flat->column = esi_alloc(ctx, faces, 6 * sizeof *flat->column, "chart system");
        if (flat->column) flat->entry = esi_alloc(ctx, faces, 6 * sizeof *flat->entry, "chart system");
        if (!flat->entry) return false;
        flat->system_faces = flat->face_capacity;
    }
    if (flat->vertex_capacity > flat->system_vertices) {
        esi_free(ctx, flat->rhs);
        esi_free(ctx, flat->diagonal);
        esi_free(ctx, flat->row_start);
        flat->system_vertices = 0;
        flat->diagonal = NULL;
        flat->row_start = NULL;
        flat->rhs = esi_alloc(ctx, vertices, 2 * sizeof *flat->rhs, "chart system");
        if (flat->rhs) flat->diagonal = esi_alloc(ctx, vertices, sizeof *flat->diagonal, "chart system");
        if (flat->diagonal) flat->row_start = esi_alloc(ctx, vertices + 1, sizeof *flat->row_start, "chart system");
        if (!flat->row_start) return false;
        flat->system_vertices = flat->vertex_capacity;
    }
    return true;
}

/* --------------------------------------------------------------- vertices */

/* Corner on the other side of a mesh corner's side within the piece, or -1. */
static int32_t inner(const chart_flat *flat, int32_t corner)
{
    int32_t d = flat->lists->faces->across[corner];
    return d >= 0 && flat->lists->piece[d / 3] == flat->piece ? d : -1;
}

static int32_t local(const chart_flat *flat, int32_t corner) { return 3 * flat->lists->place[corner / 3] + corner % 3; }

/* Give the corners around the one of `start` the number `vertex`, both ways until the border or once around. */
static void number_fan(chart_flat *flat, int32_t start, int32_t vertex)
{
    int32_t c = start, d;

    while (c >= 0 && flat->corner[local(flat, c)] < 0) {
        flat->corner[local(flat, c)] = vertex;
        d = inner(flat, c);
        c = d < 0 ? -1 : esi_next_corner(d);
    }
    for (c = inner(flat, esi_previous_corner(start)); c >= 0 && flat->corner[local(flat, c)] < 0;
         c = inner(flat, esi_previous_corner(c)))
        flat->corner[local(flat, c)] = vertex;
}

static void number_vertices(chart_flat *flat)
{
    for (int32_t i = 0; i < flat->n_faces; i++) flat->lists->place[flat->members[i]] = i;
    for (int32_t c = 0; c < 3 * flat->n_faces; c++) flat->corner[c] = -1;
    flat->n_vertices = 0;
    for (int32_t c = 0; c < 3 * flat->n_faces; c++)
        if (flat->corner[c] < 0) number_fan(flat, 3 * flat->members[c / 3] + c % 3, flat->n_vertices++);
}

static void find_sources(chart_flat *flat)
{
    for (int32_t c = 0, v = 0; c < 3 * flat->n_faces; c++)
        if (flat->corner[c] == v) flat->source[v++] = 3 * flat->members[c / 3] + c % 3;
}

static bool find_outline(espalier_context *ctx, chart_flat *flat)
{
    int32_t n = 0;

    for (int32_t c = 0; c < 3 * flat->n_faces; c++) n += inner(flat, 3 * flat->members[c / 3] + c % 3) < 0;
    if (!reserve_outline(ctx, flat, n)) return false;
    for (int32_t v = 0; v < flat->n_vertices; v++) flat->follower[v] = -1;
    flat->n_outline = 0;
    for (int32_t c = 0; c < 3 * flat->n_faces; c++) {
        if (inner(flat, 3 * flat->members[c / 3] + c % 3) >= 0) continue;
        flat->follower[flat->corner[c]] = flat->corner[esi_next_corner(c)];
        flat->outline[flat->n_outline++] = c;
    }
    return true;
}

/* ----------------------------------------------------------------- shapes */

/* The face flat, from its squared sides |01|, |12|, |20|. */
static bool lay_shape(chart_shape *s, const double side2[3], double area2, double unit)
{
    double longest2 = ESI_MAX(side2[0], ESI_MAX(side2[1], side2[2])), p[3][2], length, along;
    bool thin = !(area2 >= CHART_THIN * longest2) || longest2 == 0.0;
    int base = side2[0] == longest2 ? 0 : side2[1] == longest2 ? 1 : 2, tip = (base + 2) % 3, end = (base + 1) % 3;

    if (longest2 == 0.0) longest2 = unit * unit;
    if (thin) area2 = THICKENED * longest2;
    length = sqrt(longest2);
    along = ESI_MIN(ESI_MAX((longest2 + side2[tip] - side2[end]) / (2.0 * length), 0.0), length);
    p[base][0] = p[base][1] = p[end][1] = 0.0;
    p[end][0] = length;
    p[tip][0] = along;
    p[tip][1] = area2 / length;
    /* turn so that corner 0 is the origin and corner 1 on the x axis */
    double ux = p[1][0] - p[0][0], uy = p[1][1] - p[0][1], vx = p[2][0] - p[0][0], vy = p[2][1] - p[0][1];
    s->x1 = sqrt(ux * ux + uy * uy);
    s->x2 = (ux * vx + uy * vy) / s->x1;
    s->y2 = area2 / s->x1;
    s->area = 0.5 * area2;
    s->weight[0] = 0.5 * s->x1 * s->x2 / area2;
    s->weight[1] = 0.5 * (s->x1 * s->x1 - s->x1 * s->x2) / area2;
    s->weight[2] = 0.5 * (s->x2 * s->x2 + s->y2 * s->y2 - s->x1 * s->x2) / area2;
    return thin;
}

static void make_shapes(chart_flat *flat)
{
    const chart_faces *faces = flat->lists->faces;
    double unit = 1e-6 * sqrt(faces->total_area / (double)faces->mesh->n_faces);

    if (unit == 0.0) unit = 1.0;
    flat->area = 0.0;
    flat->thin = false;
    for (int k = 0; k < 3; k++) flat->axis[k] = 0.0;
    for (int32_t i = 0; i < flat->n_faces; i++) {
        int32_t f = flat->members[i];
        double p[3][3], e[3][3], side2[3];
        for (int32_t k = 0; k < 3; k++) chart_corner_position(p[k], faces->mesh, 3 * f + k);
        for (int k = 0; k < 3; k++) {
            for (int j = 0; j < 3; j++) e[k][j] = p[(k + 1) % 3][j] - p[k][j];
            side2[k] = esi_vec_dot(e[k], e[k]);
            flat->axis[k] += faces->area[f] * (double)faces->normal[3 * (size_t)f + (size_t)k];
        }
        if (lay_shape(&flat->shapes[i], side2, 2.0 * faces->area[f], unit)) flat->thin = true;
        flat->area += faces->area[f];
    }
}

/* ------------------------------------------------------------- projection */

static void make_frame(const double axis[3], double u[3], double v[3])
{
    double length = esi_vec_length(axis), n[3] = {0.0, 0.0, 1.0};
    int least = 0;

    for (int k = 0; k < 3; k++) {
        if (length > 0.0) n[k] = axis[k] / length;
        if (fabs(n[k]) < fabs(n[least])) least = k;
    }
    for (int k = 0; k < 3; k++) u[k] = (k == least ? 1.0 : 0.0) - n[least] * n[k];
    length = esi_vec_length(u);
    for (int k = 0; k < 3; k++) u[k] /= length;
    for (int k = 0; k < 3; k++) v[k] = n[(k + 1) % 3] * u[(k + 2) % 3] - n[(k + 2) % 3] * u[(k + 1) % 3];
}

static void project(chart_flat *flat)
{
    double u[3], v[3], p[3], origin[3];

    make_frame(flat->axis, u, v);
    chart_corner_position(origin, flat->lists->faces->mesh, flat->source[0]);
    for (int32_t i = 0; i < flat->n_vertices; i++) {
        chart_corner_position(p, flat->lists->faces->mesh, flat->source[i]);
        for (int k = 0; k < 3; k++) p[k] -= origin[k];
        flat->projection[2 * (size_t)i] = esi_vec_dot(p, u);
        flat->projection[2 * (size_t)i + 1] = esi_vec_dot(p, v);
    }
    memcpy(flat->uv, flat->projection, (size_t)flat->n_vertices * 2 * sizeof *flat->uv);
}

/* ------------------------------------------------------ as rigid as possible */

/* The cotangent Laplacian: one row per vertex, columns joined. */
static void assemble(chart_flat *flat)
{
    int32_t *start = flat->row_start, n = flat->n_vertices, at = 0;

    for (int32_t v = 0; v <= n; v++) start[v] = 0;
    for (int32_t c = 0; c < 3 * flat->n_faces; c++) start[flat->corner[c] + 1] += 2;
    for (int32_t v = 0; v < n; v++) start[v + 1] += start[v];
    for (int32_t c = 0; c < 3 * flat->n_faces; c++) {
        const double *weight = flat->shapes[c / 3].weight;
        int32_t v = flat->corner[c], next = esi_next_corner(c), previous = esi_previous_corner(c);
        flat->column[start[v]] = flat->corner[next];
        flat->entry[start[v]++] = -weight[previous % 3];
        flat->column[start[v]] = flat->corner[previous];
        flat->entry[start[v]++] = -weight[next % 3];
    }
    for (int32_t v = n; v > 0; v--) start[v] = start[v - 1];
    start[0] = 0;
    for (int32_t v = 0; v < n; v++) flat->slot[v] = -1;
    for (int32_t v = 0, e = 0; v < n; v++) {
        int32_t row = at, end = start[v + 1];
        flat->diagonal[v] = 0.0;
        start[v] = row;
        for (; e < end; e++) {
            int32_t w = flat->column[e];
            double x = flat->entry[e];
            flat->diagonal[v] -= x;
            if (flat->slot[w] >= row) {
                flat->entry[flat->slot[w]] += x;
                continue;
            }
            flat->slot[w] = at;
            flat->column[at] = w;
            flat->entry[at++] = x;
        }
    }
    start[n] = at;
    flat->diagonal[0] *= 2.0; /* holds vertex 0 at the origin: the forces sum to zero */
}

/* Rotate every shape to fit uv best; forces on the vertices to rhs. Returns how far the faces are from rigid, as area. */
static double fit_rotations(chart_flat *flat)
{
    double misfit = 0.0;

    memset(flat->rhs, 0, (size_t)flat->n_vertices * 2 * sizeof *flat->rhs);
    for (int32_t i = 0; i < flat->n_faces; i++) {
        const chart_shape *s = &flat->shapes[i];
        const int32_t *c = flat->corner + 3 * (size_t)i;
        const double *p0 = flat->uv + 2 * (size_t)c[0], *p1 = flat->uv + 2 * (size_t)c[1], *p2 = flat->uv + 2 * (size_t)c[2];
        double *b0 = flat->rhs + 2 * (size_t)c[0], *b1 = flat->rhs + 2 * (size_t)c[1], *b2 = flat->rhs + 2 * (size_t)c[2];
        double ux = p1[0] - p0[0], uy = p1[1] - p0[1], vx = p2[0] - p0[0], vy = p2[1] - p0[1];
        /* the map's derivative */
        double jxx = ux / s->x1, jyx = uy / s->x1, jxy = (vx - jxx * s->x2) / s->y2, jyy = (vy - jyx * s->x2) / s->y2;
        double a = jxx + jyy, b = jyx - jxy, length = sqrt(a * a + b * b);
        double cosine = length > 0.0 ? a / length : 1.0, sine = length > 0.0 ? b / length : 0.0;
        double g1x = cosine * s->x1, g1y = sine * s->x1;
        double g2x = cosine * s->x2 - sine * s->y2, g2y = sine * s->x2 + cosine * s->y2;
        double w0 = s->weight[0], w1 = s->weight[1], w2 = s->weight[2];
        misfit += s->area * (jxx * jxx + jxy * jxy + jyx * jyx + jyy * jyy - 2.0 * length + 2.0);
        b0[0] -= w2 * g1x + w1 * g2x;
        b0[1] -= w2 * g1y + w1 * g2y;
        b1[0] += w2 * g1x + w0 * (g1x - g2x);
        b1[1] += w2 * g1y + w0 * (g1y - g2y);
        b2[0] += w1 * g2x - w0 * (g1x - g2x);
        b2[1] += w1 * g2y - w0 * (g1y - g2y);
    }
    return misfit;
}

static espalier_status make_rigid(espalier_context *ctx, chart_flat *flat, bool *positive)
{
    esi_symmetric a;
    double last = INFINITY, misfit;
    size_t n = 2 * (size_t)flat->n_vertices;
    espalier_status st;

    if (!reserve_system(ctx, flat)) return ESPALIER_ERR_RESOURCE;
    assemble(flat);
    a = (esi_symmetric){flat->n_vertices, flat->row_start, flat->column, flat->entry, flat->diagonal};
    st = esi_cholesky_factor(ctx, &flat->factor, &a, flat->projection, positive);
    flat->work += 4 * flat->n_faces + 8 * flat->factor.entries;
    if (st != ESPALIER_OK || !*positive) return st;
    for (int i = 0; i < MAX_ITERATIONS && st == ESPALIER_OK; i++) {
        misfit = fit_rotations(flat);
        if (!(last - misfit > ENOUGH * misfit + EXACT * flat->area)) break;
        last = misfit;
        flat->work += 2 * flat->n_faces + 2 * flat->factor.entries;
        esi_cholesky_solve2(&flat->factor, flat->rhs);
        for (size_t k = 0; k < n; k++) flat->uv[k] = flat->rhs[k] + (i > 1 ? BEYOND : 0.0) * (flat->rhs[k] - flat->uv[k]);
        if (flat->n_faces > 50000) st = esi_check_cancel(ctx);
    }
    return st;
}

/* ------------------------------------------------------------ second tries */

/* Similarity of the projection that comes closest to uv. */
static void align_projection(chart_flat *flat)
{
    double p[2] = {0.0, 0.0}, q[2] = {0.0, 0.0}, cosine = 0.0, sine = 0.0, size = 0.0;
    size_t n = (size_t)flat->n_vertices;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 2; k++) {
            p[k] += flat->projection[2 * i + k] / (double)n;
            q[k] += flat->uv[2 * i + k] / (double)n;
        }
    }
    for (size_t i = 0; i < n; i++) {
        double px = flat->projection[2 * i] - p[0], py = flat->projection[2 * i + 1] - p[1];
        double qx = flat->uv[2 * i] - q[0], qy = flat->uv[2 * i + 1] - q[1];
        cosine += px * qx + py * qy;
        sine += px * qy - py * qx;
        size += px * px + py * py;
    }
    if (!(size > 0.0) || !(cosine > 0.0)) return;
    cosine /= size;
    sine /= size;
    for (size_t i = 0; i < n; i++) {
        double px = flat->projection[2 * i] - p[0], py = flat->projection[2 * i + 1] - p[1];
        flat->projection[2 * i] = q[0] + cosine * px - sine * py;
        flat->projection[2 * i + 1] = q[1] + sine * px + cosine * py;
    }
}

static espalier_status judge(espalier_context *ctx, chart_flat *flat, double max_stretch, chart_verdict *verdict)
{
    bool overlaps = false;
    espalier_status st;

    chart_measure(flat, flat->uv);
    flat->work += flat->n_faces;
    *verdict = CHART_FLIPPED;
    flat->n_carve = 0;
    if (flat->min_ratio < CHART_MIN_RATIO && !chart_untangle(flat)) return ESPALIER_OK;
    *verdict = CHART_STRETCHED;
    flat->n_carve = CHART_CARVE + 1;
    if (!(flat->stretch <= max_stretch)) return ESPALIER_OK;
    st = chart_overlaps(ctx, flat, &overlaps);
    *verdict = overlaps ? CHART_OVERLAPS : CHART_GOOD;
    return st;
}

/* Faces turned over and small overlaps, of holes that closed for instance, go away on the way to an upright projection. */
static espalier_status mix_with_projection(espalier_context *ctx, chart_flat *flat, double max_stretch, chart_verdict *verdict)
{
    size_t n = 2 * (size_t)flat->n_vertices;
    double limit = 1.0 + MIXED_STRETCH * (max_stretch - 1.0);
    espalier_status st = ESPALIER_OK;

    align_projection(flat);
    for (int step = 0; step < MIXTURES && *verdict != CHART_GOOD && st == ESPALIER_OK; step++) {
        double share = step + 1 < MIXTURES ? MIXTURE_STEP : 1.0; /* in the end all of it: slits close exactly */
        for (size_t i = 0; i < n; i++) flat->uv[i] = (1.0 - share) * flat->uv[i] + share * flat->projection[i];
        st = judge(ctx, flat, limit, verdict);
    }
    return st;
}

espalier_status chart_flatten(espalier_context *ctx, chart_flat *flat, const chart_lists *lists, int32_t first, int32_t count,
                              double max_stretch, bool plane_only, chart_verdict *verdict, esi_chart_method *method)
{
    bool positive = false, upright;
    espalier_status st;

    *verdict = CHART_FLIPPED;
    *method = ESI_CHART_PLANE;
    if (!reserve_faces(ctx, flat, count)) return ESPALIER_ERR_RESOURCE;
    flat->lists = lists;
    flat->members = lists->members + first;
    flat->n_faces = count;
    flat->piece = lists->piece[flat->members[0]];
    flat->work = 4 * (int64_t)count;
    number_vertices(flat);
    if (!reserve_vertices(ctx, flat) || !find_outline(ctx, flat)) return ESPALIER_ERR_RESOURCE;
    find_sources(flat);
    make_shapes(flat);
    project(flat);
    chart_measure(flat, flat->uv);
    upright = flat->min_ratio >= CHART_MIN_RATIO;
    if (upright && !flat->thin && flat->stretch <= (plane_only ? max_stretch : PLANE_STRETCH)) {
        st = judge(ctx, flat, max_stretch, verdict);
        if (st != ESPALIER_OK || *verdict == CHART_GOOD) return st;
    }
    *method = ESI_CHART_CONFORMAL;
    flat->n_carve = CHART_CARVE + 1;
    st = make_rigid(ctx, flat, &positive);
    if (st == ESPALIER_OK && positive) st = judge(ctx, flat, max_stretch, verdict);
    if (st == ESPALIER_OK && positive && upright && *verdict != CHART_GOOD) st = mix_with_projection(ctx, flat, max_stretch, verdict);
    return st;
}
