/* SPDX-License-Identifier: MIT
 *
 * test_base.c: checked sizes, error text, cancellation, progress, log, limits, floating-point mode.
 */
#include "support.h"

#include <fenv.h>
#include <math.h>
#include <pthread.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

/* ------------------------------------------------------------------- sizes */

static void sizes_overflow(void **state)
{
    (void)state;
    size_t r = 7;
    const size_t half = SIZE_MAX / 2 + 1;
    assert_true(esi_mul_size(&r, 0, SIZE_MAX) && r == 0);
    assert_true(esi_mul_size(&r, SIZE_MAX, 0) && r == 0);
    assert_true(esi_mul_size(&r, SIZE_MAX, 1) && r == SIZE_MAX);
    assert_true(esi_mul_size(&r, half - 1, 2) && r == SIZE_MAX - 1);
    assert_false(esi_mul_size(&r, half, 2));
    assert_true(r == SIZE_MAX);
    r = 7;
    assert_false(esi_mul_size(&r, (size_t)1 << (sizeof(size_t) * 4), (size_t)1 << (sizeof(size_t) * 4)));
    assert_true(r == SIZE_MAX);
    assert_true(esi_add_size(&r, SIZE_MAX - 5, 5) && r == SIZE_MAX);
    r = 7;
    assert_false(esi_add_size(&r, SIZE_MAX - 5, 6));
    assert_true(r == SIZE_MAX);
}

static void sizes_as_text(void **state)
{
    (void)state;
    static const struct { uint64_t bytes; const char *text; } cases[] = {
        {0, "0 bytes"}, {1, "1 byte"}, {17, "17 bytes"}, {1023, "1023 bytes"}, {1024, "1 KiB"}, {1536, "1.5 KiB"},
        {(uint64_t)450 << 20, "450 MiB"}, {1288490189, "1.2 GiB"}, {(UINT64_C(1) << 30) - 1, "1024 MiB"},
        {UINT64_C(1) << 62, "4 EiB"}, {UINT64_MAX, "16 EiB"}};
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        char text[ESI_SIZE_TEXT];
        esi_size_text(text, cases[i].bytes);
        assert_string_equal(text, cases[i].text);
    }
}

/* ------------------------------------------------------------------ errors */

static void first_error_wins(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    assert_string_equal(espalier_error_message(t.ctx), "");
    assert_int_equal(espalier_error_offset(t.ctx), -1);
    assert_false(esi_error_pending(t.ctx));
    assert_int_equal(esi_fail_at(t.ctx, ESPALIER_ERR_MODEL, INT64_C(1) << 40, "%s: %d", "a.gguf", 1), ESPALIER_ERR_MODEL);
    assert_int_equal(esi_fail(t.ctx, ESPALIER_ERR_INPUT, "later"), ESPALIER_ERR_INPUT);
    assert_true(esi_error_pending(t.ctx));
    assert_string_equal(espalier_error_message(t.ctx), "a.gguf: 1");
    assert_true(espalier_error_offset(t.ctx) == INT64_C(1) << 40);
    assert_int_equal(t.ctx->error_status, ESPALIER_ERR_MODEL);
    esi_clear_error(t.ctx);
    assert_string_equal(espalier_error_message(t.ctx), "");
    esi_fail(t.ctx, ESPALIER_ERR_INPUT, "later");
    assert_string_equal(espalier_error_message(t.ctx), "later");
    assert_int_equal(espalier_error_offset(t.ctx), -1);
    assert_int_equal(esi_fail(NULL, ESPALIER_ERR_INPUT, "no context"), ESPALIER_ERR_INPUT);
    assert_string_equal(espalier_error_message(NULL), "");
    test_base_close(&t);
}

