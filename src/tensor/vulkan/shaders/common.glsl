// SPDX-License-Identifier: MIT
//
// common.glsl: what every shader shares: the push constants (esi_vk_push in internal.h), specialisation constants, and the number of an
// invocation. Offsets and strides count 32-bit elements from the start of a binding.

#ifdef LOCAL_SIZE
layout(local_size_x = LOCAL_SIZE) in;
#else
layout(local_size_x_id = 0) in;
#endif
layout(constant_id = 1) const int KIND = 0;
layout(constant_id = 2) const int ACT = 0;

layout(push_constant) uniform push_constants {
    uint rows, cols;
    uint y_offset, y_stride, a_offset, a_stride, b_offset, b_stride, c_offset, c_stride;
    uint d_offset, d_stride, e_offset, e_stride, f_offset, f_stride, g_offset, g_stride;
    uint n0, n1, n2, n3, n4, n5;
    float f0, f1;
} push;

// Workgroups are laid out in two dimensions, because one alone may be limited to 65535.
uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }
uint invocation_number() { return group_number() * gl_WorkGroupSize.x + gl_LocalInvocationID.x; }
