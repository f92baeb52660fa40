/* SPDX-License-Identifier: MIT
 *
 * Reading and writing weight files that are in order: values of every type, the golden GGUF files, writers byte by byte.
 */
#include "weights_fixture.h"

#include <math.h>

#define GOLDEN ESPALIER_TEST_DATA "/golden/"

static esi_weight_file *open_file(fixture *f, const char *path)
{
    esi_weight_file *file = NULL;
    if (esi_weight_file_open(f->ctx, &file, path) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    return file;
}

static const esi_file_tensor *find(const esi_weight_file *file, const char *name)
{
    const esi_file_tensor *t = esi_weight_file_find(file, name);
    if (!t) fail_msg("no tensor '%s'", name);
    return t;
}

static float *read_f32(fixture *f, const esi_weight_file *file, const char *name)
{
    float *v = NULL;
    if (esi_file_tensor_read_f32(f->ctx, file, find(file, name), &v) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    return v;
}

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* The whole file in memory; free() it. */
static uint8_t *slurp(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *len = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*len + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, file), *len);
    fclose(file);
    return data;
}

/* ------------------------------------------------------------ golden cases */

/* Every tensor of the GGUF file equals the expected one bit for bit; unfolding leaves the order of the data alone. */
static void check_golden(fixture *f, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, GOLDEN "%s/case.gguf", name);
    esi_weight_file *gguf = open_file(f, path);
    snprintf(path, sizeof path, GOLDEN "%s/case.safetensors", name);
    esi_weight_file *expected = open_file(f, path);
    size_t compared = 0;

    assert_int_equal(gguf->format, ESI_FORMAT_GGUF);
    assert_int_equal(expected->format, ESI_FORMAT_SAFETENSORS);
    for (size_t i = 0; i < expected->count; i++) {
        const esi_file_tensor *e = &expected->tensors[i];
        if (strncmp(e->name, "out.", 4) != 0) continue;
        const esi_file_tensor *t = find(gguf, e->name + 4);
        int64_t n = esi_file_tensor_count(e);
        assert_int_equal(esi_file_tensor_count(t), n);
        float *a = read_f32(f, gguf, e->name + 4), *b = read_f32(f, expected, e->name);
        for (int64_t k = 0; k < n; k++)
            if (bits_of(a[k]) != bits_of(b[k]))
                fail_msg("%s: element %lld: %a, expected %a", e->name, (long long)k, (double)a[k], (double)b[k]);
        if (t->rank == e->rank) assert_memory_equal(t->shape, e->shape, (size_t)t->rank * sizeof t->shape[0]);
        esi_free(f->ctx, a);
        esi_free(f->ctx, b);
        compared++;
    }
    assert_int_equal(compared, gguf->count);
    assert_true(compared > 20);
    esi_weight_file_free(gguf);
    esi_weight_file_free(expected);
}

static void golden_ss_dec(void **state)
{
    check_golden(*state, "gguf_ss_dec_f16");
}
static void golden_shape_dec(void **state)
{
    check_golden(*state, "gguf_shape_dec_f16");
}
static void golden_flow_f16(void **state)
{
    check_golden(*state, "gguf_flow_f16");
}
static void golden_flow_q8_0(void **state)
{
    check_golden(*state, "gguf_flow_q8_0");
}
static void golden_dinov3(void **state)
{
    check_golden(*state, "gguf_dinov3_f16");
}

static void golden_keys(void **state)
{
    fixture *f = *state;
    esi_weight_file *file = open_file(f, GOLDEN "gguf_flow_q8_0/case.gguf");

    assert_string_equal(file->architecture, "trellis2-ss-flow");
    assert_non_null(file->config_json);
    assert_int_equal(file->config_json[0], '{');
    assert_int_equal(find(file, "blocks.0.self_attn.to_qkv.weight")->dtype, ESI_FILE_Q8_0);
    assert_int_equal(find(file, "blocks.0.self_attn.to_qkv.weight")->shape[0], 192);
    assert_int_equal(find(file, "t_embedder.mlp.2.weight")->dtype, ESI_FILE_BF16);
    esi_weight_file_free(file);

    file = open_file(f, GOLDEN "gguf_ss_dec_f16/case.gguf");
    assert_string_equal(file->architecture, "trellis2-ss-dec");
    assert_null(file->config_json);
    const esi_file_tensor *t = find(file, "input_layer.weight");
    assert_string_equal(t->type_name, "F16");
    assert_int_equal(t->rank, 4);
    assert_int_equal(t->shape[0], 64); /* outermost first */
    assert_int_equal(t->shape[3], 3);
    assert_null(esi_weight_file_find(file, "input_layer.weigh"));
    assert_null(esi_weight_file_find(file, ""));
    assert_null(esi_weight_file_find(file, "zzz"));
    esi_weight_file_free(file);
}

