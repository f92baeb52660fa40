/* SPDX-License-Identifier: MIT
 *
 * tensor_fixture.h: for tests of tensors and ops: a context on a counting allocator, tensors from arrays, and what must be in them.
 */
#ifndef TENSOR_FIXTURE_H
#define TENSOR_FIXTURE_H

#include "tensor/ops.h"

#include "support.h"

typedef struct fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
} fixture;

static inline void open_fixture(fixture *f, espalier_cpu_level level, int threads)
{
    espalier_runtime_options o = espalier_runtime_options_default();

    memset(f, 0, sizeof *f);
    o.cpu_level = level;
    o.threads = threads;
    o.allocator = (espalier_allocator){&f->memory, test_allocate, test_release};
    assert_int_equal(espalier_runtime_create(&f->runtime, &o), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
}

static inline void close_fixture(fixture *f)
{
    assert_null(f->ctx->buffers);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    assert_int_equal(atomic_load(&f->memory.live_blocks), 0);
}

static inline esi_tensor make(fixture *f, int64_t rows, int64_t cols, const float *values)
{
    esi_tensor t;
    if (values) assert_int_equal(esi_tensor_from(f->ctx, &t, rows, cols, ESI_F32, values), ESPALIER_OK);
    else assert_int_equal(esi_tensor_new(f->ctx, &t, rows, cols, ESI_F32), ESPALIER_OK);
    return t;
}

static inline void expect_values(fixture *f, esi_tensor t, const float *want)
{
    size_t n = (size_t)(t.rows * t.cols);
    float *got = malloc(n * sizeof *got);
    assert_non_null(got);
    assert_int_equal(esi_tensor_read(f->ctx, t, got), ESPALIER_OK);
    assert_memory_equal(got, want, n * sizeof *got);
    free(got);
}

#endif
