/* SPDX-License-Identifier: MIT
 *
 * pack_grid.c: see pack_grid.h.
 */
#include "mesh/pack_grid.h"

static int floor_log2(uint32_t v)
{
#if defined(__GNUC__)
    return 31 - __builtin_clz(v);
#else
    int k = 0;

    while (v >>= 1) k++;
    return k;
#endif
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

    for (int32_t i = first; i <= last; i++) summary[i >> 6] &= ~((uint64_t)(row[i] == UINT64_MAX) << (i & 63));
}

typedef struct row_span { int32_t first, last, stride; } row_span;

/* Words of a row: each bit joined with the one `half` columns further right, and with what is there already as far as `keep` says. */
static void join_right(uint64_t *to, const uint64_t *from, const row_span *words, int32_t half, uint64_t keep)
{
    const int32_t last = words->last;

    if (half < 64) {                           /* rows end in free words */
        for (int32_t i = words->first; i <= last; i++) to[i] = (to[i] & keep) | from[i] | (from[i] >> half) | (from[i + 1] << (64 - half));
    } else {
        for (int32_t i = words->first; i <= last; i++) {
            to[i] = (to[i] & keep) | from[i] | esi_pack_shifted_word(from, i, half, words->stride);
        }
    }
}

/* Levels above 0 where cells of columns [x_begin, x_end) and rows [y_begin, y_end) were taken. */
static void update_levels(esi_pack_grid *g, int32_t x_begin, int32_t x_end, int32_t y_begin, int32_t y_end)
{
    const int32_t stride = g->stride;

    for (int32_t k = 1; k < g->levels; k++) {
        const int32_t half = 1 << (k - 1), y_first = ESI_MAX(y_begin - 2 * half + 1, 0), y_middle = ESI_MAX(y_end - half, y_first);
        const row_span words = {ESI_MAX(x_begin - 2 * half + 1, 0) >> 6, (x_end - 1) >> 6, stride};
        const uint64_t *from = grid_row(g, g->squares, k - 1, 0);
        uint64_t *to = grid_row(g, g->squares, k, 0);

        for (int32_t y = y_begin; y < y_end; y++) {
            join_right(grid_row(g, g->runs, k, y), grid_row(g, g->runs, k - 1, y), &words, half, 0);
        }
        for (int32_t y = y_first; y < y_end; y++) join_right(to + (int64_t)y * stride, from + (int64_t)y * stride, &words, half, 0);
        for (int32_t y = y_first; y < y_middle; y++) {     /* the row below is joined to the right, not down yet */
            uint64_t *row = to + (int64_t)y * stride;

            for (int32_t i = words.first; i <= words.last; i++) row[i] |= row[(int64_t)half * stride + i];
        }
        for (int32_t y = y_middle; y < y_end && y + half < g->size; y++) {
            join_right(to + (int64_t)y * stride, from + (int64_t)(y + half) * stride, &words, half, UINT64_MAX);
        }
        for (int32_t y = y_first; y < y_end; y++) summarise(g, k, y, words.first, words.last);
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

static espalier_status reserve_runs(espalier_context *ctx, esi_pack_shape *s, int64_t more)
{
    const int64_t cap = 2 * s->n_runs + more + 64;
    esi_pack_run *runs;

    if (s->n_runs + more <= s->cap_runs) return ESPALIER_OK;
    runs = esi_realloc(ctx, s->runs, (size_t)cap, sizeof *runs, "rows of a chart");
    if (!runs) return ESPALIER_ERR_RESOURCE;
    s->runs = runs;
    s->cap_runs = cap;
    return ESPALIER_OK;
}

static void add_run(esi_pack_shape *s, const esi_pack_grid *g, int32_t row, int32_t begin, int32_t end)
{
    const int level = floor_log2((uint32_t)(end - begin));
    const int32_t first = 64 + begin - s->square.x, second = 64 + end - (1 << level) - s->square.x;
    const int32_t start = (level * g->size + row) * g->stride - 1;

    s->runs[s->n_runs++] = (esi_pack_run){{start + (first >> 6), start + (second >> 6)}, {first & 63, second & 63}};
}

static void add_row(esi_pack_shape *s, const esi_pack_grid *g, const esi_pack_mask *m, int32_t row)
{
    const uint64_t *words = m->words + (int64_t)row * m->stride;
    int32_t begin = -1;
    uint64_t previous = 0;                     /* last bit of the word before */

    for (int32_t i = 0; i < m->stride; i++) {
        for (uint64_t changes = words[i] ^ ((words[i] << 1) | previous); changes; changes &= changes - 1) {
            const int32_t at = 64 * i + lowest_bit(changes);

            if (begin >= 0) add_run(s, g, row, begin, at);
            begin = begin < 0 ? at : -1;
        }
        previous = words[i] >> 63;
    }
    if (begin >= 0) add_run(s, g, row, begin, m->width);
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

/* Rows an odd distance of about 0.62 heights apart: what one leaves free, its neighbours would mostly leave free too. */
espalier_status esi_pack_shape_set(espalier_context *ctx, esi_pack_shape *s, const esi_pack_grid *g, const esi_pack_mask *m,
                                   esi_pack_square square)
{
    const int32_t bits = m->height > 1 ? floor_log2((uint32_t)m->height - 1) + 1 : 0, all = 1 << bits;
    const int32_t step = (int32_t)(0.618 * all) | 1;
    espalier_status st;

    s->width = m->width;
    s->height = m->height;
    s->square = square;
    s->n_runs = 0;
    for (int32_t i = 0, row = 0; i < all; i++, row = (row + step) & (all - 1)) {
        if (row >= m->height) continue;
        if ((st = reserve_runs(ctx, s, m->width / 2 + 1)) != ESPALIER_OK) return st;
        add_row(s, g, m, row);
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

static uint64_t bits_at(const uint64_t *words, int32_t offset, int32_t shift)
{
    return (words[offset] >> shift) | ((words[offset + 1] << 1) << (63 - shift));
}

/* Which of 64 places are taken; `words` is where the first place would have the shape's square, in level 0 of the runs. The run that takes
 * the last free place is likely to do so in the next row too: it is asked earlier from now on. */
static uint64_t test_runs(const uint64_t *words, esi_pack_shape *s, uint64_t taken, uint64_t *work)
{
    int64_t i = 0;

    for (; i < s->n_runs && taken != UINT64_MAX; i++) {
        const esi_pack_run *r = &s->runs[i];

        taken |= bits_at(words, r->offset[0], r->shift[0]) | bits_at(words, r->offset[1], r->shift[1]);
    }
    *work += (uint64_t)i + 1;
    if (taken == UINT64_MAX && i > 1) {
        const esi_pack_run last = s->runs[i - 1];

        s->runs[i - 1] = s->runs[(i - 1) / 4];
        s->runs[(i - 1) / 4] = last;
    }
    return taken;
}

/* Word i of the square's row stands for places 64 i - square.x and on. Columns before 0 and after `last` are taken. */
static bool find_in_row(const esi_pack_grid *g, esi_pack_shape *s, int32_t y, int32_t *x, uint64_t *work)
{
    const int32_t first = s->square.x, last = g->size - s->width + s->square.x;        /* of the square, for first and last place */
    const int64_t row = (int64_t)s->square.level * g->size + y + s->square.y;
    const uint64_t *summary = g->summary + row * g->summary_stride, *squares = g->squares + row * g->stride;

    for (int32_t k = first >> 12; k <= last >> 12; k++) {
        for (uint64_t open = summary[k]; open; open &= open - 1) {
            const int32_t i = 64 * k + lowest_bit(open);
            uint64_t taken = squares[i];

            if (i < first >> 6) continue;
            if (i > last >> 6) break;
            if (i == first >> 6) taken |= ~(UINT64_MAX << (first & 63));
            if (i == last >> 6) taken |= (UINT64_MAX << (last & 63)) << 1;
            if (taken == UINT64_MAX) continue;
            taken = test_runs(g->runs + (int64_t)y * g->stride + i, s, taken, work);
            if (taken == UINT64_MAX) continue;
            *x = 64 * i - first + lowest_bit(~taken);
            return true;
        }
    }
    return false;
}

bool esi_pack_grid_find(const esi_pack_grid *g, esi_pack_shape *s, int32_t y_begin, int32_t y_end, int32_t *x, int32_t *y, uint64_t *work)
{
    if (s->width > g->size) return false;
    y_end = ESI_MIN(y_end, g->size - s->height);
    for (*y = ESI_MAX(y_begin, 0); *y <= y_end; ++*y) {
        if (find_in_row(g, s, *y, x, work)) return true;
    }
    return false;
}
