/* SPDX-License-Identifier: MIT
 *
 * model_fixture.h: small networks with random weights, put together in memory tensor by tensor, so that a test can leave one out, rename
 * it, give it another shape or damage it. Values depend on the tensor's name only.
 */
#ifndef MODEL_FIXTURE_H
#define MODEL_FIXTURE_H

#include "weights_fixture.h"

#include "models/networks.h"
#include "sample/sample.h"

typedef struct model_tensor {
    char name[96];
    const char *dtype;             /* of safetensors */
    int rank;
    int64_t shape[4];
    uint8_t *data;
    size_t size;
} model_tensor;

typedef struct model_builder {
    model_tensor tensors[128];
    size_t count;
    uint8_t *image;                /* the last file built */
} model_builder;

static inline size_t model_elements(const model_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= (size_t)t->shape[i];
    return n;
}

static inline model_tensor *model_add_raw(model_builder *b, const char *name, const char *dtype, size_t value_size, int rank,
                                          const int64_t *shape)
{
    model_tensor *t = &b->tensors[b->count++];
    assert_true(b->count <= ESI_COUNT(b->tensors));
    memset(t, 0, sizeof *t);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->dtype = dtype;
    t->rank = rank;
    for (int i = 0; i < rank; i++) t->shape[i] = shape[i];
    t->size = model_elements(t) * value_size;
    t->data = calloc(t->size + 1, 1);
    assert_non_null(t->data);
    return t;
}

/* F32 tensor of mean + scale * normal values. */
static inline model_tensor *model_add(model_builder *b, float mean, float scale, const char *name, int rank, const int64_t *shape)
{
    model_tensor *t = model_add_raw(b, name, "F32", sizeof(float), rank, shape);
    size_t n = model_elements(t);
    float *values = (float *)(void *)t->data;
    esi_generator g;
    uint32_t hash = 2166136261u;
    for (const char *c = name; *c; c++) hash = (hash ^ (uint8_t)*c) * 16777619u;
    esi_generator_seed(&g, hash);
    esi_generator_randn(&g, values, n);
    for (size_t i = 0; i < n; i++) values[i] = mean + scale * values[i];
    return t;
}

static inline void model_add_vector(model_builder *b, float mean, float scale, const char *prefix, const char *name, int64_t n)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    model_add(b, mean, scale, full, 1, &n);
}

static inline void model_add_linear(model_builder *b, const char *prefix, const char *name, int64_t out, int64_t in)
{
    char full[96];
    const int64_t shape[2] = {out, in};
    snprintf(full, sizeof full, "%s%s.weight", prefix, name);
    model_add(b, 0.0f, 1.0f / (1.0f + (float)in / 16.0f), full, 2, shape);
    snprintf(full, sizeof full, "%s%s.bias", prefix, name);
    model_add(b, 0.0f, 0.1f, full, 1, shape);
}

static inline model_tensor *model_find(model_builder *b, const char *name)
{
    for (size_t i = 0; i < b->count; i++) {
        if (strcmp(b->tensors[i].name, name) == 0) return &b->tensors[i];
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static inline void model_remove(model_builder *b, const char *name)
{
    model_tensor *t = model_find(b, name);
    free(t->data);
    *t = b->tensors[--b->count];
}

static inline void model_builder_free(model_builder *b)
{
    for (size_t i = 0; i < b->count; i++) free(b->tensors[i].data);
    free(b->image);
    memset(b, 0, sizeof *b);
}

/* The safetensors file through the production parser, named "m.bin"; the builder owns its bytes. */
static inline esi_weight_file *model_file(fixture *f, model_builder *b)
{
    size_t cap = 4096, len = 8, offset = 0;
    esi_weight_file *file = NULL;
    for (size_t i = 0; i < b->count; i++) cap += 256 + b->tensors[i].size;
    free(b->image);
    b->image = calloc(cap, 1);
    assert_non_null(b->image);
    for (size_t i = 0; i < b->count; i++) {
        const model_tensor *t = &b->tensors[i];
        char *at = (char *)b->image;
        len += (size_t)snprintf(at + len, cap - len, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "{", t->name, t->dtype);
        for (int k = 0; k < t->rank; k++) len += (size_t)snprintf(at + len, cap - len, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        len += (size_t)snprintf(at + len, cap - len, "],\"data_offsets\":[%zu,%zu]}", offset, offset + t->size);
        offset += t->size;
    }
    b->image[len++] = '}';
    for (size_t i = 0; i < 8; i++) b->image[i] = (uint8_t)((uint64_t)(len - 8) >> (8 * i));
    for (size_t i = 0; i < b->count; i++) {
        memcpy(b->image + len, b->tensors[i].data, b->tensors[i].size);
        len += b->tensors[i].size;
    }
    if (esi_weight_file_parse(f->ctx, &file, b->image, len, "m.bin") != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    return file;
}

static inline esi_json *parse_json(fixture *f, const char *text)
{
    esi_json *json = NULL;
    if (esi_json_parse(f->ctx, &json, text, strlen(text), "config", ESPALIER_ERR_MODEL) != ESPALIER_OK)
        fail_msg("%s", espalier_error_message(f->ctx));
    return json;
}

/* The call failed with this status, and the message has this text in it. */
static inline void expect_failure(fixture *f, espalier_status got, espalier_status wanted, const char *text)
{
    if (got != wanted || !strstr(espalier_error_message(f->ctx), text))
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", (int)got, espalier_error_message(f->ctx), (int)wanted, text);
    esi_clear_error(f->ctx);
}

#endif
