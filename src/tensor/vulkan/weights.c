/* SPDX-License-Identifier: MIT
 *
 * weights.c: weights on the device. A matrix lies there as it is stored in the file, unexpanded (shaders/weights.glsl), cut by rows into
 * pieces that fit one binding and one allocation; a vector (bias, gamma) lies there as fp32, expanded by the same code as the CPU's. Both
 * stay for the next time they are wanted. When device memory runs short, the piece that was not used for the longest time goes; commands
 * run in order, so a piece may go as soon as the commands that read it are recorded.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <stdio.h>

#define VECTOR_MOST (INT64_C(1) << 20)      /* elements of a weight that is kept expanded */
#define PIECE_MOST (UINT64_C(64) << 20)

struct esi_vk_weight {
    esi_vk_piece vector;
    esi_vk_piece *pieces;                   /* NULL: not wanted as a matrix so far */
    size_t n_pieces;
    uint64_t piece_bytes;
    bool scanned, finite;
};

static esi_vk_weight *of(const struct esi_buffer *b) { return ((esi_vk_tensor *)b->device)->weight; }

/* ---------------------------------------------------------------- residence */

static void unlink_piece(esi_vk_device *d, esi_vk_piece *p)
{
    if (p->older) p->older->newer = p->newer;
    else d->oldest = p->newer;
    if (p->newer) p->newer->older = p->older;
    else d->newest = p->older;
    p->older = p->newer = NULL;
}

static void link_newest(esi_vk_device *d, esi_vk_piece *p)
{
    p->used = d->calls;
    p->older = d->newest;
    p->newer = NULL;
    if (d->newest) d->newest->newer = p;
    else d->oldest = p;
    d->newest = p;
}

static void drop(esi_vk_device *d, esi_vk_piece *p)
{
    if (!p->range.block) return;
    unlink_piece(d, p);
    d->weight_bytes -= p->range.size;
    esi_vk_range_free(d, &p->range);
    p->filled = false;
}

bool esi_vk_weights_evict(esi_vk_device *d, uint64_t bytes)
{
    uint64_t before = d->weight_bytes;

    while (d->oldest && d->oldest->used != d->calls && before - d->weight_bytes < bytes) drop(d, d->oldest);
    return d->weight_bytes < before;
}

/* Room for a piece, at the end of the queue of those that may go. Weights leave room for tensors; a device that shares the host's memory
 * has the mapped files in it as well. */
static espalier_status place(espalier_context *ctx, esi_vk_device *d, esi_vk_piece *p, uint64_t bytes)
{
    uint64_t most = strcmp(d->info.type, "cpu") == 0 ? d->info.memory / 4 : d->info.memory / 4 * 3;
    espalier_status st;

    if (p->range.block) {
        unlink_piece(d, p);
        link_newest(d, p);
        return ESPALIER_OK;
    }
    if (d->weight_bytes + bytes > most) esi_vk_weights_evict(d, d->weight_bytes + bytes - most);
    st = esi_vk_range_new(ctx, d, &p->range, bytes, "a weight");
    if (st != ESPALIER_OK) return st;
    d->weight_bytes += p->range.size;
    p->filled = false;
    link_newest(d, p);
    return ESPALIER_OK;
}

espalier_status esi_vk_weight_new(espalier_context *ctx, struct esi_buffer *b)
{
    esi_vk_weight *w = esi_raw_alloc(&esi_vk_of(ctx)->allocator, sizeof *w);

    if (!w) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "tensor: out of memory");
    memset(w, 0, sizeof *w);
    ((esi_vk_tensor *)b->device)->weight = w;
    return ESPALIER_OK;
}

void esi_vk_weight_free(esi_vk_device *d, struct esi_buffer *b)
{
    esi_vk_weight *w = of(b);

    if (!w) return;
    drop(d, &w->vector);
    for (size_t i = 0; i < w->n_pieces; i++) drop(d, &w->pieces[i]);
    esi_raw_free(&d->allocator, w->pieces, w->n_pieces * sizeof *w->pieces);
    esi_raw_free(&d->allocator, w, sizeof *w);
    ((esi_vk_tensor *)b->device)->weight = NULL;
}

/* ------------------------------------------------------------------ vectors */

bool esi_vk_vector_placeable(const esi_vk_device *d, esi_tensor t)
{
    const struct esi_buffer *b = t.buffer;
    return b->cols == 0 || (b->rows <= VECTOR_MOST / b->cols && esi_vk_fits(d, (uint64_t)b->rows * (uint64_t)b->cols * 4));
}

espalier_status esi_vk_vector_input(espalier_context *ctx, esi_vk_device *d, esi_tensor t)
{
    struct esi_buffer *b = t.buffer;
    esi_vk_piece *p = &of(b)->vector;
    size_t n = (size_t)(b->rows * b->cols);
    espalier_status st = place(ctx, d, p, n * sizeof(float));
    float *values;

    if (st != ESPALIER_OK || p->filled) return st;
    values = esi_alloc(ctx, n, sizeof *values, "weight");
    if (values) {
        esi_cpu_table(ctx)->expand(values, b->weight, t.dtype, 0, n);
        st = esi_vk_upload(ctx, d, &p->range, 0, values, n * sizeof *values);
    } else {
        st = ctx->error_status;
    }
    esi_free(ctx, values);
    if (st == ESPALIER_OK) p->filled = true;
    else drop(d, p);
    return st;
}

const esi_vk_range *esi_vk_vector_range(esi_tensor t) { return &of(t.buffer)->vector.range; }

uint64_t esi_vk_vector_offset(esi_tensor t)
{
    switch (t.dtype) {
    case ESI_F16:
    case ESI_BF16: return t.offset * 2;
    case ESI_Q8_0: return t.offset / 34 * 32 * 4;
    default: return t.offset;
    }
}

