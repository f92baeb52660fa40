/* SPDX-License-Identifier: MIT
 *
 * test_base_files.c: mapped and read files, directories, paths, the atomic writer.
 *
 * Linked with --wrap for write, fsync and rename where the linker can, to make the disk fail.
 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>

#ifdef TEST_WRAP
static int write_errno, fsync_errno, rename_errno;     /* 0 = the real thing */
static size_t write_most;                              /* a write takes at most this many bytes; 0 = all */
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (write_errno != 0) {
        errno = write_errno;
        if (write_errno == EINTR) write_errno = 0;     /* a signal comes once */
        return -1;
    }
    return __real_write(fd, bytes, write_most != 0 && size > write_most ? write_most : size);
}

int __wrap_fsync(int fd)
{
    if (fsync_errno == 0) return __real_fsync(fd);
    errno = fsync_errno;
    return -1;
}

int __wrap_rename(const char *from, const char *to)
{
    if (rename_errno == 0) return __real_rename(from, to);
    errno = rename_errno;
    return -1;
}
#endif

typedef struct fixture {
    test_base base;
    espalier_context *ctx;
    char *dir;
    char path[1024];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_base_open(&f->base, 1);
    f->ctx = f->base.ctx;
    f->dir = test_dir_make();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    test_base_close(&f->base);
    test_dir_remove(f->dir);
    free(f->dir);
    free(f);
    return 0;
}

static const char *at(fixture *f, const char *name)
{
    return test_path(f->path, f->dir, name);
}

static void put(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void assert_content(const char *path, const void *bytes, size_t size)
{
    char *data = malloc(size + 2);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(data, 1, size + 1, file), size);
    fclose(file);
    assert_memory_equal(data, bytes, size);
    free(data);
}

/* The pending error is "<dir>/<name><rest>". */
static void assert_error(fixture *f, espalier_status got, espalier_status status, const char *name, const char *rest)
{
    char expected[2048];
    snprintf(expected, sizeof expected, "%s/%s%s", f->dir, name, rest);
    assert_string_equal(espalier_error_message(f->ctx), expected);
    assert_int_equal(got, status);
    assert_int_equal(f->ctx->error_status, status);
    esi_clear_error(f->ctx);
}

/* -------------------------------------------------------------------- maps */

static void maps(void **state)
{
    fixture *f = *state;
    esi_file_map *map;
    char big[20000];
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i * 7);
    put(at(f, "big"), big, sizeof big);
    assert_int_equal(esi_file_map_open(f->ctx, &map, at(f, "big"), ESPALIER_ERR_MODEL), ESPALIER_OK);
    assert_int_equal(esi_file_map_size(map), sizeof big);
    assert_string_equal(esi_file_map_path(map), at(f, "big"));
    assert_ptr_equal(esi_file_map_retain(map), map);
    esi_file_map_release(map);
    esi_file_map_will_need(map, 5000, 1000);
    esi_file_map_dont_need(map, 100, 19900);
    esi_file_map_dont_need(map, 0, UINT64_MAX);
    esi_file_map_will_need(map, UINT64_MAX, UINT64_MAX);
    assert_memory_equal(esi_file_map_data(map), big, sizeof big);
    assert_int_equal(remove(at(f, "big")), 0);
    assert_memory_equal(esi_file_map_data(map), big, sizeof big);       /* lives as long as the map */
    esi_file_map_release(map);
    esi_file_map_release(NULL);
}

static void map_outlives_its_context(void **state)
{
    fixture *f = *state;
    esi_file_map *map;
    espalier_context *ctx;
    put(at(f, "a"), "abc", 3);
    assert_int_equal(espalier_context_create(&ctx, &f->base.runtime), ESPALIER_OK);
    assert_int_equal(esi_file_map_open(ctx, &map, at(f, "a"), ESPALIER_ERR_MODEL), ESPALIER_OK);
    espalier_context_free(ctx);
    assert_memory_equal(esi_file_map_data(map), "abc", 3);
    esi_file_map_release(map);
}

