/* SPDX-License-Identifier: MIT
 *
 * selftest.c: what a device computes before it is trusted. A probe shader runs every piece of arithmetic over hard cases, and the plain C
 * functions say what is right, by bytes. The ways to an exact fma are tried from the fastest on: the first that is right everywhere is
 * taken. Then one op of the networks runs. NaN is a class; a result below 2^-126 may be zero, because stores make it zero.
 */
#include "tensor/vulkan/internal.h"

#include "tensor/cpu/vec_scalar.h"
#include "tensor/cpu/vmath.h"

#include <stdio.h>
#include <stdlib.h>

#define CASES 4096
#define RESULTS 16

static const char *const result_names[RESULTS] = {"fma",  "addition", "subtraction", "multiplication", "division", "square root",
                                                  "the store rule", "relu", "SiLU", "GELU (tanh)", "GELU (erf)", "sigmoid", "softplus",
                                                  "tanh", "exp", "erf"};

typedef struct bench {
    float in[3][CASES], want[RESULTS][CASES], got[RESULTS][CASES];
    esi_vk_range ranges[4];
} bench;

static uint32_t next(uint64_t *state)       /* splitmix64, upper half */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ z >> 31) >> 32);
}

/* A number of either sign with its exponent in [-range, range]. */
static float number(uint64_t *state, int range)
{
    uint32_t exponent = 127u - (uint32_t)range + next(state) % (2u * (uint32_t)range + 1u);
    return esi_scalar_from_bits((next(state) & 0x807fffffu) | exponent << 23);
}

/* Results that are no normal number are zero of any sign on some devices, and inputs then too: they are not asked for. */
static void make_case(uint64_t *state, uint32_t i, float *a, float *b, float *c)
{
    static const float special[] = {0.0f, 1.0f, -1.0f, HUGE_VALF, -HUGE_VALF, NAN, 3e38f, -3e38f, 1e-30f, 0x1p-40f, -0x1p-41f, 88.8f,
                                    -87.5f, 20.0f, 0.5f, 0.9f};
    float step = 1.0f + 0x1p-23f * (float)(next(state) % 8u);

    *a = number(state, 12);
    *b = number(state, 5);
    *c = number(state, 24);
    switch (i % 8) {
    case 0: *c = -(*a * *b); break;                                                   /* the rounding error of the product */
    case 1: *c = esi_scalar_from_bits(esi_scalar_bits(*a * *b) ^ 0x80000001u); break;
    case 2:                                                                           /* next to the middle of two numbers */
        *a = 0x1p-12f * step;
        *b = 0x1p-12f * (2.0f - step);
        *c = 1.0f + 0x1p-22f * (float)(next(state) % 64u);
        break;
    case 3:
        *a = 0x1p-12f * step;
        *b = -0x1p-12f / step;
        *c = 1.0f + 0x1p-22f * (float)(next(state) % 64u);
        break;
    case 4: *c = *a * 0x1p24f; break;
    case 5:                                                                           /* quotients next to a middle; squares */
        *a = *c * *c;
        break;
    case 6:
        *a = special[next(state) % ESI_COUNT(special)];
        *b = special[next(state) % ESI_COUNT(special)];
        *c = special[next(state) % ESI_COUNT(special)];
        break;
    default: *a = number(state, 60); break;
    }
}

static float stored(float v) { return V_STORE_RULE(v); }

static void expect(bench *t)
{
    uint64_t state = 1;

    for (uint32_t i = 0; i < CASES; i++) {
        float a, b, c;
        make_case(&state, i, &a, &b, &c);
        t->in[0][i] = a;
        t->in[1][i] = b;
        t->in[2][i] = c;
        t->want[0][i] = esi_fmaf(a, b, c);
        t->want[1][i] = a + b;
        t->want[2][i] = a - b;
        t->want[3][i] = a * b;
        t->want[4][i] = a / b;
        t->want[5][i] = sqrtf(V_ABS(a));
        t->want[6][i] = stored(a);
        t->want[7][i] = esi_vrelu_scalar(b);
        t->want[8][i] = esi_vsilu_scalar(b);
        t->want[9][i] = esi_vgelu_tanh_scalar(b);
        t->want[10][i] = esi_vgelu_erf_scalar(b);
        t->want[11][i] = esi_vsigmoid_scalar(b);
        t->want[12][i] = esi_vsoftplus_scalar(b);
        t->want[13][i] = esi_vtanh_scalar(b);
        t->want[14][i] = esi_vexp_scalar(b);
        t->want[15][i] = esi_verf_scalar(b);
    }
}

static bool same(float want, float got)
{
    if (want != want) return got != got;
    if (esi_scalar_bits(want) == esi_scalar_bits(got)) return true;
    return fabsf(want) < 0x1p-126f && fabsf(got) < 0x1p-126f;
}

