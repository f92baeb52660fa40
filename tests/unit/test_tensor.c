/* SPDX-License-Identifier: MIT
 *
 * test_tensor.c: handles, scopes, views and host copies; what ops refuse and how they say it; failing allocations, budget and cancel in
 * ops.
 */
#include "tensor_fixture.h"

#include <math.h>

static void refused(fixture *f, espalier_status st, const char *text)
{
    assert_int_equal(st, ESPALIER_ERR_INTERNAL);
    if (!strstr(espalier_error_message(f->ctx), text)) fail_msg("\"%s\" lacks \"%s\"", espalier_error_message(f->ctx), text);
    esi_clear_error(f->ctx);
}

/* ----------------------------------------------------------------- runtime */

static void levels(void **state)
{
    static const char *const names[] = {"best", "generic", "generic-fma", "avx2", "avx512", "neon"};
    espalier_runtime_options o = espalier_runtime_options_default();
    espalier_cpu_level level;
    espalier_runtime *rt;

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_string_equal(espalier_cpu_level_name((espalier_cpu_level)i), names[i]);
        assert_int_equal(espalier_cpu_level_parse(&level, names[i]), ESPALIER_OK);
        assert_int_equal(level, i);
        o.cpu_level = (espalier_cpu_level)i;
        if (espalier_cpu_level_supported((espalier_cpu_level)i)) {
            assert_int_equal(espalier_runtime_create(&rt, &o), ESPALIER_OK);
            if (i) assert_int_equal(espalier_runtime_cpu_level(rt), i);
            assert_int_not_equal(espalier_runtime_cpu_level(rt), ESPALIER_CPU_BEST);
            espalier_runtime_free(rt);
        } else {
            assert_int_equal(espalier_runtime_create(&rt, &o), ESPALIER_ERR_DEVICE);
            assert_null(rt);
        }
    }
    assert_true(espalier_cpu_level_supported(ESPALIER_CPU_GENERIC));
    assert_int_equal(espalier_cpu_level_parse(&level, "sse9"), ESPALIER_ERR_ARG);
    assert_int_equal(espalier_cpu_level_parse(&level, NULL), ESPALIER_ERR_ARG);
    assert_string_equal(espalier_cpu_level_name((espalier_cpu_level)99), "?");
    o.cpu_level = (espalier_cpu_level)99;
    assert_int_equal(espalier_runtime_create(&rt, &o), ESPALIER_ERR_ARG);
    o = espalier_runtime_options_default();
    o.threads = -1;
    assert_int_equal(espalier_runtime_create(&rt, &o), ESPALIER_ERR_ARG);
    o.threads = 1025;
    assert_int_equal(espalier_runtime_create(&rt, &o), ESPALIER_ERR_ARG);
    espalier_runtime_free(NULL);
}

static void runtime_without_memory(void **state)
{
    test_allocator memory = {0};
    espalier_runtime_options o = espalier_runtime_options_default();
    espalier_runtime *rt = NULL;
    long n = 1;

    (void)state;
    o.threads = 3;
    o.allocator = (espalier_allocator){&memory, test_allocate, test_release};
    for (;; n++) {
        test_fail_at(&memory, n);
        if (espalier_runtime_create(&rt, &o) == ESPALIER_OK) break;
        assert_null(rt);
        assert_int_equal(atomic_load(&memory.live_blocks), 0);
    }
    assert_true(n > 2);
    espalier_runtime_free(rt);
    assert_int_equal(atomic_load(&memory.live_blocks), 0);
}

/* ---------------------------------------------------------- scopes and views */

