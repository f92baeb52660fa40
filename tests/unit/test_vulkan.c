/* SPDX-License-Identifier: MIT
 *
 * test_vulkan.c: the Vulkan backend where check_kernels does not look: what happens without a library, a device, memory, an answer; that
 * the validation layer has nothing to say; many rows; what the embedded shaders declare. Skipped where there is no Vulkan device.
 *
 * test_vulkan NAME runs one test (wildcards allowed).
 * test_vulkan --modules DIRECTORY writes the shaders as devices get them, for spirv-val and spirv-cross.
 */
#include "support.h"

#include "tensor/cpu/cpu.h"
#include "tensor/vulkan/internal.h"

#include <math.h>
#include <pthread.h>
#include <stddef.h>

typedef struct fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
    esi_backend *device;
    esi_vulkan_hooks hooks;
    char message[ESI_VULKAN_TEXT];
} fixture;

/* What the replaced functions do; a test sets it before it opens the device. */
static struct {
    esi_vk_api real;
    int calls, fail_from;                   /* the first call that fails; 0 = none */
    VkResult result;
} fault;

static bool failing(void)
{
    fault.calls++;
    return fault.fail_from && fault.calls >= fault.fail_from;
}

static VKAPI_ATTR VkResult VKAPI_CALL no_devices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
    (void)instance;
    (void)devices;
    *count = 0;
    return VK_SUCCESS;
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
                                               VkDeviceMemory *memory)
{
    return failing() ? fault.result : fault.real.AllocateMemory(device, info, allocator, memory);
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    return failing() ? fault.result : fault.real.QueueSubmit(queue, n, info, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t timeout)
{
    VkResult r = fault.real.WaitForFences(device, n, fences, all, timeout);     /* so that nothing runs when the test goes on */
    return failing() ? fault.result : r;
}

static VKAPI_ATTR void VKAPI_CALL no_barrier(VkCommandBuffer commands, VkPipelineStageFlags before, VkPipelineStageFlags after,
                                             VkDependencyFlags flags, uint32_t n, const VkMemoryBarrier *memory, uint32_t n_buffers,
                                             const VkBufferMemoryBarrier *buffers, uint32_t n_images, const VkImageMemoryBarrier *images)
{
    (void)commands, (void)before, (void)after, (void)flags, (void)n, (void)memory, (void)n_buffers, (void)buffers, (void)n_images;
    (void)images;
}

static void patch_barriers(esi_vk_api *api) { api->CmdPipelineBarrier = no_barrier; }
static void patch_devices(esi_vk_api *api) { api->EnumeratePhysicalDevices = no_devices; }

static void remember(const esi_vk_api *api)
{
    if (api->AllocateMemory) fault.real = *api;
}

static void patch_memory(esi_vk_api *api)
{
    remember(api);
    api->AllocateMemory = allocate;
}

static void patch_submit(esi_vk_api *api)
{
    remember(api);
    api->QueueSubmit = submit;
}

static void patch_wait(esi_vk_api *api)
{
    remember(api);
    api->WaitForFences = wait;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options o = espalier_runtime_options_default();

    assert_non_null(f);
    o.threads = 1;
    o.allocator = (espalier_allocator){.user = &f->memory, .allocate = test_allocate, .release = test_release};
    assert_int_equal(espalier_runtime_create(&f->runtime, &o), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    memset(&fault, 0, sizeof fault);
    *state = f;
    return 0;
}

static espalier_status open_device(fixture *f)
{
    return esi_vulkan_create(&f->device, esi_allocator(f->ctx), f->runtime->cpu->kernels, "vulkan", &f->hooks, f->message);
}

static void close_device(fixture *f)
{
    if (f->device) f->device->destroy(f->device, esi_allocator(f->ctx));
    f->device = NULL;
    f->ctx->backend = f->runtime->cpu;
}

/* The device for the context; skips the test where there is none. */
static void need_device(fixture *f)
{
    if (open_device(f) != ESPALIER_OK) {
        print_message("SKIPPED: %s\n", f->message);
        skip();
    }
    f->ctx->backend = f->device;
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

/* ------------------------------------------------------------------ some work */

static float value(int64_t i) { return (float)((i * 7919 + 13) % 2003 - 1001) * 0x1p-7f; }

/* A bit of everything: each result goes into the next op; `out` gets rows * cols numbers. */
static espalier_status work(espalier_context *ctx, int64_t rows, int64_t cols, float *out)
{
    const float gains[4] = {1.5f, -0.75f, 2.0f, 0.3f};
    esi_scope scope = esi_scope_begin(ctx);
    size_t n = (size_t)(rows * cols);
    float *host = malloc(n * sizeof *host);
    int32_t *order = malloc((size_t)rows * sizeof *order);
    esi_tensor a, b, c, index, gain, w = {0};
    esi_norm_args norm = {.eps = 1e-6f, .act = ESI_ACT_GELU_ERF};
    esi_epilogue e = {0};
    espalier_status st;

    if (!host || !order || cols > 4) abort();
    for (size_t i = 0; i < n; i++) host[i] = value((int64_t)i);
    for (int64_t r = 0; r < rows; r++) order[r] = r % 11 == 5 ? -1 : (int32_t)(rows - 1 - r);
    st = esi_weight_wrap(ctx, &w, 1, cols, ESI_F32, gains);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &a, rows, cols, ESI_F32, host);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &b, rows, cols, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &c, cols, rows, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &gain, cols, cols, ESI_F32, host);
    if (st == ESPALIER_OK) st = esi_tensor_from(ctx, &index, rows, 1, ESI_I32, order);
    norm.weight = w;
    if (st == ESPALIER_OK) st = esi_layer_norm(ctx, b, a, &norm);
    if (st == ESPALIER_OK) st = esi_gather_rows(ctx, a, b, index);
    if (st == ESPALIER_OK) st = esi_axpby(ctx, a, 0.7f, a, -1.3f, b);
    if (st == ESPALIER_OK) st = esi_linear(ctx, b, a, gain, &e);
    if (st == ESPALIER_OK) st = esi_transpose(ctx, c, b);
    if (st == ESPALIER_OK) st = esi_activate(ctx, c, c, ESI_ACT_SILU);
    if (st == ESPALIER_OK) st = esi_transpose(ctx, a, c);
    if (st == ESPALIER_OK) st = esi_scatter_rows(ctx, a, b, index);
    if (st == ESPALIER_OK) st = esi_rms_norm_heads(ctx, a, a, w, 1);
    if (st == ESPALIER_OK) st = esi_add_repeat_cols(ctx, a, b, index, 1);
    if (st == ESPALIER_OK) st = esi_scale_shift(ctx, a, a, w, (esi_tensor){0});
    if (st == ESPALIER_OK) st = esi_tensor_read(ctx, a, out);
    esi_scope_end(ctx, scope);
    esi_weight_release(ctx, &w);
    free(host);
    free(order);
    return st;
}

static void compare_work(fixture *f, int64_t rows, int64_t cols)
{
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    esi_backend *device = f->ctx->backend;

    assert_true(want && got);
    f->ctx->backend = f->runtime->cpu;
    assert_int_equal(work(f->ctx, rows, cols, want), ESPALIER_OK);
    f->ctx->backend = device;
    if (work(f->ctx, rows, cols, got) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    assert_memory_equal(want, got, bytes);
    free(want);
    free(got);
}

/* ------------------------------------------------------------------ the tests */

static void missing_library(void **state)
{
    fixture *f = *state;
    esi_vulkan_info *list;
    size_t count;

    f->hooks.library = "libvulkan-that-is-not-here.so.1";
    assert_int_equal(open_device(f), ESPALIER_ERR_DEVICE);
    assert_null(f->device);
    assert_non_null(strstr(f->message, "libvulkan-that-is-not-here.so.1 is not installed"));
    assert_int_equal(esi_vulkan_list(esi_allocator(f->ctx), NULL, &f->hooks, true, &list, &count, f->message), ESPALIER_OK);
    assert_int_equal(count, 0);
    assert_null(list);
    f->hooks.library = "libm.so.6";                  /* a library, but not Vulkan's */
    assert_int_equal(open_device(f), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "lacks vkGetInstanceProcAddr"));
}

static void loader_without_device(void **state)
{
    fixture *f = *state;
    esi_vulkan_info *list;
    size_t count;

    need_device(f);
    close_device(f);
    f->hooks.patch = patch_devices;
    assert_int_equal(open_device(f), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "finds none"));
    assert_int_equal(esi_vulkan_list(esi_allocator(f->ctx), NULL, &f->hooks, false, &list, &count, f->message), ESPALIER_OK);
    assert_int_equal(count, 0);
    esi_vulkan_list_free(esi_allocator(f->ctx), list);
}

