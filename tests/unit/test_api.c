/* SPDX-License-Identifier: MIT
 *
 * test_api.c: the contract of the public calls: missing arguments, models of which parts are missing, results that are saved and loaded,
 * damaged result files, what inspect makes of hostile files. Runs the micro model of the golden cases.
 */
#include "support.h"

#include <espalier/espalier.h>

#include "formats/weights.h"
#include "pipeline/results.h"

#define MODEL ESPALIER_TEST_DATA "/golden/micro_model"

typedef struct fixture {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
    espalier_model *model;
    espalier_generate_params params;
    char *dir;
    char path[1024];
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    espalier_runtime_options options = espalier_runtime_options_default();
    options.threads = 2;
    options.allocator = (espalier_allocator){&f->memory, test_allocate, test_release};
    assert_int_equal(espalier_runtime_create(&f->runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&f->ctx, f->runtime), ESPALIER_OK);
    assert_int_equal(espalier_model_open(f->ctx, &f->model, MODEL, NULL), ESPALIER_OK);
    f->params = espalier_generate_params_default(f->model);
    f->dir = test_dir_make();
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
    assert_int_equal(atomic_load(&f->memory.live_blocks), 0);
    test_dir_remove(f->dir);
    free(f->dir);
    free(f);
    return 0;
}

static const char *at(fixture *f, const char *name)
{
    return test_path(f->path, f->dir, name);
}

static void put_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* A disc of two colours on a clear ground. */
static void draw(fixture *f, espalier_image *picture)
{
    assert_int_equal(espalier_image_create(f->ctx, picture, 48, 40, 4), ESPALIER_OK);
    for (uint32_t y = 0; y < 40; y++) {
        for (uint32_t x = 0; x < 48; x++) {
            uint8_t *p = picture->pixels + 4 * (y * 48 + x);
            int dx = (int)x - 24, dy = (int)y - 20;
            if (dx * dx + dy * dy > 15 * 15) continue;
            p[0] = (uint8_t)(x * 5);
            p[1] = (uint8_t)(y * 6);
            p[2] = dx > 0 ? 200 : 40;
            p[3] = 255;
        }
    }
}

typedef struct run {
    espalier_condition *cond;
    espalier_structure *structure;
    espalier_latent *shape, *texture;
    espalier_asset *asset;
} run;

static void run_all(fixture *f, run *r)
{
    espalier_image picture, square;
    draw(f, &picture);
    assert_int_equal(espalier_preprocess(f->ctx, &square, &picture, NULL, NULL, NULL), ESPALIER_OK);
    assert_int_equal(espalier_condition_create(f->ctx, &r->cond, f->model, &square, 0, NULL), ESPALIER_OK);
    assert_int_equal(espalier_structure_create(f->ctx, &r->structure, f->model, r->cond, &f->params), ESPALIER_OK);
    assert_int_equal(espalier_shape_create(f->ctx, &r->shape, f->model, r->cond, r->structure, &f->params), ESPALIER_OK);
    assert_int_equal(espalier_texture_create(f->ctx, &r->texture, f->model, r->cond, r->shape, &f->params), ESPALIER_OK);
    assert_int_equal(espalier_decode(f->ctx, &r->asset, f->model, r->shape, r->texture, &f->params), ESPALIER_OK);
    espalier_image_free(&picture);
    espalier_image_free(&square);
}

static void free_all(run *r)
{
    espalier_condition_free(r->cond);
    espalier_structure_free(r->structure);
    espalier_latent_free(r->shape);
    espalier_latent_free(r->texture);
    espalier_asset_free(r->asset);
}

/* ---------------------------------------------------------------- arguments */

#define REFUSED(call) assert_int_equal(call, ESPALIER_ERR_ARG)

static void null_arguments_of_runtimes(void **state)
{
    espalier_runtime_options unmade = {0};
    espalier_runtime *runtime = (espalier_runtime *)(void *)state;
    espalier_context *ctx = (espalier_context *)(void *)state;
    espalier_cpu_level level = ESPALIER_CPU_GENERIC;
    REFUSED(espalier_runtime_create(NULL, NULL));
    REFUSED(espalier_runtime_create(&runtime, &unmade));
    assert_null(runtime);
    REFUSED(espalier_cpu_level_parse(NULL, "generic"));
    REFUSED(espalier_cpu_level_parse(&level, NULL));
    assert_int_equal(espalier_runtime_threads(NULL), 0);
    assert_int_equal(espalier_runtime_cpu_level(NULL), 0);
    espalier_runtime_free(NULL);
    REFUSED(espalier_context_create(NULL, NULL));
    REFUSED(espalier_context_create(&ctx, NULL));
    assert_null(ctx);
}

