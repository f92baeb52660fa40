/* SPDX-License-Identifier: MIT
 *
 * ops_product.c: matrix products: linear layers and convolutions, through one shader (shaders/matmul.comp).
 *
 * A product is cut by columns of y (= rows of w: where a weight lies in pieces, and so that a row of tiles is no longer than a submission
 * should be), then by rows (cut.c). Where even one tile is too long, k is cut: the accumulators wait in a tensor as they are between the
 * parts, and the epilogue comes last; storing and loading fp32 is exact. A convolution whose x cannot be bound whole goes over blocks of
 * rows of y: the rows of x are copied through windows (gather_rows) to where a row of y has its taps side by side, and the same shader
 * multiplies these; a missing row, which was copied as zeros, is still known from the table. None of this can change a bit: each
 * output is one chain of fma over the same operands in the same order.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

/* KIND and flags of matmul.comp. */
enum { GATHERED = 4, GUARDED = 8, SHAPE = 4 };
#define BIAS (1u << 16)
#define SCALE (1u << 17)
#define GATE (1u << 18)
#define RESIDUAL (1u << 19)
#define CHANNEL_MAJOR (1u << 20)
#define COPIED (1u << 21)
#define MIXED (1u << 22)
#define RESUMED (1u << 23)
#define RAW (1u << 24)
#define FINISHED (1u << 25)
#define ACTIVATION 26

#define ROUNDS 60000                        /* of loops in one dispatch: see ops_attention.c */
#define UNIT 16                             /* multiply-adds in a unit of work, which is worth an element of other ops or less */
#define STRIP 16                            /* rows of tiles that are worked on together where k is cut */
#define COPY_BYTES (INT64_C(32) << 20)      /* of gathered rows */

typedef struct product {
    esi_tensor y, x, table, w;              /* without a table, a linear layer */
    esi_epilogue e;
    int64_t channels, taps, x_rows;         /* x_rows: of the tensor that the table points into */
    uint32_t flags;
    int32_t kind;
    esi_vk_tile tile;
} product;

/* ------------------------------------------------------------- tile shapes */

/* An fma of few instructions wants many outputs per invocation, so that loads do not count; one of a hundred does not. */
esi_vk_tile esi_vk_product_tile(const esi_vk_device *d, int32_t kind)
{
    static const esi_vk_tile shapes[2][4] = {
        {{128, 128, 8, 8, 16}, {64, 64, 4, 4, 16}, {4, 64, 1, 1, 16}, {64, 4, 1, 1, 16}},
        {{64, 64, 4, 4, 16}, {32, 32, 2, 2, 16}, {4, 64, 1, 1, 16}, {64, 4, 1, 1, 16}},
    };
    esi_vk_tile t = shapes[d->info.fma == ESI_VULKAN_FMA_INTEGER][ESI_MIN(kind >> SHAPE, 3)];

    if (esi_vk_workgroup(d) < 256) t.rows /= 2;
    if ((t.rows + t.cols) * (t.depth / 4 + 1) * 16 + 64 > d->info.shared_memory) t.depth = 8;
    return t;
}

static int64_t depth_of(const product *p) { return p->channels * p->taps; }

static int64_t tiles(int64_t rows, int64_t cols, esi_vk_tile t)
{
    return (rows + t.rows - 1) / t.rows * ((cols + t.cols - 1) / t.cols);
}

/* Columns of y from `col` on whose weights can be bound at once; 0 = not even one. */
static int64_t bound_cols(const esi_vk_device *d, const product *p, int64_t col)
{
    esi_tensor w = esi_rows(p->w, col, p->w.rows - col);
    return p->w.buffer->is_weight ? esi_vk_matrix_rows(d, w) : ESI_MIN(esi_vk_rows_bound(d, w), w.rows);
}

