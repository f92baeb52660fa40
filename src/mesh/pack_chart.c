/* SPDX-License-Identifier: MIT
 *
 * pack_chart.c: see pack_chart.h. A circle of radius 0.75 texels holds a texel centre wherever it lies; so charts are looked at in detail
 * only where no face holds such a circle. Those that cover no centre are moved until the middle of their roundest face is one, and if even
 * that face is too thin to be sure of, stretched across it. What would become much larger by that shrinks to a point instead.
 */
#include "mesh/pack_chart.h"

#include "base/math64.h"
#include "mesh/raster_span.h"

#include <math.h>
#include <stdlib.h>

#define SURE_RADIUS 0.75
#define LEAST_RADIUS (1.0 / 64.0)              /* of a circle around a centre, texels: safe from rounding to 1/256 */
#define SURE_CENTRES 4                         /* so many centres covered: one is left after rounding and turning */
#define LEAST_SIDE 0.25                        /* texels, of the roundest face of a widened chart */
#define WIDENED_BOX 2.0                        /* texels a chart may grow to */
#define MAX_DIRECTIONS 128                     /* sides of the convex hull that are tried */

/* ------------------------------------------------------------ smallest box */

static double turn(const double a[2], const double b[2], const double c[2])
{
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static int compare_points(const void *a, const void *b)
{
    const double *p = a, *q = b;

    if (p[0] != q[0]) return p[0] < q[0] ? -1 : 1;
    return p[1] < q[1] ? -1 : p[1] > q[1];
}

/* Points strictly inside the octagon of the extreme ones are on no hull (Akl, Toussaint 1978). */
static int64_t drop_inner_points(double (*p)[2], int64_t n)
{
    static const double way[8][2] = {{1, 0}, {1, 1}, {0, 1}, {-1, 1}, {-1, 0}, {-1, -1}, {0, -1}, {1, -1}};
    double far[8][2];
    int64_t kept = 0;

    for (int k = 0; k < 8; k++) {
        double best = 0.0;

        for (int64_t i = 0; i < n; i++) {
            const double d = way[k][0] * p[i][0] + way[k][1] * p[i][1];

            if (i > 0 && !(d > best)) continue;
            best = d;
            memcpy(far[k], p[i], sizeof far[k]);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        bool inside = true;

        for (int k = 0; k < 8 && inside; k++) {
            const double *a = far[k], *b = far[(k + 1) % 8];

            inside = (a[0] == b[0] && a[1] == b[1]) || turn(a, b, p[i]) > 0.0;
        }
        if (inside) continue;
        p[kept][0] = p[i][0];
        p[kept++][1] = p[i][1];
    }
    return kept;
}

/* Convex hull, counter-clockwise (Andrew's monotone chain): the lower chain is followed by the upper one. Points nearly on a line may
 * stay in both, each time on the side where rounding puts them: room for 2 n. */
static int64_t convex_hull(double (*p)[2], int64_t n, double (*hull)[2])
{
    int64_t k = 0;

    for (int pass = 0; pass < 2; pass++) {
        const int64_t base = k;

        for (int64_t i = 0; i < n; i++) {
            const double *q = p[pass == 0 ? i : n - 1 - i];

            while (k >= base + 2 && turn(hull[k - 2], hull[k - 1], q) <= 0.0) k--;
            memcpy(hull[k++], q, sizeof hull[0]);
        }
        k--;                                   /* the last point begins the next chain */
    }
    return k;
}

static double box_area(double (*hull)[2], int64_t n, double c, double s)
{
    double low[2] = {0}, high[2] = {0};

    for (int64_t i = 0; i < n; i++) {
        const double x = c * hull[i][0] + s * hull[i][1], y = c * hull[i][1] - s * hull[i][0];

        if (i == 0 || x < low[0]) low[0] = x;
        if (i == 0 || x > high[0]) high[0] = x;
        if (i == 0 || y < low[1]) low[1] = y;
        if (i == 0 || y > high[1]) high[1] = y;
    }
    return (high[0] - low[0]) * (high[1] - low[1]);
}

void esi_pack_smallest_box(double (*points)[2], int64_t n, double *cosine, double *sine)
{
    int64_t m, step;
    double(*hull)[2], best;

    *cosine = 1.0;
    *sine = 0.0;
    if (n > 16) n = drop_inner_points(points, n);
    qsort(points, (size_t)n, sizeof *points, compare_points);
    m = 0;
    for (int64_t i = 0; i < n; i++) {
        if (m > 0 && points[m - 1][0] == points[i][0] && points[m - 1][1] == points[i][1]) continue;
        points[m][0] = points[i][0];
        points[m++][1] = points[i][1];
    }
    if (m < 2) return;
    hull = points + m;
    m = convex_hull(points, m, hull);
    best = box_area(hull, m, 1.0, 0.0);
    step = (m + MAX_DIRECTIONS - 1) / MAX_DIRECTIONS;
    for (int64_t i = 0; i < m; i += step) {
        const double *a = hull[i], *b = hull[(i + 1) % m];
        const double x = b[0] - a[0], y = b[1] - a[1], length = sqrt(x * x + y * y);
        double area;

        if (!(length > 0.0)) continue;
        area = box_area(hull, m, x / length, y / length);
        if (!(area < best)) continue;
        best = area;
        *cosine = x / length;
        *sine = y / length;
    }
}

/* ------------------------------------------------------------ preparation */

static espalier_status sort_faces(espalier_context *ctx, esi_pack_charts *p)
{
    const int64_t n_faces = p->mesh->n_faces;

    p->charts = esi_calloc(ctx, (size_t)p->n, sizeof *p->charts, "charts to pack");
    p->start = esi_calloc(ctx, (size_t)p->n + 2, sizeof *p->start, "faces of charts");
    p->faces = esi_alloc(ctx, (size_t)n_faces, sizeof *p->faces, "faces of charts");
    if (!p->charts || !p->start || !p->faces) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < n_faces; f++) p->start[p->source->face_chart[f] + 2]++;
    for (int32_t i = 0; i < p->n; i++) p->start[i + 2] += p->start[i + 1];
    for (int64_t f = 0; f < n_faces; f++) p->faces[p->start[p->source->face_chart[f] + 1]++] = (int32_t)f;
    return ESPALIER_OK;
}

/* Corners in the chart's frame, world units. */
static void framed(const esi_pack_charts *p, const esi_pack_chart *chart, int32_t face, double corner[3][2])
{
    const float *uv = p->source->corner_uv + 6 * (int64_t)face;

    for (int k = 0; k < 3; k++) {
        const double u = (double)uv[2 * k], v = (double)uv[2 * k + 1];

        corner[k][0] = chart->cosine * u + chart->sine * v;
        corner[k][1] = chart->cosine * v - chart->sine * u;
    }
}

/* Inscribed circle of a triangle; radius 0 without area. */
static double incircle(const double c[3][2], double middle[2])
{
    double side[3], sum = 0.0;

    middle[0] = middle[1] = 0.0;
    for (int k = 0; k < 3; k++) {
        const double *a = c[(k + 1) % 3], *b = c[(k + 2) % 3];
        const double x = b[0] - a[0], y = b[1] - a[1];

        side[k] = sqrt(x * x + y * y);
        sum += side[k];
    }
    if (!(sum > 0.0)) return 0.0;
    for (int k = 0; k < 3; k++) {
        middle[0] += c[k][0] * (side[k] / sum);
        middle[1] += c[k][1] * (side[k] / sum);
    }
    return esi_fabs(turn(c[0], c[1], c[2])) / sum;
}

static void measure_chart(const esi_pack_charts *p, esi_pack_chart *chart, int32_t begin, int32_t end)
{
    double high[2] = {0};

    for (int32_t i = begin; i < end; i++) {
        double corner[3][2], middle[2], radius;

        framed(p, chart, p->faces[i], corner);
        if (turn(corner[0], corner[1], corner[2]) < 0.0) chart->folded = true;
        chart->area += esi_fabs(turn(corner[0], corner[1], corner[2])) / 2.0;
        for (int k = 0; k < 6; k++) {
            const double v = corner[k / 2][k % 2];

            if ((i == begin && k < 2) || v < chart->low[k % 2]) chart->low[k % 2] = v;
            if ((i == begin && k < 2) || v > high[k % 2]) high[k % 2] = v;
        }
        radius = incircle((const double (*)[2])corner, middle);
        if (!(radius > chart->radius)) continue;
        chart->radius = radius;
        memcpy(chart->middle, middle, sizeof middle);
    }
    for (int k = 0; k < 2; k++) {
        chart->extent[k] = high[k] - chart->low[k];
        chart->middle[k] -= chart->low[k];
    }
}

/* Is the face's side inside its chart: the same two corners on both sides, in opposite order? */
static bool inner_side(const esi_pack_charts *p, int64_t side, int32_t other)
{
    const int64_t f = side / 3;
    const float *a = p->source->corner_uv + 6 * f + 2 * (side % 3), *b = p->source->corner_uv + 2 * (int64_t)esi_next_corner((int32_t)side);
    const float *c, *d;

    if (other < 0 || p->source->face_chart[f] != p->source->face_chart[other / 3]) return false;
    c = p->source->corner_uv + 2 * (int64_t)other;
    d = p->source->corner_uv + 2 * (int64_t)esi_next_corner(other);
    return a[0] == d[0] && a[1] == d[1] && b[0] == c[0] && b[1] == c[1];
}

/* Lists of border sides, made like those of faces. */
static espalier_status find_borders(espalier_context *ctx, esi_pack_charts *p)
{
    int32_t *opposite;
    espalier_status st = esi_opposite_corners(ctx, &opposite, p->mesh);

    if (st != ESPALIER_OK) return st;
    p->border_start = esi_calloc(ctx, (size_t)p->n + 2, sizeof *p->border_start, "borders of charts");
    if (!p->border_start) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t i = 0; i < 3 * p->mesh->n_faces; i++) {
        if (!inner_side(p, i, opposite[i])) p->border_start[p->source->face_chart[i / 3] + 2]++;
    }
    for (int32_t i = 0; i < p->n; i++) p->border_start[i + 2] += p->border_start[i + 1];
    p->borders = esi_alloc(ctx, (size_t)p->border_start[p->n + 1], sizeof *p->borders, "borders of charts");
    p->border_ends = esi_alloc(ctx, (size_t)p->border_start[p->n + 1], sizeof *p->border_ends, "borders of charts");
    if (!p->borders || !p->border_ends) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t i = 0; i < 3 * p->mesh->n_faces; i++) {
        if (!inner_side(p, i, opposite[i])) p->borders[p->border_start[p->source->face_chart[i / 3] + 1]++] = (int32_t)i;
    }
