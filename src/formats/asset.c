/* SPDX-License-Identifier: MIT
 *
 * asset.c: is an asset what it promises to be? Asked before writing and after reading.
 */
#include "formats/asset.h"

#include <math.h>
#include <stdio.h>

const char *esi_asset_generator(const esi_asset *asset)
{
    return asset->generator ? asset->generator : "espalier " ESPALIER_VERSION_STRING;
}

static espalier_status check_count(espalier_context *ctx, const char *name, espalier_status status, const char *what, int64_t count)
{
    if (count >= 0 && count <= INT32_MAX) return ESPALIER_OK;
    return esi_fail(ctx, count < 0 ? status : ESPALIER_ERR_RESOURCE, "%s: %lld %s", name, (long long)count, what);
}

static espalier_status check_finite(espalier_context *ctx, const char *name, espalier_status status, const char *what, const float *values,
                                    int64_t rows, int64_t columns)
{
    for (int64_t i = 0; values && i < rows * columns; i++) {
        if (isfinite(values[i])) continue;
        /* Our own results can get here when a soundness gate was forced: no fault of the library. */
        if (status == ESPALIER_ERR_INTERNAL) status = ESPALIER_ERR_SOUNDNESS;
        return esi_fail(ctx, status, "%s: %s of row %lld %s", name, what, (long long)(i / columns),
                        isnan(values[i]) ? "is not a number" : "is infinite");
    }
    return ESPALIER_OK;
}

static espalier_status check_coords(espalier_context *ctx, const char *name, espalier_status status, const char *what,
                                    const int32_t *coords, int64_t rows, int64_t limit)
{
    for (int64_t n = 0; coords && n < rows; n++) {
        const int32_t *c = coords + 4 * n;

        if (c[0] >= 0 && c[0] < ESI_ASSET_MAX_BATCH && c[1] >= 0 && c[1] < limit && c[2] >= 0 && c[2] < limit && c[3] >= 0 && c[3] < limit)
            continue;
        return esi_fail(ctx, status, "%s: %s (%d, %d, %d, %d) of row %lld lies outside the grid of %lld cells", name, what, (int)c[0],
                        (int)c[1], (int)c[2], (int)c[3], (long long)n, (long long)limit);
    }
    return ESPALIER_OK;
}

static espalier_status check_faces(espalier_context *ctx, const esi_asset *a, const char *name, espalier_status status)
{
    if (a->n_faces > 0 && !a->faces) return esi_fail(ctx, status, "%s: faces are missing", name);
    if (a->n_vertices > 0 && !a->vertices) return esi_fail(ctx, status, "%s: vertices are missing", name);
    for (int64_t i = 0; i < 3 * a->n_faces; i++) {
        if (a->faces[i] >= 0 && a->faces[i] < a->n_vertices) continue;
        return esi_fail(ctx, status, "%s: face %lld names vertex %d of %lld", name, (long long)(i / 3), (int)a->faces[i],
                        (long long)a->n_vertices);
    }
    return ESPALIER_OK;
}

static espalier_status check_level(espalier_context *ctx, const esi_asset_level *level, int number, const char *name,
                                   espalier_status status)
{
    char what[48];
    espalier_status st = check_count(ctx, name, status, "rows of a coarser level", level->count);

    if (st != ESPALIER_OK) return st;
    if (!level->coords || !level->logits) return esi_fail(ctx, status, "%s: level %d is incomplete", name, number);
    snprintf(what, sizeof what, "level %d: coordinate", number);
    st = check_coords(ctx, name, status, what, level->coords, level->count, ESI_ASSET_MAX_RESOLUTION);
    if (st != ESPALIER_OK) return st;
    snprintf(what, sizeof what, "level %d: subdivision logit", number);
    return check_finite(ctx, name, status, what, level->logits, level->count, 8);
}

espalier_status esi_asset_check(espalier_context *ctx, const esi_asset *a, const char *name, espalier_status status)
{
    const struct { const char *what; const float *values; int64_t rows, columns; } arrays[] = {
        {"vertex", a->vertices, a->n_vertices, 3},         {"attribute", a->attrs, a->n_voxels, 6},
        {"dual vertex", a->local, a->n_voxels, 3},         {"intersection logit", a->intersect_logits, a->n_voxels, 3},
        {"split weight", a->split_weight, a->n_voxels, 1},
    };
    espalier_status st;

    st = check_count(ctx, name, status, "vertices", a->n_vertices);
    if (st == ESPALIER_OK) st = check_count(ctx, name, status, "faces", a->n_faces);
    if (st == ESPALIER_OK) st = check_count(ctx, name, status, "voxels", a->n_voxels);
    if (st != ESPALIER_OK) return st;
    if (a->n_voxels > 0 && (a->resolution < 1 || a->resolution > ESI_ASSET_MAX_RESOLUTION)) {
        return esi_fail(ctx, status, "%s: resolution %lld is not between 1 and %d", name, (long long)a->resolution,
                        ESI_ASSET_MAX_RESOLUTION);
    }
    if (a->n_levels < 0 || a->n_levels > ESI_ASSET_MAX_LEVELS) return esi_fail(ctx, status, "%s: %d levels", name, (int)a->n_levels);

    st = check_faces(ctx, a, name, status);
    if (st == ESPALIER_OK) st = check_coords(ctx, name, status, "coordinate", a->coords, a->n_voxels, a->resolution);
    for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(arrays); i++) {
        st = check_finite(ctx, name, status, arrays[i].what, arrays[i].values, arrays[i].rows, arrays[i].columns);
    }
    for (int i = 0; st == ESPALIER_OK && i < a->n_levels; i++) st = check_level(ctx, &a->levels[i], i, name, status);
    return st;
}
