/* SPDX-License-Identifier: MIT
 *
 * voxel_index.c: hash of 4^3 blocks with occupancy masks. Built in row order by one thread, so its content is always the same.
 */
#include "voxel/voxel_index.h"
#include "voxel/keys.h"

#define BLOCK_COORD_BITS (ESI_COORD_BITS - 2)
#define BLOCK_LIMIT ((int32_t)1 << BLOCK_COORD_BITS)
#define FIRST_BLOCKS 1024
#define NO_KEY UINT64_MAX

static uint64_t block_key(int32_t batch, int32_t bx, int32_t by, int32_t bz)
{
    return (uint64_t)(uint32_t)batch << (3 * BLOCK_COORD_BITS) | (uint64_t)(uint32_t)bx << (2 * BLOCK_COORD_BITS) |
           (uint64_t)(uint32_t)by << BLOCK_COORD_BITS | (uint64_t)(uint32_t)bz;
}

static uint64_t row_block_key(const int32_t *row)
{
    return block_key(row[0], row[1] >> 2, row[2] >> 2, row[3] >> 2);
}

static unsigned row_cell(const int32_t *row)
{
    return ((unsigned)row[1] & 3) << 4 | ((unsigned)row[2] & 3) << 2 | ((unsigned)row[3] & 3);
}

static uint64_t hash_key(uint64_t key)
{
    key *= UINT64_C(0x9e3779b97f4a7c15);           /* 2^64 / golden ratio: spreads into the high bits */
    return key ^ key >> 32;
}

