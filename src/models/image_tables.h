/* SPDX-License-Identifier: MIT
 *
 * image_tables.h: tables that turn picture operations into the gathers of tensor/ops.h. A picture [height, width] is rows n = y * width +
 * x. All tables are made on the host and become tensors of the innermost scope; -1 is a missing row. Where `first` and `rows` are asked
 * for, only that range of the output's rows is made, so that large pictures need no large tables.
 */
#ifndef ESI_IMAGE_TABLES_H
#define ESI_IMAGE_TABLES_H

#include "tensor/ops.h"

#define ESI_IMAGE_MAX_SIDE 16384 /* so that rows and taps of a picture fit int32 */

typedef struct esi_grid {
    int64_t height, width;
} esi_grid;

typedef struct esi_conv_geometry {
    int64_t kernel, stride, padding, dilation;
} esi_conv_geometry;

/* Size after a convolution, never below 0. */
esi_grid esi_conv_grid(esi_grid in, const esi_conv_geometry *g);
/* [rows, kernel^2], tap ky * kernel + kx. */
espalier_status esi_conv_table(espalier_context *ctx, esi_tensor *table, esi_grid in, const esi_conv_geometry *g, int64_t first,
                               int64_t rows);

/* The same over a band of the input: row 0 of x is pixel `origin`. */
espalier_status esi_conv_band_table(espalier_context *ctx, esi_tensor *table, esi_grid in, const esi_conv_geometry *g, int64_t first,
                                    int64_t rows, int64_t origin);

/* 2 x 2 windows with stride 2 and ceil mode: windows over the border are cut off. [rows of the half grid, 4]. */
esi_grid esi_half_grid(esi_grid in);
espalier_status esi_pool_table(espalier_context *ctx, esi_tensor *table, esi_grid in);

/* Bilinear resize, formats/image_sample.h on both axes: table and weight [rows, 4]. */
espalier_status esi_resize_table(espalier_context *ctx, esi_tensor *table, esi_tensor *weight, esi_grid in, esi_grid out,
                                 bool align_corners, int64_t first, int64_t rows);

/* Four corners for each tap of a deformable convolution (version 2): table and weight [rows * kernel^2, 4], row (pixel, tap). offset: host
 * [rows, 2 kernel^2], column 2t down and 2t + 1 right; mask: host [rows, kernel^2], times mask_factor. `first`: pixel of their first row.
 */
espalier_status esi_deform_table(espalier_context *ctx, esi_tensor *table, esi_tensor *weight, esi_grid in, const esi_conv_geometry *g,
                                 const float *offset, const float *mask, float mask_factor, int64_t first, int64_t rows);
/* [rows, taps] = 0, 1, 2, ...: a convolution over rows that lie there tap by tap. */
espalier_status esi_counting_table(espalier_context *ctx, esi_tensor *table, int64_t rows, int64_t taps);

/* Windows of window x window tokens, the grid padded at the bottom and right with missing rows and then rolled up and left by `shift`.
 * index: [windows * window^2, 1], token that each place reads. region (only with a shift; else null): same shape; tokens of one window that
 * the roll brought together from different ends differ in it. */
int64_t esi_window_count(esi_grid in, int64_t window);
espalier_status esi_window_tables(espalier_context *ctx, esi_tensor *index, esi_tensor *region, esi_grid in, int64_t window, int64_t shift);
/* Relative positions: bias[h * window^2 + i, j] = values[(dy + window - 1) * (2 window - 1) + dx + window - 1, h] with (dy, dx) from key j
 * to query i. values: a weight [(2 window - 1)^2, heads]. */
espalier_status esi_window_bias(espalier_context *ctx, esi_tensor *bias, esi_tensor values, int64_t window);
/* [rows of the half grid * 4, 1]: upper left, lower left, upper right, lower right token of each 2 x 2 group. */
espalier_status esi_merge_index(espalier_context *ctx, esi_tensor *index, esi_grid in);

/* The picture cut into tiles of `tile` size: [rows of a tile * tiles, 1], place (pixel of the tile, tile). */
espalier_status esi_tile_index(espalier_context *ctx, esi_tensor *index, esi_grid in, esi_grid tile);

#endif
