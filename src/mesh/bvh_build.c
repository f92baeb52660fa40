/* SPDX-License-Identifier: MIT
 *
 * bvh_build.c: triangles to a four-wide tree, top down: the longest axis of the box centres is cut where 16 bins say that box area times
 * number is least (Wald, On fast Construction of SAH-based Bounding Volume Hierarchies, 2007). One thread cuts the whole into ranges of a
 * fixed size, which are then finished in parallel; so the tree does not depend on the number of threads.
 */
#include "mesh/bvh_internal.h"

#include <math.h>

#define BINS 16
#define TASK_TRIANGLES 32768       /* a range of at most so many is one task */
#define BLIND_DEPTH 36             /* nodes on a path before ranges are simply halved: 31 halvings end any range */

typedef struct primitive {
    float min[3];
    int32_t face;
    float max[3];
    int32_t unused;
} primitive;

typedef struct range {
    int64_t first, count;
    int depth;
} range;

/* One subtree under construction; the top one leaves ranges to tasks. */
typedef struct builder {
    espalier_context *ctx;
    primitive *primitives;
    bvh_node *nodes;
    int64_t n_nodes, capacity;
    struct task *tasks;            /* top only */
    int64_t n_tasks, task_capacity;
    bool top;
} builder;

typedef struct task {
    range part;
    int32_t node, lane;            /* of the top tree */
    builder subtree;
} task;

typedef struct build_job {
    espalier_context *ctx;
    const esi_mesh *mesh;
    esi_bvh *bvh;
    primitive *primitives;
    builder *top;
    float *reach;                  /* per block */
} build_job;

#define BLOCK 65536

/* -------------------------------------------------------------------- boxes */

typedef struct box { float min[3], max[3]; } box;

static const box empty_box = {{INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}};

static inline void box_add(box *b, const float min[3], const float max[3])
{
    for (int k = 0; k < 3; k++) {
        b->min[k] = min[k] < b->min[k] ? min[k] : b->min[k];
        b->max[k] = max[k] > b->max[k] ? max[k] : b->max[k];
    }
}

static float box_area(const box *b)
{
    const float x = b->max[0] - b->min[0], y = b->max[1] - b->min[1], z = b->max[2] - b->min[2];
    return x * y + y * z + z * x;
}

static inline float centre(const primitive *p, int axis) { return p->min[axis] + p->max[axis]; }      /* twice the middle */

static void make_primitives(void *arg, size_t block, int slot)
{
    const build_job *job = arg;
    const esi_mesh *m = job->mesh;
    const int64_t first = (int64_t)block * BLOCK, end = ESI_MIN(first + BLOCK, m->n_faces);
    float reach = 0.0f;

    (void)slot;
    for (int64_t f = first; f < end; f++) {
        box b = empty_box;

        for (int k = 0; k < 3; k++) {
            const float *v = m->vertices + 3 * (int64_t)m->faces[3 * f + k];
            box_add(&b, v, v);
        }
        memcpy(job->primitives[f].min, b.min, sizeof b.min);
        memcpy(job->primitives[f].max, b.max, sizeof b.max);
        job->primitives[f].face = (int32_t)f;
        job->primitives[f].unused = 0;
        for (int k = 0; k < 3; k++) {
            reach = ESI_MAX(reach, fabsf(b.min[k]));
            reach = ESI_MAX(reach, fabsf(b.max[k]));
        }
    }
    job->reach[block] = reach;
}

/* ------------------------------------------------------------------- cutting */

typedef struct bins {
    box boxes[BINS];
    int64_t count[BINS];
} bins;

static inline int bin_of(float value, float origin, float scale)
{
    const int i = (int)((value - origin) * scale);
    return i < 0 ? 0 : i > BINS - 1 ? BINS - 1 : i;
}