static int by_offset(const void *a, const void *b)
{
    const esi_file_tensor *ta = a, *tb = b;
    return ta->offset < tb->offset ? -1 : ta->offset > tb->offset;
}

/* Our writer gives the bytes that the converter of trellis.cpp gave. */
static void gguf_writer_equals_converter(void **state)
{
    fixture *f = *state;
    char path[128];
    size_t len_expected, len_written;
    esi_weight_file *file = open_file(f, GOLDEN "gguf_shape_dec_f16/case.gguf");
    esi_file_tensor *order = malloc(file->count * sizeof *order);
    esi_safetensors_entry *entries = calloc(file->count, sizeof *entries);

    assert_true(order != NULL && entries != NULL);
    memcpy(order, file->tensors, file->count * sizeof *order);
    qsort(order, file->count, sizeof *order, by_offset);
    for (size_t i = 0; i < file->count; i++) {
        entries[i] = (esi_safetensors_entry){.name = order[i].name, .dtype = order[i].dtype, .rank = order[i].rank};
        memcpy(entries[i].shape, order[i].shape, sizeof entries[i].shape);
        entries[i].data = esi_weight_file_data(file, &order[i]);
    }
    fixture_path(f, path, "a.gguf");
    assert_int_equal(esi_gguf_write(f->ctx, path, entries, file->count, file->architecture, "shape_dec", file->config_json, NULL, NULL),
                     ESPALIER_OK);
    uint8_t *expected = slurp(GOLDEN "gguf_shape_dec_f16/case.gguf", &len_expected), *written = slurp(path, &len_written);
    assert_int_equal(len_written, len_expected);
    assert_memory_equal(written, expected, len_expected);
    free(written);
    free(expected);
    free(entries);
    free(order);
    esi_weight_file_free(file);
    unlink(path);
}

/* ------------------------------------------------------------------ values */

/* One tensor of `dtype` over the bytes in `b`, through a file in memory. The header ends at an odd byte, so the data is unaligned. */
static esi_weight_file *wrap(fixture *f, bytes *b, const char *dtype, size_t n, const void *data, size_t len)
{
    char header[200];
    esi_weight_file *file = NULL;
    int written = snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}", dtype, n, len);
    if (written % 2 == 0) strcat(header, " ");
    b->len = 0;
    put_string(b, header);
    put(b, data, len);
    esi_clear_error(f->ctx);
    if (esi_weight_file_parse(f->ctx, &file, b->data, b->len, "mem") != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    return file;
}

static float f16_by_definition(unsigned h)
{
    unsigned exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 0    ? ldexp(fraction, -24)
                       : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                        : ldexp(1024 + fraction, (int)exponent - 25);
    return (float)(h & 0x8000 ? -magnitude : magnitude);
}

static void every_f16_and_bf16(void **state)
{
    fixture *f = *state;
    static uint8_t table[65536 * 2];
    bytes b;

    for (unsigned h = 0; h < 65536; h++) {
        table[2 * h] = (uint8_t)h;
        table[2 * h + 1] = (uint8_t)(h >> 8);
    }
    for (unsigned begin = 0; begin < 65536; begin += 2048) {
        esi_weight_file *file = wrap(f, &b, "F16", 2048, table + 2 * begin, 4096);
        float *v = read_f32(f, file, "x");
        for (unsigned i = 0; i < 2048; i++) {
            float expected = f16_by_definition(begin + i);
            if (isnan(expected) ? !isnan(v[i]) : bits_of(v[i]) != bits_of(expected))
                fail_msg("f16 %04x read as %a", begin + i, (double)v[i]);
        }
        esi_free(f->ctx, v);
        esi_weight_file_free(file);
        file = wrap(f, &b, "BF16", 2048, table + 2 * begin, 4096);
        v = read_f32(f, file, "x");
        for (unsigned i = 0; i < 2048; i++) assert_int_equal(bits_of(v[i]), (begin + i) << 16);
        esi_free(f->ctx, v);
        esi_weight_file_free(file);
    }
}

