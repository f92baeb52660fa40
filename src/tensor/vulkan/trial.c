/* SPDX-License-Identifier: MIT
 *
 * trial.c: a pipeline is tried before it is trusted. Drivers compile every shader anew for each kind and activation, some of them with
 * rules of their own for floats, so what one pipeline computes says nothing of the next. When an op is about to use a pipeline for the
 * first time, a small op of the same kind runs on the device and on the CPU, and the bytes are compared. Where they differ, or the driver
 * cannot compile it, such ops run on the CPU from then on, and the log says so.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <stdio.h>

/* The small op: its inputs are the same on both sides. */
typedef struct bed {
    espalier_context *ctx;
    uint64_t seed;
    espalier_status status;
    esi_tensor y;                           /* null: the op's result is in `numbers` */
    double numbers[2];
    void *host[8];
    esi_tensor weights[8];
    size_t n_host, n_weights;
} bed;

/* ------------------------------------------------------------------ inputs */

static uint32_t next(bed *b)                /* splitmix64, upper half */
{
    uint64_t z = (b->seed += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

static float number(bed *b)
{
    static const float special[] = {0.0f, 1.0f, -1.0f, 0x1p-40f, -0x1p-41f, 88.8f, -87.5f, 20.0f};
    const float v = ((float)(next(b) >> 8) * 0x1p-23f - 1.0f) * 4.0f;
    return next(b) % 16 ? v : special[next(b) % ESI_COUNT(special)];
}

static void *host(bed *b, size_t count, size_t size)
{
    void *p = b->status == ESPALIER_OK && b->n_host < ESI_COUNT(b->host) ? esi_calloc(b->ctx, count, size, "the self-test") : NULL;

    if (p) b->host[b->n_host++] = p;
    else if (b->status == ESPALIER_OK) b->status = ESPALIER_ERR_RESOURCE;
    return p;
}

static esi_tensor matrix(bed *b, int64_t rows, int64_t cols)
{
    float *values = host(b, (size_t)(rows * cols), sizeof *values);
    esi_tensor t = {0};

    for (int64_t i = 0; values && i < rows * cols; i++) values[i] = number(b);
    if (b->status == ESPALIER_OK) b->status = esi_tensor_from(b->ctx, &t, rows, cols, ESI_F32, values);
    return t;
}

/* Row numbers below `limit`, each once while there are any, some missing. */
static esi_tensor indices(bed *b, int64_t rows, int64_t cols, int64_t limit)
{
    int32_t *values = host(b, (size_t)(rows * cols), sizeof *values);
    esi_tensor t = {0};

    for (int64_t i = 0; values && i < rows * cols; i++) values[i] = i % 7 == 3 ? -1 : (int32_t)((i * 5 + 2) % limit);
    if (b->status == ESPALIER_OK) b->status = esi_tensor_from(b->ctx, &t, rows, cols, ESI_I32, values);
    return t;
}

/* Numbers of moderate size, one of them NaN if wanted. */
static esi_tensor weight(bed *b, int64_t rows, int64_t cols, esi_dtype dtype, bool with_nan)
{
    size_t row_bytes = 0;
    uint8_t *bytes = esi_dtype_row_bytes(dtype, cols, &row_bytes) ? host(b, (size_t)rows, row_bytes) : NULL;
    esi_tensor t = {0};

    for (size_t i = 0; bytes && i + 1 < (size_t)rows * row_bytes; i += 2) {
        const uint32_t r = next(b);
        uint16_t half;
        if (dtype == ESI_F16 || (dtype == ESI_Q8_0 && i % 34 == 0)) half = (uint16_t)((r & 0x83ffu) | (9u + r % 8u) << 10);
        else if (dtype == ESI_BF16 || (dtype == ESI_F32 && i % 4 == 2)) half = (uint16_t)((r & 0x807fu) | (120u + r % 8u) << 7);
        else half = (uint16_t)r;
        if (with_nan && i == (dtype == ESI_F32 ? 2 : 0)) half = dtype == ESI_F16 || dtype == ESI_Q8_0 ? 0x7e00 : 0x7fc0;
        memcpy(bytes + i, &half, sizeof half);
    }
    if (!bytes || b->status != ESPALIER_OK || b->n_weights == ESI_COUNT(b->weights)) return t;
    b->status = esi_weight_wrap(b->ctx, &t, rows, cols, dtype, bytes);
    if (b->status == ESPALIER_OK) b->weights[b->n_weights++] = t;
    return t;
}

/* --------------------------------------------------------------------- ops */

enum { ROWS = 21, COLS = 36, HEADS = 3 };

static espalier_status elementwise(bed *b, const esi_vk_trial *t)
{
    esi_tensor y = b->y = matrix(b, ROWS, COLS), x = matrix(b, ROWS, COLS), z = matrix(b, ROWS, COLS);
    esi_tensor v = weight(b, 1, COLS, ESI_F32, false), w = weight(b, 1, COLS, ESI_F32, false), f = matrix(b, ROWS, 1);

    if (b->status != ESPALIER_OK) return b->status;
    switch ((esi_elementwise)t->kind) {
    case ESI_EW_COPY: return esi_copy(b->ctx, y, x);
    case ESI_EW_FILL: return esi_fill(b->ctx, y, 0.3f);
    case ESI_EW_ACTIVATE: return esi_activate(b->ctx, y, x, (esi_activation)t->act);
    case ESI_EW_ADD: return esi_add(b->ctx, y, x, z);
    case ESI_EW_MUL: return esi_mul(b->ctx, y, x, z);
    case ESI_EW_AXPBY: return esi_axpby(b->ctx, y, 0.7f, x, -1.3f, z);
    case ESI_EW_SCALE: return esi_scale(b->ctx, y, x, 0.7f);
    case ESI_EW_SCALE_SHIFT: return esi_scale_shift(b->ctx, y, x, v, w);
    case ESI_EW_NORMALIZE: return esi_normalize(b->ctx, y, x, v, w);
    case ESI_EW_SCALE_ROWS: return esi_scale_rows(b->ctx, y, x, f);
    }
    return ESPALIER_OK;
}

static espalier_status move(bed *b, const esi_vk_trial *t)
{
    esi_tensor y = b->y = matrix(b, t->kind == ESI_VK_TRANSPOSE ? COLS : ROWS, t->kind == ESI_VK_TRANSPOSE ? ROWS : COLS);
    esi_tensor x = matrix(b, ROWS, COLS), narrow = matrix(b, ROWS, COLS / 3), wide = matrix(b, ROWS, COLS * 3);
    esi_tensor index = indices(b, ROWS, 1, ROWS);

    if (b->status != ESPALIER_OK) return b->status;
    switch ((esi_vk_move)t->kind) {
    case ESI_VK_GATHER: return esi_gather_rows(b->ctx, y, x, index);
    case ESI_VK_SCATTER: return esi_scatter_rows(b->ctx, y, x, index);
    case ESI_VK_REPEAT: return esi_repeat_cols(b->ctx, y, narrow, 3);
    case ESI_VK_ADD_REPEAT: return esi_add_repeat_cols(b->ctx, y, narrow, index, 3);
    case ESI_VK_MEAN_COLS: return esi_mean_cols(b->ctx, y, wide, 3);
    case ESI_VK_TRANSPOSE_COLS: return esi_transpose_cols(b->ctx, y, x, 4, COLS / 4);
    case ESI_VK_TRANSPOSE: return esi_transpose(b->ctx, y, x);
    }
    return ESPALIER_OK;
}

static espalier_status norm(bed *b, const esi_vk_trial *t)
{
    esi_tensor y = b->y = matrix(b, ROWS, COLS), x = matrix(b, ROWS, COLS);
    esi_norm_args a = {.eps = 1e-6f, .act = (esi_activation)t->act};

    a.weight = weight(b, 1, COLS, ESI_F32, false);
    a.bias = weight(b, 1, COLS, ESI_F32, false);
    if (b->status != ESPALIER_OK) return b->status;
    if (t->kind == 0) return esi_layer_norm(b->ctx, y, x, &a);
    if (t->kind == 1) return esi_rms_norm_heads(b->ctx, y, x, a.weight, HEADS);
    b->y = (esi_tensor){0};
    return esi_sum_stats(b->ctx, x, &b->numbers[0], &b->numbers[1]);
}

static espalier_status rope(bed *b)
{
    esi_tensor y = b->y = matrix(b, ROWS, COLS), x = matrix(b, ROWS, COLS);
    esi_tensor cos = matrix(b, ROWS, COLS / HEADS / 2), sin = matrix(b, ROWS, COLS / HEADS / 2);
    return b->status == ESPALIER_OK ? esi_rope(b->ctx, y, x, cos, sin, HEADS, ESI_ROPE_ADJACENT) : b->status;
}

static espalier_status table(bed *b, const esi_vk_trial *t)
{
    esi_tensor y = b->y = matrix(b, ROWS, COLS), x = matrix(b, ROWS, COLS);
    esi_tensor index = indices(b, ROWS, 4, ROWS), factors = matrix(b, ROWS, 4);

    if (b->status != ESPALIER_OK) return b->status;
    if (t->kind == 2) return esi_weighted_gather(b->ctx, y, x, index, factors);
    return esi_pool_rows(b->ctx, y, x, index, t->kind == 0 ? ESI_POOL_MAX : ESI_POOL_MEAN);
}

/* KIND as in ops_product.c: 4 with a table, 8 with NaN in the weight, and the shape of tiles, which follows from sizes. One type of weight
 * after the other; what was computed is the next one's residual. */
static espalier_status product(bed *b, const esi_vk_device *d, const esi_vk_trial *t)
{
    const esi_vk_tile tile = esi_vk_product_tile(d, t->kind);
    const bool gathered = (t->kind & 4) != 0, few_are_enough = strcmp(d->info.type, "cpu") == 0;
    const int64_t channels = 32, taps = gathered ? 3 : 1;
    int64_t rows = 20, cols = 20;
    esi_epilogue e = {.act = ESI_ACT_SILU};
    esi_tensor x, w[4], index = {0};
    espalier_status st;

    if (t->kind >> 4 == 0) {
        rows = tile.rows * (few_are_enough ? 1 : 12) - 3;
        cols = tile.cols * (few_are_enough ? 1 : 11) - 5;
    } else if (t->kind >> 4 == 2) {
        rows = 5;
        cols = 70;
    } else if (t->kind >> 4 == 3) {
        cols = 5;
    }
    b->y = matrix(b, rows, cols);
    x = matrix(b, rows, channels);
    for (int i = 0; i < 4; i++) w[i] = weight(b, cols, channels * taps, (esi_dtype)i, i == 0 && (t->kind & 8) != 0);
    e.bias = weight(b, 1, cols, ESI_F32, false);
    if (gathered) index = indices(b, rows, taps, rows);
    st = b->status;
    for (int i = 3; i >= 0 && st == ESPALIER_OK; i--) {
        st = gathered ? esi_conv(b->ctx, b->y, x, index, w[i], ESI_CONV_TAP_MAJOR, &e) : esi_linear(b->ctx, b->y, x, w[i], &e);
        e.residual = b->y;
    }
    return st;
}

/* KIND: sixteenths of the columns of the values; more keys than the rule's tile. */
static espalier_status attention(bed *b, const esi_vk_trial *t)
{
    const int64_t rows = 70, cols = 16 * t->kind - 3;
    esi_tensor q, k, v;
    esi_attention_args a = {.heads = 1, .windows = 1, .scale = 0.2f};

    b->y = matrix(b, rows, cols);
    q = matrix(b, rows, cols);
    k = matrix(b, rows, cols);
    v = matrix(b, rows, cols);
    a.bias = matrix(b, rows, rows);
    a.region = indices(b, rows, 1, 3);
    return b->status == ESPALIER_OK ? esi_attention(b->ctx, b->y, q, k, v, &a) : b->status;
}

/* KIND: steps of group norm with wide (0, 1) or narrow groups, the count of NaN (3), the mean of rows (4). */
static espalier_status statistics(bed *b, const esi_vk_trial *t)
{
    esi_tensor x = matrix(b, ROWS, COLS), z = matrix(b, ROWS, COLS);
    uint64_t nans = 0, infinities = 0;
    espalier_status st = b->status;

    if (st == ESPALIER_OK && t->kind != 3 && t->kind != 4) {
        const esi_norm_args a = {.eps = 1e-6f, .act = (esi_activation)t->act, .weight = weight(b, 1, COLS, ESI_F32, false),
                                 .bias = weight(b, 1, COLS, ESI_F32, false)};
        b->y = z;
        return b->status == ESPALIER_OK ? esi_group_norm(b->ctx, z, x, t->kind <= 1 ? 1 : HEADS, &a) : b->status;
    }
    if (t->kind == 4) {
        b->y = matrix(b, 1, COLS);
        return b->status == ESPALIER_OK ? esi_mean_rows(b->ctx, b->y, x) : b->status;
    }
    if (st == ESPALIER_OK) st = esi_scale(b->ctx, x, x, 3e38f);
    if (st == ESPALIER_OK) st = esi_scale(b->ctx, z, z, 3e38f);
    if (st == ESPALIER_OK) st = esi_add(b->ctx, x, x, z);
    if (st == ESPALIER_OK) st = esi_count_nonfinite(b->ctx, x, &nans, &infinities);
    b->numbers[0] = (double)nans;
    b->numbers[1] = (double)infinities;
    return st;
}

static espalier_status perform(bed *b, const esi_vk_device *d, const esi_vk_trial *t)
{
    switch (t->shader) {
    case ESI_VK_ELEMENTWISE: return elementwise(b, t);
    case ESI_VK_MOVE: return move(b, t);
    case ESI_VK_NORM: return norm(b, t);
    case ESI_VK_ROPE: return rope(b);
    case ESI_VK_TABLE: return table(b, t);
    case ESI_VK_MATMUL: return product(b, d, t);
    case ESI_VK_ATTENTION:
    case ESI_VK_ATTENTION_SMALL: return attention(b, t);
    case ESI_VK_STATISTICS: return statistics(b, t);
    default: return ESPALIER_OK;
    }
}

/* ------------------------------------------------------------------ compare */

/* The op on one side; *out = its numbers by esi_alloc. */
static espalier_status run_on(esi_backend *backend, espalier_context *ctx, const esi_vk_device *d, const esi_vk_trial *t, float **out,
                              size_t *n, double numbers[2])
{
    esi_backend *before = ctx->backend;
    esi_scope scope = esi_scope_begin(ctx);
    bed b = {.ctx = ctx, .seed = 1};

    *out = NULL;
    *n = 0;
    ctx->backend = backend;
    b.status = perform(&b, d, t);
    if (b.status == ESPALIER_OK && !esi_tensor_is_null(b.y)) {
        *n = (size_t)(b.y.rows * b.y.cols);
        *out = esi_alloc(ctx, *n, sizeof **out, "the self-test");
        b.status = *out ? esi_tensor_read(ctx, b.y, *out) : ctx->error_status;
    }
    memcpy(numbers, b.numbers, sizeof b.numbers);
    esi_scope_end(ctx, scope);
    for (size_t i = 0; i < b.n_weights; i++) esi_weight_release(ctx, &b.weights[i]);
    for (size_t i = 0; i < b.n_host; i++) esi_free(ctx, b.host[i]);
    ctx->backend = before;
    return b.status;
}

static bool same(const float *want, const float *got, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&want[i], &got[i], sizeof want[i]) != 0 && (want[i] == want[i] || got[i] == got[i])) return false;
    return true;
}

