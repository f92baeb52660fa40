/* SPDX-License-Identifier: MIT
 *
 * math_exhaustive.c: the error of every fp32 function over every float, and whether all instances give the same bits there; the software
 * fma against the C library's. Not part of the test run: it takes several minutes of processor time.
 *
 *     math_exhaustive [--threads N] [--stride N] [--fma MILLIONS] [FUNCTION...]
 *
 * Errors are measured with fp64 references (math_reference.h). Where every function is trivial, |x| < 2^-42 and |x| >= 2^8, every 61st
 * float is measured; the instances are compared on every float. Plain C without hardware fma, which is slow, takes part on every 61st.
 */
#include "base/fma.h"
#include "kernels/math_instance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK  4096
#define SPARSE 61

typedef struct range_result {
    double worst;
    float worst_at;
    double worst_alone;            /* against |y| alone, where |y| >= 2^-40 */
    float worst_alone_at;
    uint64_t n_measured, n_different, n_nan_lost;
} range_result;

typedef struct job {
    const math_instance *const *list;
    int function;
    uint32_t stride;
    uint64_t first_block, last_block, step;
    range_result result;
} job;

static bool measured_everywhere(float x) { return fabsf(x) >= 0x1p-42f && fabsf(x) < 256.0f; }

static void measure(range_result *r, const math_reference *f, float x, float got)
{
    double exact, error;

    if (isnan(x)) {
        r->n_nan_lost += !isnan(got);
        return;
    }
    if (!math_is_measured(x)) return;
    r->n_measured++;
    exact = f->exact(x);
    error = math_error_from(exact, f->relative_to_argument, x, got);
    if (error > r->worst) {
        r->worst = error;
        r->worst_at = x;
    }
    if (!f->relative_to_argument || !(fabsf(got) >= 0x1p-40f)) return;
    error = math_error_from(exact, false, x, got);
    if (error > r->worst_alone) {
        r->worst_alone = error;
        r->worst_alone_at = x;
    }
}

static void *walk(void *arg)
{
    job *j = arg;
    const math_reference *f = &math_references()[j->function];
    const math_instance *main_instance = NULL;
    float x[BLOCK], y[BLOCK], other[BLOCK];
    int n_instances = 0;

    while (j->list[n_instances] != NULL) n_instances++;
    main_instance = j->list[n_instances - 1];
    for (uint64_t block = j->first_block; block < j->last_block; block += j->step) {
        for (uint32_t i = 0; i < BLOCK; i++) x[i] = float_of_bits(((uint32_t)block * BLOCK + i) * j->stride);
        main_instance->functions[j->function].run(y, x, BLOCK);
        for (int k = 0; k + 1 < n_instances; k++) {
            if (k == 0 && block % SPARSE != 0) continue;
            j->list[k]->functions[j->function].run(other, x, BLOCK);
            if (memcmp(y, other, sizeof y) == 0) continue;
            for (int i = 0; i < BLOCK; i++) j->result.n_different += !same_float(y[i], other[i]);
        }
        for (uint32_t i = 0; i < BLOCK; i++)
            if (measured_everywhere(x[i]) || isnan(x[i]) || (block * BLOCK + i) % SPARSE == 0) measure(&j->result, f, x[i], y[i]);
    }
    return NULL;
}

static void merge(range_result *into, const range_result *r)
{
    if (r->worst > into->worst) {
        into->worst = r->worst;
        into->worst_at = r->worst_at;
    }
    if (r->worst_alone > into->worst_alone) {
        into->worst_alone = r->worst_alone;
        into->worst_alone_at = r->worst_alone_at;
    }
    into->n_measured += r->n_measured;
    into->n_different += r->n_different;
    into->n_nan_lost += r->n_nan_lost;
}

