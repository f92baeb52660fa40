/* SPDX-License-Identifier: MIT
 *
 * vxz_octree.c: Morton and Hilbert codes, and sparse octrees as bytes: one byte per inner node in pre-order, bit k set where child k is,
 * children visited in ascending order; a leaf has no byte. Order and meaning are those of O-Voxel's serialiser (TRELLIS.2 o-voxel).
 */
#include "formats/vxz_internal.h"

/* ------------------------------------------------------------------- codes */

/* Two zero bits before each of 10 bits. */
static uint32_t spread(uint32_t v)
{
    v &= 0x3ff;
    v = (v | v << 16) & 0x030000ff;
    v = (v | v << 8) & 0x0300f00f;
    v = (v | v << 4) & 0x030c30c3;
    return (v | v << 2) & 0x09249249;
}

static uint32_t gather(uint32_t v)
{
    v &= 0x09249249;
    v = (v | v >> 2) & 0x030c30c3;
    v = (v | v >> 4) & 0x0300f00f;
    v = (v | v >> 8) & 0x030000ff;
    return (v | v >> 16) & 0x3ff;
}

uint32_t esi_morton_encode(uint32_t x, uint32_t y, uint32_t z)
{
    return spread(x) << 2 | spread(y) << 1 | spread(z);
}

void esi_morton_decode(uint32_t code, uint32_t out[3])
{
    for (int axis = 0; axis < 3; axis++) out[axis] = gather(code >> (2 - axis));
}

/* J. Skilling, "Programming the Hilbert curve" (2004): undo the excess work bit by bit, then Gray encode. */
uint32_t esi_hilbert_encode(uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t p[3] = {x & 0x3ff, y & 0x3ff, z & 0x3ff}, gray = 0;

    for (uint32_t q = 512; q > 1; q >>= 1) {
        const uint32_t low = q - 1;

        for (int i = 0; i < 3; i++) {
            if (p[i] & q) {
                p[0] ^= low;
            } else {
                const uint32_t t = (p[0] ^ p[i]) & low;

                p[0] ^= t;
                p[i] ^= t;
            }
        }
    }
    p[1] ^= p[0];
    p[2] ^= p[1];
    for (uint32_t q = 512; q > 1; q >>= 1) {
        if (p[2] & q) gray ^= q - 1;
    }
    return esi_morton_encode(p[0] ^ gray, p[1] ^ gray, p[2] ^ gray);
}

#define DIGIT 11

void esi_radix_sort(uint32_t *order, uint32_t *scratch, const uint64_t *keys, size_t n, int bits)
{
    uint32_t *from = order, *to = scratch;

    for (int shift = 0; shift < bits; shift += DIGIT) {
        size_t count[1 << DIGIT] = {0}, at = 0;
        uint32_t *swap = from;

        for (size_t i = 0; i < n; i++) count[keys[from[i]] >> shift & ((1 << DIGIT) - 1)]++;
        for (size_t d = 0; d < (size_t)1 << DIGIT; d++) {
            const size_t c = count[d];

            count[d] = at;
            at += c;
        }
        for (size_t i = 0; i < n; i++) to[count[keys[from[i]] >> shift & ((1 << DIGIT) - 1)]++] = from[i];
        from = to;
        to = swap;
    }
    if (from != order) memcpy(order, from, n * sizeof *order);
}

/* ----------------------------------------------------------------- octrees */

typedef struct octree_writer {
    uint8_t *out;                  /* NULL: only count */
    size_t size;
    const uint32_t *codes;
} octree_writer;

/* The node over codes [begin, end), whose children differ in bits 3 * level .. + 2. At most 10 calls deep. */
static void encode_node(octree_writer *w, size_t begin, size_t end, int level)
{
    const size_t place = w->size++;
    uint8_t mask = 0;

    for (size_t i = begin; i < end;) {
        const uint32_t prefix = w->codes[i] >> (3 * level);
        size_t next = i + 1;

        while (next < end && w->codes[next] >> (3 * level) == prefix) next++;
        mask |= (uint8_t)(1u << (prefix & 7));
        if (level > 0) encode_node(w, i, next, level - 1);
        i = next;
    }
    if (w->out) w->out[place] = mask;
}

void esi_octree_encode(uint8_t *out, size_t *size, const uint32_t *codes, size_t n, int depth)
{
    octree_writer w = {.out = out, .codes = codes};

    if (n > 0) encode_node(&w, 0, n, depth - 1);
    *size = w.size;
}

typedef struct octree_reader {
    const uint8_t *bytes;
    size_t size, position, n, capacity;
    uint32_t *codes;               /* NULL: only count */
} octree_reader;

static bool decode_node(octree_reader *r, uint32_t prefix, int level)
{
    unsigned mask;

    if (r->position == r->size) return false;
    mask = r->bytes[r->position++];
    if (mask == 0) return false;
    for (uint32_t k = 0; k < 8; k++) {
        if (!(mask >> k & 1)) continue;
        if (level > 0) {
            if (!decode_node(r, prefix << 3 | k, level - 1)) return false;
        } else {
            if (r->n == r->capacity) return false;
            if (r->codes) r->codes[r->n] = prefix << 3 | k;
            r->n++;
        }
    }
    return true;
}

bool esi_octree_decode(uint32_t *codes, size_t capacity, size_t *n, const uint8_t *bytes, size_t size, int depth)
{
    octree_reader r = {.bytes = bytes, .size = size, .codes = codes, .capacity = capacity};
    const bool ok = size == 0 || (decode_node(&r, 0, depth - 1) && r.position == size);

    *n = r.n;
    return ok;
}

size_t esi_octree_leaves(const uint8_t *bytes, size_t size, int depth)
{
    size_t n;

    (void)esi_octree_decode(NULL, SIZE_MAX, &n, bytes, size, depth);
    return n;
}
