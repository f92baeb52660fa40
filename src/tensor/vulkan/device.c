/* SPDX-License-Identifier: MIT
 *
 * device.c: which devices there are, what they can do, which one is meant, and opening it.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/driver.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_DEVICES 64
#define MAX_EXTENSIONS 512

const char *esi_vulkan_fma_name(esi_vulkan_fma fma)
{
    static const char *const names[] = {"auto", "fused", "fp64", "integer"};
    return (unsigned)fma < ESI_COUNT(names) ? names[fma] : "?";
}

static const char *stage_of(const espalier_context *ctx) { return ctx->stage ? ctx->stage : ""; }

espalier_status esi_vk_fail(espalier_context *ctx, esi_vk_device *d, const char *format, ...)
{
    char text[ESI_VULKAN_TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (ctx) return esi_fail(ctx, ESPALIER_ERR_DEVICE, "%s%s%.200s: %s", stage_of(ctx), ctx->stage ? ": " : "", d->info.name, text);
    memcpy(d->info.reason, text, sizeof text);
    return ESPALIER_ERR_DEVICE;
}

espalier_status esi_vk_fail_memory(espalier_context *ctx, esi_vk_device *d, const char *what)
{
    if (ctx)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s%s%.200s: out of memory for %s", stage_of(ctx), ctx->stage ? ": " : "", d->info.name,
                        what);
    snprintf(d->info.reason, sizeof d->info.reason, "out of memory for %s", what);
    return ESPALIER_ERR_RESOURCE;
}

espalier_status esi_vk_fail_result(espalier_context *ctx, esi_vk_device *d, const char *what, VkResult result)
{
    d->lost = d->lost || result == VK_ERROR_DEVICE_LOST || result == VK_TIMEOUT;
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY) return esi_vk_fail_memory(ctx, d, what);
    return esi_vk_fail(ctx, d, "%s: %s", what, esi_vk_result_name(result));
}

/* ------------------------------------------------------------- description */

typedef struct properties {
    VkPhysicalDeviceProperties2 base;
    VkPhysicalDeviceMaintenance3Properties maintenance;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceFloatControlsProperties controls;
} properties;

static void get_properties(const esi_vk_instance *in, VkPhysicalDevice physical, properties *p)
{
    memset(p, 0, sizeof *p);
    p->controls.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    p->driver = (VkPhysicalDeviceDriverProperties){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES, .pNext = &p->controls};
    p->maintenance = (VkPhysicalDeviceMaintenance3Properties){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                                                              .pNext = &p->driver};
    p->base = (VkPhysicalDeviceProperties2){.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &p->maintenance};
    in->api.GetPhysicalDeviceProperties2(physical, &p->base);
}

static const char *type_name(VkPhysicalDeviceType type)
{
    switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return "cpu";
    default: return "other";
    }
}

static bool has_extension(const VkExtensionProperties *list, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(list[i].extensionName, name) == 0) return true;
    return false;
}

/* The queue family to compute on: one that does nothing but compute, if there is one; -1 = none. */
static int compute_family(const esi_vk_instance *in, VkPhysicalDevice physical, VkQueueFamilyProperties *out)
{
    VkQueueFamilyProperties families[32];
    uint32_t n = ESI_COUNT(families);
    int best = -1;

    in->api.GetPhysicalDeviceQueueFamilyProperties(physical, &n, families);
    for (uint32_t i = 0; i < n; i++) {
        if (!(families[i].queueFlags & VK_QUEUE_COMPUTE_BIT)) continue;
        if (best < 0 || !(families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT)) {
            best = (int)i;
            *out = families[i];
        }
    }
    return best;
}

static void describe_memory(esi_vulkan_info *info, const VkPhysicalDeviceMemoryProperties *m)
{
    for (uint32_t i = 0; i < m->memoryHeapCount; i++)
        if (m->memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) info->memory = ESI_MAX(info->memory, m->memoryHeaps[i].size);
}