/* double, int64 and uint32 round to nearest even; U8 and I32 are plain. */
static void other_types_as_f32(void **state)
{
    fixture *f = *state;
    static const double doubles[] = {0.1, 1 + 0x1p-24, 1 + 0x1.8p-23, -1e-60, 1e300, -0.0, 0x1p-149};
    static const float doubles_expected[] = {0x1.99999ap-4f, 1, 1 + 0x1p-22f, -0.0f, INFINITY, -0.0f, 0x1p-149f};
    static const int64_t longs[] = {16777217, 16777219, INT64_MIN, -1, INT64_MAX};
    static const float longs_expected[] = {16777216, 16777220, -0x1p63f, -1, 0x1p63f};
    static const uint32_t words[] = {0xffffffffu, 16777217, 7};
    static const float words_expected[] = {0x1p32f, 16777216, 7};
    static const int32_t ints[] = {INT32_MIN, -5, INT32_MAX};
    static const float ints_expected[] = {-0x1p31f, -5, 0x1p31f};
    static const uint8_t small[] = {0, 255, 3};
    static const float small_expected[] = {0, 255, 3};
    static const float floats[] = {1.5f, -0.0f, 0x1p-149f};
    static const struct {
        const char *dtype;
        const void *data;
        const float *expected;
        size_t n, len;
    } cases[] = {
        {"F64", doubles, doubles_expected, ESI_COUNT(doubles), sizeof doubles},
        {"I64", longs, longs_expected, ESI_COUNT(longs), sizeof longs},
        {"U32", words, words_expected, ESI_COUNT(words), sizeof words},
        {"I32", ints, ints_expected, ESI_COUNT(ints), sizeof ints},
        {"U8", small, small_expected, ESI_COUNT(small), sizeof small},
        {"F32", floats, floats, ESI_COUNT(floats), sizeof floats},
    };
    bytes b;

    for (size_t c = 0; c < ESI_COUNT(cases); c++) {
        esi_weight_file *file = wrap(f, &b, cases[c].dtype, cases[c].n, cases[c].data, cases[c].len);
        float *v = read_f32(f, file, "x");
        for (size_t i = 0; i < cases[c].n; i++)
            if (bits_of(v[i]) != bits_of(cases[c].expected[i])) fail_msg("%s element %zu read as %a", cases[c].dtype, i, (double)v[i]);
        esi_free(f->ctx, v);
        esi_weight_file_free(file);
    }
}

static void as_i32(void **state)
{
    fixture *f = *state;
    static const int64_t longs[] = {INT32_MIN, -1, INT32_MAX}, too_long[] = {0, 2147483648}, too_short[] = {-2147483649};
    static const uint32_t words[] = {7, 0x7fffffff}, too_wide[] = {0x80000000u};
    static const float floats[] = {1};
    bytes b;
    int32_t *v;

    esi_weight_file *file = wrap(f, &b, "I64", 3, longs, sizeof longs);
    assert_int_equal(esi_file_tensor_read_i32(f->ctx, file, file->tensors, &v), ESPALIER_OK);
    assert_true(v[0] == INT32_MIN && v[1] == -1 && v[2] == INT32_MAX);
    esi_free(f->ctx, v);
    esi_weight_file_free(file);
    file = wrap(f, &b, "U32", 2, words, sizeof words);
    assert_int_equal(esi_file_tensor_read_i32(f->ctx, file, file->tensors, &v), ESPALIER_OK);
    assert_true(v[0] == 7 && v[1] == INT32_MAX);
    esi_free(f->ctx, v);
    esi_weight_file_free(file);
    file = wrap(f, &b, "U8", 4, words, 4);
    assert_int_equal(esi_file_tensor_read_i32(f->ctx, file, file->tensors, &v), ESPALIER_OK);
    assert_true(v[0] == 7 && v[1] == 0 && v[3] == 0);
    esi_free(f->ctx, v);
    esi_weight_file_free(file);

    const struct {
        const char *dtype;
        const void *data;
        size_t n, len;
        const char *message;
    } bad[] = {{"I64", too_long, 2, sizeof too_long, "element 1 is 2147483648"},
               {"I64", too_short, 1, sizeof too_short, "element 0"},
               {"U32", too_wide, 1, sizeof too_wide, "element 0"},
               {"F32", floats, 1, sizeof floats, "found type F32, expected I32"},
               {"U64", longs, 1, 8, "found type U64"}};
    for (size_t i = 0; i < ESI_COUNT(bad); i++) {
        file = wrap(f, &b, bad[i].dtype, bad[i].n, bad[i].data, bad[i].len);
        assert_int_equal(esi_file_tensor_read_i32(f->ctx, file, file->tensors, &v), ESPALIER_ERR_MODEL);
        assert_null(v);
        assert_non_null(strstr(espalier_error_message(f->ctx), bad[i].message));
        esi_weight_file_free(file);
    }
}

