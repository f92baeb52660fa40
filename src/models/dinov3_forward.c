/* SPDX-License-Identifier: MIT
 *
 * dinov3_forward.c: picture to image tokens: patches, transformer layers with 2-D rotary positions, and TRELLIS.2's final norm without
 * weights (Hugging Face modeling_dinov3_vit.py, trellis2 DinoV3FeatureExtractor).
 */
#include "models/dinov3.h"

#include "base/math64.h"
#include "models/matrix_bytes.h"

#include <math.h>

#define MLP_CHUNK      1024 /* rows of the hidden layer that exist at a time */
#define SMALLEST_CHUNK 64
#define PI             3.14159265358979323846

/* Buffers and tables of one forward pass; D = hidden, N = all tokens, P = patches, hd = head dimension. */
typedef struct dinov3_pass {
    espalier_context *ctx;
    const esi_dinov3 *model;
    int64_t rows, cols; /* of patches */
    int64_t P, N;
    esi_tensor x, u;               /* [N, D] residual stream; normed rows, then attention output */
    esi_tensor qkv;                /* [N, 3D] */
    esi_tensor hidden;             /* [chunk, mlp] */
    esi_tensor rope_cos, rope_sin; /* [P, hd]; the second half repeats the first */
    esi_tensor tap;                /* [N, D] branch output before its scale; null unless a tap is set */
} dinov3_pass;

/* ------------------------------------------------------------ tables and patches */

/* Angles of patch (i, j): hd/4 frequencies times the row position in [-1, 1], then times the column position. */
static void rope_angles(float *angle, const float *frequency, int64_t F, float y, float x)
{
    const float two_pi = (float)(2.0 * PI);

    for (int64_t k = 0; k < F; k++) {
        angle[k] = two_pi * y * frequency[k];
        angle[F + k] = two_pi * x * frequency[k];
    }
}

static float patch_position(int64_t i, int64_t n)
{
    float unit = ((float)i + 0.5f) / (float)n;

    return 2.0f * unit - 1.0f;
}

static void fill_rope(float *cosine, float *sine, float *scratch, const dinov3_pass *p, int64_t hd)
{
    const int64_t F = hd / 4;
    float *frequency = scratch, *angle = scratch + F;

    for (int64_t k = 0; k < F; k++) {
        float exponent = (float)(4 * k) / (float)hd;
        frequency[k] = 1.0f / (float)esi_pow(p->model->config.rope_theta, (double)exponent);
    }
    for (int64_t n = 0; n < p->P; n++) {
        rope_angles(angle, frequency, F, patch_position(n / p->cols, p->rows), patch_position(n % p->cols, p->cols));
        for (int64_t k = 0; k < hd; k++) {
            cosine[n * hd + k] = (float)esi_cos((double)angle[k % (2 * F)]);
            sine[n * hd + k] = (float)esi_sin((double)angle[k % (2 * F)]);
        }
    }
}

static espalier_status make_rope(dinov3_pass *p)
{
    espalier_context *ctx = p->ctx;
    const int64_t hd = p->model->config.hidden / p->model->config.heads;
    size_t count;
    float *table, *scratch;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    esi_mul_size(&count, (size_t)p->P, 2 * (size_t)hd);
    table = esi_alloc(ctx, count, sizeof *table, "rotary table");
    scratch = esi_alloc(ctx, (size_t)hd, sizeof *scratch, "rotary table");
    if (!table || !scratch) goto done;
    fill_rope(table, table + count / 2, scratch, p, hd);
    st = esi_tensor_from(ctx, &p->rope_cos, p->P, hd, ESI_F32, table);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_from(ctx, &p->rope_sin, p->P, hd, ESI_F32, table + count / 2);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, p->rope_cos, "rope_cos");
    esi_tap(ctx, p->rope_sin, "rope_sin");
done:
    esi_free(ctx, scratch);
    esi_free(ctx, table);
    return st;
}

/* Patch n of the picture [3, H, W] as a row (channel, row, column), the order of the embedding's weights. */
static void copy_patch(float *row, const float *pixels, const dinov3_pass *p, int64_t n)
{
    const int64_t size = p->model->config.patch, H = p->rows * size, W = p->cols * size;
    const int64_t top = n / p->cols * size, left = n % p->cols * size;

    for (int64_t c = 0; c < 3; c++) {
        for (int64_t y = 0; y < size; y++) {
            memcpy(row, pixels + (c * H + top + y) * W + left, (size_t)size * sizeof *row);
            row += size;
        }
    }
}

