/* SPDX-License-Identifier: MIT
 *
 * bytes.h: little-endian numbers at any address, on any host; overflow-checked 64-bit file arithmetic.
 */
#ifndef ESI_BYTES_H
#define ESI_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t esi_load_u16le(const uint8_t *p)
{
    return (uint16_t)(p[0] | (unsigned)p[1] << 8);
}

static inline uint32_t esi_load_u32le(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t esi_load_u64le(const uint8_t *p)
{
    return (uint64_t)esi_load_u32le(p) | (uint64_t)esi_load_u32le(p + 4) << 32;
}

static inline void esi_store_u32le(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static inline float esi_load_f32le(const uint8_t *p)
{
    const uint32_t bits = esi_load_u32le(p);
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline void esi_store_f32le(uint8_t *p, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    esi_store_u32le(p, bits);
}

static inline void esi_store_u64le(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i));
}

/* File sizes are 64-bit even where size_t is not: false, *out untouched, on overflow. */
static inline bool esi_mul_u64(uint64_t *out, uint64_t a, uint64_t b)
{
    if (b != 0 && a > UINT64_MAX / b) return false;
    *out = a * b;
    return true;
}

static inline bool esi_add_u64(uint64_t *out, uint64_t a, uint64_t b)
{
    if (a > UINT64_MAX - b) return false;
    *out = a + b;
    return true;
}

#endif
