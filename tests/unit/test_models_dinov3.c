/* SPDX-License-Identifier: MIT
 *
 * The image encoder: both spellings of the weights give the same bits, sizes from shapes and config.json, refusals, failing allocations.
 */
#include "model_fixture.h"

enum { D = 32, MLP = 40, LAYERS = 2, REGISTERS = 2, PATCH = 4, SIDE_H = 12, SIDE_W = 8, TOKENS = 1 + REGISTERS + 6 };

/* The same values under the names of transformers, with `prefix` before "layer", and of timm. Values follow the first name. */
static void copy_values(model_tensor *to, const model_tensor *from)
{
    assert_int_equal(to->size, from->size);
    memcpy(to->data, from->data, from->size);
}

static void build_hf(model_builder *b, const char *prefix)
{
    const int64_t cls[] = {1, 1, D}, registers[] = {1, REGISTERS, D}, patch[] = {D, 3, PATCH, PATCH}, vector[] = {D};
    memset(b, 0, sizeof *b);
    model_add(b, 0, 1, "embeddings.cls_token", 3, cls);
    model_add(b, 0, 1, "embeddings.register_tokens", 3, registers);
    model_add(b, 0, 1, "embeddings.mask_token", 3, cls);
    model_add(b, 0, 0.1f, "embeddings.patch_embeddings.weight", 4, patch);
    model_add(b, 0, 0.1f, "embeddings.patch_embeddings.bias", 1, vector);
    model_add(b, 1, 0.1f, "norm.weight", 1, vector);
    for (int i = 0; i < LAYERS; i++) {
        char layer[48];
        snprintf(layer, sizeof layer, "%slayer.%d.", prefix, i);
        model_add_vector(b, 1, 0.1f, layer, "norm1.weight", D);
        model_add_vector(b, 0, 0.1f, layer, "norm1.bias", D);
        model_add_vector(b, 1, 0.1f, layer, "norm2.weight", D);
        model_add_vector(b, 0, 0.1f, layer, "norm2.bias", D);
        model_add_linear(b, layer, "attention.q_proj", D, D);
        model_add_linear(b, layer, "attention.k_proj", D, D);
        model_add_linear(b, layer, "attention.v_proj", D, D);
        model_add_linear(b, layer, "attention.o_proj", D, D);
        model_add_vector(b, 0.5f, 0.1f, layer, "layer_scale1.lambda1", D);
        model_add_vector(b, 0.5f, 0.1f, layer, "layer_scale2.lambda1", D);
        model_add_linear(b, layer, "mlp.up_proj", MLP, D);
        model_add_linear(b, layer, "mlp.down_proj", D, MLP);
        snprintf(layer, sizeof layer, "%slayer.%d.attention.k_proj.bias", prefix, i);
        model_remove(b, layer);
    }
}

static void rename_tensor(model_builder *b, const char *old, const char *new_name)
{
    snprintf(model_find(b, old)->name, sizeof b->tensors[0].name, "%s", new_name);
}

static void rename_in_layer(model_builder *b, int i, const char *old, const char *new_name)
{
    char from[96], to[96];
    snprintf(from, sizeof from, "layer.%d.%s", i, old);
    snprintf(to, sizeof to, "blocks.%d.%s", i, new_name);
    rename_tensor(b, from, to);
}

static void fuse_qkv(model_builder *b, int i)
{
    const char *const parts[] = {"q", "k", "v"};
    const int64_t shape[] = {3 * D, D};
    char name[96];
    snprintf(name, sizeof name, "blocks.%d.attn.qkv.weight", i);
    model_tensor *fused = model_add_raw(b, name, "F32", sizeof(float), 2, shape);
    for (size_t p = 0; p < 3; p++) {
        snprintf(name, sizeof name, "layer.%d.attention.%s_proj.weight", i, parts[p]);
        const model_tensor *one = model_find(b, name);
        memcpy(fused->data + p * one->size, one->data, one->size);
    }
    for (size_t p = 0; p < 3; p++) {
        snprintf(name, sizeof name, "layer.%d.attention.%s_proj.weight", i, parts[p]);
        model_remove(b, name);
    }
}

