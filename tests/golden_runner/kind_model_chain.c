/* SPDX-License-Identifier: MIT
 *
 * kind_model_chain.c: the decoders of a model directory one after the other: structure latent -> coordinates -> shape -> mesh and texture.
 */
#include "kinds.h"
#include "models/networks.h"
#include "voxel/voxel.h"

typedef struct chain {
    const char *directory; /* of the model */
    esi_json *pipeline;    /* its pipeline.json */
    esi_coords coords;     /* latent voxels */
    esi_lineage lineage;
} chain;

/* ------------------------------------------------------------------- the model */

/* The weight file and config of args.models.<role>. */
static espalier_status open_role(golden_case *c, const chain *m, const char *role, esi_weight_file **file, esi_json **config)
{
    const char *stem = NULL;
    if (!esi_json_string(esi_json_get(esi_json_path(m->pipeline, "args.models"), role), &stem))
        return esi_fail(c->ctx, ESPALIER_ERR_MODEL, "%s: no model %s", m->directory, role);
    espalier_status st = esi_json_load(c->ctx, config, golden_name(c, "%s/%s.json", m->directory, stem), ESPALIER_ERR_MODEL);
    if (st == ESPALIER_OK) st = esi_weight_file_open(c->ctx, file, golden_name(c, "%s/%s.safetensors", m->directory, stem));
    return st;
}

/* out.<what>_slat = in.<what>_latent_normalized * std + mean, also as a tensor. */
static espalier_status denormalize(golden_case *c, const chain *m, const char *what, esi_tensor *out)
{
    const char *key = golden_name(c, "args.%s_slat_normalization", what);
    const esi_json *mean = esi_json_get(esi_json_path(m->pipeline, key), "mean"),
                   *std = esi_json_get(esi_json_path(m->pipeline, key), "std");
    esi_tensor latent = {0}, scale = {0}, shift = {0};
    espalier_status st = golden_tensor_f32(c, &latent, golden_name(c, "in.%s_latent_normalized", what));
    if (st != ESPALIER_OK) return st;
    float *scale_values = golden_alloc(c, (size_t)latent.cols, sizeof *scale_values);
    float *shift_values = golden_alloc(c, (size_t)latent.cols, sizeof *shift_values);
    for (int64_t i = 0; i < latent.cols; i++) {
        double a = 1.0, b = 0.0;
        if (!esi_json_double(esi_json_at(std, (size_t)i), &a) || !esi_json_double(esi_json_at(mean, (size_t)i), &b))
            return esi_fail(c->ctx, ESPALIER_ERR_MODEL, "%s: %s is malformed", m->directory, key);
        scale_values[i] = (float)a;
        shift_values[i] = (float)b;
    }
    st = esi_tensor_from(c->ctx, &scale, 1, latent.cols, ESI_F32, scale_values);
    if (st == ESPALIER_OK) st = esi_tensor_from(c->ctx, &shift, 1, latent.cols, ESI_F32, shift_values);
    if (st == ESPALIER_OK) st = esi_tensor_new(c->ctx, out, latent.rows, latent.cols, ESI_F32);
    if (st == ESPALIER_OK) st = esi_scale_shift(c->ctx, *out, latent, scale, shift);
    if (st == ESPALIER_OK) st = golden_check_tensor(c, golden_name(c, "out.%s_slat", what), *out);
    return st;
}

/* ------------------------------------------------------------------- the stages */

static espalier_status decode_structure(golden_case *c, chain *m)
{
    const float *volume = NULL;
    golden_shape shape;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_ss_decoder *decoder = NULL;
    esi_tensor latent = {0}, logits = {0};
    espalier_status st = golden_f32(c, "in.ss_latent", &volume, &shape);
    if (st != ESPALIER_OK) return st;
    if (shape.rank != 5) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: in.ss_latent is no volume", c->dir);
    const int64_t channels = shape.extent[1], R = shape.extent[2];
    esi_tensor planes = {0};
    st = esi_tensor_from(c->ctx, &planes, channels, R * R * R, ESI_F32, volume);
    if (st == ESPALIER_OK) st = esi_tensor_new(c->ctx, &latent, R * R * R, channels, ESI_F32);
    if (st == ESPALIER_OK) st = esi_transpose(c->ctx, latent, planes);
    if (st == ESPALIER_OK) st = open_role(c, m, "sparse_structure_decoder", &file, &config);
    if (st == ESPALIER_OK) st = esi_ss_decoder_open(c->ctx, &decoder, file, config);
    if (st == ESPALIER_OK) st = esi_ss_decoder_forward(c->ctx, decoder, &logits, latent, R);
    if (st != ESPALIER_OK) goto done;
    const int64_t side = R * esi_ss_decoder_upscale(decoder);
    st = golden_check_volume(c, "out.ss_logits", logits, side);
    if (st != ESPALIER_OK) goto done;
    float *values = golden_alloc(c, (size_t)logits.rows, sizeof *values);
    st = esi_tensor_read(c->ctx, logits, values);
    if (st != ESPALIER_OK) goto done;
    st = esi_coords_from_occupancy(c->ctx, &m->coords, values, side, golden_config_int(c, "ss_res", side));
    if (st == ESPALIER_OK) golden_check(c, "out.coords", m->coords.rows, ESI_FILE_I32, GOLDEN_SHAPE(m->coords.count, 4));
done:
    esi_json_free(config);
    esi_ss_decoder_free(c->ctx, decoder);
    return st;
}

