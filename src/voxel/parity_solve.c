/* SPDX-License-Identifier: MIT
 *
 * parity_solve.c: making voxel faces even by the cheapest changes of uncertain edges (geometry of the flexible dual grid: O-Voxel; the
 * repair is our own, a minimum-weight decoding of the odd faces as a syndrome).
 *
 * Edges that share a face form clusters, which do not influence each other. Up to 14 edges all 2^k changes are tried (in Gray code order,
 * so that a step touches four faces) and the smallest (odd faces, faces with more than two edges, cost, bit pattern) wins. Larger clusters
 * flip the best single edge as long as the number of odd faces falls.
 */
#include "voxel/parity.h"

#include "voxel/parity_lattice.h"

#define CLUSTERS_PER_TASK 64
#define MAX_ENUMERATED 14
#define MAX_FACES (4 * MAX_ENUMERATED)

/* ----------------------------------------------------------------- clusters */

typedef struct cluster_job {
    const esi_parity_grid *grid;
    uint8_t *flags;                /* the grid's */
    const esi_parity_edges *candidates;
    esi_repair_mode mode;
    int32_t *parent;               /* [candidates] union-find, lowest is root; afterwards the root itself */
    int32_t *order;                /* candidates by cluster, then ascending */
    int64_t *first;                /* [clusters + 1] into order */
    int64_t n_clusters;
    esi_repair_stats *by_task;
    int64_t *odd_change;           /* by task */
} cluster_job;