static bool limits_suffice(const VkPhysicalDeviceLimits *limits, esi_vulkan_info *info)
{
    const struct { const char *what; uint64_t has, needed; } list[] = {
        {"storage buffers in a shader", limits->maxPerStageDescriptorStorageBuffers, ESI_VK_BINDINGS},
        {"storage buffers in a set", limits->maxDescriptorSetStorageBuffers, ESI_VK_BINDINGS},
        {"bytes of push constants", limits->maxPushConstantsSize, sizeof(esi_vk_push)},
        {"invocations in a workgroup", ESI_MIN(limits->maxComputeWorkGroupInvocations, limits->maxComputeWorkGroupSize[0]), 128},
        {"bytes of shared memory", limits->maxComputeSharedMemorySize, 16384},
        {"bytes in an allocation", info->max_allocation, 65536},
        {"bytes in a binding", info->max_range, 4096}};

    for (size_t i = 0; i < ESI_COUNT(list); i++) {
        if (list[i].has >= list[i].needed) continue;
        snprintf(info->reason, sizeof info->reason, "it has at most %llu %s, %llu are needed", (unsigned long long)list[i].has,
                 list[i].what, (unsigned long long)list[i].needed);
        return false;
    }
    return true;
}

/* Fills info; false with info->reason when this device cannot do at all. */
static bool describe(const esi_vk_instance *in, VkPhysicalDevice physical, esi_vulkan_info *info, VkExtensionProperties *extensions,
                     uint32_t *n_extensions)
{
    VkPhysicalDevice16BitStorageFeatures half = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &half};
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    VkQueueFamilyProperties family;
    VkPhysicalDeviceProperties first;
    properties p;
    const VkPhysicalDeviceLimits *limits = &first.limits;

    memset(info, 0, sizeof *info);
    in->api.GetPhysicalDeviceProperties(physical, &first);
    snprintf(info->name, sizeof info->name, "%s", first.deviceName);
    esi_clean_line(info->name);
    info->type = type_name(first.deviceType);
    snprintf(info->api, sizeof info->api, "%u.%u.%u", VK_API_VERSION_MAJOR(first.apiVersion), VK_API_VERSION_MINOR(first.apiVersion),
             VK_API_VERSION_PATCH(first.apiVersion));
    info->max_range = ESI_MIN(limits->maxStorageBufferRange, UINT32_C(1) << 30);
    info->alignment = (uint32_t)ESI_MAX(limits->minStorageBufferOffsetAlignment, UINT64_C(16));
    info->shared_memory = limits->maxComputeSharedMemorySize;
    info->workgroup = ESI_MIN(limits->maxComputeWorkGroupInvocations, limits->maxComputeWorkGroupSize[0]);
    if (first.apiVersion < VK_API_VERSION_1_2) {
        snprintf(info->reason, sizeof info->reason, "it has Vulkan %s, 1.2 is needed", info->api);
        return false;
    }
    get_properties(in, physical, &p);
    snprintf(info->driver, sizeof info->driver, "%s %s", p.driver.driverName, p.driver.driverInfo);
    esi_clean_line(info->driver);
    info->max_allocation = p.maintenance.maxMemoryAllocationSize;
    info->signed_zero_inf_nan = p.controls.shaderSignedZeroInfNanPreserveFloat32;
    info->round_to_even = p.controls.shaderRoundingModeRTEFloat32;
    info->denormals_preserved = p.controls.shaderDenormPreserveFloat32;
    info->denormals_flushed = p.controls.shaderDenormFlushToZeroFloat32;
    in->api.GetPhysicalDeviceFeatures2(physical, &features);
    info->fp64 = features.features.shaderFloat64;
    info->storage16 = half.storageBuffer16BitAccess;
    in->api.GetPhysicalDeviceMemoryProperties2(physical, &memory);
    describe_memory(info, &memory.memoryProperties);
    *n_extensions = MAX_EXTENSIONS;
    if (in->api.EnumerateDeviceExtensionProperties(physical, NULL, n_extensions, extensions) < 0) *n_extensions = 0;
    info->portability = has_extension(extensions, *n_extensions, "VK_KHR_portability_subset");
    if (in->hooks.max_allocation) info->max_allocation = ESI_MIN(info->max_allocation, in->hooks.max_allocation);
    if (in->hooks.max_range) info->max_range = ESI_MIN(info->max_range, in->hooks.max_range);
    if (compute_family(in, physical, &family) < 0) {
        snprintf(info->reason, sizeof info->reason, "it has no queue for computing");
        return false;
    }
    return limits_suffice(limits, info);
}