/* x = [class token, register tokens, embedded patches]. */
static espalier_status embed(dinov3_pass *p, const float *pixels)
{
    const esi_dinov3 *m = p->model;
    const int64_t K = 3 * (int64_t)m->config.patch * m->config.patch, registers = m->config.registers;
    const esi_epilogue bias = {.bias = m->patch.bias};
    espalier_context *ctx = p->ctx;
    esi_tensor patches = {0};
    size_t count;
    float *matrix;
    espalier_status st;

    esi_mul_size(&count, (size_t)p->P, (size_t)K);
    matrix = esi_alloc(ctx, count, sizeof *matrix, "patches");
    if (!matrix) return ESPALIER_ERR_RESOURCE;
    for (int64_t n = 0; n < p->P; n++) copy_patch(matrix + n * K, pixels, p, n);
    st = esi_tensor_from(ctx, &patches, p->P, K, ESI_F32, matrix);
    esi_free(ctx, matrix);
    if (st != ESPALIER_OK) return st;
    st = esi_linear(ctx, esi_rows(p->x, 1 + registers, p->P), patches, m->patch.weight, &bias);
    if (st != ESPALIER_OK) goto done;
    st = esi_copy(ctx, esi_rows(p->x, 0, 1), m->cls);
    if (st != ESPALIER_OK) goto done;
    if (registers > 0) st = esi_copy(ctx, esi_rows(p->x, 1, registers), m->registers);
    if (st == ESPALIER_OK) esi_tap(ctx, p->x, "embed");
done:
    esi_tensor_free(ctx, &patches);
    return st;
}

/* ------------------------------------------------------------ layers */

static espalier_status norm(const dinov3_pass *p, esi_tensor weight, esi_tensor bias)
{
    const esi_norm_args a = {.eps = p->model->config.eps, .weight = weight, .bias = bias};

    return esi_layer_norm(p->ctx, p->u, p->x, &a);
}

/* x = x + scale * (W in + b) on rows [first, first + in.rows). A tap wants W in + b too, which the fused epilogue does not store. */
static espalier_status linear_onto_residual(const dinov3_pass *p, esi_tensor in, int64_t first, const dinov3_linear *l, esi_tensor scale)
{
    esi_tensor x = esi_rows(p->x, first, in.rows);
    const esi_epilogue plain = {.bias = l->bias}, fused = {.bias = l->bias, .gate = scale, .residual = x};

    if (!esi_tensor_is_null(p->tap)) {
        espalier_status st = esi_linear(p->ctx, esi_rows(p->tap, first, in.rows), in, l->weight, &plain);
        if (st != ESPALIER_OK) return st;
    }
    return esi_linear(p->ctx, x, in, l->weight, &fused);
}

/* One of q, k, v of all tokens into its columns of qkv; positions turn q and k of the patches only. */
static espalier_status project(const dinov3_pass *p, int part, const dinov3_linear *l, bool rotate)
{
    const int64_t D = p->model->config.hidden, half = D / p->model->config.heads / 2, prefix = p->N - p->P;
    const esi_epilogue bias = {.bias = l->bias};
    esi_tensor y = esi_cols(p->qkv, part * D, D), patches = esi_rows(y, prefix, p->P);
    espalier_status st = esi_linear(p->ctx, y, p->u, l->weight, &bias);

    if (st != ESPALIER_OK || !rotate) return st;
    return esi_rope(p->ctx, patches, patches, esi_cols(p->rope_cos, 0, half), esi_cols(p->rope_sin, 0, half), p->model->config.heads,
                    ESI_ROPE_HALVES);
}

static espalier_status attention(const dinov3_pass *p, const dinov3_layer *l)
{
    const int64_t D = p->model->config.hidden;
    const int heads = p->model->config.heads;
    const esi_attention_args a = {.heads = heads, .windows = 1, .scale = (float)(1.0 / sqrt((double)(D / heads)))};
    espalier_status st;

    st = norm(p, l->norm1_weight, l->norm1_bias);
    if (st != ESPALIER_OK) return st;
    st = project(p, 0, &l->q, true);
    if (st != ESPALIER_OK) return st;
    st = project(p, 1, &l->k, true);
    if (st != ESPALIER_OK) return st;
    st = project(p, 2, &l->v, false);
    if (st != ESPALIER_OK) return st;
    st = esi_attention(p->ctx, p->u, esi_cols(p->qkv, 0, D), esi_cols(p->qkv, D, D), esi_cols(p->qkv, 2 * D, D), &a);
    if (st != ESPALIER_OK) return st;
    return linear_onto_residual(p, p->u, 0, &l->o, l->scale1);
}

static espalier_status mlp(const dinov3_pass *p, const dinov3_layer *l)
{
    const esi_epilogue gelu = {.bias = l->up.bias, .act = ESI_ACT_GELU_ERF};
    espalier_status st = norm(p, l->norm2_weight, l->norm2_bias);

    if (st != ESPALIER_OK) return st;
    for (int64_t first = 0; first < p->N; first += p->hidden.rows) {
        int64_t count = ESI_MIN(p->hidden.rows, p->N - first);
        esi_tensor hidden = esi_rows(p->hidden, 0, count);
        st = esi_linear(p->ctx, hidden, esi_rows(p->u, first, count), l->up.weight, &gelu);
        if (st != ESPALIER_OK) return st;
        st = linear_onto_residual(p, hidden, first, &l->down, l->scale2);
        if (st != ESPALIER_OK) return st;
    }
    return ESPALIER_OK;
}

