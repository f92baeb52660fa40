/* SPDX-License-Identifier: MIT
 *
 * cli.h: what the subcommands of `espalier` share. They use public headers only.
 */
#ifndef ESPALIER_CLI_H
#define ESPALIER_CLI_H

#include <espalier/espalier.h>

#include <getopt.h>
#include <signal.h>
#include <stdbool.h>

#define CLI_DONE (-1) /* what an option parser returns when --help or --version has said everything */

/* ------------------------------------------------------------- numbers */

/* Whole texts only; false when not a number, out of [low, high], or followed by anything. */
bool cli_parse_int(const char *text, int64_t low, int64_t high, int64_t *out);
bool cli_parse_double(const char *text, double low, double high, double *out);
/* Bytes with an optional suffix K, M, G, T (1024-based). */
bool cli_parse_size(const char *text, uint64_t *out);

/* ------------------------------------------------------------- progress */

typedef enum cli_progress_style { CLI_PROGRESS_NONE, CLI_PROGRESS_BAR, CLI_PROGRESS_LINES, CLI_PROGRESS_JSON } cli_progress_style;
typedef struct cli_progress {
    cli_progress_style style;
    char stage[24];
    double stage_started;
    bool line_open; /* the cursor stands behind a bar */
} cli_progress;
cli_progress_style cli_progress_choose(bool quiet, bool json);
int cli_progress_update(void *user, const char *stage, uint64_t done, uint64_t total); /* an espalier_progress_fn */
/* Leave the line of an unfinished bar, so that something else can be printed. */
void cli_progress_end(cli_progress *p);
double cli_now(void);
/* s as a JSON string with quotes on stdout; what is no UTF-8 becomes U+FFFD. */
void cli_print_json_string(const char *s);

/* ------------------------------------------------------------- runtime */

typedef struct cli_session {
    espalier_runtime *runtime;
    espalier_context *ctx;
    cli_progress progress;
    bool said_why;                   /* the library has told why there is no runtime */
} cli_session;

typedef struct cli_common {
    int64_t threads;
    espalier_cpu_level cpu_level;
    uint64_t memory_budget;
    const char *device;              /* NULL = the CPU */
    bool quiet, json;
} cli_common;

/* Runtime and context. Warnings of the library go to stderr, its notices to stdout in the style of the progress (not at all when quiet or
 * without progress). 0, or an exit status with the message printed. */
int cli_open(cli_session *s, const cli_common *common, cli_progress_style style);
void cli_close(cli_session *s);

/* From here SIGINT and SIGTERM cancel the context instead of killing the process; a second signal does kill it. */
void cli_catch_signals(espalier_context *ctx);
/* 0, or the signal that came. */
int cli_signal(void);

/* ------------------------------------------------------------- errors */

/* One line "espalier: ..." on stderr; returns ESPALIER_ERR_ARG (exit status 2) and points to the help of `command`. */
int cli_usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The context's message on stderr, and with --json as a line of type "error" on stdout; returns the exit status of `status` (130 or 143
 * after a signal). */
int cli_report_error(cli_session *s, espalier_status status);
/* 0, or ESPALIER_ERR_OUTPUT with a message when standard output did not take everything. */
int cli_flush(void);

/* ------------------------------------------------------------- models */

typedef struct cli_model_wish {
    const char *directory;           /* what -m names, or NULL */
    espalier_pipeline_type pipeline; /* what the user's own models must be able to run */
    bool with_texture;
} cli_model_wish;

/* The model directory to use: the one named, or the user's own if complete, or the embedded one. Static buffer; *what says which it is.
 * NULL with a message printed when there is none. */
const char *cli_find_models(cli_session *s, const cli_model_wish *wish, const char **what);
/* Where the user's own models would be, whether or not they are there; false when the environment does not say, or the name is too long. */
bool cli_user_models(char *out, size_t size);

/* ------------------------------------------------------------- subcommands */

int cli_generate(int argc, char **argv);
int cli_matte(int argc, char **argv);
int cli_post(int argc, char **argv);
int cli_voxelize(int argc, char **argv);
int cli_mesh(int argc, char **argv);
int cli_render(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_devices(int argc, char **argv);

/* Values of options that have no letter. */
enum { CLI_OPT_THREADS = 256, CLI_OPT_CPU_LEVEL, CLI_OPT_MEM_BUDGET, CLI_OPT_QUIET, CLI_OPT_JSON, CLI_OPT_VERSION, CLI_OPT_FIRST_FREE };
#define CLI_COMMON_OPTIONS                                                                                                                 \
    {"threads", required_argument, NULL, CLI_OPT_THREADS}, {"cpu-level", required_argument, NULL, CLI_OPT_CPU_LEVEL},                      \
        {"mem-budget", required_argument, NULL, CLI_OPT_MEM_BUDGET}, {"quiet", no_argument, NULL, CLI_OPT_QUIET},                          \
        {"json", no_argument, NULL, CLI_OPT_JSON}, {"version", no_argument, NULL, CLI_OPT_VERSION},                                        \
    {                                                                                                                                      \
        "help", no_argument, NULL, 'h'                                                                                                     \
    }
/* Handle one of the above: 0 = done, 1 = not mine, else 2 (usage error, printed). */
int cli_common_option(cli_common *common, const char *command, int option, const char *value);
/* The option that getopt_long() has just read, as the user wrote it, without a value. Static buffer. */
const char *cli_option_text(char **argv);
/* The message for what getopt_long() refused; 2. */
int cli_bad_option(const char *command, char **argv, int option);

#endif