static void error_text_is_one_clean_line(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    esi_fail(t.ctx, ESPALIER_ERR_INPUT, "%s", "a\nb\tc\x1b[2Jd\x7f \xC2\x9B" "e \xFF \xE2\x82\xAC \xE2\x82");
    assert_string_equal(espalier_error_message(t.ctx), "a?b?c?[2Jd? ??e ? \xE2\x82\xAC ??");
    esi_clear_error(t.ctx);
    char longer[3000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    esi_fail(t.ctx, ESPALIER_ERR_INPUT, "%s", longer);
    const char *text = espalier_error_message(t.ctx);
    assert_int_equal(strlen(text), sizeof t.ctx->error_text - 1);
    assert_string_equal(text + strlen(text) - 4, "x...");
    test_base_close(&t);
}

static void enter_and_leave(void **state)
{
    (void)state;
    test_base t;
    esi_fp_state saved;
    test_base_open(&t, 1);
    esi_fail(t.ctx, ESPALIER_ERR_INPUT, "old");
    esi_enter(t.ctx, &saved);
    assert_string_equal(espalier_error_message(t.ctx), "");
    esi_fail(t.ctx, ESPALIER_ERR_INPUT, "dealt with");
    assert_int_equal(esi_leave(t.ctx, &saved, ESPALIER_OK), ESPALIER_OK);
    assert_string_equal(espalier_error_message(t.ctx), "");
    esi_enter(t.ctx, &saved);
    assert_int_equal(esi_leave(t.ctx, &saved, ESPALIER_ERR_DEVICE), ESPALIER_ERR_DEVICE);
    assert_string_equal(espalier_error_message(t.ctx), "device error");      /* a failure is never silent */
    test_base_close(&t);
}

/* ------------------------------------------------------ cancel and progress */

typedef struct progress_seen {
    int calls, stop_at;
    uint64_t done, total;
    char stage[16];
} progress_seen;

static int on_progress(void *user, const char *stage, uint64_t done, uint64_t total)
{
    progress_seen *seen = user;
    seen->done = done;
    seen->total = total;
    snprintf(seen->stage, sizeof seen->stage, "%s", stage);
    return ++seen->calls == seen->stop_at;
}

static void progress_can_cancel(void **state)
{
    (void)state;
    test_base t;
    progress_seen seen = {.stop_at = 2};
    test_base_open(&t, 1);
    assert_int_equal(esi_progress(t.ctx, "shape", 1, 9), ESPALIER_OK);       /* no callback: fine */
    espalier_context_set_progress(t.ctx, on_progress, &seen);
    assert_int_equal(esi_progress(t.ctx, "shape", 3, 9), ESPALIER_OK);
    assert_int_equal(seen.done, 3);
    assert_int_equal(seen.total, 9);
    assert_string_equal(seen.stage, "shape");
    assert_int_equal(esi_progress(t.ctx, "shape", 4, 9), ESPALIER_ERR_CANCELLED);
    assert_string_equal(espalier_error_message(t.ctx), "cancelled");
    assert_true(esi_cancel_requested(t.ctx));
    esi_clear_error(t.ctx);
    assert_int_equal(esi_check_cancel(t.ctx), ESPALIER_ERR_CANCELLED);       /* stays set ... */
    espalier_context_reset_cancel(t.ctx);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_check_cancel(t.ctx), ESPALIER_OK);                  /* ... until it is reset */
    espalier_context_cancel(t.ctx);
    assert_int_equal(esi_progress(t.ctx, "shape", 5, 9), ESPALIER_ERR_CANCELLED);
    espalier_context_cancel(NULL);
    test_base_close(&t);
}

/* --------------------------------------------------------------- log, limits */

typedef struct log_seen {
    espalier_log_level level;
    char line[2000];
} log_seen;

static void on_log(void *user, espalier_log_level level, const char *line)
{
    log_seen *seen = user;
    seen->level = level;
    snprintf(seen->line, sizeof seen->line, "%s", line);
}

static void log_lines(void **state)
{
    (void)state;
    test_base t;
    log_seen seen = {ESPALIER_LOG_DEBUG, ""};
    test_base_open(&t, 1);
    esi_log(t.ctx, ESPALIER_LOG_WARNING, "nobody listens");
    t.runtime.log = on_log;
    t.runtime.log_user = &seen;
    esi_log(t.ctx, ESPALIER_LOG_WARNING, "%s: %d\n", "x", 5);
    assert_string_equal(seen.line, "x: 5?");
    assert_int_equal(seen.level, ESPALIER_LOG_WARNING);
    test_base_close(&t);
}

static void limits_have_defaults(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    assert_int_equal(esi_limits(t.ctx)->max_image_side, 16384);
    assert_true(esi_limits(t.ctx)->max_file_bytes == UINT64_C(4) << 30);
    espalier_limits limits = espalier_limits_default();
    limits.max_image_side = 100;
    limits.max_file_bytes = 1000;
    espalier_context_set_limits(t.ctx, &limits);
    assert_int_equal(esi_limits(t.ctx)->max_image_side, 100);
    assert_true(esi_limits(t.ctx)->max_file_bytes == 1000);
    limits.struct_size = offsetof(espalier_limits, max_file_bytes);          /* an older program's struct ended here */
    espalier_context_set_limits(t.ctx, &limits);
    assert_int_equal(esi_limits(t.ctx)->max_image_side, 100);
    assert_true(esi_limits(t.ctx)->max_file_bytes == UINT64_C(4) << 30);
    espalier_context_set_limits(t.ctx, NULL);
    assert_int_equal(esi_limits(t.ctx)->max_image_side, 16384);
    test_base_close(&t);
}

