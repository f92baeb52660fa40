/* SPDX-License-Identifier: MIT
 *
 * results_io.c: saving and loading stage results as safetensors. The generator's state is stored as a row of integers, so that the next
 * stage draws what it would have drawn. Files come from anywhere: everything is checked.
 */
#include "pipeline/results.h"

#include "formats/weights.h"
#include "pipeline/settings.h"

#include <math.h>

#define MAX_ROWS (INT64_C(1) << 26)
#define GENERATOR_WORDS (624 + 4)

/* ------------------------------------------------------------- generator */

static void pack_generator(int32_t *words, const esi_generator *g)
{
    uint64_t bits = 0;
    memcpy(words, g->state, 624 * sizeof(int32_t));
    memcpy(&bits, &g->cached_normal, sizeof bits);
    words[624] = g->next;
    words[625] = g->has_cached_normal;
    words[626] = (int32_t)(uint32_t)bits;
    words[627] = (int32_t)(uint32_t)(bits >> 32);
}

static bool unpack_generator(esi_generator *g, const int32_t *words)
{
    uint64_t bits = (uint32_t)words[626] | (uint64_t)(uint32_t)words[627] << 32;
    memcpy(g->state, words, 624 * sizeof(int32_t));
    memcpy(&g->cached_normal, &bits, sizeof bits);
    g->next = words[624];
    g->has_cached_normal = words[625] == 1;
    return words[624] >= 0 && words[624] <= 624 && (words[625] == 0 || (words[625] == 1 && isfinite(g->cached_normal)));
}

/* ------------------------------------------------------------- reading */

typedef struct reader {
    espalier_context *ctx;
    esi_weight_file *file;
    const char *path;
} reader;

/* A tensor of rank 2 with `cols` columns (rank 1 when cols is 0); its rows in *rows. */
static espalier_status find(reader *r, const esi_file_tensor **t, const char *name, int64_t cols, int64_t *rows)
{
    *t = esi_weight_file_find(r->file, name);
    if (!*t) return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: no tensor '%s'; this is another kind of file", r->path, name);
    bool fits = cols ? (*t)->rank == 2 && (*t)->shape[1] == cols : (*t)->rank == 1;
    if (!fits || (*t)->shape[0] < 1 || (*t)->shape[0] > MAX_ROWS)
        return esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: tensor '%s' has an unusable shape", r->path, name);
    *rows = (*t)->shape[0];
    return ESPALIER_OK;
}

static espalier_status read_floats(reader *r, float **out, const char *name, int64_t cols, int64_t *rows)
{
    const esi_file_tensor *t = NULL;
    espalier_status st = find(r, &t, name, cols, rows);
    if (st == ESPALIER_OK) st = esi_file_tensor_read_f32(r->ctx, r->file, t, out);
    for (int64_t i = 0; st == ESPALIER_OK && i < *rows * (cols ? cols : 1); i++)
        if (!isfinite((*out)[i]))
            st = esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: '%s' holds NaN or infinity at %lld", r->path, name, (long long)i);
    return st;
}

static espalier_status read_ints(reader *r, int32_t **out, const char *name, int64_t cols, int64_t *rows)
{
    const esi_file_tensor *t = NULL;
    espalier_status st = find(r, &t, name, cols, rows);
    return st == ESPALIER_OK ? esi_file_tensor_read_i32(r->ctx, r->file, t, out) : st;
}

static espalier_status read_generator(reader *r, esi_generator *g)
{
    int32_t *words = NULL;
    int64_t rows = 0;
    espalier_status st = read_ints(r, &words, "generator", 0, &rows);
    if (st == ESPALIER_OK && (rows != GENERATOR_WORDS || !unpack_generator(g, words)))
        st = esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: damaged generator state", r->path);
    esi_free(r->ctx, words);
    return st;
}