/* Number of a candidate edge, or -1. */
static int32_t candidate_of(const esi_parity_edges *c, int64_t edge)
{
    int64_t low = 0, high = c->count;

    while (low < high) {
        const int64_t middle = low + (high - low) / 2;

        if (c->edges[middle] < edge) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->count && c->edges[low] == edge ? (int32_t)low : -1;
}

/* Edges of the face between the cursor's row n and the next along `direction`. */
static void face_edges(esi_voxel_cursor *cursor, int32_t n, int direction, int32_t rows[4], int axes[4])
{
    int a, b;

    esi_other_axes(direction, &a, &b);
    rows[0] = rows[2] = n;
    rows[1] = esi_row_beside(cursor, b, -1);
    rows[3] = esi_row_beside(cursor, a, -1);
    axes[0] = axes[1] = a;
    axes[2] = axes[3] = b;
}

/* Faces of an edge, as face numbers. */
static void edge_faces(const esi_parity_grid *g, esi_voxel_cursor *cursor, int64_t edge, int64_t faces[4])
{
    const int64_t row = edge / 3;
    const int axis = (int)(edge % 3);
    int b, c;

    esi_other_axes(axis, &b, &c);
    esi_voxel_cursor_move(cursor, g->coords + 4 * row);
    faces[0] = 3 * row + b;
    faces[1] = 3 * row + c;
    faces[2] = 3 * (int64_t)esi_row_beside(cursor, b, 1) + c;
    faces[3] = 3 * (int64_t)esi_row_beside(cursor, c, 1) + b;
}

/* Edges around a face that are complete: numbers into `edges`, how many are on into *on. */
static int face_complete_edges(const esi_parity_grid *g, esi_voxel_cursor *cursor, int64_t face, int64_t edges[4], int *on)
{
    int32_t rows[4];
    int axes[4], n = 0;

    *on = 0;
    esi_voxel_cursor_move(cursor, g->coords + 4 * (face / 3));
    face_edges(cursor, (int32_t)(face / 3), (int)(face % 3), rows, axes);
    for (int i = 0; i < 4; i++) {
        if (rows[i] < 0 || !(g->complete[rows[i]] >> axes[i] & 1)) continue;
        *on += g->flags[3 * (int64_t)rows[i] + axes[i]] != 0;
        edges[n++] = 3 * (int64_t)rows[i] + axes[i];
    }
    return n;
}

static int32_t root_of(int32_t *parent, int32_t i)
{
    while (parent[i] != i) {
        parent[i] = parent[parent[i]];
        i = parent[i];
    }
    return i;
}

static espalier_status join_clusters(espalier_context *ctx, cluster_job *job)
{
    const esi_parity_grid *g = job->grid;
    esi_voxel_cursor cursor;

    esi_voxel_cursor_init(&cursor, g->index);
    for (int32_t i = 0; i < (int32_t)job->candidates->count; i++) job->parent[i] = i;
    for (int32_t i = 0; i < (int32_t)job->candidates->count; i++) {
        int64_t faces[4];

        if ((i & 0xffff) == 0 && esi_check_cancel(ctx) != ESPALIER_OK) return ESPALIER_ERR_CANCELLED;
        edge_faces(g, &cursor, job->candidates->edges[i], faces);
        for (int f = 0; f < 4; f++) {
            int64_t edges[4];
            int on;
            const int n = face_complete_edges(g, &cursor, faces[f], edges, &on);

            for (int e = 0; e < n; e++) {
                int32_t other, a, b;

                if (edges[e] <= job->candidates->edges[i]) continue;          /* pairs once */
                other = candidate_of(job->candidates, edges[e]);
                if (other < 0) continue;
                a = root_of(job->parent, i);
                b = root_of(job->parent, other);
                if (a < b) job->parent[b] = a;
                if (b < a) job->parent[a] = b;
            }
        }
    }
    return ESPALIER_OK;
}

/* Candidates in the order of their cluster's lowest edge; needs parent[]. */
static espalier_status list_clusters(espalier_context *ctx, cluster_job *job)
{
    const int32_t n = (int32_t)job->candidates->count;
    int32_t *number = esi_alloc(ctx, (size_t)n, sizeof *number, "voxel parity");

    if (!number) return ESPALIER_ERR_RESOURCE;
    for (int32_t i = 0; i < n; i++) {
        const int32_t root = root_of(job->parent, i);

        number[i] = root == i ? (int32_t)job->n_clusters++ : number[root];
    }
    job->first = esi_calloc(ctx, (size_t)job->n_clusters + 2, sizeof *job->first, "voxel parity");
    job->order = esi_alloc(ctx, (size_t)n, sizeof *job->order, "voxel parity");
    if (!job->first || !job->order) {
        esi_free(ctx, number);
        return ESPALIER_ERR_RESOURCE;
    }
    for (int32_t i = 0; i < n; i++) job->first[number[i] + 2]++;
    for (int64_t k = 0; k <= job->n_clusters; k++) job->first[k + 1] += job->first[k];
    for (int32_t i = 0; i < n; i++) job->order[job->first[number[i] + 1]++] = i;
    esi_free(ctx, number);
    return ESPALIER_OK;
}

/* ------------------------------------------------------- small clusters: all */

typedef struct small_cluster {
    int n_edges, n_faces;
    int64_t edge[MAX_ENUMERATED];
    double cost[MAX_ENUMERATED];
    bool on[MAX_ENUMERATED];
    int64_t face[MAX_FACES];
    int8_t face_of[MAX_ENUMERATED][4];
    int8_t count[MAX_FACES];       /* edges on */
    int odd, over;                 /* faces with an odd number; with more than two */
} small_cluster;

static int find_face(small_cluster *s, int64_t face)
{
    for (int f = 0; f < s->n_faces; f++) {
        if (s->face[f] == face) return f;
    }
    s->face[s->n_faces] = face;
    return s->n_faces++;
}

static void small_load(const cluster_job *job, esi_voxel_cursor *cursor, const int32_t *members, int n, small_cluster *s)
{
    const esi_parity_grid *g = job->grid;

    s->n_edges = n;
    s->n_faces = s->odd = s->over = 0;
    for (int i = 0; i < n; i++) {
        int64_t faces[4];

        s->edge[i] = job->candidates->edges[members[i]];
        s->cost[i] = (double)job->candidates->costs[members[i]];
        s->on[i] = g->flags[s->edge[i]] != 0;
        edge_faces(g, cursor, s->edge[i], faces);
        for (int f = 0; f < 4; f++) s->face_of[i][f] = (int8_t)find_face(s, faces[f]);
    }
    for (int f = 0; f < s->n_faces; f++) {
        int64_t edges[4];
        int on;

        face_complete_edges(g, cursor, s->face[f], edges, &on);
        s->count[f] = (int8_t)on;
        s->odd += on & 1;
        s->over += on > 2;
    }
}

static void small_flip(small_cluster *s, int i)
{
    const int by = s->on[i] ? -1 : 1;

    s->on[i] = !s->on[i];
    for (int f = 0; f < 4; f++) {
        int8_t *count = &s->count[s->face_of[i][f]];

        s->over -= *count > 2;
        *count = (int8_t)(*count + by);
        s->over += *count > 2;
        s->odd += *count & 1 ? 1 : -1;
    }
}

static double pattern_cost(const small_cluster *s, unsigned pattern)
{
    double sum = 0.0;

    for (int i = 0; i < s->n_edges; i++) {
        if (pattern >> i & 1) sum += s->cost[i];
    }
    return sum;
}

/* Best pattern of flips; *odd: what it leaves. */
static unsigned small_best(small_cluster *s, int *odd)
{
    unsigned pattern = 0, best = 0;
    int best_odd = s->odd, best_over = s->over;
    double best_cost = 0.0;

    for (unsigned step = 1; step < 1u << s->n_edges; step++) {
        int bit = 0;
        double cost;

        while (!(step >> bit & 1)) bit++;
        small_flip(s, bit);
        pattern ^= 1u << bit;
        if (s->odd > best_odd || (s->odd == best_odd && s->over > best_over)) continue;
        cost = pattern_cost(s, pattern);
        if (s->odd == best_odd && s->over == best_over && (cost > best_cost || (cost == best_cost && pattern > best))) continue;
        best = pattern;
        best_odd = s->odd;
        best_over = s->over;
        best_cost = cost;
    }
    *odd = best_odd;
    return best;
}

static void note_flip(uint8_t *flags, int64_t edge, esi_repair_stats *stats)
{
    flags[edge] = !flags[edge];
    stats->flips++;
    if (flags[edge]) {
        stats->flips_on++;
    } else {
        stats->flips_off++;
    }
}

static void solve_small(const cluster_job *job, esi_voxel_cursor *cursor, const int32_t *members, int n, esi_repair_stats *stats,
                        int64_t *odd_change)
{
    small_cluster s;
    unsigned pattern;
    int before, after;

    small_load(job, cursor, members, n, &s);
    before = s.odd;
    if (before == 0) return;
    stats->clusters_odd++;
    pattern = small_best(&s, &after);
    if (job->mode == ESI_REPAIR_CLOSE && after > 0) return;
    for (int i = 0; i < n; i++) {
        if (pattern >> i & 1) note_flip(job->flags, s.edge[i], stats);
    }
    *odd_change += after - before;
}

/* ------------------------------------------------- large clusters: best first */

/* What flipping an edge would change. */
typedef struct flip_gain {
    int odd, over;
    float cost;
    int32_t candidate;
} flip_gain;

static bool better(const flip_gain *a, const flip_gain *b)
{
    if (a->odd != b->odd) return a->odd < b->odd;
    if (a->over != b->over) return a->over < b->over;
    if (!(a->cost == b->cost)) return a->cost < b->cost;
    return a->candidate < b->candidate;
}

static flip_gain gain_of(const cluster_job *job, esi_voxel_cursor *cursor, int32_t candidate)
{
    const int64_t edge = job->candidates->edges[candidate];
    flip_gain gain = {.cost = job->candidates->costs[candidate], .candidate = candidate};
    const int by = job->grid->flags[edge] ? -1 : 1;
    int64_t faces[4], edges[4];

    edge_faces(job->grid, cursor, edge, faces);
    for (int f = 0; f < 4; f++) {
        int on;

        face_complete_edges(job->grid, cursor, faces[f], edges, &on);
        gain.odd += on & 1 ? -1 : 1;
        gain.over += (on + by > 2) - (on > 2);
    }
    return gain;
}

typedef struct gain_heap {
    flip_gain *items;
    int64_t count, cap;
} gain_heap;

static espalier_status heap_push(espalier_context *ctx, gain_heap *h, flip_gain gain)
{
    int64_t i;

    if (h->count == h->cap) {
        flip_gain *items = esi_realloc(ctx, h->items, (size_t)(h->cap ? 2 * h->cap : 256), sizeof *items, "voxel parity");

        if (!items) return ESPALIER_ERR_RESOURCE;
        h->items = items;
        h->cap = h->cap ? 2 * h->cap : 256;
    }
    for (i = h->count++; i > 0 && better(&gain, &h->items[(i - 1) / 2]); i = (i - 1) / 2) h->items[i] = h->items[(i - 1) / 2];
    h->items[i] = gain;
    return ESPALIER_OK;
}

static flip_gain heap_pop(gain_heap *h)
{
    const flip_gain top = h->items[0], last = h->items[--h->count];
    int64_t i = 0, child;

    while ((child = 2 * i + 1) < h->count) {
        if (child + 1 < h->count && better(&h->items[child + 1], &h->items[child])) child++;
        if (!better(&h->items[child], &last)) break;
        h->items[i] = h->items[child];
        i = child;
    }
    h->items[i] = last;
    return top;
}

/* Push the candidates around an edge that would now lower the number of odd faces. */
static espalier_status push_around(espalier_context *ctx, const cluster_job *job, esi_voxel_cursor *cursor, gain_heap *heap, int64_t edge)
{
    int64_t faces[4], edges[4];
    espalier_status st = ESPALIER_OK;

    edge_faces(job->grid, cursor, edge, faces);
    for (int f = 0; f < 4; f++) {
        int on;
        const int n = face_complete_edges(job->grid, cursor, faces[f], edges, &on);

        for (int e = 0; st == ESPALIER_OK && e < n; e++) {
            const int32_t candidate = candidate_of(job->candidates, edges[e]);
            flip_gain gain;

            if (candidate < 0) continue;
            gain = gain_of(job, cursor, candidate);
            if (gain.odd < 0) st = heap_push(ctx, heap, gain);
        }
    }
    return st;
}

/* Flips go to `undo` so that a result that is not wanted can be taken back. */
static espalier_status solve_large(espalier_context *ctx, const cluster_job *job, const int32_t *members, int64_t n,
                                   esi_repair_stats *stats, int64_t *odd_change)
{
    gain_heap heap = {0};
    esi_voxel_cursor cursor;
    bool touches_odd = false;
    int64_t change = 0, flips = 0, left = 0;
    int32_t *undo = NULL;
    espalier_status st = ESPALIER_OK;

    esi_voxel_cursor_init(&cursor, job->grid->index);
    for (int64_t i = 0; st == ESPALIER_OK && i < n; i++) {
        const flip_gain gain = gain_of(job, &cursor, members[i]);

        touches_odd |= gain.odd < 4;
        if (gain.odd < 0) st = heap_push(ctx, &heap, gain);
        if (st == ESPALIER_OK && (i & 0xffff) == 0) st = esi_check_cancel(ctx);
    }
    if (st != ESPALIER_OK || !touches_odd) goto done;
    stats->clusters_odd++;
    undo = esi_alloc(ctx, (size_t)(2 * n), sizeof *undo, "voxel parity");         /* the odd count, at most 4 n, falls by 2 a time */
    if (!undo) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    while (st == ESPALIER_OK && heap.count > 0) {
        const flip_gain top = heap_pop(&heap), now = gain_of(job, &cursor, top.candidate);
        const int64_t edge = job->candidates->edges[top.candidate];

        if (now.odd >= 0 || now.odd != top.odd || now.over != top.over) continue;       /* its present gain was pushed when it changed */
        job->flags[edge] = !job->flags[edge];
        change += now.odd;
        undo[flips++] = top.candidate;
        st = push_around(ctx, job, &cursor, &heap, edge);
        if (st == ESPALIER_OK && (flips & 0xfff) == 0) st = esi_check_cancel(ctx);
    }
    for (int64_t i = 0; i < n && job->mode == ESI_REPAIR_CLOSE; i++) left += gain_of(job, &cursor, members[i]).odd < 4;
    for (int64_t i = 0; i < flips; i++) {
        const int64_t edge = job->candidates->edges[undo[i]];

        job->flags[edge] = !job->flags[edge];
    }
    if (left > 0) goto done;
    for (int64_t i = 0; i < flips; i++) note_flip(job->flags, job->candidates->edges[undo[i]], stats);
    *odd_change += change;
done:
    esi_free(ctx, undo);
    esi_free(ctx, heap.items);
    return st;
}

/* --------------------------------------------------------------------- all */

static void solve_clusters(void *arg, size_t task, int slot)
{
    const cluster_job *job = arg;
    const int64_t begin = (int64_t)task * CLUSTERS_PER_TASK, end = ESI_MIN(begin + CLUSTERS_PER_TASK, job->n_clusters);
    esi_voxel_cursor cursor;

    (void)slot;
    esi_voxel_cursor_init(&cursor, job->grid->index);
    for (int64_t k = begin; k < end; k++) {
        const int64_t n = job->first[k + 1] - job->first[k];

        if (n <= MAX_ENUMERATED) {
            solve_small(job, &cursor, job->order + job->first[k], (int)n, &job->by_task[task], &job->odd_change[task]);
        }
    }
}

espalier_status esi_parity_solve(espalier_context *ctx, const esi_parity_grid *grid, uint8_t *flags, const esi_parity_edges *candidates,
                                 esi_repair_mode mode, esi_repair_stats *stats, int64_t *odd_change)
{
    cluster_job job = {.grid = grid, .flags = flags, .candidates = candidates, .mode = mode};
    size_t tasks = 0;
    espalier_status st = ESPALIER_ERR_RESOURCE;

    if (candidates->count == 0) return ESPALIER_OK;
    if (candidates->count > INT32_MAX) return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "voxel parity: more than 2^31 uncertain edges");
    job.parent = esi_alloc(ctx, (size_t)candidates->count, sizeof *job.parent, "voxel parity");
    if (!job.parent) goto done;
    st = join_clusters(ctx, &job);
    if (st == ESPALIER_OK) st = list_clusters(ctx, &job);
    if (st != ESPALIER_OK) goto done;
    tasks = (size_t)((job.n_clusters + CLUSTERS_PER_TASK - 1) / CLUSTERS_PER_TASK);
    job.by_task = esi_calloc(ctx, tasks, sizeof *job.by_task, "voxel parity");
    job.odd_change = esi_calloc(ctx, tasks, sizeof *job.odd_change, "voxel parity");
    if (!job.by_task || !job.odd_change) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = esi_parallel(ctx, tasks, solve_clusters, &job);
    for (int64_t k = 0; st == ESPALIER_OK && k < job.n_clusters; k++) {
        const int64_t n = job.first[k + 1] - job.first[k];

        if (n <= MAX_ENUMERATED) continue;
        stats->clusters_large++;
        st = solve_large(ctx, &job, job.order + job.first[k], n, stats, odd_change);
    }
    stats->clusters += job.n_clusters;
    for (size_t t = 0; t < tasks; t++) {
        stats->clusters_odd += job.by_task[t].clusters_odd;
        stats->flips += job.by_task[t].flips;
        stats->flips_on += job.by_task[t].flips_on;
        stats->flips_off += job.by_task[t].flips_off;
        *odd_change += job.odd_change[t];
    }
done:
    esi_free(ctx, job.parent);
    esi_free(ctx, job.order);
    esi_free(ctx, job.first);
    esi_free(ctx, job.by_task);
    esi_free(ctx, job.odd_change);
    return st;
}
