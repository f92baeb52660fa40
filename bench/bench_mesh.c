/* SPDX-License-Identifier: MIT
 *
 * bench_mesh.c: options, reading, timing and printing of the mesh benchmarks.
 */
#include "bench_mesh.h"

#include "formats/surface_io.h"
#include "mesh/clean.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct item {
    const char *name;
    bench_mesh_fn run;
    bool reads_itself;             /* path is not a mesh, or the benchmark wants more of it */
} item;

static const item items[] = {
    {"unwrap", bench_mesh_unwrap, false},
    {"remesh", bench_mesh_remesh, true},
    {"simplify", bench_mesh_simplify, false},
    {"post", bench_mesh_post, true},
    /* One line each, so that lists merge easily. */
};

void bench_mesh_list(void)
{
    for (size_t i = 0; i < ESI_COUNT(items); i++) printf("%s --mesh FILE\n", items[i].name);
}

espalier_status bench_mesh_time(bench_mesh *b, bench_mesh_run fn, void (*reset)(bench_mesh *b, void *arg), void *arg)
{
    double spent = 0.0;
    espalier_status st = ESPALIER_OK;

    for (int run = 0; st == ESPALIER_OK && run < 1000 && (run == 0 || spent < b->min_seconds); run++) {
        double wall, cpu;

        if (run > 0 && reset) reset(b, arg);
        esi_memory_reset_high_water(b->ctx);
        wall = esi_now();
        cpu = esi_cpu_seconds();
        st = fn(b, arg);
        cpu = esi_cpu_seconds() - cpu;
        wall = esi_now() - wall;
        spent += wall;
        if (run > 0 && wall >= b->seconds) continue;
        b->seconds = wall;
        b->cpu_seconds = cpu;
        b->peak_bytes = esi_memory_high_water(b->ctx);
    }
    return st;
}

void bench_mesh_report(bench_mesh *b, const char *name, double value)
{
    bench_mesh_number *n;

    if (b->n_numbers == ESI_COUNT(b->numbers)) return;
    n = &b->numbers[b->n_numbers++];
    snprintf(n->name, sizeof n->name, "%s", name);
    n->value = value;
}

static void print_text(const bench_mesh *b)
{
    printf("%s %s, %d threads\n  %-28s %.4f\n  %-28s %.4f\n  %-28s %.1f\n", b->name, b->path, b->threads, "wall seconds", b->seconds,
           "CPU seconds", b->cpu_seconds, "peak MiB", (double)b->peak_bytes / 1048576.0);
    for (size_t i = 0; i < b->n_numbers; i++) printf("  %-28s %.6g\n", b->numbers[i].name, b->numbers[i].value);
    if (b->remark[0]) printf("  %s\n", b->remark);
}

static void print_json(const bench_mesh *b)
{
    esi_text text = {0};

    esi_text_append(b->ctx, &text, "{\"name\":");
    esi_text_append_json_string(b->ctx, &text, b->name);
    esi_text_append(b->ctx, &text, ",\"mesh\":");
    esi_text_append_json_string(b->ctx, &text, b->path);
    esi_text_append(b->ctx, &text, ",\"threads\":%d,\"seconds\":%.6g,\"cpu_seconds\":%.6g,\"peak_bytes\":%llu", b->threads, b->seconds,
                    b->cpu_seconds, (unsigned long long)b->peak_bytes);
    for (size_t i = 0; i < b->n_numbers; i++) {
        esi_text_append(b->ctx, &text, ",\"%s\":", b->numbers[i].name);
        esi_text_append_json_number(b->ctx, &text, b->numbers[i].value);
    }
    esi_text_append(b->ctx, &text, "}");
    if (text.data) puts(text.data);
    esi_text_free(b->ctx, &text);
}

static int usage(const char *name)
{
    fprintf(stderr, "usage: espalier-bench %s --mesh FILE [--threads N] [--size N] [--faces N] [--res N] [--seconds S] [--json]\n", name);
    return 2;
}

/* A number in [low, high], or false. */
static bool number(const char *text, double low, double high, double *out)
{
    char *end = NULL;

    if (!text) return false;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out >= low && *out <= high;
}

static bool parse(bench_mesh *b, espalier_runtime_options *runtime, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        double n = 0.0;

        if (strcmp(argv[i], "--json") == 0) {
            b->json = true;
            continue;
        }
        if (strcmp(argv[i], "--mesh") == 0 && value) b->path = value;
        else if (strcmp(argv[i], "--threads") == 0 && number(value, 1, 1024, &n)) runtime->threads = (int32_t)n;
        else if (strcmp(argv[i], "--size") == 0 && number(value, 16, 16384, &n)) b->size = (uint32_t)n;
        else if (strcmp(argv[i], "--faces") == 0 && number(value, 1, (double)ESI_MESH_MAX_FACES, &n)) b->faces = (int64_t)n;
        else if (strcmp(argv[i], "--res") == 0 && number(value, 16, 2048, &n)) b->resolution = (int32_t)n;
        else if (strcmp(argv[i], "--seconds") == 0 && number(value, 0, 3600, &n)) b->min_seconds = n;
        else return false;
        i++;
    }
    return b->path != NULL;
}

static espalier_status read_mesh(bench_mesh *b)
{
    esi_surface surface = {0};
    espalier_status st = esi_surface_read(b->ctx, &surface, b->path);

    if (st != ESPALIER_OK) return st;
    b->mesh = surface.mesh;
    memset(&surface.mesh, 0, sizeof surface.mesh);
    esi_surface_free(b->ctx, &surface);
    return esi_mesh_sanitize(b->ctx, &b->mesh, NULL);
}

static espalier_status run(bench_mesh *b, const item *what)
{
    espalier_status st = ESPALIER_OK;

    if (!what->reads_itself) st = read_mesh(b);
    if (st == ESPALIER_OK && b->faces == 0) b->faces = ESI_MAX(b->mesh.n_faces / 10, 4);
    if (st == ESPALIER_OK) st = what->run(b);
    esi_mesh_free(b->ctx, &b->mesh);
    return st;
}

bool bench_mesh_main(int argc, char **argv, int *rc)
{
    static bench_mesh b;
    espalier_runtime_options options = espalier_runtime_options_default();
    espalier_runtime *rt = NULL;
    espalier_status st;
    const item *what = NULL;

    for (size_t i = 0; argc > 1 && i < ESI_COUNT(items); i++)
        if (strcmp(argv[1], items[i].name) == 0) what = &items[i];
    if (!what) return false;
    b.name = what->name;
    b.size = 1024;
    b.resolution = 256;
    if (!parse(&b, &options, argc, argv)) {
        *rc = usage(what->name);
        return true;
    }
    st = espalier_runtime_create(&rt, &options);
    if (st == ESPALIER_OK) st = espalier_context_create(&b.ctx, rt);
    if (st == ESPALIER_OK) {
        b.threads = espalier_runtime_threads(rt);
        st = run(&b, what);
    }
    if (st != ESPALIER_OK) fprintf(stderr, "espalier-bench: %s\n", b.ctx ? espalier_error_message(b.ctx) : espalier_status_name(st));
    else if (b.json) print_json(&b);
    else print_text(&b);
    espalier_context_free(b.ctx);
    espalier_runtime_free(rt);
    *rc = (int)st;
    return true;
}
