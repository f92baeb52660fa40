/* SPDX-License-Identifier: MIT
 *
 * sparse_cholesky.c: geometric nested dissection (George, Nested Dissection of a Regular Finite Element Mesh, 1973), elimination tree (Liu,
 * The Role of Elimination Trees in Sparse Factorization, 1990) and row-by-row Cholesky factorisation along its row subtrees. For n unknowns
 * of a planar mesh: about n log n entries and n^1.5 operations. All orders are fixed, so the result is the same everywhere.
 */
#include "mesh/sparse_cholesky.h"

#include <math.h>

#define LEAF 12                    /* sets of so many unknowns are not cut further */

void esi_cholesky_free(espalier_context *ctx, esi_cholesky *f)
{
    esi_free(ctx, f->order);
    esi_free(ctx, f->inverse);
    esi_free(ctx, f->parent);
    esi_free(ctx, f->count);
    esi_free(ctx, f->mark);
    esi_free(ctx, f->stack);
    esi_free(ctx, f->start);
    esi_free(ctx, f->diagonal);
    esi_free(ctx, f->work);
    esi_free(ctx, f->row);
    esi_free(ctx, f->value);
    memset(f, 0, sizeof *f);
}

static bool reserve_unknowns(espalier_context *ctx, esi_cholesky *f, int32_t n)
{
    size_t capacity = (size_t)n + (size_t)n / 4 + 64;

    if (n < f->capacity) return true;
    esi_cholesky_free(ctx, f);
    f->order = esi_alloc(ctx, capacity, sizeof *f->order, "elimination order");
    f->inverse = esi_alloc(ctx, capacity, sizeof *f->inverse, "elimination order");
    f->parent = esi_alloc(ctx, capacity, sizeof *f->parent, "elimination tree");
    f->count = esi_alloc(ctx, capacity, sizeof *f->count, "elimination tree");
    f->mark = esi_alloc(ctx, capacity, sizeof *f->mark, "elimination tree");
    f->stack = esi_alloc(ctx, capacity, sizeof *f->stack, "elimination tree");
    f->start = esi_alloc(ctx, capacity + 1, sizeof *f->start, "factor");
    f->diagonal = esi_alloc(ctx, capacity, sizeof *f->diagonal, "factor");
    f->work = esi_alloc(ctx, capacity, 2 * sizeof *f->work, "factor");
    if (!f->order || !f->inverse || !f->parent || !f->count || !f->mark || !f->stack || !f->start || !f->diagonal || !f->work) return false;
    f->capacity = (int64_t)capacity;
    return true;
}

static bool reserve_entries(espalier_context *ctx, esi_cholesky *f, int64_t entries)
{
    size_t capacity = (size_t)entries + (size_t)entries / 4 + 256;

    if (entries < f->entry_capacity) return true;
    esi_free(ctx, f->row);
    esi_free(ctx, f->value);
    f->entry_capacity = 0;
    f->value = NULL;
    f->row = esi_alloc(ctx, capacity, sizeof *f->row, "factor");
    if (f->row) f->value = esi_alloc(ctx, capacity, sizeof *f->value, "factor");
    if (!f->value) return false;
    f->entry_capacity = (int64_t)capacity;
    return true;
}

/* ------------------------------------------------------------------ order */

static inline bool before(const double *place, int axis, int32_t i, int32_t j)
{
    double a = place[2 * (size_t)i + (size_t)axis], b = place[2 * (size_t)j + (size_t)axis];
    return a < b || (a == b && i < j);
}

/* Partial sort: the `middle` first elements are the smallest of ids[0..n). */
static void select_smallest(int32_t *ids, int32_t n, int32_t middle, const double *place, int axis)
{
    int32_t low = 0, high = n - 1;

    while (low < high) {
        int32_t pivot = ids[low + (high - low) / 2], i = low, j = high;
        while (i <= j) {
            while (before(place, axis, ids[i], pivot)) i++;
            while (before(place, axis, pivot, ids[j])) j--;
            if (i <= j) {
                int32_t t = ids[i];
                ids[i++] = ids[j];
                ids[j--] = t;
            }
        }
        if (middle <= j) high = j;
        else if (middle >= i) low = i;
        else return;
    }
}

