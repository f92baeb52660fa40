/* SPDX-License-Identifier: MIT
 *
 * O-Voxel files: every combination of filter, compression and interleave comes back, codes and octrees by hand, lying headers, bombs, files
 * cut at every byte, lack of memory, thread counts. The reference's own files are the golden case vxz.
 */
#include "support.h"

#include "formats/compress.h"
#include "formats/vxz_internal.h"

#include <math.h>

static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes;

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

/* A shell of a ball of radius r around (r, r, r) + shift, in an order that is none of the file's. */
static void make_ball(espalier_context *ctx, esi_vxz *v, int r, int shift)
{
    const int side = 2 * r + 1;
    int64_t n = 0;

    memset(v, 0, sizeof *v);
    v->coords = esi_alloc(ctx, (size_t)side * (size_t)side * (size_t)side, 12, "test voxels");
    for (int z = side - 1; z >= 0; z--) {
        for (int x = 0; x < side; x++) {
            for (int y = 0; y < side; y++) {
                const int d = (x - r) * (x - r) + (y - r) * (y - r) + (z - r) * (z - r);

                if (d > r * r || d < (r - 1) * (r - 1)) continue;
                v->coords[3 * n] = x + shift;
                v->coords[3 * n + 1] = y + shift;
                v->coords[3 * n++ + 2] = z + shift;
            }
        }
    }
    v->count = n;
    v->n_attrs = 3;
    for (int k = 0; k < 3; k++) {
        static const char *const names[] = {"base_color", "metallic", "note \"x\""};
        esi_vxz_attr *a = &v->attrs[k];

        snprintf(a->name, sizeof a->name, "%s", names[k]);
        a->channels = k == 0 ? 3 : k;
        a->values = esi_alloc(ctx, (size_t)n, (size_t)a->channels, "test voxels");
        for (int64_t i = 0; i < n * a->channels; i++) a->values[i] = (uint8_t)(v->coords[3 * (i / a->channels) + i % 3] * 7 + k * 50);
    }
}

static int compare_rows(const void *a, const void *b)
{
    return memcmp(a, b, 20);
}

/* Rows as bytes, sorted: coordinates and all attributes. */
static uint8_t *sorted(const esi_vxz *v)
{
    uint8_t *rows = calloc((size_t)v->count, 20);

    assert_non_null(rows);
    for (int64_t i = 0; i < v->count; i++) {
        size_t at = 12;

        memcpy(rows + 20 * i, v->coords + 3 * i, 12);
        for (int32_t k = 0; k < v->n_attrs; k++) {
            memcpy(rows + 20 * i + at, v->attrs[k].values + i * v->attrs[k].channels, (size_t)v->attrs[k].channels);
            at += (size_t)v->attrs[k].channels;
        }
    }
    qsort(rows, (size_t)v->count, 20, compare_rows);
    return rows;
}

static void expect_same(const esi_vxz *a, const esi_vxz *b)
{
    uint8_t *x, *y;

    assert_int_equal(b->count, a->count);
    assert_int_equal(b->n_attrs, a->n_attrs);
    for (int32_t k = 0; k < a->n_attrs; k++) {
        assert_string_equal(b->attrs[k].name, a->attrs[k].name);
        assert_int_equal(b->attrs[k].channels, a->attrs[k].channels);
    }
    x = sorted(a);
    y = sorted(b);
    assert_memory_equal(x, y, (size_t)a->count * 20);
    free(x);
    free(y);
}

