/* SPDX-License-Identifier: MIT
 *
 * malloc_failure.c: malloc() and the like that count, fail on demand and forward to the C library's, or to a sanitizer's, which stand
 * under a second name in either.
 */
#include "unit/malloc_failure.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static atomic_long countdown, failed, count, live;
static atomic_bool armed, keep_failing;

void malloc_failure_arm(long n, bool forever)
{
    atomic_store(&failed, 0);
    atomic_store(&count, 0);
    atomic_store(&countdown, n);
    atomic_store(&keep_failing, forever);
    atomic_store(&armed, true);
}

long malloc_failure_disarm(void)
{
    atomic_store(&armed, false);
    return atomic_load(&failed);
}

long malloc_failure_count(void)
{
    return atomic_load(&count);
}

long malloc_failure_live(void)
{
    return atomic_load(&live);
}

#if defined(__GLIBC__)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);
void *__interceptor_malloc(size_t size) __attribute__((weak));
void *__interceptor_calloc(size_t n, size_t size) __attribute__((weak));
void *__interceptor_realloc(void *p, size_t size) __attribute__((weak));
int __interceptor_posix_memalign(void **out, size_t align, size_t size) __attribute__((weak));
void __interceptor_free(void *p) __attribute__((weak));

bool malloc_failure_available(void)
{
    return true;
}

static bool fails(void)
{
    if (!atomic_load_explicit(&armed, memory_order_relaxed)) return false;
    long left = atomic_fetch_sub(&countdown, 1) - 1;
    atomic_fetch_add(&count, 1);
    if (left > 0 || (left < 0 && !atomic_load(&keep_failing))) return false;
    atomic_fetch_add(&failed, 1);
    errno = ENOMEM;
    return true;
}

static void *counted(void *p)
{
    if (p) atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return p;
}

/* Other libraries must see these. */
#pragma GCC visibility push(default)

void *malloc(size_t size)
{
    if (fails()) return NULL;
    return counted(__interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size));
}

void *calloc(size_t n, size_t size)
{
    if (fails()) return NULL;
    return counted(__interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size));
}

void *realloc(void *old, size_t size)
{
    if (fails()) return NULL;
    void *p = __interceptor_realloc ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
    if (!old) return counted(p);
    if (!p && size == 0) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    return p;
}

static void *take_aligned(size_t align, size_t size)
{
    void *p = NULL;

    if (fails()) return NULL;
    if (!__interceptor_posix_memalign)
        p = __libc_memalign(align, size);
    else if (__interceptor_posix_memalign(&p, align, size) != 0)
        p = NULL;
    return counted(p);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    void *p = take_aligned(align, size);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

void *aligned_alloc(size_t align, size_t size)
{
    return take_aligned(align, size);
}

void free(void *p)
{
    if (p) atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    if (__interceptor_free)
        __interceptor_free(p);
    else
        __libc_free(p);
}

#pragma GCC visibility pop

#else

bool malloc_failure_available(void)
{
    return false;
}

#endif
