#version 450
// SPDX-License-Identifier: MIT
//
// probe.comp: every piece of arithmetic on its own, for the start-up test: y[k * rows + i] is result k (esi_vk_probe) of a[i], b[i], c[i].
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer a_buffer { float a[]; };
layout(std430, binding = 2) readonly buffer b_buffer { float b[]; };
layout(std430, binding = 3) readonly buffer c_buffer { float c[]; };

void main()
{
    uint i = invocation_number(), n = push.rows, at = push.y_offset + i;

    if (i >= n) return;
    float va = a[push.a_offset + i], vb = b[push.b_offset + i], vc = c[push.c_offset + i];
    y[at] = exact_fma(va, vb, vc);
    y[at + n] = exact_add(va, vb);
    y[at + 2u * n] = exact_sub(va, vb);
    y[at + 3u * n] = exact_mul(va, vb);
    y[at + 4u * n] = exact_div(va, vb);
    y[at + 5u * n] = exact_sqrt(V_ABS(va));
    y[at + 6u * n] = stored(va);
    for (int act = 1; act <= 8; act++) y[at + uint(6 + act) * n] = activated(act, vb);
    y[at + 15u * n] = esi_v_erf(vb);
}
