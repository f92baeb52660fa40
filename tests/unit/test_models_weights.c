/* SPDX-License-Identifier: MIT
 *
 * Tensors of a network by name: which shapes fit, what the messages say, the scan for NaN, surplus tensors.
 */
#include "model_fixture.h"

typedef struct lookup {
    fixture *f;
    model_builder b;
    esi_weights *w;
} lookup;

static void lookup_open(lookup *l, fixture *f)
{
    assert_int_equal(esi_weights_new(f->ctx, &l->w, model_file(f, &l->b)), ESPALIER_OK);
    l->f = f;
}

static void lookup_close(lookup *l)
{
    esi_weights_free(l->f->ctx, l->w);
    model_builder_free(&l->b);
}

static void expect_shape(lookup *l, const char *name, int64_t rows, int64_t cols, int64_t want_rows, int64_t want_cols)
{
    esi_tensor t;
    if (esi_weights_get(l->f->ctx, l->w, &t, rows, cols, "%s", name) != ESPALIER_OK) fail_msg("%s", espalier_error_message(l->f->ctx));
    assert_int_equal(t.rows, want_rows);
    assert_int_equal(t.cols, want_cols);
    assert_int_equal(t.stride, want_cols);
}

static void expect_message(lookup *l, const char *name, int64_t rows, int64_t cols, const char *text)
{
    esi_tensor t;
    expect_failure(l->f, esi_weights_get(l->f->ctx, l->w, &t, rows, cols, "%s", name), ESPALIER_ERR_MODEL, text);
    assert_true(esi_tensor_is_null(t));
}

static void test_shapes_that_fit(void **state)
{
    lookup l = {.w = NULL};
    const int64_t vector[] = {12}, heads[] = {3, 4}, tokens[] = {1, 4, 3}, patch[] = {2, 3, 2, 2};
    model_add(&l.b, 0, 1, "vector", 1, vector);
    model_add(&l.b, 0, 1, "heads", 2, heads);
    model_add(&l.b, 0, 1, "tokens", 3, tokens);
    model_add(&l.b, 0, 1, "patch", 4, patch);
    lookup_open(&l, *state);
    expect_shape(&l, "vector", 1, 12, 1, 12);
    expect_shape(&l, "vector", 1, -1, 1, 12);
    expect_shape(&l, "vector", -1, -1, 1, 12);
    expect_shape(&l, "heads", 3, 4, 3, 4);
    expect_shape(&l, "heads", 1, 12, 1, 12);            /* gamma [H, hd] as one row */
    expect_shape(&l, "heads", -1, -1, 3, 4);
    expect_shape(&l, "heads", -1, 4, 3, 4);
    expect_shape(&l, "heads", 3, -1, 3, 4);
    expect_shape(&l, "tokens", 4, 3, 4, 3);
    expect_shape(&l, "patch", 2, 12, 2, 12);
    expect_shape(&l, "patch", 6, 4, 6, 4);
    assert_int_equal(esi_weights_parameters(l.w), 12 + 12 + 12 + 24);
    lookup_close(&l);
}

static void test_messages(void **state)
{
    lookup l = {.w = NULL};
    const int64_t heads[] = {3, 4}, ids[] = {5};
    esi_tensor t;
    model_add(&l.b, 0, 1, "heads", 2, heads);
    model_add_raw(&l.b, "ids", "I32", 4, 1, ids);
    lookup_open(&l, *state);
    expect_message(&l, "absent", 1, 1, "m.bin: tensor absent is missing");
    expect_message(&l, "heads", 4, 3, "m.bin: tensor heads: shape [3, 4], expected [4, 3]");
    expect_message(&l, "heads", 2, 6, "shape [3, 4], expected [2, 6]");
    expect_message(&l, "heads", 1, 13, "shape [3, 4], expected [13]");
    expect_message(&l, "heads", -1, 5, "shape [3, 4], expected [?, 5]");
    expect_message(&l, "ids", 1, 5, "m.bin: tensor ids: dtype I32, expected F32, F16, BF16 or Q8_0");
    assert_int_equal(esi_weights_get_optional(l.f->ctx, l.w, &t, 1, 1, "%s", "absent"), ESPALIER_OK);
    assert_true(esi_tensor_is_null(t));
    expect_failure(l.f, esi_weights_get_optional(l.f->ctx, l.w, &t, 1, 1, "%s", "heads"), ESPALIER_ERR_MODEL, "expected [1]");
    assert_true(esi_weights_has(l.w, "ids"));
    assert_false(esi_weights_has(l.w, "absent"));
    lookup_close(&l);
}

