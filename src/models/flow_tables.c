/* SPDX-License-Identifier: MIT
 *
 * flow_tables.c: the rotary tables of the flow transformers from token coordinates, and the sinusoidal embedding of the timestep. Host code
 * in our own fp64 functions; the roundings to fp32 in between are the reference's.
 */
#include "models/flow.h"

#include "base/math64.h"

#include <math.h>

#define MAX_COORDINATE (1 << 16)

/* cos and sin of coordinate * frequency for every coordinate value that occurs: coordinates are few, tokens many. */
typedef struct axis_table {
    int frequencies;      /* G: a third of the pairs of a head, rounded down */
    int64_t values;       /* 1 + largest coordinate */
    float *cosine, *sine; /* [values][G] */
} axis_table;

static espalier_status make_axis_table(espalier_context *ctx, axis_table *table, const esi_flow_config *c, int64_t values)
{
    const int G = c->channels / c->heads / 2 / 3;
    size_t count;

    table->frequencies = G;
    table->values = values;
    esi_mul_size(&count, (size_t)values, (size_t)G);
    table->cosine = esi_alloc(ctx, count, sizeof(float), "rotary table");
    if (!table->cosine) return ESPALIER_ERR_RESOURCE;
    table->sine = esi_alloc(ctx, count, sizeof(float), "rotary table");
    if (!table->sine) return ESPALIER_ERR_RESOURCE;
    for (int j = 0; j < G; j++) {
        float exponent = (float)j / (float)G;
        float power = (float)esi_pow(c->rope_high, (double)exponent);
        float frequency = (float)c->rope_low / power;
        for (int64_t v = 0; v < values; v++) {
            float angle = (float)v * frequency;
            table->cosine[v * G + j] = (float)esi_cos((double)angle);
            table->sine[v * G + j] = (float)esi_sin((double)angle);
        }
    }
    return ESPALIER_OK;
}

/* Pairs [0, G) turn by x, [G, 2G) by y, [2G, 3G) by z; the rest stay. */
static void fill_row(float *cosine, float *sine, const axis_table *table, const int32_t xyz[3], int pairs)
{
    const int G = table->frequencies;

    for (int axis = 0; axis < 3; axis++) {
        memcpy(cosine + axis * G, table->cosine + (int64_t)xyz[axis] * G, (size_t)G * sizeof(float));
        memcpy(sine + axis * G, table->sine + (int64_t)xyz[axis] * G, (size_t)G * sizeof(float));
    }
    for (int p = 3 * G; p < pairs; p++) {
        cosine[p] = 1.0f;
        sine[p] = 0.0f;
    }
}

/* Coordinates of token n: the caller's (b, x, y, z), or the cell of the dense grid n = (x*R + y)*R + z. */
static void token_xyz(int32_t xyz[3], const int32_t *coords, int64_t n, int R)
{
    if (coords) {
        memcpy(xyz, coords + 4 * n + 1, 3 * sizeof *xyz);
        return;
    }
    xyz[0] = (int32_t)(n / R / R);
    xyz[1] = (int32_t)(n / R % R);
    xyz[2] = (int32_t)(n % R);
}

static espalier_status largest_coordinate(espalier_context *ctx, int64_t *largest, const int32_t *coords, int64_t N, int R)
{
    int32_t xyz[3];

    *largest = 0;
    for (int64_t n = 0; n < N; n++) {
        token_xyz(xyz, coords, n, R);
        for (int axis = 0; axis < 3; axis++) {
            if (xyz[axis] < 0 || xyz[axis] >= MAX_COORDINATE)
                return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "flow model: token %lld has coordinate %d", (long long)n, (int)xyz[axis]);
            *largest = ESI_MAX(*largest, (int64_t)xyz[axis]);
        }
    }
    return ESPALIER_OK;
}

espalier_status esi_flow_rope_tables(espalier_context *ctx, esi_tensor *cos_out, esi_tensor *sin_out, const esi_flow_config *c,
                                     const int32_t *coords, int64_t N)
{
    const int pairs = c->channels / c->heads / 2;
    axis_table table = {0};
    float *cosine = NULL, *sine = NULL;
    int64_t largest;
    int32_t xyz[3];
    size_t count;
    espalier_status st;

    st = largest_coordinate(ctx, &largest, coords, N, c->resolution);
    if (st != ESPALIER_OK) return st;
    st = make_axis_table(ctx, &table, c, largest + 1);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    esi_mul_size(&count, (size_t)N, (size_t)pairs);
    cosine = esi_alloc(ctx, count, sizeof *cosine, "rotary table");
    if (!cosine) goto done;
    sine = esi_alloc(ctx, count, sizeof *sine, "rotary table");
    if (!sine) goto done;
    for (int64_t n = 0; n < N; n++) {
        token_xyz(xyz, coords, n, c->resolution);
        fill_row(cosine + n * pairs, sine + n * pairs, &table, xyz, pairs);
    }
    st = esi_tensor_from(ctx, cos_out, N, pairs, ESI_F32, cosine);
    if (st != ESPALIER_OK) goto done;
    st = esi_tensor_from(ctx, sin_out, N, pairs, ESI_F32, sine);
done:
    esi_free(ctx, sine);
    esi_free(ctx, cosine);
    esi_free(ctx, table.sine);
    esi_free(ctx, table.cosine);
    return st;
}

void esi_flow_timestep_embedding(float *e, float t)
{
    const int half = FLOW_TIMESTEP_WIDTH / 2;
    const float slope = (float)-esi_ln(10000.0);

    for (int k = 0; k < half; k++) {
        float exponent = slope * (float)k / (float)half;
        float frequency = (float)esi_exp((double)exponent);
        float angle = t * frequency;
        e[k] = (float)esi_cos((double)angle);
        e[half + k] = (float)esi_sin((double)angle);
    }
}
