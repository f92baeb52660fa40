/* SPDX-License-Identifier: MIT
 *
 * remesh_dual.c: dual contouring of the band: a vertex in every cell with corners on both sides, at the mean of the crossings of its edges;
 * a quad around every crossed edge, through the four cells that share it.
 *
 * Manifold form: the crossed edges of a cell are linked over its six faces into loops, and each loop has a vertex of its own (Nielson, Dual
 * Marching Cubes, 2004). On a face with four crossings the outside corners are parted. Where that makes one loop of each cell go twice
 * through the face between them, four quads would share a mesh edge: on that face the inside corners are parted instead, which splits
 * both loops (Wenger, Isosurfaces, 2013, 5.4). Splitting never joins, so one pass over the faces in order mends all of them.
 */
#include "mesh/remesh_internal.h"

#include <math.h>

const uint8_t remesh_edge_corners[12][2] = {{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}};

/* Faces 0..5: x = 0, x = 1, y = 0, ...: corners in a circle, and the edges between one and the next. */
static const uint8_t face_corners[6][4] = {{0, 1, 3, 2}, {4, 5, 7, 6}, {0, 1, 5, 4}, {2, 3, 7, 6}, {0, 2, 6, 4}, {1, 3, 7, 5}};
static const uint8_t face_edges[6][4] = {{8, 5, 9, 4}, {10, 7, 11, 6}, {8, 1, 10, 0}, {9, 3, 11, 2}, {4, 2, 6, 0}, {5, 3, 7, 1}};

/* The cells around an owned edge: offsets, and which of their edges it is. */
static const uint8_t quad_offsets[3][4][3] = {{{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0}},
                                              {{0, 0, 0}, {1, 0, 0}, {1, 0, 1}, {0, 0, 1}},
                                              {{0, 0, 0}, {0, 1, 0}, {1, 1, 0}, {1, 0, 0}}};
static const uint8_t quad_edges[3][4] = {{3, 2, 0, 1}, {7, 5, 4, 6}, {11, 10, 8, 9}};

/* Which vertex of the cell an edge's crossing belongs to; NO_LOOP where there is none. */
#define NO_LOOP 255
typedef struct loops { uint8_t n, loop[12]; } loops;

typedef struct dual_job {
    espalier_context *ctx;
    const remesh_band *band;
    bool manifold;
    loops table[256];              /* by the signs of a cell's corners */
    uint8_t *signs;                /* per cell: bit per corner, 1 = inside */
    uint8_t *parted_inside;        /* per cell: bit per face; NULL = nowhere */
    int64_t *vertex_start, *quad_start;          /* per column of cells, like cells.start */
    int64_t *missing;              /* per row */
    remesh_quads *out;
} dual_job;

/* ---------------------------------------------------------------------- loops */

static inline bool is_ambiguous(uint8_t signs, int face)
{
    const uint8_t *c = face_corners[face];
    const unsigned a = signs >> c[0] & 1u, b = signs >> c[1] & 1u;

    return a != b && (signs >> c[2] & 1u) == a && (signs >> c[3] & 1u) == b;
}

static loops find_loops(uint8_t signs, uint8_t parted_inside)
{
    uint8_t root[12];
    loops l = {.n = 0};

    for (int e = 0; e < 12; e++) {
        const bool crossed = ((signs >> remesh_edge_corners[e][0] ^ signs >> remesh_edge_corners[e][1]) & 1) != 0;
        root[e] = crossed ? (uint8_t)e : NO_LOOP;
    }
    for (int f = 0; f < 6; f++) {
        const bool ambiguous = is_ambiguous(signs, f);
        int last = -1;

        for (int k = 0; k < 4; k++) {
            const uint8_t edge = face_edges[f][k], before = face_edges[f][(k + 3) % 4];
            uint8_t join[2] = {edge, NO_LOOP};

            if (root[edge] == NO_LOOP) continue;
            if (ambiguous) {                           /* around the parted corners only */
                const bool inside = (signs >> face_corners[f][k] & 1) != 0;
                if (inside == ((parted_inside >> f & 1) != 0)) join[1] = before;
            } else if (last >= 0) {
                join[1] = (uint8_t)last;
            }
            last = edge;
            if (join[1] == NO_LOOP || root[join[0]] == root[join[1]]) continue;
            const uint8_t low = ESI_MIN(root[join[0]], root[join[1]]), high = ESI_MAX(root[join[0]], root[join[1]]);
            for (int e = 0; e < 12; e++) root[e] = root[e] == high ? low : root[e];
        }
    }
    for (int e = 0; e < 12; e++) {
        l.loop[e] = NO_LOOP;
        if (root[e] == NO_LOOP) continue;
        l.loop[e] = root[e] == e ? l.n++ : l.loop[root[e]];
    }
    return l;
}

