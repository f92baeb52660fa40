/* SPDX-License-Identifier: MIT
 *
 * weights_internal.h: what the two container readers and writers share. Only src/formats/{weights,safetensors,gguf}*.c include this.
 */
#ifndef ESI_WEIGHTS_INTERNAL_H
#define ESI_WEIGHTS_INTERNAL_H

#include "formats/weights.h"

#define ESI_MAX_TENSORS (1u << 20)

/* Fill format, count, tensors (unsorted) and strings of `file`, whose bytes, size and name are set. Every tensor's data lies inside the
 * file. */
espalier_status esi_safetensors_parse(espalier_context *ctx, esi_weight_file *file);
espalier_status esi_gguf_parse(espalier_context *ctx, esi_weight_file *file);

/* The block behind tensors[] and all strings: reserved once, then cut up in order. */
typedef struct esi_weight_storage {
    char *text;
} esi_weight_storage;
espalier_status esi_weight_reserve(espalier_context *ctx, esi_weight_file *file, esi_weight_storage *storage, size_t count,
                                   size_t text_size);
/* Copy `len` bytes and a NUL; room was reserved. */
char *esi_weight_keep(esi_weight_storage *storage, const void *text, size_t len);

/* Number of elements; false if the product of the extents, zeros left out, does not fit in int64. */
bool esi_shape_elements(uint64_t *elements, const int64_t *shape, int rank);
/* Strict UTF-8 without NUL: names end up in C strings. */
bool esi_is_utf8(const void *text, size_t len);

/* Bytes of `block` consecutive elements; block is 1 except for Q8_0. Zero size for ESI_FILE_OTHER. */
void esi_file_dtype_block(esi_file_dtype dtype, unsigned *block, unsigned *bytes);

/* ---- writers */

/* Checks that hold for both containers: names (UTF-8, unique, 1..max_name bytes), shapes, data or fill. sizes[i] = bytes of entry i. */
espalier_status esi_entries_check(espalier_context *ctx, const char *path, const esi_safetensors_entry *entries, size_t count,
                                  esi_safetensors_fill fill, size_t max_name, int max_rank, uint64_t *sizes);
/* Bytes of one entry, from memory or in chunks through `fill`. */
espalier_status esi_entry_write(espalier_context *ctx, esi_writer *writer, const esi_safetensors_entry *entry, size_t index, uint64_t size,
                                esi_safetensors_fill fill, void *user);

#endif
