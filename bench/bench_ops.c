/* SPDX-License-Identifier: MIT
 *
 * bench_ops.c: benchmarks of single operations at the sizes of the networks.
 */
#include "bench.h"
#include "models/image_tables.h"
#include "voxel/voxel.h"

#include <stdio.h>

/* ------------------------------------------------------------------ linear */

typedef struct linear_args { esi_tensor y, x, w; } linear_args;

static espalier_status linear_once(bench *b, void *arg)
{
    const linear_args *a = arg;
    return esi_linear(b->ctx, a->y, a->x, a->w, NULL);
}

/* Random bytes that are finite numbers of moderate size in every type. */
static void fill_weight(uint8_t *bytes, size_t n, esi_dtype dtype)
{
    uint64_t state = n;

    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)bench_next(&state);
    for (size_t i = 1; dtype == ESI_BF16 && i < n; i += 2) bytes[i] = (uint8_t)((bytes[i] & 0x80u) | 0x3cu);
    for (size_t i = 1; dtype == ESI_F16 && i < n; i += 2) bytes[i] = (uint8_t)((bytes[i] & 0x83u) | 0x28u);
    for (size_t i = 3; dtype == ESI_F32 && i < n; i += 4) bytes[i] = (uint8_t)((bytes[i] & 0x80u) | 0x3cu);
    for (size_t i = 1; dtype == ESI_Q8_0 && i < n; i += 34) bytes[i] = 0x18;
}

static espalier_status one_linear(bench *b, const char *only, int64_t n, int64_t k, int64_t o, esi_dtype dtype)
{
    espalier_context *ctx = b->ctx;
    esi_scope scope;
    linear_args a = {0};
    uint8_t *bytes = NULL;
    size_t row_bytes;
    char name[96];
    espalier_status st;
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0"};

    snprintf(name, sizeof name, "linear/%lldx%lldx%lld/%s", (long long)n, (long long)k, (long long)o, types[dtype]);
    if (!bench_wanted(only, name)) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    esi_dtype_row_bytes(dtype, k, &row_bytes);
    bytes = esi_alloc(ctx, row_bytes, (size_t)o, "weights");
    if (!bytes) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    fill_weight(bytes, row_bytes * (size_t)o, dtype);
    st = esi_weight_wrap(ctx, &a.w, o, k, dtype, bytes);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.x, n, k);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.y, n, o, ESI_F32);
    if (st == ESPALIER_OK)
        st = bench_measure(b, name, 2.0 * (double)n * (double)k * (double)o, "2 * rows * K * N", linear_once, &a);
done:
    esi_weight_release(ctx, &a.w);
    esi_free(ctx, bytes);
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status bench_linear(bench *b, const char *only)
{
    static const int64_t shapes[][2] = {{1536, 4608}, {1536, 8192}, {8192, 1536}};
    espalier_status st = one_linear(b, only, 1024, 1536, 1536, ESI_BF16);

    for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(shapes); i++)
        st = one_linear(b, only, 4096, shapes[i][0], shapes[i][1], ESI_BF16);
    for (int dtype = 0; st == ESPALIER_OK && dtype < 4; dtype++)
        if (dtype != ESI_BF16) st = one_linear(b, only, 4096, 1536, 4608, (esi_dtype)dtype);
    if (st == ESPALIER_OK) st = one_linear(b, only, 1029, 1024, 3072, ESI_BF16);
    return st;
}

/* --------------------------------------------------------------- attention */

typedef struct attention_tensors {
    esi_tensor y, q, k, v;
    esi_attention_args args;
} attention_tensors;

static espalier_status attention_once(bench *b, void *arg)
{
    const attention_tensors *a = arg;
    return esi_attention(b->ctx, a->y, a->q, a->k, a->v, &a->args);
}

static espalier_status one_attention(bench *b, const char *only, int64_t nq, int64_t nk, int heads, int64_t dim)
{
    espalier_context *ctx = b->ctx;
    attention_tensors a = {.args = {.heads = heads, .windows = 1, .scale = 0.088f}};
    int64_t c = heads * dim;
    esi_scope scope;
    esi_tensor kv;
    char name[96];
    espalier_status st;

    snprintf(name, sizeof name, "attention/%dx%lld/%lldx%lld", heads, (long long)dim, (long long)nq, (long long)nk);
    if (!bench_wanted(only, name)) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    st = bench_random(ctx, &a.q, nq, c);
    if (st == ESPALIER_OK) st = bench_random(ctx, &kv, nk, 2 * c);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.y, nq, c, ESI_F32);
    if (st == ESPALIER_OK) {
        a.k = esi_cols(kv, 0, c);
        a.v = esi_cols(kv, c, c);
        st = bench_measure(b, name, 4.0 * (double)nq * (double)nk * (double)c, "4 * queries * keys * heads * dim", attention_once, &a);
    }
    esi_scope_end(ctx, scope);
    return st;
}

