/* SPDX-License-Identifier: MIT
 *
 * tensor.h: opaque handles to matrices that live on a backend (CPU now, Vulkan later).
 *
 * A tensor is a row-major matrix [rows, cols]; a row is a token, a patch, a pixel or a voxel. The struct is a small value: copy it
 * freely. It never says where the numbers lie; only esi_tensor_read/write move them. Views (rows, columns, reshape) share the buffer.
 *
 * Life: a fresh tensor belongs to the innermost scope. esi_scope_end() frees all that were made since the matching begin, on errors
 * too. esi_tensor_free() frees earlier; esi_tensor_keep() hands a tensor to the enclosing scope. Views need no release.
 *
 *     esi_scope scope = esi_scope_begin(ctx);
 *     ...
 *   done:
 *     esi_scope_end(ctx, scope);
 */
#ifndef ESI_TENSOR_H
#define ESI_TENSOR_H

#include "base/base.h"

typedef enum esi_dtype {
    ESI_F32 = 0,
    ESI_F16 = 1,       /* weights only */
    ESI_BF16 = 2,      /* weights only */
    ESI_Q8_0 = 3,      /* weights only: blocks of 32 along a row, f16 scale + 32 int8 = 34 bytes */
    ESI_I32 = 4,       /* tables and indices */
    ESI_DTYPE_COUNT
} esi_dtype;

const char *esi_dtype_name(esi_dtype dtype);                  /* "F32", ... */
/* Bytes of a row of n values; false when n is no multiple of the block (Q8_0) or the size overflows. */
bool esi_dtype_row_bytes(esi_dtype dtype, int64_t n, size_t *bytes);

typedef struct esi_tensor {
    struct esi_buffer *buffer;     /* NULL = no tensor */
    uint64_t offset;               /* bytes into the buffer */
    int64_t rows, cols;
    int64_t stride;                /* elements from a row to the next; >= cols; == cols for Q8_0 */
    esi_dtype dtype;
} esi_tensor;

static inline bool esi_tensor_is_null(esi_tensor t) { return t.buffer == NULL; }

/* --------------------------------------------------------------- scopes */

typedef struct esi_scope { uint32_t depth; } esi_scope;
esi_scope esi_scope_begin(espalier_context *ctx);             /* cannot fail */
void esi_scope_end(espalier_context *ctx, esi_scope scope);

/* -------------------------------------------------------------- creation */

/* Uninitialised tensor of the innermost scope. dtype F32 or I32. ERR_RESOURCE: over budget; the message has the shape. */
espalier_status esi_tensor_new(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols, esi_dtype dtype);
/* The same, filled from host memory (dense rows). */
espalier_status esi_tensor_from(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols, esi_dtype dtype, const void *data);
void esi_tensor_free(espalier_context *ctx, esi_tensor *t);   /* the tensor's whole buffer; *t becomes null; null is fine */
void esi_tensor_keep(espalier_context *ctx, esi_tensor t);    /* from the innermost scope to the one around it */

/* A weight tensor over bytes that stay alive as long as `owner` says (a mapped file or an owned block); not in any scope. The CPU backend
 * reads in place, a device uploads. `data` needs no alignment. Release with esi_weight_release(). */
espalier_status esi_weight_wrap(espalier_context *ctx, esi_tensor *out, int64_t rows, int64_t cols, esi_dtype dtype,
                                const void *data);
void esi_weight_release(espalier_context *ctx, esi_tensor *t);

/* ------------------------------------------------------------------ views */

esi_tensor esi_rows(esi_tensor t, int64_t first, int64_t count);
esi_tensor esi_cols(esi_tensor t, int64_t first, int64_t count);        /* not for Q8_0 */
/* Same elements as [rows, cols]; t must be dense (stride == cols) and rows * cols equal. */
esi_tensor esi_reshape(esi_tensor t, int64_t rows, int64_t cols);

/* ------------------------------------------------- host <-> backend copies */

/* Dense host rows, t's dtype (weights: read gives F32, expanded exactly and then by the store rule). F32 values that are written go
 * through the store rule, as if an op had stored them. Both wait for pending work. */
espalier_status esi_tensor_write(espalier_context *ctx, esi_tensor t, const void *data);
espalier_status esi_tensor_read(espalier_context *ctx, esi_tensor t, void *data);
/* Wait for all enqueued work; reports a lost device. */
espalier_status esi_backend_wait(espalier_context *ctx);

/* Is a tap set? Networks then also compute intermediates that fused epilogues skip; their results do not change. */
bool esi_tap_enabled(const espalier_context *ctx);
/* Hand an intermediate to the context's tap, if one is set. `format` makes the name ("block%d.mlp"). */
void esi_tap(espalier_context *ctx, esi_tensor t, const char *format, ...) ESI_PRINTF(3, 4);

#endif
