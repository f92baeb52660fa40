/* SPDX-License-Identifier: MIT
 *
 * Flow transformers: what opening refuses and says, that neither chunks nor caching nor taps change a bit, the constant row of the all-zero
 * condition, and that every failing allocation and a cancel come back cleanly.
 */
#include "model_fixture.h"

#include "base/context.h"
#include "models/flow.h"

#include <math.h>

enum { C = 32, H = 2, M = 48, X = 20, IN = 8, OUT = 8, BLOCKS = 2, TOKENS = 150, LC = 11 };

static void add_block(model_builder *b, int i)
{
    const int64_t gamma[2] = {H, C / H};
    const char *const gammas[] = {"self_attn.q_rms_norm.gamma", "self_attn.k_rms_norm.gamma", "cross_attn.q_rms_norm.gamma",
                                  "cross_attn.k_rms_norm.gamma"};
    char prefix[32], name[96];
    snprintf(prefix, sizeof prefix, "blocks.%d.", i);
    model_add_vector(b, 0.0f, 0.5f, prefix, "modulation", 6 * C);
    model_add_vector(b, 1.0f, 0.2f, prefix, "norm2.weight", C);
    model_add_vector(b, 0.0f, 0.2f, prefix, "norm2.bias", C);
    for (size_t k = 0; k < ESI_COUNT(gammas); k++) {
        snprintf(name, sizeof name, "%s%s", prefix, gammas[k]);
        model_add(b, 1.0f, 0.2f, name, 2, gamma);
    }
    model_add_linear(b, prefix, "self_attn.to_qkv", 3 * C, C);
    model_add_linear(b, prefix, "self_attn.to_out", C, C);
    model_add_linear(b, prefix, "cross_attn.to_q", C, C);
    model_add_linear(b, prefix, "cross_attn.to_kv", 2 * C, X);
    model_add_linear(b, prefix, "cross_attn.to_out", C, C);
    model_add_linear(b, prefix, "mlp.mlp.0", M, C);
    model_add_linear(b, prefix, "mlp.mlp.2", C, M);
}

static void build_flow(model_builder *b)
{
    memset(b, 0, sizeof *b);
    model_add_linear(b, "", "t_embedder.mlp.0", C, 256);
    model_add_linear(b, "", "t_embedder.mlp.2", C, C);
    model_add_linear(b, "", "adaLN_modulation.1", 6 * C, C);
    model_add_linear(b, "", "input_layer", C, IN);
    model_add_linear(b, "", "out_layer", OUT, C);
    for (int i = 0; i < BLOCKS; i++) add_block(b, i);
}

#define ARGS(changes) \
    "{\"name\":\"SLatFlowModel\",\"args\":{\"resolution\":32,\"in_channels\":8,\"model_channels\":32,\"cond_channels\":20," \
    "\"out_channels\":8,\"num_blocks\":2,\"num_heads\":2,\"mlp_ratio\":1.5,\"pe_mode\":\"rope\",\"share_mod\":true," \
    "\"qk_rms_norm\":true,\"qk_rms_norm_cross\":true" changes "}}"

static espalier_status open_flow(fixture *f, esi_flow **m, model_builder *b, const char *config)
{
    esi_json *json = config ? parse_json(f, config) : NULL;
    espalier_status st = esi_flow_open(f->ctx, m, model_file(f, b), json);
    esi_json_free(json);
    return st;
}

/* ---------------------------------------------------------------- opening */

static void test_config_from_json_and_shapes_agree(void **state)
{
    fixture *f = *state;
    model_builder b;
    esi_flow *from_json, *from_shapes;
    build_flow(&b);
    assert_int_equal(open_flow(f, &from_json, &b, ARGS("")), ESPALIER_OK);
    const esi_flow_config a = *esi_flow_get_config(from_json);
    assert_true(a.sparse);
    assert_int_equal(a.heads, H);
    assert_int_equal(a.mlp, M);
    assert_true(a.rope_low == 1.0 && a.rope_high == 10000.0);
    esi_flow_free(f->ctx, from_json);
    assert_int_equal(open_flow(f, &from_shapes, &b, NULL), ESPALIER_OK);
    const esi_flow_config d = *esi_flow_get_config(from_shapes);
    assert_false(d.sparse);                       /* 8 channels in: the dense model, unless the architecture says otherwise */
    assert_int_equal(d.resolution, 16);
    assert_int_equal(d.channels, a.channels);
    assert_int_equal(d.cond_channels, a.cond_channels);
    assert_int_equal(d.blocks, a.blocks);
    assert_int_equal(d.heads, a.heads);
    assert_int_equal(d.mlp, a.mlp);
    assert_int_equal(d.in_channels, a.in_channels);
    assert_int_equal(d.out_channels, a.out_channels);
    esi_flow_free(f->ctx, from_shapes);
    model_builder_free(&b);
}

