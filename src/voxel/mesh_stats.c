/* SPDX-License-Identifier: MIT
 *
 * mesh_stats.c: edges and components of a triangle mesh as it is. Half-edges are bucketed by their smaller vertex (counting sort); a
 * bucket holds a handful of entries, and sorting it by the larger vertex brings the uses of one edge together. Faces that share an edge
 * are joined by union-find. Memory: 8 bytes per vertex, 28 per face.
 */
#include "voxel/voxel.h"

typedef struct half_edge {
    int32_t to;                    /* the larger vertex */
    int32_t face;
} half_edge;

typedef struct face_edges {
    int64_t *start;                /* [n_vertices + 1] into entries, by smaller vertex */
    half_edge *entries;
} face_edges;

/* Small buckets by insertion; a vertex with a huge fan must not cost quadratic time, so those go through a heap. The order of equal edges
 * does not matter: only their number and the set of their faces does. */
static void sift_down(half_edge *e, int64_t i, int64_t n)
{
    const half_edge moved = e[i];

    for (;;) {
        int64_t child = 2 * i + 1;

        if (child >= n) break;
        if (child + 1 < n && e[child + 1].to > e[child].to) child++;
        if (e[child].to <= moved.to) break;
        e[i] = e[child];
        i = child;
    }
    e[i] = moved;
}

static void sort_bucket(half_edge *e, int64_t n)
{
    if (n > 64) {
        for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(e, i, n);
        for (int64_t i = n - 1; i > 0; i--) {
            const half_edge top = e[0];

            e[0] = e[i];
            e[i] = top;
            sift_down(e, 0, i);
        }
        return;
    }
    for (int64_t i = 1; i < n; i++) {
        const half_edge moved = e[i];
        int64_t j = i;

        for (; j > 0 && e[j - 1].to > moved.to; j--) e[j] = e[j - 1];
        e[j] = moved;
    }
}

static int32_t find_root(int32_t *parent, int32_t f)
{
    while (parent[f] != f) {
        parent[f] = parent[parent[f]];
        f = parent[f];
    }
    return f;
}

static void join_faces(int32_t *parent, int32_t a, int32_t b)
{
    a = find_root(parent, a);
    b = find_root(parent, b);
    if (a < b) parent[b] = a;
    else parent[a] = b;
}

/* Loops over millions of entries poll the cancel flag every now and then. */
#define POLL_MASK 0xfffff

static espalier_status poll(espalier_context *ctx, int64_t i)
{
    return (i & POLL_MASK) == 0 ? esi_check_cancel(ctx) : ESPALIER_OK;
}

/* Bucket the half-edges. An edge from a vertex to itself (degenerate face) is none. */
static espalier_status bucket_edges(espalier_context *ctx, face_edges *out, const int32_t *faces, int64_t n_faces, int64_t n_vertices)
{
    int64_t *start = out->start;
    int64_t sum = 0;
    espalier_status st = ESPALIER_OK;

    for (int64_t i = 0; st == ESPALIER_OK && i < 3 * n_faces; i++) {
        const int32_t a = faces[i], b = faces[i % 3 == 2 ? i - 2 : i + 1];

        if (a != b) start[ESI_MIN(a, b)]++;
        st = poll(ctx, i);
    }
    if (st != ESPALIER_OK) return st;
    for (int64_t v = 0; v <= n_vertices; v++) {
        const int64_t here = start[v];

        start[v] = sum;
        sum += here;
    }
    out->entries = esi_alloc(ctx, (size_t)sum, sizeof(half_edge), "mesh edges");
    if (!out->entries) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; st == ESPALIER_OK && i < 3 * n_faces; i++) {
        const int32_t a = faces[i], b = faces[i % 3 == 2 ? i - 2 : i + 1];

        if (a != b) out->entries[start[ESI_MIN(a, b)]++] = (half_edge){ESI_MAX(a, b), (int32_t)(i / 3)};
        st = poll(ctx, i);
    }
    for (int64_t v = n_vertices; v > 0; v--) start[v] = start[v - 1];       /* filling moved each start to the next one */
    start[0] = 0;
    return st;
}

