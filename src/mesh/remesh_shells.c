/* SPDX-License-Identifier: MIT
 *
 * remesh_shells.c: which closed pieces of the surface stay. The wall of a cavity has negative volume. For a solid only those stay that
 * border on the space around the object: the outside is flooded over the lattice corners with f >= 0, as runs along z joined where runs of
 * neighbouring columns overlap.
 */
#include "mesh/remesh_internal.h"
#include "mesh/topology.h"

#include <math.h>

/* ----------------------------------------------------------------------- flood */

/* Runs of corners with f >= 0, by column: runs[start[x * side + y] ..). */
typedef struct flood {
    const remesh_band *band;
    int64_t *start;
    uint16_t (*runs)[2];           /* first and last z */
    int32_t *parent;
    int32_t outside;               /* root of what touches the border of the grid */
} flood;

/* Writes the runs of a column, or only counts them. Between known corners, and beyond them, the sign does not change. */
static int64_t column_runs(const remesh_band *band, int64_t column, uint16_t (*runs)[2])
{
    const remesh_columns *corners = &band->corners;
    const int64_t first = corners->start[column], end = corners->start[column + 1];
    int64_t n = 0;
    bool open = first == end || !(band->f[first] < 0.0f);
    uint16_t from = 0;

    for (int64_t i = first; i < end; i++) {
        const bool inside = band->f[i] < 0.0f;

        if (open && inside) {
            if (runs) {
                runs[n][0] = from;
                runs[n][1] = (uint16_t)(corners->z[i] - 1);
            }
            n++;
        }
        if (!open && !inside) from = corners->z[i];
        open = !inside;
    }
    if (open) {
        if (runs) {
            runs[n][0] = from;
            runs[n][1] = (uint16_t)(corners->side - 1);
        }
        n++;
    }
    return n;
}

static void count_runs(void *arg, size_t x, int slot)
{
    const flood *fl = arg;
    const int32_t side = fl->band->corners.side;

    (void)slot;
    for (int64_t c = (int64_t)x * side; c < (int64_t)(x + 1) * side; c++) fl->start[c + 1] = column_runs(fl->band, c, NULL);
}

static void write_runs(void *arg, size_t x, int slot)
{
    const flood *fl = arg;
    const int32_t side = fl->band->corners.side;

    (void)slot;
    for (int64_t c = (int64_t)x * side; c < (int64_t)(x + 1) * side; c++) column_runs(fl->band, c, fl->runs + fl->start[c]);
}

static void join_columns(flood *fl, int64_t a, int64_t b)
{
    int64_t i = fl->start[a], j = fl->start[b];

    while (i < fl->start[a + 1] && j < fl->start[b + 1]) {
        if (fl->runs[i][0] <= fl->runs[j][1] && fl->runs[j][0] <= fl->runs[i][1]) esi_union_join(fl->parent, (int32_t)i, (int32_t)j);
        if (fl->runs[i][1] < fl->runs[j][1]) i++;
        else j++;
    }
}

static void join_border(flood *fl, int32_t x, int32_t y)
{
    const int32_t side = fl->band->corners.side;
    const int64_t column = (int64_t)x * side + y;
    const bool all = x == 0 || y == 0 || x == side - 1 || y == side - 1;

    for (int64_t i = fl->start[column]; i < fl->start[column + 1]; i++) {
        if (!all && fl->runs[i][0] != 0 && fl->runs[i][1] != side - 1) continue;
        if (fl->outside < 0) fl->outside = (int32_t)i;
        esi_union_join(fl->parent, fl->outside, (int32_t)i);
    }
}

