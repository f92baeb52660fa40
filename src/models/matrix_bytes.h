/* SPDX-License-Identifier: MIT
 *
 * matrix_bytes.h: sizes for memory plans.
 */
#ifndef ESI_MATRIX_BYTES_H
#define ESI_MATRIX_BYTES_H

#include "base/base.h"

/* Bytes of an fp32 matrix; absurd sizes stay small enough to be added up. */
static inline uint64_t esi_matrix_bytes(int64_t rows, int64_t cols)
{
    const uint64_t most = (uint64_t)1 << 50;
    size_t n;

    if (!esi_mul_size(&n, (size_t)rows, (size_t)cols) || !esi_mul_size(&n, n, sizeof(float))) return most;
    return ESI_MIN((uint64_t)n, most);
}

/* Scratch inside esi_linear: about this many columns of a weight matrix are unpacked at a time, and accumulators. */
static inline uint64_t esi_linear_scratch_bytes(int64_t widest)
{
    return esi_matrix_bytes(384, widest) + ((uint64_t)2 << 20);
}

#endif
