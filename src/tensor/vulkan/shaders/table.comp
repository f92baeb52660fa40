#version 450
// SPDX-License-Identifier: MIT
//
// table.comp: pooling over a table (KIND 0 maximum, 1 mean) and weighted gather (KIND 2); one element of y per invocation. n0: taps,
// n1: rows of x; every other row number is a missing one.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer x_buffer { float x[]; };
layout(std430, binding = 2) readonly buffer table_buffer { uint table[]; };
layout(std430, binding = 3) readonly buffer weight_buffer { float weight[]; };

void main()
{
    uint i = invocation_number(), row = i / push.cols, col = i % push.cols, present = 0u;
    float acc = 0.0;

    if (row >= push.rows) return;
    for (uint t = 0u; t < push.n0; t++) {
        uint from = table[push.b_offset + row * push.b_stride + t];
        float v;
        if (from >= push.n1) continue;
        v = x[push.a_offset + from * push.a_stride + col];
        if (KIND == 2) acc = exact_fma(weight[push.c_offset + row * push.c_stride + t], v, acc);
        else if (present == 0u) acc = v;
        else if (KIND == 0) acc = exact_max(acc, v);
        else acc = exact_add(acc, v);
        present += 1u;
    }
    if (KIND == 1 && present != 0u) acc = exact_div(acc, float(present));
    y[push.y_offset + row * push.y_stride + col] = KIND == 0 ? acc : stored(acc);
}