static void fill_table(dual_job *job)
{
    for (int s = 0; s < 256; s++) {
        job->table[s] = find_loops((uint8_t)s, 0);
        if (job->manifold) continue;
        job->table[s].n = ESI_MIN(job->table[s].n, 1);
        for (int e = 0; e < 12; e++) job->table[s].loop[e] = job->table[s].loop[e] == NO_LOOP ? NO_LOOP : 0;
    }
}

static inline loops loops_of(const dual_job *job, int64_t cell)
{
    if (job->parted_inside && job->parted_inside[cell]) return find_loops(job->signs[cell], job->parted_inside[cell]);
    return job->table[job->signs[cell]];
}

static inline int loop_count(const dual_job *job, int64_t cell)
{
    if (job->parted_inside && job->parted_inside[cell]) return find_loops(job->signs[cell], job->parted_inside[cell]).n;
    return job->table[job->signs[cell]].n;
}

/* --------------------------------------------------------------------- corners */

typedef struct corner_cursor { const uint16_t *z; const float *f; int64_t at; } corner_cursor;

static void corners_start(const remesh_band *band, int32_t x, int32_t y, corner_cursor c[4])
{
    const remesh_columns *corners = &band->corners;

    for (int i = 0; i < 4; i++)
        c[i] = (corner_cursor){corners->z, band->f, corners->start[(int64_t)(x + (i >> 1)) * corners->side + y + (i & 1)]};
}

/* Cells come in ascending z, and all their corners are there. */
static inline void corners_at(corner_cursor c[4], uint16_t z, float f[8])
{
    for (int i = 0; i < 4; i++) {
        while (c[i].z[c[i].at] < z) c[i].at++;
        f[2 * i] = c[i].f[c[i].at];
        f[2 * i + 1] = c[i].f[c[i].at + 1];
    }
}

static void sign_row(void *arg, size_t x, int slot)
{
    const dual_job *job = arg;
    const remesh_columns *cells = &job->band->cells;

    (void)slot;
    for (int32_t y = 0; y < cells->side; y++) {
        const int64_t *start = cells->start + (int64_t)x * cells->side + y;
        corner_cursor c[4];

        if (start[0] == start[1]) continue;
        corners_start(job->band, (int32_t)x, y, c);
        for (int64_t i = start[0]; i < start[1]; i++) {
            float f[8];
            unsigned signs = 0;

            corners_at(c, cells->z[i], f);
            for (int k = 0; k < 8; k++) signs |= (unsigned)(f[k] < 0.0f) << k;
            job->signs[i] = (uint8_t)signs;
        }
    }
}

/* --------------------------------------------------------------- twice through a face */

static int64_t find_cell(const remesh_columns *cells, int32_t x, int32_t y, int32_t z)
{
    int64_t low, high;

    if (x >= cells->side || y >= cells->side) return -1;
    low = cells->start[(int64_t)x * cells->side + y];
    high = cells->start[(int64_t)x * cells->side + y + 1];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;

        if (cells->z[middle] < z) low = middle + 1;
        else high = middle;
    }
    return low < cells->start[(int64_t)x * cells->side + y + 1] && cells->z[low] == z ? low : -1;
}

static bool goes_twice(const dual_job *job, int64_t cell, int face)
{
    const loops l = loops_of(job, cell);
    const uint8_t *e = face_edges[face];

    return l.loop[e[0]] == l.loop[e[1]] && l.loop[e[1]] == l.loop[e[2]] && l.loop[e[2]] == l.loop[e[3]];
}

