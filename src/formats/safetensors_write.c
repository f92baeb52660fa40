/* SPDX-License-Identifier: MIT
 *
 * safetensors_write.c: named tensors -> safetensors file. The same entries give the same bytes: keys in the order given, no time, no random
 * hash order. The header is padded with spaces so that the data begins 8-aligned, as the reference writer does it.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"
#include "formats/json.h"

static espalier_status append_metadata(espalier_context *ctx, esi_text *text, const char *path, const char *const *metadata)
{
    esi_text_append(ctx, text, "\"__metadata__\":{");
    for (size_t i = 0; metadata[i] != NULL; i += 2) {
        if (!metadata[i + 1]) return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: metadata '%.200s' has no value", path, metadata[i]);
        esi_text_append_bytes(ctx, text, ",", i > 0);
        esi_text_append_json_string(ctx, text, metadata[i]);
        esi_text_append(ctx, text, ":");
        esi_text_append_json_string(ctx, text, metadata[i + 1]);
    }
    esi_text_append(ctx, text, "}");
    return ESPALIER_OK;
}

static void append_entry(espalier_context *ctx, esi_text *text, const esi_safetensors_entry *entry, uint64_t begin, uint64_t end)
{
    esi_text_append_json_string(ctx, text, entry->name);
    esi_text_append(ctx, text, ":{\"dtype\":\"%s\",\"shape\":[", esi_file_dtype_name(entry->dtype));
    for (int i = 0; i < entry->rank; i++) esi_text_append(ctx, text, i ? ",%lld" : "%lld", (long long)entry->shape[i]);
    esi_text_append(ctx, text, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin, (unsigned long long)end);
}

static espalier_status check_entries(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                                     esi_safetensors_fill fill, uint64_t *sizes)
{
    for (size_t i = 0; i < count; i++)
        if (entries[i].dtype == ESI_FILE_Q8_0 || (entries[i].name && strcmp(entries[i].name, "__metadata__") == 0))
            return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor '%.200s' cannot be stored in safetensors", path, entries[i].name);
    return esi_entries_check(ctx, path, entries, count, fill, 65535, ESI_MAX_RANK, sizes);
}

static espalier_status build_header(espalier_context *ctx, esi_text *text, const char *path, const esi_safetensors_entry *entries,
                                    size_t count, const uint64_t *sizes, const char *const *metadata)
{
    bool has_metadata = metadata && metadata[0];
    uint64_t begin = 0, end;

    esi_text_append(ctx, text, "{");
    if (has_metadata) {
        espalier_status st = append_metadata(ctx, text, path, metadata);
        if (st != ESPALIER_OK) return st;
    }
    for (size_t i = 0; i < count; i++, begin = end) {
        if (!esi_add_u64(&end, begin, sizes[i]) || end > INT64_MAX)
            return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: the tensors together exceed 2^63 bytes", path);
        esi_text_append_bytes(ctx, text, ",", i > 0 || has_metadata);
        append_entry(ctx, text, &entries[i], begin, end);
    }
    esi_text_append(ctx, text, "}");
    while (!text->failed && text->len % 8 != 0) esi_text_append(ctx, text, " ");
    if (text->failed) return ESPALIER_ERR_RESOURCE;
    if (text->len > ESI_JSON_MAX_SIZE)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: the header of %zu bytes exceeds the format's limit of %u", path, text->len,
                        ESI_JSON_MAX_SIZE);
    return ESPALIER_OK;
}

espalier_status esi_safetensors_write(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                                      const char *const *metadata, esi_safetensors_fill fill, void *user)
{
    esi_text header = {0};
    esi_writer *writer = NULL;
    uint8_t length[8];
    uint64_t *sizes;
    espalier_status st;

    sizes = esi_alloc(ctx, count, sizeof *sizes, "tensor sizes to be written");
    if (!sizes) return ESPALIER_ERR_RESOURCE;
    st = check_entries(ctx, path, entries, count, fill, sizes);
    if (st == ESPALIER_OK) st = build_header(ctx, &header, path, entries, count, sizes, metadata);
    if (st == ESPALIER_OK) st = esi_writer_open(ctx, &writer, path);
    if (st != ESPALIER_OK) goto done;

    esi_store_u64le(length, header.len);
    st = esi_writer_write(writer, length, sizeof length);
    if (st == ESPALIER_OK) st = esi_writer_write(writer, header.data, header.len);
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) st = esi_entry_write(ctx, writer, &entries[i], i, sizes[i], fill, user);
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