static void scopes(void **state)
{
    fixture f;
    esi_scope outer, inner;
    esi_tensor a, b, c, none = {0};

    (void)state;
    open_fixture(&f, ESPALIER_CPU_GENERIC, 1);
    outer = esi_scope_begin(f.ctx);
    a = make(&f, 10, 10, NULL);
    inner = esi_scope_begin(f.ctx);
    b = make(&f, 20, 10, NULL);
    c = make(&f, 30, 10, NULL);
    make(&f, 1000, 10, NULL);
    esi_tensor_keep(f.ctx, esi_rows(c, 3, 2));
    esi_tensor_keep(f.ctx, none);
    esi_tensor_free(f.ctx, &a); /* of the outer scope, while the inner one is open */
    assert_true(esi_tensor_is_null(a));
    esi_tensor_free(f.ctx, &a);
    (void)b;
    esi_scope_end(f.ctx, inner);
    assert_true(espalier_context_memory_now(f.ctx) >= 1200);
    assert_true(espalier_context_memory_now(f.ctx) < 1200 + 400);
    esi_scope_end(f.ctx, outer);
    close_fixture(&f);

    open_fixture(&f, ESPALIER_CPU_GENERIC, 1);
    outer = esi_scope_begin(f.ctx);
    (void)esi_scope_begin(f.ctx); /* never ended: an error path left early */
    make(&f, 5, 5, NULL);
    esi_scope_end(f.ctx, outer);
    close_fixture(&f);
}

static void views(void **state)
{
    static const float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    fixture f;
    esi_scope s;
    esi_tensor t, w;
    uint8_t bytes[68] = {0};
    float read[32];

    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 1);
    s = esi_scope_begin(f.ctx);
    t = make(&f, 3, 4, values);
    expect_values(&f, t, values);
    expect_values(&f, esi_rows(t, 1, 2), values + 4);
    expect_values(&f, esi_cols(esi_rows(t, 1, 2), 1, 2), (const float[]){5, 6, 9, 10});
    expect_values(&f, esi_reshape(t, 2, 6), values);
    expect_values(&f, esi_cols(esi_reshape(t, 2, 6), 4, 2), (const float[]){4, 5, 10, 11});
    assert_int_equal(esi_tensor_write(f.ctx, esi_cols(t, 3, 1), (const float[]){-1, -2, -3}), ESPALIER_OK);
    expect_values(&f, t, (const float[]){0, 1, 2, -1, 4, 5, 6, -2, 8, 9, 10, -3});
    assert_int_equal(esi_rows(t, 3, 0).rows, 0);
    assert_int_equal(esi_tensor_read(f.ctx, esi_rows(t, 3, 0), read), ESPALIER_OK);

    refused(&f, esi_tensor_read(f.ctx, esi_rows(t, 2, 2), read), "does not fit its tensor [3, 4]");
    refused(&f, esi_tensor_read(f.ctx, esi_rows(t, -1, 1), read), "does not fit");
    refused(&f, esi_tensor_read(f.ctx, esi_cols(t, 1, 4), read), "does not fit");
    refused(&f, esi_tensor_read(f.ctx, esi_reshape(t, 5, 2), read), "does not fit");
    refused(&f, esi_tensor_read(f.ctx, esi_reshape(esi_cols(t, 0, 2), 2, 3), read), "does not fit");
    refused(&f, esi_tensor_read(f.ctx, (esi_tensor){0}, read), "no tensor");

    /* F32 values go through the store rule; weights are read back as F32; Q8_0 has no columns to cut and rows of whole blocks. */
    t = make(&f, 1, 5, (const float[]){-0.0f, 0x1p-41f, -0x1p-40f, 1e-45f, HUGE_VALF});
    expect_values(&f, t, (const float[]){0.0f, 0.0f, -0x1p-40f, 0.0f, HUGE_VALF});
    bytes[1] = 0x3c; /* scale 1 in half precision */
    bytes[2] = 0x80;
    bytes[3] = 7;
    assert_int_equal(esi_weight_wrap(f.ctx, &w, 2, 32, ESI_Q8_0, bytes), ESPALIER_OK);
    assert_int_equal(esi_tensor_read(f.ctx, esi_rows(w, 0, 1), read), ESPALIER_OK);
    assert_true(read[0] == -128.0f && read[1] == 7.0f && read[2] == 0.0f);
    refused(&f, esi_tensor_read(f.ctx, esi_cols(w, 0, 32), read), "does not fit");
    refused(&f, esi_tensor_write(f.ctx, w, read), "read-only");
    esi_weight_release(f.ctx, &w);
    esi_weight_release(f.ctx, &w);
    refused(&f, esi_weight_wrap(f.ctx, &w, 2, 33, ESI_Q8_0, bytes), "[2, 33] Q8_0");
    refused(&f, esi_tensor_new(f.ctx, &w, 2, -3, ESI_F32), "[2, -3] F32");
    refused(&f, esi_tensor_new(f.ctx, &w, 2, 3, ESI_BF16), "BF16");
    assert_int_equal(esi_tensor_new(f.ctx, &w, INT64_MAX / 2, INT64_MAX / 2, ESI_F32), ESPALIER_ERR_RESOURCE);
    esi_clear_error(f.ctx);
    esi_scope_end(f.ctx, s);
    close_fixture(&f);
}

