/* SPDX-License-Identifier: MIT
 *
 * golden.c: one golden case: its files, its tensors, its results. Case data comes from the repository, so running out of memory ends the
 * program; everything else that is wrong becomes a failure of the case.
 */
#include "golden.h"
#include "kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct golden_block {
    struct golden_block *next;
    void *data;
};

/* ------------------------------------------------------------------ memory */

static void *checked(void *p)
{
    if (p == NULL) {
        fputs("espalier-golden: out of memory\n", stderr);
        exit(5);
    }
    return p;
}

void *golden_alloc(golden_case *c, size_t count, size_t size)
{
    struct golden_block *b = checked(calloc(1, sizeof *b));
    b->data = checked(calloc(count ? count : 1, size ? size : 1));
    b->next = c->blocks;
    c->blocks = b;
    return b->data;
}

static char *copy_text(golden_case *c, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = golden_alloc(c, n, 1);
    memcpy(copy, text, n);
    return copy;
}

const char *golden_name(golden_case *c, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return copy_text(c, text);
}

int64_t golden_shape_count(golden_shape shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) n *= shape.extent[i];
    return n;
}

/* ------------------------------------------------------------------ config */

const char *golden_path(golden_case *c, const char *relative)
{
    return golden_name(c, "%s/%s", c->dir, relative);
}

const char *golden_sibling(golden_case *c, const char *role)
{
    const char *relative = NULL;
    if (!esi_json_string(esi_json_get(esi_json_get(c->config, "siblings"), role), &relative)) return NULL;
    return golden_path(c, relative);
}

int64_t golden_config_int(const golden_case *c, const char *dotted, int64_t fallback)
{
    esi_json_int(esi_json_path(c->config, dotted), &fallback);
    return fallback;
}

double golden_config_double(const golden_case *c, const char *dotted, double fallback)
{
    esi_json_double(esi_json_path(c->config, dotted), &fallback);
    return fallback;
}

bool golden_config_bool(const golden_case *c, const char *dotted, bool fallback)
{
    esi_json_bool(esi_json_path(c->config, dotted), &fallback);
    return fallback;
}

const char *golden_config_string(const golden_case *c, const char *dotted, const char *fallback)
{
    esi_json_string(esi_json_path(c->config, dotted), &fallback);
    return fallback;
}

static void write_json(espalier_context *ctx, esi_text *text, const esi_json *v)
{
    const char *string;
    double number;
    bool flag;
    if (esi_json_is_object(v) || esi_json_is_array(v)) {
        const bool object = esi_json_is_object(v);
        esi_text_append(ctx, text, object ? "{" : "[");
        for (size_t i = 0; i < esi_json_size(v); i++) {
            const esi_json *member = object ? NULL : esi_json_at(v, i);
            const char *key = object ? esi_json_key_at(v, i, &member) : NULL;
            if (i) esi_text_append(ctx, text, ",");
            if (key) esi_text_append_json_string(ctx, text, key);
            if (key) esi_text_append(ctx, text, ":");
            write_json(ctx, text, member);
        }
        esi_text_append(ctx, text, object ? "}" : "]");
    } else if (esi_json_string(v, &string)) {
        esi_text_append_json_string(ctx, text, string);
    } else if (esi_json_bool(v, &flag)) {
        esi_text_append(ctx, text, flag ? "true" : "false");
    } else if (esi_json_double(v, &number)) {
        esi_text_append_json_number(ctx, text, number);
    } else {
        esi_text_append(ctx, text, "null");
    }
}

espalier_status golden_model_config(golden_case *c, esi_json **out, const char *args_key)
{
    esi_text text = {0};
    espalier_status st;
    esi_text_append(c->ctx, &text, "{\"name\":");
    write_json(c->ctx, &text, esi_json_get(c->config, "name"));
    esi_text_append(c->ctx, &text, ",\"args\":");
    write_json(c->ctx, &text, esi_json_get(c->config, args_key));
    esi_text_append(c->ctx, &text, "}");
    st = text.failed ? esi_fail(c->ctx, ESPALIER_ERR_RESOURCE, "%s: no memory for a config", c->dir)
                     : esi_json_parse(c->ctx, out, text.data, text.len, c->dir, ESPALIER_ERR_INPUT);
    esi_text_free(c->ctx, &text);
    return st;
}

/* ----------------------------------------------------------- open and close */

static espalier_status open_tensors(golden_case *c, esi_weight_file **out, const char *dir)
{
    const char *path = golden_name(c, "%s/case.safetensors", dir);
    if (!esi_path_is_file(path)) return ESPALIER_OK;
    return esi_weight_file_open(c->ctx, out, path);
}

