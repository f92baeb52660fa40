/* SPDX-License-Identifier: MIT
 *
 * fuzz_gguf.c: GGUF container -> list of tensors. Its corpus steers the fuzzer to this container.
 */
#include "weights_target.h"
