/* SPDX-License-Identifier: MIT
 *
 * devices.c: espalier devices
 */
#include "cli.h"

#include <stdio.h>

static const char help[] =
    "usage: espalier devices [--json]\n"
    "\n"
    "List what can compute here: the processor with the kernels it supports, and the Vulkan devices, each of which runs a short test of\n"
    "its arithmetic. All of them give the same bits.\n";

static int print_vulkan(cli_session *s)
{
    char *text = NULL;
    espalier_status st = espalier_devices_text(s->ctx, &text);
    if (st != ESPALIER_OK) return cli_report_error(s, st);
    fputs(text, stdout);
    espalier_text_free(s->ctx, text);
    return 0;
}

int cli_devices(int argc, char **argv)
{
    static const struct option options[] = {CLI_COMMON_OPTIONS, {NULL, 0, NULL, 0}};
    static const espalier_cpu_level levels[] = {ESPALIER_CPU_GENERIC, ESPALIER_CPU_GENERIC_FMA, ESPALIER_CPU_AVX2, ESPALIER_CPU_AVX512,
                                                ESPALIER_CPU_NEON};
    cli_common common = {0};
    cli_session s;
    int c, status;

    while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (c == 'h') return fputs(help, stdout), 0;
        if (c == CLI_OPT_VERSION) return printf("espalier %s\n", espalier_version()), 0;
        if (c == '?' || c == ':') return cli_bad_option("devices", argv, c);
        if ((c = cli_common_option(&common, "devices", c, optarg)) != 0) return c;
    }
    if (optind != argc) return cli_usage_error("devices", "unexpected argument '%s'", argv[optind]);
    if ((status = cli_open(&s, &common, CLI_PROGRESS_NONE)) != 0) return status;
    if (common.json) {
        char *text = NULL;
        espalier_status st = espalier_devices(s.ctx, &text);
        if (st == ESPALIER_OK)
            fputs(text, stdout);
        else
            status = cli_report_error(&s, st);
        espalier_text_free(s.ctx, text);
    } else {
        printf("cpu: %d threads, kernels %s (supported:", espalier_runtime_threads(s.runtime),
               espalier_cpu_level_name(espalier_runtime_cpu_level(s.runtime)));
        for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
            if (espalier_cpu_level_supported(levels[i])) printf(" %s", espalier_cpu_level_name(levels[i]));
        printf(")\n");
        status = print_vulkan(&s);
    }
    cli_close(&s);
    return status;
}
