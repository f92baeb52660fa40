/* SPDX-License-Identifier: MIT
 *
 * sides.c: face sides sorted by edge. Sides are put into buckets of consecutive lower vertices; within a bucket a counting sort by the
 * lower vertex leaves groups of about three, which are sorted by the higher vertex.
 */
#include "mesh/sides.h"

/* -------------------------------------------------------------- sorting */

typedef struct side_source {
    espalier_context *ctx;
    const esi_mesh *mesh;
    int shift;
} side_source;

static void side_buckets(const void *arg, int64_t begin, int64_t end, uint32_t *bucket)
{
    const side_source *s = arg;
    const int32_t *faces = s->mesh->faces;
    const int64_t n_vertices = s->mesh->n_vertices;
    int k = (int)(begin % 3);

    for (int64_t i = begin; i < end; i++) {
        const int32_t a = faces[i], b = faces[k == 2 ? i - 2 : i + 1];

        k = k == 2 ? 0 : k + 1;
        *bucket++ = a == b ? ESI_NO_BUCKET : (uint32_t)(ESI_MIN(a, b) >> s->shift);
        if (a >= 0 && a < n_vertices) continue;
        bucket[-1] = ESI_NO_BUCKET;
        esi_fail(s->ctx, ESPALIER_ERR_INTERNAL, "mesh: face %lld names vertex %d of %lld", (long long)(i / 3), (int)a,
                 (long long)n_vertices);
    }
}

typedef struct sort_job {
    const esi_mesh *mesh;
    const esi_partition *corners;
    esi_sides *out;
    int32_t *counts;               /* [slot][2^shift + 1] */
    int shift;
} sort_job;

static inline int32_t next_corner(const int32_t *faces, int32_t c, int32_t *other)
{
    const int32_t a = faces[c], b = faces[c % 3 == 2 ? c - 2 : c + 1];

    *other = ESI_MAX(a, b);
    return ESI_MIN(a, b);
}

/* Marks the first side of each edge and counts them. */
static int64_t mark_edges(esi_side *sides, int64_t n)
{
    int64_t edges = 0;
    uint32_t before = 0;

    for (int64_t i = 0; i < n; i++) {
        const uint32_t other = (uint32_t)(sides[i] >> 32);

        if (i == 0 || other != before) {
            sides[i] |= ESI_SIDE_FIRST;
            edges++;
        }
        before = other;
    }
    return edges;
}

static void sort_bucket(void *arg, size_t task, int slot)
{
    const sort_job *j = arg;
    const int32_t *faces = j->mesh->faces, *items = j->corners->items;
    const int64_t begin = j->corners->start[task], end = j->corners->start[task + 1];
    const int32_t base = (int32_t)((int64_t)task << j->shift);
    const int64_t n_keys = INT64_C(1) << j->shift;
    int32_t *count = j->counts + (n_keys + 1) * slot;
    esi_side *sides = j->out->sides + begin;
    int32_t other, place = 0;
    int64_t edges = 0;

    memset(count, 0, (size_t)n_keys * sizeof *count);
    for (int64_t i = begin; i < end; i++) count[next_corner(faces, items[i], &other) - base]++;
    for (int64_t k = 0; k < n_keys; k++) {
        const int32_t here = count[k];

        count[k] = place;
        place += here;
    }
    for (int64_t i = begin; i < end; i++) {
        const int32_t key = next_corner(faces, items[i], &other) - base;

        sides[count[key]++] = (esi_side)(uint32_t)other << 32 | (uint32_t)items[i];
    }
    place = 0;                     /* each count is now where the next key begins */
    for (int64_t k = 0; k < n_keys; k++) {
        const int32_t n = count[k] - place;

        if (n > 1) esi_sort_keys(sides + place, n);
        edges += mark_edges(sides + place, n);
        place = count[k];
    }
    j->out->first_edge[task] = edges;
}

static void sum_edges(esi_sides *s)
{
    int64_t sum = 0;

    for (uint32_t b = 0; b < s->n_buckets; b++) {
        const int64_t here = s->first_edge[b];

        s->first_edge[b] = sum;
        sum += here;
    }
    s->first_edge[s->n_buckets] = s->n_edges = sum;
}

