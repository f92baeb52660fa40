/* SPDX-License-Identifier: MIT
 *
 * test_stage_failures.c: memory that runs out anywhere in a whole run. The n-th allocation fails, for every n while a model is opened and
 * for a spread of 200 over espalier_generate() (micro model, one thread so that n means the same each time, and two threads for races):
 * always ERR_RESOURCE with a message, nothing leaked, and the context works again afterwards.
 */
#include "support.h"

#include <espalier/espalier.h>

#define MODEL   ESPALIER_TEST_DATA "/golden/micro_model"
#define PICTURE ESPALIER_TEST_DATA "/golden/micro_pipeline/image.png"
#define SPREAD  200

typedef struct fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
    espalier_model *model;
    espalier_image picture;
} fixture;

static fixture *open_fixture(int threads)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options options = espalier_runtime_options_default();
    options.threads = threads;
    options.allocator = (espalier_allocator){&f->memory, test_allocate, test_release};
    assert_int_equal(espalier_runtime_create(&f->runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    assert_int_equal(espalier_model_open(f->ctx, &f->model, MODEL, NULL), ESPALIER_OK);
    assert_int_equal(espalier_image_load(f->ctx, &f->picture, PICTURE), ESPALIER_OK);
    return f;
}

static void close_fixture(fixture *f)
{
    espalier_image_free(&f->picture);
    espalier_model_free(f->model);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    assert_int_equal(atomic_load(&f->memory.live_blocks), 0);
    assert_int_equal(atomic_load(&f->memory.live_bytes), 0);
    free(f);
}

/* After a failure: a clean message, and as many blocks as before. */
static void check_failed(fixture *f, espalier_status st, long n, size_t blocks, size_t bytes)
{
    test_fail_at(&f->memory, 0);
    if (st != ESPALIER_ERR_RESOURCE) fail_msg("allocation %ld: status %d: %s", n, (int)st, espalier_error_message(f->ctx));
    if (!espalier_error_message(f->ctx)[0]) fail_msg("allocation %ld: no message", n);
    if (atomic_load(&f->memory.live_blocks) != blocks || atomic_load(&f->memory.live_bytes) != bytes)
        fail_msg("allocation %ld: %zu blocks instead of %zu", n, atomic_load(&f->memory.live_blocks), blocks);
}

/* ------------------------------------------------------------- opening */

static void every_allocation_of_opening_a_model(void **state)
{
    (void)state;
    fixture *f = open_fixture(1);
    size_t blocks = atomic_load(&f->memory.live_blocks), bytes = atomic_load(&f->memory.live_bytes);
    long n = 1;
    for (;; n++) {
        espalier_model *model = NULL;
        test_fail_at(&f->memory, n);
        espalier_status st = espalier_model_open(f->ctx, &model, MODEL, NULL);
        bool reached = atomic_load(&f->memory.requests) >= n;
        if (!reached) {
            test_fail_at(&f->memory, 0);
            assert_int_equal(st, ESPALIER_OK);
            espalier_model_free(model);
            break;
        }
        assert_null(model);
        check_failed(f, st, n, blocks, bytes);
    }
    print_message("  %ld allocations of espalier_model_open() failed\n", n - 1);
    assert_true(n > 100);
    close_fixture(f);
}

/* ------------------------------------------------------------- a whole run */

/* Everything that a program does with a picture: report, plan, run, files. */
static espalier_status whole_run(fixture *f, const char *dir)
{
    espalier_generate_params params = espalier_generate_params_default(f->model);
    espalier_report *report = NULL;
    espalier_asset *asset = NULL;
    const char *json = NULL;
    char path[1024];

    espalier_status st = espalier_report_create(f->ctx, &report);
    params.report = report;
    if (st == ESPALIER_OK) st = espalier_memory_plan(f->ctx, f->model, &params, NULL);
    if (st == ESPALIER_OK) st = espalier_generate(f->ctx, &asset, f->model, &f->picture, NULL, "picture", &params);
    if (st != ESPALIER_OK) assert_null(asset);
    if (st == ESPALIER_OK) st = espalier_asset_save_glb(f->ctx, asset, test_path(path, dir, "x.glb"));
    if (st == ESPALIER_OK) st = espalier_asset_dump(f->ctx, asset, test_path(path, dir, "x.espd"));
    if (st == ESPALIER_OK) st = espalier_report_json(f->ctx, report, &json);
    if (st == ESPALIER_OK) st = espalier_report_save(f->ctx, report, test_path(path, dir, "x.json"));
    espalier_asset_free(asset);
    espalier_report_free(report);
    return st;
}

static void remove_results(const char *dir)
{
    char path[1024];
    remove(test_path(path, dir, "x.glb"));
    remove(test_path(path, dir, "x.espd"));
    remove(test_path(path, dir, "x.json"));
    assert_int_equal(test_dir_count(dir), 0);
}

static void spread_over_a_run(int threads, long spread)
{
    fixture *f = open_fixture(threads);
    char *dir = test_dir_make();
    /* The first run also fills what is kept for reuse; from the second on the counts repeat. */
    assert_int_equal(whole_run(f, dir), ESPALIER_OK);
    remove_results(dir);
    size_t blocks = atomic_load(&f->memory.live_blocks), bytes = atomic_load(&f->memory.live_bytes);
    test_fail_at(&f->memory, 0);
    assert_int_equal(whole_run(f, dir), ESPALIER_OK);
    remove_results(dir);
    long total = atomic_load(&f->memory.requests), failed = 0;
    assert_true(total > spread);
    for (long i = 0; i < spread; i++) {
        /* Spread evenly, with the ends. */
        long n = 1 + i * (total - 1) / (spread - 1);
        test_fail_at(&f->memory, n);
        espalier_status st = whole_run(f, dir);
        if (st == ESPALIER_OK) {
            /* Something may live without memory, such as a hint; then everything has to be there. */
            test_fail_at(&f->memory, 0);
            assert_int_equal(test_dir_count(dir), 3);
        } else {
            failed++;
            check_failed(f, st, n, blocks, bytes);
        }
        remove_results(dir);
    }
    print_message("  %d threads: %ld of %ld allocations failed, %ld runs with them\n", threads, spread, total, failed);
    assert_true(failed > spread * 9 / 10);
    /* Nothing is broken for the next job. */
    assert_int_equal(whole_run(f, dir), ESPALIER_OK);
    remove_results(dir);
    test_dir_remove(dir);
    free(dir);
    close_fixture(f);
}

static void spread_on_one_thread(void **state)
{
    (void)state;
    spread_over_a_run(1, SPREAD);
}

static void spread_on_two_threads(void **state)
{
    (void)state;
    spread_over_a_run(2, 40);
}

/* ------------------------------------------------------------- a budget instead */

static void every_budget(void **state)
{
    (void)state;
    fixture *f = open_fixture(1);
    espalier_context *first = f->ctx;
    char *dir = test_dir_make();
    int enough = 0, refused = 0;
    for (uint64_t budget = UINT64_C(4) << 10; budget <= UINT64_C(16) << 20; budget += budget / 4) {
        assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
        espalier_context_set_memory_budget(f->ctx, budget);
        espalier_status st = whole_run(f, dir);
        if (st == ESPALIER_OK)
            enough++;
        else if (st == ESPALIER_ERR_RESOURCE)
            refused++;
        else
            fail_msg("budget %llu: status %d: %s", (unsigned long long)budget, (int)st, espalier_error_message(f->ctx));
        assert_true(espalier_context_memory_peak(f->ctx) <= budget);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        espalier_context_free(f->ctx);
        remove_results(dir);
    }
    print_message("  %d budgets were refused, %d enough\n", refused, enough);
    assert_true(enough > 0 && refused > 0);
    f->ctx = first;
    test_dir_remove(dir);
    free(dir);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_opening_a_model), cmocka_unit_test(spread_on_one_thread),
                                       cmocka_unit_test(spread_on_two_threads), cmocka_unit_test(every_budget)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
