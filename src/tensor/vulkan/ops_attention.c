/* SPDX-License-Identifier: MIT
 *
 * ops_attention.c: softmax attention (rule 7) on the device. The work is a grid of tiles: windows, heads of each, queries of each head; a
 * workgroup takes one tile over all keys. What one dispatch gets is bounded twice: by what can be bound (a frame: windows, heads and
 * queries whose operands can be bound together) and by time (a batch of the frame's tiles, and so many keys). Where the keys of a tile come
 * in several dispatches, they are cut between the rule's tiles of 64, and the running maximum, sum and values lie in a scratch tensor in
 * between, so cutting cannot change a bit. Where even 64 keys cannot be bound, because they lie in two parts of a tensor or far apart, a
 * copy of them is.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

enum { UNIT = 16 };                         /* multiply-adds in a unit of work, as in ops_product.c */
enum { TILE = 64, COLUMNS_MOST = 128, STATE_MOST = 16 << 20, GROUPS_ENOUGH = 512 };
enum { HAS_BIAS = 1 << 28, HAS_REGION = 1 << 29, FIRST_KEYS = 1 << 30 };
#define LAST_KEYS (UINT32_C(1) << 31)

/* Mesa's software device leaves loops early, without a word, when an invocation has gone round its loops 65535 times in all. */
#define SOFTWARE_TRIPS 50000

typedef struct job {
    esi_tensor y, q, k, v, bias, region;
    int64_t windows, heads, dim, nq, nk;
    int64_t tile;                           /* queries of a workgroup */
    float scale;
    esi_vk_shader shader;
    int64_t key_tiles_most;                 /* in one dispatch */
    int64_t state_groups;                   /* whose state there is room for; 0: all keys always come in one dispatch */
    esi_tensor state, some_k, some_v;       /* scratch; the others: a tile of keys and their values */
} job;

/* First and count of what one dispatch may bind. Columns: of the values, of each head. */
typedef struct frame {
    int64_t window, windows, head, heads, query, queries, column, columns;
    bool all_keys;                          /* can be bound, too */
} frame;

static int64_t div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t key_tiles(const job *j) { return ESI_MAX(div_up(j->nk, TILE), INT64_C(1)); }
static int64_t groups_of(const job *j, const frame *f) { return f->windows * f->heads * div_up(f->queries, j->tile); }
static int32_t kind_of(int64_t columns) { return (int32_t)div_up(columns, 16); }

/* ------------------------------------------------------------------ frames */

/* Rows of both tensors, from `first` on, that can be bound. */
static int64_t rows_bound(const esi_vk_device *d, esi_tensor a, esi_tensor b, int64_t first)
{
    return ESI_MIN(esi_vk_rows_bound(d, esi_rows(a, first, a.rows - first)), esi_vk_rows_bound(d, esi_rows(b, first, b.rows - first)));
}

static bool can_bind_whole(const esi_vk_device *d, esi_tensor t)
{
    return esi_tensor_is_null(t) || esi_vk_rows_bound(d, t) >= t.rows;
}

/* How many windows, and whether all keys of the window or of these windows. */
static void choose_windows(const esi_vk_device *d, const job *j, frame *f)
{
    int64_t by_queries = rows_bound(d, j->q, j->y, f->window * j->nq) / j->nq;
    int64_t by_keys = j->nk > 0 ? rows_bound(d, j->k, j->v, f->window * j->nk) / j->nk : INT64_MAX;

    f->all_keys = by_keys > 0;
    f->windows = ESI_MIN(ESI_MIN(by_queries, by_keys), j->windows - f->window);
    if (!can_bind_whole(d, j->bias)) f->windows = 1;
    f->windows = ESI_MAX(f->windows, INT64_C(1));
}

