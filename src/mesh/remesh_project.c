/* SPDX-License-Identifier: MIT
 *
 * remesh_project.c: the surface at distance epsilon back onto the input.
 *
 * Both sides of an open sheet belong to the piece that is kept, and would end on the same place. So a vertex looks for vertices on the
 * other side of the input, one epsilon below its own nearest point: where those come from a surface that is closer than `keep_apart` to its
 * own, it stops half of what is lacking before the input. Closed objects have nothing there once the walls of their cavities are gone.
 *
 * Vertices with a face that turns over go back, by a little, by more, and at last all of the way, until no face does.
 */
#include "base/math64.h"
#include "mesh/remesh_internal.h"

/* --------------------------------------------------------------------- targets */

typedef struct target_job {
    const remesh_quads *quads;
    const remesh_grid *grid;
    const esi_bvh_hit *hits;
    const int32_t *start;          /* per column of cells: first vertex */
    float *apart;                  /* distance at which the vertex stops */
    float *targets;
    double share, keep_apart;
    int64_t *counts;               /* per block */
} target_job;

static double away_from_input(const target_job *job, int64_t v, double direction[3])
{
    double length2 = 0.0, length;

    for (int k = 0; k < 3; k++) {
        direction[k] = (double)job->quads->vertices[3 * v + k] - (double)job->hits[v].point[k];
        length2 += direction[k] * direction[k];
    }
    length = sqrt(length2);
    for (int k = 0; k < 3 && length > 0.0; k++) direction[k] /= length;
    return length;
}

/* How far from the input the vertex has to stop because of w. */
static double distance_kept(const target_job *job, int64_t v, const double direction[3], int64_t w)
{
    const double cell = (double)job->grid->cell;
    double other[3], between[3], gap, beside2;

    if (!(away_from_input(job, w, other) > 0.0) || esi_vec_dot(other, direction) > -0.5) return 0.0;
    for (int k = 0; k < 3; k++) between[k] = (double)job->hits[v].point[k] - (double)job->hits[w].point[k];
    gap = esi_vec_dot(between, direction);
    beside2 = esi_vec_dot(between, between) - gap * gap;
    if (beside2 > 4.0 * cell * cell || gap >= job->keep_apart || gap < -cell) return 0.0;
    return 0.5 * (job->keep_apart - ESI_MAX(gap, 0.0));
}

static double look_behind(const target_job *job, int64_t v)
{
    const int32_t side = job->grid->resolution;
    const uint16_t(*cells)[3] = (const uint16_t(*)[3])job->quads->cell;
    double direction[3], kept = 0.0;
    int32_t at[3];

    if (!(away_from_input(job, v, direction) > 0.0)) return 0.0;
    for (int k = 0; k < 3; k++) {
        const double p = (double)job->hits[v].point[k] - (double)job->grid->epsilon * direction[k];
        const double i = esi_floor(((p - (double)job->grid->center[k]) / (double)job->grid->scale + 0.5) * (double)side);
        at[k] = (int32_t)(i < 0.0 ? 0.0 : i > (double)(side - 1) ? (double)(side - 1) : i);
    }
    for (int32_t x = ESI_MAX(at[0] - 1, 0); x <= ESI_MIN(at[0] + 1, side - 1); x++) {
        for (int32_t y = ESI_MAX(at[1] - 1, 0); y <= ESI_MIN(at[1] + 1, side - 1); y++) {
            const int32_t *start = job->start + (int64_t)x * side + y;
            int32_t low = start[0], high = start[1];

            while (low < high) {
                const int32_t middle = low + (high - low) / 2;

                if (cells[middle][2] < at[2] - 1) low = middle + 1;
                else high = middle;
            }
            for (; low < start[1] && cells[low][2] <= at[2] + 1; low++) kept = ESI_MAX(kept, distance_kept(job, v, direction, low));
        }
    }
    return kept;
}

static void find_apart(void *arg, size_t block, int slot)
{
    const target_job *job = arg;
    const int64_t first = (int64_t)block * REMESH_BLOCK, end = ESI_MIN(first + REMESH_BLOCK, job->quads->n_vertices);
    int64_t count = 0;

    (void)slot;
    for (int64_t v = first; v < end; v++) {
        job->apart[v] = (float)look_behind(job, v);
        count += job->apart[v] > 0.0f;
    }
    job->counts[block] = count;
}

