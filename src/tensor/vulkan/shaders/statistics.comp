#version 450
// SPDX-License-Identifier: MIT
//
// statistics.comp: sums over all rows, as far as a device can take them, and what is done with them. KIND:
//   0  row sums of column groups (rule 5), sixteen invocations for each: y[row, group]; n0: columns of a group, n1: groups
//   1  the same for squared distances from the group's mean (b)
//   5, 6  like 0 and 1 with an invocation for each group, which adds the sixteen lanes by itself: for groups of few columns
//   2  group norm: mean b, deviation c, weight d, bias e, activation ACT; n2 bits: 1 weight, 2 bias
//   3  numbers of NaN (y: 0, 1) and infinities (2, 3) of all rows, 64 bits each, in four words for each of n0 workgroups; n1: begin at 0
//   4  mean of each column: rows in order in fp64, which is done in integers: not every device has fp64. b: the sum so far, two words;
//      n0 bits: 1 the first rows, 2 the last ones; n1: rows in all
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "exact.glsl"

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 0) buffer count_buffer { uint counts[]; };
layout(std430, binding = 1) readonly buffer x_buffer { float x[]; };
layout(std430, binding = 2) readonly buffer mean_buffer { float mean[]; };
layout(std430, binding = 2) buffer sum_buffer { uint sums[]; };
layout(std430, binding = 3) readonly buffer deviation_buffer { float deviation[]; };
layout(std430, binding = 4) readonly buffer weight_buffer { float weight[]; };
layout(std430, binding = 5) readonly buffer bias_buffer { float bias[]; };

shared uint lanes[2u * gl_WorkGroupSize.x];

// ---------------------------------------------------------------- group norm

void sum_group()
{
    uint me = gl_LocalInvocationID.x, lane = me % 16u, item = group_number() * (gl_WorkGroupSize.x / 16u) + me / 16u;
    uint row = item / push.n1, group = item % push.n1, from = push.a_offset + row * push.a_stride + group * push.n0;
    bool used = row < push.rows;
    float sum = 0.0;

    if (used)
        for (uint i = lane; i < push.n0; i += 16u) {
            if (KIND == 0) {
                sum = exact_add(sum, x[from + i]);
            } else {
                float d = exact_sub(x[from + i], mean[push.b_offset + group]);
                sum = exact_fma(d, d, sum);
            }
        }
    lanes[me] = floatBitsToUint(sum);
    barrier();
    for (uint half_ = 8u; half_ >= 1u; half_ /= 2u) {
        if (lane < half_) lanes[me] = floatBitsToUint(exact_add(uintBitsToFloat(lanes[me]), uintBitsToFloat(lanes[me + half_])));
        barrier();
    }
    if (used && lane == 0u) y[push.y_offset + row * push.y_stride + group] = uintBitsToFloat(lanes[me]);
}

void sum_narrow_group()
{
    uint item = invocation_number(), row = item / push.n1, group = item % push.n1;
    uint from = push.a_offset + row * push.a_stride + group * push.n0;
    float lane[16], shift = 0.0;

    if (row >= push.rows) return;
    if (KIND == 6) shift = mean[push.b_offset + group];
    for (int j = 0; j < 16; j++) lane[j] = 0.0;
    for (uint i = 0u; i < push.n0; i += 16u)
        for (int j = 0; j < 16; j++) {
            if (i + uint(j) >= push.n0) break;
            float v = x[from + i + uint(j)];
            if (KIND == 5) {
                lane[j] = exact_add(lane[j], v);
            } else {
                float d = exact_sub(v, shift);
                lane[j] = exact_fma(d, d, lane[j]);
            }
        }
    for (int half_ = 8; half_ >= 1; half_ /= 2)
        for (int j = 0; j < half_; j++) lane[j] = exact_add(lane[j], lane[j + half_]);
    y[push.y_offset + row * push.y_stride + group] = lane[0];
}

void apply_norm()
{
    uint i = invocation_number(), row = i / push.cols, col = i % push.cols, group = col / push.n0;
    float t;

    if (row >= push.rows) return;
    t = exact_sub(x[push.a_offset + row * push.a_stride + col], mean[push.b_offset + group]);
    t = exact_mul(t, deviation[push.c_offset + group]);
    if ((push.n2 & 3u) != 0u)
        t = exact_fma(t, (push.n2 & 1u) != 0u ? weight[push.d_offset + col] : 1.0, (push.n2 & 2u) != 0u ? bias[push.e_offset + col] : 0.0);
    y[push.y_offset + row * push.y_stride + col] = stored(activated(ACT, t));
}