/* ------------------------------------------------------------------ choice */

static int rank(const esi_vulkan_info *info)
{
    static const char *const order[] = {"discrete", "integrated", "virtual", "other", "cpu"};
    for (size_t i = 0; i < ESI_COUNT(order); i++)
        if (strcmp(info->type, order[i]) == 0) return (int)i;
    return (int)ESI_COUNT(order);
}

static bool contains(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++) {
        size_t i = 0;
        while (i < n && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i])) i++;
        if (i == n) return true;
    }
    return false;
}

/* "...: vulkan:0 NAME, vulkan:1 NAME", as far as there is room. */
static void append_names(char *message, const esi_vulkan_info *infos, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t used = strlen(message);
        snprintf(message + used, ESI_VULKAN_TEXT - used, "%s vulkan:%u %s", i ? "," : "; there is", i, infos[i].name);
    }
}

/* Number of the device that `wanted` names, or -1 with a message. `tried`: a bit for each that "auto" found to be unfit. */
static int choose(const esi_vulkan_info *infos, uint32_t n, const char *wanted, uint64_t tried, char *message)
{
    bool automatic = strcmp(wanted, "auto") == 0, any = strcmp(wanted, "vulkan") == 0;
    int best = -1;

    if (n == 0) {
        snprintf(message, ESI_VULKAN_TEXT, "no Vulkan device here: the loader finds none");
        return -1;
    }
    if (strncmp(wanted, "vulkan:", 7) == 0) {
        char *end;
        unsigned long number = strtoul(wanted + 7, &end, 10);
        if (isdigit((unsigned char)wanted[7]) && !*end && number < n) return (int)number;
        snprintf(message, ESI_VULKAN_TEXT, "there is no device '%.60s'", wanted);
        append_names(message, infos, n);
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool fits = automatic ? rank(&infos[i]) <= 1 && !(tried >> i & 1) : any || contains(infos[i].name, wanted);
        if (fits && (best < 0 || rank(&infos[i]) < rank(&infos[best]))) best = (int)i;
    }
    if (best >= 0 || tried) return best;
    if (automatic) snprintf(message, ESI_VULKAN_TEXT, "no discrete or integrated Vulkan device here");
    else snprintf(message, ESI_VULKAN_TEXT, "no Vulkan device's name contains '%.60s'", wanted);
    append_names(message, infos, n);
    return best;
}

/* ----------------------------------------------------------------- opening */

/* Memory that not every access may use, or that is made only when it is touched. */
#define MEMORY_UNFIT (VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | \
                      VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD | \
                      VK_MEMORY_PROPERTY_RDMA_CAPABLE_BIT_NV)