static void choice(void **state)
{
    fixture *f = *state;
    const espalier_allocator *a = esi_allocator(f->ctx);
    const esi_kernels *kernels = f->runtime->cpu->kernels;
    esi_vulkan_info *list;
    char part[8];
    size_t count;

    need_device(f);
    assert_non_null(strstr(f->message, "vulkan:"));
    close_device(f);
    assert_int_equal(esi_vulkan_list(a, kernels, NULL, false, &list, &count, f->message), ESPALIER_OK);
    assert_true(count > 0);
    snprintf(part, sizeof part, "%.6s", list[0].name);
    for (char *p = part; *p; p++)
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    assert_int_equal(esi_vulkan_create(&f->device, a, kernels, part, NULL, f->message), ESPALIER_OK);
    close_device(f);
    assert_int_equal(esi_vulkan_create(&f->device, a, kernels, "vulkan:0", NULL, f->message), ESPALIER_OK);
    close_device(f);
    assert_int_equal(esi_vulkan_create(&f->device, a, kernels, "vulkan:64", NULL, f->message), ESPALIER_ERR_DEVICE);
    assert_int_equal(esi_vulkan_create(&f->device, a, kernels, "vulkan:0x", NULL, f->message), ESPALIER_ERR_DEVICE);
    assert_int_equal(esi_vulkan_create(&f->device, a, kernels, "no such name", NULL, f->message), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, "'no such name'"));
    if (count == 1 && strcmp(list[0].type, "cpu") == 0)   /* a software device is never taken by itself */
        assert_int_equal(esi_vulkan_create(&f->device, a, kernels, "auto", NULL, f->message), ESPALIER_ERR_DEVICE);
    esi_vulkan_list_free(a, list);
}