static void every_combination(void **state)
{
    char path[1024], *dir = test_dir_make();
    test_base t;
    esi_vxz v;

    (void)state;
    test_base_open(&t, 2);
    make_ball(t.ctx, &v, 12, 90);
    for (int i = 0; i < 3 * 4 * 3 * 3; i++) {
        esi_vxz_options o = {.chunk_size = 16 << i % 3 * 2,
                             .filter = (esi_vxz_filter)(i / 3 % 3),
                             .interleave = (esi_vxz_interleave)(i / 9 % 3),
                             .compression = (esi_vxz_compression)(i / 27)};
        esi_vxz back;

        if (esi_vxz_write(t.ctx, &v, test_path(path, dir, "a.vxz"), &o) != ESPALIER_OK) fail_msg("%s", espalier_error_message(t.ctx));
        if (esi_vxz_read(t.ctx, &back, path) != ESPALIER_OK) fail_msg("%d: %s", i, espalier_error_message(t.ctx));
        expect_same(&v, &back);
        /* Order of the file: chunks by x, y, z, Morton order inside. */
        for (int64_t r = 1; r < back.count; r++) {
            const int32_t *p = back.coords + 3 * r - 3, *q = p + 3, s = o.chunk_size;
            int order = 0;

            for (int k = 0; k < 3 && order == 0; k++) order = p[k] / s - q[k] / s;
            assert_true(order <= 0);
            if (order == 0)
                assert_true(esi_morton_encode((uint32_t)(p[0] % s), (uint32_t)(p[1] % s), (uint32_t)(p[2] % s)) <
                            esi_morton_encode((uint32_t)(q[0] % s), (uint32_t)(q[1] % s), (uint32_t)(q[2] % s)));
        }
        esi_vxz_free(t.ctx, &back);
    }
    esi_vxz_free(t.ctx, &v);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void npz(void **state)
{
    char path[1024], *dir = test_dir_make();
    test_base t;
    esi_vxz v, back;

    (void)state;
    test_base_open(&t, 2);
    for (int shift = 0; shift <= 70000; shift += 70000) {      /* beyond 65535 coordinates need 32 bits */
        make_ball(t.ctx, &v, 5, shift);
        assert_int_equal(esi_vxz_write(t.ctx, &v, test_path(path, dir, "a.npz"), NULL), ESPALIER_OK);
        assert_int_equal(esi_vxz_read(t.ctx, &back, path), ESPALIER_OK);
        assert_int_equal(back.count, v.count);
        assert_memory_equal(back.coords, v.coords, (size_t)v.count * 12);      /* in the order given */
        expect_same(&v, &back);
        esi_vxz_free(t.ctx, &back);
        esi_vxz_free(t.ctx, &v);
    }
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

/* Two voxels (0, 0, 1) and (1, 1, 0) in a chunk of 2: codes 1 and 6, octree one byte 0x42. */
static void by_hand(void **state)
{
    static const uint32_t codes[2] = {1, 6};
    static const uint8_t values[4] = {10, 20, 13, 15};
    uint8_t tree[4], out[4], back[4];
    uint32_t point[3], again[8];
    size_t size, n;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(esi_morton_encode(0, 0, 1), 1);
    assert_int_equal(esi_morton_encode(1, 1, 0), 6);
    assert_int_equal(esi_morton_encode(1023, 0, 0), 0x24924924);
    esi_morton_decode(esi_morton_encode(1023, 5, 614), point);
    assert_true(point[0] == 1023 && point[1] == 5 && point[2] == 614);
    esi_octree_encode(tree, &size, codes, 2, 1);
    assert_int_equal(size, 1);
    assert_int_equal(tree[0], 0x42);
    assert_true(esi_octree_decode(again, 8, &n, tree, 1, 1) && n == 2 && again[0] == 1 && again[1] == 6);
    assert_false(esi_octree_decode(again, 1, &n, tree, 1, 1));             /* no room */
    assert_false(esi_octree_decode(again, 8, &n, tree, 1, 2));             /* children are missing */
    assert_false(esi_octree_decode(again, 8, &n, (const uint8_t *)"\x42\x01", 2, 1));
    assert_false(esi_octree_decode(again, 8, &n, (const uint8_t *)"\0", 1, 1));
    /* Parent: the first leaf, then the difference of the second. */
    esi_filter_parent_encode(out, values, 2, codes, 2, 1);
    assert_memory_equal(out, ((const uint8_t[4]){10, 20, 3, 251}), 4);
    esi_filter_parent_decode(back, out, 2, codes, 2, 1);
    assert_memory_equal(back, values, 4);
    /* Neighbour: (1, 1, 0) is none of (0, 0, 1)'s, so both are themselves. */
    assert_int_equal(esi_filter_neighbor(t.ctx, out, values, 2, codes, 2, false), ESPALIER_OK);
    assert_memory_equal(out, values, 4);
    test_base_close(&t);
}

/* ------------------------------------------------------------------ damage */

/* A file with this JSON and these bytes behind it. */
static size_t make_file(uint8_t *to, const char *json, const void *binary, size_t size)
{
    const size_t at = 8 + strlen(json);

    memcpy(to, "VXZ", 4);
    for (int i = 0; i < 4; i++) to[4 + i] = (uint8_t)(at >> (24 - 8 * i));
    memcpy(to + 8, json, at - 8);
    if (size > 0) memcpy(to + at, binary, size);
    return at + size;
}

static espalier_status try_json(espalier_context *ctx, const char *json, const void *binary, size_t size)
{
    uint8_t file[4096];
    const size_t n = make_file(file, json, binary, size);
    esi_vxz v;
    const espalier_status st = esi_vxz_parse(ctx, &v, file, n, "a.vxz");

    if (st == ESPALIER_OK) esi_vxz_free(ctx, &v);
    if (st != ESPALIER_OK) assert_true(espalier_error_message(ctx)[0] != '\0');
    esi_clear_error(ctx);
    assert_int_equal(espalier_context_memory_now(ctx), 0);
    return st;
}

#define VXZ(count, size, attrs, chunks) \
    "{\"num_voxel\":" count ",\"chunk_size\":" size ",\"filter\":\"none\",\"compression\":\"none\",\"compression_level\":null," \
    "\"attr_interleave\":\"as_is\",\"attr\":[" attrs "],\"chunks\":[" chunks "]}"
#define CHUNK "{\"idx\":[0,0,0],\"svo\":[0,1],\"a\":[1,2],\"ptr\":[0,3]}"
#define ATTR "[\"a\",1]"

static void lying_headers(void **state)
{
    static const uint8_t data[] = {0x42, 7, 9, 0x42, 7, 9};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    assert_int_equal(try_json(t.ctx, VXZ("2", "2", ATTR, CHUNK), data, 3), ESPALIER_OK);
    assert_int_equal(try_json(t.ctx, VXZ("0", "2", ATTR, ""), data, 0), ESPALIER_OK);
    static const char *const bad[] = {
        VXZ("3", "2", ATTR, CHUNK), VXZ("1", "2", ATTR, CHUNK), VXZ("-1", "2", ATTR, CHUNK), VXZ("4294967298", "2", ATTR, CHUNK),
        VXZ("2", "3", ATTR, CHUNK), VXZ("2", "0", ATTR, CHUNK), VXZ("2", "2048", ATTR, CHUNK), VXZ("2", "4", ATTR, CHUNK),
        VXZ("2", "2", "[\"a\",2]", CHUNK), VXZ("2", "2", "[\"a\",0]", CHUNK), VXZ("2", "2", "[\"a\",17]", CHUNK),
        VXZ("2", "2", "[\"\",1]", CHUNK), VXZ("2", "2", "[\"svo\",1]", CHUNK), VXZ("2", "2", "[\"b\",1]", CHUNK),
        VXZ("2", "2", ATTR "," ATTR, CHUNK), VXZ("4", "2", ATTR, CHUNK "," CHUNK),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0,0],\"svo\":[0,1],\"a\":[1,3],\"ptr\":[0,3]}"),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0,0],\"svo\":[0,1],\"a\":[1,2],\"ptr\":[0,7]}"),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0,0],\"svo\":[-1,1],\"a\":[1,2],\"ptr\":[0,3]}"),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0,0],\"svo\":[9223372036854775807,1],\"a\":[1,2],\"ptr\":[0,3]}"),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0,-1],\"svo\":[0,1],\"a\":[1,2],\"ptr\":[0,3]}"),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0,65536],\"svo\":[0,1],\"a\":[1,2],\"ptr\":[0,3]}"),
        VXZ("2", "2", ATTR, "{\"idx\":[0,0],\"svo\":[0,1],\"a\":[1,2],\"ptr\":[0,3]}"), VXZ("2", "2", ATTR, "7"),
        "{\"num_voxel\":2}", "[]", "", "{"};
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        if (try_json(t.ctx, bad[i], data, sizeof data) != ESPALIER_ERR_INPUT) fail_msg("accepted: %s", bad[i]);
    }
    test_base_close(&t);
}

