/* SPDX-License-Identifier: MIT
 *
 * test_vulkan_ops.c: attention and the ops over all rows on a Vulkan device where check_kernels does not look: both sizes of tiles,
 * operands in several bindings and allocations, keys in several dispatches, many rows, and failures in the middle of an op.
 */
#include "vulkan_fixture.h"

static float value(int64_t i) { return (float)((i * 7919 + i / 2003 * 31 + 13) % 2003 - 1001) * 0x1p-9f; }

static esi_tensor matrix(espalier_context *ctx, espalier_status *st, int64_t rows, int64_t cols, int64_t from)
{
    size_t n = (size_t)(rows * cols);
    float *values = malloc(n * sizeof *values);
    esi_tensor t = {0};

    if (!values) abort();
    for (size_t i = 0; i < n; i++) values[i] = value(from + (int64_t)i);
    if (*st == ESPALIER_OK) *st = esi_tensor_from(ctx, &t, rows, cols, ESI_F32, values);
    free(values);
    return t;
}

/* --------------------------------------------------------------- attention */

typedef struct attention_case {
    int64_t nq, nk, dim, windows;
    int heads, regions;                     /* 0: none */
    bool bias;
    int64_t spare;                          /* columns between those of keys and values */
    bool once;
} attention_case;

static espalier_status attend(espalier_context *ctx, const attention_case *c, float *out)
{
    const int64_t cols = c->heads * c->dim, keys = c->windows * c->nk, queries = c->windows * c->nq;
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = ESPALIER_OK;
    esi_attention_args a = {.heads = c->heads, .windows = c->windows, .scale = 0.3f};
    esi_tensor q = matrix(ctx, &st, queries, cols, 1), kv = matrix(ctx, &st, keys, 2 * cols + c->spare, 2), y;
    int32_t *regions = malloc((size_t)keys * sizeof *regions);

    if (!regions) abort();
    for (int64_t i = 0; i < keys; i++) regions[i] = (int32_t)(i / 5 % ESI_MAX(c->regions, 1));
    if (c->bias) a.bias = matrix(ctx, &st, c->heads * c->nq, c->nk, 3);
    if (c->regions && st == ESPALIER_OK) st = esi_tensor_from(ctx, &a.region, keys, 1, ESI_I32, regions);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &y, queries, cols, ESI_F32);
    if (st == ESPALIER_OK) st = esi_attention(ctx, y, q, esi_cols(kv, 0, cols), esi_cols(kv, cols + c->spare, cols), &a);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, y, out);
    esi_scope_end(ctx, scope);
    free(regions);
    return st;
}

