/* SPDX-License-Identifier: MIT
 *
 * pointwise.c: what the training step does to each row or value alone: layer norm with a gain and a shift per item, gates, GELU.
 */
#include "kernels.h"
#include "lanes.h"

void train_norm_forward(const float *x, const float *gain, const float *shift, const int64_t *begin, int64_t items, int64_t channels,
                        float eps, float *y, float *moments)
{
    for (int64_t item = 0; item < items; item++)
        for (int64_t row = begin[item]; row < begin[item + 1]; row++) {
            const float *in = x + row * channels;
            lanes sum = lanes_set(0), square = lanes_set(0);
            for (int64_t c = 0; c < channels; c += LANES)
                sum = lanes_add(sum, lanes_load(in + c));
            const float mean = lanes_sum(sum) / (float)channels;
            for (int64_t c = 0; c < channels; c += LANES) {
                lanes d = lanes_sub(lanes_load(in + c), lanes_set(mean));
                square = lanes_fma(d, d, square);
            }
            const float inverse = 1 / sqrtf(lanes_sum(square) / (float)channels + eps);
            moments[2 * row] = mean;
            moments[2 * row + 1] = inverse;
            for (int64_t c = 0; c < channels; c += LANES) {
                lanes normal = lanes_mul(lanes_sub(lanes_load(in + c), lanes_set(mean)), lanes_set(inverse));
                lanes_store(y + row * channels + c,
                            lanes_fma(normal, lanes_load(gain + item * channels + c), lanes_load(shift + item * channels + c)));
            }
        }
}

void train_norm_backward(const float *x, const float *gain, const float *moments, const float *grad_y, const int64_t *begin,
                         int64_t items, int64_t channels, float *grad_x, float *grad_gain, float *grad_shift)
{
    memset(grad_gain, 0, (size_t)(items * channels) * sizeof *grad_gain);
    memset(grad_shift, 0, (size_t)(items * channels) * sizeof *grad_shift);
    for (int64_t item = 0; item < items; item++)
        for (int64_t row = begin[item]; row < begin[item + 1]; row++) {
            const lanes mean = lanes_set(moments[2 * row]), inverse = lanes_set(moments[2 * row + 1]);
            lanes sum = lanes_set(0), along = lanes_set(0);
            for (int64_t c = 0; c < channels; c += LANES) {
                float *gains = grad_gain + item * channels + c, *shifts = grad_shift + item * channels + c;
                lanes normal = lanes_mul(lanes_sub(lanes_load(x + row * channels + c), mean), inverse);
                lanes g = lanes_load(grad_y + row * channels + c), scaled = lanes_mul(g, lanes_load(gain + item * channels + c));
                lanes_store(gains, lanes_fma(g, normal, lanes_load(gains)));
                lanes_store(shifts, lanes_add(g, lanes_load(shifts)));
                sum = lanes_add(sum, scaled);
                along = lanes_fma(scaled, normal, along);
            }
            const lanes mean_sum = lanes_set(lanes_sum(sum) / (float)channels), mean_along = lanes_set(-lanes_sum(along) / (float)channels);
            for (int64_t c = 0; c < channels; c += LANES) {
                lanes normal = lanes_mul(lanes_sub(lanes_load(x + row * channels + c), mean), inverse);
                lanes scaled = lanes_mul(lanes_load(grad_y + row * channels + c), lanes_load(gain + item * channels + c));
                lanes_store(grad_x + row * channels + c, lanes_mul(inverse, lanes_fma(normal, mean_along, lanes_sub(scaled, mean_sum))));
            }
        }
}

void train_gate_forward(const float *x, const float *z, const float *gate, const int64_t *begin, int64_t items, int64_t channels, float *y)
{
    for (int64_t item = 0; item < items; item++)
        for (int64_t at = begin[item] * channels; at < begin[item + 1] * channels; at += channels)
            for (int64_t c = 0; c < channels; c += LANES)
                lanes_store(y + at + c,
                            lanes_fma(lanes_load(z + at + c), lanes_load(gate + item * channels + c), lanes_load(x + at + c)));
}

void train_gate_backward(const float *z, const float *gate, const float *grad_y, const int64_t *begin, int64_t items, int64_t channels,
                         float *grad_z, float *grad_gate)
{
    memset(grad_gate, 0, (size_t)(items * channels) * sizeof *grad_gate);
    for (int64_t item = 0; item < items; item++)
        for (int64_t at = begin[item] * channels; at < begin[item + 1] * channels; at += channels)
            for (int64_t c = 0; c < channels; c += LANES) {
                float *gates = grad_gate + item * channels + c;
                lanes g = lanes_load(grad_y + at + c);
                lanes_store(gates, lanes_fma(g, lanes_load(z + at + c), lanes_load(gates)));
                lanes_store(grad_z + at + c, lanes_mul(g, lanes_load(gate + item * channels + c)));
            }
}

/* x / (1 + e^-2u), which is x (1 + tanh u) / 2, with u = sqrt(2 / pi) (x + 0.044715 x^3); *slope, if not NULL, becomes the derivative. */
static inline lanes gelu(lanes x, lanes *slope)
{
    const lanes one = lanes_set(1), twice = lanes_set(2 * 0.7978845608f), cubic = lanes_set(0.044715f);
    const lanes square = lanes_mul(x, x), u = lanes_mul(lanes_mul(twice, x), lanes_fma(cubic, square, one));
    const lanes s = lanes_div(one, lanes_add(one, lanes_exp(lanes_sub(lanes_set(0), u))));
    if (slope) {
        const lanes inner = lanes_mul(twice, lanes_fma(lanes_set(3 * 0.044715f), square, one));
        *slope = lanes_mul(s, lanes_fma(lanes_mul(x, lanes_sub(one, s)), inner, one));
    }
    return lanes_mul(x, s);
}

void train_gelu_forward(const float *x, float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        lanes_store(y + i, gelu(lanes_load(x + i), NULL));
}

void train_gelu_backward(const float *x, const float *grad_y, float *grad_x, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES) {
        lanes slope;
        gelu(lanes_load(x + i), &slope);
        lanes_store(grad_x + i, lanes_mul(slope, lanes_load(grad_y + i)));
    }
}
