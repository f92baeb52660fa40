/* SPDX-License-Identifier: MIT
 *
 * image_layers.h: layers of the matting networks over pictures as rows: 2-D convolution with its batch norm folded into the epilogue, max
 * pooling, bilinear resizing. Work is cut into ranges of output rows, so that tables stay small; that changes no bit.
 */
#ifndef ESI_IMAGE_LAYERS_H
#define ESI_IMAGE_LAYERS_H

#include "models/image_tables.h"
#include "models/networks.h"

/* A picture of channels: rows n = y * width + x. */
typedef struct esi_map {
    esi_tensor rows; /* [height * width, channels], or fewer rows of a band */
    esi_grid grid;   /* of the whole picture */
    int64_t origin;  /* pixel of row 0; convolutions only read pixels of the band, or none */
} esi_map;

/* New tensor of the innermost scope. */
espalier_status esi_map_new(espalier_context *ctx, esi_map *map, esi_grid grid, int64_t channels);
/* From host pixels [3, height, width]. */
espalier_status esi_map_from_pixels(espalier_context *ctx, esi_map *map, const float *pixels, esi_grid grid);

/* What every picture network's struct begins with. */
typedef struct esi_image_network {
    espalier_allocator allocator;
    esi_weights *weights;
} esi_image_network;
/* *out: `size` bytes, zero but for this. `file` is taken over on success and on failure. */
espalier_status esi_image_network_new(espalier_context *ctx, esi_image_network **out, size_t size, const char *what, esi_weight_file *file);
void esi_image_network_free(espalier_context *ctx, esi_image_network *n, size_t size);

/* How a file stores batch norms: as PyTorch does; as scale and shift (trellis.cpp); not at all, in the convolutions themselves. */
typedef enum esi_norm_style { ESI_NORMS_STATISTICS, ESI_NORMS_SCALE_SHIFT, ESI_NORMS_FOLDED } esi_norm_style;
esi_norm_style esi_image_norm_style(const esi_weight_file *file);

/* Where layers are opened from. */
typedef struct esi_layer_source {
    espalier_context *ctx;
    esi_weights *weights;
    esi_norm_style norms;
    const char *prefix; /* of all names, "module." or "" */
} esi_layer_source;

typedef struct esi_conv2d {
    esi_tensor weight;       /* [out, in * kernel^2], PyTorch's order */
    esi_tensor scale, shift; /* [1, out] or null: act(fma(acc, scale, shift)) */
    float *folded;           /* owner of scale and shift [2 * out] where they are made here */
    int64_t in, out;
    esi_conv_geometry geometry;
    esi_activation act;
} esi_conv2d;

typedef struct esi_conv2d_options {
    int64_t in, out;               /* 0: as the file has it */
    int kernel;                    /* 0: as the file has it */
    int stride, padding, dilation; /* 0: stride 1; half the kernel times the dilation; 1 */
    bool no_bias;
    const char *norm; /* batch norm behind it: its name, or NULL */
    esi_activation act;
} esi_conv2d_options;

/* Convolution <prefix><scope><name> and, if asked for, batch norm <prefix><scope><norm>. conv is zeroed by the caller. */
espalier_status esi_conv2d_open(const esi_layer_source *s, esi_conv2d *conv, const char *scope, const char *name,
                                const esi_conv2d_options *options);
void esi_conv2d_free(espalier_context *ctx, const espalier_allocator *allocator, esi_conv2d *conv);

/* y = rows [first, first + y.rows) of the convolution of x, plus the residual (null: none; may be y). */
espalier_status esi_conv2d_rows(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, int64_t first,
                                esi_tensor residual);
/* All rows. */
espalier_status esi_conv2d_run(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, esi_tensor residual);

/* 2 x 2 maximum with ceil mode. y is new. */
espalier_status esi_map_pool(espalier_context *ctx, esi_map *y, const esi_map *x);
/* Rows [first, first + y.rows) of x resized to `grid`. */
espalier_status esi_map_resize_rows(espalier_context *ctx, esi_tensor y, const esi_map *x, esi_grid grid, bool align_corners,
                                    int64_t first);
espalier_status esi_map_resize(espalier_context *ctx, esi_tensor y, const esi_map *x, esi_grid grid, bool align_corners);

/* ERR_RESOURCE that names network, size and need when the budget leaves less than `least` bytes. */
espalier_status esi_image_check_memory(espalier_context *ctx, const char *network, int64_t H, int64_t W, uint64_t least);
/* Rows to handle at a time: `most`, or as many as take an eighth of what the budget leaves; a few in any case. */
int64_t esi_image_rows(const espalier_context *ctx, int64_t most, int64_t bytes_per_row);

#endif
