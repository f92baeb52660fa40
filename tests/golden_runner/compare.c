/* SPDX-License-Identifier: MIT
 *
 * compare.c: the tolerance table of the golden cases. `a` is ours, `b` the stored value; sums run in double. A comparison is written so
 * that NaN fails it.
 */
#include "golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct comparison {
    int64_t count;
    const void *a, *b;
    esi_file_dtype a_dtype, b_dtype;
    double diff2, norm2, max_abs;
} comparison;

static double value_at(const void *data, esi_file_dtype dtype, int64_t i)
{
    switch (dtype) {
    case ESI_FILE_F32:
        return (double)((const float *)data)[i];
    case ESI_FILE_F64:
        return ((const double *)data)[i];
    case ESI_FILE_I32:
        return (double)((const int32_t *)data)[i];
    case ESI_FILE_U32:
        return (double)((const uint32_t *)data)[i];
    case ESI_FILE_U8:
        return (double)((const uint8_t *)data)[i];
    default:
        return (double)NAN;
    }
}

static double a_at(const comparison *m, int64_t i)
{
    return value_at(m->a, m->a_dtype, i);
}
static double b_at(const comparison *m, int64_t i)
{
    return value_at(m->b, m->b_dtype, i);
}

static void measure(comparison *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        double a = a_at(m, i), b = b_at(m, i);
        double d = a == b ? 0.0 : fabs(a - b); /* equal infinities differ by nothing */
        m->diff2 += d * d;
        m->norm2 += b * b;
        if (!(d <= m->max_abs)) m->max_abs = d; /* a NaN stays */
    }
}

static double relative_l2(const comparison *m)
{
    if (m->diff2 == 0.0) return 0.0;
    return m->norm2 > 0.0 ? sqrt(m->diff2 / m->norm2) : (double)INFINITY;
}

/* fp32 values in one line of integers: neighbours differ by one, both zeros are 0. */
static int64_t float_step(float v)
{
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits >= 0 ? (int64_t)bits : -(int64_t)(bits & 0x7fffffff);
}

static size_t element_size(esi_file_dtype dtype)
{
    return dtype == ESI_FILE_F64 ? 8 : dtype == ESI_FILE_U8 ? 1 : 4;
}

/* First element that breaks the rule, or -1. */
static int64_t first_inexact(const comparison *m)
{
    size_t size = element_size(m->a_dtype);
    if (size != element_size(m->b_dtype)) return 0;
    for (int64_t i = 0; i < m->count; i++) {
        size_t at = (size_t)i * size;
        if (memcmp((const uint8_t *)m->a + at, (const uint8_t *)m->b + at, size) != 0) return i;
    }
    return -1;
}

static int64_t first_beyond_ulp(const comparison *m, double limit)
{
    for (int64_t i = 0; i < m->count; i++) {
        float a = (float)a_at(m, i), b = (float)b_at(m, i);
        if (!(fabs((double)(float_step(a) - float_step(b))) <= limit) || isnan(a) != isnan(b)) return i;
    }
    return -1;
}

static int64_t first_beyond(const comparison *m, double absolute, double relative)
{
    for (int64_t i = 0; i < m->count; i++) {
        double a = a_at(m, i), b = b_at(m, i);
        if (a == b) continue;
        if (isinf(a) || isinf(b) || !(fabs(a - b) <= absolute + relative * fabs(b))) return i;
    }
    return -1;
}

static int64_t first_nonzero(const comparison *m)
{
    for (int64_t i = 0; i < m->count; i++) {
        if (b_at(m, i) == 0.0 && !(a_at(m, i) == 0.0)) return i;
    }
    return -1;
}

/* One keyword of a tolerance object. false: broken, `why` says it (size 200). */
static bool keyword_holds(const comparison *m, const char *keyword, const esi_json *value, char *why, size_t why_size)
{
    double limit = 0.0, relative = 0.0;
    bool flag = false;
    int64_t at = -1;
    if (strcmp(keyword, "allclose") == 0) {
        bool known = esi_json_double(esi_json_get(value, "rel"), &relative);
        known |= esi_json_double(esi_json_get(value, "abs"), &limit);
        if (!known) goto malformed;
        at = first_beyond(m, limit, relative);
    } else if (strcmp(keyword, "exact") == 0 || strcmp(keyword, "zeros_exact") == 0) {
        if (!esi_json_bool(value, &flag)) goto malformed;
        if (flag) at = keyword[0] == 'e' ? first_inexact(m) : first_nonzero(m);
    } else if (strcmp(keyword, "rel_l2") == 0) {
        if (!esi_json_double(value, &limit)) goto malformed;
        if (sqrt(m->diff2) <= limit * sqrt(m->norm2)) return true;
        snprintf(why, why_size, "rel_l2 %.3g > %g", relative_l2(m), limit);
        return false;
    } else if (strcmp(keyword, "ulp") == 0) {
        if (!esi_json_double(value, &limit)) goto malformed;
        at = first_beyond_ulp(m, limit);
    } else if (strcmp(keyword, "max_abs") == 0) {
        if (!esi_json_double(value, &limit)) goto malformed;
        at = first_beyond(m, limit, 0.0);
    } else if (strcmp(keyword, "max_rel") == 0) {
        if (!esi_json_double(value, &limit)) goto malformed;
        at = first_beyond(m, 0.0, limit);
    } else {
        snprintf(why, why_size, "tolerance keyword %s has no code", keyword);
        return false;
    }
    if (at < 0) return true;
    snprintf(why, why_size, "%s broken at element %lld: %.9g, expected %.9g", keyword, (long long)at, a_at(m, at), b_at(m, at));
    return false;

malformed:
    snprintf(why, why_size, "tolerance keyword %s: malformed value", keyword);
    return false;
}