/* Every device must have a type of memory that the host sees and that needs no flushing: transfers go through that. */
static bool find_memory_types(esi_vk_device *d)
{
    VkPhysicalDeviceMemoryProperties2 m = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    const VkMemoryPropertyFlags mapped = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    bool host = false, cached = false;

    d->instance.api.GetPhysicalDeviceMemoryProperties2(d->physical, &m);
    d->memory_types = m.memoryProperties;
    for (int local = 1; local >= 0; local--)
        for (uint32_t i = 0; i < d->memory_types.memoryTypeCount; i++) {
            VkMemoryPropertyFlags flags = d->memory_types.memoryTypes[i].propertyFlags;
            bool is_local = (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0, fast = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT) != 0;
            if (flags & MEMORY_UNFIT) continue;
            if (is_local == (local == 1)) d->memory_order[d->n_memory_order++] = i;
            if ((flags & mapped) == mapped && (!host || (fast && !cached))) {       /* cached: reading back is fast */
                host = true;
                cached = fast;
                d->host_memory = i;
            }
        }
    return d->n_memory_order > 0 && host;
}

static espalier_status create_device(esi_vk_device *d, const VkExtensionProperties *extensions, uint32_t n_extensions)
{
    static const float priority = 1.0f;
    const char *names[2];
    VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueFamilyIndex = d->family, .queueCount = 1,
                                     .pQueuePriorities = &priority};
    VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .pNext = &features, .queueCreateInfoCount = 1,
                               .pQueueCreateInfos = &queue, .ppEnabledExtensionNames = names};
    VkResult r;

    features.features.shaderFloat64 = d->info.fp64;
    if (d->info.portability) names[info.enabledExtensionCount++] = "VK_KHR_portability_subset";
    d->memory_budget = has_extension(extensions, n_extensions, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    if (d->memory_budget) names[info.enabledExtensionCount++] = VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
    r = d->instance.api.CreateDevice(d->physical, &info, NULL, &d->handle);
    if (r != VK_SUCCESS) {
        d->handle = NULL;
        return esi_vk_fail_result(NULL, d, "opening the device", r);
    }
    if (!esi_vk_load_device(&d->instance, &d->vk, d->handle)) return esi_vk_fail(NULL, d, "its driver lacks functions of Vulkan 1.2");
    d->vk.GetDeviceQueue(d->handle, d->family, 0, &d->queue);
    return ESPALIER_OK;
}

/* What a device still works on must not be destroyed. One that does not answer is left alone, with all that belongs to it: waiting could
 * last for ever. */
static void close_device(esi_vk_device *d)
{
    bool idle = esi_vk_slots_idle(d);

    if (d->handle && d->vk.DestroyDevice && idle) {
        esi_vk_slots_close(d);
        esi_vk_pipelines_close(d);
        esi_vk_memory_close(d, true);
        d->vk.DestroyDevice(d->handle, NULL);
    }
    if (idle) esi_vk_instance_close(&d->instance);
    else esi_vk_memory_close(d, false);
    if (d->has_lock) pthread_mutex_destroy(&d->lock);
    if (d->has_trial_lock) pthread_mutex_destroy(&d->trial_lock);
    esi_raw_free(&d->allocator, d, sizeof *d);
}

static void destroy(esi_backend *backend, const espalier_allocator *allocator)
{
    (void)allocator;
    close_device((esi_vk_device *)(void *)backend);
}

/* d->physical and d->instance are set; d->info says what went wrong. */
static espalier_status open_device(esi_vk_device *d)
{
    VkExtensionProperties *extensions = esi_raw_alloc(&d->allocator, MAX_EXTENSIONS * sizeof *extensions);
    VkQueueFamilyProperties family = {0};
    VkPhysicalDeviceProperties first;
    uint32_t n_extensions = 0;
    espalier_status st = ESPALIER_ERR_DEVICE;

    if (!extensions) return ESPALIER_ERR_RESOURCE;
    if (!describe(&d->instance, d->physical, &d->info, extensions, &n_extensions)) goto done;
    d->family = (uint32_t)compute_family(&d->instance, d->physical, &family);
    d->instance.api.GetPhysicalDeviceProperties(d->physical, &first);
    d->alignment = d->info.alignment;
    d->max_groups = ESI_MIN(first.limits.maxComputeWorkGroupCount[0], first.limits.maxComputeWorkGroupCount[1]);
    d->timestamp_period = family.timestampValidBits ? first.limits.timestampPeriod : 0.0f;
    d->fence_timeout = d->instance.hooks.fence_timeout ? d->instance.hooks.fence_timeout : UINT64_C(120) * 1000000000;
    if (!find_memory_types(d)) {
        esi_vk_fail(NULL, d, "it has no memory that we can use");
        goto done;
    }
    st = create_device(d, extensions, n_extensions);
    if (st == ESPALIER_OK) st = esi_vk_slots_open(d);
    if (st == ESPALIER_OK) st = esi_vk_self_test(d, d->instance.hooks.fma);
    d->info.usable = st == ESPALIER_OK;
done:
    esi_raw_free(&d->allocator, extensions, MAX_EXTENSIONS * sizeof *extensions);
    return st;
}