static void build_timm(model_builder *b)
{
    static const char *const pairs[][2] = {
        {"norm1.weight", "norm1.weight"}, {"norm1.bias", "norm1.bias"}, {"norm2.weight", "norm2.weight"}, {"norm2.bias", "norm2.bias"},
        {"attention.q_proj.bias", "attn.q_bias"}, {"attention.v_proj.bias", "attn.v_bias"},
        {"attention.o_proj.weight", "attn.proj.weight"}, {"attention.o_proj.bias", "attn.proj.bias"},
        {"layer_scale1.lambda1", "gamma_1"}, {"layer_scale2.lambda1", "gamma_2"},
        {"mlp.up_proj.weight", "mlp.fc1.weight"}, {"mlp.up_proj.bias", "mlp.fc1.bias"},
        {"mlp.down_proj.weight", "mlp.fc2.weight"}, {"mlp.down_proj.bias", "mlp.fc2.bias"},
    };
    build_hf(b, "");
    rename_tensor(b, "embeddings.cls_token", "cls_token");
    rename_tensor(b, "embeddings.register_tokens", "reg_token");
    rename_tensor(b, "embeddings.patch_embeddings.weight", "patch_embed.proj.weight");
    rename_tensor(b, "embeddings.patch_embeddings.bias", "patch_embed.proj.bias");
    model_remove(b, "embeddings.mask_token");
    for (int i = 0; i < LAYERS; i++) {
        fuse_qkv(b, i);
        for (size_t k = 0; k < ESI_COUNT(pairs); k++) rename_in_layer(b, i, pairs[k][0], pairs[k][1]);
    }
}

static const char *const config = "{\"num_attention_heads\":2,\"hidden_size\":32,\"num_hidden_layers\":2,\"intermediate_size\":40,"
                                  "\"patch_size\":4,\"num_register_tokens\":2,\"layer_norm_eps\":1e-5,\"rope_theta\":100.0}";

static espalier_status open_encoder(fixture *f, esi_dinov3 **m, model_builder *b, const char *text)
{
    esi_json *json = text ? parse_json(f, text) : NULL;
    espalier_status st = esi_dinov3_open(f->ctx, m, model_file(f, b), json);
    esi_json_free(json);
    return st;
}

