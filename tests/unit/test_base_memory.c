/* SPDX-License-Identifier: MIT
 *
 * test_base_memory.c: blocks, the account, the budget, arenas, failing allocations.
 */
#include "base/private.h"
#include "support.h"

static bool is_aligned(const void *p, size_t align)
{
    return (uintptr_t)p % align == 0;
}

static void blocks(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    char *none = esi_alloc(t.ctx, 0, 8, "nothing"), *a = esi_alloc(t.ctx, 3, 7, "a");
    assert_non_null(none);
    assert_non_null(a);
    assert_true(is_aligned(none, ESI_ALIGN) && is_aligned(a, ESI_ALIGN));
    memset(a, 1, 21);
    assert_int_equal(espalier_context_memory_now(t.ctx), 21);
    unsigned char *zero = esi_calloc(t.ctx, 100, 1, "zero");
    for (int i = 0; i < 100; i++) assert_int_equal(zero[i], 0);
    a = esi_realloc(t.ctx, a, 1000, 3, "a");
    for (int i = 0; i < 21; i++) assert_int_equal(a[i], 1);
    assert_true(is_aligned(a, ESI_ALIGN));
    a = esi_realloc(t.ctx, a, 5, 1, "a");
    for (int i = 0; i < 5; i++) assert_int_equal(a[i], 1);
    assert_int_equal(espalier_context_memory_now(t.ctx), 105);
    char *fresh = esi_realloc(t.ctx, NULL, 5, 1, "fresh");
    char *copy = esi_strdup(t.ctx, "hello"), *text = esi_format(t.ctx, "%s-%03d", copy, 7);
    assert_string_equal(text, "hello-007");
    esi_free(t.ctx, fresh);
    esi_free(t.ctx, text);
    esi_free(t.ctx, copy);
    esi_free(t.ctx, zero);
    esi_free(t.ctx, a);
    esi_free(t.ctx, none);
    esi_free(t.ctx, NULL);
    assert_int_equal(espalier_context_memory_peak(t.ctx), 100 + 21 + 3000);
    test_base_close(&t);
}

static void impossible_sizes(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    assert_null(esi_alloc(t.ctx, SIZE_MAX / 2, 3, "a hostile table"));
    assert_int_equal(t.ctx->error_status, ESPALIER_ERR_RESOURCE);
    assert_non_null(strstr(espalier_error_message(t.ctx), "out of memory: a hostile table needs "));
    esi_clear_error(t.ctx);
    assert_null(esi_alloc(t.ctx, SIZE_MAX, 1, "x"));
    assert_null(esi_alloc(t.ctx, SIZE_MAX - ESI_ALIGN, 1, "x"));
    assert_null(esi_calloc(t.ctx, SIZE_MAX / 4, 8, "x"));
    char *keep = esi_alloc(t.ctx, 4, 1, "keep");
    memcpy(keep, "abc", 4);
    assert_null(esi_realloc(t.ctx, keep, SIZE_MAX / 4, 8, "x"));
    assert_string_equal(keep, "abc");
    esi_free(t.ctx, keep);
    test_base_close(&t);
}

static void budget(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    assert_true(esi_memory_left(t.ctx) == UINT64_MAX);
    assert_int_equal(esi_memory_budget(t.ctx), 0);
    espalier_context_set_memory_budget(t.ctx, 1 << 20);
    assert_int_equal(esi_memory_budget(t.ctx), 1 << 20);
    char *a = esi_alloc(t.ctx, 256, 1024, "a");
    assert_int_equal(esi_memory_left(t.ctx), 768 << 10);
    assert_null(esi_alloc(t.ctx, (768 << 10) + 1, 1, "the cache"));
    assert_string_equal(espalier_error_message(t.ctx),
                        "memory budget of 1 MiB exceeded by the cache (needs 768 KiB, 768 KiB left); raise --mem-budget");
    esi_clear_error(t.ctx);
    assert_null(esi_alloc(t.ctx, 3, (size_t)1 << 30, "tokens"));
    assert_string_equal(espalier_error_message(t.ctx),
                        "memory budget of 1 MiB exceeded by tokens (needs 3 GiB, 768 KiB left); raise --mem-budget");
    esi_clear_error(t.ctx);
    char *all = esi_alloc(t.ctx, (size_t)esi_memory_left(t.ctx), 1, "all");
    assert_non_null(all);
    assert_int_equal(esi_memory_left(t.ctx), 0);
    assert_null(esi_alloc(t.ctx, 1, 1, "one more"));
    void *nothing = esi_alloc(t.ctx, 0, 1, "nothing");
    assert_non_null(nothing);
    espalier_context_set_memory_budget(t.ctx, 100);             /* below what is held */
    assert_int_equal(esi_memory_left(t.ctx), 0);
    esi_free(t.ctx, nothing);
    esi_free(t.ctx, all);
    esi_free(t.ctx, a);
    assert_int_equal(espalier_context_memory_peak(t.ctx), 1 << 20);
    test_base_close(&t);
}