/* Large tiles where they keep the device busy and little of them hangs over the borders of what one dispatch can do. */
static void choose_shape(const esi_vk_device *d, product *p)
{
    const int64_t busy = strcmp(d->info.type, "cpu") == 0 ? 1 : 128;
    const esi_vk_tile large = esi_vk_product_tile(d, 0), medium = esi_vk_product_tile(d, 1 << SHAPE);
    const int64_t row = p->flags & COPIED ? depth_of(p) : esi_tensor_is_null(p->table) ? p->x.stride : 1;
    const int64_t most = ESI_MIN(esi_vk_rows_bound(d, p->y), esi_vk_elements_bound(d) / ESI_MAX(row, INT64_C(1)));
    const int64_t rows = ESI_MIN(p->y.rows, most), cols = ESI_MIN(p->y.cols, bound_cols(d, p, 0));
    const int64_t n_large = tiles(rows, cols, large), n_medium = tiles(rows, cols, medium);
    int32_t shape = 1;

    if (rows <= 8) shape = 2;
    else if (cols <= 8) shape = 3;
    else if (n_large >= busy && n_large * large.rows * large.cols <= n_medium * medium.rows * medium.cols * 5 / 4) shape = 0;
    p->kind = (p->kind & (GATHERED | GUARDED)) | shape << SHAPE;
    p->tile = esi_vk_product_tile(d, p->kind);
}

/* ------------------------------------------------------------------- calls */

static int64_t blocks_of(const product *p)
{
    const int64_t unit = p->tile.depth;
    return p->flags & MIXED ? (depth_of(p) + unit - 1) / unit : p->taps * ((p->channels + unit - 1) / unit);
}

/* Columns [col, col + cols) of y, blocks [first, end) of k. */
static esi_vk_call make_call(const product *p, int64_t col, int64_t cols, int64_t first, int64_t end)
{
    const bool gathered = !esi_tensor_is_null(p->table), whole = gathered && !(p->flags & COPIED);
    const esi_epilogue *e = &p->e;
    esi_tensor none = {0};
    esi_vk_call c = {.what = gathered ? "conv" : "linear", .shader = ESI_VK_MATMUL, .kind = p->kind, .rows = p->y.rows, .lanes = 1,
        .tile = p->tile,
        .operands = {
            {esi_cols(p->y, col, cols), ESI_VK_ROWS, true},
            {p->x, whole ? ESI_VK_WHOLE : ESI_VK_ROWS, false},
            {esi_rows(p->w, col, cols), p->w.buffer->is_weight ? ESI_VK_WEIGHT : ESI_VK_WHOLE, false},
            {e->bias, ESI_VK_NONE, false}, {e->scale, ESI_VK_NONE, false}, {e->gate, ESI_VK_NONE, false},
            {esi_tensor_is_null(e->residual) ? none : esi_cols(e->residual, col, cols), ESI_VK_ROWS, false},
            {p->table, ESI_VK_ROWS, false}},
        .push = {.cols = (uint32_t)cols}};

    c.work = ESI_MAX(cols * depth_of(p) / blocks_of(p) * (end - first) / UNIT, INT64_C(1));
    c.push.n[0] = (uint32_t)p->channels;
    c.push.n[1] = (uint32_t)p->taps | p->flags | (uint32_t)e->act << ACTIVATION;
    c.push.n[1] |= (esi_tensor_is_null(e->bias) ? 0 : BIAS) | (esi_tensor_is_null(e->scale) ? 0 : SCALE);
    c.push.n[1] |= (esi_tensor_is_null(e->gate) ? 0 : GATE) | (esi_tensor_is_null(e->residual) ? 0 : RESIDUAL);
    c.push.n[2] = (uint32_t)p->x_rows;
    c.push.n[3] = (uint32_t)first | (uint32_t)end << 16;
    c.push.n[4] = (uint32_t)col;
    return c;
}

static bool can_run(const esi_vk_device *d, const product *p)
{
    if (p->taps > 0xffff || blocks_of(p) > 0xffff || p->y.rows > INT32_MAX || p->x_rows > INT32_MAX) return false;
    for (int64_t col = 0, n; col < p->y.cols; col += n) {
        esi_vk_call c;
        n = bound_cols(d, p, col);
        if (n == 0) return false;
        c = make_call(p, col, n, 0, blocks_of(p));
        if (!esi_vk_can_run(d, &c)) return false;
    }
    return true;
}

/* ------------------------------------------------------------------ running */

/* Rows [row, row + rows) of a product. */
static product rows_of(const product *p, int64_t row, int64_t rows)
{
    product q = *p;

    q.y = esi_rows(p->y, row, rows);
    if (!esi_tensor_is_null(p->e.residual)) q.e.residual = esi_rows(p->e.residual, row, rows);
    if (!esi_tensor_is_null(p->table)) q.table = esi_rows(p->table, row, rows);
    if (esi_tensor_is_null(p->table) || (p->flags & COPIED)) q.x = esi_rows(p->x, row, rows);
    return q;
}

