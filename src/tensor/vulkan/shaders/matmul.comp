#version 450
// SPDX-License-Identifier: MIT
//
// matmul.comp: y = epilogue(x * w^T): linear layers, and convolutions, whose rows of x are gathered through a table (ops.h). A workgroup
// computes BM rows times BN columns of y, an invocation TM times TN of them in registers; x and w pass through shared memory in blocks of
// BK along k, four k together, and the next block is on its way while one is worked on (the usual tiled product: NVIDIA, "CUTLASS", 2017).
// An invocation's rows and columns lie BM / TM and BN / TN apart, and a row of shared memory is an odd number of 16-byte units, so that
// neighbours read from different banks. Each output has one accumulator and k ascends, whatever the sizes: the order of cpu/generic.c.
//
// Beyond the borders zeros are loaded: fma(0, 0, acc) is acc, because an accumulator that starts at +0 never becomes -0. A missing row of x
// counts as zeros too; where w may have infinities or NaN (GUARDED), its place is marked and the step left out.
//
// KIND: 4 GATHERED; 8 GUARDED; from bit 4 on the number of the tile shape, which is in the constants.
// push: cols of y; n0 channels per tap; n1 taps, flags from bit 16 on (below); n2 rows of x; n3 first block of k, end from bit 16 on;
// n4 number of the first column within bias, scale and gate; n5 type of w from bit 1 on; bit 0: w begins 16 bits after its binding does.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "exact.glsl"

layout(constant_id = 3) const uint BM = 64u;
layout(constant_id = 4) const uint BN = 64u;
layout(constant_id = 5) const uint TM = 4u;
layout(constant_id = 6) const uint TN = 4u;
layout(constant_id = 7) const uint BK = 16u;
const uint DOWN = BM / TM, ACROSS = BN / TN, GROUP = DOWN * ACROSS, QUADS = BK / 4u, PITCH = QUADS + 1u;
const uint A_LOADS = (BM * QUADS + GROUP - 1u) / GROUP, B_LOADS = (BN * QUADS + GROUP - 1u) / GROUP;
const uint MISSING = 0xffffffffu;           // a NaN; others are 0x7fc00000 where it matters
const bool GATHERED = (KIND & 4) != 0, GUARDED = (KIND & 8) != 0;

// Flags: what the epilogue has; how x and w lie; what happens to the accumulators.
const uint BIAS = 1u << 16, SCALE = 1u << 17, GATE = 1u << 18, RESIDUAL = 1u << 19;
const uint CHANNEL_MAJOR = 1u << 20;        // w: taps are adjacent, not channels
const uint COPIED = 1u << 21;               // x has been gathered: a row of y has its taps side by side
const uint MIXED = 1u << 22;                // a block may have channels of several taps; otherwise taps begin with a block
const uint RESUMED = 1u << 23;              // accumulators start from y
const uint RAW = 1u << 24;                  // and go there as they are
const uint FINISHED = 1u << 25;             // nothing to multiply: x has the accumulators
// and the activation from bit 26 on.

layout(std430, binding = 0) buffer y_buffer { float y[]; };
layout(std430, binding = 1) readonly buffer x_buffer { uint x[]; };
layout(std430, binding = 1) readonly buffer x4_buffer { uvec4 x4[]; };
layout(std430, binding = 2) readonly buffer w_buffer { uint words[]; };
layout(std430, binding = 2) readonly buffer w2_buffer { uvec2 words2[]; };
layout(std430, binding = 2) readonly buffer w4_buffer { uvec4 words4[]; };
layout(std430, binding = 3) readonly buffer bias_buffer { float bias[]; };
layout(std430, binding = 4) readonly buffer scale_buffer { float scale[]; };
layout(std430, binding = 5) readonly buffer gate_buffer { float gate[]; };
layout(std430, binding = 6) readonly buffer residual_buffer { float residual[]; };
layout(std430, binding = 7) readonly buffer table_buffer { uint table[]; };

#include "weights.glsl"

