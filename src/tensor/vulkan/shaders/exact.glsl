// SPDX-License-Identifier: MIT
//
// exact.glsl: arithmetic that is the same bits on every device: + - * as they are (NoContraction), fma with one rounding, IEEE division and
// square root, the store rule; and the vocabulary in which tensor/cpu/vmath.h is written, which follows as vmath.glsl (made from that file
// at build time).
//
// FMA_KIND: 1 the device's fma(), where the start-up probe found it fused; 2 fp64 (the probe tells whether it narrows to nearest even); 3
// integers. Division and square root correct the
// device's estimate with an exact integer remainder, so they depend on nothing but an estimate good to a few units. Numbers below 2^-126
// count as zero, in and out: every store makes them zero anyway (ARCHITECTURE.md, "One arithmetic", rule 2).

float exact_add(float a, float b) { precise float r = a + b; return r; }
float exact_sub(float a, float b) { precise float r = a - b; return r; }
float exact_mul(float a, float b) { precise float r = a * b; return r; }

// ---------------------------------------------------------------- fma

#if FMA_KIND == 1

float exact_fma(float a, float b, float c) { precise float r = fma(a, b, c); return r; }

#elif FMA_KIND == 2

// base/fma.h: the product is exact, and narrowing the sum rounds right unless the sum lies in the very middle of two fp32 numbers; then it
// is moved to the side on which the exact value lies.
float exact_fma(float a, float b, float c)
{
    precise double product = double(a) * double(b);
    precise double sum = product + double(c);
    precise double part = sum - product;
    precise double error = (product - (sum - part)) + (double(c) - part);
    uvec2 bits = unpackDouble2x32(sum);
    bool middle = (bits.x & 0x1fffffffu) == 0x10000000u && error != 0.0LF;

    bits.x += middle ? ((error > 0.0LF) == (sum > 0.0LF) ? 1u : 0xffffffffu) : 0u;
    return float(packDouble2x32(bits));
}

#else

// x >> n with every lost bit kept in the last one, n < 64; x.y is the high word. Shifts by 32 are written as two, because one is undefined.
uvec2 shift_right_sticky(uvec2 x, uint n)
{
    bool far = n >= 32u;
    uint s = n & 31u, high = far ? 0u : x.y, low = far ? x.y : x.x, lost = (far ? x.x : 0u) | (low & ((1u << s) - 1u));
    return uvec2(low >> s | (high << 1) << (31u - s) | (lost != 0u ? 1u : 0u), high >> s);
}

uvec2 shift_left(uvec2 x, uint n)
{
    bool far = n >= 32u;
    uint s = n & 31u, high = far ? x.x : x.y, low = far ? 0u : x.x;
    return uvec2(low << s, high << s | (low >> 1) >> (31u - s));
}

// Both addends as 64-bit numbers with the leading bit at 62; the smaller one is shifted with a sticky bit. Without branches: what a number
// that is zero or not finite has in their place is chosen at the end.
float exact_fma(float a, float b, float c)
{
    uint ua = floatBitsToUint(a), ub = floatBitsToUint(b), uc = floatBitsToUint(c);
    uint ea = (ua >> 23) & 255u, eb = (ub >> 23) & 255u, ec = (uc >> 23) & 255u;
    uint sign = (ua ^ ub) & 0x80000000u, sign_c = uc & 0x80000000u, zero = sign & sign_c;
    bool no_product = ea == 0u || eb == 0u, finite_product = ea != 255u && eb != 255u, swap, same;
    uvec2 p, q, larger, smaller, sum;
    uint wide, low, up, bits, lead;
    int exponent, distance;

    umulExtended((ua & 0x7fffffu) | 0x800000u, (ub & 0x7fffffu) | 0x800000u, p.y, p.x);
    wide = (p.y >> 15) & 1u;
    p = uvec2(p.x << (16u - wide), p.y << (16u - wide) | p.x >> (16u + wide));
    q = uvec2(0u, ec == 0u ? 0u : ((uc & 0x7fffffu) | 0x800000u) << 7);
    exponent = int(ea + eb + wide) - 127;
    distance = exponent - int(ec);
    swap = ec != 0u && (distance < 0 || (distance == 0 && p.y < q.y));
    larger = swap ? q : p;
    smaller = swap ? p : q;
    same = sign == sign_c;
    sign = swap ? sign_c : sign;
    exponent = swap ? int(ec) : exponent;
    smaller = shift_right_sticky(smaller, uint(min(abs(distance), 63)));
    smaller = same ? smaller : ~smaller;                            // a difference: + ~x + 1
    low = larger.x + smaller.x;
    sum = uvec2(low + (same ? 0u : 1u), larger.y + smaller.y + (low < smaller.x ? 1u : 0u));
    sum.y += !same && sum.x == 0u ? 1u : 0u;
    lead = sum.y != 0u ? 32u + uint(findMSB(sum.y)) : uint(findMSB(sum.x | 1u));
    exponent += int(lead) - 62;
    sign = (sum.x | sum.y) == 0u ? 0u : sign;
    sum = shift_left(sum, 63u - lead);
    up = (sum.y & 0xffu) > 0x80u || ((sum.y & 0xffu) == 0x80u && (sum.x | (sum.y & 0x100u)) != 0u) ? 1u : 0u;
    bits = (uint(exponent) << 23) + ((sum.y >> 8) - 0x800000u) + up;
    bits = exponent >= 255 ? 0x7f800000u : bits;
    bits = sign | (exponent <= 0 || (sum.x | sum.y) == 0u ? 0u : bits);
    bits = no_product ? (ec != 0u ? uc : zero) : bits;
    bits = ec == 255u ? uc : bits;
    float special = exact_add(exact_mul(a, b), c);
    return finite_product ? uintBitsToFloat(bits) : special;
}