/* Every way to an exact fma is right, or the device is refused with the reason. */
static void ways_to_an_fma(void **state)
{
    fixture *f = *state;

    need_device(f);
    for (int fma = ESI_VULKAN_FMA_FUSED; fma <= ESI_VULKAN_FMA_INTEGER; fma++) {
        close_device(f);
        f->hooks.fma = (esi_vulkan_fma)fma;
        if (open_device(f) == ESPALIER_OK) {
            f->ctx->backend = f->device;
            compare_work(f, 300, 4);
        } else {
            assert_int_not_equal(fma, ESI_VULKAN_FMA_INTEGER);
            if (fma == ESI_VULKAN_FMA_FUSED) assert_non_null(strstr(f->message, "it computes wrongly: fma"));
        }
    }
}

static void many_rows(void **state)
{
    fixture *f = *state;

    need_device(f);
    compare_work(f, (1 << 19) + 1, 3);
}

static void low_limits(void **state)
{
    fixture *f = *state;

    f->hooks.max_allocation = 1 << 20;               /* some tensors do not fit: these ops run on the CPU */
    f->hooks.max_range = 65536;
    need_device(f);
    compare_work(f, 60000, 4);
    compare_work(f, 100000, 4);
}

static void failing_device_memory(void **state)
{
    fixture *f = *state;
    float out[400];
    int opened = 0;

    need_device(f);
    close_device(f);
    f->hooks.patch = patch_memory;
    fault.result = VK_ERROR_OUT_OF_DEVICE_MEMORY;
    for (int n = 1;; n++) {
        size_t blocks = atomic_load(&f->memory.live_blocks);
        fault.calls = 0;
        fault.fail_from = n;
        espalier_status st = open_device(f);
        if (st == ESPALIER_OK) {
            opened++;
            f->ctx->backend = f->device;
            st = work(f->ctx, 100, 4, out);
            if (st != ESPALIER_OK) assert_non_null(strstr(espalier_error_message(f->ctx), "out of device memory"));
            esi_clear_error(f->ctx);
        } else {
            assert_non_null(strstr(f->message, "out of device memory"));
        }
        close_device(f);
        assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_DEVICE);
    }
    assert_true(opened > 0);
}