espalier_status golden_case_open(golden_case *c, espalier_runtime *runtime, const char *dir)
{
    memset(c, 0, sizeof *c);
    espalier_status st = espalier_context_create(&c->ctx, runtime);
    if (st != ESPALIER_OK) return st;
    c->dir = copy_text(c, dir);
    c->name = esi_path_name(c->dir);
    st = esi_json_load(c->ctx, &c->config, golden_path(c, "config.json"), ESPALIER_ERR_INPUT);
    if (st != ESPALIER_OK) return st;
    c->kind = golden_config_string(c, "kind", "");
    st = open_tensors(c, &c->file, c->dir);
    if (st != ESPALIER_OK) return st;
    const char *weights = golden_sibling(c, "weights");
    if (weights && (st = open_tensors(c, &c->weights_file, weights)) != ESPALIER_OK) return st;
    const char *inputs = golden_sibling(c, "inputs");
    if (inputs && (st = open_tensors(c, &c->inputs_file, inputs)) != ESPALIER_OK) return st;
    return ESPALIER_OK;
}

void golden_case_close(golden_case *c)
{
    esi_json_free(c->config);
    esi_weight_file_free(c->file);
    esi_weight_file_free(c->weights_file);
    esi_weight_file_free(c->inputs_file);
    espalier_context_free(c->ctx);
    while (c->blocks) {
        struct golden_block *b = c->blocks;
        c->blocks = b->next;
        free(b->data);
        free(b);
    }
    free(c->results);
    memset(c, 0, sizeof *c);
}

/* ----------------------------------------------------------------- tensors */

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const esi_file_tensor *find_tensor(const golden_case *c, const char *name, const esi_weight_file **file)
{
    const esi_weight_file *candidates[2] = {c->file, NULL};
    if (begins_with(name, "w.")) candidates[1] = c->weights_file;
    if (begins_with(name, "in.")) candidates[1] = c->inputs_file;
    for (size_t i = 0; i < ESI_COUNT(candidates); i++) {
        const esi_file_tensor *t = candidates[i] ? esi_weight_file_find(candidates[i], name) : NULL;
        if (t) {
            *file = candidates[i];
            return t;
        }
    }
    return NULL;
}

bool golden_has(const golden_case *c, const char *name)
{
    const esi_weight_file *file;
    return find_tensor(c, name, &file) != NULL;
}

static espalier_status need_tensor(golden_case *c, const char *name, const esi_weight_file **file, const esi_file_tensor **t,
                                   golden_shape *shape)
{
    *t = find_tensor(c, name, file);
    if (*t == NULL) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: tensor %s is missing", c->dir, name);
    if (shape) {
        *shape = (golden_shape){.rank = (*t)->rank};
        for (int i = 0; i < (*t)->rank; i++) shape->extent[i] = (*t)->shape[i];
    }
    return ESPALIER_OK;
}

static espalier_status wrong_type(golden_case *c, const esi_file_tensor *t, const char *wanted)
{
    return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: tensor %s is %s, expected %s", c->dir, t->name, esi_file_dtype_name(t->dtype), wanted);
}

/* The stored bytes at an aligned place (the file promises no alignment). */
static const void *aligned_copy(golden_case *c, const esi_weight_file *file, const esi_file_tensor *t)
{
    void *copy = golden_alloc(c, (size_t)t->size, 1);
    if (t->size) memcpy(copy, esi_weight_file_data(file, t), (size_t)t->size);
    return copy;
}

espalier_status golden_f32(golden_case *c, const char *name, const float **data, golden_shape *shape)
{
    const esi_weight_file *file;
    const esi_file_tensor *t;
    espalier_status st = need_tensor(c, name, &file, &t, shape);
    if (st != ESPALIER_OK) return st;
    if (t->dtype == ESI_FILE_F32) {
        *data = aligned_copy(c, file, t);
        return ESPALIER_OK;
    }
    if (t->dtype != ESI_FILE_F16 && t->dtype != ESI_FILE_BF16) return wrong_type(c, t, "F32, F16 or BF16");
    float *values = NULL;
    st = esi_file_tensor_read_f32(c->ctx, file, t, &values);
    if (st != ESPALIER_OK) return st;
    size_t n = (size_t)esi_file_tensor_count(t);
    float *copy = golden_alloc(c, n, sizeof *copy);
    memcpy(copy, values, n * sizeof *copy);
    esi_free(c->ctx, values);
    *data = copy;
    return ESPALIER_OK;
}