static void maps_that_fail(void **state)
{
    fixture *f = *state;
    esi_file_map *map;
    put(at(f, "empty"), "", 0);
    assert_int_equal(esi_file_map_open(f->ctx, &map, at(f, "empty"), ESPALIER_ERR_MODEL), ESPALIER_OK);
    assert_int_equal(esi_file_map_size(map), 0);
    assert_non_null(esi_file_map_data(map));
    esi_file_map_will_need(map, 0, 10);
    esi_file_map_release(map);

    espalier_status st = esi_file_map_open(f->ctx, &map, at(f, "missing"), ESPALIER_ERR_MODEL);
    assert_null(map);
    assert_error(f, st, ESPALIER_ERR_MODEL, "missing", ": no such file");
    st = esi_file_map_open(f->ctx, &map, at(f, "."), ESPALIER_ERR_INPUT);
    assert_error(f, st, ESPALIER_ERR_INPUT, ".", ": is a directory, not a file");
    st = esi_file_map_open(f->ctx, &map, at(f, "empty/x"), ESPALIER_ERR_INPUT);
    assert_error(f, st, ESPALIER_ERR_INPUT, "empty/x", ": a part of the path is not a directory");
    assert_int_equal(mkfifo(at(f, "fifo"), 0600), 0);
    st = esi_file_map_open(f->ctx, &map, at(f, "fifo"), ESPALIER_ERR_INPUT);
    assert_error(f, st, ESPALIER_ERR_INPUT, "fifo", ": not a regular file");

    put(at(f, "a"), "abc", 3);
    test_fail_at(&f->base.memory, 1);
    st = esi_file_map_open(f->ctx, &map, at(f, "a"), ESPALIER_ERR_MODEL);
    assert_int_equal(st, ESPALIER_ERR_RESOURCE);
    assert_null(map);
}

/* ------------------------------------------------------------- small files */

static void reads(void **state)
{
    fixture *f = *state;
    uint8_t *data;
    size_t size;
    put(at(f, "a"), "abc", 3);
    assert_int_equal(esi_file_read(f->ctx, &data, &size, at(f, "a"), 3, ESPALIER_ERR_INPUT), ESPALIER_OK);
    assert_int_equal(size, 3);
    assert_string_equal((char *)data, "abc");
    esi_free(f->ctx, data);
    put(at(f, "empty"), "", 0);
    assert_int_equal(esi_file_read(f->ctx, &data, &size, at(f, "empty"), 0, ESPALIER_ERR_INPUT), ESPALIER_OK);
    assert_int_equal(size, 0);
    assert_string_equal((char *)data, "");
    esi_free(f->ctx, data);

    espalier_status st = esi_file_read(f->ctx, &data, &size, at(f, "a"), 2, ESPALIER_ERR_INPUT);
    assert_null(data);
    assert_error(f, st, ESPALIER_ERR_RESOURCE, "a", ": larger than the limit of 2 bytes");
    st = esi_file_read(f->ctx, &data, &size, at(f, "missing"), 9, ESPALIER_ERR_INPUT);
    assert_error(f, st, ESPALIER_ERR_INPUT, "missing", ": no such file");
    st = esi_file_read(f->ctx, &data, &size, at(f, "."), 9, ESPALIER_ERR_MODEL);
    assert_error(f, st, ESPALIER_ERR_MODEL, ".", ": is a directory, not a file");
}

/* Files that do not tell their size. */
static void reads_devices(void **state)
{
    fixture *f = *state;
    uint8_t *data;
    size_t size;
    assert_int_equal(esi_file_read(f->ctx, &data, &size, "/dev/null", 10, ESPALIER_ERR_INPUT), ESPALIER_OK);
    assert_int_equal(size, 0);
    esi_free(f->ctx, data);
    assert_int_equal(esi_file_read(f->ctx, &data, &size, "/dev/zero", 300000, ESPALIER_ERR_INPUT), ESPALIER_ERR_RESOURCE);
    assert_string_equal(espalier_error_message(f->ctx), "/dev/zero: larger than the limit of 293 KiB");
    assert_null(data);
}

