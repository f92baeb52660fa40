/* SPDX-License-Identifier: MIT
 *
 * matting_fixture.h: the tiny matting networks of the golden cases as weight files in memory, so that a test can leave a tensor out, rename
 * it, give it another shape or fold its batch norms.
 */
#ifndef MATTING_FIXTURE_H
#define MATTING_FIXTURE_H

#include "tensor_fixture.h"

#include "formats/weights.h"

#include <math.h>

typedef struct net_tensor {
    char name[128];
    esi_file_dtype dtype;
    int rank;
    int64_t shape[ESI_MAX_RANK];
    const uint8_t *data;
    size_t size;
} net_tensor;

typedef struct net {
    esi_weight_file *source; /* the golden case; owns what data points at unless `owned` does */
    net_tensor *tensors;
    size_t count;
    uint8_t *image; /* the last file built */
    void *owned[2048];
    size_t n_owned;
} net;

static inline void net_load(fixture *f, net *n, const char *case_name)
{
    char path[1024];
    memset(n, 0, sizeof *n);
    snprintf(path, sizeof path, "%s/golden/%s/case.safetensors", ESPALIER_TEST_DATA, case_name);
    assert_int_equal(esi_weight_file_open(f->ctx, &n->source, path), ESPALIER_OK);
    n->tensors = calloc(n->source->count, sizeof *n->tensors);
    assert_non_null(n->tensors);
    for (size_t i = 0; i < n->source->count; i++) {
        const esi_file_tensor *t = &n->source->tensors[i];
        net_tensor *to = &n->tensors[n->count];
        if (strncmp(t->name, "w.", 2) != 0) continue;
        snprintf(to->name, sizeof to->name, "%s", t->name + 2);
        to->dtype = t->dtype;
        to->rank = t->rank;
        memcpy(to->shape, t->shape, sizeof to->shape);
        to->data = esi_weight_file_data(n->source, t);
        to->size = (size_t)t->size;
        n->count++;
    }
}

static inline void net_free(net *n)
{
    for (size_t i = 0; i < n->n_owned; i++) free(n->owned[i]);
    free(n->tensors);
    free(n->image);
    esi_weight_file_free(n->source);
    memset(n, 0, sizeof *n);
}

static inline net_tensor *net_find(net *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->tensors[i].name, name) == 0) return &n->tensors[i];
    fail_msg("no tensor '%s'", name);
    return NULL;
}

/* Fresh values of a tensor, owned by the net. */
static inline float *net_values(net *n, net_tensor *t)
{
    size_t count = 1;
    for (int i = 0; i < t->rank; i++) count *= (size_t)t->shape[i];
    float *values = calloc(count + 1, sizeof *values);
    assert_non_null(values);
    assert_true(n->n_owned < ESI_COUNT(n->owned));
    n->owned[n->n_owned++] = values;
    for (size_t i = 0; i < count; i++) {
        if (t->dtype == ESI_FILE_F32) {
            memcpy(&values[i], t->data + 4 * i, 4);
        } else { /* F16 */
            const uint32_t h = (uint32_t)t->data[2 * i] | (uint32_t)t->data[2 * i + 1] << 8, exponent = h >> 10 & 31, mantissa = h & 1023;
            const float value = exponent ? ldexpf(1024.0f + (float)mantissa, (int)exponent - 25) : ldexpf((float)mantissa, -24);
            values[i] = h & 0x8000 ? -value : value;
        }
    }
    t->dtype = ESI_FILE_F32;
    t->data = (const uint8_t *)values;
    t->size = count * sizeof *values;
    return values;
}

static inline const char *net_dtype(esi_file_dtype dtype)
{
    return dtype == ESI_FILE_F16 ? "F16" : "F32";
}

/* A safetensors file through the production parser, named "m.bin". `skip`: the tensor that is left out (count: none). */
static inline esi_weight_file *net_file(fixture *f, net *n, size_t skip, const char *prefix)
{
    size_t cap = 64, len = 8, offset = 0;
    esi_weight_file *file = NULL;
    bool first = true;
    for (size_t i = 0; i < n->count; i++) cap += 320 + n->tensors[i].size;
    free(n->image);
    n->image = malloc(cap);
    assert_non_null(n->image);
    for (size_t i = 0; i < n->count; i++) {
        const net_tensor *t = &n->tensors[i];
        char *at = (char *)n->image;
        if (i == skip) continue;
        len += (size_t)snprintf(at + len, cap - len, "%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[", first ? "{" : ",", prefix, t->name,
                                net_dtype(t->dtype));
        first = false;
        for (int k = 0; k < t->rank; k++) len += (size_t)snprintf(at + len, cap - len, "%s%lld", k ? "," : "", (long long)t->shape[k]);
        len += (size_t)snprintf(at + len, cap - len, "],\"data_offsets\":[%zu,%zu]}", offset, offset + t->size);
        offset += t->size;
    }
    n->image[len++] = '}';
    for (size_t i = 0; i < 8; i++) n->image[i] = (uint8_t)((uint64_t)(len - 8) >> (8 * i));
    for (size_t i = 0; i < n->count; i++) {
        if (i == skip) continue;
        memcpy(n->image + len, n->tensors[i].data, n->tensors[i].size);
        len += n->tensors[i].size;
    }
    if (esi_weight_file_parse(f->ctx, &file, n->image, len, "m.bin") != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    return file;
}

static inline esi_weight_file *net_whole_file(fixture *f, net *n)
{
    return net_file(f, n, n->count, "");
}

static inline void net_remove(net *n, const char *name)
{
    *net_find(n, name) = n->tensors[n->count - 1];
    n->count--;
}

/* The call failed with this status, and the message has this text in it. */
static inline void expect_failure(fixture *f, espalier_status got, espalier_status wanted, const char *text)
{
    if (got != wanted || !strstr(espalier_error_message(f->ctx), text))
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", (int)got, espalier_error_message(f->ctx), (int)wanted, text);
    esi_clear_error(f->ctx);
}

#endif
