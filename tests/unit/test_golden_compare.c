/* SPDX-License-Identifier: MIT
 *
 * The golden runner's tolerances: every keyword lets through what it should and nothing else.
 */
#include "support.h"

#include "golden_runner/golden.h"

#include <math.h>

/* compare.c hands its verdict here; the rest of the runner is not linked. */
static golden_verdict last_verdict;
static double last_rel_l2, last_max_abs;

void golden_add_result(golden_case *c, const char *output, double rel_l2, double max_abs, golden_verdict verdict, const char *detail)
{
    (void)c;
    (void)output;
    assert_true((detail != NULL) == (verdict == GOLDEN_FAIL));
    last_verdict = verdict;
    last_rel_l2 = rel_l2;
    last_max_abs = max_abs;
}

static golden_verdict verdict_of(const char *tolerance, const void *ours, esi_file_dtype a, const void *theirs, esi_file_dtype b, int64_t n)
{
    test_base t;
    esi_text text = {0};
    golden_case c = {0};
    test_base_open(&t, 1);
    esi_text_append(t.ctx, &text, "{\"tolerance\": {\"default\": %s, \"out.other\": {\"skip\": true}}}", tolerance);
    assert_int_equal(esi_json_parse(t.ctx, &c.config, text.data, text.len, "config", ESPALIER_ERR_INPUT), ESPALIER_OK);
    c.ctx = t.ctx;
    golden_compare(&c, "out.x", ours, a, theirs, b, n);
    esi_json_free(c.config);
    esi_text_free(t.ctx, &text);
    test_base_close(&t);
    return last_verdict;
}

static golden_verdict f32(const char *tolerance, float ours, float theirs)
{
    return verdict_of(tolerance, &ours, ESI_FILE_F32, &theirs, ESI_FILE_F32, 1);
}

#define PASSES(call) assert_int_equal(call, GOLDEN_PASS)
#define FAILS(call)  assert_int_equal(call, GOLDEN_FAIL)

static void test_elementwise_keywords(void **state)
{
    (void)state;
    const float one = 1.0f, next = nextafterf(1.0f, 2.0f), two = nextafterf(next, 2.0f);
    PASSES(f32("{\"exact\": true}", one, one));
    FAILS(f32("{\"exact\": true}", next, one));
    FAILS(f32("{\"exact\": true}", -0.0f, 0.0f));
    PASSES(f32("{\"ulp\": 1}", next, one));
    PASSES(f32("{\"ulp\": 1}", -0.0f, 0.0f));
    PASSES(f32("{\"ulp\": 2}", nextafterf(0.0f, -1.0f), nextafterf(0.0f, 1.0f)));
    FAILS(f32("{\"ulp\": 1}", two, one));
    PASSES(f32("{\"max_abs\": 0.25}", 1.25f, 1.0f));
    FAILS(f32("{\"max_abs\": 0.25}", 1.2500001f, 1.0f));
    PASSES(f32("{\"max_rel\": 0.25}", 10.0f, 8.0f));
    FAILS(f32("{\"max_rel\": 0.25}", 10.0001f, 8.0f));
    FAILS(f32("{\"max_rel\": 0.25}", 1e-30f, 0.0f));
    PASSES(f32("{\"allclose\": {\"rel\": 0.1, \"abs\": 0.5}}", 11.5f, 10.0f));
    FAILS(f32("{\"allclose\": {\"rel\": 0.1, \"abs\": 0.5}}", 11.51f, 10.0f));
    PASSES(f32("{\"allclose\": {\"abs\": 1}}", INFINITY, INFINITY));
    FAILS(f32("{\"allclose\": {\"abs\": 1}}", INFINITY, -INFINITY));
    FAILS(f32("{\"allclose\": {\"abs\": 1}}", 3e38f, INFINITY));
    PASSES(f32("{\"zeros_exact\": true}", 5.0f, 1.0f));
    FAILS(f32("{\"zeros_exact\": true}", 1e-30f, 0.0f));
    FAILS(f32("{\"max_abs\": 1, \"zeros_exact\": true}", 1e-30f, 0.0f));
}

static void test_rel_l2(void **state)
{
    (void)state;
    const float theirs[3] = {3.0f, 0.0f, 4.0f}, near[3] = {3.0f, 0.05f, 4.0f}, zeros[3] = {0};
    PASSES(verdict_of("{\"rel_l2\": 0.0100001}", near, ESI_FILE_F32, theirs, ESI_FILE_F32, 3));
    assert_true(fabs(last_rel_l2 - 0.01) < 1e-8 && fabs(last_max_abs - 0.05) < 1e-8);
    FAILS(verdict_of("{\"rel_l2\": 0.0099}", near, ESI_FILE_F32, theirs, ESI_FILE_F32, 3));
    PASSES(verdict_of("{\"rel_l2\": 0.0}", zeros, ESI_FILE_F32, zeros, ESI_FILE_F32, 3));
    FAILS(verdict_of("{\"rel_l2\": 1e30}", near, ESI_FILE_F32, zeros, ESI_FILE_F32, 3));
}