/* ------------------------------------------------------- directories, paths */

static void lists(void **state)
{
    fixture *f = *state;
    esi_arena arena = {0};
    char **names;
    size_t count;
    assert_int_equal(esi_dir_list(f->ctx, &arena, f->dir, &names, &count, ESPALIER_ERR_MODEL), ESPALIER_OK);
    assert_int_equal(count, 0);
    static const char *const files[] = {"b", "a", "B", "\xC3\xA9", "a.txt", "aa", ".hidden", "10", "9"};
    static const char *const sorted[] = {".hidden", "10", "9", "B", "a", "a.txt", "aa", "b", "\xC3\xA9"};
    for (size_t i = 0; i < ESI_COUNT(files); i++) put(at(f, files[i]), "", 0);
    assert_int_equal(esi_dir_list(f->ctx, &arena, f->dir, &names, &count, ESPALIER_ERR_MODEL), ESPALIER_OK);
    assert_int_equal(count, ESI_COUNT(sorted));
    for (size_t i = 0; i < count; i++) assert_string_equal(names[i], sorted[i]);
    esi_arena_free(f->ctx, &arena);
    espalier_status st = esi_dir_list(f->ctx, &arena, at(f, "nowhere"), &names, &count, ESPALIER_ERR_MODEL);
    assert_error(f, st, ESPALIER_ERR_MODEL, "nowhere", ": no such directory");
    st = esi_dir_list(f->ctx, &arena, at(f, "a"), &names, &count, ESPALIER_ERR_MODEL);
    assert_error(f, st, ESPALIER_ERR_MODEL, "a", ": not a directory");
    for (long n = 1;; n++) {
        test_fail_at(&f->base.memory, n);
        st = esi_dir_list(f->ctx, &arena, f->dir, &names, &count, ESPALIER_ERR_MODEL);
        esi_arena_free(f->ctx, &arena);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_null(names);
        esi_clear_error(f->ctx);
    }
}

static void check_join(espalier_context *ctx, const char *dir, const char *name, const char *expected)
{
    char *joined = esi_path_join(ctx, dir, name);
    assert_string_equal(joined, expected);
    esi_free(ctx, joined);
}

static void paths(void **state)
{
    fixture *f = *state;
    check_join(f->ctx, "a", "b", "a/b");
    check_join(f->ctx, "a/", "b", "a/b");
    check_join(f->ctx, "/", "b", "/b");
    check_join(f->ctx, "", "b", "b");
    check_join(f->ctx, "a", "/b", "/b");
    assert_string_equal(esi_path_name("a/b.c/d.glb"), "d.glb");
    assert_string_equal(esi_path_name("d.glb"), "d.glb");
    assert_string_equal(esi_path_name("a/"), "");
    assert_string_equal(esi_path_suffix("a.b/d.glb"), ".glb");
    assert_string_equal(esi_path_suffix("a.b/d"), "");
    assert_string_equal(esi_path_suffix("a/.hidden"), "");
    assert_string_equal(esi_path_suffix("a/.hidden.txt"), ".txt");
    assert_string_equal(esi_path_suffix("a/.."), "");
    assert_string_equal(esi_path_suffix("x.tar.gz"), ".gz");
    put(at(f, "a"), "", 0);
    assert_true(esi_path_is_file(at(f, "a")));
    assert_false(esi_path_is_dir(at(f, "a")));
    assert_true(esi_path_is_dir(f->dir));
    assert_false(esi_path_is_file(f->dir));
    assert_false(esi_path_is_dir(at(f, "missing")));
    assert_int_equal(symlink("a", at(f, "link")), 0);
    assert_true(esi_path_is_file(at(f, "link")));
}

/* ------------------------------------------------------------------ writer */