#endif

// ---------------------------------------------------------------- division, square root

float exact_div(float a, float b)
{
    uint ua = floatBitsToUint(a), ub = floatBitsToUint(b);
    uint ea = (ua >> 23) & 255u, eb = (ub >> 23) & 255u, sign = (ua ^ ub) & 0x80000000u;
    uint numerator = (ua & 0x7fffffu) | 0x800000u, denominator = (ub & 0x7fffffu) | 0x800000u, quotient;
    int exponent = int(ea) - int(eb) + 127, remainder;

    if (ea == 255u || eb == 255u || ea == 0u || eb == 0u) {
        bool a_nan = (ua & 0x7fffffffu) > 0x7f800000u, b_nan = (ub & 0x7fffffffu) > 0x7f800000u;
        if (a_nan || b_nan || (ea == eb && (ea == 0u || ea == 255u))) return uintBitsToFloat(0x7fc00000u);
        return uintBitsToFloat(ea == 255u || eb == 0u ? sign | 0x7f800000u : sign);
    }
    if (numerator < denominator) {
        numerator <<= 1;
        exponent -= 1;
    }
    precise float estimate = float(numerator) / float(denominator) * 8388608.0;
    quotient = uint(estimate);
    remainder = int((numerator << 23) - quotient * denominator);    // small, so its low 32 bits are all of it
    for (int i = 0; i < 8 && remainder < 0; i++) {
        quotient -= 1u;
        remainder += int(denominator);
    }
    for (int i = 0; i < 8 && remainder >= int(denominator); i++) {
        quotient += 1u;
        remainder -= int(denominator);
    }
    if (2 * remainder > int(denominator) || (2 * remainder == int(denominator) && (quotient & 1u) != 0u)) quotient += 1u;
    if (exponent <= 0) return uintBitsToFloat(sign);
    if (exponent >= 255) return uintBitsToFloat(sign | 0x7f800000u);
    return uintBitsToFloat(sign | ((uint(exponent) << 23) + (quotient - 0x800000u)));
}

float exact_sqrt(float a)
{
    uint ua = floatBitsToUint(a), ea = (ua >> 23) & 255u;
    uint odd = (ea & 1u) ^ 1u;                                      // of the exponent without its bias
    uint mantissa = ((ua & 0x7fffffu) | 0x800000u) << odd, root;
    int remainder;

    if ((ua & 0x7fffffffu) > 0x7f800000u) return a;
    if (ea == 0u) return uintBitsToFloat(ua & 0x80000000u);
    if ((ua & 0x80000000u) != 0u) return uintBitsToFloat(0x7fc00000u);
    if (ea == 255u) return a;
    precise float square = float(mantissa) * 8388608.0;
    root = uint(sqrt(square));
    remainder = int((mantissa << 23) - root * root);
    for (int i = 0; i < 8 && remainder < 0; i++) {
        root -= 1u;
        remainder += int(2u * root + 1u);
    }
    for (int i = 0; i < 8 && remainder > int(2u * root); i++) {
        remainder -= int(2u * root + 1u);
        root += 1u;
    }
    if (remainder > int(root)) root += 1u;
    return uintBitsToFloat((((ea - odd + 127u) >> 1) << 23) + (root - 0x800000u));
}

// ---------------------------------------------------------------- the store rule

float stored(float v) { return (floatBitsToUint(v) & 0x7fffffffu) < 0x2b800000u ? 0.0 : v; }

// ---------------------------------------------------------------- the vocabulary of tensor/cpu/vec_scalar.h

#define VF float
#define VI uint
#define V_SET1(x) (x)
#define V_ZERO() (0.0)
#define V_ADD(a, b) exact_add(a, b)
#define V_SUB(a, b) exact_sub(a, b)
#define V_MUL(a, b) exact_mul(a, b)
#define V_DIV(a, b) exact_div(a, b)
#define V_FMA(a, b, c) exact_fma(a, b, c)
#define V_LT(a, b) ((a) < (b))
#define V_LE(a, b) ((a) <= (b))
#define V_GT(a, b) ((a) > (b))
#define V_SELECT(m, a, b) ((m) ? (a) : (b))
#define V_MAX(a, b) exact_max(a, b)
#define V_MIN(a, b) exact_min(a, b)
#define V_BITS(a) floatBitsToUint(a)
#define V_FROM_BITS(a) uintBitsToFloat(a)
#define V_ABS(a) V_FROM_BITS(V_BITS(a) & 0x7fffffffu)
#define V_NEG(a) V_FROM_BITS(V_BITS(a) ^ 0x80000000u)
#define V_COPYSIGN(a, b) V_FROM_BITS((V_BITS(a) & 0x7fffffffu) | (V_BITS(b) & 0x80000000u))
#define VI_ADD(a, b) ((a) + (b))
#define VI_SHL(a, n) ((a) << (n))

float exact_max(float a, float b) { return a > b ? a : b; }
float exact_min(float a, float b) { return a < b ? a : b; }

#include "vmath.glsl"

// The numbers of esi_activation.
float activated(int act, float t)
{
    if (act == 1) return esi_v_relu(t);
    if (act == 2) return esi_v_silu(t);
    if (act == 3) return esi_v_gelu_tanh(t);
    if (act == 4) return esi_v_gelu_erf(t);
    if (act == 5) return esi_v_sigmoid(t);
    if (act == 6) return esi_v_softplus(t);
    if (act == 7) return esi_v_tanh(t);
    if (act == 8) return esi_v_exp(t);
    return t;
}
