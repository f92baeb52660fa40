/* SPDX-License-Identifier: MIT
 *
 * vulkan.h: the Vulkan backend as the runtime and tests see it. Vulkan 1.2 is loaded at run time; a build without its headers has the same
 * functions, which find no device.
 */
#ifndef ESI_VULKAN_H
#define ESI_VULKAN_H

#include "base/base.h"

#define ESI_VULKAN_TEXT 512

/* How a device gets an exactly rounded fma: its own instruction, fp64, or integers. */
typedef enum esi_vulkan_fma { ESI_VULKAN_FMA_AUTO = 0, ESI_VULKAN_FMA_FUSED, ESI_VULKAN_FMA_FP64, ESI_VULKAN_FMA_INTEGER } esi_vulkan_fma;
const char *esi_vulkan_fma_name(esi_vulkan_fma fma);          /* "fused", "fp64", "integer" */

struct esi_vk_api;

/* For tests; all zero is what the runtime uses. */
typedef struct esi_vulkan_hooks {
    const char *library;                    /* name of the loader library in place of the system's */
    void (*patch)(struct esi_vk_api *api);  /* called when functions were loaded: may replace some */
    uint64_t max_allocation, max_range;     /* lower the device's limits; 0 = leave them */
    esi_vulkan_fma fma;                     /* force one; refused when it computes wrongly */
    const char *spoil;                      /* the name of an op that computes wrongly from then on */
    double cost;                            /* nanoseconds that a unit of work is thought to take; 0 = what was measured */
    uint64_t fence_timeout;                 /* nanoseconds; 0 = the default */
    void (*validation)(void *user, const char *message);      /* run under the Khronos validation layer and say what it says */
    void *validation_user;
} esi_vulkan_hooks;

/* What `espalier devices` tells of one. */
typedef struct esi_vulkan_info {
    char name[256], driver[256 + 256];
    const char *type;                       /* "discrete", "integrated", "virtual", "cpu", "other" */
    char api[32];                           /* "1.3.230" */
    uint64_t memory;                        /* of the largest device-local heap */
    uint64_t max_allocation, max_range;
    uint32_t shared_memory, workgroup, alignment;
    bool fp64, storage16, portability;
    bool signed_zero_inf_nan, round_to_even, denormals_preserved, denormals_flushed;    /* can be asked of fp32 shaders */
    bool usable;
    esi_vulkan_fma fma;                     /* the path it gets, when usable */
    const char *subnormals;                 /* "kept", "flushed", "partly flushed": what the self-test saw; NULL = not tested */
    char reason[ESI_VULKAN_TEXT];           /* otherwise why not */
} esi_vulkan_info;

/* All Vulkan devices in the loader's order, tested when `test`; *list by esi_raw_alloc, *count entries. None, with the reason in `message`
 * (ESI_VULKAN_TEXT bytes), is no error. */
struct esi_kernels;
espalier_status esi_vulkan_list(const espalier_allocator *allocator, const struct esi_kernels *kernels, const esi_vulkan_hooks *hooks,
                                bool test, esi_vulkan_info **list, size_t *count, char *message);

void esi_vulkan_list_free(const espalier_allocator *allocator, esi_vulkan_info *list);    /* NULL is fine */

/* A backend on the device that `wanted` names:
 *   "auto"      a discrete device, else an integrated one; never a software device
 *   "vulkan"    the same, but any device is better than none
 *   "vulkan:N"  number N of the list
 *   else        the first whose name contains the text, upper and lower case alike
 * kernels: what ops run on that the device has not. ESPALIER_ERR_DEVICE with one line in `message`: no Vulkan, no such device, or it
 * computes wrongly. On success `message` describes the device: "vulkan:0 NAME (type; driver; fma fused)". */
struct esi_backend;
espalier_status esi_vulkan_create(struct esi_backend **out, const espalier_allocator *allocator, const struct esi_kernels *kernels,
                                  const char *wanted, const esi_vulkan_hooks *hooks, char *message);

#endif
