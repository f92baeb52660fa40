/* SPDX-License-Identifier: MIT
 *
 * Structure, shape and texture decoders beyond the golden cases: results do not depend on chunks, budget or threads; hyper-parameters from
 * shapes equal those of the json; GGUF folding; damaged models and configs; decisions that leave nothing; the memory plan; failing
 * allocations.
 */
#include "support.h"

#include "models/networks.h"
#include "models/sparse_blocks.h"

#include <math.h>

#define GOLDEN ESPALIER_TEST_DATA "/golden/"
#define MODEL  GOLDEN "random_model/ckpts/"
#define MICRO  GOLDEN "micro_model/ckpts/"
#define SHAPE  "shape_dec_next_dc_f16c32_fp16"
#define TEX    "tex_dec_next_dc_f16c32_fp16"
#define SS     "ss_dec_conv3d_16l8_fp16"

/* ------------------------------------------------------------------ fixture */

typedef struct job {
    test_allocator memory;
    espalier_runtime *runtime;
    espalier_context *ctx;
} job;

static void job_open(job *j, int threads)
{
    espalier_runtime_options options = espalier_runtime_options_default();
    memset(j, 0, sizeof *j);
    options.threads = threads;
    options.allocator = (espalier_allocator){&j->memory, test_allocate, test_release};
    assert_int_equal(espalier_runtime_create(&j->runtime, &options), ESPALIER_OK);
    assert_int_equal(espalier_context_create(&j->ctx, j->runtime), ESPALIER_OK);
}

static void job_close(job *j)
{
    assert_int_equal(espalier_context_memory_now(j->ctx), 0);
    espalier_context_free(j->ctx);
    espalier_runtime_free(j->runtime);
    assert_int_equal(atomic_load(&j->memory.live_blocks), 0);
}

static void must(job *j, espalier_status st)
{
    if (st != ESPALIER_OK) fail_msg("%s: %s", espalier_status_name(st), espalier_error_message(j->ctx));
}

static void must_fail(job *j, espalier_status st, espalier_status expected, const char *text)
{
    if (st != expected || strstr(espalier_error_message(j->ctx), text) == NULL)
        fail_msg("%s: \"%s\", expected %s with \"%s\"", espalier_status_name(st), espalier_error_message(j->ctx),
                 espalier_status_name(expected), text);
    esi_clear_error(j->ctx);
}

/* Pseudo-random numbers in [-scale, scale): a 64-bit congruential generator. */
static float next_value(uint64_t *state, float scale)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((float)(*state >> 40) / 8388608.0f - 1.0f) * scale;
}

/* A ball's surface on a grid of `side` cells. */
static void make_shell(job *j, esi_coords *coords, int side)
{
    int32_t *rows = malloc(sizeof *rows * 4 * (size_t)(side * side * side));
    int64_t n = 0;
    const double middle = 0.5 * (side - 1), radius = 0.42 * side;
    assert_non_null(rows);
    for (int x = 0; x < side; x++) {
        for (int y = 0; y < side; y++) {
            for (int z = 0; z < side; z++) {
                const double d = sqrt((x - middle) * (x - middle) + (y - middle) * (y - middle) + (z - middle) * (z - middle));
                if (fabs(d - radius) > 0.6) continue;
                const int32_t row[4] = {0, x, y, z};
                memcpy(rows + 4 * n++, row, sizeof row);
            }
        }
    }
    must(j, esi_coords_copy(j->ctx, coords, rows, n));
    free(rows);
}

static void make_latent(job *j, esi_tensor *latent, int64_t rows, int64_t cols)
{
    float *values = malloc(sizeof *values * (size_t)(rows * cols));
    uint64_t state = 7;
    assert_non_null(values);
    for (int64_t i = 0; i < rows * cols; i++) values[i] = next_value(&state, 1.5f);
    must(j, esi_tensor_from(j->ctx, latent, rows, cols, ESI_F32, values));
    free(values);
}

static espalier_status open_sparse(job *j, esi_sparse_decoder **m, const char *stem, bool with_config)
{
    char path[1024];
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    snprintf(path, sizeof path, "%s.safetensors", stem);
    espalier_status st = esi_weight_file_open(j->ctx, &file, path);
    if (st != ESPALIER_OK) return st;
    snprintf(path, sizeof path, "%s.json", stem);
    if (with_config) st = esi_json_load(j->ctx, &config, path, ESPALIER_ERR_MODEL);
    if (st == ESPALIER_OK)
        st = esi_sparse_decoder_open(j->ctx, m, file, config);
    else
        esi_weight_file_free(file);
    esi_json_free(config);
    return st;
}

/* ------------------------------------------------- chunks, budget and threads */

