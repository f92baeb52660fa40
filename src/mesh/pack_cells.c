/* SPDX-License-Identifier: MIT
 *
 * pack_cells.c: the cells a chart touches. A cell that the outline does not pass through lies inside or outside as a whole, so the outline
 * is drawn with everything it touches, and the rest is filled by parity along the lines of cell centres. Faces inside a chart, by far the
 * most, need not be looked at.
 */
#include "mesh/pack_chart.h"

static void set_bits(uint64_t *row, int32_t begin, int32_t last)
{
    const int32_t first_word = begin >> 6, last_word = last >> 6;
    const uint64_t head = UINT64_MAX << (begin & 63), tail = UINT64_MAX >> (63 - (last & 63));

    if (first_word == last_word) {
        row[first_word] |= head & tail;
        return;
    }
    row[first_word] |= head;
    for (int32_t i = first_word + 1; i < last_word; i++) row[i] = UINT64_MAX;
    row[last_word] |= tail;
}

/* Extent of the triangle between two heights; it reaches into that strip. */
static void strip_extent(const double c[3][2], const double slope[3], double low, double high, double *left, double *right)
{
    *left = 1e300;
    *right = -1e300;
    for (int k = 0; k < 3; k++) {
        const int next = k == 2 ? 0 : k + 1;
        const double *a = c[k][1] <= c[next][1] ? c[k] : c[next], *b = a == c[k] ? c[next] : c[k];

        if (b[1] < low || a[1] > high) continue;
        const double bottom = a[1] >= low ? a[0] : a[0] + (low - a[1]) * slope[k];
        const double top = b[1] <= high ? b[0] : a[0] + (high - a[1]) * slope[k];

        *left = ESI_MIN(*left, ESI_MIN(bottom, top));
        *right = ESI_MAX(*right, ESI_MAX(bottom, top));
    }
}

/* c in cells, not negative. Roundings of the extents are far below the slack. */
static void face_cells(const double c[3][2], double slack, esi_pack_mask *mask)
{
    int32_t low[2], high[2];
    double slope[3];

    for (int k = 0; k < 2; k++) {
        low[k] = (int32_t)ESI_MAX(ESI_MIN(ESI_MIN(c[0][k], c[1][k]), c[2][k]) - slack, 0.0);
        high[k] = (int32_t)(ESI_MAX(ESI_MAX(c[0][k], c[1][k]), c[2][k]) + slack);
    }
    high[0] = ESI_MIN(high[0], mask->width - 1);
    high[1] = ESI_MIN(high[1], mask->height - 1);
    if (low[0] == high[0] || low[1] == high[1]) {
        for (int32_t y = low[1]; y <= high[1]; y++) set_bits(mask->words + (int64_t)y * mask->stride, low[0], high[0]);
        return;
    }
    for (int k = 0; k < 3; k++) {
        const double *a = c[k], *b = c[(k + 1) % 3];

        slope[k] = a[1] != b[1] ? (b[0] - a[0]) / (b[1] - a[1]) : 0.0;
    }
    for (int32_t y = low[1]; y <= high[1]; y++) {
        double left, right;

        strip_extent(c, slope, y - slack, y + 1 + slack, &left, &right);
        if (left > right) continue;
        set_bits(mask->words + (int64_t)y * mask->stride, ESI_MAX((int32_t)ESI_MAX(left - slack, 0.0), low[0]),
                 ESI_MIN((int32_t)(right + slack), high[0]));
    }
}

static int32_t ceil_to_int(double v)           /* v >= 0 */
{
    const int32_t whole = (int32_t)v;

    return whole + (whole < v);
}

