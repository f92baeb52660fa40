/* SPDX-License-Identifier: MIT
 *
 * convolution.c: submanifold 3x3x3 convolution of the sparse autoencoders, forward and backward. Only pairs of voxels that exist are
 * multiplied: for each of the 27 taps a list of (input row, output row). Taps t and 26 - t have the same list with the roles exchanged, so
 * lists are given for taps 0 to 12; tap 13 joins each voxel with itself.
 */
#include "kernels.h"
#include "products.h"

enum { BLOCK = 256 };

/* One tap's list; NULL rows: 0, 1, 2 ... */
typedef struct links { const int32_t *in, *out; int64_t count; } links;

static links links_of(const conv_links *all, int tap)
{
    const links self = { NULL, NULL, all->rows };
    const int t = tap < 13 ? tap : 26 - tap;
    int64_t at = 0;
    if (tap == 13)
        return self;
    for (int i = 0; i < t; i++)
        at += all->counts[i];
    const links one = { (tap < 13 ? all->in : all->out) + at, (tap < 13 ? all->out : all->in) + at, all->counts[t] };
    return one;
}

static int64_t row_at(const int32_t *rows, int64_t i) { return rows ? rows[i] : i; }

/* y[out] += x[in] times one tap's weights, xs and ws as pairs of input channels. No output row occurs twice in a list. */
static void apply_tap(const links *list, const uint32_t *xs, const uint32_t *ws, float *y, int64_t ci, int64_t co)
{
    for (int64_t i = 0; i < list->count; i += ROWS) {
        const uint32_t *from[ROWS];
        float *to[ROWS];
        const int some = list->count - i < ROWS ? (int)(list->count - i) : ROWS;
        for (int r = 0; r < ROWS; r++) {
            const int64_t at = i + (r < some ? r : some - 1);
            from[r] = xs + row_at(list->in, at) * (ci / 2);
            to[r] = y + row_at(list->out, at) * co;
        }
        for (int64_t j = 0; j < co; j += 2 * LANES) {
            multiply_rows(from, 1, ws + j, co, ci / 2, to, some, j + LANES < co);
            for (int r = 0; r < ROWS; r++)
                to[r] += 2 * LANES;
        }
    }
}

int train_convolve(const conv_links *all, const float *x, const float *w, float *y, int64_t ci, int64_t co, int mirrored)
{
    int status = -1;
    uint32_t *xs = pairs_of(all->rows * ci), *ws = pairs_of(ci * co);
    if (!xs || !ws)
        goto done;
    pack_channels(x, all->rows * ci, xs);
    for (int tap = 0; tap < 27; tap++) {
        const links list = links_of(all, mirrored ? 26 - tap : tap);
        pack_rows(w + tap * ci * co, ci, co, ws);
        apply_tap(&list, xs, ws, y, ci, co);
    }
    status = 0;
done:
    free(xs);
    free(ws);
    return status;
}

int train_convolve_weights(const conv_links *all, const float *x, const float *grad_y, float *grad_w, int64_t ci, int64_t co)
{
    int status = -1;
    uint32_t *xs = pairs_of(BLOCK * ci), *gs = pairs_of(BLOCK * co);
    if (!xs || !gs)
        goto done;
    memset(grad_w, 0, (size_t)(27 * ci * co) * sizeof *grad_w);
    for (int tap = 0; tap < 27; tap++) {
        const links list = links_of(all, tap);
        for (int64_t first = 0; first < list.count; first += BLOCK) {
            const int64_t some = list.count - first < BLOCK ? list.count - first : BLOCK;
            for (int64_t i = 0; i < some; i += 2) {
                const int64_t a = first + i, b = a + 1;
                const int both = i + 1 < some;
                pack_two_rows(x + row_at(list.in, a) * ci, both ? x + row_at(list.in, b) * ci : NULL, ci, xs + i / 2 * ci);
                pack_two_rows(grad_y + row_at(list.out, a) * co, both ? grad_y + row_at(list.out, b) * co : NULL, co, gs + i / 2 * co);
            }
            multiply(xs, 1, ci, gs, grad_w + tap * ci * co, ci, co, (some + 1) / 2);
        }
    }
    status = 0;
done:
    free(xs);
    free(gs);
    return status;
}