#if FMA_KIND == 2
shared double a_tile[BM * PITCH * 2u], b_tile[BN * PITCH * 2u];      // two numbers each: software devices load one element at a time
#else
shared uvec4 a_tile[BM * PITCH], b_tile[BN * PITCH];
#endif
shared uint present[8];                     // taps that some row of the tile has, a bit each

bool has(uint flag) { return (push.n1 & flag) != 0u; }

uint channels, taps, depth, blocks_per_tap; // depth = channels * taps

// ------------------------------------------------------------------- loading

// The row of x for a tap of a row of y.
uint source(uint row, uint tap)
{
    if (!GATHERED) return row;
    uint from = table[push.g_offset + row * push.g_stride + tap];
    if (from >= push.n2) return MISSING;
    return has(COPIED) ? row : from;
}

uint plain(uint v) { return GUARDED && (v & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : v; }

uvec4 load_x(uint row, uint block, uint quad)
{
    uint nothing = GATHERED && GUARDED ? MISSING : 0u, from, k, end, at;
    uvec4 v = uvec4(0u);

    if (row >= push.rows) return v;
    if (GATHERED && has(MIXED)) {
        k = block * BK + quad * 4u;
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            if (k + i >= depth) break;
            from = source(row, (k + i) / channels);
            v[i] = from == MISSING ? nothing : plain(x[push.a_offset + from * push.a_stride + (has(COPIED) ? k + i : (k + i) % channels)]);
        }
        return v;
    }
    k = block % blocks_per_tap * BK + quad * 4u;
    if (k >= channels) return v;
    from = source(row, block / blocks_per_tap);
    if (from == MISSING) return uvec4(nothing);
    at = push.a_offset + from * push.a_stride + k;
    if (GATHERED && has(COPIED)) at += block / blocks_per_tap * channels;
    end = channels - k;
    if (end >= 4u && (at & 3u) == 0u) {
        v = x4[at >> 2];
    } else {
        v.x = x[at];
        if (end > 1u) v.y = x[at + 1u];
        if (end > 2u) v.z = x[at + 2u];
        if (end > 3u) v.w = x[at + 3u];
    }
    return GUARDED ? uvec4(plain(v.x), plain(v.y), plain(v.z), plain(v.w)) : v;
}

// The place in w of channel c of a tap.
uint place(uint col, uint tap, uint c)
{
    uint within = GATHERED && has(CHANNEL_MAJOR) ? c * taps + tap : tap * channels + c;
    return col * push.b_stride + within;
}

uvec4 load_w(uint col, uint block, uint quad)
{
    int dtype = int(push.n5 >> 1);
    uint start = dtype == 0 ? push.b_offset : push.b_offset * 2u + (push.n5 & 1u), k, end, tap = 0u;
    uvec4 v = uvec4(0u);

    if (col >= push.cols) return v;
    if (GATHERED && has(MIXED)) {
        k = block * BK + quad * 4u;
        end = depth;
        if (!has(CHANNEL_MAJOR) && k + 4u <= depth) return weight_four(dtype, start, col * push.b_stride + k);
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            if (k + i < depth) v[i] = weight_one(dtype, start, place(col, (k + i) / channels, (k + i) % channels));
        return v;
    }
    tap = block / blocks_per_tap;
    k = block % blocks_per_tap * BK + quad * 4u;
    if (k >= channels) return v;
    end = channels - k;
    if (end >= 4u && !(GATHERED && has(CHANNEL_MAJOR)) && (dtype != 3 || (tap * channels & 3u) == 0u))
        return weight_four(dtype, start, place(col, tap, k));
    v.x = weight_one(dtype, start, place(col, tap, k));
    if (end > 1u) v.y = weight_one(dtype, start, place(col, tap, k + 1u));
    if (end > 2u) v.z = weight_one(dtype, start, place(col, tap, k + 2u));
    if (end > 3u) v.w = weight_one(dtype, start, place(col, tap, k + 3u));
    return v;
}

