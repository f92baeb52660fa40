/* SPDX-License-Identifier: MIT
 *
 * gguf.c: read the header of a GGUF v2 or v3 file: counts, key/value pairs, tensor list; the data section follows after padding. Format:
 * the GGUF page of the ggml documentation. Two keys are kept (general.architecture, trellis.config_json), one steers (general.alignment);
 * all others are skipped whatever their type.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"

#define MAX_DIMS          4 /* of ggml */
#define MAX_ARRAY_DEPTH   8 /* ggml writes no nested arrays at all */
#define DEFAULT_ALIGNMENT 32u
#define MAX_ALIGNMENT     (1u << 20)
#define MAX_KEPT_STRING   (64u << 20)
/* The least that one tensor (empty name, rank 0) and one pair (empty key, one byte) take: bounds for hostile counts. */
#define MIN_TENSOR_INFO 24u
#define MIN_PAIR        13u

/* clang-format off */
enum value_type {
    VALUE_U8, VALUE_I8, VALUE_U16, VALUE_I16, VALUE_U32, VALUE_I32, VALUE_F32, VALUE_BOOL, VALUE_STRING, VALUE_ARRAY, VALUE_U64, VALUE_I64,
    VALUE_F64, VALUE_TYPES
};
/* clang-format on */

/* Zero: not of fixed size. */
static const uint8_t value_sizes[VALUE_TYPES] = {
    [VALUE_U8] = 1,  [VALUE_I8] = 1,   [VALUE_U16] = 2, [VALUE_I16] = 2, [VALUE_U32] = 4, [VALUE_I32] = 4,
    [VALUE_F32] = 4, [VALUE_BOOL] = 1, [VALUE_U64] = 8, [VALUE_I64] = 8, [VALUE_F64] = 8,
};

/* Tensor types by their number in ggml; `block` elements of a row share `bytes` bytes. Numbers left out were withdrawn or are never stored.
 */
/* clang-format off */
static const struct {
    const char *name;
    esi_file_dtype dtype;
    unsigned block, bytes;
} tensor_types[] = {
    [0] = {"F32", ESI_FILE_F32, 1, 4},
    [1] = {"F16", ESI_FILE_F16, 1, 2},
    [2] = {"Q4_0", ESI_FILE_OTHER, 32, 18},
    [3] = {"Q4_1", ESI_FILE_OTHER, 32, 20},
    [6] = {"Q5_0", ESI_FILE_OTHER, 32, 22},
    [7] = {"Q5_1", ESI_FILE_OTHER, 32, 24},
    [8] = {"Q8_0", ESI_FILE_Q8_0, 32, 34},
    [10] = {"Q2_K", ESI_FILE_OTHER, 256, 84},
    [11] = {"Q3_K", ESI_FILE_OTHER, 256, 110},
    [12] = {"Q4_K", ESI_FILE_OTHER, 256, 144},
    [13] = {"Q5_K", ESI_FILE_OTHER, 256, 176},
    [14] = {"Q6_K", ESI_FILE_OTHER, 256, 210},
    [16] = {"IQ2_XXS", ESI_FILE_OTHER, 256, 66},
    [17] = {"IQ2_XS", ESI_FILE_OTHER, 256, 74},
    [18] = {"IQ3_XXS", ESI_FILE_OTHER, 256, 98},
    [19] = {"IQ1_S", ESI_FILE_OTHER, 256, 50},
    [20] = {"IQ4_NL", ESI_FILE_OTHER, 32, 18},
    [21] = {"IQ3_S", ESI_FILE_OTHER, 256, 110},
    [22] = {"IQ2_S", ESI_FILE_OTHER, 256, 82},
    [23] = {"IQ4_XS", ESI_FILE_OTHER, 256, 136},
    [24] = {"I8", ESI_FILE_OTHER, 1, 1},
    [25] = {"I16", ESI_FILE_OTHER, 1, 2},
    [26] = {"I32", ESI_FILE_I32, 1, 4},
    [27] = {"I64", ESI_FILE_I64, 1, 8},
    [28] = {"F64", ESI_FILE_F64, 1, 8},
    [29] = {"IQ1_M", ESI_FILE_OTHER, 256, 56},
    [30] = {"BF16", ESI_FILE_BF16, 1, 2},
    [34] = {"TQ1_0", ESI_FILE_OTHER, 256, 54},
    [35] = {"TQ2_0", ESI_FILE_OTHER, 256, 66},
    [39] = {"MXFP4", ESI_FILE_OTHER, 32, 17},
};
/* clang-format on */

/* ------------------------------------------------------------------ cursor */

typedef struct span {
    const uint8_t *data;
    size_t len;
    uint64_t at; /* position of the length field in the file */
} span;

