/* SPDX-License-Identifier: MIT
 *
 * post_options.c: defaults and ranges of the options of espalier_post().
 */
#include "formats/asset.h"
#include "pipeline/post.h"

#include <math.h>

espalier_post_options espalier_post_options_default(void)
{
    return (espalier_post_options){
        .struct_size = sizeof(espalier_post_options),
        .faces = -1,
        .texture_size = -1,
        .margin = -1,
        .fill_perimeter = -1,
        .remesh_resolution = -1,
        .band = -1,
        .project = -1,
        .min_component = -1,
        .remove_floaters = -1,
        .padding = -1,
        .despeckle = -1,
    };
}

/* The budgets of trellis.cpp from 512 on; below, what the surface of a grid that small can carry. */
static int64_t default_faces(int64_t resolution)
{
    if (resolution >= 1024) return 300000;
    if (resolution >= 256) return 150000;
    return ESI_MAX(resolution * resolution * 150000 / (256 * 256), 2000);
}

static int32_t default_texture(int64_t resolution)
{
    if (resolution > 512) return 2048;
    return resolution > 128 ? 1024 : 512;
}

static int32_t default_remesh_resolution(int64_t resolution)
{
    return (int32_t)ESI_MIN(ESI_MAX((resolution + 1) / 2 * 2, 16), 2048);
}

typedef struct range {
    const char *name;
    double value, low, high;
} range;

static espalier_status check_ranges(espalier_context *ctx, const espalier_post_options *o)
{
    const range ranges[] = {
        {"mode", o->mode, ESPALIER_POST_CLEAN, ESPALIER_POST_NONE},
        {"faces", (double)o->faces, 100, 1e8},
        {"texture_size", o->texture_size ? o->texture_size : 16, 16, 16384},
        {"margin", o->margin, 0, 0.01},
        {"fill_perimeter", o->fill_perimeter, 0, 100000},
        {"no_remesh", o->no_remesh, 0, 1},
        {"remesh_resolution", o->remesh_resolution, 16, 2048},
        {"band", o->band, 0.5, 8},
        {"project", o->project, 0, 1},
        {"keep_inner", o->keep_inner, 0, 1},
        {"solid", o->solid, 0, 1},
        {"min_component", o->min_component, 0, 100},
        {"remove_floaters", o->remove_floaters, 0, 1},
        {"box_uv", o->box_uv, 0, 1},
        {"padding", o->padding, 0, 64},
        {"telea", o->telea, 0, 1},
        {"despeckle", o->despeckle, 0, 256},
        {"normal_map", o->normal_map, 0, 1},
        {"occlusion_rays", o->occlusion_rays, 0, 1024},
        {"alpha", o->alpha, ESPALIER_ALPHA_AUTO, ESPALIER_ALPHA_BLEND},
        {"force", o->force, 0, 1},
    };

    for (size_t i = 0; i < ESI_COUNT(ranges); i++) {
        if (ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high) continue;
        return esi_fail(ctx, ESPALIER_ERR_ARG, "post option %s: %g is not between %g and %g", ranges[i].name, ranges[i].value,
                        ranges[i].low, ranges[i].high);
    }
    if (o->remesh_resolution % 2 != 0)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "post option remesh_resolution: %d is odd", (int)o->remesh_resolution);
    if (o->no_remesh && o->solid) return esi_fail(ctx, ESPALIER_ERR_ARG, "post option solid needs the remeshing that no_remesh leaves out");
    return ESPALIER_OK;
}

espalier_status esi_post_options_resolve(espalier_context *ctx, espalier_post_options *o, int64_t resolution, bool has_attributes)
{
    const bool clean = o->mode != ESPALIER_POST_REFERENCE;

    resolution = ESI_MIN(ESI_MAX(resolution, 1), ESI_ASSET_MAX_RESOLUTION);      /* refused when the asset is looked at */

    if (o->struct_size != sizeof *o)
        return esi_fail(ctx, ESPALIER_ERR_ARG, "post options of another library version; start from espalier_post_options_default()");
    if (o->faces == -1) o->faces = default_faces(resolution);
    if (o->texture_size == -1) o->texture_size = default_texture(resolution);
    if (!has_attributes) o->texture_size = 0;
    if (o->margin < 0) o->margin = clean ? 2e-3 : 0;
    /* The reference's limit is 0.03 world units whatever the voxel size. */
    if (o->fill_perimeter < 0) o->fill_perimeter = clean ? 16 : 0.03 * (double)resolution;
    if (o->remesh_resolution == -1) o->remesh_resolution = default_remesh_resolution(resolution);
    if (o->band < 0) o->band = 1;
    if (o->project < 0) o->project = clean ? 1 : 0;
    if (o->min_component < 0) o->min_component = 1e-5;
    if (o->remove_floaters < 0) o->remove_floaters = clean ? 0.005 : 0;
    if (o->padding < 0) o->padding = 2;
    if (o->despeckle < 0) o->despeckle = clean ? 16 : 0;
    if (!clean) o->telea = 1;
    return check_ranges(ctx, o);
}
