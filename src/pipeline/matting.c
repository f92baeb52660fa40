/* SPDX-License-Identifier: MIT
 *
 * matting.c: runs a matting network between its recipe's steps: resize and normalise, network, sigmoid, bytes, resize back.
 */
#include "pipeline/matting.h"

#include "models/birefnet.h"
#include "models/u2net.h"

struct esi_matting {
    espalier_allocator allocator;
    esi_birefnet *birefnet; /* this or the other */
    esi_u2net *u2net;
};

espalier_status esi_matting_open_file(espalier_context *ctx, esi_matting **out, esi_weight_file *file)
{
    const espalier_allocator *allocator = esi_allocator(ctx);
    esi_matting *m = esi_raw_alloc(allocator, sizeof *m);
    esi_u2net_kind kind;
    espalier_status st;

    *out = NULL;
    if (m == NULL) {
        esi_weight_file_free(file);
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "matting network: out of memory");
    }
    memset(m, 0, sizeof *m);
    m->allocator = *allocator;
    if (esi_birefnet_recognise(file)) {
        st = esi_birefnet_open(ctx, &m->birefnet, file);
    } else if (esi_u2net_recognise(file, &kind)) {
        st = esi_u2net_open(ctx, &m->u2net, file);
    } else {
        st = esi_fail(ctx, ESPALIER_ERR_MODEL,
                      "%s: no matting network that is known here: neither BiRefNet with a Swin backbone, nor U2-Net, "
                      "U2-NetP or IS-Net",
                      esi_weight_file_path(file));
        esi_weight_file_free(file);
    }
    if (st == ESPALIER_OK)
        *out = m;
    else
        esi_matting_free(ctx, m);
    return st;
}

espalier_status esi_matting_open(espalier_context *ctx, esi_matting **out, const char *path)
{
    esi_weight_file *file = NULL;
    espalier_status st = esi_weight_file_open(ctx, &file, path);

    *out = NULL;
    return st == ESPALIER_OK ? esi_matting_open_file(ctx, out, file) : st;
}

void esi_matting_free(espalier_context *ctx, esi_matting *m)
{
    if (m == NULL) return;
    const espalier_allocator allocator = m->allocator;
    esi_birefnet_free(ctx, m->birefnet);
    esi_u2net_free(ctx, m->u2net);
    esi_raw_free(&allocator, m, sizeof *m);
}

const char *esi_matting_name(const esi_matting *m)
{
    return m->birefnet ? "BiRefNet" : esi_u2net_kind_name(esi_u2net_get_kind(m->u2net));
}

espalier_matte esi_matting_network(const esi_matting *m)
{
    if (m->birefnet) return ESPALIER_MATTE_BIREFNET;
    switch (esi_u2net_get_kind(m->u2net)) {
    case ESI_U2NETP: return ESPALIER_MATTE_U2NETP;
    case ESI_ISNET: return ESPALIER_MATTE_ISNET;
    default: return ESPALIER_MATTE_U2NET;
    }
}

static esi_weights *weights_of(const esi_matting *m)
{
    return m->birefnet ? esi_birefnet_weights(m->birefnet) : esi_u2net_weights(m->u2net);
}

void esi_matting_rest(const esi_matting *m)
{
    const esi_file_map *map = esi_weights_file(weights_of(m))->map;
    if (map) esi_file_map_dont_need(map, 0, esi_file_map_size(map));
}

static esi_matte_recipe recipe_of(const esi_matting *m)
{
    if (m->birefnet) return ESI_MATTE_BIREFNET;
    return esi_u2net_get_kind(m->u2net) == ESI_ISNET ? ESI_MATTE_ISNET : ESI_MATTE_U2NET;
}

/* *map = [side, side] values in [0, 1] (esi_alloc). */
static espalier_status run_network(espalier_context *ctx, const esi_matting *m, float **map, const float *pixels, uint32_t side)
{
    esi_scope scope = esi_scope_begin(ctx);
    esi_tensor t = {0};
    uint64_t nans = 0, infinities = 0;
    espalier_status st;

    *map = NULL;
    st = m->birefnet ? esi_birefnet_forward(ctx, m->birefnet, &t, pixels, side, side)
                     : esi_u2net_forward(ctx, m->u2net, &t, pixels, side, side);
    if (st == ESPALIER_OK && m->birefnet) st = esi_activate(ctx, t, t, ESI_ACT_SIGMOID);
    if (st == ESPALIER_OK) st = esi_count_nonfinite(ctx, t, &nans, &infinities);
    if (st == ESPALIER_OK && nans > 0)
        st = esi_fail(ctx, ESPALIER_ERR_MODEL, "%s: gives no numbers for %llu of %llu pixels; the weights are damaged", esi_matting_name(m),
                      (unsigned long long)nans, (unsigned long long)t.rows);
    if (st != ESPALIER_OK) goto done;
    *map = esi_alloc(ctx, (size_t)t.rows, sizeof **map, "matte");
    st = *map ? esi_tensor_read(ctx, t, *map) : ESPALIER_ERR_RESOURCE;
done:
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status esi_matting_mask(espalier_context *ctx, esi_matting *m, const espalier_image *rgb, uint32_t side, espalier_image *mask)
{
    const esi_matte_recipe recipe = recipe_of(m);
    float *pixels = NULL, *map = NULL;
    espalier_status st;

    memset(mask, 0, sizeof *mask);
    if (side == 0) side = esi_matte_side(recipe);
    st = esi_weights_check_finite(ctx, weights_of(m));
    if (st == ESPALIER_OK) st = esi_matte_prepare(ctx, &pixels, rgb, recipe, side, NULL);
    if (st == ESPALIER_OK) st = run_network(ctx, m, &map, pixels, side);
    if (st == ESPALIER_OK) st = esi_matte_finish(ctx, mask, map, side, recipe, rgb->width, rgb->height, NULL);
    esi_free(ctx, map);
    esi_free(ctx, pixels);
    return st;
}