done:
    esi_free(ctx, opposite);
    return st;
}

/* Ends of the chart's border sides, from the low corner of its box. */
static void frame_borders(const esi_pack_charts *p, int32_t chart)
{
    const esi_pack_chart *c = &p->charts[chart];

    for (int32_t i = p->border_start[chart]; i < p->border_start[chart + 1]; i++) {
        const int32_t face = p->borders[i] / 3, k = p->borders[i] % 3;
        double corner[3][2];

        framed(p, c, face, corner);
        for (int j = 0; j < 4; j++) p->border_ends[i][j / 2][j % 2] = corner[(k + j / 2) % 3][j % 2] - c->low[j % 2];
    }
}

typedef struct prepare_job {
    esi_pack_charts *p;
    espalier_context *ctx;
    bool rotate;
} prepare_job;

/* Charts are handed out in groups; a group's work does not depend on the others. */
#define GROUP 16

static void prepare_group(void *arg, size_t task, int slot)
{
    const prepare_job *job = arg;
    const esi_pack_charts *p = job->p;
    const int32_t last = (int32_t)ESI_MIN((int64_t)(task + 1) * GROUP, p->n);

    (void)slot;
    for (int32_t i = (int32_t)task * GROUP; i < last; i++) {
        esi_pack_chart *chart = &p->charts[i];
        const int32_t begin = p->start[i], end = p->start[i + 1];

        chart->cosine = 1.0;
        if (job->rotate && end > begin) {
            const int64_t n = 3 * (int64_t)(end - begin);
            double(*points)[2] = esi_alloc(job->ctx, (size_t)(3 * n + 2), sizeof *points, "outline of a chart");

            if (!points) return;
            for (int32_t j = begin; j < end; j++) framed(p, chart, p->faces[j], points + 3 * (int64_t)(j - begin));
            esi_pack_smallest_box(points, n, &chart->cosine, &chart->sine);
            esi_free(job->ctx, points);
        }
        measure_chart(p, chart, begin, end);
        frame_borders(p, i);
    }
}

