/* SPDX-License-Identifier: MIT
 *
 * cut_report.c: what is suspicious about a matte, in words for the log and in JSON for the report.
 */
#include "pipeline/cut.h"

#include <stdio.h>

/* Limits of include/espalier/matte.h. */
#define MOST     0.9
#define LITTLE   0.01
#define BORDER   0.25
#define INVERTED 0.5
#define SOFT     0.2

typedef struct suspicion {
    espalier_matte_warning warning;
    const char *name;
    bool (*applies)(const espalier_matte_stats *s);
    double (*value)(const espalier_matte_stats *s);
    double limit;
    void (*say)(char *text, size_t size, const espalier_matte_stats *s);
} suspicion;

static double percent(double share)
{
    return 100 * share;
}

/* What helps when the picture's own alpha is the trouble. */
static const char *advice(const espalier_matte_stats *s)
{
    return s->used == ESPALIER_MATTE_ALPHA ? "; --matte-over-alpha sets this alpha aside" : "";
}

/* ------------------------------------------------------------- the six of them */

static bool covers_most(const espalier_matte_stats *s)
{
    return s->coverage > MOST;
}

static void say_most(char *text, size_t size, const espalier_matte_stats *s)
{
    snprintf(text, size, "covers %.1f %% of the frame (more than %.0f %%): the background is probably still there%s", percent(s->coverage),
             percent(MOST), advice(s));
}

static bool covers_little(const espalier_matte_stats *s)
{
    return s->coverage < LITTLE;
}

static void say_little(char *text, size_t size, const espalier_matte_stats *s)
{
    snprintf(text, size, "covers %.2f %% of the frame (less than %.0f %%): the object is probably lost or very small", percent(s->coverage),
             percent(LITTLE));
}

static double coverage(const espalier_matte_stats *s)
{
    return s->coverage;
}

static bool touches_border(const espalier_matte_stats *s)
{
    return s->border > BORDER;
}

static void say_border(char *text, size_t size, const espalier_matte_stats *s)
{
    snprintf(text, size, "touches %.1f %% of the border (more than %.0f %%): the object is cut off, or background is still there",
             percent(s->border), percent(BORDER));
}

static double border(const espalier_matte_stats *s)
{
    return s->border;
}

static bool inverted(const espalier_matte_stats *s)
{
    return s->border > INVERTED && s->centre < INVERTED;
}

static void say_inverted(char *text, size_t size, const espalier_matte_stats *s)
{
    snprintf(text, size, "looks inverted: %.1f %% of the border and %.1f %% of the centre are opaque%s", percent(s->border),
             percent(s->centre), advice(s));
}

static double centre(const espalier_matte_stats *s)
{
    return s->centre;
}

static bool several_parts(const espalier_matte_stats *s)
{
    return s->large_parts > 1;
}

static void say_parts(char *text, size_t size, const espalier_matte_stats *s)
{
    snprintf(text, size, "has %lld separate large parts, the largest %.1f %% of it; all are kept (--keep-largest keeps one)",
             (long long)s->large_parts, percent(s->largest_part));
}

static double large_parts(const espalier_matte_stats *s)
{
    return (double)s->large_parts;
}

static bool too_soft(const espalier_matte_stats *s)
{
    return s->soft > SOFT;
}

static void say_soft(char *text, size_t size, const espalier_matte_stats *s)
{
    snprintf(text, size, "is half transparent in %.1f %% of its area (more than %.0f %%): edges are blurred, or the network was unsure",
             percent(s->soft), percent(SOFT));
}

static double soft(const espalier_matte_stats *s)
{
    return s->soft;
}

static const suspicion suspicions[] = {
    {ESPALIER_MATTE_COVERS_MOST, "covers_most", covers_most, coverage, MOST, say_most},
    {ESPALIER_MATTE_COVERS_LITTLE, "covers_little", covers_little, coverage, LITTLE, say_little},
    {ESPALIER_MATTE_TOUCHES_BORDER, "touches_border", touches_border, border, BORDER, say_border},
    {ESPALIER_MATTE_INVERTED, "inverted", inverted, centre, INVERTED, say_inverted},
    {ESPALIER_MATTE_SEVERAL_PARTS, "several_parts", several_parts, large_parts, 1, say_parts},
    {ESPALIER_MATTE_SOFT, "soft", too_soft, soft, SOFT, say_soft},
};

const char *espalier_matte_warning_name(espalier_matte_warning warning)
{
    for (size_t i = 0; i < ESI_COUNT(suspicions); i++)
        if (suspicions[i].warning == warning) return suspicions[i].name;
    return "?";
}

void esi_cut_warn(espalier_context *ctx, espalier_matte_stats *stats, const char *name)
{
    char text[256];

    stats->warnings = 0;
    if (stats->used == ESPALIER_MATTE_NONE) return; /* as asked for */
    for (size_t i = 0; i < ESI_COUNT(suspicions); i++) {
        if (!suspicions[i].applies(stats)) continue;
        stats->warnings |= (uint32_t)suspicions[i].warning;
        suspicions[i].say(text, sizeof text, stats);
        esi_log(ctx, ESPALIER_LOG_WARNING, "%s: the matte %s", name, text);
    }
}

/* ------------------------------------------------------------- JSON */

void esi_put_matte(esi_json_writer *w, const char *key, const espalier_matte_stats *stats, const char *file)
{
    esi_json_open(w, key, '{');
    esi_json_put_string(w, "used", espalier_matte_name(stats->used));
    esi_json_put_string(w, "reason", stats->reason);
    if (file) esi_json_put_string(w, "network_file", file);
    esi_json_put_number(w, "coverage", stats->coverage);
    esi_json_put_number(w, "border", stats->border);
    esi_json_put_number(w, "centre", stats->centre);
    esi_json_put_number(w, "soft", stats->soft);
    esi_json_put_int(w, "parts", stats->parts);
    esi_json_put_int(w, "large_parts", stats->large_parts);
    esi_json_put_number(w, "largest_part", stats->largest_part);
    esi_json_put_int(w, "dropped_parts", stats->dropped_parts);
    esi_json_put_number(w, "dropped", stats->dropped);
    esi_json_open(w, "warnings", '[');
    for (size_t i = 0; i < ESI_COUNT(suspicions); i++) {
        if (!(stats->warnings & (uint32_t)suspicions[i].warning)) continue;
        esi_json_open(w, NULL, '{');
        esi_json_put_string(w, "name", suspicions[i].name);
        esi_json_put_number(w, "value", suspicions[i].value(stats));
        esi_json_put_number(w, "limit", suspicions[i].limit);
        esi_json_close(w, '}');
    }
    esi_json_close(w, ']');
    esi_json_close(w, '}');
}
