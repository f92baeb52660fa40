/* SPDX-License-Identifier: MIT
 *
 * voxelize.c: triangle mesh -> flexible dual grid (o-voxel/src/convert/flexible_dual_grid.cpp).
 *
 * The grid is cut into slabs of x layers, one task each, of a thickness that depends on the resolution alone. A slab finds the crossings
 * of its faces, keeps the edges that are crossed an odd number of times, makes a row of every cell at such an edge, sums quadrics in the
 * order of the faces, and places the vertices. Rows come out ascending, for any number of threads; memory grows with the surface.
 *
 * The reference mode is one pass over the whole grid with the crossings and the row order of the original.
 */
#include "voxel/dual_build.h"
#include "voxel/keys.h"

#include <math.h>

#define MAX_RESOLUTION 2048
#define SHORTEST_EDGE 1e-6                       /* open edges below this length (world units) have no direction */

esi_voxelize_options esi_voxelize_options_default(int32_t resolution)
{
    return (esi_voxelize_options){.resolution = {resolution, resolution, resolution}, .aabb_min = {-0.5f, -0.5f, -0.5f},
                                  .aabb_max = {0.5f, 0.5f, 0.5f}, .face_weight = 1.0, .boundary_weight = 0.2, .regularization = 1e-2};
}

static espalier_status check_options(espalier_context *ctx, const esi_voxelize_options *o)
{
    for (int a = 0; a < 3; a++) {
        if (o->resolution[a] < 1 || o->resolution[a] > MAX_RESOLUTION) {
            return esi_fail(ctx, ESPALIER_ERR_INPUT, "voxelize: resolution %d; choose 1 to %d", (int)o->resolution[a], MAX_RESOLUTION);
        }
        if (!isfinite(o->aabb_min[a]) || !isfinite(o->aabb_max[a]) || !(o->aabb_min[a] < o->aabb_max[a])) {
            return esi_fail(ctx, ESPALIER_ERR_INPUT, "voxelize: the box is empty on axis %d", a);
        }
    }
    if (!(o->face_weight >= 0.0 && o->boundary_weight >= 0.0 && o->regularization >= 0.0)) {
        return esi_fail(ctx, ESPALIER_ERR_INPUT, "voxelize: negative weights");
    }
    return ESPALIER_OK;
}

static espalier_status nothing_inside(espalier_context *ctx)
{
    return esi_fail(ctx, ESPALIER_ERR_INPUT, "voxelize: no part of the mesh crosses the grid; scale it to the box or take more cells");
}

/* Vertex of a row from its quadric. */
static void place_vertex(const esi_voxelize_options *o, const double scale[3], const float cell_size[3], const esi_quadric *q,
                         const int32_t *cell, float *vertex, float *local, int64_t *clamped)
{
    double x[3];

    *clamped += esi_quadric_solve(x, q, o->regularization, scale);
    for (int a = 0; a < 3; a++) {
        const double place = x[a] / scale[a];

        local[a] = (float)place;
        vertex[a] = (float)(((double)cell[a] + place) * (double)cell_size[a]);
    }
}

static void cell_sizes(const esi_voxelize_options *o, float out[3])
{
    for (int a = 0; a < 3; a++) out[a] = (o->aabb_max[a] - o->aabb_min[a]) / (float)o->resolution[a];
}

static espalier_status rows_new(espalier_context *ctx, esi_voxelized *v, int64_t count)
{
    espalier_status st = esi_row_count_check(ctx, count);

    if (st != ESPALIER_OK) return st;
    v->coords = esi_alloc(ctx, (size_t)count, 4 * sizeof *v->coords, "dual grid");
    v->vertices = esi_alloc(ctx, (size_t)count, 3 * sizeof *v->vertices, "dual grid");
    v->local = esi_alloc(ctx, (size_t)count, 3 * sizeof *v->local, "dual grid");
    v->intersected = esi_alloc(ctx, (size_t)count, 3, "dual grid");
    if (!v->coords || !v->vertices || !v->local || !v->intersected) return ESPALIER_ERR_RESOURCE;
    v->count = count;
    return ESPALIER_OK;
}

void esi_voxelized_free(espalier_context *ctx, esi_voxelized *voxels)
{
    if (!voxels) return;
    esi_free(ctx, voxels->coords);
    esi_free(ctx, voxels->vertices);
    esi_free(ctx, voxels->local);
    esi_free(ctx, voxels->intersected);
    memset(voxels, 0, sizeof *voxels);
}