/* A program built against an older header: what its struct lacks has the default. */
static void short_runtime_options(void **state)
{
    espalier_runtime_options o = espalier_runtime_options_default();
    espalier_runtime *runtime;
    (void)state;
    o.threads = 3;
    o.struct_size = offsetof(espalier_runtime_options, cpu_level);
    o.cpu_level = (espalier_cpu_level)99;
    memset(&o.allocator, 0xa5, sizeof o.allocator);
    assert_int_equal(espalier_runtime_create(&runtime, &o), ESPALIER_OK);
    assert_int_equal(espalier_runtime_threads(runtime), 3);
    espalier_runtime_free(runtime);
}

static void null_arguments_of_models(void **state)
{
    fixture *f = *state;
    espalier_model *model = (espalier_model *)(void *)f;
    espalier_model_options empty = {0};
    espalier_pipeline_type type;
    uint64_t bytes = 1;
    REFUSED(espalier_model_open(f->ctx, &model, NULL, NULL));
    assert_null(model);
    assert_non_null(strstr(espalier_error_message(f->ctx), "espalier_model_open"));
    REFUSED(espalier_model_open(f->ctx, NULL, MODEL, NULL));
    REFUSED(espalier_model_open(NULL, &model, MODEL, NULL));
    REFUSED(espalier_model_open(f->ctx, &model, MODEL, &empty));
    REFUSED(espalier_model_require(f->ctx, NULL, ESPALIER_PIPELINE_512, 1));
    REFUSED(espalier_model_require(NULL, f->model, ESPALIER_PIPELINE_512, 1));
    REFUSED(espalier_pipeline_parse(&type, NULL));
    REFUSED(espalier_pipeline_parse(NULL, "512"));
    REFUSED(espalier_memory_plan(f->ctx, NULL, &f->params, &bytes));
    assert_int_equal(bytes, 0);
    REFUSED(espalier_memory_plan(f->ctx, f->model, NULL, NULL));
    assert_null(espalier_model_retain(NULL));
    assert_null(espalier_model_directory(NULL));
    assert_null(espalier_model_role_path(NULL, ESPALIER_ROLE_SS_FLOW));
    assert_int_equal(espalier_model_role_parameters(NULL, ESPALIER_ROLE_SS_FLOW), 0);
    assert_int_equal(espalier_model_default_pipeline(NULL), ESPALIER_PIPELINE_1024_CASCADE);
    assert_int_equal(espalier_model_is_complete(NULL, MODEL), 0);
    assert_int_equal(espalier_model_is_complete(f->ctx, NULL), 0);
    assert_int_equal(espalier_model_is_complete(f->ctx, MODEL), 1);
    assert_int_equal(espalier_generate_params_default(NULL).structure.steps, 12);
    espalier_model_free(NULL);
}

