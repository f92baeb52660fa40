/* SPDX-License-Identifier: MIT
 *
 * threads.c: the thread pool of a runtime and esi_parallel().
 *
 * Every call of esi_parallel() is a job on the caller's stack, put on the pool's list. The caller works on its own job only; idle workers
 * take the job with the fewest helpers and stay with it until its tasks are used up. Tasks are handed out by one atomic counter.
 * A worker's slot is its number in the pool and the caller's is 0: no two threads of a job share one. Idle workers sleep on a condition
 * variable and use no processor time.
 */
#include "base/context.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#if defined(__linux__)
#include <sched.h>
#endif

#define THREADS_MAX 1024

typedef struct job {
    espalier_context *ctx;
    esi_task_fn fn;
    void *arg;
    size_t n_tasks;
    bool failed_before;              /* an older error was pending when the job began: it is no reason to stop */
    atomic_size_t next;              /* first task nobody has taken; may run past n_tasks by one for each thread */
    int helpers;                     /* workers inside; under the pool's lock */
    struct job *newer;               /* list; under the pool's lock */
} job;

typedef struct worker {
    esi_pool *pool;
    pthread_t thread;
    int slot;
} worker;

struct esi_pool {
    espalier_allocator allocator;
    pthread_mutex_t lock;
    pthread_cond_t work;             /* a job was added, or stop */
    pthread_cond_t left;             /* the last helper left a job */
    job *jobs;                       /* oldest first */
    bool stop;
    int threads;                     /* workers + 1 */
    int started;                     /* workers that run */
    worker workers[];
};

/* ------------------------------------------------------------------- tasks */

static bool should_stop(const job *j)
{
    return esi_cancel_requested(j->ctx) || (!j->failed_before && esi_error_pending(j->ctx));
}

static bool tasks_left(const job *j)
{
    return atomic_load_explicit(&j->next, memory_order_relaxed) < j->n_tasks;
}

static void run_tasks(job *j, int slot)
{
    while (!should_stop(j)) {
        size_t task = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (task >= j->n_tasks) return;
        j->fn(j->arg, task, slot);
    }
    atomic_store_explicit(&j->next, j->n_tasks, memory_order_relaxed);       /* nothing more to take for anybody */
}

/* ----------------------------------------------------------------- workers */

static job *choose_job(const esi_pool *pool)
{
    job *best = NULL;
    for (job *j = pool->jobs; j != NULL; j = j->newer)
        if (tasks_left(j) && (best == NULL || j->helpers < best->helpers)) best = j;
    return best;
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    esi_pool *pool = self->pool;
    esi_fp_state ignored;
    esi_fp_set_default(&ignored);
    pthread_mutex_lock(&pool->lock);
    while (!pool->stop) {
        job *j = choose_job(pool);
        if (j == NULL) {
            pthread_cond_wait(&pool->work, &pool->lock);
            continue;
        }
        j->helpers++;
        pthread_mutex_unlock(&pool->lock);
        run_tasks(j, self->slot);
        pthread_mutex_lock(&pool->lock);
        if (--j->helpers == 0) pthread_cond_broadcast(&pool->left);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* ------------------------------------------------------------ create, free */

static int allowed_cores(void)
{
    long n = 0;
#if defined(__linux__)
    /* The kernel refuses a set smaller than its own, so try larger ones on machines with very many processors. */
    for (int bits = CPU_SETSIZE; n == 0 && bits <= CPU_SETSIZE * 64; bits *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (set == NULL) break;
        size_t size = CPU_ALLOC_SIZE((size_t)bits);
        CPU_ZERO_S(size, set);
        if (sched_getaffinity(0, size, set) == 0) n = CPU_COUNT_S(size, set);
        CPU_FREE(set);
    }
#endif
    if (n < 1) n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)ESI_MIN(n, THREADS_MAX);
}

static size_t pool_bytes(int threads)
{
    return sizeof(esi_pool) + (size_t)(threads - 1) * sizeof(worker);
}

/* Signals are the program's: a worker must not be the one that runs its handlers. */
static bool start_workers(esi_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->started < pool->threads - 1) {
        worker *w = &pool->workers[pool->started];
        w->pool = pool;
        w->slot = pool->started + 1;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0) break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->started == pool->threads - 1;
}

espalier_status esi_pool_create(esi_pool **out, const espalier_allocator *allocator, int threads)
{
    *out = NULL;
    if (threads < 0 || threads > THREADS_MAX) return ESPALIER_ERR_ARG;
    if (threads == 0) threads = allowed_cores();
    esi_pool *pool = esi_raw_alloc(allocator, pool_bytes(threads));
    if (pool == NULL) return ESPALIER_ERR_RESOURCE;
    memset(pool, 0, pool_bytes(threads));
    if (allocator != NULL) pool->allocator = *allocator;
    pool->threads = threads;

    if (pthread_mutex_init(&pool->lock, NULL) != 0) goto no_lock;
    if (pthread_cond_init(&pool->work, NULL) != 0) goto no_work;
    if (pthread_cond_init(&pool->left, NULL) != 0) goto no_left;
    if (!start_workers(pool)) {
        esi_pool_free(pool);
        return ESPALIER_ERR_RESOURCE;
    }
    *out = pool;
    return ESPALIER_OK;

no_left:
    pthread_cond_destroy(&pool->work);
no_work:
    pthread_mutex_destroy(&pool->lock);
no_lock:
    esi_raw_free(allocator, pool, pool_bytes(threads));
    return ESPALIER_ERR_RESOURCE;
}

void esi_pool_free(esi_pool *pool)
{
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->left);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    espalier_allocator allocator = pool->allocator;
    esi_raw_free(&allocator, pool, pool_bytes(pool->threads));
}

int esi_pool_threads(const esi_pool *pool)
{
    return pool == NULL ? 1 : pool->threads;
}

int esi_slots(const espalier_context *ctx)
{
    return esi_pool_threads(ctx->runtime->pool);
}

/* ---------------------------------------------------------------- parallel */

static void add_job(esi_pool *pool, job *j)
{
    size_t wanted = j->n_tasks - 1;
    pthread_mutex_lock(&pool->lock);
    job **end = &pool->jobs;
    while (*end != NULL) end = &(*end)->newer;
    *end = j;
    pthread_mutex_unlock(&pool->lock);
    if (wanted >= (size_t)pool->started)
        pthread_cond_broadcast(&pool->work);
    else
        for (size_t i = 0; i < wanted; i++) pthread_cond_signal(&pool->work);
}

static void finish_job(esi_pool *pool, job *j)
{
    pthread_mutex_lock(&pool->lock);
    job **link = &pool->jobs;
    while (*link != j) link = &(*link)->newer;
    *link = j->newer;
    while (j->helpers != 0) pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

espalier_status esi_parallel(espalier_context *ctx, size_t n_tasks, esi_task_fn fn, void *arg)
{
    esi_pool *pool = ctx->runtime->pool;
    if (n_tasks == 0) return esi_check_cancel(ctx);

    job j = {.ctx = ctx, .fn = fn, .arg = arg, .n_tasks = n_tasks, .failed_before = esi_error_pending(ctx)};
    esi_fp_state saved;
    bool shared = n_tasks > 1 && pool != NULL && pool->started > 0;
    esi_fp_set_default(&saved);
    if (shared) add_job(pool, &j);
    run_tasks(&j, 0);
    if (shared) finish_job(pool, &j);
    esi_fp_restore(&saved);

    if (!j.failed_before && esi_error_pending(ctx)) return ctx->error_status;
    return esi_check_cancel(ctx);
}
