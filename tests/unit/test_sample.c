/* SPDX-License-Identifier: MIT
 *
 * Noise and the Euler sampler against values known from PyTorch, from mathematics, or from a second computation in double.
 */
#include "weights_fixture.h"

#include "sample/sample.h"

#include <math.h>

/* --------------------------------------------------------------- generator */

static void test_u32_of_seed_42(void **state)
{
    esi_generator g;
    (void)state;
    esi_generator_seed(&g, 42);
    assert_int_equal(esi_generator_u32(&g), 1608637542u);
    assert_int_equal(esi_generator_u32(&g), 3421126067u);
    assert_int_equal(esi_generator_u32(&g), 4083286876u);
}

static void test_only_low_32_bits_of_seed_count(void **state)
{
    const int64_t pairs[][2] = {{42, 4294967296 + 42}, {-1, 4294967295}, {INT64_MIN, 0}, {-4294967296 + 7, 7}};
    (void)state;
    for (size_t i = 0; i < ESI_COUNT(pairs); i++) {
        esi_generator a, b;
        esi_generator_seed(&a, pairs[i][0]);
        esi_generator_seed(&b, pairs[i][1]);
        for (int k = 0; k < 700; k++) assert_int_equal(esi_generator_u32(&a), esi_generator_u32(&b));
    }
}

static void test_randn_small_and_large(void **state)
{
    const float small[4] = {0.3367f, 0.1288f, 0.2345f, 0.2303f}, large[4] = {1.9269153f, 1.4872841f, 0.9007172f, -2.105521f};
    float x[64];
    esi_generator g;
    (void)state;
    esi_generator_seed(&g, 42);
    esi_generator_randn(&g, x, 4);
    for (int i = 0; i < 4; i++) assert_true(fabsf(x[i] - small[i]) < 6e-5f);
    esi_generator_seed(&g, 42);
    esi_generator_randn(&g, x, 64);
    for (int i = 0; i < 4; i++) assert_true(fabsf(x[i] - large[i]) < 2e-6f);
}

/* The second normal of a pair waits through large draws and is forgotten by seeding. */
static void test_cached_normal_survives_large_draws(void **state)
{
    float x[32], pair[2], one;
    esi_generator g;
    (void)state;
    esi_generator_seed(&g, 5);
    esi_generator_randn(&g, pair, 2);
    esi_generator_seed(&g, 5);
    esi_generator_randn(&g, &one, 1);
    assert_true(one == pair[0]);
    esi_generator_randn(&g, x, 32);
    esi_generator_randn(&g, &one, 1);
    assert_true(one == pair[1]);

    esi_generator_randn(&g, &one, 1);
    esi_generator_seed(&g, 5);
    esi_generator_randn(&g, &one, 1);
    assert_true(one == pair[0]);
}

/* A length that is no multiple of 16 draws 16 more values and makes the last 16 from them. */
static void test_randn_tail_is_drawn_anew(void **state)
{
    float whole[32], ragged[23], tail[16];
    esi_generator g;
    (void)state;
    esi_generator_seed(&g, 9);
    esi_generator_randn(&g, whole, 16);
    esi_generator_seed(&g, 9);
    esi_generator_randn(&g, ragged, 23);
    for (int i = 0; i < 7; i++) assert_true(ragged[i] == whole[i]);
    assert_true(ragged[7] != whole[7]);
    /* The same 16 as if 23 outputs had been skipped first. */
    esi_generator_seed(&g, 9);
    for (int i = 0; i < 23; i++) esi_generator_u32(&g);
    esi_generator_randn(&g, tail, 16);
    assert_memory_equal(ragged + 7, tail, sizeof tail);
    /* 23 + 16 outputs are gone. */
    esi_generator_seed(&g, 9);
    esi_generator_randn(&g, ragged, 23);
    uint32_t next = esi_generator_u32(&g);
    esi_generator_seed(&g, 9);
    for (int i = 0; i < 39; i++) esi_generator_u32(&g);
    assert_int_equal(next, esi_generator_u32(&g));
}

