/* SPDX-License-Identifier: MIT
 *
 * file.c: reading: mapped files, small files in memory, directories, paths.
 *
 * A file that another program shortens while it is mapped raises SIGBUS, as with any reader that maps files.
 */
#include "base/context.h"
#include "base/private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct esi_file_map {
    espalier_allocator allocator;
    atomic_int references;
    uint64_t size;
    void *mapped;                    /* NULL for an empty file */
    size_t struct_size;
    char path[];
};

static const uint8_t empty_file[1] = {0};

/* Errors of the machine are no fault of the file. */
static espalier_status fail_errno(espalier_context *ctx, espalier_status status, const char *path, int error)
{
    char buffer[ESI_ERRNO_TEXT];
    if (error == EINTR && esi_cancel_requested(ctx)) return esi_check_cancel(ctx);
    if (error == ENOENT) return esi_fail(ctx, status, "%s: no such file", path);
    if (error == EISDIR) return esi_fail(ctx, status, "%s: is a directory, not a file", path);
    if (error == ENOMEM || error == EMFILE || error == ENFILE) status = ESPALIER_ERR_RESOURCE;
    return esi_fail(ctx, status, "%s: %s", path, esi_errno_text(buffer, error));
}

int esi_open(espalier_context *ctx, const char *path, int flags)
{
    int fd;
    do fd = open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR && !esi_cancel_requested(ctx));
    return fd;
}

/* -------------------------------------------------------------------- maps */

static espalier_status open_regular(espalier_context *ctx, int *out, uint64_t *size, const char *path, espalier_status status)
{
    struct stat info;
    int fd = esi_open(ctx, path, O_RDONLY | O_NONBLOCK);       /* a FIFO must not block before it is refused */
    espalier_status st = ESPALIER_OK;
    *out = -1;
    if (fd < 0) return fail_errno(ctx, status, path, errno);
    if (fstat(fd, &info) != 0)
        st = fail_errno(ctx, status, path, errno);
    else if (S_ISDIR(info.st_mode))
        st = fail_errno(ctx, status, path, EISDIR);
    else if (!S_ISREG(info.st_mode))
        st = esi_fail(ctx, status, "%s: not a regular file", path);
    else if ((uint64_t)info.st_size > (uint64_t)PTRDIFF_MAX)
        st = fail_errno(ctx, status, path, EOVERFLOW);
    if (st != ESPALIER_OK) {
        close(fd);
        return st;
    }
    *out = fd;
    *size = (uint64_t)info.st_size;
    return ESPALIER_OK;
}

espalier_status esi_file_map_open(espalier_context *ctx, esi_file_map **out, const char *path, espalier_status status)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    size_t path_size = strlen(path) + 1, struct_size = sizeof(esi_file_map) + path_size;
    esi_file_map *map = NULL;
    uint64_t size = 0;
    int fd;

    *out = NULL;
    espalier_status st = open_regular(ctx, &fd, &size, path, status);
    if (st != ESPALIER_OK) return st;
    map = esi_raw_alloc(allocator, struct_size);
    if (map == NULL) {
        st = esi_fail(ctx, ESPALIER_ERR_RESOURCE, "out of memory: %s cannot be opened", path);
        goto done;
    }
    memset(map, 0, sizeof *map);
    map->allocator = *allocator;
    atomic_init(&map->references, 1);
    map->size = size;
    map->struct_size = struct_size;
    memcpy(map->path, path, path_size);
    if (size != 0) {
        void *mapped = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapped == MAP_FAILED) {
            st = fail_errno(ctx, status, path, errno);
            goto done;
        }
        map->mapped = mapped;
    }
    *out = map;
    map = NULL;
done:
    if (map != NULL) esi_raw_free(allocator, map, struct_size);
    close(fd);
    return st;
}

const uint8_t *esi_file_map_data(const esi_file_map *map)
{
    return map->mapped == NULL ? empty_file : map->mapped;
}

uint64_t esi_file_map_size(const esi_file_map *map)
{
    return map->size;
}

const char *esi_file_map_path(const esi_file_map *map)
{
    return map->path;
}

esi_file_map *esi_file_map_retain(esi_file_map *map)
{
    atomic_fetch_add_explicit(&map->references, 1, memory_order_relaxed);
    return map;
}

void esi_file_map_release(esi_file_map *map)
{
    if (map == NULL) return;
    if (atomic_fetch_sub_explicit(&map->references, 1, memory_order_acq_rel) != 1) return;
    if (map->mapped != NULL) munmap(map->mapped, (size_t)map->size);
    espalier_allocator allocator = map->allocator;
    esi_raw_free(&allocator, map, map->struct_size);
}

/* Pages that lie in [offset, offset + size): those touched by it (outer) or those wholly inside. */
static void advise(const esi_file_map *map, uint64_t offset, uint64_t size, int advice, bool outer)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (map->mapped == NULL || offset >= map->size) return;
    uint64_t end = offset + ESI_MIN(size, map->size - offset);
    bool to_end = end == map->size;
    uint64_t first = outer ? offset / page * page : (offset + page - 1) / page * page;
    if (!outer && !to_end) end = end / page * page;
    if (end > first) (void)madvise((char *)map->mapped + first, (size_t)(end - first), advice);
}

void esi_file_map_will_need(const esi_file_map *map, uint64_t offset, uint64_t size)
{
    advise(map, offset, size, MADV_WILLNEED, true);
}