static espalier_status encode(fixture *f, const esi_dinov3 *m, float *cond)
{
    float pixels[3 * SIDE_H * SIDE_W];
    esi_scope scope = esi_scope_begin(f->ctx);
    esi_tensor t;
    for (int i = 0; i < 3 * SIDE_H * SIDE_W; i++) pixels[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    espalier_status st = esi_dinov3_forward(f->ctx, m, &t, pixels, SIDE_H, SIDE_W);
    if (st == ESPALIER_OK) {
        assert_int_equal(t.rows, TOKENS);
        assert_int_equal(t.cols, D);
        st = esi_tensor_read(f->ctx, t, cond);
    }
    esi_scope_end(f->ctx, scope);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    return st;
}

static void encode_model(fixture *f, model_builder *b, float *cond)
{
    esi_dinov3 *m;
    if (open_encoder(f, &m, b, config) != ESPALIER_OK) fail_msg("%s", espalier_error_message(f->ctx));
    assert_int_equal(encode(f, m, cond), ESPALIER_OK);
    esi_dinov3_free(f->ctx, m);
}

static void test_names_change_no_bit(void **state)
{
    float hf[TOKENS * D], prefixed[TOKENS * D], timm[TOKENS * D], fused_bias[TOKENS * D];
    fixture *f = *state;
    model_builder b, timm_b;
    build_hf(&b, "");
    encode_model(f, &b, hf);
    model_builder_free(&b);

    /* Values depend on names: bring those without the prefix. */
    model_builder plain;
    build_hf(&plain, "");
    build_hf(&b, "model.");
    for (size_t i = 0; i < b.count; i++) {
        const char *name = b.tensors[i].name;
        copy_values(&b.tensors[i], model_find(&plain, strncmp(name, "model.", 6) == 0 ? name + 6 : name));
    }
    encode_model(f, &b, prefixed);
    assert_memory_equal(hf, prefixed, sizeof hf);
    model_builder_free(&plain);
    model_builder_free(&b);

    build_timm(&timm_b);
    encode_model(f, &timm_b, timm);
    assert_memory_equal(hf, timm, sizeof hf);

    /* One bias vector of 3D whose k part is zero. */
    for (int i = 0; i < LAYERS; i++) {
        const int64_t shape[] = {3 * D};
        char name[96], q[96], v[96];
        snprintf(name, sizeof name, "blocks.%d.attn.qkv.bias", i);
        snprintf(q, sizeof q, "blocks.%d.attn.q_bias", i);
        snprintf(v, sizeof v, "blocks.%d.attn.v_bias", i);
        model_tensor *bias = model_add_raw(&timm_b, name, "F32", sizeof(float), 1, shape);
        memcpy(bias->data, model_find(&timm_b, q)->data, D * sizeof(float));
        memcpy(bias->data + 2 * D * sizeof(float), model_find(&timm_b, v)->data, D * sizeof(float));
        model_remove(&timm_b, q);
        model_remove(&timm_b, v);
    }
    encode_model(f, &timm_b, fused_bias);
    assert_memory_equal(hf, fused_bias, sizeof hf);
    model_builder_free(&timm_b);
}

/* A key bias, if a file has one, counts; softmax cancels what it adds to all scores of a query, so positions must tell. */
static void test_key_bias_is_applied(void **state)
{
    float without[TOKENS * D], with[TOKENS * D];
    const int64_t shape[] = {D};
    fixture *f = *state;
    model_builder b;
    build_hf(&b, "");
    encode_model(f, &b, without);
    model_add(&b, 0, 1, "layer.0.attention.k_proj.bias", 1, shape);
    encode_model(f, &b, with);
    assert_memory_not_equal(without, with, sizeof with);
    model_builder_free(&b);
}

static void test_sizes_from_shapes(void **state)
{
    fixture *f = *state;
    model_builder b;
    esi_dinov3 *m;
    build_timm(&b);
    assert_int_equal(open_encoder(f, &m, &b, NULL), ESPALIER_OK);
    const esi_dinov3_config *c = esi_dinov3_get_config(m);
    assert_int_equal(c->hidden, D);
    assert_int_equal(c->layers, LAYERS);
    assert_int_equal(c->heads, 1);                  /* hidden / 64, at least one */
    assert_int_equal(c->mlp, MLP);
    assert_int_equal(c->patch, PATCH);
    assert_int_equal(c->registers, REGISTERS);
    assert_true(c->eps == 1e-5f && c->rope_theta == 100.0);
    esi_dinov3_free(f->ctx, m);
    assert_int_equal(open_encoder(f, &m, &b, "{\"num_attention_heads\":4,\"rope_parameters\":{\"rope_theta\":50.0}}"), ESPALIER_OK);
    assert_int_equal(esi_dinov3_get_config(m)->heads, 4);
    assert_true(esi_dinov3_get_config(m)->rope_theta == 50.0);
    esi_dinov3_free(f->ctx, m);
    model_builder_free(&b);
}

static void test_refusals(void **state)
{
    static const struct { const char *config, *text; } cases[] = {
        {"{\"hidden_size\":64}", "hidden_size is 64, the tensors say 32"},
        {"{\"num_hidden_layers\":3}", "num_hidden_layers is 3, the tensors say 2"},
        {"{\"patch_size\":16}", "patch_size is 16, the tensors say 4"},
        {"{\"num_register_tokens\":4}", "num_register_tokens is 4, the tensors say 2"},
        {"{\"use_gated_mlp\":true}", "gated gelu"},
        {"{\"hidden_act\":\"silu\"}", "silu"},
        {"{\"num_attention_heads\":3}", "num_attention_heads"},
        {"{\"layer_norm_eps\":0}", "layer_norm_eps"},
        {"{\"rope_theta\":-1}", "rope_theta"},
    };
    fixture *f = *state;
    model_builder b;
    esi_dinov3 *m;
    build_hf(&b, "");
    for (size_t i = 0; i < ESI_COUNT(cases); i++)
        expect_failure(f, open_encoder(f, &m, &b, cases[i].config), ESPALIER_ERR_MODEL, cases[i].text);
    model_remove(&b, "layer.1.mlp.down_proj.bias");
    expect_failure(f, open_encoder(f, &m, &b, config), ESPALIER_ERR_MODEL, "m.bin: tensor layer.1.mlp.down_proj.bias is missing");
    rename_tensor(&b, "embeddings.cls_token", "embeddings.other");
    expect_failure(f, open_encoder(f, &m, &b, config), ESPALIER_ERR_MODEL, "no DINOv3 image encoder");
    rename_tensor(&b, "embeddings.register_tokens", "storage_tokens");
    expect_failure(f, open_encoder(f, &m, &b, config), ESPALIER_ERR_MODEL, "original release");
    model_builder_free(&b);
}

static void test_picture_must_fit_patches(void **state)
{
    float pixels[3 * 4 * 6] = {0};
    fixture *f = *state;
    model_builder b;
    esi_dinov3 *m;
    esi_tensor t;
    build_hf(&b, "");
    assert_int_equal(open_encoder(f, &m, &b, config), ESPALIER_OK);
    expect_failure(f, esi_dinov3_forward(f->ctx, m, &t, pixels, 4, 6), ESPALIER_ERR_INTERNAL, "6 x 4 pixels");
    assert_true(esi_tensor_is_null(t));
    esi_dinov3_free(f->ctx, m);
    model_builder_free(&b);
}

static void test_every_allocation_may_fail(void **state)
{
    float cond[TOKENS * D];
    fixture *f = *state;
    model_builder b;
    long n;
    build_timm(&b);
    for (n = 0; n < 5000; n++) {
        esi_dinov3 *m = NULL;
        esi_json *json = parse_json(f, config);
        esi_weight_file *file = model_file(f, &b);
        f->fail_in = n;
        espalier_status st = esi_dinov3_open(f->ctx, &m, file, json);
        if (st == ESPALIER_OK) st = encode(f, m, cond);
        f->fail_in = -1;
        esi_json_free(json);
        esi_dinov3_free(f->ctx, m);
        if (st == ESPALIER_OK) break;
        expect_failure(f, st, ESPALIER_ERR_RESOURCE, "");
    }
    assert_true(n > 30 && n < 5000);
    model_builder_free(&b);
}

/* A small budget cuts the MLP, not the bits; the plan is above the peak. */
static void test_budget_changes_no_bit(void **state)
{
    static float pixels[3 * 64 * 64], plenty[(1 + REGISTERS + 256) * D], tight[(1 + REGISTERS + 256) * D];
    fixture *f = *state;
    model_builder b;
    esi_dinov3 *m;
    build_hf(&b, "");
    assert_int_equal(open_encoder(f, &m, &b, config), ESPALIER_OK);
    for (int i = 0; i < 3 * 64 * 64; i++) pixels[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
    for (int k = 0; k < 2; k++) {
        esi_scope scope = esi_scope_begin(f->ctx);
        const uint64_t plan = esi_dinov3_memory_plan(esi_dinov3_get_config(m), 64, 64, 0);
        const uint64_t smaller = esi_dinov3_memory_plan(esi_dinov3_get_config(m), 64, 64, plan - 20000);
        esi_tensor t;
        assert_true(smaller <= plan - 20000);
        esi_memory_reset_high_water(f->ctx);
        if (k == 1) espalier_context_set_memory_budget(f->ctx, plan - 20000);
        assert_int_equal(esi_dinov3_forward(f->ctx, m, &t, pixels, 64, 64), ESPALIER_OK);
        espalier_context_set_memory_budget(f->ctx, 0);
        assert_true(esi_memory_high_water(f->ctx) <= plan);
        assert_int_equal(esi_tensor_read(f->ctx, t, k ? tight : plenty), ESPALIER_OK);
        esi_scope_end(f->ctx, scope);
    }
    assert_memory_equal(plenty, tight, sizeof plenty);
    esi_dinov3_free(f->ctx, m);
    model_builder_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names_change_no_bit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_key_bias_is_applied, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_sizes_from_shapes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_picture_must_fit_patches, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_budget_changes_no_bit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
