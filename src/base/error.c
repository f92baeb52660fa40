/* SPDX-License-Identifier: MIT
 *
 * error.c: error text, log lines, cancellation and progress of a context.
 *
 * A context belongs to one thread, but allocations in worker threads may fail too, several at once. So a pending error is claimed with
 * one compare-and-swap: the winner writes the text, everybody else keeps quiet. Nobody waits; the owner reads after the workers have
 * been joined.
 */
#include "base/context.h"
#include "base/private.h"

#include <errno.h>
#include <stdio.h>

enum { ERROR_NONE = 0, ERROR_CLAIMED = 1, ERROR_PENDING = 2 };

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "espalier_context_cancel() must be safe in signal handlers");

/* ------------------------------------------------------------------ errors */

/* printf into a fixed line; what does not fit is replaced by dots. */
static void format_line(char *line, size_t size, const char *format, va_list args) ESI_PRINTF(3, 0);

static void format_line(char *line, size_t size, const char *format, va_list args)
{
    int len = vsnprintf(line, size, format, args);
    if (len < 0) line[0] = '\0';
    if (len >= 0 && (size_t)len >= size) memcpy(line + size - 4, "...", 4);
    esi_clean_line(line);
}

static espalier_status record(espalier_context *ctx, espalier_status status, int64_t offset, const char *format, va_list args)
    ESI_PRINTF(4, 0);

static espalier_status record(espalier_context *ctx, espalier_status status, int64_t offset, const char *format, va_list args)
{
    if (ctx == NULL) return status;
    int expected = ERROR_NONE;
    if (!atomic_compare_exchange_strong(&ctx->error_state, &expected, ERROR_CLAIMED)) return status;
    ctx->error_status = status;
    ctx->error_offset = offset;
    format_line(ctx->error_text, sizeof ctx->error_text, format, args);
    atomic_store(&ctx->error_state, ERROR_PENDING);
    return status;
}

espalier_status esi_fail(espalier_context *ctx, espalier_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(ctx, status, -1, format, args);
    va_end(args);
    return status;
}

espalier_status esi_fail_at(espalier_context *ctx, espalier_status status, int64_t offset, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    record(ctx, status, offset, format, args);
    va_end(args);
    return status;
}

void esi_clear_error(espalier_context *ctx)
{
    if (ctx == NULL) return;
    ctx->error_status = ESPALIER_OK;
    ctx->error_text[0] = '\0';
    ctx->error_offset = -1;
    atomic_store(&ctx->error_state, ERROR_NONE);
}

bool esi_error_pending(const espalier_context *ctx)
{
    return ctx != NULL && atomic_load(&ctx->error_state) != ERROR_NONE;
}

void esi_enter(espalier_context *ctx, esi_fp_state *saved)
{
    esi_clear_error(ctx);
    if (ctx != NULL) ctx->stage = NULL;
    esi_fp_set_default(saved);
}

espalier_status esi_leave(espalier_context *ctx, esi_fp_state *saved, espalier_status status)
{
    if (status == ESPALIER_OK)
        esi_clear_error(ctx);            /* a failure that was dealt with on the way */
    else
        esi_fail(ctx, status, "%s", espalier_status_name(status));       /* only if nobody has said more */
    esi_fp_restore(saved);
    return status;
}

espalier_status esi_refuse_null(espalier_context *ctx, const char *function)
{
    esi_clear_error(ctx);
    return esi_fail(ctx, ESPALIER_ERR_ARG, "%s(): an argument is NULL that must not be", function);
}

const char *espalier_error_message(const espalier_context *ctx)
{
    return ctx == NULL ? "" : ctx->error_text;
}

int64_t espalier_error_offset(const espalier_context *ctx)
{
    return ctx == NULL ? -1 : ctx->error_offset;
}

const char *esi_errno_text(char buffer[ESI_ERRNO_TEXT], int error)
{
    switch (error) {
    case ENOENT: return "no such file or directory";
    case EACCES: return "permission denied";
    case EPERM: return "operation not permitted";
    case EISDIR: return "is a directory";
    case ENOTDIR: return "a part of the path is not a directory";
    case EEXIST: return "exists already";
    case ENAMETOOLONG: return "the name is too long";
    case ELOOP: return "too many levels of symbolic links";
    case ENOSPC: return "no space left on the disk";
#ifdef EDQUOT
    case EDQUOT: return "disk quota exceeded";
#endif
    case EFBIG: return "the file would become too large";
    case EROFS: return "the file system is read-only";
    case EIO: return "input/output error";
    case EPIPE: return "the reader has gone away";
    case EBUSY: return "busy";
    case ETXTBSY: return "the file is being executed";
    case ENXIO: return "no such device or nobody listens";
    case ENODEV: return "the file system cannot map files";
    case ENOMEM: return "out of memory";
    case EMFILE: return "too many open files in this process";
    case ENFILE: return "too many open files in the system";
    case EOVERFLOW: return "the file is too large for this build";
    case EINVAL: return "invalid argument";
    case EINTR: return "interrupted by a signal";
    default: break;
    }
    snprintf(buffer, ESI_ERRNO_TEXT, "system error %d", error);
    return buffer;
}

/* --------------------------------------------------------------------- log */

void esi_log(espalier_context *ctx, espalier_log_level level, const char *format, ...)
{
    if (ctx == NULL || ctx->runtime == NULL || ctx->runtime->log == NULL) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    format_line(line, sizeof line, format, args);
    va_end(args);
    ctx->runtime->log(ctx->runtime->log_user, level, line);
}

/* ------------------------------------------------- cancellation and progress */

void espalier_context_cancel(espalier_context *ctx)
{
    if (ctx != NULL) atomic_store(&ctx->cancel, 1);
}

void espalier_context_reset_cancel(espalier_context *ctx)
{
    if (ctx != NULL) atomic_store(&ctx->cancel, 0);
}

bool esi_cancel_requested(const espalier_context *ctx)
{
    return atomic_load_explicit(&ctx->cancel, memory_order_relaxed) != 0;
}

espalier_status esi_check_cancel(espalier_context *ctx)
{
    if (!esi_cancel_requested(ctx)) return ESPALIER_OK;
    return esi_fail(ctx, ESPALIER_ERR_CANCELLED, "cancelled");
}

void espalier_context_set_progress(espalier_context *ctx, espalier_progress_fn fn, void *user)
{
    if (ctx == NULL) return;
    ctx->progress = fn;
    ctx->progress_user = user;
}

espalier_status esi_progress(espalier_context *ctx, const char *stage, uint64_t done, uint64_t total)
{
    ctx->stage = stage;
    if (ctx->progress != NULL && ctx->progress(ctx->progress_user, stage, done, total) != 0) espalier_context_cancel(ctx);
    return esi_check_cancel(ctx);
}
