/* SPDX-License-Identifier: MIT
 *
 * kind_sparse_decoder.c: shape_decoder, shape_upsample, tex_decoder (and tex_decoder_fp16, whose expected values were made with a half
 * precision network: its tolerance says so, the code is the same).
 */
#include "kinds.h"
#include "models/networks.h"
#include "voxel/voxel.h"

#include <stdio.h>

static espalier_status open_decoder(golden_case *c, esi_sparse_decoder **out)
{
    esi_json *config = NULL;
    esi_weight_file *file = NULL;
    /* A case that borrows weights may leave the network's parameters to the shapes. */
    espalier_status st = esi_json_get(c->config, "args") ? golden_model_config(c, &config, "args") : ESPALIER_OK;
    if (st == ESPALIER_OK) st = golden_weight_file(c, &file, "w.", NULL);
    if (st == ESPALIER_OK) st = esi_sparse_decoder_open(c->ctx, out, file, config);
    if (st == ESPALIER_OK) st = esi_weights_check_finite(c->ctx, esi_sparse_decoder_weights(*out));
    esi_json_free(config);
    return st;
}

static espalier_status read_inputs(golden_case *c, esi_coords *coords, esi_tensor *latent)
{
    const int32_t *rows = NULL;
    golden_shape shape;
    espalier_status st = golden_i32(c, "in.coords", &rows, &shape);
    if (st == ESPALIER_OK) st = esi_coords_copy(c->ctx, coords, rows, shape.extent[0]);
    if (st == ESPALIER_OK) st = golden_tensor_f32(c, latent, "in.feats");
    return st;
}

static void check_lineage(golden_case *c, const esi_lineage *lineage)
{
    for (int i = 0; i < lineage->levels; i++) {
        const esi_lineage_level *level = &lineage->level[i];
        golden_check(c, golden_name(c, "out.level%d.coords", i), level->coords.rows, ESI_FILE_I32, GOLDEN_SHAPE(level->coords.count, 4));
        if (level->subdivision_logits)
            golden_check(c, golden_name(c, "out.subs%d.logits", i), level->subdivision_logits, ESI_FILE_F32,
                         GOLDEN_SHAPE(level->coords.count, 8));
    }
}

/* ---------------------------------------------------------------- shape_decoder */

/* Head, dual grid and mesh. */
static espalier_status check_shape(golden_case *c, const esi_sparse_decoder *m, esi_tensor head, const esi_coords *coords)
{
    const esi_json *aabb = esi_json_get(c->config, "aabb");
    const int64_t n = coords->count;
    const float margin = (float)golden_config_double(c, "voxel_margin", (double)esi_sparse_decoder_get_config(m)->voxel_margin);
    float *local = golden_alloc(c, (size_t)n, 3 * sizeof *local), *split = golden_alloc(c, (size_t)n, sizeof *split);
    uint8_t *intersected = golden_alloc(c, (size_t)n, 3);
    float *vertices = NULL;
    int32_t *faces = NULL;
    int64_t n_faces = 0;
    espalier_status st = esi_shape_head_decode(c->ctx, head, margin, local, intersected, split);
    if (st != ESPALIER_OK) return st;
    golden_check(c, "out.vertices_local", local, ESI_FILE_F32, GOLDEN_SHAPE(n, 3));
    golden_check(c, "out.intersected", intersected, ESI_FILE_U8, GOLDEN_SHAPE(n, 3));
    golden_check(c, "out.quad_lerp", split, ESI_FILE_F32, GOLDEN_SHAPE(n, 1));

    esi_dual_grid grid = {.coords = coords->rows, .count = n, .local = local, .intersected = intersected, .split_weight = split};
    for (size_t axis = 0; axis < 3; axis++) {
        double low = -0.5, high = 0.5;
        esi_json_double(esi_json_at(esi_json_at(aabb, 0), axis), &low);
        esi_json_double(esi_json_at(esi_json_at(aabb, 1), axis), &high);
        grid.aabb_min[axis] = (float)low;
        grid.aabb_max[axis] = (float)high;
        grid.grid[axis] = esi_sparse_decoder_get_config(m)->resolution;
    }
    st = esi_dual_grid_to_mesh(c->ctx, &grid, &vertices, &faces, &n_faces);
    if (st == ESPALIER_OK) {
        golden_check(c, "out.mesh.vertices", vertices, ESI_FILE_F32, GOLDEN_SHAPE(n, 3));
        golden_check(c, "out.mesh.faces", faces, ESI_FILE_I32, GOLDEN_SHAPE(n_faces, 3));
    }
    esi_free(c->ctx, vertices);
    esi_free(c->ctx, faces);
    return st;
}

espalier_status golden_kind_shape_decoder(golden_case *c)
{
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent = {0}, head = {0};
    espalier_status st = open_decoder(c, &m);
    if (st != ESPALIER_OK) goto done;
    st = read_inputs(c, &coords, &latent);
    if (st != ESPALIER_OK) goto done;
    golden_taps_start(c);
    st = esi_sparse_decoder_forward(c->ctx, m, &head, &lineage, latent, &coords, esi_sparse_decoder_get_config(m)->levels - 1);
    golden_taps_stop(c);
    if (st != ESPALIER_OK) goto done;
    golden_check_taps(c, "out.");
    check_lineage(c, &lineage);
    st = check_shape(c, m, head, &lineage.level[lineage.levels - 1].coords);
done:
    esi_lineage_free(c->ctx, &lineage);
    esi_coords_free(c->ctx, &coords);
    esi_sparse_decoder_free(c->ctx, m);
    return st;
}

