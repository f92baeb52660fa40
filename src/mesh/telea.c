/* SPDX-License-Identifier: MIT
 *
 * telea.c: inpainting by fast marching (Telea 2004), byte for byte as OpenCV 4.6 does it (modules/photo/src/inpaint.cpp), which decides
 * ties, the known side of the distance field, the arithmetic of every weight, and what happens at the border.
 *
 * Distances T live on the picture with a frame of one pixel. First a march outwards over a ring as wide as the radius (its distances count
 * as negative), then the march inwards, which fills each pixel when it reaches it. OpenCV keeps its front in a sorted list with the newest
 * of equals last; a heap keyed (T, number of the push) pops in the same order. The pixels of the first front all have T = 0 and come in
 * raster order before everything else, so they need no heap.
 */
#include "mesh/telea.h"

#include <math.h>

#define MAX_RADIUS 100
#define MAX_PLANES 8
#define FAR 1.0e6f

enum {
    INSIDE = 1,                    /* masked, not filled yet */
    RING = 2,                      /* the outward march has still to reach it */
    BAND = 4,                      /* known pixel beside a masked one */
    NEAR = 8,                      /* within the radius of INSIDE along its row */
    REACHED = 16                   /* by the outward march */
};

typedef struct front_entry {
    uint64_t key;                  /* bits of T (T > 0: they order as T does), then the number of the push */
    int32_t at;
} front_entry;

typedef struct front {
    front_entry *entries;
    size_t count, capacity;
    uint32_t pushes;
} front;

/* A place of the window around the pixel that is filled, and which pixels give the gradient there. */
typedef struct window_place {
    int32_t dx, dy;
    int32_t at;                    /* offset in the framed picture */
    float dst;                     /* 1 / distance^3 */
} window_place;

typedef struct neighbour {
    int32_t self, right, left, down, up;           /* pixels of the picture */
    int32_t scale_x, scale_y;                      /* (place -> pixel) times the factor of the difference */
    float weight;
} neighbour;

/* Planes of one radius and number of channels. */
typedef struct plane_group {
    const esi_telea_plane *planes;
    int32_t n_planes, radius, channels;
    window_place *places;
    int32_t n_places;
} plane_group;

typedef struct march {
    espalier_context *ctx;
    int32_t width, height;         /* of the picture */
    int32_t row, rows;             /* of the framed picture */
    int32_t step[4];               /* up, left, down, right */
    uint8_t *state;
    float *distance;
    front front;
    plane_group groups[MAX_PLANES];
    int32_t n_groups;
    neighbour *neighbours;         /* scratch */
} march;

/* --------------------------------------------------------------------- front */

static espalier_status front_push(espalier_context *ctx, front *f, float t, int32_t at)
{
    uint32_t bits;
    uint64_t key;
    size_t i;

    if (f->count == f->capacity) {
        const size_t capacity = f->capacity == 0 ? 4096 : 2 * f->capacity;
        front_entry *grown = esi_realloc(ctx, f->entries, capacity, sizeof *grown, "inpainting front");

        if (!grown) return ESPALIER_ERR_RESOURCE;
        f->entries = grown;
        f->capacity = capacity;
    }
    memcpy(&bits, &t, sizeof bits);
    key = (uint64_t)bits << 32 | f->pushes++;
    for (i = f->count++; i > 0; i = (i - 1) / 2) {
        if (f->entries[(i - 1) / 2].key <= key) break;
        f->entries[i] = f->entries[(i - 1) / 2];
    }
    f->entries[i] = (front_entry){.key = key, .at = at};
    return ESPALIER_OK;
}

static int32_t front_pop(front *f)
{
    const int32_t at = f->entries[0].at;
    const front_entry last = f->entries[--f->count];
    size_t i = 0;

    for (size_t child = 1; child < f->count; child = 2 * i + 1) {
        if (child + 1 < f->count && f->entries[child + 1].key < f->entries[child].key) child++;
        if (f->entries[child].key >= last.key) break;
        f->entries[i] = f->entries[child];
        i = child;
    }
    f->entries[i] = last;
    return at;
}

/* ----------------------------------------------------------------- distances */