espalier_status esi_sides_build(espalier_context *ctx, esi_sides *out, const esi_mesh *mesh)
{
    side_source source = {ctx, mesh, 0};
    esi_partition corners = {0};
    sort_job j = {.mesh = mesh, .corners = &corners, .out = out};
    espalier_status st;

    memset(out, 0, sizeof *out);
    if (mesh->n_faces < 0 || mesh->n_vertices < 0) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "mesh: negative size");
    if (mesh->n_faces > ESI_MESH_MAX_FACES || mesh->n_vertices > ESI_MESH_MAX_VERTICES) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: %lld vertices and %lld faces are more than can be numbered",
                        (long long)mesh->n_vertices, (long long)mesh->n_faces);
    }
    out->n_buckets = esi_range_buckets(mesh->n_vertices, 3 * mesh->n_faces, &source.shift);
    st = esi_partition_build(ctx, &corners, 3 * mesh->n_faces, out->n_buckets, side_buckets, &source);
    if (st != ESPALIER_OK) goto done;
    j.shift = source.shift;
    out->count = corners.start[out->n_buckets];
    st = ESPALIER_ERR_RESOURCE;
    out->first_edge = esi_calloc(ctx, (size_t)out->n_buckets + 1, sizeof *out->first_edge, "mesh edges");
    if (!out->first_edge) goto done;
    j.counts = esi_alloc(ctx, (size_t)esi_slots(ctx), ((size_t)1 << j.shift) * sizeof *j.counts + sizeof *j.counts, "mesh edges");
    if (!j.counts) goto done;
    out->sides = esi_alloc(ctx, (size_t)out->count, sizeof *out->sides, "mesh edges");
    if (!out->sides) goto done;
    st = esi_parallel(ctx, out->n_buckets, sort_bucket, &j);
    if (st != ESPALIER_OK) goto done;
    sum_edges(out);
    out->start = corners.start;
    corners.start = NULL;
done:
    esi_free(ctx, j.counts);
    esi_partition_free(ctx, &corners);
    if (st != ESPALIER_OK) esi_sides_free(ctx, out);
    return st;
}

void esi_sides_free(espalier_context *ctx, esi_sides *sides)
{
    esi_free(ctx, sides->sides);
    esi_free(ctx, sides->start);
    esi_free(ctx, sides->first_edge);
    memset(sides, 0, sizeof *sides);
}

/* ------------------------------------------------------------ across edges */

typedef struct opposite_job {
    const esi_sides *sides;
    int32_t *out;
} opposite_job;

static void opposite_bucket(void *arg, size_t task, int slot)
{
    const opposite_job *j = arg;
    const esi_side *sides = j->sides->sides;
    const int64_t end = j->sides->start[task + 1];
    int64_t next;

    (void)slot;
    for (int64_t i = j->sides->start[task]; i < end; i = next) {
        const int32_t c = esi_side_corner(sides[i]);

        next = esi_edge_end(j->sides, i, end);
        if (next == i + 1) j->out[c] = -1;
        if (next != i + 2) continue;
        j->out[c] = esi_side_corner(sides[i + 1]);
        j->out[j->out[c]] = c;
    }
}

espalier_status esi_sides_opposite(espalier_context *ctx, int32_t **out, const esi_sides *sides, int64_t n_faces)
{
    opposite_job j = {.sides = sides};
    espalier_status st;

    *out = j.out = esi_alloc(ctx, (size_t)n_faces, 3 * sizeof **out, "mesh neighbours");
    if (!j.out) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; i < 3 * n_faces; i++) j.out[i] = -2;
    st = esi_parallel(ctx, sides->n_buckets, opposite_bucket, &j);
    if (st == ESPALIER_OK) return st;
    esi_free(ctx, *out);
    *out = NULL;
    return st;
}

/* ------------------------------------------------------------ components */

espalier_status esi_sides_join_faces(espalier_context *ctx, int32_t **parent, const esi_sides *sides, int64_t n_faces, bool all_edges)
{
    int32_t *p = *parent = esi_alloc(ctx, (size_t)n_faces, sizeof *p, "mesh components");
    espalier_status st = ESPALIER_OK;
    int64_t next;

    if (!p) return ESPALIER_ERR_RESOURCE;
    for (int64_t f = 0; f < n_faces; f++) p[f] = (int32_t)f;
    for (uint32_t b = 0; b < sides->n_buckets && st == ESPALIER_OK; b++) {
        for (int64_t i = sides->start[b]; i < sides->start[b + 1]; i = next) {
            next = esi_edge_end(sides, i, sides->start[b + 1]);
            if (next - i > 2 && !all_edges) continue;
            for (int64_t k = i + 1; k < next; k++)
                esi_union_join(p, esi_side_corner(sides->sides[i]) / 3, esi_side_corner(sides->sides[k]) / 3);
        }
        st = esi_check_cancel(ctx);
    }
    if (st == ESPALIER_OK) return st;
    esi_free(ctx, p);
    *parent = NULL;
    return st;
}

espalier_status esi_label_components(espalier_context *ctx, int32_t *parent, int64_t n, int32_t *n_components)
{
    espalier_status st = ESPALIER_OK;
    int32_t count = 0;

    /* Parents are lower, so theirs hold labels already. */
    for (int64_t i = 0; i < n && st == ESPALIER_OK; i++) {
        parent[i] = parent[i] == i ? count++ : parent[parent[i]];
        st = esi_poll(ctx, i);
    }
    *n_components = count;
    return st;
}