static void high_water(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    void *a = esi_alloc(t.ctx, 100, 1, "a"), *b = esi_alloc(t.ctx, 1000, 1, "b");
    esi_free(t.ctx, b);
    assert_int_equal(esi_memory_reset_high_water(t.ctx), 1100);
    assert_int_equal(esi_memory_high_water(t.ctx), 100);
    b = esi_alloc(t.ctx, 10, 1, "b");
    assert_int_equal(esi_memory_high_water(t.ctx), 110);
    assert_int_equal(espalier_context_memory_peak(t.ctx), 1100);
    esi_free(t.ctx, b);
    esi_free(t.ctx, a);
    test_base_close(&t);
}

static void out_of_memory_message(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 1);
    test_fail_at(&t.memory, 1);
    assert_null(esi_alloc(t.ctx, 3, 512 << 10, "the mesh"));
    assert_string_equal(espalier_error_message(t.ctx), "out of memory: the mesh needs 1.5 MiB");
    assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    test_base_close(&t);
}

/* Whole huge pages are asked for behind the caller's back; alignment and contents must not change. */
static void large_blocks_of_the_default_allocator(void **state)
{
    (void)state;
    espalier_runtime runtime = {0};
    espalier_context *ctx;
    assert_int_equal(espalier_context_create(&ctx, &runtime), ESPALIER_OK);
    const size_t sizes[] = {1, 4096, (size_t)32 << 20, ((size_t)33 << 20) + 12345};
    for (size_t i = 0; i < ESI_COUNT(sizes); i++) {
        unsigned char *p = esi_calloc(ctx, sizes[i], 1, "block");
        assert_non_null(p);
        assert_true(is_aligned(p, ESI_ALIGN));
        assert_int_equal(p[0] | p[sizes[i] / 2] | p[sizes[i] - 1], 0);
        p[sizes[i] - 1] = 5;
        p = esi_realloc(ctx, p, sizes[i] + 1, 1, "block");
        assert_int_equal(p[sizes[i] - 1], 5);
        esi_free(ctx, p);
    }
    void *raw = esi_raw_alloc(NULL, 0);
    assert_non_null(raw);
    esi_raw_free(NULL, raw, 0);
    esi_raw_free(NULL, NULL, 100);
    espalier_context_free(ctx);
}

/* ------------------------------------------------------------ kept large blocks */

#define MIB ((size_t)1 << 20)

/* A context on the default allocator: only its large blocks are kept. */
typedef struct large_test {
    espalier_runtime runtime;
    espalier_context *ctx;
} large_test;

static void large_open(large_test *t, int threads)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(esi_pool_create(&t->runtime.pool, NULL, threads), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&t->ctx, &t->runtime), ESPALIER_OK);
}

static void large_close(large_test *t)
{
    assert_int_equal(espalier_context_memory_now(t->ctx), 0);
    espalier_context_free(t->ctx);
    esi_pool_free(t->runtime.pool);
}

static unsigned char *touched(espalier_context *ctx, size_t size, int value)
{
    unsigned char *p = esi_alloc(ctx, size, 1, "block");
    assert_non_null(p);
    memset(p, value, size);
    return p;
}

static void check_filled(const unsigned char *p, size_t size, int value)
{
    for (size_t i = 0; i < size; i += 1000) assert_int_equal(p[i], value);
    assert_int_equal(p[size - 1], value);
}

#if defined(__linux__) && !defined(ESI_ASAN) && !defined(__SANITIZE_THREAD__)
#  define CHECK_RESIDENT 1
#endif
#if defined(__has_feature)
#  if __has_feature(thread_sanitizer)
#    undef CHECK_RESIDENT
#  endif
#endif

