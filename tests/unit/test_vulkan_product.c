/* SPDX-License-Identifier: MIT
 *
 * test_vulkan_product.c: linear layers and convolutions on a Vulkan device where check_kernels does not look: very many rows, products cut
 * by rows, columns and k, convolutions of what cannot be bound whole, weights in pieces that come and go, and faults. Bytes are compared
 * with the CPU's. Skipped where there is no Vulkan device.
 */
#include "support.h"

#include "tensor/cpu/cpu.h"
#include "tensor/vulkan/internal.h"

#include <pthread.h>

typedef struct fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
    esi_backend *device;
    esi_vulkan_hooks hooks;
    char message[ESI_VULKAN_TEXT], line[ESI_VULKAN_TEXT];
    int lines;
} fixture;

/* What the replaced functions count, and when they fail. */
static struct {
    esi_vk_api real;
    int allocations, fail_from, dispatches;
    uint64_t bytes, most;                   /* device memory in use, and how much there is; 0 = as much as there is */
    VkDeviceMemory memories[4096];
    uint64_t sizes[4096];
} fault;

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
                                               VkDeviceMemory *memory)
{
    size_t i = 0;
    VkResult r;

    if (fault.fail_from && ++fault.allocations >= fault.fail_from) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (fault.most && fault.bytes + info->allocationSize > fault.most) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    r = fault.real.AllocateMemory(device, info, allocator, memory);
    while (fault.memories[i]) i++;
    if (r != VK_SUCCESS) return r;
    fault.memories[i] = *memory;
    fault.sizes[i] = info->allocationSize;
    fault.bytes += info->allocationSize;
    return r;
}

static VKAPI_ATTR void VKAPI_CALL release(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *allocator)
{
    for (size_t i = 0; memory && i < ESI_COUNT(fault.memories); i++)
        if (fault.memories[i] == memory) {
            fault.bytes -= fault.sizes[i];
            fault.memories[i] = VK_NULL_HANDLE;
        }
    fault.real.FreeMemory(device, memory, allocator);
}

static VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    fault.dispatches++;
    fault.real.CmdDispatch(commands, x, y, z);
}

static void patch(esi_vk_api *api)
{
    if (!api->AllocateMemory) return;
    fault.real = *api;
    api->AllocateMemory = allocate;
    api->FreeMemory = release;
    api->CmdDispatch = dispatch;
}