espalier_status esi_pack_charts_prepare(espalier_context *ctx, esi_pack_charts *out, const esi_charts *source, const esi_mesh *mesh,
                                        bool rotate)
{
    prepare_job job = {out, ctx, rotate};
    espalier_status st;

    memset(out, 0, sizeof *out);
    out->source = source;
    out->mesh = mesh;
    out->n = source->n_charts;
    if ((st = sort_faces(ctx, out)) != ESPALIER_OK || (st = find_borders(ctx, out)) != ESPALIER_OK) goto failed;
    if ((st = esi_parallel(ctx, ((size_t)out->n + GROUP - 1) / GROUP, prepare_group, &job)) != ESPALIER_OK) goto failed;
    for (int32_t i = 0; i < out->n; i++) out->area += out->charts[i].area;
    return ESPALIER_OK;
failed:
    esi_pack_charts_free(ctx, out);
    return st;
}

void esi_pack_charts_free(espalier_context *ctx, esi_pack_charts *p)
{
    esi_free(ctx, p->charts);
    esi_free(ctx, p->start);
    esi_free(ctx, p->faces);
    esi_free(ctx, p->border_start);
    esi_free(ctx, p->borders);
    esi_free(ctx, p->border_ends);
    memset(p, 0, sizeof *p);
}

