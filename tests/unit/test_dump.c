/* SPDX-License-Identifier: MIT
 *
 * Dumps: what is written is read back; layouts of other tools byte for byte; hostile files are refused. With `--corpus DIR` as arguments
 * it writes the seeds of tests/fuzz/corpus/dump instead.
 */
#include "asset_fixture.h"

#include "formats/bytes.h"
#include "formats/dump.h"
#include "formats/json.h"
#include "formats/weights.h"

#include <math.h>

static const char *const suffixes[] = {"a.espd", "a.qtm3d", "a.trellisraw"};

static void same(const void *a, const void *b, size_t bytes)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a) assert_memory_equal(a, b, bytes);
}

static void lossless(void **state)
{
    asset_fixture f;
    test_base t;
    esi_dump dump;
    const esi_asset *a = &dump.asset;
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    test_path(path, dir, "a.espd");
    for (int variant = 0; variant < 4; variant++) {
        if (variant == 1) f.asset.attrs = NULL;
        if (variant == 2) f.asset.n_levels = 0;
        if (variant == 3) {
            f.asset = (esi_asset){.n_voxels = 6, .coords = f.coords[0], .resolution = 8};
        }
        assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
        assert_int_equal(esi_dump_read(t.ctx, &dump, path), ESPALIER_OK);
        assert_int_equal(dump.format, ESI_DUMP_ESPD);
        assert_int_equal(a->n_vertices, f.asset.n_vertices);
        assert_int_equal(a->n_faces, f.asset.n_faces);
        assert_int_equal(a->n_voxels, 6);
        same(a->vertices, f.asset.vertices, sizeof f.vertices);
        same(a->faces, f.asset.faces, sizeof f.faces);
        same(a->coords, f.asset.coords, sizeof f.coords);
        same(a->attrs, f.asset.attrs, sizeof f.attrs);
        same(a->local, f.asset.local, sizeof f.local);
        same(a->intersect_logits, f.asset.intersect_logits, sizeof f.logits);
        same(a->split_weight, f.asset.split_weight, sizeof f.split);
        assert_int_equal(a->n_levels, f.asset.n_levels);
        for (int i = 0; i < a->n_levels; i++) {
            assert_int_equal(a->levels[i].count, 2);
            same(a->levels[i].coords, f.parents[i], sizeof f.parents[i]);
            same(a->levels[i].logits, f.decisions[i], sizeof f.decisions[i]);
        }
        assert_int_equal(a->resolution, 8);
        assert_int_equal(a->seed, f.asset.seed);
        assert_string_equal(a->generator, "espalier " ESPALIER_VERSION_STRING);
        if (variant < 3) {
            assert_string_equal(a->pipeline_type, "512");
            for (int i = 0; i < 4; i++) assert_string_equal(a->extras[i], f.extras[i]);
            assert_null(a->extras[4]);
        } else {
            assert_null(a->pipeline_type);
            assert_null(a->extras);
        }
        esi_dump_free(t.ctx, &dump);
    }
    esi_dump_free(t.ctx, &dump);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static float clamped(float v)
{
    return v < 0.0f ? 0.0f : v > 1.0f ? 1.0f : v;
}

/* trellis.cpp's layout, byte by byte. */
static void trellis_bytes(void **state)
{
    asset_fixture f;
    test_base t;
    esi_dump dump;
    char path[1024], *dir = test_dir_make();
    uint8_t *bytes;
    size_t size;
    float v;

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    test_path(path, dir, "a.trellisraw");
    assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
    bytes = test_read_file(path, &size);
    assert_int_equal(size, 16 + 72 + 36 + 72 + 144);
    for (size_t i = 0; i < 4; i++) assert_int_equal(esi_load_u32le(bytes + 4 * i), ((const uint32_t[]){6, 3, 6, 8}[i]));
    assert_memory_equal(bytes + 16, f.vertices, 72);
    assert_memory_equal(bytes + 88, f.faces, 36);
    for (size_t i = 0; i < 18; i++) assert_int_equal(esi_load_u32le(bytes + 124 + 4 * i), f.coords[i / 3][1 + i % 3]);
    for (size_t i = 0; i < 36; i++) {
        memcpy(&v, bytes + 196 + 4 * i, 4);
        assert_true(v == clamped(f.attrs[i / 6][i % 6]));
    }
    free(bytes);
    assert_int_equal(esi_dump_read(t.ctx, &dump, path), ESPALIER_OK);
    assert_int_equal(dump.format, ESI_DUMP_TRELLIS);
    assert_int_equal(dump.asset.n_faces, 3);
    assert_int_equal(dump.asset.resolution, 8);
    assert_memory_equal(dump.asset.coords, f.coords, sizeof f.coords);
    assert_null(dump.asset.intersect_logits);
    assert_true(dump.asset.attrs[13] == 1.0f);
    esi_dump_free(t.ctx, &dump);
    /* Geometry only: no voxels. */
    f.asset.attrs = NULL;
    assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
    bytes = test_read_file(path, &size);
    assert_int_equal(size, 16 + 72 + 36);
    assert_int_equal(esi_load_u32le(bytes + 8), 0);
    free(bytes);
    assert_int_equal(esi_dump_read(t.ctx, &dump, path), ESPALIER_OK);
    assert_null(dump.asset.attrs);
    assert_null(dump.asset.coords);
    esi_dump_free(t.ctx, &dump);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static const uint8_t *blob(const esi_json *json, const uint8_t *start, const char *name, const char *dtype, int64_t rows, int64_t columns)
{
    const esi_json *entry = esi_json_get(esi_json_get(json, "arrays"), name);
    const char *text = NULL;
    int64_t n = -1;

    assert_non_null(entry);
    assert_true(esi_json_string(esi_json_get(entry, "dtype"), &text));
    assert_string_equal(text, dtype);
    assert_true(esi_json_int(esi_json_at(esi_json_get(entry, "shape"), 0), &n) && n == rows);
    assert_true(esi_json_int(esi_json_at(esi_json_get(entry, "shape"), 1), &n) && n == columns);
    assert_true(esi_json_int(esi_json_get(entry, "offset"), &n) && n % 16 == 0);
    return start + n;
}

static void qtm3d_bytes(void **state)
{
    asset_fixture f;
    test_base t;
    esi_dump dump;
    char path[1024], *dir = test_dir_make();
    uint8_t *bytes;
    const uint8_t *start, *p;
    size_t size, json_size;
    esi_json *json = NULL;
    const char *text = NULL;
    double number = 0;

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    test_path(path, dir, "a.qtm3d");
    assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
    bytes = test_read_file(path, &size);
    assert_memory_equal(bytes, "QTMESH3D\1\0\0\0", 12);
    json_size = esi_load_u32le(bytes + 12);
    assert_int_equal(esi_json_parse(t.ctx, &json, bytes + 16, json_size, path, ESPALIER_ERR_INPUT), ESPALIER_OK);
    start = bytes + (16 + json_size + 15) / 16 * 16;
    for (p = bytes + 16 + json_size; p < start; p++) assert_int_equal(*p, 0);
    assert_memory_equal(blob(json, start, "positions", "f32", 6, 3), f.vertices, 72);
    assert_memory_equal(blob(json, start, "indices", "u32", 3, 3), f.faces, 36);
    p = blob(json, start, "voxel_coords", "u16", 6, 3);
    for (size_t i = 0; i < 18; i++) assert_int_equal(esi_load_u16le(p + 2 * i), f.coords[i / 3][1 + i % 3]);
    p = blob(json, start, "voxel_attrs", "u8", 6, 6);
    for (size_t i = 0; i < 36; i++) assert_int_equal(p[i], (int)floor((double)clamped(f.attrs[i / 6][i % 6]) * 255.0 + 0.5));
    assert_int_equal(p + 36 - bytes, size);
    assert_true(esi_json_string(esi_json_path(json, "meta.colorSpace"), &text));
    assert_string_equal(text, "srgb");
    assert_true(esi_json_double(esi_json_path(json, "meta.voxelSize"), &number) && number == 0.125);
    assert_true(esi_json_double(esi_json_path(json, "meta.seed"), &number) && number == -42.0);
    assert_true(esi_json_double(esi_json_get(json, "formatVersion"), &number) && number == 1.0);
    esi_json_free(json);
    free(bytes);

    assert_int_equal(esi_dump_read(t.ctx, &dump, path), ESPALIER_OK);
    assert_int_equal(dump.format, ESI_DUMP_QTM3D);
    assert_memory_equal(dump.asset.vertices, f.vertices, sizeof f.vertices);
    assert_memory_equal(dump.asset.faces, f.faces, sizeof f.faces);
    assert_memory_equal(dump.asset.coords, f.coords, sizeof f.coords);
    for (size_t i = 0; i < 36; i++) assert_true(fabsf(dump.asset.attrs[i] - clamped(f.attrs[i / 6][i % 6])) <= 0.5f / 255.0f + 1e-6f);
    assert_string_equal(dump.asset.pipeline_type, "512");
    assert_string_equal(dump.asset.generator, "espalier " ESPALIER_VERSION_STRING);
    assert_int_equal(dump.asset.seed, -42);
    esi_dump_free(t.ctx, &dump);
    /* Beyond 65536 cells 16 bits are too few. */
    f.asset.resolution = 131072;
    f.coords[2][1] = 131071;
    assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
    assert_int_equal(esi_dump_read(t.ctx, &dump, path), ESPALIER_OK);
    assert_memory_equal(dump.asset.coords, f.coords, sizeof f.coords);
    esi_dump_free(t.ctx, &dump);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

/* Written twice: equal bytes, nothing left over. */
static void reproducible(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    for (size_t i = 0; i < ESI_COUNT(suffixes); i++) {
        uint8_t *first, *second;
        size_t n, m;

        test_path(path, dir, suffixes[i]);
        assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
        first = test_read_file(path, &n);
        assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_OK);
        second = test_read_file(path, &m);
        assert_int_equal(n, m);
        assert_memory_equal(first, second, n);
        free(first);
        free(second);
    }
    assert_int_equal(test_dir_count(dir), 3);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void writer_refusals(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    for (size_t s = 0; s < ESI_COUNT(suffixes); s++) {
        test_path(path, dir, suffixes[s]);
        for (int i = 0; i < 7; i++) {
            espalier_status wanted = ESPALIER_ERR_INTERNAL;

            asset_fixture_init(&f);
            if (i == 0) f.faces[1][1] = 6;
            if (i == 1) f.vertices[0][0] = NAN;
            if (i == 2) f.coords[5][2] = 8;
            if (i == 3) f.decisions[1][1][7] = INFINITY;
            if (i == 1 || i == 3) wanted = ESPALIER_ERR_SOUNDNESS;
            if (i == 4) f.asset.resolution = 0;
            if (i == 5 && s > 0) {                       /* formats of others: one object, some faces */
                f.coords[3][0] = 1;
                wanted = ESPALIER_ERR_ARG;
            }
            if (i == 6 && s > 0) {
                f.asset.n_faces = 0;
                wanted = ESPALIER_ERR_SOUNDNESS;
            }
            if (i >= 5 && s == 0) {                      /* lossless: the raw mesh */
                f.asset.n_vertices = i == 5 ? 6 : 5;
                f.asset.n_faces = 0;
                if (i == 5) f.asset.coords = NULL;
                wanted = ESPALIER_ERR_ARG;
            }
            assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), wanted);
            assert_true(strncmp(espalier_error_message(t.ctx), path, strlen(path)) == 0);
            esi_clear_error(t.ctx);
            assert_int_equal(test_dir_count(dir), 0);
        }
        asset_fixture_init(&f);
        test_path(path, dir, "missing");
        strcat(path, "/");
        strcat(path, suffixes[s]);
        assert_int_equal(esi_dump_write(t.ctx, &f.asset, path), ESPALIER_ERR_OUTPUT);
        esi_clear_error(t.ctx);
    }
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

/* ------------------------------------------------------------------ hostile */

/* The parser sees a block of exactly that size, so that a sanitizer notices a read beyond it. */
static espalier_status parse_copy(espalier_context *ctx, const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    esi_dump dump;
    espalier_status st;

    assert_non_null(copy);
    if (size > 0) memcpy(copy, bytes, size);
    esi_clear_error(ctx);
    st = esi_dump_parse(ctx, &dump, copy, size, "t.bin");
    if (st != ESPALIER_OK) {
        assert_true(strncmp(espalier_error_message(ctx), "t.bin: ", 7) == 0);
        assert_null(dump.asset.vertices);
    }
    esi_dump_free(ctx, &dump);
    esi_clear_error(ctx);
    free(copy);
    return st;
}

/* Every prefix is refused; every single changed byte is refused or read as something sound. */
static void damaged(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    for (size_t s = 0; s < ESI_COUNT(suffixes); s++) {
        uint8_t *bytes;
        size_t size;

        assert_int_equal(esi_dump_write(t.ctx, &f.asset, test_path(path, dir, suffixes[s])), ESPALIER_OK);
        bytes = test_read_file(path, &size);
        for (size_t n = 0; n < size; n++) assert_int_equal(parse_copy(t.ctx, bytes, n), ESPALIER_ERR_INPUT);
        assert_int_equal(parse_copy(t.ctx, bytes, size), ESPALIER_OK);
        for (size_t i = 0; i < size; i++) {
            const uint8_t kept = bytes[i];

            for (int bit = 0; bit < 8; bit += 7) {
                espalier_status st;

                bytes[i] = (uint8_t)(kept ^ 1u << bit);
                st = parse_copy(t.ctx, bytes, size);
                assert_true(st == ESPALIER_OK || st == ESPALIER_ERR_INPUT || st == ESPALIER_ERR_RESOURCE);
            }
            bytes[i] = kept;
        }
        free(bytes);
    }
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void trellis_hostile(void **state)
{
    static const struct { uint32_t head[4]; } heads[] = {
        {{0, 1, 0, 8}},          {{3, 0, 0, 8}},          {{0x80000000u, 1, 0, 8}}, {{3, 0xffffffffu, 0, 8}}, {{3, 1, 0xffffffffu, 8}},
        {{0x7fffffff, 1, 0, 8}}, {{3, 0x7fffffff, 0, 8}}, {{3, 1, 0x7fffffff, 8}},  {{3, 1, 1, 0}},           {{3, 1, 1, 131073}},
        {{3, 1, 1, 0x80000000u}}};
    uint8_t file[16 + 36 + 12 + 36] = {0};
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(heads); i++) {
        for (size_t k = 0; k < 4; k++) esi_store_u32le(file + 4 * k, heads[i].head[k]);
        assert_int_equal(parse_copy(t.ctx, file, sizeof file), ESPALIER_ERR_INPUT);
    }
    for (size_t k = 0; k < 4; k++) esi_store_u32le(file + 4 * k, (const uint32_t[]){3, 1, 1, 8}[k]);
    assert_int_equal(parse_copy(t.ctx, file, sizeof file), ESPALIER_OK);
    esi_store_u32le(file + 16 + 36, 3);                                /* a face beyond the vertices */
    assert_int_equal(parse_copy(t.ctx, file, sizeof file), ESPALIER_ERR_INPUT);
    esi_store_u32le(file + 16 + 36, 0);
    esi_store_u32le(file + 16 + 36 + 12, 8);                           /* a voxel beyond the grid */
    assert_int_equal(parse_copy(t.ctx, file, sizeof file), ESPALIER_ERR_INPUT);
    esi_store_u32le(file + 16 + 36 + 12, 7);
    esi_store_u32le(file + sizeof file - 4, 0x7fc00000u);              /* NaN */
    assert_int_equal(parse_copy(t.ctx, file, sizeof file), ESPALIER_ERR_INPUT);
    esi_store_u32le(file + sizeof file - 4, 0);
    esi_store_u32le(file + 16, 0xff800000u);                           /* -inf */
    assert_int_equal(parse_copy(t.ctx, file, sizeof file), ESPALIER_ERR_INPUT);
    test_base_close(&t);
}

static size_t qtm3d_file(uint8_t *file, const char *meta, const char *arrays, size_t blob_bytes)
{
    char *json = (char *)file + 16;
    const int length = sprintf(json, "{\"meta\":{%s},\"arrays\":{%s}}", meta, arrays);
    const size_t start = (16 + (size_t)length + 15) / 16 * 16;

    memcpy(file, "QTMESH3D", 8);
    esi_store_u32le(file + 8, 1);
    esi_store_u32le(file + 12, (uint32_t)length);
    memset(json + length, 0, start - 16 - (size_t)length + blob_bytes);
    return start + blob_bytes;
}

static void qtm3d_hostile(void **state)
{
#define POSITIONS "\"positions\":{\"dtype\":\"f32\",\"shape\":[3,3],\"offset\":0,\"byteLength\":36}"
#define INDICES ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,3],\"offset\":48,\"byteLength\":12}"
#define COORDS ",\"voxel_coords\":{\"dtype\":\"u16\",\"shape\":[1,3],\"offset\":64,\"byteLength\":6}"
#define ATTRS ",\"voxel_attrs\":{\"dtype\":\"u8\",\"shape\":[1,6],\"offset\":80,\"byteLength\":6}"
    static const struct { const char *meta, *arrays; espalier_status wanted; } files[] = {
        {"", POSITIONS INDICES, ESPALIER_OK},
        {"\"resolution\":8", POSITIONS INDICES COORDS ATTRS, ESPALIER_OK},
        {"\"resolution\":8,\"voxelSize\":0.125,\"origin\":[-0.5,-0.5,-0.5]", POSITIONS INDICES COORDS ATTRS, ESPALIER_OK},
        {"", POSITIONS INDICES COORDS ATTRS, ESPALIER_ERR_INPUT}, /* no resolution */
        {"\"resolution\":-8", POSITIONS INDICES COORDS ATTRS, ESPALIER_ERR_INPUT},
        {"\"resolution\":1e9", POSITIONS INDICES COORDS ATTRS, ESPALIER_ERR_INPUT},
        {"\"resolution\":8,\"voxelSize\":0.25", POSITIONS INDICES COORDS ATTRS, ESPALIER_ERR_INPUT},
        {"\"resolution\":8,\"origin\":[0,0,0]", POSITIONS INDICES COORDS ATTRS, ESPALIER_ERR_INPUT},
        {"\"resolution\":8", POSITIONS INDICES COORDS, ESPALIER_ERR_INPUT},
        {"\"resolution\":8", POSITIONS INDICES ATTRS, ESPALIER_ERR_INPUT},
        {"", POSITIONS, ESPALIER_ERR_INPUT},
        {"", "\"x\":1", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":7", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"i32\",\"shape\":[1,3],\"offset\":48,\"byteLength\":12}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,4],\"offset\":48,\"byteLength\":16}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[3],\"offset\":48,\"byteLength\":12}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[-1,3],\"offset\":48,\"byteLength\":-12}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,3],\"offset\":-16,\"byteLength\":12}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,3],\"offset\":90,\"byteLength\":12}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,3],\"offset\":9223372036854775807,\"byteLength\":12}",
         ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[2147483647,3],\"offset\":0,\"byteLength\":25769803764}",
         ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,3],\"offset\":48,\"byteLength\":11}", ESPALIER_ERR_INPUT},
        {"", POSITIONS ",\"indices\":{\"dtype\":\"u32\",\"shape\":[1,3],\"offset\":2,\"byteLength\":12}", ESPALIER_OK},
    };
    uint8_t file[1024];
    size_t size;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(files); i++) {
        size = qtm3d_file(file, files[i].meta, files[i].arrays, 96);
        if (parse_copy(t.ctx, file, size) != files[i].wanted) fail_msg("file %d", (int)i);
    }
    size = qtm3d_file(file, "", POSITIONS INDICES, 96);
    esi_store_u32le(file + size - 96 + 48, 0xffffffffu);               /* index 2^32 - 1 */
    assert_int_equal(parse_copy(t.ctx, file, size), ESPALIER_ERR_INPUT);
    size = qtm3d_file(file, "", POSITIONS INDICES, 96);
    esi_store_u32le(file + 8, 2);
    assert_int_equal(parse_copy(t.ctx, file, size), ESPALIER_ERR_INPUT);
    esi_store_u32le(file + 8, 1);
    esi_store_u32le(file + 12, 0xffffffffu);
    assert_int_equal(parse_copy(t.ctx, file, size), ESPALIER_ERR_INPUT);
    test_base_close(&t);
}