static void keep_line(void *user, espalier_log_level level, const char *line)
{
    fixture *f = user;

    (void)level;
    f->lines++;
    snprintf(f->line, sizeof f->line, "%s", line);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options o = espalier_runtime_options_default();

    assert_non_null(f);
    o.threads = 1;
    o.allocator = (espalier_allocator){.user = &f->memory, .allocate = test_allocate, .release = test_release};
    o.log = keep_line;
    o.log_user = f;
    assert_int_equal(espalier_runtime_create(&f->runtime, &o), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    memset(&fault, 0, sizeof fault);
    f->hooks.patch = patch;
    *state = f;
    return 0;
}

static espalier_status open_device(fixture *f)
{
    espalier_status st = esi_vulkan_create(&f->device, esi_allocator(f->ctx), f->runtime->cpu->kernels, "vulkan", &f->hooks, f->message);
    if (st == ESPALIER_OK) f->ctx->backend = f->device;
    return st;
}

static void close_device(fixture *f)
{
    if (f->device) f->device->destroy(f->device, esi_allocator(f->ctx));
    f->device = NULL;
    f->ctx->backend = f->runtime->cpu;
}

static void need_device(fixture *f)
{
    if (open_device(f) == ESPALIER_OK) return;
    print_message("SKIPPED: %s\n", f->message);
    skip();
}

static int teardown(void **state)
{
    fixture *f = *state;

    close_device(f);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    assert_int_equal(atomic_load(&f->memory.live_blocks), 0);
    free(f);
    return 0;
}

/* -------------------------------------------------------------- one product */

typedef struct product {
    int64_t rows, k, cols, taps, x_rows;    /* taps = 0: linear */
    esi_dtype dtype;
    int uses;                               /* how many weights, one after the other, and all again; 0 = one weight, once */
} product;

static float value(size_t i) { return (float)((i * 7919 + 13) % 2003) * 0x1p-7f - 7.8f; }

static uint8_t *weight_bytes(const product *p, int n, size_t *size)
{
    size_t row_bytes;
    uint8_t *bytes;

    assert_true(esi_dtype_row_bytes(p->dtype, p->k * ESI_MAX(p->taps, INT64_C(1)), &row_bytes));
    *size = row_bytes * (size_t)p->cols;
    bytes = malloc(*size + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < *size; i++) bytes[i + 1] = (uint8_t)((i * 193 + (size_t)n * 31) % 251);
    for (size_t i = 0; i + 1 < *size; i += p->dtype == ESI_F32 ? 4 : p->dtype == ESI_Q8_0 ? 34 : 2) {
        const size_t high = i + (p->dtype == ESI_F32 ? 3 : 1);
        bytes[high + 1] = (uint8_t)(0x2c + i % 7 + (i % 3 ? 0x80 : 0));     /* exponents of moderate size in every type */
        if (p->dtype == ESI_BF16 || p->dtype == ESI_F32) bytes[high + 1] = (uint8_t)(0x3d + i % 2 + (i % 3 ? 0x80 : 0));
    }
    return bytes;
}

/* y += SiLU(x * w^T + bias) in place, twice for each of several weights; the result is read into `out`. */
static espalier_status run(espalier_context *ctx, const product *p, float *out)
{
    const int uses = p->uses ? p->uses : 1;
    const int64_t x_rows = p->taps ? p->x_rows : p->rows;
    size_t nx = (size_t)(x_rows * p->k), ny = (size_t)(p->rows * p->cols), nt = (size_t)(p->rows * p->taps), size;
    float *host = malloc(ESI_MAX(nx, ny) * sizeof *host);
    int32_t *rows = malloc((nt + 1) * sizeof *rows);
    uint8_t *bytes[8];
    esi_tensor x, y = {0}, table = {0}, w[8] = {{0}}, bias = {0};
    esi_scope scope = esi_scope_begin(ctx);
    esi_epilogue e = {.act = ESI_ACT_SILU};
    espalier_status st;

    assert_true(host && rows && uses <= 8);
    for (size_t i = 0; i < nt; i++) rows[i] = i % 5 == 2 ? -1 : (int32_t)((i * 977 + i / 3) % (size_t)x_rows);
    for (size_t i = 0; i < ESI_MAX(nx, ny); i++) host[i] = value(i);
    for (int i = 0; i < uses; i++) bytes[i] = weight_bytes(p, i, &size);
    st = esi_tensor_from(ctx, &x, x_rows, p->k, ESI_F32, host);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &y, p->rows, p->cols, ESI_F32, host);
    if (st == ESPALIER_OK && nt) st = esi_tensor_from(ctx, &table, p->rows, p->taps, ESI_I32, rows);
    if (st == ESPALIER_OK) st = esi_weight_wrap(ctx, &bias, 1, p->cols, ESI_F32, host);
    e.bias = bias;
    e.residual = y;
    for (int i = 0; i < uses && st == ESPALIER_OK; i++)
        st = esi_weight_wrap(ctx, &w[i], p->cols, p->k * ESI_MAX(p->taps, INT64_C(1)), p->dtype, bytes[i] + 1);
    for (int i = 0; i < (p->uses ? 2 * uses : 1) && st == ESPALIER_OK; i++)
        st = nt ? esi_conv(ctx, y, x, table, w[i % uses], ESI_CONV_TAP_MAJOR, &e) : esi_linear(ctx, y, x, w[i % uses], &e);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, y, out);
    esi_scope_end(ctx, scope);
    for (int i = 0; i < uses; i++) {
        esi_weight_release(ctx, &w[i]);
        free(bytes[i]);
    }
    esi_weight_release(ctx, &bias);
    free(host);
    free(rows);
    return st;
}

/* The same bytes as on the CPU; false when the device gave an error. */
static bool compare(fixture *f, const product *p)
{
    size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    espalier_status st;

    assert_true(want && got);
    f->ctx->backend = f->runtime->cpu;
    assert_int_equal(run(f->ctx, p, want), ESPALIER_OK);
    f->ctx->backend = f->device;
    st = run(f->ctx, p, got);
    if (st == ESPALIER_OK) assert_memory_equal(want, got, bytes);
    free(want);
    free(got);
    return st == ESPALIER_OK;
}

static void same(fixture *f, product p)
{
    if (!compare(f, &p)) fail_msg("%s", espalier_error_message(f->ctx));
    if (strstr(f->line, "runs on the CPU")) fail_msg("%s", f->line);
}

/* ------------------------------------------------------------------ the tests */

