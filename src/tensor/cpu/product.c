/* SPDX-License-Identifier: MIT
 *
 * product.c: linear and convolution on the CPU: one driver, since a linear is a convolution with one tap that is always present.
 *
 * Blocking after K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008, with the operands' roles chosen for
 * gathered rows. A group of columns at a time: its weights are expanded and packed once, in segments (a tap and a range of channels)
 * that fit the second-level cache. Then tasks take blocks of rows: for each segment in order, the rows that have the tap are gathered
 * `mr` at a time into a strip, and the tile kernel adds strip times segment to the block's accumulators. Accumulators wait in memory
 * between segments; storing and loading fp32 is exact, so no result depends on any size below. Of few channels several taps are joined to
 * one strip for the rows that have all of them; the other rows take these taps one by one.
 */
#include "tensor/cpu/driver.h"

/* ------------------------------------------- plain kernels (generic levels) */

typedef struct plain_job {
    const esi_kernels *kernels;
    const esi_product *product;
    float *scratch;                 /* [slots][taps * ci] */
    size_t row_block, col_block, row_blocks;
} plain_job;

static void plain_task(void *arg, size_t task, int slot)
{
    const plain_job *j = arg;
    const esi_product *p = j->product;
    size_t row = task % j->row_blocks * j->row_block, col = task / j->row_blocks * j->col_block;

    j->kernels->product(p, row, ESI_MIN(row + j->row_block, p->rows), col, ESI_MIN(col + j->col_block, p->cols),
                        j->scratch + (size_t)slot * p->taps * p->ci);
}

static espalier_status plain_product(espalier_context *ctx, const esi_product *p)
{
    plain_job job = {.kernels = esi_cpu_table(ctx), .product = p, .row_block = 256, .col_block = 8};
    espalier_status st;
    size_t tasks;

    job.row_blocks = (p->rows + job.row_block - 1) / job.row_block;
    tasks = job.row_blocks * ((p->cols + job.col_block - 1) / job.col_block);
    job.scratch = esi_alloc(ctx, (size_t)esi_slots(ctx), p->taps * p->ci * sizeof(float), "weight rows");
    if (!job.scratch) return ctx->error_status;
    st = esi_parallel(ctx, tasks, plain_task, &job);
    esi_free(ctx, job.scratch);
    return st;
}

/* ----------------------------------------------------------------- blocked */

enum {
    SEGMENT_CHANNELS = 128,         /* channels per segment: a panel of it and a strip stay in the first-level cache */
    JOINED_CHANNELS = ESI_STRIP / 3, /* taps of up to as many channels are joined */
    GROUP_COLUMNS = 768,            /* columns per group: a segment is 384 KiB */
    PACK_CHANNELS = 16,             /* of channel-major weights per packing task */
    PACK_FLOATS = 12 << 20          /* packed weights of a group should stay below this */
};

typedef struct blocked_job {
    const esi_kernels *kernels;
    const esi_product *p;
    float *weights;                 /* [steps of taps][segments][panels of a group][taps of the step][channels][panel_width()] */
    char *scratch;                  /* [slots][slot_bytes]: see slot_view */
    size_t slot_bytes;
    size_t col0, cols, padded;      /* this group's columns; padded to nr / 2 */
    size_t row_block, segment, segments;
    size_t joined;                  /* taps per step; more than 1 only where all channels are one segment */
    size_t chunk, expanded;         /* channels per packing task; floats of expanded weights a slot must hold */
} blocked_job;

/* One thread's scratch. */
typedef struct slot_view {
    float *acc;                     /* [row_block + 1][padded]: the last row takes what surplus tile rows compute */
    float *strip;                   /* [mr][ESI_STRIP]: rows of x */
    float *expanded;                /* weights of nr columns while packing; shares memory with acc */
    uint32_t *out_rows, *in_rows;   /* [row_block]: rows of the block that have the tap, and the rows of x they read */
    uint32_t *rest;                 /* [row_block]: rows that lack some of the joined taps */
} slot_view;

enum { SPILL = 16 };                /* floats that esi_kernels.transpose may write beyond the end */

static size_t align_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static slot_view view(const blocked_job *j, int slot)
{
    char *base = j->scratch + (size_t)slot * j->slot_bytes;
    size_t mr = j->kernels->mr, acc = align_up(ESI_MAX((j->row_block + 1) * j->padded, j->expanded), 16);
    slot_view v;

    v.acc = v.expanded = (float *)(void *)base;
    v.strip = v.acc + acc;
    v.out_rows = (uint32_t *)(void *)(v.strip + align_up(mr * ESI_STRIP, 16));
    v.in_rows = v.out_rows + align_up(j->row_block, 16);
    v.rest = v.in_rows + align_up(j->row_block, 16);
    return v;
}