static void null_arguments_of_stages(void **state)
{
    fixture *f = *state;
    run r;
    void *out = f;
    espalier_condition **cond = (espalier_condition **)&out;
    espalier_structure **structure = (espalier_structure **)&out;
    espalier_latent **latent = (espalier_latent **)&out;
    espalier_asset **asset = (espalier_asset **)&out;
    espalier_image image;
    int64_t count = 1;
    run_all(f, &r);
    draw(f, &image);

    REFUSED(espalier_preprocess(f->ctx, NULL, &image, NULL, NULL, NULL));
    REFUSED(espalier_condition_create(f->ctx, cond, f->model, NULL, 0, NULL));
    assert_null(out);
    REFUSED(espalier_condition_create(f->ctx, cond, NULL, &image, 0, NULL));
    REFUSED(espalier_structure_create(f->ctx, structure, f->model, NULL, &f->params));
    REFUSED(espalier_structure_create(f->ctx, structure, f->model, r.cond, NULL));
    REFUSED(espalier_structure_create(f->ctx, NULL, f->model, r.cond, &f->params));
    REFUSED(espalier_shape_create(f->ctx, latent, f->model, r.cond, NULL, &f->params));
    REFUSED(espalier_shape_create(f->ctx, latent, NULL, r.cond, r.structure, &f->params));
    REFUSED(espalier_texture_create(f->ctx, latent, f->model, r.cond, NULL, &f->params));
    REFUSED(espalier_texture_create(f->ctx, latent, f->model, NULL, r.shape, &f->params));
    REFUSED(espalier_decode(f->ctx, asset, f->model, NULL, NULL, &f->params));
    REFUSED(espalier_decode(f->ctx, NULL, f->model, r.shape, NULL, &f->params));
    REFUSED(espalier_finish(f->ctx, NULL, &f->params));
    REFUSED(espalier_finish(f->ctx, r.asset, NULL));
    REFUSED(espalier_generate(f->ctx, asset, f->model, NULL, NULL, NULL, &f->params));
    REFUSED(espalier_generate(f->ctx, asset, NULL, &image, NULL, NULL, &f->params));
    REFUSED(espalier_generate(NULL, asset, f->model, &image, NULL, NULL, &f->params));

    REFUSED(espalier_condition_save(f->ctx, NULL, "x"));
    REFUSED(espalier_structure_save(f->ctx, r.structure, NULL));
    REFUSED(espalier_latent_save(f->ctx, NULL, "x"));
    REFUSED(espalier_condition_load(f->ctx, NULL, "x"));
    REFUSED(espalier_structure_load(f->ctx, structure, NULL));
    REFUSED(espalier_latent_load(NULL, latent, "x"));
    REFUSED(espalier_asset_save_glb(f->ctx, r.asset, NULL));
    REFUSED(espalier_asset_dump(f->ctx, NULL, "x"));

    assert_null(espalier_condition_tokens(NULL, 0, &count, NULL));
    assert_int_equal(count, 0);
    assert_null(espalier_condition_tokens(r.cond, 1, &count, NULL));
    assert_null(espalier_structure_coords(NULL, NULL, NULL));
    assert_null(espalier_latent_features(NULL, NULL, NULL));
    assert_null(espalier_latent_coords(NULL, NULL, NULL));
    assert_int_equal(espalier_asset_get(NULL).vertex_count, 0);
    free_all(&r);
    free_all(&(run){0});
    espalier_image_free(&image);
}

static void null_arguments_of_reports(void **state)
{
    fixture *f = *state;
    espalier_report *report;
    const char *json = "x";
    char *text = f->dir;
    REFUSED(espalier_report_create(f->ctx, NULL));
    REFUSED(espalier_report_create(NULL, &report));
    REFUSED(espalier_report_json(f->ctx, NULL, &json));
    assert_null(json);
    REFUSED(espalier_report_save(f->ctx, NULL, "x"));
    assert_int_equal(espalier_report_create(f->ctx, &report), ESPALIER_OK);
    REFUSED(espalier_report_json(f->ctx, report, NULL));
    REFUSED(espalier_report_save(f->ctx, report, NULL));
    espalier_report_free(report);
    espalier_report_free(NULL);
    REFUSED(espalier_inspect(f->ctx, NULL, &text));
    assert_null(text);
    REFUSED(espalier_inspect(f->ctx, MODEL, NULL));
    REFUSED(espalier_inspect_text(NULL, MODEL, &text));
    REFUSED(espalier_devices(f->ctx, NULL));
    espalier_text_free(f->ctx, NULL);
    espalier_text_free(NULL, NULL);
}

/* ---------------------------------------------------------------- partial models */