static void many_rows(void **state)
{
    fixture *f = *state;

    need_device(f);
    same(f, (product){.rows = (1 << 19) - 1, .k = 3, .cols = 2, .dtype = ESI_F16});
    same(f, (product){.rows = (1 << 20) + 1, .k = 1, .cols = 1, .dtype = ESI_F32});
    same(f, (product){.rows = (1 << 19) + 1, .k = 2, .cols = 1, .taps = 2, .x_rows = (1 << 20) + 1, .dtype = ESI_BF16});
}

/* A software device's loops end after 65535 rounds. */
static void long_rows(void **state)
{
    fixture *f = *state;

    f->hooks.fma = ESI_VULKAN_FMA_INTEGER;
    need_device(f);
    same(f, (product){.rows = 3, .k = 70000, .cols = 5, .dtype = ESI_F32});
    same(f, (product){.rows = 70, .k = 2700, .cols = 5, .taps = 27, .x_rows = 40, .dtype = ESI_BF16});
}

/* A device that seems slow gets products in small parts. */
static void slow(fixture *f)
{
    esi_vk_device *d = (esi_vk_device *)(void *)f->device;
    for (size_t i = 0; i < d->n_pipelines; i++) d->pipelines[i].cost = 1e5;
}

static void cut_by_k(void **state)
{
    fixture *f = *state;
    const product products[] = {{.rows = 150, .k = 500, .cols = 140, .dtype = ESI_F16},
                                {.rows = 150, .k = 40, .cols = 70, .taps = 9, .x_rows = 90, .dtype = ESI_BF16},
                                {.rows = 150, .k = 5, .cols = 70, .taps = 27, .x_rows = 90, .dtype = ESI_F32}};

    need_device(f);
    for (size_t i = 0; i < ESI_COUNT(products); i++) {
        int whole;
        same(f, products[i]);                       /* compiles, and measures */
        fault.dispatches = 0;
        same(f, products[i]);
        whole = fault.dispatches;
        slow(f);
        fault.dispatches = 0;
        same(f, products[i]);
        assert_true(fault.dispatches > 4 * whole);
    }
}

/* Neither x nor the weight can be bound whole. */
static void small_bindings(void **state)
{
    fixture *f = *state;

    f->hooks.max_range = 16384;
    f->hooks.max_allocation = 65536;
    need_device(f);
    same(f, (product){.rows = 700, .k = 33, .cols = 150, .dtype = ESI_F32});
    same(f, (product){.rows = 300, .k = 64, .cols = 300, .dtype = ESI_Q8_0});
    same(f, (product){.rows = 400, .k = 17, .cols = 40, .taps = 27, .x_rows = 900, .dtype = ESI_F16});
    same(f, (product){.rows = 400, .k = 32, .cols = 40, .taps = 8, .x_rows = 900, .dtype = ESI_BF16});
}

/* More weights than there is memory for: the ones that were not used for longest make room. */
static void eviction(void **state)
{
    fixture *f = *state;
    product p = {.rows = 40, .k = 256, .cols = 1100, .dtype = ESI_F32, .uses = 6};      /* 1.1 MiB each */

    f->hooks.max_allocation = 1 << 20;
    need_device(f);
    same(f, p);
    close_device(f);
    assert_int_equal(open_device(f), ESPALIER_OK);
    fault.most = fault.bytes + (5 << 20);
    same(f, p);
    assert_true(((esi_vk_device *)(void *)f->device)->weight_bytes == 0);
}

/* No room for even one piece: the CPU does it, and that is said once. */
static void no_room(void **state)
{
    fixture *f = *state;
    product p = {.rows = 40, .k = 256, .cols = 1020, .dtype = ESI_F32, .uses = 3};

    f->hooks.max_allocation = 1 << 20;
    need_device(f);
    same(f, (product){.rows = 40, .k = 256, .cols = 1020, .dtype = ESI_F16});          /* the pipeline was tried */
    close_device(f);
    assert_int_equal(open_device(f), ESPALIER_OK);
    same(f, (product){.rows = 40, .k = 256, .cols = 100, .dtype = ESI_F32});
    fault.most = fault.bytes;
    f->lines = 0;
    if (!compare(f, &p)) fail_msg("%s", espalier_error_message(f->ctx));
    assert_int_equal(f->lines, 1);
    assert_non_null(strstr(f->line, "linear runs on the CPU"));
}

