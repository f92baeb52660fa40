/* SPDX-License-Identifier: MIT
 *
 * keys.h: a coordinate row (batch, x, y, z) as one 64-bit key: 13 + 3 * 17 bits, batch highest, so that comparing keys is comparing rows
 * lexicographically. 2^17 cells per axis is 64 times the largest grid the networks know.
 */
#ifndef ESI_VOXEL_KEYS_H
#define ESI_VOXEL_KEYS_H

#include "voxel/voxel.h"

#define ESI_COORD_BITS 17
#define ESI_BATCH_BITS 13
#define ESI_COORD_LIMIT ((int32_t)1 << ESI_COORD_BITS)
#define ESI_BATCH_LIMIT ((int32_t)1 << ESI_BATCH_BITS)

static inline uint64_t esi_key_pack(const int32_t *row)
{
    return (uint64_t)(uint32_t)row[0] << (3 * ESI_COORD_BITS) | (uint64_t)(uint32_t)row[1] << (2 * ESI_COORD_BITS) |
           (uint64_t)(uint32_t)row[2] << ESI_COORD_BITS | (uint64_t)(uint32_t)row[3];
}

static inline void esi_key_unpack(int32_t *row, uint64_t key)
{
    const uint64_t mask = (uint64_t)ESI_COORD_LIMIT - 1;

    row[0] = (int32_t)(key >> (3 * ESI_COORD_BITS));
    row[1] = (int32_t)(key >> (2 * ESI_COORD_BITS) & mask);
    row[2] = (int32_t)(key >> ESI_COORD_BITS & mask);
    row[3] = (int32_t)(key & mask);
}

/* Negative values become large when read as unsigned. */
static inline bool esi_row_in_range(const int32_t *row)
{
    return (uint32_t)row[0] < (uint32_t)ESI_BATCH_LIMIT && (uint32_t)row[1] < (uint32_t)ESI_COORD_LIMIT &&
           (uint32_t)row[2] < (uint32_t)ESI_COORD_LIMIT && (uint32_t)row[3] < (uint32_t)ESI_COORD_LIMIT;
}

/* ERR_RESOURCE when `count` cannot be numbered by int32, ERR_INTERNAL when it is negative or a row is out of range. */
espalier_status esi_rows_check(espalier_context *ctx, const int32_t *rows, int64_t count);
espalier_status esi_row_count_check(espalier_context *ctx, int64_t count);

/* Sort keys ascending. Needs another n * 8 bytes while it runs. */
espalier_status esi_keys_sort(espalier_context *ctx, uint64_t *keys, size_t n);

#endif