static void context_creation_fails_cleanly(void **state)
{
    (void)state;
    test_base t;
    espalier_context *ctx = (espalier_context *)&t;
    test_base_open(&t, 1);
    test_fail_at(&t.memory, 1);
    assert_int_equal(espalier_context_create(&ctx, &t.runtime), ESPALIER_ERR_RESOURCE);
    assert_null(ctx);
    assert_int_equal(espalier_context_create(&ctx, NULL), ESPALIER_ERR_ARG);
    espalier_context_free(NULL);
    test_base_close(&t);
}

/* ------------------------------------------------------ floating-point mode */

typedef struct fp_seen {
    float third, tiny;
} fp_seen;

static fp_seen probe_fp(void)
{
    /* Results are volatile too: compilers that do not model the mode may move a division past the call that changes it. */
    volatile float one = 1.0f, three = 3.0f, smallest_normal = 0x1p-126f, half = 0.5f, third, tiny;
    third = one / three;
    tiny = smallest_normal * half;
    return (fp_seen){third, tiny};
}

static void spoil_fp(void)
{
    fesetround(FE_DOWNWARD);         /* 1/3 rounds up to nearest */
#if defined(__SSE2__)
    _mm_setcsr(_mm_getcsr() | 0x8040);               /* flush to zero, denormals are zero */
#endif
}

static void probe_task(void *arg, size_t task, int slot)
{
    (void)slot;
    ((fp_seen *)arg)[task] = probe_fp();
}

static void fp_mode_is_set_and_restored(void **state)
{
    (void)state;
    test_base t;
    esi_fp_state saved;
    fp_seen good, tasks[64];
    test_base_open(&t, 3);
    fesetround(FE_TONEAREST);
    spoil_fp();
    fp_seen spoilt = probe_fp();
    esi_enter(t.ctx, &saved);
    good = probe_fp();
    esi_leave(t.ctx, &saved, ESPALIER_OK);
    fp_seen again = probe_fp();
    assert_int_equal(esi_parallel(t.ctx, ESI_COUNT(tasks), probe_task, tasks), ESPALIER_OK);
    fp_seen after = probe_fp();
    espalier_status one = esi_parallel(t.ctx, 1, probe_task, &tasks[0]);
    fesetround(FE_TONEAREST);
#if defined(__SSE2__)
    _mm_setcsr(0x1F80);
#endif
    assert_int_equal(one, ESPALIER_OK);
    assert_true(good.third == 0x1.555556p-2f);
    assert_true(good.tiny == 0x1p-127f);
    assert_true(spoilt.third != good.third);     /* otherwise this test shows nothing */
    assert_true(again.third == spoilt.third && again.tiny == spoilt.tiny);
    assert_true(after.third == spoilt.third && after.tiny == spoilt.tiny);
    for (size_t i = 0; i < ESI_COUNT(tasks); i++) assert_true(tasks[i].third == good.third && tasks[i].tiny == good.tiny);
    test_base_close(&t);
}

static void clocks_advance(void **state)
{
    (void)state;
    double wall = esi_now(), cpu = esi_cpu_seconds();
    usleep(20000);
    assert_true(esi_now() - wall >= 0.019);
    volatile double sum = 0;
    for (int i = 0; i < 2000000; i++) sum += i;
    assert_true(sum > 0 && esi_cpu_seconds() > cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_overflow),
        cmocka_unit_test(sizes_as_text),
        cmocka_unit_test(first_error_wins),
        cmocka_unit_test(error_text_is_one_clean_line),
        cmocka_unit_test(enter_and_leave),
        cmocka_unit_test(progress_can_cancel),
        cmocka_unit_test(log_lines),
        cmocka_unit_test(limits_have_defaults),
        cmocka_unit_test(context_creation_fails_cleanly),
        cmocka_unit_test(fp_mode_is_set_and_restored),
        cmocka_unit_test(clocks_advance),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
