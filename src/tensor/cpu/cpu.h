/* SPDX-License-Identifier: MIT
 *
 * cpu.h: the CPU backend as the runtime sees it.
 */
#ifndef ESI_CPU_H
#define ESI_CPU_H

#include "base/context.h"
#include "tensor/backend.h"
#include "tensor/cpu/kernels.h"

/* The kernels of a level, or NULL where this build, the processor or the operating system lacks them. BEST is no level: NULL. */
const esi_kernels *esi_cpu_kernels(espalier_cpu_level level);

espalier_status esi_cpu_backend_create(esi_backend **out, const espalier_allocator *allocator, espalier_cpu_level level);

#endif