static size_t slot_bytes(const blocked_job *j)
{
    size_t mr = j->kernels->mr, acc = align_up(ESI_MAX((j->row_block + 1) * j->padded, j->expanded), 16);
    return sizeof(float) * (acc + align_up(mr * ESI_STRIP, 16) + 3 * align_up(j->row_block, 16));
}

/* Panels are nr columns wide, the last one perhaps half of that. */
static size_t panel_count(const blocked_job *j) { return (j->padded + j->kernels->nr - 1) / j->kernels->nr; }

static size_t panel_width(const blocked_job *j, size_t panel) { return ESI_MIN(j->kernels->nr, j->padded - panel * j->kernels->nr); }

static size_t joined_taps(const blocked_job *j, size_t first) { return ESI_MIN(j->joined, j->p->taps - first); }

static size_t segment_length(const blocked_job *j, size_t s) { return ESI_MIN(j->segment, j->p->ci - s * j->segment); }

/* Rows of panel_width() weights of segment s of a tap. Panels of a step lie one after the other, whole. */
static float *panel_rows(const blocked_job *j, size_t tap, size_t s, size_t panel)
{
    size_t in_step = tap % j->joined, first = tap - in_step, depth = joined_taps(j, first) * segment_length(j, s);
    float *step = j->weights + (first * j->p->ci + s * j->segment) * j->padded;
    return step + panel * depth * j->kernels->nr + in_step * j->p->ci * panel_width(j, panel);
}

/* Tap-major weights: a task packs one panel of nr columns of one tap. */
static void pack_task(void *arg, size_t task, int slot)
{
    const blocked_job *j = arg;
    const esi_product *p = j->p;
    size_t nr = j->kernels->nr, panels = panel_count(j), panel = task % panels, tap = task / panels;
    size_t col = j->col0 + panel * nr, count = ESI_MIN(nr, p->cols - col), width = panel_width(j, panel);
    const float *rows[64];
    slot_view v = view(j, slot);

    for (size_t i = 0; i < count; i++) rows[i] = v.expanded + i * j->segment;
    for (size_t s = 0; s < j->segments; s++) {
        size_t c = s * j->segment, n = segment_length(j, s);
        for (size_t i = 0; i < count; i++)
            j->kernels->expand(v.expanded + i * j->segment, p->w + (col + i) * p->w_row_bytes, p->w_dtype, tap * p->ci + c, n);
        j->kernels->transpose(panel_rows(j, tap, s, panel), width, rows, count, width, n);
    }
}

/* Channel-major weights: a task packs one panel of a few channels, all taps, so that every weight is read once. */
static void pack_channels_task(void *arg, size_t task, int slot)
{
    const blocked_job *j = arg;
    const esi_product *p = j->p;
    size_t nr = j->kernels->nr, panels = panel_count(j), panel = task % panels, first = task / panels * j->chunk;
    size_t col = j->col0 + panel * nr, count = ESI_MIN(nr, p->cols - col), channels = ESI_MIN(j->chunk, p->ci - first);
    size_t width = panel_width(j, panel);
    slot_view v = view(j, slot);

    memset(v.expanded, 0, nr * j->chunk * p->taps * sizeof(float));
    for (size_t i = 0; i < count; i++)
        j->kernels->expand(v.expanded + i * j->chunk * p->taps, p->w + (col + i) * p->w_row_bytes, p->w_dtype, first * p->taps,
                           channels * p->taps);
    for (size_t tap = 0; tap < p->taps; tap++)
        for (size_t c = first; c < first + channels; c++) {
            float *out = panel_rows(j, tap, c / j->segment, panel) + c % j->segment * width;
            const float *in = v.expanded + (c - first) * p->taps + tap;
            for (size_t i = 0; i < width; i++) out[i] = in[i * j->chunk * p->taps];
        }
}

static espalier_status pack(espalier_context *ctx, blocked_job *j)
{
    size_t panels = panel_count(j);

    if (j->p->channel_step == 1) return esi_parallel(ctx, j->p->taps * panels, pack_task, j);
    return esi_parallel(ctx, (j->p->ci + j->chunk - 1) / j->chunk * panels, pack_channels_task, j);
}