typedef struct decoded {
    int64_t rows;
    float *shape, *tex; /* [rows, 7], [rows, 6] */
    int32_t *coords;    /* [rows, 4] */
    float *logits;      /* of the last up block */
    int64_t parents;
    uint64_t peak;
} decoded;

static void *copy_of(const void *data, size_t size)
{
    void *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, data, size);
    return copy;
}

static decoded decode_both(int threads, uint64_t budget, int side)
{
    job j;
    decoded d = {0};
    esi_sparse_decoder *shape = NULL, *tex = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent, head, attributes;
    job_open(&j, threads);
    must(&j, open_sparse(&j, &shape, MODEL SHAPE, true));
    must(&j, open_sparse(&j, &tex, MODEL TEX, true));
    make_shell(&j, &coords, side);
    espalier_context_set_memory_budget(j.ctx, budget);
    esi_scope scope = esi_scope_begin(j.ctx);
    make_latent(&j, &latent, coords.count, 32);
    esi_memory_reset_high_water(j.ctx);
    must(&j, esi_sparse_decoder_forward(j.ctx, shape, &head, &lineage, latent, &coords, 4));
    d.peak = esi_memory_high_water(j.ctx);
    must(&j, esi_sparse_decoder_forward(j.ctx, tex, &attributes, &lineage, latent, &coords, 4));
    d.rows = head.rows;
    d.shape = malloc(sizeof(float) * (size_t)(head.rows * 7));
    d.tex = malloc(sizeof(float) * (size_t)(head.rows * 6));
    assert_true(d.shape && d.tex && attributes.rows == head.rows && lineage.levels == 5);
    must(&j, esi_tensor_read(j.ctx, head, d.shape));
    must(&j, esi_tensor_read(j.ctx, attributes, d.tex));
    d.parents = lineage.level[3].coords.count;
    d.coords = copy_of(lineage.level[4].coords.rows, sizeof(int32_t) * 4 * (size_t)d.rows);
    d.logits = copy_of(lineage.level[3].subdivision_logits, sizeof(float) * 8 * (size_t)d.parents);
    esi_scope_end(j.ctx, scope);
    esi_lineage_free(j.ctx, &lineage);
    esi_coords_free(j.ctx, &coords);
    esi_sparse_decoder_free(j.ctx, shape);
    esi_sparse_decoder_free(j.ctx, tex);
    job_close(&j);
    return d;
}

static void assert_same(const decoded *a, const decoded *b)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->parents, b->parents);
    assert_memory_equal(a->coords, b->coords, sizeof(int32_t) * 4 * (size_t)a->rows);
    assert_memory_equal(a->logits, b->logits, sizeof(float) * 8 * (size_t)a->parents);
    assert_memory_equal(a->shape, b->shape, sizeof(float) * 7 * (size_t)a->rows);
    assert_memory_equal(a->tex, b->tex, sizeof(float) * 6 * (size_t)a->rows);
}

static void free_decoded(decoded *d)
{
    free(d->shape);
    free(d->tex);
    free(d->coords);
    free(d->logits);
}

/* 32 MiB chunks hold everything here; a budget makes them so small that every chunked step takes several. */
static void test_same_bits_under_budget_and_threads(void **state)
{
    (void)state;
    decoded plain = decode_both(1, 0, 12), threads = decode_both(2, 0, 12), five = decode_both(5, 0, 12);
    const uint64_t budget = plain.peak + plain.peak / 8;
    decoded small = decode_both(1, budget, 12), small2 = decode_both(2, budget, 12);
    assert_true(plain.rows > 50000);
    assert_true(esi_chunk_bytes(budget) * 3 < (uint64_t)plain.parents * 64 * sizeof(float));
    assert_true(small.peak <= budget);
    assert_same(&plain, &threads);
    assert_same(&plain, &five);
    assert_same(&plain, &small);
    assert_same(&plain, &small2);
    free_decoded(&plain);
    free_decoded(&threads);
    free_decoded(&five);
    free_decoded(&small);
    free_decoded(&small2);
}

static void test_budget_too_small_is_a_clean_error(void **state)
{
    (void)state;
    job j;
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent, head;
    job_open(&j, 1);
    must(&j, open_sparse(&j, &m, MODEL SHAPE, true));
    make_shell(&j, &coords, 12);
    espalier_context_set_memory_budget(j.ctx, 4 << 20);
    esi_scope scope = esi_scope_begin(j.ctx);
    make_latent(&j, &latent, coords.count, 32);
    must_fail(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &lineage, latent, &coords, 4), ESPALIER_ERR_RESOURCE, "");
    assert_true(esi_tensor_is_null(head));
    esi_scope_end(j.ctx, scope);
    esi_lineage_free(j.ctx, &lineage);
    esi_coords_free(j.ctx, &coords);
    esi_sparse_decoder_free(j.ctx, m);
    job_close(&j);
}

