/* SPDX-License-Identifier: MIT
 *
 * support.h: what unit tests share: cmocka, a runtime made by hand, an allocator that counts and can fail, a temporary directory.
 */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/context.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Counts what is alive and fails the `fail_at`th request from now (1 = the next; 0 = never). */
typedef struct test_allocator {
    atomic_size_t live_blocks, live_bytes;
    atomic_long requests;
    long fail_at;
} test_allocator;

static inline void *test_allocate(void *user, size_t size, size_t align)
{
    test_allocator *a = user;
    void *p = NULL;
    if (atomic_fetch_add(&a->requests, 1) + 1 == a->fail_at) return NULL;
    if (posix_memalign(&p, align, size) != 0) return NULL;
    memset(p, 0xA5, size);
    atomic_fetch_add(&a->live_blocks, 1);
    atomic_fetch_add(&a->live_bytes, size);
    return p;
}

static inline void test_release(void *user, void *ptr, size_t size)
{
    test_allocator *a = user;
    atomic_fetch_sub(&a->live_blocks, 1);
    atomic_fetch_sub(&a->live_bytes, size);
    free(ptr);
}

static inline void test_fail_at(test_allocator *a, long n)
{
    atomic_store(&a->requests, 0);
    a->fail_at = n;
}

/* A runtime with this allocator and a context, without kernels. */
typedef struct test_base {
    test_allocator memory;
    espalier_runtime runtime;
    espalier_context *ctx;
} test_base;

static inline void test_base_open(test_base *t, int threads)
{
    memset(t, 0, sizeof *t);
    t->runtime.allocator = (espalier_allocator){&t->memory, test_allocate, test_release};
    assert_int_equal(esi_pool_create(&t->runtime.pool, &t->runtime.allocator, threads), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&t->ctx, &t->runtime), ESPALIER_OK);
}

/* Fails the test when anything was left allocated. */
static inline void test_base_close(test_base *t)
{
    assert_int_equal(espalier_context_memory_now(t->ctx), 0);
    espalier_context_free(t->ctx);
    esi_pool_free(t->runtime.pool);
    assert_int_equal(atomic_load(&t->memory.live_blocks), 0);
    assert_int_equal(atomic_load(&t->memory.live_bytes), 0);
}

/* A fresh directory; free() the name after test_dir_remove(). */
static inline char *test_dir_make(void)
{
    const char *base = getenv("TMPDIR");
    char name[512];
    snprintf(name, sizeof name, "%s/espalier-test-XXXXXX", base != NULL && base[0] != '\0' ? base : "/tmp");
    assert_non_null(mkdtemp(name));
    return strdup(name);
}

/* "<dir>/<name>" in a buffer of the caller. */
static inline const char *test_path(char buffer[1024], const char *dir, const char *name)
{
    snprintf(buffer, 1024, "%s/%s", dir, name);
    return buffer;
}

/* Number of entries except . and .. */
static inline int test_dir_count(const char *dir)
{
    DIR *d = opendir(dir);
    int n = -2;
    assert_non_null(d);
    while (readdir(d) != NULL) n++;
    closedir(d);
    return n;
}

/* Removes the files inside and the directory. */
static inline void test_dir_remove(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        char path[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        remove(test_path(path, dir, e->d_name));
    }
    closedir(d);
    assert_int_equal(rmdir(dir), 0);
}

#endif