static void failing_allocations(void **state)
{
    fixture *f = *state;
    product p = {.rows = 20, .k = 64, .cols = 2100, .dtype = ESI_F32, .uses = 3};

    f->hooks.max_allocation = 1 << 20;
    need_device(f);
    for (int n = 1; n < 4; n++) {
        fault.allocations = 0;
        fault.fail_from = n;
        if (!compare(f, &p)) assert_non_null(strstr(espalier_error_message(f->ctx), "out of device memory"));
        esi_clear_error(f->ctx);                     /* or it went with less memory, or on the CPU */
        fault.fail_from = 0;
        if (!compare(f, &p)) fail_msg("%s", espalier_error_message(f->ctx));
        close_device(f);
        assert_int_equal(open_device(f), ESPALIER_OK);
    }
}

/* Two jobs that use the same weights at once. */
typedef struct job {
    pthread_t thread;
    espalier_context *ctx;
    const esi_tensor *w;
    float want[64 * 40], got[64 * 40];
    bool same;
} job;

static espalier_status use(espalier_context *ctx, const esi_tensor *w, float *out)
{
    esi_scope scope = esi_scope_begin(ctx);
    float host[64 * 96];
    esi_tensor x, y;
    espalier_status st;

    for (size_t i = 0; i < ESI_COUNT(host); i++) host[i] = value(i);
    st = esi_tensor_from(ctx, &x, 64, 96, ESI_F32, host);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &y, 64, 40, ESI_F32);
    for (int i = 0; i < 4 && st == ESPALIER_OK; i++) st = esi_linear(ctx, y, x, w[i], NULL);
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, y, out);
    esi_scope_end(ctx, scope);
    return st;
}

static void *run_job(void *arg)
{
    job *j = arg;

    j->same = true;
    for (int i = 0; i < 20 && j->same; i++)
        j->same = use(j->ctx, j->w, j->got) == ESPALIER_OK && memcmp(j->want, j->got, sizeof j->want) == 0;
    return NULL;
}

static void shared_weights(void **state)
{
    fixture *f = *state;
    product p = {.k = 96, .cols = 40};
    static job jobs[2];
    esi_tensor w[4];
    uint8_t *bytes[4];
    size_t size;

    need_device(f);
    for (int dtype = 0; dtype < 4; dtype++) {
        p.dtype = (esi_dtype)dtype;
        bytes[dtype] = weight_bytes(&p, dtype, &size);
        assert_int_equal(esi_weight_wrap(f->ctx, &w[dtype], 40, 96, p.dtype, bytes[dtype] + 1), ESPALIER_OK);
    }
    for (int i = 0; i < 2; i++) {
        jobs[i].w = w;
        assert_int_equal(espalier_context_create(&jobs[i].ctx, f->runtime), ESPALIER_OK);
        assert_int_equal(use(jobs[i].ctx, w, jobs[i].want), ESPALIER_OK);   /* the CPU reads weights of any backend */
        jobs[i].ctx->backend = f->device;
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(jobs[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(jobs[i].same);
        espalier_context_free(jobs[i].ctx);
    }
    for (int i = 0; i < 4; i++) {
        esi_weight_release(f->ctx, &w[i]);
        free(bytes[i]);
    }
}

static void count_message(void *user, const char *message)
{
    print_message("%s\n", message);
    ++*(int *)user;
}

static void validation_layer_is_silent(void **state)
{
    fixture *f = *state;
    int messages = 0;

    need_device(f);
    close_device(f);
    f->hooks.validation = count_message;
    f->hooks.validation_user = &messages;
    f->hooks.max_range = 16384;
    f->hooks.max_allocation = 65536;
    if (open_device(f) != ESPALIER_OK) {
        if (strstr(f->message, "layer not present")) {
            print_message("SKIPPED: the Khronos validation layer is not installed\n");
            skip();
        }
        fail_msg("%s", f->message);
    }
    same(f, (product){.rows = 200, .k = 70, .cols = 90, .dtype = ESI_F16, .uses = 2});
    same(f, (product){.rows = 100, .k = 17, .cols = 20, .taps = 8, .x_rows = 900, .dtype = ESI_BF16});
    slow(f);
    same(f, (product){.rows = 200, .k = 70, .cols = 90, .dtype = ESI_F16});
    close_device(f);
    assert_int_equal(messages, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(many_rows),
        TEST(long_rows),
        TEST(cut_by_k),
        TEST(small_bindings),
        TEST(eviction),
        TEST(no_room),
        TEST(failing_allocations),
        TEST(shared_weights),
        TEST(validation_layer_is_silent),
    };

    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