/* A safetensors file with one I32 [n,4] tensor "coords" of zeros and these metadata, or other tensors. */
static size_t espd_file(uint8_t *file, const char *metadata, const char *tensors, size_t data)
{
    const int length = sprintf((char *)file + 8, "{\"__metadata__\":{%s}%s}", metadata, tensors);

    esi_store_u64le(file, (uint64_t)length);
    memset(file + 8 + length, 0, data);
    return 8 + (size_t)length + data;
}

static void espd_hostile(void **state)
{
#define META "\"format\":\"espd\",\"format_version\":\"1\",\"resolution\":\"8\",\"seed\":\"1\""
#define ROWS ",\"coords\":{\"dtype\":\"I32\",\"shape\":[2,4],\"data_offsets\":[0,32]}"
    static const struct { const char *meta, *tensors; size_t data; espalier_status wanted; } files[] = {
        {META, ROWS, 32, ESPALIER_OK},
        {META, ROWS ",\"more\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[32,33]}", 33, ESPALIER_OK},
        {"\"format\":\"pt\"", ROWS, 32, ESPALIER_ERR_INPUT},
        {"\"format\":\"espd\",\"format_version\":\"2\",\"resolution\":\"8\",\"seed\":\"1\"", ROWS, 32, ESPALIER_ERR_INPUT},
        {"\"format\":\"espd\",\"format_version\":\"1\",\"seed\":\"1\"", ROWS, 32, ESPALIER_ERR_INPUT},
        {"\"format\":\"espd\",\"format_version\":\"1\",\"resolution\":\"8x\",\"seed\":\"1\"", ROWS, 32, ESPALIER_ERR_INPUT},
        {"\"format\":\"espd\",\"format_version\":\"1\",\"resolution\":\"\",\"seed\":\"1\"", ROWS, 32, ESPALIER_ERR_INPUT},
        {"\"format\":\"espd\",\"format_version\":\"1\",\"resolution\":\"99999999999999999999\",\"seed\":\"1\"", ROWS, 32,
         ESPALIER_ERR_INPUT},
        {"\"format\":\"espd\",\"format_version\":\"1\",\"resolution\":\"0\",\"seed\":\"1\"", ROWS, 32, ESPALIER_ERR_INPUT},
        {META, "", 0, ESPALIER_ERR_INPUT},
        {META, ",\"coords\":{\"dtype\":\"I32\",\"shape\":[2,3],\"data_offsets\":[0,24]}", 24, ESPALIER_ERR_INPUT},
        {META, ",\"coords\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[0,32]}", 32, ESPALIER_ERR_INPUT},
        {META, ",\"coords\":{\"dtype\":\"I32\",\"shape\":[8],\"data_offsets\":[0,32]}", 32, ESPALIER_ERR_INPUT},
        {META, ",\"coords\":{\"dtype\":\"I32\",\"shape\":[2147483648,0],\"data_offsets\":[0,0]}", 0, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"local\":{\"dtype\":\"F32\",\"shape\":[1,3],\"data_offsets\":[32,44]}", 44, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"split_weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[32,40]}", 40, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"split_weight\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[32,36]}", 36, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"vertices\":{\"dtype\":\"F32\",\"shape\":[1,3],\"data_offsets\":[32,44]}", 44, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"faces\":{\"dtype\":\"I32\",\"shape\":[1,3],\"data_offsets\":[32,44]}", 44, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"subdivision.0.coords\":{\"dtype\":\"I32\",\"shape\":[1,4],\"data_offsets\":[32,48]}", 48, ESPALIER_ERR_INPUT},
        {META, ROWS ",\"subdivision.0.logits\":{\"dtype\":\"F32\",\"shape\":[1,8],\"data_offsets\":[32,64]}", 64, ESPALIER_ERR_INPUT},
        {META,
         ROWS ",\"subdivision.0.coords\":{\"dtype\":\"I32\",\"shape\":[1,4],\"data_offsets\":[32,48]},"
              "\"subdivision.0.logits\":{\"dtype\":\"F32\",\"shape\":[2,8],\"data_offsets\":[48,112]}",
         112, ESPALIER_ERR_INPUT},
        {META, ",\"coords\":{\"dtype\":\"I32\",\"shape\":[2,4],\"data_offsets\":[0,31]}", 32, ESPALIER_ERR_INPUT},
    };
    uint8_t file[2048];
    size_t size;
    test_base t;

    (void)state;
    test_base_open(&t, 1);
    for (size_t i = 0; i < ESI_COUNT(files); i++) {
        size = espd_file(file, files[i].meta, files[i].tensors, files[i].data);
        if (parse_copy(t.ctx, file, size) != files[i].wanted) fail_msg("file %d", (int)i);
    }
    size = espd_file(file, META, ROWS, 32);
    esi_store_u32le(file + size - 4, 8);
    assert_int_equal(parse_copy(t.ctx, file, size), ESPALIER_ERR_INPUT);
    esi_store_u32le(file + size - 4, 0xffffffffu);
    assert_int_equal(parse_copy(t.ctx, file, size), ESPALIER_ERR_INPUT);
    test_base_close(&t);
}

