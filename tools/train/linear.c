/* SPDX-License-Identifier: MIT
 *
 * linear.c: linear layers of the training step as products of bfloat16 pairs: y = x w^T, and for the gradients grad_x = grad_y w and
 * grad_w = grad_y^T x. They differ in what is paired (channels, or neighbouring rows) and in strides.
 */
#include "kernels.h"
#include "products.h"

enum { BLOCK = 256 }; /* pairs of rows that stay in the cache */

static void pack_transposed(const float *w, int64_t co, int64_t ci, uint32_t *out) /* [ci / 2][co]: pairs of inputs, lanes are outputs */
{
    float columns[2][LANES];
    for (int64_t k = 0; k < ci; k += 2)
        for (int64_t n = 0; n < co; n += LANES) {
            for (int i = 0; i < LANES; i++)
                columns[0][i] = w[(n + i) * ci + k], columns[1][i] = w[(n + i) * ci + k + 1];
            pack_across(out + k / 2 * co + n, lanes_load(columns[0]), lanes_load(columns[1]));
        }
}

int train_linear_forward(const float *x, const float *w, const float *bias, float *y, int64_t rows, int64_t ci, int64_t co)
{
    int status = -1;
    uint32_t *xs = pairs_of(rows * ci), *ws = pairs_of(ci * co);
    if (!xs || !ws)
        goto done;
    pack_channels(x, rows * ci, xs);
    pack_transposed(w, co, ci, ws);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t n = 0; n < co; n += LANES)
            lanes_store(y + i * co + n, bias ? lanes_load(bias + n) : lanes_set(0));
    multiply(xs, ci / 2, 1, ws, y, rows, co, ci / 2);
    status = 0;
done:
    free(xs);
    free(ws);
    return status;
}

static int input_gradient(const float *w, const float *grad_y, float *grad_x, int64_t rows, int64_t ci, int64_t co)
{
    int status = -1;
    uint32_t *gs = pairs_of(rows * co), *ws = pairs_of(ci * co);
    if (!gs || !ws)
        goto done;
    pack_channels(grad_y, rows * co, gs);
    pack_rows(w, co, ci, ws);
    memset(grad_x, 0, (size_t)(rows * ci) * sizeof *grad_x);
    multiply(gs, co / 2, 1, ws, grad_x, rows, ci, co / 2);
    status = 0;
done:
    free(gs);
    free(ws);
    return status;
}

static void sum_rows(const float *x, int64_t rows, int64_t channels, float *sums)
{
    for (int64_t n = 0; n < channels; n += LANES) {
        lanes sum = lanes_set(0);
        for (int64_t i = 0; i < rows; i++)
            sum = lanes_add(sum, lanes_load(x + i * channels + n));
        lanes_store(sums + n, sum);
    }
}

int train_linear_backward(const float *x, const float *w, const float *grad_y, float *grad_x, float *grad_w, float *grad_bias,
                          int64_t rows, int64_t ci, int64_t co)
{
    int status = -1;
    uint32_t *xs = NULL, *gs = NULL;
    if (grad_x && input_gradient(w, grad_y, grad_x, rows, ci, co) != 0)
        goto done;
    xs = pairs_of((rows + 1) * ci);
    gs = pairs_of((rows + 1) * co);
    if (!xs || !gs)
        goto done;
    pack_rows(x, rows, ci, xs);
    pack_rows(grad_y, rows, co, gs);
    memset(grad_w, 0, (size_t)(ci * co) * sizeof *grad_w);
    for (int64_t pair = 0; pair < (rows + 1) / 2; pair += BLOCK) {
        const int64_t some = (rows + 1) / 2 - pair < BLOCK ? (rows + 1) / 2 - pair : BLOCK;
        multiply(gs + pair * co, 1, co, xs + pair * ci, grad_w, co, ci, some);
    }
    if (grad_bias)
        sum_rows(grad_y, rows, co, grad_bias);
    status = 0;
done:
    free(xs);
    free(gs);
    return status;
}
