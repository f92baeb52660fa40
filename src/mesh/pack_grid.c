/* SPDX-License-Identifier: MIT
 *
 * pack_grid.c: see pack_grid.h.
 */
#include "mesh/pack_grid.h"

static int floor_log2(uint32_t v)
{
    int k = 0;

    while (v >>= 1) k++;
    return k;
}

static int lowest_bit(uint64_t v)
{
#if defined(__GNUC__)
    return __builtin_ctzll(v);
#else
    int k = 0;

    while (!(v & 1)) {
        v >>= 1;
        k++;
    }
    return k;
#endif
}

/* ------------------------------------------------------------ grid */

espalier_status esi_pack_grid_new(espalier_context *ctx, esi_pack_grid *out, int32_t size, int32_t longest)
{
    size_t plane, summary;

    memset(out, 0, sizeof *out);
    out->size = size;
    out->stride = size / 64 + 3;               /* room to read 64 bits from any column of a shape inside */
    out->summary_stride = (out->stride + 63) / 64;
    out->all_levels = floor_log2((uint32_t)ESI_MAX(longest, 1)) + 1;
    plane = (size_t)out->all_levels * (size_t)size * (size_t)out->stride;      /* size <= 16384: far from overflow */
    summary = (size_t)out->all_levels * (size_t)size * (size_t)out->summary_stride;
    out->memory = esi_alloc(ctx, 2 * plane + 1, sizeof *out->memory, "packing grid");        /* one in front: read, but of no matter */
    out->summary = esi_alloc(ctx, summary, sizeof *out->summary, "packing grid");
    if (!out->memory || !out->summary) {
        esi_pack_grid_free(ctx, out);
        return ESPALIER_ERR_RESOURCE;
    }
    out->runs = out->memory + 1;
    out->squares = out->runs + plane;
    esi_pack_grid_clear(out);
    return ESPALIER_OK;
}

void esi_pack_grid_clear(esi_pack_grid *g)
{
    const size_t rows = (size_t)g->all_levels * (size_t)g->size;

    g->levels = g->all_levels;
    memset(g->memory, 0, (2 * rows * (size_t)g->stride + 1) * sizeof *g->memory);
    memset(g->summary, 0xff, rows * (size_t)g->summary_stride * sizeof *g->summary);
}

void esi_pack_grid_free(espalier_context *ctx, esi_pack_grid *g)
{
    esi_free(ctx, g->memory);
    esi_free(ctx, g->summary);
    memset(g, 0, sizeof *g);
}

static uint64_t *grid_row(const esi_pack_grid *g, uint64_t *plane, int32_t level, int32_t y)
{
    return plane + ((int64_t)level * g->size + y) * g->stride;
}

static void summarise(esi_pack_grid *g, int32_t level, int32_t y, int32_t first, int32_t last)
{
    const uint64_t *row = grid_row(g, g->squares, level, y);
    uint64_t *summary = g->summary + ((int64_t)level * g->size + y) * g->summary_stride;

    for (int32_t i = first; i <= last; i++) {
        if (row[i] == UINT64_MAX) summary[i >> 6] &= ~(UINT64_C(1) << (i & 63));
    }
}

/* Levels above 0 where cells of columns [x_begin, x_end) and rows [y_begin, y_end) were taken. */
static void update_levels(esi_pack_grid *g, int32_t x_begin, int32_t x_end, int32_t y_begin, int32_t y_end)
{
    const int32_t last = (x_end - 1) >> 6, stride = g->stride;

    for (int32_t k = 1; k < g->levels; k++) {
        const int32_t half = 1 << (k - 1), first = ESI_MAX(x_begin - 2 * half + 1, 0) >> 6;

        for (int32_t y = y_begin; y < y_end; y++) {
            const uint64_t *from = grid_row(g, g->runs, k - 1, y);
            uint64_t *to = grid_row(g, g->runs, k, y);

            for (int32_t i = first; i <= last; i++) to[i] = from[i] | esi_pack_shifted_word(from, i, half, stride);
        }
        for (int32_t y = ESI_MAX(y_begin - 2 * half + 1, 0); y < y_end; y++) {
            const uint64_t *from = grid_row(g, g->squares, k - 1, y), *below = from + (int64_t)half * stride;
            uint64_t *to = grid_row(g, g->squares, k, y);

            for (int32_t i = first; i <= last; i++) to[i] = from[i] | esi_pack_shifted_word(from, i, half, stride);
            for (int32_t i = first; i <= last && y + half < g->size; i++) to[i] |= below[i] | esi_pack_shifted_word(below, i, half, stride);
            summarise(g, k, y, first, last);
        }
    }
}