static void test_chunk_rows(void **state)
{
    (void)state;
    assert_int_equal(esi_chunk_bytes(0), 32 << 20);
    assert_int_equal(esi_chunk_bytes(UINT64_MAX), 32 << 20);
    assert_int_equal(esi_chunk_bytes(64 << 20), 2 << 20);
    assert_int_equal(esi_chunk_bytes(1), 256 << 10);
}

/* ------------------------------------------------------------- memory plan */

static void test_plan_bounds_the_peak(void **state)
{
    (void)state;
    job j;
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent, head;
    int64_t rows[ESI_MAX_LEVELS] = {0};
    job_open(&j, 2);
    must(&j, open_sparse(&j, &m, MODEL SHAPE, true));
    make_shell(&j, &coords, 32);
    esi_scope scope = esi_scope_begin(j.ctx);
    make_latent(&j, &latent, coords.count, 32);
    const uint64_t before = espalier_context_memory_now(j.ctx) - (uint64_t)coords.count * 32 * sizeof(float);
    esi_memory_reset_high_water(j.ctx);
    must(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &lineage, latent, &coords, 4));
    const uint64_t peak = esi_memory_high_water(j.ctx) - before;
    for (int i = 0; i < lineage.levels; i++) rows[i] = lineage.level[i].coords.count;
    const uint64_t plan = esi_sparse_decoder_memory_plan(esi_sparse_decoder_get_config(m), rows, 0);
    print_message("%lld voxels: peak %llu, plan %llu\n", (long long)rows[4], (unsigned long long)peak, (unsigned long long)plan);
    assert_true(peak <= plan);
    assert_true(plan <= peak + peak / 4);
    esi_scope_end(j.ctx, scope);
    esi_lineage_free(j.ctx, &lineage);
    esi_coords_free(j.ctx, &coords);
    esi_sparse_decoder_free(j.ctx, m);
    job_close(&j);
}

/* ----------------------------------------------------------- upsample, guides */

static void test_upsample_equals_whole_run(void **state)
{
    (void)state;
    job j;
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage whole = {0}, part = {0};
    esi_tensor latent, head;
    job_open(&j, 1);
    must(&j, open_sparse(&j, &m, MODEL SHAPE, true));
    make_shell(&j, &coords, 6);
    esi_scope scope = esi_scope_begin(j.ctx);
    make_latent(&j, &latent, coords.count, 32);
    must(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &whole, latent, &coords, 4));
    for (int k = 0; k <= 4; k++) {
        must(&j, esi_sparse_decoder_forward(j.ctx, m, NULL, &part, latent, &coords, k));
        assert_int_equal(part.levels, k + 1);
        assert_int_equal(part.level[k].coords.count, whole.level[k].coords.count);
        assert_memory_equal(part.level[k].coords.rows, whole.level[k].coords.rows,
                            sizeof(int32_t) * 4 * (size_t)part.level[k].coords.count);
        if (k > 0) assert_memory_equal(part.level[k].index, whole.level[k].index, sizeof(int32_t) * (size_t)part.level[k].coords.count);
    }
    must_fail(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &part, latent, &coords, 3), ESPALIER_ERR_INTERNAL, "stop after 3");
    must_fail(&j, esi_sparse_decoder_forward(j.ctx, m, NULL, &part, latent, &coords, 5), ESPALIER_ERR_INTERNAL, "stop after 5");
    esi_scope_end(j.ctx, scope);
    esi_lineage_free(j.ctx, &whole);
    esi_lineage_free(j.ctx, &part);
    esi_coords_free(j.ctx, &coords);
    esi_sparse_decoder_free(j.ctx, m);
    job_close(&j);
}

static void test_guides_must_descend_from_the_latent(void **state)
{
    (void)state;
    job j;
    esi_sparse_decoder *shape = NULL, *tex = NULL;
    esi_coords coords = {0}, other = {0};
    esi_lineage lineage = {0}, none = {0};
    esi_tensor latent, head;
    job_open(&j, 1);
    must(&j, open_sparse(&j, &shape, MODEL SHAPE, true));
    must(&j, open_sparse(&j, &tex, MODEL TEX, true));
    make_shell(&j, &coords, 5);
    make_shell(&j, &other, 5);
    other.rows[3] += 40;
    esi_scope scope = esi_scope_begin(j.ctx);
    make_latent(&j, &latent, coords.count, 32);
    must_fail(&j, esi_sparse_decoder_forward(j.ctx, tex, &head, &none, latent, &coords, 4), ESPALIER_ERR_INTERNAL, "guides");
    must(&j, esi_sparse_decoder_forward(j.ctx, shape, NULL, &lineage, latent, &coords, 3));
    must_fail(&j, esi_sparse_decoder_forward(j.ctx, tex, &head, &lineage, latent, &coords, 4), ESPALIER_ERR_INTERNAL, "guides");
    must(&j, esi_sparse_decoder_forward(j.ctx, shape, NULL, &lineage, latent, &coords, 4));
    must_fail(&j, esi_sparse_decoder_forward(j.ctx, tex, &head, &lineage, latent, &other, 4), ESPALIER_ERR_INTERNAL, "guides");
    must(&j, esi_sparse_decoder_forward(j.ctx, tex, &head, &lineage, latent, &coords, 4));
    assert_int_equal(head.rows, lineage.level[4].coords.count);
    esi_scope_end(j.ctx, scope);
    esi_lineage_free(j.ctx, &lineage);
    esi_coords_free(j.ctx, &coords);
    esi_coords_free(j.ctx, &other);
    esi_sparse_decoder_free(j.ctx, shape);
    esi_sparse_decoder_free(j.ctx, tex);
    job_close(&j);
}