/* Coordinates within a grid of `grid` cells. */
static espalier_status read_coords(reader *r, esi_coords *out, int64_t grid)
{
    espalier_status st = read_ints(r, &out->rows, "coords", 4, &out->count);
    for (int64_t i = 0; st == ESPALIER_OK && i < out->count * 4; i++) {
        int32_t limit = i % 4 == 0 ? 1 : (int32_t)grid;
        if (out->rows[i] < 0 || out->rows[i] >= limit)
            st = esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: coordinate %d of row %lld is outside the grid", r->path, (int)out->rows[i],
                          (long long)(i / 4));
    }
    esi_coords distinct = {0};
    if (st == ESPALIER_OK) st = esi_coords_sort_unique(r->ctx, &distinct, out->rows, out->count);
    if (st == ESPALIER_OK && distinct.count != out->count)
        st = esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: a cell occurs twice", r->path);
    esi_coords_free(r->ctx, &distinct);
    return st;
}

static espalier_status read_scalar(reader *r, int64_t *out, const char *name, int64_t low, int64_t high)
{
    int32_t *v = NULL;
    int64_t rows = 0;
    espalier_status st = read_ints(r, &v, name, 0, &rows);
    if (st == ESPALIER_OK && (rows != 1 || v[0] < low || v[0] > high))
        st = esi_fail(r->ctx, ESPALIER_ERR_INPUT, "%s: '%s' is out of range", r->path, name);
    if (st == ESPALIER_OK) *out = v[0];
    esi_free(r->ctx, v);
    return st;
}

/* The readers of weight files speak of models; to a user a saved result is an input. */
static espalier_status as_input(espalier_status st)
{
    return st == ESPALIER_ERR_MODEL ? ESPALIER_ERR_INPUT : st;
}

static espalier_status open_file(reader *r, espalier_context *ctx, const char *path)
{
    *r = (reader){.ctx = ctx, .path = path};
    return esi_weight_file_open(ctx, &r->file, path);
}

/* ------------------------------------------------------------- condition */

static const char *const view_names[2] = {"tokens.512", "tokens.1024"};