static espalier_status part_face(dual_job *job, int64_t cell, int32_t x, int32_t y, int32_t z, int axis)
{
    const int64_t next = find_cell(&job->band->cells, x + (axis == 0), y + (axis == 1), z + (axis == 2));

    if (next < 0 || !goes_twice(job, cell, 2 * axis + 1) || !goes_twice(job, next, 2 * axis)) return ESPALIER_OK;
    if (!job->parted_inside) {
        job->parted_inside = esi_calloc(job->ctx, (size_t)job->band->cells.count, 1, "remesh cells");
        if (!job->parted_inside) return ESPALIER_ERR_RESOURCE;
    }
    job->parted_inside[cell] |= (uint8_t)(1u << (2 * axis + 1));
    job->parted_inside[next] |= (uint8_t)(1u << (2 * axis));
    return ESPALIER_OK;
}

static espalier_status part_faces(dual_job *job)
{
    const remesh_columns *cells = &job->band->cells;
    espalier_status st = ESPALIER_OK;

    for (int32_t x = 0; x < cells->side && st == ESPALIER_OK; x++) {
        st = esi_check_cancel(job->ctx);
        for (int32_t y = 0; y < cells->side && st == ESPALIER_OK; y++) {
            const int64_t *start = cells->start + (int64_t)x * cells->side + y;

            for (int64_t i = start[0]; i < start[1] && st == ESPALIER_OK; i++) {
                for (int axis = 0; axis < 3 && st == ESPALIER_OK; axis++) {
                    if (is_ambiguous(job->signs[i], 2 * axis + 1)) st = part_face(job, i, x, y, cells->z[i], axis);
                }
            }
        }
    }
    return st;
}

/* -------------------------------------------------------------------- vertices */

static inline bool is_crossed(uint8_t signs, int edge)
{
    return ((signs >> remesh_edge_corners[edge][0] ^ signs >> remesh_edge_corners[edge][1]) & 1) != 0;
}

static void count_row(void *arg, size_t x, int slot)
{
    const dual_job *job = arg;
    const remesh_columns *cells = &job->band->cells;

    (void)slot;
    for (int32_t y = 0; y < cells->side; y++) {
        const int64_t column = (int64_t)x * cells->side + y;
        int64_t vertices = 0, quads = 0;

        for (int64_t i = cells->start[column]; i < cells->start[column + 1]; i++) {
            const uint8_t s = job->signs[i];

            vertices += loop_count(job, i);
            quads += is_crossed(s, 3) + is_crossed(s, 7) + is_crossed(s, 11);
        }
        job->vertex_start[column + 1] = vertices;
        job->quad_start[column + 1] = quads;
    }
}

static void place_vertices(const dual_job *job, int64_t cell, const int32_t at[3], const float f[8], int64_t first)
{
    const remesh_grid *g = &job->band->grid;
    const loops l = loops_of(job, cell);
    double sum[4][3] = {{0}};      /* a loop has three edges or more */
    int number[4] = {0};
    uint8_t outside[4] = {0};

    for (int e = 0; e < 12; e++) {
        const int a = remesh_edge_corners[e][0], b = remesh_edge_corners[e][1], axis = e / 4;
        double p[3] = {(double)(a >> 2), (double)(a >> 1 & 1), (double)(a & 1)};

        if (l.loop[e] == NO_LOOP) continue;
        p[axis] = -(double)f[a] / ((double)f[b] - (double)f[a]);
        if (!number[l.loop[e]]++) outside[l.loop[e]] = (uint8_t)(f[a] < 0.0f ? b : a);
        for (int k = 0; k < 3; k++) sum[l.loop[e]][k] += p[k];
    }
    for (int i = 0; i < l.n; i++) {
        for (int k = 0; k < 3; k++) {
            const double lattice = ((double)at[k] + sum[i][k] / (double)number[i]) / (double)g->resolution;
            job->out->vertices[3 * (first + i) + k] = (float)((lattice - 0.5) * (double)g->scale + (double)g->center[k]);
            if (job->out->cell) job->out->cell[first + i][k] = (uint16_t)at[k];
        }
        if (job->out->outside) job->out->outside[first + i] = outside[i];
    }
}

static void vertex_row(void *arg, size_t x, int slot)
{
    const dual_job *job = arg;
    const remesh_columns *cells = &job->band->cells;

    (void)slot;
    for (int32_t y = 0; y < cells->side; y++) {
        const int64_t column = (int64_t)x * cells->side + y;
        int64_t vertex = job->vertex_start[column];
        corner_cursor c[4];

        if (vertex == job->vertex_start[column + 1]) continue;
        corners_start(job->band, (int32_t)x, y, c);
        for (int64_t i = cells->start[column]; i < cells->start[column + 1]; i++) {
            const int n = loop_count(job, i);
            float f[8];

            if (!n) continue;
            corners_at(c, cells->z[i], f);
            place_vertices(job, i, (const int32_t[3]){(int32_t)x, y, cells->z[i]}, f, vertex);
            vertex += n;
        }
    }
}

