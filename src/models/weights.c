/* SPDX-License-Identifier: MIT
 *
 * weights.c: tensors of one network by name. Lookups check shape and dtype against what the network expects and wrap the mapped bytes;
 * every message names the file and the tensor. A scan for NaN and infinities and a list of tensors nobody asked for complete it.
 */
#include "models/networks.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_MAX_LEN   256
#define SHAPE_TEXT_LEN 192

struct esi_weights {
    espalier_allocator allocator;
    esi_weight_file *file;
    esi_tensor *tensors; /* [file->count]; null until somebody asks */
    bool *known;         /* [file->count]; asked for, or declared ignorable */
    atomic_bool scanned;
    atomic_bool surplus_reported;
};

/* ------------------------------------------------------------ life */

espalier_status esi_weights_new(espalier_context *ctx, esi_weights **out, esi_weight_file *file)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_weights *w;
    size_t count = file ? file->count : 0, tensor_bytes;

    *out = NULL;
    if (!file) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "weights: no file");
    w = esi_raw_alloc(allocator, sizeof *w);
    if (!w) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "weights: out of memory");
    }
    memset(w, 0, sizeof *w);
    w->allocator = *allocator;
    w->file = file;
    atomic_init(&w->scanned, false);
    atomic_init(&w->surplus_reported, false);
    if (esi_mul_size(&tensor_bytes, count, sizeof *w->tensors)) {
        w->tensors = esi_raw_alloc(allocator, tensor_bytes + 1); /* + 1: an empty file still gives pointers */
        if (w->tensors) memset(w->tensors, 0, tensor_bytes + 1);
        w->known = esi_raw_alloc(allocator, count + 1);
    }
    if (!w->tensors || !w->known) {
        esi_weights_free(ctx, w);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "%s: out of memory", "weights");
    }
    memset(w->known, 0, count + 1);
    *out = w;
    return ESPALIER_OK;
}

void esi_weights_free(espalier_context *ctx, esi_weights *w)
{
    espalier_allocator allocator;
    size_t count;

    if (!w) return;
    allocator = w->allocator;
    count = w->file->count;
    if (w->tensors) {
        for (size_t i = 0; i < count; i++) {
            if (!esi_tensor_is_null(w->tensors[i])) esi_weight_release(ctx, &w->tensors[i]);
        }
        esi_raw_free(&allocator, w->tensors, count * sizeof *w->tensors + 1);
    }
    if (w->known) esi_raw_free(&allocator, w->known, count + 1);
    esi_weight_file_free(w->file);
    esi_raw_free(&allocator, w, sizeof *w);
}

const esi_weight_file *esi_weights_file(const esi_weights *w)
{
    return w->file;
}

bool esi_weights_has(const esi_weights *w, const char *name)
{
    return esi_weight_file_find(w->file, name) != NULL;
}

/* ------------------------------------------------------------ shapes */

static void print_shape(char *text, size_t size, const int64_t *shape, int rank)
{
    size_t len = (size_t)snprintf(text, size, "[");

    for (int i = 0; i < rank && len < size; i++) {
        if (shape[i] < 0)
            len += (size_t)snprintf(text + len, size - len, "%s?", i ? ", " : "");
        else
            len += (size_t)snprintf(text + len, size - len, "%s%" PRId64, i ? ", " : "", shape[i]);
    }
    if (len < size) snprintf(text + len, size - len, "]");
}

/* Does `rows` cut the extents of the file between two of them? Folded dense convolutions of GGUF, [Co*Ci, 3, 3, 3], are cut inside the
 * first. */
static bool rows_fit(const esi_weights *w, const esi_file_tensor *t, int64_t rows)
{
    int64_t prefix = 1;

    if (rows == 1) return true;
    for (int i = 0; i < t->rank; i++) {
        prefix *= t->shape[i]; /* the whole product was checked when the file was opened */
        if (prefix == rows) return true;
    }
    return w->file->format == ESI_FORMAT_GGUF && t->rank == 4 && t->shape[0] % rows == 0;
}

/* Find the matrix [*r, *c] that a tensor of the file gives for a wish of [rows, cols], -1 = any. */
static bool fit_shape(const esi_weights *w, const esi_file_tensor *t, int64_t rows, int64_t cols, int64_t *r, int64_t *c)
{
    int64_t count = esi_file_tensor_count(t);
    int lead = 0;

    if (count <= 0 || rows == 0 || cols == 0) return false;
    while (lead < t->rank && t->shape[lead] == 1) lead++;
    if (rows > 0)
        *r = rows;
    else if (cols > 0)
        *r = count / cols;
    else
        *r = t->rank - lead >= 2 ? t->shape[lead] : 1;
    if (*r <= 0 || count % *r != 0) return false;
    *c = count / *r;
    return (cols < 0 || *c == cols) && rows_fit(w, t, *r);
}

