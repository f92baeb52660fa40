/* SPDX-License-Identifier: MIT
 *
 * fuzz_post.c: two bytes of options, then a dump -> finished mesh with small limits. What comes out must be closed where that is promised,
 * and sound in every number.
 */
#include "fuzz.h"

#include "pipeline/post.h"
#include "pipeline/results.h"

#include <stdlib.h>

#define MOST_ROWS 4000

static espalier_post_options choose(const uint8_t data[2])
{
    espalier_post_options o = espalier_post_options_default();

    o.mode = (espalier_post_mode)(data[0] % 3);
    o.no_remesh = data[0] >> 2 & 1;
    o.solid = !o.no_remesh && (data[0] >> 3 & 1);
    o.keep_inner = data[0] >> 4 & 1;
    o.box_uv = data[0] >> 5 & 1;
    o.normal_map = data[0] >> 6 & 1;
    o.occlusion_rays = data[0] >> 7;
    o.remesh_resolution = 16 + 2 * (data[1] % 4);
    o.texture_size = 16 << (data[1] >> 2 & 1);
    o.faces = data[1] >> 3 & 1 ? 100 : 400;
    o.band = data[1] >> 4 & 1 ? 3 : 1;
    o.padding = data[1] >> 5 & 1;
    o.margin = data[1] >> 6 & 1 ? 0.01 : 0.002;
    return o;
}

bool fuzz_target(espalier_context *ctx, const uint8_t *data, size_t size)
{
    espalier_asset *asset = NULL;
    espalier_mesh *mesh = NULL;
    bool taken = false;

    if (size < 2) esi_fail(ctx, ESPALIER_ERR_INPUT, "no options");
    if (size < 2 || esi_asset_new(ctx, &asset) != ESPALIER_OK) return false;
    const espalier_post_options options = choose(data);
    if (esi_dump_parse(ctx, &asset->dump, data + 2, size - 2, "fuzz.bin") == ESPALIER_OK) {
        asset->data = asset->dump.asset;
        taken = asset->data.n_faces < MOST_ROWS && asset->data.n_voxels < MOST_ROWS && asset->data.n_vertices < MOST_ROWS;
        if (!taken) esi_fail(ctx, ESPALIER_ERR_RESOURCE, "more than this target has time for");
    }
    const espalier_status st = taken ? espalier_post(ctx, &mesh, asset, &options) : ESPALIER_ERR_INPUT;
    /* An atlas too small for all charts is the caller's mistake. */
    if (st == ESPALIER_ERR_INTERNAL || (st == ESPALIER_ERR_ARG && !strstr(espalier_error_message(ctx), "pack: "))) abort();
    if (st == ESPALIER_OK && esi_surface_check(ctx, &mesh->surface, "fuzz", ESPALIER_ERR_INTERNAL) != ESPALIER_OK) abort();
    espalier_mesh_free(mesh);
    espalier_asset_free(asset);
    return st == ESPALIER_OK;
}
