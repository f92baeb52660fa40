/* SPDX-License-Identifier: MIT
 *
 * test_vulkan_memory.c: device memory: tensors in several parts, low limits, budgets, and what happens when it is used up.
 */
#include "vulkan_fixture.h"

/* Elements of tensors as large as these take several parts of a MiB. */
enum { ROWS = 5000, COLS = 101, WIDE = 1000 };

static float value(int64_t i) { return (float)((i * 7919 + 13) % 2003 - 1001) * 0x1p-7f; }

typedef espalier_status (*steps)(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index);

/* y and x are [ROWS, COLS], index [ROWS, 1]; runs on both sides. */
static void compare_steps(vulkan_fixture *f, steps run)
{
    const size_t n = (size_t)ROWS * COLS;
    float *in = malloc(n * sizeof *in), *out[2] = {malloc(n * sizeof *in), malloc(n * sizeof *in)};
    int32_t *order = malloc(ROWS * sizeof *order);
    esi_backend *backends[2] = {f->runtime->cpu, f->device};

    assert_true(in && out[0] && out[1] && order);
    for (size_t i = 0; i < n; i++) in[i] = value((int64_t)i);
    for (int32_t r = 0; r < ROWS; r++) order[r] = r % 11 == 5 ? -1 : r * 7 % ROWS;
    for (int i = 0; i < 2; i++) {
        esi_scope scope;
        esi_tensor x, y, index;
        f->ctx->backend = backends[i];
        scope = esi_scope_begin(f->ctx);
        assert_int_equal(esi_tensor_from(f->ctx, &x, ROWS, COLS, ESI_F32, in), ESPALIER_OK);
        assert_int_equal(esi_tensor_from(f->ctx, &y, ROWS, COLS, ESI_F32, in), ESPALIER_OK);
        assert_int_equal(esi_tensor_from(f->ctx, &index, ROWS, 1, ESI_I32, order), ESPALIER_OK);
        if (run(f->ctx, y, x, index) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
        assert_int_equal(esi_tensor_read(f->ctx, y, out[i]), ESPALIER_OK);
        esi_scope_end(f->ctx, scope);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    }
    assert_memory_equal(out[0], out[1], n * sizeof *in);
    free(in);
    free(out[0]);
    free(out[1]);
    free(order);
}

static espalier_status over_borders(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    esi_tensor t, left = esi_cols(y, 0, 37), part = esi_rows(y, 2550, 40);     /* the first part ends at row 2560 */
    espalier_status st = esi_add(ctx, y, x, y);

    if (st == ESPALIER_OK) st = esi_gather_rows(ctx, y, x, index);
    if (st == ESPALIER_OK) st = esi_scale(ctx, left, left, 0.7f);
    if (st == ESPALIER_OK) st = esi_activate(ctx, part, part, ESI_ACT_SILU);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &t, COLS, ROWS, ESI_F32);
    if (st == ESPALIER_OK) st = esi_transpose(ctx, t, y);
    if (st == ESPALIER_OK) st = esi_scale(ctx, t, t, 1.1f);
    if (st == ESPALIER_OK) st = esi_transpose(ctx, y, t);
    if (st == ESPALIER_OK) st = esi_scatter_rows(ctx, y, x, index);
    if (st == ESPALIER_OK) st = esi_add_repeat_cols(ctx, y, x, index, 1);
    return st;
}

/* Rows of this width begin in one part and end in the next. */
static espalier_status across(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    esi_tensor wide = esi_reshape(y, (int64_t)ROWS * COLS / WIDE, WIDE);
    espalier_status st = esi_gather_rows(ctx, y, x, index);

    if (st == ESPALIER_OK) st = esi_activate(ctx, wide, wide, ESI_ACT_RELU);
    if (st == ESPALIER_OK) st = esi_mean_rows(ctx, esi_rows(y, 17, 1), x);
    return st == ESPALIER_OK ? esi_scale(ctx, y, y, 0.3f) : st;
}

/* A convolution whose x no binding holds, over more rows than the accumulators of a strip. */
static espalier_status convolve(espalier_context *ctx, esi_tensor y, esi_tensor x, esi_tensor index)
{
    enum { N = 2600, IN = 12, OUT = 9, TAPS = 5 };
    static float numbers[OUT * IN * TAPS];
    int32_t *rows = malloc(N * TAPS * sizeof *rows);
    esi_epilogue e = {.act = ESI_ACT_SILU, .residual = esi_cols(esi_rows(y, 0, N), 40, OUT)};
    esi_tensor table, w = {0}, from = esi_cols(esi_rows(x, 100, N), 3, IN);
    espalier_status st;

    assert_non_null(rows);
    (void)index;
    for (int i = 0; i < N * TAPS; i++) rows[i] = i % 7 == 2 ? -1 : (i * 31 + 5) % N;
    for (size_t i = 0; i < ESI_COUNT(numbers); i++) numbers[i] = value((int64_t)i * 3) * 0.1f;
    st = esi_tensor_from(ctx, &table, N, TAPS, ESI_I32, rows);
    if (st == ESPALIER_OK) st = esi_weight_wrap(ctx, &w, OUT, IN * TAPS, ESI_F32, numbers);
    if (st == ESPALIER_OK) st = esi_conv(ctx, esi_cols(esi_rows(y, 0, N), 40, OUT), from, table, w, ESI_CONV_TAP_MAJOR, &e);
    if (st == ESPALIER_OK) st = esi_backend_wait(ctx);
    esi_weight_release(ctx, &w);
    free(rows);
    return st;
}

