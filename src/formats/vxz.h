/* SPDX-License-Identifier: MIT
 *
 * vxz.h: O-Voxel files (o_voxel/io): .vxz (chunked sparse octrees with compressed attribute streams) and .npz (NumPy).
 */
#ifndef ESI_VXZ_H
#define ESI_VXZ_H

#include "base/base.h"

#define ESI_VXZ_MAX_ATTRS 16

typedef struct esi_vxz_attr {
    char name[64];
    int32_t channels;              /* 1..16 */
    uint8_t *values;               /* [count][channels] */
} esi_vxz_attr;

/* Zero-initialise; owned arrays of esi_alloc. Dual grids have "vertices" (3) and "intersected" (1, bit a = axis a); PBR volumes base_color
 * (3), metallic, roughness, emissive (3), alpha, normal (3). */
typedef struct esi_vxz {
    int64_t count;
    int32_t *coords;               /* [count][3] */
    int32_t n_attrs;
    esi_vxz_attr attrs[ESI_VXZ_MAX_ATTRS];
} esi_vxz;
void esi_vxz_free(espalier_context *ctx, esi_vxz *voxels);
const esi_vxz_attr *esi_vxz_find(const esi_vxz *voxels, const char *name);

typedef enum esi_vxz_filter { ESI_VXZ_FILTER_NONE, ESI_VXZ_FILTER_PARENT, ESI_VXZ_FILTER_NEIGHBOR } esi_vxz_filter;
typedef enum esi_vxz_compression { ESI_VXZ_NONE, ESI_VXZ_DEFLATE, ESI_VXZ_LZMA, ESI_VXZ_ZSTD } esi_vxz_compression;
typedef enum esi_vxz_interleave { ESI_VXZ_AS_IS, ESI_VXZ_PLANAR, ESI_VXZ_ALL } esi_vxz_interleave;   /* "as_is", "none", "all" */
typedef struct esi_vxz_options {
    int32_t chunk_size;            /* power of two, 256 */
    esi_vxz_filter filter;
    esi_vxz_compression compression;
    int level;                     /* of the compression; 0 = its default */
    esi_vxz_interleave interleave;
} esi_vxz_options;
esi_vxz_options esi_vxz_options_default(void);

/* By suffix .npz or otherwise vxz; content decides on reading. A vxz file holds the rows in chunk and Morton order, whatever their order is
 * here; an npz file keeps it. One cell twice is ERR_INTERNAL. ERR_INPUT when damaged or over limits, ERR_OUTPUT. options may be NULL. */
espalier_status esi_vxz_read(espalier_context *ctx, esi_vxz *out, const char *path);
espalier_status esi_vxz_parse(espalier_context *ctx, esi_vxz *out, const void *bytes, uint64_t size, const char *name);
espalier_status esi_vxz_write(espalier_context *ctx, const esi_vxz *voxels, const char *path, const esi_vxz_options *options);

#endif
