/* SPDX-License-Identifier: MIT
 *
 * safetensors.c: read the header of a safetensors file: u64 length, a JSON object {name: {dtype, shape, data_offsets}}, then the data
 * section that the offsets count from. Format: https://huggingface.co/docs/safetensors. Stricter than JSON: integers only, no name twice.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"
#include "formats/json.h"

#define METADATA_KEY "__metadata__"
#define PREFIX       8u /* the length before the header */

static const struct {
    const char *name;
    esi_file_dtype dtype;
    unsigned bits;
} known_types[] = {
    {"F32", ESI_FILE_F32, 32},      {"F16", ESI_FILE_F16, 16},          {"BF16", ESI_FILE_BF16, 16},        {"F64", ESI_FILE_F64, 64},
    {"I64", ESI_FILE_I64, 64},      {"I32", ESI_FILE_I32, 32},          {"U32", ESI_FILE_U32, 32},          {"U8", ESI_FILE_U8, 8},
    {"BOOL", ESI_FILE_OTHER, 8},    {"I8", ESI_FILE_OTHER, 8},          {"I16", ESI_FILE_OTHER, 16},        {"U16", ESI_FILE_OTHER, 16},
    {"U64", ESI_FILE_OTHER, 64},    {"C64", ESI_FILE_OTHER, 64},        {"F8_E4M3", ESI_FILE_OTHER, 8},     {"F8_E5M2", ESI_FILE_OTHER, 8},
    {"F8_E8M0", ESI_FILE_OTHER, 8}, {"F8_E4M3FNUZ", ESI_FILE_OTHER, 8}, {"F8_E5M2FNUZ", ESI_FILE_OTHER, 8}, {"F6_E2M3", ESI_FILE_OTHER, 6},
    {"F6_E3M2", ESI_FILE_OTHER, 6}, {"F4", ESI_FILE_OTHER, 4},
};

typedef struct reader {
    espalier_context *ctx;
    esi_weight_file *file;
    uint64_t data_begin;
    const esi_json *header;
} reader;

/* Where `"name":` stands in the file, for messages; the begin of the header when it is written with escapes. */
static int64_t position_of(const reader *r, const char *name)
{
    const size_t len = strlen(name);

    for (uint64_t i = PREFIX; i + len + 2 < r->data_begin; i++) {
        const uint8_t *at = r->file->bytes + i;
        if (at[0] != '"' || at[len + 1] != '"' || memcmp(at + 1, name, len) != 0) continue;
        uint64_t end = i + len + 2;
        while (end < r->data_begin && (r->file->bytes[end] == ' ' || r->file->bytes[end] == '\n')) end++;
        if (end < r->data_begin && r->file->bytes[end] == ':') return (int64_t)i;
    }
    return PREFIX;
}

static espalier_status bad_entry(const reader *r, const char *name, const char *found_and_expected)
{
    return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, name), "%s: tensor '%.200s': %s", r->file->name, name,
                       found_and_expected);
}

/* ------------------------------------------------------------ one tensor */

static espalier_status read_dtype(const reader *r, const esi_json *entry, esi_file_tensor *t, unsigned *bits)
{
    const char *name;

    if (!esi_json_string(esi_json_get(entry, "dtype"), &name)) return bad_entry(r, t->name, "expected \"dtype\" to be a string");
    for (size_t i = 0; i < ESI_COUNT(known_types); i++)
        if (strcmp(known_types[i].name, name) == 0) {
            t->dtype = known_types[i].dtype;
            t->type_name = known_types[i].name;
            *bits = known_types[i].bits;
            return ESPALIER_OK;
        }
    return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, t->name), "%s: tensor '%.200s': found unknown dtype \"%.40s\"",
                       r->file->name, t->name, name);
}

static bool read_count(const esi_json *v, int64_t *out)
{
    return esi_json_is_integer(v) && esi_json_int(v, out) && *out >= 0;
}

static espalier_status read_shape(const reader *r, const esi_json *entry, esi_file_tensor *t)
{
    const esi_json *shape = esi_json_get(entry, "shape");
    size_t rank = esi_json_size(shape);

    if (!esi_json_is_array(shape)) return bad_entry(r, t->name, "expected \"shape\" to be an array");
    if (rank > ESI_MAX_RANK)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, t->name),
                           "%s: tensor '%.200s': found %zu dimensions, expected at most %d", r->file->name, t->name, rank, ESI_MAX_RANK);
    for (size_t i = 0; i < rank; i++)
        if (!read_count(esi_json_at(shape, i), &t->shape[i])) return bad_entry(r, t->name, "expected \"shape\" to hold integers >= 0");
    t->rank = (int)rank;
    return ESPALIER_OK;
}

static espalier_status read_offsets(const reader *r, const esi_json *entry, esi_file_tensor *t)
{
    const esi_json *offsets = esi_json_get(entry, "data_offsets");
    uint64_t room = r->file->size - r->data_begin;
    int64_t begin, end;

    if (!esi_json_is_array(offsets) || esi_json_size(offsets) != 2 || !read_count(esi_json_at(offsets, 0), &begin) ||
        !read_count(esi_json_at(offsets, 1), &end))
        return bad_entry(r, t->name, "expected \"data_offsets\" to be two integers >= 0");
    if (begin > end || (uint64_t)end > room)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, t->name),
                           "%s: tensor '%.200s': found data_offsets [%lld, %lld], expected a range within the %llu bytes of data%s",
                           r->file->name, t->name, (long long)begin, (long long)end, (unsigned long long)room,
                           begin > end ? "" : "; the file may be truncated");
    t->offset = r->data_begin + (uint64_t)begin;
    t->size = (uint64_t)(end - begin);
    return ESPALIER_OK;
}