void esi_pack_grid_take(esi_pack_grid *g, const esi_pack_mask *mask, int32_t x, int32_t y, int32_t levels)
{
    const int32_t y_begin = ESI_MAX(y, 0), y_end = ESI_MIN(y + mask->height, g->size);
    const int32_t x_begin = ESI_MAX(x, 0), x_end = ESI_MIN(x + mask->width, g->size);
    const int32_t words = (mask->width + 63) / 64;

    if (x_begin >= x_end || y_begin >= y_end) return;
    for (int32_t row = y_begin; row < y_end; row++) {
        const uint64_t *from = mask->words + (int64_t)(row - y) * mask->stride;
        uint64_t *run = grid_row(g, g->runs, 0, row), *square = grid_row(g, g->squares, 0, row);

        for (int32_t i = 0; i < words; i++) {
            const int32_t at = x + 64 * i, word = at >= 0 ? at >> 6 : -((63 - at) >> 6), bits = at - 64 * word;

            if (word >= 0 && word < g->stride) run[word] |= from[i] << bits;
            if (bits && word + 1 >= 0 && word + 1 < g->stride) run[word + 1] |= from[i] >> (64 - bits);
        }
        for (int32_t i = x_begin >> 6; i <= (x_end - 1) >> 6; i++) square[i] = run[i];
        summarise(g, 0, row, x_begin >> 6, (x_end - 1) >> 6);
    }
    g->levels = ESI_MIN(g->levels, levels);
    update_levels(g, x_begin, x_end, y_begin, y_end);
}

/* ------------------------------------------------------------ shapes */

static espalier_status add_run(espalier_context *ctx, esi_pack_shape *s, int32_t row, int32_t begin, int32_t end)
{
    const int level = floor_log2((uint32_t)(end - begin));

    if (s->n_runs == s->cap_runs) {
        const int64_t cap = 2 * s->cap_runs + 64;
        esi_pack_run *runs = esi_realloc(ctx, s->runs, (size_t)cap, sizeof *runs, "rows of a chart");

        if (!runs) return ESPALIER_ERR_RESOURCE;
        s->runs = runs;
        s->cap_runs = cap;
    }
    s->runs[s->n_runs++] = (esi_pack_run){row, level, begin, end - (1 << level)};
    return ESPALIER_OK;
}

static espalier_status add_row(espalier_context *ctx, esi_pack_shape *s, const esi_pack_mask *m, int32_t row)
{
    const uint64_t *words = m->words + (int64_t)row * m->stride;
    int32_t begin = -1;
    uint64_t previous = 0;                     /* last bit of the word before */

    for (int32_t i = 0; i <= m->width / 64; i++) {
        const uint64_t w = 64 * i < m->width ? words[i] : 0;
        uint64_t changes = w ^ ((w << 1) | previous);

        for (; changes; changes &= changes - 1) {
            const int32_t at = 64 * i + lowest_bit(changes);

            if (begin < 0) {
                begin = at;
            } else {
                espalier_status st = add_run(ctx, s, row, begin, at);

                if (st != ESPALIER_OK) return st;
                begin = -1;
            }
        }
        previous = w >> 63;
    }
    return begin < 0 ? ESPALIER_OK : add_run(ctx, s, row, begin, m->width);
}

/* Rows in an order where early ones are far apart: what one leaves free, its neighbours would mostly leave free too. */
static int32_t spread(int32_t i, int bits)
{
    int32_t r = 0;

    for (int b = 0; b < bits; b++) r |= ((i >> b) & 1) << (bits - 1 - b);
    return r;
}

/* Squares from squares of half the side: a bit stays where all four are. */
espalier_status esi_pack_shape_square(espalier_context *ctx, esi_pack_shape *s, const esi_pack_mask *mask, esi_pack_square *square)
{
    espalier_status st = esi_pack_mask_set(ctx, &s->scratch, mask->width, mask->height);
    const esi_pack_mask *m = &s->scratch;

    if (st != ESPALIER_OK) return st;
    for (int32_t y = 0; y < m->height; y++) {
        memcpy(m->words + (int64_t)y * m->stride, mask->words + (int64_t)y * mask->stride, (size_t)m->stride * sizeof *m->words);
    }
    *square = (esi_pack_square){-1, 0, 0};
    for (int k = 0; (1 << k) <= ESI_MIN(m->width, m->height); k++) {
        const int32_t half = (1 << k) / 2;
        bool found = false;

        for (int32_t y = 0; y + (1 << k) <= m->height; y++) {
            uint64_t *row = m->words + (int64_t)y * m->stride;
            const uint64_t *below = row + (int64_t)half * m->stride;

            for (int32_t i = 0; i < m->stride; i++) {
                if (k > 0) {
                    row[i] &= esi_pack_shifted_word(row, i, half, m->stride) & below[i] & esi_pack_shifted_word(below, i, half, m->stride);
                }
                if (row[i] == 0 || found) continue;
                found = true;
                *square = (esi_pack_square){k, 64 * i + lowest_bit(row[i]), y};
            }
        }
        if (!found) break;
    }
    return ESPALIER_OK;
}

