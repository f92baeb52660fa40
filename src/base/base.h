/* SPDX-License-Identifier: MIT
 *
 * base.h: what every layer uses: errors, memory with an account, threads, files, checked sizes.
 *
 * Conventions (CONTRIBUTING.md has the long form):
 *   - A function that can fail returns espalier_status and has put text into the context with esi_fail().
 *   - Internal names begin with esi_; file-local ones have no prefix.
 *   - Sizes and offsets are 64-bit; products go through esi_mul_size / esi_add_size.
 *   - The library never prints, exits, or reads environment variables.
 */
#ifndef ESI_BASE_H
#define ESI_BASE_H

#include <espalier/context.h>

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#  define ESI_PRINTF(fmt_index, first) __attribute__((format(printf, fmt_index, first)))
#else
#  define ESI_PRINTF(fmt_index, first)
#endif

#define ESI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define ESI_MAX(a, b) ((a) > (b) ? (a) : (b))
#define ESI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ------------------------------------------------------------------ errors */

/* Record `status` and a one-line message in ctx (control characters in the text are replaced by '?') and return status.
 * The first failure of a call wins: a later esi_fail() while an error is pending keeps the first text. */
espalier_status esi_fail(espalier_context *ctx, espalier_status status, const char *format, ...) ESI_PRINTF(3, 4);
/* The same, with the byte position in the file that the message names. */
espalier_status esi_fail_at(espalier_context *ctx, espalier_status status, int64_t offset, const char *format, ...) ESI_PRINTF(4, 5);
/* Forget a pending error; every public entry point starts with esi_enter(). */
void esi_clear_error(espalier_context *ctx);
/* True from the moment an error is recorded, in any thread. */
bool esi_error_pending(const espalier_context *ctx);
/* Start of a public call: clears the error and sets the floating-point mode of this thread (round to nearest even, no flush
 * to zero), remembering the caller's in *saved; esi_leave() restores it and returns status. Calls may nest. */
typedef struct esi_fp_state { uint64_t word; } esi_fp_state;
void esi_enter(espalier_context *ctx, esi_fp_state *saved);
espalier_status esi_leave(espalier_context *ctx, esi_fp_state *saved, espalier_status status);
/* Instead of both, when an argument of the public `function` is NULL that must not be: ESPALIER_ERR_ARG. ctx may be NULL. */
espalier_status esi_refuse_null(espalier_context *ctx, const char *function);
void esi_fp_set_default(esi_fp_state *saved);
void esi_fp_restore(const esi_fp_state *saved);

void esi_log(espalier_context *ctx, espalier_log_level level, const char *format, ...) ESI_PRINTF(3, 4);

/* ESPALIER_ERR_CANCELLED (with text) if the job was asked to stop, else ESPALIER_OK. */
espalier_status esi_check_cancel(espalier_context *ctx);
/* Cheap form for loops in worker threads. */
bool esi_cancel_requested(const espalier_context *ctx);
/* Report progress of the current stage to the caller's callback; a non-zero answer cancels. Also polls the cancel flag. */
espalier_status esi_progress(espalier_context *ctx, const char *stage, uint64_t done, uint64_t total);

/* Limits on untrusted input that this context was given; never NULL. */
const espalier_limits *esi_limits(const espalier_context *ctx);

/* ----------------------------------------------------------- checked sizes */

/* *out = a * b (a + b); false and *out = SIZE_MAX when it does not fit. */
bool esi_mul_size(size_t *out, size_t a, size_t b);
bool esi_add_size(size_t *out, size_t a, size_t b);

/* "17 bytes", "1.2 GiB": for messages. */
#define ESI_SIZE_TEXT 32
void esi_size_text(char out[ESI_SIZE_TEXT], uint64_t bytes);

/* ------------------------------------------------------------------ memory */

#define ESI_ALIGN 64          /* of every esi_alloc block: a cache line, an AVX-512 vector */

/* `count * size` bytes aligned to ESI_ALIGN, uninitialised, charged to the context's account; zero bytes give a valid pointer.
 * NULL after esi_fail(ESPALIER_ERR_RESOURCE): overflow, budget exceeded (`what` names the thing in the message), or no memory. */