/* -------------------------------------------------------------- shape head */

static void test_shape_head(void **state)
{
    (void)state;
    static const float logits[4][7] = {{0, 1, -1, 0, 1e-9f, -1e-9f, 0},
                                       {-100, 100, 2, 3, -3, 0.5f, 25},
                                       {0.25f, -0.25f, 4, -0.0f, 1e-12f, -2, -30},
                                       {7, -7, 0.01f, 1, 1, -1, 19.5f}};
    job j;
    esi_tensor head;
    float local[12], split[4];
    uint8_t intersected[12];
    job_open(&j, 1);
    esi_scope scope = esi_scope_begin(j.ctx);
    must(&j, esi_tensor_from(j.ctx, &head, 4, 7, ESI_F32, logits));
    must(&j, esi_shape_head_decode(j.ctx, head, 0.5f, local, intersected, split));
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < 3; k++) {
            const double expected = 2.0 / (1.0 + exp(-(double)logits[i][k])) - 0.5;
            assert_true(fabs((double)local[3 * i + k] - expected) <= 2.5e-7);
            assert_int_equal(intersected[3 * i + k], logits[i][3 + k] > 0.0f);
        }
        const double w = (double)logits[i][6], expected = w > 20.0 ? w : log1p(exp(w));
        assert_true(fabs((double)split[i] - expected) <= 2e-7 * fmax(1.0, expected));
    }
    must_fail(&j, esi_shape_head_decode(j.ctx, esi_cols(head, 0, 6), 0.5f, local, intersected, split), ESPALIER_ERR_INTERNAL, "6 channels");
    esi_scope_end(j.ctx, scope);
    job_close(&j);
}

/* -------------------------------------------- parameters from shapes, GGUF folds */

static void test_config_from_shapes(void **state)
{
    (void)state;
    static const char *const stems[] = {MODEL SHAPE, MODEL TEX, MICRO "shape_dec_next_dc_f16c32_micro_fp16",
                                        MICRO "tex_dec_next_dc_f16c32_micro_fp16"};
    job j;
    job_open(&j, 1);
    for (size_t i = 0; i < ESI_COUNT(stems); i++) {
        esi_sparse_decoder *a = NULL, *b = NULL;
        must(&j, open_sparse(&j, &a, stems[i], true));
        must(&j, open_sparse(&j, &b, stems[i], false));
        const esi_sparse_decoder_config *ca = esi_sparse_decoder_get_config(a), *cb = esi_sparse_decoder_get_config(b);
        assert_int_equal(ca->levels, cb->levels);
        assert_memory_equal(ca->channels, cb->channels, sizeof(int) * (size_t)ca->levels);
        assert_memory_equal(ca->blocks, cb->blocks, sizeof(int) * (size_t)ca->levels);
        assert_int_equal(ca->latent_channels, cb->latent_channels);
        assert_int_equal(ca->out_channels, cb->out_channels);
        assert_int_equal(ca->pred_subdiv, cb->pred_subdiv);
        assert_true(ca->voxel_margin == cb->voxel_margin);
        esi_sparse_decoder_free(j.ctx, a);
        esi_sparse_decoder_free(j.ctx, b);
    }
    job_close(&j);
}