// Bits of taps that rows [row0, row0 + BM) have: a tap that none has is left out.
void find_taps(uint row0, uint id)
{
    if (id < 8u) present[id] = 0u;
    barrier();
    for (uint i = id; i < BM * min(taps, 256u); i += GROUP) {
        uint row = row0 + i / min(taps, 256u), tap = i % min(taps, 256u);
        if (row < push.rows && source(row, tap) != MISSING) atomicOr(present[tap >> 5], 1u << (tap & 31u));
    }
    barrier();
}

uint next_block(uint block, uint end)
{
    if (GATHERED && !has(MIXED))
        for (; block < end; block = (block / blocks_per_tap + 1u) * blocks_per_tap) {
            uint tap = block / blocks_per_tap;
            if (tap >= 256u || (present[tap >> 5] & 1u << (tap & 31u)) != 0u) break;
        }
    return block;
}

// ------------------------------------------------------------------- product

float acc[TM * TN];

void step_one(uint n, uint a, uint b)
{
    if (!GUARDED || a != MISSING) acc[n] = exact_fma(uintBitsToFloat(a), uintBitsToFloat(b), acc[n]);
}

void multiply(uint down, uint across, uint quads)
{
#if FMA_KIND == 1
    for (uint q = 0u; q < quads; q++) {
        uvec4 b[TN];
        [[unroll]] for (uint j = 0u; j < TN; j++) b[j] = b_tile[(across + j * ACROSS) * PITCH + q];
        [[unroll]] for (uint i = 0u; i < TM; i++) {
            uvec4 a = a_tile[(down + i * DOWN) * PITCH + q];
            [[unroll]] for (uint j = 0u; j < TN; j++) step_one(i * TN + j, a.x, b[j].x);
            [[unroll]] for (uint j = 0u; j < TN; j++) step_one(i * TN + j, a.y, b[j].y);
            [[unroll]] for (uint j = 0u; j < TN; j++) step_one(i * TN + j, a.z, b[j].z);
            [[unroll]] for (uint j = 0u; j < TN; j++) step_one(i * TN + j, a.w, b[j].w);
        }
    }
#elif FMA_KIND == 2
    // An fma is dozens of instructions: one text for all k keeps the code small.
    [[dont_unroll]] for (uint k = 0u; k < quads * 2u; k++) {
        uvec2 a[TM], b[TN];
        [[unroll]] for (uint i = 0u; i < TM; i++) a[i] = unpackDouble2x32(a_tile[(down + i * DOWN) * PITCH * 2u + k]);
        [[unroll]] for (uint j = 0u; j < TN; j++) b[j] = unpackDouble2x32(b_tile[(across + j * ACROSS) * PITCH * 2u + k]);
        [[unroll]] for (uint half_ = 0u; half_ < 2u; half_++) {
            [[unroll]] for (uint i = 0u; i < TM; i++)
                [[unroll]] for (uint j = 0u; j < TN; j++)
                    step_one(i * TN + j, half_ == 0u ? a[i].x : a[i].y, half_ == 0u ? b[j].x : b[j].y);
        }
    }
#else
    [[dont_unroll]] for (uint k = 0u; k < quads * 4u; k++) {
        [[unroll]] for (uint i = 0u; i < TM; i++) {
            uint a = a_tile[(down + i * DOWN) * PITCH + (k >> 2)][k & 3u];
            [[unroll]] for (uint j = 0u; j < TN; j++) step_one(i * TN + j, a, b_tile[(across + j * ACROSS) * PITCH + (k >> 2)][k & 3u]);
        }
    }
#endif
}

#if FMA_KIND == 2
#define STORE(tile, at, v) { tile[(at) * 2u] = packDouble2x32((v).xy); tile[(at) * 2u + 1u] = packDouble2x32((v).zw); }
#else
#define STORE(tile, at, v) tile[at] = v;
#endif

