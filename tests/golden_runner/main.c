/* SPDX-License-Identifier: MIT
 *
 * main.c: espalier-golden CASE_OR_DIR...: finds golden cases at any depth, runs the code of their kind, prints one line per output.
 *
 * Exit status: 0 every case passed, 1 something failed (or the number of cases is not the expected one), 2 usage, 77 no such device.
 */
#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct options {
    bool json, list, verbose, allow_uncovered;
    long expect_cases; /* -1: any number */
    uint64_t memory_budget;
    espalier_runtime_options runtime;
    char **paths;
    int n_paths;
} options;

typedef struct case_list {
    char **dirs;
    size_t count, cap;
} case_list;

typedef struct totals {
    size_t cases, passed, failed, skipped, uncovered, failed_cases;
} totals;

static const char usage[] = "usage: espalier-golden [options] CASE_OR_DIR...\n"
                            "Runs golden cases (folders with a config.json that has \"kind\") found at any depth.\n"
                            "  --json               results as one JSON document\n"
                            "  --list               only list the cases: kind, folder\n"
                            "  --cpu-level LEVEL    generic, generic-fma, avx2, avx512, neon (default: best)\n"
                            "  --threads N          compute threads (default: all cores)\n"
                            "  --device NAME        where networks run: cpu, vulkan, vulkan:N, part of a name\n"
                            "  --mem-budget BYTES   memory budget of every case\n"
                            "  --allow-uncovered    a kind without code does not fail\n"
                            "  --expect-cases N     fail unless exactly N cases ran\n"
                            "  -v                   library messages on stderr\n";

/* --------------------------------------------------------------- finding cases */

static void add_case(case_list *list, const char *dir)
{
    if (list->count == list->cap) {
        list->cap = list->cap ? 2 * list->cap : 64;
        char **grown = realloc(list->dirs, list->cap * sizeof *grown);
        if (grown == NULL) exit(5);
        list->dirs = grown;
    }
    size_t n = strlen(dir) + 1;
    char *copy = malloc(n);
    if (copy == NULL) exit(5);
    memcpy(copy, dir, n);
    list->dirs[list->count++] = copy;
}

static espalier_status is_case(espalier_context *ctx, const char *dir, bool *answer)
{
    char *path = esi_path_join(ctx, dir, "config.json");
    esi_json *config = NULL;
    espalier_status st = path ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
    const char *kind;
    *answer = false;
    if (st == ESPALIER_OK && esi_path_is_file(path)) {
        st = esi_json_load(ctx, &config, path, ESPALIER_ERR_INPUT);
        *answer = st == ESPALIER_OK && esi_json_string(esi_json_get(config, "kind"), &kind);
    }
    esi_json_free(config);
    esi_free(ctx, path);
    return st;
}

/* Cases below dir, folders in byte order. A model directory (pipeline.json) is no place for cases. */
static espalier_status find_cases(espalier_context *ctx, case_list *list, const char *dir, int depth)
{
    esi_arena arena = {0};
    char **names = NULL;
    size_t count = 0;
    bool found = false;
    espalier_status st = is_case(ctx, dir, &found);
    if (st != ESPALIER_OK) return st;
    if (found) {
        add_case(list, dir);
        return ESPALIER_OK;
    }
    if (depth > 16) return esi_fail(ctx, ESPALIER_ERR_INPUT, "%s: folders nested too deep", dir);
    st = esi_dir_list(ctx, &arena, dir, &names, &count, ESPALIER_ERR_INPUT);
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) {
        if (strcmp(names[i], "pipeline.json") == 0) goto done;
    }
    for (size_t i = 0; st == ESPALIER_OK && i < count; i++) {
        char *path = esi_path_join(ctx, dir, names[i]);
        if (path == NULL)
            st = ESPALIER_ERR_RESOURCE;
        else if (esi_path_is_dir(path))
            st = find_cases(ctx, list, path, depth + 1);
        esi_free(ctx, path);
    }
done:
    esi_arena_free(ctx, &arena);
    return st;
}

/* ---------------------------------------------------------------------- output */

static const char *verdict_name(golden_verdict v)
{
    return v == GOLDEN_PASS ? "ok" : v == GOLDEN_SKIP ? "skip" : "FAIL";
}

static void print_number(double v)
{
    if (isnan(v))
        printf(" %10s", "-");
    else
        printf(" %10.3e", v);
}

static void print_plain(const golden_case *c)
{
    for (size_t i = 0; i < c->n_results; i++) {
        const golden_result *r = &c->results[i];
        printf("%-28s %-30s", c->name, r->output);
        print_number(r->rel_l2);
        print_number(r->max_abs);
        printf("  %s%s%s\n", verdict_name(r->verdict), r->detail ? ": " : "", r->detail ? r->detail : "");
    }
}

static void append_measure(espalier_context *ctx, esi_text *text, const char *key, double v)
{
    esi_text_append(ctx, text, ", \"%s\": ", key);
    esi_text_append_json_number(ctx, text, v);
}