#ifdef CHECK_RESIDENT
static size_t resident_bytes(void)
{
    unsigned long total, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &total, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}
#endif

static void large_blocks_are_used_again(void **state)
{
    (void)state;
#ifdef ESI_ASAN
    skip();                                     /* nothing is kept there */
#endif
    large_test t;
    large_open(&t, 1);
    unsigned char *a = touched(t.ctx, 40 * MIB, 1), *b = touched(t.ctx, 10 * MIB, 2);
    esi_free(t.ctx, a);
    esi_free(t.ctx, b);
    assert_true(atomic_load(&t.ctx->kept.bytes) >= 50 * MIB);
    unsigned char *c = touched(t.ctx, 9 * MIB, 3), *d = touched(t.ctx, 30 * MIB, 4);
    assert_ptr_equal(c, b);                     /* the shortest that fits */
    assert_ptr_equal(d, a);
    check_filled(c, 9 * MIB, 3);
    check_filled(d, 30 * MIB, 4);
    esi_free(t.ctx, c);
    esi_free(t.ctx, d);
    d = touched(t.ctx, 40 * MIB, 5);            /* grows back to its full length */
    assert_ptr_equal(d, a);
    check_filled(d, 40 * MIB, 5);
    unsigned char *zero = esi_calloc(t.ctx, 10 * MIB, 1, "zero");
    assert_ptr_equal(zero, b);
    check_filled(zero, 10 * MIB, 0);
    esi_free(t.ctx, d);
    esi_free(t.ctx, zero);
    esi_memory_reset_high_water(t.ctx);
    assert_int_equal(atomic_load(&t.ctx->kept.bytes), 0);
    esi_free(t.ctx, touched(t.ctx, 10 * MIB, 6));
    espalier_context_set_memory_budget(t.ctx, 100 * MIB);
    assert_int_equal(atomic_load(&t.ctx->kept.bytes), 0);
    large_close(&t);
}

/* What the account calls the high-water mark holds for the process: kept blocks never add to it, and stage ends drop them. */
static void kept_blocks_stay_below_the_mark(void **state)
{
    (void)state;
    static const size_t sizes[] = {60, 7, 33, 5, 100, 12, 64, 20};
    large_test t;
    unsigned char *held[ESI_COUNT(sizes)];
    large_open(&t, 1);
#ifdef CHECK_RESIDENT
    size_t start = resident_bytes();
#endif
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < ESI_COUNT(sizes); i++) {
            size_t size = sizes[(i + (size_t)round) % ESI_COUNT(sizes)] * MIB;
            held[i] = touched(t.ctx, size, (int)i);
            if (i >= 2) esi_free(t.ctx, held[i - 2]);
            uint64_t mark = esi_memory_high_water(t.ctx);
            assert_true(espalier_context_memory_now(t.ctx) + atomic_load(&t.ctx->kept.bytes) <= mark + ESI_COUNT(sizes) * 2 * MIB);
#ifdef CHECK_RESIDENT
            assert_true(resident_bytes() <= start + mark + ESI_COUNT(sizes) * 2 * MIB);
#endif
        }
        esi_free(t.ctx, held[ESI_COUNT(sizes) - 2]);
        esi_free(t.ctx, held[ESI_COUNT(sizes) - 1]);
    }
    esi_memory_reset_high_water(t.ctx);
#ifdef CHECK_RESIDENT
    assert_true(resident_bytes() <= start + 2 * MIB);
#endif
    large_close(&t);
}

static void many_blocks_overflow_the_slots(void **state)
{
    (void)state;
    large_test t;
    unsigned char *held[3 * ESI_KEPT_BLOCKS];
    large_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(held); i++) held[i] = touched(t.ctx, 5 * MIB, (int)i);
    for (size_t i = 0; i < ESI_COUNT(held); i++) esi_free(t.ctx, held[i]);
    assert_true(atomic_load(&t.ctx->kept.bytes) <= ESI_KEPT_BLOCKS * 6 * MIB);
    for (size_t i = 0; i < ESI_COUNT(held); i++) held[i] = touched(t.ctx, 5 * MIB, (int)i);
    for (size_t i = 0; i < ESI_COUNT(held); i++) check_filled(held[i], 5 * MIB, (int)i);
    for (size_t i = 0; i < ESI_COUNT(held); i++) esi_free(t.ctx, held[i]);
    large_close(&t);
}

