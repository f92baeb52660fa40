/* SPDX-License-Identifier: MIT
 *
 * test_tiny_expected.c: the embedded model gives what the reference code gave for it (models/tiny/expected, seed 42): picture byte for
 * byte, tokens, latents, logits and attributes to a relative error of 1e-4, coordinates and faces exactly. A decision whose logit lies
 * within 1e-4 of zero may turn out otherwise: it is listed, and what follows from it is not compared.
 */
#include "support.h"

#include <espalier/espalier.h>

#include "formats/preprocess.h"
#include "formats/weights.h"
#include "pipeline/stages.h"

#include <math.h>

#define TINY       ESPALIER_TEST_DATA "/../models/tiny"
#define TOLERANCE  1e-4
#define KNIFE_EDGE 1e-4f

/* One run of one example, and the intermediate results that the public calls do not show. */
typedef struct fixture {
    espalier_runtime *runtime;
    espalier_context *ctx;
    espalier_model *model;
    espalier_generate_params params;
    const esi_stage_table *real;
    esi_stage_table stages;
    const char *name;
    esi_weight_file *expected;
    float *ss_latent, *ss_logits;
    int64_t ss_cells, ss_side;
    bool turned; /* a knife-edge decision fell the other way */
} fixture;

/* ------------------------------------------------------------- stages that remember */

static espalier_status sample(void *user, espalier_context *ctx, const espalier_model *model, const esi_sample_call *call, float *x)
{
    fixture *f = user;
    espalier_status st = f->real->sample(f->real->user, ctx, model, call, x);
    if (st != ESPALIER_OK || call->role != ESPALIER_ROLE_SS_FLOW) return st;
    f->ss_cells = call->rows;
    f->ss_latent = calloc((size_t)(call->rows * call->channels), sizeof(float));
    for (int64_t n = 0; n < call->rows; n++) /* the reference keeps channels first */
        for (int64_t c = 0; c < call->channels; c++) f->ss_latent[c * call->rows + n] = x[n * call->channels + c];
    return st;
}

static espalier_status decode_structure(void *user, espalier_context *ctx, const espalier_model *model, const float *latent, int64_t R,
                                        float **logits, int64_t *side)
{
    fixture *f = user;
    espalier_status st = f->real->decode_structure(f->real->user, ctx, model, latent, R, logits, side);
    if (st != ESPALIER_OK) return st;
    size_t bytes = (size_t)(*side * *side * *side) * sizeof(float);
    f->ss_side = *side;
    f->ss_logits = malloc(bytes);
    memcpy(f->ss_logits, *logits, bytes);
    return st;
}

/* ------------------------------------------------------------- comparing */

static const esi_file_tensor *wanted(fixture *f, const char *name, int64_t count)
{
    const esi_file_tensor *t = esi_weight_file_find(f->expected, name);
    if (!t) fail_msg("%s: no tensor %s", f->name, name);
    if (esi_file_tensor_count(t) != count)
        fail_msg("%s: %s has %lld values, expected %lld", f->name, name, (long long)count, (long long)esi_file_tensor_count(t));
    return t;
}

/* Relative L2 error against the expected tensor. */
static void check_floats(fixture *f, const char *name, const float *values, int64_t count)
{
    const esi_file_tensor *t = wanted(f, name, count);
    float *expected = NULL;
    double error = 0, norm = 0;
    assert_int_equal(esi_file_tensor_read_f32(f->ctx, f->expected, t, &expected), ESPALIER_OK);
    for (int64_t i = 0; i < count; i++) {
        double d = (double)values[i] - (double)expected[i];
        error += d * d;
        norm += (double)expected[i] * (double)expected[i];
    }
    esi_free(f->ctx, expected);
    double relative = sqrt(error / norm);
    print_message("  %-10s %-16s relative error %.2e\n", f->name, name, relative);
    if (!(relative <= TOLERANCE)) fail_msg("%s: %s: relative error %g", f->name, name, relative);
}