const esi_json *golden_tolerance(const golden_case *c, const char *name)
{
    const esi_json *table = esi_json_get(c->config, "tolerance");
    const esi_json *own = esi_json_get(table, name);
    return own ? own : esi_json_get(table, "default");
}

void golden_compare(golden_case *c, const char *name, const void *ours, esi_file_dtype ours_dtype, const void *theirs,
                    esi_file_dtype theirs_dtype, int64_t count)
{
    comparison m = {.count = count, .a = ours, .b = theirs, .a_dtype = ours_dtype, .b_dtype = theirs_dtype};
    const esi_json *tolerance = golden_tolerance(c, name);
    char why[200] = "";
    bool good = true;

    measure(&m);
    if (tolerance == NULL || esi_json_size(tolerance) == 0) {
        good = false;
        snprintf(why, sizeof why, "the config has no tolerance for it");
    }
    for (size_t i = 0; good && i < esi_json_size(tolerance); i++) {
        const esi_json *value = NULL;
        const char *keyword = esi_json_key_at(tolerance, i, &value);
        if (strcmp(keyword, "skip") == 0) {
            golden_add_result(c, name, relative_l2(&m), m.max_abs, GOLDEN_SKIP, NULL);
            return;
        }
        /* The kind has put the rows into the stored order (match_set.c); how near they have to be is for another keyword to say. */
        if (strcmp(keyword, "as_set") == 0 && esi_json_size(tolerance) > 1) continue;
        good = keyword_holds(&m, keyword, value, why, sizeof why);
    }
    golden_add_result(c, name, relative_l2(&m), m.max_abs, good ? GOLDEN_PASS : GOLDEN_FAIL, good ? NULL : why);
}

/* ---------------------------------------------------------------- voxel_error */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* error: by row, sorted here. */
static bool voxel_error_holds(const esi_json *limits, double *error, int64_t rows, double outside, char *why, size_t why_size)
{
    const esi_json *above = esi_json_get(limits, "max_fraction_above");
    double median, p99, slack, far, share;
    int64_t n_far = 0;

    if (!esi_json_double(esi_json_get(limits, "median"), &median) || !esi_json_double(esi_json_get(limits, "p99"), &p99) ||
        !esi_json_double(esi_json_get(limits, "cell_slack"), &slack) || !esi_json_double(esi_json_at(above, 0), &far) ||
        !esi_json_double(esi_json_at(above, 1), &share)) {
        snprintf(why, why_size, "tolerance keyword voxel_error: malformed value");
        return false;
    }
    qsort(error, (size_t)rows, sizeof *error, by_value);
    for (int64_t i = 0; i < rows; i++) n_far += !(error[i] <= far);
    snprintf(why, why_size, "voxel_error: median %.3g, p99 %.3g, %lld of %lld rows above %g, outside the cell by %.3g",
             rows > 0 ? error[rows / 2] : 0.0, rows > 0 ? error[rows * 99 / 100] : 0.0, (long long)n_far, (long long)rows, far, outside);
    return rows == 0 || (error[rows / 2] <= median && error[rows * 99 / 100] <= p99 && (double)n_far <= share * (double)rows &&
                         outside <= slack);
}

void golden_compare_in_cells(golden_case *c, const char *name, const float *ours, const float *theirs, const int32_t *cells, int64_t rows,
                             const double cell_size[3])
{
    const esi_json *limits = esi_json_get(golden_tolerance(c, name), "voxel_error");
    comparison m = {.count = 3 * rows, .a = ours, .b = theirs, .a_dtype = ESI_FILE_F32, .b_dtype = ESI_FILE_F32};
    double *error, outside = 0.0;
    char why[200] = "";
    bool good;

    if (limits == NULL) {
        golden_compare(c, name, ours, ESI_FILE_F32, theirs, ESI_FILE_F32, 3 * rows);
        return;
    }
    measure(&m);
    error = calloc((size_t)rows + 1, sizeof *error);
    if (error == NULL) abort();
    for (int64_t i = 0; i < 3 * rows; i++) {
        const double place = (double)ours[i] / cell_size[i % 3] - (double)cells[i];
        double e = fabs((double)ours[i] - (double)theirs[i]) / cell_size[i % 3];

        if (!(e >= 0.0 && place > -1e9 && place < 1e9)) e = outside = (double)INFINITY;       /* NaN */
        error[i / 3] = fmax(error[i / 3], e);
        outside = fmax(outside, fmax(-place, place - 1.0));
    }
    good = voxel_error_holds(limits, error, rows, outside, why, sizeof why);
    free(error);
    golden_add_result(c, name, relative_l2(&m), m.max_abs, good ? GOLDEN_PASS : GOLDEN_FAIL, good ? NULL : why);
}
