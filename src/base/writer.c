/* SPDX-License-Identifier: MIT
 *
 * writer.c: output files that exist whole or not at all.
 *
 * Bytes go to a temporary file beside the target; commit flushes it to the disk and renames it over the target. After the first failure
 * the temporary file is removed at once and the writer only repeats the status until it is closed. Writing into a FIFO whose reader has
 * gone raises SIGPIPE unless the program ignores it; then the error is reported.
 */
#include "base/base.h"
#include "base/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_SIZE   ((size_t)256 << 10)
#define NAME_KEEP     200                  /* bytes of the target's name in the temporary one: 255 is the usual limit of a name */
#define TEMP_ATTEMPTS 100

struct esi_writer {
    espalier_context *ctx;
    char *path;                            /* as given, for messages */
    char *target;                          /* where it leads to when it is a link */
    char *temp;                            /* NULL: bytes go straight into a device or FIFO */
    int fd;                                /* -1 after a failure or when prepared */
    bool prepared;                         /* the temporary file is whole and on the disk */
    espalier_status status;
    uint64_t position;
    size_t buffered;
    uint8_t *buffer;
};

static espalier_status fail_errno(espalier_context *ctx, const char *path, const char *doing, int error)
{
    char buffer[ESI_ERRNO_TEXT];
    if (error == EINTR && esi_cancel_requested(ctx)) return esi_check_cancel(ctx);
    return esi_fail(ctx, ESPALIER_ERR_OUTPUT, "%s: %s: %s", path, doing, esi_errno_text(buffer, error));
}

/* ------------------------------------------------------------------- close */

/* The temporary file goes away; what is left of w answers calls with its status. */
static void discard(esi_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    if ((w->fd >= 0 || w->prepared) && w->temp != NULL) unlink(w->temp);
    w->fd = -1;
    w->prepared = false;
}

static void release(esi_writer *w)
{
    espalier_context *ctx = w->ctx;
    discard(w);
    esi_free(ctx, w->buffer);
    esi_free(ctx, w->temp);
    esi_free(ctx, w->target);
    esi_free(ctx, w->path);
    esi_free(ctx, w);
}

static espalier_status fail_writer(esi_writer *w, const char *doing, int error)
{
    w->status = fail_errno(w->ctx, w->path, doing, error);
    discard(w);
    return w->status;
}

/* -------------------------------------------------------------------- open */

/* Not secret, only unlikely to be taken; O_EXCL settles the rest. */
static uint64_t name_noise(const esi_writer *w, uint64_t attempt)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_REALTIME, &t);
    uint64_t x = (uint64_t)t.tv_nsec ^ (uint64_t)t.tv_sec << 30 ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)w ^ attempt << 20;
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static espalier_status open_temp(esi_writer *w)
{
    size_t head = (size_t)(esi_path_name(w->target) - w->target);
    size_t keep = head + ESI_MIN(strlen(w->target + head), (size_t)NAME_KEEP);
    size_t room = keep + 32;
    int error = EEXIST;
    w->temp = esi_alloc(w->ctx, room, 1, "a file name");
    if (w->temp == NULL) return ESPALIER_ERR_RESOURCE;
    for (uint64_t attempt = 0; attempt < TEMP_ATTEMPTS && error == EEXIST; attempt++) {
        memcpy(w->temp, w->target, keep);
        snprintf(w->temp + keep, room - keep, ".%016llx.tmp", (unsigned long long)name_noise(w, attempt));
        w->fd = esi_open(w->ctx, w->temp, O_WRONLY | O_CREAT | O_EXCL);
        if (w->fd >= 0) return ESPALIER_OK;
        error = errno;
    }
    if (error == ENOENT) return esi_fail(w->ctx, ESPALIER_ERR_OUTPUT, "%s: cannot be created: no such directory", w->path);
    return fail_errno(w->ctx, w->path, "cannot be created", error);
}

static espalier_status open_direct(esi_writer *w)
{
    w->fd = esi_open(w->ctx, w->target, O_WRONLY);
    if (w->fd < 0) return fail_errno(w->ctx, w->path, "cannot be written", errno);
    return ESPALIER_OK;
}

/* Follows a link to an existing file, so that the link stays and the file is replaced; a link to nothing is replaced itself. */
static espalier_status resolve_target(esi_writer *w)
{
    struct stat info;
    char *real = NULL;
    if (lstat(w->path, &info) == 0 && S_ISLNK(info.st_mode)) real = realpath(w->path, NULL);
    w->target = esi_strdup(w->ctx, real != NULL ? real : w->path);
    free(real);
    return w->target == NULL ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

static espalier_status open_target(esi_writer *w)
{
    struct stat info;
    size_t len = strlen(w->path);
    if (len == 0) return esi_fail(w->ctx, ESPALIER_ERR_OUTPUT, "the name of the output file is empty");
    espalier_status st = resolve_target(w);
    if (st != ESPALIER_OK) return st;
    if (stat(w->target, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return esi_fail(w->ctx, ESPALIER_ERR_OUTPUT, "%s: is a directory; give a file name", w->path);
        if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)) return open_direct(w);
        if (!S_ISREG(info.st_mode)) return esi_fail(w->ctx, ESPALIER_ERR_OUTPUT, "%s: not a regular file", w->path);
        /* rename() asks the directory only: it would replace a write-protected file. */
        if (faccessat(AT_FDCWD, w->target, W_OK, AT_EACCESS) != 0) return fail_errno(w->ctx, w->path, "cannot be replaced", errno);
    } else if (w->path[len - 1] == '/') {
        return esi_fail(w->ctx, ESPALIER_ERR_OUTPUT, "%s: no such directory", w->path);
    }
    return open_temp(w);
}