static int longer_axis(const int32_t *ids, int32_t n, const double *place)
{
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};

    for (int32_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 2; k++) {
            double x = place[2 * (size_t)ids[i] + k];
            if (x < low[k]) low[k] = x;
            if (x > high[k]) high[k] = x;
        }
    }
    return high[0] - low[0] >= high[1] - low[1] ? 0 : 1;
}

/* Halve ids[0..n): [left without the separator | right | separator]; returns the sizes of the first two. `mark` is any scratch whose values
 * for these ids differ from `stamp`. */
static void dissect(const esi_symmetric *a, int32_t *ids, int32_t n, const double *place, int32_t *mark, int32_t stamp, int32_t *temporary,
                    int32_t *n_left, int32_t *n_right)
{
    int32_t middle = n / 2, keep = 0, separator = 0;

    select_smallest(ids, n, middle, place, longer_axis(ids, n, place));
    for (int32_t i = middle; i < n; i++) mark[ids[i]] = stamp;
    for (int32_t i = 0; i < middle; i++) {
        int32_t v = ids[i], k = a->start[v];
        while (k < a->start[v + 1] && mark[a->column[k]] != stamp) k++;
        if (k < a->start[v + 1]) temporary[separator++] = v;
        else ids[keep++] = v;
    }
    memmove(ids + keep, ids + middle, (size_t)(n - middle) * sizeof *ids);
    memcpy(ids + n - separator, temporary, (size_t)separator * sizeof *ids);
    *n_left = keep;
    *n_right = n - middle;
}

static void order_unknowns(esi_cholesky *f, const esi_symmetric *a, const double *place)
{
    int32_t stack[128][2], depth = 0, stamp = 0; /* at most one waiting half per level, and levels halve */

    for (int32_t i = 0; i < a->n; i++) f->order[i] = i, f->mark[i] = -1;
    stack[depth][0] = 0;
    stack[depth++][1] = a->n;
    while (depth > 0) {
        int32_t low = stack[--depth][0], n = stack[depth][1], left, right;
        if (n <= LEAF) continue;
        dissect(a, f->order + low, n, place, f->mark, stamp++, f->stack, &left, &right);
        stack[depth][0] = low;
        stack[depth++][1] = left;
        stack[depth][0] = low + left;
        stack[depth++][1] = right;
    }
    for (int32_t i = 0; i < a->n; i++) f->inverse[f->order[i]] = i;
}

/* ---------------------------------------------------------------- symbolic */

/* Elimination tree and entries per column: row k of L is the set of nodes on the tree's paths from the neighbours below k up to k.
 * Gives up beyond the limit. */
static int64_t analyse(esi_cholesky *f, const esi_symmetric *a)
{
    int64_t entries = 0, most = (int64_t)ESI_CHOLESKY_FILL * a->n;

    for (int32_t k = 0; k < a->n && entries <= most; k++) {
        int32_t v = f->order[k];
        f->parent[k] = -1;
        f->count[k] = 0;
        f->mark[k] = k;
        for (int32_t e = a->start[v]; e < a->start[v + 1]; e++) {
            int32_t i = f->inverse[a->column[e]];
            while (i < k && f->mark[i] != k) {
                if (f->parent[i] < 0) f->parent[i] = k;
                f->count[i]++;
                entries++;
                f->mark[i] = k;
                i = f->parent[i];
            }
        }
    }
    return entries;
}

/* ----------------------------------------------------------------- numeric */