static espalier_status layer(const dinov3_pass *p, int i)
{
    const dinov3_layer *l = &p->model->layers[i];
    espalier_status st = esi_check_cancel(p->ctx);

    if (st != ESPALIER_OK) return st;
    st = attention(p, l);
    if (st != ESPALIER_OK) return st;
    if (!esi_tensor_is_null(p->tap)) esi_tap(p->ctx, p->tap, "layer%d.attn", i);
    st = mlp(p, l);
    if (st != ESPALIER_OK) return st;
    if (!esi_tensor_is_null(p->tap)) esi_tap(p->ctx, p->tap, "layer%d.mlp", i);
    esi_tap(p->ctx, p->x, "layer%d", i);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------ the pass */

/* Rows of the MLP are independent, so a tight budget (0 = none) cuts its hidden layer smaller without changing a bit. */
static int64_t plan_chunk(const esi_dinov3_config *c, int64_t P, uint64_t budget, uint64_t *bytes)
{
    const int64_t N = 1 + c->registers + P;
    const uint64_t fixed = 5 * esi_matrix_bytes(N, c->hidden) + 2 * esi_matrix_bytes(P, c->hidden / c->heads) +
                           esi_linear_scratch_bytes(ESI_MAX(c->hidden, c->mlp)); /* x, u, qkv; rotary tables */
    int64_t chunk = ESI_MIN(N, MLP_CHUNK);

    while (budget != 0 && chunk > SMALLEST_CHUNK && fixed + esi_matrix_bytes(chunk, c->mlp) > budget) chunk /= 2;
    *bytes = fixed + esi_matrix_bytes(chunk, c->mlp);
    return chunk;
}

uint64_t esi_dinov3_memory_plan(const esi_dinov3_config *c, int64_t H, int64_t W, uint64_t budget)
{
    const int64_t P = H / c->patch * (W / c->patch);
    /* The picture is cut into patches, twice for a moment, before the large buffers are made. */
    const uint64_t patches = esi_matrix_bytes(1 + c->registers + P, c->hidden) + 2 * esi_matrix_bytes(P, 3 * (int64_t)c->patch * c->patch) +
                             esi_linear_scratch_bytes(3 * (int64_t)c->patch * c->patch);
    uint64_t bytes;

    plan_chunk(c, P, budget, &bytes);
    return ESI_MAX(bytes, patches);
}

static espalier_status make_buffers(dinov3_pass *p, int64_t chunk)
{
    const esi_dinov3_config *c = &p->model->config;
    espalier_status st;

    st = esi_tensor_new(p->ctx, &p->u, p->N, c->hidden, ESI_F32);
    if (st != ESPALIER_OK) return st;
    st = esi_tensor_new(p->ctx, &p->qkv, p->N, 3 * (int64_t)c->hidden, ESI_F32);
    if (st != ESPALIER_OK) return st;
    if (esi_tap_enabled(p->ctx)) {
        st = esi_tensor_new(p->ctx, &p->tap, p->N, c->hidden, ESI_F32);
        if (st != ESPALIER_OK) return st;
    }
    return esi_tensor_new(p->ctx, &p->hidden, chunk, c->mlp, ESI_F32);
}

espalier_status esi_dinov3_forward(espalier_context *ctx, const esi_dinov3 *m, esi_tensor *cond, const float *pixels, int64_t H, int64_t W)
{
    const esi_dinov3_config *c = &m->config;
    const esi_norm_args plain = {.eps = (float)1e-5};
    dinov3_pass p = {.ctx = ctx, .model = m, .rows = H / c->patch, .cols = W / c->patch};
    const uint64_t left = esi_memory_left(ctx);
    uint64_t planned;
    int64_t chunk;
    esi_scope scope;
    espalier_status st;

    memset(cond, 0, sizeof *cond);
    if (H < 1 || W < 1 || H % c->patch != 0 || W % c->patch != 0 || H > 1 << 15 || W > 1 << 15)
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "image encoder: %lld x %lld pixels are not a multiple of the patch of %d", (long long)W,
                        (long long)H, c->patch);
    p.P = p.rows * p.cols;
    p.N = 1 + c->registers + p.P;
    chunk = plan_chunk(c, p.P, left == UINT64_MAX ? 0 : ESI_MAX(left, 1), &planned);
    scope = esi_scope_begin(ctx);
    st = esi_tensor_new(ctx, &p.x, p.N, c->hidden, ESI_F32);
    if (st != ESPALIER_OK) goto done;
    st = embed(&p, pixels);
    if (st != ESPALIER_OK) goto done;
    st = make_rope(&p);
    if (st != ESPALIER_OK) goto done;
    st = make_buffers(&p, chunk);
    if (st != ESPALIER_OK) goto done;
    for (int i = 0; i < c->layers; i++) {
        st = layer(&p, i);
        if (st != ESPALIER_OK) goto done;
    }
    st = esi_layer_norm(ctx, p.x, p.x, &plain);
    if (st != ESPALIER_OK) goto done;
    esi_tap(ctx, p.x, "cond");
    esi_tensor_keep(ctx, p.x);
    *cond = p.x;
done:
    esi_scope_end(ctx, scope);
    return st;
}