typedef struct reader {
    espalier_context *ctx;
    esi_weight_file *file;
    uint64_t pos;
    uint64_t tensor_count, pair_count;
    uint32_t alignment;
    bool has_alignment;
    span architecture, config; /* data NULL = absent */
} reader;

/* `len` bytes at the cursor, or an error that names what they would have been. */
static espalier_status take(reader *r, uint64_t len, const char *what, const uint8_t **out)
{
    uint64_t left = r->file->size - r->pos;

    if (len > left)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)r->pos,
                           "%s: %s at byte %llu takes %llu bytes, but only %llu follow; the file is truncated or damaged", r->file->name,
                           what, (unsigned long long)r->pos, (unsigned long long)len, (unsigned long long)left);
    *out = r->file->bytes + r->pos;
    r->pos += len;
    return ESPALIER_OK;
}

static espalier_status take_u32(reader *r, const char *what, uint32_t *out)
{
    const uint8_t *p = NULL;
    espalier_status st = take(r, 4, what, &p);
    if (st == ESPALIER_OK) *out = esi_load_u32le(p);
    return st;
}

static espalier_status take_u64(reader *r, const char *what, uint64_t *out)
{
    const uint8_t *p = NULL;
    espalier_status st = take(r, 8, what, &p);
    if (st == ESPALIER_OK) *out = esi_load_u64le(p);
    return st;
}

static espalier_status take_string(reader *r, const char *what, span *out)
{
    uint64_t at = r->pos, len;
    espalier_status st = take_u64(r, what, &len);

    if (st == ESPALIER_OK) st = take(r, len, what, &out->data);
    if (st != ESPALIER_OK) return st;
    out->len = (size_t)len;
    out->at = at;
    return ESPALIER_OK;
}

static bool span_is(span s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* ------------------------------------------------------------ keys, values */

static espalier_status bad_type(const reader *r, const char *what, uint32_t found)
{
    return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)r->pos, "%s: %s: found value type %u, expected 0 to %d", r->file->name, what,
                       found, VALUE_TYPES - 1);
}

static espalier_status skip_value(reader *r, uint32_t type, int depth);

static espalier_status skip_array(reader *r, int depth)
{
    uint32_t type;
    uint64_t count, len;
    const uint8_t *p;
    espalier_status st;

    if (depth >= MAX_ARRAY_DEPTH)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)r->pos, "%s: arrays nest deeper than %d levels at byte %llu", r->file->name,
                           MAX_ARRAY_DEPTH, (unsigned long long)r->pos);
    st = take_u32(r, "an array's type", &type);
    if (st == ESPALIER_OK) st = take_u64(r, "an array's length", &count);
    if (st != ESPALIER_OK) return st;
    if (type >= VALUE_TYPES) return bad_type(r, "array elements", type);
    if (value_sizes[type] > 0) {
        if (!esi_mul_u64(&len, count, value_sizes[type])) len = UINT64_MAX;
        return take(r, len, "an array", &p);
    }
    /* Each string or array takes at least 8 bytes, so that the file's size bounds this loop. */
    while (st == ESPALIER_OK && count-- > 0) st = skip_value(r, type, depth + 1);
    return st;
}

static espalier_status skip_value(reader *r, uint32_t type, int depth)
{
    const uint8_t *p;
    span s;

    if (type >= VALUE_TYPES) return bad_type(r, "a key's value", type);
    if (type == VALUE_STRING) return take_string(r, "a string value", &s);
    if (type == VALUE_ARRAY) return skip_array(r, depth);
    return take(r, value_sizes[type], "a value", &p);
}

static espalier_status keep_string(reader *r, const char *key, uint32_t type, span *out)
{
    espalier_status st;

    if (type != VALUE_STRING)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)r->pos, "%s: key '%s': found value type %u, expected a string",
                           r->file->name, key, type);
    if (out->data) return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)r->pos, "%s: key '%s' occurs twice", r->file->name, key);
    st = take_string(r, key, out);
    if (st != ESPALIER_OK) return st;
    if (out->len > MAX_KEPT_STRING || !esi_is_utf8(out->data, out->len))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)out->at, "%s: key '%s': expected UTF-8 text of at most %u bytes",
                           r->file->name, key, MAX_KEPT_STRING);
    return ESPALIER_OK;
}