void product(uint row0, uint col0, uint id)
{
    uint first = push.n3 & 0xffffu, end = push.n3 >> 16, down = id / ACROSS, across = id % ACROSS, block = next_block(first, end);
    uvec4 a[A_LOADS], b[B_LOADS];

    while (block < end) {
        uint left = GATHERED && has(MIXED) ? depth - block * BK : channels - block % blocks_per_tap * BK;
        [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
            uint slot = id + i * GROUP;
            a[i] = load_x(row0 + slot / QUADS, block, slot % QUADS);
        }
        [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
            uint slot = id + i * GROUP;
            b[i] = load_w(col0 + slot / QUADS, block, slot % QUADS);
        }
        barrier();                          // the block before was read by all
        [[unroll]] for (uint i = 0u; i < A_LOADS; i++) {
            uint slot = id + i * GROUP;
            if (slot < BM * QUADS) STORE(a_tile, slot / QUADS * PITCH + slot % QUADS, a[i])
        }
        [[unroll]] for (uint i = 0u; i < B_LOADS; i++) {
            uint slot = id + i * GROUP;
            if (slot < BN * QUADS) STORE(b_tile, slot / QUADS * PITCH + slot % QUADS, b[i])
        }
        barrier();
        if (row0 + down < push.rows) multiply(down, across, min(QUADS, (left + 3u) / 4u));
        block = next_block(block + 1u, end);
    }
}

// ------------------------------------------------------------------ epilogue

float epilogue(float t, uint row, uint col)
{
    uint c = push.n4 + col;

    if (has(SCALE)) t = exact_fma(t, scale[push.d_offset + c], has(BIAS) ? bias[push.c_offset + c] : 0.0);
    else if (has(BIAS)) t = exact_add(t, bias[push.c_offset + c]);
    t = activated(int(push.n1 >> 26), t);
    if (has(RESIDUAL)) {
        float r = residual[push.f_offset + row * push.f_stride + col];
        t = has(GATE) ? exact_fma(gate[push.e_offset + c], t, r) : exact_add(t, r);
    }
    return stored(t);
}

void main()
{
    uint tiles_down = (push.rows + BM - 1u) / BM, tiles_across = (push.cols + BN - 1u) / BN, tile = group_number();
    uint id = gl_LocalInvocationID.x, down = id / ACROSS, across = id % ACROSS;

    if (tile >= tiles_down * tiles_across) return;
    // Tiles in bands of 8 rows of tiles: those that run together share rows of x and of w.
    uint band = tile / (8u * tiles_across), rest = tile % (8u * tiles_across), height = min(8u, tiles_down - band * 8u);
    uint row0 = (band * 8u + rest % height) * BM, col0 = rest / height * BN;

    channels = push.n0;
    taps = push.n1 & 0xffffu;
    depth = channels * taps;
    blocks_per_tap = (channels + BK - 1u) / BK;
    [[unroll]] for (uint n = 0u; n < TM * TN; n++) acc[n] = 0.0;
    if (has(RESUMED | FINISHED))
        [[unroll]] for (uint n = 0u; n < TM * TN; n++) {
            uint row = row0 + down + n / TN * DOWN, col = col0 + across + n % TN * ACROSS;
            if (row >= push.rows || col >= push.cols) continue;
            acc[n] = has(RESUMED) ? y[push.y_offset + row * push.y_stride + col]
                                  : uintBitsToFloat(x[push.a_offset + row * push.a_stride + col]);
        }
    if (!has(FINISHED)) {
        if (GATHERED && !has(MIXED)) find_taps(row0, id);
        product(row0, col0, id);
    }
    // One text for all outputs: an accumulator is picked by comparisons, which leaves it in its register.
    for (uint i = 0u; i < TM; i++) {
        float picked[TN];
        [[unroll]] for (uint n = 0u; n < TM * TN; n++)
            if (n / TN == i) picked[n % TN] = acc[n];
        for (uint j = 0u; j < TN; j++) {
            uint row = row0 + down + i * DOWN, col = col0 + across + j * ACROSS;
            float t = picked[0];
            [[unroll]] for (uint n = 1u; n < TN; n++) t = n == j ? picked[n] : t;
            if (row < push.rows && col < push.cols) y[push.y_offset + row * push.y_stride + col] = has(RAW) ? t : epilogue(t, row, col);
        }
    }
}