/* What was kept for reuse goes with the context. */
static void kept_blocks_end_with_the_context(void **state)
{
    (void)state;
#ifdef CHECK_RESIDENT
    size_t before = 0;
    for (int i = 0; i < 5; i++) {
        large_test t;
        large_open(&t, 1);
        esi_free(t.ctx, touched(t.ctx, 64 * MIB, i));
        large_close(&t);
        if (i == 0) before = resident_bytes();
    }
    assert_true(resident_bytes() < before + 32 * MIB);
#endif
}

static void large_task(void *arg, size_t task, int slot)
{
    (void)slot;
    large_test *t = arg;
    size_t size = (4 + task % 5) * MIB + task * 100;
    unsigned char *p = esi_alloc(t->ctx, size, 1, "block");
    if (p == NULL) return;
    for (size_t i = 0; i < size; i += 50000) p[i] = (unsigned char)task;
    for (size_t i = 0; i < size; i += 50000)
        if (p[i] != (unsigned char)task) esi_fail(t->ctx, ESPALIER_ERR_INTERNAL, "a block is shared");
    esi_free(t->ctx, p);
}

static void large_blocks_across_threads(void **state)
{
    (void)state;
    large_test t;
    large_open(&t, 5);
    for (int i = 0; i < 10; i++) assert_int_equal(esi_parallel(t.ctx, 100, large_task, &t), ESPALIER_OK);
    esi_memory_reset_high_water(t.ctx);
    assert_int_equal(atomic_load(&t.ctx->kept.bytes), 0);
    large_close(&t);
}

/* ------------------------------------------------------------------- arena */

static void arena_objects(void **state)
{
    (void)state;
    test_base t;
    esi_arena arena = {0};
    unsigned char *objects[300];
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(objects); i++) {
        objects[i] = esi_arena_alloc(t.ctx, &arena, i, 3);
        assert_non_null(objects[i]);
        assert_true(is_aligned(objects[i], 16));
        for (size_t k = 0; k < i * 3; k++) assert_int_equal(objects[i][k], 0);
        memset(objects[i], (int)i, i * 3);
    }
    for (size_t i = 0; i < ESI_COUNT(objects); i++)
        for (size_t k = 0; k < i * 3; k++) assert_int_equal(objects[i][k], i & 255);
    assert_string_equal(esi_arena_strdup(t.ctx, &arena, "hello world", 5), "hello");
    assert_string_equal(esi_arena_strdup(t.ctx, &arena, "", 0), "");
    assert_null(esi_arena_alloc(t.ctx, &arena, SIZE_MAX / 2, 3));
    assert_null(esi_arena_alloc(t.ctx, &arena, SIZE_MAX - 3, 1));
    assert_null(esi_arena_alloc(t.ctx, &arena, SIZE_MAX - 100, 1));
    esi_arena_free(t.ctx, &arena);
    esi_arena_free(t.ctx, &arena);
    test_base_close(&t);
}

static void arena_marks(void **state)
{
    (void)state;
    test_base t;
    esi_arena arena = {0};
    test_base_open(&t, 1);
    esi_arena_mark start = esi_arena_get_mark(&arena);
    char *first = esi_arena_strdup(t.ctx, &arena, "first", 5);
    esi_arena_mark mark = esi_arena_get_mark(&arena);
    uint64_t held = espalier_context_memory_now(t.ctx);
    char *second = esi_arena_alloc(t.ctx, &arena, 100, 1);
    memset(second, 'x', 100);
    esi_arena_release(t.ctx, &arena, mark);
    char *again = esi_arena_alloc(t.ctx, &arena, 100, 1);
    assert_ptr_equal(again, second);                        /* the room is used again, and is zero again */
    for (int i = 0; i < 100; i++) assert_int_equal(again[i], 0);
    assert_non_null(esi_arena_alloc(t.ctx, &arena, 5 << 20, 1));
    for (int i = 0; i < 1000; i++) assert_non_null(esi_arena_alloc(t.ctx, &arena, 1000, 1));
    assert_true(espalier_context_memory_now(t.ctx) > (6 << 20) - 100000);
    esi_arena_release(t.ctx, &arena, mark);
    assert_int_equal(espalier_context_memory_now(t.ctx), held);
    assert_string_equal(first, "first");
    esi_arena_release(t.ctx, &arena, start);
    assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    test_base_close(&t);
}