/* Rows of a bias are numbered through the heads, so several of these go together only with all of their queries. */
static void choose_heads(const esi_vk_device *d, const job *j, frame *f)
{
    bool all = esi_tensor_is_null(j->bias) || (can_bind_whole(d, j->bias) && rows_bound(d, j->q, j->y, f->window * j->nq) >= j->nq);
    f->heads = all ? j->heads - f->head : 1;
}

static void choose_queries(const esi_vk_device *d, const job *j, frame *f)
{
    int64_t first = f->head * j->nq + f->query;

    f->queries = j->nq - f->query;
    if (f->windows > 1) return;
    f->queries = ESI_MIN(f->queries, rows_bound(d, j->q, j->y, f->window * j->nq + f->query));
    if (esi_tensor_is_null(j->bias) || f->heads > 1) return;
    f->queries = ESI_MIN(f->queries, esi_vk_rows_bound(d, esi_rows(j->bias, first, j->bias.rows - first)));
}

/* ----------------------------------------------------------------- batches */

/* Work of a workgroup for a tile of keys. */
static int64_t cost(const job *j, int64_t columns) { return j->tile * TILE / UNIT * (j->dim + columns); }

static int64_t trips(const esi_vk_device *d, const job *j)
{
    bool rolled = d->info.fma == ESI_VULKAN_FMA_INTEGER; /* the shader's loops */
    return (j->dim + 32) * (rolled ? 10 : 2) + (rolled ? 1100 : 300);
}

/* Tiles of one frame that go together, and tiles of keys that they get; few workgroups do not fill a device, so rather few keys. */
static void choose_batch(const esi_vk_device *d, const job *j, const frame *f, int64_t left, int64_t *groups, int64_t *tiles)
{
    int64_t limit = (int64_t)ESI_MIN(esi_vk_work_limit(d, j->shader, kind_of(f->columns), 0), (uint64_t)INT64_MAX / 2);
    int64_t of_time = limit / cost(j, f->columns), with_all_keys = of_time / key_tiles(j), enough = ESI_MIN(left, (int64_t)GROUPS_ENOUGH);

    *tiles = key_tiles(j);
    *groups = ESI_MAX(ESI_MIN(left, with_all_keys), INT64_C(1));
    if (j->state_groups == 0 || (with_all_keys >= enough && f->all_keys && *tiles <= j->key_tiles_most)) return;
    *groups = ESI_MIN(ESI_MAX(ESI_MIN(enough, of_time), INT64_C(1)), j->state_groups);
    *tiles = ESI_MIN(ESI_MAX(of_time / *groups, INT64_C(1)), j->key_tiles_most);
}

/* Room for the state of some tiles, if not every dispatch can have all keys. */
static espalier_status make_scratch(espalier_context *ctx, esi_vk_device *d, job *j)
{
    frame f = {.windows = j->windows, .heads = j->heads, .queries = j->nq, .columns = ESI_MIN(j->dim, (int64_t)COLUMNS_MOST)};
    int64_t groups, tiles, cols = j->tile * (f.columns + 2);
    espalier_status st;

    f.all_keys = can_bind_whole(d, j->k) && can_bind_whole(d, j->v);
    j->state_groups = (int64_t)ESI_MIN((uint64_t)STATE_MOST, esi_memory_left(ctx) / 4) / 4 / cols;
    j->state_groups = ESI_MIN(ESI_MIN(j->state_groups, esi_vk_elements_bound(d) / cols), ESI_MIN(groups_of(j, &f), (int64_t)GROUPS_ENOUGH));
    j->state_groups = ESI_MAX(j->state_groups, INT64_C(1));
    choose_batch(d, j, &f, groups_of(j, &f), &groups, &tiles);
    if (f.all_keys && tiles >= key_tiles(j)) {
        j->state_groups = 0;
        return ESPALIER_OK;
    }
    st = esi_tensor_new(ctx, &j->state, j->state_groups, cols, ESI_F32);
    if (st != ESPALIER_OK || f.all_keys) return st;
    st = esi_tensor_new(ctx, &j->some_k, TILE, j->k.cols, ESI_F32);
    return st == ESPALIER_OK ? esi_tensor_new(ctx, &j->some_v, TILE, j->v.cols, ESI_F32) : st;
}