esi_pack_square esi_pack_square_turn(esi_pack_square s, const esi_pack_mask *before)
{
    return s.level < 0 ? s : (esi_pack_square){s.level, before->height - s.y - (1 << s.level), s.x};
}

espalier_status esi_pack_shape_set(espalier_context *ctx, esi_pack_shape *s, const esi_pack_mask *m, esi_pack_square square)
{
    const int bits = m->height > 1 ? floor_log2((uint32_t)m->height - 1) + 1 : 0;
    espalier_status st;

    s->width = m->width;
    s->height = m->height;
    s->square = square;
    s->n_runs = 0;
    for (int32_t i = 0; i < 1 << bits; i++) {
        const int32_t row = spread(i, bits);

        if (row < m->height && (st = add_row(ctx, s, m, row)) != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

void esi_pack_shape_free(espalier_context *ctx, esi_pack_shape *s)
{
    esi_free(ctx, s->runs);
    esi_pack_mask_free(ctx, &s->scratch);
    memset(s, 0, sizeof *s);
}

/* ------------------------------------------------------------ search */

/* Places x .. x + 63 of row y (x may be negative where `taken` says so) at which something is in the way. */
static uint64_t test_runs(const esi_pack_grid *g, const esi_pack_shape *s, int32_t x, int32_t y, uint64_t taken, uint64_t *work)
{
    int64_t i = 0;

    for (; i < s->n_runs && taken != UINT64_MAX; i++) {
        const esi_pack_run *r = &s->runs[i];
        const uint64_t *row = g->runs + ((int64_t)r->level * g->size + y + r->row) * g->stride - 1;

        taken |= esi_pack_bits(row, x + 64 + r->first) | esi_pack_bits(row, x + 64 + r->second);
    }
    *work += (uint64_t)i + 1;
    return taken;
}

/* Word i of the square's row stands for places 64 i - square_x and on. Columns before 0 and after `last` are taken. */
static bool find_in_word(const esi_pack_grid *g, const esi_pack_shape *s, int32_t i, int32_t y, int32_t last, int32_t *x, uint64_t *work)
{
    const int32_t begin = 64 * i - s->square.x;
    uint64_t taken = g->squares[((int64_t)s->square.level * g->size + y + s->square.y) * g->stride + i];

    if (begin < 0) taken |= UINT64_MAX >> (64 + begin);
    if (last - begin < 63) taken |= UINT64_MAX << (last - begin + 1);
    if (taken == UINT64_MAX) return false;
    taken = test_runs(g, s, begin, y, taken, work);
    if (taken == UINT64_MAX) return false;
    *x = begin + lowest_bit(~taken);
    return true;
}

bool esi_pack_grid_find(const esi_pack_grid *g, const esi_pack_shape *s, int32_t y_begin, int32_t y_end, int32_t *x, int32_t *y,
                        uint64_t *work)
{
    const int32_t last = g->size - s->width, first_word = s->square.x >> 6, last_word = (last + s->square.x) >> 6;

    if (last < 0) return false;
    y_end = ESI_MIN(y_end, g->size - s->height);
    for (int32_t j = ESI_MAX(y_begin, 0); j <= y_end; j++) {
        const uint64_t *summary = g->summary + ((int64_t)s->square.level * g->size + j + s->square.y) * g->summary_stride;

        for (int32_t k = first_word >> 6; k <= last_word >> 6; k++) {
            uint64_t open = summary[k];

            if (k == first_word >> 6) open &= UINT64_MAX << (first_word & 63);
            if (k == last_word >> 6) open &= UINT64_MAX >> (63 - (last_word & 63));
            for (; open; open &= open - 1) {
                *y = j;
                if (find_in_word(g, s, 64 * k + lowest_bit(open), j, last, x, work)) return true;
            }
        }
    }
    return false;
}