/* The slower a device, the more dispatches are cut: even between the terms of a sum. */
static void slow_device(void **state)
{
    vulkan_fixture *f = *state;

    f->hooks.max_allocation = 1 << 20;
    f->hooks.max_range = 1 << 16;
    for (f->hooks.cost = 1e4; f->hooks.cost < 1e7; f->hooks.cost *= 10) {
        vulkan_need(f);
        compare_steps(f, convolve);
        assert_null(strstr(f->log, "conv runs on the CPU"));
    }
}

static void several_parts(void **state)
{
    vulkan_fixture *f = *state;

    f->hooks.max_allocation = 1 << 20;
    vulkan_need(f);
    compare_steps(f, over_borders);
    assert_null(strstr(f->log, "runs on the CPU"));
    compare_steps(f, across);
    assert_non_null(strstr(f->log, "elementwise runs on the CPU"));
    f->hooks.max_range = 1 << 18;                    /* bindings smaller than parts */
    vulkan_need(f);
    compare_steps(f, over_borders);
    compare_steps(f, across);
}

static void low_limits(void **state)
{
    vulkan_fixture *f = *state;

    f->hooks.max_allocation = 1 << 20;
    f->hooks.max_range = 65536;
    vulkan_need(f);
    vulkan_compare(f, 60000, 4);
    f->hooks.max_allocation = 65536;
    f->hooks.max_range = 4096;
    vulkan_need(f);
    vulkan_compare(f, 5000, 3);
}

/* A row that no allocation holds. */
static void row_too_long(void **state)
{
    vulkan_fixture *f = *state;
    enum { N = 20000 };
    float *in = malloc(2 * N * sizeof *in), *out = malloc(2 * N * sizeof *out);
    esi_scope scope;
    esi_tensor x;

    assert_true(in && out);
    f->hooks.max_allocation = 65536;
    vulkan_need(f);
    for (int i = 0; i < 2 * N; i++) in[i] = value(i);
    scope = esi_scope_begin(f->ctx);
    assert_int_equal(esi_tensor_from(f->ctx, &x, 2, N, ESI_F32, in), ESPALIER_OK);
    assert_int_equal(esi_scale(f->ctx, x, x, 2.0f), ESPALIER_OK);
    assert_int_equal(esi_tensor_read(f->ctx, x, out), ESPALIER_OK);
    esi_scope_end(f->ctx, scope);
    for (int i = 0; i < 2 * N; i++) assert_true(out[i] == 2.0f * in[i]);
    assert_non_null(strstr(f->log, "elementwise runs on the CPU"));
    free(in);
    free(out);
}

static void budget(void **state)
{
    vulkan_fixture *f = *state;
    float out[400];

    vulkan_need(f);
    espalier_context_set_memory_budget(f->ctx, 4096);
    assert_int_equal(vulkan_work(f->ctx, 100, 4, out), ESPALIER_ERR_RESOURCE);
    assert_non_null(strstr(espalier_error_message(f->ctx), "memory budget"));
    esi_clear_error(f->ctx);
    espalier_context_set_memory_budget(f->ctx, 0);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    vulkan_compare(f, 100, 4);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
}

/* A tensor stays on both sides only while the budget allows it. */
static void one_side_under_a_budget(void **state)
{
    vulkan_fixture *f = *state;
    enum { N = 1 << 18 };                            /* elements: 1 MiB */
    float *in = malloc(N * sizeof *in), *out = malloc(N * sizeof *out);
    esi_scope scope;
    esi_tensor x, y;

    assert_true(in && out);
    vulkan_need(f);
    vulkan_compare(f, 100, 4);                       /* the pipelines have been tried */
    for (int i = 0; i < N; i++) in[i] = value(i);
    espalier_context_set_memory_budget(f->ctx, 5 << 19);
    scope = esi_scope_begin(f->ctx);
    assert_int_equal(esi_tensor_from(f->ctx, &x, N / 64, 64, ESI_F32, in), ESPALIER_OK);
    assert_int_equal(esi_tensor_new(f->ctx, &y, N / 64, 64, ESI_F32), ESPALIER_OK);
    assert_int_equal(esi_axpby(f->ctx, y, 2.0f, x, 1.0f, x), ESPALIER_OK);
    assert_int_equal(esi_tensor_read(f->ctx, x, out), ESPALIER_OK);
    assert_memory_equal(in, out, N * sizeof *in);
    assert_int_equal(esi_tensor_read(f->ctx, y, out), ESPALIER_OK);
    for (int i = 0; i < N; i++) assert_true(out[i] == 3.0f * in[i]);
    esi_scope_end(f->ctx, scope);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    free(in);
    free(out);
}