/* Rows of the block [row, row + n) that have the tap. */
static size_t list_rows(const esi_product *p, size_t tap, size_t row, size_t n, slot_view *v)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        size_t in = p->table ? (size_t)(int64_t)p->table[(row + i) * p->table_stride + tap] : row + i;
        v->out_rows[count] = (uint32_t)i;
        v->in_rows[count] = (uint32_t)in;
        count += in < p->x_rows;
    }
    return count;
}

#if defined(__GNUC__)
#  define PREFETCH(p) __builtin_prefetch(p)
#else
#  define PREFETCH(p) ((void)(p))
#endif

/* While a panel is computed, ask for a part of the rows that the next strip will copy: part i of as many as there are panels. */
static void fetch_next(const blocked_job *j, const slot_view *v, size_t first, size_t listed, size_t c, size_t n, size_t part)
{
    size_t panels = panel_count(j), rows = ESI_MIN(j->kernels->mr, listed - ESI_MIN(first, listed));
    size_t from = part * rows / panels, to = (part + 1) * rows / panels;

    for (size_t i = from; i < to; i++) {
        const float *row = j->p->x + v->in_rows[first + i] * j->p->x_stride + c;
        for (size_t k = 0; k < n; k += 16) PREFETCH(row + k);
    }
}

static inline void copy_floats(float *to, const float *from, size_t n)
{
    for (; n >= 16; n -= 16, to += 16, from += 16) memcpy(to, from, 16 * sizeof *to);
    for (size_t i = 0; i < n; i++) to[i] = from[i];
}

/* Where the tile of `count` listed rows from g on adds to; surplus rows up to m go to a row of their own. */
static void tile_rows(const blocked_job *j, const slot_view *v, float **out, size_t g, size_t count, size_t m)
{
    for (size_t i = 0; i < count; i++) out[i] = v->acc + v->out_rows[g + i] * j->padded;
    for (size_t i = count; i < m; i++) out[i] = v->acc + j->row_block * j->padded;
}

/* acc += x * w for the listed rows and one segment of one tap. */
static void add_segment(const blocked_job *j, const slot_view *v, size_t listed, size_t tap, size_t s)
{
    const esi_kernels *k = j->kernels;
    size_t mr = k->mr, c = s * j->segment, n = segment_length(j, s);

    for (size_t g = 0; g < listed; g += mr) {
        size_t count = ESI_MIN(mr, listed - g), m = ESI_MIN(mr, align_up(count, k->m_step));
        float *out[16];

        tile_rows(j, v, out, g, count, m);
        for (size_t i = 0; i < count; i++) copy_floats(v->strip + i * ESI_STRIP, j->p->x + v->in_rows[g + i] * j->p->x_stride + c, n);
        for (size_t panel = 0; panel < panel_count(j); panel++) {
            fetch_next(j, v, g + mr, listed, c, n, panel);
            k->gemm_strip(m, n, v->strip, panel_rows(j, tap, s, panel), panel_width(j, panel), out, panel * k->nr);
        }
    }
}

/* The same for `taps` joined taps, all of which the listed rows have. */
static void add_joined(const blocked_job *j, const slot_view *v, size_t listed, size_t row, size_t tap, size_t taps)
{
    const esi_kernels *k = j->kernels;
    const esi_product *p = j->p;
    size_t mr = k->mr, n = p->ci;

    for (size_t g = 0; g < listed; g += mr) {
        size_t count = ESI_MIN(mr, listed - g), m = ESI_MIN(mr, align_up(count, k->m_step));
        float *out[16];

        tile_rows(j, v, out, g, count, m);
        for (size_t i = 0; i < count; i++) {
            const int32_t *in = p->table + (row + v->out_rows[g + i]) * p->table_stride + tap;
            for (size_t t = 0; t < taps; t++) copy_floats(v->strip + i * ESI_STRIP + t * n, p->x + (size_t)in[t] * p->x_stride, n);
        }
        for (size_t panel = 0; panel < panel_count(j); panel++)
            k->gemm_strip(m, taps * n, v->strip, panel_rows(j, tap, 0, panel), panel_width(j, panel), out, panel * k->nr);
    }
}

static bool has_tap(const esi_product *p, size_t row, size_t tap)
{
    return (size_t)(int64_t)p->table[row * p->table_stride + tap] < p->x_rows;
}