/* Logits of a structure decoder; free() them. */
static float *structure_logits(job *j, const char *weights, const char *config_path, int64_t R, int64_t *rows)
{
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_ss_decoder *m = NULL;
    esi_tensor latent, logits;
    must(j, esi_weight_file_open(j->ctx, &file, weights));
    if (config_path) must(j, esi_json_load(j->ctx, &config, config_path, ESPALIER_ERR_MODEL));
    must(j, esi_ss_decoder_open(j->ctx, &m, file, config));
    assert_int_equal(esi_ss_decoder_upscale(m), 4);
    must(j, esi_weights_check_finite(j->ctx, esi_ss_decoder_weights(m)));
    esi_scope scope = esi_scope_begin(j->ctx);
    make_latent(j, &latent, R * R * R, 8);
    must(j, esi_ss_decoder_forward(j->ctx, m, &logits, latent, R));
    *rows = logits.rows;
    float *values = malloc(sizeof *values * (size_t)logits.rows);
    assert_non_null(values);
    must(j, esi_tensor_read(j->ctx, logits, values));
    must_fail(j, esi_ss_decoder_forward(j->ctx, m, &logits, latent, R + 1), ESPALIER_ERR_INTERNAL, "side");
    esi_scope_end(j->ctx, scope);
    esi_ss_decoder_free(j->ctx, m);
    esi_json_free(config);
    return values;
}

static void test_structure_decoder_files(void **state)
{
    (void)state;
    job j, two;
    int64_t rows[4];
    job_open(&j, 1);
    job_open(&two, 2);
    float *a = structure_logits(&j, MODEL SS ".safetensors", MODEL SS ".json", 4, &rows[0]);
    float *b = structure_logits(&two, MODEL SS ".safetensors", NULL, 4, &rows[1]);
    assert_int_equal(rows[0], 16 * 16 * 16);
    assert_int_equal(rows[1], rows[0]);
    assert_memory_equal(a, b, sizeof(float) * (size_t)rows[0]);
    float *c =
        structure_logits(&j, MICRO "ss_dec_conv3d_16l8_micro_fp16.safetensors", MICRO "ss_dec_conv3d_16l8_micro_fp16.json", 5, &rows[2]);
    float *d = structure_logits(&two, GOLDEN "gguf_ss_dec_f16/case.gguf", NULL, 5, &rows[3]); /* [Co*Ci, 3, 3, 3], no json */
    assert_int_equal(rows[2], 20 * 20 * 20);
    assert_int_equal(rows[3], rows[2]);
    double difference = 0.0, norm = 0.0; /* the conversion rounded the F32 layers to F16 */
    for (int64_t i = 0; i < rows[2]; i++) {
        difference += ((double)c[i] - (double)d[i]) * ((double)c[i] - (double)d[i]);
        norm += (double)c[i] * (double)c[i];
    }
    assert_true(difference <= 1e-6 * norm);
    free(a);
    free(b);
    free(c);
    free(d);
    job_close(&j);
    job_close(&two);
}

static void test_sparse_gguf_equals_safetensors(void **state)
{
    (void)state;
    job j;
    esi_weight_file *file = NULL;
    esi_sparse_decoder *m[2] = {NULL, NULL};
    esi_coords coords = {0};
    float *values[2];
    int64_t rows[2];
    job_open(&j, 1);
    must(&j, open_sparse(&j, &m[0], MICRO "shape_dec_next_dc_f16c32_micro_fp16", true));
    must(&j, esi_weight_file_open(j.ctx, &file, GOLDEN "gguf_shape_dec_f16/case.gguf"));
    must(&j, esi_sparse_decoder_open(j.ctx, &m[1], file, NULL));
    make_shell(&j, &coords, 5);
    for (int i = 0; i < 2; i++) {
        esi_lineage lineage = {0};
        esi_tensor latent, head;
        esi_scope scope = esi_scope_begin(j.ctx);
        make_latent(&j, &latent, coords.count, 32);
        must(&j, esi_sparse_decoder_forward(j.ctx, m[i], &head, &lineage, latent, &coords, 4));
        rows[i] = head.rows;
        values[i] = malloc(sizeof(float) * 7 * (size_t)head.rows);
        assert_non_null(values[i]);
        must(&j, esi_tensor_read(j.ctx, head, values[i]));
        esi_scope_end(j.ctx, scope);
        esi_lineage_free(j.ctx, &lineage);
        esi_sparse_decoder_free(j.ctx, m[i]);
    }
    assert_int_equal(rows[0], rows[1]);
    assert_memory_equal(values[0], values[1], sizeof(float) * 7 * (size_t)rows[0]);
    free(values[0]);
    free(values[1]);
    esi_coords_free(j.ctx, &coords);
    job_close(&j);
}

/* ------------------------------------------------- damaged models and configs */

static uint8_t *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(*size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, f), *size);
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

/* The place of `text` in the header. */
static uint8_t *find_text(uint8_t *bytes, size_t size, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i + n <= size; i++) {
        if (memcmp(bytes + i, text, n) == 0) return bytes + i;
    }
    fail_msg("no %s", text);
    return NULL;
}

