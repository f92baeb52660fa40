/* SPDX-License-Identifier: MIT
 *
 * fma_plain.c: calibration loop of the generic levels.
 */
#include "bench.h"
#include "tensor/cpu/vec_scalar.h"

#define LOOP_NAME   bench_fma_plain
#define LOOP_CHAINS 8
#include "fma_loop.h"
