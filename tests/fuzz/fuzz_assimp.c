/* SPDX-License-Identifier: MIT
 *
 * fuzz_assimp.c: formats that assimp reads in a child process. What dies there must be a refused file here; each run costs a process, so
 * this is slow.
 */
#include "surface_target.h"

static const char *name_of(const uint8_t *data, size_t size)
{
    return size > 0 && data[0] == '<' ? "fuzz.dae" : "fuzz.fbx";
}