static void test_randn_moments_and_range(void **state)
{
    const size_t n = 1 << 20;
    const float largest = 5.7689f;               /* sqrt(-2 ln 2^-24): the smallest uniform */
    float *x = malloc(n * sizeof *x);
    double sum = 0, squares = 0;
    esi_generator g;
    (void)state;
    assert_non_null(x);
    esi_generator_seed(&g, 1);
    esi_generator_randn(&g, x, n);
    for (size_t i = 0; i < n; i++) {
        assert_true(fabsf(x[i]) <= largest);
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    assert_true(fabs(sum / (double)n) < 4e-3);
    assert_true(fabs(squares / (double)n - 1.0) < 6e-3);
    free(x);
}

/* ---------------------------------------------------------------- schedule */

static const esi_sampler_params release_ss = {12, 7.5, 0.7, 0.6, 1.0, 5.0, 1e-5};
static const esi_sampler_params release_shape = {12, 7.5, 0.5, 0.6, 1.0, 3.0, 1e-5};
static const esi_sampler_params release_tex = {12, 1.0, 0.0, 0.6, 0.9, 3.0, 1e-5};

static int total_calls(const esi_sampler_params *p)
{
    double t[1001];
    int sum = 0;
    esi_sampler_schedule(p, t);
    for (int i = 0; i < p->steps; i++) sum += esi_sampler_calls(p, t[i]);
    return sum;
}

static void test_release_schedules(void **state)
{
    const double ss[13] = {1, .982143, .961538, .9375, .909091, .875, .833333, .78125, .714286, .625, .5, .3125, 0};
    const double shape[13] = {1, .970588, .9375, .9, .857143, .807692, .75, .681818, .6, .5, .375, .214286, 0};
    double t[13];
    (void)state;
    esi_sampler_schedule(&release_ss, t);
    for (int i = 0; i < 13; i++) assert_true(fabs(t[i] - ss[i]) < 1e-6);
    esi_sampler_schedule(&release_shape, t);
    for (int i = 0; i < 13; i++) assert_true(fabs(t[i] - shape[i]) < 1e-6);
    /* Exactly on the closed boundary of the interval: guidance applies. */
    assert_true(t[8] == 0.6);
    assert_int_equal(esi_sampler_calls(&release_shape, t[8]), 2);
    assert_int_equal(total_calls(&release_ss), 22);
    assert_int_equal(total_calls(&release_shape), 21);
    assert_int_equal(total_calls(&release_tex), 12);
}

/* ------------------------------------------------------------------- Euler */

typedef struct field {
    float positive, negative;                    /* v = this * x + offset */
    float positive_offset, negative_offset;
    int calls, negatives, steps_seen;
    float times[64];
    espalier_status answer;
} field;

static espalier_status linear_field(void *user, espalier_context *ctx, esi_tensor v, esi_tensor x, float t_model, bool negative)
{
    field *f = user;
    float value[12];
    const float slope = negative ? f->negative : f->positive, offset = negative ? f->negative_offset : f->positive_offset;
    f->times[f->calls++ % 64] = t_model;
    f->negatives += negative;
    if (f->answer != ESPALIER_OK) return esi_fail(ctx, f->answer, "field: told to fail");
    assert_int_equal(esi_tensor_read(ctx, x, value), ESPALIER_OK);
    for (int i = 0; i < 12; i++) value[i] = slope * value[i] + offset * (float)i;
    return esi_tensor_write(ctx, v, value);
}

static espalier_status count_steps(void *user, espalier_context *ctx, int step, int steps, esi_tensor x, esi_tensor v)
{
    field *f = user;
    (void)ctx;
    (void)x;
    (void)v;
    assert_int_equal(step, f->steps_seen);
    assert_int_equal(steps, 3);
    f->steps_seen++;
    return ESPALIER_OK;
}

static const float start[12] = {1.0f, -0.5f, 0.25f, 2.0f, -1.5f, 0.75f, 0.1f, -0.2f, 0.3f, 1.25f, -0.9f, 0.6f};

static espalier_status sample(fixture *f, float *out, const esi_sampler_params *p, field *v, esi_step_fn step)
{
    esi_scope scope = esi_scope_begin(f->ctx);
    esi_tensor x;
    assert_int_equal(esi_tensor_from(f->ctx, &x, 4, 3, ESI_F32, start), ESPALIER_OK);
    espalier_status st = esi_sample_flow_euler(f->ctx, x, p, linear_field, v, step, v);
    if (st == ESPALIER_OK) assert_int_equal(esi_tensor_read(f->ctx, x, out), ESPALIER_OK);
    esi_scope_end(f->ctx, scope);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    return st;
}

/* dx/dt = x along the schedule: each step multiplies by 1 - (t - t'). */
static void test_euler_without_guidance(void **state)
{
    const esi_sampler_params p = {3, 1.0, 0.7, 0.0, 1.0, 2.0, 1e-5};
    field v = {.positive = 1.0f};
    float out[12];
    double t[4], factor = 1.0;
    esi_sampler_schedule(&p, t);
    for (int i = 0; i < 3; i++) factor *= 1.0 - (t[i] - t[i + 1]);
    assert_int_equal(sample(*state, out, &p, &v, count_steps), ESPALIER_OK);
    for (int i = 0; i < 12; i++) assert_true(fabs((double)out[i] - factor * (double)start[i]) < 1e-6);
    assert_int_equal(v.calls, 3);
    assert_int_equal(v.negatives, 0);
    assert_int_equal(v.steps_seen, 3);
    for (int i = 0; i < 3; i++) assert_true(v.times[i] == (float)(1000.0 * t[i]));
}

static void test_zero_strength_uses_negative_only(void **state)
{
    const esi_sampler_params p = {3, 0.0, 0.7, 0.0, 1.0, 1.0, 1e-5};
    field v = {.positive = 1.0f, .negative = 0.5f};
    float out[12];
    assert_int_equal(sample(*state, out, &p, &v, NULL), ESPALIER_OK);
    assert_int_equal(v.calls, 3);
    assert_int_equal(v.negatives, 3);
}

/* The formulas of the reference in double. */
static void reference_step(double *x, const field *f, const esi_sampler_params *p, double t, double t_next)
{
    const double g = p->guidance_strength, a = 1.0 - p->sigma_min, b = p->sigma_min + a * t, rho = p->guidance_rescale;
    double v[12], plus[12], X[12], m1 = 0, s1 = 0, m2 = 0, s2 = 0;
    for (int i = 0; i < 12; i++) {
        double vp = (double)f->positive * x[i] + (double)f->positive_offset * i;
        double vn = (double)f->negative * x[i] + (double)f->negative_offset * i;
        v[i] = g * vp + (1 - g) * vn;
        plus[i] = a * x[i] - b * vp;
        X[i] = a * x[i] - b * v[i];
        m1 += plus[i] / 12;
        m2 += X[i] / 12;
    }
    for (int i = 0; i < 12; i++) {
        s1 += (plus[i] - m1) * (plus[i] - m1);
        s2 += (X[i] - m2) * (X[i] - m2);
    }
    for (int i = 0; i < 12; i++) {
        if (rho > 0) v[i] = (a * x[i] - (rho * (X[i] * sqrt(s1 / s2)) + (1 - rho) * X[i])) / b;
        x[i] -= (t - t_next) * v[i];
    }
}

static void check_guidance(fixture *f, const esi_sampler_params *p)
{
    field v = {.positive = 0.8f, .negative = -0.3f, .positive_offset = 0.05f, .negative_offset = -0.11f};
    float out[12];
    double t[4], x[12];
    for (int i = 0; i < 12; i++) x[i] = (double)start[i];
    esi_sampler_schedule(p, t);
    for (int i = 0; i < 3; i++) reference_step(x, &v, p, t[i], t[i + 1]);
    assert_int_equal(sample(f, out, p, &v, NULL), ESPALIER_OK);
    for (int i = 0; i < 12; i++) assert_true(fabs((double)out[i] - x[i]) < 2e-5);
    assert_int_equal(v.calls, 6);
    assert_int_equal(v.negatives, 3);
}

static void test_guidance(void **state)
{
    const esi_sampler_params plain = {3, 4.0, 0.0, 0.0, 1.0, 2.0, 1e-5}, rescaled = {3, 4.0, 0.6, 0.0, 1.0, 2.0, 0.02};
    check_guidance(*state, &plain);
    check_guidance(*state, &rescaled);
}

static void test_bad_parameters(void **state)
{
    fixture *f = *state;
    const struct { esi_sampler_params p; const char *text; } cases[] = {
        {{0, 1, 0, 0, 1, 1, 0}, "steps"},
        {{1001, 1, 0, 0, 1, 1, 0}, "steps"},
        {{3, NAN, 0, 0, 1, 1, 0}, "guidance_strength"},
        {{3, 1, INFINITY, 0, 1, 1, 0}, "guidance_rescale"},
        {{3, 1, 0, NAN, 1, 1, 0}, "interval"},
        {{3, 1, 0, 0, 1, 0, 0}, "rescale_t"},
        {{3, 1, 0, 0, 1, NAN, 0}, "rescale_t"},
        {{3, 1, 0, 0, 1, 1, 1}, "sigma_min"},
        {{3, 1, 0, 0, 1, 1, NAN}, "sigma_min"},
    };
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        field v = {.positive = 1.0f};
        float out[12];
        assert_int_equal(sample(f, out, &cases[i].p, &v, NULL), ESPALIER_ERR_ARG);
        assert_non_null(strstr(espalier_error_message(f->ctx), cases[i].text));
        assert_int_equal(v.calls, 0);
        esi_clear_error(f->ctx);
    }
}