/* ----------------------------------------------------------------- matrices */

/* Bytes of a piece: whole rows of the weight as it was made; 0 = not even one fits. */
static uint64_t piece_bytes(const esi_vk_device *d, const struct esi_buffer *b)
{
    uint64_t row = b->rows > 0 ? b->size / (uint64_t)b->rows : 0;
    uint64_t most = ESI_MIN(ESI_MIN(d->info.max_range - d->alignment, d->info.max_allocation / 256 * 256), PIECE_MOST);

    return row == 0 || row > most ? 0 : most / row * row;
}

static uint64_t row_bytes(esi_tensor t, int64_t elements)
{
    size_t bytes = 0;
    return esi_dtype_row_bytes(t.dtype, elements, &bytes) ? bytes : 0;
}

int64_t esi_vk_matrix_rows(const esi_vk_device *d, esi_tensor t)
{
    uint64_t piece = piece_bytes(d, t.buffer), row = row_bytes(t, t.cols), stride = row_bytes(t, t.stride), rest;

    if (piece == 0 || row == 0) return 0;
    rest = piece - t.offset % piece;
    if (row > rest) return 0;
    return (int64_t)ESI_MIN((uint64_t)t.rows, stride > 0 ? 1 + (rest - row) / stride : (uint64_t)t.rows);
}

static espalier_status cut_into_pieces(espalier_context *ctx, esi_vk_device *d, const struct esi_buffer *b)
{
    esi_vk_weight *w = of(b);

    if (w->pieces) return ESPALIER_OK;
    w->piece_bytes = piece_bytes(d, b);
    w->n_pieces = (size_t)((b->size + w->piece_bytes - 1) / w->piece_bytes);
    w->pieces = esi_raw_alloc(&d->allocator, w->n_pieces * sizeof *w->pieces);
    if (!w->pieces) {
        w->n_pieces = 0;
        return esi_vk_fail_memory(ctx, d, "a weight");
    }
    memset(w->pieces, 0, w->n_pieces * sizeof *w->pieces);
    return ESPALIER_OK;
}

static espalier_status place_matrix(espalier_context *ctx, esi_vk_device *d, esi_tensor t, esi_vk_piece **piece, uint64_t *first,
                                    uint64_t *bytes)
{
    const struct esi_buffer *b = t.buffer;
    esi_vk_weight *w = of(b);
    espalier_status st = cut_into_pieces(ctx, d, b);

    if (st != ESPALIER_OK) return st;
    *piece = &w->pieces[t.offset / w->piece_bytes];
    *first = t.offset / w->piece_bytes * w->piece_bytes;
    *bytes = ESI_MIN(b->size - *first, w->piece_bytes);
    return place(ctx, d, *piece, *bytes);
}

bool esi_vk_matrix_reserve(esi_vk_device *d, esi_tensor t)
{
    esi_vk_piece *piece;
    uint64_t first, bytes;
    return place_matrix(NULL, d, t, &piece, &first, &bytes) == ESPALIER_OK;
}

/* Straight from the caller's bytes, which may begin anywhere; what the device gets begins at a multiple of 256, ends with a whole word. */
espalier_status esi_vk_matrix_input(espalier_context *ctx, esi_vk_device *d, esi_tensor t)
{
    const uint8_t *data = t.buffer->weight;
    uint8_t last[4] = {0};
    uint64_t first, bytes, even;
    esi_vk_piece *p;
    espalier_status st = place_matrix(ctx, d, t, &p, &first, &bytes);

    if (st != ESPALIER_OK || p->filled) return st;
    even = bytes / 4 * 4;
    memcpy(last, data + first + even, bytes - even);
    st = esi_vk_upload(ctx, d, &p->range, 0, data + first, even);
    if (st == ESPALIER_OK && even < bytes) st = esi_vk_upload(ctx, d, &p->range, even, last, sizeof last);
    if (st == ESPALIER_OK) p->filled = true;
    else drop(d, p);
    return st;
}

void esi_vk_matrix_bind(esi_tensor t, esi_vk_binding *binding, uint32_t *how)
{
    const esi_vk_weight *w = of(t.buffer);
    uint64_t start = t.offset % w->piece_bytes, end = start + row_bytes(t, t.cols);

    if (t.rows > 1) end += (uint64_t)(t.rows - 1) * row_bytes(t, t.stride);
    *binding = (esi_vk_binding){&w->pieces[t.offset / w->piece_bytes].range, start / 4 * 4, (end + 3) / 4 * 4 - start / 4 * 4};
    *how = (uint32_t)(start % 4 / 2) | (uint32_t)t.dtype << 1;
}

/* --------------------------------------------------------- infinities, NaN */

static bool all_finite(const uint8_t *p, uint64_t bytes, esi_dtype dtype)
{
    const uint64_t step = dtype == ESI_F32 ? 4 : dtype == ESI_Q8_0 ? 34 : 2;
    const uint16_t mask = dtype == ESI_F16 || dtype == ESI_Q8_0 ? 0x7c00 : 0x7f80;
    bool finite = true;

    for (uint64_t i = dtype == ESI_F32 ? 2 : 0; i + 1 < bytes; i += step) {
        uint16_t half;                      /* the upper half of an fp32 number has its exponent */
        memcpy(&half, p + i, sizeof half);
        finite = finite && (half & mask) != mask;
    }
    return finite;
}

bool esi_vk_matrix_is_finite(esi_tensor t)
{
    esi_vk_weight *w = of(t.buffer);

    if (!w->scanned) w->finite = all_finite(t.buffer->weight, t.buffer->size, t.dtype);
    w->scanned = true;
    return w->finite;
}
