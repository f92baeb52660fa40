/* SPDX-License-Identifier: MIT
 *
 * check_kernels.c: compares every CPU level with the plain C kernels, byte by byte, on 1, 2 and 5 threads, including the bytes around the
 * output; and the plain C kernels with double-precision loops.
 *
 *   check_kernels [--cpu-level NAME | --device NAME [--fma KIND] [--ops LIST] [--lower-limits]]
 *
 * --device compares a Vulkan device instead of the CPU levels; KIND (fused, fp64, integer) makes it use one way to an exact fma; LIST is a
 * comma-separated list of the cases' names; --lower-limits makes its bindings and allocations small, so that every op is cut.
 *
 * NaN is a class: any NaN equals any other.
 */
#include "kernels/kernel_cases.h"

#include "tensor/backend.h"
#include "tensor/vulkan/vulkan.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct result {
    float *values;
    size_t n, wrong_guards;
    double numbers[4];
    espalier_status status;
} result;

typedef struct checker {
    espalier_context *plain;
    espalier_context *contexts[16];
    char names[16][32];
    size_t n_contexts, n_cases, n_comparisons, n_failures;
    const char *ops;                /* names of the cases to run, comma-separated; NULL = all */
    esi_backend *device;
} checker;

/* Values outside the output view must still be the pattern that kernel_cases.c wrote. */
static size_t count_wrong_guards(const case_state *s, const float *values)
{
    size_t wrong = 0;

    for (int64_t r = 0; r < s->y_parent.rows; r++)
        for (int64_t c = 0; c < s->y_parent.cols; c++) {
            bool inside = r >= s->y_row && r < s->y_row + s->y_rows && c >= s->y_col && c < s->y_col + s->y_cols;
            wrong += !inside && values[r * s->y_parent.cols + c] != -12345.0f;
        }
    return wrong;
}

static result run_case(espalier_context *ctx, const kernel_case *c, uint64_t seed)
{
    case_state s = {.ctx = ctx, .seed = seed, .fill = c->fill};
    esi_scope scope = esi_scope_begin(ctx);
    result r = {0};

    esi_clear_error(ctx);
    c->run(&s, c->p);
    r.status = s.status;
    memcpy(r.numbers, s.numbers, sizeof r.numbers);
    if (r.status == ESPALIER_OK && !esi_tensor_is_null(s.y_parent)) {
        r.n = (size_t)(s.y_parent.rows * s.y_parent.cols);
        r.values = malloc(r.n * sizeof *r.values);
        if (!r.values) abort();
        r.status = esi_tensor_read(ctx, s.y_parent, r.values);
        r.wrong_guards = count_wrong_guards(&s, r.values);
    }
    esi_scope_end(ctx, scope);
    for (size_t i = 0; i < s.n_weights; i++) esi_weight_release(ctx, &s.weights[i]);
    for (size_t i = 0; i < s.n_host; i++) free(s.host[i]);
    return r;
}

static bool same_value(float a, float b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof a) == 0;
}

static bool same_number(double a, double b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof a) == 0;
}

static void fail(checker *k, const kernel_case *c, const char *where, const char *why)
{
    if (k->n_failures++ >= 20) return;
    printf("FAIL %s %s fill %d [", where, c->op, (int)c->fill);
    for (size_t i = 0; i < ESI_COUNT(c->p); i++) printf("%s%lld", i ? " " : "", (long long)c->p[i]);
    printf("]: %s\n", why);
}

static void compare(checker *k, const kernel_case *c, const char *where, const result *want, const result *got)
{
    char text[160];

    k->n_comparisons++;
    if (got->status != ESPALIER_OK) {
        snprintf(text, sizeof text, "status %d", (int)got->status);
        fail(k, c, where, text);
        return;
    }
    if (got->wrong_guards) fail(k, c, where, "wrote outside the output");
    for (size_t i = 0; i < ESI_COUNT(want->numbers); i++)
        if (!same_number(want->numbers[i], got->numbers[i])) fail(k, c, where, "another number");
    for (size_t i = 0; i < want->n; i++)
        if (!same_value(want->values[i], got->values[i])) {
            snprintf(text, sizeof text, "value %zu of %zu is %a, plain C has %a", i, want->n, (double)got->values[i],
                     (double)want->values[i]);
            fail(k, c, where, text);
            return;
        }
}

static bool is_wanted(const char *list, const char *op)
{
    size_t n = strlen(op);
    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, op, n) == 0 && (p[n] == ',' || p[n] == 0)) return true;
    return list == NULL;
}

static void visit(void *user, const kernel_case *c)
{
    checker *k = user;
    if (!is_wanted(k->ops, c->op)) return;
    uint64_t seed = 1000 + k->n_cases++;
    result want = run_case(k->plain, c, seed);

    if (want.status != ESPALIER_OK || want.wrong_guards)
        fail(k, c, "generic", want.status != ESPALIER_OK ? espalier_error_message(k->plain) : "wrote outside the output");
    for (size_t i = 0; i < k->n_contexts && want.status == ESPALIER_OK; i++) {
        result got = run_case(k->contexts[i], c, seed);
        compare(k, c, k->names[i], &want, &got);
        free(got.values);
    }
    free(want.values);
}