/* ------------------------------------------------------------ at one scale */

/* A point: the chart's first proper face becomes this triangle around the middle of a texel, everything else its middle. */
static const double point_triangle[3][2] = {{0.32, 0.32}, {0.92, 0.32}, {0.32, 0.92}};

static void point_corners(const esi_pack_charts *p, int32_t chart, int32_t face, double corner[3][2])
{
    const int32_t *named = NULL;

    for (int32_t i = p->start[chart]; i < p->start[chart + 1]; i++) {
        const int32_t *f = p->mesh->faces + 3 * (int64_t)p->faces[i];

        if (f[0] == f[1] || f[1] == f[2] || f[2] == f[0]) continue;
        named = f;
        break;
    }
    for (int k = 0; k < 3; k++) {
        const int32_t v = p->mesh->faces[3 * (int64_t)face + k];
        int corner_of = -1;

        for (int j = 0; j < 3 && named; j++) {
            if (named[j] == v) corner_of = j;
        }
        corner[k][0] = corner_of >= 0 ? point_triangle[corner_of][0] : 0.5;
        corner[k][1] = corner_of >= 0 ? point_triangle[corner_of][1] : 0.5;
    }
}

static void transform(const esi_pack_chart *c, double p[2])
{
    const double x = p[0] - c->low[0], y = p[1] - c->low[1];

    p[0] = c->matrix[0][0] * x + c->matrix[0][1] * y + c->offset[0];
    p[1] = c->matrix[1][0] * x + c->matrix[1][1] * y + c->offset[1];
}

void esi_pack_corners(const esi_pack_charts *p, int32_t chart, int32_t face, double corner[3][2])
{
    const esi_pack_chart *c = &p->charts[chart];

    if (c->point) {
        point_corners(p, chart, face, corner);
        return;
    }
    framed(p, c, face, corner);
    for (int k = 0; k < 3; k++) transform(c, corner[k]);
}

