/* SPDX-License-Identifier: MIT
 *
 * weights_fixture.h: a context whose allocations are counted and can be made to fail, and byte strings to build files from.
 */
#ifndef WEIGHTS_FIXTURE_H
#define WEIGHTS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/base.h"
#include "formats/weights.h"

typedef struct fixture {
    espalier_runtime *runtime;
    espalier_context *ctx;
    long live;               /* blocks allocated and not released */
    long fail_in;            /* the allocation after this many fails; < 0: none does */
    char dir[32];
} fixture;

static inline void *fixture_allocate(void *user, size_t size, size_t align)
{
    fixture *f = user;
    void *p = NULL;
    if (f->fail_in == 0) return NULL;
    if (f->fail_in > 0) f->fail_in--;
    if (posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, size) != 0) return NULL;
    f->live++;
    return p;
}

static inline void fixture_release(void *user, void *ptr, size_t size)
{
    fixture *f = user;
    (void)size;
    f->live--;
    free(ptr);
}

static inline int fixture_setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options options = espalier_runtime_options_default();

    assert_non_null(f);
    f->fail_in = -1;
    options.threads = 1;
    options.allocator = (espalier_allocator){f, fixture_allocate, fixture_release};
    assert_int_equal(espalier_runtime_create(&f->runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    strcpy(f->dir, "/tmp/espalier-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    fixture *f = *state;
    rmdir(f->dir);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    assert_int_equal(f->live, 0);
    free(f);
    return 0;
}

static inline const char *fixture_path(fixture *f, char buffer[128], const char *name)
{
    snprintf(buffer, 128, "%s/%s", f->dir, name);
    return buffer;
}

/* ------------------------------------------------------------ byte strings */

typedef struct bytes {
    uint8_t data[8192];
    size_t len;
} bytes;

static inline void put(bytes *b, const void *data, size_t len)
{
    assert_true(b->len + len <= sizeof b->data);
    if (len > 0) memcpy(b->data + b->len, data, len);
    b->len += len;
}

static inline void put_number(bytes *b, uint64_t v, size_t len)
{
    uint8_t le[8];
    for (size_t i = 0; i < 8; i++) le[i] = (uint8_t)(v >> (8 * i));
    put(b, le, len);
}

static inline void put_u32(bytes *b, uint32_t v) { put_number(b, v, 4); }
static inline void put_u64(bytes *b, uint64_t v) { put_number(b, v, 8); }
static inline void put_text(bytes *b, const char *s) { put(b, s, strlen(s)); }

static inline void put_string(bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put_text(b, s);
}

static inline void put_zeros(bytes *b, size_t len)
{
    while (len-- > 0) put_number(b, 0, 1);
}

/* safetensors: header text, then `data` zero bytes. */
static inline bytes safetensors_file(const char *header, size_t data)
{
    bytes b = {.len = 0};
    put_string(&b, header);
    put_zeros(&b, data);
    return b;
}

/* The parser sees a block of exactly that size, so that a sanitizer notices a read beyond the end. */
static inline espalier_status parse_copy(fixture *f, esi_weight_file **out, uint8_t **copy, const void *data, size_t len)
{
    *copy = malloc(len ? len : 1);
    assert_non_null(*copy);
    if (len > 0) memcpy(*copy, data, len);
    esi_clear_error(f->ctx);
    return esi_weight_file_parse(f->ctx, out, *copy, len, "test.bin");
}

#endif