static espalier_status get_plain(golden_case *c, const char *name, esi_file_dtype dtype, esi_file_dtype other, const void **data,
                                 golden_shape *shape)
{
    const esi_weight_file *file;
    const esi_file_tensor *t;
    espalier_status st = need_tensor(c, name, &file, &t, shape);
    if (st != ESPALIER_OK) return st;
    if (t->dtype != dtype && t->dtype != other) return wrong_type(c, t, esi_file_dtype_name(dtype));
    *data = aligned_copy(c, file, t);
    return ESPALIER_OK;
}

espalier_status golden_f64(golden_case *c, const char *name, const double **data, golden_shape *shape)
{
    const void *bytes = NULL;
    espalier_status st = get_plain(c, name, ESI_FILE_F64, ESI_FILE_F64, &bytes, shape);
    *data = bytes;
    return st;
}

espalier_status golden_i32(golden_case *c, const char *name, const int32_t **data, golden_shape *shape)
{
    const void *bytes = NULL;
    espalier_status st = get_plain(c, name, ESI_FILE_I32, ESI_FILE_U32, &bytes, shape);
    *data = bytes;
    return st;
}

espalier_status golden_u8(golden_case *c, const char *name, const uint8_t **data, golden_shape *shape)
{
    const void *bytes = NULL;
    espalier_status st = get_plain(c, name, ESI_FILE_U8, ESI_FILE_U8, &bytes, shape);
    *data = bytes;
    return st;
}

espalier_status golden_tensor_f32(golden_case *c, esi_tensor *out, const char *name)
{
    const float *data;
    golden_shape shape;
    espalier_status st = golden_f32(c, name, &data, &shape);
    if (st != ESPALIER_OK) return st;
    int64_t cols = shape.rank > 0 ? shape.extent[shape.rank - 1] : 1;
    if (cols == 0) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: tensor %s is empty", c->dir, name);
    return esi_tensor_from(c->ctx, out, golden_shape_count(shape) / cols, cols, ESI_F32, data);
}

size_t golden_sub_cases(golden_case *c, const char *prefix, const char *suffix, const char *const **names)
{
    size_t count = 0, before = strlen(prefix), after = strlen(suffix);
    size_t total = c->file ? c->file->count : 0;
    const char **list = golden_alloc(c, total, sizeof *list);
    for (size_t i = 0; i < total; i++) {
        const char *name = c->file->tensors[i].name;
        size_t n = strlen(name);
        if (n <= before + after || !begins_with(name, prefix) || strcmp(name + n - after, suffix) != 0) continue;
        list[count++] = golden_name(c, "%.*s", (int)(n - before - after), name + before);
    }
    *names = list;
    return count;
}

espalier_status golden_weight_file(golden_case *c, esi_weight_file **out, const char *prefix, const char *exclude)
{
    const esi_weight_file *file = c->weights_file ? c->weights_file : c->file;
    const char *separator = "";
    esi_text header = {0};
    uint64_t size = 0, at = 0;
    espalier_status st = ESPALIER_OK;
    uint8_t *bytes = NULL;
    size_t skip = strlen(prefix);

    if (file == NULL) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: case.safetensors is missing", c->dir);
    esi_text_append(c->ctx, &header, "{");
    for (size_t i = 0; i < file->count; i++) {
        const esi_file_tensor *t = &file->tensors[i];
        if (!begins_with(t->name, prefix) || (exclude && begins_with(t->name + skip, exclude))) continue;
        esi_text_append(c->ctx, &header, "%s", separator);
        esi_text_append_json_string(c->ctx, &header, t->name + skip);
        esi_text_append(c->ctx, &header, ":{\"dtype\":\"%s\",\"shape\":[", esi_file_dtype_name(t->dtype));
        for (int d = 0; d < t->rank; d++) esi_text_append(c->ctx, &header, d ? ",%lld" : "%lld", (long long)t->shape[d]);
        esi_text_append(c->ctx, &header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)size, (unsigned long long)(size + t->size));
        size += t->size;
        separator = ",";
    }
    esi_text_append(c->ctx, &header, "}");
    if (header.failed) {
        st = esi_fail(c->ctx, ESPALIER_ERR_RESOURCE, "%s: no memory for the weights", c->dir);
        goto done;
    }
    bytes = golden_alloc(c, 8 + header.len + (size_t)size, 1);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)header.len >> (8 * i));
    memcpy(bytes + 8, header.data, header.len);
    at = 8 + header.len;
    for (size_t i = 0; i < file->count; i++) {
        const esi_file_tensor *t = &file->tensors[i];
        if (!begins_with(t->name, prefix) || (exclude && begins_with(t->name + skip, exclude))) continue;
        if (t->size) memcpy(bytes + at, esi_weight_file_data(file, t), (size_t)t->size);
        at += t->size;
    }
    st = esi_weight_file_parse(c->ctx, out, bytes, at, golden_name(c, "%s:%s*", c->name, prefix));
