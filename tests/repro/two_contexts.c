/* SPDX-License-Identifier: MIT
 *
 * two_contexts: two jobs on two threads of one process, sharing a runtime and a model, give what each gives alone. The jobs come first, so
 * that whatever the model does on first use happens in both at once. To look for races as well (tests/sanitize.sh thread does this):
 *
 *     cmake -B build-tsan -DCMAKE_C_COMPILER=clang -DESPALIER_SANITIZE=thread && cmake --build build-tsan
 *     cd build-tsan && ctest -R two_contexts --output-on-failure
 *
 * two_contexts MODEL_DIR [DEVICE]: on a device, one round of one pipeline; exit status 77 when there is no such device.
 */
#include "hashing.h"

#include <pthread.h>
#include <stdio.h>

#define ROUNDS 2

static const espalier_pipeline_type pipelines[] = {ESPALIER_PIPELINE_512, ESPALIER_PIPELINE_1024, ESPALIER_PIPELINE_1024_CASCADE};
#define PIPELINES (int)ESI_COUNT(pipelines)

typedef struct job {
    espalier_runtime *runtime;
    const espalier_model *model;
    int n_pipelines;
    int offset; /* where in the list of pipelines this job begins */
    uint64_t budget;
    repro_hashes hashes[PIPELINES]; /* by pipeline */
    espalier_status status;
    char error[512];
} job;

static espalier_status run_job(espalier_context *ctx, job *j)
{
    espalier_image picture = {0};
    espalier_status st = repro_picture(ctx, &picture);

    espalier_context_set_memory_budget(ctx, j->budget);
    for (int i = 0; st == ESPALIER_OK && i < j->n_pipelines; i++) {
        int at = (i + j->offset) % j->n_pipelines;
        st = repro_run(ctx, &j->hashes[at], j->model, &picture, pipelines[at], 0);
    }
    espalier_image_free(&picture);
    return st;
}

static void *job_main(void *arg)
{
    job *j = arg;
    espalier_context *ctx = NULL;
    j->status = espalier_context_create(&ctx, j->runtime);
    if (j->status == ESPALIER_OK) j->status = run_job(ctx, j);
    if (j->status != ESPALIER_OK)
        snprintf(j->error, sizeof j->error, "%s", ctx ? espalier_error_message(ctx) : espalier_status_name(j->status));
    espalier_context_free(ctx);
    return NULL;
}

/* 0 if every job ended well and agrees with the first. */
static int compare(const job *jobs, int n_jobs, const char *what)
{
    int different = 0;
    for (int k = 0; k < n_jobs; k++) {
        if (jobs[k].status != ESPALIER_OK) {
            fprintf(stderr, "two_contexts: %s: job %d: %s\n", what, k, jobs[k].error);
            return 1;
        }
        for (int i = 0; i < jobs[0].n_pipelines; i++) {
            if (repro_equal(&jobs[k].hashes[i], &jobs[0].hashes[i])) continue;
            fprintf(stderr, "two_contexts: %s: job %d of pipeline %s differs\n", what, k, espalier_pipeline_name(pipelines[i]));
            different = 1;
        }
    }
    return different;
}

int main(int argc, char **argv)
{
    enum { JOBS = 2 };
    espalier_runtime_options options = espalier_runtime_options_default();
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    espalier_model *model = NULL;
    pthread_t threads[JOBS];
    job jobs[JOBS * ROUNDS + 1]; /* the last one is alone */
    int started = 0, result = 1, rounds = argc == 3 ? 1 : ROUNDS, n_pipelines = argc == 3 ? 1 : PIPELINES;

    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: two_contexts MODEL_DIR [DEVICE]\n");
        return 2;
    }
    options.threads = 2;
    if (argc == 3) options.device = argv[2];
    memset(jobs, 0, sizeof jobs);
    espalier_status st = espalier_runtime_create(&runtime, &options);
    if (st == ESPALIER_ERR_DEVICE) return 77;
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st == ESPALIER_OK) st = espalier_model_open(ctx, &model, argv[1], NULL);
    if (st != ESPALIER_OK) {
        fprintf(stderr, "two_contexts: %s\n", ctx ? espalier_error_message(ctx) : espalier_status_name(st));
        goto done;
    }
    for (int k = 0; k <= JOBS * rounds; k++)
        jobs[k] = (job){.runtime = runtime, .model = model, .n_pipelines = n_pipelines, .offset = k % n_pipelines,
                        .budget = k % 2 ? UINT64_C(1) << 30 : 0};
    for (int round = 0; round < rounds; round++) {
        job *first = &jobs[JOBS * round];
        for (started = 0; started < JOBS; started++)
            if (pthread_create(&threads[started], NULL, job_main, &first[started]) != 0) break;
        for (int k = 0; k < started; k++) pthread_join(threads[k], NULL);
        if (started < JOBS) {
            fprintf(stderr, "two_contexts: no threads\n");
            goto done;
        }
    }
    job_main(&jobs[JOBS * rounds]);
    result = compare(jobs, JOBS * rounds + 1, "side by side and alone");
    if (result == 0) printf("two_contexts: %d jobs side by side and one alone agree on %d pipelines\n", JOBS * rounds, n_pipelines);
done:
    espalier_model_free(model);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return result;
}