/* A step of joined taps for the block [row, row + n). */
static void add_step(const blocked_job *j, slot_view *v, size_t row, size_t n, size_t tap)
{
    const esi_product *p = j->p;
    size_t taps = joined_taps(j, tap), listed = 0, rest = 0;

    for (size_t i = 0; i < n; i++) {
        size_t present = 0;
        for (size_t t = 0; t < taps; t++) present += has_tap(p, row + i, tap + t);
        if (present == taps) v->out_rows[listed++] = (uint32_t)i;
        else if (present > 0) v->rest[rest++] = (uint32_t)i;
    }
    add_joined(j, v, listed, row, tap, taps);
    for (size_t t = tap; rest > 0 && t < tap + taps; t++) {
        listed = 0;
        for (size_t r = 0; r < rest; r++) {
            size_t i = v->rest[r];
            v->out_rows[listed] = (uint32_t)i;
            v->in_rows[listed] = (uint32_t)p->table[(row + i) * p->table_stride + t];
            listed += has_tap(p, row + i, t);
        }
        add_segment(j, v, listed, t, 0);
    }
}

static void rows_task(void *arg, size_t task, int slot)
{
    const blocked_job *j = arg;
    const esi_product *p = j->p;
    size_t row = task * j->row_block, n = ESI_MIN(j->row_block, p->rows - row);
    esi_epilogue_rows e = p->e;
    slot_view v = view(j, slot);

    memset(v.acc, 0, (j->row_block + 1) * j->padded * sizeof *v.acc);
    memset(v.strip, 0, j->kernels->mr * ESI_STRIP * sizeof *v.strip); /* surplus rows: any finite number */
    for (size_t tap = 0; j->joined > 1 && tap < p->taps; tap += j->joined) add_step(j, &v, row, n, tap);
    for (size_t tap = 0; j->joined == 1 && tap < p->taps; tap++) {
        size_t listed = list_rows(p, tap, row, n, &v);
        for (size_t s = 0; listed > 0 && s < j->segments; s++) add_segment(j, &v, listed, tap, s);
    }
    if (e.bias) e.bias += j->col0;
    if (e.scale) e.scale += j->col0;
    if (e.gate) e.gate += j->col0;
    for (size_t i = 0; i < n; i++) {
        if (e.residual) e.residual = p->e.residual + (row + i) * p->residual_stride + j->col0;
        j->kernels->epilogue(p->y + (row + i) * p->y_stride + j->col0, v.acc + i * j->padded, j->cols, &e);
    }
}

/* Rows per task: enough that a segment is used many times, few enough that accumulators stay in cache and within `floats`, and every
 * thread has work. */
static size_t choose_row_block(const blocked_job *j, size_t rows, size_t threads, uint64_t floats)
{
    size_t mr = j->kernels->mr, most = ESI_MIN(ESI_MAX((size_t)65536 / j->padded, (size_t)240), (size_t)2040), blocks;

    most = ESI_MAX((size_t)ESI_MIN(floats / j->padded, (uint64_t)most), mr);
    blocks = align_up((rows + most - 1) / most, threads);
    return align_up(ESI_MAX((rows + blocks - 1) / blocks, mr), mr);
}

/* Columns per group: as many as the limits allow, in groups of about the same size. `acc_floats` are one thread's, which needs a tile and
 * the surplus row at least. */
static size_t choose_group(const esi_kernels *kernels, size_t cols, size_t k, uint64_t weight_floats, uint64_t acc_floats)
{
    uint64_t limit = ESI_MIN(ESI_MIN(weight_floats, (uint64_t)PACK_FLOATS) / ESI_MAX(k, (size_t)1), acc_floats / (kernels->mr + 1));
    size_t nr = kernels->nr, most = ESI_MAX((size_t)ESI_MIN(limit, (uint64_t)GROUP_COLUMNS) / nr * nr, nr);
    size_t groups;

    groups = (cols + most - 1) / most;
    return align_up((cols + groups - 1) / groups, groups == 1 ? nr / 2 : nr);
}

