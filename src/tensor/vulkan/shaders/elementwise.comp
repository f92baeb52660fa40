#version 450
// SPDX-License-Identifier: MIT
//
// elementwise.comp: one element per invocation. KIND is esi_elementwise, ACT esi_activation. b and c are matrices or, with stride 0,
// vectors over the columns; push.n0 bits: 1 b is present, 2 c is present.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer a_buffer { float a[]; };
layout(std430, binding = 2) readonly buffer b_buffer { float b[]; };
layout(std430, binding = 3) readonly buffer c_buffer { float c[]; };

void main()
{
    uint i = invocation_number(), row = i / push.cols, col = i % push.cols;
    float va, vb = 1.0, vc = 0.0, v = 0.0;

    if (row >= push.rows) return;
    va = push.f0;                              // and no constant: Mesa 22.3 compiles the unused cases for ever then
    if (KIND != 1) va = a[push.a_offset + row * push.a_stride + col];
    if ((push.n0 & 1u) != 0u) vb = b[push.b_offset + row * push.b_stride + (KIND == 9 ? 0u : col)];
    if ((push.n0 & 2u) != 0u) vc = c[push.c_offset + row * push.c_stride + col];
    switch (KIND) {
    case 0: v = va; break;                                                            // copy
    case 1: v = va; break;                                                       // fill
    case 2: v = activated(ACT, va); break;
    case 3: v = exact_add(va, vb); break;
    case 4: v = exact_mul(va, vb); break;
    case 5: v = exact_fma(push.f0, va, exact_mul(push.f1, vb)); break;                // axpby
    case 6: v = exact_mul(va, push.f0); break;                                        // scale
    case 7: v = exact_fma(va, vb, vc); break;                                         // scale, shift
    case 8: v = exact_div(exact_sub(va, vb), vc); break;                              // normalize
    case 9: v = exact_mul(va, vb); break;                                             // scale rows
    }
    y[push.y_offset + row * push.y_stride + col] = stored(v);
}