done:
    esi_text_free(c->ctx, &header);
    return st;
}

/* ----------------------------------------------------------------- results */

void golden_add_result(golden_case *c, const char *output, double rel_l2, double max_abs, golden_verdict verdict, const char *detail)
{
    if (c->n_results == c->cap_results) {
        c->cap_results = c->cap_results ? 2 * c->cap_results : 32;
        c->results = checked(realloc(c->results, c->cap_results * sizeof *c->results));
    }
    c->results[c->n_results++] = (golden_result){.output = copy_text(c, output),
                                                 .rel_l2 = rel_l2,
                                                 .max_abs = max_abs,
                                                 .verdict = verdict,
                                                 .detail = detail ? copy_text(c, detail) : NULL};
}

static int dtype_class(esi_file_dtype dtype)
{
    switch (dtype) {
    case ESI_FILE_F64:
    case ESI_FILE_F32:
    case ESI_FILE_F16:
    case ESI_FILE_BF16:
        return 0;
    case ESI_FILE_I64:
    case ESI_FILE_I32:
    case ESI_FILE_U32:
        return 1;
    case ESI_FILE_U8:
        return 2;
    default:
        return 3;
    }
}

static const char *shape_text(golden_case *c, golden_shape shape)
{
    char text[256] = "[";
    for (int i = 0; i < shape.rank; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, i ? ", %lld" : "%lld", (long long)shape.extent[i]);
    }
    return golden_name(c, "%s]", text);
}

static bool same_shape(golden_shape a, golden_shape b)
{
    if (a.rank != b.rank) return false;
    for (int i = 0; i < a.rank; i++) {
        if (a.extent[i] != b.extent[i]) return false;
    }
    return true;
}

void golden_check(golden_case *c, const char *name, const void *data, esi_file_dtype dtype, golden_shape shape)
{
    const esi_weight_file *file;
    const esi_file_tensor *t = find_tensor(c, name, &file);
    golden_shape stored = {0};
    const void *expected = NULL;
    esi_file_dtype expected_dtype = ESI_FILE_F32;
    if (t == NULL) return;

    espalier_status st = need_tensor(c, name, &file, &t, &stored);
    if (st == ESPALIER_OK && !same_shape(shape, stored)) {
        golden_add_result(c, name, (double)NAN, (double)NAN, GOLDEN_FAIL,
                          golden_name(c, "shape %s, expected %s", shape_text(c, shape), shape_text(c, stored)));
        return;
    }
    if (st == ESPALIER_OK && dtype_class(dtype) != dtype_class(t->dtype)) {
        golden_add_result(c, name, (double)NAN, (double)NAN, GOLDEN_FAIL,
                          golden_name(c, "type %s, expected %s", esi_file_dtype_name(dtype), esi_file_dtype_name(t->dtype)));
        return;
    }
    if (t->dtype == ESI_FILE_F16 || t->dtype == ESI_FILE_BF16) {
        const float *values = NULL;
        st = golden_f32(c, name, &values, NULL);
        expected = values;
    } else {
        expected = aligned_copy(c, file, t);
        expected_dtype = t->dtype;
    }
    if (st != ESPALIER_OK) {
        golden_add_result(c, name, (double)NAN, (double)NAN, GOLDEN_FAIL, espalier_error_message(c->ctx));
        return;
    }
    golden_compare(c, name, data, dtype, expected, expected_dtype, golden_shape_count(shape));
}

/* [rows, cols] with the leading extents of 1 that the stored tensor has. */
static golden_shape matrix_shape(const golden_case *c, const char *name, int64_t rows, int64_t cols)
{
    const esi_weight_file *file;
    const esi_file_tensor *t = find_tensor(c, name, &file);
    golden_shape shape = {0};
    int leading = t && t->rank > 2 ? t->rank - 2 : 0;
    for (int i = 0; i < leading; i++) shape.extent[shape.rank++] = 1;
    if (!(t && t->rank == 1 && rows == 1)) shape.extent[shape.rank++] = rows;
    shape.extent[shape.rank++] = cols;
    return shape;
}

espalier_status golden_check_tensor(golden_case *c, const char *name, esi_tensor t)
{
    if (!golden_has(c, name)) return ESPALIER_OK;
    float *data = golden_alloc(c, (size_t)t.rows * (size_t)t.cols, sizeof *data);
    espalier_status st = esi_tensor_read(c->ctx, t, data);
    if (st == ESPALIER_OK) golden_check(c, name, data, ESI_FILE_F32, matrix_shape(c, name, t.rows, t.cols));
    return st;
}

