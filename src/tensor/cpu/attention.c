/* SPDX-License-Identifier: MIT
 *
 * attention.c: cuts attention into (window, head, block of queries) tasks; a kernel walks over all keys of its window. With a bias a task
 * is some windows of one head, so that what the kernel makes of the bias is made once for them.
 */
#include "tensor/cpu/driver.h"

enum { BIAS_RUN = 8 };

typedef struct attention_tasks {
    const esi_kernels *kernels;
    const esi_attention_job *job;
    float *scratch;
    size_t scratch_floats, q_block, q_blocks, run; /* run: windows per task */
} attention_tasks;

static void attention_task(void *arg, size_t task, int slot)
{
    const attention_tasks *t = arg;
    size_t q0 = task % t->q_blocks * t->q_block;
    size_t head = task / t->q_blocks % t->job->heads, first = task / t->q_blocks / t->job->heads * t->run;
    float *scratch = t->scratch + (size_t)slot * t->scratch_floats;

    for (size_t window = first; window < ESI_MIN(first + t->run, t->job->windows); window++)
        t->kernels->attention(t->job, window, head, q0, ESI_MIN(q0 + t->q_block, t->job->nq), window > first, scratch);
}

/* A multiple of a cache line per slot keeps every slot's scratch aligned. */
static size_t scratch_floats(const attention_tasks *t, size_t queries)
{
    return (t->kernels->attention_scratch(t->job, ESI_MIN(queries, t->job->nq)) + 15) / 16 * 16;
}

/* Blocks of about the same size, of whole tiles, and small enough for what memory is left. */
static void choose_blocks(attention_tasks *t, uint64_t floats_per_slot)
{
    size_t multiple = t->kernels->q_multiple, most = t->kernels->q_block;

    while (most > multiple && scratch_floats(t, most) > floats_per_slot) most -= multiple;
    t->q_blocks = (t->job->nq + most - 1) / most;
    t->q_block = (t->job->nq + t->q_blocks - 1) / t->q_blocks;
    t->q_block = (t->q_block + multiple - 1) / multiple * multiple;
    t->scratch_floats = scratch_floats(t, t->q_block);
}

espalier_status esi_cpu_attention(espalier_context *ctx, esi_tensor y, esi_tensor q, esi_tensor k, esi_tensor v,
                                  const esi_attention_args *a)
{
    esi_attention_job job = {.y = esi_cpu_f32(y), .q = esi_cpu_f32(q), .k = esi_cpu_f32(k), .v = esi_cpu_f32(v),
                             .y_stride = (size_t)y.stride, .q_stride = (size_t)q.stride, .k_stride = (size_t)k.stride,
                             .v_stride = (size_t)v.stride, .windows = (size_t)a->windows, .heads = (size_t)a->heads, .scale = a->scale,
                             .bias = esi_cpu_f32(a->bias), .bias_stride = (size_t)a->bias.stride, .region = esi_cpu_i32(a->region),
                             .region_stride = (size_t)a->region.stride};
    attention_tasks t = {.kernels = esi_cpu_table(ctx), .job = &job};
    espalier_status st;

    job.nq = (size_t)q.rows / job.windows;
    job.nk = (size_t)k.rows / job.windows;
    job.dim = (size_t)q.cols / job.heads;
    choose_blocks(&t, esi_memory_left(ctx) / 2 / sizeof(float) / (uint64_t)esi_slots(ctx));
    t.scratch = esi_alloc(ctx, (size_t)esi_slots(ctx), t.scratch_floats * sizeof(float), "attention tiles");
    if (!t.scratch) return ctx->error_status;
    t.run = job.bias ? ESI_MIN((size_t)BIAS_RUN, job.windows) : 1;
    st = esi_parallel(ctx, t.q_blocks * job.heads * ((job.windows + t.run - 1) / t.run), attention_task, &t);
    esi_free(ctx, t.scratch);
    return st;
}
