/* SPDX-License-Identifier: MIT
 *
 * fuzz.h: what a fuzz target is. fuzz_<name>.c defines fuzz_target(); fuzz_main.c drives it by libFuzzer, replay_main.c by the files of
 * tests/fuzz/corpus/<name>/.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include "base/base.h"

/* Parse the bytes, use every part of the result, release it. true if they were accepted. A result that breaks a promise of the parser must
 * abort(). The context has no pending error at the start and must own no memory at the end. */
bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size);

/* A context that lives until the process ends, or NULL. */
espalier_context *fuzz_context(void);
/* fuzz_target() and the checks that hold for all of them. */
bool fuzz_run(espalier_context *ctx, const uint8_t *data, size_t size);

#endif
