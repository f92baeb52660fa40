/* SPDX-License-Identifier: MIT
 *
 * pack_mask.h: shapes as bits.
 */
#ifndef ESI_MESH_PACK_MASK_H
#define ESI_MESH_PACK_MASK_H

#include "base/base.h"

/* Row y at words + y * stride, cell x is bit x % 64 of word x / 64; bits beyond the width are 0. */
typedef struct esi_pack_mask {
    uint64_t *words;
    int32_t width, height, stride;
    int64_t capacity;              /* words; 0: not its own */
} esi_pack_mask;

static inline int64_t esi_pack_mask_words(int32_t width, int32_t height) { return (int64_t)((width + 63) / 64) * height; }

/* That size, all 0; the memory is used again. */
espalier_status esi_pack_mask_set(espalier_context *ctx, esi_pack_mask *mask, int32_t width, int32_t height);
void esi_pack_mask_free(espalier_context *ctx, esi_pack_mask *mask);

/* A quarter turn: (x, y) goes to (height - 1 - y, x). */
espalier_status esi_pack_mask_turn(espalier_context *ctx, esi_pack_mask *to, const esi_pack_mask *from);

/* All cells at most `by` from one of the mask, in rows and columns; `by` cells larger on each side. */
espalier_status esi_pack_mask_grow(espalier_context *ctx, esi_pack_mask *to, const esi_pack_mask *from, int32_t by);

/* Word i of a row shifted to the left end by `shift` columns. */
static inline uint64_t esi_pack_shifted_word(const uint64_t *row, int32_t i, int32_t shift, int32_t stride)
{
    const int32_t at = i + (shift >> 6);
    const uint64_t low = at < stride ? row[at] : 0, high = at + 1 < stride ? row[at + 1] : 0;

    return (low >> (shift & 63)) | ((high << 1) << (63 - (shift & 63)));
}

#endif
