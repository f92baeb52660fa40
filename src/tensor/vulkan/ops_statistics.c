/* SPDX-License-Identifier: MIT
 *
 * ops_statistics.c: ops that need sums over all rows: row sums, group norm, the mean of rows, the count of NaN.
 *
 * Where the definition adds rows in order in fp64 on the host (sums of the whole tensor, group norm), the device makes the sums of each
 * row, and the host reads these and adds them: they are one number of many, and a chain of additions is what a device is slow at. The mean
 * of rows has as many chains as columns, and its result stays on the device, so all of it happens there.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

/* KIND of statistics.comp. */
enum { GROUP_SUMS, GROUP_SQUARES, GROUP_APPLY, COUNT, MEAN, NARROW_SUMS, NARROW_SQUARES };

#define SUMS_MOST (INT64_C(1) << 20)        /* numbers that are read back at once */
#define COUNT_GROUPS 240                    /* workgroups that share the elements of a dispatch */
#define COUNT_ELEMENTS (INT64_C(1) << 30)   /* in one dispatch: their numbers have 32 bits */
#define MEAN_ROWS INT64_C(16384)            /* in one dispatch: one after the other, however fast the device is */
#define ADDITION 4                          /* work of an fp64 addition in integers, in elements */

/* ---------------------------------------------------------------- row sums */