static void test_heads_and_frequencies_from_json(void **state)
{
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    build_flow(&b);
    assert_int_equal(open_flow(f, &m, &b,
                               "{\"name\":\"ElasticSLatFlowModel\",\"args\":{\"resolution\":32,\"in_channels\":8,\"model_channels\":32,"
                               "\"cond_channels\":20,\"out_channels\":8,\"num_blocks\":2,\"num_heads\":null,\"num_head_channels\":16,"
                               "\"mlp_ratio\":1.53,\"pe_mode\":\"rope\",\"share_mod\":true,\"qk_rms_norm\":true,\"qk_rms_norm_cross\":true,"
                               "\"rope_freq\":[2.0,500.0],\"dtype\":\"bfloat16\"}}"),
                     ESPALIER_OK);
    assert_int_equal(esi_flow_get_config(m)->heads, 2);
    assert_int_equal(esi_flow_get_config(m)->mlp, 48);              /* trunc(32 * 1.53) */
    assert_true(esi_flow_get_config(m)->rope_low == 2.0 && esi_flow_get_config(m)->rope_high == 500.0);
    esi_flow_free(f->ctx, m);
    model_builder_free(&b);
}

static void test_unsupported_configs(void **state)
{
    static const struct { const char *config, *text; } cases[] = {
        {"{\"name\":\"SparseStructureDecoder\",\"args\":{}}", "\"SparseStructureDecoder\" is not a flow model"},
        {"{\"name\":\"SLatFlowModel\"}", "no args"},
        {"{\"name\":\"SLatFlowModel\",\"args\":{\"share_mod\":true,\"qk_rms_norm\":true,\"qk_rms_norm_cross\":true}}", "pe_mode ape"},
        {"{\"name\":\"SLatFlowModel\",\"args\":{\"pe_mode\":\"rope\",\"qk_rms_norm\":true,\"qk_rms_norm_cross\":true}}", "share_mod false"},
        {"{\"name\":\"SLatFlowModel\",\"args\":{\"pe_mode\":\"rope\",\"share_mod\":true,\"qk_rms_norm_cross\":true}}", "qk_rms_norm false"},
        {"{\"name\":\"SLatFlowModel\",\"args\":{\"pe_mode\":\"rope\",\"share_mod\":true,\"qk_rms_norm\":true}}", "qk_rms_norm_cross false"},
        {"{\"name\":\"SLatFlowModel\",\"args\":{\"pe_mode\":\"rope\",\"share_mod\":true,\"qk_rms_norm\":true,\"qk_rms_norm_cross\":true}}",
         "resolution is missing"},
        {ARGS(",\"rope_freq\":[1.0]"), "rope_freq"},
        {ARGS(",\"rope_freq\":[0.0,1.0]"), "rope_freq"},
    };
    fixture *f = *state;
    model_builder b;
    build_flow(&b);
    for (size_t i = 0; i < ESI_COUNT(cases); i++) {
        esi_flow *m;
        espalier_status st = open_flow(f, &m, &b, cases[i].config);
        assert_null(m);
        expect_failure(f, st, ESPALIER_ERR_MODEL, cases[i].text);
    }
    model_builder_free(&b);
}

/* Leaving out any one tensor is noticed, and the message names it. */
static void test_missing_tensors_are_named(void **state)
{
    fixture *f = *state;
    model_builder b;
    build_flow(&b);
    const size_t count = b.count;
    assert_int_equal(count, 10 + BLOCKS * 21);
    for (size_t i = 0; i < count; i++) {
        char name[96], text[160];
        esi_flow *m;
        snprintf(name, sizeof name, "%s", b.tensors[i].name);
        snprintf(text, sizeof text, "m.bin: tensor %s is missing", name);
        model_remove(&b, name);
        expect_failure(f, open_flow(f, &m, &b, ARGS("")), ESPALIER_ERR_MODEL, text);
        model_builder_free(&b);
        build_flow(&b);
    }
    model_builder_free(&b);
}

