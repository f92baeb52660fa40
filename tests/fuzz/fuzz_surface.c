/* SPDX-License-Identifier: MIT
 *
 * fuzz_surface.c: the mesh formats that we read ourselves, told by how the bytes begin.
 */
#include "surface_target.h"

static bool begins(const uint8_t *data, size_t size, const char *what)
{
    return size >= strlen(what) && memcmp(data, what, strlen(what)) == 0;
}

static const char *name_of(const uint8_t *data, size_t size)
{
    if (begins(data, size, "glTF")) return "fuzz.glb";
    if (begins(data, size, "{")) return "fuzz.gltf";
    if (begins(data, size, "ply")) return "fuzz.ply";
    if (begins(data, size, "PK")) return "fuzz.3mf";
    if (begins(data, size, "OFF") || begins(data, size, "COFF") || begins(data, size, "NOFF")) return "fuzz.off";
    if (begins(data, size, "solid") || begins(data, size, "STL")) return "fuzz.stl";
    return "fuzz.obj";
}
