/* SPDX-License-Identifier: MIT
 *
 * espalier/context.h: the two objects every call needs.
 *
 *   espalier_runtime   thread pool and CPU kernels; shared by any number of contexts on any threads.
 *   espalier_context   error text, cancel flag, memory account and limits of ONE job; one thread at a time.
 *
 *     espalier_runtime *rt; espalier_context *ctx;
 *     espalier_runtime_options ro = espalier_runtime_options_default();
 *     if (espalier_runtime_create(&rt, &ro) != ESPALIER_OK) ...
 *     if (espalier_context_create(&ctx, rt) != ESPALIER_OK) ...
 *     ... calls with ctx ...
 *     espalier_context_free(ctx); espalier_runtime_free(rt);
 */
#ifndef ESPALIER_CONTEXT_H
#define ESPALIER_CONTEXT_H

#include <espalier/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct espalier_runtime espalier_runtime;
typedef struct espalier_context espalier_context;

/* Which CPU kernels may be used at most. All levels give the same bits. */
typedef enum espalier_cpu_level {
    ESPALIER_CPU_BEST    = 0,   /* the best that both processor and operating system support */
    ESPALIER_CPU_GENERIC = 1,   /* plain C: the definition of the arithmetic */
    ESPALIER_CPU_GENERIC_FMA = 2, /* the same source compiled with hardware fma (x86-64) */
    ESPALIER_CPU_AVX2    = 3,
    ESPALIER_CPU_AVX512  = 4,
    ESPALIER_CPU_NEON    = 5
} espalier_cpu_level;

typedef struct espalier_runtime_options {
    uint32_t            struct_size;     /* sizeof(espalier_runtime_options); set by ..._default() */
    int32_t             threads;         /* compute threads incl. the calling one; 0 = all cores allowed to the process */
    espalier_cpu_level  cpu_level;       /* highest level wanted; an unsupported one is ESPALIER_ERR_DEVICE */
    espalier_allocator  allocator;       /* all zero = the C library's */
    espalier_log_fn     log;             /* NULL = silence */
    void               *log_user;
    const char         *device;          /* where networks run: NULL or "cpu"; "auto": a discrete or integrated GPU, else the CPU;
                                            "vulkan": the best Vulkan device; "vulkan:N"; or a part of a device's name */
} espalier_runtime_options;

/* All cores, the best level, the C library's memory, silence. */
ESPALIER_API espalier_runtime_options espalier_runtime_options_default(void);

/* options may be NULL (the defaults). On success *out must be released with espalier_runtime_free() after all its contexts and models.
 * Otherwise *out is NULL: ESPALIER_ERR_ARG (threads < 0 or > 1024, unknown level), ESPALIER_ERR_DEVICE (level not supported here),
 * ESPALIER_ERR_RESOURCE (no memory or threads). ESPALIER_ERR_DEVICE also when the device is not there or computes wrongly: the reason goes
 * to the log as ESPALIER_LOG_ERROR. "auto" logs what it took, or why it took the CPU. */
ESPALIER_API espalier_status espalier_runtime_create(espalier_runtime **out, const espalier_runtime_options *options);
ESPALIER_API void espalier_runtime_free(espalier_runtime *runtime);      /* NULL is fine */

/* Compute threads in use, the calling one included; and the level in use, never BEST. */
ESPALIER_API int espalier_runtime_threads(const espalier_runtime *runtime);
/* Where networks run: "cpu", or such as "vulkan:0 NAME (driver; fma fused)". Valid as long as the runtime. */
ESPALIER_API const char *espalier_runtime_device(const espalier_runtime *runtime);
ESPALIER_API espalier_cpu_level espalier_runtime_cpu_level(const espalier_runtime *runtime);
ESPALIER_API const char *espalier_cpu_level_name(espalier_cpu_level level);       /* "generic", "avx2", ...; "?" if unknown */
ESPALIER_API espalier_status espalier_cpu_level_parse(espalier_cpu_level *out, const char *name); /* ERR_ARG if unknown */
ESPALIER_API int espalier_cpu_level_supported(espalier_cpu_level level);           /* 1 or 0 on this machine and build */

/* A context for one job. The runtime must outlive it and all results made with it. ESPALIER_ERR_ARG, ESPALIER_ERR_RESOURCE. */
ESPALIER_API espalier_status espalier_context_create(espalier_context **out, espalier_runtime *runtime);
/* Drops the caller's reference. Results hold one each (they stay on the job's account), so they may be released before or after. */
ESPALIER_API void espalier_context_free(espalier_context *ctx);

/* Text of the last failed call with this context, one line without newline: "<file>: <what is wrong>[; <what to do>]".
 * Empty string after success. Valid until the next call with this context. */
ESPALIER_API const char *espalier_error_message(const espalier_context *ctx);
/* Byte position in the file the last error is about, or -1. */
ESPALIER_API int64_t espalier_error_offset(const espalier_context *ctx);

/* May be called from any thread or signal handler; the running call returns ESPALIER_ERR_CANCELLED within a work tile.
 * The flag stays set until espalier_context_reset_cancel(). */
ESPALIER_API void espalier_context_cancel(espalier_context *ctx);
ESPALIER_API void espalier_context_reset_cancel(espalier_context *ctx);

/* Progress of a stage: `done` of `total` equal pieces of work (total 0 = unknown). `stage` is one of "preprocess", "condition",
 * "structure", "shape", "texture", "decode", "finish"; or "matte". Called from the thread that runs the call. A non-zero return value
 * cancels. */
typedef int (*espalier_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);
/* fn NULL = none, the default. `user` is passed on. */
ESPALIER_API void espalier_context_set_progress(espalier_context *ctx, espalier_progress_fn fn, void *user);

/* Memory this job may allocate (bytes; 0 = no limit, the default). Work is cut smaller to stay below; where it cannot be,
 * the call fails with ESPALIER_ERR_RESOURCE. Mapped model files do not count. */
ESPALIER_API void espalier_context_set_memory_budget(espalier_context *ctx, uint64_t bytes);
/* Bytes allocated for this job now, and the most so far. Pictures and models are on nobody's account. */
ESPALIER_API uint64_t espalier_context_memory_now(const espalier_context *ctx);
ESPALIER_API uint64_t espalier_context_memory_peak(const espalier_context *ctx);

/* Limits on untrusted input. */
typedef struct espalier_limits {
    uint32_t struct_size;
    uint32_t max_image_side;     /* pixels; default 16384 */
    uint64_t max_file_bytes;     /* of an image, dump or json; default 4 GiB; model files are not limited */
} espalier_limits;
ESPALIER_API espalier_limits espalier_limits_default(void);
/* limits NULL = the defaults. */
ESPALIER_API void espalier_context_set_limits(espalier_context *ctx, const espalier_limits *limits);

#ifdef __cplusplus
}
#endif
#endif