/* Is a circle of LEAST_RADIUS around a texel centre inside the triangle? */
static bool holds_centre(const double c[3][2])
{
    const double sign = turn(c[0], c[1], c[2]) < 0.0 ? -1.0 : 1.0;
    const double y_low = ESI_MIN(ESI_MIN(c[0][1], c[1][1]), c[2][1]), y_high = ESI_MAX(ESI_MAX(c[0][1], c[1][1]), c[2][1]);

    for (double y = esi_ceil(y_low - 0.5) + 0.5; y <= y_high; y += 1.0) {
        double low = -1e300, high = 1e300;     /* of x on this line, at least the radius from each side */

        for (int k = 0; k < 3; k++) {
            const double *a = c[k], *b = c[(k + 1) % 3];
            const double dx = (b[0] - a[0]) * sign, dy = (b[1] - a[1]) * sign;
            /* dx (y - ay) - dy (x - ax) >= radius * length */
            const double rest = dx * (y - a[1]) + dy * a[0] - LEAST_RADIUS * sqrt(dx * dx + dy * dy);

            if (dy > 0.0) high = ESI_MIN(high, rest / dy);
            else if (dy < 0.0) low = ESI_MAX(low, rest / dy);
            else if (rest < 0.0) high = -1e300;
        }
        if (low <= high && esi_ceil(low - 0.5) + 0.5 <= high) return true;
    }
    return false;
}

/* Surely, however it is turned and rounded: by one face, or by several centres over faces that are small themselves. */
static bool chart_holds_centre(const esi_pack_charts *p, int32_t chart)
{
    int32_t centres = 0;

    for (int32_t i = p->start[chart]; i < p->start[chart + 1]; i++) {
        esi_raster_shape shape;
        double corner[3][2];

        esi_pack_corners(p, chart, p->faces[i], corner);
        if (holds_centre((const double (*)[2])corner)) return true;
        if (!esi_raster_shape_make(&shape, (const double (*)[2])corner, INT32_MAX, 0, INT32_MAX)) continue;
        for (int32_t y = shape.y_begin; y < shape.y_end && centres < SURE_CENTRES; y++) {
            int32_t x_begin, x_end;

            if (esi_raster_row(&shape, y, &x_begin, &x_end)) centres += x_end - x_begin;
        }
        if (centres >= SURE_CENTRES) return true;
    }
    return false;
}

/* The face with the largest circle inside, in the chart's frame. */
static void roundest_face(const esi_pack_charts *p, int32_t chart, double round[3][2])
{
    double best = 0.0, corner[3][2], middle[2];

    for (int32_t i = p->start[chart]; i < p->start[chart + 1]; i++) {
        double radius;

        framed(p, &p->charts[chart], p->faces[i], corner);
        radius = incircle((const double (*)[2])corner, middle);
        if (!(radius > best)) continue;
        best = radius;
        memcpy(round, corner, sizeof corner);
    }
}

/* Scale `uniform`, and `across` times that across the unit direction (x, y). */
static void set_matrix(esi_pack_chart *c, double uniform, double across, double x, double y)
{
    c->matrix[0][0] = uniform * (1.0 + (across - 1.0) * y * y);
    c->matrix[0][1] = c->matrix[1][0] = -uniform * (across - 1.0) * x * y;
    c->matrix[1][1] = uniform * (1.0 + (across - 1.0) * x * x);
}

/* Moves the chart to positive coordinates, with a texel centre at the middle of its roundest face. */
static void move_chart(const esi_pack_charts *p, int32_t chart, const double *middle)
{
    esi_pack_chart *c = &p->charts[chart];
    double low[2] = {0}, high[2] = {0};

    c->offset[0] = c->offset[1] = 0.0;
    for (int32_t i = p->start[chart]; i < p->start[chart + 1]; i++) {
        double corner[3][2];

        esi_pack_corners(p, chart, p->faces[i], corner);
        for (int k = 0; k < 6; k++) {
            const double v = corner[k / 2][k % 2];

            if ((i == p->start[chart] && k < 2) || v < low[k % 2]) low[k % 2] = v;
            if ((i == p->start[chart] && k < 2) || v > high[k % 2]) high[k % 2] = v;
        }
    }
    for (int k = 0; k < 2; k++) {
        const double from_low = middle[k] - low[k] + ESI_PACK_SLACK;

        c->offset[k] = esi_ceil(from_low - 0.5) + 0.5 - middle[k];
        high[k] = ESI_MIN(esi_floor(high[k] + c->offset[k] + ESI_PACK_SLACK) + 1.0, 1e9);
    }
    c->width = (int32_t)high[0];
    c->height = (int32_t)high[1];
}