/* Eikonal step from one vertical and one horizontal neighbour; those still `unknown` do not count. */
static float solve(const march *m, int32_t p, int32_t q, uint8_t unknown)
{
    const double a = m->distance[p], b = m->distance[q];
    const double least = a < b ? a : b;

    if (m->state[p] & unknown) return (float)(1.0 + (m->state[q] & unknown ? least : b));
    if (m->state[q] & unknown) return (float)(1.0 + a);
    if (fabs(a - b) >= 1.0) return (float)(1.0 + least);
    return (float)((a + b + sqrt(2.0 - (a - b) * (a - b))) * 0.5);
}

static float arrival(const march *m, int32_t at, uint8_t unknown)
{
    const int32_t up = at + m->step[0], left = at + m->step[1], down = at + m->step[2], right = at + m->step[3];
    const float a = solve(m, up, left, unknown), b = solve(m, down, left, unknown);
    const float c = solve(m, up, right, unknown), d = solve(m, down, right, unknown);
    const float ab = a < b ? a : b, cd = c < d ? c : d;

    return ab < cd ? ab : cd;
}

/* ---------------------------------------------------------------------- fill */

static bool known(const march *m, int32_t at)
{
    return !(m->state[at] & INSIDE);
}

/* Slope of T between two opposite neighbours. */
static float slope(const march *m, int32_t at, int32_t step)
{
    const float *t = m->distance + at;

    if (known(m, at + step)) return known(m, at - step) ? (t[step] - t[-step]) * 0.5f : t[step] - t[0];
    return known(m, at - step) ? t[0] - t[-step] : 0.0f;
}

/* Which pixels give the gradient of the picture at place q = (x, y) of the picture. Pixels of the border read their inner neighbour's row
 * and column, and a gradient with known pixels on both sides is taken twice, not half. */
static void border_gradient(const march *m, neighbour *n, int32_t at, int32_t x, int32_t y)
{
    const int32_t xl = x + (x == 0), xh = x - (x == m->width - 1), yl = y + (y == 0), yh = y - (y == m->height - 1);
    const int32_t column = ESI_MIN(xl, m->width - 1), line = ESI_MIN(yl, m->height - 1) * m->width;
    const bool right = known(m, at + 1), left = known(m, at - 1), down = known(m, at + m->row), up = known(m, at - m->row);

    n->self = line + column;
    n->right = right ? line + xh + 1 : line + xh;
    n->left = left ? line + xl - 1 : line + column;
    if (!right && !left) n->right = n->left;
    n->down = (down ? yh + 1 : yh) * m->width + column;
    n->up = (up ? yl - 1 : ESI_MIN(yl, m->height - 1)) * m->width + column;
    if (!down && !up) n->down = n->up;
    n->scale_x = right && left ? 2 : 1;
    n->scale_y = down && up ? 2 : 1;
}

static inline void inner_gradient(const march *m, neighbour *n, int32_t at, int32_t self)
{
    const int32_t right = known(m, at + 1), left = known(m, at - 1), down = known(m, at + m->row), up = known(m, at - m->row);

    n->self = self;
    n->right = self + right;
    n->left = self - left;
    n->down = self + (down ? m->width : 0);
    n->up = self - (up ? m->width : 0);
    n->scale_x = 1 + (right & left);
    n->scale_y = 1 + (down & up);
}

/* Known places of the window with their weights; returns their number. */
static int32_t find_neighbours(const march *m, const plane_group *g, int32_t at, int32_t x, int32_t y)
{
    const float slope_x = slope(m, at, 1), slope_y = slope(m, at, m->row), t = m->distance[at];
    const int32_t reach = g->radius + 1, self = y * m->width + x;
    const bool border = x < reach || y < reach || x >= m->width - reach || y >= m->height - reach;
    int32_t n = 0;

    for (int32_t i = 0; i < g->n_places; i++) {
        const window_place *p = &g->places[i];
        const int32_t q = at + p->at, qx = x + p->dx, qy = y + p->dy;
        neighbour *found = &m->neighbours[n];
        float lev, dir;

        if (border && (qx < 0 || qy < 0 || qx >= m->width || qy >= m->height)) continue;
        if (!known(m, q)) continue;
        if (border) {
            border_gradient(m, found, q, qx, qy);
        } else {
            inner_gradient(m, found, q, self + p->dy * m->width + p->dx);
        }
        lev = (float)(1.0 / (double)(1.0f + fabsf(m->distance[q] - t)));
        dir = (float)-p->dx * slope_x + (float)-p->dy * slope_y;
        if (fabs((double)dir) <= 0.01) dir = 1.0e-6f;
        found->weight = fabsf(p->dst * lev * dir);
        found->scale_x *= -p->dx;
        found->scale_y *= -p->dy;
        n++;
    }
    return n;
}