/* ---------------------------------------------------------------- refusals */

static void refusals(void **state)
{
    fixture f;
    esi_scope s;
    esi_tensor x, y, w, small, table, none = {0};
    uint16_t weights[64] = {0};
    esi_epilogue e = {0};
    esi_attention_args a = {.heads = 3, .windows = 1};
    esi_norm_args n = {.eps = 1e-6f};
    uint64_t nans, infs;

    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 1);
    s = esi_scope_begin(f.ctx);
    x = make(&f, 4, 8, NULL);
    y = make(&f, 4, 8, NULL);
    small = make(&f, 4, 6, NULL);
    assert_int_equal(esi_fill(f.ctx, x, 1.0f), ESPALIER_OK);
    assert_int_equal(esi_tensor_from(f.ctx, &table, 4, 1, ESI_I32, (const int32_t[]){0, 1, 2, 3}), ESPALIER_OK);
    assert_int_equal(esi_weight_wrap(f.ctx, &w, 8, 8, ESI_BF16, weights), ESPALIER_OK);

    refused(&f, esi_linear(f.ctx, y, small, w, NULL), "linear: w is [8, 8] BF16 weight, expected [8, 6]");
    refused(&f, esi_linear(f.ctx, esi_rows(y, 0, 3), x, w, NULL), "linear: y is [3, 8] F32, expected [4, 8]");
    refused(&f, esi_linear(f.ctx, x, x, w, NULL), "y overlaps x");
    refused(&f, esi_linear(f.ctx, y, w, w, NULL), "x is [8, 8] BF16 weight");
    refused(&f, esi_linear(f.ctx, esi_cols(y, 0, 4), x, y, NULL), "y overlaps w");
    refused(&f, esi_linear(f.ctx, y, none, w, NULL), "x is missing");
    refused(&f, esi_linear(f.ctx, y, x, table, NULL), "w is [4, 1] I32");
    e.bias = small;
    refused(&f, esi_linear(f.ctx, y, x, w, &e), "bias is [4, 6] F32, expected [1, 8]");
    e = (esi_epilogue){.gate = esi_rows(x, 0, 1)};
    refused(&f, esi_linear(f.ctx, y, x, w, &e), "gate needs a residual");
    e = (esi_epilogue){.residual = esi_rows(esi_reshape(y, 8, 4), 0, 4)};
    refused(&f, esi_linear(f.ctx, y, x, w, &e), "residual is [4, 4]");
    e = (esi_epilogue){.act = (esi_activation)77};
    refused(&f, esi_linear(f.ctx, y, x, w, &e), "unknown activation 77");
    refused(&f, esi_conv(f.ctx, y, small, table, w, ESI_CONV_TAP_MAJOR, NULL), "conv: w is [8, 8]");
    refused(&f, esi_conv(f.ctx, y, x, esi_rows(table, 0, 2), w, ESI_CONV_TAP_MAJOR, NULL), "table is [2, 1] I32, expected [4, 1]");
    refused(&f, esi_conv(f.ctx, y, x, table, w, (esi_conv_layout)5, NULL), "unknown weight layout");
    refused(&f, esi_conv(f.ctx, esi_cols(y, 0, 4), x, table, y, ESI_CONV_TAP_MAJOR, NULL), "y overlaps w");
    refused(&f, esi_attention(f.ctx, y, x, x, x, &a), "divide into 3 heads");
    a.heads = 2;
    refused(&f, esi_attention(f.ctx, y, x, small, x, &a), "k is [4, 6] F32, expected [4, 8]");
    refused(&f, esi_attention(f.ctx, y, y, x, x, &a), "y overlaps q");
    a.region = table;
    refused(&f, esi_attention(f.ctx, esi_rows(y, 0, 2), esi_rows(x, 0, 2), x, x, &a), "as many queries as keys");
    n.mod_scale = esi_rows(x, 0, 1);
    refused(&f, esi_layer_norm(f.ctx, y, x, &n), "go together");
    n.mod_shift = n.weight = n.mod_scale;
    refused(&f, esi_layer_norm(f.ctx, y, x, &n), "exclude each other");
    refused(&f, esi_group_norm(f.ctx, y, x, 3, &(esi_norm_args){.eps = 1.0f}), "divide into 3 groups");
    refused(&f, esi_rms_norm_heads(f.ctx, y, x, none, 2), "gamma is missing");
    refused(&f, esi_rope(f.ctx, y, x, small, small, 2, ESI_ROPE_HALVES), "cos is [4, 6] F32, expected [4, 2]");
    refused(&f, esi_rope(f.ctx, y, x, esi_cols(y, 0, 2), esi_cols(x, 0, 2), 2, ESI_ROPE_HALVES), "y overlaps cos");
    refused(&f, esi_rope(f.ctx, y, x, esi_cols(x, 0, 2), esi_cols(y, 6, 2), 2, ESI_ROPE_HALVES), "y overlaps sin");
    refused(&f, esi_add(f.ctx, y, x, small), "add: b is [4, 6] F32, expected [4, 8]");
    refused(&f, esi_add(f.ctx, esi_cols(y, 0, 4), esi_cols(y, 2, 4), esi_cols(x, 0, 4)), "overlaps its first input");
    refused(&f, esi_scale_rows(f.ctx, y, x, small), "factor is [4, 6] F32, expected [4, 1]");
    refused(&f, esi_gather_rows(f.ctx, y, x, small), "index is [4, 6] F32, expected [4, 1] I32");
    refused(&f, esi_repeat_cols(f.ctx, y, x, 2), "y is [4, 8] F32, expected [4, 16]");
    refused(&f, esi_repeat_cols(f.ctx, y, x, INT64_MAX), "repeat_cols: y is");
    refused(&f, esi_transpose_cols(f.ctx, y, x, 3, 2), "transpose_cols: x is [4, 8] F32, expected [4, 6]");
    refused(&f, esi_mean_rows(f.ctx, esi_rows(y, 0, 1), esi_rows(x, 0, 0)), "no rows");
    refused(&f, esi_count_nonfinite(f.ctx, esi_rows(x, 9, 9), &nans, &infs), "a view outside its tensor");

    /* In place and columns beside each other are fine; so is nothing at all. */
    assert_int_equal(esi_add(f.ctx, y, y, x), ESPALIER_OK);
    assert_int_equal(esi_add(f.ctx, esi_cols(y, 0, 4), esi_cols(y, 4, 4), esi_cols(x, 0, 4)), ESPALIER_OK);
    assert_int_equal(esi_linear(f.ctx, esi_rows(y, 0, 0), esi_rows(x, 0, 0), w, NULL), ESPALIER_OK);
    assert_int_equal(esi_attention(f.ctx, esi_rows(y, 0, 0), esi_rows(x, 0, 0), x, x, &(esi_attention_args){.heads = 2, .windows = 1}),
                     ESPALIER_OK);
    assert_int_equal(esi_gather_rows(f.ctx, esi_rows(y, 0, 0), x, esi_rows(table, 0, 0)), ESPALIER_OK);
    esi_weight_release(f.ctx, &w);
    esi_scope_end(f.ctx, s);
    close_fixture(&f);
}