static esi_vk_device *new_device(const espalier_allocator *allocator, const esi_kernels *kernels)
{
    esi_vk_device *d = esi_raw_alloc(allocator, sizeof *d);

    if (!d) return NULL;
    memset(d, 0, sizeof *d);
    d->allocator = *allocator;
    d->has_lock = pthread_mutex_init(&d->lock, NULL) == 0;
    d->has_trial_lock = pthread_mutex_init(&d->trial_lock, NULL) == 0;
    d->backend.name = "vulkan";
    d->backend.kernels = kernels;
    d->backend.buffer_new = esi_vk_buffer_new;
    d->backend.buffer_free = esi_vk_buffer_free;
    d->backend.write = esi_vk_write;
    d->backend.read = esi_vk_read;
    d->backend.wait = esi_vk_wait;
    d->backend.destroy = destroy;
    esi_vk_set_ops(&d->backend);
    return d;
}

/* Physical devices and what they are; *n may be 0. */
static bool enumerate(const esi_vk_instance *in, const espalier_allocator *allocator, VkPhysicalDevice *devices, esi_vulkan_info *infos,
                      uint32_t *n)
{
    VkExtensionProperties *extensions = esi_raw_alloc(allocator, MAX_EXTENSIONS * sizeof *extensions);
    uint32_t n_extensions;
    VkResult r;

    *n = MAX_DEVICES;
    if (!extensions) return false;
    r = in->api.EnumeratePhysicalDevices(in->handle, n, devices);
    if (r != VK_SUCCESS && r != VK_INCOMPLETE) *n = 0;
    for (uint32_t i = 0; i < *n; i++) describe(in, devices[i], &infos[i], extensions, &n_extensions);
    esi_raw_free(allocator, extensions, MAX_EXTENSIONS * sizeof *extensions);
    return true;
}

static espalier_status create(esi_backend **out, const espalier_allocator *allocator, const esi_kernels *kernels, const char *wanted,
                              const esi_vulkan_hooks *hooks, uint64_t *tried, char *message)
{
    const size_t size = MAX_DEVICES * sizeof(esi_vulkan_info);
    VkPhysicalDevice devices[MAX_DEVICES];
    esi_vk_device *d = new_device(allocator, kernels);
    esi_vulkan_info *infos = esi_raw_alloc(allocator, size);
    espalier_status st = ESPALIER_ERR_RESOURCE;
    uint32_t n;
    int number;

    *out = NULL;
    if (!*tried) snprintf(message, ESI_VULKAN_TEXT, "out of memory for the device");
    if (!d || !d->has_lock || !d->has_trial_lock || !infos) goto done;
    st = ESPALIER_ERR_DEVICE;
    if (!esi_vk_instance_open(&d->instance, hooks, message)) goto done;
    if (!enumerate(&d->instance, allocator, devices, infos, &n)) {
        st = ESPALIER_ERR_RESOURCE;
        snprintf(message, ESI_VULKAN_TEXT, "out of memory for the list of devices");
        goto done;
    }
    number = choose(infos, n, wanted, *tried, message);
    if (number < 0) {
        *tried = UINT64_MAX;
        goto done;
    }
    d->physical = devices[number];
    st = open_device(d);
    if (st != ESPALIER_OK) {
        *tried |= UINT64_C(1) << number;
        snprintf(message, ESI_VULKAN_TEXT, "vulkan:%d %.200s cannot be used: %.200s", number, d->info.name, d->info.reason);
        goto done;
    }
    snprintf(message, ESI_VULKAN_TEXT, "vulkan:%d %.200s (%s; %.200s; fma %s)", number, d->info.name, d->info.type, d->info.driver,
             esi_vulkan_fma_name(d->info.fma));
    *out = &d->backend;
done:
    esi_raw_free(allocator, infos, size);
    if (d && !*out) close_device(d);
    return st;
}