static espalier_context *open_context(espalier_cpu_level level, int threads)
{
    espalier_runtime_options o = espalier_runtime_options_default();
    espalier_runtime *rt;
    espalier_context *ctx;

    o.cpu_level = level;
    o.threads = threads;
    if (espalier_runtime_create(&rt, &o) != ESPALIER_OK || espalier_context_create(&ctx, rt) != ESPALIER_OK) {
        fprintf(stderr, "check_kernels: cannot make a context for %s\n", espalier_cpu_level_name(level));
        exit(1);
    }
    return ctx;
}

static void close_context(espalier_context *ctx)
{
    espalier_runtime *rt = ctx->runtime;
    espalier_context_free(ctx);
    espalier_runtime_free(rt);
}

/* The backend says once for each op that it runs on the CPU instead. */
static void print_log(void *user, espalier_log_level level, const char *line)
{
    (void)user;
    (void)level;
    printf("check_kernels: %s\n", line);
}

/* The device as the only context to compare. 0, 77 when there is none, or 2. */
static int open_device(checker *k, int argc, char **argv)
{
    static const char *const kinds[] = {"auto", "fused", "fp64", "integer"};
    esi_vulkan_hooks hooks = {0};
    char message[ESI_VULKAN_TEXT];
    espalier_status st;

    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--lower-limits") == 0) {
            hooks.max_allocation = 1 << 20;
            hooks.max_range = 4096;
            continue;
        }
        if (i + 1 < argc && strcmp(argv[i], "--ops") == 0) k->ops = argv[i + 1];
        else if (i + 1 < argc && strcmp(argv[i], "--fma") == 0) {
            while (hooks.fma < ESI_VULKAN_FMA_INTEGER && strcmp(kinds[hooks.fma], argv[i + 1]) != 0) hooks.fma++;
        } else return 2;
        i++;
    }
    st = esi_vulkan_create(&k->device, esi_allocator(k->plain), k->plain->backend->kernels, argv[2], &hooks, message);
    printf("check_kernels: %s\n", message);
    if (st != ESPALIER_OK) return 77;
    snprintf(k->names[0], sizeof k->names[0], "vulkan");
    k->contexts[k->n_contexts++] = open_context(ESPALIER_CPU_BEST, 1);
    k->contexts[0]->backend = k->device;
    k->contexts[0]->runtime->log = print_log;
    return 0;
}

int main(int argc, char **argv)
{
    static const int threads[] = {1, 2, 5};
    espalier_cpu_level only = ESPALIER_CPU_BEST;
    checker k = {0};
    int failures;

    if (argc == 3 && strcmp(argv[1], "--cpu-level") == 0 && espalier_cpu_level_parse(&only, argv[2]) == ESPALIER_OK) {
        if (!espalier_cpu_level_supported(only)) {
            printf("check_kernels: this machine has no %s: nothing checked\n", argv[2]);
            return 77; /* ctest: skipped */
        }
    } else if (argc != 1 && (argc < 3 || strcmp(argv[1], "--device") != 0)) {
        fprintf(stderr, "usage: check_kernels [--cpu-level NAME | --device NAME [--fma KIND] [--ops LIST] [--lower-limits]]\n");
        return 2;
    }
    k.plain = open_context(ESPALIER_CPU_GENERIC, 1);
    if (argc > 3 || (argc == 3 && strcmp(argv[1], "--device") == 0)) {
        int status = open_device(&k, argc, argv);
        if (status) {
            close_context(k.plain);
            return status;
        }
    }
    for (int level = ESPALIER_CPU_GENERIC; level <= ESPALIER_CPU_NEON && !k.device; level++) {
        bool wanted = only == ESPALIER_CPU_BEST || (int)only == level;
        if (!wanted || !espalier_cpu_level_supported((espalier_cpu_level)level)) continue;
        for (size_t i = 0; i < ESI_COUNT(threads); i++) {
            if (level == ESPALIER_CPU_GENERIC && threads[i] == 1) continue;
            snprintf(k.names[k.n_contexts], sizeof k.names[0], "%s/%d", espalier_cpu_level_name((espalier_cpu_level)level), threads[i]);
            k.contexts[k.n_contexts++] = open_context((espalier_cpu_level)level, threads[i]);
        }
    }
    failures = k.device ? 0 : check_against_double(k.plain);
    for_each_case(visit, &k);
    printf("kernels: %zu cases, %zu comparisons (", k.n_cases, k.n_comparisons);
    for (size_t i = 0; i < k.n_contexts; i++) printf("%s%s", i ? " " : "", k.names[i]);
    printf("), %zu differences; %d failures against double precision\n", k.n_failures, failures);
    for (size_t i = 0; i < k.n_contexts; i++) close_context(k.contexts[i]);
    if (k.device) k.device->destroy(k.device, esi_allocator(k.plain));
    close_context(k.plain);
    return k.n_failures || failures ? 1 : 0;
}