static void stages_of_a_partial_model(void **state)
{
    fixture *f = *state;
    char ckpts[1024], from[1024];
    run r, partial = {0};
    espalier_model *model;
    run_all(f, &r);

    /* Only pipeline.json and the image encoder: every later stage says what is missing. */
    snprintf(from, sizeof from, "%s/pipeline.json", MODEL);
    assert_int_equal(symlink(from, at(f, "pipeline.json")), 0);
    snprintf(ckpts, sizeof ckpts, "%s/dinov3-micro", MODEL);
    assert_int_equal(symlink(ckpts, at(f, "dinov3-micro")), 0);
    assert_int_equal(espalier_model_open(f->ctx, &model, f->dir, NULL), ESPALIER_OK);
    assert_int_equal(espalier_structure_create(f->ctx, &partial.structure, model, r.cond, &f->params), ESPALIER_ERR_MODEL);
    assert_non_null(strstr(espalier_error_message(f->ctx), "sparse_structure_flow_model"));
    assert_int_equal(espalier_shape_create(f->ctx, &partial.shape, model, r.cond, r.structure, &f->params), ESPALIER_ERR_MODEL);
    assert_int_equal(espalier_texture_create(f->ctx, &partial.texture, model, r.cond, r.shape, &f->params), ESPALIER_ERR_MODEL);
    assert_int_equal(espalier_decode(f->ctx, &partial.asset, model, r.shape, NULL, &f->params), ESPALIER_ERR_MODEL);
    assert_null(partial.structure);
    assert_null(partial.asset);
    assert_int_equal(espalier_model_is_complete(f->ctx, f->dir), 0);
    espalier_model_free(model);
    free_all(&r);
}

/* ---------------------------------------------------------------- saved results */

static void assert_same_latent(const espalier_latent *a, const espalier_latent *b)
{
    assert_int_equal(a->coords.count, b->coords.count);
    assert_memory_equal(a->coords.rows, b->coords.rows, (size_t)a->coords.count * 16);
    assert_memory_equal(a->features, b->features, (size_t)a->coords.count * 32 * sizeof(float));
    assert_int_equal(a->resolution, b->resolution);
    assert_int_equal(a->texture, b->texture);
}

/* A run that goes on from saved results gives the bits of one that was never interrupted. */
static void resumed_runs_are_equal(void **state)
{
    fixture *f = *state;
    run r, again = {0};
    run_all(f, &r);
    assert_int_equal(espalier_condition_save(f->ctx, r.cond, at(f, "condition")), ESPALIER_OK);
    assert_int_equal(espalier_condition_load(f->ctx, &again.cond, f->path), ESPALIER_OK);
    assert_int_equal(espalier_structure_save(f->ctx, r.structure, at(f, "structure")), ESPALIER_OK);
    assert_int_equal(espalier_structure_load(f->ctx, &again.structure, f->path), ESPALIER_OK);
    assert_int_equal(espalier_shape_create(f->ctx, &again.shape, f->model, again.cond, again.structure, &f->params), ESPALIER_OK);
    assert_same_latent(again.shape, r.shape);
    espalier_latent_free(again.shape);
    assert_int_equal(espalier_latent_save(f->ctx, r.shape, at(f, "shape")), ESPALIER_OK);
    assert_int_equal(espalier_latent_load(f->ctx, &again.shape, f->path), ESPALIER_OK);
    assert_same_latent(again.shape, r.shape);
    assert_int_equal(espalier_texture_create(f->ctx, &again.texture, f->model, again.cond, again.shape, &f->params), ESPALIER_OK);
    assert_same_latent(again.texture, r.texture);
    assert_int_equal(espalier_decode(f->ctx, &again.asset, f->model, again.shape, again.texture, &f->params), ESPALIER_OK);
    assert_int_equal(again.asset->data.n_faces, r.asset->data.n_faces);
    assert_memory_equal(again.asset->vertices, r.asset->vertices, (size_t)r.asset->data.n_vertices * 12);
    assert_memory_equal(again.asset->attributes, r.asset->attributes, (size_t)r.asset->data.n_voxels * 24);
    free_all(&r);
    free_all(&again);
}

/* Both passes of a cascade decide; the report tells about each of their decisions. */
static void cascades_report_both_passes(void **state)
{
    fixture *f = *state;
    static const char flow[] = MODEL "/ckpts/slat_flow_img2shape_dit_micro_bf16.safetensors";
    const char *const overrides[] = {"shape_slat_flow_model_1024", flow, NULL};
    espalier_model_options options = espalier_model_options_default();
    espalier_model *model;
    espalier_asset *asset;
    espalier_report *report;
    espalier_image picture;
    const char *json;
    options.overrides = overrides;
    draw(f, &picture);
    assert_int_equal(espalier_model_open(f->ctx, &model, MODEL, &options), ESPALIER_OK);
    assert_int_equal(espalier_report_create(f->ctx, &report), ESPALIER_OK);
    espalier_generate_params p = espalier_generate_params_default(model);
    p.pipeline = ESPALIER_PIPELINE_1024_CASCADE;
    p.with_texture = 0;
    p.force = 1;
    p.report = report;
    assert_int_equal(espalier_generate(f->ctx, &asset, model, &picture, NULL, NULL, &p), ESPALIER_OK);
    assert_int_equal(espalier_asset_get(asset).resolution, 128);
    assert_int_equal(espalier_report_json(f->ctx, report, &json), ESPALIER_OK);
    for (int level = 0; level < 4; level++) {
        char first[40], second[40];
        snprintf(first, sizeof first, "\"cascade.subdivision.%d\"", level);
        snprintf(second, sizeof second, "\"subdivision.%d\"", level);
        assert_non_null(strstr(json, first));
        assert_non_null(strstr(json, second));
    }
    espalier_asset_free(asset);
    espalier_report_free(report);
    espalier_model_free(model);
    espalier_image_free(&picture);
}

