/* SPDX-License-Identifier: MIT
 *
 * voxel_index.h: from coordinate to row. Rows are grouped into blocks of 4^3 cells; a block has a 64-bit occupancy mask and lists its
 * rows in the order of its cells, so a lookup is: find the block (hash), test a bit, count the bits below. Surfaces fill about a quarter
 * of the cells of the blocks they touch, so this costs 6-8 bytes per row and most lookups of a neighbourhood hit a block already at hand.
 */
#ifndef ESI_VOXEL_INDEX_H
#define ESI_VOXEL_INDEX_H

#include "voxel/voxel.h"

typedef struct esi_voxel_block {
    uint64_t key;                  /* batch and block coordinates */
    uint64_t mask;                 /* bit (x&3)*16 + (y&3)*4 + (z&3): the cell is present */
    int64_t first;                 /* its rows start here in esi_voxel_index.rows */
} esi_voxel_block;

typedef struct esi_voxel_index {
    esi_voxel_block *blocks;
    int64_t n_blocks, cap_blocks;
    int32_t *slots;                /* open addressing, linear probing: block number or -1 */
    uint64_t slot_mask;            /* number of slots - 1 */
    int32_t *rows;                 /* [count] row numbers by block, then by cell */
} esi_voxel_index;

/* ERR_INTERNAL when a coordinate is out of range or occurs twice, ERR_RESOURCE. Read-only afterwards: any number of threads may look up. */
espalier_status esi_voxel_index_build(espalier_context *ctx, esi_voxel_index *out, const int32_t *rows, int64_t count);
void esi_voxel_index_free(espalier_context *ctx, esi_voxel_index *index);          /* zeroed and half-built are fine */

/* A place to look around from, one per thread: caches the 27 blocks around the current one. */
typedef struct esi_voxel_cursor {
    const esi_voxel_index *index;
    uint64_t home;                 /* key of the block the cursor is in */
    int32_t batch, bx, by, bz;     /* the same as numbers */
    int32_t lx, ly, lz;            /* cell inside the block */
    uint32_t known;                /* bit n: around[n] has been looked up */
    const esi_voxel_block *around[27];
} esi_voxel_cursor;

void esi_voxel_cursor_init(esi_voxel_cursor *cursor, const esi_voxel_index *index);
/* Move to a row's coordinate, which must be in range (need not be present). */
void esi_voxel_cursor_move(esi_voxel_cursor *cursor, const int32_t *row);
/* Row at the cursor's coordinate + (dx, dy, dz), each -1..1, or -1. */
int32_t esi_voxel_cursor_at(esi_voxel_cursor *cursor, int dx, int dy, int dz);
/* The three rows at (dx, dy, -1), (dx, dy, 0), (dx, dy, 1) at once: they mostly lie in one line of one block. */
void esi_voxel_cursor_line(esi_voxel_cursor *cursor, int dx, int dy, int32_t out[3]);

/* Row of one coordinate, which may be anything, or -1. */
int32_t esi_voxel_index_find(const esi_voxel_index *index, int32_t batch, int32_t x, int32_t y, int32_t z);
/* Block of the cells [4 bx, 4 bx + 4) and so on, or NULL; any numbers. */
const esi_voxel_block *esi_voxel_index_block(const esi_voxel_index *index, int32_t batch, int32_t bx, int32_t by, int32_t bz);

#endif
