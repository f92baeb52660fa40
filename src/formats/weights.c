/* SPDX-License-Identifier: MIT
 *
 * weights.c: open a weight file of either container, look tensors up. Checks that do not depend on the container live here: names twice,
 * overlapping data. The containers themselves: safetensors.c, gguf.c.
 */
#include "formats/weights_internal.h"

#include "formats/bytes.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------- shapes and dtypes */

static const struct {
    const char *name;
    unsigned block, bytes;
} dtypes[] = {
    [ESI_FILE_F64] = {"F64", 1, 8},     [ESI_FILE_F32] = {"F32", 1, 4}, [ESI_FILE_F16] = {"F16", 1, 2},
    [ESI_FILE_BF16] = {"BF16", 1, 2},   [ESI_FILE_I64] = {"I64", 1, 8}, [ESI_FILE_I32] = {"I32", 1, 4},
    [ESI_FILE_U32] = {"U32", 1, 4},     [ESI_FILE_U8] = {"U8", 1, 1},   [ESI_FILE_Q8_0] = {"Q8_0", 32, 34},
    [ESI_FILE_OTHER] = {"other", 1, 0},
};

static bool is_dtype(esi_file_dtype dtype)
{
    return (unsigned)dtype < ESI_COUNT(dtypes);
}

const char *esi_file_dtype_name(esi_file_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

void esi_file_dtype_block(esi_file_dtype dtype, unsigned *block, unsigned *bytes)
{
    *block = is_dtype(dtype) ? dtypes[dtype].block : 1;
    *bytes = is_dtype(dtype) ? dtypes[dtype].bytes : 0;
}

bool esi_shape_elements(uint64_t *elements, const int64_t *shape, int rank)
{
    uint64_t product = 1;
    bool empty = false;

    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0) return false;
        if (shape[i] == 0)
            empty = true;
        else if (!esi_mul_u64(&product, product, (uint64_t)shape[i]))
            return false;
    }
    /* An empty tensor with absurd other extents is refused too: whoever computes strides from them must not overflow. */
    if (product > INT64_MAX) return false;
    *elements = empty ? 0 : product;
    return true;
}

int64_t esi_file_tensor_count(const esi_file_tensor *t)
{
    uint64_t elements = 0;
    return esi_shape_elements(&elements, t->shape, t->rank) ? (int64_t)elements : 0;
}

const char *esi_shape_text(char *buf, size_t size, const int64_t *shape, int rank)
{
    size_t used = 0;
    int n = snprintf(buf, size, "[");

    for (int i = 0; i < rank && n >= 0; i++) {
        used += (size_t)n;
        if (used >= size) return buf;
        n = snprintf(buf + used, size - used, i ? ", %lld" : "%lld", (long long)shape[i]);
    }
    if (n >= 0 && used + (size_t)n < size) snprintf(buf + used + n, size - used - (size_t)n, "]");
    return buf;
}

bool esi_is_utf8(const void *text, size_t len)
{
    const uint8_t *p = text;

    for (size_t i = 0; i < len;) {
        bool valid;
        size_t n = esi_utf8_length(p + i, len - i, &valid);
        if (!valid || p[i] == 0) return false;
        i += n;
    }
    return true;
}

/* ----------------------------------------------------------------- storage */

espalier_status esi_weight_reserve(espalier_context *ctx, esi_weight_file *file, esi_weight_storage *storage, size_t count,
                                   size_t text_size)
{
    size_t table, total;

    if (!esi_mul_size(&table, count, sizeof *file->tensors) || !esi_add_size(&total, table, text_size))
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: the list of %zu tensors does not fit in memory", file->name, count);
    file->storage = esi_raw_alloc(&file->allocator, total);
    if (!file->storage)
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory for the list of %zu tensors (%zu bytes)", file->name, count, total);
    file->storage_size = total;
    file->tensors = file->storage;
    file->count = count;
    if (table > 0) memset(file->storage, 0, table);
    storage->text = (char *)file->storage + table;
    return ESPALIER_OK;
}

char *esi_weight_keep(esi_weight_storage *storage, const void *text, size_t len)
{
    char *kept = storage->text;

    if (len > 0) memcpy(kept, text, len);
    kept[len] = '\0';
    storage->text += len + 1;
    return kept;
}

/* --------------------------------------------- checks common to containers */

static int compare_names(const void *a, const void *b)
{
    const esi_file_tensor *ta = a, *tb = b;
    return strcmp(ta->name, tb->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const esi_file_tensor *ta = *(const esi_file_tensor *const *)a, *tb = *(const esi_file_tensor *const *)b;
    if (ta->offset != tb->offset) return ta->offset < tb->offset ? -1 : 1;
    return strcmp(ta->name, tb->name);
}

static espalier_status sort_and_check_names(espalier_context *ctx, esi_weight_file *file)
{
    if (file->count == 0) return ESPALIER_OK;
    qsort(file->tensors, file->count, sizeof *file->tensors, compare_names);
    for (size_t i = 1; i < file->count; i++)
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0)
            return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)file->tensors[i].offset, "%s: tensor '%.200s' occurs twice", file->name,
                               file->tensors[i].name);
    return ESPALIER_OK;
}

