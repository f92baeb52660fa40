/* SPDX-License-Identifier: MIT
 *
 * device.h: a Vulkan device with lowered limits, under the validation layer, or with failures, for repro_hash.
 */
#ifndef REPRO_DEVICE_H
#define REPRO_DEVICE_H

#include "base/base.h"

typedef struct repro_device {
    uint64_t max_allocation, max_range;     /* lowered limits; 0 = leave them */
    double cost;                            /* nanoseconds for a unit of work; 0 = what was measured */
    bool validate;                          /* run under the validation layer */
    int lost_at;                            /* this submission is lost, counted from the end of the self-test; 0 = none */
    int full_at;                            /* the same for allocations of device memory */
    int messages;                           /* of the validation layer so far */
} repro_device;

/* Gives the runtime the device `name`, which `options` must outlive. ESPALIER_ERR_DEVICE with a line on stderr. */
espalier_status repro_device_open(espalier_runtime *runtime, repro_device *options, const char *name);

#endif
