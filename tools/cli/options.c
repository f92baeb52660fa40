/* SPDX-License-Identifier: MIT
 *
 * options.c: numbers, errors and the options that every subcommand has.
 */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------- errors */

int cli_usage_error(const char *command, const char *format, ...)
{
    va_list args;
    fputs("espalier: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "; see 'espalier %s%s--help'\n", command, command[0] ? " " : "");
    return ESPALIER_ERR_ARG;
}

int cli_report_error(const espalier_context *ctx, espalier_status status)
{
    if (status == ESPALIER_ERR_CANCELLED) {
        int caught = cli_signal();
        fprintf(stderr, "espalier: cancelled\n");
        return caught == SIGTERM ? 143 : 130;
    }
    const char *text = ctx ? espalier_error_message(ctx) : "";
    fprintf(stderr, "espalier: %s\n", text[0] ? text : espalier_status_name(status));
    return (int)status;
}

int cli_bad_option(const char *command, char **argv, int option)
{
    const char *text = argv[optind - 1];
    if (option == ':') return cli_usage_error(command, "option '%s' needs a value", text);
    if (optopt > 0 && optopt < 256) return cli_usage_error(command, "unknown option '-%c'", optopt);
    return cli_usage_error(command, "unknown or ambiguous option '%s'", text);
}

/* ------------------------------------------------------------- numbers */

bool cli_parse_int(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || text[0] == ' ' || v < low || v > high) return false;
    *out = v;
    return true;
}

bool cli_parse_double(const char *text, double low, double high, double *out)
{
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || *end || text[0] == ' ' || !isfinite(v) || v < low || v > high) return false;
    *out = v;
    return true;
}

bool cli_parse_size(const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || !isfinite(v) || v < 0 || text[0] == ' ') return false;
    if (*end) {
        const char *s = strchr(suffixes, *end);
        if (!s) return false;
        for (const char *p = suffixes; p <= s; p++) v *= 1024;
        end++;
        if (*end == 'i' && end[1] == 'B') end += 2;
        else if (*end == 'B') end++;
    }
    if (*end || v >= 9.2e18) return false;
    *out = (uint64_t)v;
    return true;
}

/* ------------------------------------------------------------- common options */

int cli_common_option(cli_common *common, const char *command, int option, const char *value)
{
    switch (option) {
    case CLI_OPT_THREADS:
        if (!cli_parse_int(value, 1, 1024, &common->threads)) return cli_usage_error(command, "--threads '%s' is not a number from 1 to 1024", value);
        return 0;
    case CLI_OPT_CPU_LEVEL:
        if (espalier_cpu_level_parse(&common->cpu_level, value) != ESPALIER_OK)
            return cli_usage_error(command, "--cpu-level '%s' is not one of generic, generic-fma, avx2, avx512, neon", value);
        return 0;
    case CLI_OPT_MEM_BUDGET:
        if (!cli_parse_size(value, &common->memory_budget) || common->memory_budget < 1024)
            return cli_usage_error(command, "--mem-budget '%s' is not a size such as 450M or 6G", value);
        return 0;
    case CLI_OPT_QUIET: common->quiet = true; return 0;
    default: return 1;
    }
}

/* ------------------------------------------------------------- runtime */

static void print_log(void *user, espalier_log_level level, const char *line)
{
    (void)user;
    if (level >= ESPALIER_LOG_INFO) fprintf(stderr, "espalier: %s%s\n", level == ESPALIER_LOG_WARNING ? "warning: " : "", line);
}

static void print_warning(void *user, espalier_log_level level, const char *line)
{
    if (level >= ESPALIER_LOG_WARNING) print_log(user, level, line);
}

int cli_open(cli_session *s, const cli_common *common)
{
    espalier_runtime_options options = espalier_runtime_options_default();
    *s = (cli_session){NULL, NULL};
    options.threads = (int32_t)common->threads;
    options.cpu_level = common->cpu_level;
    options.log = common->quiet ? print_warning : print_log;
    espalier_status st = espalier_runtime_create(&s->runtime, &options);
    if (st == ESPALIER_ERR_DEVICE) {
        fprintf(stderr, "espalier: this machine cannot run --cpu-level %s\n", espalier_cpu_level_name(common->cpu_level));
        return st;
    }
    if (st == ESPALIER_OK) st = espalier_context_create(&s->ctx, s->runtime);
    if (st != ESPALIER_OK) {
        cli_close(s);
        return cli_report_error(NULL, st);
    }
    espalier_context_set_memory_budget(s->ctx, common->memory_budget);
    return 0;
}

void cli_close(cli_session *s)
{
    espalier_context_free(s->ctx);
    espalier_runtime_free(s->runtime);
    *s = (cli_session){NULL, NULL};
}

/* ------------------------------------------------------------- signals */

static espalier_context *signal_context;
static volatile sig_atomic_t caught_signal;

static void on_signal(int number)
{
    if (caught_signal) _exit(128 + number);
    caught_signal = number;
    espalier_context_cancel(signal_context);
}

void cli_catch_signals(espalier_context *ctx)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    signal_context = ctx;
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);              /* a reader that went away must not leave a half-written file behind */
}

int cli_signal(void)
{
    return caught_signal;
}
