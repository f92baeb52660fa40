/* SPDX-License-Identifier: MIT
 *
 * fma_neon.c: calibration loop.
 */
#include "bench.h"
#include "tensor/cpu/vec_neon.h"

#define LOOP_NAME   bench_fma_neon
#define LOOP_CHAINS 24
#include "fma_loop.h"