static void test_nan_fails_everything(void **state)
{
    (void)state;
    static const char *const tolerances[] = {"{\"ulp\": 1e9}",
                                             "{\"max_abs\": 1e30}",
                                             "{\"max_rel\": 1e30}",
                                             "{\"rel_l2\": 1e30}",
                                             "{\"allclose\": {\"rel\": 1e30, \"abs\": 1e30}}",
                                             "{\"exact\": true}"};
    for (size_t i = 0; i < ESI_COUNT(tolerances); i++) FAILS(f32(tolerances[i], NAN, 1.0f));
    FAILS(f32("{\"zeros_exact\": true}", NAN, 0.0f));
}

static void test_other_types(void **state)
{
    (void)state;
    const double t[2] = {0.1, 0.2}, near[2] = {0.1 + 1e-16, 0.2};
    const int32_t i[2] = {1, -2}, other[2] = {1, -3};
    const uint8_t u[2] = {10, 250}, v[2] = {11, 249}, w[2] = {12, 250};
    PASSES(verdict_of("{\"max_abs\": 1e-15}", near, ESI_FILE_F64, t, ESI_FILE_F64, 2));
    FAILS(verdict_of("{\"exact\": true}", near, ESI_FILE_F64, t, ESI_FILE_F64, 2));
    PASSES(verdict_of("{\"exact\": true}", i, ESI_FILE_I32, i, ESI_FILE_I32, 2));
    FAILS(verdict_of("{\"exact\": true}", other, ESI_FILE_I32, i, ESI_FILE_I32, 2));
    PASSES(verdict_of("{\"max_abs\": 1}", v, ESI_FILE_U8, u, ESI_FILE_U8, 2));
    FAILS(verdict_of("{\"max_abs\": 1}", w, ESI_FILE_U8, u, ESI_FILE_U8, 2));
}

static void test_what_is_not_understood_fails(void **state)
{
    (void)state;
    FAILS(f32("{\"as_set\": true}", 1.0f, 1.0f));
    FAILS(f32("{\"rel_12\": 1}", 1.0f, 1.0f));
    FAILS(f32("{\"rel_l2\": \"1\"}", 1.0f, 1.0f));
    FAILS(f32("{\"exact\": 1}", 1.0f, 1.0f));
    FAILS(f32("{\"allclose\": 1}", 1.0f, 1.0f));
    FAILS(f32("{}", 1.0f, 1.0f));
    assert_int_equal(f32("{\"skip\": true}", 1.0f, 2.0f), GOLDEN_SKIP);
}

/* 200 points in the cells (i, 0, 0) of size 0.5, of which `off` are off by e cells. */
static golden_verdict in_cells(const char *tolerance, int off, float e)
{
    static float ours[200][3], theirs[200][3];
    static int32_t cells[200][3];
    test_base t;
    esi_text text = {0};
    golden_case c = {0};

    for (int i = 0; i < 200; i++) {
        cells[i][0] = i;
        for (int a = 0; a < 3; a++) theirs[i][a] = 0.5f * ((float)cells[i][a] + 0.25f);
        memcpy(ours[i], theirs[i], sizeof ours[i]);
        if (i < off) ours[i][1] += 0.5f * e;
    }
    test_base_open(&t, 1);
    esi_text_append(t.ctx, &text, "{\"tolerance\": {\"default\": {\"voxel_error\": %s}}}", tolerance);
    assert_int_equal(esi_json_parse(t.ctx, &c.config, text.data, text.len, "config", ESPALIER_ERR_INPUT), ESPALIER_OK);
    c.ctx = t.ctx;
    golden_compare_in_cells(&c, "out.x", ours[0], theirs[0], cells[0], 200, (double[]){0.5, 0.5, 0.5});
    esi_json_free(c.config);
    esi_text_free(t.ctx, &text);
    test_base_close(&t);
    return last_verdict;
}

static void test_voxel_error(void **state)
{
    static const char limits[] = "{\"median\": 0.01, \"p99\": 0.1, \"max_fraction_above\": [0.2, 0.005], \"cell_slack\": 0.001}";

    (void)state;
    PASSES(in_cells(limits, 0, 0.0f));
    PASSES(in_cells(limits, 1, 0.5f));                 /* one of 200 may be anywhere in its cell */
    FAILS(in_cells(limits, 2, 0.5f));                  /* two are 1 % */
    FAILS(in_cells(limits, 1, 0.76f));                 /* outside */
    FAILS(in_cells(limits, 1, -0.26f));
    FAILS(in_cells(limits, 1, (float)NAN));
    PASSES(in_cells(limits, 99, 0.09f));
    FAILS(in_cells(limits, 101, 0.02f));               /* median */
    FAILS(in_cells(limits, 10, 0.15f));                /* 99th percentile */
    FAILS(in_cells("{\"median\": 1}", 0, 0.0f));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise_keywords),         cmocka_unit_test(test_rel_l2),
        cmocka_unit_test(test_nan_fails_everything),         cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_what_is_not_understood_fails), cmocka_unit_test(test_voxel_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