// ---------------------------------------------------------------- counts

void add_count(uint at, uint n)
{
    uint carry, low = uaddCarry(push.n1 != 0u ? 0u : counts[at], n, carry);

    counts[at + 1u] = (push.n1 != 0u ? 0u : counts[at + 1u]) + carry;
    counts[at] = low;
}

void count_nonfinite()
{
    uint me = gl_LocalInvocationID.x, size = gl_WorkGroupSize.x, nans = 0u, infinities = 0u;

    if (group_number() >= push.n0) return;
    for (uint i = invocation_number(); i < push.rows * push.cols; i += size * push.n0) {
        uint bits = floatBitsToUint(x[push.a_offset + i / push.cols * push.a_stride + i % push.cols]) & 0x7fffffffu;
        if (bits > 0x7f800000u) nans += 1u;
        if (bits == 0x7f800000u) infinities += 1u;
    }
    lanes[me] = nans;
    lanes[size + me] = infinities;
    barrier();
    for (uint half_ = size / 2u; half_ >= 1u; half_ /= 2u) {
        if (me < half_) {
            lanes[me] += lanes[me + half_];
            lanes[size + me] += lanes[size + me + half_];
        }
        barrier();
    }
    if (me != 0u) return;
    add_count(push.y_offset + 4u * group_number(), lanes[0]);
    add_count(push.y_offset + 4u * group_number() + 2u, lanes[size]);
}

// ---------------------------------------------------------------- fp64 in integers; the high word is y

uvec2 left(uvec2 v, uint n)
{
    if (n == 0u) return v;
    if (n >= 32u) return uvec2(0u, v.x << (n - 32u));
    return uvec2(v.x << n, v.y << n | v.x >> (32u - n));
}

// Lost bits stay in the last one.
uvec2 right(uvec2 v, uint n)
{
    if (n == 0u) return v;
    if (n >= 64u) return uvec2((v.x | v.y) != 0u ? 1u : 0u, 0u);
    if (n == 32u) return uvec2(v.y | (v.x != 0u ? 1u : 0u), 0u);
    if (n > 32u) return uvec2(v.y >> (n - 32u) | ((v.y << (64u - n) | v.x) != 0u ? 1u : 0u), 0u);
    return uvec2(v.x >> n | v.y << (32u - n) | ((v.x << (32u - n)) != 0u ? 1u : 0u), v.y >> n);
}

uvec2 plus(uvec2 v, uvec2 w)
{
    uint carry;
    uvec2 r;

    r.x = uaddCarry(v.x, w.x, carry);
    r.y = v.y + w.y + carry;
    return r;
}

uvec2 minus(uvec2 v, uvec2 w)
{
    uint borrow;
    uvec2 r;

    r.x = usubBorrow(v.x, w.x, borrow);
    r.y = v.y - w.y - borrow;
    return r;
}

bool less(uvec2 v, uvec2 w) { return v.y < w.y || (v.y == w.y && v.x < w.x); }

const uvec2 NAN64 = uvec2(0u, 0x7ff80000u);