/* "auto" goes on to the next device when one computes wrongly or is broken. */
espalier_status esi_vulkan_create(esi_backend **out, const espalier_allocator *allocator, const esi_kernels *kernels, const char *wanted,
                                  const esi_vulkan_hooks *hooks, char *message)
{
    uint64_t tried = 0, before;
    espalier_status st;

    do {
        before = tried;
        st = create(out, allocator, kernels, wanted, hooks, &tried, message);
    } while (st == ESPALIER_ERR_DEVICE && strcmp(wanted, "auto") == 0 && tried != before && tried != UINT64_MAX);
    return st;
}

/* Opens each device once, to see whether it computes rightly. */
static espalier_status test_device(esi_vulkan_info *info, const espalier_allocator *allocator, const esi_kernels *kernels,
                                   const esi_vulkan_hooks *hooks, size_t number)
{
    char wanted[32], message[ESI_VULKAN_TEXT];
    esi_backend *backend;
    espalier_status st;

    snprintf(wanted, sizeof wanted, "vulkan:%zu", number);
    st = esi_vulkan_create(&backend, allocator, kernels, wanted, hooks, message);
    if (st == ESPALIER_OK) {
        *info = ((esi_vk_device *)(void *)backend)->info;
        backend->destroy(backend, allocator);
    } else {
        memcpy(info->reason, message, sizeof info->reason);
    }
    return st == ESPALIER_ERR_DEVICE ? ESPALIER_OK : st;
}

espalier_status esi_vulkan_list(const espalier_allocator *allocator, const esi_kernels *kernels, const esi_vulkan_hooks *hooks, bool test,
                                esi_vulkan_info **list, size_t *count, char *message)
{
    VkPhysicalDevice devices[MAX_DEVICES];
    esi_vk_instance instance;
    uint32_t n = 0;
    espalier_status st = ESPALIER_OK;
    bool good;

    *list = NULL;
    *count = 0;
    message[0] = 0;
    if (!esi_vk_instance_open(&instance, hooks, message)) return ESPALIER_OK;
    *list = esi_raw_alloc(allocator, MAX_DEVICES * sizeof **list);
    good = *list && enumerate(&instance, allocator, devices, *list, &n);
    esi_vk_instance_close(&instance);
    if (!good) {
        esi_vulkan_list_free(allocator, *list);
        *list = NULL;
        return ESPALIER_ERR_RESOURCE;
    }
    if (n == 0) snprintf(message, ESI_VULKAN_TEXT, "no Vulkan device here: the loader finds none");
    for (uint32_t i = 0; test && i < n && st == ESPALIER_OK; i++)
        if (!(*list)[i].reason[0]) st = test_device(&(*list)[i], allocator, kernels, hooks, i);
    if (st == ESPALIER_OK) {
        *count = n;
    } else {
        esi_vulkan_list_free(allocator, *list);
        *list = NULL;
    }
    return st;
}

void esi_vulkan_list_free(const espalier_allocator *allocator, esi_vulkan_info *list)
{
    if (list) esi_raw_free(allocator, list, MAX_DEVICES * sizeof *list);
}