/* ------------------------------------------------------------------- slabs */

/* Bitmaps of one thread, all zero between slabs. Edge bitmaps have the layer before the slab in front. */
typedef struct slab_scratch {
    uint64_t *parity[3], *crossed[3];
    uint64_t *cells;
    int32_t *before;
} slab_scratch;

typedef struct slab_result {
    int32_t *coords;
    float *vertices, *local;
    uint8_t *intersected;
    int64_t count;
    esi_voxelize_stats stats;
} slab_result;

typedef struct slab_job {
    espalier_context *ctx;
    const esi_voxelize_options *o;
    const esi_cell_mesh *mesh;
    const int32_t *open_edges;
    int64_t n_open_edges;
    esi_slab_faces slabs;
    float cell_size[3];
    slab_scratch *scratch;         /* by slot */
    slab_result *results;          /* by slab */
} slab_job;

static size_t bitmap_words(const slab_job *job, int32_t layers)
{
    return (size_t)(((int64_t)layers * job->o->resolution[1] * job->o->resolution[2] + 63) / 64);
}

static void scratch_free(espalier_context *ctx, slab_scratch *s)
{
    for (int a = 0; a < 3; a++) {
        esi_free(ctx, s->parity[a]);
        esi_free(ctx, s->crossed[a]);
    }
    esi_free(ctx, s->cells);
    esi_free(ctx, s->before);
    memset(s, 0, sizeof *s);
}

static bool scratch_ready(const slab_job *job, slab_scratch *s)
{
    const size_t words = bitmap_words(job, job->slabs.thickness), edge_words = bitmap_words(job, job->slabs.thickness + 1);
    bool ok = true;

    if (s->before) return true;
    for (int a = 0; a < 3 && ok; a++) {
        s->parity[a] = esi_calloc(job->ctx, edge_words, sizeof(uint64_t), "slab of cells");
        s->crossed[a] = esi_calloc(job->ctx, edge_words, sizeof(uint64_t), "slab of cells");
        ok = s->parity[a] && s->crossed[a];
    }
    if (ok) s->cells = esi_calloc(job->ctx, words, sizeof(uint64_t), "slab of cells");
    if (ok && s->cells) s->before = esi_alloc(job->ctx, words, sizeof(int32_t), "slab of cells");
    return s->before != NULL;
}

typedef struct slab {
    const slab_job *job;
    slab_scratch *scratch;
    slab_result *result;
    int32_t x0, x1;
    esi_dual_hits hits;
    esi_cell_rows rows;
    esi_quadric *quadrics;
} slab;

/* Bit of an edge in the edge bitmaps. */
static int64_t edge_bit(const slab *s, const int16_t cell[3])
{
    const int32_t *n = s->job->o->resolution;

    return ((int64_t)(cell[0] - (s->x0 - 1)) * n[1] + cell[1]) * n[2] + cell[2];
}

static bool edge_is_odd(const slab *s, const esi_dual_hit *hit)
{
    const int64_t bit = edge_bit(s, hit->cell);

    return s->scratch->parity[hit->axis][bit >> 6] >> (bit & 63) & 1;
}

static espalier_status find_crossings(slab *s)
{
    const slab_job *job = s->job;
    const int64_t number = s->x0 / job->slabs.thickness;
    espalier_status st = ESPALIER_OK;
    int64_t crossed = 0, odd = 0;

    for (int64_t i = job->slabs.first[number]; st == ESPALIER_OK && i < job->slabs.first[number + 1]; i++) {
        st = esi_cross_face(job->ctx, &s->hits, job->mesh, job->slabs.faces[i], job->o->resolution, s->x0, s->x1);
        if (st == ESPALIER_OK && (i & 0x3fff) == 0) st = esi_check_cancel(job->ctx);
    }
    for (int64_t i = 0; st == ESPALIER_OK && i < s->hits.count; i++) {
        const esi_dual_hit *hit = &s->hits.items[i];
        const int64_t bit = edge_bit(s, hit->cell), word = bit >> 6;
        const uint64_t mask = UINT64_C(1) << (bit & 63);
        uint64_t *parity = &s->scratch->parity[hit->axis][word], *seen = &s->scratch->crossed[hit->axis][word];

        if (hit->cell[0] >= s->x0) {               /* the layer before is the other slab's to count */
            crossed += !(*seen & mask);
            odd += *parity & mask ? -1 : 1;
        }
        *seen |= mask;
        *parity ^= mask;
    }
    s->result->stats.crossings = crossed;
    s->result->stats.double_crossings = crossed - odd;
    return st;
}