static espalier_status row_sums_on_device(espalier_context *ctx, const esi_vk_call *c, float *sum, float *sum_of_squares)
{
    esi_vk_call with_result = *c;
    esi_scope scope = esi_scope_begin(ctx);
    float *pairs = NULL;
    esi_tensor result;
    espalier_status st = esi_tensor_new(ctx, &result, c->rows, 2, ESI_F32);

    if (st != ESPALIER_OK) goto done;
    with_result.operands[0] = (esi_vk_operand){result, ESI_VK_ROWS, true};
    st = esi_vk_run(ctx, esi_vk_of(ctx), &with_result);
    if (st != ESPALIER_OK) goto done;
    pairs = esi_alloc(ctx, (size_t)c->rows, 2 * sizeof *pairs, "row sums");
    st = pairs ? esi_vk_read(ctx, result, pairs) : ctx->error_status;
    for (int64_t r = 0; st == ESPALIER_OK && r < c->rows; r++) {
        sum[r] = pairs[2 * r];
        sum_of_squares[r] = pairs[2 * r + 1];
    }
done:
    esi_free(ctx, pairs);
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_vk_row_sums(espalier_context *ctx, esi_tensor x, float *sum, float *sum_of_squares)
{
    esi_vk_device *d = esi_vk_of(ctx);
    esi_vk_call c = {.what = "row_sums", .shader = ESI_VK_NORM, .kind = 2, .rows = x.rows, .work = x.cols, .lanes = 16, .items = 1,
        .operands = {{{0}, ESI_VK_NONE, false}, {x, ESI_VK_ROWS, false}}, .push = {.cols = (uint32_t)x.cols, .n = {1}}};
    espalier_status st;

    if (esi_vk_can_run(d, &c)) return row_sums_on_device(ctx, &c, sum, sum_of_squares);
    st = TO_HOST("row_sums", OP_ROW_SUMS, 0, x);
    return st == ESPALIER_OK ? esi_cpu_row_sums(ctx, x, sum, sum_of_squares) : st;
}

/* -------------------------------------------------------------- group norm */

typedef struct group_job {
    esi_vk_call sums, squares, apply;       /* without what is made on the way */
    int64_t rows, chunk, groups;
    double count, eps;
    esi_tensor x, some, mean, deviation;    /* some: the sums of a chunk of rows */
    float *host;                            /* the same, read back */
    double *total;
    float *values;                          /* means or deviations */
} group_job;

static group_job make_group_job(esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a)
{
    const uint32_t n = (uint32_t)(x.cols / groups);
    const bool narrow = n <= 16;
    group_job j = {.rows = x.rows, .groups = groups, .count = (double)x.rows * (double)(x.cols / groups), .eps = (double)a->eps, .x = x};

    j.chunk = ESI_MIN(x.rows, ESI_MAX(SUMS_MOST / groups, INT64_C(1)));
    j.sums = (esi_vk_call){.what = "group_norm", .shader = ESI_VK_STATISTICS, .kind = narrow ? NARROW_SUMS : GROUP_SUMS, .rows = x.rows,
        .work = x.cols, .lanes = narrow ? 1 : 16, .items = groups, .operands = {{{0}, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}},
        .push = {.cols = (uint32_t)x.cols, .n = {n, (uint32_t)groups}}};
    j.squares = j.sums;
    j.squares.kind = narrow ? NARROW_SQUARES : GROUP_SQUARES;
    j.apply = (esi_vk_call){.what = "group_norm", .shader = ESI_VK_STATISTICS, .kind = GROUP_APPLY, .act = (int32_t)a->act, .rows = x.rows,
        .work = x.cols, .lanes = 1,
        .operands = {{y, ESI_VK_ROWS, true}, {x, ESI_VK_ROWS, false}, {{0}, ESI_VK_NONE, false}, {{0}, ESI_VK_NONE, false},
                     {a->weight, ESI_VK_NONE, false}, {a->bias, ESI_VK_NONE, false}},
        .push = {.cols = (uint32_t)x.cols, .n = {n}}};
    j.apply.push.n[2] = (esi_tensor_is_null(a->weight) ? 0u : 1u) | (esi_tensor_is_null(a->bias) ? 0u : 2u);
    return j;
}

/* total[g] = the row values of every group in row order. */
static espalier_status add_groups(espalier_context *ctx, group_job *j, const esi_vk_call *c)
{
    espalier_status st = ESPALIER_OK;

    memset(j->total, 0, (size_t)j->groups * sizeof *j->total);
    for (int64_t first = 0, n; st == ESPALIER_OK && first < j->rows; first += n) {
        esi_vk_call part = *c;
        n = ESI_MIN(j->chunk, j->rows - first);
        part.rows = n;
        part.operands[0].t = esi_rows(j->some, 0, n);
        part.operands[1].t = esi_rows(j->x, first, n);
        part.operands[2] = (esi_vk_operand){j->mean, ESI_VK_NONE, false};    /* none yet: not asked for yet */
        st = esi_vk_run(ctx, esi_vk_of(ctx), &part);
        if (st == ESPALIER_OK) st = esi_vk_read(ctx, part.operands[0].t, j->host);
        for (int64_t r = 0; st == ESPALIER_OK && r < n; r++)
            for (int64_t g = 0; g < j->groups; g++) j->total[g] += (double)j->host[r * j->groups + g];
    }
    return st;
}

/* As words, because the store rule is not for them. */
static espalier_status to_device(espalier_context *ctx, const group_job *j, esi_tensor *t)
{
    return esi_tensor_from(ctx, t, 1, j->groups, ESI_I32, j->values);
}

static espalier_status group_norm_on_device(espalier_context *ctx, group_job *j)
{
    const size_t groups = (size_t)j->groups;
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = esi_tensor_new(ctx, &j->some, j->chunk, j->groups, ESI_F32);

    j->host = esi_alloc(ctx, (size_t)j->chunk, groups * sizeof *j->host, "group sums");
    j->total = esi_alloc(ctx, groups, sizeof *j->total, "group sums");
    j->values = esi_alloc(ctx, groups, sizeof *j->values, "group means");
    if (st == ESPALIER_OK && (!j->host || !j->total || !j->values)) st = ctx->error_status;
    if (st == ESPALIER_OK) st = add_groups(ctx, j, &j->sums);
    for (size_t g = 0; st == ESPALIER_OK && g < groups; g++) j->values[g] = (float)(j->total[g] / j->count);
    if (st == ESPALIER_OK) st = to_device(ctx, j, &j->mean);
    if (st == ESPALIER_OK) st = add_groups(ctx, j, &j->squares);
    for (size_t g = 0; st == ESPALIER_OK && g < groups; g++)
        j->values[g] = (float)(1.0 / __builtin_sqrt(j->total[g] / j->count + j->eps));
    if (st == ESPALIER_OK) st = to_device(ctx, j, &j->deviation);
    if (st == ESPALIER_OK) {
        j->apply.operands[2].t = j->mean;
        j->apply.operands[3].t = j->deviation;
        st = esi_vk_run(ctx, esi_vk_of(ctx), &j->apply);
    }
    esi_free(ctx, j->host);
    esi_free(ctx, j->total);
    esi_free(ctx, j->values);
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_vk_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a)
{
    esi_vk_device *d = esi_vk_of(ctx);
    group_job j = make_group_job(y, x, groups, a);
    espalier_status st;

    /* With no eps, squares that a device may flush would decide the result. */
    if (a->eps >= 0x1p-60f && groups <= esi_vk_elements_bound(d) && esi_vk_can_run(d, &j.sums) && esi_vk_can_run(d, &j.squares) &&
        esi_vk_can_run(d, &j.apply))
        return group_norm_on_device(ctx, &j);
    st = TO_HOST("group_norm", OP_GROUP_NORM, 1, x, a->weight, a->bias, y);
    return st == ESPALIER_OK ? esi_cpu_group_norm(ctx, y, x, groups, a) : st;
}

/* ------------------------------------------- over all rows, dispatch by dispatch */

static bool can_pass(espalier_context *ctx, esi_vk_device *d, esi_tensor x, const char *what, int32_t kind)
{
    return esi_vk_placeable(d, x) && x.cols <= INT32_MAX / 4 && x.cols * 2 <= esi_vk_elements_bound(d) && esi_vk_rows_bound(d, x) > 0 &&
           4 * COUNT_GROUPS <= esi_vk_elements_bound(d) && esi_vk_try(ctx, d, what, ESI_VK_STATISTICS, kind, 0) == ESI_VK_GOOD;
}

static esi_vk_binding binding_of(esi_tensor t)
{
    return (esi_vk_binding){esi_vk_range_of(t), esi_vk_offset(t), (uint64_t)((t.rows - 1) * t.stride + t.cols) * 4};
}

/* All rows of x in pieces of `most` at most. y or state: null where the kind has none. The lock is held. */
static espalier_status pass(espalier_context *ctx, esi_vk_device *d, const char *what, int32_t kind, esi_tensor y, esi_tensor x,
                            esi_tensor state, int64_t most, int64_t work, uint64_t groups)
{
    espalier_status st = esi_vk_input(ctx, d, x);

    d->calls++;
    if (st == ESPALIER_OK) st = esi_vk_output(ctx, d, y);
    if (st == ESPALIER_OK && !esi_tensor_is_null(state)) st = esi_vk_output(ctx, d, state);
    for (int64_t row = 0, n; st == ESPALIER_OK && row < x.rows; row += n) {
        esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
        esi_vk_push push = {.cols = (uint32_t)x.cols};

        n = ESI_MIN(ESI_MIN(x.rows - row, most), esi_vk_rows_bound(d, esi_rows(x, row, x.rows - row)));
        n = ESI_MIN(n, ESI_MAX((int64_t)(esi_vk_work_limit(d, ESI_VK_STATISTICS, kind, 0) / (uint64_t)work), INT64_C(1)));
        bindings[0] = binding_of(y);
        bindings[1] = binding_of(esi_rows(x, row, n));
        if (!esi_tensor_is_null(state)) bindings[2] = binding_of(state);
        push.at[1].stride = (uint32_t)x.stride;
        push.rows = (uint32_t)n;
        push.n[0] = kind == MEAN ? (row == 0 ? 1u : 0u) | (row + n == x.rows ? 2u : 0u) : (uint32_t)groups;
        push.n[1] = kind == MEAN ? (uint32_t)x.rows : row == 0;
        st = esi_check_cancel(ctx);
        if (st == ESPALIER_OK)
            st = esi_vk_dispatch(ctx, d, what, ESI_VK_STATISTICS, kind, 0, bindings, &push, groups, (uint64_t)n * (uint64_t)work);
    }
    return st;
}

static espalier_status mean_on_device(espalier_context *ctx, esi_vk_device *d, esi_tensor y, esi_tensor x)
{
    esi_scope scope = esi_scope_begin(ctx);
    uint64_t size = esi_vk_workgroup(d);
    esi_tensor state;
    espalier_status st = esi_tensor_new(ctx, &state, 1, 2 * x.cols, ESI_I32);

    if (st == ESPALIER_OK) {
        esi_vk_lock(d);
        st = pass(ctx, d, "mean_rows", MEAN, y, x, state, MEAN_ROWS, x.cols * ADDITION, ((uint64_t)x.cols + size - 1) / size);
        esi_vk_unlock(d);
    }
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_vk_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    esi_vk_device *d = esi_vk_of(ctx);
    espalier_status st;

    if (x.rows <= INT32_MAX && esi_vk_placeable(d, y) && can_pass(ctx, d, x, "mean_rows", MEAN)) return mean_on_device(ctx, d, y, x);
    st = TO_HOST("mean_rows", OP_MEAN_ROWS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_mean_rows(ctx, y, x) : st;
}

static espalier_status count_on_device(espalier_context *ctx, esi_vk_device *d, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count)
{
    esi_scope scope = esi_scope_begin(ctx);
    uint32_t counts[COUNT_GROUPS][4];
    esi_tensor result, none = {0};
    espalier_status st = esi_tensor_new(ctx, &result, COUNT_GROUPS, 4, ESI_I32);

    if (st == ESPALIER_OK) {
        esi_vk_lock(d);
        st = pass(ctx, d, "count_nonfinite", COUNT, result, x, none, ESI_MAX(COUNT_ELEMENTS / x.cols, INT64_C(1)), x.cols, COUNT_GROUPS);
        esi_vk_unlock(d);
    }
    if (st == ESPALIER_OK) st = esi_vk_read(ctx, result, counts);
    for (size_t g = 0; st == ESPALIER_OK && g < COUNT_GROUPS; g++) {
        *nan_count += counts[g][0] | (uint64_t)counts[g][1] << 32;
        *inf_count += counts[g][2] | (uint64_t)counts[g][3] << 32;
    }
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_vk_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count)
{
    esi_vk_device *d = esi_vk_of(ctx);
    espalier_status st;

    if (can_pass(ctx, d, x, "count_nonfinite", COUNT)) return count_on_device(ctx, d, x, nan_count, inf_count);
    st = TO_HOST("count_nonfinite", OP_COUNT_NONFINITE, 0, x);
    return st == ESPALIER_OK ? esi_cpu_count_nonfinite(ctx, x, nan_count, inf_count) : st;
}