static void writes(void **state)
{
    fixture *f = *state;
    esi_writer *w;
    const size_t total = 3 + 700000 + 100000 + 5;
    char *expected = calloc(1, total), *big = malloc(700000);
    for (size_t i = 0; i < 700000; i++) big[i] = (char)(i * 11 >> 3);
    memcpy(expected, "abc", 3);
    memcpy(expected + 3, big, 700000);
    memcpy(expected + 3 + 700000 + 100000, "defgh", 5);

    put(at(f, "out"), "old", 3);
    mode_t mask = umask(027);
    assert_int_equal(esi_writer_open(f->ctx, &w, at(f, "out")), ESPALIER_OK);
    umask(mask);
    assert_int_equal(esi_writer_write(w, "abc", 3), ESPALIER_OK);
    assert_int_equal(esi_writer_write(w, NULL, 0), ESPALIER_OK);
    assert_int_equal(esi_writer_write(w, big, 700000), ESPALIER_OK);
    assert_int_equal(esi_writer_zeros(w, 100000), ESPALIER_OK);
    assert_int_equal(esi_writer_write(w, "defgh", 5), ESPALIER_OK);
    assert_int_equal(esi_writer_position(w), total);
    assert_content(at(f, "out"), "old", 3);                    /* untouched until commit */
    assert_int_equal(test_dir_count(f->dir), 2);
    assert_int_equal(esi_writer_commit(w), ESPALIER_OK);
    assert_content(at(f, "out"), expected, total);
    assert_int_equal(test_dir_count(f->dir), 1);
    struct stat info;
    assert_int_equal(stat(at(f, "out"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0640);
    assert_int_equal(esi_file_write_all(f->ctx, at(f, "new"), "x", 1), ESPALIER_OK);
    assert_content(at(f, "new"), "x", 1);
    free(big);
    free(expected);
}

static void small_writes_fill_the_buffer(void **state)
{
    fixture *f = *state;
    esi_writer *w;
    char *expected = malloc(999 * 701);
    assert_int_equal(esi_writer_open(f->ctx, &w, at(f, "out")), ESPALIER_OK);
    for (int i = 0; i < 701; i++) {
        memset(expected + 999 * i, i, 999);
        assert_int_equal(esi_writer_write(w, expected + 999 * i, 999), ESPALIER_OK);
    }
    assert_int_equal(esi_writer_commit(w), ESPALIER_OK);
    assert_content(at(f, "out"), expected, 999 * 701);
    free(expected);
}

static void aborts(void **state)
{
    fixture *f = *state;
    esi_writer *w;
    put(at(f, "out"), "old", 3);
    assert_int_equal(esi_writer_open(f->ctx, &w, at(f, "out")), ESPALIER_OK);
    assert_int_equal(esi_writer_zeros(w, 1000000), ESPALIER_OK);
    esi_writer_abort(w);
    esi_writer_abort(NULL);
    assert_content(at(f, "out"), "old", 3);
    assert_int_equal(test_dir_count(f->dir), 1);
}

static espalier_status open_only(fixture *f, const char *path)
{
    esi_writer *w = (esi_writer *)f;
    espalier_status st = esi_writer_open(f->ctx, &w, path);
    assert_null(w);
    return st;
}

static void targets_that_are_refused(void **state)
{
    fixture *f = *state;
    put(at(f, "file"), "", 0);
    assert_error(f, open_only(f, at(f, ".")), ESPALIER_ERR_OUTPUT, ".", ": is a directory; give a file name");
    assert_error(f, open_only(f, at(f, "none/out")), ESPALIER_ERR_OUTPUT, "none/out", ": cannot be created: no such directory");
    assert_error(f, open_only(f, at(f, "none/")), ESPALIER_ERR_OUTPUT, "none/", ": no such directory");
    assert_error(f, open_only(f, at(f, "file/out")), ESPALIER_ERR_OUTPUT, "file/out",
                 ": cannot be created: a part of the path is not a directory");
    assert_int_equal(open_only(f, ""), ESPALIER_ERR_OUTPUT);
    assert_string_equal(espalier_error_message(f->ctx), "the name of the output file is empty");
    assert_int_equal(test_dir_count(f->dir), 1);
}

/* Root may write everywhere, so the test gives that up for the moment. */
static void directories_without_permission(void **state)
{
    fixture *f = *state;
    bool root = geteuid() == 0;
    put(at(f, "locked"), "old", 3);
    assert_int_equal(chmod(at(f, "locked"), 0444), 0);
    assert_int_equal(chmod(f->dir, 0555), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    espalier_status fresh = open_only(f, at(f, "out"));
    char fresh_text[1024];
    snprintf(fresh_text, sizeof fresh_text, "%s", espalier_error_message(f->ctx));
    esi_clear_error(f->ctx);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f->dir, 0777), 0);
    if (root) assert_int_equal(seteuid(65534), 0);
    espalier_status locked = open_only(f, at(f, "locked"));
    if (root) assert_int_equal(seteuid(0), 0);
    assert_error(f, locked, ESPALIER_ERR_OUTPUT, "locked", ": cannot be replaced: permission denied");
    assert_int_equal(chmod(f->dir, 0700), 0);
    assert_int_equal(fresh, ESPALIER_ERR_OUTPUT);
    assert_non_null(strstr(fresh_text, "/out: cannot be created: permission denied"));
    assert_content(at(f, "locked"), "old", 3);
    assert_int_equal(test_dir_count(f->dir), 1);
}

static void long_names(void **state)
{
    fixture *f = *state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    assert_int_equal(esi_file_write_all(f->ctx, at(f, name), "x", 1), ESPALIER_OK);
    assert_content(at(f, name), "x", 1);
    assert_int_equal(test_dir_count(f->dir), 1);
}

static void links_are_followed(void **state)
{
    fixture *f = *state;
    struct stat info;
    put(at(f, "real"), "old", 3);
    assert_int_equal(symlink("real", at(f, "link")), 0);
    assert_int_equal(esi_file_write_all(f->ctx, at(f, "link"), "new!", 4), ESPALIER_OK);
    assert_int_equal(lstat(at(f, "link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_content(at(f, "real"), "new!", 4);
    assert_int_equal(symlink("nothing", at(f, "dangling")), 0);
    assert_int_equal(esi_file_write_all(f->ctx, at(f, "dangling"), "d", 1), ESPALIER_OK);
    assert_content(at(f, "dangling"), "d", 1);
    assert_int_equal(test_dir_count(f->dir), 3);
}

static void devices_are_written_directly(void **state)
{
    fixture *f = *state;
    struct stat info;
    assert_int_equal(esi_file_write_all(f->ctx, "/dev/null", "abc", 3), ESPALIER_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
#if defined(__linux__)
    assert_int_equal(esi_file_write_all(f->ctx, "/dev/full", "abc", 3), ESPALIER_ERR_OUTPUT);
    assert_string_equal(espalier_error_message(f->ctx), "/dev/full: cannot be written: no space left on the disk");
    esi_clear_error(f->ctx);
#endif
    char got[4] = "";
    assert_int_equal(mkfifo(at(f, "fifo"), 0600), 0);
    int fd = open(at(f, "fifo"), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(esi_file_write_all(f->ctx, at(f, "fifo"), "abc", 3), ESPALIER_OK);
    assert_int_equal(read(fd, got, 3), 3);
    assert_string_equal(got, "abc");
    close(fd);
    assert_int_equal(test_dir_count(f->dir), 1);
}

/* A file system that takes no more: the size limit of the process has the same effect as a full disk. */
static void files_that_grow_too_large(void **state)
{
    fixture *f = *state;
    esi_writer *w;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    espalier_status opened = esi_writer_open(f->ctx, &w, at(f, "out"));
    espalier_status wrote = esi_writer_zeros(w, 1000000), again = esi_writer_write(w, "x", 1);
    int left = test_dir_count(f->dir);
    espalier_status committed = esi_writer_commit(w);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(opened, ESPALIER_OK);
    assert_int_equal(wrote, ESPALIER_ERR_OUTPUT);
    assert_int_equal(again, ESPALIER_ERR_OUTPUT);
    assert_int_equal(left, 0);                               /* removed at once, not only at the end */
    assert_error(f, committed, ESPALIER_ERR_OUTPUT, "out", ": cannot be written: the file would become too large");
}

#ifdef TEST_WRAP
static espalier_status write_with(fixture *f, int *switch_to_set, int error)
{
    *switch_to_set = error;
    espalier_status st = esi_file_write_all(f->ctx, at(f, "out"), "new", 3);
    *switch_to_set = 0;
    return st;
}
#endif

static void disks_that_fail(void **state)
{
    fixture *f = *state;
    put(at(f, "out"), "old", 3);
#ifdef TEST_WRAP
    assert_error(f, write_with(f, &write_errno, ENOSPC), ESPALIER_ERR_OUTPUT, "out", ": cannot be written: no space left on the disk");
    assert_error(f, write_with(f, &fsync_errno, EIO), ESPALIER_ERR_OUTPUT, "out", ": cannot be written: input/output error");
    assert_error(f, write_with(f, &rename_errno, EROFS), ESPALIER_ERR_OUTPUT, "out",
                 ": cannot be replaced: the file system is read-only");
    assert_error(f, write_with(f, &rename_errno, 9999), ESPALIER_ERR_OUTPUT, "out", ": cannot be replaced: system error 9999");
    /* Only a job that was asked to stop is cancelled by a signal; otherwise the file is not there and that is an error. */
    assert_error(f, write_with(f, &rename_errno, EINTR), ESPALIER_ERR_OUTPUT, "out", ": cannot be replaced: interrupted by a signal");
    assert_content(at(f, "out"), "old", 3);
    assert_int_equal(test_dir_count(f->dir), 1);
    assert_int_equal(write_with(f, &fsync_errno, EINVAL), ESPALIER_OK);      /* a file system that cannot sync */
    put(at(f, "out"), "old", 3);
    write_most = 1;                                                          /* short writes are continued */
    espalier_status st = write_with(f, &write_errno, EINTR);
    write_most = 0;
    assert_int_equal(st, ESPALIER_OK);
    assert_content(at(f, "out"), "new", 3);
    espalier_context_cancel(f->ctx);
    assert_int_equal(write_with(f, &write_errno, EINTR), ESPALIER_ERR_CANCELLED);
    assert_string_equal(espalier_error_message(f->ctx), "cancelled");
    assert_int_equal(test_dir_count(f->dir), 1);
#else
    skip();
#endif
}

static void writer_allocations_may_fail(void **state)
{
    fixture *f = *state;
    long n = 1;
    put(at(f, "real"), "old", 3);
    assert_int_equal(symlink("real", at(f, "link")), 0);
    for (;; n++) {
        test_fail_at(&f->base.memory, n);
        espalier_status st = esi_file_write_all(f->ctx, at(f, "link"), "new", 3);
        assert_int_equal(espalier_context_memory_now(f->ctx), 0);
        assert_int_equal(test_dir_count(f->dir), 2);
        if (st == ESPALIER_OK) break;
        assert_int_equal(st, ESPALIER_ERR_RESOURCE);
        assert_content(at(f, "real"), "old", 3);
        esi_clear_error(f->ctx);
    }
    assert_int_equal(n, 6);
    assert_content(at(f, "real"), "new", 3);
}

#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(maps),
        FILE_TEST(map_outlives_its_context),
        FILE_TEST(maps_that_fail),
        FILE_TEST(reads),
        FILE_TEST(reads_devices),
        FILE_TEST(lists),
        FILE_TEST(paths),
        FILE_TEST(writes),
        FILE_TEST(small_writes_fill_the_buffer),
        FILE_TEST(aborts),
        FILE_TEST(targets_that_are_refused),
        FILE_TEST(directories_without_permission),
        FILE_TEST(long_names),
        FILE_TEST(links_are_followed),
        FILE_TEST(devices_are_written_directly),
        FILE_TEST(files_that_grow_too_large),
        FILE_TEST(disks_that_fail),
        FILE_TEST(writer_allocations_may_fail),
    };
    return cmocka_run_group_tests_name("base_files", tests, NULL, NULL);
}