/* Types that exist elsewhere are listed with their size, and refused only when somebody wants the values. */
static void other_types_are_listed(void **state)
{
    fixture *f = *state;
    static const char *const types[] = {"BOOL", "I8", "F8_E4M3", "F8_E5M2", "I16", "U16", "U64", "F4", "F6_E2M3"};
    static const size_t sizes[] = {8, 8, 8, 8, 16, 16, 64, 4, 6};
    static const uint8_t zeros[64];
    bytes b;
    float *v;

    for (size_t i = 0; i < ESI_COUNT(types); i++) {
        esi_weight_file *file = wrap(f, &b, types[i], 8, zeros, sizes[i]);
        assert_int_equal(file->tensors[0].dtype, ESI_FILE_OTHER);
        assert_string_equal(file->tensors[0].type_name, types[i]);
        assert_int_equal(esi_file_tensor_read_f32(f->ctx, file, file->tensors, &v), ESPALIER_ERR_MODEL);
        assert_null(v);
        assert_non_null(strstr(espalier_error_message(f->ctx), types[i]));
        esi_weight_file_free(file);
    }
}

/* ------------------------------------------------------------------ writers */

static void safetensors_writer_bytes(void **state)
{
    fixture *f = *state;
    static const uint8_t u8[3] = {1, 2, 3};
    static const float f32[2] = {1, -2};
    static const char *const metadata[] = {"format", "pt", "quote", "\"", NULL};
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\",\"quote\":\"\\\"\"},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[3,1],\"data_offsets\":[0,3]},"
                                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[3,11]},"
                                 "\"none\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[11,11]},"
                                 "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[11,12]}}";
    const esi_safetensors_entry entries[] = {
        {.name = "b", .dtype = ESI_FILE_U8, .rank = 2, .shape = {3, 1}, .data = u8},
        {.name = "a", .dtype = ESI_FILE_F32, .rank = 1, .shape = {2}, .data = f32},
        {.name = "none", .dtype = ESI_FILE_F16, .rank = 2, .shape = {0, 4}},
        {.name = "one", .dtype = ESI_FILE_U8, .data = u8},
    };
    bytes expected = {.len = 0};
    char path[128];
    size_t len, text = strlen(header);

    put_u64(&expected, (text + 7) / 8 * 8);
    put_text(&expected, header);
    while (expected.len % 8 != 0) put_text(&expected, " ");
    put(&expected, u8, 3);
    put(&expected, "\0\0\x80\x3f\0\0\0\xc0", 8);
    put(&expected, u8, 1);
    fixture_path(f, path, "a.safetensors");
    for (int again = 0; again < 2; again++) {
        assert_int_equal(esi_safetensors_write(f->ctx, path, entries, ESI_COUNT(entries), metadata, NULL, NULL), ESPALIER_OK);
        uint8_t *written = slurp(path, &len);
        assert_int_equal(len, expected.len);
        assert_memory_equal(written, expected.data, len);
        free(written);
    }
    esi_weight_file *file = open_file(f, path);
    assert_int_equal(file->count, 4);
    assert_string_equal(file->tensors[0].name, "a");
    assert_string_equal(esi_weight_file_path(file), path);
    assert_int_equal(esi_file_tensor_count(find(file, "none")), 0);
    assert_int_equal(esi_file_tensor_count(find(file, "one")), 1);
    assert_int_equal(esi_weight_file_data(file, find(file, "b"))[2], 3);
    esi_weight_file_free(file);
    unlink(path);
}

typedef struct filler {
    uint64_t next[2];
    espalier_status answer;
} filler;

/* Byte k of entry e is e + k; positions must come in order. */
static espalier_status fill(void *user, size_t entry, uint64_t offset, void *data, size_t size)
{
    filler *filling = user;
    assert_true(offset == filling->next[entry]);
    filling->next[entry] += size;
    for (size_t i = 0; i < size; i++) ((uint8_t *)data)[i] = (uint8_t)(entry + offset + i);
    return filling->answer;
}

