/* SPDX-License-Identifier: MIT
 *
 * gguf_write.c: named tensors -> GGUF v3 as trellis.cpp lays it out: general.architecture, trellis.config_json, general.name, alignment 32,
 * gapless data, the last tensor padded too. The same entries give the same bytes.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"

#define ALIGNMENT 32u
#define MAX_DIMS  4
#define MAX_NAME  127u /* name field of ggml as trellis.cpp builds it, less the NUL; names of BiRefNet need it */

enum { VALUE_STRING = 8 };

static bool type_number(esi_file_dtype dtype, uint32_t *number)
{
    switch (dtype) {
    case ESI_FILE_F32:
        *number = 0;
        return true;
    case ESI_FILE_F16:
        *number = 1;
        return true;
    case ESI_FILE_Q8_0:
        *number = 8;
        return true;
    case ESI_FILE_I32:
        *number = 26;
        return true;
    case ESI_FILE_BF16:
        *number = 30;
        return true;
    default:
        return false;
    }
}

static void append_u32(espalier_context *ctx, esi_text *t, uint32_t v)
{
    uint8_t bytes[4];
    esi_store_u32le(bytes, v);
    esi_text_append_bytes(ctx, t, bytes, sizeof bytes);
}

static void append_u64(espalier_context *ctx, esi_text *t, uint64_t v)
{
    uint8_t bytes[8];
    esi_store_u64le(bytes, v);
    esi_text_append_bytes(ctx, t, bytes, sizeof bytes);
}

static void append_string(espalier_context *ctx, esi_text *t, const char *s)
{
    append_u64(ctx, t, strlen(s));
    esi_text_append_bytes(ctx, t, s, strlen(s));
}

static void append_pair(espalier_context *ctx, esi_text *t, const char *key, const char *value)
{
    if (!value) return;
    append_string(ctx, t, key);
    append_u32(ctx, t, VALUE_STRING);
    append_string(ctx, t, value);
}

static uint64_t padded(uint64_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static espalier_status append_tensors(espalier_context *ctx, esi_text *t, const char *path, const esi_safetensors_entry *entries,
                                      size_t count, const uint64_t *sizes)
{
    uint64_t offset = 0;

    for (size_t i = 0; i < count; i++) {
        const esi_safetensors_entry *e = &entries[i];
        uint32_t type;
        if (!type_number(e->dtype, &type))
            return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor '%.200s': found type %s, expected F32, F16, BF16, Q8_0 or I32", path,
                            e->name, esi_file_dtype_name(e->dtype));
        append_string(ctx, t, e->name);
        append_u32(ctx, t, (uint32_t)e->rank);
        for (int d = e->rank - 1; d >= 0; d--) append_u64(ctx, t, (uint64_t)e->shape[d]);
        append_u32(ctx, t, type);
        append_u64(ctx, t, offset);
        if (sizes[i] > INT64_MAX - ALIGNMENT || offset > INT64_MAX - padded(sizes[i]))
            return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: the tensors together exceed 2^63 bytes", path);
        offset += padded(sizes[i]);
    }
    return ESPALIER_OK;
}

static espalier_status build_header(espalier_context *ctx, esi_text *t, const char *path, const esi_safetensors_entry *entries,
                                    size_t count, const uint64_t *sizes, const char *architecture, const char *name,
                                    const char *config_json)
{
    static const uint8_t zeros[ALIGNMENT];
    espalier_status st;

    esi_text_append_bytes(ctx, t, "GGUF", 4);
    append_u32(ctx, t, 3);
    append_u64(ctx, t, count);
    append_u64(ctx, t, (uint64_t)(architecture != NULL) + (name != NULL) + (config_json != NULL));
    append_pair(ctx, t, "general.architecture", architecture);
    append_pair(ctx, t, "trellis.config_json", config_json);
    append_pair(ctx, t, "general.name", name);
    st = append_tensors(ctx, t, path, entries, count, sizes);
    if (st != ESPALIER_OK) return st;
    esi_text_append_bytes(ctx, t, zeros, (size_t)(padded(t->len) - t->len));
    return t->failed ? ESPALIER_ERR_RESOURCE : ESPALIER_OK;
}

espalier_status esi_gguf_write(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                               const char *architecture, const char *name, const char *config_json, esi_safetensors_fill fill, void *user)
{
    esi_text header = {0};
    esi_writer *writer = NULL;
    uint64_t *sizes;
    espalier_status st;

    sizes = esi_alloc(ctx, count, sizeof *sizes, "tensor sizes to be written");
    if (!sizes) return ESPALIER_ERR_RESOURCE;
    st = esi_entries_check(ctx, path, entries, count, fill, MAX_NAME, MAX_DIMS, sizes);
    if (st == ESPALIER_OK) st = build_header(ctx, &header, path, entries, count, sizes, architecture, name, config_json);
    if (st == ESPALIER_OK) st = esi_writer_open(ctx, &writer, path);
    if (st != ESPALIER_OK) goto done;

    st = esi_writer_write(writer, header.data, header.len);
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) {
        st = esi_entry_write(ctx, writer, &entries[i], i, sizes[i], fill, user);
        if (st == ESPALIER_OK) st = esi_writer_zeros(writer, (size_t)(padded(sizes[i]) - sizes[i]));
    }
    if (st == ESPALIER_OK) {
        st = esi_writer_commit(writer);
        writer = NULL;
    }
done:
    esi_writer_abort(writer);
    esi_text_free(ctx, &header);
    esi_free(ctx, sizes);
    return st;
}
