// SPDX-License-Identifier: MIT
//
// weights.glsl: weights as they are stored in files, from 32-bit words to the bits of fp32 numbers under the store rule, by integer
// arithmetic, so that every bit pattern comes out as on the CPU (half_to_float, weight_at and stored in cpu/generic.c). Needs exact.glsl
// and the buffer of the weight as words[], words2[], words4[]. Types are those of esi_dtype: 0 F32, 1 F16, 2 BF16, 3 Q8_0. A place counts
// elements from the first one, which is number `start` in 32-bit words for F32, in 16-bit units else.

uint stored_bits(uint bits) { return (bits & 0x7fffffffu) < 0x2b800000u ? 0u : bits; }

// Exact; zero without its sign. A subnormal number is mantissa * 2^-24: its leading bit becomes the hidden one.
uint half_bits(uint h)
{
    uint sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31u, mantissa = h & 0x3ffu;

    if (exponent == 31u) return sign | 0x7f800000u | mantissa << 13;
    if (exponent != 0u) return sign | (exponent + 112u) << 23 | mantissa << 13;
    if (mantissa == 0u) return 0u;
    uint lead = uint(findMSB(mantissa));
    return sign | (lead + 103u) << 23 | ((mantissa << (23u - lead)) & 0x7fffffu);
}

uint halfword(uint i) { return (words[i >> 1] >> ((i & 1u) << 4)) & 0xffffu; }

uint from_half(int dtype, uint h) { return dtype == 1 ? half_bits(h) : stored_bits(h << 16); }

// d * q has 11 + 7 bits: exact.
uint from_byte(uint d, uint q)
{
    return stored_bits(floatBitsToUint(exact_mul(uintBitsToFloat(d), float(int(q << 24) >> 24))));
}

uint weight_one(int dtype, uint start, uint place)
{
    if (dtype == 0) return stored_bits(words[start + place]);
    if (dtype != 3) return from_half(dtype, halfword(start + place));
    uint block = start + (place >> 5) * 17u, i = place & 31u;
    return from_byte(half_bits(halfword(block)), halfword(block + 1u + (i >> 1)) >> ((i & 1u) << 3));
}

// Four from `place` on; of Q8_0, `place` is a multiple of 4. Reads no word but those of the four.
uvec4 weight_four(int dtype, uint start, uint place)
{
    uint i = start + place;

    if (dtype == 0) {
        uvec4 v;
        if ((i & 3u) == 0u) v = words4[i >> 2];
        else v = uvec4(words[i], words[i + 1u], words[i + 2u], words[i + 3u]);
        return uvec4(stored_bits(v.x), stored_bits(v.y), stored_bits(v.z), stored_bits(v.w));
    }
    if (dtype == 3) {
        uint block = start + (place >> 5) * 17u, d = half_bits(halfword(block)), four;
        i = block + 1u + ((place & 31u) >> 1);
        four = words[i >> 1];
        if ((i & 1u) != 0u) four = four >> 16 | words[(i >> 1) + 1u] << 16;
        return uvec4(from_byte(d, four), from_byte(d, four >> 8), from_byte(d, four >> 16), from_byte(d, four >> 24));
    }
    uvec2 v;
    if ((i & 3u) == 0u) {
        v = words2[i >> 2];
    } else {
        v = uvec2(words[i >> 1], words[(i >> 1) + 1u]);
        if ((i & 1u) != 0u) v = uvec2(v.x >> 16 | v.y << 16, v.y >> 16 | words[(i >> 1) + 2u] << 16);
    }
    return uvec4(from_half(dtype, v.x & 0xffffu), from_half(dtype, v.x >> 16), from_half(dtype, v.y & 0xffffu),
                 from_half(dtype, v.y >> 16));
}
