/* SPDX-License-Identifier: MIT
 *
 * progress.c: how a run shows where it is: a bar with the time left on a terminal, plain lines "[k/7] ..." in a pipe (other programs read
 * these), JSON lines on demand.
 */
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const stages[] = {"preprocess", "condition", "structure", "shape", "texture", "decode", "finish"};
#define N_STAGES ((int)(sizeof stages / sizeof stages[0]))
#define BAR      32

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

cli_progress_style cli_progress_choose(bool quiet, bool json)
{
    if (json) return CLI_PROGRESS_JSON;
    if (quiet) return CLI_PROGRESS_NONE;
    return isatty(STDOUT_FILENO) ? CLI_PROGRESS_BAR : CLI_PROGRESS_LINES;
}

static int stage_number(const char *stage)
{
    for (int i = 0; i < N_STAGES; i++)
        if (strcmp(stages[i], stage) == 0) return i + 1;
    return 0;
}

static void draw_bar(cli_progress *p, int k, const char *stage, uint64_t done, uint64_t total)
{
    int filled = total ? (int)((double)done / (double)total * BAR) : 0;
    double elapsed = cli_now() - p->stage_started;
    printf("\r[%d/%d] %-10s [", k, N_STAGES, stage);
    for (int i = 0; i < BAR; i++) putchar(i < filled ? '#' : '.');
    printf("] %llu/%llu", (unsigned long long)done, (unsigned long long)total);
    if (done >= total)
        printf("  %.1f s      \n", elapsed);
    else if (done > 0)
        printf("  %.0f s left   ", elapsed / (double)done * (double)(total - done));
    p->line_open = done < total;
}

int cli_progress_update(void *user, const char *stage, uint64_t done, uint64_t total)
{
    cli_progress *p = user;
    int k = stage_number(stage);
    if (strcmp(p->stage, stage) != 0) {
        snprintf(p->stage, sizeof p->stage, "%s", stage);
        p->stage_started = cli_now();
    }
    switch (p->style) {
    case CLI_PROGRESS_BAR:
        draw_bar(p, k, stage, done, total);
        break;
    case CLI_PROGRESS_LINES:
        if (done == 0)
            printf("[%d/%d] %s\n", k, N_STAGES, stage);
        else
            printf("[%d/%d] %s %llu/%llu\n", k, N_STAGES, stage, (unsigned long long)done, (unsigned long long)total);
        break;
    case CLI_PROGRESS_JSON:
        printf("{\"type\": \"progress\", \"stage\": \"%s\", \"index\": %d, \"stages\": %d, \"done\": %llu, \"total\": %llu}\n", stage, k,
               N_STAGES, (unsigned long long)done, (unsigned long long)total);
        break;
    case CLI_PROGRESS_NONE:
        return 0;
    }
    fflush(stdout);
    return 0;
}

void cli_progress_end(cli_progress *p)
{
    if (p->line_open) putchar('\n');
    p->line_open = false;
    fflush(stdout);
}

/* Bytes of the UTF-8 sequence at s, 0 if there is none (RFC 3629: no surrogates, nothing overlong, nothing above U+10FFFF). */
static int utf8_length(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

void cli_print_json_string(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    putchar('"');
    while (*s) {
        int n = utf8_length(s);
        if (n == 0)
            fputs("\\ufffd", stdout);
        else if (*s == '"' || *s == '\\')
            printf("\\%c", *s);
        else if (*s < 0x20)
            printf("\\u%04x", *s);
        else
            fwrite(s, 1, (size_t)n, stdout);
        s += n ? n : 1;
    }
    putchar('"');
}
