/* SPDX-License-Identifier: MIT
 *
 * products.h: the inner loop of the trainer's matrix products (linear.c, convolution.c), and the packing of their factors into pairs.
 */
#ifndef ESPALIER_TRAIN_PRODUCTS_H
#define ESPALIER_TRAIN_PRODUCTS_H

#include "lanes.h"

#include <stdlib.h>

enum { ROWS = 8 };

/* Eight rows of sums at once, 32 columns or 16: to[r][0..] += sum over p of from[r][p * step] (a pair) times b[p * columns ..]. */
static inline void multiply_rows(const uint32_t *const from[ROWS], int64_t step, const uint32_t *b, int64_t columns, int64_t pairs,
                                 float *const to[ROWS], int rows, int wide)
{
    lanes low[ROWS], high[ROWS];
    for (int r = 0; r < ROWS; r++) { /* rows beyond `rows` are repetitions, and not stored */
        low[r] = lanes_load(to[r]);
        high[r] = wide ? lanes_load(to[r] + LANES) : lanes_set(0);
    }
    if (wide)
        for (int64_t p = 0; p < pairs; p++)
            for (int r = 0; r < ROWS; r++) {
                const uint32_t pair = from[r][p * step];
                low[r] = lanes_dot(low[r], b + p * columns, pair);
                high[r] = lanes_dot(high[r], b + p * columns + LANES, pair);
            }
    else
        for (int64_t p = 0; p < pairs; p++)
            for (int r = 0; r < ROWS; r++)
                low[r] = lanes_dot(low[r], b + p * columns, from[r][p * step]);
    for (int r = 0; r < rows; r++) {
        lanes_store(to[r], low[r]);
        if (wide)
            lanes_store(to[r] + LANES, high[r]);
    }
}

/* c [rows][columns] += a b: the pair p of a's row m is a[m * row + p * pair], of b's columns b[p * columns ..]. */
static inline void multiply(const uint32_t *a, int64_t row, int64_t pair, const uint32_t *b, float *c, int64_t rows, int64_t columns,
                            int64_t pairs)
{
    for (int64_t j = 0; j < columns; j += 2 * LANES)
        for (int64_t m = 0; m < rows; m += ROWS) {
            const uint32_t *from[ROWS];
            float *to[ROWS];
            const int some = rows - m < ROWS ? (int)(rows - m) : ROWS;
            for (int r = 0; r < ROWS; r++) {
                const int64_t at = m + (r < some ? r : some - 1);
                from[r] = a + at * row;
                to[r] = c + at * columns + j;
            }
            multiply_rows(from, pair, b + j, columns, pairs, to, some, j + LANES < columns);
        }
}

static inline void pack_channels(const float *x, int64_t count, uint32_t *out) /* neighbours in memory; count a multiple of 16 */
{
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        pack_along(out + i / 2, lanes_load(x + i), lanes_load(x + i + LANES));
    if (i < count) /* writes half a vector too far */
        pack_along(out + i / 2, lanes_load(x + i), lanes_set(0));
}

static inline void pack_two_rows(const float *a, const float *b, int64_t channels, uint32_t *out) /* b NULL: zeros */
{
    for (int64_t c = 0; c < channels; c += LANES)
        pack_across(out + c, lanes_load(a + c), b ? lanes_load(b + c) : lanes_set(0));
}

static inline void pack_rows(const float *x, int64_t rows, int64_t channels, uint32_t *out)
{
    for (int64_t i = 0; i < rows; i += 2)
        pack_two_rows(x + i * channels, i + 1 < rows ? x + (i + 1) * channels : NULL, channels, out + i / 2 * channels);
}

static inline uint32_t *pairs_of(int64_t values) /* room for them as pairs, and for half a vector more */
{
    return aligned_alloc(64, ((size_t)values * sizeof(float) / 2 + 191) / 64 * 64);
}

#endif
