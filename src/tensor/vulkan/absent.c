/* SPDX-License-Identifier: MIT
 *
 * absent.c: the Vulkan backend of a build without the Vulkan headers or glslc: there is none, and it says so.
 */
#include "tensor/vulkan/vulkan.h"

#include <stdio.h>

const char *esi_vulkan_fma_name(esi_vulkan_fma fma)
{
    (void)fma;
    return "?";
}

espalier_status esi_vulkan_list(const espalier_allocator *allocator, const struct esi_kernels *kernels, const esi_vulkan_hooks *hooks,
                                bool test, esi_vulkan_info **list, size_t *count, char *message)
{
    (void)allocator;
    (void)kernels;
    (void)hooks;
    (void)test;
    *list = NULL;
    *count = 0;
    snprintf(message, ESI_VULKAN_TEXT, "no Vulkan here: this program was built without it");
    return ESPALIER_OK;
}

void esi_vulkan_list_free(const espalier_allocator *allocator, esi_vulkan_info *list)
{
    (void)allocator;
    (void)list;
}

espalier_status esi_vulkan_create(struct esi_backend **out, const espalier_allocator *allocator, const struct esi_kernels *kernels,
                                  const char *wanted, const esi_vulkan_hooks *hooks, char *message)
{
    (void)allocator;
    (void)kernels;
    (void)wanted;
    (void)hooks;
    *out = NULL;
    snprintf(message, ESI_VULKAN_TEXT, "no Vulkan here: this program was built without it");
    return ESPALIER_ERR_DEVICE;
}