/* A strip of tiles, `blocks` of k at a time. */
static espalier_status run_strip(espalier_context *ctx, esi_vk_device *d, const product *p, int64_t col, int64_t cols, int64_t blocks)
{
    esi_scope scope = esi_scope_begin(ctx);
    product part = *p;
    esi_vk_call c;
    esi_tensor sums;
    espalier_status st = esi_tensor_new(ctx, &sums, p->y.rows, cols, ESI_F32);

    for (int64_t first = 0, n; st == ESPALIER_OK && first < blocks_of(p); first += n) {
        n = ESI_MIN(blocks, blocks_of(p) - first);
        part.flags = p->flags | RAW | (first > 0 ? RESUMED : 0);
        part.e.residual = (esi_tensor){0};
        c = make_call(&part, col, cols, first, first + n);
        c.operands[0].t = sums;
        st = esi_vk_run(ctx, d, &c);
    }
    part = *p;
    part.flags = FINISHED;
    c = make_call(&part, col, cols, 0, 1);
    c.operands[1] = (esi_vk_operand){sums, ESI_VK_ROWS, false};
    c.operands[2] = c.operands[7] = (esi_vk_operand){{0}, ESI_VK_NONE, false};
    if (st == ESPALIER_OK) st = esi_vk_run(ctx, d, &c);
    esi_scope_end(ctx, scope);
    return st;
}

static espalier_status run_in_parts(espalier_context *ctx, esi_vk_device *d, const product *p, int64_t col, int64_t cols, int64_t blocks)
{
    const int64_t strip = p->tile.rows * STRIP;
    espalier_status st = ESPALIER_OK;

    for (int64_t row = 0; st == ESPALIER_OK && row < p->y.rows; row += strip) {
        product q = rows_of(p, row, ESI_MIN(strip, p->y.rows - row));
        st = run_strip(ctx, d, &q, col, cols, blocks);
    }
    return st;
}

static espalier_status run(espalier_context *ctx, esi_vk_device *d, const product *p)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t col = 0, n; st == ESPALIER_OK && col < p->y.cols; col += n) {
        int64_t limit, strip = ESI_MIN(p->y.rows, p->tile.rows), least = ESI_MIN(p->y.cols - col, p->tile.cols);
        const int64_t most = ROUNDS / (p->tile.depth + 4);

        esi_vk_lock(d);
        limit = (int64_t)esi_vk_work_limit(d, ESI_VK_MATMUL, p->kind, 0) * UNIT;
        esi_vk_unlock(d);
        n = ESI_MAX(limit / (strip * depth_of(p)) / p->tile.cols * p->tile.cols, least);
        n = ESI_MIN(n, bound_cols(d, p, col));
        if ((strip * n * depth_of(p) <= limit && blocks_of(p) <= most) || blocks_of(p) == 1) {
            esi_vk_call c = make_call(p, col, n, 0, blocks_of(p));
            st = esi_vk_run(ctx, d, &c);
        } else {
            st = run_in_parts(ctx, d, p, col, n, ESI_MIN(most, ESI_MAX(limit / (strip * n * p->tile.depth), INT64_C(1))));
        }
    }
    return st;
}

/* The rows of x that the product reads, those of one row of y side by side in `copy`. */
static espalier_status copy_rows(espalier_context *ctx, const product *p, esi_tensor copy)
{
    espalier_status st = ESPALIER_OK;

    if (p->table.stride == p->table.cols)
        return ctx->backend->gather_rows(ctx, esi_reshape(copy, copy.rows * p->taps, p->channels), p->x,
                                         esi_reshape(p->table, copy.rows * p->taps, 1));
    for (int64_t t = 0; st == ESPALIER_OK && t < p->taps; t++)
        st = ctx->backend->gather_rows(ctx, esi_cols(copy, t * p->channels, p->channels), p->x, esi_cols(p->table, t, 1));
    return st;
}

/* x gathered for a block of rows of y at a time; p is the product with x bound whole. */
static espalier_status run_copied(espalier_context *ctx, esi_vk_device *d, const product *p, int64_t block)
{
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor copy;
    espalier_status st = esi_tensor_new(ctx, &copy, block, depth_of(p), ESI_F32);

    for (int64_t row = 0; st == ESPALIER_OK && row < p->y.rows; row += block) {
        product q = rows_of(p, row, ESI_MIN(block, p->y.rows - row));
        esi_tensor rows = esi_rows(copy, 0, q.y.rows);
        st = copy_rows(ctx, &q, rows);
        q.flags |= COPIED;
        q.x = rows;
        if (st == ESPALIER_OK) st = run(ctx, d, &q);
    }
    esi_scope_end(ctx, scope);
    return st;
}