/* A kilobyte that stands for a gigabyte: stopped at what the header allows. */
static void bombs(void **state)
{
    const size_t size = (size_t)8 << 20;
    uint8_t *zeros = calloc(size, 1), *packed, out[16], *grown;
    test_base t;

    (void)state;
    assert_non_null(zeros);
    test_base_open(&t, 1);
    for (int m = ESI_COMPRESSION_DEFLATE; m <= ESI_COMPRESSION_ZSTD; m++) {
        size_t n, got;
        char json[512];

        assert_int_equal(esi_compress(t.ctx, &packed, &n, zeros, size, (esi_compression)m, 0), ESPALIER_OK);
        assert_true(n < 16384);
        assert_int_equal(esi_decompress(t.ctx, out, sizeof out, packed, n, (esi_compression)m, 0, "bomb"), ESPALIER_ERR_INPUT);
        esi_clear_error(t.ctx);
        espalier_context_set_memory_budget(t.ctx, (uint64_t)4 << 20);
        assert_int_equal(esi_decompress_up_to(t.ctx, &grown, &got, 1000, packed, n, (esi_compression)m, 0, "bomb"), ESPALIER_ERR_INPUT);
        esi_clear_error(t.ctx);
        /* The whole of it, exactly, and from every cut nothing. */
        espalier_context_set_memory_budget(t.ctx, 0);
        assert_int_equal(esi_decompress_up_to(t.ctx, &grown, &got, size, packed, n, (esi_compression)m, 0, "bomb"), ESPALIER_OK);
        assert_int_equal(got, size);
        assert_memory_equal(grown, zeros, size);
        esi_free(t.ctx, grown);
        for (size_t cut = 0; cut < n; cut += 1 + n / 50) {
            assert_int_equal(esi_decompress_up_to(t.ctx, &grown, &got, size, packed, cut, (esi_compression)m, 0, "cut"),
                             ESPALIER_ERR_INPUT);
            esi_clear_error(t.ctx);
        }
        if (n < 3000) {
            uint8_t *file = malloc(n + 1024);

            assert_non_null(file);
            snprintf(json, sizeof json,
                     "{\"num_voxel\":8,\"chunk_size\":1024,\"compression\":\"%s\",\"attr\":[],\"chunks\":[{\"idx\":[0,0,0],"
                     "\"svo\":[0,%zu],\"ptr\":[0,%zu]}]}",
                     m == 1   ? "deflate"
                     : m == 2 ? "lzma"
                              : "zstd",
                     n, n);
            esi_vxz v;
            assert_int_equal(esi_vxz_parse(t.ctx, &v, file, make_file(file, json, packed, n), "bomb"), ESPALIER_ERR_INPUT);
            esi_clear_error(t.ctx);
            free(file);
        }
        esi_free(t.ctx, packed);
    }
    free(zeros);
    test_base_close(&t);
}