static bool tensor_dtype(esi_file_dtype file_dtype, esi_dtype *dtype)
{
    switch (file_dtype) {
    case ESI_FILE_F32:
        *dtype = ESI_F32;
        return true;
    case ESI_FILE_F16:
        *dtype = ESI_F16;
        return true;
    case ESI_FILE_BF16:
        *dtype = ESI_BF16;
        return true;
    case ESI_FILE_Q8_0:
        *dtype = ESI_Q8_0;
        return true;
    default:
        return false;
    }
}

/* ------------------------------------------------------------ lookups */

static espalier_status wrap_tensor(espalier_context *ctx, esi_weights *w, esi_tensor *out, const esi_file_tensor *t, int64_t rows,
                                   int64_t cols)
{
    const char *path = esi_weight_file_path(w->file);
    char found[SHAPE_TEXT_LEN], wanted[SHAPE_TEXT_LEN];
    const int64_t wish[2] = {rows, cols};
    size_t i = (size_t)(t - w->file->tensors), row_bytes;
    int64_t r, c;
    esi_dtype dtype;
    espalier_status st;

    print_shape(found, sizeof found, t->shape, t->rank);
    if (!tensor_dtype(t->dtype, &dtype))
        return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset, "%s: tensor %s: dtype %s, expected F32, F16, BF16 or Q8_0", path,
                           t->name, esi_file_dtype_name(t->dtype));
    if (!fit_shape(w, t, rows, cols, &r, &c)) {
        print_shape(wanted, sizeof wanted, rows == 1 ? wish + 1 : wish, rows == 1 ? 1 : 2);
        return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset, "%s: tensor %s: shape %s, expected %s", path, t->name, found,
                           wanted);
    }
    if (!esi_dtype_row_bytes(dtype, c, &row_bytes))
        return esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset, "%s: tensor %s: shape %s cannot be %s with rows of %" PRId64, path,
                           t->name, found, esi_dtype_name(dtype), c);
    if (esi_tensor_is_null(w->tensors[i])) {
        st = esi_weight_wrap(ctx, &w->tensors[i], r, c, dtype, esi_weight_file_data(w->file, t));
        if (st != ESPALIER_OK) return st;
    }
    w->known[i] = true;
    *out = esi_reshape(w->tensors[i], r, c);
    return ESPALIER_OK;
}

static ESI_PRINTF(7, 0) espalier_status get_tensor(espalier_context *ctx, esi_weights *w, esi_tensor *out, int64_t rows, int64_t cols,
                                                   bool optional, const char *format, va_list args)
{
    char name[NAME_MAX_LEN];
    const esi_file_tensor *t;

    memset(out, 0, sizeof *out);
    vsnprintf(name, sizeof name, format, args);
    t = esi_weight_file_find(w->file, name);
    if (!t) {
        if (optional) return ESPALIER_OK;
        return esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: tensor %s is missing", esi_weight_file_path(w->file), name);
    }
    return wrap_tensor(ctx, w, out, t, rows, cols);
}

espalier_status esi_weights_get(espalier_context *ctx, esi_weights *w, esi_tensor *out, int64_t rows, int64_t cols, const char *format, ...)
{
    va_list args;
    espalier_status st;

    va_start(args, format);
    st = get_tensor(ctx, w, out, rows, cols, false, format, args);
    va_end(args);
    return st;
}

espalier_status esi_weights_get_optional(espalier_context *ctx, esi_weights *w, esi_tensor *out, int64_t rows, int64_t cols,
                                         const char *format, ...)
{
    va_list args;
    espalier_status st;

    va_start(args, format);
    st = get_tensor(ctx, w, out, rows, cols, true, format, args);
    va_end(args);
    return st;
}

void esi_weights_ignore(esi_weights *w, const char *format, ...)
{
    char name[NAME_MAX_LEN];
    const esi_file_tensor *t;
    va_list args;

    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    t = esi_weight_file_find(w->file, name);
    if (t) w->known[t - w->file->tensors] = true;
}

void esi_weights_report_surplus(espalier_context *ctx, esi_weights *w)
{
    size_t surplus = 0;
    const char *first = NULL;

    if (atomic_exchange(&w->surplus_reported, true)) return;
    for (size_t i = 0; i < w->file->count; i++) {
        if (w->known[i]) continue;
        if (!first) first = w->file->tensors[i].name;
        surplus++;
    }
    if (surplus == 1)
        esi_log(ctx, ESPALIER_LOG_WARNING, "%s: tensor %s is not used by this network", esi_weight_file_path(w->file), first);
    else if (surplus > 1)
        esi_log(ctx, ESPALIER_LOG_WARNING, "%s: %zu tensors are not used by this network, the first is %s", esi_weight_file_path(w->file),
                surplus, first);
}

uint64_t esi_weights_parameters(const esi_weights *w)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < w->file->count; i++) {
        if (!esi_tensor_is_null(w->tensors[i])) sum += (uint64_t)esi_file_tensor_count(&w->file->tensors[i]);
    }
    return sum;
}