/* The last bin of the left side. */
static int best_cut(const bins *b)
{
    float left_cost[BINS], best = INFINITY;
    box side = empty_box;
    int64_t n = 0;
    int cut = -1;

    for (int i = 0; i < BINS; i++) {
        box_add(&side, b->boxes[i].min, b->boxes[i].max);
        n += b->count[i];
        left_cost[i] = n ? box_area(&side) * (float)n : INFINITY;
    }
    side = empty_box;
    n = 0;
    for (int i = BINS - 1; i > 0; i--) {
        box_add(&side, b->boxes[i].min, b->boxes[i].max);
        n += b->count[i];
        if (!n || left_cost[i - 1] == INFINITY) continue;
        if (cut < 0 || left_cost[i - 1] + box_area(&side) * (float)n < best) {
            best = left_cost[i - 1] + box_area(&side) * (float)n;
            cut = i - 1;
        }
    }
    return cut;
}

static int64_t partition(primitive *p, int64_t count, int axis, float origin, float scale, int cut)
{
    int64_t i = 0, j = count - 1;

    for (;;) {
        while (i <= j && bin_of(centre(&p[i], axis), origin, scale) <= cut) i++;
        while (i <= j && bin_of(centre(&p[j], axis), origin, scale) > cut) j--;
        if (i >= j) return i;
        const primitive swapped = p[i];
        p[i++] = p[j];
        p[j--] = swapped;
    }
}

/* Number of primitives on the left, 1 .. count - 1. */
static int64_t cut_range(const builder *b, const range *r)
{
    primitive *p = b->primitives + r->first;
    box centres = empty_box;
    bins bin;
    int axis = 0;
    float scale;

    if (r->depth > BLIND_DEPTH) return r->count / 2;
    for (int64_t i = 0; i < r->count; i++) {
        const float c[3] = {centre(&p[i], 0), centre(&p[i], 1), centre(&p[i], 2)};
        box_add(&centres, c, c);
    }
    for (int k = 1; k < 3; k++) {
        if (centres.max[k] - centres.min[k] > centres.max[axis] - centres.min[axis]) axis = k;
    }
    scale = (float)BINS / (centres.max[axis] - centres.min[axis]);
    if (!(scale < INFINITY) || !(scale > 0.0f)) return r->count / 2;
    for (int i = 0; i < BINS; i++) {
        bin.boxes[i] = empty_box;
        bin.count[i] = 0;
    }
    for (int64_t i = 0; i < r->count; i++) {
        const int at = bin_of(centre(&p[i], axis), centres.min[axis], scale);
        box_add(&bin.boxes[at], p[i].min, p[i].max);
        bin.count[at]++;
    }
    const int cut = best_cut(&bin);
    if (cut < 0) return r->count / 2;
    return partition(p, r->count, axis, centres.min[axis], scale, cut);
}

/* --------------------------------------------------------------------- nodes */

static int32_t add_node(builder *b)
{
    if (b->n_nodes == b->capacity) {
        const int64_t capacity = ESI_MAX(b->capacity * 2, 64);
        bvh_node *nodes = esi_realloc(b->ctx, b->nodes, (size_t)capacity, sizeof *nodes, "bounding volume tree");

        if (!nodes) return -1;
        b->nodes = nodes;
        b->capacity = capacity;
    }
    bvh_node *n = &b->nodes[b->n_nodes];
    for (int k = 0; k < 3; k++) {
        for (int lane = 0; lane < BVH_WIDTH; lane++) {
            n->min[k][lane] = INFINITY;
            n->max[k][lane] = -INFINITY;
        }
    }
    for (int lane = 0; lane < BVH_WIDTH; lane++) {
        n->child[lane] = 0;
        n->count[lane] = -1;
    }
    return (int32_t)b->n_nodes++;
}

static espalier_status add_task(builder *b, const range *part, int32_t node, int lane)
{
    if (b->n_tasks == b->task_capacity) {
        const int64_t capacity = ESI_MAX(b->task_capacity * 2, 64);
        task *tasks = esi_realloc(b->ctx, b->tasks, (size_t)capacity, sizeof *tasks, "bounding volume tree");

        if (!tasks) return ESPALIER_ERR_RESOURCE;
        b->tasks = tasks;
        b->task_capacity = capacity;
    }
    b->tasks[b->n_tasks++] = (task){.part = *part, .node = node, .lane = lane,
                                    .subtree = {.ctx = b->ctx, .primitives = b->primitives}};
    return ESPALIER_OK;
}