static bool check_function(const math_instance *const *list, int function, uint32_t stride, int n_threads)
{
    const math_reference *f = &math_references()[function];
    uint64_t n_blocks = ((UINT64_C(1) << 32) / stride + BLOCK - 1) / BLOCK;
    pthread_t threads[64];
    job jobs[64];
    range_result total = {0};
    int n_started = 0;

    for (int t = 0; t < n_threads; t++) {
        job j = {.list = list, .function = function, .stride = stride, .first_block = (uint64_t)t, .last_block = n_blocks,
                 .step = (uint64_t)n_threads};
        jobs[t] = j;
    }
    for (; n_started < n_threads - 1; n_started++)
        if (pthread_create(&threads[n_started], NULL, walk, &jobs[n_started]) != 0) break;
    for (int t = n_started; t < n_threads; t++) walk(&jobs[t]);
    for (int t = 0; t < n_started; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < n_threads; t++) merge(&total, &jobs[t].result);
    printf("%-10s %.4f ulp at %a (%.9g)", f->name, total.worst, (double)total.worst_at, (double)total.worst_at);
    if (f->relative_to_argument) printf("; of |y| alone %.4f at %.9g", total.worst_alone, (double)total.worst_alone_at);
    printf("; %llu measured, %llu different, %llu NaN lost\n", (unsigned long long)total.n_measured, (unsigned long long)total.n_different,
           (unsigned long long)total.n_nan_lost);
    fflush(stdout);
    return total.worst <= f->bound && total.n_different == 0 && total.n_nan_lost == 0;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Random operands in five kinds: any bits; close exponents; addend near minus the product; product near the smallest numbers; product very
 * near half a last bit of the addend. */
static bool check_fma(uint64_t count)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15), n_wrong = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t r = next_random(&state), s = next_random(&state);
        float a = float_of_bits((uint32_t)r), b = float_of_bits((uint32_t)(r >> 32)), c = float_of_bits((uint32_t)s);
        if (i % 5 == 1) {
            a = float_of_bits((bits_of_float(a) & 0x80ffffffu) | 0x3f000000u);
            b = float_of_bits((bits_of_float(b) & 0x80ffffffu) | 0x3f000000u);
            c = float_of_bits((bits_of_float(c) & 0x87ffffffu) | 0x38000000u);
        } else if (i % 5 == 2) {
            c = float_of_bits(bits_of_float(-(a * b)) + (uint32_t)(s >> 61));
        } else if (i % 5 == 3) {
            a = float_of_bits((bits_of_float(a) & 0x81ffffffu) | 0x1e000000u);
            b = float_of_bits((bits_of_float(b) & 0x81ffffffu) | 0x1e000000u);
            c = float_of_bits(bits_of_float(c) & 0x81ffffffu);
        } else if (i % 5 == 4) {
            uint32_t k = (uint32_t)(s >> 59);
            a = float_of_bits((bits_of_float(a) & 0x80000000u) | (0x3f800000u + k));
            b = float_of_bits((bits_of_float(b) & 0x80000000u) | (0x33800000u - 2 * k - (k & 1) * 0x800000u));
            c = float_of_bits((bits_of_float(c) & 0x807fffffu) | 0x3f800000u);
        }
        if (same_float(esi_fmaf_soft(a, b, c), fmaf(a, b, c))) continue;
        if (n_wrong++ < 10) printf("fma(%a, %a, %a) = %a\n", (double)a, (double)b, (double)c, (double)esi_fmaf_soft(a, b, c));
    }
    printf("fma        %llu cases, %llu wrong\n", (unsigned long long)count, (unsigned long long)n_wrong);
    fflush(stdout);
    return n_wrong == 0;
}

int main(int argc, char **argv)
{
    const math_instance *const *list = math_instances();
    bool chosen[MATH_FUNCTIONS] = {false};
    int n_threads = 1, n_chosen = 0, i = 1;
    uint32_t stride = 1;
    uint64_t fma_millions = 60;
    bool good = true;

    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        long value = strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--threads") == 0 && value >= 1 && value <= 64) n_threads = (int)value;
        else if (strcmp(argv[i], "--stride") == 0 && value >= 1) stride = (uint32_t)value;
        else if (strcmp(argv[i], "--fma") == 0 && value >= 0) fma_millions = (uint64_t)value;
        else break;
    }
    for (; i < argc; i++, n_chosen++) {
        int f = 0;
        while (f < MATH_FUNCTIONS && strcmp(math_references()[f].name, argv[i]) != 0) f++;
        if (f == MATH_FUNCTIONS) {
            fprintf(stderr, "math_exhaustive: unknown argument %s\n", argv[i]);
            return 2;
        }
        chosen[f] = true;
    }
    printf("instances:");
    for (int k = 0; list[k] != NULL; k++) printf(" %s", list[k]->name);
    printf("\n");
    if (fma_millions > 0) good = check_fma(fma_millions * 1000000) && good;
    for (int f = 0; f < MATH_FUNCTIONS; f++)
        if (n_chosen == 0 || chosen[f]) good = check_function(list, f, stride, n_threads) && good;
    puts(good ? "all within the bounds" : "FAILED");
    return good ? 0 : 1;
}
