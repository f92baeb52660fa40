/* SPDX-License-Identifier: MIT
 *
 * kind_grid_sample_3d.c: attributes of sparse voxels sampled at positions in grid units.
 */
#include "kinds.h"
#include "voxel/volume.h"

static espalier_status run_sub_case(golden_case *c, const char *name, int32_t resolution)
{
    const char *nearest_name = golden_name(c, "out.%s.nearest", name), *weight_name = golden_name(c, "out.%s.weights_sum", name);
    const int32_t *coords;
    const float *feats, *query;
    golden_shape rows, shape;
    esi_volume volume = {0};
    int64_t count, channels;
    espalier_status st = golden_i32(c, golden_name(c, "in.%s.coords", name), &coords, &rows);

    if (st == ESPALIER_OK) st = golden_f32(c, golden_name(c, "in.%s.feats", name), &feats, &shape);
    if (st != ESPALIER_OK) return st;
    channels = shape.extent[1];
    st = golden_f32(c, golden_name(c, "in.%s.query", name), &query, &shape);
    if (st != ESPALIER_OK) return st;
    count = shape.extent[0];
    st = esi_volume_open(c->ctx, &volume, coords, feats, rows.extent[0], (int32_t)channels, resolution);
    if (st != ESPALIER_OK) return st;

    float *trilinear = golden_alloc(c, (size_t)(count * channels), sizeof *trilinear);
    float *nearest = golden_alloc(c, (size_t)(count * channels), sizeof *nearest), *weight = golden_alloc(c, (size_t)count, sizeof *weight);
    for (int64_t i = 0; i < count; i++) {
        weight[i] = esi_volume_trilinear(&volume, query + 3 * i, trilinear + channels * i) > 0 ? 1.0f : 0.0f;      /* after normalising */
        esi_volume_nearest(&volume, query + 3 * i, nearest + channels * i);
    }
    golden_check(c, golden_name(c, "out.%s.trilinear", name), trilinear, ESI_FILE_F32, GOLDEN_SHAPE(count, channels));
    if (golden_has(c, nearest_name)) golden_check(c, nearest_name, nearest, ESI_FILE_F32, GOLDEN_SHAPE(count, channels));
    if (golden_has(c, weight_name)) golden_check(c, weight_name, weight, ESI_FILE_F32, GOLDEN_SHAPE(count));
    esi_volume_close(c->ctx, &volume);
    return ESPALIER_OK;
}

espalier_status golden_kind_grid_sample_3d(golden_case *c)
{
    const esi_json *cases = esi_json_get(c->config, "cases");
    const int32_t resolution = (int32_t)golden_config_int(c, "grid", 4096);       /* queries outside meet no voxel in any case */
    espalier_status st = ESPALIER_OK;

    for (size_t i = 0; st == ESPALIER_OK && i < esi_json_size(cases); i++) {
        const char *name;

        if (!esi_json_string(esi_json_at(cases, i), &name)) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: cases: not a name", c->dir);
        st = run_sub_case(c, name, resolution);
    }
    return st;
}