static espalier_status read_alignment(reader *r, uint32_t type)
{
    uint64_t at = r->pos;
    espalier_status st;

    if (type != VALUE_U32 || r->has_alignment)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: expected one general.alignment of type u32", r->file->name);
    st = take_u32(r, "general.alignment", &r->alignment);
    if (st != ESPALIER_OK) return st;
    r->has_alignment = true;
    if (r->alignment < 8 || r->alignment > MAX_ALIGNMENT || (r->alignment & (r->alignment - 1)) != 0)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: found general.alignment %u, expected a power of two from 8 to %u",
                           r->file->name, r->alignment, MAX_ALIGNMENT);
    return ESPALIER_OK;
}

static espalier_status read_pair(reader *r)
{
    uint32_t type;
    span key;
    espalier_status st;

    st = take_string(r, "a key", &key);
    if (st == ESPALIER_OK) st = take_u32(r, "a value type", &type);
    if (st != ESPALIER_OK) return st;
    if (span_is(key, "general.architecture")) return keep_string(r, "general.architecture", type, &r->architecture);
    if (span_is(key, "trellis.config_json")) return keep_string(r, "trellis.config_json", type, &r->config);
    if (span_is(key, "general.alignment")) return read_alignment(r, type);
    return skip_value(r, type, 0);
}

/* ----------------------------------------------------------------- tensors */

static espalier_status bad_tensor(const reader *r, const esi_file_tensor *t, uint64_t at, const char *found_and_expected)
{
    return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: tensor '%.200s': %s", r->file->name, t->name, found_and_expected);
}

static espalier_status read_dims(reader *r, esi_file_tensor *t)
{
    uint64_t at = r->pos, dim;
    uint32_t rank;
    espalier_status st;

    st = take_u32(r, "a tensor's rank", &rank);
    if (st != ESPALIER_OK) return st;
    if (rank > MAX_DIMS)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: tensor '%.200s': found %u dimensions, expected at most %d",
                           r->file->name, t->name, rank, MAX_DIMS);
    t->rank = (int)rank;
    for (uint32_t i = 0; i < rank; i++) {
        st = take_u64(r, "a tensor's dimensions", &dim);
        if (st != ESPALIER_OK) return st;
        if (dim > INT64_MAX) return bad_tensor(r, t, at, "found a dimension beyond 2^63");
        t->shape[rank - 1 - i] = (int64_t)dim; /* stored innermost first */
    }
    return ESPALIER_OK;
}

/* Type, and the size that it gives to the shape. */
static espalier_status read_type(reader *r, esi_file_tensor *t)
{
    char shape[ESI_SHAPE_TEXT];
    uint64_t at = r->pos, elements;
    uint32_t type;
    espalier_status st;

    st = take_u32(r, "a tensor's type", &type);
    if (st != ESPALIER_OK) return st;
    if (type >= ESI_COUNT(tensor_types) || tensor_types[type].name == NULL)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: tensor '%.200s': found unknown type number %u", r->file->name,
                           t->name, type);
    t->dtype = tensor_types[type].dtype;
    t->type_name = tensor_types[type].name;
    esi_shape_text(shape, sizeof shape, t->shape, t->rank);
    if (!esi_shape_elements(&elements, t->shape, t->rank))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: tensor '%.200s': absurd shape %s", r->file->name, t->name, shape);
    int64_t row = t->rank > 0 ? t->shape[t->rank - 1] : 1;
    if (row % tensor_types[type].block != 0)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at,
                           "%s: tensor '%.200s': found shape %s, expected rows of a multiple of %u for %s", r->file->name, t->name, shape,
                           tensor_types[type].block, t->type_name);
    if (!esi_mul_u64(&t->size, elements / tensor_types[type].block, tensor_types[type].bytes))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: tensor '%.200s': absurd shape %s", r->file->name, t->name, shape);
    return ESPALIER_OK;
}

/* The offset still counts from the data section, whose place is known only after the last tensor. */
static espalier_status read_offset(reader *r, esi_file_tensor *t)
{
    uint64_t at = r->pos;
    espalier_status st = take_u64(r, "a tensor's offset", &t->offset);

    if (st == ESPALIER_OK && t->offset % r->alignment != 0)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)at, "%s: tensor '%.200s': found offset %llu, expected a multiple of %u",
                           r->file->name, t->name, (unsigned long long)t->offset, r->alignment);
    return st;
}

static espalier_status read_tensor(reader *r, esi_file_tensor *t, esi_weight_storage *storage)
{
    span name;
    espalier_status st;

    st = take_string(r, "a tensor's name", &name);
    if (st != ESPALIER_OK) return st;
    t->name = esi_weight_keep(storage, name.data, name.len);
    if (!esi_is_utf8(name.data, name.len))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)name.at, "%s: the tensor name at byte %llu is not UTF-8 text",
                           r->file->name, (unsigned long long)name.at);
    st = read_dims(r, t);
    if (st == ESPALIER_OK) st = read_type(r, t);
    if (st == ESPALIER_OK) st = read_offset(r, t);
    return st;
}

