/* SPDX-License-Identifier: MIT
 *
 * fuzz_main.c: libFuzzer's entry.
 */
#include "fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    espalier_context *ctx = fuzz_context();
    if (!ctx) abort();
    fuzz_run(ctx, data, size);
    return 0;
}
