/* SPDX-License-Identifier: MIT
 *
 * device.c: see device.h.
 */
#include "device.h"

#include "base/context.h"
#include "tensor/backend.h"
#include "tensor/vulkan/vulkan.h"

#include <stdio.h>

#ifdef REPRO_VULKAN

#include "tensor/vulkan/internal.h"

/* Replaced functions have no argument of ours. */
static esi_vk_api real;
static int submissions, allocations, lost_at, full_at;

static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    return ++submissions == lost_at ? VK_ERROR_DEVICE_LOST : real.QueueSubmit(queue, n, info, fence);
}

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
                                               VkDeviceMemory *memory)
{
    allocations++;
    if (full_at && allocations >= full_at) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return real.AllocateMemory(device, info, allocator, memory);
}

static void patch(esi_vk_api *api)
{
    real = *api;
    if (api->QueueSubmit) api->QueueSubmit = submit;
    if (api->AllocateMemory) api->AllocateMemory = allocate;
}

#else
static int submissions, allocations, lost_at, full_at;
#endif

static void on_message(void *user, const char *message)
{
    repro_device *o = user;
    o->messages++;
    fprintf(stderr, "validation: %s\n", message);
}

espalier_status repro_device_open(espalier_runtime *runtime, repro_device *o, const char *name)
{
    esi_vulkan_hooks hooks = {.max_allocation = o->max_allocation, .max_range = o->max_range, .cost = o->cost, .validation_user = o};
    char message[ESI_VULKAN_TEXT];
    espalier_status st;

    if (o->validate) hooks.validation = on_message;
#ifdef REPRO_VULKAN
    if (o->lost_at || o->full_at) hooks.patch = patch;
#endif
    st = esi_vulkan_create(&runtime->gpu, &runtime->allocator, runtime->cpu->kernels, name, &hooks, message);
    submissions = allocations = 0;
    lost_at = o->lost_at;
    full_at = o->full_at;
    fprintf(stderr, "repro_hash: %s\n", message);
    return st;
}