void esi_file_map_dont_need(const esi_file_map *map, uint64_t offset, uint64_t size)
{
    advise(map, offset, size, MADV_DONTNEED, false);
}

/* ------------------------------------------------------------- small files */

static espalier_status fail_too_big(espalier_context *ctx, const char *path, uint64_t max_bytes)
{
    char text[ESI_SIZE_TEXT];
    esi_size_text(text, max_bytes);
    return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: larger than the limit of %s", path, text);
}

/* Reads until the end; `room` is a guess. Pipes and files in /proc do not tell their size. */
static espalier_status read_all(espalier_context *ctx, uint8_t **data, size_t *size, int fd, size_t room, const char *path,
                                uint64_t max_bytes, espalier_status status)
{
    size_t used = 0;
    uint8_t *buffer = esi_alloc(ctx, room + 1, 1, path);
    if (buffer == NULL) return ESPALIER_ERR_RESOURCE;
    *data = buffer;
    for (;;) {
        ssize_t n = read(fd, buffer + used, room + 1 - used);
        if (n < 0 && errno == EINTR && !esi_cancel_requested(ctx)) continue;
        if (n < 0) return fail_errno(ctx, status, path, errno);
        if (n == 0) break;
        used += (size_t)n;
        if (used > max_bytes) return fail_too_big(ctx, path, max_bytes);
        if (used <= room) continue;
        room = room < 65536 ? 65536 : room * 2;
        buffer = esi_realloc(ctx, *data, room + 1, 1, path);
        if (buffer == NULL) return ESPALIER_ERR_RESOURCE;
        *data = buffer;
    }
    buffer[used] = 0;
    *size = used;
    return ESPALIER_OK;
}

espalier_status esi_file_read(espalier_context *ctx, uint8_t **out, size_t *size, const char *path, uint64_t max_bytes,
                              espalier_status status)
{
    struct stat info;
    espalier_status st;
    uint8_t *data = NULL;
    *out = NULL;
    *size = 0;
    max_bytes = ESI_MIN(max_bytes, (uint64_t)PTRDIFF_MAX / 4);
    int fd = esi_open(ctx, path, O_RDONLY);
    if (fd < 0) return fail_errno(ctx, status, path, errno);
    if (fstat(fd, &info) != 0)
        st = fail_errno(ctx, status, path, errno);
    else if (S_ISDIR(info.st_mode))
        st = fail_errno(ctx, status, path, EISDIR);
    else if (S_ISREG(info.st_mode) && (uint64_t)info.st_size > max_bytes)
        st = fail_too_big(ctx, path, max_bytes);
    else
        st = read_all(ctx, &data, size, fd, S_ISREG(info.st_mode) ? (size_t)info.st_size : 0, path, max_bytes, status);
    close(fd);
    if (st != ESPALIER_OK) {
        esi_free(ctx, data);
        return st;
    }
    *out = data;
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------- paths */

bool esi_path_is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool esi_path_is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

char *esi_path_join(espalier_context *ctx, const char *dir, const char *name)
{
    size_t len = strlen(dir);
    if (name[0] == '/' || len == 0) return esi_strdup(ctx, name);
    return esi_format(ctx, dir[len - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
}

const char *esi_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* A leading dot hides a file; it begins no suffix. */
const char *esi_path_suffix(const char *path)
{
    const char *name = esi_path_name(path);
    while (*name == '.') name++;
    const char *dot = strrchr(name, '.');
    return dot == NULL ? name + strlen(name) : dot;
}

/* ------------------------------------------------------------- directories */

typedef struct dir_entry {
    struct dir_entry *previous;
    char *name;
} dir_entry;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static espalier_status collect(espalier_context *ctx, esi_arena *arena, DIR *dir, const char *path, dir_entry **last, size_t *count,
                               espalier_status status)
{
    for (;;) {
        errno = 0;
        struct dirent *found = readdir(dir);
        if (found == NULL) return errno == 0 ? ESPALIER_OK : fail_errno(ctx, status, path, errno);
        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0) continue;
        dir_entry *entry = esi_arena_alloc(ctx, arena, 1, sizeof *entry);
        if (entry == NULL) return ESPALIER_ERR_RESOURCE;
        entry->name = esi_arena_strdup(ctx, arena, found->d_name, strlen(found->d_name));
        if (entry->name == NULL) return ESPALIER_ERR_RESOURCE;
        entry->previous = *last;
        *last = entry;
        ++*count;
    }
}

espalier_status esi_dir_list(espalier_context *ctx, esi_arena *arena, const char *path, char ***names, size_t *count,
                             espalier_status status)
{
    dir_entry *last = NULL;
    size_t n = 0;
    *names = NULL;
    *count = 0;
    DIR *dir = opendir(path);
    if (dir == NULL) {
        if (errno == ENOENT) return esi_fail(ctx, status, "%s: no such directory", path);
        if (errno == ENOTDIR) return esi_fail(ctx, status, "%s: not a directory", path);
        return fail_errno(ctx, status, path, errno);
    }
    espalier_status st = collect(ctx, arena, dir, path, &last, &n, status);
    closedir(dir);
    if (st != ESPALIER_OK) return st;
    char **list = esi_arena_alloc(ctx, arena, n, sizeof *list);
    if (list == NULL) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; last != NULL; last = last->previous) list[i++] = last->name;
    if (n > 1) qsort(list, n, sizeof *list, compare_names);
    *names = list;
    *count = n;
    return ESPALIER_OK;
}