static espalier_status count_edges(espalier_context *ctx, esi_mesh_stats *out, const face_edges *edges, int32_t *parent,
                                   int64_t n_vertices)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t v = 0; st == ESPALIER_OK && v < n_vertices; v++) {
        half_edge *e = edges->entries + edges->start[v];
        const int64_t n = edges->start[v + 1] - edges->start[v];

        sort_bucket(e, n);
        for (int64_t i = 0, j; i < n; i = j) {
            for (j = i + 1; j < n && e[j].to == e[i].to; j++) join_faces(parent, e[i].face, e[j].face);
            out->edges++;
            out->boundary_edges += j - i == 1;
            out->nonmanifold_edges += j - i > 2;
        }
        st = poll(ctx, v);
    }
    return st;
}

/* `size` is scratch of n_faces entries. */
static espalier_status count_components(espalier_context *ctx, esi_mesh_stats *out, int32_t *parent, int32_t *size, int64_t n_faces)
{
    espalier_status st = ESPALIER_OK;

    for (int64_t f = 0; f < n_faces; f++) size[f] = 0;
    for (int64_t f = 0; st == ESPALIER_OK && f < n_faces; f++) {
        const int32_t root = find_root(parent, (int32_t)f);

        out->components += root == f;
        size[root]++;
        if ((uint64_t)size[root] > out->largest_component_faces) out->largest_component_faces = (uint64_t)size[root];
        st = poll(ctx, f);
    }
    return st;
}

static espalier_status count_used(espalier_context *ctx, esi_mesh_stats *out, const int32_t *faces, int64_t n_faces, int64_t n_vertices)
{
    uint8_t *used = esi_calloc(ctx, (size_t)n_vertices, 1, "mesh statistics");
    espalier_status st = ESPALIER_OK;

    if (!used) return ESPALIER_ERR_RESOURCE;
    for (int64_t i = 0; st == ESPALIER_OK && i < 3 * n_faces; i++) {
        out->used_vertices += !used[faces[i]];
        used[faces[i]] = 1;
        st = poll(ctx, i);
    }
    esi_free(ctx, used);
    return st;
}

static espalier_status check_mesh(espalier_context *ctx, const int32_t *faces, int64_t n_faces, int64_t n_vertices)
{
    if (n_faces < 0 || n_vertices < 0) return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "mesh: negative size");
    if (n_faces > INT32_MAX || n_vertices > INT32_MAX) {
        return esi_fail(ctx, ESPALIER_ERR_RESOURCE, "mesh: %lld faces, %lld vertices: more than 2^31 - 1", (long long)n_faces,
                        (long long)n_vertices);
    }
    for (int64_t i = 0; i < 3 * n_faces; i++) {
        if (faces[i] >= 0 && faces[i] < n_vertices) continue;
        return esi_fail(ctx, ESPALIER_ERR_INTERNAL, "mesh: face %lld names vertex %d of %lld", (long long)(i / 3), (int)faces[i],
                        (long long)n_vertices);
    }
    return ESPALIER_OK;
}

espalier_status esi_mesh_stats_compute(espalier_context *ctx, esi_mesh_stats *out, const int32_t *faces, int64_t n_faces,
                                       int64_t n_vertices)
{
    face_edges edges = {NULL, NULL};
    int32_t *parent = NULL, *size = NULL;
    espalier_status st;

    memset(out, 0, sizeof *out);
    st = check_mesh(ctx, faces, n_faces, n_vertices);
    if (st != ESPALIER_OK) return st;
    out->vertices = (uint64_t)n_vertices;
    out->faces = (uint64_t)n_faces;
    st = count_used(ctx, out, faces, n_faces, n_vertices);
    if (st != ESPALIER_OK) return st;

    edges.start = esi_calloc(ctx, (size_t)n_vertices + 1, sizeof *edges.start, "mesh edges");
    parent = esi_alloc(ctx, (size_t)n_faces, sizeof *parent, "mesh components");
    if (!edges.start || !parent) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    for (int64_t f = 0; f < n_faces; f++) parent[f] = (int32_t)f;
    st = bucket_edges(ctx, &edges, faces, n_faces, n_vertices);
    if (st != ESPALIER_OK) goto done;
    st = count_edges(ctx, out, &edges, parent, n_vertices);
    if (st != ESPALIER_OK) goto done;
    esi_free(ctx, edges.entries);
    edges.entries = NULL;
    size = esi_alloc(ctx, (size_t)n_faces, sizeof *size, "mesh components");
    if (!size) {
        st = ESPALIER_ERR_RESOURCE;
        goto done;
    }
    st = count_components(ctx, out, parent, size, n_faces);
done:
    esi_free(ctx, size);
    esi_free(ctx, edges.entries);
    esi_free(ctx, edges.start);
    esi_free(ctx, parent);
    return st;
}