/* Two tensors of which one takes more than one chunk, by callback, in both containers. */
static void writers_ask_for_data(void **state)
{
    fixture *f = *state;
    const esi_safetensors_entry entries[] = {
        {.name = "big", .dtype = ESI_FILE_F32, .rank = 2, .shape = {700, 1024}},
        {.name = "small", .dtype = ESI_FILE_F32, .rank = 1, .shape = {3}},
    };
    char path[128];

    for (int gguf = 0; gguf < 2; gguf++) {
        filler filling = {.answer = ESPALIER_OK};
        fixture_path(f, path, "b.bin");
        assert_int_equal(gguf ? esi_gguf_write(f->ctx, path, entries, 2, "arch", "name", NULL, fill, &filling)
                              : esi_safetensors_write(f->ctx, path, entries, 2, NULL, fill, &filling),
                         ESPALIER_OK);
        assert_int_equal(filling.next[0], 700 * 1024 * 4);
        assert_int_equal(filling.next[1], 12);
        esi_weight_file *file = open_file(f, path);
        for (size_t e = 0; e < 2; e++) {
            const esi_file_tensor *t = find(file, entries[e].name);
            const uint8_t *data = esi_weight_file_data(file, t);
            for (size_t i = 0; i < t->size; i++)
                if (data[i] != (uint8_t)(e + i)) fail_msg("%s: byte %zu", t->name, i);
        }
        esi_weight_file_free(file);
        unlink(path);
        filling = (filler){.answer = ESPALIER_ERR_CANCELLED};
        assert_int_equal(gguf ? esi_gguf_write(f->ctx, path, entries, 2, "arch", "name", NULL, fill, &filling)
                              : esi_safetensors_write(f->ctx, path, entries, 2, NULL, fill, &filling),
                         ESPALIER_ERR_CANCELLED);
        assert_int_equal(access(path, F_OK), -1);
    }
}

static void gguf_round_trip(void **state)
{
    fixture *f = *state;
    static const uint8_t data[34 * 2] = {0x00, 0x3c, 1, 0xff, 127, 0x81};
    static const int32_t index[3] = {5, -6, 7};
    const esi_safetensors_entry entries[] = {
        {.name = "q", .dtype = ESI_FILE_Q8_0, .rank = 2, .shape = {2, 32}, .data = data},
        {.name = "scalar", .dtype = ESI_FILE_F32, .data = data},
        {.name = "h", .dtype = ESI_FILE_F16, .rank = 3, .shape = {3, 2, 1}, .data = data},
        {.name = "b", .dtype = ESI_FILE_BF16, .rank = 4, .shape = {1, 2, 3, 4}, .data = data},
        {.name = "i", .dtype = ESI_FILE_I32, .rank = 1, .shape = {3}, .data = index},
        {.name = "empty", .dtype = ESI_FILE_F32, .rank = 1, .shape = {0}},
    };
    char path[128];
    int32_t *ints;

    fixture_path(f, path, "r.gguf");
    assert_int_equal(esi_gguf_write(f->ctx, path, entries, ESI_COUNT(entries), "arch", NULL, "{\"a\":1}", NULL, NULL), ESPALIER_OK);
    esi_weight_file *file = open_file(f, path);
    assert_string_equal(file->architecture, "arch");
    assert_string_equal(file->config_json, "{\"a\":1}");
    assert_int_equal(file->count, ESI_COUNT(entries));
    for (size_t i = 0; i < ESI_COUNT(entries); i++) {
        const esi_file_tensor *t = find(file, entries[i].name);
        assert_int_equal(t->dtype, entries[i].dtype);
        assert_int_equal(t->rank, entries[i].rank);
        assert_memory_equal(t->shape, entries[i].shape, sizeof t->shape);
        assert_string_equal(t->type_name, esi_file_dtype_name(t->dtype));
        if (t->size > 0) assert_memory_equal(esi_weight_file_data(file, t), entries[i].data, t->size);
    }
    float *q = read_f32(f, file, "q");
    assert_true(q[0] == 1 && q[1] == -1 && q[2] == 127 && q[3] == -127 && q[4] == 0);
    esi_free(f->ctx, q);
    assert_int_equal(esi_file_tensor_read_i32(f->ctx, file, find(file, "i"), &ints), ESPALIER_OK);
    assert_true(ints[0] == 5 && ints[1] == -6 && ints[2] == 7);
    esi_free(f->ctx, ints);
    esi_weight_file_free(file);
    unlink(path);
}