espalier_status golden_check_volume(golden_case *c, const char *name, esi_tensor t, int64_t R)
{
    if (!golden_has(c, name)) return ESPALIER_OK;
    int64_t cells = R * R * R;
    if (t.rows != cells)
        return esi_fail(c->ctx, ESPALIER_ERR_INTERNAL, "%s: %lld rows are no volume of side %lld", name, (long long)t.rows, (long long)R);
    float *rows = golden_alloc(c, (size_t)(cells * t.cols), sizeof *rows);
    float *volume = golden_alloc(c, (size_t)(cells * t.cols), sizeof *volume);
    espalier_status st = esi_tensor_read(c->ctx, t, rows);
    if (st != ESPALIER_OK) return st;
    for (int64_t n = 0; n < cells; n++) {
        for (int64_t k = 0; k < t.cols; k++) volume[k * cells + n] = rows[n * t.cols + k];
    }
    golden_check(c, name, volume, ESI_FILE_F32, GOLDEN_SHAPE(1, t.cols, R, R, R));
    return ESPALIER_OK;
}

void golden_expect(golden_case *c, const char *what, bool ok, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    golden_add_result(c, what, (double)NAN, (double)NAN, ok ? GOLDEN_PASS : GOLDEN_FAIL, ok ? NULL : text);
}

void golden_expect_int(golden_case *c, const char *what, int64_t ours, int64_t expected)
{
    golden_expect(c, what, ours == expected, "%lld, expected %lld", (long long)ours, (long long)expected);
}

void golden_case_finish(golden_case *c)
{
    for (size_t i = 0; c->file && i < c->file->count; i++) {
        const char *name = c->file->tensors[i].name;
        bool judged = !begins_with(name, "out.");
        for (size_t k = 0; !judged && k < c->n_results; k++) judged = strcmp(c->results[k].output, name) == 0;
        if (judged) continue;
        bool skip = esi_json_get(golden_tolerance(c, name), "skip") != NULL;
        golden_add_result(c, name, (double)NAN, (double)NAN, skip ? GOLDEN_SKIP : GOLDEN_FAIL,
                          skip ? NULL : "never checked by the code of this kind");
    }
}

/* -------------------------------------------------------------------- taps */

static void record_tap(void *user, espalier_context *ctx, const char *name, const esi_tensor *t)
{
    golden_case *c = user;
    if (t->dtype == ESI_I32) return;
    golden_tap *tap = golden_alloc(c, 1, sizeof *tap);
    float *data = golden_alloc(c, (size_t)t->rows * (size_t)t->cols, sizeof *data);
    if (esi_tensor_read(ctx, *t, data) != ESPALIER_OK) return; /* the error stays pending in the context */
    *tap = (golden_tap){.name = golden_name(c, "%s", name), .rows = t->rows, .cols = t->cols, .data = data};
    golden_tap **last = &c->taps;
    while (*last) last = &(*last)->next;
    *last = tap;
}

void golden_taps_start(golden_case *c)
{
    c->taps = NULL;
    c->ctx->tap = record_tap;
    c->ctx->tap_user = c;
}

void golden_taps_stop(golden_case *c)
{
    c->ctx->tap = NULL;
    c->ctx->tap_user = NULL;
}

const golden_tap *golden_tap_find(const golden_case *c, const char *name, int nth)
{
    for (const golden_tap *t = c->taps; t; t = t->next) {
        if (strcmp(t->name, name) == 0 && nth-- == 0) return t;
    }
    return NULL;
}

void golden_check_taps(golden_case *c, const char *prefix)
{
    for (const golden_tap *t = c->taps; t; t = t->next) {
        const char *name = golden_name(c, "%s%s", prefix, t->name);
        if (golden_has(c, name)) golden_check(c, name, t->data, ESI_FILE_F32, matrix_shape(c, name, t->rows, t->cols));
    }
}

golden_kind_fn golden_find_kind(const char *kind)
{
#define GOLDEN_ENTRY(text, fn) {text, fn},
    static const struct {
        const char *kind;
        golden_kind_fn function;
    } table[] = {GOLDEN_KINDS(GOLDEN_ENTRY)};
#undef GOLDEN_ENTRY
    for (size_t i = 0; i < ESI_COUNT(table); i++) {
        if (strcmp(table[i].kind, kind) == 0) return table[i].function;
    }
    return NULL;
}
