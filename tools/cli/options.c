/* SPDX-License-Identifier: MIT
 *
 * options.c: numbers, errors and the options that every subcommand has.
 */
#include "cli.h"

#include <ctype.h>
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

int cli_report_error(cli_session *s, espalier_status status)
{
    const char *text = s->ctx ? espalier_error_message(s->ctx) : "";
    int code = (int)status;
    if (status == ESPALIER_ERR_CANCELLED) {
        text = "cancelled";
        code = cli_signal() == SIGTERM ? 143 : 130;
    }
    if (!text[0]) text = espalier_status_name(status);
    cli_progress_end(&s->progress);
    fprintf(stderr, "espalier: %s\n", text);
    if (s->progress.style == CLI_PROGRESS_JSON) {
        printf("{\"type\": \"error\", \"status\": %d, \"message\": ", code);
        cli_print_json_string(text);
        printf("}\n");
        fflush(stdout);
    }
    return code;
}

int cli_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    fprintf(stderr, "espalier: standard output cannot be written\n");
    return ESPALIER_ERR_OUTPUT;
}

const char *cli_option_text(char **argv)
{
    static char text[64];
    const char *last = argv[optind - 1];
    /* "--name value" and "-n value" leave the value behind; "--name=value" and "-nvalue" do not. */
    if (optarg && optarg == last && optind >= 2) last = argv[optind - 2];
    int len = (int)strcspn(last, "=");
    snprintf(text, sizeof text, "%.*s", len > 60 ? 60 : len, last);
    return text;
}

int cli_bad_option(const char *command, char **argv, int option)
{
    const char *text = argv[optind - 1];
    bool is_long = strncmp(text, "--", 2) == 0;
    if (option == ':') return cli_usage_error(command, "option '%s' needs a value", cli_option_text(argv));
    if (is_long && optopt != 0) return cli_usage_error(command, "option '%s' takes no value", cli_option_text(argv));
    if (optopt > 0 && optopt < 256) return cli_usage_error(command, "unknown option '-%c'", optopt);
    return cli_usage_error(command, "unknown or ambiguous option '%s'", cli_option_text(argv));
}

/* ------------------------------------------------------------- numbers */

bool cli_parse_int(const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || isspace((unsigned char)text[0]) || v < low || v > high) return false;
    *out = v;
    return true;
}

bool cli_parse_double(const char *text, double low, double high, double *out)
{
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)text[0]) || !isfinite(v) || v < low || v > high) return false;
    *out = v;
    return true;
}

bool cli_parse_size(const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    double v = strtod(text, &end);
    if (end == text || !isfinite(v) || v < 0 || isspace((unsigned char)text[0])) return false;
    if (*end) {
        const char *s = strchr(suffixes, *end);
        if (!s) return false;
        for (const char *p = suffixes; p <= s; p++) v *= 1024;
        end++;
        if (*end == 'i' && end[1] == 'B')
            end += 2;
        else if (*end == 'B')
            end++;
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
        if (!cli_parse_int(value, 1, 1024, &common->threads))
            return cli_usage_error(command, "--threads '%s' is not a number from 1 to 1024", value);
        return 0;
    case CLI_OPT_CPU_LEVEL:
        if (espalier_cpu_level_parse(&common->cpu_level, value) != ESPALIER_OK)
            return cli_usage_error(command, "--cpu-level '%s' is not one of generic, generic-fma, avx2, avx512, neon", value);
        return 0;
    case CLI_OPT_MEM_BUDGET:
        if (!cli_parse_size(value, &common->memory_budget) || common->memory_budget < 1024)
            return cli_usage_error(command, "--mem-budget '%s' is not a size such as 450M or 6G", value);
        return 0;
    case CLI_OPT_QUIET:
        common->quiet = true;
        return 0;
    case CLI_OPT_JSON:
        common->json = true;
        return 0;
    default:
        return 1;
    }
}

/* ------------------------------------------------------------- runtime */

static void print_log(void *user, espalier_log_level level, const char *line)
{
    cli_session *s = user;
    if (level == ESPALIER_LOG_ERROR) {
        s->said_why = true;
        fprintf(stderr, "espalier: %s\n", line);
    } else if (level == ESPALIER_LOG_WARNING) {
        cli_progress_end(&s->progress);
        fprintf(stderr, "espalier: warning: %s\n", line);
    } else if (level == ESPALIER_LOG_INFO && s->progress.style == CLI_PROGRESS_JSON) {
        printf("{\"type\": \"notice\", \"text\": ");
        cli_print_json_string(line);
        printf("}\n");
        fflush(stdout);
    } else if (level == ESPALIER_LOG_INFO && s->progress.style != CLI_PROGRESS_NONE) {
        cli_progress_end(&s->progress);
        printf("%s\n", line);
        fflush(stdout);
    }
}

int cli_open(cli_session *s, const cli_common *common, cli_progress_style style)
{
    espalier_runtime_options options = espalier_runtime_options_default();
    *s = (cli_session){.progress = {.style = style}};
    options.threads = (int32_t)common->threads;
    options.cpu_level = common->cpu_level;
    options.device = common->device;
    options.log = print_log;
    options.log_user = s;
    espalier_status st = espalier_runtime_create(&s->runtime, &options);
    if (s->said_why) return st;
    if (st == ESPALIER_ERR_DEVICE) {
        fprintf(stderr, "espalier: this machine cannot run --cpu-level %s; see 'espalier devices'\n",
                espalier_cpu_level_name(common->cpu_level));
        return st;
    }
    if (st == ESPALIER_OK) st = espalier_context_create(&s->ctx, s->runtime);
    if (st != ESPALIER_OK) {
        int status = cli_report_error(s, st);
        cli_close(s);
        return status;
    }
    espalier_context_set_memory_budget(s->ctx, common->memory_budget);
    return 0;
}

void cli_close(cli_session *s)
{
    espalier_context_free(s->ctx);
    espalier_runtime_free(s->runtime);
    s->ctx = NULL;
    s->runtime = NULL;
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
    signal(SIGPIPE, SIG_IGN); /* a reader that went away must not leave a half-written file behind */
}

int cli_signal(void)
{
    return caught_signal;
}