/* Windows of `area` tokens with a bias, as in the backbone of matting networks. */
static espalier_status window_attention(bench *b, const char *only, int64_t windows, int64_t area, int heads, int64_t dim)
{
    espalier_context *ctx = b->ctx;
    attention_tensors a = {.args = {.heads = heads, .windows = windows, .scale = 0.177f}};
    const int64_t c = heads * dim;
    const double flops = 4.0 * (double)windows * (double)area * (double)area * (double)c;
    esi_scope scope;
    esi_tensor qkv;
    char name[96];
    espalier_status st;

    snprintf(name, sizeof name, "attention/windows-%dx%lld/%lld", heads, (long long)dim, (long long)area);
    if (!bench_wanted(only, name)) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    st = bench_random(ctx, &qkv, windows * area, 3 * c);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.args.bias, heads * area, area);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.y, windows * area, c, ESI_F32);
    if (st == ESPALIER_OK) {
        a.q = esi_cols(qkv, 0, c);
        a.k = esi_cols(qkv, c, c);
        a.v = esi_cols(qkv, 2 * c, c);
        st = bench_measure(b, name, flops, "4 * windows * tokens^2 * heads * dim", attention_once, &a);
    }
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status bench_attention(bench *b, const char *only)
{
    espalier_status st = one_attention(b, only, 4096, 4096, 12, 128);
    if (st == ESPALIER_OK) st = one_attention(b, only, 4096, 1029, 12, 128);
    if (st == ESPALIER_OK) st = one_attention(b, only, 1029, 1029, 16, 64);
    if (st == ESPALIER_OK) st = one_attention(b, only, 512, 512, 4, 64);
    if (st == ESPALIER_OK) st = window_attention(b, only, 56, 144, 24, 32);
    if (st == ESPALIER_OK) st = window_attention(b, only, 160, 49, 24, 32);
    return st;
}

/* -------------------------------------------------------------------- conv */

/* A spherical shell one voxel thick with some noise: about `target` voxels in sorted order, close to what a decoded surface is. */
static espalier_status surface(espalier_context *ctx, esi_coords *out, int64_t target)
{
    double radius = 8.0;
    int32_t *rows = NULL;
    int64_t count = 0;
    espalier_status st;

    while (radius * radius * 18.85 * 1.02 < (double)target) radius += 0.25; /* a shell |r - R| < 0.75 has about 6 pi R^2 cells */
    rows = esi_alloc(ctx, (size_t)target, 4 * sizeof *rows, "voxels");
    if (!rows) return ESPALIER_ERR_RESOURCE;
    {
        int32_t half = (int32_t)radius + 3;
        uint64_t state = 7;
        for (int32_t x = -half; x <= half; x++)
            for (int32_t y = -half; y <= half; y++)
                for (int32_t z = -half; z <= half; z++) {
                    double d2 = (double)x * x + (double)y * y + (double)z * z;
                    bool in = d2 >= (radius - 0.75) * (radius - 0.75) && d2 < (radius + 0.75) * (radius + 0.75);
                    bool near = d2 >= (radius - 2) * (radius - 2) && d2 < (radius + 2) * (radius + 2);
                    bool noise = !in && near && bench_next(&state) % 64 == 0;
                    if ((!in && !noise) || count == target) continue;
                    rows[4 * count] = 0;
                    rows[4 * count + 1] = x + half;
                    rows[4 * count + 2] = y + half;
                    rows[4 * count + 3] = z + half;
                    count++;
                }
    }
    st = esi_coords_copy(ctx, out, rows, count);
    esi_free(ctx, rows);
    return st;
}

typedef struct conv_args { esi_tensor y, x, table, w; } conv_args;

static espalier_status conv_once(bench *b, void *arg)
{
    const conv_args *a = arg;
    return esi_conv(b->ctx, a->y, a->x, a->table, a->w, ESI_CONV_TAP_MAJOR, NULL);
}