/* ----------------------------------------------------------------------- quads */

/* A column of cells walked upwards, with the number of the first vertex of the cell it stands at. */
typedef struct cell_cursor { int64_t at, end, vertex; } cell_cursor;

/* Vertex of the loop of `edge` in the cell at z, or -1. Calls for one cursor must not go down. */
static inline int32_t vertex_at(const dual_job *job, cell_cursor *c, int32_t z, int edge)
{
    const uint16_t *at_z = job->band->cells.z;

    while (c->at < c->end && at_z[c->at] < z) c->vertex += loop_count(job, c->at++);
    if (c->at >= c->end || at_z[c->at] != z) return -1;
    return (int32_t)(c->vertex + loops_of(job, c->at).loop[edge]);
}

static cell_cursor cursor_start(const dual_job *job, int64_t x, int64_t y)
{
    const remesh_columns *cells = &job->band->cells;
    const int64_t column = x * cells->side + y;

    if (x >= cells->side || y >= cells->side) return (cell_cursor){0};
    return (cell_cursor){cells->start[column], cells->start[column + 1], job->vertex_start[column]};
}

static int64_t quad_column(const dual_job *job, int64_t x, int64_t y)
{
    const remesh_columns *cells = &job->band->cells;
    const int64_t column = x * cells->side + y;
    cell_cursor cursor[2][2][2];   /* x, y and z offsets: the same column at z and at z + 1 */
    int64_t at = job->quad_start[column], missing = 0;

    if (at == job->quad_start[column + 1]) return 0;
    for (int i = 0; i < 8; i++) cursor[i >> 2][i >> 1 & 1][i & 1] = cursor_start(job, x + (i >> 2), y + (i >> 1 & 1));
    for (int64_t i = cells->start[column]; i < cells->start[column + 1]; i++) {
        for (int axis = 0; axis < 3; axis++) {
            const uint8_t s = job->signs[i];
            int32_t *quad = job->out->quads[at];
            bool whole = true;

            if (!is_crossed(s, quad_edges[axis][0])) continue;
            for (int k = 0; k < 4; k++) {
                const uint8_t *o = quad_offsets[axis][k];
                quad[k] = vertex_at(job, &cursor[o[0]][o[1]][o[2]], cells->z[i] + o[2], quad_edges[axis][k]);
                whole = whole && quad[k] >= 0;
            }
            /* corner 7 ends the three edges: inside there means f falls along them */
            job->out->flags[at] = s >> 7 & 1 ? 0u : QUAD_REVERSED;
            if (!whole) {
                quad[0] = -1;
                missing++;
            }
            at++;
        }
    }
    return missing;
}

static void quad_row(void *arg, size_t x, int slot)
{
    const dual_job *job = arg;
    int64_t missing = 0;

    (void)slot;
    for (int32_t y = 0; y < job->band->cells.side; y++) missing += quad_column(job, (int64_t)x, y);
    job->missing[x] = missing;
}

/* Only a grid that the surface leaves has quads without all cells; their vertices may be in no other. */
static espalier_status drop_missing(espalier_context *ctx, remesh_quads *q)
{
    int32_t *number = esi_alloc(ctx, (size_t)q->n_vertices, sizeof *number, "remesh vertices");
    int64_t n = 0;

    if (!number) return ESPALIER_ERR_RESOURCE;
    for (int64_t v = 0; v < q->n_vertices; v++) number[v] = -1;
    for (int64_t i = 0; i < q->n_quads; i++) {
        if (q->quads[i][0] < 0) continue;
        memmove(q->quads[n], q->quads[i], sizeof *q->quads);
        q->flags[n] = q->flags[i];
        for (int k = 0; k < 4; k++) number[q->quads[n][k]] = 0;
        n++;
    }
    q->n_quads = n;
    n = 0;
    for (int64_t v = 0; v < q->n_vertices; v++) {
        if (number[v] < 0) continue;
        memmove(q->vertices + 3 * n, q->vertices + 3 * v, 3 * sizeof *q->vertices);
        if (q->cell) memmove(q->cell[n], q->cell[v], sizeof *q->cell);
        if (q->outside) q->outside[n] = q->outside[v];
        number[v] = (int32_t)n++;
    }
    q->n_vertices = n;
    for (int64_t i = 0; i < q->n_quads; i++) {
        for (int k = 0; k < 4; k++) q->quads[i][k] = number[q->quads[i][k]];
    }
    esi_free(ctx, number);
    return ESPALIER_OK;
}