/* Stretches the chart across the longest side of its roundest face until that holds a circle of twice the least radius. */
static void widen(const esi_pack_charts *p, int32_t chart, double scale)
{
    esi_pack_chart *c = &p->charts[chart];
    const double limit[2] = {ESI_MAX(c->extent[0] * scale, WIDENED_BOX) + 2.0, ESI_MAX(c->extent[1] * scale, WIDENED_BOX) + 2.0};
    double round[3][2] = {{0}}, stretched[3][2], middle[2] = {0}, longest = 0.0, radius = 0.0, x = 1.0, y = 0.0, uniform;

    roundest_face(p, chart, round);
    for (int k = 0; k < 3; k++) {
        const double dx = round[(k + 1) % 3][0] - round[k][0], dy = round[(k + 1) % 3][1] - round[k][1], side = sqrt(dx * dx + dy * dy);

        if (!(side > longest)) continue;
        longest = side;
        x = dx / side;
        y = dy / side;
    }
    uniform = ESI_MAX(scale, LEAST_SIDE / longest);
    c->offset[0] = c->offset[1] = 0.0;
    c->enlarged = true;
    for (double across = 1.0; across < 1e12 && radius < 2.0 * LEAST_RADIUS; across *= 1.25) {
        set_matrix(c, uniform, across, x, y);
        memcpy(stretched, round, sizeof round);
        for (int k = 0; k < 3; k++) transform(c, stretched[k]);
        radius = incircle((const double (*)[2])stretched, middle);
    }
    move_chart(p, chart, middle);
    c->point = radius < 2.0 * LEAST_RADIUS || c->width > limit[0] || c->height > limit[1];
}

static void fit_chart(const esi_pack_charts *p, int32_t chart, double scale)
{
    esi_pack_chart *c = &p->charts[chart];

    set_matrix(c, scale, 1.0, 1.0, 0.0);
    c->offset[0] = c->offset[1] = ESI_PACK_SLACK;
    c->width = (int32_t)ESI_MIN(esi_floor(c->extent[0] * scale + 2.0 * ESI_PACK_SLACK) + 1.0, 1e9);
    c->height = (int32_t)ESI_MIN(esi_floor(c->extent[1] * scale + 2.0 * ESI_PACK_SLACK) + 1.0, 1e9);
    c->enlarged = false;
    c->point = !(c->radius > 0.0);
    if (!c->point && c->radius * scale < SURE_RADIUS && !chart_holds_centre(p, chart)) {
        const double middle[2] = {c->middle[0] * scale, c->middle[1] * scale};

        if (c->radius * scale < 2.0 * LEAST_RADIUS) widen(p, chart, scale);
        else move_chart(p, chart, middle);
    }
    if (!c->point) return;
    c->enlarged = true;
    c->width = c->height = 1;
}

typedef struct fit_job {
    const esi_pack_charts *p;
    double scale;
} fit_job;

static void fit_group(void *arg, size_t task, int slot)
{
    const fit_job *job = arg;
    const int32_t last = (int32_t)ESI_MIN((int64_t)(task + 1) * GROUP, job->p->n);

    (void)slot;
    for (int32_t i = (int32_t)task * GROUP; i < last; i++) fit_chart(job->p, i, job->scale);
}

espalier_status esi_pack_charts_fit(espalier_context *ctx, esi_pack_charts *p, double texels_per_unit)
{
    fit_job job = {p, texels_per_unit};

    return esi_parallel(ctx, ((size_t)p->n + GROUP - 1) / GROUP, fit_group, &job);
}
