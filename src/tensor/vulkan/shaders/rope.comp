#version 450
// SPDX-License-Identifier: MIT
//
// rope.comp: rotary embedding, one pair per invocation. cols: pairs of a row, n0: pairs of a head, n1: 0 adjacent pairs, 1 halves.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer x_buffer { float x[]; };
layout(std430, binding = 2) readonly buffer cos_buffer { float cosines[]; };
layout(std430, binding = 3) readonly buffer sin_buffer { float sines[]; };

void main()
{
    uint i = invocation_number(), row = i / push.cols, pair = i % push.cols, head = pair / push.n0, p = pair % push.n0;
    uint first = head * push.n0 * 2u + (push.n1 == 0u ? 2u * p : p), second = first + (push.n1 == 0u ? 1u : push.n0);

    if (row >= push.rows) return;
    float a = x[push.a_offset + row * push.a_stride + first], b = x[push.a_offset + row * push.a_stride + second];
    float c = cosines[push.b_offset + row * push.b_stride + p], s = sines[push.c_offset + row * push.c_stride + p];
    float b_sin = exact_mul(b, s), b_cos = exact_mul(b, c);
    y[push.y_offset + row * push.y_stride + first] = stored(exact_fma(a, c, V_NEG(b_sin)));
    y[push.y_offset + row * push.y_stride + second] = stored(exact_fma(a, s, b_cos));
}
