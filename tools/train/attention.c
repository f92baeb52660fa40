/* SPDX-License-Identifier: MIT
 *
 * attention.c: attention of the training step, one item and head at a time. The forward pass keeps only the logarithm of each row's sum;
 * the backward pass makes the probabilities again, a tile of 16 queries by 64 keys at a time, so that nothing as large as the scores is
 * ever stored (the idea of FlashAttention, Dao et al. 2022).
 */
#include "kernels.h"
#include "lanes.h"

#include <stdlib.h>

enum { WIDTH = 32, ROWS = 8, TILE = 16, CHUNK = 64 };

static int64_t round_up(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

/* Sixteen-lane arrays carved from one block. */
typedef struct arena { char *block; size_t used; } arena;

static void *carve(arena *from, int64_t count, size_t size)
{
    void *at = from->block ? from->block + from->used : NULL;
    from->used += ((size_t)count * size + 63) / 64 * 64;
    return at;
}

/* One head of one row as attention sees it: unit length times gain * sqrt(width), turned, scaled. Returns 1 / length. */
static float prepare(const float *x, const float *gain, const float *turn, int64_t width, float scale, float y[WIDTH])
{
    float square = 0;
    for (int64_t c = 0; c < width; c++)
        square += x[c] * x[c];
    const float inverse = 1 / fmaxf(sqrtf(square), 1e-12f), root = sqrtf((float)width) * scale;
    for (int64_t c = 0; c < width; c++)
        y[c] = x[c] * inverse * gain[c] * root;
    for (int64_t c = width; c < WIDTH; c++)
        y[c] = 0;
    for (int64_t c = 0; turn && c < width; c += 2) {
        const float even = y[c], odd = y[c + 1];
        y[c] = even * turn[c] - odd * turn[c + 1];
        y[c + 1] = even * turn[c + 1] + odd * turn[c];
    }
    return inverse;
}

/* The gradient of prepare()'s x from that of its y, which is used up. */
static void prepare_backward(const float *x, const float *gain, const float *turn, int64_t width, float scale, float grad[WIDTH],
                             float *grad_x, float *grad_gain)
{
    float square = 0, along = 0;
    for (int64_t c = 0; c < width; c++)
        square += x[c] * x[c];
    const float inverse = 1 / fmaxf(sqrtf(square), 1e-12f), root = sqrtf((float)width) * scale;
    for (int64_t c = 0; turn && c < width; c += 2) {
        const float even = grad[c], odd = grad[c + 1];
        grad[c] = even * turn[c] + odd * turn[c + 1];
        grad[c + 1] = odd * turn[c] - even * turn[c + 1];
    }
    for (int64_t c = 0; c < width; c++) {
        grad_gain[c] += grad[c] * root * x[c] * inverse;
        grad[c] *= root * gain[c];
        along += grad[c] * x[c] * inverse;
    }
    for (int64_t c = 0; c < width; c++)
        grad_x[c] = (grad[c] - x[c] * inverse * along) * inverse;
}

/* Rows of WIDTH floats into three layouts of pairs, each of which may be NULL: by_channel [width / 2][padded] (lanes are rows), by_row
 * [row][WIDTH / 2] (to broadcast from), across [row / 2][WIDTH] (pairs of rows). */
typedef struct layouts { uint32_t *by_channel, *by_row, *across; int64_t padded; } layouts;

static void scatter_rows(const layouts *to, int64_t row, const float a[WIDTH], const float b[WIDTH])
{
    uint32_t pairs[2][WIDTH / 2];
    pack_along(pairs[0], lanes_load(a), lanes_load(a + LANES));
    pack_along(pairs[1], lanes_load(b), lanes_load(b + LANES));
    if (to->by_row)
        memcpy(to->by_row + row * (WIDTH / 2), pairs, sizeof pairs);
    for (int c = 0; to->by_channel && c < WIDTH / 2; c++) {
        to->by_channel[c * to->padded + row] = pairs[0][c];
        to->by_channel[c * to->padded + row + 1] = pairs[1][c];
    }
    if (to->across) {
        pack_across(to->across + row / 2 * WIDTH, lanes_load(a), lanes_load(b));
        pack_across(to->across + row / 2 * WIDTH + LANES, lanes_load(a + LANES), lanes_load(b + LANES));
    }
}

/* What one item and head need. Rows beyond the counts are zero. */
typedef struct head {
    const attention *a;
    int64_t number, first_query, first_key, queries, keys, query_pad, key_pad;
    const float *query, *key, *value; /* the head's first value of the item's first row */
} head;

static head head_of(const attention *a, int64_t item, int64_t number)
{
    head h = { a, number, a->query_begin[item], a->key_begin[item], 0, 0, 0, 0, NULL, NULL, NULL };
    h.queries = a->query_begin[item + 1] - h.first_query;
    h.keys = a->key_begin[item + 1] - h.first_key;
    h.query_pad = round_up(h.queries, TILE);
    h.key_pad = round_up(h.keys, TILE);
    h.query = a->query + h.first_query * a->query_stride + number * a->width;
    h.key = a->key + h.first_key * a->key_stride + number * a->width;
    h.value = a->value + h.first_key * a->key_stride + number * a->width;
    return h;
}

static const float *turn_of(const float *turns, int64_t row, int64_t width) { return turns ? turns + row * width : NULL; }

static void load_query(const head *h, int64_t row, float y[WIDTH])
{
    const attention *a = h->a;
    if (row < h->queries)
        prepare(h->query + row * a->query_stride, a->query_gain + h->number * a->width,
                turn_of(a->query_turn, h->first_query + row, a->width), a->width, 1 / sqrtf((float)a->width), y);
    else
        memset(y, 0, WIDTH * sizeof *y);
}

static void load_key(const head *h, int64_t row, float y[WIDTH])
{
    const attention *a = h->a;
    if (row < h->keys)
        prepare(h->key + row * a->key_stride, a->key_gain + h->number * a->width, turn_of(a->key_turn, h->first_key + row, a->width),
                a->width, 1, y);
    else
        memset(y, 0, WIDTH * sizeof *y);
}

static void load_plain(const float *from, int64_t stride, int64_t row, int64_t rows, int64_t width, float y[WIDTH])
{
    memset(y, 0, WIDTH * sizeof *y);
    if (row < rows)
        memcpy(y, from + row * stride, (size_t)width * sizeof *y);
}

static void pack_queries(const head *h, const layouts *to)
{
    float a[WIDTH], b[WIDTH];
    for (int64_t row = 0; row < h->query_pad; row += 2) {
        load_query(h, row, a);
        load_query(h, row + 1, b);
        scatter_rows(to, row, a, b);
    }
}

static void pack_keys(const head *h, const layouts *keys, const layouts *values)
{
    float a[WIDTH], b[WIDTH];
    for (int64_t row = 0; row < h->key_pad; row += 2) {
        load_key(h, row, a);
        load_key(h, row + 1, b);
        scatter_rows(keys, row, a, b);
        load_plain(h->value, h->a->key_stride, row, h->keys, h->a->width, a);
        load_plain(h->value, h->a->key_stride, row + 1, h->keys, h->a->width, b);
        scatter_rows(values, row, a, b);
    }
}

/* Scores of ROWS queries with 16 keys. */
static inline void dot_rows(lanes sums[ROWS], const uint32_t *keys, int64_t padded, const uint32_t *queries, int64_t pairs)
{
    for (int r = 0; r < ROWS; r++)
        sums[r] = lanes_set(0);
    for (int64_t c = 0; c < pairs; c++)
        for (int r = 0; r < ROWS; r++)
            sums[r] = lanes_dot(sums[r], keys + c * padded, queries[r * (WIDTH / 2) + c]);
}

/* sums [ROWS][WIDTH] += weights (pairs of keys, per row) times the rows of across. */
static inline void add_weighted(float *sums, const uint32_t *weights, int64_t stride, const uint32_t *across, int64_t pairs)
{
    lanes low[ROWS], high[ROWS];
    for (int r = 0; r < ROWS; r++)
        low[r] = lanes_load(sums + r * WIDTH), high[r] = lanes_load(sums + r * WIDTH + LANES);
    for (int64_t j = 0; j < pairs; j++)
        for (int r = 0; r < ROWS; r++) {
            low[r] = lanes_dot(low[r], across + j * WIDTH, weights[r * stride + j]);
            high[r] = lanes_dot(high[r], across + j * WIDTH + LANES, weights[r * stride + j]);
        }
    for (int r = 0; r < ROWS; r++)
        lanes_store(sums + r * WIDTH, low[r]), lanes_store(sums + r * WIDTH + LANES, high[r]);
}

/* Exponentials of one row of scores in place of them, as pairs of keys; returns the logarithm of their sum, the sum in *total. */
static float softmax_row(float *scores, int64_t keys, int64_t padded, uint32_t *weights, float *total)
{
    lanes most = lanes_set(-1e30f), sum = lanes_set(0);
    for (int64_t j = keys; j < padded; j++)
        scores[j] = -1e30f;
    for (int64_t j = 0; j < padded; j += LANES)
        most = lanes_max(most, lanes_load(scores + j));
    const float largest = lanes_largest(most);
    for (int64_t j = 0; j < padded; j += LANES) {
        lanes e = lanes_exp(lanes_sub(lanes_load(scores + j), lanes_set(largest)));
        lanes_store(scores + j, e);
    }
    for (int64_t j = keys; j < padded; j++) /* e^-87, not quite nothing */
        scores[j] = 0;
    for (int64_t j = 0; j < padded; j += LANES)
        sum = lanes_add(sum, lanes_load(scores + j));
    for (int64_t j = 0; j < padded; j += 2 * LANES)
        pack_along(weights + j / 2, lanes_load(scores + j), j + LANES < padded ? lanes_load(scores + j + LANES) : lanes_set(0));
    *total = lanes_sum(sum);
    return largest + logf(*total);
}

typedef struct forward_buffers { uint32_t *key_channels, *values, *queries, *weights; float *scores; } forward_buffers;

static void forward_head(const head *h, const forward_buffers *b, float *out, float *log_sums)
{
    const int64_t width = h->a->width, stride = h->a->heads * width, weight_stride = round_up(h->key_pad, 2 * LANES) / 2;
    const layouts queries = { NULL, b->queries, NULL, 0 }, keys = { b->key_channels, NULL, NULL, h->key_pad },
                  values = { NULL, NULL, b->values, 0 };
    pack_queries(h, &queries);
    pack_keys(h, &keys, &values);
    for (int64_t i = 0; i < h->queries; i += ROWS) {
        lanes sums[ROWS];
        float result[ROWS * WIDTH] = { 0 }, totals[ROWS];
        for (int64_t j = 0; j < h->key_pad; j += LANES) {
            dot_rows(sums, b->key_channels + j, h->key_pad, b->queries + i * (WIDTH / 2), width / 2);
            for (int r = 0; r < ROWS; r++)
                lanes_store(b->scores + r * h->key_pad + j, sums[r]);
        }
        for (int r = 0; r < ROWS; r++) {
            float log_sum = softmax_row(b->scores + r * h->key_pad, h->keys, h->key_pad, b->weights + r * weight_stride, totals + r);
            if (i + r < h->queries)
                log_sums[i + r] = log_sum;
        }
        add_weighted(result, b->weights, weight_stride, b->values, h->key_pad / 2);
        for (int r = 0; r < ROWS && i + r < h->queries; r++)
            for (int64_t c = 0; c < width; c++)
                out[(i + r) * stride + c] = result[r * WIDTH + c] / totals[r];
    }
}

static void longest(const attention *a, int64_t *queries, int64_t *keys)
{
    *queries = *keys = TILE;
    for (int64_t i = 0; i < a->items; i++) {
        const int64_t q = round_up(a->query_begin[i + 1] - a->query_begin[i], TILE);
        const int64_t k = round_up(a->key_begin[i + 1] - a->key_begin[i], TILE);
        *queries = q > *queries ? q : *queries;
        *keys = k > *keys ? k : *keys;
    }
}

static void carve_forward(arena *from, forward_buffers *b, int64_t queries, int64_t keys)
{
    b->key_channels = carve(from, WIDTH / 2 * keys, sizeof(uint32_t));
    b->values = carve(from, WIDTH / 2 * keys, sizeof(uint32_t));
    b->queries = carve(from, WIDTH / 2 * queries, sizeof(uint32_t));
    b->weights = carve(from, ROWS * round_up(keys, 2 * LANES) / 2, sizeof(uint32_t));
    b->scores = carve(from, ROWS * keys, sizeof(float));
}

int train_attention_forward(const attention *a, float *out, float *log_sums)
{
    arena from = { NULL, 0 };
    forward_buffers b;
    int64_t queries, keys;
    longest(a, &queries, &keys);
    carve_forward(&from, &b, queries, keys);
    from.block = aligned_alloc(64, from.used);
    if (!from.block)
        return -1;
    from.used = 0;
    carve_forward(&from, &b, queries, keys);
    const int64_t rows = a->query_begin[a->items];
    for (int64_t item = 0; item < a->items; item++)
        for (int64_t number = 0; number < a->heads; number++) {
            const head h = head_of(a, item, number);
            forward_head(&h, &b, out + h.first_query * a->heads * a->width + number * a->width, log_sums + number * rows + h.first_query);
        }
    free(from.block);
    return 0;
}

typedef struct backward_buffers {
    uint32_t *key_channels, *key_across, *value_channels;
    uint32_t *query_rows, *query_across, *grad_rows, *grad_across;
    float *deltas, *log_sums, *grad_query;
} backward_buffers;

static void carve_backward(arena *from, backward_buffers *b, int64_t queries, int64_t keys)
{
    b->key_channels = carve(from, WIDTH / 2 * keys, sizeof(uint32_t));
    b->key_across = carve(from, WIDTH / 2 * keys, sizeof(uint32_t));
    b->value_channels = carve(from, WIDTH / 2 * keys, sizeof(uint32_t));
    b->query_rows = carve(from, WIDTH / 2 * queries, sizeof(uint32_t));
    b->query_across = carve(from, WIDTH / 2 * queries, sizeof(uint32_t));
    b->grad_rows = carve(from, WIDTH / 2 * queries, sizeof(uint32_t));
    b->grad_across = carve(from, WIDTH / 2 * queries, sizeof(uint32_t));
    b->deltas = carve(from, queries, sizeof(float));
    b->log_sums = carve(from, queries, sizeof(float));
    b->grad_query = carve(from, WIDTH * queries, sizeof(float));
}

/* The rows' sum of gradient times result, which is what the softmax's gradient subtracts; and the gradient in pairs. */
static void pack_gradient(const head *h, const backward_buffers *b, const float *out, const float *log_sums, const float *grad_out)
{
    const int64_t width = h->a->width, stride = h->a->heads * width;
    const layouts to = { NULL, b->grad_rows, b->grad_across, 0 };
    float pair[2][WIDTH];
    for (int64_t row = 0; row < h->query_pad; row++) {
        float *g = pair[row % 2], delta = 0;
        load_plain(grad_out, stride, row, h->queries, width, g);
        for (int64_t c = 0; row < h->queries && c < width; c++)
            delta += g[c] * out[row * stride + c];
        b->deltas[row] = delta;
        b->log_sums[row] = row < h->queries ? log_sums[row] : 1e30f; /* no weight */
        if (row % 2)
            scatter_rows(&to, row - 1, pair[0], pair[1]);
    }
}

/* Probabilities and gradients of the scores of 16 queries by up to 64 keys: pairs of rows [TILE / 2][CHUNK]; those of the scores also as
 * pairs of keys. */
typedef struct tile { uint32_t weights[TILE / 2 * CHUNK], grads[TILE / 2 * CHUNK], grad_rows[TILE * CHUNK / 2]; } tile;

static void make_tile(const head *h, const backward_buffers *b, int64_t i, int64_t first, int64_t count, tile *t)
{
    const int64_t pairs = h->a->width / 2;
    for (int64_t j = 0; j < count; j += LANES)
        for (int64_t half = 0; half < TILE; half += ROWS) {
            lanes p[ROWS], g[ROWS];
            dot_rows(p, b->key_channels + first + j, h->key_pad, b->query_rows + (i + half) * (WIDTH / 2), pairs);
            for (int r = 0; r < ROWS; r++)
                p[r] = lanes_exp(lanes_sub(p[r], lanes_set(b->log_sums[i + half + r])));
            dot_rows(g, b->value_channels + first + j, h->key_pad, b->grad_rows + (i + half) * (WIDTH / 2), pairs);
            for (int r = 0; r < ROWS; r++)
                g[r] = lanes_mul(p[r], lanes_sub(g[r], lanes_set(b->deltas[i + half + r])));
            for (int r = 0; r < ROWS; r += 2) {
                uint32_t along[LANES];
                pack_across(t->weights + (half + r) / 2 * CHUNK + j, p[r], p[r + 1]);
                pack_across(t->grads + (half + r) / 2 * CHUNK + j, g[r], g[r + 1]);
                pack_along(along, g[r], g[r + 1]);
                memcpy(t->grad_rows + (half + r) * (CHUNK / 2) + j / 2, along, sizeof along / 2);
                memcpy(t->grad_rows + (half + r + 1) * (CHUNK / 2) + j / 2, along + LANES / 2, sizeof along / 2);
            }
        }
}

/* sums [width][CHUNK] += over the tile's rows: across (pairs of rows, [TILE / 2][WIDTH]) times weights. */
static void add_columns(float *sums, const uint32_t *weights, const uint32_t *across, int64_t width, int64_t count)
{
    for (int64_t j = 0; j < count; j += LANES)
        for (int64_t c = 0; c < width; c += 8) {
            lanes s[8];
            for (int k = 0; k < 8; k++)
                s[k] = lanes_load(sums + (c + k) * CHUNK + j);
            for (int i = 0; i < TILE / 2; i++)
                for (int k = 0; k < 8; k++)
                    s[k] = lanes_dot(s[k], weights + i * CHUNK + j, across[i * WIDTH + c + k]);
            for (int k = 0; k < 8; k++)
                lanes_store(sums + (c + k) * CHUNK + j, s[k]);
        }
}

static void store_key_gradients(const head *h, int64_t first, int64_t count, const float *keys, const float *values, float *grad_key,
                                float *grad_value, float *grad_gain)
{
    const attention *a = h->a;
    float grad[WIDTH];
    for (int64_t j = 0; j < count && first + j < h->keys; j++) {
        const int64_t row = first + j, at = row * a->key_stride;
        for (int64_t c = 0; c < a->width; c++) {
            grad_value[at + c] = values[c * CHUNK + j];
            grad[c] = keys[c * CHUNK + j];
        }
        prepare_backward(h->key + at, a->key_gain + h->number * a->width, turn_of(a->key_turn, h->first_key + row, a->width), a->width, 1,
                         grad, grad_key + at, grad_gain);
    }
}

static void backward_head(const head *h, const backward_buffers *b, float *grad_query, float *grad_key, float *grad_value,
                          float *grad_query_gain, float *grad_key_gain)
{
    const attention *a = h->a;
    const layouts queries = { NULL, b->query_rows, b->query_across, 0 }, keys = { b->key_channels, NULL, b->key_across, h->key_pad },
                  values = { b->value_channels, NULL, NULL, h->key_pad };
    tile t;
    pack_queries(h, &queries);
    pack_keys(h, &keys, &values);
    memset(b->grad_query, 0, (size_t)(h->query_pad * WIDTH) * sizeof(float));
    for (int64_t first = 0; first < h->key_pad; first += CHUNK) {
        const int64_t count = h->key_pad - first < CHUNK ? h->key_pad - first : CHUNK;
        float key_sums[WIDTH * CHUNK] = { 0 }, value_sums[WIDTH * CHUNK] = { 0 };
        for (int64_t i = 0; i < h->query_pad; i += TILE) {
            make_tile(h, b, i, first, count, &t);
            add_columns(value_sums, t.weights, b->grad_across + i / 2 * WIDTH, a->width, count);
            add_columns(key_sums, t.grads, b->query_across + i / 2 * WIDTH, a->width, count);
            for (int64_t half = 0; half < TILE; half += ROWS)
                add_weighted(b->grad_query + (i + half) * WIDTH, t.grad_rows + half * (CHUNK / 2), CHUNK / 2,
                             b->key_across + first / 2 * WIDTH, count / 2);
        }
        store_key_gradients(h, first, count, key_sums, value_sums, grad_key, grad_value, grad_key_gain);
    }
    for (int64_t row = 0; row < h->queries; row++)
        prepare_backward(h->query + row * a->query_stride, a->query_gain + h->number * a->width,
                         turn_of(a->query_turn, h->first_query + row, a->width), a->width, 1 / sqrtf((float)a->width),
                         b->grad_query + row * WIDTH, grad_query + row * a->query_stride, grad_query_gain);
}

int train_attention_backward(const attention *a, const float *out, const float *log_sums, const float *grad_out, float *grad_query,
                             float *grad_key, float *grad_value, float *grad_query_gain, float *grad_key_gain)
{
    arena from = { NULL, 0 };
    backward_buffers b;
    int64_t queries, keys;
    longest(a, &queries, &keys);
    carve_backward(&from, &b, queries, keys);
    from.block = aligned_alloc(64, from.used);
    if (!from.block)
        return -1;
    from.used = 0;
    carve_backward(&from, &b, queries, keys);
    const int64_t rows = a->query_begin[a->items];
    for (int64_t item = 0; item < a->items; item++)
        for (int64_t number = 0; number < a->heads; number++) {
            const head h = head_of(a, item, number);
            const int64_t at = number * a->width, token = h.first_query * a->heads * a->width + at;
            pack_gradient(&h, &b, out + token, log_sums + number * rows + h.first_query, grad_out + token);
            backward_head(&h, &b, grad_query + h.first_query * a->query_stride + at, grad_key + h.first_key * a->key_stride + at,
                          grad_value + h.first_key * a->key_stride + at, grad_query_gain + at, grad_key_gain + at);
        }
    free(from.block);
    return 0;
}