/* Number of set bits; written out because the baseline machine has no instruction for it. */
static unsigned count_bits(uint64_t v)
{
    v -= v >> 1 & UINT64_C(0x5555555555555555);
    v = (v & UINT64_C(0x3333333333333333)) + (v >> 2 & UINT64_C(0x3333333333333333));
    v = (v + (v >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(v * UINT64_C(0x0101010101010101) >> 56);
}

/* Slot of the block with this key, or the empty slot where it belongs. */
static uint64_t find_slot(const esi_voxel_index *index, uint64_t key)
{
    uint64_t slot = hash_key(key) & index->slot_mask;

    while (index->slots[slot] >= 0 && index->blocks[index->slots[slot]].key != key) slot = (slot + 1) & index->slot_mask;
    return slot;
}

/* Room for cap blocks, with at least twice as many slots. cap is a power of two. */
static espalier_status grow(espalier_context *ctx, esi_voxel_index *index, int64_t cap)
{
    const size_t n_slots = 2 * (size_t)cap;
    esi_voxel_block *blocks;
    int32_t *slots;

    slots = esi_alloc(ctx, n_slots, sizeof *slots, "voxel index");
    if (!slots) return ESPALIER_ERR_RESOURCE;
    esi_free(ctx, index->slots);
    index->slots = slots;
    index->slot_mask = n_slots - 1;
    blocks = esi_realloc(ctx, index->blocks, (size_t)cap, sizeof *blocks, "voxel index");
    if (!blocks) return ESPALIER_ERR_RESOURCE;
    index->blocks = blocks;
    index->cap_blocks = cap;

    for (size_t i = 0; i < n_slots; i++) slots[i] = -1;
    for (int64_t i = 0; i < index->n_blocks; i++) slots[find_slot(index, blocks[i].key)] = (int32_t)i;
    return ESPALIER_OK;
}

/* First pass: which blocks exist, which of their cells are occupied. */
static espalier_status mark_cells(espalier_context *ctx, esi_voxel_index *index, const int32_t *rows, int64_t count)
{
    uint64_t last_key = NO_KEY;
    esi_voxel_block *block = NULL;
    espalier_status st = grow(ctx, index, FIRST_BLOCKS);

    for (int64_t n = 0; st == ESPALIER_OK && n < count; n++) {
        const int32_t *row = rows + 4 * n;
        const uint64_t key = row_block_key(row), bit = UINT64_C(1) << row_cell(row);

        if (key != last_key) {
            uint64_t slot;

            if (index->n_blocks == index->cap_blocks) {
                st = grow(ctx, index, 2 * index->cap_blocks);
                if (st != ESPALIER_OK) return st;
            }
            slot = find_slot(index, key);
            if (index->slots[slot] < 0) {
                index->blocks[index->n_blocks] = (esi_voxel_block){.key = key};
                index->slots[slot] = (int32_t)index->n_blocks++;
            }
            block = &index->blocks[index->slots[slot]];
            last_key = key;
        }
        if (block->mask & bit) {
            return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: coordinate (%d, %d, %d, %d) occurs twice, again in row %lld", (int)row[0],
                            (int)row[1], (int)row[2], (int)row[3], (long long)n);
        }
        block->mask |= bit;
        if ((n & 0xfffff) == 0) st = esi_check_cancel(ctx);
    }
    return st;
}

/* Second pass: put the row numbers where mask and `first` say. */
static espalier_status place_rows(espalier_context *ctx, esi_voxel_index *index, const int32_t *rows, int64_t count)
{
    espalier_status st = ESPALIER_OK;
    int64_t first = 0;
    uint64_t last_key = NO_KEY;
    const esi_voxel_block *block = NULL;

    for (int64_t i = 0; i < index->n_blocks; i++) {
        index->blocks[i].first = first;
        first += count_bits(index->blocks[i].mask);
    }
    for (int64_t n = 0; st == ESPALIER_OK && n < count; n++) {
        const int32_t *row = rows + 4 * n;
        const uint64_t key = row_block_key(row), bit = UINT64_C(1) << row_cell(row);

        if (key != last_key) {
            block = &index->blocks[index->slots[find_slot(index, key)]];
            last_key = key;
        }
        index->rows[block->first + count_bits(block->mask & (bit - 1))] = (int32_t)n;
        if ((n & 0xfffff) == 0) st = esi_check_cancel(ctx);
    }
    return st;
}

espalier_status esi_voxel_index_build(espalier_context *ctx, esi_voxel_index *out, const int32_t *rows, int64_t count)
{
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = esi_rows_check(ctx, rows, count);
    if (st != ESPALIER_OK) return st;
    st = mark_cells(ctx, out, rows, count);
    if (st != ESPALIER_OK) goto done;
    out->rows = esi_alloc(ctx, (size_t)count, sizeof *out->rows, "voxel index");
    if (!out->rows) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = place_rows(ctx, out, rows, count);
done:
    if (st != ESPALIER_OK) esi_voxel_index_free(ctx, out);
    return st;
}

void esi_voxel_index_free(espalier_context *ctx, esi_voxel_index *index)
{
    if (!index) return;
    esi_free(ctx, index->blocks);
    esi_free(ctx, index->slots);
    esi_free(ctx, index->rows);
    memset(index, 0, sizeof *index);
}

/* ------------------------------------------------------------------ lookups */

static const esi_voxel_block *find_block(const esi_voxel_index *index, int32_t batch, int32_t bx, int32_t by, int32_t bz)
{
    int32_t number;

    if (bx < 0 || by < 0 || bz < 0 || bx >= BLOCK_LIMIT || by >= BLOCK_LIMIT || bz >= BLOCK_LIMIT) return NULL;
    number = index->slots[find_slot(index, block_key(batch, bx, by, bz))];
    return number < 0 ? NULL : &index->blocks[number];
}

static int32_t find_cell(const esi_voxel_index *index, const esi_voxel_block *block, unsigned cell)
{
    const uint64_t bit = UINT64_C(1) << cell;

    if (!block || !(block->mask & bit)) return -1;
    return index->rows[block->first + count_bits(block->mask & (bit - 1))];
}

int32_t esi_voxel_index_find(const esi_voxel_index *index, int32_t batch, int32_t x, int32_t y, int32_t z)
{
    const int32_t row[4] = {batch, x, y, z};

    if (!esi_row_in_range(row)) return -1;
    return find_cell(index, find_block(index, batch, x >> 2, y >> 2, z >> 2), row_cell(row));
}

const esi_voxel_block *esi_voxel_index_block(const esi_voxel_index *index, int32_t batch, int32_t bx, int32_t by, int32_t bz)
{
    return batch < 0 || batch >= ESI_BATCH_LIMIT ? NULL : find_block(index, batch, bx, by, bz);
}

void esi_voxel_cursor_init(esi_voxel_cursor *cursor, const esi_voxel_index *index)
{
    memset(cursor, 0, sizeof *cursor);
    cursor->index = index;
    cursor->home = NO_KEY;
}

void esi_voxel_cursor_move(esi_voxel_cursor *cursor, const int32_t *row)
{
    const uint64_t key = row_block_key(row);

    cursor->lx = row[1] & 3;
    cursor->ly = row[2] & 3;
    cursor->lz = row[3] & 3;
    if (key == cursor->home) return;
    cursor->home = key;
    cursor->batch = row[0];
    cursor->bx = row[1] >> 2;
    cursor->by = row[2] >> 2;
    cursor->bz = row[3] >> 2;
    cursor->known = 0;
}

/* Block at place (i, j, l) around the cursor's, 1 being its own. */
static const esi_voxel_block *block_at(esi_voxel_cursor *cursor, int i, int j, int l)
{
    const int place = i * 9 + j * 3 + l;

    if (!(cursor->known >> place & 1)) {
        cursor->around[place] = find_block(cursor->index, cursor->batch, cursor->bx + i - 1, cursor->by + j - 1, cursor->bz + l - 1);
        cursor->known |= UINT32_C(1) << place;
    }
    return cursor->around[place];
}

/* In both: 4..7 is the cursor's own block, below and above are the ones beside it. */

int32_t esi_voxel_cursor_at(esi_voxel_cursor *cursor, int dx, int dy, int dz)
{
    const int px = cursor->lx + dx + 4, py = cursor->ly + dy + 4, pz = cursor->lz + dz + 4;
    const unsigned cell = ((unsigned)px & 3) << 4 | ((unsigned)py & 3) << 2 | ((unsigned)pz & 3);

    return find_cell(cursor->index, block_at(cursor, px >> 2, py >> 2, pz >> 2), cell);
}

void esi_voxel_cursor_line(esi_voxel_cursor *cursor, int dx, int dy, int32_t out[3])
{
    const int px = cursor->lx + dx + 4, py = cursor->ly + dy + 4, lz = cursor->lz;
    const unsigned line = ((unsigned)px & 3) << 4 | ((unsigned)py & 3) << 2;
    const esi_voxel_block *own = block_at(cursor, px >> 2, py >> 2, 1);

    out[0] = out[1] = out[2] = -1;
    if (own && (own->mask >> line & 15) != 0) {
        const uint64_t below = own->mask & ((UINT64_C(1) << line) - 1);
        const int32_t *row = cursor->index->rows + own->first + count_bits(below);

        for (int z = 0; z < 4; z++) {
            if (!(own->mask >> (line + (unsigned)z) & 1)) continue;
            if (z >= lz - 1 && z <= lz + 1) out[z - lz + 1] = *row;
            row++;
        }
    }
    if (lz == 0) out[0] = find_cell(cursor->index, block_at(cursor, px >> 2, py >> 2, 0), line | 3);
    if (lz == 3) out[2] = find_cell(cursor->index, block_at(cursor, px >> 2, py >> 2, 2), line);
}
