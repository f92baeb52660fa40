/* SPDX-License-Identifier: MIT
 *
 * kind_ss_decoder.c: sparse-structure decoder: dense latent to occupancy logits and coordinates. `args_<variant>` in the config with
 * weights w.<variant>.* is a second network on the same latent.
 */
#include "kinds.h"
#include "models/networks.h"
#include "voxel/voxel.h"

#include <stdlib.h>

/* in.latent [1, C, R, R, R] as rows of cells. */
static espalier_status read_latent(golden_case *c, esi_tensor *out, int64_t *R)
{
    const float *volume = NULL;
    golden_shape shape;
    espalier_status st = golden_f32(c, "in.latent", &volume, &shape);
    if (st != ESPALIER_OK) return st;
    if (shape.rank != 5 || shape.extent[0] != 1) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: in.latent is no volume", c->dir);
    const int64_t channels = shape.extent[1], cells = shape.extent[2] * shape.extent[3] * shape.extent[4];
    float *rows = golden_alloc(c, (size_t)(channels * cells), sizeof *rows);
    for (int64_t n = 0; n < cells; n++) {
        for (int64_t k = 0; k < channels; k++) rows[n * channels + k] = volume[k * cells + n];
    }
    *R = shape.extent[2];
    return esi_tensor_from(c->ctx, out, cells, channels, ESI_F32, rows);
}

static int64_t side_of(int64_t rows)
{
    int64_t R = 1;
    while (R * R * R < rows) R++;
    return R;
}

/* out.<prefix>coords_<R>: occupied cells at R per axis. */
static espalier_status check_coords(golden_case *c, const char *prefix, esi_tensor logits)
{
    const int64_t R = side_of(logits.rows);
    const char *const *sides;
    const size_t count = golden_sub_cases(c, prefix, "", &sides);
    float *values = golden_alloc(c, (size_t)logits.rows, sizeof *values);
    espalier_status st = esi_tensor_read(c->ctx, logits, values);
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) {
        esi_coords coords = {0};
        st = esi_coords_from_occupancy(c->ctx, &coords, values, R, strtol(sides[i], NULL, 10));
        if (st != ESPALIER_OK) break;
        golden_check(c, golden_name(c, "%s%s", prefix, sides[i]), coords.rows, ESI_FILE_I32, GOLDEN_SHAPE(coords.count, 4));
        esi_coords_free(c->ctx, &coords);
    }
    return st;
}

/* variant "": the case itself; "group.": weights w.group.*, outputs out.group.*. */
static espalier_status run_network(golden_case *c, const char *variant, const char *args_key, const char *exclude)
{
    esi_json *config = NULL;
    esi_weight_file *file = NULL;
    esi_ss_decoder *m = NULL;
    esi_tensor latent = {0}, logits = {0};
    int64_t R = 0;
    espalier_status st = golden_model_config(c, &config, args_key);
    if (st != ESPALIER_OK) goto done;
    st = golden_weight_file(c, &file, golden_name(c, "w.%s", variant), exclude);
    if (st != ESPALIER_OK) goto done;
    st = esi_ss_decoder_open(c->ctx, &m, file, config);
    if (st != ESPALIER_OK) goto done;
    st = esi_weights_check_finite(c->ctx, esi_ss_decoder_weights(m));
    if (st != ESPALIER_OK) goto done;
    st = read_latent(c, &latent, &R);
    if (st != ESPALIER_OK) goto done;
    golden_taps_start(c);
    st = esi_ss_decoder_forward(c->ctx, m, &logits, latent, R);
    golden_taps_stop(c);
    for (const golden_tap *t = c->taps; st == ESPALIER_OK && t; t = t->next) {
        esi_tensor rows = {0};
        st = esi_tensor_from(c->ctx, &rows, t->rows, t->cols, ESI_F32, t->data);
        if (st == ESPALIER_OK) st = golden_check_volume(c, golden_name(c, "out.%s%s", variant, t->name), rows, side_of(t->rows));
    }
    if (st == ESPALIER_OK) st = check_coords(c, golden_name(c, "out.%scoords_", variant), logits);
done:
    esi_ss_decoder_free(c->ctx, m);
    esi_json_free(config);
    return st;
}

espalier_status golden_kind_ss_decoder(golden_case *c)
{
    espalier_status st = run_network(c, "", "args", "group.");
    if (st == ESPALIER_OK && esi_json_get(c->config, "args_group")) st = run_network(c, "group.", "args_group", NULL);
    return st;
}
