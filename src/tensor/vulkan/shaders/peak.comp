#version 450
// SPDX-License-Identifier: MIT
//
// peak.comp: for the benchmark: as many multiply-adds as the device can do, n0 rounds of 16 independent chains in registers.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };

void main()
{
    float chain[16], sum = 0.0;

    [[unroll]] for (uint i = 0u; i < 16u; i++) chain[i] = float(i);
    [[dont_unroll]] for (uint n = 0u; n < push.n0; n++) {
        [[unroll]] for (uint i = 0u; i < 16u; i++) chain[i] = exact_fma(chain[i], push.f0, push.f1);
    }
    [[unroll]] for (uint i = 0u; i < 16u; i++) sum = exact_add(sum, chain[i]);
    if (invocation_number() < push.rows) y[push.y_offset + invocation_number()] = sum;
}