/* Pass one over the tensor list: only the room that names need. Leaves the cursor where it was. */
static espalier_status measure_names(reader *r, size_t *text_size)
{
    uint64_t begin = r->pos;
    espalier_status st = ESPALIER_OK;

    for (uint64_t i = 0; st == ESPALIER_OK && i < r->tensor_count; i++) {
        const uint8_t *p;
        uint32_t rank;
        span name;
        st = take_string(r, "a tensor's name", &name);
        if (st == ESPALIER_OK) st = take_u32(r, "a tensor's rank", &rank);
        if (st == ESPALIER_OK) st = take(r, (uint64_t)rank * 8 + 12, "a tensor's description", &p);
        if (st == ESPALIER_OK) *text_size += name.len + 1;
    }
    r->pos = begin;
    return st;
}

/* Offsets become positions in the file. */
static espalier_status place_data(reader *r)
{
    uint64_t begin = (r->pos + r->alignment - 1) / r->alignment * r->alignment;
    uint64_t room = r->file->size > begin ? r->file->size - begin : 0;

    for (size_t i = 0; i < r->file->count; i++) {
        esi_file_tensor *t = &r->file->tensors[i];
        /* Padding may be missing at the end of the file, so an empty tensor may lie behind it. */
        if (t->size == 0 && t->offset > room) t->offset = room;
        if (t->offset > room || t->size > room - t->offset)
            return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, (int64_t)ESI_MIN(begin, r->file->size),
                               "%s: tensor '%.200s': found %llu bytes at offset %llu, but there are only %llu bytes of data; the file is "
                               "truncated or damaged",
                               r->file->name, t->name, (unsigned long long)t->size, (unsigned long long)t->offset,
                               (unsigned long long)room);
        t->offset += ESI_MIN(begin, r->file->size);
    }
    return ESPALIER_OK;
}

/* ---------------------------------------------------------------- the file */

static espalier_status read_counts(reader *r)
{
    uint32_t version;
    uint64_t left;
    espalier_status st;

    r->pos = 4;
    st = take_u32(r, "the version", &version);
    if (st != ESPALIER_OK) return st;
    if (version != 2 && version != 3)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, 4, "%s: found GGUF version %u, expected 2 or 3%s", r->file->name, version,
                           (version & 0xffff) == 0 && version != 0 ? "; the file is of the other byte order" : "");
    st = take_u64(r, "the tensor count", &r->tensor_count);
    if (st == ESPALIER_OK) st = take_u64(r, "the key count", &r->pair_count);
    if (st != ESPALIER_OK) return st;
    left = r->file->size - r->pos;
    if (r->tensor_count > ESI_MIN(left / MIN_TENSOR_INFO, (uint64_t)ESI_MAX_TENSORS))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, 8,
                           "%s: found a count of %llu tensors, expected at most %u and as many as fit in the file", r->file->name,
                           (unsigned long long)r->tensor_count, ESI_MAX_TENSORS);
    if (r->pair_count > left / MIN_PAIR)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, 16, "%s: found a count of %llu keys, more than fit in the file", r->file->name,
                           (unsigned long long)r->pair_count);
    return ESPALIER_OK;
}

static char *keep_span(esi_weight_storage *storage, span s)
{
    return s.data ? esi_weight_keep(storage, s.data, s.len) : NULL;
}

espalier_status esi_gguf_parse(espalier_context *ctx, esi_weight_file *file)
{
    reader r = {.ctx = ctx, .file = file, .alignment = DEFAULT_ALIGNMENT};
    esi_weight_storage storage;
    size_t text_size = 0;
    espalier_status st;

    file->format = ESI_FORMAT_GGUF;
    st = read_counts(&r);
    for (uint64_t i = 0; st == ESPALIER_OK && i < r.pair_count; i++) st = read_pair(&r);
    if (st == ESPALIER_OK) st = measure_names(&r, &text_size);
    if (st != ESPALIER_OK) return st;

    text_size += (r.architecture.data ? r.architecture.len + 1 : 0) + (r.config.data ? r.config.len + 1 : 0);
    st = esi_weight_reserve(ctx, file, &storage, (size_t)r.tensor_count, text_size);
    if (st != ESPALIER_OK) return st;
    file->architecture = keep_span(&storage, r.architecture);
    file->config_json = keep_span(&storage, r.config);
    for (size_t i = 0; st == ESPALIER_OK && i < file->count; i++) st = read_tensor(&r, &file->tensors[i], &storage);
    if (st == ESPALIER_OK) st = place_data(&r);
    return st;
}
