/* SPDX-License-Identifier: MIT
 *
 * vulkan_fixture.h: what the tests of the Vulkan backend share: a context with a device, some work for it whose result is known, and a
 * loader whose functions can be made to fail or to describe other devices than there are.
 */
#ifndef VULKAN_FIXTURE_H
#define VULKAN_FIXTURE_H

#include "support.h"

#include "tensor/cpu/cpu.h"
#include "tensor/vulkan/internal.h"

typedef struct vulkan_fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
    esi_backend *device;
    esi_vulkan_hooks hooks;
    char message[ESI_VULKAN_TEXT];
    char log[4096];                         /* lines of the context's log, "LEVEL text\n" */
} vulkan_fixture;

/* What the replaced functions do. A test sets it, and hooks.patch = vulkan_patch, before it opens the device. */
typedef enum vulkan_function { NO_FUNCTION, AT_ALLOCATE, AT_SUBMIT, AT_WAIT, AT_PIPELINE } vulkan_function;
typedef struct vulkan_faults {
    vulkan_function failing;                /* this function fails with `result` ... */
    VkResult result;
    int calls, from, to;                    /* ... from this call on (0 = never) up to that one (0 = for ever) */
    bool no_barriers;
    int devices;                            /* > 0: as many devices in the place of the first */
    struct { const char *name; VkPhysicalDeviceType type; bool broken; } device[4];
    void (*limits)(VkPhysicalDeviceLimits *limits);
    void (*memory)(VkPhysicalDeviceMemoryProperties *memory);
    bool two_types;                         /* the second type of memory is the first by another name */
    bool no_fp64, no_storage16, no_devices, no_timestamps;
} vulkan_faults;
extern vulkan_faults vulkan_fault;
void vulkan_patch(esi_vk_api *api);

int vulkan_setup(void **state);
int vulkan_teardown(void **state);
espalier_status vulkan_open(vulkan_fixture *f, const char *wanted);
void vulkan_close(vulkan_fixture *f);
/* The device for the context; skips the test where there is none. */
void vulkan_need(vulkan_fixture *f);

/* A bit of everything: each result goes into the next op; `out` gets rows * cols numbers; cols <= 4. */
espalier_status vulkan_work(espalier_context *ctx, int64_t rows, int64_t cols, float *out);
/* On the device and on the CPU, and the bytes are the same. */
void vulkan_compare(vulkan_fixture *f, int64_t rows, int64_t cols);

#define VULKAN_TEST(name) cmocka_unit_test_setup_teardown(name, vulkan_setup, vulkan_teardown)

#endif
