/* SPDX-License-Identifier: MIT
 *
 * test_base_threads.c: the thread pool: every task once, slots unique, several jobs, cancellation, failures.
 *
 * Linked with --wrap=pthread_create where the linker can, to fail the start of a thread.
 */
#include "support.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#define SLOTS_MAX 8

static const int thread_counts[] = {1, 2, 5};

#ifdef TEST_WRAP
static int create_budget = -1;                    /* threads that may still be started; -1 = any number */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg)
{
    if (create_budget == 0) return EAGAIN;
    if (create_budget > 0) create_budget--;
    return __real_pthread_create(thread, attributes, start, arg);
}
#endif

/* ------------------------------------------------------- every task, one slot */

typedef struct count_job {
    espalier_context *ctx;
    atomic_int *runs;                             /* [tasks] */
    atomic_int busy[SLOTS_MAX];
    long sums[SLOTS_MAX];                         /* not atomic: the slot alone protects it */
    atomic_int broken;
    int slots;
} count_job;

static void count_task(void *arg, size_t task, int slot)
{
    count_job *job = arg;
    if (slot < 0 || slot >= job->slots || atomic_exchange(&job->busy[slot], 1) != 0) {
        atomic_fetch_add(&job->broken, 1);
        return;
    }
    atomic_fetch_add(&job->runs[task], 1);
    job->sums[slot] += (long)task + 1;
    if (task % 64 == 0) sched_yield();
    atomic_store(&job->busy[slot], 0);
}

static void run_count(espalier_context *ctx, size_t n)
{
    count_job job = {.ctx = ctx, .slots = esi_slots(ctx)};
    long sum = 0;
    job.runs = calloc(n + 1, sizeof *job.runs);
    assert_int_equal(esi_parallel(ctx, n, count_task, &job), ESPALIER_OK);
    for (int s = 0; s < job.slots; s++) sum += job.sums[s];
    assert_int_equal(atomic_load(&job.broken), 0);
    assert_int_equal(sum, (long)(n * (n + 1) / 2));
    for (size_t i = 0; i < n; i++) assert_int_equal(atomic_load(&job.runs[i]), 1);
    free(job.runs);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2, 3, 5, 64, 10000};
    for (size_t c = 0; c < ESI_COUNT(thread_counts); c++) {
        test_base t;
        test_base_open(&t, thread_counts[c]);
        assert_int_equal(esi_slots(t.ctx), thread_counts[c]);
        assert_int_equal(esi_pool_threads(t.runtime.pool), thread_counts[c]);
        for (size_t i = 0; i < ESI_COUNT(sizes); i++)
            for (int repeat = 0; repeat < 20; repeat++) run_count(t.ctx, sizes[i]);
        test_base_close(&t);
    }
}

static void no_pool_runs_inline(void **state)
{
    (void)state;
    espalier_runtime runtime = {0};
    espalier_context *ctx;
    assert_int_equal(espalier_context_create(&ctx, &runtime), ESPALIER_OK);
    assert_int_equal(esi_slots(ctx), 1);
    run_count(ctx, 100);
    espalier_context_free(ctx);
}

/* ------------------------------------------------------------ who runs tasks */

typedef struct meeting {
    atomic_int arrived;
    int expected;
    atomic_int missed;
} meeting;

/* Waits until all threads of the pool are inside a task at the same time. */
static void meet_task(void *arg, size_t task, int slot)
{
    (void)task;
    (void)slot;
    meeting *m = arg;
    double start = esi_now();
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->expected) {
        if (esi_now() - start > 20.0) {
            atomic_fetch_add(&m->missed, 1);
            return;
        }
        usleep(200);
    }
}

static void all_threads_take_part(void **state)
{
    (void)state;
    for (size_t c = 0; c < ESI_COUNT(thread_counts); c++) {
        test_base t;
        test_base_open(&t, thread_counts[c]);
        for (int n = 1; n <= thread_counts[c]; n++)
            for (int repeat = 0; repeat < 5; repeat++) {
                meeting m = {.expected = n};            /* also when only some workers are woken */
                assert_int_equal(esi_parallel(t.ctx, (size_t)n, meet_task, &m), ESPALIER_OK);
                assert_int_equal(atomic_load(&m.missed), 0);
            }
        test_base_close(&t);
    }
}

static void note_thread(void *arg, size_t task, int slot)
{
    (void)slot;
    ((pthread_t *)arg)[task] = pthread_self();
}