static void lost(fixture *f, void (*patch)(esi_vk_api *api), VkResult result, const char *text)
{
    float out[400];

    need_device(f);
    close_device(f);
    f->hooks.patch = patch;
    fault.result = result;
    assert_int_equal(open_device(f), ESPALIER_OK);
    f->ctx->backend = f->device;
    fault.calls = 0;
    fault.fail_from = 2;
    assert_int_equal(work(f->ctx, 100, 4, out), ESPALIER_ERR_DEVICE);
    if (!strstr(espalier_error_message(f->ctx), text)) fail_msg("%s", espalier_error_message(f->ctx));
    esi_clear_error(f->ctx);
    fault.fail_from = 0;                             /* once lost, always lost */
    assert_int_equal(work(f->ctx, 100, 4, out), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(espalier_error_message(f->ctx), "lost before"));
    esi_clear_error(f->ctx);
    assert_int_equal(esi_backend_wait(f->ctx), ESPALIER_ERR_DEVICE);
    esi_clear_error(f->ctx);
    close_device(f);
    fault.fail_from = 1;                             /* while the device is being opened */
    fault.calls = 0;
    assert_int_equal(open_device(f), ESPALIER_ERR_DEVICE);
    assert_non_null(strstr(f->message, esi_vk_result_name(result)));
}

static void lost_at_submit(void **state) { lost(*state, patch_submit, VK_ERROR_DEVICE_LOST, "device lost"); }
static void no_answer(void **state) { lost(*state, patch_wait, VK_TIMEOUT, "no answer in time"); }

static void failing_host_memory(void **state)
{
    fixture *f = *state;
    size_t blocks = atomic_load(&f->memory.live_blocks);
    float out[400];

    need_device(f);
    close_device(f);
    for (long n = 1;; n++) {
        test_fail_at(&f->memory, n);
        espalier_status st = open_device(f);
        if (st == ESPALIER_OK) {
            f->ctx->backend = f->device;
            st = work(f->ctx, 100, 4, out);
            esi_clear_error(f->ctx);
        }
        test_fail_at(&f->memory, 0);
        close_device(f);
        assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
    }
}

static void budget(void **state)
{
    fixture *f = *state;
    float out[400];

    need_device(f);
    espalier_context_set_memory_budget(f->ctx, 4096);
    assert_int_equal(work(f->ctx, 100, 4, out), ESPALIER_ERR_RESOURCE);
    assert_non_null(strstr(espalier_error_message(f->ctx), "memory budget"));
    esi_clear_error(f->ctx);
    espalier_context_set_memory_budget(f->ctx, 0);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    compare_work(f, 100, 4);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
}

