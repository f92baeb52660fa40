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

// base/fma.h: the product is exact, and narrowing the sum rounds right unless the sum lies in the very middle of two fp32 numbers; then it is
// moved to the side on which the exact value lies.
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

// x >> n with every lost bit kept in the last one; x.y is the high word.
uvec2 shift_right_sticky(uvec2 x, uint n)
{
    if (n == 0u) return x;
    if (n >= 64u) return uvec2((x.x | x.y) != 0u ? 1u : 0u, 0u);
    if (n == 32u) return uvec2(x.y | (x.x != 0u ? 1u : 0u), 0u);
    if (n > 32u) {
        uint lost = (x.y << (64u - n)) | x.x;
        return uvec2((x.y >> (n - 32u)) | (lost != 0u ? 1u : 0u), 0u);
    }
    return uvec2(x.x >> n | x.y << (32u - n) | ((x.x << (32u - n)) != 0u ? 1u : 0u), x.y >> n);
}

uvec2 shift_left(uvec2 x, uint n)
{
    if (n == 0u) return x;
    if (n >= 32u) return uvec2(0u, x.x << (n - 32u));
    return uvec2(x.x << n, x.y << n | x.x >> (32u - n));
}

// Both addends as 64-bit numbers with the leading bit at 62; the smaller one is shifted with a sticky bit.
float exact_fma(float a, float b, float c)
{
    uint ua = floatBitsToUint(a), ub = floatBitsToUint(b), uc = floatBitsToUint(c);
    uint ea = (ua >> 23) & 255u, eb = (ub >> 23) & 255u, ec = (uc >> 23) & 255u;
    uint sign = (ua ^ ub) & 0x80000000u, sign_c = uc & 0x80000000u;
    uvec2 p, q = uvec2(0u);
    int exponent, distance;
    uint carry, rest, top, rounded;

    if (ec == 255u && ea != 255u && eb != 255u) return c;
    if (ea == 255u || eb == 255u) return exact_add(exact_mul(a, b), c);
    if (ea == 0u || eb == 0u) return ec != 0u ? c : uintBitsToFloat(sign & sign_c);
    umulExtended((ua & 0x7fffffu) | 0x800000u, (ub & 0x7fffffu) | 0x800000u, p.y, p.x);
    exponent = int(ea + eb) - 127;
    if ((p.y & 0x8000u) != 0u) {
        p = shift_left(p, 15u);
        exponent += 1;
    } else {
        p = shift_left(p, 16u);
    }
    if (ec != 0u) {
        q = uvec2(0u, ((uc & 0x7fffffu) | 0x800000u) << 7);
        distance = exponent - int(ec);
        if (distance < 0 || (distance == 0 && (p.y < q.y))) {
            uvec2 t = p;
            uint s = sign;
            p = q;
            q = t;
            sign = sign_c;
            sign_c = s;
            exponent = int(ec);
            distance = -distance;
        }
        q = shift_right_sticky(q, uint(distance));
        if (sign == sign_c) {
            p.x = uaddCarry(p.x, q.x, carry);
            p.y += q.y + carry;
            if ((p.y & 0x80000000u) != 0u) {
                p = shift_right_sticky(p, 1u);
                exponent += 1;
            }
        } else {
            p.x = usubBorrow(p.x, q.x, carry);
            p.y -= q.y + carry;
            if ((p.x | p.y) == 0u) return 0.0;
            uint lead = p.y != 0u ? uint(findMSB(p.y)) + 32u : uint(findMSB(p.x));
            p = shift_left(p, 62u - lead);
            exponent -= int(62u - lead);
        }
    }
    if (exponent <= 0) return uintBitsToFloat(sign);
    if (exponent >= 255) return uintBitsToFloat(sign | 0x7f800000u);
    top = p.y >> 7;
    rest = p.y & 0x7fu;
    rounded = (uint(exponent) << 23) + (top - 0x800000u);
    if (rest > 0x40u || (rest == 0x40u && (p.x != 0u || (top & 1u) != 0u))) rounded += 1u;
    return uintBitsToFloat(sign | rounded);
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