static void set_targets(void *arg, size_t block, int slot)
{
    const target_job *job = arg;
    const int64_t first = (int64_t)block * REMESH_BLOCK, end = ESI_MIN(first + REMESH_BLOCK, job->quads->n_vertices);

    (void)slot;
    for (int64_t v = first; v < end; v++) {
        double direction[3];
        const double length = away_from_input(job, v, direction);
        const double stop = ESI_MIN(ESI_MAX((1.0 - job->share) * length, job->apart ? (double)job->apart[v] : 0.0), length);

        for (int k = 0; k < 3; k++) {
            const float q = job->hits[v].point[k];
            job->targets[3 * v + k] = stop > 0.0 ? (float)((double)q + stop * direction[k]) : q;
        }
    }
}

/* The rim of a sheet sees nothing behind it, but what it is joined to does. */
static espalier_status spread_apart(espalier_context *ctx, const remesh_quads *q, float **apart)
{
    float *next = esi_alloc(ctx, (size_t)q->n_vertices, sizeof *next, "remesh projection");

    if (!next) return ESPALIER_ERR_RESOURCE;
    memcpy(next, *apart, (size_t)q->n_vertices * sizeof *next);
    for (int64_t i = 0; i < q->n_quads; i++) {
        float most = 0.0f;

        for (int k = 0; k < 4; k++) most = ESI_MAX(most, (*apart)[q->quads[i][k]]);
        for (int k = 0; k < 4 && most > 0.0f; k++) next[q->quads[i][k]] = ESI_MAX(next[q->quads[i][k]], most);
    }
    esi_free(ctx, *apart);
    *apart = next;
    return esi_check_cancel(ctx);
}

static espalier_status find_all_apart(espalier_context *ctx, target_job *job, size_t blocks, int64_t *kept_apart)
{
    const remesh_quads *q = job->quads;
    const int64_t side = job->grid->resolution;
    int32_t *start = esi_calloc(ctx, (size_t)(side * side) + 1, sizeof *start, "remesh projection");
    espalier_status st = ESPALIER_ERR_RESOURCE;

    job->start = start;
    job->counts = esi_calloc(ctx, blocks, sizeof *job->counts, "remesh projection");
    job->apart = esi_alloc(ctx, (size_t)q->n_vertices, sizeof *job->apart, "remesh projection");
    if (!start || !job->counts || !job->apart) goto done;
    for (int64_t v = 0; v < q->n_vertices; v++) start[q->cell[v][0] * side + q->cell[v][1] + 1]++;
    for (int64_t i = 0; i < side * side; i++) start[i + 1] += start[i];
    st = esi_parallel(ctx, blocks, find_apart, job);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < blocks; i++) *kept_apart += job->counts[i];
    for (int round = 0; round < 2 && *kept_apart > 0 && st == ESPALIER_OK; round++) st = spread_apart(ctx, q, &job->apart);

done:
    esi_free(ctx, start);
    esi_free(ctx, job->counts);
    return st;
}

espalier_status remesh_targets(espalier_context *ctx, float **targets, const remesh_quads *q, const remesh_grid *grid, const esi_bvh *bvh,
                               double share, double keep_apart, int64_t *kept_apart)
{
    const size_t blocks = (size_t)((q->n_vertices + REMESH_BLOCK - 1) / REMESH_BLOCK);
    esi_bvh_hit *hits = esi_alloc(ctx, (size_t)q->n_vertices, sizeof *hits, "remesh projection");
    target_job job = {.quads = q, .grid = grid, .hits = hits, .share = share, .keep_apart = keep_apart};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    *kept_apart = 0;
    *targets = job.targets = esi_alloc(ctx, (size_t)q->n_vertices, 3 * sizeof **targets, "remesh projection");
    if (!hits || !*targets) goto done;
    st = esi_bvh_closest_many(ctx, bvh, q->vertices, q->n_vertices, INFINITY, NULL, hits);
    if (st == ESPALIER_OK && keep_apart > 0.0) st = find_all_apart(ctx, &job, blocks, kept_apart);
    if (st == ESPALIER_OK) st = esi_parallel(ctx, blocks, set_targets, &job);

done:
    esi_free(ctx, hits);
    esi_free(ctx, job.apart);
    if (st != ESPALIER_OK) {
        esi_free(ctx, *targets);
        *targets = NULL;
    }
    return st;
}

/* ------------------------------------------------------------------------ moving */

#define STAGES 6
/* Over a sharp edge several vertices have the same nearest points, and the faces between them no area left: the first step leaves such a
 * face a rim of a thirty-second of its width, which nobody sees. */
static const float way[STAGES] = {1.0f, 0.96875f, 0.875f, 0.75f, 0.5f, 0.0f};
/* A face whose area shrinks below this share of what it was counts as turned over. */
#define LEAST_AREA 1e-4

typedef struct move_job {
    const float *from, *to;
    const esi_mesh *mesh;          /* positions now */
    uint8_t *stage;                /* per vertex */
    _Atomic uint8_t *back;         /* per vertex: bit 0 = to be put back, bit 1 = was moved in the last round */
    int64_t *turned, *stuck;       /* per block of faces */
} move_job;