static void test_wrong_shapes_are_named(void **state)
{
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    build_flow(&b);
    model_tensor *t = model_find(&b, "blocks.1.mlp.mlp.0.weight");
    t->shape[0] = C;
    t->shape[1] = M;
    expect_failure(f, open_flow(f, &m, &b, ARGS("")), ESPALIER_ERR_MODEL, "blocks.1.mlp.mlp.0.weight: shape [32, 48], expected [48, 32]");
    model_builder_free(&b);
}

/* ----------------------------------------------------------------- forward */

static void fill_inputs(float *x, float *cond, int32_t *coords)
{
    esi_generator g;
    esi_generator_seed(&g, 3);
    esi_generator_randn(&g, x, TOKENS * IN);
    esi_generator_randn(&g, cond, LC * X);
    for (int n = 0; n < TOKENS; n++) {
        coords[4 * n] = 0;
        coords[4 * n + 1] = n / 25;
        coords[4 * n + 2] = n / 5 % 5;
        coords[4 * n + 3] = n % 5 * 7;
    }
}

typedef struct forward_options {
    uint64_t budget;
    bool negative, zero_condition, tap;
    int64_t chunk_rows;            /* 0: as planned */
    int cached_blocks;             /* -1: as planned */
} forward_options;

static void ignore_tap(void *user, espalier_context *ctx, const char *name, const esi_tensor *t)
{
    int *seen = user;
    (void)ctx;
    (void)name;
    (void)t;
    (*seen)++;
}

