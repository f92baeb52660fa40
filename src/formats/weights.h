/* SPDX-License-Identifier: MIT
 *
 * weights.h: one weight file, safetensors or GGUF, as a list of named tensors over a mapped file. Untrusted bytes: every header field is
 * checked before use. Knows no network; models/ asks by name and shape.
 */
#ifndef ESI_WEIGHTS_H
#define ESI_WEIGHTS_H

#include "base/base.h"

typedef enum esi_file_dtype {
    ESI_FILE_F64, ESI_FILE_F32, ESI_FILE_F16, ESI_FILE_BF16, ESI_FILE_I64, ESI_FILE_I32, ESI_FILE_U32, ESI_FILE_U8, ESI_FILE_Q8_0,
    ESI_FILE_OTHER                       /* known to exist, not readable here */
} esi_file_dtype;
const char *esi_file_dtype_name(esi_file_dtype dtype);

#define ESI_MAX_RANK 8

typedef struct esi_file_tensor {
    const char *name;                    /* NUL-terminated, owned by the file object */
    esi_file_dtype dtype;
    const char *type_name;               /* what the file calls it ("F8_E4M3", "Q4_K"); a constant, for messages */
    int rank;                            /* 0 = scalar */
    int64_t shape[ESI_MAX_RANK];         /* outermost first, for GGUF too */
    uint64_t offset;                     /* of the data, from the start of the file */
    uint64_t size;                       /* bytes */
} esi_file_tensor;

typedef enum esi_weight_format { ESI_FORMAT_SAFETENSORS, ESI_FORMAT_GGUF } esi_weight_format;

/* Immutable once open; may be shared by threads. */
typedef struct esi_weight_file {
    esi_weight_format format;
    esi_file_map *map;
    size_t count;
    esi_file_tensor *tensors;            /* sorted by name */
    char *architecture;                  /* GGUF general.architecture, or NULL */
    char *config_json;                   /* GGUF trellis.config_json, or NULL */
    espalier_allocator allocator;        /* private, like all below */
    void *storage; size_t storage_size;  /* one block for names and table */
    const uint8_t *bytes; uint64_t size; /* the whole file */
    const char *name;                    /* of the file, for messages */
} esi_weight_file;

/* Format by content, not by suffix. ERR_MODEL with file, tensor, found and expected (byte position set) when damaged. Rejected: header
 * beyond the file, names twice, overlapping or out-of-file data, shape * dtype != size, rank > ESI_MAX_RANK, more than 2^20 tensors, bad
 * UTF-8. */
espalier_status esi_weight_file_open(espalier_context *ctx, esi_weight_file **out, const char *path);
/* The same over memory (fuzzing, tests); `bytes` must outlive the object. */
espalier_status esi_weight_file_parse(espalier_context *ctx, esi_weight_file **out, const void *bytes, uint64_t size, const char *name);
void esi_weight_file_free(esi_weight_file *file);                                  /* NULL is fine */

const esi_file_tensor *esi_weight_file_find(const esi_weight_file *file, const char *name);   /* NULL if absent */
const uint8_t *esi_weight_file_data(const esi_weight_file *file, const esi_file_tensor *t);   /* may be unaligned */
const char *esi_weight_file_path(const esi_weight_file *file);

/* Values as dense fp32 / int32 (esi_alloc), exact for F16, BF16, Q8_0; F64, I64, U32 rounded / range-checked. For tests, small tables,
 * dumps. */
espalier_status esi_file_tensor_read_f32(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, float **out);
espalier_status esi_file_tensor_read_i32(espalier_context *ctx, const esi_weight_file *file, const esi_file_tensor *t, int32_t **out);
/* Number of elements (checked when the file was opened). */
int64_t esi_file_tensor_count(const esi_file_tensor *t);
/* "[3, 10]" into buf, for messages; returns buf. */
const char *esi_shape_text(char *buf, size_t size, const int64_t *shape, int rank);
#define ESI_SHAPE_TEXT 192               /* enough for any shape */

/* ---- writing safetensors (dumps, espalier-make-model, tests): header keys in the order given, data gapless in that order. */
typedef struct esi_safetensors_entry {
    const char *name;
    esi_file_dtype dtype;
    int rank;
    int64_t shape[ESI_MAX_RANK];
    const void *data;                    /* NULL: `fill` is called with increasing chunk positions */
} esi_safetensors_entry;
typedef espalier_status (*esi_safetensors_fill)(void *user, size_t entry, uint64_t offset, void *bytes, size_t size);
/* metadata: key, value, key, value, ..., NULL; may be NULL. */
espalier_status esi_safetensors_write(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                                      const char *const *metadata, esi_safetensors_fill fill, void *user);
/* ---- writing GGUF v3 (espalier-make-model, tests): same conventions; 5-D shapes must be folded by the caller. dtypes F32, F16, BF16,
 * Q8_0, I32. */
espalier_status esi_gguf_write(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                               const char *architecture, const char *name, const char *config_json, esi_safetensors_fill fill, void *user);

#endif