/* A good tensor and one of n values of which number `at` is `bad` (-1: none). */
static void open_suspect(lookup *l, fixture *f, const char *dtype, size_t size, int64_t n, int64_t at, uint32_t largest, uint32_t bad)
{
    const int64_t good[] = {4};
    memset(l, 0, sizeof *l);
    model_add(&l->b, 0, 1, "a.good", 1, good);
    uint8_t *data = model_add_raw(&l->b, "b.suspect", dtype, size, 1, &n)->data;
    for (int64_t i = 0; i < n; i++) memcpy(data + (size_t)i * size, i == at ? &bad : &largest, size);
    lookup_open(l, f);
}

/* One damaged value, at any place of a tensor of any length, is found if the tensor is in use; the largest finite value is not damage. */
static void check_scan(fixture *f, const char *dtype, size_t size, uint32_t largest, uint32_t infinity, uint32_t nan)
{
    const uint32_t patterns[] = {infinity, infinity | 1u << (8 * size - 1), nan};
    lookup l;
    esi_tensor t;
    for (int64_t n = 1; n <= 19; n += 3) {
        for (int64_t at = -1; at < n; at++) {
            for (size_t k = 0; k < ESI_COUNT(patterns); k++) {
                open_suspect(&l, f, dtype, size, n, at, largest, patterns[k]);
                assert_int_equal(esi_weights_get(f->ctx, l.w, &t, 1, 4, "a.good"), ESPALIER_OK);
                assert_int_equal(esi_weights_check_finite(f->ctx, l.w), ESPALIER_OK);
                lookup_close(&l);

                open_suspect(&l, f, dtype, size, n, at, largest, patterns[k]);
                assert_int_equal(esi_weights_get(f->ctx, l.w, &t, 1, n, "b.suspect"), ESPALIER_OK);
                espalier_status st = esi_weights_check_finite(f->ctx, l.w);
                if (at < 0) assert_int_equal(st, ESPALIER_OK);
                else expect_failure(f, st, ESPALIER_ERR_MODEL, "m.bin: tensor b.suspect holds NaN or infinite values");
                lookup_close(&l);
            }
        }
    }
}

static void test_scan_for_nan(void **state)
{
    check_scan(*state, "F32", 4, 0x7f7fffffu, 0x7f800000u, 0x7fc00001u);
    check_scan(*state, "BF16", 2, 0xff7fu, 0x7f80u, 0xff81u);
    check_scan(*state, "F16", 2, 0x7bffu, 0x7c00u, 0x7e00u);
}

/* Q8_0 exists in GGUF only: the golden file with one block scale turned into infinity. */
static void test_scan_q8_0(void **state)
{
    fixture *f = *state;
    uint8_t *image;
    size_t size;
    esi_weight_file *file;
    esi_weights *w;
    esi_tensor t;
    const char *path = ESPALIER_TEST_DATA "/golden/gguf_flow_q8_0/case.gguf";
    assert_int_equal(esi_file_read(f->ctx, &image, &size, path, 1 << 24, ESPALIER_ERR_MODEL), ESPALIER_OK);
    for (int damaged = 0; damaged < 2; damaged++) {
        assert_int_equal(esi_weight_file_parse(f->ctx, &file, image, size, "q.gguf"), ESPALIER_OK);
        const esi_file_tensor *q = esi_weight_file_find(file, "t_embedder.mlp.0.weight");
        assert_non_null(q);
        assert_int_equal(q->dtype, ESI_FILE_Q8_0);
        if (damaged) image[q->offset + q->size - 34 + 1] = 0x7c;      /* the last block */
        assert_int_equal(esi_weights_new(f->ctx, &w, file), ESPALIER_OK);
        assert_int_equal(esi_weights_get(f->ctx, w, &t, 64, 256, "t_embedder.mlp.0.weight"), ESPALIER_OK);
        espalier_status st = esi_weights_check_finite(f->ctx, w);
        if (damaged) expect_failure(f, st, ESPALIER_ERR_MODEL, "q.gguf: tensor t_embedder.mlp.0.weight holds NaN");
        else assert_int_equal(st, ESPALIER_OK);
        esi_weights_free(f->ctx, w);
    }
    esi_free(f->ctx, image);
}

