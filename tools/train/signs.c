/* SPDX-License-Identifier: MIT
 *
 * signs.c: the inside and outside that a decoder's edge flags speak of. Flags that a network decides one by one need not be those of any
 * solid; here every grid edge votes with its certainty for "its ends are on one side" or "on two", and the corners' values are those that
 * contradict the votes least, in the sum of squares: the harmonic function of a Laplacian with signed weights, 1 on the outer corners.
 */
#include "sdf.h"

/* Successive over-relaxation; nearly the best factor for 65 corners a side. */
#define FACTOR 1.88f

static void relax_row(const float *votes[3], float *value, const int64_t step[3], int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i += 2) {
        float sum = 0, weight = 1e-6f;
        for (int axis = 0; axis < 3; axis++) {
            const float after = votes[axis][i], before = votes[axis][i - step[axis]];
            sum += after * value[i + step[axis]] + before * value[i - step[axis]];
            weight += (after < 0 ? -after : after) + (before < 0 ? -before : before);
        }
        value[i] += FACTOR * (sum / weight - value[i]);
    }
}

void train_signs(const float *votes, int corners, int sweeps, float *value)
{
    const int64_t n = corners, step[3] = { n * n, n, 1 };
    const float *by_axis[3] = { votes, votes + n * n * n, votes + 2 * n * n * n };
    for (int64_t i = 0; i < n * n * n; i++) {
        const int64_t at[3] = { i / (n * n), i / n % n, i % n };
        int outer = 0;
        for (int axis = 0; axis < 3; axis++)
            outer |= at[axis] == 0 || at[axis] == n - 1;
        value[i] = outer ? 1.0f : 0.0f;
    }
    for (int half = 0; half < 2 * sweeps; half++)
        for (int64_t x = 1; x < n - 1; x++)
            for (int64_t y = 1; y < n - 1; y++) {
                const int64_t row = (x * n + y) * n;
                relax_row(by_axis, value, step, row + 1 + ((x + y + half) & 1), row + n - 1);
            }
}