static void damaged_files(void **state)
{
    static const char *const names[] = {"a.vxz", "b.vxz", "c.npz"};
    char path[1024], *dir = test_dir_make();
    test_base t;
    esi_vxz v, back;

    (void)state;
    test_base_open(&t, 1);
    make_ball(t.ctx, &v, 2, 3);
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        const esi_vxz_options o = {.chunk_size = 8, .filter = ESI_VXZ_FILTER_NEIGHBOR,
                                   .compression = i == 0 ? ESI_VXZ_DEFLATE : ESI_VXZ_NONE};
        uint8_t *bytes;
        size_t size;

        assert_int_equal(esi_vxz_write(t.ctx, &v, test_path(path, dir, names[i]), &o), ESPALIER_OK);
        bytes = read_all(path, &size);
        for (size_t cut = 0; cut < size; cut++) {
            assert_int_equal(esi_vxz_parse(t.ctx, &back, bytes, cut, names[i]), ESPALIER_ERR_INPUT);
            esi_clear_error(t.ctx);
        }
        for (size_t bit = 0; bit < 8 * size; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (esi_vxz_parse(t.ctx, &back, bytes, size, names[i]) == ESPALIER_OK) {
                assert_int_equal(esi_vxz_check(t.ctx, &back, "flipped", ESPALIER_ERR_INPUT), ESPALIER_OK);
                esi_vxz_free(t.ctx, &back);
            } else {
                assert_true(espalier_error_message(t.ctx)[0] != '\0');
            }
            esi_clear_error(t.ctx);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        free(bytes);
    }
    esi_vxz_free(t.ctx, &v);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void refusals(void **state)
{
    char path[1024], *dir = test_dir_make();
    const esi_vxz_options usual = esi_vxz_options_default();
    esi_vxz_options o = usual;
    test_base t;
    esi_vxz v;

    (void)state;
    test_base_open(&t, 1);
    make_ball(t.ctx, &v, 3, 0);
    test_path(path, dir, "a.vxz");
    o.chunk_size = 12;
    assert_int_equal(esi_vxz_write(t.ctx, &v, path, &o), ESPALIER_ERR_ARG);
    o = usual;
    o.level = 10;
    esi_clear_error(t.ctx);
    assert_int_equal(esi_vxz_write(t.ctx, &v, path, &o), ESPALIER_ERR_ARG);
    for (int npz_too = 0; npz_too <= 1; npz_too++) {
        const int32_t kept = v.coords[7];

        test_path(path, dir, npz_too ? "a.npz" : "a.vxz");
        esi_clear_error(t.ctx);
        v.coords[7] = -1;
        assert_int_equal(esi_vxz_write(t.ctx, &v, path, NULL), ESPALIER_ERR_INTERNAL);
        v.coords[7] = kept;
        esi_clear_error(t.ctx);
        memcpy(v.coords, v.coords + 3, 12);      /* one cell twice */
        assert_int_equal(esi_vxz_write(t.ctx, &v, path, NULL), ESPALIER_ERR_INTERNAL);
        esi_clear_error(t.ctx);
        assert_int_equal(test_dir_count(dir), 0);
    }
    esi_vxz_free(t.ctx, &v);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void failing_allocations(void **state)
{
    static const char *const names[] = {"a.vxz", "b.vxz", "c.npz"};
    char path[1024], *dir = test_dir_make();
    test_base t;
    esi_vxz v, back;

    (void)state;
    test_base_open(&t, 1);
    make_ball(t.ctx, &v, 3, 6);
    const uint64_t before = espalier_context_memory_now(t.ctx);
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        const esi_vxz_options o = {.chunk_size = 8, .filter = (esi_vxz_filter)(1 + i % 2),
                                   .compression = i == 0 ? ESI_VXZ_LZMA : ESI_VXZ_DEFLATE};
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n;

        test_path(path, dir, names[i]);
        for (n = 1; st != ESPALIER_OK && n < 3000; n += n < 40 ? 1 : 5) {
            test_fail_at(&t.memory, n);
            st = esi_vxz_write(t.ctx, &v, path, &o);
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            esi_clear_error(t.ctx);
            assert_int_equal(espalier_context_memory_now(t.ctx), before);
        }
        assert_true(n > 4 && n < 3000);
        st = ESPALIER_ERR_RESOURCE;
        for (n = 1; st != ESPALIER_OK && n < 3000; n += n < 40 ? 1 : 5) {
            test_fail_at(&t.memory, n);
            st = esi_vxz_read(t.ctx, &back, path);
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            if (st == ESPALIER_OK) esi_vxz_free(t.ctx, &back);
            esi_clear_error(t.ctx);
            assert_int_equal(espalier_context_memory_now(t.ctx), before);
        }
        assert_true(n > 4 && n < 3000);
        test_fail_at(&t.memory, 0);
    }
    esi_vxz_free(t.ctx, &v);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void same_bytes_for_any_threads(void **state)
{
    char path[1024], *dir = test_dir_make();
    uint8_t *first = NULL;
    size_t first_size = 0;

    (void)state;
    for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        const esi_vxz_options o = {.chunk_size = 16, .filter = ESI_VXZ_FILTER_PARENT, .compression = ESI_VXZ_ZSTD};
        test_base t;
        esi_vxz v;
        uint8_t *bytes;
        size_t size;

        test_base_open(&t, threads);
        make_ball(t.ctx, &v, 12, 90);
        assert_int_equal(esi_vxz_write(t.ctx, &v, test_path(path, dir, "a.vxz"), &o), ESPALIER_OK);
        esi_vxz_free(t.ctx, &v);
        test_base_close(&t);
        bytes = read_all(path, &size);
        if (first) {
            assert_int_equal(size, first_size);
            assert_memory_equal(bytes, first, size);
            free(bytes);
        } else {
            first = bytes;
            first_size = size;
        }
    }
    free(first);
    test_dir_remove(dir);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination), cmocka_unit_test(npz), cmocka_unit_test(by_hand), cmocka_unit_test(lying_headers),
        cmocka_unit_test(bombs), cmocka_unit_test(damaged_files), cmocka_unit_test(refusals), cmocka_unit_test(failing_allocations),
        cmocka_unit_test(same_bytes_for_any_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
