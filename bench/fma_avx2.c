/* SPDX-License-Identifier: MIT
 *
 * fma_avx2.c: calibration loop.
 */
#include "bench.h"
#include "tensor/cpu/vec_avx2.h"

#define LOOP_NAME   bench_fma_avx2
#define LOOP_CHAINS 12
#include "fma_loop.h"