static void cancelled(void **state)
{
    fixture *f = *state;
    float out[400];

    need_device(f);
    espalier_context_cancel(f->ctx);
    assert_int_equal(work(f->ctx, 100, 4, out), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(f->ctx);
    esi_clear_error(f->ctx);
    compare_work(f, 100, 4);
}

/* What a device may flush is computed where it is not. */
static void subnormal_factors(void **state)
{
    fixture *f = *state;
    const float in[4] = {3e38f, -3e38f, 1.0f, 0.0f};
    float want[4], out[4];
    esi_backend *backends[2];
    float *results[2] = {want, out};

    need_device(f);
    backends[0] = f->runtime->cpu;
    backends[1] = f->device;
    for (int i = 0; i < 2; i++) {
        esi_scope scope;
        esi_tensor x;
        f->ctx->backend = backends[i];
        scope = esi_scope_begin(f->ctx);
        assert_int_equal(esi_tensor_from(f->ctx, &x, 1, 4, ESI_F32, in), ESPALIER_OK);
        assert_int_equal(esi_scale(f->ctx, x, x, 1e-40f), ESPALIER_OK);
        assert_int_equal(esi_tensor_read(f->ctx, x, results[i]), ESPALIER_OK);
        esi_scope_end(f->ctx, scope);
    }
    assert_true(want[0] > 0.02f);
    assert_memory_equal(want, out, sizeof want);
}

/* Two jobs on one device at once; they share a weight, too. */
typedef struct job {
    pthread_t thread;
    espalier_context *ctx;
    int64_t rows;
    float *want, *got;
    bool same;
} job;

static void *run_job(void *arg)
{
    job *j = arg;

    j->same = true;
    for (int i = 0; i < 10 && j->same; i++)
        j->same = work(j->ctx, j->rows, 4, j->got) == ESPALIER_OK && memcmp(j->want, j->got, (size_t)j->rows * 16) == 0;
    return NULL;
}

static void two_jobs(void **state)
{
    fixture *f = *state;
    job jobs[2];

    need_device(f);
    for (int i = 0; i < 2; i++) {
        job *j = &jobs[i];
        j->rows = 500 + 700 * i;
        j->want = malloc((size_t)j->rows * 16);
        j->got = malloc((size_t)j->rows * 16);
        assert_true(j->want && j->got);
        assert_int_equal(espalier_context_create(&j->ctx, f->runtime), ESPALIER_OK);
        assert_int_equal(work(j->ctx, j->rows, 4, j->want), ESPALIER_OK);
        j->ctx->backend = f->device;
    }
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(jobs[i].thread, NULL);
    for (int i = 0; i < 2; i++) {
        assert_true(jobs[i].same);
        espalier_context_free(jobs[i].ctx);
        free(jobs[i].want);
        free(jobs[i].got);
    }
}

static void keep_line(void *user, espalier_log_level level, const char *line)
{
    snprintf(user, ESI_VULKAN_TEXT, "%d %s", (int)level, line);
}

/* The device as programs choose it. */
static void runtimes(void **state)
{
    fixture *f = *state;
    espalier_runtime_options o = espalier_runtime_options_default();
    char line[ESI_VULKAN_TEXT] = "";
    espalier_runtime *runtime;
    espalier_context *ctx;

    need_device(f);
    o.log = keep_line;
    o.log_user = line;
    o.device = "no such name";
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_ERR_DEVICE);
    assert_null(runtime);
    assert_non_null(strstr(line, "3 no Vulkan device's name contains 'no such name'"));
    o.struct_size = (uint32_t)offsetof(espalier_runtime_options, device);       /* a program that knows nothing of devices */
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    assert_string_equal(espalier_runtime_device(runtime), "cpu");
    espalier_runtime_free(runtime);
    o.struct_size = sizeof o;
    o.device = "vulkan:0";
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    assert_int_equal(strncmp(espalier_runtime_device(runtime), "vulkan:0 ", 9), 0);
    assert_int_equal(espalier_context_create(&ctx, runtime), ESPALIER_OK);
    assert_string_equal(ctx->backend->name, "vulkan");
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    o.device = "auto";
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    if (strcmp(espalier_runtime_device(runtime), "cpu") == 0) assert_non_null(strstr(line, "1 networks run on the CPU: "));
    espalier_runtime_free(runtime);
}

static void count_message(void *user, const char *message)
{
    if (!fault.fail_from) print_message("%s\n", message);
    ++*(int *)user;
}

/* Synchronisation included. */
static void validation_layer_is_silent(void **state)
{
    fixture *f = *state;
    int messages = 0;

    need_device(f);
    close_device(f);
    f->hooks.validation = count_message;
    f->hooks.validation_user = &messages;
    f->hooks.max_range = 65536;
    if (open_device(f) != ESPALIER_OK) {
        if (strstr(f->message, "layer not present")) {
            print_message("SKIPPED: the Khronos validation layer is not installed\n");
            skip();
        }
        fail_msg("%s", f->message);
    }
    f->ctx->backend = f->device;
    compare_work(f, 40000, 4);
    close_device(f);
    assert_int_equal(messages, 0);
    fault.fail_from = 1;                             /* the layer is there: it misses a barrier */
    f->hooks.patch = patch_barriers;
    open_device(f);
    close_device(f);
    assert_true(messages > 0);
}