static void append_json(espalier_context *ctx, esi_text *text, const golden_case *c, const char *verdict, double seconds)
{
    esi_text_append(ctx, text, "%s\n  {\"case\": ", text->len > 1 ? "," : "");
    esi_text_append_json_string(ctx, text, c->dir);
    esi_text_append(ctx, text, ", \"kind\": ");
    esi_text_append_json_string(ctx, text, c->kind ? c->kind : "");
    esi_text_append(ctx, text, ", \"verdict\": \"%s\"", verdict);
    append_measure(ctx, text, "seconds", seconds);
    esi_text_append(ctx, text, ", \"outputs\": [");
    for (size_t i = 0; i < c->n_results; i++) {
        const golden_result *r = &c->results[i];
        esi_text_append(ctx, text, "%s{\"name\": ", i ? ", " : "");
        esi_text_append_json_string(ctx, text, r->output);
        append_measure(ctx, text, "rel_l2", r->rel_l2);
        append_measure(ctx, text, "max_abs", r->max_abs);
        esi_text_append(ctx, text, ", \"verdict\": \"%s\"", verdict_name(r->verdict));
        if (r->detail) {
            esi_text_append(ctx, text, ", \"detail\": ");
            esi_text_append_json_string(ctx, text, r->detail);
        }
        esi_text_append(ctx, text, "}");
    }
    esi_text_append(ctx, text, "]}");
}

/* --------------------------------------------------------------------- running */

static void run_kind(golden_case *c, const options *o, golden_kind_fn function)
{
    esi_fp_state saved;
    esi_enter(c->ctx, &saved);
    if (o->memory_budget) espalier_context_set_memory_budget(c->ctx, o->memory_budget);
    esi_scope scope = esi_scope_begin(c->ctx);
    espalier_status st = function(c);
    golden_taps_stop(c);
    if (st != ESPALIER_OK) {
        golden_add_result(c, "(run)", (double)NAN, (double)NAN, GOLDEN_FAIL,
                          golden_name(c, "%s: %s", espalier_status_name(st), espalier_error_message(c->ctx)));
    }
    esi_scope_end(c->ctx, scope);
    esi_leave(c->ctx, &saved, ESPALIER_OK);
    golden_case_finish(c);
    if (c->n_results == 0) golden_add_result(c, "(run)", (double)NAN, (double)NAN, GOLDEN_FAIL, "nothing was checked");
}

static void run_case(espalier_runtime *runtime, espalier_context *ctx, const options *o, const char *dir, totals *sum, esi_text *json)
{
    golden_case c;
    double start = esi_now();
    espalier_status st = golden_case_open(&c, runtime, dir);
    golden_kind_fn function = st == ESPALIER_OK ? golden_find_kind(c.kind) : NULL;
    bool uncovered = st == ESPALIER_OK && function == NULL;
    size_t failed = 0;

    sum->cases++;
    if (st != ESPALIER_OK) {
        golden_add_result(&c, "(open)", (double)NAN, (double)NAN, GOLDEN_FAIL,
                          c.ctx ? espalier_error_message(c.ctx) : espalier_status_name(st));
    } else if (function) {
        run_kind(&c, o, function);
    }
    for (size_t i = 0; i < c.n_results; i++) {
        if (c.results[i].verdict == GOLDEN_FAIL)
            failed++;
        else if (c.results[i].verdict == GOLDEN_SKIP)
            sum->skipped++;
        else
            sum->passed++;
    }
    sum->failed += failed;
    if (failed) sum->failed_cases++;
    if (uncovered) {
        sum->uncovered++;
        if (!o->allow_uncovered) sum->failed++;
    }
    if (o->json)
        append_json(ctx, json, &c, uncovered ? "not covered" : failed ? "FAIL" : "ok", esi_now() - start);
    else if (uncovered)
        printf("%-28s NOT COVERED: kind %s has no code\n", c.name, c.kind);
    else
        print_plain(&c);
    fflush(stdout);
    golden_case_close(&c);
}

static int run_all(espalier_runtime *runtime, espalier_context *ctx, const options *o, const case_list *list)
{
    totals sum = {0};
    esi_text json = {0};
    int exit_status;

    esi_text_append(ctx, &json, "[");
    for (size_t i = 0; i < list->count; i++) run_case(runtime, ctx, o, list->dirs[i], &sum, &json);
    bool wrong_number = o->expect_cases >= 0 && sum.cases != (size_t)o->expect_cases;
    if (wrong_number) sum.failed++;
    esi_text_append(ctx, &json, "\n]");
    if (o->json) {
        printf("{\"cpu_level\": \"%s\", \"threads\": %d, \"cases\": ", espalier_cpu_level_name(espalier_runtime_cpu_level(runtime)),
               espalier_runtime_threads(runtime));
        fwrite(json.data, 1, json.len, stdout);
        printf(", \"n_cases\": %zu, \"passed\": %zu, \"failed\": %zu, \"skipped\": %zu, \"uncovered\": %zu}\n", sum.cases, sum.passed,
               sum.failed, sum.skipped, sum.uncovered);
    } else {
        if (wrong_number) printf("%zu cases ran, expected %ld\n", sum.cases, o->expect_cases);
        printf("device %s, cpu level %s, %d threads; %zu cases, %zu with failures, %zu not covered, %zu outputs skipped\n",
               espalier_runtime_device(runtime), espalier_cpu_level_name(espalier_runtime_cpu_level(runtime)),
               espalier_runtime_threads(runtime), sum.cases, sum.failed_cases, sum.uncovered, sum.skipped);
        printf("%zu passed, %zu failed\n", sum.passed, sum.failed);
    }
    exit_status = sum.failed || json.failed ? 1 : 0;
    esi_text_free(ctx, &json);
    return exit_status;
}

