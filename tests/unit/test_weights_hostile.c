/* SPDX-License-Identifier: MIT
 *
 * Weight files that are damaged or made to hurt: each is refused with a reason, or accepted and then safe to read; nothing leaks, nothing
 * is read outside the file. Failing allocations.
 */
#include "weights_fixture.h"

/* ------------------------------------------------------------------ helpers */

/* Read everything that the file claims to hold. */
static void use(fixture *f, const esi_weight_file *file, size_t len)
{
    unsigned sum = 0;

    for (size_t i = 0; i < file->count; i++) {
        const esi_file_tensor *t = &file->tensors[i];
        float *values = NULL;
        assert_true(t->offset <= len && t->size <= len - t->offset);
        for (uint64_t k = 0; k < t->size; k++) sum += esi_weight_file_data(file, t)[k];
        assert_ptr_equal(esi_weight_file_find(file, t->name), t);
        if (esi_file_tensor_read_f32(f->ctx, file, t, &values) == ESPALIER_OK) sum += esi_file_tensor_count(t) > 0 && values[0] > 0;
        esi_free(f->ctx, values);
        esi_clear_error(f->ctx);
    }
    assert_true(sum < UINT32_MAX);
}

static void accept(fixture *f, const bytes *b)
{
    esi_weight_file *file;
    uint8_t *copy;

    if (parse_copy(f, &file, &copy, b->data, b->len) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    use(f, file, b->len);
    esi_weight_file_free(file);
    free(copy);
}

/* Refused as a damaged model, with a position inside the file (or its end) and `part` in the message. */
static void refuse(fixture *f, const bytes *b, const char *part)
{
    esi_weight_file *file;
    uint8_t *copy;
    long live = f->live;

    assert_int_equal(parse_copy(f, &file, &copy, b->data, b->len), ESPALIER_ERR_MODEL);
    assert_null(file);
    assert_int_equal(f->live, live);
    if (strncmp(espalier_error_message(f->ctx), "test.bin: ", 10) != 0 || !strstr(espalier_error_message(f->ctx), part))
        fail_msg("'%s' lacks '%s'", espalier_error_message(f->ctx), part);
    if (espalier_error_offset(f->ctx) < 0 || (uint64_t)espalier_error_offset(f->ctx) > b->len)
        fail_msg("position %lld: %s", (long long)espalier_error_offset(f->ctx), espalier_error_message(f->ctx));
    free(copy);
}

static void refuse_header(fixture *f, const char *header, const char *part)
{
    bytes b = safetensors_file(header, 64);
    refuse(f, &b, part);
}

static void accept_header(fixture *f, const char *header, size_t data)
{
    bytes b = safetensors_file(header, data);
    accept(f, &b);
}

/* ------------------------------------------------------------- safetensors */

#define TENSOR(name, type, shape, begin, end)                                                                                              \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void safetensors_accepts(void **state)
{
    fixture *f = *state;

    accept_header(f, "{}", 0);
    accept_header(f, "{}   ", 5);
    accept_header(f, "{\"__metadata__\":{}}", 0);
    accept_header(f, "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("a", "F32", "[4,4]", "0", "64") "}", 64);
    accept_header(f, "{" TENSOR("a", "F32", "[2]", "56", "64") "," TENSOR("b", "F16", "[]", "3", "5") "}", 64); /* any order, gaps, odd */
    accept_header(f, "{" TENSOR("none", "F32", "[0,7]", "64", "64") "," TENSOR("a", "U8", "[64]", "0", "64") "}", 64);
    accept_header(f, "{" TENSOR("none", "F32", "[3,0]", "10", "10") "," TENSOR("a", "U8", "[64]", "0", "64") "}",
                  64); /* empty: overlaps nothing */
    accept_header(f, "{" TENSOR("a", "U8", "[1,1,1,1,1,1,1,1]", "0", "1") "}", 1);
    accept_header(f, "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1],\"new\":{},\"dtype\":\"U8\"}}", 1);
    accept_header(f, "{" TENSOR("\\u00fc\\n", "U8", "[1]", "0", "1") "}", 1);
}

static void safetensors_refuses(void **state)
{
    fixture *f = *state;

    refuse_header(f, "{\"a\":1}", "tensor 'a': expected a JSON object");
    refuse_header(f, "{\"a\":{}}", "\"dtype\"");
    refuse_header(f, "{" TENSOR("a", "F33", "[1]", "0", "4") "}", "unknown dtype \"F33\"");
    refuse_header(f, "{" TENSOR("a", "f32", "[1]", "0", "4") "}", "unknown dtype");
    refuse_header(f, "{" TENSOR("a", "F32", "1", "0", "4") "}", "\"shape\" to be an array");
    refuse_header(f, "{" TENSOR("a", "F32", "[-1]", "0", "4") "}", "integers >= 0");
    refuse_header(f, "{" TENSOR("a", "F32", "[1.0]", "0", "4") "}", "integers >= 0");
    refuse_header(f, "{" TENSOR("a", "F32", "[\"1\"]", "0", "4") "}", "integers >= 0");
    refuse_header(f, "{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", "found 9 dimensions, expected at most 8");
    refuse_header(f, "{" TENSOR("a", "F32", "[1]", "0", "65") "}", "within the 64 bytes");
    refuse_header(f, "{" TENSOR("a", "F32", "[1]", "8", "4") "}", "[8, 4]");
    refuse_header(f, "{" TENSOR("a", "F32", "[1]", "-4", "0") "}", "two integers");
    refuse_header(f, "{" TENSOR("a", "F32", "[1]", "0", "4.0") "}", "two integers");
    refuse_header(f, "{" TENSOR("a", "F32", "[1]", "0", "18446744073709551620") "}", "too big integer");
    refuse_header(f, "{" TENSOR("a", "F32", "[1]", "9223372036854775807", "9223372036854775807") "}", "within the 64 bytes");
    refuse_header(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", "two integers");
    refuse_header(f, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "two integers");
    refuse_header(f, "{" TENSOR("a", "F32", "[2,3]", "0", "20") "}", "found 20 bytes of data, expected 24 for F32 [2, 3]");
    refuse_header(f, "{" TENSOR("a", "F32", "[]", "0", "0") "}", "found 0 bytes of data, expected 4");
    refuse_header(f, "{" TENSOR("a", "F4", "[3]", "0", "1") "}", "found 1 bytes");
    refuse_header(f, "{" TENSOR("a", "F32", "[4294967296,4294967296,4]", "0", "0") "}", "absurd shape");
    refuse_header(f, "{" TENSOR("a", "F32", "[4611686018427387904]", "0", "0") "}", "absurd shape");
    refuse_header(f, "{" TENSOR("a", "F32", "[0,4611686018427387904,4]", "0", "0") "}", "absurd shape");
    refuse_header(f, "{" TENSOR("a", "F32", "[2]", "0", "8") "," TENSOR("b", "F32", "[2]", "7", "15") "}", "'b' begins at byte");
    refuse_header(f, "{" TENSOR("a", "F32", "[2]", "8", "16") "," TENSOR("b", "F32", "[8]", "0", "32") "}", "inside that of 'b'");
    refuse_header(f, "{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("b", "U8", "[4]", "0", "4") "}", "inside that of 'a'");
    refuse_header(f, "{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("a", "U8", "[4]", "4", "8") "}", "duplicate");
    refuse_header(f, "{" TENSOR("a", "U8", "[4]", "0", "4") "," TENSOR("\\u0061", "U8", "[4]", "4", "8") "}", "duplicate");
    refuse_header(f, "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "duplicate");
    refuse_header(f, "{\"__metadata__\":[]}", "to be an object");
    refuse_header(f, "{\"__metadata__\":{\"a\":1}}", "strings only");
    refuse_header(f, "{\"\\u0000\":{}}", "NUL");
    refuse_header(f, "{\"a", "not valid JSON");
    refuse_header(f, "{}x", "not valid JSON");
    refuse_header(f, "{", "not valid JSON");
}

static void header_lengths(void **state)
{
    fixture *f = *state;
    static const uint64_t lengths[] = {0x8000000000000000u, UINT64_MAX, UINT64_MAX - 7, 100, 3};

    for (size_t i = 0; i < ESI_COUNT(lengths); i++) {
        bytes b = {.len = 0};
        put_u64(&b, lengths[i]);
        put_text(&b, "{}");
        refuse(f, &b, "found a header of");
    }
    bytes zero = {.len = 0};
    put_u64(&zero, 0);
    put_text(&zero, "{}");
    refuse(f, &zero, "not valid JSON");

    /* 100 MB is the format's limit: the check comes before a single byte is parsed */
    size_t len = 100000001;
    uint8_t *big = calloc(8 + len, 1);
    esi_weight_file *file;
    assert_non_null(big);
    for (int i = 0; i < 8; i++) big[i] = (uint8_t)((uint64_t)len >> (8 * i));
    big[8] = '{';
    esi_clear_error(f->ctx);
    assert_int_equal(esi_weight_file_parse(f->ctx, &file, big, 8 + len, "big"), ESPALIER_ERR_MODEL);
    assert_non_null(strstr(espalier_error_message(f->ctx), "expected at most 100000000"));
    free(big);
}

/* The position is that of the tensor's entry in the file. */
static void error_position(void **state)
{
    fixture *f = *state;
    static const char first[] = "{" TENSOR("a", "U8", "[1]", "0", "1") ",";
    bytes b = safetensors_file("{" TENSOR("a", "U8", "[1]", "0", "1") "," TENSOR("b", "U8", "[2]", "1", "2") "}", 2);
    refuse(f, &b, "tensor 'b'");
    assert_int_equal(espalier_error_offset(f->ctx), 8 + sizeof first - 1);
}

static void other_files(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *text, *part;
    } cases[] = {{"", "neither"},
                 {"x", "neither"},
                 {"PK\3\4 archive bytes", "PyTorch"},
                 {"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
                 {"<!DOCTYPE html>", "web page"},
                 {"FUGG and more", "byte order"},
                 {"a text of some length", "neither"}};

    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        bytes b = {.len = 0};
        put_text(&b, cases[i].text);
        refuse(f, &b, cases[i].part);
    }
}

static void paths(void **state)
{
    fixture *f = *state;
    char path[128];
    esi_weight_file *file;

    esi_clear_error(f->ctx);
    assert_int_equal(esi_weight_file_open(f->ctx, &file, f->dir), ESPALIER_ERR_MODEL);
    assert_null(file);
    esi_clear_error(f->ctx);
    assert_int_equal(esi_weight_file_open(f->ctx, &file, fixture_path(f, path, "absent")), ESPALIER_ERR_MODEL);
    assert_null(file);
    fclose(fopen(fixture_path(f, path, "empty"), "wb"));
    esi_clear_error(f->ctx);
    assert_int_equal(esi_weight_file_open(f->ctx, &file, path), ESPALIER_ERR_MODEL);
    assert_null(file);
    assert_non_null(strstr(espalier_error_message(f->ctx), "(0 bytes)"));
    unlink(path);
}

/* --------------------------------------------------------------------- GGUF */

static bytes gguf_start(uint32_t version, uint64_t tensors, uint64_t pairs)
{
    bytes b = {.len = 0};
    put_text(&b, "GGUF");
    put_u32(&b, version);
    put_u64(&b, tensors);
    put_u64(&b, pairs);
    return b;
}

static void put_key(bytes *b, const char *key, uint32_t type)
{
    put_string(b, key);
    put_u32(b, type);
}

/* Dimensions innermost first, as in the file. */
static void put_info(bytes *b, const char *name, uint32_t rank, const uint64_t *dims, uint32_t type, uint64_t offset)
{
    put_string(b, name);
    put_u32(b, rank);
    for (uint32_t i = 0; i < rank; i++) put_u64(b, dims[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

static void finish(bytes *b, size_t alignment, size_t data)
{
    while (b->len % alignment != 0) put_zeros(b, 1);
    put_zeros(b, data);
}

/* One tensor after no keys. */
static bytes gguf_tensor(const char *name, uint32_t rank, const uint64_t *dims, uint32_t type, uint64_t offset, size_t data)
{
    bytes b = gguf_start(3, 1, 0);
    put_info(&b, name, rank, dims, type, offset);
    finish(&b, 32, data);
    return b;
}

static void put_array(bytes *b, uint32_t type, uint64_t count)
{
    put_u32(b, type);
    put_u64(b, count);
}

/* A key of every type, arrays of everything, three tensors, alignment 64. */
static bytes gguf_rich(uint32_t version)
{
    static const size_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    bytes b = gguf_start(version, 3, 13 + 6);

    put_key(&b, "general.architecture", 8);
    put_string(&b, "trellis2-test");
    for (uint32_t type = 0; type < 13; type++) {
        if (sizes[type] == 0) continue;
        put_key(&b, "scalar", type);
        put_number(&b, 1, sizes[type]);
    }
    put_key(&b, "", 8);
    put_string(&b, "");
    put_key(&b, "numbers", 9);
    put_array(&b, 2, 3);
    put_zeros(&b, 6);
    put_key(&b, "strings", 9);
    put_array(&b, 8, 2);
    put_string(&b, "one");
    put_string(&b, "");
    put_key(&b, "nested", 9);
    put_array(&b, 9, 2);
    put_array(&b, 0, 0);
    put_array(&b, 12, 1);
    put_zeros(&b, 8);
    put_key(&b, "empty", 9);
    put_array(&b, 8, 0);
    put_key(&b, "general.alignment", 4);
    put_u32(&b, 64);
    put_key(&b, "trellis.config_json", 8);
    put_string(&b, "{\"name\":\"x\"}");
    put_info(&b, "w", 2, (const uint64_t[]){32, 3}, 8, 128);
    put_info(&b, "bias", 1, (const uint64_t[]){5}, 0, 0);
    put_info(&b, "k", 2, (const uint64_t[]){32, 1}, 2, 64);
    finish(&b, 64, 128 + 3 * 34);
    return b;
}

static void gguf_accepts(void **state)
{
    fixture *f = *state;

    for (uint32_t version = 2; version <= 3; version++) {
        bytes b = gguf_rich(version);
        esi_weight_file *file;
        uint8_t *copy;
        if (parse_copy(f, &file, &copy, b.data, b.len) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
        assert_string_equal(file->architecture, "trellis2-test");
        assert_string_equal(file->config_json, "{\"name\":\"x\"}");
        assert_int_equal(file->count, 3);
        const esi_file_tensor *w = esi_weight_file_find(file, "w"), *k = esi_weight_file_find(file, "k");
        assert_int_equal(w->dtype, ESI_FILE_Q8_0);
        assert_int_equal(w->shape[0], 3);
        assert_int_equal(w->shape[1], 32);
        assert_int_equal(w->size, 102);
        assert_int_equal(w->offset + w->size, b.len);
        assert_int_equal(k->dtype, ESI_FILE_OTHER);
        assert_int_equal(k->size, 18);
        assert_string_equal(k->type_name, "Q4_0");
        use(f, file, b.len);
        esi_weight_file_free(file);
        free(copy);
    }
    bytes none = gguf_start(3, 0, 0);
    accept(f, &none);
    bytes scalar = gguf_tensor("s", 0, NULL, 0, 0, 4);
    accept(f, &scalar);
    bytes empty = gguf_tensor("e", 2, (const uint64_t[]){0, 7}, 0, 0, 0);
    accept(f, &empty);
}

static void gguf_refuses_header(void **state)
{
    fixture *f = *state;
    static const uint32_t versions[] = {0, 1, 4, 0x03000000};

    for (size_t i = 0; i < ESI_COUNT(versions); i++) {
        bytes b = gguf_start(versions[i], 0, 0);
        refuse(f, &b, "expected 2 or 3");
    }
    bytes b = gguf_start(0x03000000, 0, 0);
    refuse(f, &b, "byte order");
    static const uint64_t counts[] = {1, 1u << 20, (1u << 20) + 1, 0x8000000000000000u, UINT64_MAX};
    for (size_t i = 0; i < ESI_COUNT(counts); i++) {
        b = gguf_start(3, counts[i], 0);
        refuse(f, &b, "tensors");
        b = gguf_start(3, 0, counts[i]);
        refuse(f, &b, "keys");
    }
}

static void gguf_refuses_values(void **state)
{
    fixture *f = *state;
    bytes b;

#define KEY(key, type)                                                                                                                     \
    b = gguf_start(3, 0, 1);                                                                                                               \
    put_key(&b, key, type)
    KEY("k", 13);
    put_zeros(&b, 64);
    refuse(f, &b, "value type 13");
    KEY("k", 8);
    put_u64(&b, UINT64_MAX);
    put_zeros(&b, 64);
    refuse(f, &b, "a string value");
    KEY("k", 9);
    put_array(&b, 13, 1);
    put_zeros(&b, 64);
    refuse(f, &b, "value type 13");
    KEY("k", 9);
    put_array(&b, 12, UINT64_MAX / 8 + 2); /* times 8 wraps to 8 */
    put_zeros(&b, 64);
    refuse(f, &b, "an array");
    KEY("k", 9);
    put_array(&b, 8, UINT64_MAX);
    put_zeros(&b, 64);
    refuse(f, &b, "a string value");
    KEY("k", 9);
    for (int depth = 0; depth < 100; depth++) put_array(&b, 9, 1);
    refuse(f, &b, "nest deeper");
    KEY("general.alignment", 5);
    put_u32(&b, 32);
    refuse(f, &b, "general.alignment of type u32");
    static const uint32_t alignments[] = {0, 1, 4, 24, 33, 1u << 21, 0x80000000u};
    for (size_t i = 0; i < ESI_COUNT(alignments); i++) {
        KEY("general.alignment", 4);
        put_u32(&b, alignments[i]);
        refuse(f, &b, "power of two");
    }
    KEY("general.architecture", 4);
    put_u32(&b, 32);
    refuse(f, &b, "expected a string");
    KEY("general.architecture", 8);
    put_string(&b, "\xff");
    refuse(f, &b, "UTF-8");
    KEY("trellis.config_json", 8);
    put_u64(&b, 3);
    put(&b, "a\0b", 3);
    refuse(f, &b, "UTF-8");
#undef KEY
    static const char *const once[] = {"general.architecture", "trellis.config_json"};
    for (size_t i = 0; i < 2; i++) {
        b = gguf_start(3, 0, 2);
        for (int twice = 0; twice < 2; twice++) {
            put_key(&b, once[i], 8);
            put_string(&b, "x");
        }
        refuse(f, &b, "twice");
    }
    b = gguf_start(3, 0, 2);
    for (int twice = 0; twice < 2; twice++) {
        put_key(&b, "general.alignment", 4);
        put_u32(&b, 32);
    }
    refuse(f, &b, "one general.alignment");
}

static void gguf_refuses_tensors(void **state)
{
    fixture *f = *state;
    static const uint64_t one[5] = {1, 1, 1, 1, 1}, four[] = {4}, row33[] = {33}, row32[] = {32}, huge[] = {UINT64_MAX},
                          flat[] = {INT64_MAX}, product[] = {4294967296u, 4294967296u}, hidden[] = {0, INT64_MAX, 4};
    const struct {
        uint32_t rank, type;
        const uint64_t *dims;
        uint64_t offset;
        const char *part;
    } cases[] = {
        {5, 0, one, 0, "found 5 dimensions, expected at most 4"},
        {UINT32_MAX, 0, NULL, 0, "takes"},
        {1, 0, huge, 0, "beyond 2^63"},
        {1, 0, flat, 0, "absurd shape"},
        {2, 1, product, 0, "absurd shape"},
        {3, 1, hidden, 0, "absurd shape"},
        {1, 4, four, 0, "unknown type number 4"},
        {1, 40, four, 0, "unknown type number 40"},
        {1, UINT32_MAX, four, 0, "unknown type number"},
        {1, 8, row33, 0, "expected rows of a multiple of 32"},
        {0, 8, NULL, 0, "expected rows of a multiple of 32"},
        {1, 14, row32, 0, "expected rows of a multiple of 256"},
        {1, 0, four, 4, "expected a multiple of 32"},
        {1, 0, four, 64, "truncated"},
        {1, 0, four, 0xffffffffffffffe0u, "truncated"},
        {1, 0, row32, 0, "found 128 bytes"},
    };
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        bytes b = gguf_tensor("t", cases[i].rank == UINT32_MAX ? 0 : cases[i].rank, cases[i].dims, cases[i].type, cases[i].offset, 64);
        if (cases[i].rank == UINT32_MAX) memset(b.data + 24 + 9, 0xff, 4);
        refuse(f, &b, cases[i].part);
    }
    bytes b = gguf_tensor("\xff", 1, four, 0, 0, 64);
    refuse(f, &b, "not UTF-8");
    b = gguf_tensor("ab", 1, four, 0, 0, 64);
    b.data[24 + 8] = 0;
    refuse(f, &b, "not UTF-8");
    b = gguf_start(3, 2, 0);
    put_info(&b, "a", 1, four, 0, 0);
    put_info(&b, "a", 1, four, 0, 32);
    finish(&b, 32, 64);
    refuse(f, &b, "'a' occurs twice");
    b = gguf_start(3, 2, 0);
    put_info(&b, "a", 1, row32, 0, 0);
    put_info(&b, "b", 1, four, 0, 32);
    finish(&b, 32, 128);
    refuse(f, &b, "'b' begins at byte");
}

/* ------------------------------------------------------------------- damage */

static bytes safetensors_small(void)
{
    return safetensors_file("{\"__metadata__\":{\"f\":\"p\"}," TENSOR("a", "F32", "[2,3]", "0", "24") "," TENSOR(
                                "b\\u00e9", "I64", "[1]", "24", "32") "," TENSOR("c", "U8", "[]", "32", "33") "}",
                            33);
}

/* Every truncation is an error: nothing in these files can be left away. */
static void truncated_anywhere(void **state)
{
    fixture *f = *state;
    bytes files[] = {safetensors_small(), gguf_rich(3)};

    for (size_t i = 0; i < ESI_COUNT(files); i++) {
        bytes b = files[i];
        accept(f, &b);
        while (b.len-- > 0) refuse(f, &b, "");
    }
}

static void flipped_anywhere(void **state)
{
    fixture *f = *state;
    bytes files[] = {safetensors_small(), gguf_rich(2)};

    for (size_t i = 0; i < ESI_COUNT(files); i++)
        for (size_t bit = 0; bit < 8 * files[i].len; bit++) {
            bytes b = files[i];
            esi_weight_file *file;
            uint8_t *copy;
            long live = f->live;
            b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            espalier_status st = parse_copy(f, &file, &copy, b.data, b.len);
            assert_true((st == ESPALIER_OK) == (file != NULL));
            if (st == ESPALIER_OK)
                use(f, file, b.len);
            else
                assert_int_equal(st, ESPALIER_ERR_MODEL);
            esi_weight_file_free(file);
            assert_int_equal(f->live, live);
            free(copy);
        }
}

/* ------------------------------------------------------- failing allocations */

/* One step of the life of a weight file; the same allocations each time. */
typedef espalier_status (*step)(fixture *f, const char *path);

static espalier_status open_and_read(fixture *f, const char *path)
{
    esi_weight_file *file = NULL;
    float *values = NULL;
    int32_t *integers = NULL;
    espalier_status st = esi_weight_file_open(f->ctx, &file, path);
    if (st == ESPALIER_OK) st = esi_file_tensor_read_f32(f->ctx, file, &file->tensors[0], &values);
    if (st == ESPALIER_OK) st = esi_file_tensor_read_i32(f->ctx, file, &file->tensors[1], &integers);
    esi_free(f->ctx, integers);
    esi_free(f->ctx, values);
    esi_weight_file_free(file);
    return st;
}

static espalier_status fill_zeros(void *user, size_t entry, uint64_t offset, void *data, size_t size)
{
    (void)user, (void)entry, (void)offset;
    memset(data, 0, size);
    return ESPALIER_OK;
}

static const esi_safetensors_entry step_entries[] = {
    {.name = "a", .dtype = ESI_FILE_F32, .rank = 2, .shape = {2, 3}},
    {.name = "i", .dtype = ESI_FILE_I32, .rank = 1, .shape = {3}},
};

static espalier_status write_safetensors(fixture *f, const char *path)
{
    return esi_safetensors_write(f->ctx, path, step_entries, 2, NULL, fill_zeros, NULL);
}

static espalier_status write_gguf(fixture *f, const char *path)
{
    return esi_gguf_write(f->ctx, path, step_entries, 2, "arch", "name", "{}", fill_zeros, NULL);
}

static void failing_allocations(void **state)
{
    fixture *f = *state;
    static const struct {
        step run;
        int least; /* allocations that it surely makes */
    } steps[] = {{write_safetensors, 4}, {open_and_read, 6}, {write_gguf, 4}, {open_and_read, 5}};
    char path[128];

    fixture_path(f, path, "s.bin");
    for (size_t s = 0; s < ESI_COUNT(steps); s++) {
        espalier_status st = ESPALIER_ERR_RESOURCE;
        long n, live = f->live;
        for (n = 0; st != ESPALIER_OK && n < 1000; n++) {
            esi_clear_error(f->ctx);
            f->fail_in = n;
            st = steps[s].run(f, path);
            f->fail_in = -1;
            assert_int_equal(f->live, live);
            assert_int_equal(espalier_context_memory_now(f->ctx), 0);
            if (st == ESPALIER_OK) break;
            if (st != ESPALIER_ERR_RESOURCE || espalier_error_message(f->ctx)[0] == '\0') fail_msg("allocation %ld: status %d", n, (int)st);
        }
        assert_int_equal(st, ESPALIER_OK);
        assert_true(n >= steps[s].least);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(safetensors_accepts, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(safetensors_refuses, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(header_lengths, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(error_position, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(other_files, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(paths, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(gguf_accepts, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(gguf_refuses_header, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(gguf_refuses_values, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(gguf_refuses_tensors, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(truncated_anywhere, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(flipped_anywhere, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(failing_allocations, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
