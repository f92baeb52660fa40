/* SPDX-License-Identifier: MIT
 *
 * ops_statistics.c: ops that need sums over all rows: row sums, group norm, the mean of rows, the count of NaN.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

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

    if (esi_vk_can_run(d, &c) && esi_vk_fits(d, (uint64_t)x.rows * 8)) return row_sums_on_device(ctx, &c, sum, sum_of_squares);
    st = TO_HOST("row_sums", OP_ROW_SUMS, 0, x);
    return st == ESPALIER_OK ? esi_cpu_row_sums(ctx, x, sum, sum_of_squares) : st;
}

espalier_status esi_vk_group_norm(espalier_context *ctx, esi_tensor y, esi_tensor x, int groups, const esi_norm_args *a)
{
    espalier_status st = TO_HOST("group_norm", OP_GROUP_NORM, 1, x, a->weight, a->bias, y);
    return st == ESPALIER_OK ? esi_cpu_group_norm(ctx, y, x, groups, a) : st;
}

espalier_status esi_vk_mean_rows(espalier_context *ctx, esi_tensor y, esi_tensor x)
{
    espalier_status st = TO_HOST("mean_rows", OP_MEAN_ROWS, 1, x, y);
    return st == ESPALIER_OK ? esi_cpu_mean_rows(ctx, y, x) : st;
}

espalier_status esi_vk_count_nonfinite(espalier_context *ctx, esi_tensor x, uint64_t *nan_count, uint64_t *inf_count)
{
    espalier_status st = TO_HOST("count_nonfinite", OP_COUNT_NONFINITE, 0, x);
    return st == ESPALIER_OK ? esi_cpu_count_nonfinite(ctx, x, nan_count, inf_count) : st;
}