static void test_failures_stop_the_run(void **state)
{
    fixture *f = *state;
    const esi_sampler_params p = {3, 4.0, 0.5, 0.0, 1.0, 1.0, 0.0};
    field v = {.positive = 1.0f, .answer = ESPALIER_ERR_MODEL};
    float out[12];
    assert_int_equal(sample(f, out, &p, &v, NULL), ESPALIER_ERR_MODEL);
    assert_int_equal(v.calls, 1);
    esi_clear_error(f->ctx);

    /* v = x at t = 1: the x0 estimate is 0 everywhere and has no deviation. */
    v = (field){.positive = 1.0f, .negative = 1.0f};
    assert_int_equal(sample(f, out, &p, &v, NULL), ESPALIER_ERR_SOUNDNESS);
    assert_non_null(strstr(espalier_error_message(f->ctx), "constant"));
    esi_clear_error(f->ctx);

    v = (field){.positive = 1.0f};
    espalier_context_cancel(f->ctx);
    assert_int_equal(sample(f, out, &p, &v, NULL), ESPALIER_ERR_CANCELLED);
    assert_int_equal(v.calls, 0);
    espalier_context_reset_cancel(f->ctx);
    esi_clear_error(f->ctx);

    for (long n = 0;; n++) {
        v = (field){.positive = 0.8f, .negative = -0.3f};
        esi_scope scope = esi_scope_begin(f->ctx);
        esi_tensor x;
        assert_int_equal(esi_tensor_from(f->ctx, &x, 4, 3, ESI_F32, start), ESPALIER_OK);
        f->fail_in = n;
        espalier_status st = esi_sample_flow_euler(f->ctx, x, &p, linear_field, &v, NULL, NULL);
        f->fail_in = -1;
        esi_scope_end(f->ctx, scope);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        esi_clear_error(f->ctx);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_true(n < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_u32_of_seed_42),
        cmocka_unit_test(test_only_low_32_bits_of_seed_count),
        cmocka_unit_test(test_randn_small_and_large),
        cmocka_unit_test(test_cached_normal_survives_large_draws),
        cmocka_unit_test(test_randn_tail_is_drawn_anew),
        cmocka_unit_test(test_randn_moments_and_range),
        cmocka_unit_test(test_release_schedules),
        cmocka_unit_test_setup_teardown(test_euler_without_guidance, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_zero_strength_uses_negative_only, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_guidance, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_bad_parameters, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_failures_stop_the_run, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