void *esi_alloc(espalier_context *ctx, size_t count, size_t size, const char *what);
void *esi_calloc(espalier_context *ctx, size_t count, size_t size, const char *what);
/* Grow or shrink; on failure the old block stays and NULL is returned. ptr NULL = esi_alloc. */
void *esi_realloc(espalier_context *ctx, void *ptr, size_t count, size_t size, const char *what);
void esi_free(espalier_context *ctx, void *ptr);                    /* NULL is fine; ptr must come from the same context */
char *esi_strdup(espalier_context *ctx, const char *text);
/* printf into a fresh esi_alloc block. */
char *esi_format(espalier_context *ctx, const char *format, ...) ESI_PRINTF(2, 3);

/* Blocks that outlive their context (results, models): charged to nobody, released through the allocator kept beside them. */
void *esi_raw_alloc(const espalier_allocator *a, size_t size);      /* aligned to ESI_ALIGN; NULL when out of memory */
void esi_raw_free(const espalier_allocator *a, void *ptr, size_t size);
const espalier_allocator *esi_allocator(const espalier_context *ctx);
/* Results stay charged to the job that made them and may outlive it: they hold a reference, dropped with espalier_context_free(). */
espalier_context *esi_context_retain(espalier_context *ctx);

/* Memory that is not the host's goes on the same account: false after esi_fail() when it is over the budget. */
bool esi_charge(espalier_context *ctx, size_t bytes, const char *what);
void esi_discharge(espalier_context *ctx, size_t bytes);

/* Bytes that may still be allocated under the budget (UINT64_MAX without one). Ops and models size their chunks with it. */
uint64_t esi_memory_left(const espalier_context *ctx);
uint64_t esi_memory_budget(const espalier_context *ctx);            /* 0 = none */
/* Start a new high-water mark and return the old one: a stage's peak = high water since the mark. */
uint64_t esi_memory_reset_high_water(espalier_context *ctx);
uint64_t esi_memory_high_water(const espalier_context *ctx);

/* Arena: small objects of one stage or parser that die together. Zero-initialise; allocations are aligned to 16. */
typedef struct esi_arena {
    struct esi_arena_block *head;
} esi_arena;
typedef struct esi_arena_mark { struct esi_arena_block *block; size_t used; } esi_arena_mark;
void *esi_arena_alloc(espalier_context *ctx, esi_arena *arena, size_t count, size_t size);   /* zeroed; NULL after esi_fail */
char *esi_arena_strdup(espalier_context *ctx, esi_arena *arena, const char *text, size_t len);
/* printf into the arena. */
char *esi_arena_format(espalier_context *ctx, esi_arena *arena, const char *format, ...) ESI_PRINTF(3, 4);
esi_arena_mark esi_arena_get_mark(const esi_arena *arena);
void esi_arena_release(espalier_context *ctx, esi_arena *arena, esi_arena_mark mark);        /* everything after the mark */
void esi_arena_free(espalier_context *ctx, esi_arena *arena);

/* ----------------------------------------------------------------- threads */

/* Run fn(arg, task, slot) for every task in [0, n_tasks), on the pool's threads and the calling one, in any order. `slot` is
 * in [0, esi_slots(ctx)) and is used by one thread at a time within this call: index of per-thread scratch. Tasks must not depend on
 * each other. Stops early when the job is cancelled (ESPALIER_ERR_CANCELLED) or when a task has called esi_fail() (that error's
 * status is returned). Several contexts may call this at once. Tasks run in the default floating-point mode. Do not nest. */
typedef void (*esi_task_fn)(void *arg, size_t task, int slot);
espalier_status esi_parallel(espalier_context *ctx, size_t n_tasks, esi_task_fn fn, void *arg);
int esi_slots(const espalier_context *ctx);

/* A shared library that is looked for at run time, and its functions: NULL where there is none. */
typedef void (*esi_function)(void);
void *esi_library_open(const char *name);
esi_function esi_library_function(void *library, const char *name);
void esi_library_close(void *library);                              /* NULL is fine */

/* Monotonic seconds, for reports only. */
double esi_now(void);
/* CPU seconds (user + system) of the process so far, for reports only. */
double esi_cpu_seconds(void);

/* ------------------------------------------------------------------- files */

/* A read-only map of a whole file. Shared, reference-counted, usable without a context once open. */
typedef struct esi_file_map esi_file_map;
/* `status` is the error class to report (ESPALIER_ERR_INPUT or ESPALIER_ERR_MODEL): missing file, directory, unreadable. An empty file maps
 * to size 0 and a non-NULL pointer. */