static void face_normal(double n[3], const float *at, const int32_t face[3])
{
    double p[3][3];

    for (int k = 0; k < 3; k++) esi_vec_load(p[k], at, face[k]);
    esi_vec_face_cross(n, p[0], p[1], p[2]);
}

static bool turns_over(const move_job *job, const int32_t face[3])
{
    double before[3], after[3], size;

    face_normal(before, job->from, face);
    size = esi_vec_dot(before, before);
    if (!(size > 0.0)) return false;
    face_normal(after, job->mesh->vertices, face);
    return !(esi_vec_dot(before, after) > 0.0) || !(esi_vec_dot(after, after) > LEAST_AREA * LEAST_AREA * size);
}

static void find_turned(void *arg, size_t block, int slot)
{
    const move_job *job = arg;
    const int64_t first = (int64_t)block * REMESH_BLOCK, end = ESI_MIN(first + REMESH_BLOCK, job->mesh->n_faces);
    int64_t turned = 0;

    (void)slot;
    for (int64_t f = first; f < end; f++) {
        const int32_t *face = job->mesh->faces + 3 * f;
        bool fresh = false;

        for (int k = 0; k < 3; k++) fresh |= (atomic_load_explicit(&job->back[face[k]], memory_order_relaxed) & 2u) != 0;
        if (!fresh || !turns_over(job, face)) continue;
        turned++;
        for (int k = 0; k < 3; k++) atomic_fetch_or_explicit(&job->back[face[k]], 1u, memory_order_relaxed);
    }
    job->turned[block] = turned;
}

/* Returns how many were put back. */
static int64_t step_back(const move_job *job)
{
    int64_t moved = 0;

    for (int64_t v = 0; v < job->mesh->n_vertices; v++) {
        const bool back = (atomic_load_explicit(&job->back[v], memory_order_relaxed) & 1u) != 0 && job->stage[v] + 1 < STAGES;

        atomic_store_explicit(&job->back[v], back ? 2u : 0u, memory_order_relaxed);
        if (!back) continue;
        moved++;
        job->stage[v]++;
        for (int k = 0; k < 3; k++) {
            const float a = job->from[3 * v + k], b = job->to[3 * v + k];
            job->mesh->vertices[3 * v + k] = job->stage[v] + 1 < STAGES ? a + (b - a) * way[job->stage[v]] : a;
        }
    }
    return moved;
}

static espalier_status put_back(espalier_context *ctx, move_job *job, esi_remesh_stats *stats, bool unproject)
{
    const size_t blocks = (size_t)((job->mesh->n_faces + REMESH_BLOCK - 1) / REMESH_BLOCK);
    espalier_status st = ESPALIER_ERR_RESOURCE;
    int64_t turned = 0;

    job->turned = esi_calloc(ctx, blocks, sizeof *job->turned, "remesh projection");
    job->stage = esi_calloc(ctx, (size_t)job->mesh->n_vertices, 1, "remesh projection");
    job->back = esi_alloc(ctx, (size_t)job->mesh->n_vertices, sizeof *job->back, "remesh projection");
    if (!job->turned || !job->stage || !job->back) goto done;
    for (int64_t v = 0; v < job->mesh->n_vertices; v++) atomic_init(&job->back[v], 2u);
    for (int round = 0;; round++) {
        st = esi_parallel(ctx, blocks, find_turned, job);
        if (st != ESPALIER_OK) goto done;
        turned = 0;
        for (size_t i = 0; i < blocks; i++) turned += job->turned[i];
        if (round == 0) stats->flipped_before = turned;
        if (!unproject || step_back(job) == 0) break;
    }
    stats->flipped_after = turned;
    for (int64_t v = 0; v < job->mesh->n_vertices; v++) stats->unprojected += job->stage[v] > 0;

done:
    esi_free(ctx, job->turned);
    esi_free(ctx, job->stage);
    esi_free(ctx, job->back);
    return st;
}

espalier_status remesh_move(espalier_context *ctx, esi_mesh *mesh, const float *targets, bool unproject, esi_remesh_stats *stats)
{
    const size_t bytes = (size_t)mesh->n_vertices * 3 * sizeof *mesh->vertices;
    float *from = esi_alloc(ctx, (size_t)mesh->n_vertices, 3 * sizeof *from, "remesh projection");
    move_job job = {.from = from, .to = targets, .mesh = mesh};
    espalier_status st;

    if (!from) return ESPALIER_ERR_RESOURCE;
    memcpy(from, mesh->vertices, bytes);
    memcpy(mesh->vertices, targets, bytes);
    st = put_back(ctx, &job, stats, unproject);
    esi_free(ctx, from);
    return st;
}
