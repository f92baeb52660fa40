/* SPDX-License-Identifier: MIT
 *
 * math_vectors.c: do all instances of the vector vocabulary and of vmath.h give the bits of plain C? Every function over a regular sample
 * of all floats, the vocabulary over pairs of special and random values, row sums and partial loads over all lengths. The full walk over
 * all floats is math_exhaustive.
 */
#include "kernels/math_instance.h"

#include <stdio.h>
#include <stdlib.h>

#define BLOCK  4096
#define STRIDE 127

static int n_failures;

static void report(const math_instance *a, const math_instance *b, const char *what, float x, float left, float right)
{
    if (++n_failures > 20) return;
    printf("FAIL %s: %s %a, %s %a at %a (0x%08x)\n", what, a->name, (double)left, b->name, (double)right, (double)x,
           (unsigned)bits_of_float(x));
}

/* first + i * stride, wrapping; n = number of floats */
static void compare_functions(const math_instance *a, const math_instance *b, uint32_t stride)
{
    static float x[BLOCK], left[BLOCK], right[BLOCK];
    uint64_t total = (UINT64_C(1) << 32) / stride;

    for (int f = 0; f < MATH_FUNCTIONS; f++) {
        for (uint64_t done = 0; done < total; done += BLOCK) {
            for (uint32_t i = 0; i < BLOCK; i++) x[i] = float_of_bits((uint32_t)(done + i) * stride);
            a->functions[f].run(left, x, BLOCK);
            b->functions[f].run(right, x, BLOCK);
            if (memcmp(left, right, sizeof left) == 0) continue;
            for (size_t i = 0; i < BLOCK; i++)
                if (!same_float(left[i], right[i])) report(a, b, a->functions[f].name, x[i], left[i], right[i]);
        }
    }
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

static void fill_operands(float *p, float *q)
{
    static const float special[32] = {
        0.0f, -0.0f, 1.0f, -1.0f, 0x1p-40f, -0x1p-40f, 0x1.fffffep-41f, -0x1.fffffep-41f, INFINITY, -INFINITY, NAN, -NAN, 0x1p-126f,
        0x1p-149f, -0x1.8p-130f, 0x1.fffffep+127f, -0x1.fffffep+127f, 0x1p23f, 0x1p24f, 0x1.000002p0f, 0.5f, -0.5f, 3.0f, 1e10f, -1e-10f,
        88.0f, -87.0f, 20.0f, 0x1p-63f, 0x1p-20f, 2.5f, -7.25f};
    uint64_t state = 1;

    for (uint32_t i = 0; i < BLOCK; i++) {
        p[i] = i < 1024 ? special[i / 32] : float_of_bits(next_random(&state));
        q[i] = i < 1024 ? special[i % 32] : float_of_bits(next_random(&state));
        if (i >= 3072) q[i] = p[i] * 0.5f + q[i] * 0x1p-20f;
    }
}

static void compare_words(const math_instance *a, const math_instance *b)
{
    static float p[BLOCK], q[BLOCK], left[BLOCK], right[BLOCK];

    fill_operands(p, q);
    for (int w = 0; a->words[w].name != NULL; w++) {
        a->words[w].run(left, p, q, BLOCK);
        b->words[w].run(right, p, q, BLOCK);
        for (size_t i = 0; i < BLOCK; i++)
            if (!same_float(left[i], right[i])) report(a, b, a->words[w].name, p[i], left[i], right[i]);
    }
}

/* Lengths 0 .. 66 at every offset of a vector; the floats around the rows must stay as they are. */
static void compare_rows(const math_instance *a, const math_instance *b)
{
    float x[128], left[128], right[128];
    uint64_t state = 2;

    for (size_t i = 0; i < 128; i++) x[i] = ldexpf((float)next_random(&state) - 0x1p31f, (int)(next_random(&state) % 80) - 80);
    for (size_t offset = 0; offset < 17; offset++)
        for (size_t n = 0; n <= 66; n++) {
            const float *row = x + offset;
            float sum_a = a->row_sum(row, n), sum_b = b->row_sum(row, n);
            float max_a = a->row_max(row, n), max_b = b->row_max(row, n);
            if (!same_float(sum_a, sum_b)) report(a, b, "row sum", (float)n, sum_a, sum_b);
            if (!same_float(max_a, max_b)) report(a, b, "row maximum", (float)n, max_a, max_b);
            for (size_t i = 0; i < 128; i++) left[i] = right[i] = 42.0f;
            a->copy(left + offset, row, n);
            b->copy(right + offset, row, n);
            for (size_t i = 0; i < 128; i++) {
                bool outside = i < offset || i >= offset + n;
                if (!same_float(left[i], right[i]) || (outside && left[i] != 42.0f)) report(a, b, "copy", (float)i, left[i], right[i]);
            }
        }
}

/* Rule 5 in the plainest form, to hold the definition itself to it. */
static float plain_row_sum(const float *x, size_t n)
{
    float lane[16] = {0.0f};
    for (size_t i = 0; i < n; i++) lane[i % 16] = fmaf(x[i], x[i], lane[i % 16]);
    for (size_t half = 8; half >= 1; half /= 2)
        for (size_t j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static void check_definition(const math_instance *scalar)
{
    float x[70];
    uint64_t state = 3;

    for (size_t i = 0; i < 70; i++) x[i] = (float)next_random(&state) * 0x1p-31f - 1.0f;
    for (size_t n = 0; n <= 70; n++) {
        float want = plain_row_sum(x, n), got = scalar->row_sum(x, n);
        if (!same_float(want, got)) report(scalar, scalar, "definition of the row sum", (float)n, want, got);
    }
}

int main(void)
{
    const math_instance *const *list = math_instances();
    const math_instance *fast;

    check_definition(list[0]);
    if (list[1] == NULL) {
        puts("plain C is the only instance here");
        return n_failures != 0;
    }
    /* plain C without hardware fma is slow: it is compared with the next instance on fewer floats, that one with the rest on many */
    fast = list[1];
    compare_functions(list[0], fast, 16411);
    for (int i = 2; list[i] != NULL; i++) compare_functions(fast, list[i], STRIDE);
    for (int i = 1; list[i] != NULL; i++) {
        compare_words(list[0], list[i]);
        compare_rows(list[0], list[i]);
        printf("%s: compared with %s\n", list[i]->name, list[0]->name);
    }
    if (n_failures != 0) printf("%d differences\n", n_failures);
    return n_failures != 0;
}