/* A cell has a row when an edge around it is odd. Counts them. */
static void mark_cells(slab *s)
{
    const size_t words = bitmap_words(s->job, s->x1 - s->x0);
    int64_t rows = 0;

    for (int64_t i = 0; i < s->hits.count; i++) {
        const esi_dual_hit *hit = &s->hits.items[i];
        const int b = (hit->axis + 1) % 3, c = (hit->axis + 2) % 3;

        if (!edge_is_odd(s, hit)) continue;
        for (int k = 0; k < 4; k++) {
            int32_t cell[3] = {hit->cell[0], hit->cell[1], hit->cell[2]};
            int64_t bit;

            cell[b] += k & 1;
            cell[c] += k >> 1;
            if (cell[0] < s->x0 || cell[0] >= s->x1) continue;
            bit = esi_cell_bit(&s->rows, cell[0], cell[1], cell[2]);
            s->scratch->cells[bit >> 6] |= UINT64_C(1) << (bit & 63);
        }
    }
    for (size_t w = 0; w < words; w++) {
        s->scratch->before[w] = (int32_t)rows;
        for (uint64_t v = s->scratch->cells[w]; v != 0; v &= v - 1) rows++;
    }
    s->result->count = rows;
}

static void sum_quadrics(slab *s)
{
    const slab_job *job = s->job;
    const int64_t number = s->x0 / job->slabs.thickness;

    for (int64_t i = 0; i < s->hits.count; i++) {
        if (edge_is_odd(s, &s->hits.items[i])) esi_quadrics_add_hit(s->quadrics, &s->rows, job->mesh, &s->hits.items[i]);
    }
    for (int64_t i = job->slabs.first[number]; job->o->face_weight > 0.0 && i < job->slabs.first[number + 1]; i++) {
        if ((i & 0x3fff) == 0 && esi_cancel_requested(job->ctx)) return;
        esi_quadrics_add_face(s->quadrics, &s->rows, job->mesh, job->slabs.faces[i]);
    }
    for (int64_t i = 0; i < job->n_open_edges; i++) {
        const int32_t *edge = job->open_edges + 2 * i;
        const double p = (double)job->mesh->fixed[3 * (int64_t)edge[0]] * job->mesh->unit - ESI_FIXED_BORDER;
        const double q = (double)job->mesh->fixed[3 * (int64_t)edge[1]] * job->mesh->unit - ESI_FIXED_BORDER;
        const double largest = (double)ESI_MAX(job->cell_size[0], ESI_MAX(job->cell_size[1], job->cell_size[2]));

        if (ESI_MAX(p, q) < (double)s->x0 || ESI_MIN(p, q) > (double)s->x1) continue;
        esi_quadrics_add_line(s->quadrics, &s->rows, job->mesh, edge, job->o->boundary_weight, SHORTEST_EDGE / largest);
    }
}

static espalier_status write_rows(slab *s)
{
    const slab_job *job = s->job;
    const int32_t *n = job->o->resolution;
    const size_t words = bitmap_words(job, s->x1 - s->x0), count = (size_t)s->result->count;
    slab_result *r = s->result;
    int64_t row = 0;

    r->coords = esi_alloc(job->ctx, count, 4 * sizeof *r->coords, "dual grid");
    r->vertices = esi_alloc(job->ctx, count, 3 * sizeof *r->vertices, "dual grid");
    r->local = esi_alloc(job->ctx, count, 3 * sizeof *r->local, "dual grid");
    r->intersected = esi_alloc(job->ctx, count, 3, "dual grid");
    if (!r->coords || !r->vertices || !r->local || !r->intersected) return ESPALIER_ERR_RESOURCE;
    for (size_t w = 0; w < words; w++) {
        int bit = 0;

        for (uint64_t v = s->scratch->cells[w]; v != 0; v &= v - 1, row++) {
            int64_t at;
            int16_t cell[3];

            while (!(v >> bit & 1)) bit++;
            at = (int64_t)w * 64 + bit;
            cell[2] = (int16_t)(at % n[2]);
            cell[1] = (int16_t)(at / n[2] % n[1]);
            cell[0] = (int16_t)(at / n[2] / n[1] + s->x0);
            r->coords[4 * row] = 0;
            for (int a = 0; a < 3; a++) {
                const int64_t edge = edge_bit(s, cell);

                r->coords[4 * row + 1 + a] = cell[a];
                r->intersected[3 * row + a] = s->scratch->parity[a][edge >> 6] >> (edge & 63) & 1;
            }
            place_vertex(job->o, job->mesh->scale, job->cell_size, &s->quadrics[row], r->coords + 4 * row + 1, r->vertices + 3 * row,
                         r->local + 3 * row, &r->stats.clamped);
        }
    }
    return ESPALIER_OK;
}