// s + v, rounded to nearest even. Numbers of a tensor are sums of a few powers of two, so nothing is subnormal or too large here. Both
// addends lie with their leading bit at 62.
uvec2 add64(uvec2 s, float v)
{
    uint bits = floatBitsToUint(v), sign = bits & 0x80000000u, sign_s = s.y & 0x80000000u;
    int exponent = int(bits >> 23 & 255u) - 127 + 1023, exponent_s = int(s.y >> 20 & 2047u);
    uvec2 p = uvec2(0u, ((bits & 0x7fffffu) | 0x800000u) << 7), q = left(uvec2(s.x, (s.y & 0xfffffu) | 0x100000u), 10u);
    uint lead;

    if (exponent == 255 - 127 + 1023) {
        if ((bits & 0x7fffffu) != 0u) return NAN64;
        return exponent_s == 2047 && (sign_s != sign || (s.y & 0xfffffu) != 0u) ? NAN64 : uvec2(0u, sign | 0x7ff00000u);
    }
    if (exponent == 1023 - 127 || exponent_s == 2047) return s;
    if (exponent_s == 0) exponent_s = 0, q = uvec2(0u), sign_s = sign;
    if (exponent < exponent_s || (exponent == exponent_s && less(p, q))) {
        uvec2 t = p;
        uint u = sign;
        int e = exponent;
        p = q, q = t;
        sign = sign_s, sign_s = u;
        exponent = exponent_s, exponent_s = e;
    }
    q = right(q, uint(exponent - exponent_s));
    p = sign == sign_s ? plus(p, q) : minus(p, q);
    if ((p.x | p.y) == 0u) return uvec2(0u);
    if ((p.y & 0x80000000u) != 0u) {
        p = right(p, 1u);
        exponent += 1;
    }
    lead = p.y != 0u ? uint(findMSB(p.y)) + 32u : uint(findMSB(p.x));
    p = left(p, 62u - lead);
    exponent -= int(62u - lead);
    lead = p.x & 0x3ffu;                                                              // what is rounded away
    p = right(uvec2(p.x & ~0x3ffu, p.y), 10u);
    if (lead > 0x200u || (lead == 0x200u && (p.x & 1u) != 0u)) p = plus(p, uvec2(1u, 0u));
    p.y += uint(exponent - 1) << 20;                                                  // the leading bit, or the one above it, counts
    return uvec2(p.x, p.y | sign);
}

// s / n, rounded to fp64 and then to fp32; 0 < n.
float mean64(uvec2 s, uint n)
{
    uint sign = s.y & 0x80000000u, rest = 0u, lost;
    int exponent = int(s.y >> 20 & 2047u);
    uvec2 digits = uvec2(s.x, (s.y & 0xfffffu) | 0x100000u), quotient = uvec2(0u);

    if (exponent == 2047) return uintBitsToFloat(((s.y & 0xfffffu) | s.x) != 0u ? 0x7fc00000u : sign | 0x7f800000u);
    if (exponent == 0) return 0.0;
    digits = left(digits, 11u);
    exponent += 54 - 52;
    // Digit by digit, until the quotient has 55 of them.
    for (int i = 0; (quotient.y & 0x400000u) == 0u; i++) {
        bool large = (rest & 0x80000000u) != 0u;
        rest = rest << 1 | digits.y >> 31;
        digits = left(digits, 1u);
        quotient = left(quotient, 1u);
        if (large || rest >= n) {
            rest -= n;
            quotient.x |= 1u;
        }
        if (i >= 53) exponent -= 1;
    }
    lost = (quotient.x & 3u) << 1 | (rest != 0u || (digits.x | digits.y) != 0u ? 1u : 0u);
    quotient = right(uvec2(quotient.x & ~3u, quotient.y), 2u);
    if (lost > 4u || (lost == 4u && (quotient.x & 1u) != 0u)) quotient = plus(quotient, uvec2(1u, 0u));
    if ((quotient.y & 0x200000u) != 0u) {
        quotient = right(quotient, 1u);
        exponent += 1;
    }
    exponent += 127 - 1023;
    if (exponent <= 0) return 0.0;
    if (exponent >= 255) return uintBitsToFloat(sign | 0x7f800000u);
    lost = quotient.x & 0x1fffffffu;
    rest = (quotient.y & 0xfffffu) << 3 | quotient.x >> 29;
    if (lost > 0x10000000u || (lost == 0x10000000u && (rest & 1u) != 0u)) rest += 1u;
    return uintBitsToFloat(sign | ((uint(exponent) << 23) + rest));
}

void mean_column()
{
    uint col = invocation_number(), at = push.b_offset + 2u * col;
    uvec2 sum = uvec2(0u);

    if (col >= push.cols) return;
    if ((push.n0 & 1u) == 0u) sum = uvec2(sums[at], sums[at + 1u]);
    for (uint row = 0u; row < push.rows; row++) sum = add64(sum, x[push.a_offset + row * push.a_stride + col]);
    sums[at] = sum.x;
    sums[at + 1u] = sum.y;
    if ((push.n0 & 2u) != 0u) y[push.y_offset + col] = stored(mean64(sum, push.n1));
}

void main()
{
    if (KIND <= 1) sum_group();
    else if (KIND == 2) apply_norm();
    else if (KIND == 3) count_nonfinite();
    else if (KIND == 4) mean_column();
    else sum_narrow_group();
}