/* -------------------------------------------------------------- dispatches */

static void bind_view(esi_vk_binding *bindings, esi_vk_push *push, size_t i, esi_tensor t)
{
    uint64_t elements = t.rows > 0 ? (uint64_t)((t.rows - 1) * t.stride + t.cols) : 0;

    bindings[i] = (esi_vk_binding){esi_vk_range_of(t), esi_vk_offset(t), elements * 4};
    push->at[i].stride = (uint32_t)t.stride;
}

static espalier_status copy_rows(espalier_context *ctx, esi_vk_device *d, esi_tensor to, esi_tensor from)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t row = 0, n; st == ESPALIER_OK && row < from.rows; row += n) {
        esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
        esi_vk_push push = {.cols = (uint32_t)from.cols};
        uint64_t items;

        n = ESI_MIN(from.rows - row, rows_bound(d, to, from, row));
        items = (uint64_t)n * (uint64_t)from.cols;
        push.rows = (uint32_t)n;
        bind_view(bindings, &push, 0, esi_rows(to, row, n));
        bind_view(bindings, &push, 1, esi_rows(from, row, n));
        st = esi_vk_dispatch(ctx, d, "attention", ESI_VK_ELEMENTWISE, ESI_EW_COPY, 0, bindings, &push,
                             (items + esi_vk_workgroup(d) - 1) / esi_vk_workgroup(d), items);
    }
    return st;
}

/* Queries of a frame's windows. */
static esi_tensor query_rows(const job *j, const frame *f, esi_tensor t)
{
    return esi_rows(t, f->window * j->nq + f->query, (f->windows - 1) * j->nq + f->queries);
}

static esi_tensor key_rows(const job *j, const frame *f, esi_tensor t, int64_t key, int64_t keys)
{
    return esi_rows(t, f->window * j->nk + key, (f->windows - 1) * j->nk + keys);
}

/* The tiles [group, group + groups) of a frame with some keys: k, v, region as they are bound. */
static espalier_status dispatch(espalier_context *ctx, esi_vk_device *d, const job *j, const frame *f, int64_t group, int64_t groups,
                                int64_t key, int64_t keys, esi_tensor k, esi_tensor v)
{
    const int64_t first = f->head * j->dim, head_columns = f->heads * j->dim, value_columns = (f->heads - 1) * j->dim + f->columns;
    esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
    esi_vk_push push = {.rows = (uint32_t)groups, .cols = (uint32_t)j->dim, .f = {j->scale}};

    push.n[0] = (uint32_t)f->queries;
    push.n[1] = (uint32_t)j->nk;
    push.n[2] = (uint32_t)keys;
    push.n[3] = (uint32_t)f->heads | (uint32_t)f->columns << 16 | (key == 0 ? FIRST_KEYS : 0) | (key + keys == j->nk ? LAST_KEYS : 0);
    push.n[4] = (uint32_t)group;
    bind_view(bindings, &push, 0, esi_cols(query_rows(j, f, j->y), first + f->column, value_columns));
    bind_view(bindings, &push, 1, esi_cols(query_rows(j, f, j->q), first, head_columns));
    bind_view(bindings, &push, 2, esi_cols(k, first, head_columns));
    bind_view(bindings, &push, 3, esi_cols(v, first + f->column, value_columns));
    if (!esi_tensor_is_null(j->bias)) {
        esi_tensor rows = esi_rows(j->bias, f->head * j->nq + f->query, (f->heads - 1) * j->nq + f->queries);
        bind_view(bindings, &push, 4, esi_cols(rows, key, keys));
        push.n[3] |= HAS_BIAS;
    }
    if (!esi_tensor_is_null(j->region)) {
        bind_view(bindings, &push, 5, query_rows(j, f, j->region));
        bind_view(bindings, &push, 6, key_rows(j, f, j->region, key, keys));
        push.n[3] |= HAS_REGION;
    }
    if (!esi_tensor_is_null(j->state)) bind_view(bindings, &push, 7, esi_rows(j->state, 0, groups));
    return esi_vk_dispatch(ctx, d, "attention", j->shader, kind_of(f->columns), 0, bindings, &push, (uint64_t)groups,
                           (uint64_t)groups * (uint64_t)ESI_MAX(div_up(keys, TILE), INT64_C(1)) * (uint64_t)cost(j, f->columns));
}