/* v of the small model; the plan of the run may be overruled. */
static espalier_status forward(fixture *f, const esi_flow *m, float *v, const forward_options *o)
{
    static float x[TOKENS * IN], cond[LC * X];
    static int32_t coords[4 * TOKENS];
    esi_scope scope = esi_scope_begin(f->ctx);
    esi_tensor tx, tv, tc;
    esi_flow_run *run = NULL;
    int taps = 0;
    espalier_status st;

    fill_inputs(x, cond, coords);
    if (o->zero_condition) memset(cond, 0, sizeof cond);
    st = esi_tensor_from(f->ctx, &tx, TOKENS, IN, ESI_F32, x);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_from(f->ctx, &tc, LC, X, ESI_F32, cond);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_new(f->ctx, &tv, TOKENS, OUT, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    f->ctx->tap = o->tap ? ignore_tap : NULL;
    f->ctx->tap_user = &taps;
    if (o->budget) espalier_context_set_memory_budget(f->ctx, o->budget);
    st = esi_flow_run_begin(f->ctx, &run, m, coords, TOKENS, tc);
    if (st != ESPALIER_OK) goto done;
    if (o->chunk_rows) run->plan.chunk_rows = o->chunk_rows;
    if (o->cached_blocks >= 0) {
        assert_true(o->cached_blocks <= run->plan.cached_blocks);
        for (int i = o->cached_blocks; i < run->plan.cached_blocks; i++) esi_tensor_free(f->ctx, &run->cross_kv[i]);
        run->plan.cached_blocks = o->cached_blocks;
    }
    st = esi_flow_forward(f->ctx, run, tv, tx, 875.0f, o->negative);
    if (st == ESPALIER_OK) st = esi_tensor_read(f->ctx, tv, v);
    if (o->tap && st == ESPALIER_OK) assert_true(taps >= 2 + 2 + 1 + 4 * BLOCKS - (o->negative ? BLOCKS : 0) + 2);
done:
    esi_flow_run_end(f->ctx, run);
    esi_scope_end(f->ctx, scope);
    f->ctx->tap = NULL;
    espalier_context_set_memory_budget(f->ctx, 0);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    return st;
}

static void test_plan_changes_no_bit(void **state)
{
    static const forward_options variants[] = {
        {.cached_blocks = 0},
        {.cached_blocks = 1},
        {.cached_blocks = -1, .chunk_rows = 64},
        {.cached_blocks = -1, .chunk_rows = 1},
        {.cached_blocks = 0, .chunk_rows = 149},
        {.cached_blocks = -1, .tap = true},
        {.cached_blocks = 1, .chunk_rows = 37, .tap = true},
    };
    static float plain[TOKENS * OUT], other[TOKENS * OUT];
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    build_flow(&b);
    assert_int_equal(open_flow(f, &m, &b, ARGS("")), ESPALIER_OK);
    for (int negative = 0; negative < 2; negative++) {
        const forward_options base = {.cached_blocks = -1, .negative = negative};
        assert_int_equal(forward(f, m, plain, &base), ESPALIER_OK);
        for (size_t i = 0; i < ESI_COUNT(variants); i++) {
            forward_options o = variants[i];
            o.negative = negative;
            memset(other, 0xff, sizeof other);
            assert_int_equal(forward(f, m, other, &o), ESPALIER_OK);
            assert_memory_equal(plain, other, sizeof plain);
        }
    }
    esi_flow_free(f->ctx, m);
    model_builder_free(&b);
}

/* The constant row stands for attention to a condition of zeros. */
static void test_negative_is_the_zero_condition(void **state)
{
    static float constant[TOKENS * OUT], attended[TOKENS * OUT], positive[TOKENS * OUT];
    const forward_options negative = {.cached_blocks = -1, .negative = true}, zeros = {.cached_blocks = -1, .zero_condition = true},
                          plain = {.cached_blocks = -1};
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    double error = 0, distance = 0, norm = 0;
    build_flow(&b);
    assert_int_equal(open_flow(f, &m, &b, ARGS("")), ESPALIER_OK);
    assert_int_equal(forward(f, m, constant, &negative), ESPALIER_OK);
    assert_int_equal(forward(f, m, attended, &zeros), ESPALIER_OK);
    assert_int_equal(forward(f, m, positive, &plain), ESPALIER_OK);
    for (int i = 0; i < TOKENS * OUT; i++) {
        error += ((double)constant[i] - (double)attended[i]) * ((double)constant[i] - (double)attended[i]);
        distance += ((double)positive[i] - (double)attended[i]) * ((double)positive[i] - (double)attended[i]);
        norm += (double)attended[i] * (double)attended[i];
    }
    assert_true(norm > 1.0);
    assert_true(sqrt(error / norm) < 2e-6);
    assert_true(sqrt(distance / norm) > 1e-2);
    esi_flow_free(f->ctx, m);
    model_builder_free(&b);
}

static void test_wrong_inputs(void **state)
{
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    esi_flow_run *run;
    esi_tensor cond;
    const int32_t good[4] = {0, 1, 2, 3}, bad[4] = {0, 1, -2, 3};
    esi_scope scope = esi_scope_begin(f->ctx);
    build_flow(&b);
    assert_int_equal(open_flow(f, &m, &b, ARGS("")), ESPALIER_OK);
    assert_int_equal(esi_tensor_new(f->ctx, &cond, LC, X + 1, ESI_F32), ESPALIER_OK);
    expect_failure(f, esi_flow_run_begin(f->ctx, &run, m, good, 1, cond), ESPALIER_ERR_MODEL, "image condition is [11, 21]");
    assert_null(run);
    cond = esi_cols(cond, 0, X);
    assert_int_equal(esi_fill(f->ctx, cond, 0.5f), ESPALIER_OK);
    expect_failure(f, esi_flow_run_begin(f->ctx, &run, m, NULL, 1, cond), ESPALIER_ERR_INTERNAL, "without coordinates");
    expect_failure(f, esi_flow_run_begin(f->ctx, &run, m, bad, 1, cond), ESPALIER_ERR_INTERNAL, "coordinate -2");
    expect_failure(f, esi_flow_run_begin(f->ctx, &run, m, good, 0, cond), ESPALIER_ERR_INTERNAL, "no tokens");
    assert_int_equal(esi_flow_run_begin(f->ctx, &run, m, good, 1, cond), ESPALIER_OK);
    esi_flow_run_end(f->ctx, run);
    esi_scope_end(f->ctx, scope);
    esi_flow_free(f->ctx, m);
    model_builder_free(&b);
}

static void test_every_allocation_may_fail(void **state)
{
    static float v[TOKENS * OUT];
    const forward_options o = {.cached_blocks = -1};
    fixture *f = *state;
    model_builder b;
    long n;
    build_flow(&b);
    for (n = 0; n < 5000; n++) {
        esi_flow *m = NULL;
        esi_json *json = parse_json(f, ARGS(""));
        esi_weight_file *file = model_file(f, &b);
        f->fail_in = n;
        espalier_status st = esi_flow_open(f->ctx, &m, file, json);
        if (st == ESPALIER_OK) st = forward(f, m, v, &o);
        f->fail_in = -1;
        esi_json_free(json);
        esi_flow_free(f->ctx, m);
        if (st == ESPALIER_OK) break;
        expect_failure(f, st, ESPALIER_ERR_RESOURCE, "");
    }
    assert_true(n > 30 && n < 5000);
    model_builder_free(&b);
}

static void cancel_at_first_tap(void *user, espalier_context *ctx, const char *name, const esi_tensor *t)
{
    int *blocks = user;
    (void)t;
    if (strcmp(name, "block0") == 0) espalier_context_cancel(ctx);
    if (strncmp(name, "block1", 6) == 0) (*blocks)++;
}

static void test_cancel_between_blocks(void **state)
{
    static float x[TOKENS * IN], cond[LC * X];
    static int32_t coords[4 * TOKENS];
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    esi_flow_run *run;
    esi_tensor tx, tv, tc;
    int blocks = 0;
    build_flow(&b);
    fill_inputs(x, cond, coords);
    assert_int_equal(open_flow(f, &m, &b, ARGS("")), ESPALIER_OK);
    esi_scope scope = esi_scope_begin(f->ctx);
    assert_int_equal(esi_tensor_from(f->ctx, &tx, TOKENS, IN, ESI_F32, x), ESPALIER_OK);
    assert_int_equal(esi_tensor_from(f->ctx, &tc, LC, X, ESI_F32, cond), ESPALIER_OK);
    assert_int_equal(esi_tensor_new(f->ctx, &tv, TOKENS, OUT, ESI_F32), ESPALIER_OK);
    assert_int_equal(esi_flow_run_begin(f->ctx, &run, m, coords, TOKENS, tc), ESPALIER_OK);
    f->ctx->tap = cancel_at_first_tap;
    f->ctx->tap_user = &blocks;
    assert_int_equal(esi_flow_forward(f->ctx, run, tv, tx, 500.0f, false), ESPALIER_ERR_CANCELLED);
    f->ctx->tap = NULL;
    assert_int_equal(blocks, 0);
    espalier_context_reset_cancel(f->ctx);
    esi_clear_error(f->ctx);
    esi_flow_run_end(f->ctx, run);
    esi_scope_end(f->ctx, scope);
    esi_flow_free(f->ctx, m);
    model_builder_free(&b);
}

/* -------------------------------------------------------------------- plan */

static const esi_flow_config release = {false, 16, 8, 8, 1536, 1024, 30, 12, 8192, 1.0, 10000.0};

static void test_memory_plan(void **state)
{
    const uint64_t MB = 1000000;
    (void)state;
    const flow_plan rich = esi_flow_make_plan(&release, 4096, 1029, 0), tight = esi_flow_make_plan(&release, 4096, 1029, 450 * MB);
    assert_int_equal(rich.cached_blocks, 30);
    assert_true(rich.bytes < 900 * MB);
    assert_true(tight.bytes <= 450 * MB);
    assert_true(tight.cached_blocks < 30 && tight.cached_blocks > 0);
    /* Less memory never asks for more, down to what cannot be cut. */
    for (uint64_t budget = 1000 * MB; budget >= 150 * MB; budget -= 25 * MB) {
        const flow_plan p = esi_flow_make_plan(&release, 4096, 1029, budget);
        assert_true(p.bytes <= budget);
        assert_true(p.chunk_rows >= 1 && p.cached_blocks >= 0 && p.cached_blocks <= 30);
    }
    assert_int_equal(esi_flow_make_plan(&release, 4096, 1029, 1).cached_blocks, 0);
    assert_int_equal(esi_flow_memory_plan(&release, 4096, 1029, 450 * MB), tight.bytes);
}

/* The plan is above what a run takes, and not by much. */
static void test_plan_bounds_the_peak(void **state)
{
    static float v[TOKENS * OUT];
    const forward_options o = {.cached_blocks = -1};
    fixture *f = *state;
    model_builder b;
    esi_flow *m;
    build_flow(&b);
    assert_int_equal(open_flow(f, &m, &b, ARGS("")), ESPALIER_OK);
    esi_memory_reset_high_water(f->ctx);
    assert_int_equal(forward(f, m, v, &o), ESPALIER_OK);
    assert_true(esi_memory_high_water(f->ctx) <= esi_flow_memory_plan(esi_flow_get_config(m), TOKENS, LC, 0));
    esi_flow_free(f->ctx, m);
    model_builder_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_config_from_json_and_shapes_agree, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_heads_and_frequencies_from_json, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_unsupported_configs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_missing_tensors_are_named, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_shapes_are_named, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_plan_changes_no_bit, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_negative_is_the_zero_condition, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_wrong_inputs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_every_allocation_may_fail, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_cancel_between_blocks, fixture_setup, fixture_teardown),
        cmocka_unit_test(test_memory_plan),
        cmocka_unit_test_setup_teardown(test_plan_bounds_the_peak, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
