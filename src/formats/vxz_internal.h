/* SPDX-License-Identifier: MIT
 *
 * vxz_internal.h: the parts that O-Voxel files are made of: cell codes, octrees, attribute filters. Cells of one chunk have coordinates
 * below 2^depth on each axis, depth 1..10; "codes" are Morton codes, ascending and unique.
 */
#ifndef ESI_VXZ_INTERNAL_H
#define ESI_VXZ_INTERNAL_H

#include "formats/vxz.h"

#define ESI_VXZ_MAX_DEPTH 10
#define ESI_VXZ_MAX_CHANNELS 16                  /* of one attribute */
#define ESI_VXZ_MAX_COORD 131072                 /* 2^17: the range of voxel coordinates */

/* Bit i of x, y, z -> bits 3i + 2, 3i + 1, 3i; 10 bits of each. */
uint32_t esi_morton_encode(uint32_t x, uint32_t y, uint32_t z);
void esi_morton_decode(uint32_t code, uint32_t out[3]);
/* Place of a cell on a Hilbert curve over 1024^3 cells. */
uint32_t esi_hilbert_encode(uint32_t x, uint32_t y, uint32_t z);

/* Stable ascending sort of `order` (row numbers) by keys[row] below 2^bits. scratch: n rows. */
void esi_radix_sort(uint32_t *order, uint32_t *scratch, const uint64_t *keys, size_t n, int bits);

/* Bytes of the octree over n codes, one per inner node in pre-order: *size of them into out, which may be NULL to count. */
void esi_octree_encode(uint8_t *out, size_t *size, const uint32_t *codes, size_t n, int depth);
/* *n codes of an octree; `codes` has room for `capacity`. false: no such tree, bytes left over, or more leaves than that. */
bool esi_octree_decode(uint32_t *codes, size_t capacity, size_t *n, const uint8_t *bytes, size_t size, int depth);
/* Number of leaves if the bytes are a tree. */
size_t esi_octree_leaves(const uint8_t *bytes, size_t size, int depth);

/* Differences along the octree and back; rows of `channels` bytes in the order of codes. Not in place. */
void esi_filter_parent_encode(uint8_t *out, const uint8_t *in, size_t channels, const uint32_t *codes, size_t n, int depth);
void esi_filter_parent_decode(uint8_t *out, const uint8_t *in, size_t channels, const uint32_t *codes, size_t n, int depth);
/* Differences to a neighbour of lower coordinates and back. */
espalier_status esi_filter_neighbor(espalier_context *ctx, uint8_t *out, const uint8_t *in, size_t channels, const uint32_t *codes,
                                    size_t n, bool decode);

/* npz.c */
espalier_status esi_npz_parse(espalier_context *ctx, esi_vxz *out, const uint8_t *bytes, uint64_t size, const char *name);
espalier_status esi_npz_write(espalier_context *ctx, const esi_vxz *voxels, const char *path);
/* vxz_write.c: are the voxels what the struct promises? `status` of the failure. */
espalier_status esi_vxz_check(espalier_context *ctx, const esi_vxz *voxels, const char *name, espalier_status status);
/* Rows in the order of the file: chunks by (x, y, z), Morton inside. ERR_INTERNAL for one cell twice. */
espalier_status esi_vxz_order(espalier_context *ctx, uint32_t **order, const int32_t *coords, int64_t count, int depth, const char *name,
                              espalier_status duplicates);

#endif