static void files(void **state)
{
    asset_fixture f;
    test_base t;
    esi_dump dump;
    espalier_limits limits = espalier_limits_default();
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    assert_int_equal(esi_dump_read(t.ctx, &dump, test_path(path, dir, "missing")), ESPALIER_ERR_INPUT);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_dump_read(t.ctx, &dump, dir), ESPALIER_ERR_INPUT);
    esi_clear_error(t.ctx);
    assert_int_equal(esi_dump_write(t.ctx, &f.asset, test_path(path, dir, "a.raw")), ESPALIER_OK);
    limits.max_file_bytes = 100;
    espalier_context_set_limits(t.ctx, &limits);
    assert_int_equal(esi_dump_read(t.ctx, &dump, path), ESPALIER_ERR_RESOURCE);
    esi_clear_error(t.ctx);
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static void failing_allocations(void **state)
{
    asset_fixture f;
    test_base t;
    char path[1024], *dir = test_dir_make();

    (void)state;
    test_base_open(&t, 1);
    asset_fixture_init(&f);
    for (size_t s = 0; s < ESI_COUNT(suffixes); s++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n;

        test_path(path, dir, suffixes[s]);
        for (n = 1; st != ESPALIER_OK && n < 200; n++) {
            esi_dump dump;

            remove(path);
            test_fail_at(&t.memory, n);
            st = esi_dump_write(t.ctx, &f.asset, path);
            if (st != ESPALIER_OK) assert_int_equal(test_dir_count(dir), 0);
            if (st == ESPALIER_OK) {
                st = esi_dump_read(t.ctx, &dump, path);
                esi_dump_free(t.ctx, &dump);
            }
            if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            esi_clear_error(t.ctx);
            assert_int_equal(espalier_context_memory_now(t.ctx), 0);
        }
        assert_true(n > 5 && n < 200);
        remove(path);
    }
    test_base_close(&t);
    test_dir_remove(dir);
    free(dir);
}

