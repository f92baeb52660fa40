/* SPDX-License-Identifier: MIT
 *
 * raster_span.h: the inside of raster.h, for loops that want whole spans of a row: a triangle on a grid of 1/256 texels, and the texels of
 * one row whose centres it covers. Pineda's edge functions ("A Parallel Algorithm for Polygon Rasterization", 1988), solved for x.
 */
#ifndef ESI_MESH_RASTER_SPAN_H
#define ESI_MESH_RASTER_SPAN_H

#include "base/math64.h"
#include "base/surface.h"

#define ESI_RASTER_GRID 256
#define ESI_RASTER_LIMIT 2097152.0           /* texels; coordinates beyond are clamped, so that edge functions stay below 2^62 */

/* Corners in grid units, turned so that twice the area is positive; rows [y_begin, y_end) may hold covered centres. */
typedef struct esi_raster_shape {
    int64_t x[3], y[3], area;
    int32_t x_begin, x_end, y_begin, y_end;
    bool swapped;                            /* corners 1 and 2 have changed places */
} esi_raster_shape;

static inline int64_t esi_raster_floor_div(int64_t a, int64_t b)      /* b > 0 */
{
    const int64_t q = a / b;

    return q - (a % b < 0);
}

/* Nearest grid point; halves go up. */
static inline int64_t esi_raster_snap(double texels)
{
    const double t = ESI_MIN(ESI_MAX(texels, -ESI_RASTER_LIMIT), ESI_RASTER_LIMIT) * ESI_RASTER_GRID + 0.5;
    const int64_t whole = (int64_t)t;

    return whole - (t < (double)whole);
}

static inline int32_t esi_raster_first_centre(int64_t grid, int32_t lowest, int32_t highest)
{
    const int64_t first = esi_raster_floor_div(grid - ESI_RASTER_GRID / 2 + ESI_RASTER_GRID - 1, ESI_RASTER_GRID);

    return (int32_t)ESI_MIN(ESI_MAX(first, lowest), highest);
}

/* false when nothing can be covered: degenerate, not finite, or outside columns [0, width) and rows [y_begin, y_end). */
static inline bool esi_raster_shape_make(esi_raster_shape *s, const double corner[3][2], int32_t width, int32_t y_begin, int32_t y_end)
{
    for (int k = 0; k < 3; k++) {
        if (!(esi_fabs(corner[k][0]) <= 1e300 && esi_fabs(corner[k][1]) <= 1e300)) return false;
        s->x[k] = esi_raster_snap(corner[k][0]);
        s->y[k] = esi_raster_snap(corner[k][1]);
    }
    s->area = (s->x[1] - s->x[0]) * (s->y[2] - s->y[0]) - (s->y[1] - s->y[0]) * (s->x[2] - s->x[0]);
    s->swapped = s->area < 0;
    if (s->swapped) {
        const int64_t x = s->x[1], y = s->y[1];

        s->area = -s->area;
        s->x[1] = s->x[2];
        s->y[1] = s->y[2];
        s->x[2] = x;
        s->y[2] = y;
    }
    const int64_t x_low = ESI_MIN(ESI_MIN(s->x[0], s->x[1]), s->x[2]), x_high = ESI_MAX(ESI_MAX(s->x[0], s->x[1]), s->x[2]);
    const int64_t y_low = ESI_MIN(ESI_MIN(s->y[0], s->y[1]), s->y[2]), y_high = ESI_MAX(ESI_MAX(s->y[0], s->y[1]), s->y[2]);

    s->x_begin = esi_raster_first_centre(x_low, 0, width);
    s->x_end = esi_raster_first_centre(x_high + 1, 0, width);
    s->y_begin = esi_raster_first_centre(y_low, y_begin, y_end);
    s->y_end = esi_raster_first_centre(y_high + 1, y_begin, y_end);
    return s->area > 0 && s->x_begin < s->x_end && s->y_begin < s->y_end;
}

/* Side from corner k to the next: its function is positive on the inside. Centres on it belong to a left or a top side only. */
static inline bool esi_raster_side_owns(int64_t dx, int64_t dy) { return dy < 0 || (dy == 0 && dx > 0); }

/* Covered columns [*x_begin, *x_end) of row y; false when there are none. */
static inline bool esi_raster_row(const esi_raster_shape *s, int32_t y, int32_t *x_begin, int32_t *x_end)
{
    const int64_t py = (int64_t)y * ESI_RASTER_GRID + ESI_RASTER_GRID / 2;
    int64_t low = s->x_begin, high = s->x_end;               /* high: one behind the last */

    for (int k = 0; k < 3; k++) {
        const int next = k == 2 ? 0 : k + 1;
        const int64_t dx = s->x[next] - s->x[k], dy = s->y[next] - s->y[k];
        /* value at column 0, less what it must reach */
        const int64_t c = dx * (py - s->y[k]) - dy * (ESI_RASTER_GRID / 2 - s->x[k]) - !esi_raster_side_owns(dx, dy);

        if (dy == 0 && c < 0) return false;
        if (dy < 0) {
            const int64_t first = -esi_raster_floor_div(c, -dy * ESI_RASTER_GRID);

            low = ESI_MAX(low, first);
        }
        if (dy > 0) {
            const int64_t end = esi_raster_floor_div(c, dy * ESI_RASTER_GRID) + 1;

            high = ESI_MIN(high, end);
        }
    }
    if (low >= high) return false;
    *x_begin = (int32_t)low;
    *x_end = (int32_t)high;
    return true;
}

/* Barycentrics of a centre, in the caller's order of corners. */
static inline void esi_raster_weights(const esi_raster_shape *s, int32_t x, int32_t y, double bary[3])
{
    const int64_t px = (int64_t)x * ESI_RASTER_GRID + ESI_RASTER_GRID / 2, py = (int64_t)y * ESI_RASTER_GRID + ESI_RASTER_GRID / 2;
    const double area = (double)s->area;

    for (int k = 0; k < 3; k++) {
        const int a = (k + 1) % 3, b = (k + 2) % 3, to = s->swapped && k > 0 ? 3 - k : k;
        const int64_t value = (s->x[b] - s->x[a]) * (py - s->y[a]) - (s->y[b] - s->y[a]) * (px - s->x[a]);

        bary[to] = (double)value / area;
    }
}

/* Covered spans [x_begin, x_end) of all faces in a size x size atlas: bands of rows in parallel, in a band faces ascending. Bands begin at
 * even rows and do not depend on the number of threads. Functions may write what belongs to their rows or their slot (esi_parallel). */
typedef struct esi_raster_sink {
    void *arg;
    void (*begin)(void *arg, int slot, int32_t y_begin, int32_t y_end);        /* a band begins, ends; may be NULL */
    void (*span)(void *arg, int slot, int32_t face, int32_t y, int32_t x_begin, int32_t x_end);
    void (*end)(void *arg, int slot, int32_t y_begin, int32_t y_end);
} esi_raster_sink;
espalier_status esi_raster_spans(espalier_context *ctx, uint32_t size, const int32_t *faces, int64_t n_faces, const float *uvs,
                                 const esi_raster_sink *sink);
/* Rows of a band at most. */
int32_t esi_raster_band_rows(uint32_t size);

#endif