espalier_status esi_file_map_open(espalier_context *ctx, esi_file_map **out, const char *path, espalier_status status);
const uint8_t *esi_file_map_data(const esi_file_map *map);
uint64_t esi_file_map_size(const esi_file_map *map);
const char *esi_file_map_path(const esi_file_map *map);
esi_file_map *esi_file_map_retain(esi_file_map *map);
void esi_file_map_release(esi_file_map *map);                       /* NULL is fine */
/* Tell the system the range will be read soon / will not be read again. Hints only. */
void esi_file_map_will_need(const esi_file_map *map, uint64_t offset, uint64_t size);
void esi_file_map_dont_need(const esi_file_map *map, uint64_t offset, uint64_t size);

/* Whole small file into memory (esi_alloc, NUL appended and not counted in *size). Refuses more than `max_bytes`. */
espalier_status esi_file_read(espalier_context *ctx, uint8_t **out, size_t *size, const char *path, uint64_t max_bytes,
                              espalier_status status);

/* Atomic write: bytes go to "<path>.<random>.tmp" in the same directory; commit = flush, fsync, rename; abort = remove. After any
 * failure the temporary file is gone and `path` is untouched. Where `path` is a link, the file it points to is replaced. Where it is a
 * FIFO or a character device such as /dev/null, bytes go straight into it. */
typedef struct esi_writer esi_writer;
espalier_status esi_writer_open(espalier_context *ctx, esi_writer **out, const char *path);
espalier_status esi_writer_write(esi_writer *w, const void *bytes, size_t size);
espalier_status esi_writer_zeros(esi_writer *w, size_t size);
uint64_t esi_writer_position(const esi_writer *w);
/* Everything but the last step: after it, commit only renames. For several files that belong together. Nothing more may be written. */
espalier_status esi_writer_prepare(esi_writer *w);
espalier_status esi_writer_commit(esi_writer *w);                   /* closes w in any case */
void esi_writer_abort(esi_writer *w);                               /* closes w; NULL is fine */
espalier_status esi_file_write_all(espalier_context *ctx, const char *path, const void *bytes, size_t size);

bool esi_path_is_dir(const char *path);
bool esi_path_is_file(const char *path);                            /* regular, or a link to one */
/* Join with one '/', esi_alloc'ed. An absolute `name` is returned as it is. */
char *esi_path_join(espalier_context *ctx, const char *dir, const char *name);
const char *esi_path_name(const char *path);                        /* last part */
const char *esi_path_suffix(const char *path);                      /* ".glb" of the last part, or "" */
/* Entries of a directory except . and .., sorted by bytes; array and strings in `arena`. */
espalier_status esi_dir_list(espalier_context *ctx, esi_arena *arena, const char *path, char ***names, size_t *count,
                             espalier_status status);

/* ------------------------------------------------------------------ text */

/* Growing byte string for JSON and reports. Zero-initialise; on failure `failed` is set and further calls do nothing. */
typedef struct esi_text {
    char *data;
    size_t len, cap;
    bool failed;
} esi_text;
void esi_text_append(espalier_context *ctx, esi_text *t, const char *format, ...) ESI_PRINTF(3, 4);
void esi_text_append_bytes(espalier_context *ctx, esi_text *t, const void *bytes, size_t len);
/* Append `s` as a JSON string with quotes; invalid UTF-8 becomes U+FFFD. */
void esi_text_append_json_string(espalier_context *ctx, esi_text *t, const char *s);
/* Append a finite double in the shortest form that reads back equal, NaN and infinities as null. */
void esi_text_append_json_number(espalier_context *ctx, esi_text *t, double value);
void esi_text_free(espalier_context *ctx, esi_text *t);

/* Make `text` one clean line in place: control characters and bytes that are no UTF-8 become '?'. */
void esi_clean_line(char *text);

/* Bytes of the UTF-8 sequence at the start of s[0..len), len > 0: 1..4 and *valid = true, or the length of the longest prefix that could
 * have begun one (at least 1) and *valid = false. That is how the Unicode standard asks decoders to count replacement characters. */
size_t esi_utf8_length(const unsigned char *s, size_t len, bool *valid);

#endif
