/* SPDX-License-Identifier: MIT
 *
 * context.h: the insides of espalier_runtime and espalier_context. Only src/base, src/tensor and src/pipeline include this.
 */
#ifndef ESI_CONTEXT_H
#define ESI_CONTEXT_H

#include "base/base.h"

typedef struct esi_pool esi_pool;              /* base/threads.c */
struct esi_backend;                            /* tensor/backend.h */
struct esi_buffer;

struct espalier_runtime {
    espalier_allocator allocator;
    espalier_log_fn log;
    void *log_user;
    esi_pool *pool;
    espalier_cpu_level cpu_level;
    struct esi_backend *cpu;                   /* created by tensor/runtime.c */
    struct esi_backend *gpu;                   /* the same; NULL: networks run on the CPU */
    char device[512];                          /* "cpu", or what the device is */
};

/* Called with the name of an intermediate and its tensor while networks run; golden runner and debuggers. NULL = off. */
struct esi_tensor;
typedef void (*esi_tap_fn)(void *user, espalier_context *ctx, const char *name, const struct esi_tensor *t);

/* Large blocks that were released and wait for reuse; base/large.c. */
#define ESI_KEPT_BLOCKS 16
typedef struct esi_kept_blocks {
    _Atomic(struct esi_block *) slots[ESI_KEPT_BLOCKS];
    _Atomic uint64_t bytes;                    /* resident bytes of all of them */
    atomic_uint turn;                          /* the slot to empty when all are taken */
} esi_kept_blocks;

struct espalier_context {
    espalier_runtime *runtime;
    struct esi_backend *backend;               /* where tensors of this job live */

    atomic_int error_state;                    /* who may write the error: error.c */
    espalier_status error_status;              /* ESPALIER_OK = no pending error */
    char error_text[1024];
    int64_t error_offset;

    atomic_int cancel;
    espalier_progress_fn progress;
    void *progress_user;
    const char *stage;                         /* that esi_progress() named last in this call; NULL = none; a literal */
    espalier_limits limits;

    atomic_int references;                     /* the job's own, and one per result that still lives */

    uint64_t budget;                           /* 0 = none */
    _Atomic uint64_t mem_now, mem_peak, mem_high_water;
    esi_kept_blocks kept;

    struct esi_buffer *buffers;                /* tensor.c: live tensors, newest first */
    uint32_t scope_depth;                      /* tensor.c: number of open scopes */
    esi_tap_fn tap;
    void *tap_user;
    const struct esi_stage_table *stages;      /* pipeline/stages.h: tests replace networks here; NULL = the real ones */
};

/* `threads` counts the calling one; 0 = all cores allowed to the process. ESPALIER_ERR_ARG, ESPALIER_ERR_RESOURCE: *out is NULL. */
espalier_status esi_pool_create(esi_pool **out, const espalier_allocator *allocator, int threads);
void esi_pool_free(esi_pool *pool);
int esi_pool_threads(const esi_pool *pool);

#endif