static void set_lane_box(const builder *b, bvh_node *n, int lane, const range *part)
{
    box whole = empty_box;

    for (int64_t i = part->first; i < part->first + part->count; i++) box_add(&whole, b->primitives[i].min, b->primitives[i].max);
    for (int k = 0; k < 3; k++) {
        n->min[k][lane] = whole.min[k];
        n->max[k][lane] = whole.max[k];
    }
}

/* Returns the node's number, -1 when out of memory. */
static int32_t build_node(builder *b, const range *whole)
{
    range parts[BVH_WIDTH] = {*whole};
    const int32_t node = add_node(b);
    int n = 1;

    if (node < 0) return -1;
    if (b->top && esi_check_cancel(b->ctx) != ESPALIER_OK) return -1;
    for (; n < BVH_WIDTH; n++) {                       /* cut the largest part */
        int largest = 0;

        for (int i = 1; i < n; i++) {
            if (parts[i].count > parts[largest].count) largest = i;
        }
        if (parts[largest].count <= BVH_LEAF) break;
        const int64_t left = cut_range(b, &parts[largest]);
        parts[n] = (range){parts[largest].first + left, parts[largest].count - left, 0};
        parts[largest].count = left;
    }
    for (int lane = 0; lane < n; lane++) {
        int32_t child;

        parts[lane].depth = whole->depth + 1;
        set_lane_box(b, &b->nodes[node], lane, &parts[lane]);
        if (parts[lane].count <= BVH_LEAF) {
            b->nodes[node].child[lane] = (int32_t)parts[lane].first;
            b->nodes[node].count[lane] = (int32_t)parts[lane].count;
            continue;
        }
        b->nodes[node].count[lane] = 0;
        if (b->top && parts[lane].count <= TASK_TRIANGLES) {
            if (add_task(b, &parts[lane], node, lane) != ESPALIER_OK) return -1;
            continue;
        }
        child = build_node(b, &parts[lane]);
        if (child < 0) return -1;
        b->nodes[node].child[lane] = child;
    }
    return node;
}

static void build_subtree(void *arg, size_t index, int slot)
{
    const build_job *job = arg;
    task *t = &job->top->tasks[index];

    (void)slot;
    build_node(&t->subtree, &t->part);
}

/* ----------------------------------------------------------------- triangles */

/* On one line, or so near to it that the regions of Ericson's test mean nothing. */
static bool is_line(const bvh_triangle *t)
{
    double a[3][3], ab[3], ac[3], bc[3], n[3], longest;

    for (int k = 0; k < 9; k++) a[k / 3][k % 3] = (double)t->corner[k / 3][k % 3];
    esi_vec_sub(ab, a[1], a[0]);
    esi_vec_sub(ac, a[2], a[0]);
    esi_vec_sub(bc, a[2], a[1]);
    esi_vec_cross(n, ab, ac);
    longest = esi_vec_dot(ab, ab);
    longest = ESI_MAX(longest, esi_vec_dot(ac, ac));
    longest = ESI_MAX(longest, esi_vec_dot(bc, bc));
    return !(esi_vec_dot(n, n) > 1e-24 * longest * longest);
}

static void place_triangles(void *arg, size_t block, int slot)
{
    const build_job *job = arg;
    const esi_mesh *m = job->mesh;
    const int64_t first = (int64_t)block * BLOCK, end = ESI_MIN(first + BLOCK, m->n_faces);

    (void)slot;
    for (int64_t i = first; i < end; i++) {
        const int32_t face = job->primitives[i].face;
        bvh_triangle *t = &job->bvh->triangles[i];

        for (int k = 0; k < 3; k++) memcpy(t->corner[k], m->vertices + 3 * (int64_t)m->faces[3 * (int64_t)face + k], sizeof t->corner[k]);
        t->face = is_line(t) ? ~face : face;
    }
}