/* The same for a line. */
static void side_cells(const double a[2], const double b[2], double slack, esi_pack_mask *mask)
{
    const double *low = a[1] <= b[1] ? a : b, *high = low == a ? b : a;
    const int32_t x_first = (int32_t)ESI_MAX(ESI_MIN(a[0], b[0]) - slack, 0.0), y_first = (int32_t)ESI_MAX(low[1] - slack, 0.0);
    const int32_t x_last = ESI_MIN((int32_t)(ESI_MAX(a[0], b[0]) + slack), mask->width - 1);
    const int32_t y_last = ESI_MIN((int32_t)(high[1] + slack), mask->height - 1);
    double slope;

    if (x_first == x_last || y_first == y_last) {
        for (int32_t y = y_first; y <= y_last; y++) set_bits(mask->words + (int64_t)y * mask->stride, x_first, x_last);
        return;
    }
    slope = low[1] != high[1] ? (high[0] - low[0]) / (high[1] - low[1]) : 0.0;
    for (int32_t y = y_first; y <= y_last; y++) {
        const double below = y - slack, above = y + 1 + slack;
        const double bottom = low[1] >= below ? low[0] : low[0] + (below - low[1]) * slope;
        const double top = high[1] <= above ? high[0] : low[0] + (above - low[1]) * slope;
        const double left = ESI_MIN(bottom, top), right = ESI_MAX(bottom, top);

        set_bits(mask->words + (int64_t)y * mask->stride, ESI_MAX((int32_t)ESI_MAX(left - slack, 0.0), x_first),
                 ESI_MIN((int32_t)(right + slack), x_last));
    }
}

static void scaled_corners(const esi_pack_charts *p, int32_t chart, int32_t face, int32_t cell, double corner[3][2])
{
    esi_pack_corners(p, chart, face, corner);
    for (int k = 0; k < 6; k++) corner[k / 2][k % 2] /= cell;
}

/* Flips, on every line of centres that the side crosses, the first cell whose centre lies behind it. Ends count below, not above. */
static void flip_crossings(const double a[2], const double b[2], esi_pack_mask *parity)
{
    const double *low = a[1] <= b[1] ? a : b, *high = low == a ? b : a;
    const int32_t first = ceil_to_int(ESI_MAX(low[1] - 0.5, 0.0));
    double slope;

    if (!(low[1] < high[1])) return;
    slope = (high[0] - low[0]) / (high[1] - low[1]);
    for (int32_t y = first; y + 0.5 < high[1] && y < parity->height; y++) {
        const double x = low[0] + (y + 0.5 - low[1]) * slope;
        const int32_t at = ceil_to_int(ESI_MIN(ESI_MAX(x - 0.5, 0.0), (double)parity->width));

        if (at < parity->width) parity->words[(int64_t)y * parity->stride + at / 64] ^= UINT64_C(1) << (at % 64);
    }
}

/* Cells between the first and the second flip, the third and the fourth, and so on. */
static void fill_parity(const esi_pack_mask *parity, esi_pack_mask *mask)
{
    const uint64_t inside = UINT64_MAX >> ((64 - mask->width % 64) % 64);      /* of the last word */

    for (int32_t y = 0; y < mask->height; y++) {
        uint64_t carry = 0;

        for (int32_t i = 0; i < mask->stride; i++) {
            uint64_t w = parity->words[(int64_t)y * parity->stride + i];

            for (int shift = 1; shift < 64; shift *= 2) w ^= w << shift;
            w ^= carry;
            carry = (w >> 63) ? UINT64_MAX : 0;
            mask->words[(int64_t)y * mask->stride + i] |= i == mask->stride - 1 ? w & inside : w;
        }
    }
}

espalier_status esi_pack_chart_cells(espalier_context *ctx, const esi_pack_charts *p, int32_t chart, esi_pack_mask *mask, int32_t cell,
                                     esi_pack_mask *scratch, bool by_faces)
{
    const esi_pack_chart *c = &p->charts[chart];
    const double slack = ESI_PACK_SLACK / cell;
    double corner[3][2];
    espalier_status st;

    if (by_faces || c->folded || c->point) {
        for (int32_t i = p->start[chart]; i < p->start[chart + 1]; i++) {
            scaled_corners(p, chart, p->faces[i], cell, corner);
            face_cells((const double (*)[2])corner, slack, mask);
        }
        return ESPALIER_OK;
    }
    if ((st = esi_pack_mask_set(ctx, scratch, mask->width, mask->height)) != ESPALIER_OK) return st;
    for (int32_t i = p->border_start[chart]; i < p->border_start[chart + 1]; i++) {
        double end[2][2];

        for (int k = 0; k < 2; k++) {
            const double x = p->border_ends[i][k][0], y = p->border_ends[i][k][1];

            end[k][0] = (c->matrix[0][0] * x + c->matrix[0][1] * y + c->offset[0]) / cell;
            end[k][1] = (c->matrix[1][0] * x + c->matrix[1][1] * y + c->offset[1]) / cell;
        }
        side_cells(end[0], end[1], slack, mask);
        flip_crossings(end[0], end[1], scratch);
    }
    fill_parity(scratch, mask);
    return ESPALIER_OK;
}