/* ------------------------------------------------------- failing allocations */

static bool use_everything(espalier_context *ctx)
{
    esi_arena arena = {0};
    esi_text text = {0};
    char *copy = NULL, *grown = NULL, *bigger = NULL;
    bool ok = false;
    copy = esi_strdup(ctx, "abc");
    if (copy == NULL) goto done;
    grown = esi_format(ctx, "%s%d", copy, 5);
    if (grown == NULL) goto done;
    bigger = esi_realloc(ctx, grown, 5000, 1, "bigger");
    if (bigger == NULL) {
        assert_string_equal(grown, "abc5");
        goto done;
    }
    grown = bigger;
    for (int i = 0; i < 40; i++)
        if (esi_arena_alloc(ctx, &arena, 1000, 1) == NULL) goto done;
    for (int i = 0; i < 300; i++) esi_text_append(ctx, &text, "%d,", i);
    esi_text_append_json_string(ctx, &text, "a\"b");
    ok = !text.failed;
done:
    esi_text_free(ctx, &text);
    esi_arena_free(ctx, &arena);
    esi_free(ctx, grown);
    esi_free(ctx, copy);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_base t;
    int failures = 0;
    test_base_open(&t, 1);
    for (long n = 1;; n++) {
        size_t before = atomic_load(&t.memory.live_bytes);
        test_fail_at(&t.memory, n);
        bool ok = use_everything(t.ctx);
        assert_int_equal(atomic_load(&t.memory.live_bytes), before);
        assert_int_equal(espalier_context_memory_now(t.ctx), 0);
        if (ok) break;
        failures++;
        assert_int_equal(t.ctx->error_status, ESPALIER_ERR_RESOURCE);
        assert_memory_equal(espalier_error_message(t.ctx), "out of memory: ", 15);
        esi_clear_error(t.ctx);
    }
    assert_true(failures >= 8);
    test_fail_at(&t.memory, 0);
    test_base_close(&t);
}

/* Allocation in worker threads: the account adds up, the budget is never passed, one error text is left. */
static void allocate_task(void *arg, size_t task, int slot)
{
    (void)slot;
    test_base *t = arg;
    for (int i = 0; i < 50; i++) {
        void *p = esi_alloc(t->ctx, 1000 + task, 1, "task data");
        if (p == NULL) return;
        esi_free(t->ctx, p);
    }
}

static void refused_task(void *arg, size_t task, int slot)
{
    (void)slot;
    test_base *t = arg;
    (void)task;
    assert_null(esi_alloc(t->ctx, 5000, 1, "too much"));
}

static void account_across_threads(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 5);
    espalier_context_set_memory_budget(t.ctx, 5 * 1100);
    assert_int_equal(esi_parallel(t.ctx, 100, allocate_task, &t), ESPALIER_OK);
    assert_int_equal(espalier_context_memory_now(t.ctx), 0);
    assert_in_range(espalier_context_memory_peak(t.ctx), 1000, 5 * 1100);
    espalier_context_set_memory_budget(t.ctx, 4096);
    assert_int_equal(esi_parallel(t.ctx, 1000, refused_task, &t), ESPALIER_ERR_RESOURCE);
    assert_string_equal(espalier_error_message(t.ctx),
                        "memory budget of 4 KiB exceeded by too much (needs 4.9 KiB, 4 KiB left); raise --mem-budget");
    test_base_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks),
        cmocka_unit_test(impossible_sizes),
        cmocka_unit_test(budget),
        cmocka_unit_test(high_water),
        cmocka_unit_test(out_of_memory_message),
        cmocka_unit_test(large_blocks_of_the_default_allocator),
        cmocka_unit_test(large_blocks_are_used_again),
        cmocka_unit_test(kept_blocks_stay_below_the_mark),
        cmocka_unit_test(many_blocks_overflow_the_slots),
        cmocka_unit_test(kept_blocks_end_with_the_context),
        cmocka_unit_test(large_blocks_across_threads),
        cmocka_unit_test(arena_objects),
        cmocka_unit_test(arena_marks),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(account_across_threads),
    };
    return cmocka_run_group_tests_name("base_memory", tests, NULL, NULL);
}