/* The next keys, at most `wanted`, for some tiles of a frame. */
static espalier_status next_keys(espalier_context *ctx, esi_vk_device *d, const job *j, const frame *f, int64_t group, int64_t groups,
                                 int64_t key, int64_t wanted, int64_t *keys)
{
    int64_t most = f->all_keys ? INT64_MAX : rows_bound(d, j->k, j->v, f->window * j->nk + key);
    espalier_status st;

    *keys = ESI_MIN(wanted, j->nk - key);
    if (*keys > most) *keys = most / TILE * TILE;
    if (*keys > 0 || j->nk == 0)
        return dispatch(ctx, d, j, f, group, groups, key, *keys, key_rows(j, f, j->k, key, *keys), key_rows(j, f, j->v, key, *keys));
    *keys = ESI_MIN((int64_t)TILE, j->nk - key);
    st = copy_rows(ctx, d, j->some_k, key_rows(j, f, j->k, key, *keys));
    if (st == ESPALIER_OK) st = copy_rows(ctx, d, j->some_v, key_rows(j, f, j->v, key, *keys));
    if (st != ESPALIER_OK) return st;
    return dispatch(ctx, d, j, f, group, groups, key, *keys, esi_rows(j->some_k, 0, *keys), esi_rows(j->some_v, 0, *keys));
}

static espalier_status run_frame(espalier_context *ctx, esi_vk_device *d, const job *j, const frame *f)
{
    const int64_t total = groups_of(j, f);
    espalier_status st = ESPALIER_OK;

    for (int64_t group = 0, groups, tiles; st == ESPALIER_OK && group < total; group += groups) {
        int64_t key = 0, keys;

        choose_batch(d, j, f, total - group, &groups, &tiles);
        do {
            st = esi_check_cancel(ctx);
            if (st == ESPALIER_OK) st = next_keys(ctx, d, j, f, group, groups, key, tiles * TILE, &keys);
            if (st == ESPALIER_OK) key += keys;
        } while (st == ESPALIER_OK && key < j->nk);
    }
    return st;
}

static espalier_status run_columns(espalier_context *ctx, esi_vk_device *d, const job *j, frame f)
{
    espalier_status st = ESPALIER_OK;

    for (f.column = 0; st == ESPALIER_OK && f.column < j->dim; f.column += f.columns) {
        f.columns = ESI_MIN(j->dim - f.column, (int64_t)COLUMNS_MOST);
        st = run_frame(ctx, d, j, &f);
    }
    return st;
}

static espalier_status run_frames(espalier_context *ctx, esi_vk_device *d, const job *j)
{
    espalier_status st = ESPALIER_OK;
    frame f = {0};

    for (f.window = 0; st == ESPALIER_OK && f.window < j->windows; f.window += f.windows) {
        choose_windows(d, j, &f);
        for (f.head = 0; st == ESPALIER_OK && f.head < j->heads; f.head += f.heads) {
            choose_heads(d, j, &f);
            for (f.query = 0; st == ESPALIER_OK && f.query < j->nq; f.query += f.queries) {
                choose_queries(d, j, &f);
                st = run_columns(ctx, d, j, f);
            }
        }
    }
    return st;
}

/* ------------------------------------------------------------------ the op */