static espalier_status compare(espalier_context *ctx, esi_vk_device *d, const esi_vk_trial *t, bool *good)
{
    float *want = NULL, *got = NULL;
    double numbers[2][2];
    size_t n = 0;
    espalier_status st = run_on(ctx->runtime->cpu, ctx, d, t, &want, &n, numbers[0]);

    if (st == ESPALIER_OK) st = run_on(&d->backend, ctx, d, t, &got, &n, numbers[1]);
    *good = st == ESPALIER_OK && same(want, got, n) && memcmp(numbers[0], numbers[1], sizeof numbers[0]) == 0;
    esi_free(ctx, want);
    esi_free(ctx, got);
    return st;
}

/* -------------------------------------------------------------------- trust */

/* The lock is held. */
static esi_vk_trial *find(esi_vk_device *d, esi_vk_shader shader, int32_t kind, int32_t act)
{
    for (size_t i = 0; i < d->n_trials; i++)
        if (d->trials[i].shader == shader && d->trials[i].kind == kind && d->trials[i].act == act) return &d->trials[i];
    if (d->n_trials == ESI_VK_PIPELINES) return NULL;
    d->trials[d->n_trials] = (esi_vk_trial){.shader = shader, .kind = kind, .act = act};
    return &d->trials[d->n_trials++];
}