static void single_tasks_stay_on_the_caller(void **state)
{
    (void)state;
    test_base t;
    pthread_t who[50];
    test_base_open(&t, 3);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(esi_parallel(t.ctx, 1, note_thread, who), ESPALIER_OK);
        assert_true(pthread_equal(who[0], pthread_self()));
    }
    test_base_close(&t);
    test_base_open(&t, 1);
    assert_int_equal(esi_parallel(t.ctx, 50, note_thread, who), ESPALIER_OK);
    for (int i = 0; i < 50; i++) assert_true(pthread_equal(who[i], pthread_self()));
    test_base_close(&t);
}

static void idle_workers_sleep(void **state)
{
    (void)state;
    test_base t;
    test_base_open(&t, 5);
    run_count(t.ctx, 1000);
    double before = esi_cpu_seconds();
    usleep(300000);
    assert_true(esi_cpu_seconds() - before < 0.1);            /* one spinning worker would use 0.3 */
    test_base_close(&t);
}

static void note_signals(void *arg, size_t task, int slot)
{
    (void)slot;
    meeting *m = arg;
    meet_task(m, task, slot);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (slot != 0 && sigismember(&blocked, SIGINT) != 1) atomic_fetch_add(&m->missed, 1);
    if (slot == 0 && sigismember(&blocked, SIGINT) != 0) atomic_fetch_add(&m->missed, 1);
}

static void workers_leave_signals_to_the_program(void **state)
{
    (void)state;
    test_base t;
    meeting m = {.expected = 3};
    test_base_open(&t, 3);
    assert_int_equal(esi_parallel(t.ctx, 3, note_signals, &m), ESPALIER_OK);
    assert_int_equal(atomic_load(&m.missed), 0);
    test_base_close(&t);
}

/* ----------------------------------------------------------- two jobs at once */

typedef struct side {
    espalier_runtime *runtime;
    bool cancel;
    atomic_int *gate;
    espalier_status status;
    int rounds;
} side;

static void cancelling_task(void *arg, size_t task, int slot)
{
    (void)slot;
    if (task == 20) espalier_context_cancel(arg);
}

static void *run_side(void *arg)
{
    side *s = arg;
    espalier_context *ctx;
    if (espalier_context_create(&ctx, s->runtime) != ESPALIER_OK) return NULL;
    atomic_fetch_add(s->gate, 1);
    while (atomic_load(s->gate) < 2) sched_yield();
    for (; s->rounds < 100; s->rounds++) {
        if (s->cancel) {
            s->status = esi_parallel(ctx, 500, cancelling_task, ctx);
            if (s->status != ESPALIER_ERR_CANCELLED) break;
            espalier_context_reset_cancel(ctx);
            esi_clear_error(ctx);
        } else {
            run_count(ctx, 500);
            s->status = esi_check_cancel(ctx);
            if (s->status != ESPALIER_OK) break;
        }
    }
    espalier_context_free(ctx);
    return NULL;
}