static espalier_status flood_make(espalier_context *ctx, flood *fl, const remesh_band *band)
{
    const int32_t side = band->corners.side;
    const int64_t columns = (int64_t)side * side;
    espalier_status st;

    *fl = (flood){.band = band, .outside = -1};
    fl->start = esi_calloc(ctx, (size_t)columns + 1, sizeof *fl->start, "remesh flood");
    if (!fl->start) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, (size_t)side, count_runs, fl);
    if (st != ESPALIER_OK) return st;
    for (int64_t c = 0; c < columns; c++) fl->start[c + 1] += fl->start[c];
    if (fl->start[columns] > INT32_MAX) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "remesh: the grid is too fine to flood");
    fl->runs = esi_alloc(ctx, (size_t)fl->start[columns], sizeof *fl->runs, "remesh flood");
    fl->parent = esi_alloc(ctx, (size_t)fl->start[columns], sizeof *fl->parent, "remesh flood");
    if (!fl->runs || !fl->parent) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(ctx, (size_t)side, write_runs, fl);
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < fl->start[columns]; i++) fl->parent[i] = (int32_t)i;
    for (int32_t x = 0; x < side; x++) {
        st = esi_check_cancel(ctx);
        if (st != ESPALIER_OK) return st;
        for (int32_t y = 0; y < side; y++) {
            const int64_t column = (int64_t)x * side + y;

            if (y + 1 < side) join_columns(fl, column, column + 1);
            if (x + 1 < side) join_columns(fl, column, column + side);
            join_border(fl, x, y);
        }
    }
    return ESPALIER_OK;
}

static void flood_free(espalier_context *ctx, flood *fl)
{
    esi_free(ctx, fl->start);
    esi_free(ctx, fl->runs);
    esi_free(ctx, fl->parent);
}

/* Is the corner with f >= 0 that this vertex looks at reached from the border? */
static bool looks_outside(flood *fl, const remesh_quads *q, int64_t vertex)
{
    const int corner = q->outside[vertex];
    const int32_t x = q->cell[vertex][0] + (corner >> 2), y = q->cell[vertex][1] + (corner >> 1 & 1);
    const int32_t z = q->cell[vertex][2] + (corner & 1);
    const int64_t column = (int64_t)x * fl->band->corners.side + y;

    for (int64_t i = fl->start[column]; i < fl->start[column + 1]; i++) {
        if (fl->runs[i][0] <= z && z <= fl->runs[i][1])
            return fl->outside >= 0 && esi_union_root(fl->parent, (int32_t)i) == esi_union_root(fl->parent, fl->outside);
    }
    return false;
}

/* ---------------------------------------------------------------------- shells */

typedef struct shell {
    double volume;
    int64_t quads;
    bool drop;
} shell;

/* shell_of: [n_vertices], numbered by the lowest vertex. */
static espalier_status number_shells(espalier_context *ctx, const remesh_quads *q, int32_t *shell_of, int32_t *n_shells)
{
    int32_t n = 0;

    for (int64_t v = 0; v < q->n_vertices; v++) shell_of[v] = (int32_t)v;
    for (int64_t i = 0; i < q->n_quads; i++) {
        if ((i & 0x3ffff) == 0 && esi_check_cancel(ctx) != ESPALIER_OK) return ESPALIER_ERR_CANCELLED;
        for (int k = 1; k < 4; k++) esi_union_join(shell_of, q->quads[i][0], q->quads[i][k]);
    }
    /* Parents are lower than their children: they have their number, not a parent any more, when a child asks. */
    for (int64_t v = 0; v < q->n_vertices; v++) shell_of[v] = shell_of[v] == v ? n++ : shell_of[shell_of[v]];
    *n_shells = n;
    return ESPALIER_OK;
}

static double quad_volume(const remesh_quads *q, int64_t i)
{
    double p[4][3], n[3], volume;

    for (int k = 0; k < 12; k++) p[k / 3][k % 3] = (double)q->vertices[3 * (int64_t)q->quads[i][k / 3] + k % 3];
    esi_vec_cross(n, p[0], p[1]);
    volume = esi_vec_dot(n, p[2]);
    esi_vec_cross(n, p[0], p[2]);
    volume += esi_vec_dot(n, p[3]);
    return q->flags[i] & QUAD_REVERSED ? -volume / 6.0 : volume / 6.0;
}