/* ------------------------------------------------------------ scan for NaN and infinities */

#define SCAN_UNITS ((uint64_t)1 << 20) /* values, or Q8_0 blocks, of one task */

typedef struct scan_task {
    size_t tensor;
    uint64_t offset, size; /* bytes within the tensor */
} scan_task;

typedef struct scan_job {
    const esi_weight_file *file;
    const scan_task *tasks;
    _Atomic size_t first_bad; /* lowest index of a damaged tensor */
} scan_job;

/* Any 16-bit (32-bit) float whose exponent bits are all one? Adding one at the exponent's lowest bit carries into the sign's place only
 * then; a word holds four (two) values that cannot disturb each other. */
static bool words_nonfinite(const uint8_t *bytes, uint64_t size, uint64_t exponent, uint64_t lowest, uint64_t sign)
{
    uint64_t seen = 0, word, i = 0;

    for (; i + 8 <= size; i += 8) {
        memcpy(&word, bytes + i, 8);
        seen |= (word & exponent) + lowest;
    }
    if (i < size) {
        word = 0;
        memcpy(&word, bytes + i, (size_t)(size - i));
        seen |= (word & exponent) + lowest;
    }
    return (seen & sign) != 0;
}

static bool blocks_nonfinite(const uint8_t *bytes, uint64_t size)
{
    for (uint64_t i = 0; i + 34 <= size; i += 34) {
        if ((bytes[i + 1] & 0x7c) == 0x7c) return true;
    }
    return false;
}

static uint64_t scan_unit(esi_file_dtype dtype)
{
    return dtype == ESI_FILE_Q8_0 ? 34 : dtype == ESI_FILE_F32 ? 4 : 2;
}

static void scan_range(void *arg, size_t task, int slot)
{
    scan_job *job = arg;
    const scan_task *range = &job->tasks[task];
    const esi_file_tensor *t = &job->file->tensors[range->tensor];
    const uint8_t *bytes = esi_weight_file_data(job->file, t) + range->offset;
    size_t seen = atomic_load(&job->first_bad);
    bool bad;

    (void)slot;
    if (range->tensor >= seen) return;
    switch (t->dtype) {
    case ESI_FILE_F32:
        bad = words_nonfinite(bytes, range->size, 0x7f8000007f800000u, 0x0080000000800000u, 0x8000000080000000u);
        break;
    case ESI_FILE_BF16:
        bad = words_nonfinite(bytes, range->size, 0x7f807f807f807f80u, 0x0080008000800080u, 0x8000800080008000u);
        break;
    case ESI_FILE_F16:
        bad = words_nonfinite(bytes, range->size, 0x7c007c007c007c00u, 0x0400040004000400u, 0x8000800080008000u);
        break;
    default:
        bad = blocks_nonfinite(bytes, range->size);
        break;
    }
    while (bad && range->tensor < seen && !atomic_compare_exchange_weak(&job->first_bad, &seen, range->tensor)) {
    }
}

/* Cut all wrapped tensors into tasks; with tasks == NULL only count them. */
static size_t make_scan_tasks(const esi_weights *w, scan_task *tasks)
{
    size_t n = 0;

    for (size_t i = 0; i < w->file->count; i++) {
        const esi_file_tensor *t = &w->file->tensors[i];
        uint64_t step = SCAN_UNITS * scan_unit(t->dtype);
        if (esi_tensor_is_null(w->tensors[i])) continue;
        for (uint64_t at = 0; at < t->size; at += step) {
            if (tasks) tasks[n] = (scan_task){i, at, ESI_MIN(step, t->size - at)};
            n++;
        }
    }
    return n;
}

espalier_status esi_weights_check_finite(espalier_context *ctx, esi_weights *w)
{
    size_t n_tasks = make_scan_tasks(w, NULL), bad;
    scan_job job = {.file = w->file};
    scan_task *tasks;
    espalier_status st;

    if (atomic_load(&w->scanned)) return ESPALIER_OK;
    tasks = esi_alloc(ctx, n_tasks, sizeof *tasks, "weight scan");
    if (!tasks) return ESPALIER_ERR_RESOURCE;
    make_scan_tasks(w, tasks);
    job.tasks = tasks;
    atomic_init(&job.first_bad, SIZE_MAX);
    st = esi_parallel(ctx, n_tasks, scan_range, &job);
    if (st != ESPALIER_OK) goto done;
    bad = atomic_load(&job.first_bad);
    if (bad != SIZE_MAX) {
        const esi_file_tensor *t = &w->file->tensors[bad];
        st = esi_fail_at(ctx, ESPALIER_ERR_MODEL, (int64_t)t->offset, "%s: tensor %s holds NaN or infinite values; the file is damaged",
                         esi_weight_file_path(w->file), t->name);
        goto done;
    }
    atomic_store(&w->scanned, true);
done:
    esi_free(ctx, tasks);
    return st;
}