/* --------------------------------------------------------------------- options */

static void log_line(void *user, espalier_log_level level, const char *line)
{
    (void)user;
    fprintf(stderr, "%s%s\n", level == ESPALIER_LOG_WARNING ? "warning: " : "", line);
}

static bool parse_number(const char *text, long *out)
{
    char *end;
    if (text == NULL || *text < '0' || *text > '9') return false;
    *out = strtol(text, &end, 10);
    return *end == '\0';
}

static bool parse_options(options *o, int argc, char **argv)
{
    int i = 1;
    o->expect_cases = -1;
    o->runtime = espalier_runtime_options_default();
    for (; i < argc && argv[i][0] == '-'; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        long n;
        if (strcmp(argv[i], "--json") == 0)
            o->json = true;
        else if (strcmp(argv[i], "--list") == 0)
            o->list = true;
        else if (strcmp(argv[i], "-v") == 0)
            o->verbose = true;
        else if (strcmp(argv[i], "--allow-uncovered") == 0)
            o->allow_uncovered = true;
        else if (strcmp(argv[i], "--cpu-level") == 0 && value && espalier_cpu_level_parse(&o->runtime.cpu_level, value) == ESPALIER_OK)
            i++;
        else if (strcmp(argv[i], "--device") == 0 && value)
            o->runtime.device = value, i++;
        else if (strcmp(argv[i], "--threads") == 0 && parse_number(value, &n))
            o->runtime.threads = (int32_t)n, i++;
        else if (strcmp(argv[i], "--expect-cases") == 0 && parse_number(value, &n))
            o->expect_cases = n, i++;
        else if (strcmp(argv[i], "--mem-budget") == 0 && parse_number(value, &n))
            o->memory_budget = (uint64_t)n, i++;
        else {
            fprintf(stderr, "espalier-golden: %s: unknown option or bad value\n", argv[i]);
            return false;
        }
    }
    o->paths = argv + i;
    o->n_paths = argc - i;
    if (o->verbose) o->runtime.log = log_line;
    return o->n_paths > 0;
}

int main(int argc, char **argv)
{
    options o = {0};
    espalier_runtime *runtime = NULL;
    espalier_context *ctx = NULL;
    case_list list = {0};
    int exit_status = 1;

    if (argc == 2 && (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    if (!parse_options(&o, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    espalier_status st = espalier_runtime_create(&runtime, &o.runtime);
    if (st == ESPALIER_OK) st = espalier_context_create(&ctx, runtime);
    if (st != ESPALIER_OK) {
        fprintf(stderr, "espalier-golden: cannot start: %s\n", espalier_status_name(st));
        if (st == ESPALIER_ERR_DEVICE) exit_status = 77; /* ctest: skipped */
        goto done;
    }
    for (int i = 0; i < o.n_paths; i++) {
        st = find_cases(ctx, &list, o.paths[i], 0);
        if (st != ESPALIER_OK) {
            fprintf(stderr, "espalier-golden: %s\n", espalier_error_message(ctx));
            goto done;
        }
    }
    if (list.count == 0) {
        fputs("espalier-golden: no golden case found\n", stderr);
        goto done;
    }
    if (o.list) {
        for (size_t i = 0; i < list.count; i++) {
            esi_json *config = NULL;
            const char *kind = "?";
            char *path = esi_path_join(ctx, list.dirs[i], "config.json");
            if (path && esi_json_load(ctx, &config, path, ESPALIER_ERR_INPUT) == ESPALIER_OK)
                esi_json_string(esi_json_get(config, "kind"), &kind);
            printf("%-20s %s\n", kind, list.dirs[i]);
            esi_json_free(config);
            esi_free(ctx, path);
        }
        exit_status = o.expect_cases >= 0 && list.count != (size_t)o.expect_cases ? 1 : 0;
        goto done;
    }
    exit_status = run_all(runtime, ctx, &o, &list);
done:
    for (size_t i = 0; i < list.count; i++) free(list.dirs[i]);
    free(list.dirs);
    espalier_context_free(ctx);
    espalier_runtime_free(runtime);
    return exit_status;
}
