/* SPDX-License-Identifier: MIT
 *
 * pack_mask.c: see pack_mask.h.
 */
#include "mesh/pack_mask.h"

espalier_status esi_pack_mask_set(espalier_context *ctx, esi_pack_mask *m, int32_t width, int32_t height)
{
    const int64_t needed = esi_pack_mask_words(width, height);

    if (needed > m->capacity) {
        esi_free(ctx, m->words);
        m->capacity = 0;
        m->words = esi_alloc(ctx, (size_t)(needed + needed / 2), sizeof *m->words, "cells of a chart");
        if (!m->words) return ESPALIER_ERR_RESOURCE;
        m->capacity = needed + needed / 2;
    }
    m->width = width;
    m->height = height;
    m->stride = (width + 63) / 64;
    memset(m->words, 0, (size_t)needed * sizeof *m->words);
    return ESPALIER_OK;
}

void esi_pack_mask_free(espalier_context *ctx, esi_pack_mask *m)
{
    if (m->capacity > 0) esi_free(ctx, m->words);
    memset(m, 0, sizeof *m);
}

/* Bit x of row y changes places with bit y of row x: blocks of 32, 16, .. 1 across the diagonal (Warren, Hacker's Delight, 7-3). */
static void transpose(uint64_t rows[64])
{
    uint64_t low = UINT64_C(0x00000000FFFFFFFF);

    for (int half = 32; half > 0; half >>= 1, low ^= low << half) {
        for (int base = 0; base < 64; base += 2 * half) {
            for (int i = base; i < base + half; i++) {
                const uint64_t swap = ((rows[i] >> half) ^ rows[i + half]) & low;

                rows[i] ^= swap << half;
                rows[i + half] ^= swap;
            }
        }
    }
}

espalier_status esi_pack_mask_turn(espalier_context *ctx, esi_pack_mask *to, const esi_pack_mask *from)
{
    espalier_status st = esi_pack_mask_set(ctx, to, from->height, from->width);

    if (st != ESPALIER_OK) return st;
    for (int32_t y = 0; y < from->height; y += 64) {
        const int32_t rows = ESI_MIN(64, from->height - y);

        for (int32_t i = 0; i < from->stride; i++) {
            uint64_t block[64] = {0};

            for (int32_t k = 0; k < rows; k++) block[k] = from->words[(int64_t)(from->height - 1 - y - k) * from->stride + i];
            transpose(block);
            for (int32_t k = 0; k < 64 && 64 * i + k < from->width; k++) to->words[(int64_t)(64 * i + k) * to->stride + y / 64] = block[k];
        }
    }
    return ESPALIER_OK;
}

/* Cell x takes what is in x .. x + reach, of rows that end in so many zeros: runs of doubling length. */
static void smear_row(uint64_t *row, int32_t stride, int32_t reach)
{
    for (int32_t have = 1; have < reach + 1;) {
        const int32_t by = ESI_MIN(have, reach + 1 - have);

        for (int32_t i = 0; i < stride; i++) row[i] |= esi_pack_shifted_word(row, i, by, stride);
        have += by;
    }
}

espalier_status esi_pack_mask_grow(espalier_context *ctx, esi_pack_mask *to, const esi_pack_mask *from, int32_t by)
{
    espalier_status st = esi_pack_mask_set(ctx, to, from->width + 2 * by, from->height + 2 * by);
    const int32_t reach = 2 * by, stride = to->stride;

    if (st != ESPALIER_OK) return st;
    for (int32_t y = 0; y < from->height; y++) {
        uint64_t *row = to->words + (int64_t)(y + reach) * stride;

        for (int32_t i = 0; i < from->stride; i++) {
            const uint64_t word = from->words[(int64_t)y * from->stride + i];

            row[i + reach / 64] |= word << (reach % 64);
            if (reach % 64 > 0 && i + reach / 64 + 1 < stride) row[i + reach / 64 + 1] |= word >> (64 - reach % 64);
        }
        smear_row(row, stride, reach);
    }
    for (int32_t have = 1; have < reach + 1;) {
        const int32_t step = ESI_MIN(have, reach + 1 - have);

        for (int32_t y = 0; y + step < to->height; y++) {
            uint64_t *row = to->words + (int64_t)y * stride;

            for (int32_t i = 0; i < stride; i++) row[i] |= row[(int64_t)step * stride + i];
        }
        have += step;
    }
    return ESPALIER_OK;
}
