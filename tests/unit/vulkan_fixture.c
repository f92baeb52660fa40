/* SPDX-License-Identifier: MIT
 *
 * vulkan_fixture.c: see vulkan_fixture.h.
 */
#include "vulkan_fixture.h"

vulkan_faults vulkan_fault;

/* ------------------------------------------------------- replaced functions */

static esi_vk_api real;

static bool failing(vulkan_function f)
{
    if (vulkan_fault.failing != f) return false;
    vulkan_fault.calls++;
    return vulkan_fault.from && vulkan_fault.calls >= vulkan_fault.from && (!vulkan_fault.to || vulkan_fault.calls <= vulkan_fault.to);
}

/* Memory types 0 and 1 are the same one; the first is the one that gets full. */
static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
                                               VkDeviceMemory *memory)
{
    VkMemoryAllocateInfo first = *info;

    if ((!vulkan_fault.two_types || info->memoryTypeIndex == 0) && failing(AT_ALLOCATE)) return vulkan_fault.result;
    if (vulkan_fault.two_types) first.memoryTypeIndex = 0;
    return real.AllocateMemory(device, &first, allocator, memory);
}

static VKAPI_ATTR void VKAPI_CALL requirements(VkDevice device, VkBuffer buffer, VkMemoryRequirements *needs)
{
    real.GetBufferMemoryRequirements(device, buffer, needs);
    if (vulkan_fault.two_types) needs->memoryTypeBits = 3;
}

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    return failing(AT_SUBMIT) ? vulkan_fault.result : real.QueueSubmit(queue, n, info, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all, uint64_t timeout)
{
    VkResult r = real.WaitForFences(device, n, fences, all, timeout);   /* so that nothing runs when the test goes on */
    return failing(AT_WAIT) ? vulkan_fault.result : r;
}

static VKAPI_ATTR VkResult VKAPI_CALL pipelines(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *info,
                                                const VkAllocationCallbacks *allocator, VkPipeline *out)
{
    return failing(AT_PIPELINE) ? vulkan_fault.result : real.CreateComputePipelines(device, cache, n, info, allocator, out);
}

static VKAPI_ATTR void VKAPI_CALL no_barrier(VkCommandBuffer commands, VkPipelineStageFlags before, VkPipelineStageFlags after,
                                             VkDependencyFlags flags, uint32_t n, const VkMemoryBarrier *memory, uint32_t n_buffers,
                                             const VkBufferMemoryBarrier *buffers, uint32_t n_images, const VkImageMemoryBarrier *images)
{
    (void)commands, (void)before, (void)after, (void)flags, (void)n, (void)memory, (void)n_buffers, (void)buffers, (void)n_images;
    (void)images;
}

/* Invented devices are addresses in here; all of them are the first real one. */
static char invented[4];
static VkPhysicalDevice first_device;

static int number_of(VkPhysicalDevice device)
{
    for (int i = 0; i < vulkan_fault.devices; i++)
        if ((void *)device == (void *)&invented[i]) return i;
    return -1;
}

static VkPhysicalDevice truly(VkPhysicalDevice device) { return number_of(device) < 0 ? device : first_device; }

static VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices)
{
    uint32_t one = 1;

    if (vulkan_fault.no_devices) {
        *count = 0;
        return VK_SUCCESS;
    }
    if (!vulkan_fault.devices) return real.EnumeratePhysicalDevices(instance, count, devices);
    real.EnumeratePhysicalDevices(instance, &one, &first_device);
    *count = (uint32_t)vulkan_fault.devices;
    for (int i = 0; i < vulkan_fault.devices; i++) devices[i] = (VkPhysicalDevice)(void *)&invented[i];
    return VK_SUCCESS;
}

static void change(VkPhysicalDevice device, VkPhysicalDeviceProperties *p)
{
    int i = number_of(device);

    if (i >= 0) {
        snprintf(p->deviceName, sizeof p->deviceName, "%s", vulkan_fault.device[i].name);
        p->deviceType = vulkan_fault.device[i].type;
    }
    if (vulkan_fault.limits) vulkan_fault.limits(&p->limits);
}

static VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice device, VkPhysicalDeviceProperties *p)
{
    real.GetPhysicalDeviceProperties(truly(device), p);
    change(device, p);
}

static VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice device, VkPhysicalDeviceProperties2 *p)
{
    real.GetPhysicalDeviceProperties2(truly(device), p);
    change(device, &p->properties);
}

static VKAPI_ATTR void VKAPI_CALL features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *f)
{
    real.GetPhysicalDeviceFeatures2(truly(device), f);
    if (vulkan_fault.no_fp64) f->features.shaderFloat64 = VK_FALSE;
    for (VkBaseOutStructure *s = f->pNext; s && vulkan_fault.no_storage16; s = s->pNext)
        if (s->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES) {
            VkPhysicalDevice16BitStorageFeatures *half = (void *)s;
            half->storageBuffer16BitAccess = half->uniformAndStorageBuffer16BitAccess = VK_FALSE;
        }
}

static VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2 *m)
{
    real.GetPhysicalDeviceMemoryProperties2(truly(device), m);
    if (vulkan_fault.memory) vulkan_fault.memory(&m->memoryProperties);
}

static VKAPI_ATTR void VKAPI_CALL families(VkPhysicalDevice device, uint32_t *n, VkQueueFamilyProperties *out)
{
    real.GetPhysicalDeviceQueueFamilyProperties(truly(device), n, out);
    for (uint32_t i = 0; i < *n && out && vulkan_fault.no_timestamps; i++) out[i].timestampValidBits = 0;
}

static VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice device, const char *layer, uint32_t *n, VkExtensionProperties *list)
{
    return real.EnumerateDeviceExtensionProperties(truly(device), layer, n, list);
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice device, const VkDeviceCreateInfo *info,
                                                    const VkAllocationCallbacks *allocator, VkDevice *out)
{
    int i = number_of(device);
    return i >= 0 && vulkan_fault.device[i].broken ? VK_ERROR_INITIALIZATION_FAILED
                                                   : real.CreateDevice(truly(device), info, allocator, out);
}

#define REPLACE(name, function) \
    do { \
        if (api->name && api->name != function) real.name = api->name; \
        if (api->name) api->name = function; \
    } while (0)

void vulkan_patch(esi_vk_api *api)
{
    REPLACE(AllocateMemory, allocate);
    REPLACE(GetBufferMemoryRequirements, requirements);
    REPLACE(QueueSubmit, submit);
    REPLACE(WaitForFences, wait);
    REPLACE(CreateComputePipelines, pipelines);
    REPLACE(EnumeratePhysicalDevices, enumerate);
    REPLACE(GetPhysicalDeviceProperties, properties);
    REPLACE(GetPhysicalDeviceProperties2, properties2);
    REPLACE(GetPhysicalDeviceFeatures2, features);
    REPLACE(GetPhysicalDeviceMemoryProperties2, memory_properties);
    REPLACE(GetPhysicalDeviceQueueFamilyProperties, families);
    REPLACE(EnumerateDeviceExtensionProperties, extensions);
    REPLACE(CreateDevice, create_device);
    if (api->CmdPipelineBarrier && vulkan_fault.no_barriers) api->CmdPipelineBarrier = no_barrier;
}

/* ------------------------------------------------------------------ fixture */

static void keep_log(void *user, espalier_log_level level, const char *line)
{
    vulkan_fixture *f = user;
    size_t used = strlen(f->log);
    snprintf(f->log + used, sizeof f->log - used, "%d %s\n", (int)level, line);
}

int vulkan_setup(void **state)
{
    vulkan_fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options o = espalier_runtime_options_default();

    assert_non_null(f);
    o.threads = 1;
    o.log = keep_log;
    o.log_user = f;
    o.allocator = (espalier_allocator){.user = &f->memory, .allocate = test_allocate, .release = test_release};
    assert_int_equal(espalier_runtime_create(&f->runtime, &o), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    memset(&vulkan_fault, 0, sizeof vulkan_fault);
    *state = f;
    return 0;
}

int vulkan_teardown(void **state)
{
    vulkan_fixture *f = *state;

    vulkan_close(f);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    assert_int_equal(atomic_load(&f->memory.live_blocks), 0);
    free(f);
    return 0;
}

espalier_status vulkan_open(vulkan_fixture *f, const char *wanted)
{
    espalier_status st;

    vulkan_close(f);
    st = esi_vulkan_create(&f->device, esi_allocator(f->ctx), f->runtime->cpu->kernels, wanted, &f->hooks, f->message);
    if (st == ESPALIER_OK) f->ctx->backend = f->device;
    return st;
}

void vulkan_close(vulkan_fixture *f)
{
    if (f->device) f->device->destroy(f->device, esi_allocator(f->ctx));
    f->device = NULL;
    f->ctx->backend = f->runtime->cpu;
}

void vulkan_need(vulkan_fixture *f)
{
    if (vulkan_open(f, "vulkan") == ESPALIER_OK) return;
    print_message("SKIPPED: %s\n", f->message);
    skip();
}

/* --------------------------------------------------------------------- work */

static float value(int64_t i) { return (float)((i * 7919 + 13) % 2003 - 1001) * 0x1p-7f; }

espalier_status vulkan_work(espalier_context *ctx, int64_t rows, int64_t cols, float *out)
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

void vulkan_compare(vulkan_fixture *f, int64_t rows, int64_t cols)
{
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    esi_backend *device = f->ctx->backend;

    assert_true(want && got);
    f->ctx->backend = f->runtime->cpu;
    assert_int_equal(vulkan_work(f->ctx, rows, cols, want), ESPALIER_OK);
    f->ctx->backend = device;
    if (vulkan_work(f->ctx, rows, cols, got) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    assert_memory_equal(want, got, bytes);
    free(want);
    free(got);
}