espalier_status espalier_condition_save(espalier_context *ctx, const espalier_condition *c, const char *path)
{
    esi_fp_state fp;
    esi_safetensors_entry e[2];
    size_t count = 0;
    if (!ctx || !c || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    for (int i = 0; i < 2; i++)
        if (c->view[i].tokens)
            e[count++] = (esi_safetensors_entry){.name = view_names[i], .dtype = ESI_FILE_F32, .rank = 2,
                                                 .shape = {c->view[i].rows, c->view[i].channels}, .data = c->view[i].tokens};
    const char *const metadata[] = {"kind", "espalier.condition", NULL};
    return esi_leave(ctx, &fp, esi_safetensors_write(ctx, path, e, count, metadata, NULL, NULL));
}

espalier_status espalier_condition_load(espalier_context *ctx, espalier_condition **out, const char *path)
{
    esi_fp_state fp;
    reader r;
    espalier_condition *c = NULL;
    if (out) *out = NULL;
    if (!ctx || !out || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = open_file(&r, ctx, path);
    if (st == ESPALIER_OK) st = esi_condition_new(ctx, &c);
    for (int i = 0; st == ESPALIER_OK && i < 2; i++) {
        const esi_file_tensor *t = esi_weight_file_find(r.file, view_names[i]);
        if (!t && i == 1) break;
        int64_t channels = t && t->rank == 2 && t->shape[1] >= 1 && t->shape[1] <= 65536 ? t->shape[1] : 1;
        c->view[i].channels = channels;
        st = read_floats(&r, &c->view[i].tokens, view_names[i], channels, &c->view[i].rows);
    }
    esi_weight_file_free(r.file);
    if (st == ESPALIER_OK)
        *out = c;
    else
        espalier_condition_free(c);
    return esi_leave(ctx, &fp, as_input(st));
}

/* ------------------------------------------------------------- structure */

espalier_status espalier_structure_save(espalier_context *ctx, const espalier_structure *s, const char *path)
{
    esi_fp_state fp;
    int32_t words[GENERATOR_WORDS];
    if (!ctx || !s || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    pack_generator(words, &s->generator);
    const esi_safetensors_entry e[] = {
        {.name = "coords", .dtype = ESI_FILE_I32, .rank = 2, .shape = {s->coords.count, 4}, .data = s->coords.rows},
        {.name = "generator", .dtype = ESI_FILE_I32, .rank = 1, .shape = {GENERATOR_WORDS}, .data = words},
        {.name = "grid", .dtype = ESI_FILE_I32, .rank = 1, .shape = {1}, .data = &s->grid},
    };
    const char *const metadata[] = {"kind", "espalier.structure", NULL};
    return esi_leave(ctx, &fp, esi_safetensors_write(ctx, path, e, ESI_COUNT(e), metadata, NULL, NULL));
}

espalier_status espalier_structure_load(espalier_context *ctx, espalier_structure **out, const char *path)
{
    esi_fp_state fp;
    reader r;
    espalier_structure *s = NULL;
    int64_t grid = 0;
    if (out) *out = NULL;
    if (!ctx || !out || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = open_file(&r, ctx, path);
    if (st == ESPALIER_OK) st = esi_structure_new(ctx, &s);
    if (st == ESPALIER_OK) st = read_scalar(&r, &grid, "grid", 1, 4096);
    if (st == ESPALIER_OK) st = read_coords(&r, &s->coords, grid);
    if (st == ESPALIER_OK) st = read_generator(&r, &s->generator);
    esi_weight_file_free(r.file);
    if (st == ESPALIER_OK) {
        s->grid = (int32_t)grid;
        *out = s;
    } else {
        espalier_structure_free(s);
    }
    return esi_leave(ctx, &fp, as_input(st));
}

/* ------------------------------------------------------------- latent */

espalier_status espalier_latent_save(espalier_context *ctx, const espalier_latent *l, const char *path)
{
    esi_fp_state fp;
    int32_t words[GENERATOR_WORDS], resolution;
    if (!ctx || !l || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    resolution = (int32_t)l->resolution;
    pack_generator(words, &l->generator);
    const esi_safetensors_entry e[] = {
        {.name = "coords", .dtype = ESI_FILE_I32, .rank = 2, .shape = {l->coords.count, 4}, .data = l->coords.rows},
        {.name = l->texture ? "texture" : "shape", .dtype = ESI_FILE_F32, .rank = 2, .shape = {l->coords.count, ESI_LATENT_CHANNELS},
         .data = l->features},
        {.name = "generator", .dtype = ESI_FILE_I32, .rank = 1, .shape = {GENERATOR_WORDS}, .data = words},
        {.name = "resolution", .dtype = ESI_FILE_I32, .rank = 1, .shape = {1}, .data = &resolution},
    };
    const char *const metadata[] = {"kind", l->texture ? "espalier.texture" : "espalier.shape", NULL};
    return esi_leave(ctx, &fp, esi_safetensors_write(ctx, path, e, ESI_COUNT(e), metadata, NULL, NULL));
}

espalier_status espalier_latent_load(espalier_context *ctx, espalier_latent **out, const char *path)
{
    esi_fp_state fp;
    reader r;
    espalier_latent *l = NULL;
    int64_t rows = 0;
    if (out) *out = NULL;
    if (!ctx || !out || !path) return esi_refuse_null(ctx, __func__);
    esi_enter(ctx, &fp);
    espalier_status st = open_file(&r, ctx, path);
    if (st == ESPALIER_OK) st = esi_latent_new(ctx, &l);
    if (st == ESPALIER_OK) l->texture = esi_weight_file_find(r.file, "texture") != NULL;
    if (st == ESPALIER_OK) st = read_scalar(&r, &l->resolution, "resolution", 1, 65536);
    if (st == ESPALIER_OK) st = read_coords(&r, &l->coords, l->resolution);
    if (st == ESPALIER_OK) st = read_floats(&r, &l->features, l->texture ? "texture" : "shape", ESI_LATENT_CHANNELS, &rows);
    if (st == ESPALIER_OK && rows != l->coords.count)
        st = esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: %lld rows of features for %lld coordinates", path, (long long)rows,
                      (long long)l->coords.count);
    if (st == ESPALIER_OK) st = read_generator(&r, &l->generator);
    esi_weight_file_free(r.file);
    if (st == ESPALIER_OK)
        *out = l;
    else
        espalier_latent_free(l);
    return esi_leave(ctx, &fp, as_input(st));
}