/* Twice on the device: what the first run measured makes the second one cut otherwise. */
static void compare_attention(vulkan_fixture *f, const attention_case *c)
{
    size_t bytes = (size_t)(c->windows * c->nq * c->heads * c->dim) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    esi_backend *device = f->ctx->backend;

    assert_true(want && got);
    f->ctx->backend = f->runtime->cpu;
    assert_int_equal(attend(f->ctx, c, want), ESPALIER_OK);
    f->ctx->backend = device;
    f->log[0] = 0;
    for (int i = 0; i < (c->once ? 1 : 2); i++) {
        memset(got, 0xff, bytes);
        if (attend(f->ctx, c, got) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
        if (memcmp(want, got, bytes) != 0)
            fail_msg("%lld x %lld, %d heads of %lld, %lld windows, run %d", (long long)c->nq, (long long)c->nk, c->heads, (long long)c->dim,
                     (long long)c->windows, i);
    }
    if (strstr(f->log, "CPU")) fail_msg("%s", f->log);
    free(want);
    free(got);
}

static const attention_case cases[] = {
    {.nq = 130, .nk = 150, .heads = 2, .dim = 24, .windows = 1},
    {.nq = 49, .nk = 49, .heads = 3, .dim = 32, .windows = 4, .regions = 3, .bias = true},
    {.nq = 65, .nk = 66, .heads = 1, .dim = 80, .windows = 2, .bias = true},
    {.nq = 7, .nk = 129, .heads = 1, .dim = 300, .windows = 1, .spare = 3},
};

static void compare_cases(vulkan_fixture *f)
{
    for (size_t i = 0; i < ESI_COUNT(cases); i++) compare_attention(f, &cases[i]);
}

/* Tiles of 64 queries; with fp64 those of 32 are used (ops_attention.c). */
static void large_tiles(void **state)
{
    vulkan_fixture *f = *state;

    f->hooks.fma = ESI_VULKAN_FMA_INTEGER;
    vulkan_need(f);
    assert_true(((esi_vk_device *)(void *)f->device)->info.shared_memory >= 32768);
    compare_cases(f);
}

static void little_shared_memory(VkPhysicalDeviceLimits *limits)
{
    limits->maxComputeSharedMemorySize = 16384;
    limits->maxComputeWorkGroupInvocations = 128;
    limits->maxComputeWorkGroupSize[0] = 128;
}

static void small_tiles(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    vulkan_fault.limits = little_shared_memory;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
    compare_cases(f);
}

/* More keys than a software device's loops can go through, so that the state is kept between dispatches. */
static void many_keys(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    compare_attention(f, &(attention_case){.nq = 5, .nk = 12000, .heads = 1, .dim = 32, .windows = 1});
}

/* Keys in two parts of a tensor, with 64 keys across the border; bindings with a few tiles of keys, a few queries or heads. */
static void operands_in_parts(void **state)
{
    vulkan_fixture *f = *state;

    f->hooks.max_allocation = 1 << 20;
    f->hooks.max_range = 1 << 20;
    vulkan_need(f);
    compare_attention(f, &(attention_case){.nq = 40, .nk = 1500, .heads = 1, .dim = 24, .windows = 1, .spare = 150});
    compare_attention(f, &(attention_case){.nq = 33, .nk = 33, .heads = 2, .dim = 16, .windows = 60, .spare = 120, .regions = 2,
                                           .bias = true});
    vulkan_close(f);
    f->hooks.max_range = 65536;
    vulkan_need(f);
    compare_attention(f, &(attention_case){.nq = 300, .nk = 300, .heads = 2, .dim = 32, .windows = 1, .spare = 100, .bias = true});
    compare_attention(f, &(attention_case){.nq = 70, .nk = 2, .heads = 2, .dim = 32, .windows = 9, .bias = true});
}

static void many_queries_and_keys(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    compare_attention(f, &(attention_case){.nq = (1 << 19) + 1, .nk = 2, .heads = 1, .dim = 3, .windows = 1, .once = true});
    compare_attention(f, &(attention_case){.nq = 1, .nk = (1 << 19) - 1, .heads = 1, .dim = 3, .windows = 1, .once = true});
}

/* ----------------------------------------------------------- over all rows */

typedef struct row_results {
    float *normed, mean[8];
    double sum, squares;
    uint64_t nans, infinities;
} row_results;

static espalier_status over_rows(espalier_context *ctx, int64_t rows, int64_t cols, row_results *r)
{
    const esi_norm_args norm = {.eps = 1e-5f, .act = ESI_ACT_RELU};
    esi_scope scope = esi_scope_begin(ctx);
    espalier_status st = ESPALIER_OK;
    esi_tensor x = matrix(ctx, &st, rows, cols, 5), mean;

    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &mean, 1, cols, ESI_F32);
    if (st == ESPALIER_OK) st = esi_mean_rows(ctx, mean, x);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, mean, r->mean);
    if (st == ESPALIER_OK) st = esi_sum_stats(ctx, x, &r->sum, &r->squares);
    if (st == ESPALIER_OK) st = esi_group_norm(ctx, x, x, cols > 2 ? 2 : 1, &norm);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, x, r->normed);
    if (st == ESPALIER_OK) st = esi_scale(ctx, x, x, 3e38f);
    if (st == ESPALIER_OK) st = esi_axpby(ctx, esi_rows(x, 0, rows / 3), 1.0f, esi_rows(x, 0, rows / 3), -1.0f, esi_rows(x, 0, rows / 3));
    if (st == ESPALIER_OK) st = esi_count_nonfinite(ctx, x, &r->nans, &r->infinities);
    esi_scope_end(ctx, scope);
    return st;
}