/* Name of the first result that differs, or NULL. */
static const char *difference(const bench *t, size_t first, size_t end)
{
    for (size_t k = first; k < end; k++)
        for (size_t i = 0; i < CASES; i++)
            if (!same(t->want[k][i], t->got[k][i])) return result_names[k];
    return NULL;
}

/* What becomes of products below 2^-126: nothing here depends on it, but it is good to know of a device. */
static const char *subnormals(const bench *t)
{
    bool kept = false, flushed = false;

    for (size_t i = 0; i < CASES; i++) {
        float want = t->want[3][i];
        if (!(fabsf(want) < 0x1p-126f) || want == 0.0f) continue;
        if (t->got[3][i] == 0.0f) flushed = true;
        else kept = true;
    }
    return kept ? flushed ? "partly flushed" : "kept" : "flushed";
}

static espalier_status run_probe(esi_vk_device *d, bench *t, esi_vulkan_fma fma)
{
    esi_vk_push push = {.rows = CASES, .cols = 1};
    esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
    espalier_status st;

    d->info.fma = fma;
    for (size_t i = 0; i < 4; i++) bindings[i] = (esi_vk_binding){&t->ranges[i], 0, i ? sizeof t->in[0] : sizeof t->got};
    st = esi_vk_pipelines_open(d);
    if (st == ESPALIER_OK)
        st = esi_vk_dispatch(NULL, d, "the probe", ESI_VK_PROBE, 0, 0, bindings, &push, CASES / esi_vk_workgroup(d), CASES);
    if (st == ESPALIER_OK) st = esi_vk_download(NULL, d, &t->ranges[0], 0, t->got, sizeof t->got);
    return st;
}

/* y = fma(alpha, a, beta * b) as an op, through the same pipelines as the networks. */
static espalier_status run_op(esi_vk_device *d, bench *t)
{
    esi_vk_push push = {.rows = CASES / 64, .cols = 64, .at = {{0, 64}, {0, 64}, {0, 64}, {0, 64}}, .n = {3}, .f = {0.7f, -1.3f}};
    esi_vk_binding bindings[ESI_VK_BINDINGS] = {{NULL, 0, 0}};
    espalier_status st;

    for (size_t i = 0; i < 4; i++) bindings[i] = (esi_vk_binding){&t->ranges[i], 0, i ? sizeof t->in[0] : sizeof t->got};
    st = esi_vk_dispatch(NULL, d, "axpby", ESI_VK_ELEMENTWISE, ESI_EW_AXPBY, 0, bindings, &push, CASES / esi_vk_workgroup(d), CASES);
    if (st == ESPALIER_OK) st = esi_vk_download(NULL, d, &t->ranges[0], 0, t->got, sizeof t->in[0]);
    for (size_t i = 0; i < CASES && st == ESPALIER_OK; i++) {
        float want = stored(esi_fmaf(0.7f, t->in[0][i], -1.3f * t->in[1][i]));
        if (!same(want, t->got[0][i])) st = esi_vk_fail(NULL, d, "it computes wrongly: axpby");
    }
    return st;
}

static espalier_status run_tests(esi_vk_device *d, bench *t, esi_vulkan_fma forced)
{
    const esi_vulkan_fma first = forced ? forced : ESI_VULKAN_FMA_FUSED, last = forced ? forced : ESI_VULKAN_FMA_INTEGER;
    const char *wrong = "fma";
    espalier_status st = ESPALIER_OK;

    for (int fma = (int)first; fma <= (int)last && wrong; fma++) {
        if (fma == ESI_VULKAN_FMA_FP64 && !d->info.fp64) continue;
        esi_vk_pipelines_close(d);
        st = run_probe(d, t, (esi_vulkan_fma)fma);
        if (st != ESPALIER_OK) return st;
        wrong = difference(t, 0, 1);
    }
    if (!wrong) wrong = difference(t, 1, RESULTS);
    d->info.subnormals = subnormals(t);
    return wrong ? esi_vk_fail(NULL, d, "it computes wrongly: %s", wrong) : run_op(d, t);
}

espalier_status esi_vk_self_test(esi_vk_device *d, esi_vulkan_fma forced)
{
    bench *t = esi_raw_alloc(&d->allocator, sizeof *t);
    espalier_status st = ESPALIER_OK;

    if (!t) return esi_vk_fail_memory(NULL, d, "the self-test");
    memset(t->ranges, 0, sizeof t->ranges);
    expect(t);
    for (size_t i = 0; i < 4 && st == ESPALIER_OK; i++) {
        st = esi_vk_range_new(NULL, d, &t->ranges[i], i ? sizeof t->in[0] : sizeof t->got, "the self-test");
        if (st == ESPALIER_OK && i) st = esi_vk_upload(NULL, d, &t->ranges[i], 0, t->in[i - 1], sizeof t->in[0]);
    }
    if (st == ESPALIER_OK) st = run_tests(d, t, forced);
    for (size_t i = 0; i < 4; i++) esi_vk_range_free(d, &t->ranges[i]);
    esi_raw_free(&d->allocator, t, sizeof *t);
    return st;
}