/* ---------------------------------------------------------- memory used up */

static void two_heaps(VkPhysicalDeviceMemoryProperties *m)
{
    m->memoryTypes[1] = m->memoryTypes[0];
    m->memoryTypes[0].propertyFlags |= VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    m->memoryTypes[1].propertyFlags &= ~(VkMemoryPropertyFlags)VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    m->memoryTypes[1].heapIndex = 1;
    m->memoryHeaps[1] = m->memoryHeaps[0];
    m->memoryHeaps[1].flags = 0;
    m->memoryTypeCount = m->memoryHeapCount = 2;
}

static void other_memory(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    f->hooks.max_allocation = 1 << 20;
    vulkan_fault.two_types = true;
    vulkan_fault.memory = two_heaps;
    vulkan_fault.failing = AT_ALLOCATE;
    vulkan_fault.result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    assert_int_equal(vulkan_open(f, "vulkan"), ESPALIER_OK);
    vulkan_fault.calls = 0;
    vulkan_fault.from = 1;
    vulkan_compare(f, 60000, 4);
    assert_true(vulkan_fault.calls > 0);
    assert_non_null(strstr(f->log, "its memory is full; it goes on, slowly, in the machine's"));
}

/* Device memory is used up at the nth allocation, for almost every n. */
static void failing_device_memory(void **state)
{
    vulkan_fixture *f = *state;
    float *out = malloc(20000 * 4 * sizeof *out);
    int opened = 0;

    assert_non_null(out);
    vulkan_need(f);
    f->hooks.patch = vulkan_patch;
    f->hooks.max_allocation = 65536;                 /* so that there are many */
    vulkan_fault.failing = AT_ALLOCATE;
    vulkan_fault.result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (int n = 1; n; n += 1 + n / 6) {
        size_t blocks;
        espalier_status st;
        vulkan_close(f);
        blocks = atomic_load(&f->memory.live_blocks);
        vulkan_fault.calls = 0;
        vulkan_fault.from = n;
        st = vulkan_open(f, "vulkan");
        if (st == ESPALIER_OK) {
            opened++;
            st = vulkan_work(f->ctx, 20000, 4, out);
            if (st != ESPALIER_OK) assert_non_null(strstr(espalier_error_message(f->ctx), "out of device memory for "));
            esi_clear_error(f->ctx);
        } else {
            assert_non_null(strstr(f->message, "out of device memory"));
        }
        assert_true(st == ESPALIER_OK || st == ESPALIER_ERR_DEVICE);
        vulkan_close(f);
        assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        if (vulkan_fault.calls < n) break;           /* it was never asked for the nth */
    }
    assert_true(opened > 1);
    free(out);
}

/* Requests to the host's allocator, one at a time and ever fewer of them: an error, or an op on the CPU, and nothing is left behind. */
static void failing_host_memory(void **state)
{
    vulkan_fixture *f = *state;
    float want[400], out[400];
    int failed = 0;

    vulkan_need(f);
    vulkan_close(f);
    assert_int_equal(vulkan_work(f->ctx, 100, 4, want), ESPALIER_OK);
    for (long n = 1;; n += 1 + n / 2) {
        size_t blocks = atomic_load(&f->memory.live_blocks);
        long requests;
        espalier_status st;
        test_fail_at(&f->memory, n);
        st = vulkan_open(f, "vulkan");
        if (st == ESPALIER_OK) st = vulkan_work(f->ctx, 100, 4, out);
        requests = atomic_load(&f->memory.requests);
        test_fail_at(&f->memory, 0);
        esi_clear_error(f->ctx);
        vulkan_close(f);
        assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        if (st == ESPALIER_OK) assert_memory_equal(want, out, sizeof out);
        else assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        failed += st != ESPALIER_OK;
        if (requests < n) break;
    }
    assert_true(failed > 3);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        VULKAN_TEST(several_parts),
        VULKAN_TEST(slow_device),
        VULKAN_TEST(low_limits),
        VULKAN_TEST(row_too_long),
        VULKAN_TEST(budget),
        VULKAN_TEST(one_side_under_a_budget),
        VULKAN_TEST(other_memory),
        VULKAN_TEST(failing_device_memory),
        VULKAN_TEST(failing_host_memory),
    };

    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