static void wipe_scratch(slab *s)
{
    for (int64_t i = 0; i < s->hits.count; i++) {
        const esi_dual_hit *hit = &s->hits.items[i];
        const int64_t word = edge_bit(s, hit->cell) >> 6;

        s->scratch->parity[hit->axis][word] = 0;
        s->scratch->crossed[hit->axis][word] = 0;
    }
    memset(s->scratch->cells, 0, bitmap_words(s->job, s->x1 - s->x0) * sizeof(uint64_t));
}

static void run_slab(void *arg, size_t task, int slot)
{
    slab_job *job = arg;
    slab s = {.job = job, .scratch = &job->scratch[slot], .result = &job->results[task]};

    if (job->slabs.first[task] == job->slabs.first[task + 1]) return;
    if (!scratch_ready(job, s.scratch)) return;
    s.x0 = (int32_t)task * job->slabs.thickness;
    s.x1 = ESI_MIN(s.x0 + job->slabs.thickness, job->o->resolution[0]);
    s.rows = (esi_cell_rows){.n = {job->o->resolution[0], job->o->resolution[1], job->o->resolution[2]}, .x0 = s.x0, .x1 = s.x1,
                             .bits = s.scratch->cells, .before = s.scratch->before};
    if (find_crossings(&s) == ESPALIER_OK) {
        mark_cells(&s);
        s.quadrics = esi_calloc(job->ctx, (size_t)s.result->count, sizeof *s.quadrics, "quadrics");
        if (s.quadrics) {
            sum_quadrics(&s);
            (void)write_rows(&s);                  /* a failure is recorded in the context */
        }
    }
    wipe_scratch(&s);
    esi_free(job->ctx, s.quadrics);
    esi_free(job->ctx, s.hits.items);
}

static void result_free(espalier_context *ctx, slab_result *r)
{
    esi_free(ctx, r->coords);
    esi_free(ctx, r->vertices);
    esi_free(ctx, r->local);
    esi_free(ctx, r->intersected);
    memset(r, 0, sizeof *r);
}

static espalier_status join_results(espalier_context *ctx, slab_job *job, esi_voxelized *out)
{
    int64_t count = 0, row = 0;
    espalier_status st;

    for (int32_t i = 0; i < job->slabs.n_slabs; i++) count += job->results[i].count;
    if (count == 0) return nothing_inside(ctx);
    st = rows_new(ctx, out, count);
    for (int32_t i = 0; st == ESPALIER_OK && i < job->slabs.n_slabs; i++) {
        slab_result *r = &job->results[i];
        const size_t n = (size_t)r->count;

        out->stats.crossings += r->stats.crossings;
        out->stats.double_crossings += r->stats.double_crossings;
        out->stats.clamped += r->stats.clamped;
        if (n > 0) {
            memcpy(out->coords + 4 * row, r->coords, n * 4 * sizeof *r->coords);
            memcpy(out->vertices + 3 * row, r->vertices, n * 3 * sizeof *r->vertices);
            memcpy(out->local + 3 * row, r->local, n * 3 * sizeof *r->local);
            memcpy(out->intersected + 3 * row, r->intersected, n * 3);
        }
        row += r->count;
        result_free(ctx, r);
    }
    return st;
}