/* --------------------------------------------------------------- shape_upsample */

/* out.cascade_coords_<low>_<high>: coordinates of the low-resolution run on the tokens of a higher one, no token limit. */
static espalier_status check_cascades(golden_case *c, const esi_coords *fine)
{
    const char *const *names;
    const size_t count = golden_sub_cases(c, "out.cascade_coords_", "", &names);
    espalier_status st = ESPALIER_OK;
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) {
        esi_coords tokens = {0};
        int64_t resolution = 0;
        int low = 0, high = 0;
        if (sscanf(names[i], "%d_%d", &low, &high) != 2) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: bad name %s", c->dir, names[i]);
        st = esi_cascade_coords(c->ctx, &tokens, &resolution, fine, low, high, INT64_MAX);
        if (st != ESPALIER_OK) break;
        golden_check(c, golden_name(c, "out.cascade_coords_%s", names[i]), tokens.rows, ESI_FILE_I32, GOLDEN_SHAPE(tokens.count, 4));
        esi_coords_free(c->ctx, &tokens);
    }
    return st;
}

espalier_status golden_kind_shape_upsample(golden_case *c)
{
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent = {0};
    espalier_status st = open_decoder(c, &m);
    if (st != ESPALIER_OK) goto done;
    st = read_inputs(c, &coords, &latent);
    for (int k = 1; st == ESPALIER_OK && k < esi_sparse_decoder_get_config(m)->levels; k++) {
        st = esi_sparse_decoder_forward(c->ctx, m, NULL, &lineage, latent, &coords, k);
        if (st != ESPALIER_OK) goto done;
        const esi_coords *fine = &lineage.level[k].coords;
        golden_check(c, golden_name(c, "out.coords_up%d", k), fine->rows, ESI_FILE_I32, GOLDEN_SHAPE(fine->count, 4));
    }
    if (st == ESPALIER_OK) st = check_cascades(c, &lineage.level[lineage.levels - 1].coords);
done:
    esi_lineage_free(c->ctx, &lineage);
    esi_coords_free(c->ctx, &coords);
    esi_sparse_decoder_free(c->ctx, m);
    return st;
}

/* ------------------------------------------------------------------ tex_decoder */

/* The shape decoder's decisions from its logits in.guide_subs<i>. */
static espalier_status read_guides(golden_case *c, esi_lineage *lineage, const esi_coords *coords, int levels)
{
    espalier_status st = esi_coords_copy(c->ctx, &lineage->level[0].coords, coords->rows, coords->count);
    lineage->levels = levels;
    for (int i = 0; st == ESPALIER_OK && i < levels - 1; i++) {
        const float *logits = NULL;
        st = golden_f32(c, golden_name(c, "in.guide_subs%d", i), &logits, NULL);
        if (st != ESPALIER_OK) return st;
        st = esi_subdivide(c->ctx, &lineage->level[i + 1].coords, &lineage->level[i + 1].index, &lineage->level[i].coords, logits);
    }
    return st;
}

espalier_status golden_kind_tex_decoder(golden_case *c)
{
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent = {0}, head = {0};
    espalier_status st = open_decoder(c, &m);
    if (st != ESPALIER_OK) goto done;
    const int levels = esi_sparse_decoder_get_config(m)->levels;
    st = read_inputs(c, &coords, &latent);
    if (st != ESPALIER_OK) goto done;
    st = read_guides(c, &lineage, &coords, levels);
    if (st != ESPALIER_OK) goto done;
    golden_taps_start(c);
    st = esi_sparse_decoder_forward(c->ctx, m, &head, &lineage, latent, &coords, levels - 1);
    golden_taps_stop(c);
    if (st != ESPALIER_OK) goto done;
    golden_check_taps(c, "out.");
    golden_check(c, "out.coords", lineage.level[levels - 1].coords.rows, ESI_FILE_I32,
                 GOLDEN_SHAPE(lineage.level[levels - 1].coords.count, 4));
    if (!golden_has(c, "out.attrs")) goto done;
    float *attributes = golden_alloc(c, (size_t)(head.rows * head.cols), sizeof *attributes);
    st = esi_tensor_read(c->ctx, head, attributes);
    if (st != ESPALIER_OK) goto done;
    for (int64_t i = 0; i < head.rows * head.cols; i++) attributes[i] = 0.5f * attributes[i] + 0.5f;
    golden_check(c, "out.attrs", attributes, ESI_FILE_F32, GOLDEN_SHAPE(head.rows, head.cols));
done:
    esi_lineage_free(c->ctx, &lineage);
    esi_coords_free(c->ctx, &coords);
    esi_sparse_decoder_free(c->ctx, m);
    return st;
}
