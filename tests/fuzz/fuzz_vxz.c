/* SPDX-License-Identifier: MIT
 *
 * fuzz_vxz.c: .vxz or .npz -> voxels. What is accepted must be what a writer would take.
 */
#include "fuzz.h"

#include "formats/vxz_internal.h"

#include <stdlib.h>

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    uint32_t *order = NULL;
    unsigned sum = 0;
    esi_vxz v;

    if (esi_vxz_parse(ctx, &v, data, size, "fuzz.vxz") != ESPALIER_OK) {
        if (v.coords) abort();
        return false;
    }
    if (esi_vxz_check(ctx, &v, "fuzz.vxz", ESPALIER_ERR_INTERNAL) != ESPALIER_OK) abort();
    for (int32_t k = 0; k < v.n_attrs; k++) {
        for (int64_t i = 0; i < v.count * v.attrs[k].channels; i++) sum += v.attrs[k].values[i];
    }
    if (sum == UINT32_MAX) abort();
    /* No cell twice; lack of memory is no fault. */
    if (esi_vxz_order(ctx, &order, v.coords, v.count, 8, "fuzz.vxz", ESPALIER_ERR_INTERNAL) == ESPALIER_ERR_INTERNAL) abort();
    esi_free(ctx, order);
    esi_vxz_free(ctx, &v);
    return true;
}
