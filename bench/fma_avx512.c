/* SPDX-License-Identifier: MIT
 *
 * fma_avx512.c: calibration loop.
 */
#include "bench.h"
#include "tensor/cpu/vec_avx512.h"

#define LOOP_NAME   bench_fma_avx512
#define LOOP_CHAINS 24
#include "fma_loop.h"
