/* SPDX-License-Identifier: MIT
 *
 * inspect.c: espalier inspect PATH...
 */
#include "cli.h"

#include <stdio.h>

static const char help[] =
    "usage: espalier inspect [--json] PATH...\n"
    "\n"
    "Say what a picture, weight file (safetensors, GGUF), model directory, GLB or dump is: sizes, dtypes, what is missing.\n"
    "\n"
    "  --json        one JSON object per PATH\n"
    "  -h, --help    this text\n";

int cli_inspect(int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {NULL, 0, NULL, 0}};
    cli_common common = {0};
    cli_session s;
    int c, status = 0;

    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (c == 'h') return fputs(help, stdout), 0;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), 0;
        if (c == '?' || c == ':') return cli_bad_option("inspect", argv, c);
        if ((c = cli_common_option(&common, "inspect", c, optarg)) != 0) return c;
    }
    if (optind == argc) return cli_usage_error("inspect", "name a file or directory to inspect");
    if ((status = cli_open(&s, &common, CLI_PROGRESS_NONE)) != 0) return status;
    for (int i = optind; i < argc; i++) {
        char *text = NULL;
        espalier_status st = common.json ? espalier_inspect(s.ctx, argv[i], &text) : espalier_inspect_text(s.ctx, argv[i], &text);
        if (st != ESPALIER_OK) {
            int failed = cli_report_error(&s, st);
            if (!status) status = failed;
            continue;
        }
        if (!common.json && i > optind) putchar('\n');
        fputs(text, stdout);
        espalier_text_free(s.ctx, text);
    }
    cli_close(&s);
    return status;
}
