/* SPDX-License-Identifier: MIT
 *
 * fuzz_image.c: bytes -> picture (PNG, JPEG or WebP by their first bytes) -> preprocessing.
 */
#include "fuzz.h"

#include "formats/image_codecs.h"
#include "formats/preprocess.h"

#include <stdlib.h>

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    espalier_image image, object;
    espalier_limits limits = espalier_limits_default();
    const esi_matte_source opaque = {.opaque = true};

    limits.max_image_side = 1200;                /* above the preprocessing's own 1024 */
    espalier_context_set_limits(ctx, &limits);
    if (espalier_image_decode(ctx, &image, data, size, "fuzz.img") != ESPALIER_OK) {
        if (image.pixels != NULL) abort();
        return false;
    }
    if (image.width - 1 >= 1200 || image.height - 1 >= 1200 || (image.channels != 3 && image.channels != 4)) abort();
    if (esi_image_hash(&image) == 0) abort();    /* reads every byte: uninitialised ones show under MSan and valgrind */
    if (esi_preprocess(ctx, &object, &image, &opaque, NULL) == ESPALIER_OK) {
        if (object.width != object.height || object.channels != 3) abort();
        espalier_image_free(&object);
    }
    espalier_image_free(&image);
    return true;
}