espalier_status esi_writer_open(espalier_context *ctx, esi_writer **out, const char *path)
{
    espalier_status st = ESPALIER_ERR_RESOURCE;
    *out = NULL;
    esi_writer *w = esi_calloc(ctx, 1, sizeof *w, "an output file");
    if (w == NULL) return st;
    w->ctx = ctx;
    w->fd = -1;
    w->path = esi_strdup(ctx, path);
    if (w->path == NULL) goto done;
    w->buffer = esi_alloc(ctx, BUFFER_SIZE, 1, "an output file");
    if (w->buffer == NULL) goto done;
    st = open_target(w);
done:
    if (st != ESPALIER_OK)
        release(w);
    else
        *out = w;
    return st;
}

/* ------------------------------------------------------------------- write */

static espalier_status write_out(esi_writer *w, const uint8_t *bytes, size_t size)
{
    while (size != 0) {
        if (esi_cancel_requested(w->ctx)) return fail_writer(w, "cancelled", EINTR);
        ssize_t n = write(w->fd, bytes, ESI_MIN(size, (size_t)4 << 20));
        if (n < 0 && errno == EINTR && !esi_cancel_requested(w->ctx)) continue;
        if (n <= 0) return fail_writer(w, "cannot be written", n < 0 ? errno : ENOSPC);
        bytes += n;
        size -= (size_t)n;
    }
    return ESPALIER_OK;
}

static espalier_status flush(esi_writer *w)
{
    size_t size = w->buffered;
    w->buffered = 0;
    return write_out(w, w->buffer, size);
}

espalier_status esi_writer_write(esi_writer *w, const void *bytes, size_t size)
{
    if (w->status != ESPALIER_OK) return w->status;
    w->position += size;
    if (size > BUFFER_SIZE - w->buffered) {
        espalier_status st = flush(w);
        if (st != ESPALIER_OK) return st;
    }
    if (size >= BUFFER_SIZE) return write_out(w, bytes, size);
    if (size != 0) memcpy(w->buffer + w->buffered, bytes, size);
    w->buffered += size;
    return ESPALIER_OK;
}

espalier_status esi_writer_zeros(esi_writer *w, size_t size)
{
    static const uint8_t zeros[4096];
    espalier_status st = w->status;
    while (size != 0 && st == ESPALIER_OK) {
        size_t n = ESI_MIN(size, sizeof zeros);
        st = esi_writer_write(w, zeros, n);
        size -= n;
    }
    return st;
}

uint64_t esi_writer_position(const esi_writer *w)
{
    return w->position;
}

/* ------------------------------------------------------------------ commit */

/* Some file systems cannot sync: then there is nothing better to do. */
static bool sync_fd(int fd)
{
    int rc;
    do rc = fsync(fd);
    while (rc != 0 && errno == EINTR);
    return rc == 0 || errno == EINVAL || errno == ENOTSUP || errno == EROFS;
}

/* The name is on the disk only when its directory is. The file itself is safe by now, so a refusal is no failure. */
static void sync_directory(esi_writer *w)
{
    char *slash = strrchr(w->target, '/');
    const char *dir = ".";
    if (slash == w->target) {
        dir = "/";
    } else if (slash != NULL) {
        *slash = '\0';
        dir = w->target;
    }
    int fd = esi_open(w->ctx, dir, O_RDONLY | O_DIRECTORY);
    if (fd < 0) return;
    (void)sync_fd(fd);
    close(fd);
}

espalier_status esi_writer_prepare(esi_writer *w)
{
    espalier_status st = w->status;
    if (st != ESPALIER_OK || w->prepared) return st;
    st = flush(w);
    if (st != ESPALIER_OK) return st;
    if (w->temp != NULL && !sync_fd(w->fd)) return fail_writer(w, "cannot be written", errno);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && errno != EINTR) {
        int error = errno;
        if (w->temp != NULL) unlink(w->temp);
        return fail_writer(w, "cannot be written", error);
    }
    w->prepared = true;
    return ESPALIER_OK;
}

static espalier_status commit_steps(esi_writer *w)
{
    espalier_status st = esi_writer_prepare(w);
    if (st != ESPALIER_OK || w->temp == NULL) return st;
    if (rename(w->temp, w->target) != 0) return fail_writer(w, "cannot be replaced", errno);
    w->prepared = false;
    sync_directory(w);
    return ESPALIER_OK;
}

espalier_status esi_writer_commit(esi_writer *w)
{
    espalier_status st = w->status;
    if (st == ESPALIER_OK) st = commit_steps(w);
    release(w);
    return st;
}

void esi_writer_abort(esi_writer *w)
{
    if (w != NULL) release(w);
}

espalier_status esi_file_write_all(espalier_context *ctx, const char *path, const void *bytes, size_t size)
{
    esi_writer *w;
    espalier_status st = esi_writer_open(ctx, &w, path);
    if (st != ESPALIER_OK) return st;
    st = esi_writer_write(w, bytes, size);
    if (st != ESPALIER_OK) {
        esi_writer_abort(w);
        return st;
    }
    return esi_writer_commit(w);
}