static espalier_status blocked_product(espalier_context *ctx, const esi_product *p)
{
    blocked_job job = {.kernels = esi_cpu_table(ctx), .p = p, .joined = 1};
    size_t nr = job.kernels->nr, k = p->taps * p->ci, group, packed;
    uint64_t floats_left = esi_memory_left(ctx) / sizeof(float), acc_floats = floats_left / 2 / (uint64_t)esi_slots(ctx);
    espalier_status st = ESPALIER_OK;

    if (p->rows > UINT32_MAX || p->x_rows > UINT32_MAX) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "product: too many rows");
    job.segment = ESI_MAX(ESI_MIN(p->ci, (size_t)SEGMENT_CHANNELS), (size_t)1);
    job.segments = (p->ci + job.segment - 1) / job.segment;
    if (p->table && p->ci > 0 && p->ci <= JOINED_CHANNELS) job.joined = ESI_MAX(ESI_MIN(ESI_STRIP / p->ci, p->taps), (size_t)1);
    group = job.padded = choose_group(job.kernels, p->cols, k, floats_left / 8, acc_floats);
    job.chunk = ESI_MAX(ESI_MIN((size_t)PACK_CHANNELS, 1024 / ESI_MAX(p->taps, (size_t)1)), (size_t)1);
    job.expanded = nr * ESI_MAX(job.segment, job.chunk * p->taps);
    job.row_block = choose_row_block(&job, p->rows, (size_t)esi_slots(ctx), acc_floats);
    job.slot_bytes = align_up(slot_bytes(&job), ESI_ALIGN);
    if (!esi_mul_size(&packed, k, group)) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "product: weights are too large");
    job.weights = esi_alloc(ctx, packed + SPILL, sizeof *job.weights, "packed weights");
    job.scratch = esi_alloc(ctx, (size_t)esi_slots(ctx), job.slot_bytes, "accumulators");
    if (!job.weights || !job.scratch) st = ctx->error_status;

    for (job.col0 = 0; st == ESPALIER_OK && job.col0 < p->cols; job.col0 += group) {
        job.cols = ESI_MIN(group, p->cols - job.col0);
        job.padded = align_up(job.cols, nr / 2);
        st = pack(ctx, &job);
        if (st == ESPALIER_OK) st = esi_parallel(ctx, (p->rows + job.row_block - 1) / job.row_block, rows_task, &job);
    }
    esi_free(ctx, job.weights);
    esi_free(ctx, job.scratch);
    return st;
}

/* ------------------------------------------------------------------- entry */

static espalier_status run(espalier_context *ctx, esi_product *p, const esi_epilogue *e)
{
    float *bias = NULL, *scale = NULL, *gate = NULL;
    espalier_status st = esi_cpu_vector(ctx, &bias, e->bias);

    if (st == ESPALIER_OK) st = esi_cpu_vector(ctx, &scale, e->scale);
    if (st == ESPALIER_OK) st = esi_cpu_vector(ctx, &gate, e->gate);
    if (st == ESPALIER_OK) {
        p->e = (esi_epilogue_rows){bias, scale, gate, esi_cpu_f32(e->residual), e->act};
        p->residual_stride = (size_t)e->residual.stride;
        st = esi_cpu_table(ctx)->mr > 0 ? blocked_product(ctx, p) : plain_product(ctx, p);
    }
    esi_free(ctx, bias);
    esi_free(ctx, scale);
    esi_free(ctx, gate);
    return st;
}

static espalier_status begin(espalier_context *ctx, esi_product *p, esi_tensor y, esi_tensor x, esi_tensor w)
{
    memset(p, 0, sizeof *p);
    p->y = esi_cpu_f32(y);
    p->x = esi_cpu_f32(x);
    p->w = esi_cpu_bytes(w);
    p->y_stride = (size_t)y.stride;
    p->x_stride = (size_t)x.stride;
    p->rows = (size_t)y.rows;
    p->cols = (size_t)y.cols;
    p->ci = (size_t)x.cols;
    p->x_rows = (size_t)x.rows;
    p->w_dtype = w.dtype;
    if (!esi_dtype_row_bytes(w.dtype, w.stride, &p->w_row_bytes))
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "product: impossible weight row");
    return ESPALIER_OK;
}

espalier_status esi_cpu_linear(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor w, const esi_epilogue *e)
{
    esi_product p;
    espalier_status st = begin(ctx, &p, y, x, w);

    p.taps = 1;
    p.channel_step = 1;
    return st == ESPALIER_OK ? run(ctx, &p, e) : st;
}

espalier_status esi_cpu_conv(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor table, esi_tensor w, esi_conv_layout layout,
                             const esi_epilogue *e)
{
    esi_product p;
    espalier_status st = begin(ctx, &p, y, x, w);

    p.table = esi_cpu_i32(table);
    p.table_stride = (size_t)table.stride;
    p.taps = (size_t)table.cols;
    p.tap_step = layout == ESI_CONV_TAP_MAJOR ? p.ci : 1;
    p.channel_step = layout == ESI_CONV_TAP_MAJOR ? 1 : p.taps;
    return st == ESPALIER_OK ? run(ctx, &p, e) : st;
}

_Static_assert((int)SEGMENT_CHANNELS <= ESI_STRIP, "a strip must hold a segment");