static void keep_quads(remesh_quads *q, const shell *shells, const int32_t *shell_of, int32_t *number)
{
    int64_t n = 0;

    for (int64_t v = 0; v < q->n_vertices; v++) {
        number[v] = -1;
        if (shells[shell_of[v]].drop) continue;
        memmove(q->vertices + 3 * n, q->vertices + 3 * v, 3 * sizeof *q->vertices);
        if (q->cell) memmove(q->cell[n], q->cell[v], sizeof *q->cell);
        if (q->outside) q->outside[n] = q->outside[v];
        number[v] = (int32_t)n++;
    }
    q->n_vertices = n;
    n = 0;
    for (int64_t i = 0; i < q->n_quads; i++) {
        if (number[q->quads[i][0]] < 0) continue;
        for (int k = 0; k < 4; k++) q->quads[n][k] = number[q->quads[i][k]];
        q->flags[n++] = q->flags[i];
    }
    q->n_quads = n;
}

/* Marks what goes; false: everything would, so nothing does. */
static bool choose_shells(shell *shells, int32_t n, const bool *inner, bool outer_only, esi_remesh_stats *stats)
{
    bool any_left = false;

    for (int32_t i = 0; i < n; i++) {
        const bool cavity = shells[i].volume < 0.0;

        shells[i].drop = inner ? inner[i] : outer_only && cavity;
        any_left |= !shells[i].drop;
        stats->cavity_components += cavity;
        stats->cavity_faces += cavity ? 2 * shells[i].quads : 0;
    }
    for (int32_t i = 0; i < n && any_left; i++) {
        stats->dropped_components += shells[i].drop;
        stats->dropped_faces += shells[i].drop ? 2 * shells[i].quads : 0;
    }
    return any_left && stats->dropped_components > 0;
}

/* inner[i]: the first vertex of shell i looks at a space that is closed in. */
static espalier_status find_inner(espalier_context *ctx, const remesh_quads *q, const remesh_band *band, const int32_t *shell_of,
                                  bool *inner)
{
    flood fl;
    espalier_status st = flood_make(ctx, &fl, band);
    int32_t next = 0;

    for (int64_t v = 0; v < q->n_vertices && st == ESPALIER_OK; v++) {
        if (shell_of[v] != next) continue;
        inner[next++] = !looks_outside(&fl, q, v);
    }
    flood_free(ctx, &fl);
    return st;
}

espalier_status remesh_drop_shells(espalier_context *ctx, remesh_quads *q, const remesh_band *band, bool outer_only, bool solid,
                                   esi_remesh_stats *stats)
{
    int32_t *shell_of = esi_alloc(ctx, (size_t)q->n_vertices, sizeof *shell_of, "remesh shells"), *number = NULL, n = 0;
    shell *shells = NULL;
    bool *inner = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (!shell_of) goto done;
    st = number_shells(ctx, q, shell_of, &n);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    stats->shells = n;
    shells = esi_calloc(ctx, (size_t)n, sizeof *shells, "remesh shells");
    if (solid) inner = esi_calloc(ctx, (size_t)n, sizeof *inner, "remesh shells");
    if (!shells || (solid && !inner)) goto done;
    for (int64_t i = 0; i < q->n_quads; i++) {
        shells[shell_of[q->quads[i][0]]].volume += quad_volume(q, i);
        shells[shell_of[q->quads[i][0]]].quads++;
    }
    if (solid) {
        st = find_inner(ctx, q, band, shell_of, inner);
        if (st != ESPALIER_OK) goto done;
    }
    st = ESPALIER_OK;
    if (!choose_shells(shells, n, inner, outer_only, stats)) goto done;
    number = esi_alloc(ctx, (size_t)q->n_vertices, sizeof *number, "remesh shells");
    if (!number) st = ESPALIER_ERR_RESOURCE;
    else keep_quads(q, shells, shell_of, number);

done:
    esi_free(ctx, shell_of);
    esi_free(ctx, shells);
    esi_free(ctx, inner);
    esi_free(ctx, number);
    return st;
}
