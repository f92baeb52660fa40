/* SPDX-License-Identifier: MIT
 *
 * model_values.c: random weights from a counter: element i of a stream depends on nothing but the stream and i, so that a file of any size
 * is written in chunks, in any order, the same bytes on every machine. Integers all the way; a small table turns them into F32, F16 or
 * BF16.
 */
#include "model_plan.h"

#include "formats/bytes.h"

/* Bijective scrambling of 64 bits; constants of David Stafford's variant 13 of the MurmurHash3 finaliser. */
static uint64_t scramble(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t value_stream(uint64_t seed, const char *text)
{
    uint64_t hash = scramble(seed + UINT64_C(0x9e3779b97f4a7c15));
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return scramble(hash);
}

/* Sixteen random bits for element i: four elements share a number. */
static uint32_t random_bits(uint64_t stream, uint64_t i)
{
    return (uint32_t)(scramble(stream + (i >> 2) * UINT64_C(0x9e3779b97f4a7c15)) >> (16 * (i & 3))) & 0xffff;
}

/* ------------------------------------------------------------ number formats */

/* n * 2^exponent as fp32 bits; |n| < 2^24, exponent far from fp32's limits. */
static uint32_t f32_bits(int n, int exponent)
{
    uint32_t magnitude = (uint32_t)(n < 0 ? -n : n), top = 23;
    if (n == 0) return 0;
    while (!(magnitude >> top)) top--;
    uint32_t fraction = (magnitude << (23 - top)) & 0x7fffff;
    return (n < 0 ? UINT32_C(0x80000000) : 0) | ((uint32_t)(127 + (int)top + exponent) << 23) | fraction;
}

/* The same as F16, n * 2^exponent being a multiple of 2^-24 below 2^16 with at most eleven significant bits. */
static uint16_t f16_bits(int n, int exponent)
{
    uint32_t magnitude = (uint32_t)(n < 0 ? -n : n), sign = n < 0 ? 0x8000 : 0, top = 23;
    if (n == 0) return 0;
    while (!(magnitude >> top)) top--;
    int e = (int)top + exponent;
    if (e < -14) return (uint16_t)(sign | magnitude << (exponent + 24)); /* subnormal */
    uint32_t fraction = top <= 10 ? magnitude << (10 - top) : magnitude >> (top - 10);
    return (uint16_t)(sign | (uint32_t)(e + 15) << 10 | (fraction & 0x3ff));
}

static uint32_t number_bits(esi_file_dtype dtype, int n, int exponent)
{
    switch (dtype) {
    case ESI_FILE_F16:
        return f16_bits(n, exponent);
    case ESI_FILE_BF16:
        return f32_bits(n, exponent) >> 16;
    default:
        return f32_bits(n, exponent);
    }
}

/* ------------------------------------------------------------ filling */

#define MAX_VALUES 512

/* Elements [first, first + count) of a part. */
static void fill_part(uint8_t *bytes, esi_file_dtype dtype, const value_part *part, uint64_t first, uint64_t count)
{
    uint32_t table[MAX_VALUES], values = 2 * (uint32_t)part->rule.spread + 1;

    for (uint32_t k = 0; k < values; k++)
        table[k] = number_bits(dtype, part->rule.centre + (int)k - part->rule.spread, part->rule.exponent);
    if (dtype == ESI_FILE_F32) {
        for (uint64_t i = 0; i < count; i++) esi_store_u32le(bytes + 4 * i, table[(random_bits(part->stream, first + i) * values) >> 16]);
    } else {
        for (uint64_t i = 0; i < count; i++) {
            uint32_t v = table[(random_bits(part->stream, first + i) * values) >> 16];
            bytes[2 * i] = (uint8_t)v;
            bytes[2 * i + 1] = (uint8_t)(v >> 8);
        }
    }
}

espalier_status file_plan_fill(void *user, size_t entry, uint64_t offset, void *bytes, size_t size)
{
    const file_plan *plan = user;
    const planned_tensor *t = &plan->tensors[entry];
    unsigned element = t->dtype == ESI_FILE_F32 ? 4 : 2;
    uint64_t first = offset / element, left = size / element;
    uint8_t *out = bytes;

    for (int p = 0; p < t->n_parts && left > 0; p++) {
        const value_part *part = &t->part[p];
        if (first >= part->count) {
            first -= part->count;
            continue;
        }
        uint64_t n = ESI_MIN(left, part->count - first);
        fill_part(out, t->dtype, part, first, n);
        out += n * element;
        left -= n;
        first = 0;
    }
    return left == 0 ? ESPALIER_OK : ESPALIER_ERR_INTERNAL;
}
