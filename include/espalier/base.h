/* SPDX-License-Identifier: MIT
 *
 * espalier/base.h: export macro, version, status codes, allocator and log callbacks.
 */
#ifndef ESPALIER_BASE_H
#define ESPALIER_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(ESPALIER_SHARED)
#  ifdef ESPALIER_BUILDING
#    define ESPALIER_API __declspec(dllexport)
#  else
#    define ESPALIER_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define ESPALIER_API __attribute__((visibility("default")))
#else
#  define ESPALIER_API
#endif

#define ESPALIER_VERSION_MAJOR 0
#define ESPALIER_VERSION_MINOR 1
#define ESPALIER_VERSION_PATCH 0
#define ESPALIER_VERSION_STRING "0.1.0"

/* Version of the arithmetic (ARCHITECTURE.md, "One arithmetic"). Two builds with the same number give
 * the same bits; it changes whenever the plain C kernels change a result. */
#define ESPALIER_ARITHMETIC_VERSION 1

/* "0.1.0" of the library that is linked, to compare with ESPALIER_VERSION_STRING. */
ESPALIER_API const char *espalier_version(void);

/* Status of every call that can fail. The values are pinned: they never change meaning. The command's exit
 * status is the same number, except that cancellation becomes 130 or 143. */
typedef enum espalier_status {
    ESPALIER_OK             = 0,
    ESPALIER_ERR_ARG        = 2,   /* the caller's argument or option is wrong */
    ESPALIER_ERR_INPUT      = 3,   /* an input file (image, dump, mesh) is missing, damaged or unsuitable */
    ESPALIER_ERR_MODEL      = 4,   /* a model file is missing, damaged or of the wrong shape */
    ESPALIER_ERR_RESOURCE   = 5,   /* out of memory, over the memory budget, or over a limit */
    ESPALIER_ERR_INTERNAL   = 6,   /* a promise of this library was broken; please report it */
    ESPALIER_ERR_OUTPUT     = 7,   /* an output file cannot be written */
    ESPALIER_ERR_DEVICE     = 8,   /* a compute device failed or computes wrongly */
    ESPALIER_ERR_SOUNDNESS  = 9,   /* the result fails a soundness gate (NaN, no voxels, shattered mesh) */
    ESPALIER_ERR_CANCELLED  = 130  /* the progress callback or espalier_context_cancel() asked to stop */
} espalier_status;

/* "input error", ...: a constant English name of the status, never NULL. */
ESPALIER_API const char *espalier_status_name(espalier_status status);

/* Memory callbacks. `allocate` returns memory aligned to `align` (a power of two <= 4096) or NULL;
 * `release` gets exactly what `allocate` returned and its size. Both may be called from several threads at once. */
typedef struct espalier_allocator {
    void *user;
    void *(*allocate)(void *user, size_t size, size_t align);
    void (*release)(void *user, void *ptr, size_t size);
} espalier_allocator;

typedef enum espalier_log_level {
    ESPALIER_LOG_DEBUG   = 0,
    ESPALIER_LOG_INFO    = 1,
    ESPALIER_LOG_WARNING = 2,
    ESPALIER_LOG_ERROR   = 3    /* why a call without a context failed; all others keep their text in it */
} espalier_log_level;

/* Receives one line without newline. The library itself never prints. May be called from any thread that
 * runs a call of this library, never from worker threads. */
typedef void (*espalier_log_fn)(void *user, espalier_log_level level, const char *line);

#ifdef __cplusplus
}
#endif
#endif
