/* SPDX-License-Identifier: MIT
 *
 * library.c: shared libraries that are looked for at run time.
 */
#include "base/base.h"

#include <dlfcn.h>

void *esi_library_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

esi_function esi_library_function(void *library, const char *name)
{
    void *address = dlsym(library, name);
    esi_function function;

    memcpy(&function, &address, sizeof function); /* ISO C has no cast between the two kinds of pointers */
    return function;
}

void esi_library_close(void *library)
{
    if (library) dlclose(library);
}