/* What cannot be stored is refused before a file appears. */
static void writers_refuse(void **state)
{
    fixture *f = *state;
    static const float data[64];
    const esi_safetensors_entry good = {.name = "a", .dtype = ESI_FILE_F32, .rank = 1, .shape = {2}, .data = data};
    esi_safetensors_entry bad[2] = {good, good};
    char path[128], long_name[140];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    fixture_path(f, path, "w.bin");

#define REFUSED(gguf, n)                                                                                                                   \
    do {                                                                                                                                   \
        esi_clear_error(f->ctx);                                                                                                           \
        assert_int_equal((gguf) ? esi_gguf_write(f->ctx, path, bad, (n), NULL, NULL, NULL, NULL, NULL)                                     \
                                : esi_safetensors_write(f->ctx, path, bad, (n), NULL, NULL, NULL),                                         \
                         ESPALIER_ERR_ARG);                                                                                                \
        assert_int_equal(access(path, F_OK), -1);                                                                                          \
    } while (0)
    /* clang-format off */
    for (int gguf = 0; gguf < 2; gguf++) {
        REFUSED(gguf, 2);                                  /* one name twice */
        bad[0].data = NULL; REFUSED(gguf, 1);
        bad[0] = good; bad[0].name = ""; REFUSED(gguf, 1);
        bad[0].name = "\xff"; REFUSED(gguf, 1);
        bad[0] = good; bad[0].rank = 9; REFUSED(gguf, 1);
        bad[0].rank = -1; REFUSED(gguf, 1);
        bad[0] = good; bad[0].shape[0] = -1; REFUSED(gguf, 1);
        bad[0].shape[0] = INT64_MAX; REFUSED(gguf, 1);
        bad[0] = good; bad[0].dtype = ESI_FILE_OTHER; REFUSED(gguf, 1);
        bad[0] = good;
    }
    bad[0].rank = 5; REFUSED(1, 1);
    bad[0] = good; bad[0].name = long_name; REFUSED(1, 1);
    bad[0] = good; bad[0].dtype = ESI_FILE_F64; REFUSED(1, 1);
    bad[0].dtype = ESI_FILE_Q8_0; REFUSED(1, 1);           /* row of 2 */
    bad[0].shape[0] = 32; REFUSED(0, 1);                   /* no such dtype there */
    bad[0] = good; bad[0].name = "__metadata__"; REFUSED(0, 1);
    /* clang-format on */
    for (int gguf = 0; gguf < 2; gguf++) { /* each fits, both together do not */
        bad[0] = bad[1] = good;
        bad[1].name = "b";
        bad[0].shape[0] = bad[1].shape[0] = INT64_MAX / 5;
        REFUSED(gguf, 2);
    }
    REFUSED(1, (1u << 20) + 1);
    static const char *const half[] = {"key", NULL};
    assert_int_equal(esi_safetensors_write(f->ctx, path, &good, 1, half, NULL, NULL), ESPALIER_ERR_ARG);
    esi_clear_error(f->ctx);
    assert_int_equal(esi_safetensors_write(f->ctx, "/nonexistent/dir/x", &good, 1, NULL, NULL, NULL), ESPALIER_ERR_OUTPUT);
    esi_clear_error(f->ctx);
    assert_int_equal(esi_gguf_write(f->ctx, "/nonexistent/dir/x", &good, 1, NULL, NULL, NULL, NULL, NULL), ESPALIER_ERR_OUTPUT);
#undef REFUSED
}

static void shape_text(void **state)
{
    (void)state;
    char buf[ESI_SHAPE_TEXT], tiny[6];
    const int64_t shape[ESI_MAX_RANK] = {3, 10, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    assert_string_equal(esi_shape_text(buf, sizeof buf, shape, 2), "[3, 10]");
    assert_string_equal(esi_shape_text(buf, sizeof buf, shape, 0), "[]");
    assert_int_equal(buf[strlen(esi_shape_text(buf, sizeof buf, shape, ESI_MAX_RANK)) - 1], ']');
    assert_string_equal(esi_shape_text(tiny, sizeof tiny, shape, 3), "[3, 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden_ss_dec, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(golden_shape_dec, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(golden_flow_f16, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(golden_flow_q8_0, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(golden_dinov3, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(golden_keys, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(gguf_writer_equals_converter, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(every_f16_and_bf16, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(other_types_as_f32, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(as_i32, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(other_types_are_listed, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(safetensors_writer_bytes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(writers_ask_for_data, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(gguf_round_trip, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(writers_refuse, fixture_setup, fixture_teardown),
        cmocka_unit_test(shape_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
