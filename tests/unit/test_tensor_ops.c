/* SPDX-License-Identifier: MIT
 *
 * test_tensor_ops.c: what the ops compute outside the kernels of a level, which check_kernels compares: empty sums, wild indices, the loops
 * that all levels share, and blocks cut to a budget.
 */
#include "tensor_fixture.h"

/* Attention without keys and products without channels are sums of nothing. */
static void empty_sums(void **state)
{
    static const float zeros[32] = {0};
    fixture f;
    esi_scope s;
    esi_tensor x, y, w;

    (void)state;
    for (int level = ESPALIER_CPU_GENERIC; level <= ESPALIER_CPU_NEON; level++) {
        if (!espalier_cpu_level_supported((espalier_cpu_level)level)) continue;
        open_fixture(&f, (espalier_cpu_level)level, 2);
        s = esi_scope_begin(f.ctx);
        x = make(&f, 4, 8, NULL);
        y = make(&f, 4, 8, NULL);
        assert_int_equal(esi_fill(f.ctx, x, 1.0f), ESPALIER_OK);
        assert_int_equal(esi_fill(f.ctx, y, 5.0f), ESPALIER_OK);
        assert_int_equal(esi_attention(f.ctx, y, x, esi_rows(x, 0, 0), esi_rows(x, 0, 0), &(esi_attention_args){.heads = 1, .windows = 1}),
                         ESPALIER_OK);
        expect_values(&f, y, zeros);
        assert_int_equal(esi_weight_wrap(f.ctx, &w, 8, 0, ESI_F32, zeros), ESPALIER_OK);
        assert_int_equal(esi_fill(f.ctx, y, 5.0f), ESPALIER_OK);
        assert_int_equal(esi_linear(f.ctx, y, esi_cols(x, 0, 0), w, NULL), ESPALIER_OK);
        expect_values(&f, y, zeros);
        esi_weight_release(f.ctx, &w);
        esi_scope_end(f.ctx, s);
        close_fixture(&f);
    }
}

/* No index outside x is followed: it counts as missing. */
static void wild_indices(void **state)
{
    static const int32_t wild[4] = {1, 4, INT32_MAX, INT32_MIN};
    static const float x_values[8] = {1, 2, 3, 4, 5, 6, 7, 8}, one[4] = {1, 0, 0, 1};
    fixture f;
    esi_scope s;
    esi_tensor x, y, w, index;

    (void)state;
    for (int level = ESPALIER_CPU_GENERIC; level <= ESPALIER_CPU_NEON; level++) {
        if (!espalier_cpu_level_supported((espalier_cpu_level)level)) continue;
        open_fixture(&f, (espalier_cpu_level)level, 1);
        s = esi_scope_begin(f.ctx);
        x = make(&f, 4, 2, x_values);
        y = make(&f, 4, 2, NULL);
        w = make(&f, 2, 2, one);
        assert_int_equal(esi_tensor_from(f.ctx, &index, 4, 1, ESI_I32, wild), ESPALIER_OK);
        assert_int_equal(esi_gather_rows(f.ctx, y, x, index), ESPALIER_OK);
        expect_values(&f, y, (const float[]){3, 4, 0, 0, 0, 0, 0, 0});
        assert_int_equal(esi_conv(f.ctx, y, x, index, w, ESI_CONV_TAP_MAJOR, NULL), ESPALIER_OK);
        expect_values(&f, y, (const float[]){3, 4, 0, 0, 0, 0, 0, 0});
        assert_int_equal(esi_pool_rows(f.ctx, y, x, index, ESI_POOL_MEAN), ESPALIER_OK);
        expect_values(&f, y, (const float[]){3, 4, 0, 0, 0, 0, 0, 0});
        assert_int_equal(esi_scatter_rows(f.ctx, y, x, index), ESPALIER_OK);
        expect_values(&f, y, (const float[]){3, 4, 1, 2, 0, 0, 0, 0});
        esi_scope_end(f.ctx, s);
        close_fixture(&f);
    }
}