static espalier_status one_conv(bench *b, const char *only, int64_t target, int64_t ci, int64_t co)
{
    espalier_context *ctx = b->ctx;
    esi_coords coords = {0};
    int32_t *table = NULL;
    uint8_t *bytes = NULL;
    conv_args a = {0};
    esi_scope scope;
    double present = 0.0;
    char name[96], formula[160];
    espalier_status st;

    snprintf(name, sizeof name, "conv/27x%lldx%lldx%lld", (long long)target, (long long)ci, (long long)co);
    if (!bench_wanted(only, name)) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    st = surface(ctx, &coords, target);
    if (st == ESPALIER_OK) st = esi_neighbor_table(ctx, &table, coords.rows, coords.count);
    if (st == ESPALIER_OK) {
        for (int64_t i = 0; i < coords.count * 27; i++) present += table[i] >= 0;
        st = esi_tensor_from(ctx, &a.table, coords.count, 27, ESI_I32, table);
    }
    if (st == ESPALIER_OK) {
        bytes = esi_alloc(ctx, (size_t)(27 * ci * co), 2, "weights");
        st = bytes ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    }
    if (st == ESPALIER_OK) {
        fill_weight(bytes, (size_t)(27 * ci * co) * 2, ESI_F16);
        st = esi_weight_wrap(ctx, &a.w, co, 27 * ci, ESI_F16, bytes);
    }
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.x, coords.count, ci);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.y, coords.count, co, ESI_F32);
    if (st == ESPALIER_OK) {
        snprintf(formula, sizeof formula, "2 * present neighbours * Ci * Co, %.2f of 27 present on average over %lld voxels",
                 present / (double)coords.count, (long long)coords.count);
        st = bench_measure(b, name, 2.0 * present * (double)ci * (double)co, formula, conv_once, &a);
    }
    esi_weight_release(ctx, &a.w);
    esi_free(ctx, bytes);
    esi_free(ctx, table);
    esi_coords_free(ctx, &coords);
    esi_scope_end(ctx, scope);
    return st;
}

static espalier_status picture_once(bench *b, void *arg)
{
    const conv_args *a = arg;
    return esi_conv(b->ctx, a->y, a->x, a->table, a->w, ESI_CONV_CHANNEL_MAJOR, NULL);
}

/* 3 x 3 over a picture. */
static espalier_status picture_conv(bench *b, const char *only, int64_t side, int64_t ci, int64_t co)
{
    static const esi_conv_geometry g = {.kernel = 3, .stride = 1, .padding = 1, .dilation = 1};
    espalier_context *ctx = b->ctx;
    const double present = (double)(3 * side - 2) * (double)(3 * side - 2);
    const size_t count = (size_t)(9 * ci * co);
    uint8_t *bytes = NULL;
    conv_args a = {0};
    esi_scope scope;
    char name[96];
    espalier_status st;

    snprintf(name, sizeof name, "conv/picture-%lldx%lldx%lld", (long long)side, (long long)ci, (long long)co);
    if (!bench_wanted(only, name)) return ESPALIER_OK;
    scope = esi_scope_begin(ctx);
    bytes = esi_alloc(ctx, count, 2, "weights");
    st = bytes ? esi_conv_table(ctx, &a.table, (esi_grid){side, side}, &g, 0, side * side) : ESPALIER_ERR_RESOURCE;
    if (st == ESPALIER_OK) fill_weight(bytes, count * 2, ESI_F16);
    if (st == ESPALIER_OK) st = esi_weight_wrap(ctx, &a.w, co, 9 * ci, ESI_F16, bytes);
    if (st == ESPALIER_OK) st = bench_random(ctx, &a.x, side * side, ci);
    if (st == ESPALIER_OK) st = esi_tensor_new(ctx, &a.y, side * side, co, ESI_F32);
    if (st == ESPALIER_OK)
        st = bench_measure(b, name, 2.0 * present * (double)ci * (double)co, "2 * taps in the picture * Ci * Co", picture_once, &a);
    esi_weight_release(ctx, &a.w);
    esi_free(ctx, bytes);
    esi_scope_end(ctx, scope);
    return st;
}

espalier_status bench_conv(bench *b, const char *only)
{
    espalier_status st = one_conv(b, only, 100000, 128, 128);
    if (st == ESPALIER_OK) st = one_conv(b, only, 1000000, 64, 64);
    if (st == ESPALIER_OK) st = one_conv(b, only, 7488, 512, 512);
    if (st == ESPALIER_OK) st = picture_conv(b, only, 160, 3, 64);
    if (st == ESPALIER_OK) st = picture_conv(b, only, 160, 16, 16);
    if (st == ESPALIER_OK) st = picture_conv(b, only, 160, 64, 64);
    if (st == ESPALIER_OK) st = picture_conv(b, only, 160, 64, 1);
    return st;
}