/* Open with one tensor renamed; the new name has the same length. */
static void expect_missing(job *j, const char *stem, const char *name, bool structure)
{
    char path[1024], quoted[128];
    size_t size;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_sparse_decoder *sparse = NULL;
    esi_ss_decoder *dense = NULL;
    snprintf(path, sizeof path, "%s.safetensors", stem);
    uint8_t *bytes = slurp(path, &size);
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    find_text(bytes, size, quoted)[1] = '#';
    must(j, esi_weight_file_parse(j->ctx, &file, bytes, size, "damaged.safetensors"));
    snprintf(path, sizeof path, "%s.json", stem);
    must(j, esi_json_load(j->ctx, &config, path, ESPALIER_ERR_MODEL));
    espalier_status st =
        structure ? esi_ss_decoder_open(j->ctx, &dense, file, config) : esi_sparse_decoder_open(j->ctx, &sparse, file, config);
    assert_true(sparse == NULL && dense == NULL);
    snprintf(quoted, sizeof quoted, "damaged.safetensors: tensor %s", name);
    must_fail(j, st, ESPALIER_ERR_MODEL, quoted);
    esi_json_free(config);
    free(bytes);
}

static void test_missing_tensors(void **state)
{
    (void)state;
    static const char *const sparse[] = {"from_latent.weight",      "from_latent.bias",           "output_layer.weight",
                                         "blocks.0.0.conv.weight",  "blocks.1.1.norm.bias",       "blocks.1.1.mlp.0.weight",
                                         "blocks.1.1.mlp.2.bias",   "blocks.2.1.norm1.weight",    "blocks.2.1.conv1.bias",
                                         "blocks.3.1.conv2.weight", "blocks.3.1.to_subdiv.weight"};
    static const char *const dense[] = {
        "input_layer.weight",   "middle_block.0.norm1.weight", "middle_block.0.conv2.bias", "blocks.0.conv1.weight",
        "blocks.1.conv.weight", "blocks.4.norm2.bias",         "out_layer.0.weight",        "out_layer.2.bias"};
    job j;
    job_open(&j, 1);
    for (size_t i = 0; i < ESI_COUNT(sparse); i++) expect_missing(&j, MODEL SHAPE, sparse[i], false);
    for (size_t i = 0; i < ESI_COUNT(dense); i++) expect_missing(&j, MODEL SS, dense[i], true);
    job_close(&j);
}

typedef struct edit {
    const char *from, *to, *message;
} edit;

/* Open with the json edited. */
static void expect_refused(job *j, const char *stem, const edit *e, bool structure)
{
    char path[1024];
    size_t size;
    esi_weight_file *file = NULL;
    esi_json *config = NULL;
    esi_sparse_decoder *sparse = NULL;
    esi_ss_decoder *dense = NULL;
    esi_text text = {0};
    snprintf(path, sizeof path, "%s.json", stem);
    uint8_t *bytes = slurp(path, &size), *at = find_text(bytes, size, e->from);
    esi_text_append_bytes(j->ctx, &text, bytes, (size_t)(at - bytes));
    esi_text_append(j->ctx, &text, "%s", e->to);
    esi_text_append(j->ctx, &text, "%s", (const char *)at + strlen(e->from));
    must(j, esi_json_parse(j->ctx, &config, text.data, text.len, "edited.json", ESPALIER_ERR_MODEL));
    snprintf(path, sizeof path, "%s.safetensors", stem);
    must(j, esi_weight_file_open(j->ctx, &file, path));
    espalier_status st =
        structure ? esi_ss_decoder_open(j->ctx, &dense, file, config) : esi_sparse_decoder_open(j->ctx, &sparse, file, config);
    assert_true(sparse == NULL && dense == NULL);
    must_fail(j, st, ESPALIER_ERR_MODEL, e->message);
    esi_json_free(config);
    esi_text_free(j->ctx, &text);
    free(bytes);
}