/* What the loops that all levels share compute: small whole numbers, so by hand. */
static void values_of_shared_loops(void **state)
{
    enum { ROWS = 40, COLS = 23 };
    static const float six[6] = {1, 2, 3, 4, 5, 6};
    float in[ROWS * COLS], out[COLS * ROWS];
    double sum, squares;
    fixture f;
    esi_scope s;
    esi_tensor x, y, table;

    (void)state;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) in[r * COLS + c] = out[c * ROWS + r] = (float)(r * 100 + c);
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    s = esi_scope_begin(f.ctx);
    y = make(&f, COLS, ROWS, NULL);
    assert_int_equal(esi_transpose(f.ctx, y, make(&f, ROWS, COLS, in)), ESPALIER_OK);
    expect_values(&f, y, out);
    x = make(&f, 1, 6, six);
    y = make(&f, 1, 6, NULL);
    assert_int_equal(esi_transpose_cols(f.ctx, y, x, 2, 3), ESPALIER_OK);
    expect_values(&f, y, (const float[]){1, 4, 2, 5, 3, 6});
    y = make(&f, 1, 12, NULL);
    assert_int_equal(esi_fill(f.ctx, y, 9.0f), ESPALIER_OK);
    assert_int_equal(esi_repeat_cols(f.ctx, y, x, 2), ESPALIER_OK);
    expect_values(&f, y, (const float[]){1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6});
    x = esi_reshape(x, 3, 2);
    assert_int_equal(esi_sum_stats(f.ctx, x, &sum, &squares), ESPALIER_OK);
    assert_true(sum == 21.0 && squares == 91.0);
    y = make(&f, 3, 2, NULL);
    assert_int_equal(esi_scale_rows(f.ctx, y, x, make(&f, 3, 1, (const float[]){2, 0, -1})), ESPALIER_OK);
    expect_values(&f, y, (const float[]){2, 4, 0, 0, -5, -6});
    assert_int_equal(esi_tensor_from(f.ctx, &table, 3, 3, ESI_I32, (const int32_t[]){2, -1, 0, -1, 1, -1, -1, -1, -1}), ESPALIER_OK);
    assert_int_equal(esi_pool_rows(f.ctx, y, x, table, ESI_POOL_MEAN), ESPALIER_OK);
    expect_values(&f, y, (const float[]){3, 4, 3, 4, 0, 0});
    assert_int_equal(esi_pool_rows(f.ctx, y, x, table, ESI_POOL_MAX), ESPALIER_OK);
    expect_values(&f, y, (const float[]){5, 6, 3, 4, 0, 0});
    /* One key per window: each query gets its window's value, whatever the score. */
    assert_int_equal(esi_attention(f.ctx, y, x, x, x, &(esi_attention_args){.heads = 2, .windows = 3, .scale = 1.0f}), ESPALIER_OK);
    expect_values(&f, y, six);
    esi_scope_end(f.ctx, s);
    close_fixture(&f);
}

/* The loops that all levels share store by the rule as well: 2^-40 stays, half of it does not. */
static void store_rule_of_shared_loops(void **state)
{
    static const float limit = 0x1p-40f, pair[8] = {0x1p-40f, 0, 0x1p-39f, 0, 0, 0x1p-40f, 0, 0x1p-39f};
    fixture f;
    esi_scope s;
    esi_tensor x, y, table, weight;

    (void)state;
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    s = esi_scope_begin(f.ctx);
    x = make(&f, 2, 4, pair);
    y = make(&f, 2, 2, NULL);
    assert_int_equal(esi_mean_cols(f.ctx, y, x, 2), ESPALIER_OK);
    expect_values(&f, y, (const float[]){0, limit, 0, limit});
    y = make(&f, 1, 4, NULL);
    assert_int_equal(esi_mean_rows(f.ctx, y, x), ESPALIER_OK);
    expect_values(&f, y, (const float[]){0, 0, limit, limit});
    assert_int_equal(esi_tensor_from(f.ctx, &table, 1, 2, ESI_I32, (const int32_t[]){0, 1}), ESPALIER_OK);
    assert_int_equal(esi_pool_rows(f.ctx, y, x, table, ESI_POOL_MEAN), ESPALIER_OK);
    expect_values(&f, y, (const float[]){0, 0, limit, limit});
    weight = make(&f, 1, 2, (const float[]){0.5f, 0.75f});
    assert_int_equal(esi_weighted_gather(f.ctx, y, x, table, weight), ESPALIER_OK);
    expect_values(&f, y, (const float[]){0, 0, limit, 1.5f * limit});
    x = make(&f, 1, 2, (const float[]){-0x1.fffffep-31f, 0x1p-40f});
    y = make(&f, 1, 4, (const float[]){0x1p-30f, 1, -0x1p-39f, 0});
    assert_int_equal(esi_add_repeat_cols(f.ctx, y, x, (esi_tensor){0}, 2), ESPALIER_OK);
    expect_values(&f, y, (const float[]){0, 1.0f - 0x1.fffffep-31f, -limit, limit});
    esi_scope_end(f.ctx, s);
    close_fixture(&f);
}

