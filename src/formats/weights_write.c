/* SPDX-License-Identifier: MIT
 *
 * weights_write.c: what the safetensors and GGUF writers share: checking entries, streaming their bytes. The caller's mistakes are
 * ESPALIER_ERR_ARG; nothing is written before all entries are checked.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"

#include <stdlib.h>

#define CHUNK (1u << 20) /* bytes asked from `fill` at once; a multiple of every element size but not of Q8_0 blocks */

static espalier_status check_entry(espalier_context *ctx, const char *path, const esi_safetensors_entry *e, size_t max_name, int max_rank,
                                   uint64_t *size)
{
    char shape[ESI_SHAPE_TEXT];
    unsigned block, bytes;
    uint64_t elements;

    if (!e->name || e->name[0] == '\0' || strlen(e->name) > max_name || !esi_is_utf8(e->name, strlen(e->name)))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor name '%.200s': expected 1 to %zu bytes of UTF-8", path, e->name ? e->name : "",
                        max_name);
    if (e->rank < 0 || e->rank > max_rank)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor '%.200s': found %d dimensions, expected at most %d", path, e->name, e->rank,
                        max_rank);
    esi_file_dtype_block(e->dtype, &block, &bytes);
    esi_shape_text(shape, sizeof shape, e->shape, e->rank);
    int64_t row = e->rank > 0 ? e->shape[e->rank - 1] : 1;
    if (bytes == 0 || !esi_shape_elements(&elements, e->shape, e->rank) || row % block != 0 || !esi_mul_u64(size, elements / block, bytes))
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor '%.200s': %s %s cannot be stored", path, e->name, esi_file_dtype_name(e->dtype),
                        shape);
    return ESPALIER_OK;
}

static int compare_entry_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static espalier_status check_unique(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count)
{
    const char **names = esi_alloc(ctx, count, sizeof *names, "tensor names to be written");
    espalier_status st = ESPALIER_OK;

    if (!names) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < count; i++) names[i] = entries[i].name;
    if (count > 0) qsort(names, count, sizeof *names, compare_entry_names);
    for (size_t i = 1; i < count && st == ESPALIER_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0) st = esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor '%.200s' is given twice", path, names[i]);
    esi_free(ctx, names);
    return st;
}

espalier_status esi_entries_check(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                                  esi_safetensors_fill fill, size_t max_name, int max_rank, uint64_t *sizes)
{
    if (count > ESI_MAX_TENSORS)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: %zu tensors, at most %u can be stored", path, count, ESI_MAX_TENSORS);
    for (size_t i = 0; i < count; i++) {
        espalier_status st = check_entry(ctx, path, &entries[i], max_name, max_rank, &sizes[i]);
        if (st != ESPALIER_OK) return st;
        if (!entries[i].data && !fill && sizes[i] > 0)
            return esi_fail(ctx, ESPALIER_ERR_ARG, "%s: tensor '%.200s' has no data", path, entries[i].name);
    }
    return check_unique(ctx, path, entries, count);
}

static espalier_status write_memory(esi_writer *writer, const uint8_t *bytes, uint64_t size)
{
    if (size > SIZE_MAX) return ESPALIER_ERR_ARG; /* cannot be: the bytes are in memory */
    return esi_writer_write(writer, bytes, (size_t)size);
}

espalier_status esi_entry_write(espalier_context *ctx, esi_writer *writer, const esi_safetensors_entry *entry, size_t index, uint64_t size,
                                esi_safetensors_fill fill, void *user)
{
    espalier_status st = ESPALIER_OK;
    uint8_t *chunk;

    if (size == 0) return ESPALIER_OK;
    if (entry->data) return write_memory(writer, entry->data, size);
    chunk = esi_alloc(ctx, 1, (size_t)ESI_MIN(size, (uint64_t)CHUNK), "a tensor chunk to be written");
    if (!chunk) return ESPALIER_ERR_RESOURCE;
    for (uint64_t done = 0; st == ESPALIER_OK && done < size;) {
        size_t n = (size_t)ESI_MIN(size - done, (uint64_t)CHUNK);
        st = esi_check_cancel(ctx);
        if (st == ESPALIER_OK) st = fill(user, index, done, chunk, n);
        if (st == ESPALIER_OK) st = esi_writer_write(writer, chunk, n);
        done += n;
    }
    esi_free(ctx, chunk);
    return st;
}