/* ------------------------------------------------------------------------- all */

static espalier_status count_all(dual_job *job)
{
    const int64_t columns = (int64_t)job->band->cells.side * job->band->cells.side;
    espalier_status st;

    job->vertex_start = esi_calloc(job->ctx, (size_t)columns + 1, sizeof *job->vertex_start, "remesh grid");
    job->quad_start = esi_calloc(job->ctx, (size_t)columns + 1, sizeof *job->quad_start, "remesh grid");
    if (!job->vertex_start || !job->quad_start) return ESPALIER_ERR_RESOURCE;
    st = esi_parallel(job->ctx, (size_t)job->band->cells.side, count_row, job);
    if (st != ESPALIER_OK) return st;
    for (int64_t i = 0; i < columns; i++) {
        job->vertex_start[i + 1] += job->vertex_start[i];
        job->quad_start[i + 1] += job->quad_start[i];
    }
    job->out->n_vertices = job->vertex_start[columns];
    job->out->n_quads = job->quad_start[columns];
    if (2 * job->out->n_quads > ESI_MESH_MAX_FACES)
        return esi_fail(job->ctx, ESPALIER_ERR_RESOURCE, "remesh: %lld faces are more than can be numbered; use a lower resolution",
                        2 * (long long)job->out->n_quads);
    return ESPALIER_OK;
}

static espalier_status allocate_output(dual_job *job)
{
    remesh_quads *q = job->out;

    q->vertices = esi_alloc(job->ctx, (size_t)q->n_vertices, 3 * sizeof *q->vertices, "remesh vertices");
    q->quads = esi_alloc(job->ctx, (size_t)q->n_quads, sizeof *q->quads, "remesh quads");
    q->flags = esi_alloc(job->ctx, (size_t)q->n_quads, sizeof *q->flags, "remesh quads");
    if (!q->vertices || !q->quads || !q->flags) return ESPALIER_ERR_RESOURCE;
    if (!job->manifold) return ESPALIER_OK;
    q->cell = esi_alloc(job->ctx, (size_t)q->n_vertices, sizeof *q->cell, "remesh vertices");
    q->outside = esi_alloc(job->ctx, (size_t)q->n_vertices, sizeof *q->outside, "remesh vertices");
    return q->cell && q->outside ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

espalier_status remesh_dual(espalier_context *ctx, remesh_quads *out, const remesh_band *band, bool manifold)
{
    const size_t side = (size_t)band->cells.side;
    dual_job job = {.ctx = ctx, .band = band, .manifold = manifold, .out = out};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    memset(out, 0, sizeof *out);
    fill_table(&job);
    job.signs = esi_alloc(ctx, (size_t)band->cells.count, 1, "remesh cells");
    job.missing = esi_calloc(ctx, side, sizeof *job.missing, "remesh cells");
    if (!job.signs || !job.missing) goto done;
    st = esi_parallel(ctx, side, sign_row, &job);
    if (st == ESPALIER_OK && manifold) st = part_faces(&job);
    if (st == ESPALIER_OK) st = count_all(&job);
    if (st == ESPALIER_OK) st = allocate_output(&job);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, side, vertex_row, &job);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, side, quad_row, &job);
    if (st != ESPALIER_OK) goto done;
    for (size_t x = 0; x < side; x++) out->missing += job.missing[x];
    if (out->missing) st = drop_missing(ctx, out);

done:
    esi_free(ctx, job.signs);
    esi_free(ctx, job.parted_inside);
    esi_free(ctx, job.vertex_start);
    esi_free(ctx, job.quad_start);
    esi_free(ctx, job.missing);
    return st;
}

void remesh_quads_free(espalier_context *ctx, remesh_quads *q)
{
    esi_free(ctx, q->vertices);
    esi_free(ctx, q->quads);
    esi_free(ctx, q->flags);
    esi_free(ctx, q->cell);
    esi_free(ctx, q->outside);
    memset(q, 0, sizeof *q);
}
