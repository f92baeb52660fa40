/* SPDX-License-Identifier: MIT
 *
 * deform_conv.h: deformable convolution, version 2: every tap of every output pixel reads the picture bilinearly at its own offset, times
 * its own factor; then an ordinary product with the weights. And the pyramid of such convolutions in BiRefNet's decoder.
 */
#ifndef ESI_DEFORM_CONV_H
#define ESI_DEFORM_CONV_H

#include "models/image_layers.h"

/* y = output pixels [first, first + y.rows). offset [y.rows, 2 kernel^2] (column 2t down, 2t + 1 right), mask [y.rows, kernel^2], times
 * mask_factor. conv: weights, geometry, epilogue. */
espalier_status esi_deform_conv(espalier_context *ctx, const esi_conv2d *conv, esi_tensor y, const esi_map *x, int64_t first,
                                esi_tensor offset, esi_tensor mask, float mask_factor);

#define ESI_ASPP_BRANCHES 4
typedef struct esi_aspp {
    struct {
        esi_conv2d offset, modulator, conv;
    } branch[ESI_ASPP_BRANCHES];
    esi_conv2d pooled, fuse; /* of the mean over the picture; of all branches */
} esi_aspp;

/* scope: "decoder.decoder_block1.dec_att." ; aspp is zeroed by the caller. */
espalier_status esi_aspp_open(const esi_layer_source *s, esi_aspp *aspp, const char *scope, int64_t channels);
void esi_aspp_free(espalier_context *ctx, const espalier_allocator *allocator, esi_aspp *aspp);
/* y [rows of x, channels]. Taps (whole maps): aspp1, deform0..2, gap. */
espalier_status esi_aspp_forward(espalier_context *ctx, const esi_aspp *aspp, esi_tensor y, const esi_map *x);

#endif
