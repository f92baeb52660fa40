#version 450
// SPDX-License-Identifier: MIT
//
// move.comp: rows and channel groups change places; one element of y (scatter: of x) per invocation. KIND is esi_vk_move. A matrix whose
// rows are named by an index is perhaps bound in part: rows [n0, n0 + n1) of n2; the op is then repeated for the other parts. n3: the
// repetition, group or transposition factor; a 1 in bit 31 says that there is an index.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer x_buffer { float x[]; };
layout(std430, binding = 2) readonly buffer index_buffer { uint indices[]; };

uint x_at(uint row, uint col) { return push.a_offset + row * push.a_stride + col; }

void main()
{
    uint i = invocation_number(), row = i / push.cols, col = i % push.cols, factor = push.n3 & 0x7fffffffu;
    uint here = push.y_offset + row * push.y_stride + col;

    if (row >= push.rows) return;
    if (KIND == 0) {                                                                  // gather rows
        uint from = indices[push.b_offset + row * push.b_stride];
        if (from >= push.n2) {
            if (push.n0 == 0u) y[here] = 0.0;
        } else if (from - push.n0 < push.n1) {
            y[here] = x[x_at(from - push.n0, col)];
        }
    } else if (KIND == 1) {                                                           // scatter rows
        uint to = indices[push.b_offset + row * push.b_stride];
        if (to < push.n2 && to - push.n0 < push.n1) y[push.y_offset + (to - push.n0) * push.y_stride + col] = x[x_at(row, col)];
    } else if (KIND == 2) {                                                           // repeat columns
        y[here] = x[x_at(row, col / factor)];
    } else if (KIND == 3) {                                                           // add repeated columns
        uint from = row;
        if ((push.n3 & 0x80000000u) != 0u) {
            from = indices[push.b_offset + row * push.b_stride];
            if (from >= push.n2 || from - push.n0 >= push.n1) return;
            from -= push.n0;
        }
        y[here] = stored(exact_add(y[here], x[x_at(from, col / factor)]));
    } else if (KIND == 4) {                                                           // mean of column groups
        float sum = 0.0;
        for (uint j = 0u; j < factor; j++) sum = exact_add(sum, x[x_at(row, col * factor + j)]);
        y[here] = stored(exact_div(sum, float(factor)));
    } else if (KIND == 5) {                                                           // columns [a, b] -> [b, a]; factor a, n2 b
        y[here] = x[x_at(row, col % factor * push.n2 + col / factor)];
    } else {                                                                          // transpose
        y[here] = x[x_at(col, row)];
    }
}
