/* SPDX-License-Identifier: MIT
 *
 * subdivide.c: which children a voxel has, decided by eight logits each (TRELLIS.2 Channel2Spatial with an explicit mask), and the chain of
 * scales that results.
 */
#include "voxel/keys.h"

static int64_t count_children(const float *logits, int64_t parents)
{
    int64_t n = 0;

    for (int64_t i = 0; i < 8 * parents; i++) n += logits[i] > 0.0f;
    return n;
}

espalier_status esi_subdivide(espalier_context *ctx, esi_coords *children, int32_t **index, const esi_coords *parents, const float *logits)
{
    int64_t n = 0;
    espalier_status st;

    memset(children, 0, sizeof *children);
    *index = NULL;
    st = esi_rows_check(ctx, parents->rows, parents->count);
    if (st != ESPALIER_OK) return st;
    if (parents->count > INT32_MAX / 8) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "voxels: %lld rows are too many to subdivide; use a lower resolution",
                        (long long)parents->count);
    }
    st = esi_coords_new(ctx, children, count_children(logits, parents->count));
    if (st != ESPALIER_OK) return st;
    *index = esi_alloc(ctx, (size_t)children->count, sizeof **index, "child index");
    if (!*index) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t p = 0; p < parents->count; p++) {
        const int32_t *parent = parents->rows + 4 * p;

        for (int k = 0; k < 8; k++) {
            int32_t *child = children->rows + 4 * n;

            if (!(logits[8 * p + k] > 0.0f)) continue;
            child[0] = parent[0];
            child[1] = 2 * parent[1] + (k & 1);
            child[2] = 2 * parent[2] + (k >> 1 & 1);
            child[3] = 2 * parent[3] + (k >> 2 & 1);
            if (!esi_row_in_range(child)) {
                st = esi_fail(ctx, ESPALIER_ERR_INTERNAL, "voxels: row %lld cannot be subdivided: the finer coordinate is out of range",
                              (long long)p);
                goto done;
            }
            (*index)[n++] = (int32_t)(8 * p + k);
        }
    }
done:
    if (st != ESPALIER_OK) {
        esi_free(ctx, *index);
        *index = NULL;
        esi_coords_free(ctx, children);
    }
    return st;
}

void esi_lineage_free(espalier_context *ctx, esi_lineage *l)
{
    if (!l) return;
    for (int i = 0; i < ESI_MAX_LEVELS; i++) {
        esi_coords_free(ctx, &l->level[i].coords);
        esi_free(ctx, l->level[i].index);
        esi_free(ctx, l->level[i].subdivision_logits);
    }
    memset(l, 0, sizeof *l);
}