/* ------------------------------------------------------------------ SPIR-V */

enum {
    OP_DECORATE = 71, NO_CONTRACTION = 42, OP_FADD = 129, OP_FSUB = 131, OP_FMUL = 133, OP_FDIV = 136, EXECUTION_MODE = 16, CAPABILITY = 17
};

static bool is_decorated(const uint32_t *words, size_t n, uint32_t id)
{
    for (size_t i = 5; i < n; i += words[i] >> 16)
        if ((words[i] & 0xffffu) == OP_DECORATE && words[i + 1] == id && words[i + 2] == NO_CONTRACTION) return true;
    return false;
}

/* A driver may fuse or reorder what is not marked. */
static void arithmetic_is_not_contracted(void **state)
{
    size_t modules = 0;

    (void)state;
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++, modules++) {
        size_t n = m->bytes / 4, operations = 0;
        for (size_t i = 5; i < n; i += m->words[i] >> 16) {
            uint32_t op = m->words[i] & 0xffffu;
            if (op != OP_FADD && op != OP_FSUB && op != OP_FMUL && op != OP_FDIV) continue;
            operations++;
            if (!is_decorated(m->words, n, m->words[i + 2])) fail_msg("%s: operation %u at word %zu may be contracted", m->name, op, i);
        }
        assert_true(operations > 0);
    }
    assert_int_equal(modules, 3 * ESI_VK_SHADERS);
}

static void declarations(void **state)
{
    (void)state;
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++) {
        size_t n = m->bytes / 4;
        uint32_t *out = malloc((n + ESI_VK_DECLARED) * sizeof *out);
        size_t used, modes = 0, capabilities = 0;

        assert_non_null(out);
        assert_int_equal(esi_vk_declare(out, m->words, n, false, false), n);
        assert_memory_equal(out, m->words, m->bytes);
        used = esi_vk_declare(out, m->words, n, true, true);
        assert_int_equal(used, n + 12);
        for (size_t i = 5; i < used; i += out[i] >> 16) {
            modes += (out[i] & 0xffffu) == EXECUTION_MODE && (out[i + 2] == 4461 || out[i + 2] == 4462) && out[i + 3] == 32;
            capabilities += (out[i] & 0xffffu) == CAPABILITY && (out[i + 1] == 4466 || out[i + 1] == 4467);
        }
        assert_int_equal(modes, 2);
        assert_int_equal(capabilities, 2);
        assert_int_equal(esi_vk_declare(out, m->words, 6, true, true), 0);          /* an instruction that does not end */
        free(out);
    }
}

static int write_modules(const char *directory)
{
    for (const esi_vk_module *m = esi_vk_modules; m->name; m++) {
        size_t n = m->bytes / 4;
        uint32_t *out = malloc((n + ESI_VK_DECLARED) * sizeof *out);
        char path[1024];
        FILE *file;

        snprintf(path, sizeof path, "%s/%s.spv", directory, m->name);
        file = fopen(path, "wb");
        if (!out || !file) return 1;
        n = esi_vk_declare(out, m->words, n, true, true);
        if (fwrite(out, sizeof *out, n, file) != n || fclose(file) != 0) return 1;
        free(out);
    }
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(missing_library),
        TEST(loader_without_device),
        TEST(choice),
        TEST(ways_to_an_fma),
        TEST(many_rows),
        TEST(low_limits),
        TEST(failing_device_memory),
        TEST(lost_at_submit),
        TEST(no_answer),
        TEST(failing_host_memory),
        TEST(budget),
        TEST(cancelled),
        TEST(subnormal_factors),
        TEST(two_jobs),
        TEST(runtimes),
        TEST(validation_layer_is_silent),
        cmocka_unit_test(arithmetic_is_not_contracted),
        cmocka_unit_test(declarations),
    };

    if (argc == 3 && strcmp(argv[1], "--modules") == 0) return write_modules(argv[2]);
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