static void refused_latent(fixture *f, const espalier_latent *l, espalier_status load_status)
{
    espalier_latent *back;
    assert_int_equal(espalier_latent_save(f->ctx, l, at(f, "latent")), ESPALIER_OK);
    assert_int_equal(espalier_latent_load(f->ctx, &back, f->path), load_status);
    assert_null(back);
    assert_true(strncmp(espalier_error_message(f->ctx), f->path, strlen(f->path)) == 0);
}

/* Whatever is wrong with a saved result is wrong with an input, not with a model or the library. */
static void damaged_results(void **state)
{
    fixture *f = *state;
    run r;
    espalier_structure *back;
    espalier_asset *asset;
    run_all(f, &r);
    int32_t kept = r.shape->coords.rows[3];
    r.shape->coords.rows[3] = 64;                                 /* outside the grid */
    refused_latent(f, r.shape, ESPALIER_ERR_INPUT);
    memcpy(r.shape->coords.rows + 4, r.shape->coords.rows, 16);   /* one cell twice */
    r.shape->coords.rows[3] = r.shape->coords.rows[7] = kept;
    refused_latent(f, r.shape, ESPALIER_ERR_INPUT);

    const float wrong[4] = {0};
    const esi_safetensors_entry e[] = {{.name = "grid", .dtype = ESI_FILE_F32, .rank = 1, .shape = {1}, .data = wrong}};
    assert_int_equal(esi_safetensors_write(f->ctx, at(f, "wrong"), e, 1, NULL, NULL, NULL), ESPALIER_OK);
    assert_int_equal(espalier_structure_load(f->ctx, &back, f->path), ESPALIER_ERR_INPUT);      /* found F32, expected integers */
    put_file(at(f, "text"), "no result", 9);
    assert_int_equal(espalier_structure_load(f->ctx, &back, f->path), ESPALIER_ERR_INPUT);
    assert_int_equal(espalier_structure_load(f->ctx, &back, at(f, "absent")), ESPALIER_ERR_INPUT);
    assert_null(back);

    /* Inside its grid, but beyond the cells of this model: refused before any work. */
    r.texture->texture = false;
    r.texture->coords.rows[3] = 4;
    assert_int_equal(espalier_decode(f->ctx, &asset, f->model, r.texture, NULL, &f->params), ESPALIER_ERR_ARG);
    assert_null(asset);
    free_all(&r);
}

/* ---------------------------------------------------------------- inspect */