static espalier_status run(espalier_context *ctx, esi_vk_device *d, job *j)
{
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = esi_check_cancel(ctx);

    if (st == ESPALIER_OK) st = make_scratch(ctx, d, j);
    if (st == ESPALIER_OK) {
        const esi_tensor inputs[] = {j->q, j->k, j->v, j->bias, j->region}, outputs[] = {j->y, j->state, j->some_k, j->some_v};
        esi_vk_lock(d);
        d->calls++;
        for (size_t i = 0; i < ESI_COUNT(inputs) && st == ESPALIER_OK; i++) st = esi_vk_input(ctx, d, inputs[i]);
        for (size_t i = 0; i < ESI_COUNT(outputs) && st == ESPALIER_OK; i++)
            if (!esi_tensor_is_null(outputs[i])) st = esi_vk_output(ctx, d, outputs[i]);
        if (st == ESPALIER_OK) st = run_frames(ctx, d, j);
        esi_vk_unlock(d);
    }
    esi_scope_end(ctx, scope);
    return st;
}

/* Numbers that the shader keeps in 32 bits, or in parts of them; what must be bound for the smallest dispatch. */
static bool can_run(const esi_vk_device *d, const job *j)
{
    const esi_tensor operands[] = {j->y, j->q, j->k, j->v, j->bias, j->region};
    const int64_t most = esi_vk_elements_bound(d);

    if (j->heads > 0xffff || j->dim > 0xffff || j->nq > INT32_MAX || j->nk > INT32_MAX || j->key_tiles_most < 1 ||
        j->windows > INT32_MAX / j->heads / div_up(j->nq, j->tile))
        return false;
    for (size_t i = 0; i < ESI_COUNT(operands); i++)
        if (!esi_vk_placeable(d, operands[i]) || (!esi_tensor_is_null(operands[i]) && esi_vk_rows_bound(d, operands[i]) == 0)) return false;
    return TILE * j->heads * j->dim <= most && j->tile * (ESI_MIN(j->dim, (int64_t)COLUMNS_MOST) + 2) <= most &&
           can_bind_whole(d, j->region);
}

static bool is_trusted(espalier_context *ctx, esi_vk_device *d, const job *j)
{
    const int64_t rest = j->dim % COLUMNS_MOST;

    if (rest > 0 && esi_vk_try(ctx, d, "attention", j->shader, kind_of(rest), 0) != ESI_VK_GOOD) return false;
    if (j->dim >= COLUMNS_MOST && esi_vk_try(ctx, d, "attention", j->shader, kind_of(COLUMNS_MOST), 0) != ESI_VK_GOOD) return false;
    return esi_vk_try(ctx, d, "copy", ESI_VK_ELEMENTWISE, ESI_EW_COPY, 0) == ESI_VK_GOOD;
}

espalier_status esi_vk_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                 const esi_attention_args *a)
{
    esi_vk_device *d = esi_vk_of(ctx);
    /* With fp64 every fma that is written out takes the driver long to compile. */
    bool large = d->info.shared_memory >= 31 << 10 && d->info.fma != ESI_VULKAN_FMA_FP64;
    job j = {.y = y, .q = q, .k = k, .v = v, .bias = a->bias, .region = a->region, .windows = a->windows, .heads = a->heads,
             .dim = q.cols / a->heads, .nq = q.rows / a->windows, .nk = k.rows / a->windows, .tile = large ? 64 : 32, .scale = a->scale,
             .shader = large ? ESI_VK_ATTENTION : ESI_VK_ATTENTION_SMALL, .key_tiles_most = INT64_MAX};
    espalier_status st;

    if (strcmp(d->info.type, "cpu") == 0) j.key_tiles_most = SOFTWARE_TRIPS / trips(d, &j);
    if (can_run(d, &j) && is_trusted(ctx, d, &j)) return run(ctx, d, &j);
    st = TO_HOST("attention", OP_ATTENTION, 1, q, k, v, a->bias, a->region, y);
    return st == ESPALIER_OK ? esi_cpu_attention(ctx, y, q, k, v, a) : st;
}
