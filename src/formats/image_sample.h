/* SPDX-License-Identifier: MIT
 *
 * image_sample.h: where a pixel of a resized picture reads along one axis: bilinear interpolation without antialiasing, in the fp32 steps
 * of PyTorch's interpolate(), so that networks that were trained behind it see the same weights.
 */
#ifndef ESI_IMAGE_SAMPLE_H
#define ESI_IMAGE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

/* value = weight[0] * in[index[0]] + weight[1] * in[index[1]]; both indices are inside. */
typedef struct esi_linear_taps {
    int64_t index[2];
    float weight[2];
} esi_linear_taps;

/* Sample i of `out` samples over `in` samples, both at least 1. align_corners: the outermost samples' centres coincide; else their edges.
 */
static inline esi_linear_taps esi_linear_taps_at(int64_t i, int64_t in, int64_t out, bool align_corners)
{
    esi_linear_taps taps;
    float at;

    if (align_corners) {
        const float scale = out > 1 ? (float)(in - 1) / (float)(out - 1) : 0.0f;
        at = scale * (float)i;
    } else {
        const float scale = (float)in / (float)out;
        at = scale * ((float)i + 0.5f) - 0.5f;
        if (at < 0.0f) at = 0.0f;
    }
    taps.index[0] = (int64_t)at;
    if (taps.index[0] > in - 1) taps.index[0] = in - 1;
    taps.index[1] = taps.index[0] + (taps.index[0] < in - 1 ? 1 : 0);
    taps.weight[1] = at - (float)taps.index[0];
    if (taps.weight[1] > 1.0f) taps.weight[1] = 1.0f;
    taps.weight[0] = 1.0f - taps.weight[1];
    return taps;
}

#endif