static espalier_status check_size(const reader *r, const esi_file_tensor *t, unsigned type_bits)
{
    char shape[ESI_SHAPE_TEXT];
    uint64_t elements, bits;

    esi_shape_text(shape, sizeof shape, t->shape, t->rank);
    if (!esi_shape_elements(&elements, t->shape, t->rank) || !esi_mul_u64(&bits, elements, type_bits))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, t->name), "%s: tensor '%.200s': absurd shape %s", r->file->name,
                           t->name, shape);
    if (bits % 8 != 0 || bits / 8 != t->size)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, t->name),
                           "%s: tensor '%.200s': found %llu bytes of data, expected %llu for %s %s", r->file->name, t->name,
                           (unsigned long long)t->size, (unsigned long long)(bits / 8), t->type_name, shape);
    return ESPALIER_OK;
}

static espalier_status read_tensor(const reader *r, const esi_json *entry, esi_file_tensor *t)
{
    unsigned bits = 0;
    espalier_status st;

    if (!esi_json_is_object(entry)) return bad_entry(r, t->name, "expected a JSON object");
    st = read_dtype(r, entry, t, &bits);
    if (st == ESPALIER_OK) st = read_shape(r, entry, t);
    if (st == ESPALIER_OK) st = read_offsets(r, entry, t);
    if (st == ESPALIER_OK) st = check_size(r, t, bits);
    return st;
}

/* -------------------------------------------------------------- the header */

static espalier_status check_metadata(const reader *r, const esi_json *metadata)
{
    const esi_json *value;
    const char *text;
    void *iterator = NULL;

    if (!esi_json_is_object(metadata))
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, METADATA_KEY), "%s: expected \"%s\" to be an object", r->file->name,
                           METADATA_KEY);
    while (esi_json_next(metadata, &iterator, &value) != NULL)
        if (!esi_json_string(value, &text))
            return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, position_of(r, METADATA_KEY), "%s: expected \"%s\" to hold strings only",
                               r->file->name, METADATA_KEY);
    return ESPALIER_OK;
}

/* Metadata and the sizes of what pass two will store. */
static espalier_status measure(const reader *r, size_t *count, size_t *text_size)
{
    const esi_json *value;
    const char *key;
    void *iterator = NULL;

    *count = *text_size = 0;
    while ((key = esi_json_next(r->header, &iterator, &value)) != NULL) {
        if (strcmp(key, METADATA_KEY) == 0) {
            espalier_status st = check_metadata(r, value);
            if (st != ESPALIER_OK) return st;
            continue;
        }
        *count += 1;
        *text_size += strlen(key) + 1;
    }
    if (*count > ESI_MAX_TENSORS)
        return esi_fail_at(r->ctx, ESPALIER_ERR_MODEL, PREFIX, "%s: found %zu tensors, expected at most %u", r->file->name, *count,
                           ESI_MAX_TENSORS);
    return ESPALIER_OK;
}

static espalier_status read_tensors(const reader *r)
{
    esi_weight_storage storage;
    const esi_json *value;
    const char *key;
    void *iterator = NULL;
    size_t count, text_size, i = 0;
    espalier_status st;

    st = measure(r, &count, &text_size);
    if (st == ESPALIER_OK) st = esi_weight_reserve(r->ctx, r->file, &storage, count, text_size);
    while (st == ESPALIER_OK && (key = esi_json_next(r->header, &iterator, &value)) != NULL) {
        if (strcmp(key, METADATA_KEY) == 0) continue;
        esi_file_tensor *t = &r->file->tensors[i++];
        t->name = esi_weight_keep(&storage, key, strlen(key));
        st = read_tensor(r, value, t);
    }
    return st;
}

espalier_status esi_safetensors_parse(espalier_context *ctx, esi_weight_file *file)
{
    reader r = {.ctx = ctx, .file = file};
    uint64_t header_len = esi_load_u64le(file->bytes);
    esi_json *header = NULL;
    espalier_status st;

    file->format = ESI_FORMAT_SAFETENSORS;
    if (header_len > file->size - PREFIX)
        return esi_fail_at(ctx, ESPALIER_ERR_MODEL, 0,
                           "%s: found a header of %llu bytes, but only %llu follow; truncated or not safetensors", file->name,
                           (unsigned long long)header_len, (unsigned long long)(file->size - PREFIX));
    if (header_len > ESI_JSON_MAX_SIZE)
        return esi_fail_at(ctx, ESPALIER_ERR_MODEL, 0, "%s: found a header of %llu bytes, expected at most %u", file->name,
                           (unsigned long long)header_len, ESI_JSON_MAX_SIZE);
    r.data_begin = PREFIX + header_len;
    st = esi_json_parse_at(ctx, &header, file->bytes + PREFIX, (size_t)header_len, file->name, PREFIX, ESPALIER_ERR_MODEL);
    if (st != ESPALIER_OK) return st;
    r.header = header;
    /* byte 8 is '{', so the root is an object */
    st = read_tensors(&r);
    esi_json_free(header);
    return st;
}
