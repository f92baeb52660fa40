/* SPDX-License-Identifier: MIT
 *
 * fuzz_common.c: the context of a fuzz process, the checks around one run.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#define MEMORY_BUDGET ((uint64_t)1 << 30)

espalier_context *fuzz_context(void)
{
    static espalier_runtime *runtime;
    static espalier_context *ctx;
    espalier_runtime_options options = espalier_runtime_options_default();

    if (ctx) return ctx;
    options.threads = 1;
    if (espalier_runtime_create(&runtime, &options) != ESPALIER_OK || espalier_context_create(&ctx, runtime) != ESPALIER_OK) return NULL;
    espalier_context_set_memory_budget(ctx, MEMORY_BUDGET);
    return ctx;
}

bool fuzz_run(espalier_context *ctx, const uint8_t *data, size_t size)
{
    esi_clear_error(ctx);
    bool accepted = fuzz_target(ctx, data, size);
    if (!accepted && espalier_error_message(ctx)[0] == '\0') {
        fprintf(stderr, "refused without a message\n");
        abort();
    }
    if (espalier_context_memory_now(ctx) != 0) {
        fprintf(stderr, "%llu bytes left allocated\n", (unsigned long long)espalier_context_memory_now(ctx));
        abort();
    }
    return accepted;
}