static espalier_status voxelize_exactly(espalier_context *ctx, esi_voxelized *out, const esi_mesh *mesh, const esi_voxelize_options *o)
{
    const int slots = esi_slots(ctx);
    slab_job job = {.ctx = ctx, .o = o};
    esi_fixed_mesh fixed = {0};
    int32_t *open_edges = NULL;
    espalier_status st;

    cell_sizes(o, job.cell_size);
    st = esi_fixed_mesh_make(ctx, &fixed, mesh, o->resolution, o->aabb_min, o->aabb_max);
    if (st != ESPALIER_OK) goto done;
    job.mesh = &fixed.mesh;
    out->stats.clipped_faces = fixed.clipped_faces;
    if (o->boundary_weight > 0.0) st = esi_boundary_edges(ctx, &open_edges, &job.n_open_edges, &fixed.mesh, true);
    job.open_edges = open_edges;
    if (st == ESPALIER_OK) st = esi_slab_faces_make(ctx, &job.slabs, &fixed.mesh, o->resolution);
    if (st != ESPALIER_OK) goto done;
    job.scratch = esi_calloc(ctx, (size_t)slots, sizeof *job.scratch, "slabs");
    job.results = esi_calloc(ctx, (size_t)job.slabs.n_slabs, sizeof *job.results, "slabs");
    st = job.scratch && job.results ? esi_parallel(ctx, (size_t)job.slabs.n_slabs, run_slab, &job) : ESPALIER_ERR_RESOURCE;
    for (int i = 0; job.scratch && i < slots; i++) scratch_free(ctx, &job.scratch[i]);
    if (st == ESPALIER_OK) st = join_results(ctx, &job, out);
done:
    for (int32_t i = 0; job.results && i < job.slabs.n_slabs; i++) result_free(ctx, &job.results[i]);
    esi_free(ctx, job.results);
    esi_free(ctx, job.scratch);
    esi_slab_faces_free(ctx, &job.slabs);
    esi_free(ctx, open_edges);
    esi_fixed_mesh_free(ctx, &fixed);
    return st;
}

/* --------------------------------------------------------------- reference */

typedef struct reference_job {
    const esi_voxelize_options *o;
    float *shifted;                /* vertices minus the lower corner */
    double *points;                /* the same in cells */
    esi_cell_mesh mesh;
    float cell_size[3];
    esi_dual_hits hits;
    esi_cell_rows rows;
    esi_voxel_index index;
    esi_quadric *quadrics;
    int32_t *open_edges;
    int64_t n_open_edges;
} reference_job;

static espalier_status shift_mesh(espalier_context *ctx, reference_job *job, const esi_mesh *mesh)
{
    const double largest = (double)ESI_MAX(job->cell_size[0], ESI_MAX(job->cell_size[1], job->cell_size[2]));

    job->shifted = esi_alloc(ctx, (size_t)mesh->n_vertices, 3 * sizeof *job->shifted, "shifted mesh");
    job->points = esi_alloc(ctx, (size_t)mesh->n_vertices, 3 * sizeof *job->points, "shifted mesh");
    if (!job->shifted || !job->points) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * mesh->n_vertices; i++) {
        job->shifted[i] = mesh->vertices[i] - job->o->aabb_min[i % 3];
        job->points[i] = (double)job->shifted[i] / (double)job->cell_size[i % 3];
    }
    job->mesh = (esi_cell_mesh){.points = job->points, .shifted = job->shifted, .faces = mesh->faces, .n_points = mesh->n_vertices,
                                .n_faces = mesh->n_faces};
    for (int a = 0; a < 3; a++) {
        job->mesh.cell_size[a] = job->cell_size[a];
        job->mesh.scale[a] = (double)job->cell_size[a] / largest;
    }
    return ESPALIER_OK;
}

/* Cells in the order in which the crossings touch them first. */
static espalier_status first_touch(espalier_context *ctx, reference_job *job, esi_voxelized *out)
{
    int64_t cap = 1024, count = 0;
    int32_t *coords = NULL, *slots = NULL;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    while (cap < 4 * job->hits.count) cap *= 2;      /* never more cells than that */
    slots = esi_alloc(ctx, (size_t)(2 * cap), sizeof *slots, "cells");
    coords = esi_alloc(ctx, (size_t)(4 * job->hits.count), 4 * sizeof *coords, "cells");
    if (!slots || !coords) goto done;
    memset(slots, 0xff, (size_t)(2 * cap) * sizeof *slots);
    for (int64_t i = 0; i < 4 * job->hits.count; i++) {
        const esi_dual_hit *hit = &job->hits.items[i / 4];
        int32_t row[4] = {0, hit->cell[0], hit->cell[1], hit->cell[2]};
        uint64_t key;
        int64_t slot;

        row[1 + (hit->axis + 1) % 3] += i >> 1 & 1;
        row[1 + (hit->axis + 2) % 3] += i & 1;
        key = esi_key_pack(row) * UINT64_C(0x9e3779b97f4a7c15);
        for (slot = (int64_t)((key ^ key >> 32) & (uint64_t)(2 * cap - 1)); slots[slot] >= 0; slot = (slot + 1) & (2 * cap - 1)) {
            if (memcmp(coords + 4 * (int64_t)slots[slot], row, sizeof row) == 0) break;
        }
        if (slots[slot] >= 0) continue;
        slots[slot] = (int32_t)count;
        memcpy(coords + 4 * count++, row, sizeof row);
    }
    st = count == 0 ? nothing_inside(ctx) : rows_new(ctx, out, count);
    if (st == ESPALIER_OK) memcpy(out->coords, coords, (size_t)count * 4 * sizeof *coords);
done:
    esi_free(ctx, slots);
    esi_free(ctx, coords);
    return st;
}