static void test_wrong_configs(void **state)
{
    (void)state;
    static const edit sparse[] = {
        {"\"FlexiDualGridVaeDecoder\"", "\"SparseUNetVaeEncoder\"", "name is SparseUNetVaeEncoder"},
        {"\"name\"", "\"nome\"", "name is missing"},
        {"\"args\"", "\"arms\"", "args is missing"},
        {"\"SparseConvNeXtBlock3d\"", "\"SparseResBlock3d\"", "args.block_type"},
        {"\"SparseResBlockC2S3d\"", "\"SparseResBlockUpsample3d\"", "args.up_block_type"},
        {"\"SparseResBlockC2S3d\",", "", "args.up_block_type"},
        {"\"num_blocks\": [", "\"num_blocks\": [1,", "num_blocks has 6 numbers"},
        {"\"num_blocks\": [\n            1", "\"num_blocks\": [\n            -1", "args.num_blocks"},
        {"\"num_blocks\"", "\"num_blobs\"", "args.num_blocks"},
        {"\"latent_channels\": 32", "\"latent_channels\": 33", "from_latent.weight"},
        {"\"latent_channels\": 32", "\"latent_channels\": \"32\"", "args.latent_channels"},
        {"\"model_channels\": [\n            32", "\"model_channels\": [\n            4000000000", "args.model_channels"},
        {"\"model_channels\": [\n            32", "\"model_channels\": [\n            31", "tensor from_latent"},
        {"\"resolution\": 128", "\"resolution\": 1e9", "args.resolution"},
        {"\"resolution\": 128", "\"out_channels\": 6", "output_layer"},
        {"\"resolution\": 128", "\"voxel_margin\": -1", "args.voxel_margin"},
        {"\"resolution\": 128", "\"pred_subdiv\": 1", "args.pred_subdiv"},
    };
    static const edit dense[] = {
        {"\"SparseStructureDecoder\"", "\"SparseStructureEncoder\"", "name is SparseStructureEncoder"},
        {"\"num_res_blocks\": 1", "\"num_res_blocks\": 2", "tensor blocks.1"},
        {"\"num_res_blocks\": 1", "\"num_res_blocks\": 1e3", "args.num_res_blocks"},
        {"\"latent_channels\": 8", "\"latent_channels\": 16", "input_layer.weight"},
        {"\"channels\": [", "\"channels\": [0,", "args.channels"},
        {"\"layer\"", "\"batch\"", "args.norm_type"},
        {"\"layer\"", "\"group\"", "multiple of 32"},
    };
    job j;
    job_open(&j, 1);
    for (size_t i = 0; i < ESI_COUNT(sparse); i++) expect_refused(&j, MODEL SHAPE, &sparse[i], false);
    for (size_t i = 0; i < ESI_COUNT(dense); i++) expect_refused(&j, MODEL SS, &dense[i], true);
    job_close(&j);
}

static void test_other_networks_are_refused_without_config(void **state)
{
    (void)state;
    job j;
    esi_weight_file *file = NULL;
    esi_sparse_decoder *sparse = NULL;
    esi_ss_decoder *dense = NULL;
    job_open(&j, 1);
    must(&j, esi_weight_file_open(j.ctx, &file, MODEL SS ".safetensors"));
    must_fail(&j, esi_sparse_decoder_open(j.ctx, &sparse, file, NULL), ESPALIER_ERR_MODEL, "not a sparse decoder");
    must(&j, esi_weight_file_open(j.ctx, &file, MODEL SHAPE ".safetensors"));
    must_fail(&j, esi_ss_decoder_open(j.ctx, &dense, file, NULL), ESPALIER_ERR_MODEL, "not a structure decoder");
    job_close(&j);
}

/* ------------------------------------------------------------------ no voxels */

/* The shape decoder with to_subdiv of `level` made to say no everywhere (zero weights, bias -1). */
static void test_no_voxels_left(void **state)
{
    (void)state;
    for (int level = 0; level < 4; level++) {
        job j;
        esi_weight_file *file = NULL;
        esi_sparse_decoder *m = NULL;
        esi_coords coords = {0};
        esi_lineage lineage = {0};
        esi_tensor latent, head;
        char name[64], message[64];
        size_t size;
        uint8_t *bytes = slurp(MODEL SHAPE ".safetensors", &size);
        job_open(&j, 1);
        must(&j, esi_weight_file_parse(j.ctx, &file, bytes, size, "closed.safetensors"));
        snprintf(name, sizeof name, "blocks.%d.%d.to_subdiv.weight", level, level == 1 ? 2 : 1);
        const esi_file_tensor *weight = esi_weight_file_find(file, name);
        assert_non_null(weight);
        memset(bytes + weight->offset, 0, (size_t)weight->size);
        snprintf(name, sizeof name, "blocks.%d.%d.to_subdiv.bias", level, level == 1 ? 2 : 1);
        const esi_file_tensor *bias = esi_weight_file_find(file, name);
        assert_non_null(bias);
        for (uint64_t i = 0; i < bias->size; i += 2) memcpy(bytes + bias->offset + i, "\x00\xbc", 2);
        must(&j, esi_sparse_decoder_open(j.ctx, &m, file, NULL));
        make_shell(&j, &coords, 5);
        esi_scope scope = esi_scope_begin(j.ctx);
        make_latent(&j, &latent, coords.count, 32);
        snprintf(message, sizeof message, "closed.safetensors: no voxels left at level %d", level + 1);
        must_fail(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &lineage, latent, &coords, 4), ESPALIER_ERR_SOUNDNESS, message);
        must_fail(&j, esi_sparse_decoder_forward(j.ctx, m, NULL, &lineage, latent, &coords, 4), ESPALIER_ERR_SOUNDNESS, message);
        coords.count = 0;
        must_fail(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &lineage, esi_rows(latent, 0, 0), &coords, 4), ESPALIER_ERR_SOUNDNESS,
                  "no voxels left at level 0");
        esi_scope_end(j.ctx, scope);
        esi_lineage_free(j.ctx, &lineage);
        esi_coords_free(j.ctx, &coords);
        esi_sparse_decoder_free(j.ctx, m);
        job_close(&j);
        free(bytes);
    }
}