/* out.subs<i>: the eight decisions of every row. */
static void check_decisions(golden_case *c, const esi_lineage *lineage)
{
    for (int i = 0; i < lineage->levels - 1; i++) {
        const esi_lineage_level *level = &lineage->level[i];
        uint8_t *flags = golden_alloc(c, (size_t)level->coords.count, 8);
        for (int64_t k = 0; k < 8 * level->coords.count; k++) flags[k] = level->subdivision_logits[k] > 0.0f;
        golden_check(c, golden_name(c, "out.subs%d", i), flags, ESI_FILE_U8, GOLDEN_SHAPE(level->coords.count, 8));
    }
}

static espalier_status check_mesh(golden_case *c, const chain *m, esi_tensor head, float margin)
{
    const esi_coords *coords = &m->lineage.level[m->lineage.levels - 1].coords;
    const int64_t n = coords->count;
    const int32_t resolution = (int32_t)golden_config_int(c, "resolution", 0);
    float *local = golden_alloc(c, (size_t)n, 3 * sizeof *local), *split = golden_alloc(c, (size_t)n, sizeof *split);
    uint8_t *intersected = golden_alloc(c, (size_t)n, 3);
    float *vertices = NULL;
    int32_t *faces = NULL;
    int64_t n_faces = 0;
    const esi_dual_grid grid = {.coords = coords->rows,
                                .count = n,
                                .local = local,
                                .intersected = intersected,
                                .split_weight = split,
                                .aabb_min = {-0.5f, -0.5f, -0.5f},
                                .aabb_max = {0.5f, 0.5f, 0.5f},
                                .grid = {resolution, resolution, resolution}};
    golden_check(c, "out.voxel_coords", coords->rows, ESI_FILE_I32, GOLDEN_SHAPE(n, 4));
    espalier_status st = esi_shape_head_decode(c->ctx, head, margin, local, intersected, split);
    if (st == ESPALIER_OK) st = esi_dual_grid_to_mesh(c->ctx, &grid, &vertices, &faces, &n_faces);
    if (st == ESPALIER_OK) {
        golden_check(c, "out.mesh.vertices", vertices, ESI_FILE_F32, GOLDEN_SHAPE(n, 3));
        golden_check(c, "out.mesh.faces", faces, ESI_FILE_I32, GOLDEN_SHAPE(n_faces, 3));
    }
    esi_free(c->ctx, vertices);
    esi_free(c->ctx, faces);
    return st;
}

static espalier_status decode_sparse(golden_case *c, chain *m, const char *what, esi_tensor *head, float *margin)
{
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_sparse_decoder *decoder = NULL;
    esi_tensor latent = {0};
    espalier_status st = denormalize(c, m, what, &latent);
    if (st == ESPALIER_OK) st = open_role(c, m, golden_name(c, "%s_slat_decoder", what), &file, &config);
    if (st == ESPALIER_OK) st = esi_sparse_decoder_open(c->ctx, &decoder, file, config);
    if (st == ESPALIER_OK) {
        const esi_sparse_decoder_config *parameters = esi_sparse_decoder_get_config(decoder);
        *margin = parameters->voxel_margin;
        st = esi_sparse_decoder_forward(c->ctx, decoder, head, &m->lineage, latent, &m->coords, parameters->levels - 1);
    }
    esi_json_free(config);
    esi_sparse_decoder_free(c->ctx, decoder);
    return st;
}

static espalier_status check_attributes(golden_case *c, esi_tensor head)
{
    float *attributes = golden_alloc(c, (size_t)(head.rows * head.cols), sizeof *attributes);
    espalier_status st = esi_tensor_read(c->ctx, head, attributes);
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < head.rows * head.cols; i++) attributes[i] = 0.5f * attributes[i] + 0.5f;
    golden_check(c, "out.voxel_attrs", attributes, ESI_FILE_F32, GOLDEN_SHAPE(head.rows, head.cols));
    return ESPALIER_OK;
}

espalier_status golden_kind_model_chain(golden_case *c)
{
    chain m = {.directory = golden_sibling(c, "model")};
    esi_tensor head = {0};
    float margin = 0.5f;
    espalier_status st;
    if (m.directory == NULL) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: no sibling model", c->dir);
    st = esi_json_load(c->ctx, &m.pipeline, golden_name(c, "%s/pipeline.json", m.directory), ESPALIER_ERR_MODEL);
    if (st != ESPALIER_OK) return st;
    st = decode_structure(c, &m);
    if (st == ESPALIER_OK) st = decode_sparse(c, &m, "shape", &head, &margin);
    if (st == ESPALIER_OK) check_decisions(c, &m.lineage);
    if (st == ESPALIER_OK) st = check_mesh(c, &m, head, margin);
    esi_tensor_free(c->ctx, &head);
    if (st == ESPALIER_OK) st = decode_sparse(c, &m, "tex", &head, &margin);
    if (st == ESPALIER_OK) st = check_attributes(c, head);
    esi_lineage_free(c->ctx, &m.lineage);
    esi_coords_free(c->ctx, &m.coords);
    esi_json_free(m.pipeline);
    return st;
}
