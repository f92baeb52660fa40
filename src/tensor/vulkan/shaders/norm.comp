#version 450
// SPDX-License-Identifier: MIT
//
// norm.comp: layer norm (KIND 0), RMS norm of heads (KIND 1), row sums and sums of squares (KIND 2: columns 0 and 1 of y). Sixteen
// invocations share a row, or a head of a row; they are the sixteen lanes of the row sums (rule 5). push.n0: heads of a row; cols:
// columns of one; n1 bits: 1 scale (b), 2 shift (c), 4 modulated; f0: eps.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer x_buffer { float x[]; };
layout(std430, binding = 2) readonly buffer scale_buffer { float scale[]; };
layout(std430, binding = 3) readonly buffer shift_buffer { float shift[]; };

shared float lanes[gl_WorkGroupSize.x];

float lane_tree(float v)
{
    uint me = gl_LocalInvocationID.x, lane = me % 16u;

    barrier();
    lanes[me] = v;
    barrier();
    for (uint half_ = 8u; half_ >= 1u; half_ /= 2u) {
        if (lane < half_) lanes[me] = exact_add(lanes[me], lanes[me + half_]);
        barrier();
    }
    return lanes[me - lane];
}

float sum_row(uint base, bool used)
{
    float sum = 0.0;
    if (used)
        for (uint i = gl_LocalInvocationID.x % 16u; i < push.cols; i += 16u) sum = exact_add(sum, x[base + i]);
    return lane_tree(sum);
}

float sum_squares(uint base, float mean, bool used)
{
    float sum = 0.0;
    if (used)
        for (uint i = gl_LocalInvocationID.x % 16u; i < push.cols; i += 16u) {
            float d = exact_sub(x[base + i], mean);
            sum = exact_fma(d, d, sum);
        }
    return lane_tree(sum);
}

void main()
{
    uint item = group_number() * (gl_WorkGroupSize.x / 16u) + gl_LocalInvocationID.x / 16u, lane = gl_LocalInvocationID.x % 16u;
    uint row = item / push.n0, head = item % push.n0, first = head * push.cols;
    bool used = row < push.rows;
    uint from = push.a_offset + row * push.a_stride + first, to = push.y_offset + row * push.y_stride + first;
    float n = float(push.cols), mean = 0.0, r;

    if (KIND == 2) {
        float sum = sum_row(from, used), squares = sum_squares(from, 0.0, used);
        if (!used || lane != 0u) return;
        y[to] = sum;
        y[to + 1u] = squares;
        return;
    }
    if (KIND == 0) {
        mean = exact_div(sum_row(from, used), n);
        r = exact_div(1.0, exact_sqrt(exact_add(exact_div(sum_squares(from, mean, used), n), push.f0)));
    } else {
        float length_ = exact_sqrt(sum_squares(from, 0.0, used));
        r = exact_div(exact_sqrt(n), exact_max(length_, push.f0));
    }
    if (!used) return;
    for (uint i = lane; i < push.cols; i += 16u) {
        float t;
        if (KIND == 0) {
            t = exact_mul(exact_sub(x[from + i], mean), r);
            if ((push.n1 & 3u) != 0u) {
                float s = (push.n1 & 1u) != 0u ? scale[push.b_offset + i] : 1.0, z = (push.n1 & 2u) != 0u ? shift[push.c_offset + i] : 0.0;
                if ((push.n1 & 4u) != 0u) s = exact_add(1.0, s);
                t = exact_fma(t, s, z);
            }
            t = activated(ACT, t);
        } else {
            t = exact_mul(exact_mul(x[from + i], r), scale[push.b_offset + first + i]);
        }
        y[to + i] = stored(t);
    }
}