/* ---------------------------------------------------------- failing allocations */

/* Open and run both decoders with the nth allocation failing. True when all went well. */
static bool run_failing(job *j, long n)
{
    esi_sparse_decoder *m = NULL;
    esi_ss_decoder *dense = NULL;
    esi_weight_file *file = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent, volume, head, logits;
    float local[3 * 4096], split[4096];
    uint8_t flags[3 * 4096];
    make_shell(j, &coords, 3);
    esi_scope scope = esi_scope_begin(j->ctx);
    make_latent(j, &latent, coords.count, 32);
    make_latent(j, &volume, 8, 8);
    test_fail_at(&j->memory, n);
    espalier_status st = open_sparse(j, &m, MICRO "shape_dec_next_dc_f16c32_micro_fp16", true);
    if (st == ESPALIER_OK) st = esi_sparse_decoder_forward(j->ctx, m, &head, &lineage, latent, &coords, 4);
    if (st == ESPALIER_OK) st = esi_shape_head_decode(j->ctx, esi_rows(head, 0, ESI_MIN(head.rows, 4096)), 0.5f, local, flags, split);
    if (st == ESPALIER_OK) st = esi_weight_file_open(j->ctx, &file, MICRO "ss_dec_conv3d_16l8_micro_fp16.safetensors");
    if (st == ESPALIER_OK) st = esi_ss_decoder_open(j->ctx, &dense, file, NULL);
    if (st == ESPALIER_OK) st = esi_ss_decoder_forward(j->ctx, dense, &logits, volume, 2);
    test_fail_at(&j->memory, 0);
    if (st != ESPALIER_OK) assert_int_equal(st, ESPALIER_ERR_RESOURCE);
    esi_scope_end(j->ctx, scope);
    esi_lineage_free(j->ctx, &lineage);
    esi_coords_free(j->ctx, &coords);
    esi_sparse_decoder_free(j->ctx, m);
    esi_ss_decoder_free(j->ctx, dense);
    assert_int_equal(espalier_context_memory_now(j->ctx), 0);
    esi_clear_error(j->ctx);
    return st == ESPALIER_OK;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    job j;
    long n = 1;
    job_open(&j, 1);
    const size_t live = atomic_load(&j.memory.live_blocks);
    while (!run_failing(&j, n)) {
        assert_int_equal(atomic_load(&j.memory.live_blocks), live);
        n++;
    }
    assert_true(n > 200);
    job_close(&j);
}

static void test_cancel(void **state)
{
    (void)state;
    job j;
    esi_sparse_decoder *m = NULL;
    esi_coords coords = {0};
    esi_lineage lineage = {0};
    esi_tensor latent, head;
    job_open(&j, 2);
    must(&j, open_sparse(&j, &m, MODEL SHAPE, true));
    make_shell(&j, &coords, 5);
    esi_scope scope = esi_scope_begin(j.ctx);
    make_latent(&j, &latent, coords.count, 32);
    espalier_context_cancel(j.ctx);
    assert_int_equal(esi_sparse_decoder_forward(j.ctx, m, &head, &lineage, latent, &coords, 4), ESPALIER_ERR_CANCELLED);
    espalier_context_reset_cancel(j.ctx);
    esi_clear_error(j.ctx);
    must(&j, esi_sparse_decoder_forward(j.ctx, m, &head, &lineage, latent, &coords, 4));
    esi_scope_end(j.ctx, scope);
    esi_lineage_free(j.ctx, &lineage);
    esi_coords_free(j.ctx, &coords);
    esi_sparse_decoder_free(j.ctx, m);
    job_close(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_under_budget_and_threads),
        cmocka_unit_test(test_budget_too_small_is_a_clean_error),
        cmocka_unit_test(test_chunk_rows),
        cmocka_unit_test(test_plan_bounds_the_peak),
        cmocka_unit_test(test_upsample_equals_whole_run),
        cmocka_unit_test(test_guides_must_descend_from_the_latent),
        cmocka_unit_test(test_shape_head),
        cmocka_unit_test(test_config_from_shapes),
        cmocka_unit_test(test_structure_decoder_files),
        cmocka_unit_test(test_sparse_gguf_equals_safetensors),
        cmocka_unit_test(test_missing_tensors),
        cmocka_unit_test(test_wrong_configs),
        cmocka_unit_test(test_other_networks_are_refused_without_config),
        cmocka_unit_test(test_no_voxels_left),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