/* Rows of four, stored as int32 or as bytes. */
static void check_rows(fixture *f, const char *name, const int32_t *rows, int64_t count)
{
    const esi_file_tensor *t = wanted(f, name, count * 4);
    int32_t *expected = NULL;
    assert_int_equal(esi_file_tensor_read_i32(f->ctx, f->expected, t, &expected), ESPALIER_OK);
    for (int64_t i = 0; i < count * 4; i++)
        if (rows[i] != expected[i]) fail_msg("%s: %s: row %lld differs", f->name, name, (long long)(i / 4));
    esi_free(f->ctx, expected);
}

/* The same decisions as the expected logits take, but for those within KNIFE_EDGE of zero, which are listed. `stride` and `first` pick the
 * columns of a wider expected tensor. */
static void check_decisions(fixture *f, const char *name, const float *logits, int64_t rows, int columns, int stride, int first)
{
    const esi_file_tensor *t = wanted(f, name, rows * stride);
    float *expected = NULL;
    int64_t near = 0;
    assert_int_equal(esi_file_tensor_read_f32(f->ctx, f->expected, t, &expected), ESPALIER_OK);
    for (int64_t i = 0; i < rows * columns; i++) {
        float e = expected[i / columns * stride + first + i % columns];
        near += fabsf(e) <= KNIFE_EDGE;
        if ((e > 0) == (logits[i] > 0)) continue;
        if (fabsf(e) > KNIFE_EDGE)
            fail_msg("%s: %s: decision %lld: logit %g, expected %g", f->name, name, (long long)i, (double)logits[i], (double)e);
        print_message("  %-10s %-16s decision %lld fell the other way: logit %g, expected %g\n", f->name, name, (long long)i,
                      (double)logits[i], (double)e);
        f->turned = true;
    }
    print_message("  %-10s %-16s %lld decisions alike, %lld of them within 1e-4 of zero\n", f->name, name, (long long)(rows * columns),
                  (long long)near);
    esi_free(f->ctx, expected);
}

static void check_faces(fixture *f, const int32_t *faces, int64_t count)
{
    const esi_file_tensor *t = wanted(f, "faces", count * 3);
    assert_string_equal(t->type_name, "U16");
    const uint8_t *expected = esi_weight_file_data(f->expected, t);
    for (int64_t i = 0; i < count * 3; i++)
        if (faces[i] != expected[2 * i] + 256 * expected[2 * i + 1]) fail_msg("%s: face %lld differs", f->name, (long long)(i / 3));
}

/* ------------------------------------------------------------- one example */

/* What the image encoder sees. */
static void check_picture(fixture *f, const espalier_image *square)
{
    espalier_image resized = {0};
    float *pixels = NULL;
    const esi_file_tensor *t = wanted(f, "image", INT64_C(128) * 128 * 3);
    assert_int_equal(esi_image_condition_pixels(f->ctx, &pixels, square, 128, &resized), ESPALIER_OK);
    assert_int_equal(resized.channels, 3);
    assert_memory_equal(resized.pixels, esi_weight_file_data(f->expected, t), t->size);
    esi_free(f->ctx, pixels);
    espalier_image_free(&resized);
}

static void check_asset(fixture *f, const espalier_asset *asset)
{
    const esi_lineage *l = &asset->lineage;
    const espalier_asset_view v = espalier_asset_get(asset);
    char name[32];

    for (int level = 0; level + 1 < l->levels; level++) {
        const esi_lineage_level *a = &l->level[level];
        snprintf(name, sizeof name, "subdiv_%d_coords", level);
        check_rows(f, name, a->coords.rows, a->coords.count);
        snprintf(name, sizeof name, "subdiv_%d", level);
        check_floats(f, name, a->subdivision_logits, a->coords.count * 8);
        check_decisions(f, name, a->subdivision_logits, a->coords.count, 8, 8, 0);
        if (f->turned) return;
    }
    assert_int_equal(l->levels, 3);
    check_rows(f, "dec_coords", v.voxels, v.vertex_count);
    check_decisions(f, "dec_out", asset->intersection_logits, v.vertex_count, 3, 7, 3);
    check_floats(f, "vertices", v.vertices, v.vertex_count * 3);
    check_floats(f, "pbr", v.attributes, v.vertex_count * 6);
    if (!f->turned) check_faces(f, v.faces, v.face_count);
}