static int write_corpus(const char *dir)
{
    static const char *const names[] = {"ok-full.espd", "ok-full.qtm3d", "ok-full.raw", "ok-plain.espd", "ok-plain.qtm3d", "ok-plain.raw"};
    asset_fixture f;
    test_base t;
    char path[1024];

    test_base_open(&t, 1);
    asset_fixture_init(&f);
    for (size_t i = 0; i < ESI_COUNT(names); i++) {
        if (i == 3) {
            f.asset.attrs = NULL;
            f.asset.n_levels = 0;
            f.asset.extras = NULL;
        }
        if (esi_dump_write(t.ctx, &f.asset, test_path(path, dir, names[i])) != ESPALIER_OK) return 1;
    }
    test_base_close(&t);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless),      cmocka_unit_test(trellis_bytes),   cmocka_unit_test(qtm3d_bytes),
        cmocka_unit_test(reproducible),  cmocka_unit_test(writer_refusals), cmocka_unit_test(damaged),
        cmocka_unit_test(trellis_hostile), cmocka_unit_test(qtm3d_hostile), cmocka_unit_test(espd_hostile),
        cmocka_unit_test(files),         cmocka_unit_test(failing_allocations),
    };

    if (argc == 3 && strcmp(argv[1], "--corpus") == 0) return write_corpus(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