/* Nodes of row k in an order that has every node before its parent, at stack[top..n); marks them with k. */
static int32_t row_pattern(esi_cholesky *f, const esi_symmetric *a, int32_t k, double *x)
{
    int32_t v = f->order[k], top = a->n;

    f->mark[k] = k;
    for (int32_t e = a->start[v]; e < a->start[v + 1]; e++) {
        int32_t i = f->inverse[a->column[e]], length = 0;
        if (i >= k) continue;
        x[i] = a->value[e];
        while (f->mark[i] != k) {
            f->stack[length++] = i;
            f->mark[i] = k;
            i = f->parent[i];
        }
        while (length > 0) f->stack[--top] = f->stack[--length];
    }
    return top;
}

static bool factor_rows(esi_cholesky *f, const esi_symmetric *a)
{
    double *x = f->work;

    for (int32_t k = 0; k < a->n; k++) f->count[k] = 0, f->mark[k] = -1, x[k] = 0.0;
    for (int32_t k = 0; k < a->n; k++) {
        double pivot = a->diagonal[f->order[k]];
        for (int32_t t = row_pattern(f, a, k, x); t < a->n; t++) {
            int32_t i = f->stack[t];
            const int32_t *row = f->row + f->start[i];
            double *value = f->value + f->start[i];
            int32_t n = f->count[i];
            double l = x[i] / f->diagonal[i];
            x[i] = 0.0;
            for (int32_t e = 0; e < n; e++) x[row[e]] -= value[e] * l;
            pivot -= l * l;
            value[n] = l;
            f->row[f->start[i] + n] = k;
            f->count[i] = n + 1;
        }
        if (!(pivot > 0.0)) return false;
        f->diagonal[k] = sqrt(pivot);
    }
    return true;
}

espalier_status esi_cholesky_factor(espalier_context *ctx, esi_cholesky *f, const esi_symmetric *a, const double *place, bool *positive)
{
    int64_t entries, at = 0;

    *positive = false;
    if (!reserve_unknowns(ctx, f, a->n)) return ESPALIER_ERR_RESOURCE;
    f->n = a->n;
    order_unknowns(f, a, place);
    entries = analyse(f, a);
    f->entries = entries;
    if (entries > (int64_t)ESI_CHOLESKY_FILL * a->n) return ESPALIER_OK;
    if (!reserve_entries(ctx, f, entries)) return ESPALIER_ERR_RESOURCE;
    for (int32_t k = 0; k < a->n; k++) {
        f->start[k] = at;
        at += f->count[k];
    }
    f->start[a->n] = at;
    *positive = factor_rows(f, a);
    return ESPALIER_OK;
}

void esi_cholesky_solve2(const esi_cholesky *f, double *x)
{
    double *y = f->work;

    for (int32_t k = 0; k < f->n; k++) {
        y[2 * (size_t)k] = x[2 * (size_t)f->order[k]];
        y[2 * (size_t)k + 1] = x[2 * (size_t)f->order[k] + 1];
    }
    for (int32_t k = 0; k < f->n; k++) {
        double a = y[2 * (size_t)k] / f->diagonal[k], b = y[2 * (size_t)k + 1] / f->diagonal[k];
        for (int64_t e = f->start[k]; e < f->start[k + 1]; e++) {
            double *out = y + 2 * (size_t)f->row[e];
            out[0] -= f->value[e] * a;
            out[1] -= f->value[e] * b;
        }
        y[2 * (size_t)k] = a;
        y[2 * (size_t)k + 1] = b;
    }
    for (int32_t k = f->n - 1; k >= 0; k--) {
        double a = y[2 * (size_t)k], b = y[2 * (size_t)k + 1];
        for (int64_t e = f->start[k]; e < f->start[k + 1]; e++) {
            const double *in = y + 2 * (size_t)f->row[e];
            a -= f->value[e] * in[0];
            b -= f->value[e] * in[1];
        }
        y[2 * (size_t)k] = a / f->diagonal[k];
        y[2 * (size_t)k + 1] = b / f->diagonal[k];
    }
    for (int32_t k = 0; k < f->n; k++) {
        x[2 * (size_t)f->order[k]] = y[2 * (size_t)k];
        x[2 * (size_t)f->order[k] + 1] = y[2 * (size_t)k + 1];
    }
}