/* Statistics run over all rows, however many: half of them -1, half of them 1 in the first group; the other way round in the second. */
static void group_norm_of_many_rows(void **state)
{
    enum { ROWS = 40000, COLS = 6 };
    float *values = malloc(ROWS * COLS * sizeof *values);
    fixture f;
    esi_scope s;
    esi_tensor x;

    (void)state;
    assert_non_null(values);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++) values[r * COLS + c] = (r < ROWS / 2) == (c < COLS / 2) ? -1.0f : 1.0f;
    open_fixture(&f, ESPALIER_CPU_BEST, 2);
    s = esi_scope_begin(f.ctx);
    x = make(&f, ROWS, COLS, values);
    assert_int_equal(esi_group_norm(f.ctx, x, x, 2, &(esi_norm_args){.eps = 0.0f}), ESPALIER_OK);
    expect_values(&f, x, values);       /* mean 0, variance 1 */
    esi_scope_end(f.ctx, s);
    close_fixture(&f);
    free(values);
}

/* Many threads and little memory left: smaller blocks, the same bits. */
static void scratch_fits_the_budget(void **state)
{
    enum { ROWS = 2000, K = 64, COLS = 768, THREADS = 16 };
    const uint64_t left = 3 << 20;
    const esi_attention_args a = {.heads = 1, .windows = 4, .scale = 0.125f};
    fixture f;
    esi_scope s;
    esi_tensor x, w, y, q, want_y, want_q;
    float *values = malloc(ROWS * K * sizeof *values), *got = malloc(ROWS * COLS * sizeof *got);

    (void)state;
    assert_true(values && got);
    for (size_t i = 0; i < ROWS * K; i++) values[i] = (float)(i * 7919 % 1009) / 512.0f - 1.0f;
    for (int level = ESPALIER_CPU_GENERIC; level <= ESPALIER_CPU_NEON; level++) {
        if (!espalier_cpu_level_supported((espalier_cpu_level)level)) continue;
        open_fixture(&f, (espalier_cpu_level)level, THREADS);
        s = esi_scope_begin(f.ctx);
        x = make(&f, ROWS, K, values);
        w = make(&f, COLS, K, values);
        y = make(&f, ROWS, COLS, NULL);
        q = make(&f, ROWS, K, NULL);
        want_y = make(&f, ROWS, COLS, NULL);
        want_q = make(&f, ROWS, K, NULL);
        assert_int_equal(esi_linear(f.ctx, want_y, x, w, NULL), ESPALIER_OK);
        assert_int_equal(esi_attention(f.ctx, want_q, x, x, x, &a), ESPALIER_OK);
        espalier_context_set_memory_budget(f.ctx, espalier_context_memory_now(f.ctx) + left);
        assert_int_equal(esi_linear(f.ctx, y, x, w, NULL), ESPALIER_OK);
        assert_int_equal(esi_attention(f.ctx, q, x, x, x, &a), ESPALIER_OK);
        assert_int_equal(esi_tensor_read(f.ctx, want_y, got), ESPALIER_OK);
        expect_values(&f, y, got);
        assert_int_equal(esi_tensor_read(f.ctx, want_q, got), ESPALIER_OK);
        expect_values(&f, q, got);
        esi_scope_end(f.ctx, s);
        close_fixture(&f);
    }
    free(values);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_sums),
        cmocka_unit_test(wild_indices),
        cmocka_unit_test(values_of_shared_loops),
        cmocka_unit_test(store_rule_of_shared_loops),
        cmocka_unit_test(group_norm_of_many_rows),
        cmocka_unit_test(scratch_fits_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
