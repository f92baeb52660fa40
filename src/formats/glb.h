/* SPDX-License-Identifier: MIT
 *
 * glb.h: writing an asset as binary glTF 2.0.
 */
#ifndef ESI_GLB_H
#define ESI_GLB_H

#include "formats/asset.h"

/* The mesh with one colour per vertex, for assets whose vertex i is voxel i. Unused vertices are left out; axes (x, y, z) -> (x, z, -y).
 * COLOR_0 (linear light, 16 bit, RGBA) and the mean metallic and roughness values come from attrs; without attrs neither is written. The
 * same asset gives the same bytes. ERR_SOUNDNESS without faces or with NaN, ERR_RESOURCE beyond the 4 GiB of the container, ERR_OUTPUT,
 * ERR_INTERNAL for an asset that is none. */
espalier_status esi_glb_write(espalier_context *ctx, const esi_asset *asset, const char *path);

/* Bytes of the binary chunk for that many vertices in use. */
uint64_t esi_glb_binary_size(uint64_t vertices, uint64_t faces, bool with_colors);

#endif