static espalier_status reference_rows(espalier_context *ctx, reference_job *job, esi_voxelized *out)
{
    espalier_status st = first_touch(ctx, job, out);

    if (st == ESPALIER_OK) st = esi_voxel_index_build(ctx, &job->index, out->coords, out->count);
    if (st != ESPALIER_OK) return st;
    job->rows = (esi_cell_rows){.n = {job->o->resolution[0], job->o->resolution[1], job->o->resolution[2]}, .x1 = job->o->resolution[0],
                                .index = &job->index};
    memset(out->intersected, 0, (size_t)out->count * 3);
    for (int64_t i = 0; i < job->hits.count; i++) {
        const esi_dual_hit *hit = &job->hits.items[i];

        out->intersected[3 * esi_cell_row(&job->rows, hit->cell[0], hit->cell[1], hit->cell[2]) + hit->axis] = 1;
    }
    job->quadrics = esi_calloc(ctx, (size_t)out->count, sizeof *job->quadrics, "quadrics");
    return job->quadrics ? ESPALIER_OK : ESPALIER_ERR_RESOURCE;
}

static espalier_status reference_quadrics(espalier_context *ctx, reference_job *job)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t i = 0; i < job->hits.count; i++) esi_quadrics_add_hit(job->quadrics, &job->rows, &job->mesh, &job->hits.items[i]);
    for (int64_t f = 0; st == ESPALIER_OK && job->o->face_weight > 0.0 && f < job->mesh.n_faces; f++) {
        if ((f & 0xffff) == 0) st = esi_check_cancel(ctx);
        esi_quadrics_add_face(job->quadrics, &job->rows, &job->mesh, (int32_t)f);
    }
    if (st == ESPALIER_OK && job->o->boundary_weight > 0.0) {
        st = esi_boundary_edges(ctx, &job->open_edges, &job->n_open_edges, &job->mesh, false);
        for (int64_t i = 0; st == ESPALIER_OK && i < job->n_open_edges; i++) {
            esi_quadrics_add_line(job->quadrics, &job->rows, &job->mesh, job->open_edges + 2 * i, job->o->boundary_weight,
                                  SHORTEST_EDGE);
        }
    }
    return st;
}

static espalier_status voxelize_as_reference(espalier_context *ctx, esi_voxelized *out, const esi_mesh *mesh, const esi_voxelize_options *o)
{
    reference_job job = {.o = o};
    espalier_status st;

    cell_sizes(o, job.cell_size);
    st = shift_mesh(ctx, &job, mesh);
    if (st == ESPALIER_OK) {
        st = esi_cross_reference(ctx, &job.hits, job.shifted, mesh->faces, mesh->n_faces, o->resolution, job.cell_size);
    }
    if (st == ESPALIER_OK) st = reference_rows(ctx, &job, out);
    if (st == ESPALIER_OK) st = reference_quadrics(ctx, &job);
    for (int64_t i = 0; st == ESPALIER_OK && i < out->count; i++) {
        place_vertex(o, job.mesh.scale, job.cell_size, &job.quadrics[i], out->coords + 4 * i + 1, out->vertices + 3 * i, out->local + 3 * i,
                     &out->stats.clamped);
    }
    out->stats.crossings = job.hits.count;
    esi_free(ctx, job.shifted);
    esi_free(ctx, job.points);
    esi_free(ctx, job.hits.items);
    esi_free(ctx, job.quadrics);
    esi_free(ctx, job.open_edges);
    esi_voxel_index_free(ctx, &job.index);
    return st;
}

espalier_status esi_voxelize(espalier_context *ctx, esi_voxelized *out, const esi_mesh *mesh, const esi_voxelize_options *options)
{
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = check_options(ctx, options);
    if (st == ESPALIER_OK && mesh->n_faces == 0) st = nothing_inside(ctx);
    if (st == ESPALIER_OK) {
        st = options->reference ? voxelize_as_reference(ctx, out, mesh, options) : voxelize_exactly(ctx, out, mesh, options);
    }
    if (st != ESPALIER_OK) esi_voxelized_free(ctx, out);
    return st;
}