/* ------------------------------------------------------ memory, cancellation */

static espalier_status all_kinds(fixture *f)
{
    esi_scope s = esi_scope_begin(f->ctx);
    esi_tensor x, y, table, v, w = {0};
    float weights[16 * 16] = {0};
    int32_t rows[4] = {0};
    double sum, squares;
    uint64_t nans, infs;
    espalier_status st = esi_tensor_new(f->ctx, &x, 4, 16, ESI_F32);

    if (st == ESPALIER_OK) st = esi_tensor_new(f->ctx, &y, 4, 16, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_new(f->ctx, &v, 1, 16, ESI_F32);
    if (st == ESPALIER_OK) st = esi_tensor_from(f->ctx, &table, 4, 1, ESI_I32, rows);
    if (st == ESPALIER_OK) st = esi_weight_wrap(f->ctx, &w, 16, 16, ESI_F32, weights);
    if (st == ESPALIER_OK) st = esi_fill(f->ctx, x, 1.0f);
    if (st == ESPALIER_OK) st = esi_fill(f->ctx, v, 1.0f);
    if (st == ESPALIER_OK) st = esi_linear(f->ctx, y, x, w, &(esi_epilogue){.bias = v, .scale = v, .gate = v, .residual = y});
    if (st == ESPALIER_OK) st = esi_conv(f->ctx, y, x, table, w, ESI_CONV_CHANNEL_MAJOR, NULL);
    if (st == ESPALIER_OK) st = esi_attention(f->ctx, y, x, x, x, &(esi_attention_args){.heads = 2, .windows = 2});
    if (st == ESPALIER_OK) st = esi_layer_norm(f->ctx, y, x, &(esi_norm_args){.weight = v});
    if (st == ESPALIER_OK) st = esi_group_norm(f->ctx, y, x, 2, &(esi_norm_args){.bias = v, .eps = 1.0f});
    if (st == ESPALIER_OK) st = esi_rms_norm_heads(f->ctx, y, x, v, 2);
    if (st == ESPALIER_OK) st = esi_scale_shift(f->ctx, y, x, v, v);
    if (st == ESPALIER_OK) st = esi_mean_rows(f->ctx, v, x);
    if (st == ESPALIER_OK) st = esi_sum_stats(f->ctx, x, &sum, &squares);
    if (st == ESPALIER_OK) st = esi_count_nonfinite(f->ctx, x, &nans, &infs);
    esi_weight_release(f->ctx, &w);
    esi_scope_end(f->ctx, s);
    return st;
}

static void failing_allocations(void **state)
{
    static const espalier_cpu_level tested[] = {ESPALIER_CPU_GENERIC, ESPALIER_CPU_BEST};
    fixture f;

    (void)state;
    for (size_t i = 0; i < ESI_COUNT(tested); i++) {
        long n = 1;
        open_fixture(&f, tested[i], 2);
        for (;; n++) {
            espalier_status st;
            test_fail_at(&f.memory, n);
            st = all_kinds(&f);
            assert_null(f.ctx->buffers);
            assert_int_equal(espalier_context_memory_now(f.ctx), 0);
            if (st == ESPALIER_OK) break;
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            esi_clear_error(f.ctx);
        }
        assert_true(n > 10);
        test_fail_at(&f.memory, 0);
        close_fixture(&f);
    }
}

static void over_budget(void **state)
{
    fixture f;
    esi_scope s;
    esi_tensor t;

    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 1);
    s = esi_scope_begin(f.ctx);
    espalier_context_set_memory_budget(f.ctx, 100000);
    assert_int_equal(esi_tensor_new(f.ctx, &t, 1000, 33, ESI_F32), ESPALIER_ERR_RESOURCE);
    assert_non_null(strstr(espalier_error_message(f.ctx), "tensor [1000, 33]"));
    esi_clear_error(f.ctx);
    assert_int_equal(esi_tensor_new(f.ctx, &t, 1000, 20, ESI_F32), ESPALIER_OK);
    esi_scope_end(f.ctx, s);
    close_fixture(&f);
}

static void cancelled(void **state)
{
    fixture f;

    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    espalier_context_cancel(f.ctx);
    assert_int_equal(all_kinds(&f), ESPALIER_ERR_CANCELLED);
    esi_clear_error(f.ctx);
    espalier_context_reset_cancel(f.ctx);
    assert_int_equal(all_kinds(&f), ESPALIER_OK);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels),
        cmocka_unit_test(runtime_without_memory),
        cmocka_unit_test(scopes),
        cmocka_unit_test(views),
        cmocka_unit_test(refusals),
        cmocka_unit_test(failing_allocations),
        cmocka_unit_test(over_budget),
        cmocka_unit_test(cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