static void put_u32(uint8_t *p, size_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static void put_glb(const char *path, const char *json)
{
    size_t len = strlen(json);
    uint8_t *bytes = malloc(20 + len);
    assert_non_null(bytes);
    memcpy(bytes, "glTF", 4);
    put_u32(bytes + 4, 2);
    put_u32(bytes + 8, 20 + len);
    put_u32(bytes + 12, len);
    memcpy(bytes + 16, "JSON", 4);
    memcpy(bytes + 20, json, len);
    put_file(path, bytes, 20 + len);
    free(bytes);
}

static void inspect_hostile_glb(void **state)
{
    fixture *f = *state;
    char *text;
    /* Counts whose sum does not fit into 64 bits, and one below zero. */
    put_glb(at(f, "counts.glb"), "{\"meshes\":[{\"primitives\":[{\"attributes\":{\"POSITION\":0},\"indices\":1},"
                                 "{\"attributes\":{\"POSITION\":0},\"indices\":2}]}],"
                                 "\"accessors\":[{\"count\":9223372036854775807},{\"count\":6},{\"count\":-3}]}");
    assert_int_equal(espalier_inspect(f->ctx, f->path, &text), ESPALIER_OK);
    assert_non_null(strstr(text, "\"vertices\": 0"));
    assert_non_null(strstr(text, "\"triangles\": 2"));
    espalier_text_free(f->ctx, text);

    /* The form for people must not let a file write to the terminal. */
    put_glb(at(f, "escape.glb"), "{\"asset\":{\"generator\":\"a\\u001b[31mb\\u009bc\",\"extras\":{\"k\\u0007\":\"v\\r\"}}}");
    assert_int_equal(espalier_inspect_text(f->ctx, f->path, &text), ESPALIER_OK);
    for (const char *c = text; *c; c++) assert_true((*c >= 0x20 && *c < 0x7f) || *c == '\n');
    assert_non_null(strstr(text, "a?[31mb??c"));
    espalier_text_free(f->ctx, text);
}

/* Reading members must not take quadratic time: a hostile file has a hundred thousand of them. */
static void inspect_many_members(void **state)
{
    enum { MEMBERS = 100000 };
    fixture *f = *state;
    char *text, *json = malloc(MEMBERS * 16 + 100), *end = json;
    assert_non_null(json);
    end += sprintf(end, "{\"asset\":{\"extras\":{\"first\":1");
    for (int i = 0; i < MEMBERS; i++) end += sprintf(end, ",\"k%d\":1", i);
    strcpy(end, "}}}");
    put_glb(at(f, "many.glb"), json);
    double start = esi_cpu_seconds();
    assert_int_equal(espalier_inspect_text(f->ctx, f->path, &text), ESPALIER_OK);
    assert_true(esi_cpu_seconds() - start < 5.0);
    assert_non_null(strstr(text, "k99999: 1\n"));
    espalier_text_free(f->ctx, text);
    free(json);
}

static void inspect_obeys_the_limit(void **state)
{
    fixture *f = *state;
    char *text;
    espalier_limits limits = espalier_limits_default();
    limits.max_file_bytes = 100;
    put_glb(at(f, "a.glb"), "{\"asset\":{\"generator\":\"0123456789012345678901234567890123456789012345678901234567890123456789\"}}");
    assert_int_equal(espalier_inspect(f->ctx, f->path, &text), ESPALIER_OK);
    espalier_text_free(f->ctx, text);
    espalier_context_set_limits(f->ctx, &limits);
    assert_int_equal(espalier_inspect(f->ctx, f->path, &text), ESPALIER_ERR_RESOURCE);
    assert_null(text);
}

static void failing_allocations_of_texts(void **state)
{
    fixture *f = *state;
    char *text;
    size_t blocks = atomic_load(&f->memory.live_blocks);
    for (int what = 0; what < 3; what++) {
        for (long n = 1;; n++) {
            test_fail_at(&f->memory, n);
            espalier_status st = what == 0   ? espalier_devices(f->ctx, &text)
                                 : what == 1 ? espalier_inspect(f->ctx, MODEL "/ckpts/ss_flow_img_dit_micro_bf16.safetensors", &text)
                                             : espalier_inspect_text(f->ctx, MODEL, &text);
            test_fail_at(&f->memory, 0);
            if (st == ESPALIER_OK) espalier_text_free(f->ctx, text);
            else assert_null(text);
            assert_int_equal(atomic_load(&f->memory.live_blocks), blocks);
            assert_int_equal(espalier_context_memory_now(f->ctx), 0);
            if (st == ESPALIER_OK) break;
            assert_int_equal(st, ESPALIER_ERR_RESOURCE);
            assert_true(espalier_error_message(f->ctx)[0] != 0);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_arguments_of_runtimes),
        cmocka_unit_test(short_runtime_options),
        TEST(null_arguments_of_models),
        TEST(null_arguments_of_stages),
        TEST(null_arguments_of_reports),
        TEST(stages_of_a_partial_model),
        TEST(resumed_runs_are_equal),
        TEST(cascades_report_both_passes),
        TEST(damaged_results),
        TEST(inspect_hostile_glb),
        TEST(inspect_many_members),
        TEST(inspect_obeys_the_limit),
        TEST(failing_allocations_of_texts),
    };
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
