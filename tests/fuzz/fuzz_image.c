/* SPDX-License-Identifier: MIT
 *
 * fuzz_image.c: bytes -> picture (PNG, JPEG or WebP by their first bytes) -> backdrop, parts and numbers of its matte -> preprocessing.
 */
#include "fuzz.h"

#include "formats/cutout.h"
#include "formats/image_codecs.h"
#include "formats/preprocess.h"

#include <stdlib.h>

static espalier_status cut_by_white(void *user, espalier_context *ctx, const espalier_image *rgb, espalier_image *mask)
{
    double share = -1;
    (void)user;
    espalier_status st = esi_cutout_threshold(ctx, mask, rgb, &share);
    if (st == ESPALIER_OK && !(share >= 0 && share <= 1)) abort();
    return st;
}

/* The numbers of a matte, which must agree with each other. */
static espalier_status measure(void *user, espalier_context *ctx, espalier_image *rgba)
{
    esi_cutout_dropped dropped;
    esi_cutout_stats all, kept;
    (void)user;
    espalier_status st = esi_cutout_measure(ctx, &all, rgba);
    if (st == ESPALIER_OK) st = esi_cutout_keep_largest(ctx, rgba, &dropped);
    if (st == ESPALIER_OK) st = esi_cutout_measure(ctx, &kept, rgba);
    if (st != ESPALIER_OK) return st;
    if (kept.parts != (all.parts > 0) || dropped.parts != all.parts - kept.parts || kept.coverage > all.coverage) abort();
    if (all.large_parts > all.parts || all.coverage > 1 || all.border > 1 || all.centre > 1 || all.soft > 1) abort();
    return ESPALIER_OK;
}

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    espalier_image image, object;
    espalier_limits limits = espalier_limits_default();
    const esi_matte_source opaque = {.opaque = true}, by_white = {.fn = cut_by_white, .check = measure};

    limits.max_image_side = 1200;                /* above the preprocessing's own 1024 */
    espalier_context_set_limits(ctx, &limits);
    if (espalier_image_decode(ctx, &image, data, size, "fuzz.img") != ESPALIER_OK) {
        if (image.pixels != NULL) abort();
        return false;
    }
    if (image.width - 1 >= 1200 || image.height - 1 >= 1200 || (image.channels != 3 && image.channels != 4)) abort();
    if (esi_image_hash(&image) == 0) abort();    /* reads every byte: uninitialised ones show under MSan and valgrind */
    if (esi_matte_picture(ctx, &object, &image, &by_white) == ESPALIER_OK) {
        if (object.width != image.width || object.height != image.height || object.channels != 4) abort();
        espalier_image_free(&object);
    }
    if (esi_preprocess(ctx, &object, &image, &opaque, NULL) == ESPALIER_OK) {
        if (object.width != object.height || object.channels != 3) abort();
        espalier_image_free(&object);
    }
    espalier_image_free(&image);
    return true;
}