/* Round half to even, clamp to a byte. */
static uint8_t to_byte(float v)
{
    int whole;
    float rest;

    if (!(v > 0.0f)) return 0;
    if (v >= 255.0f) return 255;
    whole = (int)v;
    rest = v - (float)whole;
    if (rest > 0.5f || (rest == 0.5f && (whole & 1))) whole++;
    return (uint8_t)whole;
}

static inline void fill_channels(const neighbour *neighbours, int32_t n, uint8_t *pixels, int32_t stride, const int channels,
                                 int32_t target)
{
    float sum[3] = {0}, jx[3] = {0}, jy[3] = {0}, total = 1.0e-20f;

    for (int32_t i = 0; i < n; i++) {
        const neighbour *q = &neighbours[i];
        const uint8_t *self = pixels + (int64_t)q->self * stride;
        const uint8_t *right = pixels + (int64_t)q->right * stride, *left = pixels + (int64_t)q->left * stride;
        const uint8_t *down = pixels + (int64_t)q->down * stride, *up = pixels + (int64_t)q->up * stride;

        for (int c = 0; c < channels; c++) {
            sum[c] += q->weight * (float)self[c];
            jx[c] -= q->weight * (float)((right[c] - left[c]) * q->scale_x);
            jy[c] -= q->weight * (float)((down[c] - up[c]) * q->scale_y);
        }
        total += q->weight;
    }
    for (int c = 0; c < channels; c++) {
        const float change = (jx[c] + jy[c]) / (sqrtf(jx[c] * jx[c] + jy[c] * jy[c]) + 1.0e-20f);

        pixels[(int64_t)target * stride + c] = to_byte(sum[c] / total + change + 0.5f);
    }
}

static void fill_pixel(const march *m, int32_t at)
{
    const int32_t y = at / m->row - 1, x = at % m->row - 1, target = y * m->width + x;

    for (int32_t k = 0; k < m->n_groups; k++) {
        const plane_group *g = &m->groups[k];
        const int32_t n = find_neighbours(m, g, at, x, y);

        for (int32_t i = 0; i < g->n_planes; i++) {
            const esi_telea_plane *plane = &g->planes[i];

            if (g->channels == 3) {
                fill_channels(m->neighbours, n, plane->pixels, plane->stride, 3, target);
            } else {
                fill_channels(m->neighbours, n, plane->pixels, plane->stride, 1, target);
            }
        }
    }
}

/* --------------------------------------------------------------------- march */

static espalier_status visit_around(march *m, int32_t at, uint8_t unknown)
{
    espalier_status st = ESPALIER_OK;

    for (int k = 0; st == ESPALIER_OK && k < 4; k++) {
        const int32_t next = at + m->step[k];

        if (!(m->state[next] & unknown)) continue;
        m->distance[next] = arrival(m, next, unknown);
        if (unknown == INSIDE) {
            fill_pixel(m, next);
            m->state[next] &= (uint8_t)~INSIDE;
        } else {
            m->state[next] = (uint8_t)((m->state[next] & ~RING) | REACHED);
        }
        st = front_push(m->ctx, &m->front, m->distance[next], next);
    }
    return st;
}

static espalier_status run_march(march *m, uint8_t unknown)
{
    const int32_t first = m->row, end = m->row * (m->rows - 1);
    espalier_status st = ESPALIER_OK;

    m->front.count = 0;
    m->front.pushes = 0;
    for (int32_t at = first; st == ESPALIER_OK && at < end; at++) {
        if (m->state[at] & BAND) st = visit_around(m, at, unknown);
        if ((at & 0x3ffff) == 0 && st == ESPALIER_OK) st = esi_check_cancel(m->ctx);
    }
    for (uint32_t pops = 0; st == ESPALIER_OK && m->front.count > 0; pops++) {
        st = visit_around(m, front_pop(&m->front), unknown);
        if ((pops & 0xffff) == 0 && st == ESPALIER_OK) st = esi_check_cancel(m->ctx);
    }
    return st;
}