/* Top nodes first, then the tasks' in their order. */
static espalier_status join_nodes(espalier_context *ctx, esi_bvh *bvh, builder *top)
{
    int64_t total = top->n_nodes, at = top->n_nodes;

    for (int64_t i = 0; i < top->n_tasks; i++) total += top->tasks[i].subtree.n_nodes;
    bvh->nodes = esi_realloc(ctx, top->nodes, (size_t)total, sizeof *bvh->nodes, "bounding volume tree");
    if (!bvh->nodes) return ESPALIER_ERR_RESOURCE;
    top->nodes = NULL;
    bvh->n_nodes = total;
    for (int64_t i = 0; i < top->n_tasks; i++) {
        task *t = &top->tasks[i];
        bvh_node *to = bvh->nodes + at;

        memcpy(to, t->subtree.nodes, (size_t)t->subtree.n_nodes * sizeof *to);
        esi_free(ctx, t->subtree.nodes);
        t->subtree.nodes = NULL;
        for (int64_t n = 0; n < t->subtree.n_nodes; n++) {
            for (int lane = 0; lane < BVH_WIDTH; lane++) {
                if (to[n].count[lane] == 0) to[n].child[lane] += (int32_t)at;
            }
        }
        bvh->nodes[t->node].child[t->lane] = (int32_t)at;
        at += t->subtree.n_nodes;
    }
    return ESPALIER_OK;
}

static espalier_status build(espalier_context *ctx, esi_bvh *bvh, const esi_mesh *mesh, builder *top)
{
    const size_t blocks = (size_t)((mesh->n_faces + BLOCK - 1) / BLOCK);
    build_job job = {.ctx = ctx, .mesh = mesh, .bvh = bvh, .top = top};
    espalier_status st = ESPALIER_ERR_RESOURCE;

    top->ctx = ctx;
    top->top = true;
    job.reach = esi_calloc(ctx, blocks, sizeof *job.reach, "bounding volume tree");
    job.primitives = top->primitives = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *job.primitives, "bounding volume tree");
    if (!job.reach || !job.primitives) goto done;
    st = esi_parallel(ctx, blocks, make_primitives, &job);
    if (st != ESPALIER_OK) goto done;
    for (size_t i = 0; i < blocks; i++) bvh->reach = ESI_MAX(bvh->reach, job.reach[i]);
    if (build_node(top, &(range){0, mesh->n_faces, 0}) < 0) {
        st = esi_check_cancel(ctx);
        if (st == ESPALIER_OK) st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = esi_parallel(ctx, (size_t)top->n_tasks, build_subtree, &job);
    if (st != ESPALIER_OK) goto done;
    st = join_nodes(ctx, bvh, top);
    if (st != ESPALIER_OK) goto done;
    st = ESPALIER_ERR_RESOURCE;
    bvh->triangles = esi_alloc(ctx, (size_t)mesh->n_faces, sizeof *bvh->triangles, "bounding volume tree");
    if (!bvh->triangles) goto done;
    bvh->n_triangles = mesh->n_faces;
    st = esi_parallel(ctx, blocks, place_triangles, &job);

done:
    esi_free(ctx, job.reach);
    esi_free(ctx, job.primitives);
    return st;
}

espalier_status esi_bvh_build(espalier_context *ctx, esi_bvh **out, const esi_mesh *mesh)
{
    esi_bvh *bvh = NULL;
    builder top = {0};
    espalier_status st;

    *out = NULL;
    if (mesh->n_faces < 1) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "bounding volume tree: the mesh has no faces");
    bvh = esi_calloc(ctx, 1, sizeof *bvh, "bounding volume tree");
    if (!bvh) return ESPALIER_ERR_RESOURCE;
    st = build(ctx, bvh, mesh, &top);
    for (int64_t i = 0; i < top.n_tasks; i++) esi_free(ctx, top.tasks[i].subtree.nodes);
    esi_free(ctx, top.tasks);
    esi_free(ctx, top.nodes);
    if (st != ESPALIER_OK) {
        esi_bvh_free(ctx, bvh);
        return st;
    }
    *out = bvh;
    return ESPALIER_OK;
}

void esi_bvh_free(espalier_context *ctx, esi_bvh *bvh)
{
    if (!bvh) return;
    esi_free(ctx, bvh->nodes);
    esi_free(ctx, bvh->triangles);
    esi_free(ctx, bvh);
}