/* Rows of y at a time for run_copied, 0 if it cannot be used; chooses tiles for it. */
static int64_t copied_rows(espalier_context *ctx, const esi_vk_device *d, product *p)
{
    int64_t bytes = ESI_MIN(COPY_BYTES, (int64_t)ESI_MIN(esi_memory_left(ctx) / 4, (uint64_t)COPY_BYTES));
    int64_t most = ESI_MIN(p->y.rows, ESI_MAX(bytes / 4 / depth_of(p), INT64_C(1)));
    product q = *p;

    if (depth_of(p) > esi_vk_elements_bound(d) || !esi_vk_fits(d, (uint64_t)depth_of(p) * 4)) return 0;
    q.flags |= COPIED;
    q.x = q.y;                              /* stands for the copy, which is known to fit */
    choose_shape(d, &q);
    if (!can_run(d, &q)) return 0;
    p->kind = q.kind;
    p->tile = q.tile;
    return most;
}

/* Is there memory for the first piece of the weight beside the tensors? If not, for no other either. Errors of another kind come up again
 * when the product runs. */
static bool reserve(espalier_context *ctx, esi_vk_device *d, const product *p)
{
    espalier_status st;
    bool good = true;

    if (!p->w.buffer->is_weight) return true;
    esi_vk_lock(d);
    d->calls++;
    st = esi_vk_input(ctx, d, p->e.residual);
    if (st == ESPALIER_OK) st = esi_vk_input(ctx, d, p->x);
    if (st == ESPALIER_OK) st = esi_vk_input(ctx, d, p->table);
    if (st == ESPALIER_OK) st = esi_vk_output(ctx, d, p->y);
    if (st == ESPALIER_OK) good = esi_vk_matrix_reserve(d, p->w) || d->lost;
    else esi_clear_error(ctx);
    esi_vk_unlock(d);
    return good;
}

static bool may_have_nan(esi_vk_device *d, esi_tensor w)
{
    bool finite;

    if (!w.buffer->is_weight) return true;
    esi_vk_lock(d);
    finite = esi_vk_matrix_is_finite(w);
    esi_vk_unlock(d);
    return !finite;
}

/* --------------------------------------------------------------------- ops */

espalier_status esi_vk_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    esi_vk_device *d = esi_vk_of(ctx);
    product p = {.y = y, .x = x, .w = w, .e = *e, .channels = x.cols, .taps = 1, .x_rows = x.rows};
    espalier_status st;

    choose_shape(d, &p);
    if (x.cols > 0 && can_run(d, &p) && reserve(ctx, d, &p)) return run(ctx, d, &p);
    st = TO_HOST("linear", OP_LINEAR, 1, x, w, e->bias, e->scale, e->gate, e->residual, y);
    return st == ESPALIER_OK ? esi_cpu_linear(ctx, y, x, w, e) : st;
}

espalier_status esi_vk_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                            const esi_epilogue *e)
{
    esi_vk_device *d = esi_vk_of(ctx);
    product p = {.y = y, .x = x, .table = table, .w = w, .e = *e, .channels = x.cols, .taps = table.cols,
                 .x_rows = x.rows, .kind = GATHERED, .flags = layout == ESI_CONV_CHANNEL_MAJOR ? CHANNEL_MAJOR : 0};
    espalier_status st;

    choose_shape(d, &p);
    if (p.channels < p.tile.depth || (p.channels % 4 != 0 && p.channels < 4 * p.tile.depth)) p.flags |= MIXED;
    if (depth_of(&p) > 0) {
        bool whole = can_run(d, &p);
        int64_t block = whole ? 0 : copied_rows(ctx, d, &p);
        if ((whole || block > 0) && reserve(ctx, d, &p)) {
            if (may_have_nan(d, w)) p.kind |= GUARDED;
            return whole ? run(ctx, d, &p) : run_copied(ctx, d, &p, block);
        }
    }
    st = TO_HOST("conv", OP_CONV, 1, x, table, w, e->bias, e->scale, e->gate, e->residual, y);
    return st == ESPALIER_OK ? esi_cpu_conv(ctx, y, x, table, w, layout, e) : st;
}