static void run_example(fixture *f, const char *name)
{
    espalier_image picture = {0}, square = {0};
    espalier_condition *cond = NULL;
    espalier_structure *structure = NULL;
    espalier_latent *shape = NULL, *texture = NULL;
    espalier_asset *asset = NULL;
    char path[512];
    int64_t rows = 0, channels = 0;

    f->name = name;
    f->turned = false;
    snprintf(path, sizeof path, TINY "/expected/%s_seed42.safetensors", name);
    assert_int_equal(esi_weight_file_open(f->ctx, &f->expected, path), ESPALIER_OK);
    snprintf(path, sizeof path, TINY "/examples/%s.png", name);
    assert_int_equal(espalier_image_load(f->ctx, &picture, path), ESPALIER_OK);
    assert_int_equal(espalier_preprocess(f->ctx, &square, &picture, NULL, path, NULL), ESPALIER_OK);
    check_picture(f, &square);

    assert_int_equal(espalier_condition_create(f->ctx, &cond, f->model, &square, 0, NULL), ESPALIER_OK);
    const float *tokens = espalier_condition_tokens(cond, 0, &rows, &channels);
    check_floats(f, "cond", tokens, rows * channels);

    assert_int_equal(espalier_structure_create(f->ctx, &structure, f->model, cond, &f->params), ESPALIER_OK);
    check_floats(f, "ss_latent", f->ss_latent, f->ss_cells * 8);
    check_floats(f, "ss_logits", f->ss_logits, f->ss_side * f->ss_side * f->ss_side);
    check_decisions(f, "ss_logits", f->ss_logits, f->ss_side * f->ss_side * f->ss_side, 1, 1, 0);
    if (f->turned) goto done;
    const int32_t *coords = espalier_structure_coords(structure, &rows, NULL);
    check_rows(f, "coords", coords, rows);

    assert_int_equal(espalier_shape_create(f->ctx, &shape, f->model, cond, structure, &f->params), ESPALIER_OK);
    const float *features = espalier_latent_features(shape, &rows, &channels);
    check_floats(f, "shape_slat", features, rows * channels);
    assert_int_equal(espalier_texture_create(f->ctx, &texture, f->model, cond, shape, &f->params), ESPALIER_OK);
    features = espalier_latent_features(texture, &rows, &channels);
    check_floats(f, "tex_slat", features, rows * channels);

    assert_int_equal(espalier_decode(f->ctx, &asset, f->model, shape, texture, &f->params), ESPALIER_OK);
    check_asset(f, asset);
done:
    if (f->turned) print_message("  %-10s NOT compared: what follows from the decisions listed above\n", name);
    espalier_asset_free(asset);
    espalier_latent_free(texture);
    espalier_latent_free(shape);
    espalier_structure_free(structure);
    espalier_condition_free(cond);
    espalier_image_free(&square);
    espalier_image_free(&picture);
    esi_weight_file_free(f->expected);
    free(f->ss_latent);
    free(f->ss_logits);
    f->ss_latent = f->ss_logits = NULL;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options options = espalier_runtime_options_default();
    assert_int_equal(espalier_runtime_create(&f->runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    assert_int_equal(espalier_model_open(f->ctx, &f->model, TINY, NULL), ESPALIER_OK);
    f->params = espalier_generate_params_default(f->model);
    f->real = esi_stages(f->ctx);
    f->stages = *f->real; /* the real stages have no use for `user` */
    f->stages.user = f;
    f->stages.sample = sample;
    f->stages.decode_structure = decode_structure;
    f->ctx->stages = &f->stages;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    espalier_model_free(f->model);
    assert_int_equal(espalier_context_memory_now(f->ctx), 0);
    espalier_context_free(f->ctx);
    espalier_runtime_free(f->runtime);
    free(f);
    return 0;
}

static void bottle(void **state)
{
    run_example(*state, "bottle_1");
}

static void robot(void **state)
{
    run_example(*state, "robot_1");
}

static void rocket(void **state)
{
    run_example(*state, "rocket_1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(bottle, setup, teardown),
                                       cmocka_unit_test_setup_teardown(robot, setup, teardown),
                                       cmocka_unit_test_setup_teardown(rocket, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