static void run_two_sides(int threads, bool cancel_one)
{
    test_base t;
    atomic_int gate = 0;
    pthread_t ids[2];
    test_base_open(&t, threads);
    side sides[2] = {{.runtime = &t.runtime, .gate = &gate}, {.runtime = &t.runtime, .gate = &gate, .cancel = cancel_one}};
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&ids[i], NULL, run_side, &sides[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
    assert_int_equal(sides[0].status, ESPALIER_OK);
    assert_int_equal(sides[1].status, cancel_one ? ESPALIER_ERR_CANCELLED : ESPALIER_OK);
    assert_int_equal(sides[0].rounds + sides[1].rounds, 200);
    test_base_close(&t);
}

static void two_contexts_at_once(void **state)
{
    (void)state;
    for (size_t c = 0; c < ESI_COUNT(thread_counts); c++) {
        run_two_sides(thread_counts[c], false);
        run_two_sides(thread_counts[c], true);
    }
}

/* ------------------------------------------------------------------ stopping */

typedef struct stop_job {
    espalier_context *ctx;
    atomic_int runs;
    bool fail;
} stop_job;

static void stop_task(void *arg, size_t task, int slot)
{
    (void)slot;
    stop_job *job = arg;
    atomic_fetch_add(&job->runs, 1);
    if (task == 10 && job->fail) esi_fail(job->ctx, ESPALIER_ERR_MODEL, "task %zu gave up", task);
    if (task == 10 && !job->fail) espalier_context_cancel(job->ctx);
    usleep(50);
}

static void cancellation_stops_midway(void **state)
{
    (void)state;
    for (size_t c = 0; c < ESI_COUNT(thread_counts); c++) {
        test_base t;
        test_base_open(&t, thread_counts[c]);
        stop_job job = {.ctx = t.ctx};
        assert_int_equal(esi_parallel(t.ctx, 100000, stop_task, &job), 130);
        assert_string_equal(espalier_error_message(t.ctx), "cancelled");
        assert_in_range(atomic_load(&job.runs), 11, 99999);
        esi_clear_error(t.ctx);
        int runs = atomic_load(&job.runs);
        assert_int_equal(esi_parallel(t.ctx, 100, stop_task, &job), ESPALIER_ERR_CANCELLED);     /* still asked to stop: nothing runs */
        assert_int_equal(atomic_load(&job.runs), runs);
        esi_clear_error(t.ctx);
        assert_int_equal(esi_parallel(t.ctx, 0, stop_task, &job), ESPALIER_ERR_CANCELLED);
        espalier_context_reset_cancel(t.ctx);
        esi_clear_error(t.ctx);
        run_count(t.ctx, 1000);                                                                  /* the pool is whole */
        test_base_close(&t);
    }
}

static void failing_task_stops_the_rest(void **state)
{
    (void)state;
    for (size_t c = 0; c < ESI_COUNT(thread_counts); c++) {
        test_base t;
        test_base_open(&t, thread_counts[c]);
        stop_job job = {.ctx = t.ctx, .fail = true};
        assert_int_equal(esi_parallel(t.ctx, 100000, stop_task, &job), ESPALIER_ERR_MODEL);
        assert_string_equal(espalier_error_message(t.ctx), "task 10 gave up");
        assert_in_range(atomic_load(&job.runs), 11, 99999);
        run_count(t.ctx, 1000);                    /* clean-up work after a failure still runs */
        assert_string_equal(espalier_error_message(t.ctx), "task 10 gave up");
        test_base_close(&t);
    }
}

/* ------------------------------------------------------------------ creation */

static void creation(void **state)
{
    (void)state;
    esi_pool *pool = (esi_pool *)state;
    assert_int_equal(esi_pool_create(&pool, NULL, -1), ESPALIER_ERR_ARG);
    assert_null(pool);
    assert_int_equal(esi_pool_create(&pool, NULL, 1025), ESPALIER_ERR_ARG);
    assert_int_equal(esi_pool_create(&pool, NULL, 0), ESPALIER_OK);
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) assert_int_equal(esi_pool_threads(pool), CPU_COUNT(&set));
#endif
    assert_true(esi_pool_threads(pool) >= 1);
    esi_pool_free(pool);
    esi_pool_free(NULL);
    assert_int_equal(esi_pool_threads(NULL), 1);

    test_allocator memory = {.fail_at = 1};
    espalier_allocator allocator = {&memory, test_allocate, test_release};
    assert_int_equal(esi_pool_create(&pool, &allocator, 2), ESPALIER_ERR_RESOURCE);
    assert_null(pool);
}

static void threads_that_do_not_start(void **state)
{
    (void)state;
#ifdef TEST_WRAP
    for (int n = 0; n < 4; n++) {
        test_allocator memory = {.fail_at = 0};
        espalier_allocator allocator = {&memory, test_allocate, test_release};
        esi_pool *pool = (esi_pool *)state;
        sigset_t before, after;
        pthread_sigmask(SIG_SETMASK, NULL, &before);
        create_budget = n;
        espalier_status st = esi_pool_create(&pool, &allocator, 5);
        create_budget = -1;
        pthread_sigmask(SIG_SETMASK, NULL, &after);
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_null(pool);
        assert_int_equal(atomic_load(&memory.live_blocks), 0);
        assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(no_pool_runs_inline),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(single_tasks_stay_on_the_caller),
        cmocka_unit_test(idle_workers_sleep),
        cmocka_unit_test(workers_leave_signals_to_the_program),
        cmocka_unit_test(two_contexts_at_once),
        cmocka_unit_test(cancellation_stops_midway),
        cmocka_unit_test(failing_task_stops_the_rest),
        cmocka_unit_test(creation),
        cmocka_unit_test(threads_that_do_not_start),
    };
    return cmocka_run_group_tests_name("base_threads", tests, NULL, NULL);
}
