/* SPDX-License-Identifier: MIT
 *
 * fuzz_dump.c: any dump format -> asset. What is accepted must be sound in every number.
 */
#include "fuzz.h"

#include "formats/dump.h"

#include <stdlib.h>

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    esi_dump dump;
    const esi_asset *a = &dump.asset;
    double sum = 0.0;

    if (esi_dump_parse(ctx, &dump, data, size, "fuzz.bin") != ESPALIER_OK) return false;
    if (esi_asset_check(ctx, a, "fuzz.bin", ESPALIER_ERR_INPUT) != ESPALIER_OK) abort();
    for (int64_t i = 0; i < 3 * a->n_faces; i++) sum += (double)a->vertices[3 * a->faces[i]];
    for (int64_t i = 0; a->coords && i < 4 * a->n_voxels; i++) sum += (double)a->coords[i];
    for (int64_t i = 0; a->attrs && i < 6 * a->n_voxels; i++) sum += (double)a->attrs[i];
    for (int64_t i = 0; a->intersect_logits && i < 3 * a->n_voxels; i++) sum += (double)a->intersect_logits[i];
    for (int n = 0; n < a->n_levels; n++) {
        for (int64_t i = 0; i < 8 * a->levels[n].count; i++) sum += (double)a->levels[n].logits[i];
    }
    for (const char *const *extra = a->extras; extra && *extra; extra++) sum += (double)strlen(*extra);
    if (sum != sum) abort();
    esi_dump_free(ctx, &dump);
    return true;
}