static espalier_status check_overlaps(espalier_context *ctx, const esi_weight_file *file)
{
    const esi_file_tensor **order = NULL;
    espalier_status st = ESPALIER_OK;
    size_t n = 0;

    order = esi_alloc(ctx, file->count, sizeof *order, "the tensor order of a model file");
    if (!order) return ESPALIER_ERR_RESOURCE;
    for (size_t i = 0; i < file->count; i++)
        if (file->tensors[i].size > 0) order[n++] = &file->tensors[i];
    if (n > 0) qsort(order, n, sizeof *order, compare_offsets);
    for (size_t i = 1; i < n; i++) {
        const esi_file_tensor *a = order[i - 1], *b = order[i];
        if (a->offset + a->size > b->offset) {
            st = esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)b->offset,
                             "%s: data of tensor '%.200s' begins at byte %llu, inside that of '%.200s' (bytes %llu to %llu)", file->name,
                             b->name, (unsigned long long)b->offset, a->name, (unsigned long long)a->offset,
                             (unsigned long long)(a->offset + a->size));
            break;
        }
    }
    esi_free(ctx, order);
    return st;
}

/* ------------------------------------------------------------ open, detect */

static bool begins_with(const esi_weight_file *file, const char *magic)
{
    size_t len = strlen(magic);
    return file->size >= len && memcmp(file->bytes, magic, len) == 0;
}

static bool has_suffix(const char *name, const char *suffix)
{
    return strcmp(esi_path_suffix(name), suffix) == 0;
}

/* The files that people hand over by mistake get their own advice. */
static espalier_status fail_unknown_format(espalier_context *ctx, const esi_weight_file *file)
{
    const char *advice = "";

    if (begins_with(file, "PK\3\4") || begins_with(file, "\x80\x02"))
        advice = "; this looks like a PyTorch checkpoint, convert it to safetensors";
    else if (has_suffix(file->name, ".onnx"))
        advice = "; of ONNX files, those of matting networks can be converted (docs/matting.md)";
    else if (begins_with(file, "version https://git-lfs"))
        advice = "; this is a Git LFS pointer, fetch the real file with 'git lfs pull'";
    else if (begins_with(file, "<"))
        advice = "; this looks like a web page, download the file again";
    else if (begins_with(file, "FUGG"))
        advice = "; this looks like a GGUF file of the other byte order";
    return esi_fail_at(ctx, ESPALIER_ERR_MODEL, 0, "%s: neither a safetensors nor a GGUF file (%llu bytes)%s", file->name,
                       (unsigned long long)file->size, advice);
}

static espalier_status parse_container(espalier_context *ctx, esi_weight_file *file)
{
    espalier_status st;

    if (begins_with(file, "GGUF"))
        st = esi_gguf_parse(ctx, file);
    else if (file->size >= 9 && file->bytes[8] == '{')
        st = esi_safetensors_parse(ctx, file);
    else
        return fail_unknown_format(ctx, file);
    if (st == ESPALIER_OK) st = sort_and_check_names(ctx, file);
    if (st == ESPALIER_OK) st = check_overlaps(ctx, file);
    return st;
}

static size_t object_size(const char *name)
{
    return sizeof(esi_weight_file) + strlen(name) + 1;
}

espalier_status esi_weight_file_parse(espalier_context *ctx, esi_weight_file **out, const void *bytes, uint64_t size, const char *name)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_weight_file *file;
    espalier_status st;

    *out = NULL;
    file = esi_raw_alloc(allocator, object_size(name));
    if (!file) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", name);
    memset(file, 0, sizeof *file);
    file->allocator = *allocator;
    file->bytes = bytes;
    file->size = size;
    /* The name follows the object in its block, so that messages outlive the caller's string. */
    file->name = memcpy((char *)file + sizeof *file, name, strlen(name) + 1);
    st = parse_container(ctx, file);
    if (st != ESPALIER_OK) {
        esi_weight_file_free(file);
        return st;
    }
    *out = file;
    return ESPALIER_OK;
}

espalier_status esi_weight_file_open(espalier_context *ctx, esi_weight_file **out, const char *path)
{
    esi_file_map *map = NULL;
    espalier_status st;

    *out = NULL;
    st = esi_file_map_open(ctx, &map, path, ESPALIER_ERR_MODEL);
    if (st != ESPALIER_OK) return st;
    st = esi_weight_file_parse(ctx, out, esi_file_map_data(map), esi_file_map_size(map), path);
    if (st != ESPALIER_OK) {
        esi_file_map_release(map);
        return st;
    }
    (*out)->map = map;
    return ESPALIER_OK;
}

void esi_weight_file_free(esi_weight_file *file)
{
    if (!file) return;
    espalier_allocator allocator = file->allocator;
    esi_file_map_release(file->map);
    if (file->storage) esi_raw_free(&allocator, file->storage, file->storage_size);
    esi_raw_free(&allocator, file, object_size(file->name));
}

/* ----------------------------------------------------------------- lookups */

const esi_file_tensor *esi_weight_file_find(const esi_weight_file *file, const char *name)
{
    size_t low = 0, high = file->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(file->tensors[middle].name, name);
        if (order == 0) return &file->tensors[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const uint8_t *esi_weight_file_data(const esi_weight_file *file, const esi_file_tensor *t)
{
    return file->bytes + t->offset;
}

const char *esi_weight_file_path(const esi_weight_file *file)
{
    return file->name;
}