static void compare_rows(vulkan_fixture *f, int64_t rows, int64_t cols)
{
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    row_results want = {.normed = malloc(bytes)}, got = {.normed = malloc(bytes)};
    esi_backend *device = f->ctx->backend;

    assert_true(want.normed && got.normed && cols <= 8);
    f->ctx->backend = f->runtime->cpu;
    assert_int_equal(over_rows(f->ctx, rows, cols, &want), ESPALIER_OK);
    f->ctx->backend = device;
    f->log[0] = 0;
    if (over_rows(f->ctx, rows, cols, &got) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    if (strstr(f->log, "CPU")) fail_msg("%s", f->log);
    assert_memory_equal(want.normed, got.normed, bytes);
    assert_memory_equal(want.mean, got.mean, (size_t)cols * sizeof(float));
    assert_memory_equal(&want.sum, &got.sum, sizeof want.sum);
    assert_memory_equal(&want.squares, &got.squares, sizeof want.squares);
    assert_int_equal(want.nans, got.nans);
    assert_int_equal(want.infinities, got.infinities);
    assert_true(want.nans > 0 && want.infinities > 0);
    free(want.normed);
    free(got.normed);
}

static void many_rows(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    compare_rows(f, (1 << 19) - 1, 2);
    compare_rows(f, (1 << 19) + 1, 2);
    compare_rows(f, (1 << 20) + 1, 2);
}

static void rows_in_parts(void **state)
{
    vulkan_fixture *f = *state;

    f->hooks.max_allocation = 1 << 20;
    f->hooks.max_range = 65536;
    vulkan_need(f);
    compare_rows(f, 100001, 6);
}

/* ---------------------------------------------------------------- failures */

static espalier_status all(vulkan_fixture *f)
{
    float out[20 * 9];
    row_results r = {.normed = out};
    espalier_status st = attend(f->ctx, &(attention_case){.nq = 20, .nk = 130, .heads = 1, .dim = 9, .windows = 1}, out);

    return st == ESPALIER_OK ? over_rows(f->ctx, 30, 6, &r) : st;
}

static void failing_host_memory(void **state)
{
    vulkan_fixture *f = *state;
    espalier_status st;
    size_t blocks;
    int failed = 0;

    vulkan_need(f);
    assert_int_equal(all(f), ESPALIER_OK);           /* every pipeline was tried */
    blocks = atomic_load(&f->memory.live_blocks);
    for (long n = 1;; n++) {
        test_fail_at(&f->memory, n);
        st = all(f);
        test_fail_at(&f->memory, 0);
        esi_clear_error(f->ctx);
        assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        failed++;
    }
    assert_true(failed > 20);
}

static void failing_device(void **state, vulkan_function function, VkResult result)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    for (int n = 1;; n *= 4) {
        espalier_status st;
        vulkan_fault.failing = NO_FUNCTION;
        assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
        vulkan_fault.failing = function;
        vulkan_fault.result = result;
        vulkan_fault.calls = 0;
        vulkan_fault.from = n;
        st = all(f);
        vulkan_fault.from = 0;
        esi_clear_error(f->ctx);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        vulkan_close(f);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_DEVICE);
    }
}

static void lost_at_submit(void **state) { failing_device(state, AT_SUBMIT, VK_ERROR_DEVICE_LOST); }
static void no_answer(void **state) { failing_device(state, AT_WAIT, VK_TIMEOUT); }

static void cancelled_and_over_budget(void **state)
{
    vulkan_fixture *f = *state;
    bool done = false;

    vulkan_need(f);
    espalier_context_cancel(f->ctx);
    assert_int_equal(all(f), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(f->ctx);
    esi_clear_error(f->ctx);
    for (uint64_t budget = 1000; !done; budget = budget * 5 / 4) {
        espalier_status st;
        espalier_context_set_memory_budget(f->ctx, budget);
        st = all(f);
        done = st == ESPALIER_OK;
        if (!done) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        esi_clear_error(f->ctx);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        VULKAN_TEST(large_tiles),
        VULKAN_TEST(small_tiles),
        VULKAN_TEST(many_keys),
        VULKAN_TEST(operands_in_parts),
        VULKAN_TEST(many_queries_and_keys),
        VULKAN_TEST(many_rows),
        VULKAN_TEST(rows_in_parts),
        VULKAN_TEST(failing_host_memory),
        VULKAN_TEST(lost_at_submit),
        VULKAN_TEST(no_answer),
        VULKAN_TEST(cancelled_and_over_budget),
    };

    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