static esi_vk_trust verdict_on(esi_vk_device *d, esi_vk_trial *t, bool *mine)
{
    esi_vk_trust verdict;

    esi_vk_lock(d);
    verdict = t->verdict;
    *mine = d->trying && pthread_equal(d->trying_thread, pthread_self());
    esi_vk_unlock(d);
    return verdict;
}

static void set_trying(esi_vk_device *d, bool trying)
{
    esi_vk_lock(d);
    d->trying = trying;
    d->trying_thread = pthread_self();
    esi_vk_unlock(d);
}

/* One pipeline at a time, and the ops of a trial are not tried themselves. */
static esi_vk_trust try_it(espalier_context *ctx, esi_vk_device *d, esi_vk_trial *t, const char *what)
{
    bool good = false;
    espalier_status st;

    set_trying(d, true);
    st = compare(ctx, d, t, &good);
    set_trying(d, false);
    if (st != ESPALIER_OK && (d->lost || st != ESPALIER_ERR_DEVICE)) {       /* no verdict */
        if (!d->lost) esi_clear_error(ctx);
        return ESI_VK_UNTRIED;
    }
    if (!good)
        esi_log(ctx, ESPALIER_LOG_WARNING, "%.200s %s: such ops run on the CPU (%s %d.%d)", d->info.name,
                st == ESPALIER_OK ? "computes wrongly" : espalier_error_message(ctx), what, t->kind, t->act);
    esi_clear_error(ctx);
    return good ? ESI_VK_GOOD : ESI_VK_WRONG;
}

esi_vk_trust esi_vk_try(espalier_context *ctx, esi_vk_device *d, const char *what, esi_vk_shader shader, int32_t kind, int32_t act)
{
    esi_vk_trust verdict;
    esi_vk_trial *t;
    bool mine;

    esi_vk_lock(d);
    t = find(d, shader, kind, act);
    esi_vk_unlock(d);
    if (!t) return ESI_VK_UNTRIED;
    verdict = verdict_on(d, t, &mine);
    if (verdict != ESI_VK_UNTRIED) return verdict;
    if (mine) return ESI_VK_GOOD;
    pthread_mutex_lock(&d->trial_lock);
    verdict = verdict_on(d, t, &mine);
    if (verdict == ESI_VK_UNTRIED) verdict = try_it(ctx, d, t, what);
    esi_vk_lock(d);
    t->verdict = verdict;
    esi_vk_unlock(d);
    pthread_mutex_unlock(&d->trial_lock);
    return verdict;
}
