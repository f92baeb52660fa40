/* SPDX-License-Identifier: MIT
 *
 * main.c: espalier-bench: speed of operations and stages as a share of what this machine's multiply-add units can do.
 *
 *   espalier-bench [NAMES...] [--threads N] [--cpu-level LEVEL] [--device DEVICE] [--seconds S] [--json] [--list]
 *   espalier-bench unwrap|... --mesh FILE: see bench_mesh.h
 *
 * A name selects every benchmark that begins with it ("linear", "conv/27x100000"). share = GFLOPS per CPU second over what a loop of
 * independent multiply-adds of the same instruction set reaches right before and after; the best of several runs is kept. --device measures
 * a Vulkan device by multiply-adds in its registers; seconds take the place of CPU seconds unless it is a software device.
 */
#include "bench.h"
#include "bench_mesh.h"

#include <stdio.h>
#include <stdlib.h>

static const bench_item items[] = {
    {"linear", bench_linear},
    {"attention", bench_attention},
    {"conv", bench_conv},
    {"norm", bench_norms},
    {"dinov3", bench_dinov3},
    {"ss_decoder", bench_ss_decoder},
    {"shape_decoder", bench_shape_decoder},
    {"tex_decoder", bench_tex_decoder},
    {"ss_flow", bench_flow},
    {"slat_flow", bench_slat_flow},
    {"matte", bench_matte},
};

static void report_text(const bench_result *r)
{
    printf("%-34s %9.4f s %9.4f cpu-s %8.1f GFLOPS/cpu-s of %6.1f = %5.1f %%  %5.0f MiB%s   [%s]\n", r->name, r->seconds, r->cpu_seconds,
           r->flops / r->cpu_seconds * 1e-9, r->peak_gflops, 100.0 * r->share, (double)r->peak_bytes / 1048576.0,
           r->busy ? "  (busy machine)" : "", r->formula);
    fflush(stdout);
}

static void report_nothing(const bench_result *r) { (void)r; }

static void print_json(const bench *b)
{
    printf("[");
    for (size_t i = 0; i < b->n_results; i++) {
        const bench_result *r = &b->results[i];
        printf("%s\n{\"name\":\"%s\",\"seconds\":%.6g,\"cpu_seconds\":%.6g,\"gflops\":%.6g,\"peak_gflops\":%.6g,\"share\":%.4f,"
               "\"peak_bytes\":%llu,\"busy\":%s,\"flops\":%.10g,\"formula\":\"%s\"}",
               i ? "," : "", r->name, r->seconds, r->cpu_seconds, r->flops / r->cpu_seconds * 1e-9, r->peak_gflops, r->share,
               (unsigned long long)r->peak_bytes, r->busy ? "true" : "false", r->flops, r->formula);
    }
    printf("\n]\n");
}

typedef struct options {
    espalier_runtime_options runtime;
    const char *names[64];
    size_t n_names;
    bool json, list;
    double min_seconds;
} options;

static int usage(const char *why)
{
    fprintf(stderr,
            "espalier-bench: %s\n"
            "usage: espalier-bench [NAMES...] [--threads N] [--cpu-level LEVEL] [--device DEVICE] [--seconds S] [--json] [--list]\n",
            why);
    return 2;
}

static int parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--json") == 0) o->json = true;
        else if (strcmp(argv[i], "--list") == 0) o->list = true;
        else if (strcmp(argv[i], "--threads") == 0 && value) {
            char *end = NULL;
            long n = strtol(value, &end, 10);
            if (*end || n < 1 || n > 1024) return usage("--threads is a number from 1 to 1024");
            o->runtime.threads = (int32_t)n;
            i++;
        } else if (strcmp(argv[i], "--seconds") == 0 && value) {
            char *end = NULL;
            o->min_seconds = strtod(value, &end);
            if (end == value || *end || !(o->min_seconds >= 0 && o->min_seconds <= 3600))
                return usage("--seconds is a number from 0 to 3600");
            i++;
        } else if (strcmp(argv[i], "--cpu-level") == 0 && value) {
            if (espalier_cpu_level_parse(&o->runtime.cpu_level, value) != ESPALIER_OK) return usage("unknown CPU level");
            i++;
        } else if (strcmp(argv[i], "--device") == 0 && value) {
            o->runtime.device = value;
            i++;
        } else if (argv[i][0] == '-') return usage("unknown option, or its value is missing");
        else if (o->n_names == ESI_COUNT(o->names)) return usage("too many names");
        else o->names[o->n_names++] = argv[i];
    }
    return 0;
}

/* Items that a name may select: "lin" and "linear/4096x..." both reach "linear". */
static bool reaches(const bench_item *item, const char *name)
{
    return !name || strncmp(item->name, name, strlen(item->name)) == 0 || strncmp(item->name, name, strlen(name)) == 0;
}

static espalier_status run_all(bench *b, const options *o)
{
    espalier_status st = ESPALIER_OK;

    for (size_t n = 0; n < ESI_MAX(o->n_names, (size_t)1); n++)
        for (size_t i = 0; st == ESPALIER_OK && i < ESI_COUNT(items); i++)
            if (reaches(&items[i], o->n_names ? o->names[n] : NULL)) st = items[i].run(b, o->n_names ? o->names[n] : NULL);
    return st;
}

int main(int argc, char **argv)
{
    options o = {.runtime = espalier_runtime_options_default(), .min_seconds = 2.0};
    static bench_result results[256];
    bench b = {.results = results, .capacity = ESI_COUNT(results)};
    espalier_runtime *rt = NULL;
    espalier_status st;
    int rc = 0;

    if (bench_mesh_main(argc, argv, &rc)) return rc;
    rc = parse(&o, argc, argv);
    if (rc) return rc;
    if (o.list) {
        for (size_t i = 0; i < ESI_COUNT(items); i++) puts(items[i].name);
        bench_mesh_list();
        return 0;
    }
    st = espalier_runtime_create(&rt, &o.runtime);
    if (st == ESPALIER_OK) st = espalier_context_create(&b.ctx, rt);
    if (st != ESPALIER_OK) {
        fprintf(stderr, "espalier-bench: %s\n", espalier_status_name(st));
        espalier_runtime_free(rt);
        return (int)st;
    }
    b.threads = espalier_runtime_threads(rt);
    b.min_seconds = o.min_seconds;
    b.report = o.json ? report_nothing : report_text;
    if (!o.json)
        printf("device %s, kernels %s, %d threads; calibration %.1f GFLOPS per CPU second\n", espalier_runtime_device(rt),
               espalier_cpu_level_name(espalier_runtime_cpu_level(rt)), b.threads, bench_calibrate(b.ctx));
    st = run_all(&b, &o);
    if (st != ESPALIER_OK) fprintf(stderr, "espalier-bench: %s\n", espalier_error_message(b.ctx));
    else if (b.n_results == 0) st = ESPALIER_ERR_ARG, fprintf(stderr, "espalier-bench: no benchmark has such a name; see --list\n");
    if (o.json) print_json(&b);
    espalier_context_free(b.ctx);
    espalier_runtime_free(rt);
    return (int)st;
}