/* GGUF folds a dense convolution [Co, Ci, 3, 3, 3] into [Co * Ci, 3, 3, 3]; it comes back as Co rows. */
static void test_folded_convolution(void **state)
{
    fixture *f = *state;
    esi_weight_file *file;
    esi_weights *w;
    esi_tensor t;
    assert_int_equal(esi_weight_file_open(f->ctx, &file, ESPALIER_TEST_DATA "/golden/gguf_ss_dec_f16/case.gguf"), ESPALIER_OK);
    assert_int_equal(esi_weights_new(f->ctx, &w, file), ESPALIER_OK);
    assert_int_equal(esi_weights_get(f->ctx, w, &t, 64, 8 * 27, "blocks.1.conv.weight"), ESPALIER_OK);
    assert_int_equal(esi_weights_get(f->ctx, w, &t, 1, 8 * 27, "out_layer.2.weight"), ESPALIER_OK);
    expect_failure(f, esi_weights_get(f->ctx, w, &t, 48, -1, "blocks.1.conv.weight"), ESPALIER_ERR_MODEL, "expected [48, ?]");
    esi_weights_free(f->ctx, w);
}

typedef struct log_lines {
    int warnings;
    char last[256];
} log_lines;

static void take_line(void *user, espalier_log_level level, const char *line)
{
    log_lines *l = user;
    if (level == ESPALIER_LOG_WARNING) l->warnings++;
    snprintf(l->last, sizeof l->last, "%s", line);
}

static void test_surplus_is_a_warning_once(void **state)
{
    espalier_runtime_options o = espalier_runtime_options_default();
    log_lines lines = {0};
    fixture f = {.fail_in = -1};
    model_builder b = {.count = 0};
    const int64_t n[] = {2};
    esi_weights *w;
    esi_tensor t;
    (void)state;
    o.threads = 1;
    o.log = take_line;
    o.log_user = &lines;
    assert_int_equal(espalier_runtime_create(&f.runtime, &o), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f.ctx, f.runtime), ESPALIER_OK);
    model_add(&b, 0, 1, "asked", 1, n);
    model_add(&b, 0, 1, "ignored", 1, n);
    model_add(&b, 0, 1, "stray", 1, n);
    assert_int_equal(esi_weights_new(f.ctx, &w, model_file(&f, &b)), ESPALIER_OK);
    assert_int_equal(esi_weights_get(f.ctx, w, &t, 1, 2, "asked"), ESPALIER_OK);
    esi_weights_ignore(w, "%s", "ignored");
    esi_weights_ignore(w, "%s", "absent");
    esi_weights_report_surplus(f.ctx, w);
    esi_weights_report_surplus(f.ctx, w);
    assert_int_equal(lines.warnings, 1);
    assert_string_equal(lines.last, "m.bin: tensor stray is not used by this network");
    esi_weights_free(f.ctx, w);
    model_builder_free(&b);
    espalier_context_free(f.ctx);
    espalier_runtime_free(f.runtime);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_shapes_that_fit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_messages, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_scan_for_nan, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_scan_q8_0, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_folded_convolution, fixture_setup, fixture_teardown),
        cmocka_unit_test(test_surplus_is_a_warning_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