/* --------------------------------------------------------------------- set-up */

static void mark_inside_and_band(march *m, const uint8_t *mask)
{
    for (int32_t y = 0; y < m->height; y++) {
        uint8_t *state = m->state + (int64_t)(y + 1) * m->row + 1;

        for (int32_t x = 0; x < m->width; x++) state[x] = mask[(int64_t)y * m->width + x] ? INSIDE : 0;
    }
    for (int32_t y = 0; y < m->height; y++) {
        uint8_t *state = m->state + (int64_t)(y + 1) * m->row + 1;

        for (int32_t x = 0; x < m->width; x++) {
            if (state[x] & INSIDE) continue;
            if ((state[x - 1] | state[x + 1] | state[x - m->row] | state[x + m->row]) & INSIDE) state[x] |= BAND;
        }
    }
}

/* NEAR: INSIDE lies within the radius in the same row. */
static void mark_near(march *m, int32_t radius)
{
    for (int32_t y = 1; y <= m->height; y++) {
        uint8_t *state = m->state + (int64_t)y * m->row;
        int32_t last = -MAX_RADIUS - 1;

        for (int32_t x = 0; x < m->row; x++) {
            if (state[x] & INSIDE) last = x;
            if (x - last <= radius) state[x] |= NEAR;
        }
        last = m->row + MAX_RADIUS + 1;
        for (int32_t x = m->row - 1; x >= 0; x--) {
            if (state[x] & INSIDE) last = x;
            if (last - x <= radius) state[x] |= NEAR;
        }
    }
}

static void mark_ring_row(march *m, int32_t y, int32_t *last, int32_t radius)
{
    uint8_t *state = m->state + (int64_t)y * m->row;

    for (int32_t x = 1; x <= m->width; x++) {
        const int32_t gap = y - last[x];

        if (state[x] & NEAR) last[x] = y;
        else if (gap > radius || gap < -radius) continue;
        if (!(state[x] & (INSIDE | BAND))) state[x] |= RING;
    }
}

static espalier_status mark_ring(march *m, int32_t radius)
{
    int32_t *last = esi_alloc(m->ctx, (size_t)m->row, sizeof *last, "inpainting ring");

    if (!last) return ESPALIER_ERR_RESOURCE;
    mark_near(m, radius);
    for (int32_t x = 0; x < m->row; x++) last[x] = -MAX_RADIUS - 1;
    for (int32_t y = 1; y <= m->height; y++) mark_ring_row(m, y, last, radius);
    for (int32_t x = 0; x < m->row; x++) last[x] = m->rows + MAX_RADIUS + 1;
    for (int32_t y = m->height; y >= 1; y--) mark_ring_row(m, y, last, radius);
    esi_free(m->ctx, last);
    return ESPALIER_OK;
}

/* 1 / length^3 from length^2. OpenCV takes the root in double precision for three channels, in single precision for one. */
static float fall_off(int32_t length2, int32_t channels)
{
    const float single = (float)length2 * sqrtf((float)length2);

    return (float)(1.0 / (channels == 3 ? (double)length2 * sqrt((double)length2) : (double)single));
}

static espalier_status make_places(march *m, plane_group *g)
{
    const int32_t r = g->radius;

    g->places = esi_alloc(m->ctx, (size_t)((2 * r + 1) * (2 * r + 1)), sizeof *g->places, "inpainting window");
    if (!g->places) return ESPALIER_ERR_RESOURCE;
    for (int32_t dy = -r; dy <= r; dy++) {
        for (int32_t dx = -r; dx <= r; dx++) {
            const int32_t length2 = dx * dx + dy * dy;

            if (length2 > r * r || length2 == 0) continue;
            g->places[g->n_places++] =
                (window_place){.dx = dx, .dy = dy, .at = dy * m->row + dx, .dst = fall_off(length2, g->channels)};
        }
    }
    return ESPALIER_OK;
}

