/* SPDX-License-Identifier: MIT
 *
 * kind_gguf_load.c: a GGUF file through the reader and the lookup by name: every tensor as fp32 under its checkpoint name and shape, and
 * the hyper-parameters that follow from the shapes.
 */
#include "kinds.h"
#include "models/networks.h"

/* Compare the tensor that the case stores as out.<name> with the reader's exact values, and with the matrix that networks get: folded
 * convolutions come back to their rows there, and values below 2^-40 and -0 have become +0 by the rule of stores. */
static espalier_status check_weight(golden_case *c, esi_weights *w, const char *name)
{
    const char *stored = golden_name(c, "out.%s", name);
    const esi_weight_file *file = esi_weights_file(w);
    const esi_file_tensor *in_file = esi_weight_file_find(file, name);
    const float *expected;
    float *exact, *matrix;
    golden_shape shape;
    esi_tensor t;
    bool same = true;
    espalier_status st = golden_f32(c, stored, &expected, &shape);

    if (st != ESPALIER_OK) return st;
    st = esi_weights_get(c->ctx, w, &t, shape.rank > 1 ? shape.extent[0] : 1, -1, "%s", name);
    if (st != ESPALIER_OK) return st;
    const int64_t n = t.rows * t.cols;
    if (n != golden_shape_count(shape)) return esi_fail(c->ctx, ESPALIER_ERR_INPUT, "%s: %s has another size", c->dir, name);
    matrix = golden_alloc(c, (size_t)n, sizeof *matrix);
    st = esi_tensor_read(c->ctx, t, matrix);
    if (st != ESPALIER_OK) return st;
    st = esi_file_tensor_read_f32(c->ctx, file, in_file, &exact);
    if (st != ESPALIER_OK) return st;
    golden_check(c, stored, exact, ESI_FILE_F32, shape);
    for (int64_t i = 0; i < n; i++) same = same && matrix[i] == (exact[i] < 0x1p-40f && exact[i] > -0x1p-40f ? 0.0f : exact[i]);
    golden_expect(c, golden_name(c, "matrix of %s", name), same, "differs from the values of the file");
    esi_free(c->ctx, exact);
    return ESPALIER_OK;
}

static espalier_status check_encoder(golden_case *c, const char *path)
{
    const char *base = "expected_hyperparameters.";
    esi_weight_file *file;
    esi_dinov3 *model;
    espalier_status st = esi_weight_file_open(c->ctx, &file, path);

    if (st != ESPALIER_OK) return st;
    st = esi_dinov3_open(c->ctx, &model, file, NULL);
    if (st != ESPALIER_OK) return st;
    const esi_dinov3_config *k = esi_dinov3_get_config(model);
    const struct { const char *key; int value; } wanted[] = {
        {"hidden_size", k->hidden}, {"num_hidden_layers", k->layers},   {"patch_size", k->patch}, {"num_register_tokens", k->registers},
        {"num_attention_heads", k->heads}, {"intermediate_size", k->mlp},
    };
    for (size_t i = 0; i < ESI_COUNT(wanted); i++) {
        const char *key = golden_name(c, "%s%s", base, wanted[i].key);
        golden_expect_int(c, wanted[i].key, wanted[i].value, golden_config_int(c, key, -1));
    }
    const double eps = golden_config_double(c, golden_name(c, "%slayer_norm_eps", base), 0.0);
    const double theta = golden_config_double(c, golden_name(c, "%srope_theta", base), 0.0);
    golden_expect(c, "layer_norm_eps", k->eps == (float)eps, "%g, expected %g", (double)k->eps, eps);
    golden_expect(c, "rope_theta", k->rope_theta == theta, "%g, expected %g", k->rope_theta, theta);
    esi_dinov3_free(c->ctx, model);
    return ESPALIER_OK;
}

/* The json inside the file and the shapes must lead to the same flow model. */
static espalier_status check_flow(golden_case *c, const char *path)
{
    esi_flow_config configs[2];

    for (int i = 0; i < 2; i++) {
        esi_weight_file *file;
        esi_flow *model;
        espalier_status st = esi_weight_file_open(c->ctx, &file, path);
        if (st != ESPALIER_OK) return st;
        char *json = file->config_json;
        if (i == 1) file->config_json = NULL;
        st = esi_flow_open(c->ctx, &model, file, NULL);
        if (st != ESPALIER_OK) return st;
        configs[i] = *esi_flow_get_config(model);
        /* The file object owns the text. */
        if (i == 1) file->config_json = json;
        esi_flow_free(c->ctx, model);
    }
    golden_expect_int(c, "sparse", configs[1].sparse, configs[0].sparse);
    golden_expect_int(c, "in_channels", configs[1].in_channels, configs[0].in_channels);
    golden_expect_int(c, "out_channels", configs[1].out_channels, configs[0].out_channels);
    golden_expect_int(c, "channels", configs[1].channels, configs[0].channels);
    golden_expect_int(c, "cond_channels", configs[1].cond_channels, configs[0].cond_channels);
    golden_expect_int(c, "blocks", configs[1].blocks, configs[0].blocks);
    golden_expect_int(c, "heads", configs[1].heads, configs[0].heads);
    golden_expect_int(c, "mlp", configs[1].mlp, configs[0].mlp);
    return ESPALIER_OK;
}

espalier_status golden_kind_gguf_load(golden_case *c)
{
    const char *path = golden_path(c, golden_config_string(c, "files.gguf", "case.gguf"));
    const char *architecture = golden_config_string(c, "architecture", ""), *const *names;
    size_t count = golden_sub_cases(c, "out.", "", &names);
    esi_weight_file *file;
    esi_weights *w;
    espalier_status st = esi_weight_file_open(c->ctx, &file, path);

    if (st != ESPALIER_OK) return st;
    golden_expect(c, "format", file->format == ESI_FORMAT_GGUF, "not recognised as GGUF");
    golden_expect_int(c, "tensor_count", (int64_t)file->count, golden_config_int(c, "tensor_count", -1));
    golden_expect(c, "architecture", file->architecture && strcmp(file->architecture, architecture) == 0, "%s, expected %s",
                  file->architecture ? file->architecture : "none", architecture);
    golden_expect_int(c, "config_json", file->config_json != NULL, golden_config_bool(c, "config_json", false));
    st = esi_weights_new(c->ctx, &w, file);
    if (st != ESPALIER_OK) return st;
    for (size_t i = 0; i < count && st == ESPALIER_OK; i++) st = check_weight(c, w, names[i]);
    if (st == ESPALIER_OK) st = esi_weights_check_finite(c->ctx, w);
    esi_weights_free(c->ctx, w);
    if (st == ESPALIER_OK && esi_json_get(c->config, "expected_hyperparameters")) st = check_encoder(c, path);
    if (st == ESPALIER_OK && strstr(architecture, "-flow") && golden_config_bool(c, "config_json", false)) st = check_flow(c, path);
    return st;
}