static int32_t whole_radius(double radius)
{
    if (!(radius > 1.0)) return 1;
    if (radius >= (double)MAX_RADIUS) return MAX_RADIUS;
    return (int32_t)((radius + 0x1p52) - 0x1p52);  /* half to even */
}

/* Neighbouring planes of one kind are one group. */
static espalier_status make_groups(march *m, const esi_telea_plane *planes, int32_t n_planes)
{
    espalier_status st = ESPALIER_OK;
    int32_t largest = 1;

    for (int32_t i = 0; st == ESPALIER_OK && i < n_planes; i++) {
        const int32_t radius = whole_radius(planes[i].radius), channels = planes[i].channels;
        plane_group *last = m->n_groups > 0 ? &m->groups[m->n_groups - 1] : NULL;

        if (last && last->radius == radius && last->channels == channels) {
            last->n_planes++;
            continue;
        }
        m->groups[m->n_groups] = (plane_group){.planes = &planes[i], .n_planes = 1, .radius = radius, .channels = channels};
        largest = ESI_MAX(largest, radius);
        st = make_places(m, &m->groups[m->n_groups++]);
    }
    if (st != ESPALIER_OK) return st;
    m->neighbours = esi_alloc(m->ctx, (size_t)((2 * largest + 1) * (2 * largest + 1)), sizeof *m->neighbours, "inpainting window");
    if (!m->neighbours) return ESPALIER_ERR_RESOURCE;
    return mark_ring(m, largest);
}

static espalier_status check_arguments(espalier_context *ctx, const esi_telea_plane *planes, int32_t n_planes, int32_t width,
                                       int32_t height)
{
    bool ok = n_planes >= 1 && n_planes <= MAX_PLANES && width >= 1 && height >= 1;

    for (int32_t i = 0; ok && i < n_planes; i++) {
        ok = (planes[i].channels == 1 || planes[i].channels == 3) && planes[i].stride >= planes[i].channels;
    }
    if (!ok) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "inpainting: %d planes of %d x %d", (int)n_planes, (int)width, (int)height);
    if (((int64_t)width + 2) * ((int64_t)height + 2) > INT32_MAX) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "inpainting: a picture of %d x %d is too large", (int)width, (int)height);
    }
    return ESPALIER_OK;
}

espalier_status esi_telea_inpaint_planes(espalier_context *ctx, const esi_telea_plane *planes, int32_t n_planes, const uint8_t *mask,
                                         int32_t width, int32_t height)
{
    march m = {.ctx = ctx, .width = width, .height = height};
    espalier_status st = check_arguments(ctx, planes, n_planes, width, height);
    size_t pixels;

    if (st != ESPALIER_OK) return st;
    m.row = width + 2;
    m.rows = height + 2;
    memcpy(m.step, (int32_t[]){-m.row, -1, m.row, 1}, sizeof m.step);
    pixels = (size_t)m.row * (size_t)m.rows;
    m.state = esi_calloc(ctx, pixels, 1, "inpainting labels");
    m.distance = esi_alloc(ctx, pixels, sizeof *m.distance, "inpainting distances");
    st = m.state && m.distance ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    if (st != ESPALIER_OK) goto done;

    mark_inside_and_band(&m, mask);
    for (size_t i = 0; i < pixels; i++) m.distance[i] = m.state[i] & BAND ? 0.0f : FAR;
    st = make_groups(&m, planes, n_planes);
    if (st == ESPALIER_OK) st = run_march(&m, RING);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < pixels; i++) {
        if (m.state[i] & (BAND | REACHED)) m.distance[i] = -m.distance[i];
    }
    st = run_march(&m, INSIDE);
done:
    esi_free(ctx, m.neighbours);
    for (int32_t i = 0; i < m.n_groups; i++) esi_free(ctx, m.groups[i].places);
    esi_free(ctx, m.front.entries);
    esi_free(ctx, m.distance);
    esi_free(ctx, m.state);
    return st;
}

espalier_status esi_telea_inpaint(espalier_context *ctx, uint8_t *pixels, const uint8_t *mask, int32_t width, int32_t height,
                                  int32_t channels, double radius)
{
    const esi_telea_plane plane = {.pixels = pixels, .stride = channels, .channels = channels, .radius = radius};

    return esi_telea_inpaint_planes(ctx, &plane, 1, mask, width, height);
}
